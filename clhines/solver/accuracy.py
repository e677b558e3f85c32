"""Report solutions that have lost digits.

Positive pivots alone do not make a solution accurate. Without pivoting the backward error of row i
is eps times ``(|L| |U|)_ij``. This differs from ``|A|_ij`` only on the diagonal, where it is the
pivot plus the magnitudes of all terms that the elimination has added. Kernels compare this sum with
`GROWTH` times the diagonal while both are in registers. The sum never exceeds the bound for

- symmetric matrices with good pivots: nothing positive is added, and a positive pivot remains;
- diagonally dominant matrices: the added terms are together at most as large as the other entries
  of the row, or of the column.

`contraction` also fills entries beside the diagonal, which the sum leaves out. If
neighbouring entries differ by orders of magnitude, its error can exceed `MOST_LOST` unreported.

If a kernel reports a cell, the host computes the componentwise backward error of the solution, and
warns if it is above `MOST_LOST`. If the solution has overwritten d, u, l or b, the host cannot
compute the error, and warns without it.
"""

from __future__ import annotations

import numpy as np
import pyopencl.array as cla

from clhines.core.arrays import stretch_of
from clhines.core.errors import AccuracyWarning, warn_caller
from clhines.solver import reference
from clhines.solver.arguments import Arguments
from clhines.solver.device.arrays import Array
from clhines.solver.engines.pivots import BadPivots
from clhines.solver.plan.kernel_spec import GROWTH
from clhines.solver.plan.methods import METHODS

FIT = "a diagonally dominant, or symmetric positive definite, matrix: there is no pivoting"
MOST_LOST = 32.0  # largest componentwise backward error without a warning, in eps of the dtype


def is_spoilt(arrays: dict[str, Array], target: Array) -> bool:
    """Whether the solution overwrote an operand, so that its error cannot be computed."""
    if isinstance(target, cla.Array):
        return any(getattr(a, "base_data", None) == target.base_data for a in arrays.values())
    return any(np.may_share_memory(a, target) for a in arrays.values())


def report_growth(arguments: Arguments, pivots: BadPivots, check: bool | str) -> None:
    """Warn if the elimination of a cell lost digits; `check` "raise" raises this warning.

    The warning names the first such cell. It does not give the error of the solution.
    """
    lost = pivots.first(bad=False)
    if lost is None:
        return
    text = (
        f"{arguments.where(*lost)}: the solution may have lost digits: the elimination added more "
        f"than {GROWTH} times the diagonal to it (without d, u, l and b its error is not known); "
        f"expected {FIT}"
    )
    cells = tuple(pivots.cells[~pivots.bad].tolist())
    report(AccuracyWarning(text, *lost, cells), check)


def report_error(
    arguments: Arguments,
    method: str,
    system: dict[str, np.ndarray],
    x: np.ndarray,
    check: bool | str,
) -> None:
    """Warn if the backward error of `x` is above `MOST_LOST`; `system`: d, u, (l) and b by name."""
    with np.errstate(all="ignore"):  # values that are not finite show in the result
        errors = reference.backward_errors(arguments.forest, **system, x=x)
    errors = np.atleast_2d(errors / float(np.finfo(arguments.dtype).eps)).max(axis=0)
    lost = np.flatnonzero(~(errors <= MOST_LOST))
    if not len(lost):
        return
    cells = stretch_of(arguments.forest.cell_offsets, lost)
    worst = int(np.argmax(np.where(np.isnan(errors[lost]), np.inf, errors[lost])))
    error, cell, node = float(errors[lost[worst]]), int(cells[worst]), int(lost[worst])
    adds_rows = method in METHODS and METHODS[method].chains_only
    advice = "use method 'auto', whose methods are stable" if adds_rows else f"this takes {FIT}"
    text = (
        f"{arguments.where(cell, node)}: the componentwise backward error of {method!r} is "
        f"{error:.3g} eps, so that the solution has lost digits; expected at most {MOST_LOST:g} "
        f"eps: {advice}"
    )
    report(AccuracyWarning(text, cell, node, tuple(np.unique(cells).tolist())), check)


def report(warning: AccuracyWarning, check: bool | str) -> None:
    """Raise the warning if `check` is "raise", else issue it at the user's line."""
    if check == "raise":
        raise warning
    warn_caller(warning, AccuracyWarning)
