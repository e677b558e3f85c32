"""The engine that solves a batch by a plan."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.errors import InputError
from clhines.solver.device import copies
from clhines.solver.device.arrays import Order
from clhines.solver.engines import hosted
from clhines.solver.engines.engine import SolveEngine, nothing_solved
from clhines.solver.engines.loaded import Resident, Slot, Step, only_event
from clhines.solver.engines.many import EliminatedCells, ManySolve
from clhines.solver.engines.memory import (
    OPERANDS,
    Buffer,
    Buffers,
    KeptBuffers,
    Memory,
    Room,
    factor_buffers,
    memory_errors,
    most_buffers,
    natural_factor_buffers,
    solve_buffers,
    total,
    value_buffers,
)
from clhines.solver.engines.pivots import NO_PIVOTS, BadPivots
from clhines.solver.plan.by_cell.many import is_faster
from clhines.solver.plan.plan import Limits, Plan

MOST_WAYS = 2  # most stored prepared solves: row counts that take turns


class HostSolves:
    """Solve from NumPy to NumPy, with buffers and launches that are prepared only once.

    `ways` has the prepared solves, by names of operands and number of right-hand sides.
    """

    def __init__(self, loaded: Resident, transfer: hosted.Transfer, room: Room) -> None:
        self.loaded, self.transfer, self._room = loaded, transfer, room
        self._kept = KeptBuffers(loaded.queue)
        self.ways: dict[
            tuple[tuple[str, ...], int], hosted.SharedMemorySolve | hosted.BufferedSolve
        ] = {}
        self._elimination: hosted.Elimination | None = None
        self._pool = cl.tools.MemoryPool(  # for matrices in natural order
            cl.tools.ImmediateAllocator(loaded.queue), leading_bits_in_bin_id=8
        )

    # -- buffers ---------------------------------------------------------------------------------

    @functools.cached_property
    def _most_rows(self) -> int:
        return self._room.rows_at_once(self.loaded.plan)

    def values(self, operands: int, rows: int, natural: bool) -> list[Buffer]:
        return value_buffers(self.loaded.plan, self._room.dtype, operands, rows, natural)

    def take(self, listed: list[Buffer]) -> Buffers:
        """Return device buffers for a list; use the last call's buffers again if they fit.

        Otherwise make new buffers, and drop the prepared solves that use the old ones.
        """
        if not self._kept.holds(listed):
            self.forget()
        return self._kept.of(listed)

    def forget(self) -> None:
        """Drop all buffers and prepared solves."""
        self.ways.clear()
        self._elimination = None
        self._kept.drop()

    # -- solves ----------------------------------------------------------------------------------

    def solve(self, arrays: dict[str, np.ndarray], target: np.ndarray) -> tuple[BadPivots, bool]:
        """Solve into `target`; return the bad pivots, and whether kernels found all finite."""
        names = tuple(arrays)
        pivots: BadPivots = NO_PIVOTS
        finite = True

        def solve(b: np.ndarray, target: np.ndarray, most: int) -> None:
            nonlocal pivots, finite
            way = self._way(names, _count(b), most)
            status = way.solve(arrays if b is arrays["b"] else {**arrays, "b": b}, target)
            good = not status.any()
            finite &= good and way.finds_infinite
            pivots = NO_PIVOTS if good else self.loaded.bad_of(status)

        self._solve_in_chunks(solve, arrays["b"], target)
        return pivots, finite

    def solve_factored(self, factors: WholeFactors, b: np.ndarray, target: np.ndarray) -> bool:
        """Solve with factors into `target`; return whether kernels found all values finite."""
        natural, finite = bool(factors.values), True

        def solve(b: np.ndarray, target: np.ndarray, most: int) -> None:
            nonlocal finite
            rows, listed = _count(b), self.values(3, most, natural)
            buffers = self.take([one for one in listed if one.name in ("b", "x", "natural")])
            way = factors.way
            if way is None or (way.buffers, way.rows) != (buffers, rows):
                arguments = self.loaded, self.transfer, buffers, ("b",), rows
                way = factors.way = hosted.BufferedSolve(*arguments, **factors.hosted_options)
            status = way.solve({"b": b}, target)
            finite &= way.finds_infinite and not status.any()

        self._solve_in_chunks(solve, b, target)
        return finite

    def _solve_in_chunks(
        self,
        solve: Callable[[np.ndarray, np.ndarray, int], None],
        b: np.ndarray,
        target: np.ndarray,
    ) -> None:
        most = self._most_rows
        with hosted.finish_on_error(self.loaded.queue):  # kernels may use the host's arrays
            if b.ndim == 1 or len(b) <= most:
                if not b.flags.c_contiguous:
                    b = np.ascontiguousarray(b)
                solve(b, target, _count(b))
                return
            in_place = b is target
            for r in range(0, len(b), most):
                part = target[r : r + most]
                here = in_place and part.flags.c_contiguous
                some = part if here else np.ascontiguousarray(b[r : r + most])
                solve(some, part, most)

    def _way(
        self, names: tuple[str, ...], rows: int, most: int
    ) -> hosted.SharedMemorySolve | hosted.BufferedSolve:
        """Return the prepared solve from NumPy to NumPy for `rows` right-hand sides; make it once.

        `names` are the arrays of the system, such as d, u and b. Its buffers have space for `most`
        right-hand sides.
        """
        way = self.ways.get((names, rows))
        if way is None:
            if hosted.prefers_shared(self.loaded, most):
                self.forget()
                way = hosted.SharedMemorySolve(self.loaded, names, rows)
            else:
                buffers = self.take(self.values(len(names), most, self.loaded.takes_natural))
                way = hosted.BufferedSolve(self.loaded, self.transfer, buffers, names, rows)
            while len(self.ways) >= MOST_WAYS:
                self.ways.pop(next(iter(self.ways)))
            self.ways[names, rows] = way
        return way

    # -- matrices in natural order ---------------------------------------------------------------

    def eliminate(self, arrays: dict[str, np.ndarray]) -> BadPivots:
        """Eliminate d, u, (l) in NumPy arrays that the device uses in place; return bad pivots."""
        with hosted.finish_on_error(self.loaded.queue):
            return self.loaded.bad_of(self._way((*arrays, "b"), 1, 1).eliminate(arrays))

    @functools.cached_property
    def has_room_for_both(self) -> bool:
        """Whether a matrix in natural order fits on the device beside the values of a solve."""
        if copies.shares_memory(self.loaded.queue.device) or not self.loaded.takes_natural:
            return False
        both = both_buffers(self.loaded.plan, self._room.dtype, self._most_rows)
        return total(both) <= self._room.memory

    def factor_natural(self, arrays: dict[str, np.ndarray]) -> tuple[dict[str, Slot], BadPivots]:
        """Eliminate d, u, (l); return their device copies with the status, and the bad pivots."""
        names, spare, plan = tuple(arrays), len(arrays) + 1, self.loaded.plan
        buffers = self.take([Buffer("x", plan.forest.num_nodes, self._room.dtype)])
        if self._elimination is None or self._elimination.names != names:
            self._elimination = hosted.Elimination(self.loaded, self.transfer, buffers, names)
        if self._pool.held_blocks > spare:
            self._pool.free_held()
        listed = natural_factor_buffers(plan, self._room.dtype, spare)
        with hosted.finish_on_error(self.loaded.queue):
            # buffers, because to make pyopencl's arrays takes longer than a copy
            memory = {one.name: self._pool(one.nbytes) for one in listed}
            bad = self.loaded.bad_of(self._elimination.run(arrays, memory))
        return {one.name: Slot((one.size,), memory[one.name]) for one in listed}, bad


class Whole(SolveEngine):
    """The usual engine: solves all cells of a batch by one plan.

    With `limits`, few cells with many right-hand sides are solved by a lane per right-hand side.
    """

    def __init__(
        self,
        plan: Plan,
        queue: cl.CommandQueue,
        dtype: np.dtype,
        room: Room,
        limits: Limits | None = None,
    ) -> None:
        self.plan, self.queue, self.dtype, self.room = plan, queue, dtype, room
        self._limits, self._many_is_faster = limits, dict[int, bool]()
        self.transfer = hosted.Transfer(queue, dtype)
        self.order = Order(plan.gather, plan.forest.num_nodes)
        self._bad: BadPivots | None = None
        self._solved = False
        self._status: cla.Array | None = None  # the last solve's status; None for `loaded.status`
        self.kernel_events: list[cl.Event] = []
        self._load()
        self.on_host = HostSolves(self.loaded, self.transfer, room)

    @memory_errors
    def _load(self) -> None:
        self.loaded = Resident(self.plan, self.queue, self.dtype)

    @memory_errors
    def build(self) -> Whole:
        for launch in self.loaded.launches:
            launch.kernel(True, 1)
        return self

    @property
    def memory(self) -> Memory:
        """Peak memory of solves, without the plan's tables, which are on the device already."""
        return memory_of(self.plan, self.room, self.transfer)

    @functools.cached_property
    def finds_finite(self) -> bool:
        few = all(part.finds_infinite(1) for part in self.plan.parts)
        return few or self._limits is not None

    def device_order(self) -> Whole:
        return self

    def bad_pivots(self) -> BadPivots:
        if not self._solved:
            raise nothing_solved()
        if self._bad is None:
            self._bad = self.loaded.first_bad(self._status)
        return self._bad

    # -- many right-hand sides -------------------------------------------------------------------

    def many_for(self, b: np.ndarray | cla.Array) -> ManySolve | None:
        """Return the `ManySolve` if it is faster for `b` than the plan, else None."""
        rows = b.shape[0] if b.ndim > 1 else 1
        if self._limits is None or rows == 1:
            return None
        if rows not in self._many_is_faster:
            self._many_is_faster[rows] = is_faster(self.plan, self._limits, self.dtype, rows)
        return self._many if self._many_is_faster[rows] else None

    @functools.cached_property
    def _many(self) -> ManySolve:
        assert self._limits is not None  # see `many_for`
        return ManySolve(self.loaded, self.transfer, self._limits)

    # -- device order --------------------------------------------------------------------------

    def pack(self, a: np.ndarray | cla.Array) -> cla.Array:
        shape = *a.shape[:-1], self.plan.packed_size
        packed = cla.empty(self.queue, shape, self.dtype)
        return self.order.mark(self.loaded.permute(self.transfer.to_device(a), packed, True))

    def unpack(self, a: cla.Array, target: cla.Array) -> cla.Array:
        return self.loaded.permute(a, target, False)

    def prepare(self, operands: list[cla.Array], out: cla.Array, overwrite: bool) -> list[Step]:
        return self.loaded.steps(operands, out, overwrite)

    def enqueue(self, steps: list[Step], out: cla.Array, waits: list[cl.Event]) -> cl.Event:
        self.kernel_events = self.loaded.run(steps, waits)
        only_event(out, self.kernel_events[-1])
        self._bad, self._status, self._solved = None, None, True
        return self.kernel_events[-1]

    # -- natural order -------------------------------------------------------------------------

    def empty_like(self, b: np.ndarray) -> np.ndarray:
        return self.transfer.empty_like(b)

    def solve_device(self, arrays: dict[str, cla.Array], target: cla.Array) -> None:
        many = self.many_for(arrays["b"])
        if many is not None:
            cells = many.eliminate(matrix_of(arrays), keep=False)
            self.kernel_events = [many.solve_device(cells, arrays["b"], target)]
            self._bad, self._status, self._solved = None, cells.status, True
            return
        matrix = [a for name, a in arrays.items() if name != "b"]
        # x would overwrite the matrix before the last right-hand side is solved
        spoilt = any(a.base_data == target.base_data for a in matrix)
        if self.loaded.takes_natural and not spoilt:
            events = [e for a in (*arrays.values(), target) for e in a.events]
            operands = [*matrix, arrays["b"]]
            self.kernel_events = self.loaded.solve(operands, target, events, natural=True)
            only_event(target, self.kernel_events[-1])
            self._bad, self._status, self._solved = None, None, True
            return
        count = arrays["b"].size // self.plan.forest.num_nodes
        buffers = self.on_host.take(self.on_host.values(len(arrays), count, False))
        operands = self._pack_all(buffers, arrays)
        x = buffers.view("x", operands[-1].shape)
        packed = list(operands[0].events)
        self.enqueue(self.prepare(operands, x, False), x, [])
        self.loaded.permute(x, target, False)
        self.kernel_events = [*packed, *self.kernel_events, *target.events]

    def solve_host(self, arrays: dict[str, np.ndarray], target: np.ndarray) -> None:
        self._bad, self._solved = self.solve_values(arrays, target), True

    def solve_values(self, arrays: dict[str, np.ndarray], target: np.ndarray) -> BadPivots:
        """Solve NumPy arrays d, u, (l), b into `target`; return the bad pivots."""
        self.found_finite, many = False, self.many_for(arrays["b"])
        if many is None:
            pivots, self.found_finite = self.on_host.solve(arrays, target)
            return pivots
        with hosted.finish_on_error(self.queue):
            cells = many.eliminate(matrix_of(arrays), keep=False)
            many.solve_host(cells, arrays["b"], target)
            pivots, self.found_finite = many.status(cells)
        return pivots

    def _packed(self, buffers: Buffers, name: str, a: np.ndarray | cla.Array) -> cla.Array:
        source = a if isinstance(a, cla.Array) else self.transfer.bring(a, buffers, "natural")
        target = buffers.view(name, (*a.shape[:-1], self.plan.packed_size))
        return self.loaded.permute(source, target, True)

    def _pack_all(self, buffers: Buffers, arrays: dict[str, cla.Array]) -> list[cla.Array]:
        if arrays["b"].ndim == 2:
            packed = {name: self._packed(buffers, name, a) for name, a in arrays.items()}
        else:
            packed = {name: buffers.view(name, (self.plan.packed_size,)) for name in arrays}
            self.loaded.pack_three([arrays[k] for k in "dub"], [packed[k] for k in "dub"])
            if "l" in arrays:
                self.loaded.permute(arrays["l"], packed["l"], True)
        return [*(a for name, a in packed.items() if name != "b"), packed["b"]]

    def solve_factored(self, factors: WholeFactors, b: np.ndarray, target: np.ndarray) -> None:
        self.found_finite, many = False, self.many_for(b)
        if many is None:
            self.found_finite = self.on_host.solve_factored(factors, b, target)
            return
        with hosted.finish_on_error(self.queue):
            cells = factors.by_step(many)
            many.solve_host(cells, b, target)
            self.found_finite = many.status(cells)[1]

    def factor(self, arrays: dict[str, np.ndarray | cla.Array]) -> WholeFactors:
        host = {name: a for name, a in arrays.items() if isinstance(a, np.ndarray)}
        if host and hosted.solves_by_values(self.loaded):
            host = {name: a.copy() for name, a in host.items()}
            return NaturalFactors(self, host, self.on_host.eliminate(host))
        if host and self.on_host.has_room_for_both:
            slots, bad = self.on_host.factor_natural(host)
            return NaturalFactors(self, {name: slots[name] for name in host}, bad, slots["status"])
        return self.factor_on_device(arrays)

    def factor_on_device(self, arrays: Mapping[str, np.ndarray | cla.Array]) -> WholeFactors:
        self.on_host.forget()
        listed = factor_buffers(self.plan, self.dtype, len(arrays) + 1, 1)
        buffers = Buffers(listed, self.queue)
        matrix = [self._packed(buffers, name, a) for name, a in arrays.items()]
        host = [a for a in arrays.values() if isinstance(a, np.ndarray)]
        if any(copies.lends(self.queue.device, a) for a in host):
            self.queue.finish()  # the caller may then change or delete the arrays
        pivots, status = self.loaded.make_factors(matrix, buffers)
        return WholeFactors(self, [pivots, *matrix[1:]], status, matrix[0])


