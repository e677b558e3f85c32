"""Transfers of host arrays to the device and back."""

import numpy as np
import pytest
from solvers import ONE_EACH, forest_of, make_solver
from systems import dissimilar, make_system

from bench.made import chain, random_binary_tree
from clhines import Forest
from clhines.solver.device import copies
from clhines.solver.engines import hosted


def test_numpy_out_and_overwrite(queue):
    forest = Forest.from_parents(dissimilar(6))
    system = make_system(forest, np.float32, rows=3)
    solver = make_solver(queue, forest, dtype=np.float32)
    expected = solver.solve(**system.arrays)
    out = np.full_like(system.b, 5)
    assert solver.solve(**system.arrays, out=out) is out
    assert np.array_equal(out, expected)
    kept = system.copy()
    assert solver.solve(**system.arrays, overwrite=True) is system.b
    assert np.array_equal(system.b, expected)
    assert np.array_equal(system.d, kept.d)
    wide = kept.b.astype(np.float64)  # float32 does not fit in place
    x = solver.solve(kept.d, kept.u, wide, overwrite=True)
    assert x is not wide
    assert np.array_equal(x, expected)
    assert np.array_equal(wide, kept.b)
    frozen = kept.b.copy()
    frozen.flags.writeable = False
    assert solver.solve(kept.d, kept.u, frozen, overwrite=True) is not frozen


def test_pinned_memory_of_several_right_hand_sides(fast_queue, monkeypatch):
    """One right-hand side is too small to be staged; the sides of one launch together are not.

    In natural order one transfer takes all operands, l included.
    """
    forest = Forest.from_parents([chain(30)] * 10)
    solver = make_solver(fast_queue, forest, dtype=np.float32)
    rows = solver.engine.room.rows_at_once(solver.plan)
    assert rows > 1
    monkeypatch.setattr(copies, "helps", lambda _: True)
    monkeypatch.setattr(copies, "shares_memory", lambda _: False)
    most = 300 * 4 * (rows + 3 * solver.plan.takes_natural)
    for least, pinned in ((300 * 4, True), (300 * 4 * rows, True), (most + 1, False)):
        monkeypatch.setattr(copies, "LEAST_BYTES", least)
        assert (solver.memory.pinned >= copies.pinned_bytes()) == pinned
        assert solver.memory.pinned > 0
        solver = make_solver(fast_queue, forest, dtype=np.float32)
        system = make_system(forest, np.float32, rows=rows)
        system.assert_solved(solver.solve(**system.arrays))
        assert ("copies" in vars(solver.engine.transfer)) == pinned


@pytest.mark.parametrize("rows", [1, 8])
def test_out_may_overlap_b(queue, rows):
    forest = Forest.from_parents(dissimilar(20))
    system = make_system(forest, np.float32, rows=rows)
    shared = np.empty((rows + 1, forest.num_nodes), np.float32)
    shared[:rows] = system.b
    arrays = {**system.copy().arrays, "b": shared[:rows]}
    x = make_solver(queue, forest, dtype=np.float32).solve(**arrays, out=shared[1:])
    assert np.shares_memory(x, shared)
    system.assert_solved(x)


@pytest.mark.parametrize("config", ONE_EACH)
@pytest.mark.parametrize("rows", [None, 3])
def test_arrays_anywhere_in_memory(fast_queue, config, rows):
    forest = forest_of(config, dissimilar(9))
    solver = make_solver(fast_queue, forest, config, np.float32)
    for seed in (1, 2):  # the second reuses the first one's memory
        system = make_system(forest, np.float32, rows=rows, seed=seed)
        moved = {name: beside(a) for name, a in system.arrays.items() if a is not None}
        kept = {name: a.copy() for name, a in moved.items()}
        for a in moved.values():
            a.flags.writeable = False
        out = beside(np.full_like(system.b, np.nan))
        assert solver.solve(**moved, out=out) is out
        system.assert_solved(out)
        assert all(np.array_equal(a, kept[name]) for name, a in moved.items())
        factors = solver.factor(**{name: moved[name] for name in moved if name != "b"})
        system.assert_solved(factors.solve(moved["b"]))


@pytest.mark.parametrize("config", ["flat", "contraction_6", "fine_vector_4"])
@pytest.mark.parametrize("rows", [None, 5])
def test_arrays_that_a_cpu_does_not_take_are_copied(fast_queue, monkeypatch, config, rows):
    monkeypatch.setattr(copies, "lends", lambda *_: False)
    monkeypatch.setattr(copies, "lends_all", lambda _: False)
    forest = forest_of(config, dissimilar(9))
    solver = make_solver(fast_queue, forest, config, np.float32)
    for seed in (1, 2):
        system = make_system(forest, np.float32, False, rows, seed)
        system.assert_solved(solver.solve(**system.arrays))
        system.assert_solved(solver.solve(**system.copy().arrays, overwrite=True))


@pytest.mark.parametrize("config", ["flat", "contraction_6"])
def test_nothing_is_written_after_an_error(fast_queue, monkeypatch, config):
    """Kernels may run on the caller's arrays, and on copies that the error releases."""
    forest = forest_of(config, [random_binary_tree(400, 40, 1)] * 500)
    solver = make_solver(fast_queue, forest, config, np.float32)
    system = make_system(forest, np.float32)
    expected = solver.solve(**system.arrays)
    out = np.zeros_like(system.b)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(hosted.Carrier, "read_status", interrupted)
        solver.solve(**system.arrays, out=out)
    before = out.copy()
    fast_queue.finish()
    assert np.array_equal(out, before)
    assert np.array_equal(solver.solve(**system.arrays, out=out), expected)


def beside(a):
    """Return a copy one element past the begin of an allocation."""
    room = np.empty(a.size + 1, a.dtype)
    room[1:] = a.reshape(-1)
    return room[1:].reshape(a.shape)
