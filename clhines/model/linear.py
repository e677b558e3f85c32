"""Linear equations ``c dy/dt + g y = b`` that voltages are part of: NEURON's LinearMechanism.

A step solves for the changes x of voltages, ``H x = r``, where H is the matrix of the cells alone.
With E, a unit vector for each node in equations, and z, the changes of these nodes' voltages and of
unknowns of the equations' own, implicit Euler is

    H x + E (M z) = r + E f  and  M z = f,   M = c/dt + g,   f = b - g y,

the rows of nodes on the left, those of unknowns on the right. So ``x = H^-1 r + W q`` with
``W = H^-1 E`` and currents ``q = f - M z`` (Woodbury), and z is found from the dense system of
``(1 + G M) z = E^T H^-1 r + G f``, with G = E^T W, and of the rows of unknowns. Nodes of different
trees share a unit vector: as many right-hand sides of H are added as one tree has nodes in
equations. x has an error of about eps (1 + ``|G M|``) of its size. The voltage of a node with one
around it (`Layers`) is in equations that inside: the sum of both nodes' v. As layers may have next
to no way to ground but equations, which makes G large, the diagonal D of M is in their H:
``H + E D E^T`` and M - D, with which G is at most 1/D.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clhines.arrays import least_tied, offsets, stretch_of
from clhines.errors import InputError
from clhines.forest import Forest
from clhines.model.layers import Layers

States = Sequence[Mapping[str, np.ndarray]]  # by kind
STATE = "y"  # of `clhines.mechanisms.builtin.UNKNOWN`


@dataclass(frozen=True, eq=False)
class Linear:
    """Equations of `node`, (k,) int64, then of unknowns, which are states of instances of a kind.

    Arrays are (s,) and (s, s) float64, rows of nodes in nA and µS. `implicit` is ``c/dt + g``, the
    factor of the changes in a step; `explicit` that of the values at its begin, g.
    """

    node: np.ndarray
    kind: int  # -1 without unknowns
    instance: np.ndarray  # (s - k,) int64
    implicit: np.ndarray
    explicit: np.ndarray
    b: np.ndarray


class LinearSystems:
    """All linear equations of a model as dense systems, which are independent of each other.

    Rows are nodes, each once, and unknowns, system after system: those of system s are
    ``first[s]:first[s + 1]``. `node` of a row is -1 of an unknown, which is `instance` of `kind`
    then; `outer` is the node around it, -1 of none. `tree` numbers the cells in equations, -1 of an
    unknown, and `column` the nodes of each in them, `columns` at most; `tree_of`, (n,), is that of
    each node, -1 elsewhere. Of the row r, ``begin[r]:begin[r + 1]`` are the entries, with the row
    that is their column as `entry`. `ground`, (n,) µS, is D, 0 without layers.
    """

    def __init__(
        self, linear: Sequence[Linear], forest: Forest, layers: Layers | None = None
    ) -> None:
        keys = [np.stack([np.r_[one.node * 0 - 1, np.full(len(one.instance), one.kind)],
                          np.r_[one.node, one.instance]]) for one in linear]  # fmt: skip
        rows, of = np.unique(np.concatenate(keys, axis=1), axis=1, return_inverse=True)
        of = of.reshape(-1)
        begins = offsets([len(one.b) for one in linear])
        own = [of[a:b] for a, b in zip(begins[:-1], begins[1:], strict=True)]
        at = np.where(rows[0] < 0, rows[1], 0)
        cell = np.where(rows[0] < 0, stretch_of(forest.cell_offsets, at), -1)
        order = self._by_system(cell, own)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self.kind, number, cell = rows[0][order], rows[1][order], cell[order]
        is_node = self.kind < 0
        self.node, self.instance = np.where(is_node, number, -1), np.where(is_node, -1, number)
        self.outer = np.full(len(order), -1)
        if layers is not None:
            around = layers.injected(self.node[is_node])
            self.outer[is_node] = np.where(around == self.node[is_node], -1, around)
        trees, tree = np.unique(cell[is_node], return_inverse=True)
        self.trees, self.tree, self.column = len(trees), cell * 0 - 1, cell * 0
        self.tree[is_node] = tree.reshape(-1)
        for k in range(len(trees)):
            some = np.flatnonzero(self.tree == k)
            self.column[some] = np.arange(len(some))
        self.columns = int(np.bincount(self.tree[is_node], minlength=1).max())
        self.tree_of = np.full(forest.num_nodes, -1)
        for k, one in enumerate(trees.tolist()):
            self.tree_of[forest.cell_offsets[one] : forest.cell_offsets[one + 1]] = k
        self._add_entries(linear, [place[some] for some in own])
        self.ground = np.zeros(forest.num_nodes)
        if layers is not None:
            row = np.repeat(np.arange(len(order)), np.diff(self.begin))
            own_entry = np.flatnonzero((self.entry == row) & is_node[row] & (self.implicit > 0))
            self.ground[self.node[row[own_entry]]] = self.implicit[own_entry]
            self.implicit[own_entry] = 0.0
        self._check()

    def _by_system(self, cell: np.ndarray, own: Sequence[np.ndarray]) -> np.ndarray:
        """Return rows by system, and find where systems begin: a tree ties rows, or an equation."""
        by_cell = np.argsort(cell, kind="stable")
        by_cell = by_cell[cell[by_cell] >= 0]
        same = np.flatnonzero(np.diff(cell[by_cell]) == 0)
        chains = [(some[:-1], some[1:]) for some in own]
        chains.append((by_cell[same], by_cell[same + 1]))
        a, b = (np.concatenate(ends) for ends in zip(*chains, strict=True))
        system = least_tied(len(cell), a, b)
        order = np.argsort(system, kind="stable")
        self.first = offsets(np.unique(system, return_counts=True)[1])
        return order

    def _add_entries(self, linear: Sequence[Linear], own: Sequence[np.ndarray]) -> None:
        count = len(self.node)
        self.b = np.zeros(count)
        at, implicit, explicit = [], [], []
        for one, rows in zip(linear, own, strict=True):
            np.add.at(self.b, rows, one.b)
            i, j = np.nonzero((one.implicit != 0) | (one.explicit != 0))
            at.append(rows[i] * count + rows[j])
            implicit.append(one.implicit[i, j])
            explicit.append(one.explicit[i, j])
        key, of = np.unique(np.concatenate(at), return_inverse=True)
        row, self.entry = np.divmod(key, count)
        self.begin = np.searchsorted(row, np.arange(count + 1))
        self.implicit, self.explicit = (
            np.bincount(of.reshape(-1), np.concatenate(values), len(key))
            for values in (implicit, explicit)
        )

    def _check(self) -> None:
        """Refuse systems without nodes that have no solution: no voltage would show it."""
        for a, b in zip(self.first[:-1], self.first[1:], strict=True):
            if (self.node[a:b] < 0).all() and np.linalg.matrix_rank(self._dense(a, b)) < b - a:
                raise InputError(
                    "linear equations without nodes have no single solution; expected c/dt + g "
                    "to have an inverse"
                )

    def _dense(self, a: int, b: int) -> np.ndarray:
        """(b - a, b - a) float64: the implicit part of a system's rows."""
        found = np.zeros((b - a, b - a))
        row = np.repeat(np.arange(b - a), np.diff(self.begin[a : b + 1]))
        some = slice(self.begin[a], self.begin[b])
        found[row, self.entry[some] - a] = self.implicit[some]
        return found

    @property
    def largest(self) -> int:
        return int(np.diff(self.first).max())

    @property
    def units(self) -> np.ndarray:
        """(columns, n) float64: unit vectors of the nodes, those of different trees together."""
        found, is_node = np.zeros((self.columns, len(self.tree_of))), self.node >= 0
        found[self.column[is_node], self.node[is_node]] = 1.0
        return found

    def _potentials(self, v: np.ndarray) -> np.ndarray:
        """(..., rows) float64: potentials of nodes, of values (..., n) of all; 0 of unknowns."""
        found = np.where(self.node < 0, 0.0, v[..., self.node])
        return found + np.where(self.outer < 0, 0.0, v[..., self.outer])

    def solved(self, x: np.ndarray, w: np.ndarray, v: np.ndarray, states: States) -> np.ndarray:
        """(n,) float64: changes of voltages, by NumPy; unknowns in `states` change.

        `x`, (n,), is the solution of the cells alone and `w`, (columns, n), that of `units`.
        """
        is_node, row = self.node >= 0, np.repeat(np.arange(len(self.node)), np.diff(self.begin))
        y, reached = self._potentials(v), self._potentials(w)
        for k in np.unique(self.kind[~is_node]).tolist():
            y[self.kind == k] = states[k][STATE][self.instance[self.kind == k]]
        alone = self._potentials(x)
        z, current = np.zeros(len(y)), np.zeros((self.columns, self.trees))
        f = self.b - np.bincount(row, self.explicit * y[self.entry], len(y))
        for a, b in zip(self.first[:-1], self.first[1:], strict=True):
            own = slice(a, b)
            m = self._dense(a, b)
            near = is_node[own, None] & (self.tree[own, None] == self.tree[None, own])
            g = np.where(near, reached[self.column[own], own].T, 0.0) if near.any() else m
            g = np.where(is_node[own, None], g, np.eye(b - a))
            left, right = g @ m + np.diag(is_node[own] * 1.0), g @ f[own]
            try:
                z[own] = np.linalg.solve(left, right + alone[own])
            except np.linalg.LinAlgError:  # a run says where voltages are no numbers
                z[own] = np.nan
            nodes = np.flatnonzero(is_node[own])
            current[self.column[own][nodes], self.tree[own][nodes]] = (f[own] - m @ z[own])[nodes]
        for k in np.unique(self.kind[~is_node]).tolist():
            states[k][STATE][self.instance[self.kind == k]] += z[self.kind == k]
        at = np.flatnonzero(self.tree_of >= 0)
        found = x.copy()
        found[at] += (w[:, at] * current[:, self.tree_of[at]]).sum(axis=0)
        return found
