"""Inaccurate solutions are reported, and no others, against NumPy and LAPACK."""

import warnings

import numpy as np
import pyopencl.array as cla
import pytest
from solvers import CONFIGS, DTYPES, ONE_EACH, make_solver, skip_too_wide

from clhines import (
    METHODS,
    AccuracyWarning,
    Forest,
    InputError,
    Solver,
    Tridiagonal,
    solve_tridiagonal,
)
from clhines.solver import reference
from clhines.solver.accuracy import MOST_LOST

TWO = np.array([-1.0]), np.array([1.0, 1e-17]), np.array([1.0]), np.array([1.0, 2.0])  # x: -2, 3
BY_ELIMINATION = [name for name in ONE_EACH if not METHODS[CONFIGS[name][0]].chains_only]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("config", ONE_EACH)
def test_a_pivot_next_to_nothing_is_reported(queue, needs, config, dtype):
    needs(queue, dtype)
    method, options = CONFIGS[config]
    skip_too_wide(queue, options.get("vector_width", 1), dtype)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = solve_tridiagonal(*TWO, dtype=dtype, method=method, queue=queue, **options)
    assert np.allclose(x, (-2, 3), rtol=1e-6) or len(caught) == 1
    for w in caught:
        assert w.category is AccuracyWarning and w.filename == __file__
        assert (w.message.cell, w.message.node, w.message.cells) == (0, 0, (0,))
        assert "system 0, row 0 (row 0 of all)" in str(w.message)


def skew(rng, m, n):
    """Return well-conditioned systems; their pivots have any size without pivoting."""
    off = rng.uniform(0.5, 2, (m, n - 1))
    return -off, 10 ** rng.uniform(-17, 0, (m, n)), off, rng.standard_normal((m, n))


def dense(dl, d, du):
    m, n = d.shape
    a = np.zeros((m, n, n))
    i = np.arange(n)
    a[:, i, i], a[:, i[1:], i[:-1]], a[:, i[:-1], i[1:]] = d, dl, du
    return a


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("config", BY_ELIMINATION)
def test_every_skew_system_without_its_digits_is_named(queue, needs, config, dtype):
    needs(queue, dtype)
    method, options = CONFIGS[config]
    skip_too_wide(queue, options.get("vector_width", 1), dtype)
    arrays = [a.astype(dtype) for a in skew(np.random.default_rng(61), 400, 40)]
    a, b = dense(*arrays[:3]), arrays[3].astype(float)

    def off(x):  # each system's relative residual
        rest = np.abs(np.einsum("mij,mj->mi", a, x) - b).max(1)
        return rest / (np.abs(a).sum(2).max(1) * np.abs(x).max(1) + np.abs(b).max(1))

    exact = np.linalg.solve(a, b[..., None])[..., 0]  # pivoting, float64
    assert off(exact).max() < 1e-15
    system = Tridiagonal([40] * 400, method, dtype, queue=queue, **options)
    x = system.solve(*arrays, check=False)
    named = system.solver.bad_pivots()
    most = 1e-10 * float(np.finfo(dtype).eps / np.finfo(float).eps)
    lost = np.flatnonzero(~(off(x.astype(float)) <= most))
    assert len(lost) > 40 and set(lost.tolist()) <= set(named.cells.tolist())
    with pytest.warns(AccuracyWarning):
        system.status()
    good = np.setdiff1d(np.arange(400), named.cells[named.bad])  # in float32 pivots may vanish
    arrays = [a[good] for a in arrays]
    some = Tridiagonal([40] * len(good), method, dtype, queue=queue, **options)
    with pytest.warns(AccuracyWarning) as caught:
        assert np.array_equal(some.solve(*arrays), x[good], equal_nan=True)
    left = np.searchsorted(good, np.intersect1d(lost, good))
    assert set(left.tolist()) <= set(caught[0].message.cells)
    with pytest.raises(AccuracyWarning) as error:
        some.solve(*arrays, check="raise")
    assert error.value.cells == caught[0].message.cells


