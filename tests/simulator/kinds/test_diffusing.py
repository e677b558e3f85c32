"""Rows for diffusing species, sorted into elimination rounds."""

import numpy as np
import pytest

from clhines.simulator.kinds.diffusing import DiffusingRows
from clhines.simulator.model.diffusion import Diffusion

pytestmark = pytest.mark.core


def diffusion(parent, names=("x",)):
    parent = np.array(parent)
    return Diffusion(0, names, parent, 10.0 + np.arange(len(parent)), 1.0 * np.arange(len(parent)))


def test_rows_of_the_tree_that_is_drawn():
    one = diffusion([-1, 0, 1, 2, 3, 2, 5])
    rows = DiffusingRows([one], [np.zeros(7, int)], 1)
    ends = rows.first.tolist()
    result = [rows.entry[a:b].tolist() for a, b in zip(ends, ends[1:])]
    assert result == [[4, 6], [1, 3], [5], [2], [0]]
    assert rows.up.tolist() == [14, 16, 11, 13, 15, 12, 10]
    children = [rows.child[a:b].tolist() for a, b in zip(rows.first_child, rows.first_child[1:])]
    assert [sorted(rows.entry[c].tolist()) for c in children] == [
        [],
        [],
        [2],
        [4],
        [6],
        [3, 5],
        [1],
    ]


def test_rows_of_a_round_are_independent():
    """A row's links are eliminated later, and two rows of one round never update the same entry."""
    rng = np.random.default_rng(3)
    diffusions, cells = [], []
    for _ in range(3):
        n = int(rng.integers(20, 200))
        parent = np.array([-1, *(int(rng.integers(max(0, k - 4), k)) for k in range(1, n))])
        parent[rng.random(n) < 0.05] = -1  # several trees
        root = np.arange(n)
        for k in range(n):
            root[k] = k if parent[k] < 0 else root[parent[k]]
        diffusions.append(diffusion(parent, ("x", "y")[: int(rng.integers(1, 3))]))
        cells.append(root % 4)
    rows = DiffusingRows(diffusions, cells, 4)
    every = np.concatenate([c for d, c in zip(diffusions, cells) for _ in d.names])
    n = len(rows.entry)
    assert sorted(rows.entry.tolist()) == list(range(n)) and n == len(every)
    turn = np.repeat(np.arange(len(rows.first) - 1), np.diff(rows.first))
    np.testing.assert_array_equal(turn // rows.rounds, every[rows.entry])
    for side in rows.links.T:
        linked = np.flatnonzero(side >= 0)
        assert (turn[side[linked]] > turn[linked]).all()
        late = linked[turn[linked] % rows.rounds > 0]  # parents gather from leaves
        pairs = np.stack((turn[late], side[late]))
        assert len(np.unique(pairs, axis=1).T) == len(late)
    is_root = turn % rows.rounds == rows.rounds - 1
    np.testing.assert_array_equal(is_root, rows.above < 0)
    assert (rows.links[is_root] < 0).all() and rows.rounds < 20
