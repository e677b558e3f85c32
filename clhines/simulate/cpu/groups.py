"""Blocks and groups of epochs on CPUs: cells by shape in lanes, instances by place in these."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clhines.arrays import offsets, ranges, starts
from clhines.forest import Forest
from clhines.mechanisms.mechanism import Mechanism
from clhines.model.model import Kind, Model
from clhines.simulate.cpu.pivots import class_changes, variable_nodes

_SPARE = 1.1  # groups, over those of widest vectors, up to which narrower ones are chosen
_PAIR = 1.9  # groups of one register, over those of two, from which the latter are chosen
_WASTE = 1.25  # lanes, over cells, up to which cells of one shape share vectors


@dataclass(frozen=True, eq=False)
class Blocks:
    """Cells by shape in blocks of lanes, and nodes in the order of elimination.

    Attributes
    ----------
    cells : (num_blocks, lanes) int64
        -1 where a lane has no cell.
    order : (num_nodes of all shapes,) int64
        Node in its shape, by shape and slot.
    parent : like `order`, int64
        The parent's slot.
    shape : (num_blocks,) int64
    first, sizes, constant : (num_shapes,) int64
        First entry in `order`, slots, and how many of them have constant pivots.
    """

    cells: np.ndarray
    order: np.ndarray
    parent: np.ndarray
    shape: np.ndarray
    first: np.ndarray
    sizes: np.ndarray
    constant: np.ndarray

    @property
    def window(self) -> int:
        """A power of two above the distance of any slot from its parent's."""
        slot = np.arange(len(self.parent)) - np.repeat(self.first, self.sizes)
        distance = int((self.parent - slot)[self.parent >= 0].max(initial=0))
        return 1 << distance.bit_length()

    @property
    def lanes(self) -> int:
        """Cells of a block."""
        return self.cells.shape[1]


class SlotNodes:
    """Nodes in the slots and lanes of blocks.

    Attributes
    ----------
    slot : (num_blocks,) int64
        First slot of each block.
    block : (num_slots,) int64
    node : (num_slots, lanes) int64
        A lane without a cell has those of the first lane: it computes the same and keeps nothing.
    place : (n,) int64
        ``slot * lanes + lane`` of each node.
    """

    def __init__(self, blocks: Blocks, forest: Forest) -> None:
        sizes = blocks.sizes[blocks.shape]
        self.slot, self.block = starts(sizes), np.repeat(np.arange(len(sizes)), sizes)
        order = blocks.order[ranges(blocks.first[blocks.shape], sizes)]
        cells = np.where(blocks.cells < 0, blocks.cells[:, :1], blocks.cells)
        self.node = forest.cell_offsets[cells][self.block] + order[:, None]
        kept = (blocks.cells >= 0)[self.block]
        self.place = np.empty(forest.num_nodes, np.int64)
        self.place[self.node[kept]] = np.flatnonzero(kept)


