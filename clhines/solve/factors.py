"""Factors: a matrix that a solver has eliminated, for any number of right-hand sides."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from numpy.typing import ArrayLike

from clhines.checks import as_switch
from clhines.device.arrays import Array, Given, events_of, unshared
from clhines.device.guard import exclusive
from clhines.solve import accuracy
from clhines.solve.arguments import Arguments
from clhines.solve.engine import Eliminated, Engine, first_nodes
from clhines.solve.gradient import Gradients, entry_gradients, host_rows
from clhines.solve.memory import Memory, memory_errors
from clhines.solve.repeated import Calls


class Factors:
    """A matrix that `Solver.factor` has eliminated, for any number of right-hand sides.

    Attributes
    ----------
    eliminated : Eliminated
        Factors of the solver's engine; `clhines.solve.whole.WholeFactors` has the arrays.
    symmetric : bool
        Whether the matrix was given without `l`.
    """

    def __init__(
        self,
        engine: Engine,
        eliminated: Eliminated,
        arguments: Arguments,
        lock: threading.RLock,
        symmetric: bool,
    ) -> None:
        self.eliminated, self.symmetric = eliminated, symmetric
        self._engine, self._arguments, self._lock = engine, arguments, lock
        self._calls = Calls()

    @property
    def queue(self) -> cl.CommandQueue:
        """Of the solver; the first of several."""
        return self._engine.queue

    @property
    def memory(self) -> list[Memory]:
        """As `Solver.memory`."""
        return self._engine.memory

    def transposed(self) -> Factors:
        """Return factors of the transposed matrix, in which u and l swap.

        They share the arrays of these: nothing is eliminated or copied.
        """
        eliminated = self.eliminated.transposed()
        return Factors(self._engine, eliminated, self._arguments, self._lock, self.symmetric)

    @exclusive
    @memory_errors
    def solve(
        self,
        b: Given,
        *,
        out: Array | None = None,
        overwrite: bool = False,
        check: bool = True,
        transpose: bool = False,
    ) -> Array:
        """Solve for right-hand sides in *natural* order.

        Of a solver in ``mixed``, which waits for the device, ``solver.refinement`` says what came
        of it.

        Parameters
        ----------
        b, out, overwrite
            As in `Solver.solve`.
        check : bool
            Raise `InputError` for values of `b` or `x` that are not finite, and warn as
            `Solver.solve` does where the solution is inaccurate (NumPy only).
        transpose : bool
            Solve with the transposed matrix, in which u and l swap.

        Returns
        -------
        x : like b

        Raises
        ------
        InputError, DeviceMemoryError

        Warns
        -----
        AccuracyWarning, RefinementWarning
            As `Solver.solve`.
        """
        if as_switch("transpose", transpose):
            return self.transposed().solve(b, out=out, overwrite=overwrite, check=check)
        engine, forest = self._engine, self._arguments.forest
        rows = self._arguments.natural({"b": b})["b"]
        target = self._arguments.target(engine, b, rows, out, overwrite)
        late = self._arguments.may_check_late(engine, rows, target)
        if check and not late:
            self._arguments.check_finite("b", rows)
        measured = check and engine.may_lose and isinstance(rows, np.ndarray)
        before = {**self.eliminated.matrix_on_host(), "b": rows.copy()} if measured else {}
        if isinstance(rows, cla.Array):
            self.eliminated.solve_device(rows, target)
        else:
            self.eliminated.solve_host(unshared(rows, target), target)
        if check and not (late and engine.found_finite):
            if late:
                self._arguments.check_finite("b", rows)
            self._arguments.check_finite("x", target)
        engine.warn()
        if measured:
            accuracy.warn_where_lost(engine.plan, forest, before, target, self._arguments.dtype)
        return target

    def vjp(self, x: ArrayLike, g: ArrayLike, *, check: bool = True) -> Gradients:
        """Gradients of a loss with respect to d, u, l and b, by one transposed solve.

        Parameters
        ----------
        x : (n,) or (k, n) NumPy array
            The solution, as `solve` returned it, in natural order.
        g : like x
            Gradient of the loss with respect to `x`.
        check : bool
            As in `solve`, of `g` and of the gradient with respect to `b`.

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
            Of the last kernel.
        """
        arrays, calls = (b, out), self._calls
        order = self._engine.device_order("enqueue()").order
        waits = events_of("wait_for", wait_for, self.queue)
        call = calls.find(arrays)
        if call is None:
            b = self._arguments.in_order("b", b, order, as_switch("packed", packed))
            self._arguments.check_out(out, b, len(order.gather))
            call = calls.add(arrays, self.eliminated.prepare(b, out))
            order.mark(out)
        waits = calls.waits(call, arrays) + waits
        return calls.done(call, self.eliminated.enqueue(call.steps, out, waits))

    @exclusive
    def status(self) -> np.ndarray:
        """Return the first bad node of every cell as `Solver.status` does; waits."""
        return first_nodes(self._arguments.forest, self.eliminated.bad_pivots())
