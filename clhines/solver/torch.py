"""Solve in PyTorch: `torch.autograd` differentiates the solve, any number of times.

A solve is a node of the graph. Its gradient is another solve, with u and l swapped (see
`solver.factors`), and again a node: second derivatives work too. Tensors on the CPU are read and
written in place; others are copied to the host and back.

>>> import clhines  # doctest: +SKIP
>>> x = clhines.torch.solve(solver, d, u, b)  # doctest: +SKIP
>>> x.square().sum().backward()  # doctest: +SKIP
"""

from __future__ import annotations

import numpy as np
import torch

from clhines.core.checks import as_check, as_switch
from clhines.core.errors import InputError
from clhines.solver.factors import Factors as SolverFactors
from clhines.solver.solver import Solver

Tensors = tuple[torch.Tensor | None, ...]


class _Plain:
    """Solve NumPy arrays with a matrix or its transpose; the matrix is eliminated in each call."""

    def __init__(self, solver: Solver, check: bool | str) -> None:
        self.solver, self.check = solver, as_check(check)
        parent = np.asarray(solver.forest.parent, np.int64)
        self.parent = torch.from_numpy(np.maximum(parent, 0))
        self.inner = torch.from_numpy((parent >= 0).astype(solver.dtype))

    def __call__(self, arrays: dict[str, np.ndarray], transpose: bool) -> np.ndarray:
        d, u, b, lower = (arrays.get(name) for name in "dubl")
        if transpose and lower is not None:
            u, lower = lower, u
        return np.asarray(self.solver.solve(d, u, b, l=lower, check=self.check))


class _FactorSolve(_Plain):
    def __init__(self, solver: Solver, matrix: dict[str, np.ndarray], check: bool | str) -> None:
        super().__init__(solver, check)
        self.factors: SolverFactors = solver.factor(**matrix, check=self.check)

    def __call__(self, arrays: dict[str, np.ndarray], transpose: bool) -> np.ndarray:
        solved = self.factors.solve(arrays["b"], check=self.check, transpose=transpose)
        return np.asarray(solved)


class _Solve(torch.autograd.Function):
    """The solve as a node of autograd's graph; `way` solves with the matrix or its transpose."""

    @staticmethod
    def forward(
        way: _Plain,
        transpose: bool,
        d: torch.Tensor,
        u: torch.Tensor,
        l: torch.Tensor | None,
        b: torch.Tensor,
    ) -> torch.Tensor:
        tensors = {"d": d, "u": u, "l": l, "b": b}
        arrays = {name: _on_host(t) for name, t in tensors.items() if t is not None}
        return torch.from_numpy(way(arrays, transpose)).to(b.device)

    @staticmethod
    def setup_context(
        ctx: torch.autograd.function.FunctionCtx, inputs: tuple, output: torch.Tensor
    ) -> None:
        ctx.way, ctx.transpose, d, u, l, _ = inputs
        ctx.save_for_backward(d, u, l, output)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, g: torch.Tensor) -> Tensors:
        d, u, l, x = ctx.saved_tensors
        way: _Plain = ctx.way
        y = _Solve.apply(way, not ctx.transpose, d, u, l, g)
        # the gradient with respect to entry (i, j) is -left[i] right[j]
        left, right = (x, y) if ctx.transpose else (y, x)
        up, inner = way.parent.to(x.device), way.inner.to(x.device)
        needs = dict(zip(("d", "u", "l", "b"), ctx.needs_input_grad[2:], strict=True))
        grad_u = grad_l = None
        if needs["u"]:
            products = left[..., up] * right + (0 if l is not None else left * right[..., up])
            grad_u = _over_rows(products) * inner
        if needs["l"]:
            grad_l = _over_rows(left * right[..., up]) * inner
        grad_d = _over_rows(left * right) if needs["d"] else None
        return None, None, grad_d, grad_u, grad_l, y if needs["b"] else None


def _over_rows(products: torch.Tensor) -> torch.Tensor:
    return -(products.sum(0) if products.ndim == 2 else products)


def _on_host(t: torch.Tensor) -> np.ndarray:
    return t.numpy(force=True)


def _check(solver: Solver, tensors: dict[str, torch.Tensor | None]) -> None:
    if not isinstance(solver, Solver):
        raise InputError(f"solver is {type(solver).__name__}; expected a clhines.Solver")
    expected = torch.from_numpy(np.empty(0, solver.dtype)).dtype
    where = {str(t.device) for t in tensors.values() if isinstance(t, torch.Tensor)}
    if len(where) > 1:
        raise InputError(f"tensors lie on {', '.join(sorted(where))}; expected one device")
    for name, t in tensors.items():
        if t is None and name == "l":
            continue
        if not isinstance(t, torch.Tensor):
            raise InputError(f"{name} is {type(t).__name__}; expected a torch.Tensor")
        if t.dtype != expected:
            raise InputError(f"{name} has dtype {t.dtype}; expected {expected}, the solver's")


def solve(
    solver: Solver,
    d: torch.Tensor,
    u: torch.Tensor,
    b: torch.Tensor,
    *,
    l: torch.Tensor | None = None,
    check: bool | str = True,
) -> torch.Tensor:
    """Solve A x = b, differentiable with respect to d, u, l and b.

    Parameters
    ----------
    solver : Solver
    d, u, l : (n,) tensors of the solver's dtype
        As in `Solver.solve`.
    b : (n,) or (k, n)
    check : bool or "raise"
        As in `Solver.solve`; the solve of the gradient is checked in the same way.

    Returns
    -------
    x : like b
    """
    _check(solver, {"d": d, "u": u, "l": l, "b": b})
    return _Solve.apply(_Plain(solver, check), False, d, u, l, b)


class TorchFactors:
    """A matrix that is eliminated once, for many differentiable solves, such as time steps.

    Parameters
    ----------
    solver : Solver
    d, u, l : (n,) tensors of the solver's dtype
        They are copied: later writes have no effect.
    check : bool or "raise"
        As in `Solver.factor`; all solves are checked in the same way.
    """

    def __init__(
        self,
        solver: Solver,
        d: torch.Tensor,
        u: torch.Tensor,
        *,
        l: torch.Tensor | None = None,
        check: bool | str = True,
    ) -> None:
        tensors = {"d": d, "u": u, "l": l}
        _check(solver, tensors)
        self.solver = solver
        self._matrix = d.clone(), u.clone(), None if l is None else l.clone()
        matrix = {name: _on_host(t) for name, t in tensors.items() if t is not None}
        self._way = _FactorSolve(solver, matrix, check)

    def solve(self, b: torch.Tensor, *, transpose: bool = False) -> torch.Tensor:
        """Solve for b, (n,) or (k, n), with the matrix or its transpose."""
        d, u, l = self._matrix
        _check(self.solver, {"d": d, "b": b})
        return _Solve.apply(self._way, as_switch("transpose", transpose), d, u, l, b)


factor = Factors = TorchFactors  # `clhines.torch.factor(...)`, like `Solver.factor`
