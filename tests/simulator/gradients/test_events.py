"""Gradients through events and ions on devices, against `reference` and central differences."""

import central_differences
import numpy as np
import pytest

from clhines import InputError, Mechanism, Network, Simulation
from clhines.simulator.gradients.by_device import DeviceGradient
from clhines.simulator.gradients.events import EventConnections, step_times
from clhines.simulator.network.times import SPIKE_LATE

DT = 0.05
POOL = """NEURON { SUFFIX outer USEION ca READ ica, cai, cao WRITE cao RANGE depth }
PARAMETER { depth = 5 }
ASSIGNED { ica cai }
STATE { cao (mM) }
INITIAL { cao = 2 }
BREAKPOINT { SOLVE states METHOD cnexp }
DERIVATIVE states { cao' = ica/depth - (cao - 2 - cai)/20 }
"""

LIF = """
point neuron
parameter tau = 12 ms
parameter drive = 1.2 nA
state w = 0 nA
dw/dt = -w/tau
current i = 0.02*(v + 65) + w - drive
spike: v > -50
reset: v = -65; w += 0.1
refractory: 1 ms
"""
EXP2 = """NEURON { POINT_PROCESS exptwo NONSPECIFIC_CURRENT i RANGE tau1, tau2, e }
PARAMETER { tau1 = 0.4 tau2 = 3 e = 0 }
ASSIGNED { v i factor }
STATE { A B }
INITIAL {
    LOCAL tp
    tp = (tau1*tau2)/(tau2 - tau1)*log(tau2/tau1)
    factor = 1/(exp(-tp/tau2) - exp(-tp/tau1)) A = 0 B = 0 }
BREAKPOINT { SOLVE states METHOD cnexp i = (B - A)*(v - e) }
DERIVATIVE states { A' = -A/tau1 B' = -B/tau2 }
NET_RECEIVE(weight) { A = A + weight*factor B = B + weight*factor }
"""
BLOCKED = """NEURON { POINT_PROCESS blocked NONSPECIFIC_CURRENT i RANGE tau }
PARAMETER { tau = 3 }
ASSIGNED { v i }
STATE { g r }
INITIAL { g = 0 r = 0 }
BREAKPOINT { SOLVE states METHOD cnexp r = 0.01*(v + 80) i = g*v }
DERIVATIVE states { g' = -g/tau }
NET_RECEIVE(w) { g = g + w*r }
"""
RELAY = """NEURON { ARTIFICIAL_CELL relay }
NET_RECEIVE(w) { net_event(t) }
"""


def cables(cells):
    """Return cells with three nodes each."""
    parent = np.concatenate([[-1, 3 * k, 3 * k + 1] for k in range(cells)])
    arrays = [300.0] * 3 * cells, [0.0, 0.1, 0.1] * cells, [0.003] * 3 * cells
    return Network.from_arrays(parent, 3 * np.arange(cells + 1), *arrays)


def ring(seed=1, cells=5, synapse="exp2syn"):
    """Return cells that excite each other after random delays; one node has two synapses."""
    rng = np.random.default_rng(seed)
    net = cables(cells)
    hh = net.insert("hh", net.soma, gnabar=rng.uniform(0.1, 0.14, cells))
    net.insert("pas", np.setdiff1d(np.arange(3 * cells), net.soma), g=1e-4, e=-65.0)
    nodes = 3 * np.repeat(np.arange(cells), 2) + 1
    synapses = net.add(synapse, nodes, tau1=rng.uniform(0.3, 0.6, 2 * cells))
    count = 4 * cells
    source, target = rng.integers(cells, size=count), rng.integers(2 * cells, size=count)
    delay = DT * rng.integers(10, 40, count)
    net.connect(source, synapses, target, 0.003 * rng.uniform(0.5, 1.5, count), delay)
    clamp = net.add("iclamp", net.soma[:2], delay=0.5, dur=2.0, amp=rng.uniform(0.5, 1.0, 2))
    net.add_event(synapses, 3, 1.0, 0.002)
    of = [(hh, "gnabar"), (synapses, "tau1"), (synapses, "e"), (clamp, "amp")]
    return net, of, [("v", net.soma), ("B", synapses)]


