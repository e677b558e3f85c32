"""Changes of a simulation: the oracle is a simulation that was made with the new values."""

import functools
import logging

import networks
import numpy as np
import pytest
from networks import CABLES, DT, blocks

import clhines
from clhines import STDP, InputError, Mechanism, Network, Simulation
from clhines.simulator import runner
from clhines.simulator.engines import arena_run
from clhines.simulator.engines import run as engine_run
from clhines.simulator.engines.arena_run import ArenaRun
from clhines.simulator.engines.reference import Reference
from clhines.simulator.model import compile
from clhines.simulator.network.groups import inside
from clhines.solver.device import copies, devices, program

CELLS = 5
LEAK = """
    NEURON { SUFFIX leaks NONSPECIFIC_CURRENT i RANGE g }
    PARAMETER { g = 1e-6 (S/cm2) }
    ASSIGNED { v (mV) i (mA/cm2) }
    BREAKPOINT { i = g*(v + 60) }
"""


def passive_below(**changed):
    """Return active somas on passive dendrites (constant factors), and groups by name."""
    options = {"gnabar": 0.12, "el": -54.3, "g": 1e-4, "e": -65.0, "amp": 0.3, "delay": 0.5}
    options |= {"weight": 0.05, "tau": 2.0, **changed}
    net = Network(CABLES, CELLS)
    groups = {
        "hh": net.insert("hh", "soma", gnabar=options["gnabar"], el=options["el"]),
        "pas": net.insert("pas", "dendrites", g=options["g"], e=options["e"]),
        "syn": net.add("expsyn", at=net.soma, tau=options["tau"], e=0.0),
        "iclamp": net.add("iclamp", net.soma, delay=options["delay"], dur=2.0, amp=options["amp"]),
    }
    cells = np.arange(CELLS)
    net.connect(cells, groups["syn"], (cells + 1) % CELLS, options["weight"], 0.5)
    net.add_event(groups["syn"], 0, options.get("event", 0.2), 0.05)
    return net, groups


def active_everywhere(**changed):
    """Return cells with two groups of one mechanism in all membranes, and groups by name."""
    parameters = {"gnabar": 0.12, "gl": 3e-4, "g": 1e-4, "shift": 0.0, "amp": 0.3, **changed}
    net = Network(CABLES, CELLS)
    text = """
        density shifted
        parameter g = 1e-3 S/cm2
        parameter shift = 0 mV
        state n = 1/(1 + exp(-(v + 50 - shift)/9))
        dn/dt = (1/(1 + exp(-(v + 50 - shift)/9)) - n)/3
        current i = g*n^2*(v + 77) [mA/cm2]
    """
    groups = {
        "hh": net.insert("hh", "soma", gnabar=parameters["gnabar"]),
        "dend": net.insert("hh", "dendrites", gnabar=0.02, gl=parameters["gl"]),
        "pas": net.insert("pas", "all", g=parameters["g"]),
        "shifted": net.insert(text, "soma", shift=parameters["shift"]),
        "iclamp": net.add("iclamp", net.soma, delay=0.5, dur=2.0, amp=parameters["amp"]),
    }
    return net, groups


def result_of(sim, net, duration=5.0):
    record = 0 if len(sim._recordings) else sim.record("v", net.soma)
    result = sim.run(duration)
    return result[record], result.spike_cell, result.spike_time


def tolerance(dtype):
    """Return the rounding of 100 mV, which a spike's upstroke amplifies 1000 times, in mV."""
    return 1e3 * 100 * np.finfo(dtype).eps


def compare(sim, net, other, dtype="float64"):
    """Run `sim` on, compare its results with `other`, and return its voltages."""
    v, cell, t = result_of(sim, net)
    expected, expected_cell, expected_t = other
    assert np.abs(v - expected).max() < tolerance(dtype)
    assert cell.tolist() == expected_cell.tolist()
    if dtype == "float64":
        assert t.tolist() == expected_t.tolist()
    return v


@functools.cache
def made_with(build, generation):
    several = [FIRST[build], SECOND[build]][:generation]
    parameters = {k: v for one in several for values in one.values() for k, v in values.items()}
    net = build(**parameters)[0]
    return result_of(Simulation(net, DT, engine="reference"), net)


def spread(low, high):
    return np.linspace(low, high, CELLS)


FIRST = {  # group -> parameters, which are also arguments of the builders
    passive_below: {
        "hh": {"gnabar": spread(0.08, 0.16), "el": spread(-50, -51)},
        "pas": {"g": spread(1e-4, 4e-4), "e": -60.0},
        "iclamp": {"amp": spread(0.2, 1), "delay": 1.0},
        "syn": {"tau": spread(1, 3)},
    },
    active_everywhere: {
        "dend": {"gl": spread(3e-4, 9e-4)},
        "pas": {"g": spread(1e-4, 4e-4)},
        "shifted": {"shift": spread(-9, 9)},
        "iclamp": {"amp": spread(0.7, 0.5)},
    },
}
SECOND = {
    passive_below: {
        "hh": {"gnabar": spread(0.16, 0.1), "el": spread(-52, -49)},
        "pas": {"g": spread(4e-4, 2e-4), "e": spread(-70, -60)},
        "iclamp": {"amp": spread(1, 0.3)},
        "syn": {"tau": 1.5},
    },
    active_everywhere: {
        "dend": {"gl": spread(9e-4, 4e-4)},
        "pas": {"g": 3e-4},
        "shifted": {"shift": spread(5, -5)},
        "iclamp": {"amp": spread(0.4, 0.9)},
    },
}
ENGINES = [
    (passive_below, "steps", "float64"),
    (passive_below, "epochs", "float64"),
    (passive_below, "blocks", "float64"),
    (passive_below, "reference", "float64"),
    (passive_below, "epochs", "float32"),
    (active_everywhere, "steps", "float32"),
    (active_everywhere, "epochs", "float64"),
    (active_everywhere, "by_node", "float64"),
    (active_everywhere, "reference", "float64"),
]


