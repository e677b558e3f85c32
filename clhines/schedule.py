"""Schedules: which node or branch is eliminated when, and by whom."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import ClassVar

import numpy as np

from clhines.forest import Trees, climb, ranges

NO_LANE = 0x3FF  # in `SegmentLanes`: no such lane
MAX_SEGMENT = 31  # nodes; what fits beside lanes in 32 bits
MAX_CELL_NODES = 1 << 29  # a step code holds a node number and two flags in 32 bits


def serial_steps(trees: Trees) -> np.ndarray:
    """Codes of the serial schedule: one node a step, in the reverse of ``trees.order``.

    A node hands its contribution to its parent in registers when the parent is the next step,
    and through memory otherwise. Code of step i: ``parent * 4 + waiting * 2 + first``, where
    `parent` counts from the start of the tree (-1 at the root), `waiting` says that
    contributions for node i lie in memory, and `first` that node i is the first to leave one
    for its parent. Every sum is therefore taken in one fixed order, without atomics.

    Returns
    -------
    (num_nodes,) int32, tree after tree, in ``trees.order``
    """
    start = np.repeat(trees.offsets[:-1], trees.sizes)
    above = trees.parent[trees.order]
    parent = np.where(above < 0, start - 1, trees.rank[above])
    step = np.arange(len(parent))
    leaves_sum = np.flatnonzero((parent != step - 1) & (parent >= start))
    waiting = np.zeros(len(parent), np.int64)
    waiting[parent[leaves_sum]] = 1
    last = np.full(len(parent), -1)
    np.maximum.at(last, parent[leaves_sum], leaves_sum)
    first = np.zeros(len(parent), np.int64)
    first[last[last >= 0]] = 1
    return ((parent - start) * 4 + waiting * 2 + first).astype(np.int32)


@dataclass(frozen=True, eq=False)
class LaneSteps:
    """Nodes of every tree in steps; those of a step are independent, and one lane takes each.

    Attributes
    ----------
    order : (num_nodes,) int64
        Nodes of `Trees`, tree after tree, in the order of their elimination.
    offsets : (num_trees + 1,) int64
        Steps of tree s are ``offsets[s]:offsets[s + 1]``.
    width : (num_steps,) int64
        Nodes of each step.
    """

    order: np.ndarray
    offsets: np.ndarray
    width: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        """(num_trees,) int64: steps of each tree."""
        return np.diff(self.offsets)


def k_lane_steps(trees: Trees, k: int) -> LaneSteps:
    """List schedule of dendritic hierarchical scheduling (Zhang et al. 2023, DeepDendrite).

    In every step the `k` deepest nodes whose children have all been eliminated go, or all of them
    where there are fewer: for trees no schedule of `k` lanes has fewer steps (Hu 1961). Of nodes of
    one depth, the last in `Trees.order` go first. A priority queue a tree: O(n log n),
    half a second for a million nodes.

    Parameters
    ----------
    trees : Trees
    k : int
        Nodes that a step may have.
    """
    tree = np.repeat(np.arange(trees.num_trees), trees.sizes)
    by_priority = np.lexsort((-trees.rank, -trees.depth, tree))
    if k == 1:  # the deepest node that is left is always ready
        return LaneSteps(by_priority, trees.offsets, np.ones(len(by_priority), np.int64))
    place = np.empty_like(by_priority)
    place[by_priority] = np.arange(len(place))
    above = trees.parent[by_priority]
    parent = np.where(above < 0, -1, place[above] - trees.offsets[tree])
    waiting = trees.num_children[by_priority]
    order: list[int] = []
    width: list[int] = []
    steps = []
    for start, end in zip(trees.offsets[:-1].tolist(), trees.offsets[1:].tolist(), strict=True):
        before = len(width)
        _list_schedule(parent[start:end].tolist(), waiting[start:end].tolist(), k, order, width)
        steps.append(len(width) - before)
    return LaneSteps(
        order=by_priority[np.array(order) + np.repeat(trees.offsets[:-1], trees.sizes)],
        offsets=np.concatenate(([0], np.cumsum(steps))),
        width=np.array(width),
    )


def _list_schedule(
    parent: list[int], waiting: list[int], k: int, order: list[int], width: list[int]
) -> None:
    """Append the steps of one tree to `order` and `width`; nodes are numbered by priority.

    Parameters
    ----------
    parent : -1 at the root
    waiting : children that each node waits for
    """
    ready = [v for v, count in enumerate(waiting) if count == 0]  # sorted, and so a heap
    waiting.append(2)  # what the root's parent, -1, refers to: never ready
    while ready:
        if len(ready) <= k:
            taken, ready = sorted(ready), []
        else:
            taken = [heappop(ready) for _ in range(k)]
        order += taken
        width.append(len(taken))
        for v in taken:
            above = parent[v]
            waiting[above] -= 1
            if not waiting[above]:
                heappush(ready, above)


@dataclass(frozen=True, eq=False)
class BranchLevels:
    """Branches of groups of cells, level by level, longest first within a level.

    A *template* is a sequence of trees that share a work-group; its *slots* are its cells.
    All levels of all templates are numbered consecutively, and so are all branches.

    Attributes
    ----------
    level_start : (num_templates + 1,) int64
        Levels of template t are ``level_start[t]:level_start[t + 1]``, the roots' first.
    branch_start : (num_levels + 1,) int64
        Branches of level v are ``branch_start[v]:branch_start[v + 1]``.
    length, parent, slot, tree_branch : (num_branches,) int64
        Nodes; index of the parent branch or -1; slot in the template, counted over all
        templates; the same branch in `Trees`.
    child_start, child : CSR of each branch's children, in increasing branch number
    """

    level_start: np.ndarray
    branch_start: np.ndarray
    length: np.ndarray
    parent: np.ndarray
    slot: np.ndarray
    tree_branch: np.ndarray
    child_start: np.ndarray
    child: np.ndarray

    @property
    def width(self) -> np.ndarray:
        """(num_levels,) int64: branches on each level."""
        return np.diff(self.branch_start)

    @property
    def longest(self) -> np.ndarray:
        """(num_levels,) int64: nodes of the longest branch on each level."""
        return self.length[self.branch_start[:-1]]


def branch_levels(
    trees: Trees,
    slot_template: np.ndarray,
    slot_tree: np.ndarray,
    level: np.ndarray | None = None,
) -> BranchLevels:
    """Order the branches of every template by level, longest first (2018 report, section 4).

    Parameters
    ----------
    slot_template : (num_slots,) integer, non-decreasing
    slot_tree : (num_slots,) integer
    level : (num_branches,) integer, optional
        Other levels than those of `trees`, of the branches of one slot after another, see
        `shifted_levels`.
    """
    counts = np.diff(trees.branch_offsets)[slot_tree]
    tree_branch = ranges(trees.branch_offsets[slot_tree], counts)
    slot = np.repeat(np.arange(len(slot_tree)), counts)
    template = slot_template[slot]
    level = trees.branch_level[tree_branch] if level is None else level
    length = trees.branch_length[tree_branch]
    rank = np.lexsort((-length, level, template))
    new = np.empty_like(rank)
    new[rank] = np.arange(len(rank))
    first_of_slot = np.cumsum(counts) - counts
    above = trees.branch_parent[tree_branch]
    shift = (first_of_slot - trees.branch_offsets[slot_tree])[slot]
    parent = np.where(above < 0, -1, new[np.where(above < 0, 0, above + shift)])[rank]

    template, level = template[rank], level[rank]
    is_first = np.ones(len(rank), bool)
    is_first[1:] = (np.diff(template) != 0) | (np.diff(level) != 0)
    branch_start = np.append(np.flatnonzero(is_first), len(rank))
    level_counts = np.bincount(template[is_first])

    inner = np.flatnonzero(parent >= 0)
    child = inner[np.argsort(parent[inner], kind="stable")]
    child_counts = np.bincount(parent[inner], minlength=len(rank))
    return BranchLevels(
        level_start=np.concatenate(([0], np.cumsum(level_counts))),
        branch_start=branch_start,
        length=length[rank],
        parent=parent,
        slot=slot[rank],
        tree_branch=tree_branch[rank],
        child_start=np.concatenate(([0], np.cumsum(child_counts))),
        child=child,
    )


def shifted_levels(
    trees: Trees, slot_template: np.ndarray, slot_tree: np.ndarray, lanes: int
) -> np.ndarray:
    """Move subtrees to deeper levels where a template has more branches than lanes on a level.

    The last proposal of the 2018 report (section 8). From the roots on, every level takes the
    branches with the most levels below them, up to `lanes`; the others wait, and with them all
    that hangs from them. Taking the highest first needs the fewest levels (Hu 1961). Where
    even these are more than the template had, every level takes more, so that none is added.

    Returns
    -------
    (num_branches,) int64
        Level of every branch of one slot after another, as `branch_levels` takes them.
    """
    counts = np.diff(trees.branch_offsets)[slot_tree]
    tree_branch = ranges(trees.branch_offsets[slot_tree], counts)
    starts = np.cumsum(counts) - counts
    slot = np.repeat(np.arange(len(slot_tree)), counts)
    template, level = slot_template[slot], trees.branch_level[tree_branch].copy()
    most = np.maximum.reduceat(level, starts)
    most = np.maximum.reduceat(most, np.flatnonzero(np.diff(slot_template, prepend=-1))) + 1
    first = np.cumsum(most) - most
    width = np.bincount(first[template] + level, minlength=int(most.sum()))
    full = np.flatnonzero(np.maximum.reduceat(width, first) > lanes)
    edges = np.searchsorted(template, [full, full + 1])
    above = trees.branch_parent[tree_branch]
    parent = np.where(above < 0, -1, above + (starts - trees.branch_offsets[slot_tree])[slot])
    rank = branch_ranks(trees)[tree_branch]
    for t, lo, hi in zip(full.tolist(), *edges.tolist(), strict=True):
        here = np.where(parent[lo:hi] < 0, -1, parent[lo:hi] - lo)
        below = np.cumsum(width[first[t] + 1 : first[t] + most[t]][::-1])
        needed = -(-below // np.arange(1, len(below) + 1))
        enough = max(lanes, int(needed.max(initial=1)))
        level[lo:hi] = _highest_first(here, rank[lo:hi], -(-enough // lanes) * lanes)
    return level


def _highest_first(parent: np.ndarray, rank: np.ndarray, lanes: int) -> list[int]:
    """Level of each branch if a level takes `lanes` branches, those of the highest rank first."""
    children: list[list[int]] = [[] for _ in parent]
    for k, p in enumerate(parent.tolist()):
        if p >= 0:
            children[p].append(k)
    height, level = (-rank).tolist(), [0] * len(parent)
    taken, now = np.flatnonzero(parent < 0).tolist(), 0
    waiting: list[tuple[int, int]] = []
    while taken:
        for k in taken:
            level[k] = now
            for child in children[k]:
                heappush(waiting, (height[child], child))
        taken = [heappop(waiting)[1] for _ in range(min(lanes, len(waiting)))]
        now += 1
    return level


@dataclass(frozen=True, eq=False)
class BranchVectors:
    """Branches of groups of cells in vectors, those above the tips first.

    A branch's *rank* is 0 without children, else one above the highest of its children's. A
    vector holds up to `width` branches of one rank and template, longest first, branches that
    are the same in several cells side by side. Vectors and branches are numbered consecutively
    over all templates, in the order of the backward sweep.

    Attributes
    ----------
    width : int
    template_start : (num_templates + 1,) int64
        Vectors of template t are ``template_start[t]:template_start[t + 1]``.
    template, rows, even : (num_vectors,) int64
        Template; nodes of the longest and of the shortest branch.
    vector, lane, length, parent, slot, tree_branch : (num_branches,) int64
        Where each branch is worked on; nodes; index of the parent branch or -1; slot in the
        template, counted over all templates; the same branch in `Trees`.
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
        """(num_branches,) int64: lane of each branch, counted over all vectors."""
        return self.vector * self.width + self.lane

    def lanes(self, of_branch: np.ndarray, nothing: int = 0) -> np.ndarray:
        """Spread a value of each branch over the lanes, `nothing` where a lane is idle."""
        out = np.full(len(self.rows) * self.width, nothing)
        out[self.place] = of_branch
        return out

    def exchange(self) -> np.ndarray:
        """(num_branches,) int64: lane counted from the template's first, which is `width`."""
        first = self.template_start[self.template[self.vector]]
        return self.place - (first - 1) * self.width

    def rounds(self) -> tuple[np.ndarray, np.ndarray]:
        """List the children of every vector: one child of each of its branches a round.

        Returns
        -------
        start : (num_vectors + 1,) int64
            Rounds of vector v are ``start[v]:start[v + 1]``, as many as its branches have
            children at the most.
        child : (num_rounds, width) int64
            `exchange` of each branch's child, in increasing branch number of `Trees`; 0 where
            there is none.
        """
        inner = np.flatnonzero(self.parent >= 0)
        inner = inner[np.lexsort((self.tree_branch[inner], self.parent[inner]))]
        above = self.parent[inner]
        counts = np.bincount(above, minlength=len(self.parent))
        number = np.arange(len(inner)) - (np.cumsum(counts) - counts)[above]
        most = np.zeros(len(self.rows), np.int64)
        np.maximum.at(most, self.vector, counts)
        start = np.concatenate(([0], np.cumsum(most)))
        child = np.zeros((int(start[-1]), self.width), np.int64)
        child[start[self.vector[above]] + number, self.lane[above]] = self.exchange()[inner]
        return start, child


