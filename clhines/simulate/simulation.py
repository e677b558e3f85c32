"""Cells advanced in time: networks, and passive cells with nothing between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from inspect import signature
from typing import TYPE_CHECKING

import numpy as np
import pyopencl as cl
from numpy.typing import ArrayLike, DTypeLike
from tqdm import tqdm

from clhines.checks import as_choice, as_switch, as_whole_number, shown
from clhines.device import devices
from clhines.device.devices import is_cpu
from clhines.device.guard import exclusive, lock_of
from clhines.errors import BuildError, InputError, SimulationError
from clhines.files import PathLike
from clhines.model.compiling import compile
from clhines.network.network import Network
from clhines.network.times import LAST_STEP, whole_steps
from clhines.plan.plan import real_name
from clhines.simulate.changing import Changing, in_unit
from clhines.simulate.engines.choose import by_steps, check_options, make_run
from clhines.simulate.engines.run import MakeRun, Request, naming_memory, take_chunk
from clhines.simulate.engines.table import CHOICES, FAMILY
from clhines.simulate.ranks.mpi import Ranks, agreed, own_queue
from clhines.simulate.ranks.partition import (
    check_same,
    exchanged_during,
    ranks_of,
)
from clhines.simulate.records.recording import Recording
from clhines.simulate.records.records import Record, digest_of
from clhines.simulate.result import Result, joined_result
from clhines.simulate.state import saved as saved_states
from clhines.simulate.state.chunk import Chunk

if TYPE_CHECKING:
    from mpi4py import MPI

# Whether spikes are exchanged during the next epoch; None: see `partition.exchanged_during`.
OVERLAP: bool | None = None
_HOST = "the host, NumPy"
_BAR = "{percentage:3.0f}% |{bar}| {n:.5g}/{total:.5g} ms [{elapsed}<{remaining}, {postfix}]"


class Simulation(Changing, Recording):
    """A network advanced in time.

    The network is frozen once a simulation has been made of it. Attributes are read-only; `set`
    changes what can change.

    Parameters
    ----------
    network : Network
    dt : float, ms
    dtype : float64 or float32
        Of all values on the device, the time that mechanisms see too: float32 tells steps of 0.025
        ms apart up to 10^5 ms. ``reference`` computes in float64.
    device : pyopencl.Device or str, optional
        See `clhines.device.devices.choose`; ignored when `queue` is given.
    queue : pyopencl.CommandQueue, optional
        An in-order queue to work on.
    method : str
        Of the `Solver`, where one is used.
    engine : str, or callable
        One of `clhines.simulate.engines.table`. ``auto``: the first that takes the network on the
        device; ``epochs``: that of the device among those named so. Or a function; see
        `clhines.simulate.engines.run.Job.of_user`.
    v_init : float or (n,) float64, mV
    secondorder : bool
        NEURON's ``secondorder = 2``: half a step implicitly, followed by extrapolation.
    seed : int
        Of noise.
    chunk : int
        Steps between two reads of the device, rounded down to a whole number of epochs.
    max_spikes : int, optional
        Spikes that one chunk may have on a rank; default: as many as possible, up to 2**24.
    comm : mpi4py.MPI.Comm, optional
        Simulate on its ranks together, see `clhines.simulate.ranks.mpi`: each has the same network
        and simulates some of the cells. All ranks call the same methods, except for properties,
        and get the same results, those of one process; rank 0 alone reads and writes files.
    **options
        Of the `Solver`.

    Attributes
    ----------
    model : Model
    step : int
        Steps taken so far.
    engine : str
        Name of the one chosen, which gives the same one again; ``custom`` for a function.
    dtype : numpy dtype
    runner : Run
    ranks : Ranks or None

    Raises
    ------
    InputError
        The network cannot be simulated so; or no such engine.
    DeviceMemoryError
        It does not fit into the device's memory.
    RankError
        Here and in all methods: another rank has failed.
    """

    def __init__(
        self,
        network: Network,
        dt: float = 0.025,
        dtype: DTypeLike = "float64",
        device: cl.Device | str | None = None,
        queue: cl.CommandQueue | None = None,
        method: str = "auto",
        engine: str | MakeRun = "auto",
        v_init: ArrayLike = -65.0,
        secondorder: bool = False,
        seed: int = 0,
        chunk: int = 1024,
        max_spikes: int | None = None,
        comm: MPI.Comm | None = None,
        **options: object,
    ) -> None:
        self._lock, self._on_host = lock_of(self), engine == "reference"
        self.ranks = ranks_of(comm)
        with agreed(self.ranks):
            if not isinstance(network, Network):
                raise InputError(f"network is {type(network).__name__}; expected a Network")
            if not callable(engine):
                as_choice("engine", engine, CHOICES)
            check_options(options, signature(Simulation).parameters)
            self.network, self._step, self._broken = network, 0, ""
            self._records: list[Record] = []
            made_of = {"dt": dt, "v_init": v_init, "secondorder": secondorder, "seed": seed}
            model = compile(network, dt, v_init, secondorder, seed)
            chunk = as_whole_number("chunk", chunk, 1, LAST_STEP)
            if max_spikes is not None:
                max_spikes = as_whole_number("max_spikes", max_spikes, 1, 2**31 - 1)
            real_name(dtype)
            on_host = engine == "reference"
            if not on_host:
                queue = _queue(self.ranks, queue, device, dtype)
                on_host = is_cpu(queue.device)
            self.dtype = np.dtype("float64" if engine == "reference" else dtype)
        request = Request(network, queue, self.dtype, engine, chunk, max_spikes, method, options)
        overlap = False
        if self.ranks is not None:
            given = {"dtype": dtype, "engine": engine, "chunk": chunk, "max_spikes": max_spikes}
            check_same(
                self.ranks, model, saved_states.signature(model), {**given, "method": method}
            )
            overlap = exchanged_during(self.ranks, model, on_host, OVERLAP)
        self._begin_changes(model, made_of, request, overlap)
        network.freeze()
        self._made = True

    def __setattr__(self, name: str, value: object) -> None:
        if getattr(self, "_made", False) and not name.startswith("_"):
            raise InputError(f"{name} cannot be set; expected it as an argument of Simulation()")
        super().__setattr__(name, value)

    @property
    def step(self) -> int:
        """Steps taken so far."""
        return self._step

    def __repr__(self) -> str:
        return f"Simulation({self.network!r}, t = {self.t:g} ms, {self.engine})"

    @property
    def device_label(self) -> str:
        """Name of this process's device; of the host where the engine is ``reference``."""
        device = self.runner.device
        return _HOST if device is None else devices.label(device)

    @property
    def t(self) -> float:
        """Time, ms."""
        return self.step * self._model.dt

    @exclusive
    def run(self, duration: float, progress: bool = False) -> Result:
        """Advance by a time.

        Parameters
        ----------
        duration : float, ms
            A whole number of steps.
        progress : bool
            Show a bar, and how many seconds a second of the simulated time takes.

        Returns
        -------
        Result

        Raises
        ------
        SimulationError
            A voltage was not finite after a step; its `result` holds the steps before.
        SpikeOverflowError
            More spikes in a chunk than `max_spikes`.
        DeviceMemoryError
            The records of a chunk do not fit into the memory of the device.
        """
        self._settle()
        with agreed(self.ranks):
            progress = as_switch("progress", progress)
            steps = _whole_steps(duration, self._model.dt, LAST_STEP - self.step)
            if self._broken:
                raise InputError(f"{self._broken}; restore() an earlier state to go on")
            records, chunk = self._recorded_in(steps)
        if self.ranks is not None:
            known = digest_of(records)
            self.ranks.same({"duration": duration, "digest of what is recorded": known})
        begin, end = self._leave_start(), self.step + steps
        cost = {"steps": 0.0, "spikes": 0.0, "collect": 0.0}
        chunks = self._start(records)
        failed, progress = 0, progress and self._first
        waited = self.ranks.seconds if self.ranks is not None else 0.0
        with _bar(steps * self._model.dt, progress) as bar:
            clock = time.perf_counter()
            while self.step < end and not failed:
                count = min(chunk, end - self.step)
                done, failed = self._advance_whole(count, records, cost)
                chunks.append(done)
                self._step += count
                if bar is not None:
                    bar.update(count * self._model.dt)
                    second = (self.step - begin) * self._model.dt * 1e-3
                    bar.set_postfix_str(f"{(time.perf_counter() - clock) / second:.3g} s a second")
        cost["all"] = time.perf_counter() - clock
        if self.ranks is not None:
            cost["exchange"] = self.ranks.seconds - waited
        taken = begin, failed - 1 if failed else end
        result = joined_result(chunks, records, self._model.dt, taken, bool(failed), cost)
        if failed:
            self._fail(chunks[-1].failed, failed, result)
        return result

    def _advance_whole(
        self, count: int, records: list[Record], cost: dict[str, float]
    ) -> tuple[Chunk, int]:
        """Advance by a chunk; if interrupted, the state on the device belongs to no step.

        Rows that go to files are written. Returns the chunk, and 1 + the first step after which a
        voltage was not finite, or 0.
        """
        try:
            with naming_memory(self.network, count):
                done = self._first_chunk(
                    lambda: take_chunk(self.runner, self.step, count, records, cost)
                )
            failed = int(min(done.failed[done.failed > 0], default=0))
            last = failed - 1 if failed else self.step + count
            if self._model.has_sums:
                self._under_way.note(done, self._model, self.step + count)
            self._streamed(records, done, self.step + 1, last)
            return done, failed
        except BaseException as error:
            self._broken = f"a run ended within a chunk, by {type(error).__name__}: {error}"
            raise

    def _first_chunk(self, take: Callable[[], Chunk]) -> Chunk:
        """Take a chunk; by steps where the device does not take the kernels of the first one."""
        tried, self._tried = self._tried, True
        if tried or self.ranks is not None or not self.engine.startswith(FAMILY):
            return take()
        saved = {} if self._was_fresh else self.runner.save()
        try:
            return take()
        except (BuildError, cl.Error) as error:
            self._request = by_steps(self._request, self.engine, error)
        model = self.model
        self._take(make_run(None, model, self._request, self._overlap), model)
        if saved:
            self.runner.load(saved)
        self._leave_start()
        return take()

    def _fail(self, failed: np.ndarray, first: int, result: Result) -> None:
        cell = int(np.flatnonzero(failed == first)[0])
        node, at = int(self._model.soma[cell]), first * self._model.dt
        self._broken = (
            f"the voltage of cell {cell}, at its soma, node {node}, is not finite at "
            f"t = {at:g} ms (step {first - 1})"
        )
        raise SimulationError(self._broken, cell, node, at, result)

    @exclusive
    def voltages(self) -> np.ndarray:
        """(n,) of the dtype, mV: in natural order, as they are now."""
        self._settle()
        return self.runner.voltages()

    @exclusive
    def weights(self) -> np.ndarray:
        """(m,) float64: of all connections as they are now, in the order of `connect`."""
        self._settle()
        found, model, given = self.runner.weights(), self._model, self._model.given_weights.copy()
        own, exact = found[: len(model.numbers)], found[len(model.numbers) :]
        given[model.numbers] = own
        given[model.exact_numbers] = exact[: len(model.exact_numbers)]  # from outside come last
        return given

    @exclusive
    def save(self, path: PathLike) -> None:
        """Write all that is needed to go on to an ``.npz`` file, whole or not at all.

        Parameters
        ----------
        path : str or path-like
            Taken as it is; it need not end in ``.npz``. A symbolic link stays, and its target is
            replaced; a target that is no regular file (a FIFO, say) is written to; see
            `clhines.files`.

        Raises
        ------
        InputError
            The file cannot be written; or a run has failed, and there is nothing to go on from.
        """
        if self._broken:
            raise InputError(f"{self._broken}; there is nothing to save")
        self._settle()
        arrays = in_unit(self.runner.save(), self._unit, self._saved_unit)
        with agreed(self.ranks):
            if self._first:
                saved_states.write(path, arrays, self.step, self._signature)

    @exclusive
    def restore(self, path: PathLike) -> None:
        """Go on from a file that `save` has written; the bits are those of not having stopped.

        Parameters
        ----------
        path : str or path-like
            Of a simulation of the same network, with the same events from outside, `dt`,
            `secondorder`, `seed` and `dtype` (``reference`` computes in float64); another engine
            may have saved it.

        Raises
        ------
        InputError
            The file cannot be read, is of another network or another precision, or is damaged; the
            simulation then stays as it was.
        """
        self._settle()
        step, saved = 0, dict[str, np.ndarray]()
        with agreed(self.ranks):
            if self._first:
                step, saved = saved_states.read(path, self.model, self.dtype, self._signature)
        self._broken = f"{path!s} was not restored"
        self._leave_start()
        self.runner.load(in_unit(saved, self._saved_unit, self._unit))
        if self.ranks is not None:
            step = int(self.ranks.gather_numbers([step])[0, 0])
        self._under_way.forget(step)
        self._step, self._broken = step, ""

    @exclusive
    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of all arrays that `save` would write, by name."""
        if self._broken:
            raise InputError(f"{self._broken}; there is nothing to go on from")
        self._settle()
        saved = in_unit(self.runner.save(), self._unit, self._saved_unit)
        return {name: np.array(array) for name, array in saved.items()}

    @exclusive
    def set_arrays(self, step: int, arrays: dict[str, np.ndarray]) -> None:
        """Go on at the begin of a step from arrays as `arrays` gives them, with other values.

        Parameters
        ----------
        step : int
        arrays : dict of name -> array
            All that `arrays` gives, of the same shapes.

        Raises
        ------
        InputError
            An array is missing or has another shape, or a value that no state has, such as an index
            out of range or an event that was due before; the simulation then stays as it was.
        """
        if self.ranks is not None:
            raise InputError("set_arrays() is for one process; expected a simulation without comm")
        step = as_whole_number("step", step, 0, LAST_STEP)
        self._settle()
        checked = saved_states.checked(arrays, self.model, self.dtype, step)
        self._broken = "arrays were not set"
        self._leave_start()
        self.runner.load(in_unit(checked, self._saved_unit, self._unit))
        self._under_way.forget(step)
        self._step, self._broken = step, ""


def _whole_steps(duration: object, dt: float, most: int) -> int:
    steps = whole_steps(duration, dt)
    if steps is None or steps > most:
        raise InputError(
            f"duration is {shown(duration)} ms; expected a whole number of steps of {dt:g} ms, "
            f"at most {most}"
        )
    return steps


def _queue(
    ranks: Ranks | None,
    queue: cl.CommandQueue | None,
    device: cl.Device | str | None,
    dtype: DTypeLike,
) -> cl.CommandQueue:
    if queue is None and ranks is not None:
        return own_queue(ranks, device, dtype)
    return devices.given_queue(queue, device, dtype)


def _bar(duration: float, show: bool) -> AbstractContextManager[tqdm | None]:
    """Return a bar in `with`; None where it is not shown, as even making one takes a while."""
    return tqdm(total=duration, unit="ms", bar_format=_BAR) if show else nullcontext()
