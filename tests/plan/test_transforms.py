"""Other roots: the trees, the maps, and every way in and out of a solver."""

import numpy as np
import pytest
from systems import dissimilar, families, make_system

from clhines import (
    Forest,
    InputError,
    make_plan,
    reference,
)
from clhines.cells.shapes import chain, random_binary_tree, star
from clhines.plan import transforms


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


def test_reroot_is_a_switch():
    for value in (1, 0, "yes", 2.0):
        with pytest.raises(InputError, match=f"reroot={value!r} is not valid; expected True or"):
            make_plan(Forest(chain(3)), "fine", reroot=value)
