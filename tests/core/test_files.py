"""Files are written whole or not at all; readers check every entry."""

import json
import os
import stat
import subprocess
import sys

import numpy as np
import pytest

from clhines.core import files
from clhines.core.errors import InputError

WHAT = "a file that save() has written"
FLOAT = np.dtype(np.float64)
posix = pytest.mark.skipif(os.name != "posix", reason="of POSIX files")


def write(path, text=b"new"):
    with files.whole(path) as file:
        file.write(text)


def entries(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_regular_file_is_replaced_and_keeps_its_mode(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"older")
    path.chmod(0o640)
    write(path)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    write(os.fsencode(path), b"bytes")
    assert path.read_bytes() == b"bytes"
    assert entries(tmp_path) == ["a"]


@posix
def test_a_new_file_has_the_mode_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "a")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


@pytest.mark.parametrize("older", [False, True])
def test_whole_or_not_at_all(tmp_path, older):
    path = tmp_path / "a"
    if older:
        path.write_bytes(b"older")
    with pytest.raises(KeyError), files.whole(path) as file:
        file.write(b"half")
        raise KeyError
    assert entries(tmp_path) == (["a"] if older else [])
    assert not older or path.read_bytes() == b"older"


@posix
@pytest.mark.parametrize("dangling", [False, True])
def test_links_are_followed(tmp_path, dangling):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    if not dangling:
        target.write_bytes(b"older")
    link.symlink_to("chain")
    (tmp_path / "chain").symlink_to("folder/target")
    write(link)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert entries(tmp_path / "folder") == ["target"]


@posix
def test_what_is_no_regular_file_is_not_written(tmp_path):
    fifo, link = tmp_path / "fifo", tmp_path / "null"
    os.mkfifo(fifo)
    link.symlink_to(os.devnull)
    for path in (fifo, link, os.devnull, "/dev/full"):
        before = os.stat(path)
        with pytest.raises(InputError, match="is no regular file; expected the name of a file"):
            files.check_target(path)
        with pytest.raises(InputError, match="is no regular file"):
            files.write_npz(path, {"a": np.arange(5)})
        after = os.stat(path)
        assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert entries(tmp_path) == ["fifo", "null"]


WRITER = """
import sys
from clhines.core import errors, files
try:
    files.write_text(sys.argv[1], "bad")
except errors.InputError as error:
    print(error)
"""


@posix
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "out"])
@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_the_standard_output_is_not_replaced(tmp_path, name, kind):
    out = tmp_path / "out"
    command = [sys.executable, "-c", WRITER, str(out) if name == "out" else name]
    if kind == "pipe":
        text = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()
        said = "" if name == "out" else f"{name}: is no regular file; expected the name of a file\n"
        assert text == said
    else:
        with out.open("wb") as file:
            subprocess.run(command, stdout=file, check=True)
        assert out.read_text().endswith(
            ": is the standard output; expected the name of another file\n"
        )
    assert entries(tmp_path) in ([], ["out"])


@posix
def test_what_cannot_be_written(tmp_path):
    """Refuse also for root, who may write everywhere."""
    (tmp_path / "folder").mkdir()
    locked = tmp_path / "locked"
    locked.write_bytes(b"older")
    locked.chmod(0o444)
    os.symlink("loop", tmp_path / "loop")
    for path, said in (
        (tmp_path / "folder", "folder: is a folder"),
        (locked, "locked: is read-only"),
        (tmp_path / "loop", "loop: cannot be written"),
        (tmp_path / "none" / "a", "a: cannot be written: No such file"),
        (locked / "a", "a: cannot be written: Not a directory"),
        ("a\0b", "is no path of a file"),
        ("", "name of the file is empty"),
        (3, "3: is no path of a file"),
        (None, "None: is no path of a file"),
        ("x" * 5000, "File name too long"),
    ):
        with pytest.raises(InputError, match=said) as error:
            files.check_target(path)
        assert len(str(error.value).splitlines()) == 1
        with pytest.raises(InputError, match=said):
            write(path)
    assert locked.read_bytes() == b"older"
    assert entries(tmp_path) == ["folder", "locked", "loop"]


def test_json(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"a": [1, 2.5, "x"]}))
    assert files.read_json(path) == {"a": [1, 2.5, "x"]}
    for text in ("", "{", "NaN", "[Infinity]", "[" * 100_000, "1" * 5000, '{"a": 1, "a": 2}'):
        path.write_text(text)
        with pytest.raises(InputError, match=r"a.json: is not JSON"):
            files.read_json(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not JSON"):
        files.read_json(path)
    path.write_text(" " * 101)
    with pytest.raises(InputError, match="more than 100 bytes"):
        files.read_json(path, most=100)


def test_entries_that_may_be_lost(tmp_path, monkeypatch):
    monkeypatch.setenv("CLHINES_CACHE_DIR", str(tmp_path))
    files.keep_entry("kind", 1, {"of": 1}, value=2.5)
    assert files.kept_entry("kind", 1, {"of": 1})["value"] == 2.5
    assert files.kept_entry("kind", 1, {"of": 2}) == files.kept_entry("kind", 2, {"of": 1}) == {}
    path = files.entry_path("kind", {"of": 1})
    path.write_text(path.read_text().replace('"of": 1', '"of": 3'))
    assert files.kept_entry("kind", 1, {"of": 1}) == {}
    path.write_text("{")
    assert files.kept_entry("kind", 1, {"of": 1}) == {}
    monkeypatch.setenv("CLHINES_CACHE_DIR", os.devnull)  # no folder
    files.keep_entry("kind", 1, {"of": 1}, value=2.5)
    assert files.kept_entry("kind", 1, {"of": 1}) == {}
