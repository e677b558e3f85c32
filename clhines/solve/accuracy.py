"""Warnings about inaccurate solutions of methods whose error has no bound."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines import reference
from clhines.device.arrays import Array
from clhines.errors import AccuracyWarning, warn_caller
from clhines.forest import Forest
from clhines.plan.methods import METHODS
from clhines.plan.plan import Plan

LIMIT = 32.0  # componentwise backward error, in eps of the dtype, above which a warning is given


def may_lose(plan: Plan) -> bool:
    """Whether the error can exceed that of elimination: cyclic reduction adds up many rows."""
    return METHODS[plan.method].chains_only


def on_host(queue: cl.CommandQueue, arrays: dict[str, Array]) -> dict[str, np.ndarray]:
    return {
        name: a.get(queue) if isinstance(a, cla.Array) else a.copy() for name, a in arrays.items()
    }


def warn_where_lost(
    plan: Plan, forest: Forest, given: dict[str, np.ndarray], x: Array, dtype: np.dtype
) -> None:
    """Warn where the componentwise backward error is above `LIMIT`; `given` in natural order."""
    found = x.get() if isinstance(x, cla.Array) else x
    with np.errstate(all="ignore"):  # values that are not finite show in the result
        error = reference.residual(forest, **given, x=found) / float(np.finfo(dtype).eps)
    if not error <= LIMIT:
        warn_caller(
            f"the componentwise backward error of {plan.method!r} is {error:.3g} eps; expected at "
            f"most {LIMIT:g}: use method 'auto', whose methods are stable",
            AccuracyWarning,
        )
