"""`solve_tridiagonal` against SciPy: shapes, signs, right-hand sides, and what it refuses."""

import numpy as np
import pyopencl.array as cla
import pytest
from scipy.linalg import solve_banded

from clhines import InputError, PivotError, solve_tridiagonal

SIZES = [1, 5, 2, 33, 1, 64, 3]


def make(sizes, seed=1, signs=True):
    """Diagonals with one value a row, dominant by rows, and two right-hand sides.

    What lies outside the matrices is NaN.
    """
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    dl, du = rng.uniform(-1, 1, (2, n))
    d = 2.5 + rng.uniform(0, 1, n)
    if signs:
        d *= rng.choice([-1, 1], n)
    ends = np.cumsum(sizes)
    dl[ends - sizes] = du[ends - 1] = np.nan
    return dl, d, du, rng.uniform(-1, 1, (2, n))


def truth(sizes, dl, d, du, b):
    """SciPy's solution in float64, system after system."""
    x = np.empty(b.shape)
    ends = np.cumsum(sizes)
    for lo, hi in zip(ends - sizes, ends, strict=True):
        bands = np.zeros((3, hi - lo))
        bands[0, 1:], bands[1], bands[2, :-1] = du[lo : hi - 1], d[lo:hi], dl[lo + 1 : hi]
        x[..., lo:hi] = solve_banded((1, 1), bands, b[..., lo:hi].T).T
    return x


def assert_near(x, expected):
    """Pivots are above 1.5 here, so that errors do not grow along a system."""
    assert x.shape == expected.shape
    assert np.abs(x - expected).max() <= 16 * np.finfo(x.dtype).eps * np.abs(expected).max()


def less(a):
    return a[~np.isnan(a)]


@pytest.mark.parametrize("lapack", [True, False], ids=["gtsv", "padded"])
@pytest.mark.parametrize("method", ["auto", "levels", "interleaved", "contraction"])
def test_ragged(queue, needs, method, lapack):
    needs(queue, np.float64)
    dl, d, du, b = make(SIZES)
    expected = truth(SIZES, dl, d, du, b)
    low, up = (less(dl), less(du)) if lapack else (dl, du)
    kept = [a.copy() for a in (low, d, up, b)]
    x = solve_tridiagonal(low, d, up, b, sizes=SIZES, method=method, queue=queue)
    assert x.dtype == np.float64
    assert_near(x, expected)
    one = solve_tridiagonal(low, d, up, b[1], sizes=np.array(SIZES), method=method, queue=queue)
    assert_near(one, expected[1])
    for a, before in zip((low, d, up, b), kept, strict=True):
        assert np.array_equal(a, before, equal_nan=True)


@pytest.mark.parametrize("lapack", [True, False], ids=["gtsv", "padded"])
@pytest.mark.parametrize("shape", [(7, 20), (1, 5), (9, 1), (1, 1)])
def test_equal_sizes(queue, shape, lapack):
    m, n = shape
    dl, d, du, b = (a.astype(np.float32) for a in make([n] * m, seed=n))
    expected = truth([n] * m, *(a.astype(np.float64) for a in (dl, d, du, b)))
    low, up = (less(dl).reshape(m, n - 1), less(du).reshape(m, n - 1)) if lapack else (dl, du)
    low, up = low.reshape(m, -1), up.reshape(m, -1)
    x = solve_tridiagonal(low, d.reshape(shape), up, b.reshape(2, m, n), queue=queue)
    assert x.dtype == np.float32
    assert_near(x, expected.reshape(2, m, n))
    x = solve_tridiagonal(low, d.reshape(shape), up, b[0].reshape(shape), queue=queue)
    assert_near(x, expected[0].reshape(shape))


def test_one_system_and_mixed_kinds(queue):
    """Row 0: 2 x0 + x1 = 4; row 1: 3 x0 - 5 x1 + x2 = -4; row 2: -x1 + 2 x2 = 4."""
    for low, up in (([3, -1], [1, 1]), ([9, 3, -1], [1, 1, 9]), ([3, -1], np.ones(3))):
        x = solve_tridiagonal(low, [2, -5, 2], up, [4, -4, 4], dtype=np.float32, queue=queue)
        assert x == pytest.approx([1, 2, 3], rel=1e-5)
        assert x.dtype == np.float32


