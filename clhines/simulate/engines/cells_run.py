"""CellsRun: a run whose kernels keep whole cells for many steps; base of its engines.

Events come in whole steps alone, and states are arrays by kind: the kernels load those of their
cells when a launch begins, and store them when it ends.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device.arrays import within_reach
from clhines.mechanisms.emit.noise import normal
from clhines.model.model import Kind, Model
from clhines.simulate.engines.device_run import DeviceRun, room_for_spikes
from clhines.simulate.engines.run import Job
from clhines.simulate.events.grid_run import Grid
from clhines.simulate.events.host_grid import HostGrid
from clhines.simulate.ranks.exchange import SpikeList
from clhines.simulate.records.records import Record, is_current
from clhines.simulate.records.reduced import View
from clhines.simulate.records.sampling import Sample
from clhines.simulate.state.chunk import Chunk, check_room
from clhines.simulate.state.decisions import Decisions
from clhines.simulate.state.spread import Storage

_Own = TypeVar("_Own", bound="CellsRun")


class CellsRun(DeviceRun):
    """Advance whole cells; see `engines.run.Run`.

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
        Of the whole network, where `model` is a rank's share of it.

    Attributes
    ----------
    states : list of (num_states * count,) real, one per kind
        State s of instance i at ``s * count + i``.
    spikes : SpikeList
        Of the chunk.
    detectors : list of arrays, empty where there are none besides the somas
        Of each whether v is above its threshold, (e,) int32; threshold, (e,) real, mV; and source,
        (e,) int32.
    record_v : (rows, r) real
        Recorded voltages, one record after another.
    """

    family, in_place = "epochs", True
    grid: Grid

    def __init__(
        self,
        model: Model,
        queue: cl.CommandQueue,
        dtype: np.dtype,
        chunk: int = 1024,
        max_spikes: int | None = None,
        decisions: Decisions | None = None,
    ) -> None:
        super().__init__(
            model, queue, dtype, max_spikes or room_for_spikes(model, chunk), decisions
        )
        self.max_steps = self.decisions.epoch
        self.states = [
            cla.to_device(queue, self._packed_states(k, states))
            for k, states in enumerate(model.initial_states())
        ]
        self.spikes = SpikeList.on(queue, self.max_spikes)
        self.grid = Grid(model, queue, self.decisions, self.spikes)
        self.failed = within_reach(queue, (model.forest.num_cells,), np.dtype(np.int32))
        self._put_detectors()
        self._make_room(0, [])
        self._begin_at_start()

    @classmethod
    def of(cls: type[_Own], job: Job, **options: Any) -> _Own:
        """Return the run of a job; see `Job`."""
        request = job.request
        given = request.chunk, request.max_spikes, job.decisions
        return cls(job.model, job.queue, job.dtype, *given, **options)

    # -- what engines say ----------------------------------------------------------------------

    @abstractmethod
    def set_records(self, nodes: np.ndarray) -> None:
        """Record the voltages of (r,) natural nodes from now on, a column of `record_v` each."""

    @abstractmethod
    def set_samples(self, samples: Sequence[Sample], sampled: cla.Array) -> None:
        """Record states and currents from now on.

        Parameters
        ----------
        samples : sequence of Sample
        sampled : (rows, columns) real
            Row k of a chunk gets states at the end of its step k, and currents in it.
        """

    @abstractmethod
    def launch(self, first: int, count: int, row: int) -> None:
        """Enqueue steps whose events are in `Grid.incoming`; the first is recorded in `row`."""

    @abstractmethod
    def set_voltages(self, v: np.ndarray) -> None:
        """Go on from other voltages, (n,) real, mV, in natural order."""

    @abstractmethod
    def storage(self, k: int, name: str) -> list[Storage]:
        """Where the values of a parameter of kind `k` are; empty where it has no memory."""

    @abstractmethod
    def set_constants(self, d: np.ndarray, b: np.ndarray, g: np.ndarray) -> bool:
        """Take other `Model.constant_d`, `constant_b` and `constant_g`, (n,); whether it can."""

    @abstractmethod
    def voltage_arrays(self) -> list[cla.Array]:
        """Arrays on the device that `set_voltages` sets."""

    # -- the start -----------------------------------------------------------------------------

    def _packed_states(self, k: int, states: dict[str, np.ndarray]) -> np.ndarray:
        kind = self.model.kinds[k]
        if not kind.mechanism.states:
            return np.zeros(1, self.dtype)
        return np.concatenate([states[name] for name in kind.mechanism.states]).astype(self.dtype)

    def _put_detectors(self) -> None:
        """Put the detectors besides those of the somas on the device."""
        first, sources, put = len(self.model.soma), self.model.sources, cla.to_device
        arrays = (
            self._above(self.model.v_init)[first:].astype(np.int32),
            sources.detector_threshold[first:].astype(self.dtype),
            sources.detector_source[first:].astype(np.int32),
        )
        self.detectors = [put(self.queue, a) for a in arrays if len(a)]

    def _above(self, v: np.ndarray) -> np.ndarray:
        sources = self.model.sources
        above: np.ndarray = v[sources.detector_node] > sources.detector_threshold
        return above

    def _begin_at_start(self) -> None:
        """Send events of detectors that are above their thresholds at the start."""
        self.early = self.model.sources.detector_source[self._above(self.model.v_init)]
        if len(self.early) and not self.decisions.split:
            grid = HostGrid(self.model, self.decisions)
            grid.send(-1, self.early)
            self.grid.load(grid.save())

    # -- a chunk -------------------------------------------------------------------------------

    def record(self, rows: int, sources: Sequence[Record]) -> list[View]:
        """Make room for rows of samples, and return where those of each of `sources` are."""
        views, samples, sampled = self._make_room(rows, sources)
        self.set_samples(samples, sampled)
        nodes = [source.index for source in sources if source.kind < 0]
        self.set_records(np.concatenate([np.zeros(0, np.int64), *nodes]))
        return views

    def _make_room(
        self, rows: int, sources: Sequence[Record]
    ) -> tuple[list[View], list[Sample], cla.Array]:
        width = [sum(len(r.index) for r in sources if (r.kind < 0) == of_v) for of_v in (1, 0)]
        self.record_v, sampled = (
            within_reach(self.queue, (max(rows, 1), max(w, 1)), self.dtype) for w in width
        )
        views, samples, column = list[View](), list[Sample](), {True: 0, False: 0}
        for r in sources:
            of_v = r.kind < 0
            views.append(View(self.record_v if of_v else sampled, column[of_v]))
            if not of_v:
                states = self.model.kinds[r.kind].mechanism.states
                what = len(states) if is_current(r, self.model) else states.index(r.name)
                samples.append(Sample(r.kind, what, r.index, column[of_v]))
            column[of_v] += len(r.index)
        return views, samples, sampled

    def advance(self, first: int, count: int, row: int) -> None:
        """Enqueue `count` steps from step `first`; the first is recorded in `row`."""
        if row == 0:
            self.first_step = first
        self.grid.add_events(first, count)
        self.launch(first, count, row)

    @property
    def counts(self) -> list[cla.Array]:
        """Small arrays that `found` reads by `reads`."""
        return [self.spikes.count]

    def found(self, failed: np.ndarray, values: list[np.ndarray]) -> Chunk:
        """Wait, and return a chunk of the spikes since `begin`."""
        count = int(self.reads.get(self.spikes.count)[0])
        if not count and not len(self.early):
            return Chunk.of_none(failed, values)
        kept = min(count, self.max_spikes)
        step, cell = (
            a[:kept].get(self.queue) if kept else np.zeros(0, np.int32)
            for a in (self.spikes.step, self.spikes.source)
        )
        check_room(count, self.max_spikes, int(step.max(initial=0)))
        early, self.early = self.early, self.early[:0]
        step, cell = np.append(np.full(len(early), -1), step), np.append(early, cell)
        return Chunk.of_steps(step, cell, self.model.dt, failed, values)

    def sampled(self, sources: Sequence[Record]) -> list[np.ndarray]:
        """Wait, and return the samples of each of `sources` as they are, (1, r)."""
        model, found = self.model, list[np.ndarray]()
        v = self.voltages() if any(r.kind < 0 or is_current(r, model) for r in sources) else None
        for r in sources:
            if r.kind < 0:
                assert v is not None
                found.append(v[r.index][None])
                continue
            kind, states = model.kinds[r.kind], self._states_of(r.kind)
            if is_current(r, model):
                assert v is not None
                states[r.name] = current_now(model, kind, v, states)
            found.append(states[r.name][r.index][None])
        return found

    def _states_of(self, k: int) -> dict[str, np.ndarray]:
        """Wait, and return the states of a kind, (count,) each."""
        names, count = self.model.kinds[k].mechanism.states, self.model.kinds[k].count
        if not names:
            return {}
        rows = self.states[k].get(self.queue).reshape(len(names), count)
        return dict(zip(names, rows, strict=True))

    def early_sources(self) -> np.ndarray:
        """Return sources that are above their thresholds at the start; once."""
        early, self.early = self.early, self.early[:0]
        return early

    # -- the whole -----------------------------------------------------------------------------

    def save(self) -> dict[str, np.ndarray]:
        """Return the arrays of `Model.schema`."""
        v = self.voltages()
        saved = {"v": v, **self.grid.save(), "failed": self.failed.get(self.queue)}
        for k in range(len(self.model.kinds)):
            states = self._states_of(k)
            saved |= {f.key: states[f.name] for f in self.model.schema.of("state", k)}
        if self.detectors:
            saved["above"] = self._above(v)
            first = len(self.model.soma)
            saved["above"][first:] = self.detectors[0].get(self.queue) > 0
        return saved

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from what `save` gave."""
        self.early = self.early[:0]
        self.set_voltages(saved["v"])
        if self.detectors:
            above = saved["above"][len(self.model.soma) :].astype(np.int32)
            self.detectors[0].set(above, self.queue)
        self.grid.load(saved)
        self.failed.set(saved["failed"].astype(np.int32), self.queue)
        for k in range(len(self.model.kinds)):
            named = self.model.schema.named(saved, "state", k)
            if named:
                self.states[k].set(self._packed_states(k, named), self.queue)


def current_now(
    model: Model, kind: Kind, v: np.ndarray, states: dict[str, np.ndarray]
) -> np.ndarray:
    """(count,) float64: currents of a kind at t = 0, before the first event."""
    noise = None
    if kind.mechanism.uses_noise:
        noise = normal(model.seed, kind.first_instance + np.arange(kind.count), 0)
    args = v[kind.node], 0.0, kind.arrays(), states, noise, model.dt
    found: np.ndarray = kind.mechanism.current(*args)[0]
    return found
