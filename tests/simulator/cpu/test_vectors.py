"""Epochs with the cells in the lanes of vectors."""

from functools import partial

import numpy as np
import pytest
from networks import DT, crowded_lanes, mixed_network, point_neurons, truth
from solvers import skip_too_wide

from clhines import Drawn, Network, Pairs, Simulation
from clhines.simulator.cpu import groups
from clhines.simulator.cpu import vectors as epoch_vector
from clhines.solver.device.devices import is_cpu, limits

pytestmark = pytest.mark.optimised


@pytest.mark.parametrize(("lanes", "dtype"), [(2, "float64"), (8, "float64"), (16, "float32")])
def test_lanes_do_not_change_cells(fast_queue, needs, lanes, dtype):
    """Cells of three shapes in vectors, with lanes that idle; on other devices than CPUs too."""
    needs(fast_queue, dtype)
    _, v = truth(mixed_network)
    skip_too_wide(fast_queue, lanes, dtype)
    engine = partial(epoch_vector.make, lanes=lanes)
    sim = Simulation(mixed_network()[0], DT, dtype, queue=fast_queue, engine=engine, seed=7)
    sim.run(10.0)
    np.testing.assert_allclose(sim.voltages(), v, atol=1e-7 if dtype == "float64" else 0.5)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_groups_of_instances_that_lie_anywhere(fast_queue, needs, dtype):
    needs(fast_queue, dtype)
    net = crowded_lanes()
    reference = Simulation(net, DT, engine="reference")
    expected = reference.run(4.0)
    assert len(expected.spike_time)
    found = []
    for _ in range(2):
        sim = Simulation(
            net, DT, dtype, queue=fast_queue, engine=partial(epoch_vector.make, lanes=4)
        )
        result = sim.run(4.0)
        np.testing.assert_array_equal(result.spike_cell, expected.spike_cell)
        found.append(sim.voltages())
    np.testing.assert_array_equal(*found)
    # A few roundings a step of voltages up to 70 mV, which add up; measured 4 and 2 %.
    bound = 4 * round(4.0 / DT) * np.finfo(dtype).eps * 70
    np.testing.assert_allclose(found[0], reference.voltages(), rtol=0, atol=bound)


def test_groups_of_two_registers_change_no_bit(fast_queue, needs, monkeypatch):
    """As many as fill them take two, where a register has eight doubles."""
    needs(fast_queue, "float64")
    most = limits(fast_queue.device).vector_bytes // 8
    skip_too_wide(fast_queue, 2 * most, "float64")
    found, widths = [], []
    for of_many in (8 * most, 0):
        monkeypatch.setattr(groups, "_OF_MANY", of_many)
        engine = partial(epoch_vector.make, lanes=4)
        sim = Simulation(crowded_lanes(), DT, "float64", queue=fast_queue, engine=engine)
        widths.append({groups.width for groups in sim.runner.cells.plan.groups})
        sim.run(0.5)
        found.append(sim.voltages())
    assert max(widths[0]) == 2 * max(widths[1])
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("secondorder", [0, 2])
@pytest.mark.parametrize("lanes", [1, 2])
def test_cells_of_several_shapes_in_one_block_change_no_bit(
    fast_queue, needs, monkeypatch, lanes, secondorder
):
    """Their nodes follow each other by turns; those of a cell in the order that they had."""
    needs(fast_queue, "float64")
    skip_too_wide(fast_queue, lanes, "float64")
    found = []
    monkeypatch.setattr(epoch_vector, "is_faster_alone", lambda run: False)
    for count in (10**6, 1):
        monkeypatch.setattr(epoch_vector, "choose_count", lambda *_, count=count: count)
        engine = partial(epoch_vector.make, lanes=lanes)
        net = crowded_lanes()
        sim = Simulation(net, DT, queue=fast_queue, engine=engine, secondorder=secondorder)
        blocks = sim.runner.cells.plan.blocks
        assert (blocks.count == 1) == (count == 1) and len(blocks.cells) > 2
        result = sim.run(3.0)
        found.append((sim.voltages(), result.spike_cell, result.spike_time))
    assert len(found[0][1])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def point_network(count=70):
    """Point neurons with inputs of several delays, a detector, and events from outside."""
    net = point_neurons(count, refractory=1.0)
    for tau, e, weight in ((5.0, 0.0, 0.01), (10.0, -80.0, 0.03)):
        synapses, delay = net.add("expsyn", at=net.soma, tau=tau, e=e), Drawn.uniform(0.1, 0.8)
        net.connect(np.arange(count), synapses, Pairs.bernoulli(0.2), weight=weight, delay=delay)
        net.add_event(synapses, np.arange(9), time=np.arange(9) * 0.7, weight=0.05)
    net.connect(net.add_detector(net.soma[:3], -52.0), synapses, Pairs.all_to_all(), weight=0.002)
    return net


