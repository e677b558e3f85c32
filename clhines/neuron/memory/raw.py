"""Read and write 64-bit words of memory; records that describe NEURON's objects."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from clhines.neuron.memory.session import Hoc, memory_ranges

WORD = ctypes.c_uint64
SEARCHED = 40  # words to search in an object
# compare bytes at two addresses, 0 if equal; like `ctypes.memmove`, without Python's lock
compare = ctypes.CDLL(None if os.name == "posix" else "msvcrt").memcmp
compare.argtypes = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t


def ref(thing: object, name: str, size: int = 1) -> Hoc:
    """Return NEURON's reference to a variable, or to the first of `size` elements of an array."""
    reference = getattr(thing, f"_ref_{name}")
    return reference[0] if size > 1 else reference


class Place(NamedTuple):
    """Address of a variable in NEURON's memory."""

    column: int  # where its column's address is; if `row` is 0, the variable's address
    row: int  # where its row number is; 0 if it is in no column
    place: int  # index in an array
    size: int = 1  # array length


@dataclass(frozen=True)
class PlayEntry:
    """An entry in NEURON's list of recorders and players."""

    what: str  # its class, such as ``YvecRecord``
    place: Place
    words: tuple[int, ...]  # the object's next words: vectors, times, ...
    event: int  # the event that drives `Vector.play`, as an address; 0 for a recorder
    calls: bool  # it calls a statement
    how_far: int  # if it plays: where the next value's index is


@dataclass(frozen=True)
class Source:
    """A source of events (PreSyn): a variable with a threshold, or an object that sends events."""

    address: int
    place: Place | None  # the variable's
    object: int  # the sending hoc object's address
    times: int  # address of the Vector that records times, 0 for none
    numbers: int  # address of the Vector that records numbers, 0 for none
    record_as: int  # number appended to `numbers`
    gid: int  # -1 for none
    is_sent: bool  # to other ranks that listen to the gid
    is_called: bool  # `NetCon.record` calls a statement or a function


class QueueEvent(NamedTuple):
    """An event in NEURON's queue, or arrays of all events."""

    what: Any  # NetCon, SelfEvent, PreSyn, PlayRecordEvent, NetParEvent, HocEvent or other
    time: Any  # ms
    address: Any  # event, or its NetCon
    item: Any  # its queue entry's address
    flag: Any  # for a self event
    target: Any  # a self event's point process, as an address
    weight: Any  # where a self event's first weight is, or 0
    bin_order: Any  # position in NEURON's bins, see `read.queue`; -1 for none

    @property
    def has_statement(self) -> bool:
        """Whether an event runs hoc or Python code."""
        return self.what in ("HocEvent", "other") and bool(words_at(self.address, 2)[1])

    @property
    def is_between_steps(self) -> bool:
        """Whether NEURON runs the event's code between steps, not in a point process."""
        return self.what == "HocEvent" and not words_at(self.address, 3)[2]


def words_at(address: int, count: int = SEARCHED) -> list[int]:
    return _array(count).from_address(address)[:]


@cache
def _array(count: int) -> type[ctypes.Array[ctypes.c_uint64]]:
    return WORD * count


class _WordView:
    """Memory as an array without a copy: item k is the `width` words from word k on."""

    def __init__(self, address: int, count: int, width: int) -> None:
        self.__array_interface__ = {
            "version": 3, "typestr": f"|V{8 * width}" if width > 1 else "<u8", "shape": (count,),
            "strides": (8,), "data": (address, False),
        }  # fmt: skip


def gather(addresses: np.ndarray, count: int = 1) -> np.ndarray:
    """Return `count` words at each address, (n, count) uint64; no address may be 0."""
    runs, at = words_in(addresses, count)
    return runs[at].view(np.uint64).reshape(-1, count)


def numbers_at(addresses: np.ndarray) -> np.ndarray:
    return gather(addresses)[:, 0].view(np.float64)


def put_numbers(addresses: np.ndarray, values: np.ndarray) -> None:
    """Set the number at each address; the last value wins if an address occurs twice."""
    numbers, at = numbers_in(addresses)
    numbers[at] = values


def put_words(addresses: np.ndarray, words: np.ndarray) -> None:
    every, at = words_in(addresses)
    every[at] = words


def numbers_in(addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a float64 view of memory that spans `addresses`, and the index of each address."""
    words, at = words_in(addresses)
    return words.view(np.float64), at


def words_in(addresses: np.ndarray, width: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return a view of the words of memory that span `addresses`, and the index of each address.

    An item of the view has `width` words, so that NumPy copies them as a whole.
    """
    addresses = np.asarray(addresses, np.int64)
    if not addresses.size:
        return np.zeros(0, np.uint64), addresses
    first = int(addresses.min())
    count = (int(addresses.max()) - first) // 8 + 1
    return np.asarray(_WordView(first, count, width)), (addresses - first) >> 3


def run_in(words: list[int], wanted: list[int]) -> int:
    """Return the index at which `wanted` first occurs in `words`; ValueError if it does not.

    `words` may go beyond the end of an object, so only the first occurrence is the object's.

    >>> run_in([7, 1, 2, 3, 1, 2], [1, 2])
    1
    """
    for k in range(len(words) - len(wanted) + 1):
        if words[k : k + len(wanted)] == wanted:
            return k
    raise ValueError


def halves(words: list[int]) -> list[int]:
    return [word >> shift & 0xFFFFFFFF for word in words for shift in (0, 32)]


def vector_at(address: int) -> list[int]:
    if not address:
        return []
    begin, end = words_at(address, 2)
    count = (end - begin) // 8
    return words_at(begin, count) if count else []


def word_behind(word: int) -> int:
    """Return the word at address `word`, or `word` itself if it is no readable address.

    Linux's /proc/self/mem says so sooner than a list of all readable addresses (`Readable`).
    """
    if word % 8:
        return word
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            memory.seek(word)
            return int.from_bytes(memory.read(8), "little")
    except (OSError, OverflowError, ValueError):
        return word


class Readable:
    """Addresses from which `room` bytes can be read, from Linux's memory maps; none elsewhere."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._ranges = [(r.begin, r.end) for r in memory_ranges() if r.rights.startswith("rw")]

    def __contains__(self, word: object) -> bool:
        return (
            isinstance(word, int)
            and word % 8 == 0
            and any(begin <= word <= end - self._room for begin, end in self._ranges)
        )

    def likely(self, word: int) -> bool:
        """Whether a word is a readable address; without memory maps, whether it may be one."""
        return word in self if self._ranges else is_address(word)


def is_address(word: int) -> bool:
    return word % 8 == 0 and 1 << 16 < word < 1 << 47
