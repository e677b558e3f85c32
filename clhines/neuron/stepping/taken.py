"""hoc's ``fadvance``, while it is another function than NEURON's: that of the switch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from clhines.neuron.memory.objects import Objects

_STEP = "fadvance"
_taken: list[TakenStep] = []


class TakenStep:
    """Lets hoc's ``fadvance``, which Python's is, too, be another function, until `end`.

    Parameters
    ----------
    library : Objects
    step : callable
        Called in place of it; raises nothing.
    settle : callable
        Called before NEURON's own steps, and before others read its memory.
    """

    def __init__(
        self, library: Objects, step: Callable[[], None], settle: Callable[[], None]
    ) -> None:
        self._at = library.built_in(_STEP)
        self._own, self._settle = self._at.value, settle
        give = library.function("_Z12hoc_retpushxd", None, ctypes.c_double)

        def called() -> None:
            step()
            give(1.0)

        self._function = ctypes.CFUNCTYPE(None)(called)
        self._address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def begin(self) -> None:
        _taken.append(self)
        self.is_on = True

    def end(self) -> None:
        self._settle()
        _taken.remove(self)
        self.is_on = False

    @property
    def is_on(self) -> bool:
        return self._at.value == self._address

    @is_on.setter
    def is_on(self, on: bool) -> None:
        self._at.value = self._address if on else self._own

    @contextmanager
    def off(self) -> Iterator[None]:
        """Let it be NEURON's own for a while; where it was before, it is so again."""
        was, self.is_on = self.is_on, False
        try:
            yield
        finally:
            self.is_on = was

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Likewise, with NEURON's memory as it is where a loop is."""
        with self.off():
            self._settle()
            yield


@contextmanager
def neurons_own() -> Iterator[None]:
    """Let ``fadvance`` be NEURON's own for a while, and its memory as it is where a loop is."""
    if not _taken:
        yield
        return
    with _taken[-1].settled():
        yield
