"""Sources of events: detectors and trains, in whole steps and at exact times."""

import functools

import mod_files
import networks
import numpy as np
import pytest

import clhines
from clhines import STDP, InputError, Network, Simulation
from clhines.simulator.model import compile
from clhines.simulator.network.groups import inside
from clhines.simulator.network.times import LAST_STEP
from clhines.simulator.state import sources
from clhines.simulator.state.sources import MOST_STEPS, steps_between, wires_of
from clhines.solver.device import devices


@pytest.mark.parametrize("dt", [0.025, 0.1])
def test_trains_act_in_the_steps_of_their_exact_times(double_queue, dt):
    """Events of trains, summed by step, act in the same steps as events at exact times."""
    results = []
    for exact, engine in ((False, "auto"), (False, "reference"), (True, "reference")):
        rng = np.random.default_rng(7)
        net = Network(clhines.discretise(clhines.sample_cells()[0], max_length=80))
        net.insert("hh")
        synapses = net.add("expsyn", at=[0, 1, 2], tau=2.0, e=0.0)
        times = [rng.uniform(0, 20, 8), np.arange(8) * 37.5 * dt, [0.0, 3.0, 3.0]]
        net.connect(0, synapses, index=2, weight=-0.001, delay=1.3)
        net.connect(
            net.spike_source(times), synapses, weight=[0.05, 0.03, 0.02], delay=[0.0, 1.0, 0.4]
        )
        inside(net).added.exact = exact
        sim = Simulation(net, dt, queue=double_queue, engine=engine)
        v = sim.record("v", [0, 5])
        result = sim.run(20.0)
        results.append((result[v], result.spike_time))
        assert sim.model.exact == exact
        assert sim.weights().tolist() == [-0.001, 0.05, 0.03, 0.02]
    *ours, (v, spikes) = results
    assert len(spikes)
    for rows, own_spikes in ours:
        assert np.abs(rows - v).max() < 1e-11  # another unknown of the solve
        np.testing.assert_allclose(own_spikes, spikes, rtol=0, atol=1e-9)


def far(delay, exact=True):
    """Return a cell that fires all the time, with a near and a far synapse."""
    net = Network(clhines.discretise(clhines.sample_cells()[0], max_length=80))
    net.insert("hh")
    net.add("iclamp", at=net.soma, delay=0.0, dur=1e9, amp=1.5)
    synapses = net.add("expsyn", at=[1, 2], tau=2.0, e=0.0)
    net.connect(0, synapses, index=[0, 1], weight=0.001, delay=[1.3, delay])
    inside(net).added.exact = exact
    return net


@pytest.mark.parametrize("engine", ["auto", "steps", "reference"])
def test_a_delay_beyond_all_runs_takes_no_memory(double_queue, engine):
    """An event beyond all runs never comes (hnn-core's delays grow exponentially with distance)."""
    options = {"queue": double_queue, "engine": engine}
    results = []
    for delay in (6.6e7, 61.0):  # 2.6e9 steps; just after the end
        sim = Simulation(far(delay), 0.025, **options)
        v = sim.record("v", [0, 2])
        assert wires_of(sim.model).ring.size < 3 * MOST_STEPS
        result = sim.run(60.0)
        results.append((result[v], result.spike_time))
    assert len(results[0][1]) > 1
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.filterwarnings("error")
def test_a_delay_may_be_any_number():
    """Even a delay whose number of steps overflows limits no launch of steps."""
    model = compile(far(float(np.finfo(np.float64).max)), 0.025)
    assert wires_of(model).ring.size < 3 * MOST_STEPS
    limits = [steps_between(model, np.array(chosen)) for chosen in ([False, True], [True, True])]
    assert limits == [LAST_STEP, round(1.3 / 0.025)]


@pytest.mark.parametrize("engine", ["auto", "steps", "reference"])
def test_more_events_than_a_ring_has_room_for_are_an_error(double_queue, engine, monkeypatch):
    """The error comes even if the last step sends the surplus event and no target reads it."""
    options = {"queue": double_queue, "engine": engine}
    times = Simulation(far(200.0), 0.025, **options).run(199.0).spike_time
    monkeypatch.setattr(sources, "MOST_STEPS", 0)
    room = int(sources.ring_sizes(compile(far(200.0), 0.025)).max())
    assert times[room] + 1.0 < 200.0  # before the first event comes
    sim = Simulation(far(200.0), 0.025, **options)
    assert len(sim.run(times[room - 1] + 0.1).spike_time) == room
    with pytest.raises(InputError, match="more events within its longest delay than there is"):
        sim.run(times[room] - sim.t)


BESIDE = ("nothing", "detector", "ions", "artificial", "exact")


