"""Transfer: values between NumPy arrays and a device, and between natural and device order."""

from __future__ import annotations

import contextlib
import functools

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device import copies
from clhines.solve.loaded import only_event
from clhines.solve.memory import Buffers

PIECE_BYTES = 4 << 20  # per pinned piece of a solver that copies in one direction at a time


class Transfer:
    """Copies of one solver: through pinned memory, without a copy, or by the runtime.

    Parameters
    ----------
    dtype : float64 or float32
    """

    def __init__(self, queue: cl.CommandQueue, dtype: np.dtype) -> None:
        self.queue, self.dtype, self.device = queue, dtype, queue.device

    def bring(self, a: np.ndarray, taken: Buffers, name: str) -> cla.Array:
        """Return values on the device: lent until the solve has ended, or copied to a buffer."""
        if copies.lends(self.device, a):
            return cla.Array(self.queue, a.shape, a.dtype, data=copies.lend(self.queue, a))
        return self.copied(a, taken.view(name, a.shape))

    def copied(self, a: np.ndarray, target: cla.Array) -> cla.Array:
        """Copy values to an array on the device, after the enqueued commands, and return it."""
        if self.staged(a.nbytes):
            work = self.copies.start([(list(np.atleast_2d(a)), target.base_data)])
            only_event(target, work()[-1])
        else:
            cl.enqueue_copy(self.queue, target.base_data, a)  # waits
        return target

    def to_device(self, a: np.ndarray | cla.Array) -> cla.Array:
        """Copy the arrays that are not on the device yet."""
        if isinstance(a, cla.Array):
            return a
        return self.copied(a, cla.empty(self.queue, a.shape, a.dtype))

    def staged(self, size: int) -> bool:
        """Whether an array of that many bytes is copied through pinned memory."""
        return size >= copies.LEAST_BYTES and copies.helps(self.device)

    @functools.cached_property
    def pins(self) -> copies.Pins:
        """Of all calls, which take turns; made when first needed."""
        return copies.Pins(self.queue)

    @functools.cached_property
    def results(self) -> copies.Results:
        """Made when first needed."""
        return copies.Results(self.queue)

    def empty_like(self, a: np.ndarray) -> np.ndarray:
        """Return an array for a solution, where that helps in pinned memory."""
        return self.results.empty_like(a) if copies.helps(self.device) else np.empty_like(a)

    @functools.cached_property
    def copies(self) -> copies.Pinned:
        """Made when first needed."""
        return copies.Pinned(self.queue, copies.threads(), PIECE_BYTES, True)

    def pinned_bytes(self) -> int:
        """Pinned memory of `copies`."""
        return copies.pinned_bytes(copies.threads(), PIECE_BYTES)


class Ended:
    """Context that lets an error out only when nothing runs on a queue any more.

    A class: a generator takes 2 microseconds longer, a tenth of a small solve.
    """

    __slots__ = ("_queue",)

    def __init__(self, queue: cl.CommandQueue) -> None:
        self._queue = queue

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            with contextlib.suppress(cl.Error):
                self._queue.finish()
