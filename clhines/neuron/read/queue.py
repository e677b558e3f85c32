"""Read and write pending events: NEURON's queue, and its bins (``CVode.queue_mode(1, 0)``)."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from clhines.core.arrays import place_of
from clhines.core.errors import warn_caller
from clhines.neuron.convert import Rejected, reject, rejection
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.raw import QueueEvent, gather, halves, is_address, words_at
from clhines.neuron.read.wiring import NeuronWires, Sender
from clhines.simulator.mechanisms import Mechanism

_WORDS_OF_ITEM, _WORDS_OF_EVENT = 6, 5
_BIN_OF_ITEM = 40  # bytes: offset of the bin number, or -1, in a queue entry
_WORDS = 16
_EVENTS = "net_cvode_instance", "nrn_threads"  # variables in NEURON's library
_ROOM = (ctypes.c_uint64 * 8)()  # for events that no instance stores; NEURON writes into it
_SEARCHED = 6  # words in NEURON's queue and in its bins
_NEAR = 1e-6  # steps: tolerance for where NEURON's bins begin


class EventQueue:
    def __init__(self, memory: NeuronMemory) -> None:
        self._memory = memory

    def words(self) -> list[int]:
        at = self._memory.queue
        return words_at(at, _WORDS) if at else []

    def columns(self) -> QueueEvent:
        item = self._memory.queued()
        entry = gather(item, _WORDS_OF_ITEM)
        event = gather(entry[:, 0], _WORDS_OF_EVENT)
        tables, which = np.unique(event[:, 0], return_inverse=True)
        what = np.array([self._memory.kinds.get(int(t), "other") for t in tables] or [""])[which]
        bin_number = entry[:, _BIN_OF_ITEM // 8].astype(np.uint32).view(np.int32)
        bin_order = np.where(bin_number >= 0, np.arange(len(item)), -1)
        time, flag = (np.ascontiguousarray(a[:, 1]).view(np.float64) for a in (entry, event))
        columns = what, time, entry[:, 0], item, flag, event[:, 2], event[:, 3], bin_order
        order = np.argsort(time, kind="stable")
        return QueueEvent(*(column[order] for column in columns))

    def events(self, *kinds: str) -> list[QueueEvent]:
        """Return the pending events of these kinds (default: all), sorted by time."""
        queued = self.columns()
        if kinds:
            at = np.isin(queued.what, kinds)
            queued = QueueEvent(*(column[at] for column in queued))
        return [QueueEvent(*event) for event in zip(*(a.tolist() for a in queued), strict=True)]

    def others(self) -> list[np.ndarray]:
        """Return the pending events but statements and spike exchanges, as one array per field."""
        queued = self.columns()
        kept = np.flatnonzero(~np.isin(queued.what, ("HocEvent", "NetParEvent")))
        kept = kept[np.argsort(queued.item[kept])]  # the queue's order within a time is arbitrary
        return [column[kept] for column in queued[:-1]]

    def statements(self) -> tuple[list[float], list[float]]:
        """Return the `CVode.event` times between steps, and in point processes, two lists in ms."""
        return _statements(self.events("HocEvent", "other"))

    def remove(self, *items: int) -> None:
        name, pointer = "_ZN6TQueue6removeEP6TQItem", ctypes.c_void_p
        remove, at = self._memory.function(name, None, pointer, pointer), self._memory.queue
        for item in items:
            remove(at, item)

    def move(self, item: int, time: float) -> None:
        name, pointer = "_ZN6TQueue4moveEP6TQItemd", ctypes.c_void_p
        move = self._memory.function(name, None, pointer, pointer, ctypes.c_double)
        move(self._memory.queue, item, time)

    def exchange(self, t: float) -> None:
        """Make NEURON exchange its spikes on all ranks, at time `t` (ms).

        With ``spike_compress`` NEURON counts the steps to the next exchange from its thread's time.
        """
        self._call_at(t, "_Z18nrn_spike_exchangeP9NrnThread")

    def _call_at(self, t: float, name: str) -> None:
        """Call a function of NEURON's thread at time `t` (ms)."""
        clock = self._memory.clock()  # separate from hoc's t
        before, clock[0] = clock[0], t
        self._memory.function(name, None, ctypes.c_void_p)(self._memory.variable("nrn_threads"))
        clock[0] = before

    def put_exchange_off(self, t: float) -> None:
        """Postpone NEURON's exchange of spikes to time `t` (ms) or later."""
        for event in self.events("NetParEvent"):
            self.move(event.item, max(event.time, t))

    def send(self, netcons: np.ndarray, times: np.ndarray) -> None:
        name, pointer = "_ZN8NetCvode5eventEdP13DiscreteEventP9NrnThread", ctypes.c_void_p
        send = self._memory.function(name, None, pointer, ctypes.c_double, pointer, pointer)
        events, threads = map(self._memory.variable, _EVENTS)
        for netcon, time in zip(netcons.tolist(), times.tolist(), strict=True):
            send(events, time, netcon, threads)

    def send_selves(self, *columns: np.ndarray) -> None:
        """Queue self events; columns: instance, time (ms), flag, first weight, net_move's slot.

        Instances, weights and slots are addresses, 0 for no weight or slot.
        """
        name = "_Z12nrn_net_sendPN6neuron9container19generic_data_handleEPdP13Point_processdd"
        pointers, room = [ctypes.c_void_p] * 3, ctypes.addressof(_ROOM)
        send = self._memory.function(name, None, *pointers, ctypes.c_double, ctypes.c_double)
        for point, time, flag, weight, movable in zip(
            *map(np.ndarray.tolist, columns), strict=True
        ):
            send(movable or room, weight, point, time, flag)

    def play(self, last: float, t: float) -> None:
        """Deliver events up to time `last`, then let Vectors play for time `t` (ms).

        NEURON itself does both at the end `t` of a step, so its next step finds the same values.
        """
        self.deliver_until(last)
        self._call_at(t, "_Z21fixed_play_continuousP9NrnThread")

    def deliver_until(self, t: float) -> None:
        """Let NEURON deliver all events up to time `t` (ms), except events in bins."""
        name, pointer = "_ZN8NetCvode14deliver_eventsEdP9NrnThread", ctypes.c_void_p
        deliver = self._memory.function(name, None, pointer, ctypes.c_double, pointer)
        events, threads = map(self._memory.variable, _EVENTS)
        deliver(events, t, threads)


