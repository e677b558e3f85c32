"""Rates: how fast devices solve a batch, measured, and the cut that lets them end together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device.devices import label
from clhines.errors import BuildError, DeviceError
from clhines.forest import Forest

if TYPE_CHECKING:
    from clhines.solve.solver import Solver


_FIRST_NODES = 256  # of the first sample that is timed: a simulator takes a second for it
_GROWTH = 8  # of a sample, until it takes
_SAMPLE_SECONDS = 5e-3
_ALONE_NODES = 1 << 20  # of such a sample at most
_TOGETHER_NODES = 1 << 18, 1 << 26  # of the samples that all devices solve at the same time: what


# fits into the cache of a CPU is solved far faster there than a whole batch
_TOGETHER_SOLVE = 0.1  # s, that such a solve should take within these bounds
_TOGETHER_SECONDS = 0.05  # of such solves at least
_LEAST_DONE = 3
_ROUNDS = 4  # of correcting the rates by what was seen then
_TURNS = 7  # of what is compared after that: all devices, and without each of them
_SURE = 2.0  # times as long without a device, by the rates: not tried
_WORTH = 0.02, 0.05  # of the time that a device must save, or half of its share: it may cost some
_BALANCED = 0.03  # difference of the times at which the rates are left as they are
_PERIOD = 1 << 20  # nodes after which the values of a sample repeat
_Work = Callable[[], Callable[[], object]]  # begins a solve; returns what waits for its end


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
    most: int = _TOGETHER_NODES[1],
) -> list[Rate]:
    """Time a sample of the batch on each device: first alone, then on all at the same time.

    Devices disturb each other: a CPU also copies for the others. So the rates of each alone are
    corrected until all devices, each with its share of a sample, end together. Devices that save
    nothing then are left out.

    Parameters
    ----------
    how : "numpy" or "device"
        With NumPy arrays, copies to and from the device included, or with arrays on it.
    most : int
        Nodes of a sample at most.

    Returns
    -------
    list of Rate
        With infinite `fixed` where a device is left out.
    """
    rates = []
    for k, queue in enumerate(queues):
        with _named(k, queue):
            rates.append(_alone(forest, queue, dtype, how, make))

    def ready(k: int, part: Forest) -> _Work:
        with _named(k, queues[k]):
            work = _work(make(part, queues[k]), dtype, how)

        def begin() -> Callable[[], object]:
            with _named(k, queues[k]):
                return _named(k, queues[k])(work())

        return begin

    speed = sum(1 / rate.node for rate in rates)
    least, usual = _TOGETHER_NODES
    nodes = int(np.clip(_TOGETHER_SOLVE * speed, least, max(least, min(usual, most))))
    sample = _sample(forest, nodes)
    rates = _balanced(sample, rates, ready)
    while True:
        works: list[_Work] = []  # with all that are left; made where there is something to compare
        for share, fewer in _one_fewer(sample, rates):
            fewer = _balanced(sample, fewer, ready)
            works = works or _works(_parts(sample, rates), ready)
            seconds, without = _compared([works, _works(_parts(sample, fewer), ready)])
            if seconds > (1 - np.clip(share / 2, *_WORTH)) * without:
                rates = fewer
                break
        else:
            return rates


def _parts(sample: Forest, rates: Sequence[Rate]) -> dict[int, Forest]:
    """Cells of each device that gets some."""
    edges = cut(sample, rates)
    used = np.flatnonzero(np.diff(edges)).tolist()
    return {k: sample.take(np.arange(*edges[k : k + 2])) for k in used}


def _works(parts: dict[int, Forest], ready: Callable[[int, Forest], _Work]) -> list[_Work]:
    """Make what solves the cells of each device.

    Parameters
    ----------
    ready : callable
        ``ready(k, part)`` returns what solves some cells on device k.
    """
    return [ready(k, part) for k, part in parts.items()]


def _balanced(
    sample: Forest, rates: list[Rate], ready: Callable[[int, Forest], _Work]
) -> list[Rate]:
    """Correct rates until devices end together; returns the best seen."""
    best = np.inf, rates
    for _ in range(_ROUNDS):
        parts = _parts(sample, rates)
        if len(parts) == 1:  # nothing to balance: best seen, or what was given
            break
        taken = _together(_works(parts, ready))
        best = min(best, (max(taken), rates), key=lambda one: one[0])
        if max(taken) <= (1 + _BALANCED) * min(taken):
            break
        rates = list(rates)
        for (k, part), seconds in zip(parts.items(), taken, strict=True):
            factor = seconds / (rates[k].fixed + rates[k].node * part.num_nodes)
            rates[k] = Rate(rates[k].fixed * factor, rates[k].node * factor)
    return best[1]


def _one_fewer(sample: Forest, rates: list[Rate]) -> Iterator[tuple[float, list[Rate]]]:
    """Leave out each of several devices that have cells, but those that surely save much.

    Yields the share that the device has had, and rates without it; small shares first.
    """
    shares = np.diff(sample.cell_offsets[cut(sample, rates)]) / sample.num_nodes
    used = [int(k) for k in np.argsort(shares, kind="stable") if shares[k]]
    for out in used if len(used) > 1 else []:
        fewer = [Rate(np.inf, r.node) if k == out else r for k, r in enumerate(rates)]
        if _expected(sample, fewer) < _SURE * _expected(sample, rates):
            yield float(shares[out]), fewer


def _expected(sample: Forest, rates: list[Rate]) -> float:
    """Time that the rates promise, s."""
    nodes = np.diff(sample.cell_offsets[cut(sample, rates)])
    return max(r.fixed + r.node * int(n) for r, n in zip(rates, nodes, strict=True) if n)


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
            seconds = min(wall_seconds(partial(_whole, work)) for _ in range(3))
            points.append((sample.num_nodes, seconds))
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
    most = 2.0 + forest.trees.num_children.max()  # more than all that is off the diagonal
    period = min(n, _PERIOD)
    once = (
        rng.uniform(most, most + 1, period),
        -rng.uniform(0.1, 1, period),
        rng.normal(size=period),
    )
    return [np.resize(a.astype(dtype), n) for a in once]


def _work(solver: Solver, dtype: np.dtype, how: str) -> _Work:
    """Return what begins a solve of a random system; it has been done once."""
    arrays = _system(solver.forest, dtype)
    if how == "numpy" or not solver.takes_device_order:
        out = np.empty_like(arrays[-1])

        def work() -> Callable[[], object]:
            return partial(solver.solve, *arrays, out=out, check=False)

    else:
        names = "d", "u", "b"
        packed = [solver.pack(a, of=name) for name, a in zip(names, arrays, strict=True)]
        x = cla.empty_like(packed[-1])

        def work() -> Callable[[], object]:
            solver.enqueue(*packed, out=x)
            solver.queue.flush()
            return solver.queue.finish

    _whole(work)
    return work


def _whole(work: _Work) -> None:
    work()()


def wall_seconds(work: Callable[[], object]) -> float:
    """Wall time of one call, s."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _together(works: Sequence[_Work]) -> list[float]:
    """Begin all, one after another, and wait for all, again and again: median time of each."""
    taken: list[list[float]] = []
    last = time.perf_counter() + _TOGETHER_SECONDS
    with ThreadPoolExecutor(len(works)) as pool:
        while time.perf_counter() < last or len(taken) < _LEAST_DONE:
            taken.append(_ends(pool, works))
    return np.median(taken, axis=0).tolist()


def _compared(tries: Sequence[Sequence[_Work]]) -> list[float]:
    """Median time of each, taking turns, as whatever else runs disturbs all of them."""
    taken = []
    with ThreadPoolExecutor(max(map(len, tries))) as pool:
        for _ in range(_TURNS):
            taken.append([max(_ends(pool, works)) for works in tries])
    return np.median(taken, axis=0).tolist()


def _ends(pool: ThreadPoolExecutor, works: Sequence[_Work]) -> list[float]:
    """Begin all, and wait for all: when each has ended, s."""
    begin = time.perf_counter()

    def end(wait: Callable[[], object]) -> float:
        wait()
        return time.perf_counter() - begin

    return list(pool.map(end, [work() for work in works]))
