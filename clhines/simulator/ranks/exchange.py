"""Exchange events between ranks: in whole steps (`StepExchange`) or at exact times.

A spike in a whole step is one number; GPUs exchange spikes during the next epoch. Events at exact
times are sent with their times, and with voltages that other ranks' pointers read. A rank keeps an
error until the next collective, in which all ranks raise it (`ErrorGuard`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, cast

import numpy as np

from clhines.core.errors import InputError
from clhines.simulator.engines.run import PartRun
from clhines.simulator.events.spike_list import Spikes
from clhines.simulator.kinds.layouts import is_artificial
from clhines.simulator.model.model import Model
from clhines.simulator.network.times import SPIKE_LATE, event_steps
from clhines.simulator.ranks.mpi import Ranks, decode, encode
from clhines.simulator.ranks.partition import Share, steps_together
from clhines.simulator.state.chunk import Chunk, by_step
from clhines.simulator.state.decisions import Decisions

_Result = TypeVar("_Result")
NOTHING, NO_WORDS = np.zeros(0, np.int64), np.zeros(0, np.uint32)
NO_VOLTAGES = np.zeros(0)


class ErrorGuard:
    """Call functions on this rank, and hold back an error until all ranks can raise it together."""

    def __init__(self, ranks: Ranks, run: PartRun) -> None:
        self.ranks, self.run = ranks, run
        self._error: Exception | None = None

    def do(self, do: Callable[..., _Result], *arguments: object) -> _Result | None:
        """Call a function and hold back its error; after any error return None without a call."""
        if self._error is not None:
            return None
        try:
            return do(*arguments)
        except Exception as error:
            self._error = error
            return None

    def call(self, do: Callable[..., _Result], *arguments: object) -> _Result:
        result = self.do(do, *arguments)
        self._settle()
        return cast("_Result", result)  # this rank's error has been raised

    def exchange(self, words: np.ndarray) -> list[np.ndarray]:
        error, self._error = self._error, None
        return self.ranks.exchange(words, error)

    def gather_numbers(self, numbers: Sequence[int]) -> np.ndarray:
        gathered = self.ranks.gather_numbers([self._error is not None, *numbers])
        if gathered[:, 0].any():
            self._settle()
        return gathered[:, 1:]

    def _settle(self) -> None:
        error, self._error = self._error, None
        self.ranks.agree(error)


class Exchange(ABC):
    """Base of exchanges of events between ranks while a run advances by chunks of steps.

    At the begin of a chunk call `begin`. Advance the steps that each item of `pieces` has, and call
    `note_steps` and `deliver` after each. At the end of the chunk call `end` and `chunk`.
    """

    max_steps: int
    can_restart = False  # whether a rank can restart without the others

    def __init__(self, guard: ErrorGuard, dt: float) -> None:
        self.guard, self.run, self._dt = guard, guard.run, dt
        self._started = False  # whether the start's events have been exchanged
        # for each exchange in the chunk, the events' sources and times, and spikes' steps
        self._events: list[tuple[np.ndarray, ...]] = []
        self._early: list[tuple[np.ndarray, ...]] = []  # the start's, for the next chunk

    def begin(self) -> None:
        self.start()
        self._events, self._early = self._early, []

    def start(self) -> None:
        """Exchange the events at t = 0, unless this has been done or a state has been loaded."""
        if not self._started:
            self._started, self._events = True, []
            self._exchange_start()
            self._early = self._events

    @abstractmethod
    def _exchange_start(self) -> None: ...

    def pieces(self, first: int, count: int) -> Iterator[tuple[int, int]]:
        """Yield a chunk's steps in portions between exchanges: (first, count)."""
        yield first, count

    @abstractmethod
    def note_steps(self, first: int, count: int) -> None:
        """Take note of steps that the run has advanced, or that its device is advancing."""

    def deliver(self) -> None:
        """Exchange the events in the steps of the last `note_steps`.

        The base class does nothing: its subclasses may exchange in other calls.
        """
        return

    def end(self) -> None:
        return

    def chunk(self, failed: np.ndarray, values: list[np.ndarray]) -> Chunk:
        """Return a chunk's results: the events since `begin`, failures and recorded values."""
        source, time = (np.concatenate(each) for each in zip(*self._events, strict=True))
        return Chunk.of(time, source, self._dt, failed, values)

    def load(self) -> None:
        """Go on from a state that all ranks have loaded: events of the start are not exchanged."""
        self._started, self._early = True, []


