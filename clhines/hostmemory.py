"""Memory of the host: what there is, asked before much of it is taken."""

from __future__ import annotations

import os
from pathlib import Path

from clhines.errors import HostMemoryError

FOREST_NODE, FOREST_CELL = 25, 32  # bytes that `Forest.repeated` takes at its peak
_UNCHECKED = 2**20  # bytes: asking the system takes longer than allocating so few
_MEMINFO = Path("/proc/meminfo")
_GROUPS = (  # of control groups: limit, and use; versions 2 and 1
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)


def available() -> int | None:
    """Return the bytes that a process may still take; None where the system does not say."""
    found = [n for n in (_of_system(), *(_of_group(*names) for names in _GROUPS)) if n is not None]
    return min(found, default=None)


def _of_system() -> int | None:
    try:
        for line in _MEMINFO.read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # neither Linux nor another POSIX
        return None


def _of_group(limit: Path, use: Path) -> int | None:
    try:
        return max(int(limit.read_text("ascii")) - int(use.read_text("ascii")), 0)
    except (OSError, ValueError):  # no such group, or no limit: "max"
        return None


def check_room(needed: float, what: str) -> None:
    """Refuse what cannot fit, before it is begun.

    Parameters
    ----------
    needed : float, bytes
        Lower bound of what will be taken. Below 1 MiB the system is not asked.
    what : str
        What it is for, such as ``3 cells of 20 nodes``.

    Raises
    ------
    HostMemoryError
        Less is available.
    """
    if needed < _UNCHECKED:
        return
    there, needed = available(), min(needed, 2.0**100)
    if there is not None and needed > there:
        raise HostMemoryError(
            f"{what} take {_size(needed)} or more of the host's memory; there are {_size(there)}"
        )


def _size(size: float) -> str:
    for unit, bytes_ in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20)):
        if size >= bytes_:
            return f"{size / bytes_:.3g} {unit}"
    return f"{size:.0f} bytes"
