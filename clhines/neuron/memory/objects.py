"""Addresses of NEURON's objects, variables and point processes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from clhines.neuron.memory.raw import WORD, Place, gather, ref, words_at
from clhines.neuron.memory.session import Hoc
from clhines.neuron.memory.symbols import Library

POINTER = 2  # the word in a dparam slot that holds an address


class Handle(ctypes.Structure):
    """NEURON's handle of a variable: row, holder of the row, column, index, and more."""

    _fields_ = (("words", WORD * 8),)


class Objects(Library):
    """Find addresses of hoc objects and variables; base class of `NeuronMemory`."""

    reference: int  # the word in Python's reference that holds the variable's handle

    @staticmethod
    def object_of(thing: Hoc) -> int:
        return words_at(id(thing), 3)[2]

    @staticmethod
    def objects_of(things: Sequence[Hoc]) -> np.ndarray:
        """Return the addresses of hoc objects or sections, (n,) int64."""
        return gather(np.fromiter(map(id, things), np.int64, len(things)), 3)[:, 2].astype(np.int64)

    @staticmethod
    def insides_of(objects: np.ndarray) -> np.ndarray:
        """Return the addresses of the C++ objects behind hoc objects, (n,) int64."""
        return gather(objects, 2)[:, 1].astype(np.int64)

    def object_address(self, thing: Hoc) -> int:
        return words_at(self.object_of(thing), 2)[1]

    def place(self, reference: Hoc) -> Place:
        """Return the address of a variable from a reference such as ``segment._ref_v``."""
        return self.place_of(words_at(id(reference), self.reference + 4)[self.reference :])

    def known_place(self, thing: Hoc, name: str, size: int = 1) -> Place | None:
        """Return the address of a variable of `thing`; None if hoc has no variable of this name."""
        try:
            return self.place(ref(thing, name, size))
        except (AttributeError, RuntimeError, TypeError, LookupError):
            return None

    def area(self, node: int) -> Place:
        name = "_Z30_nrn_mechanism_get_area_handleP4Node"
        return self.place_of(self.function(name, Handle, ctypes.c_void_p)(node).words[:])

    @staticmethod
    def place_of(words: list[int]) -> Place:
        row, _, column, index = words[:4]
        return Place(column, row, index >> 32, index & 0xFFFFFFFF)

    def value(self, place: Place) -> float:
        return float(self.number(place).value)

    def number(self, place: Place) -> ctypes.c_double:
        """Return a view of the number at an address, valid until NEURON reallocates its column."""
        at = place.column
        if place.row:
            entry = WORD.from_address(place.row).value * place.size + place.place
            at = WORD.from_address(place.column).value + 8 * entry
        return ctypes.c_double.from_address(at)


class PointProcesses:
    """Find data of point processes by the address `point` of the C++ object."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def _property(self, point: int) -> int:
        """Return the address of a point process's data (Prop); OSError if it is not as expected."""
        data, owner = words_at(point, 4)[2:]
        if not data or words_at(owner, 2)[1] != point:
            raise OSError("a point process is not as expected")
        return data

    def fields_of(self, point: int) -> list[int]:
        """Return the addresses of a point process's variables, in the order of its .mod file."""
        data = self._property(point)
        pointer, whole = ctypes.c_void_p, ctypes.c_int
        count = self._library.function("_Z27_nrn_mechanism_get_num_varsP4Prop", whole, pointer)
        name = "_Z27_nrn_mechanism_access_paramP4Propii"
        field = self._library.function(name, pointer, pointer, whole, whole)
        return [field(data, k, 0) for k in range(count(data))]

    def slots_of(self, point: int) -> tuple[int, int, int]:
        """Return a point process's dparam slots: their address, bytes per slot, and count."""
        data = self._property(point)
        places, kind, sizes = self._of_property
        size = ctypes.c_int.from_address(sizes + 4 * kind(data)).value
        begin = words_at(places(data), 1)[0]
        words = words_at(begin, 4 * size) if size > 1 else []  # slot 1 holds `point`
        if words.count(point) != 1 or words.index(point) < 3:
            raise OSError("a point process's places are not as expected")
        return begin, 8 * (words.index(point) - POINTER), size

    @cached_property
    def _of_property(self) -> tuple[Any, Any, int]:
        """NEURON's functions that return a Prop's slots and type, and the table of slot counts."""
        pointer = ctypes.c_void_p
        places = self._library.function("_Z28_nrn_mechanism_access_dparamP4Prop", pointer, pointer)
        kind = self._library.function("_Z23_nrn_mechanism_get_typeP4Prop", ctypes.c_int, pointer)
        return places, kind, words_at(self._library.address("nrn_prop_dparam_size_"), 1)[0]


def on_ranks(h: Hoc) -> bool:
    """Whether NEURON has several MPI ranks that exchange events or voltages.

    Without `set_maxstep` before ``finitialize()``, ranks run alone, as jobs of `submit` do.
    """
    if int(h.ParallelContext().nhost()) < 2:
        return False
    try:
        library = Library(h)
        delay = library.function("_Z19nrn_usable_mindelayv", ctypes.c_double)
        return bool(delay() or library.variable("nrnthread_v_transfer_"))
    except OSError:
        return True
