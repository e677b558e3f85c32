"""Copy NumPy arrays to and from a device: lent to a CPU, or through pinned memory to a GPU.

A driver copies ordinary memory through one pinned buffer on one thread, and reaches a fraction of
the bus's bandwidth. `PinnedCopies` has several threads with two pinned pieces each: the bus carries
one piece while the thread fills the other.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Lock

import numpy as np
import pyopencl as cl

from clhines.core.errors import DeviceError
from clhines.solver.device.devices import is_cpu, is_simulator
from clhines.solver.device.guard import check_process

PIECE_BYTES = 4 << 20  # bytes in a pinned piece: each piece takes the GIL a few times
LEAST_PIECE = 2 << 20  # smallest copy, bytes, for the same reason
LEAST_BYTES = 1 << 23  # smaller arrays are copied by one thread
PIECES = 2  # pinned pieces per thread
MOST_THREADS = 8
_SLICE_BYTES = 512 << 10  # slice that one thread fills while the bus carries the one before
_RESULT_BYTES = 256 << 10, 64 << 20  # smallest and largest pinned result, bytes
MOST_RESULTS = 3  # results that are pinned at once
Target = tuple[Sequence[np.ndarray], cl.Buffer]  # rows, and their buffer on the device
RowPart = tuple[np.ndarray, cl.Buffer, int]  # a row's part, its buffer, and its byte offset there
_PAGE_BYTES = 4096
_FEWER = 4  # cores per copying thread


# pyopencl's copies between host and buffer; `cl.enqueue_copy` takes 2 us more to choose one
_cl = sys.modules.get("pyopencl._cl")
write_buffer: Callable[..., cl.Event] = getattr(_cl, "_enqueue_write_buffer", cl.enqueue_copy)
read_buffer: Callable[..., cl.Event] = getattr(_cl, "_enqueue_read_buffer", None) or (
    lambda queue, buffer, host, **how: cl.enqueue_copy(queue, host, buffer, **how)
)


def threads() -> int:
    allowed = getattr(os, "sched_getaffinity", None)
    cores = len(allowed(0)) if allowed else os.cpu_count() or 1
    return min(max(cores // _FEWER, 1), MOST_THREADS)


def helps(device: cl.Device) -> bool:
    """Whether copies through pinned memory are faster: only if the device has its own memory."""
    return not (is_cpu(device) or is_simulator(device) or device.host_unified_memory)


def shares_memory(device: cl.Device) -> bool:
    return is_cpu(device) and not is_simulator(device)


def lends(device: cl.Device, a: np.ndarray) -> bool:
    """Whether kernels can use host array `a` without a copy; Intel requires it to begin a page."""
    return shares_memory(device) and (_is_pocl(device) or a.ctypes.data % _PAGE_BYTES == 0)


def lends_all(device: cl.Device) -> bool:
    return shares_memory(device) and _is_pocl(device)


def _is_pocl(device: cl.Device) -> bool:
    return "portable" in device.platform.name.lower()


def fine_grained(device: cl.Device) -> bool:
    """Whether the host and kernels may share arrays without commands between their accesses."""
    fine = cl.device_svm_capabilities.FINE_GRAIN_BUFFER
    return lends_all(device) and bool(device.svm_capabilities & fine)


def shared(
    queue: cl.CommandQueue, shape: tuple[int, ...], dtype: np.dtype, zeros: bool = True
) -> np.ndarray:
    """Return an array that the host and kernels use in place; kernels get it as `pyopencl.SVM`."""
    array: np.ndarray = cl.fsvm_empty(queue.context, shape, dtype)
    if zeros:
        array[...] = 0
    return array


def lend(queue: cl.CommandQueue, a: np.ndarray, writes: bool = False) -> cl.Buffer:
    """Return a buffer that uses a host array's memory; the array must outlive all its kernels."""
    access = cl.mem_flags.READ_WRITE if writes else cl.mem_flags.READ_ONLY
    return cl.Buffer(queue.context, access | cl.mem_flags.USE_HOST_PTR, hostbuf=a)


def finish_before(owner: object, queue: cl.CommandQueue) -> None:
    """Let a queue finish before `owner` is deleted, whose host memory a CPU's kernels use."""
    if shares_memory(queue.device):
        weakref.finalize(owner, _finish, queue)


def _finish(queue: cl.CommandQueue) -> None:
    with suppress(cl.Error, DeviceError):  # also in a forked process
        check_process()
        queue.finish()


