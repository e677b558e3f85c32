"""Simulate the cells of all ranks on a machine on one device, which rank 0 owns.

A GPU runs several processes' kernels one after the other, so ranks that share a GPU would wait for
each other. Here each rank reads, describes and compiles its own network. Rank 0 receives all
descriptions, joins them to one network (`joining`), and advances all cells:

    rank 0     describe, compile | join, plan, build kernels | steps of all cells | save
    rank 1...  describe, compile | wait ..................................... | its state

`OneDeviceRun` is a rank's run and has a copy of its state. If the copy has changed, it is sent to
rank 0 before the next steps; at the end of a run it is sent back. Spikes need no messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np

from clhines.core.errors import InputError
from clhines.simulator.engines.reference import start_model
from clhines.simulator.engines.run import Run, take_chunk
from clhines.simulator.model.model import Model
from clhines.simulator.network.times import LAST_STEP, begins_of
from clhines.simulator.ranks.exchange import NO_WORDS, NOTHING
from clhines.simulator.ranks.joints import Joints
from clhines.simulator.ranks.parts import RankPart, StateArrays, put_all
from clhines.simulator.records.records import NO_COLUMNS, Record
from clhines.simulator.state.chunk import Chunk
from clhines.simulator.state.sources import wires_of

RankState = tuple[StateArrays, np.ndarray]  # a rank's arrays, and its sources with a new event
RankRequest = tuple[RankState | None, list[Record] | None, int]  # state, records, last step
_Answer = TypeVar("_Answer")
_MakeRequest = Callable[..., object]


class WholeRun:
    """The run, on rank 0, that advances all ranks' cells; it divides results among the ranks."""

    def __init__(self, run: Run, model: Model, parts: Sequence[RankPart]) -> None:
        self.run, self._model, self._parts = run, model, parts
        self._records: list[Record] = []
        self._widths = [0] * len(parts)  # records per rank
        self._step = 0

    def _take(self, requests: Sequence[RankRequest]) -> None:
        states = [state for state, _, _ in requests if state is not None]
        if states:
            self.run.load(put_all(self._parts, states, self.run.save()))
        records = [part for _, part, _ in requests if part is not None]
        if records:
            self._widths = [len(part) for part in records]
            pairs = zip(self._parts, records, strict=True)
            self._records = [part.record(one) for part, local in pairs for one in local]

    def _by_rank(self, values: list[np.ndarray]) -> list[list[np.ndarray]]:
        ends = np.cumsum([0, *self._widths]).tolist()
        return [values[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)]

    def now(self, requests: Sequence[RankRequest]) -> list[list[np.ndarray]]:
        self._take(requests)
        return self._by_rank(self.run.now(self._records, requests[0][2]))

    def advance(self, step: int, requests: Sequence[RankRequest]) -> list[tuple[int, Chunk]]:
        """Advance all cells to the first end of any rank's chunk.

        Return, for each rank, the number of steps and the results of its cells.
        """
        self._take(requests)
        count = min(end for *_, end in requests) - step
        cost = dict.fromkeys(("steps", "spikes", "collect"), 0.0)
        chunk = take_chunk(self.run, step, count, self._records, cost)
        self._step = step + count
        values = self._by_rank(chunk.values)
        return [
            (count, part.chunk(chunk, rows)) for part, rows in zip(self._parts, values, strict=True)
        ]

    def save(self, _: object) -> list[StateArrays]:
        whole, now = self.run.save(), float(begins_of(self._step, self._model.dt))
        return [part.cut(whole, now) for part in self._parts]


