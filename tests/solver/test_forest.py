"""Forests: every error of the contract, and the structure against a slow loop in Python."""

import time

import numpy as np
import pytest
from systems import children_first, dissimilar, families, renumbered
from trees import complete_binary

from bench.made import chain, random_binary_tree, star
from clhines import ClhinesError, Forest, ForestError

pytestmark = pytest.mark.core

# ---------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("parent", "offsets", "words"),
    [
        ([-1, 0, 7], None, "cell 0, node 2: parent 7 is out of range; expected -1 or 0 to 2"),
        ([-1, 0, -2], None, "cell 0, node 2: parent -2 is out of range"),
        ([-1, 0, -1, 9], [0, 2, 4], "cell 1, node 3: parent 9 is out of range; .* 2 to 3"),
        ([-1, 0, -1, 1], [0, 2, 4], "cell 1, node 3: parent 1 lies in cell 0; .* 2 to 3"),
        ([-1, 2, -1, 2], [0, 2, 4], "cell 0, node 1: parent 2 lies in cell 1; .* 0 to 1"),
        ([-1, 0, 1, -1, 5, 0], [0, 3, 6], "cell 1, node 5: parent 0 lies in cell 0"),
        ([-1, 2, 1], None, "cell 0, node 1: .*cycle"),
        ([-1, 1], None, "cell 0, node 1: .*cycle"),
        ([-1, 0, -1, 5, 3, 4], [0, 2, 6], "cell 1, node 3: .*cycle"),
        ([-1, 2, 3, 1, 3, 3], None, "cell 0, node 1: .*cycle"),
        ([-1, 0, -1], None, r"cell 0 has 2 roots \(nodes 0, 2\); expected one"),
        ([-1, -1, -1, -1, -1], [0, 1, 5], r"cell 1 has 4 roots \(nodes 1, 2, 3, \.\.\.\)"),
        ([0, 0], None, "cell 0 has no root"),
        ([-1, 2, 1], [0, 1, 3], "cell 1 has no root"),
        ([-1, 0], [0, 0, 2], r"cell 0 is empty: cell_offsets\[0\] = 0, cell_offsets\[1\] = 0"),
        ([-1, 0], [0, 2, 2], "cell 1 is empty"),
        ([-1, -1], [0, 2, 1, 2], "cell 1 has decreasing offsets"),
        ([-1, 0], [0, 3], "cell_offsets runs from 0 to 3; expected 0 to 2"),
        ([-1, 0], [1, 2], "cell_offsets runs from 1 to 2; expected 0 to 2"),
        ([-1, 0], [0], "cell_offsets has 1 entries; expected at least 2"),
        ([], None, "cell 0 is empty"),
        ([], [], "cell_offsets has 0 entries"),
        ([-1.0, 0.0], None, "parent has dtype float64; expected an integer dtype"),
        ([-1.0, np.nan], None, r"parent\[1\] is NaN"),
        ([-1, 0], [0.0, 2.0], "cell_offsets has dtype float64"),
        ([-1, 0], [0, np.nan], r"cell_offsets\[1\] is NaN"),
        ([True, False], None, "parent has dtype bool"),
        (["a", "b"], None, "parent has dtype <U1"),
        ([[-1, 0]], None, "parent has 2 dimensions; expected 1"),
        (-1, None, "parent has 0 dimensions"),
        ([-1, 0], [[0, 2]], "cell_offsets has 2 dimensions"),
    ],
)
def test_error_says_what_and_where(parent, offsets, words):
    offsets = None if offsets is None else np.array(offsets, dtype=None if offsets else np.int64)
    with pytest.raises(ForestError, match=words) as caught:
        Forest(np.array(parent), offsets)
    assert isinstance(caught.value, ClhinesError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("parents", "words"),
    [
        ([[-1, 0], [-1, 2]], "cell 1, node 1: parent 2 is out of range; expected -1 or 0 to 1"),
        ([[-1, 0], [-3]], "cell 1, node 0: parent -3 is out of range"),
        ([[-1], [-1, 0.5]], "parent of cell 1 has dtype float64"),
        ([[-1], [-1, np.nan]], r"parent of cell 1\[1\] is NaN"),
        ([[-1], []], "cell 1 is empty"),
        ([], "cell_offsets has 1 entries"),
    ],
)
def test_error_of_cells_given_one_by_one(parents, words):
    with pytest.raises(ForestError, match=words):
        Forest.from_parents([np.array(p) for p in parents])


