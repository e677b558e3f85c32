"""Close objects that hold a device; pickle objects that hold none."""

import copy
import pickle

import numpy as np
import pytest

import clhines
from clhines import InputError
from clhines.solver.device.guard import Holder

N = 4
D, U, B = np.full(N, 4.0), np.full(N, -1.0), np.arange(1.0, N + 1)


@pytest.fixture
def forest():
    return clhines.Forest.repeat([np.array([-1, 0, 1, 1])], 1)


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
        options = {} if engine == "reference" else {"queue": queue}
        with clhines.Simulation(net, engine=engine, **options) as sim:
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
        unpickled = pickle.loads(pickle.dumps(one))
        assert np.array_equal(unpickled.parent, one.parent)
        assert np.array_equal(unpickled.cell_offsets, one.cell_offsets)
        for a in (unpickled.parent, unpickled.cell_offsets, unpickled.trees.parent):
            with pytest.raises(ValueError, match="read-only"):
                a[0] = 1
        for method in ("flat", "fine", "levels", "contraction"):
            plan = clhines.make_plan(one, method)
            again = pickle.loads(pickle.dumps(plan))
            assert [p.spec for p in again.parts] == [p.spec for p in plan.parts]
            assert np.array_equal(again.gather, plan.gather)
