"""Cells of epochs on chip: their instances, and as units their lanes, places of nodes, and ties."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from copy import copy
from functools import cached_property

import numpy as np

from clhines.arrays import ranges, starts, stretch_of
from clhines.forest import Forest
from clhines.mechanisms.ir.program import unread_states
from clhines.model.model import Kind, Model
from clhines.plan import packing
from clhines.plan.by_cell.layout import runs
from clhines.plan.by_segment import codes, layout, schedule
from clhines.plan.by_segment.cut import Cut
from clhines.plan.layout import add_to_rows, index_type
from clhines.simulate.gpu.spec import RECORDED

_CACHED = 1 << 17  # entries written at once, which stay in the cache
_SORTS = 4  # different cells of a shape that are looked for


class KindInstances:
    """Instances of a kind in planned cells: `count` of each cell, numbered from `first` on."""

    def __init__(self, kind: Kind, bounds: np.ndarray, cells: np.ndarray) -> None:
        self.kind, self.density = kind, kind.mechanism.kind == "density"
        self.unread: tuple[str, ...] = ()  # states that have no lines
        self.varying = {n: v for n, v in kind.parameters.items() if isinstance(v, np.ndarray)}
        self.first = np.searchsorted(kind.node, bounds[cells])
        self.count = np.searchsorted(kind.node, bounds[cells + 1]) - self.first
        self._base = bounds[cells]

    @property
    def num_states(self) -> int:
        """States that have lines."""
        return len(self.kind.mechanism.states) - len(self.unread)

    def with_values(self, kind: Kind) -> KindInstances:
        """Return the same instances with the values of a kind, which is that of another model."""
        found = copy(self)
        found.kind = kind
        found.varying = {n: v for n, v in kind.parameters.items() if isinstance(v, np.ndarray)}
        return found

    @cached_property
    def numbers(self) -> np.ndarray:
        """(i,) int64: numbers of all instances, cell after cell."""
        return ranges(self.first, self.count)

    @cached_property
    def cell(self) -> np.ndarray:
        """(i,) int64: the planned cell of each of `numbers`."""
        return np.repeat(np.arange(len(self.count)), self.count)

    def same(self, cells: np.ndarray, as_cell: int) -> np.ndarray:
        """(m,) bool: whether instances of planned cells equal those of another one."""
        count, of = int(self.count[as_cell]), int(self.first[as_cell])
        found = self.count[cells] == count
        some = cells[found]
        first = self.first[some]
        if (np.diff(first) == count).all():  # one after another: no index is needed
            at: slice | np.ndarray = slice(int(first[0]), int(first[0]) + count * len(some))
        else:
            at = (first[:, None] + np.arange(count)).reshape(-1)
        node = self.kind.node[at].reshape(len(some), count) - self._base[some][:, None]
        good = (node == self.kind.node[of : of + count] - self._base[as_cell]).all(axis=1)
        for value in (self.kind.factor, *self.varying.values()):
            repeats = value[at].reshape(len(some), count) == value[of : of + count]
            good &= repeats.all(axis=1)
        found[found] = good
        return found


class PlannedCells:
    """Cells of a model that one kernel advances.

    `numbers`, which ascend, and `first`, the first natural node of each, are in the model; `forest`
    is of these cells alone.
    """

    def __init__(self, model: Model, numbers: np.ndarray) -> None:
        self.model, self.numbers = model, numbers
        self.first = model.forest.cell_offsets[numbers]
        self.forest = model.forest.subset(numbers)
        self.kinds = [KindInstances(k, model.forest.cell_offsets, numbers) for k in model.kinds]
        for kind in self.kinds if model.has_times else ():
            blocks = kind.kind.mechanism.program.blocks
            if kind.density and "receive" not in blocks:
                kind.unread = unread_states(blocks)

    @cached_property
    def nodes(self) -> np.ndarray:
        """(k,) int64: natural numbers of the nodes, cell after cell."""
        return ranges(self.first, self.forest.sizes)

    def first_equal(self, alike: Sequence[np.ndarray], apart: Container[int] = ()) -> np.ndarray:
        """(m,) int64: of each cell the first one that is equal, of `_SORTS` in a shape, or itself.

        Equal in shape, instances but those of kinds `apart`, and numbers of nodes, `alike` among
        them, (n,) natural.
        """
        kinds = [kind for k, kind in enumerate(self.kinds) if k not in apart]
        model, forest = self.model, self.forest
        own = model.capacitance, model.constant_d, model.constant_b, model.u
        arrays = [a[self.nodes] for a in (*own, *alike)]
        result = np.arange(forest.num_cells)
        for shape in np.unique(forest.shape_of_cell).tolist():
            cells = np.flatnonzero(forest.shape_of_cell == shape)
            for _ in range(_SORTS):
                first = int(cells[0])
                same = self._equal(cells, first, arrays, kinds)
                result[cells[same]] = first
                cells = cells[~same]
                if not len(cells):
                    break
        return result

    def _equal(
        self, cells: np.ndarray, first: int, arrays: list[np.ndarray], kinds: list[KindInstances]
    ) -> np.ndarray:
        """(m,) bool: whether cells of one shape are equal to the first of them."""
        forest = self.forest
        begin, n = int(forest.cell_offsets[first]), int(forest.sizes[first])
        if (np.diff(cells) == 1).all():  # no index is needed
            at: slice | np.ndarray = slice(begin, begin + n * len(cells))
        else:
            at = (forest.cell_offsets[cells][:, None] + np.arange(n)).reshape(-1)
        same = np.ones(len(cells), bool)
        for a in arrays:
            same &= (a[at].reshape(-1, n) == a[begin : begin + n]).all(axis=1)
        for kind in kinds:
            same &= kind.same(cells, first)
        return same


class CellTable:
    """Planned cells as units: lanes, places of the nodes, ties between them.

    `cut` is of the trees of `forest`, with `most` nodes in a segment; `first` as of `PlannedCells`.
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
