"""Reports of kernels: cells with bad pivots, and cells whose elimination lost digits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clhines.solver.forest import Forest


class BadPivots(NamedTuple):
    """Cells that kernels report, and a node of each: with a `bad` pivot, else with lost digits."""

    cells: np.ndarray
    nodes: np.ndarray
    bad: np.ndarray

    def first(self, bad: bool) -> tuple[int, int] | None:
        """Return cell and node of the first bad pivot; without `bad`, of the first lost digits."""
        places = np.flatnonzero(self.bad == bad)
        return (int(self.cells[places[0]]), int(self.nodes[places[0]])) if len(places) else None


NO_PIVOTS = BadPivots(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool))


def first_nodes(forest: Forest, pivots: BadPivots) -> np.ndarray:
    """Return (num_cells,) int64: the node of each cell with a bad pivot, or -1."""
    status = np.full(forest.num_cells, -1)
    status[pivots.cells[pivots.bad]] = pivots.nodes[pivots.bad]
    return status
