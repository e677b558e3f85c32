"""The predicted memory of a batch equals the sum over all its device arrays."""

import weakref
from collections import Counter

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from systems import make_system

from bench.made import chain, random_binary_tree
from clhines import DeviceMemoryError, Forest, Solver
from clhines.solver import tune
from clhines.solver.device import copies
from clhines.solver.engines import memory
from clhines.solver.plan.methods import METHODS


@pytest.fixture
def meter(monkeypatch):
    """Return the bytes of device arrays now, and at their peak."""
    counts = {"now": 0, "peak": 0}
    views = Counter()  # views per buffer
    make = cla.Array.__init__

    def made(self, *args, **kwargs):
        make(self, *args, **kwargs)
        if self.base_data is None or self.base_data.flags & cl.mem_flags.USE_HOST_PTR:
            return  # empty, or the caller's own memory
        buffer, size = self.base_data.int_ptr, self.base_data.size
        counts["now"] += 0 if views[buffer] else size
        views[buffer] += 1
        counts["peak"] = max(counts["peak"], counts["now"])
        weakref.finalize(self, gone, buffer, size)

    def gone(buffer, size):
        views[buffer] -= 1
        counts["now"] -= 0 if views[buffer] else size

    monkeypatch.setattr(cla.Array, "__init__", made)
    return counts


def tables_of(solver):
    return sum(a.nbytes for launch in solver.engine.loaded.launches for a in launch.tables.values())


@pytest.mark.parametrize("method", ["flat", "levels"])
def test_what_is_kept_between_solves_stays_within_what_is_said(fast_queue, meter, method):
    """Alternate between numbers of right-hand sides, which need memory of several sizes."""
    before = meter["now"]
    forest = Forest.repeat([random_binary_tree(512, 50, 1)], 100)
    solver = Solver(forest, method, queue=fast_queue)
    for rows in (1, 2, 3, 4, 5, 9, 5):
        system = make_system(forest, symmetric=False, rows=rows)
        for _ in range(2):
            system.assert_solved(solver.solve(**system.arrays))
            assert tables_of(solver) < meter["now"] - before <= solver.memory.device
    assert meter["peak"] - before <= solver.memory.device


@pytest.mark.parametrize("method", ["flat", "fine", "contraction"])
def test_a_whole_batch_stays_within_what_was_said(fast_queue, meter, method):
    forest = Forest.repeat([random_binary_tree(512, 50, 1)], 200)
    solver = Solver(forest, method, queue=fast_queue)
    said = solver.memory
    x = solver.solve(**make_system(forest, symmetric=False, rows=4).arrays)
    assert 0 < meter["peak"] <= said.device
    assert np.isfinite(x).all()


@pytest.fixture
def own_memory(monkeypatch):
    """Let a CPU copy values to separate buffers, as a GPU does."""
    monkeypatch.setattr(copies, "lends", lambda *_: False)
    monkeypatch.setattr(copies, "shares_memory", lambda _: False)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("rows", "symmetric"), [(1, True), (3, False)])
def test_what_is_listed_is_what_is_taken(fast_queue, own_memory, meter, method, rows, symmetric):
    """Compare the predicted bytes with the sum over all arrays, by every method."""
    cell = chain(70) if METHODS[method].chains_only else random_binary_tree(64, 9, 1)
    forest = Forest.repeat([cell], 20)
    before = meter["now"]
    solver = Solver(forest, method, queue=fast_queue)
    system = make_system(forest, symmetric=symmetric, rows=rows)
    system.assert_solved(solver.solve(**system.arrays))
    operands = 3 if symmetric else 4
    at_once = min(rows, solver.engine.room.rows_at_once(solver.plan))
    listed = memory.solve_buffers(solver.plan, solver.dtype, operands, at_once)
    assert meter["peak"] - before == memory.total(listed)
    said = solver.memory
    assert memory.total(listed) <= said.device


@pytest.mark.parametrize("method", ["flat", "levels", "contraction"])
@pytest.mark.parametrize(("rows", "symmetric"), [(1, True), (3, False)])
def test_factors_take_what_is_listed(fast_queue, own_memory, meter, method, rows, symmetric):
    forest = Forest.repeat([random_binary_tree(64, 9, 1)], 20)
    before = meter["now"]
    solver = Solver(forest, method, queue=fast_queue)
    system = make_system(forest, symmetric=symmetric, rows=rows)
    arrays = system.arrays
    b = arrays.pop("b")
    factors = solver.factor(**arrays)
    x = factors.solve(b)
    peak = meter["peak"] - before
    del factors
    assert np.allclose(x, solver.solve(**arrays, b=b), rtol=1e-9)
    listed = memory.table_buffers(solver.plan, False)
    listed += memory.scratch_buffers(solver.plan, solver.dtype, 3 if symmetric else 4)
    rows = min(rows, solver.engine.room.rows_at_once(solver.plan))
    listed += memory.factor_buffers(solver.plan, solver.dtype, 3 if symmetric else 4, rows)
    assert peak <= memory.total(listed) <= solver.memory.device


def test_a_batch_that_does_not_fit_is_refused_with_the_way_out(fast_queue, monkeypatch):
    forest = Forest.repeat([random_binary_tree(64, 9, 1)], 20)
    whole = Solver(forest, "flat", queue=fast_queue)
    offered = whole.engine.room.needed(whole.plan) - 1
    monkeypatch.setattr(tune, "_USABLE", offered / fast_queue.device.global_mem_size)
    words = (
        r"20 cells with 1280 nodes need \S+ KiB, in .*solve fewer cells at once \(Forest.subset\)"
    )
    for options in ({"method": "flat"}, {"tune": "measure"}):
        with pytest.raises(DeviceMemoryError, match=words):
            Solver(forest, queue=fast_queue, **options)
    halves = [
        Solver(forest.subset(k), "flat", queue=fast_queue) for k in (range(10), range(10, 20))
    ]
    system = make_system(forest)
    nodes = [slice(640), slice(640, 1280)]
    x = [s.solve(system.d[k], system.u[k], system.b[k]) for s, k in zip(halves, nodes, strict=True)]
    assert np.array_equal(np.concatenate(x), whole.solve(**system.arrays))