def same_cells(seed=1, cells=6):
    """Return equal cells, lanes of vectors on CPUs; some have an additional synapse."""
    net, of, records = ring(seed, cells)
    extra = net.add("expsyn", net.soma, tau=2.0)
    net.connect([0, 1], extra, [2, 5], [0.001, 0.002], [0.7, 1.0])
    return net, [*of, (extra, "tau")], [*records, ("g", extra)]


def spiking_points(seed=1, cells=5):
    rng = np.random.default_rng(seed)
    one = [1e4] * cells, [0.0] * cells, [0.1] * cells
    net = Network.from_arrays([-1] * cells, np.arange(cells + 1), *one)
    lif = net.add(LIF, net.soma, drive=rng.uniform(0.5, 0.9, cells))
    synapse = net.add("expsyn", net.soma, tau=2.0)
    net.connect(np.arange(cells), synapse, rng.integers(cells, size=cells), 0.01, 1.5)
    net.connect(np.arange(cells), synapse, np.arange(cells)[::-1], 0.02, DT)
    return net, [(lif, "tau"), (lif, "drive"), (synapse, "tau")], [("v", net.soma), ("w", lif)]


def exact(seed=1, cells=4):
    """Return a ring with exact event times, and a train with times between steps."""
    net, of, records = ring(seed, cells, Mechanism.from_nmodl(EXP2))
    train = net.spike_source([[0.31, 0.32, 1.234]])
    net.connect(train, net.groups[2], [1], 0.004, 0.2)
    return net, of, records


def calcium(seed=1, cells=1):
    """Return cells in which calcium enters, changes its potential and opens potassium channels."""
    rng = np.random.default_rng(seed)
    net = cables(cells)
    nodes = np.arange(3 * cells)
    ca = net.insert("ca_l", nodes, gbar=rng.uniform(0.001, 0.003, len(nodes)))
    pool = net.insert("ca_pool", nodes, gamma=0.4, decay=rng.uniform(10, 20, len(nodes)))
    sk = net.insert("sk", net.soma)
    net.insert("pas", nodes, g=1e-4, e=-50.0)
    clamp = net.add("iclamp", net.soma, delay=0.1, dur=8.0, amp=0.4)
    of = [(ca, "gbar"), (pool, "gamma"), (pool, "decay"), (sk, "gbar"), (clamp, "amp")]
    return net, of, [("cai", nodes[1:]), ("z", sk), ("v", net.soma), ("ica", [0])]


def outside(seed=1):
    """Return cells in which one mechanism reads the concentration that another one writes."""
    net, of, _ = calcium(seed)
    outer = net.insert(Mechanism.from_nmodl(POOL), [0, 1])
    return net, [*of, (outer, "depth")], [("cao", [0, 1]), ("eca", [1]), ("v", [2])]


NETWORKS = [ring, same_cells, spiking_points, exact, calcium, lambda s: calcium(s, 5), outside]
NAMES = "ring copies points exact calcium calcium_copies outside".split()


def simulation(net, records, **options):
    sim = Simulation(net, DT, **options)
    for name, where in records:
        sim.record(name, where, every=DT if name != "ica" else 2 * DT)
    return sim


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("build", NETWORKS, ids=NAMES)
def test_gradients_are_those_of_the_reference(fast_queue, build, seed, monkeypatch):
    """Compare device gradients with `reference`; the second ones store 13 steps at most."""
    if seed == 2:
        monkeypatch.setattr(DeviceGradient, "slots", lambda _: 14)
    net, of, records = build(seed)
    of = [*of, "v_init", "cm", *(["weight"] if net.connections else [])]
    sims = [simulation(net, records, **g) for g in ({"engine": "reference"}, {"queue": fast_queue})]
    rows, _ = central_differences.rows_of(sims[0], 8.0, len(records))
    loss = central_differences.weighted_squares(rows, seed)
    expected, result = (sim.gradient(8.0, loss, of) for sim in sims)
    assert result.how == "reverse, on the device"
    assert result.value == pytest.approx(expected.value, rel=1e-12)
    for one in of:
        size = np.abs(expected[one]).max()
        assert size > 0, one
        np.testing.assert_allclose(result[one], expected[one], atol=1e-11 * size)


