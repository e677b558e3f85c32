"""Orders of elimination with several lanes per cell."""

import time

import pytest
from systems import families
from trees import complete_binary

from bench.made import chain, random_binary_tree, star
from clhines import Forest
from clhines.solver.literature.dhs import k_lane_steps


@pytest.mark.parametrize("k", [1, 2, 4, 32])
@pytest.mark.parametrize("name", families())
def test_the_deepest_ready_nodes_share_a_step(name, k):
    trees = Forest.from_parents(families()[name]).trees
    steps = k_lane_steps(trees, k)
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
    trees = Forest.from_parents([chain(50), star(50), chain(1), complete_binary(5)]).trees
    assert k_lane_steps(trees, 8).counts.tolist() == [50, 8, 1, 6]
    assert k_lane_steps(trees, 1).counts.tolist() == trees.sizes.tolist()
    large = Forest.from_parents([random_binary_tree(10**5, 10_001, 3), chain(10**5)]).trees
    assert large.depth.max() == 10**5 - 1
    begin = time.process_time()
    k_lane_steps(large, 16)
    assert time.process_time() - begin < 2
