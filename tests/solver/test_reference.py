"""The reference solver by hand, against dense solves, and its errors."""

import numpy as np
import pytest
from systems import dissimilar, families, make_system
from tolerances import assert_close, residual_bound

from bench.made import random_binary_tree
from clhines import Forest, PivotError
from clhines.solver import reference

pytestmark = pytest.mark.core


def solve(parent, d, u, b, l=None):
    forest = Forest(np.array(parent))
    lower = None if l is None else np.array(l)
    return reference.solve_serial(forest, np.array(d), np.array(u), np.array(b), lower)


BY_HAND = [  # parent, d, u (how children act on parents), b, l (how parents act), solution
    ([-1], [4.0], [99.0], [2.0], None, [0.5]),
    # 2 x0 + x1 = 4;  x0 + 2 x1 = 5
    ([-1, 0], [2.0, 2.0], [99.0, 1.0], [4.0, 5.0], None, [1.0, 2.0]),
    # 2 x0 + 3 x1 = 8;  1 x0 + 4 x1 = 9
    ([-1, 0], [2.0, 4.0], [99.0, 3.0], [8.0, 9.0], [99.0, 1.0], [1.0, 2.0]),
    # the root is 2, 0 its child, 1 the child of 0
    # node 1: 2 x1 - x0 = 0;  node 0: 3 x0 - x1 - 2 x2 = -1;  node 2: 4 x2 - 2 x0 = 8
    ([2, 0, -1], [3.0, 2.0, 4.0], [-2.0, -1.0, 99.0], [-1.0, 0.0, 8.0], None, [2.0, 1.0, 3.0]),
    #   0 - 1 - 2      rows 0: 10 x0 + 2 x1              = 14
    #        \- 3           1:    x0 + 8 x1 + 3 x2 - x3   = 22
    #                       2:       - 2 x1 + 4 x2        =  8
    #                       3:         2 x1        + 5 x3 = 24
    ([-1, 0, 1, 1], [10.0, 8.0, 4.0, 5.0], [99.0, 2.0, 3.0, -1.0], [14.0, 22.0, 8.0, 24.0],
     [99.0, 1.0, -2.0, 2.0], [1.0, 2.0, 3.0, 4.0]),
]  # fmt: skip


@pytest.mark.parametrize(("parent", "d", "u", "b", "low", "expected"), BY_HAND)
def test_systems_by_hand(parent, d, u, b, low, expected):
    x = solve(parent, d, u, b, low)
    assert x == pytest.approx(expected, rel=1e-15 if len(d) > 2 else 0)
    assert x.dtype == np.float64


def test_dense_matrix_by_hand():
    forest = Forest(np.array([-1, 2, 0, 2, -1]), np.array([0, 4, 5]))
    d, u = np.array([1.0, 2, 3, 4, 5]), np.array([99.0, 6, 7, 8, 99])
    low = np.array([99.0, -6, -7, -8, 99])
    expected = [[1, 0, 7, 0], [0, 2, -6, 0], [-7, 6, 3, 8], [0, 0, -8, 4]]
    assert reference.dense(forest, d, u, low).tolist() == expected
    assert reference.dense(forest, d, u).tolist() == np.abs(expected).tolist()
    assert reference.dense(forest, d, u, cell=1).tolist() == [[5]]


def test_residual_by_hand():
    forest = Forest(np.array([-1, 0]))
    d, u, b = np.array([2.0, 2.0]), np.array([99.0, 1.0]), np.array([4.0, 5.0])
    assert reference.residual(forest, d, u, b, np.array([1.0, 2.0])) == 0
    # row 0 is off by 2 of 2 * 2 + 2 + 4 = 10, row 1 by 1 of 2 + 4 + 5 = 11
    assert reference.residual(forest, d, u, b, np.array([2.0, 2.0])) == pytest.approx(0.2)
    assert np.isnan(reference.residual(forest, d, u, b, np.array([np.nan, 2.0])))
    assert reference.residual(forest, d, u, 0 * b, 0 * b) == 0
    # row 0: 6 - 1, expected 4, of 6 + 1 + 4; row 1: 6 + 2, expected 5, of 6 + 2 + 5
    low = np.array([99.0, 2.0])
    got = reference.residual(forest, d, -u, b, np.array([3.0, 1.0]), low)
    assert got == pytest.approx(max(1 / 11, 3 / 13))


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("name", families())
def test_every_shape_against_dense(name, symmetric):
    forest = Forest.from_parents(families()[name])
    system = make_system(forest, symmetric=symmetric, rows=3)
    x = system.truth()
    dense = np.empty_like(x)
    for cell in range(forest.num_cells):
        here = slice(*forest.cell_offsets[cell : cell + 2])
        matrix = reference.dense(forest, system.d, system.u, system.l, cell)
        assert (matrix == matrix.T).all() == (symmetric or len(matrix) == 1)
        dense[:, here] = np.linalg.solve(matrix, system.b[:, here].T).T
        expected = matrix @ x[:, here].T
        product = reference.multiply(forest, system.d, system.u, x, system.l)
        assert product[:, here].T == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert_close(forest, x, dense, np.float64)
    residual = reference.residual(forest, system.d, system.u, system.b, x, system.l)
    assert residual <= residual_bound(np.float64)


