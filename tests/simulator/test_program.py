"""Simulations build only kernels of this package."""

import networks
import pytest
from foreign_kernels import refuse_foreign_kernels

from clhines import Simulation


@pytest.mark.parametrize("engine", ["steps", "epochs"])
def test_simulations_need_no_kernels_of_pyopencl(double_queue, monkeypatch, engine):
    refuse_foreign_kernels(monkeypatch)
    net, _ = networks.mixed_network()
    sim = Simulation(net, 0.025, queue=double_queue, engine=engine)
    sim.record("v", net.soma, reduce="max")
    sim.record("v", net.soma, reduce="crossings", threshold=0.0)
    sim.run(2.0)
    sim.reset()
    sim.run(1.0)
