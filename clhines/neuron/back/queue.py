"""Events on their way, as the importer needs them."""

from __future__ import annotations

from dataclasses import dataclass, field

from clhines.neuron.convert import Rejected
from clhines.neuron.memory.memory import Memory
from clhines.neuron.read.wiring import Sender, Wires


@dataclass(frozen=True)
class SelfEvent:
    """A self event on its way.

    Attributes
    ----------
    time : float, ms
    flag : float
    target : Sender
    netcon : int
        Number of the connection whose weights it has, -1 for none.
    """

    time: float
    flag: float
    target: Sender
    netcon: int


@dataclass(eq=False)
class Pending:
    """All events on their way.

    Attributes
    ----------
    netcons : list of (int, float)
        Connections and times of arrival, by time.
    binned : list of (int, float)
        Those of them that are in NEURON's bins of a step, the last to be delivered in one first.
    selves : list of SelfEvent
        By time.
    rejected : list of Rejected
    """

    netcons: list[tuple[int, float]] = field(default_factory=list)
    binned: list[tuple[int, float]] = field(default_factory=list)
    selves: list[SelfEvent] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


def read_pending(memory: Memory, wires: Wires, senders: dict[int, Sender]) -> Pending:
    """Read NEURON's queue of events.

    Parameters
    ----------
    memory : Memory
    wires : Wires
    senders : dict of int -> Sender
        By the address of the hoc object.
    """
    found = Pending()
    numbers = {memory.inside(netcon): k for k, netcon in enumerate(wires.netcons)}
    of_source: dict[int, list[int]] = {}
    for k, netcon in enumerate(wires.netcons):
        of_source.setdefault(memory.source_of(netcon), []).append(k)
    weights = {memory.weight_address(n): k for k, n in enumerate(wires.netcons) if wires.weights[k]}
    targets = {memory.point_of(address): sender for address, sender in senders.items()}
    binned: list[tuple[int, list[tuple[int, float]]]] = []
    for event in memory.events():
        if event.what in ("NetCon", "PreSyn"):
            listeners = of_source.get(event.address, [])
            if event.what == "NetCon":
                listeners = [numbers[event.address]] if event.address in numbers else []
            least = min((wires.delay[k] for k in listeners), default=0.0)
            pairs = [(k, event.time + (wires.delay[k] - least)) for k in listeners]
            found.netcons += pairs
            if event.bin_order >= 0:
                binned.append((event.bin_order, pairs))
        elif event.what == "SelfEvent":
            target = targets.get(event.target)
            if target is not None:
                netcon = weights.get(event.weight, -1) if event.weight else -1
                found.selves.append(SelfEvent(event.time, event.flag, target, netcon))
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
    found.netcons.sort(key=lambda pair: pair[1])
    for _, pairs in sorted(binned, reverse=True):
        found.binned += pairs[::-1]
    return found
