"""Copies of a network in one network, for `Simulation.replicate` and `Population`.

Cell k of the network is cell ``c * num_cells + k`` of copy c; nodes likewise. Each group and each
set of sources has its instances copy after copy. `fill` makes all arrays. `copies_of` stores arrays
by node and instance once and expands them on demand; connections, which are few, it expands at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from clhines.core.arrays import place_of, shifted
from clhines.core.errors import InputError
from clhines.simulator.cells.cable import Axis
from clhines.simulator.common.deferred import Repeated, deferred, in_blocks
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.network.additions import Additions, IonValues, Sources
from clhines.simulator.network.groups import Group, Parameters, inside
from clhines.simulator.network.network import CopyNumbers, Network
from clhines.simulator.network.plasticity import Rule
from clhines.simulator.network.stored import put_group
from clhines.simulator.network.structure import Structure
from clhines.simulator.network.wiring import CallColumns, Wiring

Stream = tuple[int, str, np.ndarray]


def structure_of_copies(structure: Structure, count: int) -> Structure:
    forest, turns = structure.forest, structure.turns
    order = range(len(structure.area)) if turns % len(structure.area) == 0 else range(turns)

    def in_turns(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [arrays[k % len(arrays)] for k in order]

    cables, axis, around = structure.cables, structure.given_axis, structure.around
    return Structure(
        forest=forest.copied(count),
        soma=shifted(structure.soma, forest.num_nodes, count),
        cables=tuple(cables[k % len(cables)] for k in order) if cables else (),
        turns=turns * count,
        area=in_turns(structure.area),
        capacitance=in_turns(structure.capacitance),
        g_axial=in_turns(structure.g_axial),
        g_total=in_turns(structure.g_total),
        in_soma=in_turns(structure.in_soma),
        given_axis=None if axis is None else Axis.joined([axis] * count),
        around=None if around is None else around.copied(count),
    )


def fill(
    copies: Network,
    network: Network,
    groups: Sequence[Group],
    wiring: Wiring,
    rule: Rule | None,
    streams: Sequence[Stream],
    instances: Sequence[np.ndarray] | None = None,
) -> list[Group]:
    """Fill copies of a network; return their groups, in the order of `groups`.

    Several `groups` may be parts of one; `instances` lists each part's. `streams` are all random
    streams, because default numbers differ between copies.
    """
    if inside(network).gids is not None:
        raise InputError("copies of a network with gids; expected one without")
    if instances is None:
        instances = [np.arange(len(group)) for group in groups]
    builder = _CopyBuilder(copies, network, groups, instances)
    copies.celsius, copies.threshold = network.celsius, _repeated(network, builder.count)
    inside(copies).of_copies = builder.count > 1
    builder.groups_and_sources()
    builder.additions(streams)
    builder.wires(wiring, rule)
    return builder.groups_of_copies


def _repeated(network: Network, copies: int) -> float | np.ndarray:
    limit = network.threshold
    return np.tile(limit, copies) if isinstance(limit, np.ndarray) else limit


class _CopyBuilder:
    def __init__(
        self,
        copies: Network,
        network: Network,
        groups: Sequence[Group],
        instances: Sequence[np.ndarray],
    ) -> None:
        self.copies, self.network, self.groups, self.instances = copies, network, groups, instances
        self.count = copies.num_cells // network.num_cells
        self.groups_of_copies: list[Group] = []
        self._begins: list[tuple[int, int, int]] = []  # first source, count, first source in copies

    def _nodes(self, nodes: np.ndarray) -> np.ndarray:
        return shifted(nodes, self.network.forest.num_nodes, self.count)

    def groups_and_sources(self) -> None:
        """Add all groups, detectors and trains, so that sources keep their order."""
        added = inside(self.network).added
        first_sources = {group.number: first for group, first in added.emitters}
        waiting = sorted(added.sources, key=lambda one: one.first)
        for group in self.groups:
            first = first_sources.get(group.number)
            while waiting and first is not None and waiting[0].first < first:
                self._source(waiting.pop(0))
            self._group(group, first)
        for sources in waiting:
            self._source(sources)

    def _source(self, sources: Sources) -> None:
        if sources.times or not len(sources):
            copied = self.copies.spike_source(sources.times * self.count)
        else:
            threshold = np.tile(sources.threshold, self.count)
            refractory = np.tile(sources.refractory, self.count)
            copied = self.copies.add_detector(self._nodes(sources.node), threshold, refractory)
        self._begins.append((sources.first, len(sources), copied.first))

    def _group(self, group: Group, first: int | None) -> None:
        mechanism, values = group.mechanism, Repeated(group.parameters, self.count)()
        for name in ("celsius", "area"):  # set by the network
            if name in mechanism.program.built_in:
                values.pop(name, None)
        alone = mechanism.kind == "artificial"
        nodes = np.full(len(group) * self.count, -1) if alone else self._nodes(group.nodes)
        copied = put_group(self.copies, mechanism, nodes, values)
        self.groups_of_copies.append(copied)
        if first is not None:
            here = int(self.copies.source_numbers(copied)[0]) if len(copied) else 0
            self._begins.append((first, len(group), here))

    def _pieces(
        self, number: int, instance: np.ndarray
    ) -> Iterator[tuple[Group, np.ndarray, np.ndarray]]:
        """Yield parts of a group: the part, positions in `instance`, instances in the copies."""
        pieces = zip(self.groups, self.groups_of_copies, self.instances, strict=True)
        for group, copied, members in pieces:
            if group.number == number:
                at = place_of(members, instance, np.arange(len(members)))
                chosen = np.flatnonzero(at >= 0)
                if len(chosen):
                    yield copied, chosen, shifted(at[chosen], len(members), self.count)

    def additions(self, streams: Sequence[Stream]) -> None:
        added, copies, count = inside(self.network).added, self.copies, self.count
        inside(copies).added.exact, inside(copies).added.bins = added.exact, added.bins
        for ion in added.ions:
            values = {k: np.tile(v, count) for k, v in ion.values.items()}
            copies.ion(ion.name, self._nodes(ion.nodes), ion.valence, **values)
        for number, name, places, node in added.pointers:
            for copied, chosen, index in self._pieces(number, places):
                copies.set_pointer(copied, name, self._nodes(node[chosen]), index)
        for number, name, places, of, variable, at in added.written:
            for copied, chosen, index in self._pieces(number, places):
                for other, among, there in self._pieces(of, at[chosen]):
                    pointing = index.reshape(self.count, -1)[:, among].reshape(-1)
                    copies.set_pointer(copied, name, (other, variable, there), pointing)
        for play in added.plays:
            for copied, _, index in self._pieces(play.group, np.array([play.index])):
                for one in index.tolist():
                    arguments = copied, one, play.parameter, play.t, play.y, play.continuous
                    inside(copies).added.play(*arguments, play.after_events)
        for number, name, ids in streams:
            for copied, chosen, _ in self._pieces(number, np.arange(len(ids))):
                ids_there = _streams(copied.mechanism, ids[chosen], count)
                copies.random(copied, name, ids_there, added.random_index)

    def sources(self, source: np.ndarray, k: int) -> np.ndarray:
        numbers = source + k * self.network.num_cells
        for first, length, here in self._begins:
            within = (source >= first) & (source < first + length)
            numbers[within] = here + k * length + (source[within] - first)
        return numbers

    def wires(self, wiring: Wiring, rule: Rule | None) -> None:
        """Add connections and external events, copy by copy."""
        whole = {
            group.number: copied
            for group, copied in zip(self.groups, self.groups_of_copies, strict=True)
        }
        for k in range(self.count):
            for source, number, instance, rows, delay, plastic in wiring.calls:
                if len(number):
                    target = whole[int(number[0])]
                    index = instance + k * (len(target) // self.count)
                    change = rule if plastic.any() else None
                    numbers = self.sources(source, k)
                    inside(self.copies).connect(numbers, target, index, rows, delay, change)
            for number, instance, times, weight in wiring.outside:
                if len(number):
                    target = whole[int(number[0])]
                    index = instance + k * (len(target) // self.count)
                    self.copies.add_event(target, index, times, weight)


def copies_of(once: Network, count: int) -> Network:
    """Return `count` independent copies of a network that has each mechanism in one group."""
    network = Network(structure_of_copies(inside(once).structure, count))
    network.settings.update(once.settings)
    network.celsius, network.threshold = once.celsius, _repeated(once, count)
    wiring, added = inside(once).wiring, inside(once).added
    begins = [(0, once.num_cells)] + [(s.first, len(s)) for s in added.sources]
    begins += [(first, len(group)) for group, first in added.emitters]
    copied = CopyNumbers(
        once,
        sources=in_blocks([size for _, size in sorted(begins) if size], count),
        connections=in_blocks([len(columns[0]) for columns in wiring.calls], count),
    )
    groups = [_group(network, copied, group) for group in once.groups]
    parts = inside(network)
    parts.copy_numbers, parts.groups, parts.of_copies = copied, groups, True
    parts.added = _additions(network, copied, groups)
    parts.wiring = _wires(network, copied, wiring)
    return network


def step_of(mechanism: Mechanism, num_nodes: int) -> int:
    """Return the offset of a mechanism's nodes from one copy to the next."""
    return 0 if mechanism.kind == "artificial" else num_nodes