def irregular_points():
    """Points with kinds on all of them, on some, on few, twice on one, and in another order."""
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
def test_points_in_registers_change_no_bit(fast_queue, needs, monkeypatch, alone, dtype):
    """Rows of cells of one node take all kinds at once; their spikes are the reference's."""
    needs(fast_queue, dtype)
    if not is_cpu(fast_queue.device):
        pytest.skip("epochs-cpu is asked for by name")
    monkeypatch.setattr(epoch_vector, "is_faster_alone", lambda run: alone)
    (net, synapses), v_init = irregular_points(), np.random.default_rng(0).uniform(-60, -50, 70)
    options = {"v_init": v_init, "seed": 7, "chunk": 37}
    reference = Simulation(net, 0.1, engine="reference", **options).run(20.0)
    found = []
    for rows in (False, True):
        monkeypatch.setattr(epoch_vector, "has_points_alone", lambda model, rows=rows: rows)
        engine = {"queue": fast_queue, "engine": "epochs-cpu", "dtype": dtype}
        sim = Simulation(net, 0.1, **engine, **options)
        assert sum(sim.runner.cells.plan.spec.rows) == (2 if rows else 0)  # lif, inoise
        kept = sim.record("v", net.soma), sim.record("g", synapses)
        result = sim.run(20.0)
        np.testing.assert_array_equal(result.spike_cell, reference.spike_cell)
        np.testing.assert_array_equal(result.spike_time, reference.spike_time)
        found.append([result[kept[0]], result[kept[1]], *sim.runner.save().values()])
    assert len(reference.spike_time) > 20
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("engine", ["auto", "reference", "steps"])
def test_weights_of_zero_may_be_set_later(fast_queue, needs, engine):
    needs(fast_queue, "float64")
    found = {}
    for first in (0.0, 0.03):
        net = Network.from_arrays([-1] * 2, [0, 1, 2], [1000.0] * 2, [0.0] * 2, [0.01] * 2)
        net.insert("hh")
        net.add("iclamp", at=[0], amp=0.5, dur=50.0)
        net.connect(0, net.add("expsyn", at=net.soma), [0, 1], first, [1.0, 1.5])
        sim = Simulation(net, DT, engine=engine, queue=fast_queue)
        v = sim.record("v", [0, 1])
        for weight in (first, 0.03, 0.0):
            sim.set(weight=[0.0, weight])
            sim.reset()
            found[first, weight] = sim.run(10.0)[v]
    np.testing.assert_array_equal(found[0.0, 0.03], found[0.03, 0.03])
    np.testing.assert_array_equal(found[0.0, 0.0], found[0.03, 0.0])
    assert np.abs(found[0.0, 0.03] - found[0.0, 0.0]).max() > 1.0


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("make", [point_network, crowded_lanes])
def test_one_core_alone_changes_no_bit(fast_queue, needs, monkeypatch, make, dtype):
    """It delivers spikes itself, in launches of many steps, between events from outside."""
    needs(fast_queue, dtype)
    if not is_cpu(fast_queue.device):
        pytest.skip("epochs-cpu is asked for by name")
    found, dt = [], 0.1 if make is point_network else DT
    for alone in (False, True):
        monkeypatch.setattr(epoch_vector, "is_faster_alone", lambda run, alone=alone: alone)
        net = make()
        low, high = (-60, -50) if make is point_network else (-65, -65)
        v_init = np.random.default_rng(0).uniform(low, high, net.forest.num_nodes)
        options = {"queue": fast_queue, "engine": "epochs-cpu", "dtype": dtype, "chunk": 37}
        sim = Simulation(net, dt, v_init=v_init, **options)
        assert sim.runner.alone == alone
        v = sim.record("v", net.soma)
        results = [sim.run(300 * dt)]
        sim.runner.load(sim.runner.save())
        results.append(sim.run(150 * dt))
        each = [(r.spike_time, r.spike_cell, r[v]) for r in results]
        found.append([sim.voltages(), *each[0], *each[1], *sim.runner.save().values()])
    assert len(found[0][1]) > (50 if make is point_network else 1)
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_large_networks_take_all_cores(fast_queue, needs):
    needs(fast_queue, "float64")
    if not is_cpu(fast_queue.device) or limits(fast_queue.device).compute_units == 1:
        pytest.skip("not a CPU of several cores")
    for count, alone in ((70, True), (100_000, False)):
        net = point_neurons(count, refractory=1.0)
        synapses = net.add("expsyn", at=net.soma)
        net.connect(np.arange(count), synapses, Pairs.one_to_one(), weight=0.01, delay=0.1)
        sim = Simulation(net, 0.1, queue=fast_queue, engine="epochs-cpu")
        assert sim.runner.alone == alone
