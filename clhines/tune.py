"""Measuring on a device: the memory floor, candidates of `auto`, and the store of winners."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from tqdm import tqdm

import clhines
from clhines import device as devices
from clhines import files, program, reference
from clhines.choice import Candidate
from clhines.errors import BuildError, DeviceMemoryError, InputError
from clhines.forest import Forest
from clhines.parts import Plan, real_name
from clhines.plan import METHODS
from clhines.plan_fine import STREAM_BYTES
from clhines.render import FloorSpec

FLOOR_ARRAYS = 4  # a solver reads d, u and b and writes x, at the least

_LEAST_TURNS = 8  # solves of a candidate, one in each turn
_MOST_TURNS = {True: 400, False: 60}  # by wall time, which is noisy; by device events
_CANDIDATE_SECONDS = 0.1  # of solves for each candidate, within those bounds
_TRIAL = 4, 2.5  # after so many turns, candidates that much slower than the best are given up
_TIE = 0.01  # the heuristic's choice stays when it is slower than the best by at most this share
_SCHEMA = 1  # of the store's files
_MOST_OPTION = 1 << 30  # value of an option of any candidate, above all that a plan takes


def median_seconds(
    queue: cl.CommandQueue, launch: Callable[[int], Any], repeats: int = 9, warmup: int = 2
) -> float:
    """Median time of ``launch(k)`` for k = 0, 1, ...; warm-up runs are not counted.

    On a CPU, and of a queue without timestamps (``PROFILING_ENABLE``), the wall time from enqueue
    to finish; elsewhere the device time between the timestamps of the first and the last event
    that `launch` returns.

    Parameters
    ----------
    launch : callable
        Takes the number of the run, so that it can take turns between data sets; returns an
        event or a list of events of `queue`.

    Returns
    -------
    float, s
    """
    wall = _by_wall_time(queue)
    taken = []
    for k in range(-warmup, repeats):
        queue.finish()
        begin = time.perf_counter()
        events = launch(k + warmup)
        queue.finish()
        seconds = time.perf_counter() - begin
        if not wall:
            events = events if isinstance(events, list) else [events]
            seconds = (events[-1].profile.end - events[0].profile.start) * 1e-9
        if k >= 0:
            taken.append(seconds)
    return float(np.median(taken))


def _by_wall_time(queue: cl.CommandQueue) -> bool:
    device, timed = queue.device, cl.command_queue_properties.PROFILING_ENABLE
    return devices.is_cpu(device) or devices.is_simulator(device) or not queue.properties & timed


def floor_seconds(queue: cl.CommandQueue, n: int, dtype: Any, repeats: int = 9) -> float:
    """Median time of the kernel that reads three arrays of n reals and writes one.

    Two sets of arrays of random values take turns; one set where they are far above any cache.

    Returns
    -------
    float, s

    Raises
    ------
    DeviceMemoryError
        The arrays do not fit beside what is on the device.
    """
    rng = np.random.default_rng(n)
    values = [rng.random(n).astype(dtype) for _ in range(2)]
    turns = 2 if FLOOR_ARRAYS * values[0].nbytes < 1 << 29 else 1
    try:
        sets = [[cla.to_device(queue, values[(k + j) % 2]) for j in range(4)] for k in range(turns)]
    except cl.MemoryError as error:
        raise DeviceMemoryError(
            f"the memory floor needs {turns * FLOOR_ARRAYS * values[0].nbytes / 2**20:.1f} MiB"
        ) from error
    cpu = devices.is_cpu(queue.device)
    width = devices.limits(queue.device).vector_bytes // np.dtype(dtype).itemsize if cpu else 1
    spec = FloorSpec(real_name(dtype), width, cpu and values[0].nbytes > STREAM_BYTES)
    kernel = cl.Kernel(program.build(queue.context, spec), "floor_copy")
    group = 1 if cpu else min(256, queue.device.max_work_group_size)
    items = queue.device.max_compute_units * 8 if cpu else -(-n // group) * group

    def launch(k: int) -> cl.Event:
        arrays = [a.data for a in sets[k % turns]]
        return kernel(queue, (items,), (group,), np.int64(n), *arrays)

    return median_seconds(queue, launch, repeats)


# ------------------------------------------------------------------------------------ candidates


@dataclass(frozen=True)
class Tuning:
    """What measuring the candidates of `auto` found.

    Attributes
    ----------
    rows : tuple of (Candidate, float)
        Seconds of a solve, of each candidate that the device could run, in the order in which
        the cost model expects them.
    heuristic : Candidate
        What the cost model would have chosen.
    best : Candidate
        The fastest; the heuristic's choice where that is slower by at most one percent.
    """

    rows: tuple[tuple[Candidate, float], ...]
    heuristic: Candidate
    best: Candidate


def random_system(forest: Forest, dtype: Any, seed: int) -> list[np.ndarray]:
    """Random d, u, b in natural order, strictly diagonally dominant by 0.5 to 1.5.

    Returns
    -------
    list of three (n,) arrays of `dtype`
    """
    rng = np.random.default_rng(seed)
    n = forest.num_nodes
    u = -rng.uniform(0.1, 1.0, n)
    d = rng.uniform(0.5, 1.5, n) + reference.multiply(forest, np.zeros(n), -u, np.ones(n))
    return [a.astype(dtype) for a in (d, u, rng.uniform(-1.0, 1.0, n))]


def measure(
    queue: cl.CommandQueue,
    candidates: Sequence[tuple[Candidate, Plan]],
    prepare: Callable[[Plan], Callable[[int], Any]],
    keep: bool = True,
) -> Tuning:
    """Time candidates and return the times and the winner.

    Parameters
    ----------
    candidates : sequence of (Candidate, Plan)
        The heuristic's choice first.
    prepare : callable
        ``prepare(plan)`` puts a plan and its values on the device and returns what
        `median_seconds` launches. A candidate for which it raises `DeviceMemoryError` or
        `BuildError` is passed over.
    keep : bool
        Hold all candidates on the device at once; otherwise each is prepared anew in every turn.

    Raises
    ------
    DeviceMemoryError, BuildError
        No candidate runs; that of the first.
    """
    ready: list[Callable[[], Callable[[int], Any]]] = []
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


def _itself(launch: Callable[[int], Any]) -> Callable[[int], Any]:
    return launch


def seconds_in_turns(
    queue: cl.CommandQueue,
    ready: Sequence[Callable[[], Callable[[int], Any]]],
    budget: float = _CANDIDATE_SECONDS,
    progress: bool = True,
) -> list[float]:
    """Time several ways to solve that take turns, one solve at a time.

    Whatever else runs on the machine then slows all of them alike. Each turn has an order of its
    own, and those that are hopeless after a few turns do not take part in the rest. The time is
    the mean of the faster half: not the slower, because disturbances only add to a time, and no
    single rank, because times on CPUs often have two peaks, and a rank jumps between them.

    Parameters
    ----------
    ready : sequence of callables
        Each returns what `median_seconds` launches.
    budget : float, s
        Of counted solves for each.
    progress : bool
        Show a progress bar where stderr is a terminal.

    Returns
    -------
    list of float, s
    """
    taken: list[list[float]] = [[] for _ in ready]
    (trial, hopeless), turns, turn = _TRIAL, _LEAST_TURNS, 0
    most = _MOST_TURNS[_by_wall_time(queue)]
    order = np.random.default_rng(0)  # a thread pool remembers what ran before
    with tqdm(total=turns, desc="tuning", disable=None if progress else True, leave=False) as bar:
        while turn < turns:
            least = [min(t, default=0.0) for t in taken]
            for k in order.permutation(len(ready)):
                if turn < trial or least[k] <= hopeless * min(least):
                    taken[k].append(median_seconds(queue, ready[k](), repeats=1, warmup=1))
            turn += 1
            if turn == trial:  # the first turns are cold
                fastest = max(min(min(t) for t in taken), 1e-7)
                turns = min(most, max(turns, int(budget / fastest)))
                bar.reset(turns)
            bar.update(turn - bar.n)
    return [float(np.mean(sorted(t)[: -(-len(t) // 2)])) for t in taken]


# ----------------------------------------------------------------------------------------- store


def store_folder() -> Path:
    """Folder of the store: ``CLHINES_CACHE_DIR``, or else clhines' in the user's cache folder."""
    named = os.environ.get("CLHINES_CACHE_DIR")
    if named:
        return Path(named)
    from platformdirs import user_cache_dir  # not needed where the folder is named

    return Path(user_cache_dir("clhines", appauthor=False))


def store_key(
    device: cl.Device, forest: Forest, dtype: Any, options: dict[str, Any]
) -> dict[str, Any]:
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


def save(key: dict[str, Any], tuning: Tuning) -> Path:
    """Store a winner, replacing what was stored for the same key.

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


def load(key: dict[str, Any]) -> Candidate | None:
    """Return the winner stored for a key; None where there is none that can be used."""
    entry = _read(_path(key))
    if entry is None or entry["key"] != key:
        return None
    return Candidate(entry["method"], entry["options"])


def stored() -> Iterator[dict[str, Any]]:
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
    return sorted(store_folder().glob(pattern))


def _path(key: dict[str, Any]) -> Path:
    text = json.dumps(key, sort_keys=True)
    return store_folder() / f"tuned-{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def _read(path: Path) -> dict[str, Any] | None:
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
    return entry
