"""Numbers with units are converted if the unit of an argument is known, else rejected."""

import importlib.util
import inspect
import warnings
from types import SimpleNamespace

import numpy as np
import pint
import pytest

from clhines import (
    STDP,
    Cable,
    Forest,
    ForestError,
    InputError,
    Mechanism,
    Network,
    Rule,
    Simulation,
    Solver,
    discretise,
    find_thresholds,
    sample_cells,
    solve_tridiagonal,
)
from clhines.core.quantities import as_numbers
from clhines.fields import Medium
from clhines.simulator.analysis import Features, extract
from clhines.simulator.mechanisms import mechanism
from clhines.simulator.model import compile
from clhines.simulator.network.groups import inside
from clhines.simulator.population.protocols import by_step
from clhines.solver import reference

pytestmark = pytest.mark.core

U = pint.UnitRegistry()
HAS_NEURON = importlib.util.find_spec("clhines.neuron") is not None  # the part of clhines
CELL = sample_cells()[0]
CABLE = discretise(CELL, max_length=100)
V = -65 + 100 * np.exp(-(((np.arange(200) * 0.5 - 30) / 2) ** 2))  # one spike, mV
T = np.arange(200) * 0.5  # ms


def network():
    return Network(CABLE, 2)


def synapses():
    net = network()
    net.insert("pas", "all")
    return net, net.add("expsyn", at=net.soma)


def arrays_of(**options):
    columns = {"area": [10.0] * 3, "g_axial": [0.01] * 3, "capacitance": [1e-4] * 3, **options}
    net = Network.from_arrays([-1, 0, 1], [0, 3], **columns)
    net.insert("pas", "all")
    model = compile(net)
    return net.area, model.capacitance_over_dt, model.u


def surrounded(g, around=(1, 2, -1)):
    columns = {"area": [10.0, 0, 0], "g_axial": [0.0] * 3, "capacitance": [1e-4] * 3}
    net = Network.from_arrays([-1, 0, 1], [0, 3], **columns, around=around, g_around=g)
    return compile(net).layers.g


def from_parent(parent=(-1, 0, 1), cell_offsets=(0, 3), soma=None):
    return Network.from_arrays(parent, cell_offsets, [10.0] * 3, [0.01] * 3, [1e-4] * 3, soma)


def parameter(method, name, mechanism, where):
    def call(value):
        return getattr(network(), method)(mechanism, where, **{name: value}).parameters[name]

    return call


def connected(**options):
    net, syn = synapses()
    net.connect([0, 1], syn, **options)
    links = compile(net).connections
    return links.source, links.target, links.weight, links.delay


def event(**options):
    net, syn = synapses()
    net.add_event(syn, **options)
    events = compile(net).events
    return events.target, events.step, events.weight


def ion(**options):
    net = network()
    net.insert(Mechanism.from_nmodl(
        "NEURON { SUFFIX leak USEION ca READ eca WRITE ica } ASSIGNED { v (mV) eca (mV) ica }"
        "BREAKPOINT { ica = 1e-6*(v - eca) }"
    ), "all")  # fmt: skip
    net.ion("ca", **options)
    ion_values = compile(net).ions[0]
    return ion_values.e, ion_values.ci, ion_values.co


def played(t=(0.0, 1.0), y=(0.0, 0.1), index=0):
    net = network()
    clamp = net.add("iclamp", at=net.soma)
    net.play(clamp, index, "amp", t, y)
    return inside(net).added.plays[0].t, inside(net).added.plays[0].y


def in_field(**more):
    """Return currents and voltages of a cell in a field; the field's table scales the currents."""
    net = network()
    slope = np.append(np.linspace(0, 9, CABLE.num_nodes), np.zeros(CABLE.num_nodes))
    options = {"potential": slope, "waveform": ([0.0, 1.0], [0.0, 1.0]), **more}
    if len(options["potential"]) == CABLE.num_nodes:
        net = Network(CABLE)
    group = net.field(**options)
    sim = Simulation(net, engine="reference")
    number = sim.record("v", [0])
    return group.parameters["amp"], sim.run(1.0)[number]


def differentiated(width):
    net, syn = synapses()
    net.add_event(syn, 0, 0.3, 0.01)
    sim = Simulation(net, engine="reference")
    sim.record("v", net.soma)
    loss = lambda v: (float(v.sum()), np.ones_like(v))  # noqa: E731
    return sim.gradient(0.5, loss, ["v_init"], surrogate=width)["v_init"]


