"""Measure times on a device: medians, and the memory floor."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from numpy.typing import DTypeLike
from tqdm import tqdm

from clhines.core.errors import DeviceMemoryError
from clhines.solver.device import devices, program
from clhines.solver.plan.kernel_spec import TemplateSpec
from clhines.solver.plan.plan import STREAM_BYTES, real_name

TimedRun = Callable[[int], cl.Event | list[cl.Event]]  # enqueues run k
FLOOR_ARRAYS = 4  # a solver at least reads d, u and b and writes x
_DRAWN = 1 << 22  # most random values: to make more takes longer than to measure
_LEAST_TURNS = 8  # rounds: solves per candidate, one in each round
_MOST_TURNS = {True: 400, False: 60}  # True: by wall time, which is noisy; False: by events
_CANDIDATE_SECONDS = 0.1  # solve time per candidate, within these bounds
_TRIAL = 4, 2.5  # rounds after which candidates slower by this factor are dropped


@dataclass(frozen=True)
class FloorSpec(TemplateSpec):
    template: ClassVar[str] = "solver/around/floor"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "floor_copy": (
            "long n, const real *restrict d, const real *restrict u, const real *restrict b",
            "real *restrict x",
        )
    }
    real: str
    vector_width: int  # above 1 for CPUs
    streaming: bool = False  # stores bypass the caches, as in `fine_vector.FineVectorSpec`


def median_seconds(
    queue: cl.CommandQueue, launch: TimedRun, repeats: int = 9, warmup: int = 2
) -> float:
    """Return the median time, s, of ``launch(k)`` for k = 0, 1, ..., after `warmup` launches.

    On a CPU, or without timestamps, it is the wall time from the launch to the end of the queue's
    work. Otherwise it is the device time from the first to the last event that `launch` returns.
    """
    wall = _by_wall_time(queue)
    times = []
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
            times.append(seconds)
    return float(np.median(times))


def _by_wall_time(queue: cl.CommandQueue) -> bool:
    device, timed = queue.device, cl.command_queue_properties.PROFILING_ENABLE
    return devices.is_cpu(device) or devices.is_simulator(device) or not queue.properties & timed


def floor_seconds(queue: cl.CommandQueue, n: int, dtype: DTypeLike, repeats: int = 9) -> float:
    return median_seconds(queue, floor(queue, n, dtype), repeats)


def floor(queue: cl.CommandQueue, n: int, dtype: DTypeLike) -> TimedRun:
    """Return a function that launches a kernel: it reads three arrays of n reals, writes one."""
    rng = np.random.default_rng(n)
    values = [rng.random(min(n, _DRAWN)).astype(dtype) for _ in range(2)]
    nbytes = n * values[0].itemsize
    turns = 2 if FLOOR_ARRAYS * nbytes < 1 << 29 else 1
    try:
        sets = [[repeated(queue, values[(k + j) % 2], n) for j in range(4)] for k in range(turns)]
    except cl.MemoryError as error:
        raise DeviceMemoryError(
            f"the memory floor needs {turns * FLOOR_ARRAYS * nbytes / 2**20:.1f} MiB"
        ) from error
    cpu = devices.is_cpu(queue.device)
    width = devices.limits(queue.device).vector_bytes // np.dtype(dtype).itemsize if cpu else 1
    spec = FloorSpec(real_name(dtype), width, cpu and nbytes > STREAM_BYTES)
    kernel = program.kernel_of(queue.context, spec, "floor_copy")
    group = 1 if cpu else min(256, queue.device.max_work_group_size)
    items = queue.device.max_compute_units * 8 if cpu else -(-n // group) * group

    def launch(k: int) -> cl.Event:
        arrays = [a.data for a in sets[k % turns]]
        return kernel(queue, (items,), (group,), np.int64(n), *arrays)

    return launch


def repeated(queue: cl.CommandQueue, values: np.ndarray, n: int) -> cla.Array:
    first = np.ascontiguousarray(values[:n])
    out = cla.empty(queue, n, first.dtype)
    cl.enqueue_copy(queue, out.base_data, first)
    done = len(first)
    while done < n:
        count = min(done, n - done)  # the first part is a whole number of repeats
        size = {"dst_offset": done * first.itemsize, "byte_count": count * first.itemsize}
        cl.enqueue_copy(queue, out.base_data, out.base_data, **size)
        done += count
    queue.finish()
    return out


def seconds_in_turns(
    queue: cl.CommandQueue,
    ready: Sequence[Callable[[], TimedRun]],
    budget: float = _CANDIDATE_SECONDS,
    progress: bool = True,
) -> list[float]:
    """Return the mean time of each run, s, measured in rounds that launch every run once.

    ``ready[k]()`` returns run k. Other load on the machine then slows all runs alike. Runs that are
    far too slow are dropped early. The mean is over the faster half of the measurements, because
    disturbances only add to a time, and a median jumps if times have two peaks. The fastest run
    gets about `budget` seconds.
    """
    times: list[list[float]] = [[] for _ in ready]
    (trial, hopeless), turns, turn = _TRIAL, _LEAST_TURNS, 0
    most = _MOST_TURNS[_by_wall_time(queue)]
    order = np.random.default_rng(0)  # vary the order: a run may depend on the one before
    with tqdm(total=turns, desc="tuning", disable=None if progress else True, leave=False) as bar:
        while turn < turns:
            least = [min(t, default=0.0) for t in times]
            for k in order.permutation(len(ready)):
                if turn < trial or least[k] <= hopeless * min(least):
                    times[k].append(median_seconds(queue, ready[k](), repeats=1, warmup=1))
            turn += 1
            if turn == trial:  # the first turns are cold
                fastest = max(min(min(t) for t in times), 1e-7)
                turns = min(most, max(turns, int(budget / fastest)))
                bar.reset(turns)
            bar.update(turn - bar.n)
    return [float(np.mean(sorted(t)[: -(-len(t) // 2)])) for t in times]
