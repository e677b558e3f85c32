"""Plans of `flat`, `interleaved`, `block_interleaved` and `block_local`."""

import numpy as np
import pytest
from plans import CPU, GPU, equal_cells
from systems import families

from bench.made import chain, random_binary_tree
from clhines import Forest, InputError, make_plan
from clhines.solver.plan.by_cell.cell import AHEAD, AHEAD_CHAINS, AHEAD_ROWS, serial_steps
from clhines.solver.plan.plan import Limits

pytestmark = pytest.mark.core


def test_blocks_fit_local_memory():
    cells = [chain(n) for n in (30, 20, 100, 64, 5)]
    forest = Forest.from_parents(cells)
    small = Limits(local_bytes=64 * 8)  # 64 values of float64: one cell is too large
    plan = make_plan(forest, "block_local", limits=small)
    local, plain = plan.parts
    assert plan.method == "block_local"
    assert (local.spec.rhs_local, local.spec.work_group, local.max_rhs) == (64, 1, 1)
    assert (plain.spec.rhs_local, plain.spec.template) == (0, "solver/by_cell/cell")
    assert sorted(local.tables["cell_number"].tolist()) == [0, 1, 3, 4]
    assert set(plain.tables["cell_number"].tolist()) == {2}
    assert np.array_equal(np.sort(plan.gather[plan.gather >= 0]), np.arange(forest.num_nodes))
    text = plan.describe()
    assert "local bytes     512" in text
    assert "local bytes     0" in text
    two = make_plan(forest, "block_local", np.float32, small, block_size=1)
    assert [part.spec.rhs_local > 0 for part in two.parts] == [True]
    with pytest.raises(InputError, match="block_size=2 needs 1024 bytes .* 64 nodes; .* has 512, "):
        make_plan(forest, "block_local", limits=small, block_size=2)
    assert make_plan(Forest(chain(65)), "block_local", limits=small).method == "block_local"


@pytest.mark.parametrize(
    ("limits", "options", "block", "max_rhs"),
    [
        (GPU, {}, 64, 4),
        (CPU, {}, 4, 4),
        (GPU, {"block_size": 5}, 5, 4),
        (Limits(max_work_group=16), {}, 16, 4),
        (Limits(local_bytes=20 * 8 * 11), {}, 8, 1),
        (Limits(local_bytes=20 * 8 * 40), {"block_size": 8}, 8, 3),
    ],
)
def test_a_block_is_a_work_group_of_block_local(limits, options, block, max_rhs):
    forest = Forest.from_parents([chain(20)] * 100)
    plan = make_plan(forest, "block_local", limits=limits, **options)
    (part,) = plan.parts
    assert (part.spec.work_group, part.spec.stride, part.spec.vector_width) == (block, block, 1)
    assert part.num_units == part.num_groups * block
    assert part.max_rhs == max_rhs
    assert part.spec.rhs_local >= 20 * block
    assert part.spec.rhs_local * part.max_rhs * 8 <= limits.local_bytes
    same = make_plan(forest, "block_interleaved", block_size=block, vector_width=1)
    assert np.array_equal(plan.gather, same.gather)


def test_default_vectors_fit_an_asked_for_block():
    forest = equal_cells()
    for block, width in ((3, 1), (6, 2), (12, 4), (8, 4)):
        plan = make_plan(forest, "block_interleaved", limits=CPU, block_size=block)
        assert plan.parts[0].spec.vector_width == width
    assert make_plan(forest, "block_interleaved", limits=CPU).parts[0].spec.vector_width == 4
    assert make_plan(forest, "block_interleaved", np.float32, CPU).parts[0].spec.vector_width == 4
    many = Forest.from_parents([chain(3)] * 8)
    assert make_plan(many, "block_interleaved", np.float32, CPU).parts[0].spec.vector_width == 8
    one = make_plan(Forest(chain(3)), "block_interleaved", limits=GPU)
    assert one.packed_size == 3  # no lanes that are only padding
    assert make_plan(forest, "block_interleaved", limits=GPU).parts[0].spec.vector_width == 1


def test_what_all_cells_share_is_in_the_kernel():
    """On GPUs a kernel has the number of nodes, if equal, and the fact that all are chains."""
    trees = [random_binary_tree(21, 5, k) for k in (1, 2)]
    for cells, rows, chains, text in (
        ([chain(7)] * 3, 7, True, "chains of 7 nodes"),
        ([chain(7), chain(6)], 0, True, "chains"),
        ([chain(1)] * 2, 1, True, "chains of 1 nodes"),
        (trees, 21, False, "cells of 21 nodes"),
        ([*trees, chain(20)], 0, False, "any cells"),
    ):
        forest = Forest.from_parents(cells)
        for options in (
            {"method": "interleaved"},
            {"method": "block_interleaved", "block_size": 1},
        ):
            plan = make_plan(forest, limits=GPU, **options)
            (part,) = plan.parts
            assert (part.spec.rows, part.spec.chains) == (rows, chains)
            ahead = AHEAD_ROWS if rows else AHEAD
            assert part.spec.ahead == (AHEAD_CHAINS if chains else ahead)
            assert f"kernel            cell, written for {text}\n" in plan.describe()
        for method, limits, ahead in (("interleaved", CPU, 1), ("flat", GPU, AHEAD)):
            (part,) = make_plan(forest, method, limits=limits).parts
            assert (part.spec.rows, part.spec.chains, part.spec.ahead) == (0, False, ahead)
    idle = make_plan(Forest.from_parents([chain(7)] * 65), "block_interleaved", limits=GPU).parts[0]
    assert (idle.spec.rows, idle.spec.chains) == (0, True)


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
