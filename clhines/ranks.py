"""One network in several processes: MPI, through mpi4py.

Every rank has the same description of the network and simulates some of its cells, neighbours in
natural order, on a device of its own. The spikes of an epoch go to all ranks in one collective,
on GPUs while they are at the next epoch; each rank delivers those that its targets listen to.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines import device as devices
from clhines.errors import InputError, RankError
from clhines.network import Model
from clhines.spikes import Delivery
from clhines.state import Chunk, Record, State, by_time, values_now

INSTALL_HINT = "run 'pip install clhines[mpi]', which brings mpi4py and MPICH"
# what launchers tell the processes that they start: MPICH's and Intel's, Open MPI's, Slurm's
_LAUNCHERS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
_COMPLETE = cl.command_execution_status.COMPLETE
_FAILED = 0xFFFFFFFF  # in place of a number of spikes
_ROOM = 15  # spikes of a rank that a message has room for, at first and at most
_MOST_ROOM = 4095
_READ, _LIST = 256, 1024  # spikes that a CPU's look reads, that a list to deliver holds, at first
_SPIN, _SLEEP, _PATIENCE = 200e-6, 50e-6, 5.0  # s
# what an instance takes of the time of a step, in nodes: at all, and for each of its states. With
# two CPU cores and a GPU a cell with `hh` everywhere takes some 16 times one that is passive.
_INSTANCE, _STATE = 1.0, 5.0


def launched() -> bool:
    """Whether a launcher of MPI has started this process together with others."""
    sizes = [os.environ.get(name, "") for name in _LAUNCHERS]
    return any(size.isdigit() and int(size) > 1 for size in sizes)


def world() -> Any:
    """Return ``mpi4py.MPI.COMM_WORLD``.

    Raises
    ------
    InputError
        There is no mpi4py, or no MPI library for it; says what to install.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise InputError(
            f"MPI needs mpi4py, which cannot be imported ({error}); {INSTALL_HINT}"
        ) from error
    return MPI.COMM_WORLD


# --------------------------------------------------------------------------------- the split


def cell_costs(model: Model) -> np.ndarray:
    """(num_cells,) float64: what a step of each cell costs, in nodes."""
    forest = model.forest
    costs = forest.sizes.astype(np.float64)
    for kind in model.kinds:
        counts = np.diff(np.searchsorted(kind.node, forest.cell_offsets))
        costs += (_INSTANCE + _STATE * len(kind.mechanism.states)) * counts
    return costs


def split(costs: np.ndarray, size: int) -> np.ndarray:
    """Split cells into runs of neighbours of about equal cost.

    Parameters
    ----------
    costs : (num_cells,) float64
    size : int
        Runs; none is empty.

    Returns
    -------
    (size + 1,) int64
        Run r is the cells ``bounds[r]:bounds[r + 1]``.

    Raises
    ------
    InputError
        Fewer cells than runs.
    """
    cells = len(costs)
    if cells < size:
        raise InputError(
            f"{cells} cell{'s' * (cells > 1)} on {size} ranks; expected a cell for each at least"
        )
    before = np.concatenate(([0.0], np.cumsum(costs)))
    aims = before[-1] * np.arange(1, size) / size
    cuts = np.searchsorted((before[1:] + before[:-1]) / 2, aims)  # to the nearer side
    bounds = np.concatenate(([0], cuts, [cells]))
    number = np.arange(size + 1)
    bounds = np.maximum.accumulate(bounds - number) + number  # one cell each at least
    return np.minimum(bounds, cells - size + number)


def ranks_of(comm: Any) -> Ranks | None:
    """Return the ranks of a communicator of mpi4py; None where there is one alone, or no `comm`.

    Raises
    ------
    InputError
        Not a communicator.
    """
    if comm is None:
        return None
    if not hasattr(comm, "Iallgather"):
        raise InputError(
            f"comm is {type(comm).__name__}; expected one of mpi4py, like MPI.COMM_WORLD"
        )
    try:
        size = comm.size
    except Exception as error:  # of mpi4py
        raise InputError(
            f"comm has no ranks ({error}); expected one of mpi4py, like MPI.COMM_WORLD"
        ) from error
    return Ranks(comm) if size > 1 else None


