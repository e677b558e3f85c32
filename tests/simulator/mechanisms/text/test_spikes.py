"""Texts with `spike:` against Brian 2, a closed formula and a dense solve; refusals."""

import importlib.util
import json
import re
from functools import partial
from pathlib import Path

import brian_program as brian
import numpy as np
import pytest
from networks import SPIKING_ENGINES, one_node_cells, started

import clhines
from clhines import InputError, Mechanism, Network, Simulation
from clhines.core.errors import SimulationError
from clhines.simulator.model import compile
from clhines.solver.device import devices

LIF = """
point lif
parameter g = 0.01 uS
parameter e = -60 mV
parameter vt = -50 mV
parameter vr = -60 mV
parameter rest = 2 ms
current i = g*(v - e) [nA]
spike: v > vt
reset: v = vr
refractory: rest
"""
TEXTS = {
    "lif": LIF,
    "adex": """
        point adex
        state w = 0 [nA]
        dw/dt = (0.004*(v + 70.6) - w)/144
        current i = 0.03*(v + 70.6) - 0.06*exp((v + 50.4)/2) + w [nA]
        spike: v > -40 mV
        reset: v = -70.6 mV; w += 0.0805
    """,
    "izhikevich": """
        point izhikevich
        state u = 0
        du/dt = (0.2*v - u)/50
        current i = u - (0.04*v^2 + 5*v + 140)
        spike: v > 30 mV
        reset: v = -65 mV; u += 8
    """,
}


def network(name):
    if name == "lif":
        net = one_node_cells(brian.N, brian.LIF["c"])
        amp, pairs = brian.wiring()
        for of, (source, target) in pairs.items():
            tau, e = brian.SYNAPSES[of]
            synapse = net.add("expsyn", at=net.soma, tau=tau, e=e)
            net.connect(source, synapse, target, brian.WEIGHTS[of], brian.DELAY * brian.DT)
    else:
        amp = brian.amplitudes()[name]
        net = one_node_cells(len(amp), 1 / brian.POINTS[name][4])
    net.add(TEXTS[name], at=net.soma)
    net.add("iclamp", at=net.soma, dur=1e9, amp=amp)
    return net, brian.LIF["e"] if name == "lif" else brian.POINTS[name][0]


@pytest.mark.parametrize("engine", SPIKING_ENGINES)
@pytest.mark.parametrize("name", TEXTS)
def test_spikes_of_brian(fast_queue, needs, engine, name):
    """Compare spikes with Brian's in equal steps: a recurrent network, and single neurons."""
    data = json.loads(Path(__file__).with_name("brian.json").read_text())
    net, v_init = network(name)
    sim = started(net, engine, fast_queue, needs, brian.DT, v_init=v_init)
    result = sim.run(brian.STEPS * brian.DT)
    assert len(data[name][0]) > 40
    np.testing.assert_array_equal(brian.in_order(result), data[name])


