"""Slow and plain float64 solvers, with which tests compare every kernel."""

from __future__ import annotations

import numpy as np

from clhines.core.arrays import by_level, ranges, stretch_of
from clhines.core.errors import PivotError
from clhines.core.quantities import check_no_units
from clhines.solver.forest import Forest


def solve_serial(
    forest: Forest, d: np.ndarray, u: np.ndarray, b: np.ndarray, l: np.ndarray | None = None
) -> np.ndarray:
    """Solve with the serial Hines algorithm (Hines 1984; Huber 2018, listing 2), in float64.

    Nodes of one depth are handled together over all cells, deepest first: fast enough for a few
    million nodes.

    Parameters
    ----------
    d, u : (n,) real
        Diagonal; entries between each node and its parent (ignored at roots).
    b : (n,) or (k, n) real
    l : (n,) real, optional
        ``A[i, parent[i]]`` if it differs from ``u[i] = A[parent[i], i]``.

    Returns
    -------
    (n,) or (k, n) float64

    Raises
    ------
    PivotError
        A pivot is zero, negative, NaN or infinite.
    """
    x, pivots = solve_with_pivots(forest, d, u, b, l)
    if not ((pivots > 0) & np.isfinite(pivots)).all():
        for nodes in reversed(elimination_steps(forest)):
            _check_pivots(forest, pivots, nodes)
    return x