class WholeFactors:
    """The matrix of one `Whole.factor` in device order, and the status of its elimination.

    `matrix` has the inverse pivots, or d if the plan's kernels cannot use them, and u, (l).
    `diagonal` is d, `bad` the status.
    """

    values: Mapping[str, Any] = MappingProxyType({})  # the matrix in `NaturalFactors`
    _by_step: EliminatedCells | None = None

    def __init__(
        self, engine: Whole, matrix: list[cla.Array], bad: cla.Array, diagonal: cla.Array
    ) -> None:
        self.engine, self.matrix, self.bad, self.diagonal = engine, matrix, bad, diagonal
        self.way: hosted.BufferedSolve | None = None  # the last prepared solve

    def by_step(self, many: ManySolve) -> EliminatedCells:
        """Return the matrix as eliminated by `many`; only the first call eliminates it."""
        if self._by_step is None:
            self._by_step = many.eliminate(self.natural_matrix(), keep=True)
        return self._by_step

    def natural_matrix(self) -> Mapping[str, np.ndarray | cla.Array]:
        engine, arrays = self.engine, [self.diagonal, *self.matrix[1:]]
        size = engine.plan.forest.num_nodes
        return {
            name: engine.unpack(a, cla.empty(engine.queue, size, a.dtype))
            for name, a in zip("dul", arrays, strict=False)
        }

    @property
    def hosted_options(self) -> dict[str, Any]:
        return {"packed": self.matrix, "factored": self.bad}

    def quick(self, b: object, out: object, shape: tuple[int, ...]) -> None:
        return None

    def solve_host(self, b: np.ndarray, target: np.ndarray) -> None:
        self.engine.solve_factored(self, b, target)

    def solve_device(self, b: cla.Array, target: cla.Array) -> None:
        many = self.engine.many_for(b)
        if many is not None:
            self.engine.kernel_events = [many.solve_device(self.by_step(many), b, target)]
            return
        packed = self.engine.pack(b)
        self.enqueue(self.prepare(packed, packed), packed, [])
        self.engine.unpack(packed, target)

    def prepare(self, b: cla.Array, out: cla.Array) -> list[Step]:
        if any(out.base_data == a.base_data for a in self.matrix):
            raise InputError("out is one of the factors; expected another array")
        return self.engine.loaded.steps([*self.matrix, b], out, factored=self.bad)

    def enqueue(self, steps: list[Step], out: cla.Array, waits: list[cl.Event]) -> cl.Event:
        # the queue is in order, so the factors are ready when the launches begin
        self.engine.kernel_events = done = self.engine.loaded.run(steps, waits)
        only_event(out, done[-1])
        return done[-1]

    def bad_pivots(self) -> BadPivots:
        return self.engine.loaded.first_bad(self.bad)

    def transposed(self) -> WholeFactors:
        # pivots only depend on products u * l, so u and l can change places
        pivots, *couplings = self.matrix
        swapped = [pivots, *reversed(couplings)]
        return WholeFactors(self.engine, swapped, self.bad, self.diagonal)

    def matrix_on_host(self) -> dict[str, np.ndarray]:
        queue = self.engine.queue
        return {
            name: a if isinstance(a, np.ndarray) else a.get(queue)
            for name, a in self.natural_matrix().items()
        }


