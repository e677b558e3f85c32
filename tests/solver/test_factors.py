"""Factors: solves with a stored elimination equal plain solves, for every method and plan."""

import re
from dataclasses import replace

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from solvers import DTYPES, SHORT, make_solver, on_device
from systems import System, dissimilar, forest_for, make_system
from tolerances import assert_close

from bench.made import caterpillar, chain, random_binary_tree, star
from clhines import METHODS, Forest, InputError, PivotError, Solver
from clhines.solver.device import devices
from clhines.solver.plan.by_segment import contraction
from clhines.solver.plan.templates import render

pytestmark = pytest.mark.optimised
FACTORED = ["fine_5", "contraction_6"]


def factor(solver, system, **more):
    return solver.factor(system.d, system.u, l=system.l, **more)


def with_b(system, b):
    return System(system.forest, system.d, system.u, b, system.l)


@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "unsymmetric"])
@pytest.mark.parametrize("method", METHODS)
def test_every_row_solves_and_factors(double_queue, method, symmetric):
    forest = forest_for(method, [*dissimilar(7), star(40), caterpillar(30), chain(1)])
    solver = Solver(forest, method, queue=double_queue)
    system = make_system(solver.forest, symmetric=symmetric, rows=5)
    plain = solver.solve(**system.arrays)
    system.assert_solved(plain)
    factors = factor(solver, system)
    for b in (system.b, system.b[::-1].copy(), system.b[1], system.b[:2]):
        with_b(system, b).assert_solved(factors.solve(b))
    assert_close(solver.forest, factors.solve(system.b), plain, np.float64)
    other = make_system(solver.forest, symmetric=symmetric, rows=5, seed=2)
    other.assert_solved(solver.solve(**other.arrays))
    with_b(system, other.b).assert_solved(factors.solve(other.b))


@pytest.mark.parametrize("config", FACTORED)
def test_several_right_hand_sides_and_the_same_bits(queue, config):
    forest = Forest.from_parents([*dissimilar(9), star(70)])
    solver = make_solver(queue, forest, config, np.float32)
    system = make_system(forest, np.float32, symmetric=False, rows=7)
    factors = factor(solver, system)
    first = factors.solve(system.b)
    system.assert_solved(first)
    with_b(system, system.b[2]).assert_solved(factors.solve(system.b[2]))
    for _ in range(3):
        assert np.array_equal(factors.solve(system.b), first)
        assert np.array_equal(factor(solver, system).solve(system.b), first)


@pytest.mark.parametrize("config", FACTORED)
def test_device_arrays_with_factors(queue, config):
    forest = Forest.from_parents(dissimilar(6))
    for rows, symmetric in ((None, True), (3, False)):
        system = make_system(forest, np.float32, symmetric, rows)
        solver = make_solver(queue, forest, config, np.float32)
        expected = factor(solver, system).solve(system.b)
        arrays = on_device(queue, system)
        factors = solver.factor(arrays["d"], arrays["u"], l=arrays["l"])
        for name in "du":  # the caller may change these
            arrays[name].fill(np.nan)
        b = arrays["b"]
        x = factors.solve(b)
        assert isinstance(x, cla.Array)
        assert np.array_equal(x.get(), expected)
        assert np.array_equal(b.get(), system.b)
        assert factors.solve(b, out=x) is x
        assert factors.solve(b, overwrite=True) is b
        assert np.array_equal(b.get(), expected)

        packed = solver.to_device_order(system.b)
        out = cla.empty_like(packed)
        event = factors.enqueue(packed, out=out)
        assert isinstance(event, cl.Event)
        assert solver.kernel_events[-1] == event
        assert np.array_equal(solver.from_device_order(out).get(), expected)
        assert np.array_equal(solver.from_device_order(packed).get(), system.b)
        factors.enqueue(packed, out=packed, overwrite=True).wait()
        assert np.array_equal(solver.from_device_order(packed).get(), expected)
        system.assert_solved(expected)


def test_factors_stay_when_the_solver_goes_on(queue):
    forest = Forest.from_parents(dissimilar(6))
    solver = make_solver(queue, forest, "contraction", np.float32)
    one, two = make_system(forest, np.float32), make_system(forest, np.float32, seed=9)
    factors, others = factor(solver, one), factor(solver, two)
    two.d[3] = -1
    with pytest.raises(PivotError):
        solver.solve(**two.arrays)
    one.assert_solved(factors.solve(one.b))
    make_system(forest, np.float32, seed=9).assert_solved(others.solve(two.b))
    assert (factors.status() == -1).all()
    assert (solver.status() >= 0).any()  # from the last plain solve


