"""PyTorch: solves, and whole simulations, that `torch.autograd` differentiates.

`solve`, `factor` and `Factors` come from `clhines.solver.torch`, which needs no simulator.

>>> import clhines  # doctest: +SKIP
>>> (v,) = clhines.torch.simulate(sim, 5.0, [(hh, "gnabar")], gnabar)  # doctest: +SKIP
>>> ((v - target) ** 2).mean().backward()  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from clhines.core.errors import InputError
from clhines.solver.torch import Factors, TorchFactors, factor, solve

if TYPE_CHECKING:
    from clhines.simulator.gradients.quantities import GradientQuantity
    from clhines.simulator.simulation import Simulation

__all__ = ["Factors", "TorchFactors", "factor", "simulate", "solve"]


class _Simulate(torch.autograd.Function):
    """A simulation as a function that PyTorch differentiates: values to rows of records."""

    @staticmethod
    def forward(
        ctx: Any,
        simulation: Any,
        duration: float,
        of: Sequence[GradientQuantity],
        surrogate: float | None,
        *values: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        from clhines.simulator.gradients.outside import run_with

        ctx.values = [v.detach().cpu().double().numpy() for v in values]
        ctx.run = run_with(simulation, duration, of, ctx.values, surrogate)
        ctx.types = [(v.dtype, v.device) for v in values]
        like = values[0]
        rows = ctx.run.forward()
        return tuple(torch.from_numpy(r).to(dtype=like.dtype, device=like.device) for r in rows)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        from clhines.simulator.gradients.outside import as_slopes

        slopes = ctx.run.backward([g.cpu().double().numpy() for g in grads])
        tensors = (
            torch.from_numpy(np.asarray(slope)).to(dtype=dtype, device=device)
            for slope, (dtype, device) in zip(as_slopes(slopes, ctx.values), ctx.types, strict=True)
        )
        return None, None, None, None, *tensors


def simulate(
    simulation: Simulation,
    duration: float,
    of: Sequence[GradientQuantity],
    *values: torch.Tensor,
    surrogate: float | None = None,
) -> tuple[torch.Tensor, ...]:
    """Run from t = 0 with `values`; return the rows of each record, differentiable once.

    Parameters
    ----------
    simulation : Simulation
        The function returns its records; `values` stay set in it.
    duration : float, ms
    of : sequence
        Quantities that `values` set: ``(group, parameter)``, ``v_init`` or ``weight``, as in
        `Simulation.gradient`.
    *values : tensors
        One for each quantity: () for all instances, or (count,).
    surrogate : float, optional, mV
        See `Simulation.gradient`.
    """
    from clhines.simulator.gradients.outside import check_settable

    check_settable(simulation, of, values)
    for value in values:
        if not isinstance(value, torch.Tensor):
            raise InputError(f"got a {type(value).__name__}; expected a torch.Tensor")
        if not value.is_floating_point():  # the rows would have this dtype, too
            raise InputError(f"got a tensor of {value.dtype}; expected floating point")
    rows: tuple[torch.Tensor, ...] = _Simulate.apply(simulation, duration, of, surrogate, *values)
    return rows
