"""Chains in lanes on a CPU: solutions, stored factors, small batches, and other engines' cases."""

import pickle

import numpy as np
import pyopencl.array as cla
import pytest
from scipy.linalg import solve_banded
from solvers import assert_lost_digits_are_told
from systems import System, make_system

from bench.made import chain
from clhines import Forest, InputError, PivotError, Solver, Tridiagonal
from clhines.solver.device import copies
from clhines.solver.engines import lanes
from clhines.solver.engines.lanes import LanesEngine
from clhines.solver.plan.by_cell import lanes as plan_lanes

SIZES = {
    "one": [53],
    "rows of one": [1] * 9,
    "full blocks": [33] * 16,
    "a block and a part": [20] * 11,
    "ragged": [*range(1, 30), 29, 29],
    "long beside short": [3000, 1, 2, 700, 3000, 5],
}


@pytest.fixture
def cpu(fast_queue):
    if not copies.shares_memory(fast_queue.device):
        pytest.skip("only for CPUs")
    return fast_queue


def chains(name):
    return Forest.from_parents([chain(n) for n in SIZES[name]])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "unsymmetric"])
@pytest.mark.parametrize("name", SIZES)
def test_solutions_and_the_same_by_factors(cpu, name, symmetric, dtype):
    forest = chains(name)
    system = make_system(forest, dtype, symmetric)
    solver = Solver(forest, dtype=dtype, queue=cpu)
    assert isinstance(solver.engine, LanesEngine)
    system.assert_solved(solver.solve(**system.arrays))
    assert (solver.status() == -1).all()
    factors = solver.factor(system.d, system.u, l=system.l)
    x = factors.solve(system.b)
    system.assert_solved(x)
    for _ in range(3):  # in shared memory
        assert np.array_equal(factors.solve(system.b), x)
    b = system.b.copy()
    assert factors.solve(b, out=b) is b
    assert np.array_equal(b, x)
    if not symmetric:
        swapped = System(forest, system.d, system.l, system.b, system.u)
        for _ in range(2):
            swapped.assert_solved(factors.transposed().solve(system.b))
    assert np.array_equal(pickle.loads(pickle.dumps(factors)).solve(system.b), x)


@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "unsymmetric"])
def test_long_chains_are_solved_without_a_plan(cpu, symmetric, monkeypatch):
    monkeypatch.setattr(plan_lanes, "_LONG_ROWS", 50)
    forest = chains("one")
    system = make_system(forest, np.float64, symmetric)
    solver = Solver(forest, queue=cpu)
    x = solver.solve(**system.arrays)
    system.assert_solved(x)
    assert (solver.status() == -1).all()
    factors = solver.factor(system.d, system.u, l=system.l)
    assert np.array_equal(factors.solve(system.b), x)
    assert "chain by chain" in repr(solver)
    assert "eliminate" in solver.source
    assert "usual" not in vars(solver.engine)  # no plan yet
    assert solver.plan.forest is forest  # planned now


@pytest.mark.parametrize("name", ["ragged", "full blocks", "one"])
def test_arrays_that_cannot_be_lent_are_copied(cpu, name, monkeypatch):
    forest = chains(name)
    system = make_system(forest, np.float64, False)
    x = Solver(forest, queue=cpu).factor(system.d, system.u, l=system.l).solve(system.b)
    monkeypatch.setattr(copies, "lends", lambda device, a: False)
    monkeypatch.setattr(copies, "fine_grained", lambda device: False)
    solver, b = Solver(forest, queue=cpu), system.b.copy()
    factors = solver.factor(system.d, system.u, l=system.l)
    assert factors.solve(b, out=b) is b
    assert np.array_equal(b, x)
    b[0] = np.inf
    for _ in range(2):
        with pytest.raises(InputError, match="b is inf"):
            factors.solve(b)
        assert np.array_equal(factors.solve(system.b), x)


@pytest.mark.parametrize("name", ["ragged", "full blocks", "one"])
def test_several_right_hand_sides_and_odd_arrays(cpu, name):
    forest = chains(name)
    system = make_system(forest, np.float64, False, rows=3)
    solver = Solver(forest, queue=cpu)
    factors = solver.factor(system.d, system.u, l=system.l)
    x = factors.solve(system.b)
    system.assert_solved(x)
    assert np.array_equal(factors.solve(np.asfortranarray(system.b)), x)
    out = np.empty((3, 2 * forest.num_nodes))[:, ::2]
    assert factors.solve(system.b, out=out) is out
    assert np.array_equal(out, x)
    assert np.array_equal(factors.solve(system.b[1]), x[1])
    b = system.b.copy()
    assert factors.solve(b, overwrite=True) is b
    assert np.array_equal(b, x)


