"""Row `fine`: a block of cells at a time, one work-item or lane of a vector a branch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from clhines import layout, packing, schedule, transforms
from clhines.checks import shown
from clhines.errors import InputError
from clhines.forest import Forest, Trees
from clhines.packing import PACKINGS
from clhines.parts import (
    MAX_RHS,
    SMALL,
    Limits,
    Part,
    Plan,
    as_int32,
    coarse,
    plan_by_kind,
    work_group_size,
)

CACHE_BYTES = 336 << 10  # what a block may keep in local memory on a CPU, to stay in its L2 cache
FINE_OPTIONS: dict[str, Any] = {
    "work_group": None,
    "max_cells": None,
    "vector_width": None,
    "reroot": False,
    "split": None,
    "packing": "next_fit",
    "level_shift": False,
    "local": None,
}
STREAM_BYTES = 2 << 20  # a solution of more bytes is stored past the caches of a CPU


@dataclass(frozen=True)
class FineSpec:
    """Numbers and switches of ``fine.mako``: one work-group a block, one work-item a branch.

    Attributes
    ----------
    real, symmetric, rhs, work_group
        As in `CellSpec`.
    capacity : int
        Values of the largest block, for which local memory holds the factors and the
        intermediate solution; 0 leaves them in global memory.
    """

    template: ClassVar[str] = "fine"
    needs_factor: ClassVar[bool] = True
    factor_may_be_d: ClassVar[bool] = True
    real: str
    symmetric: bool
    rhs: int
    work_group: int
    capacity: int


@dataclass(frozen=True)
class FineVectorSpec:
    """Numbers and switches of ``fine_vector.mako``: one work-item a block, a branch a lane.

    Attributes
    ----------
    real, symmetric, rhs
        As in `CellSpec`.
    work_group : int
        1: work-items share nothing.
    vector_width : int
        Branches a vector.
    capacity : int
        Values of the largest block, for which local memory holds the factors and the
        intermediate solution of one right-hand side; 0 leaves them in global memory, as do
        several right-hand sides.
    slots : int
        Lanes of the largest block: what it exchanges between branches, in local memory.
    streaming : bool
        The solution is stored past the caches, where the compiler can.
    prefetch : str
        Values are asked for before they are needed: by ``builtin``, Clang's function, or
        ``standard``, that of OpenCL C, which often does nothing; or not at all (empty).
    natural : bool
        d, u, l, b and x are in natural order; the factors are not.
    """

    template: ClassVar[str] = "fine_vector"
    takes_natural: ClassVar[bool] = True
    needs_factor: ClassVar[bool] = True
    factor_may_be_d: ClassVar[bool] = False
    real: str
    symmetric: bool
    rhs: int
    work_group: int
    vector_width: int
    capacity: int
    slots: int
    streaming: bool
    prefetch: str
    natural: bool = False


def plan_fine(
    forest: Forest, method: str, real: str, limits: Limits, options: dict[str, Any]
) -> Plan:
    """Row `fine`: one work-group a block of cells, one work-item a branch, barrier a level.

    On CPUs it is one work-item a block and one branch a lane of a vector, unless a work-group, or
    one of the options that shape levels (split, level_shift), is asked for. Options:

    reroot : bool
        Solve each tree from the root that makes it least high (`transforms.reroot`); pivots are
        then looked at in the order of that elimination.
    split : ``mean``, ``block`` or None
        Cut branches longer than the mean of their level: of all cells, or of their block in a
        first packing (`transforms.split_branches`).
    packing : ``next_fit``, ``sorted`` or ``best_fit``
        How cells share blocks (`packing.pack_cells`).
    level_shift : bool
        Fill a block as long as its branches can be moved to levels with lanes left
        (`schedule.shifted_levels`).
    local : bool or None
        Keep factors and intermediate solution in local memory, where a block's fit; cells that do
        not fit alone are solved in global memory. Default: only one work-item a block does so.
    """
    width, group = options["vector_width"], options["work_group"]
    shaping = [name for name in ("split", "level_shift") if options[name]]
    if width and (group or 1) > 1:
        raise InputError(f"vector_width={width} needs work_group=1; got work_group={group}")
    if width and shaping:
        got = f"{shaping[0]}={shown(options[shaping[0]])}"
        raise InputError(
            f"{got} shapes levels, which vectors do not have; got vector_width={width}"
        )
    if options["level_shift"] and options["packing"] == "best_fit":
        raise InputError("level_shift=True needs packing 'next_fit' or 'sorted'; got 'best_fit'")
    rerooted = transforms.reroot(forest) if options["reroot"] else None
    vectors = width or (limits.is_cpu and (group or 1) == 1 and not shaping)
    plan_rows = _plan_vectors if vectors else _plan_lanes
    solved = rerooted.forest if rerooted else forest
    plan = plan_rows(solved, method, real, limits, options)
    asked = [f"{k}={v}" for k, v in options.items() if v not in (None, FINE_OPTIONS[k])]
    plan = replace(plan, changes={"options": " ".join(asked)} if asked else {})
    return _with_edges(plan, forest, rerooted) if rerooted else plan


def _with_edges(plan: Plan, forest: Forest, rerooted: transforms.Rerooted) -> Plan:
    """Add to a plan of rerooted trees where the entries between nodes are found."""
    moved, before, after = rerooted.moved, forest.heights.max(), plan.forest.heights.max()
    shapes = f"{moved.sum()} of {len(moved)} shapes"
    text = f"{shapes}; height was {before}, is {after} nodes at most"
    changes = {**plan.changes, "reroot": text}
    edges = None
    if moved.any():
        edges = np.where(plan.gather < 0, -1, rerooted.edge[plan.gather]).astype(np.int32)
    return replace(plan, edges=edges, changes=changes)


def _plan_lanes(
    forest: Forest, method: str, real: str, limits: Limits, options: dict[str, Any]
) -> Plan:
    """`fine` with one work-item a branch."""
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
    """(num_trees,) int64: places of each tree in a block of its own, level by level."""
    starts = np.flatnonzero(np.diff(trees.branch_level, prepend=-1))
    starts = np.union1d(starts, trees.branch_offsets[:-1])
    width = np.diff(np.append(starts, len(trees.branch_level)))
    values = width * np.maximum.reduceat(trees.branch_length, starts)
    return np.add.reduceat(values, np.searchsorted(starts, trees.branch_offsets[:-1]))


def _plan_levels(
    forest: Forest, method: str, real: str, limits: Limits, options: dict[str, Any], room: int
) -> Plan:
    """`fine` with one work-item a branch, in blocks of `room` values in local memory if not 0."""
    work_group = work_group_size(options, limits, 16 if limits.is_cpu else 64)
    enough_blocks = 4 * limits.compute_units
    most = int(options["max_cells"] or max(1, forest.num_cells // enough_blocks))
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
        symmetric=True,
        rhs=1,
        work_group=work_group,
        capacity=capacity,
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


@dataclass(frozen=True, eq=False)
class _Shaped:
    """Cells in blocks, as the options of `fine` make them.

    Attributes
    ----------
    forest : Forest
        With the branches that are solved: those of `split`, if any.
    split : transforms.Split or None
    blocks : packing.Blocks
    shift : bool
        Branches may have to move to deeper levels.
    """

    forest: Forest
    split: transforms.Split | None
    blocks: packing.Blocks
    shift: bool

    def slots(self) -> tuple[Trees, np.ndarray, np.ndarray]:
        """Return what the schedules take."""
        return self.forest.trees, self.blocks.slot_template, self.blocks.slot_tree


def _pack(forest: Forest, options: dict[str, Any], lanes: int, max_cells: int) -> _Shaped:
    """Split branches and pack cells, as far as the options ask for it."""
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
    return _Shaped(solved, split, blocks, shift)


def _levels(shaped: _Shaped, lanes: int) -> tuple[schedule.BranchLevels, layout.LevelStrided]:
    """Levels of the blocks, and where their values lie."""
    level = schedule.shifted_levels(*shaped.slots(), lanes) if shaped.shift else None
    levels = schedule.branch_levels(*shaped.slots(), level)
    return levels, layout.LevelStrided(levels, shaped.blocks)


def _level_tables(
    shaped: _Shaped, levels: schedule.BranchLevels, places: layout.LevelStrided
) -> dict[str, np.ndarray]:
    """Tables of ``fine.mako``, in the order of its arguments."""
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
    shaped: _Shaped, forest: Forest, levels: schedule.BranchLevels
) -> dict[str, int | float]:
    """Count what splitting and shifting did, over all blocks."""
    found: dict[str, int | float] = {}
    if shaped.split:
        found["added_branches"] = shaped.forest.num_branches - forest.num_branches
    if shaped.shift:
        level = np.repeat(np.arange(len(levels.width)), levels.width)
        template = shaped.blocks.slot_template[levels.slot]
        moved = level - levels.level_start[template]
        moved = moved != shaped.forest.trees.branch_level[levels.tree_branch]
        found["moved_branches"] = int(np.bincount(shaped.blocks.template)[template[moved]].sum())
    return found


def _plan_vectors(
    forest: Forest, method: str, real: str, limits: Limits, options: dict[str, Any]
) -> Plan:
    """`fine` for CPUs: one work-item a block of cells, one branch a lane of a vector.

    Cells too large for the cache-sized local memory of a work-item keep their factors in global
    memory; where even what branches exchange does not fit, `_plan_lanes` takes over.
    """
    room = limits.local_bytes // (8 if real == "double" else 4)  # values
    budget = min(CACHE_BYTES * room // limits.local_bytes, room * 7 // 10)
    exchanged = 2 * (np.diff(forest.trees.branch_offsets) + 1)
    kept = 2 * forest.trees.sizes + exchanged  # without padding
    at_best = 1 if options["local"] is False else 0
    kind = np.where(2 * kept <= budget, at_best, np.where(2 * exchanged <= room, 1, 2))

    def plan_some(part: Forest, _: np.ndarray, k: int) -> Plan:
        if k == 2:
            lanes = {**options, "work_group": None, "local": False}
            return _plan_lanes(part, method, real, limits, lanes)
        return _plan_blocks(part, method, real, limits, options, 0 if k else budget)

    return plan_by_kind(forest, method, kind[forest.shape_of_cell], plan_some)


def _plan_blocks(
    forest: Forest,
    method: str,
    real: str,
    limits: Limits,
    options: dict[str, Any],
    budget: int,
) -> Plan:
    """Blocks of cells of `budget` values in local memory; 0 leaves the factors in global memory."""
    itemsize = 8 if real == "double" else 4
    how = options["packing"] or PACKINGS[0]
    weight = 2 * (forest.trees.sizes + np.diff(forest.trees.branch_offsets) + 1)
    widest = int(options["vector_width"] or max(1, limits.vector_bytes // itemsize))
    max_cells = int(options["max_cells"] or _cells_a_block(forest, weight, limits, budget, widest))
    room = limits.local_bytes // itemsize
    found = []
    for width in [widest >> k for k in range(widest.bit_length())]:
        fits, blocks, vectors, places = _fit_vectors(
            forest, how, weight, max_cells, budget, room, width
        )
        padded = places.size / forest.num_nodes
        cost = padded * (1 + 8 / width)  # a value counts, and so does every row
        found.append((not fits, cost, blocks, vectors, places))
        if fits and (padded < 1.25 or options["vector_width"]):
            break
    _, _, blocks, vectors, places = min(found, key=lambda f: f[:2])
    capacity = int(places.template_size.max()) if budget else 0
    width, slots = vectors.width, _most_slots(vectors)
    if capacity:
        capacity = coarse(capacity, (room // 2 - slots) // width * width, SMALL)
    slots = coarse(slots, (room // 2 - capacity) // width * width, SMALL)
    spec = FineVectorSpec(
        real=real,
        symmetric=True,
        rhs=1,
        work_group=1,
        vector_width=width,
        capacity=capacity,
        slots=slots,
        streaming=places.size * itemsize > STREAM_BYTES and width * itemsize >= 16,
        prefetch=("builtin" if limits.clang else "standard") if limits.is_cpu else "",
    )
    part = Part(
        spec=spec,
        tables=as_int32(_vector_tables(forest, blocks, vectors, places), places.size),
        num_units=blocks.num_blocks,
        num_groups=blocks.num_blocks,
        statistics=_vector_statistics(forest, blocks, vectors, places),
        max_rhs=max(1, min(MAX_RHS, room // slots - 1)),
    )
    return Plan(forest, method, places.gather(forest), (part,))


def _fit_vectors(
    forest: Forest,
    how: str,
    weight: np.ndarray,
    max_cells: int,
    budget: int,
    room: int,
    width: int,
) -> tuple[bool, packing.Blocks, schedule.BranchVectors, layout.VectorRows]:
    """Vectors of `width` branches, in blocks made smaller until `room` values hold each.

    Returns
    -------
    fits : bool
        False where even blocks of few cells need more.
    blocks, vectors, places
    """
    most = budget or int(weight.max()) * max_cells
    for share in (1, 2, 4, 8, 16):
        widths = list(weight[:, None])
        blocks = packing.pack_cells(how, forest, widths, most // share, max_cells, False)
        vectors = schedule.branch_vectors(
            forest.trees, blocks.slot_template, blocks.slot_tree, width
        )
        places = layout.VectorRows(vectors, blocks)
        capacity = int(places.template_size.max()) if budget else 0
        if 2 * (capacity + _most_slots(vectors)) <= room:
            return True, blocks, vectors, places
    return False, blocks, vectors, places


def _most_slots(vectors: schedule.BranchVectors) -> int:
    """Lanes of the largest block, and those that hold zeros."""
    return (int(np.diff(vectors.template_start).max()) + 1) * vectors.width


def _cells_a_block(
    forest: Forest, weight: np.ndarray, limits: Limits, budget: int, width: int
) -> int:
    """Most cells a block so that blocks fit the budget and all compute units have as many."""
    units = limits.compute_units
    total = int(weight[forest.shape_of_cell].sum())
    needed = -(-total // budget) if budget else -(-forest.num_cells // width)
    needed = max(needed, min(forest.num_cells, units))
    if needed < 8 * units:
        needed = -(-needed // units) * units
    cells = -(-forest.num_cells // needed)
    if forest.trees.num_trees * width > forest.num_cells:
        return cells if budget else 1
    return cells // width * width or cells  # whole vectors of cells of one shape


def _vector_tables(
    forest: Forest,
    blocks: packing.Blocks,
    vectors: schedule.BranchVectors,
    places: layout.VectorRows,
) -> dict[str, np.ndarray]:
    """Tables of ``fine_vector.mako``, in the order of its arguments."""
    round_start, child = vectors.rounds()
    parent = np.where(vectors.parent < 0, 0, vectors.exchange()[vectors.parent])
    parent = vectors.lanes(parent).reshape(-1, vectors.width)
    return {
        "block_template": blocks.template,
        "block_start": places.block_start,
        "block_cells": blocks.cell_start,
        "cell_number": blocks.cells,
        "template_vectors": vectors.template_start,
        "vector_place": places.vector_place,
        "vector_rows": vectors.rows,
        "vector_even": vectors.even,
        "vector_parent": _whole_vectors(parent),
        "vector_rounds": round_start,
        "round_vector": np.append(_whole_vectors(child), -1),
        "round_child": np.append(child, np.zeros((1, vectors.width), np.int64)),
        "lane_parent": parent.reshape(-1),
        "lane_length": vectors.lanes(vectors.length),
        "lane_slot": vectors.lanes(
            vectors.slot - blocks.slot_start[vectors.template[vectors.vector]]
        ),
        "lane_rank": vectors.lanes(rank_in_tree(forest, vectors)),
    }


def _whole_vectors(slots: np.ndarray) -> np.ndarray:
    """Vector that each row of lanes is, lane for lane; -1 where it is a mixture."""
    width = slots.shape[1]
    whole = (slots == slots[:, :1] + np.arange(width)).all(axis=1) & (slots[:, 0] % width == 0)
    return np.where(whole, slots[:, 0] // width, -1)


def _vector_statistics(
    forest: Forest,
    blocks: packing.Blocks,
    vectors: schedule.BranchVectors,
    places: layout.VectorRows,
) -> dict[str, int | float]:
    steps = np.add.reduceat(vectors.rows, vectors.template_start[:-1])
    return {
        "dependent_steps": int(steps.max()) * 2,
        "idle_lanes": 1 - forest.num_nodes / places.size,
        "cells_per_block": len(blocks.cells) / blocks.num_blocks,
    }


def rank_in_tree(
    forest: Forest, levels: schedule.BranchLevels | schedule.BranchVectors
) -> np.ndarray:
    """(num_branches,) int64: place of each branch's first node in the order of its tree."""
    trees = forest.trees
    first = trees.branch_start[levels.tree_branch]
    return first - trees.offsets[trees.branch_tree[levels.tree_branch]]


def _fine_statistics(
    levels: schedule.BranchLevels, blocks: packing.Blocks, work_group: int
) -> dict[str, int | float]:
    """Levels, steps and idle lanes over all blocks; a step is one element of every lane."""
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
