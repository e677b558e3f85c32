"""Small cell batches for benchmark tests."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from trees import complete_binary

import clhines
from bench import made as cells_shapes

sys.path.append(str(Path(__file__).parents[2]))  # the benchmarks

from bench import systems

needs_cc = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
TREES = {
    "single": [np.array([-1])],
    "pair": [np.array([-1, 0])],
    "chain": [cells_shapes.chain(40)],
    "star": [cells_shapes.star(40)],
    "caterpillar": [cells_shapes.caterpillar(40)],
    "binary": [complete_binary(6)],
    "mixed": [
        cells_shapes.chain(63),
        cells_shapes.star(63),
        cells_shapes.caterpillar(63),
        complete_binary(6),
        *(cells_shapes.random_binary_tree(63, 9, seed) for seed in range(4)),
    ],
}


def small_case(trees, cells, dtype="float64", kind="trees"):
    forest = clhines.Forest.repeat(trees, cells)
    return systems.Case(None, forest, kind, np.dtype(dtype), systems.values(forest, dtype))


def wrong_peer(case):
    """Return a solver whose solutions are a tenth too small."""
    from bench.peers import host

    yield host.out_of_place("off by a little", [lambda: case.sets[0][2] * 0.9] * 2)
