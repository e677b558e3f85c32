"""LinearMechanism beside NEURON itself, in `clhines.neuron.run`, and what of it is refused."""

from pathlib import Path

import forked
import pytest

pytest.importorskip("neuron", reason="NEURON is not installed")
pytestmark = pytest.mark.neuron
PROGRAM = Path(__file__).parents[1] / "support" / "linear_program.py"
CASES = "gaps", "circuit", "clamp", "late", "changed", "branches", "several"
CASES += "outside", "outside_three", "floating"
# Each of 320 steps rounds voltages of 70 mV, and their changes by the equations' part of the error
# of `clhines.model.linear`; |G M| is below 100 here, and changes are below 1 mV in nearly all
# steps: 2 roundings of 70 mV. A spike's upstroke amplifies by about e^5.
TOLERANCE = 320 * 2 * 70 * 2.2e-16 * 148
REFUSED = {
    "callback": "LinearMechanism with a callback",
    "none there": "LinearMechanism with a layer of extracellular that its section does not have",
    "inside": "Vector.record of a variable without a name",
    "outside": "LinearMechanism with extracellular at its nodes",
    "second": "LinearMechanism with secondorder",
    "records": "LinearMechanism with a y or b that is a Vector which records",
    "sizes": "LinearMechanism, whose matrices, Vectors and nodes have different sizes",
    "gone": "LinearMechanism, whose matrices or Vectors are gone",
    "played": "Vector.play into a variable without a name",
    "advance": "uses a Vector that records",
    "membrane": "i_membrane where linear equations take current",
    "epochs": "engine='epochs' takes no linear equations of voltages",
}


@pytest.mark.parametrize("engine", ["reference", "steps"])
@pytest.mark.parametrize("case", CASES)
def test_voltages_and_unknowns_are_those_of_neuron(case, engine):
    found = forked.result_of(PROGRAM, case, engine)
    assert found["steps"] == 321 and found["largest"] > 60
    # the variable that moves least, but for voltages that are clamped
    assert found["moved"] > (0.5 if case == "floating" else 1)
    assert found["difference"] <= TOLERANCE, found


def test_what_is_not_simulated_is_refused_by_name():
    said = forked.result_of(PROGRAM, "refused", "steps")
    runs = {"none", "in a layer"}
    assert said.keys() == {*runs, *REFUSED} and not any(said[case] for case in runs)
    for case, text in REFUSED.items():
        assert text in said[case] and "\n" not in said[case].strip(), case
