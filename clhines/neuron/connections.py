"""Connections of a `Network`: a model's sources, NetCons, pending events, and POINTERs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clhines.core.arrays import place_of
from clhines.neuron.convert import Rejected, RejectedError
from clhines.neuron.model import NeuronModel
from clhines.neuron.read.places import ELEMENT, Variable
from clhines.simulator.mechanisms import KEPT_NUMBER, Mechanism
from clhines.simulator.network import Group, Network, Sources, inside
from clhines.simulator.refusals import refusal


def add_sources(
    model: NeuronModel, network: Network, groups: dict[str, Group]
) -> list[tuple[Sources | Group, int]]:
    origins, trains = model.wires.origins, model.trains
    at = [k for k, o in enumerate(origins) if o.sender is None]
    detectors = network.add_detector(
        np.array([origins[k].node for k in at], np.int64),
        np.array([origins[k].threshold for k in at], np.float64),
    )
    stims = [o.sender for o in origins if o.sender is not None and o.sender[0] in trains.names]
    made = network.spike_source([trains.times.get(s, ()) for s in stims])
    sources: list[tuple[Sources | Group, int]] = []
    places = {k: place for place, k in enumerate(at)}
    numbers = {sender: place for place, sender in enumerate(stims)}
    for k, origin in enumerate(origins):
        if origin.sender is None:
            sources.append((detectors, places[k]))
        elif origin.sender in numbers:
            sources.append((made, numbers[origin.sender]))
        else:
            name, instance = origin.sender
            sources.append((groups[name], instance))
    return sources


def connect(
    model: NeuronModel,
    network: Network,
    groups: dict[str, Group],
    sources: list[tuple[Sources | Group, int]],
) -> np.ndarray:
    wires, made = model.wires, list[np.ndarray]()
    is_group = np.array([name in groups for name in wires.senders.names], bool)
    name = wires.senders.name[wires.target]
    some = np.flatnonzero((wires.origin >= 0) & is_group[name])
    parts = {id(source): source for source, _ in sources}
    numbers = {key: k for k, key in enumerate(parts)}
    part = np.array([numbers[id(source)] for source, _ in sources], np.int64)
    place = np.array([k for _, k in sources], np.int64)
    key = part[wires.origin[some]] * len(is_group) + name[some]
    keys, first = np.unique(key, return_index=True)
    for one in keys[np.argsort(first)].tolist():
        chosen = some[key == one]
        group = groups[wires.senders.names[one % len(is_group)]]
        network.connect(
            [*parts.values()][one // len(is_group)],
            group,
            index=wires.senders.instance[wires.target[chosen]],
            weight=_rows(model, chosen),
            delay=wires.read.delay[chosen],
            source_index=place[wires.origin[chosen]],
        )
        made.append(chosen)
    return np.concatenate([*made, _connect_pending(model, network, groups)]).astype(np.int64)


def _connect_pending(model: NeuronModel, network: Network, groups: dict[str, Group]) -> list[int]:
    """Give each pending event a source of its own, except those of `waiting`.

    If events change weights, all events of a NetCon without a source share one source.
    """
    made = list[int]()
    pending = model.pending.netcons if model.bins is None else model.pending.binned
    before = max(float(model.h.t) - float(model.h.dt), 0.0)  # when those in bins count as sent
    for name, group in groups.items():
        chosen = [(k, t) for k, t in pending if model.wires.target_of(k)[0] == name]
        net = group.mechanism.program.net
        silent = _silent(model, name) if net is not None and net.for_netcons else []
        if not chosen and not silent:
            continue
        if changes_weights(model, group):
            made += _connect_alone(model, network, group, chosen, silent)
            continue
        numbers = np.array([k for k, _ in chosen], np.int64)
        times = np.array([t for _, t in chosen])
        sent = times if model.bins is None else np.full(len(times), before)
        network.connect(
            network.spike_source([[t] for t in sent.tolist()]),
            group,
            index=np.array([model.wires.target_of(k)[1] for k in numbers.tolist()], np.int64),
            weight=_rows(model, numbers),
            delay=times - sent,
        )
        made += [-1 - k for k, _ in chosen]
    return made


def steer(
    model: NeuronModel, network: Network, groups: dict[str, Group], connections: np.ndarray
) -> None:
    """Let events set weights of other NetCons, to which POINTERs point."""
    for (name, pointer), to in model.steered.items():
        at = place_of(connections, to[:, 0])
        inside(network).added.steered.append((groups[name].number, pointer, at, to[:, 1]))


def changes_weights(model: NeuronModel, group: Group) -> bool:
    of = [model.wires.target[to[:, 0]] for to in model.steered.values()]
    senders = model.wires.senders
    if any(senders.names[n] == group.mechanism.name for to in of for n in senders.name[to]):
        return True
    return group.mechanism.program.sets_weights


def _silent(model: NeuronModel, name: str) -> list[int]:
    """Return NetCons to a mechanism without a source: FOR_NETCONS visits them, too."""
    wires = model.wires
    number = wires.senders.names.index(name)
    return np.flatnonzero(
        (wires.origin < 0) & (wires.senders.name[wires.target] == number)
    ).tolist()


def _connect_alone(
    model: NeuronModel,
    network: Network,
    group: Group,
    chosen: Sequence[tuple[int, float]],
    silent: Sequence[int],
) -> list[int]:
    """Connect NetCons without a source to one that has their events on their way, or none."""
    wires, times = model.wires, {k: list[float]() for k in silent}
    if model.bins is not None and chosen:
        raise rejected_on_way(model, group.mechanism.name)
    for k, t in chosen:
        if wires.origin[k] < 0:
            times.setdefault(k, []).append(t)
            continue
        sender = wires.origins[wires.origin[k]].sender
        if sender is not None and sender[0] in model.trains.names:
            raise rejected_on_way(model, group.mechanism.name)
    if times:
        numbers = np.array([*times], np.int64)
        network.connect(
            network.spike_source([sorted(t) for t in times.values()]),
            group,
            index=np.array([wires.target_of(k)[1] for k in times], np.int64),
            weight=_rows(model, numbers),
            delay=0.0,
        )
    return [*times]


def rejected_on_way(model: NeuronModel, name: str) -> RejectedError:
    construct = refusal("neuron.pending-event-weights")
    way_out = "start from h.finitialize()" if model.h.t > 0 else "send it by a VecStim"
    return RejectedError([Rejected(name, construct, way_out)])


def _rows(model: NeuronModel, chosen: np.ndarray) -> np.ndarray:
    return model.wires.weights[chosen, : model.wires.width[chosen].max()]


def read_by_pointers(model: NeuronModel, network: Network, groups: dict[str, Group]) -> None:
    """Let POINTERs read voltages, which ``target_var`` may bring, and variables of mechanisms."""
    set_by_gap: dict[tuple[str, str], dict[int, int]] = {}
    remote, first = model.remote, model.nodes.start
    v = inside(network).added.remote_v = np.zeros(len(remote))
    for gap in model.gaps:
        node = gap.node - first if gap.node >= 0 else -1
        if gap.node >= 0 and gap.node not in model.nodes:  # those of other ranks follow its own
            at = int(np.searchsorted(remote, gap.node))
            v[at] = model.every[gap.owner].values(gap.name)[gap.instance]
            node = len(model.nodes) + at
        set_by_gap.setdefault((gap.owner, gap.name), {})[gap.instance] = node
    for (name, pointer), to in model.pointed.items():
        if to and to[0].owner:
            _to_variables(network, groups, (name, pointer), to)
            continue
        node_of_gap = set_by_gap.get((name, pointer), {})
        nodes = [node_of_gap.get(k, variable.number) for k, variable in enumerate(to)]
        network.set_pointer(groups[name], pointer, np.array(nodes, np.int64))


def write_by_pointers(
    model: NeuronModel, network: Network, groups: dict[str, Group]
) -> list[tuple[Group, list[int]]]:
    """Let POINTERs write variables of mechanisms; an element of a Vector is an instance, too."""
    written = model.written
    added = list[tuple[Group, list[int]]]()
    if written.elements:
        of_element = {
            v.number: groups[name].nodes[k]
            for (name, _), targets in written.targets.items()
            for k, v in enumerate(targets)
            if v.owner == ELEMENT
        }
        nodes = np.array([of_element[n] for n in written.elements], np.int64)
        added.append((network.add(Mechanism.from_nmodl(KEPT_NUMBER), nodes), written.elements))
    place = {number: k for k, number in enumerate(written.elements)}
    for (name, pointer), targets in written.targets.items():
        if not targets:
            continue
        if targets[0].owner == ELEMENT:
            to = added[0][0], "x", np.array([place[v.number] for v in targets], np.int64)
            network.set_pointer(groups[name], pointer, to)
        else:
            _to_variables(network, groups, (name, pointer), targets)
    return added


def _to_variables(
    network: Network, groups: dict[str, Group], of: tuple[str, str], targets: Sequence[Variable]
) -> None:
    """Let a POINTER, by mechanism and name, point to a variable of another mechanism."""
    first, numbers = targets[0], np.array([v.number for v in targets], np.int64)
    shown = first.name if first.place is None else f"{first.name}[{first.place}]"
    network.set_pointer(groups[of[0]], of[1], (groups[first.owner], shown, numbers))
