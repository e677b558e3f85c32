"""Cut branches into segments, and plan the rounds in which segments are contracted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from clhines.core.arrays import climb, offsets, starts
from clhines.solver.forest import Trees
from clhines.solver.plan.kernel_spec import Word

# A lane first eliminates all its segment's nodes but the last. The last nodes form a smaller tree,
# which is eliminated in rounds. Invariant: a round's nodes are independent, and each node that
# stays gets at most one update from above and one from below, through fixed mailboxes. Measured:
# bench/notes/contraction.md.
#
#   o-o-o-+-o-o-o-o-o-o      [o o A]-+-[o o C]-[o o D]      A-+-C-D      leaves B, D; then C:
#         +-o-o-o        =>          +-[o o B]         =>     +-B        A, the root, is left

_NODES, _LANES = 5, 10  # bits for a node count, and for a lane
# Bit fields of `SegmentLanes`; `longest` is the longest segment among 32 lanes in lockstep.
LINK = Word(length=_NODES, longest=_NODES, parent=_LANES, mailbox=_LANES)
AT_ELIMINATION = Word(round=_LANES, parent=_LANES, child=_LANES)
FAMILY = Word(first_mailbox=16, number=15)
LANE_COUNTS = Word(lanes=16, inner_lanes=15)  # in a block
MAX_SEGMENT = LINK.most("length")  # most nodes in a segment
NO_LANE = LINK.most("parent")  # instead of a lane: none; instead of a round: the node is kept


@dataclass(frozen=True, eq=False)
class Segments:
    """Trees cut into segments: parts of a branch with a limited number of nodes.

    All nodes of a segment have one child, except for the last node, which is farthest from the
    root. So all other nodes can be eliminated at once, from the root outwards; one node per segment
    is left.
    """

    offsets: np.ndarray  # tree s has the segments ``offsets[s]:offsets[s + 1]``
    first: np.ndarray  # the node nearest the root, as a position in `Trees.order`
    length: np.ndarray
    parent: np.ndarray  # parent segment, -1 at the roots


def segments(trees: Trees, most: int, ends: np.ndarray | None = None) -> Segments:
    """Cut branches into few segments of up to `most` nodes; a node in `ends` ends a segment."""
    start, branch = trees.branch_start, np.arange(len(trees.branch_start))
    if ends is not None:  # cut the branches at `ends`, too
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
    begin = starts(pieces)
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
    return Segments(offsets(counts), first, size, parent)


KEPT_VALUES = 5  # an inner segment's values in local memory, stored over the leaves' `u`


def pieces(cut: Segments, most: int, most_segments: int) -> np.ndarray:
    """Cut trees of segments, which are unbranched runs of nodes, into connected parts.

    A part has at most `most_segments` segments and `most` values: one for each node, and
    `KEPT_VALUES` for each inner segment if leaves leave no room for them. Where a part would be
    larger, its heaviest subtree is cut off first. Return (num_segments,) bool: True for the segment
    of each part that is nearest the root.
    """
    size, parent = cut.length.tolist(), cut.parent.tolist()
    # for each piece so far: nodes in leaf segments, segments, inner segments
    leaf, number, inner = size.copy(), [1] * len(size), [0] * len(size)
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
            # `+ 1`: a piece's first node becomes a segment alone
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
    """Rounds in which the nodes of a forest are eliminated; nodes of one round are independent.

    First all leaves but the `late` ones are eliminated. Each later round has leaves and nodes with
    one child (rake and compress, Miller and Reif 1985): n nodes need O(log n) rounds if nodes have
    few children. A round never has a node together with its parent, its child or another child of
    its parent. So every remaining node gets at most one update from below and one from above in a
    round. Pinned nodes and roots are not eliminated.
    """

    LEAF: ClassVar[int] = -1
    KEPT: ClassVar[int] = NO_LANE
    round: np.ndarray  # `LEAF`, the round from 0, or `KEPT`
    parent: np.ndarray  # when it is eliminated, or in the end; -1 for none
    child: np.ndarray  # when it is eliminated, -1 for none


def contract(
    parent: np.ndarray, pinned: np.ndarray | None = None, late: np.ndarray | None = None
) -> Contraction:
    """Plan the rounds that eliminate a forest's nodes, except roots (parent -1) and `pinned` nodes.

    Leaves are eliminated before the first round. `late`, (n,) bool, marks leaves that are instead
    eliminated in rounds.
    """
    n = len(parent)
    above, below = parent.copy(), np.full(n, -1)
    when = np.full(n, Contraction.KEPT)
    keep = parent < 0 if pinned is None else pinned | (parent < 0)
    alive = np.flatnonzero(parent >= 0)
    children = np.bincount(above[alive], minlength=n)
    first = (children == 0) & ~keep
    leaves = np.flatnonzero(first if late is None else first & ~late)
    when[leaves] = Contraction.LEAF
    alive = alive[when[alive] == Contraction.KEPT]
    number = 0
    while True:
        removed, child = _independent(alive, above, keep)
        if not len(removed):
            return Contraction(when, above, below)
        when[removed] = number
        below[removed] = child
        joined = child >= 0
        above[child[joined]] = above[removed[joined]]
        alive = alive[when[alive] == Contraction.KEPT]
        number += 1


def _independent(
    alive: np.ndarray, above: np.ndarray, keep: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Choose nodes among `alive` that one round of a contraction can eliminate together.

    Return the nodes, and for each node its only child, or -1. `above` has the parent of each node.
    Nodes in `keep` are never chosen.
    """
    n = len(above)
    children = np.bincount(above[alive], minlength=n)
    only = np.full(n, -1)
    only[above[alive]] = alive  # for nodes with one child this is the child
    free = alive[~keep[alive]]
    leaves = free[children[free] == 0]
    chain = free[children[free] == 1]
    below = np.full(n, -1)
    below[chain] = only[chain]
    end, steps = climb(below)  # down each chain to the node below it
    # a chain's lowest node must stay if the node below it is a leaf that goes
    raked = (children[end[chain]] == 0) & ~keep[end[chain]]
    picked = chain[(steps[chain] + raked) % 2 == 1]
    removed = np.concatenate((leaves, picked))
    child = np.concatenate((np.full(len(leaves), -1), only[picked]))
    first = np.unique(above[removed], return_index=True)[1]  # one child per parent
    return removed[first], child[first]
