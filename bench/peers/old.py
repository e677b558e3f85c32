"""The old solver of the 2018 report: Arbor's solver of that year, with a work-item per cell.

After ``matrix_solve.cu`` and ``matrix_state_interleaved.hpp`` of Arbor 0.1
(github.com/arbor-sim/arbor, BSD licence), in OpenCL: cells sorted by size, largest first, in blocks
of 32 with interleaved elements; all blocks are as long as the largest cell. A node reads the index
of its parent and adds to it in global memory. Destroys `d`, and leaves `x` in `b`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from bench import systems
from bench.systems import Candidate, Case, Repeats
from clhines import Forest
from clhines.solver.device import pocl

WIDTH = 32  # cells per block, whose length is rounded up to a multiple of this
SOURCE = """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
kernel void to_order(global const REAL *natural, global const int *place, global REAL *out)
{
    const size_t i = get_global_id(0);
    out[place[i]] = natural[i];
}

kernel void from_order(global const REAL *values, global const int *place, global REAL *out)
{
    const size_t i = get_global_id(0);
    out[i] = values[place[i]];
}

kernel __attribute__((reqd_work_group_size(WIDTH, 1, 1)))
void old(global REAL *b, global REAL *d, global const REAL *u, global const int *parent,
         global const int *sizes, const int length, const int cells)
{
    const int cell = get_global_id(0);
    if (cell >= cells) return;
    const int block = cell / WIDTH * WIDTH;
    const int first = block * length + cell - block;
    const int last = first + WIDTH * (sizes[cell] - 1);
    const int last_of_block = first + WIDTH * (sizes[block] - 1);
    if (d[last] == 0) return;   // a cell that takes no step
    for (int i = last_of_block; i > first; i -= WIDTH) {
        if (i <= last) {
            const REAL factor = u[i] / d[i];
            d[parent[i]] -= factor * u[i];
            b[parent[i]] -= factor * b[i];
        }
    }
    b[first] /= d[first];
    for (int i = first + WIDTH; i <= last; i += WIDTH) {
        b[i] -= u[i] * b[parent[i]];
        b[i] /= d[i];
    }
}
"""


def layout(forest: Forest) -> tuple[np.ndarray, np.ndarray, int]:
    """Return each node's position, the sizes of the sorted cells, and the block length.

    Returns
    -------
    place : (num_nodes,) int64
        Position of each node of the natural order; parents come before their children there.
    sizes : (num_cells,) int64
        Largest first.
    length : int
        Elements of every block.
    """
    order = np.argsort(forest.sizes, kind="stable")[::-1]
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    sizes = forest.sizes[order]
    length = -(-int(sizes[0]) // WIDTH) * WIDTH
    start = rank // WIDTH * WIDTH * length + rank % WIDTH
    element = np.arange(forest.num_nodes) - np.repeat(forest.cell_offsets[:-1], forest.sizes)
    return np.repeat(start, forest.sizes) + WIDTH * element, sizes, length


def idle(forest: Forest) -> float:
    sizes = np.sort(forest.sizes)[::-1]
    return 1 - float(sizes.sum() / (sizes[::WIDTH].sum() * WIDTH))


def solver(case: Case, name: str, packed: bool = False) -> Candidate:
    """Return it as a candidate.

    Parameters
    ----------
    packed : bool
        Bringing `d` and `b` into its order and `x` back counts; the time is then the sum of the
        kernels, on a CPU that from the first to the end.
    """
    queue, forest, wall = case.queue, case.forest, systems.on_host(case.queue.device)
    place, sizes, length = layout(forest)
    total = -(-forest.num_cells // WIDTH) * WIDTH * length
    parent = np.zeros(total, np.int32)
    parent[place] = place[np.maximum(forest.parent, 0)]
    real = {"float64": "double", "float32": "float"}[case.dtype.name]
    pocl.name_processor(queue.device)
    built = cl.Program(queue.context, SOURCE).build([f"-DREAL={real}", f"-DWIDTH={WIDTH}"])
    to, back, solve = (cl.Kernel(built, n) for n in ("to_order", "from_order", "old"))
    tables = [cla.to_device(queue, a.astype(np.int32)) for a in (parent, sizes, place)]
    natural = list(case.on_device())
    work = [cla.zeros(queue, total, case.dtype) for _ in range(2 + len(natural))]
    (d, b), edges = work[:2], work[2:]
    out = cla.empty(queue, forest.num_nodes, case.dtype)

    def moved(kernel: cl.Kernel, source: cla.Array, target: cla.Array) -> cl.Event:
        buffers = source.data, tables[2].data, target.data
        return kernel(queue, (forest.num_nodes,), None, *buffers)

    def pack(k: int) -> Sequence[cl.Event]:
        return [moved(to, natural[k][0], d), moved(to, natural[k][2], b)]

    def launch(k: int) -> float | None:
        events = list(pack(k)) if packed else []
        buffers = b.data, d.data, edges[k].data, tables[0].data, tables[1].data
        groups = -(-forest.num_cells // WIDTH) * WIDTH
        counts = np.int32(length), np.int32(forest.num_cells)
        events.append(solve(queue, (groups,), (WIDTH,), *buffers, *counts))
        if packed:
            events.append(moved(back, b, out))
        queue.finish()
        return None if wall else sum(e.profile.end - e.profile.start for e in events) * 1e-9

    def restore(k: int) -> None:
        if not packed:
            pack(k)
            queue.finish()

    def result(k: int) -> np.ndarray | Repeats:
        moved(back, b, out)
        return case.solution(out)

    for values, (_, u, _) in zip(edges, natural):
        moved(to, u, values)
    return Candidate(name, launch, result, restore, clock="wall" if wall else "device")
