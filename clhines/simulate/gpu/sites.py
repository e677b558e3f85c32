"""Instances as work-items of epochs on chip take them, one by one, and the slots of their sums."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from clhines.simulate.gpu.cells import CellTable, PlannedCells
from clhines.simulate.gpu.spec import SITE, SLOT_RUN


class InstanceSites:
    """Instances of groups of `units` cells: their nodes, and the slots where they leave sums.

    Attributes
    ----------
    most : list of int
        Instances of each kind in a group, at most.
    num_slots : int
        Of a group, at most.
    """

    def __init__(self, cells: PlannedCells, table: CellTable, units: int, by_cell: bool) -> None:
        kinds, none = cells.kinds, np.zeros(0, np.int64)
        groups = np.arange(-(-len(cells.numbers) // units) + 1)
        cell = np.concatenate([none, *(k.cell for k in kinds)])
        number = np.concatenate([none, *(k.numbers for k in kinds)])
        node = np.concatenate([none, *(k.kind.node[k.numbers] for k in kinds)])
        places = table.places(node + cells.forest.cell_offsets[cell] - cells.first[cell])
        which = np.repeat(np.arange(len(kinds)), [len(k.numbers) for k in kinds])
        unit = table.unit_of_cell[cell]
        place, group = places - table.rows.block_start[unit], unit // units
        order = np.lexsort((which, place, unit))
        first = np.searchsorted(group[order], groups)
        slot = np.empty(len(node), np.int64)
        slot[order] = np.arange(len(node)) - first[group[order]]
        self.num_slots = int(np.diff(first).max()) if kinds else 0
        self._sites, self.most = [], list[int]()
        for k in range(len(kinds)):
            some = np.flatnonzero(which == k)
            some = some[np.lexsort((place[some], unit[some]))]
            starts = np.searchsorted(group[some], groups)
            site = {"place": place[some], "cell": unit[some] % units, "slot": slot[some]}
            self._sites.append((starts, number[some], site))
            self.most.append(max(1, int(np.diff(starts).max())))
        self._by_cell, key = by_cell, cells.numbers[cell] if by_cell else places
        size = cells.model.forest.num_cells if by_cell else table.rows.size
        self._count = np.bincount(key, minlength=size)
        self._first = np.full(size, self.num_slots)
        np.minimum.at(self._first, key, slot)

    @cached_property
    def instances(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each kind where the instances of each group begin, and number and `SITE` of each."""
        return [
            (starts, np.stack((own, SITE.pack(**site)), axis=1))
            for starts, own, site in self._sites
        ]

    @cached_property
    def slots(self) -> np.ndarray:
        """First and end slot of each cell of the model, where `by_cell`; or each place's run."""
        first, count = self._first, self._count
        if self._by_cell:
            return np.stack((first, first + count), axis=1).reshape(-1)
        return SLOT_RUN.pack(first=first, number=count)
