"""Prepared solves from NumPy to NumPy: kernels, buffers and arguments serve many calls.

`SharedMemorySolve` is for small batches on a CPU: the host brings the values into device order, in
memory that it shares with the device, so that a solve is one launch. `BufferedSolve` uses the
host's arrays in place if a CPU can (they are *lent*); else it copies values to buffers of its own,
through pinned memory if that is faster.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.solver.device import copies
from clhines.solver.engines.loaded import Resident, Slot, only_event
from clhines.solver.engines.memory import Buffer, Buffers
from clhines.solver.plan.plan import Plan


class Transfer:
    """Copy arrays between host and device for one solver, in the fastest way for each size."""

    def __init__(self, queue: cl.CommandQueue, dtype: np.dtype) -> None:
        self.queue, self.dtype, self.device = queue, dtype, queue.device

    def bring(self, a: np.ndarray, buffers: Buffers, name: str) -> cla.Array:
        """Return a device array with the values of the host array `a`.

        It uses the host's memory until the solve ends, or is a copy in the buffer `name`.
        """
        if copies.lends(self.device, a):
            return cla.Array(self.queue, a.shape, a.dtype, data=copies.lend(self.queue, a))
        return self.copied(a, buffers.view(name, a.shape))

    def copied(self, a: np.ndarray, target: cla.Array) -> cla.Array:
        """Copy a host array to `target` on the device, in the queue's order; return `target`."""
        if self.staged(a.nbytes):
            sent = self.copies.send([(list(np.atleast_2d(a)), target.base_data)])
            only_event(target, sent)
        else:
            cl.enqueue_copy(self.queue, target.base_data, a)  # waits
        return target

    def to_device(self, a: np.ndarray | cla.Array) -> cla.Array:
        if isinstance(a, cla.Array):
            return a
        return self.copied(a, cla.empty(self.queue, a.shape, a.dtype))

    def staged(self, size: int) -> bool:
        """Whether an array of `size` bytes is copied by several threads through pinned memory."""
        return size >= copies.LEAST_BYTES and copies.helps(self.device)

    @functools.cached_property
    def pins(self) -> copies.Pins:
        return copies.Pins(self.queue)

    @functools.cached_property
    def results(self) -> copies.PinnedArrays:
        return copies.PinnedArrays(self.queue)

    def empty_like(self, a: np.ndarray) -> np.ndarray:
        """Return an array for a solution, in pinned memory if that is faster."""
        return self.results.empty_like(a) if copies.helps(self.device) else np.empty_like(a)

    @functools.cached_property
    def copies(self) -> copies.PinnedCopies:
        return copies.PinnedCopies(self.queue)


@contextlib.contextmanager
def finish_on_error(queue: cl.CommandQueue) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with contextlib.suppress(cl.Error):
            queue.finish()
        raise


SHARED_VALUES = 8192  # most values in b: for more, kernels change the order faster than the host


def prefers_shared(resident: Resident, rows: int) -> bool:
    small = resident.plan.packed_size * rows <= SHARED_VALUES
    return small and copies.fine_grained(resident.queue.device)


def solves_by_values(resident: Resident) -> bool:
    """Whether to keep a factored matrix in NumPy arrays, to eliminate it in each solve.

    This needs no copies if the device uses these arrays in place.
    """
    if any(launch.part.keeps_factors for launch in resident.launches):
        return False
    ready = resident.takes_natural or prefers_shared(resident, 1)
    return ready and copies.lends_all(resident.queue.device)


def pin_buffers(
    plan: Plan, dtype: np.dtype, names: Sequence[str], rows: int, staged: Callable[[int], bool]
) -> list[Buffer]:
    """List the buffers of pinned memory for copies of the status and of the arrays `names`.

    b and x have `rows` rows. An array needs no buffer if ``staged(bytes)`` is true for its size:
    then threads copy it through pinned memory of their own.
    """
    n, item = plan.forest.num_nodes, dtype.itemsize
    sizes = {name: n * (rows if name in "bx" else 1) for name in names}
    together = sum(size for name, size in sizes.items() if name != "x") * item

    def alone(name: str, size: int) -> bool:
        return not staged(size * item if name == "x" or not plan.takes_natural else together)

    buffers = [Buffer(name, size, dtype) for name, size in sizes.items() if alone(name, size)]
    return [*buffers, Buffer("status", plan.forest.num_cells, np.dtype(np.int32))]


