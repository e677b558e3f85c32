"""Exceptions in calls that hoc makes: hoc stops, and Python raises them when hoc has returned."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from clhines.core.errors import say_to_caller
from clhines.neuron.memory.session import Hoc
from clhines.neuron.memory.symbols import Library

_SHOWN = 400  # most characters in a message that hoc prints


class ErrorRelay:
    """Pass an exception of a hooked call through hoc, which cannot raise it, to Python.

    If Python had called hoc, the exception is raised again when hoc returns. Otherwise hoc prints
    `message`.
    """

    def __init__(self, h: Hoc, library: Library) -> None:
        self.message = ""
        self._error: BaseException | None = None
        self._depth = 0  # Python's hoc calls that have not returned
        self._hoc_class, self._call_hoc = type(h), type(h).__call__
        integer = ctypes.c_int.from_address
        self._interrupt = integer(library.address("hoc_intset"))
        self._prints = integer(library.address("hoc_execerror_messages"))
        self._aborts = integer(library.address("nrn_mpiabort_on_error_"))
        self._initial_aborts = self._aborts.value  # whether a hoc error ends all MPI ranks
        self._in_python = integer(library.address("nrn_is_python_extension"))

    def install(self) -> None:
        """Make Python's calls of hoc raise the stored exception when hoc returns."""
        self._hoc_class.__call__ = self._wrapper()

    def remove(self) -> None:
        self._hoc_class.__call__ = self._call_hoc

    def stop_hoc(self) -> None:
        """Stop hoc before its next statement."""
        self._interrupt.value = 1

    @property
    def is_empty(self) -> bool:
        return self._error is None

    def keep(self, error: BaseException) -> None:
        """Store an exception, to be raised when hoc returns, unless one is stored already."""
        self._error = error = self._take() or error
        self._initial_aborts = self._aborts.value
        if self._depth:  # Python raises it, only on the ranks that have it
            self._aborts.value = 0
        self.message = " ".join(str(error).split())[:_SHOWN]
        processes = sys.modules.get("multiprocessing.process")
        if processes is not None and processes.parent_process() is not None:  # in a pool
            say_to_caller(f"this model has not been run: {self.message}")
        self._prints.value = int(not self._in_python.value)

    def _take(self) -> BaseException | None:
        error, self._error = self._error, None
        if error is not None:
            self._interrupt.value, self._aborts.value = 0, self._initial_aborts
        return error

    def _wrapper(self) -> Callable[..., Any]:
        """Return the function with which Python calls hoc while the switch is on."""
        call_hoc = self._call_hoc

        def call(function: Hoc, *arguments: object, **named: object) -> object:
            self._depth += 1
            try:
                result = call_hoc(function, *arguments, **named)
            except BaseException:
                error = self._take()
                if error is None:
                    raise
                raise error from None
            finally:
                self._depth -= 1
            error = self._take()
            if error is None or (result is False and type(error) is RuntimeError):
                return result  # False: hoc text failed by an error of NEURON
            raise error

        return call
