"""Features of results by eFEL itself."""

import numpy as np
import pytest

import clhines


@pytest.mark.filterwarnings("ignore")  # eFEL's own, of features that a trace does not have
def test_efel(simulated):
    """What eFEL says of simulated voltages is what `clhines.simulator.analysis` says."""
    efel = pytest.importorskip("efel")
    import clhines.simulator.analysis.efel as adapter

    _, v, result, _ = simulated
    efel.reset()
    efel.set_setting("interp_step", 0.025)
    names = ["spike_count", "peak_voltage", "minimum_voltage", "AP_amplitude"]
    given = {"stim_start": 1.0, "stim_end": 20.0}
    found = adapter.features(result[v].T, result.t, names, **given)
    ours = clhines.analysis.extract(result[v].T, result.t, names[:3], **given)
    assert [int(one["spike_count"][0]) for one in found] == ours["spike_count"].tolist()
    for k, one in enumerate(found):
        if one["spike_count"][0]:
            np.testing.assert_allclose(ours["peak_voltage"][k], one["peak_voltage"], rtol=1e-9)
            assert 20 < one["AP_amplitude"][0] < 150  # mV; one that only eFEL has
        lowest = one["minimum_voltage"][0]
        np.testing.assert_allclose(ours["minimum_voltage"][k], lowest, rtol=1e-9)
    efel.reset()
