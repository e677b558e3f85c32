"""Exact times against NEURON with its defaults: ions, events, pointers, tables, all at once.

NEURON adds the same numbers in another order, so that each step differs by some units in the last
place of its terms; the models below do not amplify that by more than the steps: 2400 steps times
2**-52 times 100 is below the tolerance.
"""

import mod_files
import numpy as np
import pytest

import clhines
from clhines import InputError, Network, Simulation
from clhines.simulator.model import compile

TOLERANCE = 1e-9  # relative to the largest value of each variable
STOP, CELSIUS, DT = 60.0, 17.0, 0.025  # ms, °C, ms
IONS = ("cai", "ica", "eca")
STATES = {  # recorded variables of groups
    "ext_nmda": ("g", "open"),
    "ext_fire": ("m", "fired"),
    "ext_watch": ("on", "when"),
    "ext_sum": ("g", "sum"),
    "ext_table": ("n", "steps", "middles", "seen", "factor"),
}
OPTIMISED = pytest.param(DT, 0, marks=pytest.mark.optimised)
PLAYED = np.array([0.0, 5.0, 12.0, 30.0, 31.0]), np.array([0.0, 0.0, 0.05, 0.02, -0.01])

pytest.importorskip("neuron", reason="NEURON is not installed: pip install neuron")
oracle = pytest.mark.neuron


class InNeuron:
    """Two cells in NEURON with one instance per mechanism, and records of their variables."""

    last = found = None

    def __init__(self):
        h = self.h = mod_files.loaded()
        h.celsius = CELSIUS
        self.cells = [self._cell(c) for c in range(2)]
        self.segments = [s for soma, dend in self.cells for s in (soma(0.5), *dend)]
        (soma0, dend0), (soma1, dend1) = self.cells
        self.points = {
            "ext_nmda": [h.ext_nmda(dend1(0.5))],
            "ext_watch": [h.ext_watch(soma1(0.5))],
            "ext_sum": [h.ext_sum(dend0(0.3)), h.ext_sum(dend0(0.3))],
            "ext_gap": [h.ext_gap(dend0(0.9)), h.ext_gap(dend1(0.9))],
            "ext_clamp": [h.ext_clamp(soma1(0.5))],
            "ext_fire": [h.ext_fire(), h.ext_fire()],
        }
        ends = dend0(0.9), dend1(0.9)
        for gap, other in zip(self.points["ext_gap"], ends[::-1], strict=True):
            h.setpointer(other._ref_v, "vgap", gap)
        self.clamp = h.IClamp(soma0(0.5))
        self.clamp.delay, self.clamp.dur, self.clamp.amp = 2.0, 40.0, 0.25
        t, y = map(h.Vector, PLAYED)
        self.vectors = t, y
        y.play(self.points["ext_clamp"][0]._ref_amp, t, True)
        self._connect(soma0, dend0)

    def _cell(self, c):
        h = self.h
        soma, dend = h.Section(name=f"soma{c}"), h.Section(name=f"dend{c}")
        dend.connect(soma(0.5))
        soma.L = soma.diam = 20
        dend.L, dend.diam, dend.nseg = 200, 2, 5
        for section in (soma, dend):
            section.Ra, section.cm = 120, 1.1
            for name in ("hh", "ext_ca", "ext_cad", "ext_kca", "ext_table"):
                section.insert(name)
            for segment in section:
                segment.ext_ca.gbar = 3e-4 * (1 + c)
        return soma, dend

    def _connect(self, soma, dend):
        h, points = self.h, self.points
        self.netcons = []
        cell = soma(0.5)._ref_v, soma, -10.0
        tip = dend(0.9)._ref_v, dend, -20.0
        fire, (nmda,), (watch,) = points["ext_fire"], points["ext_nmda"], points["ext_watch"]
        for source, target, delay, *weights in (
            (cell, nmda, 1.0, 0.004, 1.5),
            (tip, nmda, 0.3, 0.002, 0.7),
            (fire[0], nmda, 0.0, 0.003, 1.0),
            (fire[0], fire[1], 0.001, 0.6),
            (fire[1], fire[0], 2.0, 0.55),
            (watch, fire[1], 0.1, 1.2),
            (cell, fire[0], 0.7, 0.4),
            (cell, points["ext_sum"][0], 1.0125, 0.002),
            (fire[1], points["ext_sum"][1], 0.0125, 0.001),
            (fire[0], points["ext_sum"][1], 0.5, 0.0005),
        ):
            if isinstance(source, tuple):
                reference, section, threshold = source
                netcon = h.NetCon(reference, target, threshold, delay, 0, sec=section)
            else:
                netcon = h.NetCon(source, target, 0, delay, 0)
            for k, weight in enumerate(weights):
                netcon.weight[k] = weight
            self.netcons.append(netcon)

    def run(self, dt, secondorder):
        """Return values by name and event times of five sources; cache the last results."""
        if self.last != (dt, secondorder):
            self.last, self.found = (dt, secondorder), self._run(dt, secondorder)
        return self.found

    def _run(self, dt, secondorder):
        h = self.h
        h.cvode.active(0)
        h.dt, h.secondorder, h.usetable_hh, h.usetable_ext_table = dt, secondorder, 0, 1
        h.cvode.use_fast_imem(1)
        of_nodes = "v", *IONS, "i_membrane_"
        kept = {name: [getattr(s, f"_ref_{name}") for s in self.segments] for name in of_nodes}
        for mechanism, names in STATES.items():
            of = self.points.get(mechanism) or [getattr(s, mechanism) for s in self.segments]
            for name in names:
                kept[mechanism, name] = [getattr(x, f"_ref_{name}") for x in of]
        recorded = {}
        for name, references in kept.items():
            recorded[name] = [h.Vector() for _ in references]
            for vector, reference in zip(recorded[name], references, strict=True):
                vector.record(reference)
        spikes = [h.Vector() for _ in range(5)]
        for netcon, vector in zip([self.netcons[k] for k in (0, 1, 2, 4, 5)], spikes, strict=True):
            netcon.record(vector)
        h.finitialize(-65.0)
        for _ in range(round(STOP / dt)):
            h.fadvance()
        values = {name: np.array(vectors).T for name, vectors in recorded.items()}
        weights = [n.weight[k] for n in self.netcons for k in range(int(n.wcnt()))]
        return values, [np.array(vector) for vector in spikes], np.array(weights)


