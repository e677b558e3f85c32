"""Networks in time, on every device: against `reference` and closed forms; refusals."""

import networks
import numpy as np
import pyopencl.array as cla
import pytest
from foreign_kernels import refuse_foreign_kernels
from networks import (
    CABLES,
    DT,
    ENGINES,
    SPIKING_ENGINES,
    assert_follows,
    assert_near,
    mixed_network,
    simple_network,
    truth,
)

from bench.cells import ring_cell
from clhines import InputError, Network, Simulation, SimulationError
from clhines.core.errors import DeviceMemoryError, SpikeOverflowError
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.morphology import Morphology
from clhines.simulator.model import compile
from clhines.simulator.network.groups import inside
from clhines.simulator.network.plasticity import STDP
from clhines.simulator.network.times import begins_of


@pytest.mark.optimised
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("build", [mixed_network, simple_network])
def test_engines_follow_the_reference(typed_queue, build, engine, dtype):
    net, _ = build()
    sim = Simulation(net, DT, dtype, queue=typed_queue, engine=engine, seed=7, chunk=150)
    sim.record("v", net.soma)
    assert sim.engine.partition("-")[0] == engine
    assert_follows(sim, build, dtype)


@pytest.mark.parametrize("engine", ENGINES)
def test_second_order_and_recorded_states(double_queue, engine):
    net, syn = mixed_network()
    options = {"queue": double_queue, "engine": engine, "seed": 7, "secondorder": True}
    sim = Simulation(net, DT, **options)
    sim.record("v", net.soma)
    sim.record("g", syn, [0, 3])
    assert_near(sim, mixed_network, True)


def test_a_state_goes_from_engine_to_engine(double_queue, tmp_path):
    _, v = truth(mixed_network)
    for k, engine in enumerate(("reference", "epochs", "steps")):
        sim = Simulation(mixed_network()[0], DT, queue=double_queue, engine=engine, seed=7)
        if k:
            sim.restore(tmp_path / f"{k - 1}.npz")
        sim.run((2.0, 3.0, 5.0)[k])
        sim.save(tmp_path / f"{k}.npz")
    np.testing.assert_allclose(sim.voltages(), v, atol=1e-7)


def test_all_devices(every_queue):
    """Run a few steps by each engine on all devices, simulators too."""
    for engine in ENGINES:
        net, _ = simple_network(3, delay=0.1)
        sim = Simulation(net, 0.1, "float32", queue=every_queue, engine=engine)
        result = sim.run(0.4)
        reference = Simulation(net, 0.1, engine="reference")
        reference.run(0.4)
        np.testing.assert_allclose(sim.voltages(), reference.voltages(), atol=1e-2)
        assert result.t.tolist() == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize("engine", ["reference", *ENGINES])
def test_the_same_bits_again_in_parts_and_after_a_restore(double_queue, engine, tmp_path):

    def simulation():
        net, _ = mixed_network()
        sim = Simulation(net, DT, queue=double_queue, engine=engine, seed=3, chunk=50)
        sim.record("v", net.soma[:2])
        return sim

    once, parts, later = simulation(), simulation(), simulation()
    whole = once.run(3.0)
    begin = parts.run(1.75)
    parts.save(tmp_path / "state.npz")
    end = parts.run(1.25)
    later.restore(tmp_path / "state.npz")
    assert later.t == pytest.approx(1.75)
    again = later.run(1.25)
    for sim in (parts, later):
        np.testing.assert_array_equal(sim.voltages(), once.voltages())
    np.testing.assert_array_equal(np.concatenate([begin[0], end[0]]), whole[0])
    np.testing.assert_array_equal(again[0], end[0])
    np.testing.assert_array_equal(np.concatenate([begin.t, end.t]), whole.t)
    times = np.concatenate([begin.spike_time, end.spike_time])
    np.testing.assert_array_equal(times, whole.spike_time)
    assert (np.diff(whole.spike_time) >= 0).all()
    assert len(whole.spike_time)


