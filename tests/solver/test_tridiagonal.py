"""Tridiagonal systems against SciPy: shapes, signs, right-hand sides; refusals."""

import numpy as np
import pyopencl.array as cla
import pytest
from scipy.linalg import solve_banded

from clhines import InputError, PivotError, Tridiagonal, solve_tridiagonal
from clhines.solver import tridiagonal

pytestmark = pytest.mark.optimised
SIZES = [1, 5, 2, 33, 1, 64, 3]


def make(sizes, seed=1, signs=True):
    """Return diagonals with one value a row, dominant by rows, and two right-hand sides.

    Entries outside the matrices are NaN.
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
    """Return SciPy's solution in float64, system after system."""
    x = np.empty(b.shape)
    ends = np.cumsum(sizes)
    for lo, hi in zip(ends - sizes, ends, strict=True):
        bands = np.zeros((3, hi - lo))
        bands[0, 1:], bands[1], bands[2, :-1] = du[lo : hi - 1], d[lo:hi], dl[lo + 1 : hi]
        x[..., lo:hi] = solve_banded((1, 1), bands, b[..., lo:hi].T).T
    return x


def assert_near(x, expected):
    """Compare to 16 roundings: pivots above 1.5 keep errors from growing along a system."""
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
    """Solve 2 x0 + x1 = 4; 3 x0 - 5 x1 + x2 = -4; -x1 + 2 x2 = 4."""
    for low, up in (([3, -1], [1, 1]), ([9, 3, -1], [1, 1, 9]), ([3, -1], np.ones(3))):
        x = solve_tridiagonal(low, [2, -5, 2], up, [4, -4, 4], dtype=np.float32, queue=queue)
        assert x == pytest.approx([1, 2, 3], rel=1e-5)
        assert x.dtype == np.float32


def test_the_laplacian(queue, needs):
    """Negative definite, not strictly dominant; `d` and `b` may be in Fortran order."""
    needs(queue, np.float64)
    n = 50
    d = np.full((n, 4), -2.0).T
    solution = np.random.default_rng(3).random((4, n))
    padded = np.pad(solution, ((0, 0), (1, 1)))
    b = np.asfortranarray(padded[:, :-2] - 2 * solution + padded[:, 2:])
    off = np.ones((4, n - 1))
    for method in ("auto", "levels", "contraction"):
        x = solve_tridiagonal(off, d, off, b, method=method, queue=queue)
        assert np.abs(x - solution).max() < 1e4 * np.finfo(float).eps  # condition about n * n / 2


def test_bad_pivots_name_system_and_row(queue):
    dl, d, du, b = (a.astype(np.float32) for a in make(SIZES, signs=False))
    d[9] = 0
    dl[10] = 0  # row 9 has this zero as its pivot
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
        ((a[:, 1:], a, a[:2], a), r"du has shape \(2, 4\); expected \(3, 3\) or \(3, 4\)"),
        ((a[:, 2:], a, a, a), r"dl has shape \(3, 2\); expected \(3, 3\)"),
        ((a, a, a, a[0, :3]), r"b has shape \(3,\); expected \(3, 4\) or \(12,\), or k of these"),
        ((a, a, a, np.ones((2, 2, 3, 4))), r"b has shape \(2, 2, 3, 4\)"),
        ((a, a, a, a), [4, 4, 3], r"d has shape \(3, 4\); expected \(11,\)"),
        ((a, a[None], a, a), r"d has shape \(1, 3, 4\); expected \(m, n\) or \(n,\)"),
        ((a, a[:0], a, a), r"d has shape \(0, 4\)"),
        ((flat, flat, flat, flat), [2, 3], r"d has shape \(6,\); expected \(5,\)"),
        ((flat, flat, flat, flat), [6, 0], r"sizes is \[6 0\]"),
        ((flat, flat, flat, flat), [2.0, 4.0], r"sizes is \[2\. 4\.\] of float64"),
        ((flat, flat, flat, flat), 6, r"sizes is 6 of int64"),
        ((flat[:3], flat, flat, flat), [2, 4], r"dl has shape \(3,\); expected \(4,\) or"),
        ((flat, gpu, flat, flat), "d is a pyopencl array; expected NumPy"),
        ((flat, flat + 1j, flat, flat), "d has dtype complex128; expected real numbers"),
        ((flat, flat, flat, [[1], [1, 2]]), "b has rows of different sizes; expected one array"),
    ]:
        with pytest.raises(InputError, match=words) as caught:
            solve_tridiagonal(*arguments, sizes=sizes[0] if sizes else None, queue=queue)
        assert "\n" not in str(caught.value)
    flat[3] = np.nan
    with pytest.raises(InputError, match="row 3 .row 3 of all.: b is nan; expected finite"):
        solve_tridiagonal(np.zeros(6), np.ones(6), np.zeros(6), flat, dtype=np.float32, queue=queue)


