"""JAX: solves, and whole simulations, that `jax.grad` differentiates.

`solve` is of `clhines.solver.jax`, `simulate` is of `clhines.simulator.gradients.jax`.
"""

from typing import TYPE_CHECKING

from clhines.solver.jax import solve

if TYPE_CHECKING:
    from clhines.simulator.gradients.jax import simulate

__all__ = ["simulate", "solve"]


def __getattr__(name: str) -> object:
    """Import `simulate` when it is used: solves need no simulator."""
    if name == "simulate":
        from clhines.simulator.gradients.jax import simulate

        return simulate
    raise AttributeError(f"module {__name__} has no attribute {name!r}")
