"""Gradients of runs by `reference`, against central differences in float64."""

import central_differences
import networks
import numpy as np
import pytest
import random_expressions
import small_networks

import clhines
from clhines import InputError, Mechanism, Network, Simulation
from clhines.simulator.gradients.refused import NEEDS
from clhines.simulator.refusals import id_of

SEEDS = (1, 2)
KINKED = 1e-6  # step of differences for networks with tables, which are piecewise linear


def reference(net, dt=small_networks.DT, **options):
    return Simulation(net, dt, engine="reference", **options)


def zero(*rows):
    return 0.0, [np.zeros_like(r) for r in rows]


def with_derivatives(sim):
    """Return all parameters of groups that can be set and have a derivative."""
    parameters = []
    for group in sim.network.groups:
        for name, value in dict(group.parameters).items():
            try:
                sim.set(group, **{name: value})
                sim.gradient(sim.model.dt, zero, [(group, name)])
            except InputError:
                continue
            parameters.append((group, name))
    return [pair for pair in parameters if pair[1] not in ("diam", "area")]


@pytest.mark.parametrize("word", sorted(small_networks.NETWORKS.keys() - NEEDS))
def test_all_parameters_of_a_network_of_each_need(word):
    build, given = small_networks.NETWORKS[word]
    net = build()
    sim = reference(net, **{k: bool(v) for k, v in given.items()})
    sim.record("v", np.arange(net.forest.num_nodes))
    parameters = with_derivatives(sim)
    assert parameters
    central_differences.check_parameters(sim, 3.0, 1, parameters, size=KINKED, rel=2e-6)


@pytest.mark.parametrize("word", sorted((NEEDS & small_networks.NETWORKS.keys()) - {"ion_order"}))
def test_networks_whose_steps_cannot_be_taken_back_are_refused(word):
    sim = reference(small_networks.NETWORKS[word][0]())
    sim.record("v", [0])
    with pytest.raises(InputError) as error:
        sim.gradient(1.0, zero, ["v_init"])
    assert id_of(error.value.args[0]) == "gradient.needs" and sim.step == 0


METHODS = {  # a text with two states that depend on each other nonlinearly
    "sparse": ("a*(1 - p - q) - b*p", "b*p - c*q*(v + 90)/30"),
    "derivimplicit": ("a*(1 - p - q) - b*p^2", "b*p^2 - c*q*(v + 90)/30"),
    "euler": ("a*(1 - p - q) - b*p^2", "b*p^2 - c*q"),
    "rk4": ("a*(1 - p - q) - b*p^2", "b*p^2 - c*q"),
}


def channel(method):
    p, q = METHODS[method]
    return (
        "density pair\nparameter a = 0.4\nparameter b = 0.3\nparameter c = 0.2\n"
        "parameter gbar = 0.002\nparameter e = 20 mV\nstate p = a/(a + b)\nstate q = 0.1\n"
        f"dp/dt = {p}\ndq/dt = {q}\ncurrent i = gbar*p*q*(v - e)\nmethod {method} all\n"
    )


def tree(rng, count=6):
    """Return a random cell; its last node is a junction without membrane."""
    parent = [-1, *(int(rng.integers(k)) for k in range(1, count))]
    area, axial = rng.uniform(100, 400, count), rng.uniform(0.01, 0.2, count)
    area[-1] = 0.0
    return Network.from_arrays(parent, [0, count], area, axial, 1e-5 * area)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("method", METHODS)
def test_methods_of_states(method, seed):
    rng = np.random.default_rng(seed)
    net = tree(rng)
    nodes = np.arange(5)
    net.insert("hh", nodes, gnabar=rng.uniform(0.05, 0.2, 5))
    group = net.insert(channel(method), nodes, gbar=rng.uniform(0.001, 0.003, 5))
    clamp = net.add("iclamp", [0], delay=0.5, dur=3.0, amp=rng.uniform(0.1, 0.3))
    sim = reference(net, 0.025, v_init=rng.uniform(-70, -60))
    sim.record("v", nodes)
    sim.record("p", group)
    names = ("a", "b", "c", "gbar", "e")
    parameters = [(group, name) for name in names] + [(clamp, "amp")]
    central_differences.check_parameters(sim, 4.0, 2, parameters, seed)


