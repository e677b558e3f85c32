"""Files of recorded rows, written chunk by chunk."""

from __future__ import annotations

import errno
import glob
import os
from pathlib import Path
from typing import Any

import numpy as np

from clhines.core.checks import shown
from clhines.core.errors import InputError
from clhines.core.files import PathLike, path_text, whole, write_npz

_SUFFIXES = (".npz", ".h5", ".hdf5")
_ROWS = 256  # rows of a chunk of an HDF5 file at most
_INDEX, _HEADERS = 1 << 9, 1 << 15  # bytes in an HDF5 file for each chunk, and besides
_BLOCK = 1 << 20  # bytes written at once


class RecordWriter:
    """Appends rows to a file, or to files of one name; `paths` are the files so far.

    Rows that could not be written, as on a full disk, are kept, and written before the next ones.

    For ``NAME.npz`` there are files ``NAME-00000.npz``, ``NAME-00001.npz`` ..., each whole or not
    there, with arrays ``t`` and ``values``. ``NAME.h5`` or ``NAME.hdf5`` is one file with data sets
    of these names. InputError: another suffix, the file exists, or h5py is not installed.
    """

    def __init__(self, path: PathLike) -> None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            raise InputError(f"to is {shown(path)}; expected the name of a file")
        self._path, self.paths = Path(os.fsdecode(path)), list[Path]()
        self._kept = list[tuple[np.ndarray, np.ndarray]]()
        if self._path.suffix not in _SUFFIXES:
            raise InputError(
                f"to is {path_text(path)!r}; expected a name that ends in {', '.join(_SUFFIXES)}"
            )
        if not self._path.parent.is_dir():
            raise InputError(f"to: there is no folder {self._path.parent}; expected one")
        if self._path.suffix != ".npz":
            _h5py()
        name = glob.escape(self._path.stem) + "-[0-9][0-9][0-9][0-9][0-9].npz"
        paths = [self._path]
        if self._path.suffix == ".npz":
            paths = sorted(self._path.parent.glob(name))
        for path in paths[:1]:
            _check_new(path)

    @property
    def file(self) -> Path:
        """Absolute path as it was given."""
        return self._path.absolute()

    def append(self, t: np.ndarray, values: np.ndarray) -> None:
        """Write rows: times, (rows,) float64, ms, and (rows, r) values."""
        self.keep(t, values)
        self.write()

    def keep(self, t: np.ndarray, values: np.ndarray) -> None:
        """Keep rows until `write`."""
        if len(t):
            self._kept.append((t, values))

    def write(self) -> None:
        """Write the rows that are kept; if that fails, the next call tries again."""
        while self._kept:
            self._append(*self._kept[0])
            del self._kept[0]

    def _append(self, t: np.ndarray, values: np.ndarray) -> None:
        if self._path.suffix == ".npz":
            path = self._path.with_name(f"{self._path.stem}-{len(self.paths):05d}.npz")
            _check_new(path)  # another simulation may have written it since
            write_npz(path, {"t": t, "values": values})
            self.paths.append(path)
            return
        try:
            self._append_hdf5(t, values)
        except (OSError, RuntimeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise InputError(f"{self._path} cannot be written: {reason}") from error

    def _append_hdf5(self, t: np.ndarray, values: np.ndarray) -> None:
        """Append rows to space reserved on the disk: libhdf5 crashes if a write fails."""
        if not self.paths:
            _check_new(self._path)
            with whole(self._path) as empty:
                empty.write(_empty_hdf5(values))
            self.paths = [self._path]
        _reserve(self._path, _room(values))
        with _h5py().File(os.fspath(self._path), "r+") as file:
            for name, rows in (("t", t), ("values", values)):
                data = file[name]
                begin = len(data)
                data.resize(begin + len(rows), axis=0)
                data[begin:] = rows


def _empty_hdf5(values: np.ndarray) -> bytes:
    """Return an HDF5 file without rows, made in memory."""
    width = values.shape[1]
    with _h5py().File("empty", "w", driver="core", backing_store=False) as file:
        file.create_dataset("t", (0,), "f8", maxshape=(None,), chunks=(_ROWS,))
        size = {"maxshape": (None, width or None), "chunks": (_ROWS, max(width, 1))}
        file.create_dataset("values", (0, width), values.dtype, **size)
        file.flush()
        return bytes(file.id.get_file_image())


def _room(values: np.ndarray) -> int:
    """Return the most bytes that rows add to an HDF5 file."""
    chunks = -(-len(values) // _ROWS)
    chunk_bytes = _ROWS * (8 + max(values.shape[1], 1) * values.dtype.itemsize)
    return chunks * (chunk_bytes + _INDEX) + _HEADERS


def _reserve(path: Path, more: int) -> None:
    """Extend a file by `more` bytes on the disk, or raise OSError and leave it unchanged."""
    with open(path, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        try:
            if not _allocated(file.fileno(), size, more):
                for begin in range(0, more, _BLOCK):
                    file.write(bytes(min(_BLOCK, more - begin)))
                file.flush()
        except OSError:
            os.ftruncate(file.fileno(), size)
            raise


def _allocated(file: int, begin: int, size: int) -> bool:
    """Whether the system has allocated bytes of a file; False if it cannot."""
    if not hasattr(os, "posix_fallocate"):
        return False
    try:
        os.posix_fallocate(file, begin, size)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
            return False
        raise
    return True


def _check_new(path: Path) -> None:
    if path.exists():
        raise InputError(f"to: {path} is there already; expected another name")


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise InputError(
            "h5py is not installed; expected pip install h5py, or a name that ends in .npz"
        ) from error
    return h5py
