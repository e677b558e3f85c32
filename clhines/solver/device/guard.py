"""Guard objects that use OpenCL: one thread at a time, and no use after a fork.

A forked process lacks the threads of OpenCL runtimes, and might wait for ever, so its calls are
refused. Its copies of solvers are kept: releasing their queues could end the parent's queues.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, TypeVar, cast

from clhines.core.errors import DeviceError, InputError
from clhines.solver.device import runtimes
from clhines.solver.device.caches import prepare

_Method = TypeVar("_Method", bound=Callable[..., Any])
_Self = TypeVar("_Self")
_RUNTIMES = re.compile(rb"/[^/\n]*(pocl|intelocl|nvidia-opencl|amdocl|RusticlOpenCL|oclgrind)")


class _ForkState:
    uses_opencl = False
    forked_from = 0  # parent process if it used OpenCL before the fork; else 0
    users: ClassVar[weakref.WeakSet[Any]] = weakref.WeakSet()  # objects with a lock by `lock_of`
    kept: tuple[Any, ...] = ()  # these objects when the process was forked


def check_process() -> None:
    """Note that this process uses OpenCL; DeviceError if its parent did before the fork."""
    if _ForkState.forked_from:
        raise DeviceError(
            f"process {os.getpid()} was forked from process {_ForkState.forked_from}, which uses "
            "OpenCL; a forked process cannot use it: start processes with "
            "multiprocessing.get_context('spawn')"
        )
    if not _ForkState.uses_opencl:
        _ForkState.uses_opencl = True
        runtimes.register()
        prepare()


def lock_of(user: object) -> threading.RLock:
    _ForkState.users.add(user)
    return threading.RLock()


def exclusive(method: _Method, meets: bool = False) -> _Method:
    """Decorate a method: one thread at a time may execute it, and no forked process.

    With `meets`, a call is an error unless all ranks of an MPI simulation call the same method.
    """

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not (_ForkState.uses_opencl or getattr(self, "_on_host", False)):
            check_process()  # first: after a fork the lock may be held for ever
        with self._lock:
            if meets and self.ranks.size > 1:
                self._meet(method.__name__)
            return method(self, *args, **kwargs)

    return cast("_Method", wrapped)


class Holder:
    """Base class of objects that use a device; the end of a ``with`` block closes the object."""

    def close(self) -> None:
        """Wait for the device, and release its buffers; the object cannot be used afterwards."""
        raise NotImplementedError

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        name = type(self).__name__
        raise InputError(
            f"a {name} holds a device and cannot be pickled or copied; expected its arguments "
            f"from, and a new {name} there"
        )


class ClosedProxy:
    """Replacement of a closed solver's engine; any use of it raises InputError."""

    def __init__(self, owner: object) -> None:
        self.owner = type(owner).__name__

    def __getattr__(self, name: str) -> NoReturn:
        raise InputError(f"the {self.owner} is closed; expected one that is not")


def _runtime_loaded() -> bool:
    if "pyopencl" not in sys.modules:
        return False
    try:
        with open("/proc/self/maps", "rb") as maps:
            return _RUNTIMES.search(maps.read()) is not None
    except OSError:
        return False


def _after_fork() -> None:
    if not _ForkState.forked_from and (_ForkState.uses_opencl or _runtime_loaded()):
        _ForkState.forked_from, _ForkState.uses_opencl = os.getppid(), False
        _ForkState.kept = tuple(_ForkState.users)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
