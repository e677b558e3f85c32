"""The memory that a batch is said to need is what it takes: counted over all device arrays."""

import sys
import weakref
from collections import Counter

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from systems import make_system

from bench.made import chain, random_binary_tree
from clhines import Forest, Solver
from clhines.solver.device import copies
from clhines.solver.engines import loaded, memory, sliced
from clhines.solver.plan.methods import METHODS


@pytest.fixture
def meter(monkeypatch):
    """Bytes of device arrays that live now, and the most that ever did."""
    counts = {"now": 0, "peak": 0}
    views = Counter()  # of each buffer
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
    """Bytes of what stays on the device."""
    return sum(a.nbytes for launch in solver.engine.loaded.launches for a in launch.tables.values())


@pytest.mark.parametrize("method", ["flat", "levels"])
def test_what_is_kept_between_solves_stays_within_what_is_said(fast_queue, meter, method):
    """Several numbers of right-hand sides in turn, which take room of several sizes."""
    before = meter["now"]
    forest = Forest.repeat([random_binary_tree(512, 50, 1)], 100)
    solver = Solver(forest, method, queue=fast_queue)
    for rows in (1, 2, 3, 4, 5, 9, 5):
        system = make_system(forest, symmetric=False, rows=rows)
        for _ in range(2):
            system.assert_solved(solver.solve(**system.arrays))
            assert tables_of(solver) < meter["now"] - before <= solver.memory[0].device
    assert meter["peak"] - before <= solver.memory[0].device


@pytest.mark.parametrize("method", ["flat", "levels"])
def test_slices_one_by_one_keep_nothing(fast_queue, meter, method):
    """Cells of different sizes that fit only alone."""
    before = meter["now"]
    forest = Forest.from_parents([chain(n) for n in range(20_000, 32_000, 1000)])
    limit = Solver(Forest(chain(31_000)), method, queue=fast_queue).plan.bytes_needed(8, 8) + 1000
    solver = Solver(forest, method, queue=fast_queue, max_memory=limit)
    assert solver.num_slices == forest.num_cells
    assert not solver.engine.several_fit
    system = make_system(forest)
    system.assert_solved(solver.solve(**system.arrays))
    assert meter["now"] == before
    assert meter["peak"] <= limit


@pytest.mark.parametrize("method", ["flat", "fine", "contraction"])
@pytest.mark.parametrize(("rows", "symmetric"), [(1, True), (4, False), (9, True)])
def test_slices_stay_within_the_memory_asked_for(fast_queue, meter, method, rows, symmetric):
    forest = Forest.repeat([random_binary_tree(512, 50, 1)], 200)
    limit = forest.num_nodes * 8 * 3
    solver = Solver(forest, method, queue=fast_queue, max_memory=limit)
    assert solver.num_slices > 2
    system = make_system(forest, symmetric=symmetric, rows=rows)
    x = solver.solve(**system.arrays)
    assert limit / 3 < meter["peak"] <= limit
    (said,) = solver.memory
    assert meter["peak"] <= said.device <= limit
    assert said.slices == solver.num_slices
    pinned = f", {said.pinned / 2**20:.1f} MiB of pinned host memory" if said.pinned else ""
    assert f" MiB on the device{pinned}, in {said.slices} slices" in str(said)
    assert bool(said.pinned) == copies.helps(fast_queue.device)
    assert np.isfinite(x).all()


@pytest.mark.parametrize("method", ["flat", "fine", "contraction"])
@pytest.mark.parametrize(("rows", "symmetric"), [(4, False)])
def test_a_whole_batch_stays_within_what_was_said(fast_queue, meter, method, rows, symmetric):
    forest = Forest.repeat([random_binary_tree(512, 50, 1)], 200)
    solver = Solver(forest, method, queue=fast_queue)
    (said,) = solver.memory
    x = solver.solve(**make_system(forest, symmetric=symmetric, rows=rows).arrays)
    assert 0 < meter["peak"] <= said.device
    assert said.slices == 1
    assert np.isfinite(x).all()


def takes_nothing_of_the_host(monkeypatch):
    """Let a CPU copy values to buffers of its own, as a GPU does."""
    monkeypatch.setattr(copies, "lends", lambda *_: False)
    monkeypatch.setattr(copies, "shares_memory", lambda _: False)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("rows", "symmetric"), [(1, True), (3, False)])
def test_what_is_listed_is_what_is_taken(fast_queue, monkeypatch, meter, method, rows, symmetric):
    """By every method, to the byte: counted over the arrays that are made."""
    takes_nothing_of_the_host(monkeypatch)
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
    (said,) = solver.memory
    assert memory.total(listed) <= said.device


@pytest.mark.parametrize("method", ["flat", "levels", "contraction"])
@pytest.mark.parametrize(("rows", "symmetric"), [(1, True), (3, False)])
def test_factors_take_what_is_listed(fast_queue, monkeypatch, meter, method, rows, symmetric):
    takes_nothing_of_the_host(monkeypatch)
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
    assert peak <= memory.total(listed) <= solver.memory[0].device


@pytest.mark.parametrize("method", ["flat", "fine", "contraction"])
@pytest.mark.parametrize(("rows", "symmetric"), [(1, True), (4, False)])
def test_a_pipeline_takes_what_is_listed(fast_queue, monkeypatch, meter, method, rows, symmetric):
    """Cells of many shapes: each slice has a plan, and with it tables, of its own."""
    takes_nothing_of_the_host(monkeypatch)
    cells = [random_binary_tree(64, 9, seed) for seed in range(60)]
    forest = Forest.from_parents(cells)
    before = meter["now"]
    solver = Solver(forest, method, queue=fast_queue, max_memory=forest.num_nodes * 8 * 5)
    assert solver.num_slices > 3
    engine = solver.engine
    assert engine.several_fit
    system = make_system(forest, symmetric=symmetric, rows=rows)
    for _ in range(2):
        system.assert_solved(solver.solve(**system.arrays))
    at_once = min(rows, engine.rows_at_once)
    listed = memory.pipeline_bytes(engine.plans, solver.dtype, 3 if symmetric else 4, at_once)
    assert meter["peak"] - before == listed
    assert listed <= solver.memory[0].device <= forest.num_nodes * 8 * 5


def test_stages_that_wait_hold_no_memory_of_another_slice(fast_queue, monkeypatch):
    """One held the status of the slice before, beside those of the slices in all slots."""
    get, held = sliced._Stages._get, []

    def looking(self, channel):
        held.extend(
            name
            for name, value in sys._getframe(1).f_locals.items()
            if isinstance(value, (cla.Array, loaded.Resident))
        )
        return get(self, channel)

    monkeypatch.setattr(sliced._Stages, "_get", looking)
    forest = Forest.from_parents([random_binary_tree(64, 9, seed) for seed in range(60)])
    solver = Solver(forest, "flat", queue=fast_queue, max_memory=forest.num_nodes * 8 * 5)
    assert solver.num_slices > 3
    system = make_system(forest)
    system.assert_solved(solver.solve(**system.arrays))
    assert not held
