"""Schedule of kernels with several work-items per cell: the deepest nodes that are ready first."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from clhines.arrays import offsets
from clhines.forest import Trees


@dataclass(frozen=True, eq=False)
class LaneSteps:
    """Nodes of every tree in steps; those of a step are independent, with one lane per node."""

    order: np.ndarray  # nodes of `Trees`, tree after tree, in the order of elimination
    offsets: np.ndarray  # steps of tree s: ``offsets[s]:offsets[s + 1]``
    width: np.ndarray  # nodes of each step

    @property
    def counts(self) -> np.ndarray:
        """(num_trees,) int64: steps of each tree."""
        return np.diff(self.offsets)


def k_lane_steps(trees: Trees, k: int) -> LaneSteps:
    """List schedule of dendritic hierarchical scheduling (Zhang et al. 2023, DeepDendrite).

    In every step the `k` deepest nodes whose children have all been eliminated go, or all of them
    where there are fewer: for trees no schedule of `k` lanes has fewer steps (Hu 1961).
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
        offsets=offsets(steps),
        width=np.array(width),
    )


def _list_schedule(
    parent: list[int], waiting: list[int], k: int, order: list[int], width: list[int]
) -> None:
    """Append the steps of one tree, its nodes numbered by priority, to `order` and `width`."""
    ready = [v for v, count in enumerate(waiting) if count == 0]  # sorted, and so a heap
    waiting.append(2)  # for the root's parent, -1: never ready
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
