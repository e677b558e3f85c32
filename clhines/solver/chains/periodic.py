"""Solve periodic tridiagonal systems by the formula of Sherman and Morrison.

A periodic matrix has two more entries: a in the first row and last column, c in the last row and
first column. It is a tridiagonal matrix T plus a product of two vectors:

    A = T + p q',   p = (g, 0, ..., 0, c),   q = (1, 0, ..., 0, a / g)

The diagonal of T begins with d[0] - g and ends with d[n - 1] - a c / g. Then x = y - z (q'y) / (1 +
q'z) with T y = b and T z = p. For g = -d[0] T is diagonally dominant if A is. g is larger if the
product a c is, beside d[0] d[n - 1]: this share does not depend on the scales of rows and columns.

The formula loses digits if T is worse conditioned than A, or if the two terms of x almost cancel.
So the host computes the componentwise backward error of x. If it is above `MOST_LOST`, the host
solves for the residual, too (iterative refinement), and warns if the error remains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from clhines.core.arrays import offsets, stretch_of
from clhines.core.errors import AccuracyWarning, InputError, PivotError
from clhines.solver.accuracy import MOST_LOST, report

_LEAST_ROWS = 3  # per system: with two, a corner is at the place of `dl` or `du`
_REFINEMENTS = 3
_ChainSolve = Callable[[np.ndarray], np.ndarray]  # b, (n,) or (k, n), to the solution


@dataclass(frozen=True, eq=False)
class Corners:
    """Periodic matrices A = T + p q', one for each system, with tridiagonal T.

    The m systems have n rows in all. `p` is (n,). The vector q of a system is 1, 0, ..., 0, c; `q`,
    (m,), has each c. `low`, `main` and `up`, (n,) each, are the three diagonals of A, not of T.
    """

    sizes: np.ndarray
    p: np.ndarray
    q: np.ndarray
    low: np.ndarray
    main: np.ndarray
    up: np.ndarray

    def with_signs(self, sign: np.ndarray | None) -> Corners:
        """Return the corners of the matrix whose rows are multiplied by `sign`."""
        if sign is None:
            return self
        return replace(self, low=sign * self.low, main=sign * self.main, up=sign * self.up)

    def correction(self, solve: _ChainSolve, check: bool | str) -> Callable[[np.ndarray], None]:
        """Return a function that turns y into x in place, where T y = b and A x = b.

        y is (n,) or (k, n). ``solve(p)`` returns z with T z = p. With `check`, a singular A raises.
        """
        z, q, sizes = solve(self.p), self.q, self.sizes
        first, last = offsets(sizes)[:-1], offsets(sizes)[1:] - 1
        with np.errstate(all="ignore"):  # `singular` has these systems
            divisor = 1 + z[first] + q * z[last]
            terms = 1 + np.abs(z[first]) + np.abs(q * z[last])
            singular = np.flatnonzero(~(np.abs(divisor) > np.finfo(z.dtype).eps * terms))
        if check and len(singular):
            system = int(singular[0])
            text = f"system {system} is singular, or to rounding error; expected a regular matrix"
            raise PivotError(text, system, int(last[system]))
        with np.errstate(all="ignore"):
            scaled = z / np.repeat(divisor, sizes)

        def correct(y: np.ndarray) -> None:
            with np.errstate(all="ignore"):  # systems with a bad pivot
                y -= scaled * np.repeat(y[..., first] + q * y[..., last], sizes, axis=-1)

        return correct

    def refine(self, solve: _ChainSolve, b: np.ndarray, x: np.ndarray, check: bool | str) -> None:
        """Add ``solve(b - A x)`` to x until its backward error is small; report a large one."""
        eps = float(np.finfo(x.dtype).eps)
        for k in range(_REFINEMENTS + 1):
            with np.errstate(all="ignore"):  # values that are not finite show in the errors
                gap, scale = self._residual(b, x)
                errors = np.divide(np.abs(gap), scale, out=np.zeros_like(gap), where=gap != 0) / eps
                rest = gap.astype(x.dtype)
            lost = np.flatnonzero(~(np.atleast_2d(errors).max(axis=0) <= MOST_LOST))
            if not len(lost):
                return
            if k < _REFINEMENTS:
                x += solve(rest)
        systems = np.unique(stretch_of(offsets(self.sizes), lost))
        text = (
            f"system {systems[0]}: the solution has lost digits: its componentwise backward error "
            f"is {errors.max():.3g} eps; expected a diagonally dominant matrix"
        )
        warning = AccuracyWarning(text, int(systems[0]), int(lost[0]), tuple(systems.tolist()))
        report(warning, check)

    @cached_property
    def _neighbours(self) -> tuple[np.ndarray, np.ndarray]:
        """Indices of each row's previous and next row in its periodic system, (n,) each."""
        first, last = offsets(self.sizes)[:-1], offsets(self.sizes)[1:] - 1
        before, after = np.arange(-1, len(self.main) - 1), np.arange(1, len(self.main) + 1)
        before[first], after[last] = last, first
        return before, after

    def _residual(self, b: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the residual b - A x and its scale |A| |x| + |b|, both float64."""
        before, after = self._neighbours
        wide = x.astype(np.float64)
        terms = self.low * wide[..., before], self.main * wide, self.up * wide[..., after]
        gap = b - terms[0] - terms[1] - terms[2]
        return gap, np.abs(b) + np.abs(terms[0]) + np.abs(terms[1]) + np.abs(terms[2])


@np.errstate(all="ignore")  # pivots that are not finite are reported
def cut_corners(
    sizes: np.ndarray, low: np.ndarray, main: np.ndarray, up: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Corners]:
    """Split periodic matrices into the three diagonals of T, (n,) each, and their `Corners`.

    The first `low` and the last `up` of each system are the corners of the periodic matrix.
    """
    short = np.flatnonzero(sizes < _LEAST_ROWS)
    if len(short):
        raise InputError(
            f"system {short[0]} has {sizes[short[0]]} rows; expected {_LEAST_ROWS} or more in "
            "periodic systems"
        )
    whole = low, main, up
    low, main, up = (a.copy() for a in whole)
    first, last = offsets(sizes)[:-1], offsets(sizes)[1:] - 1
    a, c = low[first], up[last]
    share = np.abs(a / main[first]) * np.abs(c / main[last])
    # 2 * share: the last pivot, 1 +- share / growth times d[n - 1], stays away from 0
    g = -main[first] * np.where(share < 4, np.maximum(1, 2 * share), np.sqrt(share))
    largest = np.maximum(np.abs(main[first]), np.maximum(np.abs(a), np.abs(c)))
    g = np.where(np.isfinite(g) & (g != 0), g, -np.copysign(largest, main[first]))
    g[g == 0] = -1  # any number but 0
    p, q = np.zeros_like(main), a / g
    p[first], p[last] = g, c
    main[first] -= g
    main[last] -= c * q
    low[first] = up[last] = 0
    return low, main, up, Corners(sizes, p, q, *whole)
