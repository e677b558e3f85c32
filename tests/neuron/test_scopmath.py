"""Functions that NEURON's library scopmath gives to .mod files, beside NEURON."""

import numpy as np
import pytest

import clhines
from tests.support import mod_files

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron
MODES = range(16)


@pytest.mark.parametrize("engine", ["reference", "auto"])
def test_values(engine):
    """Of all functions at once: at the same times, with parameters that are drawn."""
    mod_files.loaded()
    soma = h.Section(name="soma")
    soma.L = soma.diam = 10
    random, points = np.random.default_rng(11), []
    for mode in MODES:
        for k in range(4):
            point = h.nmscop(soma(0.5))
            point.mode, point.x = mode, 0.0 if k == 0 else random.integers(0, 3)
            for name in "abcd":
                value = random.choice([0.25, 0.5, 1, 1.7]) if k < 2 else random.uniform(0.1, 2)
                setattr(point, name, value)
            points.append(point)
    records = [h.Vector().record(point._ref_y) for point in points]
    found = []
    for go in (h.continuerun, lambda t: clhines.neuron.run(t, engine=engine)):
        h.dt, h.steps_per_ms = 0.125, 8  # whose times are exact, and so on each jump
        h.finitialize(-65)
        go(8)
        found.append(np.array(records))
    h.dt, h.steps_per_ms = 0.025, 40
    truth, own = found
    assert (np.ptp(truth, axis=1) > 0).reshape(16, 4).any(1).all()
    # equal but for a few roundings of exp, pow and sin; powers of numbers near 0 are far apart
    np.testing.assert_allclose(own, truth, rtol=1e-13, atol=1e-13)


def test_numbers_of_a_file_are_refused():
    """NEURON's stepforce reads them in its own steps."""
    mod_files.loaded()
    soma = h.Section(name="soma")
    force = h.ext_force(soma(0.5))
    said = [str(line) for line in clhines.neuron.check()]
    assert force.late == 0 and len(said) == 1
    assert "stepforce of 'ext_force.dat' without its numbers" in said[0]
