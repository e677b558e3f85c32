"""Runs: the protocols `Executor` and `Run`, the job of making one, and the run on a device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device import trust
from clhines.errors import DeviceMemoryError, InputError
from clhines.model.model import Model
from clhines.simulate.ranks.exchange import Spikes
from clhines.simulate.records.currents import current_now
from clhines.simulate.records.records import Record, is_current
from clhines.simulate.records.sampling import Sampling
from clhines.simulate.state.decisions import Decisions
from clhines.simulate.state.spread import Storage
from clhines.simulate.state.state import Chunk, State

_NO_MEMORY = (
    cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
    cl.status_code.OUT_OF_HOST_MEMORY,
    cl.status_code.INVALID_BUFFER_SIZE,
)


Mark: TypeAlias = "cl.Event | float"  # a position in a queue, or a moment of the host's clock


@runtime_checkable
class Executor(Protocol):
    """Advances the cells of a model on a device; it owns their voltages.

    Everything else is in the `State` given to it: states of mechanisms, sums of incoming
    events, found spikes, recorded voltages. Only `voltages` waits for the device.

    Attributes
    ----------
    max_steps : int
        Steps of one `advance` at most: those whose events are known before the first of them.
    """

    max_steps: int

    def set_records(self, nodes: np.ndarray) -> None:
        """Record voltages from now on.

        Parameters
        ----------
        nodes : (r,) int64
            Natural nodes; column k of `State.record_v` is the voltage of ``nodes[k]``.
        """

    def advance(self, first: int, count: int, row: int) -> None:
        """Enqueue steps.

        Parameters
        ----------
        first, count : int
            Steps `first` to ``first + count - 1``. Their events are in `State.incoming`.
        row : int
            Of `State.record_v`, (rows, r) real in mV: it gets the voltages at the end of step
            `first`, the next row those of the next step.
        """

    def voltages(self) -> np.ndarray:
        """(n,) of the dtype of the `State`, mV, in natural order: as they are now."""

    def set_voltages(self, v: np.ndarray) -> None:
        """Go on from other voltages, (n,) real, mV, in natural order."""


@runtime_checkable
class Changeable(Protocol):
    """An executor whose numbers can be changed on the device, without another plan."""

    def storage(self, k: int, name: str) -> list[Storage]:
        """Where the values of a parameter of kind `k` are; empty where it has no memory."""

    def set_constants(self, d: np.ndarray, b: np.ndarray) -> bool:
        """Take other `Model.constant_d` and `constant_b`, (n,) float64; whether it can."""

    def voltage_arrays(self) -> list[cla.Array]:
        """Arrays on the device that `set_voltages` sets."""


@dataclass(frozen=True)
class Request:
    """How a network is to be advanced; see `Simulation`.

    Attributes
    ----------
    what : object
        Named by messages about memory.
    queue : pyopencl.CommandQueue or None
        None for ``reference``.
    dtype : numpy.dtype
    engine : str or callable
    chunk : int
    max_spikes : int or None
    method : str
    options : dict of str to object
        Of the `Solver`.
    """

    what: object
    queue: cl.CommandQueue | None
    dtype: np.dtype
    engine: str | MakeRun
    chunk: int
    max_spikes: int | None
    method: str
    options: dict[str, object]


class Run(Protocol):
    """A model in time: what a `Simulation` calls, on a device, on the host or on several ranks.

    In a chunk, `begin` comes first, then `advance` and `deliver` in turn, then `end`.

    Attributes
    ----------
    max_steps : int
        Steps of one `advance` at most.
    """

    max_steps: int

    @property
    def device(self) -> cl.Device | None:
        """The device of this process; None: the host, with NumPy."""

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        """Begin a chunk of `rows` steps, after each of which `records` are recorded."""

    def advance(self, first: int, count: int, row: int) -> None:
        """Take steps `first` to ``first + count - 1``; the first is recorded in `row`."""

    def deliver(self, first: int, count: int) -> None:
        """Deliver the spikes of steps `first` to ``first + count - 1``, just taken."""

    def mark(self) -> Mark:
        """Return a mark of this position in the queue, for `seconds`."""

    def seconds(self, marks: Sequence[Mark]) -> list[float]:
        """Wait, and return when each mark of `mark` was reached, s; only differences count."""

    def end(self) -> Chunk:
        """Wait, and return the spikes, failures and records since `begin`."""

    def now(self, records: Sequence[Record], step: int) -> list[np.ndarray]:
        """Values of records at the begin of a step, (1, r) real each, whatever is kept of them.

        Crossings of thresholds are found from these on.
        """

    def voltages(self) -> np.ndarray:
        """(n,) real, mV, in natural order: as they are now."""

    def weights(self) -> np.ndarray:
        """(m,) float64: of all connections as they are now, in the order given."""

    def save(self) -> dict[str, np.ndarray]:
        """Return all that is needed to go on.

        Returns
        -------
        dict of name -> array
            Those of `Model.schema`.
        """

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from what `save` returned, of whichever run of the same network."""


