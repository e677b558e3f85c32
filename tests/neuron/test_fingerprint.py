"""The fingerprint of a read model detects each change, and nothing else."""

from pathlib import Path

import pytest
from forked import result_of

pytestmark = pytest.mark.neuron


PROGRAM = Path(__file__).with_name("kept_program.py")


# as in test_run: NEURON's conductances are differences of currents, amplified by a spike's upstroke
TOLERANCE = 1e-9


def told(what, argument):
    return result_of(PROGRAM, what, argument)


def test_no_write_into_neurons_memory_is_missed():
    result = told("writes", 200)
    assert not result["unseen"]
    assert result["names"] > 80


@pytest.mark.parametrize("engine", ["auto", "steps", "reference"])
def test_what_neuron_moves_in_each_run_is_no_change(engine):
    """GLOBALs that blocks set, positions of played vectors and values of INITIAL are no change."""
    result = told("stays", engine)
    assert result["moved"] and result["stayed"] and result["reads"] == 1
    assert result["worst"] < TOLERANCE
    assert all(a == b for a, b in result["lengths"])
