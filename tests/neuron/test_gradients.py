"""Gradients of models read from NEURON."""

import central_differences
import pytest

import clhines

neuron = pytest.importorskip("neuron", reason="NEURON is not installed")
pytestmark = pytest.mark.neuron
h = neuron.h


def test_a_model_of_neuron_has_gradients():
    h.load_file("stdrun.hoc")
    soma, dendrite = h.Section(name="soma"), h.Section(name="dendrite")
    dendrite.connect(soma(1))
    soma.L = soma.diam = 20
    dendrite.L, dendrite.diam, dendrite.nseg = 200, 2, 5
    soma.insert("hh")
    dendrite.insert("pas")
    clamp = h.IClamp(soma(0.5))
    clamp.delay, clamp.dur, clamp.amp = 0.5, 2, 0.3
    h.finitialize(-65.3)  # between two rows in hh's TABLE
    model = clhines.from_neuron()
    sim = model.simulation
    sim.record("v", sim.network.soma)
    of = {(g.mechanism.name, name): (g, name) for g in sim.network.groups for name in g.parameters}
    wanted = [of["hh", "gnabar"], of["pas", "g"], of["IClamp", "amp"]]
    gradient = central_differences.check_parameters(sim, 3.0, 1, wanted, size=1e-7, rel=2e-6)
    assert all(gradient[one].any() for one in wanted)
