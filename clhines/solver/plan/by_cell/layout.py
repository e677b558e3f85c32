"""Layout for a lane per cell: columns, and which cells share a work-group.

A block of width 1 is the layout of `flat`, one block of all cells (width 0) is `interleaved`;
`block_interleaved` and `block_local` have blocks of `block_size` cells. Methods with a lane per
branch or segment pack cells by `solver.plan.packing`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clhines.core.arrays import offsets, ranges, starts
from clhines.solver.forest import Forest
from clhines.solver.plan.packing import cells_by_shape


@dataclass(frozen=True, eq=False)
class Columns:
    """A layout of cells side by side: each cell has a lane of a block.

    In a block of `width` lanes, a cell's node j is stored ``j * width`` values after its first
    node.
    """

    cells: np.ndarray  # each lane's cell, largest first; -1 marks padding
    block_lane: np.ndarray  # block k has the lanes ``block_lane[k]:block_lane[k + 1]``
    block_start: np.ndarray  # each block's first index in device order, and the total length

    @property
    def size(self) -> int:
        return int(self.block_start[-1])

    @property
    def stride(self) -> np.ndarray:
        """Distance between successive values of each lane's cell, (num_lanes,) int64."""
        width = np.diff(self.block_lane)
        return np.repeat(width, width)

    @property
    def start(self) -> np.ndarray:
        """Index of each lane's first value in device order, (num_lanes,) int64."""
        width = np.diff(self.block_lane)
        return np.arange(len(self.cells)) + np.repeat(
            self.block_start[:-1] - self.block_lane[:-1], width
        )


def columns(forest: Forest, width: int, whole_shapes: bool = False) -> Columns:
    """Cut the cells, largest first, into blocks of `width` lanes.

    Width 1 is the flat layout. Width 0 is the full-interleaved one: a new block starts with a cell
    that is less than half as large as the block's first, so less than half of a block is padding.
    With `whole_shapes` a block has cells of one shape.
    """
    cells = cells_by_shape(forest)
    sizes = forest.sizes[cells]
    if width == 0:
        lanes, block_lane = cells, size_classes(sizes)
    elif whole_shapes:
        lanes = _whole_shapes(forest.shape_of_cell[cells], cells, width)
        block_lane = np.arange(0, len(lanes) + 1, width)
    else:
        lanes = np.full(-(-len(cells) // width) * width, -1)
        lanes[: len(cells)] = cells
        block_lane = np.arange(0, len(lanes) + 1, width)
    block_size = forest.sizes[lanes[block_lane[:-1]]] * np.diff(block_lane)
    return Columns(lanes, block_lane, offsets(block_size))


def size_classes(sizes: np.ndarray) -> np.ndarray:
    """Return the bounds of classes of cells, for `sizes` in decreasing order.

    No cell of a class is smaller than half of the first cell of the class.
    """
    edges = [0]
    while edges[-1] < len(sizes):
        half = sizes[edges[-1]] / 2
        edges.append(int(np.searchsorted(-sizes, -half, side="right")))
    return np.array(edges)


def _whole_shapes(shape: np.ndarray, cells: np.ndarray, width: int) -> np.ndarray:
    """Return each lane's cell: the cells of each shape, padded with -1 to whole `width`."""
    edges = np.r_[0, np.flatnonzero(np.diff(shape)) + 1, len(shape)]
    counts = np.diff(edges)
    padded = -(-counts // width) * width
    lanes = np.full(int(padded.sum()), -1)
    lanes[ranges(starts(padded), counts)] = cells
    return lanes


def runs(keys: np.ndarray) -> list[tuple[int, int]]:
    cuts = np.flatnonzero(np.diff(keys)) + 1
    edges = [0, *cuts.tolist(), len(keys)]
    return list(zip(edges[:-1], edges[1:], strict=True))


def fill_columns(
    out: np.ndarray, columns: Columns, shape: np.ndarray, values: list[np.ndarray], base: np.ndarray
) -> None:
    """Write ``base[lane] + values[shape]`` to the entries of each lane in `out`.

    `shape` is the tree of the cell in each lane, -1 for an idle lane; `values` has an array for
    each tree.
    """
    edges = columns.block_lane
    base = base.astype(out.dtype)
    for lo, hi in runs(shape):
        if shape[lo] < 0:
            continue
        column = values[shape[lo]].astype(out.dtype)
        head = min(hi, int(edges[np.searchsorted(edges, lo)]))
        tail = max(head, int(edges[np.searchsorted(edges, hi, side="right") - 1]))
        for a, b in ((lo, head), (head, tail), (tail, hi)):  # a block's end, blocks, a begin
            if a == b:
                continue
            k = int(np.searchsorted(edges, a, side="right")) - 1
            width = int(edges[k + 1] - edges[k])
            blocks = max(1, (b - a) // width)
            lane = a - int(edges[k])
            start = int(columns.block_start[k])
            rows = int(columns.block_start[k + 1] - start) // width
            view = out[start : start + blocks * rows * width].reshape(blocks, rows, width)
            added = base[a:b].reshape(blocks, 1, -1)
            view[:, : len(column), lane : lane + added.shape[2]] = column[None, :, None] + added


def column_gather(forest: Forest, columns: Columns, order: np.ndarray | None = None) -> np.ndarray:
    """Return (columns.size,) int32: the natural index of each value in device order, or -1.

    The nodes of a cell are in elimination order, or in `order`.
    """
    trees = forest.trees
    lanes = columns.cells
    shape = np.where(lanes < 0, -1, forest.shape_of_cell[lanes])
    order = trees.order if order is None else order
    local = order - np.repeat(trees.offsets[:-1], trees.sizes)
    gather = np.full(columns.size, -1, np.int32)
    values = np.split(local, trees.offsets[1:-1])
    fill_columns(gather, columns, shape, values, forest.cell_offsets[lanes])
    return gather
