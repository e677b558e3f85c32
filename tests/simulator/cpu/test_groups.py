"""Cells of epochs on CPUs in blocks, and instances in groups of vectors."""

from dataclasses import replace

import numpy as np
import pytest
from networks import CABLES, DT, crowded_lanes

from clhines import Network
from clhines.simulator.cpu import groups
from clhines.simulator.cpu.groups import SlotNodes, choose_width, make_blocks, variable_nodes
from clhines.simulator.model import compile

pytestmark = pytest.mark.optimised


def test_pivots_of_rounds_are_those_of_all_nodes(fast_queue, needs):
    """Worked out once for cells that repeat; later values may differ from cell to cell."""
    needs(fast_queue, "float64")
    net = Network(CABLES, 3 * len(CABLES) + 1)
    net.insert("hh", net.soma)
    net.insert("pas", "dendrites", g=2e-4)
    model = compile(net, DT)
    n, of_nodes = model.forest.num_nodes, model.of_nodes
    assert len(of_nodes.once("u")) < n
    variable = variable_nodes(model)
    slots = SlotNodes(make_blocks(model.forest, variable, 2), model.forest)
    given = slots.node, variable, fast_queue, np.dtype(np.float64)
    once = groups.ConstantPivots(model, *given)
    every = groups.ConstantPivots(replace(model, of_nodes=of_nodes.part(0, n)), *given)
    assert not any(array.events for array in once.arrays)  # which would keep copies on the host
    before = [array.get(fast_queue) for array in once.arrays]
    for one, other in zip(before, every.arrays, strict=True):
        np.testing.assert_array_equal(one, other.get(fast_queue))
    more = np.random.default_rng(5).uniform(1, 2, n)
    for pivots in (once, every):
        pivots.set(model.constant_d * more, model.constant_b * more, model.constant_g * more)
    for old, one, other in zip(before, once.arrays, every.arrays, strict=True):
        np.testing.assert_array_equal(one.get(fast_queue), other.get(fast_queue))
        assert (one.get(fast_queue) != old).any()


@pytest.mark.parametrize(
    "counts, width", [([100], 8), ([9], 4), ([8, 16], 8), ([8, 8, 4], 4), ([2], 2)]
)
def test_two_registers_where_groups_are_about_half_as_many(counts, width):
    assert choose_width(np.array(counts), 4, True) == width


@pytest.mark.parametrize("count", [None, 2])
@pytest.mark.parametrize("most", [1, 4, 8])
def test_groups_hold_every_instance_once(most, count):
    net = crowded_lanes(7)  # three cells of the second shape: one lane of four idles
    model = compile(net, DT)
    blocks = make_blocks(model.forest, variable_nodes(model), 4, count=count)
    assert blocks.count == (count or len(blocks.cells))
    nodes = SlotNodes(blocks, model.forest)
    for kind in model.kinds:
        groups = nodes.groups(kind, most, False, None, False)
        width = groups.width
        assert width <= most
        kept = groups.member >= 0
        np.testing.assert_array_equal(np.sort(groups.member[kept]), np.arange(kind.count))
        block = np.repeat(np.arange(blocks.count), np.diff(groups.first))[:, None]
        slot, lane = np.divmod(groups.place - nodes.block_place[block], 4)
        at = blocks.first[blocks.pattern[block]] + slot
        cell = blocks.cells[blocks.first_row[block] + blocks.row[at], lane]
        np.testing.assert_array_equal(cell[kept] >= 0, True)
        node = blocks.order[at] + model.forest.cell_offsets[cell]
        np.testing.assert_array_equal(node[kept], kind.node[groups.member[kept]])
        side_by_side = (groups.place == groups.place[:, :1] + np.arange(width)).all(axis=1)
        np.testing.assert_array_equal(groups.side_by_side, side_by_side)
        if most > 1 and kind.mechanism.name == "hh":
            assert 0 < side_by_side.sum() < len(side_by_side)
