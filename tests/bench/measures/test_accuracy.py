"""Errors over the length of chains."""

import importlib.util
import json

import clhines
from bench import again
from bench.measures import accuracy


def test_accuracy(measured_on, monkeypatch, tmp_path, capsys):
    """Every row on every length; the picture can be drawn again, the same, without a device."""
    monkeypatch.setattr(accuracy, "MEMORY_CELLS", 20)
    arguments = ["--sizes", "3", "20", "--dtype", "float32", "--out", str(tmp_path)]
    accuracy.main(arguments)
    (path,) = tmp_path.glob("accuracy-*.json")
    result = json.loads(path.read_text("utf-8"))
    found = [(r["nodes"], r["row"]) for r in result["accuracy"]]
    assert found == [(n, row) for n in (3, 20) for row in accuracy.ROWS]
    assert all(0 < r["median"] <= r["largest"] < 1e-6 for r in result["accuracy"])
    assert [r["method"] for r in result["memory"]] == list(clhines.METHODS)
    assert all(len(line) <= 100 for line in capsys.readouterr().out.splitlines())
    table = path.with_suffix(".txt").read_bytes()
    picture = path.with_suffix(".svg")
    drawn = picture.read_bytes() if importlib.util.find_spec("matplotlib") else None
    picture.unlink(missing_ok=True)
    monkeypatch.setattr(accuracy.devices, "choose", None)
    again.main([str(path)])
    assert path.with_suffix(".txt").read_bytes() == table
    assert drawn is None or picture.read_bytes() == drawn
