"""Copied: a network of copies of another one, of which most arrays are made only when asked for.

Copy c has cell k of the network as cell ``c * num_cells + k``, and likewise its nodes. Each group
and each set of sources has its instances copy after copy. Whatever there is of nodes and instances
is kept once; wires, of which there are few, are made for all copies.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from clhines.arrays import in_blocks, shifted
from clhines.network.additions import Added, IonGiven, PlayGiven, Sources
from clhines.network.changes import Changes
from clhines.network.copies import structure_of_copies
from clhines.network.groups import Group, Parameters
from clhines.network.network import Network
from clhines.network.wiring import Columns, Wiring


def frozen(a: np.ndarray) -> np.ndarray:
    """Make an array read-only, and return it."""
    a.setflags(write=False)
    return a


class CopiedGroup(Group):
    """A group of all copies.

    Parameters
    ----------
    once : Group
        Of one copy.
    num_nodes : int
        Of one copy.
    """

    def __init__(self, network: Network, once: Group, copies: int, num_nodes: int) -> None:
        own = vars(self)
        own["network"], own["number"], own["mechanism"] = network, once.number, once.mechanism
        self._shape: tuple[Group, int, int]
        own["_shape"] = once, copies, num_nodes

    def __len__(self) -> int:
        return len(self._shape[0]) * self._shape[1]

    @cached_property
    def nodes(self) -> np.ndarray:
        """(count,) int64."""
        once, copies, num_nodes = self._shape
        step = 0 if self.mechanism.kind == "artificial" else num_nodes
        return frozen(shifted(once.nodes, step, copies))

    @cached_property
    def parameters(self) -> Parameters:
        """Dict of name -> float or (count,) float64."""
        once, copies, _ = self._shape
        values = {
            k: frozen(np.tile(v, copies)) if isinstance(v, np.ndarray) else v
            for k, v in once.parameters.items()
        }
        return Parameters(self.network, self.mechanism.name, self.nodes, values)


class _IonGiven(IonGiven):
    """What `Additions.ion` would have been given of all copies."""

    def __init__(self, once: IonGiven, copies: int, num_nodes: int) -> None:
        own = vars(self)
        own["name"], own["valence"] = once.name, once.valence
        self._shape: tuple[IonGiven, int, int]
        own["_shape"] = once, copies, num_nodes

    @cached_property
    def nodes(self) -> np.ndarray:
        once, copies, num_nodes = self._shape
        return shifted(once.nodes, num_nodes, copies)

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        once, copies, _ = self._shape
        return {k: np.tile(v, copies) for k, v in once.values.items()}


class CopiedNetwork(Network):
    """Copies of a network, which do not interact; nothing is added to it.

    Parameters
    ----------
    once : Network
        Of which each mechanism is in one group; it is not changed any more.
    """

    def __init__(self, once: Network, copies: int) -> None:
        super().__init__(structure_of_copies(once.structure, copies))
        self._once, self._copies = once, copies
        self.settings.update(once.settings)
        self.celsius, limit = once.celsius, once.threshold
        self.threshold = np.tile(limit, copies) if isinstance(limit, np.ndarray) else limit
        n = once.forest.num_nodes
        self._groups = [CopiedGroup(self, group, copies, n) for group in once.groups]
        self._added = self._copied_additions(once.added)
        self._wiring = self._copied_wiring(once.wiring(Changes()))

    @property
    def once(self) -> Network:
        """The network of which these are copies."""
        return self._once

    @property
    def copies(self) -> int:
        """How many there are."""
        return self._copies

    def freeze(self) -> None:
        """Refuse all changes from now on; arrays that are made later are read-only, too."""
        self._frozen = True

    def _copied_additions(self, added: Added) -> Added:
        copies, n = self._copies, self._once.forest.num_nodes
        sizes = [len(group) for group in self._once.groups]
        return Added(
            num_sources=added.num_sources * copies,
            sources=[self._copied_sources(one) for one in added.sources],
            emitters=[(self._groups[g.number], first * copies) for g, first in added.emitters],
            ions=[_IonGiven(ion, copies, n) for ion in added.ions],
            pointers=[
                (k, name, shifted(place, sizes[k], copies), shifted(node, n, copies))
                for k, name, place, node in added.pointers
            ],
            plays=[
                PlayGiven(p.group, p.index + c * sizes[p.group], p.parameter, p.t, p.y,
                          p.continuous)
                for p in added.plays
                for c in range(copies)
            ],
            streams=[(k, name, np.tile(ids, (copies, 1))) for k, name, ids in added.streams],
            random_index=added.random_index,
            bins=added.bins,
            exact=added.exact,
        )  # fmt: skip

    def _copied_sources(self, one: Sources) -> Sources:
        copies, n = self._copies, self._once.forest.num_nodes
        node = shifted(one.node, 0 if one.times else n, copies)
        return Sources(
            self, one.first * copies, node, np.tile(one.threshold, copies), one.times * copies
        )

    def _copied_wiring(self, wiring: Wiring) -> Wiring:
        """Return all connections, of one `connect` copy after copy, and events from outside."""
        copies, sizes = self._copies, [len(group) for group in self._once.groups]
        connections: Columns = []
        weights, events = list[np.ndarray](), Columns()
        for source, group, index, rows, delay, plastic in wiring.given:
            where = shifted(index, sizes[int(group[0])] if len(group) else 0, copies)
            row = np.tile(rows, (copies, 1))
            first = row[:, 0].copy() if row.shape[1] else np.zeros(len(row))
            rest = (np.tile(a, copies) for a in (delay, plastic))
            connections.append(
                (self.sources_of(source), np.tile(group, copies), where, first, *rest)
            )
            weights.append(row)
        for group, index, time, weight in wiring.outside:
            where = shifted(index, sizes[int(group[0])] if len(group) else 0, copies)
            rest = (np.tile(a, copies) for a in (time, weight))
            events.append((np.tile(group, copies), where, *rest))
        return Wiring(self, connections, weights, events)

    def sources_of(self, source: np.ndarray) -> np.ndarray:
        """Return the numbers of sources of one copy in all copies, copy after copy."""
        added, cells = self._once.added, self._once.num_cells
        begins = [(0, cells)] + [(s.first, len(s)) for s in added.sources]
        begins += [(first, len(group)) for group, first in added.emitters]
        sizes = [size for _, size in sorted(begins) if size]
        return in_blocks(sizes, self._copies)[:, source].reshape(-1)

    def connections_of(self) -> np.ndarray:
        """Return numbers of the connections of one copy in all copies, (copies, m) int64."""
        given = self._once.wiring(Changes()).given
        return in_blocks([len(columns[0]) for columns in given], self._copies)