def returned(queue: cl.CommandQueue, buffer: cl.Buffer, a: np.ndarray) -> None:
    """Wait until host array `a` has all values that commands write to its `buffer`."""
    place = 0, a.shape, a.dtype
    mapped, _ = cl.enqueue_map_buffer(queue, buffer, cl.map_flags.READ, *place, is_blocking=True)
    mapped.base.release(queue)


class Pins:
    """Named arrays in pinned host memory for copies; one copy at a time may use an array."""

    def __init__(self, queue: cl.CommandQueue) -> None:
        self._queue = queue
        self._pieces: dict[str, np.ndarray] = {}  # each keeps its buffer mapped

    def get(self, name: str, size: int, dtype: np.dtype) -> np.ndarray:
        count = size * dtype.itemsize
        if name not in self._pieces or self._pieces[name].size < count:
            self._pieces[name] = _pin(self._queue, count)[1]
        return self._pieces[name][:count].view(dtype)


class _Piece:
    """Memory of a pinned array; `free` gets it back when the array and all views are deleted."""

    __slots__ = ("__array_interface__", "_free", "_memory")

    def __init__(
        self, memory: np.ndarray, shape: tuple[int, ...], dtype: np.dtype, free: list[np.ndarray]
    ) -> None:
        self._memory, self._free = memory, free
        place = memory.ctypes.data, False
        self.__array_interface__ = {
            "data": place,
            "shape": shape,
            "typestr": dtype.str,
            "version": 3,
        }

    def __del__(self) -> None:
        self._free.append(self._memory)


class PinnedArrays:
    """Make NumPy arrays in pinned memory, and reuse the memory of deleted arrays."""

    def __init__(self, queue: cl.CommandQueue) -> None:
        self._queue = queue
        self._free: list[np.ndarray] = []
        self._sizes: list[int] = []  # bytes per piece

    def empty_like(self, a: np.ndarray) -> np.ndarray:
        """Return an array like `a`, in pinned memory if its size and the number of arrays allow."""
        least, most = _RESULT_BYTES
        if not least <= a.nbytes <= most or not a.flags.c_contiguous:
            return np.empty_like(a)
        memory = self._memory(a.nbytes)
        if memory is None:
            return np.empty_like(a)
        return np.asarray(_Piece(memory, a.shape, a.dtype, self._free))

    def _memory(self, size: int) -> np.ndarray | None:
        for k in range(len(self._free)):
            if self._free[k].size == size:
                return self._free.pop(k)
        if len(self._sizes) >= MOST_RESULTS and self._free:
            self._sizes.remove(self._free.pop().size)
        if len(self._sizes) >= MOST_RESULTS:
            return None
        memory = _pin(self._queue, size)[1]
        self._sizes.append(size)
        return memory


def is_pinned(a: np.ndarray) -> bool:
    return type(a.base) is _Piece


def result_bytes(size: int) -> int:
    """Return the maximum pinned memory for results of `size` bytes each."""
    least, most = _RESULT_BYTES
    return MOST_RESULTS * size if least <= size <= most else 0


def write(queue: cl.CommandQueue, to: cl.Buffer, pin: np.ndarray, a: np.ndarray) -> list[cl.Event]:
    """Enqueue a copy of `a` to the buffer `to` through the pinned array `pin`; return its events.

    The caller must keep the events, because a pyopencl event of a copy waits when it is deleted.
    """
    if is_pinned(a):
        return [cl.enqueue_copy(queue, to, a, is_blocking=False)]
    flat, step, under_way = a.reshape(-1), _SLICE_BYTES // a.itemsize, list[cl.Event]()
    for first in range(0, len(flat), step):
        some = slice(first, first + step)
        np.copyto(pin[some], flat[some])
        place = {"dst_offset": first * a.itemsize, "is_blocking": False}
        under_way.append(cl.enqueue_copy(queue, to, pin[some], **place))
    return under_way


def read(queue: cl.CommandQueue, out: np.ndarray, pin: np.ndarray, source: cl.Buffer) -> None:
    """Copy the buffer `source` to `out` through the pinned array `pin`, and wait."""
    if is_pinned(out):
        cl.enqueue_copy(queue, out, source)
        return
    flat, step = out.reshape(-1), _SLICE_BYTES // out.itemsize
    if len(flat) <= step:
        cl.enqueue_copy(queue, pin, source)
        np.copyto(flat, pin)
        return
    under_way = []
    for first in range(0, len(flat), step):
        some = slice(first, first + step)
        place = {"src_offset": first * out.itemsize, "is_blocking": False}
        under_way.append((some, cl.enqueue_copy(queue, pin[some], source, **place)))
    for some, event in under_way:
        event.wait()
        np.copyto(flat[some], pin[some])


