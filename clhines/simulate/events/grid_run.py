"""Events in whole steps on a device: sums of each target, delivery of spikes, plasticity."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device import devices, program
from clhines.device.arrays import set_zero
from clhines.errors import DeviceMemoryError
from clhines.model.model import Model
from clhines.plan.kernel_spec import TemplateSpec
from clhines.simulate.events.grid import Delivery
from clhines.simulate.events.plasticity import Plasticity
from clhines.simulate.state.decisions import Decisions, external_sums

_COMPLETE = cl.command_execution_status.COMPLETE
_READ, _LIST = 256, 1024  # spikes that a CPU's look reads, that a list to deliver holds, at first

Spikes = tuple[np.ndarray, np.ndarray]  # (k,) cells and (k,) steps


@dataclass
class SpikeList:
    """Spikes found on a device, in any order, up to a capacity: int32."""

    source: cla.Array  # (capacity,)
    step: cla.Array  # (capacity,)
    count: cla.Array  # (1,), counts those beyond the capacity too
    known_empty: bool = False  # as the host has seen since a kernel could change it

    @classmethod
    def on(cls, queue: cl.CommandQueue, capacity: int, count: cla.Array) -> SpikeList:
        source, step = (cla.empty(queue, capacity, np.int32) for _ in range(2))
        return cls(source, step, count)

    def empty(self) -> None:
        if not self.known_empty:
            set_zero(self.count, self.count.queue)
        self.known_empty = False

    @property
    def capacity(self) -> int:
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


@dataclass(frozen=True)
class EventsSpec(TemplateSpec):
    template: ClassVar[str] = "simulate/events"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "add_events": (
            "int first, int count, int num_targets, int slots, const int *restrict step",
            "const int *restrict target, const long *restrict weight, long *restrict incoming",
        ),
    }


def summed_events(model: Model, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Step, target and weight, int64 in units of `scale`, of events from outside, summed."""
    given, targets = model.events, max(model.num_targets, 1)
    key, where = np.unique(given.step * targets + given.target, return_inverse=True)
    weight = np.zeros(len(key), np.int64)
    np.add.at(weight, where.reshape(-1), np.rint(given.weight / scale).astype(np.int64))
    step, target = np.divmod(key, targets)
    return step, target, weight


