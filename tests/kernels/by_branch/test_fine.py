"""Solves by `fine` with each of its options, on every device."""

import numpy as np
import pytest
from systems import dissimilar, families, make_system

from clhines import Forest, PivotError, Solver
from clhines.cells.shapes import caterpillar, chain, star

SHAPED = {
    "split_mean": {"split": "mean"},
    "split_block": {"split": "block"},
    "sorted": {"packing": "sorted"},
    "best_fit": {"packing": "best_fit"},
    "level_shift": {"level_shift": True},
    "local": {"local": True},
    "all": {"split": "block", "packing": "sorted", "level_shift": True, "local": True},
}


def mixture():
    return Forest.from_cells(
        [*dissimilar(30), *families()["few_shapes"], star(90), chain(70), caterpillar(60)]
    )


@pytest.mark.parametrize("name", ["split_mean", "split_block", "level_shift", "local", "all"])
def test_every_option_solves_and_names_bad_pivots(queue, name):
    forest = mixture()
    options = {"work_group": 6, "max_cells": 5, **SHAPED[name]}
    solver = Solver(forest, "fine", np.float32, queue=queue, **options)
    plain = Solver(forest, "fine", np.float32, queue=queue, work_group=6, max_cells=5)
    for rows, symmetric in ((None, True), (5, False)):
        system = make_system(forest, np.float32, symmetric, rows)
        system.assert_solved(solver.solve(**system.arrays))
    system = make_system(forest, np.float32)
    nodes = np.random.default_rng(3).choice(forest.num_nodes, 40, replace=False)
    system.d[nodes] = -1
    with pytest.raises(PivotError):
        solver.solve(**system.arrays)
    plain.solve(**system.arrays, check=False)
    assert np.array_equal(solver.status(), plain.status())
