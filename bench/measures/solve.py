"""Time every method on batches of 512-node cells, beside the memory floor.

    python -m bench solve [--device SPEC] [--cells 1 256 2560 25600] [--out FOLDER]

Values are in device order and random, two input sets take turns, times are medians; on a GPU
from device events, on a CPU wall time. Every solution that is timed is checked.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from tqdm import tqdm

import clhines
from bench import record, systems, table
from clhines.solver import reference
from clhines.solver.device import devices, program, timing
from clhines.solver.plan.templates import render


def time_method(
    queue: cl.CommandQueue, forest: clhines.Forest, method: str, dtype: str, sets: list
) -> dict[str, Any]:
    begin = time.perf_counter()
    plan = clhines.make_plan(forest, method, dtype, devices.limits(queue.device))
    plan_seconds = time.perf_counter() - begin
    solver = clhines.Solver(forest, method, dtype, queue=queue)
    values = [[a.astype(dtype) for a in arrays] for arrays in sets]
    launch, solution = systems.in_device_order(solver, values)
    seconds = timing.median_seconds(queue, launch)
    worst = max(reference.residual(forest, *values[k], solution(k)) for k in range(len(values)))
    if not worst < systems.TOLERANCE[dtype]:
        sys.exit(f"{method}, {dtype}, {forest}: residual {worst:.3g}: wrong, so not timed")
    natural = [cla.to_device(queue, arrays[0]) for arrays in values]
    packed = solver.to_device_order(natural[0])
    solver.solve(*values[1])
    numpy_seconds = []
    for k in range(5):
        begin = time.perf_counter()
        solver.solve(*values[k % 2])
        numpy_seconds.append(time.perf_counter() - begin)
    return {
        "method": method,
        "dtype": dtype,
        "cells": forest.num_cells,
        "nodes": forest.num_nodes,
        "seconds": seconds,
        "padding": plan.packed_size / forest.num_nodes - 1,
        "plan_seconds": plan_seconds,
        **build_seconds(queue, [render(p.spec) for p in plan.parts]),
        "pack_seconds": timing.median_seconds(
            queue, lambda k: solver.to_device_order(natural[k % 2]).events[-1]
        ),
        "unpack_seconds": timing.median_seconds(
            queue, lambda _: solver.from_device_order(packed).events[-1]
        ),
        "numpy_seconds": float(np.median(numpy_seconds)),
        "residual": worst,
    }


def build_seconds(queue: cl.CommandQueue, sources: Sequence[str]) -> dict[str, float]:
    """Time to build a plan's sources that no cache has seen, and to build them again."""
    token = secrets.randbits(30)
    unique = f"\n__kernel void unique_{token}(__global int *a) {{ a[0] = {token}; }}\n"
    times = []
    for _ in range(2):
        begin = time.perf_counter()
        for source in sources:
            cl.Kernel(program.build(queue.context, BenchSpec(), source + unique), "solve")
        times.append(time.perf_counter() - begin)
    return {"build_cold_seconds": times[0], "build_cached_seconds": times[1]}


class BenchSpec:
    template = "bench"


def text(result: dict[str, Any]) -> str:
    head = (
        f"{'cells':>6} {'dtype':<7} {'method':<17} {'floor us':>8} {'solve us':>9} {'x floor':>7} "
        f"{'ns/node':>7} {'plan s':>6} {'build s':>7} {'cached':>6} {'numpy ms':>8}"
    )
    lines = []
    for r in result["rows"]:
        lines.append(
            f"{r['cells']:>6} {r['dtype']:<7} {r['method']:<17} {r['floor_seconds'] * 1e6:>8.1f} "
            f"{r['seconds'] * 1e6:>9.1f} {r['x_floor']:>7.2f} "
            f"{r['seconds'] / r['nodes'] * 1e9:>7.3f} {r['plan_seconds']:>6.2f} "
            f"{r['build_cold_seconds']:>7.2f} {r['build_cached_seconds']:>6.3f} "
            f"{r['numpy_seconds'] * 1e3:>8.2f}"
        )
    return table.ruled(head, lines)


def main(arguments: Sequence[str]) -> None:
    parser = record.parser("solve", __doc__)
    parser.add_argument("--cells", type=int, nargs="+", default=[1, 256, 2560, 25600])
    parser.add_argument("--nodes", type=int, default=512)
    parser.add_argument("--branches", type=int, default=50)
    parser.add_argument("--dtype", nargs="+", default=["float64", "float32"])
    args = parser.parse_args(arguments)
    queue = record.queue(args.device)
    rows = []
    cases = [(c, t, m) for c in args.cells for t in args.dtype for m in systems.TREE_METHODS]
    floors: dict[tuple[int, str], float] = {}
    forest = None
    for cells, dtype, method in tqdm(cases, disable=None):
        if forest is None or forest.num_cells != cells:
            forest = systems.batch(cells, args.nodes, args.branches)
            sets = [systems.system(forest, record.SEED + k) for k in range(2)]
        if (cells, dtype) not in floors:
            floors[cells, dtype] = timing.floor_seconds(queue, forest.num_nodes, dtype)
        row = time_method(queue, forest, method, dtype, sets)
        row["floor_seconds"] = floors[cells, dtype]
        row["x_floor"] = row["seconds"] / row["floor_seconds"]
        rows.append(row)
    record.write("solve", queue, arguments, {"rows": rows}, text, args.out)
