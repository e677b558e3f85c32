"""Time kernels written for what all cells share beside those for any cells.

    python -m bench levels [--device SPEC] [--cells 1 256 25600] [--dtype float64 float32]

Cells of 512 nodes with so many branch levels: of one random shape, of 16, or with branches of
equal length, two a level; one level is a chain. `own` is written for its levels (`fine`), or for
the nodes of a cell and for chains (`interleaved`); of `levels`, it reads several nodes at once.
Where `used` is NO, the planner takes the other one. Both solve in turns, and the fastest of four
rounds of each counts. `build` is a build that no cache has seen, s. Rows that would begin after
`--seconds` are left out.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyopencl as cl
from tqdm import tqdm

import clhines
from bench import record, systems, table
from bench.made import chain, random_binary_tree
from bench.measures.solve import build_seconds
from clhines.cells.synthetic import number_nodes
from clhines.device import devices, timing
from clhines.device.templates import render
from clhines.plan.by_branch import fine
from clhines.plan.by_branch import levels as by_levels
from clhines.plan.by_cell import cell

NODES, LEVELS = 512, (1, 2, 3, 4, 5, 6, 7, 8, 12, 20)
FEW = (1, 4, 12)  # levels, for kernels that do not depend on them
CHECKED = 512  # cells whose solution is checked
ROUNDS = 4
# method -> its module, and the names there that are set for any cells and for their own
KERNELS: dict[str, tuple[Any, dict[str, tuple[int, int]]]] = {
    "fine": (fine, {"MOST_LEVELS": (0, 64), "MOST_LEVELS_CPU": (0, 64)}),
    "interleaved": (cell, {"OWN": (False, True), "OWN_CPU": (False, True)}),
    "levels": (by_levels, {"AHEAD": (1, by_levels.AHEAD), "AHEAD_CPU": (1, by_levels.AHEAD)}),
}


@functools.cache
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


def equal_branches(levels: int) -> np.ndarray:
    """Of each two branches of equal length, one goes on; about `NODES` nodes."""
    above = [-1, *(max(0, 2 * k - 1) for k in range(levels - 1) for _ in range(2))]
    return number_nodes(np.array(above), np.full(len(above), NODES // len(above)), 0)


def batches(cells: int, levels: Sequence[int]) -> Iterator[tuple[str, int, list[np.ndarray]]]:
    """Yield name, levels and different cells of each batch that there is."""
    for count in levels:
        for name, trees in (
            ("1 shape", shapes(count, 1)),
            ("16 shapes", shapes(count, 16) if cells >= 16 and count > 1 else []),
            ("equal", [equal_branches(count)] if count > 1 else []),
        ):
            if len(trees) == (16 if name == "16 shapes" else 1):
                yield name, count, trees


def options(method: str, queue: cl.CommandQueue) -> dict[str, int]:
    """Options with which `fine` has work-items, not vectors, on a CPU."""
    return {"work_group": 16} if method == "fine" and devices.is_cpu(queue.device) else {}


def solver_with(
    values: dict[str, int], method: str, forest: clhines.Forest, dtype: str, queue: cl.CommandQueue
) -> clhines.Solver:
    """Solver of work-items, with other values of names of the method's module."""
    module = KERNELS[method][0]
    usual = {name: getattr(module, name) for name in values}
    try:
        for name, value in values.items():
            setattr(module, name, value)
        return clhines.Solver(forest, method, dtype, queue=queue, **options(method, queue))
    finally:
        for name, value in usual.items():
            setattr(module, name, value)


