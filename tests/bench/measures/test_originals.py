"""`fine` and `dhs` beside the kernels that they come from: the table, without those kernels."""

import json

import pytest

from bench.measures import originals


def test_without_the_originals_their_rows_have_a_reason(measured_on, tmp_path, monkeypatch):
    some = {"fine": [{"split": "mean"}], "dhs": [{"k": 4, "exchange": True}]}
    monkeypatch.setattr(originals, "OPTIONS", some)
    folder = tmp_path / "empty"
    folder.mkdir()
    words = [str(folder), "--cases", "70x20", "--budget", "0.01", "--out", str(tmp_path)]
    originals.main(words)
    (path,) = tmp_path.glob("originals-*.json")
    result = json.loads(path.read_text("utf-8"))
    names = {"memory floor", "clhines fine (split: mean)", "clhines dhs (k: 4, exchange: True)"}
    assert {r["name"] for r in result["rows"]} == names
    assert {m["name"] for m in result["missing"]} == {"original of dhs", "original of fine"}
    assert result["ratios"] == []
    assert result["record"]["command"].startswith("python -m bench originals empty --cases 70x20")


def test_the_best_of_both_sides_are_compared():
    def row(name, us):
        return {"kind": "8x9", "name": name, "seconds": us * 1e-6, "x_floor": 1.0}

    rows = [
        row("memory floor", 1.0),
        row("Arbor", 8.0),
        row("clhines fine (split: mean)", 6.0),
        row("clhines fine (split: block)", 7.0),
        row("DeepDendrite, k=4, block 32", 5.0),
        row("DeepDendrite, k=8, block 32", 4.0),
        row("clhines dhs (k: 4)", 5.0),
    ]
    dhs, fine = originals.ratios(rows)
    assert (dhs["original"], dhs["ratio"]) == ("DeepDendrite, k=8, block 32", pytest.approx(1.25))
    assert (fine["own"], fine["ratio"]) == ("clhines fine (split: mean)", pytest.approx(0.75))
    text = originals.text({"rows": rows, "ratios": [dhs, fine], "missing": []})
    assert "above 1.05 in 1 of 2" in text


@pytest.mark.parametrize("case", ["8", "0x9", "8x", "8x9x2", "axb"])
def test_cases_that_are_none_are_refused(case, capsys):
    with pytest.raises(SystemExit):
        originals.parsed(["folder", "--cases", case])
    assert "expected CELLSxNODES" in capsys.readouterr().err
