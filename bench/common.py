"""What the benchmarks share: seeded systems, a record of the machine, and result files."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

import clhines
from clhines import reference
from clhines.device import label
from clhines.morphology import random_binary_tree

RESULTS = Path(__file__).parent / "results"
SEED = 2018


def batch(num_cells: int, num_nodes: int, num_branches: int, shapes: int = 64) -> clhines.Forest:
    """Cells of one size, each drawn from `shapes` different random binary trees."""
    trees = np.stack([random_binary_tree(num_nodes, num_branches, SEED + k) for k in range(shapes)])
    pick = np.random.default_rng(SEED).integers(0, shapes, num_cells)
    offsets = np.arange(num_cells + 1) * num_nodes
    parent = np.where(trees[pick] < 0, -1, trees[pick] + offsets[:-1, None])
    return clhines.Forest(parent.reshape(-1).astype(np.int32), offsets)


def system(forest: clhines.Forest, seed: int = SEED) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random d, u, b in float64: strictly diagonally dominant with a margin of 0.5 to 1.5."""
    rng = np.random.default_rng(seed)
    n = forest.num_nodes
    u = -rng.uniform(0.1, 1.0, n)
    margin = rng.uniform(0.5, 1.5, n)
    d = margin + reference.multiply(forest, np.zeros(n), -u, np.ones(n))
    return d, u, rng.uniform(-1.0, 1.0, n)


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


def write(name: str, queue: cl.CommandQueue, result: dict[str, Any], text: str, out: str) -> None:
    """Write the JSON and the text of one benchmark under `out`, and print the text."""
    slug = re.sub(r"[^a-z0-9]+", "-", queue.device.name.lower()).strip("-")
    if "portable" in queue.device.platform.name.lower():
        slug = "pocl-" + slug.removeprefix("pthread-").removeprefix("cpu-")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    text = f"{label(queue.device)}, commit {result['record']['commit']}\n\n{text}\n"
    (folder / f"{name}-{slug}.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    (folder / f"{name}-{slug}.txt").write_text(text, "utf-8")
    print(text)