class StepExchange(Exchange):
    """Exchange spikes after each epoch of `max_steps` steps, or during the next epoch."""

    def __init__(self, guard: ErrorGuard, sources: list[np.ndarray], decisions: Decisions) -> None:
        super().__init__(guard, decisions.network.dt)
        self._overlap, self._whole = decisions.overlap, decisions.network
        self.max_steps = min(guard.run.max_steps, decisions.epoch)
        self._sources = sources  # for each rank, its detectors' sources
        # spikes that are not exchanged yet: function that reads them, first step, step count
        self._waiting: tuple[Callable[[], Spikes] | None, int, int] | None = None
        most = max(map(len, self._sources)) * (self.max_steps + 1)
        if most >= 2**32:
            raise InputError(
                f"{most} detectors times steps of an epoch on a rank; expected below 2**32"
            )

    def begin(self) -> None:
        self._waiting = None
        super().begin()

    def _exchange_start(self) -> None:
        early = self.guard.do(self.run.early_sources)
        events = NOTHING if early is None else early
        self._exchange(events, np.full(len(events), -1), -1, 1)

    def note_steps(self, first: int, count: int) -> None:
        """Finish the exchange of the previous call's steps, and begin to read these steps' spikes.

        These are `count` steps from `first` on, which the device is advancing.
        """
        self.end()
        self._waiting = self.guard.do(self.run.note_spikes), first, count

    def deliver(self) -> None:
        if not self._overlap:
            self.end()

    def end(self) -> None:
        if self._waiting is None:
            return
        (noted, first, count), self._waiting = self._waiting, None
        spikes = None if noted is None else self.guard.do(noted)
        cell, step = spikes if spikes is not None else (NOTHING, NOTHING)
        self._exchange(cell, step, first, count)

    def _exchange(self, cell: np.ndarray, step: np.ndarray, first: int, count: int) -> None:
        codes = self.guard.exchange(encode(cell, step, first, count))
        source, step = decode(codes, self._sources, first, count)
        self._send(source, step, first, count)
        self._note(source, step)

    def _send(self, source: np.ndarray, step: np.ndarray, first: int, count: int) -> None:
        if len(source):
            self.guard.do(check_start, self._whole, source, step)
            self.guard.do(self.run.send, source, step, first, count)

    def _note(self, source: np.ndarray, step: np.ndarray) -> None:
        if len(source):
            self._events.append(by_step(step, source, self._dt))

    def chunk(self, failed: np.ndarray, values: list[np.ndarray]) -> Chunk:
        if not self._events:
            return Chunk.of_none(failed, values)
        step, source, t = (np.concatenate(each) for each in zip(*self._events, strict=True))
        return Chunk(step, source, failed, values, t)


def check_start(whole: Model, source: np.ndarray, step: np.ndarray) -> None:
    """Refuse spikes at t = 0 (step -1) if connections are plastic."""
    if whole.connections.rule is not None and (step < 0).any():
        raise InputError(
            f"source {source[step < 0][0]} starts above its threshold: not supported with "
            "plasticity on several ranks; expected a lower v_init"
        )


def exchange_of(guard: ErrorGuard, shares: Sequence[Share], decisions: Decisions) -> Exchange:
    sources = decisions.network.sources.detector_source
    if decisions.network.exact:
        return TimeExchange(guard, shares, decisions.epoch)
    return StepExchange(guard, [sources[share.detectors] for share in shares], decisions)


