"""Schedules: which node or branch is eliminated when, and by whom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from clhines.forest import Trees, climb, ranges

NO_LANE, MORE = 0x3FF, 0x400  # in the lists of `SegmentLanes`: no lane; a sibling follows
MAX_SEGMENT, MAX_ROUNDS = 31, 30  # what fits beside them in 32 bits
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


def branch_levels(trees: Trees, slot_template: np.ndarray, slot_tree: np.ndarray) -> BranchLevels:
    """Order the branches of every template by level, longest first (2018 report, section 4).

    Parameters
    ----------
    slot_template : (num_slots,) integer, non-decreasing
    slot_tree : (num_slots,) integer
    """
    counts = np.diff(trees.branch_offsets)[slot_tree]
    tree_branch = ranges(trees.branch_offsets[slot_tree], counts)
    slot = np.repeat(np.arange(len(slot_tree)), counts)
    template, level = slot_template[slot], trees.branch_level[tree_branch]
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


def segments(trees: Trees, most: int) -> Segments:
    """Cut every branch into as few, as equal segments of at most `most` nodes as can be."""
    length = trees.branch_length
    pieces = -(-length // most)
    branch = np.repeat(np.arange(len(length)), pieces)
    begin = np.cumsum(pieces) - pieces
    k = np.arange(len(branch)) - begin[branch]
    short, longer = np.divmod(length, pieces)
    size = short[branch] + (k < longer[branch])
    first = trees.branch_start[branch] + k * short[branch] + np.minimum(k, longer[branch])
    above = trees.branch_parent[branch]
    tail = (begin + pieces - 1)[above]
    parent = np.where(k > 0, np.arange(len(branch)) - 1, np.where(above < 0, -1, tail))
    counts = np.bincount(trees.branch_tree[branch], minlength=trees.num_trees)
    return Segments(np.concatenate(([0], np.cumsum(counts))), first, size, parent)


@dataclass(frozen=True, eq=False)
class Contraction:
    """Rounds in which the nodes of a forest are eliminated; a round's are independent.

    Round 0 takes all leaves; every later round takes all leaves of what remains and every
    other node of each chain (rake and compress, Miller and Reif 1985), so that a tree of n
    nodes takes O(log n) rounds. Roots are never taken.

    Attributes
    ----------
    rounds : int
        Rounds after round 0, over all trees.
    round : (n,) int64
        Round of each node; `rounds` + 1 at the roots.
    parent, child : (n,) int64
        The neighbours that each node has when it is eliminated; child -1 for a leaf, parent -1
        for a root.
    """

    rounds: int
    round: np.ndarray
    parent: np.ndarray
    child: np.ndarray


def contract(parent: np.ndarray) -> Contraction:
    """Plan the contraction of a forest given by global `parent` indices, -1 at the roots."""
    n = len(parent)
    above, below = parent.copy(), np.full(n, -1)
    when = np.full(n, -1)
    alive = np.flatnonzero(parent >= 0)
    number = 0
    while len(alive):
        taken, child = _independent(alive, above, n, compress=number > 0)
        when[taken] = number
        below[taken] = child
        joined = child >= 0
        above[child[joined]] = above[taken[joined]]
        alive = alive[when[alive] < 0]
        number += 1
    rounds = max(0, number - 1)
    when[parent < 0] = rounds + 1
    return Contraction(rounds, when, above, below)


def _independent(
    alive: np.ndarray, above: np.ndarray, n: int, compress: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Pick this round's nodes among `alive` (not the roots), and the child of each or -1."""
    children = np.bincount(above[alive], minlength=n)
    only = np.full(n, -1)
    only[above[alive]] = alive  # the one child, where there is one
    leaves = alive[children[alive] == 0]
    if not compress:
        return leaves, np.full(len(leaves), -1)
    chain = alive[children[alive] == 1]
    anchor = np.arange(n)
    anchor[chain] = only[chain]
    weight = np.zeros(n, np.int64)
    weight[chain] = 1
    end, steps = climb(anchor, weight)  # down each chain to the node below it
    takes_even = (children[end[chain]] == 0) + 0  # above a leaf, the lowest must stay
    picked = chain[(steps[chain] + takes_even) % 2 == 1]
    taken = np.concatenate((leaves, picked))
    return taken, np.concatenate((np.full(len(leaves), -1), only[picked]))


