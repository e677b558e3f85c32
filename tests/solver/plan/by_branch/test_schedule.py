"""Branch levels, vectors and rounds."""

import numpy as np
import pytest
from plans import next_fit
from systems import dissimilar

from bench.made import chain, star
from clhines import Forest
from clhines.solver.plan import packing
from clhines.solver.plan.by_branch import schedule

pytestmark = pytest.mark.core


def test_branch_levels_list_every_child_once():
    forest = Forest.from_parents(dissimilar(12))
    blocks = next_fit(forest, 64, 4)
    levels = schedule.branch_levels(forest.trees, blocks.slot_template, blocks.slot_tree)
    assert sorted(levels.child) == np.flatnonzero(levels.parent >= 0).tolist()
    for branch in range(len(levels.parent)):
        children = levels.child[slice(*levels.child_start[branch : branch + 2])]
        assert (levels.parent[children] == branch).all()
        assert (levels.slot[children] == levels.slot[branch]).all()
        assert (np.diff(children) > 0).all()
    assert levels.width.sum() == len(levels.length)
    assert (levels.longest >= 1).all()


def test_branch_vectors_hold_every_branch_once_below_its_parent():
    forest = Forest.from_parents([*dissimilar(12), star(40), chain(9)])
    blocks = packing.next_fit(forest, [np.array([n]) for n in forest.sizes], 300, 5)
    for width in (1, 4, 8):
        v = schedule.branch_vectors(forest.trees, blocks.slot_template, blocks.slot_tree, width)
        assert len(np.unique(v.place)) == len(v.length) == forest.num_branches
        inner = np.flatnonzero(v.parent >= 0)
        assert (v.vector[inner] < v.vector[v.parent[inner]]).all()
        assert (v.slot[inner] == v.slot[v.parent[inner]]).all()
        assert (v.template[v.vector] == blocks.slot_template[v.slot]).all()
        assert (v.length <= v.rows[v.vector]).all()
        assert (v.length >= v.even[v.vector]).all()
        assert (np.bincount(v.vector) <= width).all()
        used = np.bincount(v.template[v.vector] * 1000 + v.exchange())
        assert used.max() == 1
        assert v.exchange().min() == width  # below are the zeros


def test_rounds_list_every_child_in_the_order_of_its_tree():
    forest = Forest.from_parents([*dissimilar(12), star(40)])
    blocks = packing.next_fit(forest, [np.array([n]) for n in forest.sizes], 10**6, 10**6)
    v = schedule.branch_vectors(forest.trees, blocks.slot_template, blocks.slot_tree, 4)
    start, child = v.rounds()
    at = {int(e): k for k, e in enumerate(v.exchange())}  # one template: no number twice
    for branch in range(len(v.length)):
        rounds = slice(*start[v.vector[branch] :][:2])
        result = [at[int(e)] for e in child[rounds, v.lane[branch]] if e]
        assert sorted(result) == np.flatnonzero(v.parent == branch).tolist()
        assert (np.diff(v.tree_branch[result]) > 0).all()
    assert (child > 0).sum() == (v.parent >= 0).sum()
