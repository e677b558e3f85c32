"""What a command is doing, on a terminal, where that takes longer than two seconds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from tqdm import tqdm

DELAY = 2.0  # seconds without a word

_Item = TypeVar("_Item")


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Say what is going on if the block takes longer than `DELAY`; nothing in scripts."""
    if not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(DELAY, _say, (what,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _say(what: str) -> None:
    with suppress(OSError, ValueError):
        print(f"clhines: {what} ...", file=sys.stderr, flush=True)


def bar(items: Iterable[_Item], what: str) -> Iterable[_Item]:
    """Return the items, with a bar on a terminal after `DELAY`."""
    shown: Iterable[_Item] = tqdm(items, what, disable=None, leave=False, delay=DELAY)
    return shown
