"""Solver: check the arguments, call the engine, report bad pivots and lost digits."""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from typing import Any, TypeVar, Unpack, cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from numpy.typing import DTypeLike

from clhines.core.checks import as_check, as_choice, as_switch, as_text, shown
from clhines.core.errors import InputError
from clhines.core.files import PathLike
from clhines.solver.accuracy import is_spoilt, report_error, report_growth
from clhines.solver.arguments import Arguments, apart
from clhines.solver.device import devices, program
from clhines.solver.device.arrays import Array, Given, events_of, unmark
from clhines.solver.device.guard import ClosedProxy, Holder, check_process, exclusive, lock_of
from clhines.solver.engines.engine import SolveEngine, on_host
from clhines.solver.engines.loaded import Resident
from clhines.solver.engines.memory import Memory, memory_errors, no_memory
from clhines.solver.engines.pivots import BadPivots, first_nodes
from clhines.solver.engines.repeated import Calls
from clhines.solver.factors import Factors, vjp
from clhines.solver.forest import Forest
from clhines.solver.plan.auto import MODES
from clhines.solver.plan.export import write_plan
from clhines.solver.plan.kernel_spec import TemplateSpec
from clhines.solver.plan.plan import Option, Options, Plan, real_name
from clhines.solver.tune import Tuning, engine_for

_SMALL_GRID = 65_534  # most work-groups in PoCL's kernels for small grids
AnyArray = TypeVar("AnyArray", np.ndarray, cla.Array)  # a solve has arrays of one kind


class SolverOptions(Options, total=False):
    """Keyword arguments of `Solver` besides forest, method and dtype."""

    device: cl.Device | str | None
    queue: cl.CommandQueue | None
    tune: str
    profile: bool


