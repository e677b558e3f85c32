"""Layers of `extracellular` with individual parameters, compared with NEURON's."""

from pathlib import Path

import forked
import numpy as np
import pytest

pytestmark = pytest.mark.neuron


PROGRAM = Path(__file__).with_name("outside_program.py")
WITH_LAYERS = (  # cases of `outside_program`
    *("zero", "constant", "passive", "continuous", "mixed", "drawn"),
    *("changed", "written", "written, played", "written in steps"),
)
OTHERS = "reference", "epochs-gpu"
LAYERED = [
    *((f"layers, {case}", "steps") for case in WITH_LAYERS),
    *((f"layers, {case}", e) for case in ("passive", "mixed", "changed") for e in OTHERS),
    *((f"layers{case}", e) for case in (" in part", ", three") for e in ("steps", *OTHERS)),
]


@pytest.mark.parametrize(("case", "engine"), LAYERED)
def test_layers_of_its_own_are_those_of_neuron(case, engine):
    """Compare outer potentials, which are unknowns of a step, with NEURON's.

    They differ by at most the effect of NEURON's own rounding, expressed as a change of parameters.
    """
    result = forked.result_of(PROGRAM, case, engine)
    assert result["moved"] > 30 and result["outside"] > (10 if "zero" not in case else 1)
    off = max(result["voltages"], result["currents"], result["others"])
    assert 0 < off <= result["rounded"] < 1e-5 * result["moved"]


AXON = PROGRAM.with_name("axon_program.py")


@pytest.mark.parametrize("engine", ["steps", *OTHERS])
@pytest.mark.parametrize("case", ["inside", "outside"])
def test_myelinated_axons_of_a_double_cable_conduct_as_in_neuron(case, engine):
    """Compare a double cable's spikes and potentials with NEURON's.

    A pulse inside the first node travels from node to node; a pulse outside starts in the middle.
    """
    result = forked.result_of(AXON, case, engine)
    truth, ours = result["steps"]
    assert ours == truth and min(result["peaks"]) > 0
    passed = np.diff(truth)
    if case == "inside":
        inner = passed[3:-5]  # away from both ends
        assert (passed[:-1] > 0).all() and np.ptp(inner) <= 1
        assert 5 < result["apart"] / (np.mean(inner) * 0.005) < 50  # m/s
    else:
        first = int(np.argmin(truth))
        assert 0 < first < len(truth) - 1 and truth == truth[::-1]
    assert result["outside"] > 50  # mV, under the myelin; outside 1e9 S/cm² hold the potential
    for name, off in result["off"].items():
        assert off <= result["rounded"][name], name
    assert result["rounded"]["v"] < 1e-4


LAYERS = """
h.nlayer_extracellular(COUNT)
soma = make_section("soma", "pas", "extracellular")
soma(0.5).xg[0] = 1e-3
soma(0.5).xg[COUNT - 1] = 1e-2
h("objref inner, outer")
h("inner = new Vector()")
h("outer = new Vector()")
soma.push()
h("inner.record(&vext[0](0.5))")
h(f"outer.record(&vext[{COUNT - 1}](0.5))")
h.pop_section()
clamp = with_values(h.IClamp(soma(0.5)), dur=9, amp=0.1)
found = []
for run in (h.continuerun, lambda t: clhines.neuron.run(t, engine="steps")):
    h.finitialize(-65)
    try:
        run(1)
        found.append([h.inner.to_python(), h.outer.to_python()])
    except clhines.InputError as error:
        found = str(error)
print(json.dumps(found))
"""


def test_vectors_of_hoc_record_each_layer():
    """Hoc records each layer; NEURON's Python returns vext[0] for every index."""
    truth, ours = np.array(forked.result_of(LAYERS.replace("COUNT", "2")))
    assert truth.shape == (2, 41) and 0 < truth[1, -1] < truth[0, -1] / 5
    # rounding in differences near 65 mV, in fewer than 500 operations
    np.testing.assert_allclose(ours, truth, 0, 500 * 2.0**-53 * 65)
    message = forked.result_of(LAYERS.replace("COUNT", "1"))
    assert "layers of its own, in section soma: xg[0] = 0.01; expected NEURON's own" in message
    assert "1e+09, or two layers" in message
