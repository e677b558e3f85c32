"""CellsRun: a run whose kernels keep whole cells for many steps.

Events come in whole steps alone, and states are arrays by kind: the kernels load those of their
cells when a launch begins, and store them when it ends. `Cells` are the kernels, of a GPU.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.simulator.engines.run import MOST_SPIKES, DeviceRun, Job
from clhines.simulator.events.grid_run import Grid
from clhines.simulator.events.spike_list import SpikeList
from clhines.simulator.kinds.spec import Sample
from clhines.simulator.mechanisms.emit.noise import normal
from clhines.simulator.model.model import Kind, Model
from clhines.simulator.records.records import Record, is_current
from clhines.simulator.records.reduced import View
from clhines.simulator.state.changes import Storage, from_start
from clhines.simulator.state.chunk import Chunk, check_room
from clhines.simulator.state.host_grid import HostGrid
from clhines.solver.device.arrays import values_of


class Cells(ABC):
    """The cells of a `CellsRun` on its device, and the kernels that advance them."""

    @abstractmethod
    def record(self, nodes: np.ndarray, rows: cla.Array) -> None:
        """Record the voltages of (r,) natural nodes from now on, a column of `rows` each."""

    @abstractmethod
    def sample(self, samples: Sequence[Sample], rows: cla.Array) -> None:
        """Record states at the end of a chunk's step k, and currents in it, in row k."""

    @abstractmethod
    def launch(self, first: int, count: int, row: int) -> None:
        """Enqueue steps whose events are in `Grid.incoming`; the first is recorded in `row`."""

    @abstractmethod
    def voltages(self) -> np.ndarray:
        """(n,) of the dtype, mV: in natural order, as they are now."""

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


class CellStates:
    """States and detectors of a model on a device.

    State s of instance i is at ``s * count + i`` of its entry in `of_kinds`. `detectors` are
    arguments of kernels, none where there are no others than the somas'. `early` are the sources
    that are above their thresholds at the start, until they are reported.
    """

    def __init__(self, model: Model, queue: cl.CommandQueue, dtype: np.dtype) -> None:
        self._model, self._queue, self._dtype = model, queue, dtype
        self.of_kinds = [
            cla.to_device(queue, self._packed(k, states))
            for k, states in enumerate(model.initial_states())
        ]
        sources, first = model.sources, len(model.soma)
        arrays = {
            "detector_held": (model.begins_above * model.detector_hold)[first:],
            "detector_hold": model.detector_hold[first:],
            "detector_threshold": sources.detector_threshold[first:].astype(dtype),
            "detector_source": sources.detector_source[first:].astype(np.int32),
        }
        self.detectors = {n: cla.to_device(queue, a) for n, a in arrays.items() if len(a)}
        self.early = np.zeros(0, np.int64)

    def _packed(self, k: int, states: dict[str, np.ndarray]) -> np.ndarray:
        names = self._model.kinds[k].mechanism.states
        if not names:
            return np.zeros(1, self._dtype)
        return np.concatenate([states[name] for name in names]).astype(self._dtype)

    def of(self, k: int) -> dict[str, np.ndarray]:
        kind = self._model.kinds[k]
        if not kind.mechanism.states:
            return {}
        rows = self.of_kinds[k].get(self._queue).reshape(len(kind.mechanism.states), kind.count)
        return dict(zip(kind.mechanism.states, rows, strict=True))

    def save(self, v: np.ndarray) -> dict[str, np.ndarray]:
        """Return those of the arrays of `Model.schema`, where voltages are `v`."""
        saved: dict[str, np.ndarray] = {}
        for k in range(len(self.of_kinds)):
            states = self.of(k)
            saved |= {f.key: states[f.name] for f in self._model.schema.of("state", k)}
        if self.detectors:
            saved["held"] = self._model.sources.above(v).astype(np.int32)
            first = len(self._model.soma)
            saved["held"][first:] = self.detectors["detector_held"].get(self._queue)
        return saved

    def load(self, saved: dict[str, np.ndarray]) -> None:
        self.early = self.early[:0]
        if self.detectors:
            held = saved["held"][len(self._model.soma) :].astype(np.int32)
            self.detectors["detector_held"].set(held, self._queue)
        for k, array in enumerate(self.of_kinds):
            named = self._model.schema.named(saved, "state", k)
            if named:
                array.set(self._packed(k, named), self._queue)


