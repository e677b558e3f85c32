"""Compiling: the arrays of a `Model` from all that a network was given."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from clhines.checks import as_seed, shown, spread
from clhines.errors import InputError
from clhines.forest import Forest
from clhines.network.additions import Added, Sources
from clhines.network.changes import Changes
from clhines.network.constant import ConstantSums
from clhines.network.extend import Instances, extended_of, needs_extension
from clhines.network.extended import Extended
from clhines.network.groups import Group, Owner
from clhines.network.instances import check_temperature, constant_sums, kinds_of, revalued
from clhines.network.model import Kind, Model
from clhines.network.rounds import NodeValues
from clhines.network.structure import Structure
from clhines.network.times import as_step
from clhines.network.wiring import Columns, Wiring


class Described(Owner, Protocol):
    """What is needed of a `Network` besides groups and wiring."""

    forest: Forest
    soma: np.ndarray
    structure: Structure
    celsius: float

    @property
    def area(self) -> np.ndarray:
        """(n,) float64, µm²."""

    def area_at(self, nodes: np.ndarray) -> np.ndarray:
        """(m,) float64, µm²: of some nodes."""

    @property
    def threshold(self) -> float | np.ndarray:
        """Float or (num_cells,) float64, mV: at which a cell spikes."""


def compiled(
    network: Described,
    added: Added,
    groups: Sequence[Group],
    wiring: Wiring,
    stored: Collection[tuple[str, str]],
    times: tuple[float, ArrayLike, bool, int],
) -> Model:
    """Return the model; see `Network.compile`.

    Parameters
    ----------
    network : Network
    added : Added
    groups, wiring
        With all changes.
    stored : collection of (str, str)
        See `Changes`.
    times : tuple
        dt, v_init, secondorder and seed.
    """
    dt, structure, n = as_step(times[0]), network.structure, network.forest.num_nodes
    constant_d, constant_b = constant_sums(groups, structure)
    extended = needs_extension(added, groups, wiring.given)
    kinds, instances = kinds_of(groups, network.area_at, network.celsius, stored)
    check_temperature(kinds, network.celsius)
    first = np.array([kinds[k].first_target if k >= 0 else -1 for k, _ in instances], int)
    targets = sum(k.count for k in kinds if k.first_target >= 0)
    places = dt, 0 if extended else targets, first, instances
    own = wiring if not extended else Wiring(network)
    of_nodes = {
        "u": -structure.once("g_axial"),
        "capacitance": structure.once("capacitance"),
        "area": structure.once("area"),
        "constant_d": constant_d,
        "constant_b": constant_b,
        "v_init": spread("v_init", times[1], n, own=False, unit="mV"),
    }
    if extended:
        of_nodes["constant_g"] = constant_sums(groups, structure, axial=False)[0]
    return Model(
        forest=network.forest,
        soma=network.soma,
        of_nodes=NodeValues(of_nodes, n),
        kinds=kinds,
        instances=instances,
        num_targets=places[1],
        connections=own.compiled_connections(*places),
        events=own.compiled_events(dt, first, instances),
        threshold=spread("threshold", network.threshold, network.num_cells),
        dt=dt,
        secondorder=_second_order(times[2], extended),
        seed=as_seed(times[3]),
        extended=_extended(network, added, (kinds, instances), wiring, times[2])
        if extended
        else None,
        stored=frozenset(stored),
    )


def with_values(
    network: Described,
    model: Model,
    groups: Sequence[Group],
    v_init: ArrayLike,
    changes: Changes,
    sums: ConstantSums,
) -> Model:
    """Return what `compiled` does, from a model of the same connections and events.

    Parameters
    ----------
    network : Network
    model : Model
        Of the network, with earlier changes.
    groups : sequence of Group
        As they were before all changes.
    v_init : float or (n,) float64, mV
    changes : Changes
    sums : ConstantSums
        Of the network.
    """
    changed = [(number, name) for number, own in changes.parameters.items() for name in own]
    now = changes.groups(groups)
    kinds = revalued(model.kinds, model.instances, now, changed, changes.stored)
    check_temperature(kinds, network.celsius)
    constant_d, constant_b = sums.sums(changes)
    more = {"constant_g": sums.conductances(changes)} if model.extended is not None else {}
    return replace(
        model,
        kinds=kinds,
        of_nodes=model.of_nodes.changed(
            constant_d=constant_d,
            constant_b=constant_b,
            v_init=spread("v_init", v_init, network.forest.num_nodes, own=False, unit="mV"),
            **more,
        ),
        stored=frozenset(changes.stored),
    )


def _extended(
    network: Described,
    added: Added,
    places: tuple[tuple[Kind, ...], Instances],
    wiring: Wiring,
    order: object,
) -> Extended:
    threshold = spread("threshold", network.threshold, network.num_cells)
    cells = Sources(network, 0, network.soma, threshold)
    given: tuple[Columns, Columns] = wiring.given, wiring.outside
    return extended_of(added, cells, *places, network.area, network.celsius, given, order)


def _second_order(value: object, extended: bool) -> bool:
    """Take True, False, and NEURON's 0 and 2; 1 differs from 2 in ion currents alone."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    known = (0, 1, 2) if extended else (0, 2)
    if not isinstance(value, (int, np.integer)) or value not in known:
        raise InputError(f"secondorder is {shown(value)}; expected True or False")
    return bool(value > 0)
