"""Transfer: values between NumPy arrays and a device, and between natural and device order."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device import copies
from clhines.solve.loaded import Resident, only_event

_EXACT = 8  # leading bits of a size that a pool keeps: at most 0.4 % too much


class Transfer:
    """Copies of one solver: through pinned memory, without a copy, or by the runtime.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    dtype : float64 or float32
    """

    def __init__(self, queue: cl.CommandQueue, dtype: np.dtype) -> None:
        self.queue, self.dtype, self.device = queue, dtype, queue.device
        self._kept: object = None

    def passing(self, shape: tuple[int, ...]) -> cla.Array:
        """Room for values that are gone when a solve has ended."""
        return cla.Array(self.queue, shape, self.dtype, allocator=self.pool)

    @functools.cached_property
    def pool(self) -> cl.tools.MemoryPool | None:
        """Keeps such room of a CPU, which else fetches its pages anew for every solve."""
        if not copies.shares_memory(self.device):
            return None
        return cl.tools.MemoryPool(cl.tools.ImmediateAllocator(self.queue), _EXACT)

    def keep(self, what: object) -> None:
        """Free such room unless it was for solves of this kind, which take as much again."""
        if self.pool is not None and what != self._kept:
            self.pool.free_held()
            self._kept = what

    def lent(self, a: np.ndarray | cla.Array) -> cla.Array:
        """As `to_device`, but NumPy arrays are read until a solve that is waited for has ended."""
        if isinstance(a, cla.Array) or not copies.shares_memory(self.device):
            return self.to_device(a)
        if copies.lends(self.device, a):
            return copies.lent(self.queue, a)
        room = self.passing(a.shape)
        cl.enqueue_copy(self.queue, room.base_data, a)  # waits
        return room

    def to_device(self, a: np.ndarray | cla.Array) -> cla.Array:
        """Copy what is not there yet."""
        if isinstance(a, cla.Array):
            return a
        if not self.staged(a.nbytes):
            return cla.to_device(self.queue, a)
        target = cla.empty(self.queue, a.shape, a.dtype)
        rows = list(np.atleast_2d(a))
        only_event(target, self.copies.start([(rows, target.base_data)])()[-1])
        return target

    def to_host(self, a: cla.Array, rows: np.ndarray) -> None:
        """Copy (r, n) values, or (n,) where r is 1, and wait."""
        if self.staged(a.nbytes):
            self.copies.fetch(a.base_data, list(rows), list(a.events))
        elif rows.flags.c_contiguous:
            a.get(self.queue, rows.reshape(a.shape))
        else:
            rows[...] = a.get(self.queue)

    def staged(self, size: int) -> bool:
        """Whether so many bytes are copied through pinned memory."""
        return size >= copies.LEAST_BYTES and copies.helps(self.device)

    @functools.cached_property
    def copies(self) -> copies.Pinned:
        """Made when first needed."""
        return copies.Pinned(self.queue)

    def packed(
        self,
        resident: Resident,
        source: cla.Array,
        passing: bool = False,
    ) -> cla.Array:
        """Bring values from natural into device order."""
        shape = (*source.shape[:-1], resident.plan.packed_size)
        target = self.passing(shape) if passing else cla.empty(self.queue, shape, self.dtype)
        return resident.permute(source, target, True)

    def upload(
        self,
        resident: Resident,
        arrays: dict[str, np.ndarray | cla.Array],
        passing: bool = False,
    ) -> dict[str, cla.Array]:
        """Bring arrays named d, u, l or b from natural into device order.

        With `passing` for a solve that is waited for: until then NumPy arrays are read.
        """
        bring = self.lent if passing else self.to_device
        return {n: self.packed(resident, bring(a), passing) for n, a in arrays.items()}


@contextlib.contextmanager
def ended(queue: cl.CommandQueue) -> Iterator[None]:
    """Let an error out only when nothing runs any more."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(cl.Error):
            queue.finish()
        raise