class PointedVoltages:
    """The voltages that other ranks' pointers read; exchanges send them with the events.

    ``nodes[r]`` is rank r's range of node numbers, ``pointed[r]`` has the numbers of the nodes on
    other ranks that its pointers read. `here` are this rank's nodes whose voltages it sends.
    """

    def __init__(self, rank: int, nodes: Sequence[range], pointed: Sequence[np.ndarray]) -> None:
        every = np.unique(np.concatenate(pointed))
        places = [(every >= each.start) & (every < each.stop) for each in nodes]
        self.here = every[places[rank]] - nodes[rank].start
        self.counts = [int(np.count_nonzero(place)) for place in places]
        self._places = np.searchsorted(every, pointed[rank])

    def put(self, v: np.ndarray, run: PartRun) -> None:
        if len(self._places):
            run.take_voltages(v[self._places])


class TimeExchange(Exchange):
    """Exchange events at exact times, and voltages to which pointers point, after each epoch."""

    def __init__(self, guard: ErrorGuard, shares: Sequence[Share], epoch: int) -> None:
        mine = shares[guard.ranks.rank]
        super().__init__(guard, mine.whole.dt)
        self._whole, self._taken = mine.whole, (-1, 1)
        self.max_steps = min(steps_together(shares), epoch, guard.run.max_steps)
        nodes = [range(share.low, share.high) for share in shares]
        self._voltages = PointedVoltages(guard.ranks.rank, nodes, [s.remote for s in shares])
        sources = self._whole.sources
        self._artificial, self._is_here = np.zeros((2, sources.count), bool)
        self._is_here[sources.detector_source[mine.detectors]] = True
        for k, emitted in sources.emitted.items():
            self._artificial[emitted[emitted >= 0]] |= is_artificial(self._whole.kinds[k])
            self._is_here[emitted[mine.instances[k]]] = True

    def _exchange_start(self) -> None:
        self.deliver()

    def note_steps(self, first: int, count: int) -> None:
        self._taken = first, count

    def deliver(self) -> None:
        mine = self.guard.do(self._words)
        words = self.guard.exchange(NO_WORDS if mine is None else mine)
        source, time, v = of_words(words, self._voltages.counts)
        self._events.append((source, time))
        self.guard.do(self._take, source, time, v)

    def _words(self) -> np.ndarray:
        source, time, v = self.run.new_events(self._voltages.here)
        if self.guard.ranks.rank:  # all ranks have the artificial cells; rank 0 sends their events
            is_cell = ~self._artificial[source]
            source, time = source[is_cell], time[is_cell]
        return words_of(source, time, v)

    def _take(self, source: np.ndarray, time: np.ndarray, v: np.ndarray) -> None:
        run, detected = self.run, np.isin(source, self._whole.sources.detector_source)
        sent = np.where(detected, time + SPIKE_LATE, time)
        order = np.lexsort((sent, source))
        order = order[~self._is_here[source[order]]]
        run.take_events(source[order], sent[order])
        if self._whole.on_grid:
            first, count = self._taken
            step = event_steps(time[detected], self._dt) - 1
            check_start(self._whole, source[detected], step)
            run.send(source[detected], step, min(first, int(step.min(initial=first))), count)
        self._voltages.put(v, run)


def words_of(source: np.ndarray, time: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Pack sources, times and voltages into a message, (w,) uint32; reals take two words each."""
    reals = np.append(time, v).astype(np.float64)
    return np.append(source.astype(np.uint32), reals.view(np.uint32))


def of_words(
    words: Sequence[np.ndarray], pointed: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unpack each rank's message: event sources, event times, and voltages for pointers.

    Rank k sent ``pointed[k]`` voltages.
    """
    parts = []
    for values, number in zip(words, pointed, strict=True):
        count = (len(values) - 2 * number) // 3
        reals = np.ascontiguousarray(values[count:]).view(np.float64)
        parts.append((values[:count].astype(np.int64), reals[:count], reals[count:]))
    source, time, v = (np.concatenate(each) for each in zip(*parts, strict=True))
    return source, time, v
