"""Streams: records whose rows go to files chunk by chunk instead of into the result."""

from __future__ import annotations

import glob
import os
from pathlib import Path

import numpy as np

from clhines.checks import shown
from clhines.errors import InputError
from clhines.files import PathLike, path_text, write_npz

_SUFFIXES = (".npz", ".h5", ".hdf5")
_ROWS = 256  # rows of a chunk of an HDF5 file at most


class Stream:
    """A file, or files of one name, that rows are appended to.

    Parameters
    ----------
    path : str or path-like
        ``NAME.npz``: files ``NAME-00000.npz``, ``NAME-00001.npz`` ..., each whole or not there,
        with arrays ``t`` and ``values``. ``NAME.h5`` or ``NAME.hdf5``: one file with data sets of
        these names, by h5py.

    Attributes
    ----------
    paths : list of Path
        Written so far.

    Raises
    ------
    InputError
        Another ending; there is such a file; or h5py is missing.
    """

    def __init__(self, path: PathLike) -> None:
        self._path, self.paths = Path(path_text(path)), list[Path]()
        if self._path.suffix not in _SUFFIXES:
            raise InputError(
                f"to is {shown(str(path))}; expected a name that ends in {', '.join(_SUFFIXES)}"
            )
        if not self._path.parent.is_dir():
            raise InputError(f"to: there is no folder {self._path.parent}; expected one")
        if self._path.suffix != ".npz":
            _h5py()
        name = glob.escape(self._path.stem) + "-[0-9][0-9][0-9][0-9][0-9].npz"
        here = sorted(self._path.parent.glob(name)) if self._path.suffix == ".npz" else [self._path]
        for path in here[:1]:
            _check_new(path)

    @property
    def file(self) -> Path:
        """Absolute path as it was given."""
        return self._path.absolute()

    def _part(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.stem}-{number:05d}.npz")

    def append(self, t: np.ndarray, values: np.ndarray) -> None:
        """Write rows.

        Parameters
        ----------
        t : (rows,) float64, ms
        values : (rows, r) real
        """
        if not len(t):
            return
        if self._path.suffix == ".npz":
            path = self._part(len(self.paths))
            _check_new(path)  # another simulation may have written it since
            write_npz(path, {"t": t, "values": values})
            self.paths.append(path)
            return
        try:
            self._append_hdf5(t, values)
        except OSError as error:
            raise InputError(f"{self._path} cannot be written: {error}") from error
        self.paths = [self._path]

    def _append_hdf5(self, t: np.ndarray, values: np.ndarray) -> None:
        width = values.shape[1]
        with _h5py().File(os.fspath(self._path), "a" if self.paths else "x") as file:
            if not self.paths:
                file.create_dataset("t", (0,), "f8", maxshape=(None,), chunks=(_ROWS,))
                size = {"maxshape": (None, width), "chunks": (_ROWS, max(width, 1))}
                file.create_dataset("values", (0, width), values.dtype, **size)
            for name, rows in (("t", t), ("values", values)):
                data = file[name]
                begin = len(data)
                data.resize(begin + len(rows), axis=0)
                data[begin:] = rows


def _check_new(path: Path) -> None:
    if path.exists():
        raise InputError(f"to: {path} is there already; expected another name")


def _h5py():  # type: ignore[no-untyped-def]
    try:
        import h5py
    except ImportError as error:
        raise InputError(
            "h5py is not installed; expected pip install h5py, or a name that ends in .npz"
        ) from error
    return h5py
