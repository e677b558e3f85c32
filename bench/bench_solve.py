"""Time every method on batches of 512-node cells, next to the memory floor of the same run.

    python bench/bench_solve.py [--device SPEC] [--cells 1 256 2560 25600] [--out FOLDER]

Values are in device order and random, two input sets take turns, times are medians; on a GPU
from device events, on a CPU wall time. Every solution that is timed is checked.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import common
import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from tqdm import tqdm

import clhines
from clhines import device as devices
from clhines import program, reference, tune

TOLERANCE = {"float64": 1e-13, "float32": 5e-5}  # of the row-wise backward error


def time_method(
    queue: cl.CommandQueue, forest: clhines.Forest, method: str, dtype: str, systems: list
) -> dict[str, Any]:
    """One row: what a user waits for once, and the time of a solve."""
    begin = time.perf_counter()
    plan = clhines.make_plan(forest, method, dtype, devices.limits(queue.device))
    plan_seconds = time.perf_counter() - begin
    built = len(program.build_seconds)
    solver = clhines.Solver(forest, method, dtype, queue=queue)
    build_seconds = sum(program.build_seconds[built:])
    sets = [tuple(solver.pack(a) for a in arrays) for arrays in systems]
    out = [cla.zeros_like(s[2]) for s in sets]
    queue.finish()
    seconds = tune.median_seconds(queue, lambda k: solver.enqueue(*sets[k % 2], out[k % 2]))
    worst = 0.0
    for (d, u, b), x in zip(systems, out, strict=True):
        got = solver.unpack(x).get()
        as_used = [a.astype(dtype) for a in (d, u, b)]
        worst = max(worst, reference.residual(forest, *as_used, got))
    if not worst < TOLERANCE[dtype]:
        sys.exit(f"{method}, {dtype}, {forest}: residual {worst:.3g}: wrong, so not timed")
    d, u, b = (a.astype(dtype) for a in systems[0])
    begin = time.perf_counter()
    solver.solve(d, u, b)
    return {
        "method": method,
        "dtype": dtype,
        "cells": forest.num_cells,
        "nodes": forest.num_nodes,
        "seconds": seconds,
        "padding": plan.packed_size / forest.num_nodes - 1,
        "plan_seconds": plan_seconds,
        "build_seconds": build_seconds,
        "numpy_seconds": time.perf_counter() - begin,
        "residual": worst,
    }


def main() -> None:
    """Run the cases and write ``solve-<device>.json`` and ``.txt``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device")
    parser.add_argument("--cells", type=int, nargs="+", default=[1, 256, 2560, 25600])
    parser.add_argument("--nodes", type=int, default=512)
    parser.add_argument("--branches", type=int, default=50)
    parser.add_argument("--dtype", nargs="+", default=["float64", "float32"])
    parser.add_argument("--out", default=str(common.RESULTS))
    args = parser.parse_args()
    queue = devices.make_queue(devices.choose(args.device, np.float32))
    rows = []
    cases = [(c, t, m) for c in args.cells for t in args.dtype for m in clhines.METHODS]
    floors: dict[tuple[int, str], float] = {}
    forest = None
    for cells, dtype, method in tqdm(cases, disable=None):
        if forest is None or forest.num_cells != cells:
            forest = common.batch(cells, args.nodes, args.branches)
            systems = [common.system(forest, common.SEED + k) for k in range(2)]
        if (cells, dtype) not in floors:
            floors[cells, dtype] = tune.floor_seconds(queue, forest.num_nodes, dtype)
        row = time_method(queue, forest, method, dtype, systems)
        row["floor_seconds"] = floors[cells, dtype]
        row["x_floor"] = row["seconds"] / row["floor_seconds"]
        rows.append(row)
    result = {"record": common.record(queue, " ".join(["python", *sys.argv])), "rows": rows}
    common.write("solve", queue, result, table(rows), args.out)


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as text, at most 100 columns wide."""
    head = (
        f"{'cells':>7} {'dtype':<8} {'method':<18} {'floor us':>9} {'solve us':>10} "
        f"{'x floor':>8} {'ns/node':>8} {'plan s':>7} {'numpy ms':>9}"
    )
    lines = [head, "-" * len(head)]
    for r in rows:
        lines.append(
            f"{r['cells']:>7} {r['dtype']:<8} {r['method']:<18} {r['floor_seconds'] * 1e6:>9.1f} "
            f"{r['seconds'] * 1e6:>10.1f} {r['x_floor']:>8.2f} "
            f"{r['seconds'] / r['nodes'] * 1e9:>8.3f} {r['plan_seconds']:>7.2f} "
            f"{r['numpy_seconds'] * 1e3:>9.2f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
