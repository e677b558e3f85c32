"""Method `dhs`: a few lanes per cell, the deepest nodes that are ready first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import gcd
from typing import ClassVar

import numpy as np

from clhines.core.arrays import children_of, inverse, offsets
from clhines.core.errors import InputError
from clhines.solver.forest import Forest, Trees
from clhines.solver.plan.by_cell import layout
from clhines.solver.plan.kernel_spec import KernelSpec, Word
from clhines.solver.plan.plan import (
    MAX_RHS,
    Limits,
    Options,
    Part,
    Plan,
    as_int32,
    local_size,
    plan_by_kind,
)

LANES = 16  # per cell, by default
FEW_LANES = 4  # where cells alone fill a GPU
FULL = 1024  # work-items that fill a compute unit of a GPU


@dataclass(frozen=True)
class DhsSpec(KernelSpec):
    """Numbers and switches of ``dhs.mako``: some lanes per cell, a barrier per step."""

    template: ClassVar[str] = "solver/literature/dhs"
    first_argument: ClassVar[str] = "num_cells"
    tables: ClassVar[tuple[str, ...]] = (
        "cell_start:place",
        "cell_number:cell",
        "cell_node",
        "cell_step",
        "cell_steps",
        "group_steps",
        "step_first",
        "node_parent",
        "node_order",
        "node_children",
        "node_child",
    )
    takes: ClassVar[tuple[str, ...]] = (*KernelSpec.takes[:-1], "int *restrict status")
    lanes: int  # work-items per cell
    capacity: int  # nodes of a work-group in local memory; 0: in global memory


def plan_dhs(forest: Forest, method: str, real: str, limits: Limits, options: Options) -> Plan:
    """Plan `dhs`: dendritic hierarchical scheduling (Zhang et al. 2023).

    The published CUDA relies on the lockstep of a warp, and lets two threads update one parent;
    here a barrier ends each step, and a node collects from its children. Cells above local memory
    keep their values in global memory.
    """
    lanes, work_group = _lanes(forest.num_cells, limits, options)
    itemsize = 8 if real == "double" else 4
    room = (limits.local_bytes - 4 * work_group) // itemsize  # beside the search for bad pivots
    if _exchanging(limits, options):
        return _plan_exchange(forest, method, real, limits, options, (lanes, work_group, room))
    return _plan_places(forest, method, real, limits, options, (lanes, work_group, room))


def _exchanging(limits: Limits, options: Options) -> bool:
    """Whether nodes exchange what they collect in slots of local memory."""
    if options["local"] and options["exchange"]:
        raise InputError("exchange=True keeps factors in global memory; got local=True")
    if options["exchange"] is None:
        return not limits.is_cpu and not options["local"]
    return bool(options["exchange"])


def _plan_exchange(
    forest: Forest,
    method: str,
    real: str,
    limits: Limits,
    options: Options,
    size: tuple[int, int, int],
) -> Plan:
    """Plan cells side by side, and those whose slots exceed local memory one after another."""
    lanes, work_group, room = size
    steps = k_lane_steps(forest.trees, lanes)
    slots = exchange_slots(forest.trees, steps)
    large = (2 * slots.most > room)[forest.shape_of_cell]

    def plan_some(part: Forest, _: np.ndarray, is_large: int) -> Plan:
        if is_large:
            alone: Options = {**options, "exchange": False}
            return _plan_places(part, method, real, limits, alone, size)
        some = k_lane_steps(part.trees, lanes) if large.any() else steps
        part_slots = exchange_slots(part.trees, some) if large.any() else slots
        order = np.lexsort((part.shape_of_cell, -some.counts[part.shape_of_cell]))
        needed = slots_of(part_slots, room // 2, limits)
        cells = work_group // lanes
        while 2 * cells * needed > room:
            cells //= 2
        if options["work_group"] and cells * lanes != work_group:
            raise InputError(
                f"work_group={work_group} puts {work_group // lanes} cells into local memory; "
                f"the device's {limits.local_bytes} bytes are enough for {cells}"
            )
        spec = DhsExchangeSpec(real=real, work_group=cells * lanes, lanes=lanes, slots=needed)
        return plan_exchange(part, method, spec, some, part_slots, order, limits)

    return plan_by_kind(forest, method, large, plan_some)


def _plan_places(
    forest: Forest,
    method: str,
    real: str,
    limits: Limits,
    options: Options,
    size: tuple[int, int, int],
) -> Plan:
    """Plan cells one after another: nodes find what they exchange at each other's places."""
    lanes, work_group, room = size
    in_global = (2 * forest.sizes > room) | (not options["local"])

    def plan_some(part: Forest, _: np.ndarray, elsewhere: int) -> Plan:
        local = not elsewhere
        steps = k_lane_steps(part.trees, lanes)
        order = np.lexsort((part.shape_of_cell, -steps.counts[part.shape_of_cell]))
        per_group, most = work_group // lanes, 0
        if local:  # as many steps in a work-group, whatever its sizes
            sizes, first = part.sizes[order], np.arange(len(order))
            while 2 * (most := int(np.add.reduceat(sizes, first[::per_group]).max())) > room:
                per_group //= 2
            if options["work_group"] and per_group * lanes != work_group:
                raise InputError(
                    f"work_group={work_group} puts {work_group // lanes} cells into local memory; "
                    f"the device's {limits.local_bytes} bytes are enough for {per_group}"
                )
        spec = DhsSpec(
            real=real,
            work_group=per_group * lanes,
            lanes=lanes,
            capacity=min(local_size(most, room // 2, limits.is_cpu), room // 2) if local else 0,
        )
        max_rhs = min(MAX_RHS, room // spec.capacity - 1) if local else MAX_RHS
        return _plan_groups(part, method, spec, steps, order, max_rhs)

    return plan_by_kind(forest, method, in_global, plan_some)


def _plan_groups(
    forest: Forest, method: str, spec: DhsSpec, steps: LaneSteps, cells: np.ndarray, max_rhs: int
) -> Plan:
    """One launch for all cells, which share work-groups in the order of `cells`."""
    per_group = spec.work_group // spec.lanes
    start = offsets(forest.sizes[cells])
    columns = layout.Columns(cells, np.arange(len(cells) + 1), start)  # of one lane
    units = -(-len(cells) // per_group) * per_group
    group_steps = steps.counts[forest.shape_of_cell[cells[::per_group]]]
    step_first = np.cumsum(steps.width) - steps.width
    step_first -= np.repeat(forest.trees.offsets[:-1], steps.counts)  # place in its tree
    tables = {
        **_cell_tables(forest, steps, columns, units),
        "group_steps": group_steps,
        "step_first": np.insert(step_first, steps.offsets[1:], forest.trees.sizes),
        **_node_tables(forest.trees, steps.order),
    }
    lane_steps = int(group_steps.sum()) * spec.work_group
    part = Part(
        spec=spec,
        tables=as_int32(tables, columns.size),
        num_units=units,
        num_groups=len(group_steps),
        statistics={
            "steps": int(group_steps[0]),
            "dependent_steps": int(group_steps[0]) * 2,
            "barriers": int(group_steps.sum()) * 2 if spec.lanes > 1 else 0,
            "idle_lanes": 1 - forest.num_nodes / lane_steps,
            "cells_per_block": len(cells) / len(group_steps),
            "local_bytes": 2 * spec.capacity * (8 if spec.real == "double" else 4),
        },
        max_rhs=max_rhs,
    )
    return Plan(forest, method, layout.column_gather(forest, columns, steps.order), (part,))


def _lanes(num_cells: int, limits: Limits, options: Options) -> tuple[int, int]:
    lanes, work_group = options["k"], options["work_group"]
    most = limits.max_work_group
    if lanes is None:
        lanes, full = LANES, limits.compute_units * FULL
        while not limits.is_cpu and lanes > FEW_LANES and num_cells * lanes > full:
            lanes //= 2  # or many cells would need several rounds
        lanes = gcd(lanes, work_group) if work_group else min(lanes, 1 << most.bit_length() - 1)
    lanes = int(lanes)
    if lanes > most:
        raise InputError(f"k={lanes} is above the device's limit of {most} work-items")
    if work_group is None:
        most = lanes if limits.is_cpu else max(lanes, min(64, most))
        cells = min(most // lanes, num_cells)
        work_group = lanes << cells.bit_length() - 1  # few different ones
    if work_group % lanes:
        raise InputError(f"work_group={work_group} is not a multiple of k={lanes}")
    return lanes, int(work_group)


def _cell_tables(
    forest: Forest, steps: LaneSteps, columns: layout.Columns, units: int
) -> dict[str, np.ndarray]:
    """Where the values, steps and nodes of each cell begin; idle units have no steps."""
    shape = forest.shape_of_cell[columns.cells]
    idle = units - len(shape)
    trees = np.arange(forest.trees.num_trees)
    return {
        "cell_start": np.pad(columns.start, (0, idle), mode="edge"),
        "cell_number": np.pad(columns.cells, (0, idle), constant_values=-1),
        "cell_node": np.pad(forest.trees.offsets[shape], (0, idle)),
        "cell_step": np.pad((steps.offsets[:-1] + trees)[shape], (0, idle)),
        "cell_steps": np.pad(steps.counts[shape], (0, idle)),
    }


def _node_tables(trees: Trees, order: np.ndarray) -> dict[str, np.ndarray]:
    """Neighbours of each node, and children in that order: every sum has one order."""
    start = np.repeat(trees.offsets[:-1], trees.sizes)
    above = trees.parent[order]
    parent = np.where(above < 0, -1, inverse(order)[above])
    child, first = children_of(parent)
    return {
        "node_parent": np.where(parent < 0, -1, parent - start),
        "node_order": trees.rank[order] - start,
        "node_children": first,
        "node_child": np.append(child - start[child], 0),  # one more: never empty
    }


@dataclass(frozen=True, eq=False)
class LaneSteps:
    """Nodes of every tree in steps; those of a step are independent, with one lane per node."""

    order: np.ndarray  # nodes of `Trees`, tree after tree, in the order of elimination
    offsets: np.ndarray  # steps of tree s: ``offsets[s]:offsets[s + 1]``
    width: np.ndarray  # nodes of each step

    @property
    def counts(self) -> np.ndarray:
        """(num_trees,) int64: steps of each tree."""
        return np.diff(self.offsets)


def k_lane_steps(trees: Trees, k: int) -> LaneSteps:
    """List schedule of dendritic hierarchical scheduling (Zhang et al. 2023, DeepDendrite).

    In every step the `k` deepest nodes whose children have all been eliminated go, or all of them
    where there are fewer: for trees no schedule of `k` lanes has fewer steps (Hu 1961).
    """
    tree = np.repeat(np.arange(trees.num_trees), trees.sizes)
    by_priority = np.lexsort((-trees.rank, -trees.depth, tree))
    if k == 1:  # the deepest node that is left is always ready
        return LaneSteps(by_priority, trees.offsets, np.ones(len(by_priority), np.int64))
    above = trees.parent[by_priority]
    parent = np.where(above < 0, -1, inverse(by_priority)[above] - trees.offsets[tree])
    waiting = trees.num_children[by_priority]
    order: list[int] = []
    width: list[int] = []
    steps = []
    for start, end in zip(trees.offsets[:-1].tolist(), trees.offsets[1:].tolist(), strict=True):
        before = len(width)
        _list_schedule(parent[start:end].tolist(), waiting[start:end].tolist(), k, order, width)
        steps.append(len(width) - before)
    return LaneSteps(
        order=by_priority[np.array(order) + np.repeat(trees.offsets[:-1], trees.sizes)],
        offsets=offsets(steps),
        width=np.array(width),
    )


def _list_schedule(
    parent: list[int], waiting: list[int], k: int, order: list[int], width: list[int]
) -> None:
    """Append the steps of one tree, its nodes numbered by priority, to `order` and `width`."""
    ready = [v for v, count in enumerate(waiting) if count == 0]  # sorted, and so a heap
    waiting.append(2)  # for the root's parent, -1: never ready
    while ready:
        if len(ready) <= k:
            nodes, ready = sorted(ready), []
        else:
            nodes = [heappop(ready) for _ in range(k)]
        order += nodes
        width.append(len(nodes))
        for v in nodes:
            above = parent[v]
            waiting[above] -= 1
            if not waiting[above]:
                heappush(ready, above)


# A node: whether it inherits the slot of a child; whether it has further children; its slot.
NODE = Word(inherits=1, joins=1, slot=29)


@dataclass(frozen=True)
class DhsExchangeSpec(KernelSpec):
    """Numbers and switches of ``mako``: some lanes per cell, a barrier per step."""

    template: ClassVar[str] = "solver/literature/dhs_exchange"
    first_argument: ClassVar[str] = "num_cells"
    tables: ClassVar[tuple[str, ...]] = (
        "cell_number:cell",
        "cell_node",
        "cell_step",
        "cell_steps",
        "group_start:place",
        "group_step",
        "group_steps",
        "step_first",
        "node_code",
        "node_order",
        "node_joins",
        "join_slot",
    )
    takes: ClassVar[tuple[str, ...]] = (*KernelSpec.takes[:-1], "int *restrict status")
    node: ClassVar[Word] = NODE
    lanes: int  # work-items per cell
    slots: int  # exchange slots per cell

    @property
    def cells(self) -> int:
        return self.work_group // self.lanes


@dataclass(frozen=True, eq=False)
class Slots:
    """Exchange slots of the nodes of `Trees`, in the order of their elimination."""

    code: np.ndarray  # (num_nodes,) int32, a `NODE` each
    joins: np.ndarray  # of node i's further children: ``join_slot[joins[i]:joins[i + 1]]``
    join_slot: np.ndarray  # in the order of the child list
    most: np.ndarray  # slots that each tree needs


def exchange_slots(trees: Trees, steps: LaneSteps) -> Slots:
    """Give every node its slot.

    A slot that is read in one step is given to a tip in a later step only: in the same one,
    another lane may be the first. The forward sweep goes the same way back.

    >>> from clhines import Forest
    >>> from clhines.solver.literature.dhs import k_lane_steps
    >>> trees = Forest(np.array([-1, 0, 1, 1, 0])).trees
    >>> found = exchange_slots(trees, k_lane_steps(trees, 2))
    >>> NODE.unpack("slot", found.code).tolist()
    [0, 1, 0, 2, 0]
    """
    above = trees.parent[steps.order]
    parent = np.where(above < 0, -1, inverse(steps.order)[above])
    child, first = children_of(parent)
    has = first[1:] > first[:-1]
    heir = np.full(len(parent), -1)
    heir[has] = child[first[:-1][has]]
    is_join = np.ones(len(child), bool)
    is_join[first[:-1][has]] = False
    slot, most = _assigned(trees, steps, heir, first, child)
    further = np.maximum(np.diff(first) - 1, 0)
    return Slots(
        NODE.pack(inherits=has, joins=further > 0, slot=slot),
        offsets(further),
        slot[child[is_join]],
        most,
    )


def _assigned(
    trees: Trees, steps: LaneSteps, heir: np.ndarray, first: np.ndarray, child: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    width = steps.width.tolist()
    heirs, firsts, children = heir.tolist(), first.tolist(), child.tolist()
    slot, most, node = [0] * len(heirs), [], 0
    for tree in range(trees.num_trees):
        free: list[int] = []
        used = 0
        for step in range(int(steps.offsets[tree]), int(steps.offsets[tree + 1])):
            left: list[int] = []
            for v in range(node, node + width[step]):
                if heirs[v] >= 0:
                    slot[v] = slot[heirs[v]]
                    left += [slot[c] for c in children[firsts[v] + 1 : firsts[v + 1]]]
                elif free:
                    slot[v] = heappop(free)
                else:
                    slot[v], used = used, used + 1
            node += width[step]
            for s in left:
                heappush(free, s)
        most.append(used)
    return np.array(slot), np.array(most)


def bytes_per_cell(slots: np.ndarray, real: str) -> np.ndarray:
    """Local memory of cells by their number of slots, with one right-hand side."""
    return 2 * slots * (8 if real == "double" else 4)


@dataclass(frozen=True, eq=False)
class _CellGroups:
    cells: np.ndarray  # natural cells in the order of the work-groups
    width: int  # cells of each group; the last one may have fewer
    profile: np.ndarray  # of each group: the most lanes of its cells in every step
    profiles: list[np.ndarray]  # (num_steps + 1,) nodes of a lane-padded cell before each step
    start: np.ndarray  # place of each group's first value, and the end


def _groups(forest: Forest, steps: LaneSteps, cells: np.ndarray, width: int) -> _CellGroups:
    shape = forest.shape_of_cell[cells]
    group_of: dict[tuple[int, ...], int] = {}
    profiles: list[np.ndarray] = []
    count = -(-len(cells) // width)
    profile = np.empty(count, np.int64)
    for group in range(count):
        key = tuple(np.unique(shape[group * width : (group + 1) * width]).tolist())
        if key not in group_of:
            group_of[key] = len(profiles)
            profiles.append(offsets(_widest(steps, key)))
        profile[group] = group_of[key]
    ends = np.array([p[-1] for p in profiles])
    return _CellGroups(cells, width, profile, profiles, offsets(ends[profile] * width))


def _widest(steps: LaneSteps, shapes: tuple[int, ...]) -> np.ndarray:
    """Largest width of each step over some trees."""
    widths = [steps.width[steps.offsets[s] : steps.offsets[s + 1]] for s in shapes]
    most = np.zeros(max(map(len, widths)), np.int64)
    for width in widths:
        most[: len(width)] = np.maximum(most[: len(width)], width)
    return most


def _gather(forest: Forest, steps: LaneSteps, groups: _CellGroups) -> np.ndarray:
    trees = forest.trees
    gather = np.full(int(groups.start[-1]), -1, np.int32)
    group = np.arange(len(groups.cells)) // groups.width
    column = groups.start[group] + np.arange(len(groups.cells)) % groups.width
    keys = forest.shape_of_cell[groups.cells] * len(groups.profiles) + groups.profile[group]
    by_key = np.argsort(keys, kind="stable")
    for some in np.split(by_key, np.flatnonzero(np.diff(keys[by_key])) + 1):
        tree = int(forest.shape_of_cell[groups.cells[some[0]]])
        profile = groups.profiles[groups.profile[group[some[0]]]]
        width = steps.width[steps.offsets[tree] : steps.offsets[tree + 1]]
        lane = np.arange(int(width.sum())) - np.repeat(offsets(width)[:-1], width)
        row = (np.repeat(profile[: len(width)], width) + lane) * groups.width
        begin, end = trees.offsets[tree], trees.offsets[tree + 1]
        natural = steps.order[begin:end] - begin
        first = forest.cell_offsets[groups.cells[some]]
        gather[column[some][:, None] + row] = first[:, None] + natural
    return gather


def plan_exchange(
    forest: Forest,
    method: str,
    spec: DhsExchangeSpec,
    steps: LaneSteps,
    slots: Slots,
    cells: np.ndarray,
    limits: Limits,
) -> Plan:
    """One launch for all cells, which share work-groups in the order of `cells`."""
    groups = _groups(forest, steps, cells, spec.cells)
    gather = _gather(forest, steps, groups)
    count = len(groups.profile)
    group_steps = np.array([len(p) - 1 for p in groups.profiles])[groups.profile]
    room = (limits.local_bytes - 4 * spec.work_group) // (8 if spec.real == "double" else 4)
    lane_steps = int(group_steps.sum()) * spec.work_group
    part = Part(
        spec=spec,
        tables=as_int32(dict(_tables(forest, steps, slots, groups)), len(gather)),
        num_units=count * spec.cells,
        num_groups=count,
        statistics={
            "steps": int(group_steps.max()),
            "dependent_steps": int(group_steps.max()) * 2,
            "barriers": int(group_steps.sum()) * 2 if spec.lanes > 1 else 0,
            "idle_lanes": 1 - forest.num_nodes / lane_steps,
            "cells_per_block": len(cells) / count,
            "local_bytes": int(bytes_per_cell(np.array(spec.slots), spec.real)) * spec.cells,
        },
        max_rhs=min(MAX_RHS, room // (spec.slots * spec.cells) - 1),
    )
    return Plan(forest, method, gather, (part,))


def _tables(
    forest: Forest, steps: LaneSteps, slots: Slots, groups: _CellGroups
) -> Iterator[tuple[str, np.ndarray]]:
    trees = forest.trees
    shape = forest.shape_of_cell[groups.cells]
    idle = len(groups.profile) * groups.width - len(shape)
    cell_steps = [
        np.diff(steps.offsets)[shape],
        (steps.offsets[:-1] + np.arange(trees.num_trees))[shape],
    ]
    ends = np.cumsum(steps.width)
    first = ends - steps.width - np.repeat(trees.offsets[:-1], steps.counts)
    first = np.insert(first, steps.offsets[1:], trees.sizes)
    at = offsets([len(p) for p in groups.profiles])[:-1] + len(first)
    order = trees.rank[steps.order] - np.repeat(trees.offsets[:-1], trees.sizes)
    joins = slots.joins
    yield "cell_number", np.pad(groups.cells, (0, idle), constant_values=-1)
    yield "cell_node", np.pad(trees.offsets[shape], (0, idle))
    yield "cell_step", np.pad(cell_steps[1], (0, idle))
    yield "cell_steps", np.pad(cell_steps[0], (0, idle))
    yield "group_start", groups.start[:-1]
    yield "group_step", at[groups.profile]
    yield "group_steps", np.array([len(p) - 1 for p in groups.profiles])[groups.profile]
    yield "step_first", np.concatenate([first, *groups.profiles])
    yield "node_code", slots.code
    yield "node_order", order
    yield "node_joins", joins
    yield "join_slot", np.append(slots.join_slot, 0)  # one more: never empty


def slots_of(slots: Slots, room: int, limits: Limits) -> int:
    """Slots per cell of the kernel: those of the cell that needs most."""
    return min(local_size(int(slots.most.max()), room, limits.is_cpu), room)
