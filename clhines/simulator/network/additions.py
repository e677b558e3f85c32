"""Everything in a network besides cells, mechanisms and connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.checks import (
    as_array,
    as_indices,
    as_number,
    as_real,
    as_switch,
    as_whole_number,
    real_numbers,
    shown,
)
from clhines.core.errors import InputError
from clhines.simulator.common.checks import broadcast, spread, unchangeable
from clhines.simulator.network.groups import Group, Inside, inside

MAX_GAPS = 20_000_000  # in one call


@unchangeable("another one, by add_detector() or spike_source()")
@dataclass(frozen=True, eq=False)
class Sources:
    """Event sources: detectors at nodes, or spike trains.

    Attributes
    ----------
    network : Network
    first : int
        The first source's number among all sources in the network.
    node : (count,) int64
        -1 for trains.
    threshold : (count,) float64, mV
    refractory : (count,) float64, ms
    times : tuple of (k,) float64, ms
        For trains; empty for detectors.
    """

    network: Any = field(repr=False)
    first: int
    node: np.ndarray
    threshold: np.ndarray
    refractory: np.ndarray
    times: tuple[np.ndarray, ...] = ()

    def __repr__(self) -> str:
        what = f"{len(self)} trains" if self.times else f"{len(self)} detectors"
        return f"Sources({what}, the first is number {self.first} of the network)"

    def __len__(self) -> int:
        return len(self.node)


@dataclass(frozen=True, eq=False)
class IonValues:
    """An ion's values at nodes; see `Network.ion`."""

    name: str
    nodes: np.ndarray
    valence: float | None
    values: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class PlayedParameter:
    """A parameter's values over time; see `Network.play`."""

    group: int
    index: int
    parameter: str
    t: np.ndarray
    y: np.ndarray
    continuous: bool
    after_events: bool  # see `Played`


