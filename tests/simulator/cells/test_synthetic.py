"""Seeded synthetic trees: valid, with the promised size and shape, equal for equal seeds."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import complete_binary

from bench.made import caterpillar, chain, random_binary_tree, star
from clhines import Network, Simulation, discretise, read_swc
from clhines.core.errors import InputError
from clhines.simulator.cells.morphology import Morphology
from clhines.simulator.cells.synthetic import ring_cell, sample_cells, sample_swc


def assert_is_ordered_tree(parent):
    assert parent.ndim == 1
    assert parent[0] == -1
    assert (parent[1:] >= 0).all()
    assert (parent[1:] < np.arange(1, parent.size)).all()


def num_children(parent):
    return np.bincount(parent[1:], minlength=parent.size)


def branch_lengths(parent):
    """Return the sizes of maximal chains, which begin at the root and below forks."""
    children = num_children(parent)
    begins = np.ones(parent.size, dtype=bool)
    begins[1:] = children[parent[1:]] > 1
    branch = np.cumsum(begins) - 1
    for k in np.flatnonzero(~begins):
        branch[k] = branch[parent[k]]
    return np.bincount(branch)


def depths(parent):
    depth = np.zeros(parent.size, dtype=int)
    for k in range(1, parent.size):
        depth[k] = depth[parent[k]] + 1
    return depth


# --------------------------------------------------------------------------- fixed shapes


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


# -------------------------------------------------------------------- trees with a given size


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


# ------------------------------------------------------------------------- ring-network cells


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"levels": 0}, "levels is 0"),
        ({"levels": 2.5}, "levels is 2.5"),
        ({"compartments": 0}, "compartments is 0"),
        ({"stems": 0}, "stems is 0"),
        ({"branching_probability": -0.1}, "branching_probability is -0.1"),
        ({"branching_probability": float("nan")}, "branching_probability is nan"),
        ({"compartments": 2**30}, f"a tree of .* nodes, expected at most {2**31 - 1}"),
        ({"branching_probability": [0.5] * 3}, "branching_probability has shape"),
        ({"branch_lengths": (200.0, 0.0)}, "branch_lengths is .* expected 2 positive numbers"),
        ({"branch_lengths": 200.0}, "branch_lengths is 200.0"),
        ({"radii": (float("nan"), 1.0)}, "radii is"),
        ({"soma_radius": 0.0}, "soma_radius is .* expected a positive number"),
        ({"seed": "x"}, "seed is 'x'"),
    ],
)
def test_ring_cell_refuses(change, message):
    good = {"levels": 5, "branching_probability": 0.5, "compartments": 4, "seed": 0}
    assert_is_sound_cell(ring_cell(**good))
    with pytest.raises(InputError, match=message):
        ring_cell(**{**good, **change})


def test_sample_cells():
    cells = sample_cells()
    assert len(cells) == 6
    for cell in cells:
        assert_is_sound_cell(cell)
        assert 200 <= cell.id.size <= 900
        assert (num_children(cell.parent) > 1).sum() > 5
    assert len({cell.parent.tobytes() for cell in cells}) == 6
    assert len({cell.name for cell in cells}) == 6
    for cell, again in zip(cells, sample_cells(), strict=True):
        assert np.array_equal(cell.xyz, again.xyz)
        assert np.array_equal(cell.parent, again.parent)


@pytest.mark.parametrize("path", sample_swc(), ids=lambda path: path.stem)
def test_sample_files(path):
    """Each cell has the documented number of samples, and fires while a current flows."""
    cell = read_swc(path)
    assert f"{len(cell.parent)} samples" in " ".join(sample_swc.__doc__.split())

    cable = discretise(cell)
    for amp in (0.2, 1.0):
        net = Network(cable)
        net.insert("hh", at="soma", gnabar=0.5, gkbar=0.1)
        net.insert("pas", at="dendrites", g=1e-4, e=-65.0)
        net.add("iclamp", at=net.soma, delay=5.0, dur=100.0, amp=amp)
        net.threshold = -20.0
        times = Simulation(net, dt=0.025).run(120.0).spike_time
        gaps = np.diff(times)
        assert len(times) > 3 and times[-1] < 110.0  # not after the current
        assert 105.0 - times[-1] < gaps[-1] + 5.0 and gaps.min() > 2.0