@pytest.mark.parametrize("config", BY_ELIMINATION)
def test_dominant_matrices_never_warn(queue, config):
    """Rows or columns dominate, graded over 10^8, nearly singular, with all sizes and shapes."""
    rng = np.random.default_rng(62)
    sizes = np.r_[np.arange(1, 40), rng.integers(40, 400, 30), 3000]
    offsets = np.r_[0, np.cumsum(sizes)]
    parent = np.concatenate(
        [
            np.where(np.arange(n) == 0, -1, o + np.where(rng.random(n) < share, here, before))
            for n, o, share in zip(sizes, offsets, rng.choice([0.0, 0.1, 0.9], len(sizes)))
            for before in [np.arange(n) - 1]
            for here in [(rng.random(n) * np.arange(n)).astype(int)]
        ]
    )
    forest = Forest(parent, offsets)
    solver = make_solver(queue, forest, config, np.float32)
    inner = np.flatnonzero(parent >= 0)
    for k in range(8):
        u, low = (rng.standard_normal(len(parent)) * 10 ** rng.uniform(-4, 4) for _ in "ul")
        u[parent < 0] = low[parent < 0] = 0
        mine, theirs = (low, u) if k % 2 else (u, low)
        d = np.abs(mine)
        np.add.at(d, parent[inner], np.abs(theirs)[inner])
        d = d * (1 + 10.0 ** -rng.integers(1, 5)) + 1e-6
        solver.solve(*(a.astype(np.float32) for a in (d, u, d)), l=low.astype(np.float32))
        assert not len(solver.bad_pivots().cells)


def test_implicit_diffusion_and_convection_never_warn(queue):
    n, rng = 500, np.random.default_rng(63)
    for diffusion in (0.0, 1.0, 1e6):
        for speed in (0.1, 1.0, 10.0):  # grid cells per time step, in both directions
            dl, du = -diffusion - speed / 2, -diffusion + speed / 2
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                x = solve_tridiagonal(
                    np.full(n - 1, dl, np.float32),
                    np.full(n, 1 + 2 * diffusion, np.float32),
                    np.full(n - 1, du, np.float32),
                    rng.standard_normal((3, n)).astype(np.float32),
                    queue=queue,
                )
            assert np.isfinite(x).all()


@pytest.mark.parametrize("config", ["flat", "fine_5", "contraction_6"])
def test_factors_warn_in_each_solve(queue, config):
    forest = Forest(np.array([-1, 0, -1, 2]), np.array([0, 2, 4]))
    given = [np.float32(a) for a in ([1, 1, 1, 1e-12], [0, 1, 0, 1], [1, 2, 1, 2], [0, 0.5, 0, -1])]
    d, u, b, low = given
    solver = make_solver(queue, forest, config, np.float32)
    factors = solver.factor(d, u, l=low)
    device = [cla.to_device(queue, a) for a in given]
    on_device = solver.factor(device[0], device[1], l=device[3])
    calls = {
        "solve": lambda: solver.solve(d, u, b, l=low),
        "factors": lambda: factors.solve(b),
        "transposed": lambda: factors.solve(b[::-1].copy(), transpose=True),
        "device": lambda: solver.solve(*device[:3], l=device[3]),
        "factors on device": lambda: on_device.solve(device[2]),
        "in place": lambda: solver.solve(d, u, b.copy(), l=low, overwrite=True),
        "later": lambda: (solver.solve(d, u, b, l=low, check=False), solver.status())[0],
    }
    for name, call in calls.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x = call()
        x = x.get() if isinstance(x, cla.Array) else x
        if name not in ("in place", "later", "transposed"):
            error = reference.residual(forest, d, u, b, x, low) / np.finfo(np.float32).eps
            assert len(caught) == (error > MOST_LOST), name
        for w in caught:
            assert w.message.cells == (1,) and w.category is AccuracyWarning, name
            assert "cell 1, node " in str(w.message)
    if config != "contraction_6":  # it starts from the other end
        assert len(caught) == 1


@pytest.mark.parametrize("method", ["cr", "pcr", "cr_pcr"])
def test_cyclic_reduction_warns_wherever_its_arrays_lie(double_queue, method):
    rng, m, n = np.random.default_rng(64), 2000, 30
    dl, du = rng.uniform(-1, 1, (2, m, n)) * 10 ** rng.uniform(-6, 6, (2, m, n))
    given = dl, 1.0001 * (np.abs(dl) + np.abs(du)), du, rng.uniform(-1, 1, (m, n))
    device = [cla.to_device(double_queue, a) for a in given]
    systems = Tridiagonal([n] * m, method, queue=double_queue)
    for a in given, device:
        with pytest.raises(AccuracyWarning, match="componentwise backward error of '.*cr"):
            systems.solve(*a, check="raise")
        with pytest.raises(AccuracyWarning, match="componentwise backward error of '.*cr"):
            systems.factor(*a[:3]).solve(a[3], check="raise")


def test_what_check_may_be(queue):
    solver = Solver(Forest(np.array([-1, 0])), dtype=np.float32, queue=queue)
    ones = np.ones(2, np.float32)
    for wrong in ("rise", 2, None):
        with pytest.raises(InputError, match="check is .*; expected True, False or 'raise'"):
            solver.solve(2 * ones, ones, ones, check=wrong)
        with pytest.raises(InputError, match="check is "):
            solver.factor(2 * ones, ones, check=wrong)
    assert np.allclose(solver.solve(2 * ones, ones, ones, check="raise"), 1 / 3)
