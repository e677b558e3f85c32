"""Solves in JAX, by JAX's checks of gradients, against its own dense solver."""

import numpy as np
import pytest
from solvers import make_solver
from systems import small_system
from tolerances import assert_close

import clhines
from clhines import InputError

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")


@pytest.fixture(autouse=True)
def _double():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture(params=[(True, None), (False, 2)], ids=["symmetric", "unsymmetric"])
def case(request, double_queue):
    system = small_system(*request.param)
    arrays = {name: jnp.asarray(a) for name, a in system.arrays.items() if a is not None}
    return system, arrays, make_solver(double_queue, system.forest, "contraction_6")


def dense_solve(system, given):
    forest = system.forest
    child = np.flatnonzero(forest.parent >= 0)
    up = forest.parent[child]
    matrix = jnp.diag(given["d"]).at[up, child].set(given["u"][child])
    matrix = matrix.at[child, up].set(given.get("l", given["u"])[child])
    return jnp.linalg.solve(matrix, given["b"].T).T


def test_values_and_gradients_are_those_of_a_dense_solve(case):
    system, given, solver = case

    def loss(given, solve):
        x = solve(given)
        return jnp.sin(x).sum(), x

    def ours(given):
        return clhines.jax.solve(solver, **given)

    both = []
    for solve in (ours, lambda given: dense_solve(system, given)):
        compiled = jax.jit(jax.value_and_grad(lambda g, s=solve: loss(g, s), has_aux=True))
        both.append(compiled(given))
    ((_, x), grads), ((_, truth), expected) = both
    assert_close(system.forest, np.asarray(x), np.asarray(truth), np.float64)
    for name, a in grads.items():  # of order 1: some hundred roundings
        np.testing.assert_allclose(a, expected[name], rtol=0, atol=2e-14, err_msg=name)


def test_check_grads_to_the_second_order(case):
    from jax.test_util import check_grads

    _, given, solver = case

    def solve(given):
        return clhines.jax.solve(solver, **given)

    check_grads(solve, (given,), order=2, modes=["rev"])


def test_vmap_and_scan(case):
    """A time loop of ten steps under `jit`, and many right-hand sides under `vmap`."""
    system, operands, solver = case
    rows = jnp.stack([operands["b"], 2 * operands["b"], -operands["b"]])
    x = jax.vmap(lambda b: clhines.jax.solve(solver, **{**operands, "b": b}))(rows)
    for row, b in zip(x, rows, strict=True):
        truth = dense_solve(system, {**operands, "b": b})
        assert_close(system.forest, np.asarray(row), np.asarray(truth), np.float64)

    def last(d, solve):
        def step(v, _):
            return solve({**operands, "d": d, "b": v + 1}), None

        return (jax.lax.scan(step, operands["b"], None, length=10)[0] ** 2).sum()

    def ours(arrays):
        return clhines.jax.solve(solver, **arrays)

    got = jax.jit(jax.grad(lambda d: last(d, ours)))(operands["d"])
    expected = jax.grad(lambda d: last(d, lambda g: dense_solve(system, g)))(operands["d"])
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_what_cannot_be_done_is_refused(case):
    _, arrays, solver = case
    with pytest.raises(InputError, match="u has dtype float32; expected float64; set jax_enable"):
        clhines.jax.solve(solver, **{**arrays, "u": arrays["u"].astype(np.float32)})
    with pytest.raises(InputError, match="b has shape"):
        clhines.jax.solve(solver, **{**arrays, "b": arrays["b"][..., 1:]})
    with pytest.raises(InputError, match="d is not an array: "):
        clhines.jax.solve(solver, **{**arrays, "d": None})
    with pytest.raises(InputError, match="solver is str"):
        clhines.jax.solve("solver", **arrays)
