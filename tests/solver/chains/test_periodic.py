"""Periodic tridiagonal systems against dense solves."""

import pickle

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

from clhines import AccuracyWarning, InputError, PivotError, Tridiagonal, solve_tridiagonal


def dense(dl, d, du):
    a = np.diag(d) + np.diag(dl[1:], -1) + np.diag(du[:-1], 1)
    a[0, -1] += dl[0]
    a[-1, 0] += du[-1]
    return a


def random_systems(m, n, seed=1):
    rng = np.random.default_rng(seed)
    dl, du = rng.uniform(-1, 1, (2, m, n))
    return dl, rng.uniform(2.5, 4, (m, n)), du, rng.uniform(-1, 1, (m, n))


@pytest.mark.core
@pytest.mark.parametrize(("m", "n"), [(1, 3), (5, 4), (20, 31)])
def test_solutions_of_equal_systems(fast_queue, m, n):
    dl, d, du, b = random_systems(m, n)
    d[m // 2] *= -1
    expected = [np.linalg.solve(dense(*one), rhs) for *one, rhs in zip(dl, d, du, b, strict=True)]
    x = solve_tridiagonal(dl, d, du, b, periodic=True, queue=fast_queue)
    np.testing.assert_allclose(x, expected, rtol=1e-11, atol=1e-13)
    factors = Tridiagonal([n] * m, queue=fast_queue).factor(dl, d, du, periodic=True)
    for _ in range(2):
        assert np.array_equal(factors.solve(b), x)
    rows = np.stack((b, 2 * b))
    assert np.allclose(factors.solve(rows), np.stack((x, 2 * x)), rtol=1e-12)
    columns = np.moveaxis(rows, 0, -1)
    assert np.array_equal(factors.solve(columns, columns=True)[..., 1], factors.solve(rows)[1])
    out = b.copy()
    assert factors.solve(out, out=out) is out
    assert np.array_equal(out, x)
    assert np.array_equal(pickle.loads(pickle.dumps(factors)).solve(b), x)


def test_systems_of_several_sizes_and_numbers(fast_queue):
    sizes = [3, 9, 4]
    dl, d, du, b = (a[0] for a in random_systems(1, 16))
    x = solve_tridiagonal(dl, d, du, b, sizes=sizes, periodic=True, queue=fast_queue)
    for k, n in enumerate(sizes):
        part = slice(sum(sizes[:k]), sum(sizes[:k]) + n)
        expected = np.linalg.solve(dense(dl[part], d[part], du[part]), b[part])
        np.testing.assert_allclose(x[part], expected, rtol=1e-11)
    heat = solve_tridiagonal(-1.0, 2.5, -1.0, np.ones((2, 7)), periodic=True, queue=fast_queue)
    np.testing.assert_allclose(heat, 2.0, rtol=1e-12)
    single = solve_tridiagonal(
        *(np.float32(a) for a in (dl, d, du, b)), periodic=True, queue=fast_queue
    )
    assert single.dtype == np.float32
    expected = np.linalg.solve(dense(dl, d, du), b)
    np.testing.assert_allclose(single, expected, rtol=1e-4, atol=1e-5)


def test_singular_matrices_and_lost_digits_are_reported(fast_queue):
    b = np.ones((1, 8))
    with pytest.raises(PivotError, match="singular"):
        solve_tridiagonal(-1.0, 2.0, -1.0, b, periodic=True, queue=fast_queue)
    with pytest.raises(PivotError, match="singular"):
        solve_tridiagonal(-1.0, 2.0, -1.0, b, periodic=True, check="raise", queue=fast_queue)
    diagonals = [-1230.0, 99, 135], [0.118, 0.156, -0.107], [-0.14, -0.07, -0.00036]
    lost = np.array([*diagonals, [0.43, -0.8, 0.48]], np.float32)
    if fast_queue.device.type & cl.device_type.GPU:  # another order may meet a bad pivot
        with pytest.raises((AccuracyWarning, PivotError), match="system 0"):
            solve_tridiagonal(*lost, periodic=True, check="raise", queue=fast_queue)
        return
    with pytest.warns(AccuracyWarning, match="system 0: .* backward error is .* eps") as caught:
        solve_tridiagonal(*lost, periodic=True, queue=fast_queue)
    with pytest.raises(AccuracyWarning, match="system 0"):
        solve_tridiagonal(*lost, periodic=True, check="raise", queue=fast_queue)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("by_rows", [True, False])
def test_scales_of_rows_and_columns_do_not_matter(fast_queue, by_rows, dtype):
    rng = np.random.default_rng(7)
    m, n = 40, 5
    dl, du = rng.uniform(-1, 1, (2, m, n))
    scale = 10.0 ** rng.integers(-8, 9, (m, n))
    if by_rows:
        d = (np.abs(dl) + np.abs(du) + 0.2) * scale
        dl, du = dl * scale, du * scale
    else:  # column j has d[j], du of the row before and dl of the row after
        d = (np.abs(np.roll(du, 1, 1)) + np.abs(np.roll(dl, -1, 1)) + 0.2) * scale
        dl, du = dl * np.roll(scale, 1, 1), du * np.roll(scale, -1, 1)
    dl, d, du, b = (a.astype(dtype) for a in (dl, d, du, rng.uniform(-1, 1, (m, n))))
    x = solve_tridiagonal(dl, d, du, b, periodic=True, check="raise", queue=fast_queue)
    for k in range(m):
        a, one = dense(*(a[k].astype(np.longdouble) for a in (dl, d, du))), x[k].astype("g")
        size = np.abs(a) @ np.abs(one) + np.abs(b[k])
        assert (np.abs(b[k] - a @ one) <= 33 * np.finfo(dtype).eps * size).all(), k


HARD = {  # condition numbers up to 1e4; a chain without corners would lose digits
    "diagonal almost empty": ([-1.0, 1, -1, 1], [1e-8] * 4, [2.0, 2, -1, -1]),
    "implicit heat": ([-55.0] * 128, [111.0] * 128, [-55.0] * 128),
    "heat, large steps": ([-5e3] * 128, [1e4 + 1] * 128, [-5e3] * 128),
    "convection": ([-4.0] * 64, [2.5] * 64, [2.0] * 64),
    "nearly singular": ([-1.0] * 8, [2.0 + 1e-4] * 8, [-1.0] * 8),
    "large corners": ([30.0, 1, 1, 1, 1], [4.0] * 5, [1.0, 1, 1, 1, 30]),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_hard_systems_have_small_backward_errors(fast_queue, name, dtype):
    dl, d, du = (np.array(a, dtype) for a in HARD[name])
    b = np.random.default_rng(3).normal(size=len(d)).astype(dtype)
    gpu = fast_queue.device.type & cl.device_type.GPU  # eliminates rows in another order
    if name == "diagonal almost empty" and (gpu or dtype == "float32"):
        with pytest.raises(PivotError, match="system 0"):
            solve_tridiagonal(dl, d, du, b, periodic=True, queue=fast_queue)
        return
    a = dense(*(x.astype(np.float64) for x in (dl, d, du)))
    x = solve_tridiagonal(dl, d, du, b, periodic=True, check="raise", queue=fast_queue)
    gap = np.abs(b - a @ x.astype(np.float64))
    scale = np.abs(a) @ np.abs(x.astype(np.float64)) + np.abs(b)
    assert x.dtype == dtype and (gap <= 33 * np.finfo(dtype).eps * scale).all()
    factors = Tridiagonal([len(d)], dtype=dtype, queue=fast_queue).factor(dl, d, du, periodic=True)
    assert np.array_equal(factors.solve(b, check="raise"), x)
    assert np.array_equal(factors.solve(np.stack((b, -b)), check="raise"), np.stack((x, -x)))


@pytest.mark.filterwarnings("error")
def test_numbers_that_overflow_are_reported_by_errors_alone(fast_queue):
    largest = float(np.finfo(np.float64).max)
    ones, b = np.ones(8), np.full(8, largest / 3)
    x = solve_tridiagonal(-ones, 4 * ones, -ones, b, periodic=True, queue=fast_queue)
    np.testing.assert_allclose(x, b / 2, rtol=1e-15)
    for dtype in (np.float64, np.float32):
        diagonals = -ones * largest / 4, ones * largest, -ones * largest / 4
        with pytest.raises(PivotError, match="pivot is zero, negative, NaN or infinite"):
            solve_tridiagonal(*diagonals, ones, periodic=True, dtype=dtype, queue=fast_queue)


def test_a_bad_pivot_spoils_its_system_alone(fast_queue):
    ones, d = np.ones((2, 4)), np.array([[4.0] * 4, [0.0] * 4])
    systems = Tridiagonal([4, 4], queue=fast_queue)
    with np.errstate(all="ignore"):
        x = systems.solve(ones, d, ones, ones, periodic=True, check=False)
    np.testing.assert_allclose(x[0], 1 / 6, rtol=1e-14)


def test_what_does_not_fit_is_refused(fast_queue):
    dl, d, du, b = random_systems(2, 5)
    systems = Tridiagonal([5, 5], queue=fast_queue)
    with pytest.raises(InputError, match=r"dl has shape \(2, 4\); expected \(2, 5\) in periodic"):
        systems.solve(dl[:, 1:], d, du, b, periodic=True)
    with pytest.raises(InputError, match="d is a pyopencl array; expected NumPy for periodic"):
        systems.solve(dl, cla.to_device(fast_queue, d), du, b, periodic=True)
    with pytest.raises(InputError, match="system 1 has 2 rows; expected 3 or more"):
        Tridiagonal([3, 2], queue=fast_queue).factor(1.0, 4.0, 1.0, periodic=True)
    with pytest.raises(InputError, match="transpose=True is not supported for periodic"):
        systems.factor(dl, d, du, periodic=True).solve(b, transpose=True)
    with pytest.raises(InputError, match="d has rows of different sizes; expected one array, and "):
        solve_tridiagonal(1.0, [d[0], d[1, :4]], 1.0, [b[0], b[1, :4]], periodic=True)


@pytest.mark.parametrize("name", ["dl", "d", "du", "b"])
def test_complex_and_long_numbers_are_refused_with_a_way_out(fast_queue, name):
    system = dict(zip(("dl", "d", "du", "b"), random_systems(2, 5), strict=True))
    for wrong, said in (
        (
            system[name] * 1j,
            "expected real numbers: with a real matrix solve for b.real and b.imag",
        ),
        (
            system[name].astype(np.longdouble),
            "expected float64 or float32, as devices have no more",
        ),
    ):
        with pytest.raises(InputError, match=f"{name} has dtype .*{said}"):
            solve_tridiagonal(**{**system, name: wrong}, queue=fast_queue)
