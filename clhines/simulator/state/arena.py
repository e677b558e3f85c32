"""Arenas: device arrays with named regions, so that a kernel takes few arguments."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.errors import DeviceMemoryError
from clhines.simulator.device.reads import part_of
from clhines.solver.device import devices, program
from clhines.solver.device.arrays import set_soon, values_of, within_reach
from clhines.solver.plan.kernel_spec import TemplateSpec
from clhines.solver.plan.plan import real_name

WIDE = 128  # work-items per row on a GPU


@dataclass(frozen=True)
class TiledSpec(TemplateSpec):
    template: ClassVar[str] = "simulator/tiled"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "tile_values": (
            "int n, int copies, long begin",
            "const real *restrict values, real *restrict whole",
        ),
        "pack_values": (
            "int num_places, int n",
            "const int *restrict gather, const real *restrict values, real *restrict whole",
        ),
        "tile_numbers": (
            "int n, int copies, long begin, int step",
            "const int *restrict values, int *restrict whole",
        ),
        "invert_places": ("int num_places, const int *restrict gather, int *restrict place",),
        "place_others": (
            "int num_places, int n, const int *restrict gather, const int *restrict place",
            "const int *restrict other, int *restrict placed",
        ),
        "find_places": (
            "int num_places, int n, int num_active, long begin",
            "const int *restrict gather, const int *restrict number",
            "int *restrict active, int *restrict ints",
        ),
    }
    real: str


class Tiler:
    """Repeat one copy's arrays for all `copies` of a network, on a device.

    `gather` has the node, among all copies, at each index in the solver's order.
    """

    def __init__(
        self, queue: cl.CommandQueue, dtype: np.dtype, copies: int, gather: np.ndarray
    ) -> None:
        self.queue, self.dtype, self.copies = queue, np.dtype(dtype), copies
        self._gather = cla.to_device(queue, np.ascontiguousarray(gather, np.int32))
        self._sizes = devices.wide_groups(queue.device, len(gather))
        spec = TiledSpec(real_name(dtype))
        self._kernels = {n: program.kernel_of(queue.context, spec, n) for n in spec.kernels}
        self._width = 1 if devices.is_cpu(queue.device) else WIDE

    def tile(self, once: np.ndarray, whole: cla.Array, begin: int, step: int) -> None:
        """Write one copy's (rows, n) values for all copies into `whole`, from entry `begin` on.

        In each row the copies follow each other. Integers grow by `step` from copy to copy.
        """
        if not once.size:
            return
        values = cla.to_device(self.queue, once)
        width = min(self._width, devices.small_groups(self.queue.device, 1)[1][0])
        size = (width, once.shape[0] * self.copies), (width, 1)
        arrays = values.base_data, whole.base_data
        if once.dtype == np.int32:
            self._kernels["tile_numbers"](
                self.queue, *size, once.shape[1], self.copies, begin, step, *arrays
            )
        else:
            assert not step and once.dtype == self.dtype
            self._kernels["tile_values"](
                self.queue, *size, once.shape[1], self.copies, begin, *arrays
            )

    def pack(self, values: np.ndarray) -> cla.Array:
        on_device = cla.to_device(self.queue, np.ascontiguousarray(values, self.dtype))
        gather, places = self._gather, len(self._gather)
        packed = cla.empty(self.queue, places, self.dtype)
        arrays = gather.base_data, on_device.base_data, packed.base_data
        self._kernels["pack_values"](self.queue, *self._sizes, places, len(values), *arrays)
        return packed

    def neighbours(self, of_one: np.ndarray) -> list[cla.Array]:
        """Expand each node's neighbours from one copy to all copies.

        `of_one`, (k, n), has the indices of each node's k neighbours in one copy, or -1. Return k
        arrays of device indices, (places,) on the device, in the solver's order.
        """
        gather, places, n = self._gather, len(self._gather), of_one.shape[1]
        place = cla.empty(self.queue, n * self.copies, np.int32)
        self._kernels["invert_places"](
            self.queue, *self._sizes, places, gather.base_data, place.base_data
        )
        placed = list[cla.Array]()
        for row in of_one:
            on_device = cla.to_device(self.queue, np.ascontiguousarray(row, np.int32))
            placed.append(cla.empty(self.queue, places, np.int32))
            arrays = gather, place, on_device, placed[-1]
            self._kernels["place_others"](
                self.queue, *self._sizes, places, n, *(a.base_data for a in arrays)
            )
        return placed

    def find_places(
        self, number: np.ndarray, active: cla.Array, ints: cla.Array, begin: int
    ) -> None:
        """Find the device indices of active nodes (nodes with instances, ions or detectors).

        `number` has each node's index among its copy's active nodes, or -1. `active` gets the
        active node at each device index; `ints` gets, from entry `begin` on, each active node's
        device index.
        """
        numbers = cla.to_device(self.queue, number)
        places, most = len(active), int(number.max(initial=-1)) + 1
        self._kernels["find_places"](
            self.queue,
            *self._sizes,
            places,
            len(number),
            most,
            begin,
            self._gather.base_data,
            numbers.base_data,
            active.base_data,
            ints.base_data,
        )


NONE = np.zeros(0)
_FETCHED = 1 << 20  # numbers up to which one transfer beats one per region


class Arena:
    """A device array with named regions, one after another.

    If there is a `tiler`, it repeats one copy's regions for all copies.

        | v | state m | state h | ... | offset["state m"] = index of its first number
    """

    def __init__(self, dtype: np.dtype, tiler: Tiler | None = None) -> None:
        self.dtype, self._tiler = np.dtype(dtype), tiler
        self.offset: dict[str, int] = {}
        self._size, self._parts = 0, list[tuple[int, np.ndarray]]()
        self._tiles: list[tuple[int, np.ndarray, int]] = []
        self._shape: dict[str, tuple[int, ...]] = {}

    @property
    def copies(self) -> int:
        return 1 if self._tiler is None else self._tiler.copies

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

    def tile(
        self,
        name: str,
        rows: np.ndarray,
        step: int = 0,
        before: np.ndarray = NONE,
        after: np.ndarray = NONE,
    ) -> None:
        """Add a region with `rows`, (rows, n) of one copy, repeated for all copies.

        In each row the copies follow one another; integers grow by `step` from copy to copy.
        `before` and `after` are numbers at the region's begin and end.
        """
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
        tiler = self._tiler
        if tiler is None and self._size <= _FETCHED:
            set_soon(self.array, 0, self._joined(), queue)
        else:
            for at, once, step in self._tiles:
                assert tiler is not None
                tiler.tile(once, self.array, at, step)
            for at, values in [*self._parts, (self._size, np.zeros(1, self.dtype))]:
                if len(values):
                    set_soon(self.array, at, values, queue)
        self._parts, self._tiles = [], []
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
