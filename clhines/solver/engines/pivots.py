"""Cells with bad pivots, and cells whose elimination lost digits, as kernels find them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clhines.solver.forest import Forest


class BadPivots(NamedTuple):
    """The cells whose elimination failed or lost digits, as kernels find them.

    All arrays have one entry per such cell: `nodes` has a node, and `bad` says whether its pivot is
    bad (True) or digits were lost there (False).
    """

    cells: np.ndarray
    nodes: np.ndarray
    bad: np.ndarray

    def first(self, bad: bool) -> tuple[int, int] | None:
        """Return the first cell with a bad pivot (`bad`) or lost digits, and its node; or None."""
        places = np.flatnonzero(self.bad == bad)
        return (int(self.cells[places[0]]), int(self.nodes[places[0]])) if len(places) else None


NO_PIVOTS = BadPivots(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool))


def first_nodes(forest: Forest, pivots: BadPivots) -> np.ndarray:
    """Return the node with a bad pivot in each cell, (num_cells,) int64; -1 if there is none."""
    status = np.full(forest.num_cells, -1)
    status[pivots.cells[pivots.bad]] = pivots.nodes[pivots.bad]
    return status