def ball(radius):
    """Return a soma with one sample: a single compartment."""
    one = np.array([0])
    return Morphology(one - 1, np.zeros((1, 3)), np.array([float(radius)]), one + 1, one + 1, one)


def charged(dt, secondorder, engine="reference", **options):
    """Return a passive ball after one time constant (10 ms) of current, and its relative rise."""
    cable = discretise(ball(10.0))
    net = Network(cable)
    net.insert("pas", g=1e-4, e=-65.0)
    net.add("iclamp", at=net.soma, dur=1e9, amp=0.05)
    sim = Simulation(net, dt, engine=engine, secondorder=secondorder, **options)
    sim.run(10.0)
    return (sim.voltages()[0] + 65.0) / (0.05 / (1e-6 * cable.area[0]))


@pytest.mark.parametrize(("secondorder", "order"), [(False, 1), (True, 2)])
def test_order_of_convergence(double_queue, secondorder, order):
    """Compare with the closed form: 1 - 1/e of the whole rise at t = tau."""
    exact = 1 - np.exp(-1)
    errors = [abs(charged(dt, secondorder) - exact) for dt in (0.5, 0.25, 0.125)]
    rates = np.log2(np.divide(errors[:-1], errors[1:]))
    np.testing.assert_allclose(rates, order, atol=0.05)
    device = charged(0.125, secondorder, "auto", queue=double_queue)
    assert abs(device - exact) == pytest.approx(errors[-1], rel=1e-6)


@pytest.mark.parametrize("engine", ["reference", *ENGINES])
def test_a_voltage_that_is_not_finite(double_queue, engine, tmp_path):
    net, _ = simple_network()
    net.add("iclamp", at=net.soma[[3, 3, 3]], delay=1.0, dur=1.0, amp=1e308)
    sim = Simulation(net, DT, queue=double_queue, engine=engine, chunk=32)
    sim.record("v", net.soma)
    sim.run(0.5)
    sim.save(tmp_path / "good.npz")
    text = r"cell 3, at its soma, node \d+, .* t = 1\.\d+"
    with pytest.raises(SimulationError, match=text) as caught:
        sim.run(3.0)
    error = caught.value
    assert (error.cell, error.node) == (3, net.soma[3])
    step = round(error.time / DT)
    assert 41 <= step <= 44
    rows = error.result[0]
    assert len(rows) == step - 1 - 20
    assert np.isfinite(rows).all()
    with pytest.raises(InputError, match="restore"):
        sim.run(1.0)
    with pytest.raises(InputError, match="nothing to save"):
        sim.save(tmp_path / "bad.npz")
    sim.restore(tmp_path / "good.npz")
    sim.run(0.25)


@pytest.mark.core
def test_more_spikes_than_room(double_queue):
    net, syn = simple_network()
    net.add_event(syn, np.arange(5), 0.2, 0.05)
    sim = Simulation(net, DT, queue=double_queue, max_spikes=2)
    with pytest.raises(SpikeOverflowError, match=r"step \d+: .*max_spikes") as error:
        sim.run(10.0)
    assert error.value.step > 0
    with pytest.raises(InputError, match="a run ended within a chunk, by SpikeOverflowError.*rest"):
        sim.run(10.0)


@pytest.mark.core
def test_no_memory_is_told_in_one_line(double_queue, monkeypatch):
    with pytest.raises(InputError, match="max_spikes is 1125899906842624; .* at most 2147483647"):
        Simulation(simple_network()[0], DT, queue=double_queue, max_spikes=2**50)  # fits no int32

    def full(*_):
        cla.zeros(double_queue, 2**57, np.float64)  # drivers may allocate at the first write

    with monkeypatch.context() as patch:
        patch.setattr("clhines.simulator.engines.arena_run.Grid", full)
        with pytest.raises(DeviceMemoryError, match=r"no memory for Network\(5 cells.*max_spikes"):
            Simulation(simple_network()[0], DT, queue=double_queue)
    net, syn = simple_network()
    net.connect(0, syn, 0, 0.1, 2.0**29 * DT, rule=STDP(0.01, 0.01))
    error, words = DeviceMemoryError, "pending events of 5 targets"
    if double_queue.device.max_mem_alloc_size > 5 * 2**32:  # they would fit in memory
        error, words = InputError, "longest delay of a plastic connection is 536870912 steps"
    with pytest.raises(error, match=words):
        Simulation(net, DT, queue=double_queue)