def choose_lanes(forest: Forest, most: int, units: int) -> int:
    """Return how many cells of one shape share a vector.

    As many as `most` allows with few idle lanes and a block for each of the device's `units`, or 1.
    """
    counts = np.bincount(forest.shape_of_cell)
    lanes = most
    while lanes > 1:
        blocks = int((-(-counts // lanes)).sum())
        if blocks * lanes <= _WASTE * forest.num_cells and blocks >= units:
            break
        lanes //= 2
    return lanes


def make_blocks(
    forest: Forest, variable: np.ndarray, lanes: int, classes: np.ndarray | None = None
) -> Blocks:
    """Group cells by shape and order their nodes: children first, those of a class side by side.

    Parameters
    ----------
    forest : Forest
    variable : (num_nodes of all shapes,) bool
        Nodes of `forest.trees` whose pivots change.
    lanes : int
    classes : (num_nodes of all shapes,) int64, optional
        See `node_classes`; by default all are of one.
    """
    trees = forest.trees
    tree = np.repeat(np.arange(trees.num_trees), trees.sizes)
    by_class = () if classes is None else (classes, -class_changes(trees, classes))
    order = np.lexsort((-trees.depth, *by_class, variable, tree))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    above = trees.parent[order]
    start = trees.offsets[:-1][tree]
    parent = np.where(above < 0, -1, place[above] - start)
    by_shape = np.argsort(forest.shape_of_cell, kind="stable")
    counts = np.bincount(forest.shape_of_cell, minlength=trees.num_trees)
    blocks = -(-counts // lanes)
    first = starts(blocks)
    shape = forest.shape_of_cell[by_shape]
    within = np.arange(len(by_shape)) - starts(counts)[shape]
    cells = np.full((int(blocks.sum()), lanes), -1)
    cells[first[shape] + within // lanes, within % lanes] = by_shape
    return Blocks(
        cells=cells,
        order=order - start,
        parent=parent,
        shape=np.repeat(np.arange(trees.num_trees), blocks),
        first=trees.offsets[:-1],
        sizes=trees.sizes,
        constant=np.add.reduceat((~variable).astype(np.int64), trees.offsets[:-1]),
    )


@dataclass(frozen=True, eq=False)
class Groups:
    """The instances of a kind by block, in groups of as many as a vector has lanes.

    Attributes
    ----------
    ends : (num_blocks + 1,) int64
        First group of each block.
    member : (num_groups, width) int64
        Instance, or ``~instance`` of another one of the block where a lane has none: it computes
        with the same numbers, and nothing of it is kept.
    place : (num_groups, width) int64
        ``slot * lanes + lane`` in the block, ascending.
    run : (num_groups,) int64
        The first place of those that are consecutive, else -1.
    """

    ends: np.ndarray
    member: np.ndarray
    place: np.ndarray
    run: np.ndarray


def make_groups(
    forest: Forest,
    blocks: Blocks,
    kind: Kind,
    most: int,
    several: bool | None = None,
    twice: bool = False,
) -> Groups:
    """Group the instances of a kind, in each block by place.

    Parameters
    ----------
    forest : Forest
    blocks : Blocks
    kind : Kind
    most : int
        Instances of a group at most; fewer where that makes hardly more groups.
    several : bool, optional
        Whether a group is of several instances, where that is decided.
    twice : bool
        Whether a group may have twice as many, see `choose_width`.
    """
    lanes, num_blocks = blocks.lanes, len(blocks.cells)
    # A lane without a cell computes what the first does, so that consecutive places stay so.
    own = blocks.cells >= 0
    cell = np.where(own, blocks.cells, blocks.cells[:, :1]).reshape(-1)
    cuts = np.searchsorted(kind.node, forest.cell_offsets)
    counts = np.diff(cuts)[cell]
    member = ranges(cuts[:-1][cell], counts)
    lane = np.repeat(np.arange(len(cell)), counts)  # of all blocks
    block, cell = lane // lanes, cell[lane]
    slot_of = np.empty(len(blocks.order), np.int64)
    tree = np.repeat(blocks.first, blocks.sizes)
    slot_of[tree + blocks.order] = np.arange(len(tree)) - tree
    within = kind.node[member] - forest.cell_offsets[cell]
    slot = slot_of[blocks.first[forest.shape_of_cell[cell]] + within]
    place = slot * lanes + lane % lanes
    order = np.lexsort((member, place, block))
    of_block = np.bincount(block, minlength=num_blocks)
    width = choose_width(of_block, most, twice)
    if several is not None:
        width = max(2, width) if several else 1
    groups = -(-of_block // width)
    ends = offsets(groups)
    rank = np.arange(len(order)) - np.repeat(starts(of_block), of_block)
    # The last group of a block is filled up with its last instance.
    last = np.repeat(np.cumsum(of_block) - 1, groups * width - of_block)
    at = np.repeat(ends[:-1] * width, of_block) + rank
    source = np.empty(int(ends[-1]) * width, np.int64)
    filled = np.zeros(len(source), bool)
    source[at], filled[at] = order, own.reshape(-1)[lane[order]]
    spare = np.ones(len(source), bool)
    spare[at] = False
    source[spare] = order[last]
    shape = -1, width
    place = place[source].reshape(shape)
    run = np.where((np.diff(place, axis=1) == 1).all(axis=1), place[:, 0], -1)
    member = member[source]
    return Groups(ends, np.where(filled, member, ~member).reshape(shape), place, run)


def in_groups(model: Model, lanes: int, most: int) -> dict[Mechanism, bool]:
    """For each kind, whether several instances are advanced at a time; see `choose_width`.

    Scalar code calls the device's exp, vector code that of `mechanisms.emit.exponentials`. Parts
    of a network must choose as the whole network would, or results differ in the last bits.
    """
    blocks = make_blocks(model.forest, variable_nodes(model), lanes)
    own = np.where(blocks.cells >= 0, blocks.cells, blocks.cells[:, :1])
    counts = [np.diff(np.searchsorted(k.node, model.forest.cell_offsets)) for k in model.kinds]
    return {
        kind.mechanism: choose_width(count[own].sum(axis=1), most) > 1
        for kind, count in zip(model.kinds, counts, strict=True)
    }


def choose_width(counts: np.ndarray, most: int, twice: bool = False) -> int:
    """Return how many of `counts` instances of each block to take at a time, a power of two.

    A group takes about as long for any width; where wide ones stay empty, narrow ones do. With
    `twice`, a group may take two registers for each of its numbers: the chains of operations of one
    fill the time in which those of the other wait.
    """
    if twice and _PAIR * np.sum(-(-counts // (2 * most))) <= np.sum(-(-counts // most)):
        return 2 * most
    widths = [2**k for k in range(most.bit_length())]
    groups = [int((-(-counts // width)).sum()) for width in widths]
    return next(w for w, number in zip(widths, groups) if number <= _SPARE * groups[-1])