def with_threshold(value):
    net = network()
    net.threshold = value
    return net.threshold


def with_celsius(value):
    net = network()
    net.celsius = value
    return net.celsius


def set_parameter(value):
    net = network()
    group = net.add("iclamp", at=net.soma, dur=5.0)
    group.parameters["amp"] = value
    return group.parameters["amp"]


def simulated(act=lambda sim: None, **options):
    net, syn = synapses()
    net.add_event(syn, 0, 0.3, 0.01)
    sim = Simulation(net, engine="reference", **options)
    act(sim)
    return sim.voltages(), sim.t


def changed(**values):
    def act(sim):
        sim.run(0.5)
        leak = sim.network.groups[0]
        whole = {k: v for k, v in values.items() if k == "v_init"}
        own = {k: v for k, v in values.items() if k in ("g", "e")}
        sim.set(**whole)
        sim.set(leak, **own)
        sim.reset() if whole else None
        sim.run(1.0)

    return simulated(act)


def recorded(what="v", at=(0, 5), **options):
    def act(sim):
        sim.record(what, np.array(at) if isinstance(at, tuple) else at, **options)
        results.append(sim.run(1.0)[0])

    results = []
    simulated(act)
    return tuple(map(np.asarray, results))


def featured(**options):
    window = {"stim_start": 10.0, "stim_end": 60.0, "stimulus_current": 0.1, **options}
    features = Features(["voltage_base", "spike_count"], **window)
    return features.threshold, *features.windows(T, 1)


def extracted(v=V, t=T, stim_start=10.0, stim_end=60.0, **options):
    features = extract(v, t, ["voltage_base", "ohmic_input_resistance"], stim_start=stim_start,
                    stim_end=stim_end, **{"stimulus_current": 0.1, **options})  # fmt: skip
    return tuple(features.values())


def fired(**more):
    net = network()
    net.insert("hh", "soma")
    clamp = net.add("iclamp", at=net.soma, dur=1.0)
    options = {"low": 0.01, "high": 50.0, "duration": 4.0, "tolerance": 0.1, **more}
    result = find_thresholds(net, clamp, net.soma, name="amp", engine="reference", **options)
    return result.amplitude, result.below


def stimulated(stop=1.0, **options):
    stimulus = {"amp": 0.1, **options}
    return by_step(network(), {"one": {"stop": stop, "stimuli": [stimulus]}}, 0.025)


def of_protocol(**options):
    stops, (columns,) = stimulated(**options)
    return stops, *columns.values()


def steps_to(tstop):
    from clhines.neuron.calls import num_steps  # absent if the part `neuron` is absent

    cvode = SimpleNamespace(active=lambda: 0)
    return num_steps(SimpleNamespace(dt=0.025, t=0.0, CVode=lambda: cvode), tstop)


def solved(**options):
    system = {"d": [3.0] * 3, "u": [-1.0] * 3, "b": [1.0] * 3, **options}
    return Solver(Forest([-1, 0, 1]), "flat").solve(**system)


PAS = Mechanism("density leak\nparameter g = 1e-4 S/cm2\ncurrent i = g*(v + 65*exp(-t)) [mA/cm2]")
MV, MS, NA, US = (-70.0, "mV"), (0.5, "ms"), (0.1, "nA"), (0.02, "uS")

