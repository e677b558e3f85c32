"""Every method on one mix."""

import json

import clhines
from bench.measures import methods


def test_every_method_on_one_mix(measured_on, monkeypatch, tmp_path, capsys):
    arguments = ["--nodes", "3000", "--dtype", "float32", "--out", str(tmp_path)]
    assert methods.main(arguments) == 0
    (path,) = tmp_path.glob("methods-*.json")
    rows = json.loads(path.read_text("utf-8"))["rows"]
    assert [r["method"] for r in rows] == ["auto", *clhines.METHODS]
    assert all(r["good"] and r["seconds"] > 0 and r["nodes"] > 1000 for r in rows)
    assert all(0 < r["error"] < 1e-5 for r in rows)
    assert all(len(line) <= 100 for line in capsys.readouterr().out.splitlines())
    monkeypatch.setattr(methods.reference, "residual", lambda *_: 1.0)
    assert methods.main(arguments) == 1
