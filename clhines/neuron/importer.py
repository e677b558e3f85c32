"""Build a `Network` from a model read from NEURON's memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from clhines.core.arrays import inverse, shifted
from clhines.core.progress import phase
from clhines.core.summary import counted
from clhines.neuron.connections import (
    add_sources,
    changes_weights,
    connect,
    read_by_pointers,
    steer,
    write_by_pointers,
)
from clhines.neuron.convert import (
    Rejected,
    RejectedError,
    file_of,
    locals_of,
    reject,
    rejection,
    split_name,
)
from clhines.neuron.extracellular.drivers import FACTOR, POTENTIAL
from clhines.neuron.extracellular.outside import Coupling
from clhines.neuron.memory.raw import numbers_at
from clhines.neuron.memory.tables import local_at, thread_locals_at
from clhines.neuron.model import NeuronModel
from clhines.neuron.read.catalogue import OUTSIDE
from clhines.neuron.read.contents import Instances
from clhines.neuron.read.places import Variable
from clhines.neuron.read.played import EVERY, Player
from clhines.simulator.importing import INITIAL_CONCENTRATION
from clhines.simulator.mechanisms import GIVEN_CURRENT, Mechanism, Quantity
from clhines.simulator.mechanisms.nmodl import GIVEN, PICKED
from clhines.simulator.network import (
    Group,
    Network,
    Sources,
    copies_of,
    in_blocks,
    inside,
    of_arrays,
    put_group,
)

_SAME_TIME = 1e-8  # ms, within which NEURON takes two times as equal


@dataclass(eq=False)
class NeuronNetwork:
    """A network made from a NEURON model, or from several copies of the model."""

    model: NeuronModel
    network: Network
    groups: dict[str, Group]
    sources: list[tuple[Sources | Group, int]]  # one per origin in the model's wires
    connections: np.ndarray  # each connection's NetCon; -1 - k for NetCon k's pending event
    # groups of Vector elements that POINTERs write, and the elements' addresses
    elements: tuple[tuple[Group, list[int]], ...] = ()
    copies: int = 1
    # sources above threshold whose crossing NEURON has not detected yet
    crossed: list[int] = field(default_factory=list)
    begins: bool = False  # sources have sent the events that are pending at 0 ms

    @cached_property
    def numbers(self) -> np.ndarray:
        """The network's source number of each event source in NEURON, (k,) int64."""
        positions = dict[int, list[int]]()
        for at, (source, _) in enumerate(self.sources):
            positions.setdefault(id(source), []).append(at)
        numbers = np.zeros(len(self.sources), np.int64)
        for members in positions.values():
            index = np.array([self.sources[at][1] for at in members])
            numbers[members] = self.network.source_numbers(self.sources[members[0]][0], index)
        return numbers

    @cached_property
    def netcons(self) -> np.ndarray:
        """The NetCon of each connection, including connections for pending events, (m,) int64."""
        return np.where(self.connections < 0, -1 - self.connections, self.connections)

    @cached_property
    def detectors(self) -> dict[int, np.ndarray]:
        """By PreSyn address, the source number in each model copy of every threshold detector."""
        detectors = {}
        for origin, (source, k) in zip(self.model.wires.origins, self.sources, strict=True):
            if origin.sender is None:
                each = shifted([k], len(source) // self.copies, self.copies)
                detectors[origin.address] = self.network.source_numbers(source, each)
        return detectors


def _counted_twice(model: NeuronModel) -> Iterator[Rejected]:
    """Yield rejections of recorded ion currents that NEURON adds a second time after a step."""
    recorded = {r.variable.name for r in model.plays.recorders if r.variable is not None}
    for name, mechanism in model.mechanisms.items():
        program = mechanism.program
        if not program.blocks.keys() & {"after_solve", "before_step"}:
            continue
        written = {f"i{ion.name}" for ion in program.ions if f"i{ion.name}" in ion.writes}
        for current in sorted(written & recorded):
            yield reject(name, "neuron.vector-record-current-twice", name=name, current=current)


def network_of(model: NeuronModel) -> NeuronNetwork:
    if model.rejected:
        raise RejectedError(model.rejected)
    if twice := [*_counted_twice(model)]:
        raise RejectedError(twice)
    tree = model.tree
    netcons = counted(len(model.wires.read.address), "NetCon")
    phase(f"making a network of {counted(tree.num_nodes, 'node')} and {netcons}")
    columns = tree.area, tree.g_axial, tree.capacitance
    # NEURON rounds resistances through 3-D points without a diameter to -1e15 MOhm
    layers = tree.layers
    around = (None, None) if layers is None else (layers.around, layers.g)
    structure = of_arrays(tree.parent, tree.cell_offsets, *columns, None, True, *around)
    if any(mechanism.program.diffusing for mechanism in model.mechanisms.values()):
        structure = replace(structure, given_axis=tree.axis())
    network = Network(structure)
    network.celsius = float(model.h.celsius)
    additions = inside(network).added
    additions.exact, additions.bins = True, model.bins is not None
    groups = {}
    for name, instances in model.every.items():
        groups[name] = _group(model, network, name, instances)
        program = groups[name].mechanism.program
        if len(instances.nodes) and (program.last or program.begun):  # its last one has an effect
            additions.last[groups[name].number] = int(np.argmax(instances.columns.numbers()))
    _add_ions(model, network)
    index = int(model.h.Random().Random123_globalindex())
    for name, group in groups.items():
        for variable in group.mechanism.program.random:
            network.random(group, variable, model.streams(name, variable).ids(), index)
    read_by_pointers(model, network, groups)
    elements = write_by_pointers(model, network, groups)
    _play(model, network, groups)
    sources = add_sources(model, network, groups)
    connections = connect(model, network, groups, sources)
    steer(model, network, groups, connections)
    return NeuronNetwork(model, network, groups, sources, connections, tuple(elements))


def copied(once: NeuronNetwork, copies: int) -> NeuronNetwork:
    for name, pointer in once.model.steered:
        raise rejection(name, "neuron.copies-pointer-in-net-receive", pointer=pointer)
    network = copies_of(once.network, copies)
    copied_parts, parts = inside(network), inside(once.network)
    copy_of = {id(old): new for old, new in zip(once.network.groups, network.groups, strict=True)}
    pairs = zip(parts.added.sources, copied_parts.added.sources, strict=True)
    source_copies: dict[int, Sources | Group] = {**copy_of, **{id(old): new for old, new in pairs}}
    sizes = [len(columns[0]) for columns in parts.wiring.calls]
    at = in_blocks(sizes, copies)
    connections = np.zeros(at.size, np.int64)
    connections[at] = once.connections
    return NeuronNetwork(
        once.model,
        network,
        {name: copy_of[id(group)] for name, group in once.groups.items()},
        [(source_copies[id(source)], k) for source, k in once.sources],
        connections,
        tuple((copy_of[id(group)], at) for group, at in once.elements),
        copies,
    )


def is_local(model: NeuronModel, name: str, quantity: Quantity) -> bool:
    """Whether a state or parameter of a mechanism is a file-level LOCAL."""
    base, entry = split_name(quantity)[0], model.every[name].entry
    return (
        quantity.is_global
        and base not in entry.globals_
        and entry.channel is None
        and base in locals_of(entry.text, entry.file)
    )


def local_of(model: NeuronModel, name: str, quantity: Quantity) -> np.ndarray:
    """Return the address of a file-level LOCAL, (1,) uint64; empty if there is no such LOCAL."""
    (base, element), entry = split_name(quantity), model.every[name].entry
    at = None
    if is_local(model, name, quantity):
        at = local_at(base, entry.number)
        if at is None and (first := thread_locals_at(model.memory, entry.number)):
            at = first + 8 * locals_of(entry.text, entry.file)[base]
    return np.array([] if at is None else [at + 8 * (element or 0)], np.uint64)


def _group(model: NeuronModel, network: Network, name: str, instances: Instances) -> Group:
    mechanism = model.mechanisms[name]
    nodes = instances.nodes
    states = [q for q in mechanism.program.states if q.is_given]
    values = values_of(model, name, (*mechanism.program.parameters, *states))
    return put_group(network, mechanism, nodes, values)


def values_of(
    model: NeuronModel, name: str, quantities: Sequence[Quantity]
) -> dict[str, float | np.ndarray]:
    program, nodes = model.mechanisms[name].program, model.every[name].nodes
    values: dict[str, float | np.ndarray] = {}
    of_streams = {
        f"{v}_{end}": (v, k) for v in program.picked for k, end in enumerate((*PICKED, GIVEN))
    }
    for quantity in quantities:
        if quantity.name in of_streams:
            variable, k = of_streams[quantity.name]
            values[quantity.name] = _single(model.streams(name, variable).distribution()[:, k])
            continue
        value = _parameter(model, name, quantity, program.built_in, nodes)
        if value is not None:
            values[quantity.name] = value
    return values


def _parameter(
    model: NeuronModel, name: str, quantity: Quantity, built_in: Sequence[str], nodes: np.ndarray
) -> float | np.ndarray | None:
    """Return a parameter's values from NEURON; None if NEURON does not store the parameter.

    `name` is its mechanism, at `nodes`. Of the parameters in `built_in`, only diam is returned.
    """
    base, place = split_name(quantity)
    entry = model.every[name].entry
    if quantity.name in built_in:
        return _single(model.tree.diam[nodes]) if base == "diam" else None
    if (owner := model.owner_of(name, base)) is not None:
        return _single(owner.values(base, place))
    if len(at := local_of(model, name, quantity)):
        return float(numbers_at(at)[0])
    file = file_of(entry.text, entry.file)
    variable = None if base in file.pointers | file.core_pointers else file.variables.get(base)
    if variable is not None and variable.sort == "assigned":
        raise rejection(name, "neuron.variable-unreadable", base=base)
    return None


def _single(values: np.ndarray) -> float | np.ndarray:
    return float(values[0]) if len(values) and (values == values[0]).all() else values


def _add_ions(model: NeuronModel, network: Network) -> None:
    for ion in model.contents.ions.values():
        names = {"e": f"e{ion.name}", "ci": f"{ion.name}i", "co": f"{ion.name}o"}
        values = {key: ion.instances.values(name) for key, name in names.items()}
        for key in ("ci", "co"):  # h.finitialize() sets them by style
            at_start = getattr(model.h, f"{names[key]}0_{ion.name}_ion")
            values[key] = np.where(ion.style & INITIAL_CONCENTRATION, at_start, values[key])
        network.ion(ion.name, ion.instances.nodes, ion.valence, style=ion.style, **values)


def _play(model: NeuronModel, network: Network, groups: dict[str, Group]) -> None:
    rejected, played, outside = [], set[Variable](), list[Player]()
    players = _to_come(model)
    for player in players:
        variable = player.variable
        if variable in played:
            words = {"what": player.what, "name": variable.name}
            rejected.append(reject(variable.owner, "neuron.played-twice", **words))
        played.add(variable)
        if (variable.owner, variable.name) == (OUTSIDE, POTENTIAL) and variable.number >= 0:
            outside.append(player)
            continue
        group = groups.get(variable.owner)
        name = _parameter_of(group, variable)
        if group is None or not name:
            words = {"what": player.what, "name": variable.name}
            rejected.append(reject(variable.owner, "neuron.play-into-no-parameter", **words))
            continue
        every = range(len(group)) if variable.number == EVERY else [variable.number]
        for k in every:
            values = player.t, player.y, player.continuous, player.after_events
            inside(network).added.play(group, k, name, *values)
    if rejected:
        raise RejectedError(rejected)
    if model.outside.acts:
        _drive(model, network, outside, players)


def _parameter_of(group: Group | None, variable: Variable) -> str:
    """Return the group's parameter that corresponds to a NEURON variable; "" if none does."""
    if group is None or not (variable.number >= 0 or variable.number == EVERY):
        return ""
    wanted, quantities = (variable.name, variable.place), group.mechanism.program.parameters
    return next((q.name for q in quantities if split_name(q) == wanted), "")


def _to_come(model: NeuronModel) -> list[Player]:
    """Return all players with only the values that NEURON has not yet played.

    Refuse a Vector whose times have changed, because NEURON still waits for an old time.
    """
    recorders = [r for r in model.plays.recorders if r.times is not None]
    is_driven = recorders or any(p.event for p in model.players)
    events = model.queue.events("PlayRecordEvent") if is_driven else []
    due = {event.address: event.time for event in events}
    if any(abs(due.get(r.event, r.next_time) - r.next_time) > _SAME_TIME for r in recorders):
        raise rejection("", "neuron.vector-times", what="Vector.record")
    players = (p.to_come(due.get(p.event, np.inf)) if p.event else p for p in model.players)
    return [player for player in players if player is not None]


def _drive(
    model: NeuronModel, network: Network, players: Sequence[Player], every: Sequence[Player]
) -> None:
    """Add the axial currents that extracellular potentials drive.

    `players` play such potentials; `every` are the players of all variables.
    """
    outside = model.outside
    coupling, e = outside.coupling(), outside.potentials()
    stays = e == 0
    stays[[player.variable.number for player in players]] = False
    for name, driver in outside.drivers.items():
        _copy(model, network, name, coupling, every)
        stays[driver.of] = True
    chosen = np.flatnonzero(~stays[coupling.of])
    if len(chosen):
        rest = Coupling(coupling.node[chosen], coupling.of[chosen], coupling.g[chosen])
        _give(network, rest, e, players)


def _copy(
    model: NeuronModel, network: Network, name: str, coupling: Coupling, players: Sequence[Player]
) -> None:
    """Add mechanism `name`, which sets potentials, as an electrode at each node they drive."""
    driver = model.outside.drivers[name]
    instance = inverse(driver.of, len(model.outside.potentials()))[coupling.of]
    chosen = np.flatnonzero(instance >= 0)
    at, quantities = instance[chosen], driver.parameters
    values = values_of(model, name, quantities)
    parameters = {n: x[at] if isinstance(x, np.ndarray) else x for n, x in values.items()}
    parameters[FACTOR] = coupling.g[chosen]
    group = put_group(network, driver.copy, coupling.node[chosen], parameters)
    names = {split_name(q): q.name for q in quantities}
    for player in players:
        variable = player.variable
        parameter = names.get((variable.name, variable.place))
        if variable.owner == name and parameter is not None:
            is_played = at == variable.number if variable.number != EVERY else at >= 0
            for k in np.flatnonzero(is_played).tolist():
                network.play(group, k, parameter, player.t, player.y, player.continuous)


def _give(network: Network, coupling: Coupling, e: np.ndarray, players: Sequence[Player]) -> None:
    """Add the currents of `coupling` to the network, a group for each node and time course.

    `e` has the potentials, mV. Currents into the same node at the same times are summed.
    """
    alike = dict[tuple[bytes, bool], list[Player]]()
    for player in players:
        alike.setdefault((player.t.tobytes(), player.continuous), []).append(player)
    ways, values = [*alike.values()], [np.array([p.y for p in some]) for some in alike.values()]
    way, row = np.zeros(len(e), np.int64), np.zeros(len(e), np.int64)  # way 0: constant
    for number, some in enumerate(ways, 1):
        played = [player.variable.number for player in some]
        way[played], row[played] = number, np.arange(len(some))
    key = coupling.node * (len(ways) + 1) + way[coupling.of]
    order = np.argsort(key, kind="stable")
    of, g = coupling.of[order], coupling.g[order]
    keys, first = np.unique(key[order], return_index=True)
    node, current = keys // (len(ways) + 1), np.add.reduceat(g * e[of], first)
    group = network.add(Mechanism.from_nmodl(GIVEN_CURRENT), node, given=current)
    for k, (begin, end) in enumerate(pairwise(np.append(first, len(key)).tolist())):
        number = int(way[of[begin]]) - 1
        if number >= 0:
            y = g[begin:end] @ values[number][row[of[begin:end]]]
            one = ways[number][0]
            network.play(group, k, "given", one.t, y, one.continuous)


def waiting(imported: NeuronNetwork) -> list[tuple[int, float]]:
    """Return (NetCon, arrival time in ms) of each pending event that may change weights.

    The simulation counts such an event as sent by the source of its NetCon.
    """
    model, events = imported.model, list[tuple[int, float]]()
    for k, t in model.pending.netcons if model.bins is None else ():
        name, _ = model.wires.target_of(k)
        if name in imported.groups and model.wires.origin[k] >= 0:
            if changes_weights(model, imported.groups[name]):
                events.append((k, t))
    return events
