"""hoc's ``fadvance``, while it is another function than NEURON's: that of the switch.

NEURON's functions that take steps or save its state are then others, too, which settle a loop and
call NEURON's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from clhines.errors import InputError
from clhines.neuron.memory.objects import Objects
from clhines.neuron.memory.session import Hoc

_STEP = "fadvance"
_taken: list[TakenStep] = []


class HocArguments:
    """Arguments of the function that hoc calls now, and what it gets back."""

    def __init__(self, library: Objects) -> None:
        number = ctypes.POINTER(ctypes.c_double)
        self._is_given = library.function("_Z5ifargi", ctypes.c_int, ctypes.c_int)
        self._number = library.function("_Z10hoc_getargi", number, ctypes.c_int)
        self._text = library.function("_Z11hoc_gargstri", ctypes.c_char_p, ctypes.c_int)
        self._is_text = library.function("_Z14hoc_is_str_argi", ctypes.c_int, ctypes.c_int)
        self._is_number = library.function("_Z17hoc_is_double_argi", ctypes.c_int, ctypes.c_int)
        self._give = library.function("_Z12hoc_retpushxd", None, ctypes.c_double)

    def number(self, k: int) -> float:
        """Return argument `k`, 1 for the first; hoc ends what it does where it is no number."""
        return float(self._number(k)[0])

    def all(self) -> list[object]:
        """Return all of them, texts and numbers; None of others."""
        found = list[object]()
        while self._is_given(k := len(found) + 1):
            if self._is_text(k):
                found.append(self._text(k).decode())
            else:
                found.append(self.number(k) if self._is_number(k) else None)
        return found

    def give(self, value: float) -> None:
        """Let hoc have a function's result."""
        self._give(value)


class Taken:
    """A function of hoc's that is another one while `is_on`; `function` raises nothing.

    `at` is where hoc finds its address.
    """

    def __init__(self, at: ctypes.c_uint64, function: Callable[[], None]) -> None:
        self._at, self._own = at, at.value
        self._function = ctypes.CFUNCTYPE(None)(function)
        self._address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    @property
    def is_on(self) -> bool:
        return self._at.value == self._address

    @is_on.setter
    def is_on(self, on: bool) -> None:
        self._at.value = self._address if on else self._own

    @contextmanager
    def being(self, on: bool) -> Iterator[None]:
        """Let it be on, or NEURON's own, for a while; what it was before, it is again."""
        was, self.is_on = self.is_on, on
        try:
            yield
        finally:
            self.is_on = was

    def off(self) -> AbstractContextManager[None]:
        return self.being(on=False)


class TakenStep(Taken):
    """Lets hoc's ``fadvance``, which Python's is, too, be another function, until `end`.

    Parameters
    ----------
    library : Objects
    step : callable
        Called in place of it; raises nothing.
    settle : callable
        Called before NEURON's own steps, and before others read its memory; by default nothing is.
    """

    def __init__(
        self, library: Objects, step: Callable[[], None], settle: Callable[[], None] = lambda: None
    ) -> None:
        self._settle = settle
        arguments = HocArguments(library)

        def called() -> None:
            step()
            arguments.give(1.0)

        super().__init__(library.built_in(_STEP), called)

    def begin(self) -> None:
        _taken.append(self)
        self.is_on = True

    def end(self) -> None:
        self.is_on = False
        _taken.remove(self)
        self._settle()

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Likewise, with NEURON's memory as it is where a loop is."""
        with self.off():
            self._settle()
            yield


class Settling:
    """Lets functions of hoc settle a loop before they do what they do; `keep` gets what they raise.

    They take steps, save NEURON's state, change stimuli, or run code that nobody has seen.
    """

    METHODS = ("CVode", "solve"), ("SaveState", "save"), ("BBSaveState", "save")
    STIMULI = "fstim", "fsyn", "fclamp"
    FUNCTIONS = "batch_run", "fcurrent", "execute", "execute1", "xopen", "load_file", *STIMULI

    def __init__(self, h: Hoc, library: Objects, keep: Callable[[BaseException], None]) -> None:
        self._h, self._library, self._keep = h, library, keep
        self._arguments = HocArguments(library)
        library.built_in("fadvance")  # where others are as this one
        self._taken = [self._of_method(*names) for names in self.METHODS]
        self._taken += [self._of_function(name) for name in self.FUNCTIONS]

    def begin(self) -> None:
        for at, _, function in self._taken:
            at.value = ctypes.cast(function, ctypes.c_void_p).value or 0

    def end(self) -> None:
        for at, own, _ in self._taken:
            at.value = own

    def _of_method(self, template: str, name: str) -> tuple[ctypes.c_uint64, int, Any]:
        def called(inside: int) -> float:
            some = self._h.List(template) if template != "CVode" else [self._h.CVode()]
            every = (x for x in some if len(some) == 1 or self._library.inside(x) == inside)
            words = self._arguments.all() if template == "CVode" else []
            return float(self._attempt(lambda: getattr(next(every), name)(*words)) or 0.0)

        at = self._library.method(template, name)
        return at, at.value, ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)(called)

    def _of_function(self, name: str) -> tuple[ctypes.c_uint64, int, Any]:
        def called() -> None:
            words = self._arguments.all()
            self._arguments.give(float(self._attempt(lambda: self._call(name, words)) or 0.0))

        at = self._library.function_of_hoc(name)
        return at, at.value, ctypes.CFUNCTYPE(None)(called)

    def _call(self, name: str, words: list[object]) -> object:
        if None in words:
            what = f"{name}() with an object in a loop around fadvance()"
            raise InputError(f"{what}; expected numbers and texts")
        return getattr(self._h, name)(*words)

    def _attempt(self, call: Callable[[], object]) -> Any:
        try:
            with neurons_own():
                return call()
        except BaseException as error:
            self._keep(error)
        return None


class StatementEnd:
    """Lets hoc call a function at the end of the statement that it executes now.

    What comes after it in a file, or in a text, is not read before.
    """

    def __init__(self, library: Objects, call: Callable[[], None]) -> None:
        at = (library.address(name) for name in ("hoc_prog", "hoc_progp", "hoc_pc"))
        self._begin, self._end, self._now = (ctypes.c_uint64.from_address(one) for one in at)

        def called() -> None:
            self._now.value -= 8
            ctypes.c_uint64.from_address(self._now.value).value = 0
            call()

        self._function = ctypes.CFUNCTYPE(None)(called)
        self._address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def ask(self) -> None:
        """Do so once; where hoc executes none, nothing comes of it."""
        if self._end.value > self._begin.value:
            last = ctypes.c_uint64.from_address(self._end.value - 8)
            if not last.value:  # hoc's word for an end
                last.value = self._address


@contextmanager
def neurons_own() -> Iterator[None]:
    """Let ``fadvance`` be NEURON's own for a while, and its memory as it is where a loop is."""
    if not _taken:
        yield
        return
    with _taken[-1].settled():
        yield
