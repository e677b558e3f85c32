"""The memory that a batch is said to need is what it takes: counted over all device arrays."""

import weakref
from collections import Counter

import numpy as np
import pyopencl.array as cla
import pytest
from systems import make_system

from clhines import Forest, Solver
from clhines.cells.shapes import chain, random_binary_tree
from clhines.device import copies


@pytest.fixture
def meter(monkeypatch):
    """Bytes of device arrays that live now, and the most that ever did."""
    counts = {"now": 0, "peak": 0}
    views = Counter()  # of each buffer
    make = cla.Array.__init__

    def made(self, *args, **kwargs):
        make(self, *args, **kwargs)
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


@pytest.mark.parametrize("method", ["flat", "levels", "dhs"])
def test_what_is_kept_between_solves_stays_within_what_is_said(fast_queue, method):
    """Several numbers of right-hand sides in turn, which take room of several sizes."""
    forest = Forest.repeated([random_binary_tree(512, 50, 1)], 100)
    solver = Solver(forest, method, queue=fast_queue)
    if solver.engine.transfer.pool is None:
        pytest.skip("no CPU")
    for rows in (1, 2, 3, 4, 5, 9, 5):
        system = make_system(forest, symmetric=False, rows=rows)
        for _ in range(2):
            system.assert_solved(solver.solve(**system.arrays))
            assert (
                solver.engine.transfer.pool.managed_bytes + tables_of(solver)
                <= solver.memory[0].device
            )


@pytest.mark.parametrize("method", ["flat", "dhs"])
def test_slices_one_by_one_keep_nothing(fast_queue, method):
    """Cells of different sizes that fit only alone."""
    forest = Forest.from_cells([chain(n) for n in range(20_000, 32_000, 1000)])
    limit = Solver(Forest(chain(31_000)), method, queue=fast_queue).plan.bytes_needed(8, 8) + 1000
    solver = Solver(forest, method, queue=fast_queue, max_memory=limit)
    assert solver.num_slices == forest.num_cells
    assert not solver.engine.several_fit
    system = make_system(forest)
    system.assert_solved(solver.solve(**system.arrays))
    if solver.engine.transfer.pool is not None:
        assert solver.engine.transfer.pool.managed_bytes == 0


@pytest.mark.parametrize("method", ["flat", "fine", "contraction"])
@pytest.mark.parametrize(("rows", "symmetric"), [(1, True), (4, False), (9, True)])
def test_slices_stay_within_the_memory_asked_for(fast_queue, meter, method, rows, symmetric):
    forest = Forest.repeated([random_binary_tree(512, 50, 1)], 200)
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
    forest = Forest.repeated([random_binary_tree(512, 50, 1)], 200)
    solver = Solver(forest, method, queue=fast_queue)
    (said,) = solver.memory
    x = solver.solve(**make_system(forest, symmetric=symmetric, rows=rows).arrays)
    assert said.device / 4 < meter["peak"] <= said.device
    assert said.slices == 1
    assert np.isfinite(x).all()
