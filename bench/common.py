"""What the benchmarks share: seeded systems, a record of the machine, and result files."""

from __future__ import annotations

import functools
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

import clhines
from clhines.cells import swc, synthetic
from clhines.cells.shapes import chain, random_binary_tree
from clhines.device import devices
from clhines.solve import tune

RESULTS = Path(__file__).parent / "results"
SEED = 2018
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


def real_mix(folder: str | None, num_nodes: float) -> clhines.Forest:
    """All SWC files of a folder, a node a sample, repeated and shuffled; else sample cells."""
    paths = sorted(Path(folder).glob("*.swc")) if folder else []
    cells = [swc.read_swc(p) for p in paths] or synthetic.sample_cells()
    parents = [cell.parent for cell in cells]
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


def system(forest: clhines.Forest, seed: int = SEED) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


def command_line() -> str:
    """Return the command that runs, without the folders, which differ between machines."""
    words = [Path(word).name if os.path.isabs(word) else word for word in sys.argv[1:]]
    return " ".join(["python", sys.argv[0], *words])


def record(queue: cl.CommandQueue, command: str) -> dict[str, Any]:
    """Return what must be known of the machine and the versions to read a result."""
    device = queue.device
    return {
        "command": command,
        "device": device.name.strip(),
        "platform": device.platform.name.strip(),
        "driver": device.driver_version,
        "opencl": device.version.strip(),
        "compute_units": device.max_compute_units,
        "host_cores": os.cpu_count(),
        "clhines": clhines.__version__,
        "pyopencl": cl.VERSION_TEXT,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "seed": SEED,
        "commit": os.environ.get("CLHINES_COMMIT") or _commit(),
    }


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    folder = Path(__file__).parent
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def slug(device: cl.Device) -> str:
    """Return the part of a file's name that stands for a device."""
    name = re.sub(r"[^a-z0-9]+", "-", device.name.lower()).strip("-")
    platform_name = device.platform.name.lower()
    if "portable" in platform_name:
        name = "pocl-" + name.removeprefix("pthread-").removeprefix("cpu-")
    elif "intel" in platform_name and "intel" not in name:  # its runtime on another's processor
        name = "intel-" + name
    return name


def ruled(head: str, lines: list[str]) -> str:
    """Return a table as text, its heading underlined."""
    return "\n".join([head, "-" * len(head), *lines])


def narrow(value: float, width: int, digits: int) -> str:
    """Write a number at the right of `width` columns; large ones get fewer than `digits` digits."""
    texts = [*(f"{value:.{d}f}" for d in range(digits, -1, -1)), f"{value:.1e}"]
    return next((t for t in texts if len(t) <= width), texts[-1]).rjust(width)


def write(
    name: str,
    queue: cl.CommandQueue,
    result: dict[str, Any],
    text: str,
    out: str,
    draw: Callable[[dict[str, Any], Path], None] | None = None,
) -> None:
    """Write the JSON and the text of one benchmark under `out`, and print the text.

    Parameters
    ----------
    draw : callable, optional
        ``draw(result, path)`` writes a picture beside them, where there is matplotlib.
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    text = f"{devices.label(queue.device)}, commit {result['record']['commit']}\n\n{text}\n"
    path = folder / f"{name}-{slug(queue.device)}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    path.with_suffix(".txt").write_text(text, "utf-8")
    print(text)
    try:
        if draw is not None:
            draw(result, path.with_suffix(".svg"))
    except ImportError as error:
        print(f"no picture: {error}")


# -- several solvers on the same systems -------------------------------------------------------


def on_host(device: cl.Device) -> bool:
    """Whether wall time is meant for this device: it has no clock, or shares the host's cores."""
    return devices.is_cpu(device) or devices.is_simulator(device)


def host_threads() -> int:
    """Count the processors that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


class MissingError(Exception):
    """A solver that cannot be timed here; the message is the reason."""


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
    sets: list[tuple[np.ndarray, np.ndarray, np.ndarray]]

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
