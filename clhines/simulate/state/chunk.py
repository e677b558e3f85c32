"""Chunk: what a run has found in some steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clhines.errors import SpikeOverflowError
from clhines.network.times import ends_of


@dataclass(frozen=True, eq=False)
class Chunk:
    """Results of a chunk of steps; events of all sources, by time, then source."""

    spike_step: np.ndarray  # step that each event is in, -1 at the start
    spike_cell: np.ndarray  # its source; the first sources are the cells
    failed: np.ndarray  # 1 + the step after which the soma's voltage was first not finite, or 0
    values: list[np.ndarray]  # one array per record, see `DeviceReducer.chunk`
    spike_time: np.ndarray  # ms

    @classmethod
    def of(
        cls,
        t: np.ndarray,
        source: np.ndarray,
        dt: float,
        failed: np.ndarray,
        values: list[np.ndarray],
    ) -> Chunk:
        """Return a chunk of events at any time, in any order."""
        order = np.lexsort((source, t))
        t, source = t[order], source[order].astype(np.int64)
        return cls(steps_to(t, dt), source, failed, values, t)

    @classmethod
    def of_none(cls, failed: np.ndarray, values: list[np.ndarray]) -> Chunk:
        """Return a chunk without events."""
        none = np.zeros(0, np.int64)
        return cls(none, none, failed, values, np.zeros(0))

    @classmethod
    def of_steps(
        cls,
        step: np.ndarray,
        source: np.ndarray,
        dt: float,
        failed: np.ndarray,
        values: list[np.ndarray],
    ) -> Chunk:
        """Return a chunk of events at the ends of steps from -1 on, below 2**31, in any order."""
        key = (step.astype(np.int64) << 32) | source
        key.sort()
        step = key >> 32
        t = np.where(step < 0, 0.0, ends_of(np.maximum(step, 0), dt))
        return cls(step, key & 0xFFFFFFFF, failed, values, t)


def steps_to(t: np.ndarray, dt: float) -> np.ndarray:
    """Return the steps at whose ends times are, the nearest ones, int64: -1 at t = 0."""
    return np.ceil(t / dt - 0.5).astype(np.int64) - 1


def check_room(count: int, room: int, last: int) -> None:
    """Raise SpikeOverflowError for more spikes in a chunk than there is room for."""
    if count > room:
        raise SpikeOverflowError(
            f"step {last}: {count} spikes in the chunk that ends after it or later, room for "
            f"{room}; expected a larger max_spikes",
            last,
        )
