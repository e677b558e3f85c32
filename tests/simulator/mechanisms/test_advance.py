"""Steps of states against solutions of their equations, and whole simulations on every engine.

The mechanisms of tests/mod against NEURON are in test_library.py.
"""

import numpy as np
import pytest
from mechanism_texts import minimal
from networks import blocks

from bench.ring import ring_cables
from clhines.core.errors import InputError
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.swc import read_swc
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.network.network import Network
from clhines.simulator.simulation import Simulation
from clhines.solver.device.devices import limits


def test_a_division_by_zero_is_that_of_the_device():
    m = Mechanism(minimal("parameter tau = 0\nstate g = 1\ndg/dt = -g/tau\ncurrent i = g/tau"))
    assert m.advance(0.0, 0.0, 0.1, None, {"g": 1.0})["g"] == 0  # exp(-inf)
    assert np.isinf(m.current(0.0, 0.0, None, {"g": 1.0})[0])


EPS = np.finfo(np.float64).eps
POOL = """
    density pool
    parameter g = 0.3 mS/cm2
    parameter tau = 80 ms
    state m = 0.1
    dm/dt = (1/(1 + exp(-(v + 40)/7)) - m)/2
    current ica = g*m*(v - 60)*(1 + 0.3*sin(t))
    state ca = 0.0001 mM
    dca/dt = -0.05*ica - (ca - 0.0001)/tau
    current ik = 0.002*ca/(ca + 0.001)*(v + 80)
"""


def test_currents_in_rates_are_those_before_the_voltage():
    m = Mechanism(POOL)
    assert m.states == ("m", "ca", "v__before")
    old, v, t, dt = {"m": 0.3, "ca": 0.002, "v__before": -50.0}, -20.0, 1.5, 0.025
    after = m.advance(v, t, dt, None, old)
    current = 0.3e-3 * 0.3 * (-50.0 - 60) * (1 + 0.3 * np.sin(t + dt / 2))
    rest = 0.0001 - 0.05 * current * 80
    expected = rest + (0.002 - rest) * np.exp(-dt / 80)
    assert after["ca"] == pytest.approx(expected, rel=1e-14)
    assert after["v__before"] == v
    assert "ica" in m.describe() and "before the voltage solve" in m.describe()


OWN = """
    density own
    state x = 0.5
    dx/dt = -x + 0.5*i
    twice = 2*i
    state y = 0.2
    dy/dt = 1/(1 + twice^2) - y
    current i = {current}
    {method}
"""


METHODS = "", "euler", "rk4", "sparse", "derivimplicit"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("current", ["0.1*x*y*v", "0.1*exp(x*y)*v", "where(x < y, 0, x)/x*v"])
def test_a_current_in_a_rate_is_a_number_whatever_states_are_in_it(current, method):
    line = f"method {method} all\n" if method else ""
    m = Mechanism(OWN.format(current=current, method=line))
    given = Mechanism(
        OWN.format(current="x*v", method=line)
        .replace("0.5*i", "0.5*before")
        .replace("2*i", "2*before")
        .replace("density own", "density own\n    parameter before = 0")
    )
    old, v, dt = {"x": 0.4, "y": 0.3}, -30.0, 0.1
    states = {**old, "v__before": -50.0}
    before = float(m.current(-50.0, 1.0, None, states)[0])
    after = m.advance(v, 1.0, dt, None, states)
    expected = given.advance(v, 1.0, dt, {"before": before}, old)
    for name in old:
        assert after[name] == pytest.approx(float(expected[name]), rel=1e-13)
    if not method:
        x = 0.5 * before + (0.4 - 0.5 * before) * np.exp(-dt)
        assert after["x"] == pytest.approx(x, rel=1e-14)


@pytest.mark.parametrize("method", METHODS)
def test_devices_take_a_current_in_a_rate_as_the_reference_does(double_queue, method):
    text = OWN.format(
        current="0.001*exp(x*y)*(v + 50)", method=f"method {method} all" if method else ""
    )
    results = []
    for engine in ("epochs", "reference"):
        net = Network(ring_cables(1, levels=2, compartments=3, seed=1), 2)
        net.insert("pas")
        group = net.insert(text)
        where = {"queue": double_queue} if engine == "epochs" else {}
        sim = Simulation(net, dt=0.025, engine=engine, **where)
        sim.record("x", group)
        sim.record("y", group)
        results.append(np.concatenate(sim.run(0.5).values, axis=1))
    np.testing.assert_allclose(*results, rtol=1e-11)


