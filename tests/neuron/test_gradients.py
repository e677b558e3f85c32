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


def test_a_netstim_has_no_derivative_but_its_synapse_has():
    """NetStim may draw an interval before the one that it sends, by a condition."""
    soma = h.Section(name="soma")
    soma.L = soma.diam = 20
    soma.insert("pas")
    synapse, stim = h.Exp2Syn(soma(0.5)), h.NetStim()
    stim.number, stim.start, stim.interval, stim.noise = 4, 0.1, 0.3, 0.5
    stim.noiseFromRandom123(1, 2, 3)
    connection = h.NetCon(stim, synapse)
    connection.weight[0], connection.delay = 0.003, 0.1
    h.finitialize(-65)
    sim = clhines.from_neuron().simulation
    sim.record("v", [0])
    groups = {g.mechanism.name: g for g in sim.network.groups}
    wanted = [(groups["pas"], "g"), (groups["Exp2Syn"], "tau2")]
    central_differences.check_parameters(sim, 3.0, 1, wanted, rel=2e-6)
    loss = central_differences.weighted_squares(central_differences.rows_of(sim, 3.0, 1)[0])
    weight, slope = sim.weights(), sim.gradient(3.0, loss, ["weight"])["weight"]

    def value_at(step):
        sim.set(weight=weight * (1 + step))
        rows, spikes = central_differences.rows_of(sim, 3.0, 1)
        return loss(*rows)[0], spikes

    expected = central_differences.slope(value_at, 1e-4)
    assert slope @ weight == pytest.approx(expected, rel=1e-6) and expected
    with pytest.raises(clhines.InputError, match="interval of NetStim decides when an event"):
        sim.gradient(3.0, loss, [(groups["NetStim"], "interval")])
