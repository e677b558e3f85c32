"""Spikes under way: whose events other weights are to act on.

NEURON reads the weight of a connection when an event is delivered. Sums of whole steps
keep sums of integer weights for each target and step instead, which are formed when a cell spikes.
So spikes are remembered for the longest delay: with other weights the sums are formed again from
them, exactly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from clhines.arrays import ranges
from clhines.errors import InputError
from clhines.model.model import Model
from clhines.simulate.state.chunk import Chunk
from clhines.simulate.state.decisions import ring_slots


class UnderWay:
    """Spikes of as many last steps as the longest delay has, known from the step `since` on."""

    def __init__(self, since: int = -1, step: ArrayLike = (), cell: ArrayLike = ()) -> None:
        self.since = since
        self._step, self._cell = np.asarray(step, np.int64), np.asarray(cell, np.int64)

    def __len__(self) -> int:
        return len(self._step)

    def note(self, chunk: Chunk, model: Model, step: int) -> None:
        """Remember the spikes of a chunk that ends at the begin of `step`."""
        if not len(chunk.spike_step) and not len(self._step):
            return
        steps = np.concatenate([self._step, chunk.spike_step])
        cells = np.concatenate([self._cell, chunk.spike_cell])
        kept = steps + 1 + model.connections.max_delay >= step
        self._step, self._cell = steps[kept], cells[kept]

    def forget(self, step: int) -> None:
        """Go on at a step before which no spikes are known."""
        self.since, self._step, self._cell = step, self._step[:0], self._cell[:0]

    def copies(self, sources: np.ndarray) -> UnderWay:
        """Return those of copies of a network, whose sources have these numbers, (copies, s)."""
        steps = np.tile(self._step, len(sources))
        return UnderWay(self.since, steps, sources[:, self._cell].reshape(-1))

    def check_known(self, incoming: np.ndarray, model: Model, step: int) -> None:
        """Raise InputError where sums at the begin of `step` may be of spikes that are unknown."""
        last = self.since + model.connections.max_delay
        if self.since >= 0 and step <= last and incoming.any():
            raise InputError(
                f"weight: events are under way whose spikes came before t = "
                f"{self.since * model.dt:g} ms, where the state was restored; expected run() until "
                f"{(last + 1) * model.dt:g} ms first, or weights before restore()"
            )

    def sums(self, weight: np.ndarray, model: Model, unit: float, step: int) -> np.ndarray:
        """Form the sums at the begin of a step, (slots, num_targets) int64, with given weights."""
        given, found = model.connections, np.zeros((ring_slots(model), model.num_targets), np.int64)
        begin, count = given.row[self._cell], np.diff(given.row)[self._cell]
        sent = given.order[ranges(begin, count)]
        due = np.repeat(self._step, count) + 1 + given.delay[sent]
        waits = due >= step
        sent, due = sent[waits], due[waits]
        numbers = np.rint(weight[model.numbers[sent]] / unit).astype(np.int64)
        np.add.at(found, (due % len(found), given.target[sent]), numbers)
        return found
