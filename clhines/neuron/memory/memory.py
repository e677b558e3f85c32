"""Read, by `ctypes`, parts of NEURON's memory that its interpreter does not show.

The offset of a field is never assumed: it is found in an object that is created here with known
contents. If that fails, `NeuronMemory` raises an OSError.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from clhines.core.errors import InputError
from clhines.neuron.memory import raw
from clhines.neuron.memory.objects import Objects, PointProcesses
from clhines.neuron.memory.session import Hoc, all_sections
from clhines.neuron.memory.symbols import HocSymbols

_NAMED = re.compile(r"data_handle<double>\{cont=(\w+) (\w+)")  # a reference as NEURON prints it
_REBUILT = {  # stale-structure flags, and NEURON's functions that rebuild the structures
    "v_structure_change": "_Z15v_setup_vectorsv",
    "diam_changed": "_Z11recalc_diamv",
}
_EVENT = {"VecPlayStep": 12, "VecPlayContinuous": 13}  # words: an event; then a statement or 0
_WORDS = {  # words that stay the same during recording or playing; others hold the position
    "TvecRecord": range(9), "YvecRecord": range(9), "VecRecordDt": range(11),
    "VecRecordDiscrete": range(11), "VecPlayStep": (*range(11), 12, 13),
    "VecPlayContinuous": (*range(11), 13, 14),
}  # fmt: skip
_INDEX = {"VecPlayStep": 11, "VecPlayContinuous": 12}  # words with a position
_ALL = np.ones(16, np.uint64)
_BY_EVENT, _DRIVEN = ("VecRecordDt", "VecRecordDiscrete"), 10  # word with an event's address
_SCALAR = 5  # name_declared() for hoc's scalars
_LISTS = 4  # words in NEURON's object that lists fixed-step recorders and players


class NeuronMemory(Objects):
    """Read NEURON's objects, lists and variables; OSError if the library is not as expected."""

    EVENTS = ("NetCon", "SelfEvent", "PreSyn", "PlayRecordEvent", "NetParEvent", "HocEvent")

    def __init__(self, h: Hoc) -> None:
        super().__init__(h)
        self.symbols, self.points = HocSymbols(h), PointProcesses(self)
        self.kinds = {self.table_of_class(name): name for name in self.EVENTS}
        self.reference = 0
        self.vectors = VectorLists(self)
        self._calibrate()

    def columns(self, reference: Hoc) -> dict[str, int]:
        """Return the address of each column of a mechanism, by variable name.

        `reference`, to one variable, is moved from column to column. Its text names the variable.
        """
        at = raw.WORD.from_address(id(reference) + 8 * (self.reference + 2))
        shape = raw.WORD.from_address(id(reference) + 8 * (self.reference + 3))
        first, own_shape, columns = at.value, shape.value, dict[str, int]()
        owner = _NAMED.match(repr(reference))
        if owner is None:
            return {}
        readable = raw.Readable(8)  # a column may begin anywhere
        shape.value = 1  # NEURON ends the process unless a column's size is a multiple of it
        try:
            for step in (8, -8):
                at.value = first
                while raw.WORD.from_address(at.value).value in readable:
                    named = _NAMED.match(repr(reference))
                    if named is None or named[1] != owner[1]:
                        break
                    columns[named[2]] = at.value
                    at.value += step
        finally:
            at.value, shape.value = first, own_shape
        return columns

    def columns_of(self, thing: Hoc, ranges: Mapping[str, int]) -> dict[str, int]:
        """Return the columns of a mechanism by variable name; empty if none is found.

        `thing` is an instance, `ranges` has the names and lengths of its variables.
        """
        for name, size in ranges.items():
            try:
                columns = self.columns(raw.ref(thing, name, size))
            except (AttributeError, RuntimeError, TypeError):
                continue  # belongs to an ion, or is only a name
            if columns:
                return columns
        return {}

    def named(self, place: raw.Place) -> tuple[str, str]:
        """Return the mechanism and name of the variable at an address; "" for both if unknown."""
        reference = raw.ref(self.h, "t")
        words = [raw.WORD.from_address(id(reference) + 8 * (self.reference + k)) for k in (0, 2, 3)]
        kept = [word.value for word in words]
        try:
            for word, value in zip(words, (place.row, place.column, 1), strict=True):
                word.value = value
            match = _NAMED.match(repr(reference))
        finally:
            for word, value in zip(words, kept, strict=True):
                word.value = value
        return (match[1], match[2]) if match is not None else ("", "")

    @cached_property
    def hoc_names(self) -> dict[int, str]:
        """The names of hoc's numbers by address."""
        names = [n for n in dir(self.h) if self.h.name_declared(n) == _SCALAR and n[0] != "_"]
        places = [self.known_place(self.h, name) for name in names]  # None: a section's variable
        return {at.column: name for at, name in zip(places, names, strict=True) if at is not None}

    def weight_address(self, netcon: Hoc) -> int:
        return self.place(raw.ref(netcon, "weight", 2)).column

    def _calibrate(self) -> None:
        """Find the offset of a variable's handle in Python's reference, and in a recorder."""
        h = self.h
        section = next(iter(all_sections()), None)
        if section is None:
            raise OSError("no section")
        reference, vector = raw.ref(section(0.5), "v"), h.Vector()
        before = self.vectors.entries()
        vector.record(reference)
        new = [p for p in self.vectors.entries() if p not in before]
        try:
            if len(new) != 1:
                raise OSError("a recorder is not in NEURON's list")
            recorder, wrapper = raw.words_at(new[0], 9), raw.words_at(id(reference), 12)
            if self.vectors.classes.get(recorder[0]) != "YvecRecord":
                raise OSError("a recorder is of an unknown class")
            places = [k for k in range(2, 9) if wrapper[k : k + 4] == recorder[1:5]]
            if len(places) != 1 or recorder[8] != self.object_address(vector):
                raise OSError("a recorder is not as expected")
            self.reference = places[0]
        finally:
            vector.play_remove()

    def settle(self) -> None:
        """Let NEURON rebuild its structures; InputError if sections form a loop."""
        end = next(iter(all_sections()))(0)
        try:
            self.h.distance(end, end)  # an error of NEURON in `function` would end the process
        except RuntimeError as error:
            raise InputError(f"NEURON cannot order the sections: {error}") from None
        for name, rebuild in _REBUILT.items():
            if ctypes.c_int.from_address(self.address(name)).value:
                self.function(rebuild, None)()

    @property
    def queue(self) -> int:
        """Address of NEURON's queue of events; 0 if there is none yet."""
        name, pointer = "_Z30net_cvode_instance_event_queueP9NrnThread", ctypes.c_void_p
        return self.function(name, pointer, pointer)(self.variable("nrn_threads")) or 0

    def queued(self) -> np.ndarray:
        """Return the addresses of all entries of NEURON's queue of events, (k,) int64."""
        items = list[int]()
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)
        name = "_ZN6TQueue15forall_callbackEPFvPK6TQItemiE"
        each, at = self.function(name, None, ctypes.c_void_p, kind), self.queue
        if at:
            each(at, kind(lambda item, _: items.append(item)))
        return np.array(items, np.int64)

    # -- gap junctions ---------------------------------------------------------------------------

    @property
    def transfers(self) -> bool:
        """Whether `ParallelContext.setup_transfer` lets each step transfer voltages."""
        return bool(raw.WORD.in_dll(self._library, "nrnthread_v_transfer_").value)

    def transfer(self) -> None:
        """Copy `source_var` voltages to `target_var`, by a hoc method that catches C++ errors."""
        sources = raw.WORD.in_dll(self._library, "nrnmpi_v_transfer_").value
        if sources:
            ctypes.CFUNCTYPE(None)(sources)()
        context = self.h.ParallelContext()
        method = self.symbols.method("ParallelContext", "barrier")
        thing = raw.WORD.from_address(self.object_of(context) + 8)
        messages = ctypes.c_int.from_address(self.address("hoc_execerror_messages"))
        changed = (thing, "nrn_threads"), (method, "nrnthread_v_transfer_")
        kept = [thing.value, method.value, messages.value]
        try:
            messages.value = 0
            for word, name in changed:
                word.value = self.variable(name)
            context.barrier()
        finally:
            thing.value, method.value, messages.value = kept

    # -- mechanisms -----------------------------------------------------------------------

    def order(self) -> list[int]:
        """Return all mechanism numbers in the order in which NEURON calls the mechanisms."""
        count = ctypes.c_int.in_dll(self._library, "n_memb_func").value
        at = raw.WORD.in_dll(self._library, "memb_order_").value
        return list((ctypes.c_short * count).from_address(at))

    def are_points(self) -> np.ndarray:
        count = ctypes.c_int.in_dll(self._library, "n_memb_func").value
        return np.array((ctypes.c_int8 * count).from_address(self.variable("pnt_map"))) != 0

    def num_places(self, type_: int) -> int:
        """Return how many dparam slots (for pointers) an instance of mechanism `type_` has."""
        sizes = raw.words_at(self.address("nrn_prop_dparam_size_"), 1)[0]
        return ctypes.c_int.from_address(sizes + 4 * type_).value

    def has_order(self, order: float, dt: float) -> bool:
        """Whether NEURON will take its next step, of `dt` ms, with ``secondorder = order``."""
        _, step, factor = self.clock()
        never = step != dt or not dt or not factor  # it will set them, or has not yet
        return never or factor == (2.0 if order else 1.0) / dt

    def clock(self) -> ctypes.Array[ctypes.c_double]:
        """Return the first NrnThread's t and dt (ms) and cj (1/ms), a view of NEURON's memory."""
        return (ctypes.c_double * 3).from_address(self.variable("nrn_threads"))


