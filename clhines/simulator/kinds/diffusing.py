"""Diffusion of states along cells: their indices in arenas, and the rows of the matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from clhines.core.arrays import inverse, offsets, starts, stretch_of
from clhines.simulator.kinds.layouts import Layout
from clhines.simulator.model.diffusion import Diffusion
from clhines.simulator.model.model import Model
from clhines.simulator.state.arena import Arena
from clhines.solver.plan.by_segment.schedule import Contraction, contract

ROW_REALS = 6  # a row's numbers during the elimination


class DiffusingRows:
    """Matrix rows for all diffusing states: cell after cell, in elimination rounds.

    The leaves are the first round, then come the rounds of `contract`, and the roots are the last:

        0-1-2-3-4       rounds of this tree: {4, 6}, {3, 5}, {2}, {1}, {0}
          +-5-6

    - `entry`: each row's index among all states, ordered by mechanism, state, then instance
    - `above`: the parent's row, -1 for roots
    - `child`: a row's children are ``child[a:b]`` with ``a, b = first_child[row : row + 2]``
    - `links`, (n, 2): a row's parent and child when it is eliminated, -1 for none
    - `rounds`: round count of all cells; `first`: cell c's round k begins at row
      ``first[c * rounds + k]``
    """

    @property
    def most(self) -> int:
        """The most rows in a cell."""
        return int(np.diff(self.first[:: self.rounds]).max(initial=0))

    def __init__(
        self, diffusions: Sequence[Diffusion], cells: Sequence[np.ndarray], num_cells: int
    ) -> None:
        each_state = [(one, cell) for one, cell in zip(diffusions, cells) for _ in one.names]
        none = np.zeros(0, np.int64)
        begin = starts(np.array([len(cell) for _, cell in each_state], np.int64))
        above = [
            np.where(one.parent < 0, -1, one.parent + k) for (one, _), k in zip(each_state, begin)
        ]
        parent = np.concatenate([none, *above])
        cell = np.concatenate([none, *(cell for _, cell in each_state)])
        plan = contract(parent)
        last = int(plan.round.max(initial=-1, where=plan.round != Contraction.KEPT)) + 1
        turn = np.where(plan.round == Contraction.KEPT, last, plan.round) + 1
        self.rounds = last + 2
        key = cell * self.rounds + turn
        self.entry = np.argsort(key, kind="stable")
        row = np.append(inverse(self.entry), -1)  # the last entry: no row
        self.above = row[parent[self.entry]]
        self.links = np.stack((row[plan.parent[self.entry]], row[plan.child[self.entry]]), axis=1)
        self.first = np.searchsorted(key[self.entry], np.arange(num_cells * self.rounds + 1))
        order = np.argsort(self.above, kind="stable")
        self.child = order[self.above[order] >= 0]
        self.first_child = offsets(np.bincount(self.above[self.child], minlength=len(self.entry)))
        self.up, self.down = (
            np.concatenate([np.zeros(0), *(getattr(one, name) for one, _ in each_state)])[
                self.entry
            ]
            for name in ("up", "down")
        )


def diffusing_places(model: Model, layout: Layout, offset: Mapping[str, int]) -> np.ndarray:
    """Return the indices in ``mem`` of states, their volumes and coefficients, (3, n) int64.

    They are ordered by mechanism, then state, then instance. `offset` has the regions' offsets.
    """
    places = [np.zeros((3, 0), np.int64)]
    for one in model.diffusions:
        kind, rows = model.kinds[one.kind], np.arange(len(one.parent))
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
    """Add the matrix rows for diffusing states, cell by cell in `order`, and memory to solve."""
    rank = inverse(order)
    nodes = [model.kinds[one.kind].node for one in model.diffusions]
    cells = [rank[stretch_of(model.forest.cell_offsets, node)] for node in nodes]
    rows = DiffusingRows(model.diffusions, cells, len(order))
    places = diffusing_places(model, layout, mem.offset)
    for name, at in zip(("value", "volume", "flow"), places[:, rows.entry], strict=True):
        ints.add(f"diffusing_{name}", at)
    for name in ("above", "links", "child", "first_child"):
        ints.add(f"diffusing_{name}", getattr(rows, name))
    ints.add("diffusing_rounds", rows.first)
    mem.add("diffusing_up", rows.up)
    mem.add("diffusing_down", rows.down)
    mem.room("diffusing_numbers", (ROW_REALS * len(rows.entry),))
    return rows
