"""Networks of several MPI ranks, each with cells of its own, joined by numbers of their sources.

Each rank describes and advances its own network. Sources that others may listen to have numbers
(NEURON's gids), and what a rank hears of others are trains without times, one for each number, with
room for as many events as those of a voltage. All ranks exchange after the same steps, as many as
the smallest delay of what is heard allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyopencl as cl

from clhines.arrays import place_of
from clhines.errors import InputError, RankError
from clhines.model.model import Model
from clhines.simulate.engines.run import Mark, PartRun
from clhines.simulate.events.sources import SPIKE_LATE, steps_between
from clhines.simulate.ranks.mpi import Ranks
from clhines.simulate.ranks.split import of_words, words_of
from clhines.simulate.records.records import Record
from clhines.simulate.state.chunk import Chunk
from clhines.simulate.state.decisions import MAX_EPOCH

_NOTHING = np.zeros(0, np.uint32)


class Joints:
    """What joins the network of this rank to those of others; see `join`.

    Where this rank fails, the others wait in `agreed`, or once they are `joined` in an exchange;
    `told` is whether they know already.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks, self.joined, self.told = ranks, False, False
        self.join(*np.zeros((4, 0), np.int64))
        self.point(range(0), np.zeros(0, np.int64))

    def join(self, *columns: np.ndarray) -> None:
        """Take `sources`, and the numbers `sent` that they have; then `trains`, and `heard`.

        The latter are filled by what sources of other ranks with these numbers send; int64.
        """
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
                    self.ranks.exchange(_NOTHING, error)
                self.ranks.agree(error)
            raise


class JoinedRun:
    """A run of a rank's own network that exchanges events; `exchange` is called once at the end."""

    def __init__(self, joints: Joints, model: Model, run: PartRun) -> None:
        self.run, self.max_steps, self._joints, self._model = run, run.max_steps, joints, model
        number = np.full(model.sources.count, -1)
        number[joints.sources] = joints.sent
        wanted = np.concatenate(joints.ranks.comm.allgather(joints.heard))
        self._number = np.where(np.isin(number, wanted), number, -1)
        self._is_late = np.zeros(model.sources.count, bool)
        self._is_late[model.sources.detector_source] = True
        parts = joints.ranks.comm.allgather((joints.nodes, joints.pointed))
        self._pointed = np.unique(np.concatenate([pointed for _, pointed in parts]))
        self._shown_of = [int(np.isin(self._pointed, nodes).sum()) for nodes, _ in parts]
        self._shown = self._pointed[np.isin(self._pointed, joints.nodes)] - joints.nodes.start
        steps = steps_between(model, np.isin(model.netcons.source, joints.trains))
        least = 1 if len(self._pointed) else MAX_EPOCH
        least = least if steps is None else min(steps, least)
        self._epoch = int(joints.ranks.gather_numbers([min(least, run.max_steps)]).min())
        if self._epoch < 1:
            joints.told = True  # all find it
            raise InputError(
                f"a connection from another rank has a delay shorter than a step of {model.dt:g} "
                "ms; expected longer delays"
            )
        self._started = False
        self._found: list[tuple[np.ndarray, np.ndarray]] = []  # of the chunk
        self._unsent: list[tuple[np.ndarray, np.ndarray]] = []

    @property
    def device(self) -> cl.Device | None:
        """The device of this rank."""
        return self.run.device

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        """Begin a chunk of `rows` steps."""
        self.run.begin(rows, records)
        self._found = []
        if not self._started:
            self.exchange()
        self._started = True

    def advance(self, first: int, count: int, row: int) -> None:
        """Take steps, and exchange events after each that is the last of an epoch."""
        end = first + count
        while first < end:
            some = min(end - first, self._epoch - first % self._epoch)
            self.run.advance(first, some, row)
            self.run.deliver(first, some)
            first, row = first + some, row + some
            if first % self._epoch == 0:
                self.exchange()

    def deliver(self, first: int, count: int) -> None:
        """Do nothing: `advance` does."""

    def send(self, source: np.ndarray, time: np.ndarray) -> None:
        """Let sources have sent events that the run does not find, at these times, ms."""
        self._unsent.append((self._number[source], time))

    def exchange(self) -> None:
        """Give all ranks the events found here, and take those of others."""
        self._collect()
        number, time = (np.concatenate(each) for each in zip(*self._unsent, strict=True))
        self._unsent = []
        known = number >= 0
        v = self.run.voltages_at(self._shown) if len(self._shown) else np.zeros(0)
        mine = words_of(number[known], time[known], v)
        found = map(of_words, self._joints.ranks.exchange(mine), self._shown_of)
        number, time, v = (np.concatenate(each) for each in zip(*found, strict=True))
        at = place_of(self._joints.heard, number)
        source, time = self._joints.trains[at[at >= 0]], time[at >= 0]
        order = np.lexsort((time, source))
        self.run.take_events(source[order], time[order])
        if len(self._joints.pointed):
            self.run.take_voltages(v[np.searchsorted(self._pointed, self._joints.pointed)])

    def _collect(self) -> None:
        """Take the events that the run has found since the last call."""
        source, time = self.run.new_events()
        self._found.append((source, time))
        sent = np.where(self._is_late[source], time + SPIKE_LATE, time)
        self._unsent.append((self._number[source], sent))

    def mark(self) -> Mark:
        """Return a mark of this position in the queue, for `seconds`."""
        return self.run.mark()

    def seconds(self, marks: Sequence[Mark]) -> list[float]:
        """Wait, and return the times at which the queue reached the marks."""
        return self.run.seconds(marks)

    def end(self) -> Chunk:
        """Return the events, failures and records of this rank since `begin`."""
        self._collect()
        source, time = (np.concatenate(each) for each in zip(*self._found, strict=True))
        chunk = self.run.end()
        return Chunk.of(time, source, self._model.dt, chunk.failed, chunk.values)

    def now(self, records: Sequence[Record], step: int) -> list[np.ndarray]:
        """Values of records as they are, (1, r) each."""
        return self.run.now(records, step)

    def voltages(self) -> np.ndarray:
        """(n,): of the cells of this rank."""
        return self.run.voltages()

    def weights(self) -> np.ndarray:
        """(w,) float64: of the connections of this rank."""
        return self.run.weights()

    def reward(self, reward: float, step: int) -> None:
        """Reward the plastic connections of this rank."""
        self.run.reward(reward, step)

    def save(self) -> dict[str, np.ndarray]:
        """Return the state of this rank's network."""
        return self.run.save()

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from a state of this rank's network."""
        self.run.load(saved)
        self._started, self._unsent = False, []
