"""`clhines solve`: advance passive cells, and check the last step."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from clhines.cli.arguments import (
    Commands,
    add_cells,
    add_command,
    count,
    finite,
    positive_number,
    read_cells,
)
from clhines.cli.report import (
    BuildTimer,
    as_json,
    check_writable,
    doing,
    named_option,
    repairs,
    table,
    where,
)
from clhines.core import files
from clhines.core.arrays import repeat, repeated_nodes
from clhines.core.checks import check_room
from clhines.core.errors import DeviceMemoryError, PivotError, tell
from clhines.simulator.cells import cable
from clhines.solver import reference
from clhines.solver.forest import Forest
from clhines.solver.plan.auto import MODES

if TYPE_CHECKING:
    from clhines.solver.solver import Solver


TEXT = """\
Advance passive cells with a current into each soma, and compare the last
step with a reference. Without files the cells are built-in samples."""
EXAMPLES = """\
  clhines solve
  clhines solve *.swc --cells 10000 --out voltages.npz"""

# Elimination without pivoting is backward stable for diagonally dominant matrices: some epsilon a
# row. The condition bounds how far the solution may then be from the true one.
RESIDUAL_EPS = 64.0
_V_INIT = -65.0  # mV
_NODE_BYTES = 6 * 8 + 8  # memory per node: matrix, two voltages, right-hand side, forest


class PassiveSteps:
    """Backward-Euler steps of passive cells with a current into the middle of each soma.

    The host computes the right-hand side ``capacitance / dt * v + constant``; the solver computes
    the next voltages.
    """

    def __init__(
        self, cables: Sequence[cable.Cable], count: int, dt: float, current: float, **options: Any
    ) -> None:
        from clhines.solver.solver import Solver

        nodes = repeated_nodes([c.num_nodes for c in cables], count)
        check_room(_NODE_BYTES * nodes, f"{count} cells")
        self.different = min(len(cables), count)  # number of different cells, which come first
        self.forest = Forest.repeat([c.parent for c in cables], count)
        systems = [c.system(dt) for c in cables]
        for cell, system in zip(cables, systems, strict=True):
            system.constant[cell.soma] += current
        self.solver = Solver(self.forest, **options)
        dtype = self.solver.dtype
        self.d, self.u, self.capacitance_over_dt, self.constant = (
            repeat([getattr(system, name).astype(dtype) for system in systems], count)
            for name in ("d", "u", "capacitance_over_dt", "constant")
        )
        self.v = self.before = np.full(self.forest.num_nodes, _V_INIT, dtype)

    def advance(self, steps: Iterable[int]) -> float:
        """Take one step for each item of `steps`; return the wall time in s."""
        begin = time.perf_counter()
        for _ in steps:
            self.before = self.v
            self.v = self.solver.solve(self.d, self.u, self._right_hand_side(), check=False)
        return time.perf_counter() - begin

    def _right_hand_side(self) -> np.ndarray:
        with np.errstate(all="ignore"):  # values that are not finite show in the check
            return self.capacitance_over_dt * self.before + self.constant

    def solve_seconds(self) -> float:
        """Return the median device time of a solve with the last right-hand side, s."""
        from clhines.solver.device import timing

        solver, arrays = self.solver, (self.d, self.u, self._right_hand_side())
        d, u, b = map(solver.to_device_order, arrays)
        x = b.copy()
        return timing.median_seconds(
            solver.queue, lambda _: solver.enqueue(d, u, b, out=x, packed=True)
        )

    def check(self) -> dict[str, float]:
        """Compare the last step with the reference.

        Returns
        -------
        dict
            `residual`: largest componentwise backward error over all cells. `difference`: largest
            difference from the reference, relative to the reference's largest magnitude.
            `condition`: upper bound of `difference` / `residual`, see `reference.condition`.

        Raises
        ------
        PivotError
            A pivot was not positive and finite.
        """
        status = self.solver.status()
        if (status >= 0).any():
            cell = int(np.argmax(status >= 0))
            raise reference.pivot_error(self.forest, cell, int(status[cell]))
        once = self.forest.subset(np.arange(self.different))
        m, b = once.num_nodes, self._right_hand_side()
        with np.errstate(all="ignore"):
            truth = reference.solve_serial(once, self.d[:m], self.u[:m], b[:m])
            parts = np.split(truth, once.cell_offsets[1:-1])
            expected = repeat(parts, self.forest.num_cells)
            largest = np.abs(truth).max()
            reach = reference.condition(once, self.d[:m], self.u[:m], b[:m], truth)
            return {
                "residual": reference.residual(self.forest, self.d, self.u, b, self.v),
                "difference": float(np.abs(self.v - expected).max() / largest),
                "condition": float(reach.max() / largest),
            }


def add_solve(commands: Commands) -> None:
    solve = add_command(
        commands, "solve", "solve passive cells, check the last step", TEXT, EXAMPLES
    )
    add_cells(solve)
    # fmt: off
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
    if arguments.out is not None:
        check_writable(arguments.out)
    cables = read_cells(arguments)
    begin, timer = time.perf_counter(), BuildTimer()
    with doing("planning and building kernels"):
        cells = PassiveSteps(
            cables,
            arguments.cells or len(cables),
            arguments.dt,
            arguments.current,
            method=arguments.method,
            dtype=arguments.dtype,
            tune=arguments.tune,
            device=arguments.device,
            profile=True,
        )
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
        report |= _speed(cells)
    with doing("checking the last step"):
        failed = "" if arguments.no_check else _check(cells, report)
    if arguments.out is not None:
        with doing("writing"):
            write_cells(arguments.out, cables, cells)
    print(as_json(report) if arguments.json else _table(report, solver))
    if failed:
        tell(f"the check failed: {failed}")
    return 1 if failed else 0


def _speed(cells: PassiveSteps) -> dict[str, float]:
    """Return a solve's time and bandwidth, and its time relative to copying the same arrays."""
    from clhines.solver.device import timing

    solver, n = cells.solver, cells.forest.num_nodes
    solve_s = cells.solve_seconds()
    try:
        floor_s = timing.floor_seconds(solver.queue, n, solver.dtype)
    except DeviceMemoryError:  # the batch leaves too little memory for it
        floor_s = math.nan
    moved = timing.FLOOR_ARRAYS * solver.dtype.itemsize * n
    return {
        "solve_ms": solve_s * 1e3,
        "gb_per_s": moved / solve_s * 1e-9,
        "x_floor": solve_s / floor_s,
    }