def test_the_laplacian(queue, needs):
    """Negative definite and not strictly dominant; the order of `d`, `b` in memory is free."""
    needs(queue, np.float64)
    n = 50
    d = np.full((n, 4), -2.0).T
    known = np.random.default_rng(3).random((4, n))
    padded = np.pad(known, ((0, 0), (1, 1)))
    b = np.asfortranarray(padded[:, :-2] - 2 * known + padded[:, 2:])
    off = np.ones((4, n - 1))
    for method in ("auto", "levels", "contraction"):
        x = solve_tridiagonal(off, d, off, b, method=method, queue=queue)
        assert np.abs(x - known).max() < 1e4 * np.finfo(float).eps  # condition about n * n / 2


def test_bad_pivots_name_system_and_row(queue):
    dl, d, du, b = (a.astype(np.float32) for a in make(SIZES, signs=False))
    d[9] = 0
    dl[10] = 0  # so that the pivot of row 9 is this zero
    with pytest.raises(PivotError, match=r"system 3, row 1 \(row 9 of all\)") as caught:
        solve_tridiagonal(dl, d, du, b, sizes=SIZES, method="levels", queue=queue)
    assert (caught.value.cell, caught.value.node) == (3, 9)
    x = solve_tridiagonal(dl, d, du, b, sizes=SIZES, method="levels", check=False, queue=queue)
    good = np.r_[:8, 41 : sum(SIZES)]
    expected = truth(SIZES, *(a.astype(np.float64) for a in (dl, np.where(d, d, 1), du, b)))
    assert_near(x[:, good], expected[:, good])


def test_options_go_to_the_solver(queue):
    ones = np.ones((3, 4), np.float32)
    arguments = 0 * ones, 2 * ones, 0 * ones, ones
    x = solve_tridiagonal(*arguments, method="levels", padding="compute", queue=queue)
    assert (x == 0.5).all()
    with pytest.raises(InputError, match="'padding' is not one of method 'flat'"):
        solve_tridiagonal(*arguments, method="flat", padding="skip", queue=queue)
    with pytest.raises(InputError, match="expected float64 or float32"):
        solve_tridiagonal(*arguments, dtype=np.int32, queue=queue)


def test_what_does_not_fit_is_refused(queue):
    a = np.ones((3, 4))
    flat = np.ones(6)
    gpu = cla.to_device(queue, flat)
    for arguments, *sizes, words in [
        ((a[:, 1:], a, a[:2], a), r"du has shape \(2, 4\); expected \(3, 3\) or .* \(3, 4\)"),
        ((a[:, 2:], a, a, a), r"dl has shape \(3, 2\); expected \(3, 3\)"),
        ((a, a, a, a[0]), r"b has shape \(4,\); expected that of d, \(3, 4\), or k of these"),
        ((a, a, a, np.ones((2, 2, 3, 4))), r"b has shape \(2, 2, 3, 4\)"),
        ((a, a, a, a), [4, 4, 4], r"d has shape \(3, 4\); expected \(N,\) with sizes"),
        ((a, a[None], a, a), r"d has shape \(1, 3, 4\); expected \(m, n\) or \(n,\)"),
        ((a, a[:0], a, a), r"d has shape \(0, 4\)"),
        ((flat, flat, flat, flat), [2, 3], r"sizes is \[2 3\] of int64; expected .* d, 6"),
        ((flat, flat, flat, flat), [6, 0], r"sizes is \[6 0\]"),
        ((flat, flat, flat, flat), [2.0, 4.0], r"sizes is \[2\. 4\.\] of float64"),
        ((flat, flat, flat, flat), 6, r"sizes is 6 of int64"),
        ((flat[:3], flat, flat, flat), [2, 4], r"dl has shape \(3,\); expected \(4,\) or"),
        ((flat, gpu, flat, flat), "d is a pyopencl array; expected NumPy"),
        ((flat, flat + 1j, flat, flat), "d has dtype complex128; expected real numbers"),
        ((flat, flat, flat, [[1], [1, 2]]), "b is not an array"),
    ]:
        with pytest.raises(InputError, match=words) as caught:
            solve_tridiagonal(*arguments, sizes=sizes[0] if sizes else None, queue=queue)
        assert "\n" not in str(caught.value)
    flat[3] = np.nan
    with pytest.raises(InputError, match="node 3: b is nan; expected finite"):
        solve_tridiagonal(np.zeros(6), np.ones(6), np.zeros(6), flat, dtype=np.float32, queue=queue)
