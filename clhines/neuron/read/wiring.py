"""Connections of a model: sources of events, NetCons, and who records which source."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from clhines.neuron.convert import Rejected
from clhines.neuron.memory.memory import Memory
from clhines.neuron.memory.places import Places
from clhines.neuron.memory.session import Hoc
from clhines.neuron.read.contents import Contents
from clhines.neuron.read.names import name_of
from clhines.neuron.read.patterns import OF_GID, is_pattern

Sender = tuple[str, int]  # a point process or artificial cell: its name, and which one


@dataclass(eq=False)
class Origin:
    """A source of events.

    Attributes
    ----------
    node : int
        Whose voltage is compared; -1 where it is a sender.
    threshold : float, mV
    sender : Sender or None
    times, numbers : Hoc or None
        Vectors that record it.
    record_as : int
    gid : int
    address : int
        Of NEURON's object.
    """

    node: int
    threshold: float
    sender: Sender | None
    times: Hoc | None = None
    numbers: Hoc | None = None
    record_as: int = -1
    gid: int = -1
    address: int = 0


@dataclass(eq=False)
class Wires:
    """Sources and connections of a model.

    Attributes
    ----------
    origins : list of Origin
    netcons : list of Hoc
        Those that are active and have a target.
    origin : list of int
        Of each NetCon, -1 of one without a source.
    target : list of Sender
    weights : list of list of float
    delay : list of float, ms
    """

    origins: list[Origin] = field(default_factory=list)
    netcons: list[Hoc] = field(default_factory=list)
    origin: list[int] = field(default_factory=list)
    target: list[Sender] = field(default_factory=list)
    weights: list[list[float]] = field(default_factory=list)
    delay: list[float] = field(default_factory=list)


class WireReader:
    """Reads sources and connections.

    Parameters
    ----------
    h : Hoc
    memory : Memory
    places : Places
    contents : Contents

    Attributes
    ----------
    senders : dict of int -> Sender
        Point processes and artificial cells by the address of their hoc object.
    rejected : list of Rejected
    """

    def __init__(self, h: Hoc, memory: Memory, places: Places, contents: Contents) -> None:
        self._h, self._memory, self._places = h, memory, places
        self.senders: dict[int, Sender] = {
            memory.object_of(thing): (name, k)
            for name, instances in contents.points.items()
            for k, thing in enumerate(instances.things)
        }
        self.rejected: list[Rejected] = []
        texts = {name: instances.entry.text for name, instances in contents.points.items()}
        self._silent = {  # NEURON takes any point process for a source
            sender
            for sender in self.senders.values()
            if texts[sender[0]] and not re.search(r"\b(net_event|INCLUDE)\b", texts[sender[0]])
        }
        self._has_patterns = any(is_pattern(i.entry.text) for i in contents.points.values())

    def read(self) -> Wires:
        """Return all sources and connections."""
        memory, found = self._memory, Wires()
        vectors = {memory.inside(v): v for v in self._h.List("Vector")}
        netcons = list(self._h.List("NetCon"))
        source_of = [memory.source_of(netcon) for netcon in netcons]
        places: dict[int, int] = {}
        for source in memory.sources():
            sender, node = self.senders.get(source.sender), -1
            if source.place is not None:
                node = self._places.node(source.place)
            nothing = not source.sender and source.place is None
            if nothing and source.gid >= 0 and self._has_patterns:
                sender = OF_GID, source.gid
            if node < 0 and sender in self._silent:
                continue
            if node < 0 and sender is None:
                if nothing:
                    continue  # a cell that is gone, or a gid that no process has
                what = "an object that sends no events"
                if source.place is not None:
                    what = name_of(self._h, memory, source.place)
                way_out = "expected a voltage or an object that sends events"
                self.rejected.append(Rejected("", f"NetCon of {what}", "", 0, way_out))
                continue
            if source.is_called:
                what = "NetCon.record of a statement or a function"
                self.rejected.append(Rejected("", what, "", 0, "record into a Vector"))
            places[source.address] = len(found.origins)
            threshold = memory.threshold(source.address)
            found.origins.append(
                Origin(
                    node,
                    threshold,
                    sender if node < 0 else None,
                    vectors.get(source.times),
                    vectors.get(source.numbers),
                    source.record_as,
                    source.gid,
                    source.address,
                )
            )
        for netcon, address in zip(netcons, source_of, strict=True):
            self._connection(found, netcon, places.get(address, -1))
        return found

    def _connection(self, found: Wires, netcon: Hoc, origin: int) -> None:
        target = netcon.syn()
        if target is None or not netcon.active():
            return
        known = self.senders.get(self._memory.object_of(target))
        if known is None:
            self.rejected.append(Rejected("", f"{netcon}: its target {target} is at no segment"))
            return
        found.netcons.append(netcon)
        found.origin.append(origin)
        found.target.append(known)
        found.weights.append([netcon.weight[k] for k in range(int(netcon.wcnt()))])
        found.delay.append(netcon.delay)
