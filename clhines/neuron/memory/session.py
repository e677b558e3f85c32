"""Import NEURON when first needed, check its version, and list its sections."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from clhines.core.errors import InputError, install, shown

if TYPE_CHECKING:  # types without stubs: to mypy they are Any
    from neuron.hoc import HocObject as Hoc
    from neuron.nrn import Section, Segment
else:
    Hoc = Section = Segment = object

OLDEST, NEWEST = (9, 0), (9, 0)
ANY = "CLHINES_NEURON_ANY"  # 1: accept newer versions


class VersionError(InputError):
    """NEURON's version is too new or failed the self-test, so its memory is not read."""


def interpreter() -> Hoc:
    """Return NEURON's interpreter, `neuron.h`.

    Raises
    ------
    InputError
        NEURON is not installed, too old or too new.
    """
    try:
        import neuron
    except ImportError as error:
        raise InputError(
            f"NEURON cannot be imported ({error}); expected: {install('neuron')}"
        ) from None
    version = tuple(int(part) for part in neuron.__version__.split(".")[:2] if part.isdigit())
    lifted = as_flag(ANY)
    if version < OLDEST or (version > NEWEST and not lifted):
        more = f" ({ANY}=1 lets newer ones take the self-test)" if version > NEWEST else ""
        kind = VersionError if version > NEWEST else InputError
        raise kind(f"NEURON is {neuron.__version__}; expected 9.0{more}")
    return neuron.h


def load_stdrun(h: Hoc) -> None:
    """Load stdrun.hoc; stay in the current folder, which NEURON leaves if the path has ``$(``."""
    folder = os.getcwd()
    try:
        h.load_file("stdrun.hoc")
    finally:
        os.chdir(folder)


def as_flag(name: str) -> bool:
    """Whether an environment variable is 1; InputError unless it is 1, 0, empty or unset."""
    value = os.environ.get(name, "")
    if value not in ("", "0", "1"):
        raise InputError(f"{name} is {shown(value)}; expected 1 or 0")
    return value == "1"


def all_sections() -> list[Section]:
    """Return all sections, even if a hoc variable `allsec` hides `h.allsec`."""
    from neuron import nrn

    return list(nrn.allsec())


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause Python's garbage collector, because each search visits all objects of a model."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class MemoryRange(NamedTuple):
    """A range of this process's addresses, and the file that it maps, if any."""

    begin: int
    end: int
    rights: str
    offset: int  # in the file
    file: str


def memory_ranges() -> Iterator[MemoryRange]:
    """Yield this process's address ranges, ascending; none on systems other than Linux."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                where, rights, offset, *_, file = [*line.split(maxsplit=5), ""][:6]
                begin, end = (int(part, 16) for part in where.split("-"))
                yield MemoryRange(begin, end, rights, int(offset, 16), file.strip())
    except OSError:
        pass


@cache  # reading all ranges takes milliseconds
def library_path() -> str | None:
    paths = {r.file for r in memory_ranges() if "libnrniv." in r.file}
    if paths:
        return min(paths)
    import neuron

    folder = os.path.join(os.path.dirname(neuron.__file__), ".data", "lib")
    for name in ("libnrniv.so", "libnrniv.dylib"):
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    return None
