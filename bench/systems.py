"""Batches of cells with seeded values, and solvers that are timed on them."""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

import clhines
from bench.record import SEED
from clhines.cells import swc, synthetic
from clhines.cells.morphology import Morphology
from clhines.cells.shapes import chain, random_binary_tree
from clhines.device import devices, timing
from clhines.solve import tune

System = tuple[np.ndarray, np.ndarray, np.ndarray]

METHODS = list(clhines.METHODS)
TREE_METHODS = [name for name in METHODS if not clhines.METHODS[name].chains_only]
TOLERANCE = {"float64": 1e-13, "float32": 5e-5}  # of the componentwise backward error


def batch(num_cells: int, num_nodes: int, num_branches: int, shapes: int = 64) -> clhines.Forest:
    """Cells of one size, each drawn from `shapes` different random binary trees.

    With as many shapes as cells, or more, every cell has one of its own.
    """
    shapes = min(shapes, num_cells)
    trees = np.stack([random_binary_tree(num_nodes, num_branches, SEED + k) for k in range(shapes)])
    rng = np.random.default_rng(SEED)
    pick = rng.integers(0, shapes, num_cells) if shapes < num_cells else np.arange(num_cells)
    offsets = np.arange(num_cells + 1) * num_nodes
    parent = np.where(trees[pick] < 0, -1, trees[pick] + offsets[:-1, None])
    return clhines.Forest(parent.reshape(-1).astype(np.int32), offsets)


def real_cells(folder: str | None) -> list[Morphology]:
    """All SWC files of a folder; without one the sample cells of the package."""
    paths = sorted(Path(folder).glob("*.swc")) if folder else []
    return [swc.read_swc(p) for p in paths] or synthetic.sample_cells()


def real_mix(folder: str | None, num_nodes: float) -> clhines.Forest:
    """`real_cells` with a node a sample, repeated and shuffled."""
    parents = [cell.parent for cell in real_cells(folder)]
    repeats = max(1, round(num_nodes / sum(map(len, parents))))
    pick = np.random.default_rng(SEED).permutation(np.arange(repeats * len(parents)) % len(parents))
    return clhines.Forest.from_cells([parents[k] for k in pick])


def chains(num_cells: int, num_nodes: int) -> clhines.Forest:
    """Equal cells without a branch: a batch of tridiagonal systems."""
    return clhines.Forest.repeated([chain(num_nodes)], num_cells)


def methods_for(forest: clhines.Forest) -> list[str]:
    """Names of the methods that take these cells."""
    branched = bool((forest.trees.num_children > 1).any())
    return TREE_METHODS if branched else METHODS


def system(forest: clhines.Forest, seed: int = SEED) -> System:
    """Random d, u, b in float64: strictly diagonally dominant with a margin of 0.5 to 1.5."""
    d, u, b = tune.random_system(forest, np.float64, seed)
    return d, u, b


def rooted(
    forest: clhines.Forest, options: dict[str, Any]
) -> tuple[clhines.Forest, dict[str, Any], Callable[[np.ndarray], np.ndarray]]:
    """Take ``reroot`` from what a row of a benchmark asks for, the rest of which a method takes.

    Returns
    -------
    forest : Forest
        To solve with: that of `clhines.reroot` where it is asked for.
    options : dict
        Of the method.
    couplings : callable
        Gives `u` of that forest from `u` of the old one.
    """
    others = {name: value for name, value in options.items() if name != "reroot"}
    if not options.get("reroot"):
        return forest, others, lambda u: u
    new = clhines.reroot(forest)
    return new.forest, others, lambda u: new.couplings(u)["u"]


def values(forest: clhines.Forest, dtype: str, part: clhines.Forest | None = None) -> list[System]:
    """Return two sets of d, u, b that take turns, or one where it is far above any cache.

    Parameters
    ----------
    part : Forest, optional
        First cells of the forest, whose random values repeat over all.
    """
    size = timing.FLOOR_ARRAYS * forest.num_nodes * np.dtype(dtype).itemsize
    part, found = part or forest, []
    for k in range(2 if size < 1 << 29 else 1):
        d, u, b = system(part, SEED + k)
        u[part.parent < 0] = 0
        d, u, b = (np.resize(a.astype(dtype), forest.num_nodes) for a in (d, u, b))
        found.append((d, u, b))
    return found


