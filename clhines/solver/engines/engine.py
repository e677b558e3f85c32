"""The interface of engines: methods that `Solver` and `Factors` call on a way to solve a batch.

Arrays come checked and in natural order. `whole` and `lanes` are the engines; `lanes` leaves device
order to `whole`, and `SolveEngine.device_order` is the way to it.
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
    """Solves in device order, without waiting."""

    plan: Plan
    order: Order

    def pack(self, a: np.ndarray | cla.Array) -> cla.Array:
        """Bring values from natural into device order."""

    def unpack(self, a: cla.Array, target: cla.Array) -> cla.Array:
        """Bring values from device into natural order."""

    def prepare(self, operands: list[cla.Array], out: cla.Array, overwrite: bool) -> list[Step]:
        """Return launches that solve d, u, (l), b, and can be repeated."""

    def enqueue(self, steps: list[Step], out: cla.Array, waits: list[cl.Event]) -> cl.Event:
        """Enqueue such launches; `out` is the argument of `prepare`."""


class EliminatedMatrix(Protocol):
    """A matrix that an engine has eliminated."""

    def solve_host(self, b: np.ndarray, target: np.ndarray) -> None:
        """Solve for right-hand sides in NumPy arrays; waits."""

    def solve_device(self, b: cla.Array, target: cla.Array) -> None:
        """Solve for right-hand sides on the device."""

    def prepare(self, b: cla.Array, out: cla.Array) -> list[Step]:
        """Return the launches of a solve in device order, which can be repeated."""

    def enqueue(self, steps: list[Step], out: cla.Array, waits: list[cl.Event]) -> cl.Event:
        """Enqueue such launches; `out` is the argument of `prepare`."""

    def bad_pivots(self) -> BadPivots:
        """Wait, and return the bad pivots of the matrix."""

    def matrix_on_host(self) -> dict[str, np.ndarray]:
        """Return d, u, (l), for methods with `SolveEngine.may_lose`."""

    def quick(self, b: object, out: object, shape: tuple[int, ...]) -> np.ndarray | None:
        """Solve for a small NumPy array of a `shape`, or return None: to be solved as usual."""

    def transposed(self) -> EliminatedMatrix:
        """Return the transposed matrix, which has the same pivots; nothing is eliminated again."""


class SolveEngine:
    """A way to solve one batch; `Solver` has one and asks nothing else of it.

    `found_finite`: the last solve found that all values of b and x are finite.
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
        """Generated OpenCL source of the plain solve."""
        return "\n".join(dict.fromkeys(render(part.spec) for part in self.plan.parts))

    @property
    def method(self) -> str:
        """Name of the method, for messages and to make the same engine elsewhere."""
        return self.plan.method

    @property
    def may_lose(self) -> bool:
        """Whether solutions may be inaccurate without an error: cyclic reduction adds up rows."""
        return METHODS[self.plan.method].chains_only

    @property
    def finds_finite(self) -> bool:
        """Whether a solve from NumPy to NumPy may find that all values of b and x are finite."""
        return False

    def describe(self) -> str:
        return f"{self.plan.method}, {devices.label(self.queue.device)})"

    def device_order(self) -> DeviceOrder:
        """Return the solver in device order."""
        raise NotImplementedError

    def empty_like(self, b: np.ndarray) -> np.ndarray:
        """Return a new array for the solution for `b`."""
        return np.empty_like(b)

    def solve_host(self, arrays: dict[str, np.ndarray], target: np.ndarray) -> None:
        raise NotImplementedError

    def solve_device(self, arrays: dict[str, cla.Array], target: cla.Array) -> None:
        raise NotImplementedError

    def factor(self, arrays: dict[str, np.ndarray | cla.Array]) -> EliminatedMatrix:
        """Eliminate d, u, (l), which are copied."""
        raise NotImplementedError

    def bad_pivots(self) -> BadPivots:
        raise NotImplementedError


def nothing_solved() -> InputError:
    return InputError("status() was asked for before anything was solved")


def on_host(queue: cl.CommandQueue, arrays: dict[str, Array]) -> dict[str, np.ndarray]:
    return {
        name: a.get(queue) if isinstance(a, cla.Array) else a.copy() for name, a in arrays.items()
    }
