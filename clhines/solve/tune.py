"""Measuring on a device: the memory floor, candidates of `auto`, and the store of winners."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypedDict, cast

import numpy as np
import pyopencl as cl
from numpy.typing import DTypeLike

import clhines
from clhines import files, reference
from clhines.device.timing import Launch, seconds_in_turns
from clhines.errors import BuildError, DeviceMemoryError
from clhines.forest import Forest
from clhines.plan.auto import Candidate
from clhines.plan.methods import METHODS
from clhines.plan.plan import Option, Plan

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
    """Return all that a winner depends on; the forest by a digest of its trees and cells."""
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
    seconds = {str(c): s for c, s in tuning.rows if math.isfinite(s)}
    best = {"method": tuning.best.method, "options": dict(tuning.best.options)}
    return files.write_entry("tuned", _SCHEMA, key, **best, seconds=seconds)


def load(key: Key) -> Candidate | None:
    """Return the winner stored for a key; None if there is no valid one."""
    entry = _read(files.entry_path("tuned", key))
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
    entries = _files("tuned-*.json")
    for path in [*entries, *_files("tuned-*.tmp")]:
        path.unlink(missing_ok=True)
    return len(entries)


def _files(pattern: str) -> list[Path]:
    return sorted(files.cache_folder().glob(pattern))


def _read(path: Path) -> Entry | None:
    """Return an entry, or None for anything but a file that `save` could have written."""
    entry = files.read_entry(path, _SCHEMA)
    if entry is None:
        return None
    key, method, options = (entry.get(name) for name in ("key", "method", "options"))
    if not isinstance(key, dict) or not isinstance(method, str) or method not in METHODS:
        return None
    if not isinstance(options, dict) or not set(options) <= set(METHODS[method].options):
        return None
    if not all(type(value) is int and 1 <= value <= _MOST_OPTION for value in options.values()):
        return None
    return cast(Entry, entry)


_TIE = 0.01  # the heuristic's choice stays when it is slower than the best by at most this share


@dataclass(frozen=True)
class Tuning:
    """Measured times of the candidates of `auto`."""

    rows: tuple[tuple[Candidate, float], ...]  # s of a solve, in the order of the cost model
    heuristic: Candidate  # choice of the cost model
    best: Candidate  # the fastest; `heuristic` where that is slower by at most `_TIE`


def random_system(forest: Forest, dtype: DTypeLike, seed: int) -> list[np.ndarray]:
    """Random d, u, b, (n,) in natural order, strictly diagonally dominant by 0.5 to 1.5."""
    rng = np.random.default_rng(seed)
    n = forest.num_nodes
    u = -rng.uniform(0.1, 1.0, n)
    d = rng.uniform(0.5, 1.5, n) + reference.multiply(forest, np.zeros(n), -u, np.ones(n))
    return [a.astype(dtype) for a in (d, u, rng.uniform(-1.0, 1.0, n))]


def measure(
    queue: cl.CommandQueue,
    candidates: Sequence[tuple[Candidate, Plan]],
    prepare: Callable[[Plan], Launch],
    keep: bool = True,
) -> Tuning:
    """Time candidates, the heuristic's choice first; pass over those that do not fit or build."""
    ready: list[Callable[[], Launch]] = []
    able: list[Candidate] = []
    refused: DeviceMemoryError | BuildError | None = None
    for candidate, plan in candidates:
        try:
            launch = prepare(plan)
        except (DeviceMemoryError, BuildError) as error:
            refused = refused or error
            continue
        able.append(candidate)
        ready.append(partial(_itself, launch) if keep else partial(prepare, plan))
        del launch
    if refused is not None and not able:
        raise refused
    rows = tuple(zip(able, seconds_in_turns(queue, ready), strict=True))
    least = min(seconds for _, seconds in rows)
    near = [candidate for candidate, seconds in rows if seconds <= least * (1 + _TIE)]
    heuristic, fastest = candidates[0][0], min(rows, key=lambda row: row[1])[0]
    return Tuning(rows, heuristic, heuristic if heuristic in near else fastest)


def _itself(launch: Launch) -> Launch:
    return launch
