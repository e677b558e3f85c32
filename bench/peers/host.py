"""Solvers that run on the host, for the measure `peers`: hines.c, Numba and SciPy.

Each function here takes a `Case` and yields one `Candidate` for every way in which
its library can solve it, or raises `MissingError`. Arrays in a solver's own order are made
before the clock starts, as they are for clhines.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench import MissingError, record
from bench.systems import Candidate, Case

SPARSE_NODES = 300_000  # largest batch for SciPy's sparse LU, which takes 1 µs a node
FLAGS = ["-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"]
LANES = {"equal": 128, "different": 64}  # bytes per block row in hines.c


def aligned(shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + 4096, np.uint8)
    start = -raw.ctypes.data % 4096
    return raw[start : start + size].view(dtype).reshape(shape)


def copied(a: np.ndarray) -> np.ndarray:
    b = aligned(a.shape, a.dtype)
    b[...] = a
    return b


def in_place(name: str, case: Case, bind: Any) -> Candidate:
    """Return a solver that destroys d and writes the solution over b, in natural order.

    ``bind(d, u, b)`` makes the call of these arrays, outside the clock.
    """
    work = [copied(case.sets[0][0]), copied(case.sets[0][2])]
    calls = [bind(work[0], u, work[1]) for _, u, _ in case.sets]

    def restore(k: int) -> None:
        work[0][...], work[1][...] = case.sets[k][0], case.sets[k][2]

    return Candidate(name, lambda k: calls[k](), lambda k: work[1], restore)


# -- hines.c -----------------------------------------------------------------------------------


def find_compiler() -> str:
    compiler = os.environ.get("CC") or shutil.which("cc")
    if not compiler:
        raise MissingError("no C compiler: set CC, or put cc on the PATH")
    return compiler


def versions() -> dict[str, str]:
    version_of = {
        name: str(getattr(sys.modules[name], "__version__", "unknown"))
        for name in ("cupy", "jax", "jaxley", "numba", "scipy")
        if name in sys.modules
    }
    with contextlib.suppress(MissingError, OSError):
        command = [*find_compiler().split(), "--version"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        version_of["cc"] = f"{done.stdout.partition(chr(10))[0]}, {' '.join(FLAGS)}"
    return version_of


@functools.cache
def library(dtype: str) -> ctypes.CDLL:
    compiler = find_compiler()
    real = {"float64": "double", "float32": "float"}[dtype]
    with tempfile.TemporaryDirectory() as folder:  # a loaded library needs its file no more
        out = str(Path(folder, "hines.so"))
        source = str(Path(__file__).with_name("hines.c"))
        command = [*compiler.split(), *FLAGS, f"-DREAL={real}", source, "-o", out]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise MissingError(f"{compiler}: {error.strerror}") from error
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line]
            raise MissingError(f"{compiler}: {(lines or ['does not compile hines.c'])[0]}")
        return ctypes.CDLL(out)


def pointer(a: np.ndarray) -> ctypes.c_void_p:
    if not a.flags.c_contiguous:
        raise ValueError("expected a contiguous array")
    return ctypes.c_void_p(a.ctypes.data)


def bound(function: Any, *arguments: Any) -> Callable[[], None]:
    converted = [ctypes.c_int(a) if isinstance(a, int) else pointer(a) for a in arguments]

    def run(keep: Any = arguments) -> None:  # holds on to the arrays
        if function(*converted):
            raise MemoryError("hines.c found no memory for its scratch")

    return run


def c_serial(case: Case, name: str = "C, one thread", threads: int = 1) -> Iterator[Candidate]:
    """Textbook loop over cells and nodes; several threads share out the cells.

    Cells may be of different sizes.
    """
    forest, trees = case.forest, case.forest.trees
    root = np.repeat(trees.offsets[:-1], trees.sizes)
    parents = np.where(trees.parent < 0, -1, trees.parent - root).astype(np.int32)
    where = forest.cell_offsets, case.shape_of_cell, trees.offsets, parents
    tables = [np.ascontiguousarray(a) for a in where]
    solve = library(case.dtype.name).serial
    bind = functools.partial(bound, solve, case.cells, threads, *tables)
    yield in_place(name, case, bind)


def c_multicore(case: Case) -> Iterator[Candidate]:
    """Textbook loop, all threads: the multicore version of Valero-Lara et al. 2018, section 3.2."""
    yield from c_serial(case, "C/OpenMP, cell by cell", record.cores())


def depth_first(parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Renumber each tree's nodes depth first, the largest subtree last."""
    shapes, nodes = parents.shape
    row = np.arange(shapes)
    size = np.ones((shapes, nodes), np.int32)
    for i in range(nodes - 1, 0, -1):
        size[row, parents[:, i]] += size[:, i]
    largest = np.zeros((shapes, nodes), np.int32)  # each node's child that goes last
    for i in range(1, nodes):
        best = largest[row, parents[:, i]]
        largest[row, parents[:, i]] = np.where(
            (best == 0) | (size[:, i] > size[row, best]), i, best
        )
    place = np.zeros((shapes, nodes), np.int32)
    free = np.ones((shapes, nodes), np.int32)  # next place for a child, after its parent's
    for i in range(1, nodes):
        up = parents[:, i]
        last = largest[row, up] == i
        place[:, i] = place[row, up] + np.where(last, size[row, up] - size[:, i], free[row, up])
        free[row, up] += np.where(last, 0, size[:, i])
    order = np.argsort(place, axis=1).astype(np.int32)
    up = np.take_along_axis(parents, order, 1)
    return order, np.where(up < 0, -1, np.take_along_axis(place, np.maximum(up, 0), 1))


