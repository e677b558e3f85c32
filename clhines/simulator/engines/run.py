"""The protocol `Run`, the job from which an engine makes a run, and helpers for device runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.errors import DeviceMemoryError, InputError
from clhines.simulator.device.reads import Reads
from clhines.simulator.model.model import Model
from clhines.simulator.records.records import Record
from clhines.simulator.state.chunk import Chunk
from clhines.simulator.state.decisions import Decisions
from clhines.solver.device import trust
from clhines.solver.device.copies import shares_memory

_NO_MEMORY = (
    cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
    cl.status_code.OUT_OF_HOST_MEMORY,
    cl.status_code.INVALID_BUFFER_SIZE,
)

for _family, _title, _float64 in (
    ("steps", "channels from texts and NMODL, by steps", True),
    ("epochs", "channels from texts and NMODL, by epochs on GPUs", False),
    ("blocks", "channels from texts and NMODL, by epochs on CPUs", False),
):
    trust.register(_family, _title, "clhines.simulator.known_answers", needs_float64=_float64)

Mark: TypeAlias = "cl.Event | float"  # a position in a queue, or a time on the host's clock


@dataclass(frozen=True)
class Request:
    """The arguments of `Simulation` that choose an engine; `options` are for `Solver`."""

    what: object  # the network, for messages about memory
    queue: cl.CommandQueue | None  # None for ``reference``
    dtype: np.dtype
    engine: str | MakeRun
    chunk: int
    max_spikes: int | None
    method: str
    options: dict[str, object]

    @property
    def is_on_host(self) -> bool:
        return isinstance(self.engine, str) and self.engine == "reference"

    @property
    def place(self) -> tuple[cl.CommandQueue, np.dtype] | None:
        """The device's queue and precision; None for the engine ``reference``."""
        return None if self.queue is None else (self.queue, self.dtype)

    @property
    def arguments(self) -> dict[str, Any]:
        """The keyword arguments with which `Simulation` makes this request."""
        names = "dtype", "queue", "method", "engine", "chunk", "max_spikes"
        return {name: getattr(self, name) for name in names} | self.options


