"""Layout for a work-item per segment."""

from __future__ import annotations

import numpy as np

from clhines.solver.forest import Forest, Trees
from clhines.solver.plan.by_segment.codes import SegmentLanes
from clhines.solver.plan.by_segment.schedule import LANE_COUNTS
from clhines.solver.plan.layout import aligned_blocks, block_gather, expand
from clhines.solver.plan.packing import Blocks


class SegmentRows:
    """Layout of a block by rows: each row has one node of several segments, in adjacent places.

    Row j has the j-th node of all inner segments that are long enough. Rows of leaves follow; their
    nodes are counted from the last one, as this is the order of elimination. `rows`,
    (num_templates, 2, most), has the start of each row: inner segments first, then leaves.
    """

    def __init__(self, lanes: SegmentLanes, blocks: Blocks, most: int) -> None:
        length, template = lanes.length, lanes.template
        lane = np.arange(len(length)) - lanes.template_start[template]
        is_leaf = lane >= lanes.inner[template]
        counts = np.zeros((len(lanes.inner), 2, most + 1), np.int64)
        np.add.at(counts, (template, is_leaf + 0, length), 1)
        width = np.cumsum(counts[:, :, ::-1], axis=2)[:, :, -2::-1]  # segment count in row r
        flat = width.reshape(len(width), -1)
        ends = np.cumsum(flat, axis=1)
        self.rows: np.ndarray = (ends - flat).reshape(width.shape)
        self.template_size, self.block_start, self.size = aligned_blocks(ends[:, -1], blocks)
        self._row_of_lane = self.rows[template, is_leaf + 0]
        self._column = np.where(is_leaf, lane - lanes.inner[template], lane)
        self._is_leaf = is_leaf
        self._lanes, self._blocks = lanes, blocks

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the index in the block, the slot, and the index in `Trees.order` of each node."""
        lanes = self._lanes
        k, step = expand(lanes.length)
        row = np.where(self._is_leaf[k], lanes.length[k] - 1 - step, step)
        place = self._row_of_lane[k, row] + self._column[k]
        return place, lanes.slot[k], lanes.first[k] + step

    def gather(self, forest: Forest) -> np.ndarray:
        return block_gather(forest, self._blocks, self.template_size, *self.entries())


def tables(
    trees: Trees, blocks: Blocks, lanes: SegmentLanes, places: SegmentRows
) -> dict[str, np.ndarray]:
    kind, counts = blocks.template, np.diff(lanes.template_start)
    record = (
        places.block_start,
        places.template_size[kind],
        lanes.template_start[kind],
        LANE_COUNTS.pack(lanes=counts, inner_lanes=lanes.inner)[kind],
        kind * int(places.rows.shape[-1]) * 2,
        lanes.rounds[kind],
        blocks.cell_start[:-1],
        blocks.cell_start[1:],
    )
    return {
        "blocks": np.stack(record, axis=1).reshape(-1),
        "cell_number": blocks.cells,
        "rows": places.rows.reshape(-1),
        "links": lanes.links.reshape(-1),
        "children": lanes.children,
        "lane_slot": lanes.slot - blocks.slot_start[lanes.template],
        "lane_rank": lanes.first - trees.offsets[blocks.slot_tree[lanes.slot]],
    }
