"""Checks of arrays and events of a device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TypeAlias, TypeGuard

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from numpy.typing import ArrayLike, DTypeLike

from clhines.core.errors import InputError
from clhines.solver.device import copies
from clhines.solver.device.devices import is_simulator

_MOST_FILLED = 1 << 30  # bytes; NVIDIA's driver fills 2 GiB and more wrongly
_SOON_BYTES = 1 << 16  # of arrays that `Reads` copies at once
_SLOT_BYTES, _SLOTS = 512, 8  # of the buffer of small arrays of `Reads`
_HOST = "clhines_host"  # attribute of arrays of `within_reach`
_MARK = "clhines_order"  # attribute of arrays in device order
_PLACE = "clhines_place"  # attribute of arrays of `Reads.zeros`
Array: TypeAlias = np.ndarray | cla.Array  # of numbers, on the host or on a device
Given: TypeAlias = "ArrayLike | cla.Array"  # what a caller may give as such


class Order:
    """Order of values on the device, which arrays are marked with; `gather` is as `Plan.gather`."""

    def __init__(self, gather: np.ndarray, num_nodes: int) -> None:
        self.gather, self.num_nodes = gather, num_nodes

    @cached_property
    def is_natural(self) -> bool:
        gather, n = self.gather, self.num_nodes
        return len(gather) == n and np.array_equal(gather, np.arange(n, dtype=gather.dtype))

    def mark(self, a: cla.Array) -> cla.Array:
        setattr(a, _MARK, self)
        return a

    def check(self, name: str, a: cla.Array) -> None:
        order = order_of(a)
        if order is self or (order is None and self.is_natural):
            return
        if order is None:
            raise InputError(
                f"{name} does not come from to_device_order(); expected an array in device order: "
                "give it to to_device_order(), or pass packed=True if its values are in that order"
            )
        if not np.array_equal(order.gather, self.gather):
            raise InputError(
                f"{name} is in the device order of another solver; expected that of this one: "
                "from_device_order() there and to_device_order() here"
            )


def order_of(a: object) -> Order | None:
    return getattr(a, _MARK, None)


def unmark(a: object) -> None:
    if order_of(a) is not None:
        delattr(a, _MARK)


def to_device(queue: cl.CommandQueue, values: ArrayLike, dtype: DTypeLike) -> cla.Array:
    """Return values on a device, one after another; one zero stands for none."""
    flat = np.ascontiguousarray(values).reshape(-1)
    flat = (flat if flat.size else np.zeros(1)).astype(dtype, copy=False)
    array = cla.to_device(queue, flat)
    array.events.clear()  # of a copy that is done: they keep `flat`
    return array


def events_of(name: str, wait_for: object, queue: cl.CommandQueue) -> list[cl.Event]:
    if wait_for is None:
        return []
    events = [wait_for] if isinstance(wait_for, cl.Event) else wait_for
    if not isinstance(events, (list, tuple)) or not all(isinstance(e, cl.Event) for e in events):
        kinds = {type(e).__name__ for e in events} if isinstance(events, (list, tuple)) else ()
        got = type(wait_for).__name__ + (f" of {', '.join(sorted(kinds))}" if kinds else "")
        raise InputError(f"{name} is {got}; expected an event or a list of events")
    if any(event.context != queue.context for event in events):
        raise InputError(f"{name} has an event of another OpenCL context than the solver")
    return list(events)


def within_reach(
    queue: cl.CommandQueue, shape: tuple[int, ...], dtype: np.dtype, zeros: bool = True
) -> cla.Array:
    """Zeros on a device, in fine-grained SVM where it can: commands outlast short kernels.

    What is not `zeros` may be anything.
    """
    if not copies.fine_grained(queue.device):
        a = cla.empty(queue, shape, dtype)
        if zeros:
            set_zero(a, queue)
        return a
    host = copies.shared(queue, shape, dtype, zeros)
    a = cla.Array(queue, shape, dtype, data=copies.lend(queue, host, writes=True))
    setattr(a, _HOST, host)
    return a


def _host_of(a: cla.Array) -> np.ndarray | None:
    """Return the memory of an array of `within_reach`, which no command may be using."""
    return getattr(a, _HOST, None)


def part_of(a: cla.Array, begin: int, end: int) -> cla.Array:
    part, host, place = a[begin:end], _host_of(a), getattr(a, _PLACE, None)
    if host is not None:
        setattr(part, _HOST, host[begin:end])
    if place is not None:
        setattr(part, _PLACE, place + part.offset - a.offset)
    return part


def set_zero(a: cla.Array, queue: cl.CommandQueue) -> None:
    """Enqueue zeros for all of an array; `Array.fill` would build a kernel, which prints."""
    host = _host_of(a)
    if host is not None:
        queue.finish()
        host[...] = 0
        return
    waits = list(a.events)
    for begin in range(0, a.nbytes, _MOST_FILLED):
        size = min(_MOST_FILLED, a.nbytes - begin)
        at = a.offset + begin
        a.add_event(
            cl.enqueue_fill(queue, a.base_data, np.int8(0), size, offset=at, wait_for=waits)
        )


def set_soon(
    a: cla.Array, first: int, values: np.ndarray, queue: cl.CommandQueue
) -> cl.Event | None:
    """Set or enqueue values from `first` on, which must not change until the event."""
    host = _host_of(a)
    if host is not None:
        queue.finish()
        host[first : first + len(values)] = values
        return None
    place = a.offset + first * a.dtype.itemsize
    return cl.enqueue_copy(queue, a.base_data, values, dst_offset=place, is_blocking=False)


def copied(a: cla.Array, queue: cl.CommandQueue) -> cla.Array:
    """Return a copy on the device, within reach of the host if the array is."""
    copy = within_reach(queue, a.shape, a.dtype, zeros=False)
    copy_onto(copy, a, queue)
    return copy


def copy_onto(target: cla.Array, source: cla.Array, queue: cl.CommandQueue) -> None:
    """Copy, or enqueue a copy of, all of an array onto another one of its size."""
    here, there = _host_of(target), _host_of(source)
    if here is not None and there is not None:
        queue.finish()
        here[...] = there
        return
    places = {"src_offset": source.offset, "dst_offset": target.offset}
    if target.nbytes:
        size = target.nbytes
        cl.enqueue_copy(queue, target.base_data, source.base_data, byte_count=size, **places)


def values_of(a: cla.Array, queue: cl.CommandQueue) -> np.ndarray:
    host = _host_of(a)
    if host is None:
        return a.get(queue)
    queue.finish()
    return host.copy()


def read_parts(
    parts: Iterable[tuple[cla.Array, int, int]], queue: cl.CommandQueue
) -> list[np.ndarray]:
    """Wait once, and return the values of some arrays from one place until before another."""
    values, others = list[np.ndarray](), list[tuple[cl.Buffer, int, np.ndarray]]()
    for a, begin, end in parts:
        host = _host_of(a)
        values.append(np.empty(end - begin, a.dtype) if host is None else host[begin:end])
        if host is None and end > begin:
            others.append((a.base_data, a.offset + begin * a.dtype.itemsize, values[-1]))
    _read_all(queue, others)
    return [a if a.flags.owndata else a.copy() for a in values]


def _read_all(queue: cl.CommandQueue, others: Sequence[tuple[cl.Buffer, int, np.ndarray]]) -> None:
    """Wait once for all that is enqueued, with copies of buffers from some places on."""
    events = []  # kept: one that is dropped waits for its copy
    for k, (data, place, host) in enumerate(others, 1):  # the last one waits for all
        last = k == len(others)
        copied = cl.enqueue_copy(queue, host, data, src_offset=place, is_blocking=last)
        events.append(copied)
    if not others:
        queue.finish()


class Reads:
    """Copies of small arrays to the host that are waited for once; `zeros` lie in one buffer."""

    def __init__(self, queue: cl.CommandQueue) -> None:
        self._queue, device = queue, queue.device
        self._copies: dict[int, tuple[cla.Array, np.ndarray]] = {}
        self._places: dict[str, int] = {}
        self._page: cl.Buffer | None = None
        aligned = device.mem_base_addr_align <= 8 * _SLOT_BYTES  # which that gives in bits
        # Oclgrind takes what is filled through a part of a buffer for uninitialised
        if aligned and not (copies.fine_grained(device) or is_simulator(device)):
            access = cl.mem_flags.READ_WRITE
            self._page = cl.Buffer(queue.context, access, _SLOTS * _SLOT_BYTES)

    def zeros(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> cla.Array:
        """Return zeros on the device; they replace an earlier array of that name."""
        dtype = np.dtype(dtype)
        if self._page is None or math.prod(shape) * dtype.itemsize > _SLOT_BYTES:
            return within_reach(self._queue, shape, dtype)
        place = self._places.setdefault(name, len(self._places) * _SLOT_BYTES)
        slot = self._page.get_sub_region(place, _SLOT_BYTES)
        a = cla.Array(self._queue, shape, dtype, data=slot)
        setattr(a, _PLACE, place)
        set_zero(a, self._queue)
        return a

    def wait(self, arrays: Iterable[cla.Array]) -> None:
        """Wait for all that is enqueued, with copies of small `arrays` in place of those before."""
        self._copies, page = {}, None
        others = list[tuple[cl.Buffer, int, np.ndarray]]()
        shared = list[tuple[np.ndarray, np.ndarray]]()
        for a in arrays:
            place = getattr(a, _PLACE, None)
            if place is not None:
                if page is None:
                    page = np.empty(_SLOTS * _SLOT_BYTES, np.uint8)
                    others.append((self._page, 0, page))
                self._copies[id(a)] = a, np.ndarray(a.shape, a.dtype, page, place)
            elif 0 < a.nbytes <= _SOON_BYTES and id(a) not in self._copies:
                source, host = _host_of(a), np.empty(a.shape, a.dtype)
                self._copies[id(a)] = a, host
                if source is None:
                    others.append((a.base_data, a.offset, host))
                else:
                    shared.append((host, source))
        _read_all(self._queue, others)
        for host, source in shared:
            host[...] = source

    def get(self, a: cla.Array) -> np.ndarray:
        pair = self._copies.pop(id(a), None)
        return values_of(a, self._queue) if pair is None else pair[1]


def writable(a: object) -> TypeGuard[Array]:
    if isinstance(a, cla.Array):
        return a.offset == 0 and a.flags.c_contiguous
    if not isinstance(a, np.ndarray) or not a.flags.writeable:
        return False
    pairs = zip(a.shape, a.strides, strict=True)
    return all(step or size < 2 for size, step in pairs)  # no two values at one place


def target_of(
    original: object,
    b: Array,
    out: Array | None,
    overwrite: bool,
    dtype: np.dtype,
    empty_like: Callable[[np.ndarray], np.ndarray] = np.empty_like,
) -> Array:
    if out is None:
        masked = isinstance(original, np.ma.MaskedArray)
        if overwrite and not masked and writable(original) and original.dtype == dtype:
            return original
        return cla.empty_like(b) if isinstance(b, cla.Array) else empty_like(b)
    check_out(out, b.shape, dtype, type(b))
    if type(out) is not type(b):  # a masked array, say
        raise InputError(f"out is {type(out).__name__}; expected {type(b).__name__}")
    if isinstance(b, cla.Array) and isinstance(out, cla.Array) and out.context != b.context:
        raise InputError("out lives in another OpenCL context than the solver")
    return out


def check_out(out: object, shape: tuple[int, ...], dtype: np.dtype, kind: type) -> None:
    got = getattr(out, "dtype", "?"), getattr(out, "shape", "?")
    if not isinstance(out, kind) or got != (dtype, shape):
        raise InputError(
            f"out is {type(out).__name__} of {got[0]} with shape {got[1]}; expected "
            f"{kind.__name__} of {dtype} with shape {shape}"
        )
    if not writable(out):
        raise InputError(
            "out is read-only, has several values at one place, or is a part of a device array; "
            "expected an array of its own"
        )


def unshared(a: np.ndarray, target: np.ndarray, matrix: bool = False) -> np.ndarray:
    """Return `a`, or a copy where `target` overlaps it but is not the same right-hand sides."""
    overlaps = (matrix or target is not a) and np.may_share_memory(target, a)
    return a.copy() if overlaps else a
