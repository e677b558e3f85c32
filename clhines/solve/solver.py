"""Solver: a plan on a device; its buffers, kernels and events."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from tqdm import tqdm

from clhines import reference
from clhines.checks import shown, to_numpy
from clhines.device import copies
from clhines.device import devices as device_module
from clhines.device.arrays import check_finite, events_of, is_list, target_of, unshared, writable
from clhines.device.guard import exclusive
from clhines.device.templates import render
from clhines.errors import BuildError, DeviceMemoryError, InputError, StoreWarning, warn_caller
from clhines.forest import Forest
from clhines.plan.auto import MODES
from clhines.plan.methods import candidate_plans, make_plan
from clhines.plan.plan import Plan, real_name
from clhines.solve import accuracy
from clhines.solve.factors import Factors, first_nodes
from clhines.solve.loaded import Resident, make_resident, only_event
from clhines.solve.memory import STAGES, Memory, Room, size_text
from clhines.solve.memory import bytes_needed as slice_bytes
from clhines.solve.mixed import Mixed, MixedFactors, Refinement, bytes_needed, is_mixed
from clhines.solve.several import Share, SharedFactors
from clhines.solve.sliced import Pipeline
from clhines.solve.store import load, save, store_key
from clhines.solve.tune import Tuning, measure, random_system

_USABLE = 0.9  # share of the device's memory that a batch may take
_EXACT = 8  # leading bits of a size that a pool keeps: at most 0.4 % too much
_ORDERED = ("d", "u", "l", "b", "x")  # what `pack` may be told that it packs


def _memory_errors(method: Callable[..., Any]) -> Callable[..., Any]:
    """Turn OpenCL's out-of-memory errors of a `Solver` method into `DeviceMemoryError`."""

    @functools.wraps(method)
    def wrapped(self: Solver, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except cl.MemoryError as error:
            need = max(memory.device for memory in self.memory)
            what = "the batch needs"
            if self.num_slices > 1:
                what = f"the batch in {self.num_slices} slices needs"
            raise DeviceMemoryError(
                f"{self.device.name.strip()} has no memory left: {what} {size_text(need)} of its "
                f"{size_text(self.device.global_mem_size)}; a smaller max_memory makes smaller "
                "slices"
            ) from error

    return wrapped


def _on_each_device(method: Callable[..., Any]) -> Callable[..., Any]:
    """Leave a method to that of the `Share` where a `Solver` has several devices."""

    @functools.wraps(method)
    def wrapped(self: Solver, *args: Any, **kwargs: Any) -> Any:
        if self._share is not None:
            return getattr(self._share, method.__name__)(*args, **kwargs)
        return method(self, *args, **kwargs)

    return wrapped


class Solver:
    """Solve a batch of Hines matrices on an OpenCL device, or on several.

    Parameters
    ----------
    forest : Forest
    method : str
        ``auto`` or a name in `clhines.METHODS`.
    dtype : float64, float32 or "mixed"
        Precision of all values on the device. ``mixed`` takes and returns float64: it eliminates
        in float32 and refines the solution with float64 residuals until it is as good as one of
        float64; `solve` and `factor` in natural order, of batches that need no slices.
    device : pyopencl.Device or str, optional
        See `clhines.device.devices.choose`; ignored when `queue` is given.
    queue : pyopencl.CommandQueue, optional
        An in-order queue to work on.
    max_memory : int, optional
        Bytes of device memory to use at most; default: nine tenths of the device's. A batch
        that needs more is solved in slices of whole cells.
    tune : str
        How ``auto`` chooses among `clhines.plan.auto.CANDIDATES`. ``heuristic``: by the cost model,
        in microseconds. ``measure``: times them on this forest, which takes seconds, and stores
        the winner in the user's cache folder. ``cached``: the stored winner for this forest,
        device, driver and dtype, or else the heuristic's choice. The default is ``heuristic``:
        other rows round differently, and so the bits of a result should not depend on a
        file that the caller does not see.
    devices : list, optional
        Instead of `device` or `queue`: several, each as for `device`, or a queue. Each gets a
        range of cells and solves it by itself, at the same time as the others. NumPy arrays are
        those of the whole batch; where one device takes or returns a pyopencl array, several
        take and return a list of them, one on each of `queues`.
    shares : "numpy" (the default), "device" or sequence of float
        Of the cells, where there are several devices. Equal devices get equal numbers of nodes.
        Different ones are timed on a sample of the batch, with NumPy arrays (``numpy``: copies
        to and from the device count) or with arrays on the device, so that all end together;
        the cut then varies from run to run, and cells near it may be solved by another device,
        which rounds differently. Numbers, one a device, are taken as they are:
        ``solver.shares`` gives those of a solver, to have the same again.
    **options
        Options of the method, see ``METHODS[method].options``.

    Attributes
    ----------
    plan : Plan
        Of the whole batch, or of the first slice where it is solved in slices; of several
        devices that of the first.
    num_slices : int
    tuning : clhines.solve.tune.Tuning or None
        What ``tune="measure"`` found.
    refinement : clhines.solve.mixed.Refinement or None
        Corrections and residual of the last solve in ``mixed``, which warns
        (`RefinementWarning`) where the residual is above that of a float64 solution.
    queues : list of pyopencl.CommandQueue
        One a device that has cells; `queue` is the first.
    shares : list of float
        Of the nodes, one a device of ``devices``; 0 for one that is too slow for a cell.

    Raises
    ------
    InputError
        Unknown method, option, dtype or way to tune.
    DeviceError
        No device, or one without the precision asked for.
    DeviceMemoryError
        Not even one cell fits on the device.
    BuildError
        The kernel does not compile on this device.

    Several threads may use one solver: its methods let them in one at a time. `status` and
    `kernel_events` are then those of whichever solve was last. A process that was forked after
    OpenCL has been used is refused (`DeviceError`): start processes with the method ``spawn``.

    All methods raise `ShareError` where some of several devices fail: it names them, and has
    what the others did.
    """

    plan: Plan
    _plans: list[Plan]
    _bounds: np.ndarray

    def __init__(
        self,
        forest: Forest,
        method: str = "auto",
        dtype: Any = np.float64,
        device: Any = None,
        queue: cl.CommandQueue | None = None,
        max_memory: int | None = None,
        tune: str = "heuristic",
        devices: Sequence[Any] | None = None,
        shares: Any = None,
        **options: Any,
    ) -> None:
        _check_tune(tune, method)
        mixed = is_mixed(dtype)
        dtype = np.float64 if mixed else dtype
        real_name(dtype)  # refuses other dtypes before a device is looked for
        if not isinstance(forest, Forest):
            raise InputError(f"forest is {type(forest).__name__}; expected a clhines.Forest")
        if max_memory is not None:
            whole = isinstance(max_memory, (int, np.integer)) and not isinstance(max_memory, bool)
            if not whole or max_memory < 1:
                raise InputError(
                    f"max_memory={shown(max_memory)}; expected a whole number of bytes"
                )
            max_memory = int(max_memory)
        self.forest, self.dtype, self._lock = forest, np.dtype(dtype), threading.RLock()
        self._share: Share | None = None
        if devices is None and shares is not None:
            raise InputError(f"got shares={shown(shares)} without devices; expected both")
        if devices is not None:
            if device is not None or queue is not None:
                raise InputError("got devices together with device or queue; expected one of them")
            if mixed:
                raise InputError("dtype 'mixed' works on one device; got devices")
            shares = "numpy" if shares is None else shares

            def make(part: Forest, queue: cl.CommandQueue, tune: str = tune) -> Solver:
                return Solver(part, method, dtype, None, queue, max_memory, tune, **options)

            timed = functools.partial(make, tune="heuristic")  # samples are not worth storing
            self._share = Share(forest, devices, self.dtype, shares, make, timed)
            queue, self._lock = self._share.solvers[0].queue, self._share._lock
        self.queue: cl.CommandQueue = device_module.given_queue(queue, device, dtype)
        self.device = self.queue.device
        self._limits = device_module.limits(self.device)
        self._room = Room(
            self.device.name.strip(),
            max_memory or int(self.device.global_mem_size * _USABLE),
            self.device.max_mem_alloc_size,
            self.dtype.itemsize,
        )
        self.tuning: Tuning | None = None
        self.refinement: Refinement | None = None
        self._mixed: Mixed | None = None
        self._resident: Resident | None = None
        self._pipeline: Pipeline | None = None
        self._bad: tuple[np.ndarray, np.ndarray] | None = None
        self._solved = False
        self._events: list[cl.Event] = []
        self._kept: Any = None
        if self._share is not None:
            self._plans = [solver.plan for solver in self._share.solvers]
            self.plan = self._plans[0]
            return
        if mixed:
            left = max(1, self._room.memory - bytes_needed(forest.num_nodes, 1))
            rounded = Solver(forest, method, np.float32, None, queue, left, tune, **options)
            self._settle_mixed(rounded)
            return
        self._plans, self._bounds = self._make_plans(method, options)
        heuristic = self._plans, self._bounds
        if tune != "heuristic":
            self._tune(tune, options)
        try:
            self._settle()
        except BuildError:
            if self._plans is heuristic[0]:
                raise
            self._plans, self._bounds = heuristic  # what was stored builds no more
            self._settle()

    @_memory_errors
    def _settle(self) -> None:
        """Put the tables on the device and build the kernels of the plain solve."""
        self.plan = self._plans[0]
        if self.num_slices > 1:
            return
        self._resident = make_resident(self.plan, self.queue, self.dtype)
        for launch in self._resident.launches:
            launch.kernel(True, 1)

    @_memory_errors
    def _settle_mixed(self, rounded: Solver) -> None:
        """Take the plan of the float32 solver that does the eliminations."""
        self._plans, self._bounds = rounded._plans, rounded._bounds
        self.plan, self.tuning = rounded.plan, rounded.tuning
        self._mixed = Mixed(rounded, self._room.memory)

    def __repr__(self) -> str:
        what = f"Solver({self.forest!r}, {self.dtype}, "
        if self._share is not None:
            return f"{what}{len(self.queues)} devices)\n{self._share.describe()}"
        return f"{what}{self.plan.method}, {device_module.label(self.device)})"

    @property
    def queues(self) -> list[cl.CommandQueue]:
        """One a device that has cells."""
        return [self.queue] if self._share is None else [s.queue for s in self._share.solvers]

    @property
    def shares(self) -> list[float]:
        """Share of the nodes, one a device that was given."""
        return [1.0] if self._share is None else list(self._share.shares)

    @property
    def num_slices(self) -> int:
        """Parts in which the batch is solved; 1 unless it is larger than the memory allows.

        Of several devices the most that one of them has.
        """
        if self._share is not None:
            return max(solver.num_slices for solver in self._share.solvers)
        return len(self._plans)

    @property
    def memory(self) -> list[Memory]:
        """What solves take at most, one a device; stated before they take it.

        The tables of a batch that is solved in one piece are on the device already. CPUs keep the
        room for values between solves.
        """
        if self._share is not None:
            return [one for solver in self._share.solvers for one in solver.memory]
        pinned = copies.pinned_bytes() if copies.helps(self.device) else 0
        if self._mixed is not None:
            (rounded,) = self._mixed.rounded.memory
            more = bytes_needed(self.forest.num_nodes, self._mixed.rows_at_once)
            return [Memory(rounded.device + more, 0, 1)]
        if self.num_slices > 1 and self._several_fit:
            taken = slice_bytes(self._plans, self.dtype.itemsize, self._sliced_rows)
            return [Memory(taken, 2 * pinned, self.num_slices)]
        most = [self._room.rows_at_once(plan) for plan in self._plans]
        sizes = [r * plan.forest.num_nodes for r, plan in zip(most, self._plans, strict=True)]
        staged = pinned if self._staged(max(sizes) * self.dtype.itemsize) else 0
        rows = max(most)
        more = 4 * (rows - 1) * max(plan.packed_size for plan in self._plans) * self.dtype.itemsize
        return [Memory(max(map(self._room.needed, self._plans)) + more, staged, self.num_slices)]

    @property
    def _several_fit(self) -> bool:
        """Whether the slices are small enough for a pipeline of them."""
        return all(self._room.fits(plan, STAGES) for plan in self._plans)

    @property
    def _sliced_rows(self) -> int:
        return min(self._room.rows_at_once(plan, STAGES) for plan in self._plans)

    @property
    def takes_device_order(self) -> bool:
        """Whether `pack`, `enqueue` and `unpack` work: not for slices, nor in ``mixed``."""
        if self._share is not None:
            return all(solver.takes_device_order for solver in self._share.solvers)
        return self._resident is not None

    @property
    def source(self) -> str:
        """Generated OpenCL source of the plain solve, of one kernel after another.

        Of ``serial``, which has none, a comment that says so.
        """
        if self._share is not None:
            return "\n".join(dict.fromkeys(solver.source for solver in self._share.solvers))
        if any(part.on_host for part in self.plan.parts):
            return "// no kernel: clhines.reference on the host\n"
        specs = [part.spec for part in self.plan.parts]
        specs += [] if self._mixed is None else [self._mixed.spec()]
        return "\n".join(dict.fromkeys(render(spec) for spec in specs))

    # -- planning ------------------------------------------------------------------------------

    def _make_plans(self, method: str, options: dict[str, Any]) -> tuple[list[Plan], np.ndarray]:
        def make(part: Forest) -> Plan:
            return make_plan(part, method, self.dtype, self._limits, **options)

        return self._room.plan(self.forest, make)

    def _tune(self, mode: str, options: dict[str, Any]) -> None:
        """Plan again with the winner, stored or measured now, where it is another row."""
        key = store_key(self.device, self.forest, self.dtype, options)
        if mode == "cached":
            winner = load(key)
        else:
            self.tuning = self._measure(options)
            winner = self.tuning.best
            try:
                save(key, self.tuning)
            except OSError as error:
                where = f"{error.filename}: " if error.filename else ""
                message = f"the winner was not stored: {where}{error.strerror or error}"
                warn_caller(message, StoreWarning)
            if winner == self.tuning.heuristic:
                return
        if winner is not None:
            try:
                self._plans, self._bounds = self._make_plans(
                    winner.method, {**winner.options, **options}
                )
            except (
                InputError,
                DeviceMemoryError,
            ):  # it cannot serve this device, or one of the slices
                return

    def _measure(self, options: dict[str, Any]) -> Tuning:
        """Time the candidates on the forest, or on its first slice."""
        forest = self.forest
        if self.num_slices > 1:
            forest = forest.take(np.arange(self._bounds[1]))
        plans = list(candidate_plans(forest, self.dtype, self._limits, **options))
        most = max(self._room.needed(plan) for _, plan in plans)
        sets = 2 if 2 * most <= self._room.memory else 1
        systems = [random_system(forest, self.dtype, seed) for seed in range(sets)]
        keep = sets * most * len(plans) <= self._room.memory // 4
        return measure(self.queue, plans, lambda plan: self._ready_to_time(plan, systems), keep)

    @_memory_errors
    def _ready_to_time(
        self, plan: Plan, systems: list[list[np.ndarray]]
    ) -> Callable[[int], list[cl.Event]]:
        """Put a plan and the systems on the device; returns what enqueues a solve of one."""
        if not self._room.fits(plan):
            raise DeviceMemoryError(f"{plan.method} needs {size_text(self._room.needed(plan))}")
        resident = Resident(plan, self.queue, self.dtype)
        names = ("d", "u", "b")
        sets = [
            list(self._upload(resident, dict(zip(names, arrays, strict=True))).values())
            for arrays in systems
        ]
        x = [cla.empty_like(arrays[-1]) for arrays in sets]

        def launch(k: int) -> list[cl.Event]:
            return resident.solve(sets[k % len(sets)], x[k % len(sets)], [])

        return launch

    def _whole(self, what: str) -> Resident:
        if self._mixed is not None:
            raise InputError(
                f"{what} works in device order; dtype 'mixed' has natural order only: use solve() "
                "or factor().solve()"
            )
        if self._resident is None:
            need = sum(self._room.needed(p) for p in self._plans)
            have = self._room.memory
            raise DeviceMemoryError(
                f"{what} needs the whole batch on the device: {size_text(need)}, where "
                f"{size_text(have)} may be taken; use solve() with NumPy arrays, which works in "
                f"{self.num_slices} slices"
            )
        return self._resident

    # -- device order --------------------------------------------------------------------------

    @exclusive
    @_on_each_device
    @_memory_errors
    def pack(
        self,
        a: np.ndarray | cla.Array,
        of: str | None = None,
        other: np.ndarray | cla.Array | None = None,
    ) -> cla.Array:
        """Bring values from natural into device order.

        Parameters
        ----------
        a : (n,) or (k, n), NumPy or pyopencl array
            NumPy values are converted to the solver's dtype.
        of : str, optional
            What `a` is: ``d``, ``u``, ``l``, ``b`` or ``x`` (other values at nodes are packed
            like these). Needed only where the plan has other roots than the forest
            (``reroot=True``): it then solves for the same nodes, but an edge that was turned
            round has its entries at its other end, with `u` and `l` in each other's place.
        other : like `a`, optional
            `l` where `a` is the `u` of an unsymmetric system, `u` where it is the `l`; read only
            where the plan has other roots.

        Returns
        -------
        pyopencl.array.Array, (packed size,) or (k, packed size)
            Padding is zero.
        """
        resident = self._whole("pack()")
        source = self._to_device(self._checked("a", a, self.forest.num_nodes))
        if of is not None and of not in _ORDERED:
            raise InputError(f"of={shown(of)} is not valid; expected {', '.join(_ORDERED)}")
        if resident.edges is None:
            return self._packed(resident, source)
        if of is None:
            raise InputError("the plan has other roots: pack() needs of='d', 'u', 'l', 'b' or 'x'")
        if of not in ("u", "l"):
            return self._packed(resident, source)
        if of == "l" and other is None:
            raise InputError("the plan has other roots: pack(l, of='l') needs other=u")
        turned = source if other is None else other
        turned = self._to_device(self._checked("other", turned, self.forest.num_nodes))
        if turned.shape != source.shape:
            raise InputError(f"other has shape {turned.shape}; expected that of a, {source.shape}")
        return self._packed(resident, source, turned)

    def _packed(
        self,
        resident: Resident,
        source: cla.Array,
        turned: cla.Array | None = None,
        passing: bool = False,
    ) -> cla.Array:
        shape = (*source.shape[:-1], resident.plan.packed_size)
        target = self._passing(shape) if passing else cla.empty(self.queue, shape, self.dtype)
        return resident.permute(source, target, True, turned)

    def _upload(
        self, resident: Resident, arrays: dict[str, Any], passing: bool = False
    ) -> dict[str, cla.Array]:
        """Bring arrays named d, u, l or b from natural into device order.

        With `passing` for a solve that is waited for: until then NumPy arrays are read.
        """
        bring = self._lent if passing else self._to_device
        edges = [name for name in ("u", "l") if name in arrays and resident.edges is not None]
        kept = {name: bring(arrays[name]) for name in edges}
        packed = {}
        for name, a in arrays.items():
            source = kept[name] if name in kept else bring(a)
            turned = kept.get("l" if name == "u" else "u", source) if name in kept else None
            packed[name] = self._packed(resident, source, turned, passing)
        return packed

    @exclusive
    @_on_each_device
    @_memory_errors
    def unpack(self, a: cla.Array, out: cla.Array | None = None) -> cla.Array:
        """Bring (packed size,) or (k, packed size) values at nodes back into natural order.

        Returns
        -------
        pyopencl.array.Array, (n,) or (k, n)
        """
        resident = self._whole("unpack()")
        source = self._checked("a", a, self.plan.packed_size, on_device=True)
        shape = (*source.shape[:-1], self.forest.num_nodes)
        target = cla.empty(self.queue, shape, self.dtype) if out is None else out
        self._checked("out", target, shape[-1], on_device=True)
        if target.base_data == source.base_data:
            raise InputError("out is a; expected another array")
        if target.shape != shape or not writable(target):
            raise InputError(f"out has shape {target.shape}; expected a whole array of {shape}")
        return resident.permute(source, target, False)

    @exclusive
    @_on_each_device
    @_memory_errors
    def enqueue(
        self,
        d: cla.Array,
        u: cla.Array,
        b: cla.Array,
        *,
        l: cla.Array | None = None,  # noqa: E741
        out: cla.Array,
        wait_for: cl.Event | Sequence[cl.Event] | None = None,
        overwrite: bool = False,
    ) -> cl.Event:
        """Enqueue a solve of arrays in *device* order (see `pack`), without waiting.

        Parameters
        ----------
        d, u, l : (packed size,) pyopencl arrays of the solver's dtype
        b : (packed size,) or (k, packed size)
        out : like b
            Where the solution goes; may be `b` itself.
        wait_for : pyopencl.Event or list of them, optional
            In addition to the events of the arrays. For several devices a list with such an item
            for each: also the list that another `enqueue` returned.
        overwrite : bool
            Allow `d` and `b` to be destroyed.

        Returns
        -------
        pyopencl.Event
            Of the last kernel; `status` tells afterwards whether all pivots were good. With
            ``serial`` of the copy to `out`, and complete: this method then waits for the
            values, and for `wait_for`, to solve on the host in float64.
        """
        resident = self._whole("enqueue()")
        waits = events_of("wait_for", wait_for, self.queue)
        size = self.plan.packed_size
        given = [("d", d), ("u", u), *([] if l is None else [("l", l)]), ("b", b)]
        operands = [self._checked(name, a, size, on_device=True) for name, a in given]
        self._check_out(out, b)
        if any(a.ndim != 1 for a in operands[:-1]):
            raise InputError("d, u and l have one row; only b and out may have several")
        if any(out.base_data == a.base_data for a in operands[:-1]):
            raise InputError("out is d, u or l; expected another array")
        events = [e for a in (*operands, out) for e in a.events] + waits
        self._events = resident.solve(operands, out, events, overwrite)
        only_event(out, self._events[-1])
        self._bad, self._solved = None, True
        return self._events[-1]

    @property
    def kernel_events(self) -> list[cl.Event]:
        """Events of the kernels of the last solve, in order: what device timing goes by."""
        if self._share is not None:
            return [event for solver in self._share.solvers for event in solver.kernel_events]
        return self._events if self._mixed is None else self._mixed.events

    def _check_out(self, out: Any, b: cla.Array) -> None:
        """Refuse an `out` in device order that cannot take the solution for `b`."""
        self._checked("out", out, self.plan.packed_size, on_device=True)
        if out.shape != b.shape:
            raise InputError(f"out has shape {out.shape}; expected that of b, {b.shape}")
        if out.offset or not out.flags.c_contiguous:
            raise InputError("out is a strided or offset view; expected a whole array")

    # -- natural order -------------------------------------------------------------------------

    @exclusive
    @_memory_errors
    def solve(
        self,
        d: Any,
        u: Any,
        b: Any,
        *,
        l: Any = None,  # noqa: E741
        out: Any = None,
        overwrite: bool = False,
        check: bool = True,
    ) -> Any:
        """Solve A x = b for arrays in *natural* order.

        Plans of plain launches of `contraction` read and write it themselves; for the others the
        values are packed and unpacked.

        Parameters
        ----------
        d, u : (n,) NumPy or pyopencl arrays
            Diagonal, and the entry between each node and its parent (ignored at roots).
        b : (n,) or (k, n)
            One or several right-hand sides.
        l : (n,), optional
            ``A[i, parent[i]]`` of an unsymmetric system; then ``u[i] = A[parent[i], i]``.
        out : like b, optional
            Written and returned; may be `b` itself.
        overwrite : bool
            Allow `d` and `b` to be destroyed; without `out`, the solution is then written into
            `b` where that is possible.
        check : bool
            Raise `PivotError` for a pivot that is zero, negative, NaN or infinite, or so small
            that its inverse is infinite; and `InputError` for values of `b` or `x` that are not
            finite (NumPy only). With ``cr``, ``pcr`` and ``cr_pcr``, of arrays on the host or on
            one device, also warn where the solution is inaccurate. Waits for the device. Without
            it, `status` tells on request.

        Returns
        -------
        x : like b
            NumPy for NumPy, pyopencl (asynchronous unless `check`) for pyopencl.

        Raises
        ------
        InputError, PivotError, DeviceMemoryError

        Warns
        -----
        AccuracyWarning
            The backward error of ``cr``, ``pcr`` or ``cr_pcr`` is above `accuracy.LIMIT`: these
            eliminate in an order that is not stable where rows are barely dominant or graded.
        RefinementWarning
            The residual of ``mixed`` stayed above that of a float64 solution.
        """
        if self._share is not None and (is_list(b) or isinstance(b, cla.Array)):
            x = self._share.solve(d, u, b, l=l, out=out, overwrite=overwrite)
            if check:
                self._raise_bad_pivot(self._bad_pivots())
            return x
        arrays = self._natural({"d": d, "u": u, "l": l, "b": b})
        if self._mixed is not None:
            del arrays["b"]
            factors = self._factor_mixed(arrays, check)
            return factors._solve(b, out, overwrite, check)
        on_device = isinstance(arrays["b"], cla.Array)
        target = self._target(b, arrays["b"], out, overwrite)
        measured = check and accuracy.may_lose(self.plan)
        before = accuracy.on_host(self.queue, arrays) if measured else {}
        if on_device:
            self._solve_device(arrays, target)
        else:
            if check:
                self._check_finite("b", arrays["b"])
            self._solve_numpy(arrays, target)
        if check:
            self._raise_bad_pivot(self._bad_pivots())
            if not on_device:
                self._check_finite("x", target)
        if measured:
            accuracy.warn_where_lost(self.plan, self.forest, before, target, self.dtype)
        return target

    @exclusive
    @_on_each_device
    @_memory_errors
    def factor(
        self,
        d: Any,
        u: Any,
        *,
        l: Any = None,  # noqa: E741
        check: bool = True,
    ) -> Factors | MixedFactors | SharedFactors:
        """Eliminate a matrix in *natural* order once, to solve it for many right-hand sides.

        Parameters
        ----------
        d, u, l : (n,) NumPy or pyopencl arrays
            As in `solve`; they are copied.
        check : bool
            Raise `PivotError` for a bad pivot; waits for the device. Without it,
            `Factors.status` tells on request.

        Returns
        -------
        Factors, MixedFactors for dtype ``mixed``, or SharedFactors of several devices
            With `solve` and (`Factors`) `enqueue` of their own. They save arithmetic, not memory
            traffic, where the plan consists of plain launches of `contraction`; the others
            factor anew in every solve.

        Raises
        ------
        InputError, PivotError
        DeviceMemoryError
            Also where the batch is solved in slices.
        """
        arrays = self._natural({"d": d, "u": u, "l": l})
        if self._mixed is not None:
            return self._factor_mixed(arrays, check, keep=True)
        resident = self._whole("factor()")
        matrix = list(self._upload(resident, arrays).values())
        pivots, status = resident.make_factors(matrix)
        factors = Factors(self, pivots, matrix[1], matrix[2] if len(matrix) == 3 else None, status)
        if check:
            self._raise_bad_pivot(resident.first_bad(status))
        return factors

    def _factor_mixed(
        self, arrays: dict[str, Any], check: bool, keep: bool = False
    ) -> MixedFactors:
        """Factors of d, u, (l); without `keep` for a solve, which `status` then speaks of."""
        assert self._mixed is not None
        factors = MixedFactors(self, *self._mixed.factor(arrays, check, keep))
        bad = factors.rounded.solver._whole("status()").first_bad(factors.rounded.bad)
        if not keep:
            self._bad, self._solved = bad, True
        if check:
            self._raise_bad_pivot(bad)
        return factors

    @exclusive
    @_memory_errors
    def _refine(self, factors: MixedFactors, b: Any, target: Any) -> Refinement:
        assert self._mixed is not None
        if isinstance(b, np.ndarray):
            b = unshared(b, target)
        return self._mixed.solve(factors, b, target)

    def _natural(self, given: dict[str, Any]) -> dict[str, Any]:
        """Arrays in natural order as `_checked` returns them, all of one kind; without no `l`."""
        given = {name: a for name, a in given.items() if name != "l" or a is not None}
        arrays = {name: self._checked(name, a, self.forest.num_nodes) for name, a in given.items()}
        if len({isinstance(a, cla.Array) for a in arrays.values()}) != 1:
            raise InputError("d, u, l and b mix NumPy and pyopencl arrays; expected one kind")
        if any(a.ndim != 1 for name, a in arrays.items() if name != "b"):
            raise InputError("d, u and l have one row; only b may have several")
        return arrays

    @exclusive
    def status(self) -> np.ndarray:
        """Return the first bad node of every cell in the last solve; waits for the device.

        Returns
        -------
        (num_cells,) int64
            -1 where all pivots were positive and finite, else the natural index of the first
            node of the elimination whose pivot was not.
        """
        return first_nodes(self.forest, self._bad_pivots())

    @exclusive
    def _status_of(self, factors: Factors) -> np.ndarray:
        return first_nodes(self.forest, self._whole("status()").first_bad(factors.bad))

    def _solve_device(self, arrays: dict[str, cla.Array], target: cla.Array) -> None:
        resident = self._whole("solve() with device arrays")
        matrix = [a for name, a in arrays.items() if name != "b"]
        spoilt = any(a.base_data == target.base_data for a in matrix)  # before the last row is done
        if resident.takes_natural and not spoilt:
            events = [e for a in (*arrays.values(), target) for e in a.events]
            self._events = resident.solve([*matrix, arrays["b"]], target, events, natural=True)
            only_event(target, self._events[-1])
            self._bad, self._solved = None, True
            return
        packed = self._upload(resident, arrays)
        x = cla.empty_like(packed["b"])
        self.enqueue(packed["d"], packed["u"], packed["b"], l=packed.get("l"), out=x)
        resident.permute(x, target, False)

    def _solve_numpy(self, arrays: dict[str, np.ndarray], target: np.ndarray) -> None:
        if self._share is not None:
            self._share.solve_numpy(arrays, target)
            return
        matrix = {name: unshared(a, target, True) for name, a in arrays.items() if name != "b"}
        arrays = {**matrix, "b": unshared(arrays["b"], target)}
        with _ended(self.queue):  # before arrays of the host that kernels read and write are gone
            found = self._solve_slices(arrays, target)
        cells, nodes = (np.concatenate(part) for part in zip(*found, strict=True))
        self._bad = cells, nodes
        self._solved = True

    def _solve_slices(
        self, arrays: dict[str, np.ndarray], target: np.ndarray
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Solve; returns what `_solve_slice` does, of one or more slices."""
        if self._resident is not None:
            return [self._solve_slice(0, self._resident, arrays, target)]
        if self._several_fit:
            if self._pipeline is None:
                rows = self._sliced_rows
                given = self.forest, self._plans, self._bounds, self.queue, self.dtype
                self._pipeline = Pipeline(*given, rows)
            return [self._pipeline.solve(arrays, target)]
        found = []
        for k, plan in enumerate(tqdm(self._plans, "slices", disable=None, leave=False)):
            resident = make_resident(plan, self.queue, self.dtype)
            found.append(self._solve_slice(k, resident, arrays, target))
            del resident
            self._keep(None)
        return found

    def _solve_slice(
        self, k: int, resident: Resident, arrays: dict[str, np.ndarray], target: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Solve slice `k`; returns its bad cells and nodes, in the numbers of the batch."""
        first_cell, end_cell = self._bounds[k : k + 2]
        first_node, end_node = self.forest.cell_offsets[[first_cell, end_cell]]
        nodes = slice(first_node, end_node)
        given = {name: a[nodes] for name, a in arrays.items() if name != "b"}
        if resident.takes_natural:
            matrix = [self._lent(a) for a in given.values()]
        else:
            matrix = list(self._upload(resident, given, passing=True).values())
        rows, target_rows = np.atleast_2d(arrays["b"]), np.atleast_2d(target)
        cells, bad = [], []
        for _ in self._solve_rows(resident, matrix, rows[:, nodes], target_rows[:, nodes]):
            found, where = resident.first_bad()
            cells.append(found + first_cell)
            bad.append(where + first_node)
        return np.concatenate(cells), np.concatenate(bad)

    def _solve_rows(
        self,
        resident: Resident,
        matrix: Sequence[cla.Array],
        rows: np.ndarray,
        target_rows: np.ndarray,
        factored: cla.Array | None = None,
    ) -> Iterator[None]:
        """Solve as many rows at once as memory allows, from NumPy to NumPy; yields after each.

        `matrix` is in natural order where the plan takes that, factors always in device order.
        """
        step = self._room.rows_at_once(resident.plan)
        natural = resident.takes_natural and factored is None
        for r in range(0, len(rows), step):
            some, part = np.ascontiguousarray(rows[r : r + step]), target_rows[r : r + step]
            self._keep((some.shape, len(matrix), natural))
            here: Any = None  # where the solution lies in the host's memory
            if part.flags.c_contiguous and copies.lends(self.device, part):
                here = copies.lent(self.queue, part, writes=True)
            in_place = here is not None and np.may_share_memory(some, part)
            b = here if in_place else self._lent(some)
            b = b if natural else self._packed(resident, b, passing=True)
            x = here if natural and here is not None else self._passing(b.shape)
            events = [e for a in (*matrix, b) for e in a.events]
            run = resident.solve([*matrix, b], x, events, factored=factored, natural=natural)
            only_event(x, run[-1])
            if not natural:
                x = resident.permute(x, self._passing(some.shape) if here is None else here, False)
            if here is None:
                self._to_host(x, part)
            else:
                copies.returned(self.queue, x)
            del b, x, here  # before the next rows take as much
            yield

    # -- factored ------------------------------------------------------------------------------

    @exclusive
    @_memory_errors
    def _enqueue_factored(
        self,
        factors: Factors,
        b: cla.Array,
        out: cla.Array,
        wait_for: cl.Event | Sequence[cl.Event] | None,
    ) -> cl.Event:
        resident = self._whole("enqueue()")
        waits = events_of("wait_for", wait_for, self.queue)
        b = self._checked("b", b, self.plan.packed_size, on_device=True)
        self._check_out(out, b)
        matrix = factors._matrix
        if any(out.base_data == a.base_data for a in matrix):
            raise InputError("out is one of the factors; expected another array")
        events = [e for a in (*matrix, b, out) for e in a.events] + waits
        self._events = resident.solve([*matrix, b], out, events, factored=factors.bad)
        only_event(out, self._events[-1])
        return self._events[-1]

    @exclusive
    @_memory_errors
    def _solve_factored(
        self, factors: Factors, b: Any, out: Any, overwrite: bool, check: bool
    ) -> Any:
        resident = self._whole("solve()")
        rows = self._natural({"b": b})["b"]
        target = self._target(b, rows, out, overwrite)
        if isinstance(rows, cla.Array):
            packed = self._packed(resident, rows)
            self._enqueue_factored(factors, packed, packed, None)
            return resident.permute(packed, target, False)
        if check:
            self._check_finite("b", rows)
        two = np.atleast_2d(unshared(rows, target)), np.atleast_2d(target)
        measured = check and accuracy.may_lose(self.plan)
        before = {**self._natural_matrix(factors), "b": rows.copy()} if measured else {}
        with _ended(self.queue):
            for _ in self._solve_rows(resident, factors._matrix, *two, factors.bad):
                pass
        if check:
            self._check_finite("x", target)
        if measured:
            accuracy.warn_where_lost(self.plan, self.forest, before, target, self.dtype)
        return target

    def _natural_matrix(self, factors: Factors) -> dict[str, np.ndarray]:
        """Return d, u, (l) in natural order on the host, of factors that keep the diagonal."""
        names = ("d", "u", "l")
        unpacked = (self.unpack(a).get(self.queue) for a in factors._matrix)
        return dict(zip(names, unpacked, strict=False))

    # -- arguments -----------------------------------------------------------------------------

    def _checked(self, name: str, a: Any, size: int, on_device: bool = False) -> Any:
        """Return `a` as an array of the solver's dtype whose rows have `size` values."""
        if isinstance(a, cla.Array):
            if a.dtype != self.dtype:
                raise InputError(f"{name} has dtype {a.dtype}; expected {self.dtype}")
            if a.context != self.queue.context:
                raise InputError(f"{name} lives in another OpenCL context than the solver")
            if not a.flags.c_contiguous:
                raise InputError(f"{name} is a strided view; expected a C-contiguous array")
            if a.offset and on_device:  # a copy would run before the caller's wait_for
                raise InputError(f"{name} is an offset view; expected a whole array")
            if a.offset:
                a = a.copy(queue=self.queue)
        elif on_device:
            raise InputError(f"{name} is {type(a).__name__}; expected a pyopencl array (see pack)")
        else:
            a = to_numpy(name, a, self.dtype)
        if a.ndim not in (1, 2) or a.shape[-1] != size or 0 in a.shape:
            order = "device" if on_device else "natural"
            raise InputError(
                f"{name} has shape {a.shape}; expected ({size},) or (k, {size}) in {order} order"
            )
        return a

    def _passing(self, shape: tuple[int, ...]) -> cla.Array:
        """Room for values that are gone when a solve has ended."""
        return cla.Array(self.queue, shape, self.dtype, allocator=self._pool)

    @functools.cached_property
    def _pool(self) -> Any:
        """Keeps such room of a CPU, which else fetches its pages anew for every solve."""
        if not copies.shares_memory(self.device):
            return None
        return cl.tools.MemoryPool(cl.tools.ImmediateAllocator(self.queue), _EXACT)

    def _keep(self, what: Any) -> None:
        """Free such room unless it was for solves of this kind, which take as much again."""
        if self._pool is not None and what != self._kept:
            self._pool.free_held()
            self._kept = what

    def _lent(self, a: np.ndarray | cla.Array) -> cla.Array:
        """As `_to_device`, but NumPy arrays are read until a solve that is waited for has ended."""
        if isinstance(a, cla.Array) or not copies.shares_memory(self.device):
            return self._to_device(a)
        if copies.lends(self.device, a):
            return copies.lent(self.queue, a)
        room = self._passing(a.shape)
        cl.enqueue_copy(self.queue, room.base_data, a)  # waits
        return room

    def _to_device(self, a: np.ndarray | cla.Array) -> cla.Array:
        if isinstance(a, cla.Array):
            return a
        if not self._staged(a.nbytes):
            return cla.to_device(self.queue, a)
        target = cla.empty(self.queue, a.shape, a.dtype)
        rows = list(np.atleast_2d(a))
        only_event(target, self._copies.start([(rows, target.base_data)])()[-1])
        return target

    def _to_host(self, a: cla.Array, rows: np.ndarray) -> None:
        """Copy (r, n) values, or (n,) where r is 1, and wait."""
        if self._staged(a.nbytes):
            self._copies.fetch(a.base_data, list(rows), list(a.events))
        elif rows.flags.c_contiguous:
            a.get(self.queue, rows.reshape(a.shape))
        else:
            rows[...] = a.get(self.queue)

    def _staged(self, size: int) -> bool:
        return size >= copies.LEAST_BYTES and copies.helps(self.device)

    @functools.cached_property
    def _copies(self) -> copies.Pinned:
        return copies.Pinned(self.queue)

    def _target(self, given: Any, b: Any, out: Any, overwrite: bool) -> Any:
        """Return the array that the solution goes to."""
        return target_of(given, b, out, overwrite, self.dtype)

    def _check_finite(self, name: str, b: np.ndarray) -> None:
        check_finite(self.forest, name, b)

    def _bad_pivots(self) -> tuple[np.ndarray, np.ndarray]:
        if self._share is not None:
            return self._share.bad_pivots()
        if not self._solved:
            raise InputError("status() was asked for before anything was solved")
        if self._bad is None:
            self._bad = self._whole("status()").first_bad()
        return self._bad

    def _raise_bad_pivot(self, found: tuple[np.ndarray, np.ndarray]) -> None:
        cells, nodes = found
        if len(cells):
            raise reference.pivot_error(self.forest, int(cells[0]), int(nodes[0]))


@contextlib.contextmanager
def _ended(queue: cl.CommandQueue) -> Iterator[None]:
    """Let an error out only when nothing runs any more."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(cl.Error):
            queue.finish()
        raise


def _check_tune(tune: Any, method: Any) -> None:
    if tune not in MODES:
        raise InputError(f"tune={shown(tune)} is not valid; expected {', '.join(MODES)}")
    if tune != "heuristic" and method != "auto":
        raise InputError(f"tune={shown(tune)} is for method 'auto'; got method {shown(method)}")
