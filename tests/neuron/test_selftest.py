"""The self-test of NEURON's version detects planted faults."""

import forked
import pytest

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
    planted = f"{PLANTED[fault]}\nsetattr(owner, name, lambda *_: ())"
    assert forked.verdict_of("clhines.neuron.selftest", planted), fault
