"""Plans without a device: schedules, packing, layouts, options, and what may import what."""

import subprocess
import sys
import time

import numpy as np
import pytest
from systems import dissimilar, families, forest_for

import clhines
from clhines import METHODS, Forest, InputError, make_plan
from clhines.cells.shapes import chain, complete_binary, random_binary_tree, star
from clhines.plan import layout, packing
from clhines.plan.by_branch import schedule
from clhines.plan.by_cell import schedule as cell_schedule
from clhines.plan.plan import Limits

CPU = Limits(compute_units=2, max_work_group=4096, is_cpu=True, vector_bytes=32)
GPU = Limits()
OPTIONS = [
    ("flat", {}),
    ("interleaved", {}),
    ("block_interleaved", {}),
    ("block_interleaved", {"block_size": 3}),
    ("block_interleaved", {"block_size": 8, "vector_width": 4}),
    ("block_interleaved", {"vector_width": 2}),
    ("fine", {}),
    ("fine", {"work_group": 1}),
    ("fine", {"work_group": 7, "max_cells": 3}),
    ("fine", {"work_group": 33, "max_cells": 1}),
    ("fine", {"vector_width": 1, "max_cells": 3}),
    ("fine", {"vector_width": 4}),
    ("fine", {"vector_width": 16, "max_cells": 2}),
    ("levels", {"padding": "compute"}),
    ("levels", {"padding": "skip", "work_group": 3}),
    ("block_local", {"block_size": 3}),
    ("dhs", {"k": 1}),
    ("dhs", {"local": True}),
    ("dhs", {"k": 4, "work_group": 12}),
]
OPTIONS += [(method, {}) for method in METHODS if (method, {}) not in OPTIONS]


def next_fit(forest, lanes, max_cells):
    return packing.next_fit(forest, packing.level_widths(forest), lanes, max_cells)


# ----------------------------------------------------------------------------------- layouts


