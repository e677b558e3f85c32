"""Periodic tridiagonal systems: the formula of Sherman and Morrison around chains.

A periodic matrix has two more entries: a in the first row and last column, c in the last row and
first column. It is a tridiagonal matrix T and a product of two vectors:

    A = T + p q',   p = (g, 0, ..., 0, c),   q = (1, 0, ..., 0, a / g),   g = -d[0]

where T has d[0] - g and d[n - 1] - a c / g on its diagonal; it is diagonally dominant if A is.
Then x = y - z (q'y) / (1 + q'z), with T y = b and T z = p.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from clhines.core.arrays import offsets
from clhines.core.errors import AccuracyWarning, InputError, PivotError, warn_caller
from clhines.solver.plan.kernel_spec import GROWTH

_LEAST_ROWS = 3  # per system: with two, a corner is at the place of `dl` or `du`


@dataclass(frozen=True, eq=False)
class Corners:
    """The vectors p, (n,), and q, of which `q` has the last entry of each system, (m,)."""

    sizes: np.ndarray
    p: np.ndarray
    q: np.ndarray

    def correction(
        self, solve: Callable[[np.ndarray], np.ndarray], check: bool | str
    ) -> Callable[[np.ndarray], None]:
        """Return a function that turns y, (n,) or (k, n), into x; ``solve(p)`` is z."""
        z, q, sizes = solve(self.p), self.q, self.sizes
        first, last = offsets(sizes)[:-1], offsets(sizes)[1:] - 1
        with np.errstate(all="ignore"):  # reported below
            divisor = 1 + z[first] + q * z[last]
            terms = 1 + np.abs(z[first]) + np.abs(q * z[last])
            singular = np.flatnonzero(~(np.abs(divisor) > np.finfo(z.dtype).eps * terms))
            lost = np.flatnonzero(terms > GROWTH * np.abs(divisor))
        if check and len(singular):
            system = int(singular[0])
            text = f"system {system} is singular, or to rounding error; expected a regular matrix"
            raise PivotError(text, system, int(last[system]))
        if check and len(lost):
            warning = AccuracyWarning(
                f"system {lost[0]}: the solution may have lost digits: the corners almost cancel "
                "the rest of the matrix; expected a diagonally dominant matrix",
                int(lost[0]),
                int(last[lost[0]]),
                tuple(lost.tolist()),
            )
            if check == "raise":
                raise warning
            warn_caller(warning, AccuracyWarning)
        with np.errstate(all="ignore"):
            scaled = z / np.repeat(divisor, sizes)

        def correct(y: np.ndarray) -> None:
            y -= scaled * np.repeat(y[..., first] + q * y[..., last], sizes, axis=-1)

        return correct


def cut_corners(
    sizes: np.ndarray, low: np.ndarray, main: np.ndarray, up: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Corners]:
    """Return the diagonals of T, (n,) each, and the corners, of diagonals with a value per row."""
    short = np.flatnonzero(sizes < _LEAST_ROWS)
    if len(short):
        raise InputError(
            f"system {short[0]} has {sizes[short[0]]} rows; expected {_LEAST_ROWS} or more in "
            "periodic systems"
        )
    low, main, up = (a.copy() for a in (low, main, up))
    first, last = offsets(sizes)[:-1], offsets(sizes)[1:] - 1
    a, c, g = low[first], up[last], -main[first]
    g[g == 0] = -1  # any number but 0
    p, q = np.zeros_like(main), a / g
    p[first], p[last] = g, c
    main[first] -= g
    main[last] -= c * q
    low[first] = up[last] = 0
    return low, main, up, Corners(sizes, p, q)