def _pin(queue: cl.CommandQueue, size: int) -> tuple[cl.Buffer, np.ndarray]:
    """Pin `size` bytes; return the buffer, and its bytes as an array while the buffer lives."""
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
    buffer = cl.Buffer(queue.context, flags, size)
    both = cl.map_flags.READ | cl.map_flags.WRITE
    piece, _ = cl.enqueue_map_buffer(queue, buffer, both, 0, (size,), np.uint8)
    return buffer, piece


class PinnedCopies:
    """Copy large arrays through pinned memory in several threads, one of them the caller's."""

    def __init__(
        self, queue: cl.CommandQueue, num_threads: int | None = None, piece_bytes: int = PIECE_BYTES
    ) -> None:
        self.queue, self._piece_bytes = queue, piece_bytes
        self._count = num_threads or threads()
        # one pool per thread: a thread only uses its own pieces, even if the others are late
        self._pools = [ThreadPoolExecutor(1, "clhines-copy") for _ in range(self._count)]
        self._enqueues = Lock()  # PoCL 3 ends the process when two threads enqueue at once
        self._buffers: list[cl.Buffer] = []
        self._pieces = [[self._pin() for _ in range(PIECES)] for _ in range(self._count)]
        self._busy: list[list[cl.Event | None]] = [[None] * PIECES for _ in range(self._count)]

    def _pin(self) -> np.ndarray:
        buffer, piece = _pin(self.queue, self._piece_bytes)
        self._buffers.append(buffer)
        return piece

    def send(self, arrays: Sequence[Target]) -> cl.Event:
        """Copy rows to their buffers; return the event. Rows may change after the call."""

        def copy(t: int, chunks: Sequence[RowPart]) -> None:
            busy = self._busy[t]
            for k, (values, to, place) in enumerate(chunks):
                which = k % PIECES
                before = busy[which]
                if before is not None:
                    before.wait()
                piece = self._pieces[t][which][: values.nbytes].view(values.dtype)
                np.copyto(piece, values)
                options = {"dst_offset": place, "is_blocking": False}
                with self._enqueues:
                    busy[which] = cl.enqueue_copy(self.queue, to, piece, **options)

        self._copy_in_threads(arrays, copy)
        done = cl.enqueue_marker(self.queue)
        self.queue.flush()
        return done

    def fetch(self, source: cl.Buffer, rows: Sequence[np.ndarray]) -> None:
        """Copy the buffer `source` to `rows`, one after another, and wait."""

        def copy(t: int, chunks: Sequence[RowPart]) -> None:
            under_way: list[tuple[cl.Event, np.ndarray, np.ndarray]] = []
            for k, (values, source, place) in enumerate(chunks):
                piece = self._pieces[t][k % PIECES][: values.nbytes].view(values.dtype)
                if len(under_way) == PIECES:
                    _empty(*under_way.pop(0))
                options = {"src_offset": place, "is_blocking": False}
                with self._enqueues:
                    event = cl.enqueue_copy(self.queue, piece, source, **options)
                under_way.append((event, piece, values))
            for one in under_way:
                _empty(*one)

        self._copy_in_threads([(rows, source)], copy)

    def _copy_in_threads(
        self, arrays: Sequence[Target], copy: Callable[[int, Sequence[RowPart]], None]
    ) -> None:
        whole = sum(row.nbytes for rows, _ in arrays for row in rows)
        size = min(self._piece_bytes, max(LEAST_PIECE, -(-whole // self._count)))
        chunks = list(_chunks(arrays, size))
        work = [
            self._pools[t].submit(copy, t, chunks[t :: self._count])
            for t in range(1, min(self._count, len(chunks)))
        ]
        try:
            copy(0, chunks[:: self._count])
        finally:
            wait(work)  # the threads use the rows, also after an error
        failed = [one for one in work if one.exception() is not None]
        try:
            if failed:
                failed[0].result()
        finally:  # an error refers to this frame: avoid a reference cycle
            del failed, work


def pinned_bytes() -> int:
    return threads() * PIECES * PIECE_BYTES


def _empty(event: cl.Event, piece: np.ndarray, values: np.ndarray) -> None:
    event.wait()
    np.copyto(values, piece)


def _chunks(arrays: Sequence[Target], size: int) -> Iterator[RowPart]:
    """Yield (chunk of at most `size` bytes, buffer, offset in bytes) for all rows of `arrays`."""
    for rows, buffer in arrays:
        place = 0
        for row in rows:
            step = max(1, size // row.itemsize)
            for first in range(0, len(row), step):
                yield row[first : first + step], buffer, place + first * row.itemsize
            place += row.nbytes
