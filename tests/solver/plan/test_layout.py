"""Maps between natural and device order, against loops over blocks and nodes."""

import numpy as np
import pytest
from plans import next_fit

from bench.made import chain, random_binary_tree
from clhines import Forest, make_plan
from clhines.solver.plan import layout

pytestmark = pytest.mark.core


def test_blocks_begin_on_whole_transactions():
    assert layout.aligned(np.array([0, 1, 32, 33])).tolist() == [0, 32, 32, 64]
    forest = Forest.from_parents([chain(5), chain(40), chain(5)])
    blocks = next_fit(forest, 64, 1)
    sizes, start, total = layout.aligned_blocks(np.array([5, 40]), blocks)
    assert sizes.tolist() == [32, 64] and total == 128
    before = [sizes[blocks.template[:k]].sum() for k in range(3)]
    assert start.tolist() == before


@pytest.mark.parametrize("method", ["fine", "contraction"])
def test_natural_tables_lead_to_each_place(method):
    """The tables map each value of a block to its positions in natural order and in the block."""
    forest = Forest.from_parents([random_binary_tree(n, 5, n) for n in (9, 30, 9, 17)] * 3)
    plan = make_plan(forest, method)
    assert sorted(plan.gather[plan.gather >= 0]) == list(range(forest.num_nodes))
    for part in (p for p in plan.parts if plan.takes_natural):
        tables = part.natural_tables(forest, plan.gather)
        start = tables["order_start"].reshape(-1, 2)
        blocks, cells = part.tables["blocks"].reshape(-1, 8), tables["cell_base"]
        for (begin, count), block in zip(start.tolist(), blocks.tolist(), strict=True):
            for k in range(count):
                word = tables["order"][begin + k]
                place, cell = (layout.ORDER.unpack(n, word) for n in ("place", "cell"))
                natural = cells[block[6] + cell] + k
                assert plan.gather[block[0] + place] == natural


def test_rows_and_integers():
    within = np.array([2, -1, 0])
    out = np.empty((2, 3), np.int64)
    layout.add_to_rows(np.array([10, 20]), within, out)
    assert out.tolist() == [[12, -1, 10], [22, -1, 20]]
    owner, step = layout.expand(np.array([2, 1, 3]))
    assert (owner.tolist(), step.tolist()) == ([0, 0, 1, 2, 2, 2], [0, 1, 0, 0, 1, 2])
