"""Array idioms against loops in plain Python."""

import numpy as np
import pytest

from bench.made import random_binary_tree
from clhines.core import arrays

pytestmark = pytest.mark.core
COUNTS = [np.array(c) for c in ([3, 1, 4], [1], [2, 2, 2, 5])]


@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_stretches(counts):
    bounds = arrays.offsets(counts)
    assert bounds.tolist() == [sum(counts[:k]) for k in range(len(counts) + 1)]
    assert arrays.starts(counts).tolist() == bounds[:-1].tolist()
    owner = [k for k, count in enumerate(counts) for _ in range(count)]
    assert arrays.stretch_of(bounds, np.arange(bounds[-1])).tolist() == owner
    first = 10 * np.arange(len(counts))
    expected = [f + j for f, count in zip(first, counts) for j in range(count)]
    assert arrays.ranges(first, counts).tolist() == expected


def test_orders_and_places():
    order = np.random.default_rng(1).permutation(20)
    place = arrays.inverse(order)
    assert (order[place] == np.arange(20)).all()
    assert arrays.inverse(np.array([4, 1]), 6).tolist() == [-1, 1, -1, -1, 0, -1]
    assert arrays.ascending(np.arange(5)) and not arrays.ascending(np.array([0, 1, 1]))
    levels = np.array([2, 0, 2, 5, 0])
    assert [g.tolist() for g in arrays.by_level(levels)] == [[1, 4], [0, 2], [3]]


@pytest.mark.parametrize("seed", range(3))
def test_trees(seed):
    parent = random_binary_tree(200, 7, seed)
    child, begin = arrays.children_of(parent)
    for node in range(len(parent)):
        expected = np.flatnonzero(parent == node)
        assert child[begin[node] : begin[node + 1]].tolist() == expected.tolist()
    top, depth = arrays.climb(parent)
    for node in range(len(parent)):
        above, steps = node, 0
        while parent[above] >= 0:
            above, steps = parent[above], steps + 1
        assert (top[node], depth[node]) == (above, steps)


@pytest.mark.parametrize("count", [1, 5, 17, 40_000])
def test_repeated_rounds(count):
    """Compare parents of cells in turn with a loop; the last round is cut."""
    once = np.array([-1, 0, 1, -1, 3])
    expected = [-1 if once[k % 5] < 0 else once[k % 5] + k // 5 * 5 for k in range(count)]
    assert arrays.repeated_parents(once, count).tolist() == expected
    moved = [once[k % 5] + k // 5 * 3 for k in range(count)]
    assert arrays.repeat_moved(once, count, 3).tolist() == moved
    cells = [np.array([1.0, 2.0]), np.array([3.0])]
    number = min(count, 9)
    assert arrays.repeat(cells, number).tolist() == [1.0, 2.0, 3.0] * (number // 2) + [1.0, 2.0] * (
        number % 2
    )


def test_the_clock_adds_halves_of_a_step():
    assert arrays.half_steps(1.0, 0.5, 3).tolist() == [1.0, 1.25, 1.5, 1.75]


def test_places_of_keys():
    keys = np.array([7, 3, 5])
    assert arrays.place_of(keys, np.array([5, 4, 7])).tolist() == [2, -1, 0]
    assert arrays.place_of(keys, np.array([3]), np.argsort(keys)).tolist() == [1]
    assert arrays.place_of(np.zeros(0, int), keys).tolist() == [-1, -1, -1]
