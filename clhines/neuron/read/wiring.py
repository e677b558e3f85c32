"""Read a model's sources of events and NetCons, and the Vectors that record sources."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from clhines.core.arrays import place_of, ranges, starts
from clhines.neuron.convert import Rejected, reject
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.objects import on_ranks
from clhines.neuron.memory.raw import Source, numbers_at
from clhines.neuron.memory.sources import EventSources, NetConColumns
from clhines.neuron.read.contents import Contents
from clhines.neuron.read.patterns import OF_GID, is_pattern
from clhines.neuron.read.places import MemoryPlaces
from clhines.neuron.read.played import name_of

_SENDS = r"\b(net_event|INCLUDE)\b"
Sender = tuple[str, int]  # a point process or artificial cell: mechanism and instance


@dataclass(frozen=True, eq=False)
class Origin(Source):
    node: int  # whose voltage is compared with the threshold; -1 for a sender
    threshold: float  # mV
    sender: Sender | None
    number: int  # the sender's number among `Senders`; -1 for a voltage


class Senders:
    """All point processes and artificial cells, numbered, with hoc and C++ addresses."""

    def __init__(self, memory: NeuronMemory, contents: Contents) -> None:
        every = contents.points.values()
        counts = [len(instances) for instances in every]
        self.names = tuple(contents.points)
        self.name = np.repeat(np.arange(len(counts)), counts)
        self.instance = np.arange(sum(counts)) - np.repeat(starts(np.array(counts, int)), counts)
        self.objects = np.concatenate([np.zeros(0, np.int64), *(i.objects for i in every)])
        self.points = memory.insides_of(self.objects)
        self._object_order, self._point_order = np.argsort(self.objects), np.argsort(self.points)

    def __getitem__(self, number: int) -> Sender:
        return self.names[self.name[number]], int(self.instance[number])

    def of_objects(self, addresses: np.ndarray) -> np.ndarray:
        """Return the number of the sender at each address of a hoc object, (n,) int64; -1: none."""
        return place_of(self.objects, addresses, self._object_order)

    def of_points(self, addresses: np.ndarray) -> np.ndarray:
        """Return the number of the sender at each address of a C++ object, (n,) int64; -1: none."""
        return place_of(self.points, addresses, self._point_order)


@dataclass(eq=False)
class NeuronWires:
    senders: Senders
    origins: list[Origin]
    every: np.ndarray  # all NetCons' addresses
    read: NetConColumns  # NetCons that have a target
    origin: np.ndarray  # (m,) int64, -1 without a source or if not active
    target: np.ndarray  # (m,) int64, number among `senders`
    width: np.ndarray  # (m,) int64, weight counts
    weights: np.ndarray = field(init=False)  # (m, most), padded with zeros

    def __post_init__(self) -> None:
        self.refresh()

    def refresh(self) -> None:
        place = np.arange(int(self.width.max(initial=0)))
        self.weights = np.zeros((len(self.width), len(place)))
        self.weights[place < self.width[:, None]] = numbers_at(self.weight_addresses)

    @cached_property
    def weight_addresses(self) -> np.ndarray:
        """Addresses of all weights, NetCon after NetCon, (w,) int64."""
        return np.repeat(self.read.weight, self.width) + 8 * ranges(self.width * 0, self.width)

    def record_into(self, vectors: dict[int, tuple[int, int]]) -> bool:
        """Set the Vectors that record some sources; return False if a source has only a gid.

        `vectors` has, by address of the source, the addresses of the Vectors of times and numbers.
        """
        moved = [o.address in vectors for o in self.origins]
        pairs = zip(self.origins, moved, strict=True)
        if any(o.sender is not None and o.sender[0] == OF_GID for o, is_one in pairs if is_one):
            return False
        self.origins = [
            replace(o, times=vectors[o.address][0], numbers=vectors[o.address][1]) if is_one else o
            for o, is_one in zip(self.origins, moved, strict=True)
        ]
        return True

    def target_of(self, k: int) -> Sender:
        return self.senders[int(self.target[k])]

    def sending(self) -> np.ndarray:
        """Return the number of each NetCon's sender, (m,) int64; -1 if a voltage is its source."""
        return np.array([origin.number for origin in self.origins] + [-1], np.int64)[self.origin]


