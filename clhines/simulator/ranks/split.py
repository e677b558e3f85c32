"""The run of one network on several MPI ranks: `SplitRun` advances and exchanges events.

`mpi.Ranks` does the collectives, `partition` divides the network. What is exchanged depends on how
events are delivered: spikes of whole steps as a number each, on GPUs while they are at the next
epoch; where some act at exact times, events with their times, and the voltages that pointers of
other ranks point at. An error of one rank waits until the next collective, and is then raised on
all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from clhines.core.arrays import place_of
from clhines.core.errors import InputError, RankError
from clhines.simulator.engines.reference import Clock, check_globals
from clhines.simulator.engines.run import Mark, PartRun
from clhines.simulator.events.grid_run import Spikes
from clhines.simulator.kinds.layouts import is_artificial
from clhines.simulator.model.model import Model
from clhines.simulator.ranks.described import WholeNetwork
from clhines.simulator.ranks.mpi import Ranks, decoded, encoded
from clhines.simulator.ranks.partition import RankRecords, Share, join, steps_together
from clhines.simulator.records.records import Record
from clhines.simulator.state.chunk import Chunk, by_step
from clhines.simulator.state.decisions import MAX_EPOCH, Decisions
from clhines.simulator.state.sources import SPIKE_LATE, steps_between
from clhines.solver.device.devices import is_cpu

_Found = TypeVar("_Found")
_NEAR = 1e-6  # steps
_NOTHING, NO_WORDS = np.zeros(0, np.int64), np.zeros(0, np.uint32)
_NO_VOLTAGES = np.zeros(0)
_LEAST_OVERLAP = 8  # steps of an epoch from which on its halves are long enough


class _Own:
    """The run of this rank; an error waits until the other ranks can hear of it."""

    def __init__(self, ranks: Ranks, run: PartRun) -> None:
        self.ranks, self.run = ranks, run
        self.error: Exception | None = None

    def do(self, do: Callable[..., _Found], *arguments: object) -> _Found | None:
        """Do something on this rank alone, if nothing has failed yet."""
        if self.error is not None:
            return None
        try:
            return do(*arguments)
        except Exception as error:
            self.error = error
            return None

    def call(self, do: Callable[..., _Found], *arguments: object) -> _Found:
        """Do something, and raise on all ranks what has failed on one."""
        result = self.do(do, *arguments)
        self.settle()
        return cast("_Found", result)  # an error of this rank has been raised

    def settle(self) -> None:
        error, self.error = self.error, None
        self.ranks.agree(error)


def check_start(whole: Model, source: np.ndarray, step: np.ndarray) -> None:
    """Raise InputError for spikes of the start, step -1, where connections are plastic."""
    if whole.connections.rule is not None and (step < 0).any():
        raise InputError(
            f"source {source[step < 0][0]} begins above its threshold, which plastic connections "
            "on several ranks do not take; expected a lower v_init"
        )


class _StepExchange:
    """Exchanges spikes every `max_steps`: those of an epoch at its end, or during the next one."""

    def __init__(self, own: _Own, sources: list[np.ndarray], decisions: Decisions) -> None:
        self._own, self._overlap, self._whole = own, decisions.overlap, decisions.network
        self.max_steps = min(own.run.max_steps, decisions.epoch)
        self._sources = sources  # of each rank's detectors
        self._waiting: tuple[Callable[[], Spikes] | None, int, int] | None = None
        self._spikes: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # of each exchange
        most = max(map(len, self._sources)) * (self.max_steps + 1)
        if most >= 2**32:
            raise InputError(
                f"{most} detectors times steps of an epoch on a rank; expected below 2**32"
            )

    def begin(self, started: bool) -> None:
        self._spikes, self._waiting = [], None
        if not started:
            early = self._own.do(self._own.run.early_sources)
            events = _NOTHING if early is None else early
            self._exchange(events, np.full(len(events), -1), -1, 1)

    def taken(self, first: int, count: int) -> None:
        """Note the spikes of steps that are under way, and exchange those before if they wait."""
        self.end()
        self._waiting = self._own.do(self._own.run.note_spikes), first, count

    def deliver(self) -> None:
        if not self._overlap:
            self.end()

    def end(self) -> None:
        if self._waiting is None:
            return
        (noted, first, count), self._waiting = self._waiting, None
        spikes = None if noted is None else self._own.do(noted)
        cell, step = spikes if spikes is not None else (_NOTHING, _NOTHING)
        self._exchange(cell, step, first, count)

    def _exchange(self, cell: np.ndarray, step: np.ndarray, first: int, count: int) -> None:
        error, self._own.error = self._own.error, None
        codes = self._own.ranks.exchange(encoded(cell, step, first, count), error)
        source, step = decoded(codes, self._sources, first, count)
        if len(source):
            self._send(source, step, first, count)
            self._spikes.append(by_step(step, source, self._whole.dt))

    def _send(self, source: np.ndarray, step: np.ndarray, first: int, count: int) -> None:
        self._own.do(check_start, self._whole, source, step)
        self._own.do(self._own.run.send, source, step, first, count)

    def chunk(self, failed: np.ndarray, values: list[np.ndarray]) -> Chunk:
        if not self._spikes:
            return Chunk.of_none(failed, values)
        step, source, t = (np.concatenate(each) for each in zip(*self._spikes, strict=True))
        return Chunk(step, source, failed, values, t)


class _HeardExchange(_StepExchange):
    """Exchanges spikes of cells that other ranks listen to, where each has described its own."""

    def __init__(self, own: _Own, whole: WholeNetwork) -> None:
        super().__init__(own, whole.heard, whole.decisions)
        self._place = np.full(whole.model.forest.num_cells, -1)
        self._place[whole.sent] = np.arange(len(whole.sent))

    def _exchange(self, cell: np.ndarray, step: np.ndarray, first: int, count: int) -> None:
        error, self._own.error = self._own.error, None
        cells = self._place[cell]
        mine = encoded(cells[cells >= 0], step[cells >= 0], first, count)
        codes = self._own.ranks.exchange(mine, error)
        source, when = decoded(codes, self._sources, first, count)
        source, when = np.append(cell, source), np.append(step, when)
        here = source >= 0
        if here.any():
            self._send(source[here], when[here], first, count)
        if len(cell):
            self._spikes.append(by_step(step, cell, self._whole.dt))


class _TimeExchange:
    """Exchanges events with their times, and voltages that are pointed at; as `_StepExchange`."""

    def __init__(self, own: _Own, shares: Sequence[Share], mine: Share, epoch: int) -> None:
        self._own, self._mine, self._whole = own, mine, mine.whole
        self.max_steps = min(steps_together(shares), epoch, own.run.max_steps)
        self._pointed = np.unique(np.concatenate([share.remote for share in shares]))
        self._here = self._pointed[(self._pointed >= mine.low) & (self._pointed < mine.high)]
        self._spikes: list[tuple[np.ndarray, np.ndarray]] = []
        self._taken = -1, 1
        self._pointed_of = [
            int(np.count_nonzero((self._pointed >= share.low) & (self._pointed < share.high)))
            for share in shares
        ]
        sources = self._whole.sources
        self._artificial, self._known = np.zeros((2, sources.count), bool)
        self._known[sources.detector_source[mine.detectors]] = True
        for k, some in sources.emitted.items():
            self._artificial[some[some >= 0]] |= is_artificial(self._whole.kinds[k])
            self._known[some[mine.instances[k]]] = True

    def begin(self, started: bool) -> None:
        self._spikes = []
        if not started:
            self.deliver()

    def taken(self, first: int, count: int) -> None:
        self._taken = first, count

    def deliver(self) -> None:
        """Give all ranks the events found here, and the voltages that others point at."""
        mine = self._own.do(self._found)
        error, self._own.error = self._own.error, None
        mine = NO_WORDS if mine is None else mine
        source, time, v = of_words(self._own.ranks.exchange(mine, error), self._pointed_of)
        self._spikes.append((source, time))
        self._own.do(self._take, source, time, v)

    def _found(self) -> np.ndarray:
        run = self._own.run
        source, time, v = run.new_events(self._here - self._mine.low)
        if self._own.ranks.rank:  # the first rank tells of artificial cells, which all have
            is_cell = ~self._artificial[source]
            source, time = source[is_cell], time[is_cell]
        return words_of(source, time, v)

    def _take(self, source: np.ndarray, time: np.ndarray, v: np.ndarray) -> None:
        run, detected = self._own.run, np.isin(source, self._whole.sources.detector_source)
        sent = np.where(detected, time + SPIKE_LATE, time)
        order = np.lexsort((sent, source))
        order = order[~self._known[source[order]]]
        run.take_events(source[order], sent[order])
        if self._whole.on_grid:
            first, count = self._taken
            step = np.rint(time[detected] / self._whole.dt).astype(np.int64) - 1
            check_start(self._whole, source[detected], step)
            run.send(source[detected], step, min(first, int(step.min(initial=first))), count)
        if len(self._pointed):
            run.take_voltages(v[np.searchsorted(self._pointed, self._mine.remote)])

    def chunk(self, failed: np.ndarray, values: list[np.ndarray]) -> Chunk:
        source, time = (np.concatenate([s[k] for s in self._spikes]) for k in (0, 1))
        return Chunk.of(time, source, self._whole.dt, failed, values)

    def end(self) -> None:
        """Do nothing: all is exchanged."""


def words_of(source: np.ndarray, time: np.ndarray, v: np.ndarray) -> np.ndarray:
    """(w,) uint32: sources, then times and voltages as float64, two words each."""
    reals = np.append(time, v).astype(np.float64)
    return np.append(source.astype(np.uint32), reals.view(np.uint32))


def of_words(
    words: Sequence[np.ndarray], pointed: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the arguments of `words_of` on all ranks, in turn; `pointed` voltages of each."""
    parts = []
    for values, number in zip(words, pointed, strict=True):
        count = (len(values) - 2 * number) // 3
        reals = np.ascontiguousarray(values[count:]).view(np.float64)
        parts.append((values[:count].astype(np.int64), reals[:count], reals[count:]))
    source, time, v = (np.concatenate(each) for each in zip(*parts, strict=True))
    return source, time, v