@pytest.mark.parametrize("limits", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize(("method", "options"), OPTIONS)
@pytest.mark.parametrize("name", families())
def test_gather_is_a_permutation_plus_padding(name, method, options, limits):
    forest = forest_for(method, families()[name])
    plan = make_plan(forest, method, limits=limits, **options)
    gather = plan.gather
    assert gather.dtype == np.int32
    assert gather.min() >= -1
    assert np.array_equal(np.sort(gather[gather >= 0]), np.arange(forest.num_nodes))
    assert plan.packed_size == len(gather)
    assert all(t.dtype == np.int32 for t in plan.parts[0].tables.values())

    natural = np.random.default_rng(0).random((3, forest.num_nodes))
    packed = layout.pack(natural, gather, fill=-7)
    assert packed.shape == (3, plan.packed_size)
    assert (packed[:, gather < 0] == -7).all()
    assert np.array_equal(layout.unpack(packed, gather, forest.num_nodes), natural)
    assert np.array_equal(packed[1], layout.pack(natural[1], gather, fill=-7))


def order_of(forest, cell):
    """Natural indices of a cell's nodes in elimination order, from the root."""
    s = forest.shape_of_cell[cell]
    here = slice(*forest.trees.offsets[s : s + 2])
    return forest.trees.order[here] - here.start + forest.cell_offsets[cell]


def equal_cells(count=6, size=9):
    rng = np.random.default_rng(1)
    return Forest.from_cells([random_binary_tree(size, 5, rng) for _ in range(count)])


def test_flat_formula():
    forest = Forest.from_cells(dissimilar(9))
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
    forest = Forest.from_cells([chain(4)] * 3)
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
    forest = Forest.from_cells([chain(2), chain(3), chain(1)])  # largest first: 1, 0 and 2
    plan = make_plan(forest, "block_interleaved", block_size=2)
    assert plan.gather.tolist() == [2, 0, 3, 1, 4, -1, 5, -1]
    assert plan.parts[0].tables["cell_number"].tolist() == [1, 0, 2, -1]
    assert plan.parts[0].tables["cell_size"].tolist() == [3, 2, 1, 0]


def test_level_strided_example_by_hand():
    # cell 0: 0 - 1 -+- 2            cell 1: one node
    #                +- 3 - 4
    forest = Forest(np.array([-1, 0, 1, 1, 3, -1]), np.array([0, 5, 6]))
    plan = make_plan(forest, "fine", work_group=4, max_cells=2)
    # level 0: branches (0 1) and (5), width 2; level 1: the longest first, (3 4) and (2)
    assert plan.gather.tolist() == [0, 5, 1, -1, 3, 2, 4, -1] + [-1] * 24
    assert plan.parts[0].tables["level_offset"].tolist() == [0, 4]
    assert plan.parts[0].tables["branch_length"].tolist() == [2, 1, 2, 1]
    assert plan.parts[0].tables["branch_parent"].tolist() == [-1, -1, 2, 2]
    assert plan.parts[0].tables["branch_children"].tolist() == [0, 2, 2, 2, 2]
    assert plan.parts[0].tables["child_first"].tolist() == [4, 5]
    assert plan.parts[0].tables["branch_slot"].tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("max_cells", [1, 3, 100])
def test_level_strided_formula(max_cells):
    forest = Forest.from_cells(dissimilar(12) + [complete_binary(4)] * 5)
    trees = forest.trees
    blocks = next_fit(forest, 32, max_cells)
    levels = schedule.branch_levels(trees, blocks.slot_template, blocks.slot_tree)
    plan = make_plan(forest, "fine", work_group=32, max_cells=max_cells)
    tables = plan.parts[0].tables
    seen = 0
    for block in range(blocks.num_blocks):
        template, start = tables["block_template"][block], tables["block_start"][block]
        assert start % layout.ALIGNMENT == 0
        cells = blocks.cells[slice(*blocks.cell_start[block : block + 2])]
        offset = 0
        for level in range(*tables["template_levels"][template : template + 2]):
            first, end = tables["level_branches"][level : level + 2]
            w = end - first
            lengths = tables["branch_length"][first:end]
            assert (np.diff(lengths) <= 0).all()
            assert tables["level_offset"][level] == offset
            for k in range(w):
                slot = tables["branch_slot"][first + k]
                cell = cells[slot]
                branch = levels.tree_branch[first + k]
                assert trees.branch_tree[branch] == forest.shape_of_cell[cell]
                node = trees.order[trees.branch_start[branch] + np.arange(lengths[k])]
                node += forest.cell_offsets[cell] - trees.offsets[forest.shape_of_cell[cell]]
                places = start + offset + np.arange(lengths[k]) * w + k
                assert np.array_equal(plan.gather[places], node)
                seen += lengths[k]
                above = tables["branch_parent"][first + k]
                if above >= 0:  # the last node of the parent branch
                    assert plan.gather[start + above] == forest.parent[node[0]]
                else:
                    assert forest.parent[node[0]] == -1
            offset += w * lengths[0]
    assert seen == forest.num_nodes


# ----------------------------------------------------------------------------------- packing


def naive_widths(forest, cell):
    s = forest.shape_of_cell[cell]
    inside = slice(*forest.trees.branch_offsets[s : s + 2])
    return np.bincount(forest.trees.branch_level[inside])


@pytest.mark.parametrize("max_cells", [1, 2, 5, 1000])
@pytest.mark.parametrize("lanes", [1, 8, 31, 64])
@pytest.mark.parametrize("name", families())
def test_next_fit_never_exceeds_the_lanes(name, lanes, max_cells):
    forest = Forest.from_cells(families()[name])
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
    # chains are one branch wide, stars of 5 one and then four: 3 chains, then 2 stars of 4 lanes
    forest = Forest.from_cells([chain(3)] * 7 + [star(5)] * 5)
    blocks = next_fit(forest, 8, 100)
    sizes = np.diff(blocks.cell_start)
    # first block: 7 chains, and a star while the first level has 8 lanes; then pairs of stars
    assert sizes.tolist() == [8, 2, 2]
    assert len(blocks.slot_start) - 1 == 2


def test_equal_blocks_share_one_template():
    forest = Forest.from_cells([star(5)] * 1000)
    blocks = next_fit(forest, 8, 100)
    assert blocks.num_blocks == 500
    assert blocks.template.tolist() == [0] * 500
    assert blocks.slot_tree.tolist() == [0, 0]
    plan = make_plan(forest, "fine", work_group=8, max_cells=100)
    assert len(plan.parts[0].tables["branch_length"]) == 10


def test_interleaving_pads_less_than_half():
    rng = np.random.default_rng(2)
    forest = Forest.from_cells([chain(int(n)) for n in rng.geometric(0.01, 300)])
    plan = make_plan(forest, "interleaved")
    assert forest.sizes.max() > 4 * forest.sizes.min()
    assert forest.num_nodes < plan.packed_size < 2 * forest.num_nodes


def test_whole_shapes_share_no_vector():
    forest = Forest.from_cells(families()["few_shapes"] * 8)
    plan = make_plan(forest, "block_interleaved", vector_width=4, block_size=4)
    assert plan.parts[0].spec.same_shape
    lanes = plan.parts[0].tables["cell_number"].reshape(-1, 4)
    for vector in lanes:
        assert len(set(forest.shape_of_cell[vector[vector >= 0]])) == 1
    mixed = make_plan(Forest.from_cells(dissimilar(13)), "block_interleaved", vector_width=4)
    assert not mixed.parts[0].spec.same_shape


# ---------------------------------------------------------------------------------- schedule


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


def test_branch_levels_list_every_child_once():
    forest = Forest.from_cells(dissimilar(12))
    blocks = next_fit(forest, 64, 4)
    levels = schedule.branch_levels(forest.trees, blocks.slot_template, blocks.slot_tree)
    assert sorted(levels.child) == np.flatnonzero(levels.parent >= 0).tolist()
    for branch in range(len(levels.parent)):
        children = levels.child[slice(*levels.child_start[branch : branch + 2])]
        assert (levels.parent[children] == branch).all()
        assert (levels.slot[children] == levels.slot[branch]).all()
        assert (np.diff(children) > 0).all()
    assert levels.width.sum() == len(levels.length)
    assert (levels.longest >= 1).all()


def test_branch_vectors_hold_every_branch_once_below_its_parent():
    forest = Forest.from_cells([*dissimilar(12), star(40), chain(9)])
    blocks = packing.next_fit(forest, [np.array([n]) for n in forest.sizes], 300, 5)
    for width in (1, 4, 8):
        v = schedule.branch_vectors(forest.trees, blocks.slot_template, blocks.slot_tree, width)
        assert len(np.unique(v.place)) == len(v.length) == forest.num_branches
        inner = np.flatnonzero(v.parent >= 0)
        assert (v.vector[inner] < v.vector[v.parent[inner]]).all()
        assert (v.slot[inner] == v.slot[v.parent[inner]]).all()
        assert (v.template[v.vector] == blocks.slot_template[v.slot]).all()
        assert (v.length <= v.rows[v.vector]).all()
        assert (v.length >= v.even[v.vector]).all()
        assert (np.bincount(v.vector) <= width).all()
        used = np.bincount(v.template[v.vector] * 1000 + v.exchange())
        assert used.max() == 1
        assert v.exchange().min() == width  # below are the zeros


def test_rounds_list_every_child_in_the_order_of_its_tree():
    forest = Forest.from_cells([*dissimilar(12), star(40)])
    blocks = packing.next_fit(forest, [np.array([n]) for n in forest.sizes], 10**6, 10**6)
    v = schedule.branch_vectors(forest.trees, blocks.slot_template, blocks.slot_tree, 4)
    start, child = v.rounds()
    at = {int(e): k for k, e in enumerate(v.exchange())}  # one template: no number twice
    for branch in range(len(v.length)):
        rounds = slice(*start[v.vector[branch] :][:2])
        found = [at[int(e)] for e in child[rounds, v.lane[branch]] if e]
        assert sorted(found) == np.flatnonzero(v.parent == branch).tolist()
        assert (np.diff(v.tree_branch[found]) > 0).all()
    assert (child > 0).sum() == (v.parent >= 0).sum()


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


def test_steps_example_by_hand():
    # cell 0: 0 - 1 -+- 2            cell 1: one node
    #                +- 3 - 4
    forest = Forest(np.array([-1, 0, 1, 1, 3, -1]), np.array([0, 5, 6]))
    part = make_plan(forest, "dhs", k=2, work_group=8).parts[0]
    # steps: 4 and 2, the tips; 3; 1; 0
    tables = {name: table.tolist() for name, table in part.tables.items()}
    assert make_plan(forest, "dhs", k=2).gather.tolist() == [4, 2, 3, 1, 0, 5]
    assert tables["cell_number"] == [0, 1, -1, -1]
    assert tables["cell_start"] == [0, 5, 5, 5]
    assert tables["cell_node"] == [0, 5, 0, 0]
    assert tables["cell_step"] == [0, 5, 0, 0]
    assert tables["cell_steps"] == [4, 1, 0, 0]
    assert tables["group_steps"] == [4]
    assert tables["step_first"] == [0, 2, 3, 4, 5, 0, 1]
    assert tables["node_parent"] == [2, 3, 3, 4, -1, -1]
    assert tables["node_order"] == [forest.trees.rank[v] for v in (4, 2, 3, 1, 0)] + [0]
    assert tables["node_children"] == [0, 0, 0, 1, 3, 4, 4]
    assert tables["node_child"] == [0, 1, 2, 3, 0]
    assert part.statistics["steps"] == 4
    assert part.statistics["dependent_steps"] == part.statistics["barriers"] == 8
    assert part.statistics["idle_lanes"] == pytest.approx(1 - 6 / (4 * 8))
    assert part.statistics["cells_per_block"] == 2


def test_blocks_fit_local_memory():
    cells = [chain(n) for n in (30, 20, 100, 64, 5)]
    forest = Forest.from_cells(cells)
    small = Limits(local_bytes=64 * 8)  # 64 values of float64: one cell is too large
    plan = make_plan(forest, "block_local", limits=small)
    local, plain = plan.parts
    assert plan.method == "block_local"
    assert (local.spec.rhs_local, local.spec.work_group, local.max_rhs) == (64, 1, 1)
    assert (plain.spec.rhs_local, plain.spec.template) == (0, "by_cell/cell")
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
    forest = Forest.from_cells([chain(20)] * 100)
    plan = make_plan(forest, "block_local", limits=limits, **options)
    (part,) = plan.parts
    assert (part.spec.work_group, part.spec.stride, part.spec.vector_width) == (block, block, 1)
    assert part.num_units == part.num_groups * block
    assert part.max_rhs == max_rhs
    assert part.spec.rhs_local >= 20 * block
    assert part.spec.rhs_local * part.max_rhs * 8 <= limits.local_bytes
    same = make_plan(forest, "block_interleaved", block_size=block, vector_width=1)
    assert np.array_equal(plan.gather, same.gather)


def test_lanes_and_work_groups_of_dhs():
    forest = Forest.from_cells(dissimilar(9))
    for limits, options, expected in [
        (GPU, {}, (16, 64)),
        (CPU, {}, (16, 16)),
        (Limits(max_work_group=9), {}, (8, 8)),
        (GPU, {"k": 32}, (32, 64)),
        (GPU, {"k": 1}, (1, 8)),
        (GPU, {"work_group": 24}, (8, 24)),
        (CPU, {"k": 4}, (4, 4)),
    ]:
        spec = make_plan(forest, "dhs", limits=limits, **options).parts[0].spec
        assert (spec.lanes, spec.work_group) == expected
    with pytest.raises(InputError, match="k=32 is above the device's limit of 16 work-items"):
        make_plan(forest, "dhs", limits=Limits(max_work_group=16), k=32)


def test_vector_rows_example_by_hand():
    # branches 0 1 | 2 | 3 4 5 and, in the second cell, 6 7 8: two leaves and a chain of three
    forest = Forest.from_cells([np.array([-1, 0, 1, 1, 3, 4]), chain(3)])
    plan = make_plan(forest, "fine", vector_width=2, max_cells=2)
    expected = [5, 8, 4, 7, 3, 6, 2, -1, 1, -1, 0, -1]  # from the tips; then the root's branch
    assert plan.gather[:12].tolist() == expected
    assert (plan.gather[12:] == -1).all()
    tables = plan.parts[0].tables
    assert tables["template_vectors"].tolist() == [0, 3]
    assert tables["vector_place"].tolist() == [0, 6, 8]
    assert tables["vector_rows"].tolist() == [3, 1, 2]
    assert tables["vector_rounds"].tolist() == [0, 0, 0, 2]
    assert tables["round_child"].tolist()[:4] == [4, 0, 2, 0]  # the leaf, then the branch 3 4 5
    assert tables["lane_parent"].tolist() == [6, 0, 6, 0, 0, 0]


def test_equal_cells_meet_lane_for_lane():
    forest = Forest.from_cells([random_binary_tree(60, 9, 1)] * 8)
    tables = make_plan(forest, "fine", vector_width=4, max_cells=8).parts[0].tables
    assert (tables["vector_parent"][:-2] > 0).all()
    assert (tables["vector_parent"][-2:] == -1).all()  # of the roots
    assert (tables["round_vector"][:-1] >= 0).all()
    assert (tables["vector_rows"] == tables["vector_even"]).all()


def test_fine_takes_vectors_on_cpus_unless_lanes_are_asked_for():
    forest = Forest.from_cells(dissimilar(9))
    for limits, options, template in [
        (CPU, {}, "by_branch/fine_vector"),
        (CPU, {"work_group": 1}, "by_branch/fine_vector"),
        (CPU, {"work_group": 2}, "by_branch/fine"),
        (GPU, {}, "by_branch/fine"),
        (GPU, {"work_group": 1}, "by_branch/fine"),
        (GPU, {"vector_width": 2}, "by_branch/fine_vector"),
    ]:
        assert (
            make_plan(forest, "fine", limits=limits, **options).parts[0].spec.template == template
        )


def test_vectors_leave_large_cells_in_global_memory_and_stars_to_lanes():
    cells = [chain(3000), star(2000), chain(9), random_binary_tree(40, 9, 1)]
    forest = Forest.from_cells(cells)
    limits = Limits(is_cpu=True, vector_bytes=32, local_bytes=32 << 10)
    plan = make_plan(forest, "fine", limits=limits)
    numbers = [part.tables["cell_number"].tolist() for part in plan.parts]
    assert [sorted(n) for n in numbers] == [[2, 3], [0], [1]]
    small, large, lanes = (part.spec for part in plan.parts)
    assert small.capacity > 0
    assert (large.template, large.capacity) == ("by_branch/fine_vector", 0)
    assert large.vector_width == 1  # a single chain fills one lane only
    assert lanes.template == "by_branch/fine"
    for part in plan.parts[:2]:
        spec = part.spec
        assert 2 * (spec.capacity + spec.slots) * 8 <= limits.local_bytes
        assert (1 + part.max_rhs) * spec.slots * 8 <= limits.local_bytes


def test_dhs_leaves_large_cells_in_global_memory():
    forest = Forest.from_cells([chain(30), star(20), chain(100), star(30), chain(5), chain(101)])
    small = Limits(local_bytes=2 * 100 * 8 + 4 * 64)
    plan = make_plan(forest, "dhs", limits=small, local=True)
    local, rest = plan.parts
    assert sorted(local.tables["cell_number"].tolist()) == [0, 1, 2, 3, 4]
    assert (local.spec.capacity, local.spec.work_group, local.max_rhs) == (100, 16, 1)
    assert local.statistics["local_bytes"] == 1600
    assert (rest.spec.capacity, rest.spec.template) == (0, "by_cell/dhs")
    assert set(rest.tables["cell_number"].tolist()) == {5, -1}
    assert "local bytes     1600" in plan.describe()
    assert "local bytes     0" in plan.describe()
    with pytest.raises(InputError, match="work_group=32 puts 2 cells .* 1856 bytes are enough for"):
        make_plan(forest, "dhs", limits=small, local=True, work_group=32)
    large = make_plan(forest, "dhs", np.float32, limits=GPU, local=True)
    (part,) = large.parts
    assert (part.spec.capacity, part.spec.work_group, part.max_rhs) == (256, 64, 4)
    assert make_plan(forest, "dhs").parts[0].spec.capacity == 0


# --------------------------------------------------------------------------- options, numbers


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("gauss", {}, "method 'gauss' is unknown; expected auto, flat, interleaved, "),
        (
            "flat",
            {"block_size": 4},
            "option 'block_size' is not one of method 'flat'; .*work_group",
        ),
        ("fine", {"block_size": 4}, "option 'block_size' .*'fine'; expected work_group, max_cells"),
        (
            "fine",
            {"work_group": 4, "vector_width": 8},
            "vector_width=8 needs work_group=1; got work_group=4",
        ),
        ("fine", {"work_group": 0}, "work_group=0 is not valid; expected a whole number of at lea"),
        ("fine", {"work_group": -3}, "work_group=-3 is not valid"),
        ("fine", {"work_group": 2.0}, "work_group=2.0 is not valid"),
        ("fine", {"work_group": True}, "work_group=True is not valid"),
        ("fine", {"work_group": "64"}, "work_group='64' is not valid"),
        ("fine", {"work_group": 257}, "work_group=257 is above the device's limit of 256 work-i"),
        ("flat", {"work_group": 257}, "work_group=257 is above the device's limit of 256 work-i"),
        ("fine", {"max_cells": 0}, "max_cells=0 is not valid; expected a whole number of at leas"),
        ("block_interleaved", {"vector_width": 3}, "vector_width=3 .* expected 1, 2, 4, 8 or 16"),
        ("block_interleaved", {"vector_width": 32}, "vector_width=32 .* expected 1, 2, 4, 8 or 16"),
        ("block_interleaved", {"block_size": 0}, "block_size=0 is not valid"),
        (
            "block_interleaved",
            {"block_size": 6, "vector_width": 4},
            "block_size=6 is not a multiple of vector_width=4",
        ),
        ("block_local", {"block_size": 257}, "block_size=257 is above the device's limit of 256 w"),
        ("block_local", {"block_size": 1.5}, "block_size=1.5 is not valid; expected a whole"),
        ("block_local", {"vector_width": 1}, "'vector_width' is not one of method 'block_local'"),
        ("dhs", {"k": 3}, "k=3 is not valid; expected 1, 2, 4, 8, 16 or 32"),
        ("dhs", {"local": 1}, "local=1 is not valid; expected True or False"),
        ("dhs", {"k": 64}, "k=64 is not valid; expected 1, 2, 4, 8, 16 or 32"),
        ("dhs", {"k": True}, "k=True is not valid"),
        ("dhs", {"k": 8, "work_group": 12}, "work_group=12 is not a multiple of k=8"),
        ("dhs", {"k": 8, "work_group": 264}, "work_group=264 is above the device's limit of 256"),
    ],
)
def test_bad_options_name_option_value_and_limit(method, options, words):
    with pytest.raises(InputError, match=words) as caught:
        make_plan(Forest(chain(3)), method, limits=GPU, **options)
    assert "\n" not in str(caught.value)


