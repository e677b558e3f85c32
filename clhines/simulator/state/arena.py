"""Arenas: device arrays with named regions, so that a kernel takes few arguments."""

from __future__ import annotations

from copy import copy
from math import prod

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.errors import DeviceMemoryError
from clhines.simulator.device.reads import part_of
from clhines.solver.device.arrays import set_soon, values_of, within_reach

_FETCHED = 1 << 20  # numbers up to which one transfer beats one per region


class Arena:
    """A device array with named regions, one after another.

    | v | state m | state h | ... | offset["state m"] = index of its first number
    """

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype, self.offset = np.dtype(dtype), dict[str, int]()
        self._size, self._parts = 0, list[tuple[int, np.ndarray]]()
        self._shape: dict[str, tuple[int, ...]] = {}

    def align(self, size: int) -> None:
        self._size += -self._size % size

    def room(self, name: str, shape: tuple[int, ...]) -> int:
        """Add a region whose values are set later, for an array of `shape`; return its offset."""
        self.offset[name], self._shape[name] = self._size, shape
        self._size += prod(shape)
        return self.offset[name]

    def add(self, name: str, values: np.ndarray) -> None:
        array = np.ascontiguousarray(values, self.dtype)
        self._parts.append((self.room(name, array.shape), array.reshape(-1)))

    def put(self, queue: cl.CommandQueue, onto: cla.Array | None = None) -> cla.Array:
        """Copy all regions into a new array on the device, or into `onto`; return the array.

        Regions cannot be added afterwards.
        """
        if self._size >= 2**31:
            raise DeviceMemoryError(
                f"the variables and events take {self._size} numbers; expected less than 2**31"
            )
        self._queue = queue
        self.array = within_reach(queue, (self._size + 1,), self.dtype) if onto is None else onto
        if self._size <= _FETCHED:
            set_soon(self.array, 0, self._joined(), queue)
        else:
            for at, values in [*self._parts, (self._size, np.zeros(1, self.dtype))]:
                if len(values):
                    set_soon(self.array, at, values, queue)
        self._parts = []
        return self.array

    def view(self, name: str) -> cla.Array:
        begin = self.offset[name]
        return part_of(self.array, begin, begin + prod(self._shape[name]))

    def get(self, name: str) -> np.ndarray:
        shape, begin = self._shape[name], self.offset[name]
        size = prod(shape)
        if not size:
            return np.zeros(shape, self.dtype)
        if self._parts:  # still on the host
            part = self._part_of(begin, size)
            values = self._joined()[begin : begin + size] if part is None else self._parts[part][1]
            return values.reshape(shape).copy()
        return values_of(self.view(name), self._queue).reshape(shape)

    def fetched(self) -> Arena:
        """Return a copy of this arena on the host, read by one transfer.

        A large arena returns itself: then each region is read when it is needed.
        """
        if self._parts or self._size > _FETCHED:
            return self
        arena = copy(self)
        arena.fetch()
        return arena

    def fetch(self) -> None:
        self._parts = [(0, values_of(self.array, self._queue))]

    def set(self, name: str, values: np.ndarray) -> None:
        array = np.array(values, self.dtype).reshape(-1)
        begin = self.offset[name]
        if self._parts:
            part = self._part_of(begin, len(array))
            if part is None:
                self._joined()[begin : begin + len(array)] = array
            else:
                self._parts[part] = begin, array
        elif len(array):
            set_soon(self.array, begin, array, self._queue)

    def _part_of(self, begin: int, size: int) -> int | None:
        parts = [(at, len(values)) for at, values in self._parts]
        return parts.index((begin, size)) if (begin, size) in parts else None

    def _joined(self) -> np.ndarray:
        if len(self._parts) == 1 and len(self._parts[0][1]) > self._size:
            return self._parts[0][1]
        whole = np.zeros(self._size + 1, self.dtype)
        for at, values in self._parts:
            whole[at : at + len(values)] = values
        self._parts = [(0, whole)]
        return whole
