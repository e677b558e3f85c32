"""Around: nodes that lie around others, so that a membrane's current flows into them.

The current through the membrane of a node goes to the ground, or into the node around it, from
there through a conductance and a capacitance into the next one, and so on: layers outside of a
cell, as those of NEURON's `extracellular`. The nodes around neighbours may be neighbours, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.arrays import inverse, shifted, stretch_of
from clhines.core.checks import as_array, as_real
from clhines.core.errors import InputError
from clhines.solver.forest import Forest


@dataclass(frozen=True, eq=False)
class Enclosing:
    """Nodes around others."""

    node: np.ndarray  # (n,) int64: the one around each, -1 for none
    g: np.ndarray  # (n,) float64, µS: from one that is around another to what is around it

    @cached_property
    def inner(self) -> np.ndarray:
        """(n,) bool: nodes that are around none."""
        inner = np.ones(len(self.node), bool)
        inner[self.node[self.node >= 0]] = False
        return inner

    @cached_property
    def rows(self) -> np.ndarray:
        """(layers + 1, m) int64: nodes that are around none, ascending, and those around them."""
        rows = [np.flatnonzero(self.inner)]
        while (rows[-1] >= 0).any() and len(rows) <= len(self.node):
            rows.append(np.where(rows[-1] < 0, -1, self.node[rows[-1]]))
        return np.array(rows[:-1])

    def copied(self, count: int) -> Enclosing:
        n = len(self.node)
        node = np.where(np.tile(self.node, count) < 0, -1, shifted(self.node, n, count))
        return Enclosing(node, np.tile(self.g, count))


def as_around(
    forest: Forest,
    area: np.ndarray,
    g_axial: np.ndarray,
    around: ArrayLike,
    g_around: ArrayLike | None,
) -> Enclosing:
    """Check the nodes around others of a network; see `Network.from_arrays`."""
    n = forest.num_nodes
    node = as_array("around", around)
    given = np.zeros(n) if g_around is None else as_array("g_around", g_around, unit="uS")
    g = as_real("g_around", given)
    for name, array in (("around", node), ("g_around", g)):
        if array.shape != (n,):
            raise InputError(f"{name} has shape {array.shape}; expected ({n},), one for each node")
    if node.dtype.kind not in "iu" or (node < -1).any() or (node >= n).any():
        raise InputError(f"around has other values than -1 and whole numbers below {n}")
    found = Enclosing(node.astype(np.int64), g)
    has = np.flatnonzero(found.node >= 0)
    cell = stretch_of(forest.cell_offsets, np.arange(n))
    times = np.bincount(found.node[has], minlength=n)
    outer = times > 0
    rows = found.rows
    some = rows[:, rows[1] >= 0] if len(rows) > 1 else rows[:, :0]
    for wrong, what in (
        (times > 1, "is around several nodes"),
        (_of(has[cell[found.node[has]] != cell[has]], n), "has a node of another cell around it"),
        (_of(np.setdiff1d(np.arange(n), rows), n), "is around itself"),
        (_of(some[:, (some < 0).any(0)][0], n), "has fewer layers around it than others"),
        (outer & (area > 0), "is around another and has an area"),
        (~outer & (g != 0), "is around none and has a g_around"),
        (g < 0, "has a g_around below 0"),
        (outer & (forest.parent < 0), "is around another and is a root or soma"),
        (_strays(forest.parent, g_axial, rows), "is connected to one that is not around"
         " a neighbour of the node that it is around"),
    ):  # fmt: skip
        if wrong.any():
            raise InputError(f"node {int(np.argmax(wrong))} {what}")
    if len(rows) == 2:
        raise InputError("there is one layer around nodes; expected two or more")
    return found


def _of(nodes: np.ndarray, n: int) -> np.ndarray:
    mask = np.zeros(n, bool)
    mask[nodes] = True
    return mask


def _strays(parent: np.ndarray, g_axial: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(n,) bool: nodes connected to others than those of their layer at a neighbour."""
    n = len(parent)
    layer, column = np.zeros(n, np.int64), inverse(rows[0], n)
    for k, nodes in enumerate(rows):
        layer[nodes[nodes >= 0]], column[nodes[nodes >= 0]] = k, np.flatnonzero(nodes >= 0)
    child = np.flatnonzero((parent >= 0) & ((g_axial != 0) | (layer == 0)))
    above = parent[child]
    own, other = rows[0][column[child]], rows[0][column[above]]
    joined = (parent[own] == other) | (parent[other] == own)
    return _of(child[(layer[child] != layer[above]) | ~joined], n)
