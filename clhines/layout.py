"""Layouts: where a number lies in device order, and the maps to and from natural order.

A layout is an array `gather`: ``packed[i] = natural[gather[i]]``, -1 where position i only pads.
``python -m clhines.layout`` draws examples.
"""

from __future__ import annotations

import numpy as np

from clhines.forest import Forest, ranges
from clhines.packing import Blocks, Columns
from clhines.schedule import BranchLevels, BranchVectors, SegmentLanes

ALIGNMENT = 32  # values: a work-group's block starts on a whole memory transaction


def pack(natural: np.ndarray, gather: np.ndarray, fill: float = 0.0) -> np.ndarray:
    """Bring (..., n) values from natural into device order, `fill` in the padding."""
    packed = np.take(natural, gather, axis=-1)
    packed[..., gather < 0] = fill
    return packed


def unpack(packed: np.ndarray, gather: np.ndarray, num_nodes: int) -> np.ndarray:
    """Bring (..., packed size) values from device into natural order."""
    real = gather >= 0
    natural = np.empty((*packed.shape[:-1], num_nodes), packed.dtype)
    natural[..., gather[real]] = packed[..., real]
    return natural


def _runs(keys: np.ndarray) -> list[tuple[int, int]]:
    """Maximal stretches of equal values as (start, stop)."""
    cuts = np.flatnonzero(np.diff(keys)) + 1
    edges = [0, *cuts.tolist(), len(keys)]
    return list(zip(edges[:-1], edges[1:], strict=True))