class NaturalFactors(WholeFactors):
    """A matrix that is stored in natural order, and that each solve eliminates again.

    `values` are NumPy arrays that the device uses in place, or `Slot`s of device memory; with slots
    each solve writes `status`, (num_cells,).
    """

    def __init__(
        self, engine: Whole, values: Mapping[str, Any], bad: BadPivots, status: Slot | None = None
    ) -> None:
        self.engine, self.values, self._bad, self._status = engine, values, bad, status
        self.way = None
        copies.finish_before(self, engine.queue)

    @property
    def _arrays(self) -> dict[str, np.ndarray | cla.Array]:
        if self._status is None:
            return dict(self.values)
        queue, dtype = self.engine.queue, self.engine.dtype
        return {
            name: cla.Array(queue, slot.shape, dtype, data=slot.base_data)
            for name, slot in self.values.items()
        }

    def natural_matrix(self) -> Mapping[str, np.ndarray | cla.Array]:
        return self._arrays if self.values else self._on_device.natural_matrix()

    @functools.cached_property
    def _on_device(self) -> WholeFactors:
        made = self.engine.factor_on_device(self._arrays)
        self.engine.queue.finish()  # the arrays may have been lent
        self.values, self.way = {}, None
        return made

    @property
    def matrix(self) -> list[cla.Array]:  # type: ignore[override]
        return self._on_device.matrix

    @property
    def bad(self) -> cla.Array:
        return self._on_device.bad

    @property
    def diagonal(self) -> cla.Array:
        return self._on_device.diagonal

    @property
    def hosted_options(self) -> dict[str, Any]:
        if not self.values:
            return super().hosted_options
        return {"natural": list(self.values.values()), "factored": self._status}

    def solve_host(self, b: np.ndarray, target: np.ndarray) -> None:
        if self.values and self._status is None and self.engine.many_for(b) is None:
            self.engine.solve_values({**self.values, "b": b}, target)
        else:
            super().solve_host(b, target)

    def bad_pivots(self) -> BadPivots:
        return self._bad

    def transposed(self) -> WholeFactors:
        if not self.values:
            return super().transposed()
        d, *couplings = self.values.values()
        swapped = dict(zip(self.values, [d, *reversed(couplings)], strict=True))
        return NaturalFactors(self.engine, swapped, self._bad, self._status)