@pytest.mark.parametrize("build", NETWORKS, ids=NAMES)
def test_gradients_are_central_differences(fast_queue, build):
    net, of, records = build(1)
    sim = simulation(net, records, queue=fast_queue)
    central_differences.check_parameters(sim, 8.0, len(records), of, size=1e-6)


def trains(artificial):
    """Return cells with events of trains, of cells and from outside, in this order.

    With `artificial`, some of them are at exact times.
    """
    net = cables(2)
    net.insert("hh", net.soma)
    synapses = net.add("expsyn", net.soma, tau=2.0)
    train = net.spike_source([[0.5, 1.0, 1.0], [2.0]])
    if artificial:
        cell = net.add_artificial(Mechanism.from_nmodl(RELAY), 1)
        net.connect(train, cell, [0], weight=1.0, delay=0.5, source_index=[1])
        net.connect(cell, synapses, [1], weight=0.001, delay=0.3, source_index=[0])
    net.connect(train, synapses, [0, 1, 1], weight=[0.004, 0.02, 0.003], source_index=[0, 1, 0])
    net.connect([1, 0], synapses, weight=0.002)
    net.add_event(synapses, [0, 1], time=[3.0, 3.0], weight=0.02)
    return net, [], [("v", net.soma)]


def depressing():
    """Return cells with a synapse that depresses, whose events act one by one, beside others."""
    net = cables(2)
    net.insert("hh", net.soma)
    for name in ("tsodyks_markram", "expsyn"):
        synapses = net.add(name, net.soma)
        net.connect([1, 0], synapses, weight=[0.004, 0.003], delay=1.0)
    net.add("iclamp", net.soma, delay=0.5, dur=10.0, amp=0.3)
    return net, [], [("v", net.soma)]


def blocked():
    """Return cells whose events read a state that BREAKPOINT sets."""
    net = cables(2)
    net.insert("hh", net.soma)
    synapses = net.add(Mechanism.from_nmodl(BLOCKED), net.soma)
    net.connect([1, 0], synapses, weight=[0.004, 0.003], delay=1.0)
    net.add("iclamp", net.soma, delay=0.5, dur=10.0, amp=0.3)
    return net, [], [("v", net.soma)]


def at_once():
    """Return cells with events at t = 0, which act before the first step."""
    net, of, records = exact()
    train = net.spike_source([[0.0, 0.0, 0.3]])
    net.connect(train, net.groups[2], [0, 4], [0.004, 0.01], [0.0, 0.2])
    return net, of, records


BUILDS = [exact, at_once, lambda: trains(False), lambda: trains(True), depressing, blocked]
IDS = "exact at_once trains both depressing blocked".split()


@pytest.mark.parametrize("build", BUILDS, ids=IDS)
@pytest.mark.parametrize("engine", ["reference", "auto"])
def test_weights_are_central_differences(fast_queue, build, engine):
    net, _, records = build()
    place = {"engine": engine} if engine == "reference" else {"queue": fast_queue}
    sim = simulation(net, records, **place)
    rows, _ = central_differences.rows_of(sim, 8.0, len(records))
    loss, weight = central_differences.weighted_squares(rows), sim.weights()
    direction = weight * np.random.default_rng(1).uniform(0.5, 1, len(weight))

    def value_at(step):
        sim.set(weight=weight + step * direction)
        rows, spikes = central_differences.rows_of(sim, 8.0, len(records))
        return loss(*rows)[0], spikes

    expected = central_differences.slope(value_at, 1e-6)
    value_at(0.0)
    gradient = sim.gradient(8.0, loss, ["weight"])
    on_device = engine == "auto" and build not in BUILDS[3:]
    assert gradient.how.startswith("reverse, on the device") == on_device
    assert gradient["weight"] @ direction == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("build", [ring, same_cells, spiking_points])
