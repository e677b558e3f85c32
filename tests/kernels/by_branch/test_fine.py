"""Solves by `fine` with each of its options, on every device."""

from dataclasses import replace

import numpy as np
import pytest
from plans import SHAPED, mixture
from solvers import assert_alike
from systems import dissimilar, make_system
from trees import complete_binary

from bench.made import chain, star
from clhines import Forest, PivotError, Solver
from clhines.solver.device import devices
from clhines.solver.plan.by_branch import fine


@pytest.mark.optimised
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


BATCHES = {
    "1": [chain(37)] * 9,
    "2": [star(40)] * 5 + [chain(3)] * 2,
    "3": [complete_binary(3)] * 9,
    "5, some fewer": [complete_binary(5)] * 3 + [complete_binary(2), chain(1), star(7)],
    "many": [*dissimilar(9), star(90)],
}


@pytest.mark.parametrize("batch", BATCHES)
def test_kernels_written_for_their_levels(queue, monkeypatch, batch):
    """Compare with the kernel for any number of levels; on any device as on GPUs."""
    forest, limits = Forest.from_parents(BATCHES[batch]), devices.limits(queue.device)
    gpu = replace(limits, is_cpu=False)  # several nodes at once
    monkeypatch.setattr(devices, "limits", lambda device: gpu)
    solvers = []
    for most in (0, 30):
        monkeypatch.setattr(fine, "MOST_LEVELS", most)
        options = {"work_group": 8, "max_cells": 2}
        solvers.append(Solver(forest, "fine", np.float32, queue=queue, **options))
        (part,) = solvers[-1].plan.parts
        assert bool(part.spec.levels) == bool(most)
    assert_alike(solvers, bad=6)
