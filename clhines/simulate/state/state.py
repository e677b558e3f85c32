"""State of a network in time: shared arrays of executors, records, spikes found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device import devices, program
from clhines.errors import SpikeOverflowError
from clhines.model.model import Model
from clhines.plan.kernel_spec import TemplateSpec
from clhines.plan.plan import real_name
from clhines.simulate.events.grid_run import Grid
from clhines.simulate.ranks.exchange import SpikeList
from clhines.simulate.records.currents import Currents
from clhines.simulate.records.records import Record, is_current
from clhines.simulate.records.reduced import DeviceReducer, Reducers, View
from clhines.simulate.records.sampling import Sample
from clhines.simulate.state.decisions import Decisions

_MAX_SPIKES = 1 << 24  # entries of the list of spikes of a chunk at most


@dataclass(frozen=True)
class RecordSpec(TemplateSpec):
    """``record.mako``; `real` is ``double`` or ``float``."""

    template: ClassVar[str] = "simulate/record"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "record": (
            "int row, int width, const int *restrict index, const real *restrict source",
            "real *restrict values",
        ),
    }
    real: str


@dataclass(frozen=True, eq=False)
class Chunk:
    """Results of a chunk of steps.

    Attributes
    ----------
    spike_step, spike_cell : (k,) int64
        By step, then cell.
    failed : (num_cells,) integer
        1 + the step after which the soma's voltage was first not finite, 0 where it never was.
    values : list of arrays
        One per record, see `DeviceReducer.chunk`.
    """

    spike_step: np.ndarray
    spike_cell: np.ndarray
    failed: np.ndarray
    values: list[np.ndarray]


@dataclass(frozen=True, eq=False)
class TimedChunk(Chunk):
    """A chunk of a network with exact times: events of all sources, at any time.

    Attributes
    ----------
    spike_time : (k,) float64, ms
        By time, then source; `spike_step` is the step that each is in.
    """

    spike_time: np.ndarray

    @classmethod
    def of(
        cls,
        t: np.ndarray,
        source: np.ndarray,
        dt: float,
        failed: np.ndarray,
        values: list[np.ndarray],
    ) -> TimedChunk:
        """Return a chunk of events in any order."""
        order = np.lexsort((source, t))
        t, source = t[order], source[order].astype(np.int64)
        step = np.maximum(np.ceil(t / dt - 0.5).astype(np.int64) - 1, 0)
        return cls(step, source, failed, values, t)


def by_time(step: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort spikes by step, then cell, both below 2**31: as one number, ten times faster."""
    key = (step.astype(np.int64) << 32) | cell
    key.sort()
    return key >> 32, key & 0xFFFFFFFF


