"""Requests to record: the arguments of `Simulation.record`, checked and made a `Record`."""

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


def kept_of(
    record: Record,
    dt: float,
    every: float | None,
    reduce: str | Features | None,
    threshold: float | None,
    matrix: ArrayLike | None,
) -> Record:
    """Check what is to be kept of a record's values, and return the record with it."""
    features = reduce if isinstance(reduce, Features) else None
    if features is not None:
        if record.kind != VOLTAGE:
            raise InputError(f"reduce=Features(...) of {record.name}; expected it of 'v'")
        reduce = FEATURES
    if reduce is not None:
        as_choice("reduce", reduce, (*REDUCTIONS, FEATURES) if features else REDUCTIONS)
        if every is not None:
            raise InputError(
                f"every is {shown(every)} with reduce={reduce!r}; expected one of the two, as "
                "reductions are of all steps"
            )
    steps = 1 if every is None else whole_steps(every, dt)
    if not steps:
        raise InputError(
            f"every is {shown(every)} ms; expected a multiple of dt, {dt:g} ms, above 0"
        )
    crossed = reduce in CROSSED
    if crossed != (threshold is not None):
        expected = "a number" if crossed else "None, or reduce='count' or 'crossings'"
        raise InputError(f"threshold is {shown(threshold)}; expected {expected}")
    unit = "mV" if record.name == "v" else None
    limit = 0.0 if threshold is None else as_number("threshold", threshold, unit)
    weights = None
    if matrix is not None:
        weights = as_real("matrix", matrix)
        shape, places = weights.shape, len(record.index)
        if weights.ndim != 2 or not shape[0] or shape[1] != places:
            raise InputError(
                f"matrix has shape {shape}; expected (k, {places}), a column for each place"
            )
    return replace(
        record,
        every=steps,
        reduce=str(reduce or ""),
        threshold=limit,
        matrix=weights,
        features=features,
    )


def find_record(
    network: Network, model: Model, what: object, at: ArrayLike | Group, index: ArrayLike | None
) -> Record:
    """Check the arguments of `Simulation.record` and return the record."""
    if isinstance(what, str) and "=" in what:
        raise InputError(
            f"{shown(what)} is an expression; expected a name: record its variables, and compute "
            "it from the result"
        )
    if not isinstance(at, Group) and isinstance(what, str) and "." in what and index is None:
        return _record_at(network, model, what, at)
    if not isinstance(at, Group):
        if index is not None:
            raise InputError(
                f"index is {shown(index)} for nodes; expected None: it is of the instances of a "
                "Group; give the nodes alone"
            )
        if isinstance(what, str) and what == "i_membrane":
            nodes = _nodes(model, at)
            Membrane(model, nodes)  # rejects what it cannot
            return Record(what, MEMBRANE, nodes, unit="nA")
        ions = model.ions if model.has_times else ()
        known = {name: ion for ion in ions for name in ion.variables}
        if isinstance(what, str) and what in known:
            return _ion_record(known[what], what, at)
        if not isinstance(what, str) or what != "v":
            raise InputError(
                f"{shown(what)} of nodes; expected 'v', 'i_membrane', a name as 'hh.m', or for a "
                "state the Group that insert() or add() gave"
            )
        return Record("v", VOLTAGE, _nodes(model, at), unit="mV")
    if at.network is not network:
        raise InputError(f"group {at.mechanism.name} belongs to another network")
    chosen = np.arange(len(at))
    if index is not None:
        index = np.atleast_1d(as_array("index", index))
        chosen = as_places("index", index, len(at), at.mechanism.name)
    if what == "v":
        return Record("v", VOLTAGE, at.nodes[chosen], unit="mV")
    names = at.mechanism.states
    if what == CURRENT and has_bare_current(at.mechanism):
        return _current_record(model, at, chosen)
    kind, instance = model.instances[at.number]
    if model.has_times:
        program = at.mechanism.program
        played = [p.parameter for p in model.played if p.kind == kind]
        names = (*names, *(q.name for q in (*program.states, *program.outputs)), *played)
        public = {q.public: q.name for q in (*program.states, *program.outputs) if q.public}
        what = public.get(str(what), what)
    if what in model.of_last(kind):
        raise InputError(f"{what} of {at.mechanism.name} is one for all; expected another name")
    if what not in names:
        current = (CURRENT,) if kind >= 0 and has_bare_current(at.mechanism) else ()
        expected = ", ".join(dict.fromkeys(("v", *current, *names))) + meant(what, names)
        name, text = at.mechanism.name, shown(what)
        if isinstance(what, str) and what in at.mechanism.parameters:
            raise InputError(f"{text} of {name} is the same in all of a run; expected {expected}")
        raise InputError(f"{name} has no state {text}; expected {expected}")
    return Record(what, kind, instance[chosen], unit=at.mechanism.units.get(what, ""))


