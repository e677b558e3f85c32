"""Seeded synthetic trees: valid, with the promised size and shape, equal for equal seeds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import assert_is_ordered_tree, branch_lengths, complete_binary, depths, num_children

from bench.made import caterpillar, chain, number_nodes, random_binary_tree, star
from clhines.core.errors import InputError


def test_small_shapes_by_hand():
    assert chain(4).tolist() == [-1, 0, 1, 2]
    assert star(4).tolist() == [-1, 0, 0, 0]
    assert caterpillar(6).tolist() == [-1, 0, 0, 2, 2, 4]
    assert caterpillar(7).tolist() == [-1, 0, 0, 2, 2, 4, 4]
    assert complete_binary(3).tolist() == [-1, 0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("n", [3, 10, 101])
def test_degrees_of_shapes(n):
    for shape in (chain, star, caterpillar):
        assert shape(n).dtype == np.int32
        assert_is_ordered_tree(shape(n))
    assert num_children(chain(n)).tolist() == [1] * (n - 1) + [0]
    assert num_children(star(n)).tolist() == [n - 1] + [0] * (n - 1)
    children = num_children(caterpillar(n))
    assert not children[1::2].any()  # leaves
    assert (children[0 : n - 2 : 2] == 2).all()  # spine
    assert children[(n - 1) // 2 * 2] == 1 - n % 2  # its last node


@pytest.mark.parametrize("shape", [chain, star, caterpillar])
@pytest.mark.parametrize("bad", [0, -1, 2.5, "3", None])
def test_shapes_refuse_bad_sizes(shape, bad):
    with pytest.raises(InputError, match="expected a whole number, 1 or more"):
        shape(bad)


def test_the_standard_benchmark_trees():
    shapes = set()
    for seed in range(300):
        parent = random_binary_tree(512, 50, seed)
        assert parent.dtype == np.int32
        assert parent.shape == (512,)
        assert_is_ordered_tree(parent)
        children = num_children(parent)
        assert children[0] == 3
        assert children[1:].max() == 2
        lengths = branch_lengths(parent)
        assert lengths.size == 50
        assert lengths[0] == 1
        assert lengths[1:].min() >= 2
        shapes.add(parent.tobytes())
        if seed < 3:
            assert np.array_equal(parent, random_binary_tree(512, 50, seed))
    assert len(shapes) == 300


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 300), st.integers(1, 120), st.integers(0, 2**32), st.integers(1, 6))
def test_sizes_are_exact_and_branches_nearly(num_nodes, num_branches, seed, stems):
    parent = random_binary_tree(num_nodes, num_branches, seed, stems)
    assert parent.shape == (num_nodes,)
    assert_is_ordered_tree(parent)
    children = num_children(parent)
    assert children[0] <= stems
    assert num_nodes == 1 or children[1:].max() <= 2
    lengths = branch_lengths(parent)
    wanted = min(num_branches, num_nodes if stems > 1 else max(num_nodes - 1, 1))
    feasible = wanted % 2 == 1 or (stems >= 3 and wanted >= 4)
    assert lengths.size == (wanted if feasible else wanted - 1)
    if children[0] > 1 and num_nodes - 1 >= 2 * (lengths.size - 1):
        assert lengths[1:].min() >= 2


def test_lengths_and_depths_vary():
    lengths = np.concatenate(
        [branch_lengths(random_binary_tree(512, 50, s))[1:] for s in range(50)]
    )
    assert abs(lengths.mean() - 511 / 49) < 1e-9
    assert 4 < lengths.std() < 15  # random cuts: close to the mean of lengths above two
    assert len({depths(random_binary_tree(512, 50, s)).max() for s in range(50)}) > 20


@pytest.mark.parametrize("arguments", [(0, 1, 0), (5, 0, 0), (5, 3, 0, 0), (5.0, 3, 0)])
def test_random_binary_tree_refuses(arguments):
    with pytest.raises(InputError, match="expected a whole number, 1 or more"):
        random_binary_tree(*arguments)


@pytest.mark.parametrize("soma", [0, 1, 3])
def test_nodes_are_numbered_branch_by_branch(soma):
    rng = np.random.default_rng(soma)
    lengths = rng.integers(1, 6, 12)
    above = np.array([-1, *(rng.integers(0, k) for k in range(1, 12))])
    parent, last = list(range(-1, soma - 1)), []
    for length, branch in zip(lengths, above):
        hangs = soma - 1 if branch < 0 else last[branch]
        for _ in range(length):
            parent.append(hangs)
            hangs = len(parent) - 1
        last.append(hangs)
    assert number_nodes(above, lengths, soma).tolist() == parent
