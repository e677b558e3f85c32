"""Scripts of repositories that are made here, with the switch on beside NEURON."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from bench.measures import repositories
from bench.measures.repository_runs import FIXED_STEP

CELL = """
create soma
access soma
L = 20
diam = 20
insert hh
objref clamp
clamp = new IClamp(0.5)
clamp.del = 2
clamp.dur = 100
clamp.amp = 0.5
tstop = 20
"""
BUTTON = (
    'load_file("nrngui.hoc")\nxpanel("")\nxbutton("Fig 1", "load_file(\\"cell.hoc\\")")\nxpanel()'
)
SEEDED = """
ropen("/proc/uptime")
clamp.amp = 1 + (fscan() * 100) % 7 / 10
ropen()
run()
"""
SCRIPTS = {
    "pressed/mosinit.hoc": BUTTON,
    "pressed/cell.hoc": CELL,
    "variable/mosinit.hoc": f'{CELL}cvode_active(1)\nload_file("nrngui.hoc")\nrun()',
    "loop/deep/init.hoc": f"{CELL}finitialize(-65)\nwhile (t < 5) {{ fadvance() }}",
    "batch/init.hoc": f'{CELL}finitialize(-65)\nbatch_run(5, 1, "batch")',
    "seeded/init.hoc": f"{CELL}{SEEDED}",
    "field/mosinit.hoc": f"{CELL}insert extracellular\nxc[0] = -1\nrun()",
    "wrong/main.hoc": f"{CELL}no_such_thing()",
    "other/model.m": "",
}


@pytest.fixture
def rows(tmp_path, monkeypatch):
    for name, text in SCRIPTS.items():
        path = tmp_path / "models" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("CLHINES_MODELS", str(tmp_path / "models"))
    assert repositories.main(["--out", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("repositories-*.json")
    result = json.loads(path.read_text())
    shown = repositories.text(result)
    assert path.with_suffix(".txt").read_text().endswith(f"{shown}\n")
    assert {r["outcome"]: r["scripts"] for r in result["outcomes"]}["NEURON runs nothing"] == 2
    assert "1  extracellular" in shown and "1  no script of NEURON" in shown
    return {row["name"]: row for row in result["rows"]}


def test_outcomes_of_scripts(rows):
    pressed, variable, loop = (rows[name] for name in ("pressed", "variable", "loop"))
    own = rows["batch"]
    assert pressed["outcome"] == repositories.EQUAL
    assert pressed["pressed"] == 'load_file("cell.hoc"); run()'
    assert pressed["here"] == pressed["steps"] == 20 / 0.025
    assert pressed["same_step"] == pressed["spikes"] > 0
    assert (variable["outcome"], variable["fixed"]) == (repositories.EQUAL, True)
    assert variable["steps"] == 20 / FIXED_STEP
    assert (loop["outcome"], loop["here"]) == (repositories.EQUAL, 5 / 0.025)
    assert (rows["seeded"]["outcome"], rows["seeded"]["here"]) == (repositories.EQUAL, 800)
    assert (own["outcome"], own["here"], own["dv"]) == (repositories.OWN, 0, 0)
    assert rows["field"]["outcome"] == repositories.REFUSED
    assert rows["field"]["why"][0].startswith("extracellular")
    assert {rows[n]["outcome"] for n in ("wrong", "other")} == {repositories.NOT_HERE}
    assert "RuntimeError" in rows["wrong"]["why"][0]


@pytest.mark.parametrize(("nudge", "expected"), [(1e-9, "differs"), (1e-3, "as near")])
def test_a_difference_is_told_from_rounding(monkeypatch, tmp_path, nudge, expected):
    off = {"neuron": 0.0, "clhines": 0.01, "nudged": nudge}

    def one_way(name, script, folder, way, stop, args):
        said = {"runs": [{"steps": 3}], "ended": "", "pressed": "", "sections": 1, "here": 3}
        v = np.array([[-65.0, -64.0, 5.0, -64.0]]) + off[way]
        return {**said, "seconds": 1.0}, {"v0": v, "end v 0": v[:, -1]}

    monkeypatch.setattr(repositories, "one_way", one_way)
    args = SimpleNamespace(keep=str(tmp_path), stop=10.0)
    row = repositories.outcome("one", repositories.Script("a.hoc"), tmp_path, 10.0, args)
    assert row["outcome"].startswith(expected)
    assert row["dv"] == pytest.approx(0.01)
    assert row["spikes"] == row["same_step"] == 1


def test_reasons_are_counted_without_names():
    why = (
        "the model has 2 things that are not simulated:\n  a: POINTER b is c; do d\n  a: POINTER b"
    )
    assert repositories.reasons(why) == ["a: POINTER b is c; do d", "a: POINTER b"]
    assert {repositories.kind(f"{n}: POINTER {n} is c; do d") for n in "ab"} == {"POINTER ... is c"}