def test_default_vectors_fit_an_asked_for_block():
    forest = equal_cells()
    for block, width in ((3, 1), (6, 2), (12, 4), (8, 4)):
        plan = make_plan(forest, "block_interleaved", limits=CPU, block_size=block)
        assert plan.parts[0].spec.vector_width == width
    assert make_plan(forest, "block_interleaved", limits=CPU).parts[0].spec.vector_width == 4
    assert make_plan(forest, "block_interleaved", np.float32, CPU).parts[0].spec.vector_width == 4
    many = Forest.from_cells([chain(3)] * 8)
    assert make_plan(many, "block_interleaved", np.float32, CPU).parts[0].spec.vector_width == 8
    one = make_plan(Forest(chain(3)), "block_interleaved", limits=GPU)
    assert one.packed_size == 3  # no lanes that only pad
    assert make_plan(forest, "block_interleaved", limits=GPU).parts[0].spec.vector_width == 1


@pytest.mark.parametrize("dtype", ["float16", np.int32, np.complex64, "nonsense", object()])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(InputError, match="expected float64 or float32"):
        make_plan(Forest(chain(3)), dtype=dtype)


def test_none_takes_the_default_of_an_option():
    for method, row in METHODS.items():
        forest = forest_for(method, dissimilar(5))
        with_none = make_plan(forest, method, **dict.fromkeys(row.options))
        assert with_none.parts[0].spec == make_plan(forest, method).parts[0].spec


