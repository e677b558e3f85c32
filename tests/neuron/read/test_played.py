"""Vector.play into celsius, beside NEURON: every instance follows, or it is rejected."""

import numpy as np
import pytest

import clhines
from tests.support import mod_files

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron
NAMES = ("na_mainen", "k_mainen", "ih_magee", "nmghk")


@pytest.fixture
def cell():
    """Return a cell whose channels use celsius in rates, in a current and in INITIAL."""
    mod_files.loaded()
    soma = h.Section(name="soma")
    soma.L, soma.diam, soma.nseg = 30, 20, 3
    for name in ("pas", *NAMES):
        soma.insert(name)
    before = h.celsius
    yield soma
    for vector in h.List("Vector"):  # a test that fails holds its own
        vector.play_remove()
    h.celsius = before


@pytest.mark.parametrize("engine", ["reference", "steps", "epochs", "epochs-gpu"])
@pytest.mark.parametrize("continuous", [True, False])
def test_values_of_each_step(cell, engine, continuous):
    times, values = h.Vector([0, 2.0125, 5, 11]), h.Vector([20, 31, 26, 35])
    values.play(h._ref_celsius, times, continuous)
    clamp = h.IClamp(cell(0.5))
    clamp.dur = 100
    size, knots = h.Vector([0.1, 0.3, 0.2]), h.Vector([1.006, 3.019, 9.0125])  # in both halves
    size.play(clamp._ref_amp, knots, 1)
    recorded = cell(0.5)._ref_v, cell(0.9).k_mainen._ref_n, clamp._ref_amp
    records = [h.Vector().record(x) for x in recorded]
    found = []
    for go in (h.continuerun, lambda t: clhines.neuron.run(t, engine=engine)):
        h.celsius, clamp.amp = 20, 0
        h.finitialize(-65)
        ends = []
        for until, one in ((1, go), (7, go), (7.5, h.continuerun), (14, go)):
            one(until)
            ends.append(h.celsius)
        found.append((ends, np.array(records)))
    (ends, truth), (own_ends, own) = found
    assert len({*ends}) > 2 and own_ends == ends
    values.play_remove()
    h.celsius = 20
    h.finitialize(-65)
    h.continuerun(14)
    constant = np.array(records)
    assert (np.abs(constant - truth).max(1)[:2] > 1e-3 * np.ptp(truth, axis=1)[:2]).all()
    # both sides do the same operations in another order: 1e-16 of 65 mV, in 560 steps
    assert (np.abs(own - truth).max(1) < 1e-9 * np.ptp(truth, axis=1)).all()


def test_uses_that_would_not_follow_are_rejected(cell):
    values, times = h.Vector([20, 31]), h.Vector([0, 2])
    values.play(h._ref_celsius, times, 1)
    h.finitialize(-65)
    assert clhines.neuron.check() == []
    cell.insert("hh")
    h.ion_style("na_ion", 3, 2, 1, 1, 1, sec=cell)
    h.finitialize(-65)
    said = [str(line) for line in clhines.neuron.check()]
    assert any("Vector.play into celsius, with TABLE in the file" in line for line in said), said
    cell.uninsert("hh")
    h.finitialize(-65)
    with pytest.raises(clhines.InputError, match="the reversal potential of na"):
        clhines.neuron.run(1)
    h.ion_style("na_ion", 1, 1, 0, 0, 0, sec=cell)
    other = h.Vector([20, 31])
    other.play(h._ref_celsius, times, 1)
    h.finitialize(-65)
    with pytest.raises(clhines.InputError, match="play one of them"):
        clhines.neuron.run(1)
