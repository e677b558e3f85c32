"""`clhines tune`."""

import json
import os
import re
from pathlib import Path

import pytest
from commands import index_of, sample_nodes

from clhines.solver import tune
from clhines.solver.device import devices
from clhines.solver.plan.auto import CANDIDATES, Candidate

TUNE_ROW = re.compile(
    r"(?P<name>[a-z_]+( [a-z_]+=\d+)*) +\d+\.\d{3} ms +\d+\.\d\d x floor(  (?P<notes>[a-z, ]+))?"
)


def tune_rows(result):
    return [found for line in result.out.splitlines() if (found := TUNE_ROW.fullmatch(line))]


def test_tune_the_sample_on_every_fast_device(cli, fast_queue):
    where = ["--device", index_of(fast_queue), "--dtype", "float32"]
    result = cli("tune", "--cells", 7, *where)
    assert (result.code, result.err) == (0, "")
    assert max(map(len, result.out.splitlines())) <= 100
    assert "cells      7 (6 distinct shapes)" in result.out
    rows = tune_rows(result)
    names = {str(c) for c in CANDIDATES["cpu" if devices.is_cpu(fast_queue.device) else "gpu"]}
    assert rows and {row["name"] for row in rows} <= names
    notes = [note for row in rows if row["notes"] for note in row["notes"].split(", ")]
    assert sorted(notes) == ["chosen", "heuristic"]
    (chosen,) = [row["name"] for row in rows if "chosen" in (row["notes"] or "")]
    (entry,) = tune.stored()
    assert str(Candidate(entry["method"], entry["options"])) == chosen

    table = cli("solve", "--steps", 2, "--cells", 7, "--tune", "cached", *where).table()
    assert table["method"] == f"{entry['method']}, float32"
    assert table["check"] == "good"


def test_solve_uses_what_is_stored(cli):
    """A winner that the heuristic would not choose shows that the store was read."""
    cli("tune", "--dtype", "float32")
    (path,) = Path(os.environ["CLHINES_CACHE_DIR"]).glob("*.json")
    entry = json.loads(path.read_text())
    path.write_text(json.dumps({**entry, "method": "interleaved", "options": {}}))
    for mode in ("cached", "heuristic", "measure"):
        arguments = ["--steps", 2, "--dtype", "float32", "--tune", mode, "--json"]
        report = cli("solve", *arguments).report()
        assert report["check"] == "good"
        if mode == "cached":
            assert report["method"] == "interleaved"
        elif devices.is_cpu(devices.choose(dtype="float32")):
            assert report["method"] != "interleaved"


def test_tune_json(cli, swc):
    result = cli("tune", swc(), "--cells", 3, "--json")
    report = result.report()
    assert (report["cells"], report["shapes"], report["dtype"]) == (3, 1, "float64")
    times = [row["solve_ms"] for row in report["candidates"]]
    assert times == sorted(times) and times[0] > 0
    for row in report["candidates"]:
        assert row["x_floor"] == pytest.approx(row["solve_ms"] / report["floor_ms"])
    assert sum(row["chosen"] for row in report["candidates"]) == 1
    assert sum(row["heuristic"] for row in report["candidates"]) == 1


def test_tune_list_and_clear(cli, swc):
    folder = os.environ["CLHINES_CACHE_DIR"]
    assert cli("tune", "--list").out == f"0 stored in {folder}\n"
    assert cli("tune", "--clear").out == f"0 removed from {folder}\n"
    cli("tune", "--dtype", "float32")
    cli("tune", swc(), "--dtype", "float32")
    result = cli("tune", "--list")
    assert (result.code, result.err) == (0, "")
    head, *lines = result.out.splitlines()
    assert head == f"2 stored in {folder}"
    assert len(lines) == 2 and all(len(line) <= 100 and "float32: " in line for line in lines)
    assert any(line.startswith(f"6 cells, {sample_nodes()} nodes, ") for line in lines)
    entries = json.loads(cli("tune", "--list", "--json").out)
    assert entries == list(tune.stored())
    (Path(folder) / "tuned-broken.json").write_text("{")
    assert cli("tune", "--list").out.startswith("2 stored in ")
    assert cli("tune", "--clear").out == f"3 removed from {folder}\n"
    assert cli("tune", "--list").out == f"0 stored in {folder}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--clear", "cell.swc"], "--clear takes no files; got cell.swc"),
        (["--list", "cell.swc"], "--list takes no files; got cell.swc"),
        (["--list", "--clear"], "not allowed with argument"),
        (["missing.swc"], "missing.swc"),
        (["--cells", "0"], "expected a whole number from 1"),
        (["--device", "no such device"], "matches no device"),
        (["--method", "fine"], "unrecognized arguments"),
    ],
)
def test_tune_bad_arguments(cli, arguments, said):
    cli("tune", *arguments).assert_refused(said)
    assert list(tune.stored()) == []


def test_solve_refuses_tuning_of_a_named_method(cli):
    cli("solve", "--method", "fine", "--tune", "measure").assert_refused(
        "tune='measure' is for method 'auto'; got method 'fine'"
    )
    cli("solve", "--tune", "fast").assert_refused("invalid choice: 'fast'")


def test_tune_unwritable_folder(cli, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CLHINES_CACHE_DIR", str(tmp_path / "file"))
    result = cli("tune", "--dtype", "float32")
    assert result.code == 0
    assert tune_rows(result)
    assert result.err.startswith("clhines: the winner was not stored: ")
    assert len(result.err.splitlines()) == 1
    assert cli("tune", "--list").out.startswith("0 stored in ")
    assert cli("tune", "--clear").out.startswith("0 removed from ")
