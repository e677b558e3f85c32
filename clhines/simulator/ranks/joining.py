"""Join several processes' networks to one network.

All processes know sources and nodes by common numbers, see `Ends`. In a process's network an empty
train stands for another process's source. In the joined network a connection from such a train
begins at the source itself, and a pointer to another process's node points to this node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from clhines.core.arrays import place_of, starts
from clhines.core.errors import InputError
from clhines.simulator.cells.cable import Axis
from clhines.simulator.common.checks import spread
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.network.groups import Group, inside
from clhines.simulator.network.network import Network
from clhines.simulator.network.stored import put_group
from clhines.simulator.network.structure import Structure, of_arrays

_SET_BY_NETWORK = "celsius", "area"  # parameters
_Value = TypeVar("_Value")


@dataclass(frozen=True, eq=False)
class Ends:
    """The sources and nodes of one process's network that other processes know by number."""

    sources: np.ndarray  # the process's sources that have numbers
    sent: np.ndarray  # `sources`' numbers
    trains: np.ndarray  # empty trains that stand for other processes' sources
    heard: np.ndarray  # these sources' numbers
    nodes: range  # the process's node numbers
    pointed: np.ndarray  # numbers of other processes' nodes to which pointers point


@dataclass(frozen=True, eq=False)
class PartNumbers:
    """Where one network's nodes, cells, connections, groups and sources are in the joined one."""

    node: int  # the first node's index
    cell: int  # the first cell's index
    connection: int  # the first connection's index
    groups: tuple[int, ...]  # each group's index
    sources: np.ndarray  # index of each source, or of the source for which an empty train stands
    is_remote: np.ndarray  # whether each source is such a train
    pointed: np.ndarray  # other networks' nodes to which pointers point


def join_networks(
    networks: Sequence[Network], ends: Sequence[Ends]
) -> tuple[Network, list[PartNumbers]]:
    """Join networks to one; return it, and each network's indices in it.

    Raises
    ------
    InputError
        If the networks differ, such as in temperature.
    """
    builder = _Builder(networks, ends)
    builder.put_groups()
    builder.put_sources()
    builder.put_additions()
    return builder.whole, builder.connect()


def _agreed(what: str, values: Sequence[_Value]) -> _Value:
    if any(value != values[0] for value in values):
        raise InputError(f"{what} differs between ranks")
    return values[0]


def _structure(parts: Sequence[Structure], first: np.ndarray) -> Structure:

    def all_nodes(name: str) -> np.ndarray:
        return np.concatenate([part.whole(name) for part in parts])

    pairs = [*zip(parts, first.tolist(), strict=True)]
    trees = [part.forest for part in parts]
    parent = [np.where(p.forest.parent < 0, -1, p.forest.parent + k) for p, k in pairs]
    offsets = [p.forest.cell_offsets[:-1] + k for p, k in pairs]
    around, g_around = None, None
    if _agreed("extracellular", [part.around is not None for part in parts]):
        layers = [(part.around, k) for part, k in pairs if part.around is not None]
        around = np.concatenate([np.where(o.node < 0, -1, o.node + k) for o, k in layers])
        g_around = np.concatenate([o.g for o, _ in layers])
    structure = of_arrays(
        np.concatenate(parent),
        np.concatenate([*offsets, [sum(tree.num_nodes for tree in trees)]]),
        all_nodes("area"),
        all_nodes("g_axial"),
        all_nodes("capacitance"),
        np.concatenate([p.soma + k for p, k in pairs]),
        is_signed=True,
        around=around,
        g_around=g_around,
    )
    axes = [part.axis for part in parts]
    cable_axes = [axis for axis in axes if axis is not None]
    return replace(
        structure,
        g_total=[all_nodes("g_total")],
        in_soma=[all_nodes("in_soma")],
        given_axis=Axis.joined(cable_axes) if len(cable_axes) == len(axes) else None,
    )


