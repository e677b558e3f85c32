"""MPI through mpi4py: one collective per epoch, and errors that all ranks raise.

Every rank has the same network description, and simulates some neighbouring cells on its own
device. One collective sends an epoch's spikes to all ranks, on GPUs during the next epoch. Each
rank delivers the spikes to its own targets. `run.SharedRun` is such a rank's run; `partition.split`
divides the cells.
"""

from __future__ import annotations

import itertools
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
import pyopencl as cl
from numpy.typing import DTypeLike

from clhines.core.arrays import starts
from clhines.core.errors import InputError, description, install, raise_together
from clhines.simulator.common.launchers import end_all, stop_all_on_errors
from clhines.solver.device import devices

if TYPE_CHECKING:
    from mpi4py import MPI

_Value = TypeVar("_Value")
_CALL_BYTES = 56  # length of a call's name in an exchange
_FAILED = 0xFFFFFFFF  # in a failed rank's message, instead of the spike count
_CAPACITY = 15  # spikes per rank in a message, at first; then at most
_MAX_CAPACITY = 4095
_SPIN, _SLEEP, _PATIENCE = 200e-6, 50e-6, 5.0  # s


def world() -> MPI.Comm:
    """Return ``mpi4py.MPI.COMM_WORLD``; InputError if mpi4py cannot be imported."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise InputError(
            f"MPI needs mpi4py, which cannot be imported ({error}); expected: {install('mpi')}"
        ) from error
    return MPI.COMM_WORLD


class Ranks:
    """A communicator for MPI ranks: one collective per epoch, and errors that all ranks raise.

    It duplicates `comm`, so that no other message interferes. `local_rank` and `local_size` count
    the ranks on this machine. `seconds` is the time in exchanges, waiting included, `received` the
    bytes that this rank has received. A rank that waits polls for `spin` s before it sleeps. `call`
    names the user's call that makes the object, see `meet`.
    """

    def __init__(self, comm: MPI.Comm, call: str) -> None:
        self.comm, numbers = _duplicate(comm)
        self._number = 0
        self.rank, self.size = comm.rank, comm.size
        self.spin, self._capacity = _SPIN, _CAPACITY
        self.meet(call)
        self._number = next(numbers)  # all ranks number their objects alike
        machines = self.comm.allgather(platform.node())
        here = [r for r, name in enumerate(machines) if name == machines[self.rank]]
        self.local_rank, self.local_size = here.index(self.rank), len(here)
        self.seconds, self.received, self.exchanges = 0.0, 0, 0

    def meet(self, call: str) -> None:
        """Raise InputError on all ranks if they make different calls, or on different objects.

        A user's call that all ranks must make begins with this; `call` is its name.
        """
        name = np.frombuffer(call.encode()[:_CALL_BYTES].ljust(_CALL_BYTES), np.int64)
        numbers = self.gather_numbers([*name.tolist(), self._number])
        other = next((r for r in range(self.size) if (numbers[r] != numbers[0]).any()), 0)
        if not other:
            return
        names = [row[:-1].tobytes().decode(errors="replace").rstrip() for row in numbers]
        if names[other] == names[0]:
            names = [f"{call} of object {row[-1]}" for row in numbers]
        raise InputError(
            f"rank 0 calls {names[0]} and rank {other} {names[other]}; expected the same call on "
            "all ranks"
        )

    def agree(self, error: BaseException | None) -> None:
        if self.any(error is not None):
            self._raise(error)

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """Execute a block, then call `agree` with the error that it has raised."""
        error = None
        try:
            yield
        except Exception as caught:
            error = caught
        self.agree(error)

    def same(self, values: Callable[[], Mapping[str, object]]) -> None:
        """Raise InputError on all ranks if one of the `values`, by name, differs between ranks."""
        settings = self.gather(values())
        for name in settings[0]:
            by_rank = [each[name] for each in settings]
            other = next((r for r, value in enumerate(by_rank) if value != by_rank[0]), 0)
            if other:
                raise InputError(
                    f"{name} is {by_rank[other]} on rank {other} and {by_rank[0]} on rank 0; "
                    "expected the same on all ranks"
                )

    def check_alone(self, call: str) -> None:
        raise InputError(f"{call} is for one process; expected a simulation without comm")

    def gather(self, value: _Value) -> list[_Value]:
        return self.comm.allgather(value)

    def of_first(self, value: _Value) -> _Value:
        return self.comm.bcast(value)

    def any(self, holds: bool) -> bool:
        return bool(self.gather_numbers([holds]).any())

    def all(self, holds: bool) -> bool:
        return bool(self.gather_numbers([holds]).all())

    def _raise(self, error: BaseException | None) -> NoReturn:
        raise_together(error, self.comm.allgather(description(error)))

    def _wait(self, request: MPI.Request) -> None:
        end = time.perf_counter() + self.spin
        while not request.Test():
            if time.perf_counter() >= end:
                time.sleep(_SLEEP)

    def gather_numbers(self, numbers: Sequence[int]) -> np.ndarray:
        mine = np.array(numbers, np.int64)
        gathered = np.empty((self.size, len(mine)), np.int64)
        self._wait(self.comm.Iallgather(mine, gathered))
        return gathered

    def exchange(self, mine: np.ndarray, error: BaseException | None = None) -> list[np.ndarray]:
        """Return all ranks' spikes, encoded; if a rank has an `error`, all ranks raise."""
        begin = time.perf_counter()
        message = np.zeros(1 + self._capacity, np.uint32)
        message[0] = _FAILED if error is not None else len(mine)
        message[1 : 1 + len(mine)] = mine[: self._capacity]
        messages = np.empty((self.size, len(message)), np.uint32)
        self._wait(self.comm.Iallgather(message, messages))
        counts = messages[:, 0].astype(np.int64)
        if (counts == _FAILED).any():
            self._raise(error)
        codes = [row[1 : 1 + count] for row, count in zip(messages, counts.tolist(), strict=True)]
        self.received += messages.nbytes
        if counts.max() > self._capacity:
            codes = self._exchange_all(mine, counts)
        self.exchanges += 1
        self.seconds += time.perf_counter() - begin
        return codes

    def _exchange_all(self, mine: np.ndarray, counts: np.ndarray) -> list[np.ndarray]:
        words = np.empty(int(counts.sum()), np.uint32)
        begin = starts(counts)
        sent = np.ascontiguousarray(mine, np.uint32)
        self._wait(self.comm.Iallgatherv(sent, [words, (counts.tolist(), begin.tolist())]))
        self.received += words.nbytes
        capacity = (1 << int(counts.max()).bit_length()) - 1
        self._capacity = min(max(self._capacity, capacity), _MAX_CAPACITY)
        return np.split(words, begin[1:])