def _group(network: Network, copied: CopyNumbers, once: Group) -> Group:
    step = step_of(once.mechanism, copied.once.forest.num_nodes)
    makers: dict[str, Callable[[], object]] = {"nodes": Repeated(once.nodes, copied.count, step)}
    attributes = {"network": network, "number": once.number, "mechanism": once.mechanism}
    group = deferred(Group, makers, **attributes, _count=len(once) * copied.count)
    makers["parameters"] = partial(_parameters, group, Repeated(once.parameters, copied.count))
    return group


def _parameters(group: Group, values: Repeated) -> Parameters:
    return Parameters(group.network, group.mechanism.name, group.nodes, values())


def _additions(network: Network, copied: CopyNumbers, groups: list[Group]) -> Additions:
    added, copies, n = inside(copied.once).added, copied.count, copied.once.forest.num_nodes
    sizes = [len(group) for group in copied.once.groups]
    return replace(
        added,
        network=network,
        num_nodes=n * copies,
        num_sources=added.num_sources * copies,
        sources=[_sources(network, sources, n, copies) for sources in added.sources],
        emitters=[(groups[g.number], first * copies) for g, first in added.emitters],
        ions=[_ion(ion, n, copies) for ion in added.ions],
        pointers=[
            (k, name, shifted(place, sizes[k], copies), shifted(node, n, copies))
            for k, name, place, node in added.pointers
        ],
        written=[
            (k, name, shifted(here, sizes[k], copies), of, variable, shifted(at, sizes[of], copies))
            for k, name, here, of, variable, at in added.written
        ],
        plays=[
            replace(play, index=play.index + c * sizes[play.group])
            for play in added.plays
            for c in range(copies)
        ],
        streams=[
            (k, name, _streams(groups[k].mechanism, ids, copies)) for k, name, ids in added.streams
        ],
    )


