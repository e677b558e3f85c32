"""Tiler: what is of one copy of a network repeated on the device for all copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device import devices, program
from clhines.plan.kernel_spec import TemplateSpec
from clhines.plan.plan import real_name

WIDE = 128  # work-items of a row on other devices than CPUs


@dataclass(frozen=True)
class TiledSpec(TemplateSpec):
    """``tiled.mako``; `real` is ``double`` or ``float``."""

    template: ClassVar[str] = "simulate/tiled"
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
    """Repeats on a device what is of one copy for `copies` copies.

    `dtype` is that of values that are no whole numbers; `gather` is the node of all copies at each
    place of the solver's order, -1 for none.
    """

    def __init__(
        self, queue: cl.CommandQueue, dtype: np.dtype, copies: int, gather: np.ndarray
    ) -> None:
        self.queue, self.dtype, self.copies = queue, np.dtype(dtype), copies
        self._gather = cla.to_device(queue, np.ascontiguousarray(gather, np.int32))
        self._sizes = devices.wide_groups(queue.device, len(gather))
        spec = TiledSpec(real_name(dtype))
        of_name = {name: program.kernel_of(queue.context, spec, name) for name in spec.kernels}
        self._values, self._numbers = of_name["tile_values"], of_name["tile_numbers"]
        self._pack, self._invert = of_name["pack_values"], of_name["invert_places"]
        self._others, self._places = of_name["place_others"], of_name["find_places"]
        self._width = 1 if devices.is_cpu(queue.device) else WIDE

    def tile(self, once: np.ndarray, whole: cla.Array, begin: int, step: int) -> None:
        """Repeat (rows, n) values into `whole` from `begin` on; whole numbers grow by `step`."""
        if not once.size:
            return
        given = cla.to_device(self.queue, once)
        width = min(self._width, devices.small_groups(self.queue.device, 1)[1][0])
        size = (width, once.shape[0] * self.copies), (width, 1)
        arrays = given.base_data, whole.base_data
        if once.dtype == np.int32:
            self._numbers(self.queue, *size, once.shape[1], self.copies, begin, step, *arrays)
        else:
            assert not step and once.dtype == self.dtype
            self._values(self.queue, *size, once.shape[1], self.copies, begin, *arrays)

    def pack(self, once: np.ndarray) -> cla.Array:
        """(places,) values of all copies in the solver's order, of (n,) of one in natural order."""
        given = cla.to_device(self.queue, np.ascontiguousarray(once, self.dtype))
        gather, places = self._gather, len(self._gather)
        found = cla.empty(self.queue, places, self.dtype)
        arrays = gather.base_data, given.base_data, found.base_data
        self._pack(self.queue, *self._sizes, places, len(once), *arrays)
        return found

    def neighbours(self, of_one: np.ndarray) -> list[cla.Array]:
        """`axial.placed_neighbours` of all copies, of (k, n) `axial.neighbours` of one."""
        gather, places, n = self._gather, len(self._gather), of_one.shape[1]
        place = cla.empty(self.queue, n * self.copies, np.int32)
        self._invert(self.queue, *self._sizes, places, gather.base_data, place.base_data)
        found = list[cla.Array]()
        for some in of_one:
            given = cla.to_device(self.queue, np.ascontiguousarray(some, np.int32))
            found.append(cla.empty(self.queue, places, np.int32))
            arrays = gather, place, given, found[-1]
            self._others(self.queue, *self._sizes, places, n, *(a.base_data for a in arrays))
        return found

    def find_places(
        self, number: np.ndarray, active: cla.Array, ints: cla.Array, begin: int
    ) -> None:
        """Find the active node at each place, and the place of each, in `ints` from `begin`."""
        given = cla.to_device(self.queue, number)
        places, most = len(active), int(number.max(initial=-1)) + 1
        self._places(
            self.queue, *self._sizes, places, len(number), most, begin,
            self._gather.base_data, given.base_data, active.base_data, ints.base_data,
        )  # fmt: skip
