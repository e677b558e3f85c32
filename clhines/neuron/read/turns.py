"""NEURON's one generator (exprand, normrand, scop_random) where several instances draw from it.

Which number an instance gets depends on all that draw before it, so NEURON draws ahead of a run.
Draws in SOLVE (`Program.turns`) are those of its own functions, in the order in which its steps
would ask for them, and are played in steps. Sources that only answer their own self events are run
by NEURON's own queue, which delivers these events alone; here they send when they have sent there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clhines.arrays import place_of
from clhines.mechanisms.ir.program import IN_TURN, UNLESS, Program
from clhines.neuron.back.queue import EventQueue
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.places import Variable
from clhines.neuron.memory.raw import Queued, numbers_at, put_numbers
from clhines.neuron.memory.session import Hoc
from clhines.neuron.memory.sources import EventSources
from clhines.neuron.memory.streams import Generator
from clhines.neuron.read.played import Player, steps_at_once
from clhines.neuron.read.trains import Trains
from clhines.neuron.read.wiring import NeuronWires

_FAR = 1e15  # ms, at which NEURON's queue keeps what is not delivered now
_FUNCTIONS = {  # of NEURON's library: with these arguments they are scaled afterwards
    "scop_random": ("_Z11scop_randomv", ()),
    "exprand": ("_Z7exprandd", (1.0,)),
    "normrand": ("_Z8normranddd", (0.0, 1.0)),
}
_BLOCKS = {"initial", "before_initial", "after_initial", "receive", "net_initial", *UNLESS}
# roles of arguments
_OUTSIDE = {"v", "ion", "pointer", "put", "add", "assign", "steer", "set_v", "arm"}


def is_alone(program: Program) -> bool:
    """Whether events alone change a mechanism's variables, and nothing of the model is in them."""
    roles = {a.role for block in program.blocks.values() for a in block}
    sends = program.net.sends if program.net is not None else ()
    return (
        {*program.blocks} <= _BLOCKS
        and not roles & _OUTSIDE
        and not any(q.is_global for q in program.states)
        and not any(send.kind == "move" for send in sends)
        and not program.pointers
    )


class Turns:
    """What draws in turn: instances with their draws in a step, and names of sources."""

    def __init__(self, h: Hoc, memory: NeuronMemory) -> None:
        self._memory, self._generator = memory, Generator(memory, h, "", 1)
        self._calls: list[tuple[Any, tuple[float, ...]]] = []  # of a step, in NEURON's order
        self._variables: list[Variable] = []
        self._t, self._y = np.zeros(1), np.zeros((1, 0))
        self.sources: OwnEvents | None = None

    def __bool__(self) -> bool:
        return bool(self._calls) or self.sources is not None

    def add(self, owner: str, number: int, function: str, place: int) -> None:
        """Let an instance draw in each step, after those that were added before."""
        name, arguments = _FUNCTIONS[function]
        types = [ctypes.c_double] * len(arguments)
        self._calls.append((self._memory.function(name, ctypes.c_double, *types), arguments))
        self._variables.append(Variable(owner, f"{IN_TURN}{place}", number))
        self._y = np.zeros((1, len(self._calls)))

    @property
    def most_steps(self) -> int:
        """Steps whose numbers are drawn at once, at most, and one."""
        return steps_at_once(len(self._calls)) + 1

    @property
    def players(self) -> list[Player]:
        every = enumerate(self._variables)
        return [Player(v, self._t, self._y[:, k], False, "a draw in turn") for k, v in every]

    @contextmanager
    def ahead(self, t: np.ndarray, until: float) -> Iterator[None]:
        """Draw for steps that begin at some times, ms, the events of which come until another one.

        Where what follows fails, all is as it was.
        """
        if not self or not len(t):
            yield
            return
        before = self._generator.drawn()
        try:
            self._t = t
            self._y = np.array([[f(*x) for f, x in self._calls] for _ in t])
            if self.sources is None:
                yield
            else:
                with self.sources.ahead(until):
                    yield
        except BaseException:
            self._generator.put(before)
            raise


