"""Shares of a population's sets, which the workers of an executor simulate.

A worker makes the population once, from what `pickle` has of it, and keeps it for the shares and
generations that follow: these only set values. It takes a device that no other worker of its
machine has, as long as there is one, by a lock on a file that the system releases when it ends.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    wait,
)
from hashlib import sha256
from typing import Any, BinaryIO

import numpy as np
import pyopencl as cl
from numpy.typing import DTypeLike

from clhines.core.checks import shown
from clhines.core.errors import ClhinesError, InputError
from clhines.simulator.ranks.mpi import devices_to_share

try:
    import fcntl
except ImportError:  # not on Windows, where workers share a device
    fcntl = None  # type: ignore[assignment]

SetResponses = list[Any]  # what `Population.here` yields of some sets
_UNKNOWN = 16  # shares, where an executor does not tell how many workers it has
_TIMES = 3  # that a share is given to workers
_LOST = "KilledWorker"  # dask's error, by name, as dask is not imported here


def as_executor(
    executor: Executor | None, places: bool, options: Mapping[str, object]
) -> Executor | None:
    """Check an executor, and that no other option chooses devices."""
    if executor is None:
        return None
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise InputError(
            f"executor is {shown(executor)}; expected one with submit(), as a ProcessPoolExecutor "
            "or client.get_executor() of dask.distributed"
        )
    if places or options.get("queue") is not None:
        raise InputError("executor comes with queue, devices or comm; expected one of them")
    return executor


def by_workers(
    executor: Executor, population: Any, values: np.ndarray, size: int, batch: int
) -> Iterator[SetResponses]:
    """Yield the responses of sets, share by share, in the order in which workers are done.

    A share has `size` sets, of which a worker simulates `batch` at once: last bits depend on it.
    """
    pickled = pickle.dumps(population)
    name = f"{sha256(pickled).hexdigest()} {batch}"
    waiting, attempts = dict[Future[SetResponses], int](), Counter[int]()

    def share(first: int) -> tuple[bytes, str, np.ndarray, int, int]:
        return pickled, name, values[first : first + size], first, batch

    def give(first: int) -> bool:
        attempts[first] += 1
        try:
            future = executor.submit(simulate, *share(first))
        except RuntimeError:  # it is broken, or shut down
            return False
        if not isinstance(future, Future):
            raise InputError(
                f"executor.submit() gives {shown(future)}; expected a concurrent.futures.Future, "
                "as of client.get_executor() of dask.distributed"
            )
        waiting[future] = first
        return True

    try:
        here = [first for first in range(0, len(values), size) if not give(first)]
        while waiting or here:
            for first in here:
                warnings.warn(
                    f"the executor is broken: sets from {first} on are simulated in this process; "
                    'a script that spawns workers needs if __name__ == "__main__":',
                    RuntimeWarning,
                    stacklevel=2,
                )
                yield simulate(*share(first))
            here = []
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                first = waiting.pop(future)
                try:
                    responses = future.result()
                except Exception as error:
                    lost = isinstance(error, BrokenExecutor | CancelledError | ConnectionError)
                    if not lost and type(error).__name__ != _LOST:
                        raise
                    if attempts[first] == _TIMES:
                        raise ClhinesError(
                            f"sets from {first} on: {_TIMES} workers were lost ({error!r:.100})"
                        ) from error
                    if not give(first):
                        here.append(first)
                else:
                    yield responses
    finally:
        for future in waiting:
            future.cancel()


def size_of(number: int, executor: Executor) -> int:
    """Choose the sets of a share, of `number`: one for each worker."""
    return -(-number // (_workers(executor) or _UNKNOWN))


def _workers(executor: Executor) -> int:
    for name in ("_max_workers", "num_workers"):  # concurrent.futures; mpi4py.futures
        if isinstance(number := getattr(executor, name, None), int):
            return number
    threads = getattr(getattr(executor, "_client", None), "nthreads", None)  # dask.distributed
    return sum(threads().values()) if callable(threads) else 0


# -- in a worker ----------------------------------------------------------------------------------


class _WorkerPopulation(threading.local):
    """The population of a worker, which is a process or one of its threads, and its device."""

    name: str = ""
    population: Any = None
    claim: tuple[int, BinaryIO | None] | None = None


_kept = _WorkerPopulation()


def simulate(pickled: bytes, name: str, values: np.ndarray, first: int, batch: int) -> SetResponses:
    """Simulate a share of the sets of a pickled population, `batch` sets at once."""
    if _kept.name != name or _kept.population is None:
        _kept.population, _kept.name = None, ""  # before another one takes memory
        population = pickle.loads(pickled)
        population.place(_own_device, batch)
        _kept.population, _kept.name = population, name
    parts = _kept.population.here(values, first, first + len(values), first)
    return [one for part in parts for one in part]


def _own_device(spec: cl.Device | str | None, dtype: DTypeLike) -> cl.Device:
    """Return the device of this worker: the machine's workers take its devices in turn."""
    if _kept.claim is None:
        _kept.claim = _claimed()
    alike = devices_to_share(spec, dtype)
    return alike[_kept.claim[0] % len(alike)]


def _claimed() -> tuple[int, BinaryIO | None]:
    """Return the lowest number that no other worker of this user has here, and its locked file."""
    if fcntl is None:
        return os.getpid(), None
    folder = os.path.join(tempfile.gettempdir(), f"clhines-workers-{os.getuid()}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        for number in range(1 << 16):
            file = open(os.path.join(folder, str(number)), "wb")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
            else:
                return number, file
    except OSError:
        pass
    return os.getpid(), None
