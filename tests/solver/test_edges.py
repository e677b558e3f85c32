"""Arguments at the edges: empty batches, numbers, overflow, wrong keywords."""

import pickle
from functools import partial

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from scipy.linalg import solve_banded

import clhines
from clhines import Forest, InputError, Solver, Tridiagonal, solve_tridiagonal


def test_empty_batches_give_empty_arrays(queue):
    solver = Solver(Forest(np.array([-1, 0])), dtype=np.float32, queue=queue)
    d, u = np.full(2, 3, np.float32), np.ones(2, np.float32)
    none = np.ones((0, 2), np.float32)
    assert solver.solve(d, u, none).shape == solver.factor(d, u).solve(none).shape == (0, 2)
    for solve in (partial(solver.solve, d, u), solver.factor(d, u).solve):
        assert solve(none, out=none) is none
    off, main = np.ones(3, np.float32), np.full(4, 3, np.float32)
    for b, columns in (
        (np.ones((0, 4)), False),
        (np.ones((4, 0)), True),
        (np.ones((0, 1, 4)), False),
    ):
        options = {"columns": columns, "dtype": np.float32, "queue": queue}
        for periodic in (False, True):
            rows = np.ones(4) if periodic else off
            x = solve_tridiagonal(rows, main, rows, b, periodic=periodic, **options)
            assert x.size == 0 and x.dtype == np.float32
    x = solve_tridiagonal(np.ones((0, 3)), np.ones((0, 4)), np.ones((0, 3)), np.ones((5, 0, 4)))
    assert x.shape == (5, 0, 4)
    assert solve_tridiagonal([], [], [], []).shape == (0,)


def test_a_matrix_of_numbers(queue):
    b = np.random.default_rng(5).standard_normal((3, 6)).astype(np.float32)
    ab = np.array([[-1.0] * 6, [2.5] * 6, [-1.0] * 6])
    x = solve_tridiagonal(-1.0, 2.5, -1.0, b, queue=queue)
    assert x.dtype == np.float32 and x.shape == b.shape
    # condition number at most 4.5 / 0.5, with a few roundings
    assert np.abs(x - solve_banded((1, 1), ab, b.T.astype(float)).T).max() < 100 * 6e-8
    assert np.array_equal(solve_tridiagonal(-1, 2.5, -1, b[0], queue=queue, dtype="f4"), x[0])
    y = solve_tridiagonal(-1, 2.5, -1, b.T, columns=True, queue=queue, dtype=np.float32)
    assert np.allclose(y.T, x, atol=1e-6)


def test_b_beyond_float32_is_said(queue):
    b = np.ones((2, 3))
    b[1, 2] = 1e39
    with pytest.raises(InputError, match=r"b\[1, 2\] is 1e\+39; expected at most 3.4e\+38"):
        solve_tridiagonal(1, 3, 1, b, dtype=np.float32, queue=queue)
    solver = Solver(Forest(np.array([-1, 0, 1])), dtype=np.float32, queue=queue)
    with pytest.raises(InputError, match=r"b\[1, 2\] is 1e\+39"):
        solver.solve(np.full(3, 3.0), np.ones(3), b)


def test_switches_and_methods_of_other_types(queue):
    forest, a = Forest(np.array([-1, 0])), np.ones(2, np.float32)
    solver = Solver(forest, dtype=np.float32, queue=queue)
    factors, packed = solver.factor(3 * a, a), solver.to_device_order(a)
    for value in (np.zeros(2), "no", 1, None):
        for call in (
            partial(solver.solve, 3 * a, a, a),
            partial(factors.solve, a),
            partial(factors.enqueue, packed, out=packed),
        ):
            with pytest.raises(InputError, match="overwrite is .*; expected True or False"):
                call(overwrite=value)
        if not isinstance(value, str):
            with pytest.raises(InputError, match="method is .*; expected a text"):
                Solver(forest, value, np.float32, queue=queue)


def test_rows_of_out_that_overlap(queue):
    solver = Solver(Forest(np.array([-1, 0])), dtype=np.float32, queue=queue)
    b, memory = np.ones((3, 2), np.float32), np.zeros(12, np.float32)
    system = np.full(2, 3, np.float32), np.ones(2, np.float32), b
    x = solver.solve(*system)
    for strides in ((4, 4), (0, 4), (4, 0), (8, 0), (-4, 4)):
        rows = as_strided(memory[4:], b.shape, strides)
        with pytest.raises(InputError, match="several values at one place"):
            solver.solve(*system, out=rows)
    for strides in ((8, 4), (4, 12), (12, 4), (-8, 4), (16, 8)):
        rows = as_strided(memory[4:] if strides[0] < 0 else memory, b.shape, strides)
        assert np.array_equal(solver.solve(*system, out=rows), x)


def test_one_device_or_queue(queue):
    for make in (lambda **o: Solver(Forest(np.array([-1, 0])), dtype="f4", **o),):
        with pytest.raises(InputError, match="device together with queue; expected one of them"):
            make(device=queue.device, queue=queue)


def test_wrong_keywords_say_which_was_meant(queue):
    solver = clhines.Solver(clhines.Forest(np.array([-1, 0])), dtype="f4", queue=queue)
    ones = np.ones(2, np.float32)
    with pytest.raises(TypeError, match="'overwrite_b'; did you mean 'overwrite'"):
        solver.solve(3 * ones, ones, ones, overwrite_b=True)
    with pytest.raises(TypeError, match="did you mean 'cell_offsets'"):
        clhines.Forest(np.array([-1]), cell_offset=[0, 1])
    with pytest.raises(InputError, match="did you mean 'columns'"):
        clhines.solve_tridiagonal(-1, 3, -1, np.ones((3, 2)), colums=True)
    assert pickle.loads(pickle.dumps(clhines.solve_tridiagonal)) is clhines.solve_tridiagonal


@pytest.mark.parametrize(
    "dtype", ["nonsense", "f8,(f4", ",", [1, 2], {"a": 1}, object, "b" * 10**5]
)
def test_dtypes_of_nonsense(dtype):
    with pytest.raises(InputError, match="expected float64 or float32") as error:
        Solver(Forest(np.array([-1])), dtype=dtype)
    assert len(str(error.value)) < 200


def test_too_many_rows():
    with pytest.raises(InputError, match="sizes has 2147483648 rows in all; expected at most"):
        Tridiagonal([2**31])


def test_names_of_any_length_are_cut():
    for name in ("x" * 10**5, "x y" * 10**5):
        assert len(str(InputError(f"parameter '{name}' is unknown; expected 'tau'"))) < 200
