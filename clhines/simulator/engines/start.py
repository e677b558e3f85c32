"""The start of a model, kept on the device."""

from __future__ import annotations

from collections.abc import Callable

import pyopencl as cl
import pyopencl.array as cla

from clhines.simulator.device.reads import copied, copy_onto

_LEAST_LEFT = 8  # the copies may take this part of a device's memory


class KeptStart:
    """Copies of the arrays that steps change, as they were at the start; `arrays` returns these."""

    def __init__(self, queue: cl.CommandQueue, arrays: Callable[[], list[cla.Array]]) -> None:
        self._queue, self._arrays, self._copies = queue, arrays, list[cla.Array]()

    def keep(self) -> None:
        """Copy the arrays, if the device has memory for copies."""
        arrays, kept = self._arrays(), self._copies
        sizes = [array.nbytes for array in arrays]
        if [array.nbytes for array in kept] == sizes:
            for copy, array in zip(kept, arrays, strict=True):
                copy_onto(copy, array, self._queue)
            return
        self._copies = []
        if sum(sizes) <= self._queue.device.global_mem_size // _LEAST_LEFT:
            self._copies = [copied(array, self._queue) for array in arrays]

    def restore(self) -> bool:
        """Copy the start back; False if there are no copies."""
        pairs = zip(self._arrays() if self._copies else (), self._copies, strict=True)
        for array, copy in pairs:
            copy_onto(array, copy, self._queue)
        return bool(self._copies)

    def copy_of(self, array: cla.Array) -> cla.Array | None:
        """Return the copy of an array, if there is one."""
        pairs = zip(self._arrays() if self._copies else (), self._copies, strict=True)
        return next((copy for changing, copy in pairs if changing is array), None)

    def forget(self) -> None:
        self._copies = []
