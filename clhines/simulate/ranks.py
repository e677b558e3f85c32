"""One network on several ranks: the exchange of spikes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device import devices
from clhines.errors import InputError
from clhines.simulate.delivery import Delivery
from clhines.simulate.mpi import Ranks, decoded, encoded
from clhines.simulate.partition import Share
from clhines.simulate.state import Chunk, Record, State, by_time, values_now

_COMPLETE = cl.command_execution_status.COMPLETE
_READ, _LIST = 256, 1024  # spikes that a CPU's look reads, that a list to deliver holds, at first


class Received:
    """Spikes between a device and other ranks: those found here, and those of all to deliver.

    Attributes
    ----------
    capacity : int
        Spikes that the list to deliver has room for.
    """

    def __init__(self, state: State) -> None:
        self.state, self.queue = state, state.queue
        self._count = cla.zeros(self.queue, 1, np.int32)
        self._begin, self._width = 0, _READ
        self._sent: deque[cl.Event] = deque()
        # A GPU's memory is read and written beside the queue, so that nothing waits for the epoch
        # that is under way. A CPU's cores are busy with that: there as many spikes as usual are
        # read between two epochs.
        self._side = None
        if not devices.is_cpu(state.queue.device):
            self._side = cl.CommandQueue(state.queue.context, state.queue.device)
        self._noted = cla.zeros(self.queue, 1, np.int32)
        self._make_room(_LIST)

    def _make_room(self, capacity: int) -> None:
        self.capacity = capacity
        self._lists = [cla.empty(self.queue, capacity, np.int32) for _ in range(2)]

    def begin(self) -> None:
        """Empty the list of spikes found here."""
        self.state.spike_count.fill(0)
        self._begin = 0

    def note(self) -> tuple[cl.Event, np.ndarray, np.ndarray]:
        """Enqueue a look at the spikes; what `noted` takes. One look at most may be open."""
        count, source = np.zeros(1, np.int32), self.state.spike_count
        if self._side is not None:
            size = source.nbytes
            event = cl.enqueue_copy(self.queue, self._noted.data, source.data, byte_count=size)
            return event, count, np.zeros((2, 0), np.int32)
        early = np.zeros((2, min(self._width, self.state.max_spikes - self._begin)), np.int32)
        for row, a in zip(early, self._found) if early.size else ():
            offset = 4 * self._begin
            self._keep(
                cl.enqueue_copy(self.queue, row, a.data, src_offset=offset, is_blocking=False)
            )
        event = cl.enqueue_copy(self.queue, count, source.data, is_blocking=False)
        return event, count, early

    @property
    def _found(self) -> tuple[cla.Array, cla.Array]:
        return self.state.spike_source, self.state.spike_step

    def noted(
        self, ticket: tuple[cl.Event, np.ndarray, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Wait for a look, and return cells and steps of the spikes since the last one."""
        event, count, early = ticket
        self.queue.flush()
        event.wait()
        if self._side is not None:
            cl.enqueue_copy(self._side, count, self._noted.data)
        begin, end = self._begin, min(int(count[0]), self.state.max_spikes)  # `end` tells of more
        self._begin = end
        if end - begin <= early.shape[1]:
            return early[0, : end - begin], early[1, : end - begin]
        self._width = max(self._width, 1 << (end - begin).bit_length())
        found = np.zeros((2, end - begin), np.int32)
        for row, a in zip(found, self._found):
            cl.enqueue_copy(self._side or self.queue, row, a.data, src_offset=4 * begin)
        return found[0], found[1]

    def put(
        self, source: np.ndarray, step: np.ndarray, delivery: Delivery
    ) -> tuple[cla.Array, cla.Array, cla.Array]:
        """Enqueue that a list is there for `delivery`, and return it; nothing waits."""
        if len(source) > self.capacity:
            self._make_room(1 << len(source).bit_length())
            delivery.capacity = self.capacity
        delivery.reset(self._count if self._side is None else self._noted)
        given = source.astype(np.int32), step.astype(np.int32), np.array([len(source)], np.int32)
        for values, array in zip(given, (*self._lists, self._count), strict=True):
            if self._side is not None:  # the last delivery is done: `noted` has waited for it
                cl.enqueue_copy(self._side, array.data, values)
                continue
            self._keep(cl.enqueue_copy(self.queue, array.data, values, is_blocking=False))
        return self._lists[0], self._lists[1], self._count

    def _keep(self, event: cl.Event) -> None:
        """Hold the events of pending copies; destroying one early would block."""
        while self._sent and self._sent[0].command_execution_status == _COMPLETE:
            self._sent.popleft()
        self._sent.append(event)


