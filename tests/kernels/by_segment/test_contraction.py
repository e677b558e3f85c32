"""Kernels of `contraction`: cells above local memory."""

from dataclasses import replace

import numpy as np
import pyopencl.array as cla
import pytest
from solvers import SHORT
from systems import dissimilar, make_system

from bench.made import caterpillar, chain, random_binary_tree, star
from clhines import Forest, InputError, PivotError, Solver
from clhines.solver.device import devices

pytestmark = pytest.mark.optimised


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cells_above_local_memory(typed_queue, dtype, monkeypatch):
    """They are solved in pieces, in one device order with the others."""
    real, room = devices.limits, min(typed_queue.device.local_mem_size, 96 << 10)
    monkeypatch.setattr(devices, "limits", lambda device: replace(real(device), local_bytes=room))
    most = room // np.dtype(dtype).itemsize // 3
    cells = [random_binary_tree(most + 500, 60, 1), star(20), chain(50)]
    cells += [chain(2 * most + 1), cells[0], caterpillar(2 * most)]
    forest = Forest.from_parents(cells)
    solver = Solver(forest, "contraction", dtype, queue=typed_queue, segment=SHORT)
    assert {p.spec.template for p in solver.plan.parts} == {"solver/by_segment/contraction"}
    assert {p.phase for p in solver.plan.parts} == {"solve", "reduce", "expand"}
    updates = sum(p.statistics["rounds"] for p in solver.plan.parts if p.phase != "expand")
    symmetric, rows = (True, None) if dtype == np.float64 else (False, 3)
    again = make_system(forest, dtype, symmetric, rows)
    again.assert_solved(solver.solve(**again.arrays), updates)
    x = solver.solve(**again.arrays)
    assert np.array_equal(x, solver.solve(**again.arrays))
    another = Solver(forest, "contraction", dtype, queue=typed_queue, segment=SHORT)
    assert np.array_equal(x, another.solve(**again.arrays))
    for part in (p for p in solver.plan.parts if not p.source):  # natural order, which NumPy has
        tables = part.natural_tables(forest, solver.plan.gather)
        assert {k: len(t) for k, t in tables.items()} == part.natural_sizes(forest)
    packed = {k: solver.to_device_order(a) for k, a in again.arrays.items() if a is not None}
    out = cla.empty_like(packed["b"])
    solver.enqueue(**packed, out=out)
    assert np.array_equal(solver.from_device_order(out).get(), x)
    arrays = {k: cla.to_device(typed_queue, a) for k, a in again.arrays.items() if a is not None}
    solver.solve(**arrays, out=arrays["b"], check=False)
    assert np.array_equal(arrays["b"].get(), x)


def assert_bad_pivots_are_named(solver, system, cell, node):
    """Plant a bad pivot at a node."""
    for value in (-1, np.nan):
        d = system.d.copy()
        d[node] = value
        with pytest.raises(PivotError) as caught:
            solver.solve(d, system.u, system.b)
        assert (caught.value.cell, caught.value.node) == (cell, node)


def test_bad_pivots_of_cells_above_local_memory(fast_queue, monkeypatch):
    real, room = devices.limits, min(fast_queue.device.local_mem_size, 96 << 10)
    monkeypatch.setattr(devices, "limits", lambda device: replace(real(device), local_bytes=room))
    most = room // 4 // 3
    cells = [random_binary_tree(most + 500, 60, 1), chain(50), chain(2 * most + 1)]
    forest = Forest.from_parents(cells)
    solver = Solver(forest, "contraction", np.float32, queue=fast_queue, segment=SHORT)
    system = make_system(forest, np.float32)
    rng = np.random.default_rng(5)
    for cell in range(3):
        lo, hi = forest.cell_offsets[cell : cell + 2]
        for node in {int(lo), int(hi) - 1, *rng.integers(lo, hi, 3).tolist()}:
            assert_bad_pivots_are_named(solver, system, cell, node)
    system.assert_solved(solver.solve(**system.arrays))


