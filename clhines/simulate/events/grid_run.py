"""Events in whole steps: sums of each target, delivery of spikes, plasticity.

`Grid` does so on a device, `HostGrid` in NumPy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.arrays import ranges
from clhines.device import devices, program
from clhines.device.arrays import set_zero
from clhines.errors import DeviceMemoryError
from clhines.mechanisms.text.rules import REWARD
from clhines.model.model import Model
from clhines.model.schema import Field, plastic_fields
from clhines.network.plasticity import Course, Rule
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
        lists = self.spikes.source, self.spikes.step
        for row, a in zip(early, lists) if early.size else ():
            offset = 4 * self._begin
            self._keep(
                cl.enqueue_copy(self.queue, row, a.data, src_offset=offset, is_blocking=False)
            )
        event = cl.enqueue_copy(self.queue, count, source.data, is_blocking=False)
        return partial(self._noted_after, event, count, early)

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
        for row, a in zip(found, (self.spikes.source, self.spikes.step)):
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
        if not len(self._event_steps):
            return
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


def check_finite(rule: Rule, values: Iterable[np.ndarray]) -> None:
    """Raise InputError for a weight or a trace that is no finite number."""
    if not all(np.isfinite(array).all() for array in values):
        raise rule.not_finite()


def settled(model: Model, saved: dict[str, np.ndarray], step: int) -> dict[str, np.ndarray]:
    """Return a state whose plastic connections are as they are after a step, without an event."""
    rule = model.connections.rule
    if rule is None or "plastic_step_synapse" not in saved:
        return saved
    course, some = Course(rule, model.dt), model.connections.plastic
    keys = {"w_": "plastic_weight"}
    keys |= {f"{n}_": f"plastic_trace_synapse{k or ''}" for k, n in enumerate(rule.kept["synapse"])}
    found = {key: saved[key].copy() for key in (*keys.values(), "plastic_step_synapse")}
    values = course.constants | {name: found[key][some] for name, key in keys.items()}
    course.settle(values, step - found["plastic_step_synapse"][some])
    check_finite(rule, [values["w_"]])
    for name, key in keys.items():
        found[key][some] = values[name]
    found["plastic_step_synapse"][some] = step
    return saved | found


class HostGrid:
    """`Grid` in NumPy; `incoming` is (slots, num_targets) int64."""

    def __init__(self, model: Model, decisions: Decisions) -> None:
        self.model, self.slots, self.scale = model, decisions.slots, decisions.scale
        self.split = decisions.split  # spikes of all ranks are sent together
        self.weight = model.connections.weight.copy()
        self._post = model.cell_of_target()[model.connections.target]
        # spikes of the whole network may come, and change traces, where this is a part
        sources = decisions.network.connections.num_sources
        size = {"plastic": model.connections.count, "sent": sources}
        self._trace, self._last = dict[str, np.ndarray](), dict[str, np.ndarray]()
        rule = model.connections.rule
        if rule is not None:
            self._course = Course(rule, model.dt)
            for one in plastic_fields(rule):
                if one.name != "weight":
                    self.owner(one)[one.name] = np.zeros(size[one.per], one.dtype)
        self.incoming = np.zeros((self.slots, model.num_targets), np.int64)

    def take(self, step: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield each kind, its instances that events come to in a step, and their weights."""
        events, slot = self.model.events, self.incoming[step % self.slots]
        now = slice(*np.searchsorted(events.step, [step, step + 1]))
        weight = np.rint(events.weight[now] / self.scale).astype(np.int64)
        np.add.at(slot, events.target[now], weight)
        for k, kind in enumerate(self.model.kinds):
            if kind.first_target >= 0:
                sums = slot[kind.first_target : kind.first_target + kind.count]
                hit = np.flatnonzero(sums)
                if len(hit):
                    yield k, hit, sums[hit] * self.scale
        slot[:] = 0

    def send(self, step: int, sources: np.ndarray) -> None:
        """Deliver the spikes of a step, of all sources at once."""
        known = self.model.connections
        begin = known.row[sources]
        sent = known.order[ranges(begin, known.row[sources + 1] - begin)]
        rule = known.rule
        if rule is not None:
            self._change("pre", sent, step)
            self._count("pre", sources, step)
        slot = (step + 1 + known.delay[sent]) % self.slots
        weight = np.rint(self.weight[sent] / self.scale).astype(np.int64)
        np.add.at(self.incoming, (slot, known.target[sent]), weight)
        if rule is not None:
            self._change("post", np.flatnonzero(np.isin(self._post, sources)), step)
            self._count("post", sources, step)

    def reward(self, reward: float, step: int) -> None:
        if self.model.connections.rule is not None:
            self._change(REWARD, np.arange(self.model.connections.count), step, reward)

    def _change(self, event: str, connections: np.ndarray, step: int, reward: float = 0.0) -> None:
        """Change plastic ones of some connections, at an event."""
        given, course, rule = self.model.connections, self._course, self._course.rule
        some = connections[given.plastic[connections]]
        values = {**course.constants, REWARD: reward, "w_": self.weight[some]}
        for side, ends in (("pre", given.source), ("post", self._post)):
            values |= self._traces(side, ends[some], step)
        own = rule.kept["synapse"]
        if own:
            last = self._last["synapse"]
            values |= {f"{n}_": self._trace[f"synapse{k or ''}"][some] for k, n in enumerate(own)}
            course.settle(values, step - last[some])
            check_finite(rule, [values["w_"]])
            last[some] = step
        rule.about.act(event, "synapse", values)
        self.weight[some] = values["w_"]
        for k, name in enumerate(own):
            self._trace[f"synapse{k or ''}"][some] = values[f"{name}_"]
        check_finite(rule, [values["w_"], *(values[f"{name}_"] for name in own)])

    def _traces(self, side: str, at: np.ndarray, step: int) -> dict[str, Any]:
        """Return the traces of some cells as they are in a step, by their names in actions."""
        names = self._course.rule.kept[side]
        gone = step - self._last[side][at] if names else at
        return {
            f"{name}_": self._course.left(name, self._trace[f"{side}{k or ''}"][at], gone)
            for k, name in enumerate(names)
        }

    def _count(self, side: str, cells: np.ndarray, step: int) -> None:
        rule = self._course.rule
        names = rule.kept[side]
        if not names:
            return
        values = self._course.constants | self._traces(side, cells, step)
        rule.about.act(side, side, values)
        for k, name in enumerate(names):
            self._trace[f"{side}{k or ''}"][cells] = values[f"{name}_"]
        check_finite(rule, [values[f"{name}_"] for name in names])
        self._last[side][cells] = step

    def save(self) -> dict[str, np.ndarray]:
        own = [f for f in self.model.schema if f.key == "incoming" or f.what.startswith("plastic")]
        return {f.key: self.owner(f)[f.name] for f in own}

    def owner(self, field: Field) -> dict[str, np.ndarray]:
        """Return the dict that has the array of a field of a state, by the field's name."""
        if field.what == "plastic_trace":
            return self._trace
        return self._last if field.what == "plastic_step" else vars(self)
