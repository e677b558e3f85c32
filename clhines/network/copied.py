"""Copied: a network of copies of another one, of which most arrays are made only when asked for.

Copy c has cell k of the network as cell ``c * num_cells + k``, and likewise its nodes. Each group
and each set of sources has its instances copy after copy. Whatever there is of nodes and instances
is kept once; wires, of which there are few, are made for all copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from clhines.arrays import in_blocks, shifted
from clhines.network.additions import Added, IonGiven, PlayGiven, Sources
from clhines.network.changes import Changes
from clhines.network.copies import structure_of_copies
from clhines.network.extend import extended_of
from clhines.network.extended import Extended, IonNodes
from clhines.network.groups import Group, Parameters
from clhines.network.model import Kind, Model
from clhines.network.network import Network
from clhines.network.wiring import Columns, Wiring


def _frozen(a: np.ndarray) -> np.ndarray:
    a.setflags(write=False)
    return a


class CopiedGroup(Group):
    """A group of all copies.

    Parameters
    ----------
    network : Network
    once : Group
        Of one copy.
    copies : int
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
        return _frozen(shifted(once.nodes, step, copies))

    @cached_property
    def parameters(self) -> Parameters:
        """Dict of name -> float or (count,) float64."""
        once, copies, _ = self._shape
        values = {
            k: _frozen(np.tile(v, copies)) if isinstance(v, np.ndarray) else v
            for k, v in once.parameters.items()
        }
        return Parameters(self.network, self.mechanism.name, self.nodes, values)


class CopiedKind(Kind):
    """A kind of all copies.

    Parameters
    ----------
    once : Kind
    copies : int
    num_nodes : int
        Of one copy.
    """

    def __init__(self, once: Kind, copies: int, num_nodes: int) -> None:
        own, first = vars(self), once.first_target
        own["mechanism"], own["first_target"] = once.mechanism, first * copies if first >= 0 else -1
        own["first_instance"] = once.first_instance * copies
        self._shape: tuple[Kind, int, int]
        own["_shape"] = once, copies, num_nodes

    @property
    def count(self) -> int:
        """Number of instances."""
        return self._shape[0].count * self._shape[1]

    def is_single(self, name: str) -> bool:
        """Whether a parameter is one number for all instances."""
        return self._shape[0].is_single(name)

    @cached_property
    def node(self) -> np.ndarray:
        """(count,) int64."""
        once, copies, num_nodes = self._shape
        step = 0 if self.mechanism.kind == "artificial" else num_nodes
        return _frozen(shifted(once.node, step, copies))

    @cached_property
    def parameters(self) -> dict[str, float | np.ndarray]:
        """Dict of name -> float or (count,) float64."""
        once, copies, _ = self._shape
        return {
            k: _frozen(np.tile(v, copies)) if isinstance(v, np.ndarray) else v
            for k, v in once.parameters.items()
        }

    @cached_property
    def factor(self) -> np.ndarray:
        """(count,) float64."""
        return _frozen(np.tile(self._shape[0].factor, self._shape[1]))


class CopiedIon(IonNodes):
    """An ion of all copies.

    Parameters
    ----------
    once : IonNodes
    copies : int
    num_nodes : int
        Of one copy.
    """

    def __init__(self, once: IonNodes, copies: int, num_nodes: int) -> None:
        own = vars(self)
        own["name"], own["valence"] = once.name, once.valence
        self._shape: tuple[IonNodes, int, int]
        own["_shape"] = once, copies, num_nodes

    @cached_property
    def node(self) -> np.ndarray:
        """(count,) int64."""
        once, copies, num_nodes = self._shape
        return shifted(once.node, num_nodes, copies)

    @cached_property
    def e(self) -> np.ndarray:
        """(count,) float64, mV."""
        return np.tile(self._shape[0].e, self._shape[1])

    @cached_property
    def ci(self) -> np.ndarray:
        """(count,) float64, mM."""
        return np.tile(self._shape[0].ci, self._shape[1])

    @cached_property
    def co(self) -> np.ndarray:
        """(count,) float64, mM."""
        return np.tile(self._shape[0].co, self._shape[1])

    @cached_property
    def style(self) -> np.ndarray:
        """(count,) int64."""
        return np.tile(self._shape[0].style, self._shape[1])


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


