"""Schedule of kernels with one work-item per cell."""

from __future__ import annotations

import numpy as np

from clhines.forest import Trees
from clhines.plan.kernel_spec import Word

# Code of a step of `serial_steps`; the parent of a root is -1.
STEP = Word(first=1, waiting=1, parent=29)
MAX_CELL_NODES = STEP.most("parent") + 1


def serial_steps(trees: Trees) -> np.ndarray:
    """Codes, a `STEP` each, of the serial schedule, in ``trees.order``, which is reversed.

    A node hands its contribution to its parent in registers when the parent is the next step, and
    through memory otherwise, so that every sum has one fixed order, without atomics.
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
    return STEP.pack(first=first, waiting=waiting, parent=parent - start)
