"""Copies of a network in one network, for `Simulation.replicate`, `Population` and importers.

The network's cell k is cell ``c * num_cells + k`` in copy c; nodes likewise. Each group and each
set of sources has its instances copy after copy.

`copies_of` makes equal copies. `changed_copies` makes copies with other parameters, weights and
external events than the network's, or copies of parts of its groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from clhines.core.arrays import place_of, shifted, starts
from clhines.core.checks import check_room
from clhines.simulator.cells.cable import Axis
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.network.additions import Additions, IonValues, Sources
from clhines.simulator.network.groups import Group, Parameters, inside
from clhines.simulator.network.network import Network
from clhines.simulator.network.structure import Structure
from clhines.simulator.network.wiring import CallColumns, Wiring

Stream = tuple[int, str, np.ndarray]
_COPY_BYTES = 1000  # or more, for each node of copies in a simulation


def structure_of_copies(structure: Structure, count: int) -> Structure:
    forest, turns = structure.forest, structure.turns
    order = range(len(structure.area)) if turns % len(structure.area) == 0 else range(turns)

    def in_turns(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [arrays[k % len(arrays)] for k in order]

    cables, axis, around = structure.cables, structure.given_axis, structure.around
    names = "area", "capacitance", "g_axial", "g_total", "in_soma"
    return replace(
        structure,
        forest=forest.copied(count),
        soma=shifted(structure.soma, forest.num_nodes, count),
        cables=tuple(cables[k % len(cables)] for k in order) if cables else (),
        turns=turns * count,
        **{name: in_turns(getattr(structure, name)) for name in names},
        given_axis=None if axis is None else Axis.joined([axis] * count),
        around=None if around is None else around.copied(count),
    )


def copies_of(once: Network, count: int) -> Network:
    """Return `count` equal copies of a network."""
    nodes = once.forest.num_nodes * count
    check_room(_COPY_BYTES * nodes, f"copies of a network with {nodes} nodes")
    network, parts = Network(structure_of_copies(inside(once).structure, count)), inside(once)
    network.settings.update(once.settings)
    _Copier(once, network, count, once.groups).copy(
        parts.wiring, parts.added.streams, np.arange(count)[None]
    )
    return network


def changed_copies(
    once: Network,
    count: int,
    groups: Sequence[Group],
    wiring: Wiring,
    streams: Sequence[Stream],
    instances: Sequence[np.ndarray] | None = None,
    branched_from: Network | None = None,
) -> Network:
    """Return `count` copies of the network `once`, with other parameters, connections or events.

    `groups` are one copy's groups: the groups of `once`, perhaps with other parameters, or some
    instances of these groups, whose indices are in `instances`. `wiring` has one copy's connections
    and events, and `streams` all random streams, because default numbers differ between copies. The
    copies' connections and events come one copy after another.
    """
    network = Network(structure_of_copies(inside(once).structure, count), None, branched_from)
    turns = np.arange(count)[:, None]
    _Copier(once, network, count, groups, instances).copy(wiring, streams, turns)
    return network


def source_sizes(network: Network) -> list[int]:
    """Return the cell count, then the source count for each call that added sources, in order."""
    added = inside(network).added
    sets = [(s.first, len(s)) for s in added.sources]
    sets += [(first, len(group)) for group, first in added.emitters]
    return [network.num_cells, *(size for _, size in sorted(sets) if size)]


@dataclass(frozen=True, eq=False)
class _Copier:
    """Copy everything but cells from the network `once` to `network`, `count` times.

    `groups` are one copy's groups, see `changed_copies`.
    """

    once: Network
    network: Network
    count: int
    groups: Sequence[Group]
    instances: Sequence[np.ndarray] | None = None

    def copy(self, wiring: Wiring, streams: Sequence[Stream], turns: np.ndarray) -> None:
        """Copy everything but cells, for the copies numbered `turns`, (rows, copies in a row).

        New connections come row by row; in a row, call by call of `connect`, copy by copy.
        """
        threshold, parts = self.once.threshold, inside(self.network)
        if isinstance(threshold, np.ndarray):
            threshold = np.tile(threshold, self.count)
        self.network.threshold, self.network.celsius = threshold, self.once.celsius
        parts.of_copies = self.count > 1
        parts.groups = [self._group(number, group) for number, group in enumerate(self.groups)]
        parts.added = self._additions(parts.groups, streams)
        parts.wiring = self._wiring(parts.groups, wiring, turns)

    def _group(self, number: int, once: Group) -> Group:
        mechanism = once.mechanism
        step = 0 if mechanism.kind == "artificial" else self.once.forest.num_nodes
        nodes = shifted(once.nodes, step, self.count)
        nodes.setflags(write=False)
        values = {
            name: np.tile(value, self.count) if isinstance(value, np.ndarray) else value
            for name, value in once.parameters.items()
        }
        by_network = {"celsius", "area"} & {*mechanism.program.built_in}
        names = [name for name in once.given if name not in by_network]
        about = inside(self.network), mechanism.name, nodes
        parameters = Parameters(*about, values, names, mechanism.units)
        return Group(self.network, number, mechanism, nodes, parameters)

    def _parts(
        self, groups: Sequence[Group], number: int, instance: np.ndarray
    ) -> Iterator[tuple[Group, np.ndarray, np.ndarray]]:
        """Yield the copied groups that have any of the instances `instance` of group `number`.

        With each of the copied `groups` come its instances' positions in `instance`, and their
        numbers in all copies.
        """
        for k, (once, copied) in enumerate(zip(self.groups, groups, strict=True)):
            if once.number == number:
                at = instance
                if self.instances is not None:
                    members = self.instances[k]
                    at = place_of(members, instance, np.arange(len(members)))
                chosen = np.flatnonzero(at >= 0)
                if len(chosen):
                    yield copied, chosen, shifted(at[chosen], len(once), self.count)

    def _additions(self, groups: Sequence[Group], streams: Sequence[Stream]) -> Additions:
        added, count, n = inside(self.once).added, self.count, self.once.forest.num_nodes
        copied = {once.number: group for once, group in zip(self.groups, groups, strict=True)}
        parts = partial(self._parts, groups)
        return replace(
            added,
            network=self.network,
            num_nodes=n * count,
            num_sources=added.num_sources * count,
            sources=[self._sources(sources) for sources in added.sources],
            emitters=[  # an empty group has no parts
                (copied[g.number], first * count)
                for g, first in added.emitters
                if g.number in copied
            ],
            ions=[_ion(ion, n, count) for ion in added.ions],
            pointers=[
                (group.number, name, index, shifted(node[chosen], n, count))
                for number, name, instance, node in added.pointers
                for group, chosen, index in parts(number, instance)
            ],
            written=[
                (group.number, name, index.reshape(count, -1)[:, among].reshape(-1), *where)
                for number, name, instance, of, variable, at in added.written
                for group, chosen, index in parts(number, instance)
                for other, among, there in parts(of, at[chosen])
                for where in [(other.number, variable, there)]
            ],
            steered=[],  # not supported: such a POINTER stays unset, which is refused
            plays=[
                replace(play, group=group.number, index=one)
                for play in added.plays
                for group, _, index in parts(play.group, np.array([play.index]))
                for one in index.tolist()
            ],
            streams=[
                (group.number, name, _streams(group.mechanism, ids[chosen], count))
                for number, name, ids in streams
                for group, chosen, _ in parts(number, np.arange(len(ids)))
            ],
            last={
                group.number: int(index[0])
                for number, instance in added.last.items()
                for group, _, index in parts(number, np.array([instance]))
            },
        )

    def _sources(self, once: Sources) -> Sources:
        node = shifted(once.node, 0 if once.times else self.once.forest.num_nodes, self.count)
        limits = np.tile(once.threshold, self.count), np.tile(once.refractory, self.count)
        first, times = once.first * self.count, once.times * self.count
        return Sources(self.network, first, node, *limits, times)

    def _wiring(self, groups: Sequence[Group], wiring: Wiring, turns: np.ndarray) -> Wiring:
        copied = {once.number: group for once, group in zip(self.groups, groups, strict=True)}
        sources = in_blocks(source_sizes(self.once), self.count)
        calls, events = CallColumns(), CallColumns()

        def targeted(
            turn: np.ndarray, number: np.ndarray, index: np.ndarray, *rest: np.ndarray
        ) -> tuple[np.ndarray, ...]:
            """Return columns (group, instance, ...) of connections or events for copies `turn`."""
            if len(number):
                group = copied[int(number[0])]
                index = (index + len(group) // self.count * turn[:, None]).reshape(-1)
                number = np.broadcast_to(np.int64(group.number), len(index))
            return number, index, *(_tiled(values, len(turn)) for values in rest)

        for turn in turns:
            for source, *columns in wiring.calls:
                numbers = sources[turn][:, source].reshape(-1)
                calls.append((numbers, *targeted(turn, *columns)))
            events += [targeted(turn, *columns) for columns in wiring.outside]
        return Wiring(self.network, calls, events, wiring.rule)


def _tiled(values: np.ndarray, count: int) -> np.ndarray:
    return values if count == 1 else np.tile(values, (count, *[1] * (values.ndim - 1)))


def _streams(mechanism: Mechanism, ids: np.ndarray, copies: int) -> np.ndarray:
    streams = np.tile(ids, (copies, 1))
    if mechanism.has_noisy_rates:
        streams[:, 1] += np.repeat(np.arange(copies, dtype=streams.dtype), len(ids))
    return streams


def _ion(once: IonValues, num_nodes: int, copies: int) -> IonValues:
    values = {name: np.tile(value, copies) for name, value in once.values.items()}
    return replace(once, nodes=shifted(once.nodes, num_nodes, copies), values=values)


def in_blocks(sizes: np.ndarray | Sequence[int], copies: int) -> np.ndarray:
    """Return the index of each item in each copy of a network, (copies, m) int64.

    A copy's m items are in blocks of `sizes`. All copies of the first block come first, then all
    copies of the second: ``in_blocks([2, 1], 2)`` is ``[[0, 1, 4], [2, 3, 5]]``.
    """
    each = np.asarray(sizes, np.int64)
    base = np.arange(int(each.sum())) + np.repeat(starts(each) * (copies - 1), each)
    return base + np.repeat(each, each) * np.arange(copies)[:, None]
