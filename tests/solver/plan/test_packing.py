"""Packing of cells into blocks."""

import itertools

import numpy as np
import pytest
from plans import next_fit
from systems import families

from bench.made import chain, star
from clhines import Forest, make_plan

pytestmark = pytest.mark.core


def naive_widths(forest, cell):
    s = forest.shape_of_cell[cell]
    inside = slice(*forest.trees.branch_offsets[s : s + 2])
    return np.bincount(forest.trees.branch_level[inside])


@pytest.mark.parametrize("name", families())
def test_next_fit_never_exceeds_the_lanes(name):
    for lanes, max_cells in itertools.product([1, 8, 31, 64], [1, 2, 5, 1000]):
        forest = Forest.from_parents(families()[name])
        blocks = next_fit(forest, lanes, max_cells)
        assert sorted(blocks.cells) == list(range(forest.num_cells))
        assert (np.diff(blocks.template) >= 0).all()
        assert blocks.cell_start[0] == 0
        assert blocks.cell_start[-1] == forest.num_cells
        for block in range(blocks.num_blocks):
            cells = blocks.cells[slice(*blocks.cell_start[block : block + 2])]
            assert 1 <= len(cells) <= max_cells
            t = blocks.template[block]
            slots = blocks.slot_tree[slice(*blocks.slot_start[t : t + 2])]
            assert forest.shape_of_cell[cells].tolist() == slots.tolist()
            total = np.zeros(int(forest.trees.num_levels.max()), int)
            for cell in cells:
                widths = naive_widths(forest, cell)
                total[: len(widths)] += widths
            assert len(cells) == 1 or total.max() <= lanes


def test_next_fit_fills_a_block_before_it_opens_another():
    # chains are one branch wide; stars of 5 have levels of 1 and 4 branches (3 chains, 2 stars fit)
    forest = Forest.from_parents([chain(3)] * 7 + [star(5)] * 5)
    blocks = next_fit(forest, 8, 100)
    sizes = np.diff(blocks.cell_start)
    # first block: 7 chains, and a star while the first level has 8 lanes; then pairs of stars
    assert sizes.tolist() == [8, 2, 2]
    assert len(blocks.slot_start) - 1 == 2


def test_equal_blocks_share_one_template():
    forest = Forest.from_parents([star(5)] * 1000)
    blocks = next_fit(forest, 8, 100)
    assert blocks.num_blocks == 500
    assert blocks.template.tolist() == [0] * 500
    assert blocks.slot_tree.tolist() == [0, 0]
    plan = make_plan(forest, "fine", work_group=8, max_cells=100)
    assert len(plan.parts[0].tables["branch_length"]) == 10
