"""Result: what a run recorded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Result:
    """What a run gave.

    Attributes
    ----------
    t : (rows,) float64, ms
        Times of the recorded rows: the ends of the steps, and 0 where the run began there.
    values : list of (rows, r) arrays
        One a call of `record`, in their order; ``result[k]`` is ``result.values[k]``.
    spike_time : (k,) float64, ms
    spike_cell : (k,) int64
        By time, then cell.
    cost : dict of str to float, s
        ``all``, the wall time. What the device spent of it: ``steps``, with events from outside
        and recording, and ``spikes``, their delivery; where the queue has no timestamps, and for
        ``reference``, what the host did. ``collect``: reading results after each chunk. Of several
        ranks: of this one, and ``exchange``, what it spent on that, waiting for others included.
    """

    t: np.ndarray
    values: list[np.ndarray]
    spike_time: np.ndarray
    spike_cell: np.ndarray
    cost: dict[str, float]

    def __getitem__(self, k: int) -> np.ndarray:
        return self.values[k]