@dataclass(eq=False)
class Additions:
    network: Any
    num_nodes: int
    num_sources: int
    sources: list[Sources] = field(default_factory=list)
    emitters: list[tuple[Group, int]] = field(default_factory=list)
    ions: list[IonValues] = field(default_factory=list)
    pointers: list[tuple[int, str, np.ndarray, np.ndarray]] = field(default_factory=list)
    # group, pointer, instances; group, variable and instances to which it refers
    written: list[tuple[int, str, np.ndarray, int, str, np.ndarray]] = field(default_factory=list)
    # group, pointer to weights that its events set; connections, and which of their weights
    steered: list[tuple[int, str, np.ndarray, np.ndarray]] = field(default_factory=list)
    plays: list[PlayedParameter] = field(default_factory=list)
    streams: list[tuple[int, str, np.ndarray]] = field(default_factory=list)
    random_index: int = 0
    bins: bool = False  # bin events as NEURON with ``CVode.queue_mode(1, 0)``
    exact: bool = False  # all events act at exact times, as in imported models
    last: dict[int, int] = field(default_factory=dict)  # see `Kind.last`, by group number
    remote_v: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def _parts(self) -> Inside:
        return inside(self.network)

    def add_detector(self, node: ArrayLike, threshold: ArrayLike, refractory: ArrayLike) -> Sources:
        self._parts.before_change("add_detector()")
        nodes = as_indices("node", node, self.num_nodes, "node")
        limit = spread("threshold", threshold, len(nodes), unit="mV")
        quiet = spread("refractory", refractory, len(nodes), unit="ms")
        if quiet.min(initial=0.0) < 0:
            raise InputError(f"refractory is {quiet.min():g} ms; expected 0 or more")
        return self._source(nodes, limit, quiet, ())

    def spike_source(self, times: Sequence[ArrayLike]) -> Sources:
        self._parts.before_change("spike_source()")
        if isinstance(times, str) or not np.iterable(times):
            raise InputError(f"times is {shown(times)}; expected a list, the times of each")
        checked = tuple(_as_times(f"times[{k}]", of_one) for k, of_one in enumerate(times))
        zero = np.zeros(len(checked))
        return self._source(np.full(len(checked), -1), zero, zero, checked)

    def _source(self, *columns: Any) -> Sources:
        sources = Sources(self.network, self.num_sources, *columns)
        self.sources.append(sources)
        self.num_sources += len(sources)
        return sources

    def emits(self, group: Group) -> None:
        """Make the instances of `group` event sources, with the next numbers among all sources."""
        self.emitters.append((group, self.num_sources))
        self.num_sources += len(group)

    def source_numbers(self, source: object, index: ArrayLike | None) -> np.ndarray:
        if isinstance(source, Sources):
            if source.network is not self.network:
                raise InputError("source belongs to another network")
            first, count, what = source.first, len(source), "source"
        elif isinstance(source, Group):
            begins = [first for group, first in self.emitters if group is source]
            if not begins:
                raise InputError(
                    f"source {source.mechanism.name} sends no events here; expected a group of "
                    "this network with net_event or of artificial cells"
                )
            first, count, what = begins[0], len(source), source.mechanism.name
        else:
            return as_indices("source", source, self.network.num_cells, "cell")
        if index is None:
            return first + np.arange(count)
        return first + as_indices("source_index", index, count, what)

    def ion(
        self,
        name: str,
        nodes: ArrayLike,
        valence: float | None,
        values_by_name: Mapping[str, ArrayLike],
    ) -> None:
        self._parts.before_change("ion()")
        if not isinstance(name, str) or not (name.isascii() and name.isidentifier()):
            raise InputError(f"ion is {shown(name)}; expected a name like 'ca'")
        where = as_indices("nodes", nodes, self.num_nodes, "node")
        units = {"e": "mV", "ci": "mM", "co": "mM"}
        values = {k: spread(k, v, len(where), unit=units.get(k)) for k, v in values_by_name.items()}
        if not np.isin(values.get("style", 0), np.arange(512)).all():
            style = shown(values_by_name["style"])
            raise InputError(f"ion {name}: style is {style}; expected 0 to 511")
        charge = None if valence is None else as_number("valence", valence)
        self.ions.append(IonValues(name, where, charge, values))

    def set_pointer(
        self,
        group: Group,
        name: str,
        to: ArrayLike | tuple[Group, str, ArrayLike],
        index: ArrayLike | None,
    ) -> None:
        self._parts.before_change("set_pointer()")
        places = self._instances(group, index)
        program = group.mechanism.program
        pointers = (*program.pointers, *program.written)
        if not isinstance(name, str) or name not in pointers:
            raise InputError(
                f"{group.mechanism.name} has no pointer {shown(name)}; expected one of "
                f"{', '.join(pointers) or 'none'}"
            )
        if name in (*program.written, *program.assigned) or isinstance(to, tuple):
            self._variable(group, name, places, to)
            return
        count = self.num_nodes + len(self.remote_v)
        node = _for_each("to", "nodes", as_indices("to", to, count, "node"), places)
        self.pointers.append((group.number, name, places, node))

    def _variable(self, group: Group, name: str, places: np.ndarray, to: object) -> None:
        if not isinstance(to, tuple) or len(to) != 3 or not isinstance(to[0], Group):
            program = group.mechanism.program
            is_set = name in (*program.written, *program.assigned)
            writes = f", which {group.mechanism.name} writes," * is_set
            raise InputError(
                f"to of {name}{writes} is {shown(to)}; "
                "expected a group, a variable and instances of it"
            )
        other, variable, which = to
        at = _for_each("to", "instances", self._instances(other, which), places)
        program = other.mechanism.program
        names = {q.public or q.name: q for q in program.states if not q.is_global}
        if variable not in names:
            raise InputError(
                f"to of {name} is {shown(variable)} of {other.mechanism.name}; expected a variable "
                f"that this sets and keeps: {', '.join(names) or 'none'}"
            )
        where = other.number, names[variable].name, at
        self.written.append((group.number, name, places, *where))

    def play(
        self,
        group: Group,
        index: int,
        name: str,
        t: ArrayLike,
        y: ArrayLike,
        continuous: bool,
        after_events: bool = False,
    ) -> None:
        self._parts.before_change("play()")
        self._instances(group, [index])
        if not isinstance(name, str) or name not in group.mechanism.parameters:
            raise InputError(f"{group.mechanism.name} has no parameter {shown(name)}")
        if fixed := group.mechanism.program.fixed.get(name):
            raise InputError(f"{group.mechanism.name}: {name} is {fixed}; expected another one")
        if group.mechanism.constant:  # no instance keeps its values: models sum them by node
            raise InputError(
                f"{group.mechanism.name}: play() does not support a text whose current is linear "
                "in v with constants; expected a .mod file, or Simulation.set() between runs"
            )
        arguments = ("t", t, "ms"), ("y", y, group.mechanism.units.get(name))
        times, values = (as_real(k, as_array(k, a, unit=unit)) for k, a, unit in arguments)
        if not times.size:
            raise InputError(f"t of {name} is empty; expected one time or more")
        if times.ndim != 1 or times.shape != values.shape:
            raise InputError(f"t has shape {times.shape}, y {values.shape}; expected equal ones")
        if (np.diff(times) < 0).any():
            raise InputError("t goes back in time; expected ascending times")
        at, continuous = (group.number, int(index)), as_switch("continuous", continuous)
        self.plays.append(PlayedParameter(*at, name, times, values, continuous, after_events))

    def random(self, group: Group, name: str, ids: ArrayLike, index: int) -> None:
        self._parts.before_change("random()")
        self._instances(group, None)
        if not isinstance(name, str) or name not in group.mechanism.program.random:
            raise InputError(f"{group.mechanism.name} has no RANDOM variable {shown(name)}")
        numbers = real_numbers("ids", ids)
        if numbers.shape != (len(group), 3) or numbers.dtype.kind not in "iu":
            raise InputError(f"ids has shape {numbers.shape}; expected ({len(group)}, 3) integers")
        self.streams.append((group.number, name, numbers.astype(np.uint32)))
        self.random_index = as_whole_number("index", index, 0, 2**32 - 1)

    def _instances(self, group: Group, index: ArrayLike | None) -> np.ndarray:
        if not isinstance(group, Group) or group.network is not self.network:
            raise InputError(
                "group belongs to another network; expected a Group from insert() or add()"
            )
        if index is None:
            return np.arange(len(group))
        return as_indices("index", index, len(group), group.mechanism.name)


