"""Blocks and groups of epochs on CPUs: cells by shape in lanes, instances by place, pivots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyopencl as cl

from clhines.core.arrays import by_level, inverse, offsets, ranges, starts, stretch_of
from clhines.simulator.kinds.layouts import KindColumns
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.model.model import Kind, Model
from clhines.simulator.state.arena import NONE, Arena
from clhines.solver import reference
from clhines.solver.device.arrays import to_device
from clhines.solver.forest import Forest, Trees


def variable_nodes(model: Model) -> np.ndarray:
    """(num_nodes of all shapes,) bool: roots, and nodes at or below which a cell has currents."""
    trees = model.forest.trees
    variable = trees.parent < 0
    for kind in model.kinds:
        program = kind.mechanism.program
        if program.kind != "artificial" and "current" in program.blocks:
            variable[_in_shapes(model.forest, kind.node)] = True
    for deep in reversed(by_level(trees.depth)[1:]):
        variable[trees.parent[deep[variable[deep]]]] = True
    return variable


def _in_shapes(forest: Forest, nodes: np.ndarray) -> np.ndarray:
    cell = stretch_of(forest.cell_offsets, nodes)
    return nodes - forest.cell_offsets[cell] + forest.trees.offsets[forest.shape_of_cell[cell]]


def node_classes(model: Model) -> np.ndarray:
    """(num_nodes of all shapes,) int64: number of the set of kinds that cells of the shape have."""
    classes = np.zeros(len(model.forest.trees.parent), np.int64)
    for kind in model.kinds:
        if kind.mechanism.kind == "artificial":
            continue
        there = np.zeros(len(classes), np.int64)
        there[_in_shapes(model.forest, kind.node)] = 1
        classes = np.unique(2 * classes + there, return_inverse=True)[1].reshape(-1)
    return classes


def class_changes(trees: Trees, classes: np.ndarray) -> np.ndarray:
    """(num_nodes of all shapes,) int64: how often the class changes from a node to its root."""
    changes = ((classes != classes[trees.parent]) & (trees.parent >= 0)).astype(np.int64)
    for nodes in by_level(trees.depth)[1:]:
        changes[nodes] += changes[trees.parent[nodes]]
    return changes


def nodes_in_part(model: Model, network: Model) -> np.ndarray:
    """(num_nodes of all shapes,) int64: the nodes of the network's shapes that a part's are."""
    whole, shapes = network.forest, model.forest.shape_of_cell
    first = np.unique(shapes, return_index=True)[1] + model.first_cell
    start = whole.trees.offsets[whole.shape_of_cell[first]]
    return ranges(start, model.forest.trees.sizes)


def constant_pivots(model: Model, variable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eliminate the nodes whose pivots are constant, those that are not `variable`.

    Return two arrays by node, in natural order: inverse pivots of constant nodes and the reduced
    diagonal of the others, and factors of the constant nodes and again that diagonal.
    """
    forest = model.forest
    diagonal = model.capacitance_over_dt + model.constant_d
    start = forest.trees.offsets[forest.shape_of_cell] - forest.cell_offsets[:-1]
    constant = ~variable[np.arange(forest.num_nodes) + np.repeat(start, forest.sizes)]
    if not constant.any():
        return diagonal, diagonal
    parent, u = forest.parent, model.u
    for nodes in reversed(reference.elimination_steps(forest)[1:]):
        some = nodes[constant[nodes]]
        np.subtract.at(diagonal, parent[some], u[some] ** 2 / diagonal[some])
    inverse = 1 / diagonal
    return np.where(constant, inverse, diagonal), np.where(constant, u * inverse, diagonal)