class VectorLists:
    """All Vectors, and NEURON's lists of recording and playing Vectors."""

    def __init__(self, memory: NeuronMemory) -> None:
        self._memory = memory
        self._list = memory.function("_Z22net_cvode_instance_prlv", ctypes.c_void_p)
        self.classes = {memory.table_of_class(name): name for name in _WORDS}
        masks = {name: np.isin(range(16), [*words]) for name, words in _WORDS.items()}
        self._play_masks = {t: masks[name].astype(np.uint64) for t, name in self.classes.items()}
        self._vector_word = 0

    def entries(self) -> list[int]:
        return raw.vector_at(self._list())

    def acting(self) -> list[int]:
        """Return active recorders and players; the others become active at ``h.finitialize()``.

        After ``h.frecord_init()``, a recorder with an event in the queue is already active.
        """
        entries = self.entries()
        listed, acting = {*entries}, set[int]()
        for word in raw.words_at(self._memory.variable("net_cvode_instance"), _LISTS):
            if word != self._list() and raw.is_address(word):
                begin, end, room = raw.words_at(word, 3)
                if begin < end <= room and end - begin <= 8 * len(entries):
                    members = {*raw.vector_at(word)}
                    acting |= members if members <= listed else set()
        waiting = {
            raw.words_at(entry, _DRIVEN + 1)[_DRIVEN]: entry
            for entry in listed - acting
            if self.classes.get(raw.words_at(entry, 1)[0]) in _BY_EVENT
        }
        if waiting:
            due = raw.gather(self._memory.queued())[:, 0].tolist()
            acting |= {waiting[event] for event in due if event in waiting}
        return [entry for entry in entries if entry in acting]

    def played(self, every: bool = False) -> list[raw.PlayEntry]:
        """Read the recorders and players; with `every`, inactive ones too."""
        plays = []
        for address in self.entries() if every else self.acting():
            words = raw.words_at(address, 16)
            what, event, calls = self.classes.get(words[0], "unknown"), 0, False
            how_far = address + 8 * _INDEX.get(what, 0)
            if what in _EVENT:
                event, statement = words[_EVENT[what] :][:2]
                if self._memory.kinds.get(raw.words_at(event, 1)[0]) != "PlayRecordEvent":
                    raise OSError("a Vector that plays is not as expected")
                calls = bool(statement)
            more, place = _WORDS.get(what, ()), self._memory.place_of(words[1:5])
            vectors = tuple(words[k] for k in more if 8 <= k < 11)
            plays.append(raw.PlayEntry(what, place, vectors, event, calls, how_far))
        return plays

    def play_words(self) -> np.ndarray:
        """Return addresses and words of active recorders and players, (n, 17) uint64.

        A word that holds a position in a Vector is set to 0, because it changes during a run.
        """
        address = np.array(self.acting(), np.int64)
        words = raw.gather(address, 16)
        kept = np.array([self._play_masks.get(int(t), _ALL) for t in words[:, 0]]).reshape(-1, 16)
        return np.column_stack([address.astype(np.uint64), words * kept])

    def by_address(self) -> dict[int, Hoc]:
        memory, vectors = self._memory, list(self._memory.h.List("Vector"))
        addresses = memory.insides_of(memory.objects_of(vectors))
        return dict(zip(addresses.tolist(), vectors, strict=True))

    def data(self, address: int) -> np.ndarray:
        """Return the bits of a Vector's numbers, (n,) uint64, by the address of its C++ object."""
        return np.array(raw.vector_at(self.words_of(address)), np.uint64)

    def words_of(self, address: int) -> int:
        """Return the address of the two words that hold a Vector's begin and end."""
        if not self._vector_word:
            vector = self._memory.h.Vector(1)
            begin = self._memory.place(raw.ref(vector, "x")[0]).column
            self._vector_word = raw.words_at(self._memory.object_address(vector), 8).index(begin)
        return address + 8 * self._vector_word
