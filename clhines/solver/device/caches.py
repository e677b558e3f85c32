"""Keep a run going if one of the caches that OpenCL keeps on disk cannot be used.

If PoCL cannot write its cache, it shows no device; if the disk is full, it ends the process. So it
gets a temporary folder. PyOpenCL raises errors of sqlite, so its caches are turned off.

After a crash of the machine PoCL's cache may have incomplete files, and PoCL's compiler can write
programs that it cannot read again. Either ends every later process. So incomplete files are removed
before the first build, and programs without kernels after their build (`drop_last`).
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pyopencl as cl

from clhines.core.errors import CacheWarning, DeviceError, shown, warn_caller

_ROOM = 16 << 20  # free bytes for a usable cache: a program takes 0.3 MiB, 0.5 while compiled
_LEAST = 2 << 20  # free bytes to build one program
_SLACK = 120.0  # s before the last check: files as new as this may not have been on disk yet
_STAMP = "clhines-checked"  # its modification time is the time when files were last checked
_BITCODE, _ELF = b"BC\xc0\xde", b"\x7fELF"
_log = logging.getLogger(__name__)


class _CacheState:
    pocl: str = ""  # fault of PoCL's cache
    pyopencl: str = ""  # fault of PyOpenCL's caches
    said: ClassVar[set[str]] = set()  # faults that `before_build` has reported
    checked: Path | None = None  # PoCL's cache, once `clean` has checked it


def pocl_folder() -> Path:
    named = os.environ.get("POCL_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(named) if named else Path(home, "pocl", "kcache")


def pocl_problem() -> str:
    """Say why PoCL's cache cannot be used, and what to do; empty if it can be used."""
    return _CacheState.pocl or _pocl_problem()


def pyopencl_problem() -> str:
    """Say why PyOpenCL's caches cannot be used, and what to do; empty if they can be used."""
    return _CacheState.pyopencl or _pyopencl_problem()


def prepare() -> None:
    """Replace caches that cannot be used; to be called before the first use of OpenCL."""
    _CacheState.pyopencl = _pyopencl_problem()
    if _CacheState.pyopencl:
        cl._PYOPENCL_NO_CACHE = True  # as PYOPENCL_NO_CACHE=1 before the import
    _CacheState.pocl = _pocl_problem()
    if not _CacheState.pocl:
        return
    for place in dict.fromkeys((tempfile.gettempdir(), "/dev/shm", "/var/tmp")):
        if not _unusable(Path(place)):
            folder = tempfile.mkdtemp(prefix="clhines-pocl-", dir=place)
            os.environ["POCL_CACHE_DIR"] = folder
            atexit.register(_remove, folder, os.getpid())
            return


def before_build(device: cl.Device) -> None:
    """Warn once of unusable caches, and clean PoCL's cache; DeviceError if the disk is full."""
    pocl = "Portable Computing" in device.platform.name
    problems = {_CacheState.pocl * pocl, _CacheState.pyopencl} - {""} - _CacheState.said
    if problems:
        _CacheState.said |= problems
        warn_caller("; ".join(sorted(problems)), CacheWarning)
    if not pocl:
        return
    folder = pocl_folder()
    if folder != _CacheState.checked:
        _CacheState.checked = folder
        clean(folder)
    if folder.is_dir() and (free := shutil.disk_usage(folder).free) < _LEAST:
        raise DeviceError(
            f"PoCL's cache, {folder}, has {free >> 10} KiB free; expected {_LEAST >> 10}: set "
            "POCL_CACHE_DIR to a folder with more room"
        )


def clean(folder: Path) -> int:
    """Remove incomplete files, written since the last call, from PoCL's cache; return the count."""
    stamp, removed = folder / _STAMP, 0
    try:
        since = stamp.stat().st_mtime - _SLACK if stamp.exists() else 0.0
        stamp.touch()  # first: later files are checked the next time
    except OSError:
        return 0
    for entry in _entries(folder):
        if _changed(entry + "/last_accessed") < since:
            continue
        for path in _files(entry):
            if _changed(path) >= since and not _is_whole(path):
                _log.info("removed an incomplete file of PoCL's cache: %s", path)
                removed += _unlink(path)
    return removed


