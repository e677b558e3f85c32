"""The runner: its list, unknown names, and errors as one line."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import clhines
from bench import MissingError, __main__, record
from bench.measures import reach

BENCH = Path(record.__file__).parent


def test_the_list_has_a_line_for_each_measure(capsys):
    assert __main__.main([]) == 0
    usage, empty, *lines = capsys.readouterr().out.splitlines()
    assert "NAME" in usage and not empty
    assert [line.split()[0] for line in lines] == list(__main__.MEASURES)
    for line in lines:
        name, _, text = line.strip().partition(" ")
        module = import_module(f"bench.{__main__.MEASURES[name]}")
        assert text.strip() == module.__doc__.splitlines()[0] and callable(module.main)
        assert len(line) <= 100


def test_every_measure_is_listed():
    """A module of `measures` that no other module imports is a measure."""
    listed = {m.split(".")[1] for m in __main__.MEASURES.values() if m.startswith("measures.")}
    there = {p.stem for p in (BENCH / "measures").iterdir() if not p.name.startswith("__")}
    parts = {"rank", "model_cases", "model_runs"}  # parts of other measures
    assert there - listed == parts


@pytest.mark.parametrize("name", __main__.MEASURES)
def test_every_measure_has_help(name, capsys):
    with pytest.raises(SystemExit) as caught:
        __main__.main([name, "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: python -m bench {name}")


def test_an_unknown_name(capsys):
    assert __main__.main(["rech"]) == 2
    assert "there is no measure 'rech'; expected solve, reach" in capsys.readouterr().err


def test_errors_are_one_line(monkeypatch):
    with pytest.raises(SystemExit, match="^reach: device='none such' matches no device"):
        __main__.main(["reach", "--device", "none such"])

    def fails(arguments):
        raise MissingError("no compiler")

    monkeypatch.setattr(reach, "main", fails)
    with pytest.raises(SystemExit, match="^reach: no compiler$"):
        __main__.main(["reach"])


@pytest.mark.parametrize("start", [["-m", "bench"], [str(BENCH)]])
def test_an_installed_package_precedes_the_checkout(start, tmp_path):
    """Also if the working folder is the root of the checkout."""
    installed = tmp_path / "clhines"
    installed.mkdir()
    (installed / "__init__.py").write_text("raise SystemExit('the installed one')")
    where = "" if start[0] == "-m" else start[0]
    run = "run_module('bench'" if start[0] == "-m" else f"run_path({start[0]!r}"
    program = (
        f"import sys, runpy; sys.path.insert(1, sys.argv[1]); sys.path[0] = {where!r}; "
        f"sys.argv[1:] = ['reach']; runpy.{run}, run_name='__main__')"
    )
    keep = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=60, env=keep, cwd=BENCH.parent,
    )  # fmt: skip
    assert done.stderr.strip() == "the installed one"


def test_the_command_of_a_record(monkeypatch):
    monkeypatch.setenv("CLHINES_COMMIT", "v1")
    entries = record.record(None, "plan", ["--out", "/a/b/results", "--nodes", "10"])
    assert entries["command"] == "python -m bench plan --nodes 10"
    assert (entries["commit"], entries["clhines"]) == ("v1", clhines.__version__)
    assert "device" not in entries and entries["seed"] == record.SEED


def test_json_has_a_line_for_each_row():
    result = {
        "record": {"commit": "v1", "peers": {"scipy": "1"}},
        "rows": [{"a": 1.5, "taken": [1, 2]}, {"a": 2.5, "taken": []}],
        "missing": [],
        "stop": 1000.0,
    }
    text = record.lines(result)
    assert json.loads(text) == result and list(json.loads(text)) == list(result)
    assert text.splitlines()[6:8] == ['  {"a": 1.5, "taken": [1, 2]},', '  {"a": 2.5, "taken": []}']


def test_results_are_written_so():
    for path in record.RESULTS.rglob("*.json"):
        text = path.read_text("utf-8")
        assert text == record.lines(json.loads(text)), path.name