@pytest.mark.parametrize("dtype", DTYPES)
def test_factors_of_cells_above_local_memory(typed_queue, dtype, monkeypatch):
    """Some launches store factors, others factor again; both report a bad pivot at once."""
    real = devices.limits
    monkeypatch.setattr(
        devices, "limits", lambda device: replace(real(device), local_bytes=10 << 10)
    )
    monkeypatch.setattr(contraction.room, "OWN_LAUNCH", 0)  # even for so few small cells
    forest = Forest.from_parents([chain(3000), *dissimilar(5), star(900), chain(3)])
    solver = Solver(forest, "contraction", dtype, queue=typed_queue, work_group=64, segment=SHORT)
    kept = [part.keeps_factors for part in solver.plan.parts]
    assert any(kept)
    assert not all(kept)
    symmetric, rows = (True, None) if dtype == np.float64 else (False, 3)
    system = make_system(forest, dtype, symmetric, rows)
    factors = factor(solver, system)
    system.assert_solved(factors.solve(system.b))
    system.assert_solved(factors.solve(system.b))
    for node in (1321, 3010, forest.num_nodes - 4):
        bad = system.copy()
        bad.d[node] = -1
        bad.u[forest.parent == node] = 0
        with pytest.raises(PivotError, match=f"node {node} "):
            factor(solver, bad)


def test_kernels_of_factors_do_what_they_must(queue):
    """`make` reads no b and stores no factors of rows; `use` has no division."""
    solver = make_solver(queue, Forest(random_binary_tree(60, 7, 1)), "contraction", np.float32)
    (part,) = solver.plan.parts
    sources = [render(part.solve_spec(False, 1, kind)) for kind in ("make", "use")]
    make, use = (re.sub("//.*", "", source) for source in sources)  # without comments
    assert "real *b" not in make
    assert "B(" not in make
    assert "reciprocal" in make
    assert "reciprocal" not in use
    assert "status[" not in use
    assert "/ pivot" not in use


def test_wrong_arguments_of_factors(queue):
    forest = Forest.from_parents([chain(3), star(4)])
    solver = make_solver(queue, forest, "contraction", np.float32)
    other = make_solver(queue, Forest(chain(90)), "contraction", np.float32)
    good, rows = np.full(7, 2, np.float32), np.ones((2, 7), np.float32)
    gpu = cla.to_device(queue, good)
    for arguments, words in [
        ((good[:6], good), r"d has shape \(6,\); expected \(7,\)"),
        ((good, rows), "d, u and l have one row"),
        ((good, gpu), "mix NumPy and pyopencl arrays; expected one kind"),
        ((good, None), "u is NoneType|u has dtype object"),
    ]:
        with pytest.raises(InputError, match=words):
            solver.factor(*arguments)
    factors = solver.factor(good, 0 * good)
    packed, foreign = solver.to_device_order(good), other.to_device_order(np.ones(90))
    for call, words in [
        (lambda: factors.solve(good[:5]), r"b has shape \(5,\); expected \(7,\) or \(k, 7\)"),
        (lambda: factors.solve(good, out=gpu), "out is Array of float32 .* expected ndarray"),
        (lambda: factors.solve(good * np.nan), "cell 0, node 0: b is nan; expected finite"),
        (lambda: factors.enqueue(foreign, out=foreign), "b has shape .* in device order"),
        (lambda: factors.enqueue(packed, out=foreign), "out has shape"),
        (
            lambda: factors.enqueue(packed, out=factors.eliminated.matrix[1]),
            "out is one of the factors",
        ),
        (lambda: factors.enqueue(good, out=packed), "b is ndarray; expected a pyopencl array"),
    ]:
        with pytest.raises(InputError, match=words) as caught:
            call()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("config", FACTORED)
def test_the_matrix_may_change_as_soon_as_factor_returns(queue, needs, config):
    needs(queue, np.float64)
    forest = Forest.from_parents([chain(3000)] * 4)
    d, u, b = (np.full(forest.num_nodes, value) for value in (4.0, -1.0, 1.0))
    solver = make_solver(queue, forest, config, np.float64)
    expected = solver.solve(d, u, b)
    for _ in range(5):
        own_d, own_u = d.copy(), u.copy()
        factors = solver.factor(own_d, own_u, check=False)
        own_d[:] = own_u[:] = np.nan
        assert_close(forest, factors.solve(b), expected, np.float64)