class SplitRun:
    """Advances this rank's share of the cells; same interface as a run of one process."""

    device: Any  # that of its run

    def __init__(
        self, ranks: Ranks, shares: Sequence[Share], decisions: Decisions, run: PartRun
    ) -> None:
        self.ranks, self.whole, self.run, self._shares = ranks, decisions.network, run, shares
        self.device = run.device
        mine = shares[ranks.rank]
        self._own, self._first_cell = _Own(ranks, self.run), mine.cells.start
        self._records = RankRecords(ranks, mine.record)
        self._started = False
        with ranks.agreed():
            self._exchange: _StepExchange | _TimeExchange = (
                _TimeExchange(self._own, shares, mine, decisions.epoch)
                if self.whole.has_times
                else _StepExchange(self._own, _sources_of(shares), decisions)
            )
        self.max_steps = self._exchange.max_steps
        if any(kind.mechanism.program.begun for kind in self.whole.kinds):
            saved = self.save()  # of all ranks
            with ranks.agreed():
                for k, kind in enumerate(self.whole.kinds) if saved else ():
                    kind_here = replace(kind, last=None)
                    check_globals(kind_here, self.whole.schema.named(saved, "state", k))

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        self._own.do(self.run.begin, rows, self._records.localised(records))
        self._exchange.begin(self._started)
        self._started = True

    def advance(self, first: int, count: int, row: int) -> None:
        self._own.do(self.run.advance, first, count, row)
        self._exchange.taken(first, count)

    def deliver(self, first: int, count: int) -> None:
        self._exchange.deliver()

    def mark(self) -> Mark | None:
        return self._own.do(self.run.mark)

    def seconds(self, marks: Sequence[Mark | None]) -> list[float]:
        seconds = self._own.do(self.run.seconds, marks)
        return [0.0] * len(marks) if seconds is None else seconds

    def end(self) -> Chunk:
        self._exchange.end()
        chunk = self._own.do(self.run.end)
        here = np.zeros(0, int) if chunk is None else chunk.failed
        numbers = [int(self._own.error is not None)]
        for first in (max(here[here < 0], default=0), min(here[here > 0], default=0)):
            cell = self._first_cell + int(np.argmax(here == first)) if first else 0
            numbers += [int(first), cell]
        gathered = self.ranks.gather_numbers(numbers)
        if gathered[:, 0].any():
            self._own.settle()
        failed = np.zeros(self.whole.forest.num_cells, np.int32)
        for first, cells in (gathered[:, 1:3].T, gathered[:, 3:5].T):  # the first of each rank
            failed[cells[first != 0]] = first[first != 0]
        values = None if chunk is None else chunk.values
        return self._exchange.chunk(failed, self._records.joined(values))

    def now(self, records: Sequence[Record], step: int) -> list[np.ndarray]:
        samples = self._own.call(self.run.now, self._records.localised(records), step)
        return self._records.joined(samples)

    def voltages(self) -> np.ndarray:
        v = self._own.call(self.run.voltages)
        return np.concatenate(self.ranks.gather(v))

    def weights(self) -> np.ndarray:
        weights = self._own.call(self.run.weights)
        on_grid, exact = self.whole.connections.weight.copy(), self.whole.netcons.weight.copy()
        for share, part in zip(self._shares, self.ranks.gather(weights), strict=True):
            count = len(share.on_grid)
            on_grid[share.on_grid], exact[share.weights] = part[:count], part[count:]
        return np.concatenate([on_grid, exact])

    def reward(self, reward: float, step: int) -> None:
        self._own.call(self.run.reward, reward, step)

    def save(self) -> dict[str, np.ndarray]:
        """Return the state for `load` on rank 0, as of one process; nothing elsewhere."""
        parts = self.ranks.comm.gather(self._own.call(self.run.save))
        return {} if parts is None else join(self._shares, parts)

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from what `save` gave on rank 0, with any number of ranks."""
        shares = self._shares if self.ranks.rank == 0 else ()
        parts = self._own.call(lambda: [share.cut(saved) for share in shares])
        self._own.call(self.run.load, self.ranks.comm.scatter(parts or None))
        self._started = True


def _sources_of(shares: Sequence[Share]) -> list[np.ndarray]:
    sources = shares[0].whole.sources.detector_source
    return [sources[share.detectors] for share in shares]


class OwnRun(SplitRun):
    """As `SplitRun`, where each rank has described its own cells: it keeps what is of these."""

    def __init__(self, ranks: Ranks, whole: WholeNetwork, run: PartRun) -> None:
        self.ranks, self.whole, self.run, self.device = ranks, whole.model, run, run.device
        self._own, self._started = _Own(ranks, run), False
        with ranks.agreed():
            self._exchange = _HeardExchange(self._own, whole)
        self.max_steps = self._exchange.max_steps

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        self._own.do(self.run.begin, rows, records)
        self._exchange.begin(self._started)
        self._started = True

    def end(self) -> Chunk:
        """Return this rank's part; RankError where a voltage of another is not finite."""
        self._exchange.end()
        chunk = self._own.do(self.run.end)
        failed = 0 if chunk is None else int((chunk.failed > 0).sum())
        gathered = self.ranks.gather_numbers([self._own.error is not None, failed])
        if gathered[:, 0].any():
            self._own.settle()
        assert chunk is not None  # else the error of this rank has been raised
        broken = np.flatnonzero(gathered[:, 1])
        if len(broken) and not failed:
            raise RankError(f"rank {broken[0]}: a voltage is not finite", int(broken[0]))
        return self._exchange.chunk(chunk.failed, chunk.values)

    def now(self, records: Sequence[Record], step: int) -> list[np.ndarray]:
        """As in one process; others learn of an error in their next exchange."""
        try:
            return self.run.now(records, step)
        except Exception as error:
            self.ranks.exchange(NO_WORDS, error)
            raise

    def voltages(self) -> np.ndarray:
        return self._own.call(self.run.voltages)

    def weights(self) -> np.ndarray:
        return self._own.call(self.run.weights)


