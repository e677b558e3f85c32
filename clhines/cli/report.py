"""Fold lines, and show the progress of long commands."""

from __future__ import annotations

import sys
import textwrap
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tqdm import tqdm

from clhines.core.errors import tell
from clhines.core.progress import showing

DELAY = 2.0  # s before progress is shown
COLUMNS = 100
_Item = TypeVar("_Item")


def folded(line: str, indent: int) -> str:
    """On a terminal fold a line at `COLUMNS`, and indent its continuation by `indent` blanks."""
    if len(line) <= COLUMNS or not sys.stdout.isatty():
        return line
    return textwrap.fill(line, COLUMNS, subsequent_indent=" " * indent, break_on_hyphens=False)


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
