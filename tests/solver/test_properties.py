"""Properties over random forests: every method solves all trees that hypothesis draws."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from systems import forest_for, make_system, renumbered, updates_for
from tolerances import assert_close

from bench.made import chain, star
from clhines import METHODS, Forest, ForestError, Solver, make_plan

# Three cells of fixed shapes, so that strides and level counts differ within every batch: they are
# then read from tables, and each method's kernel is built once for all examples.
FIXED = [chain(1), chain(17), star(6)]
quick = settings(
    max_examples=20,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@st.composite
def trees(draw, most=40):
    """Draw parents of a random tree, each an earlier node; then permute the numbers."""
    n = draw(st.integers(1, most))
    reach = draw(st.sampled_from([1, 2, 5, most]))  # 1: a chain; small: long branches
    parent = np.array(
        [-1] + [draw(st.integers(max(0, k - reach), k - 1)) for k in range(1, n)], np.int64
    )
    if draw(st.booleans()):
        parent = renumbered(parent, np.random.default_rng(draw(st.integers(0, 99))))
    return parent


@st.composite
def forests(draw):
    """Draw a few distinct trees, repeated and mixed."""
    kinds = draw(st.lists(trees(), min_size=1, max_size=4))
    cells = draw(st.lists(st.sampled_from(range(len(kinds))), min_size=1, max_size=9))
    return Forest.from_parents([kinds[k] for k in cells] + FIXED)


def fitting(method, forest):
    """Return the forest, or chains of the same sizes if the method supports chains only."""
    if not METHODS[method].chains_only:
        return forest
    starts = np.repeat(forest.cell_offsets[:-1], forest.sizes)
    local = np.where(forest.parent < 0, -1, forest.parent - starts)
    return forest_for(method, np.split(local, forest.cell_offsets[1:-1]))


OPTIONS = [
    ("flat", {}),
    ("interleaved", {}),
    ("block_interleaved", {"block_size": 4, "vector_width": 1}),
    ("block_interleaved", {"block_size": 4, "vector_width": 4}),
    ("fine", {"work_group": 4, "max_cells": 1}),
    ("fine", {"work_group": 16, "max_cells": 50}),
]
OPTIONS += [("cr_pcr", {"switch": 5, "work_group": 8})]
OPTIONS += [(method, {}) for method in METHODS if method not in dict(OPTIONS)]


@pytest.mark.parametrize(("method", "options"), OPTIONS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@given(forest=forests(), symmetric=st.booleans(), seed=st.integers(0, 999))
@settings(quick, max_examples=15)
def test_every_method_solves_any_forest(
    fast_queue, needs, method, options, dtype, forest, symmetric, seed
):
    needs(fast_queue, dtype)
    forest = fitting(method, forest)
    system = make_system(forest, dtype, symmetric, seed=seed)
    solver = Solver(forest, method, dtype, queue=fast_queue, **options)
    system.assert_solved(solver.solve(**system.arrays), updates_for(method))


@given(forest=forests(), symmetric=st.booleans(), seed=st.integers(0, 999))
@quick
def test_reference_agrees_with_dense_solves(forest, symmetric, seed):
    system = make_system(forest, symmetric=symmetric, seed=seed)
    assert_close(forest, system.truth(), system.dense_solution(), np.float64)


@pytest.mark.parametrize("method", METHODS)
@given(forest=forests())
@quick
def test_every_plan_is_a_permutation_plus_padding(method, forest):
    forest = fitting(method, forest)
    plan = make_plan(forest, method)
    real = plan.gather[plan.gather >= 0]
    assert np.array_equal(np.sort(real), np.arange(forest.num_nodes))


@given(
    kinds=st.lists(trees(most=6), min_size=1, max_size=4),
    changes=st.lists(st.tuples(st.integers(0, 99), st.integers(-2, 26)), max_size=2),
    moves=st.lists(st.tuples(st.integers(0, 99), st.integers(-1, 26)), max_size=1),
)
@settings(quick, max_examples=400)
def test_forests_are_accepted_exactly_when_they_are_forests(kinds, changes, moves):
    """Change up to two parents and one offset; a walk up from every node decides."""
    forest = Forest.from_parents(kinds)
    parent, offsets = forest.parent.tolist(), forest.cell_offsets.tolist()
    for place, value in changes:
        parent[place % len(parent)] = value
    for place, value in moves:
        offsets[place % len(offsets)] = value

    def leads_to_the_root_of_its_cell(i, lo, hi):
        seen = set()
        while parent[i] != -1:
            if i in seen or not lo <= parent[i] < hi:
                return False
            seen.add(i)
            i = parent[i]
        return True

    good = offsets[0] == 0 and offsets[-1] == len(parent) and sorted(set(offsets)) == offsets
    good = good and all(
        parent[lo:hi].count(-1) == 1
        and all(leads_to_the_root_of_its_cell(i, lo, hi) for i in range(lo, hi))
        for lo, hi in itertools.pairwise(offsets)
    )
    event(f"a forest: {good}")
    try:
        result = Forest(np.array(parent), np.array(offsets))
    except ForestError as error:
        assert not good, error
        assert "\n" not in str(error)
    else:
        assert good
        assert result.num_cells == len(offsets) - 1
