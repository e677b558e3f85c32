"""Symbols, objects and variables of NEURON's library, by address."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from clhines.neuron.memory.raw import WORD, Place, Readable, gather, ref, words_at
from clhines.neuron.memory.session import Hoc, library_path

POINTER = 2  # word of a place that has an address, where it has one
# of a symbol of hoc: the word that has its procedure or value, and how many words there are
_PROC, _SYMBOL_WORDS = 2, 7
_SCALAR, _BUILT_IN = 5, 2  # of hoc's name_declared; of a symbol of a variable of NEURON's own


class _Handle(ctypes.Structure):
    _fields_ = [("words", WORD * 4)]


class Objects:
    """The library; base of `NeuronMemory`, which finds `reference`. OSError: it is not found."""

    reference: int

    def __init__(self, h: Hoc) -> None:
        path = library_path()
        if path is None:
            raise OSError("no library")
        self._h, self._library = h, ctypes.CDLL(path)
        self._functions: dict[str, Any] = {}

    def symbol(self, name: str) -> Any:
        try:
            return getattr(self._library, name)
        except AttributeError as error:
            raise OSError(str(error)) from None

    def function(self, name: str, result: Any, *arguments: Any) -> Any:
        """Return a function with the ctypes of its result and arguments, likewise."""
        if name not in self._functions:
            found = self._functions[name] = self.symbol(name)
            found.argtypes, found.restype = arguments, result
        return self._functions[name]

    def address(self, name: str) -> int:
        try:
            return ctypes.addressof(ctypes.c_char.in_dll(self._library, name))
        except ValueError as error:
            raise OSError(str(error)) from None

    def variable(self, name: str) -> int:
        return WORD.from_address(self.address(name)).value

    def integer(self, name: str) -> int:
        return ctypes.c_int.from_address(self.address(name)).value

    @contextmanager
    def printed(self) -> Iterator[list[str]]:
        """Take what NEURON prints, in parts, in place of its output."""
        lines = list[str]()

        def take(_: int, text: bytes) -> int:
            lines.append(text.decode("utf-8", "replace"))
            return 0

        function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p)(take)
        variable = WORD.from_address(self.address("nrnpy_pr_stdoe_callback"))
        kept, variable.value = variable.value, ctypes.cast(function, ctypes.c_void_p).value or 0
        try:
            yield lines
        finally:
            variable.value = kept

    # -- names of hoc ---------------------------------------------------------------------

    def template(self, name: str) -> int:
        return words_at(self.known_symbol(name), 3)[_PROC]

    def method(self, template: str, name: str) -> ctypes.c_uint64:
        """Where the address of a method's function is; OSError where a known one is elsewhere."""
        self.built_in("fadvance")
        symbol = self.symbol_in(name, words_at(self.template(template), 2)[1])
        return WORD.from_address(words_at(symbol, 3)[_PROC])

    def built_in(self, name: str) -> ctypes.c_uint64:
        """Where the address of a function of hoc's is; OSError where it is another's."""
        found = self.function_of_hoc(name)
        if found.value != ctypes.cast(self.symbol(f"_Z{len(name)}{name}v"), ctypes.c_void_p).value:
            raise OSError("functions of hoc are not as expected")
        return found

    def function_of_hoc(self, name: str) -> ctypes.c_uint64:
        """Where the address of a function of hoc's is, if such are as expected."""
        return WORD.from_address(words_at(self.known_symbol(name), 3)[_PROC])

    def is_same(self, name: str, example: str) -> bool:
        """Whether a procedure of hoc has the code of another, but for objects looked up in runs."""
        kinds = [words_at(self.symbol_in(n), 2)[1] & 0xFFFF for n in (name, example)]
        readable = Readable(8)
        codes = self._code(name, readable), self._code(example, readable)
        same = kinds[0] == kinds[1] and len(codes[0]) == len(codes[1])
        return same and all(b in (0, a) for a, b in zip(*codes, strict=True))

    def procedure(self, name: str) -> list[int]:
        return words_at(words_at(self.symbol_in(name), 4)[_PROC], 2)

    def _code(self, name: str, readable: Readable) -> list[object]:
        """Return the code of a procedure that hoc knows: equal for two with the same text."""
        proc = words_at(self.symbol_in(name), 4)[_PROC]
        begin, size = words_at(proc, 2)
        known = dict[int, object]()
        for at in self.own_symbols(proc):
            _, kind, value = words_at(at, 3)
            known[at] = kind & 0xFFFF, words_at(value, 1)[0] if value in readable else value
        return [known.get(word, word) for word in words_at(begin, size)]

    @staticmethod
    def own_symbols(procedure: int) -> Iterator[int]:
        """Yield the symbols of a procedure's own: of its numbers, strings and LOCAL variables."""
        names = words_at(procedure, 3)[2]
        at = WORD.from_address(names).value if names else 0
        while at:
            yield at
            at = words_at(at, _SYMBOL_WORDS)[-1]

    @contextmanager
    def example(self, name: str, text: str) -> Iterator[None]:
        """Let hoc know a procedure for a while, at its top level; `text` defines it."""
        here = WORD.from_address(self.address("hoc_symlist"))
        top = self.variable("hoc_top_level_symlist")
        kept, here.value = here.value, top
        try:
            self._h(text)
            symbol = self.symbol_in(name)
            yield
            unlink = "_Z17hoc_unlink_symbolP6SymbolP7Symlist"
            self.function(unlink, None, ctypes.c_void_p, ctypes.c_void_p)(symbol, top)
            self.function("_Z17hoc_free_symspaceP6Symbol", None, ctypes.c_void_p)(symbol)
        finally:
            here.value = kept

    def symbol_in(self, name: str, symbols: int = 0) -> int:
        """Address of a symbol in a list of names, by default that of the top level."""
        symbols = symbols or self.variable("hoc_top_level_symlist")
        name_and_list = ctypes.c_char_p, ctypes.c_void_p
        find = self.function("_Z16hoc_table_lookupPKcP7Symlist", ctypes.c_void_p, *name_and_list)
        return self._there(name, find(name.encode(), symbols))

    def known_symbol(self, name: str) -> int:
        """Address of the symbol of a name, built in or not."""
        look = self.function("_Z10hoc_lookupPKc", ctypes.c_void_p, ctypes.c_char_p)
        return self._there(name, look(name.encode()))

    @staticmethod
    def _there(name: str, symbol: int | None) -> int:
        if not symbol:
            raise OSError(f"hoc knows no {name}")
        return int(symbol)

    def variables_of_hoc(self) -> list[int]:
        """Return the addresses of the variables that hoc's statements have made, less arrays."""
        if self._class_of("celsius") != _BUILT_IN:
            raise OSError("variables of hoc are not as expected")
        names = [n for n in dir(self._h) if not n.startswith("_")]
        own = (n for n in names if self._h.name_declared(n) == _SCALAR and not self._class_of(n))
        places = [self.known_place(self._h, name) for name in own]
        return [p.column for p in places if p is not None and not p.row]

    def _class_of(self, name: str) -> int:
        """Return what kind of variable one is, by its symbol: 0 of those that hoc has made."""
        return words_at(self.known_symbol(name), 2)[1] >> 16 & 0xFFFF

    # -- objects -------------------------------------------------------------------------------

    @staticmethod
    def object_of(thing: Hoc) -> int:
        return words_at(id(thing), 3)[2]

    @staticmethod
    def objects_of(things: Sequence[Hoc]) -> np.ndarray:
        """(n,) int64: addresses of hoc objects, or of sections."""
        return gather(np.fromiter(map(id, things), np.int64, len(things)), 3)[:, 2].astype(np.int64)

    @staticmethod
    def insides_of(objects: np.ndarray) -> np.ndarray:
        """(n,) int64: addresses of the C++ objects behind hoc objects, by theirs."""
        return gather(objects, 2)[:, 1].astype(np.int64)

    def inside(self, thing: Hoc) -> int:
        return words_at(self.object_of(thing), 2)[1]

    def place(self, reference: Hoc) -> Place:
        """Where a variable is; `reference` as ``segment._ref_v``."""
        return self.place_of(words_at(id(reference), self.reference + 4)[self.reference :])

    def known_place(self, thing: Hoc, name: str, size: int = 1) -> Place | None:
        """`place` of a variable; None where hoc has no such one."""
        try:
            return self.place(ref(thing, name, size))
        except (AttributeError, RuntimeError, TypeError, LookupError):
            return None

    def area(self, node: int) -> Place:
        name = "_Z30_nrn_mechanism_get_area_handleP4Node"
        return self.place_of(self.function(name, _Handle, ctypes.c_void_p)(node).words[:])

    @staticmethod
    def place_of(words: list[int]) -> Place:
        row, _, column, index = words[:4]
        return Place(column, row, index >> 32, index & 0xFFFFFFFF)

    def value(self, place: Place) -> float:
        return float(self.number(place).value)

    def number(self, place: Place) -> ctypes.c_double:
        """Return the number at a place, which is there until NEURON moves it."""
        at = place.column
        if place.row:
            entry = self.row(place) * place.size + place.place
            at = WORD.from_address(place.column).value + 8 * entry
        return ctypes.c_double.from_address(at)

    @staticmethod
    def row(place: Place) -> int:
        return WORD.from_address(place.row).value

    def set_value(self, place: Place, value: float) -> None:
        self.number(place).value = value

    # -- point processes -------------------------------------------------------------------------

    def _property(self, point: int) -> int:
        """Address of the data (Prop) of a point process; OSError where it is not as expected."""
        data, owner = words_at(point, 4)[2:]
        if not data or words_at(owner, 2)[1] != point:
            raise OSError("a point process is not as expected")
        return data

    def type_of(self, point: int) -> int:
        """Return the number of a point process's mechanism."""
        return int(self._of_property[1](self._property(point)))

    def fields_of(self, point: int) -> list[int]:
        """Addresses of a point process's variables in the order of its file, hidden ones, too."""
        data = self._property(point)
        pointer, whole = ctypes.c_void_p, ctypes.c_int
        count = self.function("_Z27_nrn_mechanism_get_num_varsP4Prop", whole, pointer)
        name = "_Z27_nrn_mechanism_access_paramP4Propii"
        field = self.function(name, pointer, pointer, whole, whole)
        return [field(data, k, 0) for k in range(count(data))]

    def slots_of(self, point: int) -> tuple[int, int, int]:
        """Begin, width in bytes, and number of places; the second has its own address."""
        data = self._property(point)
        places, kind, sizes = self._of_property
        size = ctypes.c_int.from_address(sizes + 4 * kind(data)).value
        begin = words_at(places(data), 1)[0]
        words = words_at(begin, 4 * size) if size > 1 else []
        if words.count(point) != 1 or words.index(point) < 3:
            raise OSError("the places of a point process are not as expected")
        return begin, 8 * (words.index(point) - POINTER), size

    @cached_property
    def _of_property(self) -> tuple[Any, Any, int]:
        """NEURON's functions from a Prop to its places and type; the table of numbers of places."""
        pointer = ctypes.c_void_p
        places = self.function("_Z28_nrn_mechanism_access_dparamP4Prop", pointer, pointer)
        kind = self.function("_Z23_nrn_mechanism_get_typeP4Prop", ctypes.c_int, pointer)
        return places, kind, words_at(self.address("nrn_prop_dparam_size_"), 1)[0]


def on_ranks(h: Hoc) -> bool:
    """Whether NEURON has several MPI ranks, each with cells of its own, which exchange anything.

    Events they do where `set_maxstep` came before ``finitialize()``; else each runs alone, as the
    jobs of `ParallelContext.submit` do.
    """
    if int(h.ParallelContext().nhost()) < 2:
        return False
    try:
        library = Objects(h)
        delay = library.function("_Z19nrn_usable_mindelayv", ctypes.c_double)
        return bool(delay() or library.variable("nrnthread_v_transfer_"))
    except OSError:
        return True
