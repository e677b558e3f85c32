"""`clhines solve`."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from clhines.cli.arguments import Commands, add_cells, count, finite, positive_number, read_cells
from clhines.cli.report import (
    BuildTimer,
    as_json,
    check_writable,
    devices_and_memory,
    doing,
    named_option,
    repairs,
    state_memory,
    table,
    tell,
    where,
)
from clhines.core import files
from clhines.core.arrays import repeat
from clhines.core.errors import DeviceMemoryError, PivotError
from clhines.simulator.cells import cable
from clhines.solver.plan.auto import MODES

if TYPE_CHECKING:
    from clhines.simulator.passive import PassiveCells
    from clhines.solver.solver import Solver


# Elimination without pivoting is backward stable on diagonally dominant matrices: a few epsilon a
# row. How far the solution may then be from the true one is a matter of the condition.
RESIDUAL_EPS = 64.0


def add_solve(commands: Commands) -> None:
    solve = commands.add_parser("solve", help="advance passive cells and check the last step")
    add_cells(solve, several=True)
    # an option in two lines or three
    # fmt: off
    solve.add_argument("--max-memory", type=positive_number, metavar="MIB",
                       help="most memory of a device [MiB]; larger batches are solved in slices "
                       "(default: nine tenths of it)")
    solve.add_argument("--dt", type=positive_number, default=0.025, metavar="MS",
                       help="time step [ms] (default: 0.025)")
    solve.add_argument("--steps", type=count, default=40, metavar="K",
                       help="steps to advance (default: 40)")
    solve.add_argument("--current", type=finite, default=0.1, metavar="NA",
                       help="current into the middle of each soma from t = 0 on [nA] "
                       "(default: 0.1)")
    solve.add_argument("--out", metavar="FILE.npz",
                       help="write the last voltages, trees, coordinates")
    solve.add_argument("--tune", choices=MODES, default="heuristic", metavar="T",
                       help=f"auto goes by: {', '.join(MODES)} (default: {MODES[0]})")
    # fmt: on
    solve.add_argument("--json", action="store_true", help="print JSON instead of a table")
    solve.add_argument("--no-check", action="store_true", help="skip the check of the last step")
    solve.set_defaults(run=run_solve)


def run_solve(arguments: argparse.Namespace) -> int:
    from clhines.simulator.passive import PassiveCells

    if arguments.out is not None:
        check_writable(arguments.out)
    cables = read_cells(arguments, arguments.files)
    begin, timer = time.perf_counter(), BuildTimer()
    options: dict[str, Any] = devices_and_memory(arguments)
    if not options.get("devices"):
        options["profile"] = True
    with doing("planning and building kernels"):
        cells = PassiveCells(
            cables,
            arguments.cells,
            dt=arguments.dt,
            current=arguments.current,
            method=arguments.method,
            dtype=arguments.dtype,
            tune=arguments.tune,
            **options,
        )
    state_memory(cells.solver)
    plan_s = time.perf_counter() - begin - timer.seconds
    with doing("first step"):
        first_s = cells.advance(range(1))  # some drivers compile for the device only now
    rest_s = first_s
    if arguments.steps > 1:
        bar = tqdm(range(1, arguments.steps), "steps", disable=None, leave=False)
        rest_s = cells.advance(bar) / (arguments.steps - 1)
    forest, solver = cells.forest, cells.solver
    report: dict[str, object] = {
        "cells": forest.num_cells,
        "nodes": forest.num_nodes,
        "branches": forest.num_branches,
        "shapes": forest.trees.num_trees,
        **repairs(arguments),
        "method": solver.plan.method,
        "dtype": arguments.dtype,
        **where(solver),
        "plan_s": plan_s,
        "build_s": timer.seconds,
        "steps": arguments.steps,
        "first_step_ms": first_s * 1e3,
        "step_ms": rest_s * 1e3,
    }
    with doing("timing a solve"):
        report |= _speed(cells, rest_s)
    with doing("checking the last step"):
        failed = "" if arguments.no_check else _check(cells, report)
    if arguments.out is not None:
        with doing("writing"):
            write_cells(arguments.out, cables, cells)
    print(as_json(report) if arguments.json else _table(report, solver))
    if failed:
        tell(f"the check failed: {failed}")
    return 1 if failed else 0


def _speed(cells: PassiveCells, step_s: float) -> dict[str, float]:
    """Return the times of a solve and of the memory floor; in slices the time of a step."""
    from clhines.solver.device import timing

    solver, n = cells.solver, cells.forest.num_nodes
    solve_s = step_s
    if cells.on_device and len(solver.queues) > 1:
        solve_s = _seconds_of_all(cells)
    elif cells.on_device:
        solve_s = timing.median_seconds(solver.queue, lambda _: cells.solve_again())
    floor_n = min(n, solver.plan.forest.num_nodes)
    shares = [share for share in solver.shares if share]
    try:
        floors = [
            timing.floor_seconds(queue, floor_n, solver.dtype) * n / floor_n * share
            for queue, share in zip(solver.queues, shares, strict=True)
        ]
        floor_s = max(floors)  # of several devices, that which would take longest
    except DeviceMemoryError:  # the batch leaves too little memory for it
        floor_s = math.nan
    moved = timing.FLOOR_ARRAYS * solver.dtype.itemsize * n
    return {
        "solve_ms": solve_s * 1e3,
        "gb_per_s": moved / solve_s * 1e-9,
        "x_floor": solve_s / floor_s,
    }


def _seconds_of_all(cells: PassiveCells) -> float:
    """Median wall time of a solve on several devices, which have no clock in common."""

    def solve() -> float:
        begin = time.perf_counter()
        cells.solve_again()
        cells.finish()
        return time.perf_counter() - begin

    return float(np.median([solve() for _ in range(11)][2:]))


def _check(cells: PassiveCells, report: dict[str, object]) -> str:
    backward = RESIDUAL_EPS * float(np.finfo(cells.solver.dtype).eps)
    report["residual_limit"] = backward
    try:
        measures = cells.check()
    except PivotError as error:
        names = "residual", "difference", "condition", "difference_limit"
        report |= dict.fromkeys(names, math.nan) | {"check": "failed"}
        return str(error)
    # Both solutions are that close to the true one: componentwise backward error times condition.
    exact = RESIDUAL_EPS * float(np.finfo(np.float64).eps)
    limits = {"residual": backward, "difference": measures["condition"] * (backward + exact)}
    wrong = [name for name, limit in limits.items() if not measures[name] <= limit]  # also for NaN
    report |= measures | {f"{name}_limit": limit for name, limit in limits.items()}
    report["check"] = "failed" if wrong else "good"
    return "; ".join(
        f"{name} {measures[name]:.3g}, expected at most {limits[name]:.3g}" for name in wrong
    )


def _table(report: Mapping[str, object], solver: Solver) -> str:
    from clhines.solver.engines.memory import size_text

    used, pinned = (sum(getattr(m, of) for m in solver.memory) for of in ("device", "pinned"))
    rows = {
        "cells": "{cells} ({shapes} distinct shapes)",
        "repaired": "{repaired} radii of 0, interpolated" if "repaired" in report else "",
        "nodes": "{nodes}",
        "branches": "{branches}",
        "method": "{method}, {dtype}",
        "device": "{device}",
        "shares": ", ".join(f"{share:.1%}" for share in solver.shares)
        if len(solver.shares) > 1
        else "",
        "memory": f"{size_text(used)} at most" + f", {size_text(pinned)} pinned" * (pinned > 0),
        "slices": "{slices}" if solver.num_slices > 1 else "",
        "plan": "{plan_s:.3f} s",
        "build": "{build_s:.3f} s",
        "step": "{step_ms:.3f} ms on average; the first of {steps} took {first_step_ms:.3f} ms",
        "solve": "{solve_ms:.3f} ms, {gb_per_s:.1f} GB/s, {x_floor:.2f} x floor",
        "residual": "{residual:.2e} largest relative, at most {residual_limit:.2e}",
        "reference": "{difference:.2e} largest difference, at most {difference_limit:.2e}",
        "check": "{check}",
    }
    needs = {"residual": "residual", "reference": "difference", "check": "check"}
    shown = {k: v for k, v in rows.items() if needs.get(k, "cells") in report}
    return table(shown, report)


def write_cells(name: str, cables: list[cable.Cable], cells: PassiveCells) -> None:
    forest = cells.forest
    arrays = {
        "v": cells.voltages(),
        "parent": forest.parent,
        "cell_offsets": forest.cell_offsets,
        "xyz": repeat([c.xyz for c in cables], forest.num_cells),
    }
    with named_option("--out"):
        files.write_npz(name, arrays)
