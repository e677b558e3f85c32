"""The self-test of the switch's hooks detects planted faults."""

import json

import forked
import pytest

from clhines.neuron.memory import versions

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
    program = f"""
import contextlib, io
from clhines.neuron.switch import hooks, selftest
{fault}
with contextlib.redirect_stdout(io.StringIO()) as printed:
    selftest.main()
found = printed.getvalue()
"""
    lines = forked.found_by(program).splitlines()
    (line,) = [x for x in lines if x.startswith(versions.WORD)]
    assert json.loads(line[len(versions.WORD) :]) == text
