"""Solutions that have lost digits: found by the elimination, measured, and reported.

Pivots of the right sign and size do not make a solution right. Without pivoting the backward error
of row i is eps times ``(|L| |U|)_ij``. It differs from ``|A|_ij`` on the diagonal, where it is the
pivot and the magnitudes of all that the elimination has added. Kernels compare these with the
diagonal, times `GROWTH`, while both are in registers. Symmetric matrices with good pivots never
exceed it: nothing positive is added, and something positive is left. Nor do diagonally dominant
matrices, by rows or columns: all that is added is at most the sum of the row's, or of the column's,
other entries.

If a kernel names a cell, the host computes the componentwise backward error of the solution, and
reports it above `MOST_LOST`. If the solution has taken the place of an operand, the report comes
without it.
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
MOST_LOST = 32.0  # componentwise backward error, eps of the dtype: above it a warning is given


def is_spoilt(arrays: dict[str, Array], target: Array) -> bool:
    """Whether the solution has taken the place of an operand, so that nothing can be measured."""
    if isinstance(target, cla.Array):
        return any(getattr(a, "base_data", None) == target.base_data for a in arrays.values())
    return any(np.may_share_memory(a, target) for a in arrays.values())


def report_growth(arguments: Arguments, pivots: BadPivots, check: bool | str) -> None:
    """Report the first cell in which the elimination lost digits, unmeasured."""
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
    """Report a componentwise backward error above `MOST_LOST`; `system` in natural order."""
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
    """Raise a warning as an error if `check` is "raise"; else warn at the user's line."""
    if check == "raise":
        raise warning
    warn_caller(warning, AccuracyWarning)
