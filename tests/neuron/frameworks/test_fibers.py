"""Compare PyFibers' runs of fibers in extracellular fields with and without the switch."""

import importlib.util
from pathlib import Path

import forked
import pytest

pytest.importorskip("neuron", reason="NEURON is not installed")
pytestmark = pytest.mark.neuron
# mV; the fast sodium currents of nodes amplify rounding of 1e-13 mV in the upstroke of a spike
APART = 1e-8


def test_runs_and_thresholds_of_pyfibers():
    """Two sources, calls of `exit_func`, an early end, and steps that NEURON has to take."""
    if importlib.util.find_spec("pyfibers") is None:
        pytest.skip("pyfibers is not installed")
    values = forked.result_of(Path(__file__).with_name("pyfibers_program.py"))
    for name, (same_shape, truth, ours, apart, _) in values["rows"].items():
        assert same_shape and truth == ours and truth[-1] and apart < APART, name
    lengths = {name: row[-1] for name, row in values["rows"].items()}
    assert lengths["below"] == 401 > lengths["exit_func"] > lengths["each step"] > 1
    assert lengths["exit_t"] == 182
    steps = values["steps"]
    assert steps.pop("late") == 0 == steps.pop("own update")
    assert steps.pop("threshold") > 2000
    assert steps == {name: lengths[name] - 1 for name in steps}
    assert values["failures"] == ["NaN detected in fiber potentials."] * 2
    assert values["rows"]["above"][1][0] > values["rows"]["below"][1][0] == 0
