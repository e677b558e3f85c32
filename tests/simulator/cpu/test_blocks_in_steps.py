"""Blocks of cells whose events come in whole steps, against the reference on the host."""

import re
from collections import OrderedDict
from functools import partial

import numpy as np
import pytest
from networks import DT, crowded_lanes, full_rows, mixed_network, point_neurons, truth

from clhines import Drawn, Network, Pairs, Simulation
from clhines.simulator.cpu import blocks, groups
from clhines.simulator.cpu.plan import blocks_of, work_of
from clhines.solver.device import devices, program
from clhines.solver.device.devices import limits

pytestmark = pytest.mark.optimised


@pytest.fixture
def in_blocks(monkeypatch):
    """Return a function that sets the number of blocks, and whether one delivers events."""

    def set_count(count, alone=True):
        monkeypatch.setattr(
            blocks, "plan_blocks", lambda m, w, *_: blocks_of(m, w, work_of(m), count, 1.0)
        )
        monkeypatch.setattr(blocks, "delivers_alone", lambda _: alone)

    return set_count


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("count", [1, 3])
def test_cells_of_three_shapes(cpu, in_blocks, count, dtype):
    in_blocks(count)
    expected, v = truth(mixed_network)
    sim = Simulation(mixed_network()[0], DT, dtype, queue=cpu, engine="epochs-cpu", seed=7)
    assert sim.runner.kernels.blocks.count == count
    result = sim.run(10.0)
    np.testing.assert_array_equal(result.spike_cell, expected.spike_cell)
    np.testing.assert_allclose(sim.voltages(), v, atol=1e-7 if dtype == "float64" else 0.5)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_groups_of_instances_that_lie_anywhere(cpu, dtype):
    net = crowded_lanes()
    reference = Simulation(net, DT, engine="reference")
    expected = reference.run(4.0)
    assert len(expected.spike_time)
    results = []
    for _ in range(2):
        sim = Simulation(net, DT, dtype, queue=cpu, engine="epochs-cpu")
        result = sim.run(4.0)
        np.testing.assert_array_equal(result.spike_cell, expected.spike_cell)
        results.append(sim.voltages())
    np.testing.assert_array_equal(*results)
    # A few roundings per step, in voltages up to 70 mV, which add up.
    bound = 4 * round(4.0 / DT) * np.finfo(dtype).eps * 70
    np.testing.assert_allclose(results[0], reference.voltages(), rtol=0, atol=bound)


def test_groups_of_two_registers_change_no_bit(cpu, monkeypatch):
    """Groups that fill two vector registers use two, with the bits of one."""
    most = limits(cpu.device).vector_bytes // 8
    if 2 * most * 8 > limits(cpu.device).trusted_bytes:
        pytest.skip("the compiler is not trusted with vectors of two registers")
    results, widths = [], []
    for of_many in (8 * most, 0):
        monkeypatch.setattr(groups, "_OF_MANY", of_many)
        sim = Simulation(crowded_lanes(), DT, "float64", queue=cpu, engine="epochs-cpu")
        widths.append({g.width for g in sim.runner.kernels.layout.groups.values()})
        sim.run(0.5)
        results.append(sim.voltages())
    assert max(widths[0]) == 2 * max(widths[1])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("secondorder", [0, 2])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_cells_of_several_shapes_in_one_block_change_no_bit(cpu, in_blocks, dtype, secondorder):
    """Interleave the nodes of a block's cells; each cell's own nodes keep their order."""
    results = []
    for count in (5, 1):
        in_blocks(count, alone=False)
        net = crowded_lanes()
        options = {"queue": cpu, "engine": "epochs-cpu", "secondorder": secondorder}
        sim = Simulation(net, DT, dtype, **options)
        assert sim.runner.kernels.blocks.count == count
        result = sim.run(3.0)
        results.append((sim.voltages(), result.spike_cell, result.spike_time))
    assert len(results[0][1])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def point_network(count=70):
    net = point_neurons(count, refractory=1.0)
    for tau, e, weight in ((5.0, 0.0, 0.01), (10.0, -80.0, 0.03)):
        synapses, delay = net.add("expsyn", at=net.soma, tau=tau, e=e), Drawn.uniform(0.1, 0.8)
        net.connect(np.arange(count), synapses, Pairs.bernoulli(0.2), weight=weight, delay=delay)
        net.add_event(synapses, np.arange(9), time=np.arange(9) * 0.7, weight=0.05)
    net.connect(net.add_detector(net.soma[:3], -52.0), synapses, Pairs.all_to_all(), weight=0.002)
    return net


