"""Cells as units of epochs on chip: their lanes, the places of their nodes, and ties."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from clhines.arrays import ranges, starts, stretch_of
from clhines.forest import Forest
from clhines.plan import packing
from clhines.plan.by_cell.layout import runs
from clhines.plan.by_segment import codes, layout, schedule
from clhines.plan.by_segment.cut import Cut
from clhines.plan.layout import add_to_rows, index_type
from clhines.simulate.gpu.spec import RECORDED

_CACHED = 1 << 17  # entries written at once, which stay in the cache


class CellTable:
    """Cells as units: lanes, places of the nodes, ties between them.

    Parameters
    ----------
    forest : Forest
        Of these cells alone, by which nodes and cells are numbered.
    cut : Cut
        Of its trees.
    most : int
        Most nodes of a segment.
    first : (num_cells,) int64
        Number of the first node of each cell in the network.
    """

    def __init__(self, forest: Forest, cut: Cut, most: int, first: np.ndarray) -> None:
        self._forest, self._first = forest, first
        blocks = packing.next_fit(forest, list(cut.lanes[:, None]), int(cut.lanes.max()), 1)
        lanes = codes.segment_lanes(
            cut.segments, cut.contraction, blocks.slot_template, blocks.slot_tree
        )
        rows = layout.SegmentRows(lanes, blocks, most)
        self.blocks, self.lanes, self.rows = blocks, lanes, rows
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
        self._node_at, self._place_of = self._within()
        self._tie_at, self._up_at = self._ties()

    def _within(self) -> tuple[np.ndarray, np.ndarray]:
        """Node of its cell at each place of each template, -1 for none; places of trees' nodes."""
        trees, rows = self._forest.trees, self.rows
        place, slot, rank = rows.entries()
        node_at = np.full(int(rows.template_size.sum()), -1)
        tree = self.blocks.slot_tree[slot]
        begin = starts(rows.template_size)[self.blocks.slot_template[slot]]
        node_at[begin + place] = trees.order[rank] - trees.offsets[tree]
        place_of = np.zeros(len(trees.parent), np.int64)
        place_of[trees.order[rank]] = place
        return node_at, place_of

    def _ties(self) -> tuple[np.ndarray, np.ndarray]:
        """Find whose `u` ties each place to the next of its segment, and each lane to its parent.

        Nodes of the cell, for each place and each lane of each template, -1 for none.
        """
        lanes, rows = self.lanes, self.rows
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
        tie = np.where(source < 0, -1, self._node_at[np.repeat(begin, size) + source])
        return tie, self._node_at[begin[template] + top]

    def spread(self, name: str) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield `gather`, `tie` or `up` from place to place, in arrays that stay in the cache."""
        of_lanes, kind = name == "up", self.blocks.template
        within = {"gather": self._node_at, "tie": self._tie_at, "up": self._up_at}[name]
        size = np.diff(self.lanes.template_start) if of_lanes else self.rows.template_size
        begin, place = starts(size), self.lane_base if of_lanes else self.rows.block_start
        first = self._first[self.blocks.cells]
        first = first.astype(index_type(first, self._forest.trees.sizes))
        for lo, hi in runs(kind):  # units of the same tree, one after another
            width, own = int(size[kind[lo]]), within[begin[kind[lo]] :][: size[kind[lo]]]
            step = max(1, _CACHED // max(1, width))
            for k in range(lo, hi, step):
                base = first[k : min(k + step, hi)]
                out = np.empty((len(base), width), first.dtype)
                add_to_rows(base, own, out)
                yield slice(int(place[k]), int(place[k]) + out.size), out.reshape(-1)

    @cached_property
    def gather(self) -> np.ndarray:
        """(size,) integer: number in the network of the node at each place, -1 for none."""
        return self._whole("gather", self.rows.size)

    @cached_property
    def tie(self) -> np.ndarray:
        """(size,) integer: that of the node whose `u` ties each place to the next."""
        return self._whole("tie", self.rows.size)

    @cached_property
    def up(self) -> np.ndarray:
        """(lanes,) integer: that of the node whose `u` ties each lane to its parent."""
        return self._whole("up", self.num_lanes)

    def _whole(self, name: str, size: int) -> np.ndarray:
        out = np.full(size, -1, index_type(self._first, self._forest.trees.sizes))
        for here, index in self.spread(name):
            out[here] = index
        return out

    def places_of_all(self) -> np.ndarray:
        """Place of every node, cell after cell, among those of its cell."""
        forest = self._forest
        first = forest.trees.offsets[forest.shape_of_cell]
        return self._place_of[ranges(first, forest.sizes)]

    def places(self, nodes: np.ndarray) -> np.ndarray:
        """Place of nodes of `forest` in the device order."""
        forest = self._forest
        cell = stretch_of(forest.cell_offsets, nodes)
        within = nodes - forest.cell_offsets[cell]
        first = forest.trees.offsets[forest.shape_of_cell[cell]]
        return self.rows.block_start[self.unit_of_cell[cell]] + self._place_of[first + within]

    def lane_and_row(self, nodes: np.ndarray) -> np.ndarray:
        """Return `RECORDED` of nodes of `forest`."""
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
