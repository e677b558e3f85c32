"""Populations, against single runs of the model with one set and one protocol each."""

import functools
import logging
import pickle

import mod_files
import numpy as np
import pytest
from networks import CABLES, DT

from clhines import InputError, Mechanism, Network, Population, Simulation
from clhines.simulator.analysis import extract
from clhines.simulator.mechanisms.builtin import KEPT_NUMBER
from clhines.solver.device import devices, program

GCA = "ext_ca", "gbar"
PLANNED = "planned", "engine", "built", "method"  # how planning messages begin
PROTOCOLS = {
    "step": {"stop": 5.0, "stimuli": [{"amp": 0.8, "delay": 0.5, "dur": 4.0}]},
    "two": {
        "stop": 4.0,
        "stimuli": [{"amp": 0.2}, {"amp": 0.5, "delay": 2.0, "dur": 1.0, "at": 3}],
    },
    "rest": {"stop": 1.0},
}
PARAMETERS = {
    "na": ("hh", "gnabar", "soma"),
    "leak": ("hh", "gl"),
    "passive": ("pas", "g", "dendrites"),
}
SETS = np.stack(
    [np.linspace(0.08, 0.2, 5), np.linspace(2e-4, 6e-4, 5), np.linspace(4e-4, 1e-4, 5)], axis=1
)


def model(na=0.12, leak=3e-4, passive=1e-4):
    """Return one cell with channels everywhere and a synapse that receives an event."""
    net = Network(CABLES[0])
    soma = np.isin(np.flatnonzero(net.area > 0), net.nodes(at="soma"))
    net.insert("hh", "all", gnabar=np.where(soma, na, 0.03), gl=leak)
    net.insert("pas", "dendrites", g=passive, e=-65.0)
    syn = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    net.add_event(syn, 0, 3.0, 0.002)
    net.threshold = -20.0
    return net


@functools.cache
def alone(number, name):
    net, protocol = model(*SETS[number]), PROTOCOLS[name]
    for one in protocol.get("stimuli", []):
        parameters = {"dur": 1e9, "delay": 0.0, **one}
        net.add("iclamp", parameters.pop("at", net.soma[0]), **parameters)
    sim = Simulation(net, DT, engine="reference")
    record = sim.record("v", net.soma)
    result = sim.run(protocol["stop"])
    return result[record][:, 0], result.spike_time


@pytest.mark.core
@pytest.mark.parametrize("engine", ["epochs", "reference"])
def test_sets_under_protocols_are_those_of_the_model_alone(engine, fast_queue, caplog):
    many = Population(
        model(), PARAMETERS, PROTOCOLS, dt=DT, batch=3, queue=fast_queue, engine=engine
    )
    first = many.evaluate(SETS[::-1])
    built = len(program.build_seconds)
    with caplog.at_level(logging.INFO, "clhines"):
        rows = many.evaluate({name: SETS[:, k] for k, name in enumerate(PARAMETERS)})
    assert len(program.build_seconds) == built
    if engine != "reference":
        assert not [m for m in caplog.messages if m.startswith(PLANNED) or "planned again" in m]
    assert rows.v.shape == (5, 3, 201)
    tolerance = 1e5 * 100 * np.finfo(float).eps  # as in `test_changes`; mV
    for n in (1, 4):  # one set per batch
        for p, name in enumerate(PROTOCOLS):
            v, spikes = alone(n, name)
            assert np.abs(rows.v[n, p, : len(v)] - v).max() < tolerance
            assert np.isnan(rows.v[n, p, len(v) :]).all()
            assert rows.spikes(n, p).tolist() == rows.spikes(n, name).tolist() == spikes.tolist()
            assert rows.num_spikes[n, p] == len(spikes)
    assert np.array_equal(first.v[::-1], rows.v, equal_nan=True)
    for number, protocol, message in (
        (5, 0, "number is 5; expected"),
        (-1, 0, "number is -1; expected"),
        (0, 3, "protocol is 3; expected"),
        (0, "stepp", "protocol='stepp'; expected"),
    ):
        with pytest.raises(InputError, match=message):
            rows.spikes(number, protocol)
    assert rows.num_spikes[:, 0].min() > 0


