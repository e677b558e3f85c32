"""Add a NEURON model's sources, NetCons, pending events and POINTERs to its `Network`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np

from clhines.core.arrays import place_of
from clhines.neuron.convert import RejectedError, rejection
from clhines.neuron.model import NeuronModel
from clhines.neuron.read.places import ELEMENT, Variable
from clhines.simulator.mechanisms import KEPT_NUMBER, Mechanism
from clhines.simulator.network import Group, Network, Sources, inside


def add_sources(
    model: NeuronModel, network: Network, groups: dict[str, Group]
) -> list[tuple[Sources | Group, int]]:
    origins, trains = model.wires.origins, model.trains
    detected = [k for k, o in enumerate(origins) if o.sender is None]
    detectors = network.add_detector(
        np.array([origins[k].node for k in detected], np.int64),
        np.array([origins[k].threshold for k in detected], np.float64),
    )
    stims = [o.sender for o in origins if o.sender is not None and o.sender[0] in trains.names]
    spike_source = network.spike_source([trains.times.get(s, ()) for s in stims])
    sources: list[tuple[Sources | Group, int]] = []
    detector_numbers, stim_numbers = count(), count()
    for origin in origins:
        if origin.sender is None:
            sources.append((detectors, next(detector_numbers)))
        elif origin.sender[0] in trains.names:
            sources.append((spike_source, next(stim_numbers)))
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
    wires, netcons = model.wires, list[np.ndarray]()
    is_group = np.array([name in groups for name in wires.senders.names], bool)
    name = wires.senders.name[wires.target]
    connected = np.flatnonzero((wires.origin >= 0) & is_group[name])
    source_parts = {id(source): source for source, _ in sources}
    part_number = {key: k for k, key in enumerate(source_parts)}
    part = np.array([part_number[id(source)] for source, _ in sources], np.int64)
    place = np.array([k for _, k in sources], np.int64)
    key = part[wires.origin[connected]] * len(is_group) + name[connected]
    keys, first = np.unique(key, return_index=True)
    for group_key in keys[np.argsort(first)].tolist():
        chosen = connected[key == group_key]
        group = groups[wires.senders.names[group_key % len(is_group)]]
        network.connect(
            [*source_parts.values()][group_key // len(is_group)],
            group,
            index=wires.senders.instance[wires.target[chosen]],
            weight=_rows(model, chosen),
            delay=wires.read.delay[chosen],
            source_index=place[wires.origin[chosen]],
        )
        netcons.append(chosen)
    return np.concatenate([*netcons, _connect_pending(model, network, groups)]).astype(np.int64)


def _connect_pending(model: NeuronModel, network: Network, groups: dict[str, Group]) -> list[int]:
    """Connect a new source to each pending event's target; return each connection's NetCon.

    A NetCon is returned as -1 - k, for a connection with one pending event of NetCon k. If events
    to the mechanism change weights, a NetCon k without a source gets one source for all its events,
    and is returned as k. An event of any other NetCon then counts as sent by the NetCon's source
    (`importer.waiting`).
    """
    netcons = list[int]()
    pending = model.pending.netcons if model.bins is None else model.pending.binned
    before = max(float(model.h.t) - float(model.h.dt), 0.0)  # binned events count as sent then
    for name, group in groups.items():
        chosen = [(k, t) for k, t in pending if model.wires.target_of(k)[0] == name]
        net = group.mechanism.program.net
        silent = _silent(model, name) if net is not None and net.for_netcons else []
        if not chosen and not silent:
            continue
        if changes_weights(model, group):
            netcons += _add_sources(model, network, group, chosen, silent)
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
        netcons += [-1 - k for k, _ in chosen]
    return netcons


def steer(
    model: NeuronModel, network: Network, groups: dict[str, Group], connections: np.ndarray
) -> None:
    """Tell the network which connections have weights that POINTERs write.

    `connections` has the NetCon of each connection; `groups` are by name of their mechanism.
    """
    for (name, pointer), targets in model.steered.items():
        at = place_of(connections, targets[:, 0])
        inside(network).added.steered.append((groups[name].number, pointer, at, targets[:, 1]))


def changes_weights(model: NeuronModel, group: Group) -> bool:
    steered_targets = [model.wires.target[to[:, 0]] for to in model.steered.values()]
    senders = model.wires.senders
    if any(
        senders.names[n] == group.mechanism.name for to in steered_targets for n in senders.name[to]
    ):
        return True
    return group.mechanism.program.sets_weights


def _silent(model: NeuronModel, name: str) -> list[int]:
    """Return the NetCons to mechanism `name` without a source; FOR_NETCONS visits them, too."""
    wires = model.wires
    number = wires.senders.names.index(name)
    is_target = wires.senders.name[wires.target] == number
    return np.flatnonzero((wires.origin < 0) & is_target).tolist()


def _add_sources(
    model: NeuronModel,
    network: Network,
    group: Group,
    chosen: Sequence[tuple[int, float]],
    silent: Sequence[int],
) -> list[int]:
    """Give each NetCon without a source one that sends its `chosen` events; return these NetCons.

    `chosen` has (NetCon, event time). NetCons in `silent` get a source even without events.
    """
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
    way_out = "start from h.finitialize()" if model.h.t > 0 else "send it by a VecStim"
    return rejection(name, "neuron.pending-event-weights", way_out)


def _rows(model: NeuronModel, chosen: np.ndarray) -> np.ndarray:
    return model.wires.weights[chosen, : model.wires.width[chosen].max()]


def read_by_pointers(model: NeuronModel, network: Network, groups: dict[str, Group]) -> None:
    """Set the network's pointers: for ``target_var`` variables and POINTERs that are read."""
    set_by_gap: dict[tuple[str, str], dict[int, int]] = {}
    remote, first = model.remote, model.nodes.start
    v = inside(network).added.remote_v = np.zeros(len(remote))
    for gap in model.gaps:
        node = gap.node - first if gap.node >= 0 else -1
        if gap.node >= 0 and gap.node not in model.nodes:  # other ranks' nodes have larger numbers
            at = int(np.searchsorted(remote, gap.node))
            v[at] = model.every[gap.owner].values(gap.name)[gap.instance]
            node = len(model.nodes) + at
        set_by_gap.setdefault((gap.owner, gap.name), {})[gap.instance] = node
    for (name, pointer), targets in model.pointed.items():
        if targets and targets[0].owner:
            _to_variables(network, groups, (name, pointer), targets)
            continue
        node_of_gap = set_by_gap.get((name, pointer), {})
        nodes = [node_of_gap.get(k, variable.number) for k, variable in enumerate(targets)]
        network.set_pointer(groups[name], pointer, np.array(nodes, np.int64))


