"""Connect PyTorch and JAX to a simulation: set values, return record rows, and go back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clhines.core.checks import shown
from clhines.core.errors import InputError
from clhines.simulator.gradients.quantities import GradientQuantity

if TYPE_CHECKING:
    from clhines.simulator.gradients.gradient import RunGradient

SETTABLE = ("v_init", "weight")


def check_settable(of: Sequence[GradientQuantity], values: Sequence[Any]) -> None:
    """Check that there is a value for each quantity, and that a simulation can set it."""
    if len(values) != len(of):
        raise InputError(f"got {len(values)} values; expected one for each of {len(of)} in `of`")
    for one in of:
        if isinstance(one, str) and one not in SETTABLE:
            expected = f"(group, parameter), {' or '.join(SETTABLE)}"
            raise InputError(f"of has {shown(one)}, which no simulation sets; expected {expected}")


def run_with(
    simulation: Any,
    duration: float,
    of: Sequence[GradientQuantity],
    values: Sequence[np.ndarray],
    surrogate: float | None,
) -> RunGradient:
    """Set the quantities `of` to `values`, and return a run that can be differentiated."""
    for one, value in zip(of, values, strict=True):
        number = float(value) if np.ndim(value) == 0 else np.asarray(value, float)
        if isinstance(one, str):
            simulation.set(**{one: number})
        else:
            simulation.set(one[0], **{one[1]: number})
    simulation.reset()
    run: RunGradient = simulation.vjp(duration, of, surrogate=surrogate)
    return run


def as_slopes(slopes: Sequence[Any], values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return derivatives in the values' shapes.

    Where a value is one number for all instances, its derivatives by instance are summed.
    """
    return [
        np.asarray(slope).sum() if np.ndim(value) == 0 else np.asarray(slope).reshape(value.shape)
        for slope, value in zip(slopes, values, strict=True)
    ]
