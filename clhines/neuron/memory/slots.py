"""Places of an instance that NEURON keeps for its events: for net_move, and for WATCH conditions.

What each place of an instance is for is in NEURON's table of mechanisms; where the table has it,
and how wide a place is, is found from what is known of every point process: its second place has
its own address.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from clhines.neuron.memory.memory import Memory
from clhines.neuron.memory.objects import POINTER
from clhines.neuron.memory.raw import Readable, put_numbers, words_at
from clhines.neuron.read.contents import Instances

_BEGIN = "area", "pntproc"  # the first two places of every point process


class Slots:
    """Finds places of instances, and reads and writes WATCH conditions.

    An OSError says that NEURON's library has not what is needed.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        name = "_Z27nrn_dparam_semantics_to_intPKc"
        number = memory.function(name, ctypes.c_int, ctypes.c_char_p)
        self._number = {n: int(number(n.encode())) for n in (*_BEGIN, "netsend", "watch")}
        begin, end = words_at(memory.address("memb_func"), 2)
        count = ctypes.c_int.from_address(memory.address("n_memb_func")).value
        self._sizes = words_at(memory.address("nrn_prop_dparam_size_"), 1)[0]
        self._table, self._stride = begin, (end - begin) // count
        self._readable = Readable()
        self._at: int | None = None
        self._places: dict[tuple[int, str], int] = {}

    def place_of(self, kind: int, what: str) -> int:
        """Return the first place of instances of a mechanism that is for something; -1: none."""
        if (kind, what) not in self._places:
            self._places[kind, what] = self._place_of(kind, what)
        return self._places[kind, what]

    def _place_of(self, kind: int, what: str) -> int:
        size = ctypes.c_int.from_address(self._sizes + 4 * kind).value
        entry = words_at(self._table + self._stride * kind, self._stride // 8)
        wanted = [self._number[n] for n in _BEGIN]
        for word in entry if self._at is None else [entry[self._at]]:
            if word % 4 == 0 and word // 8 * 8 in self._readable:
                found = list((ctypes.c_int * size).from_address(word))
                if found[:2] == wanted:
                    self._at = entry.index(word)
                    number = self._number[what]
                    return found.index(number) if number in found else -1
        raise OSError("the table of mechanisms is not as expected")

    def movable(self, instances: Instances) -> np.ndarray:
        """(k,) int64: where instances keep their event for net_move, emptied; 0 where nowhere."""
        place = self.place_of(instances.entry.number, "netsend")
        if place < 0:
            return np.zeros(len(instances), np.int64)
        begin, width, _ = self._memory.slots_of(self._memory.inside(instances.things[0]))
        if begin != instances.places[0]:
            raise OSError("the places of a point process are not as expected")
        found = instances.places + width * place
        put_numbers(found + 8 * POINTER, np.zeros(len(found)))  # whose bits are 0
        return found

    # -- WATCH -------------------------------------------------------------------------------------

    def watched(self, instances: Instances) -> list[tuple[int, int, bool]]:
        """Return instance, condition and whether it is true, of all conditions that are armed."""
        begin = self.place_of(instances.entry.number, "watch")
        rows = {row: k for k, row in enumerate(instances.columns.numbers().tolist())}
        found: list[tuple[int, int, bool]] = []

        def take(_: int, kind: int, row: int, place: int, above: int) -> None:
            if kind == instances.entry.number:
                found.append((rows[row], place - begin - 1, bool(above)))

        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int] * 5)
        self._memory.function("nrn2core_transfer_WATCH", None, kind)(kind(take))
        return found

    def disarm(self) -> None:
        """Disarm all conditions of the model."""
        self._memory.function("_Z15nrn_watch_clearv", None)()

    def watch(self, instances: Instances, armed: Sequence[tuple[int, int, bool]]) -> None:
        """Arm conditions, as `watched` gives them."""
        kind, begin = instances.entry.number, self.place_of(instances.entry.number, "watch")
        rows = instances.columns.numbers()
        of_row: list[list[int]] = [[] for _ in rows]
        for instance, condition, above in armed:
            of_row[rows[instance]].append((begin + 1 + condition) | int(above) << 32)
        arrays = [(ctypes.c_uint64 * max(len(row), 1))(*row) for row in of_row]
        vectors = (ctypes.c_uint64 * (3 * len(rows)))()  # std::vector: begin, end, end of room
        for k, (row, array) in enumerate(zip(of_row, arrays, strict=True)):
            address = ctypes.addressof(array)
            vectors[3 * k] = address
            vectors[3 * k + 1] = vectors[3 * k + 2] = address + 8 * len(row)
        at = ctypes.addressof(vectors)
        outer = (ctypes.c_uint64 * 3)(at, at + 24 * len(rows), at + 24 * len(rows))
        arguments = *[ctypes.c_int] * 3, ctypes.c_void_p
        activate = self._memory.function("core2nrn_watch_activate", None, *arguments)
        activate(0, kind, begin, ctypes.addressof(outer))
