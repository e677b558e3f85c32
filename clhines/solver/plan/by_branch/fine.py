"""Method `fine`: a work-group per block of cells, a work-item or vector lane per branch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from clhines.core.errors import InputError
from clhines.solver.forest import Forest, Trees
from clhines.solver.plan import layout, packing, transforms
from clhines.solver.plan.by_branch import layout as branch_layout
from clhines.solver.plan.by_branch import schedule
from clhines.solver.plan.kernel_spec import KernelSpec
from clhines.solver.plan.packing import PACKINGS
from clhines.solver.plan.plan import (
    MAX_RHS,
    SMALL,
    Limits,
    Options,
    Part,
    Plan,
    as_int32,
    coarse,
    plan_by_kind,
    work_group_size,
)

AHEAD = 4  # nodes that a GPU's work-item reads at once, as it waits long; CPUs prefetch
MOST_LEVELS = 4  # most levels for which kernels on GPUs are specialised: builds take longer
LARGE_GROUP = 256  # work-items per group if there are enough branches for them
CACHE_BYTES = 336 << 10  # most local memory per block on a CPU: it stays in the L2 cache


@dataclass(frozen=True)
class Level:
    width: int  # branches in each block; 0 if blocks differ
    offset: int  # first value in each block; -1 if blocks differ
    length: int  # nodes per branch; 0 if branches differ
    passes: bool  # some block has more branches than work-items
    everywhere: bool  # every block has this level


@dataclass(frozen=True)
class FineSpec(KernelSpec):
    """Spec of ``fine.mako``: a work-group per block of cells, a work-item per branch."""

    template: ClassVar[str] = "solver/by_branch/fine"
    tables: ClassVar[tuple[str, ...]] = (
        "block_template",
        "block_start:place",
        "block_cells",
        "cell_number:cell",
        "template_levels",
        "level_branches",
        "level_offset",
        "branch_length",
        "branch_parent",
        "branch_children",
        "child_first",
        "branch_slot",
        "branch_rank",
    )
    capacity: int  # a block's values in local memory; 0 if they are in global memory
    ahead: int  # nodes that are read at once along a branch, with one right-hand side
    levels: tuple[Level, ...]  # in the deepest blocks, roots first; empty: any number

    @property
    def variant(self) -> str:
        count = len(self.levels)
        return f"written for {count or 'any number of'} level{'s' * (count != 1)}"


def plan_lanes(forest: Forest, method: str, real: str, limits: Limits, options: Options) -> Plan:
    room = limits.local_bytes // (8 if real == "double" else 4)  # values
    if not options["local"]:
        return _plan_levels(forest, method, real, limits, options, 0)
    alone = layout.aligned(_values_alone(forest.trees))[forest.shape_of_cell]
    large = 2 * alone > room
    if large.all():
        raise InputError(
            f"local=True needs {2 * int(alone.min())} values in local memory for the smallest "
            f"cell; it holds {room}"
        )

    def plan_some(part: Forest, _: np.ndarray, is_large: int) -> Plan:
        return _plan_levels(part, method, real, limits, options, 0 if is_large else room)

    return plan_by_kind(forest, method, large, plan_some)


def _values_alone(trees: Trees) -> np.ndarray:
    """Return how many values, with padding, a block with one tree has, (num_trees,) int64."""
    first_branch, first_level = trees.by_level()
    width = np.diff(np.append(first_branch, len(trees.branch_level)))
    values = width * np.maximum.reduceat(trees.branch_length, first_branch)
    return np.add.reduceat(values, first_level)


def _plan_levels(
    forest: Forest, method: str, real: str, limits: Limits, options: Options, room: int
) -> Plan:
    """Plan one work-item per branch; a block has `room` values in local memory (0: none)."""
    enough_blocks = 4 * limits.compute_units
    most = int(options["max_cells"] or max(1, forest.num_cells // enough_blocks))
    work_group = work_group_size(options, limits, _usual_group(forest, limits, most))
    shaped = _pack(forest, options, work_group, most)
    levels, places = _levels(shaped, work_group)
    while room and 2 * (needed := int(places.template_size.max())) > room:
        large = 2 * places.template_size > room
        if (large & (np.diff(shaped.blocks.slot_start) == 1)).any():
            raise InputError(
                f"local=True needs {2 * needed} values in local memory for a cell whose branches "
                f"are split or shifted; it holds {room}"
            )
        shaped = replace(shaped, blocks=packing.halved(shaped.blocks, large))
        levels, places = _levels(shaped, work_group)
    blocks = shaped.blocks
    capacity = int(places.template_size.max()) if room else 0
    if limits.is_cpu and room:
        capacity = coarse(capacity, room // 2, SMALL)
    spec = FineSpec(
        real=real,
        work_group=work_group,
        capacity=capacity,
        ahead=1 if limits.is_cpu else AHEAD,
        levels=() if limits.is_cpu else _common_levels(levels, places, work_group),
    )
    part = Part(
        spec=spec,
        tables=as_int32(_level_tables(shaped, levels, places), places.size),
        num_units=blocks.num_blocks,
        num_groups=blocks.num_blocks,
        statistics=_fine_statistics(levels, blocks, work_group)
        | _shape_statistics(shaped, forest, levels),
        max_rhs=min(MAX_RHS, room // capacity - 1) if room else MAX_RHS,
    )
    return Plan(forest, method, places.gather(shaped.forest), (part,))


def _usual_group(forest: Forest, limits: Limits, max_cells: int) -> int:
    """Return the work-group size: on GPUs 64, or the large one if `max_cells` cells fill two."""
    if limits.is_cpu:
        return 16
    widest = np.array([w.max() for w in packing.level_widths(forest)])[forest.shape_of_cell].mean()
    return LARGE_GROUP if max_cells * widest >= 2 * LARGE_GROUP else 64


def _common_levels(
    levels: schedule.BranchLevels, places: branch_layout.LevelStrided, work_group: int
) -> tuple[Level, ...]:
    """Return, per level, numbers that are equal in all blocks: the kernel's constants.

    The tuple is empty if a block has more than `MOST_LEVELS` levels.
    """
    counts = np.diff(levels.level_start)
    if counts.max() > MOST_LEVELS:
        return ()
    common = []
    ends = np.append(levels.branch_start[1:], levels.branch_start[-1]) - 1
    for k in range(int(counts.max())):
        at = levels.level_start[:-1][counts > k] + k
        width, offset = levels.width[at], places.level_offset[at]
        longest, shortest = levels.longest[at], levels.length[ends[at]]
        everywhere = bool(counts.min() > k)
        common.append(
            Level(
                width=int(width[0]) if everywhere and (width == width[0]).all() else 0,
                offset=int(offset[0]) if (offset == offset[0]).all() else -1,
                length=int(longest[0]) if longest.max() == shortest.min() else 0,
                passes=bool(width.max() > work_group),
                everywhere=everywhere,
            )
        )
    return tuple(common)


@dataclass(frozen=True, eq=False)
class _ShapedForest:
    forest: Forest  # with the branches that are solved, after `split`
    split: transforms.SplitForest | None
    blocks: packing.Blocks
    shift: bool  # branches may move to deeper levels

    def slots(self) -> tuple[Trees, np.ndarray, np.ndarray]:
        return self.forest.trees, self.blocks.slot_template, self.blocks.slot_tree


def _pack(forest: Forest, options: Options, lanes: int, max_cells: int) -> _ShapedForest:
    shift, how = bool(options["level_shift"]), options["packing"] or PACKINGS[0]
    split = None
    if options["split"]:
        first = None
        if options["split"] == "block":
            widths = packing.level_widths(forest)
            first = packing.pack_cells(how, forest, widths, lanes, max_cells, False)
        split = transforms.split_branches(forest, first)
    solved = split.forest if split else forest
    widths = packing.level_widths(solved)
    if shift:
        widths = packing.reach_widths(widths)
    blocks = packing.pack_cells(how, solved, widths, lanes, max_cells, shift)
    return _ShapedForest(solved, split, blocks, shift)


def _levels(
    shaped: _ShapedForest, lanes: int
) -> tuple[schedule.BranchLevels, branch_layout.LevelStrided]:
    level = schedule.shifted_levels(*shaped.slots(), lanes) if shaped.shift else None
    levels = schedule.branch_levels(*shaped.slots(), level)
    return levels, branch_layout.LevelStrided(levels, shaped.blocks)


def _level_tables(
    shaped: _ShapedForest, levels: schedule.BranchLevels, places: branch_layout.LevelStrided
) -> dict[str, np.ndarray]:
    blocks, split = shaped.blocks, shaped.split
    return {
        "block_template": blocks.template,
        "block_start": places.block_start,
        "block_cells": blocks.cell_start,
        "cell_number": blocks.cells,
        "template_levels": levels.level_start,
        "level_branches": levels.branch_start,
        "level_offset": places.level_offset,
        "branch_length": levels.length,
        "branch_parent": np.where(levels.parent >= 0, places.last[levels.parent], -1),
        "branch_children": levels.child_start,
        "child_first": places.first[levels.child],
        "branch_slot": levels.slot - blocks.slot_start[blocks.slot_template[levels.slot]],
        "branch_rank": (
            split.rank(levels.tree_branch) if split else rank_in_tree(shaped.forest, levels)
        ),
    }


def _shape_statistics(
    shaped: _ShapedForest, forest: Forest, levels: schedule.BranchLevels
) -> dict[str, int | float]:
    statistics: dict[str, int | float] = {}
    if shaped.split:
        statistics["added_branches"] = shaped.forest.num_branches - forest.num_branches
    if shaped.shift:
        level = np.repeat(np.arange(len(levels.width)), levels.width)
        template = shaped.blocks.slot_template[levels.slot]
        moved = level - levels.level_start[template]
        moved = moved != shaped.forest.trees.branch_level[levels.tree_branch]
        statistics["moved_branches"] = int(
            np.bincount(shaped.blocks.template)[template[moved]].sum()
        )
    return statistics


def rank_in_tree(
    forest: Forest, levels: schedule.BranchLevels | schedule.BranchVectors
) -> np.ndarray:
    """Return the position of each branch's first node in its tree's elimination order.

    The result is (num_branches,) int64, in the order of `levels`.
    """
    trees = forest.trees
    first = trees.branch_start[levels.tree_branch]
    return first - trees.offsets[trees.branch_tree[levels.tree_branch]]


def _fine_statistics(
    levels: schedule.BranchLevels, blocks: packing.Blocks, work_group: int
) -> dict[str, int | float]:
    repeats = np.bincount(blocks.template)
    counts = np.diff(levels.level_start)
    per_level = np.repeat(repeats, counts)
    passes = -(-levels.width // work_group)
    steps = levels.longest * passes
    lane_steps = int((per_level * steps).sum()) * work_group
    busy = int((repeats[blocks.slot_template[levels.slot]] * levels.length).sum())
    return {
        "levels": int(counts.max()),
        "dependent_steps": int(np.add.reduceat(steps, levels.level_start[:-1]).max()) * 2,
        "barriers": int((per_level * 2).sum()),
        "idle_lanes": 1 - busy / lane_steps,
        "cells_per_block": len(blocks.cells) / blocks.num_blocks,
    }
