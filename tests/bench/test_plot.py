"""Styles of pictures."""

import pytest

from bench import plot


@pytest.mark.parametrize(
    ("seconds", "text"), [(1e-7, "100 ns"), (1e-6, "1 µs"), (1e-4, "100 µs"), (10.0, "10 s")]
)
def test_duration(seconds, text):
    assert plot.duration(seconds) == text