def test_slopes_of_spikes_are_those_of_the_reference(fast_queue, build):
    net, of, records = build(1)
    of = [*of, "weight", "v_init"]
    sims = [simulation(net, records, **g) for g in ({"engine": "reference"}, {"queue": fast_queue})]
    loss = central_differences.weighted_squares(
        central_differences.rows_of(sims[0], 8.0, len(records))[0]
    )
    expected, result = (sim.gradient(8.0, loss, of, surrogate=2.0) for sim in sims)
    plain = sims[1].gradient(8.0, loss, of)
    for one in of:
        size = np.abs(expected[one]).max()
        np.testing.assert_allclose(result[one], expected[one], atol=1e-11 * size)
    assert np.abs(plain["weight"] - result["weight"]).max() > 1e-3 * np.abs(result["weight"]).max()


@pytest.mark.parametrize("build", [same_cells, calcium])
def test_single_precision(fast_queue, build):
    net, of, records = build()
    options = {"engine": "reference"}, {"queue": fast_queue, "dtype": "float32"}
    sims = [simulation(net, records, **g) for g in options]
    loss = central_differences.weighted_squares(
        central_differences.rows_of(sims[0], 2.0, len(records))[0]
    )
    expected, result = (sim.gradient(2.0, loss, of) for sim in sims)
    for one in of:
        size = np.abs(expected[one]).max()
        np.testing.assert_allclose(result[one], expected[one], atol=1e-3 * size)


@pytest.mark.parametrize(("delay", "steps"), [(1.0, 1), (3.0, 3), (3.26, 3), (3.6, 4)])
def test_a_spike_acts_in_the_first_step_whose_middle_is_not_before_it(delay, steps):
    net = cables(1)
    net.connect([0], net.add(Mechanism.from_nmodl(EXP2), [1]), [0], 0.001, delay * DT)
    assert EventConnections(Simulation(net, DT, engine="reference").model, 40).delay == [steps]


def test_a_train_acts_in_the_first_step_whose_middle_is_not_before_it():
    net = cables(1)
    train = net.spike_source([[0.31, 0.32, 1.234]])
    net.connect(train, net.add(Mechanism.from_nmodl(EXP2), [1]), [0], 0.001, 0.2)
    connections = EventConnections(Simulation(net, DT, engine="reference").model, 40)
    [(step, source)], middle = connections.trained, step_times(DT, 40)[:, 2]
    assert connections.source == [source] and connections.delay == [0]
    due = np.array([0.51, 0.52, 1.434])
    assert (middle[step] >= due).all() and (middle[step - 1] < due).all()


@pytest.mark.parametrize(
    ("delay", "why"),
    [(0.2 * DT, "delays of less than a step"), (3.5 * DT - SPIKE_LATE, "end between two steps")],
)
def test_delays_that_steps_round_differently_are_for_the_reference(fast_queue, delay, why):
    net, of, records = exact()
    net.connect([0], net.groups[2], [0], 0.001, delay)
    sim = simulation(net, records, queue=fast_queue)
    loss = lambda v, b: (0.0, [np.zeros_like(v), np.zeros_like(b)])  # noqa: E731
    how = sim.gradient(4.0, loss, of[:1]).how
    assert how.startswith("reverse, on the host") and why in how


def test_many_events_of_a_train_at_once(fast_queue):
    net, of, records = exact()
    train = net.spike_source([np.full(128, 1.0)])
    net.connect(train, net.groups[2], [1], 1e-6, 0.2)
    sim = simulation(net, records, queue=fast_queue)
    with pytest.raises(InputError, match="more than 127 events of a train in a step"):
        sim.gradient(2.0, lambda v, b: (0.0, [0 * v, 0 * b]), of[:1])