# name of the argument: call, a valid number, and its unit; without a unit it is rejected
CONVERTED = {
    "from_arrays.area": (lambda x: arrays_of(area=x), [10.0] * 3, "um2"),
    "from_arrays.g_axial": (lambda x: arrays_of(g_axial=x), [0.01] * 3, "uS"),
    "from_arrays.g_around": (lambda x: surrounded(x), [0.0, 0.1, 0.1], "uS"),
    "from_arrays.capacitance": (lambda x: arrays_of(capacitance=x), [1e-4] * 3, "nF"),
    "gradient.surrogate": (differentiated, 2.0, "mV"),
    "threshold": (with_threshold, *MV),
    "threshold of cells": (with_threshold, [-70.0, 5.0], "mV"),
    "celsius": (with_celsius, 20.0, "degC"),
    "insert.g": (parameter("insert", "g", "pas", "all"), 1e-4, "S/cm2"),
    "insert.e": (parameter("insert", "e", "pas", "all"), *MV),
    "insert by distance": (
        lambda x: network().insert("pas", "all", e=lambda d: 0 * d + x).parameters["e"],
        *MV,
    ),
    "insert.celsius": (parameter("insert", "celsius", "hh", "all"), 20.0, "degC"),
    "add.amp": (parameter("add", "amp", "iclamp", [0, 1]), *NA),
    "add.amp of each": (parameter("add", "amp", "iclamp", [0, 1]), [0.1, 0.2], "nA"),
    "add.delay": (parameter("add", "delay", "iclamp", [0]), *MS),
    "parameters[]": (set_parameter, *NA),
    "connect.weight": (lambda x: connected(weight=x), *US),
    "connect.delay": (lambda x: connected(delay=x), *MS),
    "event.time": (lambda x: event(time=x), *MS),
    "event.weight": (lambda x: event(weight=x), *US),
    "add_detector.threshold": (lambda x: network().add_detector(0, x).threshold, *MV),
    "add_detector.refractory": (lambda x: network().add_detector(0, refractory=x).refractory, *MS),
    "spike_source.times": (lambda x: network().spike_source([x]).times[0], [0.5, 2.0], "ms"),
    "ion.e": (lambda x: ion(e=x), 120.0, "mV"),
    "ion.ci": (lambda x: ion(ci=x), 1e-4, "mM"),
    "ion.co": (lambda x: ion(co=x), 2.0, "mM"),
    "play.t": (lambda x: played(t=x), [0.0, 2.0], "ms"),
    "field.potential": (
        lambda x: in_field(potential=x),
        [*np.linspace(0, 9, CABLE.num_nodes)],
        "mV",
    ),
    "field.waveform": (lambda x: in_field(waveform=(x, [0.0, 1.0])), [0.0, 2.0], "ms"),
    "lfp.electrodes": (lambda x: network().lfp(x), [[900.0, 0.0, 0.0]], "um"),
    "Medium.sigma": (lambda x: Medium(x).sigma, [0.1, 0.2, 0.3], "S/m"),
    "geometry.shift": (lambda x: network().geometry(x).begin, [1.0, 0.0, 2.0], "um"),
    "play.y": (lambda x: played(y=x), [0.0, 0.2], "nA"),
    "compile.dt": (lambda x: compile(network(), dt=x).capacitance_over_dt, 0.05, "ms"),
    "compile.v_init": (lambda x: compile(network(), v_init=x).v_init, *MV),
    "STDP.tau_plus": (lambda x: STDP(0.1, 0.1, tau_plus=x).tau_plus, *MS),
    "STDP.tau_minus": (lambda x: STDP(0.1, 0.1, tau_minus=x).tau_minus, *MS),
    "Rule.tau_x": (lambda x: Rule("triplet", tau_x=x).parameters["tau_x"], *MS),
    "Simulation.dt": (lambda x: simulated(lambda sim: sim.run(1.0), dt=x), 0.05, "ms"),
    "Simulation.v_init": (lambda x: simulated(v_init=x), *MV),
    "run.duration": (lambda x: simulated(lambda sim: sim.run(x)), *MS),
    "set.v_init": (lambda x: changed(v_init=x), *MV),
    "set.g": (lambda x: changed(g=x), 1e-4, "S/cm2"),
    "record.every": (lambda x: recorded(every=x), *MS),
    "record.threshold": (lambda x: recorded(reduce="count", threshold=x), *MV),
    "discretise.max_length": (lambda x: discretise(CELL, max_length=x).parent, 50.0, "um"),
    "discretise.Ra": (lambda x: discretise(CELL, Ra=x).g_axial, 150.0, "ohm cm"),
    "discretise.cm": (lambda x: discretise(CELL, cm=x).capacitance, 2.0, "uF/cm2"),
    "Cable.system.dt": (lambda x: CABLE.system(x).d, 0.05, "ms"),
    "Cable.system.g_pas": (lambda x: CABLE.system(0.025, g_pas=x).d, 1e-4, "S/cm2"),
    "Cable.system.e_pas": (lambda x: CABLE.system(0.025, e_pas=x).constant, *MV),
    "System.rhs.v": (lambda x: CABLE.system(0.025).rhs(x), np.full(CABLE.num_nodes, -70.0), "mV"),
    "System.rhs.current": (lambda x: CABLE.system(0.025).rhs(np.zeros(CABLE.num_nodes), x), *NA),
    "find_thresholds.low": (lambda x: fired(low=x), *NA),
    "find_thresholds.high": (lambda x: fired(high=x), [40.0, 50.0], "nA"),
    "find_thresholds.duration": (lambda x: fired(duration=x), 3.0, "ms"),
    "find_thresholds.level": (lambda x: fired(level=x), -10.0, "mV"),
    "Population.protocols.stop": (lambda x: of_protocol(stop=x), *MS),
    "Population.protocols.amp": (lambda x: of_protocol(amp=x), *NA),
    "Population.protocols.delay": (lambda x: of_protocol(delay=x), *MS),
    "Population.protocols.dur": (lambda x: of_protocol(dur=x), *MS),
    **({"clhines.neuron.run.tstop": (steps_to, *MS)} if HAS_NEURON else {}),
    "Features.stim_start": (lambda x: featured(stim_start=x), 12.0, "ms"),
    "Features.stim_end": (lambda x: featured(stim_end=x), 62.0, "ms"),
    "Features.stimulus_current": (lambda x: featured(stimulus_current=x), *NA),
    "Features.threshold": (lambda x: featured(threshold=x), *MV),
    "extract.v": (lambda x: extracted(v=x), V, "mV"),
    "extract.t": (lambda x: extracted(t=x), T, "ms"),
    "extract.stim_start": (lambda x: extracted(stim_start=x), 12.0, "ms"),
    "extract.stim_end": (lambda x: extracted(stim_end=x), 62.0, "ms"),
    "extract.stimulus_current": (lambda x: extracted(stimulus_current=x), *NA),
    "extract.threshold": (lambda x: extracted(threshold=x), *MV),
    "Mechanism.initial.v": (lambda x: hh_start(x), *MV),
    "Mechanism.current.v": (lambda x: PAS.current(x, 1.0), *MV),
    "Mechanism.current.t": (lambda x: PAS.current(-70.0, x), *MS),
    "Mechanism.current.params": (lambda x: PAS.current(-70.0, 1.0, {"g": x}), 1e-4, "S/cm2"),
}
REJECTED = {
    "from_arrays.around": lambda x: surrounded([0.0, 0.1, 0.1], [1, 2, -1] * x),
    "Network.num_cells": lambda x: Network(CABLE, x),
    "from_arrays.parent": lambda x: from_parent(parent=[-1, 0, 1] * x),
    "from_arrays.cell_offsets": lambda x: from_parent(cell_offsets=[0, 3] * x),
    "from_arrays.soma": lambda x: from_parent(soma=x),
    "insert.at": lambda x: network().insert("pas", [1] * x),
    "add.at": lambda x: network().add("iclamp", x),
    "per_cell.values": lambda x: network().per_cell([1, 2] * x),
    "nodes.cell": lambda x: network().nodes(x),
    "connect.source": lambda x: synapses()[0].connect(x, synapses()[1]),
    "connect.index": lambda x: connected(index=x),
    "add_event.index": lambda x: event(index=x),
    "add_detector.node": lambda x: network().add_detector(x),
    "ion.nodes": lambda x: ion(nodes=x),
    "ion.valence": lambda x: ion(valence=x),
    "ion.style": lambda x: ion(style=x),
    "field.of_cell": lambda x: in_field(of_cell=[0, 0] * x),
    "geometry.turn": lambda x: network().geometry(turn=np.eye(3) * x),
    "play.index": lambda x: played(index=x),
    "compile.seed": lambda x: compile(network(), seed=x),
    "compile.secondorder": lambda x: compile(network(), secondorder=x),
    "STDP.a_plus": lambda x: STDP(x, 0.1),
    "STDP.a_minus": lambda x: STDP(0.1, x),
    "STDP.w_min": lambda x: STDP(0.1, 0.1, w_min=x),
    "STDP.w_max": lambda x: STDP(0.1, 0.1, w_max=x),
    "Rule.a2_plus": lambda x: Rule("triplet", a2_plus=x),
    "reward.reward": lambda x: simulated(lambda sim: sim.reward(x)),
    "Simulation.seed": lambda x: simulated(seed=x),
    "Simulation.chunk": lambda x: simulated(chunk=x),
    "Simulation.max_spikes": lambda x: simulated(max_spikes=x),
    "run.progress": lambda x: simulated(lambda sim: sim.run(1.0, x)),
    "set.weight": lambda x: simulated(lambda sim: sim.set(weight=x)),
    "replicate.count": lambda x: simulated(lambda sim: sim.replicate(x)),
    "record.at": lambda x: recorded(at=x),
    "record.matrix": lambda x: recorded(matrix=np.ones((1, 2)) * x),
    "find_thresholds.tolerance": lambda x: fired(tolerance=0.1 * x),
    "discretise.nseg": lambda x: discretise(CELL, nseg=x),
    "discretise.d_lambda": lambda x: discretise(CELL, d_lambda=0.1 * x),
    "Cable.node.section": lambda x: CABLE.node(x, 0.5),
    "Cable.node.x": lambda x: CABLE.node(0, 0.5 * x),
    "Forest.parent": lambda x: Forest([-1, 0] * x),
    "solve.d": lambda x: solved(d=[3.0] * 3 * x),
    "solve.u": lambda x: solved(u=[-1.0] * 3 * x),
    "solve.l": lambda x: solved(l=[-1.0] * 3 * x),
    "solve.b": lambda x: solved(b=[1.0] * 3 * x),
    "to_device_order.a": lambda x: Solver(Forest([-1, 0]), "flat").to_device_order([1.0, 2.0] * x),
    "solve_tridiagonal": lambda x: solve_tridiagonal([1.0], [3.0, 3.0] * x, [1.0], [1.0, 1.0]),
    "reference": lambda x: reference.solve_serial(Forest([-1, 0]), [3.0, 3.0] * x, [1, 1], [1, 1]),
    "Mechanism.event.weight": lambda x: weighed(x),
}  # fmt: skip
OTHER = {
    **{"um2": "cm**2", "uS": "nS", "nF": "pF", "mV": "V", "degC": "kelvin", "S/cm2": "mS/cm**2"},
    **{"nA": "pA", "ms": "us", "mM": "uM", "um": "mm", "ohm cm": "ohm*m", "uF/cm2": "nF/cm**2"},
    "S/m": "mS/cm",
}