def read_wires(
    read_by: tuple[NeuronMemory, EventSources], places: MemoryPlaces, contents: Contents
) -> tuple[NeuronWires, list[Rejected]]:
    senders = Senders(read_by[0], contents)
    reader = _OriginReader(read_by, places, contents, senders)
    origins, rejected = reader.read(), reader.rejected
    every = list(read_by[0].h.List("NetCon"))
    read = read_by[1].netcons(every)
    target = senders.of_points(read.target)
    for k in np.flatnonzero((target < 0) & (read.target != 0) & read.active).tolist():
        words = {"every": every[k], "every2": every[k].syn()}
        rejected.append(reject("", "neuron.netcon-target-unlocated", **words))
    chosen = np.flatnonzero(target >= 0)  # inactive ones, too: their events may be pending
    all_of_them = read.address
    read, target = NetConColumns(*(column[chosen] for column in read)), target[chosen]
    address = np.array([origin.address for origin in origins], np.int64)
    name, first = np.unique(senders.name[target], return_index=True)
    widths = np.zeros(len(senders.names), np.int64)
    widths[name] = [int(every[k].wcnt()) for k in chosen[first].tolist()]
    width = widths[senders.name[target]]
    origin = np.where(read.active, place_of(address, read.source), -1)
    return NeuronWires(senders, origins, all_of_them, read, origin, target, width), rejected


class _OriginReader:
    """Read the sources of events; `rejected` lists unsupported ones."""

    def __init__(
        self,
        read_by: tuple[NeuronMemory, EventSources],
        places: MemoryPlaces,
        contents: Contents,
        senders: Senders,
    ) -> None:
        self._places, self._senders = places, senders
        self._memory, self._sources = read_by
        texts = {name: instances.entry.text for name, instances in contents.points.items()}
        # NEURON accepts any point process as a source
        self._silent = {n for n, text in texts.items() if text and not re.search(_SENDS, text)}
        self._on_ranks = on_ranks(self._memory.h)
        self._has_gids = self._on_ranks or any(is_pattern(text) for text in texts.values())
        self.rejected = list[Rejected]()

    def read(self) -> list[Origin]:
        sources = self._sources.every()
        objects = np.array([source.object for source in sources], np.int64)
        numbers = self._senders.of_objects(objects).tolist()
        origins = map(self._origin, sources, numbers)
        return [origin for origin in origins if origin is not None]

    def _origin(self, source: Source, number: int) -> Origin | None:
        node = -1 if source.place is None else self._places.node(source.place)
        sender = None
        if node < 0:
            sender = self._sender(source, number)
            if source.place is None and sender is not None and sender[0] in self._silent:
                return None
            # if the sender has a variable x, NEURON compares x with the threshold
            if sender is None or source.place is not None:
                self._refuse(source)
                return None
        if source.is_called:
            self.rejected.append(reject("", "neuron.netcon-record-statement"))
        return Origin(
            **vars(source),
            node=node,
            threshold=self._sources.threshold(source.address),
            sender=sender,
            number=-1 if sender is None else number,
        )

    def _sender(self, source: Source, number: int) -> Sender | None:
        if number >= 0:
            return self._senders[number]
        if source.object or source.place is not None or source.gid < 0 or not self._has_gids:
            return None
        if source.times and self._on_ranks:
            self.rejected.append(reject("", "neuron.netcon-record-gid", gid=source.gid))
        return OF_GID, source.gid

    def _refuse(self, source: Source) -> None:
        if not source.object and source.place is None:
            return  # a cell that was deleted, or a gid that no process has
        of = "an object that sends no events"
        if source.place is not None:
            of = name_of(self._memory, source.place)
        way_out = "expected a voltage or an object that sends events"
        self.rejected.append(reject("", "neuron.netcon-source", way_out, what=of))
