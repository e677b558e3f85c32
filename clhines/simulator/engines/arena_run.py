"""`ArenaRun`: a run whose numbers are in three arenas.

An arena is one array on the device with regions by name, so that a kernel needs few arguments:

    mem     reals    area | base_d | ion_cai | parameters_0 | states_0 | ... | weight
    clock   times    ring | delay | next_due | ...
    ints    int32    place_of | cell | first_0 | active_0 | cursor | ...
"""

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
from clhines.simulator.device.reads import part_of, read_parts
from clhines.simulator.engines.reference import (
    Clock,
    Reference,
    Wanted,
    wanted_outputs,
    without_outputs,
)
from clhines.simulator.engines.run import MOST_SPIKES, Ending, Job, Mark
from clhines.simulator.engines.start import KeptStart
from clhines.simulator.engines.step_times import MOST_STEPS, StepTimes
from clhines.simulator.events.event_list import EventList, RankEvents
from clhines.simulator.events.exact import check_rings
from clhines.simulator.events.grid_run import Grid
from clhines.simulator.events.spike_list import SpikeList, Spikes
from clhines.simulator.kinds.arenas import base_diagonal, read_back
from clhines.simulator.kinds.blocks import spec_of
from clhines.simulator.kinds.event_errors import check_events
from clhines.simulator.kinds.layouts import Layout, at_parameter, has_constants
from clhines.simulator.kinds.locations import locations, owner_of
from clhines.simulator.kinds.played import entries_come
from clhines.simulator.kinds.spec import ArenaSpec
from clhines.simulator.model.model import Model
from clhines.simulator.records.records import VOLTAGE, Record
from clhines.simulator.records.reduced import View
from clhines.simulator.records.rows import RecordedRows
from clhines.simulator.state.arena import Arena
from clhines.simulator.state.changes import Storage
from clhines.simulator.state.chunk import Chunk, check_room, steps_to
from clhines.simulator.state.decisions import Decisions
from clhines.simulator.state.sources import wires_of
from clhines.simulator.state.variables import Variables, chunk_of_all, of_all, whole, with_wires
from clhines.solver.device import devices, trust
from clhines.solver.device.arrays import set_soon, set_zero, to_device, values_of
from clhines.solver.device.copies import shares_memory
from clhines.solver.plan.plan import real_name

_FEW_STEPS = 8  # steps that take a device with its own memory as long as a marker
_SPIKES = 1 << 22  # default room for spikes of a chunk
_follows = ContextVar("_follows", default=False)


@contextmanager
def state_follows() -> Iterator[None]:
    """Do not put the start of runs on the device: a state is loaded before they advance."""
    token = _follows.set(True)
    try:
        yield
    finally:
        _follows.reset(token)


def _values_at(array: cla.Array, at: np.ndarray, queue: cl.CommandQueue) -> np.ndarray:
    """Wait; return values of a device's array, (1, r); only the range between them is read."""
    first, end = int(at.min(initial=len(array) - 1)), int(at.max(initial=0)) + 1
    if not len(at):
        return np.zeros((1, 0), array.dtype)
    return values_of(part_of(array, first, end), queue)[at - first][None]


