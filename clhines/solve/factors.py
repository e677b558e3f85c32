"""Factors: a matrix that a solver has eliminated, for any number of right-hand sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.forest import Forest

if TYPE_CHECKING:
    from clhines.solve.solver import Solver


@dataclass(frozen=True, eq=False)
class Factors:
    """A matrix that `Solver.factor` has eliminated, for any number of right-hand sides.

    Attributes
    ----------
    solver : Solver
    pivots : (packed size,) pyopencl array
        In device order: inverse pivots where the plan can use them, else the diagonal.
    u, l : (packed size,) pyopencl arrays
        In device order; `l` is None where the system is symmetric.
    bad : (num_cells,) int32 pyopencl array
        Keys of bad pivots; see `status`.
    """

    solver: Solver
    pivots: cla.Array
    u: cla.Array
    l: cla.Array | None  # noqa: E741
    bad: cla.Array

    @property
    def _matrix(self) -> list[cla.Array]:
        return [self.pivots, self.u, *([] if self.l is None else [self.l])]

    def solve(self, b: Any, *, out: Any = None, overwrite: bool = False, check: bool = True) -> Any:
        """Solve for right-hand sides in *natural* order.

        Parameters
        ----------
        b, out, overwrite
            As in `Solver.solve`.
        check : bool
            Raise `InputError` for values of `b` or `x` that are not finite, and warn as
            `Solver.solve` does where the solution is inaccurate (NumPy only).

        Returns
        -------
        x : like b

        Raises
        ------
        InputError, DeviceMemoryError
        """
        return self.solver._solve_factored(self, b, out, overwrite, check)

    def enqueue(
        self,
        b: cla.Array,
        *,
        out: cla.Array,
        wait_for: Sequence[cl.Event] | None = None,
        overwrite: bool = False,
    ) -> cl.Event:
        """Enqueue a solve of right-hand sides in *device* order, without waiting.

        Parameters
        ----------
        b, out, wait_for, overwrite
            As in `Solver.enqueue`.

        Returns
        -------
        pyopencl.Event
            Of the last kernel.
        """
        return self.solver._enqueue_factored(self, b, out, wait_for)

    def status(self) -> np.ndarray:
        """Return the first bad node of every cell as `Solver.status` does; waits."""
        return self.solver._status_of(self)


def first_nodes(forest: Forest, found: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """(num_cells,) int64: the bad node of each cell, -1 for none."""
    status = np.full(forest.num_cells, -1)
    status[found[0]] = found[1]
    return status
