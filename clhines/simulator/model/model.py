"""`Model` and its parts: sources, connections with exact times, ions, mechanisms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from clhines.core.arrays import inverse, stretch_of
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
    """Event sources.

    Sources are numbered: first the cells (their somas), then detectors, trains of event times and
    groups whose instances send events, in the order of their creation.
    """

    count: int
    detector_node: np.ndarray  # (d,) int64: detectors' nodes, the cells' somas first
    detector_threshold: np.ndarray  # (d,) float64, mV
    detector_refractory: np.ndarray  # (d,) float64, ms
    detector_source: np.ndarray  # (d,) int64: the detector's number as a source
    train_source: np.ndarray  # int64: the train's number as a source
    train_time: tuple[np.ndarray, ...]  # each train's times, ascending, ms
    emitted: dict[int, np.ndarray]  # by kind: each instance's number as a source, or -1
    ring_size: np.ndarray | None = None  # (count,): each source's pending events, in a rank's part

    def at_nodes(self, low: int, high: int) -> ModelSources:
        """Return the sources with only the detectors at nodes from `low` (now 0) to `high`."""
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
        """Whether each source is an instance that sends events, (count,) bool."""
        emitted = np.zeros(self.count, bool)
        for sources in self.emitted.values():
            emitted[sources[sources >= 0]] = True
        return emitted

    @property
    def is_detected(self) -> np.ndarray:
        detected = np.zeros(self.count, bool)
        detected[self.detector_source] = True
        return detected

    def above(self, v: np.ndarray) -> np.ndarray:
        """Return whether each detector is above its threshold, (d,) bool; `v` has all nodes, mV."""
        is_above: np.ndarray = v[self.detector_node] > self.detector_threshold
        return is_above


@dataclass(frozen=True, eq=False)
class NetCons:
    """Connections to instances with exact times, in the order of the calls."""

    source: np.ndarray
    kind: np.ndarray
    instance: np.ndarray
    delay: np.ndarray  # ms
    weight: np.ndarray  # all weights
    first_weight: np.ndarray  # c's weights: ``weight[first_weight[c]:first_weight[c + 1]]``

    @classmethod
    def none(cls) -> NetCons:
        none = np.zeros(0, np.int64)
        return cls(none, none, none, np.zeros(0), np.zeros(0), np.zeros(1, np.int64))

    @property
    def count(self) -> int:
        return len(self.source)


@dataclass(frozen=True, eq=False)
class Written:
    """The states to which a mechanism's POINTER leads, a state for each instance."""

    kind: int  # the other kind
    state: str
    instance: np.ndarray  # (count,) int64: the other kind's instance for each of the pointer's kind


@dataclass(frozen=True, eq=False)
class Steered:
    """The connection weights to which a POINTER leads, a weight for each instance."""

    connection: np.ndarray  # (count,) int64
    element: np.ndarray  # (count,) int64: the weight's number in the connection

    def places(self, model: Model) -> np.ndarray:
        """Return each instance's weight as an index in `NetCons.weight`, (count,) int64."""
        return model.netcons.first_weight[self.connection] + self.element


@dataclass(frozen=True, eq=False)
class Played:
    """A parameter of an instance that has the values `y` at ascending times `t`, ms."""

    kind: int
    instance: int
    parameter: str
    t: np.ndarray
    y: np.ndarray
    continuous: bool  # whether y is interpolated; otherwise ``y[k]`` holds from ``t[k]`` on
    # whether events see a value from the middle of a step on, as with NEURON's Random.play
    after_events: bool = False


# NEURON's defaults of ions: valence; reversal potential, mV; concentrations inside and outside, mM
KNOWN_IONS = {
    "na": (1.0, 50.0, 10.0, 140.0),
    "k": (1.0, -77.0, 54.4, 2.5),
    "ca": (2.0, 12.5 * np.log(2.0 / 5e-5), 5e-5, 2.0),
}
OTHER_ION = (0.0, 0.0, 1.0, 1.0)
# bits in NEURON's ion style
CONCENTRATION, REVERSAL = 0o3, 0o30
INITIAL_CONCENTRATION, INITIAL_REVERSAL, ADVANCE_REVERSAL = 0o4, 0o40, 0o100


