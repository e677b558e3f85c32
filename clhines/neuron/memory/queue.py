"""NEURON's queue of events: what is in it, and how it is changed."""

from __future__ import annotations

import ctypes

from clhines.neuron.memory.memory import Memory
from clhines.neuron.memory.raw import Queued, words_at

_BIN_OF_ITEM = 40  # bytes: where an entry of the queue has the number of its bin, or -1
_WORDS = 16
_EVENTS = "net_cvode_instance", "nrn_threads"  # of NEURON's library
_ROOM = (ctypes.c_uint64 * 8)()  # for events that no instance keeps; NEURON writes there


class EventQueue:
    """NEURON's queue."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    @property
    def address(self) -> int:
        """Address of NEURON's queue of events, 0 where it has none."""
        name, pointer = "_Z30net_cvode_instance_event_queueP9NrnThread", ctypes.c_void_p
        queue = self._memory.function(name, pointer, pointer)
        return queue(self._memory.variable("nrn_threads")) or 0

    def words(self) -> list[int]:
        """Return the words of NEURON's queue, which counts what is put in and taken out."""
        at = self.address
        return words_at(at, _WORDS) if at else []

    def events(self) -> list[Queued]:
        """Return the events on their way, by time."""
        found: list[Queued] = []

        def take(item: int, _: int) -> None:
            data, _ = words_at(item, 2)
            time = ctypes.c_double.from_address(item + 8).value
            words = words_at(data, 5)
            what = self._memory.kinds.get(words[0], "other")
            flag = ctypes.c_double.from_address(data + 8).value
            in_bin = ctypes.c_int.from_address(item + _BIN_OF_ITEM).value >= 0
            order = len(found) if in_bin else -1
            found.append(Queued(what, time, data, item, flag, words[2], words[3], words[4], order))

        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)
        name = "_ZN6TQueue15forall_callbackEPFvPK6TQItemiE"
        each = self._memory.function(name, None, ctypes.c_void_p, kind)
        at = self.address
        if at:
            each(at, kind(take))
        return sorted(found, key=lambda event: event.time)

    def remove(self, item: int) -> None:
        """Take an event out of the queue; `item` as in `Queued`."""
        name, pointer = "_ZN6TQueue6removeEP6TQItem", ctypes.c_void_p
        self._memory.function(name, None, pointer, pointer)(self.address, item)

    def move(self, item: int, time: float) -> None:
        """Let an event in the queue come at another time."""
        name, pointer = "_ZN6TQueue4moveEP6TQItemd", ctypes.c_void_p
        move = self._memory.function(name, None, pointer, pointer, ctypes.c_double)
        move(self.address, item, time)

    def send(self, netcon: int, time: float) -> None:
        """Put an event of a NetCon into the queue, by its address, as ``NetCon.event(time)``."""
        name, pointer = "_ZN8NetCvode5eventEdP13DiscreteEventP9NrnThread", ctypes.c_void_p
        send = self._memory.function(name, None, pointer, ctypes.c_double, pointer, pointer)
        events, threads = map(self._memory.variable, _EVENTS)
        send(events, time, netcon, threads)

    def send_self(
        self, point: int, time: float, flag: float, weight: int = 0, movable: int = 0
    ) -> None:
        """Put a self event for a point process, by its address, into the queue; times are in ms.

        `weight` is the address of the weights that it comes with; `movable` is where the instance
        keeps its event for net_move, 0 where it is not known.
        """
        name = "_Z12nrn_net_sendPN6neuron9container19generic_data_handleEPdP13Point_processdd"
        pointers = [ctypes.c_void_p] * 3
        send = self._memory.function(name, None, *pointers, ctypes.c_double, ctypes.c_double)
        send(movable or ctypes.addressof(_ROOM), weight, point, time, flag)

    def deliver_until(self, t: float) -> None:
        """Deliver what is due up to a time, but for what is in bins, as at the end of a step."""
        name, pointer = "_ZN8NetCvode14deliver_eventsEdP9NrnThread", ctypes.c_void_p
        deliver = self._memory.function(name, None, pointer, ctypes.c_double, pointer)
        events, threads = map(self._memory.variable, _EVENTS)
        deliver(events, t, threads)
