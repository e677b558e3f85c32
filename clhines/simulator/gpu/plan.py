"""Plan epochs on a GPU: group cells by size, give them lanes, and their instances slots.

A plan is for cells with about one size, which need equally many lanes in whole warps. Each plan has
its own kernel and launch, so that a small cell uses no more of a device than it needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from clhines.core.arrays import ranges, stretch_of
from clhines.core.errors import InputError
from clhines.simulator.gpu.columns import (
    MOST,
    ColumnTable,
    cut_columns,
    listed_nodes,
    sole_kinds,
)
from clhines.simulator.gpu.functions import BY_LAYERS, literal, node_words, takes_apart
from clhines.simulator.gpu.lists import CellTable, NodeLists, PlannedCells
from clhines.simulator.gpu.spec import EpochSpec, KindPlan
from clhines.simulator.gpu.words import MAX_UNITS, RECORDED, SITE, SLOT_RUN, WARP
from clhines.simulator.kinds.layouts import active_nodes
from clhines.simulator.model.model import Kind, Model
from clhines.simulator.state.decisions import Decisions
from clhines.solver.forest import Forest
from clhines.solver.plan.by_segment import codes, schedule
from clhines.solver.plan.by_segment.cut import cut_trees
from clhines.solver.plan.plan import Limits, real_name

# A work-group has `units` cells of a plan, each with lanes in whole warps; a lane has a segment.
# Invariant: between two barriers a place on the chip has one writer, so the bits do not depend on
# the other cells of a work-group. By instance, if all states fit into local memory, mechanisms add
# their sums to slots; otherwise lanes advance nodes with all their mechanisms, see `lists`:
#
#   by instance:  cell 0 [warp][warp]  cell 1 [warp][warp]     lane = instance, then slot, then node
#   by node:      cell 0 [warp: lists 0, 2, ..][warp: lists 1, 3, ..]    lane = node
#
# bench/notes/epochs.md has the measurements of lanes, cells and registers.


class InstanceSites:
    """Each instance's node, cell and slot in local memory, packed (`SITE`), for lanes.

    A work-group has `units` cells, and at most `most` instances of each mechanism. A lane adds up
    the currents in consecutive slots: of all instances at a node or, with `by_cell`, in a cell.
    """

    def __init__(self, cells: PlannedCells, table: CellTable, units: int, by_cell: bool) -> None:
        kinds, none = cells.kinds, np.zeros(0, np.int64)
        groups = np.arange(-(-len(cells.numbers) // units) + 1)
        cell = np.concatenate([none, *(k.cell for k in kinds)])
        number = np.concatenate([none, *(k.numbers for k in kinds)])
        node = np.concatenate([none, *(k.kind.node[k.numbers] for k in kinds)])
        places = table.places(node + cells.forest.cell_offsets[cell] - cells.first[cell])
        which = np.repeat(np.arange(len(kinds)), [len(k.numbers) for k in kinds])
        unit = table.unit_of_cell[cell]
        place, group = places - table.rows.block_start[unit], unit // units
        order = np.lexsort((which, place, unit))
        first = np.searchsorted(group[order], groups)
        slot = np.empty(len(node), np.int64)
        slot[order] = np.arange(len(node)) - first[group[order]]
        self.num_slots = int(np.diff(first).max()) if kinds else 0
        self._sites, self.most = [], list[int]()
        for k in range(len(kinds)):
            i = np.flatnonzero(which == k)
            i = i[np.lexsort((place[i], unit[i]))]
            starts = np.searchsorted(group[i], groups)
            site = {"place": place[i], "cell": unit[i] % units, "slot": slot[i]}
            self._sites.append((starts, number[i], site))
            self.most.append(max(1, int(np.diff(starts).max())))
        self._by_cell, key = by_cell, cells.numbers[cell] if by_cell else places
        size = cells.model.forest.num_cells if by_cell else table.rows.size
        self._count = np.bincount(key, minlength=size)
        self._first = np.full(size, self.num_slots)
        np.minimum.at(self._first, key, slot)

    @cached_property
    def instances(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """By mechanism: where each work-group's entries begin, and entries (instance, `SITE`)."""
        return [
            (starts, np.stack((instances, SITE.pack(**site)), axis=1))
            for starts, instances, site in self._sites
        ]

    @cached_property
    def slots(self) -> np.ndarray:
        """Each cell's first and end slot if `by_cell`, else each node's packed `SLOT_RUN`."""
        first, count = self._first, self._count
        if self._by_cell:
            return np.stack((first, first + count), axis=1).reshape(-1)
        return SLOT_RUN.pack(first=first, number=count)


