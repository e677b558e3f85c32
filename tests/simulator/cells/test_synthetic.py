"""Files of sample cells."""

import numpy as np
import pytest
from trees import assert_is_ordered_tree, num_children

from clhines import Network, Simulation, discretise, read_swc
from clhines.simulator.cells.synthetic import sample_cells, sample_swc


def test_sample_cells():
    cells = sample_cells()
    assert len(cells) == 6
    for cell in cells:
        assert_is_ordered_tree(cell.parent)
        assert cell.type.tolist() == [1] + [3] * (len(cell.parent) - 1)
        assert 200 <= cell.id.size <= 900
        assert (num_children(cell.parent) > 1).sum() > 5
    assert len({cell.parent.tobytes() for cell in cells}) == 6
    assert len({cell.name for cell in cells}) == 6
    for cell, again in zip(cells, sample_cells(), strict=True):
        assert np.array_equal(cell.xyz, again.xyz)
        assert np.array_equal(cell.parent, again.parent)


@pytest.mark.parametrize("path", sample_swc(), ids=lambda path: path.stem)
def test_sample_files(path):
    """Each cell has the documented number of samples, and fires while a current flows."""
    cell = read_swc(path)
    assert f"{len(cell.parent)} samples" in " ".join(sample_swc.__doc__.split())

    cable = discretise(cell)
    for amp in (0.2, 1.0):
        net = Network(cable)
        net.insert("hh", at="soma", gnabar=0.5, gkbar=0.1)
        net.insert("pas", at="dendrites", g=1e-4, e=-65.0)
        net.add("iclamp", at=net.soma, delay=5.0, dur=100.0, amp=amp)
        net.threshold = -20.0
        times = Simulation(net, dt=0.025).run(120.0).spike_time
        gaps = np.diff(times)
        assert len(times) > 3 and times[-1] < 110.0  # not after the current
        assert 105.0 - times[-1] < gaps[-1] + 5.0 and gaps.min() > 2.0
