"""Passive cells advanced in time by any `Solver`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines import reference
from clhines.arrays import repeat, repeated_nodes
from clhines.cells.cable import Cable, check_cables
from clhines.checks import as_number, as_whole_number
from clhines.device import devices, program
from clhines.errors import InputError
from clhines.forest import Forest
from clhines.hostmemory import check_room
from clhines.plan.plan import real_name
from clhines.solve.solver import Solver

_NODE_BYTES = 8 + 5 * 4  # of the forest, the matrix and the voltages of `PassiveCells` in float32


@dataclass(frozen=True)
class PassiveSpec:
    """``passive.mako``: the right-hand side of a step of passive cells."""

    template: ClassVar[str] = "around/passive"
    real: str


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
    """

    def __init__(
        self,
        cables: Sequence[Cable],
        num_cells: int | None = None,
        dt: float = 0.025,
        current: float = 0.1,
        v_init: float = -65.0,
        **options: Any,
    ) -> None:
        cables = check_cables(cables)
        count = len(cables) if num_cells is None else as_whole_number("num_cells", num_cells, 1)
        nodes = repeated_nodes([c.num_nodes for c in cables], count)
        check_room(_NODE_BYTES * nodes, f"{count} cells")
        self.cables, self.steps = list(cables), 0
        self.forest = Forest.repeated([c.parent for c in cables], count)
        systems = [c.system(dt) for c in cables]
        current, v_init = as_number("current", current), as_number("v_init", v_init)
        for cell, system in zip(cables, systems, strict=True):
            system.constant[cell.soma] += current
        self._once = {
            "d": [s.d for s in systems],
            "u": [s.u for s in systems],
            "capacitance_over_dt": [s.capacitance_over_dt for s in systems],
            "constant": [s.constant for s in systems],
        }
        self.solver = Solver(self.forest, **options)
        dtype = self.solver.dtype
        values = {k: repeat([a.astype(dtype) for a in v], count) for k, v in self._once.items()}
        v = np.full(self.forest.num_nodes, v_init, dtype)
        self._on_device = self.solver.takes_device_order
        if self._on_device:
            self._values: dict[str, Any] = {
                k: self.solver.pack(a, of="u" if k == "u" else "b") for k, a in values.items()
            }
            self._v: Any = self.solver.pack(v, of="x")
            self._before, self._b = (self._like(self._v) for _ in range(2))
            spec = PassiveSpec(real_name(dtype))
            self._rhs = [
                program.typed_kernel(program.build(q.context, spec), "right_hand_side", "i")
                for q in self.solver.queues
            ]
        else:
            self._values, self._v, self._before = values, v, np.empty_like(v)
            self._b = np.empty_like(v)

    def _like(self, a: Any) -> Any:
        """Zeros, where `a` has values: an array, or a list of them of several devices."""
        if isinstance(a, list):
            return [self._like(one) for one in a]
        return cla.zeros(a.queue, a.shape, a.dtype)

    def finish(self) -> None:
        """Wait until all devices have done what they were told."""
        for queue in self.solver.queues:
            queue.finish()

    def advance(self, steps: Iterable[int]) -> float:
        """Take one step for each item of `steps` (a range, or a progress bar over one).

        At most 32 steps are in flight, so that a progress bar tells the truth.

        Returns
        -------
        float, s
            Wall time from the first step to the end of the last.
        """
        begin = time.perf_counter()
        for step in steps:
            self._step()
            self.steps += 1
            if self._on_device and step % 32 == 31:
                self.finish()
        self.finish()
        return time.perf_counter() - begin

    def _step(self) -> None:
        v = self._values
        self._v, self._before = self._before, self._v
        if not self._on_device:
            self._b[:] = v["capacitance_over_dt"] * self._before + v["constant"]
            self.solver.solve(v["d"], v["u"], self._b, out=self._v, check=False)
            return
        operands = v["capacitance_over_dt"], v["constant"], self._before, self._b
        each = zip(*(a if isinstance(a, list) else [a] for a in operands), strict=True)
        for kernel, queue, arrays in zip(self._rhs, self.solver.queues, each, strict=True):
            n = arrays[0].size
            kernel(queue, *devices.small_groups(queue.device, n), n, *(a.data for a in arrays))
        self.solver.enqueue(v["d"], v["u"], self._b, out=self._v)

    def solve_again(self) -> list[cl.Event]:
        """Enqueue the last step's solve once more, for timing; the voltages stay the same."""
        v = self._values
        self.solver.enqueue(v["d"], v["u"], self._b, out=self._v)
        return self.solver.kernel_events

    def voltages(self) -> np.ndarray:
        """(num_nodes,) of the solver's dtype, mV: in natural order, after the last step."""
        return self._natural(self._v)

    def _natural(self, a: np.ndarray | cla.Array) -> np.ndarray:
        if not self._on_device:
            return a.copy()
        found = self.solver.unpack(a)
        return np.concatenate([one.get() for one in found]) if isinstance(a, list) else found.get()

    def check(self) -> dict[str, float]:
        """Check the last step, on the host, from the voltages before it.

        Returns
        -------
        dict
            `residual`: largest componentwise backward error over all cells. `difference`: largest
            difference from the reference's solution, over its largest magnitude. `condition`: by
            how much such a difference may exceed the backward error, see `reference.condition`.
            The reference solves each different cell once; all its copies are compared with it.

        Raises
        ------
        PivotError
            A pivot of the last step was not positive and finite.
        InputError
            No step has been taken.
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
        before, v = self._natural(self._before), self._natural(self._v)
        different = min(len(self.cables), count)
        once = Forest.repeated([cell.parent for cell in self.cables], different)
        m = once.num_nodes
        with np.errstate(all="ignore"):  # what is not finite shows in the result
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
