"""Assign segments to lanes, and pack what a lane must know into bit fields."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clhines.core.arrays import inverse, offsets, ranges, starts
from clhines.solver.plan.by_segment import schedule


@dataclass(frozen=True, eq=False)
class SegmentLanes:
    """The lane of each segment of a block: inner segments first, then leaves, longest first.

    `links` has a `schedule.LINK` and a `schedule.AT_ELIMINATION` for each lane. If a lane's last
    node stays in the reduced system, `AT_ELIMINATION` has the node's number among such nodes of the
    template, in place of a parent. Children of a lane use successive mailboxes in local memory.
    """

    template_start: np.ndarray  # template t: lanes ``template_start[t]:template_start[t + 1]``
    template: np.ndarray
    slot: np.ndarray  # counted over all templates
    segment: np.ndarray  # index in `Segments`
    first: np.ndarray  # the first node, as a position in `Trees.order`
    length: np.ndarray  # nodes
    links: np.ndarray
    children: np.ndarray  # a `schedule.FAMILY`: the mailboxes for an inner lane's children
    inner: np.ndarray  # inner lanes per template
    rounds: np.ndarray  # rounds per template


def segment_lanes(
    cut: schedule.Segments,
    plan: schedule.Contraction,
    slot_template: np.ndarray,
    slot_tree: np.ndarray,
) -> SegmentLanes:
    """Assign each segment of each template to a lane, and link the lanes.

    `cut` has the segments of all trees, `plan` the rounds in which they are eliminated. A slot is a
    cell of a block: `slot_template` has each slot's template, `slot_tree` its tree.
    """
    counts = np.diff(cut.offsets)[slot_tree]
    source = ranges(cut.offsets[slot_tree], counts)
    slot = np.repeat(np.arange(len(slot_tree)), counts)
    leaf = plan.round[source] == schedule.Contraction.LEAF
    rank = np.lexsort((-cut.length[source], leaf, slot_template[slot]))
    new = inverse(rank)
    shift = (starts(counts) - cut.offsets[slot_tree])[slot]
    source, slot, shift, leaf = source[rank], slot[rank], shift[rank], leaf[rank]
    template, length, when = slot_template[slot], cut.length[source], plan.round[source]
    start = offsets(np.bincount(template))
    begin = start[template]

    def neighbour(of: np.ndarray) -> np.ndarray:
        there = of[source]
        lane = new[np.where(there < 0, 0, there + shift)] - begin
        return np.where(there < 0, schedule.NO_LANE, lane)

    parent, above, below = (neighbour(a) for a in (cut.parent, plan.parent, plan.child))
    mailbox, first_box, number = _mailboxes(begin + parent, begin, parent == schedule.NO_LANE)
    link = schedule.LINK.pack(
        length=length, longest=_longest(length, leaf, begin), parent=parent, mailbox=mailbox
    )
    kept = when == schedule.Contraction.KEPT
    before = starts(kept)
    above = np.where(kept, before - before[begin], above)
    inner = {"round": when, "parent": above, "child": below}
    then = schedule.AT_ELIMINATION.pack(**{name: np.where(leaf, 0, a) for name, a in inner.items()})
    last = np.where(leaf | kept, -1, when)
    return SegmentLanes(
        template_start=start,
        template=template,
        slot=slot,
        segment=source,
        first=cut.first[source],
        length=length,
        links=np.stack((link, then), axis=1),
        children=schedule.FAMILY.pack(first_mailbox=first_box, number=number),
        inner=np.bincount(template[~leaf], minlength=len(start) - 1),
        rounds=np.maximum.reduceat(last, start[:-1]) + 1,
    )


def _mailboxes(
    parent: np.ndarray, begin: np.ndarray, root: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each lane's mailbox, its first child's mailbox, and its child count.

    A lane leaves its contribution to its parent in a mailbox, an index in local memory. `parent` is
    the parent's lane, `begin` the first lane of the template; `root` marks lanes without parent.
    """
    n = len(parent)
    order = np.lexsort((np.where(root, n, parent), begin))
    box = inverse(order) - begin
    number = np.bincount(parent[~root], minlength=n)
    first = np.zeros(n, np.int64)
    members = order[~root[order]]
    mine = parent[members]
    heads = np.flatnonzero(np.append(True, mine[1:] != mine[:-1])[: len(mine)])
    first[mine[heads]] = box[members[heads]]
    return box, first, number


def _longest(length: np.ndarray, leaf: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """Return, for each lane, the longest segment that runs in lockstep with it, in nodes.

    Segments run in lockstep if their lanes are in the same warp of 32, and all of them are inner
    segments or all are leaves. `begin` is the first lane of each lane's template.
    """
    lane = np.arange(len(length)) - begin
    key = (begin * 2 + leaf) * 1024 + lane // 32
    heads = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    return np.repeat(length[heads], np.diff(np.append(heads, len(key))))  # longest come first
