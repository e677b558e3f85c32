"""Run every method on one mix of reconstructed cells, and compare with the reference.

    python bench/bench_methods.py [--device SPEC] [--morphologies FOLDER] [--nodes 1e6] [--out F]
    python bench/bench_methods.py --options [--work-group 64] [as above]

The mix is all SWC files of a folder (else the sample cells of the package), a node a sample,
repeated and shuffled. Methods that take chains only get chains of the same sizes, which the
column `systems` says. `error` is the largest difference from the reference in float64 over the
largest value of the solution, `residual` the largest componentwise backward error, `extra` the
device memory beyond d, u, b and x in natural order, index tables and padding included.

With ``--options`` instead, what the options of `fine` and the `k` of `dhs` do to the plans of that
mix, and to the time: levels (of `dhs` steps), steps of a lane that follow one another, lanes that
are idle, padding, cells a block, barriers of all work-groups together, extra bytes. Rows of `fine`
are one work-item a branch, in work-groups of ``--work-group``; on a CPU those with one branch a
lane of a vector come before them. Which cells share a block only matters where the batch is large
enough for more cells a block than one: on a GPU give ``--nodes 2e7``.
"""

from __future__ import annotations

import argparse
from typing import Any

import common
import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from tqdm import tqdm

import clhines
from clhines import reference
from clhines.cells import shapes
from clhines.device import devices, timing
from clhines.errors import ClhinesError

SHAPING: tuple[dict[str, Any], ...] = (
    {},
    {"reroot": True},
    {"packing": "sorted"},
    {"packing": "best_fit"},
    {"split": "mean"},
    {"split": "block"},
    {"level_shift": True},
    {"reroot": True, "split": "block", "packing": "sorted", "level_shift": True},
)  # of `fine`, after `clhines.reroot` where that is named; the last is called `four of these`
LANES = (*({"k": k} for k in (1, 2, 4, 8, 16, 32)), {"k": 16, "local": True})  # of `dhs`


def chains_of_the_sizes(forest: clhines.Forest) -> clhines.Forest:
    """Return a chain for every cell, of as many nodes."""
    sizes, which = np.unique(forest.sizes, return_inverse=True)
    parents = [shapes.chain(int(n)) for n in sizes]
    return clhines.Forest.from_cells([parents[k] for k in which])


def time_method(solver: clhines.Solver, method: str, dtype: str) -> dict[str, Any]:
    """One row of the table."""
    queue, forest = solver.queue, solver.forest
    systems = [[a.astype(dtype) for a in common.system(forest, common.SEED + k)] for k in (0, 1)]
    sets = [[solver.pack(a) for a in arrays] for arrays in systems]
    out = [cla.zeros_like(s[2]) for s in sets]
    queue.finish()

    def launch(k: int) -> list[cl.Event]:
        solver.enqueue(*sets[k % 2], out=out[k % 2])
        return solver.kernel_events

    seconds = timing.median_seconds(queue, launch)
    x, truth = solver.unpack(out[0]).get(), reference.solve_serial(forest, *systems[0])
    itemsize = np.dtype(dtype).itemsize
    plain = 4 * forest.num_nodes * itemsize
    return {
        "method": method,
        "dtype": dtype,
        "cells": forest.num_cells,
        "nodes": forest.num_nodes,
        "kernels": len(solver.plan.parts),
        "seconds": seconds,
        "error": float(np.abs(x - truth).max() / np.abs(truth).max()),
        "residual": reference.residual(forest, *systems[0], x),
        "extra_bytes": solver.plan.bytes_needed(itemsize, 4 + solver.plan.needs_factor) - plain,
    }


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