def _usual_spikes(model: Model, chunk: int) -> int:
    """Return the default room for events of a chunk."""
    detectors = len(model.sources.detector_node)
    often = min(detectors * (chunk // 2 + 1) * model.on_grid, MOST_SPIKES)
    usual = max(_SPIKES, often)
    return usual if model.exact else min(usual, max(detectors * (chunk + 1), 1))


def _recorded(
    run: ArenaRun,
    rows: int,
    locations: Sequence[tuple[str, np.ndarray]],
    owner: np.ndarray,
    whole: bool = False,
) -> tuple[list[View], dict[str, np.integer | cla.Array]]:
    """Make room for rows that the work-items of `owner` write; return views and arguments.

    Rows of voltages may be `whole`, in the order of places.
    """
    index: dict[str, list[np.ndarray]] = {"v": [np.zeros(0, np.int64)], "mem": []}
    columns = []
    for source, at in locations:
        columns.append((source, sum(len(a) for a in index[source])))
        index[source].append(at)
    v_index = np.concatenate(index["v"])
    mem_index = np.concatenate([np.zeros(0, np.int64), *index["mem"]])
    width = {"v": run.kernels.whole_rows if whole else len(v_index), "mem": len(mem_index)}
    room = {
        name: run.ending.reads.zeros(f"{name}_rows", (max(rows, 1), max(each, 1)), run.dtype)
        for name, each in width.items()
    }
    order = np.argsort(owner, kind="stable")
    tables = {
        "v_index": v_index[: 0 if whole else None],
        "mem_first": np.searchsorted(owner[order], np.arange(run.kernels.layout.num_owners)),
        "mem_column": order,
        "mem_index": mem_index[order],
    }
    views = []
    for (source, column), (_, at) in zip(columns, locations, strict=True):
        is_whole = whole and source == "v"
        places = at if source == "v" and run.kernels.whole_rows else None
        views.append(View(room[source], 0 if is_whole else column, places, is_whole))
    return views, {
        "whole": np.int32(whole),
        "record_every": np.int32(run.rows.every),
        "num_v": np.int32(width["v"]),
        "num_mem": np.int32(len(mem_index)),
        "v_rows": room["v"],
        "mem_rows": room["mem"],
        **{name: to_device(run.queue, a, np.int32) for name, a in tables.items()},
    }


def same_constants(a: Model, b: Model) -> bool:
    """Whether two models of the same nodes have the same constant conductances."""
    names = "constant_d", "constant_b", "constant_g"
    return all(np.array_equal(getattr(a.once, n), getattr(b.once, n)) for n in names)


class ArenaKernels(ABC):
    """Kernels of an `ArenaRun`; `place`, (n,) int64: index of each node in `v`, remote last."""

    in_vectors = False
    in_steps = False  # whether kernels list all events by step, in the list of the grid
    whole_rows = 0  # voltages of a row of all of them, if the kernels can write such rows
    alone = False  # whether the only work-item delivers events in whole steps itself
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
        """The model of the whole network, by which all ranks choose the same kernels."""
        return self.run.model if self.run.whole is None else self.run.whole.network

    def storage(self, k: int, name: str, in_arenas: list[Storage]) -> list[Storage]:
        """Return where a parameter is stored, `in_arenas` and elsewhere; empty: it is fixed."""
        return in_arenas

    def suit(self, variables: Variables) -> bool:
        """Whether the kernels stay the same for these values, if the arenas do."""
        return False

    def voltage_arrays(self) -> list[cla.Array]:
        """Return the arrays beside the arenas that `fill` sets on the device."""
        return [self.v[0]]

    def take(self, k: int, name: str, values: np.ndarray) -> None:  # noqa: B027 - most need not
        """Note new values of a parameter, which are in its `storage`."""

    def complete(self, saved: dict[str, np.ndarray]) -> None:  # noqa: B027 - most keep all
        """Set the arrays of a saved state that the kernels do not keep."""

    @abstractmethod
    def put_matrix(self) -> None:
        """Put constant arrays on the device, and number the nodes by `place`."""

    @abstractmethod
    def renew(self, before: Model) -> bool:
        """Replace the values of the model `before`; return False if another run is needed.

        `fill` follows.
        """

    def renew_constants(self) -> bool:
        """Replace constant conductances and currents; return False if that is not supported."""
        return False

    @abstractmethod
    def fill(self, variables: Variables) -> dict[str, Arena]:
        """Put the voltages on the device, and return the arenas."""

    @abstractmethod
    def compile(self, spec: ArenaSpec, at: np.ndarray) -> None:
        """Build the kernels; `at` has the regions' offsets."""

    @abstractmethod
    def bind(self) -> None:
        pass

    @abstractmethod
    def advance(self, first: int, count: int, row: int) -> None:
        """Enqueue `count` steps from step `first`; record the first in `row`."""


class ArenaRun:
    """Advance a model whose variables are in arenas, with its `kernels`; see `kinds.layouts`.

    INITIAL blocks run on the host, in NumPy: a device's `exp` has other bits, and all engines start
    from the same state. The device keeps a copy of the start for `reset`. If the start depends on a
    changed value, `restart` runs the blocks and fills the arenas again; arrays and kernels stay if
    their shapes are the same. Parameters change `in_place`, where `storage` says.

    Identical copies come to the device when the first step needs them. Until then one copy stands
    for all, and a state of one copy may be loaded. Some kernels treat copies as cells, `apart`.
    `whole` has the decisions for the whole network if this is a part. Times have the type
    `instant`: float64, or float32 if all events come in whole steps and the device has no float64.
    """

    keeps_currents = True  # the start has currents, which change with parameters
    device: cl.Device
    max_steps: int
    mem: cla.Array
    clock: cla.Array
    ints: cla.Array

    def __init__(
        self,
        job: Job,
        kernels: Callable[[ArenaRun], ArenaKernels],
        family: str = "steps",
        apart: bool = False,
    ) -> None:
        model, device = job.apart if apart else job.model, job.queue.device
        double = devices.has_fp64(device)
        if not double and model.exact:
            raise InputError(
                f"{devices.label(device)} has no float64, in which exact times of events are kept; "
                "expected another device"
            )
        self._alike, self.whole = job.model, job.decisions
        self.model, self.queue, self.dtype = model, job.queue, np.dtype(job.request.dtype)
        self.device, self.request = device, job.request
        self.limits = trust.limits(device, family, self.dtype)
        self.max_spikes = job.request.max_spikes or _usual_spikes(model, job.request.chunk)
        self.ending = Ending(self.queue)
        self.rows = RecordedRows(model, self.queue, self.dtype)
        self.start = KeptStart(self.queue, self._changing_arrays)
        self.max_steps = MOST_STEPS
        self.instant = np.dtype(np.float64 if double else np.float32)
        self.wires, self.times = wires_of(model), StepTimes(self.queue, model.dt, self.instant)
        self.wanted: Wanted = tuple(() for _ in model.kinds)
        self.kernels = kernels(self)
        self.kernels.put_matrix()
        count = self.ending.reads.zeros("events", (1,), np.int32)
        room = 1 if self.kernels.in_steps else self.max_spikes
        self.events = EventList(self.queue, room, self.instant, count)
        self._shape: tuple[object, ...] | None = None  # key of the compiled kernels
        self.grid = None
        if model.has_sums:  # sums are delivered after each `advance`
            alone = self.kernels.alone
            self.max_steps = MOST_STEPS if alone else min(MOST_STEPS, self.decisions.epoch)
            count = self.ending.reads.zeros("spikes", (1,), np.int32)
            spikes = SpikeList.on(self.queue, self.max_spikes, count)
            self.grid = Grid(model, self.queue, self.decisions, spikes, alone)
        self.failed = self.ending.reads.zeros("failed", (model.forest.num_cells,), np.int32)
        _, self.recorded_at = _recorded(self, 0, [], np.zeros(0, np.int64))
        self._bound = False
        self._start(model, Reference(model.once, decisions=job.decisions))

    @cached_property
    def decisions(self) -> Decisions:
        return self.whole or Decisions.of(self.model)

    @property
    def in_place(self) -> bool:
        """Whether parameters change where they are stored; those of copies do not."""
        return self.model.copies == 1

    # -- the start -----------------------------------------------------------------------------

    def restart(self, model: Model, in_place: bool = False) -> bool:
        """See `Restarts`."""
        if max(model.copies, self.model.copies) > 1:
            return False
        # events of the start keep this run's unit of weights
        decisions = self.whole if self.grid is None else self.decisions
        host = Reference(model, self.wires, self.wanted, decisions)  # may refuse the model
        before, self.model = self.model, model
        if not in_place and model is not before and not self.kernels.renew(before):
            return False
        if any(r.membrane is not None for r in self.rows.reducers.each):  # made of parameters
            self.take_parameters(model)
        self._start(model, host)
        return True

    def take_parameters(self, model: Model) -> None:
        """Use a model with the parameters that the kernels have, also for records."""
        self.model = model
        self.rows = RecordedRows(model, self.queue, self.dtype)

    def keep_start(self) -> None:
        """Keep the present state, which is the start, for `reset`."""
        if self._waiting is None:
            self.start.keep()

    def reset(self) -> bool:
        """Return to the start that `keep_start` kept; False if there is none."""
        plastic = self.grid is not None and self.grid.plasticity is not None
        if _follows.get() or self._waiting is not None or plastic or not self.start.restore():
            return False
        set_zero(self.failed, self.queue)
        self.has_advanced, self.host.has_advanced, self._next = False, False, -1
        self.events.early = self._early
        return True

    def _changing_arrays(self) -> list[cla.Array]:
        """Return all arrays on the device that a step changes, except `failed`."""
        grid = [] if self.grid is None else [self.grid.incoming]
        return [self.mem, self.clock, self.ints, *self.kernels.voltage_arrays(), *grid]

    def _start(self, model: Model, host: Reference) -> None:
        """Go to the start of a model, at which `host` is, with one copy."""
        self.model, self.host = model, host
        self.has_advanced = False
        self._next = -1  # step that the cursors of played values are at; -1: none
        self._changed = dict[tuple[int, str], np.ndarray]()  # parameters changed since the start
        self.events.early = self._early = chunk_of_all(host.end(), model)
        self.build(host.variables)

    def storage(self, k: int, name: str) -> list[Storage]:
        """Return where a parameter of kind `k` is stored; empty if it has no memory."""
        if self._waiting is not None:
            return []
        if (k, name) not in self._storages:
            self._storages[k, name] = self._storages_of(k, name)
        return self._storages[k, name]

    def _storages_of(self, k: int, name: str) -> list[Storage]:
        kind, singles = self.model.kinds[k], self.variables.singles[k]
        mechanism, names = kind.mechanism, [n for n, single in singles if single]
        if name in mechanism.program.begins or name in mechanism.compiled.table_uses:
            return []
        first, every = self.arenas["mem"].offset[f"parameters_{k}"], np.arange(kind.count)

        def places() -> tuple[np.ndarray, np.ndarray]:
            return at_parameter(self.variables, self.kernels.layout, k, name, every), every

        storage = Storage(self.mem, first, (k, name, *names), places)
        if name in names:
            storage = Storage(self.mem, first + names.index(name))
        return self.kernels.storage(k, name, [storage])

    def take_values(self, k: int, name: str, instances: np.ndarray, values: np.ndarray) -> None:
        """Note that instances of kind `k` have other values in a parameter's storage."""
        parameters = self.host.variables.parameters[k]
        parameters[name][instances] = values
        self._changed[k, name] = parameters[name]
        self.kernels.take(k, name, values)

    def set_constants(self, d: np.ndarray, b: np.ndarray, g: np.ndarray) -> bool:
        """Set `Model.constant_d`, `constant_b`, `constant_g` in place; return False on failure."""
        before, of_nodes = self.model, self.model.of_nodes
        of_nodes = of_nodes.changed(constant_d=d, constant_b=b, constant_g=g)
        self.model = model = replace(before, of_nodes=of_nodes)
        same = self._waiting is None and has_constants(model) == has_constants(before)
        if not same or not self.kernels.renew_constants():
            self.model = before
            return False
        for variables in (self.variables, self.host.variables):
            variables.model = variables.once = model
        self.host.model = model
        base, first = base_diagonal(model, self.kernels.layout), self.arenas["mem"].offset["base_d"]
        for array in (self.mem, self.start.copy_of(self.mem)):
            if array is not None:
                set_soon(array, first, base.astype(self.dtype), self.queue)
        return True

    def build(self, variables: Variables) -> None:
        self._next = -1
        self._waiting: Variables | None = variables
        if self.model.copies == 1 and not _follows.get():
            self.ready()

    def ready(self) -> None:
        """Build the kernels and put all variables on the device, unless they are there."""
        variables = self._waiting
        if variables is None:
            return
        if self.model.copies > 1 and variables.model is not self.model:
            variables = with_wires(variables, self.model, self.wires)
        self.variables, self._storages = variables, dict[tuple[int, str], list[Storage]]()
        copies = self.model.copies if variables.once is not self.model else 1
        self.failed.set(np.tile(variables.failed, copies).astype(np.int32), self.queue)
        if self.grid is not None:
            self.grid.load(variables.save())
        kernels, before, self._shape = self.kernels, self._shape, None
        self.arenas = tables = kernels.fill(variables)
        regions = {name: table.offset for name, table in tables.items()}
        shape = regions, variables.singles, variables.wanted, has_constants(variables.once)
        same = before == shape and kernels.suit(variables)
        self.mem, self.clock, self.ints = (
            tables[name].put(self.queue, getattr(self, name) if same else None)
            for name in ("mem", "clock", "ints")
        )
        self._error = tables["ints"].view("error")
        if not same:
            real, groups = real_name(self.dtype), kernels.layout.groups
            width = self.limits.vector_bytes if kernels.in_vectors else 0
            kernels.compile(*spec_of(variables, tables, real, width, groups))
            self._bound = False
            self.start.forget()
            self.rows.forget_room()
            vars(self).pop("_rank_events", None)  # it uses the arenas before
        self._shape, self._waiting = shape, None  # last: an interrupted call starts again

    def advance(self, first: int, count: int, row: int) -> None:
        self.has_advanced = True
        if row == 0:
            self.rows.first_step = first
        if not self._bound:
            self.kernels.bind()
            self._bound = True
        if first != self._next:
            self._begin_plays(first)
        self._next = first + count
        if self.grid is None:
            self.kernels.advance(first, count, row)
            return
        for begin, steps in self.grid.stretches(first, count):
            self.grid.add_events(begin, steps)
            self.kernels.advance(begin, steps, row + begin - first)

    def _begin_plays(self, step: int) -> None:
        """Put on the device how many played values precede a step."""
        ints = self.arenas["ints"]
        if "played_next" not in ints.offset:
            return
        until = Clock(self.model.dt).middle(step - 1) if step else -np.inf
        came = entries_come(self.model, self.kernels.layout, until)
        ints.view("played_next").set(came, self.queue)

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of all engines' kernels by name."""
        num, model = np.int32, self.model
        arguments: dict[str, Any] = {
            "seed": np.uint64(model.seed & (1 << 64) - 1),
            "dt": self.dtype.type(model.dt), "half_dt": self.instant.type(0.5 * model.dt),
            "step_begin": self.times.begin, "failed": self.failed,
            "mem": self.mem, "clock": self.clock, "ints": self.ints,
            "capacity": num(self.max_spikes), **self.events.arguments, **self.recorded_at,
        }  # fmt: skip
        if self.grid is None:
            return arguments
        grid = self.grid
        return arguments | {
            "slots": num(grid.slots), "num_targets": num(model.num_targets),
            "scale_of_events": self.dtype.type(grid.scale), "incoming": grid.incoming,
            "grid_count": grid.spikes.count, "grid_source": grid.spikes.source,
            "grid_step": grid.spikes.step,
        }  # fmt: skip

    # -- records -------------------------------------------------------------------------------

    def want(self, sources: Sequence[Record]) -> None:
        """Build other kernels if these do not compute all recorded outputs."""
        wanted = wanted_outputs(self.model, sources)
        if wanted != self.wanted:
            waiting, saved = self._waiting, None
            if self.has_advanced:
                saved = self.save() if waiting is None else waiting.save()
            self.host.want(sources)
            for (k, name), values in self._changed.items():
                self.host.variables.parameters[k][name] = values
            self.wanted = wanted
            self.build(self.host.variables if saved is None else self._with_state(saved))
        self.ready()

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        if self._waiting is not None:
            self.rows.forget_room()
        if self.grid is not None:
            self.grid.empty()
        if not self.kernels.in_steps:
            self.events.empty()
        few = self.max_steps if shares_memory(self.device) else min(self.max_steps, _FEW_STEPS)
        at_once = rows <= few and (self.grid is None or not self.grid.delivers)
        self.ending.begin(at_once and self.whole is None)
        self.rows.begin(rows, records, self._record)
        self.ready()

    def _record(self, rows: int, sources: Sequence[Record]) -> list[View]:
        """Make room for rows of samples, and return each source's view."""
        self.want(sources)
        layout, others = self.kernels.layout, [source for source in sources if source.kind != -1]
        owner = [owner_of(source, self.variables, layout) for source in others]
        owners = np.concatenate([np.zeros(0, np.int64), *owner])
        at = self._locations(sources)
        sampled = sum(len(source.index) for source in sources if source.kind == VOLTAGE)
        whole = 0 < self.kernels.whole_rows <= 2 * sampled and self.rows.only_membranes
        views, self.recorded_at = _recorded(self, rows, at, owners, whole)
        self._bound = False
        return views

    def _sampled(self, sources: Sequence[Record]) -> list[np.ndarray]:
        """Wait; return the present samples of each source, (1, r)."""
        self.want(sources)
        arrays = {"v": self.kernels.v[0], "mem": self.mem}
        locations = self._locations(sources)
        return [_values_at(arrays[name], at, self.queue) for name, at in locations]

    def now(self, records: Sequence[Record], step: int) -> list[np.ndarray]:
        reducers = self.rows.reducers
        reducers.begin(records)
        samples = self._sampled(reducers.sources)
        if not step and self.has_advanced:
            samples = without_outputs(self.model, reducers.sources, samples)
        return reducers.now(samples, step)

    def _locations(self, sources: Sequence[Record]) -> list[tuple[str, np.ndarray]]:
        """Return where the values of each source are: among voltages, or in ``mem``."""
        kernels = self.kernels
        place, layout = (lambda: kernels.place), kernels.layout
        return locations(sources, self.variables, self.arenas, place, layout)

    # -- events --------------------------------------------------------------------------------

    def deliver(self, first: int, count: int) -> None:
        """Deliver spikes in whole steps; at exact times targets fetch events themselves."""
        if self.grid is not None:
            self.grid.deliver(first, count)

    def mark(self) -> Mark:
        return self.ending.mark()

    def seconds(self, marks: Sequence[Mark]) -> list[float]:
        """Wait, also for arrays that `end` reads; return when the queue reached marks, s."""
        return self.ending.seconds(marks, (self.failed, *self._counts, *self.rows.arrays))

    def end(self) -> Chunk:
        if self.grid is not None:
            self.grid.check()
        failed = self.ending.values_of(self.failed)
        if np.count_nonzero(failed) and (failed < 0).any():  # the next chunk starts without them
            failed = failed.copy()
            self.failed.set(np.maximum(failed, 0), self.queue)
        return self._chunk(failed, self.rows.kept(self.ending.values_of))

    @property
    def _counts(self) -> list[cla.Array]:
        """Small arrays that `_chunk` reads through `ending`."""
        if self.kernels.in_steps and self.grid is not None:
            return [self.grid.spikes.count]
        return [self.events.count, self._error][: 2 if self.wires.num_targets else 1]

    def _chunk_in_steps(self, grid: Grid, failed: np.ndarray, values: list[np.ndarray]) -> Chunk:
        spikes, early = grid.spikes, self.events.early
        count = int(self.ending.values_of(spikes.count)[0])
        spikes.known_empty = not count
        if early is None and not count:
            return Chunk.of_none(failed, values)
        sources = self.early_sources()
        exchanged = self.decisions.split and count <= self.max_spikes
        if exchanged or (not count and not len(sources)):
            return Chunk.of_none(failed, values)
        listed, lists = min(count, self.max_spikes), [np.zeros(0, np.int32)] * 2
        if listed:
            lists = read_parts([(a, 0, listed) for a in (spikes.source, spikes.step)], self.queue)
        source, step = lists
        check_room(count, self.max_spikes, int(step.max(initial=0)))
        step, source = np.append(np.full(len(sources), -1), step), np.append(sources, source)
        return Chunk.of_steps(step, source, self.model.dt, failed, values)

    def _chunk(self, failed: np.ndarray, values: list[np.ndarray]) -> Chunk:
        """Wait; return a chunk with the events since `begin`."""
        if self.kernels.in_steps and self.grid is not None:
            return self._chunk_in_steps(self.grid, failed, values)
        if self.wires.num_targets:
            check_events(self.model, int(self.ending.values_of(self._error)[0]))
        if self.wires.tight:  # kernels check the rings at the next launch; this was the last
            names = "connection_source", "event_count", "cursor", "ring_size"
            parts = [(a, 0, a.size) for a in map(self.arenas["ints"].view, names)]
            source, sent, cursor, size = read_parts(parts, self.queue)
            check_rings(sent[source] - cursor, size[source])
        count = int(self.ending.values_of(self.events.count)[0])
        self.events.known_empty = not count
        if count == self.events.seen and self.events.early is None:  # all went to other ranks
            return Chunk.of_none(failed, values)
        source, t = self.events.to(min(count, self.max_spikes))
        if count > self.max_spikes:
            check_room(count, self.max_spikes, int(t.max() / self.model.dt))
        if self.instant == np.float64:
            return Chunk.of(t, source, self.model.dt, failed, values)
        step = steps_to(t, self.model.dt)
        return Chunk.of_steps(step, source, self.model.dt, failed, values)

    def reward(self, reward: float, step: int) -> None:
        if self.grid is not None:
            self.grid.reward(reward, step)

    # -- other ranks ---------------------------------------------------------------------------

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
            self._rank_events.take(source, time)

    @cached_property
    def _rank_events(self) -> RankEvents:
        return RankEvents(self)

    def take_voltages(self, v: np.ndarray) -> None:
        if len(v):
            now = self.kernels.v[0]
            values = v.astype(self.dtype)
            self._voltages_taken = set_soon(now, len(now) - len(v), values, self.queue)

    # -- the whole -----------------------------------------------------------------------------

    def voltages(self) -> np.ndarray:
        self.ready()
        place = self.kernels.place
        places = place[: len(place) - len(self.model.remote_v)]  # without other ranks' nodes
        return values_of(self.kernels.v[0], self.queue)[places]

    def weights(self) -> np.ndarray:
        """Return the present weights of connections on the grid, then at exact times, (w,)."""
        self.ready()
        on_grid = np.zeros(0) if self.grid is None else self.grid.weights()
        return np.append(on_grid, self.arenas["mem"].get("weight").astype(np.float64))

    def save(self) -> dict[str, np.ndarray]:
        """Return the arrays that `load` accepts, with the names of `Reference`."""
        waiting, here = self._waiting, self.grid is None and not len(self.model.remote_v)
        if waiting is not None and waiting.model is self.model and here:
            return waiting.save(self.dtype)
        self.ready()
        self.variables = whole(self.variables)
        arrays = read_back(self.variables, self.arenas, self.kernels.layout)
        if self.grid is not None:
            arrays |= self.grid.save()
        if len(self.model.remote_v):
            v, first = self.kernels.v[0], len(self.kernels.v[0]) - len(self.model.remote_v)
            arrays["remote_v"] = v[first:].get(self.queue)
        arrays |= {"v": self.voltages(), "failed": values_of(self.failed, self.queue)}
        self.kernels.complete(arrays)
        return arrays

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Continue from the arrays of `save`, or from such arrays of one copy."""
        self.has_advanced, self.events.early = True, None
        self.host.has_advanced = True
        self.build(self._with_state(saved))

    def _with_state(self, saved: dict[str, np.ndarray]) -> Variables:
        """Return variables with the values of a state, of one copy or all."""
        variables, copies = self.host.variables, self._alike
        if self.model.copies < copies.copies and len(saved["v"]) == copies.once.forest.num_nodes:
            saved = of_all(copies, saved)
        if len(saved["v"]) != len(variables.v):
            variables = whole(with_wires(variables, self.model, self.wires))
        variables.load(saved)
        return variables
