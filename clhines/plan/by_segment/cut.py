"""Trees cut into segments and contracted, tree by tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clhines.arrays import starts
from clhines.forest import Trees
from clhines.plan.by_segment import schedule
from clhines.plan.by_segment.schedule import KEPT_VALUES, NO_LANE


@dataclass(frozen=True, eq=False)
class Cut:
    """Trees cut into segments, and how these are contracted.

    Attributes
    ----------
    lanes, places : (num_trees,) int64
        Segments, and the local memory that each tree takes: its nodes, mostly, as five values
        an inner segment lie where `u` of the leaf segments was.
    kept : (num_segments,) int64
        Number of each boundary segment among those of its tree, otherwise -1.
    """

    segments: schedule.Segments
    contraction: schedule.Contraction
    lanes: np.ndarray
    places: np.ndarray
    kept: np.ndarray


def cut_trees(trees: Trees, most: int, ends: np.ndarray | None = None) -> Cut:
    """Cut trees into segments; `ends`, (num_nodes,) bool, are kept and end theirs."""
    ordered = None if ends is None else ends[trees.order]
    cut = schedule.segments(trees, most, ordered)
    lanes = np.diff(cut.offsets)
    if ordered is None:  # a tree that cannot fit need not be contracted
        pinned = np.repeat(lanes >= NO_LANE, lanes)
    else:
        pinned = ordered[cut.first + cut.length - 1]
    plan = schedule.contract(cut.parent, pinned)
    begin = cut.offsets[:-1]
    leaf = plan.round == schedule.Contraction.LEAF
    inner = np.add.reduceat(~leaf + 0, begin)
    places = trees.sizes + np.maximum(
        0, KEPT_VALUES * inner - np.add.reduceat(np.where(leaf, cut.length, 0), begin)
    )
    is_kept = plan.round == schedule.Contraction.KEPT
    before = starts(is_kept)
    number = before - np.repeat(before[begin], lanes)
    return Cut(cut, plan, lanes, places, np.where(is_kept, number, -1))
