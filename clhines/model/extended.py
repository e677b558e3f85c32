"""What only executors of extended networks take: ions, sources of all kinds, connections in time.

A network is *extended* where a mechanism of it needs more than v, its parameters and its states, or
where something else than a cell's soma sends events. See `Additions` for what users call.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

# what NEURON gives ions: charge, mV, mM inside and outside
KNOWN_IONS = {
    "na": (1.0, 50.0, 10.0, 140.0),
    "k": (1.0, -77.0, 54.4, 2.5),
    "ca": (2.0, 12.5 * np.log(2.0 / 5e-5), 5e-5, 2.0),
}
OTHER_ION = (0.0, 0.0, 1.0, 1.0)
# bits of an ion's style, NEURON's
CONCENTRATION, REVERSAL = 0o3, 0o30
INITIAL_CONCENTRATION, INITIAL_REVERSAL, ADVANCE_REVERSAL = 0o4, 0o40, 0o100


@dataclass(frozen=True, eq=False)
class IonNodes:
    """An ion where it is.

    Attributes
    ----------
    name : str
        As ``ca``.
    valence : float
    node : (count,) int64
        Ascending.
    e, ci, co : (count,) float64, mV and mM
        At the start; `e` is replaced where the style says so.
    style : (count,) int64
        NEURON's bits: 0o40 the reversal potential is Nernst's at the start, 0o100 in every step.
    """

    name: str
    valence: float
    node: np.ndarray
    e: np.ndarray
    ci: np.ndarray
    co: np.ndarray
    style: np.ndarray

    @property
    def variables(self) -> tuple[str, str, str, str]:
        """Names of the reversal potential, inside and outside concentration, and current."""
        return f"e{self.name}", f"{self.name}i", f"{self.name}o", f"i{self.name}"


@dataclass(frozen=True, eq=False)
class NetCons:
    """Connections to instances, each with its delay and weights, in the order given.

    Attributes
    ----------
    source : (m,) int64
    kind, instance : (m,) int64
    delay : (m,) float64, ms
    weight : (w,) float64
    first_weight : (m + 1,) int64
        Weights of connection c are ``weight[first_weight[c]:first_weight[c + 1]]``.
    """

    source: np.ndarray
    kind: np.ndarray
    instance: np.ndarray
    delay: np.ndarray
    weight: np.ndarray
    first_weight: np.ndarray

    @property
    def count(self) -> int:
        """Number of connections."""
        return len(self.source)


@dataclass(frozen=True, eq=False)
class Played:
    """Values that a parameter of an instance takes in time.

    Attributes
    ----------
    kind, instance : int
    parameter : str
    t : (m,) float64, ms
        Ascending.
    y : (m,) float64
    continuous : bool
        Whether it is interpolated; else ``y[k]`` holds from ``t[k]`` on.
    """

    kind: int
    instance: int
    parameter: str
    t: np.ndarray
    y: np.ndarray
    continuous: bool


@dataclass(frozen=True, eq=False)
class Extended:
    """What only executors of extended networks take.

    Sources of events are numbered: first the cells (their somas), then in the order in which they
    were made detectors, trains, and groups whose instances send events.

    Attributes
    ----------
    celsius : float
    ions : tuple of IonNodes
    num_sources : int
    detector_node : (d,) int64
        Of the cells first.
    detector_threshold : (d,) float64, mV
    detector_source : (d,) int64
    train_source : (r,) int64
    train_time : tuple of (k,) float64, ms
        Ascending.
    emitted : dict of kind -> (count,) int64
        Source of each instance of a kind that sends events to others.
    netcons : NetCons
    pointers : dict of (kind, name) -> (count,) int64
        Node whose voltage each instance's pointer points to.
    played : tuple of Played
    streams : dict of (kind, name) -> (count, 3) uint32
        Numbers of each instance's stream of Random123.
    random_index : int
        The global index of Random123.
    second_order_currents : bool
        Whether ion currents are brought to the middle of the step: NEURON's ``secondorder = 2``.
    bins : bool
        Whether connections deliver in bins of a step; see `Additions.bin_events`.
    ring_size : (num_sources,) int64, or None
        Room for events of each source, where this is a rank's share of a network.
    remote_v : (r,) float64, mV
        At the start, of nodes of other ranks at which pointers of this one point; they have the
        numbers after those of its own nodes.
    """

    celsius: float
    ions: tuple[IonNodes, ...]
    num_sources: int
    detector_node: np.ndarray
    detector_threshold: np.ndarray
    detector_source: np.ndarray
    train_source: np.ndarray
    train_time: tuple[np.ndarray, ...]
    emitted: dict[int, np.ndarray]
    netcons: NetCons
    pointers: dict[tuple[int, str], np.ndarray]
    played: tuple[Played, ...] = ()
    streams: dict[tuple[int, str], np.ndarray] = field(default_factory=dict)
    random_index: int = 0
    second_order_currents: bool = False
    bins: bool = False
    ring_size: np.ndarray | None = None
    remote_v: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def is_emitted(self) -> np.ndarray:
        """(s,) bool: sources that are instances."""
        found = np.zeros(self.num_sources, bool)
        for sources in self.emitted.values():
            found[sources[sources >= 0]] = True
        return found


def promoted(style: np.ndarray, concentration: int, reversal: int) -> np.ndarray:
    """Return the styles of an ion at nodes that get a mechanism that uses it, as NEURON does.

    Parameters
    ----------
    style : (count,) int64
    concentration, reversal : int
        1 where it is read, 3 where it is written, 0 where neither.
    """
    conc = np.maximum(style & CONCENTRATION, concentration)
    rev = np.maximum((style & REVERSAL) >> 3, reversal)
    rev = np.where((conc > 0) & (rev < 2), 2, rev)
    found = conc + 8 * rev
    found += np.where(conc == 3, INITIAL_CONCENTRATION, 0)
    found += np.where((conc == 3) & (rev == 2), ADVANCE_REVERSAL, 0)
    return found + np.where((conc > 0) & (rev == 2), INITIAL_REVERSAL, 0)
