"""The model of a network of copies, of which most arrays are made only when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np

from clhines.arrays import shifted
from clhines.model.additions import fields_of
from clhines.model.ions import IonNodes
from clhines.model.model import Kind, Model
from clhines.model.sources import NetCons, Played, Sources
from clhines.model.wires import compiled_connections, compiled_events, given_weights
from clhines.network.additions import Sources as GivenSources
from clhines.network.changes import Changes
from clhines.network.copied import CopiedNetwork, frozen
from clhines.network.groups import Group
from clhines.network.wiring import Wiring


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
        return frozen(shifted(once.node, step, copies))

    @cached_property
    def parameters(self) -> dict[str, float | np.ndarray]:
        """Dict of name -> float or (count,) float64."""
        once, copies, _ = self._shape
        return {
            k: frozen(np.tile(v, copies)) if isinstance(v, np.ndarray) else v
            for k, v in once.parameters.items()
        }

    @cached_property
    def factor(self) -> np.ndarray:
        """(count,) float64."""
        return frozen(np.tile(self._shape[0].factor, self._shape[1]))


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
    """

    _once: Model
    _copies: int
    _network: CopiedNetwork
    _order: object

    def __init__(self, network: CopiedNetwork, once: Model, secondorder: object) -> None:
        own, copies, n = vars(self), network.copies, once.forest.num_nodes
        own["_once"], own["_copies"], own["_network"], own["_order"] = (
            once, copies, network, secondorder,
        )  # fmt: skip
        own["forest"], own["soma"] = network.forest, network.soma
        own["of_nodes"] = once.of_nodes.copied(copies)
        own["kinds"] = tuple(CopiedKind(kind, copies, n) for kind in once.kinds)
        own["instances"] = _Instances(once, network.groups, copies)
        own["num_targets"], own["first_cell"], own["stored"] = 0, 0, once.stored
        own["dt"], own["secondorder"], own["seed"] = once.dt, once.secondorder, once.seed
        same = "celsius", "random_index", "bins", "second_order_currents", "remote_v"
        own.update({name: getattr(once, name) for name in same})
        own["needs"] = once.needs | {"copies"}
        nothing, first = Wiring(network), np.zeros(0, int)
        own["connections"], own["numbers"] = compiled_connections(
            nothing, network.added, once.dt, 0, first, ()
        )
        own["events"] = compiled_events(nothing, network.added, once.dt, first, ())

    @property
    def once(self) -> Model:
        """The model of one copy."""
        return self._once

    @property
    def copies(self) -> int:
        """Number of copies."""
        return self._copies

    def sources_of(self, source: np.ndarray) -> np.ndarray:
        """Return the numbers of sources of one copy in all copies, copy after copy."""
        return self._network.sources_of(source)

    def sources_of_each(self) -> np.ndarray:
        """Return numbers of the sources of each copy, (copies, num_sources) int64."""
        every = np.arange(self.once.sources.count)
        return self.sources_of(every).reshape(self.copies, -1)

    def connections_of(self) -> np.ndarray:
        """Return numbers of the connections of one copy in all copies, (copies, m) int64."""
        return self._network.connections_of()

    @cached_property
    def ions(self) -> tuple[IonNodes, ...]:
        """See `Model`."""
        n = self.once.forest.num_nodes
        return tuple(CopiedIon(ion, self.copies, n) for ion in self.once.ions)

    @cached_property
    def _added(self) -> dict[str, Any]:
        network, threshold = self._network, np.tile(self.once.threshold, self.copies)
        wiring = network.wiring(Changes())
        return fields_of(
            network.added, GivenSources(network, 0, self.soma, threshold), self.kinds,
            self.instances, self.area, network.celsius, (wiring.given, wiring.outside),
            self._order, self.ions,
        )  # fmt: skip

    @cached_property
    def given_weights(self) -> np.ndarray:
        """See `Model`."""
        return given_weights(self._network.wiring(Changes()))

    @cached_property
    def exact_numbers(self) -> np.ndarray:
        """See `Model`."""
        return np.arange(len(self.given_weights))

    @cached_property
    def sources(self) -> Sources:
        """See `Model`."""
        return self._added["sources"]

    @cached_property
    def netcons(self) -> NetCons:
        """See `Model`."""
        return self._added["netcons"]

    @cached_property
    def pointers(self) -> dict[tuple[int, str], np.ndarray]:
        """See `Model`."""
        return self._added["pointers"]

    @cached_property
    def played(self) -> tuple[Played, ...]:
        """See `Model`."""
        return self._added["played"]

    @cached_property
    def random_ids(self) -> dict[tuple[int, str], np.ndarray]:
        """See `Model`."""
        return self._added["random_ids"]


def are_alike(network: CopiedNetwork, model: Model) -> bool:
    """Whether nothing but its number distinguishes a copy: no noise, and no stream of its own.

    Events from outside have sources that are numbered otherwise.

    Each kind has one group, as its instances are else in another order.
    """
    kinds = [k for k, _ in model.instances if k >= 0]
    streams = {(model.instances[g][0], name) for g, name, _ in network.once.added.streams}
    return (
        len(kinds) == len(set(kinds))
        and model.has_times
        and not model.on_grid
        and not any(
            a.role == "noise"
            for kind in model.kinds
            for given in kind.mechanism.program.blocks.values()
            for a in given
        )
        and streams == {*model.random_ids}
        and not network.once.wiring(Changes()).outside
    )
