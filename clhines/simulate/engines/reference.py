"""A network advanced with NumPy in float64: the truth for the engines on devices."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from clhines import reference
from clhines.model.model import Model
from clhines.model.sources import Played
from clhines.simulate.engines.axial import axial_currents
from clhines.simulate.engines.variables import Variables
from clhines.simulate.events.exact import HostEvents
from clhines.simulate.events.sources import Wires, wires_of
from clhines.simulate.ranks.exchange import Spikes
from clhines.simulate.records.records import CURRENT, Record, is_current
from clhines.simulate.records.reduced import HostReducer, HostReducers
from clhines.simulate.state.chunk import Chunk
from clhines.simulate.state.copies import of_all
from clhines.simulate.state.decisions import Decisions
from clhines.simulate.state.start import currents, started

Wanted = Sequence[tuple[str, ...]]  # outputs of each kind that are worked out


class Clock:
    """NEURON's time, ms: each step adds two half steps."""

    def __init__(self, dt: float) -> None:
        self._dt, self._step, self._t = dt, 0, 0.0

    def at(self, step: int) -> float:
        """Time of the begin of a step, ms."""
        if step < self._step:
            self._step, self._t = 0, 0.0
        for _ in range(step - self._step):
            self._t = (self._t + 0.5 * self._dt) + 0.5 * self._dt
        self._step = step
        return self._t


def played_at(played: Played, t: float) -> float:
    """Value of what is played at a time, as NEURON gives it: after its end extrapolated."""
    times, y = played.t, played.y
    if not played.continuous:
        k = int(np.searchsorted(times, t, side="right")) - 1
        return float(y[k]) if k >= 0 else float("nan")
    if t <= times[0]:
        return float(y[0])
    if len(times) == 1:
        return float(y[0])
    k = min(int(np.searchsorted(times, t, side="left")), len(times) - 1)
    t0, t1 = times[k - 1], times[k]
    if t0 == t1:
        return float((y[k - 1] + y[k]) / 2)
    share = (t - t0) / (t1 - t0)
    return float((1 - share) * y[k - 1] + share * y[k])


def wanted_outputs(model: Model, records: Sequence[Record]) -> Wanted:
    """Return the outputs of each kind that are recorded, in its order, and the current last."""
    asked = {(r.kind, r.name) for r in records}
    current = {r.kind for r in records if is_current(r, model)}
    return tuple(
        (
            *(q.name for q in kind.mechanism.program.outputs if (k, q.name) in asked),
            *([CURRENT] if k in current else []),
        )
        for k, kind in enumerate(model.kinds)
    )


