"""Several plans, for different cells, as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from clhines.arrays import ranges
from clhines.forest import Forest
from clhines.plan.plan import Part, Plan

MOST_PROGRAMS = 4  # of a solver


def plan_by_kind(
    forest: Forest, method: str, kind: np.ndarray, plan: Callable[[Forest, np.ndarray, int], Plan]
) -> Plan:
    """Plan the cells of each kind, (num_cells,), by themselves, and put their launches together."""
    plans = []
    for k in np.unique(kind).tolist():
        cells = np.flatnonzero(kind == k)
        part = forest if len(cells) == forest.num_cells else forest.subset(cells)
        plans.append((cells, plan(part, cells, k)))
    if len(plans) == 1:
        return replace(plans[0][1], method=method)
    return _combine(forest, method, plans)


def with_few_programs(plans: list[Plan]) -> list[Plan]:
    """Return plans of one solver with few kernels: general ones in place of many others."""
    if len({part.spec for plan in plans for part in plan.parts}) <= MOST_PROGRAMS:
        return plans
    return [
        replace(plan, parts=tuple(replace(p, spec=p.spec.general()) for p in plan.parts))
        for plan in plans
    ]


def _combine(forest: Forest, method: str, plans: list[tuple[np.ndarray, Plan]]) -> Plan:
    parts: list[Part] = []
    gathers, start, scratch = [], 0, 0
    for cells, plan in plans:
        natural = ranges(forest.cell_offsets[cells], forest.sizes[cells])
        gather = np.where(plan.gather < 0, -1, natural[plan.gather]).astype(np.int32)
        parts += [part.moved(start, cells, scratch) for part in plan.parts]
        gathers.append(gather)
        start += len(gather)
        scratch += len(plan.scratch)
    sizes = tuple(size for _, plan in plans for size in plan.scratch)
    return Plan(forest, method, np.concatenate(gathers), tuple(parts), sizes)