def _record_at(network: Network, model: Model, what: str, at: ArrayLike) -> Record:
    """Return the record of ``MECHANISM.VARIABLE`` at nodes, by the groups that are there."""
    mechanism, _, variable = what.partition(".")
    known = dict.fromkeys(g.mechanism.name for g in network.groups)
    if mechanism not in known:
        expected = ", ".join(known) or "none"
        problem = f"{shown(what)}: {mechanism} is not in the network"
        raise InputError(f"{problem}; expected one of {expected}{meant(mechanism, known)}")
    nodes = _nodes(model, at)
    found, index = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)
    kinds, name, unit = set[int](), variable, ""
    for group in (g for g in network.groups if g.mechanism.name == mechanism):
        order = np.argsort(group.nodes, kind="stable")
        first, last = (np.searchsorted(group.nodes, nodes, s, order) for s in ("left", "right"))
        found += last - first
        here = np.flatnonzero(last > first)
        if len(here):
            one = find_record(network, model, variable, group, order[first[here]])
            index[here], name, unit = one.index, one.name, one.unit
            kinds.add(one.kind)
    wrong = np.flatnonzero(found != 1)
    if len(wrong) or len(kinds) != 1:
        if not len(wrong):
            raise InputError(f"{what}: expected nodes of one group that insert() or add() gave")
        times, node = int(found[wrong[0]]), int(nodes[wrong[0]])
        raise InputError(
            f"{what} of node {node}, where {mechanism} is {times} times; expected it once, or the "
            "Group that insert() or add() gave"
        )
    return Record(name, kinds.pop(), index, unit=unit)


def _nodes(model: Model, at: ArrayLike) -> np.ndarray:
    return as_indices("at", np.atleast_1d(as_array("at", at)), model.forest.num_nodes, "node")


def _current_record(model: Model, at: Group, chosen: np.ndarray) -> Record:
    kind, instance = model.instances[at.number]
    name = at.mechanism.name
    if kind < 0:
        raise InputError(
            f"the current of {name} has constants and v alone; expected 'v', to compute it from"
        )
    if len(np.unique(chosen)) < len(chosen):
        raise InputError(f"index has an instance of {name} twice; expected each once")
    unit = CURRENT_UNITS[at.mechanism.kind]
    return Record("i", kind, instance[chosen], unit=unit)


def _ion_record(ion: IonNodes, what: str, at: ArrayLike) -> Record:
    nodes = np.atleast_1d(as_array("at", at))
    index = as_indices("at", nodes, int(max(ion.node.max(initial=0), nodes.max(initial=0))) + 1,
                       "node")  # fmt: skip
    bare = index[~np.isin(index, ion.node)]
    if len(bare):
        raise InputError(f"{what} of node {bare[0]}, where there is no ion {ion.name}")
    units = dict(zip(ion.variables, ("mV", "mM", "mM", "mA/cm2"), strict=True))
    return Record(what, ION, index, unit=units[what])
