"""Solves of rerooted cells, on every device."""

import numpy as np
import pyopencl.array as cla
import pytest
from solvers import on_device
from systems import dissimilar, make_system

from clhines import (
    Forest,
    InputError,
    PivotError,
    Solver,
    discretise,
    sample_cells,
)
from clhines.cells.shapes import chain, star
from clhines.simulate.passive import PassiveCells

# vectors, and one work-item a branch
KINDS = {"vectors": {"vector_width": 4, "max_cells": 3}, "lanes": {"work_group": 5}}


@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "unsymmetric"])
@pytest.mark.parametrize("rows", [None, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_every_way_in_and_out(queue, kind, rows, symmetric):
    forest = Forest.from_cells([*dissimilar(9), chain(1), chain(2), star(6)])
    solver = Solver(forest, "fine", np.float32, queue=queue, reroot=True, **KINDS[kind])
    assert solver.plan.edges is not None
    system = make_system(forest, np.float32, symmetric, rows)
    expected = solver.solve(**system.arrays)
    system.assert_solved(expected)
    arrays = on_device(queue, system)
    assert np.array_equal(solver.solve(**arrays).get(), expected)
    others = {"u": system.l, "l": system.u}
    packed = {
        name: solver.pack(a, of=name, other=others.get(name))
        for name, a in system.arrays.items()
        if a is not None
    }
    out = cla.empty_like(packed["b"])
    solver.enqueue(**packed, out=out)
    assert np.array_equal(solver.unpack(out).get(), expected)
    factors = solver.factor(system.d, system.u, l=system.l)
    system.assert_solved(factors.solve(system.b))
    assert np.array_equal(factors.solve(arrays["b"]).get(), expected)
    factors.enqueue(packed["b"], out=out)
    assert np.array_equal(solver.unpack(out).get(), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_slices(queue, kind):
    forest = Forest.from_cells(dissimilar(60, least=5))
    options = {"reroot": True, **KINDS[kind]}
    solver = Solver(forest, "fine", np.float32, queue=queue, max_memory=50_000, **options)
    assert solver.num_slices > 2
    for symmetric in (True, False):
        system = make_system(forest, np.float32, symmetric)
        system.assert_solved(solver.solve(**system.arrays))
        node = int(forest.cell_offsets[47]) + 3
        system.d[node] = -1000.0
        with pytest.raises(PivotError) as caught:
            solver.solve(**system.arrays)
        assert (caught.value.cell, caught.value.node) == (47, node)


def test_pack_must_know_what_it_packs(queue):
    forest = Forest.from_cells([chain(4)] * 2)
    solver = Solver(forest, "fine", np.float32, queue=queue, reroot=True)
    a = np.arange(8.0)
    with pytest.raises(InputError, match=r"other roots: pack\(\) needs of='d', 'u', 'l', 'b' or"):
        solver.pack(a)
    with pytest.raises(InputError, match=r"pack\(l, of='l'\) needs other=u"):
        solver.pack(a, of="l")
    with pytest.raises(InputError, match="of='v' is not valid; expected d, u, l, b, x"):
        solver.pack(a, of="v")
    with pytest.raises(InputError, match=r"other has shape \(7,\)"):
        solver.pack(a, of="u", other=a[:7])
    with pytest.raises(InputError, match=r"other has shape \(2, 8\); expected that of a, \(8,\)"):
        solver.pack(a, of="u", other=np.stack((a, a)))
    assert np.array_equal(solver.unpack(solver.pack(a, of="x")).get(), a)
    plain = Solver(forest, "fine", np.float32, queue=queue)
    assert np.array_equal(plain.pack(a, of="u").get(), plain.pack(a).get())


def test_couplings_at_the_old_and_new_roots_do_not_matter(queue):
    forest = Forest.from_cells([*dissimilar(7), chain(1), chain(6)])
    for kind in KINDS.values():
        for symmetric in (True, False):
            solver = Solver(forest, "fine", np.float32, queue=queue, reroot=True, **kind)
            system = make_system(forest, np.float32, symmetric)
            expected = solver.solve(**system.arrays)
            system.u[forest.parent < 0] = np.nan
            assert np.array_equal(solver.solve(**system.arrays), expected)


def test_passive_cells(fast_queue, needs):
    needs(fast_queue, np.float64)
    cables = [discretise(cell, max_length=60) for cell in sample_cells()]
    plain = PassiveCells(cables, 8, queue=fast_queue, method="fine")
    other = PassiveCells(cables, 8, queue=fast_queue, method="fine", reroot=True)
    assert other.solver.plan.edges is not None
    for cells in (plain, other):
        cells.advance(range(5))
    assert np.allclose(plain.voltages(), other.voltages(), rtol=0, atol=1e-9)
    found = other.check()
    assert max(found["residual"], found["difference"]) < 1e-14