def test_device_order_device_arrays_and_many_right_hand_sides_are_left_to_others(cpu):
    forest = chains("one")
    system = make_system(forest, np.float64, False, rows=33)
    solver = Solver(forest, queue=cpu)
    x = solver.solve(**system.arrays)
    system.assert_solved(x)
    assert (solver.status() == -1).all()
    factors = solver.factor(system.d, system.u, l=system.l)
    system.assert_solved(factors.solve(system.b))
    b = cla.to_device(cpu, system.b)
    system.assert_solved(factors.solve(b).get())
    packed = solver.to_device_order(system.b[0])
    factors.enqueue(packed, out=packed).wait()
    solved = solver.from_device_order(packed).get()
    np.testing.assert_allclose(solved, x[0], rtol=1e-12, atol=0)
    arrays = {k: cla.to_device(cpu, a) for k, a in system.arrays.items()}
    system.assert_solved(solver.solve(**arrays).get())


@pytest.mark.parametrize("name", ["one", "ragged"])
def test_bad_pivots_and_values_that_are_not_finite(cpu, name):
    forest = chains(name)
    system = make_system(forest, np.float64, False)
    solver, cell = Solver(forest, queue=cpu), forest.num_cells - 1
    node = int(forest.cell_offsets[cell])
    d = system.d.copy()
    d[node] = -50.0
    expected = Solver(forest, "flat", queue=cpu)
    results = []
    for one in (solver, expected):
        with pytest.raises(PivotError) as caught:
            one.solve(d, system.u, system.b, l=system.l)
        results.append((caught.value.cell, caught.value.node, one.status().tolist()))
    assert results[0] == results[1]
    with pytest.raises(PivotError):
        solver.factor(d, system.u, l=system.l)
    assert solver.factor(d, system.u, l=system.l, check=False).status()[cell] == node

    factors, b = solver.factor(system.d, system.u, l=system.l), system.b.copy()
    x = factors.solve(b)
    b[node] = np.nan
    for _ in range(2):
        with pytest.raises(InputError, match=r"b is nan; expected finite"):
            factors.solve(b)
        with pytest.raises(InputError, match=r"b is nan; expected finite"):
            solver.solve(system.d, system.u, b, l=system.l)
        assert np.array_equal(factors.solve(system.b), x)


def test_lost_digits_are_reported(cpu):
    assert_lost_digits_are_told(cpu, 1, {}, {})


def test_outputs_that_do_not_fit_are_refused_by_small_batches_too(cpu):
    systems = Tridiagonal([8, 8], queue=cpu)
    factors, b = systems.factor(1.0, 4.0 * np.ones((2, 8)), 1.0), np.ones((2, 8))
    x = factors.solve(b)
    frozen = np.empty((2, 8))
    frozen.flags.writeable = False
    for out in (frozen, np.empty((2, 7)), np.empty((2, 8), np.float32), [0.0] * 16):
        with pytest.raises(InputError, match="out is"):
            factors.solve(b, out=out)
    for shape in ((2, 8), (16,)):
        assert np.array_equal(factors.solve(b.reshape(shape)), x.reshape(shape))
    with pytest.raises(InputError, match="shape"):
        factors.factors.solve(b)  # a Solver takes (n,) only


def test_small_batches_have_one_work_item(cpu):
    small = Solver(Forest.repeat([chain(64)], 100), queue=cpu).engine
    large = Solver(Forest.repeat([chain(64)], 10_000), queue=cpu).engine
    assert small.kernels.items(1) == 1
    assert large.kernels.items(1) > 1
    assert large.kernels.items(1) <= lanes._ITEMS * cpu.device.max_compute_units


def test_rows_of_both_signs_and_factors_of_tridiagonals_can_be_pickled(cpu):
    rng = np.random.default_rng(5)
    dl, du = rng.uniform(-1, 1, (2, 3, 19))
    d = rng.uniform(4, 5, (3, 20)) * rng.choice([-1, 1], (3, 20))
    b = rng.uniform(-1, 1, (3, 20))
    factors = Tridiagonal([20] * 3, queue=cpu).factor(dl, d, du)
    again = pickle.loads(pickle.dumps(factors))
    bands = np.zeros((3, 20))
    for k in range(3):
        bands[0, 1:], bands[1], bands[2, :-1] = du[k], d[k], dl[k]
        expected = solve_banded((1, 1), bands, b[k])
        np.testing.assert_allclose(factors.solve(b)[k], expected, rtol=1e-12)
    assert np.array_equal(again.solve(b), factors.solve(b))
    assert np.array_equal(again.solve(b, transpose=True), factors.solve(b, transpose=True))


def test_values_that_are_not_finite_are_solved_twice_at_most(fast_queue, monkeypatch):
    """The small solve fails, and then the usual solve reports the position of the value."""
    systems = Tridiagonal([8] * 4, queue=fast_queue)
    factors = systems.factor(-1.0, 4.0, -1.0)
    b = np.ones((4, 8))
    for _ in range(3):
        factors.solve(b)
    quick, calls = type(factors.factors).quick, []

    def counted(*arguments):
        calls.append(quick(*arguments))
        return calls[-1]

    monkeypatch.setattr(type(factors.factors), "quick", counted)
    b[2, 3] = np.nan
    with pytest.raises(InputError, match=r"system 2, row 3 .*: b is nan"):
        factors.solve(b)
    assert calls == [None]
