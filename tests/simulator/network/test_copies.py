"""Copies of a network in one network."""

import pickle

import numpy as np
import pytest

from bench.ring import ring_cables
from clhines import STDP, HostMemoryError, Network
from clhines.simulator.model.compiling import compile
from clhines.simulator.network.copies import copies_of
from clhines.simulator.network.groups import inside

pytestmark = pytest.mark.core


def network():
    net = Network(ring_cables(2))
    inside(net).added.exact = True
    net.insert("hh", "soma", gnabar=np.linspace(0.1, 0.2, len(net.nodes(at="soma"))))
    synapses = net.add("expsyn", net.soma)
    net.connect(net.add_detector(net.soma[:1], refractory=3.0), synapses, [1], 0.5, 0.3)
    return net


def test_groups_have_their_instances_copy_after_copy():
    once = network()
    net = copies_of(once, 3)
    group, one = net.groups[0], once.groups[0]
    assert len(group) == 3 * len(one)
    n = once.forest.num_nodes
    np.testing.assert_array_equal(group.nodes.reshape(3, -1), one.nodes + n * np.arange(3)[:, None])
    assert not group.nodes.flags.writeable
    np.testing.assert_array_equal(group.parameters["gnabar"], np.tile(one.parameters["gnabar"], 3))
    with pytest.raises(AttributeError, match="Group has no attribute 'weights'"):
        _ = group.weights
    again = pickle.loads(pickle.dumps(net.groups[1]))
    np.testing.assert_array_equal(again.nodes, net.groups[1].nodes)


def test_a_model_of_copies():
    once = network()
    net, model = copies_of(once, 3), compile(once)
    whole = compile(net)
    assert whole.detector_hold.tolist() == [1] * 6 + [119] * 3  # 0.025 ms steps
    np.testing.assert_array_equal(whole.netcons.source, [6, 7, 8])
    np.testing.assert_array_equal(whole.netcons.instance, [1, 3, 5])
    np.testing.assert_array_equal(whole.capacitance, np.tile(model.capacitance, 3))
    for kind, single in zip(whole.kinds, model.kinds, strict=True):
        assert kind.count == 3 * single.count == len(kind.node)
        np.testing.assert_array_equal(kind.factor, np.tile(single.factor, 3))


def test_copies_with_other_parameters_and_connections():
    net = copies_of(network(), 3)
    net.groups[0].parameters["gnabar"] = np.arange(1.0, 1.0 + len(net.groups[0]))
    model = compile(net)
    np.testing.assert_array_equal(
        model.kinds[0].arrays()["gnabar"], net.groups[0].parameters["gnabar"]
    )
    net = copies_of(network(), 3)
    net.connect([0], net.groups[1], [4], 0.5, 0.3)
    assert compile(net).netcons.count == 4


def test_copies_keep_the_rule_of_plastic_connections():
    once = Network(ring_cables(1))
    once.connect([0], once.add("expsyn", once.soma), [0], 0.5, 1.0, rule=STDP(0.1, 0.1))
    connections = compile(copies_of(once, 2)).connections
    assert connections.rule == STDP(0.1, 0.1) and connections.plastic.tolist() == [True, True]


def test_copies_that_do_not_fit_into_memory():
    with pytest.raises(HostMemoryError, match="^copies of a network with .* nodes take"):
        copies_of(network(), 10**12)
