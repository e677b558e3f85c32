"""Simulation: a network advanced in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyopencl as cl
from numpy.typing import ArrayLike, DTypeLike

from clhines.core.checks import as_choice, as_number, as_switch, as_whole_number, shown
from clhines.core.errors import InputError
from clhines.core.files import PathLike
from clhines.simulator.analysis.features import Features
from clhines.simulator.choose import check_options
from clhines.simulator.course import RunCourse
from clhines.simulator.engines.run import MakeRun, Request, Run
from clhines.simulator.engines.table import CHOICES
from clhines.simulator.gradients.gradient import Gradient, Loss, RunGradient
from clhines.simulator.gradients.quantities import GradientQuantity, Quantities
from clhines.simulator.mechanisms.text.rules import REWARD
from clhines.simulator.model.model import Model
from clhines.simulator.network.groups import Group, check_begins, inside
from clhines.simulator.network.network import Network
from clhines.simulator.network.times import LAST_STEP, whole_steps
from clhines.simulator.ranks.mpi import Ranks, own_queue
from clhines.simulator.ranks.partition import agreed_overlap, ranks_of
from clhines.simulator.recordings import Recordings
from clhines.simulator.records.columns import Recording
from clhines.simulator.records.records import digest_of
from clhines.simulator.result import Result
from clhines.simulator.runner import CurrentModel, Progress, Runner
from clhines.simulator.state import saved as saved_states
from clhines.simulator.updates import Updates
from clhines.solver.device import devices
from clhines.solver.device.guard import ClosedProxy, Holder, exclusive, lock_of
from clhines.solver.plan.plan import real_name

if TYPE_CHECKING:
    from mpi4py import MPI

_Self = TypeVar("_Self", bound="Simulation")
_Method = TypeVar("_Method", bound=Callable[..., Any])
# Whether spikes are exchanged during the next epoch; None: `partition.agreed_overlap` decides.
OVERLAP: bool | None = None
_HOST = "the host, NumPy"


def collective(method: _Method) -> _Method:
    """Decorate a method that all MPI ranks must call together: `exclusive`, with ``meets``."""
    return exclusive(method, meets=True)


class Simulation(Holder):
    """A network advanced in time.

    It freezes the network. Attributes are read-only; `set` changes values.

    Parameters
    ----------
    network : Network
    dt : float, ms
    dtype : float64 or float32
        Precision of all values on the device, including the time in mechanisms: float32
        distinguishes steps of 0.025 ms up to 10^5 ms. ``reference`` computes in float64.
    device : pyopencl.Device or str, optional
        See `solver.device.devices.choose`; ignored with `queue`.
    queue : pyopencl.CommandQueue, optional
        An in-order queue to work on.
    method : str
        Method of the `Solver`, if the engine uses one.
    engine : str, or callable
        A name in `simulator.engines.table`. ``auto``: the first one that supports the network on
        the device; ``epochs``: ``epochs-cpu`` or ``epochs-gpu``.
    v_init : float or (n,) float64, mV
        If it is one number, enclosing nodes, see `Network.from_arrays`, begin at 0.
    secondorder : bool
        NEURON's ``secondorder = 2``: half an implicit step, then extrapolation.
    seed : int
        For noise; see `Network.random` for RANDOM variables.
    chunk : int
        Steps between two reads of the device, rounded down to whole epochs.
    max_spikes : int, optional
        Most spikes in a chunk on a rank; default: as many as possible, up to 2**24.
    comm : mpi4py.MPI.Comm, optional
        Simulate together on its ranks, see `simulator.ranks.mpi`. All ranks describe the whole
        network and call the same methods, except for properties. Each simulates some of the cells
        and gets the results of one process; rank 0 reads and writes files.
    **options
        For the `Solver`.

    Attributes
    ----------
    dtype : numpy dtype
    ranks : Ranks

    Raises
    ------
    InputError
        No engine supports the network, or the chosen one does not.
    DeviceMemoryError
        The network does not fit into the device's memory.
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
        self._lock, self._warns = lock_of(self), True
        self.ranks = ranks_of(comm, "Simulation()")
        arguments: Any = network, queue, dtype, engine, chunk, max_spikes, method, options
        with self.ranks.agreed():
            request = _checked(Request(*arguments), device, self.ranks)
            self.network, self.dtype = network, request.dtype
            settings = {"dt": dt, "v_init": v_init, "secondorder": secondorder, "seed": seed}
            current = CurrentModel(network, settings)
        overlap = self.ranks.size > 1 and agreed_overlap(
            self.ranks, current.compiled, current.signature, request, OVERLAP
        )
        self._runner, self._progress = Runner(current, self.ranks, request, overlap), Progress()
        self._recordings = Recordings(self._runner, self.dtype)
        self._updates = Updates(self._runner, self._progress, self._recordings)
        inside(network).freeze()
        self._made = True

    def __setattr__(self, name: str, value: object) -> None:
        if getattr(self, "_made", False) and not name.startswith("_"):
            raise InputError(f"{name} cannot be set; expected it as an argument of Simulation()")
        super().__setattr__(name, value)

    @property
    def step(self) -> int:
        """Number of steps since t = 0."""
        return self._progress.step

    @property
    def model(self) -> Model:
        """The network as arrays, with all changes by `set`; read-only."""
        return self._runner.model.current

    @property
    def runner(self) -> Run:
        """The run in use."""
        return self._runner.run

    @property
    def engine(self) -> str:
        """Name of the engine; ``custom`` for a function."""
        return self._runner.engine_run.engine

    @property
    def chunk(self) -> int:
        """Steps between two reads of the device."""
        return self._runner.engine_run.chunk

    def _meet(self, name: str) -> None:
        closed = " of a closed simulation" * isinstance(self._runner, ClosedProxy)
        self.ranks.meet(f"{name}(){closed}")

    def __repr__(self) -> str:
        if isinstance(self._runner, ClosedProxy):
            return f"Simulation({self.network!r}, closed)"
        return f"Simulation({self.network!r}, t = {self.t:g} ms, {self.engine})"

    @exclusive
    def close(self) -> None:
        """Wait for the device and release its buffers, as at the end of a ``with`` block."""
        if not isinstance(self._runner, ClosedProxy):
            if self._runner.request.queue is not None:
                self._runner.request.queue.finish()
            closed: Any = ClosedProxy(self)
            self._runner = self._recordings = self._updates = closed

    @property
    def device_label(self) -> str:
        """Name of this process's device, or of the host."""
        device = self.runner.device
        return _HOST if device is None else devices.label(device)

    @property
    def t(self) -> float:
        """Time, ms."""
        return self.step * self._runner.model.compiled.dt

    @collective
    def run(self, duration: float, progress: bool = False) -> Result:
        """Advance by a time, in chunks of steps.

        Parameters
        ----------
        duration : float, ms
            A multiple of `dt`.
        progress : bool
            Show a progress bar and the seconds per simulated second, and say when kernels compile.

        Returns
        -------
        Result

        Raises
        ------
        SimulationError
            A voltage was not finite after a step; its `result` has the steps before that one. Any
            other exception that ends a run has a `result` of the chunks completed before.
        SpikeOverflowError
            More spikes in a chunk than `max_spikes`.
        DeviceMemoryError
            The records of a chunk do not fit into the device's memory.
        RunInterrupt
            Ctrl-C, at the end of a chunk; `run` and `save` continue from there. A second Ctrl-C
            acts at once and leaves no state.
        """
        self._updates.settle(first_currents=self._recordings.any_beside_v)
        step = self._progress.step
        with self.ranks.agreed():
            show = progress is not False and as_switch("progress", progress)
            steps = _whole_steps(duration, self._runner.model.compiled.dt, LAST_STEP - step)
            if self._progress.broken:
                self._progress.check("reset(), or restore() an earlier state, to go on")
            records, chunk = self._recordings.of_run(step, steps)
        if self.ranks.size > 1:
            digest = "digest of what is recorded"
            self.ranks.same(lambda: {"duration": duration, digest: digest_of(records)})
        parts = self._runner, self._progress, self._recordings
        return RunCourse(*parts, records, steps, self._warns).run(chunk, show)

    @exclusive
    def record(
        self,
        what: str,
        at: ArrayLike | Group,
        index: ArrayLike | None = None,
        *,
        every: float | None = None,
        reduce: str | Features | None = None,
        threshold: float | None = None,
        matrix: ArrayLike | None = None,
        name: str | None = None,
    ) -> Recording:
        """Record a variable in the runs that follow.

        Parameters
        ----------
        what : str
            ``v``, mV; ``i_membrane``, the current through a node's membrane and its capacitance,
            nA, outward, without electrodes (``iclamp``, ``inoise``, ELECTRODE_CURRENT); a state;
            ``i``, the mechanism's current in the step before, outward (also for ``iclamp`` and
            ``vclamp``: minus NEURON's), mA/cm² in membranes and nA at points (while a ``spike:``
            holds v, the text's current at the reset value); an output of a ``.mod`` file, such as
            a current; a variable of an ion, such as ``cai``; a played parameter.
        at : (r,) integer, (n,) bool, str, callable, or Group
            Nodes, as in `Network.insert`, for ``v``, ``i_membrane``, ions, and
            ``MECHANISM.VARIABLE`` such as ``hh.m``; or the group of a state.
        index : (r,) integer or (count,) bool, optional
            Which of the group's instances; default: all.
        every : float, optional, ms
            Keep values at multiples of this time, a multiple of `dt`; default: after every step.
        reduce : str or Features, optional
            Keep no rows, but ``min``, ``max``, ``mean`` or ``integral`` (sum times `dt`, in ms
            times the unit) over the ends of all steps of a run; ``count`` or times (``crossings``)
            of rises from below to at least `threshold`; or, for ``v`` from t = 0 on,
            `simulator.analysis.Features`.
        threshold : float, optional
            For ``count`` and ``crossings``.
        matrix : (k, r) float, optional
            Keep k linear combinations, ``matrix @ values``, instead of r values.
        name : str, optional
            Name of the record: ``result[name]``; default: `what`.

        Returns
        -------
        Recording
            The record's number, an int with a name, a unit and `plot`: ``result[recording]``, or
            ``result.features[recording]``.
        """
        reduction = {"every": every, "reduce": reduce, "threshold": threshold, "matrix": matrix}
        return self._recordings.add(what, at, index, name, **reduction)

    @collective
    def gradient(
        self,
        duration: float,
        loss: Loss,
        of: Sequence[GradientQuantity],
        *,
        surrogate: float | None = None,
        mode: str = "auto",
    ) -> Gradient:
        """Differentiate a loss of the records of a run from t = 0, as after `reset`.

        These are the derivatives of the computed steps; spikes and events stay in their steps. The
        state of the simulation does not change.

        Parameters
        ----------
        duration : float, ms
            A whole number of steps.
        loss : callable
            Maps the rows of each record, in the order of `record`, to the loss and its derivatives
            by these rows: one array per record, or an array if there is one record.
        of : sequence
            ``(group, name)``, a parameter or a state of a group: shape () if one number serves all
            instances, else (count,); a state by its value after INITIAL. ``v_init``, mV, and
            ``cm``, µF/cm²: (n,). ``Ra``, Ω·cm: (num_cells,). ``weight``: (m,), in the order of
            `weights`. ``played``: an array for each `Network.play`, by its ``y``.
        surrogate : float, optional, mV
            Give spikes in whole steps the slope of a sigmoid of the voltage with this width.
        mode : {"auto", "forward", "reverse"}
            Forward needs one more solve per step for each number; reverse goes back from the end at
            a cost independent of their count. ``auto``: forward for one number.

        Returns
        -------
        Gradient
            ``gradient.value``, and ``gradient[one]`` for each of `of`; ``gradient.how`` says how it
            was computed.

        Raises
        ------
        InputError
            Something has no derivative; raised before any step.
        """
        return self.vjp(duration, of, surrogate=surrogate, mode=mode).of_loss(loss)

    @collective
    def vjp(
        self,
        duration: float,
        of: Sequence[GradientQuantity],
        *,
        surrogate: float | None = None,
        mode: str = "auto",
    ) -> RunGradient:
        """Return a differentiable run from t = 0; the arguments are those of `gradient`.

        ``run.forward()`` returns the rows of each record. ``run.backward(derivatives)`` maps a
        loss's derivatives with respect to the rows to those with respect to each of `of`.
        """
        self.ranks.check_alone("gradient()")
        self._updates.settle()
        current = self._runner.model
        groups = current.changes.groups(self.network.groups)
        numbers = Quantities.checked(self.network, current.current, groups, of)
        steps = _whole_steps(duration, current.compiled.dt, LAST_STEP)
        records, _ = self._recordings.of_run(0, steps)
        place = self._runner.request.place
        return RunGradient(numbers, records, steps, surrogate, place, mode)

    @collective
    def set(self, group: Group | None = None, /, **values: object) -> None:
        """Change values from now on; time and state stay.

        Before the first step, and after `reset`, the state is the start with the new values.

        Parameters
        ----------
        group : Group, optional
            Of the network, or of one from which it was branched.
        **values
            With a group: its parameters, as in `Network.insert`. Without a group: `v_init`, as in
            `Simulation` or one value per cell, for the next `reset`; `weight`, (m,) float, of all
            connections in the order of `weights`, also for pending events, as in NEURON.

        Notes
        -----
        If a parameter was one number for all instances, GPUs compile it as a constant, and others
        have memory for one value only: the first change to several values plans the run again, and
        the logger ``clhines`` says so at INFO. Other changes cost a copy to the device, or less on
        CPUs. If an INITIAL block reads the parameter, the host computes INITIAL blocks again at the
        start; a parameter of a TABLE plans the run again later. Weights plan again if they grow,
        become much smaller, or are plastic, and always on several ranks.

        Raises
        ------
        InputError
            A value is wrong, and nothing changes; or weights, if events are pending whose spikes
            came before `restore`.
        """
        self._updates.set(group, values)

    @collective
    def reset(self) -> None:
        """Return to t = 0 with the current values; records stay.

        The state is the start of a new simulation, with the weights that were set last. The first
        call takes longer.
        """
        self._updates.reset()

    @collective
    def replicate(self: _Self, count: int) -> _Self:
        """Return a simulation of `count` copies of the network with the present values, at t = 0.

        After the first `run` or `restore` it is refused until `reset`. Node i of copy k is node
        ``k * n + i``; cell c is cell ``k * num_cells + c``. Groups have their instances copy after
        copy; `set` also accepts the groups of this network. The copies have no records yet. The
        noise of mechanism texts differs from copy to copy.
        """
        count = as_whole_number("count", count, 1)
        self.ranks.check_alone("replicate()")
        check_begins(self.network.settings, "replicate()")
        if not self._progress.at_start:
            raise InputError(
                f"replicate() of a state at t = {self.t:g} ms; expected it before the first run() "
                "or restore(), or after reset(); from_neuron(copies=...) for a NEURON model"
            )
        net, settings = self._runner.model.copied(count)
        return type(self)(net, **settings, **self._runner.request.arguments)

    def _take_state(self, step: int, saved: dict[str, np.ndarray], unit: float) -> None:
        self._runner.load(saved, unit)
        self._progress.go_to(step)

    @collective
    def voltages(self) -> np.ndarray:
        """Return the current voltages in natural order, (n,) of the dtype, mV."""
        self._updates.settle()
        return self.runner.voltages()

    @collective
    def weights(self) -> np.ndarray:
        """Return the current weights of all connections, (m,) float64.

        ``sim.weights()[c.where]`` are those of `c`, a result of `Network.connect`.
        """
        self._updates.settle()
        return self._runner.weights(self.step)

    @collective
    def reward(self, reward: float) -> None:
        """Apply the rule's ``on reward`` to each plastic connection, after all spikes until now.

        Parameters
        ----------
        reward : float
            The variable ``reward`` in the text of the `Rule`.
        """
        with self.ranks.agreed():
            reward = as_number("reward", reward)
            _check_rewarded(self._runner.model.compiled)
            self._progress.check("there are no connections to reward")
        self.ranks.same(lambda: {"reward": reward})
        self._updates.settle()
        self._progress.at_start, self._runner.moved = False, True
        self.runner.reward(reward, self.step - 1)

    @collective
    def save(self, path: PathLike) -> None:
        """Write the state to an ``.npz`` file, whole or not at all.

        Parameters
        ----------
        path : str or path-like
            With any suffix. For a symbolic link, the target is replaced; a target that is not a
            regular file, such as a FIFO, is refused; see `core.files`.
        """
        self._progress.check("there is nothing to save")
        self._updates.settle()
        arrays = self._runner.save()
        with self.ranks.agreed():
            if self._runner.is_first:
                signature = self._runner.model.signature
                saved_states.write(path, arrays, self.step, signature, self.model)

    @collective
    def restore(self, path: PathLike) -> None:
        """Continue from a file that `save` has written, with the same bits as an uninterrupted run.

        After a state of t = 0, with ``steps``, ``reference`` and exact times, row 0 is NaN for
        currents and other variables that only a step sets.

        Parameters
        ----------
        path : str or path-like
            From a simulation by any engine with the same network, external events, `dt`,
            `secondorder`, `seed` and `dtype` (``reference`` computes in float64). A wrong or
            damaged file leaves the simulation unchanged.
        """
        self._updates.settle()
        step, saved = 0, dict[str, np.ndarray]()
        with self.ranks.agreed():
            if self._runner.is_first:
                signature = self._runner.model.signature
                step, saved = saved_states.read(path, self.model, self.dtype, signature)
        self._progress.broken, self._progress.at_start = f"{path!s} was not restored", False
        self._runner.load(saved, self._runner.saved_unit)
        self._progress.go_to(int(self.ranks.gather_numbers([step])[0, 0]))

    @collective
    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of all arrays of the state, by name."""
        self._progress.check("there is nothing to go on from")
        self._updates.settle()
        return {name: np.array(array) for name, array in self._runner.save().items()}


def _checked(request: Request, device: object, ranks: Ranks) -> Request:
    network, engine, queue = request.what, request.engine, request.queue
    if not isinstance(network, Network):
        raise InputError(f"network is {type(network).__name__}; expected a Network")
    if not callable(engine):
        as_choice("engine", engine, CHOICES)
    check_options(request.options, signature(Simulation).parameters)
    chunk, most = as_whole_number("chunk", request.chunk, 1, LAST_STEP), request.max_spikes
    if most is not None:
        most = as_whole_number("max_spikes", most, 1, 2**31 - 1)
    real_name(request.dtype)
    if not request.is_on_host:
        where: Any = device
        if queue is None and ranks.size > 1:
            queue = own_queue(ranks, where, request.dtype)
        else:
            queue = devices.given_queue(queue, where, request.dtype, timestamps=False)
    elif not isinstance(queue, cl.CommandQueue | None):
        raise InputError(f"queue is {type(queue).__name__}; expected pyopencl.CommandQueue")
    dtype = np.dtype("float64" if request.is_on_host else request.dtype)
    return replace(request, queue=queue, dtype=dtype, chunk=chunk, max_spikes=most)


def leave_warnings(simulation: Simulation) -> None:
    """Turn off warnings about runaway voltages, because a simulation's caller gives them."""
    simulation._warns = False


def take_state(
    simulation: Simulation, step: int, saved: dict[str, np.ndarray], unit: float
) -> None:
    """Continue a simulation at a step from a state that another run's `save` returned.

    `unit` is its pending events' unit.
    """
    simulation._take_state(step, saved, unit)


def _check_rewarded(model: Model) -> None:
    rule = model.connections.rule
    if rule is None or REWARD not in rule.about.actions:
        raise InputError(
            "reward: no connection has a rule with 'on reward:'; expected one, as Rule('dopamine')"
        )


def _whole_steps(duration: object, dt: float, most: int) -> int:
    steps = whole_steps(duration, dt)
    if steps is None or steps > most:
        raise InputError(
            f"duration is {shown(duration)} ms; expected a whole number of steps of {dt:g} ms, "
            f"at most {most}"
        )
    return steps