@pytest.mark.parametrize("secondorder", [False, True])
def test_voltages_capacitance_and_resistivity(secondorder):
    cell = clhines.sample_cells()[0]

    def run(cm=1.0, Ra=100.0, v_init=-65.0):
        net = Network([clhines.discretise(cell, max_length=80, Ra=Ra, cm=cm)])
        net.insert("hh", "soma")
        net.insert("pas", "dendrites", g=2e-4, e=-65.0)
        net.add("iclamp", net.soma, delay=0.2, dur=1.0, amp=3.0)
        sim = reference(net, 0.025, v_init=v_init, secondorder=secondorder)
        sim.record("v", "all")
        return sim

    sim = run()
    rows, _ = central_differences.rows_of(sim, 3.0, 1)
    loss = central_differences.weighted_squares(rows)
    gradient = sim.gradient(3.0, loss, ["cm", "Ra", "v_init"])

    def along(name, value):
        def value_at(step):
            rows, spikes = central_differences.rows_of(run(**{name: value + step}), 3.0, 1)
            return loss(*rows)[0], spikes

        return central_differences.slope(value_at, 1e-4 * abs(value))

    for name, value in (("cm", 1.0), ("Ra", 100.0), ("v_init", -65.0)):
        assert gradient[name].sum() == pytest.approx(along(name, value), rel=1e-6)


def test_states_after_initial():
    net = small_networks.plain()
    hh = net.groups[0]
    sim = reference(net)
    sim.record("v", [0, 1])
    rows, _ = central_differences.rows_of(sim, 3.0, 1)
    loss = central_differences.weighted_squares(rows)
    gradient = sim.gradient(3.0, loss, [(hh, "m"), (hh, "h"), (hh, "n")])
    sim.reset()
    begin = sim.arrays()

    def value_at(step):
        networks.go_on(sim, 0, begin | {"state0_n": begin["state0_n"] + step})
        return loss(sim.run(3.0)[0])[0], []

    assert gradient[hh, "n"].sum() == pytest.approx(
        central_differences.slope(value_at, 1e-5), rel=1e-6
    )


def ring(seed, cells=5, text="exp2syn", weight=0.002):
    """Return cells that excite each other after random delays, in whole steps."""
    rng = np.random.default_rng(seed)
    net = Network.from_arrays(
        np.concatenate([[-1, 3 * k, 3 * k + 1] for k in range(cells)]),
        3 * np.arange(cells + 1),
        [300.0] * (3 * cells),
        [0.0, 0.1, 0.1] * cells,
        [0.003] * (3 * cells),
    )
    hh = net.insert("hh", net.soma)
    pas = net.insert("pas", np.setdiff1d(np.arange(3 * cells), net.soma), g=1e-4, e=-65.0)
    synapses = net.add(text, 3 * np.arange(cells) + 1)
    source = np.repeat(np.arange(cells), 2)
    target = rng.integers(cells, size=2 * cells)
    weights = weight * rng.uniform(0.5, 1.5, 2 * cells)
    net.connect(source, synapses, target, weights, 0.05 * rng.integers(10, 40, 2 * cells))
    net.add("iclamp", net.soma[:2], delay=0.5, dur=2.0, amp=rng.uniform(0.5, 1.0, 2))
    return net, (hh, pas, synapses)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_network_with_delays(seed):
    net, (hh, pas, synapses) = ring(seed)
    sim = reference(net)
    sim.record("v", net.soma)
    names = [(hh, "gnabar"), (pas, "g"), (synapses, "tau1"), (synapses, "tau2"), (synapses, "e")]
    central_differences.check_parameters(sim, 8.0, 1, names, seed, size=1e-6, rel=1e-6)
    rows, spikes = central_differences.rows_of(sim, 8.0, 1)
    assert len(spikes) > 3
    loss, weight = central_differences.weighted_squares(rows), sim.weights()
    direction = weight * np.random.default_rng(seed).uniform(-1, 1, len(weight))
    slope = sim.gradient(8.0, loss, ["weight"])["weight"] @ direction

    def value_at(step):
        sim.set(weight=weight + step * direction)
        rows, spikes = central_differences.rows_of(sim, 8.0, 1)
        return loss(*rows)[0], spikes

    assert slope == pytest.approx(central_differences.slope(value_at, 1e-6), rel=1e-6)