class _Instances(Sequence[tuple[int, np.ndarray]]):
    """`Model.instances` of all copies, where each kind has one group."""

    def __init__(self, once: Model, groups: Sequence[Group], copies: int) -> None:
        self._once, self._groups, self._copies = once, groups, copies
        self._made: dict[int, tuple[int, np.ndarray]] = {}

    def __len__(self) -> int:
        return len(self._groups)

    @overload
    def __getitem__(self, number: int) -> tuple[int, np.ndarray]: ...
    @overload
    def __getitem__(self, number: slice) -> list[tuple[int, np.ndarray]]: ...
    def __getitem__(
        self, number: int | slice
    ) -> tuple[int, np.ndarray] | list[tuple[int, np.ndarray]]:
        if isinstance(number, slice):
            return [self[k] for k in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        if number not in self._made:
            kind, place = self._once.instances[number]
            if kind < 0:
                self._made[number] = kind, self._groups[number].nodes
            else:
                each = self._once.kinds[kind].count
                self._made[number] = kind, shifted(place, each, self._copies)
        return self._made[number]


class CopiedModel(Model):
    """The model of a network of copies that are alike.

    Parameters
    ----------
    network : CopiedNetwork
    once : Model
        Of one copy.
    secondorder : bool or int
        As given.

    Attributes
    ----------
    once : Model
    copies : int
    """

    once: Model
    copies: int
    _network: CopiedNetwork
    _order: object

    def __init__(self, network: CopiedNetwork, once: Model, secondorder: object) -> None:
        own, copies, n = vars(self), network.copies, once.forest.num_nodes
        own["once"], own["copies"], own["_network"], own["_order"] = (
            once, copies, network, secondorder,
        )  # fmt: skip
        own["forest"], own["soma"] = network.forest, network.soma
        own["of_nodes"] = once.of_nodes.copied(copies)
        own["kinds"] = tuple(CopiedKind(kind, copies, n) for kind in once.kinds)
        own["instances"] = _Instances(once, network.groups, copies)
        own["num_targets"], own["first_cell"], own["stored"] = 0, 0, once.stored
        own["dt"], own["secondorder"], own["seed"] = once.dt, once.secondorder, once.seed
        own["threshold"] = np.tile(once.threshold, copies)
        nothing, first = Wiring(network), np.zeros(0, int)
        own["connections"] = nothing.compiled_connections(once.dt, 0, first, ())
        own["events"] = nothing.compiled_events(once.dt, first, ())

    def sources_of(self, source: np.ndarray) -> np.ndarray:
        """Return the numbers of sources of one copy in all copies, copy after copy."""
        return self._network.sources_of(source)

    def connections_of(self) -> np.ndarray:
        """Return numbers of the connections of one copy in all copies, (copies, m) int64."""
        return self._network.connections_of()

    def detectors_of(self) -> np.ndarray:
        """Return numbers of detectors of one copy, the cells' first, in all, (copies, m) int64."""
        return self._network.detectors_of()

    @cached_property
    def extended(self) -> Extended:
        """What only executors of extended networks take."""
        assert self.once.extended is not None
        n = self.once.forest.num_nodes
        ions = tuple(CopiedIon(ion, self.copies, n) for ion in self.once.extended.ions)
        network = self._network
        cells = Sources(network, 0, self.soma, self.threshold)
        wiring = network.wiring(Changes())
        return extended_of(
            network.added, cells, self.kinds, self.instances, self.area, network.celsius,
            (wiring.given, wiring.outside), self._order, ions,
        )  # fmt: skip


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
        n = once.forest.num_nodes
        self._groups = [CopiedGroup(self, group, copies, n) for group in once.groups]
        self._added = self._copied_additions(once.added)
        self._wiring = self._copied_wiring(once.wiring(Changes()))

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

    def detectors_of(self) -> np.ndarray:
        """Return numbers of detectors of one copy, the cells' first, in all, (copies, m) int64."""
        sizes = [len(s) for s in self._once.added.sources if not s.times]
        return in_blocks([self._once.num_cells, *sizes], self._copies)

    def _alike(self, model: Model) -> bool:
        """Whether nothing but its number distinguishes a copy: no noise, and no stream of its own.

        Events from outside have sources that are numbered otherwise.

        Each kind has one group, as its instances are else in another order.
        """
        kinds = [k for k, _ in model.instances if k >= 0]
        streams = {(model.instances[g][0], name) for g, name, _ in self._once.added.streams}
        extended = model.extended
        return (
            len(kinds) == len(set(kinds))
            and extended is not None
            and not any(
                a.role == "noise"
                for kind in model.kinds
                for given in kind.mechanism.program.blocks.values()
                for a in given
            )
            and streams == {*extended.streams}
            and not self._once.wiring(Changes()).outside
        )

    def compile(
        self,
        dt: float = 0.025,
        v_init: ArrayLike = -65.0,
        secondorder: bool = False,
        seed: int = 0,
        changes: Changes | None = None,
    ) -> Model:
        """Check the whole and make the arrays that executors take; see `Network.compile`."""
        told = changes or Changes()
        changed = told.parameters or told.stored or told.weight is not None
        if self._copies > 1 and np.ndim(v_init) == 0 and not changed and told.events is None:
            once = self._once.compile(dt, v_init, secondorder, seed)
            if self._alike(once):
                return CopiedModel(self, once, secondorder)
        return super().compile(dt, v_init, secondorder, seed, changes)