class State:
    """Arrays on a device that executors share.

    Parameters
    ----------
    model : Model
    queue : pyopencl.CommandQueue
    dtype : float64 or float32
    chunk : int
        Steps of a chunk at most.
    max_spikes : int, optional
        Spikes that one chunk may have; default: as many as there can be, at most 2**24.
    decisions : Decisions, optional
        Of the whole network, where `model` is a part of it; default: of `model`.

    Attributes
    ----------
    decisions : Decisions
    connections : Connections
    slots : int
        Of the ring: events due at step s are in row ``s % slots`` of `incoming`.
    epoch : int
        Steps whose events are known before the first of them.
    incoming_scale : float
        A weight is an entry of `incoming` times this power of two.
    incoming : (slots * num_targets,) int64
    states : list of (num_states * count,) real, one per kind
        State s of instance i at ``s * count + i``.
    spike_source, spike_step : (max_spikes,) int32
        Appended by `atomic_inc` of `spike_count`, in any order, up to its capacity.
    spike_count : (1,) int32
        Spikes of the chunk so far, those beyond the capacity too.
    failed : (num_cells,) int32
        See `Chunk`.
    detectors : list of arrays, empty where there are none besides the somas
        Of each whether v is above its threshold, (e,) int32; threshold, (e,) real, mV; and source,
        (e,) int32.
    reducers : Reducers
        Of what is recorded.
    first_step : int
        Of the chunk.
    record_node : (r,) int32
        Natural nodes of all recorded voltages, one record after another.
    record_v : (rows, r) real
    sampling : bool
        The executor records states and currents itself: there are `samples` instead of the next
        two.
    samples : list of Sample
    sampled : (rows, r) real
    record_states : list of (int, (r,) int32, (rows, r) real)
        Kind, indices into its states, values.
    record_currents : list of (Currents, int, (rows, r) real)
        Column of the voltages that they need, values.
    """

    def __init__(
        self,
        model: Model,
        queue: cl.CommandQueue,
        dtype: np.dtype,
        chunk: int,
        max_spikes: int | None = None,
        decisions: Decisions | None = None,
    ) -> None:
        decisions = decisions or Decisions.of(model)
        self.decisions = decisions
        self.model, self.queue, self.dtype = model, queue, np.dtype(dtype)
        self.connections = model.connections
        self.slots, self.incoming_scale = decisions.slots, decisions.scale
        self.epoch, cells = decisions.epoch, model.forest.num_cells
        detectors = len(model.sources.detector_node)
        most = min(detectors * (chunk // 2 + 1), _MAX_SPIKES) if max_spikes is None else max_spikes
        self.max_spikes = max(most, 1)
        self.states = [
            cla.to_device(queue, self._packed_states(k, states))
            for k, states in enumerate(model.initial_states())
        ]
        spikes = SpikeList.on(queue, self.max_spikes)
        self.spike_source, self.spike_step, self.spike_count = (
            spikes.source, spikes.step, spikes.count,
        )  # fmt: skip
        self._put_detectors()
        self.grid = Grid(model, queue, decisions, spikes)
        self.incoming = self.grid.incoming
        self.failed = cla.zeros(queue, cells, np.int32)
        built = program.build(queue.context, RecordSpec(real_name(self.dtype)))
        self._record = program.typed_kernel(built, "record", "ii")
        self.first_step, self.sampling = 0, False
        self.take_parameters(model)
        self.begin(0, [])

    def _put_detectors(self) -> None:
        """Put the detectors besides those of the somas on the device."""
        first, sources, put = len(self.model.soma), self.model.sources, cla.to_device
        threshold = sources.detector_threshold[first:]
        above = self.model.v_init[sources.detector_node[first:]] > threshold
        arrays = (
            above.astype(np.int32),
            threshold.astype(self.dtype),
            sources.detector_source[first:].astype(np.int32),
        )
        self.detectors = [put(self.queue, a) for a in arrays if len(a)]

    def take_parameters(self, model: Model) -> None:
        """Take the model with other parameters, of which records are made from now on."""
        queue, dtype = self.queue, self.dtype
        self.model, self.rows, self.records = model, -1, list[Record]()
        self.reducers = Reducers(lambda r: DeviceReducer(r, model, queue, dtype))

    def _packed_states(self, k: int, states: dict[str, np.ndarray]) -> np.ndarray:
        kind = self.model.kinds[k]
        if not kind.mechanism.states:
            return np.zeros(1, self.dtype)
        return np.concatenate([states[name] for name in kind.mechanism.states]).astype(self.dtype)

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        """Allocate the records of a chunk of `rows` steps.

        The list of spikes is emptied by `Delivery.reset`, which tracks the position in it.
        """
        if rows == self.rows and len(records) == len(self.records):
            if all(a is b for a, b in zip(records, self.records, strict=True)):
                return
        self.rows, self.records = rows, list(records)
        self.reducers.begin(records)
        index = [r.index for r in self.reducers.sources if r.kind < 0]
        nodes = np.concatenate([np.zeros(0, np.int64), *index])
        self.record_node = self._indices(nodes)
        self.record_v = self._zeros(rows, len(nodes))
        self.record_states = list[tuple[int, cla.Array, cla.Array]]()
        self.record_currents = list[tuple[Currents, int, cla.Array]]()
        self.samples = list[Sample]()
        taken = [r for r in self.reducers.sources if r.kind >= 0]
        width = sum(len(r.index) for r in taken) if self.sampling else 0
        self.sampled, self.before_v = self._zeros(rows, width), self._zeros(1, len(nodes))
        self._views, column, sample = list[View](), 0, 0
        for r in self.reducers.sources:
            if r.kind < 0:
                self._views.append(View(self.record_v, column))
                column += len(r.index)
            elif self.sampling:
                self._views.append(View(self.sampled, sample))
                self.samples.append(Sample(r.kind, self._what(r), r.index, sample))
                sample += len(r.index)
            else:
                self._views.append(View(self._begin_launches(rows, r, column)))

    def _what(self, r: Record) -> int:
        """Return the number of a state, or how many there are for the current."""
        states = self.model.kinds[r.kind].mechanism.states
        return len(states) if is_current(r, self.model) else states.index(r.name)

    def _begin_launches(self, rows: int, r: Record, column: int) -> cla.Array:
        """Allocate rows that a launch per step fills; a current's voltages begin at `column`."""
        values = self._zeros(rows, len(r.index))
        if is_current(r, self.model):
            given = self.model, r.kind, r.index, self.states[r.kind], self.incoming_scale
            self.record_currents.append((Currents(self.queue, *given), column, values))
        else:
            self.record_states.append((r.kind, self._indices(self._indices_of(r)), values))
        return values

    def _indices_of(self, record: Record) -> np.ndarray:
        """Return the indices of the values of a record in the states of its kind."""
        kind = self.model.kinds[record.kind]
        return kind.mechanism.states.index(record.name) * kind.count + record.index

    def begin_currents(self, v: np.ndarray) -> None:
        """Take the voltages before the first step of a chunk, (n,) mV in natural order."""
        nodes = self.record_node.get(self.queue)[: self.num_recorded_nodes]
        if len(nodes):
            self.before_v.set(v[nodes][None].astype(self.dtype), self.queue)

    def enqueue_currents(self, step: int, row: int) -> None:
        """Enqueue that a row of all records of currents is written, before its step."""
        events = step % self.slots * self.model.num_targets
        v, at = (self.record_v, row - 1) if row else (self.before_v, 0)
        for currents, column, values in self.record_currents:
            currents.enqueue(step, row, (v, at, column), self.incoming, events, values)

    def enqueue_states(self, row: int) -> None:
        """Enqueue that a row of all records of states is written."""
        for kind, index, values in self.record_states:
            self.enqueue_record(row, index, self.states[kind], values)

    def enqueue_record(
        self, row: int, index: cla.Array, source: cla.Array, values: cla.Array
    ) -> None:
        """Enqueue that a row of (rows, r) `values` is written: ``source[index]``."""
        width = index.size
        self._record(
            self.queue,
            *devices.small_groups(self.queue.device, width),
            np.int32(row),
            np.int32(width),
            index.data,
            source.data,
            values.data,
        )

    def _indices(self, index: np.ndarray) -> cla.Array:
        return cla.to_device(
            self.queue, index.astype(np.int32) if len(index) else np.zeros(1, "i4")
        )

    def _zeros(self, rows: int, width: int) -> cla.Array:
        """(rows, width) values, one at least."""
        return cla.zeros(self.queue, (max(rows, 1), max(width, 1)), self.dtype)

    @property
    def num_recorded_nodes(self) -> int:
        """Number of nodes whose voltages are recorded."""
        return sum(len(r.index) for r in self.reducers.sources if r.kind < 0)

    def end(self) -> Chunk:
        """Wait, and return the spikes, failures and records since `begin`.

        Raises
        ------
        SpikeOverflowError
            More spikes than `max_spikes`.
        """
        count = int(self.spike_count.get(self.queue)[0])
        kept = min(count, self.max_spikes)
        step = self.spike_step[:kept].get(self.queue) if kept else np.zeros(0, np.int32)
        cell = self.spike_source[:kept].get(self.queue) if kept else np.zeros(0, np.int32)
        if count > self.max_spikes:
            last = int(step.max())
            raise SpikeOverflowError(
                f"step {last}: {count} spikes in the chunk that ends after it or later, room for "
                f"{self.max_spikes}; expected a larger max_spikes",
                last,
            )
        step, cell = by_time(step, cell)
        return Chunk(
            spike_step=step,
            spike_cell=cell,
            failed=self.failed.get(self.queue),
            values=self._recorded(),
        )

    def _recorded(self) -> list[np.ndarray]:
        of_nodes = [r for r in self.reducers.each if r.record.kind < 0]
        whole = all(r.plain for r in of_nodes)  # read at once: each read waits for the device
        host: dict[int, np.ndarray] = {}

        def rows_of(view: View, width: int) -> np.ndarray:
            key = id(view.array)
            if key not in host:
                host[key] = view.array.get(self.queue)
            return host[key][: self.rows, view.column : view.column + width]

        found, views = [], iter(self._views)
        for reducer in self.reducers.each:
            own = [next(views) for _ in reducer.sources]
            width = len(reducer.sources[0].index)
            if reducer.plain and (whole or reducer.record.kind >= 0):
                found.append(rows_of(own[0], width))
                continue
            more = own[1:] if reducer.record.formula is not None else []
            outputs = [rows_of(view, width) for view in more]
            found.append(reducer.chunk(own[0], self.rows, self.first_step, outputs))
        return found

    def save(self) -> dict[str, np.ndarray]:
        """Arrays that `load` takes; those of `ReferenceRun` have the same names."""
        saved = {**self.grid.save(), "failed": self.failed.get(self.queue)}
        for k, (kind, states) in enumerate(zip(self.model.kinds, self.states, strict=True)):
            own = self.model.schema.of("state", k)
            if own:
                rows = states.get(self.queue).reshape(len(own), kind.count)
                saved |= {f.key: row for f, row in zip(own, rows, strict=True)}
        return saved

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Continue from the arrays of `save`."""
        self.grid.load(saved)
        self.failed.set(saved["failed"].astype(np.int32), self.queue)
        for k in range(len(self.model.kinds)):
            named = self.model.schema.named(saved, "state", k)
            if named:
                self.states[k].set(self._packed_states(k, named), self.queue)