@pytest.mark.parametrize("engine", ["auto", "steps", "reference"])
def test_a_delay_far_ahead_takes_no_ring_of_steps(double_queue, engine):
    net, syn = simple_network()
    net.connect(0, syn, 0, 0.1, 1e6)
    sim = Simulation(net, DT, engine=engine, queue=double_queue)
    size = sum(array.nbytes for array in sim.arrays().values())
    assert size < 2**20 and len(sim.run(5.0).spike_time)
    plastic, syn = simple_network()
    plastic.connect(0, syn, 0, 0.1, 2.0**20 * DT, rule=STDP(0.01, 0.01))
    if engine == "steps":
        with pytest.raises(InputError, match="plastic connection is 1048576 steps; expected at m"):
            Simulation(plastic, DT, engine=engine, queue=double_queue)


@pytest.mark.parametrize(
    "engine, dtype",
    [("auto", "float64"), ("steps", "float64"), ("steps", "float32"), ("reference", "float64")],
)
def test_events_beyond_the_ring_come_when_the_others_do(typed_queue, monkeypatch, engine, dtype):
    """Delays beyond the ring use exact event times, with the spikes of a ring for all delays."""
    times = []
    for most in (2**13, 4):
        net, syn = simple_network()
        net.connect([0, 1], syn, [2, 3], 0.2, [200 * DT, 3 * DT])
        with monkeypatch.context() as patch:
            patch.setattr("clhines.simulator.model.deliveries.RING_STEPS", most)
            patch.setattr("clhines.simulator.model.deliveries.MOST_RING", most)
            sim = Simulation(net, DT, dtype, engine=engine, queue=typed_queue)
        assert sim.model.exact is (most == 4)
        result = sim.run(30.0)
        times.append((result.spike_cell, np.rint(result.spike_time / DT)))
    assert len(times[0][0]) > 4
    for whole, exact in zip(*times, strict=True):
        assert np.array_equal(whole, exact)


def test_progress(double_queue, capsys):
    sim = Simulation(simple_network()[0], DT, queue=double_queue)
    cost = sim.run(5.0, progress=True).cost
    assert "s per simulated s" in capsys.readouterr().err
    assert set(cost) == {"all", "steps", "spikes", "collect"}
    assert cost["all"] >= sum(v for k, v in cost.items() if k != "all") > 0