def slots(shape_of_cell: np.ndarray, lanes: int, by_shape: bool) -> np.ndarray:
    """Put cells into blocks, cells with one shape side by side."""
    cells = np.argsort(shape_of_cell, kind="stable")
    runs = (
        np.split(cells, np.flatnonzero(np.diff(shape_of_cell[cells])) + 1) if by_shape else [cells]
    )
    padded = [np.pad(run, (0, -len(run) % lanes), constant_values=-1) for run in runs]
    return np.concatenate(padded).reshape(-1, lanes)


def in_blocks(name: str, case: Case, cell: np.ndarray, order: np.ndarray, bind: Any) -> Candidate:
    """Return a solver of blocks of cells; lanes without a cell solve the identity.

    Parameters
    ----------
    cell : (blocks, lanes) int64
        See `slots`.
    order : (shapes, nodes) int32
        See `depth_first`.
    bind : callable
        ``bind(d, u, b, x)`` binds the call to these arrays, each (blocks, nodes, lanes).
    """
    nodes = case.nodes
    within = order[case.shape_of_cell[np.maximum(cell, 0)]]  # (blocks, lanes, nodes)
    gather = (np.maximum(cell, 0)[:, :, None] * nodes + within).transpose(0, 2, 1)
    empty = np.broadcast_to((cell < 0)[:, None, :], gather.shape)

    def packed(a: np.ndarray, fill: float) -> np.ndarray:
        out = aligned(gather.shape, case.dtype)
        np.take(a, gather, out=out, mode="clip")
        out[empty] = fill
        return out

    sets = [[packed(a, fill) for a, fill in zip(s, (1, 0, 0))] for s in case.sets]
    x = [aligned(gather.shape, case.dtype) for _ in sets]
    for a in x:
        a.fill(np.nan)  # the memory may hold another solver's solution
    calls = [bind(*arrays, out) for arrays, out in zip(sets, x)]

    def result(k: int) -> np.ndarray:
        out = np.full(case.forest.num_nodes, np.nan, case.dtype)
        out[gather[~empty]] = x[k][~empty]
        return out

    return Candidate(name, lambda k: calls[k](), result)


def c_equal(case: Case) -> Iterator[Candidate]:
    lanes = LANES["equal"] // case.dtype.itemsize
    cell = slots(case.shape_of_cell, lanes, by_shape=True)
    if len(cell) > 1 and cell.size > 2 * case.cells:
        raise MissingError(f"fewer than {lanes // 2} cells of a shape for {lanes} lanes")
    order, parents = depth_first(case.parents)
    shape = case.shape_of_cell[cell[:, 0]]
    code = codes(parents)
    depth = case.nodes.bit_length()
    solve = library(case.dtype.name).equal
    yield in_blocks(
        "C/OpenMP, equal trees in lanes",
        case,
        cell,
        order,
        functools.partial(bound, solve, len(cell), case.nodes, depth, code, shape),
    )


def codes(parents: np.ndarray) -> np.ndarray:
    """Return each node's code, (shapes, nodes) uint8: its work in `equal` in hines.c."""
    nodes = parents.shape[1]
    further = parents < np.arange(nodes) - 1
    further[:, 0] = False
    waits = np.zeros(parents.shape, bool)
    last = np.zeros(parents.shape, np.int64)  # each node's highest child
    row, i = np.nonzero(further)
    waits[row, parents[row, i]] = True
    np.maximum.at(last, (row, parents[row, i]), i)
    is_last = np.zeros(parents.shape, bool)
    is_last[row, i] = last[row, parents[row, i]] == i
    return (waits + 2 * further + 4 * is_last).astype(np.uint8)