GRID = (5, 12)


def grid(seed=4):
    """Return five systems with rows of either sign, in LAPACK's shapes, and two b."""
    m, n = GRID
    dl, d, du, b = make([n] * m, seed)
    dl, du = less(dl).reshape(m, n - 1), less(du).reshape(m, n - 1)
    return dl, d.reshape(GRID), du, b.reshape(2, *GRID)


def of_grid(dl, d, du, b):
    m, n = GRID
    low, up = np.zeros(GRID), np.zeros(GRID)
    low[:, 1:], up[:, :-1] = dl, du
    d = np.broadcast_to(d, GRID)
    rows = np.broadcast_to(b, (*np.shape(b)[:-2], m, n))
    flat = [np.ascontiguousarray(a).reshape(-1) for a in (low, d, up)]
    return truth([n] * m, *flat, rows.reshape(*rows.shape[:-2], -1)).reshape(rows.shape)


@pytest.fixture(params=["host", "device"])
def place(request, queue, needs):
    """Return a function that moves arrays to the host or device, and its inverse."""
    needs(queue, np.float64)
    if request.param == "host":
        return np.ascontiguousarray, np.asarray
    return lambda a: cla.to_device(queue, np.ascontiguousarray(a)), lambda a: a.get(queue)


@pytest.mark.core
@pytest.mark.parametrize("padded", [False, True])
def test_kept_systems_in_all_orders(queue, place, padded):
    put, get = place
    dl, d, du, b = grid()
    expected = of_grid(dl, d, du, b)
    if padded:  # entries outside the matrices are ignored
        dl, du = np.pad(dl, ((0, 0), (1, 0)), constant_values=7.0), np.pad(du, ((0, 0), (0, 1)))
    m, n = GRID
    many = Tridiagonal([n] * m, queue=queue)
    assert repr(many).startswith("Tridiagonal(5 systems, 60 rows, float64, ")
    matrix = put(dl), put(d), put(du)
    flat = [put(a.reshape(-1)) for a in (dl, d, du)]
    factors = many.factor(*matrix)
    columns, flat_columns = np.moveaxis(b, 0, -1), b.reshape(2, -1).T
    for solve in (
        lambda b, **more: many.solve(*matrix, put(b), **more),
        lambda b, **more: many.solve(*flat, put(b), **more),
        lambda b, **more: factors.solve(put(b), **more),
    ):
        for _ in range(2):
            assert_near(get(solve(b[1])), expected[1])
        assert_near(get(solve(b)), expected)
        assert_near(get(solve(b.reshape(2, -1))), expected.reshape(2, -1))
        assert_near(get(solve(columns, columns=True)), np.moveaxis(expected, 0, -1))
        assert_near(get(solve(flat_columns, columns=True)), expected.reshape(2, -1).T)
        assert (many.status() == -1).all()
    assert (factors.status() == -1).all()


def test_solutions_go_to_out(queue, place):
    put, get = place
    dl, d, du, b = grid()
    expected = of_grid(dl, d, du, b)
    many = Tridiagonal([GRID[1]] * GRID[0], queue=queue)
    matrix = put(dl), put(d), put(du)
    factors = many.factor(*matrix)
    for solve in (lambda *a, **k: many.solve(*matrix, *a, **k), factors.solve):
        out, own = put(np.zeros_like(b)), put(b.copy())
        assert solve(put(b), out=out) is out
        assert_near(get(out), expected)
        assert solve(own, out=own) is own
        assert_near(get(own), expected)
        columns = np.moveaxis(b, 0, -1)
        out = put(np.zeros(columns.shape))
        assert solve(put(columns), out=out, columns=True) is out
        assert_near(get(out), np.moveaxis(expected, 0, -1))
        with pytest.raises(
            InputError, match=r"out is .* with shape \(5, 12\); expected .* \(2, 5, 12"
        ):
            solve(put(b), out=put(b[0]))
    spread = put(np.zeros(GRID))  # b is x's first row
    first = (
        spread[0]
        if isinstance(spread, np.ndarray)
        else cla.Array(queue, GRID[1], float, data=spread.base_data)
    )
    first[...] = put(b[0, 0]) if isinstance(first, cla.Array) else b[0, 0]
    assert_near(get(many.solve(*matrix, first, out=spread)), of_grid(dl, d, du, b[0, :1]))


