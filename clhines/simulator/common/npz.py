"""Array files that are checked when read; nothing is unpickled."""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, NoReturn

import numpy as np

from clhines.core.errors import InputError, shown
from clhines.core.files import PathLike, open_regular, path_text, short_text


@dataclass(frozen=True)
class Member:
    """The expected shape, dtype with byte order, and range for an array in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype
    low: float | np.ndarray | None = None  # inclusive
    high: float | np.ndarray | None = None  # inclusive


def check_values(name: str, array: np.ndarray, expected: Member) -> None:
    if array.dtype.kind not in "fiu" or not array.size:
        return
    wrong = ~np.isfinite(array)
    text = "finite numbers"
    if expected.low is not None and expected.high is not None:
        wrong |= ~((array >= expected.low) & (array <= expected.high))
        text = "numbers in its range"
        if np.ndim(expected.low) == np.ndim(expected.high) == 0:
            text = f"{expected.low:g} to {expected.high:g}"
    if wrong.any():
        place = tuple(int(k) for k in np.argwhere(wrong)[0])
        at = f"[{', '.join(map(str, place))}]" if place else ""
        raise InputError(f"{name}{at} is {array[place]}; expected {text}")


class Npz:
    """An open ``.npz`` file whose arrays are checked; messages name the expected file `what`."""

    def __init__(self, path: PathLike, what: str) -> None:
        self.name, self._what = path_text(path), what
        self._file = open_regular(path)
        self.size = os.fstat(self._file.fileno()).st_size  # bytes
        try:
            self._zip = zipfile.ZipFile(self._file)
            members = self._zip.infolist()
        except Exception as error:
            self._file.close()
            raise InputError(f"{self.name}: not {what}: {short_text(error)}") from error
        self._members = {m.filename.removesuffix(".npy"): m for m in members}

    def __enter__(self) -> Npz:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    @property
    def names(self) -> list[str]:
        return list(self._members)

    def _refuse(self, name: str, why: str, error: BaseException | None = None) -> NoReturn:
        raise InputError(f"{self.name}: {shown(name)} {why}") from error

    def header(self, name: str) -> tuple[tuple[int, ...], np.dtype]:
        with self._opened(name) as member:
            shape, _, dtype = member[1]
            return shape, dtype

    def read(self, name: str, expected: Member) -> np.ndarray:
        with self._opened(name) as (file, (shape, fortran, dtype)):
            if (shape, dtype) != (expected.shape, expected.dtype):
                self._refuse(
                    name,
                    f"has shape {shown(shape)}, dtype {shown(str(dtype))[1:-1]}; expected "
                    f"{expected.shape}, {expected.dtype}",
                )
            size = dtype.itemsize * int(np.prod(shape, dtype=object))
            data = file.read(size)
            if len(data) != size or file.read(1):
                self._refuse(name, f"has not the {size} bytes of its shape; expected a whole file")
        array = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C").copy("C")
        check_values(f"{self.name}: {name}", array, expected)
        return array

    @contextmanager
    def _opened(
        self, name: str
    ) -> Iterator[tuple[IO[bytes], tuple[tuple[int, ...], bool, np.dtype]]]:
        if name not in self._members:
            self._refuse(name, f"is missing; expected {self._what}")
        try:
            with self._zip.open(self._members[name]) as file:
                yield file, _npy_header(file)
        except Exception as error:  # damaged bytes: zipfile, zlib and NumPy raise many kinds
            if isinstance(error, InputError):
                raise
            self._refuse(name, f"is damaged: {short_text(error)}", error)


def _npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Python 2's headers, for example
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            return np.lib.format.read_array_header_1_0(file)
        if version == (2, 0):
            return np.lib.format.read_array_header_2_0(file)
    raise ValueError(f"version {version} of NumPy's format")
