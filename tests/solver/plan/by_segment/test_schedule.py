"""Segments and rounds of contraction, against an elimination node by node."""

import numpy as np
import pytest
from systems import dissimilar

from bench.made import chain, random_binary_tree, star
from clhines import Forest
from clhines.solver.plan.by_segment import schedule

pytestmark = pytest.mark.core
CELLS = [*dissimilar(8), chain(50), star(20), random_binary_tree(300, 9, 4)]


@pytest.mark.parametrize("most", [1, 4, 16])
def test_segments_are_stretches_of_branches(most):
    trees = Forest.from_parents(CELLS).trees
    cut = schedule.segments(trees, most)
    assert cut.length.sum() == len(trees.parent) and cut.length.max() <= most
    nodes = [trees.order[f : f + n] for f, n in zip(cut.first, cut.length)]
    assert sorted(np.concatenate(nodes)) == list(range(len(trees.parent)))
    children = trees.num_children
    for segment, parent in zip(nodes, cut.parent):
        for above, below in zip(segment, segment[1:]):
            assert trees.parent[below] == above and children[above] == 1
        hangs = trees.parent[segment[0]]
        assert hangs == (-1 if parent < 0 else nodes[parent][-1])


def test_segments_end_where_asked():
    trees = Forest.from_parents([chain(12)]).trees
    ends = np.zeros(12, bool)
    ends[[2, 7]] = True
    cut = schedule.segments(trees, 8, ends)
    assert cut.length.tolist() == [3, 5, 4] and cut.parent.tolist() == [-1, 0, 1]


@pytest.mark.parametrize("pin", [False, True])
@pytest.mark.parametrize("parent", CELLS, ids=len)
def test_rounds_are_independent(parent, pin):
    """A remaining segment gets at most one update from above and one from below per round."""
    parent = parent.astype(np.int64)
    pinned = np.random.default_rng(2).random(len(parent)) < 0.2 if pin else None
    plan = schedule.contract(parent, pinned)
    kept = plan.round == plan.KEPT
    if pinned is None:
        assert np.array_equal(kept, parent < 0)
    else:  # and segments with several kept children
        assert kept[pinned | (parent < 0)].all()
    above = parent.copy()
    for k in np.flatnonzero(plan.round == plan.LEAF):
        assert k not in parent and above[k] == plan.parent[k]
        above[k] = -2
    rounds = sorted({*plan.round.tolist()} - {plan.LEAF, plan.KEPT})
    assert rounds == list(range(len(rounds)))
    for number in rounds:
        mine = np.flatnonzero(plan.round == number)
        children = {k: np.flatnonzero(above == k).tolist() for k in mine}
        assert all(c == ([] if plan.child[k] < 0 else [plan.child[k]]) for k, c in children.items())
        assert np.array_equal(above[mine], plan.parent[mine])
        assert len({*above[mine].tolist()}) == len(mine) and not {*above[mine]} & {*mine}
        for k in mine:
            above[children[k]], above[k] = above[k], -2
    assert np.array_equal(above[kept], plan.parent[kept])
    if pinned is None:
        assert len(rounds) <= 2 * len(parent).bit_length()


def test_pieces_are_connected_and_fit():
    trees = Forest.from_parents([random_binary_tree(4000, 12, 3)]).trees
    cut = schedule.segments(trees, 16)
    top = schedule.pieces(cut, 300, 40)
    piece = np.arange(len(top))
    for k in np.flatnonzero(~top):  # parents come first
        piece[k] = piece[cut.parent[k]]
    assert top[0] and set(piece.tolist()) == set(np.flatnonzero(top).tolist())
    assert np.bincount(piece, cut.length).max() <= 300
    assert np.bincount(piece).max() <= 40
