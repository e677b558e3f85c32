"""Connect PyTorch and JAX to a simulation: set values, return record rows, and go back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clhines.core.checks import shown
from clhines.core.errors import InputError
from clhines.simulator.common.checks import check_parameter
from clhines.simulator.gradients.quantities import GradientQuantity, as_list
from clhines.simulator.network.groups import Group

if TYPE_CHECKING:
    from clhines.simulator.gradients.gradient import RunGradient
    from clhines.simulator.simulation import Simulation


def check_settable(
    simulation: Simulation, of: Sequence[GradientQuantity], values: Sequence[Any]
) -> None:
    """Check that each quantity has one value, which `simulation` can set.

    The values need a shape only, as JAX's tracers have.
    """
    if len(values) != len(as_list(of)):
        raise InputError(f"got {len(values)} values; expected one for each of {len(of)} in `of`")
    counts = {
        "v_init": simulation.network.forest.num_nodes,
        "weight": len(simulation.model.given_weights),
    }
    for k, (one, value) in enumerate(zip(of, values, strict=True)):
        if one in of[:k]:
            raise InputError(f"of has {shown(one)} twice; expected it once")
        if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], Group):
            group, name = one
            check_parameter(group.mechanism.name, name, group.mechanism.settable)
            count = len(group)
        elif isinstance(one, str) and one in counts:
            name, count = one, counts[one]
        else:
            expected = f"(group, parameter), {' or '.join(counts)}"
            raise InputError(f"of has {shown(one)}, which no simulation sets; expected {expected}")
        if np.shape(value) not in ((), (count,)):
            raise InputError(f"{name} has shape {(*np.shape(value),)}; expected () or ({count},)")


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
