"""Compare LONGITUDINAL_DIFFUSION in `clhines.neuron.run` with NEURON."""

from pathlib import Path

import forked
import pytest

pytestmark = pytest.mark.neuron
PROGRAM = Path(__file__).with_name("diffusion_program.py")
# In each row 1/dt is 20 times the off-diagonal entries, so nothing cancels. Some 20 roundings of
# 1.1e-16 along a path of 10 segments make 2e-15 a step. They decay no slower than concentrations:
# 140 steps add up to at most 3e-13.
TOLERANCE = 1e-12
ENGINES = ("reference", "epochs", "epochs-gpu")
CASES = (
    *("spread", "part", "first", "second", "shells", "pieces", "twice", "changed", "again"),
    *("joined", "played", "saved"),
)


PAIRS = [*((case, engine) for case in CASES for engine in ENGINES), ("shells", "auto")]


@pytest.mark.parametrize(("case", "engine"), PAIRS)
def test_concentrations_are_those_of_neuron(case, engine):
    result = forked.result_of(PROGRAM, case, engine)
    assert result["shapes"][0] == result["shapes"][1] and result["shapes"][0][1] > 40
    assert result["spread"] > 10  # the largest concentration is above 10 times the least
    assert result["difference"] <= TOLERANCE, result


def test_neighbours_are_those_of_neuron():
    """Compare random trees with NEURON: sections in any direction, some with the mechanism."""
    result = forked.result_of(PROGRAM, "random", "reference", 0, 25)
    assert result["raised"] > 25
    assert result["difference"] <= TOLERANCE
