"""Times of the algorithms that deliver spikes, measured in turn on lists of spikes.

`grid.Delivery` names the candidates, makes the lists and takes the fastest.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device import devices
from clhines.device.arrays import to_device

_TURNS = 9  # times that each candidate is measured
_HOPELESS = 4  # so many times slower than the best in the first two: not measured again

Found = tuple[cla.Array, cla.Array, cla.Array]  # source and step of spikes, and how many there are


class Launch(Protocol):
    """The kernels of one algorithm.

    Attributes
    ----------
    events : list of pyopencl.Event
        Of the kernels of the last call.
    """

    events: list[cl.Event]

    def __call__(
        self,
        found: Found,
        capacity: int,
        incoming: cla.Array,
        first_step: int,
        steps: int,
        turn: tuple[cla.Array, int, int],
    ) -> cl.Event:
        """Enqueue the delivery of a list of spikes; see `Delivery.deliver`."""


def median_times(
    queue: cl.CommandQueue,
    launchers: Sequence[Launch],
    lists: Sequence[tuple[np.ndarray, np.ndarray]],
    steps: int,
    size: int,
) -> list[float]:
    """Measure candidates in turn.

    Parameters
    ----------
    lists : sequence of (source, step), each (k,) int
    steps : int
        Steps that each list covers.
    size : int
        Sums of all targets and slots.

    Returns
    -------
    list of float, s
        Median time a list of each candidate.
    """
    found = [(*(to_device(queue, a, np.int32) for a in pair), len(pair[0])) for pair in lists]
    counts = [to_device(queue, np.array([count]), np.int32) for *_, count in found]
    incoming = to_device(queue, np.zeros(size), np.int64)
    marks = to_device(queue, np.zeros(3), np.int32), 0, -1
    times_of: list[list[float]] = [[] for _ in launchers]
    for turn in range(-1, _TURNS):  # the first warms up
        for k, launch in enumerate(launchers):
            if turn > 1 and min(times_of[k]) > _HOPELESS * min(map(min, times_of)):
                continue
            times = [
                _timed(queue, launch, (*pair, number), max(1, count), incoming, steps, marks)
                for (*pair, count), number in zip(found, counts, strict=True)
            ]
            if turn >= 0:
                times_of[k].append(float(np.mean(times)))
    return [float(np.median(t)) for t in times_of]


def _timed(
    queue: cl.CommandQueue,
    launch: Launch,
    found: Found,
    capacity: int,
    incoming: cla.Array,
    steps: int,
    marks: tuple[cla.Array, int, int],
) -> float:
    """Seconds that a launch takes: of the device's own clock where that is the better one."""
    queue.finish()
    begin = time.perf_counter()
    launch(found, capacity, incoming, 0, steps, marks)
    queue.finish()
    wall = time.perf_counter() - begin
    profiled = queue.properties & cl.command_queue_properties.PROFILING_ENABLE
    if not profiled or devices.is_cpu(queue.device) or devices.is_simulator(queue.device):
        return wall
    return 1e-9 * sum(e.profile.end - e.profile.start for e in launch.events)
