"""Solves of rerooted cells, on every device, equal solves of the original cells."""

import numpy as np
import pyopencl.array as cla
import pytest
from systems import dissimilar, make_system

from bench.made import chain, star
from clhines import Forest, PivotError, Solver, reroot

# vectors, one work-item per branch, and segments
KINDS = {
    "vectors": ("fine", {"vector_width": 4, "max_cells": 3}),
    "lanes": ("fine", {"work_group": 5}),
    "contraction": ("contraction", {"segment": 6}),
}


@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "unsymmetric"])
@pytest.mark.parametrize(("dtype", "rows"), [(np.float64, None), (np.float32, 3)])
@pytest.mark.parametrize("kind", KINDS)
def test_every_way_in_and_out(queue, needs, kind, dtype, rows, symmetric):
    needs(queue, dtype)
    forest = Forest.from_parents([*dissimilar(9), chain(1), chain(2), star(6)])
    new = reroot(forest)
    assert new.moved.any() and new.turned.any()
    method, options = KINDS[kind]
    solver = Solver(new.forest, method, dtype, queue=queue, **options)
    system = make_system(forest, dtype, symmetric, rows)
    moved = new.couplings(system.u, system.l)
    operands = {"d": system.d, "b": system.b, **moved}
    expected = solver.solve(**operands)
    system.assert_solved(expected)  # the old forest's couplings
    arrays = {name: cla.to_device(queue, a) for name, a in operands.items()}
    system.assert_solved(solver.solve(**arrays).get())
    packed = {name: solver.to_device_order(a) for name, a in operands.items()}
    out = cla.empty_like(packed["b"])
    solver.enqueue(**packed, out=out)
    system.assert_solved(solver.from_device_order(out).get())
    factors = solver.factor(system.d, **moved)
    system.assert_solved(factors.solve(system.b))
    factors.enqueue(packed["b"], out=out)
    system.assert_solved(solver.from_device_order(out).get())


@pytest.mark.parametrize("kind", KINDS)
def test_bad_pivots(fast_queue, kind):
    """Nodes keep their numbers, so the error names the node of the caller's forest."""
    forest = Forest.from_parents(dissimilar(60, least=5))
    new = reroot(forest)
    method, options = KINDS[kind]
    solver = Solver(new.forest, method, np.float32, queue=fast_queue, **options)
    for symmetric in (True, False):
        system = make_system(forest, np.float32, symmetric)
        arrays = {"d": system.d, "b": system.b, **new.couplings(system.u, system.l)}
        system.assert_solved(solver.solve(**arrays))
        node = int(forest.cell_offsets[47]) + 3
        arrays["d"] = system.d.copy()
        arrays["d"][node] = -1000.0
        with pytest.raises(PivotError) as caught:
            solver.solve(**arrays)
        assert (caught.value.cell, caught.value.node) == (47, node)


def test_couplings_at_the_old_and_new_roots_do_not_matter(fast_queue):
    forest = Forest.from_parents([*dissimilar(7), chain(1), chain(6)])
    new = reroot(forest)
    solver = Solver(new.forest, "fine", np.float32, queue=fast_queue)
    for symmetric in (True, False):
        system = make_system(forest, np.float32, symmetric)
        before = new.couplings(system.u, system.l)
        roots = forest.parent < 0
        system.u[roots] = np.nan
        if not symmetric:
            system.l[roots] = np.nan
        after = new.couplings(system.u, system.l)
        assert all(np.array_equal(before[name], after[name]) for name in before)
        result = solver.solve(system.d, b=system.b, **after)
        assert np.isfinite(result).all()


def test_steps_that_follow_one_another_are_halved(fast_queue):
    """A chain rooted at its end is one branch; rooted in the middle it is two."""
    forest = Forest.from_parents([chain(101)] * 3)
    plans = [Solver(f, "fine", queue=fast_queue).plan for f in (forest, reroot(forest).forest)]
    steps = [plan.parts[0].statistics["dependent_steps"] for plan in plans]
    assert steps[1] < 0.6 * steps[0]
