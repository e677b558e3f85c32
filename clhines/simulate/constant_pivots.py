"""Pivots that never change: which nodes have them, and their elimination on the host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clhines import reference
from clhines.arrays import ranges, stretch_of
from clhines.forest import Forest
from clhines.network.model import Model


def variable_nodes(model: Model) -> np.ndarray:
    """(num_nodes of all shapes,) bool: nodes at or below which a cell of the shape has instances.

    Roots always.
    """
    forest = model.forest
    trees = forest.trees
    variable = trees.parent < 0
    nodes = np.concatenate([np.zeros(0, np.int64), *(k.node for k in model.kinds)])
    cell = stretch_of(forest.cell_offsets, nodes)
    variable[nodes - forest.cell_offsets[cell] + trees.offsets[forest.shape_of_cell[cell]]] = True
    by_depth = np.argsort(trees.depth, kind="stable")
    cuts = np.flatnonzero(np.diff(trees.depth[by_depth])) + 1
    for deep in reversed(np.split(by_depth, cuts)[1:]):
        variable[trees.parent[deep[variable[deep]]]] = True
    return variable


def variable_in_part(model: Model, network: Model) -> np.ndarray:
    """(num_nodes of all shapes,) bool: as `variable_nodes` of the network, for a part's shapes."""
    whole, shapes = network.forest, model.forest.shape_of_cell
    first = np.unique(shapes, return_index=True)[1] + model.first_cell
    start = whole.trees.offsets[whole.shape_of_cell[first]]
    return variable_nodes(network)[ranges(start, model.forest.trees.sizes)]


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
