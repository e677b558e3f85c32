"""Simulations in PyTorch, beside gradients of simulations."""

import numpy as np
import pytest
import small_networks

import clhines
from clhines import InputError, Simulation

torch = pytest.importorskip("torch")


def simulation():
    net = small_networks.with_synapse()
    net.add("iclamp", [0], delay=0.1, dur=2.0, amp=1.0)
    sim = Simulation(net, 0.05, engine="reference")
    sim.record("v", [0, 1])
    sim.record("hh.m", [0])
    return net, sim


def test_gradients_are_those_of_the_simulation():
    net, sim = simulation()
    hh = net.groups[0]
    of = [(hh, "gnabar"), "weight"]
    values = [torch.tensor(0.11, dtype=torch.float64, requires_grad=True)]
    values += [torch.tensor([0.02], dtype=torch.float64, requires_grad=True)]
    v, m = clhines.torch.simulate(sim, 3.0, of, *values)
    assert v.shape == (61, 2) and m.shape == (61, 1) and v.dtype == torch.float64
    ((v**2).sum() + m.exp().sum()).backward()

    def loss(v, m):
        return (v**2).sum() + np.exp(m).sum(), [2 * v, np.exp(m)]

    expected = sim.gradient(3.0, loss, of)
    for one, value in zip(of, values):
        np.testing.assert_allclose(value.grad.numpy(), expected[one], rtol=1e-12)


def test_by_its_own_check():
    net, sim = simulation()
    g = torch.tensor(0.12, dtype=torch.float64, requires_grad=True)

    def last(g):
        return clhines.torch.simulate(sim, 0.5, [(net.groups[0], "gnabar")], g)[0][-1]

    assert torch.autograd.gradcheck(last, g, eps=1e-5, atol=1e-5)


def test_wrong_values():
    net, sim = simulation()
    hh = net.groups[0]
    one = torch.tensor(0.1)
    for of, values, what in (
        ([(hh, "el")], [], "expected one for each of 1"),
        (["cm"], [one], "which no simulation sets"),
        ([(hh, "el")], [0.1], "expected a torch.Tensor"),
        ([(hh, "el")], [torch.tensor(-54)], "got a tensor of torch.int64; expected floating"),
    ):
        with pytest.raises(InputError, match=what):
            clhines.torch.simulate(sim, 0.5, of, *values)
    with pytest.raises(AttributeError, match="simulated"):
        clhines.torch.simulated  # noqa: B018
