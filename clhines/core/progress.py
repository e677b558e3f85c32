"""Progress: what a call that takes long is at, on stderr: a bar, or a line for each phase."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tqdm import tqdm

_Item = TypeVar("_Item")
_BAR = "{percentage:3.0f}% |{bar}| {n:.5g}/{total:.5g} {unit} [{elapsed}<{remaining}{postfix}]"
_EVERY = 2.0  # s between two lines about what is counted
_since = ContextVar("_since", default=float("inf"))  # when lines begin
_wait = ContextVar("_wait", default=0.0)  # s, until a bar is shown


@contextmanager
def showing(show: bool, after: float = 0.0) -> Iterator[None]:
    """Show the phases that begin in the block, from `after` seconds on, if `show`."""
    token = _since.set(time.monotonic() + after) if show else None
    try:
        yield
    finally:
        if token is not None:
            _since.reset(token)


@contextmanager
def long_bars(wait: float) -> Iterator[None]:
    """Show bars only of what takes longer than some seconds, as one of many runs may."""
    token = _wait.set(wait)
    try:
        yield
    finally:
        _wait.reset(token)


def phase(what: str) -> None:
    """Say what begins now, where phases are shown; above a bar, if there is one."""
    if time.monotonic() < _since.get():
        return
    line = f"clhines: {what} ..."
    with suppress(OSError, ValueError, AttributeError):
        if "tqdm" in sys.modules:
            sys.modules["tqdm"].tqdm.write(line, file=sys.stderr)
        else:
            print(line, file=sys.stderr, flush=True)


def each(items: Sequence[_Item], what: str) -> Iterator[_Item]:
    """Yield items of a phase, which says now and then how many are done."""
    said = float("-inf")
    for k, item in enumerate(items):
        if time.monotonic() - said >= _EVERY:
            phase(f"{what}, {k} of {len(items)} done")
            said = time.monotonic()
        yield item


def bar(total: int, unit: str, show: bool, scale: float = 1.0, text: str = "") -> tqdm | None:
    """Return a bar of things that are `scale` units each; None, and no import, if not shown."""
    if not show:
        return None
    from tqdm import TqdmWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TqdmWarning)  # a notebook without ipywidgets: text does
        from tqdm.auto import tqdm

    more = {"delay": _wait.get(), "postfix": text or None}
    return tqdm(total=total, unit=unit, unit_scale=scale, bar_format=_BAR, **more)
