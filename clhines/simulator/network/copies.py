"""Copies of a network in one: what `Simulation.replicate` and `Population` simulate.

Copy c has cell k of the network as cell ``c * num_cells + k``, and likewise its nodes. Each group
and each set of sources has its instances copy after copy. `fill` makes all arrays; those of
`copies_of` are made only when asked for: whatever there is of nodes and instances is kept once, and
wires, of which there are few, are made for all copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from clhines.core.arrays import Deferred, Makers, in_blocks, place_of, repeated_parents, shifted
from clhines.core.checks import check_room
from clhines.core.errors import InputError
from clhines.simulator.cells.cable import Axis
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.network.additions import Added, IonGiven, Sources
from clhines.simulator.network.groups import Group, Parameters, inside
from clhines.simulator.network.network import Copied, Network
from clhines.simulator.network.plasticity import Rule
from clhines.simulator.network.stored import put_group
from clhines.simulator.network.structure import Structure
from clhines.simulator.network.wiring import CallColumns, Wiring
from clhines.solver.forest import Forest

Stream = tuple[int, str, np.ndarray]
NamedValues = dict[str, "float | np.ndarray"]
_NODE_BYTES, _CELL_BYTES = 8, 32  # that a forest of copies takes, `parent` included


class CopiedForest(Forest):
    """Copies of a forest, one after another, which are neither analysed nor checked again."""

    def __init__(self, once: Forest, count: int) -> None:
        nodes, cells = once.num_nodes * count, once.num_cells * count
        check_room(_NODE_BYTES * nodes + _CELL_BYTES * cells, f"{cells} cells")
        self._parents = partial(repeated_parents, once.parent, nodes)
        begins = shifted(once.cell_offsets[:-1], once.num_nodes, count)
        self.cell_offsets = np.append(begins, nodes)
        self.shape_of_cell, self.trees = np.tile(once.shape_of_cell, count), once.trees
        self._freeze()


def structure_of_copies(structure: Structure, count: int) -> Structure:
    forest, turns = structure.forest, structure.turns
    in_turn = range(len(structure.area)) if turns % len(structure.area) == 0 else range(turns)

    def taken(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [arrays[k % len(arrays)] for k in in_turn]

    cables, axis, around = structure.cables, structure.given_axis, structure.around
    return Structure(
        forest=CopiedForest(forest, count),
        soma=shifted(structure.soma, forest.num_nodes, count),
        cables=tuple(cables[k % len(cables)] for k in in_turn) if cables else (),
        turns=turns * count,
        area=taken(structure.area),
        capacitance=taken(structure.capacitance),
        g_axial=taken(structure.g_axial),
        g_total=taken(structure.g_total),
        in_soma=taken(structure.in_soma),
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
    """Give copies of a network everything that is in it; return groups in the order of those given.

    Several `groups` may be parts of one; `instances` are those of each. All `streams` are given,
    else those of copies would get other numbers.
    """
    if inside(network).gids is not None:
        raise InputError("copies of a network with gids; expected one without")
    if instances is None:
        instances = [np.arange(len(group)) for group in groups]
    filling = _Filling(copies, network, groups, instances)
    copies.celsius, copies.threshold = network.celsius, _repeated(network, filling.count)
    inside(copies).of_copies = filling.count > 1
    filling.groups_and_sources()
    filling.additions(streams)
    filling.wires(wiring, rule)
    return filling.found


def _repeated(network: Network, copies: int) -> float | np.ndarray:
    limit = network.threshold
    return np.tile(limit, copies) if isinstance(limit, np.ndarray) else limit


class _Filling:
    """Puts into copies of a network what is in it."""

    def __init__(
        self,
        copies: Network,
        network: Network,
        groups: Sequence[Group],
        instances: Sequence[np.ndarray],
    ) -> None:
        self.copies, self.network, self.groups, self.instances = copies, network, groups, instances
        self.count = copies.num_cells // network.num_cells
        self.found: list[Group] = []
        self._begins: list[tuple[int, int, int]] = []  # first source there, how many, first here

    def _nodes(self, nodes: np.ndarray) -> np.ndarray:
        return shifted(nodes, self.network.forest.num_nodes, self.count)

    def groups_and_sources(self) -> None:
        """Put in all groups, detectors and trains, sources in the order of their numbers."""
        added = inside(self.network).added
        own = {group.number: first for group, first in added.emitters}
        waiting = sorted(added.sources, key=lambda one: one.first)
        for group in self.groups:
            first = own.get(group.number)
            while waiting and first is not None and waiting[0].first < first:
                self._source(waiting.pop(0))
            self._group(group, first)
        for sources in waiting:
            self._source(sources)

    def _source(self, sources: Sources) -> None:
        if sources.times or not len(sources):
            put = self.copies.spike_source(sources.times * self.count)
        else:
            given = (np.tile(a, self.count) for a in (sources.threshold, sources.refractory))
            put = self.copies.add_detector(self._nodes(sources.node), *given)
        self._begins.append((sources.first, len(sources), put.first))

    def _group(self, group: Group, first: int | None) -> None:
        mechanism, values = group.mechanism, copied_values(group.parameters, self.count)
        for name in ("celsius", "area"):  # these are given by the network
            if name in mechanism.program.built_in:
                values.pop(name, None)
        alone = mechanism.kind == "artificial"
        nodes = np.full(len(group) * self.count, -1) if alone else self._nodes(group.nodes)
        put = put_group(self.copies, mechanism, nodes, values)
        self.found.append(put)
        if first is not None:
            here = int(self.copies.source_numbers(put)[0]) if len(put) else 0
            self._begins.append((first, len(group), here))

    def _pieces(
        self, number: int, instance: np.ndarray
    ) -> Iterator[tuple[Group, np.ndarray, np.ndarray]]:
        """Yield pieces of a group in the copies, which of `instance` they have, and as which."""
        for group, put, own in zip(self.groups, self.found, self.instances, strict=True):
            if group.number == number:
                at = place_of(own, instance, np.arange(len(own)))
                if (at >= 0).any():
                    yield put, np.flatnonzero(at >= 0), shifted(at[at >= 0], len(own), self.count)

    def additions(self, streams: Sequence[Stream]) -> None:
        added, copies, count = inside(self.network).added, self.copies, self.count
        inside(copies).added.exact, inside(copies).added.bins = added.exact, added.bins
        for ion in added.ions:
            values = {k: np.tile(v, count) for k, v in ion.values.items()}
            copies.ion(ion.name, self._nodes(ion.nodes), ion.valence, **values)
        for number, name, places, node in added.pointers:
            for put, some, index in self._pieces(number, places):
                copies.set_pointer(put, name, self._nodes(node[some]), index)
        for number, name, places, of, variable, at in added.written:
            for put, some, index in self._pieces(number, places):
                for other, among, there in self._pieces(of, at[some]):
                    own = index.reshape(self.count, -1)[:, among].reshape(-1)
                    copies.set_pointer(put, name, (other, variable, there), own)
        for play in added.plays:
            for put, _, index in self._pieces(play.group, np.array([play.index])):
                for one in index.tolist():
                    put_there = put, one, play.parameter, play.t, play.y, play.continuous
                    inside(copies).added.play(*put_there, play.after_events)
        for number, name, ids in streams:
            for put, some, _ in self._pieces(number, np.arange(len(ids))):
                ids_there = _streams(put.mechanism, ids[some], count)
                copies.random(put, name, ids_there, added.random_index)

    def sources(self, source: np.ndarray, k: int) -> np.ndarray:
        found = source + k * self.network.num_cells
        for first, length, here in self._begins:
            mine = (source >= first) & (source < first + length)
            found[mine] = here + k * length + (source[mine] - first)
        return found

    def wires(self, wiring: Wiring, rule: Rule | None) -> None:
        """Connect everything, and send the events from outside, copy by copy."""
        whole = {group.number: put for group, put in zip(self.groups, self.found, strict=True)}
        for k in range(self.count):
            for source, number, instance, rows, delay, plastic in wiring.given:
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


def frozen(a: np.ndarray) -> np.ndarray:
    a.setflags(write=False)
    return a


def copied_nodes(mechanism: Mechanism, node: np.ndarray, num_nodes: int, copies: int) -> np.ndarray:
    return frozen(shifted(node, 0 if mechanism.kind == "artificial" else num_nodes, copies))


def tiled(once: np.ndarray, copies: int) -> np.ndarray:
    return frozen(np.tile(once, copies))


def copied_values(once: NamedValues, copies: int) -> NamedValues:
    return {k: tiled(v, copies) if isinstance(v, np.ndarray) else v for k, v in once.items()}


class CopiedGroup(Deferred, Group):
    once: Group
    copies: int

    def __len__(self) -> int:
        return len(self.once) * self.copies

    def freeze(self) -> None:
        """Do nothing: arrays are read-only when they are made."""

    @cached_property
    def parameters(self) -> Parameters:
        values = copied_values(self.once.parameters, self.copies)
        return Parameters(self.network, self.mechanism.name, self.nodes, values)


class _RepeatedIon(Deferred, IonGiven):
    """`IonGiven` of all copies."""


def copies_of(once: Network, count: int) -> Network:
    """Return copies, which do not interact, of a network with each mechanism in one group."""
    network = Network(structure_of_copies(inside(once).structure, count))
    network.settings.update(once.settings)
    network.celsius, network.threshold = once.celsius, _repeated(once, count)
    wiring, added = inside(once).wiring, inside(once).added
    begins = [(0, once.num_cells)] + [(s.first, len(s)) for s in added.sources]
    begins += [(first, len(group)) for group, first in added.emitters]
    copied = Copied(
        once,
        sources=in_blocks([size for _, size in sorted(begins) if size], count),
        connections=in_blocks([len(columns[0]) for columns in wiring.given], count),
    )
    groups = [_group(network, copied, group) for group in once.groups]
    made = inside(network)
    made.copied, made.groups, made.of_copies = copied, groups, True
    made.added = _additions(network, copied, groups)
    made.wiring = _wires(network, copied, wiring)
    return network


def _group(network: Network, copied: Copied, once: Group) -> Group:
    how = once.mechanism, once.nodes, copied.once.forest.num_nodes, copied.count
    made = {"nodes": partial(copied_nodes, *how)}
    return CopiedGroup(
        made, network=network, number=once.number, mechanism=once.mechanism, once=once,
        copies=copied.count,
    )  # fmt: skip


def _additions(network: Network, copied: Copied, groups: list[Group]) -> Added:
    added, copies, n = inside(copied.once).added, copied.count, copied.once.forest.num_nodes
    sizes = [len(group) for group in copied.once.groups]
    return replace(
        added,
        network=network,
        num_nodes=n * copies,
        num_sources=added.num_sources * copies,
        sources=[
            Sources(
                network, one.first * copies, shifted(one.node, 0 if one.times else n, copies),
                np.tile(one.threshold, copies), np.tile(one.refractory, copies),
                one.times * copies,
            )
            for one in added.sources
        ],
        emitters=[(groups[g.number], first * copies) for g, first in added.emitters],
        ions=[_ion(ion, n, copies) for ion in added.ions],
        pointers=[
            (k, name, shifted(place, sizes[k], copies), shifted(node, n, copies))
            for k, name, place, node in added.pointers
        ],
        written=[
            (k, name, shifted(own, sizes[k], copies), of, variable, shifted(at, sizes[of], copies))
            for k, name, own, of, variable, at in added.written
        ],
        plays=[
            replace(play, index=play.index + c * sizes[play.group])
            for play in added.plays
            for c in range(copies)
        ],
        streams=[
            (k, name, _streams(groups[k].mechanism, ids, copies)) for k, name, ids in added.streams
        ],
    )  # fmt: skip


def _streams(mechanism: Mechanism, ids: np.ndarray, copies: int) -> np.ndarray:
    found = np.tile(ids, (copies, 1))
    if mechanism.has_noisy_rates:
        found[:, 1] += np.repeat(np.arange(copies, dtype=found.dtype), len(ids))
    return found


def _ion(once: IonGiven, num_nodes: int, copies: int) -> IonGiven:
    nodes = partial(shifted, once.nodes, num_nodes, copies)
    made: Makers = {"nodes": nodes, "values": partial(copied_values, dict(once.values), copies)}
    return _RepeatedIon(made, name=once.name, valence=once.valence)


def _wires(network: Network, copied: Copied, wiring: Wiring) -> Wiring:
    """Return all connections, of one `connect` copy after copy, and events from outside."""
    copies, once = copied.count, copied.once
    connections, weights, events = CallColumns(), list[np.ndarray](), CallColumns()
    for source, group, index, rows, *rest in wiring.given:
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
