"""Replace hoc's functions by Python functions in NEURON's tables."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from clhines.neuron.memory.symbols import Library

FUNCTION = ctypes.CFUNCTYPE(None)  # C type for hoc functions
METHOD = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)  # C type for methods of hoc classes
_suspended_in_runs: list[Redirect] = []


class HocArguments:
    """Arguments and result of a hoc function, for the Python function that hoc calls instead."""

    def __init__(self, library: Library) -> None:
        number = ctypes.POINTER(ctypes.c_double)
        self._has = library.function("_Z5ifargi", ctypes.c_int, ctypes.c_int)
        self._number = library.function("_Z10hoc_getargi", number, ctypes.c_int)
        self._text = library.function("_Z11hoc_gargstri", ctypes.c_char_p, ctypes.c_int)
        self._is_text = library.function("_Z14hoc_is_str_argi", ctypes.c_int, ctypes.c_int)
        self._is_number = library.function("_Z17hoc_is_double_argi", ctypes.c_int, ctypes.c_int)
        self._push = library.function("_Z12hoc_retpushxd", None, ctypes.c_double)

    def all(self) -> list[object]:
        """Return all texts and numbers; None for an argument of another kind.

        A wrong argument must not reach hoc's own readers: their C++ error would end the process.
        """
        words = list[object]()
        while self._has(k := len(words) + 1):
            if self._is_text(k):
                words.append(self._text(k).decode())
            else:
                words.append(float(self._number(k)[0]) if self._is_number(k) else None)
        return words

    def give(self, value: float) -> None:
        self._push(value)


class Redirect:
    """Make hoc call the Python function `function` in place of hoc's function, while turned on.

    `function` must not raise. `at` is the word in which hoc finds its function's address;
    `prototype` is the function's C type.
    """

    def __init__(
        self,
        at: ctypes.c_uint64,
        function: Callable[..., object],
        prototype: Callable[..., Any] = FUNCTION,
    ) -> None:
        self._at, self._original = at, at.value
        self._function = prototype(function)
        self._address = ctypes.cast(self._function, ctypes.c_void_p).value or 0
        self._is_on, self._suspensions = False, 0

    def turn(self, on: bool) -> None:
        self._is_on = on
        self._set()

    def _set(self) -> None:
        is_replaced = self._is_on and not self._suspensions
        self._at.value = self._address if is_replaced else self._original

    @contextmanager
    def off(self) -> Iterator[None]:
        """Context manager: let hoc call its original function."""
        self._suspensions += 1
        self._set()
        try:
            yield
        finally:
            self._suspensions -= 1
            self._set()


def suspend_in_runs(*redirects: Redirect) -> None:
    """Register redirects that `without_redirects` turns off."""
    _suspended_in_runs.extend(redirects)


@contextmanager
def without_redirects() -> Iterator[None]:
    """Context manager: turn off the redirects that `suspend_in_runs` has registered."""
    with ExitStack() as stack:
        for redirect in _suspended_in_runs:
            stack.enter_context(redirect.off())
        yield
