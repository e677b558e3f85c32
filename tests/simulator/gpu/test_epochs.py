"""Epochs of cells in blocks, as on GPUs, on every device, against `reference`."""

from dataclasses import replace

import numpy as np
import pyopencl as cl
import pytest
from networks import (
    DT,
    assert_follows,
    assert_near,
    block_simulation,
    blocks,
    crowded_network,
    dendrites_network,
    mixed_network,
    noisy_network,
    simple_network,
    truth,
)

from bench.ring import ring_cables, ring_network
from clhines import InputError, Simulation, SimulationError
from clhines.simulator.gpu import launch
from clhines.simulator.gpu.plan import plan_epochs
from clhines.simulator.model import compile
from clhines.solver.device import devices, program
from clhines.solver.device.devices import limits
from clhines.solver.plan.plan import Limits
from clhines.solver.plan.templates import render


@pytest.mark.optimised
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("build", [mixed_network, simple_network, dendrites_network])
def test_blocks_follow_the_reference(typed_queue, build, dtype):
    sim = block_simulation(build, typed_queue, dtype)
    assert sim.model.constant_factors == (build is simple_network)
    assert_follows(sim, build, dtype)


@pytest.mark.parametrize(
    ("build", "by_node"), [(mixed_network, None), (noisy_network, None), (mixed_network, True)]
)
def test_second_order_and_states(double_queue, build, by_node):
    sim = block_simulation(build, double_queue, secondorder=True, by_node=by_node)
    assert_near(sim, build, True)


def hot_network():
    """Return a network with HH everywhere, warm in a third: rates times dt below and above 1."""
    net, syn = simple_network()
    nodes = np.setdiff1d(np.flatnonzero(net.area > 0), net.soma)
    net.insert("hh", nodes, gnabar=0.02, celsius=np.where(nodes % 3, 6.3, 50.0))
    return net, syn


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_fast_rates(typed_queue, dtype):
    slowest_of_m = 4.0  # beta at -65 mV, 1/ms
    warm = 3 ** ((50.0 - 6.3) / 10)
    assert slowest_of_m * DT < 1 < slowest_of_m * warm * DT
    expected, v = truth(hot_network)
    whole, parts = (block_simulation(hot_network, typed_queue, dtype) for _ in range(2))
    result = whole.run(10.0)
    bound = 1e-7 if dtype == "float64" else 0.5
    assert np.abs(result[0] - expected[0]).max() < bound
    assert np.abs(whole.voltages() - v).max() < bound
    for _ in range(5):
        parts.run(2.0)
    np.testing.assert_array_equal(parts.voltages(), whole.voltages())


@pytest.mark.parametrize("options", [{}, {"by_node": True}])
@pytest.mark.parametrize("build", [mixed_network, simple_network])
def test_tables_in_one_array_change_no_bit(double_queue, build, options, monkeypatch):
    values, sizes = [], []
    for most in (launch._MOST_JOINED, 0):
        monkeypatch.setattr(launch, "_MOST_JOINED", most)
        sim = block_simulation(build, double_queue, **options)
        values.append([*sim.run(5.0), sim.voltages()])
        sizes.append(len(sim.runner.kernels.launches[0].kernel._arguments))
    assert sizes[0] < sizes[1] - 9
    for joined, apart in zip(*values, strict=True):
        np.testing.assert_array_equal(joined, apart)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("units", [1, 3])
def test_lists_of_nodes_follow_the_reference(typed_queue, units, dtype):
    sim = block_simulation(mixed_network, typed_queue, dtype, units=units, by_node=True)
    assert sim.runner.kernels.launches[0].spec.by_node
    assert_follows(sim, mixed_network, dtype)
    again = block_simulation(mixed_network, typed_queue, dtype, units=units, by_node=True)
    again.run(10.0)
    np.testing.assert_array_equal(again.voltages(), sim.voltages())


def test_cells_beyond_local_memory_take_lists(double_queue):
    """Cells too large for slots use lists, others keep slots, and too little memory is refused."""
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
    net, syn = crowded_network()
    sim = Simulation(net, DT, queue=double_queue, engine=blocks(small), seed=7, chunk=150)
    sim.record("v", net.soma)
    sim.record("g", syn, [0, 3])
    assert sim.runner.kernels.launches[0].spec.by_node
    assert_near(sim, crowded_network)


