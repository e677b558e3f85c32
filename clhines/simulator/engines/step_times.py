"""The steps' times on a device."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.simulator.network.times import begins_of

MOST_STEPS = 1024  # times on the device at once


class StepTimes:
    """A device's step counter, and the times at which `MOST_STEPS` steps begin.

    `begin` has the times of `steps`, ms, in the type `instant`. `state`, (4,) int32, has the first
    step on the device, its record row, and the offset of the next step, twice: kernels before the
    solve read the first offset and set the second, a step's last kernel does the reverse.
    """

    def __init__(self, queue: cl.CommandQueue, dt: float, instant: np.dtype) -> None:
        self._queue, self._dt, self.instant = queue, dt, instant
        self.begin = cla.zeros(queue, MOST_STEPS, instant)
        self.state = cla.zeros(queue, 4, np.int32)
        self.forget()

    def forget(self) -> None:
        """Forget which steps the device has, so that the next `put` writes their times again."""
        self.steps, self._counted = range(0), (-1, -1, -1)

    def put(self, first: int, count: int) -> int:
        """Write the times of `count` steps to the device, unless it has them.

        Return the step whose time comes first on the device.
        """
        if first in self.steps and first + count <= self.steps.stop:
            return self.steps.start
        half = np.full(2 * MOST_STEPS - 1, 0.5 * self._dt)
        half[0] = begins_of(first, self._dt)
        self.begin.set(np.cumsum(half)[::2].astype(self.begin.dtype), self._queue)
        self.steps, self._counted = range(first, first + MOST_STEPS), (-1, -1, -1)
        return first

    def count_from(self, first: int, row: int, count: int) -> None:
        """Set the device's step counter to `first`, for `count` steps; `row` is its record row."""
        self.put(first, count)
        begin = self.steps.start
        now = begin, row - (first - begin), first - begin
        if now != self._counted:
            self.state.set(np.array([*now, now[2]], np.int32), self._queue)
        self._counted = (*now[:2], now[2] + count)
