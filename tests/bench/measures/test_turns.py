"""Turns of a closed loop are checked and timed."""

import json

import pytest

from bench.measures import turns


def test_turns_are_timed(measured_on, monkeypatch, tmp_path):
    monkeypatch.setattr(turns, "CELLS", {"small": turns.CELLS["small"]})
    turns.main(["--rounds", "2", "--turns", "3", "--out", str(tmp_path)])
    (path,) = tmp_path.glob("turns-*.json")
    rows = json.loads(path.read_text("utf-8"))["rows"]
    resets = [("ring", "reset"), ("ring", "reset+mod")]
    cases = [(r["cell"], r["events"]) for r in rows]
    assert cases == [("small", "grid"), ("small", "exact"), *resets]
    assert all(0 < r["seconds"] <= r["median_seconds"] for r in rows)


def test_wrong_voltages_are_not_timed(measured_on, monkeypatch, tmp_path):
    monkeypatch.setattr(turns, "WORST", 0.0)
    with pytest.raises(SystemExit, match="wrong, so not timed"):
        turns.main(["--out", str(tmp_path)])
