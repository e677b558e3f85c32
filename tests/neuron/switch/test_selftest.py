"""The self-test of the switch's hooks detects planted faults."""

import forked
import pytest

pytestmark = pytest.mark.neuron


@pytest.mark.parametrize(
    "fault, text",
    [
        ("", ""),
        ("hooks.Redirect._set = lambda self: None", "psolve does not reach the switch"),
        (
            "hooks.Switch.continuerun = lambda self, stop: 0",
            "continuerun does not reach the switch",
        ),
        ("hooks.CallRunner.in_neuron = lambda self, call: True", "continuerun has other values"),
    ],
)
def test_planted_faults_fail(fault, text):
    planted = f"from clhines.neuron.switch import hooks\n{fault}"
    assert forked.verdict_of("clhines.neuron.switch.selftest", planted) == text
