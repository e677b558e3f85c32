"""Nodes of blocks on CPUs: which have pivots that never change, and which the same mechanisms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines import reference
from clhines.arrays import by_level, ranges, stretch_of
from clhines.forest import Forest, Trees
from clhines.model.model import Model


def variable_nodes(model: Model) -> np.ndarray:
    """(num_nodes of all shapes,) bool: roots, and nodes at or below which a cell has instances."""
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
    forest: Forest, d: np.ndarray, u: np.ndarray, constant: np.ndarray, steps: Sequence[np.ndarray]
) -> np.ndarray:
    """(n,) float64: pivots of the constant nodes, and the reduced diagonal of the others."""
    left = d.copy()
    for nodes in reversed(steps[1:]):
        some = nodes[constant[nodes]]
        np.subtract.at(left, forest.parent[some], u[some] ** 2 / left[some])
    return left


class ConstantPivots:
    """What constant mechanisms and pivots that never change give nodes, by slot and lane.

    `arrays` on the device are constant conductances, constant currents, reduced diagonals of the
    slots that are `moving` (whose pivots change), and inverse pivots.
    """

    def __init__(
        self,
        model: Model,
        node: np.ndarray,
        variable: np.ndarray,
        queue: cl.CommandQueue,
        dtype: np.dtype,
    ) -> None:
        forest = model.forest
        within = np.arange(forest.num_nodes) - np.repeat(forest.cell_offsets[:-1], forest.sizes)
        start = np.repeat(forest.trees.offsets[forest.shape_of_cell], forest.sizes)
        self._constant = ~variable[start + within]
        self._model, self._node, self._queue, self._dtype = model, node, queue, dtype
        self._steps = reference.elimination_steps(forest) if self._constant.any() else []
        self.moving = ~self._constant[node[:, 0]]
        values = self._values(model.constant_d, model.constant_b, model.constant_g)
        put = partial(cla.to_device, queue)
        self.arrays = [put(np.ascontiguousarray(a.reshape(-1))) for a in values]

    def set(self, d: np.ndarray, b: np.ndarray, g: np.ndarray) -> None:
        """Take other `Model.constant_d`, `constant_b` and `constant_g`."""
        values = self._values(d, b, g)
        for array, new in zip(self.arrays, values[: None if self._steps else 3]):
            array.set(new.reshape(-1), self._queue)

    def _values(
        self, constant_d: np.ndarray, constant_b: np.ndarray, constant_g: np.ndarray
    ) -> list[np.ndarray]:
        """Values of `arrays`."""
        model, constant, node = self._model, self._constant, self._node
        total = model.capacitance_over_dt + constant_d
        left = total
        if self._steps:
            left = eliminate_constant(model.forest, total, model.u, constant, self._steps)
        inverse = np.where(constant, 1 / left, 0.0)
        found = constant_g[node], constant_b[node], left[node[self.moving]], inverse[node]
        return [a.astype(self._dtype) for a in found]