# measured, see bench/notes/epochs.md
LISTS_FULL = 1  # with more cells per compute unit, throughput counts, not the time of one
_LISTS_GROUP = 128  # lanes in a work-group with several cells
_TOGETHER = 512  # likewise with exact times on NVIDIA, whose warps share instructions
_LISTS_REGISTERS = 72  # registers per work-item then
MOST_WARPS = 16  # per cell; with more lists it may have several work-groups
_REGISTERS = 1 << 16  # per multiprocessor


def choose_lanes(
    lists: NodeLists,
    spec: EpochSpec,
    limits: Limits,
    units: int | None,
    num_cells: int,
    spreads: bool = False,
) -> EpochSpec | None:
    """Choose lanes, cells per work-group and registers for kernels that read `lists`.

    Return `spec` with these choices, or None if a cell is too large for a work-group. `units` is
    the number of cells per work-group, None to choose; `num_cells` counts the network's cells. With
    `spreads`, a cell may have several work-groups, each on its own multiprocessor.
    """
    each = _cells_each(num_cells, limits)
    busy, plan_each = each > LISTS_FULL, _cells_each(len(lists.homes), limits)
    choices = lists.lanes.choose_warps(spec.lanes // WARP, MOST_WARPS, busy)
    most_lists = int(np.diff(lists.lanes.first_list).max())
    if spreads and most_lists > MOST_WARPS:
        parts = min(limits.compute_units // num_cells, -(-most_lists // (spec.lanes // WARP)))
        if parts > 1:
            spec = replace(spec, parts=parts, most_lists=most_lists)
            choices = [spec.lanes // WARP]
    # far: values of cells too large for local memory are in global memory
    for far, warps in product((False, True)[: 1 if spec.potentials else 2], choices):
        lanes = warps * WARP
        few = _LISTS_GROUP // lanes
        if spec.ptx and not spec.crowded:
            few = min(_TOGETHER // lanes, plan_each)
        most = 1 if far else units or max(1, min(few, MAX_UNITS))
        for count in range(most, 0, -1):
            group = lanes * count
            full = -(-group // (4 * WARP)) * 4 * WARP  # equally many warps per scheduler
            registers = _LISTS_REGISTERS if busy else min(_REGISTERS // full, 255) // 8 * 8
            if busy and not spec.crowded:
                registers = _more_registers(registers, group, -(-each // count))
            registers = registers if spec.ptx and not spec.potentials else 0
            chosen = replace(spec, lanes=lanes, units=count, registers=registers, far=far)
            if chosen.fits(limits):
                return _place_states(lists, chosen, limits)
    return None


def _more_registers(registers: int, group: int, most: int) -> int:
    """Return the most registers per work-item with which as many work-groups stay resident.

    They are as many as with `registers`, at least 1 and at most `most`. `group` is the work-group
    size.

    >>> _more_registers(72, 224, 30), _more_registers(72, 544, 30), _more_registers(72, 192, 3)
    (72, 96, 96)
    """
    together = min(most, max(1, _REGISTERS // (registers * group)))
    warps = -(-together * group // (4 * WARP))  # per scheduler
    return min(_REGISTERS // (warps * 4 * WARP), 255) // 8 * 8


def _place_states(lists: NodeLists, spec: EpochSpec, limits: Limits) -> EpochSpec:
    local = [False] * len(spec.kinds)
    for k, kind in enumerate(spec.kinds):
        wider = replace(spec, local_lines=spec.local_lines + lists.lanes.lines_of(k))
        in_lines = kind.density and not kind.takes_events
        if in_lines and lists.lanes.lines_of(k) and wider.fits(limits):
            spec, local[k] = wider, True
    lists.place_states(local)
    kinds = (replace(k, local=here) for k, here in zip(spec.kinds, local, strict=True))
    return replace(spec, kinds=tuple(kinds), local_lines=lists.local_lines)


MAX_DENSE = 16  # most nodes in a tree for a solve by the inverse matrix
_SEGMENTS = (4, 6, 8, 12, 16)  # most nodes in a segment; the first that suffices is used
_SHORT_SEGMENTS = (4, 6, 8)  # without constant factors
_FULL = 4  # with so many cells per compute unit throughput counts, not the time of one


# lanes per work-group (0: one cell's) and registers per work-item then, by precision and
# whether factors are constant; measured, see bench/notes/epochs.md
_BUSY = {
    ("double", True): (128, 128),
    ("float", True): (128, 96),
    ("double", False): (0, 128),
    ("float", False): (0, 80),
}
_TOGETHER_LEAST = 3  # work-groups per compute unit that registers leave room for
_SMALL_FIRST = 8  # with at most so many cells per compute unit, small cells are launched first
_CELL = 6  # a unit's column


class EpochPlan:
    """Plan the kernel that advances `cells`; InputError if they are too large for a GPU.

    Results must not depend on the rank count. So `decisions` hold for the network on all ranks, and
    `like` numbers all cells in this network, on any rank, that get the same plan. A segment has at
    most `most` nodes. A work-group has `units` cells, None to choose. With `by_node`, lanes advance
    nodes in lists, else instances.
    """

    def __init__(
        self,
        cells: PlannedCells,
        decisions: Decisions,
        like: np.ndarray,
        most: int,
        dtype: DTypeLike,
        limits: Limits,
        units: int | None = None,
        by_node: bool = False,
    ) -> None:
        self.cells, self._decisions, self._limits = cells, decisions, limits
        self._like, self._most, self._dtype = like, most, np.dtype(dtype)
        self.lists: NodeLists | None = None
        self.sites: InstanceSites | None = None
        forest, layered = cells.forest, cells.model.layers is not None
        if layered:
            forest, cut = cut_columns(decisions.network, cells)
        else:
            cut = cut_trees(forest.trees, most, forest.trees.parent < 0)
        if cut.lanes.max() > schedule.NO_LANE:  # the largest number means no lane
            raise self._too_large(int(cut.lanes.max()))
        self.table: CellTable = (
            ColumnTable(decisions.network, cells, forest, cut)
            if layered
            else CellTable(forest, cut, most, cells.first)
        )
        self.units = self.table.units.copy()
        self.units[:, _CELL] = cells.numbers[self.units[:, _CELL]]
        self.spec = self._plan(-(-int(cut.lanes.max()) // WARP) * WARP, units, by_node)

    @property
    def groups(self) -> int:
        return -(-len(self.cells.numbers) // self.spec.units) * self.spec.parts

    def _plan(self, lanes: int, units: int | None, by_node: bool) -> EpochSpec:
        model, limits, table = self.cells.model, self._limits, self.table
        constant = self._decisions.constant_factors
        before, dense = self._dense() if constant else (0, 0)
        spec = EpochSpec(
            real=real_name(self._dtype),
            constant=constant,
            inflow=self._decisions.inflow,
            lanes=lanes,
            extra=WARP if constant and model.kinds else 0,
            segment=self._most,
            capacity=int(table.units[:, 1].max()) + 1,
            rounds=max(1, int(table.lanes.rounds.max())),
            before=before,
            dense=dense,
            secondorder=model.secondorder,
            ptx=limits.ptx,
            fused=not limits.is_cpu,
            in_steps=not self._decisions.network.exact,
        )
        busy = _is_busy(self._decisions, limits)
        most, registers = _BUSY[spec.real, constant] if busy else (0, 0)
        if limits.ptx:
            spec = replace(spec, registers=registers)
        if by_node:
            return self._plan_nodes(spec, units)
        most_units = units or max(1, min(most // lanes, MAX_UNITS))
        chosen = self._plan_instances(spec, most_units, fills=not constant and not busy)
        if chosen is None:
            raise self._too_large(lanes)
        if not chosen.registers or constant:
            return chosen
        together = max(_TOGETHER_LEAST, _cells_each(-(-len(self._like) // chosen.units), limits))
        more = _more_registers(registers, chosen.work_group, together)
        return replace(chosen, registers=max(registers, more))

    def _plan_instances(self, spec: EpochSpec, most: int, fills: bool) -> EpochSpec | None:
        """Return the spec with at most `most` cells per work-group; None if one cell does not fit.

        With `fills`, a work-group gets as many lanes as all schedulers in a multiprocessor need.
        """
        model, constant = self.cells.model, spec.constant
        for count in range(most, 0, -1):
            sites = InstanceSites(self.cells, self.table, count, constant)
            specs = [
                replace(kind_plan(kind), most=each, factor=self._factor_of_capacitance(kind))
                for kind, each in zip(model.kinds, sites.most, strict=True)
            ]
            for local in (True, False):
                kinds = tuple(replace(kind, local=local) for kind in specs)
                chosen = replace(spec, units=count, slots=sites.num_slots, kinds=kinds)
                if fills and model.kinds:
                    chosen = replace(chosen, extra=-count * spec.lanes % (4 * WARP))
                if chosen.fits(self._limits):
                    self.sites = sites
                    return chosen
        return None

    def _plan_nodes(self, spec: EpochSpec, units: int | None) -> EpochSpec:
        model, limits = self.cells.model, self._limits
        network = self._decisions.network
        num_cells, exact = network.forest.num_cells, not spec.in_steps
        busy = _cells_each(num_cells, limits) > LISTS_FULL
        of_columns, listed = dict[str, Any](), None
        if model.layers is not None:
            sole, rows = sole_kinds(network, takes_apart(network)), model.layers.node
            listed = listed_nodes(network, model, sole)
            active = np.zeros(len(listed), bool)
            active[active_nodes(model)] = True
            active |= listed
            driven = [x for x in sorted({1, len(rows) - 1}) if active[rows[x][rows[x] >= 0]].any()]
            of_columns = {"potentials": len(rows), "driven": tuple(driven)}
        self.lists = NodeLists(
            self.cells,
            self.table,
            self._decisions.inflow,
            (model.constant_g, model.area, node_words(model), *self.table.by_node),
            natural=any(kind.mechanism.program.tables for kind in network.kinds),
            apart=takes_apart(network),
            joins=busy and exact,
            listed=listed,
        )
        spec = replace(
            spec,
            **of_columns,
            crowded=busy and not exact,
            kinds=tuple(map(kind_plan, model.kinds)),
            extra=0,
            by_node=True,
            uniform=tuple(self.lists.numbers.uniform),
        )
        spreads = limits.ptx and not network.pointers and not network.written
        meeting = {*BY_LAYERS, "read_pointers", "last_instances", "diffusion"}
        spreads &= not network.needs & meeting and listed is None
        chosen = choose_lanes(self.lists, spec, limits, units, num_cells, spreads)
        if chosen is None:
            raise self._too_large(spec.lanes)
        return chosen

    def _too_large(self, lanes: int) -> InputError:
        limits = self._limits
        return InputError(
            f"cells of {int(self.cells.forest.sizes.max())} nodes, {lanes} lanes: "
            f"too large to stay in {limits.local_bytes} bytes of local memory, with "
            f"{limits.max_work_group} work-items; use engine='steps'"
        )

    def _dense(self) -> tuple[int, int]:
        """Return the elimination rounds, and how many nodes of a tree the inverse matrix solves."""
        lanes = self.table.lanes
        if self._decisions.split:  # this rank may have only some trees that are planned alike
            trees = _one_of_each(self._decisions.network.forest, self._like).trees
            cut = cut_trees(trees, self._most, trees.parent < 0)
            number = np.arange(trees.num_trees)
            lanes = codes.segment_lanes(cut.segments, cut.contraction, number, number)
        inner = ranges(lanes.template_start[:-1], lanes.inner)
        when = schedule.AT_ELIMINATION.unpack("round", lanes.links[inner, 1])
        template = lanes.template[inner]
        for before in range(int(lanes.rounds.max()) + 1):
            left = int(np.bincount(template[when >= before]).max())
            if left <= MAX_DENSE:
                return before, -(-left // 4) * 4
        raise AssertionError("only the root is left after the last round")

    def _factor_of_capacitance(self, kind: Kind) -> str:
        network = self._decisions.network
        kind = next(k for k in network.kinds if k.mechanism == kind.mechanism)
        if kind.mechanism.kind != "density":
            return ""
        ratio = kind.factor / (network.of_nodes.at("capacitance", kind.node) / network.solved_dt)
        if np.ptp(ratio) > 8 * np.finfo(np.float64).eps * ratio.max():
            return ""
        return literal(float(ratio[0]), real_name(self._dtype))

    def lane_and_row(self, nodes: np.ndarray) -> np.ndarray:
        cells, cell = self.cells, stretch_of(self.cells.model.forest.cell_offsets, nodes)
        cell_number = np.minimum(np.searchsorted(cells.numbers, cell), len(cells.numbers) - 1)
        here = cells.numbers[cell_number] == cell
        shift = cells.forest.cell_offsets[cell_number] - cells.first[cell_number]
        return np.where(here, self.table.lane_and_row(np.where(here, nodes + shift, 0)), -1)


def kind_plan(kind: Kind) -> KindPlan:
    mechanism = kind.mechanism
    return KindPlan(
        states=tuple(mechanism.states),
        density=mechanism.kind == "density",
        takes_events=mechanism.takes_events,
    )


def recorded_lists(
    cell_offsets: np.ndarray, plans: Iterable[EpochPlan], nodes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return which lane records which node in `nodes`, cell by cell.

    The second result, (r, 2), has an entry for each node, sorted by cell and lane: the lane and the
    node's index in the lane's segment, packed as `RECORDED`, and the node's index in `nodes`. The
    first result, (num_cells + 1,), has each cell's first entry.
    """
    cells, at = stretch_of(cell_offsets, nodes), np.full(len(nodes), -1)
    for plan in plans if len(nodes) else ():
        at = np.maximum(at, plan.lane_and_row(nodes))
    order = np.lexsort((RECORDED.unpack("lane", at), cells))
    starts = np.searchsorted(cells[order], np.arange(len(cell_offsets)))
    return starts, np.stack((at[order], order), axis=1)


def plan_epochs(
    model: Model,
    dtype: DTypeLike,
    limits: Limits,
    segment: int | None = None,
    units: int | None = None,
    decisions: Decisions | None = None,
    by_node: bool | None = None,
    leading: np.ndarray | None = None,
) -> list[EpochPlan]:
    """Plan all cells, the largest first; InputError if a cell is too large for the chip.

    If there are few cells per compute unit, plans by instance come smallest first: their launches
    end earlier then (measured). Cells that need equally many lanes, in whole warps, have a plan of
    their own if there are enough to fill the device: a work-group gives each of its cells as many
    lanes and as much local memory as the largest. `segment` sets the most nodes in a segment, and
    `units` the cells per work-group; by default they are chosen. If `model` is one rank's part,
    `decisions` hold for the whole network. With `by_node`, lanes advance nodes; None: only for
    cells that do not fit otherwise. The cells `leading` get the first plan.
    """
    decisions = decisions or Decisions.of(model)
    forest, busy = decisions.network.forest, _is_busy(decisions, limits)
    if decisions.network.layers is None:
        most, lanes = _choose_segments(decisions.network, segment, busy)
    else:
        every = PlannedCells(decisions.network, np.arange(forest.num_cells))
        forest, cut = cut_columns(decisions.network, every)
        most, lanes = np.full(len(cut.lanes), MOST), cut.lanes
    size = (-(-lanes // WARP) << 8 | most)[forest.shape_of_cell]
    if not busy:
        size[:] = size.max()
    for few in np.unique(size)[:-1]:  # too few cells for their own launch join larger ones
        if np.count_nonzero(size == few) < _FULL * limits.compute_units:
            size[size == few] = size[size > few].min()
    if leading is not None:
        size[leading] = size.max() + 1
    most = most[forest.shape_of_cell]
    sizes = size[model.first_cell : model.first_cell + model.forest.num_cells]
    plans = []
    for k in np.unique(sizes)[::-1]:
        cells, like = np.flatnonzero(sizes == k), np.flatnonzero(size == k)
        longest, lists = int(most[like].max()), bool(by_node) and not decisions.constant_factors
        if by_node is None and not decisions.constant_factors:
            lists = _needs_lists(decisions, like, longest, dtype, limits)
        if lists and not segment and model.layers is None:
            short = _choose_segments(decisions.network, None, False)[0]
            longest = int(short[forest.shape_of_cell[like]].max())
        planned = PlannedCells(model, cells)
        plans.append(EpochPlan(planned, decisions, like, longest, dtype, limits, units, lists))
    few = leading is None and _cells_each(len(size), limits) <= _SMALL_FIRST
    return plans[::-1] if few and all(plan.lists is None for plan in plans) else plans


def _one_of_each(forest: Forest, cells: np.ndarray) -> Forest:
    return forest.subset(cells[np.unique(forest.shape_of_cell[cells], return_index=True)[1]])


def _needs_lists(
    decisions: Decisions, like: np.ndarray, most: int, dtype: DTypeLike, limits: Limits
) -> bool:
    """Whether cells are too large for kernels that advance instance by instance, and need lists."""
    network, largest = decisions.network, []
    for kind in network.kinds:
        bounds = np.searchsorted(kind.node, network.forest.cell_offsets)
        largest.append(np.diff(bounds)[like])
    if not largest:
        return False
    kinds = tuple(
        replace(kind_plan(kind), most=max(1, int(each.max())))
        for kind, each in zip(network.kinds, largest, strict=True)
    )
    forest = _one_of_each(network.forest, like)
    cut = cut_trees(forest.trees, most, forest.trees.parent < 0)
    if cut.lanes.max() > schedule.NO_LANE:
        return False
    lanes = -(-int(cut.lanes.max()) // WARP) * WARP
    size = CellTable(forest, cut, most, forest.cell_offsets[:-1]).rows.template_size.max()
    spec = EpochSpec(
        real=real_name(np.dtype(dtype)),
        inflow=decisions.inflow,
        lanes=lanes,
        extra=-lanes % (4 * WARP),
        segment=most,
        capacity=int(size) + 1,
        slots=int(np.sum(largest, axis=0).max()),
        ptx=limits.ptx,
        kinds=kinds,
    )
    return not spec.fits(limits)


def _cells_each(num_cells: int, limits: Limits) -> int:
    return -(-num_cells // limits.compute_units)


def _is_busy(decisions: Decisions, limits: Limits) -> bool:
    return decisions.network.forest.num_cells >= _FULL * limits.compute_units


def _choose_segments(
    model: Model, segment: int | None, busy: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each tree the most nodes in a segment, and the segment (lane) count.

    With constant factors a lane has little to do: all trees get the smallest node count with which
    the largest tree has at most 64 lanes. Otherwise each tree gets the smallest count with which it
    has at most 128 lanes, or 256 if the time of a single step counts: then the factors for a
    segment's nodes fit into registers.
    """
    trees = model.forest.trees
    constant = model.constant_factors
    sizes = (segment,) if segment else _SEGMENTS if constant else _SHORT_SEGMENTS
    room = 64 if constant else 128 if busy else 256
    most = np.zeros(trees.num_trees, np.int64)
    lanes = np.full(trees.num_trees, np.iinfo(np.int64).max)
    for size in sizes:
        new_lanes = cut_trees(trees, size, trees.parent < 0).lanes
        change = np.full(len(most), bool((lanes > room).any())) if constant else lanes > room
        most[change], lanes[change] = size, new_lanes[change]
        if lanes.max() <= room:
            break
    return most, lanes
