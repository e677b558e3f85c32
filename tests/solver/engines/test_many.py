"""Many right-hand sides of few cells, in lanes over the right-hand sides."""

import threading

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from solvers import assert_lost_digits_are_told, on_device
from systems import System, dissimilar, make_system

from bench.made import chain, random_binary_tree, star
from clhines import Forest, HostMemoryError, InputError, PivotError, Solver
from clhines.solver.device import copies
from clhines.solver.engines import many

ROWS = 67  # exceeds a block of lanes, a tile and a work-group, and is a multiple of none
SHAPES = {
    "chain": [chain(41)],
    "tree": [random_binary_tree(53, 9, seed=3)],
    "star": [star(19)],
    "several": [*dissimilar(5), chain(1), star(7)],
}


@pytest.fixture(autouse=True)
def _always(monkeypatch):
    monkeypatch.setattr("clhines.solver.engines.whole.is_faster", lambda *_: True)


def solved_by_lanes(solver, solve):
    """Return the result of `solve`, which must have used lanes over right-hand sides."""
    engine = getattr(solver.engine, "usual", solver.engine)  # `LanesEngine` wraps it, for chains
    used = vars(engine).get("_many") is not None
    x = solve()
    assert used or vars(engine).get("_many") is not None
    return x


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "unsymmetric"])
@pytest.mark.parametrize("shape", SHAPES)
def test_solutions_and_the_same_by_factors(queue, needs, shape, symmetric, dtype):
    needs(queue, dtype)
    forest = Forest.from_parents(SHAPES[shape])
    system = make_system(forest, dtype, symmetric, rows=ROWS)
    solver = Solver(forest, dtype=dtype, queue=queue)
    x = solved_by_lanes(solver, lambda: solver.solve(**system.arrays))
    system.assert_solved(x)
    assert (solver.status() == -1).all()
    factors = solver.factor(system.d, system.u, l=system.l)
    assert np.array_equal(factors.solve(system.b), x)

    arrays = on_device(queue, system)
    on_the_device = solver.solve(**arrays, check=False)
    assert on_the_device.events
    assert np.array_equal(on_the_device.get(), x)
    assert (solver.status() == -1).all()
    assert np.array_equal(factors.solve(arrays["b"]).get(), x)
    assert solver.solve(**arrays, out=arrays["b"]) is arrays["b"]
    assert np.array_equal(arrays["b"].get(), x)

    swapped = System(forest, system.d, system.l, system.b, system.u)
    if not symmetric:
        swapped.assert_solved(factors.solve(system.b, transpose=True))


def test_bits_do_not_depend_on_the_number_of_right_hand_sides(queue):
    forest = Forest.from_parents(SHAPES["several"])
    system = make_system(forest, np.float32, rows=ROWS)
    solver = Solver(forest, dtype=np.float32, queue=queue)
    x = solver.solve(**system.arrays)
    for rows in (2, 8, 17):
        assert np.array_equal(solver.solve(system.d, system.u, system.b[:rows]), x[:rows])


def test_arrays_that_are_not_contiguous_and_the_solution_in_place(queue):
    forest = Forest.from_parents(SHAPES["tree"])
    system = make_system(forest, np.float32, rows=ROWS)
    solver = Solver(forest, dtype=np.float32, queue=queue)
    x = solver.solve(**system.arrays)
    columns = np.asfortranarray(system.b)
    assert np.array_equal(solver.solve(system.d, system.u, columns), x)
    out = np.empty((ROWS, 2 * forest.num_nodes), np.float32)[:, ::2]
    assert solver.solve(system.d, system.u, system.b, out=out) is out
    assert np.array_equal(out, x)
    b = system.b.copy()
    assert solver.solve(system.d, system.u, b, overwrite=True) is b
    assert np.array_equal(b, x)


def test_more_right_hand_sides_than_are_on_the_device_at_once(queue, monkeypatch):
    forest = Forest.from_parents(SHAPES["several"])
    system = make_system(forest, np.float32, rows=ROWS)
    x = Solver(forest, dtype=np.float32, queue=queue).solve(**system.arrays)
    monkeypatch.setattr(many, "_VALUE_BYTES", 10 * 4 * forest.num_nodes)
    monkeypatch.setattr(many.copies, "lends_all", lambda device: False)
    solver = Solver(forest, dtype=np.float32, queue=queue)
    assert np.array_equal(solver.solve(**system.arrays), x)


def test_right_hand_sides_that_do_not_fit_into_memory(fast_queue, monkeypatch):
    solver, d, u = Solver(Forest([-1, 0]), queue=fast_queue), [3.0, 3.0], [0.0, -1.0]
    monkeypatch.setattr("clhines.core.checks.available", lambda: 3 << 20)
    repeated = np.broadcast_to(np.ones(2), (1 << 17, 2))
    with pytest.raises(HostMemoryError, match="b and its solutions take 4 MiB or more"):
        solver.solve(d, u, repeated)
    assert solver.solve(d, u, repeated[: 1 << 16]).shape == (1 << 16, 2)


