"""Hosted: solves from NumPy to NumPy, with everything prepared that does not depend on the values.

A kept solver is called again and again with arrays of the same shape. So kernels, device buffers
and pinned memory are prepared for one number of operands and right-hand sides, and a call only
brings values, launches, and waits once. Three ways:

- `Shared`: a small batch on a CPU. The host changes the order of the values, into memory that it
  shares with the device; one launch of the solve and nothing else.
- `Hosted` where a CPU can use the host's arrays in place: kernels that take natural order read and
  write these, and others are packed from and unpacked to them.
- `Hosted` elsewhere: values are copied to kept buffers, through pinned memory where that helps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device import copies
from clhines.plan.plan import Plan
from clhines.solve.loaded import Resident, Slot
from clhines.solve.memory import Buffer, Buffers
from clhines.solve.transfer import Transfer

SHARED_VALUES = 8192  # of b in device order, at most: beyond it the host takes longer than kernels


class HostSolve(Protocol):
    """A way to solve from NumPy to NumPy.

    Attributes
    ----------
    finds_infinite : bool
        The status has `NOT_FINITE` where values of x are not finite, and so where those of b are
        not: no method drops a value of b, and its pivots are finite.
    """

    finds_infinite: bool

    def solve(self, given: dict[str, np.ndarray], target: np.ndarray) -> np.ndarray:
        """Solve and wait.

        Parameters
        ----------
        given : dict
            d, u, (l), b in natural order, contiguous, of the solver's dtype.
        target : like b
            May be b itself; overlaps nothing else.

        Returns
        -------
        (num_cells,) int32
            Status of each cell; valid until the next solve.
        """

    def eliminate(self, given: dict[str, np.ndarray]) -> np.ndarray:
        """Eliminate d, u, (l) only, as far as the status of each cell goes; returns it."""


def prefers_shared(resident: Resident, rows: int) -> bool:
    """Whether `Shared` can solve `rows` right-hand sides, and is the faster way."""
    small = resident.plan.packed_size * rows <= SHARED_VALUES
    return small and copies.fine_grained(resident.queue.device)


def solves_by_values(resident: Resident) -> bool:
    """Whether factors are best kept as the matrix in NumPy arrays, which every solve reads.

    That is so where each solve eliminates anew, and nothing needs to be copied for it.
    """
    if any(launch.part.keeps_factors for launch in resident.launches):
        return False
    ready = resident.takes_natural or prefers_shared(resident, 1)
    return ready and copies.lends_all(resident.queue.device)


def pin_buffers(
    plan: Plan, dtype: np.dtype, names: Sequence[str], rows: int, staged: Callable[[int], bool]
) -> list[Buffer]:
    """Pinned memory of the host for operands `names`, the solution and the status.

    Parameters
    ----------
    staged : callable
        Whether values of that many bytes, which come together, go through `copies.Pinned` instead.
        In natural order all operands come together, else each comes alone.
    """
    n, item = plan.forest.num_nodes, dtype.itemsize
    sizes = {name: n * (rows if name == "b" else 1) for name in names}
    together = sum(sizes.values()) * item
    found = [
        Buffer(name, size, dtype)
        for name, size in sizes.items()
        if not staged(together if plan.takes_natural else size * item)
    ]
    if not staged(n * rows * item):
        found.append(Buffer("x", n * rows, dtype))
    return [*found, Buffer("status", plan.forest.num_cells, np.dtype(np.int32))]


class Shared:
    """Solves of small batches by a CPU, in memory that it shares with the host.

    Parameters
    ----------
    resident : Resident
    names : sequence of str
        Operands: d, u, (l), b.
    rows : int
        Right-hand sides.
    """

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

    def solve(self, given: dict[str, np.ndarray], target: np.ndarray) -> np.ndarray:
        """See `HostSolve`."""
        self._run(given)
        x = self._values["x"]
        if target.flags.c_contiguous:
            x.take(self._places, -1, target.reshape(*x.shape[:-1], -1), "clip")
        else:
            target[...] = x.take(self._places, -1).reshape(target.shape)
        return self._values["status"]

    def eliminate(self, given: dict[str, np.ndarray]) -> np.ndarray:
        """See `HostSolve`."""
        self._run(given)  # whatever `b` holds, which is finite or not: pivots know nothing of it
        return self._values["status"]

    def _run(self, given: dict[str, np.ndarray]) -> None:
        for name, a in given.items():
            values = self._values[name]
            a = a.reshape(*values.shape[:-1], -1) if a.ndim != values.ndim else a
            a.take(self._gather, -1, values, "clip")
            if len(self._padding):
                values[..., self._padding] = 0
        for step in self._steps:
            event = step.run(self.queue, None)
        event.wait()


class Hosted:
    """Solves in kept buffers, or in place in the host's arrays where the device can use these.

    Parameters
    ----------
    resident : Resident
    transfer : Transfer
    taken : Buffers
        Of `memory.value_buffers`.
    names : sequence of str
        Operands that come from the host: d, u, (l), b, or b alone with `matrix`.
    rows : int
        Right-hand sides.
    matrix : sequence of pyopencl arrays, optional
        Factors in device order, as of `Resident.make_factors`.
    factored : (num_cells,) int32 pyopencl array, optional
        Status that goes with them.
    """

    def __init__(
        self,
        resident: Resident,
        transfer: Transfer,
        taken: Buffers,
        names: Sequence[str],
        rows: int,
        matrix: Sequence[cla.Array] = (),
        factored: cla.Array | None = None,
    ) -> None:
        self.resident, self.transfer, self.taken, self.rows = resident, transfer, taken, rows
        self.queue, self.device, self.names = resident.queue, resident.queue.device, names
        self.natural = resident.takes_natural and not matrix
        found = (part.finds_infinite(rows) for part in resident.plan.parts)
        self.finds_infinite = self.natural and all(found)
        self._all_lent = copies.lends_all(self.device)
        plan, kind = resident.plan, np.dtype(np.int32)
        cells = plan.forest.num_cells
        self._under_way: list[cl.Event] = []  # of copies: dropping one waits for it
        self._read: cl.Buffer | None = None  # status on the device, where the host cannot see it
        if matrix:
            self._status, status = np.zeros(0, kind), None
        elif copies.fine_grained(self.device):
            self._status = copies.shared(self.queue, (cells,), kind)
            status = Slot((cells,), cl.SVM(self._status))
        else:
            status = resident.status
            self._read = status.base_data
        pins = self._pinned()
        self._pins = copies.Pins(self.queue, {b.name: (b.size, b.dtype) for b in pins})
        if self._read is not None:
            pin = self._pins.get("status")
            self._status = np.zeros(cells, kind) if pin is None else pin
        size = plan.forest.num_nodes if self.natural else plan.packed_size
        shape = (size,) if rows == 1 else (rows, size)
        if self.natural:
            operands = [Slot(shape if name == "b" else (size,), name=name) for name in names]
            x, use = Slot(shape, name="x"), None
        else:
            self._packed = {n: taken.view(n, shape if n == "b" else (size,)) for n in names}
            operands = [*matrix, *self._packed.values()]
            x, use = taken.view("x", shape), factored
            self._x = x
        self._steps = resident.steps(operands, x, factored=use, natural=self.natural, status=status)

    def _pinned(self) -> list[Buffer]:
        """Pinned memory that a call goes through; none for what `Transfer.copies` takes."""
        plan, dtype = self.resident.plan, self.resident.dtype
        if not copies.helps(self.device):
            return []
        return pin_buffers(plan, dtype, self.names, self.rows, self.transfer.staged)

    def solve(self, given: dict[str, np.ndarray], target: np.ndarray) -> np.ndarray:
        """See `HostSolve`."""
        out = target if target.flags.c_contiguous else np.empty(target.shape, target.dtype)
        lent = copies.lend(self.queue, out, True) if self._lends(out) else None
        sources = {k: copies.lend(self.queue, a) for k, a in given.items() if self._lends(a)}
        if lent is not None and given["b"] is out:
            sources["b"] = lent
        x = self._launch(given, sources, lent)
        self._fetch(x, lent, out)
        if out is not target:
            target[...] = out
        return self._status

    def eliminate(self, given: dict[str, np.ndarray]) -> np.ndarray:
        """See `HostSolve`; of kernels in natural order."""
        sources = {k: copies.lend(self.queue, a) for k, a in given.items() if self._lends(a)}
        self._launch(given, sources, None)
        self.queue.finish()
        if self._read is not None:
            cl.enqueue_copy(self.queue, self._status, self._read)
        return self._status

    def _lends(self, a: np.ndarray) -> bool:
        return self._all_lent or copies.lends(self.device, a)

    def _launch(
        self, given: dict[str, np.ndarray], sources: dict[str, cl.Buffer], lent: cl.Buffer | None
    ) -> cl.Buffer:
        """Bring the values that are not lent, launch, and return where the solution will be."""
        queue, taken = self.queue, self.taken
        if self.natural:
            brought = {k: a for k, a in given.items() if k not in sources}
            if brought:
                sources |= {name: taken[name].base_data for name in brought}
                self._bring([(name, a, sources[name]) for name, a in brought.items()])
            sources["x"] = taken["x"].base_data if lent is None else lent
            sources.setdefault("b", sources.get("d"))  # to eliminate only, any values do
            for step in self._steps:
                step.run_with(queue, sources)
            return sources["x"]
        targets = {name: a.base_data for name, a in self._packed.items()}
        if len(sources) == len(given):
            self.resident.pack_buffers(sources, targets, self.rows)
        else:
            passing = taken["natural"].base_data
            for name, a in given.items():
                if name not in sources:
                    self._bring([(name, a, passing)])
                one = {name: sources.get(name, passing)}
                self.resident.pack_buffers(one, targets, self.rows)
        for step in self._steps:
            step.run(queue, None)
        out = taken["natural"].base_data if lent is None else lent
        self.resident.unpack_buffer(self._x.base_data, out, self.rows)
        return out

    def _bring(self, values: Sequence[tuple[str, np.ndarray, cl.Buffer]]) -> None:
        """Copy values to the device; those in pinned memory are on their way at once."""
        size = sum(a.nbytes for _, a, _ in values)
        if self.transfer.staged(size):
            parts = [(list(np.atleast_2d(a)), to) for _, a, to in values]
            self.transfer.copies.start(parts)()
            return
        for name, a, to in values:
            pin = self._pins.get(name)
            if pin is None:
                cl.enqueue_copy(self.queue, to, a)
            else:
                np.copyto(pin, a.reshape(-1))
                self._under_way.append(cl.enqueue_copy(self.queue, to, pin, is_blocking=False))

    def _fetch(self, x: cl.Buffer, lent: cl.Buffer | None, out: np.ndarray) -> None:
        """Wait, once, until the host has the solution and the status."""
        queue, pin = self.queue, self._pins.get("x")
        if self._read is not None:  # in order: done when the solution is there
            wait = self._pins.get("status") is None
            read = cl.enqueue_copy(queue, self._status, self._read, is_blocking=wait)
            self._under_way.append(read)
        if lent is not None:
            copies.returned(queue, lent, out)
        elif self.transfer.staged(out.nbytes):
            self.transfer.copies.fetch(x, list(np.atleast_2d(out)))
        elif pin is not None:
            cl.enqueue_copy(queue, pin, x)
            np.copyto(out.reshape(-1), pin)
        else:
            cl.enqueue_copy(queue, out, x)
        self._under_way.clear()
