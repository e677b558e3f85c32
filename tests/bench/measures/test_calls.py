"""Calls with NumPy arrays, timed beside their aims."""

import json

import pytest

from bench.measures import calls


@pytest.fixture
def measured(measured_on, monkeypatch, tmp_path):
    """Return a function that measures for some numbers of cells; it returns the file's path."""
    monkeypatch.setattr(calls, "SECONDS", 0.0)
    monkeypatch.setattr(calls, "LEAST", 2)

    def run(*cells):
        arguments = "--nodes 40 --branches 4 --dtype float32 --out"
        calls.main(["--cells", *cells, *arguments.split(), str(tmp_path)])
        return next(tmp_path.glob("calls-*.json"))

    return run


def test_calls_are_timed_beside_their_aims(measured):
    """Trees and chains; SciPy's solvers on chains only."""
    pytest.importorskip("scipy")
    path = measured("1", "6")
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


def test_values_go_over_the_bus_of_a_device_of_its_own(measured, monkeypatch):
    """The aim then includes the bytes of each call, and a latency."""
    monkeypatch.setattr(calls.copies, "shares_memory", lambda _: False)
    for row in json.loads(measured("6").read_text("utf-8"))["rows"]:
        seconds, aim = row["seconds"], row["aim_seconds"]["solve"]
        assert aim == pytest.approx(1.5 * (seconds["wait"] + seconds["bus solve"]) + 20e-6)
