"""Gap junctions against a closed formula; refusals. `neuron/test_kept` compares with NEURON."""

import numpy as np
import pytest

from clhines import InputError, Network, Simulation
from clhines.simulator.model import compile

DT, G = 0.025, [0.004, 0.002]  # ms, µS
A, B = [5, 0], [9, 6]  # a dendrite's end to the middle of another one; somas
ENGINES = ["reference", "steps", "epochs-cpu", "epochs-gpu"]


def network():
    parent = np.array([*range(-1, 5), *range(5, 11)])
    parent[[0, 6]] = -1
    area = np.full(12, 500.0)
    net = Network.from_arrays(parent, [0, 6, 12], area, np.full(12, 0.1), 1.1e-5 * area)
    net.insert("hh", np.arange(12))
    return net, net.gap(A, B, G)


@pytest.mark.parametrize("engine", ENGINES)
def test_two_compartments_reach_each_other(double_queue, engine):
    """The difference shrinks by (1 - r)/(1 + r) per step, r = g*dt/c; the sum stays."""
    c, g = 0.01, 0.004
    net = Network.from_arrays([-1, -1], [0, 1, 2], [500.0] * 2, [0.0] * 2, [c] * 2)
    net.gap(0, 1, g)
    sim = Simulation(net, DT, v_init=[-60.0, -70.0], queue=double_queue, engine=engine)
    number = sim.record("v", [0, 1])
    v, r = sim.run(20 * DT)[number], g * DT / c
    # each step rounds some numbers of 100 mV by 2**-53
    eps = 20 * 10 * 100 * 2.0**-53
    expected = 10 * ((1 - r) / (1 + r)) ** np.arange(21)
    np.testing.assert_allclose(v[:, 0] - v[:, 1], expected, 0, eps)
    np.testing.assert_allclose(v.sum(axis=1), -130, 0, eps)


def test_what_it_becomes(tmp_path):
    net, halves = network()
    assert len(halves) == 4 and list(halves.nodes) == A + B
    net.save(tmp_path / "net.npz")
    for model in (compile(net), compile(Network.load(tmp_path / "net.npz"))):
        ((k, name),) = model.pointers
        assert name == "vgap" and "pointers" in model.needs
        order = np.argsort(model.instances[halves.number][1])
        assert list(model.kinds[k].node[np.argsort(order)]) == A + B
        assert list(model.pointers[k, name][np.argsort(order)]) == B + A
    sim = Simulation(net, DT, v_init=np.arange(-70.0, -58.0), engine="reference")
    number = sim.record("i", halves)
    first = sim.run(DT)[number][-1]
    sim.set(halves, g=0.0)
    assert np.any(first != 0) and not np.any(sim.run(DT)[number][-1])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((0, 0, 1.0), r"gap junction 0 joins node 0 to itself; expected another node$"),
        (([0, 1], 2, [1.0, -1.0]), r"g of gap junction 1 is -1 uS; expected 0 or more$"),
        (([0, 1], [0, 1, 2], 1.0), r"a \(2,\), b \(3,\), g \(1,\) do not broadcast"),
        ((0, 12, 1.0), r"b\[0\]: there is no node 12; expected 0 to 11"),
        (("soma", 1, 1.0), "a is 'soma'; expected whole numbers of nodes"),
        ((0, 1, np.nan), r"g\[0\] is nan; expected a finite number"),
    ],
)
def test_refusals(given, message):
    net, _ = network()
    with pytest.raises(InputError, match=message) as error:
        net.gap(*given)
    assert "\n" not in str(error.value) and len(net.groups) == 2