def fill_columns(
    out: np.ndarray, columns: Columns, shape: np.ndarray, values: list[np.ndarray], base: np.ndarray
) -> None:
    """Write ``base[lane] + values[shape]`` into `out` at every lane's positions.

    Parameters
    ----------
    out : (columns.size,) integer, written
    shape : (num_lanes,) integer
        Shape of each lane, -1 for idle lanes.
    values : list of (size of shape,) integer arrays
    base : (num_lanes,) integer
    """
    edges = columns.block_lane
    base = base.astype(out.dtype)
    for lo, hi in _runs(shape):
        if shape[lo] < 0:
            continue
        column = values[shape[lo]].astype(out.dtype)
        head = min(hi, int(edges[np.searchsorted(edges, lo)]))
        tail = max(head, int(edges[np.searchsorted(edges, hi, side="right") - 1]))
        for a, b in ((lo, head), (head, tail), (tail, hi)):  # part, whole blocks, part
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
    """(columns.size,) int32: element j of lane c is at ``start[c] + j * stride[c]``.

    Parameters
    ----------
    order : (num_nodes,) int64, optional
        Nodes of the distinct trees in the order of the elements; default `Trees.order`.
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


def aligned(values: np.ndarray) -> np.ndarray:
    """Places of blocks of so many values: each begins on a whole memory transaction."""
    return -(-values // ALIGNMENT) * ALIGNMENT


def _aligned(values: np.ndarray, blocks: Blocks) -> tuple[np.ndarray, np.ndarray, int]:
    """Size of each template's blocks, begin of each block, and length of the device order.

    Parameters
    ----------
    values : (num_templates,) int64
        Of a block of each template, without the alignment.
    """
    template_size = aligned(values)
    ends = np.cumsum(template_size[blocks.template])
    return template_size, ends - template_size[blocks.template], int(ends[-1])


class LevelStrided:
    """A block's levels one after another, the branches of a level interleaved.

    Element j of branch k on a level of w branches is at ``level_offset + j * w + k``
    (2018 report, section 5); branches shorter than the longest of their level leave padding.

    Attributes
    ----------
    level_offset : (num_levels,) int64
        Place of each level, counted from the start of its block.
    template_size : (num_templates,) int64
        Values of a block of each template, padding included.
    first, last : (num_branches,) int64
        Places of each branch's first and last node, counted from the start of the block.
    block_start : (num_blocks,) int64
    size : int
        Length of the device order.
    """

    def __init__(self, levels: BranchLevels, blocks: Blocks) -> None:
        width, longest = levels.width, levels.longest
        ends = np.cumsum(width * longest)
        begin_of_template = levels.level_start[:-1]
        before = (ends - width * longest)[begin_of_template]
        num_levels = np.diff(levels.level_start)
        self.level_offset = ends - width * longest - np.repeat(before, num_levels)
        values = ends[levels.level_start[1:] - 1] - before
        self.template_size, self.block_start, self.size = _aligned(values, blocks)
        level = np.repeat(np.arange(len(width)), width)
        lane = np.arange(len(level)) - levels.branch_start[level]
        self.first = self.level_offset[level] + lane
        self.stride = width[level]
        self.last = self.first + (levels.length - 1) * self.stride
        self._levels, self._blocks = levels, blocks

    def gather(self, forest: Forest) -> np.ndarray:
        """(size,) int32: natural index at every place of the device order."""
        levels = self._levels
        begin = forest.trees.branch_start[levels.tree_branch]
        branch, step = _expand(levels.length)
        place = self.first[branch] + step * self.stride[branch]
        return _block_gather(
            forest,
            self._blocks,
            self.template_size,
            place,
            levels.slot[branch],
            begin[branch] + step,
        )


class VectorRows:
    """A block's vectors of branches one after another, each from the tips to the root's end.

    Node j of lane k of a vector of r rows, j counted from the root's end, is at
    ``block_start + vector_place + (r - 1 - j) * width + k``: the backward sweep reads upwards.
    Branches shorter than the longest of their vector leave padding, as do idle lanes.

    Attributes
    ----------
    vector_place : (num_vectors,) int64
        Place of each vector, counted from the start of its block.
    template_size : (num_templates,) int64
        Values of a block of each template, padding included.
    block_start : (num_blocks,) int64
    size : int
        Length of the device order.
    """

    def __init__(self, vectors: BranchVectors, blocks: Blocks) -> None:
        ends = np.cumsum(vectors.rows * vectors.width)
        begin = ends - vectors.rows * vectors.width
        before = begin[vectors.template_start[:-1]]
        self.vector_place = begin - before[vectors.template]
        values = ends[vectors.template_start[1:] - 1] - before
        self.template_size, self.block_start, self.size = _aligned(values, blocks)
        self._vectors, self._blocks = vectors, blocks

    def gather(self, forest: Forest) -> np.ndarray:
        """(size,) int32: natural index at every place of the device order."""
        vectors = self._vectors
        root = self.vector_place + (vectors.rows - 1) * vectors.width
        first = root[vectors.vector] + vectors.lane
        begin = forest.trees.branch_start[vectors.tree_branch]
        branch, step = _expand(vectors.length)
        return _block_gather(
            forest,
            self._blocks,
            self.template_size,
            first[branch] - step * vectors.width,
            vectors.slot[branch],
            begin[branch] + step,
        )


class SegmentRows:
    """The first nodes of all inner segments of a block side by side, then the second; leaves.

    Row j holds node j of every inner segment that has one. After all of these come the rows of
    the leaf segments, where row j holds the node j before the last: in both, nodes lie in the
    order of their elimination. Rows get shorter, as the longest segments come first. There is
    no padding but the alignment of the blocks.

    Attributes
    ----------
    rows : (num_templates, 2, most) int64
        Place of each row in its block: inner segments, leaf segments.
    template_size : (num_templates,) int64
        Values of a block of each template, padding included.
    block_start : (num_blocks,) int64
    size : int
        Length of the device order.
    """

    def __init__(self, lanes: SegmentLanes, blocks: Blocks, most: int) -> None:
        length, template = lanes.length, lanes.template
        lane = np.arange(len(length)) - lanes.template_start[template]
        is_leaf = lane >= lanes.inner[template]
        counts = np.zeros((len(lanes.inner), 2, most + 1), np.int64)
        np.add.at(counts, (template, is_leaf + 0, length), 1)
        width = np.cumsum(counts[:, :, ::-1], axis=2)[:, :, -2::-1]  # segments with a row r
        flat = width.reshape(len(width), -1)
        ends = np.cumsum(flat, axis=1)
        self.rows: np.ndarray = (ends - flat).reshape(width.shape)
        self.template_size, self.block_start, self.size = _aligned(ends[:, -1], blocks)
        self._row_of_lane = self.rows[template, is_leaf + 0]
        self._column = np.where(is_leaf, lane - lanes.inner[template], lane)
        self._is_leaf = is_leaf
        self._lanes, self._blocks = lanes, blocks

    def gather(self, forest: Forest) -> np.ndarray:
        """(size,) int32: natural index at every place of the device order."""
        lanes = self._lanes
        k, step = _expand(lanes.length)
        row = np.where(self._is_leaf[k], lanes.length[k] - 1 - step, step)
        place = self._row_of_lane[k, row] + self._column[k]
        return _block_gather(
            forest, self._blocks, self.template_size, place, lanes.slot[k], lanes.first[k] + step
        )


def natural_order(
    forest: Forest,
    gather: np.ndarray,
    cells: np.ndarray,
    start: np.ndarray,
    size: np.ndarray,
    template: np.ndarray,
    bounds: np.ndarray,
) -> dict[str, np.ndarray]:
    """Tables to read the cells of blocks from natural order, one after another.

    Parameters
    ----------
    gather : (packed size,) int32
    cells : (num_block_cells,) integer
        Cells of all blocks.
    start, size, template : (num_blocks,) integer
        Places of each block in the device order; a number that is the same for blocks of
        the same trees.
    bounds : (num_blocks, 2) integer
        First and end in `cells` of each block's cells.

    Returns
    -------
    order_start : (num_blocks, 2) integer
        Begin of each block's values in `order`, and their number.
    order : (num_values,) integer, for each value of a template, cell after cell
        ``place in the block | number of the cell in the block << 16``.
    cell_base : (num_block_cells,) integer
        Natural index of a cell's first node, less that node's number among the block's values.
    """
    sizes, offsets = forest.sizes[cells], forest.cell_offsets[cells]
    before = np.concatenate(([0], np.cumsum(sizes)))
    in_block = np.repeat(before[bounds[:, 0]], bounds[:, 1] - bounds[:, 0])
    values = before[bounds[:, 1]] - before[bounds[:, 0]]
    _, model, kind = np.unique(template, return_index=True, return_inverse=True)
    # natural index and place, and natural index and cell, of each value of one block a template
    place = ranges(np.zeros(len(model), np.int64), size[model])
    natural = gather[ranges(start[model], size[model])]
    place, natural = place[natural >= 0], natural[natural >= 0]
    counts = bounds[model, 1] - bounds[model, 0]
    which = ranges(bounds[model, 0], counts)
    number = np.repeat(ranges(np.zeros(len(model), np.int64), counts), sizes[which])
    order = np.empty(len(natural), np.int64)
    order[np.argsort(ranges(offsets[which], sizes[which]))] = place[np.argsort(natural)]
    begin = np.cumsum(values[model]) - values[model]
    return {
        "order_start": np.stack((begin[kind.reshape(-1)], values), axis=1).reshape(-1),
        "order": order | number << 16,
        "cell_base": offsets - (before[:-1] - in_block),
    }


def _expand(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Owner and number within its owner of each node, for owners of the given lengths."""
    owner = np.repeat(np.arange(len(lengths)), lengths)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _block_gather(
    forest: Forest,
    blocks: Blocks,
    template_size: np.ndarray,
    place: np.ndarray,
    slot: np.ndarray,
    rank: np.ndarray,
) -> np.ndarray:
    """Gather of a layout in blocks, from one entry for each node of each template.

    Parameters
    ----------
    place : within the block
    slot : counted over all templates
    rank : place in `Trees.order`
    """
    trees = forest.trees
    bounds = np.concatenate(([0], np.cumsum(template_size)))
    template = blocks.slot_template[slot]
    slot_at = np.full(int(bounds[-1]), -1, np.int64)  # -1: padding
    node_at = np.zeros(int(bounds[-1]), np.int32)
    slot_at[bounds[template] + place] = slot - blocks.slot_start[template]
    node_at[bounds[template] + place] = trees.order[rank] - trees.offsets[blocks.slot_tree[slot]]
    block_size = template_size[blocks.template]
    block_start = np.cumsum(block_size) - block_size
    gather = np.empty(int(block_size.sum()), np.int32)
    starts = forest.cell_offsets[blocks.cells].astype(np.int32)
    for lo, hi in _runs(blocks.template):
        t = blocks.template[lo]
        here = slice(bounds[t], bounds[t + 1])
        slots = int(blocks.slot_start[t + 1] - blocks.slot_start[t])
        cells = blocks.cell_start[lo]
        base = starts[cells : cells + slots * (hi - lo)].reshape(hi - lo, slots)
        base = np.concatenate((base, np.full((hi - lo, 1), -1, np.int32)), axis=1)
        out = gather[block_start[lo] :][: (hi - lo) * (here.stop - here.start)]
        out = out.reshape(hi - lo, -1)
        np.take(base, slot_at[here], axis=1, out=out, mode="wrap")
        out += node_at[here]
    return gather


if (
    __name__ == "__main__"
):  # as a script only: the examples are of plans, which build on this module
    from clhines.figures import page

    print(page())