def _sources(network: Network, once: Sources, num_nodes: int, copies: int) -> Sources:
    node = shifted(once.node, 0 if once.times else num_nodes, copies)
    limits = np.tile(once.threshold, copies), np.tile(once.refractory, copies)
    return Sources(network, once.first * copies, node, *limits, once.times * copies)


def _streams(mechanism: Mechanism, ids: np.ndarray, copies: int) -> np.ndarray:
    streams = np.tile(ids, (copies, 1))
    if mechanism.has_noisy_rates:
        streams[:, 1] += np.repeat(np.arange(copies, dtype=streams.dtype), len(ids))
    return streams


def _ion(once: IonValues, num_nodes: int, copies: int) -> IonValues:
    makers = {"nodes": Repeated(once.nodes, copies, num_nodes)}
    makers["values"] = Repeated(dict(once.values), copies)
    return deferred(IonValues, makers, name=once.name, valence=once.valence)


def _wires(network: Network, copied: CopyNumbers, wiring: Wiring) -> Wiring:
    """Return the connections of each `connect`, copy after copy, and external events."""
    copies, once = copied.count, copied.once
    connections, weights, events = CallColumns(), list[np.ndarray](), CallColumns()
    for source, group, index, rows, *rest in wiring.calls:
        row = np.tile(rows, (copies, 1))
        first = row[:, 0].copy() if row.shape[1] else np.zeros(len(row))
        where = _instances(once, group, index, copies)
        more = (np.tile(a, copies) for a in rest)
        connections.append((copied.sources[:, source].reshape(-1), *where, first, *more))
        weights.append(row)
    for group, index, *rest in wiring.outside:
        where = _instances(once, group, index, copies)
        events.append((*where, *(np.tile(a, copies) for a in rest)))
    return Wiring(network, connections, weights, events)


def _instances(
    once: Network, group: np.ndarray, index: np.ndarray, copies: int
) -> tuple[np.ndarray, np.ndarray]:
    size = len(once.groups[int(group[0])]) if len(group) else 0
    return np.tile(group, copies), shifted(index, size, copies)