def test_spikes_of_the_threshold_and_of_efel_have_two_names():
    """A plateau at -5 mV is a spike for eFEL (-20 mV) and none for the network (10 mV)."""
    net = Network.from_arrays([-1], [0, 1], [1e3], [0.0], [1e-2])
    net.insert("pas", g=1e-4, e=-65.0)
    step = {"stop": 40.0, "stimuli": [{"amp": 0.07, "delay": 2.0, "dur": 20.0}]}
    parameters = {"g": ("pas", "g")}
    rows = Population(net, parameters, {"step": step}, features=["spike_count"]).evaluate([[1e-4]])
    assert net.threshold == 10.0
    assert rows.num_spikes.tolist() == [[0]] and rows.features["spike_count"].tolist() == [[1]]
    with pytest.raises(AttributeError, match="eFEL's feature.* expected num_spikes"):
        _ = rows.spike_count
    with pytest.raises(AttributeError, match="no 'num_spike'; did you mean 'num_spikes'"):
        _ = rows.num_spike


CASES = [
    ({"x": ("hhh", "gnabar")}, {}, None, "hh"),
    ({"x": ("hh", "gna")}, {}, None, "gnabar"),
    ({"x": ("hh", ["gl"])}, {}, None, "gnabar"),
    ({"x": ("expsyn", "tau", "soma")}, {}, None, "membrane"),
    ({"x": ("pas", "g", "soma")}, {}, None, "at="),
    ({"x": ("hh", "gl"), "y": ("hh", "gl", "soma")}, {}, None, "parameters 'x' and 'y' both set"),
    ({"x": "gl"}, {}, None, "expected \\(mechanism"),
    (None, {"step": {"stop": 0.01}}, None, "stop"),
    (None, {"step": {"stop": 1.0, "stimuli": [{"amps": 1.0}]}}, None, "amp"),
    (None, {"step": {"stop": 1.0, "stimuli": [{"amp": 1.0, "at": 9999}]}}, None, "at"),
    (None, {"step": {"stop": 1.0, "stimuli": [{"delay": 0.5}]}}, None, "expected amp"),
    (None, {"step": {"stop": 1.0, "stimuli": [{"amp": 1.0, "dur": -1}]}}, None, "dur is -1 ms"),
    (None, {"step": {"stop": 1.0, "stimuli": 3.0}}, None, "stimuli is 3.0; expected a list"),
    (None, {"rest": {"stop": 1.0}, "features": ["spike_count"]}, None, "has no stimulus"),
    (None, {"features": ["spikes"]}, None, "no feature 'spikes'; expected spike_count"),
    (None, {"features": 3}, None, "features are 3; expected a list of names"),
    (None, {"features": [["spikes"]]}, None, "no feature \\['spikes'\\]; expected spike_count"),
    (None, {"devices": []}, None, r"devices is \[\]; expected a list of devices"),
    (None, None, np.ones((2, 2)), "shape"),
    (None, None, {"na": [0.1]}, "lacks leak"),
    (None, None, np.full((1, 3), np.nan), "nan"),
    (None, None, np.ma.array(SETS, mask=SETS > 0.1), "masked"),
    (None, {"record": [0, 1]}, None, r"record is \[0, 1\]; expected one node"),
    (None, {"record": [[0], [1, 2]]}, None, "record is not an array"),
    (None, {"record": np.array([0, 1])}, None, "expected one node"),
    (None, {"v_init": [[-60.0], []]}, None, "v_init is not an array"),
    ({"x": (np.array(["hh", "pas"]), "gl")}, {}, None, "the model has no"),
    (None, {"step": {"stop": 1.0, "stimuli": [{"amp": 1.0, "at": [[0], []]}]}}, None, "at is not"),
    (None, {"v_init": [-60.0, -65.0]}, None, r"v_init has shape \(2,\); expected a number or \("),
]


@pytest.mark.parametrize(("parameters", "protocols", "sets", "text"), CASES)
def test_wrong_populations_are_refused(parameters, protocols, sets, text):
    words = "features", "devices", "record", "v_init"
    options = {k: v for k, v in (protocols or {}).items() if k in words}
    protocols = {k: v for k, v in (protocols or {}).items() if k not in words}
    with pytest.raises(InputError, match=text) as error:
        made = Population(
            model(), parameters or PARAMETERS, protocols or PROTOCOLS, engine="reference", **options
        )
        made.evaluate(SETS if sets is None else sets)
    assert "\n" not in str(error.value)


