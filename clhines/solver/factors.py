"""Factors: a matrix that a solver has eliminated, for any number of right-hand sides."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from numpy.typing import ArrayLike

from clhines.core.checks import as_check, as_real, as_switch
from clhines.core.errors import InputError
from clhines.solver.accuracy import report_error, report_growth
from clhines.solver.arguments import Arguments
from clhines.solver.device.arrays import Array, Given, events_of, unshared
from clhines.solver.device.guard import check_process, exclusive
from clhines.solver.engines.engine import EliminatedMatrix, SolveEngine, on_host
from clhines.solver.engines.memory import Memory, memory_errors
from clhines.solver.engines.pivots import BadPivots, first_nodes
from clhines.solver.engines.repeated import Calls
from clhines.solver.forest import Forest


class Gradients(NamedTuple):
    """Gradients of a loss with respect to d, u, b and l; all but `b` sum over right-hand sides.

    Attributes
    ----------
    d, u : (n,) of the solver's dtype
        `u` is 0 at roots. For a matrix without `l`, `u` is the gradient of both entries together.
    b : (n,) or (k, n)
        The adjoint: the solution with the transposed matrix.
    l : (n,) or None
        0 at roots; None if the matrix has no `l`.
    """

    d: np.ndarray
    u: np.ndarray
    b: np.ndarray
    l: np.ndarray | None


def host_rows(
    x: ArrayLike, g: ArrayLike, num_nodes: int, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """Return x and g as finite (n,) or (k, n) arrays of `dtype`; raise InputError for others."""
    rows = []
    for name, a in (("x", x), ("g", g)):
        if hasattr(a, "base_data"):
            raise InputError(f"{name} is a pyopencl array; expected a NumPy array (see get())")
        rows.append(as_real(name, a).astype(dtype, copy=False))
        if rows[-1].ndim not in (1, 2) or rows[-1].shape[-1] != num_nodes or not rows[-1].size:
            shape = rows[-1].shape
            expected = f"({num_nodes},) or (k, {num_nodes})"
            raise InputError(f"{name} has shape {shape}; expected {expected}")
    if rows[0].shape != rows[1].shape:
        raise InputError(f"g has shape {rows[1].shape}; expected as for x, {rows[0].shape}")
    return rows[0], rows[1]


def entry_gradients(
    forest: Forest, x: np.ndarray, adjoint: np.ndarray, symmetric: bool
) -> Gradients:
    roots, above = forest.parent < 0, np.maximum(forest.parent, 0)
    rows, adjoints = np.atleast_2d(x), np.atleast_2d(adjoint)

    def products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return -(a[0] * b[0] if len(a) == 1 else np.einsum("kn,kn->n", a, b))

    upper = products(np.take(adjoints, above, axis=1), rows)
    lower = products(adjoints, np.take(rows, above, axis=1))
    upper[roots] = lower[roots] = 0.0
    diagonal = products(adjoints, rows)
    if symmetric:
        return Gradients(diagonal, upper + lower, adjoint, None)
    return Gradients(diagonal, upper, adjoint, lower)


def vjp(
    self: Any,  # the `Solver`: this function is its method
    d: ArrayLike,
    u: ArrayLike,
    x: ArrayLike,
    g: ArrayLike,
    *,
    l: ArrayLike | None = None,
    check: bool | str = True,
) -> Gradients:
    """Return the gradients of a loss with respect to d, u, l and b, from its gradient at `x`.

    This takes one solve with u and l swapped. `Factors.vjp` does the same without an elimination.

    Parameters
    ----------
    d, u, l : (n,) NumPy arrays
        As in `solve`.
    x : (n,) or (k, n)
        The solution, as `solve` returned it.
    g : like x
        Gradient of the loss with respect to `x`.
    check : bool or "raise"
        As in `solve`.
    """
    rows_x, rows_g = host_rows(x, g, self.forest.num_nodes, self.dtype)
    upper, lower = (u, None) if l is None else (l, u)
    adjoint = self.solve(d, upper, rows_g, l=lower, check=check)
    return entry_gradients(self.forest, rows_x, adjoint, l is None)


class Factors:
    """A matrix that `Solver.factor` has eliminated, for any number of right-hand sides.

    Factors can be pickled. Only forest, method and matrix are stored: the process that reads them
    chooses a device, and eliminates the matrix again with the default options of the method.

    Attributes
    ----------
    eliminated : EliminatedMatrix
        The arrays of the solver's engine, such as `solver.engines.whole.WholeFactors`.
    symmetric : bool
        Whether the matrix has no `l`.
    doubtful : dict of str to NumPy array
        d, u and l if the elimination lost digits, else empty. Then each solution is checked.
    """

    def __init__(
        self,
        engine: SolveEngine,
        eliminated: EliminatedMatrix,
        arguments: Arguments,
        lock: threading.RLock,
        symmetric: bool,
    ) -> None:
        self.eliminated, self.symmetric = eliminated, symmetric
        self._engine, self._arguments, self._lock = engine, arguments, lock
        self._calls, self.doubtful = Calls(), dict[str, np.ndarray]()
        self._shape = (arguments.forest.num_nodes,)

    def __repr__(self) -> str:
        batch = f"{self._arguments.forest!r}, {self._arguments.dtype}"
        return f"Factors({batch}, {self._engine.describe()}"

    @exclusive
    def source(self) -> tuple[Forest, str, np.dtype, dict[str, np.ndarray]]:
        """Return the contents of a pickle: the forest, the method, the dtype, and d, u, (l)."""
        matrix = {name: a.copy() for name, a in self.eliminated.matrix_on_host().items()}
        return self._arguments.forest, self._engine.method, self._arguments.dtype, matrix

    @property
    def queue(self) -> cl.CommandQueue:
        """The solver's queue."""
        return self._engine.queue

    @property
    def memory(self) -> Memory:
        """Most memory that a solve uses; the solver keeps it between solves."""
        return self._engine.memory

    def transposed(self) -> Factors:
        """Return the factors of the transposed matrix; they share all arrays with these."""
        eliminated = self.eliminated.transposed()
        factors = Factors(self._engine, eliminated, self._arguments, self._lock, self.symmetric)
        if self.doubtful:
            d, u, lower = (self.doubtful[name] for name in "dul")
            factors.doubtful = {"d": d, "u": lower, "l": u}
        return factors

    def quick(
        self, b: object, out: object, check: object, transpose: object, shape: tuple[int, ...]
    ) -> np.ndarray | None:
        """Solve for a small NumPy `b` of a `shape`; None if only `solve_as_usual` can do it."""
        if check is not True or transpose is not False or self.doubtful:
            return None
        check_process()
        with self._lock:
            return self.eliminated.quick(b, out, shape)

    def solve(
        self,
        b: Given,
        *,
        out: Array | None = None,
        overwrite: bool = False,
        check: bool | str = True,
        transpose: bool = False,
    ) -> Array:
        """Solve for right-hand sides in *natural* order.

        Parameters
        ----------
        b, out, overwrite
            As in `Solver.solve`.
        check : bool or "raise"
            Raise `InputError` if a value of `b` or `x` is not finite (NumPy only). Warn as
            `Solver.solve` does if the solution has lost digits; this needs a `factor` that has
            checked, too.
        transpose : bool
            Solve with the transposed matrix, in which u and l swap.

        Returns
        -------
        x : like b

        Warns
        -----
        AccuracyWarning
            As `Solver.solve`.
        """
        x = None if overwrite is not False else self.quick(b, out, check, transpose, self._shape)
        if x is not None:
            return x
        return self.solve_as_usual(b, out, overwrite, check, transpose)

    def solve_as_usual(
        self, b: Given, out: Array | None, overwrite: bool, check: bool | str, transpose: bool
    ) -> Array:
        """Solve if `quick` has returned None; the arguments are as in `solve`."""
        if as_switch("transpose", transpose):
            return self.transposed().solve_as_usual(b, out, overwrite, check, False)
        return self._solve(b, out, as_switch("overwrite", overwrite), as_check(check))

    @exclusive
    @memory_errors
    def _solve(self, b: Given, out: Array | None, overwrite: bool, check: bool | str) -> Array:
        engine = self._engine
        rows = self._arguments.natural({"b": b})["b"]
        target = self._arguments.target(engine, b, rows, out, overwrite)
        late = self._arguments.may_check_late(engine, rows, target)
        if check and not late:
            self._arguments.check_finite("b", rows)
        if not rows.size:
            return target
        before = self._system_before(rows) if check else {}
        if isinstance(rows, cla.Array):
            self.eliminated.solve_device(rows, target)
        else:
            self.eliminated.solve_host(unshared(rows, target), target)
        if check and not (late and engine.found_finite):
            if late:
                self._arguments.check_finite("b", rows)
            self._arguments.check_finite("x", target)
        if before:
            x = on_host(self.queue, {"x": target})["x"]
            report_error(self._arguments, engine.method, before, x, check)
        return target

    def _system_before(self, rows: Array) -> dict[str, np.ndarray]:
        """Return copies of d, u, (l) and b on the host if the solution may lose digits, else {}.

        The copies are needed because a solve may overwrite b.
        """
        if not self.doubtful and not self._engine.may_lose:
            return {}
        matrix = self.doubtful or self.eliminated.matrix_on_host()
        return {**matrix, **on_host(self.queue, {"b": rows})}

    def vjp(self, x: ArrayLike, g: ArrayLike, *, check: bool | str = True) -> Gradients:
        """Return the gradients of a loss with respect to d, u, l and b, by one transposed solve.

        Parameters
        ----------
        x : (n,) or (k, n) NumPy array
            The solution, as `solve` returned it, in natural order.
        g : like x
            Gradient of the loss with respect to `x`.
        check : bool or "raise"
            As in `solve`, for `g` and for the gradient with respect to `b`.

        Returns
        -------
        Gradients

        Raises
        ------
        InputError, DeviceMemoryError
        """
        forest, dtype = self._arguments.forest, self._arguments.dtype
        rows_x, rows_g = host_rows(x, g, forest.num_nodes, dtype)
        adjoint = self.solve(rows_g, check=check, transpose=True)
        return entry_gradients(forest, rows_x, adjoint, self.symmetric)

    @exclusive
    @memory_errors
    def enqueue(
        self,
        b: cla.Array,
        *,
        out: cla.Array,
        wait_for: cl.Event | Sequence[cl.Event] | None = None,
        overwrite: bool = False,
        packed: bool = False,
    ) -> cl.Event:
        """Enqueue a solve of right-hand sides in *device* order, without waiting.

        Parameters
        ----------
        b, out, wait_for, overwrite, packed
            As in `Solver.enqueue`.

        Returns
        -------
        pyopencl.Event
            The event of the last kernel.
        """
        as_switch("overwrite", overwrite)
        order, calls = self._engine.device_order().order, self._calls
        b, out = arrays = self._arguments.of_buffers("b out", (b, out), order)
        waits = events_of("wait_for", wait_for, self.queue)
        call = calls.find(arrays)
        if call is None:
            b = self._arguments.in_order("b", b, order, as_switch("packed", packed))
            self._arguments.check_out(out, b.shape)
            call = calls.add(arrays, self.eliminated.prepare(b, out))
            order.mark(out)
        waits = calls.waits(call, arrays) + waits
        return calls.done(call, self.eliminated.enqueue(call.steps, out, waits))

    @exclusive
    def status(self) -> np.ndarray:
        """Return the first bad node of every cell as `Solver.status` does; waits for the device."""
        pivots = self.eliminated.bad_pivots()
        report_growth(self._arguments, pivots, True)
        return first_nodes(self._arguments.forest, pivots)

    @exclusive
    def bad_pivots(self) -> BadPivots:
        """Wait; return the cells in which the elimination met bad pivots or lost digits."""
        return self.eliminated.bad_pivots()
