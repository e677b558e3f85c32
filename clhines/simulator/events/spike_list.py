"""Spikes in whole steps: lists on a device, and their exchange with other ranks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.simulator.events.grid import Delivery
from clhines.solver.device import devices
from clhines.solver.device.arrays import set_zero

_COMPLETE = cl.command_execution_status.COMPLETE
_READ, _LIST = 256, 1024  # spikes that a read of a CPU fetches, and in a list to deliver; at first
Spikes = tuple[np.ndarray, np.ndarray]  # (k,) cells and (k,) steps


@dataclass
class SpikeList:
    """The spikes that kernels have detected, in any order, at most `capacity`."""

    source: cla.Array  # (capacity,) int32
    step: cla.Array  # (capacity,) int32
    count: cla.Array  # (1,) int32, may exceed the capacity
    known_empty: bool = False  # whether the host saw it empty, and no kernel has run since

    @classmethod
    def on(cls, queue: cl.CommandQueue, capacity: int, count: cla.Array) -> SpikeList:
        source, step = (cla.empty(queue, capacity, np.int32) for _ in range(2))
        return cls(source, step, count)

    def empty(self) -> None:
        if not self.known_empty:
            set_zero(self.count, self.count.queue)

    @property
    def capacity(self) -> int:
        return int(self.source.size)


class Received:
    def __init__(self, queue: cl.CommandQueue, spikes: SpikeList) -> None:
        self.spikes, self.queue = spikes, queue
        self._count = cla.zeros(self.queue, 1, np.int32)
        self._begin, self._width = 0, _READ
        self._sent: deque[cl.Event] = deque()
        # On a GPU a second queue reads and writes while an epoch runs. On a CPU it would compete
        # for the cores: there one read between two epochs fetches the usual number of spikes.
        self._side = None
        if not devices.is_cpu(queue.device):
            self._side = cl.CommandQueue(queue.context, queue.device)
        self._noted = cla.zeros(self.queue, 1, np.int32)
        self._make_room(_LIST)

    def _make_room(self, capacity: int) -> None:
        self.capacity = capacity
        self._lists = [cla.empty(self.queue, capacity, np.int32) for _ in range(2)]

    def begin(self) -> None:
        set_zero(self.spikes.count, self.queue)
        self._begin = 0

    def note(self) -> Callable[[], Spikes]:
        """Enqueue a read of new spikes; return a function that waits for it and returns them."""
        count, source = np.zeros(1, np.int32), self.spikes.count
        if self._side is not None:
            size = source.nbytes
            event = cl.enqueue_copy(self.queue, self._noted.data, source.data, byte_count=size)
            return partial(self._noted_after, event, count, np.zeros((2, 0), np.int32))
        early = np.zeros((2, min(self._width, self.spikes.capacity - self._begin)), np.int32)
        lists = self.spikes.source, self.spikes.step
        for row, a in zip(early, lists) if early.size else ():
            how = {"src_offset": 4 * self._begin, "is_blocking": False}
            self._keep(cl.enqueue_copy(self.queue, row, a.data, **how))
        event = cl.enqueue_copy(self.queue, count, source.data, is_blocking=False)
        return partial(self._noted_after, event, count, early)

    def _noted_after(self, event: cl.Event, count: np.ndarray, early: np.ndarray) -> Spikes:
        self.queue.flush()
        event.wait()
        if self._side is not None:
            cl.enqueue_copy(self._side, count, self._noted.data)
        begin, end = self._begin, min(int(count[0]), self.spikes.capacity)
        self._begin = end
        if end - begin <= early.shape[1]:
            return early[0, : end - begin], early[1, : end - begin]
        self._width = max(self._width, 1 << (end - begin).bit_length())
        spikes = np.zeros((2, end - begin), np.int32)
        for row, a in zip(spikes, (self.spikes.source, self.spikes.step)):
            cl.enqueue_copy(self._side or self.queue, row, a.data, src_offset=4 * begin)
        return spikes[0], spikes[1]

    def put(
        self, source: np.ndarray, step: np.ndarray, delivery: Delivery
    ) -> tuple[cla.Array, cla.Array, cla.Array]:
        """Enqueue a copy of spikes to the device for `delivery`; return the list there."""
        if len(source) > self.capacity:
            self._make_room(1 << len(source).bit_length())
            delivery.capacity = self.capacity
        delivery.reset(self._count if self._side is None else self._noted)
        columns = source.astype(np.int32), step.astype(np.int32), np.array([len(source)], np.int32)
        for values, array in zip(columns, (*self._lists, self._count), strict=True):
            if self._side is not None:  # `note` has waited for the last delivery
                cl.enqueue_copy(self._side, array.data, values)
                continue
            self._keep(cl.enqueue_copy(self.queue, array.data, values, is_blocking=False))
        return self._lists[0], self._lists[1], self._count

    def _keep(self, event: cl.Event) -> None:
        """Keep a copy's event until the copy ends; deleting it earlier would wait."""
        while self._sent and self._sent[0].command_execution_status == _COMPLETE:
            self._sent.popleft()
        self._sent.append(event)