class ConstantPivots:
    """By slot and lane: constant g and b, diagonals of `moving` slots, inverse pivots."""

    def __init__(
        self,
        model: Model,
        node: np.ndarray,
        variable: np.ndarray,
        queue: cl.CommandQueue,
        dtype: np.dtype,
    ) -> None:
        self._model, self._node, self._queue, self._dtype = model, node, queue, dtype
        self._variable, of_nodes = variable, model.of_nodes
        sizes = {len(of_nodes.once(name)) for name in _OF_PIVOTS}
        self._count = sizes.pop() if len(sizes) == 1 else of_nodes.count  # nodes of one round
        constant = self._constant(self._count)
        self._any = bool(constant.any())
        self.moving = ~constant[node[:, 0] % self._count]
        values = self._values(*(self._given(f"constant_{k}") for k in "dbg"))
        self.arrays = [to_device(queue, a, dtype) for a in values]

    def _given(self, name: str) -> np.ndarray:
        """(count,): values of the nodes of one round."""
        of_nodes = self._model.of_nodes
        return of_nodes.once(name) if self._count < of_nodes.count else of_nodes.whole(name)

    def _constant(self, count: int) -> np.ndarray:
        """(count,) bool: whether the pivots of these first nodes, of whole cells, are constant."""
        forest = self._model.forest
        sizes = forest.sizes[: np.searchsorted(forest.cell_offsets, count)]
        within = np.arange(count) - np.repeat(forest.cell_offsets[: len(sizes)], sizes)
        start = forest.trees.offsets[forest.shape_of_cell[: len(sizes)]]
        return ~self._variable[np.repeat(start, sizes) + within]

    def set(self, d: np.ndarray, b: np.ndarray, g: np.ndarray) -> None:
        self._count = len(d)  # of all nodes
        values = self._values(d, b, g)
        for array, new in zip(self.arrays[: None if self._any else 3], values):
            array.set(new.reshape(-1), self._queue)

    def _values(
        self, constant_d: np.ndarray, constant_b: np.ndarray, constant_g: np.ndarray
    ) -> Iterator[np.ndarray]:
        count, node = self._count, self._node
        constant = self._constant(count)
        # pivots of the constant nodes, the reduced diagonal of the others
        left = self._given("capacitance") / self._model.solved_dt + constant_d
        parent, u, steps = self._eliminated if self._any else (node, node, [])
        for nodes in reversed(steps[1:]):
            some = nodes[constant[nodes]]
            np.subtract.at(left, parent[some], u[some] ** 2 / left[some])
        inverse = np.where(constant, 1 / left, 0.0)
        at = node % count if count < self._model.of_nodes.count else node
        for a, slots in (
            (constant_g, at),
            (constant_b, at),
            (left, at[self.moving]),
            (inverse, at),
        ):
            yield a.astype(self._dtype)[slots]

    @property
    def _eliminated(self) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """Parents, entries beside the diagonal, and the steps of elimination of one round."""
        forest, count = self._model.forest, self._count
        if count < forest.num_nodes:
            cells = np.searchsorted(forest.cell_offsets, count)
            forest = Forest.from_trees(forest.trees, forest.shape_of_cell[:cells])
        return forest.parent, self._given("u"), reference.elimination_steps(forest)


_OF_PIVOTS = "u", "capacitance", "constant_d", "constant_b", "constant_g"
_WIDEST = 16  # numbers of OpenCL's vectors
_OF_MANY = 64  # bytes of a register, where a processor has enough of them for groups of two
TOGETHER = 4096  # nodes of the cells of a block, about
_SPARE = 1.1  # groups, over those of widest vectors, up to which narrower ones are chosen
_PAIR = 1.9  # groups of one register, over those of two, from which the latter are chosen
_WASTE = 1.25  # lanes, over cells, up to which cells of one shape share vectors


@dataclass(frozen=True, eq=False)
class LaneBlocks:
    """Rows of cells of one shape in blocks, nodes in order of elimination, rows by turns; int64."""

    cells: np.ndarray  # (num_rows, lanes), -1 where a lane has no cell
    first_row: np.ndarray  # (num_blocks + 1,)
    pattern: np.ndarray  # of each block: number of the shapes of its rows
    order: np.ndarray  # (slots of all patterns,): node in its shape
    row: np.ndarray  # row of the block; roots last
    parent: np.ndarray  # the parent's slot
    first: np.ndarray  # of each pattern: first entry in `order`
    sizes: np.ndarray
    constant: np.ndarray  # of each pattern: how many slots have constant pivots

    @property
    def count(self) -> int:
        return len(self.pattern)

    @property
    def window(self) -> int:
        """A power of two above the distance of any slot from its parent's."""
        slot = np.arange(len(self.parent)) - np.repeat(self.first, self.sizes)
        distance = int((self.parent - slot)[self.parent >= 0].max(initial=0))
        return 1 << distance.bit_length()

    @property
    def largest(self) -> int:
        """A power of two above the slots of any block."""
        return 1 << int(self.sizes.max(initial=0)).bit_length()

    @property
    def lanes(self) -> int:
        return self.cells.shape[1]

    @property
    def own(self) -> np.ndarray:
        """(num_rows, lanes) int64: cells; where a lane has none, that of the row's first lane."""
        return np.where(self.cells < 0, self.cells[:, :1], self.cells)


