"""`auto` on the cases that the project measures itself by, with small cells."""

import json
from dataclasses import replace

from bench.measures import reach


def test_reach(measured_on, monkeypatch, tmp_path, capsys):
    small = [replace(c, forest=reach.trees(3, 40, 5)) for c in reach.CASES[-5:-3]]
    small[0] = replace(small[0], variants=True)
    monkeypatch.setattr(reach, "CASES", tuple(small))
    names = [case.name for case in small]
    arguments = ["--cases", *names, "--dtype", "float32", "--out", str(tmp_path)]
    reach.main(arguments)
    (path,) = tmp_path.glob("reach-*.json")
    rows = json.loads(path.read_text("utf-8"))["rows"]
    assert [(r["case"], r["way"]) for r in rows] == [
        (names[0], ""),
        (names[0], "factors kept"),
        (names[0], "natural order"),
        (names[1], ""),
    ]
    assert all(r["seconds"] > 0 and r["nodes"] == 120 for r in rows)
    assert all(len(line) <= 100 for line in capsys.readouterr().out.splitlines())