class Share:
    """Where the numbers of each rank are among those of the whole network.

    Parameters
    ----------
    whole : Model
    bounds : (size + 1,) int64
        Of `split`.
    """

    def __init__(self, whole: Model, bounds: np.ndarray) -> None:
        self.whole, self.bounds = whole, bounds
        self.nodes = whole.forest.cell_offsets[bounds]
        self.instances = [np.searchsorted(kind.node, self.nodes) for kind in whole.kinds]
        cell = whole.cell_of_target()[whole.connections.target]
        self.rank_of_connection = np.searchsorted(bounds, cell, side="right") - 1

    def kinds(self, rank: int) -> list[int]:
        """Kinds of the network that have instances on a rank, in the order of its own."""
        return [k for k, at in enumerate(self.instances) if at[rank] < at[rank + 1]]

    def targets(self, rank: int) -> np.ndarray:
        """Targets of events of a rank, by its own numbers."""
        found = [np.zeros(0, np.int64)]
        for k in self.kinds(rank):
            first, at = self.whole.kinds[k].first_target, self.instances[k]
            if first >= 0:
                found.append(np.arange(first + at[rank], first + at[rank + 1]))
        return np.concatenate(found)

    def record(self, rank: int, record: Record) -> tuple[Record, np.ndarray]:
        """Return what a rank records of a record, and the columns that it fills."""
        low, high = (self.nodes if record.kind < 0 else self.instances[record.kind])[
            [rank, rank + 1]
        ].tolist()
        columns = np.flatnonzero((record.index >= low) & (record.index < high))
        if not len(columns):
            return Record("v", -1, columns), columns
        kind = record.kind if record.kind < 0 else self.kinds(rank).index(record.kind)
        return Record(record.name, kind, record.index[columns] - low), columns

    def cut(self, rank: int, saved: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return a rank's part of a saved state."""
        cells = slice(*self.bounds[[rank, rank + 1]].tolist())
        found = {"v": saved["v"][slice(*self.nodes[[rank, rank + 1]].tolist())]}
        found["incoming"] = saved["incoming"][:, self.targets(rank)]
        found["failed"] = saved["failed"][cells]
        for own, k in enumerate(self.kinds(rank)):
            place = slice(*self.instances[k][[rank, rank + 1]].tolist())
            for name in self.whole.kinds[k].mechanism.states:
                found[f"state{own}_{name}"] = saved[f"state{k}_{name}"][place]
        for name in saved:
            if name.startswith("plastic_"):
                found[name] = saved[name]
        if "plastic_weight" in found:
            found["plastic_weight"] = saved["plastic_weight"][self.rank_of_connection == rank]
        return found

    def join(self, parts: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Return the state of the whole network from those of all ranks."""
        whole, ranks = self.whole, range(len(parts))
        found = {name: np.concatenate([p[name] for p in parts]) for name in ("v", "failed")}
        found["incoming"] = np.zeros((len(parts[0]["incoming"]), whole.num_targets), np.int64)
        for rank in ranks:
            found["incoming"][:, self.targets(rank)] = parts[rank]["incoming"]
        for k, kind in enumerate(whole.kinds):
            there = [(r, self.kinds(r).index(k)) for r in ranks if k in self.kinds(r)]
            for name in kind.mechanism.states:
                values = [parts[r][f"state{own}_{name}"] for r, own in there]
                found[f"state{k}_{name}"] = np.concatenate(values)
        plastic = [p for p in parts if "plastic_weight" in p]
        if plastic:  # every rank sees all spikes: the traces are the same
            found |= {k: v for k, v in plastic[0].items() if k.startswith("plastic_")}
            found["plastic_weight"] = self.join_weights([p.get("plastic_weight") for p in parts])
        return found

    def join_weights(self, parts: Sequence[np.ndarray | None]) -> np.ndarray:
        """(m,) float64: of all connections."""
        weight = self.whole.connections.weight.copy()
        for rank, values in enumerate(parts):
            if values is not None:
                weight[self.rank_of_connection == rank] = values
        return weight


# ----------------------------------------------------------------------------- communication


class Ranks:
    """A communicator: one collective an epoch, and errors that all ranks hear of.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Duplicated, so that nothing else gets in between.

    Attributes
    ----------
    rank, size : int
    local_rank, local_size : int
        Among the ranks of this machine.
    seconds : float
        Spent in exchanges, waiting for other ranks included.
    received : int
        Bytes that this rank has got in exchanges.
    exchanges : int
    spin : float, s
        For which it looks again and again before it sleeps between two looks.
    """

    def __init__(self, comm: Any) -> None:
        self.comm = _own(comm)
        self.rank, self.size = comm.rank, comm.size
        machines = comm.allgather(platform.node())
        here = [r for r, name in enumerate(machines) if name == machines[self.rank]]
        self.local_rank, self.local_size = here.index(self.rank), len(here)
        self.seconds, self.received, self.exchanges = 0.0, 0, 0
        self.spin, self._room = _SPIN, _ROOM

    def agree(self, error: BaseException | None) -> None:
        """Wait for all ranks, and raise where one has an error: its own, or a `RankError`."""
        flags = self.gather_numbers([error is not None])[:, 0]
        if flags.any():
            self._raise(error)

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """`agree` at the end of a block, with the error that it raises."""
        error = None
        try:
            yield
        except Exception as caught:
            error = caught
        self.agree(error)

    def same(self, given: dict[str, Any]) -> None:
        """Refuse, on all ranks, what is not the same on all.

        Parameters
        ----------
        given : dict of name -> value
            With the same names on all ranks.

        Raises
        ------
        InputError
            Names the first that differs, and a rank.
        """
        found = self.comm.allgather(given)
        for name in given:
            values = [each[name] for each in found]
            other = next((r for r, value in enumerate(values) if value != values[0]), 0)
            if other:
                raise InputError(
                    f"{name} is {values[other]} on rank {other} and {values[0]} on rank 0; "
                    "expected the same on all ranks"
                )

    def _raise(self, error: BaseException | None) -> None:
        lines = self.comm.allgather("" if error is None else one_line(error))
        if error is not None:
            raise error
        rank = next(r for r, line in enumerate(lines) if line)
        raise RankError(f"rank {rank}: {lines[rank]}", rank)

    def _wait(self, request: Any) -> None:
        """Wait for a request, without taking the processor from a device that is it."""
        end = time.perf_counter() + self.spin
        while not request.Test():
            if time.perf_counter() >= end:
                time.sleep(_SLEEP)

    def gather_numbers(self, numbers: Sequence[int]) -> np.ndarray:
        """(size, k) int64: k numbers of each rank."""
        mine = np.array(numbers, np.int64)
        found = np.empty((self.size, len(mine)), np.int64)
        self._wait(self.comm.Iallgather(mine, found))
        return found

    def exchange(self, mine: np.ndarray, error: BaseException | None = None) -> list[np.ndarray]:
        """Give all ranks the codes of this one's spikes, and return those of all.

        Raises
        ------
        Exception
            `error`, or a `RankError` where another rank had one.
        """
        begin = time.perf_counter()
        message = np.zeros(1 + self._room, np.uint32)
        message[0] = _FAILED if error is not None else len(mine)
        message[1 : 1 + len(mine)] = mine[: self._room]
        found = np.empty((self.size, len(message)), np.uint32)
        self._wait(self.comm.Iallgather(message, found))
        counts = found[:, 0].astype(np.int64)
        if (counts == _FAILED).any():
            self._raise(error)
        codes = [row[1 : 1 + count] for row, count in zip(found, counts.tolist(), strict=True)]
        self.received += found.nbytes
        if counts.max() > self._room:
            codes = self._exchange_all(mine, counts)
        self.exchanges += 1
        self.seconds += time.perf_counter() - begin
        return codes

    def _exchange_all(self, mine: np.ndarray, counts: np.ndarray) -> list[np.ndarray]:
        """Exchange what did not fit, and make room in the messages that follow."""
        found = np.empty(int(counts.sum()), np.uint32)
        starts = np.cumsum(counts) - counts
        sent = np.ascontiguousarray(mine, np.uint32)
        self._wait(self.comm.Iallgatherv(sent, [found, (counts.tolist(), starts.tolist())]))
        self.received += found.nbytes
        room = (1 << int(counts.max()).bit_length()) - 1
        self._room = min(max(self._room, room), _MOST_ROOM)
        return np.split(found, starts[1:])


def encoded(cell: np.ndarray, step: np.ndarray, first: int, count: int) -> np.ndarray:
    """(k,) uint32: one number for the cell and the step of each spike of `count` steps."""
    return cell.astype(np.uint32) * np.uint32(count) + (step - first).astype(np.uint32)


def decoded(
    codes: Sequence[np.ndarray], bounds: np.ndarray, first: int, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Cells, by their numbers in the network, and steps of the spikes of all ranks."""
    found = np.concatenate(codes).astype(np.int64)
    begin = np.repeat(bounds[: len(codes)], [len(some) for some in codes])
    source, late = np.divmod(found, count)
    return source + begin, late + first


def one_line(error: BaseException) -> str:
    """Return what an error says, on one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, Exception) and text else f"{type(error).__name__} {text}"


_known: list[tuple[Any, Any]] = []  # communicators, and our own of the same ranks


def _own(comm: Any) -> Any:
    """Return a communicator of the same ranks that nobody else uses."""
    for given, own in _known:
        if given == comm and own.size == comm.size:
            return own
    own = comm.Dup()
    if not _known:
        _stop_all_on_errors(own)
    _known.append((comm, own))
    return own


def _stop_all_on_errors(comm: Any) -> None:
    """See to it that an error that nobody catches ends all ranks, not this one alone."""
    usual = sys.excepthook

    def stop(kind: Any, value: Any, trace: Any) -> None:
        if isinstance(value, RankError):
            time.sleep(1.0)  # the rank that has the error says so first, if it does
            print(f"clhines: {value}", file=sys.stderr)
        else:
            usual(kind, value, trace)
            print(f"clhines: rank {comm.rank} of {comm.size} stops all", file=sys.stderr)
        sys.stderr.flush()
        comm.Abort(1)

    sys.excepthook = stop


def finish(comm: Any, message: str, code: int) -> int:
    """End a program on all ranks: wait for the others, and say once what went wrong.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        That is used for nothing else.
    message : str
        Why this rank ends; empty where all went well.
    code : int
        Of the program.

    Returns
    -------
    int
        The largest code of all ranks. Where others do not end in time, all are stopped.
    """
    known = message.encode()[:500]
    mine, found = np.zeros(512, np.uint8), np.zeros((comm.size, 512), np.uint8)
    mine[0], mine[1 : 1 + len(known)] = code, np.frombuffer(known, np.uint8)
    request, begin = comm.Iallgather(mine, found), time.perf_counter()
    while not request.Test():
        if code and time.perf_counter() - begin > _PATIENCE:
            print(f"clhines: rank {comm.rank}: {message}", file=sys.stderr, flush=True)
            comm.Abort(code)
        time.sleep(1e-3)
    texts = [bytes(row[1:]).rstrip(b"\0").decode(errors="replace") for row in found]
    own = [r for r, text in enumerate(texts) if text]
    if own and own[0] == comm.rank:
        same = all(text == texts[own[0]] for text in texts)
        who = "" if same else f"rank {comm.rank}: "
        print(f"clhines: {who}{message}", file=sys.stderr, flush=True)
    return int(found[:, 0].max())


# ----------------------------------------------------------------------------------- devices


def own_queue(ranks: Ranks, spec: Any, dtype: Any) -> cl.CommandQueue:
    """Return a queue on this rank's device: the ranks of a machine take its devices in turn.

    A CPU that several ranks share is divided among them, as far as it has cores.

    Parameters
    ----------
    ranks : Ranks
    spec, dtype
        Of `clhines.device.choose`; a device or an index pair is taken by all.
    """
    spec = spec or os.environ.get("CLHINES_DEVICE")
    chosen = devices.choose(spec, dtype)
    alike = [chosen]
    told = spec or os.environ.get("PYOPENCL_CTX")
    if not isinstance(told, cl.Device) and not (isinstance(told, str) and ":" in told):
        alike = devices.alike(chosen, dtype)
    device = alike[ranks.local_rank % len(alike)]
    sharing = len(range(ranks.local_rank % len(alike), ranks.local_size, len(alike)))
    if sharing > 1 and devices.is_cpu(device):
        device = devices.part_of(device, ranks.local_rank // len(alike), sharing)
    return devices.make_queue(device)


# -------------------------------------------------------------------------------- executors


class Received:
    """Spikes between a device and other ranks: those found here, and those of all to deliver.

    Attributes
    ----------
    capacity : int
        Spikes that the list to deliver has room for.
    """

    def __init__(self, state: State) -> None:
        self.state, self.queue = state, state.queue
        self._count = cla.zeros(self.queue, 1, np.int32)
        self._begin, self._width = 0, _READ
        self._sent: deque[cl.Event] = deque()
        # A GPU's memory is read and written beside the queue, so that nothing waits for the epoch
        # that is under way. A CPU's cores are busy with that: there as many spikes as usual are
        # read between two epochs.
        self._side = None
        if not devices.is_cpu(state.queue.device):
            self._side = cl.CommandQueue(state.queue.context, state.queue.device)
        self._noted = cla.zeros(self.queue, 1, np.int32)
        self._make_room(_LIST)

    def _make_room(self, capacity: int) -> None:
        self.capacity = capacity
        self._lists = [cla.empty(self.queue, capacity, np.int32) for _ in range(2)]

    def begin(self) -> None:
        """Empty the list of spikes found here."""
        self.state.spike_count.fill(0)
        self._begin = 0

    def note(self) -> tuple[cl.Event, np.ndarray, np.ndarray]:
        """Enqueue a look at the spikes; what `noted` takes. One look at most may be open."""
        count, source = np.zeros(1, np.int32), self.state.spike_count
        if self._side is not None:
            size = source.nbytes
            event = cl.enqueue_copy(self.queue, self._noted.data, source.data, byte_count=size)
            return event, count, np.zeros((2, 0), np.int32)
        early = np.zeros((2, min(self._width, self.state.max_spikes - self._begin)), np.int32)
        for row, a in zip(early, self._found) if early.size else ():
            offset = 4 * self._begin
            self._keep(
                cl.enqueue_copy(self.queue, row, a.data, src_offset=offset, is_blocking=False)
            )
        event = cl.enqueue_copy(self.queue, count, source.data, is_blocking=False)
        return event, count, early

    @property
    def _found(self) -> tuple[cla.Array, cla.Array]:
        return self.state.spike_source, self.state.spike_step

    def noted(
        self, ticket: tuple[cl.Event, np.ndarray, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Wait for a look, and return cells and steps of the spikes since the last one."""
        event, count, early = ticket
        self.queue.flush()
        event.wait()
        if self._side is not None:
            cl.enqueue_copy(self._side, count, self._noted.data)
        begin, end = self._begin, min(int(count[0]), self.state.max_spikes)  # `end` tells of more
        self._begin = end
        if end - begin <= early.shape[1]:
            return early[0, : end - begin], early[1, : end - begin]
        self._width = max(self._width, 1 << (end - begin).bit_length())
        found = np.zeros((2, end - begin), np.int32)
        for row, a in zip(found, self._found):
            cl.enqueue_copy(self._side or self.queue, row, a.data, src_offset=4 * begin)
        return found[0], found[1]

    def put(
        self, source: np.ndarray, step: np.ndarray, delivery: Delivery
    ) -> tuple[cla.Array, cla.Array, cla.Array]:
        """Enqueue that a list is there for `delivery`, and return it; nothing waits."""
        if len(source) > self.capacity:
            self._make_room(1 << len(source).bit_length())
            delivery.capacity = self.capacity
        delivery.reset(self._count if self._side is None else self._noted)
        given = source.astype(np.int32), step.astype(np.int32), np.array([len(source)], np.int32)
        for values, array in zip(given, (*self._lists, self._count), strict=True):
            if self._side is not None:  # the last delivery is done: `noted` has waited for it
                cl.enqueue_copy(self._side, array.data, values)
                continue
            self._keep(cl.enqueue_copy(self.queue, array.data, values, is_blocking=False))
        return self._lists[0], self._lists[1], self._count

    def _keep(self, event: cl.Event) -> None:
        """Keep what the event of a copy keeps alive: dropped too early, it waits for the device."""
        while self._sent and self._sent[0].command_execution_status == _COMPLETE:
            self._sent.popleft()
        self._sent.append(event)


class SplitRun:
    """What advances a rank's cells, with the exchange of spikes; it looks like that of one process.

    Parameters
    ----------
    ranks : Ranks
    share : Share
    run : Any
        Of the rank's part of the model.
    """

    def __init__(self, ranks: Ranks, share: Share, run: Any) -> None:
        self.ranks, self.share, self.run = ranks, share, run
        self.max_steps = run.max_steps
        self.first_cell, self._overlap = int(share.bounds[ranks.rank]), run.model.overlap
        self._records: list[tuple[Record, Record, np.ndarray]] = []
        self._spikes: list[tuple[np.ndarray, np.ndarray]] = []
        self._waiting: tuple[Any, int, int] | None = None
        self._error: Exception | None = None
        most = int(np.diff(share.bounds).max()) * self.max_steps
        if most >= 2**32:
            raise InputError(
                f"{most} cells times steps of an epoch on a rank; expected below 2**32"
            )

    def _try(self, do: Callable[..., Any], *arguments: Any) -> Any:
        """Do something on this rank alone; an error waits until the others can hear of it."""
        if self._error is not None:
            return None
        try:
            return do(*arguments)
        except Exception as error:
            self._error = error
            return None

    def _settle(self) -> None:
        error, self._error = self._error, None
        self.ranks.agree(error)

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        """Begin a chunk of so many steps."""
        self._spikes, self._waiting = [], None
        self._try(self.run.begin, rows, self._localised(records))

    def _localised(self, records: Sequence[Record]) -> list[Record]:
        """Return what this rank records: the same objects as long as the records are the same."""
        known = {id(whole): row for row in self._records for whole in row[:1]}
        rank = self.ranks.rank
        self._records = [known.get(id(r)) or (r, *self.share.record(rank, r)) for r in records]
        return [own for _, own, _ in self._records]

    def advance(self, first: int, count: int, row: int) -> None:
        """Enqueue steps, and exchange the spikes of those before them if that has waited."""
        self._try(self.run.advance, first, count, row)
        if self._waiting is not None:
            self._exchange()
        self._waiting = self._try(self.run.note_spikes), first, count

    def deliver(self, first: int, count: int) -> None:
        """Exchange the spikes of the last steps, unless that can wait for the next ones."""
        if not self._overlap:
            self._exchange()

    def _exchange(self) -> None:
        assert self._waiting is not None
        ticket, first, count = self._waiting
        self._waiting = None
        found = self._try(self.run.noted_spikes, ticket)
        cell, step = found if found is not None else (np.zeros(0, int), np.zeros(0, int))
        code = encoded(cell, step, first, count)
        error, self._error = self._error, None
        codes = self.ranks.exchange(code, error)
        source, step = decoded(codes, self.share.bounds, first, count)
        if len(source):
            self._spikes.append((step, source))
            self._try(self.run.send, source, step, first, count)

    def mark(self) -> Any:
        """Return what `seconds` takes as this place in the queue."""
        return self._try(self.run.mark)

    def seconds(self, marks: list[Any]) -> list[float]:
        """Wait, and return when the queue came to the marks."""
        found = self._try(self.run.seconds, marks)
        return [0.0] * len(marks) if found is None else found

    def end(self) -> Chunk:
        """Return what was found since `begin` on all ranks."""
        if self._waiting is not None:
            self._exchange()
        chunk = self._try(self.run.end)
        here = np.zeros(0, int) if chunk is None else chunk.failed
        first = int(min(here[here > 0], default=0))
        cell = self.first_cell + int(np.argmax(here == first)) if first else 0
        told = self.ranks.gather_numbers([self._error is not None, first, cell])
        if told[:, 0].any():
            self._settle()
        failed = np.zeros(self.share.whole.forest.num_cells, np.int32)
        broken = told[told[:, 1] > 0]
        failed[broken[:, 2]] = broken[:, 1]
        none = [np.zeros(0, np.int64)]
        step, source = (np.concatenate(none + [s[k] for s in self._spikes]) for k in (0, 1))
        return Chunk(*by_time(step, source), failed, self._joined(chunk.values))

    def _joined(self, values: list[np.ndarray]) -> list[np.ndarray]:
        """Columns of all ranks, on all ranks."""
        if not self._records:
            return []
        parts = self.ranks.comm.allgather([
            (columns, own) for (_, _, columns), own in zip(self._records, values, strict=True)
        ])  # fmt: skip
        found = []
        for k, (record, *_) in enumerate(self._records):
            rows = np.empty((len(values[k]), len(record.index)), values[k].dtype)
            for part in parts:
                columns, own = part[k]
                rows[:, columns] = own
            found.append(rows)
        return found

    def now(self, records: Sequence[Record]) -> list[np.ndarray]:
        """Values of records as they are, (1, r) each."""
        found = self._try(values_now, self.run, self._localised(records))
        self._settle()
        return self._joined(found)

    def voltages(self) -> np.ndarray:
        """(n,): of all cells, on all ranks."""
        v = self._try(self.run.voltages)
        self._settle()
        return np.concatenate(self.ranks.comm.allgather(v))

    def weights(self) -> np.ndarray:
        """(m,) float64: of all connections, on all ranks."""
        weights = self._try(self.run.weights)
        self._settle()
        return self.share.join_weights(self.ranks.comm.allgather(weights))

    def save(self) -> dict[str, np.ndarray]:
        """Return what `load` takes on rank 0, as one process would save it; nothing elsewhere."""
        saved = self._try(self.run.save)
        self._settle()
        parts = self.ranks.comm.gather(saved)
        return {} if parts is None else self.share.join(parts)

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from what `save` gave on rank 0, with any number of ranks."""
        parts = None
        if self.ranks.rank == 0:
            parts = self._try(lambda: [self.share.cut(r, saved) for r in range(self.ranks.size)])
        self._settle()
        own = self.ranks.comm.scatter(parts)
        self._try(self.run.load, own)
        self._settle()
