"""`method exact` against Brian 2, kernel sums and matrix exponentials; refusals."""

import json
from pathlib import Path

import brian_program as brian
import numpy as np
import pytest
from networks import SPIKING_ENGINES, one_node_cells, started

from clhines import InputError, Mechanism, Network
from clhines.core.errors import SimulationError

EXACT = """
point exact
parameter g = 0.01 uS
parameter tau_e = 5 ms
parameter tau_i = 10 ms
parameter rest = 2 ms
state ie = 0 [nA]
state ii = 0 [nA]
die/dt = -ie/tau_e
dii/dt = -ii/tau_i
current i = g*(v + 60) - ie - ii [nA]
on event: ie += where(weight > 0, weight, 0); ii += where(weight > 0, 0, weight)
spike: v > -50 mV
reset: v = -60 mV
refractory: rest
method exact
"""


@pytest.mark.parametrize("engine", SPIKING_ENGINES)
def test_the_exact_method_of_brian(fast_queue, needs, engine):
    """Spikes equal Brian's, and voltages to rounding: both are exact between spikes."""
    data = json.loads(Path(__file__).with_name("brian.json").read_text())
    net = one_node_cells(brian.N, brian.LIF["c"])
    amp, pairs = brian.wiring()
    taus = {f"tau_{of}": tau for of, (tau, _) in brian.EXACT.items()}
    neurons = net.add(EXACT, at=net.soma, **taus)
    for of, (_, weight) in brian.EXACT.items():
        net.connect(pairs[of][0], neurons, pairs[of][1], weight, brian.DELAY * brian.DT)
    net.add("iclamp", at=net.soma, dur=1e9, amp=amp)
    sim = started(net, engine, fast_queue, needs, brian.DT, v_init=brian.LIF["e"])
    number = sim.record("v", np.arange(6), every=10.0)
    result = sim.run(brian.STEPS * brian.DT)
    assert len(data["exact"][0]) > 100
    np.testing.assert_array_equal(brian.in_order(result), data["exact"])
    v = result[number][:-1]
    # 100 mV, rounded in each of 2500 steps, in both programs
    np.testing.assert_allclose(np.where(v > -50, -60, v), data["exact v"], 0, 2500e2 * 2.0**-52)


def kernel(t, tau, tau_m, c):
    """Return v's response [mV] to a current that decays from 1 nA."""
    shape = t if tau == tau_m else (np.exp(-t / tau_m) - np.exp(-t / tau)) / (1 / tau - 1 / tau_m)
    return np.where(t < 0, 0, shape * (np.exp(-t / tau) if tau == tau_m else 1)) / c


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("dt", [0.25, 4.0])
@pytest.mark.parametrize("engine", SPIKING_ENGINES)
def test_the_sum_of_kernels_of_the_spike_response_model(fast_queue, needs, engine, dt, dtype):
    """Compare v with a sum of kernels per event; one kernel decays with the membrane's tau."""
    if (engine, dtype) == ("reference", "float32"):
        pytest.skip("float64 alone")
    rng = np.random.default_rng(5)
    c, tau_m, taus = np.array([0.1, 0.2]), np.array([10.0, 20.0]), (5.0, 10.0)
    net = one_node_cells(2, c)
    group = net.add(EXACT, at=net.soma, rest=0.0)
    times = 4.0 * np.sort(rng.choice(50, 30, replace=False))
    weights = rng.uniform(-0.2, 0.45, (30, 2))
    for cell in range(2):
        net.add_event(group, [cell] * 30, time=times, weight=weights[:, cell])
    sim = started(net, engine, fast_queue, needs, dt, dtype, v_init=-64.0)
    number = sim.record("v", net.soma)
    result = sim.run(200.0)
    t = result.t
    assert len(result.spike_time) > 3
    for cell in range(2):
        begin, v0, left, expected = 0.0, -64.0, np.zeros(2), np.empty(len(t))
        for end in [*result.spike_time[result.spike_cell == cell], 200.0]:
            at = (t > begin) if begin else (t >= 0)
            here, since = at & (t <= end + 1e-9), t - begin
            v = -60 + (v0 + 60) * np.exp(-since / tau_m[cell])
            recent = (times >= begin - 1e-9) & (times < end - 1e-9)
            for k, tau in enumerate(taus):
                positive = (weights[recent, cell] > 0) == (k == 0)
                when, w = times[recent][positive], weights[recent, cell][positive]
                for t0, w0 in [(begin, left[k]), *zip(when, w, strict=True)]:
                    v += w0 * kernel(t - t0, tau, tau_m[cell], c[cell])
                left[k] = left[k] * np.exp((begin - end) / tau) + w @ np.exp((when - end) / tau)
            expected[here] = v[here]
            begin, v0 = end, -60.0
        # v is rounded 800 times at 64 mV, and so are the currents of at most 4 kernels
        np.testing.assert_allclose(result[number][:, cell], expected, 0, 2e5 * np.finfo(dtype).eps)


