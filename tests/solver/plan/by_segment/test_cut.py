"""Trees cut into segments: lanes and local memory per tree, counted node by node."""

import numpy as np
import pytest
from systems import dissimilar

from bench.made import chain, star
from clhines import Forest
from clhines.solver.plan.by_segment import schedule
from clhines.solver.plan.by_segment.cut import cut_trees

pytestmark = pytest.mark.core


@pytest.mark.parametrize("ended", [False, True])
def test_what_each_tree_takes(ended):
    trees = Forest.from_parents([*dissimilar(6), chain(33), star(9)]).trees
    ends = np.random.default_rng(4).random(len(trees.parent)) < 0.1 if ended else None
    cut = cut_trees(trees, 5, ends)
    bounds, plan = cut.segments.offsets, cut.contraction
    for tree, (lo, hi) in enumerate(zip(bounds, bounds[1:])):
        leaf = plan.round[lo:hi] == plan.LEAF
        nodes_of_leaves = cut.segments.length[lo:hi][leaf].sum()
        more = max(0, schedule.KEPT_VALUES * (~leaf).sum() - nodes_of_leaves)
        assert cut.lanes[tree] == hi - lo
        assert cut.places[tree] == trees.sizes[tree] + more
        kept = np.flatnonzero(plan.round[lo:hi] == plan.KEPT)
        assert cut.kept[lo:hi][kept].tolist() == list(range(len(kept)))
        assert (np.delete(cut.kept[lo:hi], kept) == -1).all()
    if ended:
        last = trees.order[cut.segments.first + cut.segments.length - 1]
        roots = cut.segments.parent < 0
        assert (plan.round == plan.KEPT)[ends[last] | roots].all()
