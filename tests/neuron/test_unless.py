"""Mechanisms that draw from NEURON's one generator, where a parameter says so or always."""

import numpy as np
import pytest

import clhines
from tests.support import mod_files

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron


@pytest.mark.parametrize("engine", ["reference", "steps", "epochs", "epochs-gpu"])
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
    source.noise = 0.5
    with pytest.raises(clhines.InputError, match=r"exprand.*noise = 0.5"):
        clhines.neuron.run(12, engine=engine)


def drawing(seed):
    """A synapse that draws, what must live on, and a function of NEURON that sets the seed."""
    mod_files.loaded()
    soma = h.Section(name="soma")
    soma.insert("pas")
    synapse, source = h.nmdraws(soma(0.5)), h.NetStim()
    synapse.seed, source.interval, source.number, source.start = seed, 1.3, 20, 0.7
    wire = h.NetCon(source, synapse)
    wire.delay, wire.weight[0] = 0.4, 0.2
    return synapse, (soma, source, wire)


@pytest.mark.parametrize("seed", [-1, 77])
@pytest.mark.parametrize("engine", ["reference", "steps", "epochs", "epochs-gpu"])
def test_numbers_of_the_one_generator(engine, seed):
    synapse, kept = drawing(seed)
    names = ["m", "x", "y", "turns", "u", "n"]
    records = [h.Vector().record(kept[0](0.5)._ref_v)]
    records += [h.Vector().record(getattr(synapse, f"_ref_{name}")) for name in names]

    def turns(run):
        found = []
        synapse.sow(12345)
        for turn in range(2):
            synapse.noise = 0.5 + 0.2 * turn
            h.finitialize(-65)
            run(2)
            run(5)
            h.continuerun(6)
            found.append(np.array(records))
        return found, synapse.pick()

    expected, after = turns(h.continuerun)
    found, own = turns(lambda t: clhines.neuron.run(t, engine=engine))
    assert own == after and np.ptp(expected[1][4]) > 10
    for a, b in zip(expected, found, strict=True):
        # both sides do the same operations in another order, 1e-16 each of 65 mV, over 240 steps
        assert np.abs(a - b).max() < 1e-8


def test_several_would_draw_in_turn():
    (_, kept), (other, more) = drawing(-1), drawing(-1)
    assert kept and more
    h.finitialize(-65)
    with pytest.raises(clhines.InputError, match="in turn"):
        clhines.neuron.run(1)
    del other, more
    h.finitialize(-65)
    with pytest.raises(clhines.InputError, match="in turn"):
        clhines.from_neuron(copies=2)
    h.use_mcell_ran4(1)
    try:
        with pytest.raises(clhines.InputError, match="mcell_ran4"):
            clhines.neuron.run(1)
    finally:
        h.use_mcell_ran4(0)