class _Builder:
    """Build the joined network; note where in it the cells and sources of each network are."""

    def __init__(self, networks: Sequence[Network], ends: Sequence[Ends]) -> None:
        self.networks, self.ends = networks, ends
        self.parts = [inside(network) for network in networks]
        self.first = starts(np.array([network.forest.num_nodes for network in networks]))
        structures = [part.structure for part in self.parts]
        whole = self.whole = Network(_structure(structures, self.first))
        whole.celsius = _agreed("celsius", [network.celsius for network in networks])
        whole.threshold = np.concatenate(
            [spread("threshold", n.threshold, n.num_cells) for n in networks]
        )
        self.added, every = inside(whole).added, [part.added for part in self.parts]
        self.added.exact = _agreed("delivery of events", [added.exact for added in every])
        self.added.bins = _agreed("CVode.queue_mode", [added.bins for added in every])
        self.index = _agreed("the global index of Random123", [a.random_index for a in every])
        for part in self.parts:
            if part.added.last:
                raise InputError("a mechanism has variables that all instances share and set")
            if part.added.steered or part.wiring.outside or part.wiring.rule is not None:
                raise InputError("the networks have pointers to weights, events or plasticity")
        self.cells = starts(np.array([network.num_cells for network in networks]))
        self.groups: list[dict[int, Group]] = [{} for _ in networks]
        self.sources = [np.zeros(part.added.num_sources, np.int64) for part in self.parts]
        for numbers, cell, network in zip(self.sources, self.cells, networks, strict=True):
            numbers[: network.num_cells] = cell + np.arange(network.num_cells)

    def _mechanisms(self) -> list[Mechanism]:
        order = list[Mechanism]()
        for network in self.networks:
            at = 0
            for mechanism in dict.fromkeys(group.mechanism for group in network.groups):
                if mechanism in order[:at]:
                    raise InputError(f"{mechanism.name} is in another order on some ranks")
                if mechanism in order:
                    at = order.index(mechanism) + 1
                    continue
                order.insert(at, mechanism)
                at += 1
        return order

    def put_groups(self) -> None:
        groups = [(k, group) for k, network in enumerate(self.networks) for group in network.groups]
        for mechanism in self._mechanisms():
            for k, group in groups:
                if group.mechanism == mechanism:
                    self._put_group(k, group)

    def _put_group(self, k: int, group: Group) -> None:
        mechanism = group.mechanism
        built_in = [name for name in _SET_BY_NETWORK if name in mechanism.program.built_in]
        values = {n: group.parameters[n] for n in group.given if n not in built_in}
        nodes = group.nodes if mechanism.kind == "artificial" else group.nodes + self.first[k]
        put = self.groups[k][group.number] = put_group(self.whole, mechanism, nodes, values)
        for sender, first in self.parts[k].added.emitters:
            if sender is group and len(group):
                self._number(k, first, self.whole.source_numbers(put))

    def _number(self, k: int, first: int, numbers: np.ndarray) -> None:
        self.sources[k][first : first + len(numbers)] = numbers

    def put_sources(self) -> None:
        self.is_remote = [np.zeros(len(numbers), bool) for numbers in self.sources]
        for k, part in enumerate(self.parts):
            for one in part.added.sources:
                if one.times or not len(one):
                    put = self.whole.spike_source(one.times)
                else:
                    node = one.node + self.first[k]
                    put = self.whole.add_detector(node, one.threshold, one.refractory)
                self._number(k, one.first, self.whole.source_numbers(put))
        pairs = [*zip(self.ends, self.sources, strict=True)]
        sent = np.concatenate([ends.sent for ends in self.ends])
        sources = np.concatenate([numbers[ends.sources] for ends, numbers in pairs])
        for (ends, numbers), remote in zip(pairs, self.is_remote, strict=True):
            at = place_of(sent, ends.heard)
            trains = ends.trains[at >= 0]
            numbers[trains], remote[trains] = sources[at[at >= 0]], True

    def put_additions(self) -> None:
        for k, part in enumerate(self.parts):
            groups, first, added = self.groups[k], self.first[k], part.added
            for ion in added.ions:
                self.whole.ion(ion.name, ion.nodes + first, ion.valence, **ion.values)
            for number, name, places, node in added.pointers:
                self.whole.set_pointer(groups[number], name, self._nodes(k, node), places)
            for number, name, places, to, variable, at in added.written:
                self.whole.set_pointer(groups[number], name, (groups[to], variable, at), places)
            for p in added.plays:
                values = p.parameter, p.t, p.y, p.continuous, p.after_events
                self.added.play(groups[p.group], p.index, *values)
            for number, name, ids in added.streams:
                self.whole.random(groups[number], name, ids, self.index)

    def _nodes(self, k: int, node: np.ndarray) -> np.ndarray:
        count = self.networks[k].forest.num_nodes
        nodes, remote = node + self.first[k], np.flatnonzero(node >= count)
        nodes[remote] = self._remote(self.ends[k].pointed[node[remote] - count])
        return nodes

    def _remote(self, number: np.ndarray) -> np.ndarray:
        nodes = np.zeros_like(number)
        for ends, first in zip(self.ends, self.first, strict=True):
            here = (number >= ends.nodes.start) & (number < ends.nodes.stop)
            nodes[here] = number[here] - ends.nodes.start + first
        return nodes

    def connect(self) -> list[PartNumbers]:
        parts, connection = list[PartNumbers](), 0
        for k, part in enumerate(self.parts):
            begin = connection
            for source, group, instance, rows, delay, _ in part.wiring.calls:
                if len(group):
                    target = self.groups[k][int(group[0])]
                    numbers = self.sources[k][source]
                    inside(self.whole).connect(numbers, target, instance, rows, delay, None)
                connection += len(group)
            numbers_of_groups = tuple(self.groups[k][n].number for n in range(len(self.groups[k])))
            pointed = self._remote(self.ends[k].pointed)
            rest = numbers_of_groups, self.sources[k], self.is_remote[k], pointed
            parts.append(PartNumbers(int(self.first[k]), int(self.cells[k]), begin, *rest))
        return parts
