"""Results of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clhines.simulate.state import Chunk, Record, TimedChunk


@dataclass(frozen=True, eq=False)
class Result:
    """Spikes and records of a run.

    Attributes
    ----------
    t : (rows,) float64, ms
        Times of the recorded rows: the ends of the steps, and 0 where the run began there.
    values : list of (rows, r) arrays
        One per call of `record`, in their order; ``result[k]`` is ``result.values[k]``.
    spike_time : (k,) float64, ms
    spike_cell : (k,) int64
        By time, then cell. In an extended network events of all sources, by their numbers:
        `Network.source_numbers`; the first are the cells.
    cost : dict of str to float, s
        ``all``, the wall time. What the device spent of it: ``steps``, with events from outside
        and recording, and ``spikes``, their delivery; where the queue has no timestamps, and for
        ``reference``, what the host did. ``collect``: reading results after each chunk. Of several
        ranks: of this one, and ``exchange``, its time in exchanges, waiting for others included.
    """

    t: np.ndarray
    values: list[np.ndarray]
    spike_time: np.ndarray
    spike_cell: np.ndarray
    cost: dict[str, float]

    def __getitem__(self, k: int) -> np.ndarray:
        return self.values[k]


def joined_result(
    chunks: Sequence[Chunk],
    records: Sequence[Record],
    dt: float,
    steps: tuple[int, int],
    cost: dict[str, float],
) -> Result:
    """Join the chunks of a run.

    Parameters
    ----------
    chunks : sequence of Chunk
    records : sequence of Record
    dt : float, ms
    steps : (int, int)
        First step of the run, and the first one whose spikes and records are left out.
    cost : dict of str to float, s
    """
    begin, last = steps
    t = np.arange(begin + 1 if begin else 0, last + 1) * dt
    values = [
        np.concatenate([c.values[k] for c in chunks])[: len(t)]
        if chunks
        else np.zeros((0, len(record.index)))
        for k, record in enumerate(records)
    ]
    none = [np.zeros(0, np.int64)]
    step = np.concatenate(none + [c.spike_step for c in chunks])
    cell = np.concatenate(none + [c.spike_cell for c in chunks])
    kept = step < last
    timed = [c.spike_time for c in chunks if isinstance(c, TimedChunk)]
    time = np.concatenate(timed)[kept] if timed else (step[kept] + 1) * dt
    return Result(t, values, time, cell[kept], cost)
