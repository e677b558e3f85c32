"""The guard on speed: rows that fail it, rows that it measures again, and a planted slow-down."""

import json

import pytest

from bench import record
from bench.measures import guard


class Clock:
    """Seconds of a row's runs, one after another; the last value repeats."""

    def __init__(self, *seconds):
        self.left = list(seconds)

    def __call__(self):
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]


@pytest.fixture
def one_run(monkeypatch):
    """A round is one run of each row; all rows are measured once before slow ones are repeated."""
    monkeypatch.setattr(guard, "SECONDS", 0.0)
    monkeypatch.setattr(guard, "LEAST", 1)
    monkeypatch.setattr(guard, "ROUNDS", 1)


def row(name, seconds, beside=(1.0,)):
    return guard.Row(name, Clock(*seconds), beside=guard.Timed("yardstick", Clock(*beside)))


def test_the_bound_is_five_per_cent_of_the_ratio(one_run):
    rows = [row("within", [2.09]), row("above", [2.11]), row("unknown", [9.0])]
    slow = guard.measure(rows, {"within": 2.0, "above": 2.0}, guard.BOUND)
    assert guard.BOUND == 0.05 and [r.name for r in slow] == ["above"]


def test_a_slow_machine_slows_the_yardstick_too(one_run):
    assert not guard.measure([row("a", [20.0], [10.0])], {"a": 2.0}, guard.BOUND)


def test_a_row_above_the_bound_is_measured_three_times_more(one_run):
    """Noise disappears in the repetitions; rows within the bound are not measured again."""
    noisy, good, slow = row("noisy", [5, 4, 3, 2]), row("good", [2]), row("slow", [5, 4, 3, 2.2])
    before = {"noisy": 2.0, "good": 2.0, "slow": 2.0}
    assert guard.measure([noisy, good, slow], before, guard.BOUND) == [slow]
    assert [len(r.seconds) for r in (noisy, good, slow)] == [4, 1, 4]


TINY = ["--size", "tiny", "--rows", "trees", "ring"]


@pytest.fixture
def recorded(measured_on, one_run, monkeypatch, tmp_path):
    """Record a tiny run; later bounds are wide, as the machine may have other work."""
    monkeypatch.setattr(guard, "ROUNDS", 5)
    assert guard.main([*TINY, "--record", "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("guard-*.json")
    return path


def test_a_planted_slow_down_fails(recorded, monkeypatch, capsys):
    again = [*TINY, "--before", str(recorded), "--bound", "2"]
    assert guard.main(again) == 0
    capsys.readouterr()

    def slower(queue, launch, timed=guard.timed):
        """Launch solves 40 times, but yardsticks once."""
        run = timed(queue, launch)
        solves = launch.__module__ == "bench.systems"
        return (lambda: sum(run() for _ in range(40))) if solves else run

    monkeypatch.setattr(guard, "timed", slower)
    assert guard.main(again) == 1
    said = capsys.readouterr().out
    assert "trees: " in said and "slower than the record; allowed 200%" in said
    assert "ring: " not in said


def test_a_row_that_is_gone_fails(recorded, monkeypatch, capsys):
    def steps(*_):
        raise guard.MissingError("the engine is not there")

    monkeypatch.setattr(guard.Measured, "steps", steps)
    again = [*TINY, "--before", str(recorded), "--bound", "9"]
    assert guard.main(again) == 1
    assert "ring: in the record, and missing now" in capsys.readouterr().out


def test_the_record_has_what_is_compared(recorded):
    result = json.loads(recorded.read_text("utf-8"))
    assert [r["row"] for r in result["rows"]] == ["trees", "ring"] and not result["missing"]
    assert all(r["ratio"] == r["seconds"] / r["beside_seconds"] > 0 for r in result["rows"])
    assert result["record"]["commit"] and guard.recorded(recorded)[1] == result["record"]["commit"]


def test_without_a_record_nothing_fails(measured_on, one_run, tmp_path, capsys):
    tiny = ["--size", "tiny", "--rows", "trees", "--before", str(tmp_path / "none.json")]
    assert guard.main(tiny) == 0
    assert "no record" in capsys.readouterr().out


def test_rows_that_nobody_knows(measured_on, one_run):
    with pytest.raises(guard.MissingError, match="--rows nothing: expected some of trees"):
        guard.main(["--rows", "nothing"])


def test_results_are_not_overwritten_by_comparing(recorded, monkeypatch, tmp_path):
    """Only ``--record`` writes, so that small losses do not add up from run to run."""
    monkeypatch.setattr(record, "write", None)
    assert guard.main([*TINY, "--before", str(recorded), "--bound", "9"]) == 0
