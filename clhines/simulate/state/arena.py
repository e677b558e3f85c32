"""Arenas: named regions of one array on a device, so that a kernel takes few arguments."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device.arrays import part_of, set_soon, values_of, within_reach
from clhines.errors import DeviceMemoryError

_FETCHED = 1 << 20  # numbers: up to here one transfer is faster than one for each region


class Arena:
    """Arrays one after another in one array on a device.

    Parameters
    ----------
    dtype : dtype
    """

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = np.dtype(dtype)
        self.offset: dict[str, int] = {}
        self._size, self._parts = 0, list[np.ndarray]()
        self._shape: dict[str, tuple[int, ...]] = {}

    def align(self, size: int) -> None:
        """Let the next region begin at a multiple of `size` numbers."""
        gap = -self._size % size
        self._parts.append(np.zeros(gap, self.dtype))
        self._size += gap

    def add(self, name: str, values: np.ndarray) -> None:
        """Add a region."""
        array = np.ascontiguousarray(values, self.dtype)
        self.offset[name], self._shape[name] = self._size, array.shape
        self._parts.append(array.reshape(-1))
        self._size += array.size

    def put(self, queue: cl.CommandQueue) -> cla.Array:
        """Put all regions on the device; nothing is added any more."""
        if self._size >= 2**31:
            raise DeviceMemoryError(
                f"the variables and events take {self._size} numbers; expected less than 2**31"
            )
        whole = np.concatenate([*self._parts, np.zeros(1, self.dtype)])
        self._parts = []
        self._queue, self.array = queue, within_reach(queue, whole.shape, self.dtype)
        set_soon(self.array, 0, whole, queue)
        return self.array

    def view(self, name: str) -> cla.Array:
        """Return a region that is on the device, as an array of one dimension."""
        begin = self.offset[name]
        return part_of(self.array, begin, begin + int(np.prod(self._shape[name])))

    def get(self, name: str) -> np.ndarray:
        """Return the values of a region as they are now."""
        shape, begin = self._shape[name], self.offset[name]
        size = int(np.prod(shape))
        if not size:
            return np.zeros(shape, self.dtype)
        if self._parts:  # on the host so far
            return self._joined()[begin : begin + size].reshape(shape).copy()
        return values_of(self.view(name), self._queue).reshape(shape)

    def fetched(self) -> Arena:
        """Return a copy on the host, by one transfer; where that is much, this one itself."""
        if self._parts or self._size > _FETCHED:
            return self
        found, whole = Arena(self.dtype), values_of(self.array, self._queue)
        for name, begin in self.offset.items():
            size = int(np.prod(self._shape[name]))
            found.add(name, whole[begin : begin + size].reshape(self._shape[name]))
        return found

    def set(self, name: str, values: np.ndarray) -> None:
        """Replace the values of a region."""
        array = np.ascontiguousarray(values, self.dtype).reshape(-1)
        begin = self.offset[name]
        if self._parts:
            self._joined()[begin : begin + len(array)] = array
        elif len(array):
            set_soon(self.array, begin, array, self._queue)

    def _joined(self) -> np.ndarray:
        """All regions, before they are on the device."""
        self._parts = [np.concatenate(self._parts)]
        return self._parts[0]
