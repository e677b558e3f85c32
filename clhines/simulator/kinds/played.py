"""Played parameters: their regions in arenas, and their next entries."""

from __future__ import annotations

import numpy as np

from clhines.core.arrays import offsets
from clhines.simulator.kinds.layouts import Layout, at_parameter
from clhines.simulator.model.model import Model
from clhines.simulator.state.arena import Arena
from clhines.simulator.state.plays import entries_until
from clhines.simulator.state.variables import Variables


def add_played(variables: Variables, layout: Layout, mem: Arena, clock: Arena, ints: Arena) -> None:
    """Add regions for played parameters by active node; those of artificial cells come last."""
    kinds = variables.model.kinds
    owner, order = order_of_played(variables.model, layout)
    played = [variables.model.played[k] for k in order]
    ints.add("first_played", layout.first(owner[order]) if played else np.zeros(layout.count + 1))
    clock.add("played_time", np.concatenate([np.zeros(0), *(p.t for p in played)]))
    clock.add("played_y", np.concatenate([np.zeros(0), *(p.y for p in played)]))
    ints.add("played_first", offsets(np.array([len(p.t) for p in played], int)))
    ints.add("played_continuous", np.array([p.continuous for p in played], int))
    places = [
        mem.offset[f"parameters_{p.kind}"]
        + at_parameter(variables, layout, p.kind, p.parameter, p.instance)
        for p in played
    ]
    ints.add("played_place", np.array(places, int))
    if not (into_events := [k for k in range(len(kinds)) if plays_into_events(variables.model, k)]):
        return
    ints.add("played_next", np.zeros(len(played)))
    for k in into_events:
        number = np.array([n for n, p in enumerate(played) if p.kind == k and not p.after_events])
        instance = np.array([played[n].instance for n in number])
        ints.add(f"plays_{k}", number[np.argsort(instance, kind="stable")])
        ints.add(f"first_plays_{k}", offsets(np.bincount(instance, minlength=kinds[k].count)))


def order_of_played(model: Model, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    at = [layout.owner(p.kind, np.array([p.instance])) for p in model.played]
    owner = np.concatenate([np.zeros(0, np.int64), *at])
    return owner, np.argsort(owner, kind="stable")


def plays_into_events(model: Model, k: int) -> bool:
    """Whether an event block of mechanism `k` reads a parameter that a Vector plays."""
    mechanism, of_kind = model.kinds[k].mechanism, [p for p in model.played if p.kind == k]
    played = {p.parameter for p in of_kind if not p.after_events}
    blocks = [b for b in mechanism.program.blocks if b.startswith(("receive", "watch", "for_net"))]
    read = {a.name for b in blocks for a in mechanism.calls(b) if a.role == "parameter"}
    return bool(played & read)


def entries_come(model: Model, layout: Layout, t: float) -> np.ndarray:
    """Return each played parameter's first entry after `t`, ms, as an index in device order."""
    _, order = order_of_played(model, layout)
    played = [model.played[n] for n in order.tolist()]
    came = np.array([entries_until(p, t) for p in played], np.int32)
    return came + offsets(np.array([len(p.t) for p in played], int))[:-1].astype(np.int32)
