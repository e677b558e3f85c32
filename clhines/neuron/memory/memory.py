"""What NEURON's interpreter does not tell, read from its memory.

NEURON exports the lists of what records and plays vectors and of the sources of events, and the
queue of events, but no function for Python reads them. They are read here with `ctypes`. Where
fields are in an object is found by making one whose contents are known, never assumed: where that
fails, `Memory` is not available, and users are asked instead.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from clhines.neuron.memory.objects import Objects
from clhines.neuron.memory.raw import (
    WORD,
    Place,
    Played,
    Queued,
    Readable,
    Source,
    gather,
    halves,
    is_address,
    ref,
    run_in,
    vector_at,
    words_at,
)
from clhines.neuron.memory.session import Hoc, library_path

_NAMED = re.compile(r"data_handle<double>\{cont=(\w+) (\w+)")  # NEURON's own text of a reference
_REBUILT = {  # flags, and what NEURON does where they are set
    "tree_changed": "_Z14setup_topologyv",
    "v_structure_change": "_Z15v_setup_vectorsv",
    "diam_changed": "_Z11recalc_diamv",
}
_EVENT = {"VecPlayStep": 12, "VecPlayContinuous": 13}  # words: an event; then a statement, or 0
_BIN_OF_ITEM = 40  # bytes: where an entry of the queue has the number of its bin, or -1
_MARK, _THRESHOLD, _DELAY = 0x5EED_C0DE, 1234.56789, 98.7654321  # numbers that are found again
_LISTS = 4  # words of NEURON's object with the lists of what records and plays in fixed steps
_QUEUE_WORDS = 16
NETCON_WORDS = 7
_SAMPLES = 20  # of what is read at once, so many are compared with what hoc says


class NetCons(NamedTuple):
    """What NetCons are told by their memory.

    Attributes
    ----------
    address : (m,) int64
    source, target : (m,) int64
        Addresses of the source (PreSyn) and of the point process; 0 for none.
    active : (m,) bool
    delay : (m,) float64, ms
    weight : (m,) int64
        Address of the first weight; 0 of one without.
    """

    address: np.ndarray
    source: np.ndarray
    target: np.ndarray
    active: np.ndarray
    delay: np.ndarray
    weight: np.ndarray


class Memory(Objects):
    """Reads NEURON's lists.

    Parameters
    ----------
    h : Hoc

    Raises
    ------
    OSError
        The library, or something in it, is not found or not as expected.
    """

    CLASSES = (
        "YvecRecord",
        "TvecRecord",
        "VecRecordDiscrete",
        "VecRecordDt",
        "VecPlayStep",
        "VecPlayContinuous",
    )

    EVENTS = ("NetCon", "SelfEvent", "PreSyn", "PlayRecordEvent", "NetParEvent")

    def __init__(self, h: Hoc) -> None:
        path = library_path()
        if path is None:
            raise OSError("no library")
        self._h, self._library = h, ctypes.CDLL(path)
        self._functions = {}
        self._lists: dict[str, Any] = {}
        for name, symbol in (
            ("play", "_Z22net_cvode_instance_prlv"),
            ("sources", "_Z22net_cvode_instance_pslv"),
        ):
            self._lists[name] = self.symbol(symbol)
            self._lists[name].restype = ctypes.c_void_p
        self._classes = {self.address(f"_ZTV{len(name)}{name}") + 16: name for name in self.CLASSES}
        self._events = {self.address(f"_ZTV{len(name)}{name}") + 16: name for name in self.EVENTS}
        self._reference = 0
        self._kept: list[ctypes.Array[ctypes.c_uint64]] = []
        self._source_fields: dict[str, int] = {}
        self._vector_word = 0
        self._calibrate()
        self._calibrate_sources()

    def columns(self, reference: Hoc) -> dict[str, int]:
        """Columns of all variables of a mechanism by name, of those that hoc does not see, too.

        Parameters
        ----------
        reference : Hoc
            To a variable of it, as ``segment.hh._ref_m``. Columns are side by side: the reference
            is pointed to one after the other, and NEURON names it.
        """
        at = WORD.from_address(id(reference) + 8 * (self._reference + 2))
        shape = WORD.from_address(id(reference) + 8 * (self._reference + 3))
        first, own, found = at.value, shape.value, dict[str, int]()
        owner = _NAMED.match(repr(reference))
        if owner is None:
            return {}
        readable = Readable()
        shape.value = (
            1  # not an array's: NEURON ends the process where a column's size is no multiple
        )
        try:
            for step in (8, -8):
                at.value = first
                while WORD.from_address(at.value).value in readable:
                    named = _NAMED.match(repr(reference))
                    if named is None or named[1] != owner[1]:
                        break
                    found[named[2]] = at.value
                    at.value += step
        finally:
            at.value, shape.value = first, own
        return found

    def named(self, place: Place) -> tuple[str, str]:
        """Return mechanism and name of a variable that has a row; empty of another one."""
        reference = ref(self._h, "t")
        words = [WORD.from_address(id(reference) + 8 * (self._reference + k)) for k in (0, 2, 3)]
        kept = [word.value for word in words]
        try:
            for word, value in zip(words, (place.row, place.column, 1), strict=True):
                word.value = value
            found = _NAMED.match(repr(reference))
        finally:
            for word, value in zip(words, kept, strict=True):
                word.value = value
        return (found[1], found[2]) if found is not None else ("", "")

    def weight_address(self, netcon: Hoc) -> int:
        """Address of the first weight of a NetCon."""
        return self.place(ref(netcon, "weight", 2)).column

    @property
    def time_address(self) -> int:
        """Address of NEURON's t."""
        return self.place(ref(self._h, "t")).column

    def _calibrate(self) -> None:
        """Find where a wrapped reference and a recorder keep the place of a variable."""
        h = self._h
        section = next(iter(h.allsec()), None)
        if section is None:
            raise OSError("no section")
        reference, vector = ref(section(0.5), "v"), h.Vector()
        before = self._entries()
        vector.record(reference)
        new = [p for p in self._entries() if p not in before]
        try:
            if len(new) != 1:
                raise OSError("a recorder is not in NEURON's list")
            recorder, wrapper = words_at(new[0], 9), words_at(id(reference), 12)
            if self._classes.get(recorder[0]) != "YvecRecord":
                raise OSError("a recorder is of an unknown class")
            found = [k for k in range(2, 9) if wrapper[k : k + 4] == recorder[1:5]]
            if len(found) != 1 or recorder[8] != self.inside(vector):
                raise OSError("a recorder is not as expected")
            self._reference = found[0]
        finally:
            vector.play_remove()

    def settle(self) -> None:
        """Let NEURON rebuild lists, areas and resistances after a change of the model."""
        for name, rebuild in _REBUILT.items():
            if ctypes.c_int.from_address(self.address(name)).value:
                self.function(rebuild, None)()

    # -- vectors that record and play ------------------------------------------------------------

    def _entries(self) -> list[int]:
        return vector_at(self._lists["play"]())

    def acting(self) -> list[int]:
        """Addresses of what records and plays: what came after h.finitialize() does not yet."""
        entries = self._entries()
        known, found = {*entries}, set[int]()
        for word in words_at(self.variable("net_cvode_instance"), _LISTS):
            if word != self._lists["play"]() and is_address(word):
                begin, end, room = words_at(word, 3)
                if begin < end <= room and end - begin <= 8 * len(entries):
                    inside = {*vector_at(word)}
                    found |= inside if inside <= known else set()
        return [entry for entry in entries if entry in found]

    def played(self, every: bool = False) -> list[Played]:
        """Return what records and plays; or all that will."""
        found = []
        for address in self._entries() if every else self.acting():
            words = words_at(address, 16)
            what, calls = self._classes.get(words[0], "unknown"), False
            if what in _EVENT:
                event, statement = words[_EVENT[what] :][:2]
                if self._events.get(words_at(event, 1)[0]) != "PlayRecordEvent":
                    raise OSError("a Vector that plays is not as expected")
                calls = bool(statement)
            found.append(Played(what, self._place(words[1:5]), tuple(words[8:]), calls))
        return found

    def play_words(self) -> list[list[int]]:
        """Return the words of all that records or plays."""
        return [[address, *words_at(address, 16)] for address in self.acting()]

    def new_vector(self) -> Hoc:
        """Make a Vector."""
        return self._h.Vector(1)

    def vector_data(self, address: int) -> np.ndarray:
        """(n,) uint64: the numbers of a Vector, by the address of its C++ object."""
        if not self._vector_word:
            vector = self.new_vector()
            begin = self.place(ref(vector, "x")[0]).column
            self._vector_word = words_at(self.inside(vector), 8).index(begin)
        return np.array(vector_at(address + 8 * self._vector_word), np.uint64)

    # -- sources of events -----------------------------------------------------------------------

    def sources(self) -> list[Source]:
        """Return NEURON's sources of events (PreSyn)."""
        list_ = self._lists["sources"]()
        return [self._source(a) for a in vector_at(list_)] if list_ else []

    def _source(self, address: int) -> Source:
        f = self._source_fields
        words = words_at(address)
        place = self._place(words[f["place"] : f["place"] + 4])
        known = place if place.column else None
        signed = [i - (1 << 32) if i >> 31 else i for i in halves(words[f["rank"] :])]
        at = f["odd"]
        return Source(
            address, known, words[f["place"] + 4], words[f["times"]], words[f["times"] + 1],
            signed[at], signed[at + 2], bool(words[f["rank"]]),
        )  # fmt: skip

    def source_words(self) -> np.ndarray:
        """(s, 10) uint64: addresses of all sources, and what `sources` and `threshold` take."""
        list_, f = self._lists["sources"](), self._source_fields
        address = np.array(vector_at(list_) if list_ else [], np.int64)
        first, rank = f["place"], f["rank"]
        chosen = [*range(first, first + 5), f["times"], f["times"] + 1, rank, f["threshold"]]
        words = gather(address, max(*chosen, rank + f["odd"] // 2 + 1) + 1)
        halves_ = words.view(np.uint32)[:, [2 * rank + f["odd"], 2 * rank + f["odd"] + 2]]
        return np.column_stack([address.astype(np.uint64), words[:, chosen], halves_])

    def threshold(self, address: int) -> float:
        """Threshold of a source, mV."""
        at = self._source_fields["threshold"]
        return float(ctypes.c_double.from_address(address + 8 * at).value)

    def netcons(self, things: Sequence[Hoc]) -> NetCons:
        """Return what all NetCons are told by their memory.

        Raises
        ------
        OSError
            It is not as expected.
        """
        address, f = self.insides_of(things), self._source_fields
        words = gather(address, NETCON_WORDS)
        delay = words[:, f["delay"]].copy().view(np.float64)
        source = words[:, f["of_netcon"]].astype(np.int64)
        targets = next((t for t in things if t.syn() is not None), None)
        target = weight = np.zeros(len(things), np.int64)
        active = np.zeros(len(things), np.uint8)
        try:
            if targets is not None:
                own = words_at(self.inside(targets), NETCON_WORDS)
                target = words[:, own.index(self.inside(targets.syn()))].astype(np.int64)
                active = words.view(np.uint8)[:, self._active_byte(targets)]
            weighted = next((t for t in things if t.wcnt()), None)
            if weighted is not None:
                own = words_at(self.inside(weighted), NETCON_WORDS)
                weight = words[:, own.index(self.weight_address(weighted))].astype(np.int64)
        except ValueError:
            raise OSError("a NetCon is not as expected") from None
        found = NetCons(address, source, target, active != 0, delay, weight)
        for k in range(0, len(things), max(len(things) // _SAMPLES, 1)):
            self._check_netcon(things[k], found, k)
        return found

    def _active_byte(self, thing: Hoc) -> int:
        """Return which byte of a NetCon says whether it is active; one that has a target."""
        was = bool(thing.active())
        found = []
        for active in (not was, was):
            thing.active(active)
            found.append(np.array(words_at(self.inside(thing), NETCON_WORDS), np.uint64))
        return int(np.flatnonzero(np.not_equal(*(words.view(np.uint8) for words in found)))[0])

    def _check_netcon(self, thing: Hoc, found: NetCons, k: int) -> None:
        """Compare with what hoc says."""
        syn = thing.syn()
        same = (
            found.target[k] == (0 if syn is None else self.inside(syn))
            and found.active[k] == bool(thing.active())
            and found.delay[k] == thing.delay
            and (not thing.wcnt() or found.weight[k] == self.weight_address(thing))
        )
        if not same:
            raise OSError(f"{thing} is not as expected")

    def _calibrate_sources(self) -> None:
        """Find where a source keeps its variable, its threshold and its vectors."""
        h = self._h
        reference, netcon, own = self._new_source()
        times, numbers = h.Vector(), h.Vector()
        netcon.record(times, numbers, _MARK)
        netcon.threshold, netcon.delay = _THRESHOLD, _DELAY
        at = self.inside(netcon)
        try:
            found = words_at(at, NETCON_WORDS)
            words = words_at(own)
            place = words_at(id(reference), self._reference + 4)[self._reference :]
            pair = [self.inside(times), self.inside(numbers)]
            level, delay = (
                struct.unpack("<Q", struct.pack("<d", x))[0] for x in (_THRESHOLD, _DELAY)
            )
            rank = words.index(pair[0]) + 2
            self._source_fields = {
                "of_netcon": found.index(own),
                "delay": found.index(delay),
                "place": run_in(words, place),
                "threshold": words.index(level),
                "times": run_in(words, pair),
                "rank": rank,
                "odd": halves(words[rank:]).index(_MARK),
            }
        except ValueError:
            raise OSError("a source is not as expected") from None
        finally:
            netcon.record()

    def _new_source(self) -> tuple[Hoc, Hoc, int]:
        """Make a NetCon with a source that was none before: a voltage, the NetCon, the source."""
        for section in self._h.allsec():
            for x in (1.0, 0.0, 0.5):
                before = {*vector_at(self._lists["sources"]() or 0)}
                reference = ref(section(x), "v")
                netcon = self._h.NetCon(reference, None, sec=section)
                new = [a for a in vector_at(self._lists["sources"]()) if a not in before]
                if len(new) == 1:
                    return reference, netcon, new[0]
        raise OSError("each voltage is a source")

    # -- events on their way -----------------------------------------------------------------------

    @property
    def queue_address(self) -> int:
        """Address of NEURON's queue of events, 0 where it has none."""
        name, pointer = "_Z30net_cvode_instance_event_queueP9NrnThread", ctypes.c_void_p
        queue = self.function(name, pointer, pointer)
        return queue(WORD.in_dll(self._library, "nrn_threads").value) or 0

    def queue_words(self) -> list[int]:
        """Return the words of NEURON's queue, which counts what is put in and taken out."""
        at = self.queue_address
        return words_at(at, _QUEUE_WORDS) if at else []

    def events(self) -> list[Queued]:
        """Return the events on their way, by time."""
        found: list[Queued] = []

        def take(item: int, _: int) -> None:
            data, _ = words_at(item, 2)
            time = ctypes.c_double.from_address(item + 8).value
            words = words_at(data, 5)
            what = self._events.get(words[0], "other")
            flag = ctypes.c_double.from_address(data + 8).value
            in_bin = ctypes.c_int.from_address(item + _BIN_OF_ITEM).value >= 0
            order = len(found) if in_bin else -1
            found.append(Queued(what, time, data, item, flag, words[2], words[3], words[4], order))

        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)
        name = "_ZN6TQueue15forall_callbackEPFvPK6TQItemiE"
        each = self.function(name, None, ctypes.c_void_p, kind)
        at = self.queue_address
        if at:
            each(at, kind(take))
        return sorted(found, key=lambda event: event.time)

    def remove_event(self, item: int) -> None:
        """Take an event out of the queue; `item` as in `Queued`."""
        remove = self.function("_ZN6TQueue6removeEP6TQItem", None, ctypes.c_void_p, ctypes.c_void_p)
        remove(self.queue_address, item)

    def move_event(self, item: int, time: float) -> None:
        """Let an event in the queue come at another time."""
        pointer = ctypes.c_void_p
        move = self.function("_ZN6TQueue4moveEP6TQItemd", None, pointer, pointer, ctypes.c_double)
        move(self.queue_address, item, time)

    def send(self, netcon: int, time: float) -> None:
        """Put an event of a NetCon into the queue, by its address, as ``NetCon.event(time)``."""
        name, pointer = "_ZN8NetCvode5eventEdP13DiscreteEventP9NrnThread", ctypes.c_void_p
        send = self.function(name, None, pointer, ctypes.c_double, pointer, pointer)
        send(self.variable("net_cvode_instance"), time, netcon, self.variable("nrn_threads"))

    def send_self(
        self, point: int, time: float, flag: float, weight: int = 0, movable: int = 0
    ) -> None:
        """Put a self event into the queue.

        Parameters
        ----------
        point : int
            Address of the point process.
        time : float, ms
        flag : float
        weight : int
            Address of the weights that it comes with.
        movable : int
            Where the instance keeps its event for net_move; 0 where it is not known.
        """
        name = "_Z12nrn_net_sendPN6neuron9container19generic_data_handleEPdP13Point_processdd"
        pointers = [ctypes.c_void_p] * 3
        send = self.function(name, None, *pointers, ctypes.c_double, ctypes.c_double)
        if not movable:
            room = (ctypes.c_uint64 * 8)()
            self._kept.append(room)
            movable = ctypes.addressof(room)
        send(movable, weight, point, time, flag)

    def deliver_events(self, t: float) -> None:
        """Deliver what is due up to a time, but for what is in bins, as at the end of a step."""
        name, pointer = "_ZN8NetCvode14deliver_eventsEdP9NrnThread", ctypes.c_void_p
        deliver = self.function(name, None, pointer, ctypes.c_double, pointer)
        deliver(self.variable("net_cvode_instance"), t, self.variable("nrn_threads"))

    def above(self, source: int) -> bool:
        """Return whether NEURON has seen the voltage of a source above the threshold."""
        at = source + 8 * (self._source_fields["threshold"] - 4)
        return bool(ctypes.c_bool.from_address(at).value)

    def set_above(self, source: int, above: bool) -> None:
        """Tell a source whether its voltage is above the threshold."""
        at = source + 8 * (self._source_fields["threshold"] - 4)  # before the vector of NetCons
        ctypes.c_bool.from_address(at).value = above

    # -- gap junctions ---------------------------------------------------------------------------

    @property
    def transfers(self) -> bool:
        """Whether voltages are transferred in every step, as `ParallelContext` was told."""
        return bool(WORD.in_dll(self._library, "nrnthread_v_transfer_").value)

    def transfer(self) -> None:
        """Transfer voltages as in a step."""
        gather = WORD.in_dll(self._library, "nrnmpi_v_transfer_").value
        if gather:
            ctypes.CFUNCTYPE(None)(gather)()
        scatter = WORD.in_dll(self._library, "nrnthread_v_transfer_").value
        threads = WORD.in_dll(self._library, "nrn_threads").value
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(scatter)(threads)

    # -- mechanisms -----------------------------------------------------------------------

    def order(self) -> list[int]:
        """Types of mechanisms in the order in which NEURON calls them."""
        count = ctypes.c_int.in_dll(self._library, "n_memb_func").value
        at = WORD.in_dll(self._library, "memb_order_").value
        return list((ctypes.c_short * count).from_address(at))

    def are_points(self) -> np.ndarray:
        """Return of each mechanism whether it is a point process or artificial cell, bool."""
        count = ctypes.c_int.in_dll(self._library, "n_memb_func").value
        return np.array((ctypes.c_int8 * count).from_address(self.variable("pnt_map"))) != 0

    def num_places(self, type_: int) -> int:
        """Return how many places an instance of a mechanism has that are no variables."""
        sizes = words_at(self.address("nrn_prop_dparam_size_"), 1)[0]
        return ctypes.c_int.from_address(sizes + 4 * type_).value

    def template(self, name: str) -> int:
        """Address of what hoc knows of a class."""
        look = self.function("_Z10hoc_lookupPKc", ctypes.c_void_p, ctypes.c_char_p)
        symbol = look(name.encode())
        if not symbol:
            raise OSError(f"hoc knows no {name}")
        return words_at(symbol, 3)[2]

    def has_order(self, order: float, dt: float) -> bool:
        """Whether NEURON's steps are of the order of time, as it sets them for dt."""
        at = self.variable("nrn_threads")
        _, own_dt, factor = (ctypes.c_double * 3).from_address(at)
        never = own_dt != dt or not dt or not factor  # it sets them anew, or has not yet
        return never or factor == (2.0 if order else 1.0) / dt
