"""Requests to record: check the arguments of `Simulation.record`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.checks import (
    as_array,
    as_choice,
    as_indices,
    as_number,
    as_places,
    as_real,
    shown,
)
from clhines.core.errors import InputError, meant
from clhines.simulator.analysis.features import Features
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.mechanisms.text.reader import CURRENT_UNITS
from clhines.simulator.model.model import IonNodes, Model
from clhines.simulator.network.groups import Group
from clhines.simulator.network.network import Network
from clhines.simulator.network.times import whole_steps
from clhines.simulator.records.membrane import Membrane
from clhines.simulator.records.records import (
    CROSSED,
    CURRENT,
    FEATURES,
    ION,
    MEMBRANE,
    REDUCTIONS,
    VOLTAGE,
    Record,
    has_bare_current,
)


def find_record(
    network: Network, model: Model, what: object, at: ArrayLike | Group, index: ArrayLike | None
) -> Record:
    """Return the record, without reduction, for a variable at nodes or in a group."""
    if not isinstance(what, str):
        raise InputError(f"what is {shown(what)}; expected a name such as 'v', or 'm' of a Group")
    if "=" in what:
        raise InputError(
            f"{shown(what)} is an expression; expected a name: record its variables, and compute "
            "it from the result"
        )
    if isinstance(at, Group):
        return _record_of_group(network, model, what, at, index)
    if index is not None:
        raise InputError(
            f"index is {shown(index)} for nodes; expected None: it selects instances of a "
            "Group; pass only the nodes"
        )
    if "." in what:
        return _record_of_mechanism(network, model, what, at)
    return _record_of_nodes(model, what, at)


def _record_of_nodes(model: Model, variable: str, at: ArrayLike) -> Record:
    if variable == "v":
        return Record("v", VOLTAGE, _nodes(model, at), unit="mV")
    if variable == "i_membrane":
        nodes = _nodes(model, at)
        Membrane(model, nodes)  # raises InputError if it is not supported there
        return Record("i_membrane", MEMBRANE, nodes, unit="nA")
    for ion in model.ions:
        if variable in ion.variables:
            return _record_of_ion(ion, variable, at)
    raise InputError(
        f"{shown(variable)} of nodes; expected 'v', 'i_membrane', a name such as 'hh.m', or "
        f"for a state the Group from insert() or add(){meant(variable, ('v', 'i_membrane'))}"
    )


def _nodes(model: Model, at: ArrayLike) -> np.ndarray:
    return as_indices("at", np.atleast_1d(as_array("at", at)), model.forest.num_nodes, "node")


def _record_of_ion(ion: IonNodes, variable: str, at: ArrayLike) -> Record:
    nodes = np.atleast_1d(as_array("at", at))
    last_node = int(max(ion.node.max(initial=0), nodes.max(initial=0)))
    index = as_indices("at", nodes, last_node + 1, "node")
    without_ion = index[~np.isin(index, ion.node)]
    if len(without_ion):
        raise InputError(f"{variable} of node {without_ion[0]}, which has no ion {ion.name}")
    units = dict(zip(ion.variables, ("mV", "mM", "mM", "mA/cm2"), strict=True))
    return Record(variable, ION, index, unit=units[variable])


def _record_of_group(
    network: Network, model: Model, variable: str, group: Group, index: ArrayLike | None
) -> Record:
    """Return the record for a group's variable, or for the voltage at the group's nodes."""
    mechanism = group.mechanism
    if group.network is not network:
        raise InputError(f"group {mechanism.name} belongs to another network")
    chosen = np.arange(len(group))
    if index is not None:
        index = np.atleast_1d(as_array("index", index))
        chosen = as_places("index", index, len(group), mechanism.name)
    if variable == "v":
        return Record("v", VOLTAGE, group.nodes[chosen], unit="mV")
    if variable == CURRENT and has_bare_current(mechanism):
        return _record_of_current(model, group, chosen)
    kind, instance = model.instances[group.number]
    quantities = (*mechanism.program.states, *mechanism.program.outputs)
    played = [p.parameter for p in model.played if p.kind == kind]
    names = (*dict.fromkeys((*mechanism.states, *(q.name for q in quantities))), *played)
    internal_names = {q.public: q.name for q in quantities if q.public}
    variable = internal_names.get(variable, variable)
    if variable in model.of_last(kind):
        raise InputError(
            f"{variable} of {mechanism.name} is one value for all instances; expected another name"
        )
    if variable not in names:
        raise _unknown_variable(model, mechanism, kind, variable, names)
    return Record(variable, kind, instance[chosen], unit=mechanism.units.get(variable, ""))


def _unknown_variable(
    model: Model, mechanism: Mechanism, kind: int, variable: str, names: tuple[str, ...]
) -> InputError:
    if any(variable in ion.variables for ion in model.ions):
        return InputError(
            f"{variable} belongs to an ion, not to {mechanism.name}; expected nodes in place of "
            f"the group: record({variable!r}, nodes)"
        )
    current = (CURRENT,) if kind >= 0 and has_bare_current(mechanism) else ()
    expected = ", ".join(dict.fromkeys(("v", *current, *names))) + meant(variable, names)
    problem = f"{mechanism.name} has no state {shown(variable)}"
    if variable in mechanism.parameters:
        problem = f"{shown(variable)} of {mechanism.name} is constant during a run"
    return InputError(f"{problem}; expected {expected}")


def _record_of_current(model: Model, group: Group, chosen: np.ndarray) -> Record:
    kind, instance = model.instances[group.number]
    mechanism = group.mechanism
    if kind < 0:
        raise InputError(
            f"the current of {mechanism.name} is not recorded, because it depends on v alone; "
            "expected 'v': compute the current as g*(v - e)"
        )
    if len(np.unique(chosen)) < len(chosen):
        raise InputError(f"index has an instance of {mechanism.name} twice; expected each once")
    return Record(CURRENT, kind, instance[chosen], unit=CURRENT_UNITS[mechanism.kind])


def _record_of_mechanism(network: Network, model: Model, what: str, at: ArrayLike) -> Record:
    """Return the record for ``MECHANISM.VARIABLE`` at nodes, which must belong to one group."""
    name, _, variable = what.partition(".")
    mechanisms = dict.fromkeys(g.mechanism.name for g in network.groups)
    if name not in mechanisms:
        expected = ", ".join(mechanisms) or "none"
        problem = f"{shown(what)}: {name} is not in the network"
        raise InputError(f"{problem}; expected one of {expected}{meant(name, mechanisms)}")
    nodes = _nodes(model, at)
    count, index = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)
    kinds, internal_name, unit = set[int](), variable, ""
    for group in (g for g in network.groups if g.mechanism.name == name):
        order = np.argsort(group.nodes, kind="stable")
        first, last = (np.searchsorted(group.nodes, nodes, s, order) for s in ("left", "right"))
        count += last - first
        here = np.flatnonzero(last > first)
        if len(here):
            record = _record_of_group(network, model, variable, group, order[first[here]])
            index[here], internal_name, unit = record.index, record.name, record.unit
            kinds.add(record.kind)
    wrong = np.flatnonzero(count != 1)
    if len(wrong):
        raise InputError(
            f"{what} of node {nodes[wrong[0]]}, which has {name} {count[wrong[0]]} times; expected "
            "once, or the Group from insert() or add()"
        )
    if len(kinds) != 1:
        raise InputError(f"{what}: expected nodes of one Group from insert() or add()")
    return Record(internal_name, kinds.pop(), index, unit=unit)


def with_reduction(
    record: Record,
    dt: float,
    every: float | None,
    reduce: str | Features | None,
    threshold: float | None,
    matrix: ArrayLike | None,
) -> Record:
    """Check interval (`every`, ms), reduction and matrix, and return the record with them."""
    features = reduce if isinstance(reduce, Features) else None
    if features is not None and record.kind != VOLTAGE:
        raise InputError(f"reduce=Features(...) of {record.name}; expected a record of 'v'")
    name = ""
    if features is not None:
        name = FEATURES
    elif reduce is not None:
        name = as_choice("reduce", reduce, REDUCTIONS)
    if name and every is not None:
        raise InputError(
            f"every is {shown(every)} with reduce={name!r}; expected one of the two: "
            "reductions use all steps"
        )
    steps = 1 if every is None else whole_steps(every, dt)
    if not steps:
        raise InputError(
            f"every is {shown(every)} ms; expected a multiple of dt, {dt:g} ms, above 0"
        )
    return replace(
        record,
        every=steps,
        reduce=name,
        threshold=_threshold(record, name, threshold),
        matrix=None if matrix is None else _matrix(matrix, len(record.index)),
        features=features,
    )


def _threshold(record: Record, reduce: str, threshold: float | None) -> float:
    if (reduce in CROSSED) != (threshold is not None):
        expected = "a number" if reduce in CROSSED else "None, or reduce='count' or 'crossings'"
        raise InputError(f"threshold is {shown(threshold)}; expected {expected}")
    if threshold is None:
        return 0.0
    return as_number("threshold", threshold, "mV" if record.name == "v" else None)


def _matrix(matrix: ArrayLike, places: int) -> np.ndarray:
    checked = as_real("matrix", matrix)
    if checked.ndim != 2 or not checked.shape[0] or checked.shape[1] != places:
        raise InputError(
            f"matrix has shape {checked.shape}; expected (k, {places}), a column for each place"
        )
    return checked
