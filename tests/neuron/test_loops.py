"""Loops around `fadvance` with the switch on: what their bodies read, beside NEURON's."""

from pathlib import Path

import pytest
from forked import result_of

pytest.importorskip("neuron", reason="NEURON is not installed")
pytestmark = pytest.mark.neuron
PROGRAM = Path(__file__).parents[1] / "support" / "loops_program.py"
# as in test_run: NEURON's conductances are differences of currents, amplified by a spike's upstroke
TOLERANCE = 1e-9
VARIABLE = 1e-6  # CVode's first guess amplifies that again, by far less than its own tolerance
PER_MS = 40
STEPS = {  # of 8 ms; of others: ms of each part
    "weight": 5 * 1.5 * PER_MS,
    "longer": (2 + 2) * PER_MS + 4 * PER_MS / 2,
    "again": (3 + 8) * PER_MS,
    "breaks": (8 + 2) * PER_MS,  # by loops and by NEURON's calls, which are run here, too
    "every_step": 2,  # then NEURON's own
    "own_continuerun": 2 * 8 * PER_MS,
    "own_advance_often": PER_MS + 3,  # then NEURON's own
    "samples": (8 + 2) * PER_MS,
    "removes": (8 + 4) * PER_MS,
    "plays": 0,
    "points": 3 * 8 * PER_MS,
    "solves": (3 + 1 + 2 + 1) * PER_MS,
    "variable": 3 * PER_MS,
    "sets_t": (2 + 4) * PER_MS,
}


def told(*words):
    return result_of(PROGRAM, *words)


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_what_a_body_reads_and_changes_is_as_in_neuron(engine):
    """Voltages, currents, states, Vectors in each step, and all again by NEURON alone after it."""
    found = told("compared", engine)
    assert len(found) == 28
    for case, one in found.items():
        assert one["steps"] == STEPS.get(case, 8 * PER_MS), case
        assert one["worst"] < (VARIABLE if case == "variable" else TOLERANCE), case
        assert one["off"] == 0, case
        own = case in ("every_step", "own_advance_often", "plays")
        assert bool(one["reasons"]) == own, case


def test_a_vector_has_currents_of_voltages_that_no_body_reads():
    found = told("unread", "reference")
    assert found["steps"] == 8 * PER_MS and found["largest"] > 1e-3
    assert found["worst"] < TOLERANCE


def test_code_that_hoc_compiles_later_or_python_calls_reads_what_neuron_has():
    """Statements behind a loop, files, procedures between steps, a pointer, steps by Python."""
    found = told("codes", "reference")
    assert len(found) == 9
    for case, (steps, read, worst) in found.items():
        ends_early = case == "in_procedure"  # at 2 ms
        assert steps == (2 if ends_early else 4) * PER_MS, case
        assert read >= 6 and worst < TOLERANCE, case


def test_a_block_is_settled_where_the_switch_is_turned_off():
    found = told("ends", "reference")
    assert found["hooked"] == [True, True]
    assert found["steps"] == round(3.1 * PER_MS) and found["worst"] < TOLERANCE


def test_a_model_may_be_gone_where_the_switch_is_turned_off():
    found = told("gone", "reference")
    assert found["steps"] == PER_MS and found["own"]
    assert max(abs(v - found["v"][0]) for v in found["v"][1:]) < TOLERANCE
    assert found["silent"] == 0 and len(found["said"]) == 1
    assert "call h.finitialize() before NEURON's next step" in found["said"][0]


def test_what_a_body_asks_for_is_there():
    """By any way to read; what only NEURON has makes it take the loop's steps."""
    found = told("asks", "reference")
    for what, (steps, worst) in found.items():
        assert worst < TOLERANCE, what
        ours = what not in ("pointer", "global")
        assert steps == 2 * 4 * PER_MS if ours else steps < 10, what


def test_gap_junctions_have_the_voltages_of_each_step():
    """Where a voltage is set, NEURON takes the step that has what was transferred before."""
    found = told("coupled", "reference")
    assert len(found) == 3
    for case, (steps, worst) in found.items():
        assert steps == 4 * PER_MS - 2 * case.startswith("True") and worst < TOLERANCE, case


def test_weights_that_events_change_are_as_in_neuron_where_a_loop_ends_or_reads_them():
    """What events set that may change weights is not given: where it is read, NEURON steps."""
    found = told("plastic", "reference")
    assert found["by_python"][0] == found["by_hoc"][0] == 10 * PER_MS
    assert found["by_names"][0] < 10
    for case, (_, worst, span) in found.items():
        assert worst < TOLERANCE and span > 0, case


def test_what_is_refused_is_raised_at_the_first_step():
    found = told("refusals", "reference")
    made, order, first, second, variable = found["said"]
    refused = [first, second]
    assert made.startswith("sections, mechanisms, NetCons or Vectors have been made or removed")
    assert found["made"] == 3 and found["after"] == [9] and len(refused) == 2 and found["t"] == 0
    assert "secondorder, changed after h.finitialize()" in order
    for said in refused:
        assert said.startswith("the model has 1 thing") and "extracellular" in said
    assert "CVode: variable time steps" in variable
    t, steps, said = found["fallback"]
    assert abs(t - 1) < 1e-9 and steps == 0 and len(said) == 1
    assert said[0].startswith("NEURON itself runs this model, as the model has 1 thing")


def test_what_a_body_cannot_be_given_neuron_steps():
    found = told("not_given", "reference")
    steps, warned, reasons = found["counts"]
    assert steps == 0 and len(warned) == 1 and "APCount" in reasons[0]
    assert found["silent"] == [0, []] and found["left"] == [True, False]


def test_a_stream_that_hoc_sets_is_neurons():
    found = told("reseeded", "reference")
    assert found == {"worst": 0.0, "steps": [0]}


def test_no_write_by_hoc_is_missed():
    found = told("writes", "reference")
    assert found["same"] and not found["unseen"]
    assert found["names"] > 80 and found["late"] > 100
    assert "has changed the model, by no name, before 1.5 ms, which is" in found["said"]
    assert abs(found["t"] - 2) < 1e-9
