"""`Model` and its parts: sources, connections with exact times, ions, kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from clhines.core.arrays import inverse, stretch_of
from clhines.simulator.common.deferred import Deferred
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.model.connections import GridConnections
from clhines.simulator.model.diffusion import Diffusion
from clhines.simulator.model.layers import Layers
from clhines.simulator.model.schema import EXACT, Field, Schema, plastic_fields, queue_of
from clhines.simulator.network.structure import NodeValues
from clhines.simulator.network.times import LAST_STEP, refractory_steps
from clhines.solver.forest import Forest


@dataclass(frozen=True, eq=False)
class ModelSources:
    """Everything that sends events.

    Sources are numbered: first the cells (their somas), then detectors, trains and groups that send
    events, in the order of their creation. `emitted` has the source of each instance of a kind that
    sends events to others.
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

    def at_nodes(self, low: int, high: int) -> ModelSources:
        """Return the sources with only the detectors of nodes `low` to `high`, from `low`."""
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
        """Whether each source is an instance, (count,) bool."""
        emitted = np.zeros(self.count, bool)
        for sources in self.emitted.values():
            emitted[sources[sources >= 0]] = True
        return emitted

    @property
    def is_detected(self) -> np.ndarray:
        """Whether each source is a detector of threshold crossings, (count,) bool."""
        detected = np.zeros(self.count, bool)
        detected[self.detector_source] = True
        return detected

    def above(self, v: np.ndarray) -> np.ndarray:
        """Return which detectors are above threshold, (d,) bool; `v` of all nodes, mV."""
        is_above: np.ndarray = v[self.detector_node] > self.detector_threshold
        return is_above


@dataclass(frozen=True, eq=False)
class NetCons:
    """Connections to instances, each with its delay (ms) and weights, in the order of the calls."""

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
    """A state of a kind to which another kind's pointer points, for each instance."""

    kind: int
    state: str
    instance: np.ndarray  # (count,) int64


@dataclass(frozen=True, eq=False)
class Steered:
    """A weight of another connection to which a kind's pointer points, for each instance."""

    connection: np.ndarray  # (count,) int64
    element: np.ndarray  # (count,) int64

    def places(self, model: Model) -> np.ndarray:
        """Return the indices of these among all weights, (count,) int64."""
        return model.netcons.first_weight[self.connection] + self.element


@dataclass(frozen=True, eq=False)
class Played:
    """Values `y` of an instance's parameter at times `t`, ms, ascending."""

    kind: int
    instance: int
    parameter: str
    t: np.ndarray
    y: np.ndarray
    continuous: bool  # interpolated; otherwise ``y[k]`` holds from ``t[k]`` on
    # events see it from the middle of a step on, as NEURON's Random.play
    after_events: bool = False


# NEURON's defaults of ions: charge, mV, mM inside and outside
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
class IonNodes(Deferred):
    """An ion, its nodes, and its initial values; `style` has NEURON's bits."""

    name: str
    valence: float
    node: np.ndarray  # int64, ascending
    e: np.ndarray  # mV; the style says whether Nernst's equation replaces it
    ci: np.ndarray  # mM
    co: np.ndarray  # mM
    style: np.ndarray

    @property
    def variables(self) -> tuple[str, str, str, str]:
        """Names of the reversal potential, inside and outside concentration, and current."""
        return f"e{self.name}", f"{self.name}i", f"{self.name}o", f"i{self.name}"


def promote(style: np.ndarray, concentration: int, reversal: int) -> np.ndarray:
    """Return styles of an ion that a mechanism reads (1), writes (3) or ignores (0)."""
    conc = np.maximum(style & CONCENTRATION, concentration)
    rev = np.maximum((style & REVERSAL) >> 3, reversal)
    rev = np.where((conc > 0) & (rev < 2), 2, rev)
    new_style = conc + 8 * rev
    new_style += np.where(conc == 3, INITIAL_CONCENTRATION, 0)
    new_style += np.where((conc == 3) & (rev == 2), ADVANCE_REVERSAL, 0)
    return new_style + np.where((conc > 0) & (rev == 2), INITIAL_REVERSAL, 0)


DENSITY = 1e-2  # S/cm² times µm² in µS, and mA/cm² times µm² in nA
_SAME_DELAY = 3  # connections of one delay that NEURON puts into the queue together


