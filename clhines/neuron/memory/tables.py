"""Tables of FUNCTION_TABLE, which NEURON keeps in variables that only a library's symbols name.

Each is read as knots and values; some values are compared with what hoc's function gives.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from clhines.mechanisms.nmodl.reading.tree import FunctionTable
from clhines.neuron.memory.raw import Readable, words_at

_SYMBOLS = 2  # type of a section of an ELF file
_ARGUMENT_WORDS = 5  # of a table: size, knots or 0, least and greatest x, what is between
_MOST = 8000  # values of a table
_SAMPLES = 8


def read_table(name: str, count: int, call: Callable[..., float]) -> FunctionTable | None:
    """Table of a function of hoc, or None where there is none, or too large a one."""
    found = [_read(at, count) for at in _variables(name)]
    return next((t for t in found if t is not None and _is_of(t, call)), None)


def _variables(name: str) -> Iterator[int]:
    """Yield addresses of variables that may have the table of a function."""
    symbol = f"_ptable_{name}"
    wanted = f"_ZL{len(symbol)}{symbol}".encode()
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            lines = [line.split(maxsplit=5) for line in maps]
    except OSError:
        return
    for where, _, offset, *_, path in (line for line in lines if len(line) == 6):
        if int(offset, 16) == 0 and ("nrnmech" in path or path.strip().endswith("special")):
            base = int(where.split("-")[0], 16)
            yield from (base + value for value in _symbols(path.strip()).get(wanted, ()))


@cache
def _symbols(path: str) -> dict[bytes, list[int]]:
    """Return the values of the symbols of tables in an ELF file of 64 bits, by name."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return {}
    if data[:5] != b"\x7fELF\x02":
        return {}
    begin, size, count = *struct.unpack_from("<Q", data, 0x28), *struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, begin + k * size) for k in range(count)]
    found: dict[bytes, list[int]] = {}
    for _, kind, _, _, offset, length, link, *_ in sections:
        for at in range(offset, offset + length, 24) if kind == _SYMBOLS else ():
            name_at, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", data, at)
            first = sections[link][4] + name_at
            name = data[first : data.index(b"\0", first)]
            if b"_ptable_" in name:
                found.setdefault(name, []).append(value)
    return found


def _read(variable: int, count: int) -> FunctionTable | None:
    readable = Readable(8)
    table = words_at(variable, 1)[0]
    if table not in readable:
        return None
    values, arguments, _ = words_at(table, 3)
    if values not in readable or arguments not in readable:
        return None
    words = words_at(arguments, _ARGUMENT_WORDS * count)
    axes, total = list[tuple[float, ...]](), 1
    for k in range(count):
        size, knots, *ends, _ = words[_ARGUMENT_WORDS * k : _ARGUMENT_WORDS * (k + 1)]
        size &= 0xFFFFFFFF
        total *= size
        if not 1 <= total <= _MOST:
            return None
        if knots:
            if knots not in readable:
                return None
            axes.append(_numbers(knots, size))
        else:
            least, greatest = np.array(ends, np.uint64).view(np.float64).tolist()
            step = (greatest - least) / max(size - 1, 1)
            axes.append(tuple(least + step * k for k in range(size)))
    return FunctionTable(tuple(axes), _numbers(values, total))


def _numbers(address: int, count: int) -> tuple[float, ...]:
    return tuple(np.array(words_at(address, count), np.uint64).view(np.float64).tolist())


def _is_of(table: FunctionTable, call: Callable[..., float]) -> bool:
    """Whether hoc's function gives the values of a table at some of its knots."""
    for k in np.unique(np.linspace(0, len(table.values) - 1, _SAMPLES).astype(int)).tolist():
        index = np.unravel_index(k, [len(axis) for axis in table.axes])
        x = [axis[j] for axis, j in zip(table.axes, index, strict=True)]
        if not np.isclose(call(*x), table.values[k], rtol=1e-12, atol=0.0, equal_nan=True):
            return False
    return True
