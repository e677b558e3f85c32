"""A run's start: values at t = 0 on the host, and copies of them on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.simulator.device.reads import copied, copy_onto
from clhines.simulator.engines.reference import Reference, Wanted
from clhines.simulator.records.records import Record
from clhines.simulator.state.chunk import Chunk

_MEMORY_PARTS = 8  # the copies may use 1 / so much of a device's memory


class Start:
    """A run's state at t = 0, to which it can return.

    `host` has run the INITIAL blocks; `early` has the events at t = 0.
    `changing` returns the arrays on the device that steps change: the start has copies of them, so
    that `restore` needs no values from the host.
    """

    host: Reference
    early: Chunk
    is_left: bool  # whether the run has advanced since, or has loaded a state

    def __init__(self, queue: cl.CommandQueue, changing: Callable[[], list[cla.Array]]) -> None:
        self._queue, self._arrays, self._copies = queue, changing, list[cla.Array]()
        self._changed = dict[tuple[int, str], np.ndarray]()  # parameters, by kind and name

    def begin(self, host: Reference, early: Chunk) -> None:
        """Replace the start by the values in `host`, with the events `early` at t = 0."""
        self.host, self.early, self.is_left = host, early, False
        self._changed.clear()

    def leave(self) -> None:
        """Note that a loaded state has replaced the start, also on the host."""
        self.is_left = self.host.has_advanced = True

    @property
    def wanted(self) -> Wanted:
        return tuple(self.host.variables.wanted)

    def take(self, k: int, name: str, instances: np.ndarray, values: np.ndarray) -> None:
        """Set parameter `name` for `instances` of mechanism `k` in the start, also after `want`."""
        parameters = self.host.variables.parameters[k]
        parameters[name][instances] = values
        self._changed[k, name] = parameters[name]

    def want(self, records: Sequence[Record]) -> None:
        self.host.want(records)
        for (k, name), values in self._changed.items():
            self.host.variables.parameters[k][name] = values

    def keep(self) -> None:
        """Copy the arrays that steps change, if the device has enough memory."""
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
        """Copy the start back to the run's arrays; return False if there are no copies."""
        pairs = zip(self._arrays() if self._copies else (), self._copies, strict=True)
        for array, copy in pairs:
            copy_onto(array, copy, self._queue)
        if self._copies:
            self.is_left = self.host.has_advanced = False
        return bool(self._copies)

    def copy_of(self, array: cla.Array) -> cla.Array | None:
        pairs = zip(self._arrays() if self._copies else (), self._copies, strict=True)
        return next((copy for changing, copy in pairs if changing is array), None)

    def forget(self) -> None:
        self._copies = []
