"""Device memory: lists of buffers, which are counted and then allocated, and slices that fit.

A list of `Buffer` is the only account: budgets, slices and `Solver.memory` add up its bytes, and
`Buffers` allocates device memory from the same list. An unlisted buffer cannot be allocated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.errors import DeviceMemoryError
from clhines.solver.forest import Forest
from clhines.solver.plan.plan import MAX_PLACES, Plan

STAGES = 3  # slices on the device: one comes in, one is solved, one goes out
_ARRAYS = 6  # of about one value per node: d, u, l, b, x, and one more in the other order
_TABLE_BYTES = 4  # per node, at least: its index in natural order
_INT = np.dtype(np.int32)
OPERANDS = {3: ("d", "u", "b"), 4: ("d", "u", "l", "b")}  # symmetric, unsymmetric
_Method = TypeVar("_Method", bound=Callable[..., Any])
_PERIODS = 64  # candidates for the period of a pattern of shapes that are checked


def size_text(count: int) -> str:
    if count < 1 << 14:
        return f"{count} bytes"
    return f"{count / 2**20:.1f} MiB" if count >= 1 << 20 else f"{count / 2**10:.1f} KiB"


@dataclass(frozen=True)
class Buffer:
    name: str
    size: int
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


class Buffers:
    """Device buffers of a list, each allocated when it is first used."""

    def __init__(self, listed: Sequence[Buffer], queue: cl.CommandQueue) -> None:
        self.listed, self.queue = {one.name: one for one in listed}, queue
        self._arrays: dict[str, cla.Array] = {}

    def __getitem__(self, name: str) -> cla.Array:
        """Return the whole buffer, (size,); `KeyError` for one that is not listed."""
        if name not in self._arrays:
            one = self.listed[name]
            self._arrays[name] = cla.Array(self.queue, one.size, one.dtype)
        return self._arrays[name]

    def put(self, name: str, values: np.ndarray) -> cla.Array:
        whole = self[name]
        if values.size:
            cl.enqueue_copy(self.queue, whole.base_data, np.ascontiguousarray(values))
        return whole

    def view(self, name: str, shape: tuple[int, ...]) -> cla.Array:
        whole = self[name]
        return cla.Array(self.queue, shape, whole.dtype, data=whole.base_data)


class KeptBuffers:
    """Buffers that stay until others are asked for: releasing one makes some drivers wait."""

    def __init__(self, queue: cl.CommandQueue) -> None:
        self._queue = queue
        self._kept: Buffers | None = None

    def holds(self, listed: list[Buffer]) -> bool:
        kept = {} if self._kept is None else self._kept.listed
        return all(b.name in kept and b.size <= kept[b.name].size for b in listed)

    def of(self, listed: list[Buffer]) -> Buffers:
        if self._kept is None or not self.holds(listed):
            self._kept = None  # before others are taken
            self._kept = Buffers(listed, self._queue)
        return self._kept

    def drop(self) -> None:
        self._kept = None


def total(listed: Iterable[Buffer]) -> int:
    return sum(one.nbytes for one in listed)


def table_buffers(plan: Plan, natural: bool) -> list[Buffer]:
    """Tables and status of a plan on a device; `natural` adds those for natural order."""
    listed = [
        Buffer("gather", plan.packed_size, _INT),
        Buffer("status", plan.forest.num_cells, _INT),
    ]
    for k, part in enumerate(plan.parts):
        listed += [Buffer(f"{k}/{name}", t.size, t.dtype) for name, t in part.tables.items()]
        sizes = part.natural_sizes(plan.forest) if natural else {}
        listed += [Buffer(f"{k}/{name}", size, _INT) for name, size in sizes.items()]
    return listed


def scratch_buffers(plan: Plan, dtype: np.dtype, operands: int) -> list[Buffer]:
    names = ["x", *OPERANDS[operands]]
    factor = [Buffer("factor", plan.packed_size, dtype)] if plan.needs_factor else []
    return factor + [
        Buffer(f"scratch {k} {name}", size, dtype)
        for k, size in enumerate(plan.scratch)
        for name in names
    ]


def operand_buffers(size: int, dtype: np.dtype, operands: int, rows: int) -> list[Buffer]:
    """Values of d, u, (l), b and x, of b and x as many `rows`."""
    each = {name: size * (rows if name in "bx" else 1) for name in (*OPERANDS[operands], "x")}
    return [Buffer(name, count, dtype) for name, count in each.items()]


def value_buffers(
    plan: Plan, dtype: np.dtype, operands: int, rows: int, natural: bool
) -> list[Buffer]:
    """Values of a solve of `rows` right-hand sides from NumPy to NumPy, with one for the order."""
    n = plan.forest.num_nodes
    listed = operand_buffers(n if natural else plan.packed_size, dtype, operands, rows)
    return listed + ([] if natural else [Buffer("natural", n * rows, dtype)])


def factor_buffers(plan: Plan, dtype: np.dtype, operands: int, rows: int) -> list[Buffer]:
    """Values of a matrix that is eliminated once, and of solves with it."""
    listed = value_buffers(plan, dtype, operands, rows, False)
    listed.append(Buffer("factored", plan.forest.num_cells, _INT))
    able = any(part.keeps_factors for part in plan.parts)
    return listed + ([Buffer("pivots", plan.packed_size, dtype)] if able else [])


def natural_factor_buffers(plan: Plan, dtype: np.dtype, operands: int) -> list[Buffer]:
    """Matrix of `Whole.factor` that stays on the device in natural order, and its status."""
    names = [name for name in OPERANDS[operands] if name != "b"]
    status = Buffer("status", plan.forest.num_cells, _INT)
    return [*(Buffer(name, plan.forest.num_nodes, dtype) for name in names), status]


def solve_buffers(plan: Plan, dtype: np.dtype, operands: int = 4, rows: int = 1) -> list[Buffer]:
    natural = plan.takes_natural
    listed = table_buffers(plan, natural) + scratch_buffers(plan, dtype, operands)
    return listed + value_buffers(plan, dtype, operands, rows, natural)


def most_buffers(plan: Plan, dtype: np.dtype, rows: int) -> list[Buffer]:
    listed = table_buffers(plan, False) + scratch_buffers(plan, dtype, 4)
    listed += factor_buffers(plan, dtype, 4, rows)
    return max(listed, solve_buffers(plan, dtype, 4, rows), key=total)


@dataclass(frozen=True)
class Room:
    device: str  # its name, for messages
    memory: int  # bytes in all
    largest: int  # bytes of one array
    dtype: np.dtype

    def needed(self, plan: Plan) -> int:
        """Largest memory use of a batch of this plan with one right-hand side, in bytes."""
        return total(most_buffers(plan, self.dtype, 1))

    def fits(self, plan: Plan, times: int = 1) -> bool:
        one = plan.packed_size * self.dtype.itemsize
        return one <= self.largest and self.needed(plan) * times <= self.memory

    def rows_at_once(self, plan: Plan, times: int = 1) -> int:
        """Right-hand sides per launch such that `times` batches fit; at least 1."""
        most = max(part.max_rhs for part in plan.parts)
        one = plan.packed_size * self.dtype.itemsize
        needed = total(most_buffers(plan, self.dtype, most)) * times
        return most if needed <= self.memory and one * most <= self.largest else 1

    def plan(self, forest: Forest, make: Callable[[Forest], Plan]) -> tuple[list[Plan], np.ndarray]:
        """Plan the whole batch, or few slices, `STAGES` of which fit; see `plan_slices`."""
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
        """Smallest number of slices that can fit into `memory` bytes, by their arrays."""
        n = forest.num_nodes
        needed = n * (self.dtype.itemsize * _ARRAYS + _TABLE_BYTES)
        count = max(-(-n * self.dtype.itemsize // self.largest), -(-needed // max(memory, 1)))
        return min(max(count, -(-n // MAX_PLACES), 1), forest.num_cells)

    def _refuse(self, cell: int, plan: Plan) -> None:
        array = size_text(plan.packed_size * self.dtype.itemsize)
        raise DeviceMemoryError(
            f"cell {cell} with {plan.forest.num_nodes} nodes needs {size_text(self.needed(plan))}, "
            f"in arrays of {array}; {self.device} offers "
            f"{size_text(self.memory)}, in arrays of at most {size_text(self.largest)}"
        )


@dataclass(frozen=True)
class Memory:
    """Largest memory use of the solves of a batch on one device."""

    device: int  # bytes of device memory: values in both orders, factors, tables
    pinned: int  # bytes of pinned host memory, through which values are copied
    slices: int  # in which the batch is solved

    def __str__(self) -> str:
        text = f"{size_text(self.device)} on the device"
        text += f", {size_text(self.pinned)} of pinned host memory" if self.pinned else ""
        return text + (f", in {self.slices} slices" if self.slices > 1 else "")


def memory_errors(method: _Method) -> _Method:
    """Turn OpenCL's out-of-memory errors of a method into `DeviceMemoryError`."""

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except cl.MemoryError as error:
            raise no_memory(self.queue, self.memory) from error

    return cast("_Method", wrapped)