def test_work_groups_cover_all_units():
    forest = Forest.from_cells([chain(2)] * 65)
    for work_group, groups in ((64, 2), (65, 1), (66, 1), (1, 65)):
        plan = make_plan(forest, "interleaved", work_group=work_group)
        assert (plan.parts[0].num_groups, plan.parts[0].num_units) == (groups, 65)
    assert make_plan(forest, "fine", max_cells=10).parts[0].num_groups == 7
    assert (
        make_plan(forest, "flat", limits=Limits(max_work_group=16)).parts[0].spec.work_group == 16
    )


def test_spec_holds_stride_only_where_all_agree():
    equal, mixed = equal_cells(), Forest.from_cells(dissimilar(9))
    assert make_plan(mixed, "interleaved").parts[0].spec.stride == 0
    assert make_plan(mixed, "flat").parts[0].spec.stride == 1
    assert make_plan(equal, "fine", np.float32).parts[0].spec.real == "float"
    spec = make_plan(equal, "fine").parts[0].solve_spec(False, 3)
    assert (spec.symmetric, spec.rhs) == (False, 3)


def test_statistics_by_hand():
    # three branches of 2, 1 and 3 nodes; 4 lanes: 2 steps of the root branch and 3 of the others
    forest = Forest(np.array([-1, 0, 1, 1, 3, 4]))
    stats = make_plan(forest, "fine", work_group=4).parts[0].statistics
    assert stats["levels"] == 2
    assert stats["dependent_steps"] == 2 * (2 + 3)
    assert stats["barriers"] == 2 * 2
    assert stats["idle_lanes"] == pytest.approx(1 - 6 / (4 * 5))
    assert stats["cells_per_block"] == 1
    narrow = make_plan(forest, "fine", work_group=1).parts[0].statistics
    assert narrow["dependent_steps"] == 2 * (2 + 3 + 3)  # two passes on the second level
    assert make_plan(forest, "flat").parts[0].statistics["dependent_steps"] == 12


