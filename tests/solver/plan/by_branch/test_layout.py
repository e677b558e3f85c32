"""Layouts by branch level."""

import numpy as np
import pytest
from plans import next_fit
from systems import dissimilar
from trees import complete_binary

from clhines import Forest, make_plan
from clhines.solver.plan import layout
from clhines.solver.plan.by_branch import schedule

pytestmark = pytest.mark.core


def test_level_strided_example_by_hand():
    # cell 0: 0 - 1 -+- 2            cell 1: one node
    #                +- 3 - 4
    forest = Forest(np.array([-1, 0, 1, 1, 3, -1]), np.array([0, 5, 6]))
    plan = make_plan(forest, "fine", work_group=4, max_cells=2)
    # level 0: branches (0 1) and (5), width 2; level 1: the longest first, (3 4) and (2)
    assert plan.gather.tolist() == [0, 5, 1, -1, 3, 2, 4, -1] + [-1] * 24
    assert plan.parts[0].tables["level_offset"].tolist() == [0, 4]
    assert plan.parts[0].tables["branch_length"].tolist() == [2, 1, 2, 1]
    assert plan.parts[0].tables["branch_parent"].tolist() == [-1, -1, 2, 2]
    assert plan.parts[0].tables["branch_children"].tolist() == [0, 2, 2, 2, 2]
    assert plan.parts[0].tables["child_first"].tolist() == [4, 5]
    assert plan.parts[0].tables["branch_slot"].tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("max_cells", [1, 3, 100])
def test_level_strided_formula(max_cells):
    forest = Forest.from_parents(dissimilar(12) + [complete_binary(4)] * 5)
    trees = forest.trees
    blocks = next_fit(forest, 32, max_cells)
    levels = schedule.branch_levels(trees, blocks.slot_template, blocks.slot_tree)
    plan = make_plan(forest, "fine", work_group=32, max_cells=max_cells)
    tables = plan.parts[0].tables
    seen = 0
    for block in range(blocks.num_blocks):
        template, start = tables["block_template"][block], tables["block_start"][block]
        assert start % layout.ALIGNMENT == 0
        cells = blocks.cells[slice(*blocks.cell_start[block : block + 2])]
        offset = 0
        for level in range(*tables["template_levels"][template : template + 2]):
            first, end = tables["level_branches"][level : level + 2]
            w = end - first
            lengths = tables["branch_length"][first:end]
            assert (np.diff(lengths) <= 0).all()
            assert tables["level_offset"][level] == offset
            for k in range(w):
                slot = tables["branch_slot"][first + k]
                cell = cells[slot]
                branch = levels.tree_branch[first + k]
                assert trees.branch_tree[branch] == forest.shape_of_cell[cell]
                node = trees.order[trees.branch_start[branch] + np.arange(lengths[k])]
                node += forest.cell_offsets[cell] - trees.offsets[forest.shape_of_cell[cell]]
                places = start + offset + np.arange(lengths[k]) * w + k
                assert np.array_equal(plan.gather[places], node)
                seen += lengths[k]
                above = tables["branch_parent"][first + k]
                if above >= 0:  # the last node of the parent branch
                    assert plan.gather[start + above] == forest.parent[node[0]]
                else:
                    assert forest.parent[node[0]] == -1
            offset += w * lengths[0]
    assert seen == forest.num_nodes