ADAPTS = """
point adapts
parameter k = 0.02
state x = 0
state y = 0
state w = 0 [nA]
dx/dt = -x/3
dy/dt = (x - y)/3
dw/dt = (k*(v + 60) - w)/30
ib = 0.3 [nA]
current i = 0.01*(v + 60) + w - y [nA]
current j = -ib
on event: x += 2*weight
spike: v > -52 mV
reset: v = -60 mV; w += 0.05
refractory: 3 ms
method exact
"""


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("engine", SPIKING_ENGINES)
def test_an_exact_step_of_coupled_states_and_of_those_in_which_v_is_held(
    fast_queue, needs, engine, dtype
):
    """Compare an alpha function and an oscillating current with powers of a matrix exponential."""
    if (engine, dtype) == ("reference", "float32"):
        pytest.skip("float64 alone")
    dt, c, k = 0.5, 0.2, np.array([0.02, 0.005])
    net = one_node_cells(2, c)
    group = net.add(ADAPTS, at=net.soma, k=k)
    net.add_event(group, [0, 1], time=10.0, weight=0.4)
    sim = started(net, engine, fast_queue, needs, dt, dtype, v_init=-60.0)
    numbers = [sim.record("v", net.soma), *(sim.record(name, group) for name in "xyw")]
    result = sim.run(100.0)
    assert len(result.spike_time) > 8
    for cell in range(2):
        rates = np.zeros((5, 5))  # v, x, y, w, 1
        rates[0] = np.array([-0.01, 0, 1, -1, 0.3 - 0.6]) / c
        rates[1, 1] = -1 / 3
        rates[2] = [0, 1 / 3, -1 / 3, 0, 0]
        rates[3] = np.array([k[cell], 0, 0, -1, 60 * k[cell]]) / 30
        free, held = power(rates * dt), power(rates * [[0], [1], [1], [1], [1]] * dt)
        y, wait, expected, spikes = np.array([-60.0, 0, 0, 0, 1]), 0, [], []
        for step in range(201):
            fires = y[0] > -52
            y[3] += 0.05 * fires
            expected.append(y[:4].copy())
            if fires:
                spikes.append(step)
                y[0], wait = -60.0, 6
            y[1] += 0.8 * (step == 20)
            y, wait = (held if wait else free) @ y, max(0, wait - 1)
        cell_spikes = result.spike_time[result.spike_cell == cell]
        np.testing.assert_array_equal(np.rint(cell_spikes / dt), spikes)
        values = np.stack([result[n][:, cell] for n in numbers], 1)
        scale = np.array([100, 1, 1, 1])  # mV, nA; ten roundings per step
        np.testing.assert_allclose(values / scale, expected / scale, 0, 2000 * np.finfo(dtype).eps)


def power(rates):
    """Return a matrix exponential: the series for 2**-20 times the matrix, squared 20 times."""
    small = np.array(rates, np.longdouble) / 2**20
    change = small + small @ small / 2 + small @ small @ small / 6
    for _ in range(20):
        change = 2 * change + change @ change
    return np.asarray(np.eye(len(rates)) + change, float)