def test_a_weight_of_zero_has_a_derivative():
    net = small_networks.with_synapse()
    net.add("iclamp", [0], delay=0.1, dur=1.0, amp=1.0)
    sim = reference(net)
    sim.record("v", [1])
    rows, spikes = central_differences.rows_of(sim, 5.0, 1)
    assert len(spikes)
    loss = central_differences.weighted_squares(rows)

    def value_at(step):
        sim.set(weight=np.array([step]))
        rows, spikes = central_differences.rows_of(sim, 5.0, 1)
        return loss(*rows)[0], spikes

    expected = central_differences.slope(value_at, 1e-6)
    sim.set(weight=np.zeros(1))
    sim.reset()
    slope = sim.gradient(5.0, loss, ["weight"])["weight"]
    assert slope[0] == pytest.approx(expected, rel=1e-6) and expected


LIF = """
point neuron
parameter tau = 12 ms
parameter drive = 1.2 nA
parameter g = 0.02 uS
parameter theta = -50 mV
state w = 0 nA
dw/dt = -w/tau
current i = g*(v + 65) + w - drive
spike: v > theta
reset: v = -65; w += 0.1
refractory: 1 ms
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_point_neurons(seed):
    rng = np.random.default_rng(seed)
    cells = 4
    net = Network.from_arrays(
        [-1] * cells, np.arange(cells + 1), [1e4] * cells, [0.0] * cells, [0.1] * cells
    )
    lif = net.add(LIF, net.soma, drive=rng.uniform(0.5, 0.9, cells))
    synapse = net.add("expsyn", net.soma, tau=2.0)
    net.connect(np.arange(cells), synapse, rng.integers(cells, size=cells), 0.01, 1.5)
    sim = reference(net)
    sim.record("v", net.soma)
    assert len(central_differences.rows_of(sim, 20.0, 1)[1]) > 3
    names = [(lif, "tau"), (lif, "drive"), (lif, "g"), (synapse, "tau")]
    central_differences.check_parameters(sim, 20.0, 1, names, seed, size=1e-6, rel=1e-6)


def test_played_values_and_intervals():
    """Compare slopes by played values with differences; the record sums columns, every 0.1 ms."""
    net = small_networks.plain()
    clamp = net.add(Mechanism.from_nmodl(CLAMP), [0])
    t, y = np.array([0.0, 1.0, 2.0]), np.array([0.1, 0.4, 0.2])

    def run(y):
        net = small_networks.plain()
        net.play(net.add(Mechanism.from_nmodl(CLAMP), [0]), 0, "amp", t, y)
        sim = reference(net)
        sim.record("v", [0, 1], every=0.1, matrix=[[1.0, 2.0]])
        return sim

    sim = run(y)
    rows, _ = central_differences.rows_of(sim, 3.0, 1)
    loss = central_differences.weighted_squares(rows)
    [slope] = sim.gradient(3.0, loss, ["played"])["played"]
    for k in range(3):

        def value_at(step, k=k):
            rows, spikes = central_differences.rows_of(run(y + step * np.eye(3)[k]), 3.0, 1)
            return loss(*rows)[0], spikes

        assert slope[k] == pytest.approx(central_differences.slope(value_at, 1e-4), rel=1e-6)
    assert clamp.mechanism.name == "playedclamp"


CLAMP = """
NEURON { POINT_PROCESS playedclamp ELECTRODE_CURRENT i RANGE amp, i }
PARAMETER { amp = 0 (nA) }
ASSIGNED { i (nA) }
BREAKPOINT { i = amp }
"""


def test_a_gradient_leaves_the_simulation_as_it_is():
    net = small_networks.plain()
    sim = reference(net)
    v = sim.record("v", [0])
    sim.run(1.0)
    sim.gradient(1.0, zero, ["v_init"])
    again = reference(net)
    again.record("v", [0])
    again.run(1.0)
    assert sim.t == 1.0 and np.array_equal(sim.run(1.0)[v], again.run(1.0)[0])


def test_wrong_arguments():
    net = small_networks.plain()
    hh, sim = net.groups[0], reference(net)
    sim.record("v", [0])
    for loss, of, what in (
        (None, ["cm"], "expected a function"),
        (lambda v: 1.0, ["cm"], "its value and its derivatives"),
        (lambda v: (1.0, v[:2]), ["cm"], "of shape"),
        (lambda v: (1.0, [v, v]), ["cm"], "an array for each"),
        (zero, [], "expected a list"),
        (zero, "cm", "expected a list"),
        (zero, ["Cm"], "expected .group, name. or v_init"),
        (zero, [(hh, "gna")], "has no 'gna'"),
        (zero, [("hh", "gnabar")], "expected .group, name."),
        (zero, [(small_networks.plain().groups[0], "el")], "another network"),
    ):
        with pytest.raises(InputError, match=what):
            sim.gradient(1.0, loss, of)
    with pytest.raises(InputError, match="surrogate is 0"):
        sim.gradient(1.0, zero, ["cm"], surrogate=0.0)
    gradient = sim.gradient(1.0, zero, [(hh, "el")])
    assert list(gradient) == [(hh, "el")] and len(gradient) == 1
    for key, shown in (("cm", "'cm'"), ((hh, np.zeros(2)), ".Group"), (["el"], ".'el'")):
        with pytest.raises(InputError, match=f"no gradient of {shown}"):
            gradient[key]
        assert key not in gradient and gradient.get(key, 1.0) == 1.0
    assert gradient.get((hh, "el")) == gradient[hh, "el"]


def test_slopes_of_spikes_are_those_of_a_sigmoid():
    """Without spikes, compare a weight's slope with the sigmoid's slopes times events' effects."""
    width, weight, delay, duration = 2.0, 0.003, 0.1, 1.0
    steps = round(duration / small_networks.DT)

    def simulation(step, size):
        """Return a simulation with an event of weight `size` at the begin of a step."""
        net = Network.from_arrays([-1, -1], [0, 1, 2], [1e4] * 2, [0.0] * 2, [0.1] * 2)
        net.threshold = -50.0
        net.insert("pas", [0, 1], g=1e-4, e=-65.0)
        synapse = net.add("expsyn", [1])
        net.connect([0], synapse, [0], weight, delay)
        clamp = net.add("iclamp", [0], delay=0.0, dur=10.0, amp=1.2)
        net.add_event(synapse, 0, step * small_networks.DT, size)
        sim = reference(net)
        sim.record("v", [0])
        sim.record("v", [1])
        return sim, clamp

    sim, clamp = simulation(0, 0.0)
    rows, spikes = central_differences.rows_of(sim, duration, 2)
    assert not len(spikes)

    def loss(before, after):
        return float(((after + 60) ** 2).sum()), [0 * before, 2 * (after + 60)]

    gradient = sim.gradient(duration, loss, [(clamp, "amp")], surrogate=width)
    assert sim.gradient(duration, loss, [(clamp, "amp")])[clamp, "amp"] == 0.0

    def by_event(step):
        """Return the loss's slope by an event's weight at the begin of a step."""

        def value_at(size):
            rows, _ = central_differences.rows_of(simulation(step, size)[0], duration, 2)
            return loss(*rows)[0], []

        return central_differences.slope(value_at, 1e-4)

    def voltages_at(size):
        sim.reset()
        sim.set(clamp, amp=1.2 + size)
        return central_differences.rows_of(sim, duration, 1)[0][0][:, 0]

    by_amp = (voltages_at(1e-3) - voltages_at(-1e-3)) / 2e-3
    sim.set(clamp, amp=1.2)
    expected, z = 0.0, (rows[0][:, 0] + 50.0) / width
    share = 1 / (1 + np.exp(-z))
    late = 1 + round(delay / small_networks.DT)
    for step in range(steps - late):
        slope = share[step + 1] * (1 - share[step + 1]) / width
        expected += slope * by_amp[step + 1] * weight * by_event(step + late)
    assert gradient[clamp, "amp"] == pytest.approx(expected, rel=1e-6) and expected


