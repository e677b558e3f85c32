"""Many right-hand sides of few cells, in lanes over the right-hand sides.

The methods put cells or branches side by side, and take a few right-hand sides in a launch. If
there are few cells and many right-hand sides, the right-hand sides fill the device better: each
cell is eliminated once, and each lane solves for one right-hand side. On a CPU a work-item copies a
block of right-hand sides into its cache, solves there, and copies the solutions out. On a GPU the
right-hand sides are transposed, so that those of one node lie side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.solver.device import copies, devices, program
from clhines.solver.device.arrays import Array, to_device, values_of, within_reach
from clhines.solver.engines import hosted
from clhines.solver.engines.loaded import Resident, only_event
from clhines.solver.engines.pivots import BadPivots
from clhines.solver.plan.by_cell.many import TILE, ManySpec, many_spec, steps_of
from clhines.solver.plan.plan import Limits, real_name

_ITEMS = 4  # work-items of a CPU per core
_VALUE_BYTES = 256 << 20  # of right-hand sides that are on the device at once, beyond one block


@dataclass(frozen=True, eq=False)
class EliminatedCells:
    """A matrix by step: inverse pivots, entries u, and l over the pivots, (n,) each."""

    inverse: cla.Array
    up: cla.Array
    factor: cla.Array
    status: cla.Array  # (num_cells,) int32


class ManySolve:
    """Solves of many right-hand sides, (k, n), in natural order, on the queue of a plan."""

    def __init__(self, resident: Resident, transfer: hosted.Transfer, limits: Limits) -> None:
        self._resident, self._transfer, self._limits = resident, transfer, limits
        self.queue, self.dtype = resident.queue, resident.dtype
        self._forest, self._real = resident.plan.forest, real_name(resident.dtype)
        node, parent = steps_of(self._forest)
        self._tables = {
            "cell_first": self._put(self._forest.cell_offsets),
            "node": self._put(node),
            "parent": self._put(parent),
        }
        if not limits.is_cpu:
            inner = parent[(parent >= 0) & (parent != np.arange(len(parent)) - 1)]
            self._tables["branches"] = self._put(np.bincount(inner, minlength=len(parent)) > 0)
        self._kernels: dict[tuple[bool, str], program.Kernel] = {}
        self._values: cla.Array | None = None

    def _put(self, values: np.ndarray) -> cla.Array:
        return to_device(self.queue, values, np.int32)

    def _kernel(self, symmetric: bool, name: str) -> tuple[program.Kernel, ManySpec]:
        spec = many_spec(self._real, symmetric, self._limits)
        key = symmetric, name
        if key not in self._kernels:
            self._kernels[key] = program.kernel_of(self.queue.context, spec, name)
        return self._kernels[key], spec

    def _launch(
        self, name: str, symmetric: bool, arguments: Mapping[str, object],
        size: tuple[int, ...], group: tuple[int, ...], waits: list[cl.Event],
    ) -> cl.Event:  # fmt: skip
        kernel, spec = self._kernel(symmetric, name)
        given = {**{k: a.base_data for k, a in self._tables.items()}, **arguments}
        kernel.set_args(*(given[p.name] for p in spec.parameters(name)))
        event = cl.enqueue_nd_range_kernel(self.queue, kernel, size, group, wait_for=waits or None)
        if kernel.fresh:
            kernel.launched(event)
        return event

    # -- the matrix ------------------------------------------------------------------------------

    def eliminate(self, matrix: Mapping[str, Array], keep: bool) -> EliminatedCells:
        """Enqueue the elimination of d, u, (l), (n,) each; those not to `keep` share memory.

        Host arrays must stay as they are until the next solve with the result has ended.
        """
        made = self._new() if keep else self._shared
        arrays = {name: self._buffer(a) for name, a in matrix.items()}
        arguments = {
            "num_cells": self._forest.num_cells,
            **{name: a.base_data for name, a in vars(made).items()},
            **arrays,
        }
        items, group = devices.wide_groups(self.queue.device, self._forest.num_cells)
        waits = [event for a in matrix.values() for event in getattr(a, "events", ())]
        event = self._launch("eliminate", "l" not in arrays, arguments, items, group, waits)
        for a in vars(made).values():
            only_event(a, event)
        return made

    def _new(self) -> EliminatedCells:
        n, cells = self._forest.num_nodes, self._forest.num_cells
        inverse, up, factor = (cla.empty(self.queue, n, self.dtype) for _ in range(3))
        status = within_reach(self.queue, (cells,), np.dtype(np.int32), zeros=False)
        return EliminatedCells(inverse, up, factor, status)

    @cached_property
    def _shared(self) -> EliminatedCells:
        return self._new()

    def _buffer(self, a: Array) -> cl.Buffer:
        if isinstance(a, np.ndarray) and copies.lends_all(self.queue.device):
            return copies.lend(self.queue, a)
        return self._transfer.to_device(a).base_data

    def bad_pivots(self, matrix: EliminatedCells) -> BadPivots:
        return self._resident.bad_of(values_of(matrix.status, self.queue))

    # -- right-hand sides ------------------------------------------------------------------------

    def solve_device(self, matrix: EliminatedCells, b: cla.Array, x: cla.Array) -> cl.Event:
        """Enqueue a solve of arrays on the device, (k, n); `x` may be `b`."""
        rows, waits = len(b), [*matrix.inverse.events, *b.events, *x.events]
        event = self._enqueue(matrix, b.base_data, x.base_data, rows, waits)
        only_event(x, event)
        return event

    def solve_host(self, matrix: EliminatedCells, b: np.ndarray, target: np.ndarray) -> None:
        """Solve for rows in NumPy arrays, (k, n); waits. `target` may be `b`."""
        n, step = b.shape[1], len(b)
        if not copies.lends_all(self.queue.device):
            step = max(1, _VALUE_BYTES // (n * self.dtype.itemsize))
        for top in range(0, len(b), step):
            some = np.ascontiguousarray(b[top : top + step])
            part = target[top : top + step]
            out = part if part.flags.c_contiguous else np.empty(part.shape, part.dtype)
            self._solve_rows(matrix, some, out)
            if out is not part:
                part[...] = out

    def _solve_rows(self, matrix: EliminatedCells, b: np.ndarray, out: np.ndarray) -> None:
        device, rows = self.queue.device, len(b)
        if copies.lends_all(device):
            lent = copies.lend(self.queue, out, True)
            source = lent if np.may_share_memory(b, out) else copies.lend(self.queue, b)
            self._enqueue(matrix, source, lent, rows, list(matrix.inverse.events))
            copies.returned(self.queue, lent, out)
            return
        values = self._transfer.copied(b, cla.empty(self.queue, b.shape, self.dtype))
        self.solve_device(matrix, values, values)
        if self._transfer.staged(out.nbytes) and not copies.is_pinned(out):
            self._transfer.copies.fetch(values.base_data, list(out))
        else:
            cl.enqueue_copy(self.queue, out, values.base_data)

    def _enqueue(
        self,
        matrix: EliminatedCells,
        b: cl.Buffer,
        x: cl.Buffer,
        rows: int,
        waits: list[cl.Event],
    ) -> cl.Event:
        forest, symmetric = self._forest, True  # the kernels but `eliminate` are the same
        arguments = {
            "rows": rows, "size": forest.num_nodes, "num_cells": forest.num_cells,
            "room": int(forest.sizes.max()), "b": b, "x": x,
            "inverse": matrix.inverse.base_data, "up": matrix.up.base_data,
            "factor": matrix.factor.base_data,
        }  # fmt: skip
        if self._limits.is_cpu:
            lanes = many_spec(self._real, symmetric, self._limits).lanes
            items = min(_ITEMS * self._limits.compute_units, forest.num_cells * -(-rows // lanes))
            arguments["values"] = self._room(items * arguments["room"] * lanes)
            return self._launch("substitute", symmetric, arguments, (items,), (1,), waits)
        arguments["values"] = self._room(rows * forest.num_nodes)
        tiles = tuple(-(-count // TILE) * TILE for count in (forest.num_nodes, rows))
        self._launch("bring", symmetric, arguments, tiles, (TILE, TILE), waits)
        group = min(devices.SMALL_GROUP, self._limits.max_work_group)
        size = -(-rows // group) * group, forest.num_cells
        self._launch("substitute", symmetric, arguments, size, (group, 1), [])
        return self._launch("give", symmetric, arguments, tiles, (TILE, TILE), [])

    def _room(self, count: int) -> cl.Buffer:
        """Return room for values, which is kept for the next call if it is not large."""
        if self._values is None or self._values.size < count:
            self._values = None
            self._values = cla.empty(self.queue, count, self.dtype)
        room = self._values
        if room.nbytes > _VALUE_BYTES:
            self._values = None
        return room.base_data