def check_shapes(parser: argparse.ArgumentParser, shapes: Sequence[str]) -> None:
    """End the program where numbers of different trees are neither whole numbers nor `all`."""
    for text in shapes:
        if text != "all" and not (text.isdigit() and int(text)):
            parser.error(f"--shapes {text}: expected a whole number of 1 or more, or all")


def in_device_order(
    solver: clhines.Solver, sets: Sequence[Sequence[np.ndarray]]
) -> tuple[Callable[[int], list[cl.Event]], Callable[[int], np.ndarray]]:
    """Prepare solves of values in device order.

    Returns
    -------
    launch : callable
        ``launch(k)`` enqueues set k, modulo the number of sets; the events of its kernels.
    result : callable
        ``result(k)`` is the solution of set k in natural order.
    """
    packed = [[solver.pack(a) for a in arrays] for arrays in sets]
    out = [cla.zeros_like(arrays[2]) for arrays in packed]
    solver.queue.finish()

    def launch(k: int) -> list[cl.Event]:
        at = k % len(packed)
        solver.enqueue(*packed[at], out=out[at])
        return solver.kernel_events

    return launch, lambda k: np.asarray(solver.unpack(out[k]).get())


# -- several solvers on the same systems -------------------------------------------------------


def on_host(device: cl.Device) -> bool:
    """Whether wall time is meant for this device: it has no clock, or shares the host's cores."""
    return devices.is_cpu(device) or devices.is_simulator(device)


def host_threads() -> int:
    """Count the processors that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


@dataclass(frozen=True)
class Case:
    """One batch of equally large cells and its right-hand sides, in natural order.

    Attributes
    ----------
    queue : pyopencl.CommandQueue
    forest : Forest
        Parents come before their children.
    kind : str
        ``1 shape``, ``64 shapes``, ``all different`` or ``chains``.
    dtype : numpy.dtype
    sets : list of (d, u, b), each (n,) of `dtype`
        One or two sets of values that take turns; `u` is zero at the roots.
    """

    queue: cl.CommandQueue
    forest: clhines.Forest
    kind: str
    dtype: np.dtype
    sets: list[System]

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.forest.num_cells

    @property
    def nodes(self) -> int:
        """Nodes of each cell."""
        return self.forest.num_nodes // self.forest.num_cells

    @functools.cached_property
    def shape_of_cell(self) -> np.ndarray:
        """(cells,) int32: row of `parents` of each cell."""
        return self.forest.shape_of_cell.astype(np.int32)

    @functools.cached_property
    def parents(self) -> np.ndarray:
        """(shapes, nodes) int32: parent of each node within its cell, -1 at the root."""
        first = np.unique(self.shape_of_cell, return_index=True)[1]
        table = (
            self.forest.parent.reshape(self.cells, self.nodes)[first] - first[:, None] * self.nodes
        )
        return np.maximum(table, -1).astype(np.int32)


@dataclass
class Candidate:
    """One solver, ready to run on one case.

    Attributes
    ----------
    name : str
    launch : callable
        ``launch(k)`` solves set k and waits. It returns its own time [s] where it has a clock of
        the device, and None where wall time is meant.
    result : callable
        ``result(k)`` is the (n,) solution of set k in natural order.
    restore : callable
        ``restore(k)`` brings back, outside the clock, what solving set k destroys.
    clock : str
        ``device`` or ``wall``.
    most : int
        Timed runs at most.
    seconds : list of float
        What the timed runs took [s].
    error : float or None
        Of the worst set, once it has been checked.
    """

    name: str
    launch: Callable[[int], float | None]
    result: Callable[[int], np.ndarray] | None = None
    restore: Callable[[int], object] = lambda k: None
    clock: str = "wall"
    most: int = 25
    seconds: list[float] = field(default_factory=list)
    error: float | None = None

    def run(self, k: int) -> float:
        """Solve set k once; seconds taken."""
        self.restore(k)
        begin = time.perf_counter()
        own = self.launch(k)
        wall = time.perf_counter() - begin
        return wall if own is None else own
