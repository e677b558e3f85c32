"""The run of one network on several MPI ranks: `SplitRun` advances and exchanges spikes.

`mpi.Ranks` does the collectives, `partition` divides the network, `exchange` keeps the spikes that
come and go. An error of one rank waits until the next collective, and is then raised on all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import pyopencl as cl

from clhines.errors import InputError
from clhines.simulate.engines.run import Mark, PartRun
from clhines.simulate.ranks.exchange import Spikes
from clhines.simulate.ranks.mpi import Ranks, decoded, encoded
from clhines.simulate.ranks.partition import RankRecords, Share, join
from clhines.simulate.records.records import Record
from clhines.simulate.state.state import Chunk, by_time

_Found = TypeVar("_Found")


class SplitRun:
    """Advances this rank's cells and exchanges spikes; same interface as a single-process run.

    Parameters
    ----------
    ranks : Ranks
    share : Share
    run : PartRun
        Of the rank's part of the model.
    overlap : bool
        Of `Decisions`.
    """

    def __init__(self, ranks: Ranks, share: Share, run: PartRun, overlap: bool) -> None:
        self.ranks, self.share, self.run = ranks, share, run
        self.max_steps = run.max_steps
        self.first_cell, self._overlap = int(share.bounds[ranks.rank]), overlap
        self._records = RankRecords(ranks, lambda record: share.record(ranks.rank, record))
        self._spikes: list[tuple[np.ndarray, np.ndarray]] = []
        self._waiting: tuple[Callable[[], Spikes] | None, int, int] | None = None
        self._error: Exception | None = None
        most = max(len(own) for own in share.detectors) * self.max_steps
        if most >= 2**32:
            raise InputError(
                f"{most} detectors times steps of an epoch on a rank; expected below 2**32"
            )

    @property
    def device(self) -> cl.Device | None:
        """The device of this rank."""
        return self.run.device

    def _try(self, do: Callable[..., _Found], *arguments: object) -> _Found | None:
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
        self._try(self.run.begin, rows, self._records.localised(records))

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
        noted, first, count = self._waiting
        self._waiting = None
        found = None if noted is None else self._try(noted)
        cell, step = found if found is not None else (np.zeros(0, int), np.zeros(0, int))
        code = encoded(cell, step, first, count)
        error, self._error = self._error, None
        codes = self.ranks.exchange(code, error)
        source, step = decoded(codes, self.share.detectors, first, count)
        if len(source):
            self._spikes.append((step, source))
            self._try(self.run.send, source, step, first, count)

    def mark(self) -> Mark | None:
        """Return a mark of this position in the queue, for `seconds`."""
        return self._try(self.run.mark)

    def seconds(self, marks: Sequence[Mark | None]) -> list[float]:
        """Wait, and return the times at which the queue reached the marks."""
        found = self._try(self.run.seconds, marks)
        return [0.0] * len(marks) if found is None else found

    def end(self) -> Chunk:
        """Return the spikes, failures and records of all ranks since `begin`."""
        if self._waiting is not None:
            self._exchange()
        chunk = self._try(self.run.end)
        here = np.zeros(0, int) if chunk is None else chunk.failed
        first = int(min(here[here > 0], default=0))
        cell = self.first_cell + int(np.argmax(here == first)) if first else 0
        gathered = self.ranks.gather_numbers([self._error is not None, first, cell])
        if gathered[:, 0].any():
            self._settle()
        failed = np.zeros(self.share.whole.forest.num_cells, np.int32)
        broken = gathered[gathered[:, 1] > 0]
        failed[broken[:, 2]] = broken[:, 1]
        none = [np.zeros(0, np.int64)]
        step, source = (np.concatenate(none + [s[k] for s in self._spikes]) for k in (0, 1))
        values = None if chunk is None else chunk.values
        return Chunk(*by_time(step, source), failed, self._records.joined(values))

    def now(self, records: Sequence[Record], step: int) -> list[np.ndarray]:
        """Values of records as they are, (1, r) each."""
        found = self._try(self.run.now, self._records.localised(records), step)
        self._settle()
        return self._records.joined(found)

    def voltages(self) -> np.ndarray:
        """(n,): of all cells, on all ranks."""
        v = self._try(self.run.voltages)
        self._settle()
        return np.concatenate(self.ranks.comm.allgather(v))

    def weights(self) -> np.ndarray:
        """(m,) float64: of all connections, on all ranks."""
        weights = self._try(self.run.weights)
        self._settle()
        found = np.empty(len(self.share.whole.connections.weight))
        for part, own in zip(self.share.parts(), self.ranks.comm.allgather(weights), strict=True):
            found[part.things["plastic"]] = own
        return found

    def save(self) -> dict[str, np.ndarray]:
        """Return what `load` takes on rank 0, as one process would save it; nothing elsewhere."""
        saved = self._try(self.run.save)
        self._settle()
        parts = self.ranks.comm.gather(saved)
        return {} if parts is None else join(self.share.whole, self.share.parts(), parts)

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Continue from the arrays of `save` on rank 0, with any number of ranks."""
        parts = None
        if self.ranks.rank == 0:
            parts = self._try(lambda: [p.cut(self.share.whole, saved) for p in self.share.parts()])
        self._settle()
        own = self.ranks.comm.scatter(parts)
        self._try(self.run.load, own)
        self._settle()
