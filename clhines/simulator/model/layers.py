"""Extracellular layers: nodes around other nodes (`simulator.cells.around`), and their step.

A step solves for the changes of all potentials in a cell at once. An intracellular node with the
nodes around it is a column. The system is a network of conductances, where capacitances are C/dt:

    layer 2      o ------ o ------ o     `axial[2]`
                 |        |        |     `g[2]`, `c[2]` to the next layer, or to ground
    layer 1      o ------ o ------ o     `axial[1]`
                 |        |        |     membrane
    inside       o ------ o ------ o     `axial[0]`
                root      column    tip

Columns are eliminated from the tree's tips to its root. Eliminating a potential x leaves the
conductances ``g_xj g_xk / sum of g_x`` between its neighbours (star to mesh). Nothing is
subtracted, so layers of 1e10 S/cm² beside layers of 1e-9 do not round each other.
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
    """The nodes of a model with extracellular layers, as m columns with k nodes each.

    A column has an intracellular node in row 0 and the k - 1 nodes around it. The columns form
    trees; each row has its own axial conductances.
    """

    node: np.ndarray  # (k, m) int64: the inside nodes, then the nodes around them, or -1
    parent: np.ndarray  # (m,) int64: the parent column, which comes before, or -1
    of_cells: np.ndarray  # (cells + 1,) int64: cells' bounds among columns
    axial: np.ndarray  # (k, m) float64, µS: conductance to the parent column
    g: np.ndarray  # (k, m) float64, µS: conductance to the next layer or ground; row 0 is 0
    c: np.ndarray  # (k, m) float64, nF: capacitance to the next layer or ground; row 0 is 0

    @cached_property
    def forest(self) -> Forest:
        return Forest(self.parent, self.of_cells)

    @cached_property
    def _levels(self) -> list[np.ndarray]:
        return reference.elimination_steps(self.forest)

    def injected(self, nodes: np.ndarray) -> np.ndarray:
        """Return the nodes into which electrodes at `nodes` inject: the enclosing nodes, if any."""
        column = inverse(self.node[0], int(self.node.max()) + 1)[nodes]
        around = np.where(column < 0, -1, self.node[1, column])
        return np.where(around < 0, nodes, around)

    def part(self, cells: slice) -> Layers:
        """Return the layers for a range of cells, with nodes numbered from 0."""
        bounds = self.of_cells[cells.start : cells.stop + 1]
        columns = slice(int(bounds[0]), int(bounds[-1]))
        node, above = self.node[:, columns], self.parent[columns]
        low = int(node[0].min())
        return replace(
            self,
            node=np.where(node < 0, -1, node - low),
            parent=np.where(above < 0, -1, above - columns.start),
            of_cells=bounds - columns.start,
            **{name: getattr(self, name)[:, columns] for name in ("axial", "g", "c")},
        )

    def change(self, d: np.ndarray, b: np.ndarray, v: np.ndarray, dt: float) -> np.ndarray:
        """Return the change in `v`, (n,) float64, mV, in a step of `dt`, ms.

        At intracellular nodes `d`, µS, and `b`, nA, (n,), are the membrane's diagonal and right
        side. At nodes in the first layer `b` is the current from electrodes in the nodes that they
        enclose; at nodes in the last layer it is the current from electrodes there.
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
        solution = self._solve(over, right.T).T
        solution[0] -= solution[1]
        change = np.zeros(len(v))
        change[self.node[has]] = solution[has]
        return change

    def _solve(self, over: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Solve for the potential changes, (m, k) float64, mV; overwrite `right`, nA.

        `over` has each node's conductance to the node around it, or to ground, µS.
        """
        (m, k), has = right.shape, self.node >= 0
        between, ground = np.zeros((m, k, k)), np.zeros((m, k))
        for row in range(k):
            ends = row + 1 == k or np.logical_not(has[row + 1])
            ground[:, row] = np.where(ends, over[row], 0)
            if row + 1 < k:
                between[:, row, row + 1] = np.where(ends, 0, over[row])
        ground.T[~has] = 1  # no node: any pivot
        up, total = np.zeros((m, k, k)), np.zeros((m, k))
        up[:, range(k), range(k)] = self.axial.T
        for columns in reversed(self._levels):
            above = np.maximum(self.parent[columns], 0)
            for x in range(k):
                inner, outer = range(x + 1, k), range(x + 1)
                total[columns, x] = (
                    ground[columns, x] + between[columns, x].sum(1) + up[columns, x].sum(1)
                )
                part = {j: between[columns, x, j] / total[columns, x] for j in inner}
                for j, w in part.items():
                    right[columns, j] += w * right[columns, x]
                    ground[columns, j] += w * ground[columns, x]
                    up[columns, j] += w[:, None] * up[columns, x]
                for j, l in combinations(inner, 2):
                    between[columns, j, l] += part[j] * between[columns, x, l]
                for q in outer:
                    w = up[columns, x, q] / total[columns, x]
                    np.add.at(right[:, q], above, w * right[columns, x])
                    np.add.at(ground[:, q], above, w * ground[columns, x])
                    for r in range(q + 1, x + 1):
                        np.add.at(between[:, q, r], above, w * up[columns, x, r])
        solution = np.zeros((m, k))
        for columns in self._levels:
            above = np.maximum(self.parent[columns], 0)
            for x in reversed(range(k)):
                flow = right[columns, x] + (between[columns, x] * solution[columns]).sum(1)
                flow += (up[columns, x] * solution[above]).sum(1)
                solution[columns, x] = flow / total[columns, x]
        return solution


def layers_of(structure: Structure, second_order: bool) -> Layers | None:
    around, forest = structure.around, structure.forest
    if around is None:
        return None
    if second_order:
        raise InputError("secondorder, in a network with extracellular layers; expected 0")
    node, g = around.rows, structure.whole("g_axial")
    cell = stretch_of(forest.cell_offsets, node[0])
    of_cells = offsets(np.bincount(cell, minlength=forest.num_cells))
    node = node[:, np.lexsort((reference.depths(forest)[node[0]], cell))]
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
