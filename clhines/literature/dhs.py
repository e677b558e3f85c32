"""Method `dhs`: a few lanes per cell, the deepest nodes that are ready first."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import ClassVar

import numpy as np

from clhines.arrays import offsets
from clhines.errors import InputError
from clhines.forest import Forest, Trees
from clhines.literature import dhs_exchange as exchange
from clhines.literature import schedule
from clhines.plan.by_cell import layout
from clhines.plan.combine import plan_by_kind
from clhines.plan.kernel_spec import KernelSpec
from clhines.plan.plan import MAX_RHS, Limits, Options, Part, Plan, as_int32, local_size

LANES = 16  # per cell, by default
FEW_LANES = 4  # where cells alone fill a GPU
FULL = 1024  # work-items that fill a compute unit of a GPU


@dataclass(frozen=True)
class DhsSpec(KernelSpec):
    """Numbers and switches of ``dhs.mako``: some lanes per cell, a barrier per step."""

    template: ClassVar[str] = "literature/dhs"
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
    steps = schedule.k_lane_steps(forest.trees, lanes)
    slots = exchange.exchange_slots(forest.trees, steps)
    large = (2 * slots.most > room)[forest.shape_of_cell]

    def plan_some(part: Forest, _: np.ndarray, is_large: int) -> Plan:
        if is_large:
            alone: Options = {**options, "exchange": False}
            return _plan_places(part, method, real, limits, alone, size)
        some = schedule.k_lane_steps(part.trees, lanes) if large.any() else steps
        found = exchange.exchange_slots(part.trees, some) if large.any() else slots
        order = np.lexsort((part.shape_of_cell, -some.counts[part.shape_of_cell]))
        needed = exchange.slots_of(found, room // 2, limits)
        cells = work_group // lanes
        while 2 * cells * needed > room:
            cells //= 2
        if options["work_group"] and cells * lanes != work_group:
            raise InputError(
                f"work_group={work_group} puts {work_group // lanes} cells into local memory; "
                f"the device's {limits.local_bytes} bytes are enough for {cells}"
            )
        spec = exchange.DhsExchangeSpec(
            real=real, symmetric=True, rhs=1, work_group=cells * lanes, lanes=lanes, slots=needed
        )
        return exchange.plan_exchange(part, method, spec, some, found, order, limits)

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
        steps = schedule.k_lane_steps(part.trees, lanes)
        order = np.lexsort((part.shape_of_cell, -steps.counts[part.shape_of_cell]))
        per_group, most = work_group // lanes, 0
        if local:  # as many steps in a work-group, whatever its sizes
            per_group, most = _fit_local(part.sizes[order], per_group, room)
            if options["work_group"] and per_group * lanes != work_group:
                raise InputError(
                    f"work_group={work_group} puts {work_group // lanes} cells into local memory; "
                    f"the device's {limits.local_bytes} bytes are enough for {per_group}"
                )
        spec = DhsSpec(
            real=real,
            symmetric=True,
            rhs=1,
            work_group=per_group * lanes,
            lanes=lanes,
            capacity=min(local_size(most, room // 2, limits.is_cpu), room // 2) if local else 0,
        )
        max_rhs = min(MAX_RHS, room // spec.capacity - 1) if local else MAX_RHS
        return _plan_groups(part, method, spec, steps, order, max_rhs)

    return plan_by_kind(forest, method, in_global, plan_some)


def _fit_local(sizes: np.ndarray, per_group: int, room: int) -> tuple[int, int]:
    """Cells per work-group, halved until two values per node fit, and nodes of the largest."""
    while True:
        most = int(np.add.reduceat(sizes, np.arange(0, len(sizes), per_group)).max())
        if 2 * most <= room:
            return per_group, most
        per_group //= 2


def _plan_groups(
    forest: Forest,
    method: str,
    spec: DhsSpec,
    steps: schedule.LaneSteps,
    cells: np.ndarray,
    max_rhs: int,
) -> Plan:
    """One launch for all cells, which share work-groups in the order of `cells`."""
    per_group = spec.work_group // spec.lanes
    columns = layout.cell_after_cell(forest, cells)
    units = -(-len(cells) // per_group) * per_group
    group_steps = steps.counts[forest.shape_of_cell[cells[::per_group]]]
    tables = {
        **_cell_tables(forest, steps, columns, units),
        "group_steps": group_steps,
        "step_first": _step_first(forest.trees, steps),
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
        lanes = _usual_lanes(num_cells, limits)
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


def _usual_lanes(num_cells: int, limits: Limits) -> int:
    """Lanes per cell by default: on GPUs, fewer where many cells would need several rounds."""
    lanes = LANES
    while (
        not limits.is_cpu and lanes > FEW_LANES and num_cells * lanes > limits.compute_units * FULL
    ):
        lanes //= 2
    return lanes


def _cell_tables(
    forest: Forest, steps: schedule.LaneSteps, columns: layout.Columns, units: int
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


def _step_first(trees: Trees, steps: schedule.LaneSteps) -> np.ndarray:
    """Place in its tree of each step's first node, and after a tree's last step its size."""
    ends = np.cumsum(steps.width)
    first = ends - steps.width - np.repeat(trees.offsets[:-1], steps.counts)
    return np.insert(first, steps.offsets[1:], trees.sizes)


def _node_tables(trees: Trees, order: np.ndarray) -> dict[str, np.ndarray]:
    """Neighbours of each node, and children in that order: every sum has one order."""
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    start = np.repeat(trees.offsets[:-1], trees.sizes)
    above = trees.parent[order]
    parent = np.where(above < 0, -1, place[above])
    inner = np.flatnonzero(parent >= 0)
    child = inner[np.argsort(parent[inner], kind="stable")]
    counts = np.bincount(parent[inner], minlength=len(order))
    return {
        "node_parent": np.where(parent < 0, -1, parent - start),
        "node_order": trees.rank[order] - start,
        "node_children": offsets(counts),
        "node_child": np.append(child - start[child], 0),  # one more: never empty
    }