class OneDeviceRun(Run):
    """A rank's run whose cells rank 0 advances, see `Run`; only rank 0 has `whole`.

    All ranks call `now`, `advance` and `exchange` together; `exchange` ends a run.
    """

    wanted: ClassVar[bool | None] = None  # None: on GPUs
    max_steps = LAST_STEP
    can_restart = True
    device: Any = None

    def __init__(
        self, joints: Joints, model: Model, dtype: np.dtype, device: Any, whole: WholeRun | None
    ) -> None:
        self.device = device
        self._joints, self._dtype, self._whole = joints, dtype, whole
        self._records, self._of_chunk = list[Record](), list[Record]()
        self._chunks: list[Chunk] = []
        self._has_changed, self._sent = True, NOTHING
        self._go_to_start(model)
        joints.exchange = self

    def _go_to_start(self, model: Model) -> None:
        self._dt = model.dt
        self.load(start_model(model, wires_of(model))[0].save(self._dtype))

    def _meet(
        self, flags: Sequence[bool], request: _MakeRequest, answers: Callable[[Any], list[_Answer]]
    ) -> _Answer:
        """Send a request to rank 0, and return rank 0's answer; all ranks call this together.

        ``request(*flags)`` makes this rank's request; a flag is set if it is set on any rank. On
        rank 0 ``answers`` makes the answers from all ranks' requests. If rank 0 fails, all ranks
        raise.
        """
        joints, error = self._joints, None
        comm, by_rank = joints.ranks.comm, list[_Answer]()
        words = joints.ranks.exchange(np.array(flags, np.uint32))  # or an error until now
        requests = comm.gather(request(*np.any(words, axis=0)))
        joints.told = True
        if requests is not None:
            try:
                by_rank = answers(requests)
            except Exception as caught:
                error = caught
        joints.ranks.exchange(NO_WORDS, error)
        joints.told = False
        answer: _Answer = comm.scatter(by_rank if requests is not None else None)
        return answer

    def _ask(
        self, records: Sequence[Record], step: int, answers: Callable[[Any], list[_Answer]]
    ) -> _Answer:
        """Send a request to rank 0, with the state and records if a rank has changed them."""
        same = len(records) == len(self._records)
        same = same and all(a is b for a, b in zip(records, self._records, strict=True))
        flags = self._has_changed, not same

        def request(has_state: bool, has_records: bool) -> RankRequest:
            state = (self._arrays, self._sent) if has_state else None
            plain = [replace(r, columns=NO_COLUMNS, label="", unit="") for r in records]
            return state, plain if has_records else None, step

        self._records = list(records)
        answer = self._meet(flags, request, answers)
        self._has_changed, self._sent = False, NOTHING
        return answer

    def now(self, records: Sequence[Record], step: int) -> list[np.ndarray]:
        return self._ask(records, step, self._whole.now if self._whole else list)

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        self._of_chunk, self._chunks = list(records), []

    def advance(self, first: int, count: int, row: int) -> None:
        """Advance all ranks together; other ranks' chunks may end earlier or later."""
        whole, end = self._whole, first + count
        while first < end:
            answers = partial(whole.advance, first) if whole else list
            steps, chunk = self._ask(self._of_chunk, end, answers)
            self._chunks.append(chunk)
            first += steps

    def end(self) -> Chunk:
        chunks = self._chunks
        if len(chunks) == 1:
            return chunks[0]
        t, cell = (
            np.concatenate([getattr(chunk, name) for chunk in chunks])
            for name in ("spike_time", "spike_cell")
        )
        failed = chunks[0].failed
        for chunk in chunks[1:]:
            failed = np.where(failed > 0, failed, np.where(chunk.failed == 0, failed, chunk.failed))
        values = [np.concatenate(rows) for rows in zip(*(c.values for c in chunks), strict=True)]
        return Chunk.of(t, cell, self._dt, failed, values)

    def exchange(self) -> None:
        """Get this rank's state after the last step from rank 0."""
        self._arrays = self._meet([], lambda: None, self._whole.save if self._whole else list)

    def send(self, source: np.ndarray, time: np.ndarray) -> None:
        self._sent = source.astype(np.int64)

    def voltages(self) -> np.ndarray:
        return self._arrays["v"]

    def weights(self) -> np.ndarray:
        return self._arrays["weight"]

    def reward(self, reward: float, step: int) -> None:
        raise InputError("reward() of joined networks, which have no plastic connections")

    def save(self) -> StateArrays:
        return {name: array.copy() for name, array in self._arrays.items()}

    def load(self, saved: StateArrays) -> None:
        self._arrays, self._has_changed, self._sent = dict(saved), True, NOTHING

    def restart(self, model: Model, in_place: bool = False) -> bool:
        self._go_to_start(model)
        return True