def solve_with_pivots(
    forest: Forest,
    d: np.ndarray,
    u: np.ndarray,
    b: np.ndarray,
    l: np.ndarray | None = None,
    steps: list[np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Solve as `solve_serial` does, but return the pivots instead of raising an error.

    Parameters
    ----------
    steps : list of (m,) int64, optional
        Result of `elimination_steps(forest)`, to avoid recomputing it in every call.

    Returns
    -------
    x : (n,) or (k, n) float64
        Meaningless in cells with a bad pivot.
    pivots : (n,) float64
    """
    check_no_units(d=d, u=u, l=l, b=b)
    lower = u if l is None else l
    steps = elimination_steps(forest) if steps is None else steps
    diag = np.array(d, np.float64)
    x = np.atleast_2d(np.array(b, np.float64))
    parent = forest.parent
    upper, lower = np.asarray(u, np.float64), np.asarray(lower, np.float64)
    with np.errstate(all="ignore"):  # bad pivots show in the result
        for nodes in reversed(steps[1:]):
            up = parent[nodes]
            f = upper[nodes] / diag[nodes]
            np.subtract.at(diag, up, f * lower[nodes])
            for row in x:
                np.subtract.at(row, up, f * row[nodes])
        x[:, steps[0]] /= diag[steps[0]]
        for nodes in steps[1:]:
            x[:, nodes] = (x[:, nodes] - lower[nodes] * x[:, parent[nodes]]) / diag[nodes]
    return x.reshape(np.shape(b)), diag


def elimination_steps(forest: Forest) -> list[np.ndarray]:
    """Return the nodes of each depth, roots first; nodes of one depth are independent."""
    return by_level(depths(forest))


def depths(forest: Forest) -> np.ndarray:
    """Return the number of nodes between each node and its root, which has 0, (n,) integer."""
    begin = forest.trees.offsets[forest.shape_of_cell]
    depth: np.ndarray = forest.trees.depth[ranges(begin, forest.sizes)]
    return depth


def _check_pivots(forest: Forest, diag: np.ndarray, nodes: np.ndarray) -> None:
    pivots = diag[nodes]
    bad = ~((pivots > 0) & np.isfinite(pivots))
    if bad.any():
        node = int(nodes[bad].min())
        cell = int(stretch_of(forest.cell_offsets, node))
        raise pivot_error(forest, cell, node, float(diag[node]))


def pivot_error(forest: Forest, cell: int, node: int, value: float | None = None) -> PivotError:
    """Return the error for a bad pivot; its message names the cell and the node."""
    local = node - int(forest.cell_offsets[cell])
    got = "" if value is None else f" {value:.6g}"
    return PivotError(
        f"cell {cell}, node {node} (number {local} of its cell): pivot{got} is zero, negative, "
        "NaN or infinite; expected positive and finite",
        cell,
        node,
    )


def dense(
    forest: Forest, d: np.ndarray, u: np.ndarray, l: np.ndarray | None = None, cell: int = 0
) -> np.ndarray:
    """Return the (m, m) float64 matrix of one cell, in natural order."""
    check_no_units(d=d, u=u, l=l)
    lo, hi = forest.cell_offsets[cell : cell + 2]
    matrix = np.diag(np.asarray(d[lo:hi], np.float64))
    parent = forest.parent[lo:hi] - lo
    i = np.flatnonzero(forest.parent[lo:hi] >= 0)
    matrix[parent[i], i] = u[lo:hi][i]
    matrix[i, parent[i]] = (u if l is None else l)[lo:hi][i]
    return matrix


def multiply(
    forest: Forest, d: np.ndarray, u: np.ndarray, x: np.ndarray, l: np.ndarray | None = None
) -> np.ndarray:
    """Return A x in float64 for x of shape (n,) or (k, n)."""
    check_no_units(d=d, u=u, l=l, x=x)
    inner = np.flatnonzero(forest.parent >= 0)
    up = forest.parent[inner]
    lower = np.asarray(u if l is None else l, np.float64)[inner]
    x64 = np.atleast_2d(np.asarray(x, np.float64))
    y = x64 * np.asarray(d, np.float64)
    y[:, inner] += lower * x64[:, up]
    for row, values in zip(y, x64, strict=True):
        row += np.bincount(up, np.asarray(u, np.float64)[inner] * values[inner], len(row))
    return y.reshape(np.shape(x))


def condition(
    forest: Forest, d: np.ndarray, u: np.ndarray, b: np.ndarray, x: np.ndarray
) -> np.ndarray:
    """Return each x's largest error per unit of componentwise backward error.

    A solution with the backward error w (Oettli-Prager, see `residual`) is wrong by at most w times
    ``|A^-1| (|A| |x| + |b|)`` (Bauer and Skeel; Higham 2002, theorem 7.4). If no entry off the
    diagonal is positive and all pivots are, A is an M-matrix: no entry of its inverse is negative,
    and one solve gives this bound exactly.

    Returns
    -------
    (n,) float64
        NaN if a pivot is bad, or an entry off the diagonal is positive.
    """
    check_no_units(d=d, u=u, x=x, b=b)
    scale = multiply(forest, np.abs(d), np.abs(u), np.abs(x)) + np.abs(b)
    bound, pivots = solve_with_pivots(forest, d, u, scale)
    inner = forest.parent >= 0
    if (np.asarray(u)[inner] > 0).any() or not (pivots > 0).all():
        return np.full(forest.num_nodes, np.nan)
    return bound


def residual(
    forest: Forest,
    d: np.ndarray,
    u: np.ndarray,
    b: np.ndarray,
    x: np.ndarray,
    l: np.ndarray | None = None,
) -> float:
    """Return the largest of the `backward_errors`; NaN if any of them is NaN."""
    return float(np.max(backward_errors(forest, d, u, b, x, l)))


def backward_errors(
    forest: Forest,
    d: np.ndarray,
    u: np.ndarray,
    b: np.ndarray,
    x: np.ndarray,
    l: np.ndarray | None = None,
) -> np.ndarray:
    """Return each row's componentwise backward error, ``|b - A x|_i / (|A| |x| + |b|)_i``.

    Oettli and Prager: it is the smallest relative change of A and b of which x is a solution.

    Returns
    -------
    (n,) or (k, n) float64
        Rows in which everything is zero count as exact.
    """
    check_no_units(d=d, u=u, l=l, x=x, b=b)
    gap = np.abs(np.asarray(b, np.float64) - multiply(forest, d, u, x, l))
    magnitude = None if l is None else np.abs(l)
    scale = multiply(forest, np.abs(d), np.abs(u), np.abs(x), magnitude) + np.abs(b)
    return np.divide(gap, scale, out=np.where(gap > 0, np.inf, gap), where=scale > 0)
