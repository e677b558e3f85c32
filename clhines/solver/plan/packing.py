"""Packing: which cells share a work-group, for kernels with a lane per branch or segment.

A cell's *width* is the number of lanes that it takes, for each level of branches. Kernels with a
lane per cell only need the cells in order of size: see `by_cell.layout.columns`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clhines.core.arrays import inverse, offsets, ranges, starts
from clhines.solver.forest import Forest

PACKINGS = ("next_fit", "sorted", "best_fit")
_LOOK_AHEAD = 2000  # most shapes among which `best_fit` chooses
_CHOOSE_FROM = 8000  # most widths for these shapes together
_MOST_SENSES = 64  # most widths per shape


def cells_by_shape(forest: Forest) -> np.ndarray:
    """Return the cells, largest first, with equal shapes side by side, (num_cells,) int64."""
    shape = forest.shape_of_cell
    return np.lexsort((shape, -forest.trees.sizes[shape]))


@dataclass(frozen=True, eq=False)
class Blocks:
    """Cells grouped into blocks, int64; blocks with the same list of trees share a *template*."""

    cells: np.ndarray  # natural cell numbers, block after block
    cell_start: np.ndarray  # block k: ``cells[cell_start[k]:cell_start[k + 1]]``
    template: np.ndarray  # (num_blocks,), non-decreasing
    slot_start: np.ndarray  # template t has the slots ``slot_start[t]:slot_start[t + 1]``
    slot_tree: np.ndarray  # (num_slots,), tree (shape) that each slot holds

    @property
    def num_blocks(self) -> int:
        return len(self.template)

    @property
    def slot_template(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.slot_start) - 1), np.diff(self.slot_start))


def one_block(forest: Forest) -> Blocks:
    one, cells = np.zeros(1, np.int64), np.arange(forest.num_cells)
    ends = np.array([0, forest.num_cells])
    return Blocks(cells, ends, one, ends, forest.shape_of_cell)


def pack_cells(
    how: str, forest: Forest, widths: list[np.ndarray], lanes: int, max_cells: int, shift: bool
) -> Blocks:
    """Group cells into blocks by the method `how`: ``best_fit``, ``next_fit`` or ``sorted``.

    ``sorted`` is `next_fit` with the trees that have the most branches first. `widths` has the
    lanes that each shape takes on each level, `lanes` the most of a block; a block has up to
    `max_cells` cells. With `shift` branches may move to deeper levels.
    """
    if how == "best_fit":
        narrow = np.minimum(_few_senses(widths), lanes)  # a wider cell gets a block for itself
        return best_fit(forest.shape_of_cell, narrow, lanes, max_cells)
    order = np.arange(forest.trees.num_trees)
    if how == "sorted":
        order = np.argsort(-np.diff(forest.trees.branch_offsets), kind="stable")
    return next_fit(forest, widths, lanes, max_cells, order, shift)


def _few_senses(widths: list[np.ndarray]) -> np.ndarray:
    """Return the lanes that each shape takes by level, in at most `_MOST_SENSES` columns.

    If shapes have more levels, a column has the largest width among several successive levels.
    """
    counts = np.array([len(w) for w in widths])
    step = -(-int(counts.max()) // _MOST_SENSES)
    out = np.zeros((len(widths), -(-int(counts.max()) // step)), np.int64)
    shape = np.repeat(np.arange(len(widths)), counts)
    level = ranges(np.zeros(len(widths), np.int64), counts)
    np.maximum.at(out, (shape, level // step), np.concatenate(widths))
    return out


def next_fit(
    forest: Forest,
    widths: list[np.ndarray],
    lanes: int,
    max_cells: int,
    order: np.ndarray | None = None,
    shift: bool = False,
) -> Blocks:
    """Fill a block until the next cell does not fit, then start another (2018 report, section 4).

    A shape takes `widths` lanes, by level. A cell fits if no level of the block gets more than
    `lanes` lanes; a single cell may be wider: it takes several passes. With `shift` branches may
    move to deeper levels. `order` sorts the shapes; cells of one shape are side by side.
    `max_cells` bounds a block, so that small batches still occupy the device.
    """
    order = np.arange(forest.trees.num_trees) if order is None else order
    cells = np.argsort(inverse(order)[forest.shape_of_cell], kind="stable")
    counts = np.bincount(forest.shape_of_cell, minlength=len(order))
    fill = _Fill(cells, lanes, max_cells, shift)
    for s in order.tolist():
        fill.add(s, widths[s], int(counts[s]))
    fill.close()
    return fill.blocks()


class _Fill:
    """The blocks that `next_fit` fills: `full` ones, and the `open` one.

    A block is described by the shapes of its cells and the number of cells of each shape.
    """

    def __init__(self, cells: np.ndarray, lanes: int, max_cells: int, shift: bool) -> None:
        self.cells, self.lanes, self.max_cells, self.shift = cells, lanes, max_cells, shift
        self.full: dict[tuple[tuple[int, int], ...], tuple[int, list[np.ndarray]]] = {}
        self.open: list[tuple[int, int]] = []
        self.used, self.held, self.begin, self.at = np.zeros(0, np.int64), 0, 0, 0

    def add(self, shape: int, width: np.ndarray, left: int) -> None:
        """Place `left` cells of a shape in blocks; on level v a cell takes ``width[v]`` lanes."""
        room = _room(len(width), self.lanes, self.shift)
        alone = min(max(1, int((room // width).min())), self.max_cells)
        while left:
            take = min(left, self.fitting(width) if self.open else alone)
            if take < 1:
                self.close()
                continue
            repeats = left // alone if not self.open and take == alone else 1
            self.at += take * repeats
            left -= take * repeats
            self.open.append((shape, take))
            if repeats > 1 or take == self.max_cells:
                self.close(repeats)
                continue
            self.held += take
            self.used = _widen(self.used, len(width))
            self.used[: len(width)] += take * width

    def fitting(self, width: np.ndarray) -> int:
        room = _room(max(len(self.used), len(width)), self.lanes, self.shift)[: len(width)]
        free = room - _widen(self.used, len(width))[: len(width)]
        return min(self.max_cells - self.held, int((free // width).min()))

    def close(self, repeats: int = 1) -> None:
        """Close the open block; the cells that were placed last fill `repeats` equal blocks."""
        if self.open:
            times, runs = self.full.get(tuple(self.open), (0, []))
            runs.append(self.cells[self.begin : self.at])
            self.full[tuple(self.open)] = times + repeats, runs
        self.open, self.used, self.held, self.begin = [], np.zeros(0, np.int64), 0, self.at

    def blocks(self) -> Blocks:
        return _blocks(
            [np.repeat(*np.array(key).T) for key in self.full],
            [times for times, _ in self.full.values()],
            [run for _, runs in self.full.values() for run in runs],
        )


def _room(levels: int, lanes: int, shift: bool) -> np.ndarray:
    """Return the lanes that each of a block's `levels` offers to branches.

    Without `shift` these are `lanes` on each level. With `shift` branches may move to deeper
    levels: then the branches on level v and below fit if they are no more than the lanes of these
    levels together, for every v (Hu 1961). The roots stay on level 0.
    """
    if not shift:
        return np.full(levels, lanes)
    return lanes * np.concatenate(([1], np.arange(levels - 1, 0, -1)))


def best_fit(
    shape_of_cell: np.ndarray, widths: np.ndarray, lanes: int, max_cells: int | None = None
) -> Blocks:
    """Start each block with the largest cell left, then add the cells that fit best.

    `widths`, (shapes, levels), has the lanes that a cell needs. The best cell's widths have the
    largest dot product with the free lanes (vector bin packing): it is wide where most lanes are
    free. Blocks with the same trees are made together.
    """
    look = min(_LOOK_AHEAD, max(_LOOK_AHEAD // 40, _CHOOSE_FROM // widths.shape[1]))
    most = len(shape_of_cell) if max_cells is None else max_cells
    by_shape = np.argsort(shape_of_cell, kind="stable")
    left = np.bincount(shape_of_cell, minlength=len(widths))
    place = starts(left)  # of each shape, cells before this position are in blocks
    order = np.argsort(-widths.max(axis=1), kind="stable")
    slots: list[np.ndarray] = []
    cells: list[np.ndarray] = []
    repeats: list[int] = []
    for first in range(len(order)):
        while left[order[first]]:
            members = _fill(order[first : first + look], left, widths, lanes, most)
            times = min(int(left[s]) // n for s, n in members.items())
            columns = []
            for shape, count in members.items():
                here = by_shape[place[shape] : place[shape] + count * times]
                columns.append(here.reshape(times, count))
                place[shape] += count * times
                left[shape] -= count * times
            slots.append(np.repeat(list(members), list(members.values())))
            cells.append(np.concatenate(columns, axis=1).reshape(-1))
            repeats.append(times)
    return _blocks(slots, repeats, cells)


def _fill(
    shapes: np.ndarray, left: np.ndarray, widths: np.ndarray, lanes: int, most: int
) -> dict[int, int]:
    """Fill one block with `shapes[0]` and up to ``most - 1`` more cells; return counts by shape.

    `left`: how many cells of each shape are left; `widths`: the lanes that a shape takes by level.
    """
    able = shapes[left[shapes] > 0]
    w, room = widths[able], left[able].copy()
    free = np.full(widths.shape[1], lanes)
    members: dict[int, int] = {}
    k = 0
    while True:
        shape = int(able[k])
        members[shape] = members.get(shape, 0) + 1
        most -= 1
        if not most:
            return members
        free = free - w[k]
        room[k] -= 1
        score = np.where((room > 0) & (w <= free).all(axis=1), w @ free, -1)
        k = int(score.argmax())
        if score[k] < 0:
            return members


def level_widths(forest: Forest) -> list[np.ndarray]:
    trees = forest.trees
    start = starts(trees.num_levels)
    flat = np.bincount(start[trees.branch_tree] + trees.branch_level)
    return np.split(flat, start[1:])


def reach_widths(widths: list[np.ndarray]) -> list[np.ndarray]:
    """Return, for each shape, the number of branches at or below each level.

    Level 0 has only the root's branch, as branches may move only to deeper levels.
    """
    below = [np.cumsum(w[::-1])[::-1] for w in widths]
    return [np.append(w[:1], total[1:]) for w, total in zip(widths, below, strict=True)]


def _widen(used: np.ndarray, levels: int) -> np.ndarray:
    return np.concatenate((used, np.zeros(max(0, levels - len(used)), np.int64)))


def _blocks(slots: list[np.ndarray], repeats: list[int], cells: list[np.ndarray]) -> Blocks:
    per_template = np.array([len(s) for s in slots])
    template = np.repeat(np.arange(len(slots)), repeats)
    return Blocks(
        cells=np.concatenate(cells),
        cell_start=offsets(per_template[template]),
        template=template,
        slot_start=offsets(per_template),
        slot_tree=np.concatenate(slots),
    )


def halved(blocks: Blocks, which: np.ndarray) -> Blocks:
    """Cut the blocks of the templates `which`, (num_templates,) bool, into halves."""
    repeats = np.bincount(blocks.template)
    first_block = starts(repeats)
    slots, times, cells = [], [], []
    for t, many in enumerate(repeats.tolist()):
        trees = blocks.slot_tree[blocks.slot_start[t] : blocks.slot_start[t + 1]]
        begin = int(blocks.cell_start[first_block[t]])
        rows = blocks.cells[begin : begin + many * len(trees)].reshape(many, -1)
        middle = (len(trees) + 1) // 2 if which[t] else len(trees)
        for some in (slice(0, middle), slice(middle, None)):
            if len(trees[some]):
                slots.append(trees[some])
                times.append(many)
                cells.append(rows[:, some].reshape(-1))
    return _blocks(slots, times, cells)