def as_gap_junctions(
    a: ArrayLike, b: ArrayLike, g: ArrayLike, num_nodes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Check gap junctions; return the nodes on both sides and the conductances, µS, (m,) each."""
    arrays = broadcast({"a": a, "b": b, "g": g}, {"g": "uS"})
    if arrays["g"].size > MAX_GAPS:
        raise InputError(f"{arrays['g'].size} gap junctions; expected at most {MAX_GAPS}")
    a_nodes, b_nodes = (as_indices(name, arrays[name], num_nodes, "node") for name in "ab")
    conductance = as_real("g", arrays["g"])
    bad = np.flatnonzero((a_nodes == b_nodes) | (conductance < 0))
    if len(bad):
        k = int(bad[0])
        if conductance[k] < 0:
            raise InputError(f"g of gap junction {k} is {conductance[k]:g} uS; expected 0 or more")
        raise InputError(
            f"gap junction {k} joins node {a_nodes[k]} to itself; expected another node"
        )
    return a_nodes, b_nodes, conductance


def _for_each(name: str, what: str, values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return one value per instance in `places`; InputError with `name` and `what` otherwise."""
    values = values if len(values) != 1 else np.repeat(values, len(places))
    if len(values) != len(places):
        raise InputError(f"{name} has {len(values)} {what} for {len(places)} instances")
    return values


def _as_times(name: str, values: ArrayLike) -> np.ndarray:
    array = as_array(name, values, unit="ms")
    if array.ndim != 1:
        raise InputError(
            f"{name} has shape {array.shape}; expected (k,), the times of one source: "
            "[[1.0, 2.5]] is one source"
        )
    times = np.sort(as_real(name, array))
    if len(times) and times[0] < 0:
        raise InputError(f"{name} has {times[0]:g} ms; expected 0 or more")
    return times