def test_rows_are_solved_as_if_alone_and_inputs_kept():
    forest = Forest.from_parents(dissimilar(5))
    system = make_system(forest, rows=4)
    kept = system.copy()
    x = system.truth()
    for name, array in kept.arrays.items():
        assert np.array_equal(array, system.arrays[name]) or array is None
    for row in range(4):
        alone = reference.solve_serial(forest, system.d, system.u, system.b[row])
        assert alone.shape == (forest.num_nodes,)
        assert np.array_equal(alone, x[row])


def test_float32_input_is_solved_in_float64():
    forest = Forest.from_parents(dissimilar(5))
    system = make_system(forest, np.float32)
    x = system.truth()
    wide = reference.solve_serial(
        forest, *(a.astype(np.float64) for a in (system.d, system.u, system.b))
    )
    assert x.dtype == np.float64
    assert np.array_equal(x, wide)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("local", [0, 7, 39])
def test_bad_pivot_is_named(value, local):
    cells = dissimilar(3, least=40, most=41)
    forest = Forest.from_parents(cells)
    system = make_system(forest)
    node = int(forest.cell_offsets[1]) + local
    system.d[node] = value
    system.u[forest.parent == node] = 0  # the pivot equals this value
    words = rf"cell 1, node {node} \(number {local} of its cell\): pivot {value:.6g} is zero"
    with pytest.raises(PivotError, match=words) as caught:
        system.truth()
    assert (caught.value.cell, caught.value.node) == (1, node)


def test_a_pivot_that_turns_bad_in_the_elimination():
    # 1 - 2 * 2 / 1 = -3 at the root
    with pytest.raises(PivotError, match=r"cell 0, node 0 .*pivot -3 is") as caught:
        solve([-1, 0], [1.0, 1.0], [0.0, 2.0], [1.0, 1.0])
    assert caught.value.node == 0
    # u * l is negative: the root's pivot is 1 + 4, valid
    x = solve([-1, 0], [1.0, 1.0], [0.0, 2.0], [5.0, 0.0], [0.0, -2.0])
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("seed", range(5))
def test_condition_against_the_inverse(seed):
    """Compare with |A^-1| (|A| |x| + |b|) by a dense inverse, to the inverse's own condition."""
    rng = np.random.default_rng(seed)
    forest = Forest(random_binary_tree(60, 6, seed))
    u = -rng.uniform(0.1, 1.0, 60)
    d = reference.multiply(forest, np.zeros(60), -u, np.ones(60)) + 10.0 ** rng.uniform(-6, 0, 60)
    b = rng.normal(size=60)
    x = reference.solve_serial(forest, d, u, b)
    a = reference.dense(forest, d, u)
    expected = np.abs(np.linalg.inv(a)) @ (np.abs(a) @ np.abs(x) + np.abs(b))
    result = reference.condition(forest, d, u, b, x)
    np.testing.assert_allclose(result, expected, rtol=60 * 2.0**-52 * np.linalg.cond(a))
    wrong = x * (1 + 1e-9 * rng.uniform(-1, 1, 60))  # a wrong x is within its own error of x
    error = reference.residual(forest, d, u, b, wrong)
    reach = reference.condition(forest, d, u, b, wrong)
    assert (np.abs(wrong - x) <= error * reach * (1 + 1e-6)).all()
    assert np.isnan(reference.condition(forest, d, -u, b, x)).all()  # not an M-matrix