class PartRun(Run, Protocol):
    """A run of a part of a network, whose spikes are exchanged with the other parts."""

    def note_spikes(self) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
        """Note which spikes have been found once all that was enqueued is done.

        Returns
        -------
        callable
            Waits for that, and returns (k,) cells of the part and (k,) steps of the spikes noted
            there and not before.
        """

    def send(self, source: np.ndarray, step: np.ndarray, first: int, count: int) -> None:
        """Deliver spikes of the whole network to the targets of the part.

        Parameters
        ----------
        source, step : (k,) integer
            Cells, numbered in the whole network, and steps of their spikes.
        first, count : int
            All are of steps `first` to ``first + count - 1``.
        """


MakeRun: TypeAlias = Callable[..., Executor | Run]  # an engine of one's own, see `Job.of_user`


@dataclass(eq=False)
class Job:
    """A model to be advanced, and how; everything that an engine is made of.

    Attributes
    ----------
    model : Model
        Of the whole network, or of a rank's share of it.
    request : Request
    decisions : Decisions or None
        Of the whole network, of which `model` may be a rank's share; None: of `model`.
    asked : bool
        Whether the engine was asked for, not one that ``auto`` tries.
    """

    model: Model
    request: Request
    decisions: Decisions | None
    asked: bool

    @property
    def queue(self) -> cl.CommandQueue:
        """The queue to work on."""
        assert self.request.queue is not None
        return self.request.queue

    @property
    def dtype(self) -> np.dtype:
        """Of all values on the device."""
        return self.request.dtype

    @property
    def max_spikes(self) -> int | None:
        """Spikes that one chunk may have; None: as many as is usual."""
        return self.request.max_spikes

    @cached_property
    def state(self) -> State:
        """The state on the device, where events act in whole steps."""
        request = self.request
        given = request.dtype, request.chunk, request.max_spikes, self.decisions
        return State(self.model, self.queue, *given)

    def check(self, family: str) -> None:
        """Reject an engine that ``auto`` tries where the device's known answers are wrong."""
        if not self.asked and not trust.is_right(self.queue.device, family, self.dtype):
            raise InputError(f"{trust.title(family)} are wrong on this device")

    def of_user(self) -> Run:
        """Return the run of an engine of a user's own.

        It is given the `State` where events act in whole steps, else this job, both of which have
        `model`, `queue`, `dtype` and `max_spikes`; it returns a `Run`, or an `Executor` that works
        on the `State`.
        """
        assert callable(self.request.engine)
        exact = self.model.exact
        made = self.request.engine(self if exact else self.state)
        if not isinstance(made, Executor):
            return made
        if exact:
            raise InputError("engine has returned an Executor; events at exact times need a Run")
        return DeviceRun(self.state, made)


def values_now(run: Run, model: Model, records: Sequence[Record]) -> list[np.ndarray]:
    """Values of variables as they are, (1, r) each; `run` advances the model."""
    kinds = {r.kind < 0 for r in records}
    v = run.voltages() if True in kinds else np.zeros(0)
    states = run.save() if False in kinds else {}
    found = []
    for r in records:
        if is_current(r, model):
            kind = model.kinds[r.kind]
            own = model.schema.named(states, "state", r.kind)
            values = current_now(model, kind, v, own)
        else:
            of_kind = model.schema.named(states, "state", r.kind) if r.kind >= 0 else {}
            values = of_kind[r.name] if of_kind else v
        found.append(values[r.index][None])
    return found


def take_chunk(
    run: Run, first: int, count: int, records: Sequence[Record], cost: dict[str, float]
) -> Chunk:
    """Take the steps of a chunk, and add their times to `cost`, s."""
    run.begin(count, records)
    marks = [run.mark()]
    for row in range(0, count, run.max_steps):
        some = min(run.max_steps, count - row)
        run.advance(first + row, some, row)
        marks.append(run.mark())
        run.deliver(first + row, some)
        marks.append(run.mark())
    spent = np.diff(run.seconds(marks))  # waits
    cost["steps"] += float(spent[0::2].sum())
    cost["spikes"] += float(spent[1::2].sum())
    clock = time.perf_counter()
    chunk = run.end()
    cost["collect"] += time.perf_counter() - clock
    return chunk


