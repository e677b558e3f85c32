"""Copied: a network of copies of another one, of which most arrays are made only when asked for.

Copy c has cell k of the network as cell ``c * num_cells + k``, and likewise its nodes. Each group
and each set of sources has its instances copy after copy. Whatever there is of nodes and instances
is kept once; wires, of which there are few, are made for all copies.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from clhines.arrays import Deferred, Made, in_blocks, shifted
from clhines.mechanisms.mechanism import Mechanism
from clhines.network.additions import Added, IonGiven, Sources
from clhines.network.changes import Changes
from clhines.network.copies import structure_of_copies
from clhines.network.groups import Group, Parameters
from clhines.network.network import Copied, Network
from clhines.network.wiring import Columns, Wiring

Values = dict[str, "float | np.ndarray"]


def frozen(a: np.ndarray) -> np.ndarray:
    """Make an array read-only, and return it."""
    a.setflags(write=False)
    return a


def copied_nodes(mechanism: Mechanism, node: np.ndarray, num_nodes: int, copies: int) -> np.ndarray:
    """(count,) int64: nodes of all copies of instances."""
    return frozen(shifted(node, 0 if mechanism.kind == "artificial" else num_nodes, copies))


def tiled(once: np.ndarray, copies: int) -> np.ndarray:
    """Return an array of all copies."""
    return frozen(np.tile(once, copies))


def copied_values(once: Values, copies: int) -> Values:
    """Return parameters of all copies of instances."""
    return {k: tiled(v, copies) if isinstance(v, np.ndarray) else v for k, v in once.items()}


class CopiedGroup(Deferred, Group):
    """A group of all copies; `once` is that of one."""

    once: Group
    copies: int

    def __len__(self) -> int:
        return len(self.once) * self.copies

    def freeze(self) -> None:
        """Do nothing: arrays are read-only when they are made."""

    @cached_property
    def parameters(self) -> Parameters:
        """Dict of name -> float or (count,) float64."""
        values = copied_values(self.once.parameters, self.copies)
        return Parameters(self.network, self.mechanism.name, self.nodes, values)


class _IonGiven(Deferred, IonGiven):
    """What `Network.ion` would have been given of all copies."""


def copies_of(once: Network, count: int) -> Network:
    """Return copies of a network, which do not interact; nothing is to be added to it.

    Each mechanism is in one group of `once`, which is not changed any more.
    """
    network = Network(structure_of_copies(once.structure, count))
    network.settings.update(once.settings)
    network.celsius, limit = once.celsius, once.threshold
    network.threshold = np.tile(limit, count) if isinstance(limit, np.ndarray) else limit
    wiring, added = once.wiring(Changes()), once.added
    begins = [(0, once.num_cells)] + [(s.first, len(s)) for s in added.sources]
    begins += [(first, len(group)) for group, first in added.emitters]
    copied = Copied(
        once,
        sources=in_blocks([size for _, size in sorted(begins) if size], count),
        connections=in_blocks([len(columns[0]) for columns in wiring.given], count),
    )
    groups = [_group(network, copied, group) for group in once.groups]
    network.take_copies(
        copied, groups, _additions(network, copied, groups), _wires(network, copied, wiring)
    )
    return network


def _group(network: Network, copied: Copied, once: Group) -> Group:
    how = once.mechanism, once.nodes, copied.once.forest.num_nodes, copied.count
    made = {"nodes": partial(copied_nodes, *how)}
    return CopiedGroup(
        made, network=network, number=once.number, mechanism=once.mechanism, once=once,
        copies=copied.count,
    )  # fmt: skip


def _additions(network: Network, copied: Copied, groups: list[Group]) -> Added:
    """Return all that was added to one copy, for all."""
    added, copies, n = copied.once.added, copied.count, copied.once.forest.num_nodes
    sizes = [len(group) for group in copied.once.groups]
    return replace(
        added,
        network=network,
        num_nodes=n * copies,
        num_sources=added.num_sources * copies,
        sources=[
            Sources(
                network, one.first * copies, shifted(one.node, 0 if one.times else n, copies),
                np.tile(one.threshold, copies), one.times * copies,
            )
            for one in added.sources
        ],
        emitters=[(groups[g.number], first * copies) for g, first in added.emitters],
        ions=[_ion(ion, n, copies) for ion in added.ions],
        pointers=[
            (k, name, shifted(place, sizes[k], copies), shifted(node, n, copies))
            for k, name, place, node in added.pointers
        ],
        plays=[
            replace(play, index=play.index + c * sizes[play.group])
            for play in added.plays
            for c in range(copies)
        ],
        streams=[(k, name, np.tile(ids, (copies, 1))) for k, name, ids in added.streams],
    )  # fmt: skip


def _ion(once: IonGiven, num_nodes: int, copies: int) -> IonGiven:
    nodes = partial(shifted, once.nodes, num_nodes, copies)
    made: Made = {"nodes": nodes, "values": partial(copied_values, dict(once.values), copies)}
    return _IonGiven(made, name=once.name, valence=once.valence)


def _wires(network: Network, copied: Copied, wiring: Wiring) -> Wiring:
    """Return all connections, of one `connect` copy after copy, and events from outside."""
    copies, once = copied.count, copied.once
    connections, weights, events = Columns(), list[np.ndarray](), Columns()
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
    """Group and instance in all copies of instances of one group."""
    size = len(once.groups[int(group[0])]) if len(group) else 0
    return np.tile(group, copies), shifted(index, size, copies)
