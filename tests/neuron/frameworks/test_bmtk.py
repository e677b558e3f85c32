"""BMTK's advance() under the switch: its reports get what NEURON would have given them."""

from pathlib import Path

import forked
import pytest

pytest.importorskip("neuron", reason="NEURON is not installed")
pytestmark = pytest.mark.neuron
PROGRAM = Path(__file__).with_name("bmtk_program.py")


def test_reports_of_bmtk_are_those_of_neuron_step_by_step():
    """Steps of 1 to 1e2 mV, 1 and less: NEURON's own rounding is 1e-9 of them."""
    found = forked.result_of(PROGRAM)
    assert found["rows"] == [*7 * [200], 3]  # the last has a row for each block
    assert found["spikes"] > 0
    for apart in found["apart"]:
        assert all(d < 1e-7 for d in apart) and apart[-1] == 0  # spikes: the same bits
    assert found["blocks"] == [True, True]
    assert max(found["last"]) < 1e-7
    assert found["steps"] == 2 * 200
    refused = found["refused"]
    for name, (sentence, _) in zip(("Other", "XStimMod"), refused, strict=False):
        assert f"has a module {name} that may change the model in a step" in sentence
        assert "expected reports alone" in sentence
    assert "expected the reports of BMTK 1.2" in refused[-1][0]
    assert [steps for _, steps in refused] == [0, 0, 0]
    assert found["starts"] == [40, 80]
    assert max(found["starts_apart"]) < 1e-7
    assert found["own"] == 40  # without reports
    assert found["fallen"] == [200, 0]  # steps of NEURON, and here
    procedure, both = found["alone"]
    assert "BMTK" in procedure and "use clhines.neuron.run" in procedure
    assert "CVode.extra_scatter_gather(0, f), and " in both and "use one of them" in both
