"""Cells as units of epochs on chip: their lanes, the places of their nodes, and ties."""

from __future__ import annotations

import numpy as np

from clhines.arrays import ranges, starts
from clhines.forest import Forest
from clhines.plan import packing
from clhines.plan.by_cell.layout import runs
from clhines.plan.by_segment import codes, layout, schedule
from clhines.plan.by_segment.cut import Cut
from clhines.simulate.epoch_spec import RECORDED


class CellTable:
    """Cells as units: lanes, places of the nodes, ties between them.

    Nodes and cells are numbered within `forest`.
    """

    def __init__(self, forest: Forest, cut: Cut, most: int) -> None:
        blocks = packing.next_fit(forest, list(cut.lanes[:, None]), int(cut.lanes.max()), 1)
        lanes = codes.segment_lanes(
            cut.segments, cut.contraction, blocks.slot_template, blocks.slot_tree
        )
        rows = layout.SegmentRows(lanes, blocks, most)
        self.blocks, self.lanes, self.rows = blocks, lanes, rows
        self.gather = rows.gather(forest)
        real = np.flatnonzero(self.gather >= 0)
        self._place = np.empty(forest.num_nodes, np.int64)
        self._place[self.gather[real]] = real
        kind, counts = blocks.template, np.diff(lanes.template_start)
        self.lane_base = starts(counts[kind])
        self.num_lanes = int(counts[kind].sum())
        self.units = np.stack(
            (
                rows.block_start,
                rows.template_size[kind],
                lanes.template_start[kind],
                schedule.LANE_COUNTS.pack(lanes=counts, inner_lanes=lanes.inner)[kind],
                kind * most * 2,
                np.maximum(lanes.rounds, 1)[kind],
                blocks.cells,
                self.lane_base,
            ),
            axis=1,
        )
        self.unit_of_cell = np.empty(forest.num_cells, np.int64)
        self.unit_of_cell[blocks.cells] = np.arange(forest.num_cells)
        self._ties()

    def _ties(self) -> None:
        """Find whose `u` ties each place to the next of its segment, and each lane to its parent.

        `tie` and `up` are natural indices, -1 for none.
        """
        lanes, rows, kind = self.lanes, self.rows, self.blocks.template
        length, template = lanes.length, lanes.template
        lane = np.arange(len(length)) - lanes.template_start[template]
        leaf = lane >= lanes.inner[template]
        column = np.where(leaf, lane - lanes.inner[template], lane)
        k = np.repeat(np.arange(len(length)), length)
        j = ranges(np.zeros(len(length), np.int64), length)

        def place(k: np.ndarray, j: np.ndarray) -> np.ndarray:
            return rows.rows[template[k], leaf[k] + 0, j] + column[k]

        # of each value of each template, the place whose u is meant
        size = rows.template_size
        begin = starts(size)
        source = np.full(int(size.sum()), -1)
        last = j == length[k] - 1
        following = np.minimum(j + 1, length[k] - 1)
        source[begin[template[k]] + place(k, j)] = np.where(
            last, -1, place(k, np.where(leaf[k], j, following))
        )
        every = np.arange(len(length))
        top = place(every, np.where(leaf, length - 1, 0))
        self.tie = np.empty(rows.size, self.gather.dtype)
        self.up = np.empty(self.num_lanes, self.gather.dtype)
        for lo, hi in runs(kind):  # units of the same tree, one after another
            t = kind[lo]
            here = slice(rows.block_start[lo], rows.block_start[lo] + (hi - lo) * size[t])
            natural = self.gather[here].reshape(hi - lo, -1)
            from_place = source[begin[t] : begin[t] + size[t]]
            tie = np.take(natural, from_place, axis=1, mode="wrap")
            tie[:, from_place < 0] = -1
            self.tie[here] = tie.reshape(-1)
            mine = slice(lanes.template_start[t], lanes.template_start[t + 1])
            first = self.lane_base[lo]
            up = natural[:, top[mine]].reshape(-1)
            self.up[first : first + len(up)] = up

    def places(self, nodes: np.ndarray | slice) -> np.ndarray:
        """Place of natural nodes in the device order."""
        return self._place[nodes]

    def lane_and_row(self, nodes: np.ndarray) -> np.ndarray:
        """Return `RECORDED` of natural nodes."""
        place = self.places(nodes)
        unit = np.searchsorted(self.rows.block_start, place, side="right") - 1
        template, inside = self.blocks.template[unit], place - self.rows.block_start[unit]
        flat = self.rows.rows[template].reshape(len(nodes), -1)
        at = (flat <= inside[:, None]).sum(axis=1) - 1  # rows of no width begin where others do
        most = self.rows.rows.shape[-1]
        column = inside - flat[np.arange(len(nodes)), at]
        leaf = at >= most
        lane = column + np.where(leaf, self.lanes.inner[template], 0)
        return RECORDED.pack(lane=lane, node=at % most)