class Reference:
    """Advance a model on the host.

    `wires` are those of a model with the same connections, `wanted` the outputs that are worked
    out, as `wanted_outputs` gives them, and `decisions` those of the whole network, where `model`
    is a rank's share of it. `taken` is whether it is not at the start any more.
    """

    def __init__(
        self,
        model: Model,
        wires: Wires | None = None,
        wanted: Wanted = (),
        decisions: Decisions | None = None,
    ) -> None:
        self.model = model
        self._wires = wires or wires_of(model)
        self.dtype, self.max_steps = np.dtype(np.float64), 1
        self._decisions, self._noted = decisions, 0
        if decisions is not None and decisions.split:  # until others' spikes act
            self.max_steps = decisions.epoch
        self.taken, self._clock = False, Clock(model.dt)
        self.variables, self.events = self._started(wanted)
        self.records: list[Record] = []
        self._reducers = HostReducers(lambda record: HostReducer(record, model))
        self._first = 0
        self._rows: list[list[np.ndarray]] = []

    def _started(self, wanted: Wanted = ()) -> tuple[Variables, HostEvents]:
        return started(self.model, self._wires, wanted, self._decisions)

    @cached_property
    def _order(self) -> list[np.ndarray]:
        return reference.elimination_steps(self.model.forest)

    def want(self, records: Sequence[Record]) -> None:
        """Work out the outputs that are recorded; at the start, those of the start too."""
        wanted = wanted_outputs(self.model, records)
        if wanted == tuple(self.variables.wanted):
            return
        self.variables.want(wanted)
        if not self.taken:
            self.variables, self.events = self._started(wanted)

    @property
    def device(self) -> None:
        """None: it is the host."""

    # -- a chunk -------------------------------------------------------------------------------

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        """Begin a chunk of `rows` steps."""
        self._reducers.begin(records)
        self.records = self._reducers.sources
        self.want(self.records)
        self._rows = [[] for _ in self.records]

    def advance(self, first: int, count: int, row: int) -> None:
        """Take `count` steps from step `first`; the first is recorded in `row`."""
        if row == 0:
            self._first = first
        with np.errstate(all="ignore"):  # what is not finite is found by `failed`
            for step in range(first, first + count):
                self._step(step)
                for rows, record in zip(self._rows, self.records, strict=True):
                    rows.append(self.recorded(record))

    def recorded(self, record: Record) -> np.ndarray:
        """(r,) float64: values of a record as they are."""
        variables = self.variables
        if record.kind == -1:
            return variables.v[record.index]
        if record.kind < 0:
            return variables.ions[record.name][record.index]
        for kept in (variables.states, variables.outputs):
            if record.name in kept[record.kind]:
                return kept[record.kind][record.name][record.index]
        return variables.parameters[record.kind][record.name][record.index]

    def end(self) -> Chunk:
        """Return what was found since `begin`."""
        source, t = self.new_events()
        values = self._reducers.chunk(self._rows, self._first)
        return Chunk.of(t, source, self.model.dt, self.variables.failed.copy(), values)

    def deliver(self, first: int, count: int) -> None:
        """Do nothing: targets look for their events themselves."""

    def mark(self) -> float:
        """Return what `seconds` takes as this moment."""
        return time.perf_counter()

    def seconds(self, marks: Sequence[float]) -> list[float]:
        """Return the moments, s."""
        return list(marks)

    # -- a step --------------------------------------------------------------------------------

    def _step(self, step: int) -> None:
        self.taken = True
        model, variables = self.model, self.variables
        begin, half = self._clock.at(step), 0.5 * model.dt
        middle = begin + half
        end = middle + half
        self.events.deliver_sums(step, middle)
        self.events.deliver(begin, middle)
        self._play(middle)
        g, i = currents(variables, {"begin": begin, "now": middle, "end": end}, step)
        v = variables.v
        d = model.capacitance_over_dt + model.constant_d + g
        b = axial_currents(model.forest, model.u, v) + (model.constant_b - model.constant_g * v - i)
        dv, _ = reference.solve_with_pivots(model.forest, d, model.u, b, steps=self._order)
        if self.model.second_order_currents:
            for ion in self.model.ions:
                current = ion.variables[3]
                variables.ions[current] += variables.ions[f"d{current}"] * dv
        variables.v = v + (2 * dv if model.secondorder else dv)
        self._play(end, is_end=True)
        for block in ("advance", "after_solve", "before_step"):
            for k in range(len(model.kinds)):
                variables.run_block(k, block, {"begin": begin, "now": end, "end": end})
        broken = ~np.isfinite(variables.v[model.soma])
        variables.failed[(variables.failed == 0) & broken] = step + 1
        self.events.detect(end, step)

    def _play(self, t: float, is_end: bool = False) -> None:
        for played in self.model.played:
            if is_end and not played.continuous:
                continue  # NEURON sets these by events, after the states
            value = played_at(played, t)
            if not np.isnan(value):
                self.variables.parameters[played.kind][played.parameter][played.instance] = value

    # -- other ranks ---------------------------------------------------------------------------

    def early_sources(self) -> np.ndarray:
        """Return sources that are above their thresholds at the start."""
        return self.new_events()[0]

    def note_spikes(self) -> Callable[[], Spikes]:
        """Note the spikes found so far; see `PartRun`."""
        begin, end = self._noted, len(self.events.emitted)
        self._noted = end
        found = self.events.emitted[begin:end]
        source = np.concatenate([np.zeros(0, np.int64), *(s for s, _ in found)])
        t = np.concatenate([np.zeros(0), *(t for _, t in found)])
        step = np.rint(t / self.model.dt).astype(np.int64) - 1
        return lambda: (source, step)

    def new_events(self) -> tuple[np.ndarray, np.ndarray]:
        """Return sources and times of the events found since the last call."""
        found, self.events.emitted, self._noted = self.events.emitted, [], 0
        source = np.concatenate([np.zeros(0, np.int64), *(s for s, _ in found)])
        return source, np.concatenate([np.zeros(0), *(t for _, t in found)])

    def take_events(self, source: np.ndarray, time: np.ndarray) -> None:
        """Append events of other ranks, by source and time, to the rings of their sources."""
        for s, t in zip(source, time, strict=True):
            self.events.append(np.array([s]), np.array([t]))

    def send(self, source: np.ndarray, step: np.ndarray, first: int, count: int) -> None:
        """Deliver spikes of the whole network in whole steps."""
        if self.variables.grid is not None:
            for one in np.unique(step).tolist():
                self.variables.grid.send(one, np.sort(source[step == one]))

    def voltages_at(self, node: np.ndarray) -> np.ndarray:
        """Voltages of nodes."""
        return self.variables.v[node]

    def take_voltages(self, v: np.ndarray) -> None:
        """Set the voltages of nodes of other ranks."""
        self.variables.remote_v = v.astype(np.float64)

    # -- the whole -----------------------------------------------------------------------------

    def voltages(self) -> np.ndarray:
        """(n,) float64, mV: in natural order."""
        return self.variables.v.copy()

    def weights(self) -> np.ndarray:
        """(w,) float64: of connections on the grid, then of those at exact times, as they are."""
        grid = [] if self.variables.grid is None else [self.variables.grid.weight]
        return np.concatenate([*grid, self.variables.exact.weight])

    def reward(self, reward: float, step: int) -> None:
        """Reward all plastic connections, after the spikes of a step."""
        if self.variables.grid is not None:
            self.variables.grid.reward(reward, step)

    def now(self, records: Sequence[Record], step: int) -> list[np.ndarray]:
        """Values of records as they are, (1, r) each."""
        self._reducers.begin(records)
        sources = self._reducers.sources
        self.want(sources)
        return self._reducers.now([self.recorded(source)[None] for source in sources], step)

    def save(self) -> dict[str, np.ndarray]:
        """Return arrays that `load` takes."""
        return self.variables.save()

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from what `save` gave, or from such arrays of one of the copies."""
        self.taken = True
        self.variables.load(of_all(self.model, saved))
        self.new_events()  # those of a start that was not
