"""Self-test of a device: solve systems whose solution is known, see `solver.device.trust`."""

from __future__ import annotations

import numpy as np
import pyopencl as cl

from clhines.solver import reference
from clhines.solver.device import trust
from clhines.solver.forest import Forest

CELLS = 17  # more than fit into any vector


def solve(queue: cl.CommandQueue, dtype: np.dtype) -> str:
    """Solve trees in vectors of cells, then in vectors of branches; return the fault, or "".

    Each row is diagonally dominant by at least half of d, so the condition is at most 3, and an
    entry is rounded fewer than 20 times.
    """
    from clhines.solver.solver import Solver

    forest = Forest.from_parents([np.array([-1, *(k // 2 for k in range(39))])] * CELLS)
    n = forest.num_nodes
    children = np.bincount(forest.parent[forest.parent >= 0], minlength=n)
    d, u, b = 3.0 + children, np.full(n, -1.0), np.cos(np.arange(n))
    expected = reference.solve_serial(forest, d, u, b)
    for method in ("block_interleaved", "fine"):
        x = Solver(forest, method, dtype, queue=queue).solve(
            d.astype(dtype), u.astype(dtype), b.astype(dtype)
        )
        fault = trust.compared(method, x, expected, 64)
        if fault:
            return fault
    return ""


PROBLEMS: dict[str, trust.Problem] = {"solve": solve}
