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
from clhines.network.network import Network
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


class CopiedNetwork(Network):
    """Copies of a network, which do not interact; nothing is added to it.

    Parameters
    ----------
    once : Network
        Of which each mechanism is in one group; it is not changed any more.
    copies : int

    Attributes
    ----------
    copies : int
    """

    def __init__(self, once: Network, copies: int) -> None:
        super().__init__(structure_of_copies(once.structure, copies))
        self._once, self._copies = once, copies
        self.settings.update(once.settings)
        self.celsius, limit = once.celsius, once.threshold
        self.threshold = np.tile(limit, copies) if isinstance(limit, np.ndarray) else limit
        groups = [self._group_of(group) for group in once.groups]
        self.take_all(groups, self._additions(groups), self._wires())

    @property
    def once(self) -> Network:
        """The network of which these are copies."""
        return self._once

    @property
    def copies(self) -> int:
        """How many there are."""
        return self._copies

    def _group_of(self, once: Group) -> Group:
        how = once.mechanism, once.nodes, self._once.forest.num_nodes, self._copies
        made = {"nodes": partial(copied_nodes, *how)}
        return CopiedGroup(
            made, network=self, number=once.number, mechanism=once.mechanism, once=once,
            copies=self._copies,
        )  # fmt: skip

    def _additions(self, groups: list[Group]) -> Added:
        """Return all that was added to one copy, for all."""
        added, copies, n = self._once.added, self._copies, self._once.forest.num_nodes
        sizes = [len(group) for group in self._once.groups]
        return replace(
            added,
            num_sources=added.num_sources * copies,
            sources=[
                Sources(
                    self, one.first * copies, shifted(one.node, 0 if one.times else n, copies),
                    np.tile(one.threshold, copies), one.times * copies,
                )
                for one in added.sources
            ],
            emitters=[(groups[g.number], first * copies) for g, first in added.emitters],
            ions=[self._ion(ion) for ion in added.ions],
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

    def _ion(self, once: IonGiven) -> IonGiven:
        nodes = partial(shifted, once.nodes, self._once.forest.num_nodes, self._copies)
        made: Made = {
            "nodes": nodes,
            "values": partial(copied_values, dict(once.values), self._copies),
        }
        return _IonGiven(made, name=once.name, valence=once.valence)

    def _wires(self) -> Wiring:
        """Return all connections, of one `connect` copy after copy, and events from outside."""
        copies, wiring = self._copies, self._once.wiring(Changes())
        connections, weights, events = Columns(), list[np.ndarray](), Columns()
        for source, group, index, rows, *rest in wiring.given:
            row = np.tile(rows, (copies, 1))
            first = row[:, 0].copy() if row.shape[1] else np.zeros(len(row))
            more = [np.tile(a, copies) for a in rest]
            of, place = self._instances_of(group, index)
            connections.append((self.sources_of(source), of, place, first, *more))
            weights.append(row)
        for group, index, *rest in wiring.outside:
            more = [np.tile(a, copies) for a in rest]
            events.append((*self._instances_of(group, index), *more))
        return Wiring(self, connections, weights, events)

    def _instances_of(self, group: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Group and instance in all copies of instances of one group."""
        size = len(self._once.groups[int(group[0])]) if len(group) else 0
        return np.tile(group, self._copies), shifted(index, size, self._copies)

    def sources_of_each(self) -> np.ndarray:
        """Return numbers of the sources of each copy, (copies, num_sources) int64."""
        added = self._once.added
        begins = [(0, self._once.num_cells)] + [(s.first, len(s)) for s in added.sources]
        begins += [(first, len(group)) for group, first in added.emitters]
        return in_blocks([size for _, size in sorted(begins) if size], self._copies)

    def sources_of(self, source: np.ndarray) -> np.ndarray:
        """Return the numbers of sources of one copy in all copies, copy after copy."""
        return self.sources_of_each()[:, source].reshape(-1)

    def connections_of(self) -> np.ndarray:
        """Return numbers of the connections of one copy in all copies, (copies, m) int64."""
        given = self._once.wiring(Changes()).given
        return in_blocks([len(columns[0]) for columns in given], self._copies)
