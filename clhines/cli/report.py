"""Print tables and JSON, check output files, and show the progress of long commands."""

from __future__ import annotations

import argparse
import json
import math
import sys
import textwrap
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tqdm import tqdm

from clhines.core import files
from clhines.core.errors import InputError, tell
from clhines.core.progress import showing

if TYPE_CHECKING:
    from clhines.solver.solver import Solver
DELAY = 2.0  # s before progress is shown
COLUMNS = 100
_Item = TypeVar("_Item")


class BuildTimer:
    """Counts the seconds in which programs were built since this object was made."""

    def __init__(self) -> None:
        from clhines.solver.device import program

        self._all, self._first = program.build_seconds, len(program.build_seconds)

    @property
    def seconds(self) -> float:
        return sum(self._all[self._first :], 0.0)


def repairs(arguments: argparse.Namespace) -> dict[str, int]:
    """Return a report's entry for repaired SWC samples; empty unless ``--repair`` is set."""
    return {"repaired": arguments.repaired} if arguments.repair is not None else {}


def where(solver: Solver) -> dict[str, object]:
    from clhines.solver.device.devices import label

    return {
        "device": label(solver.device),
        "device_mib": solver.memory.device / 2**20,
        "pinned_mib": solver.memory.pinned / 2**20,
    }


def as_json(report: Mapping[str, object]) -> str:
    strict = {
        k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in report.items()
    }
    return json.dumps(strict, indent=1, allow_nan=False)


def table(rows: Mapping[str, str], report: Mapping[str, object]) -> str:
    """Format `report` by the format strings in `rows`, a line per label; skip empty strings."""
    lines = [f"{k:<10} {v.format(**report)}" for k, v in rows.items() if v]
    return "\n".join(folded(line, 11) for line in lines)


def folded(line: str, indent: int) -> str:
    """On a terminal fold a line at `COLUMNS`, and indent its continuation by `indent` blanks."""
    if len(line) <= COLUMNS or not sys.stdout.isatty():
        return line
    return textwrap.fill(line, COLUMNS, subsequent_indent=" " * indent, break_on_hyphens=False)


def check_writable(name: str) -> None:
    """Refuse an ``--out`` file that cannot be written."""
    with named_option("--out"):
        files.check_target(name)
    suffix = Path(name).suffix.lower()
    if suffix != ".npz":
        raise InputError(f"--out {name}: the name ends in {suffix!r}; expected '.npz'")


@contextmanager
def named_option(option: str) -> Iterator[None]:
    """Prefix the option's name to the message of an InputError from the block."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{option} {error}") from error


@contextmanager
def doing(what: str) -> Iterator[None]:
    """On a terminal print `what` and the block's phases, if the block takes more than `DELAY`."""
    if not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(DELAY, tell, (f"{what} ...",))
    timer.daemon = True
    timer.start()
    try:
        with showing(True, DELAY):
            yield
    finally:
        timer.cancel()


def bar(items: Iterable[_Item], what: str) -> Iterable[_Item]:
    """Return the items; on a terminal a progress bar named `what` appears after `DELAY`."""
    shown: Iterable[_Item] = tqdm(items, what, disable=None, leave=False, delay=DELAY)
    return shown
