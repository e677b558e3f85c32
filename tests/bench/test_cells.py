"""Random cells of the ring network: the promised shape, equal for equal seeds."""

import dataclasses

import numpy as np
import pytest
from trees import assert_is_ordered_tree, depths, num_children

from bench.cells import ring_cell
from clhines.simulator.cells.morphology import Morphology


def edges(cell):
    return cell.xyz[1:] - cell.xyz[cell.parent[1:]]


def assert_is_sound_cell(cell):
    n = cell.parent.size
    assert cell.xyz.shape == (n, 3)
    assert cell.radius.shape == cell.type.shape == cell.id.shape == cell.line.shape == (n,)
    assert cell.parent.dtype == cell.type.dtype == cell.id.dtype == cell.line.dtype == np.int64
    assert cell.xyz.dtype == cell.radius.dtype == np.float64
    assert_is_ordered_tree(cell.parent)
    assert cell.id.tolist() == list(range(1, n + 1))
    assert not cell.line.any()
    assert cell.type.tolist() == [1] + [3] * (n - 1)
    assert np.isfinite(cell.xyz).all()
    assert (cell.radius > 0).all()
    assert (np.linalg.norm(edges(cell), axis=1) > 0).all()


def test_ring_cell_by_hand():
    cell = ring_cell(2, 1.0, 2, seed=1, branch_lengths=(100.0, 40.0), radii=(2.0, 1.0))
    assert_is_sound_cell(cell)
    # soma, stem (three samples: the first on the soma), two children of two samples
    assert cell.parent.tolist() == [-1, 0, 1, 2, 3, 4, 3, 6]
    length = np.linalg.norm(edges(cell), axis=1)
    assert length == pytest.approx([6.3, 50, 50, 20, 20, 20, 20], rel=1e-12)
    assert cell.radius == pytest.approx([6.3, 2, 1.75, 1.5, 1.25, 1, 1.25, 1])
    assert cell.xyz[0].tolist() == [0, 0, 0]
    assert np.linalg.norm(cell.xyz[1]) == pytest.approx(6.3)


@pytest.mark.parametrize("seed", range(6))
def test_lengths_and_radii_of_every_level(seed):
    levels, c = 6, 3
    cell = ring_cell(levels, 0.5, c, seed, stems=3)
    assert_is_sound_cell(cell)
    length = np.linalg.norm(edges(cell), axis=1)
    depth = depths(cell.parent)[1:]  # 1 on the soma, then c per level
    assert length[depth == 1] == pytest.approx(6.3, rel=1e-12)
    for level, want in enumerate(np.linspace(200, 20, levels)):
        here = (depth > 1 + level * c) & (depth <= 1 + (level + 1) * c)
        assert here.any()
        assert length[here] == pytest.approx(want / c, rel=1e-10)
    assert depth.max() == 1 + levels * c
    tips = num_children(cell.parent) == 0
    assert set(depth[tips[1:]].tolist()) == {1 + levels * c}  # a branch goes on to the last level
    assert cell.radius[tips] == pytest.approx(0.25)
    assert (np.diff(cell.radius[1:][np.argsort(depth, kind="stable")]) < 1e-12).all()


@pytest.mark.parametrize(("p", "branches"), [(0.0, [1] * 5), (1.0, [1, 2, 4, 8, 16])])
def test_sure_branching(p, branches):
    cell = ring_cell(5, p, 1, seed=0)
    # one sample a branch, so level k is depth k + 2, after the soma and its surface
    assert np.bincount(depths(cell.parent)).tolist() == [1, 1, *branches]


def test_one_probability_a_level():
    cell = ring_cell(4, [1.0, 0.0, 1.0], 1, seed=0)
    assert np.bincount(depths(cell.parent)).tolist() == [1, 1, 1, 2, 2, 4]
    same = ring_cell(4, [1.0, 0.0, 1.0, 0.3], 1, seed=0)
    assert same.parent.tolist() == cell.parent.tolist()


def test_branching_happens_with_its_probability():
    # 2,000 cells, each 1 + 1.4 + 1.96 tips on average at the third level; sigma is 0.9 per cell
    tips = [(num_children(ring_cell(3, 0.4, 1, s).parent) == 0).sum() for s in range(2000)]
    assert abs(np.mean(tips) - 1.4**2) < 4 * 0.9 / np.sqrt(2000)
    assert set(tips) == {1, 2, 3, 4}


def test_the_tree_does_not_depend_on_the_number_of_samples_a_branch():
    forks = [(num_children(ring_cell(6, 0.5, c, 11).parent) == 2).sum() for c in (1, 2, 7)]
    assert forks[0] > 0
    assert forks == [forks[0]] * 3


def test_branches_spread_in_space():
    cell = ring_cell(7, 0.6, 3, seed=2, stems=5)
    assert (np.linalg.svd(cell.xyz - cell.xyz.mean(axis=0))[1] / np.sqrt(cell.id.size) > 50).all()
    stems = cell.xyz[cell.parent == 0] / 6.3
    cosines = (stems @ stems.T)[np.triu_indices(5, 1)]
    assert cosines.max() < np.cos(np.radians(40))
    direction = np.zeros_like(cell.xyz)
    direction[1:] = edges(cell) / np.linalg.norm(edges(cell), axis=1, keepdims=True)
    forks = np.flatnonzero(num_children(cell.parent) == 2)
    assert forks.size > 10
    for fork in forks:
        one, two = np.flatnonzero(cell.parent == fork)
        for child in (one, two):
            angle = np.degrees(np.arccos(direction[child] @ direction[fork]))
            assert 25 - 1e-6 < angle < 55 + 1e-6
        assert np.degrees(np.arccos(direction[one] @ direction[two])) > 50 - 1e-6


def test_ring_cells_are_seeded():
    same = ring_cell(6, 0.5, 4, np.random.default_rng(7))
    assert np.array_equal(same.xyz, ring_cell(6, 0.5, 4, 7).xyz)
    first, again, other = (ring_cell(6, 0.5, 4, s) for s in (7, 7, 8))
    for field in dataclasses.fields(Morphology):
        assert np.array_equal(getattr(first, field.name), getattr(again, field.name)), field.name
    assert not np.array_equal(first.xyz, other.xyz)
    assert len({ring_cell(6, 0.5, 1, s).parent.tobytes() for s in range(30)}) > 20
