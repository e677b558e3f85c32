"""NEURON's bins of events, of ``CVode.queue_mode(1, 0)``: what differs, and how they are written.

A bin has the events of connections that are due in a step; see `simulate.events.bins`. NEURON
counts bins from a time of its own, which each of its steps moves on.
"""

from __future__ import annotations

import ctypes

import numpy as np

from clhines.errors import warn_caller
from clhines.mechanisms.mechanism import Mechanism
from clhines.neuron.back.queue import Pending
from clhines.neuron.convert import Rejected
from clhines.neuron.memory.memory import Memory
from clhines.neuron.memory.queue import EventQueue
from clhines.neuron.memory.raw import is_address, words_at
from clhines.neuron.read.wiring import Wires

_SEARCHED = 6  # words of NEURON's queue, and of its bins
_NEAR = 1e-6  # steps: where NEURON's bins begin beside its t


class Bins:
    """NEURON's bins, found by its time now and its step, ms; OSError if not as expected."""

    def __init__(self, memory: Memory, queue: EventQueue, t: float, dt: float) -> None:
        self._memory, self._queue, self._dt = memory, queue, dt
        table = memory.address("_ZTV4BinQ") + 16
        words = words_at(queue.address, _SEARCHED)[2:]
        found = [word for word in words if is_address(word) and words_at(word, 1)[0] == table]
        if len(found) != 1:
            raise OSError("NEURON's bins of events are not found")
        begins = [
            found[0] + 8 * k
            for k in range(2, _SEARCHED)
            if abs(ctypes.c_double.from_address(found[0] + 8 * k).value - (t - 0.5 * dt))
            <= _NEAR * dt
        ]
        if len(begins) != 1:
            raise OSError("NEURON's bins of events are not as expected")
        self._begin = ctypes.c_double.from_address(begins[0])

    def begin_at(self, t: float) -> None:
        """Let the first bin begin at a time; all are empty."""
        self._begin.value = t

    def put(self, netcon: int, time: float) -> None:
        """Put an event of a connection, by its address, into the bin of a time."""
        name, pointer = "_ZN6TQueue11enqueue_binEdPv", ctypes.c_void_p
        put = self._memory.function(name, pointer, pointer, ctypes.c_double, pointer)
        put(self._queue.address, max(time, self._begin.value), netcon)


def check_bins(
    wires: Wires, pending: Pending, mechanisms: dict[str, Mechanism], dt: float
) -> list[Rejected]:
    """Return what bins do to a model that cannot be simulated; warn of an order that differs."""
    found = list[Rejected]()
    loose = {k for k, _ in pending.netcons} - {k for k, _ in pending.binned}
    for name in sorted({wires.target_of(k)[0] for k in loose}):
        what = "NetCon.event on its way, with CVode.queue_mode(1, 0), where it is in no bin"
        found.append(Rejected(name, what, "", 0, "CVode().queue_mode(0, 0), finitialize()"))
    _warn_of_order(wires, mechanisms)
    _warn_of_time(wires, mechanisms, dt)
    return found


def _warn_of_time(wires: Wires, mechanisms: dict[str, Mechanism], dt: float) -> None:
    """Warn of events that come within half a step: NEURON's t is that of any last self event."""
    has_sender = np.array([*(o.sender is not None for o in wires.origins), False])
    soon = has_sender[wires.origin] & (wires.read.delay < 0.5 * dt)
    names = _names(wires, wires.target[soon])
    told = [
        name
        for name in names
        if name in mechanisms and any(a.role == "t" for a in mechanisms[name].calls("receive"))
    ]
    if told:
        warn_caller(
            f"CVode.queue_mode(1, 0): NET_RECEIVE of {', '.join(told)} has the time of the sending "
            "as t where an object sends with a delay below dt/2; in NEURON it is that of the last "
            "self event of the model in that step, up to dt/2 later where there is another one",
            UserWarning,
        )


def _warn_of_order(wires: Wires, mechanisms: dict[str, Mechanism]) -> None:
    """Warn where events of several instances that answer events of a bin come in one bin."""
    senders, sends = wires.senders, wires.sending()
    answers = np.zeros(len(senders.name) + 1, bool)
    answers[wires.target[wires.origin >= 0]] = True
    known = np.array([name in mechanisms for name in senders.names] + [False])
    some = answers[sends] & known[np.append(senders.name, -1)[sends]]
    pairs = np.unique(np.column_stack([sends[some], wires.target[some]]), axis=0)
    targets, counts = np.unique(pairs[:, 1], return_counts=True)
    names = _names(wires, np.sort(targets[counts > 1]))
    if names:
        warn_caller(
            f"CVode.queue_mode(1, 0): events that several instances send to {', '.join(names)} in "
            "one step come in the order of the instances, in NEURON in that of its queue",
            UserWarning,
        )


def _names(wires: Wires, targets: np.ndarray) -> list[str]:
    """Return the mechanisms of some targets, in order."""
    numbers, first = np.unique(wires.senders.name[targets], return_index=True)
    return [wires.senders.names[k] for k in numbers[np.argsort(first)]]
