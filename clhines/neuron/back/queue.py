"""Events on their way, as the importer needs them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from clhines.arrays import place_of
from clhines.neuron.convert import Rejected
from clhines.neuron.memory.queue import EventQueue
from clhines.neuron.memory.raw import Queued
from clhines.neuron.read.wiring import Sender, Wires


@dataclass(frozen=True)
class SelfEvent:
    """A self event on its way; `netcon` is the connection whose weights it has, -1 for none."""

    time: float
    flag: float
    target: Sender
    netcon: int


@dataclass(eq=False)
class Pending:
    """All events on their way, with times of arrival, ms: `netcons` are connections.

    `binned` are those of them that are in NEURON's bins of a step, the last to be delivered in one
    first. All else is by time.
    """

    netcons: list[tuple[int, float]] = field(default_factory=list)
    binned: list[tuple[int, float]] = field(default_factory=list)
    selves: list[SelfEvent] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


def read_pending(queue: EventQueue, wires: Wires) -> Pending:
    """Read NEURON's queue of events."""
    found, events = Pending(), queue.events()
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
            found.netcons += pairs
            if event.bin_order >= 0:
                binned.append((event.bin_order, pairs))
        elif event.what == "other" and event.has_statement:
            found.rejected.append(
                Rejected(
                    "",
                    f"CVode.event with a statement, at t = {event.time:g} ms",
                    "",
                    0,
                    "run up to that time, call it, and go on",
                )
            )
    for event, target, netcon in zip(selves, targets, weights, strict=True):
        if target >= 0:
            number = netcon if event.weight else -1
            found.selves.append(SelfEvent(event.time, event.flag, wires.senders[target], number))
    found.netcons.sort(key=lambda pair: pair[1])
    for _, pairs in sorted(binned, reverse=True):
        found.binned += pairs[::-1]
    return found


def _listeners(wires: Wires, events: list[Queued]) -> dict[int, list[int]]:
    """Return the NetCons that get each event of a NetCon or a source, by its address."""
    own = [event.address for event in events if event.what == "NetCon"]
    found = {a: [k] for a, k in zip(own, _places(wires.read.address, own), strict=True) if k >= 0}
    sent = np.unique([event.address for event in events if event.what == "PreSyn"])
    if len(sent):
        chosen = np.flatnonzero(np.isin(wires.read.source, sent))
        for k, source in zip(chosen.tolist(), wires.read.source[chosen].tolist(), strict=True):
            found.setdefault(source, []).append(k)
    return found


def _places(known: np.ndarray, wanted: list[int]) -> list[int]:
    return place_of(known, np.array(wanted, np.int64)).tolist() if wanted else []
