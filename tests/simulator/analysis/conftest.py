"""A result and a population that tests of several adapters read."""

import numpy as np
import pytest
from populations import two_currents

import clhines


@pytest.fixture(scope="module")
def simulated():
    """A ring of five cells that fires, with voltages and a state recorded; run by the reference."""
    cables = clhines.ring.ring_cables(2)
    net = clhines.ring.ring_network(cables, 5)
    sim = clhines.Simulation(net, dt=0.025, engine="reference")
    v = sim.record("v", net.soma)
    result = sim.run(20.0)
    assert len(result.spike_time) > 2
    return net, v, result, sim


@pytest.fixture(scope="module")
def population(fast_queue, needs):
    needs(fast_queue, np.float64)
    return clhines.Population(*two_currents(), queue=fast_queue)
