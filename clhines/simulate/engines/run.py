"""The protocol `Run`, and the job of making one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import pyopencl as cl

from clhines.device import trust
from clhines.errors import DeviceMemoryError, InputError
from clhines.model.model import Model
from clhines.simulate.records.records import Record
from clhines.simulate.state.chunk import Chunk
from clhines.simulate.state.decisions import Decisions

_NO_MEMORY = (
    cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
    cl.status_code.OUT_OF_HOST_MEMORY,
    cl.status_code.INVALID_BUFFER_SIZE,
)


MOST_APART = 1 << 22  # nodes of copies: epochs have all values on the host, some 2 kB of a node

Mark: TypeAlias = "cl.Event | float"  # a position in a queue, or a moment of the host's clock


@dataclass(frozen=True)
class Request:
    """How a network is to be advanced: arguments of `Simulation`, `options` of `Solver`."""

    what: object  # named by messages about memory
    queue: cl.CommandQueue | None  # None for ``reference``
    dtype: np.dtype
    engine: str | MakeRun
    chunk: int
    max_spikes: int | None
    method: str
    options: dict[str, object]


class Run(Protocol):
    """A model in time: what a `Simulation` calls, on a device, on the host or on several ranks.

    In a chunk, `begin` comes first, then `advance`, of `max_steps` at most, and `deliver` in turn,
    then `end`.
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
        """Values of records at the begin of a step, (1, r) real each: crossings start there."""

    def voltages(self) -> np.ndarray:
        """(n,) real, mV, in natural order: as they are now."""

    def weights(self) -> np.ndarray:
        """(m,) float64: of all connections after their last events, in the order given."""

    def reward(self, reward: float, step: int) -> None:
        """Reward all plastic connections, after the spikes of a step, just delivered."""

    def save(self) -> dict[str, np.ndarray]:
        """Return all that is needed to go on, the arrays of `Model.schema` by name."""

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from what `save` returned, of whichever run of the same network."""


class PartRun(Run, Protocol):
    """A run of a rank's share of a network, whose events are exchanged with the other ranks."""

    def early_sources(self) -> np.ndarray:
        """Return sources of the share that are above their thresholds at the start, (k,); once."""

    def note_spikes(self) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
        """Note which spikes have been found once all that was enqueued is done.

        What is returned waits for that, and returns cells of the part and steps of the spikes noted
        there and not before.
        """

    def send(self, source: np.ndarray, step: np.ndarray, first: int, count: int) -> None:
        """Deliver spikes of `count` steps from `first` on; sources are cells of the network."""

    def new_events(self) -> tuple[np.ndarray, np.ndarray]:
        """Wait, and return sources and times of the events found since the last call."""

    def take_events(self, source: np.ndarray, time: np.ndarray) -> None:
        """Append events of other ranks, by source and time, to the rings of their sources."""

    def voltages_at(self, node: np.ndarray) -> np.ndarray:
        """Wait, and return the voltages of nodes, mV."""

    def take_voltages(self, v: np.ndarray) -> None:
        """Set the voltages of nodes of other ranks, mV."""


MakeRun: TypeAlias = "Callable[[Job], Run]"  # an engine of one's own, see `Job.of_user`


@dataclass(eq=False)
class Job:
    """A model, whole or a rank's share, and how it is to be advanced: what engines are made of."""

    model: Model
    request: Request
    decisions: Decisions | None  # of the whole network; None: of `model`
    asked: bool  # whether the engine was asked for, not one that ``auto`` tries

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

    @property
    def apart(self) -> Model:
        """The model, in which copies that are alike are cells as any others.

        Where they are many, ``auto`` is left to engines that repeat one of them on the device.
        """
        if self.model.copies > 1 and self.model.forest.num_nodes > MOST_APART and not self.asked:
            raise InputError("steps keep one of so many copies in the host's memory")
        return self.model.apart

    def check(self, family: str) -> None:
        """Reject an engine that ``auto`` tries where the device's known answers are wrong."""
        if not self.asked and not trust.is_right(self.queue.device, family, self.dtype):
            raise InputError(f"{trust.title(family)} are wrong on this device")

    def of_user(self) -> Run:
        """Return the run of an engine of a user's own: an `ArenaRun`, say, or a `CellsRun`."""
        assert callable(self.request.engine)
        return self.request.engine(self)


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
    at = run.seconds(marks)  # waits
    cost["steps"] += sum(end - begin for begin, end in zip(at[0::2], at[1::2], strict=False))
    cost["spikes"] += sum(end - begin for begin, end in zip(at[1::2], at[2::2], strict=False))
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
