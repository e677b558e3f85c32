"""The self-test of the switch's hooks: planted faults fail."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clhines.neuron.memory import versions

pytest.importorskip("neuron", reason="NEURON is not installed")
pytestmark = pytest.mark.neuron
ROOT = Path(__file__).parents[3]


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
import sys
sys.path.insert(0, {str(ROOT)!r})
from clhines.neuron.switch import hooks, selftest
{fault}
selftest.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={**os.environ, versions.SWITCH: "1"},
    )  # fmt: skip
    (line,) = [x for x in done.stdout.splitlines() if x.startswith(versions.WORD)]
    assert json.loads(line[len(versions.WORD) :]) == text
