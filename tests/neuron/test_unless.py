"""Mechanisms that draw from NEURON's one generator where a parameter says so, beside NEURON."""

import numpy as np
import pytest

import clhines
from tests.support import mod_files

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron


@pytest.mark.parametrize("engine", ["reference", "steps", "epochs-cpu", "epochs-gpu"])
def test_sources_without_noise(engine):
    mod_files.loaded()
    soma = h.Section(name="soma")
    soma.insert("pas")
    source, synapse = h.nmnoise(), h.ExpSyn(soma(0.5))
    source.interval = 1.3
    wire = h.NetCon(source, synapse)
    wire.delay, wire.weight[0] = 0.9, 0.002
    v = h.Vector().record(soma(0.5)._ref_v)
    h.finitialize(-65)
    h.continuerun(8)
    expected = np.array(v)
    h.finitialize(-65)
    clhines.neuron.run(4, engine=engine)
    clhines.neuron.run(8, engine=engine)
    assert np.ptp(expected) > 1
    # both sides do the same operations in another order, 1e-16 each of 65 mV, over 320 steps
    assert np.abs(np.array(v) - expected).max() < 1e-9
    source.told = 1
    with pytest.raises(clhines.InputError, match=r"VERBATIM.*told = 1"):
        clhines.neuron.run(12, engine=engine)
    source.told, source.noise = 0, 0.5
    with pytest.raises(clhines.InputError, match=r"exprand.*noise = 0.5"):
        clhines.neuron.run(12, engine=engine)
