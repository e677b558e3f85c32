"""Compare single compartments with .mod files, many constructs of NMODL, with NEURON."""

import functools
import re
from pathlib import Path

import forked
import pytest

pytestmark = pytest.mark.neuron
PROGRAM = Path(__file__).with_name("compartments_program.py")
CASES = r'_(?:driven|point)\(\s*"(\w+)"|^        "name": "(\w+)"'
NAMES = re.findall(CASES, PROGRAM.read_text("utf-8"), re.MULTILINE)
# Both sides do the same operations in another order: some 100 a step, each with a relative error of
# 1e-16, over 600 steps, and a state forgets errors within tens of ms: below 1e-11. NEURON's slope
# of a current is a difference quotient over 0.001 mV. It loses 5 digits of the slope but none of
# the current: another 1e-16/1e-3*60 mV a step.
TOLERANCE = 1e-9

result_of = functools.cache(forked.result_of)


@pytest.mark.parametrize("dt", ["0.025", "0.1"])
@pytest.mark.parametrize("name", [a or b for a, b in NAMES])
def test_values_are_those_of_neuron(name, dt):
    """Compare voltages and records in each step, and weights after each call."""
    result = result_of(PROGRAM, dt)[name]
    assert result["v"][0] > 20 and result["v"][2] > 1  # the voltage moves
    for key, (size, difference, _) in result.items():
        assert difference <= TOLERANCE * size, key
