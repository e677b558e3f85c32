"""Options of `fine` that shape levels and blocks: splitting, packing, shifting, local memory."""

import numpy as np
import pytest
from plans import CPU, mixture
from systems import dissimilar
from trees import complete_binary

from bench.made import caterpillar, chain, random_binary_tree, star
from clhines import Forest, InputError, make_plan
from clhines.solver.plan import packing, transforms
from clhines.solver.plan.by_branch import schedule
from clhines.solver.plan.by_branch.fine import LARGE_GROUP, MOST_LEVELS, Level
from clhines.solver.plan.plan import Limits

pytestmark = pytest.mark.core

GPU = Limits(max_work_group=1024)


# ------------------------------------------------------------------------------------ splitting


def split_by_hand(forest, cells):
    """Return branch lengths per level after the report's splitting, by plain loops."""
    trees = forest.trees
    now, lengths = [], []
    for c in cells:
        s = forest.shape_of_cell[c]
        now.append(
            (int(trees.branch_offsets[s]), int(trees.branch_length[trees.branch_offsets[s]]))
        )
    while now:
        mean = -(-sum(length for _, length in now) // len(now))
        lengths.append(sorted(min(length, mean) for _, length in now))
        below = []
        for branch, length in now:
            if length > mean:
                below.append((branch, length - mean))
            else:
                for child in np.flatnonzero(trees.branch_parent == branch).tolist():
                    below.append((child, int(trees.branch_length[child])))
        now = below
    return lengths


def level_lengths(levels, template):
    first, end = levels.level_start[template : template + 2]
    edges = levels.branch_start[first : end + 1]
    return [sorted(levels.length[a:b].tolist()) for a, b in zip(edges[:-1], edges[1:])]


def test_branches_above_the_mean_of_all_cells_are_split():
    forest = Forest.from_parents(dissimilar(9) + [complete_binary(4)] * 3)
    split = transforms.split_branches(forest).forest
    one = packing.next_fit(split, packing.level_widths(split), 10**6, 10**6)
    levels = schedule.branch_levels(split.trees, one.slot_template, one.slot_tree)
    assert level_lengths(levels, 0) == split_by_hand(forest, range(forest.num_cells))


def test_branches_above_the_mean_of_their_block_are_split():
    forest = Forest.from_parents(dissimilar(9) + [complete_binary(4)] * 3)
    blocks = packing.next_fit(forest, packing.level_widths(forest), 64, 4)
    split = transforms.split_branches(forest, blocks).forest
    trees = split.trees
    for k in range(blocks.num_blocks):
        cells = blocks.cells[slice(*blocks.cell_start[k : k + 2])]
        lengths = [[] for _ in range(int(trees.num_levels.max()))]
        for c in cells:
            here = slice(*trees.branch_offsets[split.shape_of_cell[c] :][:2])
            for level, length in zip(trees.branch_level[here], trees.branch_length[here]):
                lengths[level].append(int(length))
        assert [sorted(f) for f in lengths if f] == split_by_hand(forest, cells)


@pytest.mark.parametrize("how", ["mean", "block"])
def test_splitting_keeps_the_tree_and_numbers_pivots_as_before(how):
    forest = mixture()
    blocks = packing.next_fit(forest, packing.level_widths(forest), 32, 5)
    split = transforms.split_branches(forest, blocks if how == "block" else None)
    new, old = split.forest.trees, forest.trees
    assert np.array_equal(split.forest.parent, forest.parent)
    assert np.array_equal(split.tree[split.forest.shape_of_cell], forest.shape_of_cell)
    assert split.forest.num_branches > forest.num_branches
    branches = np.arange(len(new.branch_first))
    rank = split.rank(branches)
    tree = split.tree[new.branch_tree]
    for k, shape in enumerate(tree.tolist()):
        node = int(new.branch_first[k] - new.offsets[new.branch_tree[k]] + old.offsets[shape])
        assert old.order[old.offsets[shape] + rank[k]] == node
        # the nodes of a piece are also consecutive in the old order
        piece = new.order[new.branch_start[k] :][: new.branch_length[k]]
        piece = piece - new.offsets[new.branch_tree[k]] + old.offsets[shape]
        assert (np.diff(old.rank[piece]) == 1).all()


def test_splitting_is_quick_on_many_nodes():
    forest = Forest.from_parents([random_binary_tree(200_000, 20_001, 1), chain(200_000)])
    assert transforms.split_branches(forest).forest.num_branches > forest.num_branches


# -------------------------------------------------------------------------------------- packing


@pytest.mark.parametrize("how", packing.PACKINGS)
@pytest.mark.parametrize(("lanes", "most"), [(1, 1), (8, 3), (64, 1000)])
def test_every_packing_keeps_to_its_limits(how, lanes, most):
    forest = mixture()
    widths = packing.level_widths(forest)
    blocks = packing.pack_cells(how, forest, widths, lanes, most, False)
    assert sorted(blocks.cells) == list(range(forest.num_cells))
    for k in range(blocks.num_blocks):
        cells = blocks.cells[slice(*blocks.cell_start[k : k + 2])]
        total, widest = np.zeros((2, int(forest.trees.num_levels.max())), int)
        for c in cells:
            w = widths[forest.shape_of_cell[c]]
            total[: len(w)] += w
            widest[: len(w)] = np.maximum(widest[: len(w)], w)
        assert len(cells) <= most
        assert (total <= np.maximum(widest, lanes)).all()  # one cell may exceed it alone


def test_sorted_takes_the_cells_of_most_branches_first():
    forest = mixture()
    widths = packing.level_widths(forest)
    blocks = packing.pack_cells("sorted", forest, widths, 64, 1, False)
    branches = np.diff(forest.trees.branch_offsets)[forest.shape_of_cell[blocks.cells]]
    assert (np.diff(branches) <= 0).all()


def test_best_fit_needs_fewer_blocks():
    # wide on level 1, and wide on level 2: one of each fills a block, two of a kind do not fit
    first, second = star(6), np.array([-1, 0, 0, 1, 1, 2, 2])
    cells = [c for pair in zip([first] * 6, [second] * 6) for c in pair]
    order = [*cells[::2], *cells[1::2]]
    forest = Forest.from_parents([*order, *([chain(2)] * 3)])
    count = {
        how: packing.pack_cells(how, forest, packing.level_widths(forest), 8, 100, False).num_blocks
        for how in packing.PACKINGS
    }
    assert count["best_fit"] <= count["next_fit"]


def test_best_fit_of_very_deep_cells():
    forest = Forest.from_parents([caterpillar(n) for n in (500, 501, 900)] + [star(70), chain(3)])
    blocks = packing.pack_cells("best_fit", forest, packing.level_widths(forest), 16, 9, False)
    assert sorted(blocks.cells) == list(range(5))


# ------------------------------------------------------------------------------------- shifting


@pytest.mark.parametrize(("lanes", "most"), [(4, 3), (16, 20), (64, 1000)])
def test_shifted_branches_stay_below_their_parents_and_within_the_lanes(lanes, most):
    forest = mixture()
    trees = forest.trees
    widths = packing.reach_widths(packing.level_widths(forest))
    blocks = packing.pack_cells("next_fit", forest, widths, lanes, most, True)
    slots = trees, blocks.slot_template, blocks.slot_tree
    level = schedule.shifted_levels(*slots, lanes)
    levels = schedule.branch_levels(*slots, level)
    plain = schedule.branch_levels(*slots)
    of = np.repeat(np.arange(len(levels.width)), levels.width)
    inner = np.flatnonzero(levels.parent >= 0)
    assert (of[inner] > of[levels.parent[inner]]).all()
    assert (levels.slot[inner] == levels.slot[levels.parent[inner]]).all()
    roots = np.flatnonzero(levels.parent < 0)
    start = levels.level_start[blocks.slot_template[levels.slot]]
    assert (of[roots] == start[roots]).all()
    # no level is added, and none is over-full if several cells share a block
    assert np.array_equal(levels.level_start, plain.level_start)
    fits = 0
    for first, end in zip(levels.level_start[:-1], levels.level_start[1:]):
        below = np.cumsum(plain.width[first + 1 : end][::-1])
        if (below <= lanes * np.arange(1, len(below) + 1)).all():  # else one cell is too wide
            assert levels.width[first:end].max() <= lanes
            fits += 1
    assert fits > len(levels.level_start) // 3


def test_shifting_by_hand():
    # root, three leaves and an inner branch with two leaves: widths 1, 4, 2; 3 lanes
    tree = np.array([-1, 0, 0, 0, 0, 4, 4])
    forest = Forest(tree)
    slots = forest.trees, np.array([0]), np.array([0])
    assert schedule.shifted_levels(*slots, 3).tolist() == [0, 1, 1, 2, 1, 2, 2]
    stats = make_plan(forest, "fine", work_group=3, level_shift=True).parts[0].statistics
    plain = make_plan(forest, "fine", work_group=3).parts[0].statistics
    assert (stats["moved_branches"], stats["levels"], plain["levels"]) == (1, 3, 3)
    assert stats["dependent_steps"] < plain["dependent_steps"]


def test_shifting_puts_more_cells_into_a_block():
    forest = mixture()
    for lanes in (8, 32):
        options = {"work_group": lanes, "max_cells": 100}
        plain = make_plan(forest, "fine", **options).parts[0]
        shifted = make_plan(forest, "fine", **options, level_shift=True).parts[0]
        assert shifted.num_groups < plain.num_groups
        assert shifted.statistics["idle_lanes"] < plain.statistics["idle_lanes"]


# --------------------------------------------------------------------------------- local memory


def test_blocks_fit_local_memory():
    forest = Forest.from_parents([*dissimilar(40), chain(900), chain(1100), *([star(30)] * 9)])
    limits = Limits(local_bytes=16 << 10, compute_units=1)
    plan = make_plan(forest, "fine", limits=limits, local=True, max_cells=50)
    small, large = plan.parts
    assert large.tables["cell_number"].tolist() == [41]  # 2,200 values; 2,048 is the limit
    assert large.spec.capacity == 0
    assert 0 < small.spec.capacity * (1 + small.max_rhs) * 8 <= 16 << 10
    assert small.statistics["cells_per_block"] > 1
    with pytest.raises(InputError, match=r"local=True needs 4032 values .* it holds 2048"):
        make_plan(Forest(chain(2000)), "fine", limits=limits, local=True)


def test_vectors_keep_values_unless_told_otherwise():
    forest = Forest.from_parents(dissimilar(9))
    for local, kept in ((None, True), (True, True), (False, False)):
        spec = make_plan(forest, "fine", limits=CPU, local=local).parts[0].spec
        assert spec.template == "solver/by_branch/fine_vector"
        assert (spec.capacity > 0) is kept


# ------------------------------------------------------------------------------------- together


def test_levels_are_shaped_by_work_groups_only():
    forest = Forest.from_parents(dissimilar(9))
    for options, template in [
        ({"split": "mean"}, "solver/by_branch/fine"),
        ({"level_shift": True}, "solver/by_branch/fine"),
        ({"packing": "sorted"}, "solver/by_branch/fine_vector"),
        ({"packing": "best_fit"}, "solver/by_branch/fine_vector"),
    ]:
        plan = make_plan(forest, "fine", limits=CPU, **options)
        assert plan.parts[0].spec.template == template


# ------------------------------------------------- kernels written for a number of levels


def fork(*lengths):
    """Return a root of two nodes with a branch of each length."""
    parent = [-1, 0]
    for length in lengths:
        parent += [1, *range(len(parent), len(parent) + length - 1)]
    return parent


def levels_of(cells, limits=GPU, **options):
    (part,) = make_plan(Forest.from_parents(cells), "fine", "float64", limits, **options).parts
    return part.spec.levels


def test_what_blocks_have_in_common_by_hand():
    """Numbers common to all blocks are in the kernel; it reads the others."""
    alike = levels_of([fork(3, 3)] * 3, max_cells=1)
    assert alike == (Level(1, 0, 2, False, True), Level(2, 2, 3, False, True))
    assert levels_of([fork(3, 2)] * 3, max_cells=1)[1] == Level(2, 2, 0, False, True)
    two = levels_of([fork(3, 3), fork(3, 3, 3), fork(3, 3)], max_cells=1, packing="sorted")
    assert two == (Level(1, 0, 2, False, True), Level(0, 2, 3, False, True))
    shorter = levels_of([fork(3, 3), chain(2), fork(3, 3)], max_cells=1, packing="sorted")
    assert shorter == (Level(1, 0, 2, False, True), Level(0, 2, 3, False, False))
    crowded = levels_of([fork(*[1] * 9)] * 3, max_cells=1, work_group=8)
    assert crowded == (Level(1, 0, 2, False, True), Level(9, 2, 1, True, True))


def test_few_levels_have_kernels_of_their_own():
    for count in (1, 3, MOST_LEVELS):
        cells = [complete_binary(count)] * 4 if count > 1 else [chain(7)] * 4
        assert len(levels_of(cells)) == count
        plan = make_plan(Forest.from_parents(cells), "fine", limits=GPU)
        assert f"kernel            fine, written for {count} level" in plan.describe()
    deep = [caterpillar(60)] * 4
    assert levels_of(deep) == levels_of(deep, work_group=8) == ()
    assert (
        "fine, written for any number of levels"
        in make_plan(Forest.from_parents(deep), "fine", limits=GPU).describe()
    )
    assert levels_of([fork(3, 3)] * 3, CPU, work_group=4) == ()  # no faster there


def test_many_cells_take_large_groups():
    tree = random_binary_tree(64, 15, 1)
    few, many = (Forest.repeat([tree], n) for n in (500, 60_000))
    small, large = (make_plan(f, "fine", limits=GPU).parts[0].spec.work_group for f in (few, many))
    assert (small, large) == (64, LARGE_GROUP)