@dataclass(frozen=True, eq=False)
class IonNodes:
    """An ion: the nodes that have it, and its initial values there."""

    name: str
    valence: float
    node: np.ndarray  # int64, ascending
    e: np.ndarray  # mV; the style says whether Nernst's equation replaces it
    ci: np.ndarray  # mM
    co: np.ndarray  # mM
    style: np.ndarray  # NEURON's bits

    @property
    def variables(self) -> tuple[str, str, str, str]:
        """Names for the reversal potential, inside and outside concentration, and current."""
        return f"e{self.name}", f"{self.name}i", f"{self.name}o", f"i{self.name}"


def promote(style: np.ndarray, concentration: int, reversal: int) -> np.ndarray:
    """Return an ion's styles after one more mechanism uses it, as NEURON's nrn_promote.

    `concentration` and `reversal` are 3 if the mechanism writes, 1 if it reads, else 0.
    """
    conc = np.maximum(style & CONCENTRATION, concentration)
    rev = np.maximum((style & REVERSAL) >> 3, reversal)
    rev = np.where((conc > 0) & (rev < 2), 2, rev)
    new_style = conc + 8 * rev
    new_style += np.where(conc == 3, INITIAL_CONCENTRATION, 0)
    new_style += np.where((conc == 3) & (rev == 2), ADVANCE_REVERSAL, 0)
    return new_style + np.where((conc > 0) & (rev == 2), INITIAL_REVERSAL, 0)


DENSITY = 1e-2  # µS in an S/cm² times a µm², and nA in a mA/cm² times a µm²
_SAME_DELAY = (
    3  # so many connections of a source, all of one delay, are one event in NEURON's queue
)


@dataclass(frozen=True, eq=False)
class Kind:
    """All instances of one mechanism, sorted by node."""

    mechanism: Mechanism
    node: np.ndarray  # (count,) int64: ascending; instances at one node in the order of the calls
    parameters: dict[str, float | np.ndarray]  # a float if all instances have the same value
    # (count,) float64: factor from the mechanism's units to µS and nA: ``1e-2 * area`` in µm² for a
    # density mechanism, 1 for a point process
    factor: np.ndarray
    first_target: int  # instance 0's index among all targets, -1 if the kind receives no events
    first_instance: int  # instance 0's index among all instances; its noise's key
    last: int | None = None  # instance whose GLOBALs all instances have; None: they must agree

    @cached_property
    def count(self) -> int:
        return len(self.node)

    @cached_property
    def singles(self) -> frozenset[str]:
        return frozenset(name for name, value in self.parameters.items() if np.ndim(value) == 0)

    @property
    def varying(self) -> dict[str, np.ndarray]:
        """Parameters that differ among instances, except initial values of states."""
        values = ((name, self.parameters[name]) for name in self.mechanism.parameters)
        return {name: value for name, value in values if isinstance(value, np.ndarray)}

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            name: np.broadcast_to(np.float64(self.parameters[name]), self.count)
            for name in self.mechanism.parameters
        }


