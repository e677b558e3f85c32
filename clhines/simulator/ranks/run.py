"""Runs of a network on several MPI ranks; each advances the cells of one rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clhines.core.errors import RankError
from clhines.simulator.engines.reference import check_globals
from clhines.simulator.engines.run import Mark, Restarts
from clhines.simulator.model.model import Model
from clhines.simulator.ranks.exchange import NO_WORDS, Exchange
from clhines.simulator.ranks.partition import RankRecords, Share, join
from clhines.simulator.records.records import Record
from clhines.simulator.state.chunk import Chunk


class RankedRun:
    """Advance a rank's cells, and exchange events; results are for these cells only."""

    device: Any  # its run's device

    def __init__(self, exchange: Exchange) -> None:
        self._exchange, self._guard, self.run = exchange, exchange.guard, exchange.run
        self.device, self.max_steps = self.run.device, exchange.max_steps

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        self._guard.do(self.run.begin, rows, records)
        self._exchange.begin()

    def advance(self, first: int, count: int, row: int) -> None:
        for begin, size in self._exchange.pieces(first, count):
            self._guard.do(self.run.advance, begin, size, row + begin - first)
            self._exchange.note_steps(begin, size)

    def deliver(self, first: int, count: int) -> None:
        self._exchange.deliver()

    def mark(self) -> Mark | None:
        return self._guard.do(self.run.mark)

    def seconds(self, marks: Sequence[Mark | None]) -> list[float]:
        seconds = self._guard.do(self.run.seconds, marks)
        return [0.0] * len(marks) if seconds is None else seconds

    def end(self) -> Chunk:
        self._exchange.end()
        failed, values = self._ended(self._guard.do(self.run.end))
        return self._exchange.chunk(failed, values)

    def _ended(self, chunk: Chunk | None) -> tuple[np.ndarray, list[np.ndarray]]:
        failed = 0 if chunk is None else int((chunk.failed > 0).sum())
        broken = np.flatnonzero(self._guard.gather_numbers([failed]))
        assert chunk is not None  # else this rank's error has been raised
        if len(broken) and not failed:
            raise RankError(f"rank {broken[0]}: a voltage is not finite", int(broken[0]))
        return chunk.failed, chunk.values

    def now(self, records: Sequence[Record], step: int) -> list[np.ndarray]:
        """Return present values, see `Run.now`; if this fails, the other ranks raise, too."""
        try:
            return self.run.now(records, step)
        except Exception as error:
            self._guard.ranks.exchange(NO_WORDS, error)
            raise

    def voltages(self) -> np.ndarray:
        return self._guard.call(self.run.voltages)

    def weights(self) -> np.ndarray:
        return self._guard.call(self.run.weights)

    def reward(self, reward: float, step: int) -> None:
        self._guard.call(self.run.reward, reward, step)

    def save(self) -> dict[str, np.ndarray]:
        return self._guard.call(self.run.save)

    def load(self, saved: dict[str, np.ndarray]) -> None:
        self._guard.call(self.run.load, saved)
        self._exchange.load()

    def restart(self, model: Model, in_place: bool = False) -> bool:
        """Go to the start of the same model; return whether this is possible, see `Restarts`."""
        run = self.run
        if not self._exchange.can_restart or not isinstance(run, Restarts):
            return False
        return run.restart(model, in_place)


class SharedRun(RankedRun):
    """Advance a rank's part of a network; results are gathered for the whole network."""

    def __init__(self, exchange: Exchange, shares: Sequence[Share]) -> None:
        super().__init__(exchange)
        self._shares, self._ranks = shares, self._guard.ranks
        mine = shares[self._ranks.rank]
        self.whole, self._first_cell = mine.whole, mine.cells.start
        self._records = RankRecords(self._ranks, mine.record)
        if any(kind.mechanism.program.begun for kind in self.whole.kinds):
            saved = self.save()  # collective
            with self._ranks.agreed():
                for k, kind in enumerate(self.whole.kinds) if saved else ():
                    kind_here = replace(kind, last=None)
                    check_globals(kind_here, self.whole.schema.named(saved, "state", k))

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        super().begin(rows, self._records.localise(records))

    def _ended(self, chunk: Chunk | None) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return a chunk's first failures on all ranks, by cell, and its recorded values.

        `chunk` is this rank's; None if it has no chunk.
        """
        here, numbers = np.zeros(0, int) if chunk is None else chunk.failed, []
        for first in (max(here[here < 0], default=0), min(here[here > 0], default=0)):
            cell = self._first_cell + int(np.argmax(here == first)) if first else 0
            numbers += [int(first), cell]
        gathered = self._guard.gather_numbers(numbers)
        failed = np.zeros(self.whole.forest.num_cells, np.int32)
        for first, cells in (gathered[:, :2].T, gathered[:, 2:].T):
            failed[cells[first != 0]] = first[first != 0]
        return failed, self._records.gather(None if chunk is None else chunk.values)

    def now(self, records: Sequence[Record], step: int) -> list[np.ndarray]:
        samples = self._guard.call(self.run.now, self._records.localise(records), step)
        return self._records.gather(samples)

    def voltages(self) -> np.ndarray:
        return np.concatenate(self._ranks.gather(super().voltages()))

    def weights(self) -> np.ndarray:
        weights = super().weights()
        on_grid, exact = self.whole.connections.weight.copy(), self.whole.netcons.weight.copy()
        for share, part in zip(self._shares, self._ranks.gather(weights), strict=True):
            count = len(share.on_grid)
            on_grid[share.on_grid], exact[share.weights] = part[:count], part[count:]
        return np.concatenate([on_grid, exact])

    def save(self) -> dict[str, np.ndarray]:
        """Return the network's state on rank 0, nothing on other ranks."""
        self._exchange.start()  # or their events would be lost where the state is loaded
        parts = self._ranks.comm.gather(super().save())
        return {} if parts is None else join(self._shares, parts)

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Continue from the whole network's state, as `save` returns it.

        Only rank 0 passes the state. It may come from a run on another number of ranks.
        """
        shares = self._shares if self._ranks.rank == 0 else ()
        parts = self._guard.call(lambda: [share.cut(saved) for share in shares])
        super().load(self._ranks.comm.scatter(parts or None))