def test_refused(double_queue, tmp_path):
    net, syn = simple_network()
    sim = Simulation(net, DT, queue=double_queue)
    for duration in (0.03, -1.0, np.nan, "long", 25000.01, 1e9):
        with pytest.raises(InputError, match=r"duration is .*whole number of steps of 0.025 ms"):
            sim.run(duration)
    with pytest.raises(InputError, match="there is no node 100000"):
        sim.record("v", 100000)
    with pytest.raises(InputError, match="expsyn has no state 'm'; expected v, i, g"):
        sim.record("m", syn)
    with pytest.raises(InputError, match="'g' of nodes; expected 'v', .*a state the Group"):
        sim.record("g", [0])
    with pytest.raises(InputError, match="expected auto, epochs, epochs-gpu, .*, steps, reference"):
        Simulation(net, engine="fast")
    with pytest.raises(InputError, match="network is list"):
        Simulation([])
    with pytest.raises(InputError, match="queue is str"):
        Simulation(net, queue="here")
    with pytest.raises(InputError, match="chunk is 0"):
        Simulation(net, queue=double_queue, chunk=0)
    for options in ({"queue": double_queue}, {"engine": "reference"}):
        with pytest.raises(InputError, match="int32"):
            Simulation(net, dtype="int32", **options)
    with pytest.raises(
        InputError, match="takes no methods of the solver; expected 'steps' or 'reference'"
    ):
        Simulation(net, queue=double_queue, engine="epochs", method="fine")
    (tmp_path / "bad.npz").write_text("nothing")
    (tmp_path / "empty.npz").write_text("")
    np.save(tmp_path / "array.npy", np.zeros(3))
    for name in ("bad.npz", "empty.npz", "array.npy"):
        with pytest.raises(InputError, match=r"not a file that Simulation\.save"):
            sim.restore(tmp_path / name)
    with pytest.raises(InputError, match=r"missing\.npz: cannot be read: No such file"):
        sim.restore(tmp_path / "missing.npz")
    with pytest.raises(InputError, match="cannot be written: No such file"):
        sim.save(tmp_path / "none" / "state.npz")
    sim.save(tmp_path / "without_ending")
    sim.restore(tmp_path / "without_ending")
    other = Simulation(simple_network(4)[0], DT, engine="reference")
    other.save(tmp_path / "other.npz")
    with pytest.raises(InputError, match="of another network"):
        sim.restore(tmp_path / "other.npz")
    sim.save(tmp_path / "state")
    sim.restore(tmp_path / "state")
    for change in ("gnabar", "event"):
        changed, synapses = simple_network()
        if change == "event":
            changed.add_event(synapses, 0, 1.0, 0.1)
        else:
            changed.groups[0].parameters[change] = 0.2
        with pytest.raises(InputError, match="of another network"):
            Simulation(changed, DT, queue=double_queue).restore(tmp_path / "state")


def test_the_network_is_frozen_once_it_is_simulated():
    net, syn = simple_network()
    net.threshold = np.full(5, 10.0)
    threshold, v_init = net.threshold, np.full(net.forest.num_nodes, -65.0)
    sim = Simulation(net, DT, engine="reference", v_init=v_init)
    v_init[:] = 0.0
    assert sim.voltages()[0] == -65.0
    for change in (
        lambda: net.add_event(syn, 0, 1.0, 0.1),
        lambda: net.connect(0, syn, 0, 0.1),
        lambda: net.insert("pas", [0]),
        lambda: net.add("expsyn", at=0),
        lambda: setattr(net, "threshold", 0.0),
        lambda: syn.parameters.update(tau=3.0),
        lambda: net.groups[0].parameters.__setitem__("gnabar", 0.2),
    ):
        with pytest.raises(InputError, match="frozen, because a Simulation uses it"):
            change()
    for array in (threshold, net.soma, net.area, syn.nodes):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    for name in ("dt", "v_init", "step", "model"):
        with pytest.raises(InputError, match=f"{name} cannot be set"):
            setattr(sim, name, 1)
    again = Simulation(net, DT, engine="reference")
    np.testing.assert_array_equal(again.run(2.0).spike_time, sim.run(2.0).spike_time)


def test_what_no_network_knows_is_not_set():
    """NEURON's names for the whole model are arguments of `Simulation`, not names in `set`."""
    net, syn = simple_network()
    for name in ("v_init", "treshold", "dt", "area", "groups"):
        with pytest.raises(InputError, match=f"{name} cannot be set"):
            setattr(net, name, 1.0)
    with pytest.raises(InputError, match="expsyn has no parameter 'tua'"):
        syn.parameters["tua"] = 2.0
    with pytest.raises(InputError, match=r"expsyn: tau\[0\] is nan"):
        syn.parameters["tau"] = np.nan
    syn.parameters["tau"] = 2.5
    assert compile(net).kinds[-1].parameters["tau"] == 2.5
    with pytest.raises(InputError, match="engine="):
        Simulation(net, DT, engine="none")
    assert not inside(net).frozen  # a refused simulation freezes nothing


