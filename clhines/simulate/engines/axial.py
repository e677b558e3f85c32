"""Axial currents of a network: a step solves for changes of v, as NEURON does.

The conductance between two short compartments is thousands of times C/dt. A right-hand side C/dt v
would be solved with a matrix whose rows round v beside that conductance; differences of neighbours'
voltages keep what such a rounding loses:

    A dv = sum over neighbours of g_axial (v_neighbour - v) - i,    v + dv is the new voltage
"""

from __future__ import annotations

import numpy as np

from clhines.forest import Forest


def axial_currents(forest: Forest, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """(n,) float64, nA: from neighbours into each node; `u`, µS, is minus the conductance."""
    child = np.flatnonzero(forest.parent >= 0)
    parent = forest.parent[child]
    flow = u[child] * (v[child] - v[parent])
    found = np.zeros(forest.num_nodes)
    found[child] = flow
    return found - np.bincount(parent, flow, forest.num_nodes)


def neighbours(forest: Forest) -> np.ndarray:
    """(3, n) int64: of each node the parent, the first child, and the parent's next child.

    They are -1 where there is none; children come in ascending order.
    """
    found = np.full((3, forest.num_nodes), -1)
    found[0] = forest.parent
    child = np.flatnonzero(forest.parent >= 0)
    child = child[np.argsort(forest.parent[child], kind="stable")]
    parent = forest.parent[child]
    is_first = np.diff(parent, prepend=-1) != 0
    found[1, parent[is_first]] = child[is_first]
    later = np.flatnonzero(~is_first)
    found[2, child[later - 1]] = child[later]
    return found


def placed_neighbours(forest: Forest, gather: np.ndarray, place: np.ndarray) -> np.ndarray:
    """(3, places) int32: `neighbours` of the node at each place of an order, as places.

    `gather` is the node at each place, -1 for none, and `place` that of each node.
    """
    found = neighbours(forest)
    placed = np.where(found < 0, -1, place[found])
    return np.ascontiguousarray(np.where(gather < 0, -1, placed[:, gather]), np.int32)
