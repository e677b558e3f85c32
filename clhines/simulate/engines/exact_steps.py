"""A network with exact times on a device: a few kernels a step, around the solve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.arrays import offsets
from clhines.device import devices, program, trust
from clhines.device.arrays import set_zero
from clhines.errors import DeviceMemoryError, InputError, SpikeOverflowError
from clhines.forest import Forest
from clhines.model.model import Model
from clhines.plan.plan import real_name
from clhines.simulate.engines.axial import placed_neighbours
from clhines.simulate.engines.exact_reference import (
    Clock,
    ExactReference,
    Wanted,
    check_recorded,
    wanted_outputs,
)
from clhines.simulate.engines.steps import of_whole
from clhines.simulate.engines.variables import Variables
from clhines.simulate.events.grid_run import Grid
from clhines.simulate.events.sources import wires_of
from clhines.simulate.kinds.calls import ExactSpec
from clhines.simulate.kinds.layouts import (
    Layout,
    add_vectors,
    check_room_for_events,
    filled_arenas,
    locations,
    loose_targets,
    node_numbers,
    num_active,
    one_of,
    owner_of,
    read_back,
    spec_of,
)
from clhines.simulate.ranks.exchange import SpikeList
from clhines.simulate.records.recorder import Recorder
from clhines.simulate.records.records import Record
from clhines.simulate.records.reduced import DeviceReducer, Reducers
from clhines.simulate.state.arena import Arena
from clhines.simulate.state.decisions import Decisions
from clhines.simulate.state.state import Chunk, TimedChunk
from clhines.solve.solver import Solver

MOST_STEPS = 1024  # whose times are on the device at once
BLOCKS_PER_UNIT, LEAST_NODES = 4, 32  # of nodes that a work-item of a CPU has
MAX_SPIKES = 1 << 22
_OF_EVENTS = ("num_taken", "source", "time")  # arguments that change with the events of other ranks


class Bound(NamedTuple):
    """A kernel with its arguments and its number of work-items."""

    kernel: program.BoundKernel
    items: int
    group: int

    def launch(self, queue: cl.CommandQueue, *changed: program.Argument) -> None:
        """Enqueue it, with the arguments that change."""
        if changed:
            self.kernel.change(*changed)
        self.kernel.launch(queue, self.items, self.group)


def bound(
    queue: cl.CommandQueue,
    built: tuple[cl.Program, ExactSpec],
    name: str,
    given: dict[str, Any],
    items: int,
    alone: bool = False,
    changes: Sequence[str] = (),
) -> Bound:
    """Bind the arguments of a kernel by name; `alone` are work-items in groups of their own."""
    kernel = program.bind(*built, name, given, changes)
    (total,), (group,) = devices.small_groups(queue.device, items)
    return Bound(kernel, items if alone else total, 1 if alone else group)


def _values_at(array: cla.Array, at: np.ndarray, queue: cl.CommandQueue) -> np.ndarray:
    """(1, r): wait, and return values of an array on a device; only those between them come."""
    first, end = int(at.min(initial=len(array) - 1)), int(at.max(initial=0)) + 1
    if not len(at):
        return np.zeros((1, 0), array.dtype)
    return array[first:end].get(queue)[at - first][None]


class StepTimes:
    """Steps as a device counts them, and the times at which `MOST_STEPS` of them begin.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    dt : float, ms

    Attributes
    ----------
    begin : (MOST_STEPS,) float64 on the device, ms
    state : (4,) int32 on the device
        The first step whose time is on the device, the row of that step, and how many steps after
        it the next one is, twice: kernels before the solve read the one and set the other, and the
        last kernel of a step does it the other way round.
    steps : range
        Whose times these are.
    """

    def __init__(self, queue: cl.CommandQueue, dt: float) -> None:
        self._queue, self._dt, self._clock = queue, dt, Clock(dt)
        self.begin = cla.zeros(queue, MOST_STEPS, np.float64)
        self.state = cla.zeros(queue, 4, np.int32)
        self.forget()

    def forget(self) -> None:
        """Have all put on the device the next time."""
        self.steps, self._counted = range(0), (-1, -1, -1)

    def put(self, first: int, count: int) -> None:
        """Put the times of steps on the device, if they are not there."""
        if first in self.steps and first + count <= self.steps.stop:
            return
        half = np.full(2 * MOST_STEPS - 1, 0.5 * self._dt)
        half[0] = self._clock.at(first)
        self.begin.set(np.ascontiguousarray(np.cumsum(half)[::2]), self._queue)
        self.steps, self._counted = range(first, first + MOST_STEPS), (-1, -1, -1)

    def count_from(self, first: int, row: int, count: int) -> None:
        """Let the device count steps from `first`, which is recorded in `row`."""
        self.put(first, count)
        begin = self.steps.start
        now = begin, row - (first - begin), first - begin
        if now != self._counted:
            self.state.set(np.array([*now, now[2]], np.int32), self._queue)
        self._counted = (*now[:2], now[2] + count)


def _solver_of(
    model: Model,
    queue: cl.CommandQueue,
    dtype: np.dtype,
    method: str,
    whole: Forest | None,
    options: dict[str, Any],
) -> Solver:
    if whole is not None:
        limits = trust.limits(devices.whole_device(queue.device), "solve", dtype)
        method, options = of_whole(whole, method, dtype, limits, options)
    solver = Solver(model.forest, method, dtype, None, queue, **options)
    if not solver.takes_device_order:
        raise DeviceMemoryError(
            f"a network needs its {model.forest.num_nodes} nodes on the device at once; the "
            f"solver would need {solver.num_slices} slices"
        )
    return solver


class ExactSteps:
    """Advance a model with a solver, in the order of its plan; see `engines.run.Run`.

    Attributes
    ----------
    of_vectors : bool
        Whether CPUs advance several instances at once.
    solves : bool
        Whether a solver eliminates.
    restarts : bool
        Whether `restart` may be asked for.
    family : str
        Of the kernels; see `clhines.device.trust`.
    limits : Limits

    Parameters
    ----------
    model : Model
    queue : pyopencl.CommandQueue
    dtype : float64 or float32
    max_spikes : int, optional
        Spikes that one chunk may have.
    decisions : Decisions, optional
        Of the whole network, where `model` is a rank's share of it.
    method : str
        Of the solver.
    **options
        Of the solver.
    """

    of_vectors, solves, restarts = True, True, True
    family = "nmodl-steps"

    def __init__(
        self,
        model: Model,
        queue: cl.CommandQueue,
        dtype: np.dtype,
        max_spikes: int | None = None,
        decisions: Decisions | None = None,
        method: str = "auto",
        **options: Any,
    ) -> None:
        self.of_vectors = devices.is_cpu(queue.device) and self.of_vectors
        if "cl_khr_fp64" not in queue.device.extensions:
            raise InputError(
                f"{devices.label(queue.device)} has no float64, in which exact times of events are "
                "kept; expected another device"
            )
        self.queue, self.dtype, self.max_steps = queue, np.dtype(dtype), MOST_STEPS
        self.limits = trust.limits(queue.device, self.family, dtype)
        self.max_spikes = max_spikes or MAX_SPIKES
        if self.solves:
            whole = decisions.network.forest if decisions is not None else None
            self.solver = _solver_of(model, queue, self.dtype, method, whole, options)
        self._decisions = decisions
        self.wires, self._times = wires_of(model), StepTimes(queue, model.dt)
        self._found = [cla.zeros(queue, 1, np.int32), cla.zeros(queue, self.max_spikes, np.int32),
                       cla.zeros(queue, self.max_spikes, np.float64)]  # fmt: skip
        self._wanted: Wanted = tuple(() for _ in model.kinds)
        self.restart(model, ExactReference(one_of(model), decisions=decisions))

    @property
    def device(self) -> cl.Device:
        """The device."""
        return self.queue.device

    def restart(self, model: Model, host: ExactReference | None = None) -> None:
        """Go to the start of a model: of the own one with other parameters or `v_init`.

        Parameters
        ----------
        model : Model
        host : ExactReference, optional
            At the start of the model, or of one of its copies.
        """
        host = host or ExactReference(
            model, self.wires, self._wanted, self._decisions
        )  # may reject values
        self.model, self._host = model, host
        self._taken, self._rows, self._seen, self._first = False, 0, 0, 0
        self.grid = self._grid_of(model) if model.on_grid else None
        self._put_matrix()
        self.layout = self._layout()
        self._failed = cla.zeros(self.queue, model.forest.num_cells, np.int32)
        self._records: list[Record] = []
        self._reducers = Reducers(lambda r: DeviceReducer(r, model, self.queue, self.dtype))
        self._recorder, nothing = Recorder(self.queue, self.dtype), np.zeros(0, np.int64)
        self._recorded_at = self._recorder.begin(0, [], nothing, self.layout.count)
        self._early: Chunk | None = host.end()
        self.build(host.variables)

    def _layout(self) -> Layout:
        """Return where the arenas have what belongs to nodes and instances."""
        return Layout(self.model)

    def _grid_of(self, model: Model) -> Grid:
        """Return the events in whole steps, which are delivered after as many as come at once."""
        decisions = self._decisions or Decisions.of(model)
        self.max_steps = min(MOST_STEPS, decisions.epoch)
        capacity = len(model.sources.detector_node) * (self.max_steps // 2 + 1)
        return Grid(model, self.queue, decisions, SpikeList.on(self.queue, max(capacity, 1)))

    def _put_matrix(self) -> None:
        """Put what does not change, by place, on the device."""
        model, solver = self.model, self.solver
        self._base_d = model.capacitance_over_dt + model.constant_d
        self._constant_g = solver.pack(model.constant_g)
        self._constant_b = solver.pack(model.constant_b)
        self._d, self._u = solver.pack(self._base_d), solver.pack(model.u)
        self._b, self._x = cla.zeros_like(self._d), cla.zeros_like(self._d)
        remote = len(self.model.remote_v)
        packed = solver.pack(model.v_init).get(self.queue)
        v = np.append(packed, np.zeros(remote, self.dtype))
        self._v = [cla.to_device(self.queue, v) for _ in range(2)]
        gather = solver.plan.gather
        self._places = len(gather)
        self.place = np.zeros(model.forest.num_nodes + remote, np.int64)
        self.place[gather[gather >= 0]] = np.flatnonzero(gather >= 0)
        self.place[model.forest.num_nodes :] = self._places + np.arange(remote)
        places = placed_neighbours(model.forest, gather, self.place)
        self._neighbours = [cla.to_device(self.queue, some) for some in places]
        active = np.where(gather < 0, -1, node_numbers(model)[gather]).astype(np.int32)
        self._active = cla.to_device(self.queue, active)

    def build(self, variables: Variables) -> None:
        """Build the kernels, and put all variables on the device."""
        self._variables = variables
        if self.grid is not None:
            self.grid.load(variables.save())
        self.arenas = tables = self.fill(variables)
        if self.of_vectors and self.solves:
            add_vectors(self.model, tables)
        self._mem, self._clocks, self._ints = (
            tables[name].put(self.queue) for name in ("mem", "clock", "ints")
        )
        width = self.limits.vector_bytes if self.of_vectors else 0
        spec, at = spec_of(variables, tables, real_name(self.dtype), self._wanted, width)
        self._compile(spec, at)
        self._bind()

    def _compile(self, spec: ExactSpec, at: np.ndarray) -> None:
        """Build the kernels; `at` is where the regions of the arenas begin."""
        self._at = cla.to_device(self.queue, at)
        self._built = program.build(self.queue.context, spec), spec

    def fill(self, variables: Variables) -> dict[str, Arena]:
        """Put the voltages on the device, and return the arenas."""
        packed = self.solver.pack(variables.v).get(self.queue)
        self._v[0].set(np.append(packed, variables.remote_v).astype(self.dtype), self.queue)
        return filled_arenas(variables, self.dtype, self.place, self._base_d)

    def _bind(self) -> None:
        """Bind the arguments of all kernels."""
        self._emitters = sum(len(s) for s in self.model.sources.emitted.values())
        self._layers = offsets(np.array([len(t) for t in self.wires.layers], int)).tolist()
        self._times.forget()
        num = np.int32
        self._given = {
            "num_places": num(self._places), "num_emitters": num(self._emitters),
            "capacity": num(self.max_spikes), "first_item": num(0), "num_items": num(0),
            "seed": np.uint64(self.model.seed), "dt": self.dtype.type(self.model.dt),
            "half_dt": np.float64(0.5 * self.model.dt), "step_state": self._times.state,
            "step_begin": self._times.begin, "active": self._active,
            "constant_g": self._constant_g, "constant_b": self._constant_b,
            "u": self._u, "d": self._d, "b": self._b,
            **dict(zip(("above", "below", "beside"), self._neighbours, strict=True)),
            "x": self._x, "failed": self._failed, "spike_count": self._found[0],
            "spike_source": self._found[1], "spike_time": self._found[2], "mem": self._mem,
            "clock": self._clocks, "ints": self._ints, "at": self._at,
            "num_taken": num(0), "source": self._at, "time": self._clocks, **self._recorded_at,
            **self._of_grid(),
        }  # fmt: skip
        self._launches = [self._launches_of(*pair) for pair in (self._v, self._v[::-1])]
        self._take = bound(
            self.queue, self._built, "take_events", self._given, 1, changes=_OF_EVENTS
        )

    def _of_grid(self) -> dict[str, Any]:
        """Return arguments of kernels where events come in whole steps."""
        if self.grid is None:
            return {}
        grid = self.grid
        return {
            "slots": np.int32(grid.slots), "num_targets": np.int32(self.model.num_targets),
            "scale_of_events": self.dtype.type(grid.scale), "incoming": grid.incoming,
            "grid_count": grid.spikes.count, "grid_source": grid.spikes.source,
            "grid_step": grid.spikes.step,
        }  # fmt: skip

    def _launches_of(self, old: cla.Array, new: cla.Array) -> tuple[list[Bound], Bound]:
        """Kernels of a step from one array of voltages to another: before and after the solve."""
        spec, before = self._built[1], list[Bound]()
        given = {**self._given, "v": old, "v_old": old, "v_new": new}
        if spec.layered:
            for first, end in zip(self._layers[:-1], self._layers[1:], strict=True):
                some = {**given, "first_item": np.int32(first), "num_items": np.int32(end - first)}
                before.append(bound(self.queue, self._built, "events", some, end - first))
        alone = spec.width > 1
        if alone:  # work-items of blocks of nodes
            most = BLOCKS_PER_UNIT * self.limits.compute_units
            items = [max(1, min(num_active(self.model) // LEAST_NODES, most))] * 2
            given["num_items"] = np.int32(items[0])
        else:
            others = self._emitters + int(self._recorded_at["num_v"]) + 1
            items = [self._places + n for n in (len(loose_targets(self._variables)), others)]
        before.append(bound(self.queue, self._built, "begin_step", given, items[0], alone))
        return before, bound(self.queue, self._built, "finish_step", given, items[1], alone)

    # -- steps ---------------------------------------------------------------------------------

    def advance(self, first: int, count: int, row: int) -> None:
        """Enqueue `count` steps from step `first`; the first is recorded in `row`."""
        self._taken = True
        if row == 0:
            self._first = first
        self._times.count_from(first, row, count)
        if self.grid is not None:
            self.grid.empty()
            self.grid.add_events(first, count)
        for _ in range(count):
            before, finish = self._launches[0]
            for kernel in before:
                kernel.launch(self.queue)
            self.solver.enqueue(self._d, self._u, self._b, out=self._x, packed=True)
            finish.launch(self.queue)
            self._v.reverse()
            self._launches.reverse()

    # -- records -------------------------------------------------------------------------------

    def _want(self, records: Sequence[Record]) -> None:
        """Have the outputs that are recorded worked out, which takes other kernels."""
        check_recorded(self.model, records)
        wanted = wanted_outputs(self.model, records)
        if wanted == self._wanted:
            return
        saved = self.save() if self._taken else None
        self._wanted = wanted
        self._host.want(records)
        if saved is not None:
            known = {**self._host.variables.save(), **saved}
            self._host.variables.load(known)
        self.build(self._host.variables)

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        """Make room for rows of records."""
        set_zero(self._found[0], self.queue)
        self._seen = 0
        same = rows == self._rows and len(records) == len(self._records)
        if same and all(a is b for a, b in zip(records, self._records, strict=True)):
            return
        self._reducers.begin(records)
        sources = self._reducers.sources
        self._want(sources)
        self._rows, self._records = rows, list(records)
        owner = [
            owner_of(source, self._variables, self.layout)
            for source in sources
            if source.kind != -1
        ]
        self._recorded_at = self._recorder.begin(
            rows,
            locations(sources, self._variables, self.arenas, lambda: self.place, self.layout),
            np.concatenate([np.zeros(0, np.int64), *owner]), self.layout.count,
        )  # fmt: skip
        self._bind()

    def end(self) -> Chunk:
        """Wait, and return what was found since `begin`."""
        check_room_for_events(self.model, int(self.arenas["ints"].get("error")[0]))
        count = int(self._found[0].get(self.queue)[0])
        if count > self.max_spikes:
            raise SpikeOverflowError(
                f"{count} spikes in a chunk, room for {self.max_spikes}; expected a larger "
                "max_spikes", 0,
            )  # fmt: skip
        source = self._found[1][:count].get(self.queue) if count else np.zeros(0, np.int32)
        t = self._found[2][:count].get(self.queue) if count else np.zeros(0)
        early, self._early = self._early, None
        if early is not None and isinstance(early, TimedChunk):
            source = np.concatenate([early.spike_cell, source])
            t = np.concatenate([early.spike_time, t])
        values = self._recorded()
        return TimedChunk.of(t, source, self.model.dt, self._failed.get(self.queue), values)

    def _recorded(self) -> list[np.ndarray]:
        """Wait, and return what is kept of the rows of each record."""
        each = self._reducers.each
        if all(reducer.plain for reducer in each):
            return self._recorder.values(range(len(each)))
        begin = offsets(np.array([len(r.sources) for r in each])).tolist()
        spans = [range(a + 1, b) for a, b in zip(begin[:-1], begin[1:], strict=True)]
        outputs = iter(self._recorder.values([k for span in spans for k in span]))
        views = self._recorder.views()
        return [
            reducer.chunk(views[a], self._rows, self._first, [next(outputs) for _ in span])
            for reducer, a, span in zip(each, begin[:-1], spans, strict=True)
        ]

    # -- other ranks ---------------------------------------------------------------------------

    def new_events(self) -> tuple[np.ndarray, np.ndarray]:
        """Wait, and return sources and times of the events found since the last call."""
        begin, end = self._seen, min(int(self._found[0].get(self.queue)[0]), self.max_spikes)
        self._seen = end
        early, self._early = self._early, None
        if isinstance(early, TimedChunk):
            return early.spike_cell, early.spike_time
        if begin == end:
            return np.zeros(0, np.int64), np.zeros(0)
        source, t = (array[begin:end].get(self.queue) for array in self._found[1:])
        return source.astype(np.int64), t

    def take_events(self, source: np.ndarray, time: np.ndarray) -> None:
        """Append events of other ranks, by source and time, to the rings of their sources."""
        if len(source):
            whose = cla.to_device(self.queue, source.astype(np.int32))
            when = cla.to_device(self.queue, time)
            self._take.launch(self.queue, np.int32(len(source)), whose, when)

    def voltages_at(self, node: np.ndarray) -> np.ndarray:
        """Wait, and return the voltages of nodes."""
        return self._v[0].get(self.queue)[self.place[node]]

    def send(self, source: np.ndarray, step: np.ndarray, first: int, count: int) -> None:
        """Deliver spikes of the whole network in whole steps."""
        if self.grid is not None:
            self.grid.send(source, step, first, count)

    def take_voltages(self, v: np.ndarray) -> None:
        """Set the voltages of nodes of other ranks."""
        if len(v):
            self._v[0][self._places :].set(v.astype(self.dtype), self.queue)

    # -- the whole -----------------------------------------------------------------------------

    def deliver(self, first: int, count: int) -> None:
        """Deliver spikes in whole steps; at exact times targets look for events themselves."""
        if self.grid is not None:
            self.grid.deliver(first, count)

    def mark(self) -> float:
        """Wait, and return the moment."""
        return self._host.mark()

    def seconds(self, marks: Sequence[float]) -> list[float]:
        """Wait, and return the moments, s."""
        self.queue.finish()
        return [*marks[:-1], self._host.mark()]

    def now(self, records: Sequence[Record], step: int) -> list[np.ndarray]:
        """Values of records as they are, (1, r) each."""
        self._reducers.begin(records)
        sources = self._reducers.sources
        self._want(sources)
        arrays = {"v": self._v[0], "mem": self._mem}
        where = locations(sources, self._variables, self.arenas, lambda: self.place, self.layout)
        found = [_values_at(arrays[source], at, self.queue) for source, at in where]
        return self._reducers.now(found, step)

    def voltages(self) -> np.ndarray:
        """(n,) of the dtype, mV: in natural order."""
        return self._v[0].get(self.queue)[self.place[: self.model.forest.num_nodes]]

    def weights(self) -> np.ndarray:
        """(w,) float64: of connections on the grid, then of those at exact times, as they are."""
        grid = [] if self.grid is None else [self.grid.weights()]
        return np.concatenate([*grid, self.arenas["mem"].get("weight").astype(np.float64)])

    def save(self) -> dict[str, np.ndarray]:
        """Return arrays that `load` takes; those of `ExactReference` have the same names."""
        found = read_back(self._variables, self.arenas, self.layout)
        if self.grid is not None:
            found |= self.grid.save()
        if len(self.model.remote_v):
            found["remote_v"] = self._v[0][self._places :].get(self.queue)
        return {**found, "v": self.voltages(), "failed": self._failed.get(self.queue)}

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from what `save` gave."""
        self._taken, self._early = True, None
        self._failed.set(saved["failed"].astype(np.int32), self.queue)
        self._host.load(saved)
        self.build(self._host.variables)
