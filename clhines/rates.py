"""Rates: how fast devices solve a batch, measured, and the cut that lets them end together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device import label
from clhines.errors import BuildError, DeviceError
from clhines.forest import Forest

if TYPE_CHECKING:
    from clhines.solver import Solver

_FIRST_NODES = 256  # of the first sample that is timed: a simulator takes a second for it
_GROWTH = 8  # of a sample, until it takes
_SAMPLE_SECONDS = 5e-3
_ALONE_NODES = 1 << 20  # of such a sample at most
_TOGETHER_NODES = 1 << 18, 1 << 24  # of the samples that all devices solve at the same time
_TOGETHER_SOLVE = 0.1  # s, that such a solve should take within these bounds
_TOGETHER_SECONDS = 0.05  # of solves at the same time, and of each at least
_LEAST_DONE = 3
_ROUNDS = 3  # of correcting the rates by what was seen then
_WORTH = 0.02  # share below which a device saves less than it may cost by a wrong estimate
_BALANCED = 0.03  # difference of the times at which the rates are left as they are


@dataclass(frozen=True)
class Rate:
    """What a solve takes on a device: ``fixed + node * nodes`` seconds.

    Attributes
    ----------
    fixed : float, s
        However many cells there are.
    node : float, s
        For each node.
    """

    fixed: float
    node: float


def cut(forest: Forest, rates: Sequence[Rate]) -> np.ndarray:
    """Cut a batch into ranges of cells that take the same time.

    Devices that would not be done in that time with a single node get no cells.

    Returns
    -------
    (len(rates) + 1,) int64
        First cell of each device, and the end.
    """
    fixed = np.array([rate.fixed for rate in rates])
    speed = 1 / np.array([rate.node for rate in rates])
    used = np.ones(len(rates), bool)
    while True:  # the time in which those that are used do all nodes
        seconds = (forest.num_nodes + (fixed * speed)[used].sum()) / speed[used].sum()
        late = used & (fixed >= seconds)
        if not late.any():
            break
        used &= ~late
    nodes = np.where(used, np.maximum(seconds - fixed, 0) * speed, 0)
    targets = np.cumsum(nodes)[:-1] * (forest.num_nodes / nodes.sum())
    offsets = forest.cell_offsets
    after = np.clip(np.searchsorted(offsets, targets), 1, forest.num_cells)
    nearer = targets - offsets[after - 1] < offsets[after] - targets
    cells = np.where(nearer, after - 1, after)
    return np.concatenate(([0], cells, [forest.num_cells]))


def measure(
    forest: Forest,
    queues: Sequence[cl.CommandQueue],
    dtype: np.dtype,
    how: str,
    make: Callable[[Forest, cl.CommandQueue], Solver],
) -> list[Rate]:
    """Time a sample of the batch on each device: first alone, then on all at the same time.

    Devices disturb each other: a CPU also copies for the others. So the rates of each alone are
    corrected until all devices, each with its share of a sample, end together.

    Parameters
    ----------
    how : "numpy" or "device"
        With NumPy arrays, copies to and from the device included, or with arrays on it.

    Returns
    -------
    list of Rate
        With infinite `fixed` where a device is too slow to be worth its part.
    """
    rates = []
    for k, queue in enumerate(queues):
        with _named(k, queue):
            rates.append(_alone(forest, queue, dtype, how, make))
    for _ in range(_ROUNDS):
        speed = sum(1 / rate.node for rate in rates)
        sample = _sample(forest, int(np.clip(_TOGETHER_SOLVE * speed, *_TOGETHER_NODES)))
        edges = cut(sample, rates)
        used = np.flatnonzero(np.diff(edges)).tolist()
        if len(used) < 2:
            break
        parts = [sample.take(np.arange(*edges[k : k + 2])) for k in used]
        works = []
        for k, part in zip(used, parts, strict=True):
            with _named(k, queues[k]):
                work = _work(make(part, queues[k]), dtype, how)
            works.append(_named(k, queues[k])(work))
        taken = _together(works)
        for k, part, seconds in zip(used, parts, taken, strict=True):
            expected = rates[k].fixed + rates[k].node * part.num_nodes
            factor = seconds / expected
            rates[k] = Rate(rates[k].fixed * factor, rates[k].node * factor)
        if max(taken) <= (1 + _BALANCED) * min(taken):
            break
    share = np.diff(forest.cell_offsets[cut(forest, rates)]) / forest.num_nodes
    return [
        rate if s >= _WORTH else Rate(np.inf, rate.node)
        for rate, s in zip(rates, share, strict=True)
    ]


@contextmanager
def _named(k: int, queue: cl.CommandQueue) -> Iterator[None]:
    """Name the device, by its place in ``devices``, in errors of what is timed on it."""
    try:
        yield
    except (cl.Error, DeviceError, BuildError) as error:
        kind = type(error) if isinstance(error, (DeviceError, BuildError)) else DeviceError
        raise kind(
            f"devices[{k}], {label(queue.device)}: a sample of the batch could not be timed: "
            f"{error}"
        ) from error


def _sample(forest: Forest, nodes: int) -> Forest:
    """Cells from all over a batch, with about so many nodes in all."""
    count = max(1, min(forest.num_cells, int(nodes * forest.num_cells / forest.num_nodes)))
    if count == forest.num_cells:
        return forest
    return forest.take(np.arange(count) * forest.num_cells // count)


def _alone(
    forest: Forest,
    queue: cl.CommandQueue,
    dtype: np.dtype,
    how: str,
    make: Callable[[Forest, cl.CommandQueue], Solver],
) -> Rate:
    """Rate of one device while the others do nothing."""
    points: list[tuple[int, float]] = []
    nodes = _FIRST_NODES
    while True:
        sample = _sample(forest, nodes)
        if not points or sample.num_nodes > points[-1][0]:  # else as that before
            work = _work(make(sample, queue), dtype, how)
            points.append((sample.num_nodes, min(wall_seconds(work) for _ in range(3))))
        if sample is forest or points[-1][1] > _SAMPLE_SECONDS or nodes >= _ALONE_NODES:
            break
        nodes *= _GROWTH
    (n, t) = points[-1]
    if len(points) == 1:
        return Rate(0.0, t / n)
    (before, earlier) = points[-2]
    node = max((t - earlier) / (n - before), 0.1 * t / n)
    return Rate(max(t - node * n, 0.0), node)


def _system(forest: Forest, dtype: np.dtype) -> list[np.ndarray]:
    """d, u, b that are strictly dominant, in less time than `tune.random_system`."""
    rng, n = np.random.default_rng(0), forest.num_nodes
    inner = forest.parent[forest.parent >= 0]
    d = 2.0 + np.bincount(inner, minlength=n)  # more than the children and the parent at -1 each
    return [a.astype(dtype) for a in (d, -rng.uniform(0.1, 1.0, n), rng.uniform(-1.0, 1.0, n))]


def _work(solver: Solver, dtype: np.dtype, how: str) -> Callable[[], None]:
    """Return what solves a random system once, and waits; it has been done once."""
    arrays = _system(solver.forest, dtype)
    if how == "numpy" or not solver.takes_device_order:
        out = np.empty_like(arrays[-1])

        def work() -> None:
            solver.solve(*arrays, out=out, check=False)

    else:
        names = "d", "u", "b"
        packed = [solver.pack(a, of=name) for name, a in zip(names, arrays, strict=True)]
        x = cla.empty_like(packed[-1])

        def work() -> None:
            solver.enqueue(*packed, x)
            solver.queue.finish()

    work()
    return work


def wall_seconds(work: Callable[[], None]) -> float:
    """Wall time of one call, s."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _together(works: Sequence[Callable[[], None]]) -> list[float]:
    """Median time of each while all are at it again and again."""
    end = time.perf_counter() + _TOGETHER_SECONDS
    once = threading.Barrier(len(works))
    done = [0] * len(works)

    def run(k: int) -> float:
        taken: list[float] = []
        once.wait()
        try:
            while time.perf_counter() < end or min(done) < _LEAST_DONE:
                taken.append(wall_seconds(works[k]))
                done[k] += 1
        except BaseException:
            done[k] = _LEAST_DONE  # the others need not wait for it
            raise
        return float(np.median(taken))

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, range(len(works))))
