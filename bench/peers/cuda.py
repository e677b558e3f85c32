"""cuSPARSE's batched tridiagonal solvers, for the measure `peers`: chains on an NVIDIA GPU.

CuPy brings the arrays, the events and the library's folder; the solvers themselves are called
through ctypes, because not every version of CuPy has them.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench import MissingError
from bench.systems import Candidate, Case, Repeats

DELAY = """
extern "C" __global__ void delay(long long cycles) {
    const long long begin = clock64();
    while (clock64() - begin < cycles) {}
}
"""
CYCLES = 400_000  # 0.2 ms: as long as the host takes to enqueue a solve, and more
ALGORITHMS = {0: "Thomas", 1: "LU", 2: "QR"}  # gtsvInterleavedBatch's numbers


@functools.cache
def cupy() -> Any:
    try:
        import cupy as cp
    except ImportError as error:
        raise MissingError(str(error)) from error
    try:
        cp.cuda.runtime.getDeviceCount()
        cp.zeros(1).sum().item()
    except Exception as error:  # CuPy's own errors have no common base
        raise MissingError(f"CuPy finds no CUDA device: {error}") from error
    return cp


@functools.cache
def library() -> tuple[ctypes.CDLL, ctypes.c_void_p]:
    cupy()
    names = ["libcusparse.so", "libcusparse.so.12", "libcusparse.so.13", "libcusparse.so.11"]
    try:
        from cupy_backends.cuda.libs import cusparse as bound

        bound.destroy(bound.create())  # loads the library
        maps = Path("/proc/self/maps").read_text("utf-8").split()
        names = [name for name in maps if "libcusparse.so" in name] + names
    except (ImportError, AttributeError, OSError):
        pass
    for name in dict.fromkeys(names):
        try:
            sparse = ctypes.CDLL(name)
        except OSError:
            continue
        handle = ctypes.c_void_p()
        if status := sparse.cusparseCreate(ctypes.byref(handle)):
            raise MissingError(f"cusparseCreate returned {status}")
        return sparse, handle
    raise MissingError("libcusparse.so was not found")


def call(name: str, *arguments: Any) -> None:
    sparse, handle = library()

    def passed(a: Any) -> Any:
        if isinstance(a, int):
            return ctypes.c_int(a)
        return ctypes.c_void_p(a.data.ptr) if hasattr(a, "data") else a

    if status := getattr(sparse, name)(handle, *map(passed, arguments)):
        raise MissingError(f"{name} returned {status}")


@functools.cache
def delay() -> Any:
    """Compile the kernel that keeps the device busy for a while."""
    return cupy().RawKernel(DELAY, "delay")


def timed(launch: Callable[[], None]) -> float:
    """Seconds between two events around `launch`, with the host far ahead of the device."""
    cp = cupy()
    begin, end = cp.cuda.Event(), cp.cuda.Event()
    delay()((1,), (1,), (np.int64(CYCLES),))
    begin.record()
    launch()
    end.record()
    end.synchronize()
    return float(cp.cuda.get_elapsed_time(begin, end)) * 1e-3


def solver(
    name: str,
    case: Case,
    interleaved: bool,
    routine: str,
    before: tuple,
    after: tuple,
    reorders: bool = False,
) -> Candidate:
    """Return one routine as a candidate.

    Parameters
    ----------
    reorders : bool
        Values are there in natural order, and the clock runs while CuPy changes the order.
    routine : str
        ``{}`` stands for the letter of the dtype.
    before, after : tuple of int
        Arguments before and after the arrays dl, d, du, x.
    """
    cp = cupy()
    cp.get_default_memory_pool().free_all_blocks()  # frees memory for OpenCL's arrays
    shape = (case.cells, case.nodes)

    def ordered(a: np.ndarray) -> Any:
        whole = cp.tile(cp.asarray(a), -(-case.cells * case.nodes // len(a)))
        whole = whole[: case.cells * case.nodes].reshape(shape)
        return cp.ascontiguousarray(whole.T if interleaved else whole)

    fresh = []
    for d, u, b in case.values:
        e = np.append(u[1:], 0).astype(case.dtype)
        fresh.append([ordered(a) for a in (u, d, e, b)])
    work = [[a.copy() for a in arrays] for arrays in fresh]
    natural = [[cp.ascontiguousarray(a.T) for a in some] for some in fresh] if reorders else []
    routine = "cusparse" + routine.format({"float64": "D", "float32": "S"}[case.dtype.name])
    size = ctypes.c_size_t()
    call(f"{routine}_bufferSizeExt", *before, *work[0], *after, ctypes.byref(size))
    buffer = cp.empty(max(size.value, 1), np.uint8)

    def restore(k: int) -> None:
        for a, saved in zip(work[k], fresh[k]):
            a[...] = saved
        if reorders:
            natural[k][0][...] = fresh[k][0].T

    def solve(k: int) -> None:
        if reorders:
            for a, source in zip(work[k], natural[k]):
                cp.copyto(a, source.T)
        call(routine, *before, *work[k], *after, buffer)
        if reorders:
            cp.copyto(natural[k][0], work[k][3].T)  # dl is not needed any more

    def launch(k: int) -> float:
        return timed(lambda: solve(k))

    def result(k: int) -> Repeats:
        x = work[k][3]
        x = cp.ascontiguousarray(x.T if interleaved else x).reshape(-1)
        once = x[: len(case.values[0][0])]
        others = cp.tile(once, -(-len(x) // len(once)))[: len(x)]
        return Repeats(cp.asnumpy(once), float(cp.max(cp.abs(x - others))))

    return Candidate(name, launch, result, restore, clock="device")


def strided(case: Case) -> Iterator[Candidate]:
    if case.kind != "chains":
        return
    if case.nodes < 3:
        raise MissingError("chains of fewer than 3 nodes are refused")
    after = case.cells, case.nodes
    yield solver(
        "cuSPARSE gtsv2StridedBatch", case, False, "{}gtsv2StridedBatch", (case.nodes,), after
    )


def interleaved(case: Case, algorithm: int = 0, reorders: bool = False) -> Iterator[Candidate]:
    """Solve chains side by side in memory, or `reorders` chains that are one after another."""
    if case.kind != "chains":
        return
    name = f"cuSPARSE gtsvInterleavedBatch, {ALGORITHMS[algorithm]}"
    name += ", from natural order" if reorders else ""
    before, after = (algorithm, case.nodes), (case.cells,)
    yield solver(name, case, True, "{}gtsvInterleavedBatch", before, after, reorders)
