"""Reports of BMTK under the switch are equal to NEURON's."""

from pathlib import Path

import forked
import pytest

pytest.importorskip("bmtk", reason="BMTK is not installed")
pytestmark = pytest.mark.neuron
PROGRAM = Path(__file__).with_name("bmtk_program.py")
SHAPES = {  # report tables, (steps, columns)
    "v/report/a/data": [200, 2], "v/report/b/data": [200, 2], "late/report/a/data": [160, 3],
    "m/report/a/data": [200, 1], "m/report/b/data": [200, 1], "ina/report/a/data": [50, 1],
    "ina/report/b/data": [50, 1], "g/report/b/data": [200, 1], "i/data": [200, 2],
    "ecp/ecp/data": [200, 2], "0/ecp/data": [200, 2], "1/ecp/data": [200, 2],
}  # fmt: skip


def test_reports_of_bmtk_are_those_of_neuron_step_by_step():
    """Values are 1 to 1e2 mV per step, and below 1; NEURON itself rounds them by 1e-9."""
    values = forked.result_of(PROGRAM, "reports")
    assert values["shapes"] == {**SHAPES, "last": [7]}
    assert all(largest > 1e-3 for largest in values["largest"].values())
    assert values["same_tables"] == [True, True]
    for apart in values["apart"]:
        assert all(difference < 1e-9 for difference in apart.values()), apart
    assert values["spikes"] == [True, True] and values["fired"] > 0  # the same bits
    assert values["blocks"] == [[0, 70], [70, 140], [140, 200]]
    assert values["steps"] == 2 * 200
    assert values["before_zero"][0] == [80, 1] and values["before_zero"][1] < 1e-9
    assert values["before_zero"][2] > 1


def test_other_modules_of_bmtk_and_changed_reports_are_neurons():
    values = forked.result_of(PROGRAM, "refused")
    messages, steps = zip(*values["refused"], strict=True)
    assert "has a module Stimulus that may change the model in a step" in messages[0]
    assert "expected reports alone" in messages[0]
    assert all("expected the reports of BMTK 1.2" in message for message in messages[1:])
    assert steps == (0, 0, 0)
    assert values["by_neuron"] == [200, 0]  # steps in NEURON, and here
    procedure, both = values["alone"]
    assert "BMTK" in procedure and "use clhines.neuron.run" in procedure
    assert "CVode.extra_scatter_gather(0, f), and " in both and "use one of them" in both