@pytest.mark.parametrize("name", ["l5pc", "l5pc-table"])
def test_the_pyramidal_cell(name):
    from bench import neurons

    net = neurons.neurons(name, neurons.cable_of(name), 1)
    sim = reference(net, 0.025, v_init=-75.2)  # between two table rows
    sim.record("v", [*net.soma, 300])
    channels = [g for g in net.groups if g.mechanism.name != "iclamp"]
    parameters = [(g, neurons.given_as(g.mechanism.name)) for g in channels]
    size, rel = (KINKED, 2e-6) if name == "l5pc-table" else (1e-4, 1e-6)
    central_differences.check_parameters(sim, 1.0, 1, parameters, size=size, rel=rel)


def check_expressions(mod, seeds, queue):
    """Compare random expressions, five cells at a time, on the host and on a device."""
    runs = [({"engine": "reference"}, "reverse")]
    if queue is not None:
        runs += [({"queue": queue}, "reverse"), ({"queue": queue}, "forward")]
    count = 0
    for first in seeds[::5]:
        v_init = np.random.default_rng(first).uniform(-80, -40, 5)
        made = [random_expressions.mechanism(first + k, mod) for k in range(5)]
        pairs = [(one, v) for one, v in zip(made, v_init) if one is not None]
        finite = [pair for pair in pairs if random_expressions.has_run(*pair)]
        count += random_expressions.compared(*zip(*finite), runs)
    return count