def write_by_pointers(
    model: NeuronModel, network: Network, groups: dict[str, Group]
) -> list[tuple[Group, list[int]]]:
    """For POINTERs that mechanisms set, connect the target variables or Vector elements.

    Each Vector element becomes an instance of a mechanism that stores one number. Return the groups
    of these instances, with the addresses of the elements.
    """
    written = model.written
    added = list[tuple[Group, list[int]]]()
    if written.elements:
        node_of = {
            v.number: groups[name].nodes[k]
            for (name, _), targets in written.targets.items()
            for k, v in enumerate(targets)
            if v.owner == ELEMENT
        }
        nodes = np.array([node_of[n] for n in written.elements], np.int64)
        added.append((network.add(Mechanism.from_nmodl(KEPT_NUMBER), nodes), written.elements))
    element_index = {number: k for k, number in enumerate(written.elements)}
    for (name, pointer), targets in written.targets.items():
        if not targets:
            continue
        if targets[0].owner == ELEMENT:
            to = added[0][0], "x", np.array([element_index[v.number] for v in targets], np.int64)
            network.set_pointer(groups[name], pointer, to)
        else:
            _to_variables(network, groups, (name, pointer), targets)
    return added


def _to_variables(
    network: Network, groups: dict[str, Group], key: tuple[str, str], targets: Sequence[Variable]
) -> None:
    first, numbers = targets[0], np.array([v.number for v in targets], np.int64)
    shown = first.name if first.place is None else f"{first.name}[{first.place}]"
    network.set_pointer(groups[key[0]], key[1], (groups[first.owner], shown, numbers))
