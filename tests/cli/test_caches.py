"""OpenCL's caches: damaged, full, or in folders that cannot be written."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import assert_one_line, process

from clhines.solver.device import caches

SOLVE = ("solve", "--cells", "3", "--steps", "1", "--method", "fine")


@pytest.fixture(scope="module")
def filled(pocl, tmp_path_factory):
    """A cache of PoCL in which `SOLVE` finds all its programs."""
    folder = tmp_path_factory.mktemp("filled")
    assert solve(folder).err == ""
    return folder


@pytest.fixture
def kept(filled, tmp_path):
    """A copy of `filled`."""
    return shutil.copytree(filled, tmp_path / "kept")


def solve(folder, *python, **environment):
    settings = {"CLHINES_DEVICE": "pocl", "POCL_CACHE_DIR": str(folder), **environment}
    result = process(*SOLVE, cwd=folder if folder.is_dir() else "/", **settings)
    assert result.code == 0, result.err
    assert result.out.endswith("good\n")
    return result


def files(folder, pattern):
    paths = sorted(folder.glob(f"[A-P][A-P]/*/{pattern}"))
    assert paths
    return paths


def empty(path):
    os.truncate(path, 0)


def halved(path):
    os.truncate(path, path.stat().st_size // 2)


def without_end(path):
    os.truncate(path, path.stat().st_size - 4096)


def ends_in_zeros(path):
    size = path.stat().st_size
    halved(path)
    os.truncate(path, size)


def unreadable(path):
    """Files with the right lengths that LLVM cannot read (`INVALID_KERNEL_NAME`)."""
    data = path.read_bytes()
    first, last = len(data) // 2, len(data) * 3 // 4
    path.write_bytes(data[:first] + bytes(last - first) + data[last:])


@pytest.mark.parametrize("spoil", [empty, halved, without_end, ends_in_zeros, unreadable])
def test_a_cache_with_programs_that_are_incomplete(pocl, kept, spoil):
    """PoCL ends a process that reads such a file."""
    if spoil is unreadable and "PoCL 5" in pocl.platform.version:
        pytest.skip("PoCL 5 ends the process, which cannot be told from the file")
    before = {path: path.stat().st_size for path in files(kept, "program.bc")}
    for path in before:
        spoil(path)
    (kept / "AA" / "ONE_THAT_WAS_BEGUN").mkdir(parents=True)  # and killed before it wrote a file
    assert solve(kept).err == ""
    for path, size in before.items():  # built again; temporary file names vary in length
        assert abs(path.stat().st_size - size) < 64


@pytest.mark.parametrize("spoil", [empty, halved, ends_in_zeros])
def test_a_cache_with_libraries_that_are_incomplete(kept, spoil):
    for path in files(kept, "*/*/*.so"):
        spoil(path)
    assert solve(kept).err == ""
    assert caches.clean(kept) == 0  # nothing incomplete is left


def test_whole_files_are_left_alone(kept):
    before = {p: p.read_bytes() for p in files(kept, "**/*") if p.is_file()}
    (kept / "clhines-checked").unlink()
    assert caches.clean(kept) == 0
    assert {p: p.read_bytes() for p in before} == before


def test_what_the_last_check_has_seen_is_not_checked_again(kept):
    """Files written in the two minutes before it may not have been on disk."""
    caches.clean(kept)
    (kept / "other").write_text("not of PoCL")
    path, *_ = files(kept, "program.bc")
    empty(path)
    now = time.time()
    os.utime(path, (now - 900, now - 900))
    assert caches.clean(kept) == 0 and path.exists()
    for changed in (path, path.parent / "last_accessed"):  # on a busy machine it is minutes old
        os.utime(changed, (now, now))
    assert caches.clean(kept) == 1 and not path.exists()


def test_killed_builds_leave_nothing_wrong(filled, tmp_path):
    """Whatever PoCL had written by then, the next run is right."""
    folder = tmp_path / "killed"
    folder.mkdir()
    environment = {**os.environ, "CLHINES_DEVICE": "pocl", "POCL_CACHE_DIR": str(folder)}
    child = subprocess.Popen(
        [sys.executable, "-m", "clhines.cli", *SOLVE], env=environment, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not list(folder.glob("[A-P][A-P]/*/*/*")) and time.monotonic() < deadline:
        time.sleep(0.01)  # until it compiles the first kernel
    child.kill()
    child.wait()
    assert len(list(folder.glob("**/*.so"))) < len(files(filled, "*/*/*.so"))
    assert solve(folder).err == ""


@pytest.fixture
def blocked(tmp_path):
    """A folder that cannot be made: there is a file in its place."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "cache"


def temporaries():
    return set(Path(caches.tempfile.gettempdir()).glob("clhines-pocl-*"))


def test_pocl_without_a_cache(pocl, blocked):
    """It would show no device; the temporary folder is gone at the end."""
    before = temporaries()
    result = solve(blocked)
    assert_one_line(result.err, f"PoCL cannot use its cache, {blocked} (Not a directory)")
    assert "set POCL_CACHE_DIR to a folder that is writable" in result.err
    assert temporaries() <= before


def test_no_cache_at_all(pocl, blocked):
    """PyOpenCL would raise an error from sqlite or from the system."""
    result = solve(blocked / "pocl", XDG_CACHE_HOME=str(blocked))
    assert_one_line(result.err, "PoCL cannot use", f"PyOpenCL cannot use its cache, {blocked}")


@pytest.mark.parametrize("size", ["64k", "24m"])
def test_a_full_disk(pocl, tmp_path, size):
    """On the smaller disk nothing fits, on the larger one the programs of `SOLVE`."""
    mount = f"mount -t tmpfs -o size={size} none {tmp_path}"
    inner = f'{mount} && exec "$@"'
    try:
        subprocess.run(["unshare", "-rm", "sh", "-c", mount], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("cannot mount a small disk here")
    command = ["unshare", "-rm", "sh", "-c", inner, "-", sys.executable, "-m", "clhines.cli"]
    where = {"POCL_CACHE_DIR": str(tmp_path / "pocl"), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [*command, *SOLVE],
        env={**os.environ, **where, "CLHINES_DEVICE": "pocl"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    if size == "64k":
        assert_one_line(done.stderr, "PoCL cannot use its cache", "KiB free, 16384 needed")
    else:
        assert done.stderr == ""


def test_doctor_says_so(pocl, blocked, tmp_path):
    result = process(
        "doctor", cwd=tmp_path, POCL_CACHE_DIR=str(blocked), XDG_CACHE_HOME=str(blocked)
    )
    said = "".join(result.out.split())  # lines are broken, within names too
    assert result.code == 1 and "Traceback" not in result.err
    assert f"FAULTPoCLcannotuseitscache,{blocked}" in said
    assert "dosetPOCL_CACHE_DIRtoafolderthatiswritable" in said
    assert f"FAULTPyOpenCLcannotuseitscache,{blocked}" in said
    assert "solvesinfloat64" in said