@pytest.fixture(scope="module")
def truth():
    return InNeuron()


def in_arrays(truth):
    parent, g_axial = [], []
    for c in range(2):
        parent += [-1, *range(6 * c, 6 * c + 5)]
        g_axial += [0.0, *(1 / s.ri() for s in truth.segments[6 * c + 1 : 6 * c + 6])]
    area = np.array([s.area() for s in truth.segments])
    return parent, [0, 6, 12], area, g_axial, 1e-5 * 1.1 * area


def our_network(truth, ours=mod_files.ours):
    net = Network.from_arrays(*in_arrays(truth))
    net.celsius, nodes = CELSIUS, np.arange(12)
    groups = {"hh": net.insert("hh", nodes, celsius=CELSIUS)}
    for name in ("ext_cad", "ext_ca", "ext_kca", "ext_table"):
        parameters = {"gbar": np.repeat([3e-4, 6e-4], 6)} if name == "ext_ca" else {}
        groups[name] = net.insert(ours(name), nodes, **parameters)
    at = {"ext_nmda": 9, "ext_watch": 6, "ext_sum": [2, 2], "ext_gap": [5, 11], "ext_clamp": 6}
    groups |= {name: net.add(ours(name), at=where) for name, where in at.items()}
    groups["ext_fire"] = fire = net.add_artificial(ours("ext_fire"), 2)
    net.set_pointer(groups["ext_gap"], "vgap", to=[11, 5])
    net.add("iclamp", at=0, delay=2.0, dur=40.0, amp=0.25)
    net.play(groups["ext_clamp"], 0, "amp", *PLAYED)
    cell, tip = net.add_detector(0, -10.0), net.add_detector(5, -20.0)
    nmda, watch, added = groups["ext_nmda"], groups["ext_watch"], groups["ext_sum"]
    for source, which, target, index, delay, *weights in (
        (cell, 0, nmda, 0, 1.0, 0.004, 1.5),
        (tip, 0, nmda, 0, 0.3, 0.002, 0.7),
        (fire, 0, nmda, 0, 0.0, 0.003, 1.0),
        (fire, 0, fire, 1, 0.001, 0.6),
        (fire, 1, fire, 0, 2.0, 0.55),
        (watch, 0, fire, 1, 0.1, 1.2),
        (cell, 0, fire, 0, 0.7, 0.4),
        (cell, 0, added, 0, 1.0125, 0.002),
        (fire, 1, added, 1, 0.0125, 0.001),
        (fire, 0, added, 1, 0.5, 0.0005),
    ):
        net.connect(source, target, [index], [weights], delay, source_index=[which])
    sources = [*net.source_numbers(cell), *net.source_numbers(tip), *net.source_numbers(fire)]
    return net, groups, [*sources, *net.source_numbers(watch)]


