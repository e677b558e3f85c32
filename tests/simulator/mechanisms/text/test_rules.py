"""Rules of plasticity as texts: Brian 2's weights, equal bits on every engine, refusals."""

import json
import pickle
from pathlib import Path
from types import SimpleNamespace

import brian_program as brian
import networks
import numpy as np
import pytest
from deliveries import PlasticDevice

from clhines import STDP, InputError, Network, Rule, Simulation
from clhines.simulator.mechanisms.text.rules import read_rule
from clhines.simulator.model.connections import GridConnections
from clhines.simulator.state.host_grid import settled
from clhines.solver.device import devices


def engines(queue):
    return ["steps", *(["epochs-cpu"] if devices.is_cpu(queue.device) else []), "epochs-gpu"]


LIF = """
point lif
parameter g = 0.01 uS
current i = g*(v + 60) [nA]
spike: v > -50
reset: v = -60
refractory: 2 ms
"""
SOFT = """
rule soft                       # bounds are approached; own traces are read, after and before
parameter a = 5e-2
parameter most = 0.01
pre trace x
dx/dt = -0.1*x
post trace y
dy/dt = -y/(2*15)
synapse trace e
de/dt = -e/50 [1/ms]
on pre: x += 1; e = max(e - y, 0) - 0.01*x; w -= a*w*y
on post: e += x*(1 + y); w += where(e > 0.2, a*(most - w)*x, 0); y = 1
on reward: w *= 1 + reward*e; e = 0
bounds: 0 <= w <= most
"""
RULES = {
    "stdp": STDP(1e-4, 1.1e-4, w_max=0.01),
    "triplet": Rule(
        "triplet", a2_plus=1e-5, a3_plus=1e-4, a2_minus=1e-4, a3_minus=1e-5, w_max=0.01
    ),
    "dopamine": Rule("dopamine", rate=1e-4, w_max=0.01),
    "soft": Rule(SOFT),
}


def network(rule, exact=False, count=12):
    """Return point neurons that drive each other through plastic and fixed connections."""
    rng = np.random.default_rng(3)
    cells = np.full(count, -1), np.arange(count + 1)
    net = Network.from_arrays(*cells, [2e4] * count, [0.0] * count, [0.281] * count)
    net.threshold = -50.0
    net.add(LIF, at=net.soma)
    net.add("iclamp", at=net.soma, dur=1e9, amp=rng.uniform(0.12, 0.4, count))
    synapse = net.add("expsyn", at=net.soma, tau=5.0)
    source, target = np.nonzero(rng.random((count, count)) < 0.4)
    weight, delay = rng.uniform(0.001, 0.004, len(source)), rng.integers(1, 20, len(source)) * 0.1
    net.connect(source, synapse, target, weight, delay, rule)
    net.connect(source[:5], synapse, target[:5], 0.02, 1.0)  # above the bounds
    if exact:
        net.connect(net.add_detector(net.soma[:2], -55.0), synapse, [2, 3], 0.001, 0.05)
    return net


def run(rule, engine, queue, exact=False, stop=None, path=None):
    """Return weights and spikes of a run with rewards; from `stop`, save, run on, and restore."""
    net = network(rule, exact)
    sim = Simulation(net, 0.1, v_init=-60.0, queue=queue, engine=engine)
    rewards, spikes, weights = "reward" in rule.about.actions, [], []
    for k, reward in enumerate((0.1, 0.5, -0.3)):
        if rewards:
            sim.reward(reward)
        spikes.append(sim.run(20.0))
        weights.append(sim.weights())
        if k == stop:
            sim.save(path)
            sim.run(5.0)
            if rewards:
                sim.reward(3.0)
            sim.restore(path)
    return sim, np.array(weights), np.concatenate([s.spike_time for s in spikes])


@pytest.mark.optimised
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_the_bits_of_the_reference(double_queue, name, exact, tmp_path):
    rule, path = RULES[name], tmp_path / "state.npz"
    sim, expected, spikes = run(rule, "reference", double_queue, exact)
    assert sim.model.exact is exact
    plastic = sim.model.given_weights <= 0.01
    first = np.abs(expected[-1] - sim.model.given_weights)
    assert len(spikes) > 100 and (first[plastic] > 0).mean() > 0.8 and not first[~plastic].any()
    for number, engine in enumerate(engines(double_queue)):
        sim, weights, times = run(rule, engine, double_queue, exact, number % 2, path)
        assert sim.engine == engine
        np.testing.assert_array_equal(times, spikes)
        np.testing.assert_array_equal(weights, expected)
        other = Simulation(network(rule, exact), 0.1, v_init=-60.0, engine="reference")
        other.restore(path)  # another engine continues from the state
        np.testing.assert_array_equal(other.weights(), expected[number % 2])


