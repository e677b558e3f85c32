"""Batches of cells with seeded values, and solvers that are timed on them."""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from pyopencl.reduction import ReductionKernel

import clhines
from bench.made import chain, random_binary_tree
from bench.record import SEED
from clhines.solver import tune
from clhines.solver.device import devices, timing

if TYPE_CHECKING:
    from clhines.simulator.cells.morphology import Morphology

System = tuple[np.ndarray, np.ndarray, np.ndarray]

METHODS = list(clhines.METHODS)
TREE_METHODS = [name for name in METHODS if not clhines.METHODS[name].chains_only]
TOLERANCE = {"float64": 1e-13, "float32": 5e-5}  # componentwise backward error


def batch(num_cells: int, num_nodes: int, num_branches: int, shapes: int = 64) -> clhines.Forest:
    """Cells with one size, each drawn from `shapes` different random binary trees.

    With as many shapes as cells, or more, every cell has its own.
    """
    shapes = min(shapes, num_cells)
    trees = np.stack([random_binary_tree(num_nodes, num_branches, SEED + k) for k in range(shapes)])
    rng = np.random.default_rng(SEED)
    pick = rng.integers(0, shapes, num_cells) if shapes < num_cells else np.arange(num_cells)
    offsets = np.arange(num_cells + 1) * num_nodes
    parent = np.where(trees[pick] < 0, -1, trees[pick] + offsets[:-1, None])
    return clhines.Forest(parent.reshape(-1).astype(np.int32), offsets)


def real_cells(folder: str | None) -> list[Morphology]:
    """All SWC files in a folder; without one the package's sample cells."""
    from clhines.simulator.cells import swc, synthetic

    paths = sorted(Path(folder).glob("*.swc")) if folder else []
    return [swc.read_swc(p) for p in paths] or synthetic.sample_cells()


def real_mix(folder: str | None, num_nodes: float) -> clhines.Forest:
    """`real_cells` with a node a sample, repeated and shuffled."""
    parents = [cell.parent for cell in real_cells(folder)]
    repeats = max(1, round(num_nodes / sum(map(len, parents))))
    pick = np.random.default_rng(SEED).permutation(np.arange(repeats * len(parents)) % len(parents))
    return clhines.Forest.from_parents([parents[k] for k in pick])


def chains(num_cells: int, num_nodes: int) -> clhines.Forest:
    return clhines.Forest.repeat([chain(num_nodes)], num_cells)


def methods_for(forest: clhines.Forest) -> list[str]:
    branched = bool((forest.trees.num_children > 1).any())
    return TREE_METHODS if branched else METHODS


def system(forest: clhines.Forest, seed: int = SEED) -> System:
    """Random d, u, b in float64: strictly diagonally dominant with a margin of 0.5 to 1.5."""
    d, u, b = tune.random_system(forest, np.float64, seed)
    return d, u, b


def rooted(
    forest: clhines.Forest, options: dict[str, Any]
) -> tuple[clhines.Forest, dict[str, Any], Callable[[np.ndarray], np.ndarray]]:
    """Reroot a forest if a row asks for it; return it, the other options and a map of `u`."""
    others = {name: value for name, value in options.items() if name != "reroot"}
    if not options.get("reroot"):
        return forest, others, lambda u: u
    new = clhines.reroot(forest)
    return new.forest, others, lambda u: new.couplings(u)["u"]


def values(forest: clhines.Forest, dtype: str, part: clhines.Forest | None = None) -> list[System]:
    """Return two sets of d, u, b to use in turn, or one set if it is far larger than any cache.

    Parameters
    ----------
    part : Forest, optional
        First cells of the forest: only they get random values, which repeat over all cells.
    """
    size = timing.FLOOR_ARRAYS * forest.num_nodes * np.dtype(dtype).itemsize
    part, sets = part or forest, []
    for k in range(2 if size < 1 << 29 else 1):
        d, u, b = system(part, SEED + k)
        u[part.parent < 0] = 0
        sets.append((d.astype(dtype), u.astype(dtype), b.astype(dtype)))
    return sets


def check_shapes(parser: argparse.ArgumentParser, shapes: Sequence[str]) -> None:
    """End the program if a number of different trees is neither a whole number nor `all`."""
    for text in shapes:
        if text != "all" and not (text.isdigit() and int(text)):
            parser.error(f"--shapes {text}: expected a whole number of 1 or more, or all")


def in_device_order(
    solver: clhines.Solver, sets: Iterable[Sequence[np.ndarray | cla.Array]]
) -> tuple[Callable[[int], list[cl.Event]], Callable[[int], np.ndarray]]:
    """Prepare solves of values in device order.

    Returns
    -------
    launch : callable
        ``launch(k)`` enqueues set k, modulo the number of sets, and returns its kernels' events.
    result : callable
        ``result(k)`` is the solution of set k in natural order.
    """
    launch, solution = on_device(solver, sets)
    return launch, lambda k: np.asarray(solution(k).get())


