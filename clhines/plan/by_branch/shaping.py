"""`fine` and its options: shape the forest, then plan lanes or vectors."""

from __future__ import annotations

from dataclasses import replace

from clhines.errors import InputError, shown
from clhines.forest import Forest
from clhines.plan.by_branch.fine import plan_lanes
from clhines.plan.by_branch.fine_vector import plan_vectors
from clhines.plan.plan import Limits, Options, Plan

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
    """Plan `fine`: one work-group per block of cells, one work-item per branch, barrier per level.

    On CPUs it is one work-item per block and one branch per lane of a vector, unless a work-group
    or an option that shapes levels (split, level_shift) is requested. Options:

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
        not fit alone are solved in global memory. Default: only one work-item per block does so.
    """
    width, group = options["vector_width"], options["work_group"]
    found = {"split": options["split"], "level_shift": options["level_shift"]}
    shaping = [f"{name}={shown(value)}" for name, value in found.items() if value]
    if width and (group or 1) > 1:
        raise InputError(f"vector_width={width} needs work_group=1; got work_group={group}")
    if width and shaping:
        raise InputError(
            f"{shaping[0]} shapes levels, which vectors do not have; got vector_width={width}"
        )
    if options["level_shift"] and options["packing"] == "best_fit":
        raise InputError("level_shift=True needs packing 'next_fit' or 'sorted'; got 'best_fit'")
    vectors = width or (limits.is_cpu and (group or 1) == 1 and not shaping)
    plan_rows = plan_vectors if vectors else plan_lanes
    plan = plan_rows(forest, method, real, limits, options)
    usual = dict(FINE_OPTIONS)
    asked = [f"{k}={v}" for k, v in options.items() if v not in (None, usual[k])]
    return replace(plan, changes={"options": " ".join(asked)} if asked else {})
