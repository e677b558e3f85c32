"""Strict reading of SWC files.

A sample is a line of seven columns, ``id type x y z radius parent``; blank lines and text from
``#`` to the end of a line are skipped. Accepted: LF, CRLF and CR line ends, a UTF-8 byte-order
mark, any bytes in comments, spaces and tabs, no newline at the end, ids from 0 up in any order and
with gaps, any type code, any number of children, parents after their children, and whole numbers
written as floats (``1.0000000e+000``), which are read exactly.

Rejected: not seven columns, not a number, not finite, a negative or repeated id, a missing parent,
a cycle, several roots (unless they are split), no samples.

Samples are kept as written. Radii of zero and below, and samples at the position of their parent,
are read here and checked when a matrix is built. The soma, too, is kept as samples:
`simulator.cells.samples` turns a 3-point soma (NeuroMorpho.Org) into a cylinder.
"""

from __future__ import annotations

import os
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Literal, NoReturn, overload

import numpy as np

from clhines.core.arrays import place_of
from clhines.core.errors import InputError, MorphologyError, meant, shown, warn_caller
from clhines.core.files import path_text, read_bytes
from clhines.simulator.cells.morphology import Morphology, Row
from clhines.simulator.cells.samples import REPAIRS, repaired

_COLUMNS = ("id", "type", "x", "y", "z", "radius", "parent")
_INT64_END = 2**63
LARGE = 1e6  # um2: more membrane than any neuron has
MAX_FILE = 64  # MiB, a million samples
_MAX_LINES = 2**22


@overload
def read_swc(
    path: str | os.PathLike[str],
    roots: Literal["refuse"] = "refuse",
    repair: Literal["zero-radius"] | None = None,
) -> Morphology: ...


@overload
def read_swc(
    path: str | os.PathLike[str],
    roots: Literal["split"],
    repair: Literal["zero-radius"] | None = None,
) -> list[Morphology]: ...


def read_swc(
    path: str | os.PathLike[str],
    roots: Literal["refuse", "split"] = "refuse",
    repair: Literal["zero-radius"] | None = None,
) -> Morphology | list[Morphology]:
    """Read an SWC file; reject anything but a tree of finite numbers.

    The module docstring describes the accepted syntax.

    Parameters
    ----------
    path : str or path-like
    roots : {"refuse", "split"}
        If there are several roots (parent -1): reject the file, or return one cell per root.
    repair : {"zero-radius"}, optional
        Interpolate radii of 0 inside neurites (`simulator.cells.samples.zero_radii`), which would
        be rejected when a matrix is built. Each one is reported by a `RepairWarning`, with file,
        line, sample and new radius, and listed in `Morphology.repaired`.

    Returns
    -------
    Morphology or list of Morphology
        Samples in file order, lengths in µm (as in the file); `name` is `path`. With
        ``roots="split"`` a list with one cell per root, in file order, even for a single root; all
        have the same `name`, so that ``name:line`` still finds a sample in the file.

    Raises
    ------
    MorphologyError
        The file cannot be read (message ``file: ...``), is malformed (message ``file:line: ...``),
        or is larger than 64 MiB or 4,194,304 lines.
    InputError
        `roots` or `repair` has another value.

    Warns
    -----
    RepairWarning
        For each repaired sample.
    UserWarning
        The area is above 1e6 µm²: the file may be in nm.
    """
    if not isinstance(roots, str) or roots not in ("refuse", "split"):
        near = meant(roots, ("refuse", "split"))
        raise InputError(f'roots is {shown(roots)}, expected "refuse" or "split"{near}')
    if repair is not None and (not isinstance(repair, str) or repair not in REPAIRS):
        near = meant(repair, REPAIRS)
        raise InputError(f'repair is {shown(repair)}, expected "zero-radius" or None{near}')
    cell = _read(path)
    _warn_of_units(cell)
    top = _root_of_each(cell)
    if roots == "split":
        return [repaired(each, repair) for each in _split(cell, top)]
    _refuse_several_roots(cell)
    return repaired(cell, repair)