def recorded(sim, groups):
    """Record the variables that `InNeuron.run` returns; return the numbers by name."""
    nodes = np.arange(12)
    numbers = {name: sim.record(name, nodes) for name in ("v", *IONS)}
    if not sim.model.secondorder:
        numbers["i_membrane_"] = sim.record("i_membrane", nodes)
    for mechanism, names in STATES.items():
        numbers |= {(mechanism, name): sim.record(name, groups[mechanism]) for name in names}
    return numbers


@oracle
@pytest.mark.parametrize("engine", ["reference", "steps", "epochs-gpu"])
@pytest.mark.parametrize(("dt", "secondorder"), [OPTIMISED, (0.1, 0), (0.05, 1), (0.05, 2)])
def test_everything_at_once(truth, double_queue, engine, dt, secondorder):
    values, spikes, weights = truth.run(dt, secondorder)
    net, groups, sources = our_network(truth)
    sim = Simulation(net, dt, queue=double_queue, engine=engine, secondorder=secondorder)
    numbers = recorded(sim, groups)
    result = sim.run(STOP)
    assert values["v"].max() > 0 and values["ext_watch", "on"].max() == 1
    assert values["ext_sum", "sum"].max() > 0 and values["ext_fire", "fired"].max() > 2
    for name, number in numbers.items():
        scale = np.abs(values[name]).max()
        np.testing.assert_allclose(result[number], values[name], 0, TOLERANCE * scale, err_msg=name)
    assert weights[-1] > 0  # the last connection's to ext_sum, which FOR_NETCONS sets
    np.testing.assert_allclose(sim.weights(), weights, TOLERANCE)
    late = [1e-10, 1e-10, 0, 0, 0]  # NEURON adds this to times of detected spikes
    for source, times, more in zip(sources, spikes, late, strict=True):
        ours = result.spike_time[result.spike_cell == source]
        np.testing.assert_allclose(ours + more, times, 0, 1e-12 * STOP)
        assert len(times)


def test_float32(truth, fast_queue):
    net = our_network(truth)[0]
    results = []
    for dtype in ("float32", "float64"):
        sim = Simulation(net, 0.05, queue=fast_queue, dtype=dtype)
        sim.record("v", np.arange(12))
        results.append(sim.run(20.0))
    assert (results[0].spike_cell == results[1].spike_cell).all()
    np.testing.assert_allclose(results[0][0], results[1][0], 0, 0.05)


def test_saved_in_the_middle(truth, double_queue, tmp_path):
    """A restored run has the bits of an unbroken run; the host continues from the same file."""
    net, groups, _ = our_network(truth)
    whole, later, host = (
        Simulation(net, 0.1, queue=double_queue, engine=p) for p in ("steps", "steps", "reference")
    )
    for sim in (whole, later, host):
        numbers = recorded(sim, groups)
    whole.run(21.0)
    whole.save(tmp_path / "state.npz")
    expected = whole.run(20.0)
    for sim in (later, host):
        sim.restore(tmp_path / "state.npz")
        result = sim.run(20.0)
        same = sim is later
        for number in numbers.values():
            bound = 0 if same else TOLERANCE * max(np.abs(expected[number]).max(), 1e-300)
            np.testing.assert_allclose(result[number], expected[number], 0, bound)
        assert (result.spike_cell == expected.spike_cell).all() and len(expected.spike_cell) > 5
    with pytest.raises(InputError, match=r"saved with dt=0\.1 ms \(here dt=0\.05 ms\)"):
        Simulation(net, 0.05, queue=double_queue).restore(tmp_path / "state.npz")


def test_repeated_runs_have_the_same_bits(truth, fast_queue):
    net, groups, _ = our_network(truth)
    results = []
    for _ in range(2):
        sim = Simulation(net, 0.1, queue=fast_queue)
        numbers = recorded(sim, groups)
        result = sim.run(30.0)
        results.append([result[k] for k in numbers.values()] + [result.spike_time])
    assert all(np.array_equal(a, b) for a, b in zip(*results, strict=True))


