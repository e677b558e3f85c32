"""A model's own advance() and step() in hoc: run where they only read, else rejected by name."""

from pathlib import Path

import forked
import pytest

pytest.importorskip("neuron", reason="NEURON is not installed")
pytestmark = pytest.mark.neuron
PROGRAM = Path(__file__).parents[1] / "support" / "stepping_program.py"
TOLERANCE = 1e-7  # of values up to 1e5, the sum of a thousand voltages a step: NEURON's rounding
STEPS = 480  # of 0.025 ms


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_what_the_code_finds_in_each_step_is_what_neuron_gives_it(engine):
    """In one run and in pieces; a run that the code stops ends in NEURON's step, with its state."""
    found = forked.result_of(PROGRAM, "runs", engine)
    for name, one in found.items():
        assert all(0 <= apart < TOLERANCE for apart in one["apart"]), name
        taken = sum(one["taken"])
        assert one["steps"] == taken, name
        assert one["sizes"][1] == one["taken"][0] + 1 and one["sizes"][2] > 3, name  # records
        assert one["lines"][0] == one["lines"][1], name
    assert found["reads"]["sizes"][0] == 13 * STEPS and found["step"]["sizes"][0] == 9 * STEPS
    assert found["prints"]["lines"][0] > 50
    stopped = found["stops"]
    assert stopped["stoprun"] == 1 and 5.3 < stopped["t"] < 12 and stopped["taken"][0] < STEPS
    assert found["stops at the last"]["stoprun"] == 1 and not found["reads"]["stoprun"]


def test_code_that_does_more_than_to_read_is_rejected_by_what_it_does():
    found = forked.result_of(PROGRAM, "refused", "")
    assert len(found) > 45
    for line, said, listed, message, t in found:
        assert len(listed) == 1 and said in listed[0] and said in message, (line, listed)
        assert "of the model's own, which hoc calls in each step: it " in listed[0], line
        assert t == 0, line


def test_a_loop_changes_what_a_vector_records():
    neurons, ours = forked.result_of(PROGRAM, "loop", "")
    assert len(neurons) == 120 and neurons == ours and neurons[-1] < -7000


def test_errors_psolve_times_below_zero_and_blocks():
    found = forked.result_of(PROGRAM, "others", "reference")
    (time, calls, v), neurons = found["error"]  # the first step later than 3 ms
    assert time == neurons[0] == pytest.approx(3.025) and calls == neurons[1] == 121
    assert abs(v - neurons[2]) < TOLERANCE
    assert found["after"] and abs(found["goes on"] - 1) < 1e-9
    assert found["psolve"] == [pytest.approx(2), 80]  # calls no advance()
    assert 0 <= found["early"][0] < TOLERANCE and found["early"][1] == 13 * 60
    assert "advance() of the model's own; use clhines.neuron.run" in found["from_neuron"]
    assert 0 <= found["blocks"][0] < TOLERANCE and found["blocks"][1] == STEPS
    apart, stop, size = found["draws"]  # no number of later steps is drawn
    assert 0 <= apart < TOLERANCE and 9 < stop < 14.9 and size > 4 * 360
    for line, nodes, expected in found["read"]:  # no more than what the code can name
        assert nodes == expected, line