def test_one_array_for_all_systems(queue, place):
    put, get = place
    dl, d, du, b = grid(seed=6)
    many = Tridiagonal(np.full(GRID[0], GRID[1]), queue=queue)
    for low, main, up, rhs in [
        (dl[0], d[1], du[2], b[0]),
        (dl[:1], d[1:2], du, b[:, :1]),
        (dl, d[3], du[4], b[0, 2]),
        (dl, d, du, b[1, :1]),
    ]:
        rows = rhs if rhs.ndim > 1 else rhs[None]
        expected = of_grid(low, main, up, rows)
        assert_near(get(many.solve(*(put(a) for a in (low, main, up, rhs)))), expected)
    x = many.solve(-1.0, 3, -1.0, b)
    assert_near(x, of_grid(np.full_like(dl, -1.0), 3.0, -1.0, b))
    assert_near(solve_tridiagonal(-1.0, d[:1] * 0 + 3, -1.0, b[0], queue=queue), x[0])
    assert_near(
        solve_tridiagonal(dl, d, du[0], b[0, 2], queue=queue), of_grid(dl, d, du[0], b[0, 2:3])
    )


@pytest.mark.parametrize("sizes", [SIZES, [1, 1, 1], [2, 2]])
def test_ragged_factors_and_transposes(queue, place, sizes):
    put, get = place
    dl, d, du, b = make(sizes, seed=8)
    expected = truth(sizes, dl, d, du, b)
    ends = np.cumsum(sizes)
    below, above = np.append(np.nan, du[:-1]), np.append(dl[1:], np.nan)
    below[ends - sizes] = above[ends - 1] = np.nan
    # columns do not dominate: errors may grow with the condition of systems with 33 and 64 rows
    backward = truth(sizes, below, d, above, b)
    many = Tridiagonal(sizes, queue=queue)
    for low, up in ((less(dl), less(du)), (dl, du)):
        factors = many.factor(put(low), put(d), put(up))
        assert_near(get(factors.solve(put(b))), expected)
        result = get(factors.solve(put(b), transpose=True))
        assert np.abs(result - backward).max() <= 1e-12 * np.abs(backward).max()
        assert_near(get(many.solve(put(low), put(d), put(up), put(b[0]))), expected[0])


def test_bad_rows_on_a_device(queue, place):
    put, get = place
    dl, d, du, b = grid()
    d[2, 0] = 0.0
    many = Tridiagonal([GRID[1]] * GRID[0], method="flat", queue=queue)
    d[2, -1] = dl[2, -1] = 0.0  # for either direction of elimination
    arrays = [put(a) for a in (dl, d, du, b)]
    with pytest.raises(PivotError, match="system 2, row 11 .row 35 of all.: pivot") as caught:
        many.solve(*arrays)
    assert (caught.value.cell, caught.value.node) == (2, 35)
    with pytest.raises(PivotError, match="system 2, row 11"):
        many.factor(*arrays[:3])
    x = get(many.solve(*arrays, check=False))
    assert many.status().tolist() == [-1, -1, 35, -1, -1]
    good = [0, 1, 3, 4]
    d[2] = 5.0
    assert_near(x[:, good], of_grid(dl, d, du, b)[:, good])