@pytest.mark.parametrize("name", brian.RULES)
def test_weights_of_brian(double_queue, name):
    """Compare weights with Brian's after each step with prescribed spikes.

    Brian computes t - (last time) from times up to T: its traces are off by T/tau roundings per
    spike. The error of rk4 in a step h of exp(-t/tau) is (h/tau)^5/120.
    """
    data = json.loads(Path(__file__).with_name("brian.json").read_text())
    source, target, weight, trains = brian.plastic_wiring()
    dt, parameters = brian.PLASTIC_DT, brian.RULES[name][0]
    rule = Rule(name, **parameters)
    wires = GridConnections(source, target, weight, 1, brian.CELLS, brian.CELLS, True, rule)
    assert min(rule.times.values()) == 4.0
    ran = PlasticDevice(double_queue, wires, rule, np.arange(brian.CELLS), True, "pull", 64, dt=dt)
    rows, rng = [], np.random.default_rng(0)
    for step in range(brian.PLASTIC_STEPS):
        ran.epoch(trains, step, 1, rng)
        state = settled(SimpleNamespace(connections=wires, dt=dt), ran.plasticity.state(), step)
        rows.append(state["plastic_weight"])
        if name == "dopamine" and step in brian.REWARDS:
            ran.plasticity.reward(brian.REWARDS[step], step)
    expected = np.array(data[f"weights of {name}"])
    time, spikes = brian.PLASTIC_STEPS * dt, trains.sum(axis=0).max()
    moved = np.abs(np.diff(expected, axis=0)).sum(axis=0).max()
    tolerance = spikes * (time / 4.0) * 2 * np.finfo(float).eps * (moved + 1)
    if name == "dopamine":
        local = sum((dt / rule.times[x]) ** 5 / 120 for x in ("c", "d", "w"))
        tolerance += brian.PLASTIC_STEPS * local * moved
        assert expected.min() > 0 and expected.max() < rule.w_max  # Brian has no bounds there
    assert moved > 0.1 and tolerance < 1e-8
    np.testing.assert_allclose(rows, expected, rtol=0, atol=tolerance)


@pytest.mark.core
def test_a_reward_by_hand(double_queue):
    """Compare one eligible connection and decaying dopamine with their integral in closed form."""
    rule = Rule("dopamine", a_plus=0.5, tau_c=100.0, tau_d=50.0, rate=0.01)
    for engine in ("reference", *engines(double_queue)):
        net = network(rule, count=2)
        net.groups[1].parameters["amp"] = 0.0
        sim = Simulation(net, 0.1, v_init=-60.0, queue=double_queue, engine=engine)
        first = sim.weights()
        sim.run(1.0)
        sim.reward(2.0)
        sim.run(10.0)
        np.testing.assert_array_equal(sim.weights(), first)  # no connection is eligible
        saved = sim.arrays()
        saved["plastic_trace_synapse"][:] = 0.3
        saved["plastic_step_synapse"][:] = sim.step - 1
        saved["plastic_trace_synapse1"][:] = 2.0
        networks.go_on(sim, sim.step, saved)
        sim.run(5.0)
        tau = 1 / (1 / 100.0 + 1 / 50.0)
        change = 0.01 * 0.3 * 2.0 * tau * -np.expm1(-5.0 / tau)
        plastic = sim.model.connections.plastic
        np.testing.assert_allclose((sim.weights() - first)[plastic], change, rtol=1e-13)
        sim.set(weight=first)  # for the rest of the run
        np.testing.assert_array_equal(sim.weights()[plastic], first[plastic])
        sim.run(700.0)  # the remaining eligibility is 1e-9 of the first
        rest = 0.01 * 0.3 * 2.0 * tau * np.exp(-5.0 / tau)
        np.testing.assert_allclose((sim.weights() - first)[plastic], rest, rtol=1e-8)
        sim.reset()
        np.testing.assert_array_equal(sim.weights(), first)


@pytest.mark.core
def test_quotients_near_0_are_rounded_as_written():
    text = "rule near\npre trace x\ndx/dt = -x/5\non pre: w = (x - 1)/tanh((x - 1)/5); x += 1\n"
    rule = read_rule(text + "bounds: 0 <= w <= 9")
    x = 1 + np.array([1e-13, -3e-12, 1e-11, 0.1])
    values = {"x_": x, "w_": np.zeros(4), "least": 0.0, "most": 9.0}
    rule.act("pre", "synapse", values)
    np.testing.assert_allclose(values["w_"], (x - 1) / np.tanh((x - 1) / 5), rtol=1e-14)