class OneProcess(Ranks):
    """A single process: collectives return their argument."""

    agreed: Callable[[], Any] = threading.Lock  # a lock that nobody waits for

    def __init__(self) -> None:
        self.rank, self.size, self.local_rank, self.local_size = 0, 1, 0, 1
        self.seconds, self.received, self.exchanges = 0.0, 0, 0

    def meet(self, call: str) -> None:
        return

    def agree(self, error: BaseException | None) -> None:
        if error is not None:
            raise error

    def any(self, holds: bool) -> bool:
        return holds

    def same(self, values: Callable[[], Mapping[str, object]]) -> None:
        return

    def check_alone(self, call: str) -> None:
        return

    def gather_numbers(self, numbers: Sequence[int]) -> np.ndarray:
        return np.array([numbers], np.int64)

    def gather(self, value: _Value) -> list[_Value]:
        return [value]

    def of_first(self, value: _Value) -> _Value:
        return value

    def exchange(self, mine: np.ndarray, error: BaseException | None = None) -> list[np.ndarray]:
        self.agree(error)
        return [mine]


ONE_PROCESS = OneProcess()


def encode(cell: np.ndarray, step: np.ndarray, first: int, count: int) -> np.ndarray:
    """Encode each spike's cell and step, one of `count` from `first` on, in a number, uint32."""
    return cell.astype(np.uint32) * np.uint32(count) + (step - first).astype(np.uint32)


