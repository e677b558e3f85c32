"""Groups of one mechanism merged into one kind, and constant groups as sums."""

import numpy as np
import pytest
from networks import CABLES, full_network

from clhines import Network
from clhines.simulator.model import compile
from clhines.simulator.network.changes import as_value
from clhines.simulator.runner import CurrentModel, Staleness

pytestmark = pytest.mark.core


@pytest.mark.parametrize("cables", [CABLES[0], CABLES[:2]])
def test_constant_mechanisms_summed_again_have_the_bits_of_a_model(cables):
    net = Network(cables, 4)
    soma, rest = net.insert("pas", "soma", g=2e-4), net.insert("pas", "dendrites", e=-70.0)
    current = CurrentModel(net, {"dt": 0.025, "v_init": -65.0})
    changes = current.changes
    for value in (3e-4, np.linspace(1e-4, 4e-4, 4), np.linspace(1e-4, 2e-4, len(rest))):
        per_cell = net.per_cell(value) if np.shape(value) == (4,) else value
        changes.parameters[rest.number] = {"g": as_value(rest, "g", per_cell)}
        changes.parameters[soma.number] = {"e": as_value(soma, "e", -60.0)}
        current.mark_stale(Staleness.VALUES)
        sums, model, whole = current.sums(), current.current, compile(net, changes=changes)
        for name, values in sums.items():
            expected = getattr(whole, name).tobytes()
            assert values.tobytes() == getattr(model, name).tobytes() == expected
        assert not (model.constant_d == compile(net).constant_d).all()


def test_groups_of_one_mechanism_become_one_kind():
    net, first = full_network()
    second = net.add("expsyn", at=[0, int(net.soma[1]), 0], tau=2.0, e=[1.0, 2.0, 3.0])
    net.connect(source=[3, 0], target=second, index=[2, 1], weight=[0.5, 0.25], delay=1.0)
    net.add_event(first, index=[0, 1], time=[0.6, 0.3], weight=[7.0, 8.0])
    model = compile(net, 0.1)
    hh, syn = model.kinds
    assert (hh.mechanism.name, syn.mechanism.name) == ("hh", "expsyn")
    np.testing.assert_allclose(hh.factor, 1e-2 * net.area[net.soma])
    np.testing.assert_array_equal(syn.factor, 1.0)
    assert hh.parameters["gnabar"] == 0.12
    assert (hh.first_target, syn.first_target, model.num_targets) == (-1, 0, 6)
    assert (hh.first_instance, syn.first_instance) == (0, 4)
    assert (np.diff(syn.node) >= 0).all()
    for group, tau, e in ((first, [1, 2, 3], [0, 0, 0]), (second, [2, 2, 2], [1, 2, 3])):
        kind, place = model.instances[group.number]
        assert kind == 1
        np.testing.assert_array_equal(syn.node[place], group.nodes)
        np.testing.assert_array_equal(syn.arrays()["tau"][place], tau)
        np.testing.assert_array_equal(syn.arrays()["e"][place], e)
    place = model.instances[second.number][1]
    assert model.connections.target.tolist() == place[[2, 1]].tolist()
    assert model.connections.source.tolist() == [3, 0]
    assert model.connections.weight.tolist() == [0.5, 0.25]
    assert model.connections.delay.tolist() == [10, 10]
    place = model.instances[first.number][1]
    assert model.events.step.tolist() == [3, 6]
    assert model.events.target.tolist() == place[[1, 0]].tolist()
    assert model.events.weight.tolist() == [8.0, 7.0]
