"""Parts and copies of arrays on a device, and several reads with one wait."""

import numpy as np
import pyopencl.array as cla
import pytest

from clhines.simulator.device import reads
from clhines.solver.device import copies
from clhines.solver.device.arrays import within_reach


@pytest.fixture(params=[True, False], ids=["in shared memory", "apart"])
def kept(request, fast_queue, monkeypatch):
    if not request.param:
        monkeypatch.setattr(copies, "fine_grained", lambda _: False)
    return within_reach(fast_queue, (6,), np.dtype(np.int32))


def test_a_part_is_a_view(kept, fast_queue):
    part = reads.part_of(kept, 2, 4)
    part.fill(7)
    assert kept.get().tolist() == [0, 0, 7, 7, 0, 0]
    copy = reads.copied(kept, fast_queue)
    part.fill(9)
    assert copy.get().tolist() == [0, 0, 7, 7, 0, 0]
    reads.copy_onto(kept, copy, fast_queue)
    assert kept.get().tolist() == [0, 0, 7, 7, 0, 0]


def test_values_of_several_arrays_come_at_once(kept, fast_queue):
    kept.fill(3)
    other = cla.to_device(fast_queue, np.arange(5.0))
    values = reads.read_parts([(kept, 1, 3), (other, 2, 5), (other, 0, 0)], fast_queue)
    assert [a.tolist() for a in values] == [[3, 3], [2.0, 3.0, 4.0], []]
    several = reads.Reads(fast_queue)
    zeros = several.zeros("count", (2,), np.int32)
    several.wait([kept, zeros, other])
    other.fill(8.0)
    assert several.get(kept).tolist() == [3] * 6
    assert several.get(zeros).tolist() == [0, 0]
    assert several.get(other).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    several.wait([kept, zeros, other])  # as prepared
    assert several.get(other).tolist() == [8.0] * 5
    several.wait([zeros])
    kept.fill(4)
    assert several.get(kept).tolist() == [4] * 6  # of which there is no copy