class Solver(Holder):
    """Solve a batch of Hines matrices on an OpenCL device.

    Parameters
    ----------
    forest : Forest
    method : str
        ``auto`` or a name in `clhines.METHODS`.
    dtype : float64 or float32
        Precision of all values on the device.
    device : pyopencl.Device or str, optional
        See `solver.device.devices.choose`.
    queue : pyopencl.CommandQueue, optional
        An in-order queue to work on, without `device`.
    tune : str
        How ``auto`` chooses among `solver.plan.auto.CANDIDATES`. ``heuristic`` (the default): by a
        cost model, within microseconds. ``measure``: by timing them on this forest, which takes
        seconds; pass `tuning.best`, a method and options, to later solvers. Results of different
        methods differ by rounding.
    profile : bool
        Make the queue with timestamps, so that `kernel_events` can be timed; launches then take
        longer on the host. ``tune="measure"`` does so, too. Not for a `queue` of the caller.
    **options
        Options of the method, see ``METHODS[method].options``.

    Attributes
    ----------
    engine : clhines.solver.engines.engine.SolveEngine
        Solves the batch on the device.
    tuning : clhines.solver.tune.Tuning or None
        Times of ``tune="measure"``.

    Raises
    ------
    InputError
        Unknown method, option, dtype or way to tune.
    DeviceError
        No device, or one without the requested precision.
    DeviceMemoryError
        The batch does not fit on the device: solve fewer cells at once (`Forest.subset`).
    BuildError
        The kernel does not compile on this device.

    Several threads may use one solver: one call runs at a time. `status` and `kernel_events` belong
    to the last solve. A process that was forked after OpenCL has been used is refused
    (`DeviceError`): start processes with the method ``spawn``.

    Methods of solvers and of `Factors` raise `InputError` for arguments that do not fit,
    `PivotError` as `check` says, and `DeviceMemoryError`.
    """

    def __init__(
        self,
        forest: Forest,
        method: str = "auto",
        dtype: DTypeLike = np.float64,
        device: cl.Device | str | None = None,
        queue: cl.CommandQueue | None = None,
        tune: str = "heuristic",
        profile: bool = False,
        **options: Unpack[Options],
    ) -> None:
        as_choice("tune", tune, MODES)
        as_text("method", method)
        if tune != "heuristic" and method != "auto":
            raise InputError(f"tune={shown(tune)} is for method 'auto'; got method {shown(method)}")
        timestamps = as_switch("profile", profile) or tune == "measure"
        real_name(dtype)  # rejects other dtypes before a device is chosen
        if not isinstance(forest, Forest):
            raise InputError(f"forest is {type(forest).__name__}; expected a clhines.Forest")
        self.forest, self.dtype, self._lock = forest, np.dtype(dtype), lock_of(self)
        self.queue = devices.given_queue(queue, device, self.dtype, timestamps)
        self.arguments, self._calls = Arguments(forest, self.dtype, self.queue), Calls()
        self.tuning: Tuning | None
        settings = cast("dict[str, Option]", options)
        self.engine, self.tuning = engine_for(
            forest, method, self.dtype, self.queue, tune, settings
        )

    def __repr__(self) -> str:
        state = "closed)" if isinstance(self.engine, ClosedProxy) else self.engine.describe()
        return f"Solver({self.forest!r}, {self.dtype}, {state}"

    @exclusive
    def close(self) -> None:
        """Wait for the device, and release its buffers; the end of a ``with`` block does the same.

        Later calls are refused. `Factors` keep their buffers and remain usable.
        """
        if not isinstance(self.engine, ClosedProxy):
            self.queue.finish()
            self.engine, self._calls = cast("SolveEngine", ClosedProxy(self)), Calls()

    @property
    def device(self) -> cl.Device:
        """The device of `queue`."""
        return self.queue.device

    @property
    def plan(self) -> Plan:
        """The plan of the batch."""
        return self.engine.plan

    @property
    def memory(self) -> Memory:
        """Most memory that a solve uses; the solver keeps it between solves."""
        return self.engine.memory

    @property
    def source(self) -> str:
        """Generated OpenCL source of the plain solve: its kernels, one after another."""
        return self.engine.source

    @exclusive
    @memory_errors
    def export(self, folder: PathLike, symmetric: bool = True) -> None:
        """Write the files of `Plan.export`, and the kernels compiled for this device.

        A program that runs on the device and the driver of the manifest can load the compiled
        kernels without a compiler. On a processor that PoCL's compiler does not know, only these
        work.

        Parameters
        ----------
        folder : str or path
        symmetric : bool
            False: for matrices with `l`.

        Raises
        ------
        InputError
            As `Plan.export`.
        """
        context = cl.Context([self.device])  # Intel's runtime forgets one that only a queue holds
        plan, queue = self.engine.device_order().plan, cl.CommandQueue(context)
        # PoCL compiles at the first launch; without clhines it may do so for another processor. For
        # large grids it compiles a kernel that it then also launches for small ones, but only in
        # this process. So kernels have a program of their own, and small grids come first.
        symmetric = as_switch("symmetric", symmetric)
        sizes = {groups > _SMALL_GRID for part in plan.parts for _, groups in part.launches}
        marker = f"\ntypedef int exported_{'_'.join(map(str, sorted(sizes)))};\n"
        for part in plan.parts:
            program.build(context, part.solve_spec(symmetric, 1), more=marker)
        ones = cla.to_device(queue, np.ones(plan.packed_size, self.dtype))
        resident = Resident(plan, queue, self.dtype)
        steps = resident.steps([ones] * (3 if symmetric else 4), cla.empty_like(ones))
        resident.run(sorted(steps, key=lambda step: step.items[0] // step.work_group[0]), [])
        queue.finish()

        def binary(spec: TemplateSpec) -> bytes:
            built = program.build(context, spec)
            return bytes(built.get_info(cl.program_info.BINARIES)[0])

        write_plan(plan, folder, symmetric, (self.device.name, self.device.driver_version), binary)

    @property
    def kernel_events(self) -> list[cl.Event]:
        """Events of the kernels of the last solve, in order. `profile` gives them timestamps."""
        return self.engine.kernel_events

    # -- device order --------------------------------------------------------------------------

    @exclusive
    @memory_errors
    def to_device_order(self, a: np.ndarray | cla.Array) -> cla.Array:
        """Bring values from natural into device order.

        Parameters
        ----------
        a : (n,) or (k, n), NumPy or pyopencl array
            NumPy values are converted to the solver's dtype.

        Returns
        -------
        pyopencl.array.Array, (packed size,) or (k, packed size)
            Padding is zero. The array is marked as being in device order: `enqueue` and
            `from_device_order` check for the mark.

        Raises
        ------
        InputError
            The array is in device order already.
        """
        whole = self.engine.device_order()
        return whole.pack(self.arguments.checked("a", a, self.forest.num_nodes))

    @exclusive
    @memory_errors
    def from_device_order(
        self, a: cla.Array, out: cla.Array | None = None, *, packed: bool = False
    ) -> cla.Array:
        """Bring values from device order back into natural order.

        Parameters
        ----------
        a : pyopencl array, (packed size,) or (k, packed size)
            From `to_device_order` or `enqueue`.
        out : pyopencl array, (n,) or (k, n), optional
            Written and returned.
        packed : bool
            As in `enqueue`.

        Returns
        -------
        pyopencl.array.Array, (n,) or (k, n)
        """
        whole = self.engine.device_order()
        source = self.arguments.in_order("a", a, whole.order, as_switch("packed", packed))
        shape = (*source.shape[:-1], self.forest.num_nodes)
        out = self.arguments.of_buffer("out", out, shape[-1])
        empty = cla.empty(self.queue, shape, self.dtype) if out is None else out
        target = self.arguments.check_out(empty, shape)
        if target.base_data == source.base_data:
            raise InputError("out is a; expected another array")
        unmark(target)
        return whole.unpack(source, target)

    def enqueue(
        self,
        d: cla.Array,
        u: cla.Array,
        b: cla.Array,
        *,
        l: cla.Array | None = None,
        out: cla.Array,
        wait_for: cl.Event | Sequence[cl.Event] | None = None,
        overwrite: bool = False,
        packed: bool = False,
    ) -> cl.Event:
        """Enqueue a solve of arrays in *device* order (see `to_device_order`), without waiting.

        Parameters
        ----------
        d, u, l : (packed size,) pyopencl arrays of the solver's dtype, or buffers with `packed`
            From `to_device_order`, or the `out` of an earlier call. Other arrays, such as results
            of arithmetic with these, need `packed`, unless device order is natural order.
        b, out : (packed size,) or (k, packed size)
            The solution goes to `out`, which may be `b` itself or a new array.
        wait_for : pyopencl.Event or list of them, optional
            Events to wait for, besides the events of the arrays.
        overwrite : bool
            Allow `d` and `b` to be destroyed.
        packed : bool
            The caller states that all arrays are in device order.

        Returns
        -------
        pyopencl.Event
            The event of the last kernel. Later `status` says whether all pivots were good.

        Raises
        ------
        InputError
            Wrong shapes or dtypes, and arrays that may not be in device order.
        """
        # instead of the decorators `exclusive` and `memory_errors`, which take a fifth of a call
        check_process()
        with self._lock:
            try:
                whole, calls = self.engine.device_order(), self._calls
                arrays: tuple[Any, ...] = d, u, l, b, out
                if cl.Buffer in map(type, arrays):
                    arrays = self.arguments.of_buffers("d u l b out", arrays, whole.order)
                waits = [] if wait_for is None else events_of("wait_for", wait_for, self.queue)
                call = calls.find(arrays, overwrite)
                if call is None:
                    system, out = dict(zip("dulb", arrays)), arrays[-1]
                    declared = as_switch("packed", packed)
                    overwrite = as_switch("overwrite", overwrite)
                    operands = self.arguments.packed(system, out, whole.order, declared)
                    call = calls.add(arrays, whole.prepare(operands, out, overwrite), overwrite)
                    whole.order.mark(out)
                waits += calls.waits(call, arrays)
                return calls.done(call, whole.enqueue(call.steps, arrays[-1], waits))
            except cl.MemoryError as error:
                raise no_memory(self.queue, self.memory) from error

    # -- natural order -------------------------------------------------------------------------

    @exclusive
    @memory_errors
    def solve(
        self,
        d: AnyArray,
        u: AnyArray,
        b: AnyArray,
        *,
        l: AnyArray | None = None,
        out: AnyArray | None = None,
        overwrite: bool = False,
        check: bool | str = True,
    ) -> AnyArray:
        """Solve A x = b for arrays in *natural* order.

        Parameters
        ----------
        d, u : (n,) NumPy or pyopencl arrays, or pyopencl buffers of n values
            Diagonal, and the entry between each node and its parent (ignored at roots).
        b : (n,) or (k, n)
        l : (n,), optional
            ``A[i, parent[i]]`` of an unsymmetric system; then ``u[i] = A[parent[i], i]``.
        out : like b, optional
            Written and returned, also before an error; may be `b` itself.
        overwrite : bool
            Allow `d` and `b` to be destroyed; without `out`, the solution then goes to `b`.
        check : bool or "raise"
            Wait for the device. Raise `PivotError` for a pivot that is zero, negative, NaN or
            infinite, or so small that its inverse is infinite. Raise `InputError` if a value of `b`
            or `x` is not finite (NumPy only). Warn if the solution has lost digits; "raise" raises
            this warning. Without a check call `status` later.

        Returns
        -------
        x : like b; for buffers an array on `out`
            On a device the result is asynchronous, unless `check`.

        Warns
        -----
        AccuracyWarning
            With `check`: the componentwise backward error is above 32 eps; see `solver.accuracy`.
            If `out` is one of the operands, the error is not known, and may be small in spite of
            the warning.
        """
        check, overwrite = as_check(check), as_switch("overwrite", overwrite)
        arrays = self.arguments.natural({"d": d, "u": u, "l": l, "b": b})
        target = self.arguments.target(self.engine, b, arrays["b"], out, overwrite)
        if not arrays["b"].size:
            return target
        before = on_host(self.queue, arrays) if check and self.engine.may_lose else {}
        late = self.arguments.may_check_late(self.engine, arrays["b"], target)
        if check and not late:
            self.arguments.check_finite("b", arrays["b"])
        if isinstance(target, cla.Array):
            self.engine.solve_device(arrays, target)
        else:
            fresh = out is None and target is not b
            self.engine.solve_host(arrays if fresh else apart(arrays, target), target)
        if check:
            pivots = self._check_solved(arrays["b"] if late else None, target)
            self._report_lost(arrays, target, pivots, before, check)
        return target

    def _report_lost(
        self,
        arrays: dict[str, Array],
        x: Array,
        pivots: BadPivots,
        before: dict[str, np.ndarray],
        check: bool | str,
    ) -> None:
        """Warn if the solution has lost digits.

        `before` has d, u, (l) and b if the method needs them to compute the error, else nothing.
        `check` is the user's option.
        """
        if pivots.first(bad=False) is not None:
            if is_spoilt(arrays, x):
                report_growth(self.arguments, pivots, check)
            else:
                before = on_host(self.queue, arrays)
        if before:
            host = on_host(self.queue, {"x": x})
            report_error(self.arguments, self.engine.method, before, host["x"], check)

    def _check_solved(self, b: Array | None, x: Array) -> BadPivots:
        """Raise for a bad pivot, or if x or b (None: checked) is not finite; return the pivots."""
        known_finite = b is not None and self.engine.found_finite
        if b is not None and not known_finite:
            self.arguments.check_finite("b", b)
        pivots = self.engine.bad_pivots()
        self.arguments.raise_bad_pivot(pivots)
        if not known_finite:
            self.arguments.check_finite("x", x)
        return pivots

    @exclusive
    @memory_errors
    def factor(
        self, d: Given, u: Given, *, l: Given | None = None, check: bool | str = True
    ) -> Factors:
        """Eliminate a matrix in *natural* order once, to solve it for many right-hand sides.

        Parameters
        ----------
        d, u, l : (n,) NumPy or pyopencl arrays
            As in `solve`; they are copied.
        check : bool or "raise"
            Wait for the device, and raise `PivotError` for a bad pivot. Solves then warn as
            `Solver.solve` does. Without a check call `Factors.status` later.

        Returns
        -------
        Factors
            Solves skip the elimination for chains with ``auto`` on a CPU, and for cells that
            `contraction` solves in local memory in one launch. Other solves eliminate again.

        Raises
        ------
        InputError, PivotError, DeviceMemoryError
        """
        check = as_check(check)
        arrays = self.arguments.natural({"d": d, "u": u, "l": l})
        eliminated = self.engine.factor(arrays)
        factors = Factors(self.engine, eliminated, self.arguments, self._lock, l is None)
        if check:
            pivots = eliminated.bad_pivots()
            self.arguments.raise_bad_pivot(pivots)
            if pivots.first(bad=False) is not None:
                factors.doubtful = on_host(self.queue, arrays)
        return factors

    vjp = vjp

    @exclusive
    def status(self) -> np.ndarray:
        """Return the first bad node of every cell in the last solve; waits for the device.

        (num_cells,) int64: -1 if all pivots were positive and finite, else the natural index of the
        first bad node in the elimination order. Warns (`AccuracyWarning`) if a solution may have
        lost digits.
        """
        pivots = self.engine.bad_pivots()
        report_growth(self.arguments, pivots, True)
        return first_nodes(self.forest, pivots)

    @exclusive
    def bad_pivots(self) -> BadPivots:
        """Wait; return the cells of the last solve with bad pivots or lost digits."""
        return self.engine.bad_pivots()


def _factored(forest: Forest, method: str, dtype: np.dtype, matrix: dict[str, Any]) -> Factors:
    return Solver(forest, method, dtype).factor(**matrix, check=False)


copyreg.pickle(Factors, lambda factors: (_factored, factors.source()))
