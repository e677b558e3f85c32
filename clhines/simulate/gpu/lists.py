"""Lists of nodes for epochs of cells with many mechanisms: a warp takes nodes of one class.

A *class* of nodes is the set of their density mechanisms. Each cell has *lists* of at most `WARP`
nodes of one class, and a lane takes one node with all its mechanisms. What lists need lies in
*lines* of `WARP` numbers, one for each lane, so that a warp reads and writes whole lines:

    values of a list     factor, d, c, (k,) then of each mechanism the parameters that vary; with
                         exact times (g, k) after d, where there are constant mechanisms
    states of a list     of each mechanism its states
    members of a list    of each mechanism the number of its instance in the cell, -1 for none

A point mechanism comes as often in a list as the node has instances that has most of them. Cells
that are equal, in shape, mechanisms and numbers, share lists and values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clhines.arrays import offsets, ranges, starts
from clhines.errors import InputError
from clhines.forest import Forest
from clhines.model.model import Kind, Model
from clhines.simulate.gpu.spec import LIST_HEAD, MAX_DENSITIES, WARP

_MOST = 2**31 - 1  # positions on the device
_SORTS = 4  # different cells of a shape that are looked for


class _OfKind:
    """Instances of a kind in the cells of a plan."""

    def __init__(self, kind: Kind, model: Model, cells: np.ndarray) -> None:
        bounds = model.forest.cell_offsets
        self.kind, self.density = kind, kind.mechanism.kind == "density"
        self.first = np.searchsorted(kind.node, bounds[cells])
        self.count = np.searchsorted(kind.node, bounds[cells + 1]) - self.first
        self._base = bounds[cells]
        self.varying = [v for v in kind.parameters.values() if isinstance(v, np.ndarray)]
        self.num_states = len(kind.mechanism.states)
        self.stored = [n for name, n in model.stored if name == kind.mechanism.name]
        self.places = np.zeros(0, np.int64), np.zeros(0, np.int64)  # of instances, in `values`
        self.uniform: list[str] = []  # parameters that are one number in each list
        self.of_lane: list[np.ndarray] = []  # the other ones that vary

    def same(self, cells: np.ndarray, as_cell: int) -> np.ndarray:
        """(m,) bool: whether the instances of cells of the plan are those of another one."""
        count, of = int(self.count[as_cell]), int(self.first[as_cell])
        found = self.count[cells] == count
        some = cells[found]
        first = self.first[some]
        if (np.diff(first) == count).all():  # one after another: no index is needed
            at: slice | np.ndarray = slice(int(first[0]), int(first[0]) + count * len(some))
        else:
            at = (first[:, None] + np.arange(count)).reshape(-1)

        def repeats(values: np.ndarray, expected: np.ndarray) -> np.ndarray:
            return (values[at].reshape(len(some), count) == expected).all(axis=1)

        node = self.kind.node[at].reshape(len(some), count) - self._base[some][:, None]
        good = (node == self.within(as_cell)).all(axis=1)
        for value in (self.kind.factor, *self.varying):
            good &= repeats(value, value[of : of + count])
        found[found] = good
        return found

    def within(self, cell: int) -> np.ndarray:
        """Node of each instance of a cell of the plan, numbered in the cell."""
        span = slice(self.first[cell], self.first[cell] + self.count[cell])
        return self.kind.node[span] - self._base[cell]


class NodeLists:
    """Lists of nodes of the cells of a plan.

    Parameters
    ----------
    model : Model
    cells : (m,) int64
        Natural numbers.
    forest : Forest
        Of these cells alone.
    nodes : (k,) int64
        Their natural nodes.
    place : (k,) int64
        Of each node in its cell's values.
    unit_of_cell : (m,) int64
    units : (m, 8) int64
        Of the units, see `EpochPlan`; first places and first lanes of them.
    inflow : bool
        There are constant currents, of a network with exact times constant mechanisms.
    alike : sequence of (n,) array
        By natural node: what else cells must have in common to be equal.
    natural : bool
        Lists take nodes as they are numbered: neighbours, whose voltages are close and look up
        the same rows of tables, not places side by side.

    Attributes
    ----------
    rows : (num_lists, LIST_HEAD + number of point kinds) int64
        Bits of the density kinds, first line of values, of states (in the cell) in global and in
        local memory, of members; then how often each point kind comes.
    scalars : (num_lists, ...) float64
        Parameters that are one number in each list, of one kind after another.
    places : (num_lists, WARP) int64
        Place of each lane's node, -1 for none.
    values, members : (lines, WARP) float64 and int64
    homes : (num_units, 8) int64
        Of each unit: first place and first lane of a unit with the same ties, first and end of
        its lists, its first line of states.
    instances : (num_units, num_kinds) int64
        First instance of each kind.
    places_of_nodes : (k,) int64, (k,) int64
        Place in `values` and natural number of each node: its diagonal is `WARP` after that, its
        constant current ``3 * WARP``.
    nodes : (num_lists, WARP) int64
        Natural number of each lane's node, -1 for none; of one of the equal cells.
    of_own_cells : bool
        Each cell has lists of its own.
    state_lines, local_lines : int
        Of all units in global memory, of a unit in local memory.

    Raises
    ------
    InputError
        More mechanisms than a list has bits for, or too many numbers.
    """

    def __init__(
        self,
        model: Model,
        cells: np.ndarray,
        forest: Forest,
        nodes: np.ndarray,
        place: np.ndarray,
        unit_of_cell: np.ndarray,
        units: np.ndarray,
        inflow: bool,
        alike: Sequence[np.ndarray] = (),
        natural: bool = False,
    ) -> None:
        self._model, self._forest, self._nodes, self._inflow = model, forest, nodes, inflow
        self._alike, self._natural = alike, natural
        self._kinds = [_OfKind(kind, model, cells) for kind in model.kinds]
        if sum(k.density for k in self._kinds) > MAX_DENSITIES:
            raise InputError(f"more than {MAX_DENSITIES} mechanisms in membranes")
        self.of_own_cells = bool(model.stored)  # as their values are to change
        like = self._equal_cells()
        self._model_cells, number = np.unique(like, return_inverse=True)  # one of each
        number = number.reshape(-1)
        self._list(place)
        by_unit = np.argsort(unit_of_cell)
        self._of_unit = of = number[by_unit]
        twin = unit_of_cell[like[by_unit]]
        self.homes = np.zeros((len(cells), 8), np.int64)
        columns = units[twin, 0], units[twin, 7], self._first_list[of], self._first_list[of + 1]
        self.homes[:, :4] = np.stack(columns, axis=1)
        first = [k.first[by_unit] for k in self._kinds]
        self.instances = np.stack(first, axis=1) if first else np.zeros((len(cells), 0), np.int64)

    @property
    def uniform(self) -> list[tuple[str, ...]]:
        """Names of the parameters of each kind that are one number in each list."""
        return [tuple(kind.uniform) for kind in self._kinds]

    def _equal_cells(self) -> np.ndarray:
        """(m,) int64: of each cell the first one that is equal, of `_SORTS` in a shape, or it."""
        forest, model = self._forest, self._model
        result = np.arange(forest.num_cells)
        if self.of_own_cells:
            return result
        own = model.capacitance, model.constant_d, model.constant_b, model.u
        arrays = [a[self._nodes] for a in (*own, *self._alike)]
        for shape in np.unique(forest.shape_of_cell).tolist():
            cells = np.flatnonzero(forest.shape_of_cell == shape)
            for _ in range(_SORTS):
                first = int(cells[0])
                same = self._equal(cells, first, arrays)
                result[cells[same]] = first
                cells = cells[~same]
                if not len(cells):
                    break
        return result

    def _equal(self, cells: np.ndarray, first: int, arrays: list[np.ndarray]) -> np.ndarray:
        """(m,) bool: whether cells of one shape are equal to the first of them."""
        forest = self._forest
        begin, n = int(forest.cell_offsets[first]), int(forest.sizes[first])
        if (np.diff(cells) == 1).all():  # no index is needed
            at: slice | np.ndarray = slice(begin, begin + n * len(cells))
        else:
            at = (forest.cell_offsets[cells][:, None] + np.arange(n)).reshape(-1)
        same = np.ones(len(cells), bool)
        for a in arrays:
            same &= (a[at].reshape(-1, n) == a[begin : begin + n]).all(axis=1)
        for kind in self._kinds:
            same &= kind.same(cells, first)
        return same

    def _list(self, place: np.ndarray) -> None:
        """Make the lists of one cell of each sort."""
        forest, cells = self._forest, self._model_cells
        sizes = forest.sizes[cells]
        local = ranges(forest.cell_offsets[cells], sizes)  # nodes of the plan
        cell = np.repeat(np.arange(len(cells)), sizes)
        start = starts(sizes)
        bits, cost = np.zeros(len(local), np.int64), np.zeros(len(local), np.int64)
        points, at, instance = [], [], []
        densities = 0
        for kind in self._kinds:
            number = ranges(kind.first[cells], kind.count[cells])
            each = np.repeat(np.arange(len(cells)), kind.count[cells])
            base = self._nodes[local[start]]
            position = start[each] + kind.kind.node[number] - base[each]
            at.append(position)
            instance.append((number, number - kind.first[cells][each]))
            if kind.density:
                bits[position] |= 1 << densities
                densities += 1
                cost[position] += 1 + kind.num_states
            else:
                points.append(np.bincount(position, minlength=len(local)))
        first = np.arange(len(local)) if self._natural else place[local]
        keys = (first, *points, bits, -cost, cell)
        order = np.lexsort(keys)
        new = np.ones(len(order), bool)
        new[1:] = (np.diff(cell[order]) != 0) | (np.diff(bits[order]) != 0)
        begin = np.flatnonzero(new)
        run = np.cumsum(new) - 1
        rank = np.arange(len(order)) - begin[run]
        lists_of_run = -(-np.bincount(run) // WARP)
        row = starts(lists_of_run)[run] + rank // WARP
        self._of_node = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
        self._of_node[0][order], self._of_node[1][order] = row, rank % WARP
        first = order[np.searchsorted(row, np.arange(int(lists_of_run.sum())))]
        self.places = np.full((len(first), WARP), -1)
        self.places[self._of_node] = place[local]
        self._first_list = np.searchsorted(cell[first], np.arange(len(cells) + 1))
        most = [np.zeros(len(first), np.int64) for _ in points]
        for found, count in zip(most, points, strict=True):
            np.maximum.at(found, self._of_node[0], count)
        self._fill(local, bits[first], cell[first], most, at, instance)

    def _fill(
        self,
        local: np.ndarray,
        bits: np.ndarray,
        cell: np.ndarray,
        most: list[np.ndarray],
        at: list[np.ndarray],
        instance: list[tuple[np.ndarray, np.ndarray]],
    ) -> None:
        """Fill `values`, `members` and `rows`; `at` and `instance` are of each kind."""
        model, nodes = self._model, self._nodes[local]
        row, lane = self._of_node
        densities, points = 0, iter(most)
        self._cell, self._bits, self._most, self._counts = cell, bits, most, []
        for kind in self._kinds:
            self._counts.append((bits >> densities) & 1 if kind.density else next(points))
            densities += kind.density
        self._find_uniform([row[p] for p in at], [number for number, _ in instance])
        over_dt = model.capacitance_over_dt[nodes]
        of_node = [np.zeros(len(nodes)), over_dt + model.constant_d[nodes]]
        of_node += [over_dt] if not model.exact else []
        of_node += [model.constant_g[nodes]] if model.exact and self._inflow else []
        of_node += [model.constant_b[nodes]] if self._inflow else []
        zero = np.zeros(len(bits), np.int64)
        members = np.stack([zero, *self._counts], axis=1)
        given = np.stack(
            [zero, *(c * len(k.of_lane) for c, k in zip(self._counts, self._kinds))], axis=1
        )
        self._value_line = offsets(given.sum(axis=1) + len(of_node))
        self._member_line = offsets(members.sum(axis=1))
        self.values = np.zeros((self._value_line[-1], WARP))
        self.members = np.full((self._member_line[-1], WARP), -1)
        for k, (kind, position) in enumerate(zip(self._kinds, at, strict=True)):
            number, own = instance[k]
            here, column = row[position], lane[position]
            again = np.arange(len(position)) - np.searchsorted(position, position)
            before = members[:, : k + 1].sum(axis=1)[here]
            self.members[self._member_line[here] + before + again, column] = own
            before = len(of_node) + given[:, : k + 1].sum(axis=1)[here]
            line = self._value_line[here] + before + again * len(kind.of_lane)
            kind.places = line * WARP + column, number
            for p, value in enumerate(kind.of_lane):
                line = self._value_line[here] + before + again * len(kind.of_lane) + p
                self.values[line, column] = value[number]
            if kind.density:
                of_node[0][position] = kind.kind.factor[number]
        for j, value in enumerate(of_node):
            self.values[self._value_line[row] + j, lane] = value
        self.places_of_nodes = self._value_line[row] * WARP + lane, nodes
        self.nodes = np.full(self.places.shape, -1)
        self.nodes[row, lane] = nodes

    def places_of(self, k: int, name: str) -> tuple[int, tuple[np.ndarray, np.ndarray]]:
        """Offset in `values`, and place and instance of kind `k`, of a parameter of lanes."""
        kind = self._kinds[k]
        varying = [n for n, v in kind.kind.parameters.items() if isinstance(v, np.ndarray)]
        of_lane = [n for n in varying if n not in kind.uniform]
        return of_lane.index(name) * WARP, kind.places

    def _find_uniform(self, rows: list[np.ndarray], numbers: list[np.ndarray]) -> None:
        """Find the parameters that are one number in each list, and set `scalars`."""
        columns = []
        for kind, row, number in zip(self._kinds, rows, numbers, strict=True):
            for name, value in kind.kind.parameters.items():
                if not isinstance(value, np.ndarray):
                    continue
                column = np.zeros(len(self.places))
                column[row] = value[number]
                uniform = kind.density and name not in kind.stored
                if uniform and (column[row] == value[number]).all():
                    kind.uniform.append(name)
                    columns.append(column)
                else:
                    kind.of_lane.append(value)
        none = [np.zeros(len(self.places))] if not columns else []
        self.scalars = np.stack([*columns, *none], axis=1)

    def choose_warps(self, least: int, most: int, busy: bool) -> list[int]:
        """Numbers of warps of a cell, the best first.

        List k of a cell is of warp ``k % warps``. Where many cells are in flight the warps should
        be equally loaded; where few are, the one that has most to do should have little.

        Parameters
        ----------
        least, most : int
            Warps.
        busy : bool
            Many cells are in flight.
        """
        states = [k.num_states for k in self._kinds]
        cost = np.full(len(self._bits), 2)
        for count, number in zip(self._counts, states, strict=True):
            cost += count * (1 + number)
        rank = np.arange(len(cost)) - self._first_list[self._cell]
        found = []
        for warps in range(least, max(least, most) + 1):
            load = np.bincount(self._cell * warps + rank % warps, cost).max()
            found.append((load * warps if busy else load, warps))
        return [warps for _, warps in sorted(found)]

    def lines_of(self, kind: int) -> int:
        """Lines of states of a kind in the cell that has most of them."""
        lines = self._counts[kind] * self._kinds[kind].num_states
        return int(np.bincount(self._cell, lines, len(self._model_cells)).max())

    def place_states(self, local: Sequence[bool]) -> None:
        """Give lines to the states, in local memory those of the kinds that `local` says.

        Sets `rows`, `homes`, `state_lines`, and `local_lines` of a cell.
        """
        cells = len(self._model_cells)
        line, of_cell = [], []
        for where in (False, True):
            each = [
                c * k.num_states
                for c, k, is_local in zip(self._counts, self._kinds, local, strict=True)
                if is_local == where
            ]
            lines: np.ndarray = np.sum([np.zeros(len(self._bits), np.int64), *each], axis=0)
            total = np.bincount(self._cell, lines, cells).astype(np.int64)
            line.append(starts(lines) - starts(total)[self._cell])
            of_cell.append(total)
        head = self._bits, self._value_line[:-1], line[0], line[1], self._member_line[:-1]
        self.rows = np.stack((*head, *self._most), axis=1)
        assert self.rows.shape[1] == LIST_HEAD + len(self._most)
        of_unit = of_cell[0][self._of_unit]
        self.state_lines, self.local_lines = int(of_unit.sum()), int(of_cell[1].max())
        self.homes[:, 4] = starts(of_unit)
        if max(self.state_lines, len(self.values)) * WARP > _MOST:
            raise InputError("too many states for 32-bit positions")