@dataclass(frozen=True, eq=False)
class Kind(Deferred):
    """All instances of one mechanism, by node."""

    mechanism: Mechanism
    node: np.ndarray  # (count,) int64: natural index, ascending; at one node in the order added
    parameters: dict[str, float | np.ndarray]  # a float if all instances have the same value
    # (count,) float64: factor from the mechanism's units to µS and nA: ``1e-2 * area`` in µm² for a
    # density mechanism, 1 for a point process
    factor: np.ndarray
    first_target: int  # index of instance 0 among all targets, -1 if the kind receives no events
    first_instance: int  # index of instance 0 among all instances; the key of its noise
    last: int | None = None  # instance whose GLOBALs all instances have; None: they must agree

    @cached_property
    def count(self) -> int:
        return len(self.node)

    @cached_property
    def singles(self) -> frozenset[str]:
        return frozenset(name for name, value in self.parameters.items() if np.ndim(value) == 0)

    @property
    def varying(self) -> dict[str, np.ndarray]:
        """Parameters that differ among instances, but not values before INITIAL."""
        values = ((name, self.parameters[name]) for name in self.mechanism.parameters)
        return {name: value for name, value in values if isinstance(value, np.ndarray)}

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            name: np.broadcast_to(np.float64(self.parameters[name]), self.count)
            for name in self.mechanism.parameters
        }


