"""Files of arrays: readers trust no header."""

import io
import os
import struct
import zipfile

import numpy as np
import pytest

from clhines.core import files
from clhines.core.errors import InputError
from clhines.simulator.common.npz import Member, Npz

WHAT = "a file that save() has written"
FLOAT = np.dtype(np.float64)
posix = pytest.mark.skipif(os.name != "posix", reason="of POSIX files")


def saved(tmp_path, **arrays):
    path = tmp_path / "a.npz"
    np.savez(path, **arrays)
    return path


def test_round_trip(tmp_path):
    a = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    path = saved(tmp_path, a=a, n=np.int64(7), s=np.str_("word"), none=np.zeros((4, 0)))
    with Npz(path, WHAT) as file:
        assert sorted(file.names) == ["a", "n", "none", "s"]
        assert file.header("a") == ((2, 3), FLOAT)
        array = file.read("a", Member((2, 3), FLOAT))
        np.testing.assert_array_equal(array, a)
        assert array.flags.writeable
        assert file.read("n", Member((), np.dtype(np.int64), 7, 7)) == 7
        assert str(file.read("s", Member((), np.dtype("U4")))) == "word"
        assert file.read("none", Member((4, 0), FLOAT)).shape == (4, 0)


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
    with Npz(saved(tmp_path, a=value), WHAT) as file:
        with pytest.raises(InputError, match=said):
            file.read("a", Member((3,), FLOAT, -1, 5))
        with pytest.raises(InputError, match="'b' is missing"):
            file.read("b", Member((3,), FLOAT))


def test_objects_are_never_unpickled(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, a=np.array([print], object))
    with Npz(path, WHAT) as file, pytest.raises(InputError, match="dtype object; expected"):
        file.read("a", Member((1,), FLOAT))


def test_a_bomb_is_not_unpacked(tmp_path):
    """A member that unpacks from 2 MB to 2 GB is refused by its header, before unpacking."""
    path = tmp_path / "a.npz"
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f8", "fortran_order": False, "shape": (2**28,)}
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("a.npy", "w") as out:
        out.write(head.getvalue())
        for _ in range(64):
            out.write(bytes(2**20))
    with Npz(path, WHAT) as file, pytest.raises(InputError, match="has shape"):
        file.read("a", Member((3,), FLOAT))
    with Npz(path, WHAT) as file, pytest.raises(InputError, match="has not the"):
        file.read("a", Member((2**28,), FLOAT))


def test_more_bytes_than_the_shape_says(tmp_path):
    path, whole = tmp_path / "a.npz", io.BytesIO()
    np.save(whole, np.zeros(3))
    for data in (whole.getvalue() + b"x", whole.getvalue()[:-1]):
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("a.npy", data)
        with Npz(path, WHAT) as file, pytest.raises(InputError, match="not the 24 bytes"):
            file.read("a", Member((3,), FLOAT))


@pytest.mark.parametrize("flag", [0x1, 0x20, 0x40])
def test_flags_of_the_zip(tmp_path, flag):
    """Refuse members flagged as encrypted, patched or strongly encrypted."""
    path = saved(tmp_path, a=np.zeros(3))
    data = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.index(mark) + place
        data[at : at + 2] = struct.pack("<H", flag)
    path.write_bytes(data)
    with Npz(path, WHAT) as file, pytest.raises(InputError, match="encryp|patched"):
        file.read("a", Member((3,), FLOAT))


@posix
def test_what_is_no_regular_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in ("/dev/zero", tmp_path / "fifo", tmp_path, "a\0b", 3.5, tmp_path / "none"):
        with pytest.raises(InputError, match="cannot be read|no path"):
            Npz(path, WHAT)
        with pytest.raises(InputError, match="cannot be read|no path"):
            files.read_json(path)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_files(tmp_path, seed):
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
        expected = Member(value.shape, value.dtype)
        try:
            with Npz(path, WHAT) as file:
                array = file.read(name, expected)
        except InputError as error:
            assert str(path) in str(error)
            assert len(str(error).splitlines()) == 1
        else:
            np.testing.assert_array_equal(array, value)  # the checksum is right


SHAPES = ["(1000000000000,)", "(1099511627776, 1099511627776)", "(-1,)", "(3.5,)", "(True,)", "'x'"]
SHAPES += ["(10**9,)", "(" * 90 + ")" * 90, "(9223372036854775807,)", "(3,), 'more': 1", "{" * 50]


@pytest.mark.parametrize("shape", SHAPES)
def test_headers_with_another_shape(tmp_path, shape):
    path, text = tmp_path / "a.npz", f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}"
    for version in (b"\x01\x00", b"\x09\x09"):
        head = b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text.encode()
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("a.npy", head + bytes(24))
        with pytest.raises(InputError) as error, Npz(path, WHAT) as file:
            file.read("a", Member((3,), FLOAT))
        assert str(path) in str(error.value) and "\n" not in str(error.value)
        assert len(str(error.value)) < 300 + len(str(path))


def appended(data, name, more):
    room = io.BytesIO(data)
    with zipfile.ZipFile(room, "a") as file:
        file.writestr(zipfile.ZipInfo(name), more)
    return room.getvalue()


OTHER = {  # change of a file's bytes
    "no bytes": lambda data: b"",
    "two letters": lambda data: b"PK",
    "no zip": lambda data: b"{}" * 300,
    "one array": lambda data: data[data.index(b"\x93NUMPY") :][:152],
    "a half": lambda data: data[: len(data) // 2],
    "bytes before": lambda data: b"some" + data,
    "bytes after": lambda data: data + bytes(70_000),
    "a member twice": lambda data: appended(data, "a.npy", b"other"),
    "an empty member": lambda data: appended(data, "b.npy", b""),
    "a text": lambda data: appended(data, "b.npy", b"hello"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("change", OTHER)
def test_other_files(tmp_path, change):
    """Each is refused in one line, or gives the array that was saved."""
    path = saved(tmp_path, a=np.arange(3.0))
    path.write_bytes(OTHER[change](path.read_bytes()))
    for name in "ab":
        try:
            with Npz(path, WHAT) as file:
                array = file.read(name, Member((3,), FLOAT))
        except InputError as error:
            assert str(path) in str(error) and "\n" not in str(error)
        else:
            assert name == "a" and array.tolist() == [0, 1, 2]
            assert change in ("bytes before", "bytes after", "an empty member", "a text")