def test_kernels_on_every_device(truth, every_queue, needs):
    needs(every_queue, "float64")
    net, groups, _ = our_network(truth)
    trains = net.spike_source([[0.05, 0.16], [0.11]])
    net.connect(trains, groups["ext_fire"], weight=1.3, delay=0.02)
    results = {}
    for path in ("reference", "steps"):
        sim = Simulation(net, 0.1, queue=every_queue, engine=path)
        number = sim.record("v", np.arange(12)), sim.record("m", groups["ext_fire"])
        result = sim.run(0.6)
        results[path] = [result[k] for k in number], result.spike_time
    assert len(results["steps"][1]) > 1
    np.testing.assert_allclose(results["steps"][1], results["reference"][1], 0, 1e-12)
    for a, b in zip(results["steps"][0], results["reference"][0], strict=True):
        np.testing.assert_allclose(a, b, 0, 1e-10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda n, g: n.set_pointer(g["ext_gap"], "w", 0), "ext_gap has no pointer 'w'"),
        (lambda n, g: n.connect(g["ext_gap"], g["ext_nmda"]), "ext_gap sends no events here"),
        (lambda n, g: n.connect(g["ext_fire"], g["ext_nmda"], weight=[[1] * 5]), "4 or less"),
        (lambda n, g: n.connect(n.add_detector(0), g["ext_nmda"], delay=-1.0), "0 or more"),
        (lambda n, g: n.spike_source([[-1.0]]), "has -1 ms"),
        (lambda n, g: n.spike_source([1.0, 2.5]), r"times\[0\] has shape \(\); expected \(k,\)"),
        (lambda n, g: clhines.Mechanism.from_nmodl(None), "text_or_path is None; expected a"),
        (lambda n, g: n.add_detector(12), "no node 12"),
        (lambda n, g: n.play(g["ext_clamp"], 0, "amp", [1, 0], [0, 0]), "goes back in time"),
        (
            lambda n, g: n.play(n.insert("pas", [0]), 0, "g", [0.0], [1e-3]),
            "pas: play.. does not support a text whose current is linear in v",
        ),
        (lambda n, g: n.add_artificial("hh"), "use insert"),
    ],
)
def test_wrong_networks_are_rejected(truth, change, message):
    net, groups, _ = our_network(truth)
    with pytest.raises(InputError, match=message):
        change(net, groups)


def test_iterations_end_in_float32(double_queue):
    results = []
    for dtype in ("float64", "float32"):
        net = Network.from_arrays([-1], [0, 1], [500.0], [0.0], [0.005])
        kind = net.insert(mod_files.ours("nmodl/nmimplicit"), [0])
        sim = Simulation(net, 0.025, dtype, queue=double_queue, engine="steps")
        states = [sim.record(name, kind) for name in ("a", "b")]
        result = sim.run(2.5)
        results.append(np.concatenate([result[k][:, 0] for k in states]))
    # each of 100 steps ends within 1e-5 of a state, and states forget errors within a few ms
    assert np.abs(results[1] / results[0] - 1).max() < 1e-3


def test_a_circle_without_delay_is_rejected():
    """Artificial cells that excite each other without delay have no order within a step."""
    net = Network.from_arrays([-1], [0, 1], [100.0], [0.0], [1e-3])
    fire = net.add_artificial(mod_files.ours("ext_fire"), 2)
    net.connect(fire, fire, index=[1, 0], weight=0.6, delay=0.0)
    with pytest.raises(InputError, match=r"ext_fire: .* in a circle"):
        Simulation(net, 0.025, engine="reference")


def test_events_are_at_exact_times_only_where_something_needs_it(truth):
    net, *_ = our_network(truth)
    assert compile(net).exact
    plain = Network(clhines.discretise(clhines.sample_cells()[0], max_length=50))
    plain.insert("hh")
    assert not compile(plain).exact


def test_a_variable_of_all_instances_that_they_set_differently_is_refused():
    net = Network.from_arrays([-1, 0], [0, 2], [500.0, 500.0], [0.0, 0.1], [0.005, 0.005])
    net.insert(mod_files.ours("ext_common"), [0, 1], alpha=[0.07, 0.08])
    with pytest.raises(InputError, match="rinf of ext_common is 0.7 to 0.727273 after INITIAL"):
        Simulation(net, dt=0.025, engine="reference")


