"""Method `levels`: a launch per branch level of the whole batch, a work-item per branch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from clhines.core.arrays import ranges
from clhines.solver.forest import Forest
from clhines.solver.plan import packing
from clhines.solver.plan.by_branch import layout, schedule
from clhines.solver.plan.by_branch.fine import rank_in_tree
from clhines.solver.plan.by_cell import layout as cell_layout
from clhines.solver.plan.kernel_spec import KernelSpec
from clhines.solver.plan.plan import Limits, Options, Part, Plan, as_int32, work_group_size

MOST_PADDED = 4  # a level is cut if it has more values, padding included, than so many per node
LEAST_CUT = 1 << 12  # but not for less padding than this: another launch costs as much
AHEAD = 8  # nodes that a GPU's work-item reads at once, as it waits long for each read
AHEAD_CPU = 1  # a CPU prefetches


@dataclass(frozen=True)
class LevelSpec(KernelSpec):
    """Spec of ``levels.mako``: a launch per level and `phase`, ``backward``, then ``forward``."""

    template: ClassVar[str] = "solver/by_branch/levels"
    first_argument: ClassVar[str] = "level"
    tables: ClassVar[tuple[str, ...]] = (
        "level_branches",
        "level_offset",
        "level_longest",
        "level_depth",
        "branch_length",
        "branch_children if backward",
        "child if backward",
        "child_first if backward",
        "branch_rank if backward",
        "cell_number:cell if backward",
        "int *branch_bad if backward",
        "branch_parent if forward",
    )
    takes: ClassVar[tuple[str, ...]] = (
        "const real *d if backward",
        "const real *restrict u if backward",
        "const real *restrict l if backward and unsymmetric",
        "const real *b if backward",
        "real *factor if backward",
        "const real *restrict factor if forward",
        "real *x",
        "int *restrict status if backward",
    )
    computes_padding: bool  # all work-items do as many steps as the longest branch has
    ahead: int  # nodes that are read at once along a branch, with one right-hand side
    phase: str

    @property
    def backward(self) -> bool:
        return self.phase == "backward"

    @property
    def forward(self) -> bool:
        return self.phase == "forward"


def plan_levels(forest: Forest, method: str, real: str, limits: Limits, options: Options) -> Plan:
    """Plan `levels`: each branch level is a batch of tridiagonal systems.

    This is the multi-morphology approach with cuThomasVBatch (Valero-Lara et al. 2018, sections 4
    and 4.1.3). A level is padded to its longest branch. If that takes more than `MOST_PADDED` times
    its nodes, the level is cut, and its parts are launched one after another.
    """
    blocks = packing.one_block(forest)
    levels = schedule.branch_levels(forest.trees, blocks.slot_template, blocks.slot_tree)
    levels, depth = _cut_long_levels(levels)
    places = layout.LevelStrided(levels, blocks)
    shared = {
        "level_branches": levels.branch_start,
        "level_offset": places.level_offset,
        "level_longest": levels.longest,
        "level_depth": depth,
        "branch_length": levels.length,
    }
    tables = {
        "backward": {
            **shared,
            "branch_children": levels.child_start,
            "child": levels.child,
            "child_first": places.first[levels.child],
            "branch_rank": rank_in_tree(forest, levels),
            "cell_number": levels.slot[: forest.num_cells],  # the roots' branches come first
            "branch_bad": np.zeros_like(levels.length),  # kernel scratch
        },
        "forward": {
            **shared,
            "branch_parent": np.where(levels.parent >= 0, places.last[levels.parent], -1),
        },
    }
    # equal steps for compilers that put work-items into vectors (``bench papers batch-padding``)
    padding = options["padding"]
    spec = LevelSpec(
        real=real,
        work_group=work_group_size(options, limits, 16 if limits.is_cpu else 64),
        computes_padding=limits.vectorises if padding is None else padding == "compute",
        phase="backward",
        ahead=AHEAD_CPU if limits.is_cpu else AHEAD,
    )
    order = {"backward": np.arange(len(depth))[::-1], "forward": np.flatnonzero(depth)}
    parts = [
        _part(replace(spec, phase=phase), levels, depth, order[phase], tables[phase], places.size)
        for phase in tables
        if len(order[phase])
    ]
    return Plan(forest, method, places.gather(forest), tuple(parts))


def _cut_long_levels(levels: schedule.BranchLevels) -> tuple[schedule.BranchLevels, np.ndarray]:
    """Split levels with very unequal branches; return the new levels, and the old one of each."""
    nodes = np.add.reduceat(levels.length, levels.branch_start[:-1])
    padding = levels.width * levels.longest - nodes
    too_many = (padding > (MOST_PADDED - 1) * nodes) & (padding > LEAST_CUT)
    start, depth = levels.branch_start, np.arange(len(nodes))
    cuts = []
    for level in np.flatnonzero(too_many).tolist():
        edges = cell_layout.size_classes(levels.length[start[level] : start[level + 1]])
        cuts.append(start[level] + edges[1:-1])
    new = np.sort(np.concatenate((start, *cuts)))
    depth = depth[np.searchsorted(start, new[:-1], side="right") - 1]
    return replace(levels, branch_start=new, level_start=np.array([0, len(depth)])), depth


def _part(
    spec: LevelSpec,
    levels: schedule.BranchLevels,
    depth: np.ndarray,
    order: np.ndarray,
    tables: dict[str, np.ndarray],
    size: int,
) -> Part:
    width, group = levels.width[order], spec.work_group
    groups = -(-width // group)
    longest = levels.longest[order]
    first = ranges(np.zeros(len(order), np.int64), groups) * group
    steps = np.repeat(longest, groups)  # per work-group
    if not spec.computes_padding:
        steps = levels.length[np.repeat(levels.branch_start[order], groups) + first]
    nodes = np.add.reduceat(levels.length, levels.branch_start[:-1])[order]
    both = 2 if spec.phase == "backward" else 1  # sweeps on the roots' level
    return Part(
        spec=spec,
        tables=as_int32(tables, size),
        num_units=int(width.sum()),
        num_groups=int(groups.sum()),
        launches=tuple(zip(order.tolist(), groups.tolist(), strict=True)),
        statistics={
            "levels": int(depth[-1]) + 1,
            "launches": len(order),
            "dependent_steps": int((longest * np.where(depth[order] == 0, both, 1)).sum()),
            "idle_lanes": 1 - int(nodes.sum()) / (int(steps.sum()) * group),
        },
    )
