"""Epochs of blocks of cells, as GPUs run them, on every device: against the reference."""

import re
from dataclasses import replace

import numpy as np
import pyopencl as cl
import pytest
from networks import (
    DT,
    block_simulation,
    blocks,
    dendrites_network,
    mixed_network,
    noisy_network,
    simple_network,
    truth,
)

from clhines import InputError, Network, Simulation, SimulationError
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.synthetic import ring_cell
from clhines.simulator.gpu.plan import plan_epochs
from clhines.simulator.model import compile
from clhines.simulator.network.ring import ring_cables, ring_network
from clhines.simulator.ranks.partition import Share
from clhines.simulator.state.decisions import Decisions
from clhines.solver.device import program
from clhines.solver.device.devices import limits
from clhines.solver.device.templates import render
from clhines.solver.plan.plan import Limits


@pytest.mark.optimised
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("build", [mixed_network, simple_network, dendrites_network])
def test_blocks_follow_the_reference(fast_queue, needs, build, dtype):
    """Bounds as in `test_engines_follow_the_reference`."""
    needs(fast_queue, dtype)
    expected, v = truth(build)
    sim = block_simulation(build, fast_queue, dtype)
    assert sim.model.constant_factors == (build is simple_network)
    result = sim.run(10.0)
    bound = 1e-7 if dtype == "float64" else 0.5
    assert np.abs(result[0] - expected[0]).max() < bound
    assert np.abs(sim.voltages() - v).max() < bound
    np.testing.assert_array_equal(result.spike_cell, expected.spike_cell)
    assert len(expected.spike_cell) >= 5
    late = np.abs(result.spike_time - expected.spike_time).max()
    assert late <= (1e-9 if dtype == "float64" else DT * 1.001)


@pytest.mark.parametrize("build", [mixed_network, noisy_network])
def test_second_order_and_states(fast_queue, needs, build):
    needs(fast_queue, "float64")
    expected, v = truth(build, True, 3.0)
    sim = block_simulation(build, fast_queue, secondorder=True)
    result = sim.run(3.0)
    np.testing.assert_allclose(result[0], expected[0], atol=1e-7)
    np.testing.assert_allclose(result[1], expected[1], atol=1e-10)
    assert expected[1].any()
    np.testing.assert_allclose(sim.voltages(), v, atol=1e-7)


def hot_network():
    """HH in all membrane, warm in a third: rates times dt below and above 1."""
    net, syn = simple_network()
    nodes = np.setdiff1d(np.flatnonzero(net.area > 0), net.soma)
    net.insert("hh", nodes, gnabar=0.02, celsius=np.where(nodes % 3, 6.3, 50.0))
    return net, syn


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_fast_rates(fast_queue, needs, dtype):
    """Bounds as above, and the same bits in parts."""
    needs(fast_queue, dtype)
    slowest_of_m = 4.0  # beta at -65 mV, 1/ms
    warm = 3 ** ((50.0 - 6.3) / 10)
    assert slowest_of_m * DT < 1 < slowest_of_m * warm * DT
    expected, v = truth(hot_network)
    whole, parts = (block_simulation(hot_network, fast_queue, dtype) for _ in range(2))
    result = whole.run(10.0)
    bound = 1e-7 if dtype == "float64" else 0.5
    assert np.abs(result[0] - expected[0]).max() < bound
    assert np.abs(whole.voltages() - v).max() < bound
    for _ in range(5):
        parts.run(2.0)
    np.testing.assert_array_equal(parts.voltages(), whole.voltages())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("units", [1, 3])
def test_lists_of_nodes_follow_the_reference(fast_queue, needs, units, dtype):
    """Bounds as above; several synapses at a node, noise, events, parameters that vary."""
    needs(fast_queue, dtype)
    expected, v = truth(mixed_network)
    sim = block_simulation(mixed_network, fast_queue, dtype, units=units, by_node=True)
    assert sim.runner.cells.launches[0].spec.by_node
    result = sim.run(10.0)
    bound = 1e-7 if dtype == "float64" else 0.5
    assert np.abs(result[0] - expected[0]).max() < bound
    assert np.abs(sim.voltages() - v).max() < bound
    np.testing.assert_array_equal(result.spike_cell, expected.spike_cell)
    assert len(expected.spike_cell) >= 5
    again = block_simulation(mixed_network, fast_queue, dtype, units=units, by_node=True)
    again.run(10.0)
    np.testing.assert_array_equal(again.voltages(), sim.voltages())


