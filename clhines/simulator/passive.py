"""Passive cells advanced in time by any `Solver`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.arrays import repeat, repeated_nodes
from clhines.core.checks import as_number, as_whole_number, check_room
from clhines.core.errors import InputError
from clhines.simulator.cells.cable import Cable, check_cables
from clhines.solver import reference
from clhines.solver.device import devices, program
from clhines.solver.forest import Forest
from clhines.solver.plan.kernel_spec import TemplateSpec
from clhines.solver.plan.plan import real_name
from clhines.solver.solver import RangeSolver, Solver

_NODE_BYTES = 8 + 5 * 4  # of the forest, the matrix and the voltages of `PassiveCells` in float32


@dataclass(frozen=True)
class PassiveSpec(TemplateSpec):
    template: ClassVar[str] = "simulator/around/passive"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "right_hand_side": (
            "int n, const real *restrict capacitance_over_dt, const real *restrict fixed",
            "const real *restrict v, real *restrict b",
        ),
    }
    real: str


class _OnHost:
    """Values of all cells in NumPy arrays."""

    def __init__(self, solver: Solver, values: dict[str, np.ndarray], v: np.ndarray) -> None:
        self.solver, self.values = solver, values
        self.v, self.before, self.b = v, np.empty_like(v), np.empty_like(v)

    def step(self) -> None:
        values = self.values
        self.v, self.before = self.before, self.v
        self.b[:] = values["capacitance_over_dt"] * self.before + values["constant"]
        self.solve()

    def solve(self) -> None:
        self.solver.solve(self.values["d"], self.values["u"], self.b, out=self.v, check=False)

    def voltages(self, before: bool) -> np.ndarray:
        return self.before if before else self.v


class _OnDevice:
    """Values of the cells of one device, in its order."""

    def __init__(self, part: RangeSolver, values: dict[str, np.ndarray], v: np.ndarray) -> None:
        solver = self.solver = part.solver
        self.values = {k: solver.to_device_order(a[part.nodes]) for k, a in values.items()}
        self.v = solver.to_device_order(v[part.nodes])
        self.before, self.b = (
            cla.zeros(self.v.queue, self.v.shape, self.v.dtype) for _ in range(2)
        )
        spec = PassiveSpec(real_name(solver.dtype))
        self.right_hand_side = program.kernel_of(solver.queue.context, spec, "right_hand_side")

    def step(self) -> None:
        self.v, self.before = self.before, self.v
        queue, n = self.solver.queue, self.v.size
        arrays = self.values["capacitance_over_dt"], self.values["constant"], self.before, self.b
        groups = devices.small_groups(queue.device, n)
        self.right_hand_side(queue, *groups, n, *(a.data for a in arrays))
        self.solve()

    def solve(self) -> None:
        """Enqueue a solve, which the device begins at once."""
        d, u = self.values["d"], self.values["u"]
        self.solver.enqueue(d, u, self.b, out=self.v, packed=True)
        self.solver.queue.flush()

    def voltages(self, before: bool) -> np.ndarray:
        return self.solver.from_device_order(self.before if before else self.v, packed=True).get()


class PassiveCells:
    """Passive cells with a constant current into each soma's middle, advanced by backward Euler.

    Parameters
    ----------
    cables : sequence of Cable
        Repeated in turn to `num_cells` cells.
    num_cells : int, optional
        Default: one of each.
    dt : float, ms
    current : float, nA
        Into the middle of the soma of every cell (`Cable.soma`), from t = 0 on.
    v_init : float, mV
        Voltage everywhere at t = 0.
    **options
        Of `Solver`: method, dtype, device, queue, devices and so on.

    Attributes
    ----------
    forest : Forest
    solver : Solver
    steps : int
        Steps taken so far.
    on_device : bool
        Whether all values stay on the device between steps; not in slices.
    """

    def __init__(
        self,
        cables: Sequence[Cable],
        num_cells: int | None = None,
        dt: float = 0.025,
        current: float = 0.1,
        v_init: float = -65.0,
        **options: object,
    ) -> None:
        cables = check_cables(cables)
        count = len(cables) if num_cells is None else as_whole_number("num_cells", num_cells, 1)
        nodes = repeated_nodes([c.num_nodes for c in cables], count)
        check_room(_NODE_BYTES * nodes, f"{count} cells")
        self.cables, self.steps = list(cables), 0
        self.forest = Forest.repeat([c.parent for c in cables], count)
        systems = [c.system(dt) for c in cables]
        current, v_init = as_number("current", current, "nA"), as_number("v_init", v_init, "mV")
        for cell, system in zip(cables, systems, strict=True):
            system.constant[cell.soma] += current
        self._once = {
            "d": [s.d for s in systems],
            "u": [s.u for s in systems],
            "capacitance_over_dt": [s.capacitance_over_dt for s in systems],
            "constant": [s.constant for s in systems],
        }
        self.solver = Solver(self.forest, **cast("dict[str, Any]", options))
        dtype = self.solver.dtype
        values = {k: repeat([a.astype(dtype) for a in v], count) for k, v in self._once.items()}
        v = np.full(self.forest.num_nodes, v_init, dtype)
        self.on_device = all(part.solver.takes_device_order for part in self.solver.parts)
        self._each: list[_OnHost] | list[_OnDevice] = [_OnHost(self.solver, values, v)]
        if self.on_device:
            self._each = [_OnDevice(part, values, v) for part in self.solver.parts]

    def finish(self) -> None:
        """Wait until all devices have finished their commands."""
        for queue in self.solver.queues:
            queue.finish()

    def advance(self, steps: int | Iterable[int]) -> float:
        """Take a number of steps, or one for each item (of a range, or a progress bar over one).

        At most 32 steps are in flight, so that a progress bar is accurate.

        Returns
        -------
        float, s
            Wall time from the first step to the end of the last.
        """
        if not isinstance(steps, Iterable) or isinstance(steps, (str, bytes, np.ndarray)):
            steps = range(as_whole_number("steps", steps, 0))
        begin = time.perf_counter()
        for step, _ in enumerate(steps):
            self._step()
            self.steps += 1
            if self.on_device and step % 32 == 31:
                self.finish()
        self.finish()
        return time.perf_counter() - begin

    def _step(self) -> None:
        for one in self._each:
            one.step()

    def solve_again(self) -> list[cl.Event]:
        """Enqueue the last step's solve once more, for timing; the voltages stay the same."""
        for one in self._each:
            one.solve()
        return self.solver.kernel_events

    def voltages(self) -> np.ndarray:
        """(num_nodes,) of the solver's dtype, mV: in natural order, after the last step."""
        return self._natural(False)

    def _natural(self, before: bool) -> np.ndarray:
        return np.concatenate([one.voltages(before) for one in self._each])

    def check(self) -> dict[str, float]:
        """Check the last step, on the host, from the voltages before it.

        Returns
        -------
        dict
            `residual`: largest componentwise backward error over all cells. `difference`: largest
            difference from the reference's solution, over its largest magnitude. `condition`: by
            how much such a difference may exceed the componentwise backward error, see
            `reference.condition`.
            The reference solves each different cell once; all its copies are compared with it.

        Raises
        ------
        PivotError
            A pivot of the last step was not positive and finite.
        InputError
            There was no step yet.
        """
        if not self.steps:
            raise InputError("there is no step to check; advance() first")
        count, dtype = self.forest.num_cells, self.solver.dtype
        status = self.solver.status()
        if (status >= 0).any():
            cell = int(np.argmax(status >= 0))
            raise reference.pivot_error(self.forest, cell, int(status[cell]))
        d, u, c, constant = (
            repeat([a.astype(dtype) for a in self._once[k]], count)
            for k in ("d", "u", "capacitance_over_dt", "constant")
        )
        before, v = self._natural(True), self.voltages()
        different = min(len(self.cables), count)
        once = Forest.repeat([cell.parent for cell in self.cables], different)
        m = once.num_nodes
        with np.errstate(all="ignore"):  # values that are not finite show in the result
            b = c * before + constant
            truth = reference.solve_serial(once, d[:m], u[:m], b[:m])
            expected = repeat(np.split(truth, once.cell_offsets[1:-1]), count)
            largest = np.abs(truth).max()
            reach = reference.condition(once, d[:m], u[:m], b[:m], truth)
            return {
                "residual": reference.residual(self.forest, d, u, b, v),
                "difference": float(np.abs(v - expected).max() / largest),
                "condition": float(reach.max() / largest),
            }
