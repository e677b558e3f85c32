"""Recorded values' indices in device arrays, and the work-items that write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from clhines.core.arrays import place_of
from clhines.simulator.kinds.layouts import Layout, at_parameter, sums_of
from clhines.simulator.records.records import Record
from clhines.simulator.state.arena import Arena
from clhines.simulator.state.variables import Variables


def owner_of(record: Record, variables: Variables, layout: Layout) -> np.ndarray:
    """Return the active node whose work-item writes each recorded value, (r,) int64.

    The number after the last active node stands for values at no node, later ones for sums that
    pointers write. If an instance sets another's state, its work-item writes it.
    """
    if record.kind < 0:
        return layout.number(record.index)
    model, k = variables.model, record.kind
    owners = layout.owner(k, record.index)
    for (of, name), to in model.read.items():
        if (to.kind, to.state) == (k, record.name) and name in model.kinds[
            of
        ].mechanism.program.assigned:
            set_by = np.full(model.kinds[k].count, -1)
            set_by[to.instance] = layout.owner(of, np.arange(len(to.instance)))
            owners = np.where(set_by[record.index] < 0, owners, set_by[record.index])
    states = [q.name for q in model.kinds[k].mechanism.program.states]
    if not model.written or record.name not in states:
        return owners
    sums, line = sums_of(model)[0], states.index(record.name)
    state_sums = np.flatnonzero((sums[0] == k) & (sums[1] == line))
    at = place_of(sums[2, state_sums], record.index)
    return np.where(at < 0, owners, layout.count + 1 + np.append(state_sums, 0)[at])


def locations(
    records: Sequence[Record],
    variables: Variables,
    arenas: dict[str, Arena],
    place: Callable[[], np.ndarray],
    layout: Layout,
) -> list[tuple[str, np.ndarray]]:
    """Return for each record the array (``v`` or ``mem``) and its values' indices.

    `place` returns each node's device index; it is called only if a record needs it.
    """
    mem, places = arenas["mem"], list[tuple[str, np.ndarray]]()
    for record in records:
        name, k, index = record.name, record.kind, record.index
        if k == -1:
            places.append(("v", place()[index]))
            continue
        if k < 0:
            places.append(("mem", mem.offset[f"ion_{name}"] + layout.number(index)))
            continue
        columns = layout.columns(k, variables.model.kinds[k])
        names_of = {"states": [*variables.states[k]], "outputs": [*variables.wanted[k]]}
        role = next((role for role, names in names_of.items() if name in names), "parameters")
        at = (
            at_parameter(variables, layout, k, name, index)
            if role == "parameters"
            else columns.at(index, names_of[role].index(name), len(names_of[role]))
        )
        places.append(("mem", mem.offset[f"{role}_{k}"] + at))
    return places
