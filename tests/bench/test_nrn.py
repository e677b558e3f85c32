"""NEURON's compiler is found beside a Python, else in PATH; its mechanisms by name."""

import pytest

from bench import MissingError, nrn


def commands(folder, *names):
    """Make programs in a folder that do nothing."""
    folder.mkdir()
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


def test_the_compiler_beside_a_python_comes_before_that_of_path(tmp_path, monkeypatch):
    folder = commands(tmp_path / "path", "nrnivmodl", "c++")
    beside = commands(tmp_path / "venv", "nrnivmodl")
    monkeypatch.setenv("PATH", str(folder))
    assert nrn.compiler(str(beside / "python")) == str(beside / "nrnivmodl")
    assert nrn.compiler(str(tmp_path / "python")) == str(folder / "nrnivmodl")


@pytest.mark.parametrize("there", ["nrnivmodl", "c++"])
def test_what_is_missing_is_said(tmp_path, monkeypatch, there):
    monkeypatch.setenv("PATH", str(commands(tmp_path / "path", there)))
    with pytest.raises(MissingError, match=r"^no C\+\+ compiler, or no nrnivmodl"):
        nrn.compiler(str(tmp_path / "python"))


def test_a_compiler_that_makes_no_library_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(nrn, "compiler", lambda: "/bin/true")
    with pytest.raises(MissingError, match="^nrnivmodl failed: no library$"):
        nrn.compiled(tmp_path)


def test_mechanisms_of_neuron():
    h = pytest.importorskip("neuron").h
    membrane, points = (set(nrn.mechanism_names(h, points)) for points in (False, True))
    assert {"hh", "pas", "na_ion"} <= membrane
    assert {"IClamp", "ExpSyn", "NetStim"} <= points
    assert not membrane & points
