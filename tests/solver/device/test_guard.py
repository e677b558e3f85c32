"""Objects that hold a device close once; a pickle holds only their arguments."""

import pickle

import numpy as np
import pyopencl.array as cla
import pytest

import clhines
from clhines import InputError

N = 4


D, U, L, B = np.full(N, 4.0), np.full(N, -1.0), np.full(N, -0.5), np.arange(1.0, N + 1)


@pytest.fixture
def forest():
    return clhines.Forest.repeat([np.array([-1, 0, 1, 1])], 1)


def test_a_closed_solver_refuses_and_its_factors_do_not(queue, needs, forest):
    needs(queue, np.float64)
    with clhines.Solver(forest, "flat", queue=queue) as solver:
        expected = solver.solve(D, U, B)
        factors = solver.factor(D, U)
        packed = [solver.to_device_order(cla.to_device(queue, a)) for a in (D, U, B)]
        out = cla.empty_like(packed[2])
        solver.enqueue(*packed, out=out)
    solver.close()  # again
    assert "closed" in repr(solver)
    for call in (
        lambda: solver.solve(D, U, B),
        lambda: solver.enqueue(*packed, out=out),
        lambda: solver.factor(D, U),
        lambda: solver.to_device_order(B),
        solver.status,
        lambda: solver.plan,
    ):
        with pytest.raises(InputError, match="the Solver is closed; expected one that is not"):
            call()
    assert np.array_equal(factors.solve(B), expected)


def test_errors_leave_a_with_and_close(queue, needs, forest):
    needs(queue, np.float64)
    with pytest.raises(clhines.PivotError):
        with clhines.Solver(forest, "flat", queue=queue) as solver:
            solver.solve(0 * D, U, B)
    with pytest.raises(InputError, match="closed"):
        solver.solve(D, U, B)


@pytest.mark.parametrize("method", ["flat", "fine", "contraction"])
def test_factors_are_pickled_as_their_matrix(queue, needs, forest, method, monkeypatch):
    needs(queue, np.float64)
    solver = clhines.Solver(forest, method, queue=queue)
    for matrix in ({"u": U}, {"u": U, "l": L}):
        factors = solver.factor(D, **matrix)
        unpickled = pickle.loads(pickle.dumps(factors))
        assert np.allclose(unpickled.solve(B), factors.solve(B), rtol=1e-14, atol=0)
        assert unpickled.symmetric == factors.symmetric
        expected = factors.solve(B, transpose=True)
        assert np.allclose(unpickled.solve(B, transpose=True), expected, rtol=1e-14, atol=0)
    device = solver.factor(*(cla.to_device(queue, a) for a in (D, U)))
    unpickled = pickle.loads(pickle.dumps(device))
    assert np.allclose(unpickled.solve(B), solver.solve(D, U, B), rtol=1e-14, atol=0)
