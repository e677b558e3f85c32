"""Sources of events in NEURON's memory."""

import pytest

from clhines.neuron.memory import sources
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.raw import SEARCHED, ref, words_at

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron


class _ReusedAddresses:
    """NEURON's `h`; its new Vectors lie at the addresses in `words` of an older source."""

    def __init__(self, memory):
        self._memory, self.addresses = memory, []

    def __getattr__(self, name):
        return self._vector if name == "Vector" else getattr(h, name)

    def _vector(self):
        vector = h.Vector()
        self.addresses.append(self._memory.object_address(vector))
        return vector


@pytest.mark.parametrize("at", [1, 2, 10])
def test_words_that_neuron_leaves_unset_are_not_taken_for_a_vector(at, monkeypatch):
    """NEURON leaves last value, last time and delay of a new source uninitialised."""
    section = h.Section(name="soma")
    memory = NeuronMemory(h)
    reused = _ReusedAddresses(memory)

    def unset(address, count=SEARCHED):
        words = words_at(address, count)
        if count == SEARCHED and reused.addresses:
            words[at] = reused.addresses[0]
        return words

    netcon = h.NetCon(ref(section(0.5), "v"), None, sec=section)
    times, numbers = h.Vector(), h.Vector()
    netcon.record(times, numbers, 7)
    netcon.threshold = -12.5
    monkeypatch.setattr(sources, "words_at", unset)
    read = sources.EventSources(reused, memory)
    monkeypatch.undo()
    assert len(reused.addresses) == 2
    (source,) = (s for s in read.every() if s.place == memory.place(ref(section(0.5), "v")))
    assert not source.is_called and source.record_as == 7
    assert source.times == memory.object_address(times)
    assert source.numbers == memory.object_address(numbers)
    assert read.threshold(source.address) == -12.5
