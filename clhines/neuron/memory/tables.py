"""Read static variables of libraries: NEURON's lists, filled TABLEs, file-level LOCALs.

Only the libraries' ELF symbols name them.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from clhines.neuron.memory.raw import Readable, vector_at, words_at
from clhines.neuron.memory.session import library_path, memory_ranges
from clhines.neuron.memory.symbols import Library

_SYMBOLS = 2  # an ELF section's type
_SYMBOL = np.dtype(
    [("name", "<u4"), ("sort", "u1"), ("rest", "V3"), ("value", "<u8"), ("size", "<u8")]
)
_OBJECT = 1  # symbol type for static variables
_FILE = 4  # symbol type in front of a C++ file's symbols
_MECHANISM = b"_ZL9_mechtype"  # the variable with NEURON's number for a file's mechanism
# words in a thread, and in a mechanism's list there; slots in a mechanism's thread data
_LISTS, _SLOTS, _SLOT_WORDS, _MOST_SLOTS = 3, 4, 5, 64


def read_made(mechanism: int, columns: Sequence[str], rows: int) -> np.ndarray | None:
    """Return a mechanism's TABLE as NEURON filled it, (rows, columns) float64.

    None if the values are not found. `mechanism` is NEURON's number. A column is a C variable, or
    ``NAME.0`` for an element of an array.
    """
    parts = [column.partition(".") for column in columns]
    readable, columns_read = Readable(8), []
    for name, _, place in parts:
        at = static_at(f"_t_{name}", mechanism)
        if at is None:
            return None
        values = words_at(at + 8 * int(place or 0), 1)[0]
        if values not in readable or values + 8 * (rows - 1) not in readable:
            return None
        columns_read.append(_numbers(values, rows))
    return np.array(columns_read).T


def depended(mechanism: int, block: str) -> dict[str, float] | None:
    """Return the DEPEND values for which NEURON filled a block's TABLE; None if not filled."""
    made, saved = _kept_at(mechanism, block)
    if not made or any(ctypes.c_int.from_address(at).value for at in made):
        return None
    return {name: ctypes.c_double.from_address(at).value for name, at in saved.items()}


@cache
def _kept_at(mechanism: int, block: str) -> tuple[list[int], dict[str, int]]:
    """Return the addresses of a TABLE's flags to fill it again, and of its DEPEND values."""
    name = f"_check_{block}"
    begin, made, saved = f"_ZZL{len(name)}{name}".encode(), list[int](), dict[str, int]()
    for base, file in _files():
        if _MECHANISM not in file or _mechanism_of(base, file) != mechanism:
            continue
        of_block = {key: base + value for key, value in file.items() if key.startswith(begin)}
        made += [at for key, at in of_block.items() if key.endswith(b"E9_maktable")]
        names = {at: re.search(rb"E\d+_sav_(\w+)$", key) for key, at in of_block.items()}
        saved |= {match[1].decode(): at for at, match in names.items() if match}
    return made, saved


def local_at(name: str, mechanism: int) -> int | None:
    """Return the address of a mechanism's file-level LOCAL; None if the library lacks it."""
    return static_at(f"_z{name}", mechanism)


def thread_locals_at(memory: Library, mechanism: int) -> int | None:
    """Return the address of the file-level LOCALs of a thread-safe file; None if not found.

    NEURON keeps these LOCALs in an array of numbers for each of its threads.
    """
    try:
        number = ctypes.c_char.in_dll(ctypes.CDLL("libstdc++.so.6"), "_ZTIPd")
    except (OSError, ValueError):
        return None
    readable = Readable(8 * (_SLOTS + 1))
    at = words_at(memory.variable("nrn_threads"), _LISTS + 1)[_LISTS]
    while at in readable and words_at(at, 3)[2] & 0xFFFFFFFF != mechanism:
        at = words_at(at, 1)[0]
    members = words_at(at, 2)[1] if at in readable else 0
    slots = words_at(members, _SLOTS + 1)[_SLOTS] if members in readable else 0
    if slots not in readable or not 0 < words_at(slots - 8, 1)[0] < _MOST_SLOTS:
        return None
    words = words_at(slots, _SLOT_WORDS * words_at(slots - 8, 1)[0])
    of_globals = static_at("_thread1data", mechanism)
    arrays = [
        array
        for array, kind in zip(words[2::_SLOT_WORDS], words[3::_SLOT_WORDS], strict=True)
        if kind == ctypes.addressof(number) and array in readable and array != of_globals
    ]
    return arrays[0] if len(arrays) == 1 else None


def static_at(name: str, mechanism: int) -> int | None:
    """Return the address of a static variable in a mechanism's C file; None if absent."""
    wanted = _mangled(name)
    addresses = [
        base + file[wanted] for base, file in _files()
        if wanted in file and _MECHANISM in file
        and _mechanism_of(base, file) == mechanism
    ]  # fmt: skip
    return addresses[0] if len(addresses) == 1 else None


def _mechanism_of(base: int, file: Mapping[bytes, int]) -> int:
    return ctypes.c_int.from_address(base + file[_MECHANISM]).value


def _mangled(name: str) -> bytes:
    return f"_ZL{len(name)}{name}".encode()


def entries_of(name: str) -> list[int] | None:
    """Return the words in a std::vector to which a static variable of NEURON's library points.

    The list is empty if the variable is 0; the result is None if there is no such variable.
    """
    at = _at_in_neuron(_mangled(name))
    return None if at is None else vector_at(words_at(at, 1)[0])


@cache
def _at_in_neuron(name: bytes) -> int | None:
    files = _files(library_path() or "?")
    return next((base + file[name] for base, file in files if name in file), None)


def _files(library: str = "") -> Iterator[tuple[int, dict[bytes, int]]]:
    """Yield the static variables of each C++ file in a library, and the library's base address.

    The default is all libraries with mechanisms.
    """
    for part in memory_ranges():
        has_mechanisms = "nrnmech" in part.file or part.file.endswith("special")
        if part.offset == 0 and (part.file == library if library else has_mechanisms):
            yield from ((part.begin, file) for file in _symbols(part.file))


@cache
def _symbols(path: str) -> list[dict[bytes, int]]:
    """Return offsets of static variables in a 64-bit ELF file, by name, for each C++ file."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return []
    if data[:5] != b"\x7fELF\x02":
        return []
    begin, size, count = *struct.unpack_from("<Q", data, 0x28), *struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, begin + k * size) for k in range(count)]
    files: list[dict[bytes, int]] = [{}]
    for _, kind, _, _, offset, length, link, *_ in sections:
        symbols = np.frombuffer(
            data, _SYMBOL, length // _SYMBOL.itemsize if kind == _SYMBOLS else 0, offset
        )
        chosen = symbols[np.isin(symbols["sort"], (_FILE, _OBJECT))]
        for name_at, sort, value in chosen[["name", "sort", "value"]].tolist():
            first = sections[link][4] + name_at
            name = data[first : data.index(b"\0", first)]
            if sort == _FILE:
                files.append({})
            elif name.startswith((b"_ZL", b"_ZZL")):
                files[-1][name] = value
    return files


def _numbers(address: int, count: int) -> tuple[float, ...]:
    return tuple(np.array(words_at(address, count), np.uint64).view(np.float64).tolist())