def drop_last() -> int:
    """Remove the last used program from PoCL's cache; return the count of removed files."""
    used = {e: _changed(e + "/last_accessed", 0.0) for e in _entries(pocl_folder())}
    last = max(used.values(), default=0.0)
    return sum(_unlink(f) for e, time in used.items() if time == last for f in _files(e))


def _entries(folder: Path) -> Iterator[str]:
    for name in _names(str(folder)):
        if len(name.rpartition(os.sep)[2]) == 2:
            yield from _names(name)


def _files(entry: str) -> Iterator[str]:
    """Yield the files of the cached program `entry` that an interrupted write may have cut."""
    yield entry + "/program.bc"
    for kernel in _names(entry):
        for sizes in _names(kernel):
            yield from (path for path in _names(sizes) if path.endswith(".so"))


def _names(folder: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(folder)]
    except OSError:  # a file, or gone
        return []


def _changed(path: str, otherwise: float = float("inf")) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:  # an incomplete entry, after a build was killed
        return otherwise


def _unlink(path: str) -> int:
    try:
        os.unlink(path)
    except OSError:  # gone, or not ours
        return 0
    return 1


def _is_whole(path: str) -> bool:
    """Whether a bitcode file or shared library has its full length; True if it is unreadable."""
    try:
        with open(path, "rb", buffering=0) as file:
            head, size = file.read(64), file.seek(0, os.SEEK_END)

            def read(place: int, count: int) -> bytes:
                file.seek(place)
                return file.read(count).ljust(count, b"\0")

            if not any(read(max(0, size - 64), 64)):
                return False
            if path.endswith(".so"):
                if head[4:6] != b"\x02\x01":  # not 64 bits, little-endian
                    return head[:4] == _ELF
                (table,) = struct.unpack_from("<Q", head, 40)
                row, rows = struct.unpack_from("<HH", head, 58)
                return head[:4] == _ELF and table + row * rows <= size
            place = 4  # each block has its number, its length in words, and the words
            while head[:4] == _BITCODE and place + 8 <= size:
                place += 8 + 4 * struct.unpack("<I", read(place + 4, 4))[0]
            return place == size
    except (OSError, struct.error):
        return not os.path.exists(path) or not os.access(path, os.R_OK)


def _pocl_problem() -> str:
    folder = pocl_folder()
    named = os.environ.get("POCL_CACHE_DIR")
    if named is not None and not os.path.isabs(named):
        return (
            f"POCL_CACHE_DIR={shown(named)} is {'relative' if named else 'empty'}, so that each "
            "process builds its kernels again: set it to an absolute path, or unset it"
        )
    why = _unusable(folder)
    return why and (
        f"PoCL cannot use its cache, {folder} ({why}), so that each process builds its kernels "
        "again: set POCL_CACHE_DIR to a folder that is writable"
    )


def _pyopencl_problem() -> str:
    if getattr(cl, "_PYOPENCL_NO_CACHE", True):
        return ""  # the user has turned them off
    from platformdirs import user_cache_dir  # as pyopencl does, at its first kernel

    for name in ("pytools", "pyopencl"):
        folder = Path(user_cache_dir(name, name))
        if why := _unusable(folder):
            return (
                f"PyOpenCL cannot use its cache, {folder} ({why}), and works without: set "
                "XDG_CACHE_HOME to a folder that is writable"
            )
    return ""


def _unusable(folder: Path) -> str:
    """Say why `folder`, which may not exist yet, cannot hold `_ROOM` bytes; empty if it can."""
    while not os.path.exists(folder) and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return error.strerror or str(error)
    return "" if free >= _ROOM else f"{free >> 10} KiB free, {_ROOM >> 10} needed"


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # not in a forked process
        shutil.rmtree(folder, ignore_errors=True)
