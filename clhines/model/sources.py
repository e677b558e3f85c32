"""Sources of events, connections whose events act at exact times, and values played in time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, eq=False)
class Sources:
    """Everything that sends events.

    Sources are numbered: first the cells (their somas), then in the order in which they were made
    detectors, trains, and groups whose instances send events. `emitted` has of a kind that sends
    events to others the source of each instance.
    """

    count: int
    detector_node: np.ndarray  # (d,) int64, of the cells first
    detector_threshold: np.ndarray  # mV
    detector_refractory: np.ndarray  # ms
    detector_source: np.ndarray
    train_source: np.ndarray
    train_time: tuple[np.ndarray, ...]  # ascending, ms
    emitted: dict[int, np.ndarray]
    ring_size: np.ndarray | None = None  # (count,) room for events, in a rank's share

    def at_nodes(self, low: int, high: int) -> Sources:
        """Return the detectors of some nodes, numbered from there; all else as it is."""
        here = np.flatnonzero((self.detector_node >= low) & (self.detector_node < high))
        return replace(
            self,
            detector_node=self.detector_node[here] - low,
            detector_threshold=self.detector_threshold[here],
            detector_refractory=self.detector_refractory[here],
            detector_source=self.detector_source[here],
        )

    @property
    def is_emitted(self) -> np.ndarray:
        """(count,) bool: sources that are instances."""
        found = np.zeros(self.count, bool)
        for sources in self.emitted.values():
            found[sources[sources >= 0]] = True
        return found


@dataclass(frozen=True, eq=False)
class NetCons:
    """Connections to instances, each with its delay (ms) and weights, in the order given."""

    source: np.ndarray
    kind: np.ndarray
    instance: np.ndarray
    delay: np.ndarray
    weight: np.ndarray
    first_weight: np.ndarray  # weights of c: ``weight[first_weight[c]:first_weight[c + 1]]``

    @classmethod
    def none(cls) -> NetCons:
        none = np.zeros(0, np.int64)
        return cls(none, none, none, np.zeros(0), np.zeros(0), np.zeros(1, np.int64))

    @property
    def count(self) -> int:
        return len(self.source)


@dataclass(frozen=True, eq=False)
class Written:
    """A state of a kind, to which a pointer of each instance of another kind points."""

    kind: int
    state: str
    instance: np.ndarray  # (count,) int64


@dataclass(frozen=True, eq=False)
class Played:
    """Values `y` that a parameter of an instance takes at times `t`, ms, ascending."""

    kind: int
    instance: int
    parameter: str
    t: np.ndarray
    y: np.ndarray
    continuous: bool  # interpolated; otherwise ``y[k]`` holds from ``t[k]`` on