def _check(cells: PassiveSteps, report: dict[str, object]) -> str:
    backward = RESIDUAL_EPS * float(np.finfo(cells.solver.dtype).eps)
    report["residual_limit"] = backward
    try:
        measures = cells.check()
    except PivotError as error:
        names = "residual", "difference", "condition", "difference_limit"
        report |= dict.fromkeys(names, math.nan) | {"check": "failed"}
        return str(error)
    # Each solution differs from the true one by its backward error times the condition.
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

    memory = solver.memory
    rows = {
        "cells": "{cells} ({shapes} distinct shapes)",
        "repaired": "{repaired} radii of 0, interpolated" if "repaired" in report else "",
        "nodes": "{nodes}",
        "branches": "{branches}",
        "method": "{method}, {dtype}",
        "device": "{device}",
        "memory": f"{size_text(memory.device)} at most"
        + (f", {size_text(memory.pinned)} pinned" if memory.pinned else ""),
        "plan": "{plan_s:.3f} s",
        "build": "{build_s:.3f} s",
        "step": "{step_ms:.3f} ms on average; the first of {steps} took {first_step_ms:.3f} ms",
        "solve": "{solve_ms:.3f} ms, {gb_per_s:.3g} GB/s, {x_floor:.2f} x floor",
        "residual": "{residual:.2e} largest relative, at most {residual_limit:.2e}",
        "reference": "{difference:.2e} largest difference, at most {difference_limit:.2e}",
        "check": "{check}",
    }
    needs = {"residual": "residual", "reference": "difference", "check": "check"}
    shown = {k: v for k, v in rows.items() if needs.get(k, "cells") in report}
    return table(shown, report)


def write_cells(name: str, cables: list[cable.Cable], cells: PassiveSteps) -> None:
    forest = cells.forest
    arrays = {
        "v": cells.v,
        "parent": forest.parent,
        "cell_offsets": forest.cell_offsets,
        "xyz": repeat([c.xyz for c in cables], forest.num_cells),
    }
    with named_option("--out"):
        files.write_npz(name, arrays)