def test_the_example_for_users_of_brian(double_queue, monkeypatch):
    """The two scripts on the page give equal spikes."""
    data = json.loads(Path(__file__).with_name("brian.json").read_text())
    assert brian.block_of_the_page() == data["block of the page"]  # the same script
    if importlib.util.find_spec("brian2"):
        assert brian.in_steps(brian.brian_page()) == data["page"]
    page = brian.PAGE.read_text("utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    monkeypatch.setattr(clhines, "Simulation", partial(Simulation, queue=double_queue))
    names = {}
    exec(block, names)
    spikes = brian.in_order(names["result"])
    assert len(spikes[0]) == 1153 and "All 1,153 spikes" in page
    np.testing.assert_array_equal(spikes, data["page"])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("engine", SPIKING_ENGINES)
def test_periods(fast_queue, needs, engine, dtype):
    """Compare intervals with the number of implicit Euler steps to the threshold, plus `rest`.

    The number of steps times dt is tau*log(...) within one step plus Euler's delay, T*dt/(2*tau).
    """
    if (engine, dtype) == ("reference", "float32"):
        pytest.skip("float64 alone")
    dt, c, rest = 0.025, 0.1, np.array([0.0, 0.02, 2.0, 2.0])
    net = one_node_cells(4, c)
    lif = net.add(LIF, at=net.soma, rest=rest)
    amp = np.array([0.12, 0.2, 0.2, 0.35])
    net.add("iclamp", at=net.soma, dur=1e9, amp=amp)
    sim = started(net, engine, fast_queue, needs, dt, dtype, v_init=-60.0)
    number, current = sim.record("v", net.soma), sim.record("i", lif)
    result = sim.run(150.0)
    tau, held = c / 0.01, np.array([0, 1, 80, 80])
    above = np.arange(1, 2000)[:, None]
    crossed = amp / 0.01 * (1 - (1 + dt / tau) ** -above) > 10
    needed = above[crossed.argmax(axis=0), 0]
    exact = -tau * np.log(1 - 10 / (amp / 0.01))
    assert (np.abs(needed * dt - exact) <= dt + exact * dt / (2 * tau)).all()
    for cell in range(4):
        step = np.rint(result.spike_time[result.spike_cell == cell] / dt).astype(int)
        assert len(step) > 4 and step[0] == needed[cell]
        np.testing.assert_array_equal(np.diff(step), needed[cell] + held[cell])
        after = step[:-1, None] + 1 + np.arange(held[cell])
        # held by 2**50 times the capacitance per step; v is rounded
        np.testing.assert_allclose(result[number][after, cell], -60, 0, 1000 * np.finfo(dtype).eps)
        assert (result[number][step, cell] > -50).all()
    v = result[number][:-1]
    at_reset = 0.01 * (np.where(v > -50, -60, v) + 60)
    np.testing.assert_allclose(result[current][1:], at_reset, 0, 10 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("engine", SPIKING_ENGINES)
def test_a_refractory_time_between_steps_is_rounded_once(fast_queue, needs, engine, dtype):
    """Halves of a step round up, also binary numbers just below them, and after `set`."""
    if (engine, dtype) == ("reference", "float32"):
        pytest.skip("float64 alone")
    rest, held = np.array([0.15, 0.35, 0.25, 0.349]), np.array([2, 4, 3, 3])
    net = one_node_cells(4, 0.1)
    group = net.add(LIF, at=net.soma, rest=rest)
    net.add("iclamp", at=net.soma, dur=1e9, amp=0.35)
    sim = started(net, engine, fast_queue, needs, 0.1, dtype, v_init=-60.0)
    needed = 1 + int(np.ceil(-np.log(1 - 10 / 35) / np.log(1 + 0.1 / 10))) - 1
    for wanted, times in ((held, None), (held[::-1], rest[::-1])):
        if times is not None:
            sim.reset()
            sim.set(group, rest=times)
        result = sim.run(20.0)
        for cell in range(4):
            step = np.rint(result.spike_time[result.spike_cell == cell] / 0.1).astype(int)
            assert len(step) > 3
            np.testing.assert_array_equal(np.diff(step), needed + wanted[cell])


def passive_tree():
    rng = np.random.default_rng(4)
    parent = np.array([-1, 0, 1, 1, 0, 4, 5, 4])
    area, g = rng.uniform(300, 900, 8), rng.uniform(0.02, 0.2, 8)
    net = Network.from_arrays(parent, [0, 8], area, g, 1e-5 * area)
    net.insert("pas", np.arange(8), g=1e-4, e=-65.0)
    return net, parent, area, g


@pytest.mark.parametrize("rest", [0.0, 1.5])
@pytest.mark.parametrize("engine", SPIKING_ENGINES)
def test_a_soma_with_branches(fast_queue, needs, engine, rest):
    """Compare with a dense solve that resets v and holds it there for the refractory time."""
    net, parent, area, g = passive_tree()
    dt, steps, held = 0.05, 600, round(rest / 0.05)
    text = net.insert(LIF.replace("point", "density").replace("[nA]", "[mA/cm2]"), net.soma,
                      g=2e-4, e=-62.0, rest=rest, vt=-55.0, vr=-68.0)  # fmt: skip
    net.add("iclamp", at=[0, 6], dur=1e9, amp=[0.1, 0.05])
    sim = started(net, engine, fast_queue, needs, dt)
    number = sim.record("v", np.arange(8))
    counts = sim.record("since__spike", text)
    result = sim.run(steps * dt)

    c, matrix = 1e-5 * area / dt, np.zeros((8, 8))
    for k in range(1, 8):
        p = parent[k]
        matrix[[k, p], [k, p]] += g[k]
        matrix[[k, p], [p, k]] -= g[k]
    leak = 0.01 * area * 1e-4
    matrix += np.diag(c + leak)
    matrix[0, 0] += (own := 0.01 * area[0] * 2e-4)
    right = -65 * leak
    right[[0, 6]] += [0.1 - 62 * own, 0.05]
    clamped = matrix.copy()
    clamped[0] = np.eye(8)[0]
    v, expected, wait, spikes = np.full(8, -65.0), [np.full(8, -65.0)], 0, []
    for step in range(1, steps + 1):
        b = c * v + right
        if wait:
            b[0], wait = -68.0, wait - 1
            v = np.linalg.solve(clamped, b)
        else:
            v = np.linalg.solve(matrix, b)
        expected.append(v.copy())
        if v[0] > -55:
            spikes.append(step)
            v[0], wait = -68.0, held
    assert len(spikes) > 3
    np.testing.assert_array_equal(np.rint(result.spike_time / dt), spikes)
    # each of 600 steps rounds ten numbers up to 100 mV
    np.testing.assert_allclose(result[number], expected, 0, steps * 10 * 100 * 2.0**-52)
    assert result[counts].max() == max(1, held)


def test_exact_times_saved_states_files_and_copies(double_queue, tmp_path):
    """Also with an artificial cell's events, after a restore, and in copies."""
    import mod_files

    net, v_init = network("lif")
    fire = net.add_artificial(mod_files.ours("ext_fire"), 1)
    net.connect([3], fire, weight=2.0, delay=0.33)
    net.connect(fire, net.groups[0], [1], 0.01, 0.17, source_index=[0])
    on = [e for e in SPIKING_ENGINES if e != "epochs-cpu" or devices.is_cpu(double_queue.device)]
    sims = [Simulation(net, 0.1, v_init=v_init, queue=double_queue, engine=e) for e in on]
    first, *others = (sim.run(60.0) for sim in sims)
    assert sims[0].model.exact and (first.spike_cell == brian.N).any()
    for other in others:
        np.testing.assert_array_equal(other.spike_time, first.spike_time)
        np.testing.assert_array_equal(other.spike_cell, first.spike_cell)
    sims[1].save(tmp_path / "state.npz")
    later = sims[0].run(40.0)
    net.save(tmp_path / "net.npz")
    again = Simulation(Network.load(tmp_path / "net.npz"), 0.1, v_init=v_init, queue=double_queue)
    again.restore(tmp_path / "state.npz")
    np.testing.assert_array_equal(again.run(40.0).spike_time, later.spike_time)


@pytest.mark.parametrize("engine", SPIKING_ENGINES)
def test_a_rate_with_the_current_takes_that_of_the_voltage_after_a_reset(fast_queue, needs, engine):
    net = one_node_cells(1, 0.1)
    text = LIF + "state w = 0 [nA]\ndw/dt = i/10 - w/20\n"
    group = net.add(text.replace("reset: v = vr", "reset: v = vr; w *= 0.5"), at=0)
    net.add("iclamp", at=0, dur=1e9, amp=0.3)
    sim = started(net, engine, fast_queue, needs, v_init=-60.0)
    number = sim.record("w", group)
    w, v, wait, expected, spikes = 0.0, -60.0, 0, [0.0], []
    for step in range(1, 401):
        i, e = 0.01 * (v + 60), np.exp(-0.1 / 20)
        v = -60.0 if wait else (1.0 * v - 0.6 + 0.3) / 1.01
        w, wait = w * e + 2 * i * (1 - e), max(wait - 1, 0)
        if v > -50:
            spikes.append(step)
            v, wait, w = -60.0, 20, w / 2
        expected.append(w)
    result = sim.run(40.0)
    assert len(spikes) > 4
    np.testing.assert_array_equal(np.rint(result.spike_time / 0.1), spikes)
    np.testing.assert_allclose(result[number][:, 0], expected, 0, 400 * 10 * 2.0**-52)


def test_a_current_that_is_constant_at_the_reset(fast_queue, needs):
    """One name stands for a constant at the reset and for a changing value elsewhere."""
    text = """
        point km
        parameter a = 1
        current i = (exp(a - 1) - 0.5^(1/(1 + exp(-(v + 7)/5))))*(v + 60)/100 - 0.4
        spike: v > -50
        reset: v = -65
        refractory: 1
    """
    results = []
    for engine in SPIKING_ENGINES:
        net = one_node_cells(2, 0.1)
        net.add(text, at=net.soma)
        sim = started(net, engine, fast_queue, needs, 0.1, v_init=-60.0)
        results.append(sim.run(20.0).spike_time)
    assert len(results[0]) > 4
    for times in results[1:]:
        np.testing.assert_array_equal(times, results[0])


def test_above_the_threshold_at_the_start(fast_queue, needs):
    for engine in ("reference", "steps", "epochs-gpu"):
        net = one_node_cells(1, 0.1)
        text = net.add(TEXTS["izhikevich"], at=0)
        sim = started(net, engine, fast_queue, needs, v_init=40.0)
        v, u = sim.record("v", 0), sim.record("u", text)
        result = sim.run(0.1)
        assert result.spike_time.tolist() == [0.0] and result[u][0, 0] == 8
        # from -65 mV: (0.04*v^2 + 5*v + 140 - u)*dt/c, explicit if the slope is negative
        rate, slope = 0.04 * 65**2 - 5 * 65 + 140 - 8, 0.08 * 65 - 5
        expected = -65 + rate / (0.1 / 0.1 + slope)
        np.testing.assert_allclose(result[v][1], expected, 1e-12)


def test_set(fast_queue, needs):
    net = one_node_cells(2, 0.1)
    text = net.add(LIF, at=net.soma, rest=0.0)
    net.add("iclamp", at=net.soma, dur=1e9, amp=0.35)
    results = []
    for engine in ("reference", "steps"):
        sim = started(net, engine, fast_queue, needs, v_init=-60.0)
        sim.run(20.0)
        sim.set(text, rest=[0.0, 3.0])
        results.append(sim.run(60.0))
        for name, why in (("vt", "the threshold of the cell"), ("capacitance", "the node's")):
            with pytest.raises(InputError, match=f"lif: {name} is {why}; expected another param"):
                sim.set(text, **{name: -40.0})
        with pytest.raises(InputError, match="lif: rest is below 0 ms; expected 0 or more"):
            sim.set(text, rest=[1.0, -1.0])
    np.testing.assert_array_equal(results[0].spike_time, results[1].spike_time)
    periods = [np.diff(results[0].spike_time[results[0].spike_cell == c])[-1] for c in (0, 1)]
    assert periods[1] - periods[0] == pytest.approx(3.0, abs=1e-9)


def test_a_spike_in_the_step_after_a_reset_ends_the_run(fast_queue, needs):
    for engine in SPIKING_ENGINES:
        net = one_node_cells(1, 0.1)
        net.add(LIF, at=0, rest=0.0)
        net.add("iclamp", at=0, dur=1e9, amp=30.0)
        sim = started(net, engine, fast_queue, needs, v_init=-60.0)
        with pytest.raises(SimulationError, match="not finite.*; lif spiked in the step after a"):
            sim.run(1.0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("v > vt", "v >= vt", "line 8: expected 'spike: v > X', X a parameter or a number"),
        ("v > vt", "g > vt", "line 8: expected 'spike: v > X', X a parameter or a number"),
        ("v > vt", "v > vt + 2", r"'spike:' has 'vt \+ 2' for its mV; expected a parameter or a"),
        ("v > vt", "v > other", "'spike:' has 'other' for its mV; expected a parameter or a numb"),
        ("v > vt", "v > 5 ms", "'spike:' is in 'ms'; expected mV or a multiple of it"),
        ("v > vt", "v > g", "'spike:' is in 'uS'; expected mV or a multiple of it"),
        ("v = vr", "v += 3", "expected 'reset: v = X', X a parameter or a number"),
        ("v = vr", "w = 3", "expected 'reset: v = X', X a parameter or a number"),
        ("v = vr", "v = vr; w += 1", "the reset changes 'w', which is no state"),
        ("v = vr", "v = vr; v = vr", "the reset changes 'v' twice"),
        ("v = vr", "v = v_of_another_cell", "'reset:' has 'v_of_another_cell' for its mV; expe"),
        ("v = vr", "v = vr; w += x.w\nstate w = 0", "unexpected character '.'|cannot use 'x.w'"),
        ("v = vr", "v = vr; w += t\nstate w = 0", "a reset cannot depend on 't', as 'w' does"),
        ("v = vr", "v = vr; w += noise\nstate w = 0", "a reset cannot depend on 'noise'"),
        ("rest\n", "rest\nrefractory: 1 ms", "'refractory' is given twice, first in line 10"),
        ("refractory: rest", "refractory: 3 mV", "'refractory:' is in 'mV'; expected ms"),
        ("reset: v = vr", "", "'spike:' needs a line 'reset: ...'"),
        ("spike: v > vt", "", "'reset:' needs a line 'spike: ...'"),
        ("vr = -60 mV", "vr = -60 mV\nparameter capacitance = 1", "'capacitance' is the node's"),
    ],
)
def test_wrong_texts_are_refused(old, new, message):
    assert old in LIF
    with pytest.raises(InputError, match=message) as error:
        Mechanism(LIF.replace(old, new))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda n: n.add(LIF, at=3), "lif in node 3 of cell 0 is not where its cell spikes; expe"),
        (lambda n: n.add(LIF, at=[0, 0]), "lif in node 0 of cell 0 is not the only text with 'sp"),
        (lambda n: (n.add(LIF, at=0), n.add(TEXTS["adex"], at=0)), "adex in node 0 .* not the onl"),
        (lambda n: n.add(LIF, at=0, vr=-50.0), "resets v to its threshold or above; expected a l"),
        (lambda n: n.add(LIF, at=0, rest=-1.0), "has a refractory time below 0; expected 0 ms or"),
        (lambda n: n.add(LIF, at=0, capacitance=1.0), "sets its capacitance; expected the node's"),
        (lambda n: n.play(n.add(LIF, at=0), 0, "vt", [0], [1]), "lif: vt is the threshold of the "),
    ],
)
def test_wrong_networks_are_refused(change, message):
    net, *_ = passive_tree()
    with pytest.raises(InputError, match=message) as error:
        change(net)
        compile(net)
    assert "\n" not in str(error.value)


def test_other_refusals():
    net = one_node_cells(1, 0.0)
    net.insert("pas", [0])
    net.add(LIF, at=0)
    with pytest.raises(InputError, match="lif in node 0 of cell 0 has no capacitance; expected"):
        compile(net)
    net, _ = network("adex")
    with pytest.raises(InputError, match=r"secondorder: .* resets v; expected secondorder=0"):
        compile(net, secondorder=True)