class OfNodes:
    """A property of `Model` that returns the array with the property's name in `of_nodes`."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, model: Model, owner: type) -> np.ndarray:
        return model.of_nodes.whole(self._name)


@dataclass(frozen=True, eq=False)
class Model:
    """A network as arrays in natural order, for engines."""

    forest: Forest  # each tree rooted at its soma
    soma: np.ndarray  # (num_cells,) int64: the roots
    of_nodes: NodeValues  # the `OfNodes` properties' values
    kinds: tuple[Kind, ...]  # all mechanisms but the constant ones
    # of each group by its number: its kind, -1 if it is constant, and (count,) int64: its instances
    # in the kind, or its nodes
    instances: Sequence[tuple[int, np.ndarray]]
    num_targets: int  # instances that receive events
    connections: GridConnections  # connections in whole steps, in the order of the calls
    numbers: np.ndarray  # (k,) int64: indices of `connections`' weights in `given_weights`
    exact_numbers: np.ndarray  # (m,) int64: the same for `netcons`, without events from outside
    given_weights: np.ndarray  # (w,) float64: all connections' weights, in the order of the calls
    events: Events
    sources: ModelSources  # the cells' somas first
    dt: float  # ms
    secondorder: bool
    seed: int  # for noise
    first_cell: int = 0  # cell 0's index in the network, if this is a part's model
    netcons: NetCons = field(default_factory=NetCons.none)  # connections with exact times
    celsius: float = 6.3
    ions: tuple[IonNodes, ...] = ()
    # pointers by kind and name: to nodes, whose voltages instances read, (count,) int64
    pointers: Mapping[tuple[int, str], np.ndarray] = field(default_factory=dict)
    written: Mapping[tuple[int, str], Written] = field(default_factory=dict)  # to states they set
    steered: Mapping[tuple[int, str], Steered] = field(default_factory=dict)  # to weights they set
    read: Mapping[tuple[int, str], Written] = field(default_factory=dict)  # to states they read
    played: tuple[Played, ...] = ()
    # by kind and name: ids for instances' Random123 streams, (count, 3) uint32
    random_ids: Mapping[tuple[int, str], np.ndarray] = field(default_factory=dict)
    random_index: int = 0  # Random123's global index
    diffusions: tuple[Diffusion, ...] = ()  # along cells, by kind
    # extracellular layers; `u` is then 0, and the axial conductances are in `layers`
    layers: Layers | None = None
    # whether ion currents belong to the middle of the step: NEURON's ``secondorder = 2``
    second_order_currents: bool = False
    # Whether events are delivered in bins, as by NEURON with ``CVode.queue_mode(1, 0)``: the bin of
    # a step from t to t + dt has the events that are due in [t - dt/2, t + dt/2), all at its start,
    # the last sent first.
    bins: bool = False
    # (r,) float64, mV: initial voltages of nodes of other ranks to which pointers point; in
    # `pointers` their indices follow this rank's nodes
    remote_v: np.ndarray = field(default_factory=lambda: np.zeros(0))
    stored: frozenset[tuple[str, str]] = frozenset()  # see `Changes`
    needs: frozenset[str] = frozenset()  # see `simulator.model.needs`

    @cached_property
    def exact(self) -> bool:
        """Whether some events act at exact times."""
        return "exact_times" in self.needs

    def of_last(self, k: int) -> tuple[str, ...]:
        """Return the GLOBAL variables that mechanism `k`'s last instance sets for all instances.

        `k` may be -1 for no mechanism: then there are none.
        """
        has = k >= 0 and "last_instances" in self.needs
        return self.kinds[k].mechanism.program.last if has else ()

    @property
    def leading_cells(self) -> np.ndarray:
        """The cells whose GLOBAL variables all other cells read, ascending.

        They have the last instance of a mechanism, see `of_last`.
        """
        cells = [self.last_cell(k) for k in range(len(self.kinds)) if self.of_last(k)]
        return np.unique(np.array(cells, np.int64))

    def last_cell(self, k: int) -> int:
        kind = self.kinds[k]
        return int(stretch_of(self.forest.cell_offsets, kind.node[[kind.last or 0]])[0])

    @property
    def added_kinds(self) -> frozenset[int]:
        """Mechanisms whose states change through other mechanisms' POINTERs, or by diffusion."""
        assigned = {
            to.kind
            for (k, name), to in self.read.items()
            if name in self.kinds[k].mechanism.program.assigned
        }
        written = {to.kind for to in self.written.values()}
        return frozenset(assigned | written | {d.kind for d in self.diffusions})

    def states_read(self, k: int) -> tuple[str, ...]:
        """Return mechanism `k`'s states that other instances' POINTERs read."""
        return tuple(sorted({to.state for to in self.read.values() if to.kind == k}))

    @cached_property
    def on_grid(self) -> bool:
        return self.connections.count > 0 or len(self.events.step) > 0

    @cached_property
    def has_sums(self) -> bool:
        return self.on_grid or not self.exact

    @property
    def num_extra(self) -> int:
        return len(self.sources.detector_node) - len(self.soma)

    @property
    def threshold(self) -> np.ndarray:
        """The somas' thresholds, (num_cells,) float64, mV."""
        return self.sources.detector_threshold[: len(self.soma)]

    @cached_property
    def detector_hold(self) -> np.ndarray:
        """How many steps a detector is silent after an event, (d,) int32."""
        steps = refractory_steps(self.sources.detector_refractory, self.dt)
        steps_held: np.ndarray = np.clip(steps - 1, 1, LAST_STEP).astype(np.int32)
        return steps_held

    @property
    def begins_above(self) -> np.ndarray:
        v = self.of_nodes.at("v_init", self.sources.detector_node)
        is_above: np.ndarray = v > self.sources.detector_threshold
        return is_above

    u = OfNodes()  # (n,) float64, µS: matrix entry between a node and its parent; 0 at roots
    capacitance = OfNodes()  # (n,) float64, nF
    area = OfNodes()  # (n,) float64, µm²
    constant_d = OfNodes()  # (n,) float64, µS: axial conductances, and those in constant mechanisms
    constant_b = OfNodes()  # (n,) float64, nA: the constant mechanisms' ``g v - i``
    constant_g = OfNodes()  # (n,) float64, µS: the constant mechanisms' conductances
    v_init = OfNodes()  # (n,) float64, mV

    @cached_property
    def connection_ranks(self) -> np.ndarray:
        """Each connection's rank, (m,) int64: of simultaneous events the highest rank comes first.

        Trains send first, then threshold detectors, then instances, each in number order. A source
        sends along its connections in their order, so the last connection's event comes first. If a
        source has three or more connections, all with one delay, they are one event in NEURON,
        which reaches the first connection first.
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
        """Whether all elimination factors are constant, because only roots' conductances change."""
        many = (k.mechanism.kind == "density" and k.count > len(self.soma) for k in self.kinds)
        return not any(many) and all(np.isin(k.node, self.soma).all() for k in self.kinds)

    @cached_property
    def capacitance_over_dt(self) -> np.ndarray:
        """Capacitances divided by `solved_dt`, (n,) float64, µS."""
        return self.capacitance / self.solved_dt

    @property
    def solved_dt(self) -> float:
        """The implicit step's length, ms: half of `dt` with second order."""
        return self.dt / 2 if self.secondorder else self.dt

    @cached_property
    def schema(self) -> Schema:
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
        for k, kind in enumerate(self.kinds):
            program = kind.mechanism.program
            outputs = program.outputs if program.spike is None else ()
            for family, values in (("state", program.states), ("output", outputs)):
                yield from (Field(q.name, "instance", "real", k, family) for q in values)
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

    def streams(self) -> Iterator[tuple[int, str, np.ndarray]]:
        """Yield group, name and ids, (count, 3) uint32, for all random streams."""
        for (k, name), ids in self.random_ids.items():
            for number, (group_kind, place) in enumerate(self.instances):
                if group_kind == k:
                    yield number, name, ids[place]

    def cell_of_target(self) -> np.ndarray:
        """Return each target's cell as an index in the network, (num_targets,) int64."""
        nodes = [k.node for k in self.kinds if k.first_target >= 0]
        node = np.concatenate([np.zeros(0, np.int64), *nodes])
        return stretch_of(self.forest.cell_offsets, node) + self.first_cell

    def initial_states(self) -> list[dict[str, np.ndarray]]:
        return [self._initial_states(kind) for kind in self.kinds]

    def _initial_states(self, kind: Kind) -> dict[str, np.ndarray]:
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
class Events:
    """Events from trains and from outside in whole steps, each due at the begin of its step."""

    target: np.ndarray
    step: np.ndarray
    weight: np.ndarray
    number: np.ndarray  # index in `Model.given_weights` for a train's connection, else -1


def _repeats(arrays: Sequence[np.ndarray], length: int) -> bool:
    return all(bool((a.reshape(-1, length) == a[:length]).all()) for a in arrays)
