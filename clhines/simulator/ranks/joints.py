"""Connect MPI ranks' networks by numbered sources, as NEURON does by gids.

Each rank simulates and records its own network. `Joints` has the source numbers; a `JoinedExchange`
sends the numbered sources' events to all ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Protocol

import numpy as np

from clhines.core.arrays import place_of
from clhines.core.errors import InputError, RankError
from clhines.simulator.engines.run import PartRun, Restarts
from clhines.simulator.model.model import Model
from clhines.simulator.network.times import SPIKE_LATE, begins_of
from clhines.simulator.ranks.exchange import (
    NO_VOLTAGES,
    NO_WORDS,
    NOTHING,
    ErrorGuard,
    Exchange,
    PointedVoltages,
    of_words,
    words_of,
)
from clhines.simulator.ranks.joining import Ends
from clhines.simulator.ranks.mpi import ONE_PROCESS, Ranks
from clhines.simulator.state.decisions import MAX_EPOCH
from clhines.simulator.state.sources import steps_between
from clhines.solver.device.devices import is_cpu

_NEAR = 1e-6  # in steps: times' rounding errors are smaller
_LEAST_OVERLAP = 8  # in steps: shorter epochs are not halved


class EventExchange(Protocol):
    """An exchange of events between joined networks."""

    can_restart: bool

    def exchange(self) -> None:
        """Exchange all events until now; all ranks call this at the end of a run."""

    def send(self, source: np.ndarray, time: np.ndarray) -> None:
        """Send events at `time`, ms, from sources whose events the run does not detect."""


class Joints:
    """The connections between this rank's network and the other ranks' networks.

    Sources have numbers (NEURON's gids). In this rank's network an empty train stands for each
    numbered source on another rank. All ranks exchange events after the same steps, as often as the
    smallest delay needs.

    If this rank fails, the other ranks wait in `agreed` or, if they are `joined`, in an exchange;
    `told` is whether they know about the failure. With `in_steps`, times are rounded to the nearest
    step, as with NEURON's ``spike_compress``. `exchange` is the last run's exchange.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks, self.joined, self.told, self.in_steps = ranks, False, False, False
        self.exchange: EventExchange | None = None
        self.join(*np.zeros((4, 0), np.int64))
        self.point(range(0), np.zeros(0, np.int64))

    def join(self, *columns: np.ndarray) -> None:
        self.sources, self.sent, self.trains, self.heard = columns

    def point(self, nodes: range, pointed: np.ndarray) -> None:
        self.nodes, self.pointed = nodes, pointed

    @property
    def ends(self) -> Ends:
        return Ends(self.sources, self.sent, self.trains, self.heard, self.nodes, self.pointed)

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """Execute a block; if it raises on one rank, all ranks raise. Then the ranks are joined."""
        self.told = True
        with self.ranks.agreed():
            yield
        self.told, self.joined = False, True

    @contextmanager
    def telling(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not (self.told or isinstance(error, RankError)):
                self.told = True
                if self.joined:
                    self.ranks.exchange(NO_WORDS, error)
                self.ranks.agree(error)
            raise


class Outbox:
    """Events from this rank's numbered sources that other ranks have not received yet."""

    def __init__(self, joints: Joints, model: Model) -> None:
        number = np.full(model.sources.count, -1)
        number[joints.sources] = joints.sent
        heard = np.concatenate(joints.ranks.gather(joints.heard))
        self._number = np.where(np.isin(number, heard), number, -1)
        self._is_late, self._dt = model.sources.is_detected, model.dt
        self._in_steps = joints.in_steps
        self._events: list[tuple[np.ndarray, np.ndarray]] = []
        self._ahead = self._trains(model)

    @property
    def is_loose(self) -> bool:
        """Whether other ranks need events from within steps, not only from the ends of steps."""
        return bool((~self._is_late & (self._number >= 0)).any())

    def _trains(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        sources = model.sources
        numbered = [k for k, one in enumerate(sources.train_source) if self._number[one] >= 0]
        times = [sources.train_time[k] for k in numbered]
        source = np.repeat(sources.train_source[numbered].astype(np.int64), [*map(len, times)])
        time = np.concatenate([np.zeros(0), *times])
        order = np.argsort(time, kind="stable")
        return source[order], time[order]

    def clear(self) -> None:
        self._events = []

    def put(self, source: np.ndarray, time: np.ndarray) -> None:
        self._events.append((self._number[source], time))

    def put_detected(self, source: np.ndarray, time: np.ndarray) -> None:
        self.put(source, np.where(self._is_late[source], time + SPIKE_LATE, time))

    def take(self, now: float) -> tuple[np.ndarray, np.ndarray]:
        """Remove the events until `now`, ms, from the outbox; return their sources and times."""
        source, time = self._ahead
        count = int(np.searchsorted(time, now, "right"))
        if count:  # the run does not detect train events
            self.put(source[:count], time[:count])
            self._ahead = source[count:], time[count:]
        number, time = (np.concatenate(each) for each in zip(*self._events, strict=True))
        self._events = []
        number, time = number[number >= 0], time[number >= 0]
        return number, self._rounded(time, now) if self._in_steps else time

    def _rounded(self, time: np.ndarray, now: float) -> np.ndarray:
        """Round times, ms, to the nearest steps, and add `SPIKE_LATE`, as detectors do.

        A time that differs from the result only by rounding errors is not changed.
        """
        dt = self._dt
        nearest = now + np.floor((time - now) / dt + 0.5) * dt + SPIKE_LATE
        return np.where(abs(nearest - time) < _NEAR * dt, time, nearest)


def agreed_epoch(
    joints: Joints, model: Model, least: int, is_loose: bool, during: bool
) -> tuple[int, bool]:
    """Agree with all ranks on the step count between two exchanges, `least` or fewer.

    Return this count, and whether to exchange events while the next steps run: if all ranks have
    set `during`. `is_loose` says that this rank sends events between steps.
    """
    from_others = np.isin(model.netcons.source, joints.trains)
    steps = steps_between(model, from_others)
    least = least if steps is None else min(steps, least)
    delay = model.netcons.delay[from_others] / model.dt
    loose = bool((np.abs(delay - np.rint(delay)) > _NEAR).any()) or is_loose
    mine = least, model.bins, loose, during
    least_of, binned, loose_on, overlaps = joints.ranks.gather_numbers(mine).T
    epoch = int(least_of.min())
    if binned.any() and (loose_on.any() or not binned.all()):
        joints.told = True  # all ranks raise
        raise InputError(
            "CVode.queue_mode(1, 0) on several MPI ranks, which has other bins for events from "
            "artificial cells or with delays between steps; expected queue_mode(0, 0)"
        )
    if epoch < 1:
        joints.told = True  # all ranks raise
        raise InputError(
            f"a connection from another rank has a delay shorter than a step of {model.dt:g} "
            "ms; expected longer delays"
        )
    return epoch, bool(overlaps.all())


class JoinedExchange(Exchange):
    """Exchange events between joined networks; call `exchange` once at the end of a run.

    Epochs, the steps between exchanges, begin at the same steps on all ranks, whatever chunks of
    steps a rank advances. On GPUs (see `overlap`) the events in half an epoch are exchanged during
    the next half:

        advance    | half 1 | half 2 | half 3 | ...
        exchange            | of 1   | of 2   | ...
    """

    overlap: ClassVar[bool | None] = None  # None: on GPUs

    def __init__(self, run: PartRun, joints: Joints, model: Model) -> None:
        guard = ErrorGuard(ONE_PROCESS, run)  # `Joints.telling` sends errors to other ranks
        super().__init__(guard, model.dt)
        self._joints, self.max_steps, self._step = joints, guard.run.max_steps, 0
        self._order = np.argsort(joints.heard)
        self._outbox = Outbox(joints, model)
        parts = joints.ranks.gather((joints.nodes, joints.pointed))
        nodes, pointed = zip(*parts, strict=True)
        self._voltages = PointedVoltages(joints.ranks.rank, nodes, pointed)
        on_gpu = guard.run.device is not None and not is_cpu(guard.run.device)
        least = 1 if any(self._voltages.counts) else MAX_EPOCH
        self._epoch, overlaps = agreed_epoch(
            joints,
            model,
            min(least, self.max_steps),
            self._outbox.is_loose,
            on_gpu if self.overlap is None else self.overlap,
        )
        self._overlaps = overlaps and self._epoch >= _LEAST_OVERLAP
        if self._overlaps:
            self._epoch //= 2
        self._noted: Callable[[], tuple[np.ndarray, np.ndarray]] | None = None
        self.can_restart = isinstance(guard.run, Restarts)
        joints.exchange = self

    def begin(self) -> None:
        self._events = []

    def pieces(self, first: int, count: int) -> Iterator[tuple[int, int]]:
        """Yield (first step, step count) parts of a chunk, cut where ranks exchange events.

        Before the first part, exchange the events at t = 0.
        """
        end, self._step = first + count, first
        if not self._started:
            self._exchange_start()
        self._started = True
        while first < end:
            size = min(end - first, self._epoch - first % self._epoch)
            yield first, size
            first += size

    def _exchange_start(self) -> None:
        self.exchange()

    def note_steps(self, first: int, count: int) -> None:
        """Deliver this rank's spikes in `count` steps from `first` on.

        Exchange events with other ranks if an epoch ends with these steps.
        """
        self.guard.do(self.run.deliver, first, count)
        self._step = first + count
        if self._step % self._epoch:
            return
        if not self._overlaps:
            self.exchange()
            return
        noted, self._noted = self._noted, None
        if noted is not None:  # events from the half before the one that runs now
            self._take(*self.guard.call(noted))
            self._tell()
        self._noted = self.guard.call(self.run.note_events)

    def send(self, source: np.ndarray, time: np.ndarray) -> None:
        self._outbox.put(source, time)

    def exchange(self) -> None:
        self._noted = None
        source, time, v = self.guard.call(self.run.new_events, self._voltages.here)
        self._take(source, time)
        self._tell(v)

    def _tell(self, v: np.ndarray = NO_VOLTAGES) -> None:
        joints = self._joints
        mine = words_of(*self._outbox.take(float(begins_of(self._step, self._dt))), v)
        number, time, v = of_words(joints.ranks.exchange(mine), self._voltages.counts)
        at = place_of(joints.heard, number, self._order)
        source, time = joints.trains[at[at >= 0]], time[at >= 0]
        order = np.lexsort((time, source))
        self.run.take_events(source[order], time[order])
        self._voltages.put(v, self.run)

    def _take(self, source: np.ndarray, time: np.ndarray) -> None:
        self._events.append((source, time))
        self._outbox.put_detected(source, time)

    def end(self) -> None:
        if self._noted is not None:  # other ranks expect these in the next exchange
            self._take(*self.guard.call(self._noted))
            self._noted = lambda: (NOTHING, np.zeros(0))
        self._take(*self.guard.call(self.run.new_events, NOTHING)[:2])

    def load(self) -> None:
        self._started, self._noted = False, None
        self._outbox.clear()