@pytest.mark.parametrize("method", METHODS)
def test_describe_counts(method):
    forest = forest_for(method, [star(5), chain(3), star(5)])
    text = make_plan(forest, method).describe()
    rows = {line[:18].strip(): line[18:] for line in text.splitlines()}
    assert rows["method"] == method
    assert rows["cells"] == "3 (2 distinct shapes)"
    assert rows["nodes"] == "13"
    chains = METHODS[method].chains_only
    assert rows["branches"] == ("3" if chains else "11")
    assert rows["height"] == f"{5 if chains else 3} nodes at most"
    assert rows["padding"].endswith("% of the nodes")


def test_bytes_needed_by_hand():
    plan = make_plan(Forest.from_cells([chain(4)] * 3), "interleaved")
    tables = 4 * (5 * 3 + 4)  # five tables of one number a lane, and the codes of one shape
    assert plan.bytes_needed(8, arrays=5) == 12 * 8 * 5 + 12 * 4 + tables


# ----------------------------------------------------------------------------------- imports


def test_everything_down_to_plan_works_without_pyopencl():
    code = """
        import sys
        class Block:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("pyopencl", "mako"):
                    raise ImportError("blocked: " + name)
        sys.meta_path.insert(0, Block())
        import importlib, pkgutil
        import clhines
        from clhines.cells.shapes import chain
        for package in ("clhines.plan", "clhines.cells"):
            found = pkgutil.walk_packages(importlib.import_module(package).__path__, package + ".")
            loaded = [importlib.import_module(m.name) for m in found]
            assert len(loaded) >= 4, loaded
        for name in ("errors", "arrays", "checks", "files", "forest", "reference", "draw"):
            importlib.import_module("clhines." + name)
        forest = clhines.Forest.from_cells([chain(4)] * 3)
        for method in clhines.METHODS:
            print(clhines.make_plan(forest, method).packed_size)
        try:
            clhines.Solver
        except ImportError as error:
            print(error)
    """
    code = "\n".join(line[8:] for line in code.splitlines())
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-2:] == ["blocked:", "pyopencl"]
    assert done.stdout.split()[:2] == ["12", "12"]


