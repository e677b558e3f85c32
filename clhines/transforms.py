"""Transforms: forests changed so that they are solved in fewer or in more equal steps.

Each returns a new `Forest` whose nodes have the numbers of the old one, so that values at nodes
need no map; what becomes of the entries *between* nodes, `Rerooted.edge` tells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clhines.forest import Forest, Trees, climb, ranges


@dataclass(frozen=True, eq=False)
class Rerooted:
    """A forest with other roots, and where its entries between nodes are found.

    Turning the edge between a node p and its child c round makes p the child: what was ``u[c]``
    (row p, column c) is then the `l` of p, and ``l[c]`` its `u`.

    Attributes
    ----------
    forest : Forest
    edge : (n,) int64
        Node at which the old forest keeps the edge between this node and its new parent: the
        node itself, or another one where the edge was turned round; -1 at the roots.
    moved : (num_trees,) bool
        Trees that have another root than before.
    """

    forest: Forest
    edge: np.ndarray
    moved: np.ndarray


def reroot(forest: Forest) -> Rerooted:
    """Root each tree where its height is least (2018 report, section 6).

    That is in the middle of a longest path. Where two nodes share the middle, the one nearer the
    old root is taken, which leaves more edges as they were; nothing else is ever in a tie.

    Parameters
    ----------
    forest : Forest

    Returns
    -------
    Rerooted
        Some shapes that differed may be equal now; they are still told apart.
    """
    trees = forest.trees
    on_path, before, place = _paths_to_the_deepest(trees)
    # of the branches between each root and the middle: the nodes down to there
    path = np.flatnonzero(on_path & (before <= place[trees.branch_tree]))
    tree = trees.branch_tree[path]
    counts = np.minimum(trees.branch_length[path], place[tree] + 1 - before[path])
    nodes = trees.order[ranges(trees.branch_start[path], counts)]
    tree = np.repeat(tree, counts)
    below = np.append(nodes[1:], -1)  # the next on the path, which becomes the parent
    below[np.flatnonzero(np.append(tree[1:] != tree[:-1], True))] = -1
    parent, edge = trees.parent.copy(), np.arange(len(trees.parent))
    parent[nodes] = below
    edge[nodes] = below
    new = Trees(trees.offsets, parent)
    shape, sizes = forest.shape_of_cell, forest.sizes
    edge = edge[ranges(trees.offsets[shape], sizes)]
    shift = np.repeat(forest.cell_offsets[:-1] - trees.offsets[shape], sizes)
    return Rerooted(
        forest=Forest.of_trees(new, shape),
        edge=np.where(edge < 0, -1, edge + shift),
        moved=place > 0,
    )


def _paths_to_the_deepest(trees: Trees) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the path from each root to its deepest tip, and the middle of the longest path there.

    The tip farthest from any node is one end of a longest path, and the middle of that path is
    an ancestor of it.

    Returns
    -------
    on_path : (num_branches,) bool
    before : (num_branches,) int64
        Nodes between each branch and its root.
    place : (num_trees,) int64
        Depth of the middle; of two, of the upper one.
    """
    above, number = trees.branch_parent, np.arange(len(trees.branch_parent))
    before = trees.depth[trees.branch_first]
    end = before + trees.branch_length - 1
    deepest = np.maximum.reduceat(end, trees.branch_offsets[:-1])
    tips = np.flatnonzero(end == deepest[trees.branch_tree])
    tips = tips[np.append(True, np.diff(trees.branch_tree[tips]) > 0)]  # the first of each tree
    on_path = np.zeros(len(above), bool)
    on_path[tips] = True
    jump = np.where(above < 0, number, above)
    for _ in range(int(trees.branch_level.max()).bit_length()):
        on_path[jump[on_path]] = True
        jump = jump[jump]
    meets, _ = climb(np.where(on_path, number, above), np.zeros(len(above), np.int64))
    away = np.where(on_path, 0, end - end[meets])  # beyond the path
    past = np.maximum.reduceat(away - end[meets], trees.branch_offsets[:-1])
    longest = deepest + np.maximum(past, 0)  # 0: up to the root
    return on_path, before, deepest - (longest + 1) // 2
