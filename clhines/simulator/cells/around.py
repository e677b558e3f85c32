"""Nodes that enclose others: extracellular layers, as in NEURON's `extracellular`.

A node's membrane current flows to ground, or into its enclosing node, and from there through a
conductance and a capacitance into the next one. Nodes around neighbours may be neighbours, too.
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
    """For each node, the extracellular node around it, and the conductance between the two."""

    node: np.ndarray  # (n,) int64: the enclosing node, or -1
    g: np.ndarray  # (n,) float64, µS: from an enclosing node to its own one, or to ground

    @cached_property
    def inner(self) -> np.ndarray:
        inner = np.ones(len(self.node), bool)
        inner[self.node[self.node >= 0]] = False
        return inner

    @cached_property
    def rows(self) -> np.ndarray:
        """Nodes by layer, (layers + 1, m) int64: row 0 has the inner nodes, ascending.

        Row k has the layer-k node around each inner node, -1 if there is none.
        """
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
    """Check the arguments `around` and `g_around` of `Network.from_arrays`, and convert them."""
    n = forest.num_nodes
    node = as_array("around", around)
    values = np.zeros(n) if g_around is None else as_array("g_around", g_around, unit="uS")
    g = as_real("g_around", values)
    for name, array in (("around", node), ("g_around", g)):
        if array.shape != (n,):
            raise InputError(f"{name} has shape {array.shape}; expected ({n},), one for each node")
    if node.dtype.kind not in "iu" or (node < -1).any() or (node >= n).any():
        raise InputError(f"around has other values than -1 and whole numbers below {n}")
    enclosing = Enclosing(node.astype(np.int64), g)
    if not enclosing.inner.any():
        raise InputError("each node is around another or itself; expected nodes inside all layers")
    inside = np.flatnonzero(enclosing.node >= 0)
    cell = stretch_of(forest.cell_offsets, np.arange(n))
    times = np.bincount(enclosing.node[inside], minlength=n)
    outer, rows = times > 0, enclosing.rows
    other_cell = inside[cell[enclosing.node[inside]] != cell[inside]]
    layered = rows[:, rows[1] >= 0] if len(rows) > 1 else rows[:, :0]
    fewer_layers = layered[:, (layered < 0).any(0)][0]
    strays = _strays(forest.parent, g_axial, rows)
    for wrong, what in (
        (times > 1, "is around several nodes"),
        (_mask(other_cell, n), "has a node of another cell around it"),
        (~_mask(rows[rows >= 0], n), "is around itself"),
        (_mask(fewer_layers, n), "has fewer layers around it than others"),
        (outer & (area > 0), "is around another and has an area"),
        (~outer & (g != 0), "is around none and has a g_around"),
        (g < 0, "has a g_around below 0"),
        (outer & (forest.parent < 0), "is around another and is a root or soma"),
        (
            strays,
            "is connected to one that is not around a neighbour of the node that it is around",
        ),
    ):
        if wrong.any():
            raise InputError(f"node {int(np.argmax(wrong))} {what}")
    if len(rows) == 2:
        raise InputError("there is one layer around nodes; expected two or more")
    return enclosing


def _mask(nodes: np.ndarray, n: int) -> np.ndarray:
    mask = np.zeros(n, bool)
    mask[nodes] = True
    return mask


def _strays(parent: np.ndarray, g_axial: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return which nodes are connected to another layer or to a distant node, (n,) bool."""
    n = len(parent)
    layer, column = np.zeros(n, np.int64), inverse(rows[0], n)
    for k, nodes in enumerate(rows):
        layer[nodes[nodes >= 0]], column[nodes[nodes >= 0]] = k, np.flatnonzero(nodes >= 0)
    child = np.flatnonzero((parent >= 0) & ((g_axial != 0) | (layer == 0)))
    above = parent[child]
    inner, other = rows[0][column[child]], rows[0][column[above]]
    joined = (parent[inner] == other) | (parent[other] == inner)
    return _mask(child[(layer[child] != layer[above]) | ~joined], n)
