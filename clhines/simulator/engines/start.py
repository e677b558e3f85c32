"""Copies of a model's start on the device."""

from __future__ import annotations

from collections.abc import Callable

import pyopencl as cl
import pyopencl.array as cla

from clhines.simulator.device.reads import copied, copy_onto

_MEMORY_PARTS = 8  # the copies may use 1 / so much of a device's memory


class KeptStart:
    """Copies of changing arrays, as of the start; `arrays` returns the originals."""

    def __init__(self, queue: cl.CommandQueue, arrays: Callable[[], list[cla.Array]]) -> None:
        self._queue, self._arrays, self._copies = queue, arrays, list[cla.Array]()

    def keep(self) -> None:
        """Copy the arrays if the device has memory for copies."""
        arrays, copies = self._arrays(), self._copies
        sizes = [array.nbytes for array in arrays]
        if [array.nbytes for array in copies] == sizes:
            for copy, array in zip(copies, arrays, strict=True):
                copy_onto(copy, array, self._queue)
            return
        self._copies = []
        if sum(sizes) <= self._queue.device.global_mem_size // _MEMORY_PARTS:
            self._copies = [copied(array, self._queue) for array in arrays]

    def restore(self) -> bool:
        """Copy the start back; return False if there are no copies."""
        pairs = zip(self._arrays() if self._copies else (), self._copies, strict=True)
        for array, copy in pairs:
            copy_onto(array, copy, self._queue)
        return bool(self._copies)

    def copy_of(self, array: cla.Array) -> cla.Array | None:
        pairs = zip(self._arrays() if self._copies else (), self._copies, strict=True)
        return next((copy for changing, copy in pairs if changing is array), None)

    def forget(self) -> None:
        self._copies = []