def on_device(
    solver: clhines.Solver, sets: Iterable[Sequence[np.ndarray | cla.Array]]
) -> tuple[Callable[[int], list[cl.Event]], Callable[[int], cla.Array]]:
    packed = [[solver.to_device_order(a) for a in arrays] for arrays in sets]
    out = [cla.zeros_like(arrays[2]) for arrays in packed]
    solver.queue.finish()

    def launch(k: int) -> list[cl.Event]:
        at = k % len(packed)
        solver.enqueue(*packed[at], out=out[at])
        return solver.kernel_events

    return launch, lambda k: solver.from_device_order(out[k])


# -- several solvers on the same systems -------------------------------------------------------


def on_host(device: cl.Device) -> bool:
    return devices.is_cpu(device) or devices.is_simulator(device)


@dataclass(frozen=True)
class Repeats:
    """A solution to a batch whose values repeat."""

    once: np.ndarray
    worst: float


@functools.cache
def _difference(context: cl.Context, dtype: str) -> Any:
    """Kernel for the largest difference between values and the first ones, which they repeat."""
    real = {"float64": "double", "float32": "float"}[dtype]
    return ReductionKernel(
        context,
        np.dtype(dtype),
        neutral="0",
        reduce_expr="(isnan(a) || a > b) ? a : b",
        map_expr="fabs(x[i] - x[i % period])",
        arguments=f"__global const {real} *x, const long period",
        name="worst_difference",
    )


def _host_difference(x: np.ndarray, period: int) -> float:
    rows = [x[k : k + period] for k in range(period, len(x), period)]
    return float(np.max([np.max(np.abs(r - x[: len(r)])) for r in rows], initial=0.0))


@dataclass(frozen=True)
class Case:
    """One batch of equally large cells and its right-hand sides, in natural order."""

    queue: cl.CommandQueue
    forest: clhines.Forest  # parents come before their children
    kind: str  # ``1 shape``, ``64 shapes``, ``all different`` or ``chains``
    dtype: np.dtype
    # one or two sets that take turns, each (m,): of `part`, over and over, or of all cells;
    # `u` is zero at the roots
    values: list[System]
    part: clhines.Forest | None = None  # first cells, after which shapes and values repeat

    @functools.cached_property
    def sets(self) -> list[System]:
        if self.part is None:
            return self.values
        n = self.forest.num_nodes
        return [(np.resize(d, n), np.resize(u, n), np.resize(b, n)) for d, u, b in self.values]

    def on_device(self) -> Iterator[list[cla.Array]]:
        """Give each value set for all cells in natural order, on the device."""
        for values in self.values:
            yield [timing.repeated(self.queue, a, self.forest.num_nodes) for a in values]

    def first(self, cells: int) -> Case:
        """Return the case with the first cells alone, at least the cells in `part`."""
        shapes, trees = self.forest.trees.used(self.forest.shape_of_cell[:cells])
        forest = clhines.Forest.from_trees(trees, shapes)
        part = None if self.part is not None and cells <= self.part.num_cells else self.part
        return Case(self.queue, forest, self.kind, self.dtype, self.values, part)

    def solution(self, x: np.ndarray | cla.Array) -> np.ndarray | Repeats:
        """Copy a solution of all cells to the host; if values repeat, only that of `part`."""
        if self.part is None:
            return x.get() if isinstance(x, cla.Array) else x
        period = self.part.num_nodes
        if isinstance(x, cla.Array):
            difference = _difference(x.queue.context, self.dtype.name)
            worst = difference(x, np.int64(period), queue=x.queue).get()
            return Repeats(x[:period].get(), float(worst))
        return Repeats(x[:period], _host_difference(x, period))

    @property
    def cells(self) -> int:
        return self.forest.num_cells

    @property
    def nodes(self) -> int:
        return self.forest.num_nodes // self.forest.num_cells

    @functools.cached_property
    def shape_of_cell(self) -> np.ndarray:
        """(cells,) int32: each cell's row in `parents`."""
        return self.forest.shape_of_cell.astype(np.int32)

    @functools.cached_property
    def parents(self) -> np.ndarray:
        """(shapes, nodes) int32: each node's parent within its cell, -1 at the root."""
        first = np.unique(self.shape_of_cell, return_index=True)[1]
        table = (
            self.forest.parent.reshape(self.cells, self.nodes)[first] - first[:, None] * self.nodes
        )
        return np.maximum(table, -1).astype(np.int32)


@dataclass
class Candidate:
    """One solver, ready to run on one case."""

    name: str
    # solves set k and waits; seconds by a device clock, or None for wall time
    launch: Callable[[int], float | None]
    # (n,) solution for set k in natural order, or its `Repeats`
    result: Callable[[int], np.ndarray | Repeats] | None = None
    # restores, outside the clock, the arrays that solving set k destroys
    restore: Callable[[int], object] = lambda k: None
    clock: str = "wall"  # ``device`` or ``wall``
    most: int = 25  # timed runs
    stands_for: float = 1.0  # factor for the times: the batch over the part that it solves
    facts: Callable[[], dict[str, Any]] = dict  # further entries in its row, once it has run
    solver: clhines.Solver | None = None  # a clhines method's solver, for `facts`
    seconds: list[float] = field(default_factory=list)  # timed runs
    error: float | None = None  # the worst set's error, once checked

    def run(self, k: int) -> float:
        self.restore(k)
        begin = time.perf_counter()
        seconds = self.launch(k)
        wall = time.perf_counter() - begin
        return wall if seconds is None else seconds