class Table:
    def __init__(self, columns):
        self._columns = columns

    def keys(self):
        return self._columns.keys()

    def __iter__(self):
        return iter(self._columns)

    def __getitem__(self, name):
        return self._columns[name]

    def __array__(self, dtype=None, copy=None):
        return np.stack([*self._columns.values()], axis=1)


def test_columns_by_name_and_voltages_at_the_start_by_node(fast_queue):
    """Columns in another order, with names as in pandas; `v_init` for each node of the model."""
    net = model()
    v_init = np.linspace(-70.0, -60.0, net.forest.num_nodes)
    many = Population(
        net, PARAMETERS, {"rest": {"stop": 1.0}}, dt=DT, queue=fast_queue, v_init=v_init, record=3
    )
    result = many.evaluate(SETS)
    table = Table({name: SETS[:, k] for k, name in reversed([*enumerate(PARAMETERS)])})
    np.testing.assert_array_equal(many.evaluate(table).v, result.v)
    assert (result.v[:, 0, 0] == v_init[3]).all() and np.ptp(result.v[:, 0, -1]) > 1e-6
    with pytest.raises(InputError, match="sets has 'gk'; expected na, leak, passive"):
        many.evaluate(Table({"gk": SETS[:, 0]}))


def test_parameters_of_artificial_cells_that_the_model_has_none_of():
    net = model()
    net.add_artificial(mod_files.ours("ext_fire"), 0)
    parameters = {"na": PARAMETERS["na"], "tau": ("ext_fire", "tau")}
    many = Population(net, parameters, {"rest": {"stop": 1.0}}, record=0, engine="reference")
    result, alone = many.evaluate([[0.1, 2.0]]), Simulation(model(na=0.1), engine="reference")
    record = alone.record("v", [0])
    np.testing.assert_array_equal(result.v[0, 0], alone.run(1.0)[record][:, 0])


def test_models_that_cannot_be_copied_are_refused():
    with pytest.raises(InputError, match="one cell"):
        Population(Network(CABLES, 2), PARAMETERS, PROTOCOLS)


def exact_model(gca=None, tau=None):
    """Return a cell with ions, a pointer, played values, trains, a detector, artificial cells."""
    ours, area = mod_files.ours, np.linspace(400, 1400, 6)
    net = Network.from_arrays([-1, 0, 1, 2, 3, 4], [0, 6], area, np.full(6, 0.1), 1e-5 * area)
    nodes = np.arange(6)
    net.insert(ours("ext_cad"), nodes)
    net.insert(ours("ext_ca"), nodes, **({} if gca is None else {GCA[1]: gca}))
    net.ion("ca", nodes, ci=np.linspace(5e-5, 6e-5, 6))
    early = net.spike_source([[1.0, 2.0], [3.0]])
    nmda = net.add(ours("ext_nmda"), [3, 4])
    fire = net.add_artificial(ours("ext_fire"), 2, **({} if tau is None else {"tau": tau}))
    net.set_pointer(net.add(ours("ext_gap"), [5]), "vgap", to=[2])
    net.play(net.add(ours("ext_clamp"), [2]), 0, "amp", [0, 1, 3.0], [0, 0.1, 0.2])
    total, kept = net.add(ours("ext_total"), [1]), net.add(Mechanism.from_nmodl(KEPT_NUMBER), [1])
    adds = net.insert(ours("ext_adds"), [2, 4], ri=[3.0, 5.0], length=9.0)
    net.set_pointer(adds, "neighbour", to=[1, 3])
    net.set_pointer(adds, "total", (total, "total", 0))
    for group in (adds, total):
        net.set_pointer(group, "whole", (kept, "x", 0))
    spikes = net.add_detector([0, 5], -20.0)
    net.connect(early, nmda, [0, 1], [[0.003, 1.0]], 0.1)
    net.connect(spikes, fire, [0, 1], 1.2, 0.3)
    net.connect(fire, nmda, [1, 0], [[0.01, 1.0]], 0.2)
    return net


TURNS = """
NEURON { SUFFIX turns NONSPECIFIC_CURRENT i RANGE gbar GLOBAL q }
PARAMETER { gbar = 1e-3 (S/cm2) }
ASSIGNED { v (mV) i (mA/cm2) q }
STATE { m }
INITIAL { q = 1 m = 0.1 }
BREAKPOINT { SOLVE s METHOD cnexp i = gbar*m*(v - 50) q = 1 + v/100 }
DERIVATIVE s { m' = (0.5 - m)*q/2 }
"""


