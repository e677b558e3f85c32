"""Row `dhs`: a few lanes a cell, the deepest nodes that are ready first."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any, ClassVar

import numpy as np

from clhines import layout, packing, schedule
from clhines.errors import InputError
from clhines.forest import Forest, Trees
from clhines.parts import Limits, Part, Plan, as_int32

LANES = 16  # a cell, unless asked for


@dataclass(frozen=True)
class DhsSpec:
    """Numbers and switches of ``dhs.mako``: some lanes a cell, a barrier a step.

    Attributes
    ----------
    real, symmetric, rhs, work_group
        As in `CellSpec`.
    lanes : int
        Work-items a cell.
    """

    template: ClassVar[str] = "dhs"
    needs_factor: ClassVar[bool] = True
    factor_may_be_d: ClassVar[bool] = True
    real: str
    symmetric: bool
    rhs: int
    work_group: int
    lanes: int


def plan_dhs(
    forest: Forest, method: str, real: str, limits: Limits, options: dict[str, Any]
) -> Plan:
    """Row `dhs`: dendritic hierarchical scheduling (Zhang et al. 2023).

    The published CUDA gives a cell threads of one warp and relies on their lockstep, and lets
    two threads update one parent; here a barrier ends each step, and a node collects from its
    children when its turn comes.
    """
    lanes, work_group = _lanes(forest.num_cells, limits, options)
    steps = schedule.k_lane_steps(forest.trees, lanes)
    per_group = work_group // lanes
    shape = forest.shape_of_cell
    cells = np.lexsort((shape, -steps.counts[shape]))  # as many steps in a work-group
    columns = packing.cell_after_cell(forest, cells)
    units = -(-len(cells) // per_group) * per_group
    group_steps = steps.counts[shape[cells[::per_group]]]
    tables = {
        **_cell_tables(forest, steps, columns, units),
        "group_steps": group_steps,
        "step_first": _step_first(forest.trees, steps),
        **_node_tables(forest.trees, steps.order),
    }
    part = Part(
        spec=DhsSpec(real, symmetric=True, rhs=1, work_group=work_group, lanes=lanes),
        tables=as_int32(tables, columns.size),
        num_units=units,
        num_groups=len(group_steps),
        statistics={
            "steps": int(group_steps[0]),
            "dependent_steps": int(group_steps[0]) * 2,
            "barriers": int(group_steps.sum()) * 2 if lanes > 1 else 0,
            "idle_lanes": 1 - forest.num_nodes / (int(group_steps.sum()) * work_group),
            "cells_per_block": len(cells) / len(group_steps),
        },
    )
    gather = layout.column_gather(forest, columns, steps.order)
    return Plan(forest, method, gather, (part,))


def _lanes(num_cells: int, limits: Limits, options: dict[str, Any]) -> tuple[int, int]:
    """Lanes a cell and work-items a group."""
    lanes, work_group = options["k"], options["work_group"]
    most = limits.max_work_group
    if lanes is None:
        lanes = gcd(LANES, work_group) if work_group else min(LANES, 1 << most.bit_length() - 1)
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
    forest: Forest, steps: schedule.LaneSteps, columns: packing.Columns, units: int
) -> dict[str, np.ndarray]:
    """Where the values, steps and nodes of each cell begin; idle units have no steps."""
    shape = forest.shape_of_cell[columns.cells]
    idle = units - len(shape)
    trees = np.arange(forest.trees.num_trees)
    return {
        "cell_start": np.pad(columns.start, (0, idle)),
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
    """Neighbours of each node in the order of elimination, as places in its tree.

    The children of a node are listed in that order too: a sum is taken in one order only.
    """
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
        "node_children": np.concatenate(([0], np.cumsum(counts))),
        "node_child": np.append(child - start[child], 0),  # one more: never empty
    }
