"""Other roots: the trees, and the new places of entries between nodes."""

import doctest

import numpy as np
import pytest
from systems import dissimilar, families, make_system

from bench.made import chain, random_binary_tree, star
from clhines import Forest, InputError, make_plan, reroot
from clhines.solver import reference

pytestmark = pytest.mark.core


def eccentricities(parent):
    """Return each node's number of edges to the farthest node, by a walk from each."""
    near = [[] for _ in parent]
    for i, p in enumerate(parent):
        if p >= 0:
            near[i].append(p)
            near[p].append(i)
    distances = []
    for start in range(len(parent)):
        distance, queue = {start: 0}, [start]
        for a in queue:
            for b in near[a]:
                if b not in distance:
                    distance[b] = distance[a] + 1
                    queue.append(b)
        distances.append(max(distance.values()))
    return distances


@pytest.mark.parametrize("name", families())
def test_roots_are_in_the_middle(name):
    cells = [*families()[name], *dissimilar(4)]
    forest = Forest.from_parents(cells)
    rerooted = reroot(forest)
    again = Forest(rerooted.forest.parent, forest.cell_offsets)  # checks for trees
    assert (rerooted.forest.heights == again.heights).all()
    for c, parent in enumerate(cells):
        here = slice(*forest.cell_offsets[c : c + 2])
        far = eccentricities(parent)
        (root,) = np.flatnonzero(again.parent[here] < 0)
        assert again.heights[c] == min(far) + 1
        shape = forest.shape_of_cell[c]
        depth = forest.trees.depth[slice(*forest.trees.offsets[shape : shape + 2])]
        middle = [k for k, e in enumerate(far) if e == min(far)]
        assert root == min(middle, key=depth.__getitem__)
        assert rerooted.moved[shape] == (forest.parent[here][root] >= 0)


def test_edges_are_the_same_edges():
    forest = Forest.from_parents(dissimilar(20) + families()["few_shapes"])
    rerooted = reroot(forest)
    parent, edge = rerooted.forest.parent, rerooted.edge
    nodes = np.arange(forest.num_nodes)
    roots = parent < 0
    assert (edge[roots] == -1).all()
    same = edge == nodes
    assert (parent[same] == forest.parent[same]).all()
    turned = ~same & ~roots
    assert turned.any()
    assert (parent[turned] == edge[turned]).all()
    assert (forest.parent[edge[turned]] == nodes[turned]).all()
    assert (rerooted.turned == turned).all()


@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "unsymmetric"])
def test_the_matrix_of_every_cell_is_the_same(symmetric):
    """Compare every matrix entry, and solutions of LAPACK with a dense matrix and `reference`."""
    forest = Forest.from_parents([*dissimilar(20), chain(1), chain(6), star(5)])
    new = reroot(forest)
    system = make_system(forest, symmetric=symmetric)
    kept = system.copy()
    moved = new.couplings(system.u, system.l)
    assert list(moved) == (["u"] if symmetric else ["u", "l"])
    assert np.array_equal(system.u, kept.u)
    assert all((a[new.forest.parent < 0] == 0).all() for a in moved.values())
    x = reference.solve_serial(new.forest, system.d, b=system.b, **moved)
    system.assert_solved(x)
    for cell in range(forest.num_cells):
        old = reference.dense(forest, system.d, system.u, system.l, cell)
        assert np.array_equal(reference.dense(new.forest, system.d, **moved, cell=cell), old)
        nodes = slice(*forest.cell_offsets[cell : cell + 2])
        truth = np.linalg.solve(old, system.b[nodes])
        # rows are dominant by 0.5, so |inverse| <= 2; |A| <= 2 max d; one rounding per entry
        bound = 4 * old.diagonal().max() * len(old) * np.finfo(float).eps * np.abs(truth).max()
        assert np.abs(x[nodes] - truth).max() <= bound


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_couplings_keep_their_dtype(dtype):
    new = reroot(Forest(chain(4)))
    u, l = np.arange(4, dtype=dtype), np.arange(10, 14, dtype=dtype)
    moved = new.couplings(u, l)
    assert [a.dtype for a in moved.values()] == [dtype, dtype]
    assert moved["u"].tolist() == [11, 0, 2, 3]
    assert moved["l"].tolist() == [1, 0, 12, 13]
    assert new.couplings(u)["u"].tolist() == [1, 0, 2, 3]


def test_what_cannot_be_rerooted_is_refused():
    new = reroot(Forest(chain(4)))
    u = np.ones(4)
    for arguments, words in [
        ((u[:3],), r"u has shape \(3,\); expected \(4,\)"),
        ((u, np.ones((2, 4))), r"l has shape \(2, 4\); expected \(4,\)"),
        ((u * 1j,), "u has dtype complex128; expected real numbers"),
        ((u, np.ma.masked_equal([1, 2, 3, 4], 2)), "l has 1 masked values"),
    ]:
        with pytest.raises(InputError, match=words):
            new.couplings(*arguments)
    with pytest.raises(InputError, match="forest is ndarray; expected a clhines.Forest"):
        reroot(chain(4))
    with pytest.raises(InputError, match="option 'reroot' is not one of method 'fine'"):
        make_plan(Forest(chain(4)), "fine", reroot=True)


def test_roots_that_are_in_the_middle_stay():
    new = reroot(Forest.from_parents([star(4), chain(4)]))
    assert new.moved.tolist() == [False, True]
    again = reroot(new.forest)
    assert not again.moved.any() and not again.turned.any()
    assert np.array_equal(again.forest.parent, new.forest.parent)


def test_the_example_of_the_docstring():
    test = doctest.DocTestFinder().find(reroot, globs={"np": np})[0]
    result = doctest.DocTestRunner().run(test)
    assert result.attempted == len(test.examples) > 0 and not result.failed


def test_many_nodes_are_rerooted_at_once():
    n = 200_000
    forest = Forest.from_parents([chain(n), random_binary_tree(n, 20_001, 1)])
    assert reroot(forest).forest.heights[0] == n // 2 + 1
