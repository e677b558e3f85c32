"""Spikes between a device and other MPI ranks; `split` sends and receives them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device import devices, program
from clhines.device.arrays import set_zero
from clhines.plan.kernel_spec import TemplateSpec
from clhines.simulate.events.grid import Delivery
from clhines.simulate.state.arena import Arena

_COMPLETE = cl.command_execution_status.COMPLETE
_READ, _LIST = 256, 1024  # spikes that a CPU's look reads, that a list to deliver holds, at first

Spikes = tuple[np.ndarray, np.ndarray]  # (k,) cells and (k,) steps


@dataclass(frozen=True)
class TakenSpec(TemplateSpec):
    """``taken.mako``: the regions of arenas that it needs are `regions`."""

    template: ClassVar[str] = "simulate/taken"
    regions: ClassVar[tuple[str, ...]] = (
        *("ring", "ring_first", "ring_size", "event_count", "event_live"),
        *("fan", "first_fan", "stale"),
    )
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "take_events": (
            "int num_taken, const int *source, const double *time, double *clock, int *ints",
            ", ".join(f"int {name}" for name in regions),
        )
    }


class Rings:
    """Appends events of other ranks to the rings of their sources on a device."""

    def __init__(self, queue: cl.CommandQueue) -> None:
        self._queue = queue
        self._kernel = program.kernel_of(queue.context, TakenSpec(), "take_events")

    def put(
        self,
        arenas: dict[str, Arena],
        put: tuple[cla.Array, cla.Array],
        source: np.ndarray,
        time: np.ndarray,
    ) -> None:
        """Enqueue that events, by source and time, ms, are appended, in this order."""
        offset = {**arenas["clock"].offset, **arenas["ints"].offset}
        given = [cla.to_device(self._queue, a) for a in (source.astype(np.int32), time)]
        arrays = (a.data for a in (*given, *put))
        regions = (np.int32(offset[name]) for name in TakenSpec.regions)
        self._kernel(self._queue, (1,), (1,), np.int32(len(source)), *arrays, *regions)


@dataclass
class SpikeList:
    """Spikes found on a device, in any order, up to a capacity: int32."""

    source: cla.Array  # (capacity,)
    step: cla.Array  # (capacity,)
    count: cla.Array  # (1,), counts those beyond the capacity too
    known_empty: bool = False  # as the host has seen since a kernel could change it

    @classmethod
    def on(cls, queue: cl.CommandQueue, capacity: int, count: cla.Array) -> SpikeList:
        """Return an empty list with its count."""
        source, step = (cla.empty(queue, capacity, np.int32) for _ in range(2))
        return cls(source, step, count)

    def empty(self) -> None:
        """Enqueue that there are none."""
        if not self.known_empty:
            set_zero(self.count, self.count.queue)
        self.known_empty = False

    @property
    def capacity(self) -> int:
        """Spikes that there is room for."""
        return int(self.source.size)


class Received:
    """Spikes between a device and other ranks: those found here, and those of all to deliver."""

    def __init__(self, queue: cl.CommandQueue, spikes: SpikeList) -> None:
        self.spikes, self.queue = spikes, queue
        self._count = cla.zeros(self.queue, 1, np.int32)
        self._begin, self._width = 0, _READ
        self._sent: deque[cl.Event] = deque()
        # A GPU's memory is read and written beside the queue, so that nothing waits for the epoch
        # that is under way. A CPU's cores are busy with that: there as many spikes as usual are
        # read between two epochs.
        self._side = None
        if not devices.is_cpu(queue.device):
            self._side = cl.CommandQueue(queue.context, queue.device)
        self._noted = cla.zeros(self.queue, 1, np.int32)
        self._make_room(_LIST)

    def _make_room(self, capacity: int) -> None:
        self.capacity = capacity
        self._lists = [cla.empty(self.queue, capacity, np.int32) for _ in range(2)]

    def begin(self) -> None:
        """Empty the list of spikes found here."""
        set_zero(self.spikes.count, self.queue)
        self._begin = 0

    def note(self) -> Callable[[], Spikes]:
        """Enqueue a read of new spikes, as `PartRun.note_spikes`; one at a time."""
        count, source = np.zeros(1, np.int32), self.spikes.count
        if self._side is not None:
            size = source.nbytes
            event = cl.enqueue_copy(self.queue, self._noted.data, source.data, byte_count=size)
            return partial(self._noted_after, event, count, np.zeros((2, 0), np.int32))
        early = np.zeros((2, min(self._width, self.spikes.capacity - self._begin)), np.int32)
        for row, a in zip(early, self._found) if early.size else ():
            offset = 4 * self._begin
            self._keep(
                cl.enqueue_copy(self.queue, row, a.data, src_offset=offset, is_blocking=False)
            )
        event = cl.enqueue_copy(self.queue, count, source.data, is_blocking=False)
        return partial(self._noted_after, event, count, early)

    @property
    def _found(self) -> tuple[cla.Array, cla.Array]:
        return self.spikes.source, self.spikes.step

    def _noted_after(self, event: cl.Event, count: np.ndarray, early: np.ndarray) -> Spikes:
        self.queue.flush()
        event.wait()
        if self._side is not None:
            cl.enqueue_copy(self._side, count, self._noted.data)
        begin, end = self._begin, min(int(count[0]), self.spikes.capacity)  # `end` tells of more
        self._begin = end
        if end - begin <= early.shape[1]:
            return early[0, : end - begin], early[1, : end - begin]
        self._width = max(self._width, 1 << (end - begin).bit_length())
        found = np.zeros((2, end - begin), np.int32)
        for row, a in zip(found, self._found):
            cl.enqueue_copy(self._side or self.queue, row, a.data, src_offset=4 * begin)
        return found[0], found[1]

    def put(
        self, source: np.ndarray, step: np.ndarray, delivery: Delivery
    ) -> tuple[cla.Array, cla.Array, cla.Array]:
        """Enqueue that a list is there for `delivery`, and return it; nothing waits."""
        if len(source) > self.capacity:
            self._make_room(1 << len(source).bit_length())
            delivery.capacity = self.capacity
        delivery.reset(self._count if self._side is None else self._noted)
        given = source.astype(np.int32), step.astype(np.int32), np.array([len(source)], np.int32)
        for values, array in zip(given, (*self._lists, self._count), strict=True):
            if self._side is not None:  # the last delivery is done: `note` has waited for it
                cl.enqueue_copy(self._side, array.data, values)
                continue
            self._keep(cl.enqueue_copy(self.queue, array.data, values, is_blocking=False))
        return self._lists[0], self._lists[1], self._count

    def _keep(self, event: cl.Event) -> None:
        """Keep what the event of a copy keeps alive: dropped too early, it waits for the device."""
        while self._sent and self._sent[0].command_execution_status == _COMPLETE:
            self._sent.popleft()
        self._sent.append(event)
