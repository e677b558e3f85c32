"""DeepDendrite's and Arbor's own kernels, on the systems of `bench.systems`, for `originals`.

Their code is not part of this project. A folder has what nvcc makes of the published sources:

- ``kernel17.cubin`` from ``Figure_3_4/kernel17.cu`` of github.com/pkuzyc/DeepDendrite, by
  ``nvcc -arch=sm_90 -cubin -O2 -Xptxas -dlcm=ca``, as its Makefile has it;
- ``matrix_fine.cubin`` from ``arbor/backends/gpu/matrix_fine.cu`` of github.com/arbor-sim/arbor,
  by ``nvcc -arch=sm_90 -cubin -O3 -std=c++20 --expt-relaxed-constexpr -DARB_CUDA
  -DARB_GPU_ENABLED`` and the include folders ``arbor`` and ``arbor/include``.

The layouts that the kernels read are made here, by the rules of the originals: DeepDendrite's
schedule with the lanes of a warp in the order of their last steps, so that each step reads
consecutive values; Arbor's cuts of branches at the mean length of their level, 10 nodes at least,
and blocks of 128 branches a level. Both get cells of one shape side by side, which can only help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench import MissingError
from bench.peers import cuda
from bench.systems import Candidate, Case
from clhines import Forest
from clhines.arrays import offsets, ranges
from clhines.forest import Trees
from clhines.literature.dhs import k_lane_steps
from clhines.plan import packing
from clhines.plan.by_branch import layout, schedule

WARP = 32
MANY = 10_000  # cells above which few threads a cell are the fastest
FEW_LANES, LANES = 4, (8, 16, 32)  # threads a cell
TABLES = ("parent", "stride", "most", "least", "first", "last")  # of DeepDendrite
ARBOR_BRANCHES = 128  # of a level of a block, and threads of a block
ARBOR_LEAST = 10  # nodes of a piece of a branch
KERNELS = {"kernel17.cubin": "kernel17", "matrix_fine.cubin": "solve_matrix_fine"}


def kernel(folder: Path, name: str) -> Any:
    """Load a kernel from the folder of cubins.

    Raises
    ------
    MissingError
        The file is not there, or has no such kernel.
    """
    path = folder / name
    if not path.is_file():
        raise MissingError(f"no {name} in the folder of the originals")
    text = path.read_bytes()
    begin = text.find(b".text._Z")
    mangled = text[begin + 6 : text.find(b"\0", begin)].decode()
    while KERNELS[name] not in mangled:
        begin = text.find(b".text._Z", begin + 1)
        if begin < 0:
            raise MissingError(f"{name} has no kernel {KERNELS[name]}")
        mangled = text[begin + 6 : text.find(b"\0", begin)].decode()
    return cuda.cupy().RawModule(path=str(path)).get_function(mangled)


def in_place(
    name: str, case: Case, gather: np.ndarray, launch: Callable[[Any, Any, Any], None]
) -> Candidate:
    """Return a kernel that destroys d and b, and leaves the solution in b, as a candidate.

    Parameters
    ----------
    gather : (size,) integer
        Natural index of each place, -1 for padding.
    launch : callable
        ``launch(d, u, b)`` with arrays in the kernel's order.
    """
    cp = cuda.cupy()
    index = cp.asarray(gather)
    used = index >= 0

    def ordered(a: np.ndarray, padding: float) -> Any:
        return cp.where(used, cp.asarray(a)[cp.maximum(index, 0)], padding)

    fresh = [[ordered(a, p) for a, p in zip(arrays, (1.0, 0.0, 0.0))] for arrays in case.sets]
    work = [[d.copy(), u, b.copy()] for d, u, b in fresh]

    def restore(k: int) -> None:
        work[k][0][...] = fresh[k][0]
        work[k][2][...] = fresh[k][2]

    def result(k: int) -> np.ndarray:
        x = cp.empty(case.forest.num_nodes, case.dtype)
        x[index[used]] = work[k][2][used]
        return np.asarray(cp.asnumpy(x))

    return Candidate(
        name, lambda k: cuda.timed(lambda: launch(*work[k])), result, restore, clock="device"
    )


# -- DeepDendrite ------------------------------------------------------------------------------


def deepdendrite_layout(forest: Forest, k: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Order and tables of DeepDendrite's kernel17, with `k` threads a cell.

    Step 0 is the root's and ``norder`` the first that is eliminated, of all cells at once; a
    thread goes on from there until its last step, ``least``.

    Returns
    -------
    gather : (num_nodes,) int64
        Roots of all cells first, then warp after warp, step after step from the root.
    tables : dict of name -> int32 array
    """
    trees, cells = forest.trees, np.argsort(forest.shape_of_cell, kind="stable")
    steps = k_lane_steps(trees, k)
    most = int(steps.counts.max()) - 1  # without the root
    shape = forest.shape_of_cell[cells]
    width = [steps.width[a:b] for a, b in zip(steps.offsets[:-1], steps.offsets[1:])]
    done = np.array([[np.count_nonzero(w[:-1] > j) for j in range(k)] for w in width])
    per_warp = WARP // k
    warps = -(-len(cells) // per_warp)
    least = np.full((warps, WARP), most + 1)  # of lane (j, cell): the step that it ends with
    least.reshape(-1)[lane_of(np.arange(len(cells)), k).reshape(-1)] = (
        most + 1 - done[shape]
    ).reshape(-1)
    rank = np.argsort(np.argsort(least, axis=1, kind="stable"), axis=1)
    active = np.stack([(least <= o).sum(1) for o in range(most + 1)], 1)
    active[:, 0] = 0
    first = len(cells) + offsets(active.sum(1))[:-1, None] + np.cumsum(active, 1) - active
    place = np.empty(forest.num_nodes, np.int64)
    for tree in range(trees.num_trees):
        some = np.flatnonzero(shape == tree)
        w = width[tree][:-1]
        step = most - np.repeat(np.arange(len(w)), w)
        lane = np.arange(len(step)) - np.repeat(np.cumsum(w) - w, w)
        at = lane_of(some, k)[:, lane]
        warp, here = np.divmod(at, WARP)
        nodes = steps.order[trees.offsets[tree] : trees.offsets[tree + 1]] - trees.offsets[tree]
        start = forest.cell_offsets[cells[some]][:, None]
        place[start + nodes[:-1]] = first[warp, step] + rank[warp, here]
        place[start[:, 0] + nodes[-1]] = some
    gather = np.empty_like(place)
    gather[place] = np.arange(len(place))
    above = forest.parent[gather]
    by_rank = np.argsort(rank, axis=1)
    ends = np.take_along_axis(least, by_rank, 1).reshape(-1)
    none = ends > most
    number = np.tile(np.arange(WARP), warps)
    tables = {
        "parent": np.where(above < 0, -1, place[above]),
        "stride": active.reshape(-1),
        "most": np.full(warps * WARP, most),
        "least": ends,
        "first": np.where(
            none, -1, np.repeat(first, WARP, 0)[np.arange(len(ends)), np.minimum(ends, most)]
            + number,
        ),
        "last": np.where(none, -1, np.repeat(first[:, -1], WARP) + number),
    }  # fmt: skip
    return gather, {name: a.astype(np.int32) for name, a in tables.items()} | {
        "numbers": np.array([most, len(cells), len(cells) * k], np.int32)
    }


def lane_of(cells: np.ndarray, k: int) -> np.ndarray:
    """(num_cells, k) int64: thread of each lane of cells."""
    per_warp = WARP // k
    warp, column = np.divmod(cells, per_warp)
    return warp[:, None] * WARP + np.arange(k) * per_warp + column[:, None]


def deepdendrite(case: Case, folder: Path) -> Iterator[Candidate]:
    """DeepDendrite's kernel, with several numbers of threads a cell and a block."""
    if case.dtype != np.float64:
        raise MissingError("float64 only")
    cp = cuda.cupy()
    solve = kernel(folder, "kernel17.cubin")
    for k in (FEW_LANES,) if case.cells > MANY else LANES:
        gather, tables = deepdendrite_layout(case.forest, k)
        most, cells, threads = tables.pop("numbers").tolist()
        given = [cp.asarray(tables[name]) for name in TABLES]
        given += [np.int32(most), np.int32(cells), np.int32(threads)]
        for block in (32, 128):
            launch = deepdendrite_launch(solve, -(-threads // block), block, given)
            yield in_place(f"DeepDendrite, k={k}, block {block}", case, gather, launch)


def deepdendrite_launch(
    solve: Any, blocks: int, block: int, given: list[Any]
) -> Callable[[Any, Any, Any], None]:
    """Return what launches DeepDendrite's kernel on d, u and b."""
    return lambda d, u, b: solve((blocks,), (block,), (u, u, d, b, *given))


# -- Arbor -------------------------------------------------------------------------------------


def arbor_forest(forest: Forest) -> Forest:
    """Cut branches at the mean of their level, rounded down, but into `ARBOR_LEAST` at least."""
    trees = forest.trees
    weight = np.bincount(forest.shape_of_cell, minlength=trees.num_trees)
    inner = np.flatnonzero(trees.branch_parent >= 0)
    child = inner[np.argsort(trees.branch_parent[inner], kind="stable")]
    counts = np.bincount(trees.branch_parent[inner], minlength=len(trees.branch_parent))
    first = offsets(counts)[:-1]
    cuts = np.zeros(len(trees.parent), bool)
    branch = np.flatnonzero(trees.branch_parent < 0)
    begin = np.zeros(len(branch), np.int64)
    while len(branch):
        length = trees.branch_length[branch] - begin
        times = weight[trees.branch_tree[branch]]
        mean = max(int((times * length).sum() // times.sum()), ARBOR_LEAST)
        longer = length > mean
        done = branch[~longer]
        below = child[ranges(first[done], counts[done])]
        begin = np.concatenate((begin[longer] + mean, np.zeros(len(below), np.int64)))
        branch = branch[longer]
        cuts[trees.order[trees.branch_start[branch] + begin[: len(branch)]]] = True
        branch = np.concatenate((branch, below))
    return Forest.from_trees(Trees(trees.offsets, trees.parent, cuts), forest.shape_of_cell)


def arbor_layout(forest: Forest) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Order and tables of Arbor's `solve_matrix_fine`.

    Levels go from the deepest to the root's; element j of a branch lies j times the width of its
    level after its first, from the tip's end.

    Returns
    -------
    gather : (size,) int64
        -1 for padding.
    tables : dict of name -> array
        In the order of the arguments.
    """
    cut = arbor_forest(forest)
    widths = packing.level_widths(cut)
    blocks = packing.next_fit(cut, widths, ARBOR_BRANCHES, cut.num_cells)
    levels = schedule.branch_levels(cut.trees, blocks.slot_template, blocks.slot_tree)
    ours = layout.LevelStrided(levels, blocks)
    natural = ours.gather(cut)
    made = [_arbor_template(levels, ours, t) for t in range(len(ours.template_size))]
    start, data, index, meta = 0, 0, [0], []
    gather, lengths, parents = [], [], []
    for block, template in enumerate(blocks.template):
        form = made[template]
        shift = np.array([0, 0, start, data], np.uint32)
        meta.append(form["meta"] + shift)
        lengths.append(form["lengths"])
        parents.append(form["parents"])
        values = np.full(form["size"], -1)
        values[form["to"]] = natural[ours.block_start[block] + form["from"]]
        gather.append(values)
        start, data = start + form["size"], data + len(form["lengths"])
        index.append(index[-1] + len(form["meta"]))
    slots = np.diff(blocks.slot_start)[blocks.template]
    tables = {
        "meta": np.concatenate(meta),
        "lengths": np.concatenate(lengths).astype(np.int32),
        "parents": np.concatenate(parents).astype(np.int32),
        "index": np.array(index, np.int32),
        "cells": slots.astype(np.int32),
    }
    return np.concatenate(gather), tables


def _arbor_template(
    levels: schedule.BranchLevels, ours: layout.LevelStrided, template: int
) -> dict[str, Any]:
    """Tables of a block of one template, which start at 0; and places from ours to Arbor's."""
    meta, lengths, parents, to, of = [], [], [], [], []
    start = data = 0
    begin, end = levels.level_start[template], levels.level_start[template + 1]
    for level in range(int(end) - 1, int(begin) - 1, -1):
        a, b = levels.branch_start[level], levels.branch_start[level + 1]
        length, width = levels.length[a:b], int(b - a)
        meta.append([width, int(length[0]), start, data])
        lengths.append(length)
        above = levels.branch_start[level - 1] if level > begin else 0
        parents.append(np.where(levels.parent[a:b] < 0, -1, levels.parent[a:b] - above))
        branch = np.repeat(np.arange(width), length)
        step = np.arange(len(branch)) - np.repeat(np.cumsum(length) - length, length)
        to.append(start + branch + (length[branch] - 1 - step) * width)
        of.append(ours.first[a:b][branch] + step * width)
        start, data = start + width * int(length[0]), data + width
    return {
        "meta": np.array(meta, np.uint32),
        "lengths": np.concatenate(lengths),
        "parents": np.concatenate(parents),
        "to": np.concatenate(to),
        "from": np.concatenate(of),
        "size": start,
    }


def arbor(case: Case, folder: Path) -> Iterator[Candidate]:
    """Arbor's kernel."""
    if case.dtype != np.float64:
        raise MissingError("float64 only")
    cp = cuda.cupy()
    solve = kernel(folder, "matrix_fine.cubin")
    gather, tables = arbor_layout(case.forest)
    given = [cp.asarray(a) for a in tables.values()]
    blocks = len(tables["cells"])

    def launch(d: Any, u: Any, b: Any) -> None:
        solve((blocks,), (ARBOR_BRANCHES,), (b, d, u, *given))

    yield in_place("Arbor", case, gather, launch)