def branch_ranks(trees: Trees) -> np.ndarray:
    """(num_branches,) int64: 0 without children, else 1 + the highest of the children's."""
    rank = np.zeros(len(trees.branch_parent), np.int64)
    order = np.argsort(-trees.branch_level, kind="stable")
    edges = np.flatnonzero(np.diff(trees.branch_level[order])) + 1
    for level in np.split(order, edges)[:-1]:  # the last is the roots' level
        np.maximum.at(rank, trees.branch_parent[level], rank[level] + 1)
    return rank


def branch_vectors(
    trees: Trees, slot_template: np.ndarray, slot_tree: np.ndarray, width: int
) -> BranchVectors:
    """Group the branches of every template into vectors.

    Parameters
    ----------
    trees : Trees
    slot_template : (num_slots,) integer, non-decreasing
    slot_tree : (num_slots,) integer
    width : int
    """
    counts = np.diff(trees.branch_offsets)[slot_tree]
    tree_branch = ranges(trees.branch_offsets[slot_tree], counts)
    slot = np.repeat(np.arange(len(slot_tree)), counts)
    template, length = slot_template[slot], trees.branch_length[tree_branch]
    height = branch_ranks(trees)[tree_branch]
    rank = np.lexsort((slot, tree_branch, -length, height, template))
    new = np.empty_like(rank)
    new[rank] = np.arange(len(rank))
    shift = (np.cumsum(counts) - counts - trees.branch_offsets[slot_tree])[slot]
    above = trees.branch_parent[tree_branch]
    parent = np.where(above < 0, -1, new[np.where(above < 0, 0, above + shift)])[rank]

    template, height, length = template[rank], height[rank], length[rank]
    is_first = np.ones(len(rank), bool)
    is_first[1:] = (np.diff(template) != 0) | (np.diff(height) != 0)
    group = np.flatnonzero(is_first)
    size = np.diff(np.append(group, len(rank)))
    position = np.arange(len(rank)) - np.repeat(group, size)
    vectors = -(-size // width)
    vector = np.repeat(np.cumsum(vectors) - vectors, size) + position // width
    head = np.flatnonzero(position % width == 0)
    tail = np.append(head[1:], len(rank)) - 1
    return BranchVectors(
        width=width,
        template_start=np.concatenate(([0], np.cumsum(np.bincount(template[head])))),
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


@dataclass(frozen=True, eq=False)
class Segments:
    """Trees cut into segments: stretches of a branch of at most a given number of nodes.

    All nodes of a segment but its last (the one farthest from the root) have one child, so they
    can be eliminated at once, from the root outwards, without waiting for any other segment.
    What is left is a tree with one node a segment, `contract`'s input.

    Attributes
    ----------
    offsets : (num_trees + 1,) int64
        Segments of tree s are ``offsets[s]:offsets[s + 1]``.
    first : (num_segments,) int64
        Place in `Trees.order` of the node nearest the root.
    length : (num_segments,) int64
    parent : (num_segments,) int64
        The segment that each one hangs from, -1 at the roots.
    """

    offsets: np.ndarray
    first: np.ndarray
    length: np.ndarray
    parent: np.ndarray


def segments(trees: Trees, most: int, ends: np.ndarray | None = None) -> Segments:
    """Cut every branch into as few, as equal segments of at most `most` nodes as can be.

    Parameters
    ----------
    ends : (num_nodes,) bool, optional
        Places in `Trees.order` of nodes that must be the last of their segment.
    """
    start, branch = trees.branch_start, np.arange(len(trees.branch_start))
    if ends is not None:  # stretches between these
        place = np.flatnonzero(ends) + 1
        place = place[place < len(ends)]
        owner = np.searchsorted(start, place, side="right") - 1
        inside = start[owner] != place
        order = np.argsort(np.concatenate((start, place[inside])), kind="stable")
        branch = np.concatenate((branch, owner[inside]))[order]
        start = np.concatenate((start, place[inside]))[order]
    length = np.diff(np.append(start, trees.offsets[-1]))
    pieces = -(-length // most)
    stretch = np.repeat(np.arange(len(length)), pieces)
    begin = np.cumsum(pieces) - pieces
    k = np.arange(len(stretch)) - begin[stretch]
    short, longer = np.divmod(length, pieces)
    size = short[stretch] + (k < longer[stretch])
    first = start[stretch] + k * short[stretch] + np.minimum(k, longer[stretch])
    above = trees.branch_parent[branch[stretch]]
    tail = np.zeros(len(trees.branch_start), np.int64)
    tail[branch[stretch]] = np.arange(len(stretch))  # the last one stays
    at_start = first == trees.branch_start[branch[stretch]]
    parent = np.where(at_start, np.where(above < 0, -1, tail[above]), np.arange(len(stretch)) - 1)
    counts = np.bincount(trees.branch_tree[branch[stretch]], minlength=trees.num_trees)
    return Segments(np.concatenate(([0], np.cumsum(counts))), first, size, parent)


KEPT_VALUES = 5  # local memory of an inner segment, where `u` of the leaf segments was


def pieces(cut: Segments, most: int, most_segments: int) -> np.ndarray:
    """Cut trees of segments into connected pieces, from the tips, the heaviest child first.

    Parameters
    ----------
    most : int
        Most values that a piece may keep in local memory: its nodes, and what `KEPT_VALUES` for
        each inner segment take beyond the nodes of the leaf segments.
    most_segments : int

    Returns
    -------
    (num_segments,) bool: the segments at the top of a piece
    """
    size, parent = cut.length.tolist(), cut.parent.tolist()
    leaf, number = size.copy(), [1] * len(size)  # nodes of leaf segments, and segments
    inner = [0] * len(size)
    children: list[list[int]] = [[] for _ in parent]
    top = np.zeros(len(parent), bool)
    for s in range(len(parent) - 1, -1, -1):  # children come after their parents
        kept = sorted(children[s], key=size.__getitem__)
        if kept:
            n, leaf[s], inner[s] = size[s], 0, 1
            for k in kept:
                n += size[k]
                leaf[s] += leaf[k]
                inner[s] += inner[k]
                number[s] += number[k]
            # one more: the first node of a piece is a segment of its own
            while kept and (
                n + max(0, KEPT_VALUES * (inner[s] + 1) - leaf[s]) > most
                or number[s] + 1 > most_segments
            ):
                k = kept.pop()
                n -= size[k]
                leaf[s] -= leaf[k]
                inner[s] -= inner[k]
                number[s] -= number[k]
                top[k] = True
            size[s] = n
        children[s] = []
        if parent[s] < 0:
            top[s] = True
        else:
            children[parent[s]].append(s)
    return top


@dataclass(frozen=True, eq=False)
class Contraction:
    """Rounds in which the nodes of a forest are eliminated; a round's are independent.

    All leaves go first. Then, round after round, leaves and nodes with one child of what remains
    (rake and compress, Miller and Reif 1985), so that n nodes take O(log n) rounds where nodes
    have few children: a node is taken only if neither its parent nor its child nor another child
    of its parent is, so that every survivor receives at most one update from below and one from
    above in a round. Pinned nodes and roots are never taken.

    Attributes
    ----------
    round : (n,) int64
        `LEAF`, the round from 0, or `KEPT`.
    parent, child : (n,) int64
        The neighbours that each node has when it is eliminated; child -1 for none, parent -1
        for a root. Of nodes that are kept: the parent that remains.
    """

    LEAF: ClassVar[int] = -1
    KEPT: ClassVar[int] = NO_LANE
    round: np.ndarray
    parent: np.ndarray
    child: np.ndarray


def contract(parent: np.ndarray, pinned: np.ndarray | None = None) -> Contraction:
    """Plan the contraction of a forest.

    Parameters
    ----------
    parent : (n,) int64
        Index of each node's parent, -1 at the roots.
    pinned : (n,) bool, optional
        Nodes that must be kept besides the roots.
    """
    n = len(parent)
    above, below = parent.copy(), np.full(n, -1)
    when = np.full(n, Contraction.KEPT)
    keep = parent < 0 if pinned is None else pinned | (parent < 0)
    alive = np.flatnonzero(parent >= 0)
    children = np.bincount(above[alive], minlength=n)
    leaves = np.flatnonzero((children == 0) & ~keep)
    when[leaves] = Contraction.LEAF
    alive = alive[when[alive] == Contraction.KEPT]
    number = 0
    while True:
        taken, child = _independent(alive, above, keep)
        if not len(taken):
            return Contraction(when, above, below)
        when[taken] = number
        below[taken] = child
        joined = child >= 0
        above[child[joined]] = above[taken[joined]]
        alive = alive[when[alive] == Contraction.KEPT]
        number += 1


def _independent(
    alive: np.ndarray, above: np.ndarray, keep: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pick this round's nodes among `alive` (not the roots), and the child of each or -1."""
    n = len(above)
    children = np.bincount(above[alive], minlength=n)
    only = np.full(n, -1)
    only[above[alive]] = alive  # the one child, where there is one
    free = alive[~keep[alive]]
    leaves = free[children[free] == 0]
    chain = free[children[free] == 1]
    anchor = np.arange(n)
    anchor[chain] = only[chain]
    weight = np.zeros(n, np.int64)
    weight[chain] = 1
    end, steps = climb(anchor, weight)  # down each chain to the node below it
    raked = (children[end[chain]] == 0) & ~keep[end[chain]]  # above a leaf, the lowest must stay
    picked = chain[(steps[chain] + raked) % 2 == 1]
    taken = np.concatenate((leaves, picked))
    child = np.concatenate((np.full(len(leaves), -1), only[picked]))
    first = np.unique(above[taken], return_index=True)[1]  # one child of each parent
    return taken[first], child[first]


@dataclass(frozen=True, eq=False)
class SegmentLanes:
    """Segments of groups of cells, one a lane: inner ones, then leaves, each longest first.

    Attributes
    ----------
    template_start : (num_templates + 1,) int64
        Lanes of template t are ``template_start[t]:template_start[t + 1]``.
    template, slot, segment, first, length : (num_lanes,) int64
        Template; slot counted over all templates; index in `Segments`; place of the first node
        in `Trees.order`; nodes.
    links : (num_lanes, 2) int32
        ``length | longest << 5 | parent << 10 | mailbox << 20`` and, of inner lanes,
        ``round | parent << 10 | child << 20`` at elimination; of kept ones, instead of the parent,
        their number among the kept of the template. `longest` is the longest segment
        of those 32 lanes; the children of a lane have successive mailboxes. `NO_LANE` for none.
    children : (num_lanes,) int32
        ``first mailbox | number << 16`` of the children of inner lanes.
    inner : (num_templates,) int64
        Lanes that hold no leaf of the contracted tree; they come first.
    rounds : (num_templates,) int64
    """

    template_start: np.ndarray
    template: np.ndarray
    slot: np.ndarray
    segment: np.ndarray
    first: np.ndarray
    length: np.ndarray
    links: np.ndarray
    children: np.ndarray
    inner: np.ndarray
    rounds: np.ndarray


def segment_lanes(
    cut: Segments, plan: Contraction, slot_template: np.ndarray, slot_tree: np.ndarray
) -> SegmentLanes:
    """Give every segment of every template a lane, and the lanes it exchanges rows with.

    Parameters
    ----------
    plan : Contraction
        Of ``cut.parent``.
    slot_template : (num_slots,) integer, non-decreasing
    slot_tree : (num_slots,) integer
    """
    counts = np.diff(cut.offsets)[slot_tree]
    source = ranges(cut.offsets[slot_tree], counts)
    slot = np.repeat(np.arange(len(slot_tree)), counts)
    leaf = plan.round[source] == Contraction.LEAF
    rank = np.lexsort((-cut.length[source], leaf, slot_template[slot]))
    new = np.empty_like(rank)
    new[rank] = np.arange(len(rank))
    shift = (np.cumsum(counts) - counts - cut.offsets[slot_tree])[slot]
    source, slot, shift, leaf = source[rank], slot[rank], shift[rank], leaf[rank]
    template, length, when = slot_template[slot], cut.length[source], plan.round[source]
    start = np.concatenate(([0], np.cumsum(np.bincount(template))))
    begin = start[template]

    def neighbour(of: np.ndarray) -> np.ndarray:
        """Lane of a neighbouring segment, `NO_LANE` for none."""
        there = of[source]
        lane = new[np.where(there < 0, 0, there + shift)] - begin
        return np.where(there < 0, NO_LANE, lane)

    parent, above, below = (neighbour(a) for a in (cut.parent, plan.parent, plan.child))
    mailbox, first_box, number = _mailboxes(begin + parent, begin, parent == NO_LANE)
    own = length | _longest(length, leaf, begin) << 5 | parent << 10 | mailbox << 20
    kept = when == Contraction.KEPT
    before = np.cumsum(kept) - kept
    above = np.where(kept, before - before[begin], above)
    links = np.stack((own, np.where(leaf, 0, when | above << 10 | below << 20)), axis=1)
    last = np.where(leaf | kept, -1, when)
    return SegmentLanes(
        template_start=start,
        template=template,
        slot=slot,
        segment=source,
        first=cut.first[source],
        length=length,
        links=links.astype(np.int32),
        children=(first_box | number << 16).astype(np.int32),
        inner=np.bincount(template[~leaf], minlength=len(start) - 1),
        rounds=np.maximum.reduceat(last, start[:-1]) + 1,
    )


def _mailboxes(
    parent: np.ndarray, begin: np.ndarray, root: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mailbox of each lane, and the first mailbox and number of its children.

    Parameters
    ----------
    parent, begin : (num_lanes,) int64
        Parent, and first lane of the template, counted over all templates.
    root : (num_lanes,) bool
        Lanes without a parent; their mailboxes are the last of the template.
    """
    n = len(parent)
    order = np.lexsort((np.where(root, n, parent), begin))
    box = np.empty(n, np.int64)
    box[order] = np.arange(n)
    box -= begin
    number = np.bincount(parent[~root], minlength=n)
    first = np.zeros(n, np.int64)
    members = order[~root[order]]
    mine = parent[members]
    heads = np.flatnonzero(np.append(True, mine[1:] != mine[:-1])[: len(mine)])
    first[mine[heads]] = box[members[heads]]
    return box, first, number


def _longest(length: np.ndarray, leaf: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """Longest segment of each lane's kind among the 32 lanes that surely run together."""
    lane = np.arange(len(length)) - begin
    key = (begin * 2 + leaf) * 1024 + lane // 32
    heads = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    return np.repeat(length[heads], np.diff(np.append(heads, len(key))))  # longest come first