def test_an_unknown_attribute_of_the_package():
    with pytest.raises(AttributeError, match="has no attribute 'Slover'"):
        clhines.Slover  # noqa: B018


def test_auto_takes_no_gpu_shaped_row_on_a_cpu():
    forest = Forest.from_cells([chain(5), star(4)])
    assert make_plan(forest, limits=Limits(is_cpu=True)).method not in (
        "contraction",
        "interleaved",
    )
    assert make_plan(forest, limits=Limits(is_cpu=False)).method == "contraction"


def test_contraction_cuts_cells_above_local_memory():
    cells = [chain(400), star(30), chain(400), chain(7), star(600)]
    forest = Forest.from_cells(cells)
    small = Limits(local_bytes=8 << 10)
    plan = make_plan(forest, "contraction", limits=small)
    parts = [(part.spec.template, part.phase, part.source, part.target) for part in plan.parts]
    assert parts == [
        ("by_segment/contraction", "reduce", 0, 1),
        ("by_segment/contraction", "solve", 1, 0),
        ("by_segment/contraction", "expand", 0, 1),
        ("by_branch/fine", "solve", 0, 0),
    ]
    reduce, rest, expand, stars = (set(p.tables["cell_number"].tolist()) for p in plan.parts)
    assert reduce == rest == {0, 2}
    assert expand == {0, 1, 2, 3}  # the small ones ride along
    assert plan.parts[0].num_groups == plan.parts[2].launches[0][0] < plan.parts[2].num_groups
    assert stars == {4}
    assert np.array_equal(np.sort(plan.gather[plan.gather >= 0]), np.arange(forest.num_nodes))