def plastic(beside):
    """Return four cells with plastic connections, and the objects that `beside` names."""
    rng = np.random.default_rng(3)
    net = Network([clhines.discretise(clhines.sample_cells()[0], max_length=80)], num_cells=4)
    net.insert("hh")
    synapses = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    cells = np.tile(np.arange(4), 3)
    net.add_event(
        synapses, cells, 1.0 + np.repeat(7 * np.arange(3), 4) + rng.uniform(0, 4, 12), 0.05
    )
    rule = STDP(0.002, 0.0015, w_max=0.1)
    weights, delays = [0.01, 0.02, 0.03, 0.02, 0.015, 0.01], [1.0, 1.5, 2.0, 1.1, 3.0, 0.7]
    net.connect([0, 1, 2, 3, 0, 1], synapses, [1, 2, 3, 0, 2, 3], weights, delays, rule)
    if beside == "detector":
        net.connect(net.add_detector([5, 40], -20.0), synapses, [0, 3], 0.01, 2.0)
    if beside == "ions":
        for name in ("ext_cad", "ext_ca", "ext_kca"):
            net.insert(mod_files.ours(name), net.soma)
    if beside == "artificial":
        fire = net.add_artificial(mod_files.ours("ext_fire"), 2)
        net.connect([0, 1], fire, [0, 1], 1.5, 0.6)
        net.connect(fire, synapses, [3, 2], 0.02, 0.45)
    inside(net).added.exact = beside == "exact"
    return net


def ran(beside, **options):
    sim = Simulation(plastic(beside), **options)
    v = sim.record("v", [0, 30])
    first = sim.run(12.0)
    between = sim.arrays()
    second = sim.run(8.0)
    spikes = np.concatenate([first.spike_time, second.spike_time])
    later = Simulation(plastic(beside), **options)
    networks.go_on(later, 480, between)
    np.testing.assert_array_equal(later.run(8.0).spike_time, second.spike_time)
    np.testing.assert_array_equal(later.voltages(), sim.voltages())
    return second[v], spikes, sim.weights(), sim.engine


@functools.cache
def by_the_reference(beside):
    return ran(beside, engine="reference")


@pytest.mark.parametrize("engine", ["auto", "steps", "epochs-gpu"])
@pytest.mark.parametrize("beside", BESIDE)
def test_plastic_connections_beside_anything(double_queue, beside, engine):
    if engine == "epochs-gpu" and beside == "artificial":
        pytest.skip("that engine takes no artificial cells")
    v, spikes, weights, _ = by_the_reference(beside)
    assert len(spikes) >= 8
    result, same, changed, _ = ran(beside, queue=double_queue, engine=engine)
    np.testing.assert_allclose(same, spikes, rtol=0, atol=1e-9)
    assert np.abs(result - v).max() < 1e-10  # after 800 steps
    assert np.abs(changed - weights).max() < 1e-15
    assert np.abs(weights[:6] - [0.01, 0.02, 0.03, 0.02, 0.015, 0.01]).max() > 1e-3


def test_what_cannot_be_plastic_is_refused():
    net = plastic("nothing")
    fire = net.add_artificial(mod_files.ours("ext_fire"), 1)
    synapses, rule = net.groups[1], STDP(0.002, 0.0015, w_max=0.1)
    with pytest.raises(InputError, match="expsyn is not plastic, as its source is an instance"):
        net.connect(fire, synapses, 0, 0.01, 1.0, rule)
        compile(net)
    net = plastic("ions")
    with pytest.raises(InputError, match="comes from a train of given times, and is not plastic"):
        net.connect(net.spike_source([[1.0]]), net.groups[1], 0, 0.01, 1.0, rule)
        compile(net)
    net = plastic("detector")
    net.connect(net.add_detector([3], -20.0), net.groups[1], 0, 0.01, 0.01, rule)
    with pytest.raises(
        InputError, match="expsyn is not plastic, as a delay is shorter than a step"
    ):
        compile(net)


def with_all_sources(beside):
    """Return connections of trains, cells, detectors and artificial cells, in this order."""
    net = Network([clhines.discretise(clhines.sample_cells()[0], max_length=80)], num_cells=3)
    net.insert("hh")
    synapses = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    net.connect(net.spike_source([[1.0, 9.0], [4.0]]), synapses, [0, 1], [0.05, 0.04], [0.3, 0.0])
    net.connect([0, 1], synapses, [1, 2], [0.02, 0.03], 1.0)
    net.connect(net.add_detector([5, 40], -20.0), synapses, [0, 2], [0.01, 0.015], [2.0, 1.0])
    if beside == "ions":
        for name in ("ext_cad", "ext_ca", "ext_kca"):
            net.insert(mod_files.ours(name), net.soma)
        fire = net.add_artificial(mod_files.ours("ext_fire"), 1)
        net.connect([0], fire, 0, 1.5, 0.6)
        net.connect(fire, synapses, 2, 0.02, 0.45)
    return net


