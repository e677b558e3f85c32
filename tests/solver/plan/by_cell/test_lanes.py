"""Blocks of chains in lanes: rows, padding, and forests without padding."""

import numpy as np
import pytest
from systems import dissimilar

from bench.made import chain
from clhines import Forest
from clhines.solver.plan.by_cell.lanes import LANES, blocks_of


def blocks(*sizes):
    return blocks_of(Forest.from_parents([chain(n) for n in sizes]))


def test_chains_of_a_length_stay_in_order():
    lanes = blocks(*[5] * 11)
    assert (lanes.lanes, lanes.ragged) == (LANES, False)
    assert lanes.first.tolist() == [0, 5, 10]
    assert lanes.chain.tolist() == [*range(11), *[8] * 5]  # idle lanes repeat the first chain


def test_long_chains_come_first():
    lanes = blocks(3, 9, 4, *[2] * 6)
    assert lanes.ragged
    assert lanes.chain[:3].tolist() == [1, 2, 0]
    assert lanes.first.tolist() == [0, 9, 11]
    assert lanes.room == 9


@pytest.mark.parametrize("sizes", [[40], [20_000] * 9, [16_000, 16_000]])
def test_one_chain_and_long_chains_have_a_block_each(sizes):
    lanes = blocks(*sizes)
    assert (lanes.lanes, lanes.ragged) == (1, False)
    assert lanes.size == sum(sizes)


def test_other_trees_have_no_blocks():
    assert blocks_of(Forest.from_parents(dissimilar(3))) is None
    backwards = np.append(np.arange(1, 8), -1)  # a chain whose root is last
    assert blocks_of(Forest(backwards)) is None