class OfNodes:
    """An array of all nodes, by its name in `Model.of_nodes`."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, model: Model, owner: type) -> np.ndarray:
        return model.of_nodes.whole(self._name)


@dataclass(frozen=True, eq=False)
class Model:
    """A network as arrays in natural order, for engines."""

    forest: Forest  # each tree rooted at its soma
    soma: np.ndarray  # (num_cells,) int64: the roots
    of_nodes: NodeValues  # the values of the `OfNodes` properties
    kinds: tuple[Kind, ...]  # all mechanisms but the constant ones
    # by number of a `Group`: its kind, -1 for a constant one, and (count,) int64 instances there
    instances: Sequence[tuple[int, np.ndarray]]
    num_targets: int  # instances that receive events
    connections: GridConnections  # connections in whole steps, in the order of the calls
    numbers: np.ndarray  # (k,) int64: indices of `connections`' weights in `given_weights`
    exact_numbers: np.ndarray  # (m,) int64: likewise of `netcons`, without events from outside
    given_weights: np.ndarray  # (w,) float64: all connections', in the order of the calls
    events: Events
    sources: ModelSources  # the cells' somas first
    dt: float  # ms
    secondorder: bool
    seed: int  # for noise
    first_cell: int = 0  # index of cell 0 in the network; not 0 in a part of one
    netcons: NetCons = field(default_factory=NetCons.none)  # connections with exact times
    celsius: float = 6.3
    ions: tuple[IonNodes, ...] = ()
    # pointers by kind and name: node whose voltage each instance reads, (count,) int64
    pointers: Mapping[tuple[int, str], np.ndarray] = field(default_factory=dict)
    written: Mapping[tuple[int, str], Written] = field(default_factory=dict)  # states written
    steered: Mapping[tuple[int, str], Steered] = field(default_factory=dict)  # weights set
    read: Mapping[tuple[int, str], Written] = field(default_factory=dict)  # variables read
    played: tuple[Played, ...] = ()
    # by kind and name: ids of instances' Random123 streams, (count, 3) uint32
    random_ids: Mapping[tuple[int, str], np.ndarray] = field(default_factory=dict)
    random_index: int = 0  # the global index of Random123
    diffusions: tuple[Diffusion, ...] = ()  # along cells, by kind
    # nodes around others; `u` is then 0, and the axial conductances are in `layers`
    layers: Layers | None = None
    second_order_currents: bool = False  # at the middle of the step: NEURON's ``secondorder = 2``
    # As NEURON with ``CVode.queue_mode(1, 0)``: the bin of a step from t to t + dt has the events
    # that are due in [t - dt/2, t + dt/2), all at its start, the last sent first.
    bins: bool = False
    # (r,) float64, mV: initial voltages of other ranks' nodes at which pointers point; their
    # indices follow this rank's own nodes
    remote_v: np.ndarray = field(default_factory=lambda: np.zeros(0))
    stored: frozenset[tuple[str, str]] = frozenset()  # see `Changes`
    needs: frozenset[str] = frozenset()  # see `simulator.model.needs`
    alike: Alike | None = None  # if copies are identical

    @property
    def once(self) -> Model:
        """The model of one copy, if copies are identical."""
        return self if self.alike is None else self.alike.once

    @property
    def copies(self) -> int:
        return 1 if self.alike is None else len(self.alike.sources)

    @property
    def apart(self) -> Model:
        """The model with identical copies as cells like any others."""
        return self if self.alike is None else replace(self, alike=None)

    @property
    def exact(self) -> bool:
        """Whether some events act at exact times."""
        return "exact_times" in self.needs

    def of_last(self, k: int) -> tuple[str, ...]:
        """Return the states of kind `k` (-1: none) that all instances read from the last one."""
        has = k >= 0 and "last_instances" in self.needs
        return self.kinds[k].mechanism.program.last if has else ()

    @property
    def leading_cells(self) -> np.ndarray:
        """Cells of last instances, whose values all cells read a step later; ascending."""
        cells = [self.last_cell(k) for k in range(len(self.kinds)) if self.of_last(k)]
        return np.unique(np.array(cells, np.int64))

    def last_cell(self, k: int) -> int:
        kind = self.kinds[k]
        return int(stretch_of(self.forest.cell_offsets, kind.node[[kind.last or 0]])[0])

    @property
    def added_kinds(self) -> frozenset[int]:
        """Kinds whose states change outside of their blocks: by pointers, or by diffusion."""
        assigned = {
            to.kind
            for (k, name), to in self.read.items()
            if name in self.kinds[k].mechanism.program.assigned
        }
        written = {to.kind for to in self.written.values()}
        return frozenset(assigned | written | {d.kind for d in self.diffusions})

    def states_read(self, k: int) -> tuple[str, ...]:
        """Return the states of kind `k` that other instances read by pointers."""
        return tuple(sorted({to.state for to in self.read.values() if to.kind == k}))

    @cached_property
    def on_grid(self) -> bool:
        return self.connections.count > 0 or len(self.events.step) > 0

    @property
    def has_sums(self) -> bool:
        return self.on_grid or not self.exact

    @property
    def num_extra(self) -> int:
        return len(self.sources.detector_node) - len(self.soma)

    @property
    def threshold(self) -> np.ndarray:
        """Thresholds of the somas, (num_cells,) float64, mV."""
        return self.sources.detector_threshold[: len(self.soma)]

    @cached_property
    def detector_hold(self) -> np.ndarray:
        """Value that `held` of a detector gets when it sends an event, (d,) int32."""
        steps = refractory_steps(self.sources.detector_refractory, self.dt)
        steps_held: np.ndarray = np.clip(steps - 1, 1, LAST_STEP).astype(np.int32)
        return steps_held

    @property
    def begins_above(self) -> np.ndarray:
        v = self.of_nodes.at("v_init", self.sources.detector_node)
        is_above: np.ndarray = v > self.sources.detector_threshold
        return is_above

    u = OfNodes()  # (n,) float64, µS: matrix entry of a node and its parent; 0 at roots
    capacitance = OfNodes()  # (n,) float64, nF
    area = OfNodes()  # (n,) float64, µm²
    constant_d = OfNodes()  # (n,) float64, µS: axial and constant mechanisms' conductances
    constant_b = OfNodes()  # (n,) float64, nA: ``g v - i`` of the constant mechanisms
    constant_g = OfNodes()  # (n,) float64, µS: conductances of the constant mechanisms
    v_init = OfNodes()  # (n,) float64, mV

    @cached_property
    def connection_ranks(self) -> np.ndarray:
        """Rank of each connection, (m,) int64: the highest of simultaneous events is first.

        Trains send first, then threshold detectors, then instances, each in the order of their
        numbers. A source sends along its connections in their order; three or more of one delay are
        one event in NEURON, which delivers them in that order.
        """
        source, delay, m = self.netcons.source, self.netcons.delay, self.netcons.count
        place = np.full(self.sources.count, 2)
        place[self.sources.train_source], place[self.sources.detector_source] = 0, 1
        least, most = np.full(len(place), np.inf), np.zeros(len(place))
        np.minimum.at(least, source, delay)
        np.maximum.at(most, source, delay)
        together = (np.bincount(source, minlength=len(place)) >= _SAME_DELAY) & (least == most)
        number = np.where(together[source], -np.arange(m), np.arange(m))
        return inverse(np.lexsort((number, source, place[source])))

    @cached_property
    def constant_factors(self) -> bool:
        """Whether only conductances at roots change, so that all other factors are constant."""
        many = (k.mechanism.kind == "density" and k.count > len(self.soma) for k in self.kinds)
        return not any(many) and all(np.isin(k.node, self.soma).all() for k in self.kinds)

    @cached_property
    def capacitance_over_dt(self) -> np.ndarray:
        """Capacitance over the length of the solved step, (n,) float64, µS."""
        return self.capacitance / self.solved_dt

    @property
    def solved_dt(self) -> float:
        """Length of the solved step, ms: half a step for the second order."""
        return self.dt / 2 if self.secondorder else self.dt

    @cached_property
    def schema(self) -> Schema:
        """The arrays of a simulation's saved state."""
        return Schema(self._fields())

    def _fields(self) -> Iterator[Field]:
        yield from (Field("v", "node"), Field("failed", "cell", "int32"))
        connections = self.connections
        if self.has_sums:
            yield Field("incoming", "target", "int64", rows="slot")
        if not self.exact and self.num_extra:
            yield Field("held", "detector", "int32")
        if self.exact:
            yield from EXACT
            if len(self.remote_v):
                yield Field("remote_v", "remote")
        yield from self._instance_fields()
        if connections.rule is not None and connections.largest.any():
            yield from plastic_fields(connections.rule)
        for ion in self.ions:
            for name in (*ion.variables, f"d{ion.variables[3]}"):
                yield Field(name, "node", family="ion")
        for k, kind in enumerate(self.kinds):
            if self.exact and kind.mechanism.program.net is not None:
                yield from queue_of(k)
        for k, name in self.random_ids:
            yield Field(name, "instance", "int64", k, "drawn")
        for played in self.played:
            yield Field(played.parameter, "instance", "real", played.kind, "played")

    def _instance_fields(self) -> Iterator[Field]:
        for k, kind in enumerate(self.kinds):
            program = kind.mechanism.program
            for family, values in (("state", program.states), ("output", program.outputs)):
                yield from (Field(q.name, "instance", "real", k, family) for q in values)

    def streams(self) -> Iterator[tuple[int, str, np.ndarray]]:
        """Yield group, name and ids, (count, 3) uint32, of all random streams."""
        for (k, name), ids in self.random_ids.items():
            for number, (group_kind, place) in enumerate(self.instances):
                if group_kind == k:
                    yield number, name, ids[place]

    def cell_of_target(self) -> np.ndarray:
        """Return the network's cell of each event target, (num_targets,) int64."""
        nodes = [k.node for k in self.kinds if k.first_target >= 0]
        node = np.concatenate([np.zeros(0, np.int64), *nodes])
        return stretch_of(self.forest.cell_offsets, node) + self.first_cell

    def initial_states(self) -> list[dict[str, np.ndarray]]:
        return [self._initial_states(kind) for kind in self.kinds]

    def _initial_states(self, kind: Kind) -> dict[str, np.ndarray]:
        """Return a kind's initial states; compute one cell if all cells have the same values."""
        v, cells = self.of_nodes.at("v_init", kind.node), self.forest.num_cells
        varying = {k: a for k, a in kind.parameters.items() if isinstance(a, np.ndarray)}
        each = kind.count // cells
        whole = each > 0 and each * cells == kind.count
        if cells == 1 or not whole or not _repeats([v, *varying.values()], each):
            return kind.mechanism.initial(v, kind.arrays())
        once = {k: varying[k][:each] if k in varying else a for k, a in kind.parameters.items()}
        states = kind.mechanism.initial(v[:each], once)
        return {k: np.tile(np.broadcast_to(a, each), cells) for k, a in states.items()}


@dataclass(frozen=True, eq=False)
class Alike:
    """The model of one copy, and its sources' and connections' indices in all copies."""

    once: Model
    sources: np.ndarray  # (copies, num_sources) int64
    connections: np.ndarray  # (copies, m) int64

    def sources_of(self, source: np.ndarray) -> np.ndarray:
        """Return the indices of one copy's sources in all copies, copy after copy."""
        return self.sources[:, source].reshape(-1)


@dataclass(frozen=True, eq=False)
class Events:
    """Events from outside, each due at the begin of its step."""

    target: np.ndarray
    step: np.ndarray
    weight: np.ndarray


def _repeats(arrays: Sequence[np.ndarray], length: int) -> bool:
    """Whether each array repeats its first `length` values to its end."""
    return all(bool((a.reshape(-1, length) == a[:length]).all()) for a in arrays)