def test_right_hand_sides_are_lent_in_pieces(fast_queue, monkeypatch):
    """A device may refuse a buffer that is larger than the limit of its allocations."""
    solver, sizes, lend = Solver(Forest([-1, 0]), queue=fast_queue), [], copies.lend

    def watched(queue, a, writes=False):
        sizes.append(a.nbytes)
        return lend(queue, a, writes)

    monkeypatch.setattr(many, "_VALUE_BYTES", 160)
    monkeypatch.setattr(copies, "lend", watched)
    x = solver.solve([3.0, 3.0], [0.0, -1.0], np.ones((1000, 2)))
    assert (x == x[0]).all() and max(sizes, default=0) <= 160


@pytest.mark.parametrize("kind", ["host", "device"])
def test_a_bad_pivot_is_reported_with_its_cell_and_node(queue, kind):
    forest = Forest.from_parents(SHAPES["several"])
    system = make_system(forest, np.float32, rows=ROWS)
    d = system.d.copy()
    d[forest.cell_offsets[3] + 1] = -50.0
    solver = Solver(forest, dtype=np.float32, queue=queue)
    operands = (d, system.u, system.b)
    if kind == "device":
        operands = tuple(cla.to_device(queue, a) for a in operands)
    with pytest.raises(PivotError) as caught:
        solver.solve(*operands)
    assert caught.value.cell == 3
    assert solver.status()[3] == caught.value.node
    plain = Solver(forest, "flat", dtype=np.float32, queue=queue)
    with pytest.raises(PivotError) as expected:
        plain.solve(d, system.u, system.b[0])
    assert (caught.value.cell, caught.value.node) == (expected.value.cell, expected.value.node)


def test_lost_digits_are_reported(queue):
    assert_lost_digits_are_told(queue, ROWS, {}, {"transpose": True})


def test_values_that_are_not_finite_are_refused(queue):
    forest = Forest.from_parents(SHAPES["tree"])
    system = make_system(forest, np.float32, rows=ROWS)
    system.b[5, 7] = np.nan
    solver = Solver(forest, dtype=np.float32, queue=queue)
    factors, b = solver.factor(system.d, system.u), np.nan_to_num(system.b)
    for _ in range(2):
        with pytest.raises(InputError, match=r"b is nan; expected finite"):
            solver.solve(**system.arrays)
        with pytest.raises(InputError, match=r"b is nan; expected finite"):
            factors.solve(system.b)
        assert np.isfinite(factors.solve(b)).all()


def test_methods_asked_for_by_name_stay(fast_queue):
    forest = Forest.from_parents(SHAPES["chain"])
    system = make_system(forest, np.float32, rows=ROWS)
    solver = Solver(forest, "flat", dtype=np.float32, queue=fast_queue)
    system.assert_solved(solver.solve(**system.arrays))
    assert "_many" not in vars(solver.engine)


def test_events_of_device_arrays_are_waited_for(fast_queue):
    forest = Forest.from_parents(SHAPES["chain"])
    system = make_system(forest, np.float32, rows=ROWS)
    arrays = on_device(fast_queue, system)
    event = cl.UserEvent(fast_queue.context)
    other = cl.CommandQueue(fast_queue.context)
    marker = cl.enqueue_marker(other, wait_for=[event])
    arrays["b"].events.append(marker)
    solver = Solver(forest, dtype=np.float32, queue=fast_queue)
    x = solver.solve(**arrays, check=False)
    event.set_status(cl.command_execution_status.COMPLETE)
    system.assert_solved(x.get())


def test_factors_are_deleted_after_their_kernels(fast_queue):
    """Kernels of a CPU write to memory of the host, which is freed with the factors."""
    if not copies.shares_memory(fast_queue.device):
        pytest.skip("only CPUs share memory")
    forest = Forest.from_parents(SHAPES["tree"])
    system = make_system(forest, np.float32, rows=ROWS)
    solver = Solver(forest, dtype=np.float32, queue=fast_queue)
    arrays = on_device(fast_queue, system)
    started = cl.UserEvent(fast_queue.context)
    marker = cl.enqueue_marker(cl.CommandQueue(fast_queue.context), wait_for=[started])
    arrays["b"].events.append(marker)
    factors = solver.factor(arrays["d"], arrays["u"])
    x = factors.solve(arrays["b"])
    threading.Timer(0.2, started.set_status, [cl.command_execution_status.COMPLETE]).start()
    del factors
    assert x.events[-1].command_execution_status == cl.command_execution_status.COMPLETE
    system.assert_solved(x.get())
