"""Readable addresses."""

import pytest

from clhines.neuron.memory.raw import Readable

pytestmark = pytest.mark.neuron


def test_a_column_may_begin_with_the_last_word_of_a_range():
    readable = Readable(8)
    if not readable._ranges:
        pytest.skip("the system does not tell")
    begins = {begin for begin, _ in readable._ranges}
    begin, end = next(span for span in readable._ranges if span[1] not in begins)
    assert begin in readable and end - 8 in readable and end not in readable
