"""Bad pivots and non-finite numbers are found in every method."""

import itertools

import numpy as np
import pytest
from solvers import CONFIGS, ONE_EACH, assert_solved, forest_of, make_solver, on_device
from systems import dissimilar, make_system, renumbered

from bench.made import caterpillar, chain, star
from clhines import Forest, InputError, PivotError

pytestmark = pytest.mark.optimised


@pytest.mark.parametrize("config", CONFIGS)
def test_bad_pivots_name_cell_and_node(queue, config):
    values = itertools.cycle((0.0, -2.0, np.nan, np.inf, -np.inf))  # 12 nodes: each at least twice
    rng = np.random.default_rng(8)
    cells = [chain(9), star(9), *dissimilar(5, least=20, most=40), *[caterpillar(8)] * 5]
    cells = [renumbered(p, rng) for p in cells]
    forest = forest_of(config, cells)
    system = make_system(forest, np.float32)
    solver = make_solver(queue, forest, config, np.float32)
    clean = solver.solve(**system.arrays)
    by_factors = solver.factor(system.d, system.u).solve(system.b)
    tips = np.bincount(forest.parent[forest.parent >= 0], minlength=forest.num_nodes) == 0
    roots = forest.parent < 0
    for cell in (0, 1, 4, forest.num_cells - 1):
        here = np.arange(*forest.cell_offsets[cell : cell + 2])
        inner = here[~tips[here] & ~roots[here]]
        nodes = [here[tips[here]][0], here[roots[here]][0], *inner[:1]]
        for node in nodes:
            bad = system.copy()
            bad.d[node] = next(values)
            bad.u[forest.parent == node] = 0  # the pivot equals this value
            with pytest.raises(PivotError, match=f"cell {cell}, node {node} ") as caught:
                solver.solve(**bad.arrays)
            assert (caught.value.cell, caught.value.node) == (cell, node)
            with pytest.raises(PivotError) as truth:
                bad.truth()
            assert (truth.value.cell, truth.value.node) == (cell, node)

            x = solver.solve(**bad.arrays, check=False)
            status = solver.status()
            assert status[cell] == node
            assert (np.delete(status, cell) == -1).all()
            others = np.ones(forest.num_nodes, bool)
            others[here] = False
            assert np.array_equal(x[others], clean[others])
            with pytest.raises(PivotError, match=f"cell {cell}, node {node} "):
                solver.factor(bad.d, bad.u)
            factors = solver.factor(bad.d, bad.u, check=False)
            assert np.array_equal(factors.status(), status)
            y = factors.solve(bad.b, check=False)
            assert np.array_equal(y[others], by_factors[others])
    assert_solved(config, system, solver.solve(**system.arrays))
    assert (solver.status() == -1).all()


@pytest.mark.parametrize("config", CONFIGS)
def test_the_deepest_of_several_bad_pivots_wins_in_each_cell(queue, config):
    tree = [-1, 0, 1, 2, 2, 4, 1, 6]  # branches: 0 1 | 2 | 3, 4 5 | 6 7
    forest = forest_of(config, [tree] * 6)
    system = make_system(forest, np.float32)
    for cell, nodes in ((1, [0, 2, 4, 5]), (4, [1, 7])):
        for node in nodes:
            system.d[8 * cell + node] = -1
    solver = make_solver(queue, forest, config, np.float32)
    with pytest.raises(PivotError) as caught:
        solver.solve(**system.arrays)
    assert (caught.value.cell, caught.value.node) == (1, 13)
    assert solver.status().tolist() == [-1, 13, -1, -1, 39, -1]
    assert solver.status().dtype == np.int64
    arrays = on_device(queue, system)
    with pytest.raises(PivotError, match=r"cell 1, node 13 \(number 5 of its cell\)"):
        solver.solve(**arrays)
    solver.solve(**arrays, check=False)
    assert solver.status().tolist() == [-1, 13, -1, -1, 39, -1]


@pytest.mark.parametrize("config", ONE_EACH)
def test_nan_couplings_are_never_silent(queue, config):
    forest = forest_of(config, [*dissimilar(6, least=9), chain(4)])
    for symmetric in (True, False):
        system = make_system(forest, np.float32, symmetric)
        node = int(np.flatnonzero(forest.parent[: forest.cell_offsets[3]] >= 0)[-1])
        array = system.u if symmetric else system.l
        for value in (np.nan, np.inf):
            array[node] = value
            solver = make_solver(queue, forest, config, np.float32)
            with pytest.raises(PivotError) as caught:
                solver.solve(**system.arrays)
            assert caught.value.cell == 2
            assert caught.value.node == forest.parent[node]


@pytest.mark.parametrize("config", ONE_EACH)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_right_hand_sides_that_are_not_finite(queue, config, value):
    forest = forest_of(config, dissimilar(6, least=9))
    solver = make_solver(queue, forest, config, np.float32)
    system = make_system(forest, np.float32, rows=2)
    clean = solver.solve(**system.arrays)
    node = int(forest.cell_offsets[3]) + 2
    system.b[1, node] = value
    with pytest.raises(InputError, match=f"cell 3, node {node}: b is {value}; expected finite"):
        solver.solve(**system.arrays)
    x = solver.solve(**system.arrays, check=False)
    assert not np.isfinite(x[1, node])
    assert (solver.status() == -1).all()  # the matrix is good
    good = np.ones(forest.num_nodes, bool)
    good[forest.cell_offsets[3] : forest.cell_offsets[4]] = False
    assert np.array_equal(x[0], clean[0])
    assert np.array_equal(x[1, good], clean[1, good])


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("value", [1e-45, 1e38])
@pytest.mark.parametrize("config", ONE_EACH)
def test_a_pivot_without_a_normal_inverse_is_bad(queue, config, value, symmetric):
    """The second value has a subnormal inverse, which would lose digits."""
    forest = Forest(chain(5))
    solver = make_solver(queue, forest, config, np.float32)
    d = np.full(5, 2.0, np.float32)
    d[4] = value
    u = np.zeros(5, np.float32)
    more = {} if symmetric else {"l": u}
    with pytest.raises(PivotError) as caught:
        solver.solve(d, u, np.ones(5), **more)
    assert caught.value.node == 4
    d[4] = 8e37  # whose inverse is normal
    np.testing.assert_allclose(solver.solve(d, u, np.full(5, 8e37), **more)[4], 1.0, rtol=1e-6)


def test_a_solution_beyond_the_largest_number_is_reported(queue):
    solver = make_solver(queue, Forest(chain(3)), dtype=np.float32)
    with pytest.raises(InputError, match=r"node 0: x is (inf|nan); expected finite"):
        solver.solve(np.full(3, 1e-3), np.zeros(3), np.full(3, 1e38))
