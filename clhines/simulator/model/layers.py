"""Layers: nodes around others (`simulator.cells.around`), which a step solves for with these.

A step solves for the changes of all potentials of a cell at once. Its system is that of a network
of conductances (capacitances are C/dt), in which each node with those around it, a column, is
joined to those of its parent, layer by layer. Eliminating a potential x leaves the conductances
``g_xj g_xk / sum of g_x`` between its neighbours (star to mesh), and columns are eliminated from
the tips of the tree to its root. Nothing is subtracted, so that layers of 1e10 S/cm² beside others
of 1e-9 do not round each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from clhines.core.arrays import inverse, offsets, stretch_of
from clhines.core.errors import InputError
from clhines.simulator.network.structure import Structure
from clhines.solver import reference
from clhines.solver.forest import Forest


@dataclass(frozen=True, eq=False)
class Layers:
    """All nodes of a model as (k, m) columns, k - 1 the layers; `of_cells`, (cells + 1,), bounds.

    The tree is that of the columns, layer by layer with conductances of its own.
    """

    node: np.ndarray  # (k, m) int64: nodes around none, and those around them, or -1
    parent: np.ndarray  # (m,) int64: the column above, which comes before, or -1
    of_cells: np.ndarray
    axial: np.ndarray  # (k, m) float64, µS: to the column above
    g: np.ndarray  # (k, m) float64, µS: to what is around; of row 0, 0
    c: np.ndarray  # (k, m) float64, nF: likewise

    @cached_property
    def _levels(self) -> list[np.ndarray]:
        return reference.elimination_steps(Forest(self.parent, self.of_cells))

    def injected(self, nodes: np.ndarray) -> np.ndarray:
        """Return where the electrodes in nodes inside are: in the node around each, if any."""
        column = inverse(self.node[0], int(self.node.max()) + 1)[nodes]
        around = np.where(column < 0, -1, self.node[1, column])
        return np.where(around < 0, nodes, around)

    def part(self, cells: slice) -> Layers:
        """Return those of some cells, whose nodes count from 0."""
        bounds = self.of_cells[cells.start : cells.stop + 1]
        some = slice(int(bounds[0]), int(bounds[-1]))
        node, above = self.node[:, some], self.parent[some]
        low = int(node[0].min())
        return replace(
            self,
            node=np.where(node < 0, -1, node - low),
            parent=np.where(above < 0, -1, above - some.start),
            of_cells=bounds - some.start,
            **{name: getattr(self, name)[:, some] for name in ("axial", "g", "c")},
        )

    def change(self, d: np.ndarray, b: np.ndarray, v: np.ndarray, dt: float) -> np.ndarray:
        """(n,) float64, mV: change of `v`, (n,), in a step of `dt`, ms, by NumPy.

        `d`, µS, and `b`, nA, (n,) both, are of the membranes of nodes around none. Of those in the
        first layer `b` is the current of electrodes in the nodes inside, of the last their own.
        """
        has = self.node >= 0
        at = np.where(has, self.node, 0)
        potential, right_sides = np.where(has, v[at], 0), np.where(has, b[at], 0)
        potential[0] += potential[1]
        out = self.g * (potential - np.append(potential[1:], potential[:1] * 0, 0))
        out[0] = np.where(has[1], -right_sides[0], 0)  # through membranes
        right = np.append(right_sides[:1], out[:-1], 0) - np.append(right_sides[:1] * 0, out[1:], 0)
        right[0] += right_sides[1]
        right[-1] += right_sides[-1]
        child = np.flatnonzero(self.parent >= 0)
        above = self.parent[child]
        flow = self.axial[:, child] * (potential[:, above] - potential[:, child])
        for row, current in zip(right, flow, strict=True):
            row[child] += current
            row -= np.bincount(above, current, len(row))
        over = self.g + self.c / dt
        over[0] = d[at[0]]
        found = self._solved(over, right.T).T
        found[0] -= found[1]
        change = np.zeros(len(v))
        change[self.node[has]] = found[has]
        return change

    def _solved(self, over: np.ndarray, right: np.ndarray) -> np.ndarray:
        """(m, k) float64, mV: changes of potentials; `right`, nA, is used up."""
        (m, k), has = right.shape, self.node >= 0
        between, ground = np.zeros((m, k, k)), np.zeros((m, k))
        for row in range(k):
            ends = row + 1 == k or np.logical_not(has[row + 1])
            ground[:, row] = np.where(ends, over[row], 0)
            if row + 1 < k:
                between[:, row, row + 1] = np.where(ends, 0, over[row])
        ground.T[~has] = 1  # there is none
        up, total = np.zeros((m, k, k)), np.zeros((m, k))
        up[:, range(k), range(k)] = self.axial.T
        for some in reversed(self._levels):
            above = np.maximum(self.parent[some], 0)
            for x in range(k):
                inner, outer = range(x + 1, k), range(x + 1)
                total[some, x] = ground[some, x] + between[some, x].sum(1) + up[some, x].sum(1)
                part = {j: between[some, x, j] / total[some, x] for j in inner}
                for j, w in part.items():
                    right[some, j] += w * right[some, x]
                    ground[some, j] += w * ground[some, x]
                    up[some, j] += w[:, None] * up[some, x]
                for j, l in combinations(inner, 2):  # noqa: E741
                    between[some, j, l] += part[j] * between[some, x, l]
                for q in outer:
                    w = up[some, x, q] / total[some, x]
                    np.add.at(right[:, q], above, w * right[some, x])
                    np.add.at(ground[:, q], above, w * ground[some, x])
                    for r in range(q + 1, x + 1):
                        np.add.at(between[:, q, r], above, w * up[some, x, r])
        solution = np.zeros((m, k))
        for some in self._levels:
            above = np.maximum(self.parent[some], 0)
            for x in reversed(range(k)):
                flow = right[some, x] + (between[some, x] * solution[some]).sum(1)
                flow += (up[some, x] * solution[above]).sum(1)
                solution[some, x] = flow / total[some, x]
        return solution


def layers_of(structure: Structure, second_order: bool) -> Layers | None:
    """Return the layers around nodes of a network, None where there are none."""
    around, forest = structure.around, structure.forest
    if around is None or len(around.rows) == 1:
        return None
    if second_order:
        raise InputError("secondorder, in a network with nodes around others; expected 0")
    node, g = around.rows, structure.whole("g_axial")
    cell = stretch_of(forest.cell_offsets, node[0])
    of_cells = offsets(np.bincount(cell, minlength=forest.num_cells))
    node = node[:, np.lexsort((_depth(forest)[node[0]], cell))]
    above = forest.parent[node[0]].astype(np.int64)
    parent = np.where(above < 0, -1, inverse(node[0], forest.num_nodes)[above])
    axial = np.zeros(node.shape)
    axial[0] = np.where(parent < 0, 0, g[node[0]])
    child = np.flatnonzero(parent >= 0)
    for row in range(1, len(node)):
        child_node, other = node[row, child], node[row, parent[child]]
        both = (child_node >= 0) & (other >= 0)
        conductance = np.where(forest.parent[child_node] == other, g[child_node], 0)
        conductance = np.where(forest.parent[other] == child_node, g[other], conductance)
        axial[row, child] = np.where(both, conductance, 0)
    has = (node >= 0) & (np.arange(len(node)) > 0)[:, None]
    return Layers(
        node,
        parent,
        of_cells,
        axial,
        np.where(has, around.g[node], 0),
        np.where(has, structure.whole("capacitance")[node], 0),
    )


def _depth(forest: Forest) -> np.ndarray:
    found = np.zeros(forest.num_nodes, np.int64)
    for depth, nodes in enumerate(reference.elimination_steps(forest)):
        found[nodes] = depth
    return found
