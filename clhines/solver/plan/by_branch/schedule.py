"""Schedules for a lane per branch: by levels, or in vectors of branches of one height.

The level of a branch within its tree is `solver.forest.Trees.branch_level`.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from clhines.core.arrays import children_of, inverse, offsets, ranges, starts
from clhines.solver.forest import Trees


@dataclass(frozen=True, eq=False)
class BranchLevels:
    """Branches of blocks of cells, by template, then level, longest first.

    A *template* is the list of trees of one or more equal blocks; its *slots* are the block's
    cells.
    """

    level_start: np.ndarray  # template t has the levels ``level_start[t]:level_start[t + 1]``
    branch_start: np.ndarray  # level v has the branches ``branch_start[v]:branch_start[v + 1]``
    length: np.ndarray  # nodes in each branch
    parent: np.ndarray  # parent branch, or -1
    slot: np.ndarray  # counted over all templates
    tree_branch: np.ndarray  # branch index in `Trees`
    child_start: np.ndarray  # branch k has ``child[child_start[k]:child_start[k + 1]]``
    child: np.ndarray  # branch indices, increasing for each parent

    @property
    def width(self) -> np.ndarray:
        return np.diff(self.branch_start)

    @property
    def longest(self) -> np.ndarray:
        return self.length[self.branch_start[:-1]]


def branch_levels(
    trees: Trees, slot_template: np.ndarray, slot_tree: np.ndarray, level: np.ndarray | None = None
) -> BranchLevels:
    """Order the branches of each template by level, longest first (2018 report, section 4).

    Slot k, a cell of template ``slot_template[k]``, has tree ``slot_tree[k]``. `level` is the level
    of each branch, by default its level in the tree.
    """
    slot, tree_branch, parent = _branches(trees, slot_tree)
    template = slot_template[slot]
    level = trees.branch_level[tree_branch] if level is None else level
    length = trees.branch_length[tree_branch]
    rank = np.lexsort((-length, level, template))
    parent = _reorder_parents(parent, rank)
    template, level = template[rank], level[rank]
    is_first = np.ones(len(rank), bool)
    is_first[1:] = (np.diff(template) != 0) | (np.diff(level) != 0)
    branch_start = np.append(np.flatnonzero(is_first), len(rank))
    child, child_start = children_of(parent)
    return BranchLevels(
        level_start=offsets(np.bincount(template[is_first])),
        branch_start=branch_start,
        length=length[rank],
        parent=parent,
        slot=slot[rank],
        tree_branch=tree_branch[rank],
        child_start=child_start,
        child=child,
    )


def _branches(trees: Trees, slot_tree: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    counts = np.diff(trees.branch_offsets)[slot_tree]
    tree_branch = ranges(trees.branch_offsets[slot_tree], counts)
    slot = np.repeat(np.arange(len(slot_tree)), counts)
    above = trees.branch_parent[tree_branch]
    shift = (starts(counts) - trees.branch_offsets[slot_tree])[slot]
    return slot, tree_branch, np.where(above < 0, -1, above + shift)


def _reorder_parents(parent: np.ndarray, order: np.ndarray) -> np.ndarray:
    return np.where(parent < 0, -1, inverse(order)[parent])[order]


def shifted_levels(
    trees: Trees, slot_template: np.ndarray, slot_tree: np.ndarray, lanes: int
) -> np.ndarray:
    """Return each branch's level: subtrees go deeper where a level has more branches than `lanes`.

    This is the last proposal of the 2018 report (section 8). From the roots on, each level gets up
    to `lanes` branches. Branches with the most levels below them come first, as this needs the
    fewest levels (Hu 1961). If more levels are needed than before, each level gets more branches.
    For slots see `branch_levels`.
    """
    slot, tree_branch, parent = _branches(trees, slot_tree)
    template, level = slot_template[slot], trees.branch_level[tree_branch].copy()
    most = np.maximum.reduceat(level, starts(np.bincount(slot)))
    most = np.maximum.reduceat(most, np.flatnonzero(np.diff(slot_template, prepend=-1))) + 1
    first = starts(most)
    width = np.bincount(first[template] + level, minlength=int(most.sum()))
    full = np.flatnonzero(np.maximum.reduceat(width, first) > lanes)
    edges = np.searchsorted(template, [full, full + 1])
    rank = branch_ranks(trees)[tree_branch]
    for t, lo, hi in zip(full.tolist(), *edges.tolist(), strict=True):
        here = np.where(parent[lo:hi] < 0, -1, parent[lo:hi] - lo)
        below = np.cumsum(width[first[t] + 1 : first[t] + most[t]][::-1])
        needed = -(-below // np.arange(1, len(below) + 1))
        enough = max(lanes, int(needed.max(initial=1)))
        level[lo:hi] = _highest_first(here, rank[lo:hi], -(-enough // lanes) * lanes)
    return level


def _highest_first(parent: np.ndarray, rank: np.ndarray, lanes: int) -> list[int]:
    """Return a level per branch, such that no level has more than `lanes` branches.

    A branch comes after its parent. Of the branches whose parent has a level, the one with the
    highest `rank` comes first.
    """
    children: list[list[int]] = [[] for _ in parent]
    for k, p in enumerate(parent.tolist()):
        if p >= 0:
            children[p].append(k)
    height, level = (-rank).tolist(), [0] * len(parent)
    level_branches, now = np.flatnonzero(parent < 0).tolist(), 0
    waiting: list[tuple[int, int]] = []
    while level_branches:
        for k in level_branches:
            level[k] = now
            for child in children[k]:
                heappush(waiting, (height[child], child))
        level_branches = [heappop(waiting)[1] for _ in range(min(lanes, len(waiting)))]
        now += 1
    return level


@dataclass(frozen=True, eq=False)
class BranchVectors:
    """Branches of blocks of cells as lanes of vectors, ordered from the tips to the roots.

    The *rank* of a branch is 0 without children, else 1 + the highest rank of a child. A vector has
    up to `width` branches of one rank and template, longest first; `rows` and `even` have the
    length of its longest and shortest branch. For each branch: its `vector` and `lane`, `length`,
    `parent` branch, `slot`, and its index in `Trees` (`tree_branch`).
    """

    width: int
    template_start: np.ndarray
    template: np.ndarray
    rows: np.ndarray
    even: np.ndarray
    vector: np.ndarray
    lane: np.ndarray
    length: np.ndarray
    parent: np.ndarray
    slot: np.ndarray
    tree_branch: np.ndarray

    @property
    def place(self) -> np.ndarray:
        """Lane of each branch, counted over all vectors, (num_branches,) int64."""
        return self.vector * self.width + self.lane

    def lanes(self, of_branch: np.ndarray, nothing: int = 0) -> np.ndarray:
        """Return a value for each lane: its branch's value, or `nothing` if it is idle."""
        out = np.full(len(self.rows) * self.width, nothing)
        out[self.place] = of_branch
        return out

    def exchange(self) -> np.ndarray:
        """Index of each branch in the exchange memory, which begins with zeros; int64."""
        first = self.template_start[self.template[self.vector]]
        return self.place - (first - 1) * self.width

    def rounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the rounds in which branches add up the contributions of their children.

        In a round each lane of a vector adds one child. The first array has the first round of each
        vector; the second, for each round and lane, the child's index in the exchange memory, or 0.
        """
        inner = np.flatnonzero(self.parent >= 0)
        inner = inner[np.lexsort((self.tree_branch[inner], self.parent[inner]))]
        above = self.parent[inner]
        counts = np.bincount(above, minlength=len(self.parent))
        number = np.arange(len(inner)) - starts(counts)[above]
        most = np.zeros(len(self.rows), np.int64)
        np.maximum.at(most, self.vector, counts)
        start = offsets(most)
        child = np.zeros((int(start[-1]), self.width), np.int64)
        child[start[self.vector[above]] + number, self.lane[above]] = self.exchange()[inner]
        return start, child


def branch_ranks(trees: Trees) -> np.ndarray:
    """Return the rank of each branch: 0 without children, else 1 + the highest of its children."""
    rank = np.zeros(len(trees.branch_parent), np.int64)
    order = np.argsort(-trees.branch_level, kind="stable")
    edges = np.flatnonzero(np.diff(trees.branch_level[order])) + 1
    for level in np.split(order, edges)[:-1]:  # without the last, the roots' level
        np.maximum.at(rank, trees.branch_parent[level], rank[level] + 1)
    return rank


def branch_vectors(
    trees: Trees, slot_template: np.ndarray, slot_tree: np.ndarray, width: int
) -> BranchVectors:
    """Group the branches of each template into vectors of `width` lanes.

    Slot k, a cell of template ``slot_template[k]`` (not decreasing), has tree ``slot_tree[k]``.
    """
    slot, tree_branch, parent = _branches(trees, slot_tree)
    template, length = slot_template[slot], trees.branch_length[tree_branch]
    height = branch_ranks(trees)[tree_branch]
    rank = np.lexsort((slot, tree_branch, -length, height, template))
    parent = _reorder_parents(parent, rank)
    template, height, length = template[rank], height[rank], length[rank]
    is_first = np.ones(len(rank), bool)
    is_first[1:] = (np.diff(template) != 0) | (np.diff(height) != 0)
    group = np.flatnonzero(is_first)
    size = np.diff(np.append(group, len(rank)))
    position = np.arange(len(rank)) - np.repeat(group, size)
    vectors = -(-size // width)
    vector = np.repeat(starts(vectors), size) + position // width
    head = np.flatnonzero(position % width == 0)
    tail = np.append(head[1:], len(rank)) - 1
    return BranchVectors(
        width=width,
        template_start=offsets(np.bincount(template[head])),
        template=template[head],
        rows=length[head],
        even=length[tail],
        vector=vector,
        lane=position % width,
        length=length,
        parent=parent,
        slot=slot[rank],
        tree_branch=tree_branch[rank],
    )
