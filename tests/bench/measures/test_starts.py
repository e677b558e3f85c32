"""Cold starts are timed, with temporary caches."""

import json

from bench.measures import starts


def test_starts_are_timed(measured_on, monkeypatch, tmp_path):
    """One example; a limit that it exceeds makes the exit code 1; failures are named."""
    monkeypatch.setattr(starts, "COMMANDS", {"fails": ["-c", "raise ValueError('no such thing')"]})
    words = ["--only", "batch_of_trees", "fails", "--out", str(tmp_path)]
    assert starts.main(words) == 0
    (path,) = tmp_path.glob("starts-*.json")
    failed, row = json.loads(path.read_text("utf-8"))["rows"]
    assert failed == {"name": "fails", "failed": "ValueError: no such thing"}
    assert row["name"] == "batch_of_trees.py" and row["cold_seconds"] > 0 < row["warm_seconds"]
    assert "Left out: fails: ValueError: no such thing" in path.with_suffix(".txt").read_text()
    monkeypatch.setattr(starts, "MOST_COLD", 1e-3)
    assert starts.main(words) == 1
