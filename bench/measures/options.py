"""Measure what the options of `fine` and `dhs` do to the plans and times of one mix.

    python -m bench options [--device SPEC] [--morphologies FOLDER] [--nodes 1e6] [--work-group 64]

The mix is that of `methods`. Columns: levels (of `dhs` steps), steps of a lane that follow one
another, idle lanes, padding, cells a block, barriers of all work-groups together, extra bytes. Rows
of `fine` are one work-item a branch, in work-groups of ``--work-group``; on a CPU those with one
branch a lane of a vector come before them. Which cells share a block only matters where the batch
is large enough for more cells a block than one: on a GPU give ``--nodes 2e7``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl
from tqdm import tqdm

import clhines
from bench import record, systems, table
from bench.measures import methods
from clhines.device import devices, timing

SHAPING: tuple[dict[str, Any], ...] = (
    {},
    {"reroot": True},
    {"packing": "sorted"},
    {"packing": "best_fit"},
    {"split": "mean"},
    {"split": "block"},
    {"level_shift": True},
    {"reroot": True, "split": "block", "packing": "sorted", "level_shift": True},
)  # of `fine`; the last is called `four of these`
LANES = (*({"k": k} for k in (1, 2, 4, 8, 16, 32)), {"k": 16, "local": True})  # of `dhs`


def judged(plan: clhines.Plan) -> dict[str, Any]:
    """Return what judges a plan of `fine` or `dhs` without a device, over all its launches."""
    found = [part.statistics for part in plan.parts]
    levels = [s.get("levels", s.get("steps")) for s in found]
    known = [n for n in levels if n is not None]
    row = {
        "levels": max(known) if known else None,
        "steps": sum(s.get("dependent_steps", 0) for s in found),
        "barriers": sum(s.get("barriers", 0) for s in found),
        "padding": plan.packed_size / plan.forest.num_nodes - 1,
        "cells_per_block": plan.forest.num_cells / sum(part.num_groups for part in plan.parts),
    }
    lane_steps = 0.0
    for s, part in zip(found, plan.parts):
        number = part.tables["cell_number"]
        nodes = plan.forest.sizes[number[number >= 0]].sum()
        lane_steps += nodes / (1 - s["idle_lanes"])
    return {**row, "idle_lanes": 1 - plan.forest.num_nodes / lane_steps}


def option_rows(
    queue: cl.CommandQueue, forest: clhines.Forest, dtypes: list[str], work_group: int | None
) -> list[dict[str, Any]]:
    """All options of `fine` and of `dhs`."""
    is_cpu = devices.is_cpu(queue.device)
    group = work_group or (16 if is_cpu else 64)
    vectors = [o for o in SHAPING if not o.keys() & {"split", "level_shift"}] + [{"local": False}]
    lanes = [{**o, "work_group": group} for o in (*SHAPING, {"local": True})]
    cases = [("fine, vectors", "fine", o) for o in vectors if is_cpu]
    cases += [(f"fine, work-groups of {group}", "fine", o) for o in lanes]
    cases += [("dhs", "dhs", o) for o in LANES]
    rows = []
    for dtype in dtypes:
        floor = timing.floor_seconds(queue, forest.num_nodes, dtype)
        for kind, method, options in tqdm(cases, dtype, disable=None):
            cells, others, _ = systems.rooted(forest, options)
            solver = clhines.Solver(cells, method, dtype, queue=queue, **others)
            row = methods.time_method(solver, method, dtype) | judged(solver.plan)
            row |= {"x_floor": row["seconds"] / floor}
            row |= {"good": row["residual"] < systems.TOLERANCE[dtype]}
            rows.append({"kind": kind, "options": options, **row})
    return rows


def text(result: dict[str, Any]) -> str:
    """Return the rows as text."""
    head = (
        f"{'options':<18} {'levels':>6} {'steps':>6} {'idle %':>6} {'padding %':>9} {'cells':>6} "
        f"{'barriers':>8} {'B/node':>6} {'solve us':>10} {'x floor':>8} good"
    )
    lines, last = [], None
    for r in result["rows"]:
        kind = f"{r['kind']}, {r['dtype']}"
        lines += [f"{kind}:"] if kind != last else []
        last = kind
        levels = "-" if r["levels"] is None else str(r["levels"])
        lines.append(
            f"  {label(r['options']):<16} {levels:>6} {r['steps']:>6} "
            f"{100 * r['idle_lanes']:>6.1f} {100 * r['padding']:>9.1f} "
            f"{r['cells_per_block']:>6.1f} {r['barriers']:>8} "
            f"{r['extra_bytes'] / r['nodes']:>6.1f} {r['seconds'] * 1e6:>10.1f} "
            f"{r['x_floor']:>8.2f} {table.verdict(r['good'])}"
        )
    return table.ruled(head, lines)


def label(options: dict[str, Any]) -> str:
    """Name the options of a row in a few words."""
    asked = {k: v for k, v in options.items() if k != "work_group"}
    if len(asked) > 2:
        return "four of these"
    return " ".join(k if v is True else f"{k}={v}" for k, v in asked.items()) or "none"


def main(arguments: Sequence[str]) -> int:
    """Write ``options-<device>.*``; 1 where a solution is wrong."""
    parser = methods.parser("options", __doc__)
    parser.add_argument("--work-group", type=int, help="of fine; default: 64, on a CPU 16")
    args = parser.parse_args(arguments)
    queue, rows = methods.mix(args, lambda q, mix: option_rows(q, mix, args.dtype, args.work_group))
    result = {"record": record.record(queue, "options", arguments), "rows": rows}
    record.write("options", queue, result, text(result), args.out)
    return 0 if all(row["good"] for row in rows) else 1
