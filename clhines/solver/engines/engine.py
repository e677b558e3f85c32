"""The interface of engines, which `Solver` and `Factors` call.

Arrays come checked and in natural order. The engines are in `whole` and `lanes`. For arrays in
device order, `SolveEngine.device_order` returns the object that solves them: `lanes` passes them on
to `whole`.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.errors import InputError
from clhines.solver.device import devices
from clhines.solver.device.arrays import Array, Order
from clhines.solver.engines.loaded import Step
from clhines.solver.engines.memory import Memory
from clhines.solver.engines.pivots import BadPivots
from clhines.solver.plan.methods import METHODS
from clhines.solver.plan.plan import Plan
from clhines.solver.plan.templates import render


class DeviceOrder(Protocol):
    """Solves arrays in device order, without waiting."""

    plan: Plan
    order: Order

    def pack(self, a: np.ndarray | cla.Array) -> cla.Array:
        """Convert values from natural to device order."""

    def unpack(self, a: cla.Array, target: cla.Array) -> cla.Array:
        """Convert values from device to natural order, in `target`, and return it."""

    def prepare(self, operands: list[cla.Array], out: cla.Array, overwrite: bool) -> list[Step]:
        """Prepare the launches that solve d, u, (l), b; they can be enqueued again and again.

        With `overwrite` the operands may be overwritten.
        """

    def enqueue(self, steps: list[Step], out: cla.Array, waits: list[cl.Event]) -> cl.Event:
        """Enqueue launches that `prepare` returned for this `out`; return the last event."""


class EliminatedMatrix(Protocol):
    """A matrix that an engine has eliminated, to be solved for right-hand sides."""

    def solve_host(self, b: np.ndarray, target: np.ndarray) -> None:
        """Solve for right-hand sides `b`, write the solutions to `target`, and wait."""

    def solve_device(self, b: cla.Array, target: cla.Array) -> None:
        """Enqueue a solve for right-hand sides `b`, which writes the solutions to `target`."""

    def prepare(self, b: cla.Array, out: cla.Array) -> list[Step]:
        """Prepare the launches of a solve in device order; they can be enqueued again and again."""

    def enqueue(self, steps: list[Step], out: cla.Array, waits: list[cl.Event]) -> cl.Event:
        """Enqueue launches that `prepare` returned for this `out`; return the last event."""

    def bad_pivots(self) -> BadPivots:
        """Wait, and return the bad pivots of the matrix."""

    def matrix_on_host(self) -> dict[str, np.ndarray]:
        """Return the original d, u, (l)."""

    def quick(self, b: object, out: object, shape: tuple[int, ...]) -> np.ndarray | None:
        """Return the solution for a small NumPy `b`, or None if this fast path cannot solve it."""

    def transposed(self) -> EliminatedMatrix:
        """Return the transposed matrix, which has the same pivots: no elimination is needed."""


class SolveEngine:
    """Base class of the engines, which solve the systems of a batch.

    `found_finite` says whether all values of b and x in the last solve were finite.
    """

    plan: Plan
    queue: cl.CommandQueue
    kernel_events: list[cl.Event]
    found_finite = False

    @property
    def memory(self) -> Memory:
        raise NotImplementedError

    @property
    def source(self) -> str:
        """OpenCL source of the kernels for a usual solve."""
        return "\n".join(dict.fromkeys(render(part.spec) for part in self.plan.parts))

    @property
    def method(self) -> str:
        """Name of the method, for messages and pickled factors."""
        return self.plan.method

    @property
    def may_lose(self) -> bool:
        """Whether solutions may lose digits that kernels do not report (cyclic reduction)."""
        return METHODS[self.plan.method].chains_only

    @property
    def finds_finite(self) -> bool:
        """Whether solves from NumPy to NumPy set `found_finite`."""
        return False

    def describe(self) -> str:
        return f"{self.plan.method}, {devices.label(self.queue.device)})"

    def device_order(self) -> DeviceOrder:
        raise NotImplementedError

    def empty_like(self, b: np.ndarray) -> np.ndarray:
        """Return a new array for the solution for `b`."""
        return np.empty_like(b)

    def solve_host(self, arrays: dict[str, np.ndarray], target: np.ndarray) -> None:
        raise NotImplementedError

    def solve_device(self, arrays: dict[str, cla.Array], target: cla.Array) -> None:
        raise NotImplementedError

    def factor(self, arrays: dict[str, np.ndarray | cla.Array]) -> EliminatedMatrix:
        """Eliminate a copy of d, u, (l), and return it for solves."""
        raise NotImplementedError

    def bad_pivots(self) -> BadPivots:
        raise NotImplementedError


def nothing_solved() -> InputError:
    return InputError("status() was asked for before anything was solved")


def on_host(queue: cl.CommandQueue, arrays: dict[str, Array]) -> dict[str, np.ndarray]:
    return {
        name: a.get(queue) if isinstance(a, cla.Array) else a.copy() for name, a in arrays.items()
    }