class SlotNodes:
    """Nodes in slots and lanes of blocks; lanes without a cell have those of the first lane."""

    def __init__(self, blocks: LaneBlocks, forest: Forest) -> None:
        self._blocks, self._forest = blocks, forest
        sizes = blocks.sizes[blocks.pattern]
        self.block_place = offsets(sizes) * blocks.lanes  # (num_blocks + 1,), first of each
        self.block = np.repeat(np.arange(len(sizes)), sizes)
        at = ranges(blocks.first[blocks.pattern], sizes)
        row = blocks.first_row[self.block] + blocks.row[at]
        number = np.int32 if blocks.lanes * len(at) < 2**31 else np.int64
        begin = forest.cell_offsets[blocks.own].astype(number)
        self.node = begin[row] + blocks.order[at].astype(number)[:, None]
        kept = (blocks.cells >= 0)[row]
        self.place = np.empty(forest.num_nodes, number)  # slot * lanes + lane
        places = np.arange(self.node.size, dtype=number).reshape(self.node.shape)
        self.place[self.node[kept]] = places[kept]

    def groups(
        self, kind: Kind, most: int, twice: bool, several: bool | None, rows: bool
    ) -> Groups:
        """Group the instances of a kind; see `make_groups`, or `groups_of_rows` for `rows`."""
        blocks, bounds = self._blocks, self._forest.cell_offsets
        # A lane without a cell computes what the first does, so that consecutive places stay so.
        cuts = np.searchsorted(kind.node, bounds)
        row, lane = np.nonzero(blocks.cells < 0)
        cell = blocks.cells[row, 0]
        counts = np.diff(cuts)[cell]
        idle = ranges(cuts[:-1][cell], counts)
        place = np.append(
            self.place[kind.node], self.place[kind.node[idle]] + np.repeat(lane, counts)
        )
        instance = np.append(np.arange(kind.count), ~idle)
        if rows and several:
            return groups_of_rows(instance, place, self.block_place, blocks.lanes)
        return make_groups(instance, place, self.block_place, most, twice, several)

    def in_order(self, groups: Groups) -> bool:
        """Whether each row has one group, of an instance for each cell in the order of cells."""
        places = np.arange(self.node.size).reshape(self.node.shape)
        ordered = np.array_equal(groups.position, np.arange(self._forest.num_cells))
        return bool(ordered and np.array_equal(groups.place, places))