def no_memory(queue: cl.CommandQueue, memory: Sequence[Memory]) -> DeviceMemoryError:
    device, slices = queue.device, max(one.slices for one in memory)
    what = f"the batch in {slices} slices needs" if slices > 1 else "the batch needs"
    need = max(one.device for one in memory)
    return DeviceMemoryError(
        f"{device.name.strip()} has no memory left: {what} {size_text(need)} of its "
        f"{size_text(device.global_mem_size)}; a smaller max_memory makes smaller slices"
    )


def slot_buffers(plans: Sequence[Plan], dtype: np.dtype, operands: int, rows: int) -> list[Buffer]:
    most = max(plan.forest.num_nodes for plan in plans)
    status = Buffer("status", max(plan.forest.num_cells for plan in plans), _INT)
    return [*operand_buffers(most, dtype, operands, rows), status]


def shared_buffers(
    plans: Sequence[Plan], dtype: np.dtype, operands: int, rows: int
) -> list[Buffer]:
    """Return the values in device order, which all slices use in turn."""
    packed = max(plan.packed_size for plan in plans)
    in_order = all(plan.takes_natural for plan in plans)
    listed = [] if in_order else operand_buffers(packed, dtype, operands, rows)
    needs = any(plan.needs_factor for plan in plans)
    return listed + ([Buffer("factor", packed, dtype)] if needs else [])