BUFFER = """
    density buffer
    parameter g = 0.002
    state a = 0.2
    state b = 0.8
    da/dt = 0.3*b^2*exp(v/40) - 0.5*a
    db/dt = 0.5*a - 0.3*b^2*exp(v/40)
    current i = g*a*(v + 20)
    method derivimplicit
"""
SPARSE = """
    density three
    f = 0.9*exp(v/30) [1/ms]
    state c = 0.7
    state o = 0.2
    state i1 = 0.1
    dc/dt = 0.2*o - f*c
    do/dt = f*c - 0.2*o - 0.1*o + 0.05*i1
    di1/dt = 0.1*o - 0.05*i1
    current i = 0.001*o*(v - 10)
    method sparse
"""


def make_network(cells=5):
    net = Network(ring_cables(2, levels=2, compartments=3, seed=1), cells)
    net.insert("pas")
    pool = net.insert(POOL, at=net.soma)
    net.insert(BUFFER)
    net.insert(SPARSE, at=net.soma)
    net.insert("hh", at=net.soma)
    synapses = net.add("expsyn", net.soma, tau=2.0)
    net.connect(range(cells), synapses, index=np.roll(range(cells), 1), weight=0.02, delay=1.0)
    net.add_event(synapses, index=0, time=1.0, weight=0.05)
    clamps = net.add("inoise", net.soma, mean=0.05, std=0.02)
    return net, pool, clamps


@pytest.mark.parametrize("engine", ["epochs", "steps", "blocks"])
def test_every_engine_does_what_the_reference_does(double_queue, engine):
    results = []
    for which in (engine, "reference"):
        net, pool, _ = make_network()
        options = {} if which == "reference" else {"queue": double_queue}
        make = blocks(limits(double_queue.device)) if which == "blocks" else which
        sim = Simulation(net, dt=0.025, engine=make, **options)
        records = sim.record("v", net.soma), sim.record("ca", pool), sim.record("v__before", pool)
        whole = sim.run(20.0)
        results.append([whole[r] for r in records])
        np.testing.assert_array_equal(whole[records[2]], whole[records[0]])
    for got, expected in zip(*results):
        size = np.abs(expected).max()
        assert np.abs(got - expected).max() <= 1e-9 * size


def test_what_is_saved_goes_on(double_queue, tmp_path):
    net, pool, _ = make_network()
    sim = Simulation(net, dt=0.025, queue=double_queue)
    record = sim.record("ca", pool)
    sim.run(5.0)
    sim.save(tmp_path / "state.npz")
    whole = sim.run(5.0)[record]
    sim.restore(tmp_path / "state.npz")
    assert (sim.run(5.0)[record] == whole).all()


@pytest.mark.parametrize("dt", [0.1, 0.025])
def test_the_deviation_of_the_voltage_does_not_depend_on_the_step(tmp_path, dt):
    """Compare with implicit Euler's, ``s^2 tau / (2 C^2) / (1 + dt/(2 tau))``, from 400 cells."""
    cells, g, std = 400, 1e-3, 0.01
    (tmp_path / "soma.swc").write_text("1 1 0 0 0 10 -1\n")
    net = Network(discretise(read_swc(tmp_path / "soma.swc")), cells)
    net.insert("pas", g=g, e=-65.0)
    net.add("inoise", net.soma, std=std)
    sim = Simulation(net, dt=dt, engine="reference")
    v = sim.record("v", net.soma)
    tau = 1e-3 * 1.0 / g  # ms, with 1 uF/cm2
    values = sim.run(60.0)[v][round(10 / dt) :: round(2 / dt)]
    capacitance = 1e-5 * net.area[net.soma[0]]  # nF
    variance = std**2 * tau / (2 * capacitance**2) / (1 + dt / (2 * tau))
    count = values.size  # 2 time constants: correlation exp(-2)
    bound = 5 * np.sqrt(2 / count * (1 + 2 * np.exp(-4) / (1 - np.exp(-4))))
    assert abs(np.var(values + 65.0) / variance - 1) <= bound