def irregular_points():
    """Return points with mechanisms on all, some and few, twice on one, and in another order."""
    net, rng = point_network(), np.random.default_rng(3)
    net.add("iclamp", net.soma[[3, 40]], delay=1.0, dur=30.0, amp=0.05)
    net.insert("hh", at=np.arange(70) % 2 == 0, gnabar=rng.uniform(0.0, 1e-4, 35))
    order = rng.permutation(140) % 70
    synapses = net.add("expsyn", net.soma[order], tau=rng.uniform(1, 3, 140), e=0.0)
    net.connect(np.arange(70), synapses, np.arange(70) * 2, weight=0.02, delay=0.3)
    net.add("inoise", net.soma, std=0.02)
    return net, synapses


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("alone", [False, True])
def test_points_with_kinds_on_some(cpu, in_blocks, alone, dtype):
    """Spikes equal the reference's, by one core that delivers events and by two blocks."""
    (net, synapses), v_init = irregular_points(), np.random.default_rng(0).uniform(-60, -50, 70)
    options = {"v_init": v_init, "seed": 7, "chunk": 37}
    slow = Simulation(net, 0.1, engine="reference", **options)
    kept = slow.record("v", net.soma), slow.record("g", synapses)
    expected = slow.run(20.0)
    in_blocks(1 if alone else 2)
    sim = Simulation(net, 0.1, dtype, queue=cpu, engine="epochs-cpu", **options)
    assert sim.runner.kernels.alone == alone
    assert kept == (sim.record("v", net.soma), sim.record("g", synapses))
    result = sim.run(20.0)
    assert len(expected.spike_time) > 20
    np.testing.assert_array_equal(result.spike_cell, expected.spike_cell)
    np.testing.assert_array_equal(result.spike_time, expected.spike_time)
    # As many roundings, in voltages up to 80 mV, in each of 200 steps; spikes amplify nothing.
    bound = 8 * 200 * np.finfo(dtype).eps
    for number, largest in zip(kept, (80.0, np.abs(expected[kept[1]]).max())):
        np.testing.assert_allclose(result[number], expected[number], 0, bound * largest)


@pytest.mark.parametrize("engine", ["auto", "reference", "steps"])
def test_weights_of_zero_may_be_set_later(double_queue, engine):
    results = {}
    for first in (0.0, 0.03):
        net = Network.from_arrays([-1] * 2, [0, 1, 2], [1000.0] * 2, [0.0] * 2, [0.01] * 2)
        net.insert("hh")
        net.add("iclamp", at=[0], amp=0.5, dur=50.0)
        net.connect(0, net.add("expsyn", at=net.soma), [0, 1], first, [1.0, 1.5])
        sim = Simulation(net, DT, engine=engine, queue=double_queue)
        v = sim.record("v", [0, 1])
        for weight in (first, 0.03, 0.0):
            sim.set(weight=[0.0, weight])
            sim.reset()
            results[first, weight] = sim.run(10.0)[v]
    np.testing.assert_array_equal(results[0.0, 0.03], results[0.03, 0.03])
    np.testing.assert_array_equal(results[0.0, 0.0], results[0.03, 0.0])
    assert np.abs(results[0.0, 0.03] - results[0.0, 0.0]).max() > 1.0


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("make", [point_network, full_rows, partial(full_rows, 13), crowded_lanes])
def test_one_core_alone_changes_no_bit(cpu, in_blocks, make, dtype):
    """One core delivers spikes in launches of many steps, with the bits of launches per epoch."""
    runs, dt = [], DT if make is crowded_lanes else 0.1
    for count, alone in ((1, False), (1, True), (3, False)):
        in_blocks(count, alone)
        net = make()
        low, high = (-65, -65) if make is crowded_lanes else (-60, -50)
        v_init = np.random.default_rng(0).uniform(low, high, net.forest.num_nodes)
        options = {"queue": cpu, "engine": "epochs-cpu", "dtype": dtype, "chunk": 37}
        sim = Simulation(net, dt, v_init=v_init, **options)
        assert sim.runner.kernels.alone == alone
        assert (sim.runner.max_steps > 37) == alone
        assert sim.runner.kernels.built[1].in_rows == (alone and "rows" in repr(make))
        v = sim.record("v", net.soma)
        results = [sim.run(300 * dt)]
        sim.runner.load(sim.runner.save())
        results.append(sim.run(150 * dt))
        each = [(r.spike_time, r.spike_cell, r[v]) for r in results]
        runs.append([sim.voltages(), *each[0], *each[1], *sim.runner.save().values()])
    assert len(runs[0][1]) > (1 if make is crowded_lanes else 50)
    for others in runs[1:]:
        for a, b in zip(runs[0], others, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_device_without_float64(cpu, monkeypatch):
    """Spikes are in the steps of the reference; no kernel's source has doubles."""
    net = point_network()
    v_init = np.random.default_rng(0).uniform(-60, -50, net.forest.num_nodes)
    expected = Simulation(net, 0.1, engine="reference", v_init=v_init).run(20.0)
    monkeypatch.setattr(devices, "has_fp64", lambda device: False)
    sources, compiled = [], program._compile

    def kept(context, source, spec):
        sources.append(source)
        return compiled(context, source, spec)

    monkeypatch.setattr(program, "_compile", kept)
    monkeypatch.setattr(program, "_BUILT", OrderedDict())
    options = {"queue": cpu, "engine": "epochs-cpu", "v_init": v_init, "max_spikes": 12_345}
    sim = Simulation(net, 0.1, "float32", **options)
    result = sim.run(20.0)
    assert len(expected.spike_time) > 20
    np.testing.assert_array_equal(result.spike_cell, expected.spike_cell)
    np.testing.assert_array_equal(result.spike_time, expected.spike_time)
    assert any("__kernel void advance(" in source for source in sources)
    assert not [source for source in sources if re.search(r"double", source)]


def test_large_networks_take_all_cores(cpu):
    if limits(cpu.device).compute_units == 1:
        pytest.skip("not a CPU of several cores")
    for count, alone in ((70, True), (100_000, False)):
        net = point_neurons(count, refractory=1.0)
        synapses = net.add("expsyn", at=net.soma)
        net.connect(np.arange(count), synapses, Pairs.one_to_one(), weight=0.01, delay=0.1)
        sim = Simulation(net, 0.1, queue=cpu, engine="epochs-cpu")
        assert sim.runner.kernels.alone == alone
        assert sim.runner.kernels.blocks.count >= (1 if alone else 2)
