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
    found = blocks(*[5] * 11)
    assert (found.lanes, found.ragged) == (LANES, False)
    assert found.first.tolist() == [0, 5, 10]
    assert found.chain.tolist() == [*range(11), *[8] * 5]  # idle lanes repeat the first chain


def test_long_chains_come_first():
    found = blocks(3, 9, 4, *[2] * 6)
    assert found.ragged
    assert found.chain[:3].tolist() == [1, 2, 0]
    assert found.first.tolist() == [0, 9, 11]
    assert found.room == 9


@pytest.mark.parametrize("sizes", [[40], [20_000] * 9, [16_000, 16_000]])
def test_one_chain_and_long_chains_have_a_block_each(sizes):
    found = blocks(*sizes)
    assert (found.lanes, found.ragged) == (1, False)
    assert found.size == sum(sizes)


def test_other_trees_have_no_blocks():
    assert blocks_of(Forest.from_parents(dissimilar(3))) is None
    backwards = np.append(np.arange(1, 8), -1)  # a chain whose root is last
    assert blocks_of(Forest(backwards)) is None