def _none_noted() -> tuple[np.ndarray, np.ndarray]:
    return _NOTHING, np.zeros(0)


class Joints:
    """Connects the network that this rank describes to those of others; see `join`.

    Sources have numbers (NEURON's gids); others' sources are trains without times here,
    one for each number. All exchange after the same steps, as the smallest delay of these allows.

    Where this rank fails, the others wait in `agreed`, or once they are `joined` in an exchange;
    `told`: whether they know already. `in_steps`: events that others are told of are those of the
    nearest step, as with NEURON's ``spike_compress``.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks, self.joined, self.told, self.in_steps = ranks, False, False, False
        self.join(*np.zeros((4, 0), np.int64))
        self.point(range(0), np.zeros(0, np.int64))

    def join(self, *columns: np.ndarray) -> None:
        """Take `sources`, their numbers `sent`, and `trains` that sources `heard` fill."""
        self.sources, self.sent, self.trains, self.heard = columns

    def point(self, nodes: range, pointed: np.ndarray) -> None:
        """Take the numbers of this rank's `nodes` among those of all, and of its remote ones."""
        self.nodes, self.pointed = nodes, pointed

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """`Ranks.agreed`, after which the ranks are joined."""
        self.told = True
        with self.ranks.agreed():
            yield
        self.told, self.joined = False, True

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Let all ranks raise what is raised here in the block, where they wait next."""
        try:
            yield
        except Exception as error:
            if not (self.told or isinstance(error, RankError)):
                self.told = True
                if self.joined:
                    self.ranks.exchange(NO_WORDS, error)
                self.ranks.agree(error)
            raise


class JoinedRun:
    """A run of a rank's own network that exchanges events; `exchange` is called once at the end.

    On GPUs events of half an epoch are exchanged during the next half; see `overlap`.
    """

    overlap: ClassVar[bool | None] = None  # None: on GPUs

    def __init__(self, joints: Joints, model: Model, run: PartRun) -> None:
        self.run, self.max_steps, self._joints, self._model = run, run.max_steps, joints, model
        # as of one process
        self.device, self.mark, self.seconds, self.now = run.device, run.mark, run.seconds, run.now
        self.voltages, self.weights, self.reward = run.voltages, run.weights, run.reward
        self.save = run.save
        number = np.full(model.sources.count, -1)
        number[joints.sources] = joints.sent
        self._order = np.argsort(joints.heard)
        wanted = np.concatenate(joints.ranks.gather(joints.heard))
        self._number = np.where(np.isin(number, wanted), number, -1)
        self._is_late = model.sources.is_detected
        self._ahead = self._trains()  # sources and times of what is not sent yet
        self._clock, self._step = Clock(model.dt), 0
        parts = joints.ranks.gather((joints.nodes, joints.pointed))
        self._pointed = np.unique(np.concatenate([pointed for _, pointed in parts]))
        self._shown_of = [int(np.isin(self._pointed, nodes).sum()) for nodes, _ in parts]
        self._shown = self._pointed[np.isin(self._pointed, joints.nodes)] - joints.nodes.start
        from_others = np.isin(model.netcons.source, joints.trains)
        steps = steps_between(model, from_others)
        least = 1 if len(self._pointed) else MAX_EPOCH
        least = least if steps is None else min(steps, least)
        delay = model.netcons.delay[from_others] / model.dt
        loose = bool((np.abs(delay - np.rint(delay)) > _NEAR).any())
        loose |= bool((~self._is_late & (self._number >= 0)).any())  # at any time of a step
        on_gpu = run.device is not None and not is_cpu(run.device)
        during = on_gpu if self.overlap is None else self.overlap
        mine = min(least, run.max_steps), model.bins, loose, during
        least_of, binned, loose_on, overlaps = joints.ranks.gather_numbers(mine).T
        self._epoch = int(least_of.min())
        if binned.any() and (loose_on.any() or not binned.all()):
            joints.told = True  # all find it
            raise InputError(
                "CVode.queue_mode(1, 0) on several MPI ranks, which has other bins for events from "
                "artificial cells or with delays between steps; expected queue_mode(0, 0)"
            )
        if self._epoch < 1:
            joints.told = True  # all find it
            raise InputError(
                f"a connection from another rank has a delay shorter than a step of {model.dt:g} "
                "ms; expected longer delays"
            )
        self._overlaps = bool(overlaps.all()) and self._epoch >= _LEAST_OVERLAP
        if self._overlaps:
            self._epoch //= 2
        self._started = False
        self._noted: Callable[[], tuple[np.ndarray, np.ndarray]] | None = None
        self._found: list[tuple[np.ndarray, np.ndarray]] = []  # of the chunk
        self._unsent: list[tuple[np.ndarray, np.ndarray]] = []

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        self.run.begin(rows, records)
        self._found = []

    def advance(self, first: int, count: int, row: int) -> None:
        """Take steps, and exchange events after each that is the last of an epoch."""
        end, self._step = first + count, first
        if not self._started:
            self.exchange()
        self._started = True
        while first < end:
            some = min(end - first, self._epoch - first % self._epoch)
            self.run.advance(first, some, row)
            self.run.deliver(first, some)
            first, row = first + some, row + some
            self._step = first
            if first % self._epoch == 0 and not self._overlaps:
                self.exchange()
            elif first % self._epoch == 0:
                self._exchange_noted()
                self._noted = self.run.note_events()

    def _exchange_noted(self) -> None:
        """Exchange what was found before the last steps, which are under way."""
        noted, self._noted = self._noted, None
        if noted is not None:
            self._take(*noted())
            self._tell()

    def deliver(self, first: int, count: int) -> None:
        """Do nothing: `advance` does."""

    def send(self, source: np.ndarray, time: np.ndarray) -> None:
        """Let sources have sent events that the run does not find, at these times, ms."""
        self._unsent.append((self._number[source], time))

    def _trains(self) -> tuple[np.ndarray, np.ndarray]:
        """Return sources and times, ascending, of given times that other ranks listen to."""
        sources = self._model.sources
        numbered = [k for k, one in enumerate(sources.train_source) if self._number[one] >= 0]
        times = [sources.train_time[k] for k in numbered]
        source = np.repeat(sources.train_source[numbered].astype(np.int64), [*map(len, times)])
        time = np.concatenate([np.zeros(0), *times])
        order = np.argsort(time, kind="stable")
        return source[order], time[order]

    def exchange(self) -> None:
        """Wait, give all ranks the events found here, and take those of others."""
        self._noted = None
        source, time, v = self.run.new_events(self._shown)
        self._take(source, time)
        self._tell(v)

    def _tell(self, v: np.ndarray = _NO_VOLTAGES) -> None:
        """Give all ranks the events that have been taken here, and take those of others."""
        source, time = self._ahead
        count = int(np.searchsorted(time, self._clock.at(self._step), "right"))
        if count:  # the run does not find those of given times
            self.send(source[:count], time[:count])
            self._ahead = source[count:], time[count:]
        number, time = (np.concatenate(each) for each in zip(*self._unsent, strict=True))
        self._unsent = []
        is_here = number >= 0
        sent = self._in_steps(time[is_here]) if self._joints.in_steps else time[is_here]
        mine = words_of(number[is_here], sent, v)
        number, time, v = of_words(self._joints.ranks.exchange(mine), self._shown_of)
        at = place_of(self._joints.heard, number, self._order)
        source, time = self._joints.trains[at[at >= 0]], time[at >= 0]
        order = np.lexsort((time, source))
        self.run.take_events(source[order], time[order])
        if len(self._joints.pointed):
            self.run.take_voltages(v[np.searchsorted(self._pointed, self._joints.pointed)])

    def _in_steps(self, time: np.ndarray) -> np.ndarray:
        """Return the times at which the nearest steps begin, ms, and a little later."""
        dt, now = self._model.dt, self._clock.at(self._step)
        nearest = now + np.floor((time - now) / dt + 0.5) * dt + SPIKE_LATE
        return np.where(abs(nearest - time) < _NEAR * dt, time, nearest)

    def _take(self, source: np.ndarray, time: np.ndarray) -> None:
        """Take events that the run has found since the last ones."""
        self._found.append((source, time))
        sent = np.where(self._is_late[source], time + SPIKE_LATE, time)
        self._unsent.append((self._number[source], sent))

    def end(self) -> Chunk:
        if self._noted is not None:  # other ranks are told where they expect it
            self._take(*self._noted())
            self._noted = _none_noted
        self._take(*self.run.new_events(_NOTHING)[:2])
        source, time = (np.concatenate(each) for each in zip(*self._found, strict=True))
        chunk = self.run.end()
        return Chunk.of(time, source, self._model.dt, chunk.failed, chunk.values)

    @property
    def can_restart(self) -> bool:
        """Whether this rank can go to the start alone; another model takes all ranks."""
        return hasattr(self.run, "restart")

    def restart(self, model: Model) -> bool:
        """Go to the start of the same model, as the runs of one device do."""
        return self.can_restart and self.run.restart(model)  # type: ignore[attr-defined]

    def load(self, saved: dict[str, np.ndarray]) -> None:
        self.run.load(saved)
        self._started, self._unsent, self._noted = False, [], None