def matrix_of(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: a for name, a in arrays.items() if name != "b"}


def _count(b: np.ndarray) -> int:
    return len(b) if b.ndim > 1 else 1


def memory_of(plan: Plan, room: Room, transfer: hosted.Transfer) -> Memory:
    """Return a solver's peak memory, for solves and for factors."""
    rows = room.rows_at_once(plan)
    needed = total(most_buffers(plan, room.dtype, rows))
    if plan.takes_natural and not copies.shares_memory(transfer.device):
        both = total(both_buffers(plan, room.dtype, rows))
        needed = max(needed, both if both <= room.memory else 0)
    return Memory(needed, _most_pinned(plan, room, transfer, rows))


def both_buffers(plan: Plan, dtype: np.dtype, rows: int) -> list[Buffer]:
    """List buffers for solves, and for a matrix that stays in natural order."""
    return solve_buffers(plan, dtype, 4, rows) + natural_factor_buffers(plan, dtype, 4)


def _most_pinned(plan: Plan, room: Room, transfer: hosted.Transfer, rows: int) -> int:
    if not copies.helps(transfer.device):
        return 0
    n, operands = plan.forest.num_nodes * room.dtype.itemsize, OPERANDS[4]
    staged = transfer.staged(n * (rows + len(operands) - 1 if plan.takes_natural else rows))
    sizes = [
        total(hosted.pin_buffers(plan, room.dtype, (*operands, "x"), r, transfer.staged))
        for r in range(1, rows + 1)
    ]
    ways = MOST_WAYS + 1  # prepared solves, and one with factors
    pinned = sum(sorted(sizes * 2)[-ways:]) + (copies.pinned_bytes() if staged else 0)
    return pinned + max(copies.result_bytes(n * r) for r in range(1, rows + 1))