def test_plans_are_kept(queue, needs):
    needs(queue, np.float64)
    dl, d, du, b = grid()
    tridiagonal._KEPT.clear()
    first = solve_tridiagonal(dl, d, du, b[0], queue=queue)
    (kept,) = tridiagonal._KEPT.values()
    again = solve_tridiagonal(dl, d, du, b[0], queue=queue)
    assert list(tridiagonal._KEPT.values()) == [kept]
    assert np.array_equal(first, again)
    assert not np.may_share_memory(first, again)
    flat = [a.reshape(-1) for a in (dl, d, du, b[0])]
    sizes = [GRID[1]] * GRID[0]
    for k, more in enumerate([{"method": "flat"}, {"dtype": np.float32}, {"sizes": sizes}, {}], 2):
        system = flat if "sizes" in more else (dl, d, du, b[0])
        solve_tridiagonal(*system, queue=queue, **more)
        assert len(tridiagonal._KEPT) == min(k, tridiagonal.MOST_KEPT)
    solve_tridiagonal(dl, d, du, b, queue=queue, method="flat", work_group=1)
    for wrong in (1.0, True, [1]):  # a valid earlier option does not admit others
        with pytest.raises(InputError, match="work_group"):
            solve_tridiagonal(dl, d, du, b, queue=queue, method="flat", work_group=wrong)
    tridiagonal._KEPT.clear()


def test_what_a_kept_solver_refuses(queue):
    ones = np.ones((3, 4), np.float32)
    many = Tridiagonal([4] * 3, dtype=np.float32, queue=queue)
    gpu = cla.to_device(queue, ones)
    wide = cla.to_device(queue, ones.astype(np.int32))
    for arguments, more, words in [
        ((ones, ones, ones, gpu), {}, "mix NumPy, or numbers, and pyopencl arrays"),
        ((gpu, gpu, ones, gpu), {}, "mix NumPy, or numbers, and pyopencl arrays"),
        ((gpu, wide, gpu, gpu), {}, "d has dtype int32; expected float32"),
        ((gpu, gpu, gpu, gpu.data), {}, r"b is a pyopencl buffer; expected an array, such as"),
        ((ones, ones, gpu.data, ones), {}, r"du is a pyopencl buffer; expected an array, such"),
        (
            (ones, ones, ones, ones),
            {"columns": True},
            r"b has shape \(3, 4\); expected k of .* last",
        ),
        ((gpu, gpu, gpu, gpu), {"columns": True}, r"b has shape \(3, 4\); expected k of .* last"),
        ((ones, ones, ones, ones), {"columns": 1}, "columns is 1; expected True or False"),
        ((ones, ones, ones, 1.0), {}, r"b has shape \(\); expected \(3, 4\) or \(12,\), or k"),
        ((ones, ones, ones, ones), {"out": np.zeros((3, 4))}, "out is ndarray of float64"),
        ((ones, ones, ones, ones), {"out": gpu}, "out is Array of float32"),
    ]:
        with pytest.raises(InputError, match=words) as caught:
            many.solve(*arguments, **more)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="d is a pyopencl buffer; expected an array"):
        solve_tridiagonal(ones, gpu.data, ones, ones, queue=queue)
    with pytest.raises(InputError, match=r"dl has shape \(5,\); expected \(3,\) or \(4,\)"):
        solve_tridiagonal(np.ones(5), ones[0], ones[0], ones[0], queue=queue)
    read_only = np.zeros((3, 4), np.float32)
    read_only.flags.writeable = False
    with pytest.raises(InputError, match="out is read-only"):
        many.solve(ones, 4 * ones, ones, ones, out=read_only)
    for sizes, words in [
        ([], r"sizes is \[\] of float64; expected whole numbers"),
        (np.ma.array([3, 1], mask=[0, 1]), "sizes has masked values"),
        ([4, -1], r"sizes is \[ 4 -1\] of int64"),
        ([[4]], r"sizes is \[\[4\]\]"),
        ([10**17], "sizes has 1000* rows in all; expected at most 2147483647"),
    ]:
        with pytest.raises(Exception, match=words):
            Tridiagonal(sizes, queue=queue)
    with pytest.raises(InputError, match="expected float64 or float32"):
        Tridiagonal([4], dtype=int, queue=queue)


@pytest.mark.filterwarnings("error")
def test_values_beyond_float32_and_arrays_that_hold_one_value():
    one, d = np.ones(7), np.full(8, 4.0)
    with pytest.raises(PivotError, match="infinite"):
        solve_tridiagonal(one, 1e300 * d, one, d, dtype="float32")
    with pytest.raises(InputError, match="several values at one place"):
        solve_tridiagonal(one, d, one, d, out=np.lib.stride_tricks.as_strided(d, (8,), (0,)))
    every_other = np.zeros(16)[::2]
    x = solve_tridiagonal(one, d, one, d, out=every_other)
    assert x is every_other
    np.testing.assert_array_equal(x, solve_tridiagonal(one, d, one, d))