class Run(Protocol):
    """Protocol for an engine's form of a model: all its variables, and how to advance them.

    A run advances in chunks of steps: `begin`, then `advance` and `deliver` repeatedly, then `end`.
    One call of `advance` advances at most `max_steps` steps.
    """

    max_steps: int

    @property
    def device(self) -> cl.Device | None:
        """The device of this process; None if NumPy simulates on the host."""
        return None

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        """Begin a chunk of `rows` steps, in which each step records the values of `records`."""

    def advance(self, first: int, count: int, row: int) -> None:
        """Advance `count` steps from step `first` on; the first one is recorded in row `row`."""

    def deliver(self, first: int, count: int) -> None:
        """Deliver the spikes from the last call of `advance`, of `count` steps from `first` on."""
        return

    def mark(self) -> Mark:
        """Mark the queue's present end; `seconds` tells when the device reached it."""
        return time.perf_counter()

    def seconds(self, marks: Sequence[Mark]) -> list[float]:
        """Wait for the queue; return when it reached each mark, s, since an arbitrary instant."""
        return [float(mark) for mark in marks]

    def end(self) -> Chunk:
        """Wait; return the spikes, failures and records since `begin`."""

    def now(self, records: Sequence[Record], step: int) -> list[np.ndarray]:
        """Return the values of `records` when step `step` begins, (1, r) real each.

        Threshold crossings in the next step are found by comparison with these values.
        """

    def voltages(self) -> np.ndarray:
        """Return the present voltages, (n,) real, mV, in natural order."""

    def weights(self) -> np.ndarray:
        """Return all connections' weights after their last events, (m,) float64."""

    def reward(self, reward: float, step: int) -> None:
        """Reward all plastic connections, after the spikes of step `step` were delivered."""

    def save(self) -> dict[str, np.ndarray]:
        """Return the state: the arrays that `Model.schema` lists, by name."""

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Continue from a state that any run of the same network saved."""


@runtime_checkable
class Restarts(Protocol):
    """Protocol for a run that can start again with changed parameters."""

    def restart(self, model: Model, in_place: bool = False) -> bool:
        """Go to t = 0 of `model`; return False if another run is needed.

        The model differs from the present one only in parameters, constants and `v_init`. With
        `in_place` the device already has its parameters and constants.
        """


class PartRun(Run, Protocol):
    """Protocol for a run with one rank's cells, which exchanges events with other ranks."""

    def early_sources(self) -> np.ndarray:
        """Return the sources that are above their thresholds at t = 0, (k,); only once."""

    def note_spikes(self) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
        """Return a function that waits for all steps enqueued so far, and returns their spikes.

        It returns two arrays, cells and steps, for all spikes since the last call of `note_spikes`.
        """

    def send(self, source: np.ndarray, step: np.ndarray, first: int, count: int) -> None:
        """Deliver all ranks' spikes (`source`, `step`) in `count` steps from `first` on."""

    def new_events(self, node: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Wait; return the new events' sources and times, ms, and the voltages at `node`, mV."""

    def note_events(self) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
        """Return a function that waits for all steps enqueued so far, and returns their events.

        It returns two arrays, sources and times in ms, for all events since the last `note_events`.
        """

    def take_events(self, source: np.ndarray, time: np.ndarray) -> None:
        """Append other ranks' events to their sources' ring buffers; times in ms."""

    def take_voltages(self, v: np.ndarray) -> None:
        """Set the voltages, (m,), mV, at the nodes on other ranks that this rank reads."""


MakeRun: TypeAlias = "Callable[[Job], Run]"  # makes a run in place of a named engine


@dataclass(eq=False)
class Job:
    """What an engine needs to make a `Run`: a model, or one rank's part, and options."""

    model: Model
    request: Request
    decisions: Decisions | None  # for the whole network; None: for `model`
    requested: bool  # whether the user named the engine; otherwise ``auto`` tries it

    @property
    def queue(self) -> cl.CommandQueue:
        assert self.request.queue is not None
        return self.request.queue

    def check(self, family: str) -> None:
        """Raise InputError if the self-test `family` fails on the device.

        An engine that the user requested by name is not checked.
        """
        if not self.requested and not trust.is_right(self.queue.device, family, self.request.dtype):
            raise InputError(f"{trust.title(family)} are wrong on this device")

    def of_function(self) -> Run:
        """Make a run by a function that was given in place of an engine's name."""
        assert callable(self.request.engine)
        return self.request.engine(self)


def take_chunk(
    run: Run, first: int, count: int, records: Sequence[Record], cost: dict[str, float]
) -> Chunk:
    """Advance `count` steps from `first` on as one chunk; return its spikes, failures and records.

    Add the seconds of the phases ``steps``, ``spikes`` and ``collect`` to `cost`.
    """
    run.begin(count, records)
    most, mark = run.max_steps, run.mark
    marks = [mark()]
    for row in range(0, count, most):
        size = min(most, count - row)
        run.advance(first + row, size, row)
        marks.append(mark())
        run.deliver(first + row, size)
        marks.append(mark())
    at = run.seconds(marks)  # waits
    for k in range(2, len(at), 2):
        cost["steps"] += at[k - 1] - at[k - 2]
        cost["spikes"] += at[k] - at[k - 1]
    clock = time.perf_counter()
    chunk = run.end()
    cost["collect"] += time.perf_counter() - clock
    return chunk


@contextmanager
def naming_memory(what: object, steps: int) -> Iterator[None]:
    """Within this context, turn OpenCL's out-of-memory errors into `DeviceMemoryError`.

    The message says that `what` and the records of so many `steps` need too much memory.
    """
    try:
        yield
    except cl.Error as error:
        refuse_memory(error, what, steps)
        raise


def refuse_memory(error: cl.Error, what: object, steps: int) -> None:
    """Raise DeviceMemoryError if OpenCL's `error` is a lack of memory.

    The message says that `what` and the records of so many `steps` need too much memory.
    """
    if error.code in _NO_MEMORY:
        raise DeviceMemoryError(
            f"the device has no memory for {what!r} and what is recorded in {steps} steps; "
            f"expected fewer cells or records, or a smaller chunk or max_spikes ({error})"
        ) from error


MOST_SPIKES = 1 << 24  # most events in a chunk's list
_FEW_STEPS = 8  # steps that take a device with its own memory as long as a marker


class Ending:
    """Wait for the end of a chunk, measure when it reached its marks, and read small arrays."""

    def __init__(self, queue: cl.CommandQueue) -> None:
        self._queue, self.reads, self._by_host = queue, Reads(queue), False
        self._timed = bool(queue.properties & cl.command_queue_properties.PROFILING_ENABLE)
        self._shares = shares_memory(queue.device)
        self.mark: Callable[[], Mark] = time.perf_counter  # as `Run.mark`
        self.written: cl.Event | None = None  # a dropped event would wait for its copy

    def begin(self, rows: int, at_once: bool) -> None:
        """Begin a chunk of `rows` steps.

        The host's clock measures a chunk that is enqueued `at_once`, except for a long one on a
        device with its own memory.
        """
        self._by_host = at_once and (self._shares or rows <= _FEW_STEPS)
        if self._timed:
            marker = partial(cl.enqueue_marker, self._queue)
            self.mark = time.perf_counter if self._by_host else marker

    def seconds(self, marks: Sequence[Mark], arrays: Sequence[cla.Array]) -> list[float]:
        """Wait; return the times at `marks`, s. Then `reads` has the small ones of `arrays`."""
        self.reads.wait(arrays)
        if self._by_host:
            return [marks[0], *[time.perf_counter()] * (len(marks) - 1)]
        return [m.profile.end * 1e-9 if isinstance(m, cl.Event) else m for m in marks]
