"""Nodes of blocks on CPUs: which have pivots that never change, and which the same mechanisms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clhines import reference
from clhines.arrays import by_level, ranges, stretch_of
from clhines.forest import Forest, Trees
from clhines.model.model import Model


def variable_nodes(model: Model) -> np.ndarray:
    """(num_nodes of all shapes,) bool: nodes at or below which a cell of the shape has instances.

    Roots always.
    """
    trees = model.forest.trees
    variable = trees.parent < 0
    for kind in model.kinds:
        variable[_in_shapes(model.forest, kind.node)] = True
    for deep in reversed(by_level(trees.depth)[1:]):
        variable[trees.parent[deep[variable[deep]]]] = True
    return variable


def _in_shapes(forest: Forest, nodes: np.ndarray) -> np.ndarray:
    """Return the nodes of the shapes that nodes of cells are."""
    cell = stretch_of(forest.cell_offsets, nodes)
    return nodes - forest.cell_offsets[cell] + forest.trees.offsets[forest.shape_of_cell[cell]]


def node_classes(model: Model) -> np.ndarray:
    """(num_nodes of all shapes,) int64: number of the set of kinds that cells of the shape have."""
    classes = np.zeros(len(model.forest.trees.parent), np.int64)
    for kind in model.kinds:
        if kind.mechanism.kind == "artificial":
            continue
        there = np.zeros(len(classes), np.int64)
        there[_in_shapes(model.forest, kind.node)] = 1
        classes = np.unique(2 * classes + there, return_inverse=True)[1].reshape(-1)
    return classes


def class_changes(trees: Trees, classes: np.ndarray) -> np.ndarray:
    """(num_nodes of all shapes,) int64: how often the class changes from a node to its root."""
    changes = ((classes != classes[trees.parent]) & (trees.parent >= 0)).astype(np.int64)
    for nodes in by_level(trees.depth)[1:]:
        changes[nodes] += changes[trees.parent[nodes]]
    return changes


def nodes_in_part(model: Model, network: Model) -> np.ndarray:
    """(num_nodes of all shapes,) int64: the nodes of the network's shapes that a part's are."""
    whole, shapes = network.forest, model.forest.shape_of_cell
    first = np.unique(shapes, return_index=True)[1] + model.first_cell
    start = whole.trees.offsets[whole.shape_of_cell[first]]
    return ranges(start, model.forest.trees.sizes)


def eliminate_constant(
    forest: Forest,
    d: np.ndarray,
    u: np.ndarray,
    constant: np.ndarray,
    steps: Sequence[np.ndarray] | None = None,
) -> np.ndarray:
    """(n,) float64: pivots of the constant nodes, and the reduced diagonal of the others.

    Parameters
    ----------
    d, u : (n,) float64
    constant : (n,) bool
    steps : sequence of integer arrays, optional
        `reference.elimination_steps` of the forest.
    """
    left = d.copy()
    for nodes in reversed((steps or reference.elimination_steps(forest))[1:]):
        some = nodes[constant[nodes]]
        np.subtract.at(left, forest.parent[some], u[some] ** 2 / left[some])
    return left
