"""Solves in PyTorch, by PyTorch's checks of gradients, against its own dense solver."""

import numpy as np
import pytest
from solvers import make_solver
from systems import small_system
from tolerances import assert_close

import clhines
from clhines import InputError, PivotError
from clhines.solver import reference

torch = pytest.importorskip("torch")


def tensors(system):
    return {
        name: None if a is None else torch.from_numpy(a.copy()).requires_grad_()
        for name, a in system.arrays.items()
    }


@pytest.fixture(params=[(True, None), (False, 2)], ids=["symmetric", "unsymmetric"])
def case(request, double_queue):
    system = small_system(*request.param)
    return system, make_solver(double_queue, system.forest, "contraction_6")


def dense_solve(system, given):
    """Return torch.linalg's differentiable solution of all cells in one matrix."""
    forest = system.forest
    child = np.flatnonzero(forest.parent >= 0)
    up = forest.parent[child].astype(np.int64)
    matrix = torch.diag(given["d"])
    lower = given["u"] if given["l"] is None else given["l"]
    ends = torch.from_numpy(up), torch.from_numpy(child)
    matrix = matrix.index_put(ends, given["u"][child])
    matrix = matrix.index_put(ends[::-1], lower[child])
    rows = torch.atleast_2d(given["b"])
    return torch.linalg.solve(matrix, rows.mT).mT.reshape(given["b"].shape)


@pytest.mark.parametrize("factored", [False, True])
def test_values_and_gradients_are_those_of_a_dense_solve(case, factored):
    system, solver = case
    ours, theirs = tensors(system), tensors(system)
    if factored:
        matrix = {name: ours[name] for name in "dul"}
        x = clhines.torch.factor(solver, **matrix).solve(ours["b"])
    else:
        x = clhines.torch.solve(solver, **ours)
    truth = dense_solve(system, theirs)
    assert_close(system.forest, x.detach().numpy(), truth.detach().numpy(), np.float64)
    x.sin().sum().backward()
    truth.sin().sum().backward()
    for name, t in ours.items():
        if t is not None:  # gradients are about 1 here: some hundred roundings
            torch.testing.assert_close(t.grad, theirs[name].grad, rtol=0, atol=2e-14)


def test_gradcheck(case):
    system, solver = case
    arrays = tensors(system)
    names = [name for name, t in arrays.items() if t is not None]

    def plain(*values):
        return clhines.torch.solve(solver, **dict(zip(names, values, strict=True)))

    def transposed(*values):
        changed = dict(zip(names, values, strict=True))
        b = changed.pop("b")
        return clhines.torch.factor(solver, **changed).solve(b, transpose=True)

    for solve in (plain, transposed):
        assert torch.autograd.gradcheck(solve, [arrays[name] for name in names])
        assert torch.autograd.gradgradcheck(solve, [arrays[name] for name in names])


def test_transposed_solution(case):
    system, solver = case
    arrays = tensors(system)
    factors = clhines.torch.factor(solver, arrays["d"], arrays["u"], l=arrays["l"])
    x = factors.solve(arrays["b"], transpose=True).detach().numpy()
    upper = system.u if system.l is None else system.l
    truth = reference.solve_serial(system.forest, system.d, upper, system.b, l=system.u)
    assert_close(system.forest, x, truth, np.float64)


def test_what_cannot_be_done_is_refused(case):
    system, solver = case
    arrays = tensors(system)
    with pytest.raises(InputError, match=r"u has dtype torch.float32; expected torch.float64"):
        clhines.torch.solve(solver, **{**arrays, "u": arrays["u"].float()})
    with pytest.raises(InputError, match=r"b is ndarray; expected a torch.Tensor"):
        clhines.torch.solve(solver, **{**arrays, "b": system.b})
    with pytest.raises(InputError, match=r"solver is str; expected a clhines.Solver"):
        clhines.torch.solve("solver", **arrays)
    with pytest.raises(PivotError):
        clhines.torch.solve(solver, **{**arrays, "d": 0 * arrays["d"]})
    negated = torch.complex(0 * arrays["b"], -arrays["b"]).detach().conj().imag
    x = clhines.torch.solve(solver, **{**arrays, "b": negated})
    system.assert_solved(x.detach().numpy())
    with pytest.raises(InputError, match="b is Tensor with the negative bit"):
        solver.solve(system.d, system.u, negated)
    d = arrays["d"].detach().clone()
    factors = clhines.torch.factor(solver, d, arrays["u"], l=arrays["l"])
    d += 1  # as an optimiser does; the factors belong to the old values
    system.assert_solved(factors.solve(arrays["b"]).detach().numpy())
