"""Reports of kernels: bad pivots of each cell, and diagonals that lost digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clhines.solver.forest import Forest


class BadPivots(NamedTuple):
    """Cells, a node (by its natural index) in each, and whether its pivot is `bad`.

    Pivots of the others are good, but the elimination lost digits at this node, see `GROWTH`.
    """

    cells: np.ndarray
    nodes: np.ndarray
    bad: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence[BadPivots]) -> BadPivots:
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def moved(self, cell: int, node: int) -> BadPivots:
        """Count from the first cell and node of a larger batch."""
        return BadPivots(self.cells + cell, self.nodes + node, self.bad)

    def first(self, bad: bool) -> tuple[int, int] | None:
        """Return cell and node of the first bad pivot, or where digits were lost first."""
        places = np.flatnonzero(self.bad == bad)
        return (int(self.cells[places[0]]), int(self.nodes[places[0]])) if len(places) else None


NO_PIVOTS = BadPivots(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool))


def first_nodes(forest: Forest, pivots: BadPivots) -> np.ndarray:
    """(num_cells,) int64: the bad node of each cell, -1 for none."""
    status = np.full(forest.num_cells, -1)
    status[pivots.cells[pivots.bad]] = pivots.nodes[pivots.bad]
    return status
