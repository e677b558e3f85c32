"""Helpers of tests of plans: devices' limits, and a few cells."""

import numpy as np
from systems import dissimilar, families

from bench.made import caterpillar, chain, random_binary_tree, star
from clhines import METHODS, Forest
from clhines.solver.plan import packing
from clhines.solver.plan.plan import Limits

CPU = Limits(compute_units=2, max_work_group=4096, is_cpu=True, vector_bytes=32)
GPU = Limits()
OPTIONS = [
    ("flat", {}),
    ("interleaved", {}),
    ("block_interleaved", {}),
    ("block_interleaved", {"block_size": 3}),
    ("block_interleaved", {"block_size": 8, "vector_width": 4}),
    ("block_interleaved", {"vector_width": 2}),
    ("fine", {}),
    ("fine", {"work_group": 1}),
    ("fine", {"work_group": 7, "max_cells": 3}),
    ("fine", {"work_group": 33, "max_cells": 1}),
    ("fine", {"vector_width": 1, "max_cells": 3}),
    ("fine", {"vector_width": 4}),
    ("fine", {"vector_width": 16, "max_cells": 2}),
    ("levels", {"padding": "compute"}),
    ("levels", {"padding": "skip", "work_group": 3}),
    ("block_local", {"block_size": 3}),
]
SHAPED = {  # `fine`'s options that shape levels and blocks
    "split_mean": {"split": "mean"},
    "split_block": {"split": "block"},
    "sorted": {"packing": "sorted"},
    "best_fit": {"packing": "best_fit"},
    "level_shift": {"level_shift": True},
    "local": {"local": True},
    "all": {"split": "block", "packing": "sorted", "level_shift": True, "local": True},
}
OPTIONS += [("fine", options) for options in SHAPED.values()]
OPTIONS += [(method, {}) for method in METHODS if (method, {}) not in OPTIONS]


def next_fit(forest, lanes, max_cells):
    return packing.next_fit(forest, packing.level_widths(forest), lanes, max_cells)


def equal_cells(count=6, size=9):
    rng = np.random.default_rng(1)
    return Forest.from_parents([random_binary_tree(size, 5, rng) for _ in range(count)])


def mixture():
    return Forest.from_parents(
        [*dissimilar(30), *families()["few_shapes"], star(90), chain(70), caterpillar(60)]
    )


def local_places(spec):
    """Count a kernel's places in local memory, in unknowns: PCR has further ones beside CR's."""
    places = spec.capacity + spec.capacity // 32
    return places + (spec.switch + spec.switch // 32 if spec.switch > 1 else 0)