@pytest.mark.parametrize("parents", [[-1, 0], np.array([-1, 0]), [[[-1, 0]]]])
def test_one_tree_without_its_list_is_rejected(parents):
    with pytest.raises(ForestError, match=r"expected a list of arrays, .*: \[parent\]"):
        Forest.repeat(parents, 3)


def test_the_first_cell_of_a_broken_shape_is_named():
    good, bad = [-1, 0, 1], [-1, 2, 1]
    with pytest.raises(ForestError, match=r"cell 2, node 7: .*cycle"):
        Forest.from_parents([good, good, bad, good, bad])


def test_one_broken_cell_among_many_is_found():
    parent = np.tile(chain(50), 200) + np.repeat(np.arange(200) * 50, 50)
    parent[::50] = -1
    offsets = np.arange(0, 10001, 50)
    assert Forest(parent, offsets).trees.num_trees == 1
    parent[7777] = 7778  # and 7778 has parent 7777
    with pytest.raises(ForestError, match=r"cell 155, node 777[78]: .*cycle"):
        Forest(parent, offsets)
    parent[7777] = 3
    with pytest.raises(ForestError, match="cell 155, node 7777: parent 3 lies in cell 0"):
        Forest(parent, offsets)
    parent[7777] = -1
    with pytest.raises(ForestError, match=r"cell 155 has 2 roots \(nodes 7750, 7777\)"):
        Forest(parent, offsets)


def test_large_parents_do_not_wrap_around():
    for value in (2**62, -(2**62), 2**31 + 1, 2**32):
        with pytest.raises(ForestError, match=f"cell 0, node 1: parent {value} is out of range"):
            Forest(np.array([-1, value], np.int64))
    with pytest.raises(ForestError, match="cell 1, node 2: parent 127 is out of range"):
        Forest(np.array([-1, 0, 127, -1], np.int8), np.array([0, 2, 4]))


# ---------------------------------------------------------------------------------- contents


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_integer_dtypes(dtype):
    forest = Forest(np.array([-1, 0, 1, 1, -1, 4], dtype), np.array([0, 4, 6], dtype))
    assert forest.sizes.tolist() == [4, 2]
    assert forest.num_nodes == 6
    assert forest.heights.tolist() == [3, 2]


def test_lists_unsigned_offsets_and_views():
    parent = np.array([-1, 99, 0, 99, 1, 99])
    forest = Forest(parent[::2], np.array([0, 3], np.uint64))
    assert forest.parent.tolist() == [-1, 0, 1]
    assert forest.heights.tolist() == [3]
    assert Forest([-1, 0]).sizes.tolist() == [2]


def test_the_example_of_the_report_by_hand():
    #      0 - 1 - 2 -+- 3 - 4        a root branch, two branches, one of them forks
    #                 +- 5 - 6 -+- 7
    #                           +- 8 - 9
    forest = Forest(np.array([-1, 0, 1, 2, 3, 2, 5, 6, 6, 8]))
    trees = forest.trees
    assert trees.branch_first.tolist() == [0, 3, 5, 7, 8]
    assert trees.branch_length.tolist() == [3, 2, 2, 1, 2]
    assert trees.branch_parent.tolist() == [-1, 0, 0, 2, 2]
    assert trees.branch_level.tolist() == [0, 1, 1, 2, 2]
    assert trees.branch_of_node.tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 4, 4]
    assert trees.position.tolist() == [0, 1, 2, 0, 1, 0, 1, 0, 0, 1]
    assert trees.depth.tolist() == [0, 1, 2, 3, 4, 3, 4, 5, 5, 6]
    assert trees.order.tolist() == list(range(10))
    assert forest.heights.tolist() == [7]
    assert trees.num_levels.tolist() == [3]
    assert forest.num_branches == 5
    assert repr(forest) == "Forest(1 cell, 10 nodes, 1 distinct shape)"


def naive_structure(parent):
    """Return depth, branch head, position and level of every node, by walks to the root."""
    parent = [int(p) for p in parent]
    children = [parent.count(i) for i in range(len(parent))]
    depth, head, position, level = [], [], [], []
    for i in range(len(parent)):
        path = [i]
        while parent[path[-1]] >= 0:
            path.append(parent[path[-1]])
        heads = [v for v in path if parent[v] < 0 or children[parent[v]] != 1]
        depth.append(len(path) - 1)
        head.append(heads[0])
        position.append(path.index(heads[0]))
        level.append(len(heads) - 1)
    return depth, head, position, level


