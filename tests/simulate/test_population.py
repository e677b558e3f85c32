"""Populations: the oracle is the model alone, one set and one protocol after another."""

import functools
import logging

import numpy as np
import pytest
from networks import CABLES, DT

from clhines import InputError, Network, Population, Simulation
from clhines.device import program

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
    """One cell with channels in all of it and a synapse that gets an event."""
    net = Network(CABLES[0])
    soma = np.isin(np.flatnonzero(net.area > 0), net.nodes(where="soma"))
    net.insert("hh", "all", gnabar=np.where(soma, na, 0.03), gl=leak)
    net.insert("pas", "dendrites", g=passive, e=-65.0)
    syn = net.add("expsyn", at=net.soma, tau=2.0, e=0.0)
    net.event(syn, 0, 3.0, 0.002)
    net.threshold = -20.0
    return net


@functools.cache
def alone(number, name):
    """Voltages and spikes of one set under one protocol, by the reference."""
    net, protocol = model(*SETS[number]), PROTOCOLS[name]
    for one in protocol.get("stimuli", []):
        given = {"dur": 1e9, "delay": 0.0, **one}
        net.add("iclamp", given.pop("at", net.soma[0]), **given)
    sim = Simulation(net, DT, engine="reference")
    record = sim.record("v", net.soma)
    found = sim.run(protocol["stop"])
    return found[record][:, 0], found.spike_time


@pytest.mark.parametrize("engine", ["epochs", "reference"])
def test_sets_under_protocols_are_those_of_the_model_alone(engine, fast_queue, caplog):
    many = Population(
        model(), PARAMETERS, PROTOCOLS, dt=DT, batch=3, queue=fast_queue, engine=engine
    )
    first = many.evaluate(SETS[::-1])
    built = len(program.build_seconds)
    with caplog.at_level(logging.INFO, "clhines"):
        found = many.evaluate({name: SETS[:, k] for k, name in enumerate(PARAMETERS)})
    assert len(program.build_seconds) == built
    if engine != "reference":
        words = "planned", "engine", "built", "method"
        assert not [m for m in caplog.messages if m.startswith(words) or "planned again" in m]
    assert found.v.shape == (5, 3, 201)
    tolerance = 1e5 * 100 * np.finfo(float).eps  # as of `test_changing`; mV
    for n in (1, 4):  # of both slices
        for p, name in enumerate(PROTOCOLS):
            v, spikes = alone(n, name)
            assert np.abs(found.v[n, p, : len(v)] - v).max() < tolerance
            assert np.isnan(found.v[n, p, len(v) :]).all()
            assert found.spikes(n, p).tolist() == spikes.tolist()
            assert found.spike_count[n, p] == len(spikes)
    assert np.array_equal(first.v[::-1], found.v, equal_nan=True)
    assert found.spike_count[:, 0].min() > 0


CASES = [
    ({"x": ("hhh", "gnabar")}, {}, None, "hh"),
    ({"x": ("hh", "gna")}, {}, None, "gnabar"),
    ({"x": ("expsyn", "tau", "soma")}, {}, None, "membrane"),
    ({"x": ("pas", "g", "soma")}, {}, None, "where"),
    ({"x": ("hh", "gl"), "y": ("hh", "gl", "soma")}, {}, None, "another name"),
    ({"x": "gl"}, {}, None, "expected \\(mechanism"),
    (None, {"step": {"stop": 0.01}}, None, "stop"),
    (None, {"step": {"stop": 1.0, "stimuli": [{"amps": 1.0}]}}, None, "amp"),
    (None, {"step": {"stop": 1.0, "stimuli": [{"amp": 1.0, "at": 9999}]}}, None, "at"),
    (None, {"step": {"stop": 1.0, "stimuli": 3.0}}, None, "stimuli is 3.0; expected a list"),
    (None, None, np.ones((2, 2)), "shape"),
    (None, None, {"na": [0.1]}, "lacks leak"),
    (None, None, np.full((1, 3), np.nan), "nan"),
]


@pytest.mark.parametrize(("parameters", "protocols", "sets", "text"), CASES)
def test_wrong_populations_are_refused(parameters, protocols, sets, text):
    with pytest.raises(InputError, match=text) as error:
        made = Population(
            model(), parameters or PARAMETERS, protocols or PROTOCOLS, engine="reference"
        )
        made.evaluate(SETS if sets is None else sets)
    assert "\n" not in str(error.value)


def test_models_that_cannot_be_copied_are_refused():
    with pytest.raises(InputError, match="one cell"):
        Population(Network(CABLES, 2), PARAMETERS, PROTOCOLS)
    net = model()
    net.detector(0)
    with pytest.raises(InputError, match="extended"):
        Population(net, PARAMETERS, PROTOCOLS)
