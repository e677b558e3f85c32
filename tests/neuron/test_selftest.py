"""The self-test of NEURON's version: planted faults fail."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clhines.neuron.memory import versions

pytest.importorskip("neuron", reason="NEURON is not installed")
pytestmark = pytest.mark.neuron
ROOT = Path(__file__).parents[2]


PLANTED = {
    "events are lost": "from clhines.neuron.read.queue import EventQueue as owner\nname = 'send'",
    "callbacks are not seen": "from clhines.neuron import reading as owner\nname = 'gathering'",
    "self events are lost": "from clhines.neuron.read.queue import EventQueue as owner\n"
    "name = 'send_selves'",
    "numbers are not written": "from clhines.neuron.back import states as owner\n"
    "name = 'put_numbers'",
}


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_fail(fault):
    """What is read or written back as of another version: events, callbacks, numbers."""
    program = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
{PLANTED[fault]}
import clhines.neuron.selftest as selftest
setattr(owner, name, lambda *_: ())
selftest.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={**os.environ, versions.SWITCH: "1"},
    )  # fmt: skip
    (line,) = [x for x in done.stdout.splitlines() if x.startswith(versions.WORD)]
    assert json.loads(line[len(versions.WORD) :]), fault
