"""`clhines solve`: advance passive cells, and check the last step."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from clhines.cli.arguments import Commands, add_cells, add_command, count, read_cells
from clhines.cli.report import doing, folded
from clhines.core.arrays import repeat, repeated_nodes
from clhines.core.checks import check_room
from clhines.core.errors import tell
from clhines.simulator.cells import cable
from clhines.solver import reference
from clhines.solver.forest import Forest

TEXT = """\
Advance passive cells with a current into each soma, and compare the last
step with a reference. Without files the cells are built-in samples."""
EXAMPLES = """\
  clhines solve
  clhines solve *.swc --cells 10000"""

# Elimination without pivoting is backward stable for diagonally dominant matrices: some epsilon a
# row. The condition bounds how far the solution may then be from the true one.
RESIDUAL_EPS = 64.0
_V_INIT, _DT, _CURRENT = -65.0, 0.025, 0.1  # mV, ms, nA
_NODE_BYTES = 6 * 8 + 8  # memory per node: matrix, two voltages, right-hand side, forest


class PassiveSteps:
    """Backward-Euler steps of passive cells with a current into the middle of each soma.

    The host computes the right-hand side ``capacitance / dt * v + constant``; the solver computes
    the next voltages.
    """

    def __init__(self, cables: Sequence[cable.Cable], count: int, **options: Any) -> None:
        from clhines.solver.solver import Solver

        nodes = repeated_nodes([c.num_nodes for c in cables], count)
        check_room(_NODE_BYTES * nodes, f"{count} cells")
        self.different = min(len(cables), count)  # number of different cells, which come first
        self.forest = Forest.repeat([c.parent for c in cables], count)
        systems = [c.system(_DT) for c in cables]
        for cell, system in zip(cables, systems, strict=True):
            system.constant[cell.soma] += _CURRENT
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
        return self.capacitance_over_dt * self.before + self.constant

    def check(self) -> dict[str, tuple[float, float]]:
        """Compare the last step with the reference; return measured values and their limits.

        `residual` is the largest componentwise backward error over all cells, `reference` the
        largest difference from the reference, relative to the reference's largest magnitude.
        """
        status = self.solver.status()
        if (status >= 0).any():
            cell = int(np.argmax(status >= 0))
            raise reference.pivot_error(self.forest, cell, int(status[cell]))
        once = self.forest.subset(np.arange(self.different))
        m, b = once.num_nodes, self._right_hand_side()
        truth = reference.solve_serial(once, self.d[:m], self.u[:m], b[:m])
        expected = repeat(np.split(truth, once.cell_offsets[1:-1]), self.forest.num_cells)
        largest = np.abs(truth).max()
        condition = reference.condition(once, self.d[:m], self.u[:m], b[:m], truth).max() / largest
        residual = reference.residual(self.forest, self.d, self.u, b, self.v)
        difference = float(np.abs(self.v - expected).max() / largest)
        # Each solution differs from the true one by its backward error times the condition.
        backward = RESIDUAL_EPS * float(np.finfo(self.solver.dtype).eps)
        exact = RESIDUAL_EPS * float(np.finfo(np.float64).eps)
        return {
            "residual": (residual, backward),
            "reference": (difference, condition * (backward + exact)),
        }


def add_solve(commands: Commands) -> None:
    solve = add_command(
        commands, "solve", "solve passive cells, check the last step", TEXT, EXAMPLES
    )
    add_cells(solve)
    # fmt: off
    solve.add_argument("--steps", type=count, default=40, metavar="K",
                       help="steps of 0.025 ms to advance (default: 40)")
    # fmt: on
    solve.set_defaults(run=run_solve)


def run_solve(arguments: argparse.Namespace) -> int:
    from clhines.solver.device.devices import label

    cables, begin = read_cells(arguments), time.perf_counter()
    number, names = arguments.cells or len(cables), ("method", "dtype", "device")
    with doing("planning and building kernels"):
        cells = PassiveSteps(cables, number, **{name: getattr(arguments, name) for name in names})
    ready = time.perf_counter() - begin
    with doing("first step"):
        first = cells.advance(range(1))  # some drivers compile for the device only now
    rest = first
    if arguments.steps > 1:
        bar = tqdm(range(1, arguments.steps), "steps", disable=None, leave=False)
        rest = cells.advance(bar) / (arguments.steps - 1)
    with doing("checking the last step"):
        measured = cells.check()
    forest, solver = cells.forest, cells.solver
    wrong = [name for name, (value, limit) in measured.items() if not value <= limit]  # also NaN
    rows = {
        "cells": f"{forest.num_cells} ({forest.trees.num_trees} distinct shapes)",
        "nodes": f"{forest.num_nodes}",
        "branches": f"{forest.num_branches}",
        "method": f"{solver.plan.method}, {arguments.dtype}",
        "device": label(solver.device),
        "plan": f"{ready:.3f} s, with kernels",
        "step": f"{rest * 1e3:.3f} ms on average; the first of {arguments.steps} took "
        f"{first * 1e3:.3f} ms",
        **{name: f"{value:.2e}, at most {limit:.2e}" for name, (value, limit) in measured.items()},
        "check": "failed" if wrong else "good",
    }
    print("\n".join(folded(f"{name:<10} {text}", 11) for name, text in rows.items()))
    if wrong:
        values = (f"{name} {rows[name]}" for name in wrong)
        tell(f"the check failed: {'; '.join(values)}")
    return int(bool(wrong))
