"""Repeated calls with the same arrays skip the checks, and keep the arguments of kernels.

Checks and arguments depend on the arrays only, not on their values. An array is the same one if it
is the same object with the same buffer, shape, dtype, offset and strides: nothing else of it can
change.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyopencl as cl
import pyopencl.array as cla

from clhines.solver.engines.loaded import Step

MOST_CALLS = 4  # most stored calls: sets of arrays that take turns
LowerArray: TypeAlias = cla.Array | None  # None if there is no `l`
CallKey: TypeAlias = tuple[int, ...]


class Call:
    """The arrays and prepared launches of a call that was checked, to repeat it without checks.

    `gone` is called when one of the arrays is deleted.
    """

    __slots__ = ("_refs", "_states", "_waited", "_waits", "steps")

    def __init__(
        self, arrays: Sequence[LowerArray], steps: list[Step], gone: Callable[[object], None]
    ) -> None:
        self.steps = steps
        self._states = [_state(a) for a in arrays]
        self._refs = [weakref.ref(a, gone) for a in arrays if a is not None]
        self._waited: list[list[cl.Event]] = [[] for _ in arrays]
        self._waits: dict[int, list[cl.Event]] = {}

    def matches(self, arrays: Sequence[LowerArray]) -> bool:
        for a, state in zip(arrays, self._states):
            if a is None or state is None:
                if a is not state:
                    return False
                continue
            data, shape, dtype, offset, strides = state
            if (
                a.base_data is not data
                or (a.shape is not shape and a.shape != shape)
                or (a.dtype is not dtype and a.dtype != dtype)
                or a.offset != offset
                or (a.strides is not strides and a.strides != strides)
            ):
                return False
        return True

    def events(self, arrays: Sequence[LowerArray], last: cl.Event | None) -> list[cl.Event]:
        """Return the arrays' events, except `last` and events for which the queue waits already."""
        self._waits = waits = {}
        for k, a in enumerate(arrays):
            if a is None or not (events := a.events):
                continue
            if (events[0] is last and len(events) == 1) or events == self._waited[k]:
                continue
            waits[k] = list(events)
        return [event for events in waits.values() for event in events] if waits else []

    def enqueued(self) -> None:
        """Note that the queue now waits for the events that `events` returned last."""
        if self._waits:
            for k, events in self._waits.items():
                self._waited[k] = events


class Calls:
    """The last `MOST_CALLS` calls, found by their arrays; used by one thread at a time."""

    def __init__(self) -> None:
        self._calls: dict[CallKey, Call] = {}
        self._last: cl.Event | None = None

    def __len__(self) -> int:
        return len(self._calls)

    def find(self, arrays: Sequence[LowerArray], more: bool = False) -> Call | None:
        """Return the stored call with these arrays and this flag `more` (`overwrite`), or None."""
        call = self._calls.get((more is True, *map(id, arrays)))
        return call if call is not None and call.matches(arrays) else None

    def add(self, arrays: Sequence[LowerArray], steps: list[Step], more: bool = False) -> Call:
        key, owner = (bool(more), *map(id, arrays)), weakref.ref(self)

        def gone(_: object) -> None:
            calls = owner()
            if calls is not None:
                calls.forget(key)

        self._calls.pop(key, None)
        while len(self._calls) >= MOST_CALLS:
            self._calls.pop(next(iter(self._calls), key), None)
        call = self._calls[key] = Call(arrays, steps, gone)
        return call

    def forget(self, key: CallKey) -> None:
        self._calls.pop(key, None)

    def waits(self, call: Call, arrays: Sequence[LowerArray]) -> list[cl.Event]:
        return call.events(arrays, self._last)

    def done(self, call: Call, event: cl.Event) -> cl.Event:
        call.enqueued()
        self._last = event
        return event


def _state(a: LowerArray) -> tuple[object, ...] | None:
    """Return an array's memory and layout; if these change, prepared arguments are wrong."""
    return None if a is None else (a.base_data, a.shape, a.dtype, a.offset, a.strides)
