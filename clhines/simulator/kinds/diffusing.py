"""Arenas of states that diffuse along cells: where their values are, and rows of their systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from clhines.core.arrays import inverse, stretch_of
from clhines.simulator.kinds.layouts import Layout
from clhines.simulator.model.diffusion import DiffusingRows, Diffusion
from clhines.simulator.model.model import Model
from clhines.simulator.state.arena import Arena


def diffusing_places(
    model: Model,
    layout: Layout,
    offset: Mapping[str, int],
    instances: Callable[[Diffusion], np.ndarray],
) -> np.ndarray:
    """(3, n) int64: where in ``mem`` `instances` have state, volume and coefficient.

    State after state of one kind after the other, of whose instances `offset` has the regions.
    """
    places = [np.zeros((3, 0), np.int64)]
    for one in model.diffusions:
        kind, rows = model.kinds[one.kind], instances(one)
        columns = layout.columns(one.kind, kind)
        states = [q.name for q in kind.mechanism.program.states]
        for line, name in enumerate(one.names):
            lines = offset[f"diffusing_{one.kind}"] + np.stack(
                [columns.at(rows, 2 * line + k, 2 * len(one.names)) for k in range(2)]
            )
            value = (
                offset[f"states_{one.kind}"] + columns.at(rows, states.index(name), len(states))
                if name in states
                else offset[f"ion_{name}"] + layout.number(kind.node[rows])
            )
            places.append(np.stack([value, *lines]))
    return np.concatenate(places, axis=1)


def add_diffusing_rows(
    model: Model, layout: Layout, mem: Arena, ints: Arena, order: np.ndarray
) -> DiffusingRows:
    """Add the rows of what diffuses, of cells in an `order`, and room for their systems."""
    rank = inverse(order)
    nodes = [model.kinds[one.kind].node for one in model.diffusions]
    cells = [rank[stretch_of(model.forest.cell_offsets, node)] for node in nodes]
    rows = DiffusingRows(model.diffusions, cells, len(order))
    places = diffusing_places(model, layout, mem.offset, lambda one: np.arange(len(one.parent)))
    for name, at in zip(("value", "volume", "flow"), places[:, rows.entry], strict=True):
        ints.add(f"diffusing_{name}", at)
    ints.add("diffusing_above", rows.above)
    ints.add("diffusing_children", rows.children.T)
    ints.add("diffusing_levels", rows.first)
    mem.add("diffusing_up", rows.up)
    mem.add("diffusing_down", rows.down)
    for name in ("pivot", "right", "upper", "lower"):
        mem.room(f"diffusing_{name}", (len(rows.entry),))
    return rows
