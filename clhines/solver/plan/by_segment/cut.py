"""Cut trees into segments and contract them; join launches of large and small cells."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from clhines.core.arrays import starts
from clhines.solver.forest import Trees
from clhines.solver.plan.by_segment import schedule
from clhines.solver.plan.by_segment.schedule import KEPT_VALUES, NO_LANE
from clhines.solver.plan.plan import Part

USUAL_PLACES = 1056  # values per array in a usual work-group's local memory


def joined(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return a plan's parts; the launch that expands large cells also solves small ones."""
    mine = [
        p for p in parts if p.spec.template == "solver/by_segment/contraction" and p.source == 0
    ]
    expand = next((p for p in mine if p.phase == "expand"), None)
    if expand is None:
        return parts
    out, whole = expand, []
    for part in (p for p in mine if not p.spec.direct):
        alike = part.phase == "solve" and part.spec.work_group == expand.spec.work_group
        if alike and max(part.spec.capacity, part.spec.tree_places) <= USUAL_PLACES:
            whole.append(part)
            out = _appended(out, part)
    return tuple(out if p is expand else p for p in parts if not any(p is q for q in whole))


def _appended(expand: Part, solve: Part) -> Part:
    """Join the launch `expand` with the launch `solve`, which solves other cells whole."""
    longest = max(expand.spec.segment, solve.spec.segment)
    capacity = max(expand.spec.capacity, solve.spec.capacity)
    tree = max(expand.spec.tree_places, solve.spec.tree_places)
    tables, more = _tables_padded_to(expand, longest), _tables_padded_to(solve, longest)
    blocks = more["blocks"].reshape(-1, 8).copy()
    for column, name in ((2, "lane_slot"), (4, "rows"), (6, "cell_number"), (7, "cell_number")):
        blocks[:, column] += len(tables[name])
    more["blocks"] = blocks.reshape(-1)
    more["kept_start"] = np.zeros(len(blocks), np.int32)
    tables |= {name: np.concatenate((tables[name], more[name])) for name in more}
    a, b = expand.statistics, solve.statistics
    groups = expand.num_groups + solve.num_groups

    def mean(name: str) -> float:
        return (a[name] * expand.num_groups + b[name] * solve.num_groups) / groups

    return replace(
        expand,
        spec=replace(
            expand.spec,
            segment=longest,
            capacity=capacity,
            tree_places=tree if tree > capacity else 0,
        ),
        tables=tables,
        num_units=groups,
        num_groups=groups,
        statistics={
            "rounds": max(a["rounds"], b["rounds"]),
            "dependent_steps": max(a["dependent_steps"], b["dependent_steps"]),
            "barriers": a["barriers"] + b["barriers"],
            "idle_lanes": mean("idle_lanes"),
            "cells_per_block": mean("cells_per_block"),
        },
        launches=((expand.launches[0][0], groups),),
    )


def _tables_padded_to(part: Part, longest: int) -> dict[str, np.ndarray]:
    rows = part.tables["rows"].reshape(-1, 2, part.spec.segment)
    wider = np.pad(rows, ((0, 0), (0, 0), (0, longest - part.spec.segment)))
    tables = {**part.tables, "rows": wider.reshape(-1)}
    blocks = tables["blocks"].reshape(-1, 8).copy()
    blocks[:, 4] = blocks[:, 4] // part.spec.segment * longest
    tables["blocks"] = blocks.reshape(-1)
    return tables


@dataclass(frozen=True, eq=False)
class Cut:
    """Trees cut into segments; also the rounds, lanes and memory that their solve needs."""

    segments: schedule.Segments
    contraction: schedule.Contraction
    lanes: np.ndarray  # (num_trees,) segments per tree
    places: np.ndarray  # (num_trees,) values per array in local memory
    kept: np.ndarray  # for each segment its kept node's number in the tree, or -1


def cut_trees(trees: Trees, most: int, ends: np.ndarray | None = None, late: bool = False) -> Cut:
    """Cut trees into segments of at most `most` nodes, and plan the rounds that eliminate them.

    `ends`, (num_nodes,) bool, marks nodes that end a segment and stay in the reduced system. With
    `late`, only roots stay, and the rounds after the leaves eliminate the other nodes in `ends`.
    """
    ordered = None if ends is None else ends[trees.order]
    cut = schedule.segments(trees, most, ordered)
    lanes = np.diff(cut.offsets)
    if ordered is None:  # save the time to contract trees that do not fit
        pinned = np.repeat(lanes >= NO_LANE, lanes)
    else:
        pinned = ordered[cut.first + cut.length - 1]
    plan = schedule.contract(cut.parent, *((None, pinned) if late else (pinned,)))
    begin = cut.offsets[:-1]
    leaf = plan.round == schedule.Contraction.LEAF
    inner = np.add.reduceat(~leaf + 0, begin)
    places = trees.sizes + np.maximum(
        0, KEPT_VALUES * inner - np.add.reduceat(np.where(leaf, cut.length, 0), begin)
    )
    is_kept = plan.round == schedule.Contraction.KEPT
    before = starts(is_kept)
    number = before - np.repeat(before[begin], lanes)
    return Cut(cut, plan, lanes, places, np.where(is_kept, number, -1))