def rows_of(
    queue: cl.CommandQueue, forest: clhines.Forest, dtypes: list[str], methods: list[str]
) -> list[dict[str, Any]]:
    """All methods, on chains of the same sizes where they take nothing else."""
    rows = []
    chains = chains_of_the_sizes(forest)
    for dtype in dtypes:
        floor = timing.floor_seconds(queue, forest.num_nodes, dtype)
        for method in tqdm(methods, dtype, disable=None):
            known = clhines.METHODS.get(method)
            systems = "chains" if known and known.chains_only else "cells"
            cells = chains if systems == "chains" else forest
            solver = clhines.Solver(cells, method, dtype, queue=queue)
            row = time_method(solver, method, dtype)
            good = row["residual"] < common.TOLERANCE[dtype]
            rows.append(
                {"systems": systems, **row, "x_floor": row["seconds"] / floor, "good": good}
            )
    return rows


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
            cells, others, _ = common.rooted(forest, options)
            solver = clhines.Solver(cells, method, dtype, queue=queue, **others)
            row = time_method(solver, method, dtype) | judged(solver.plan)
            row |= {"x_floor": row["seconds"] / floor}
            row |= {"good": row["residual"] < common.TOLERANCE[dtype]}
            rows.append({"kind": kind, "options": options, **row})
    return rows


def option_table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as text, at most 100 columns wide."""
    head = (
        f"{'options':<18} {'levels':>6} {'steps':>6} {'idle %':>6} {'padding %':>9} {'cells':>6} "
        f"{'barriers':>8} {'B/node':>6} {'solve us':>10} {'x floor':>8} good"
    )
    lines, last = [], None
    for r in rows:
        kind = f"{r['kind']}, {r['dtype']}"
        lines += [f"{kind}:"] if kind != last else []
        last = kind
        levels = "-" if r["levels"] is None else str(r["levels"])
        lines.append(
            f"  {label(r['options']):<16} {levels:>6} {r['steps']:>6} "
            f"{100 * r['idle_lanes']:>6.1f} {100 * r['padding']:>9.1f} "
            f"{r['cells_per_block']:>6.1f} {r['barriers']:>8} "
            f"{r['extra_bytes'] / r['nodes']:>6.1f} {r['seconds'] * 1e6:>10.1f} "
            f"{r['x_floor']:>8.2f} {'yes' if r['good'] else 'NO'}"
        )
    return common.ruled(head, lines)


def label(options: dict[str, Any]) -> str:
    """Name the options of a row in a few words."""
    asked = {k: v for k, v in options.items() if k != "work_group"}
    if len(asked) > 2:
        return "four of these"
    return " ".join(k if v is True else f"{k}={v}" for k, v in asked.items()) or "none"


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as text, at most 100 columns wide."""
    head = (
        f"{'method':<18} {'dtype':<7} {'systems':<7} {'kernels':>7} {'solve us':>10} "
        f"{'x floor':>8} {'error':>9} {'residual':>9} {'extra B/node':>12} good"
    )
    lines = []
    for r in rows:
        lines.append(
            f"{r['method']:<18} {r['dtype']:<7} {r['systems']:<7} {r['kernels']:>7} "
            f"{r['seconds'] * 1e6:>10.1f} {r['x_floor']:>8.2f} {r['error']:>9.1e} "
            f"{r['residual']:>9.1e} {r['extra_bytes'] / r['nodes']:>12.1f} "
            f"{'yes' if r['good'] else 'NO'}"
        )
    return common.ruled(head, lines)


def main() -> int:
    """Write ``methods-<device>.*`` or ``options-<device>.*``; 1 where a solution is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device")
    parser.add_argument("--morphologies", help="folder of SWC files")
    parser.add_argument("--nodes", type=float, default=1e6)
    parser.add_argument("--options", action="store_true", help="those of fine and dhs instead")
    parser.add_argument("--work-group", type=int, help="of fine with --options; default: 64 or 16")
    parser.add_argument("--dtype", nargs="+", default=["float64", "float32"])
    parser.add_argument("--methods", nargs="+", default=["auto", *clhines.METHODS])
    parser.add_argument("--out", default=str(common.RESULTS))
    args = parser.parse_args()
    try:
        forest = common.real_mix(args.morphologies, args.nodes)
        needed = np.float64 if "float64" in args.dtype else np.float32
        queue = devices.make_queue(devices.choose(args.device, needed))
        if args.options:
            rows = option_rows(queue, forest, args.dtype, args.work_group)
        else:
            rows = rows_of(queue, forest, args.dtype, args.methods)
    except ClhinesError as error:
        raise SystemExit(f"bench_methods.py: {error}") from error
    result = {"record": common.record(queue, common.command_line()), "rows": rows}
    if args.options:
        common.write("options", queue, result, option_table(rows), args.out)
    else:
        common.write("methods", queue, result, table(rows), args.out)
    return 0 if all(row["good"] for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