@dataclass(frozen=True, eq=False)
class SegmentLanes:
    """Segments of groups of cells, one a lane: inner ones, then leaves, each longest first.

    A lane is its number in the template, `NO_LANE`, or in a list with `MORE` added where another
    member of the list follows.

    Attributes
    ----------
    template_start : (num_templates + 1,) int64
        Lanes of template t are ``template_start[t]:template_start[t + 1]``.
    template, slot, first, length : (num_lanes,) int64
        Template; slot counted over all templates; place of the first node in `Trees.order`; nodes.
    links : (num_lanes, 2) int32
        ``length | round << 5 | parent << 10 | first child << 20``, and ``parent when eliminated |
        child when eliminated << 10``.
    siblings : (num_lanes,) int32
        ``next child of the same parent | next in the same fetch << 16``.
    inner : (num_templates,) int64
        Lanes that hold no leaf of the contracted tree; they come first.
    fetch_start : (num_templates + 1,) int64
        Where each template begins in `fetches`.
    fetches : (sum of inner * rounds,) int32
        Round after round, inner lane after inner lane: the first of the children that are
        eliminated in this round, and in the upper half the parent, if it is.
    """

    template_start: np.ndarray
    template: np.ndarray
    slot: np.ndarray
    first: np.ndarray
    length: np.ndarray
    links: np.ndarray
    siblings: np.ndarray
    inner: np.ndarray
    fetch_start: np.ndarray
    fetches: np.ndarray


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
    leaf = plan.round[source] == 0
    rank = np.lexsort((-cut.length[source], leaf, slot_template[slot]))
    new = np.empty_like(rank)
    new[rank] = np.arange(len(rank))
    shift = (np.cumsum(counts) - counts - cut.offsets[slot_tree])[slot]
    source, slot, shift = source[rank], slot[rank], shift[rank]
    template = slot_template[slot]
    start = np.concatenate(([0], np.cumsum(np.bincount(template))))

    def neighbour(of: np.ndarray) -> np.ndarray:
        """Index of a neighbouring segment among the lanes of all templates, or -1."""
        there = of[source]
        return np.where(there < 0, -1, new[np.where(there < 0, 0, there + shift)])

    def lane(index: np.ndarray) -> np.ndarray:
        """Return the number within the template, `NO_LANE` for -1."""
        return np.where(index < 0, NO_LANE, index - start[template[index]])

    parent, above, below = (neighbour(a) for a in (cut.parent, plan.parent, plan.child))
    when, total, rounds = plan.round[source], len(source), plan.rounds
    head, sibling = _lists(parent, total, lane)
    key = np.where((when >= 1) & (when <= rounds), above + (when - 1) * total, -1)
    fetched, beside = _lists(key, rounds * total, lane)
    from_above = np.full((rounds, total), -1)
    passes = np.flatnonzero((below >= 0) & (when >= 1))
    from_above[when[passes] - 1, below[passes]] = passes
    both = fetched.reshape(rounds, total) | lane(from_above) << 16
    inner = np.bincount(template[when > 0], minlength=len(start) - 1)
    fetch_start = np.concatenate(([0], np.cumsum(inner * rounds)))
    own = np.flatnonzero(when > 0)
    at = fetch_start[template[own]] + (own - start[template[own]])
    fetches = np.empty(fetch_start[-1], np.int32)
    for r in range(rounds):
        fetches[at + r * inner[template[own]]] = both[r, own]
    length = cut.length[source]
    links = np.stack(
        (length | when << 5 | lane(parent) << 10 | head << 20, lane(above) | lane(below) << 10),
        axis=1,
    )
    return SegmentLanes(
        template_start=start,
        template=template,
        slot=slot,
        first=cut.first[source],
        length=length,
        links=links.astype(np.uint32).view(np.int32),
        siblings=(sibling | beside << 16).astype(np.int32),
        inner=inner,
        fetch_start=fetch_start,
        fetches=fetches,
    )


def _lists(
    owner: np.ndarray, num_owners: int, lane: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Linked lists of the members of each owner (-1: of none), in increasing member number.

    Returns
    -------
    head : (num_owners,) integer
        First member's lane, with `MORE` where others follow.
    link : (num_members,) integer
        The lane that follows each member, likewise.
    """
    members = np.flatnonzero(owner >= 0)
    members = members[np.argsort(owner[members], kind="stable")]
    mine = owner[members]
    last = np.ones(len(members), bool)
    last[:-1] = mine[1:] != mine[:-1]
    begins = np.ones(len(members), bool)
    begins[1:] = last[:-1]
    shown = lane(members) | np.where(last, 0, MORE)
    head = np.full(num_owners, NO_LANE)
    head[mine[begins]] = shown[begins]
    link = np.full(len(owner), NO_LANE)
    follows = np.flatnonzero(~last)
    link[members[follows]] = shown[follows + 1]
    return head, link
