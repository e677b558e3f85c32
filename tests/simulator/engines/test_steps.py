"""The engine with a few kernels per step and a solve by any method."""

import mod_files
import numpy as np
import pyopencl as cl
import pytest
from networks import DT, mixed_network, truth
from networks import DT as STEP
from small_networks import with_ions

from clhines import InputError, Network, Simulation
from clhines.solver.device import devices
from clhines.solver.plan.templates import render


def test_steps_where_a_device_has_no_float64(fast_queue, monkeypatch):
    """Without float64, times are float32 and whole steps, and spikes are in the same steps."""
    truth = Simulation(mixed_network()[0], STEP, engine="reference", seed=7)
    expected = truth.run(20.0)
    monkeypatch.setattr(devices, "has_fp64", lambda device: False)
    sim = Simulation(mixed_network()[0], STEP, "float32", queue=fast_queue, engine="steps", seed=7)
    assert "double" not in render(sim.runner.kernels._built[1])
    result = sim.run(20.0)
    assert len(result.spike_time) > 3
    np.testing.assert_array_equal(result.spike_cell, expected.spike_cell)
    np.testing.assert_array_equal(result.spike_time, expected.spike_time)
    # each of 400 steps rounds about ten numbers up to 100 mV, by 2**-24
    np.testing.assert_allclose(sim.voltages(), truth.voltages(), atol=400 * 10 * 100 * 2.0**-24)
    with pytest.raises(InputError, match="has no float64, in which exact times of events are kept"):
        Simulation(with_ions(), DT, "float32", queue=fast_queue, engine="steps")


@pytest.mark.parametrize("method", ["flat", "fine", "contraction"])
def test_steps_with_any_method(double_queue, method):
    _, v = truth(mixed_network)
    sim = Simulation(mixed_network()[0], DT, queue=double_queue, method=method, seed=7)
    assert sim.engine == "steps"
    sim.run(10.0)
    np.testing.assert_allclose(sim.voltages(), v, atol=1e-7)


def test_a_step_is_three_launches(monkeypatch):
    net = Network.from_arrays([-1, 0], [0, 2], [300.0] * 2, [0.0, 2.0], [1e-3] * 2)
    for name in ("ext_cad", "ext_ca"):
        net.insert(mod_files.ours(name), [0, 1])
    net.play(net.add(mod_files.ours("ext_clamp"), at=0), 0, "amp", [0.0, 0.3], [0.5, 2.0])
    nmda = net.add(mod_files.ours("ext_nmda"), at=1)
    net.connect(net.add_detector(0, -80.0), nmda, [0], [[0.004, 1.5]], 0.1)
    sim = Simulation(net, DT, engine="steps")
    sim.record("v", [0, 1])
    sim.record("cai", [0, 1])
    sim.run(DT)
    launched, enqueue = [], cl.enqueue_nd_range_kernel

    def counted(*args, **options):
        launched.append(args[1].function_name)
        return enqueue(*args, **options)

    monkeypatch.setattr(cl, "enqueue_nd_range_kernel", counted)
    sim.run(20 * DT)
    assert launched.count("begin_step") == launched.count("finish_step") == 20
    assert len(launched) <= 3 * 20
