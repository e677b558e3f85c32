"""Orders of elimination within a cell."""

import time

import pytest
from systems import families
from trees import complete_binary

from bench.made import chain, random_binary_tree, star
from clhines import Forest
from clhines.plan.by_cell import schedule as cell_schedule


@pytest.mark.parametrize("name", families())
def test_serial_steps_hand_every_sum_to_the_parent_once(name):
    """Play the codes through with one number a node: each node must collect its whole subtree."""
    trees = Forest.from_cells(families()[name]).trees
    codes = cell_schedule.serial_steps(trees)
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


@pytest.mark.parametrize("k", [1, 2, 4, 32])
@pytest.mark.parametrize("name", families())
def test_the_deepest_ready_nodes_share_a_step(name, k):
    trees = Forest.from_cells(families()[name]).trees
    steps = cell_schedule.k_lane_steps(trees, k)
    assert steps.width.sum() == len(steps.order) == len(trees.parent)
    at = 0
    for s in range(trees.num_trees):
        left = {*range(*trees.offsets[s : s + 2])}
        for width in steps.width[steps.offsets[s] : steps.offsets[s + 1]]:
            taken = steps.order[at : at + width]
            at += width
            ready = left - {trees.parent[v] for v in left}
            deepest = sorted((trees.depth[v] for v in ready), reverse=True)[:k]
            assert set(taken) <= ready
            assert sorted(trees.depth[taken], reverse=True) == deepest
            left -= set(taken)
        assert not left


def test_lane_steps_of_extremes():
    trees = Forest.from_cells([chain(50), star(50), chain(1), complete_binary(5)]).trees
    assert cell_schedule.k_lane_steps(trees, 8).counts.tolist() == [50, 8, 1, 6]
    assert cell_schedule.k_lane_steps(trees, 1).counts.tolist() == trees.sizes.tolist()
    large = Forest.from_cells([random_binary_tree(10**5, 10_001, 3), chain(10**5)]).trees
    assert large.depth.max() == 10**5 - 1
    begin = time.process_time()
    cell_schedule.k_lane_steps(large, 16)
    assert time.process_time() - begin < 2