def chosen(engine, queue):
    if engine not in ("blocks", "by_node"):
        return engine
    return blocks(devices.limits(queue.device), by_node=engine == "by_node")


@pytest.mark.parametrize(("build", "engine", "dtype"), ENGINES)
def test_generations_are_as_simulations_made_with_their_values(
    build, engine, dtype, fast_queue, caplog
):
    net, groups = build()
    options = {"queue": fast_queue, "engine": chosen(engine, fast_queue), "dtype": dtype}
    sim = Simulation(net, DT, **options)
    old = result_of(sim, net)[0]
    for name, values in FIRST[build].items():
        sim.set(groups[name], **values)
    sim.reset()
    new = compare(sim, net, made_with(build, 1), dtype)
    assert np.abs(new - old).max() > 1  # mV
    built = len(program.build_seconds)
    with caplog.at_level(logging.INFO, "clhines"):
        for name, values in SECOND[build].items():
            sim.set(groups[name], **values)
        sim.reset()
        planned = [m for m in caplog.messages if "planned again" in m]
    if engine != "reference":
        assert not planned
    assert len(program.build_seconds) == built
    last = compare(sim, net, made_with(build, 2), dtype)
    assert np.abs(last - new).max() > 1


@pytest.mark.parametrize("engine", ["steps", "epochs-gpu", "epochs-cpu"])
def test_a_reset_of_what_was_not_changed_plans_nothing(engine, fast_queue, caplog):
    net, _ = passive_below()
    net.insert(clhines.Mechanism.from_nmodl(LEAK), at="all", g=net.per_cell(spread(1e-6, 1e-5)))
    sim = Simulation(net, DT, queue=fast_queue, engine=engine)
    first = result_of(sim, net)[0]
    with caplog.at_level(logging.INFO, "clhines"):
        sim.reset()
    assert not [m for m in caplog.messages if "planned again" in m]
    again = result_of(sim, net)[0]
    assert np.array_equal(first, again)
    assert np.ptp(first) > 10  # mV


@pytest.mark.parametrize("engine", ["steps", "epochs", "reference"])
def test_what_is_set_on_the_way_goes_on_from_the_same_state(engine, fast_queue, tmp_path):
    net, groups = passive_below()
    sim = Simulation(net, DT, queue=fast_queue, engine=engine)
    sim.run(2.0)
    step, arrays = sim.step, sim.arrays()
    for name, values in FIRST[passive_below].items():
        sim.set(groups[name], **values)
    sim.set(weight=0.03)
    arrays["incoming"] = sim.arrays()["incoming"]  # new weights act on pending events
    assert arrays["incoming"].any()
    parameters = {k: v for values in FIRST[passive_below].values() for k, v in values.items()}
    new, _ = passive_below(weight=0.03, **parameters)
    fresh = Simulation(new, DT, queue=fast_queue, engine=engine)
    networks.go_on(fresh, step, arrays)
    compare(sim, net, result_of(fresh, new))
    assert sim.weights().tolist() == fresh.weights().tolist()
    sim.save(tmp_path / "state.npz")
    fresh.restore(tmp_path / "state.npz")  # a state from the same network
    assert fresh.step == sim.step


@pytest.mark.parametrize("engine", ["epochs", "reference"])
def test_weights_and_voltages_at_the_start(engine, fast_queue):
    net, _ = passive_below(amp=0.0)
    sim = Simulation(net, DT, queue=fast_queue, engine=engine)
    first = result_of(sim, net)
    v_init = net.per_cell(spread(-75, -60))
    sim.set(v_init=v_init, weight=spread(0.02, 0.09))
    sim.reset()
    other, _ = passive_below(amp=0.0, weight=spread(0.02, 0.09))
    of_nodes = np.repeat(spread(-75, -60), other.forest.sizes)
    fresh = Simulation(other, DT, queue=fast_queue, engine=engine, v_init=of_nodes)
    compare(sim, net, result_of(fresh, other))
    sim.set(v_init=-65.0, weight=0.05)
    sim.reset()
    again = result_of(sim, net)
    assert np.abs(again[0] - first[0]).max() < tolerance("float64")


@pytest.mark.parametrize("engine", ["steps", "reference"])
def test_a_network_with_exact_times_takes_other_values(engine, fast_queue):
    def build(gl, weight):
        net = Network(CABLES, CELLS)
        hh = net.insert("hh", "soma", gl=gl)
        syn = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
        net.connect(net.spike_source([[0.5, 2.0]]), syn, [1], weight, 0.0)
        return net, hh, syn

    net, hh, _ = build(3e-4, 0.02)
    sim = Simulation(net, DT, queue=fast_queue, engine=engine)
    result_of(sim, net)
    sim.set(hh, gl=spread(1e-4, 5e-4))
    sim.set(weight=0.05)
    sim.reset()
    assert sim.weights().tolist() == [0.05]
    other = build(spread(1e-4, 5e-4), 0.05)[0]
    fresh = Simulation(other, DT, engine="reference")
    compare(sim, net, result_of(fresh, other))
    sim.set(hh, gl=spread(5e-4, 2e-4))  # during the run
    fresh.set(other.groups[0], gl=spread(5e-4, 2e-4))
    v = compare(sim, net, result_of(fresh, other))
    assert sim.step == 2 * round(5.0 / DT) and np.ptp(v[-1]) > 0.1


