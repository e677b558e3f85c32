"""Lanes of segments and their bit fields, against the segments themselves."""

import numpy as np
import pytest
from systems import dissimilar

from bench.made import chain
from clhines import Forest
from clhines.solver.plan.by_segment import schedule
from clhines.solver.plan.by_segment.codes import segment_lanes

pytestmark = pytest.mark.core


def test_lanes_name_their_neighbours():
    """Two templates, one for two cells and one for the rest, have several segments each."""
    forest = Forest.from_parents([*dissimilar(5), chain(40)])
    trees = forest.trees
    cut = schedule.segments(trees, 6)
    plan = schedule.contract(cut.parent)
    tree = np.arange(trees.num_trees)
    template = (tree >= 2).astype(int)
    lanes = segment_lanes(cut, plan, template, tree)
    read = schedule.LINK.unpack
    assert sorted(lanes.segment) == list(range(len(cut.length)))
    for t in (0, 1):
        mine = np.arange(*lanes.template_start[t : t + 2])
        segment = lanes.segment[mine].tolist()
        leaf = plan.round[segment] == plan.LEAF
        assert not leaf[: lanes.inner[t]].any() and leaf[lanes.inner[t] :].all()
        link = lanes.links[mine, 0]
        assert np.array_equal(read("length", link), cut.length[segment])
        for part in (slice(None, lanes.inner[t]), slice(lanes.inner[t], None)):
            assert (np.diff(cut.length[segment][part]) <= 0).all()  # longest first
        parents, boxes = read("parent", link), read("mailbox", link)
        assert sorted(boxes) == list(range(len(mine)))
        for k, s in enumerate(segment):
            above = cut.parent[s]
            assert parents[k] == (schedule.NO_LANE if above < 0 else segment.index(above))
            children = sorted(boxes[parents == k])
            number, first = (schedule.FAMILY.unpack(n, lanes.children[mine[k]])
                             for n in ("number", "first_mailbox"))  # fmt: skip
            assert children == list(range(first, first + number)) or not number == len(children)
            assert number == len(children)
        rounds = plan.round[segment]
        done = rounds[(rounds != plan.LEAF) & (rounds != plan.KEPT)]
        assert lanes.rounds[t] == (done.max() + 1 if len(done) else 0)
