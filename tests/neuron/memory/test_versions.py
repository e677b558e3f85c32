"""A self-test for each NEURON version precedes reads from its private memory."""

import configparser
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from processes import run_python

import clhines
from clhines.core import files
from clhines.neuron.memory import versions

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron
ROOT = Path(__file__).parents[3]
COMMAND = "import sys; from clhines.cli.main import main; sys.exit(main(sys.argv[1:]))"
ENTRIES = {
    "run": lambda: clhines.neuron.run(1),
    "from_neuron": clhines.from_neuron,
    "check": clhines.neuron.check,
    "enable": lambda: clhines.neuron.enable(strict=True),
}


@pytest.fixture(autouse=True)
def _untested(monkeypatch):
    monkeypatch.delenv(versions.SWITCH)
    monkeypatch.setattr(versions, "_results", {})


@pytest.fixture
def cell():
    section = h.Section(name="soma")
    section.insert("pas")
    h.finitialize(-65)
    return section


def test_a_version_passes_once_and_the_result_is_kept(cell, monkeypatch):
    """The installed NEURON is tested in its own process; a broken cache file counts as none."""
    calls, run = [], subprocess.run

    def counted(*given, **named):
        calls.append(given)
        return run(*given, **named)

    monkeypatch.setattr(subprocess, "run", counted)
    assert clhines.neuron.check() == [] == clhines.neuron.check()
    monkeypatch.setattr(versions, "_results", {})
    clhines.neuron.run(0.1, engine="reference")
    assert len(calls) == 1 and cell
    (kept,) = files.cache_folder().glob("neuron-*.json")
    result = json.loads(kept.read_text())
    assert result["key"]["neuron"] == h.nrnversion() and result["wrong"] == ""
    answers = iter(["planted", "planted again"])
    monkeypatch.setattr(versions, "_tested", lambda *_: next(answers))
    for text in ("{", json.dumps({**result, "wrong": 3})):
        kept.write_text(text)
        monkeypatch.setattr(versions, "_results", {})
        with pytest.raises(clhines.InputError, match="planted"):
            clhines.neuron.check()


def test_the_device_is_tested_meanwhile(monkeypatch):
    monkeypatch.delenv("CLHINES_TRUST")
    answer = SimpleNamespace(stdout=f'{versions.WORD}""', returncode=0)
    monkeypatch.setattr(subprocess, "run", lambda *_, **named: answer)
    assert versions._tested("a version", "neuron") == ""
    (process,) = versions._beside
    assert process.wait(300) == 0
    (kept,) = files.cache_folder().glob("trust-*.json")
    assert json.loads(kept.read_text())["outcome"]["family"] in ("blocks", "lists")


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_version_that_fails_is_refused_in_one_line(cell, monkeypatch, entry):
    monkeypatch.setattr(versions, "_tested", lambda *_: "cells, 3: 0.5 off")
    with pytest.raises(clhines.InputError, match="cells, 3: 0.5 off") as error:
        ENTRIES[entry]()
    assert cell and len(str(error.value).splitlines()) == 1 and h.nrnversion() in str(error.value)


def test_the_switch_lets_neuron_run_with_a_version_that_fails(cell, monkeypatch):
    monkeypatch.setattr(versions, "_tested", lambda *_: "planted")
    h.load_file("stdrun.hoc")
    with pytest.warns(UserWarning, match="NEURON itself runs all models, as .*planted"):
        on = clhines.neuron.enable(when="always")
    with on:
        h.continuerun(1)
    assert cell and on.steps == 0 and h.t > 0.99
    assert len(on.reasons) == 1 and "planted" in on.reasons[0]


def simulate(folder, *words):
    script = folder / "script.py"
    script.write_text(
        "from neuron import h\nh.load_file('stdrun.hoc')\ns = h.Section(name='s')\n"
        "s.insert('pas')\nh.finitialize(-65)\nh.continuerun(1)\nprint('t is', h.t)\n"
    )
    return run_python("-c", COMMAND, "simulate", script, *words, PYTHONPATH=str(ROOT))


def test_the_command_refuses_a_version_that_has_failed(tmp_path):
    key = versions._key(h, h.nrnversion())
    files.write_entry("neuron", versions._SCHEMA, key, wrong="planted")
    done = simulate(tmp_path, "--strict")
    assert done.returncode and "Traceback" not in done.stderr
    assert "has failed the self-test of clhines (planted)" in done.stderr
    done = simulate(tmp_path)
    assert "planted" in done.stderr and "t is 1" in done.stdout.replace("0.99999", "1")


def test_the_switch_tests_its_hooks_until_the_device_takes_a_call(cell, monkeypatch):
    """The test of all hooks waits until the device takes a call."""
    tests, tested = [], versions._tested

    def noted(version, test):
        tests.append(test)
        return tested(version, test) if test == "hooks" else ""

    monkeypatch.setattr(versions, "_tested", noted)
    h.load_file("stdrun.hoc")
    with clhines.neuron.enable(when="faster") as on:
        h.continuerun(1)
        assert tests == ["hooks"] and on.steps == 0 and cell
    with clhines.neuron.enable(engine="reference") as on:
        h.continuerun(2)
    assert tests == ["hooks", "neuron"] and on.steps == 40
    with clhines.neuron.enable():  # the test of all has tested the hooks
        assert tests == ["hooks", "neuron"]


def test_processes_that_crash_or_do_not_start(cell, monkeypatch):
    monkeypatch.setattr(versions, "_PROGRAM", "import os; os.kill(os.getpid(), 11)")
    with pytest.raises(clhines.InputError, match="a crash, SIGSEGV"):
        clhines.neuron.check()
    monkeypatch.setattr(versions, "_results", {})
    for kept in files.cache_folder().glob("neuron-*.json"):
        kept.unlink()
    monkeypatch.setattr(versions.sys, "executable", "/nowhere/python")
    with pytest.raises(clhines.InputError, match="did not run .*/nowhere/python"):
        clhines.neuron.check()
    assert cell and not [*files.cache_folder().glob("neuron-*.json")]


def test_versions_that_are_newer_need_a_word(monkeypatch):
    import neuron

    monkeypatch.setenv(versions.SWITCH, "1")
    monkeypatch.delenv(versions.ANY, raising=False)
    monkeypatch.setattr(neuron, "__version__", "9.1.0.dev0-28-g20235041e")
    with pytest.raises(clhines.InputError, match=r"9\.1\.0\.dev0.*expected 9\.0 .*NEURON_ANY=1"):
        versions.supported()
    monkeypatch.setenv(versions.ANY, "1")
    assert versions.supported() is h
    monkeypatch.setenv(versions.ANY, "yes")
    with pytest.raises(clhines.InputError, match="CLHINES_NEURON_ANY is 'yes'; expected 1 or 0"):
        versions.supported()


def test_all_extras_name_the_same_versions():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = [
        line
        for lines in setup["options.extras_require"].values()
        for line in lines.splitlines()
        if line.startswith("neuron")
    ]
    assert {*lines} == {'neuron>=9.0,<9.1; sys_platform != "win32"'} and len(lines) == 4
