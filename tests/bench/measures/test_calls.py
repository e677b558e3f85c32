"""Calls with NumPy arrays, timed beside their aims."""

import json

import pytest

from bench.measures import calls


def test_calls_are_timed_beside_their_aims(measured_on, monkeypatch, tmp_path):
    """Trees and chains; SciPy's solvers on chains only."""
    pytest.importorskip("scipy")
    monkeypatch.setattr(calls, "SECONDS", 0.0)
    monkeypatch.setattr(calls, "LEAST", 2)
    arguments = "--cells 1 6 --nodes 40 --branches 4 --dtype float32 --out"
    calls.main([*arguments.split(), str(tmp_path)])
    (path,) = tmp_path.glob("calls-*.json")
    rows = json.loads(path.read_text("utf-8"))["rows"]
    assert [(r["kind"], r["cells"]) for r in rows] == [
        (kind, cells) for kind in ("trees", "chains") for cells in (1, 6)
    ]
    for row in rows:
        assert set(calls.CALLS) <= set(row["seconds"])
        assert ("ptsv" in row["seconds"]) == (row["kind"] == "chains")
        for name in calls.CALLS:
            assert row["seconds"][name] > 0
            aim = row["seconds"][name] / row["aim_seconds"][name]
            assert row["times_aim"][name] == pytest.approx(aim)
            assert row["aim_seconds"][name] >= calls.FACTOR * row["seconds"]["wait"]
    assert max(map(len, path.with_suffix(".txt").read_text("utf-8").splitlines())) <= 100


def test_values_go_over_the_bus_of_a_device_of_its_own(measured_on, monkeypatch, tmp_path):
    """The aim then includes the bytes of each call, and a latency."""
    monkeypatch.setattr(calls, "SECONDS", 0.0)
    monkeypatch.setattr(calls, "LEAST", 2)
    monkeypatch.setattr(calls.copies, "shares_memory", lambda _: False)
    arguments = "--cells 6 --nodes 40 --branches 4 --dtype float32 --out"
    calls.main([*arguments.split(), str(tmp_path)])
    (path,) = tmp_path.glob("calls-*.json")
    for row in json.loads(path.read_text("utf-8"))["rows"]:
        seconds, aim = row["seconds"], row["aim_seconds"]["solve"]
        assert aim == pytest.approx(1.5 * (seconds["wait"] + seconds["bus solve"]) + 20e-6)