class Carrier:
    """Copy the arrays `names` and the status of all cells between host arrays and device buffers.

    b and x have `rows` rows. Pinned memory is used if that is faster.
    """

    def __init__(
        self,
        resident: Resident,
        transfer: Transfer,
        names: Sequence[str],
        rows: int,
        status: cla.Array | Slot | None,
    ) -> None:
        self.queue, self._transfer = resident.queue, transfer
        plan, dtype = resident.plan, resident.dtype
        pins = list[Buffer]()
        if copies.helps(self.queue.device):
            pins = pin_buffers(plan, dtype, names, rows, transfer.staged)
        self._pins = {b.name: transfer.pins.get(b.name, b.size, b.dtype) for b in pins}
        self._under_way: list[cl.Event] = []  # copies: pyopencl waits when one is deleted
        self._waits = self._pins.get("status") is None
        self._source = None if status is None else status.base_data
        self.status = np.zeros(plan.forest.num_cells if status is not None else 0, np.int32)
        if status is not None:
            self.status = self._pins.get("status", self.status)

    def bring(self, values: Sequence[tuple[str, np.ndarray, cl.Buffer]]) -> None:
        """Copy each array to its buffer, through the pinned array of its name if there is one."""
        size = sum(a.nbytes for _, a, _ in values)
        if self._transfer.staged(size):
            parts = [(list(np.atleast_2d(a)), to) for _, a, to in values]
            self._transfer.copies.send(parts)
            return
        for name, a, to in values:
            pin = self._pins.get(name)
            if pin is None:
                cl.enqueue_copy(self.queue, to, a)
            else:
                self._under_way += copies.write(self.queue, to, pin, a)

    def read_status(self, source: cl.Buffer | None = None, wait: bool = False) -> None:
        """Enqueue a copy of the status to the host, from `source` if set; wait for it if `wait`."""
        source = source or self._source
        if source is not None:
            wait |= self._waits
            read = cl.enqueue_copy(self.queue, self.status, source, is_blocking=wait)
            self._under_way.append(read)

    def fetch(self, x: cl.Buffer, out: np.ndarray) -> None:
        pin = self._pins.get("x")
        if self._transfer.staged(out.nbytes) and not copies.is_pinned(out):
            self._transfer.copies.fetch(x, list(np.atleast_2d(out)))
        elif pin is not None:
            copies.read(self.queue, out, pin, x)
        else:
            cl.enqueue_copy(self.queue, out, x)
        self._under_way.clear()

    def ended(self) -> None:
        self._under_way.clear()


