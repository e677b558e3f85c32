"""Solve in JAX: `jax.grad` differentiates the solve, and `jax.jit` compiles around it.

The solve is a callback to the host (`jax.pure_callback`). Its gradient is another solve, with u and
l swapped (see `solver.factors`), and can be differentiated again. JAX refuses forward mode
(`jax.jvp`). `jax.vmap` solves one element after another: use a `b` of shape (k, n) instead.

>>> import clhines  # doctest: +SKIP
>>> loss = lambda d: (clhines.jax.solve(solver, d, u, b) ** 2).sum()  # doctest: +SKIP
>>> jax.jit(jax.grad(loss))(d)  # doctest: +SKIP
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from clhines.core.errors import InputError
from clhines.core.files import short_text
from clhines.solver.solver import Solver

Residuals = tuple[jax.Array, jax.Array, "jax.Array | None", jax.Array]


def solve(
    solver: Solver, d: ArrayLike, u: ArrayLike, b: ArrayLike, *, l: ArrayLike | None = None
) -> jax.Array:
    """Solve A x = b, differentiable with respect to d, u, l and b.

    Parameters
    ----------
    solver : Solver
    d, u, l : (n,) arrays of the solver's dtype
        As in `Solver.solve`. For float64 JAX needs ``jax_enable_x64``.
    b : (n,) or (k, n)

    Returns
    -------
    x : like b

    Raises
    ------
    InputError
        Wrong shapes and dtypes. JAX wraps a `PivotError` in an error of its own.
    """
    if not isinstance(solver, Solver):
        raise InputError(f"solver is {type(solver).__name__}; expected a clhines.Solver")
    arrays, n = dict[str, jax.Array](), solver.forest.num_nodes
    for name, given in {"d": d, "u": u, "l": l, "b": b}.items():
        if given is None and name == "l":
            continue
        try:
            arrays[name] = a = jnp.asarray(given)
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} is not an array: {short_text(error)}") from error
        if a.dtype != solver.dtype:
            more = "; set jax_enable_x64" if solver.dtype == np.float64 else ""
            raise InputError(f"{name} has dtype {a.dtype}; expected {solver.dtype}{more}")
        rows = (1, 2) if name == "b" else (1,)
        if a.ndim not in rows or a.shape[-1] != n or not a.size:
            expected = f"({n},) or (k, {n})" if name == "b" else f"({n},)"
            raise InputError(f"{name} has shape {a.shape}; expected {expected}")
    return _solve(solver, arrays["d"], arrays["u"], arrays.get("l"), arrays["b"])


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _solve(
    solver: Solver, d: jax.Array, u: jax.Array, l: jax.Array | None, b: jax.Array
) -> jax.Array:
    def on_host(d: jax.Array, u: jax.Array, l: jax.Array | None, b: jax.Array) -> np.ndarray:
        lower = None if l is None else np.asarray(l)
        return np.asarray(solver.solve(np.asarray(d), np.asarray(u), np.asarray(b), l=lower))

    shape = jax.ShapeDtypeStruct(b.shape, b.dtype)
    return jax.pure_callback(on_host, shape, d, u, l, b, vmap_method="sequential")


def _forward(
    solver: Solver, d: jax.Array, u: jax.Array, l: jax.Array | None, b: jax.Array
) -> tuple[jax.Array, Residuals]:
    x = _solve(solver, d, u, l, b)
    return x, (d, u, l, x)


def _backward(
    solver: Solver, kept: Residuals, g: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array | None, jax.Array]:
    d, u, l, x = kept
    y = _solve(solver, d, u, None, g) if l is None else _solve(solver, d, l, u, g)
    up = np.maximum(solver.forest.parent, 0)
    inner = (solver.forest.parent >= 0).astype(solver.dtype)

    def over_rows(products: jax.Array) -> jax.Array:
        return -(products.sum(0) if products.ndim == 2 else products)

    upper, lower = over_rows(y[..., up] * x) * inner, over_rows(y * x[..., up]) * inner
    diagonal = over_rows(y * x)
    return (diagonal, upper + lower, None, y) if l is None else (diagonal, upper, lower, y)


_solve.defvjp(_forward, _backward)
