"""Sections that stand for several alike (rallbranch), beside NEURON."""

import numpy as np
import pytest

import clhines
from clhines.errors import InputError

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron

ENGINES = ["reference", "steps", "epochs-cpu", "epochs-gpu"]
COUNTS = 1, 3, 2, 1, 1.5, 4


@pytest.fixture
def sections():
    """A tree with branches of branches, at both ends and in the middle, and one that is turned."""
    found = [h.Section(name=f"s{k}") for k in range(len(COUNTS))]
    for k, section in enumerate(found):
        section.L, section.diam, section.nseg = (20, 20, 1) if k == 0 else (80 + 10 * k, 3, 3)
        section.Ra, section.rallbranch = 100 + k, COUNTS[k]
        section.insert("pas" if k % 2 else "hh")
    for k, end in ((1, found[0](1)), (2, found[1](1)), (3, found[1](0.5)), (4, found[0](0))):
        found[k].connect(end)
    found[5].connect(found[2](1), 1)
    yield found
    for section in found:
        h.delete_section(sec=section)


@pytest.mark.parametrize("engine", ENGINES)
def test_branches_count_as_many_as_neuron_says(sections, engine):
    vectors = [h.Vector().record(s(x)._ref_v) for s in sections for x in (0, 0.2, 0.9, 1)]
    vectors.append(h.Vector().record(sections[2](0.5)._ref_ina))
    clamp, synapse = h.IClamp(sections[4](0)), h.AlphaSynapse(sections[0](0.5))
    clamp.delay, clamp.dur, clamp.amp = 1, 4, 2  # at a node without area
    synapse.onset, synapse.gmax = 6, 0.2

    def turns(run):
        found = []
        for alone in (1, 2.5):  # with more, the root's first node is one and the soma several
            sections[0].rallbranch, sections[1].rallbranch = alone, 3
            synapse.loc(sections[0](0.5 if alone == 1 else 0))
            h.finitialize(-65)
            run(4)
            sections[1].rallbranch = 2
            run(9)
            found.append(np.array(vectors))
        return found

    h.load_file("stdrun.hoc")
    expected = turns(h.continuerun)
    for a, b in zip(expected, turns(lambda t: clhines.neuron.run(t, engine=engine)), strict=True):
        assert np.ptp(a[:-1], axis=1).min() > 3
        # rows of the matrix are those of NEURON times a number: 1e-16 each of 65 mV in 360 steps,
        # which a spike's upstroke amplifies by about e^5
        assert np.abs(a - b).max() < 360 * 65 * 2.2e-16 * 148


def test_what_has_the_currents_of_one_branch_is_refused(sections):
    point = h.ExpSyn(sections[5](0.5))
    h.finitialize(-65)
    with pytest.raises(InputError, match="rallbranch of a section with ExpSyn"):
        clhines.neuron.run(1, engine="reference")
    point.loc(sections[0](0.5))
    assert clhines.neuron.check() == []
    h.CVode().use_fast_imem(True)
    try:
        h.finitialize(-65)
        with pytest.raises(InputError, match="rallbranch of a section with CVode.use_fast_imem"):
            clhines.neuron.run(1, engine="reference")
    finally:
        h.CVode().use_fast_imem(False)
