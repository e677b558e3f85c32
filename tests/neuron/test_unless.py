"""Mechanisms that draw from NEURON's global generator, always or if a parameter says so."""

import numpy as np
import pytest
from neuron_scripts import by_both, make_section, with_values

import clhines
from tests.support import mod_files

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron


@pytest.mark.parametrize("engine", ["reference", "steps", "epochs", "epochs-gpu"])
def test_sources_without_noise(engine):
    mod_files.loaded()
    soma = make_section("soma", "pas")
    source, synapse = with_values(h.nmnoise(), interval=1.3), h.ExpSyn(soma(0.5))
    _wire = h.NetCon(source, synapse, 10, 0.9, 0.002)
    v = h.Vector().record(soma(0.5)._ref_v)
    h.finitialize(-65)
    h.continuerun(8)
    expected = np.array(v)
    h.finitialize(-65)
    clhines.neuron.run(4, engine=engine)
    clhines.neuron.run(8, engine=engine)
    assert np.ptp(expected) > 1
    # both sides do the same operations in another order, 1e-16 each at 65 mV, over 320 steps
    assert np.abs(np.array(v) - expected).max() < 1e-9
    source.told = 1
    with pytest.raises(clhines.InputError, match=r"VERBATIM.*told = 1"):
        clhines.neuron.run(12, engine=engine)
    source.noise = 0.5
    with pytest.raises(clhines.InputError, match=r"exprand.*noise = 0.5"):
        clhines.neuron.run(12, engine=engine)


def drawing(seed):
    """A synapse that draws, objects to keep alive, and NEURON's function that sets the seed."""
    mod_files.loaded()
    soma = make_section("soma", "pas")
    synapse, source = h.nmdraws(soma(0.5)), h.NetStim()
    synapse.seed, source.interval, source.number, source.start = seed, 1.3, 20, 0.7
    wire = h.NetCon(source, synapse, 10, 0.4, 0.2)
    return synapse, (soma, source, wire)


@pytest.mark.parametrize("seed", [-1, 77])
@pytest.mark.parametrize("engine", ["reference", "steps", "epochs", "epochs-gpu"])
def test_numbers_of_the_one_generator(engine, seed):
    synapse, kept = drawing(seed)
    names = ["m", "x", "y", "turns", "u"]
    records = [h.Vector().record(kept[0](0.5)._ref_v)]
    records += [h.Vector().record(getattr(synapse, f"_ref_{name}")) for name in names]

    def turns(run):
        results = []
        synapse.sow(12345)
        for turn in range(2):
            synapse.noise = 0.5 + 0.2 * turn
            h.finitialize(-65)
            run(2)
            run(5)
            h.continuerun(6)
            results.append(np.array(records))
        return results, synapse.pick()

    expected, after = turns(h.continuerun)
    results, ours = turns(lambda t: clhines.neuron.run(t, engine=engine))
    assert ours == after and np.ptp(expected[1][4]) > 10
    for a, b in zip(expected, results, strict=True):
        # both sides do the same operations in another order, 1e-16 each at 65 mV, over 240 steps
        assert np.abs(a - b).max() < 1e-8


def sources(count):
    """A section, and sources with noise of NEURON's global generator that end at a synapse."""
    mod_files.loaded()
    soma = make_section("soma", "pas")
    synapse, made = h.ExpSyn(soma(0.5)), [h.nmnoise() for _ in range(count)]
    netcons = [h.NetCon(source, synapse, 0, 0.3, 0.002) for source in made]
    return soma, made, (synapse, netcons)


@pytest.mark.parametrize("engine", ["reference", "steps", "epochs", "epochs-gpu"])
def test_one_source_whose_parameters_ask_for_numbers(engine):
    """Compare a source whose noise changes between runs by NEURON and here in turns."""
    soma, (source,), kept = sources(1)
    v, results = h.Vector().record(soma(0.5)._ref_v), []
    for run in (h.continuerun, lambda t: clhines.neuron.run(t, engine=engine)):
        h.sow_nmfluct(99)
        for noise in (0, 0.7):
            source.noise = noise
            h.finitialize(-65)
            for until, one in ((6, run), (6.5, h.continuerun), (15, run)):
                one(until)
            results.append([np.array(v), [source.sent, h.draw_nmfluct()]])
    for (ours, after), (theirs, after_theirs) in zip(results[2:], results[:2], strict=True):
        assert kept and after == after_theirs and np.ptp(theirs) > 1
        # both sides do the same operations in another order, 1e-16 each at 65 mV, over 600 steps
        assert np.abs(ours - theirs).max() < 1e-9


REFUSED = "draws from NEURON's shared generator by several instances"


@pytest.mark.parametrize(
    "name", ["nmdraws", "nmnoise", "nmownev", "nmfluct", "nmjolts", "ext_poisson"]
)
def test_several_that_draw_are_rejected_and_neuron_runs_them(name, capsys):
    """`check` lists draws in INITIAL, steps, events and sources; the switch runs NEURON."""
    soma, made, kept = sources(2)
    out = h.ext_heard(soma(0.5))
    if name == "nmnoise":
        made[1].noise = 0.5
    elif name == "nmfluct":
        soma.nseg = 3
        soma.insert(name)
    else:
        kept = [*kept, getattr(h, name)(soma(0.5)), getattr(h, name)(soma(0.5))]
        if name == "ext_poisson":
            for one in kept[-2:]:
                h.setpointer(out._ref_stim, "out", one)
    h.finitialize(-65)
    assert any(REFUSED in str(one) for one in clhines.neuron.check())
    for call in (lambda: clhines.neuron.run(1), clhines.from_neuron):
        with pytest.raises(clhines.InputError, match=REFUSED):
            call()
    assert h.t == 0
    v, results = h.Vector().record(soma(0.5)._ref_v), []
    for switch in (False, True):
        h.sow_nmfluct(7)
        h.finitialize(-65)
        if switch:
            with clhines.neuron.enable(when="always") as on:
                h.continuerun(3)
            assert on.steps == 0 and len(on.reasons) == 1 and REFUSED in on.reasons[0]
            assert on.reasons[0] in capsys.readouterr().err
        else:
            h.continuerun(3)
        results.append(np.array(v))
    assert (results[0] == results[1]).all()


def test_several_of_which_none_draws_run():
    soma, made, kept = sources(2)
    v = h.Vector().record(soma(0.5)._ref_v)
    results = by_both(lambda: np.array(v), 5)
    assert kept and made and np.ptp(results[0]) > 1
    # both sides do the same operations in another order, 1e-16 each at 65 mV, over 200 steps
    assert np.abs(results[1] - results[0]).max() < 1e-9


def test_one_instance_in_copies_or_with_mcell_ran4_is_rejected():
    synapse, kept = drawing(-1)
    h.finitialize(-65)
    with pytest.raises(clhines.InputError, match="one generator"):
        clhines.from_neuron(copies=2)
    h.use_mcell_ran4(1)
    try:
        with pytest.raises(clhines.InputError, match="mcell_ran4"):
            clhines.neuron.run(1)
    finally:
        h.use_mcell_ran4(0)
    assert synapse and kept
