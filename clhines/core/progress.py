"""Show the progress of a long call on stderr: a line for each phase, and a bar."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tqdm import tqdm

_Item = TypeVar("_Item")
_BAR = "{percentage:3.0f}% |{bar}| {n:.5g}/{total:.5g} {unit} [{elapsed}<{remaining}{postfix}]"
_EVERY = 2.0  # s between two lines with a count
_IN_FILES = 10.0  # s between two states of a bar in a log file
_since = ContextVar("_since", default=float("inf"))  # when lines begin
_last = ContextVar("_last", default="")  # phase that was shown last
_wait = ContextVar("_wait", default=0.0)  # s, until a bar is shown


class _Lines:
    """A file for a bar whose states become lines on stderr."""

    def write(self, text: str) -> None:
        if text.strip():
            print(f"clhines: {text.strip()}", file=sys.stderr, flush=True)

    def flush(self) -> None: ...


@contextmanager
def showing(show: bool, after: float = 0.0) -> Iterator[None]:
    """Show the phases that begin in the block, from `after` seconds on, if `show`."""
    token = _since.set(time.monotonic() + after) if show else None
    _last.set("")
    try:
        yield
    finally:
        if token is not None:
            _since.reset(token)


@contextmanager
def long_bars(wait: float) -> Iterator[None]:
    """Delay the bars of runs in the block by `wait` seconds: short runs show none."""
    token = _wait.set(wait)
    try:
        yield
    finally:
        _wait.reset(token)


def phase(what: str) -> None:
    """Print the phase that begins now, if phases are shown; above a bar, if there is one."""
    if time.monotonic() < _since.get() or what == _last.get():
        return
    _last.set(what)
    line = f"clhines: {what} ..."
    with suppress(OSError, ValueError, AttributeError):
        if "tqdm" in sys.modules:
            sys.modules["tqdm"].tqdm.write(line, file=sys.stderr)
        else:
            print(line, file=sys.stderr, flush=True)


def each(items: Sequence[_Item], what: str) -> Iterator[_Item]:
    """Yield the items of a phase, and print how many are done every two seconds."""
    said = float("-inf")
    for k, item in enumerate(items):
        if time.monotonic() - said >= _EVERY:
            phase(f"{what}, {k} of {len(items)} done")
            said = time.monotonic()
        yield item


def bar(total: int, unit: str, show: bool, scale: float = 1.0, text: str = "") -> tqdm | None:
    """Return a bar for `total` items of `scale` units; None, without an import, if not shown.

    If stderr is a file or a pipe, each state is a line of its own.
    """
    if not show:
        return None
    from tqdm import TqdmWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TqdmWarning)  # a notebook without ipywidgets: text does
        from tqdm.auto import tqdm

    more: dict[str, Any] = {"delay": _wait.get(), "postfix": text or None}
    if "notebook" not in tqdm.__mro__[1].__module__ and not sys.stderr.isatty():
        more |= {"file": _Lines(), "mininterval": _IN_FILES, "ncols": 80}
    return tqdm(total=total, unit=unit, unit_scale=scale, bar_format=_BAR, **more)
