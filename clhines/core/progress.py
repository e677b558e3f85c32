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
_EVERY = 2.0  # s between two lines of `each`
_IN_FILES = 10.0  # s between two lines of a bar in a log file
_since = ContextVar("_since", default=float("inf"))  # time from which `phase` prints
_last = ContextVar("_last", default="")  # phase that was printed last
_wait = ContextVar("_wait", default=0.0)  # s before a bar appears


class _Lines:
    """File object that prints each state of a progress bar as a line on stderr."""

    def write(self, text: str) -> None:
        if text.strip():
            print(f"clhines: {text.strip()}", file=sys.stderr, flush=True)

    def flush(self) -> None: ...


@contextmanager
def showing(show: bool, after: float = 0.0) -> Iterator[None]:
    """Context manager: if `show`, print each `phase` that begins after `after` seconds."""
    token = _since.set(time.monotonic() + after) if show else None
    _last.set("")
    try:
        yield
    finally:
        if token is not None:
            _since.reset(token)


@contextmanager
def long_bars(wait: float) -> Iterator[None]:
    """Context manager: show progress bars only for work of more than `wait` seconds."""
    token = _wait.set(wait)
    try:
        yield
    finally:
        _wait.reset(token)


def phase(what: str) -> None:
    """Print `what`, a name of the work that begins now, while `showing` is active."""
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
    """Yield the items, and every two seconds print `what` and how many are done."""
    said = float("-inf")
    for k, item in enumerate(items):
        if time.monotonic() - said >= _EVERY:
            phase(f"{what}, {k} of {len(items)} done")
            said = time.monotonic()
        yield item


def bar(total: int, unit: str, show: bool, scale: float = 1.0, text: str = "") -> tqdm | None:
    """Return a progress bar for `total` items, or None if `show` is False.

    It counts `scale` units for each item, and ends with `text`. If stderr is a file or a pipe, each
    state of the bar is a line of its own.
    """
    if not show:
        return None
    from tqdm import TqdmWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TqdmWarning)  # without ipywidgets a notebook shows text
        from tqdm.auto import tqdm

    more: dict[str, Any] = {"delay": _wait.get(), "postfix": text or None}
    if "notebook" not in tqdm.__mro__[1].__module__ and not sys.stderr.isatty():
        more |= {"file": _Lines(), "mininterval": _IN_FILES, "ncols": 80}
    return tqdm(total=total, unit=unit, unit_scale=scale, bar_format=_BAR, **more)
