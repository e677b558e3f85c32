"""The memory that a batch is said to need is what it takes: counted over all device arrays."""

import weakref
from collections import Counter

import numpy as np
import pyopencl.array as cla
import pytest
from systems import make_system

from clhines import Forest, Solver
from clhines.morphology import random_binary_tree


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
    assert f" MiB on the device, in {said.slices} slices" in str(said)
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
