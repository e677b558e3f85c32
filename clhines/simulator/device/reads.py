"""Parts and copies of arrays on a device, and values that the host reads with one wait."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from numpy.typing import DTypeLike

from clhines.solver.device import copies
from clhines.solver.device.arrays import HOST, host_of, set_zero, values_of, within_reach
from clhines.solver.device.devices import is_simulator

_SOON_BYTES = 1 << 16  # arrays up to this size are copied by `Reads.wait`
_SLOT_BYTES, _SLOTS = 512, 8  # in the buffer that `Reads` has for small arrays
_PLACE = "clhines_place"  # attribute of arrays from `Reads.zeros`


def part_of(a: cla.Array, begin: int, end: int) -> cla.Array:
    part, host, place = a[begin:end], host_of(a), getattr(a, _PLACE, None)
    if host is not None:
        setattr(part, HOST, host[begin:end])
    if place is not None:
        setattr(part, _PLACE, place + part.offset - a.offset)
    return part


def copied(a: cla.Array, queue: cl.CommandQueue) -> cla.Array:
    """Return a copy of an array on the device, in memory that the host can access if possible."""
    duplicate = within_reach(queue, a.shape, a.dtype, zeros=False)
    copy_onto(duplicate, a, queue)
    return duplicate


def copy_onto(target: cla.Array, source: cla.Array, queue: cl.CommandQueue) -> None:
    """Copy a device array to another one of equal size; the host copies if it can access both."""
    to_host, from_host = host_of(target), host_of(source)
    if to_host is not None and from_host is not None:
        queue.finish()
        to_host[...] = from_host
        return
    places = {"src_offset": source.offset, "dst_offset": target.offset}
    if target.nbytes:
        size = target.nbytes
        cl.enqueue_copy(queue, target.base_data, source.base_data, byte_count=size, **places)


def read_parts(
    parts: Iterable[tuple[cla.Array, int, int]], queue: cl.CommandQueue
) -> list[np.ndarray]:
    """Return parts of device arrays, (array, first index, end index) each, and wait only once."""
    values, others = list[np.ndarray](), list[tuple[cl.Buffer, int, np.ndarray]]()
    for a, begin, end in parts:
        host = host_of(a)
        values.append(np.empty(end - begin, a.dtype) if host is None else host[begin:end])
        if host is None and end > begin:
            others.append((a.base_data, a.offset + begin * a.dtype.itemsize, values[-1]))
    _read_all(queue, others)
    return [a if a.flags.owndata else a.copy() for a in values]


def _read_all(queue: cl.CommandQueue, others: Sequence[tuple[cl.Buffer, int, np.ndarray]]) -> None:
    events, left = [], len(others)  # a dropped event would wait for its copy
    for data, place, host in others:  # blocking only the last one
        left -= 1
        read = copies.read_buffer(queue, data, host, src_offset=place, is_blocking=not left)
        events.append(read)
    if not events:
        queue.finish()


class Reads:
    """Copy several small device arrays to the host at once: `wait` copies, `get` returns values.

    `zeros` makes arrays in a shared buffer, which one command copies. The commands of `wait` are
    prepared once, and used again until it gets other arrays.
    """

    def __init__(self, queue: cl.CommandQueue) -> None:
        self._queue, device = queue, queue.device
        self._places: dict[str, int] = {}
        self._page: cl.Buffer | None = None
        aligned = device.mem_base_addr_align <= 8 * _SLOT_BYTES  # the device reports bits
        # Oclgrind reports values filled through a sub-buffer as uninitialised
        if aligned and not (copies.fine_grained(device) or is_simulator(device)):
            access = cl.mem_flags.READ_WRITE
            self._page = cl.Buffer(queue.context, access, _SLOTS * _SLOT_BYTES)
        self._prepare(())

    def zeros(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> cla.Array:
        dtype = np.dtype(dtype)
        if self._page is None or math.prod(shape) * dtype.itemsize > _SLOT_BYTES:
            return within_reach(self._queue, shape, dtype)
        place = self._places.setdefault(name, len(self._places) * _SLOT_BYTES)
        slot = self._page.get_sub_region(place, _SLOT_BYTES)
        a = cla.Array(self._queue, shape, dtype, data=slot)
        setattr(a, _PLACE, place)
        set_zero(a, self._queue)
        return a

    def wait(self, arrays: Sequence[cla.Array]) -> None:
        if [*map(id, arrays)] != self._ids:
            self._prepare(arrays)
        _read_all(self._queue, self._reads)
        for host, source in self._shared:
            host[...] = source

    def _prepare(self, arrays: Sequence[cla.Array]) -> None:
        """Allocate host memory for all small `arrays`, and collect the copies into it."""
        self._arrays, self._ids = arrays, [*map(id, arrays)]  # so that no id is used again
        self._copies: dict[int, np.ndarray] = {}
        self._reads: list[tuple[cl.Buffer, int, np.ndarray]] = []
        self._shared: list[tuple[np.ndarray, np.ndarray]] = []
        page, ends = np.empty(_SLOTS * _SLOT_BYTES, np.uint8), [0]
        for a in arrays:
            place, source = getattr(a, _PLACE, None), host_of(a)
            if place is not None:
                ends.append(place + a.nbytes)
                self._copies[id(a)] = np.ndarray(a.shape, a.dtype, page, place)
            elif 0 < a.nbytes <= _SOON_BYTES and id(a) not in self._copies:
                self._copies[id(a)] = host = np.empty(a.shape, a.dtype)
                if source is None:
                    self._reads.append((a.base_data, a.offset, host))
                else:
                    self._shared.append((host, source))
        if len(ends) > 1:
            self._reads.append((self._page, 0, page[: max(ends)]))

    def get(self, a: cla.Array) -> np.ndarray:
        """Return the values at the last `wait`, if it has copied them; else read them."""
        host = self._copies.get(id(a))
        return values_of(a, self._queue) if host is None else host.copy()