@pytest.mark.parametrize("mod", [False, True])
def test_random_expressions(fast_queue, mod):
    assert check_expressions(mod, range(5, 10), fast_queue) > 20


@pytest.mark.slow
@pytest.mark.parametrize("mod", [False, True])
def test_many_random_expressions(mod):
    assert check_expressions(mod, range(300), None) > 800


EDGES = (  # steady values of a state; x is about 1000 or -1000; zero is 0
    "1/(1 + exp(x))",
    "x/(exp(x) - 1)*a/1000",
    "a*x/(1 - exp(-x))/1000",
    "exp(-x^2) + b",
    "min(1, exp(x))*b",
    "b/(exp(x) + exp(-x))",
    "tanh(exp(x)*a)",
    "zero^a + b*zero^2",
    "abs(zero)*a + b",
    "log(zero + 1e-300*a)/b",
    "where(v < 0, b, sqrt(v)*a)",
    "where(x > -1, b, exp(x)/(1 + exp(x))*a)",
)
TABLED = """NEURON { SUFFIX tabled NONSPECIFIC_CURRENT i RANGE a, b }
PARAMETER { a = 0.7 b = 1.3 }
ASSIGNED { v i steady }
STATE { m }
INITIAL { m = 0.3 }
BREAKPOINT { SOLVE states METHOD cnexp i = 1e-3*b*m*(v - 50) }
DERIVATIVE states { rates(v) m' = a*(steady - m) }
PROCEDURE rates(v) { TABLE steady FROM -60 TO -50 WITH 20 steady = (v + 60)^2/100 }
"""


@pytest.mark.parametrize("v_init", [-45.0, -78.0])
def test_expressions_at_their_limits(fast_queue, v_init):
    """Compare gradients at limits of expressions, and beyond a table's first and last row."""
    values = "\n".join(f"parameter {k} = {x}" for k, x in random_expressions.PARAMETERS.items())
    made = [
        Mechanism(
            f"density edge{k}\n{values}\nstate m = 0.3\nx = (v - p)*400/k\nzero = max(v - 100, 0)\n"
            f"dm/dt = {edge} - m\ncurrent i = 1e-3*m\n"
        )
        for k, edge in enumerate(EDGES)
    ] + [Mechanism.from_nmodl(TABLED)]
    runs = [({"engine": "reference"}, "reverse")]
    runs += [({"queue": fast_queue}, mode) for mode in ("reverse", "forward")]
    assert random_expressions.compared(made, np.full(len(made), v_init), runs) > 50