PAIRS = """
NEURON { POINT_PROCESS pairs RANGE g, tau, e, i NONSPECIFIC_CURRENT i }
PARAMETER { tau = 2 (ms) e = 0 (mV) }
STATE { g (uS) }
ASSIGNED { v (mV) i (nA) tpost (ms) }
INITIAL { g = 0 tpost = -1000 net_send(0, 1) }
BREAKPOINT { SOLVE s METHOD cnexp i = g*(v - e) }
DERIVATIVE s { g' = -g/tau }
NET_RECEIVE (w (uS), tpre (ms)) {
    INITIAL { tpre = -1000 }
    if (flag == 0) { g = g + w  tpre = t  w = w*(1 - 0.5*exp((tpost - t)/20)) }
    else if (flag == 2) { tpost = t  FOR_NETCONS(w1, t1) { w1 = w1*(1 + 0.5*exp((t1 - t)/20)) } }
    else if (flag == 1) { WATCH (v > -20) 2 }
}
"""


def test_a_rule_of_plasticity_as_text(double_queue):
    """Compare pair STDP in a .mod text with its formula, in a network without NEURON."""
    net = Network.from_arrays([-1], [0, 1], [100.0], [0.0], [1e-3])
    net.threshold = -20.0
    synapse = net.add(clhines.Mechanism.from_nmodl(PAIRS), [0])
    net.connect(net.spike_source([[1.0, 11.0]]), synapse, weight=[[0.05, 0.0]], delay=1.0)
    net.insert("hh", [0])
    sim = Simulation(net, 0.025, queue=double_queue, v_init=-65.0)
    weight, last = 0.05, -np.inf
    for event in (2.0, 12.0):  # a spike follows each event
        (spike,) = sim.run(10.0).spike_time
        weight *= 1 - 0.5 * np.exp((last - event) / 20)
        weight *= 1 + 0.5 * np.exp((event - spike) / 20)
        assert sim.weights()[0] == pytest.approx(weight, rel=1e-6)
        last = spike


WRONG_EVENTS = {  # statements of an event with weight 5, then 1
    "net_event(t + w)": "net_event at a time before an earlier net_event's",
    "net_event(t - 0.5)": "at a time that is past, or no number",
    "net_send(-w, 1) net_event(t)": "at a time that is past, or no number",
    "net_event(t + log(-w))": "at a time that is past, or no number",
}


@pytest.mark.parametrize("body", WRONG_EVENTS)
@pytest.mark.parametrize("engine", ["reference", "steps", "epochs-cpu", "epochs-gpu"])
def test_events_that_would_be_lost_are_an_error(fast_queue, body, engine):
    made = clhines.Mechanism.from_nmodl(
        f"NEURON {{ ARTIFICIAL_CELL wrong }}\nNET_RECEIVE(w) {{ {body} }}"
    )
    net = Network.from_arrays([-1], [0, 1], [300.0], [0.0], [0.005])
    net.insert("pas")
    cell, synapse = net.add_artificial(made, 1), net.add("expsyn", at=[0])
    net.connect(net.spike_source([[1.0], [2.0]]), cell, index=0, weight=[5.0, 1.0], delay=0.3)
    net.connect(cell, synapse, weight=0.001, delay=0.3)
    sim = Simulation(net, 0.05, engine=engine, queue=fast_queue)
    with pytest.raises(InputError, match=f"wrong: .*{WRONG_EVENTS[body]}"):
        sim.run(9)


def test_events_sent_ahead_are_in_order_whatever_the_chunks(fast_queue):
    made = clhines.Mechanism.from_nmodl(
        "NEURON { ARTIFICIAL_CELL ahead RANGE d }\nPARAMETER { d = 0.7 }\n"
        "NET_RECEIVE(w) { FROM k = 0 TO 3 { net_event(t + d*k) } }"
    )

    def run(**options):
        net = Network.from_arrays([-1], [0, 1], [300.0], [0.0], [0.005])
        net.insert("pas")
        cells, synapse = net.add_artificial(made, 2, d=[0.7, 0.25]), net.add("expsyn", at=[0])
        net.connect(net.spike_source([[1.0]]), cells, weight=1.0, delay=0.3)
        net.connect(cells, synapse, weight=0.001, delay=0.3)
        result = Simulation(net, 0.05, engine="steps", queue=fast_queue, **options).run(6)
        return result.spike_time, result.spike_cell

    (time, cell), (later, other) = run(), run(chunk=8)
    assert len(time) == 8 and (np.diff(time) >= 0).all()
    assert np.array_equal(time, later) and np.array_equal(cell, other)
