"""Times of planning, in small sizes."""

import json

from bench import systems
from bench.measures import plan


def test_plan_time_of_every_method_and_option(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(plan, "ENOUGH", 1e-9)
    arguments = ["--nodes", "1024", "2048", "--out", str(tmp_path / "new")]
    plan.main(arguments)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    rows = json.loads((tmp_path / "new" / "plan.json").read_text("utf-8"))["rows"]
    assert {r["method"] for r in rows} == {"forest", "branches", *systems.METHODS}
    options = {name for r in rows if r["method"] == "fine" for name in r["options"]}
    assert options == {"reroot", "split", "packing", "level_shift", "local"}
    assert 2 * sum(any(case in line for case in plan.SHAPED) for line in lines) == len(rows)
