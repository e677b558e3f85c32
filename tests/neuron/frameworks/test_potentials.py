"""Potentials of LFPy and NetPyNE under the switch are those of the frameworks' own loops."""

import importlib.util
from pathlib import Path

import forked
import pytest

pytestmark = pytest.mark.neuron
# Steps of 1 to 1e2 mV round currents by 1e-13 of these; the upstrokes of spikes amplify that.
APART = 1e-10


def values_of(framework):
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    return forked.result_of(Path(__file__).with_name(f"{framework.lower()}_program.py"))


def test_probes_of_lfpy():
    values = values_of("LFPy")
    assert len(values["rows"]) == 6
    assert all(same_shape and apart < APART for same_shape, apart in values["rows"])
    assert values["steps"] == [320, 320]  # NEURON takes the steps before 0 ms
    assert values["variable"] == 0


def test_lfp_of_netpyne():
    """Spikes, LFP, and its parts, for intervals of several steps, one, and no whole number.

    And spikes of a network without electrodes.
    """
    values = values_of("netpyne")
    assert len(values["rows"]) == 10
    assert all(same_shape and apart < APART for same_shape, apart in values["rows"])
    assert values["steps"] == [800] * 4


def test_times_of_events_are_those_of_neuron():
    """Compare an event that adds the next one, like NetPyNE's, in intervals of any length."""
    assert (
        forked.printed_by("""
from clhines.neuron.frameworks.potentials import samples
soma, same = h.Section(name="soma"), []
h.dt, pc = 0.025, h.ParallelContext()
pc.set_maxstep(10)
for interval in (0.025, 0.1, 0.04, 0.0126, 1.0):
    seen = []
    def sample():
        seen.append(h.t)
    def add():
        h.CVode().event(h.t + interval, sample)
        h.CVode().event(h.t + interval, add)
    handler = h.FInitializeHandler(0, add)
    h.finitialize(-65)
    pc.psolve(20)
    times, clock = samples(0.025, interval, 20.0)
    assert len(seen) <= len(clock) <= len(seen) + 2
    same.append(bool((np.array(seen) == clock[:len(seen)]).all()))
    del handler
print(json.dumps(same))
""")
        == [True] * 5
    )
