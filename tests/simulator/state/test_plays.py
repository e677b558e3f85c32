"""Played values among events: the values due by a time, and extrapolation."""

import numpy as np
import pytest

from clhines.simulator.model.model import Played
from clhines.simulator.state.plays import entries_until, value_after

pytestmark = pytest.mark.core
T, Y = np.array([1.0, 2.0, 4.0, 4.0, 7.0]), np.array([10.0, 20.0, 0.0, 8.0, 2.0])


def played(continuous):
    return Played(0, 0, "amp", T, Y, continuous)


def test_steps_hold_what_came_last():
    for t in (0.5, 1.0, 3.9, 4.0, 9.0):
        number = entries_until(played(False), t)
        assert number == sum(x <= t for x in T)
        result = value_after(played(False), number, t)
        assert np.isnan(result) if not number else result == Y[number - 1]


def test_lines_between_entries_and_beyond():
    """As in NEURON, the first value holds before its time; lines go on until the next entry."""
    line = played(True)
    for t in (1.25, 1.5, 3.0, 5.5, 6.9):
        assert value_after(line, entries_until(line, t), t) == pytest.approx(np.interp(t, T, Y))
    assert value_after(line, 0, 0.5) == 10.0
    assert value_after(line, 1, 2.5) == pytest.approx(25.0)  # the entry at 2 ms is still to come
    assert value_after(line, 3, 4.0) == 4.0  # between two values at one time
    assert value_after(line, 5, 10.0) == pytest.approx(-4.0)