def test_lists_of_nodes_second_order_and_states(fast_queue, needs):
    needs(fast_queue, "float64")
    expected, v = truth(mixed_network, True, 3.0)
    sim = block_simulation(mixed_network, fast_queue, secondorder=True, by_node=True)
    result = sim.run(3.0)
    np.testing.assert_allclose(result[0], expected[0], atol=1e-7)
    np.testing.assert_allclose(result[1], expected[1], atol=1e-10)
    assert expected[1].any()
    np.testing.assert_allclose(sim.voltages(), v, atol=1e-7)


def crowded_network(cells=3, gnabar=0.1):
    """HH and a slow channel in all membrane, more than local memory has room for in slots."""
    cable = discretise(ring_cell(3, 1.0, 6, seed=3, stems=2), max_length=20.0)
    net = Network([cable], cells)
    nodes = np.flatnonzero(net.area > 0)
    values = np.full(len(nodes), 0.1)
    values[nodes < net.forest.cell_offsets[1]] = gnabar
    net.insert("hh", nodes, gnabar=values)
    net.insert(
        """
        density slow
        parameter g = 1e-4 S/cm2
        state n = 1/(1 + exp(-(v + 35)/10))
        dn/dt = (1/(1 + exp(-(v + 35)/10)) - n)/(10 + 40*exp(-((v + 60)/20)^2))
        current i = g*n*(v + 80) [mA/cm2]
        """,
        nodes,
        g=np.where((nodes % cable.num_nodes) % 3, 1e-4, 2e-4),
    )
    net.add("iclamp", at=net.soma, dur=5.0, amp=0.3)
    syn = net.add("expsyn", at=np.append(net.soma, net.soma + 1), tau=2.0, e=0.0)
    net.add_event(syn, np.arange(4), 0.3, 0.01)
    return net, syn


def test_cells_beyond_local_memory_take_lists(fast_queue, needs):
    """By themselves where slots do not fit; those that do keep slots, and too little is refused."""
    needs(fast_queue, "float64")
    model = compile(crowded_network()[0], DT)
    room = Limits()
    slots = plan_epochs(model, "float64", room, units=1)[0]
    assert slots.lists is None
    assert not slots.spec.by_node
    states = sum(len(k.states) * k.most for k in slots.spec.kinds) * 8
    small = replace(room, local_bytes=slots.spec.chip.local_bytes - states - 1)
    (plan,) = plan_epochs(model, "float64", small, units=1)
    assert plan.lists is not None
    assert plan.spec.chip.local_bytes <= small.local_bytes
    with pytest.raises(InputError, match="too large to stay in 1000 bytes"):
        plan_epochs(model, "float64", replace(room, local_bytes=1000))
    expected, v = truth(crowded_network, duration=3.0)
    net, syn = crowded_network()
    sim = Simulation(net, DT, queue=fast_queue, engine=blocks(small), seed=7, chunk=150)
    sim.record("v", net.soma)
    sim.record("g", syn, [0, 3])
    assert sim.runner.cells.launches[0].spec.by_node
    result = sim.run(3.0)
    np.testing.assert_allclose(result[0], expected[0], atol=1e-7)
    np.testing.assert_allclose(sim.voltages(), v, atol=1e-7)


def test_parts_take_lists_where_the_whole_does():
    """A part with small cells alone would have room for slots; its bits must be those it has."""
    cables = [discretise(ring_cell(levels, 1.0, 6, seed=3), max_length=20.0) for levels in (3, 1)]
    net = Network(cables, 2)
    net.insert("hh")
    model = compile(net, DT)
    slots = plan_epochs(model, "float64", Limits(), units=1)[0].spec
    states = sum(len(k.states) * k.most for k in slots.kinds) * 8
    small = replace(Limits(), local_bytes=slots.chip.local_bytes - states - 1)
    alone = Network(cables[1:])
    alone.insert("hh")
    assert not plan_epochs(compile(alone, DT), "float64", small)[0].spec.by_node
    part = Share(model, 1, 2).model()
    decisions = Decisions.of(model, split=True)
    (of_part,) = plan_epochs(part, "float64", small, decisions=decisions)
    (whole,) = plan_epochs(model, "float64", small)
    assert of_part.spec.by_node
    assert whole.spec.by_node
    assert of_part.spec.segment == whole.spec.segment


