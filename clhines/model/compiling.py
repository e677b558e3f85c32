"""Compiling: the arrays of a `Model` from all that a network was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clhines.arrays import Deferred, Made, shifted
from clhines.checks import as_seed, shown, spread
from clhines.errors import InputError
from clhines.model.additions import fields_of
from clhines.model.instances import (
    ConstantSums,
    check_alone,
    check_temperature,
    constant_sums,
    kinds_of,
    revalued,
    spiking,
)
from clhines.model.ions import IonNodes
from clhines.model.model import Alike, Kind, Model
from clhines.model.needs import GRID, of_model, of_network
from clhines.model.wires import (
    compiled_connections,
    compiled_events,
    divided,
    given_weights,
    has_short,
)
from clhines.network.additions import Sources
from clhines.network.changes import Changes
from clhines.network.copies import copied_nodes, copied_values, tiled
from clhines.network.groups import Group
from clhines.network.inside import inside
from clhines.network.network import Copied, Network
from clhines.network.structure import NodeValues
from clhines.network.times import as_step
from clhines.network.wiring import Wiring


def compile(
    network: Network,
    dt: float = 0.025,
    v_init: ArrayLike = -65.0,
    secondorder: bool | int = False,
    seed: int = 0,
    changes: Changes | None = None,
) -> Model:
    """Check the whole of a network and make the arrays that engines take.

    Parameters
    ----------
    network : Network
    dt : float, ms
    v_init : float or (n,) float64, mV
    secondorder : bool, or 0 or 2 as in NEURON
        NEURON's ``secondorder = 2``: half a step implicitly, then extrapolated.
    seed : int
        Of the noise.
    changes : Changes, optional
        What a simulation was told by `set`.

    Returns
    -------
    Model

    Raises
    ------
    InputError
        What was given does not go together.
    """
    changes = changes or Changes()
    copied = inside(network).copied
    if copied is not None and copied.count > 1 and not changes.any and np.ndim(v_init) == 0:
        once = compile(copied.once, dt, v_init, secondorder, seed)
        if are_alike(copied.once, once) and "last_instances" not in once.needs:
            return copied_model(network, copied, once, secondorder)
    return _compiled(network, changes, (dt, v_init, secondorder, seed))


def _compiled(
    network: Network, changes: Changes, times: tuple[float, ArrayLike, bool | int, int]
) -> Model:
    dt, structure, n = as_step(times[0]), inside(network).structure, network.forest.num_nodes
    added, groups = inside(network).added, changes.groups(network.groups)
    wiring, stored = inside(network).wiring.changed(changes), changes.stored
    constant_d, constant_b = constant_sums(groups, structure)
    features = of_network(added, groups, wiring.given)
    exact = bool(features - GRID) or (bool(features) and has_short(wiring, added, dt))
    kinds, instances = kinds_of(groups, inside(network).places.area_at, network.celsius, stored)
    check_temperature(kinds, network.celsius)
    check_alone(kinds, inside(network).copied is not None)
    first = np.array([kinds[k].first_target if k >= 0 else -1 for k, _ in instances], int)
    targets = sum(k.count for k in kinds if k.first_target >= 0)
    own, at_times = wiring, Wiring(network)
    if exact:
        own, at_times, on_grid = divided(wiring, added, groups, dt)
    places = dt, targets if own.columns or own.outside or not exact else 0, first, instances
    of_nodes = {
        "u": -structure.once("g_axial"),
        "capacitance": structure.once("capacitance"),
        "area": structure.once("area"),
        "constant_d": constant_d,
        "constant_b": constant_b,
        "constant_g": constant_sums(groups, structure, axial=False)[0],
        "v_init": spread("v_init", times[1], n, own=False, unit="mV"),
    }
    connections, numbers = compiled_connections(own, added, *places)
    if exact:
        numbers = on_grid[numbers]  # without those of trains
    all_here = not exact and len(numbers) == sum(len(c[0]) for c in wiring.columns)
    weights = connections.weight if all_here else given_weights(wiring)
    exactly = np.delete(np.arange(len(weights)), on_grid) if exact else np.zeros(0, np.int64)
    kinds, threshold = spiking(network, kinds, _threshold(network))
    second_order = _second_order(times[2], exact)
    if second_order and any(kind.mechanism.program.spike for kind in kinds):
        raise InputError("secondorder: a text with 'spike:' resets v; expected secondorder=0")
    cells = Sources(network, 0, network.soma, threshold, np.zeros(len(threshold)))
    added_fields = fields_of(
        added, cells, kinds, instances, network.area, network.celsius,
        (at_times.given, at_times.outside), times[2],
    )  # fmt: skip
    model = Model(
        forest=network.forest,
        soma=network.soma,
        of_nodes=NodeValues(of_nodes, n),
        kinds=kinds,
        instances=instances,
        num_targets=places[1],
        connections=connections,
        numbers=numbers,
        exact_numbers=exactly,
        given_weights=weights,
        events=compiled_events(own, added, dt, first, instances),
        dt=dt,
        secondorder=second_order,
        seed=as_seed(times[3]),
        stored=frozenset(stored),
        **added_fields,
    )
    return replace(model, needs=features | of_model(model, exact))


def with_values(
    network: Network,
    model: Model,
    groups: Sequence[Group],
    v_init: ArrayLike,
    changes: Changes,
    sums: ConstantSums,
) -> Model:
    """Return what `compile` does, from a model of the same connections and events.

    `model` has earlier changes, `groups` are as they were before all, and `v_init` is in mV.
    """
    changed = [(number, name) for number, own in changes.parameters.items() for name in own]
    now = changes.groups(groups)
    kinds = revalued(model.kinds, model.instances, now, changed, changes.stored)
    check_temperature(kinds, network.celsius)
    constant_d, constant_b = sums.sums(changes)
    return replace(
        model,
        kinds=kinds,
        of_nodes=model.of_nodes.changed(
            constant_d=constant_d,
            constant_b=constant_b,
            v_init=spread("v_init", v_init, network.forest.num_nodes, own=False, unit="mV"),
            constant_g=sums.conductances(changes),
        ),
        stored=frozenset(changes.stored),
    )


def _threshold(network: Network) -> np.ndarray:
    return spread("threshold", network.threshold, network.num_cells)


def _second_order(value: object, exact: bool) -> bool:
    """Take True, False, and NEURON's 0 and 2; 1 differs from 2 in ion currents alone."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    known = (0, 1, 2) if exact else (0, 2)
    if not isinstance(value, (int, np.integer)) or value not in known:
        raise InputError(f"secondorder is {shown(value)}; expected True or False")
    return bool(value > 0)


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
    copies, n, added = copied.count, once.forest.num_nodes, inside(network).added
    wiring, nothing, first = inside(network).wiring, Wiring(network), np.zeros(0, int)
    kinds = tuple(_kind(kind, n, copies) for kind in once.kinds)
    instances = _Instances(once, network.groups, copies)
    threshold = np.tile(once.threshold, copies)
    cells = Sources(network, 0, network.soma, threshold, np.zeros(len(threshold)))
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
    streams = {(model.instances[g][0], name) for g, name, _ in inside(network).added.streams}
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
        and not any(kind.mechanism.has_noisy_rates for kind in model.kinds)
        and streams == {*model.random_ids}
        and not inside(network).wiring.outside
    )