@pytest.mark.parametrize("sizes", [(400, 512, 17, 1, 33, 300), (512,) * 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_chains_one_a_warp(typed_queue, dtype, sizes):
    forest = Forest.from_parents([chain(n) for n in sizes])
    options = {"segment": 16, "work_group": 32, "max_cells": 1}
    for more in ({}, {"registers": True}):
        solver = Solver(forest, "contraction", dtype, queue=typed_queue, **options, **more)
        for symmetric, rows in ((True, None), (False, 3)):
            system = make_system(forest, dtype, symmetric, rows)
            x = solver.solve(**system.arrays)
            system.assert_solved(x)
            arrays = {
                k: cla.to_device(typed_queue, a) for k, a in system.arrays.items() if a is not None
            }
            solver.solve(**arrays, out=arrays["b"], check=False)  # natural order
            assert np.array_equal(arrays["b"].get(), x)
            factors = solver.factor(system.d, system.u, l=system.l)
            system.assert_solved(factors.solve(system.b))
        system = make_system(forest, dtype)
        for node in range(0, forest.num_nodes, 149):
            cell = int(np.searchsorted(forest.cell_offsets, node, side="right")) - 1
            assert_bad_pivots_are_named(solver, system, cell, node)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_tree_of_pieces_larger_than_local_memory(typed_queue, dtype, monkeypatch):
    """Its kept nodes are themselves solved in pieces; a star goes to `fine`."""
    real = devices.limits
    monkeypatch.setattr(
        devices, "limits", lambda device: replace(real(device), local_bytes=5 << 10)
    )
    forest = Forest.from_parents([chain(60_000), random_binary_tree(3000, 300, 2), star(700)])
    solver = Solver(forest, "contraction", dtype, queue=typed_queue, work_group=64, segment=SHORT)
    assert {p.source for p in solver.plan.parts} >= {0, 1, 2}
    assert solver.plan.parts[-1].spec.template == "solver/by_branch/fine"
    system = make_system(forest, dtype)
    system.assert_solved(solver.solve(**system.arrays))
    d = system.d.copy()
    d[12_345] = -1
    with pytest.raises(PivotError) as caught:
        solver.solve(d, system.u, system.b)
    assert (caught.value.cell, caught.value.node) == (0, 12_345)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_cells_beside_those_in_local_memory(queue, needs, dtype, monkeypatch):
    needs(queue, dtype)
    real = devices.limits
    monkeypatch.setattr(
        devices, "limits", lambda device: replace(real(device), local_bytes=1 << 10)
    )
    cells = [*dissimilar(9), random_binary_tree(300, 40, 1), chain(400), *dissimilar(9)]
    forest = Forest.from_parents(cells)
    solver = Solver(forest, "block_local", dtype, queue=queue)
    local, rest = solver.plan.parts
    assert local.statistics["local_bytes"] > rest.statistics["local_bytes"] == 0
    for symmetric, rows in ((True, None), (False, 3)):
        system = make_system(forest, dtype, symmetric, rows)
        system.assert_solved(solver.solve(**system.arrays))
    factors = solver.factor(system.d, system.u, l=system.l)
    system.assert_solved(factors.solve(system.b))
    packed = {k: solver.to_device_order(a) for k, a in system.arrays.items() if a is not None}
    solver.enqueue(**packed, out=packed["b"], overwrite=True).wait()
    system.assert_solved(solver.from_device_order(packed["b"]).get())
    bad = [int(forest.cell_offsets[c]) + 1 for c in (4, 9, 10)]
    system.d[bad] = -1e9
    solver.solve(**system.arrays, check=False)
    assert solver.status()[[4, 9, 10]].tolist() == bad
    assert (np.delete(solver.status(), [4, 9, 10]) == -1).all()


def test_more_lanes_than_contraction_can_name_are_refused(queue):
    with pytest.raises(InputError, match=r"work_group=10\d\d is above"):
        Solver(Forest(star(1030)), "contraction", np.float32, queue=queue, work_group=1024)