def test_a_cable_changed_later_changes_no_network():
    cable = discretise(ring_cell(2, 0.6, 3, seed=4))
    net = Network(cable)
    before = compile(net)
    for array in (cable.capacitance, cable.g_total, cable.area, cable.g_axial):
        array *= 2
    after = compile(net)
    for name in ("capacitance", "constant_d", "area", "u"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))


def test_a_refused_rule_is_not_kept():
    net, syn = simple_network()
    with pytest.raises(InputError, match=r"weight\[0\] is nan"):
        net.connect(0, syn, 0, np.nan, rule=STDP(0.1, 0.1))
    net.connect(0, syn, 0, 0.1, rule=STDP(0.2, 0.1))


@pytest.mark.parametrize("engine", ENGINES)
def test_plastic_weights(double_queue, engine, tmp_path):
    """Compare the pair rule with `reference`, and after a restore bit by bit."""
    rule = STDP(0.01, 0.012, tau_plus=5.0, tau_minus=8.0, w_min=0.0, w_max=0.08)

    def simulation(**options):
        cells = np.arange(5)
        net = Network(CABLES, 5)
        net.insert("hh", "soma")
        net.insert("pas", "dendrites", g=1e-4, e=-65.0)
        syn = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
        net.connect(cells, syn, (cells + 1) % 5, 0.05, 2.0, rule=rule)
        net.connect(cells, syn, (cells + 2) % 5, 0.01, 0.5)
        net.connect(cells, syn, (cells + 3) % 5, 0.02, 1.0, rule=rule)
        net.add_event(syn, [0, 3, 1, 4], [0.2, 4.0, 22.0, 22.3], 0.05)
        return Simulation(net, DT, **options)

    reference = simulation(engine="reference")
    expected = reference.run(30.0)
    assert (expected.spike_time > 15).sum() >= 5
    sim, later = (simulation(queue=double_queue, engine=engine) for _ in range(2))
    sim.run(15.0)
    sim.save(tmp_path / "state.npz")
    sim.run(15.0)
    later.restore(tmp_path / "state.npz")
    later.run(15.0)
    np.testing.assert_allclose(sim.weights(), reference.weights(), rtol=1e-9)
    np.testing.assert_array_equal(sim.weights(), later.weights())
    np.testing.assert_array_equal(sim.voltages(), later.voltages())
    moved = sim.weights() != sim.model.connections.weight
    np.testing.assert_array_equal(moved, sim.model.connections.plastic)
    # a state moves from engine to engine
    reference.restore(tmp_path / "state.npz")
    reference.run(15.0)
    np.testing.assert_allclose(sim.weights(), reference.weights(), rtol=1e-9)
    reference.save(tmp_path / "reference.npz")
    later.restore(tmp_path / "reference.npz")
    np.testing.assert_array_equal(later.weights(), reference.weights())


@pytest.mark.parametrize("engine", SPIKING_ENGINES)
def test_late_spikes_have_the_times_of_neurons_clock(engine, double_queue):
    """At 1,000 s the clock, a sum of half steps, is 1.4e-3 ms behind the product of step and dt."""
    step, dt = 40_000_000, 0.025
    net = Network.from_arrays([-1], [0, 1], [500.0], [0.0], [0.005])
    net.insert("hh")
    synapse = net.add("expsyn", at=net.soma, tau=2.0)
    net.threshold = -20.0
    net.add_event(synapse, 0, step * dt + 0.2, 0.05)
    options = {} if engine == "reference" else {"queue": double_queue}
    sim = Simulation(net, dt=dt, engine=engine, **options)
    networks.go_on(sim, step, sim.arrays())
    times = sim.run(3.0).spike_time
    assert len(times) == 1 and times[0] in begins_of(np.arange(step + 1, step + 121), dt)
    assert abs(times[0] - dt * round(times[0] / dt)) > 1e-3


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
