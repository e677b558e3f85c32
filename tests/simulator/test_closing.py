"""Closing what holds a device, and pickling what does not."""

import copy
import pickle

import numpy as np
import pyopencl.array as cla
import pytest

import clhines
from clhines import InputError
from clhines.solver.device.guard import Holder

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


def test_closed_tridiagonals_and_simulations(queue, needs):
    needs(queue, np.float64)
    with clhines.Tridiagonal([N], queue=queue) as systems:
        systems.solve(U[1:], D, U[1:], B)
    assert "closed" in repr(systems)
    with pytest.raises(InputError, match="closed"):
        systems.solve(U[1:], D, U[1:], B)
    net = clhines.Network(clhines.discretise(clhines.sample_cells()[0], nseg=1))
    net.insert("pas")
    for engine in ("reference", "auto"):
        given = {} if engine == "reference" else {"queue": queue}
        with clhines.Simulation(net, engine=engine, **given) as sim:
            sim.run(0.1)
        assert "closed" in repr(sim)
        for call in (lambda: sim.run(0.1), sim.voltages, lambda: sim.record("v", 0), sim.reset):
            with pytest.raises(InputError, match="the Simulation is closed"):
                call()


def test_what_holds_a_device_is_not_pickled(queue, needs, forest):
    needs(queue, np.float64)
    net = clhines.Network(clhines.discretise(clhines.sample_cells()[0], nseg=1))
    for held in (
        clhines.Solver(forest, queue=queue),
        clhines.Tridiagonal([N], queue=queue),
        clhines.Simulation(net, engine="reference"),
    ):
        assert isinstance(held, Holder)
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(InputError, match=f"a {type(held).__name__} holds a device"):
                copied(held)


def test_forests_and_plans_are_pickled(forest):
    ragged = clhines.Forest(np.array([-1, 0, -1, 2, 2]), np.array([0, 2, 5]))
    for one in (forest, ragged):
        found = pickle.loads(pickle.dumps(one))
        assert np.array_equal(found.parent, one.parent)
        assert np.array_equal(found.cell_offsets, one.cell_offsets)
        for a in (found.parent, found.cell_offsets, found.trees.parent):
            with pytest.raises(ValueError, match="read-only"):
                a[0] = 1
        for method in ("flat", "fine", "levels", "contraction"):
            plan = clhines.make_plan(one, method)
            again = pickle.loads(pickle.dumps(plan))
            assert [p.spec for p in again.parts] == [p.spec for p in plan.parts]
            assert np.array_equal(again.gather, plan.gather)


@pytest.mark.parametrize("method", ["flat", "fine", "contraction"])
def test_factors_are_pickled_as_their_matrix(queue, needs, forest, method, monkeypatch):
    needs(queue, np.float64)
    solver = clhines.Solver(forest, method, queue=queue)
    for given in ({"u": U}, {"u": U, "l": L}):
        factors = solver.factor(D, **given)
        try:
            text = pickle.dumps(factors)
        except InputError as error:  # its diagonal is gone
            assert method == "contraction"
            assert "have no matrix any more, and cannot be pickled" in str(error)
            continue
        found = pickle.loads(text)
        assert np.allclose(found.solve(B), factors.solve(B), rtol=1e-14, atol=0)
        assert found.symmetric == factors.symmetric
        expected = factors.solve(B, transpose=True)
        assert np.allclose(found.solve(B, transpose=True), expected, rtol=1e-14, atol=0)
    device = solver.factor(*(cla.to_device(queue, a) for a in (D, U)))
    if any(part.keeps_factors for part in solver.plan.parts):
        with pytest.raises(InputError, match="have no matrix any more"):
            pickle.dumps(device)
    else:
        found = pickle.loads(pickle.dumps(device))
        assert np.allclose(found.solve(B), solver.solve(D, U, B), rtol=1e-14, atol=0)
