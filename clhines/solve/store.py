"""The store of measured winners: one file per key."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypedDict, cast

import numpy as np
import pyopencl as cl

import clhines
from clhines import files
from clhines.errors import InputError
from clhines.forest import Forest
from clhines.plan.auto import Candidate
from clhines.plan.methods import METHODS
from clhines.solve.tune import Tuning

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from clhines.plan.plan import Option

Key: TypeAlias = Mapping[str, object]  # all that a winner depends on, as text and numbers


class Entry(TypedDict):
    """A file of the store."""

    schema: int
    key: Key
    method: str
    options: dict[str, int]
    seconds: dict[str, float]


_SCHEMA = 1  # of the store's files
_MOST_OPTION = 1 << 30  # value of an option of any candidate, above all that a plan takes


def store_key(
    device: cl.Device, forest: Forest, dtype: DTypeLike, options: Mapping[str, Option]
) -> Key:
    """Return all that a winner depends on, as text and numbers.

    The forest is named by a digest of its distinct trees and of the shape of each cell: O(nodes of
    the distinct trees + cells).
    """
    digest = hashlib.sha256()
    for a in (forest.trees.offsets, forest.trees.parent, forest.shape_of_cell):
        digest.update(np.ascontiguousarray(a, np.int64).data)
    return {
        "device": device.name.strip(),
        "platform": device.platform.name.strip(),
        "driver": device.driver_version,
        "compute_units": device.max_compute_units,
        "dtype": np.dtype(dtype).name,
        "clhines": clhines.__version__,
        "cells": forest.num_cells,
        "nodes": forest.num_nodes,
        "forest": digest.hexdigest(),
        "options": {name: int(value) for name, value in options.items() if value is not None},
    }


def save(key: Key, tuning: Tuning) -> Path:
    """Store a winner, replacing an earlier one of the same key.

    Each key has a file of its own, which appears whole or not at all: processes need no lock.

    Raises
    ------
    OSError
        The folder cannot be written.
    """
    path = _path(key)
    path.parent.mkdir(parents=True, exist_ok=True)
    entry = {
        "schema": _SCHEMA,
        "key": key,
        "method": tuning.best.method,
        "options": dict(tuning.best.options),
        "seconds": {str(c): s for c, s in tuning.rows if math.isfinite(s)},
    }
    try:
        files.write_text(path, json.dumps(entry, indent=1), part="tuned-{}.tmp")
    except InputError as error:
        raise OSError(str(error)) from error
    return path


def load(key: Key) -> Candidate | None:
    """Return the winner stored for a key; None if there is no valid one."""
    entry = _read(_path(key))
    if entry is None or entry["key"] != key:
        return None
    return Candidate(entry["method"], entry["options"])


def stored() -> Iterator[Entry]:
    """Yield all entries of the store that can be used, by file name."""
    for path in _files("tuned-*.json"):
        entry = _read(path)
        if entry is not None:
            yield entry


def clear() -> int:
    """Remove the store's files, unusable ones too; returns how many entries there were.

    Raises
    ------
    OSError
        A file cannot be removed.
    """
    entries = _files("tuned-*.json")
    for path in [*entries, *_files("tuned-*.tmp")]:
        path.unlink(missing_ok=True)
    return len(entries)


def _files(pattern: str) -> list[Path]:
    return sorted(files.cache_folder().glob(pattern))


def _path(key: Key) -> Path:
    text = json.dumps(key, sort_keys=True)
    return files.cache_folder() / f"tuned-{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def _read(path: Path) -> Entry | None:
    """Return an entry, or None for anything but a file that `save` could have written."""
    try:
        entry = files.read_json(path)
    except InputError:
        return None
    if not isinstance(entry, dict) or entry.get("schema") != _SCHEMA:
        return None
    key, method, options = (entry.get(name) for name in ("key", "method", "options"))
    if not isinstance(key, dict) or not isinstance(method, str) or method not in METHODS:
        return None
    if not isinstance(options, dict) or not set(options) <= set(METHODS[method].options):
        return None
    if not all(type(value) is int and 1 <= value <= _MOST_OPTION for value in options.values()):
        return None
    return cast(Entry, entry)
