"""The layout of segments side by side, against its rule."""

import numpy as np
import pytest
from plans import next_fit
from systems import dissimilar

from clhines import Forest
from clhines.solver.plan.by_segment import schedule
from clhines.solver.plan.by_segment.codes import segment_lanes
from clhines.solver.plan.by_segment.layout import SegmentRows, tables

pytestmark = pytest.mark.core


def test_rows_of_segments():
    forest = Forest.from_parents(dissimilar(9))
    trees, blocks = forest.trees, next_fit(forest, 64, 3)
    cut = schedule.segments(trees, 4)
    plan = schedule.contract(cut.parent)
    lanes = segment_lanes(cut, plan, blocks.slot_template, blocks.slot_tree)
    rows = SegmentRows(lanes, blocks, 4)
    place, slot, rank = rows.entries()
    template = blocks.slot_template[slot]
    for t in range(len(lanes.inner)):
        mine = np.arange(*lanes.template_start[t : t + 2])
        expected = []
        for inner in (True, False):
            some = mine[: lanes.inner[t]] if inner else mine[lanes.inner[t] :]
            for j in range(4):
                for lane in some:
                    n = lanes.length[lane]
                    if j < n:
                        expected.append(lanes.first[lane] + (j if inner else n - 1 - j))
        here = template == t
        assert sorted(place[here]) == list(range(len(expected)))
        order = np.argsort(place[here])
        assert rank[here][order].tolist() == expected
    gather = rows.gather(forest)
    assert np.array_equal(np.sort(gather[gather >= 0]), np.arange(forest.num_nodes))
    record = tables(trees, blocks, lanes, rows)["blocks"].reshape(-1, 8)
    assert record[:, 0].tolist() == rows.block_start.tolist()
    assert np.array_equal(record[1:, 6], record[:-1, 7])  # cells of one block after another