def row(
    queue: cl.CommandQueue, method: str, forest: clhines.Forest, dtype: str, values: list
) -> dict[str, Any]:
    """Both kernels on one batch."""
    some = forest.subset(np.arange(min(CHECKED, forest.num_cells)))
    names = KERNELS[method][1]
    limits = devices.limits(queue.device)
    usual = clhines.make_plan(forest, method, dtype, limits, **options(method, queue)).parts[0].spec
    found: dict[str, Any] = {}
    launches = {}
    for k, kind in enumerate(("any", "own")):
        chosen = {name: given[k] for name, given in names.items()}
        solver = solver_with(chosen, method, forest, dtype, queue)
        launch, result = systems.in_device_order(solver, values)
        launch(0)
        solution = result(0)[: some.num_nodes]
        error = clhines.reference.residual(
            some, *(a[: some.num_nodes] for a in values[0]), solution
        )
        built = build_seconds(queue, [render(p.spec) for p in solver.plan.parts])
        launches[kind] = launch
        found |= {f"{kind}_{name}": seconds for name, seconds in built.items()}
        found |= {f"{kind}_residual": error, f"{kind}_seconds": np.inf}
        found["used"] = solver.plan.parts[0].spec == usual
    for _ in range(ROUNDS):
        for kind, launch in launches.items():
            seconds = timing.median_seconds(queue, launch)
            found[f"{kind}_seconds"] = min(found[f"{kind}_seconds"], seconds)
    worst = max(found["any_residual"], found["own_residual"])
    return found | {"good": worst < systems.TOLERANCE[dtype]}


def text(result: dict[str, Any]) -> str:
    """Return the rows as text."""
    head = (
        f"{'method':<11} {'dtype':<7} {'batch':<9} {'cells':>5} {'lev':>3} {'any us':>7} "
        f"{'own us':>7} {'own/any':>7} {'used':<4} {'build':>5} {'own':>5} {'cached':>6} "
        f"{'own':>5} good"
    )
    rows = sorted(
        result["rows"], key=lambda r: (r["method"], r["dtype"], r["cells"], r["batch"], r["levels"])
    )
    lines = [
        f"{r['method']:<11} {r['dtype']:<7} {r['batch']:<9} {r['cells']:>5} {r['levels']:>3} "
        f"{r['any_seconds'] * 1e6:>7.1f} {r['own_seconds'] * 1e6:>7.1f} "
        f"{r['own_seconds'] / r['any_seconds']:>7.3f} {table.verdict(r['used']):<4} "
        f"{r['any_build_cold_seconds']:>5.2f} {r['own_build_cold_seconds']:>5.2f} "
        f"{r['any_build_cached_seconds']:>6.3f} {r['own_build_cached_seconds']:>5.3f} "
        f"{table.verdict(r['good'])}"
        for r in rows
    ]
    found = table.ruled(head, lines, [(r["method"], r["dtype"], r["cells"]) for r in rows])
    left_out = result["left_out"]
    return f"{found}\n\n{left_out} rows left out: no time" if left_out else found


def main(arguments: Sequence[str]) -> int:
    """Write ``levels-<device>.*``; 1 where a solution is wrong."""
    parser = record.parser("levels", __doc__)
    parser.add_argument("--cells", type=int, nargs="+", default=[1, 256, 25600])
    parser.add_argument("--levels", type=int, nargs="+", default=LEVELS)
    parser.add_argument("--methods", nargs="+", default=list(KERNELS), choices=list(KERNELS))
    parser.add_argument(
        "--dtype", nargs="+", default=list(systems.TOLERANCE), choices=list(systems.TOLERANCE)
    )
    parser.add_argument("--seconds", type=float, default=np.inf, help="after which no row begins")
    args = parser.parse_args(arguments)
    queue = record.queue(args.device, args.dtype)
    begin, rows, left_out = time.perf_counter(), [], 0
    for dtype, cells in tqdm([(d, n) for d in args.dtype for n in args.cells], disable=None):
        for name, levels, trees in batches(cells, args.levels):
            methods = [m for m in args.methods if m == "fine" or levels in FEW]
            if time.perf_counter() - begin > args.seconds:
                left_out += len(methods)
                continue
            pick = np.random.default_rng(record.SEED).integers(0, len(trees), cells)
            forest = clhines.Forest.from_parents([trees[k] for k in pick])
            some = forest.subset(np.arange(min(CHECKED, cells)))
            values = systems.values(forest, dtype, some)
            for method in methods:
                case = {"method": method, "dtype": dtype, "batch": name}
                case |= {"cells": cells, "levels": levels}
                rows.append(case | row(queue, method, forest, dtype, values))
    result = {"record": record.record(queue, "levels", arguments), "rows": rows}
    result["left_out"] = left_out
    record.write("levels", queue, result, text(result), args.out)
    return 0 if all(r["good"] for r in rows) else 1
