"""Results of some consecutive steps, and spikes whose events are pending after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from clhines.core.arrays import ranges
from clhines.core.errors import InputError, SpikeOverflowError
from clhines.simulator.model.model import Model
from clhines.simulator.network.times import begins_of, event_steps
from clhines.simulator.state.decisions import ring_slots

RUNAWAY = 1e6  # mV; kernels have the same number
NO_SPIKES, NO_TIMES = np.zeros(0, np.int64), np.zeros(0)
RecordRows: TypeAlias = "list[np.ndarray]"  # one array per record, see `DeviceReducer.chunk`


@dataclass(eq=False)
class Chunk:
    """Results of some consecutive steps; events are sorted by time, then source."""

    spike_step: np.ndarray  # each event's step; -1 at the start
    spike_cell: np.ndarray  # its source; the first sources are the cells
    # (num_cells,), of the soma's voltage: 1 + first step after which it is not finite;
    # -1 - first step after which it is `RUNAWAY` or more; else 0
    failed: np.ndarray
    values: RecordRows
    spike_time: np.ndarray  # ms

    @classmethod
    def of(
        cls, t: np.ndarray, source: np.ndarray, dt: float, failed: np.ndarray, values: RecordRows
    ) -> Chunk:
        order = np.lexsort((source, t))
        t, source = t[order], source[order].astype(np.int64)
        return cls(event_steps(t, dt) - 1, source, failed, values, t)

    @classmethod
    def of_none(cls, failed: np.ndarray, values: list[np.ndarray]) -> Chunk:
        return cls(NO_SPIKES, NO_SPIKES, failed, values, NO_TIMES)

    @classmethod
    def of_steps(
        cls, step: np.ndarray, source: np.ndarray, dt: float, failed: np.ndarray, values: RecordRows
    ) -> Chunk:
        """Make a chunk from events, in any order, at the ends of steps; -1 stands for t = 0."""
        step, source, t = by_step(step, source, dt)
        return cls(step, source, failed, values, t)


def runaways(v: np.ndarray, failed: np.ndarray, step: int) -> np.ndarray:
    """Mark the cells whose voltage diverges in step `step`; return the new `Chunk.failed`.

    `v`, mV, has the somas' voltages at the end of the step, and `failed` the marks before it.
    """
    beyond = np.where(failed == 0, -1 - step, failed)
    marks = np.where(np.abs(v) < RUNAWAY, failed, np.where(np.isfinite(v), beyond, step + 1))
    return np.where(failed > 0, failed, marks)


def by_step(
    step: np.ndarray, source: np.ndarray, dt: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sort events at the ends of steps; return steps and sources, int64, and times, ms."""
    key = (step.astype(np.int64) << 32) | source
    key.sort()
    step = key >> 32
    return step, key & 0xFFFFFFFF, begins_of(step + 1, dt)


def check_room(count: int, room: int, last: int) -> None:
    if count > room:
        raise SpikeOverflowError(
            f"step {last}: {count} spikes in the chunk that ends after it or later, room for "
            f"{room}; expected a larger max_spikes",
            last,
        )


class UnderWay:
    """Spikes in the last `max_delay` steps, whose events may be pending.

    NEURON reads a weight when it delivers an event; here weights are summed when a cell spikes. If
    weights change, the sums are computed again, exactly, from these spikes. Spikes before step
    `since` are unknown.
    """

    def __init__(self) -> None:
        self.since, self._step, self._cell = -1, NO_SPIKES, NO_SPIKES

    def __len__(self) -> int:
        return len(self._step)

    def note(self, chunk: Chunk, model: Model, step: int) -> None:
        if not len(chunk.spike_step) and not len(self._step):
            return
        least = step - 1 - model.connections.max_delay
        old, new = self._step >= least, int(np.searchsorted(chunk.spike_step, least))
        self._step = np.append(self._step[old], chunk.spike_step[new:])
        self._cell = np.append(self._cell[old], chunk.spike_cell[new:])

    def forget(self, step: int) -> None:
        self.since, self._step, self._cell = step, self._step[:0], self._cell[:0]

    def check_known(self, incoming: np.ndarray, model: Model, step: int) -> None:
        last = self.since + model.connections.max_delay
        if self.since >= 0 and step <= last and incoming.any():
            raise InputError(
                f"weight: events are pending whose spikes came before t = "
                f"{self.since * model.dt:g} ms, when the state was restored; expected run() until "
                f"{(last + 1) * model.dt:g} ms first, or weights before restore()"
            )

    def sums(self, weight: np.ndarray, model: Model, unit: float, step: int) -> np.ndarray:
        """Sum the weights of events that are pending when `step` begins, by due step and target.

        Return (slots, num_targets) int64, in multiples of `unit`; events due in step s are in row
        ``s % slots``, as in a ring buffer.
        """
        grid, sums = model.connections, np.zeros((ring_slots(model), model.num_targets), np.int64)
        begin, count = grid.row[self._cell], np.diff(grid.row)[self._cell]
        sent = grid.order[ranges(begin, count)]
        due = np.repeat(self._step, count) + 1 + grid.delay[sent]
        waits = due >= step
        sent, due = sent[waits], due[waits]
        numbers = np.rint(weight[model.numbers[sent]] / unit).astype(np.int64)
        np.add.at(sums, (due % len(sums), grid.target[sent]), numbers)
        return sums
