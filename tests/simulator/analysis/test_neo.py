"""Results as a segment of Neo."""

import numpy as np
import pytest

from clhines import InputError


def test_neo(simulated):
    neo = pytest.importorskip("neo")
    import clhines.simulator.analysis.neo as adapter

    net, v, result, sim = simulated
    segment = adapter.segment(result, net.num_cells, units={v: "mV"})
    assert isinstance(segment, neo.Segment)
    assert [train.annotations["cell"] for train in segment.spiketrains] == [0, 1, 2, 3, 4]
    for cell, train in enumerate(segment.spiketrains):
        mine = result.spike_time[result.spike_cell == cell]
        np.testing.assert_array_equal(train.rescale("ms").magnitude, mine)
        assert float(train.t_stop.rescale("ms")) == result.t[-1]
    (signal,) = segment.analogsignals
    np.testing.assert_array_equal(signal.rescale("mV").magnitude, result[v])
    np.testing.assert_allclose(signal.times.rescale("ms").magnitude, result.t, rtol=0, atol=1e-11)
    assert len(adapter.segment(result, net.num_cells).analogsignals) == 0
    later = sim.run(5.0)  # its times begin where the first run ended
    again = adapter.segment(later, net.num_cells, units={v: "mV"})
    times = again.analogsignals[0].times.rescale("ms").magnitude
    np.testing.assert_allclose(times, later.t, rtol=0, atol=1e-11)
    for unit in ("mVV", "mV.__class__", "__import__('os')", "mV**9999", 5):
        with pytest.raises(InputError, match="units is"):
            adapter.segment(result, net.num_cells, units={v: unit})
    adapter.segment(result, net.num_cells, units={v: "mA/cm**2"})
    with pytest.raises(InputError, match="num_cells is 1; expected more than"):
        adapter.segment(result, 1)
    with pytest.raises(InputError, match="record is 7"):
        adapter.segment(result, 5, units={7: "mV"})