@pytest.mark.optimised
@pytest.mark.parametrize("build, segment", [(mixed_network, 3), (simple_network, 1)])
def test_cells_of_a_group_change_no_bit(double_queue, build, segment):
    """Several cells per work-group give the bits of one; the reference agrees to 1e-7 mV."""
    _, v = truth(build, duration=3.0)
    results = []
    for units in (1, 3):
        sim = block_simulation(build, double_queue, segment=segment, units=units)
        assert sim.runner.kernels.launches[0].spec.units == units
        sim.run(3.0)
        results.append(sim.voltages())
    assert np.array_equal(*results)
    np.testing.assert_allclose(results[0], v, atol=1e-7)


@pytest.mark.parametrize("hh", ["soma", "all"])
def test_cells_by_size(double_queue, hh):
    """On a small device, cells with few and with many lanes run in separate launches."""

    def build():
        cables = [*ring_cables(6, levels=5), *ring_cables(6, levels=3)]
        net = ring_network(cables, 16, hh, delay=0.5)
        return net, net.groups[-1]

    sim = block_simulation(build, double_queue, compute_units=1)
    launches = sim.runner.kernels.launches
    assert len(launches) > 1
    assert sorted(np.concatenate([each.plan.cells.numbers for each in launches])) == list(range(16))
    assert len({(each.spec.lanes, each.spec.segment) for each in launches}) == len(launches)
    result, expected = assert_near(sim, build)
    assert len(expected.spike_cell) >= 1
    np.testing.assert_array_equal(result.spike_cell, expected.spike_cell)


@pytest.mark.parametrize("build", [mixed_network, noisy_network])
def test_the_same_bits_in_parts_and_after_a_restore(double_queue, build, tmp_path):
    whole = block_simulation(build, double_queue, chunk=50)
    result = whole.run(4.0)
    parts = block_simulation(build, double_queue, chunk=50)
    first = parts.run(1.5)
    parts.save(tmp_path / "state.npz")
    resumed = block_simulation(build, double_queue, chunk=50)
    resumed.restore(tmp_path / "state.npz")
    second = resumed.run(2.5)
    assert np.array_equal(resumed.voltages(), whole.voltages())
    assert np.array_equal(np.concatenate((first[0], second[0])), result[0])
    spikes = np.concatenate((first.spike_cell, second.spike_cell))
    assert np.array_equal(spikes, result.spike_cell)


@pytest.mark.core
def test_a_voltage_that_is_not_finite_is_told(double_queue):
    sim = block_simulation(simple_network, double_queue)
    mem = sim.runner.state.arenas["mem"]
    states = mem.get("states_0")
    states.flat[2] = np.nan
    mem.set("states_0", states)
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
def test_any_name_may_stand_in_a_text(double_queue, engine):
    """Compare mechanisms, parameters and states with names that kernels use themselves."""

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
        engine = blocks(limits(double_queue.device))
    sim = Simulation(build()[0], DT, queue=double_queue, engine=engine)
    sim.run(0.5)
    np.testing.assert_allclose(sim.voltages(), reference.voltages(), atol=1e-9)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("build", [mixed_network, simple_network])
def test_local_memory_is_as_said(typed_queue, build, dtype):
    spec = block_simulation(build, typed_queue, dtype).runner.kernels.launches[0].spec
    for each in (spec, spec.of_factors) if spec.constant else (spec,):
        kernel = cl.Kernel(program.build(typed_queue.context, each), "advance")
        what = cl.kernel_work_group_info.LOCAL_MEM_SIZE
        assert kernel.get_work_group_info(what, typed_queue.device) <= each.chip.local_bytes


@pytest.mark.parametrize("by_node", [None, True])
def test_devices_without_float64_take_none(fast_queue, monkeypatch, by_node):
    monkeypatch.setattr(devices, "has_fp64", lambda device: False)
    sim = block_simulation(noisy_network, fast_queue, "float32", by_node=by_node)
    assert_follows(sim, noisy_network, "float32")
    spec = sim.runner.kernels.launches[0].spec
    assert "double" not in render(spec)
    if spec.constant:
        assert "double" not in render(spec.of_factors)
