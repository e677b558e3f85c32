"""Counts of .mod files in folders."""

import json

import pytest

from bench import MissingError
from bench.measures import coverage

RUNS = "NEURON { SUFFIX %s\n RANGE x }\nASSIGNED { x }\nINITIAL { x = 1 }\n"
REFUSED = "NEURON { SUFFIX b\n POINTER p }\nASSIGNED { p }\nBEFORE STEP { p = 1 }\n"


@pytest.fixture
def models(tmp_path, monkeypatch):
    """Two repositories; one text is in both, one file is empty."""
    for name, text in {
        "one/a.mod": RUNS % "a",
        "one/deep/b.mod": REFUSED,
        "two/again.mod": RUNS % "a",
        "two/c.mod": RUNS % "c",
        "two/d.mod": REFUSED.replace("p = 1", "p = y"),
        "two/empty.mod": "\n",
    }.items():
        path = tmp_path / "models" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("CLHINES_MODELS", str(tmp_path / "models"))
    return tmp_path


def test_counts(models, capsys):
    assert coverage.main(["--out", str(models), "--refused"]) == 0
    result = json.loads((models / "coverage.json").read_text())
    assert (result["files"], result["run"]) == (4, 2)
    assert result["repositories"] == {"one": [2, 1], "two": [2, 1]}
    assert result["constructs"] == {
        "POINTER ... is written in BEFORE STEP": [1, 1],
        "'...' is not declared": [1, 1],
    }
    assert str(models) not in json.dumps(result)  # names of repositories alone
    printed = capsys.readouterr().out
    assert (models / "coverage.txt").read_text() in printed
    assert "4 distinct files of 2 repositories: 2 run (50.0%)" in printed
    assert "one b.mod: POINTER p is written in BEFORE STEP" in printed


def test_without_models(monkeypatch):
    monkeypatch.delenv("CLHINES_MODELS", raising=False)
    with pytest.raises(MissingError, match="CLHINES_MODELS"):
        coverage.main([])
