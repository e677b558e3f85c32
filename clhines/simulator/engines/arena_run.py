"""`ArenaRun`: a run on a device, with its variables in arenas, see `engines.device_state`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.errors import InputError
from clhines.simulator.device.reads import part_of
from clhines.simulator.engines.detected import StepSpikes, TimedEvents
from clhines.simulator.engines.device_state import DeviceState, shape_of
from clhines.simulator.engines.reference import Reference, wanted_outputs, without_outputs
from clhines.simulator.engines.run import MOST_SPIKES, Ending, Job, Mark
from clhines.simulator.engines.start import Start
from clhines.simulator.engines.step_times import MOST_STEPS, StepTimes
from clhines.simulator.events.event_list import EventList
from clhines.simulator.events.grid_run import Grid
from clhines.simulator.events.spike_list import SpikeList, Spikes
from clhines.simulator.kinds.arenas import base_diagonal
from clhines.simulator.kinds.blocks import spec_of
from clhines.simulator.kinds.layouts import Layout, has_constants
from clhines.simulator.kinds.locations import owner_of
from clhines.simulator.kinds.spec import ArenaSpec
from clhines.simulator.model.model import Model
from clhines.simulator.records.records import VOLTAGE, Record
from clhines.simulator.records.reduced import View
from clhines.simulator.records.rows import RecordedRows
from clhines.simulator.state.arena import Arena
from clhines.simulator.state.changes import Storage
from clhines.simulator.state.chunk import Chunk
from clhines.simulator.state.decisions import Decisions
from clhines.simulator.state.sources import Wires, wires_of
from clhines.simulator.state.variables import Variables
from clhines.solver.device import devices, trust
from clhines.solver.device.arrays import set_soon, set_zero, values_of
from clhines.solver.plan.plan import real_name

_SPIKES = 1 << 22  # default capacity for a chunk's spikes
_follows = ContextVar("_follows", default=False)


@contextmanager
def state_follows() -> Iterator[None]:
    """Make or reset runs in this context without copying their initial state to the device.

    Use it if a saved state is loaded next: the copy would be wasted.
    """
    token = _follows.set(True)
    try:
        yield
    finally:
        _follows.reset(token)


def _values_at(array: cla.Array, at: np.ndarray, queue: cl.CommandQueue) -> np.ndarray:
    first, end = int(at.min(initial=len(array) - 1)), int(at.max(initial=0)) + 1
    if not len(at):
        return np.zeros((1, 0), array.dtype)
    return values_of(part_of(array, first, end), queue)[at - first][None]


def _usual_spikes(model: Model, chunk: int) -> int:
    detectors = len(model.sources.detector_node)
    often = min(detectors * (chunk // 2 + 1) * model.on_grid, MOST_SPIKES)
    usual = max(_SPIKES, often)
    return usual if model.exact else min(usual, max(detectors * (chunk + 1), 1))


def same_constants(a: Model, b: Model) -> bool:
    """Whether two models of the same nodes have the same constant conductances and currents."""
    names = "constant_d", "constant_b", "constant_g"
    return all(np.array_equal(getattr(a, n), getattr(b, n)) for n in names)


class ArenaKernels(ABC):
    """Base of the kernels that advance an `ArenaRun`.

    `v[0]` has the present voltages on the device, `place`, (n,) int64, each node's index there;
    other ranks' nodes come last.
    """

    in_vectors = False  # whether kernels use a CPU's vectors
    in_steps = False  # whether kernels list all events by step, in the list of the grid
    whole_rows = 0  # length of rows with all voltages; 0: kernels cannot write such rows
    alone = False  # whether one work-item has all cells, and delivers events in whole steps itself
    is_bound = False  # whether the kernels have the present arrays as arguments
    layout: Layout
    place: np.ndarray
    v: list[cla.Array]

    def __init__(self, run: ArenaRun) -> None:
        self.run, self.queue, self.dtype = run, run.queue, run.dtype

    @property
    def model(self) -> Model:
        return self.run.model

    @property
    def network(self) -> Model:
        """The whole network's model, from which all ranks choose the same kernels."""
        decisions = self.run.job.decisions
        return self.run.model if decisions is None else decisions.network

    @abstractmethod
    def put_matrix(self) -> None:
        """Copy constant arrays to the device, and set `place`."""

    @abstractmethod
    def fill(self, variables: Variables) -> dict[str, Arena]:
        """Copy voltages to the device; return the arenas with all other variables, on the host."""

    @abstractmethod
    def renew(self, before: Model) -> bool:
        """Use the run's model with changed values; return False if another run is needed instead.

        The model `before` has the old values. The run calls `fill` next.
        """

    def renew_constants(self) -> bool:
        """Copy changed constant conductances and currents to the kernels' own arrays.

        Return False if the kernels do not support this, as here in the base class.
        """
        return False

    def storage(self, k: int, name: str, in_arenas: list[Storage]) -> list[Storage]:
        """Return all places that store mechanism `k`'s parameter `name`.

        `in_arenas` are the places in arenas; subclasses add the kernels' other arrays, or return an
        empty list if they cannot change the parameter in place.
        """
        return in_arenas

    def take(self, k: int, name: str, values: np.ndarray) -> None:  # noqa: B027 - most need not
        """Note a parameter's new `values`; the arrays in its `storage` already have them."""

    def voltage_arrays(self) -> list[cla.Array]:
        """Return the arrays, besides the arenas, that `fill` sets on the device."""
        return [self.v[0]]

    def complete(self, saved: dict[str, np.ndarray]) -> None:  # noqa: B027 - most keep all
        """Add values that the kernels do not compute to a saved state's arrays."""

    def suit(self, variables: Variables) -> bool:
        """Whether the compiled kernels can use `variables`, whose arrays have the same shapes."""
        return False

    @abstractmethod
    def compile(self, spec: ArenaSpec, at: np.ndarray) -> None:
        """Build the kernels; `at` has the arena regions' offsets."""

    @abstractmethod
    def bind(self) -> None:
        """Pass the arrays on the device to the kernels as arguments."""

    @abstractmethod
    def advance(self, first: int, count: int, row: int) -> None:
        """Enqueue `count` steps from step `first`; `row` is the first step's record row."""


