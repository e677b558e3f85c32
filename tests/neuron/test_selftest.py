"""The self-test of NEURON's version detects planted faults."""

import json

import forked
import pytest

from clhines.neuron.memory import versions

pytestmark = pytest.mark.neuron


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
    """Faults change events, callbacks and numbers that another version might lay out otherwise."""
    program = f"""
import contextlib, io
{PLANTED[fault]}
import clhines.neuron.selftest as selftest
setattr(owner, name, lambda *_: ())
with contextlib.redirect_stdout(io.StringIO()) as printed:
    selftest.main()
found = printed.getvalue()
"""
    lines = forked.found_by(program).splitlines()
    (line,) = [x for x in lines if x.startswith(versions.WORD)]
    assert json.loads(line[len(versions.WORD) :]), fault