class SharedMemorySolve:
    """Solve small batches on a CPU in memory that it shares with the host."""

    finds_infinite = False

    def __init__(self, resident: Resident, names: Sequence[str], rows: int) -> None:
        plan, self.queue = resident.plan, resident.queue
        self._values: dict[str, np.ndarray] = {}
        slots: dict[str, Slot] = {}
        for name in (*names, "x", "status"):
            shape: tuple[int, ...] = (plan.packed_size,)
            if name in "bx" and rows > 1:
                shape = rows, plan.packed_size
            dtype = resident.dtype
            if name == "status":
                shape, dtype = (plan.forest.num_cells,), np.dtype(np.int32)
            self._values[name] = copies.shared(self.queue, shape, dtype)
            slots[name] = Slot(shape, cl.SVM(self._values[name]))
        operands = [slots[name] for name in names]
        self._steps = resident.steps(operands, slots["x"], status=slots["status"])
        self._gather = plan.gather.astype(np.intp)
        self._padding = np.flatnonzero(plan.gather < 0)
        places = np.flatnonzero(plan.gather >= 0)
        self._places = np.empty(plan.forest.num_nodes, np.intp)
        self._places[plan.gather[places]] = places

    def solve(self, system: dict[str, np.ndarray], target: np.ndarray) -> np.ndarray:
        """Solve d, u, (l), b; return the status, (num_cells,), valid until the next call."""
        self._run(system)
        x = self._values["x"]
        if target.flags.c_contiguous:
            x.take(self._places, -1, target.reshape(*x.shape[:-1], -1), "clip")
        else:
            target[...] = x.take(self._places, -1).reshape(target.shape)
        return self._values["status"]

    def eliminate(self, system: dict[str, np.ndarray]) -> np.ndarray:
        self._run(system)  # with any values in `b`: pivots do not depend on it
        return self._values["status"]

    def _run(self, system: dict[str, np.ndarray]) -> None:
        for name, a in system.items():
            values = self._values[name]
            a = a.reshape(*values.shape[:-1], -1) if a.ndim != values.ndim else a
            a.take(self._gather, -1, values, "clip")
            if len(self._padding):
                values[..., self._padding] = 0
        for step in self._steps:
            event = step.run(self.queue, None)
        event.wait()