def test_files_copies_and_populations(double_queue, tmp_path):
    rule = RULES["dopamine"]
    net = network(rule)
    net.save(tmp_path / "net.npz")
    again = Network.load(tmp_path / "net.npz")
    sim = Simulation(again, 0.1, v_init=-60.0, queue=double_queue)
    assert sim.model.connections.rule == rule == pickle.loads(pickle.dumps(rule))
    twice = sim.replicate(2)
    for one in (sim, twice):
        one.run(20.0)
        one.reward(0.5)
        one.reward(0.1)
        one.run(20.0)
    np.testing.assert_array_equal(twice.weights().reshape(2, -1), np.tile(sim.weights(), (2, 1)))
    assert (sim.weights() != sim.model.given_weights).any()


def test_a_weight_that_is_no_number_ends_the_run(double_queue):
    rule = Rule(
        "rule bad\npost trace y\ndy/dt = -y/5\non pre: w += sqrt(y - 1)\nbounds: 0 <= w <= 1"
    )
    for engine in ("reference", *engines(double_queue)):
        sim = Simulation(network(rule), 0.1, v_init=-60.0, queue=double_queue, engine=engine)
        with pytest.raises(InputError, match="rule bad: a weight or a trace is no finite"):
            sim.run(50.0)


def test_rewards_that_are_refused(double_queue):
    sim = Simulation(network(RULES["stdp"]), 0.1, queue=double_queue)
    with pytest.raises(InputError, match="no connection has a rule with 'on reward:'"):
        sim.reward(1.0)
    sim = Simulation(network(RULES["dopamine"]), 0.1, queue=double_queue)
    with pytest.raises(InputError, match="reward is nan; expected a finite number"):
        sim.reward(np.nan)


