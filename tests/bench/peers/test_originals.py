"""Layouts for the originals' kernels: the published algorithms, in NumPy, solve with them."""

import numpy as np
import pytest

from bench import systems
from bench.peers import originals
from clhines import reference

SHAPES = [(7, 40, 9, 3), (30, 64, 11, 6), (1, 200, 31, 1), (40, 60, 3, 64)]


def batch(cells, nodes, branches, shapes):
    """Cells with the values of a system whose couplings of roots are 0."""
    forest = systems.batch(cells, nodes, branches, shapes)
    d, u, b = systems.system(forest)
    u[forest.parent < 0] = 0
    return forest, d, u, b


def assert_solves(forest, d, u, b, gather, solution):
    """The solution in a kernel's order is right: an eps for each operation of a row."""
    x = np.full(forest.num_nodes, np.nan)
    x[gather[gather >= 0]] = solution[gather >= 0]
    children = np.bincount(forest.parent[forest.parent >= 0]).max()
    assert reference.residual(forest, d, u, b, x) < 4 * (children + 4) * np.finfo(float).eps


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("k", [4, 32])
def test_deepdendrite_solves_with_its_layout(shape, k):
    forest, *system = batch(*shape)
    gather, t = originals.deepdendrite_layout(forest, k)
    assert np.array_equal(np.sort(gather), np.arange(forest.num_nodes))
    d, u, b = (a[gather] for a in system)
    most, cells, threads = t["numbers"].tolist()
    warp = np.arange(threads) // originals.WARP * (most + 1)
    least, i = t["least"][:threads], t["last"][:threads].copy()
    for step in range(most, -1, -1):
        on = (step >= least) & (i >= 0)
        here, above = i[on], t["parent"][i[on]]
        p = u[here] / d[here]
        np.add.at(d, above, -p * u[here])
        np.add.at(b, above, -p * b[here])
        i[on] -= t["stride"][warp[on] + step - 1]
    b[:cells] /= d[:cells]
    i = t["first"][:threads].copy()
    for step in range(1, most + 1):
        on = (step >= least) & (i >= 0)
        here = i[on]
        b[here] = (b[here] - u[here] * b[t["parent"][here]]) / d[here]
        i[on] += t["stride"][warp[on] + step]
    assert_solves(forest, *system, gather, b)


@pytest.mark.parametrize("shape", SHAPES)
def test_arbor_solves_with_its_layout(shape):
    forest, *system = batch(*shape)
    gather, t = originals.arbor_layout(forest)
    assert np.array_equal(np.sort(gather[gather >= 0]), np.arange(forest.num_nodes))
    d, u, b = (np.where(gather >= 0, a[gather], 1.0) for a in system)
    assert np.diff(t["index"]).sum() == len(t["meta"])
    for block, cells in enumerate(t["cells"].tolist()):
        levels = t["meta"][t["index"][block] : t["index"][block + 1]].astype(int)
        assert levels[:, 0].max() <= originals.ARBOR_BRANCHES and levels[-1, 0] == cells
        for level, (width, longest, start, data) in enumerate(levels.tolist()):
            lengths = t["lengths"][data : data + width]
            assert lengths[0] == longest == lengths.max()
            for lane, length in enumerate(lengths.tolist()):
                at = start + lane + np.arange(length) * width
                if level + 1 < len(levels):
                    at = np.append(at, levels[level + 1, 2] + t["parents"][data + lane])
                for i, above in zip(at[:-1], at[1:]):
                    p = u[i] / d[i]
                    d[above] -= p * u[i]
                    b[above] -= p * b[i]
        for level in range(len(levels) - 1, -1, -1):
            width, _, start, data = levels[level].tolist()
            for lane, length in enumerate(t["lengths"][data : data + width].tolist()):
                value = 0.0
                if level + 1 < len(levels):
                    value = b[levels[level + 1, 2] + t["parents"][data + lane]]
                for i in start + lane + np.arange(length)[::-1] * width:
                    value = b[i] = (b[i] - u[i] * value) / d[i]
    assert_solves(forest, *system, gather, b)


def test_branches_are_cut_at_the_mean_of_their_level_and_not_too_short():
    forest = systems.batch(6, 200, 9, 6)
    cut = originals.arbor_forest(forest).trees
    level_0 = cut.branch_length[cut.branch_level == 0]
    trees = forest.trees
    mean = trees.branch_length[trees.branch_level == 0].mean()
    assert level_0.max() <= max(int(mean), originals.ARBOR_LEAST)
    assert cut.branch_length.sum() == trees.branch_length.sum()
    assert originals.arbor_forest(systems.chains(2, 9)).trees.branch_length.tolist() == [9]


def test_an_empty_folder_is_a_reason(tmp_path):
    with pytest.raises(originals.MissingError, match=r"no kernel17\.cubin"):
        originals.kernel(tmp_path, "kernel17.cubin")
    (tmp_path / "kernel17.cubin").write_bytes(b"\x7fELF .text._Z5other\0")
    with pytest.raises(originals.MissingError, match="has no kernel kernel17"):
        originals.kernel(tmp_path, "kernel17.cubin")
