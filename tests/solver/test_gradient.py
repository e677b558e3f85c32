"""Transposed solves and gradients, against dense matrices and finite differences."""

import numpy as np
import pyopencl.array as cla
import pytest
from solvers import DTYPES, make_solver
from systems import dissimilar, families, make_system
from tolerances import C, assert_close

from bench.made import caterpillar, chain, star
from clhines import METHODS, Forest, InputError, PivotError, Solver
from clhines.solver import reference
from clhines.solver.factors import Gradients

CONFIGS = ["fine_5", "contraction_6"]


def transposed_truth(system, b):
    """Return the reference's solution with u and l swapped, the transposed matrix."""
    upper = system.u if system.l is None else system.l
    return reference.solve_serial(system.forest, system.d, upper, b, l=system.u)


def factor(solver, system):
    return solver.factor(system.d, system.u, l=system.l)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("config", CONFIGS)
def test_transposed_solves_of_every_shape(typed_queue, config, dtype):
    cases = [(name, False) for name in families()] + [(name, True) for name in families(half=1)]
    for name, symmetric in cases:
        forest = Forest.from_parents(families()[name])
        system = make_system(forest, dtype, symmetric, rows=2)
        factors = factor(make_solver(typed_queue, forest, config, dtype), system)
        x = factors.solve(system.b, transpose=True)
        try:
            assert_close(forest, x, system.dense_solution(True), dtype)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
        plain = factors.solve(system.b)  # the factors are unchanged
        system.assert_solved(plain)
        assert_close(forest, plain, system.dense_solution(), dtype)
        assert (factors.status() == -1).all()
        twice = factors.transposed().transposed().solve(system.b)
        np.testing.assert_array_equal(twice, plain)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_solves_transposed(double_queue, method):
    cells = [chain(n) for n in (1, 2, 33)] if METHODS[method].chains_only else dissimilar(7)
    solver = Solver(Forest.from_parents(cells), method, queue=double_queue)
    system = make_system(solver.forest, symmetric=False)
    factors = factor(solver, system)
    x = factors.solve(system.b, transpose=True)
    assert_close(solver.forest, x, transposed_truth(system, system.b), np.float64)


def test_device_arrays_are_solved_transposed(double_queue):
    forest = Forest.from_parents(dissimilar(5))
    system = make_system(forest, symmetric=False, rows=2)
    factors = factor(make_solver(double_queue, forest, "contraction_6"), system)
    x = factors.solve(cla.to_device(double_queue, system.b), transpose=True).get()
    assert_close(forest, x, system.dense_solution(True), np.float64)


def loss(system, **changed):
    """Return a smooth loss of the dense solution; its rows and nodes have different weights."""
    arrays = {**system.arrays, **changed}
    x = reference.solve_serial(system.forest, **arrays)
    weight = np.linspace(0.5, 1.5, x.size).reshape(x.shape)
    return 0.5 * (weight * x**2).sum(), weight * x


@pytest.mark.parametrize("rows", [None, 3])
@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "unsymmetric"])
@pytest.mark.parametrize("config", CONFIGS)
def test_gradients_are_central_differences(double_queue, config, symmetric, rows):
    """Compare every entry of d, u, l and b with the change of the reference's loss.

    The error of a central difference with step h is h**2 / 6 times a third derivative plus
    eps * loss / h. Diagonals dominate rows by 0.5 at least, so each derivative of x adds a factor
    up to 2: third derivatives are some 6 * 2**3 times the largest x squared.
    """
    forest = Forest.from_parents([star(6), caterpillar(9), chain(1), *dissimilar(2, most=20)])
    system = make_system(forest, symmetric=symmetric, rows=rows)
    solver = make_solver(double_queue, forest, config)
    x = solver.solve(**system.arrays)
    value, g = loss(system)
    factored = factor(solver, system).vjp(x, g)
    plain = solver.vjp(system.d, system.u, x, g, l=system.l)
    assert isinstance(plain, Gradients)
    assert (plain.l is None) == symmetric == (factored.l is None)
    h = 1e-5
    largest = np.abs(x).max() ** 2 * (rows or 1)
    bound = h**2 * 8 * 6 * largest * 10 + 4 * np.finfo(float).eps * value / h
    roots = forest.parent < 0
    for name in "dub" if symmetric else "dubl":
        ours, again = getattr(factored, name), getattr(plain, name)
        arrays = system.arrays[name]
        assert ours.shape == arrays.shape and ours.dtype == np.float64
        np.testing.assert_allclose(again, ours, rtol=0, atol=64 * np.finfo(float).eps * largest)
        for at in np.ndindex(arrays.shape):
            if name in "ul" and roots[at[-1]]:
                assert ours[at] == 0
                continue
            ends = []
            for sign in (1, -1):
                moved = arrays.copy()
                moved[at] += sign * h
                ends.append(loss(system, **{name: moved})[0])
            assert abs((ends[0] - ends[1]) / (2 * h) - ours[at]) <= bound, (name, at)


def test_gradients_in_float32(fast_queue):
    forest = Forest.from_parents(dissimilar(5))
    system = make_system(forest, np.float32, symmetric=False, rows=2)
    solver = make_solver(fast_queue, forest, "contraction_6", np.float32)
    x = solver.solve(**system.arrays)
    ours = factor(solver, system).vjp(x, system.b)
    x64, y = system.dense_solution(), system.dense_solution(True)
    assert ours.d.dtype == ours.u.dtype == ours.l.dtype == ours.b.dtype == np.float32
    # Each factor is off by the forward bound, relative to the largest one of its cell.
    eps = C * np.finfo(np.float32).eps * np.sqrt(forest.heights.max())
    bound = 2 * (2 * eps + np.finfo(np.float32).eps) * np.abs(x64).max() * np.abs(y).max()
    np.testing.assert_allclose(ours.d, -(x64 * y).sum(axis=0), rtol=0, atol=bound)
    inner, up = np.flatnonzero(forest.parent >= 0), forest.parent[forest.parent >= 0]
    np.testing.assert_allclose(
        ours.u[inner], -(y[:, up] * x64[:, inner]).sum(axis=0), rtol=0, atol=bound
    )


def test_what_cannot_be_done_is_refused(double_queue):
    forest = Forest.from_parents(dissimilar(2))
    system = make_system(forest)
    n = forest.num_nodes
    solver = make_solver(double_queue, forest, "flat")
    factors = factor(solver, system)
    x = factors.solve(system.b)
    for bad, text in (
        ((x, x[:-1]), f"g has shape .*expected \\({n},\\)"),
        ((x, np.stack([x, x])), "g has shape .*expected as for x"),
        ((x, np.full(n, np.nan)), "g\\[0\\] is nan"),
        ((cla.to_device(double_queue, x), x), "x is a pyopencl array"),
        ((x, x.astype(complex)), "g has dtype complex128"),
    ):
        with pytest.raises(InputError, match=text):
            factors.vjp(*bad)
        with pytest.raises(InputError, match=text):
            solver.vjp(system.d, system.u, *bad)
    with pytest.raises(InputError, match="transpose is 1; expected True or False"):
        factors.solve(system.b, transpose=1)
    with pytest.raises(PivotError):
        solver.vjp(np.zeros(n), system.u, x, x)