def hh_start(v):
    return tuple(mechanism("hh").initial(v).values())


def weighed(weight):
    return mechanism("expsyn").event(weight, None, {"g": 0.0})


def in_units(number, unit, registry=U):
    name = unit.replace("2", "**2").replace(" ", "*")
    return registry.Quantity(np.array(number) if np.ndim(number) else number, name).to(OTHER[unit])


def same(found, expected):
    found, expected = (x if isinstance(x, tuple) else (x,) for x in (found, expected))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-9, atol=1e-12)


@pytest.fixture(autouse=True)
def _strict():
    """Turn NumPy's warning about a stripped unit into an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pint.UnitStrippedWarning)
        yield


@pytest.mark.parametrize("name", CONVERTED)
def test_quantities_are_converted(name):
    call, number, unit = CONVERTED[name]
    expected = call(number)
    same(call(in_units(number, unit)), expected)
    if np.ndim(number):
        same(call([in_units(one, unit) for one in np.asarray(number).tolist()]), expected)
    wrong = U.Quantity(np.array(number) if np.ndim(number) else number, "candela")
    with pytest.raises(InputError, match="cd|candela") as caught:
        call(wrong)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", REJECTED)
def test_quantities_are_rejected_where_there_is_no_unit(name):
    with pytest.raises((InputError, ForestError)) as caught:
        REJECTED[name](U.Quantity(1, "pA"))
    assert "\n" not in str(caught.value)


def test_every_argument_is_tried():
    names = [name.split(" ")[0].partition("'")[0] for name in (*CONVERTED, *REJECTED)]
    tried = {"d", "u", "l", "b", *(name.split(".")[-1] for name in names)}
    no_numbers = {
        *"""
        self cls cables branched_from mechanism parameters target rule name continuous group what
        dtype device queue method engine mode network comm options values path reduce to morphology
        names changes arrays state saved unit nodes value out overwrite copied groups added wiring
        paths label check forest tune devices profile packed ax wait_for sections xyz spikes of
        loss medium geometry missing
    """.split()
    }
    indices = {"count", "source_index", "to", "ids", "index", "a"}  # `as_array` and integers
    owners = [Network, Simulation, Cable]
    functions = [f for o in owners for n, f in inspect.getmembers(o, callable)
                 if n == "__init__" or not n.startswith("_")]  # fmt: skip
    functions += [
        discretise,
        extract,
        find_thresholds,
        Solver.__init__,
        Solver.solve,
        Solver.to_device_order,
    ]
    missing = {
        f"{f.__qualname__}: {p}"
        for f in functions
        for p in inspect.signature(f).parameters
        if p not in tried | no_numbers | indices
    }
    assert not missing


def test_neo_signals():
    neo = pytest.importorskip("neo")
    pq = importlib.import_module("quantities")
    signal = neo.AnalogSignal([[100.0], [200.0]], units="pA", sampling_rate=1 * pq.kHz)
    same(played(y=np.asarray(as_numbers("y", signal, "nA"))[:, 0])[1], [0.1, 0.2])
