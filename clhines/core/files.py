"""Read and write files; a file is written completely or not at all."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from clhines.core.errors import InputError, shown

PathLike = str | bytes | os.PathLike[str] | os.PathLike[bytes]
_log = logging.getLogger(__name__)
MOST_JSON = 1 << 20  # largest JSON file, bytes
_SHOWN_PATH = 120  # most characters of a path in a message


def cache_folder() -> Path:
    """Return ``CLHINES_CACHE_DIR``, or the folder clhines in the user's cache folder."""
    named = os.environ.get("CLHINES_CACHE_DIR")
    if named:
        return Path(named)
    from platformdirs import user_cache_dir  # only needed for the default

    return Path(user_cache_dir("clhines", appauthor=False))


# ---------------------------------------------------------------------------------- writing


def check_target(path: PathLike) -> None:
    """Refuse a path that `whole` cannot write to; read-only files are refused even for root."""
    try:
        _target(path)
    except OSError as error:
        raise _cannot(path, error) from error


@contextmanager
def whole(path: PathLike, part: str = ".clhines-{}.part") -> Iterator[BinaryIO]:
    """Yield a binary file that replaces `path` when the block ends without an error.

    Links are followed. The new file has the older one's mode and, if the system allows, its owner.
    The block writes to a file named `part` beside it, with random letters for ``{}``. Errors of the
    system become InputErrors.
    """
    try:
        name, older = _target(path)
        with _replacing(name, older, part) as file:
            yield file
    except OSError as error:
        raise _cannot(path, error) from error


def _cannot(path: PathLike, error: OSError) -> InputError:
    return InputError(f"{path_text(path)}: cannot be written: {error.strerror or error}")


def path_text(path: PathLike) -> str:
    """Shorten a path for a one-line message, and escape line ends."""
    try:
        text = os.fsdecode(path)
    except TypeError:
        return shown(path)
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= _SHOWN_PATH else "..." + text[3 - _SHOWN_PATH :]


def _target(path: PathLike) -> tuple[str, os.stat_result | None]:
    try:
        name = os.fsdecode(path)
        older = os.stat(name) if name else None
    except FileNotFoundError:
        older = None
    except (TypeError, ValueError) as error:  # no path; one with a NUL
        raise InputError(f"{path_text(path)}: is no path of a file: {error}") from error
    if not name:
        raise InputError("the name of the file is empty; expected one")
    if older is not None:
        _check_older(name, older)
    real = os.path.realpath(name)
    folder = os.path.dirname(real)
    os.stat(folder)
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{name}: expected a file in a folder that exists and is writable")
    if name.endswith(("/", os.sep)):
        raise InputError(f"{name}: is the name of a folder; expected a name of a file")
    return real, older


def _check_older(name: str, older: os.stat_result) -> None:
    if not stat.S_ISREG(older.st_mode):
        what = "a folder" if stat.S_ISDIR(older.st_mode) else "no regular file"
        raise InputError(f"{name}: is {what}; expected the name of a file")
    with suppress(OSError):  # if the standard output is closed
        if os.path.samestat(older, os.fstat(1)):
            raise InputError(f"{name}: is the standard output; expected the name of another file")
    if not older.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise InputError(f"{name}: is read-only; expected a file that may be replaced")
    if not os.access(name, os.W_OK):
        raise InputError(f"{name}: is not writable; expected a file that is")


@contextmanager
def _replacing(path: str, older: os.stat_result | None, part: str) -> Iterator[BinaryIO]:
    temporary = os.path.join(os.path.dirname(path), part.format(secrets.token_hex(8)))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(temporary, flags, 0o666 if older is None else 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        if older is not None:
            with suppress(OSError, AttributeError):  # only root may give files away
                os.chown(temporary, older.st_uid, older.st_gid)
            os.chmod(temporary, stat.S_IMODE(older.st_mode))
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


# ---------------------------------------------------------------------------------- reading


def open_regular(path: PathLike) -> BinaryIO:
    """Open a regular file to read; pipes and devices are refused, as reading may never end."""
    try:
        status = os.stat(os.fspath(path))  # fspath refuses a number, a file descriptor
        file = open(path, "rb") if stat.S_ISREG(status.st_mode) else None
    except OSError as error:
        raise InputError(f"{path_text(path)}: cannot be read: {error.strerror or error}") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"{path_text(path)}: is no path of a file: {error}") from error
    if file is None:
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
        raise InputError(f"{path_text(path)}: cannot be read: is {what}")
    return file


def short_text(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 80 else text[:77] + "..."


def read_bytes(path: PathLike, most: int) -> bytes:
    """Read a regular file; refuse one of more than `most` bytes."""
    name = path_text(path)
    with open_regular(path) as file:
        try:
            data = file.read(most + 1)
        except OSError as error:
            raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error
    if len(data) > most:
        raise InputError(f"{name}: has more than {most} bytes; expected at most that")
    return data


def read_json(path: PathLike, most: int = MOST_JSON) -> object:
    return parse_json(read_bytes(path, most), path_text(path))


def parse_json(data: bytes, name: str) -> object:
    """Parse strict JSON; the `InputError` for other text begins with `name`."""
    try:
        return json.loads(data.decode(), parse_constant=_no_constant, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: is not JSON: {short_text(error)}") from error


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name comes twice")
    return members


def write_npz(path: PathLike, arrays: dict[str, np.ndarray]) -> None:
    with whole(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def write_text(path: PathLike, text: str, part: str = ".clhines-{}.part") -> None:
    with whole(path, part) as file:
        file.write(text.encode())


# ---------------------------------------------------------------------------------- the store


def entry_path(name: str, key: Mapping[str, object]) -> Path:
    """Return the path ``NAME-DIGEST.json`` in `cache_folder`; DIGEST is a hash of `key`."""
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return cache_folder() / f"{name}-{digest[:32]}.json"


def write_entry(name: str, schema: int, key: Mapping[str, object], **more: object) -> Path:
    path = entry_path(name, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"schema": schema, "key": key, **more}, indent=1)
    try:
        write_text(path, text, part=f"{name}-{{}}.tmp")
    except InputError as error:
        raise OSError(str(error)) from error
    return path


def keep_entry(name: str, schema: int, key: Mapping[str, object], **more: object) -> None:
    """Cache the values `more` under `key` in a file; only log system errors: runs work without."""
    try:
        write_entry(name, schema, key, **more)
    except OSError as error:
        _log.info("an entry of %s is not kept: %s", name, error)


def kept_entry(name: str, schema: int, key: Mapping[str, object]) -> dict[str, Any]:
    """Return the entry that `keep_entry` cached under `key` and `schema`, or an empty dict."""
    try:
        entry = read_json(entry_path(name, key))
    except InputError:
        return {}
    if not isinstance(entry, dict) or (entry.get("schema"), entry.get("key")) != (schema, key):
        return {}
    return entry


@contextmanager
def one_process(name: str) -> Iterator[None]:
    """Context manager: lock file `name`, so that other processes of this machine wait for it."""
    try:
        import fcntl

        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / f"{name}.lock", "a", encoding="utf-8")
    except (ImportError, OSError):  # Windows, or a folder that cannot be written: no lock
        yield
        return
    with file:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