@dataclass(frozen=True)
class SelfEvent:
    """A pending self event; `netcon` is the NetCon whose weights it carries, -1 for none."""

    time: float  # ms
    flag: float
    target: Sender
    netcon: int
    item: int  # its queue entry's address


@dataclass(eq=False)
class PendingEvents:
    netcons: list[tuple[int, float]] = field(default_factory=list)  # NetCon and time, ms
    binned: list[tuple[int, float]] = field(default_factory=list)  # the ones in bins, in order
    selves: list[SelfEvent] = field(default_factory=list)
    statements: list[float] = field(default_factory=list)  # when `CVode.event` code runs, ms
    rejected: list[Rejected] = field(default_factory=list)


def read_pending(queue: EventQueue, wires: NeuronWires) -> PendingEvents:
    pending, events = PendingEvents(), queue.events()
    binned: list[tuple[int, list[tuple[int, float]]]] = []
    listeners, delay = _listeners(wires, events), wires.read.delay
    selves = [event for event in events if event.what == "SelfEvent"]
    targets = wires.senders.of_points(np.array([e.target for e in selves], np.int64)).tolist()
    weights = _places(wires.read.weight, [event.weight for event in selves])
    for event in events:
        if event.what in ("NetCon", "PreSyn"):
            heard = listeners.get(event.address, [])
            least = min((delay[k] for k in heard), default=0.0)
            pairs = [(k, event.time + float(delay[k] - least)) for k in heard]
            pending.netcons += pairs
            if event.bin_order >= 0:
                binned.append((event.bin_order, pairs))
    pending.statements, of_points = _statements(events)
    for t in of_points:
        pending.rejected.append(reject("", "neuron.cvode-event-point-process", t=t))
    for event, target, netcon in zip(selves, targets, weights, strict=True):
        if target >= 0:
            number = netcon if event.weight else -1
            sender = wires.senders[target]
            pending.selves.append(SelfEvent(event.time, event.flag, sender, number, event.item))
    pending.netcons.sort(key=lambda pair: pair[1])
    for _, pairs in sorted(binned, reverse=True):
        pending.binned += pairs[::-1]
    return pending


def _statements(events: Iterable[QueueEvent]) -> tuple[list[float], list[float]]:
    """Return the times (ms) of event code between steps, and of code in point processes."""
    with_statements = [event for event in events if event.has_statement]
    between_steps = [event.time for event in with_statements if event.is_between_steps]
    return between_steps, [event.time for event in with_statements if not event.is_between_steps]


def _listeners(wires: NeuronWires, events: list[QueueEvent]) -> dict[int, list[int]]:
    """Return, by the address of a NetCon or source, the NetCons that receive its events."""
    netcons = [event.address for event in events if event.what == "NetCon"]
    listeners = {
        a: [k] for a, k in zip(netcons, _places(wires.read.address, netcons), strict=True) if k >= 0
    }
    sent = np.unique([event.address for event in events if event.what == "PreSyn"])
    if len(sent):
        chosen = np.flatnonzero(np.isin(wires.read.source, sent) & wires.read.active)
        for k, source in zip(chosen.tolist(), wires.read.source[chosen].tolist(), strict=True):
            listeners.setdefault(source, []).append(k)
    return listeners


def _places(addresses: np.ndarray, wanted: list[int]) -> list[int]:
    return place_of(addresses, np.array(wanted, np.int64)).tolist() if wanted else []


