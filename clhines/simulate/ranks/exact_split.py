"""A network on several ranks: the exchange of events at exact times, and of voltages pointed at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pyopencl as cl

from clhines.errors import InputError
from clhines.model.model import Model
from clhines.simulate.engines.reference import Reference
from clhines.simulate.engines.steps import Steps
from clhines.simulate.events.sources import SPIKE_LATE
from clhines.simulate.kinds.layouts import is_artificial
from clhines.simulate.ranks.exact_partition import ExactShare, steps_together
from clhines.simulate.ranks.mpi import Ranks
from clhines.simulate.ranks.partition import RankRecords, join
from clhines.simulate.records.records import Record
from clhines.simulate.state.decisions import Decisions
from clhines.simulate.state.state import Chunk, TimedChunk

PartRun = Reference | Steps


class ExactSplit:
    """Advances this rank's cells; see `engines.run.Run`.

    Parameters
    ----------
    ranks : Ranks
    decisions : Decisions
        Of the whole network.
    bounds : (size + 1,) int64
        Cells of each rank.
    make : callable
        Returns the run of a rank's model.
    """

    def __init__(
        self,
        ranks: Ranks,
        decisions: Decisions,
        bounds: np.ndarray,
        make: Callable[[Model], PartRun],
    ) -> None:
        whole = decisions.network
        self.ranks, self.whole = ranks, whole
        with ranks.agreed():
            self._shares = [ExactShare(whole, a, b) for a, b in pairwise(bounds.tolist())]
            self.max_steps = min(steps_together(self._shares), decisions.epoch)
            self._own = self._shares[ranks.rank]
            self.run = make(self._own.model())
        every = [s.remote for s in self._shares]
        self._pointed = np.unique(np.concatenate(every))
        self._spikes: list[tuple[np.ndarray, np.ndarray]] = []
        self._records = RankRecords(ranks, self._local)
        self._started, self._taken = False, (-1, 1)

    def _from_here(self, source: np.ndarray) -> np.ndarray:
        """Whether sources are of cells of this rank, or artificial."""
        mine = np.zeros(self.whole.sources.count, bool)
        mine[self.whole.sources.detector_source[self._own.detectors]] = True
        for k, sources in self.whole.sources.emitted.items():
            mine[sources[self._own.instances[k]]] = True
        return mine[source]

    def _artificial(self, source: np.ndarray) -> np.ndarray:
        """Whether sources are artificial cells, which all ranks have."""
        found = np.zeros(self.whole.sources.count, bool)
        for k, sources in self.whole.sources.emitted.items():
            found[sources[sources >= 0]] |= is_artificial(self.whole.kinds[k])
        return found[source]

    def _exchange(self) -> None:
        """Give all ranks the events found here, and the voltages that others point at."""
        with self.ranks.agreed():
            source, time = self.run.new_events()
            if self.ranks.rank:
                own = ~self._artificial(source)
                source, time = source[own], time[own]
            here = self._pointed[np.isin(self._pointed, self._own.nodes)]
            v = self.run.voltages_at(here - self._own.low) if len(self._pointed) else np.zeros(0)
        found = self.ranks.comm.allgather((source, time, v))
        source, time = (np.concatenate([one[k] for one in found]) for k in (0, 1))
        self._spikes.append((source, time))
        with self.ranks.agreed():
            detected = np.isin(source, self.whole.sources.detector_source)
            sent = np.where(detected, time + SPIKE_LATE, time)
            order = np.lexsort((sent, source))
            order = order[~self._from_here(source[order])]
            self.run.take_events(source[order], sent[order])
            if self.whole.on_grid:
                self._send(source[detected], time[detected])
            if len(self._pointed):
                every = np.concatenate([one[2] for one in found])
                self.run.take_voltages(every[np.searchsorted(self._pointed, self._own.remote)])

    def _send(self, source: np.ndarray, time: np.ndarray) -> None:
        """Deliver spikes of the whole network in whole steps."""
        step = np.rint(time / self.whole.dt).astype(np.int64) - 1
        if (step < 0).any() and self.whole.connections.rule is not None:
            raise InputError(
                f"source {source[step < 0][0]} begins above its threshold, which plastic "
                "connections on several ranks do not take; expected a lower v_init"
            )
        first, count = self._taken
        self.run.send(source, step, min(first, int(step.min(initial=first))), count)

    @property
    def device(self) -> cl.Device | None:
        """The device of this rank."""
        return self.run.device

    # -- a chunk -------------------------------------------------------------------------------

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        """Begin a chunk of so many steps."""
        self._spikes = []
        with self.ranks.agreed():
            self.run.begin(rows, self._records.localised(records))
        if not self._started:
            self._exchange()
            self._started = True

    def _local(self, record: Record) -> tuple[Record, np.ndarray]:
        some = self._own.nodes if record.kind < 0 else self._own.instances[record.kind]
        columns = np.flatnonzero(np.isin(record.index, some))
        index = np.searchsorted(some, record.index[columns])
        return record.at(columns, index, record.kind), columns

    def advance(self, first: int, count: int, row: int) -> None:
        """Take steps; no more than need no events of other ranks."""
        with self.ranks.agreed():
            self.run.advance(first, count, row)
        self._taken = first, count

    def deliver(self, first: int, count: int) -> None:
        """Exchange the events of the steps just taken."""
        self._exchange()

    def mark(self) -> float:
        """Return what `seconds` takes as this moment."""
        return self.run.mark()

    def seconds(self, marks: Sequence[float]) -> list[float]:
        """Wait, and return the moments, s."""
        return self.run.seconds(marks)

    def end(self) -> Chunk:
        """Return what was found since `begin` on all ranks."""
        with self.ranks.agreed():
            chunk = self.run.end()
        failed = np.concatenate(self.ranks.comm.allgather(chunk.failed))
        source, time = (np.concatenate([s[k] for s in self._spikes]) for k in (0, 1))
        values = self._records.joined(chunk.values)
        return TimedChunk.of(time, source, self.whole.dt, failed, values)

    # -- the whole -----------------------------------------------------------------------------

    def now(self, records: Sequence[Record], step: int) -> list[np.ndarray]:
        """Values of records as they are, (1, r) each."""
        with self.ranks.agreed():
            values = self.run.now(self._records.localised(records), step)
        return self._records.joined(values)

    def voltages(self) -> np.ndarray:
        """(n,): of all cells, on all ranks."""
        return np.concatenate(self.ranks.comm.allgather(self.run.voltages()))

    def weights(self) -> np.ndarray:
        """(w,) float64: of all connections, on all ranks."""
        on_grid, found = self.whole.connections.weight.copy(), self.whole.netcons.weight.copy()
        for share, part in zip(
            self._shares, self.ranks.comm.allgather(self.run.weights()), strict=True
        ):
            count = len(share.on_grid)
            on_grid[share.on_grid], found[share.weights] = part[:count], part[count:]
        return np.concatenate([on_grid, found])

    def save(self) -> dict[str, np.ndarray]:
        """Return what `load` takes on rank 0, as one process would save it; nothing elsewhere."""
        with self.ranks.agreed():
            saved = self.run.save()
        parts = self.ranks.comm.gather(saved)
        if parts is None:
            return {}
        return join(self.whole, [share.part() for share in self._shares], parts)

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from what `save` gave on rank 0, with any number of ranks."""
        with self.ranks.agreed():
            parts = None
            if not self.ranks.rank:
                parts = [
                    share.part().cut(self.whole, saved) | {"remote_v": saved["v"][share.remote]}
                    for share in self._shares
                ]
        own = self.ranks.comm.scatter(parts)
        with self.ranks.agreed():
            self.run.load(own)
        self._started = True
