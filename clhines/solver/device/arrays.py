"""Arrays and events on a device: checks, order, and copies of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeAlias, TypeGuard

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from numpy.typing import ArrayLike, DTypeLike

from clhines.core.errors import InputError
from clhines.solver.device import copies

# bytes; NVIDIA's driver fills wrongly: 2 GiB and more, and behind a buffer's first 2 GiB
_MOST_FILLED = _FAR = 1 << 30
HOST = "clhines_host"  # attribute that `within_reach` sets on its arrays
_MARK = "clhines_order"  # attribute that marks arrays in device order
Array: TypeAlias = np.ndarray | cla.Array  # numbers on the host or on a device
Given: TypeAlias = "ArrayLike | cla.Array"  # what callers may pass


class Order:
    """Device order of a plan: mark arrays that are in it, and check them by the mark.

    `gather` is `Plan.gather`.
    """

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
                f"{name} is in the device order of another solver; expected this solver's: "
                "from_device_order() there and to_device_order() here"
            )


def order_of(a: object) -> Order | None:
    return getattr(a, _MARK, None)


def unmark(a: object) -> None:
    if order_of(a) is not None:
        delattr(a, _MARK)


def to_device(queue: cl.CommandQueue, values: ArrayLike, dtype: DTypeLike) -> cla.Array:
    """Copy values to a new 1-D device array; the array is a single zero if there are no values."""
    flat = np.ascontiguousarray(values).reshape(-1)
    flat = (flat if flat.size else np.zeros(1)).astype(dtype, copy=False)
    array = cla.to_device(queue, flat)
    array.events.clear()  # the copy has ended; its event would keep `flat` alive
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
    """Return a new device array, in memory that it shares with the host if possible.

    This memory is fine-grained SVM: the host needs no copy commands, which take longer than short
    kernels. `host_of` returns the host's view. Without `zeros` the values are undefined.
    """
    if not copies.fine_grained(queue.device):
        a = cla.empty(queue, shape, dtype)
        if zeros:
            set_zero(a, queue)
        return a
    host = copies.shared(queue, shape, dtype, zeros)
    a = cla.Array(queue, shape, dtype, data=copies.lend(queue, host, writes=True))
    setattr(a, HOST, host)
    return a


def host_of(a: cla.Array) -> np.ndarray | None:
    """Return the host's view of an array in SVM, for use between commands; None for others."""
    return getattr(a, HOST, None)


def set_zero(a: cla.Array, queue: cl.CommandQueue) -> None:
    """Set all values of an array to 0, in the order of the queue, without building a kernel."""
    host = host_of(a)
    if host is not None:
        queue.finish()
        host[...] = 0
        return
    for event in _filled(a, 0, a.nbytes, np.int8(0), queue, list(a.events)):
        a.add_event(event)


def _filled(
    a: cla.Array,
    begin: int,
    end: int,
    value: np.generic,
    queue: cl.CommandQueue,
    waits: Sequence[cl.Event] = (),
) -> list[cl.Event]:
    """Enqueue fills of the bytes `begin` to `end` of an array; return their events."""
    events = []
    for first in range(begin, end, _MOST_FILLED):
        size = min(_MOST_FILLED, end - first)
        data, (before, at) = a.base_data, divmod(a.offset + first, _FAR)
        if before:
            data = data.get_sub_region(before * _FAR, at + size)
        events.append(cl.enqueue_fill(queue, data, value, size, offset=at, wait_for=waits))
    return events


def set_soon(
    a: cla.Array, first: int, values: np.ndarray, queue: cl.CommandQueue
) -> cl.Event | None:
    """Write values to an array from index `first` on.

    If the result is an event, `values` must not change until this event has ended.
    """
    host = getattr(a, HOST, None)
    if host is not None:
        queue.finish()
        host[first : first + len(values)] = values
        return None
    place = a.offset + first * a.dtype.itemsize
    return copies.write_buffer(queue, a.base_data, values, dst_offset=place, is_blocking=False)


def fill_soon(
    a: cla.Array, first: int, count: int, value: np.generic, queue: cl.CommandQueue
) -> None:
    """Set ``a[first : first + count]`` to `value`, of its dtype: on the host if it shares `a`."""
    host = host_of(a)
    if host is not None:
        queue.finish()
        host[first : first + count] = value
        return
    size = a.dtype.itemsize
    _filled(a, first * size, (first + count) * size, value, queue)


def values_of(a: cla.Array, queue: cl.CommandQueue) -> np.ndarray:
    host = host_of(a)
    if host is None:
        return a.get(queue)
    queue.finish()
    return host.copy()


def writable(a: object) -> TypeGuard[Array]:
    """Whether a solution can be written to `a`: not read-only, and no two values share memory."""
    if isinstance(a, cla.Array):
        flags = a.base_data.flags if isinstance(a.base_data, cl.MemoryObjectHolder) else 0
        return a.offset == 0 and a.flags.c_contiguous and not flags & cl.mem_flags.READ_ONLY
    if not isinstance(a, np.ndarray) or not a.flags.writeable:
        return False
    if a.flags.c_contiguous or not a.size:
        return True
    extent = a.itemsize  # bytes of the axes so far, shortest steps first
    for step, size in sorted((abs(step), size) for step, size in zip(a.strides, a.shape)):
        if size > 1 and step < extent:
            return False
        extent += step * (size - 1)
    return True


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
    """Return `a`, or a copy if the solution in `target` would overwrite values that are in use.

    A right-hand side may itself be the `target`. With `matrix`, `a` is d, u or l, and may not.
    """
    overlaps = (matrix or target is not a) and np.may_share_memory(target, a)
    return a.copy() if overlaps else a