@dataclass(eq=False)
class OwnEvents:
    """Sources that answer their own self events alone: `Trains.ahead`."""

    h: Hoc
    memory: NeuronMemory
    queue: EventQueue
    wires: NeuronWires
    reader: EventSources
    trains: Trains
    kept: dict[int, int] = field(default_factory=dict)  # of Randoms: sizes in bytes by address

    @contextmanager
    def ahead(self, until: float) -> Iterator[None]:
        """Let NEURON deliver their events until a time, ms, and take when they have sent."""
        senders = self.wires.senders
        own = np.isin(senders.name, [senders.names.index(name) for name in self.trains.ahead])
        fields = [self.memory.fields_of(point) for point in senders.points[own].tolist()]
        at = np.array([address for one in fields for address in one], np.int64)
        copies = {place: ctypes.string_at(place, size) for place, size in self.kept.items()}
        values, events, t = numbers_at(at), self._events(senders.points[own]), float(self.h.t)
        try:
            self._deliver(senders.points[own], until)
            yield
        except BaseException:
            put_numbers(at, values)
            for place, copy in copies.items():
                ctypes.memmove(place, copy, len(copy))
            self.queue.remove(*self._events(senders.points[own]).item.tolist())
            self._set_time(t)
            none = np.zeros(len(events.time), np.int64)
            self.queue.send_selves(events.target, events.time, events.flag, events.weight, none)
            raise

    def _set_time(self, t: float) -> None:
        """Set hoc's t, ms, and that of NEURON's thread, which delivering moves."""
        self.h.t = self.memory.clock()[0] = t

    def _events(self, points: np.ndarray) -> Queued:
        """Return their self events on their way."""
        found = self.queue.columns()
        is_own = (found.what == "SelfEvent") & np.isin(found.target, points)
        return Queued(*(column[is_own] for column in found))

    def _deliver(self, points: np.ndarray, until: float) -> None:
        own, every, t = {*self._events(points).item.tolist()}, self.queue.columns(), float(self.h.t)
        others = [k for k, item in enumerate(every.item.tolist()) if item not in own]
        origins = [o for o in self.wires.origins if o.sender and o.sender[0] in self.trains.ahead]
        address = {origin.address for origin in origins}
        sent_by = np.isin(self.wires.read.source, [*address]) & self.wires.read.active
        chosen = self.wires.read.address[sent_by]
        netcons = list(self.h.List("NetCon"))
        inside = self.memory.insides_of(self.memory.objects_of(netcons)) if netcons else chosen
        silent = [netcons[k] for k in place_of(inside, chosen).tolist()]
        places = [self.reader.recording(origin.address) for origin in origins]
        recorded = [[word.value for word in pair] for pair in places]
        sent = [self.h.Vector() for _ in origins]
        for k in others:
            self.queue.move(int(every.item[k]), _FAR)
        try:
            for netcon in silent:
                netcon.active(0)
            for pair, vector in zip(places, sent, strict=True):
                pair[0].value, pair[1].value = self.memory.inside(vector), 0
            self.queue.deliver_until(until)
        finally:
            for pair, words in zip(places, recorded, strict=True):
                pair[0].value, pair[1].value = words
            for netcon in silent:
                netcon.active(1)
            known = {*every.item.tolist()}
            new = self.queue.columns()
            of_sources = np.isin(new.what, ("NetCon", "PreSyn")) & ~np.isin(new.item, [*known])
            self.queue.remove(*new.item[of_sources].tolist())
            for k in others:
                self.queue.move(int(every.item[k]), float(every.time[k]))
            self._set_time(t)
        for origin, vector in zip(origins, sent, strict=True):
            assert origin.sender is not None
            self.trains.times[origin.sender] = np.array(vector, np.float64)
