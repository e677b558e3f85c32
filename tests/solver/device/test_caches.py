"""OpenCL's caches on disk, in this process; `tests/cli/test_caches.py` damages them."""

import shutil
from pathlib import Path

import pytest

from clhines import DeviceError
from clhines.core.errors import CacheWarning
from clhines.solver.device import caches, trust
from clhines.solver.device import pocl as workaround


def test_a_folder_that_is_not_there_and_one_that_cannot_be_written(tmp_path):
    assert caches.clean(tmp_path / "none") == 0
    assert not (tmp_path / "none").exists()
    assert caches.clean(Path("/proc/none")) == 0


def test_a_disk_that_is_full_later(pocl, monkeypatch, tmp_path):
    """Refuse to build on a full disk, where PoCL would end the process."""
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    caches.before_build(pocl)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=5 << 10))
    with pytest.raises(DeviceError, match=r"has 5 KiB free; expected 2048: set POCL_CACHE_DIR to"):
        caches.before_build(pocl)


@pytest.mark.core
def test_it_is_said_once(pocl, monkeypatch):
    monkeypatch.setattr(caches._CacheState, "said", set())
    monkeypatch.setattr(caches._CacheState, "pyopencl", "the cache is full: make room")
    with pytest.warns(CacheWarning, match="the cache is full: make room") as caught:
        caches.before_build(pocl)
        caches.before_build(pocl)
    assert len(caught) == 1


@pytest.mark.parametrize(("value", "what"), [("", "empty"), ("a/b", "relative")])
def test_a_folder_that_is_no_absolute_path(monkeypatch, value, what):
    monkeypatch.setenv("POCL_CACHE_DIR", value)
    monkeypatch.setattr(caches._CacheState, "pocl", "")
    said = caches.pocl_problem()
    assert said.startswith(f"POCL_CACHE_DIR='{value}' is {what}") and "absolute path" in said


@pytest.mark.parametrize("module", [workaround, trust])
def test_switches_that_are_neither_on_nor_off(monkeypatch, module):
    for value, is_on in (("", False), ("0", False), ("1", True)):
        monkeypatch.setenv(module.SWITCH, value)
        assert module.switched_off() == is_on
    monkeypatch.setenv(module.SWITCH, "nonsense")
    with pytest.warns(UserWarning, match=f"{module.SWITCH}='nonsense'; expected 0 or 1"):
        assert module.switched_off()
