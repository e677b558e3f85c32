"""Events at exact times that go from kernels to the host, and from other ranks to kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.simulator.device import launches
from clhines.simulator.device.reads import read_parts
from clhines.simulator.state.arena import Arena
from clhines.simulator.state.chunk import Chunk
from clhines.solver.device import devices, program
from clhines.solver.device.arrays import set_zero, within_reach
from clhines.solver.plan.kernel_spec import TemplateSpec

_EVENTS, _MOST_EVENTS = 64, 1 << 13  # events that one read of ranks fetches, at first and at most
_WORDS = 1 << 12  # int32 words for other ranks' events, at first
_MARKED = 64  # work-items that mark a remote source's targets


class EventList:
    """Up to `capacity` events that kernels detect in a chunk; `early` are those at t = 0."""

    def __init__(
        self, queue: cl.CommandQueue, capacity: int, instant: np.dtype, count: cla.Array
    ) -> None:
        self.capacity, self._queue, self.count, self.instant = capacity, queue, count, instant
        self.seen = 0  # events that `new` has returned
        self._usual, self._any = _EVENTS, True  # events per read; whether the last read found any
        self.known_empty = False  # whether the host saw it empty, and no kernel has run since
        self._source = within_reach(queue, (capacity,), np.dtype(np.int32), zeros=False)
        self._time = within_reach(queue, (capacity,), instant, zeros=False)
        self.early: Chunk | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        return {
            "spike_count": self.count, "spike_source": self._source, "spike_time": self._time,
        }  # fmt: skip

    def empty(self) -> None:
        if not self.known_empty:
            set_zero(self.count, self._queue)
        self.seen, self.known_empty = 0, False

    def to(
        self, end: int, begin: int = 0, queue: cl.CommandQueue | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Wait; return sources and times for events `begin` to `end`, and for events at t = 0."""
        source, t = np.zeros(0, np.int64), np.zeros(0)
        if end > begin:
            lists = (self._source, begin, end), (self._time, begin, end)
            source, t = read_parts(lists, queue or self._queue)
        return self._with_early(source, t)

    def _with_early(self, source: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        source, t = source.astype(np.int64), t.astype(np.float64)
        early, self.early = self.early, None
        if early is None:
            return source, t
        return np.append(early.spike_cell, source), np.append(early.spike_time, t)

    def new(
        self, others: Sequence[tuple[cla.Array, int, int]] = ()
    ) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """Wait; return the new events' sources and times, and other arrays' values.

        `others` says which values to read, as in `read_parts`. There is one wait, or two if there
        are more events than usual.
        """
        return self._until(self.count, self._queue, others)

    def note(self) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
        """Enqueue a read of the event count; return a function that reads the new events."""
        noted, side = self._beside
        count, size = self.count.base_data, self.count.nbytes
        places = {"src_offset": self.count.offset, "byte_count": size}
        event = cl.enqueue_copy(self._queue, noted.data, count, **places)

        def new() -> tuple[np.ndarray, np.ndarray]:
            self._queue.flush()
            event.wait()
            return self._until(noted, side)[:2]

        return new

    @cached_property
    def _beside(self) -> tuple[cla.Array, cl.CommandQueue]:
        queue = self._queue
        on_cpu = devices.is_cpu(queue.device)  # a second queue would compete for the cores
        side = queue if on_cpu else cl.CommandQueue(queue.context, queue.device)
        return cla.zeros(queue, 1, np.int32), side

    def _until(
        self, number: cla.Array, queue: cl.CommandQueue,
        others: Sequence[tuple[cla.Array, int, int]] = (),
    ) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:  # fmt: skip
        begin = self.seen
        until = min(begin + self._usual * self._any, self.capacity)
        lists = (number, 0, 1), (self._source, begin, until), (self._time, begin, until)
        count, source, t, *more = read_parts((*lists, *others), queue)
        self.seen = end = min(int(count[0]), self.capacity)
        self._any = end > begin
        if end <= until:
            return *self._with_early(source[: end - begin], t[: end - begin]), more
        usual = min(1 << (end - begin).bit_length(), _MOST_EVENTS)
        self._usual = max(self._usual, usual)
        return *self.to(end, begin, queue), more


@dataclass(frozen=True)
class TakenSpec(TemplateSpec):
    """Spec of the kernels that append other ranks' events to the sources' ring buffers.

    They use these `regions` in the arenas ``clock`` and ``ints``.
    """

    template: ClassVar[str] = "simulator/taken"
    regions: ClassVar[tuple[str, ...]] = (
        *("ring", "ring_first", "ring_size", "event_count", "event_live"),
        *("fan", "first_fan", "stale"),
    )
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "take_events": (
            "const double *time, int num_times, double *clock, int *ints",
            ", ".join(f"int {name}" for name in regions),
        )
    }


class RankEvents:
    """Append events from other ranks to the ring buffers of their sources, on a device.

    This takes one copy, one kernel and no wait. The copy has times, float64, then sources and each
    source's first time as an index, int32. `most` is the device's largest work-group.
    """

    def __init__(self, queue: cl.CommandQueue, arenas: Mapping[str, Arena], most: int) -> None:
        self._queue, self._arenas, self._copied = queue, arenas, list[cl.Event]()
        self._group = min(_MARKED, most)
        self._make_room(_WORDS)

    def _make_room(self, words: int) -> None:
        self._words = np.zeros(words, np.int32)
        self._buffer = cla.empty(self._queue, words // 2, np.float64)
        self._kernel: launches.BoundKernel | None = None

    def _bound(self) -> launches.BoundKernel:
        spec, clock, ints = TakenSpec(), self._arenas["clock"], self._arenas["ints"]
        places = {**clock.offset, **ints.offset}
        arguments: dict[str, Any] = {
            "time": self._buffer, "num_times": np.int32(0), "clock": clock.array,
            "ints": ints.array, **{name: np.int32(places[name]) for name in spec.regions},
        }  # fmt: skip
        built = program.build(self._queue.context, spec)
        return launches.bind(built, spec, "take_events", arguments, ["num_times"])

    def take(self, source: np.ndarray, time: np.ndarray) -> None:
        """Enqueue events at `time`, ms, sorted by `source`."""
        first = np.append(0, np.flatnonzero(source[1:] != source[:-1]) + 1)
        times = 2 * len(time)
        count, size = len(first), times + 2 * len(first) + 1
        self._copied.clear()  # waits for the last copy, which reads `_words`
        if size > len(self._words):
            self._make_room(1 << size.bit_length())
        words = self._words[:size]
        words[:times] = time.astype(np.float64).view(np.int32)
        words[times : times + count], words[times + count : -1] = source[first], first
        words[-1] = len(time)
        queue, buffer = self._queue, self._buffer.base_data
        self._copied.append(cl.enqueue_copy(queue, buffer, words, is_blocking=False))
        if self._kernel is None:
            self._kernel = self._bound()
        self._kernel.change(np.int32(len(time)))
        self._kernel.launch(queue, self._group * count, self._group)
