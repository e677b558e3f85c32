"""Row `serial`: the reference behind the interface of `Solver`."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from systems import System, dissimilar, make_system

from clhines import Forest, PivotError, Solver, reference
from clhines.cells.shapes import chain, star


def serial(queue, forest, dtype=np.float32):
    return Solver(forest, "serial", dtype, queue=queue)


@pytest.mark.parametrize("rows", [None, 3])
@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "unsymmetric"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_it_is_the_reference_rounded_once(queue, needs, dtype, symmetric, rows):
    needs(queue, dtype)
    forest = Forest.from_cells([*dissimilar(6), star(40), chain(1)])
    system = make_system(forest, dtype, symmetric, rows)
    x = serial(queue, forest, dtype).solve(**system.arrays)
    assert np.array_equal(x, system.truth().astype(dtype))
    assert x.dtype == dtype


def test_device_order_is_natural_order(queue):
    forest = Forest.from_cells(dissimilar(5))
    solver = serial(queue, forest)
    assert np.array_equal(solver.plan.gather, np.arange(forest.num_nodes))
    system = make_system(forest, np.float32)
    d, u, b = (cla.to_device(queue, a) for a in (system.d, system.u, system.b))
    out = cla.empty_like(b)
    event = solver.enqueue(d, u, b, out=out)
    assert event.command_execution_status == cl.command_execution_status.COMPLETE
    assert np.array_equal(out.get(), system.truth().astype(np.float32))
    assert np.array_equal(b.get(), system.b)
    solver.enqueue(d, u, b, out=b, overwrite=True)
    assert np.array_equal(b.get(), out.get())
    assert len(solver.kernel_events) == 2


def test_a_matrix_factored_once(queue):
    forest = Forest.from_cells(dissimilar(5))
    system = make_system(forest, np.float32, symmetric=False, rows=6)
    solver = serial(queue, forest)
    factors = solver.factor(system.d, system.u, l=system.l)
    assert np.array_equal(factors.solve(system.b), solver.solve(**system.arrays))
    one = System(forest, system.d, system.u, system.b[1], system.l)
    one.assert_solved(factors.solve(one.b))
    system.d[[3, -1]] = -1
    with pytest.raises(PivotError) as caught:
        solver.factor(system.d, system.u, l=system.l)
    assert (caught.value.cell, caught.value.node) == (0, 3)
    found = solver.factor(system.d, system.u, l=system.l, check=False).status()
    assert np.flatnonzero(found >= 0).tolist() == [0, 4]


def test_pivots_are_judged_in_the_precision_of_the_values(queue, needs):
    needs(queue, np.float64)
    forest = Forest([-1, 0])
    d, u, b = np.array([1.0, 1e-40]), np.zeros(2), np.zeros(2)
    assert serial(queue, forest, np.float64).solve(d, u, b).tolist() == [0, 0]
    with pytest.raises(PivotError, match="node 1"):
        serial(queue, forest).solve(d, u, b)
    d[1] = 1e39
    assert serial(queue, forest, np.float64).solve(d, u, b).tolist() == [0, 0]
    keys = reference.bad_pivot_keys(forest, d, np.dtype(np.float32))
    assert keys.tolist() == [2]
    assert keys.dtype == np.int32


def test_it_says_that_it_has_no_kernel(queue):
    solver = serial(queue, Forest(chain(3)))
    assert solver.source == "// no kernel: clhines.reference on the host\n"
    assert "kernel            none: clhines.reference, in float64" in solver.plan.describe()