def test_noise_is_divided_by_the_root_of_the_step():
    m = Mechanism(minimal("current i = 3*noise + dt", "point"))
    i, _ = m.current(0.0, 0.0, None, {}, np.array([1.0, -2.0]), dt=0.04)
    np.testing.assert_allclose(i, [15.04, -29.96], rtol=4 * EPS)
    with pytest.raises(InputError, match="needs noise and dt"):
        m.current(0.0, 0.0, None, {}, 1.0)


def test_actions_of_an_event_use_the_values_before_it():
    lines = "state a = 1\nstate b = 2\nstate c = 4\ncurrent i = a*v\ntwice = 2*weight"
    m = Mechanism(minimal(f"{lines}\non event: a = b; b -= a*twice\non event: c /= 2", "point"))
    states = {"a": np.ones(3), "b": np.full(3, 2.0), "c": np.full(3, 4.0)}
    after = m.event(np.array([0.0, 1.0, 3.0]), None, states)
    assert after["a"].tolist() == [2, 2, 2]
    assert after["b"].tolist() == [2, 0, -4]
    assert after["c"].tolist() == [2, 2, 2]
    assert states["a"].tolist() == [1, 1, 1]


def test_noise_in_a_rate_is_exact_in_the_step(queue, needs):
    """Mean, variance and correlation of an Ornstein-Uhlenbeck process, with steps of tau/2.

    From 4,000 independent values a variance has a relative standard error of sqrt(2/4000), 2 %,
    and the other estimates less. The bounds are five standard errors, with one seed.
    """
    needs(queue, "float64")
    count, tau, std, dt = 4000, 5.0, 2.0, 2.5
    text = f"""
        density noisy
        state x = 1
        dx/dt = (1 - x)/{tau} + {std}*sqrt(2/{tau})*noise
        current i = 0*x*v
    """
    net = Network.from_arrays(
        [-1] * count, np.arange(count + 1), [1e3] * count, [0.0] * count, [0.01] * count
    )
    group = net.insert(text)
    sim = Simulation(net, dt, queue=queue)
    x = sim.record("x", group)
    rows = sim.run(20 * tau)[x] - 1.0
    last, before = rows[-1], rows[-2]
    five = 5 / np.sqrt(count)
    assert abs(last.mean()) < five * std
    assert abs(last.var() / std**2 - 1) < five * np.sqrt(2)
    assert abs((last * before).mean() / std**2 - np.exp(-dt / tau)) < five
    assert abs((last[1:] * last[:-1]).mean() / std**2) < five
    assert abs(rows[1].var() / std**2 - (1 - np.exp(-2 * dt / tau))) < five * np.sqrt(2)


def test_events_that_do_more_than_add_act_one_by_one(queue, needs):
    needs(queue, "float64")
    text = "point few\nstate n = 0\nstate g = 1\ncurrent i = 0*v*n*g\n"
    text += "on event: n += 1; g += weight*(3 - g)"
    results = []
    for times in ([1.0, 1.0], [1.0, 2.0]):
        net = Network.from_arrays([-1], [0, 1], [1e3], [0.0], [0.01])
        group = net.add(text, net.soma)
        net.add_event(group, 0, times, [0.5, 0.25])
        sim = Simulation(net, 0.1, queue=queue)
        numbers = sim.record("n", group), sim.record("g", group)
        result = sim.run(3.0)
        results.append([result[k][-1, 0] for k in numbers])
    assert results[0] == results[1] == [2.0, 2.25]


@pytest.mark.parametrize("given", [False, True])
def test_noise_in_a_rate_differs_in_copies(given, queue, needs):
    """The first copy has the model's noise."""
    needs(queue, "float64")
    net = Network.from_arrays([-1, -1], [0, 1, 2], [1e3] * 2, [0.0] * 2, [0.01] * 2)
    group = net.add("ou_conductance", net.soma)
    if given:
        net.random(group, "noise", [[7, 8, 9], [7, 8, 10]])
    sim = Simulation(net, 0.1, queue=queue)
    alone = sim.record("g_e", group)
    copies = sim.replicate(3)
    number = copies.record("g_e", copies.network.groups[0])
    rows = copies.run(0.5)[number]
    np.testing.assert_allclose(rows[:, :2], sim.run(0.5)[alone], rtol=1e-13)
    assert len({*rows[-1].tolist()}) == 6