class Bins:
    """NEURON's bins, each of which holds the events of one step.

    The first one must begin with NEURON's next step. It does not if t or dt was set, or steps
    without bins were taken, since ``finitialize()``: RejectedError.
    """

    def __init__(self, memory: NeuronMemory, queue: EventQueue, t: float, dt: float) -> None:
        self._memory, self._dt = memory, dt
        table = memory.table_of_class("BinQ")
        words = words_at(memory.queue, _SEARCHED)[2:]
        bin_queues = [word for word in words if is_address(word) and words_at(word, 1)[0] == table]
        if len(bin_queues) != 1:
            raise OSError("NEURON's bins of events are not found")
        begins = [
            bin_queues[0] + 8 * k
            for k in range(2, _SEARCHED)
            if abs(ctypes.c_double.from_address(bin_queues[0] + 8 * k).value - (t - 0.5 * dt))
            <= _NEAR * dt
        ]
        if len(begins) != 1:
            raise rejection("", "neuron.old-bins")
        # when the first bin begins, ms; set it only while all bins are empty
        self.begin = ctypes.c_double.from_address(begins[0])
        queued = queue.columns()
        binned = queued.bin_order >= 0
        if binned.any() and not self._in_time(queued.time[binned], queued.item[binned]):
            raise rejection("", "neuron.old-bins")

    def _in_time(self, times: np.ndarray, items: np.ndarray) -> bool:
        """Whether queue entries are in the bins that belong to their times, ms."""
        size, first = halves(words_at(ctypes.addressof(self.begin) + 8, 1))
        number = (gather(items + _BIN_OF_ITEM)[:, 0] & 0xFFFFFFFF).astype(np.int64)
        middle = (number - first) % size + 0.5
        return bool((abs((times - self.begin.value) / self._dt - middle) <= 0.5 + _NEAR).all())

    def put(self, netcons: np.ndarray, times: np.ndarray) -> None:
        name, pointer = "_ZN6TQueue11enqueue_binEdPv", ctypes.c_void_p
        put = self._memory.function(name, pointer, pointer, ctypes.c_double, pointer)
        at, times = self._memory.queue, np.maximum(times, self.begin.value)
        for netcon, time in zip(netcons.tolist(), times.tolist(), strict=True):
            put(at, time, netcon)


def check_bins(
    wires: NeuronWires, pending: PendingEvents, mechanisms: dict[str, Mechanism], dt: float
) -> list[Rejected]:
    """Reject events that are in no bin; warn if the order of events may differ from NEURON's."""
    _warn_of_order(wires, mechanisms)
    _warn_of_time(wires, mechanisms, dt)
    return in_no_bin(wires, pending)


def check_compressed(queue: EventQueue, t: float, dt: float) -> list[Rejected]:
    """Reject ``spike_compress`` if the next exchange of spikes is not a whole step count away."""
    delays = [event.time - t for event in queue.events("NetParEvent")[:1]]
    loose = [delay for delay in delays if abs(delay / dt - round(delay / dt)) > _NEAR]
    return [reject("", "neuron.spike-compress-delay", delay=delay) for delay in loose]


def in_no_bin(wires: NeuronWires, pending: PendingEvents) -> list[Rejected]:
    """Reject pending NetCon events that are in none of NEURON's bins."""
    loose = Counter(pending.netcons) - Counter(pending.binned)
    names = sorted({wires.target_of(k)[0] for k, _ in loose})
    return [reject(name, "neuron.pending-event-in-no-bin") for name in names]


def _warn_of_time(wires: NeuronWires, mechanisms: dict[str, Mechanism], dt: float) -> None:
    """Warn if a delay is below dt/2, because t in NET_RECEIVE may then differ from NEURON's."""
    has_sender = np.array([*(o.sender is not None for o in wires.origins), False])
    soon = has_sender[wires.origin] & (wires.read.delay < 0.5 * dt)
    names = [
        name
        for name in _names(wires, wires.target[soon])
        if name in mechanisms and any(a.role == "t" for a in mechanisms[name].calls("receive"))
    ]
    if names:
        warn_caller(
            f"CVode.queue_mode(1, 0): NET_RECEIVE of {', '.join(names)} has the time of the "
            "sending as t where an object sends with a delay below dt/2; in NEURON it is that "
            "of the last self event of the model in that step, up to dt/2 later where there is "
            "another one",
            UserWarning,
        )


def _warn_of_order(wires: NeuronWires, mechanisms: dict[str, Mechanism]) -> None:
    """Warn if several instances that get events in one step send events to one target."""
    senders, sends = wires.senders, wires.sending()
    answers = np.zeros(len(senders.name) + 1, bool)
    answers[wires.target[wires.origin >= 0]] = True
    is_simulated = np.array([name in mechanisms for name in senders.names] + [False])
    answering = answers[sends] & is_simulated[np.append(senders.name, -1)[sends]]
    pairs = np.unique(np.column_stack([sends[answering], wires.target[answering]]), axis=0)
    targets, counts = np.unique(pairs[:, 1], return_counts=True)
    names = _names(wires, np.sort(targets[counts > 1]))
    if names:
        warn_caller(
            f"CVode.queue_mode(1, 0): events that several instances send to {', '.join(names)} in "
            "one step come in the order of the instances, in NEURON in that of its queue",
            UserWarning,
        )


def _names(wires: NeuronWires, targets: np.ndarray) -> list[str]:
    numbers, first = np.unique(wires.senders.name[targets], return_index=True)
    return [wires.senders.names[k] for k in numbers[np.argsort(first)]]
