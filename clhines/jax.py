"""JAX: solves, and whole simulations, that `jax.grad` differentiates.

`solve` comes from `clhines.solver.jax`, which needs no simulator.

>>> import clhines  # doctest: +SKIP
>>> loss = lambda g: clhines.jax.simulate(sim, 5.0, [(hh, "gnabar")], g)[0].sum()  # doctest: +SKIP
>>> jax.grad(loss)(0.12)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from clhines.solver.jax import solve

if TYPE_CHECKING:
    from clhines.simulator.gradients.quantities import GradientQuantity
    from clhines.simulator.simulation import Simulation

__all__ = ["simulate", "solve"]

JaxArrays = tuple[jax.Array, ...]


def simulate(
    simulation: Simulation,
    duration: float,
    of: Sequence[GradientQuantity],
    *values: ArrayLike,
    surrogate: float | None = None,
) -> JaxArrays:
    """Run from t = 0 with `values`; return the rows of each record, differentiable once.

    For the arguments see `clhines.torch.simulate`. The run is a callback to the host. A gradient
    takes one more run, forward and backward.
    """
    from clhines.simulator.gradients.outside import check_settable

    check_settable(simulation, of, values)
    arrays = tuple(jnp.asarray(value, float) for value in values)
    shapes = tuple(simulation.vjp(duration, of, surrogate=surrogate).shapes)
    return _simulate((simulation, duration, tuple(of), surrogate, shapes), *arrays)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _simulate(settings: tuple[Any, ...], *values: jax.Array) -> JaxArrays:
    from clhines.simulator.gradients.outside import run_with

    simulation, duration, of, surrogate, shapes = settings
    dtype = values[0].dtype

    def on_host(*values: jax.Array) -> tuple[np.ndarray, ...]:
        arrays = [np.asarray(value, float) for value in values]
        rows = run_with(simulation, duration, of, arrays, surrogate).forward()
        return tuple(r.astype(dtype) for r in rows)

    like = tuple(jax.ShapeDtypeStruct(shape, dtype) for shape in shapes)
    return tuple(jax.pure_callback(on_host, like, *values, vmap_method="sequential"))


def _forward(settings: tuple[Any, ...], *values: jax.Array) -> tuple[JaxArrays, JaxArrays]:
    return _simulate(settings, *values), values


def _backward(settings: tuple[Any, ...], values: JaxArrays, by_rows: JaxArrays) -> JaxArrays:
    from clhines.simulator.gradients.outside import as_slopes, run_with

    simulation, duration, of, surrogate, _ = settings
    count = len(values)

    def on_host(*arrays: jax.Array) -> tuple[np.ndarray, ...]:
        numbers = [np.asarray(a, float) for a in arrays]
        run = run_with(simulation, duration, of, numbers[:count], surrogate)
        run.forward()
        slopes = as_slopes(run.backward(numbers[count:]), numbers[:count])
        return tuple(np.asarray(s, v.dtype) for s, v in zip(slopes, values, strict=True))

    like = tuple(jax.ShapeDtypeStruct(v.shape, v.dtype) for v in values)
    return tuple(jax.pure_callback(on_host, like, *values, *by_rows, vmap_method="sequential"))


_simulate.defvjp(_forward, _backward)
