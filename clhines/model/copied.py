"""The model of a network of copies, of which most arrays are made only when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from clhines.arrays import Deferred, Made, shifted
from clhines.model.additions import fields_of
from clhines.model.ions import IonNodes
from clhines.model.model import Alike, Kind, Model
from clhines.model.wires import compiled_connections, compiled_events, given_weights
from clhines.network.additions import Sources
from clhines.network.changes import Changes
from clhines.network.copied import copied_nodes, copied_values, tiled
from clhines.network.groups import Group
from clhines.network.network import Copied, Network
from clhines.network.wiring import Wiring


class CopiedKind(Deferred, Kind):
    """A kind of all copies; `once` is that of one."""

    once: Kind
    copies: int

    @property
    def count(self) -> int:
        """Number of instances."""
        return self.once.count * self.copies

    def is_single(self, name: str) -> bool:
        """Whether a parameter is one number for all instances."""
        return self.once.is_single(name)


class CopiedIon(Deferred, IonNodes):
    """An ion of all copies."""


class _Instances(Sequence[tuple[int, np.ndarray]]):
    """`Model.instances` of all copies, where each kind has one group."""

    def __init__(self, once: Model, groups: Sequence[Group], copies: int) -> None:
        self._once, self._groups, self._copies = once, groups, copies
        self._made: dict[int, tuple[int, np.ndarray]] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[k] for k in range(len(self))[number]]
        number = range(len(self))[number]
        if number not in self._made:
            kind, place = self._once.instances[number]
            if kind < 0:
                self._made[number] = kind, self._groups[number].nodes
            else:
                each = self._once.kinds[kind].count
                self._made[number] = kind, shifted(place, each, self._copies)
        return self._made[number]


def _kind(once: Kind, num_nodes: int, copies: int) -> Kind:
    first = once.first_target
    made: Made = {
        "node": partial(copied_nodes, once.mechanism, once.node, num_nodes, copies),
        "parameters": partial(copied_values, once.parameters, copies),
        "factor": partial(tiled, once.factor, copies),
    }
    return CopiedKind(
        made, once=once, copies=copies, mechanism=once.mechanism,
        first_target=first * copies if first >= 0 else -1,
        first_instance=once.first_instance * copies,
    )  # fmt: skip


def _ion(once: IonNodes, num_nodes: int, copies: int) -> IonNodes:
    made = {k: partial(tiled, getattr(once, k), copies) for k in ("e", "ci", "co", "style")}
    made["node"] = partial(shifted, once.node, num_nodes, copies)
    return CopiedIon(made, name=once.name, valence=once.valence)


def copied_model(network: Network, copied: Copied, once: Model, secondorder: object) -> Model:
    """Return the model of a network of copies that are alike, from `once`, that of one."""
    copies, n, added = copied.count, once.forest.num_nodes, network.added
    wiring, nothing, first = network.wiring(Changes()), Wiring(network), np.zeros(0, int)
    kinds = tuple(_kind(kind, n, copies) for kind in once.kinds)
    instances = _Instances(once, network.groups, copies)
    cells = Sources(network, 0, network.soma, np.tile(once.threshold, copies))
    weights = given_weights(wiring)
    connections, numbers = compiled_connections(nothing, added, once.dt, 0, first, ())
    return replace(
        once,
        forest=network.forest,
        soma=network.soma,
        of_nodes=once.of_nodes.copied(copies),
        kinds=kinds,
        instances=instances,
        num_targets=0,
        connections=connections,
        numbers=numbers,
        exact_numbers=np.arange(len(weights)),
        given_weights=weights,
        events=compiled_events(nothing, added, once.dt, first, ()),
        needs=once.needs | {"copies"},
        alike=Alike(once, copied.sources, copied.connections),
        **fields_of(
            added, cells, kinds, instances, np.zeros(0), network.celsius,
            (wiring.given, wiring.outside), secondorder,
            tuple(_ion(ion, n, copies) for ion in once.ions),
        ),
    )  # fmt: skip


def are_alike(network: Network, model: Model) -> bool:
    """Whether copies of a network are alike: no noise, and no stream of its own.

    Events from outside have sources that are numbered otherwise. Each kind has one group, as its
    instances are else in another order.
    """
    kinds = [k for k, _ in model.instances if k >= 0]
    streams = {(model.instances[g][0], name) for g, name, _ in network.added.streams}
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
        and not network.wiring(Changes()).outside
    )
