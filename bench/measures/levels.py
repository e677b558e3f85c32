"""Time `fine`'s kernels written for a number of levels beside the one for any number.

    python -m bench levels [--device SPEC] [--cells 1 256 25600] [--dtype float64]

Cells of 512 nodes with 1 to 12 branch levels, of one shape or of 16. Both kernels solve in turns,
three rounds, and the faster round of each counts. `build s` is a build that no cache has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl
from tqdm import tqdm

import clhines
from bench import record, systems, table
from bench.measures.solve import build_seconds
from clhines.cells.shapes import chain, random_binary_tree
from clhines.device import devices, timing
from clhines.device.templates import render
from clhines.plan.by_branch import fine

NODES, LEVELS, ANY = 512, 12, {"MOST_LEVELS": 0, "MOST_LEVELS_CPU": 0}
CHECKED = 512  # cells whose solution is checked
OWN = {"MOST_LEVELS": LEVELS, "MOST_LEVELS_CPU": LEVELS}


def shapes(levels: int, count: int) -> list[np.ndarray]:
    """Binary trees with so many branch levels, as many as `count` where they can be found."""
    if levels == 1:
        return [chain(NODES)]
    found: list[np.ndarray] = []
    for seed in range(4000):
        tree = random_binary_tree(NODES, 2 * levels + 1 + 2 * (seed % (2 * levels)), seed)
        if int(clhines.Forest(tree).trees.branch_level.max()) + 1 == levels:
            found.append(tree)
        if len(found) == count:
            break
    return found


def solver_with(
    limits: dict[str, int], forest: clhines.Forest, dtype: str, queue: cl.CommandQueue
) -> clhines.Solver:
    """Solver of work-items per branch, with other limits for kernels written for their levels."""
    usual = {name: getattr(fine, name) for name in limits}
    group = 16 if devices.is_cpu(queue.device) else None
    try:
        for name, value in limits.items():
            setattr(fine, name, value)
        return clhines.Solver(forest, "fine", dtype, queue=queue, work_group=group)
    finally:
        for name, value in usual.items():
            setattr(fine, name, value)


def row(queue: cl.CommandQueue, forest: clhines.Forest, dtype: str) -> dict[str, Any]:
    """Both kernels on one batch."""
    values = systems.values(forest, dtype)
    some = forest.take(np.arange(min(CHECKED, forest.num_cells)))
    found, launches = {}, {}
    for name, limits in (("any", ANY), ("own", OWN)):
        solver = solver_with(limits, forest, dtype, queue)
        launch, result = systems.in_device_order(solver, values)
        launch(0)
        solution = result(0)[: some.num_nodes]
        error = clhines.reference.residual(
            some, *(a[: some.num_nodes] for a in values[0]), solution
        )
        built = build_seconds(queue, [render(p.spec) for p in solver.plan.parts])
        launches[name] = launch
        found |= {f"{name}_{k}": v for k, v in built.items()}
        found |= {f"{name}_residual": error, f"{name}_seconds": np.inf}
    for _ in range(3):
        for name, launch in launches.items():
            seconds = timing.median_seconds(queue, launch)
            found[f"{name}_seconds"] = min(found[f"{name}_seconds"], seconds)
    worst = max(found["any_residual"], found["own_residual"])
    return found | {"good": worst < systems.TOLERANCE[dtype]}


def text(result: dict[str, Any]) -> str:
    """Return the rows as text."""
    head = (
        f"{'dtype':<8} {'shapes':>6} {'cells':>6} {'levels':>6} {'any us':>9} {'own us':>9} "
        f"{'own/any':>8} {'build s':>8} {'own':>6} {'cached':>7} {'own':>6} good"
    )
    lines = [
        f"{r['dtype']:<8} {r['shapes']:>6} {r['cells']:>6} {r['levels']:>6} "
        f"{r['any_seconds'] * 1e6:>9.1f} {r['own_seconds'] * 1e6:>9.1f} "
        f"{r['own_seconds'] / r['any_seconds']:>8.3f} {r['any_build_cold_seconds']:>8.2f} "
        f"{r['own_build_cold_seconds']:>6.2f} {r['any_build_cached_seconds']:>7.3f} "
        f"{r['own_build_cached_seconds']:>6.3f} {table.verdict(r['good'])}"
        for r in result["rows"]
    ]
    return table.ruled(head, lines, [(r["dtype"], r["shapes"], r["cells"]) for r in result["rows"]])


def main(arguments: Sequence[str]) -> int:
    """Write ``levels-<device>.*``; 1 where a solution is wrong."""
    parser = record.parser("levels", __doc__)
    parser.add_argument("--cells", type=int, nargs="+", default=[1, 256, 25600])
    parser.add_argument("--dtype", nargs="+", default=["float64"], choices=list(systems.TOLERANCE))
    args = parser.parse_args(arguments)
    queue = record.queue(args.device, args.dtype)
    cases = [(d, s, n) for d in args.dtype for s in (1, 16) for n in args.cells if n >= s]
    rows = []
    for dtype, count, cells in tqdm(cases, disable=None):
        for levels in range(1, LEVELS + 1):
            trees = shapes(levels, count)
            if len(trees) < count and levels > 1:
                continue
            pick = np.random.default_rng(record.SEED).integers(0, len(trees), cells)
            forest = clhines.Forest.from_cells([trees[k] for k in pick])
            case = {"dtype": dtype, "shapes": len(trees), "cells": cells, "levels": levels}
            rows.append(case | row(queue, forest, dtype))
    result = {"record": record.record(queue, "levels", arguments), "rows": rows}
    record.write("levels", queue, result, text(result), args.out)
    return 0 if all(r["good"] for r in rows) else 1
