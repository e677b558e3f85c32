"""Events in whole steps on a device: `Grid` has each target's sums, like `HostGrid`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.errors import DeviceMemoryError, InputError
from clhines.simulator.events.grid import Delivery
from clhines.simulator.events.plasticity import Plasticity
from clhines.simulator.events.spike_list import Received, SpikeList, Spikes
from clhines.simulator.model.model import Model
from clhines.simulator.network.times import MAX_SLOTS
from clhines.simulator.state.decisions import Decisions
from clhines.solver.device import devices, program
from clhines.solver.plan.kernel_spec import TemplateSpec


@dataclass(frozen=True)
class EventsSpec(TemplateSpec):
    template: ClassVar[str] = "simulator/events"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "add_events": (
            "int first, int count, int num_targets, int slots, const int *restrict step",
            "const int *restrict target, const long *restrict weight, long *restrict incoming",
        )
    }


def summed_events(model: Model, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sum external events; return step, target and weight, int64 in units of `scale`."""
    events, targets = model.events, max(model.num_targets, 1)
    key, where = np.unique(events.step * targets + events.target, return_inverse=True)
    weight = np.zeros(len(key), np.int64)
    np.add.at(weight, where.reshape(-1), np.rint(events.weight / scale).astype(np.int64))
    step, target = np.divmod(key, targets)
    return step, target, weight


class _ExternalEvents:
    """Events from outside the network, on a device, sorted by step."""

    def __init__(self, model: Model, queue: cl.CommandQueue, slots: int, scale: float) -> None:
        self._queue, self._targets, self._slots = queue, model.num_targets, slots
        self.steps, target, weight = summed_events(model, scale)
        if len(self.steps):
            self._add = program.kernel_of(queue.context, EventsSpec(), "add_events")
            arrays = self.steps.astype(np.int32), target.astype(np.int32), weight
            self._arrays = [cla.to_device(queue, a) for a in arrays]

    def add(self, first: int, count: int, incoming: cla.Array) -> bool:
        """Enqueue the addition of events due in `count` steps from `first`; return whether any."""
        begin, end = np.searchsorted(self.steps, [first, first + count]).tolist()
        if begin == end:
            return False
        self._add(
            self._queue,
            *devices.small_groups(self._queue.device, end - begin),
            *(np.int32(n) for n in (begin, end - begin, self._targets, self._slots)),
            *(a.data for a in self._arrays),
            incoming.data,
        )
        return True

    def steps_until(self, first: int, end: int) -> int:
        at = int(np.searchsorted(self.steps, first))
        return min(int(self.steps[at]) if at < len(self.steps) else end, end) - first


class Grid:
    """The sums of pending events in whole steps on a device, and spike delivery.

    Kernels append spikes to `spikes`. `decisions` hold for the whole network. `incoming`, (slots *
    num_targets,) int64, has the sum of the events due at step s in row ``s % slots``, in units of
    `scale`. `weight` is `Model.connections.weight`, unless a rule changes weights. With `inside`,
    the engine's kernels deliver spikes themselves, and need `tables`.
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
                f"pending events of {model.num_targets} targets, the latest "
                f"{decisions.network.connections.max_delay} steps after its spike, take "
                f"{size / 2**20:.0f} MiB; the device allows {most / 2**20:.0f} MiB; expected "
                "shorter delays"
            )
        if self.slots > MAX_SLOTS:
            raise InputError(
                f"the longest delay of a plastic connection is "
                f"{decisions.network.connections.max_delay} steps; expected at most "
                f"{MAX_SLOTS - 2}, or engine='reference'"
            )
        self.incoming = cla.zeros(queue, max(self.slots * model.num_targets, 1), np.int64)
        self._external = _ExternalEvents(model, queue, self.slots, self.scale)
        self.has_events = len(self._external.steps) > 0
        self.added = False  # whether the last `add_events` found external events
        self.delivery: Delivery | None = None
        self.delivers = False  # whether `deliver` has something to do
        self.plasticity: Plasticity | None = None
        self.weight = model.connections.weight
        self._received = Received(queue, spikes) if decisions.split else None
        if not (inside or model.connections.largest.any()):  # kernels that deliver need the tables
            return
        self.delivers = not inside
        connections, received = model.connections, self._received
        self.delivery = Delivery(
            self.queue,
            connections,
            model.num_targets,
            self.slots,
            self.spikes.capacity if received is None else received.capacity,
            scale=self.scale,
        )
        if connections.rule is not None:
            cells = model.cell_of_target()
            self.plasticity = Plasticity(
                self.delivery, connections.rule, model.dt, cells, connections.plastic
            )

    def add_events(self, first: int, count: int) -> None:
        if self.has_events:
            self.added = self._external.add(first, count, self.incoming)

    def empty(self) -> None:
        if self._received is not None:
            self._received.begin()
        elif self.delivery is None:
            self.spikes.empty()
        elif not self.spikes.known_empty:
            self.delivery.reset(self.spikes.count)
        self.spikes.known_empty = False

    @property
    def tables(self) -> dict[str, cla.Array]:
        """Connection tables by source.

        They are each source's first connection, and each connection's weight and sum index.
        """
        assert self.delivery is not None
        tables = self.delivery.tables
        return {"first_of": tables.row, "offset": tables.offset, "weight_of": tables.weight}

    def stretches(self, first: int, count: int) -> Iterator[tuple[int, int]]:
        """Divide steps into launches, so that external events are added before they are due.

        Yield each launch's first step and step count; call `add_events` before it.
        """
        end = first + count
        while self._inside and first < end:
            length = min(self._external.steps_until(first, end) or self._epoch, end - first)
            yield first, length
            first += length
        if first < end:
            yield first, end - first

    def deliver(self, first: int, count: int) -> None:
        change = self.plasticity or self.delivery
        if change is not None:
            spikes = self.spikes.source, self.spikes.step, self.spikes.count
            change.enqueue(spikes, self.incoming, first, count)

    def note_spikes(self) -> Callable[[], Spikes]:
        assert self._received is not None
        return self._received.note()

    def send(self, source: np.ndarray, step: np.ndarray, first: int, count: int) -> None:
        change = self.plasticity or self.delivery
        if change is not None and self.delivery is not None and self._received is not None:
            spikes = self._received.put(source, step, self.delivery)
            change.enqueue(spikes, self.incoming, first, count)

    def reward(self, reward: float, step: int) -> None:
        if self.plasticity is not None:
            self.plasticity.reward(reward, step)

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