def test_equal_cells_share_lists():
    """Of cells that are equal there is one set of lists; one other number makes two."""

    def plan(gnabar):
        model = compile(crowded_network(gnabar=gnabar)[0], DT)
        return plan_epochs(model, "float64", Limits(), by_node=True)[0].lists

    equal, other = plan(0.1), plan(0.2)
    assert len(other.rows) == 2 * len(equal.rows)
    assert len(np.unique(equal.homes[:, 2])) == 1
    assert len(np.unique(other.homes[:, 2])) == 2
    assert equal.state_lines + 3 * equal.local_lines > 0
    every = equal.lanes.places[equal.lanes.places >= 0]
    assert len(np.unique(every)) == len(every)


@pytest.mark.optimised
@pytest.mark.parametrize("build, segment", [(mixed_network, 3), (simple_network, 1)])
def test_cells_of_a_group_change_no_bit(fast_queue, needs, build, segment):
    """Other segments change the order of elimination, and so the last bits only."""
    needs(fast_queue, "float64")
    _, v = truth(build, duration=3.0)
    found = []
    for units in (1, 3):
        sim = block_simulation(build, fast_queue, segment=segment, units=units)
        assert sim.runner.cells.launches[0].spec.units == units
        sim.run(3.0)
        found.append(sim.voltages())
    assert np.array_equal(*found)
    np.testing.assert_allclose(found[0], v, atol=1e-7)


@pytest.mark.parametrize("hh", ["soma", "all"])
def test_cells_by_size(fast_queue, needs, hh):
    """Cells of few and of many lanes in launches of their own, where the device is small."""
    needs(fast_queue, "float64")

    def build():
        cables = [*ring_cables(6, levels=5), *ring_cables(6, levels=3)]
        net = ring_network(cables, 16, hh, delay=0.5)
        return net, net.groups[-1]

    expected, v = truth(build, duration=3.0)
    assert len(expected.spike_cell) >= 1
    sim = block_simulation(build, fast_queue, compute_units=1)
    launches = sim.runner.cells.launches
    assert len(launches) > 1
    assert sorted(np.concatenate([each.plan.cells.numbers for each in launches])) == list(range(16))
    assert len({(each.spec.lanes, each.spec.segment) for each in launches}) == len(launches)
    result = sim.run(3.0)
    np.testing.assert_allclose(result[0], expected[0], atol=1e-7)
    np.testing.assert_allclose(result[1], expected[1], atol=1e-10)
    np.testing.assert_allclose(sim.voltages(), v, atol=1e-7)
    np.testing.assert_array_equal(result.spike_cell, expected.spike_cell)


@pytest.mark.parametrize("build", [mixed_network, noisy_network])
def test_the_same_bits_in_parts_and_after_a_restore(fast_queue, needs, build, tmp_path):
    needs(fast_queue, "float64")
    whole = block_simulation(build, fast_queue, chunk=50)
    result = whole.run(4.0)
    parts = block_simulation(build, fast_queue, chunk=50)
    first = parts.run(1.5)
    parts.save(tmp_path / "state.npz")
    resumed = block_simulation(build, fast_queue, chunk=50)
    resumed.restore(tmp_path / "state.npz")
    second = resumed.run(2.5)
    assert np.array_equal(resumed.voltages(), whole.voltages())
    assert np.array_equal(np.concatenate((first[0], second[0])), result[0])
    spikes = np.concatenate((first.spike_cell, second.spike_cell))
    assert np.array_equal(spikes, result.spike_cell)


@pytest.mark.core
def test_a_voltage_that_is_not_finite_is_told(fast_queue, needs):
    needs(fast_queue, "float64")
    sim = block_simulation(simple_network, fast_queue)
    values = sim.runner.states.of_kinds[0].get()
    values[2] = np.nan
    sim.runner.states.of_kinds[0].set(values)
    with pytest.raises(SimulationError, match=r"cell 2.*not finite|not finite.*cell 2"):
        sim.run(1.0)


def test_cells_above_local_memory_are_refused(fast_queue):
    net, _ = simple_network()
    small = replace(limits(fast_queue.device), local_bytes=1000)
    with pytest.raises(InputError, match=r"too large to stay in 1000 bytes of local memory"):
        Simulation(net, DT, "float32", queue=fast_queue, engine=blocks(small))


