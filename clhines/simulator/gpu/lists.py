"""Lists of nodes for epochs of cells with many mechanisms: a warp advances nodes of one class.

A node's *class* is its set of density mechanisms. Each cell has *lists* with at most `WARP` nodes
of one class; a lane advances one node with all its mechanisms. If many cells with exact times are
in flight, a list may mix classes, and a lane skips mechanisms that its node lacks: fewer lists,
with less in them. A list's numbers are in *lines* of `WARP` numbers, one per lane, so that a warp
reads and writes whole lines:

                        lane 0   lane 1   lane 2  ...
    values of a list     factor   factor   factor        then d, (g, k with constant mechanisms,)
                         gnabar   gnabar   gnabar        then the parameters that vary
    states of a list     m        m        m             the states of each mechanism
    members of a list    3        17       -1            index in the cell of each instance, or -1

A list has as many entries for a point mechanism as its node with most instances. Point mechanisms
that are *apart* are in no list: lanes advance their instances one by one, see `takes_apart`. Cells
that are equal in shape, mechanisms and numbers share lists and values.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from copy import copy
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from clhines.core.arrays import offsets, ranges, starts, stretch_of
from clhines.core.errors import InputError
from clhines.simulator.gpu.words import LIST_HEAD, MAX_DENSITIES, RECORDED, WARP
from clhines.simulator.mechanisms.ir.program import unread_states
from clhines.simulator.model.model import Kind, Model
from clhines.solver.forest import Forest
from clhines.solver.plan import packing
from clhines.solver.plan.by_cell.layout import runs
from clhines.solver.plan.by_segment import codes, layout, schedule
from clhines.solver.plan.by_segment.cut import Cut
from clhines.solver.plan.layout import add_to_rows

_CACHED = 1 << 17  # entries per write, so that they stay in the cache
_SORTS = 4  # most different cells to find among cells with the same sum


class KindInstances:
    """Instances of mechanism `kind` in some `cells`: cell i has `count[i]`, from `first[i]` on.

    `bounds` are the node offsets of all cells (`Forest.cell_offsets`).
    """

    def __init__(self, kind: Kind, bounds: np.ndarray, cells: np.ndarray) -> None:
        self.kind, self.density = kind, kind.mechanism.kind == "density"
        self.unread: tuple[str, ...] = ()  # states without lines
        self.varying = kind.varying
        self.first = np.searchsorted(kind.node, bounds[cells])
        self.count = np.searchsorted(kind.node, bounds[cells + 1]) - self.first
        self._base = bounds[cells]

    @property
    def num_states(self) -> int:
        return len(self.kind.mechanism.states) - len(self.unread)

    def with_values(self, kind: Kind) -> KindInstances:
        lists = copy(self)
        lists.kind = kind
        lists.varying = kind.varying
        return lists

    @cached_property
    def numbers(self) -> np.ndarray:
        return ranges(self.first, self.count)

    @cached_property
    def cell(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.count)), self.count)

    def same(self, cells: np.ndarray, as_cell: int) -> np.ndarray:
        """Return whether each of `cells` has instances like those of the cell `as_cell`, (m,) bool.

        Instances are alike if their nodes in the cell and all numbers are equal.
        """
        count, first = int(self.count[as_cell]), int(self.first[as_cell])
        alike = self.count[cells] == count
        candidates = cells[alike]
        here = self.first[candidates]
        node = _stretches(self.kind.node, here, count) - self._base[candidates][:, None]
        good = (node == self.kind.node[first : first + count] - self._base[as_cell]).all(axis=1)
        for value in (self.kind.factor, *self.varying.values()):
            good &= (_stretches(value, here, count) == value[first : first + count]).all(axis=1)
        alike[alike] = good
        return alike


def stretch(first: np.ndarray, counts: np.ndarray) -> slice | np.ndarray:
    """Return all indices ``first[k]`` to ``first[k] + counts[k] - 1``, a slice if they adjoin."""
    if (np.diff(first) == counts[:-1]).all():
        return slice(int(first[0]), int(first[-1] + counts[-1]))
    return ranges(first, counts)


def _stretches(values: np.ndarray, first: np.ndarray, count: int) -> np.ndarray:
    """Return `count` values from each index in `first` on, (k, count)."""
    if (np.diff(first) == count).all():
        return values[first[0] : first[0] + count * len(first)].reshape(len(first), count)
    return np.lib.stride_tricks.sliding_window_view(values, count)[first]


class PlannedCells:
    """Cells that one kernel advances: ascending cell `numbers`, and their trees as a `forest`."""

    def __init__(self, model: Model, numbers: np.ndarray) -> None:
        self.model, self.numbers = model, numbers
        self.first = model.forest.cell_offsets[numbers]
        self.forest = model.forest.subset(numbers)
        self.kinds = [KindInstances(k, model.forest.cell_offsets, numbers) for k in model.kinds]
        pointed = model.added_kinds | {to.kind for to in model.read.values()}
        for k, kind in enumerate(self.kinds):
            blocks = kind.kind.mechanism.program.blocks
            if kind.density and "receive" not in blocks and k not in pointed:
                kind.unread = unread_states(blocks)

    @cached_property
    def nodes(self) -> np.ndarray:
        return ranges(self.first, self.forest.sizes)

    def first_equal(self, alike: Sequence[np.ndarray], apart: Container[int] = ()) -> np.ndarray:
        """Return for each cell the first cell that equals it, or the cell itself, (m,) int64.

        Equal cells agree in shape, passive properties, the arrays `alike` (with a value per node),
        and all mechanisms' instances except for the mechanisms `apart`.
        """
        kinds = [kind for k, kind in enumerate(self.kinds) if k not in apart]
        model, forest = self.model, self.forest
        columns = model.capacitance, model.constant_d, model.constant_b, model.u
        at = stretch(self.first, forest.sizes)
        arrays = [a[at] for a in (*columns, *alike)]
        result = np.arange(forest.num_cells)
        for cells in self._alike(arrays):
            for _ in range(_SORTS):
                first = int(cells[0])
                same = self._equal(cells, first, arrays, kinds)
                result[cells[same]] = first
                cells = cells[~same]
                if not len(cells):
                    break
        return result

    def _alike(self, arrays: list[np.ndarray]) -> Iterator[np.ndarray]:
        """Yield groups of cells that may be equal: with one shape and equal sums of `arrays`."""
        forest, rng = self.forest, np.random.default_rng(0)
        for shape in np.unique(forest.shape_of_cell).tolist():
            cells = np.flatnonzero(forest.shape_of_cell == shape)
            n, key = int(forest.sizes[cells[0]]), np.zeros(len(cells))
            first = forest.cell_offsets[cells]
            for a in arrays:
                key += (_stretches(a, first, n) * rng.random(n)).sum(axis=1)
            order = np.argsort(key, kind="stable")
            yield from np.split(cells[order], np.flatnonzero(np.diff(key[order])) + 1)

    def _equal(
        self, cells: np.ndarray, first: int, arrays: list[np.ndarray], kinds: list[KindInstances]
    ) -> np.ndarray:
        forest = self.forest
        begin, n = int(forest.cell_offsets[first]), int(forest.sizes[first])
        here, same = forest.cell_offsets[cells], np.ones(len(cells), bool)
        for a in arrays:
            same &= (_stretches(a, here, n) == a[begin : begin + n]).all(axis=1)
        for kind in kinds:
            same &= kind.same(cells, first)
        return same


class CellTable:
    """Lanes and device indices of some cells, and the entries in `u` that couple their nodes.

    In the matrix, ``u[i]`` couples node i to its parent. A coupling is stored as the node whose `u`
    has it. `cut` has each tree's segments, with at most `most` nodes, and `first` the network's
    index of each cell's first node. Cells with one shape share a *template*, the order of their
    nodes.
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
        """Return the node at each position in all templates (-1: none) and each node's position."""
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
        """Return the node whose `u` (coupling to the parent) each place and each lane uses.

        The first array has, by place, the coupling to the segment's next node, the second, by lane,
        the coupling to the parent segment; both for all templates.
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

        # by template entry: the tied node's place
        size = rows.template_size
        begin = starts(size)
        source = np.full(int(size.sum()), -1)
        last = j == length[k] - 1
        following = np.minimum(j + 1, length[k] - 1)
        source[begin[template[k]] + place(k, j)] = np.where(
            last, -1, place(k, np.where(leaf[k], j, following))
        )
        top = place(np.arange(len(length)), np.where(leaf, length - 1, 0))
        tie = np.where(source < 0, -1, self._node_at[np.repeat(begin, size) + source])
        return tie, self._node_at[begin[template] + top]

    def spread(self, name: str) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield slices of a device array, and the node for each entry of a slice, -1 for none.

        `name` selects the array: ``gather`` has the node at each device index. ``tie`` has, also by
        device index, the node whose `u` (the coupling to its parent) couples two nodes of a
        segment. ``up`` has, by lane, the node whose `u` couples the segment to its parent segment.
        Slices are small enough for the cache.
        """
        of_lanes, kind = name == "up", self.blocks.template
        within = {"gather": self._node_at, "tie": self._tie_at, "up": self._up_at}[name]
        size = np.diff(self.lanes.template_start) if of_lanes else self.rows.template_size
        begin, place = starts(size), self.lane_base if of_lanes else self.rows.block_start
        first = self._first[self.blocks.cells]
        first = first.astype(_index_type(first, self._forest.trees.sizes))
        for lo, hi in runs(kind):  # units with the same tree, one after another
            width, nodes = int(size[kind[lo]]), within[begin[kind[lo]] :][: size[kind[lo]]]
            step = max(1, _CACHED // max(1, width))
            for k in range(lo, hi, step):
                base = first[k : min(k + step, hi)]
                out = np.empty((len(base), width), first.dtype)
                add_to_rows(base, nodes, out)
                yield slice(int(place[k]), int(place[k]) + out.size), out.reshape(-1)

    def values(
        self,
        name: str,
        value: Callable[[np.ndarray], np.ndarray],
        dtype: DTypeLike = np.float64,
        padding: float = 0.0,
    ) -> np.ndarray:
        """Return ``value(nodes)`` in device order; `name` selects the nodes as in `spread`.

        Entries without a node get `padding`.
        """
        values = np.full(self.num_lanes if name == "up" else self.rows.size, padding, dtype)
        for here, index in self.spread(name):
            values[here] = np.where(index < 0, padding, value(index))
        return values

    @property
    def by_node(self) -> tuple[np.ndarray, ...]:
        """Further arrays, with a number per node, in which cells must agree to count as equal."""
        return ()

    @cached_property
    def gather(self) -> np.ndarray:
        """The network's node at each device index, -1 for padding, (size,) integer."""
        dtype = _index_type(self._first, self._forest.trees.sizes)
        return self.values("gather", lambda nodes: nodes, dtype, -1)

    def places_of_all(self) -> np.ndarray:
        forest = self._forest
        return self._place_of[ranges(forest.trees.offsets[forest.shape_of_cell], forest.sizes)]

    def places(self, nodes: np.ndarray) -> np.ndarray:
        forest = self._forest
        cell = stretch_of(forest.cell_offsets, nodes)
        within = nodes - forest.cell_offsets[cell]
        first = forest.trees.offsets[forest.shape_of_cell[cell]]
        return self.rows.block_start[self.unit_of_cell[cell]] + self._place_of[first + within]

    def lane_and_row(self, nodes: np.ndarray) -> np.ndarray:
        place = self.places(nodes)
        unit = np.searchsorted(self.rows.block_start, place, side="right") - 1
        template, inside = self.blocks.template[unit], place - self.rows.block_start[unit]
        flat = self.rows.rows[template].reshape(len(nodes), -1)
        at = (flat <= inside[:, None]).sum(
            axis=1
        ) - 1  # empty rows begin together with the next one
        most = self.rows.rows.shape[-1]
        column = inside - flat[np.arange(len(nodes)), at]
        leaf = at >= most
        lane = column + np.where(leaf, self.lanes.inner[template], 0)
        return RECORDED.pack(lane=lane, node=at % most)


_MOST = 2**31 - 1  # largest index on the device


class LaneNodes:
    """Put cells' nodes into lists of `WARP` nodes; equal cells share their lists.

    `sorts` are the cells that get lists of their own, and `place` has the place in its cell of each
    node of `cells`. With `natural` lists keep the nodes' order. With `joins` a list may mix
    mechanisms. Mechanisms `apart` and nodes that are not `listed` (None: all are) are in no list.

    - `natural`, `row`, `lane`, (k,): each node's network index, list, and lane
    - `instances`: for each mechanism, three numbers of each instance: its node's position in
      `natural`, its index in the mechanism, and its index in the cell
    - `cell`: each list's cell; `bits`: for each list, a bit for each density mechanism
    - `counts`: for each list and mechanism, the most instances at one node
    - `nodes`, `places`, `own`, (num_lists, WARP): each node's network index, place in the cell, and
      density mechanism bits
    """

    def __init__(
        self,
        cells: PlannedCells,
        sorts: np.ndarray,
        place: np.ndarray,
        natural: bool,
        apart: frozenset[int],
        joins: bool,
        listed: np.ndarray | None,
    ) -> None:
        forest, self.kinds, self.num_cells = cells.forest, cells.kinds, len(sorts)
        sizes = forest.sizes[sorts]
        local = ranges(forest.cell_offsets[sorts], sizes)  # indices in the plan
        cell, start = np.repeat(np.arange(len(sorts)), sizes), starts(sizes)
        position_of = np.arange(len(local))
        if listed is not None:
            has = listed[cells.nodes[local]]
            local, cell, position_of = local[has], cell[has], np.cumsum(has) - 1
        self.natural = cells.nodes[local]
        bits, cost = np.zeros(len(local), np.int64), np.zeros(len(local), np.int64)
        points, densities = list[np.ndarray](), 0
        self.instances = list[tuple[np.ndarray, np.ndarray, np.ndarray]]()
        for k, kind in enumerate(self.kinds):
            count = kind.count[sorts] * (k not in apart)
            number = ranges(kind.first[sorts], count)
            each = np.repeat(np.arange(len(sorts)), count)
            position = start[each] + kind.kind.node[number] - cells.first[sorts][each]
            position = position_of[position]
            self.instances.append((position, number, number - kind.first[sorts][each]))
            if kind.density:
                bits[position] |= 1 << densities
                densities += 1
                cost[position] += 1 + kind.num_states
            else:
                points.append(np.bincount(position, minlength=len(local)))
        first = np.arange(len(local)) if natural else place[local]
        order = np.lexsort((first, *points, bits, -cost, cell))
        weight = np.array([1 + kind.num_states for kind in self.kinds if kind.density], float)
        self.row, self.lane = (
            _mixed_rows(order, bits, cell, weight) if joins else _rows_and_lanes(order, bits, cell)
        )
        heads = np.full(int(self.row.max(initial=-1)) + 1, -1)
        heads[self.row[self.lane == 0]] = np.flatnonzero(self.lane == 0)  # each list's first node
        self.bits, self.cell = np.zeros(len(heads), np.int64), cell[heads]
        np.bitwise_or.at(self.bits, self.row, bits)
        self.mixed = bool((self.bits[self.row] != bits).any())
        self.first_list = np.searchsorted(self.cell, np.arange(len(sorts) + 1))
        self.nodes, self.places = (np.full((len(heads), WARP), -1) for _ in range(2))
        self.nodes[self.row, self.lane] = self.natural
        self.places[self.row, self.lane] = place[local]
        self.own = np.zeros((len(heads), WARP), np.int64)
        self.own[self.row, self.lane] = bits
        self._count(points)

    def _count(self, points: list[np.ndarray]) -> None:
        """Set `counts`: for each list, the most instances of each mechanism at one node.

        `points` has each point mechanism's instance count at each node.
        """
        self.counts, densities, left = list[np.ndarray](), 0, iter(points)
        for kind in self.kinds:
            if kind.density:
                self.counts.append((self.bits >> densities) & 1)
                densities += 1
            else:
                self.counts.append(np.zeros(len(self.bits), np.int64))
                np.maximum.at(self.counts[-1], self.row, next(left))

    def choose_warps(self, least: int, most: int, busy: bool) -> list[int]:
        """Return all warp counts per cell from `least` to `most`, the best first.

        Warp ``k % warps`` advances list k of a cell. If many cells are resident (`busy`), the warps
        should be equally loaded; otherwise the most loaded warp should have little to do.
        """
        cost = np.full(len(self.bits), 2)
        for count, kind in zip(self.counts, self.kinds, strict=True):
            cost += count * (1 + kind.num_states)
        rank = np.arange(len(cost)) - self.first_list[self.cell]
        choices = []
        for warps in range(least, max(least, most) + 1):
            load = np.bincount(self.cell * warps + rank % warps, cost, self.num_cells * warps)
            most_of_cell = load.reshape(self.num_cells, warps).max(axis=1)
            choices.append((most_of_cell.sum() * warps if busy else most_of_cell.max(), warps))
        return [warps for _, warps in sorted(choices)]

    def lines_of(self, kind: int) -> int:
        lines = self.counts[kind] * self.kinds[kind].num_states
        return int(np.bincount(self.cell, lines, self.num_cells).max())


def _rows_and_lanes(order: np.ndarray, bits: np.ndarray, cell: np.ndarray) -> np.ndarray:
    """Return the list and the lane of each of k nodes, (2, k).

    All nodes in a list have the same density mechanisms. `order` sorts the nodes by cell and
    mechanisms. `bits` has a bit for each density mechanism at a node, `cell` each node's cell.
    """
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(cell[order]) != 0) | (np.diff(bits[order]) != 0)
    run = np.cumsum(new) - 1
    rank = np.arange(len(order)) - np.flatnonzero(new)[run]
    places = np.empty((2, len(order)), np.int64)
    places[:, order] = starts(-(-np.bincount(run) // WARP))[run] + rank // WARP, rank % WARP
    return places


def _mixed_rows(
    order: np.ndarray, bits: np.ndarray, cell: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Return the list and the lane of each of k nodes, (2, k).

    A cell's lists mix nodes with different mechanisms if this saves work. See `_rows_and_lanes` for
    `order`, `bits` and `cell`. `weight` is each density mechanism's work.
    """
    split = _rows_and_lanes(order, bits, cell)
    filled = _rows_and_lanes(order, np.zeros_like(bits), cell)
    cost = [_weight_of(row, bits, cell, weight) for row, _ in (split, filled)]
    chosen = np.where((cost[1] < cost[0])[cell], filled, split)
    key = cell[order] * (len(order) + 1) + chosen[0][order]
    chosen[0, order] = np.unique(key, return_inverse=True)[1].reshape(-1)
    return chosen


def _weight_of(
    row: np.ndarray, bits: np.ndarray, cell: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    union = np.zeros(int(row.max(initial=-1)) + 1, np.int64)
    np.bitwise_or.at(union, row, bits)
    list_cell = np.zeros(len(union), np.int64)
    list_cell[row] = cell
    return np.bincount(list_cell, (union[:, None] >> np.arange(len(weight)) & 1) @ weight)


class LaneNumbers:
    """Instance parameters and node constants, in the order in which lanes read them.

    - `scalars`: values of parameters that are equal in a list; `uniform`: their names, by mechanism
    - `values`, (lines, WARP): all other numbers; list k begins at line `value_line[k]`
    - `members`, (lines, WARP): instance indices; list k begins at line `member_line[k]`
    - `places_of_nodes`: for each node, the index of its factor in `values`, and the node

    The diagonal is `WARP` entries behind the factor, constant conductance and current (with
    `inflow`) are ``2 * WARP`` and ``3 * WARP`` behind.
    """

    def __init__(self, lanes: LaneNodes, model: Model, inflow: bool) -> None:
        self.inflow = inflow
        self.uniform, self._of_lane = list[tuple[str, ...]](), list[list[str]]()
        self._find_uniform(lanes, model)
        row, lane, nodes = lanes.row, lanes.lane, lanes.natural
        d = model.capacitance_over_dt[nodes] + model.constant_d[nodes]
        columns = [np.zeros(len(nodes)), d]
        columns += [model.constant_g[nodes], model.constant_b[nodes]] if inflow else []
        zero, each = np.zeros(len(lanes.bits), np.int64), map(len, self._of_lane)
        members = np.stack([zero, *lanes.counts], axis=1)
        numbers = np.stack([zero, *(c * n for c, n in zip(lanes.counts, each))], axis=1)
        self.value_line = offsets(numbers.sum(axis=1) + len(columns))
        self.member_line = offsets(members.sum(axis=1))
        self.values = np.zeros((self.value_line[-1], WARP))
        self.members = np.full((self.member_line[-1], WARP), -1)
        self._places = list[tuple[np.ndarray, np.ndarray]]()
        for k, (kind, placed) in enumerate(zip(lanes.kinds, lanes.instances, strict=True)):
            position, number, member = placed
            names, here, column = self._of_lane[k], row[position], lane[position]
            again = np.arange(len(position)) - np.searchsorted(position, position)
            before = members[:, : k + 1].sum(axis=1)[here]
            self.members[self.member_line[here] + before + again, column] = member
            before = len(columns) + numbers[:, : k + 1].sum(axis=1)[here]
            line = self.value_line[here] + before + again * len(names)
            self._places.append((line * WARP + column, number))
            for p, name in enumerate(names):
                self.values[line + p, column] = kind.varying[name][number]
            if kind.density:
                columns[0][position] = kind.kind.factor[number]
        for j, value in enumerate(columns):
            self.values[self.value_line[row] + j, lane] = value
        self.places_of_nodes = self.value_line[row] * WARP + lane, nodes

    def _find_uniform(self, lanes: LaneNodes, model: Model) -> None:
        columns, num_lists = [], len(lanes.bits)
        for kind, (position, number, _) in zip(lanes.kinds, lanes.instances, strict=True):
            row, uniform = lanes.row[position], []
            for name, value in kind.varying.items():
                column = np.zeros(num_lists)
                column[row] = value[number]
                varies = not kind.density or (kind.kind.mechanism.name, name) in model.stored
                if not varies and (column[row] == value[number]).all():
                    uniform.append(name)
                    columns.append(column)
            self.uniform.append(tuple(uniform))
            self._of_lane.append([name for name in kind.varying if name not in uniform])
        self.scalars = np.stack(columns or [np.zeros(num_lists)], axis=1)

    def places_of(self, k: int, name: str) -> tuple[int, tuple[np.ndarray, np.ndarray]]:
        """Return where `values` has parameter `name` of mechanism `k`, for each instance.

        The result is an offset and a pair of arrays: indices in `values`, without the offset, and
        the numbers of the instances.
        """
        return self._of_lane[k].index(name) * WARP, self._places[k]


class NodeLists:
    """Lists of planned cells' nodes; InputError if there are too many mechanisms or numbers.

    With `inflow`, values include constant conductances and currents. `alike` has more arrays by
    node in which equal cells agree. With `natural`, lists keep the nodes' order: neighbours have
    close voltages and look up the same table rows. With `joins`, a list may mix mechanisms.
    Mechanisms `apart`, and nodes that are not `listed` (None: all are), are in no list.

    - `rows`: for each list: density mechanism bits; first lines of its values, of its states in
      global and in local memory (in the cell), and of its members; counts of point mechanisms
    - `homes`: for each unit: first device index and first lane of the unit whose couplings it uses;
      first and end of its lists; first line of its states
    - `instances`: each unit's first instance in each mechanism
    - `state_lines`, `local_lines`: state lines in global memory, and in local memory per unit
    """

    def __init__(
        self,
        cells: PlannedCells,
        table: CellTable,
        inflow: bool,
        alike: Sequence[np.ndarray] = (),
        natural: bool = False,
        apart: frozenset[int] = frozenset(),
        joins: bool = False,
        listed: np.ndarray | None = None,
    ) -> None:
        model, kinds = cells.model, cells.kinds
        if sum(k.density for k in kinds) > MAX_DENSITIES:
            raise InputError(f"more than {MAX_DENSITIES} mechanisms in membranes")
        self._stored = frozenset(model.stored)
        self.of_own_cells = bool(model.stored)  # equal cells do not share lists: values change
        every = np.arange(len(cells.numbers))
        like = every if self.of_own_cells else cells.first_equal(alike, apart)
        sorts, number = np.unique(like, return_inverse=True)
        self.lanes = LaneNodes(cells, sorts, table.places_of_all(), natural, apart, joins, listed)
        self.numbers = LaneNumbers(self.lanes, model, inflow)
        by_unit = np.argsort(table.unit_of_cell)
        self._sort_of_unit = sort = number.reshape(-1)[by_unit]
        twin, first_list = table.unit_of_cell[like[by_unit]], self.lanes.first_list
        self.homes = np.zeros((len(every), 8), np.int64)
        columns = table.units[twin, 0], table.units[twin, 7], first_list[sort], first_list[sort + 1]
        self.homes[:, :4] = np.stack(columns, axis=1)
        none = np.zeros((len(every), 0), np.int64)
        self.instances = np.stack([k.first[by_unit] for k in kinds], axis=1) if kinds else none

    def renew(self, model: Model, inflow: bool) -> bool:
        """Take over a changed model's parameters for the same cells; return False if impossible.

        It is impossible if equal cells share lists or the lists would change. With `inflow`, the
        parameters include constant conductances and currents.
        """
        lanes, old = copy(self.lanes), self.numbers
        if not self.of_own_cells or model.stored != self._stored or inflow != old.inflow:
            return False
        pairs = zip(lanes.kinds, model.kinds, strict=True)
        lanes.kinds = [instances.with_values(kind) for instances, kind in pairs]
        new = LaneNumbers(lanes, model, inflow)
        same = new.uniform == old.uniform and new.scalars.shape == old.scalars.shape
        same &= np.array_equal(new.value_line, old.value_line)
        if same:
            self.lanes, self.numbers = lanes, new
        return same

    def place_states(self, local: Sequence[bool]) -> None:
        """Give each list lines (of `WARP` numbers) for its states, in global or local memory.

        `local` says for each mechanism whether its states are in local memory.
        """
        lanes, numbers = self.lanes, self.numbers
        line, lines_of_cells = [], []
        for where in (False, True):
            each = [
                c * k.num_states
                for c, k, is_local in zip(lanes.counts, lanes.kinds, local, strict=True)
                if is_local == where
            ]
            lines: np.ndarray = np.sum([np.zeros(len(lanes.bits), np.int64), *each], axis=0)
            total = np.bincount(lanes.cell, lines, lanes.num_cells).astype(np.int64)
            line.append(starts(lines) - starts(total)[lanes.cell])
            lines_of_cells.append(total)
        points = [c for c, k in zip(lanes.counts, lanes.kinds, strict=True) if not k.density]
        head = lanes.bits, numbers.value_line[:-1], *line, numbers.member_line[:-1]
        self.rows = np.stack((*head, *points), axis=1)
        assert self.rows.shape[1] == LIST_HEAD + len(points)
        unit_lines = lines_of_cells[0][self._sort_of_unit]
        self.state_lines, self.local_lines = int(unit_lines.sum()), int(lines_of_cells[1].max())
        self.homes[:, 4] = starts(unit_lines)
        if max(self.state_lines, len(numbers.values)) * WARP > _MOST:
            raise InputError("too many states for 32-bit positions")


def _index_type(first: np.ndarray, sizes: np.ndarray) -> type[np.int32] | type[np.int64]:
    """Return the smallest integer type for node indices; cell k has ``sizes[k]`` nodes."""
    room = np.iinfo(np.int32).max - int(sizes.max())
    return np.int32 if int(first.max()) <= room else np.int64
