"""Slices: what a batch takes of a device's memory, and its cut into parts that fit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyopencl as cl

from clhines.errors import DeviceMemoryError
from clhines.forest import Forest
from clhines.plan.plan import MAX_PLACES, Plan

STAGES = 3  # slices on the device: one comes in, one is solved, one goes out
_ARRAYS = 8  # d, u, l, b, factor, x in device order; one array in natural order, twice
_TABLE_BYTES = 4  # a node, at the least: its place in natural order
_Method = TypeVar("_Method", bound=Callable[..., Any])
_PERIODS = 64  # places where a pattern of shapes may begin again that are looked at


def size_text(count: int) -> str:
    """Return a number of bytes for reading."""
    if count < 1 << 14:
        return f"{count} bytes"
    return f"{count / 2**20:.1f} MiB" if count >= 1 << 20 else f"{count / 2**10:.1f} KiB"


@dataclass(frozen=True)
class Room:
    """What of a device a batch may take.

    Attributes
    ----------
    device : str
        Its name, for messages.
    memory : int
        Bytes in all.
    largest : int
        Bytes of one array.
    itemsize : int
        Bytes of a value.
    """

    device: str
    memory: int
    largest: int
    itemsize: int

    def needed(self, plan: Plan) -> int:
        """Bytes that a batch of this plan takes at most, with one right-hand side."""
        return plan.bytes_needed(self.itemsize, _ARRAYS)

    def fits(self, plan: Plan, times: int = 1) -> bool:
        """Whether so many batches of the plan fit."""
        one = plan.packed_size * self.itemsize
        return one <= self.largest and self.needed(plan) * times <= self.memory

    def rows_at_once(self, plan: Plan, times: int = 1) -> int:
        """Right-hand sides that fit beside so many batches: b and x, in both orders, for each."""
        most = max(part.max_rhs for part in plan.parts)
        one = plan.packed_size * self.itemsize
        needed = (self.needed(plan) + 4 * one * (most - 1)) * times
        return most if needed <= self.memory and one * most <= self.largest else 1

    def plan(self, forest: Forest, make: Callable[[Forest], Plan]) -> tuple[list[Plan], np.ndarray]:
        """Plan the whole batch, or as few slices of whole cells as fit, evenly filled.

        Slices are small enough for `STAGES` of them to be on the device at once, but for cells
        that need it for themselves.

        Returns
        -------
        plans : list of Plan
        bounds : (len(plans) + 1,) int64
            First cell of each slice, and the end.

        Raises
        ------
        DeviceMemoryError
            Not even one cell fits.
        """
        if self._least_slices(forest, self.memory) == 1:
            whole = make(forest)
            if self.fits(whole):
                return [whole], np.array([0, forest.num_cells])
            if forest.num_cells == 1:
                self._refuse(0, whole)

        def fits(cell: int, made: Plan) -> bool:
            if self.fits(made, STAGES):
                return True
            if made.forest.num_cells > 1:
                return False
            if not self.fits(made):
                self._refuse(cell, made)
            return True

        count = self._least_slices(forest, self.memory // STAGES)
        return plan_slices(forest, count, make, fits)

    def _least_slices(self, forest: Forest, memory: int) -> int:
        """Fewest slices that can fit into so many bytes, by the size of their arrays."""
        n = forest.num_nodes
        needed = n * (self.itemsize * _ARRAYS + _TABLE_BYTES)
        count = max(-(-n * self.itemsize // self.largest), -(-needed // max(memory, 1)))
        return min(max(count, -(-n // MAX_PLACES), 1), forest.num_cells)

    def _refuse(self, cell: int, plan: Plan) -> None:
        raise DeviceMemoryError(
            f"cell {cell} with {plan.forest.num_nodes} nodes needs {size_text(self.needed(plan))}, "
            f"in arrays of {size_text(plan.packed_size * self.itemsize)}; {self.device} offers "
            f"{size_text(self.memory)}, in arrays of at most {size_text(self.largest)}"
        )


@dataclass(frozen=True)
class Memory:
    """What the solves of a batch take on one device, at most.

    Attributes
    ----------
    device : int
        Bytes of device memory: values in both orders, factors, tables.
    pinned : int
        Bytes of pinned host memory, through which values are copied.
    slices : int
        In which the batch is solved.
    """

    device: int
    pinned: int
    slices: int

    def __str__(self) -> str:
        text = f"{size_text(self.device)} on the device"
        text += f", {size_text(self.pinned)} of pinned host memory" if self.pinned else ""
        return text + (f", in {self.slices} slices" if self.slices > 1 else "")


def memory_errors(method: _Method) -> _Method:
    """Turn OpenCL's out-of-memory errors of a method into `DeviceMemoryError`.

    Its object has `memory`, one item a device, and `queue`, that of the first.
    """

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except cl.MemoryError as error:
            device, slices = self.queue.device, max(memory.slices for memory in self.memory)
            what = f"the batch in {slices} slices needs" if slices > 1 else "the batch needs"
            need = max(memory.device for memory in self.memory)
            raise DeviceMemoryError(
                f"{device.name.strip()} has no memory left: {what} {size_text(need)} of its "
                f"{size_text(device.global_mem_size)}; a smaller max_memory makes smaller "
                "slices"
            ) from error

    return wrapped  # type: ignore[return-value]


def bytes_needed(plans: Sequence[Plan], itemsize: int, rows: int) -> int:
    """Device memory that a `Pipeline` takes at most: unsymmetric, so many rows at once."""
    most = max(plan.forest.num_nodes for plan in plans)
    cells = max(plan.forest.num_cells for plan in plans)
    packed = max(plan.packed_size for plan in plans)
    natural = all(plan.takes_natural for plan in plans)
    slots = min(STAGES, len(plans))
    arrays = 3 + 2 * rows  # d, u, l; b, x
    values = slots * arrays * most + (0 if natural else arrays * packed)
    values += packed if any(plan.needs_factor for plan in plans) else 0
    tables = 0
    for plan in plans:
        scratch = sum(plan.scratch) * itemsize * 5
        here = plan.bytes_needed(itemsize, 0) + scratch + 4 * plan.forest.num_cells
        if natural:
            shapes = plan.forest.trees
            here += 4 * (len(shapes.parent) * 2 + 4 * plan.forest.num_cells)
        tables = max(tables, here)
    different = min(2, len({id(plan) for plan in plans}))  # that in use, and the next
    return values * itemsize + slots * 4 * cells + different * tables


def plan_slices(
    forest: Forest, count: int, plan: Callable[[Forest], Plan], fits: Callable[[int, Plan], bool]
) -> tuple[list[Plan], np.ndarray]:
    """Plan a batch in slices of whole cells, about `count` or more where these do not fit.

    Where the shapes of the cells repeat, slices are cut so that they have one plan.

    Parameters
    ----------
    fits : callable
        ``fits(cell, plan)``: whether a slice that begins with that cell fits; raises where it is
        one cell, which cannot be made smaller.

    Returns
    -------
    plans : list of Plan
    bounds : (len(plans) + 1,) int64
        First cell of each slice, and the end.
    """
    made: dict[tuple[int, int], Plan] = {}
    period = _period(forest.shape_of_cell)

    def plan_of(lo: int, hi: int) -> Plan:
        key = lo % period, hi - lo
        if key not in made:
            whole = hi - lo == forest.num_cells
            made[key] = plan(forest if whole else forest.take(np.arange(lo, hi)))
        return made[key]

    edges = _even_cuts(forest, count)
    per_slice = forest.num_cells // count // period * period
    while per_slice:
        if fits(0, plan_of(0, per_slice)):
            edges = np.append(np.arange(0, forest.num_cells, per_slice), forest.num_cells)
            break
        per_slice = per_slice * 4 // 5 // period * period
    waiting = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))[::-1]
    plans, bounds = [], [0]
    while waiting:
        lo, hi = waiting.pop()
        if fits(lo, plan_of(lo, hi)):
            plans.append(plan_of(lo, hi))
            bounds.append(hi)
            continue
        # padding and tables take more than the estimate: halve this slice
        middle = forest.cell_offsets[[lo, hi]].mean()
        half = int(np.searchsorted(forest.cell_offsets, middle))
        half = min(max(half, lo + 1), hi - 1)
        waiting += [(half, hi), (lo, half)]
    return plans, np.array(bounds)


def _even_cuts(forest: Forest, count: int) -> np.ndarray:
    """First cells of at most `count` slices with about as many nodes each, and the end."""
    targets = forest.num_nodes * np.arange(1, count) / count
    cuts = np.searchsorted(forest.cell_offsets, targets)
    return np.unique(np.concatenate(([0], cuts, [forest.num_cells])))


def _period(shapes: np.ndarray) -> int:
    """After how many cells the shapes begin again; their number where they do not."""
    count = len(shapes)
    for k in (np.flatnonzero(shapes[1:] == shapes[0])[:_PERIODS] + 1).tolist():
        begin = min(k, count - k)
        if np.array_equal(shapes[k : k + begin], shapes[:begin]) and np.array_equal(
            shapes[k:], shapes[:-k]
        ):
            return k
    return count