def _warn_of_units(cell: Morphology) -> None:
    """Warn if a file seems to be in nm: neurons have some 1,000 to 100,000 µm²."""
    child = np.flatnonzero(cell.parent >= 0)
    parent = cell.parent[child]
    with np.errstate(all="ignore"):
        length = np.linalg.norm(cell.xyz[child] - cell.xyz[parent], axis=1)
        area = float(np.pi * np.sum(length * np.abs(cell.radius[child] + cell.radius[parent])))
    if area > LARGE and length.max(initial=0.0) < 1e8:  # 10 cm in nm: a longer one is an error
        warn_caller(
            f"{cell.name}: the area of the cell is {area:.2g} µm², above {LARGE:.0e}; expected "
            "lengths in µm: divide coordinates and radii by 1000 if they are in nm",
            UserWarning,
        )


def _read(path: str | os.PathLike[str]) -> Morphology:
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"path is {shown(path)}, expected the name of an SWC file")
    name = path_text(path)
    rows, lines = _parse(_read_bytes(os.fspath(path), name), name)
    whole = np.array([row[:3] for row in rows], dtype=np.int64)
    real = np.array([row[3:] for row in rows], dtype=np.float64)
    line = np.array(lines, dtype=np.int64)
    return Morphology(
        parent=_parent_indices(whole[:, 0], whole[:, 2], line, name),
        xyz=np.ascontiguousarray(real[:, :3]),
        radius=real[:, 3].copy(),
        type=whole[:, 1].copy(),
        id=whole[:, 0].copy(),
        line=line,
        name=name,
    )


def _refuse(name: str, line: int, message: str) -> NoReturn:
    raise MorphologyError(f"{name}:{line}: {message}")


def _read_bytes(path: str, name: str) -> bytes:
    try:
        data = read_bytes(path, MAX_FILE * 2**20)
    except InputError as error:
        raise MorphologyError(f"{error}, expected an SWC file") from error
    lines = data.count(b"\n") + data.count(b"\r")
    if lines > _MAX_LINES:
        raise MorphologyError(f"{name}: has {lines} lines, expected at most {_MAX_LINES}")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        _refuse(name, 1, "a UTF-16 byte-order mark, expected ASCII or UTF-8")
    return data.removeprefix(b"\xef\xbb\xbf")


def _parse(data: bytes, name: str) -> tuple[list[Row], list[int]]:
    rows: list[Row] = []
    lines: list[int] = []
    number = 0
    for number, text in enumerate(data.splitlines(), 1):
        fields = text.partition(b"#")[0].split(None, 7)
        if not fields:
            continue
        if len(fields) != 7:
            columns, most = " ".join(_COLUMNS), 1000
            many = len(text.partition(b"#")[0].split(None, most))
            count = f"more than {most}" if many > most else str(many)
            got = _show(text.strip())
            _refuse(name, number, f"{count} columns in {got}, expected 7: {columns}")
        rows.append(_row(fields, number, name))
        lines.append(number)
    if not rows:
        _refuse(name, max(number, 1), "no samples up to the end of the file, expected at least one")
    return rows, lines


def _row(fields: list[bytes], line: int, name: str) -> Row:
    whole = {k: _whole(fields[k], _COLUMNS[k], line, name) for k in (0, 1, 6)}
    x, y, z, r = (_real(fields[k], _COLUMNS[k], line, name) for k in (2, 3, 4, 5))
    if whole[0] < 0:
        _refuse(name, line, f"id is {whole[0]}, expected 0 or more")
    return whole[0], whole[1], whole[6], x, y, z, r