def pipeline_bytes(plans: Sequence[Plan], dtype: np.dtype, operands: int, rows: int) -> int:
    """Device memory of a `Pipeline`: its slots, shared buffers, and tables of slices."""
    slots = min(STAGES, len(plans))
    values = slots * total(slot_buffers(plans, dtype, operands, rows))
    values += total(shared_buffers(plans, dtype, operands, rows))
    tables = {
        id(plan): total(table_buffers(plan, plan.takes_natural))
        + total(b for b in scratch_buffers(plan, dtype, operands) if b.name != "factor")
        for plan in plans
    }
    at_once = ({id(plan) for plan in plans[k : k + slots]} for k in range(len(plans) - slots + 1))
    return values + max(sum(tables[one] for one in some) for some in at_once)


def plan_slices(
    forest: Forest, count: int, plan: Callable[[Forest], Plan], fits: Callable[[int, Plan], bool]
) -> tuple[list[Plan], np.ndarray]:
    """Plans of about `count` slices of whole cells, and their first cells with the end.

    Where the shapes of the cells repeat, slices share one plan. ``fits(cell, plan)`` raises where
    the slice is one cell, which cannot be made smaller.
    """
    made: dict[tuple[int, int], Plan] = {}
    period = shape_period(forest.shape_of_cell)

    def plan_of(lo: int, hi: int) -> Plan:
        key = lo % period, hi - lo
        if key not in made:
            whole = hi - lo == forest.num_cells
            made[key] = plan(forest if whole else forest.subset(np.arange(lo, hi)))
        return made[key]

    targets = forest.num_nodes * np.arange(1, count) / count  # about as many nodes in each slice
    inner = np.searchsorted(forest.cell_offsets, targets)
    edges = np.unique(np.concatenate(([0], inner, [forest.num_cells])))
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


def shape_period(shapes: np.ndarray) -> int:
    """Period of the pattern of shapes, in cells; the number of cells where there is none."""
    count = len(shapes)
    for k in (np.flatnonzero(shapes[1:] == shapes[0])[:_PERIODS] + 1).tolist():
        begin = min(k, count - k)
        if np.array_equal(shapes[k : k + begin], shapes[:begin]) and np.array_equal(
            shapes[k:], shapes[:-k]
        ):
            return k
    return count
