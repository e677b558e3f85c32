"""Solve few cells for many right-hand sides: a lane per right-hand side.

The methods have a lane per cell or branch, and a launch for a few right-hand sides. If there are
few cells and many right-hand sides, the right-hand sides fill the device better: each cell is
eliminated once, and each lane solves for one right-hand side. A work-item of a CPU copies a block
of right-hand sides into its cache, solves there, and copies the solutions out. A work-item of a GPU
has one right-hand side, of which it reads several values at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.solver.device import copies, program
from clhines.solver.device.arrays import Array, set_soon, to_device, values_of, within_reach
from clhines.solver.engines import hosted
from clhines.solver.engines.loaded import Resident, only_event
from clhines.solver.engines.memory import Buffer, KeptBuffers
from clhines.solver.engines.pivots import BadPivots
from clhines.solver.plan.by_cell.many import many_spec, steps_of
from clhines.solver.plan.kernel_spec import NOT_FINITE
from clhines.solver.plan.plan import Limits, real_name

_ITEMS = 4  # work-items per CPU core
_VALUE_BYTES = 256 << 20  # most bytes of right-hand sides at once, or of scratch between calls


@dataclass(frozen=True, eq=False)
class EliminatedCells:
    """An eliminated matrix in elimination order, (n,) each; `factor` is l divided by the pivot."""

    inverse: cla.Array
    up: cla.Array
    factor: cla.Array
    status: cla.Array  # (num_cells,) int32


class ManySolve:
    """Solve for many right-hand sides in natural order, (k, n), on the queue of a plan."""

    def __init__(self, resident: Resident, transfer: hosted.Transfer, limits: Limits) -> None:
        self._resident, self._transfer, self._limits = resident, transfer, limits
        self.queue, self.dtype = resident.queue, resident.dtype
        self._forest = resident.plan.forest
        node, parent = steps_of(self._forest)
        self._tables = {
            "cell_first": self._put(self._forest.cell_offsets),
            "node": self._put(node),
            "parent": self._put(parent),
        }
        chains = bool((parent[parent >= 0] == np.flatnonzero(parent >= 0) - 1).all())
        if not limits.is_cpu:
            inner = parent[(parent >= 0) & (parent != np.arange(len(parent)) - 1)]
            self._tables["branches"] = self._put(np.bincount(inner, minlength=len(parent)) > 0)
        self._spec = many_spec(real_name(self.dtype), limits, chains)
        self._kernels: dict[str, program.NamedKernel] = {}
        self._values: cla.Array | None = None
        self._carriers: dict[int, hosted.Carrier] = {}
        self._status: np.ndarray | None = None  # the last solve's status, if it has been copied
        self._kept, self._kept_rows = KeptBuffers(self.queue), KeptBuffers(self.queue)

    def _put(self, values: np.ndarray) -> cla.Array:
        return to_device(self.queue, values, np.int32)

    def _launch(
        self, name: str, arguments: Mapping[str, object],
        size: tuple[int, ...], group: tuple[int, ...], waits: list[cl.Event],
    ) -> cl.Event:  # fmt: skip
        if name not in self._kernels:
            usual = {k: a.base_data for k, a in self._tables.items()}
            context = self.queue.context
            self._kernels[name] = program.NamedKernel(context, self._spec, name, usual)
        return self._kernels[name].launch(self.queue, arguments, size, group, waits)

    # -- the matrix ------------------------------------------------------------------------------

    def eliminate(self, matrix: Mapping[str, Array], keep: bool) -> EliminatedCells:
        """Enqueue the elimination of d, u, (l), (n,) each.

        The result is valid until the next elimination; with `keep`, for ever. Host arrays must not
        change until the next solve with the result has ended.
        """
        made, buffers = self._new() if keep else self._shared, self._on_device(matrix)
        buffers.setdefault("l", buffers["u"])
        arguments = {**{name: a.base_data for name, a in vars(made).items()}, **buffers}
        group = self._spec.group
        size = (self._forest.num_cells * group,)
        waits = [event for a in matrix.values() for event in getattr(a, "events", ())]
        event = self._launch("eliminate", arguments, size, (group,), waits)
        for a in vars(made).values():
            only_event(a, event)
        return made

    def _on_device(self, matrix: Mapping[str, Array]) -> dict[str, cl.Buffer]:
        host = {name: a for name, a in matrix.items() if isinstance(a, np.ndarray)}
        device = {name: a for name, a in matrix.items() if not isinstance(a, np.ndarray)}
        buffers = {name: a.base_data for name, a in device.items()}
        if copies.lends_all(self.queue.device):
            return buffers | {name: copies.lend(self.queue, a) for name, a in host.items()}
        size = self._forest.num_nodes
        kept = self._kept.of([Buffer(name, size, self.dtype) for name in "dul"])
        targets = {name: kept[name].base_data for name in host}
        self._carrier_of(1).bring([(name, a, targets[name]) for name, a in host.items()])
        return buffers | targets

    def _carrier_of(self, rows: int) -> hosted.Carrier:
        if rows not in self._carriers:
            names, status = ("d", "u", "l", "b", "x"), self._shared.status
            carrier = hosted.Carrier(self._resident, self._transfer, names, rows, status)
            for old in [k for k in self._carriers if k != 1]:  # 1 brings matrices
                del self._carriers[old]
            self._carriers[rows] = carrier
        return self._carriers[rows]

    def _new(self) -> EliminatedCells:
        n, cells = self._forest.num_nodes, self._forest.num_cells
        inverse, up, factor = (cla.empty(self.queue, n, self.dtype) for _ in range(3))
        status = within_reach(self.queue, (cells,), np.dtype(np.int32), zeros=False)
        made = EliminatedCells(inverse, up, factor, status)
        copies.finish_before(made, self.queue)
        return made

    @cached_property
    def _shared(self) -> EliminatedCells:
        return self._new()

    def status(self, matrix: EliminatedCells) -> tuple[BadPivots, bool]:
        """Wait; return the matrix's bad pivots, and whether the last solutions are finite."""
        status = self._status
        if status is None:
            status = values_of(matrix.status, self.queue)
        self._status, finite = None, not (status & NOT_FINITE).any()
        if not finite:
            set_soon(matrix.status, 0, status & ~np.int32(NOT_FINITE), self.queue)
            self.queue.finish()
        return self._resident.bad_of(status), finite

    # -- right-hand sides ------------------------------------------------------------------------

    def solve_device(self, matrix: EliminatedCells, b: cla.Array, x: cla.Array) -> cl.Event:
        """Enqueue a solve of arrays on the device, (k, n); `x` may be `b`."""
        rows, waits = len(b), [*matrix.inverse.events, *b.events, *x.events]
        event = self._enqueue(matrix, b.base_data, x.base_data, rows, waits)
        only_event(x, event)
        return event

    def solve_host(self, matrix: EliminatedCells, b: np.ndarray, target: np.ndarray) -> None:
        """Solve for the rows of `b`, (k, n), into `target`, and wait; `target` may be `b`."""
        step = max(1, _VALUE_BYTES // (b.shape[1] * self.dtype.itemsize))
        for top in range(0, len(b), step):
            some = np.ascontiguousarray(b[top : top + step])
            part = target[top : top + step] if step < len(b) else target  # may be pinned
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
        kept = self._kept_rows.of([Buffer("b", b.size, self.dtype)])
        values, carrier = kept["b"].base_data, self._carrier_of(rows)
        carrier.bring([("b", b, values)])
        self._enqueue(matrix, values, values, rows, list(matrix.inverse.events))
        carrier.read_status(matrix.status.base_data)
        carrier.fetch(values, out)
        self._status = carrier.status

    def _enqueue(
        self, matrix: EliminatedCells, b: cl.Buffer, x: cl.Buffer, rows: int, waits: list[cl.Event]
    ) -> cl.Event:
        forest, spec = self._forest, self._spec
        arguments = {
            "rows": rows, "size": forest.num_nodes, "num_cells": forest.num_cells,
            "room": int(forest.sizes.max()), "b": b, "x": x,
            "inverse": matrix.inverse.base_data, "up": matrix.up.base_data,
            "factor": matrix.factor.base_data, "status": matrix.status.base_data,
        }  # fmt: skip
        size: tuple[int, ...] = -(-rows // spec.group) * spec.group, forest.num_cells
        if not spec.apart:
            tasks = forest.num_cells * -(-rows // spec.lanes)
            size = (min(_ITEMS * self._limits.compute_units, tasks),)
            arguments["values"] = self._scratch(size[0] * arguments["room"] * spec.lanes)
        group = (spec.group, 1)[: len(size)]
        return self._launch("substitute", arguments, size, group, waits)

    def _scratch(self, count: int) -> cl.Buffer:
        if self._values is None or self._values.size < count:
            self._values = None
            self._values = cla.empty(self.queue, count, self.dtype)
        room = self._values
        if room.nbytes > _VALUE_BYTES:
            self._values = None
        return room.base_data
