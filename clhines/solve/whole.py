"""The engine of a batch that fits on one device: all of it at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device import copies, devices
from clhines.device.arrays import Order
from clhines.device.templates import render
from clhines.errors import InputError
from clhines.plan.plan import Plan
from clhines.solve import accuracy
from clhines.solve.engine import BadPivots, nothing_solved
from clhines.solve.loaded import Resident, Step, only_event
from clhines.solve.memory import (
    Buffer,
    Buffers,
    KeptBuffers,
    Memory,
    Room,
    factor_buffers,
    memory_errors,
    most_buffers,
    total,
    value_buffers,
)
from clhines.solve.transfer import Transfer, ended


class Whole:
    """Engine: one plan on one queue, in natural and in device order.

    Parameters
    ----------
    plan : Plan
    queue : pyopencl.CommandQueue
    dtype : float64 or float32
    room : Room
    transfer : Transfer, optional
        Of a solver that has several of these, one after another.

    Attributes
    ----------
    loaded : Resident
        The plan on the queue.
    order : clhines.device.arrays.Order
        Device order, which packed arrays are marked with.
    """

    num_slices = 1
    refinement = None
    takes_device_order = True

    def __init__(
        self,
        plan: Plan,
        queue: cl.CommandQueue,
        dtype: np.dtype,
        room: Room,
        transfer: Transfer | None = None,
    ) -> None:
        self.plan, self.queue, self.dtype, self.room = plan, queue, dtype, room
        self.transfer = transfer or Transfer(queue, dtype)
        self.order = Order(plan.gather, plan.forest.num_nodes)
        self._bad: BadPivots | None = None
        self._solved = False
        self._events: list[cl.Event] = []
        self._kept = KeptBuffers(queue)
        self._load()

    @memory_errors
    def _load(self) -> None:
        self.loaded = Resident(self.plan, self.queue, self.dtype)

    @memory_errors
    def build(self) -> Whole:
        """Build the kernels of the plain solve."""
        for launch in self.loaded.launches:
            launch.kernel(True, 1)
        return self

    @property
    def memory(self) -> list[Memory]:
        """See `Engine`. The tables are on the device already."""
        return [memory_of([self.plan], self.room, self.transfer)]

    @property
    def source(self) -> str:
        """See `Engine`."""
        return source_of(self.plan)

    @property
    def kernel_events(self) -> list[cl.Event]:
        """See `Engine`."""
        return self._events

    @property
    def may_lose(self) -> bool:
        """See `Engine`."""
        return accuracy.may_lose(self.plan)

    def describe(self) -> str:
        """See `Engine`."""
        return f"{self.plan.method}, {devices.label(self.queue.device)})"

    def device_order(self, what: str) -> Whole:
        """Return itself."""
        return self

    def warn(self) -> None:
        """Nothing was promised."""

    def bad_pivots(self) -> BadPivots:
        """See `Engine`."""
        if not self._solved:
            raise nothing_solved()
        if self._bad is None:
            self._bad = self.loaded.first_bad()
        return self._bad

    # -- device order --------------------------------------------------------------------------

    def pack(self, a: np.ndarray | cla.Array) -> cla.Array:
        """See `DeviceOrder`."""
        shape = *a.shape[:-1], self.plan.packed_size
        packed = cla.empty(self.queue, shape, self.dtype)
        return self.order.mark(self.loaded.permute(self.transfer.to_device(a), packed, True))

    def unpack(self, a: cla.Array, target: cla.Array) -> cla.Array:
        """See `DeviceOrder`."""
        return self.loaded.permute(a, target, False)

    def prepare(self, operands: list[cla.Array], out: cla.Array, overwrite: bool) -> list[Step]:
        """See `DeviceOrder`."""
        return self.loaded.steps(operands, out, overwrite)

    def enqueue(self, steps: list[Step], out: cla.Array, waits: list[cl.Event]) -> cl.Event:
        """See `DeviceOrder`."""
        self._events = self.loaded.run(steps, waits)
        only_event(out, self._events[-1])
        self._bad, self._solved = None, True
        return self._events[-1]

    # -- natural order -------------------------------------------------------------------------

    def solve_device(self, arrays: dict[str, cla.Array], target: cla.Array, check: bool) -> None:
        """See `Engine`."""
        matrix = [a for name, a in arrays.items() if name != "b"]
        spoilt = any(a.base_data == target.base_data for a in matrix)  # before the last row is done
        if self.loaded.takes_natural and not spoilt:
            events = [e for a in (*arrays.values(), target) for e in a.events]
            operands = [*matrix, arrays["b"]]
            self._events = self.loaded.solve(operands, target, events, natural=True)
            only_event(target, self._events[-1])
            self._bad, self._solved = None, True
            return
        count = arrays["b"].size // self.plan.forest.num_nodes
        taken = self._kept.of(self._values(len(arrays), count, False))
        operands = self._all_packed(taken, arrays)
        x = taken.view("x", operands[-1].shape)
        self.enqueue(self.prepare(operands, x, False), x, [])
        self.loaded.permute(x, target, False)

    def solve_host(self, arrays: dict[str, np.ndarray], target: np.ndarray, check: bool) -> None:
        """See `Engine`."""
        rows, target_rows = np.atleast_2d(arrays["b"]), np.atleast_2d(target)
        cells, nodes = [], []
        self._kept.drop()
        with ended(self.queue):  # before arrays of the host that kernels read and write are gone
            natural = self.loaded.takes_natural
            step = min(self.room.rows_at_once(self.plan), len(rows))
            taken = self.transfer.buffers(self._values(len(arrays), step, natural))
            given = ((name, a) for name, a in arrays.items() if name != "b")
            if natural:
                matrix = [self.transfer.bring(a, taken, name) for name, a in given]
            else:
                matrix = [self._packed(taken, name, a) for name, a in given]
            for _ in self._solve_rows(matrix, rows, target_rows, taken, natural):
                found, where = self.loaded.first_bad()
                cells.append(found)
                nodes.append(where)
        self._bad, self._solved = (np.concatenate(cells), np.concatenate(nodes)), True

    def _values(self, operands: int, rows: int, natural: bool) -> list[Buffer]:
        return value_buffers(self.plan, self.dtype, operands, rows, natural)

    def _packed(self, taken: Buffers, name: str, a: np.ndarray | cla.Array) -> cla.Array:
        """Return d, u, l or b in device order, in its buffer."""
        source = a if isinstance(a, cla.Array) else self.transfer.bring(a, taken, "natural")
        target = taken.view(name, (*a.shape[:-1], self.plan.packed_size))
        return self.loaded.permute(source, target, True)

    def _all_packed(self, taken: Buffers, arrays: dict[str, cla.Array]) -> list[cla.Array]:
        """Return d, u, (l), b in device order, each in its buffer, from arrays on the device."""
        if arrays["b"].ndim == 2:
            found = {name: self._packed(taken, name, a) for name, a in arrays.items()}
        else:
            found = {name: taken.view(name, (self.plan.packed_size,)) for name in arrays}
            self.loaded.pack_three([arrays[k] for k in "dub"], [found[k] for k in "dub"])
            if "l" in arrays:
                self.loaded.permute(arrays["l"], found["l"], True)
        return [*(a for name, a in found.items() if name != "b"), found["b"]]

    def solve_factored(
        self, matrix: Sequence[cla.Array], b: np.ndarray, target: np.ndarray, bad: cla.Array
    ) -> None:
        """Solve with factors, which are in device order, from NumPy to NumPy."""
        rows = np.atleast_2d(b)
        step = min(self.room.rows_at_once(self.plan), len(rows))
        with ended(self.queue):
            taken = self.transfer.buffers(self._values(len(matrix) + 1, step, False))
            for _ in self._solve_rows(matrix, rows, np.atleast_2d(target), taken, False, bad):
                pass

    def _solve_rows(
        self,
        matrix: Sequence[cla.Array],
        rows: np.ndarray,
        target_rows: np.ndarray,
        taken: Buffers,
        natural: bool,
        factored: cla.Array | None = None,
    ) -> Iterator[None]:
        """Solve as many rows at once as memory allows, from NumPy to NumPy; yields after each."""
        resident, transfer, device = self.loaded, self.transfer, self.queue.device
        step = self.room.rows_at_once(self.plan)
        for r in range(0, len(rows), step):
            some, part = np.ascontiguousarray(rows[r : r + step]), target_rows[r : r + step]
            here: cla.Array | None = None  # where the solution lies in the host's memory
            if part.flags.c_contiguous and copies.lends(device, part):
                here = copies.lent(self.queue, part, writes=True)
            in_place = np.may_share_memory(some, part)
            if here is not None and in_place:
                b = here
            else:
                b = transfer.bring(some, taken, "b" if natural else "natural")
            b = b if natural else self._packed(taken, "b", b)
            x = here if natural and here is not None else taken.view("x", b.shape)
            events = [e for a in (*matrix, b) for e in a.events]
            run = resident.solve([*matrix, b], x, events, factored=factored, natural=natural)
            only_event(x, run[-1])
            if not natural:
                out = taken.view("natural", some.shape) if here is None else here
                x = resident.permute(x, out, False)
            if here is None:
                transfer.to_host(x, part)
            else:
                copies.returned(self.queue, x)
            yield

    def factor(self, arrays: dict[str, np.ndarray | cla.Array], check: bool) -> WholeFactors:
        """See `Engine`."""
        self._kept.drop()
        listed = factor_buffers(self.plan, self.dtype, len(arrays) + 1, 1)
        taken = Buffers(listed, self.queue)
        matrix = [self._packed(taken, name, a) for name, a in arrays.items()]
        pivots, status = self.loaded.make_factors(matrix, taken)
        return WholeFactors(self, [pivots, *matrix[1:]], status)

    @memory_errors
    def ready_to_time(self, systems: list[list[np.ndarray]]) -> Callable[[int], list[cl.Event]]:
        """Put systems d, u, b on the device; returns a function that enqueues a solve of one."""
        sets, x = [], []
        for one in systems:
            taken = Buffers(self._values(3, 1, False), self.queue)
            sets.append([self._packed(taken, k, a) for k, a in zip("dub", one, strict=True)])
            x.append(taken["x"])

        def launch(k: int) -> list[cl.Event]:
            return self.loaded.solve(sets[k % len(sets)], x[k % len(sets)], [])

        return launch

    def note(self, events: list[cl.Event]) -> None:
        """Take the events of a solve with factors for those of the last solve."""
        self._events = events


class WholeFactors:
    """A matrix that `Whole` has eliminated.

    Attributes
    ----------
    matrix : list of (packed size,) pyopencl arrays
        In device order: inverse pivots where the plan can use them, else the diagonal; u, (l).
    bad : (num_cells,) int32 pyopencl array
        Keys of bad pivots.
    """

    def __init__(self, engine: Whole, matrix: list[cla.Array], bad: cla.Array) -> None:
        self.engine, self.matrix, self.bad = engine, matrix, bad

    def solve_host(self, b: np.ndarray, target: np.ndarray) -> None:
        """See `Eliminated`."""
        self.engine.solve_factored(self.matrix, b, target, self.bad)

    def solve_device(self, b: cla.Array, target: cla.Array) -> None:
        """See `Eliminated`."""
        packed = self.engine.pack(b)
        self.enqueue(self.prepare(packed, packed), packed, [])
        self.engine.unpack(packed, target)

    def prepare(self, b: cla.Array, out: cla.Array) -> list[Step]:
        """See `Eliminated`."""
        if any(out.base_data == a.base_data for a in self.matrix):
            raise InputError("out is one of the factors; expected another array")
        return self.engine.loaded.steps([*self.matrix, b], out, factored=self.bad)

    def enqueue(self, steps: list[Step], out: cla.Array, waits: list[cl.Event]) -> cl.Event:
        """See `Eliminated`. The queue is in order, and has made the factors before."""
        done = self.engine.loaded.run(steps, waits)
        self.engine.note(done)
        only_event(out, done[-1])
        return done[-1]

    def bad_pivots(self) -> BadPivots:
        """See `Eliminated`."""
        return self.engine.loaded.first_bad(self.bad)

    def transposed(self) -> WholeFactors:
        """See `Eliminated`: pivots depend on products of u and l only, so u and l swap."""
        pivots, *couplings = self.matrix
        return WholeFactors(self.engine, [pivots, *reversed(couplings)], self.bad)

    def matrix_on_host(self) -> dict[str, np.ndarray]:
        """See `Eliminated`; of factors that keep the diagonal."""
        found = {}
        for name, a in zip(("d", "u", "l"), self.matrix, strict=False):
            natural = cla.empty(self.engine.queue, self.engine.plan.forest.num_nodes, a.dtype)
            found[name] = self.engine.unpack(a, natural).get(self.engine.queue)
        return found


def source_of(plan: Plan) -> str:
    """Source of the plain solve of a plan."""
    return "\n".join(dict.fromkeys(render(part.spec) for part in plan.parts))


def memory_of(plans: Sequence[Plan], room: Room, transfer: Transfer) -> Memory:
    """Return the memory of solves of plans, one after another, each alone on the device."""
    most = [room.rows_at_once(plan) for plan in plans]
    sizes = [r * plan.forest.num_nodes for r, plan in zip(most, plans, strict=True)]
    pinned = copies.pinned_bytes() if transfer.staged(max(sizes) * room.itemsize) else 0
    needed = [total(most_buffers(plan, room.dtype, r)) for plan, r in zip(plans, most, strict=True)]
    return Memory(max(needed), pinned, len(plans))
