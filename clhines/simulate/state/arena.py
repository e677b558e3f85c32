"""Arenas: named regions of one array on a device, so that a kernel takes few arguments."""

from __future__ import annotations

from copy import copy
from math import prod

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device.arrays import part_of, set_soon, values_of, within_reach
from clhines.errors import DeviceMemoryError
from clhines.simulate.state.tiled import Tiler

NONE = np.zeros(0)
_FETCHED = 1 << 20  # numbers: up to here one transfer is faster than one for each region


class Arena:
    """Arrays one after another in one array on a device; a `tiler` repeats those of one copy."""

    def __init__(self, dtype: np.dtype, tiler: Tiler | None = None) -> None:
        self.dtype, self._tiler = np.dtype(dtype), tiler
        self.offset: dict[str, int] = {}
        self._size, self._parts = 0, list[tuple[int, np.ndarray]]()
        self._tiles: list[tuple[int, np.ndarray, int]] = []
        self._shape: dict[str, tuple[int, ...]] = {}

    @property
    def copies(self) -> int:
        """How many times `tile` has its rows."""
        return 1 if self._tiler is None else self._tiler.copies

    def align(self, size: int) -> None:
        """Let the next region begin at a multiple of `size` numbers."""
        self._size += -self._size % size

    def room(self, name: str, shape: tuple[int, ...]) -> int:
        """Add a region whose values come later; return where it begins."""
        self.offset[name], self._shape[name] = self._size, shape
        self._size += prod(shape)
        return self.offset[name]

    def add(self, name: str, values: np.ndarray) -> None:
        """Add a region."""
        array = np.ascontiguousarray(values, self.dtype)
        self._parts.append((self.room(name, array.shape), array.reshape(-1)))

    def tile(
        self, name: str, rows: np.ndarray, step: int = 0, before: np.ndarray = NONE,
        after: np.ndarray = NONE,
    ) -> None:  # fmt: skip
        """Add a region: `before`, (rows, n) values as `Tiler.tile` repeats them, and `after`."""
        if self._tiler is None:
            more = len(before) or len(after)
            self.add(
                name,
                np.concatenate([before, rows.reshape(-1), after]) if more else rows.reshape(-1),
            )
            return
        once = np.ascontiguousarray(rows, self.dtype)
        size = once.size * self.copies
        begin = self.room(name, (len(before) + size + len(after),))
        self._tiles.append((begin + len(before), once, step))
        for at, values in ((begin, before), (begin + len(before) + size, after)):
            self._parts.append((at, np.asarray(values, self.dtype)))

    def put(self, queue: cl.CommandQueue) -> cla.Array:
        """Put all regions on the device; nothing is added any more."""
        if self._size >= 2**31:
            raise DeviceMemoryError(
                f"the variables and events take {self._size} numbers; expected less than 2**31"
            )
        self._queue = queue
        self.array = within_reach(queue, (self._size + 1,), self.dtype)
        if self._tiler is None:
            set_soon(self.array, 0, self._joined(), queue)
        else:
            for at, once, step in self._tiles:
                self._tiler.tile(once, self.array, at, step)
            for at, values in [*self._parts, (self._size, np.zeros(1, self.dtype))]:
                if len(values):
                    set_soon(self.array, at, values, queue)
        self._parts, self._tiles = [], []
        return self.array

    def view(self, name: str) -> cla.Array:
        """Return a region that is on the device, as an array of one dimension."""
        begin = self.offset[name]
        return part_of(self.array, begin, begin + prod(self._shape[name]))

    def get(self, name: str) -> np.ndarray:
        """Return the values of a region as they are now."""
        shape, begin = self._shape[name], self.offset[name]
        size = prod(shape)
        if not size:
            return np.zeros(shape, self.dtype)
        if self._parts:  # on the host so far
            return self._joined()[begin : begin + size].reshape(shape).copy()
        return values_of(self.view(name), self._queue).reshape(shape)

    def fetched(self) -> Arena:
        """Return a copy on the host, by one transfer; where that is much, this one itself."""
        if self._parts or self._size > _FETCHED:
            return self
        found = copy(self)
        found.fetch()
        return found

    def fetch(self) -> None:
        """Take all regions, which are on the device, to the host."""
        self._parts = [(0, values_of(self.array, self._queue))]

    def set(self, name: str, values: np.ndarray) -> None:
        """Replace the values of a region."""
        array = np.ascontiguousarray(values, self.dtype).reshape(-1)
        begin = self.offset[name]
        if self._parts:
            self._joined()[begin : begin + len(array)] = array
        elif len(array):
            set_soon(self.array, begin, array, self._queue)

    def _joined(self) -> np.ndarray:
        """All regions and a number more, before they are on the device."""
        if len(self._parts) == 1 and len(self._parts[0][1]) > self._size:
            return self._parts[0][1]
        whole = np.zeros(self._size + 1, self.dtype)
        for at, values in self._parts:
            whole[at : at + len(values)] = values
        self._parts = [(0, whole)]
        return whole