@contextmanager
def naming_memory(what: object, steps: int) -> Iterator[None]:
    """Turn memory errors of OpenCL into one that names the purpose of the memory."""
    try:
        yield
    except (cl.MemoryError, cl.LogicError) as error:
        if error.code not in _NO_MEMORY:
            raise
        raise DeviceMemoryError(
            f"the device has no memory for {what!r} and what is recorded in {steps} steps; "
            f"expected fewer cells or records, or a smaller chunk or max_spikes ({error})"
        ) from error


class DeviceRun:
    """An executor on a device, the state it works on, and the delivery of spikes."""

    def __init__(self, state: State, executor: Executor) -> None:
        self.state, self.executor, self.model = state, executor, state.model
        self.max_steps = executor.max_steps
        self._sampling = executor if isinstance(executor, Sampling) else None
        state.sampling = self._sampling is not None
        self._set, timed = False, cl.command_queue_properties.PROFILING_ENABLE
        self._timed = bool(state.queue.properties & timed)
        self.grid = state.grid

    @property
    def device(self) -> cl.Device:
        """The device."""
        return self.state.queue.device

    def take_parameters(self, model: Model) -> None:
        """Take a model with the parameters that the executor has; records are made of them."""
        self.model = model
        self.state.take_parameters(model)

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        """Allocate rows of records."""
        state = self.state
        before = state.record_node
        state.begin(rows, records)
        if state.record_node is not before or not self._set:
            if self._sampling is not None:
                self._sampling.set_samples(state.samples, state.sampled)
            nodes = state.record_node.get(state.queue)[: state.num_recorded_nodes]
            self.executor.set_records(nodes.astype(np.int64))
            self._set = True
        self.grid.empty()

    def advance(self, first: int, count: int, row: int) -> None:
        """Take `count` steps; records go to `row` and after it."""
        if row == 0:
            self.state.first_step = first
            if self.state.record_currents:
                self.state.begin_currents(self.executor.voltages())
        self.grid.add_events(first, count)
        between = self.state.record_states or self.state.record_currents
        each = 1 if between else count  # these are recorded between launches
        for k in range(0, count, each):
            self.state.enqueue_currents(first + k, row + k)
            self.executor.advance(first + k, each, row + k)
            self.state.enqueue_states(row + k)

    def deliver(self, first: int, count: int) -> None:
        """Deliver the spikes of `count` steps."""
        self.grid.deliver(first, count)

    def note_spikes(self) -> Callable[[], Spikes]:
        """Enqueue a read of the spikes; see `PartRun`."""
        return self.grid.note_spikes()

    def send(self, source: np.ndarray, step: np.ndarray, first: int, count: int) -> None:
        """Enqueue the delivery of spikes of the whole network, of which this is a part."""
        self.grid.send(source, step, first, count)

    def now(self, records: Sequence[Record], step: int) -> list[np.ndarray]:
        """Values of records as they are, (1, r) each."""
        reducers = self.state.reducers
        reducers.begin(records)
        return reducers.now(values_now(self, self.model, reducers.sources), step)

    def mark(self) -> Mark:
        """Return a mark of this position in the queue, for `seconds`."""
        return cl.enqueue_marker(self.state.queue) if self._timed else time.perf_counter()

    def seconds(self, marks: Sequence[Mark]) -> list[float]:
        """Wait, and return the times at which the queue reached the marks."""
        self.state.queue.finish()
        return [m.profile.end * 1e-9 if isinstance(m, cl.Event) else m for m in marks]

    def end(self) -> Chunk:
        """Return the spikes, failures and records."""
        return self.state.end()

    def voltages(self) -> np.ndarray:
        """(num_nodes,) mV, in natural order."""
        return self.executor.voltages()

    def save(self) -> dict[str, np.ndarray]:
        """Return the state."""
        v, saved = self.voltages(), self.state.save()
        if self.state.detectors:
            sources, first = self.model.sources, len(self.model.soma)
            saved["above"] = v[sources.detector_node] > sources.detector_threshold
            saved["above"][first:] = self.state.detectors[0].get(self.state.queue) > 0
        return {"v": v, **saved}

    def weights(self) -> np.ndarray:
        """Return the weights as they are now."""
        return self.grid.weights()

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Restore a state that `save` returned."""
        self.executor.set_voltages(saved["v"])
        if self.state.detectors:
            above = saved["above"][len(self.model.soma) :].astype(np.int32)
            self.state.detectors[0].set(above, self.state.queue)
        self.state.load(saved)
