"""Continuous integration: files that it keeps between runs, and files that it leaves out."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import runtimes

ROOT = Path(__file__).parents[2]
RUN, CACHE = ROOT / ".ci" / "run", ROOT / ".ci" / "cache"
pytestmark = pytest.mark.skipif(
    not CACHE.is_file() or shutil.which("flock") is None, reason="no .ci here, or no flock"
)
PROGRAM = """
set -euo pipefail
work=$(mktemp -d) root={root}
. {cache}
open_cache
use_cache
{body}
"""


def shell(body, kept):
    """Run commands between `use_cache` and the end of a run; return PoCL's cache folder."""
    program = PROGRAM.format(root=ROOT, cache=CACHE, body=body + '\necho "at $POCL_CACHE_DIR"')
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "CLHINES_CI_CACHE": str(kept), "PATH": beside},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.splitlines()[-1].removeprefix("at "))


def test_what_passed_is_kept_and_what_failed_is_not(tmp_path):
    first = shell('mkdir -p "$POCL_CACHE_DIR/AB/CD"; close_cache', tmp_path)
    assert tmp_path in first.parents and (first / "AB" / "CD").is_dir()
    assert shell("true", tmp_path) == first  # does not end well
    assert (first / "AB" / "CD").is_dir()
    assert shell("true", tmp_path) == first
    assert not (first / "AB").exists()


def test_other_options_of_pocl_have_a_folder_of_their_own(tmp_path):
    first = shell("close_cache", tmp_path)
    assert shell("export POCL_WORK_GROUP_METHOD=loops; use_cache; close_cache", tmp_path) != first


def test_what_is_not_used_goes(tmp_path):
    for name in ("old", "new"):
        folder = shell(f'mkdir -p "$POCL_CACHE_DIR/AB/{name}"; close_cache', tmp_path)
        (folder / "AB" / name / "last_accessed").touch()
    (folder.parent / "pocl-other").mkdir()
    long_ago = folder.stat().st_mtime - 15 * 86400
    for path in (folder / "AB" / "old" / "last_accessed", folder.parent / "pocl-other"):
        os.utime(path, (long_ago, long_ago))
    shell("close_cache", tmp_path)
    assert [path.name for path in (folder / "AB").iterdir()] == ["new"]
    assert [path.name for path in folder.parent.glob("pocl-*")] == [folder.name]


def test_too_much_is_cut_to_what_this_run_used(tmp_path):
    folder = shell('mkdir -p "$POCL_CACHE_DIR"/AB/{before,now}; close_cache', tmp_path)
    for name in ("before", "now"):
        (folder / "AB" / name / "last_accessed").touch()
    body = 'sleep 0.1; touch "$POCL_CACHE_DIR/AB/now/last_accessed"; du() { echo 3000; }'
    shell(f"{body}; close_cache", tmp_path)
    assert [path.name for path in (folder / "AB").iterdir()] == ["now"]


def test_two_runs_at_a_time_share_nothing(tmp_path):
    with open(tmp_path / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert tmp_path not in shell("true", tmp_path).parents


def test_slow_tests_are_left_out_unless_asked_for():
    assert "-m 'not slow'" in (ROOT / "pyproject.toml").read_text("utf-8")
    done = subprocess.run([RUN, "--fast"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and done.stderr == "usage: .ci/run [--slow]; got: --fast\n"


def test_tests_of_runtimes_exist():
    for name in runtimes.SELECTION:
        file, _, test = name.partition("::")
        if ROOT.joinpath(*file.split("/")[:2]).is_dir():  # a part of the package may be absent
            assert f"def {test}(" in ROOT.joinpath(file).read_text("utf-8"), name