@pytest.mark.parametrize("name", families())
def test_structure_against_the_oracle(name):
    forest = Forest.from_parents(families()[name])
    trees = forest.trees
    for cell in range(forest.num_cells):
        lo, hi = forest.cell_offsets[cell : cell + 2]
        local = np.where(forest.parent[lo:hi] < 0, -1, forest.parent[lo:hi] - lo)
        depth, head, position, level = naive_structure(local)
        s = forest.shape_of_cell[cell]
        start, stop = trees.offsets[s : s + 2]
        here = slice(start, stop)
        assert np.array_equal(
            np.where(trees.parent[here] < 0, -1, trees.parent[here] - start), local
        )
        assert trees.depth[here].tolist() == depth
        assert trees.position[here].tolist() == position
        branch = trees.branch_of_node[here]
        assert (trees.branch_first[branch] - start).tolist() == head
        assert trees.branch_level[branch].tolist() == level
        assert (trees.branch_tree[branch] == s).all()
        assert forest.heights[cell] == max(depth) + 1
        assert trees.num_levels[s] == max(level) + 1
        inside = slice(*trees.branch_offsets[s : s + 2])
        assert sorted(trees.branch_first[inside] - start) == sorted(set(head))
        assert trees.branch_length[inside].sum() == hi - lo
        levels, firsts = trees.branch_level[inside], trees.branch_first[inside]
        assert np.array_equal(np.lexsort((firsts, levels)), np.arange(len(levels)))
        order = trees.order[here]
        assert sorted(order) == list(range(start, stop))
        assert np.array_equal(trees.order[trees.rank[here]], np.arange(start, stop))
        assert (trees.rank[here][local >= 0] > trees.rank[start + local[local >= 0]]).all()
        for rank in (0, len(order) - 1):
            assert forest.node_index(cell, rank) == order[rank] - start + lo
    assert forest.num_branches == sum(len(set(naive_structure(p)[1])) for p in families()[name])
    assert not trees.on_cycle.any()


def test_branches_are_walked_from_the_root_outwards():
    forest = Forest.from_parents(dissimilar(20))
    trees = forest.trees
    above = trees.parent[trees.order]
    inside = trees.position[trees.order] > 0
    assert inside.any()
    assert np.array_equal(above[inside], trees.order[np.flatnonzero(inside) - 1])


def test_children_before_parents_are_the_same_tree():
    tree = random_binary_tree(200, 31, 4)
    first, last = Forest(tree), Forest(children_first(tree))
    assert last.parent[-1] == -1
    assert (last.parent[:-1] > np.arange(199)).all()
    assert first.heights.tolist() == last.heights.tolist()
    assert sorted(first.trees.branch_length) == sorted(last.trees.branch_length)
    assert np.array_equal(last.trees.depth, first.trees.depth[::-1])


# -------------------------------------------------------------------------- distinct shapes


def test_identical_cells_share_a_shape():
    a, b, c = chain(5), star(5), complete_binary(3)
    forest = Forest.from_parents([b, a, b, c, a, a, c])
    assert forest.shape_of_cell.tolist() == [0, 1, 0, 2, 1, 1, 2]
    assert forest.trees.num_trees == 3
    assert forest.trees.sizes.tolist() == [5, 5, 7]
    assert forest.num_nodes == 39
    assert forest.num_branches == 3 * 1 + 2 * 5 + 2 * 7


def test_the_same_tree_numbered_otherwise_is_another_shape():
    rng = np.random.default_rng(3)
    tree = random_binary_tree(40, 9, 1)
    forest = Forest.from_parents([tree, renumbered(tree, rng), tree])
    assert forest.shape_of_cell.tolist() == [0, 1, 0]


def test_hash_collisions_do_not_merge_shapes(monkeypatch):
    class Constant:
        def integers(self, low, high, size):
            return np.zeros(size, np.int64)

    cells = [chain(6), star(6), chain(6), chain(7), star(6), complete_binary(3), star(7), chain(7)]
    expected = Forest.from_parents(cells).shape_of_cell.tolist()
    assert expected == [0, 1, 0, 2, 1, 3, 4, 2]
    monkeypatch.setattr(np.random, "default_rng", lambda seed: Constant())
    result = Forest.from_parents(cells)  # all cells of one size now share a hash
    owner = {}
    for cell, shape in zip(cells, result.shape_of_cell.tolist(), strict=True):
        assert owner.setdefault(shape, cell.tolist()) == cell.tolist()


