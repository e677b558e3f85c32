"""Solves by one launch a branch level, on every device."""

from dataclasses import replace

import numpy as np
import pyopencl.array as cla
import pytest
from solvers import assert_alike
from systems import dissimilar, families, make_system
from tolerances import assert_close
from trees import complete_binary

from bench.made import caterpillar, chain, random_binary_tree, star
from clhines import Forest, Solver, make_plan
from clhines.solver.device import devices
from clhines.solver.plan.by_branch import levels as branch_levels

PADDING = ["compute", "skip"]


def launches(plan):
    return sum(len(part.launches) for part in plan.parts)


def kernel_runs(solver, system):
    """Solve in device order, and count the launches."""
    packed = {k: solver.to_device_order(a) for k, a in system.arrays.items() if a is not None}
    out = cla.empty_like(packed["b"])
    solver.enqueue(**packed, out=out, packed=True)
    system.assert_solved(solver.from_device_order(out).get())
    return len(solver.kernel_events)


@pytest.mark.parametrize("padding", PADDING)
def test_a_batch_of_chains_takes_one_launch(queue, padding):
    """This is cuThomasVBatch; with equal chains the order is that of `interleaved`."""
    forest = Forest.from_parents([chain(n) for n in (3, 17, 1, 17, 40)])
    solver = Solver(forest, "levels", np.float32, queue=queue, padding=padding)
    assert launches(solver.plan) == 1
    for symmetric in (True, False):
        system = make_system(forest, np.float32, symmetric)
        system.assert_solved(solver.solve(**system.arrays))
    assert kernel_runs(solver, system) == 1
    equal = Forest.from_parents([chain(16)] * 12)
    gather = make_plan(equal, "levels", padding=padding).gather
    assert np.array_equal(gather, make_plan(equal, "interleaved").gather)


@pytest.mark.parametrize("padding", PADDING)
def test_launches_are_one_less_than_twice_the_levels(queue, padding):
    forest = Forest.from_parents([caterpillar(65), star(9), chain(4), *dissimilar(4)])
    levels = int(forest.trees.num_levels.max())
    assert levels > 30
    solver = Solver(forest, "levels", np.float32, queue=queue, padding=padding)
    assert launches(solver.plan) == 2 * levels - 1
    system = make_system(forest, np.float32, symmetric=False, rows=5)
    system.assert_solved(solver.solve(**system.arrays))
    assert kernel_runs(solver, system) == 2 * (2 * levels - 1)  # four rows, then one


@pytest.mark.parametrize("padding", PADDING)
def test_thousands_of_levels(double_queue, padding):
    cells = [caterpillar(5000), random_binary_tree(3000, 700, 1), chain(2000), star(500)]
    forest = Forest.from_parents(cells)
    solver = Solver(forest, "levels", queue=double_queue, padding=padding)
    assert launches(solver.plan) > 4000
    system = make_system(forest)
    system.assert_solved(solver.solve(**system.arrays))
    system.d[4999] = -1
    assert solver.solve(**system.arrays, check=False) is not None
    assert solver.status().tolist() == [4999, -1, -1, -1]


@pytest.mark.parametrize("padding", PADDING)
def test_levels_that_would_be_mostly_padding_are_cut(queue, padding, monkeypatch):
    cells = [chain(100), *[chain(3)] * 40, chain(90), star(30), random_binary_tree(300, 60, 2)]
    forest = Forest.from_parents(cells)
    whole = make_plan(forest, "levels", padding=padding)
    levels = int(forest.trees.num_levels.max())
    assert launches(whole) == 2 * levels - 1
    monkeypatch.setattr(branch_levels, "LEAST_CUT", 0)
    solver = Solver(forest, "levels", np.float32, queue=queue, padding=padding)
    assert launches(solver.plan) > launches(whole)
    assert solver.plan.packed_size < whole.packed_size // 2
    assert solver.plan.packed_size <= branch_levels.MOST_PADDED * forest.num_nodes + 32
    assert solver.plan.parts[0].statistics["levels"] == levels
    for rows, symmetric in ((None, True), (2, False)):
        system = make_system(forest, np.float32, symmetric, rows)
        system.assert_solved(solver.solve(**system.arrays))
    system.d[forest.cell_offsets[:-1]] = -1
    solver.solve(**system.arrays, check=False)
    assert np.array_equal(solver.status(), forest.cell_offsets[:-1])


@pytest.mark.optimised
@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "unsymmetric"])
def test_padding_may_hold_anything(queue, padding, symmetric):
    forest = Forest.from_parents(dissimilar(9))
    system = make_system(forest, np.float32, symmetric, rows=2)
    solver = Solver(forest, "levels", np.float32, queue=queue, padding=padding)
    expected = solver.solve(**system.arrays)
    arrays = {k: a for k, a in system.arrays.items() if a is not None}
    pads = solver.plan.gather < 0
    for value in (np.nan, np.inf, -1e30):
        packed = {k: solver.to_device_order(a).get() for k, a in arrays.items()}
        for array in packed.values():
            array[..., pads] = value
        packed = {k: cla.to_device(queue, a) for k, a in packed.items()}
        out = cla.empty_like(packed["b"])
        out.fill(value)
        solver.enqueue(**packed, out=out, packed=True)
        assert np.array_equal(solver.from_device_order(out).get(), expected)
        assert (solver.status() == -1).all()


def test_both_paddings_agree(queue, needs):
    needs(queue, np.float64)
    forest = Forest.from_parents(
        [c for name in ("random", "star", "chain") for c in families()[name]]
    )
    system = make_system(forest, symmetric=False)
    x, y = (
        Solver(forest, "levels", queue=queue, padding=p).solve(**system.arrays) for p in PADDING
    )
    assert_close(forest, x, y, np.float64)


def test_a_matrix_factored_once(queue):
    forest = Forest.from_parents([*dissimilar(5), caterpillar(9)])
    system = make_system(forest, np.float32, symmetric=False, rows=6)
    solver = Solver(forest, "levels", np.float32, queue=queue)
    factors = solver.factor(system.d, system.u, l=system.l)
    assert np.array_equal(factors.solve(system.b), solver.solve(**system.arrays))
    system.d[[0, -1]] = -1
    status = solver.factor(system.d, system.u, l=system.l, check=False).status()
    assert status[[0, -1]].tolist() == [0, forest.num_nodes - 1]
    assert (status[1:-1] == -1).all()


BATCHES = {
    "chains": [chain(n) for n in (1, 2, 3, 19, 8, 16)],
    "equal branches": [complete_binary(4)] * 3,
    "many": [*dissimilar(9), star(9), chain(1), chain(3)],
}


@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("batch", BATCHES)
def test_several_nodes_at_once(queue, monkeypatch, batch, padding):
    """Compare with one node at a time, solutions and bad pivots; on any device as on GPUs."""
    forest, known = Forest.from_parents(BATCHES[batch]), devices.limits(queue.device)
    solvers = []
    for is_cpu in (True, False):
        limits = replace(known, is_cpu=is_cpu)
        monkeypatch.setattr(devices, "limits", lambda device, found=limits: found)
        solvers.append(Solver(forest, "levels", np.float32, queue=queue, padding=padding))
        assert solvers[-1].plan.parts[0].spec.ahead == (1 if is_cpu else branch_levels.AHEAD)
    assert_alike(solvers, bad=3)
