"""Sources of events: detectors and trains, in whole steps and at exact times."""

import numpy as np
import pytest

import clhines
from clhines import Network, Simulation


@pytest.mark.parametrize("dt", [0.025, 0.1])
def test_trains_act_in_the_steps_of_their_exact_times(fast_queue, needs, dt):
    """Events of trains are summed by step; at exact times the same events act in the same steps."""
    needs(fast_queue, np.float64)
    found = []
    for exact, engine in ((False, "auto"), (False, "reference"), (True, "reference")):
        rng = np.random.default_rng(7)
        net = Network(clhines.discretise(clhines.sample_cells()[0], max_length=80))
        net.insert("hh")
        synapses = net.add("expsyn", at=[0, 1, 2], tau=2.0, e=0.0)
        times = [rng.uniform(0, 20, 8), np.arange(8) * 37.5 * dt, [0.0, 3.0, 3.0]]
        net.connect(0, synapses, index=2, weight=-0.001, delay=1.3)
        net.connect(net.trains(times), synapses, weight=[0.05, 0.03, 0.02], delay=[0.0, 1.0, 0.4])
        net.added.exact = exact
        sim = Simulation(
            net, dt, queue=None if engine == "reference" else fast_queue, engine=engine
        )
        v = sim.record("v", [0, 5])
        result = sim.run(20.0)
        found.append((result[v], result.spike_time))
        assert sim.model.exact == exact
        assert sim.weights().tolist() == [-0.001, 0.05, 0.03, 0.02]
    *ours, (v, spikes) = found
    assert len(spikes)
    for own, own_spikes in ours:
        assert np.abs(own - v).max() < 1e-11  # another unknown of the solve
        np.testing.assert_allclose(own_spikes, spikes, rtol=0, atol=1e-9)