@pytest.mark.parametrize("beside", ["nothing", "ions"])
def test_weights_keep_their_order_and_can_be_set(double_queue, beside):
    results = []
    for engine in ("reference", "steps", "auto"):
        net = with_all_sources(beside)
        net.add_event(net.groups[1], 0, 20.0, 0.05)
        sim = Simulation(net, queue=double_queue, engine=engine)
        v = sim.record("v", [0, 30])
        sim.run(5.0)
        weights = sim.weights()
        assert weights[:6].tolist() == [0.05, 0.04, 0.02, 0.03, 0.01, 0.015]
        sim.set(weight=weights * np.linspace(0.5, 1.5, len(weights)))
        np.testing.assert_array_equal(sim.weights(), weights * np.linspace(0.5, 1.5, len(weights)))
        first = sim.run(8.0)
        second = sim.run(12.0)
        last = sim.run(3.0)
        spikes = np.concatenate([first.spike_time, second.spike_time])
        results.append((np.concatenate([first[v], second[v], last[v]]), spikes))
    assert len(spikes) >= 5
    for other, times in results[1:]:
        assert np.abs(other - results[0][0]).max() < 1e-11
        np.testing.assert_allclose(times, results[0][1], rtol=0, atol=1e-9)


REFRACTORY = [0.0, 0.5, 0.5, 2.0, 0.1, 0.3]  # ms


def noisy_detectors(exact):
    """Return two cells that noise drives across the thresholds of detectors again and again."""
    net = Network([clhines.discretise(clhines.sample_cells()[0], max_length=80)], num_cells=2)
    net.insert("pas", g=1e-4, e=-65.0)
    at = [0, 0, net.soma[1], 30, 0, 0]
    net.add("inoise", at=[0, net.soma[1]], std=0.3)
    synapses = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    detectors = net.add_detector(at, [-65.0, -65.0, -65.0, -65.0, -64.0, -100.0], REFRACTORY)
    net.connect(detectors, synapses, [1, 0, 0, 1, 0, 1], 1e-4, 1.0)
    inside(net).added.exact = exact
    return net, detectors, np.array(at)


@pytest.mark.parametrize("exact", [False, True])
def test_a_detector_is_silent_in_its_refractory_time(double_queue, tmp_path, exact):
    """Compare with detection in the recorded voltages, on all engines, and after a restore."""
    dt, steps, saved = 0.025, 800, 333
    net, detectors, at = noisy_detectors(exact)
    sources, results = net.source_numbers(detectors), []
    of_cpus = ["epochs-cpu"] if devices.is_cpu(double_queue.device) else []
    for engine in ("reference", "steps", *of_cpus, "epochs-gpu"):
        sim = Simulation(net, dt, queue=double_queue, engine=engine)
        assert sim.model.exact == exact
        v = sim.record("v", at)
        first = sim.run(saved * dt)
        held = sim.arrays()["held"][-6:]
        sim.save(tmp_path / "state.npz")
        second = sim.run((steps - saved) * dt)
        sim = Simulation(net, dt, queue=double_queue, engine=engine)
        sim.restore(tmp_path / "state.npz")
        again = sim.run((steps - saved) * dt)
        np.testing.assert_array_equal(again.spike_time, second.spike_time)
        np.testing.assert_array_equal(again.spike_cell, second.spike_cell)
        voltage = np.concatenate([first[v], second[v]])
        spikes = [
            np.concatenate([getattr(r, name) for r in (first, second)])
            for name in ("spike_cell", "spike_time")
        ]
        for k, source in enumerate(sources):
            above = voltage[:, k] > detectors.threshold[k]
            expected = [0] if above[0] else []
            for step in np.flatnonzero(above[1:] & ~above[:-1]) + 1:
                if not expected or step - expected[-1] >= round(REFRACTORY[k] / dt):
                    expected.append(step)
            times = spikes[1][spikes[0] == source]
            np.testing.assert_array_equal(np.rint(times / dt), expected)
        assert (held[:4] > 1).any()
        results.append((voltage, *spikes, held))
    for own in results[1:]:
        np.testing.assert_allclose(results[0][0], own[0], rtol=0, atol=1e-10)
        for ours, theirs in zip(results[0][1:], own[1:], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
    counts = np.bincount(results[0][1])[sources]
    assert counts[0] > 1.5 * counts[1] > 3 * counts[3] > 3 and counts[5] == 1
