"""End all processes that an MPI launcher has started together."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from clhines.core.errors import RankError

_hooks: list[object] = []  # this package's hooks in `sys.excepthook`


def stop_all_on_errors() -> None:
    """Let an uncaught error end all ranks of mpi4py, not only this one."""
    if sys.excepthook in _hooks:
        return
    usual = sys.excepthook

    def stop(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        world = other_ranks()
        if world is not None and isinstance(value, RankError):
            time.sleep(1.0)  # the failed rank prints its error first
            print(f"clhines: {value}", file=sys.stderr)
        else:
            usual(kind, value, trace)
        if world is None:
            return
        if not isinstance(value, RankError):
            print(f"clhines: rank {world.rank} of {world.size} stops all", file=sys.stderr)
        end_all(world, 1)

    _hooks.append(stop)
    sys.excepthook = stop


def end_all(comm: Any, code: int) -> None:
    """End all ranks of an mpi4py communicator, after their output was passed on."""
    sys.stderr.flush()
    time.sleep(0.5)  # launchers may drop output that they have not passed on by then
    comm.Abort(code)
    time.sleep(5.0)  # it may return before the launcher ends this process


def other_ranks() -> Any:
    """Return mpi4py's world if it is loaded and has several ranks, else None."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized():
        return None
    return mpi.COMM_WORLD if mpi.COMM_WORLD.size > 1 else None
