"""Steps of a loop around `fadvance`: blocks of them run ahead, and the loop gets one by one.

What a step changes and hoc sees is put into NEURON's memory, call by call; what hoc does not see,
as events on their way, stays as it was when the loop began. `settle` brings that to where the loop
is: the block runs once more up to there, and NEURON takes the last step.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import contextmanager

import numpy as np

from clhines.errors import ClhinesError, SimulationError
from clhines.neuron.back.writeback import clock, due_times, sampled
from clhines.neuron.fingerprint import Fingerprint
from clhines.neuron.kept import Checkpoint, KeptModel
from clhines.neuron.memory.raw import numbers_in, put_words, ref
from clhines.neuron.read.played import Recorder, steps_at_once
from clhines.neuron.stepping.everything import Everything
from clhines.neuron.stepping.late import LateEvents
from clhines.neuron.stepping.watch import Held, Watch
from clhines.simulate.events.sources import SPIKE_LATE
from clhines.simulate.result import Result

FIRST, MOST = 4, 512  # steps of blocks


class LeftError(ClhinesError):
    """A loop has been given wrong numbers: no step can follow."""


class LoopRun:
    """A model from a loop's first step on; OSError where NEURON's memory is not as expected.

    The loop gets what is recorded. `whole`: before each step what hoc's code changes by `names`,
    None: by any, is compared, and the rest with each block; else what changes it is told before it
    is done, as what else is asked for.
    """

    def __init__(self, kept: KeptModel, whole: bool, names: Set[str] | None = None) -> None:
        self._kept, self._model, self.whole, self._names = kept, kept.model, whole, names
        model = kept.model
        assert kept.sim is not None and kept.imported is not None
        assert kept.everything is not None
        self.everything: Everything = kept.everything
        self._watch = self._watched()
        self._late = LateEvents(model)
        self._sent = {item for item, _, _ in self._events()}
        self._after = kept.delivered  # ms: up to here events are recorded, or carried
        self._carried = list[tuple[int, np.ndarray, np.ndarray]]()
        events = {e.address: e.time for e in model.queue.events()}
        self._next = [events.get(r.event, np.inf) for r in model.plays.recorders]  # ms: samples
        self._ended = dict[int, float]()  # what recorders have at the end of the last block
        self._steps, self._taken, self._size = 0, 0, FIRST
        self._now, self._order = float(model.h.t), int(model.h.secondorder)
        self._failed: SimulationError | None = None
        self.given = 0  # steps, in all
        model.forget()

    def _watched(self) -> Watch:
        model, memory = self._model, self._model.memory
        addresses, self._chosen = np.unique(self.everything.addresses(), return_index=True)
        clocks = memory.variable("nrn_threads"), memory.place(ref(model.h, "t")).column
        handed = np.concatenate([addresses, clocks]).astype(np.int64)
        found = {r.address for r in model.plays.recorders}
        for origin in model.wires.origins:
            found |= {a for a in (origin.times, origin.numbers) if a in model.plays.vectors}
        self._vectors = {address: k for k, address in enumerate(sorted(found))}
        vectors = [model.plays.vectors[address] for address in self._vectors]
        self._lengths = dict(zip(self._vectors, map(len, vectors), strict=True))
        self.held = Held(model, vectors)
        ends = [memory.vector_words(address) + 8 for address in self._vectors]
        kept = self._kept
        kept.known = kept.known or Fingerprint(model)
        at_ends = np.array(ends, np.int64)
        return Watch(model, kept.known, handed, at_ends, self.whole, self._names)

    def is_same(self) -> bool:
        """Whether nothing has been changed since the last step."""
        return self._watch.same() and not self.held.are_left()

    # -- steps -----------------------------------------------------------------------------------

    def step(self) -> None:
        """Give the next step."""
        if self._taken == self._steps:
            if self._failed is not None:
                raise self._failed
            self._extend()
        n = self._taken
        self._watch.put(self._rows[n])
        self._append(n)
        self._now = float(self._rows[n, -1])
        if self._late.deliver(n, self._now):
            self._watch.take()
        self._taken += 1
        self.given += 1

    def _extend(self) -> None:
        """Run the next block; up to hoc's ``tstop``, where the loop may end."""
        kept, model, dt = self._kept, self._model, float(self._model.h.dt)
        assert kept.imported is not None
        self._check_rest()
        begin, h = self._now, model.h
        stop = float(h.tstop) if h.name_declared("tstop") else 0.0
        steps = min(self._size, steps_at_once(len(self._chosen) + 1))
        left = int(np.ceil((stop - begin) / dt - 0.5))
        steps = min(steps, left) if left > 0 else steps
        place, before = kept.place(begin), self._watch.handed()
        try:
            result, first = kept.ahead(steps)
        except SimulationError as error:
            first = place.first
            result, self._failed = error.result, error  # type: ignore[assignment]
            steps = len(result.t) - first
            if steps < 1:
                raise
        ends = clock(begin, dt, steps)
        model.plays.refresh()
        self._tape(result, ends, first, place)
        model.plays.forget()
        self._late.add(result, kept.imported, place.crossed, ends)
        rows = self.everything.rows(result, first)[:, self._chosen]
        self._rows = np.hstack([rows, ends[1:, None], ends[1:, None]])
        self._place, self._before, self._steps, self._taken = place, before, steps, 0
        self._size = min(2 * self._size, MOST)

    def _check_rest(self) -> None:
        if not self._watch.rest_is_same():
            raise LeftError(
                f"a loop of hoc's around fadvance() has changed the model, by no name, "
                f"before {self._now:g} ms, which is seen too late; expected changes by name, or "
                f"h.continuerun() in pieces"
            )

    def _tape(self, result: Result, ends: np.ndarray, first: int, place: Checkpoint) -> None:
        """Work out what each step of a block appends to Vectors, and make room there."""
        records, imported, steps = self._kept.records, self._kept.imported, len(ends) - 1
        assert records is not None and imported is not None
        vectors, recorders = self._model.plays.vectors, self._model.plays.recorders
        every, last = np.arange(steps), float(ends[-1]) + 2 * SPIKE_LATE
        v = place.arrays["v"]  # of which NEURON's memory has what the loop reads
        parts = []
        for k, row in enumerate(records.rows(result, first, v)):
            recorder, step, row = recorders[k], every, ends[1:] if row is None else row
            if recorder.event:
                step, row = self._sample(k, recorder, row, ends)
            parts.append((recorder.address, step, row))
        imported.crossed[:] = place.crossed
        found = records.spikes(result, float(ends[0]), self._after, last)
        imported.crossed.clear()
        found = [(a, t[t > self._after], v[t > self._after]) for a, t, v in found]
        found, self._carried, self._after = self._carried + found, [], last
        for address, times, values in found:
            step = np.searchsorted(ends[1:], times)
            parts.append((address, step[step < steps], values[step < steps]))
            self._carried.append((address, times[step == steps], values[step == steps]))
        which = np.concatenate([[], *(np.full(len(s), self._vectors[a]) for a, s, _ in parts)])
        step = np.concatenate([np.zeros(0, np.int64), *(s for _, s, _ in parts)])
        values = np.concatenate([[], *(v for _, _, v in parts)]).astype(np.float64)
        added = np.bincount(which.astype(np.int64), minlength=len(self._vectors)).tolist()
        for (address, _), count in zip(self._vectors.items(), added, strict=True):
            room = len(vectors[address]) + count
            if count and vectors[address].buffer_size() < room:
                vectors[address].buffer_size(2 * room)
        ends_at = self._watch.take_ends()
        order = np.lexsort((np.arange(len(step)), step, which))
        which, step, values = which[order].astype(np.int64), step[order], values[order]
        at = ends_at[which] + 8 * (np.arange(len(which)) - np.searchsorted(which, which))
        order = np.argsort(step, kind="stable")
        self._which, self._values, self._at = which[order], values[order], at[order]
        self._first = np.searchsorted(step[order], np.arange(steps + 1))
        self._numbers, self._where = numbers_in(self._at)

    def _sample(
        self, k: int, recorder: Recorder, row: np.ndarray, ends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return in which steps of a block one at intervals or times records, and what."""
        due, at = np.zeros(0), self._next[k]
        if at < np.inf:
            count = len(self._model.plays.vectors[recorder.address])
            due, self._next[k] = due_times(recorder, at, count, ends[-1])
        recorder.now = self._ended.get(k, recorder.now)
        self._ended[k] = float(row[-1])
        values = sampled(recorder, due, ends, row, float(self._model.h.dt))
        return np.searchsorted(ends[1:], due), values

    def _append(self, n: int) -> None:
        begin, end = self._first[n : n + 2]
        if begin < end:
            self._numbers[self._where[begin:end]] = self._values[begin:end]
            self._watch.put_ends(self._which[begin:end], self._at[begin:end] + 8)

    # -- back to NEURON --------------------------------------------------------------------------

    def settle(self) -> bool:
        """Bring all of NEURON's memory to where the loop is; False where parts of it are others.

        What has been changed since the last step is then as it was changed.
        """
        kept, watch, h = self._kept, self._watch, self._model.h
        if not watch.is_there():
            return False
        self._check_rest()
        by_neuron = watch.switches_are_same()  # its last step, as it would have been
        at, words = watch.changed()
        events = [event for event in self._events() if event[0] not in self._sent]
        self._model.queue.remove(*(item for item, _, _ in events))
        with self._vectors_stay():
            kept.go_back(self._place)
            watch.put_back()
            watch.put(self._before)
            for recorder in self._model.plays.recorders:
                if recorder.times is not None and recorder.vector is not None:
                    # its event is as it was when the loop began
                    recorder.vector.resize(self._lengths[recorder.address])
            h.t = self._place.t
            steps = self._taken - by_neuron
            if steps or self.given > self._taken:  # else NEURON has what there was before
                kept.advance(steps, False)
            if by_neuron:
                kept.step()
            else:
                self._model.memory.keep_order(self._order, float(h.dt))
        put_words(at, words)
        netcons, times = (np.array([e[k] for e in events]) for k in (1, 2))
        self._model.queue.send(netcons.astype(np.int64), times)
        return True

    @contextmanager
    def _vectors_stay(self) -> Iterator[None]:
        """Let Vectors that record have at the end what they have now."""
        plays = self._model.plays
        plays.refresh()
        kept = {address: np.array(plays.vectors[address]) for address in self._vectors}
        yield
        plays.refresh()
        for address, values in kept.items():
            plays.vectors[address].resize(len(values))
            plays.vectors[address].as_numpy()[:] = values
        plays.forget()

    def _events(self) -> list[tuple[int, int, float]]:
        """Return entries of NEURON's queue with events of NetCons, these, and times, ms."""
        events = self._model.queue.events("NetCon")
        return [(event.item, event.address, event.time) for event in events]