CLASHES = """
    point {0}
    parameter {1} = 1 ms
    parameter {2} = 0
    state {3} = 0
    d{3}/dt = -{3}/{1}
    current i = {3}*(v + {2})*0.001
    on event: {3} += weight
"""


@pytest.mark.parametrize("engine", ["steps", "epochs", "blocks"])
def test_any_name_may_stand_in_a_text(fast_queue, needs, engine):
    """Names that kernels use themselves, for mechanisms, parameters and states."""
    needs(fast_queue, "float64")

    def build():
        net, _ = simple_network(3)
        for names in (
            ("x1", "NONE", "CAPACITY", "list"),
            ("record", "start", "list", "s0"),
            ("spike", "count", "first", "count_0"),
            ("kernel", "factor", "states", "half"),
        ):
            three = {names[1]: [1.0, 2.0, 3.0], names[2]: [0.0, 1.0, 2.0]}
            group = net.add(CLASHES.format(*names), at=net.soma, **three)
            net.add_event(group, 0, 0.1, 0.01)
        return net, net.groups[2]

    reference = Simulation(build()[0], DT, engine="reference")
    reference.run(0.5)
    if engine == "blocks":
        engine = blocks(limits(fast_queue.device))
    sim = Simulation(build()[0], DT, queue=fast_queue, engine=engine)
    sim.run(0.5)
    np.testing.assert_allclose(sim.voltages(), reference.voltages(), atol=1e-9)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("build", [mixed_network, simple_network])
def test_local_memory_is_as_said(fast_queue, needs, build, dtype):
    needs(fast_queue, dtype)
    spec = block_simulation(build, fast_queue, dtype).runner.cells.launches[0].spec
    for each in (spec, spec.of_factors) if spec.constant else (spec,):
        kernel = cl.Kernel(program.build(fast_queue.context, each), "advance")
        what = cl.kernel_work_group_info.LOCAL_MEM_SIZE
        assert kernel.get_work_group_info(what, fast_queue.device) <= each.chip.local_bytes


def test_float32_takes_no_float64(fast_queue):
    spec = block_simulation(noisy_network, fast_queue, "float32").runner.cells.launches[0].spec
    assert "double" not in render(spec)
    assert "double" not in render(spec.of_factors)


def test_numbers_have_bits_enough(fast_queue):
    spec = block_simulation(simple_network, fast_queue, "float32").runner.cells.launches[0].spec
    wide = replace(limits(fast_queue.device), max_work_group=1 << 20, local_bytes=1 << 30)
    assert spec.fits(wide)
    assert replace(spec, units=16, capacity=1 << 12, slots=(1 << 15) - 1).fits(wide)
    for name, value in (("units", 17), ("capacity", (1 << 12) + 1), ("slots", 1 << 15)):
        assert not replace(spec, **{name: value}).fits(wide)


def test_cells_of_too_many_lanes_are_refused(fast_queue):
    net = Network(discretise(ring_cell(5, 1.0, 3, seed=1), max_length=1.0))
    assert net.forest.num_nodes > 1 << 10
    wide = replace(limits(fast_queue.device), max_work_group=1 << 20, local_bytes=1 << 30)
    with pytest.raises(InputError, match=r"lanes: too large.*use engine='steps'"):
        Simulation(net, DT, "float32", queue=fast_queue, engine=blocks(wide, segment=1))


@pytest.mark.parametrize("ptx", [True, False])
def test_rates_of_varying_factors_have_no_branches_and_constants_are_worked_out_once(ptx):
    network = ring_network(ring_cables(2), 2, "all")
    (plan,) = plan_epochs(compile(network, 0.025), "float64", Limits(ptx=ptx))
    kind = next(k for k in plan.spec.kinds if k.name == "hh")
    assert plan.spec.side_by_side
    assert kind.num_constants  # the factor of the temperature
    given = re.search(r"static void hh_constants\([^{]*\{(.*?)\n\}", kind.source, re.DOTALL)
    assert given and "celsius" in given[1]
    function = r"static void hh_(?:current|advance)\([^{]*\{(.*?)\n\}"
    bodies = re.findall(function, kind.source, re.DOTALL)
    assert len(bodies) == 2
    assert not any("celsius" in body or re.search(r"\bexp\(", body) for body in bodies)
    assert "bar.sync %" not in render(plan.spec)  # which would take all barriers of a group
    soma = plan_epochs(compile(ring_network(ring_cables(2), 2, "soma"), 0.025), "float64", Limits())
    assert not soma[0].spec.side_by_side