@pytest.mark.parametrize("engine", SPIKING_ENGINES)
def test_an_exact_step_beside_other_mechanisms_and_branches(fast_queue, needs, engine):
    """Other mechanisms' constant currents are exact; leaks and neighbours are of first order."""
    results = {}
    for dt in (0.1, 0.05):
        net = Network.from_arrays([-1, 0], [0, 2], [300.0, 300.0], [0, 0.003], [0.1, 0.05])
        net.add(EXACT, at=[0])
        net.insert("pas", np.arange(2), g=1e-3, e=-70.0)
        net.add("iclamp", at=[0], dur=1e9, amp=0.05)
        sim = started(net, engine, fast_queue, needs, dt, v_init=-60.0)
        v = sim.record("v", [0, 1], every=1.0)
        results[dt] = sim.run(20.0)[v]
    leak = 0.003  # uS: 300 um2 at 1e-3 S/cm2
    rates = np.array([
        [-(0.01 + leak + 0.003) / 0.1, 0.003 / 0.1, (-60 * 0.01 - 70 * leak + 0.05) / 0.1],
        [0.003 / 0.05, -(0.003 + leak) / 0.05, -70 * leak / 0.05],
        [0, 0, 0],
    ])  # fmt: skip
    expected = [np.array([-60.0, -60, 1])]
    for _ in range(20):
        expected.append(power(rates) @ expected[-1])
    errors = [np.abs(results[dt] - np.array(expected)[:, :2]).max() for dt in (0.1, 0.05)]
    assert errors[0] < 0.02 and errors[1] / errors[0] == pytest.approx(0.5, abs=0.05)


def test_a_step_too_long_for_the_exact_method_ends_the_run(fast_queue, needs):
    """Steps up to about 30 time constants are exact; v is not a number beyond."""
    for engine in SPIKING_ENGINES:
        for tau, fails in ((0.04, False), (1e-3, True)):
            net = one_node_cells(1, 0.1)
            net.add(EXACT, at=0, tau_e=tau)
            sim = started(net, engine, fast_queue, needs, dt=1.0, v_init=-61.0)
            number = sim.record("v", 0)
            if fails:
                with pytest.raises(SimulationError):
                    sim.run(5.0)
                continue
            result = sim.run(5.0)[number][:, 0]
            np.testing.assert_allclose(result, -60 - np.exp(-np.arange(6) / 10), 0, 1e-12)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("g*(v + 60)", "g*v^2", "line 10: 'i' is not linear in v and the states with coefficients"),
        ("g*(v + 60)", "g*(v + 60)*ie", "'i' is not linear in v and the states with coefficients"),
        ("-ie/tau_e", "-ie*ie", "line 8: 'die/dt' is not linear in v and the states with coeffic"),
        ("-ie/tau_e", "-ie/(1 + exp(v))", "'die/dt' is not linear in v and the states with coef"),
        ("g*(v + 60)", "g*(v + 60) + sin(t)", "'i' is not linear .* coefficients of parameters a"),
        ("g*(v + 60)", "g*(v + 60) + noise", "'i' is not linear .* coefficients of parameters a"),
        ("exact\n", "exactly\n", "unknown method 'exactly'; expected euler, .*, exact, and 'all'"),
    ],
)
def test_texts_that_the_exact_method_does_not_take(old, new, message):
    text = EXACT.replace("point exact", "point neuron")
    assert old in text
    with pytest.raises(InputError, match=message) as error:
        Mechanism(text.replace(old, new))
    assert "\n" not in str(error.value)


def test_the_exact_method_needs_a_spike():
    text = "point x\nstate s = 0\nds/dt = -s/2\ncurrent i = s\nmethod exact"
    with pytest.raises(InputError, match="'method exact' is for point neurons; expected a line 's"):
        Mechanism(text)
