"""Simulations in JAX, beside gradients of simulations."""

import numpy as np
import pytest
import small_networks

import clhines
from clhines import Simulation

jax = pytest.importorskip("jax")


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_are_those_of_the_simulation(compiled):
    net = small_networks.plain()
    hh = net.groups[0]
    sim = Simulation(net, 0.05, engine="reference", v_init=-60.0)
    sim.record("v", [0, 1])

    def loss(g):
        (v,) = clhines.jax.simulate(sim, 2.0, [(hh, "gnabar")], g)
        return (v**2).sum()

    slope = jax.grad(loss)
    slope = jax.jit(slope) if compiled else slope
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        gradients = slope(0.11)
    expected = sim.gradient(2.0, lambda v: ((v**2).sum(), 2 * v), [(hh, "gnabar")])
    np.testing.assert_allclose(float(gradients), expected[hh, "gnabar"], rtol=1e-12)