def test_a_part_of_the_cells():
    cells = dissimilar(9)
    part = Forest.from_parents(cells).subset(np.arange(3, 7))
    alone = Forest.from_parents(cells[3:7])
    assert np.array_equal(part.parent, alone.parent)
    assert np.array_equal(part.cell_offsets, alone.cell_offsets)


# ------------------------------------------------------------------------------------ large


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_chain_of_a_million_nodes_is_quick(shuffled):
    parent = chain(10**6).astype(np.int64)
    if shuffled:
        parent = renumbered(parent, np.random.default_rng(0))
    begin = time.perf_counter()
    forest = Forest(parent)
    assert forest.heights.tolist() == [10**6]
    assert forest.num_branches == 1
    assert time.perf_counter() - begin < 20  # a loop over pointers per node takes days


def test_a_cycle_of_a_million_nodes_is_found():
    parent = np.arange(1, 10**6 + 1)
    parent[-2], parent[-1] = 0, -1
    with pytest.raises(ForestError, match=r"cell 0, node 0: .*cycle"):
        Forest(parent)


def test_a_star_of_a_million_nodes():
    forest = Forest(star(10**6))
    assert forest.num_branches == 10**6
    assert forest.heights.tolist() == [2]


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_small_integers_hold_many_cells(dtype):
    """Offsets beyond the range of the parents' dtype must not wrap."""
    assert Forest(np.full(300, -1, dtype), np.arange(301)).num_cells == 300


def test_unsigned_numbers_do_not_wrap_round():
    with pytest.raises(ForestError, match="no root"):
        Forest(np.zeros(2, np.uint8))
    with pytest.raises(ForestError, match="parent holds 18446744073709551615"):
        Forest(np.array([2**64 - 1, 0], np.uint64))


def test_ragged_and_empty_arguments():
    for parents in ([[0], [1, 2]], [np.array([-1]), np.array([-1, 0])], ([-1, 0], [-1, 0])):
        with pytest.raises(ForestError, match=r"several arrays; expected one, or Forest.from_par"):
            Forest(parents)
    said = r"lies in cell 0; .* 2 to 3 \(Forest.from_parents counts from 0 in each cell\)"
    with pytest.raises(ForestError, match=said):
        Forest([-1, 0, -1, 0], [0, 2, 4])
    with pytest.raises(ForestError, match="expected 1 or more"):
        Forest.repeat([np.array([-1])], 0)


def test_the_callers_arrays_are_copied():
    """A forest and the arrays derived from it stay when the caller changes the arguments."""
    parent, offsets = np.array([-1, 0, 1, 1, -1, 4], np.int64), np.array([0, 4, 6], np.int64)
    forest = Forest(parent, offsets)
    parents, bounds = parent.copy(), offsets.copy()
    parent[:], offsets[:] = -1, 0
    for made in (forest, forest.subset([0, 1]), forest.subset([1, 0]).subset([1, 0])):
        assert np.array_equal(made.parent, parents)
        assert np.array_equal(made.cell_offsets, bounds)
        for a in (made.parent, made.cell_offsets, made.shape_of_cell, made.trees.parent):
            with pytest.raises(ValueError, match="read-only"):
                a[0] = 0
    shapes = np.array([0, 0, 1])
    of_trees = Forest.from_trees(forest.trees, shapes)
    shapes[:] = 1
    assert of_trees.shape_of_cell.tolist() == [0, 0, 1]


def test_masked_arrays_are_refused():
    masked = np.ma.masked_array([-1, 0, 1], [0, 1, 0])
    with pytest.raises(ForestError, match="parent has 1 masked values; expected none"):
        Forest(masked)
    with pytest.raises(ForestError, match="parent of cell 1 has 1 masked values"):
        Forest.from_parents([[-1], masked])


def test_copies_of_a_forest_are_those_of_its_cells():
    once = Forest.from_parents([[-1, 0, 1], [1, -1], [-1, 0, 1]])
    copies, cells = once.copied(3), [[-1, 0, 1], [1, -1], [-1, 0, 1]]
    expected = Forest.from_parents(cells * 3)
    for name in ("parent", "cell_offsets", "shape_of_cell"):
        np.testing.assert_array_equal(getattr(copies, name), getattr(expected, name))
    assert copies.trees is once.trees
