"""Files: whole or not at all; nothing is believed that is read."""

import io
import json
import os
import stat
import struct
import subprocess
import sys
import zipfile

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


# ---------------------------------------------------------------------------------- writing


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
    """Also for root, whom the system lets write everything."""
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


# ---------------------------------------------------------------------------------- reading


def saved(tmp_path, **arrays):
    path = tmp_path / "a.npz"
    np.savez(path, **arrays)
    return path


def test_round_trip(tmp_path):
    a = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    path = saved(tmp_path, a=a, n=np.int64(7), s=np.str_("word"), none=np.zeros((4, 0)))
    with files.Npz(path, WHAT) as file:
        assert sorted(file.names) == ["a", "n", "none", "s"]
        assert file.header("a") == ((2, 3), FLOAT)
        found = file.read("a", files.Member((2, 3), FLOAT))
        np.testing.assert_array_equal(found, a)
        assert found.flags.writeable
        assert file.read("n", files.Member((), np.dtype(np.int64), 7, 7)) == 7
        assert str(file.read("s", files.Member((), np.dtype("U4")))) == "word"
        assert file.read("none", files.Member((4, 0), FLOAT)).shape == (4, 0)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.zeros(4), r"'a' has shape \(4,\), dtype float64; expected \(3,\), float64"),
        (np.zeros(3, np.float32), "dtype float32; expected"),
        (np.zeros(3, ">f8"), "dtype >f8; expected"),
        (np.array([0.0, np.nan, 0.0]), r"a\[1\] is nan; expected -1 to 5"),
        (np.array([0.0, 0.0, np.inf]), r"a\[2\] is inf; expected -1 to 5"),
        (np.array([0.0, 0.0, 5.5]), r"a\[2\] is 5.5; expected -1 to 5"),
    ],
)
def test_wrong_arrays(tmp_path, value, said):
    with files.Npz(saved(tmp_path, a=value), WHAT) as file:
        with pytest.raises(InputError, match=said):
            file.read("a", files.Member((3,), FLOAT, -1, 5))
        with pytest.raises(InputError, match="'b' is missing"):
            file.read("b", files.Member((3,), FLOAT))


def test_objects_are_never_unpickled(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, a=np.array([print], object))
    with files.Npz(path, WHAT) as file, pytest.raises(InputError, match="dtype object; expected"):
        file.read("a", files.Member((1,), FLOAT))


def test_a_bomb_is_not_unpacked(tmp_path):
    """A member of 2 GB in 2 MB: refused by its header, before anything is unpacked."""
    path = tmp_path / "a.npz"
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f8", "fortran_order": False, "shape": (2**28,)}
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("a.npy", "w") as out:
        out.write(head.getvalue())
        for _ in range(64):
            out.write(bytes(2**20))
    with files.Npz(path, WHAT) as file, pytest.raises(InputError, match="has shape"):
        file.read("a", files.Member((3,), FLOAT))
    with files.Npz(path, WHAT) as file, pytest.raises(InputError, match="has not the"):
        file.read("a", files.Member((2**28,), FLOAT))


def test_more_bytes_than_the_shape_says(tmp_path):
    path, whole = tmp_path / "a.npz", io.BytesIO()
    np.save(whole, np.zeros(3))
    for data in (whole.getvalue() + b"x", whole.getvalue()[:-1]):
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("a.npy", data)
        with files.Npz(path, WHAT) as file, pytest.raises(InputError, match="not the 24 bytes"):
            file.read("a", files.Member((3,), FLOAT))


@pytest.mark.parametrize("flag", [0x1, 0x20, 0x40])
def test_flags_of_the_zip(tmp_path, flag):
    """Encrypted, patched, strongly encrypted: as a writer would have set them."""
    path = saved(tmp_path, a=np.zeros(3))
    data = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.index(mark) + place
        data[at : at + 2] = struct.pack("<H", flag)
    path.write_bytes(data)
    with files.Npz(path, WHAT) as file, pytest.raises(InputError, match="encryp|patched"):
        file.read("a", files.Member((3,), FLOAT))


@posix
def test_what_is_no_regular_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in ("/dev/zero", tmp_path / "fifo", tmp_path, "a\0b", 3.5, tmp_path / "none"):
        with pytest.raises(InputError, match="cannot be read|no path"):
            files.Npz(path, WHAT)
        with pytest.raises(InputError, match="cannot be read|no path"):
            files.read_json(path)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_files(tmp_path, seed):
    """Bits that flip, ends that are missing, bytes that are others: right values or one error."""
    rng = np.random.default_rng(seed)
    arrays = {"a": np.arange(50.0), "b": np.arange(6).reshape(2, 3), "c": np.str_("w" * 64)}
    path = tmp_path / "a.npz"
    (np.savez if seed % 2 else np.savez_compressed)(path, **arrays)
    data = bytearray(path.read_bytes())
    for _ in range(rng.integers(1, 4)):
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
    if seed % 4 == 3:
        del data[rng.integers(len(data)) :]
    path.write_bytes(data)
    for name, value in arrays.items():
        expected = files.Member(value.shape, value.dtype)
        try:
            with files.Npz(path, WHAT) as file:
                found = file.read(name, expected)
        except InputError as error:
            assert str(path) in str(error)
            assert len(str(error).splitlines()) == 1
        else:
            np.testing.assert_array_equal(found, value)  # the checksum holds


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
    monkeypatch.setenv("CLHINES_CACHE_DIR", os.devnull)  # which is no folder
    files.keep_entry("kind", 1, {"of": 1}, value=2.5)
    assert files.kept_entry("kind", 1, {"of": 1}) == {}
