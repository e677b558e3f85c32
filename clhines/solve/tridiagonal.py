"""Batches of tridiagonal systems: Hines matrices whose trees have no branches.

There is no pivoting, unlike in LAPACK's ``gtsv``: the pivots of the elimination must be positive,
after rows with a negative `d` have been multiplied by -1. They are where each system is strictly
diagonally dominant, by rows or by columns, whatever the signs; or symmetric and positive or
negative definite. Other systems may be solved or may raise `PivotError`, by the order in which a
method eliminates; a pivot that is small next to its row costs accuracy without an error.

Where `dl` and `du` have one value less per system, their shape is (m, n - 1), (n - 1,), or (N - m,)
for m sizes: ``dl[k]`` is in row k + 1 and ``du[k]`` in row k, k from 0 in each system. The two may
differ in this.

Each call plans anew. To solve systems of the same sizes again and again, keep a `Solver` of the
chains: ``Forest(parent, offsets)`` with ``parent[i] = i - 1``, -1 in each first row,
``l[i] = dl[i]`` and ``u[i] = du[i - 1]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyopencl.array as cla

from clhines.arrays import offsets
from clhines.checks import real_numbers
from clhines.errors import InputError, PivotError
from clhines.forest import Forest
from clhines.quantities import as_numbers
from clhines.solve.solver import Solver

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike


class System(NamedTuple):
    """A batch of tridiagonal systems as a Hines matrix: `l`, `d` and `u` of the nodes, and `b`."""

    forest: Forest
    l: np.ndarray  # noqa: E741
    d: np.ndarray
    u: np.ndarray
    b: np.ndarray  # (k, n)


def solve_tridiagonal(
    dl: ArrayLike,
    d: ArrayLike,
    du: ArrayLike,
    b: ArrayLike,
    *,
    sizes: ArrayLike | None = None,
    method: str = "auto",
    dtype: DTypeLike | None = None,
    check: bool = True,
    **options: Any,
) -> np.ndarray:
    """Solve a batch of tridiagonal systems, of equal or of different sizes.

    Row i of a system is ``dl[i] x[i - 1] + d[i] x[i] + du[i] x[i + 1] = b[i]``.

    Parameters
    ----------
    dl, d, du : NumPy arrays
        Lower, main and upper diagonal. `d` is (m, n), m systems of n rows; (n,), one system; or
        (N,) with `sizes`. `dl` and `du` have the shape of `d`, as in cuSPARSE's
        ``gtsv2StridedBatch``, where the first `dl` and the last `du` of each system are ignored;
        or one value less per system, as in LAPACK's ``gtsv``.
    b : NumPy array
        Right-hand sides: the shape of `d`, or (k, m, n), (k, n), (k, N) for k of them.
    sizes : (m,) integers, optional
        Rows of each system, 1 or more.
    method, **options
        As in `Solver`, with its `device`, `queue`, `max_memory` and `tune`.
    dtype : float64 or float32, optional
        Default: float32 where `dl`, `d`, `du` and `b` all are, else float64.
    check : bool
        As in `Solver.solve`.

    Returns
    -------
    x : like b, of `dtype`

    Raises
    ------
    InputError
        Shapes that do not fit, pyopencl arrays (see `Solver` for these), values of `b` or `x`
        that are not finite; and what `Solver` raises.
    PivotError
        `cell` is the system, `node` the row, counted over all systems. See the module for which
        systems have good pivots.
    """
    given = {"dl": dl, "d": d, "du": du, "b": b}
    arrays = {name: _real_array(name, a) for name, a in given.items()}
    single = all(a.dtype == np.float32 for a in arrays.values())
    system = as_chains(arrays, sizes)
    usual = np.float32 if single else np.float64
    solver = Solver(system.forest, method, usual if dtype is None else dtype, **options)
    try:
        x = solver.solve(system.d, system.u, system.b, l=system.l, check=check)
    except PivotError as error:
        raise _by_row(error, system) from None
    return x.reshape(arrays["b"].shape)


def _by_row(error: PivotError, system: System) -> PivotError:
    """Return the error in the words of tridiagonal systems."""
    row = error.node - int(system.forest.cell_offsets[error.cell])
    return PivotError(
        f"system {error.cell}, row {row} (row {error.node} of all): pivot is zero, negative, "
        "NaN or infinite; expected positive and finite, as in diagonally dominant systems",
        error.cell,
        error.node,
    )


def as_chains(arrays: dict[str, np.ndarray], sizes: ArrayLike | None) -> System:
    """Return the Hines matrix of tridiagonal systems, with no negative `d`."""
    diagonal, rhs = arrays["d"], arrays["b"]
    offsets = _offsets(diagonal, sizes)
    if rhs.shape[-diagonal.ndim :] != diagonal.shape or rhs.ndim > diagonal.ndim + 1:
        raise InputError(
            f"b has shape {rhs.shape}; expected that of d, {diagonal.shape}, or k of these"
        )
    n = diagonal.size
    first = np.zeros(n, bool)
    first[offsets[:-1]] = True
    low = _whole("dl", arrays["dl"], diagonal, first)
    upper = np.zeros(n, arrays["du"].dtype)  # of a row and the one above it
    upper[1:] = _whole("du", arrays["du"], diagonal, np.roll(first, -1))[:-1]
    rows = rhs.reshape(-1, n)
    main = diagonal.reshape(n)
    if (main < 0).any():
        sign = np.where(main < 0, -1, 1).astype(main.dtype)
        above = np.append(sign[:1], sign[:-1])  # of the row that `upper` is in
        main, low, upper, rows = main * sign, low * sign, upper * above, rows * sign
    forest = Forest(np.where(first, -1, np.arange(n) - 1), offsets)
    return System(forest, low, main, upper, rows)


def _real_array(name: str, a: object) -> np.ndarray:
    if isinstance(a, cla.Array):
        raise InputError(f"{name} is a pyopencl array; expected NumPy (a Solver takes both)")
    array = real_numbers(name, a)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def _offsets(d: np.ndarray, sizes: ArrayLike | None) -> np.ndarray:
    """(m + 1,) int64: rows of system k are ``offsets[k]:offsets[k + 1]``."""
    if not d.size or d.ndim not in ((1, 2) if sizes is None else (1,)):
        expected = "(m, n) or (n,)" if sizes is None else "(N,) with sizes"
        raise InputError(f"d has shape {d.shape}; expected {expected}, not empty")
    if sizes is None:
        return np.arange(0, d.size + 1, d.shape[-1])
    rows = np.asarray(as_numbers("sizes", sizes))
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or (rows < 1).any() or rows.sum() != d.size:
        raise InputError(
            f"sizes is {_short(rows)}; expected whole numbers of 1 or more, one a system, whose "
            f"sum is the length of d, {d.size}"
        )
    return offsets(rows.astype(np.int64))


def _short(a: np.ndarray) -> str:
    text = np.array2string(a, threshold=8, edgeitems=3, max_line_width=10_000)
    text = " ".join(text.split())
    return f"{text if len(text) <= 100 else text[:97] + '...'} of {a.dtype}"


def _whole(name: str, a: np.ndarray, d: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Bring `dl` or `du` to one value a row; rows `missing` are given zero."""
    systems = int(missing.sum())
    if d.ndim == 2:
        less: tuple[int, ...] = (d.shape[0], d.shape[1] - 1)
    else:
        less = (d.size - systems,)
    if a.shape not in (d.shape, less):
        raise InputError(f"{name} has shape {a.shape}; expected {less} or that of d, {d.shape}")
    out = np.zeros(d.size, a.dtype)
    out[~missing] = a.reshape(-1) if a.shape == less else a.reshape(-1)[~missing]
    return out
