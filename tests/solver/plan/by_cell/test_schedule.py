"""Orders of elimination within a cell."""

import pytest
from systems import families

from clhines import Forest
from clhines.solver.plan.by_cell.cell import serial_steps

pytestmark = pytest.mark.core


@pytest.mark.parametrize("name", families())
def test_serial_steps_hand_every_sum_to_the_parent_once(name):
    """Run the codes with one number per node: each node must collect its whole subtree."""
    trees = Forest.from_parents(families()[name]).trees
    codes = serial_steps(trees)
    for s in range(trees.num_trees):
        start, stop = trees.offsets[s : s + 2]
        code = codes[start:stop].tolist()
        memory, carried, subtree = {}, 0, {}
        for i in range(len(code) - 1, -1, -1):
            parent, waiting, first = code[i] >> 2, bool(code[i] & 2), bool(code[i] & 1)
            assert waiting == (i in memory)
            subtree[i] = 1 + carried + memory.pop(i, 0)
            carried = subtree[i] if parent == i - 1 else 0
            if parent != i - 1:
                assert first == (parent not in memory)
                memory[parent] = memory.get(parent, 0) + subtree[i]
            above = trees.parent[trees.order[start + i]]
            assert parent == (-1 if above < 0 else trees.rank[above] - start)
        assert not memory
        assert subtree[0] == stop - start
