"""Layouts of methods with one work-item per cell."""

import numpy as np
import pytest
from plans import equal_cells
from systems import dissimilar, families

from bench.made import chain
from clhines import Forest, make_plan
from clhines.solver.plan import packing

pytestmark = pytest.mark.core


def order_of(forest, cell):
    """Return natural indices of a cell's nodes in elimination order, from the root."""
    s = forest.shape_of_cell[cell]
    here = slice(*forest.trees.offsets[s : s + 2])
    return forest.trees.order[here] - here.start + forest.cell_offsets[cell]


def test_flat_formula():
    forest = Forest.from_parents(dissimilar(9))
    plan = make_plan(forest, "flat")
    assert plan.packed_size == forest.num_nodes
    lanes = packing.cells_by_shape(forest)
    assert plan.gather.tolist() == np.concatenate([order_of(forest, c) for c in lanes]).tolist()
    assert (np.diff(forest.sizes[lanes]) <= 0).all()


def test_interleaved_formula():
    forest = equal_cells()
    plan = make_plan(forest, "interleaved")
    assert plan.packed_size == forest.num_nodes
    for c in range(6):
        cell = plan.parts[0].tables["cell_number"][c]
        for j, node in enumerate(order_of(forest, cell)):
            assert plan.gather[j * 6 + c] == node
    assert plan.parts[0].spec.stride == 6


def test_interleaved_chains_keep_their_order():
    forest = Forest.from_parents([chain(4)] * 3)
    gather = make_plan(forest, "interleaved").gather
    assert gather.tolist() == [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]


@pytest.mark.parametrize(("block", "vector"), [(4, 1), (4, 2), (4, 4)])
def test_block_interleaved_formula(block, vector):
    forest = equal_cells(7)
    plan = make_plan(forest, "block_interleaved", block_size=block, vector_width=vector)
    lanes = plan.parts[0].tables["cell_number"]
    assert len(lanes) == 8
    assert sorted(lanes) == [-1, *range(7)]
    expected = np.full(8 * 9, -1)
    for lane, cell in enumerate(lanes):
        if cell >= 0:
            for j, node in enumerate(order_of(forest, cell)):
                expected[(lane // block) * block * 9 + j * block + lane % block] = node
    assert plan.gather.tolist() == expected.tolist()
    assert plan.parts[0].spec.stride == block
    assert plan.parts[0].spec.vector_width == vector


def test_blocks_are_no_larger_than_the_batch():
    plan = make_plan(equal_cells(7), "block_interleaved", block_size=10**9, vector_width=2)
    assert len(plan.parts[0].tables["cell_number"]) == 8
    assert plan.packed_size == 8 * 9


def test_block_interleaved_example_by_hand():
    forest = Forest.from_parents([chain(2), chain(3), chain(1)])  # largest first: 1, 0 and 2
    plan = make_plan(forest, "block_interleaved", block_size=2)
    assert plan.gather.tolist() == [2, 0, 3, 1, 4, -1, 5, -1]
    assert plan.parts[0].tables["cell_number"].tolist() == [1, 0, 2, -1]
    assert plan.parts[0].tables["cell_size"].tolist() == [3, 2, 1, 0]


def test_interleaving_pads_less_than_half():
    rng = np.random.default_rng(2)
    forest = Forest.from_parents([chain(int(n)) for n in rng.geometric(0.01, 300)])
    plan = make_plan(forest, "interleaved")
    assert forest.sizes.max() > 4 * forest.sizes.min()
    assert forest.num_nodes < plan.packed_size < 2 * forest.num_nodes


def test_whole_shapes_share_no_vector():
    forest = Forest.from_parents(families()["few_shapes"] * 8)
    plan = make_plan(forest, "block_interleaved", vector_width=4, block_size=4)
    assert plan.parts[0].spec.same_shape
    lanes = plan.parts[0].tables["cell_number"].reshape(-1, 4)
    for vector in lanes:
        assert len(set(forest.shape_of_cell[vector[vector >= 0]])) == 1
    mixed = make_plan(Forest.from_parents(dissimilar(13)), "block_interleaved", vector_width=4)
    assert not mixed.parts[0].spec.same_shape