class CellsRun(DeviceRun):
    """Advance whole cells with `Cells`."""

    family = "epochs"
    grid: Grid

    def __init__(self, job: Job, cells: Callable[[CellsRun], Cells]) -> None:
        model, queue, chunk = job.model, job.queue, job.request.chunk
        spikes = len(model.sources.detector_node) * (chunk // 2 + 1)  # one in two steps of each
        super().__init__(job, model, max(1, min(spikes, MOST_SPIKES)))
        self.max_steps = self.decisions.epoch
        self.states = CellStates(model, queue, self.dtype)
        zeros = self.ending.reads.zeros
        found = SpikeList.on(queue, self.max_spikes, zeros("spikes", (1,), np.int32))
        self.grid = Grid(model, queue, self.decisions, found)
        self.failed = zeros("failed", (model.forest.num_cells,), np.int32)
        self._start_model = model
        self._tell_early(model)
        self.cells = cells(self)

    def restart(self, model: Model, in_place: bool = False) -> bool:
        if not in_place and model is not self.model:  # parameters may have no memory
            return False
        self.load(from_start(model, self.dtype))
        self._start_model = model
        self._tell_early(model)
        return True

    def reset(self) -> bool:
        could = super().reset()
        if could:
            self._tell_early(self._start_model)
        return could

    def changing_arrays(self) -> list[cla.Array]:
        states = self.states
        held = [states.detectors["detector_held"]] if states.detectors else []
        return [*states.of_kinds, *held, *self.cells.voltage_arrays(), self.grid.incoming]

    def set_constants(self, d: np.ndarray, b: np.ndarray, g: np.ndarray) -> bool:
        return self.cells.set_constants(d, b, g)

    def _tell_early(self, model: Model) -> None:
        """Let sources that are above their thresholds at the start of a model send."""
        self.states.early = model.sources.detector_source[model.begins_above]
        if len(self.states.early) and not self.decisions.split:
            grid = HostGrid(model, self.decisions)
            grid.send(-1, self.states.early)
            self.grid.load(grid.save())

    def storage(self, k: int, name: str) -> list[Storage]:
        return self.cells.storage(k, name)

    def record(self, rows: int, sources: Sequence[Record]) -> list[View]:
        width = [sum(len(r.index) for r in sources if (r.kind < 0) == of_v) for of_v in (1, 0)]
        voltages, sampled = (
            self.ending.reads.zeros(name, (max(rows, 1), max(w, 1)), self.dtype)
            for name, w in zip(("voltages", "sampled"), width, strict=True)
        )
        views, samples, column = list[View](), list[Sample](), {True: 0, False: 0}
        for r in sources:
            of_v = r.kind < 0
            views.append(View(voltages if of_v else sampled, column[of_v]))
            if not of_v:
                states = self.model.kinds[r.kind].mechanism.states
                what = len(states) if is_current(r, self.model) else states.index(r.name)
                samples.append(Sample(r.kind, what, r.index, column[of_v]))
            column[of_v] += len(r.index)
        self.cells.sample(samples, sampled)
        nodes = [source.index for source in sources if source.kind < 0]
        self.cells.record(np.concatenate([np.zeros(0, np.int64), *nodes]), voltages)
        return views

    def advance(self, first: int, count: int, row: int) -> None:
        if row == 0:
            self.first_step = first
        self.grid.add_events(first, count)
        self.cells.launch(first, count, row)

    @property
    def counts(self) -> list[cla.Array]:
        return [self.grid.spikes.count]

    def found(self, failed: np.ndarray, values: list[np.ndarray]) -> Chunk:
        spikes = self.grid.spikes
        count = int(self.ending.values_of(spikes.count)[0])
        spikes.known_empty = not count
        sends = self.decisions.split and count <= self.max_spikes  # by exchanges with other ranks
        if sends or (not count and not len(self.states.early)):
            return Chunk.of_none(failed, values)
        kept = min(count, self.max_spikes)
        step, cell = (
            a[:kept].get(self.queue) if kept else np.zeros(0, np.int32)
            for a in (spikes.step, spikes.source)
        )
        check_room(count, self.max_spikes, int(step.max(initial=0)))
        early = self.early_sources()
        step, cell = np.append(np.full(len(early), -1), step), np.append(early, cell)
        return Chunk.of_steps(step, cell, self.model.dt, failed, values)

    def sampled(self, sources: Sequence[Record]) -> list[np.ndarray]:
        model, samples = self.model, list[np.ndarray]()
        v = self.voltages() if any(r.kind < 0 or is_current(r, model) for r in sources) else None
        for r in sources:
            if r.kind < 0:
                assert v is not None
                samples.append(v[r.index][None])
                continue
            kind, states = model.kinds[r.kind], self.states.of(r.kind)
            if is_current(r, model):
                assert v is not None
                states[r.name] = current_now(model, kind, v, states)
            samples.append(states[r.name][r.index][None])
        return samples

    def early_sources(self) -> np.ndarray:
        early, self.states.early = self.states.early, self.states.early[:0]
        return early

    def voltages(self) -> np.ndarray:
        return self.cells.voltages()

    def save(self) -> dict[str, np.ndarray]:
        v, failed = self.voltages(), values_of(self.failed, self.queue)
        return {"v": v, **self.grid.save(), "failed": failed, **self.states.save(v)}

    def load(self, saved: dict[str, np.ndarray]) -> None:
        self.cells.set_voltages(saved["v"])
        self.states.load(saved)
        self.grid.load(saved)
        self.failed.set(saved["failed"].astype(np.int32), self.queue)


def current_now(
    model: Model, kind: Kind, v: np.ndarray, states: dict[str, np.ndarray]
) -> np.ndarray:
    """(count,) float64: currents of a kind at t = 0, before the first event."""
    noise = None
    if kind.mechanism.uses_noise:
        noise = normal(model.seed, kind.first_instance + np.arange(kind.count), 0)
    args = v[kind.node], 0.0, kind.arrays(), states, noise, model.dt
    current: np.ndarray = kind.mechanism.current(*args)[0]
    return current
