"""Report a build on stderr if it takes long, from a thread."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pyopencl as cl

SECONDS = 50.0  # time after which a build is reported
_SOONEST = 0.02  # s between the first two looks


@dataclass(eq=False)
class _WatchedBuild:
    """A build in progress, or a kernel's first launch until its `event` ends."""

    what: str
    advice: str
    begin: float
    event: cl.Event | None = None


class _Watcher:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._items: list[_WatchedBuild] = []
        self._thread: threading.Thread | None = None

    def add(self, item: _WatchedBuild) -> None:
        with self._changed:
            self._items.append(item)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, daemon=True)
                self._thread.start()

    def drop(self, item: _WatchedBuild) -> None:
        with self._changed:
            if item in self._items:
                self._items.remove(item)
            if not self._items:
                self._changed.notify()

    def _watch(self) -> None:
        pause = _SOONEST
        while True:
            with self._changed:
                self._changed.wait(pause)
                pause = min(2 * pause, 1.0, SECONDS / 4)
                for item in self._look():
                    _tell(item)
                if not self._items:
                    self._thread = None
                    return

    def _look(self) -> list[_WatchedBuild]:
        """Return the builds to report now; stop watching these, and builds that have ended."""
        states = [(item, _state(item)) for item in self._items]
        waiting = [item for item, state in states if state == "waiting"]
        busy, now = any(state == "running" for _, state in states), time.monotonic()
        for item, state in states:
            if item.event is not None and (busy or state != "waiting"):
                item.begin = now  # it only waits for another launch, or for its queue
        late = [item for item in waiting if now - item.begin >= SECONDS]
        self._items = [item for item, state in states if state != "ended" and item not in late]
        return late


def _state(item: _WatchedBuild) -> str:
    if item.event is None:
        return "waiting"
    try:
        status = item.event.command_execution_status
    except cl.Error:
        return "ended"
    if status <= cl.command_execution_status.COMPLETE:  # or an error
        return "ended"
    if status == cl.command_execution_status.SUBMITTED:  # PoCL compiles
        return "waiting"
    return "running" if status == cl.command_execution_status.RUNNING else "queued"


def _tell(item: _WatchedBuild) -> None:
    seconds = time.monotonic() - item.begin
    with suppress(OSError, ValueError, AttributeError):
        print(
            f"clhines: {item.what} has taken {seconds:.0f} s so far; {item.advice}",
            file=sys.stderr,
            flush=True,
        )


_WATCHER = _Watcher()
_ADVICE = (
    "if it does not end, 'clhines doctor' finds the kernels that hang, and CLHINES_DEVICE names "
    "another device"
)


@contextmanager
def watching(what: str, switch: str = "") -> Iterator[None]:
    """Context manager: report the build `what` on stderr if it takes more than `SECONDS`.

    The report names `switch`, an environment variable that, set to 1, leaves the build out.
    """
    item = _WatchedBuild(what, f"{switch}=1 leaves it out" if switch else _ADVICE, time.monotonic())
    _WATCHER.add(item)
    try:
        yield
    finally:
        _WATCHER.drop(item)


def first_launch(what: str, event: cl.Event) -> None:
    """Report on stderr if the first launch of a kernel does not start within `SECONDS`."""
    _WATCHER.add(_WatchedBuild(what, _ADVICE, time.monotonic(), event))
