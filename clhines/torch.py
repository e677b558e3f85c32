"""PyTorch: solves, and whole simulations, that `torch.autograd` differentiates.

`solve`, `factor` and `Factors` are of `clhines.solver.torch`, `simulate` is of
`clhines.simulator.gradients.torch`.
"""

from typing import TYPE_CHECKING

from clhines.solver.torch import Factors, TorchFactors, factor, solve

if TYPE_CHECKING:
    from clhines.simulator.gradients.torch import simulate

__all__ = ["Factors", "TorchFactors", "factor", "simulate", "solve"]


def __getattr__(name: str) -> object:
    """Import `simulate` when it is used: solves need no simulator."""
    if name == "simulate":
        from clhines.simulator.gradients.torch import simulate

        return simulate
    raise AttributeError(f"module {__name__} has no attribute {name!r}")
