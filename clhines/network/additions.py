"""Additions: what users may give a network besides cells, mechanisms and plain connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from clhines.checks import (
    as_array,
    as_finite,
    as_indices,
    as_number,
    as_whole_number,
    shown,
    spread,
)
from clhines.errors import InputError
from clhines.forest import Forest
from clhines.mechanisms import mechanism as find_mechanism
from clhines.mechanisms.mechanism import Mechanism
from clhines.network.groups import Group, Owner, Parameters, check_celsius
from clhines.network.plasticity import STDP
from clhines.network.wiring import Wiring
from clhines.quantities import as_numbers

CELSIUS = 6.3  # °C, NEURON's default


@dataclass(frozen=True, eq=False)
class Sources:
    """Things that send events: detectors at nodes, or trains of given times.

    Attributes
    ----------
    network : Network
    first : int
        Number of the first among the sources of the network.
    node : (count,) int64
        -1 for trains.
    threshold : (count,) float64, mV
    times : tuple of (k,) float64, ms
        Of trains.
    """

    network: Owner = field(repr=False)
    first: int
    node: np.ndarray
    threshold: np.ndarray
    times: tuple[np.ndarray, ...] = ()

    def __repr__(self) -> str:
        what = f"{len(self)} trains" if self.times else f"{len(self)} detectors"
        return f"Sources({what}, the first is number {self.first} of the network)"

    def __len__(self) -> int:
        return len(self.node)


@dataclass(frozen=True, eq=False)
class IonGiven:
    """What `Additions.ion` was given; None where the default counts."""

    name: str
    nodes: np.ndarray
    valence: float | None
    values: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class PlayGiven:
    """What `Additions.play` was given."""

    group: int
    index: int
    parameter: str
    t: np.ndarray
    y: np.ndarray
    continuous: bool


@dataclass(eq=False)
class Added:
    """What a network was given besides cells, mechanisms and plain connections.

    Attributes
    ----------
    emitters : list of (Group, int)
        Groups that send events, and the number of their first source.
    pointers : list of (int, str, array, array)
        Group, name, instances and nodes.
    streams : list of (int, str, array)
        Group, name, and numbers of streams.
    bins : bool
        Whether `Additions.bin_events` was called.
    exact : bool
        Whether all events act at exact times, as those of imported models do.
    """

    num_sources: int
    sources: list[Sources] = field(default_factory=list)
    emitters: list[tuple[Group, int]] = field(default_factory=list)
    ions: list[IonGiven] = field(default_factory=list)
    pointers: list[tuple[int, str, np.ndarray, np.ndarray]] = field(default_factory=list)
    plays: list[PlayGiven] = field(default_factory=list)
    streams: list[tuple[int, str, np.ndarray]] = field(default_factory=list)
    random_index: int = 0
    bins: bool = False
    exact: bool = False


class Additions:
    """The part of `Network` that has its events act at exact times.

    Attributes
    ----------
    celsius : float
        Temperature, °C; 6.3 at first, as in NEURON. Once set, it is that of all mechanisms to
        which no other is given.
    """

    forest: Forest
    num_cells: int
    _wiring: Wiring
    _celsius: float | None

    @property
    def area(self) -> np.ndarray:
        """(n,) float64, µm²."""
        raise NotImplementedError

    def _begin_additions(self) -> None:
        self._celsius = None
        self._added = Added(self.num_cells)

    @property
    def celsius(self) -> float:
        """Temperature, °C."""
        return CELSIUS if self._celsius is None else self._celsius

    @celsius.setter
    def celsius(self, value: object) -> None:
        celsius = as_number("celsius", value, "degC")
        check_celsius("celsius", celsius)
        self._celsius = celsius
        for group in self.groups:
            if isinstance(group.parameters, Parameters):
                group.parameters.set_default("celsius", self._celsius)

    @property
    def has_celsius(self) -> bool:
        """Whether a temperature was set."""
        return self._celsius is not None

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups, in the order in which they came."""
        raise NotImplementedError

    @property
    def added(self) -> Added:
        """All that was added so far."""
        return self._added

    def check_not_frozen(self, what: str) -> None:
        """Raise InputError, naming `what` was to be changed, if the network is frozen."""
        raise NotImplementedError

    def parameter(
        self,
        mechanism: str,
        name: str,
        value: object,
        nodes: np.ndarray,
        unit: str | None = None,
    ) -> float | np.ndarray:
        """Return a parameter of instances at nodes as a float or (count,) float64, in `unit`."""
        raise NotImplementedError

    def only_cells(self, count: int) -> bool:
        """Whether as many values as there are cells can be of nothing but cells."""
        sizes = self.forest.sizes
        return self.num_cells not in (count, 1, self.forest.num_nodes, int(sizes[0]))

    def _group(
        self, mechanism: Mechanism, nodes: np.ndarray, parameters: Mapping[str, object]
    ) -> Group:
        raise NotImplementedError

    def detector(self, node: ArrayLike, threshold: ArrayLike = 10.0) -> Sources:
        """Detect spikes at nodes; what it returns is a source for `connect`.

        Parameters
        ----------
        node : integer or (count,) integer
        threshold : float or (count,) float, mV

        Returns
        -------
        Sources
        """
        self.check_not_frozen("detector()")
        given = np.atleast_1d(as_array("node", node))
        nodes = as_indices("node", given, self.forest.num_nodes, "node")
        return self._source(nodes, spread("threshold", threshold, len(nodes), unit="mV"), ())

    def trains(self, times: Sequence[ArrayLike]) -> Sources:
        """Make sources whose events are given, as NEURON's VecStim.

        Parameters
        ----------
        times : sequence of (k,) float, ms
            One a source, in any order.

        Returns
        -------
        Sources
        """
        self.check_not_frozen("trains()")
        given = [as_array(f"times[{k}]", t, unit="ms") for k, t in enumerate(times)]
        for k, t in enumerate(given):
            if t.ndim != 1:
                raise InputError(
                    f"times[{k}] has shape {t.shape}; expected (k,), the times of one source: "
                    "[[1.0, 2.5]] is one source"
                )
        checked = tuple(np.sort(as_finite(f"times[{k}]", t)) for k, t in enumerate(given))
        for k, t in enumerate(checked):
            if len(t) and t[0] < 0:
                raise InputError(f"times[{k}] has {t[0]:g} ms; expected 0 or more")
        none = np.full(len(checked), -1)
        return self._source(none, np.zeros(len(checked)), checked)

    def _source(
        self, node: np.ndarray, threshold: np.ndarray, times: tuple[np.ndarray, ...]
    ) -> Sources:
        found = Sources(self, self._added.num_sources, node, threshold, times)
        self._added.sources.append(found)
        self._added.num_sources += len(found)
        return found

    def _emits(self, group: Group) -> None:
        """Give numbers to the instances of a group that sends events."""
        self._added.emitters.append((group, self._added.num_sources))
        self._added.num_sources += len(group)

    def source_numbers(self, source: object, index: ArrayLike | None = None) -> np.ndarray:
        """Return the numbers of sources, as `Result.spike_cell` has them.

        Parameters
        ----------
        source : integer array, Sources or Group
            Cells; what `detector` or `trains` gave; or a group whose instances send events.
        index : integer array, optional
            Which of them; default: all.
        """
        if isinstance(source, Sources):
            if source.network is not self:
                raise InputError("source belongs to another network")
            first, count, what = source.first, len(source), "source"
        elif isinstance(source, Group):
            begins = [first for group, first in self._added.emitters if group is source]
            if not begins:
                raise InputError(
                    f"source {source.mechanism.name} sends no events here; expected a group of "
                    "this network with net_event or of artificial cells"
                )
            first, count, what = begins[0], len(source), source.mechanism.name
        else:
            given = np.atleast_1d(as_array("source", source))
            return as_indices("source", given, self.num_cells, "cell")
        if index is None:
            return first + np.arange(count)
        places = np.atleast_1d(as_array("source_index", index))
        return first + as_indices("source_index", places, count, what)

    def connect_numbers(
        self,
        source: np.ndarray,
        target: Group,
        index: ArrayLike,
        weight: ArrayLike,
        delay: ArrayLike,
        rule: STDP | None,
    ) -> None:
        """Do what `connect` does, with sources by their numbers, see `source_numbers`."""
        self.check_not_frozen("connect()")
        self._wiring.check_target(target)
        self._wiring.connect(source, target, index, weight, delay, rule)

    def add_artificial(
        self, mechanism: str | Mechanism, count: int = 1, **parameters: ArrayLike
    ) -> Group:
        """Add artificial cells: instances without a node, that take and send events.

        Parameters
        ----------
        mechanism : Mechanism
            Of kind ``artificial``.
        **parameters : float or (count,) float64

        Returns
        -------
        Group
            A target and a source for `connect`.
        """
        self.check_not_frozen("add_artificial()")
        found = find_mechanism(mechanism)
        if found.kind != "artificial":
            raise InputError(f"{found.name} is a {found.kind} mechanism; use insert() or add()")
        nodes = np.full(as_whole_number("count", count, 0), -1)
        return self._group(found, nodes, parameters)

    def ion(
        self,
        name: str,
        nodes: ArrayLike | None = None,
        valence: float | None = None,
        e: ArrayLike | None = None,
        ci: ArrayLike | None = None,
        co: ArrayLike | None = None,
        style: ArrayLike | None = None,
    ) -> None:
        """Give an ion its values; it is wherever a mechanism uses it, and at the nodes given.

        Parameters
        ----------
        name : str
            As ``ca``.
        nodes : (count,) integer, optional
            Default: all nodes with membrane.
        e : float or (count,) float, mV
            Reversal potential at the start.
        ci, co : float or (count,) float, mM
            Concentrations at the start, inside and outside.
        style : integer or (count,) integer
            NEURON's bits, as `h.ion_style` returns them; default: by what mechanisms use.
        """
        self.check_not_frozen("ion()")
        if not isinstance(name, str) or not name.isidentifier():
            raise InputError(f"ion is {shown(name)}; expected a name like 'ca'")
        given = np.flatnonzero(self.area > 0) if nodes is None else as_array("nodes", nodes)
        where = as_indices("nodes", np.atleast_1d(given), self.forest.num_nodes, "node")
        told = {"e": e, "ci": ci, "co": co, "style": style}
        units = {"e": "mV", "ci": "mM", "co": "mM"}
        values = {
            k: spread(k, v, len(where), unit=units.get(k)) for k, v in told.items() if v is not None
        }
        charge = None if valence is None else as_number("valence", valence)
        self._added.ions.append(IonGiven(name, where, charge, values))

    def point(self, group: Group, name: str, to: ArrayLike, index: ArrayLike | None = None) -> None:
        """Let a POINTER of instances point to the voltage of nodes.

        Parameters
        ----------
        name : str
            Of the pointer.
        to : integer or (count,) integer
            Nodes; of any cells.
        index : (count,) integer, optional
            Which of the group's instances; default: all.
        """
        self.check_not_frozen("point()")
        places = self._instances(group, index)
        known = group.mechanism.program.pointers
        if name not in known:
            raise InputError(
                f"{group.mechanism.name} has no pointer {shown(name)}; expected one of "
                f"{', '.join(known) or 'none'}"
            )
        node = as_indices("to", np.atleast_1d(as_array("to", to)), self.forest.num_nodes, "node")
        node = node if len(node) != 1 else np.repeat(node, len(places))
        if len(node) != len(places):
            raise InputError(f"to has {len(node)} nodes for {len(places)} instances")
        self._added.pointers.append((group.number, name, places, node))

    def play(
        self,
        group: Group,
        index: int,
        name: str,
        t: ArrayLike,
        y: ArrayLike,
        continuous: bool = True,
    ) -> None:
        """Let a parameter of an instance take values in time, as NEURON's Vector.play.

        Parameters
        ----------
        name : str
            Of the parameter.
        t : (m,) float, ms
            Ascending.
        y : (m,) float
        continuous : bool
            Interpolate; else ``y[k]`` holds from ``t[k]`` on.
        """
        self.check_not_frozen("play()")
        self._instances(group, [index])
        if name not in group.mechanism.parameters:
            raise InputError(f"{group.mechanism.name} has no parameter {shown(name)}")
        given = ("t", t, "ms"), ("y", y, group.mechanism.units.get(name))
        times, values = (as_finite(k, as_array(k, a, unit=unit)) for k, a, unit in given)
        if times.ndim != 1 or times.shape != values.shape or not len(times):
            raise InputError(f"t has shape {times.shape}, y {values.shape}; expected equal ones")
        if (np.diff(times) < 0).any():
            raise InputError("t goes back in time; expected ascending times")
        self._added.plays.append(
            PlayGiven(group.number, int(index), name, times, values, continuous)
        )

    def random(self, group: Group, name: str, ids: ArrayLike, index: int = 0) -> None:
        """Give the streams of a RANDOM variable their numbers, as NEURON's ``set_ids``.

        Parameters
        ----------
        ids : (count, 3) integer
            For each instance of the group.
        index : int
            The global index of all streams of the network.
        """
        self.check_not_frozen("random()")
        self._instances(group, None)
        if name not in group.mechanism.program.random:
            raise InputError(f"{group.mechanism.name} has no RANDOM variable {shown(name)}")
        numbers = np.asarray(as_numbers("ids", ids))
        if numbers.shape != (len(group), 3) or numbers.dtype.kind not in "iu":
            raise InputError(f"ids has shape {numbers.shape}; expected ({len(group)}, 3) integers")
        self._added.streams.append((group.number, name, numbers.astype(np.uint32)))
        self._added.random_index = as_whole_number("index", index, 0, 2**32 - 1)

    def bin_events(self) -> None:
        """Deliver events of connections in bins, as NEURON with ``CVode.queue_mode(1, 0)``.

        The bin of a step from t to t + dt has the events that are due in [t - dt/2, t + dt/2).
        They come at its begin, all with t as their time, those that were sent last first. Self
        events keep their own times.
        """
        self.check_not_frozen("bin_events()")
        self._added.bins = True

    def _instances(self, group: Group, index: ArrayLike | None) -> np.ndarray:
        if not isinstance(group, Group) or group.network is not self:
            raise InputError("group is not of this network; expected a Group of insert() or add()")
        if index is None:
            return np.arange(len(group))
        given = np.atleast_1d(as_array("index", index))
        return as_indices("index", given, len(group), group.mechanism.name)
