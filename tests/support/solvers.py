"""Configurations of every method, and solvers with them."""

import numpy as np
import pyopencl.array as cla
import pytest
from systems import forest_for, make_system, updates_for

from clhines import METHODS, AccuracyWarning, Forest, Solver
from clhines.solver.device.devices import limits

DTYPES = [np.float64, np.float32]
SHORT = 6  # nodes in a segment: a shorter kernel, sooner built
CONFIGS = {
    "flat": ("flat", {}),
    "flat_7": ("flat", {"work_group": 7}),
    "interleaved": ("interleaved", {"work_group": 4}),
    "block_3": ("block_interleaved", {"block_size": 3, "vector_width": 1, "work_group": 2}),
    "vector_2": ("block_interleaved", {"vector_width": 2, "block_size": 2}),
    "vector_4": ("block_interleaved", {"vector_width": 4, "block_size": 8, "work_group": 2}),
    "vector_8": ("block_interleaved", {"vector_width": 8, "block_size": 8}),
    "block_local": ("block_local", {}),
    "local_2": ("block_local", {"block_size": 2}),
    "fine": ("fine", {}),
    "fine_1": ("fine", {"work_group": 1, "max_cells": 3}),  # a pass for every branch
    "fine_5": ("fine", {"work_group": 5, "max_cells": 4}),
    "fine_64": ("fine", {"work_group": 64, "max_cells": 100}),
    "fine_scalar": ("fine", {"vector_width": 1}),
    "fine_vector_4": ("fine", {"vector_width": 4, "max_cells": 3}),
    "fine_vector_16": ("fine", {"vector_width": 16}),
    "levels": ("levels", {"padding": "skip"}),
    "levels_padded": ("levels", {"padding": "compute", "work_group": 5}),
    "cr": ("cr", {}),
    "pcr_5": ("pcr", {"work_group": 5}),  # several unknowns a lane
    "cr_pcr": ("cr_pcr", {"switch": 7, "work_group": 8}),
    "fine_shaped": (
        "fine",
        {
            "work_group": 6,
            "max_cells": 5,
            "split": "mean",
            "packing": "sorted",
            "level_shift": True,
            "local": True,
        },
    ),
    "contraction": ("contraction", {}),
    "contraction_registers": ("contraction", {"registers": True, "segment": SHORT}),
    "contraction_6": ("contraction", {"segment": 6, "work_group": 96, "max_cells": 5}),
}
ONE_EACH = "flat interleaved block_3 vector_4 local_2 fine_5 fine_vector_4".split()
ONE_EACH += "levels_padded cr pcr_5 cr_pcr contraction_6".split()
OTHERS = [name for name in METHODS if name not in {method for method, _ in CONFIGS.values()}]
CONFIGS |= {name: (name, {}) for name in OTHERS}  # a new row is tested from its first day on
ONE_EACH += OTHERS


def too_wide(queue, config, dtype=np.float64):
    """Return whether a configuration uses vectors that the device is not trusted with."""
    return width_too_wide(queue, CONFIGS[config][1].get("vector_width", 1), dtype)


def width_too_wide(queue, width, dtype):
    return width * np.dtype(dtype).itemsize > limits(queue.device).trusted_bytes


def skip_too_wide(queue, width, dtype):
    if width_too_wide(queue, width, dtype):
        pytest.skip(f"vectors of {width} are wider than this device computes right")


def make_solver(queue, forest, config="fine_5", dtype=np.float64, **more):
    """Return a configuration's solver; skip the test if its vectors are too wide for the device."""
    method, options = CONFIGS[config]
    skip_too_wide(queue, options.get("vector_width", 1), dtype)
    return Solver(forest, method, dtype, queue=queue, **options, **more)


def forest_of(config, cells):
    """Return the cells, as chains if the method supports only chains."""
    return forest_for(CONFIGS[config][0], cells)


def assert_solved(config, system, x):
    system.assert_solved(x, updates_for(CONFIGS[config][0]))


def on_device(queue, system):
    return {k: None if a is None else cla.to_device(queue, a) for k, a in system.arrays.items()}


def assert_lost_digits_are_told(queue, rows, *options):
    """Of two cells the second loses its digits, in `rows`, and in solves by factors."""
    forest = Forest(np.array([-1, 0, -1, 2]), np.array([0, 2, 4]))
    d, u, low = (np.float32(a) for a in ([1, 1, 1, 1e-12], [0, 1, 0, 1], [0, 0.5, 0, -1]))
    b = np.tile(np.float32([1, 2, 1, 2]), (rows, 1)) if rows > 1 else np.float32([1, 2, 1, 2])
    solver = Solver(forest, dtype=np.float32, queue=queue)
    with pytest.warns(AccuracyWarning) as caught:
        solver.solve(d, u, b, l=low)
    assert caught[0].message.cells == (1,)
    factors = solver.factor(d, u, l=low)
    for each in options:
        with pytest.warns(AccuracyWarning):
            factors.solve(b, **each)


def assert_alike(solvers, bad):
    """Two float32 kernels for one forest both solve, and find the same bad pivots."""
    forest = solvers[0].forest
    for rows, symmetric in ((None, True), (5, False)):
        system = make_system(forest, np.float32, symmetric, rows)
        for solver in solvers:
            system.assert_solved(solver.solve(**system.arrays))
    system = make_system(forest, np.float32)
    system.d[np.random.default_rng(3).choice(forest.num_nodes, bad, replace=False)] = -1
    for solver in solvers:
        solver.solve(**system.arrays, check=False)
    assert np.array_equal(solvers[0].status(), solvers[1].status())
    assert (solvers[0].status() >= 0).any()
