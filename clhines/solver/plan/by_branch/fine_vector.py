"""Method `fine` on CPUs: a branch per lane of a vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from clhines.core.errors import InputError, shown
from clhines.solver.forest import Forest
from clhines.solver.plan import packing
from clhines.solver.plan.by_branch import layout, schedule
from clhines.solver.plan.by_branch.fine import CACHE_BYTES, plan_lanes, rank_in_tree
from clhines.solver.plan.kernel_spec import KernelSpec
from clhines.solver.plan.packing import PACKINGS
from clhines.solver.plan.plan import (
    MAX_RHS,
    SMALL,
    STREAM_BYTES,
    Limits,
    Options,
    Part,
    Plan,
    as_int32,
    coarse,
    plan_by_kind,
)

FINE_OPTIONS: Options = {
    "work_group": None,
    "max_cells": None,
    "vector_width": None,
    "split": None,
    "packing": "next_fit",
    "level_shift": False,
    "local": None,
}


def plan_fine(forest: Forest, method: str, real: str, limits: Limits, options: Options) -> Plan:
    """Plan `fine`: a work-group per block of cells, a work-item per branch, a barrier per level.

    CPUs have a work-item per block and a branch per lane of a vector, unless the options request a
    work-group or shape the levels (`split`, `level_shift`).
    """
    width, group = options["vector_width"], options["work_group"]
    values = {"split": options["split"], "level_shift": options["level_shift"]}
    shaping = [f"{name}={shown(value)}" for name, value in values.items() if value]
    _check_options(options, shaping)
    vectors = width or (limits.is_cpu and (group or 1) == 1 and not shaping)
    plan_rows = plan_vectors if vectors else plan_lanes
    plan = plan_rows(forest, method, real, limits, options)
    usual = dict(FINE_OPTIONS)
    changed = [f"{k}={v}" for k, v in options.items() if v not in (None, usual[k])]
    return replace(plan, changes={"options": " ".join(changed)} if changed else {})


def _check_options(options: Options, shaping: Sequence[str]) -> None:
    """Refuse options of `fine` that exclude each other.

    `shaping` has the texts of options that change the levels, such as ``split='mean'``.
    """
    width, group = options["vector_width"], options["work_group"]
    if width and (group or 1) > 1:
        raise InputError(f"vector_width={width} needs work_group=1; got work_group={group}")
    if width and shaping:
        raise InputError(
            f"{shaping[0]} shapes levels, which vectors do not have; got vector_width={width}"
        )
    if options["level_shift"] and options["packing"] == "best_fit":
        raise InputError("level_shift=True needs packing 'next_fit' or 'sorted'; got 'best_fit'")


_SHORT = 64  # long branches have at least this mean length: eight cache lines


@dataclass(frozen=True)
class FineVectorSpec(KernelSpec):
    """Spec of ``fine_vector.mako``: a work-item per block of cells, a vector lane per branch."""

    template: ClassVar[str] = "solver/by_branch/fine_vector"
    tables: ClassVar[tuple[str, ...]] = (
        "block_template",
        "block_start:place",
        "block_cells",
        "cell_number:cell",
        "template_vectors",
        "vector_place",
        "vector_rows",
        "vector_even",
        "vector_parent",
        "vector_rounds",
        "round_vector",
        "round_child",
        "lane_parent",
        "lane_length",
        "lane_slot",
        "lane_rank",
        "gather if natural",
        "cell_start if reads_cells",
    )
    takes_natural: ClassVar[bool] = True
    finds_infinite: ClassVar[bool] = True
    factor_may_be_d: ClassVar[bool] = False
    line_bytes: ClassVar[int] = 64
    vector_width: int  # branches per vector
    capacity: int  # a block's values in local memory; 0 if they are in global memory
    slots: int  # lanes in the largest block: values that branches exchange
    streaming: bool  # the solution bypasses the caches, if the compiler can do that
    prefetch: str  # "builtin" (Clang's), "standard" (OpenCL's) or none
    natural: bool = False  # d, u, l, b and x are in natural order; the factors are not
    short: bool = False  # branches are short: the processor cannot predict the next reads

    @property
    def reads_cells(self) -> bool:
        """Whether a kernel reads a cell completely from natural order before it solves the cell."""
        return self.natural and self.short


def plan_vectors(forest: Forest, method: str, real: str, limits: Limits, options: Options) -> Plan:
    """Plan a branch per vector lane, or `plan_lanes` for cells with too many branches for that."""
    room = limits.local_bytes // (8 if real == "double" else 4)  # values
    budget = min(CACHE_BYTES * room // limits.local_bytes, room * 7 // 10)
    exchanged = 2 * (np.diff(forest.trees.branch_offsets) + 1)
    kept = 2 * forest.trees.sizes + exchanged  # without padding
    at_best = 1 if options["local"] is False else 0
    kind = np.where(2 * kept <= budget, at_best, np.where(2 * exchanged <= room, 1, 2))

    def plan_some(part: Forest, _: np.ndarray, k: int) -> Plan:
        if k == 2:
            lanes: Options = {**options, "work_group": None, "local": False}
            return plan_lanes(part, method, real, limits, lanes)
        return _plan_blocks(part, method, real, limits, options, 0 if k else budget)

    return plan_by_kind(forest, method, kind[forest.shape_of_cell], plan_some)


def _plan_blocks(
    forest: Forest, method: str, real: str, limits: Limits, options: Options, budget: int
) -> Plan:
    """Plan blocks with up to `budget` values in local memory; 0: factors are in global memory."""
    itemsize = 8 if real == "double" else 4
    how = options["packing"] or PACKINGS[0]
    weight = 2 * (forest.trees.sizes + np.diff(forest.trees.branch_offsets) + 1)
    widest = int(options["vector_width"] or max(1, limits.vector_bytes // itemsize))
    max_cells = int(options["max_cells"] or _cells_a_block(forest, weight, limits, budget, widest))
    room = limits.local_bytes // itemsize
    choices = []
    for width in [widest >> k for k in range(widest.bit_length())]:
        fits, blocks, vectors, places = _fit_vectors(
            forest, how, weight, max_cells, budget, room, width
        )
        padded = places.size / forest.num_nodes
        cost = padded * (1 + 8 / width)  # each value and each row take time
        choices.append((not fits, cost, blocks, vectors, places))
        if fits and (padded < 1.25 or options["vector_width"]):
            break
    _, _, blocks, vectors, places = min(choices, key=lambda f: f[:2])
    capacity = int(places.template_size.max()) if budget else 0
    width, slots = vectors.width, _most_slots(vectors)
    if capacity:
        capacity = coarse(capacity, (room // 2 - slots) // width * width, SMALL)
    slots = coarse(slots, (room // 2 - capacity) // width * width, SMALL)
    branches = np.diff(forest.trees.branch_offsets)[forest.shape_of_cell].sum()
    spec = FineVectorSpec(
        real=real,
        work_group=1,
        vector_width=width,
        capacity=capacity,
        slots=slots,
        streaming=places.size * itemsize > STREAM_BYTES and width * itemsize >= 16,
        short=bool(forest.num_nodes < _SHORT * branches),
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
    forest: Forest, how: str, weight: np.ndarray, max_cells: int, budget: int, room: int, width: int
) -> tuple[bool, packing.Blocks, schedule.BranchVectors, layout.VectorRows]:
    """Group cells into blocks, and halve the blocks until each fits into `room` values.

    `how` is the packing, `weight` the values per tree, `room` the size of local memory, `budget`
    the part of it that a block should use, `width` the branches per vector. Return whether all
    blocks fit, the blocks, their vectors, and the layout of their values.
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
    """Return how many values are exchanged: one per lane of a block, and a zero vector."""
    return (int(np.diff(vectors.template_start).max()) + 1) * vectors.width


def _cells_a_block(
    forest: Forest, weight: np.ndarray, limits: Limits, budget: int, width: int
) -> int:
    """Return the most cells per block: all fit the budget, and compute units get equal work.

    `weight` has the values per tree; a block may have `budget` values, a vector `width` branches.
    """
    units = limits.compute_units
    total = int(weight[forest.shape_of_cell].sum())
    needed = -(-total // budget) if budget else -(-forest.num_cells // width)
    needed = max(needed, min(forest.num_cells, units))
    if needed < 8 * units:
        needed = -(-needed // units) * units
    cells = -(-forest.num_cells // needed)
    if forest.trees.num_trees * width > forest.num_cells:
        return cells if budget else 1
    return cells // width * width or cells  # whole vectors, if cells have one shape


def _vector_tables(
    forest: Forest,
    blocks: packing.Blocks,
    vectors: schedule.BranchVectors,
    places: layout.VectorRows,
) -> dict[str, np.ndarray]:
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
    """Return, for each row of lane numbers, the vector with just these lanes, else -1."""
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
