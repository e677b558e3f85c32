"""States that NEURON's memory lacks."""

from pathlib import Path

import forked
import pytest

pytestmark = pytest.mark.neuron
FOLDER = Path(__file__).parents[1]


LOST = """
sys.path.insert(0, {folder!r})
from clhines.neuron.memory.memory import NeuronMemory
import neuron_program
vectors = neuron_program.hidden()
h = neuron_program.h
columns = NeuronMemory.columns
h.finitialize(-65)
h.continuerun(5)
NeuronMemory.columns = lambda *ask: {{k: v for k, v in columns(*ask).items() if k != {name!r}}}
ask = lambda: clhines.neuron.run(10, engine="reference")
"""


@pytest.mark.parametrize("name", ["kept", "count"])
def test_a_state_that_is_not_found_in_memory_is_refused(name):
    said = forked.refusal_of(LOST.format(name=name, folder=str(FOLDER)))
    assert f"ext_array: {name}, which is not found in NEURON's memory" in said
