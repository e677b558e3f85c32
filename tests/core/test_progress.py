"""Bars and lines of phases: their words and times, and silence unless requested."""

import sys

import pytest

from clhines.core import progress


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that stands still until the test moves it."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_phases_are_lines_where_they_are_shown(clock, capsys):
    progress.phase("nothing")
    with progress.showing(False):
        progress.phase("nothing")
    with progress.showing(True):
        progress.phase("reading")
        with progress.showing(False):  # as in a nested run
            progress.phase("planning")
    progress.phase("nothing")
    assert capsys.readouterr().err == "clhines: reading ...\nclhines: planning ...\n"


def test_lines_begin_after_a_time(clock, capsys):
    with progress.showing(True, after=2.0):
        progress.phase("early")
        clock[0] += 2.0
        progress.phase("late")
    assert capsys.readouterr().err == "clhines: late ...\n"


def test_what_is_counted_says_so_now_and_then(clock, capsys):
    """Items take 0.75 s; a line comes with the first one that begins 2 s after the last line."""
    with progress.showing(True):
        for _ in progress.each(range(8), "converting"):
            clock[0] += 0.75
    done = [f"clhines: converting, {k} of 8 done ..." for k in (0, 3, 6)]
    assert capsys.readouterr().err.splitlines() == done


def test_bars_of_short_runs_can_be_left_out(capsys):
    """A bar with a wait of an hour stays hidden; a bar without a wait shows."""
    for wait in (3600.0, 0.0):
        with progress.long_bars(wait), progress.bar(2, "ms", True) as shown:
            shown.update(2)
        assert bool(capsys.readouterr().err) == (not wait)


def test_a_terminal_that_has_gone_stops_nothing(monkeypatch, clock):
    class Gone:
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    with progress.showing(True):
        progress.phase("reading")