class BufferedSolve:
    """Solve in the host's arrays if the device can use them, else in buffers that calls reuse.

    `names` are the arrays that each call brings. A matrix that is on the device already is either
    `packed` (factors, by `Resident.make_factors`) or `natural` (entries in the order of nodes);
    `factored` has the status of its factorization. If `finds_infinite`, a value of b or x that is
    not finite gives its cell the status `NOT_FINITE`.
    """

    def __init__(
        self,
        resident: Resident,
        transfer: Transfer,
        buffers: Buffers,
        names: Sequence[str],
        rows: int,
        packed: Sequence[cla.Array] = (),
        natural: Sequence[Slot] = (),
        factored: cla.Array | Slot | None = None,
    ) -> None:
        self.resident, self.buffers, self.rows = resident, buffers, rows
        self.queue, self.device = resident.queue, resident.queue.device
        self.natural = resident.takes_natural and not packed
        checks = (part.finds_infinite(rows) for part in resident.plan.parts)
        self.finds_infinite = self.natural and all(checks)
        self._all_lent = copies.lends_all(self.device)
        self._may_lend = copies.shares_memory(self.device)
        plan = resident.plan
        cells, size = plan.forest.num_cells, plan.forest.num_nodes
        status: cla.Array | Slot | None = resident.status if factored is None else factored
        shared = copies.fine_grained(self.device) and factored is None
        self._carrier = Carrier(
            resident, transfer, (*names, "x"), rows, None if shared or packed else status
        )
        self._status = self._carrier.status
        if shared:
            self._status = copies.shared(self.queue, (cells,), np.dtype(np.int32))
            status = Slot((cells,), cl.SVM(self._status))
        if not self.natural:
            size = plan.packed_size
        shape = (size,) if rows == 1 else (rows, size)
        shapes = {name: shape if name in "bx" else (size,) for name in (*names, "x")}
        if self.natural:
            slots = {  # an array that is never lent always has its own buffer
                k: Slot(one, name=k) if self._may_lend else Slot(one, buffers[k].base_data)
                for k, one in shapes.items()
            }
            operands = [*natural, *(slots[k] for k in names)]
            self._steps = resident.steps(operands, slots["x"], natural=True, status=status)
            return
        views = {name: buffers.view(name, one) for name, one in shapes.items()}
        self._packed, self._x = {name: views[name] for name in names}, views["x"]
        operands = [*packed, *self._packed.values()]
        use = factored if packed else None
        self._steps = resident.steps(operands, self._x, factored=use, status=status)

    def solve(self, system: dict[str, np.ndarray], target: np.ndarray) -> np.ndarray:
        out = target if target.flags.c_contiguous else np.empty(target.shape, target.dtype)
        lent, sources = None, dict[str, cl.Buffer]()
        if self._may_lend:
            lent = copies.lend(self.queue, out, True) if self._lends(out) else None
            sources = self._lent(system)
            if lent is not None and system["b"] is out:
                sources["b"] = lent
        x = self._launch(system, sources, lent)
        self._carrier.read_status()  # in order: done when the solution is there
        if lent is None:
            self._carrier.fetch(x, out)
        else:
            copies.returned(self.queue, lent, out)
            self._carrier.ended()
        if out is not target:
            target[...] = out
        return self._status

    def eliminate(self, system: dict[str, np.ndarray]) -> np.ndarray:
        """Eliminate d, u, (l) in the NumPy arrays, which the device must be able to use in place.

        Return each cell's status (see arguments.mako), (num_cells,), valid until the next call.
        """
        self._launch(system, self._lent(system), None)
        self._carrier.read_status(wait=True)
        self.queue.finish()
        return self._status

    def _lent(self, system: dict[str, np.ndarray]) -> dict[str, cl.Buffer]:
        return {k: copies.lend(self.queue, a) for k, a in system.items() if self._lends(a)}

    def _lends(self, a: np.ndarray) -> bool:
        return self._all_lent or copies.lends(self.device, a)

    def _launch(
        self, system: dict[str, np.ndarray], sources: dict[str, cl.Buffer], lent: cl.Buffer | None
    ) -> cl.Buffer:
        """Copy values that the device cannot use in place, enqueue the launches; return x's buffer.

        `sources` has buffers on the memory of host arrays by name; `lent` is such a buffer for x.
        """
        queue, buffers, bring = self.queue, self.buffers, self._carrier.bring
        if self.natural:
            brought = [(k, a, buffers[k].base_data) for k, a in system.items() if k not in sources]
            if brought:
                bring(brought)
            if not self._may_lend:
                for step in self._steps:
                    step.run(queue, None)
                return buffers["x"].base_data
            sources |= {name: to for name, _, to in brought}
            sources["x"] = buffers["x"].base_data if lent is None else lent
            sources.setdefault("b", sources.get("d"))  # any values, if this only eliminates
            for step in self._steps:
                step.run_with(queue, sources)
            return sources["x"]
        targets = {name: a.base_data for name, a in self._packed.items()}
        if len(sources) == len(system):
            self.resident.pack_buffers(sources, targets, self.rows)
        else:
            passing = buffers["natural"].base_data
            for name, a in system.items():
                if name not in sources:
                    bring([(name, a, passing)])
                one = {name: sources.get(name, passing)}
                self.resident.pack_buffers(one, targets, self.rows)
        for step in self._steps:
            step.run(queue, None)
        out = buffers["natural"].base_data if lent is None else lent
        self.resident.unpack_buffer(self._x.base_data, out, self.rows)
        return out


class Elimination:
    """Copy matrices to the device in natural order, and eliminate them to find bad pivots."""

    def __init__(
        self, resident: Resident, transfer: Transfer, buffers: Buffers, names: Sequence[str]
    ) -> None:
        self.queue, self.names = resident.queue, names
        row, cells = (resident.plan.forest.num_nodes,), resident.plan.forest.num_cells
        slots = [Slot(row, name=name) for name in names]
        x = Slot(row, buffers["x"].base_data)
        more = Slot((cells,), name="status")
        self._steps = resident.steps([*slots, slots[0]], x, natural=True, status=more)
        self._carrier = Carrier(resident, transfer, names, 1, resident.status)

    def run(self, matrix: dict[str, np.ndarray], targets: Mapping[str, cl.Buffer]) -> np.ndarray:
        """Copy a matrix to `targets`, eliminate it; return its status, until the next call."""
        self._carrier.bring([(name, a, targets[name]) for name, a in matrix.items()])
        for step in self._steps:
            step.run_with(self.queue, targets)
        self._carrier.read_status(targets["status"], wait=True)
        self._carrier.ended()
        return self._carrier.status
