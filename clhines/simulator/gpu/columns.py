"""Epochs for cells with extracellular layers: segments of columns, and their constant factors.

A column is a node inside the cell with the nodes around it, see `model.layers`. A column *varies*
if mechanisms may change its membrane conductance. Segments end at varying columns, so that the
elimination of a segment's other columns is the same in each step, and known in advance:

    varying columns    O---o---o---o---O---o---o---o---O        one segment: o---o---o---O
                      root

Each step only passes right-hand sides on, by `Factors`: from column to column, and to the parent
segment's last column. Last columns are eliminated in rounds, as nodes are in other epochs, and then
have their potentials. In reverse order the other columns get theirs. Conductances are eliminated
star to mesh, so that nothing is subtracted.

A column's nodes are side by side: a node's place is its column's place times the number of
potentials, plus its layer number.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from functools import cached_property

import numpy as np

from clhines.core.arrays import ranges, starts, stretch_of
from clhines.simulator.gpu.lists import CellTable, PlannedCells, stretch
from clhines.simulator.gpu.words import RECORDED, ColumnRow
from clhines.simulator.kinds.layouts import active_nodes
from clhines.simulator.model.model import Model
from clhines.solver.forest import Forest
from clhines.solver.plan.by_segment import schedule
from clhines.solver.plan.by_segment.cut import Cut, cut_trees

MOST = 16  # most columns per segment
_DISTINCT = 1 << 20  # more factor rows are not compared


def varying_columns(network: Model) -> np.ndarray:
    """Return for each column whether it is a root or varies in any cell with its shape, (m,) bool.

    `network` is the model on all MPI ranks, so that each rank cuts a tree alike.
    """
    layers = network.layers
    assert layers is not None
    active = np.zeros(network.forest.num_nodes, bool)
    active[active_nodes(network)] = True
    forest = layers.forest
    node = ranges(forest.trees.offsets[forest.shape_of_cell], forest.sizes)
    of_trees = forest.trees.parent < 0
    np.logical_or.at(of_trees, node, active[layers.node[0]])
    return of_trees[node]


def constants_around(model: Model) -> bool:
    """Return whether nodes in extracellular layers have constant conductances or currents."""
    if model.layers is None:
        return False
    around = model.layers.node[1:][model.layers.node[1:] >= 0]
    return bool(model.constant_g[around].any() or model.constant_b[around].any())


def sole_kinds(network: Model, apart: Container[int]) -> frozenset[int]:
    """Return the mechanisms each of whose instances is alone at an extracellular node.

    The node has no other instance, ion, detector, constant conductance or constant current, so that
    a lane need not read a list to advance it. Only the mechanisms `apart` are considered: lanes
    advance their instances one by one.
    """
    if network.layers is None:
        return frozenset()
    count = (network.constant_g != 0) + (network.constant_b != 0) + 0
    count[network.layers.node[0]] = count[network.sources.detector_node] = 2
    for node in [k.node for k in network.kinds] + [ion.node for ion in network.ions]:
        np.add.at(count, node[node >= 0], 1)
    sole = (k for k, kind in enumerate(network.kinds) if k in apart and count[kind.node].max() < 2)
    return frozenset(sole)


def listed_nodes(network: Model, model: Model, sole: Iterable[int]) -> np.ndarray:
    """Return which nodes must be in a list of nodes, (n,) bool.

    Nodes with only the mechanisms `sole` need none, see `sole_kinds`.
    """
    assert model.layers is not None
    listed = (model.constant_g != 0) | (model.constant_b != 0)
    listed[active_nodes(model)] = True
    for k in sole:
        listed[model.kinds[k].node] = False
    listed[model.sources.detector_node] = True
    inside, (first, end) = model.layers.node[0], _columns_of(network, model)
    listed[inside] = varying_columns(network)[first:end]
    return listed


def _columns_of(network: Model, model: Model) -> tuple[int, int]:
    assert network.layers is not None
    cells = network.layers.of_cells[model.first_cell :]
    return int(cells[0]), int(cells[model.forest.num_cells])


def cut_columns(network: Model, cells: PlannedCells) -> tuple[Forest, Cut]:
    """Return a forest whose nodes are the columns of `cells`, and its segments."""
    layers, whole = cells.model.layers, network.layers
    assert layers is not None and whole is not None
    forest = layers.forest.subset(cells.numbers)
    example = np.unique(forest.shape_of_cell, return_index=True)[1]
    columns = whole.of_cells[cells.model.first_cell + cells.numbers[example]]
    ends = varying_columns(network)[ranges(columns, forest.trees.sizes)]
    return forest, cut_trees(forest.trees, MOST, ends, late=True)


class ColumnTable(CellTable):
    """Place columns of `cells` on the device, as `CellTable` places nodes.

    Inherited methods take and return nodes, not columns.
    """

    def __init__(self, network: Model, cells: PlannedCells, forest: Forest, cut: Cut) -> None:
        layers = cells.model.layers
        assert layers is not None
        first = layers.of_cells[cells.numbers]
        super().__init__(forest, cut, MOST, first)
        self.cells, self.layers = cells, layers
        self.units[:, :2] *= self.potentials
        begin, _ = _columns_of(network, cells.model)
        self.varying = np.append(varying_columns(network)[begin:], False)

    @property
    def potentials(self) -> int:
        return len(self.layers.node)

    @cached_property
    def column(self) -> np.ndarray:
        """The model's column at each position in the device's order of columns, -1 for padding."""
        return super().gather

    @cached_property
    def gather(self) -> np.ndarray:
        """The network's node at each device index, -1 for padding, (size,) integer."""
        node = np.where(self.column < 0, -1, self.layers.node[:, self.column])
        return node.T.reshape(-1)

    @cached_property
    def _of_nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Each planned node's column (index among planned columns) and layer."""
        result = np.zeros((2, self.cells.model.forest.num_nodes), np.int32)
        columns = stretch(self._first, self._forest.sizes)
        for row, nodes in enumerate(self.layers.node):
            here = nodes[columns]
            has = np.flatnonzero(here >= 0)
            result[0, here[has]], result[1, here[has]] = has, row
        column, layer = result[:, stretch(self.cells.first, self.cells.forest.sizes)]
        return column, layer

    def places_of_all(self) -> np.ndarray:
        column, layer = self._of_nodes
        return super().places_of_all()[column] * self.potentials + layer

    def lane_and_row(self, nodes: np.ndarray) -> np.ndarray:
        column, layer = (each[nodes] for each in self._of_nodes)
        lane = RECORDED.unpack("lane", super().lane_and_row(column))
        cell = stretch_of(self._forest.cell_offsets, column)
        begin = self.rows.block_start[self.unit_of_cell[cell]]
        place = (self.places(column) - begin) * self.potentials + layer
        return RECORDED.pack(lane=lane, node=place)

    @cached_property
    def by_node(self) -> tuple[np.ndarray, ...]:
        """`Layers`' conductances and capacitances by node: `axial`, `g` and `c`, (n,) each."""
        layers, n = self.layers, self.cells.model.forest.num_nodes
        arrays = np.zeros((3, n + 1))
        for array, values in zip(arrays, (layers.axial, layers.g, layers.c), strict=True):
            array[layers.node] = values  # the last one: no node
        return tuple(arrays[:, :n])

    def factors(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the index into the factor rows at each column position, and the distinct rows."""
        cells, every = self.cells, range(len(self.cells.kinds))
        like = cells.first_equal((*self.by_node, cells.model.constant_g), every)
        sorts, number = np.unique(like, return_inverse=True)
        units = self.unit_of_cell[sorts]
        rows = Factors(self, units).rows
        index = np.arange(len(rows))
        if len(rows) <= _DISTINCT:
            rows, index = np.unique(rows, axis=0, return_inverse=True)
        size = self.rows.template_size[self.blocks.template]
        at = ranges(starts(size[units])[number.reshape(-1)[self.blocks.cells]], size)
        result = np.zeros(self.rows.size, np.int64)
        result[ranges(self.rows.block_start, size)] = index.reshape(-1)[at]
        return result, rows


class Factors:
    """Eliminate the constant columns in all segments of some `units`, and store the factors.

    `rows` has a row of factors (see `ColumnRow`) for each column position of these units. Other
    arrays have a row for each lane, that is, for each segment.
    """

    def __init__(self, table: ColumnTable, units: np.ndarray) -> None:
        lanes, template = table.lanes, table.blocks.template[units]
        size, counts = table.rows.template_size[template], np.diff(lanes.template_start)[template]
        lane = ranges(lanes.template_start[template], counts)
        in_cell = lane - np.repeat(lanes.template_start[template], counts)
        inner, self._length = lanes.inner[lanes.template[lane]], lanes.length[lane]
        self._leaf = in_cell >= inner
        first = np.repeat(starts(size), counts) + np.where(self._leaf, in_cell - inner, in_cell)
        self._places = first[:, None] + table.rows.rows[lanes.template[lane], self._leaf + 0]
        above = schedule.LINK.unpack("parent", lanes.links[lane, 0])
        self._parent = np.where(
            above == schedule.NO_LANE, -1, above + np.repeat(starts(counts), counts)
        )
        column = table.column[ranges(table.rows.block_start[units], size)]
        self._row, k = ColumnRow(table.potentials), table.potentials
        self.rows = np.zeros((len(column), self._row.width))
        self._put_conductances(table, column)
        # sums for each lane's present column, its conductances to the top, and contributions
        self._ground, self._to_ground = np.zeros((2, len(lane), k))
        self._between, self._to_between, self._top = np.zeros((3, len(lane), k, k))
        up = self._axial[self._places[:, 0]] * ~self._leaf[:, None]
        self._top[:] = np.eye(k) * up[:, None]
        for j in range(int(self._length.max())):
            self._eliminate(j)
        self._put_last(up)

    def _put_conductances(self, table: ColumnTable, column: np.ndarray) -> None:
        model, k, row = table.cells.model, table.potentials, self._row
        nodes = np.where(column < 0, -1, table.layers.node[:, column]).T
        has, varies = nodes[:, 1] >= 0, table.varying[column]

        def of_inside(values: np.ndarray) -> np.ndarray:
            return np.append(values, 0.0)[nodes[:, 0]]

        self._axial, g, c = (np.append(a, 0.0)[nodes] for a in table.by_node)
        over = g + c / model.dt
        over[:, 0] = np.where(varies, 0, of_inside(model.capacitance_over_dt + model.constant_d))
        self._own_between, self._own_ground = np.zeros((len(nodes), k, k)), np.zeros(nodes.shape)
        for x in range(k - 1):
            self._own_between[:, x, x + 1] = np.where(has, over[:, x], 0)
            self._own_ground[:, x] = np.where(has, 0, 1 if x else over[:, x])
        self._own_ground[:, -1] = np.where(has, over[:, -1], 1)
        self.rows[:, row.g : row.axial] = g[:, 1:]
        self.rows[:, row.has] = has
        for n, values in enumerate((model.constant_g, model.constant_b)):
            self.rows[:, row.constant + n] = np.where(varies, 0, of_inside(values))

    def _eliminate(self, j: int) -> None:
        """Eliminate the j-th column of each segment, star to mesh.

        Last columns in inner segments remain: the kernel eliminates them in each step.
        """
        k = np.flatnonzero(j < self._length - ~self._leaf)
        place, row, rows = self._places[k, j], self._row, self.rows
        after = self._places[k, np.minimum(j + 1, self._length[k] - 1)]
        tie = self._axial[np.where(self._leaf[k], place, after)]
        rows[place, row.axial : row.has] = tie
        ground, between = self._ground[k] + self._own_ground[place], self._between[k]
        between += self._own_between[place]
        top, ahead = self._top[k], np.eye(tie.shape[1]) * tie[:, None]
        next_ground, (next_between, next_top) = np.zeros_like(ground), np.zeros((2, *top.shape))
        inner, to_next = row.inner, row.next
        for x in range(tie.shape[1]):
            inverse = 1 / (ground[:, x] + sum(a[:, x].sum(axis=1) for a in (between, top, ahead)))
            rows[place, x] = inverse
            for y in range(x + 1, tie.shape[1]):
                rows[place, inner] = part = between[:, x, y] * inverse
                inner += 1
                ground[:, y] += part * ground[:, x]
                between[:, y, y + 1 :] += part[:, None] * between[:, x, y + 1 :]
                top[:, y] += part[:, None] * top[:, x]
                ahead[:, y] += part[:, None] * ahead[:, x]
            for y in range(x + 1):
                rows[place, to_next] = part = ahead[:, x, y] * inverse
                to_next += 1
                next_ground[:, y] += part * ground[:, x]
                next_between[:, y, y + 1 :] += part[:, None] * ahead[:, x, y + 1 :]
                next_top[:, y] += part[:, None] * top[:, x]
            for y in range(tie.shape[1]):
                rows[place, row.top + x * tie.shape[1] + y] = part = top[:, x, y] * inverse
                self._to_ground[k, y] += part * ground[:, x]
                self._to_between[k, y, y + 1 :] += part[:, None] * top[:, x, y + 1 :]
        self._ground[k], self._between[k], self._top[k] = next_ground, next_between, next_top

    def _put_last(self, up: np.ndarray) -> None:
        """Add child segments' sums to their parents', and store the sums of last columns.

        `up` is the axial conductance from each segment to its parent's last column.
        """
        row, leaf = self._row, self._leaf
        self._to_ground[leaf], self._to_between[leaf] = self._ground[leaf], self._between[leaf]
        child = np.flatnonzero(self._parent >= 0)
        np.add.at(self._ground, self._parent[child], self._to_ground[child])
        np.add.at(self._between, self._parent[child], self._to_between[child])
        k = np.flatnonzero(~leaf)
        place = self._places[k, self._length[k] - 1]
        between = self._between[k] + self._own_between[place]
        self.rows[place, : row.inner] = self._ground[k] + self._own_ground[place]
        above, below = np.triu_indices(row.inner, 1)
        self.rows[place, row.inner : row.top] = between[:, above, below]
        self.rows[place, row.top : row.next] = self._top[k].reshape(len(k), -1)
        self.rows[place, row.axial : row.has] = up[k]