HEAD = "rule r\nparameter a = 1\nparameter tau = 5 ms\n"
BODY = "pre trace x\ndx/dt = -x/tau\npost trace y\ndy/dt = -y/tau\nsynapse trace c\ndc/dt = -c/9\n"
TAIL = "on pre: w += a; x += 1\nbounds: 0 <= w <= a\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the text of the rule is empty; expected 'rule NAME' first"),
        ("nearest", r"unknown rule 'nearest'; expected one of stdp, triplet, dopamine"),
        ("point r\n", "line 1: expected 'rule NAME' as the rule's first statement"),
        (HEAD + "state x = 1\n", "line 4: cannot read this statement; expected 'parameter NAME ="),
        (HEAD + "paramter b = 1\n", "did you mean 'parameter'?"),
        (HEAD + "on pre: w += b\n", "unknown symbol 'b'"),
        (HEAD + "on pre: w += v\n", "unknown symbol 'v'"),
        (HEAD + "on pre: w += weight\n", "unknown symbol 'weight'"),
        (HEAD + "on pre: w + a\n", "cannot read the action"),
        (HEAD + "on pre: w += a*(1\n", "brackets of 'w' do not match"),
        (HEAD + "on pre: w += 1/0\n", "'w' is not a finite real number"),
        (HEAD + "on pre: w += a\non pre: w -= a\n", "'on pre:' is given twice"),
        (HEAD + "on pre: w += a; w -= a\n", "the pre changes 'w' twice"),
        (HEAD + "on pre: a += 1\n" + TAIL, "'on pre:' is given twice"),
        (HEAD + BODY + "on post: a = 1\n" + TAIL, "'a' is a parameter, which 'on post:' cannot"),
        (HEAD + BODY + "on post: q = 1\n" + TAIL, "'q' is no trace; expected w or a trace"),
        (HEAD + BODY + "on post: x += 1\n" + TAIL, "cannot change 'x', a trace of the source"),
        (HEAD + BODY + "on reward: y += 1\n" + TAIL, "cannot change 'y', a trace of the postsyn"),
        (HEAD + BODY + "on reward: w += y\n" + TAIL, "'on reward:' does not know 'y', a trace of"),
        (HEAD + BODY + "on post: w += reward\n" + TAIL, "'reward' is known in 'on reward:', not"),
        (HEAD + BODY + "on post: y += w\n" + TAIL, "cannot depend on 'w', of the connection"),
        (HEAD + BODY + "on post: y += x\n" + TAIL, "cannot depend on 'x', of the source"),
        (HEAD + BODY + "on post: y += c\n" + TAIL, "cannot depend on 'c', of the connection"),
        (HEAD + "pre trace x\n" + TAIL, "'x' has no line 'dx/dt = -x/TAU'"),
        (HEAD + "dx/dt = -x/tau\n" + TAIL, "unknown symbol 'x'"),
        (HEAD + "dx/dt = -1/tau\n" + TAIL, "'x' is no trace; expected a line 'pre trace x'"),
        (HEAD + "pre trace x\ndx/dt = -x^2/tau\n" + TAIL, "'dx/dt' is no decay of x alone"),
        (HEAD + "pre trace x\ndx/dt = 1 - x/tau\n" + TAIL, "'dx/dt' is no decay of x alone"),
        (HEAD + "pre trace x\ndx/dt = -x*w\n" + TAIL, "'dx/dt' is no decay of x alone"),
        (HEAD + "pre trace x\ndx/dt = x/tau\n" + TAIL, "'x' does not decay"),
        (HEAD + "pre trace x\ndx/dt = -x/(tau - 5)\n" + TAIL, "'dx/dt' is not a finite real"),
        (HEAD + "pre trace w\n", "'w' has a meaning already"),
        (HEAD + "pre trace a\n", "'a' is defined twice, first in line 2"),
        (HEAD + "pre trace x_\n", "names have no double or last underscore"),
        (HEAD + BODY + "dw/dt = c*x\n" + TAIL, "'dw/dt' is no product of the connection's own"),
        (HEAD + BODY + "dw/dt = -w/tau\n" + TAIL, "'dw/dt' is no product of the connection's"),
        (HEAD + BODY + "dw/dt = c + c^2\n" + TAIL, "'dw/dt' is no product of the connection's"),
        (HEAD + BODY + "dw/dt = a\n" + TAIL, "'dw/dt' is no product of the connection's own"),
        (HEAD + BODY + "on pre: w += a", "rule r has no line 'bounds: LOW <= w <= HIGH'"),
        (HEAD + BODY + "bounds: 0 <= w <= a", "rule r changes no weight"),
        (HEAD + "bounds: 0 <= w <= x", "'bounds:' has 'x'; expected a parameter or a number"),
        (HEAD + "on pre: w += a\nbounds: 2 <= w <= a", "2 is 2.0, above a, 1.0"),
        (HEAD + "bounds: 0 <= w <= 1\nbounds: 0 <= w <= 1", "'bounds:' is given twice, first in"),
    ],
)
def test_texts_that_are_refused(text, message):
    with pytest.raises(InputError) as error:
        Rule(text)
    said = str(error.value)
    assert message in said and "\n" not in said and len(said) < 400


def test_names_that_begin_alike(double_queue):
    """Each kernel reads the right trace: `a` and `a_w` belong to cells and to connections."""
    text = """
        rule alike
        pre trace a
        da/dt = -a/5
        synapse trace a_w
        da_w/dt = -a_w/5
        synapse trace w_a
        dw_a/dt = -w_a/9
        on pre: a += 1; w_a += a_w
        on post: a_w += 1e-3
        on reward: w += reward*w_a
        bounds: 0 <= w <= 0.01
    """
    rule = Rule(text)
    _, expected, _ = run(rule, "reference", double_queue)
    _, weights, _ = run(rule, "steps", double_queue)
    np.testing.assert_array_equal(weights, expected)
    assert (weights[-1] != weights[0]).any()


def test_rules_that_are_refused():
    for make, message in (
        (lambda: Rule(1), "rule is int; expected a text"),
        (lambda: Rule("stdp", tau=1), "unknown parameter 'tau'; known are a_plus"),
        (lambda: Rule("stdp", a_plus="x"), "a_plus is 'x'; expected a finite number"),
        (lambda: Rule("stdp", tau_plus=-1.0), "'x' does not decay"),
        (lambda: Rule("stdp", w_min=2.0), "w_min is 2.0, above w_max, 1.0"),
        (lambda: Rule("stdp", text="x"), "unknown parameter 'text'"),
        (lambda: STDP(0.1, 0.1, tau_plus=1e7).decay(1e7, 0.1), "too long for steps of 0.1 ms"),
    ):
        with pytest.raises(InputError, match=message):
            make()
    rule = Rule("stdp", a_plus=0.1)
    with pytest.raises(AttributeError, match="a rule cannot change"):
        rule.w_max = 3.0
    assert rule == Rule("stdp", a_plus=0.1) != Rule("stdp") and {rule: 1}[Rule("stdp", a_plus=0.1)]