@pytest.mark.optimised
@pytest.mark.parametrize("engine", ["epochs", "steps", "epochs-gpu"])
def test_parameters_that_change_where_they_lie_give_the_same_bits(
    engine, fast_queue, monkeypatch, caplog
):
    """Change values and advance in turn at exact times; compare with new plans in each turn."""

    def turns(in_place):
        monkeypatch.setattr(runner, "ArenaRun", ArenaRun if in_place else type(None))
        net = Network(CABLES, CELLS)
        hh = net.insert("hh", "soma")
        clamp = net.add("iclamp", at=net.soma, dur=1e9, amp=0.0)
        syn = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
        net.connect(net.spike_source([[0.5, 1.0]]), syn, [1], 0.02, 0.0)
        sim = Simulation(net, DT, queue=fast_queue, engine=engine)
        sim.record("v", net.soma)
        results = []
        with caplog.at_level(logging.INFO, "clhines"):
            for turn in range(60):
                caplog.clear()
                v = results[-1] if results else np.full(CELLS, -65.0)
                sim.set(clamp, amp=0.01 * (-60.0 - v[0]) if turn % 2 else 0.01 * (-60.0 - v))
                sim.set(hh, gl=3e-4 * (1 + turn % 3))
                if turn == 30:
                    sim.record("i", clamp)  # needs other kernels
                if turn == 40:
                    networks.go_on(sim, sim.step, sim.arrays())
                results.append(sim.run(DT)[0][-1])
                assert not (in_place and turn > 1 and any("again" in m for m in caplog.messages))
        rows = sim.run(1.0)
        sim.reset()
        return np.array(results), rows[0], rows[1], sim.run(1.0)[0]

    for ours, expected in zip(turns(True), turns(False), strict=True):
        assert np.array_equal(ours, expected)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("engine", ["epochs", "steps", "epochs-gpu"])