def test_what_is_one_for_all_is_refused_in_sets_and_copies():
    """Refuse writes to a variable that all sets share: each set would read the last one's."""
    net = Network(CABLES[0])
    net.insert(Mechanism.from_nmodl(TURNS), net.soma)
    fits = Population(
        net, {"g": ("turns", "gbar")}, {"a": {"stop": 1.0}}, record=0, engine="reference", batch=2
    )
    with pytest.raises(InputError, match="sets q, which is one for all"):
        fits.evaluate([[1e-3], [9e-3]])
    sim = Simulation(net, DT, engine="reference")
    with pytest.raises(InputError, match="sets q, which is one for all"):
        sim.replicate(2)


def test_models_with_exact_times(fast_queue, caplog):
    sets = np.array([[2e-4, 5.0], [1e-3, 20.0], [4e-4, 9.0]])
    protocols = {
        "step": {"stop": 5.0, "stimuli": [{"amp": 0.3, "delay": 0.5, "dur": 4.0}]},
        "rest": {"stop": 3.0},
    }
    parameters = {"ca": GCA, "tau": ("ext_fire", "tau")}
    many = Population(
        exact_model(), parameters, protocols, dt=0.05, batch=2, record=5, queue=fast_queue,
        engine="auto" if devices.is_cpu(fast_queue.device) else "steps",  # GPUs plan epochs again
    )  # fmt: skip
    first = many.evaluate(sets)
    built = len(program.build_seconds)
    with caplog.at_level(logging.INFO, "clhines"):
        result = many.evaluate(sets)
    assert len(program.build_seconds) == built
    assert not [m for m in caplog.messages if m.startswith(PLANNED) or "planned again" in m]
    assert np.array_equal(result.v, first.v, equal_nan=True)  # after the batch of other sets
    for n, p in ((0, 0), (1, 0), (2, 0), (1, 1)):
        net = exact_model(*sets[n])
        if not p:
            net.add("iclamp", 0, amp=0.3, delay=0.5, dur=4.0)
        sim = Simulation(net, 0.05, engine="reference")
        v = sim.record("v", [5])
        alone = sim.run([5.0, 3.0][p])
        of_cell = alone.spike_cell == 0
        np.testing.assert_allclose(result.v[n, p, : len(alone.t)], alone[v][:, 0], atol=1e-8)
        np.testing.assert_allclose(result.spikes(n, p), alone.spike_time[of_cell], atol=1e-9)
    assert result.v.shape == (3, 2, 101) and np.ptp(result.v[:, 0, -1]) > 1e-3


def test_features_stops_and_devices(fast_queue):
    """Features without traces, on two devices, equal `extract` of all traces."""
    names = ["spike_count", "peak_time", "voltage_base"]
    protocols = {name: PROTOCOLS[name] for name in ("step", "two")}
    options = dict(parameters=PARAMETERS, protocols=protocols, dt=DT)
    whole = Population(model(), **options, engine="reference").evaluate(SETS)
    batches = Population(model(), **options, engine="reference", batch=3)
    devices = [fast_queue.device] * 2
    several = Population(model(), **options, batch=2, devices=devices, features=names)
    result, features = batches.evaluate(SETS), several.evaluate(SETS)
    np.testing.assert_allclose(result.v, whole.v, atol=1e-8)
    for other in (result, features):
        assert other.num_spikes.tolist() == whole.num_spikes.tolist()
        np.testing.assert_array_equal(other.spike_time, whole.spike_time)
    assert features.v.shape == (5, 2, 0)
    for p, (name, start, stop) in enumerate([("step", 0.5, 4.5), ("two", 0.0, 4.0)]):
        steps = round(protocols[name]["stop"] / DT) + 1
        window = {"stim_start": start, "stim_end": stop}
        expected = extract(whole.v[:, p, :steps], whole.t[:steps], names, **window)
        for n in range(5):
            peaks = features.features["peak_time"][2 * n + p]
            np.testing.assert_allclose(peaks, expected["peak_time"][n])
        for name in ("spike_count", "voltage_base"):
            np.testing.assert_allclose(features.features[name][:, p], expected[name])
    assert features.features["spike_count"].max() > 0


def test_a_population_is_not_pickled():
    with pytest.raises(TypeError, match="cannot be pickled; expected its arguments"):
        pickle.dumps(Population(model(), PARAMETERS, PROTOCOLS, engine="reference"))
