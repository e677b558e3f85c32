"""Plan of epochs on chip: cells by size, their lanes and places, where mechanisms leave their sums.

A plan is for cells of about one size: those that need as many lanes, in whole warps. Each has its
own kernel and its own launch, so that a small cell takes no more of a device than it needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from clhines.arrays import ranges, stretch_of
from clhines.errors import InputError
from clhines.forest import Forest
from clhines.mechanisms.emit.noise import normal_source
from clhines.model.model import Kind, Model
from clhines.plan.by_segment import codes, schedule
from clhines.plan.by_segment.cut import cut_trees
from clhines.plan.plan import Limits, real_name
from clhines.simulate.gpu.cells import CellTable
from clhines.simulate.gpu.exact_lists import node_words
from clhines.simulate.gpu.exact_spec import ExactEpochSpec
from clhines.simulate.gpu.lanes import LISTS_FULL, choose_lanes
from clhines.simulate.gpu.lists import NodeLists
from clhines.simulate.gpu.rates import side_by_side
from clhines.simulate.gpu.spec import (
    MAX_UNITS,
    SITE,
    SLOT_RUN,
    WARP,
    EpochSpec,
)
from clhines.simulate.kinds.spec import MechanismSpec, described, grouped_kind_spec, kind_spec
from clhines.simulate.state.decisions import Decisions

MAX_DENSE = 16  # nodes of a tree that are solved by the inverse of their matrix
_SEGMENTS = (4, 6, 8, 12, 16)  # most nodes of a segment, of which the first that does is taken
_SHORT_SEGMENTS = (4, 6, 8)  # without constant factors
_FULL = 4  # cells a compute unit, from which on those in flight count, not the time of one


# lanes of a work-group (0: of one cell) and registers of a work-item then, by precision and whether
# factors are constant; measured, see bench/notes/epochs.md
_BUSY = {
    ("double", True): (128, 128),
    ("float", True): (128, 96),
    ("double", False): (0, 128),
    ("float", False): (0, 80),
}
_CELL = 6  # column of a unit


class EpochPlan:
    """Cells that one kernel advances, `units` of them in a work-group.

    Parameters
    ----------
    model : Model
    decisions : Decisions
    cells : (m,) int64
        Natural numbers, ascending.
    like : (k,) int64
        Those of the whole network that are planned alike, these among them.
    most : int
        Most nodes of a segment.
    dtype : float64 or float32
    limits : Limits
    units : int, optional
        Cells of a work-group; chosen where not given.
    by_node : bool
        Whether lanes take nodes, not instances.

    Attributes
    ----------
    cells : (m,) int64
    lists : NodeLists or None
    units : (m, 8) int64
        Of each cell what the kernels take, in the order of the plan.
    spec : EpochSpec
    instances : list of two integer arrays
        For each kind where the instances of each work-group begin, and number and `SITE` of each.
    slots : (2 * num_cells,) or (size,) integer
        First and end slot of each cell of the model; or `SLOT_RUN` of each place.

    Raises
    ------
    InputError
        A cell is too large for a work-group.
    """

    def __init__(
        self,
        model: Model,
        decisions: Decisions,
        cells: np.ndarray,
        like: np.ndarray,
        most: int,
        dtype: DTypeLike,
        limits: Limits,
        units: int | None = None,
        by_node: bool = False,
    ) -> None:
        self._model, self._limits, self._dtype = model, limits, np.dtype(dtype)
        self._decisions = decisions
        self.cells, self._like, self._most = cells, like, most
        self._first = model.forest.cell_offsets[cells]
        forest = model.forest.take(cells)
        cut = cut_trees(forest.trees, most, forest.trees.parent < 0)
        if cut.lanes.max() > schedule.NO_LANE:  # the last number says that there is none
            raise self._too_large(int(cut.lanes.max()))
        self._forest, self.table = forest, CellTable(forest, cut, most, self._first)
        table = self.table
        self.units = table.units.copy()
        self.units[:, _CELL] = cells[table.units[:, _CELL]]
        self.spec = self._plan(-(-int(cut.lanes.max()) // WARP) * WARP, units, by_node)

    @cached_property
    def nodes(self) -> np.ndarray:
        """(k,) int64: natural numbers of the nodes of the cells, in order."""
        return ranges(self._first, self._forest.sizes)

    @property
    def groups(self) -> int:
        """Number of work-groups."""
        return -(-len(self.cells) // self.spec.units)

    def _plan(self, lanes: int, units: int | None, by_node: bool) -> EpochSpec:
        model, limits, table = self._model, self._limits, self.table
        constant = self._decisions.constant_factors
        before, dense = self._dense() if constant else (0, 0)
        make = EpochSpec if not model.exact else ExactEpochSpec
        spec = make(
            real=real_name(self._dtype),
            phase="advance",
            constant=constant,
            inflow=self._decisions.inflow,
            lanes=lanes,
            units=1,
            extra=WARP if constant and model.kinds else 0,
            segment=self._most,
            capacity=int(table.rows.template_size.max()) + 1,
            rounds=max(1, int(table.lanes.rounds.max())),
            before=before,
            dense=dense,
            slots=0,
            secondorder=model.secondorder,
            ptx=limits.ptx,
            fused=not limits.is_cpu,
            side_by_side=not constant and bool(model.kinds),
            normal=normal_source(real_name(self._dtype))
            if any(k.mechanism.uses_noise for k in model.kinds)
            else "",
        )
        busy = _is_busy(self._decisions, limits)
        most, registers = _BUSY[spec.real, constant] if busy else (0, 0)
        if limits.ptx:
            spec = replace(spec, registers=registers)
        self.lists: NodeLists | None = None
        if by_node:
            return self._plan_nodes(spec, units)
        for count in range(units or max(1, min(most // lanes, MAX_UNITS)), 0, -1):
            found, slots = self._list_instances(count)
            for local in (True, False):
                kinds = tuple(replace(kind, local=local) for kind in found)
                chosen = replace(spec, units=count, slots=slots, kinds=kinds)
                if not constant and not busy and model.kinds:  # all schedulers of a multiprocessor
                    chosen = replace(chosen, extra=-count * lanes % (4 * WARP))
                if chosen.fits(limits):
                    self._pack_instances()
                    return chosen
        raise self._too_large(lanes)

    def _one_of_each(self) -> Forest:
        """One cell of each shape of the whole network that is planned alike."""
        return _one_of_each(self._decisions.network.forest, self._like)

    def _plan_nodes(self, spec: EpochSpec, units: int | None) -> EpochSpec:
        """Plan lists of nodes instead of instances."""
        table, model, limits = self.table, self._model, self._limits
        self.lists = NodeLists(
            model, self.cells, self._forest, self.nodes, table.places_of_all(),
            table.unit_of_cell, table.units, self._decisions.inflow,
            (model.area, model.constant_g, node_words(model)) if model.exact else (),
            natural=model.exact,
        )  # fmt: skip
        plain = not model.exact
        kinds = (self._kind_spec(k, 0, True) if plain else described(k) for k in model.kinds)
        spec = replace(
            spec,
            kinds=tuple(replace(kind, local=False) for kind in kinds),
            extra=0,
            by_node=True,
            uniform=tuple(self.lists.uniform),
        )
        busy = self._decisions.num_cells > LISTS_FULL * limits.compute_units
        chosen = choose_lanes(self.lists, spec, limits, units, busy)
        if chosen is None:
            raise self._too_large(spec.lanes)
        return chosen

    def _too_large(self, lanes: int) -> InputError:
        limits = self._limits
        return InputError(
            f"cells of {int(self._model.forest.sizes[self.cells].max())} nodes, {lanes} lanes: "
            f"too large to stay in {limits.local_bytes} bytes of local memory, with "
            f"{limits.max_work_group} work-items; use engine='steps'"
        )

    def _dense(self) -> tuple[int, int]:
        """Find the rounds after which few nodes of all trees are left, and how many."""
        lanes = self._lanes_of_all()
        inner = ranges(lanes.template_start[:-1], lanes.inner)
        when, template = (
            schedule.AT_ELIMINATION.unpack("round", lanes.links[inner, 1]),
            lanes.template[inner],
        )
        for before in range(int(lanes.rounds.max()) + 1):
            left = int(np.bincount(template[when >= before]).max())
            if left <= MAX_DENSE:
                return before, -(-left // 4) * 4
        raise AssertionError("only the root is left after the last round")

    def _lanes_of_all(self) -> codes.SegmentLanes:
        """Lanes of all trees that are planned alike, of which those here may be some."""
        if not self._decisions.split:
            return self.table.lanes
        trees = self._one_of_each().trees
        cut = cut_trees(trees, self._most, trees.parent < 0)
        number = np.arange(trees.num_trees)
        return codes.segment_lanes(cut.segments, cut.contraction, number, number)

    @cached_property
    def _instances_of_cells(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Of each kind, the instances of the cells and the cell of each, as numbered here."""
        found, ends = [], self._first + self._forest.sizes
        for kind in self._model.kinds:
            first = np.searchsorted(kind.node, self._first)
            count = np.searchsorted(kind.node, ends) - first
            found.append((ranges(first, count), np.repeat(np.arange(len(count)), count)))
        return found

    def _list_instances(self, units: int) -> tuple[list[MechanismSpec], int]:
        """List instances of each group of `units` cells, and the slots that they write to."""
        table, kinds = self.table, self._model.kinds
        mine = self._instances_of_cells
        groups = -(-len(self.cells) // units)
        none = np.zeros(0, np.int64)
        nodes = [k.node[i] for k, (i, _) in zip(kinds, mine, strict=True)]
        cell = np.concatenate([none, *(cell for _, cell in mine)])
        node = np.concatenate([none, *nodes])
        node += self._forest.cell_offsets[cell] - self._first[cell]
        which = np.repeat(np.arange(len(kinds)), [len(i) for i, _ in mine])
        unit = table.unit_of_cell[cell]
        place = table.places(node) - table.rows.block_start[unit]
        order = np.lexsort((which, place, unit))
        first = np.searchsorted(unit[order] // units, np.arange(groups + 1))
        slot = np.empty(len(node), np.int64)
        slot[order] = np.arange(len(node)) - first[unit[order] // units]
        self._sites, specs = [], []
        for k, kind in enumerate(kinds):
            some = np.flatnonzero(which == k)
            sort = np.lexsort((place[some], unit[some]))
            some = some[sort]
            starts = np.searchsorted(unit[some] // units, np.arange(groups + 1))
            site = {"place": place[some], "cell": unit[some] % units, "slot": slot[some]}
            self._sites.append((starts, mine[k][0][sort], site))
            specs.append(
                self._kind_spec(
                    kind,
                    max(1, int(np.diff(starts).max())),
                    not self._decisions.constant_factors,
                    _factor_of_capacitance(self._decisions.network, kind, self._dtype),
                )
            )
        most = int(np.diff(first).max()) if kinds else 0
        self._give_slots(node, cell, slot, most)
        return specs, most

    def _kind_spec(self, kind: Kind, most: int, quick: bool, factor: str = "") -> MechanismSpec:
        """Return what the template needs to know; `quick`: rates of lanes side by side."""
        values = [kind.parameters[p] for p in kind.mechanism.parameters]
        found = replace(
            grouped_kind_spec(kind, real_name(self._dtype), 1),
            width=0,
            number=kind.first_instance,
            literals=tuple("" if np.ndim(v) else _literal(float(v), self._dtype) for v in values),
            most=most,
            factor=factor,
            first_target=max(0, kind.first_target),
        )
        if not quick:
            return found
        return replace(found, source=side_by_side(found.source, found.name, self._limits.ptx))

    def _give_slots(self, node: np.ndarray, cell: np.ndarray, slot: np.ndarray, none: int) -> None:
        """Find first slot and number of slots of each cell, or of each place."""
        constant = self._decisions.constant_factors
        count = self._model.forest.num_cells if constant else self.table.rows.size
        key = self.cells[cell] if constant else self.table.places(node)
        number = np.bincount(key, minlength=count)
        first = np.full(count, none)
        np.minimum.at(first, key, slot)
        self._slots = first, number

    def _pack_instances(self) -> None:
        """Set `instances` and `slots`, whose numbers have room in their bits."""
        self.instances = [
            (starts, np.stack((own, SITE.pack(**site)), axis=1))
            for starts, own, site in self._sites
        ]
        first, number = self._slots
        self.slots = (
            np.stack((first, first + number), axis=1).reshape(-1)
            if self._decisions.constant_factors
            else SLOT_RUN.pack(first=first, number=number)
        )

    def lane_and_row(self, nodes: np.ndarray) -> np.ndarray:
        """Return `RECORDED` of natural nodes, -1 of those of other cells."""
        cell = stretch_of(self._model.forest.cell_offsets, nodes)
        own = np.minimum(np.searchsorted(self.cells, cell), len(self.cells) - 1)
        here = self.cells[own] == cell
        moved = self._forest.cell_offsets[own] - self._first[own]
        found = self.table.lane_and_row(np.where(here, nodes + moved, 0))
        return np.where(here, found, -1)


def recorded_lists(
    cell_offsets: np.ndarray, plans: Iterable[EpochPlan], nodes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return where the entries of each cell begin, and (r, 2) `RECORDED` and column of each.

    Parameters
    ----------
    cell_offsets, plans
        Of all cells.
    nodes : (r,) int64
        Natural, those that are recorded.
    """
    cells = stretch_of(cell_offsets, nodes)
    order = np.argsort(cells, kind="stable")
    starts = np.searchsorted(cells[order], np.arange(len(cell_offsets)))
    at = np.full(len(nodes), -1)
    for plan in plans if len(nodes) else ():
        at = np.maximum(at, plan.lane_and_row(nodes[order]))
    return starts, np.stack((at, order), axis=1)


def plan_epochs(
    model: Model,
    dtype: DTypeLike,
    limits: Limits,
    segment: int | None = None,
    units: int | None = None,
    decisions: Decisions | None = None,
    by_node: bool | None = None,
) -> list[EpochPlan]:
    """Plan all cells, the largest first.

    Cells that need as many lanes, in whole warps, are a plan of their own, if there are enough
    cells to fill the device: a work-group gives all its cells the lanes and the local memory of
    the largest.

    Parameters
    ----------
    model : Model
    dtype : float64 or float32
    limits : Limits
    segment, units : int, optional
        Most nodes of a segment and cells of a work-group; chosen where not given.
    decisions : Decisions, optional
        Of the whole network, where `model` is a part of it; default: of `model`.
    by_node : bool, optional
        See `EpochPlan`; by default where a cell is too large otherwise.

    Raises
    ------
    InputError
        A cell is too large for a work-group.
    """
    decisions = decisions or Decisions.of(model)
    forest, busy = decisions.network.forest, _is_busy(decisions, limits)
    most, lanes = _choose_segments(decisions.network, segment, busy)
    size = (-(-lanes // WARP) << 8 | most)[forest.shape_of_cell]
    if not busy:
        size[:] = size.max()
    for few in np.unique(size)[:-1]:  # too few for a launch of their own go with larger ones
        if np.count_nonzero(size == few) < _FULL * limits.compute_units:
            size[size == few] = size[size > few].min()
    most = most[forest.shape_of_cell]
    own = size[model.first_cell : model.first_cell + model.forest.num_cells]
    plans = []
    for k in np.unique(own)[::-1]:
        cells, like = np.flatnonzero(own == k), np.flatnonzero(size == k)
        longest, lists = int(most[like].max()), bool(by_node) and not decisions.constant_factors
        if by_node is None and not decisions.constant_factors:
            lists = _needs_lists(decisions, like, longest, dtype, limits)
        if lists and not segment:
            some = _choose_segments(decisions.network, None, False)[0]
            longest = int(some[forest.shape_of_cell[like]].max())
        plans.append(EpochPlan(model, decisions, cells, like, longest, dtype, limits, units, lists))
    return plans


def _one_of_each(forest: Forest, cells: np.ndarray) -> Forest:
    """Return one cell of each shape of some cells."""
    return forest.take(cells[np.unique(forest.shape_of_cell[cells], return_index=True)[1]])


def _needs_lists(
    decisions: Decisions, like: np.ndarray, most: int, dtype: DTypeLike, limits: Limits
) -> bool:
    """Whether one cell, as large as any of the whole network that is planned alike, is too large.

    Too large, that is, for a work-group whose lanes take instances.
    """
    network, largest = decisions.network, []
    for kind in network.kinds:
        bounds = np.searchsorted(kind.node, network.forest.cell_offsets)
        largest.append(np.diff(bounds)[like])
    if not largest:
        return False
    real = real_name(np.dtype(dtype))
    kinds = tuple(
        replace(kind_spec(kind, real), most=max(1, int(each.max())), local=False)
        for kind, each in zip(network.kinds, largest, strict=True)
    )
    forest = _one_of_each(network.forest, like)
    cut = cut_trees(forest.trees, most, forest.trees.parent < 0)
    if cut.lanes.max() > schedule.NO_LANE:
        return False
    lanes = -(-int(cut.lanes.max()) // WARP) * WARP
    size = CellTable(forest, cut, most, forest.cell_offsets[:-1]).rows.template_size.max()
    spec = EpochSpec(
        real=real,
        phase="advance",
        constant=False,
        inflow=decisions.inflow,
        lanes=lanes,
        units=1,
        extra=-lanes % (4 * WARP),
        segment=most,
        capacity=int(size) + 1,
        rounds=1,
        before=0,
        dense=0,
        slots=int(np.sum(largest, axis=0).max()),
        secondorder=False,
        ptx=limits.ptx,
        fused=False,
        kinds=kinds,
    )
    return not spec.fits(limits)


def _is_busy(decisions: Decisions, limits: Limits) -> bool:
    return decisions.num_cells >= _FULL * limits.compute_units


def _choose_segments(
    model: Model, segment: int | None, busy: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Choose the most nodes of a segment for each tree, and give the lanes that it then has.

    With constant factors, where a lane has little to do, all trees get one number: few, but so
    that the largest has 64 lanes. Without, each gets as few as let it have 128 lanes, or 256 where
    the time of one step counts; there all the factors of a segment's nodes are in registers.
    """
    trees = model.forest.trees
    constant = model.constant_factors
    sizes = (segment,) if segment else _SEGMENTS if constant else _SHORT_SEGMENTS
    room = 64 if constant else 128 if busy else 256
    most = np.zeros(trees.num_trees, np.int64)
    lanes = np.full(trees.num_trees, np.iinfo(np.int64).max)
    for size in sizes:
        found = cut_trees(trees, size, trees.parent < 0).lanes
        change = np.full(len(most), bool((lanes > room).any())) if constant else lanes > room
        most[change], lanes[change] = size, found[change]
        if lanes.max() <= room:
            break
    return most, lanes


def _factor_of_capacitance(network: Model, kind: Kind, dtype: np.dtype) -> str:
    """Literal of factor / (capacitance / dt), where that is one number to rounding."""
    kind = next(k for k in network.kinds if k.mechanism == kind.mechanism)
    if kind.mechanism.kind != "density":
        return ""
    ratio = kind.factor / (network.of_nodes.at("capacitance", kind.node) / network.solved_dt)
    if np.ptp(ratio) > 8 * np.finfo(np.float64).eps * ratio.max():
        return ""
    return _literal(float(ratio[0]), dtype)


def _literal(value: float, dtype: np.dtype) -> str:
    return f"({value!r}{'f' if dtype == np.float32 else ''})"