def c_different(case: Case) -> Iterator[Candidate]:
    lanes, nodes = LANES["different"] // case.dtype.itemsize, case.nodes
    cell = slots(case.shape_of_cell, lanes, by_shape=False)
    order, parents = depth_first(case.parents)
    up = parents[case.shape_of_cell[np.maximum(cell, 0)]].transpose(0, 2, 1)
    starts = up < np.arange(nodes)[:, None] - 1
    starts[:, 0] = False
    waits = np.zeros(up.shape, bool)
    block, i, lane = np.nonzero(starts)
    waits[block, up[block, i, lane], lane] = True
    bit = 1 << np.arange(lanes)
    tables = [(starts @ bit).astype(np.uint16), (waits @ bit).astype(np.uint16)]
    where = np.ascontiguousarray(np.maximum(up, 0) * lanes + np.arange(lanes), np.int32)
    solve = library(case.dtype.name).different
    yield in_blocks(
        "C/OpenMP, any trees in lanes",
        case,
        cell,
        order,
        functools.partial(bound, solve, len(cell), nodes, where, *tables),
    )


# -- Numba -------------------------------------------------------------------------------------


@functools.cache
def numba_solver(parallel: bool) -> Any:
    try:
        import numba
    except ImportError as error:
        raise MissingError(str(error)) from error

    @numba.njit(parallel=parallel, error_model="numpy")
    def solve(parents, shape_of_cell, d, u, b):  # type: ignore[no-untyped-def]
        n = parents.shape[1]
        for c in numba.prange(len(shape_of_cell)):
            p, at = parents[shape_of_cell[c]], c * n
            dc, uc, bc = d[at : at + n], u[at : at + n], b[at : at + n]
            for i in range(n - 1, 0, -1):
                f = uc[i] / dc[i]
                dc[p[i]] -= f * uc[i]
                bc[p[i]] -= f * bc[i]
            bc[0] /= dc[0]
            for i in range(1, n):
                bc[i] = (bc[i] - uc[i] * bc[p[i]]) / dc[i]

    return solve


def numba_call(parallel: bool, case: Case) -> Any:
    solve = numba_solver(parallel)
    return functools.partial(functools.partial, solve, case.parents, case.shape_of_cell)


def numba_serial(case: Case) -> Iterator[Candidate]:
    """Textbook loop, one thread; used only without a C compiler for the same loop."""
    with contextlib.suppress(MissingError):
        library(case.dtype.name)
        return
    yield in_place("Numba, one thread", case, numba_call(False, case))


def numba_parallel(case: Case) -> Iterator[Candidate]:
    yield in_place("Numba, prange", case, numba_call(True, case))


# -- SciPy -------------------------------------------------------------------------------------


def out_of_place(name: str, solvers: list[Any]) -> Candidate:
    """Return a solver that keeps its inputs; ``solvers[k]()`` gives the solution of set k."""
    solutions: dict[int, np.ndarray] = {}

    def launch(k: int) -> None:
        solutions[k] = solvers[k]()

    return Candidate(name, launch, lambda k: np.asarray(solutions[k]))


def scipy_banded(case: Case) -> Iterator[Candidate]:
    """Chains as one banded matrix, through LAPACK's gtsv and ptsv."""
    if case.kind != "chains":
        return
    try:
        from scipy.linalg import solve_banded, solveh_banded
    except ImportError as error:
        raise MissingError(str(error)) from error
    bands = []
    for d, u, _ in case.sets:
        e = np.append(u[1:], 0).astype(case.dtype)  # u is zero at the roots: cells stay apart
        bands.append((np.stack([u, d, e]), np.stack([d, e])))
    full = [
        lambda k=k: solve_banded((1, 1), bands[k][0], case.sets[k][2], check_finite=False)
        for k in range(len(bands))
    ]
    half = [
        lambda k=k: solveh_banded(bands[k][1], case.sets[k][2], lower=True, check_finite=False)
        for k in range(len(bands))
    ]
    yield out_of_place("SciPy solve_banded", full)
    yield out_of_place("SciPy solveh_banded", half)


def scipy_sparse(case: Case) -> Iterator[Candidate]:
    """SuperLU in the order without fill, factor and solve."""
    try:
        from scipy import sparse
        from scipy.sparse.linalg import splu
    except ImportError as error:
        raise MissingError(str(error)) from error
    n = case.forest.num_nodes
    if n > SPARSE_NODES:
        raise MissingError(f"not run above {SPARSE_NODES:,} nodes")
    inner = np.flatnonzero(case.forest.parent >= 0)
    mine, up = n - 1 - inner, n - 1 - case.forest.parent[inner]  # children first: no fill
    rows = np.concatenate([np.arange(n), mine, up])
    columns = np.concatenate([np.arange(n), up, mine])
    matrices = [
        sparse.csc_matrix((np.concatenate([d[::-1], u[inner], u[inner]]), (rows, columns)))
        for d, u, _ in case.sets
    ]

    def solver(k: int) -> Any:
        options = {"SymmetricMode": True}
        rhs = case.sets[k][2][::-1].copy()
        return lambda: splu(
            matrices[k], permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options
        ).solve(rhs)[::-1]

    yield out_of_place("SciPy splu", [solver(k) for k in range(len(matrices))])