class Grid:
    """Sums of events, due step by step, and the list of spikes that they come from.

    Kernels append to `spikes`; `decisions` are those of the whole network. `incoming`, (slots *
    num_targets,) int64, has events due at step s in row ``s % slots``, in units of `scale`;
    `weight` is that of `Model.connections` where no rule changes them. Where kernels deliver spikes
    themselves (`inside`), they need `tables`.
    """

    def __init__(
        self,
        model: Model,
        queue: cl.CommandQueue,
        decisions: Decisions,
        spikes: SpikeList,
        inside: bool = False,
    ) -> None:
        self._inside = inside
        self.model, self.queue, self.spikes = model, queue, spikes
        self.slots, self.scale, self._epoch = decisions.slots, decisions.scale, decisions.epoch
        size, most = 8 * self.slots * model.num_targets, queue.device.max_mem_alloc_size
        if size > most:
            raise DeviceMemoryError(
                f"events on their way to {model.num_targets} targets, the latest "
                f"{decisions.network.connections.max_delay} steps after its spike, take "
                f"{size / 2**20:.0f} MiB; the device allows {most / 2**20:.0f} MiB; expected "
                "shorter delays"
            )
        self.incoming = cla.zeros(queue, max(self.slots * model.num_targets, 1), np.int64)
        step, target, weight = summed_events(model, self.scale)
        self._event_steps = step
        if len(step):
            self._add = program.kernel_of(queue.context, EventsSpec(), "add_events")
            arrays = step.astype(np.int32), target.astype(np.int32), weight
            self._events = [cla.to_device(queue, a) for a in arrays]
        self.delivery: Delivery | None = None
        self.plasticity: Plasticity | None = None
        self.weight = model.connections.weight
        self._received = Received(queue, spikes) if decisions.split else None
        largest = model.connections.largest
        if not largest.any() and not inside:  # kernels that deliver take the tables in any case
            return
        given, received = model.connections, self._received
        self.delivery = Delivery(
            self.queue,
            given,
            model.num_targets,
            self.slots,
            self.spikes.capacity if received is None else received.capacity,
            "vpo" if self._inside else "auto",
            steps=self._epoch,
            external=external_sums(model),
            largest=largest,
            scale=self.scale,
        )
        if given.rule is not None:
            cells = model.cell_of_target()
            self.plasticity = Plasticity(self.delivery, given.rule, model.dt, cells, given.plastic)

    def add_events(self, first: int, count: int) -> None:
        """Enqueue that events from outside, due in steps `first` to `first + count`, come in."""
        begin, end = np.searchsorted(self._event_steps, [first, first + count]).tolist()
        if begin == end:
            return
        numbers = [begin, end - begin, self.model.num_targets, self.slots]
        self._add(
            self.queue,
            *devices.small_groups(self.queue.device, end - begin),
            *(np.int32(n) for n in numbers),
            *(a.data for a in self._events),
            self.incoming.data,
        )

    def empty(self) -> None:
        if self._received is not None:
            self._received.begin()
        elif self.delivery is None:
            self.spikes.empty()
        else:
            self.delivery.reset(self.spikes.count)

    @property
    def delivers(self) -> bool:
        return self.delivery is not None and not self._inside

    @property
    def tables(self) -> dict[str, cla.Array]:
        """By source its first connection, by connection the place of its sum and its weight."""
        assert self.delivery is not None and self.delivery.tables.place is None  # they go by rows
        tables = self.delivery.tables
        return {"first_of": tables.row, "offset": tables.offset, "weight_of": tables.weight}

    def stretches(self, first: int, count: int) -> Iterator[tuple[int, int]]:
        """Yield begin and number of steps of launches, with `add_events` before each."""
        end = first + count
        while self._inside and first < end:
            at = int(np.searchsorted(self._event_steps, first))
            due = self._event_steps[at] if at < len(self._event_steps) else end
            some = min(int(due) - first or self._epoch, end - first)
            yield first, some
            first += some
        if first < end:
            yield first, end - first

    def deliver(self, first: int, count: int) -> None:
        change = self.plasticity or self.delivery
        if change is not None and not self._inside:
            found = self.spikes.source, self.spikes.step, self.spikes.count
            change.enqueue(*found, self.incoming, first, count)

    def note_spikes(self) -> Callable[[], Spikes]:
        assert self._received is not None
        return self._received.note()

    def send(self, source: np.ndarray, step: np.ndarray, first: int, count: int) -> None:
        change = self.plasticity or self.delivery
        if change is not None and self.delivery is not None and self._received is not None:
            found = self._received.put(source, step, self.delivery)
            change.enqueue(*found, self.incoming, first, count)

    def reward(self, reward: float, step: int) -> None:
        if self.plasticity is not None:
            self.plasticity.reward(reward, step)

    def check(self) -> None:
        """Wait, and raise InputError for a weight or a trace that is no finite number."""
        if self.plasticity is not None:
            self.plasticity.check()

    def weights(self) -> np.ndarray:
        return self.weight.copy() if self.plasticity is None else self.plasticity.weight

    def save(self) -> dict[str, np.ndarray]:
        sums = self.incoming.get(self.queue)[: self.slots * self.model.num_targets]
        saved = {"incoming": sums.reshape(self.slots, self.model.num_targets)}
        return saved if self.plasticity is None else saved | self.plasticity.state()

    def load(self, saved: dict[str, np.ndarray]) -> None:
        if self.plasticity is not None:
            self.plasticity.restore(saved)
        if self.model.num_targets:
            self.incoming.set(np.ascontiguousarray(saved["incoming"]).reshape(-1), self.queue)