class ArenaRun:
    """Advance a model on a device by `kernels`; variables are in arenas (device arrays).

    INITIAL blocks run on the host, in NumPy: a device's `exp` has other bits, and all engines start
    from the same state. If the start depends on a changed value, `restart` runs the blocks and
    fills the arenas again; arrays and kernels stay if their shapes are the same. Other parameters
    change in place, see `DeviceState.storages`.

    Times are float64, or float32 if all events come in whole steps and the device has no float64.
    """

    keeps_currents = True  # the start has currents, which change with parameters
    max_steps: int

    def __init__(
        self,
        job: Job,
        kernels: Callable[[ArenaRun], ArenaKernels],
        family: str = "steps",
    ) -> None:
        self.job, self.queue = job, job.queue
        self.model = model = job.model
        self.dtype, double = np.dtype(job.request.dtype), devices.has_fp64(self.device)
        if not double and model.exact:
            raise InputError(
                f"{devices.label(self.device)} has no float64, in which exact times of events are "
                "kept; expected another device"
            )
        self.limits = trust.limits(self.device, family, self.dtype)
        self.times = StepTimes(self.queue, model.dt, np.dtype(np.float64 if double else np.float32))
        self.kernels = kernels(self)
        self.kernels.put_matrix()
        self.ending = Ending(self.queue)
        zeros, width = self.ending.reads.zeros, self.kernels.whole_rows
        self.rows = RecordedRows(model, self.queue, self.dtype, self.ending.reads, width)
        failed = zeros("failed", (model.forest.num_cells,), np.int32)
        self.state = DeviceState(self.queue, failed, self.kernels.storage)
        self.start = Start(self.queue, self._changing_arrays)
        max_spikes = job.request.max_spikes or _usual_spikes(model, job.request.chunk)
        room = 1 if self.kernels.in_steps else max_spikes
        count = zeros("events", (1,), np.int32)
        self.events = EventList(self.queue, room, self.times.instant, count)
        self.max_steps, self.grid = MOST_STEPS, None
        if model.has_sums:  # sums are delivered after each `advance`
            alone = self.kernels.alone
            self.max_steps = MOST_STEPS if alone else min(MOST_STEPS, self.decisions.epoch)
            count = zeros("spikes", (1,), np.int32)
            spikes = SpikeList.on(self.queue, max_spikes, count)
            self.grid = Grid(model, self.queue, self.decisions, spikes, alone)
        self.detected: TimedEvents | StepSpikes
        if self.grid is not None and self.kernels.in_steps:
            self.detected = StepSpikes(self.events, self.grid, self.decisions.split)
        else:
            self.detected = TimedEvents(self.events, self.state, self.wires, self.grid)
        self._begin(model, Reference(model, decisions=job.decisions))

    @cached_property
    def device(self) -> cl.Device:
        return self.queue.device

    @cached_property
    def decisions(self) -> Decisions:
        return self.job.decisions or Decisions.of(self.model)

    @cached_property
    def wires(self) -> Wires:
        return wires_of(self.model)

    def restart(self, model: Model, in_place: bool = False) -> bool:
        # the start's events keep this run's weight unit
        decisions = self.job.decisions if self.grid is None else self.decisions
        host = Reference(model, self.wires, self.start.wanted, decisions)  # may refuse the model
        before, self.model = self.model, model
        if not in_place and model is not before and not self.kernels.renew(before):
            return False
        reducers, self.rows.model = self.rows.reducers.each, model
        if model is not before and any(r.membrane is not None for r in reducers):  # of parameters
            self.take_parameters(model)
        self._begin(model, host)
        return True

    def take_parameters(self, model: Model) -> None:
        """Use a model whose parameters are on the device already; records use the model, too."""
        self.model = model
        self.rows.take_model(model)

    def reset(self) -> bool:
        """Go back to t = 0 by copying the start on the device; False if it is not stored there."""
        plastic = self.grid is not None and self.grid.plasticity is not None
        waits = _follows.get() or self.state.waiting is not None
        if waits or plastic or not self.start.restore():
            return False
        set_zero(self.state.failed, self.queue)
        self.state.next_step = -1
        self.events.early = self.start.early
        return True

    def _changing_arrays(self) -> list[cla.Array]:
        grid = [] if self.grid is None else [self.grid.incoming]
        arenas = [arena.array for arena in self.state.arenas.values()]
        return [*arenas, *self.kernels.voltage_arrays(), *grid]

    def _begin(self, model: Model, host: Reference) -> None:
        self.model = model
        self.events.early = early = host.end()
        self.start.begin(host, early)
        self._use(host.variables)

    def _use(self, variables: Variables) -> None:
        """Continue from these variables; copy them to the device now, or in `ready`.

        They are copied there if a state is loaded next.
        """
        self.state.next_step, self.state.waiting = -1, variables
        if not _follows.get():
            self.ready()

    def ready(self) -> None:
        """Copy pending variables to the device, if any; build kernels if the old do not suit."""
        state, kernels, variables = self.state, self.kernels, self.state.waiting
        if variables is None:
            return
        if self.grid is not None:
            self.grid.load(variables.save())
        arenas = kernels.fill(variables)
        before, state.shape = state.shape, None
        shape = shape_of(variables, arenas)
        same = before == shape and kernels.suit(variables)
        state.put(variables, arenas, kernels.layout, same)
        if not same:
            groups = kernels.layout.groups
            width = self.limits.vector_bytes if kernels.in_vectors else 0
            kernels.compile(*spec_of(variables, arenas, real_name(self.dtype), width, groups))
            kernels.is_bound = False
            self.start.forget()
            self.rows.forget_room()
        state.shape, state.waiting = shape, None  # last: an interrupted call starts again

    def set_constants(self, d: np.ndarray, b: np.ndarray, g: np.ndarray) -> bool:
        """Set `Model.constant_d`, `constant_b`, `constant_g` in place; False if not supported."""
        before, state, host = self.model, self.state, self.start.host
        of_nodes = before.of_nodes.changed(constant_d=d, constant_b=b, constant_g=g)
        self.model = model = replace(before, of_nodes=of_nodes)
        same = state.waiting is None and has_constants(model) == has_constants(before)
        if not same or not self.kernels.renew_constants():
            self.model = before
            return False
        for variables in (state.variables, host.variables):
            variables.model = model
        host.model = model
        base = base_diagonal(model, state.layout).astype(self.dtype)
        mem, first = state.array("mem"), state.arenas["mem"].offset["base_d"]
        for array in (mem, self.start.copy_of(mem)):
            if array is not None:
                set_soon(array, first, base, self.queue)
        return True

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        if self.state.waiting is not None:
            self.rows.forget_room()
        self.detected.empty()
        delivers = self.grid is not None and self.grid.delivers
        at_once = rows <= self.max_steps and self.job.decisions is None and not delivers
        self.ending.begin(rows, at_once)
        self.mark = self.ending.mark  # type: ignore[method-assign] # saves a call
        self.rows.begin(rows, records, self._room_for)
        if self.state.waiting is not None:
            self.ready()

    def _room_for(self, rows: int, sources: Sequence[Record]) -> list[View]:
        self.want(sources)
        self.kernels.is_bound, state = False, self.state
        owners = [owner_of(s, state.variables, state.layout) for s in sources if s.kind != VOLTAGE]
        places = state.places_of(sources, lambda: self.kernels.place)
        owner = np.concatenate([np.zeros(0, np.int64), *owners])
        return self.rows.allocate(rows, places, owner, state.layout.num_owners)

    def advance(self, first: int, count: int, row: int) -> None:
        self.start.is_left = True
        if row == 0:
            self.rows.first_step = first
        if not self.kernels.is_bound:
            self.kernels.bind()
            self.kernels.is_bound = True
        if first != self.state.next_step:
            self.state.play_from(first, self.model.dt)
        self.state.next_step = first + count
        if self.grid is None or not self.grid.has_events:
            self.kernels.advance(first, count, row)
            return
        for begin, steps in self.grid.stretches(first, count):
            self.grid.add_events(begin, steps)
            self.kernels.advance(begin, steps, row + begin - first)

    @property
    def arguments(self) -> dict[str, Any]:
        """Kernel arguments, by name, that do not depend on the engine."""
        num, model, real = np.int32, self.model, self.dtype.type
        arguments: dict[str, Any] = {
            "seed": np.uint64(model.seed & (1 << 64) - 1), "dt": real(model.dt),
            "half_dt": self.times.instant.type(0.5 * model.dt), "step_begin": self.times.begin,
            **{name: arena.array for name, arena in self.state.arenas.items()},
            "failed": self.state.failed, "capacity": num(self.detected.capacity),
            **self.events.arguments, **self.rows.arguments,
        }  # fmt: skip
        if self.grid is None:
            return arguments
        grid = self.grid
        return arguments | {
            "slots": num(grid.slots), "num_targets": num(model.num_targets),
            "scale_of_events": real(grid.scale), "incoming": grid.incoming,
            "grid_count": grid.spikes.count, "grid_source": grid.spikes.source,
            "grid_step": grid.spikes.step,
        }  # fmt: skip

    def deliver(self, first: int, count: int) -> None:
        """Deliver spikes that act in whole steps.

        Events at exact times need no delivery: targets read them from ring buffers.
        """
        if self.grid is not None and self.grid.delivers:
            self.grid.deliver(first, count)

    def mark(self) -> Mark:
        return self.ending.mark()

    def seconds(self, marks: Sequence[Mark]) -> list[float]:
        """Wait, and read what `end` needs; return when the device reached each of `marks`, s."""
        self.rows.enqueue()
        arrays = self.state.failed, *self.detected.counts, *self.rows.arrays
        return self.ending.seconds(marks, arrays)

    def end(self) -> Chunk:
        if self.grid is not None and self.grid.plasticity is not None:
            self.grid.plasticity.check()
        values_of = self.ending.reads.get
        failed = values_of(self.state.failed)
        if len(failed.nonzero()[0]) and (failed < 0).any():  # the next chunk starts without them
            failed = failed.copy()
            self.state.failed.set(np.maximum(failed, 0), self.queue)
        return self.detected.chunk(values_of, failed, self.rows.kept(values_of))

    def want(self, sources: Sequence[Record]) -> None:
        """Build other kernels if the present ones lack outputs that are recorded now."""
        if wanted_outputs(self.model, sources) != self.start.wanted:
            waiting, saved = self.state.waiting, None
            if self.start.is_left:
                saved = self.save() if waiting is None else waiting.save()
            self.start.want(sources)
            self._use(self.start.host.variables if saved is None else self._with_state(saved))
        self.ready()

    def now(self, records: Sequence[Record], step: int) -> list[np.ndarray]:
        reducers = self.rows.reducers
        reducers.begin(records)
        self.want(reducers.sources)
        arrays = {"v": self.kernels.v[0], "mem": self.state.array("mem")}
        places = self.state.places_of(reducers.sources, lambda: self.kernels.place)
        samples = [_values_at(arrays[name], at, self.queue) for name, at in places]
        if not step and self.start.is_left:
            samples = without_outputs(self.model, reducers.sources, samples)
        return self.rows.now(samples, step, places)

    def note_spikes(self) -> Callable[[], Spikes]:
        assert self.grid is not None
        return self.grid.note_spikes()

    def send(self, source: np.ndarray, step: np.ndarray, first: int, count: int) -> None:
        if self.grid is not None:
            self.grid.send(source, step, first, count)

    def early_sources(self) -> np.ndarray:
        return self.events.to(0)[0]

    def new_events(self, node: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        at = self.kernels.place[node]
        if not len(at):
            return *self.events.new()[:2], np.zeros(0)
        first, end = int(at.min()), int(at.max()) + 1
        source, t, (v,) = self.events.new([(self.kernels.v[0], first, end)])
        return source, t, v[at - first]

    def note_events(self) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
        return self.events.note()

    def take_events(self, source: np.ndarray, time: np.ndarray) -> None:
        if len(source):
            self.state.take_events(source, time, self.limits.max_work_group)

    def take_voltages(self, v: np.ndarray) -> None:
        if len(v):
            now, values = self.kernels.v[0], v.astype(self.dtype)
            self.ending.written = set_soon(now, len(now) - len(v), values, self.queue)

    def voltages(self) -> np.ndarray:
        self.ready()
        place = self.kernels.place
        places = place[: len(place) - len(self.model.remote_v)]  # without other ranks' nodes
        return values_of(self.kernels.v[0], self.queue)[places]

    def weights(self) -> np.ndarray:
        """Return the weights, (w,): first of connections in whole steps, then of exact ones."""
        self.ready()
        on_grid = np.zeros(0) if self.grid is None else self.grid.weights()
        return np.append(on_grid, self.state.arenas["mem"].get("weight").astype(np.float64))

    def reward(self, reward: float, step: int) -> None:
        if self.grid is not None:
            self.grid.reward(reward, step)

    def save(self) -> dict[str, np.ndarray]:
        waiting, remote = self.state.waiting, len(self.model.remote_v)
        if waiting is not None and self.grid is None and not remote:
            return waiting.save(self.dtype)
        self.ready()
        arrays = self.state.save()
        if self.grid is not None:
            arrays |= self.grid.save()
        if remote:
            v = self.kernels.v[0]
            arrays["remote_v"] = v[len(v) - remote :].get(self.queue)
        arrays |= {"v": self.voltages(), "failed": values_of(self.state.failed, self.queue)}
        self.kernels.complete(arrays)
        return arrays

    def load(self, saved: dict[str, np.ndarray]) -> None:
        self.events.early = None
        self.start.leave()
        self._use(self._with_state(saved))

    def _with_state(self, saved: dict[str, np.ndarray]) -> Variables:
        variables = self.start.host.variables
        variables.load(saved)
        return variables
