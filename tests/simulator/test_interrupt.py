"""After Ctrl-C during a run no result is lost, and the run can continue."""

import os
import signal
import threading

import numpy as np
import pytest
from networks import DT, mixed_network
from rank_program import interrupt_in_chunk, interrupted, ions_network

from clhines import ClhinesError, InputError, Network, Simulation
from clhines.core.errors import RunInterrupt
from clhines.simulator.analysis import Features

ENGINES, CHUNK, STEPS = ("reference", "steps", "epochs"), 40, 150
BUILDS = mixed_network, ions_network


@pytest.fixture(autouse=True)
def default_handler():
    """Restore Python's handler: a runner of tests may ignore the signal, as xdist's workers do."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def simulation(build, queue, engine, **record):
    net, syn = build()
    sim = Simulation(net, DT, queue=queue, engine=engine, chunk=CHUNK, seed=3)
    sim.record("v", net.soma)
    sim.record("g", syn, every=3 * DT, **record)
    return sim


def joined(first, second):
    spikes = [
        np.append(getattr(first, n), getattr(second, n)) for n in ("spike_time", "spike_cell")
    ]
    return *spikes, *(
        np.concatenate(pair) for pair in zip(first.values, second.values, strict=True)
    )


def check_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_goes_on_after_ctrl_c(double_queue, tmp_path, engine, build):
    """The interrupted run keeps its results and time, and running on completes it."""
    whole = simulation(build, double_queue, engine)
    expected = whole.run(STEPS * DT)
    assert len(expected.spike_time)
    sim = simulation(build, double_queue, engine)
    interrupt_in_chunk(sim, 2)
    with pytest.raises(KeyboardInterrupt, match=r"interrupted at t = \d.* of 3.75") as raised:
        sim.run(STEPS * DT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    step, result = sim.step, raised.value.result
    assert 0 < step < STEPS and step % sim.chunk == 0 and len(result.t) == 1 + step
    sim.save(tmp_path / "state.npz")
    rest = sim.run((STEPS - step) * DT)
    check_same(joined(result, rest), joined_whole(expected))
    np.testing.assert_array_equal(sim.voltages(), whole.voltages())
    again = simulation(build, double_queue, engine)
    again.restore(tmp_path / "state.npz")
    check_same(joined(result, again.run((STEPS - step) * DT)), joined_whole(expected))


def joined_whole(result):
    return result.spike_time, result.spike_cell, *result.values


def test_ctrl_c_from_outside(double_queue):
    net = Network.from_arrays([-1, 0, 1], [0, 3], [10.0] * 3, [0.01] * 3, [1e-4] * 3)
    net.insert("hh")
    sim = Simulation(net, DT, queue=double_queue, chunk=256)
    sim.run(DT)  # compiles kernels
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(RunInterrupt) as raised:
        sim.run(1e6)
    assert raised.value.result.t[-1] == sim.t < 1e6
    assert not isinstance(raised.value, Exception | ClhinesError)
    sim.run(DT)


def compartment():
    """Return a simulation of a node, in chunks of one step."""
    net = Network.from_arrays([-1], [0, 1], [10.0], [0.0], [1e-4])
    net.insert("pas")
    return Simulation(net, DT, engine="reference", chunk=1)


def test_a_second_ctrl_c_acts_at_once():
    sim = compartment()
    sim.record("v", [0])
    interrupt_in_chunk(sim, 3, times=2)
    with pytest.raises(RunInterrupt, match="^a run ended within a chunk, by KeyboardInt.*$") as end:
        sim.run(4 * sim.chunk * DT)
    assert len(end.value.result[0]) == 2 * sim.chunk + 1  # and the row at t = 0
    with pytest.raises(InputError, match="by KeyboardInterrupt; reset.., or restore.. an earlier"):
        sim.run(1.0)
    sim.reset()
    assert len(sim.run(1.0)[0]) == 41


@pytest.mark.core
def test_features_of_a_part_of_a_run_are_of_none():
    sim = compartment()
    sim.record("v", [0], reduce=Features(["voltage_base"], stim_start=0.5, stim_end=20.0))
    most = sim.record("v", [0], reduce="max")
    mean, rows = sim.record("v", [0], reduce="mean"), sim.record("v", [0])
    interrupt_in_chunk(sim, 2)
    with pytest.raises(RunInterrupt) as end:
        sim.run(4 * sim.chunk * DT)
    result, steps = end.value.result, 2 * sim.chunk
    assert np.isnan(result.features[0]["voltage_base"]).all()
    assert result[most] == result[rows][1:].max() and len(result[rows]) == steps + 1
    np.testing.assert_allclose(result[mean], result[rows][1:].mean(), rtol=steps * 2.0**-53)


def test_every_error_has_the_result_so_far():
    sim = compartment()
    sim.record("v", [0])

    def fail():
        raise ValueError("lost")

    interrupt_in_chunk(sim, 2, do=fail)
    with pytest.raises(ValueError, match="lost") as end:
        sim.run(4 * sim.chunk * DT)
    assert len(end.value.result[0]) == sim.chunk + 1


def test_one_process_as_ranks():
    """The same check with two ranks is in `test_ranks`."""
    assert 0 < interrupted(None)["step"] <= 300


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_while_new_values_need_another_run(double_queue, monkeypatch, presses):
    """The state is kept; after a second Ctrl-C the next run is refused, as without a state."""

    def steps(sim, clamp, middle):
        sim.run(20 * DT)
        sim.set(clamp, amp=[0.3, 0.1])  # one number before: the run is made again
        middle(sim)
        return sim.run(20 * DT)

    def simulated(middle):
        net = Network.from_arrays([-1, -1], [0, 1, 2], [500.0] * 2, [0.0] * 2, [5e-3] * 2)
        net.insert("hh")
        clamp = net.add("iclamp", at=[0, 1], dur=9.0, amp=0.2)
        sim = Simulation(net, DT, queue=double_queue, engine="epochs")
        sim.record("v", "all")
        return steps(sim, clamp, middle)

    def interrupt(sim):
        load = type(sim._runner).load

        def interrupted_load(self, saved, unit):
            for _ in range(presses):
                signal.raise_signal(signal.SIGINT)
            load(self, saved, unit)

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(type(sim._runner), "load", interrupted_load)
            sim.run(DT)
        assert sim.step == 20

    expected = simulated(lambda _: None)
    if presses == 1:
        check_same(simulated(interrupt).values, expected.values)
    else:
        with pytest.raises(InputError, match=r"by Ctrl-C; reset\(\), or restore"):
            simulated(interrupt)