def _whole(text: bytes, column: str, line: int, name: str) -> int:
    """Convert a text such as 12 or 1.0e+00 exactly to a whole number, without a float."""
    try:
        value = Decimal("nan") if b"_" in text else Decimal(text.decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError):
        value = Decimal("nan")
    if not value.is_finite():
        _refuse(name, line, f"{column} is {_show(text)}, expected a whole number")
    # Test the size first: int(Decimal("1e999999999")) would exhaust memory.
    if not -_INT64_END <= value < _INT64_END:
        _refuse(name, line, f"{column} is {_show(text)}, expected a whole number of 64 bits")
    if value != value.to_integral_value():
        _refuse(name, line, f"{column} is {_show(text)}, expected a whole number")
    return int(value)


def _real(text: bytes, column: str, line: int, name: str) -> float:
    try:
        value = None if b"_" in text else float(text)
    except ValueError:
        value = None
    if value is None:
        _refuse(name, line, f"{column} is {_show(text)}, expected a number like -1.5")
    if not isfinite(value):
        _refuse(name, line, f"{column} is {_show(text)}, expected a finite number")
    return value


def _show(text: bytes) -> str:
    short = text if len(text) <= 40 else text[:37] + b"..."
    return ascii(short.decode("utf-8", "backslashreplace"))


def _parent_indices(
    ids: np.ndarray, parent_ids: np.ndarray, line: np.ndarray, name: str
) -> np.ndarray:
    order = np.argsort(ids, kind="stable")
    in_order = ids[order]
    repeats = order[1:][in_order[1:] == in_order[:-1]]
    if repeats.size:
        k = repeats.min()
        first = line[np.argmax(ids == ids[k])]
        _refuse(name, line[k], f"id {ids[k]} is also on line {first}, expected unique ids")
    place = place_of(ids, parent_ids, order)
    absent = np.flatnonzero((place < 0) & (parent_ids != -1))
    if absent.size:
        k = absent[0]
        message = f"sample {ids[k]} has parent {parent_ids[k]}, which is absent, expected the id"
        _refuse(name, line[k], f"{message} of a sample or -1 for the root")
    return place


def _root_of_each(cell: Morphology) -> np.ndarray:
    parent, n = cell.parent, cell.parent.size
    top = np.where(parent < 0, np.arange(n), parent)
    for _ in range(n.bit_length()):  # 2**bit_length > n steps towards the root
        top = top[top]
    unrooted = parent[top] >= 0
    if unrooted.any():
        # After so many steps a sample without a root is on its cycle, and all of it is reached.
        start = int(top[unrooted].min())
        _refuse(cell.name, cell.line[start], _describe_cycle(parent, cell.id, start))
    return top


def _describe_cycle(parent: np.ndarray, ids: np.ndarray, start: int) -> str:
    if parent[start] == start:
        return f"sample {ids[start]} is its own parent, expected another sample or -1 for the root"
    cycle = [start]
    while parent[cycle[-1]] != start:
        cycle.append(int(parent[cycle[-1]]))
    chain = " -> ".join(str(ids[k]) for k in cycle[:6]) + (" -> ..." if len(cycle) > 6 else "")
    return (
        f"sample {ids[start]} is on a cycle of {len(cycle)} samples, from child to parent {chain}"
        f" -> {ids[start]}, expected a tree"
    )


def _refuse_several_roots(cell: Morphology) -> None:
    tops, ids, line = np.flatnonzero(cell.parent < 0), cell.id, cell.line
    if tops.size > 1:
        first, second = tops[:2]
        _refuse(
            cell.name,
            line[second],
            f"sample {ids[second]} is a second root (the first is sample {ids[first]} on line "
            f"{line[first]}), {tops.size} roots in all, expected 1 (or one cell per root, by "
            "roots='split', --roots split)",
        )


def _split(cell: Morphology, top: np.ndarray) -> list[Morphology]:
    order = np.argsort(top, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(top[order])) + 1)
    index = np.empty_like(top)
    for group in groups:
        index[group] = np.arange(group.size)
    local = np.where(cell.parent < 0, -1, index[cell.parent])
    names = "xyz", "radius", "type", "id", "line"
    return [
        replace(cell, parent=local[group], **{n: getattr(cell, n)[group] for n in names})
        for group in groups
    ]