def decode(
    codes: Sequence[np.ndarray], sources: Sequence[np.ndarray], first: int, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sources and steps of all ranks' spikes; a code is ``cell * count + step``.

    `sources` maps each rank's cells to their sources; steps count from `first`.
    """
    pairs = [np.divmod(rank_codes.astype(np.int64), count) for rank_codes in codes]
    numbers = [detectors[cell] for detectors, (cell, _) in zip(sources, pairs, strict=True)]
    return np.concatenate(numbers), np.concatenate([step for _, step in pairs]) + first


# users' communicators, each one's duplicate, and a counter for its `Ranks` objects
_duplicates: list[tuple[MPI.Comm, MPI.Comm, Iterator[int]]] = []


def _duplicate(comm: MPI.Comm) -> tuple[MPI.Comm, Iterator[int]]:
    for original, duplicate, numbers in _duplicates:
        if original == comm and duplicate.size == comm.size:
            return duplicate, numbers
    duplicate, numbers = comm.Dup(), itertools.count(1)
    stop_all_on_errors()
    _duplicates.append((comm, duplicate, numbers))
    return duplicate, numbers


def finish(comm: MPI.Comm, message: str, code: int) -> int:
    """End a program on all ranks: print an error `message` once; return the largest exit code."""
    text = message.encode()[:500]
    mine, messages = np.zeros(512, np.uint8), np.zeros((comm.size, 512), np.uint8)
    mine[0], mine[1 : 1 + len(text)] = code, np.frombuffer(text, np.uint8)
    request, begin = comm.Iallgather(mine, messages), time.perf_counter()
    while not request.Test():
        if code and time.perf_counter() - begin > _PATIENCE:
            words = message or f"ended with status {code}"
            print(f"clhines: rank {comm.rank}: {words}", file=sys.stderr)
            end_all(comm, code)
        time.sleep(1e-3)
    texts = [bytes(row[1:]).rstrip(b"\0").decode(errors="replace") for row in messages]
    failed = [r for r, text in enumerate(texts) if text]
    if failed and failed[0] == comm.rank:
        same = all(text == texts[failed[0]] for text in texts)
        who = "" if same else f"rank {comm.rank}: "
        print(f"clhines: {who}{message}", file=sys.stderr, flush=True)
    return int(messages[:, 0].max())


def devices_to_share(spec: cl.Device | str | None, dtype: DTypeLike) -> list[cl.Device]:
    """Return the devices for a machine's ranks: the chosen one, and all equal ones."""
    spec = spec or os.environ.get("CLHINES_DEVICE")
    chosen = devices.choose(spec, dtype)
    spec = spec or os.environ.get("PYOPENCL_CTX")
    if isinstance(spec, cl.Device) or (isinstance(spec, str) and ":" in spec):
        return [chosen]
    return devices.alike(chosen, dtype)


def own_queue(ranks: Ranks, spec: cl.Device | str | None, dtype: DTypeLike) -> cl.CommandQueue:
    """Return a queue on this rank's device, or on its part of a CPU that ranks share."""
    alike = devices_to_share(spec, dtype)
    device = alike[ranks.local_rank % len(alike)]
    sharing = len(range(ranks.local_rank % len(alike), ranks.local_size, len(alike)))
    if sharing > 1 and devices.is_cpu(device):
        device = devices.part_of(device, ranks.local_rank // len(alike), sharing)
    return devices.make_queue(device, timestamps=False)