class SplitRun:
    """Advances this rank's cells and exchanges spikes; same interface as a single-process run.

    Parameters
    ----------
    ranks : Ranks
    share : Share
    run : Any
        Of the rank's part of the model.
    """

    def __init__(self, ranks: Ranks, share: Share, run: Any) -> None:
        self.ranks, self.share, self.run = ranks, share, run
        self.max_steps = run.max_steps
        self.first_cell, self._overlap = int(share.bounds[ranks.rank]), run.model.overlap
        self._records: list[tuple[Record, Record, np.ndarray]] = []
        self._spikes: list[tuple[np.ndarray, np.ndarray]] = []
        self._waiting: tuple[Any, int, int] | None = None
        self._error: Exception | None = None
        most = int(np.diff(share.bounds).max()) * self.max_steps
        if most >= 2**32:
            raise InputError(
                f"{most} cells times steps of an epoch on a rank; expected below 2**32"
            )

    def _try(self, do: Callable[..., Any], *arguments: Any) -> Any:
        """Do something on this rank alone; an error waits until the others can hear of it."""
        if self._error is not None:
            return None
        try:
            return do(*arguments)
        except Exception as error:
            self._error = error
            return None

    def _settle(self) -> None:
        error, self._error = self._error, None
        self.ranks.agree(error)

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        """Begin a chunk of so many steps."""
        self._spikes, self._waiting = [], None
        self._try(self.run.begin, rows, self._localised(records))

    def _localised(self, records: Sequence[Record]) -> list[Record]:
        """Return what this rank records: the same objects as long as the records are the same."""
        known = {id(whole): row for row in self._records for whole in row[:1]}
        rank = self.ranks.rank
        self._records = [known.get(id(r)) or (r, *self.share.record(rank, r)) for r in records]
        return [own for _, own, _ in self._records]

    def advance(self, first: int, count: int, row: int) -> None:
        """Enqueue steps, and exchange the spikes of those before them if that has waited."""
        self._try(self.run.advance, first, count, row)
        if self._waiting is not None:
            self._exchange()
        self._waiting = self._try(self.run.note_spikes), first, count

    def deliver(self, first: int, count: int) -> None:
        """Exchange the spikes of the last steps, unless that can wait for the next ones."""
        if not self._overlap:
            self._exchange()

    def _exchange(self) -> None:
        assert self._waiting is not None
        ticket, first, count = self._waiting
        self._waiting = None
        found = self._try(self.run.noted_spikes, ticket)
        cell, step = found if found is not None else (np.zeros(0, int), np.zeros(0, int))
        code = encoded(cell, step, first, count)
        error, self._error = self._error, None
        codes = self.ranks.exchange(code, error)
        source, step = decoded(codes, self.share.bounds, first, count)
        if len(source):
            self._spikes.append((step, source))
            self._try(self.run.send, source, step, first, count)

    def mark(self) -> Any:
        """Return what `seconds` takes as this place in the queue."""
        return self._try(self.run.mark)

    def seconds(self, marks: list[Any]) -> list[float]:
        """Wait, and return when the queue came to the marks."""
        found = self._try(self.run.seconds, marks)
        return [0.0] * len(marks) if found is None else found

    def end(self) -> Chunk:
        """Return what was found since `begin` on all ranks."""
        if self._waiting is not None:
            self._exchange()
        chunk = self._try(self.run.end)
        here = np.zeros(0, int) if chunk is None else chunk.failed
        first = int(min(here[here > 0], default=0))
        cell = self.first_cell + int(np.argmax(here == first)) if first else 0
        told = self.ranks.gather_numbers([self._error is not None, first, cell])
        if told[:, 0].any():
            self._settle()
        failed = np.zeros(self.share.whole.forest.num_cells, np.int32)
        broken = told[told[:, 1] > 0]
        failed[broken[:, 2]] = broken[:, 1]
        none = [np.zeros(0, np.int64)]
        step, source = (np.concatenate(none + [s[k] for s in self._spikes]) for k in (0, 1))
        return Chunk(*by_time(step, source), failed, self._joined(chunk.values))

    def _joined(self, values: list[np.ndarray]) -> list[np.ndarray]:
        """Columns of all ranks, on all ranks."""
        if not self._records:
            return []
        parts = self.ranks.comm.allgather([
            (columns, own) for (_, _, columns), own in zip(self._records, values, strict=True)
        ])  # fmt: skip
        found = []
        for k, (record, *_) in enumerate(self._records):
            rows = np.empty((len(values[k]), len(record.index)), values[k].dtype)
            for part in parts:
                columns, own = part[k]
                rows[:, columns] = own
            found.append(rows)
        return found

    def now(self, records: Sequence[Record]) -> list[np.ndarray]:
        """Values of records as they are, (1, r) each."""
        found = self._try(values_now, self.run, self._localised(records))
        self._settle()
        return self._joined(found)

    def voltages(self) -> np.ndarray:
        """(n,): of all cells, on all ranks."""
        v = self._try(self.run.voltages)
        self._settle()
        return np.concatenate(self.ranks.comm.allgather(v))

    def weights(self) -> np.ndarray:
        """(m,) float64: of all connections, on all ranks."""
        weights = self._try(self.run.weights)
        self._settle()
        return self.share.join_weights(self.ranks.comm.allgather(weights))

    def save(self) -> dict[str, np.ndarray]:
        """Return what `load` takes on rank 0, as one process would save it; nothing elsewhere."""
        saved = self._try(self.run.save)
        self._settle()
        parts = self.ranks.comm.gather(saved)
        return {} if parts is None else self.share.join(parts)

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from what `save` gave on rank 0, with any number of ranks."""
        parts = None
        if self.ranks.rank == 0:
            parts = self._try(lambda: [self.share.cut(r, saved) for r in range(self.ranks.size)])
        self._settle()
        own = self.ranks.comm.scatter(parts)
        self._try(self.run.load, own)
        self._settle()