def choose_lanes(forest: Forest, most: int, units: int) -> int:
    """Choose the cells of one shape in a vector: at `most`, few idle, a block for each unit."""
    counts = np.bincount(forest.shape_of_cell)
    lanes = most
    while lanes > 1:
        blocks = int((-(-counts // lanes)).sum())
        if blocks * lanes <= _WASTE * forest.num_cells and blocks >= units:
            break
        lanes //= 2
    return lanes


def choose_count(
    forest: Forest, units: int, lanes: int, widest: int, variable: np.ndarray
) -> int | None:
    """Choose as many blocks for each of `units`; None: one per row, as few divisions wait."""
    if lanes == widest or (lanes > 1 and variable.mean() < 0.5):
        return None
    return units * max(1, round(forest.num_nodes / TOGETHER / units))


def make_blocks(
    forest: Forest,
    variable: np.ndarray,
    lanes: int,
    classes: np.ndarray | None = None,
    count: int | None = None,
) -> LaneBlocks:
    """Put cells in rows by shape, and order their nodes: children first, classes side by side."""
    trees = forest.trees
    by_class = () if classes is None else (classes, -class_changes(trees, classes))
    root = trees.parent < 0
    keys = [-trees.depth, *(np.where(root, 0, key) for key in by_class), root, variable]
    by_shape = np.argsort(forest.shape_of_cell, kind="stable")
    counts = np.bincount(forest.shape_of_cell, minlength=trees.num_trees)
    rows = -(-counts // lanes)
    shape = forest.shape_of_cell[by_shape]
    within = np.arange(len(by_shape)) - starts(counts)[shape]
    cells = np.full((int(rows.sum()), lanes), -1)
    cells[starts(rows)[shape] + within // lanes, within % lanes] = by_shape
    of_row = np.repeat(np.arange(trees.num_trees), rows)
    first_row = np.arange(len(cells) + 1)
    if count is not None and count < len(cells):
        first_row = equal_parts(trees.sizes[of_row], count)
    numbers, blocks = dict[tuple[int, ...], int](), list[tuple[np.ndarray, ...]]()
    pattern = np.empty(len(first_row) - 1, np.int64)
    for block, (a, b) in enumerate(zip(first_row[:-1], first_row[1:], strict=True)):
        shapes = tuple(of_row[a:b].tolist())
        if shapes not in numbers:
            numbers[shapes] = len(blocks)
            blocks.append(eliminated(trees, shapes, keys))
        pattern[block] = numbers[shapes]
    at, row, parent = (np.concatenate(each) for each in zip(*blocks, strict=True))
    sizes = np.array([len(each[0]) for each in blocks])
    tree = np.repeat(np.arange(trees.num_trees), trees.sizes)
    return LaneBlocks(
        cells=cells,
        first_row=first_row,
        pattern=pattern,
        order=at - trees.offsets[tree[at]],
        row=row,
        parent=parent,
        first=starts(sizes),
        sizes=sizes,
        constant=np.add.reduceat((~variable[at]).astype(np.int64), starts(sizes)),
    )


def equal_parts(sizes: np.ndarray, count: int) -> np.ndarray:
    """(parts + 1,) int64: begins of parts of about the same size, `count` at most, and the end."""
    ends = np.cumsum(sizes)
    cuts = np.searchsorted(ends - sizes / 2, ends[-1] * np.arange(1, count) / count)
    return np.unique(np.concatenate(([0], cuts, [len(sizes)])))


def eliminated(
    trees: Trees, shapes: Sequence[int], keys: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """By slot: node, row, parent's slot or -1, of trees by turns, sorted by `keys`, last first."""
    sizes, first = trees.sizes[list(shapes)], trees.offsets[list(shapes)]
    at, row = ranges(first, sizes), np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((row, *(key[at] for key in keys)))
    slot, above = inverse(order), trees.parent[at]
    shift = np.repeat(first - starts(sizes), sizes)
    parent = np.where(above < 0, -1, slot[np.maximum(above - shift, 0)])
    return at[order], row[order], parent[order]


@dataclass(frozen=True, eq=False)
class Groups(KindColumns):
    """Instances of a kind in groups, block after block, by place; a group has lines of `width`.

    A lane without an instance has ``~instance`` of another one of the block: it computes with the
    same numbers, and nothing of it is kept.
    """

    by_node: ClassVar[bool] = False
    member: np.ndarray  # (groups, width)
    place: np.ndarray  # (groups, width), ascends
    first: np.ndarray  # (blocks + 1,): first group of each block

    @property
    def width(self) -> int:
        return self.member.shape[1]

    @property
    def source(self) -> np.ndarray:
        """(groups, width) int64: instances whose numbers lanes have."""
        return np.where(self.member < 0, ~self.member, self.member)

    @property
    def side_by_side(self) -> np.ndarray:
        """(groups,) bool: whether places follow each other."""
        return (np.diff(self.place, axis=1) == 1).all(axis=1)

    @property
    def first_members(self) -> np.ndarray:
        """(groups,) int64: the first of instances that follow each other; -1 where they do not."""
        follow = (np.diff(self.member, axis=1) == 1).all(axis=1) & (self.member[:, 0] >= 0)
        return np.where(follow, self.member[:, 0], -1)

    @cached_property
    def position(self) -> np.ndarray:
        """(count,) int64: of each instance ``group * width + lane``."""
        member = self.member.reshape(-1)
        kept = np.flatnonzero(member >= 0)
        position = np.empty(self.count, np.int64)
        position[member[kept]] = kept
        return position

    def at(self, instance: np.ndarray, column: int, columns: int) -> np.ndarray:
        group, lane = np.divmod(self.position[instance], self.width)
        return (group * columns + column) * self.width + lane

    def put(
        self, mem: Arena, name: str, values: Sequence[np.ndarray], before: np.ndarray = NONE
    ) -> None:
        """Add a region to an arena: some numbers, then the lines of a group, one after another."""
        source = self.source
        lines = np.stack([v[source] for v in values], axis=1) if values else NONE
        mem.add(name, np.concatenate([before, lines.reshape(-1)]))


def make_groups(
    instance: np.ndarray,
    place: np.ndarray,
    block_place: np.ndarray,
    most: int,
    twice: bool = False,
    several: bool | None = None,
) -> Groups:
    """Group a kind's instances, also ``~instance``, by place; `several`: if that is decided."""
    order = np.argsort(place, kind="stable")
    counts = np.bincount(stretch_of(block_place, place), minlength=len(block_place) - 1)
    width = choose_width(counts, most, twice)
    if several is not None:
        width = max(2, width) if several else 1
    groups = -(-counts // width)
    block = np.repeat(np.arange(len(counts)), groups * width)
    within = ranges(np.zeros_like(counts), groups * width)
    # The last group of a block is filled up with its last instance.
    at = order[starts(counts)[block] + np.minimum(within, counts[block] - 1)]
    member, shape = instance[at], (-1, width)
    member = np.where((within >= counts[block]) & (member >= 0), ~member, member)
    num = int((instance >= 0).sum())
    return Groups(num, member.reshape(shape), place[at].reshape(shape), offsets(groups))


def groups_of_rows(
    instance: np.ndarray, place: np.ndarray, block_place: np.ndarray, lanes: int
) -> Groups:
    """Group instances by rows, each in the lane of its place, second ones in another group."""
    order = np.argsort(place, kind="stable")
    by_place, at = instance[order], place[order]
    rank = np.arange(len(at)) - np.searchsorted(at, at)
    most = int(rank.max(initial=0)) + 1
    number, group = np.unique(at // lanes * most + rank, return_inverse=True)
    spare = np.empty(len(number), np.int64)
    spare[group] = np.where(by_place < 0, by_place, ~by_place)
    member = np.repeat(spare[:, None], lanes, axis=1)
    member[group, at % lanes] = by_place
    row = number // most * lanes
    found = row[:, None] + np.arange(lanes), np.searchsorted(row, block_place)
    return Groups(int((instance >= 0).sum()), member, *found)


def in_groups(
    model: Model,
    variable: np.ndarray,
    lanes: int,
    most: int,
    count: int | None = None,
    order: np.ndarray | None = None,
) -> dict[Mechanism, bool]:
    """Whether kinds advance several instances at a time, as in the whole network: bits depend.

    `order` is that of its cells, which otherwise is the one that they have.
    """
    forest = model.forest
    order = np.arange(forest.num_cells) if order is None else order
    ordered = Forest.from_trees(forest.trees, forest.shape_of_cell[order])
    blocks = make_blocks(ordered, variable, lanes, count=count)
    counts = [np.diff(np.searchsorted(k.node, forest.cell_offsets))[order] for k in model.kinds]
    each = [np.add.reduceat(c[blocks.own].sum(axis=1), blocks.first_row[:-1]) for c in counts]
    return {
        kind.mechanism: choose_width(numbers, most) > 1
        for kind, numbers in zip(model.kinds, each, strict=True)
    }


def takes_twice(most: int, itemsize: int) -> bool:
    """Whether a group may take two registers, of `most` numbers each; see `choose_width`."""
    return 2 * most <= _WIDEST and most * itemsize == _OF_MANY


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
