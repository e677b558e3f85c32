"""Kernels with a work-item, or a lane of a vector, for each cell."""

from dataclasses import replace

import numpy as np
import pytest
from solvers import DTYPES, assert_alike, make_solver, skip_too_wide, too_wide
from systems import dissimilar, families, make_system

from bench.made import caterpillar, chain, random_binary_tree, star
from clhines import Forest, Solver
from clhines.solver.device import devices
from clhines.solver.plan.by_cell import cell


@pytest.mark.parametrize("width", [2, 4, 8, 16])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 17])
def test_vectors_of_equal_cells(queue, width, count):
    skip_too_wide(queue, width, np.float32)
    tree = random_binary_tree(33, 7, 1)
    forest = Forest.from_parents([tree] * count)
    options = {"vector_width": width, "block_size": width}
    solver = Solver(forest, "block_interleaved", np.float32, queue=queue, **options)
    idle = -count % width
    assert solver.plan.parts[0].spec.same_shape == ((count + idle) <= 1.25 * count)
    system = make_system(forest, np.float32, seed=count)
    system.assert_solved(solver.solve(**system.arrays))


def test_vectors_hold_one_shape_or_several(queue):
    few = Forest.from_parents(families()["few_shapes"] * 8)
    many = Forest.from_parents(dissimilar(21))
    for forest, same in ((few, True), (many, False)):
        solver = make_solver(queue, forest, "vector_4", np.float32)
        assert solver.plan.parts[0].spec.same_shape is same
        assert ("float4" in solver.source) is same
        system = make_system(forest, np.float32)
        system.assert_solved(solver.solve(**system.arrays))


@pytest.mark.optimised
@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_give_the_same_bits_whatever_the_batch(queue, needs, dtype):
    needs(queue, dtype)
    cells = [*dissimilar(8, least=40), *families()["few_shapes"], star(30), caterpillar(60)]
    rng = np.random.default_rng(3)
    systems = [make_system(Forest(np.asarray(p)), dtype, seed=k) for k, p in enumerate(cells)]
    alone = [
        make_solver(queue, s.forest, "fine_vector_4", dtype).solve(**s.arrays) for s in systems
    ]
    order = rng.permutation(len(cells))
    batch = Forest.from_parents([cells[k] for k in order])
    d, u, b = (np.concatenate([getattr(systems[k], a) for k in order]) for a in "dub")
    for config in ("fine_vector_4", "fine_vector_16", "fine_scalar"):
        if too_wide(queue, config, dtype):
            continue
        x = make_solver(queue, batch, config, dtype).solve(d, u, b)
        for k, part in zip(order, np.split(x, batch.cell_offsets[1:-1]), strict=True):
            assert np.array_equal(part, alone[k]), (config, k)


BATCHES = {
    "chains of 1": [chain(1)] * 3,
    "chains of 2": [chain(2)] * 5,
    "chains of 3": [chain(3)] * 4,
    "chains of 16, whole groups": [chain(16)] * 7,
    "chains of 19": [chain(19)] * 9,
    "chains": [chain(n) for n in (1, 2, 3, 19, 2, 40, 8)],
    "trees of 33": [random_binary_tree(33, 7, k) for k in (1, 1, 1, 2, 3)],
    "many": [*dissimilar(9), star(9), chain(1), chain(3)],
}


@pytest.mark.parametrize("batch", BATCHES)
def test_kernels_written_for_chains_and_rows(queue, monkeypatch, batch):
    """Compare solutions and bad pivots with the kernel for any cells; on any device as on GPUs."""
    forest, limits = Forest.from_parents(BATCHES[batch]), devices.limits(queue.device)
    as_gpu, usual = replace(limits, is_cpu=False), cell.SPECIALISED
    monkeypatch.setattr(devices, "limits", lambda device: as_gpu)
    solvers = []
    for special in (False, True):
        monkeypatch.setattr(cell, "SPECIALISED", usual if special else ())
        solvers.append(Solver(forest, "interleaved", np.float32, queue=queue))
        (part,) = solvers[-1].plan.parts
        assert part.spec.chains == (special and "chains" in batch)
        assert bool(part.spec.rows) == (special and " of " in batch)
    assert_alike(solvers, bad=3)