@pytest.mark.parametrize(
    ("cells", "dtype", "limits"),
    [
        ([chain(1655)] * 4300, "float64", Limits(132, 1024)),
        ([chain(3000), star(1000)], "float32", Limits(132, 1024)),
        ([chain(480)] * 300, "float64", Limits(4, 64, local_bytes=16 << 10)),
        ([chain(960)] * 300 + [star(60)] * 9, "float64", Limits(4, 256, local_bytes=32 << 10)),
        ([chain(5000), star(30)], "float32", Limits(4, 32, local_bytes=8 << 10)),
    ],
)
def test_contraction_stays_within_local_memory(cells, dtype, limits):
    plan = make_plan(Forest.from_cells(cells), "contraction", dtype, limits)
    for part in plan.parts:
        if part.spec.template == "by_segment/contraction":
            values = 3 * part.spec.capacity + 3 * part.spec.work_group  # unsymmetric
            assert values * np.dtype(dtype).itemsize + 8 * part.spec.segment <= limits.local_bytes


def test_contraction_in_groups_too_small_for_pieces():
    plan = make_plan(Forest(chain(5000)), "contraction", limits=Limits(), work_group=1)
    assert [part.spec.template for part in plan.parts] == ["by_branch/fine"]


def test_many_branching_children_are_planned_at_once():
    m = 6000  # children of the root, with two leaves each: in rounds of one, a matter of minutes
    parent = np.concatenate(([-1], np.zeros(m, int), np.repeat(np.arange(1, m + 1), 2)))
    begin = time.process_time()
    make_plan(Forest(parent), "contraction", limits=Limits(132, 1024))
    assert time.process_time() - begin < 2
