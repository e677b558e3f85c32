"""Measuring on a device: solves, and the memory floor that they are held against."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines import device as devices
from clhines import program
from clhines.errors import DeviceMemoryError
from clhines.plan import STREAM_BYTES, real_name
from clhines.render import FloorSpec

FLOOR_ARRAYS = 4  # a solver reads d, u and b and writes x, at the least


def median_seconds(
    queue: cl.CommandQueue, launch: Callable[[int], Any], repeats: int = 9, warmup: int = 2
) -> float:
    """Median time of ``launch(k)`` for k = 0, 1, ...; warm-up runs are not counted.

    On a CPU the wall time from enqueue to finish; elsewhere the device time between the
    timestamps of the first and the last event that `launch` returns.

    Parameters
    ----------
    launch : callable
        Takes the number of the run, so that it can take turns between data sets; returns an
        event or a list of events of `queue`.

    Returns
    -------
    float, s
    """
    wall = devices.is_cpu(queue.device) or devices.is_simulator(queue.device)
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
