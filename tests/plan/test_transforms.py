"""Other roots: the trees, the maps, and every way in and out of a solver."""

import numpy as np
import pyopencl.array as cla
import pytest
from systems import dissimilar, families, make_system
from test_solver import on_device

from clhines import (
    Forest,
    InputError,
    PivotError,
    Solver,
    discretise,
    make_plan,
    reference,
    sample_cells,
)
from clhines.cells.shapes import chain, random_binary_tree, star
from clhines.plan import transforms
from clhines.simulate.passive import PassiveCells

# vectors, and one work-item a branch
KINDS = {"vectors": {"vector_width": 4, "max_cells": 3}, "lanes": {"work_group": 5}}


def eccentricities(parent):
    """Edges from each node to the farthest one, by a walk from each."""
    near = [[] for _ in parent]
    for i, p in enumerate(parent):
        if p >= 0:
            near[i].append(p)
            near[p].append(i)
    found = []
    for start in range(len(parent)):
        distance, queue = {start: 0}, [start]
        for a in queue:
            for b in near[a]:
                if b not in distance:
                    distance[b] = distance[a] + 1
                    queue.append(b)
        found.append(max(distance.values()))
    return found


@pytest.mark.parametrize("name", families())
def test_roots_are_in_the_middle(name):
    cells = [*families()[name], *dissimilar(4)]
    forest = Forest.from_cells(cells)
    rerooted = transforms.reroot(forest)
    again = Forest(rerooted.forest.parent, forest.cell_offsets)  # checks that these are trees
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
    forest = Forest.from_cells(dissimilar(20) + families()["few_shapes"])
    rerooted = transforms.reroot(forest)
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
    system = make_system(forest, symmetric=False)
    u = np.where(turned, system.l[np.maximum(edge, 0)], system.u)
    low = np.where(turned, system.u[np.maximum(edge, 0)], system.l)
    system.assert_solved(reference.solve_serial(rerooted.forest, system.d, u, system.b, low))


def test_a_chain_by_hand():
    rerooted = transforms.reroot(Forest(chain(4)))  # 0 1 2 3: the middle is 1 and 2
    assert rerooted.forest.parent.tolist() == [1, -1, 1, 2]
    assert rerooted.edge.tolist() == [1, -1, 2, 3]
    plan = make_plan(Forest(chain(4)), "fine", work_group=2, reroot=True)
    real = plan.gather >= 0
    assert dict(zip(plan.gather[real].tolist(), plan.edges[real].tolist())) == {
        0: 1,
        1: -1,
        2: 2,
        3: 3,
    }
    assert (plan.edges[~real] == -1).all()
    assert "height was 4, is 3 nodes" in plan.describe()
    assert make_plan(Forest(star(4)), "fine", reroot=True).edges is None


def test_many_nodes_are_rerooted_at_once():
    n = 200_000
    forest = Forest.from_cells([chain(n), random_binary_tree(n, 20_001, 1)])
    assert transforms.reroot(forest).forest.heights[0] == n // 2 + 1


@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "unsymmetric"])
@pytest.mark.parametrize("rows", [None, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_every_way_in_and_out(queue, kind, rows, symmetric):
    forest = Forest.from_cells([*dissimilar(9), chain(1), chain(2), star(6)])
    solver = Solver(forest, "fine", np.float32, queue=queue, reroot=True, **KINDS[kind])
    assert solver.plan.edges is not None
    system = make_system(forest, np.float32, symmetric, rows)
    expected = solver.solve(**system.arrays)
    system.assert_solved(expected)
    arrays = on_device(queue, system)
    assert np.array_equal(solver.solve(**arrays).get(), expected)
    others = {"u": system.l, "l": system.u}
    packed = {
        name: solver.pack(a, of=name, other=others.get(name))
        for name, a in system.arrays.items()
        if a is not None
    }
    out = cla.empty_like(packed["b"])
    solver.enqueue(**packed, out=out)
    assert np.array_equal(solver.unpack(out).get(), expected)
    factors = solver.factor(system.d, system.u, l=system.l)
    system.assert_solved(factors.solve(system.b))
    assert np.array_equal(factors.solve(arrays["b"]).get(), expected)
    factors.enqueue(packed["b"], out=out)
    assert np.array_equal(solver.unpack(out).get(), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_slices(queue, kind):
    forest = Forest.from_cells(dissimilar(60, least=5))
    options = {"reroot": True, **KINDS[kind]}
    solver = Solver(forest, "fine", np.float32, queue=queue, max_memory=50_000, **options)
    assert solver.num_slices > 2
    for symmetric in (True, False):
        system = make_system(forest, np.float32, symmetric)
        system.assert_solved(solver.solve(**system.arrays))
        node = int(forest.cell_offsets[47]) + 3
        system.d[node] = -1000.0
        with pytest.raises(PivotError) as caught:
            solver.solve(**system.arrays)
        assert (caught.value.cell, caught.value.node) == (47, node)


def test_pack_must_know_what_it_packs(queue):
    forest = Forest.from_cells([chain(4)] * 2)
    solver = Solver(forest, "fine", np.float32, queue=queue, reroot=True)
    a = np.arange(8.0)
    with pytest.raises(InputError, match=r"other roots: pack\(\) needs of='d', 'u', 'l', 'b' or"):
        solver.pack(a)
    with pytest.raises(InputError, match=r"pack\(l, of='l'\) needs other=u"):
        solver.pack(a, of="l")
    with pytest.raises(InputError, match="of='v' is not valid; expected d, u, l, b, x"):
        solver.pack(a, of="v")
    with pytest.raises(InputError, match=r"other has shape \(7,\)"):
        solver.pack(a, of="u", other=a[:7])
    with pytest.raises(InputError, match=r"other has shape \(2, 8\); expected that of a, \(8,\)"):
        solver.pack(a, of="u", other=np.stack((a, a)))
    assert np.array_equal(solver.unpack(solver.pack(a, of="x")).get(), a)
    plain = Solver(forest, "fine", np.float32, queue=queue)
    assert np.array_equal(plain.pack(a, of="u").get(), plain.pack(a).get())


def test_couplings_at_the_old_and_new_roots_do_not_matter(queue):
    forest = Forest.from_cells([*dissimilar(7), chain(1), chain(6)])
    for kind in KINDS.values():
        for symmetric in (True, False):
            solver = Solver(forest, "fine", np.float32, queue=queue, reroot=True, **kind)
            system = make_system(forest, np.float32, symmetric)
            expected = solver.solve(**system.arrays)
            system.u[forest.parent < 0] = np.nan
            assert np.array_equal(solver.solve(**system.arrays), expected)


def test_passive_cells(fast_queue, needs):
    needs(fast_queue, np.float64)
    cables = [discretise(cell, max_length=60) for cell in sample_cells()]
    plain = PassiveCells(cables, 8, queue=fast_queue, method="fine")
    other = PassiveCells(cables, 8, queue=fast_queue, method="fine", reroot=True)
    assert other.solver.plan.edges is not None
    for cells in (plain, other):
        cells.advance(range(5))
    assert np.allclose(plain.voltages(), other.voltages(), rtol=0, atol=1e-9)
    found = other.check()
    assert max(found["residual"], found["difference"]) < 1e-14


def test_reroot_is_a_switch():
    for value in (1, 0, "yes", 2.0):
        with pytest.raises(InputError, match=f"reroot={value!r} is not valid; expected True or"):
            make_plan(Forest(chain(3)), "fine", reroot=value)
