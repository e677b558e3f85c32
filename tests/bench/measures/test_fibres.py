"""The measure `fibres`, with a few fibres."""

import json

import pytest

from bench.measures import fibres


@pytest.mark.neuron
def test_a_small_measure(tmp_path, monkeypatch):
    monkeypatch.setenv("CLHINES_DEVICE", "cpu")
    monkeypatch.setattr(fibres, "STOP", 2.0)
    arguments = ["--fibres", "20", "--double", "2", "--cells", "1", "--each", "1"]
    assert fibres.main([*arguments, "--out", str(tmp_path)]) == 0
    [path] = tmp_path.glob("fibres-*.json")
    result = json.loads(path.read_text("utf-8"))
    assert [row["name"] for row in result["rows"]] == ["mrg", "senn"]
    assert all(row["run"] > 0 and row["apart"] < 1e-2 for row in result["rows"])
    assert result["thresholds"]["runs"] > 5 and len(result["lfp"]) == 3
    assert "mrg" in fibres.text(result)
