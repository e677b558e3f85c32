"""Gradients of a solve with respect to the entries of the matrix and to the right-hand sides.

With ``A x = b`` and a loss whose gradient with respect to x is g, the *adjoint* y solves
``A^T y = g``. Then the gradient with respect to b is y, and that with respect to entry (i, j) of A
is ``-y[i] x[j]``, of which only the entries of the tree are needed. Pivots depend on products of u
and l only, so the adjoint is solved with the same factors, u and l swapped.

Example: a root 0 with a child 1, ``u[1] = A[0, 1]`` and ``l[1] = A[1, 0]``: the gradient with
respect to ``u[1]`` is ``-y[0] x[1]``, to ``l[1]`` ``-y[1] x[0]``, and their sum if l is u.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from clhines.checks import as_real
from clhines.device.arrays import Array, Given
from clhines.errors import InputError
from clhines.forest import Forest


class Gradients(NamedTuple):
    """Gradients of a loss; sums over the right-hand sides but for `b`.

    Attributes
    ----------
    d, u : (n,) of the solver's dtype
        `u` is 0 at roots. Without `l`, an entry of `u` stands in the matrix twice, and so here.
    b : (n,) or (k, n)
        The adjoint: solution with the transposed matrix.
    l : (n,) or None
        0 at roots; None where the matrix was given without `l`.
    """

    d: np.ndarray
    u: np.ndarray
    b: np.ndarray
    l: np.ndarray | None  # noqa: E741


def host_rows(
    x: ArrayLike, g: ArrayLike, num_nodes: int, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """Return a solution and the gradient with respect to it as arrays of the dtype.

    Raises
    ------
    InputError
        They are on a device, not finite, or of other shapes than (n,) or (k, n).
    """
    rows = []
    for name, a in (("x", x), ("g", g)):
        if hasattr(a, "base_data"):
            raise InputError(f"{name} is a pyopencl array; expected a NumPy array (see get())")
        rows.append(as_real(name, a).astype(dtype, copy=False))
        if rows[-1].ndim not in (1, 2) or rows[-1].shape[-1] != num_nodes or not rows[-1].size:
            shape = rows[-1].shape
            expected = f"({num_nodes},) or (k, {num_nodes})"
            raise InputError(f"{name} has shape {shape}; expected {expected}")
    if rows[0].shape != rows[1].shape:
        raise InputError(f"g has shape {rows[1].shape}; expected that of x, {rows[0].shape}")
    return rows[0], rows[1]


def entry_gradients(
    forest: Forest, x: np.ndarray, adjoint: np.ndarray, symmetric: bool
) -> Gradients:
    """Make the gradients from a solution and the adjoint, both (n,) or (k, n)."""
    roots, above = forest.parent < 0, np.maximum(forest.parent, 0)
    rows, adjoints = np.atleast_2d(x), np.atleast_2d(adjoint)

    def products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return -(a[0] * b[0] if len(a) == 1 else np.einsum("kn,kn->n", a, b))

    upper = products(np.take(adjoints, above, axis=1), rows)
    lower = products(adjoints, np.take(rows, above, axis=1))
    upper[roots] = lower[roots] = 0.0
    diagonal = products(adjoints, rows)
    if symmetric:
        return Gradients(diagonal, upper + lower, adjoint, None)
    return Gradients(diagonal, upper, adjoint, lower)


class Solves(Protocol):
    """What `vjp` asks of a `Solver`."""

    @property
    def forest(self) -> Forest:
        """Of the batch."""

    @property
    def dtype(self) -> np.dtype:
        """Of all values."""

    def solve(
        self,
        d: Given,
        u: Given,
        b: Given,
        *,
        l: Given | None = None,  # noqa: E741
        check: bool = True,
    ) -> Array:
        """See `Solver.solve`."""


def vjp(
    self: Solves,
    d: ArrayLike,
    u: ArrayLike,
    x: ArrayLike,
    g: ArrayLike,
    *,
    l: ArrayLike | None = None,  # noqa: E741
    check: bool = True,
) -> Gradients:
    """Gradients of a loss with respect to d, u, l and b, by one solve with u and l swapped.

    `Factors.vjp` does the same with a matrix that is eliminated already.

    Parameters
    ----------
    d, u, l : (n,) NumPy arrays
        As in `solve`.
    x : (n,) or (k, n)
        The solution, as `solve` returned it.
    g : like x
        Gradient of the loss with respect to `x`.
    check : bool
        As in `solve`.

    Returns
    -------
    Gradients

    Raises
    ------
    InputError, PivotError, DeviceMemoryError
    """
    rows_x, rows_g = host_rows(x, g, self.forest.num_nodes, self.dtype)
    upper, lower = (u, None) if l is None else (l, u)
    adjoint = self.solve(d, upper, rows_g, l=lower, check=check)
    return entry_gradients(self.forest, rows_x, adjoint, l is None)
