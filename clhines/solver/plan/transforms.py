"""Change forests so that a solve has fewer dependent steps, or more equal ones.

Nodes keep their numbers, so values at nodes stay where they are. For entries *between* nodes see
`Rerooted.couplings`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from clhines.core.arrays import children_of, climb, moved, offsets, ranges
from clhines.core.checks import real_numbers
from clhines.core.errors import InputError
from clhines.solver.forest import Forest, Trees

if TYPE_CHECKING:
    from clhines.solver.plan.packing import Blocks


@dataclass(frozen=True, eq=False)
class Rerooted:
    """A forest with other roots for the same matrix.

    Nodes keep their numbers: `d`, `b`, `x` and the nodes in errors are the same for both forests,
    but pivots come in another order. Only entries between nodes change, which `couplings` converts.
    If node p was the parent of c and becomes its child, the old ``u[c]`` (row p, column c) is the
    new `l` of p, and the old ``l[c]`` its `u`.

    Attributes
    ----------
    forest : Forest
        The forest to plan and to solve with.
    edge : (n,) int64
        Index in the old arrays `u` and `l` of the edge between this node and its new parent: the
        node itself, or the new parent if the edge was reversed; -1 at the roots.
    moved : (num_trees,) bool
        Trees that have another root than before.
    """

    forest: Forest
    edge: np.ndarray
    moved: np.ndarray

    @property
    def turned(self) -> np.ndarray:
        """Whether each node's new parent was its child before, (n,) bool."""
        return (self.edge >= 0) & (self.edge != np.arange(len(self.edge)))

    def couplings(self, u: np.ndarray, l: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Convert the entries between nodes for the new forest.

        Parameters
        ----------
        u : (n,) real
            For the old forest, in natural order.
        l : (n,) real, optional
            For an unsymmetric system; both arrays change.

        Returns
        -------
        dict
            New arrays `u`, and `l` if it was given, zero at the new roots: arguments of
            `Solver.solve` and `Solver.factor`.

        Raises
        ------
        InputError
            Other shapes, or values that are not real numbers.
        """
        entries = {"u": real_numbers("u", u)} | ({} if l is None else {"l": real_numbers("l", l)})
        for name, a in entries.items():
            if a.shape != self.edge.shape:
                raise InputError(f"{name} has shape {a.shape}; expected {self.edge.shape}")
        turned, roots = self.turned, self.edge < 0
        new = {}
        for name, other in zip(entries, reversed(entries), strict=True):
            new[name] = np.where(turned, entries[other][self.edge], entries[name][self.edge])
            new[name][roots] = 0
        return new


def reroot(forest: Forest) -> Rerooted:
    """Move the root of each tree to where its height is smallest (2018 report, section 6).

    A method such as ``fine``, which works level by level, then has fewer dependent steps. The new
    root is the middle of a longest path. Of two middle nodes it is the one nearer the old root,
    which reverses fewer edges.

    Parameters
    ----------
    forest : Forest

    Returns
    -------
    Rerooted
        Shapes that differed still count as different, even if they are equal now.

    Raises
    ------
    InputError
        `forest` is something else.

    Examples
    --------
    In a chain of four nodes, 0 to 3, the edge between 0 and 1 is reversed:

    >>> from clhines import Forest, reroot
    >>> new = reroot(Forest([-1, 0, 1, 2]))
    >>> new.forest.parent.tolist()
    [1, -1, 1, 2]
    >>> u, l = np.array([0.0, 10, 20, 30]), np.array([0.0, 1, 2, 3])
    >>> {name: a.tolist() for name, a in new.couplings(u, l).items()}
    {'u': [1.0, 0.0, 20.0, 30.0], 'l': [10.0, 0.0, 2.0, 3.0]}
    """
    if not isinstance(forest, Forest):
        raise InputError(f"forest is {type(forest).__name__}; expected a clhines.Forest")
    trees = forest.trees
    on_path, before, place = _paths_to_the_deepest(trees)
    # nodes in the branches from each root down to the middle
    path = np.flatnonzero(on_path & (before <= place[trees.branch_tree]))
    tree = trees.branch_tree[path]
    counts = np.minimum(trees.branch_length[path], place[tree] + 1 - before[path])
    nodes = trees.order[ranges(trees.branch_start[path], counts)]
    tree = np.repeat(tree, counts)
    below = np.append(nodes[1:], -1)  # the next node on the path becomes the parent
    below[np.flatnonzero(np.append(tree[1:] != tree[:-1], True))] = -1
    parent, edge = trees.parent.copy(), np.arange(len(trees.parent))
    parent[nodes] = below
    edge[nodes] = below
    new = Trees(trees.offsets, parent)
    shape, sizes = forest.shape_of_cell, forest.sizes
    edge = edge[ranges(trees.offsets[shape], sizes)]
    shift = np.repeat(forest.cell_offsets[:-1] - trees.offsets[shape], sizes)
    return Rerooted(
        forest=Forest.from_trees(new, shape),
        edge=np.where(edge < 0, -1, edge + shift),
        moved=place > 0,
    )


def _paths_to_the_deepest(trees: Trees) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the path from each root to its deepest tip; the middle of a longest path is on it.

    The tip farthest from any node is one end of a longest path. Return which branches are on such a
    path, (num_branches,) bool; the nodes above each branch; and the middle's depth in each tree.
    """
    above, number = trees.branch_parent, np.arange(len(trees.branch_parent))
    before = trees.depth[trees.branch_first]
    end = before + trees.branch_length - 1
    deepest = np.maximum.reduceat(end, trees.branch_offsets[:-1])
    tips = np.flatnonzero(end == deepest[trees.branch_tree])
    tips = tips[np.append(True, np.diff(trees.branch_tree[tips]) > 0)]  # each tree's first
    on_path = np.zeros(len(above), bool)
    on_path[tips] = True
    jump = np.where(above < 0, number, above)
    for _ in range(int(trees.branch_level.max()).bit_length()):
        on_path[jump[on_path]] = True
        jump = jump[jump]
    meets, _ = climb(np.where(on_path, -1, above))
    away = np.where(on_path, 0, end - end[meets])  # nodes from the path to this branch's end
    past = np.maximum.reduceat(away - end[meets], trees.branch_offsets[:-1])
    longest = deepest + np.maximum(past, 0)  # 0: the longest path ends at the root
    return on_path, before, deepest - (longest + 1) // 2


@dataclass(frozen=True, eq=False)
class SplitForest:
    """A forest whose long branches are cut, and the forest `old` before the cuts.

    `tree` has the tree of `old` for each tree of `forest`. Kernels name a bad pivot by its number
    in the elimination order of the old tree.
    """

    forest: Forest
    tree: np.ndarray
    old: Forest

    def rank(self, branch: np.ndarray) -> np.ndarray:
        """Return the index of each branch's first node in its old tree's elimination order."""
        new, old = self.forest.trees, self.old.trees
        number = new.branch_tree[branch]
        node = new.branch_first[branch] - new.offsets[number]
        begin = old.offsets[self.tree[number]]
        return old.rank[begin + node] - begin


def split_branches(forest: Forest, blocks: Blocks | None = None) -> SplitForest:
    """Cut long branches of a batch; return the new and the old forest (2018 report, section 6).

    A branch keeps at most as many nodes as the mean of its level. Its other nodes become a branch
    of the next level, which may be cut again. The mean is taken over all cells, or with `blocks`
    over the cells of a block (the report's section 8).
    """
    trees = forest.trees
    if blocks is None:
        weight = np.bincount(forest.shape_of_cell, minlength=trees.num_trees)
        which, shape = np.arange(trees.num_trees), forest.shape_of_cell
        group = np.zeros(trees.num_trees, np.int64)
    else:
        keys = blocks.slot_template * trees.num_trees + blocks.slot_tree
        groups, number, weight = np.unique(keys, return_inverse=True, return_counts=True)
        group, which = np.divmod(groups, trees.num_trees)
        slots = np.diff(blocks.slot_start)[blocks.template]
        shape = np.empty(forest.num_cells, np.int64)
        shape[blocks.cells] = number.reshape(-1)[ranges(blocks.slot_start[blocks.template], slots)]
        sizes = trees.sizes[which]
        bounds = offsets(sizes)
        parent = trees.parent[ranges(trees.offsets[which], sizes)]
        trees = Trees(bounds, moved(parent, bounds[:-1] - trees.offsets[which], sizes))
    cut = Trees(trees.offsets, trees.parent, _cuts(trees, weight, group))
    return SplitForest(Forest.from_trees(cut, shape), which, forest)


def _cuts(trees: Trees, weight: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return the nodes at which to cut branches longer than their group's mean, (num_nodes,) bool.

    `group` has a number for each tree; the means count each tree `weight` times.
    """
    child, first_child = children_of(trees.branch_parent)
    counts = np.diff(first_child)
    cuts = np.zeros(len(trees.parent), bool)
    branch = np.flatnonzero(trees.branch_parent < 0)
    begin = np.zeros(len(branch), np.int64)  # each branch's nodes on the levels before
    of = group[trees.branch_tree[branch]]
    while len(branch):
        if 4 * len(of) < int(of.max()) + 1:  # most groups have no branch left
            of = np.unique(of, return_inverse=True)[1].reshape(-1)
        length = trees.branch_length[branch] - begin
        times = weight[trees.branch_tree[branch]]
        mean = np.ceil(np.bincount(of, times * length)[of] / np.bincount(of, times)[of])
        longer = length > mean
        done = ~longer
        below = child[ranges(first_child[branch[done]], counts[branch[done]])]
        group_below = np.repeat(of[done], counts[branch[done]])
        branch, of = branch[longer], of[longer]
        begin = begin[longer] + mean[longer].astype(np.int64)
        cuts[trees.order[trees.branch_start[branch] + begin]] = True
        branch = np.concatenate((branch, below))
        begin = np.concatenate((begin, np.zeros(len(below), np.int64)))
        of = np.concatenate((of, group_below))
    return cuts