def test_turns_with_memory_of_the_device_s_own_give_the_same_bits(
    engine, exact, fast_queue, monkeypatch
):
    """If the host shares no memory with the device, one read fetches small results."""

    def turns():
        net = Network(CABLES, CELLS)
        net.insert("hh", "soma")
        clamps = [net.add("iclamp", at=net.soma[some], dur=1e9, amp=0.0) for some in ([1], [2, 3])]
        if exact:
            syn = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
            net.connect(net.spike_source([[0.5, 1.03]]), syn, [1], 0.02, 0.0)
        sim = Simulation(net, DT, queue=fast_queue, engine=engine)
        sim.record("v", net.soma)
        sim.record("hh.m", net.soma)
        results, spikes = [], []
        for turn in range(200):
            sim.set(clamps[turn % 2], amp=0.4 * (turn // 2 % 60 > 20))
            result = sim.run(DT * (1 + 20 * (turn % 50 == 49)))  # rows with two sizes
            results.append(np.concatenate([result[0][-1], result[1][-1]]))
            spikes += [result.spike_time, result.spike_cell]
        sim.record("v", net.soma[:2])
        sim.reset()
        return np.array(results), np.concatenate(spikes), sim.run(1.0)[2]

    shared = turns()
    assert len(shared[1]) > 4
    monkeypatch.setattr(copies, "fine_grained", lambda device: False)
    monkeypatch.setattr(engine_run, "shares_memory", lambda device: False)
    for values, expected in zip(turns(), shared, strict=True):
        assert np.array_equal(values, expected)


@pytest.mark.parametrize("shared", [True, False])
def test_one_number_fills_the_values_of_many_instances(shared, double_queue, monkeypatch):
    if not shared:
        monkeypatch.setattr(copies, "fine_grained", lambda device: False)
    results = []
    for engine in ("epochs-gpu", "reference"):
        net = Network(CABLES, 20)
        hh = net.insert("hh", at="all", gnabar=net.per_cell(np.linspace(0.1, 0.12, 20)))
        assert len(hh) > 64
        net.add("iclamp", at=net.soma, dur=1.0, amp=0.3)
        sim = Simulation(net, DT, queue=double_queue, engine=engine)
        sim.run(1.0)
        for gnabar in (0.08, 0.15, 0.13):
            sim.set(hh, gnabar=gnabar)
            results.append(sim.run(0.5) and sim.voltages())
        sim.reset()
        results.append(sim.run(1.0) and sim.voltages())
    for values, expected in zip(results[:4], results[4:], strict=True):
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("engine", ["epochs", "steps", "epochs-gpu", "reference"])
def test_spikes_of_the_start_come_after_a_reset_and_a_restored_state_too(
    engine, fast_queue, tmp_path
):
    net = Network(CABLES[:1], 2)
    net.insert("hh", "soma")
    syn = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    net.connect([0, 1], syn, [1, 0], 0.05, 1.0)
    sim = Simulation(net, DT, queue=fast_queue, engine=engine, v_init=20.0)
    v = sim.record("v", net.soma)
    state = tmp_path / "state.npz"
    sim.save(state)
    runs = []
    restore = functools.partial(sim.restore, state)
    changes = restore, sim.reset, lambda: (sim.set(v_init=20.0), sim.reset()), restore
    for change in (lambda: None, *changes):
        change()
        runs.append(sim.run(5.0))
    for run in runs:
        assert run.spike_cell.tolist() == runs[0].spike_cell.tolist() and len(run.spike_cell) >= 2
        assert np.array_equal(run[v], runs[0][v])


@pytest.mark.parametrize("build", [passive_below, active_everywhere])
def test_the_model_is_that_of_a_network_with_the_values(build):
    net, groups = build()
    sim = Simulation(net, DT, engine="reference")
    for generation in (FIRST, SECOND):
        for name, values in generation[build].items():
            sim.set(groups[name], **values)
    sim.set(v_init=-60.0)
    options = {k: v for one in (FIRST, SECOND) for vs in one[build].values() for k, v in vs.items()}
    ours, other = sim.model, compile(build(**options)[0], DT, v_init=-60.0)
    for a, b in zip(ours.kinds, other.kinds, strict=True):
        assert a.mechanism == b.mechanism and np.array_equal(a.node, b.node)
        for name, values in b.arrays().items():
            np.testing.assert_array_equal(a.arrays()[name], values)
    for name in ("constant_d", "constant_b", "v_init", "u"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(other, name))
    assert not ours.exact and len(ours.kinds) > 1


@pytest.mark.parametrize("engine", ["steps", "epochs", "reference"])
def test_copies_run_as_the_simulation_does(engine, fast_queue):
    net, groups = passive_below()
    sim = Simulation(net, DT, queue=fast_queue, engine=engine)
    sim.set(groups["hh"], gnabar=spread(0.1, 0.14))
    several = sim.replicate(3)
    v, record = sim.record("v", net.soma), several.record("v", several.network.soma)
    alone, copies = sim.run(4.0), several.run(4.0)
    of_copies = copies[record].reshape(-1, 3, CELLS)
    assert np.abs(of_copies - alone[v][:, None]).max() < tolerance("float64")
    assert np.bincount(copies.spike_cell % CELLS).tolist() == (
        3 * np.bincount(alone.spike_cell)).tolist()  # fmt: skip
    several.set(groups["iclamp"], amp=np.repeat([0.0, 0.3, 0.9], CELLS), dur=50.0)
    far = several.run(2.0)[record].reshape(-1, 3, CELLS)[-1]
    assert (np.diff(far, axis=0) > 0.1).all()  # mV: more current, higher voltages


def test_what_cannot_be_set_is_refused():
    net, groups = passive_below()
    foreign = passive_below()[1]
    sim = Simulation(net, DT, engine="reference")
    cases = [
        ((groups["hh"],), {"gnabr": 1.0}, "gnabar"),
        ((groups["hh"],), {"gnabar": np.ones(CELLS + 1)}, "shape"),
        ((groups["hh"],), {"gnabar": np.nan}, "gnabar"),
        ((foreign["hh"],), {"gnabar": 1.0}, "another network"),
        (("hh",), {"gnabar": 1.0}, "Group"),
        ((), {"Ra": 100.0}, r"v_init, weight$"),
        ((), {"weight": np.ones(CELLS + 1)}, "weight"),
        ((), {"events": [(groups["syn"], 0, 0.0, 1.0)]}, "'events' cannot be set"),
        ((), {"v_init": "low"}, "v_init"),
    ]
    before = {name: a.tobytes() for name, a in sim.arrays().items()}
    for turn in range(2):
        for group, values, text in cases:
            with pytest.raises(InputError, match=text) as error:
                sim.set(*group, **values)
            assert "\n" not in str(error.value)
        sim.set(groups["hh"], gnabar=0.12 + turn)  # later numbers are checked less
        sim.set(groups["hh"], gnabar=0.12)
    assert before == {name: a.tobytes() for name, a in sim.arrays().items()}
    with pytest.raises(InputError, match=r"Simulation.set\(\)"):
        groups["hh"].parameters["gnabar"] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        sim.model.v_init[0] = -70.0


@pytest.mark.parametrize("engine", ["steps", "epochs", "reference"])
def test_records_of_currents_follow_what_is_set(fast_queue, engine):
    """After `set` and `reset`, records equal a simulation made with the new values."""
    results = []
    for g, gnabar, amp in ((1e-4, 0.12, 0.8), (3e-4, [0.1, 0.13], [0.7, 0.9])):
        net = Network(clhines.discretise(clhines.sample_cells()[0], max_length=60), num_cells=2)
        channel = net.insert("hh", "soma", gnabar=gnabar)
        leak = net.insert("pas", g=g, e=-65.0)
        clamp = net.add("iclamp", at=net.soma, delay=0.5, dur=5.0, amp=amp)
        sim = Simulation(net, 0.025, "float32", queue=fast_queue, engine=engine)
        numbers = [sim.record("i", clamp), sim.record("i", channel)]
        if not results:
            sim.run(2.0)
            sim.set(leak, g=3e-4)
            sim.set(channel, gnabar=np.array([0.1, 0.13]))
            sim.set(clamp, amp=np.array([0.7, 0.9]))
        numbers += [sim.record("i_membrane", np.arange(0, 40, 7))]
        numbers += [sim.record("v", net.soma, reduce="max")]
        numbers += [sim.record("v", net.soma, reduce="crossings", threshold=-20.0)]
        sim.reset()
        result = sim.run(5.0)
        results.append([np.concatenate([*map(np.ravel, result[k])]) for k in numbers])
    assert len(results[0][-1]) == 2  # one spike each
    assert all(np.array_equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("engine", ["steps", "reference"])
def test_of_values_set_at_once_a_wrong_one_leaves_all_as_they_were(fast_queue, engine):
    """Weights of a wrong shape leave weights and `v_init` unchanged."""
    net, _ = passive_below()
    sim = Simulation(net, DT, queue=fast_queue, engine=engine)
    weights, voltages = sim.weights(), sim.voltages()
    with pytest.raises(InputError, match=r"weight has shape \(99,\)"):
        sim.set(weight=np.ones(99), v_init=-70.0)
    assert np.array_equal(sim.weights(), weights)
    assert np.array_equal(sim.model.v_init, np.full(len(voltages), -65.0))
    sim.reset()
    assert np.array_equal(sim.voltages(), voltages)


ONE_BY_ONE = """
    NEURON { POINT_PROCESS saturates NONSPECIFIC_CURRENT i RANGE g }
    ASSIGNED { v (mV) i (nA) }
    STATE { g (uS) }
    BREAKPOINT { SOLVE states METHOD cnexp i = g*v }
    DERIVATIVE states { g' = -g/2 }
    NET_RECEIVE(w) { g = g + w*(1 - g/0.2) }
"""


@pytest.mark.parametrize("engine", ["epochs-gpu", "epochs-cpu", "steps", "reference"])
def test_one_number_instead_of_one_for_each_before_a_reset(engine, double_queue):
    def made(tau):
        net = Network.from_arrays([-1, 0, -1], [0, 2, 3], [500] * 3, [0.1] * 3, [0.005] * 3)
        net.insert("pas", e=-60.0)
        syn = net.add("expsyn", [0, 1, 2], tau=tau, e=0.0)
        net.gap(0, 2, 1e-3)
        net.add_event(syn, [0, 1, 2], [0.1, 0.2, 0.3], weight=0.01)
        return Simulation(net, DT, queue=double_queue, engine=engine), syn

    if engine == "epochs-cpu" and not devices.is_cpu(double_queue.device):
        pytest.skip("not a CPU")
    sim, syn = made([1.0, 2.0, 3.0])
    sim.run(1.0)
    sim.set(syn, tau=2.5)
    sim.reset()
    fresh, _ = made(2.5)
    for each in (sim, fresh):
        each.run(1.0)
    np.testing.assert_allclose(sim.voltages(), fresh.voltages(), rtol=0, atol=1e-11)


def test_pending_events_keep_their_sums_in_any_unit():
    sums = {"incoming": np.array([[2**63 - 2**33, -5, 0, 6]])}
    for power in (1, 40, 62):
        expected = [round(x / 2**power + 1e-9) for x in sums["incoming"][0].tolist()]
        assert runner.in_unit(sums, 1.0, 2.0**power)["incoming"].tolist() == [expected]
    assert runner.in_unit(sums, 1.0, 2.0**70)["incoming"].max() <= 2
    with pytest.raises(InputError, match="pending events are too large"):
        runner.in_unit(sums, 1.0, 0.5)


def test_a_network_may_have_a_train_of_no_events(tmp_path):
    """A train without events may target a synapse that receives events one by one, in files too."""
    net = Network(CABLES, CELLS)
    syn = net.add(Mechanism.from_nmodl(ONE_BY_ONE), at=net.soma)
    net.add_event(syn, 0, [], 0.1)
    net.save(tmp_path / "net.npz")
    for one in (net, Network.load(tmp_path / "net.npz")):
        sim = Simulation(one, DT, engine="reference")
        sim.run(1.0)


def delayed(weight, rule=None):
    """Return cells, some of which spike at 0.5 ms; events reach three others 1.2 to 3 ms later."""
    net = Network(CABLES, CELLS)
    net.insert("hh", "soma")
    net.insert("pas", "dendrites")
    syn = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    net.add("iclamp", net.soma, delay=0.1, dur=1.0, amp=np.where(np.arange(CELLS) % 3, 3.0, 0.0))
    cells = np.repeat(np.arange(CELLS), 3)
    to = (cells + np.tile([1, 2, 3], CELLS)) % CELLS
    net.connect(cells, syn, to, weight, np.tile([1.2, 2.0, 3.0], CELLS), rule=rule)
    return net


def spiked_at(net, **options):
    """Return a time after several first spikes and before the delivery of their events."""
    sim = Simulation(net, DT, **options)
    times = sim.run(6.0).spike_time
    now = round((times.min() + 0.9) / DT) * DT
    before = times[times < now]
    assert len(before) > 1
    assert before.min() + 1.2 > now  # the shortest delay
    return now


UNDER_WAY = [
    *((engine, new, None) for engine in ("steps", "epochs", "reference") for new in (0.003, 0.06)),
    *((engine, 0.02, STDP(0.0, 0.0, w_max=0.1)) for engine in ("epochs", "reference")),
]


@pytest.mark.parametrize(("engine", "new", "rule"), UNDER_WAY)
def test_weights_act_on_events_under_way(engine, new, rule, fast_queue):
    """As in NEURON, new weights change pending events; a new unit needs a new plan."""
    options = {"queue": fast_queue, "engine": engine}
    weights = np.linspace(new / 2, new, 3 * CELLS)
    now = spiked_at(delayed(0.004, rule), **options)
    sim = Simulation(delayed(0.004, rule), DT, **options)
    sim.run(now)
    sim.set(weight=weights)
    fresh = Simulation(delayed(weights, rule), DT, **options)
    fresh.run(now)  # no event has been delivered, so that the two are equal
    compare(sim, sim.network, result_of(fresh, fresh.network))
    assert rule or sim.weights().tolist() == fresh.weights().tolist()


@pytest.mark.parametrize("engine", ["steps", "reference"])
def test_weights_are_the_same_at_exact_times(engine, fast_queue):
    """As in NEURON, an event at an exact time has the weight at its arrival."""
    results = []
    for exact in (False, True):
        net = delayed(0.004)
        if exact:
            inside(net).added.exact = True
        sim = Simulation(net, DT, queue=fast_queue, engine=engine)
        assert sim.model.exact == exact
        number = sim.record("v", net.soma)
        first = sim.run(2.0)
        sim.set(weight=np.full(3 * CELLS, 0.05))
        results.append(np.concatenate([first[number], sim.run(3.0)[number]]))
    assert np.abs(results[0] - results[1]).max() < 1e-6


@pytest.mark.parametrize("engine", ["epochs", "reference"])
def test_weights_of_a_restored_state(engine, fast_queue, tmp_path):
    """Refuse new weights while restored events are pending, because their spikes are unknown."""
    options = {"queue": fast_queue, "engine": engine}
    now = spiked_at(delayed(0.004), **options)
    sim = Simulation(delayed(0.004), DT, **options)
    sim.run(now)
    sim.save(tmp_path / "state.npz")
    other = Simulation(delayed(0.004), DT, **options)
    other.restore(tmp_path / "state.npz")
    before = other.arrays()
    with pytest.raises(InputError, match=r"weight: events are pending whose spikes came before"):
        other.set(weight=0.02)
    assert all(np.array_equal(a, before[k]) for k, a in other.arrays().items())
    assert set(other.weights()) == {0.004}
    other.run(3.0 + 2 * DT)  # the longest delay
    sim.run(3.0 + 2 * DT)
    for one in (sim, other):
        one.set(weight=0.02)
    compare(other, other.network, result_of(sim, sim.network))
    sim.reset()
    sim.set(weight=0.02)


def test_saved_states_have_the_unit_of_a_new_simulation(fast_queue, tmp_path):
    """Pending events keep their size if a new simulation's weights have a finer unit."""
    sim = Simulation(delayed(0.004), DT, queue=fast_queue, engine="epochs")
    sim.run(1.275)
    runner = sim.runner
    sim.set(weight=0.0005)
    assert sim.runner is runner  # in place, in its own unit
    sim.save(tmp_path / "state.npz")
    fresh, third = (
        Simulation(delayed(0.0005), DT, queue=fast_queue, engine="epochs") for _ in range(2)
    )
    fresh.restore(tmp_path / "state.npz")
    networks.go_on(third, sim.step, sim.arrays())
    sim.restore(tmp_path / "state.npz")
    expected = result_of(fresh, fresh.network)
    assert np.ptp(expected[0]) > 1.0
    for one in (sim, third):
        compare(one, one.network, expected)


STARTS = {  # dependencies of each start: rates, tables, ions, a steady state, events
    "rates": """
        NEURON { SUFFIX rates USEION na READ ena WRITE ina RANGE gbar, shift, now, least }
        PARAMETER { gbar = 0.01 (S/cm2)  shift = 0 (mV)  least = 0.1 (ms) }
        ASSIGNED { v (mV) ena (mV) ina (mA/cm2) now (S/cm2) }
        STATE { m h }
        FUNCTION inf(x (mV), half (mV), k (mV)) { inf = 1/(1 + exp(-(x - half - shift)/k)) }
        INITIAL { m = inf(v, -40, 9)  h = inf(v, -60, -7) }
        BREAKPOINT { SOLVE s METHOD cnexp now = gbar*m*m*m*h ina = now*(v - ena) }
        DERIVATIVE s { m' = (inf(v, -40, 9) - m)/(least + 0.2)  h' = (inf(v, -60, -7) - h)/4 }
    """,
    "table": """
        NEURON { SUFFIX tabled NONSPECIFIC_CURRENT i RANGE g GLOBAL q }
        PARAMETER { g = 1e-3 (S/cm2)  q = 2 }
        ASSIGNED { v (mV) i (mA/cm2) ninf ntau (ms) }
        STATE { n }
        INITIAL { rates(v) n = ninf }
        BREAKPOINT { SOLVE s METHOD cnexp i = g*n*(v + 77) }
        DERIVATIVE s { rates(v) n' = (ninf - n)/ntau }
        PROCEDURE rates(v (mV)) {
            TABLE ninf, ntau DEPEND q FROM -100 TO 100 WITH 200
            ninf = 1/(1 + exp(-(v + 50)/9))
            ntau = 3/q
        }
    """,
    "steady": """
        NEURON { SUFFIX steady NONSPECIFIC_CURRENT i RANGE g, on }
        PARAMETER { g = 1e-4 (S/cm2)  on = 0.5 (/ms) }
        ASSIGNED { v (mV) i (mA/cm2) }
        STATE { c o }
        INITIAL { SOLVE k STEADYSTATE sparse }
        BREAKPOINT { SOLVE k METHOD sparse i = g*o*(v + 80) }
        KINETIC k { ~ c <-> o (on*exp(v/40), 0.2)  CONSERVE c + o = 1 }
    """,
    "pool": """
        NEURON { SUFFIX pool USEION ca READ ica, cai WRITE cai RANGE rest, tau, seen }
        PARAMETER { rest = 1e-4 (mM)  tau = 20 (ms) }
        ASSIGNED { ica (mA/cm2) seen (mA/cm2) }
        STATE { cai (mM) }
        INITIAL { cai = rest }
        BEFORE BREAKPOINT { seen = ica }
        BREAKPOINT { SOLVE s METHOD cnexp }
        DERIVATIVE s { cai' = -1e-2*(ica + 0.5*seen) - (cai - rest)/tau }
    """,
    "calcium": """
        NEURON { SUFFIX calcium USEION ca READ eca, cai WRITE ica RANGE p }
        PARAMETER { p = 1e-4 (S/cm2) }
        ASSIGNED { v (mV) eca (mV) cai (mM) ica (mA/cm2) }
        BREAKPOINT { ica = p*(v - eca)/(1 + cai) }
    """,
    "point": """
        NEURON { POINT_PROCESS twice NONSPECIFIC_CURRENT i RANGE tau1, tau2, e, use }
        PARAMETER { tau1 = 0.5 (ms)  tau2 = 2 (ms)  e = 0 (mV)  use = 0.5 }
        ASSIGNED { v (mV) i (nA) factor }
        STATE { A (uS) B (uS) }
        INITIAL {
            LOCAL tp
            A = 0  B = 0
            tp = tau1*tau2/(tau2 - tau1)*log(tau2/tau1)
            factor = 1/(exp(-tp/tau2) - exp(-tp/tau1))
        }
        BREAKPOINT { SOLVE s METHOD cnexp i = (B - A)*(v - e) }
        DERIVATIVE s { A' = -A/tau1  B' = -B/tau2 }
        NET_RECEIVE(weight (uS), r) {
            INITIAL { r = use }
            A = A + weight*factor*r  B = B + weight*factor*r  r = r*(1 - use)
        }
    """,
    "clock": """
        NEURON { ARTIFICIAL_CELL ticker RANGE first, every, ticks }
        PARAMETER { first = 0.2 (ms)  every = 0.7 (ms) }
        ASSIGNED { ticks }
        INITIAL { ticks = 0  net_send(first, 1) }
        NET_RECEIVE(w) { if (flag == 1) { ticks = ticks + 1  net_event(t)  net_send(every, 1) } }
    """,
}
SETS = [  # groups and parameters that change together, in INITIAL, tables, currents or elsewhere
    {"hh": {"gnabar": 0.2}},
    {"rates": {"gbar": 0.02}},
    {"rates": {"shift": 3.0}, "pas": {"g": 3e-4}},
    {"table": {"q": 3.0}, "steady": {"on": 0.8}},
    {"pool": {"rest": 2e-4}, "calcium": {"p": 3e-4}},
    {"calcium": {"p": 2e-4}},  # `seen` is the current at the start
    {"pas": {"g": 2e-4, "e": -70.0}},
    {"point": {"tau2": 3.0, "use": 0.3}, "clock": {"first": 0.3}, "hh": {"el": -60.0}},
    {"calcium": {"p": 1e-4}, "clock": {"every": 0.5}},
    {"rates": {"shift": np.array([-4.0, 0.0, 1.0, 5.0])}},  # by cell
    {"rates": {"shift": np.array([2.0, 3.0, -4.0, 0.0]), "least": 0.3}},
    {"rates": {"shift": np.array([1.0, 5.0, 2.0, -4.0])}, "point": {"tau2": np.arange(3.0, 7.0)}},
    {"rates": {"shift": np.full(4, 6.0)}, "point": {"tau2": np.arange(8.0, 4.0, -1.0)}},
]
PLANNED = {2, 3, 9, 11}  # those that may need other memory or kernels


PLACES = {"point": "soma", "rates": "all", "calcium": "all", "pool": "all"}


def starting(values):
    """Return cells with all of `STARTS` and texts, by values per group and name; groups by name."""
    net, groups = Network(CABLES, 4), {}
    for name in ("hh", "pas", *STARTS):
        mechanism = Mechanism.from_nmodl(STARTS[name]) if name in STARTS else name
        parameters = {"g": 1e-4} if name == "pas" else {}
        for key, value in values.get(name, {}).items():
            parameters[key] = net.per_cell(value) if np.ndim(value) and name != "clock" else value
        if name == "clock":
            groups[name] = net.add_artificial(mechanism, 4, **parameters)
        elif name == "point":
            groups[name] = net.add(mechanism, at=net.soma, **parameters)
        else:
            at = "dendrites" if name == "pas" else PLACES.get(name, "soma")
            groups[name] = net.insert(mechanism, at, **parameters)
    net.connect(groups["clock"], groups["point"], weight=0.02, delay=0.1)
    detector = net.add_detector(net.soma, -20.0)
    net.connect(detector, groups["point"], [1, 2, 3, 0], 0.01, 1.0)
    return net, groups


def arrays_after(sim, *durations):
    states = []
    for duration in durations:
        if duration:
            sim.run(duration)
        states.append(sim.arrays())
    return states


def assert_same_bits(states, expected):
    for one, other in zip(states, expected, strict=True):
        assert one.keys() == other.keys()
        for key, array in one.items():
            assert np.array_equal(array, other[key], equal_nan=True), key


def put(sim, groups, sets):
    for group, named in sets.items():
        for name, value in named.items():
            by_cell = np.ndim(value) and group != "clock"
            sim.set(groups[group], **{name: sim.network.per_cell(value) if by_cell else value})


@pytest.mark.parametrize("engine", ["steps", "epochs-cpu", "epochs-gpu", "reference"])
def test_a_reset_after_set_has_the_bits_of_a_new_simulation(engine, fast_queue, caplog):
    caplog.set_level(logging.INFO, "clhines")
    options = {"queue": fast_queue, "engine": engine}
    net, groups = starting({})
    sim, values = Simulation(net, DT, **options), {}
    before = arrays_after(sim, DT)[0]["v"]
    sim.reset()  # keeps the start
    for number, sets in enumerate(SETS):
        caplog.clear()
        put(sim, groups, sets)
        sim.reset()
        planned = any("planned again" in message for message in caplog.messages)
        assert not planned or number in PLANNED or engine == "reference"
        for group, named in sets.items():
            values.setdefault(group, {}).update(named)
        fresh = Simulation(starting(values)[0], DT, **options)
        result, expected = (arrays_after(each, DT, 1.0) for each in (sim, fresh))
        if number < len(SETS) - 1:  # kernels of new simulations have equal values as constants
            assert_same_bits(result, expected)  # without a read at the start
        assert np.abs(result[1]["v"] - expected[1]["v"]).max() < 1e-9
        assert not np.array_equal(result[1]["v"], before)
        before = result[1]["v"]
        for each in (sim, fresh):
            each.reset()
        assert_same_bits(arrays_after(sim, 0), arrays_after(fresh, 0))


@pytest.mark.parametrize("engine", ["steps", "epochs-cpu", "epochs-gpu"])
def test_records_at_the_start_are_those_of_new_values(engine, fast_queue):
    """Compare recorded currents and outputs at t = 0, which only records need."""

    def rows(sim, net, groups):
        if not len(sim._recordings):
            for what, at in (("ica", net.soma), ("ina", net.soma)):
                sim.record(what, at)
            for what, group in (("now", "rates"), ("i", "table"), ("seen", "pool"), ("i", "hh")):
                sim.record(what, groups[group])
        result = sim.run(0.5)
        return [result[k] for k in range(6)]

    options = {"queue": fast_queue, "engine": engine}
    net, groups = starting({})
    sim = Simulation(net, DT, **options)
    sim.run(1.0)
    first = {"rates": {"gbar": 0.03}, "calcium": {"p": 2e-4}, "hh": {"gnabar": 0.2}}
    second = {"rates": {"gbar": 0.02}, "calcium": {"p": 3e-4}, "table": {"g": 2e-3}}
    third = {"hh": {"gnabar": np.array([0.1, 0.2, 0.3, 0.1])}}  # moves the recorded rows
    for sets, values in ((first, first), (second, first | second), (third, first | second | third)):
        sim.reset()
        put(sim, groups, sets)
        new, new_groups = starting(values)
        expected = rows(Simulation(new, DT, **options), new, new_groups)
        for one, other in zip(rows(sim, net, groups), expected, strict=True):
            assert np.array_equal(one, other)
            assert np.abs(one[-1]).max() > 0


@pytest.mark.parametrize("engine", ["steps", "epochs-cpu", "epochs-gpu"])
def test_a_reset_makes_nothing_again_where_the_start_stays(engine, fast_queue, monkeypatch):
    """A reset runs INITIAL and lays out arenas again only if changed values need it."""
    net, groups = starting({})
    sim = Simulation(net, DT, queue=fast_queue, engine=engine)
    sim.run(DT)
    sim.reset()  # keeps the start
    run, starts = sim.runner, []

    def counted(*arguments):
        starts.append(arguments)
        return Reference(*arguments)

    monkeypatch.setattr(arena_run, "Reference", counted)
    for k in range(3):
        put(sim, groups, {"hh": {"gnabar": 0.1 + k / 100}, "steady": {"g": 1e-4 * k}})
        if engine != "epochs-gpu":
            put(sim, groups, {"pas": {"g": 1e-4 * (1 + k)}})
        sim.reset()
        sim.run(DT)
    assert not starts and sim.runner is run
    put(sim, groups, {"steady": {"on": 0.7}})
    sim.reset()
    assert len(starts) == 1 and sim.runner is run


@pytest.mark.parametrize("engine", ["steps", "epochs-cpu", "epochs-gpu"])
def test_weights_beside_mod_files_change_in_place(engine, fast_queue, caplog):
    """In whole steps, new weights act on pending events and on spikes at the start."""

    def build(weight, v_init=-65.0):
        net = Network(CABLES, CELLS)
        net.insert("hh", "all")
        net.insert(Mechanism.from_nmodl(LEAK), at=net.soma[:1])
        syn = net.add("expsyn", at=net.soma)
        cells = np.arange(CELLS)
        net.connect(cells, syn, (cells + 1) % CELLS, weight, 2.0)
        net.add("iclamp", at=net.soma[0], dur=0.5, amp=2.0)
        return Simulation(net, DT, queue=fast_queue, engine=engine, v_init=v_init)

    sim = build(0.02)
    sim.run(1.0)
    sim.reset()
    with caplog.at_level(logging.INFO, "clhines"):
        sim.set(weight=0.021)
        sim.reset()
        result = arrays_after(sim, DT, 5.0)
    assert not [m for m in caplog.messages if "planned again" in m]
    assert_same_bits(result, arrays_after(build(0.021), DT, 5.0))
    low = build(0.02)
    low.run(5.0 + DT)
    assert not np.array_equal(low.voltages(), sim.voltages())
    sim = build(0.02, 20.0)  # above the thresholds
    sim.run(1.0)
    sim.set(weight=0.021)
    sim.reset()
    assert_same_bits(arrays_after(sim, 0, 4.0), arrays_after(build(0.021, 20.0), 0, 4.0))
    sim.set(weight=0.004)  # its unit is finer than the run's
    sim.reset()
    sim.run(4.0)
    fresh = build(0.004, 20.0)
    fresh.run(4.0)
    assert np.abs(sim.voltages() - fresh.voltages()).max() < 1e-6 < np.ptp(fresh.voltages())
