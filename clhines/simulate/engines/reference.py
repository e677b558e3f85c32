"""A network advanced with NumPy in float64: the truth for the executors on devices."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from clhines import reference
from clhines.arrays import ranges
from clhines.mechanisms.emit.noise import normal
from clhines.model.model import Model
from clhines.model.schema import Field
from clhines.simulate.engines.run import Mark, values_now
from clhines.simulate.records.records import Record, is_current
from clhines.simulate.records.reduced import HostReducer, HostReducers
from clhines.simulate.state.decisions import Decisions
from clhines.simulate.state.state import Chunk


class ReferenceRun:
    """Advance a model on the host.

    Parameters
    ----------
    model : Model
    decisions : Decisions, optional
        Of the whole network, where `model` is a part of it; default: of `model`.
    """

    def __init__(self, model: Model, decisions: Decisions | None = None) -> None:
        decisions = decisions or Decisions.of(model)
        self.model, self._split = model, decisions.split
        self.dtype = np.dtype(np.float64)
        self.max_steps = decisions.epoch if decisions.split else 1
        self.records: list[Record] = []
        self.slots, self.scale = decisions.slots, decisions.scale
        self.connections = model.connections
        self.weight = self.connections.weight.copy()
        self._post = model.cell_of_target()[model.connections.target]
        cells = decisions.num_cells
        self._trace = {which: np.zeros(cells) for which in ("pre", "post")}
        self._last = {which: np.zeros(cells, np.int32) for which in ("pre", "post")}
        self.incoming = np.zeros((self.slots, model.num_targets), np.int64)
        self.v = model.v_init.copy()
        self.states = model.initial_states()
        self.failed = np.zeros(model.forest.num_cells, np.int32)
        self._order = reference.elimination_steps(model.forest)
        self._parameters = [kind.arrays() for kind in model.kinds]
        self._spikes: list[tuple[int, np.ndarray]] = []
        self._reducers = HostReducers(lambda record: HostReducer(record, model))
        self._rows: list[list[np.ndarray]] = []
        self._told, self._first = 0, 0
        self._i: dict[int, np.ndarray] = {}  # currents of each kind in the step

    @property
    def device(self) -> None:
        """None: it is the host."""

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        """Begin a chunk of so many steps."""
        self._reducers.begin(records)
        self.records = self._reducers.sources
        self._rows, self._spikes, self._told = [[] for _ in self.records], [], 0

    def advance(self, first: int, count: int, row: int) -> None:
        """Take `count` steps from step `first`; the first is recorded in `row`."""
        if row == 0:
            self._first = first
        with np.errstate(all="ignore"):  # `failed` finds values that are not finite
            for step in range(first, first + count):
                self._step(step)
                self.record()

    def record(self) -> None:
        """Record the voltages and states as they are."""
        for rows, record in zip(self._rows, self.records, strict=True):
            if is_current(record, self.model):
                source = self._i[record.kind]
            else:
                source = self.v if record.kind < 0 else self.states[record.kind][record.name]
            rows.append(source[record.index])

    def end(self) -> Chunk:
        """Return the spikes, failures and records since `begin`."""
        step = [np.full(len(cells), step) for step, cells in self._spikes]
        return Chunk(
            spike_step=np.concatenate([np.zeros(0, np.int64), *step]),
            spike_cell=np.concatenate([np.zeros(0, np.int64), *(c for _, c in self._spikes)]),
            failed=self.failed.copy(),
            values=self._reducers.chunk(self._rows, self._first),
        )

    def _step(self, step: int) -> None:
        model, v = self.model, self.v
        self._receive(step)
        g, i = self._currents(step)
        over_dt = model.capacitance_over_dt
        d = over_dt + model.constant_d + g
        b = over_dt * v + model.constant_b + (g * v - i)
        x, _ = reference.solve_with_pivots(model.forest, d, model.u, b, steps=self._order)
        self.v = 2 * x - v if model.secondorder else x
        begin = step * model.dt
        for k, kind in enumerate(model.kinds):
            if kind.mechanism.states:
                args = self.v[kind.node], begin, model.dt
                self.states[k] = kind.mechanism.advance(*args, self._parameters[k], self.states[k])
        self._find_spikes(step, v[model.soma], self.v[model.soma])

    def _receive(self, step: int) -> None:
        """Run the event actions that are due."""
        model, slot = self.model, self.incoming[step % self.slots]
        now = slice(*np.searchsorted(model.events.step, [step, step + 1]))
        weight = np.rint(model.events.weight[now] / self.scale).astype(np.int64)
        np.add.at(slot, model.events.target[now], weight)
        for k, kind in enumerate(model.kinds):
            if kind.first_target < 0:
                continue
            summed = slot[kind.first_target : kind.first_target + kind.count]
            hit = np.flatnonzero(summed)
            if not len(hit):
                continue
            parameters = {name: a[hit] for name, a in self._parameters[k].items()}
            states = {name: a[hit] for name, a in self.states[k].items()}
            changed = kind.mechanism.event(summed[hit] * self.scale, parameters, states)
            for name, values in changed.items():
                self.states[k][name] = self.states[k][name].copy()
                self.states[k][name][hit] = values
        slot[:] = 0

    def _currents(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """(n,) sums of conductance, µS, and current, nA, of all kinds at each node."""
        model, n = self.model, self.model.forest.num_nodes
        g_sum, i_sum = np.zeros(n), np.zeros(n)
        for k, kind in enumerate(model.kinds):
            noise = None
            if kind.mechanism.uses_noise:
                instance = kind.first_instance + np.arange(kind.count)
                noise = normal(model.seed, instance, step)
            t = (step + 0.5) * model.dt
            args = self.v[kind.node], t, self._parameters[k], self.states[k]
            i, g = kind.mechanism.current(*args, noise, model.dt)
            self._i[k] = i
            g_sum += np.bincount(kind.node, kind.factor * g, n)
            i_sum += np.bincount(kind.node, kind.factor * i, n)
        return g_sum, i_sum

    def _find_spikes(self, step: int, before: np.ndarray, after: np.ndarray) -> None:
        model = self.model
        self.failed[(self.failed == 0) & ~np.isfinite(after)] = step + 1
        cells = np.flatnonzero((before <= model.threshold) & (after > model.threshold))
        if not len(cells):
            return
        self._spikes.append((step, cells))
        if not self._split:
            self._send(step, cells)

    def note_spikes(self) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
        """Note the spikes found so far; see `PartRun`."""
        return partial(self._noted_before, len(self._spikes))

    def _noted_before(self, end: int) -> tuple[np.ndarray, np.ndarray]:
        found, self._told = self._spikes[self._told : end], end
        none = [np.zeros(0, np.int64)]
        cells = np.concatenate(none + [cells for _, cells in found])
        return cells, np.concatenate(none + [np.full(len(c), step) for step, c in found])

    def send(self, source: np.ndarray, step: np.ndarray, first: int, count: int) -> None:
        """Deliver spikes of the whole network, of which this is a part."""
        for s in np.unique(step).tolist():
            self._send(s, np.sort(source[step == s]))

    def _send(self, step: int, cells: np.ndarray) -> None:
        known = self.connections
        begin = known.row[cells]
        sent = known.order[ranges(begin, known.row[cells + 1] - begin)]
        self._change("minus", sent, cells, step)
        slot = (step + 1 + known.delay[sent]) % self.slots
        weight = np.rint(self.weight[sent] / self.scale).astype(np.int64)
        np.add.at(self.incoming, (slot, known.target[sent]), weight)
        self._change("plus", np.flatnonzero(np.isin(self._post, cells)), cells, step)

    def _change(self, which: str, connections: np.ndarray, cells: np.ndarray, step: int) -> None:
        """Change plastic weights of connections from (minus) or to (plus) cells that spike."""
        rule, given = self.model.connections.rule, self.model.connections
        if rule is None:
            return
        minus = which == "minus"
        tau, ends = (rule.tau_minus, self._post) if minus else (rule.tau_plus, given.source)
        some = connections[given.plastic[connections]]
        if not minus:  # spikes of this step count at once
            self._count("pre", cells, step, rule.tau_plus)
        other = "post" if minus else "pre"
        trace, last = self._trace[other], self._last[other]
        sums = trace[ends[some]] * np.exp((last[ends[some]] - step) * (self.model.dt / tau))
        change = -rule.a_minus * sums if minus else rule.a_plus * sums
        self.weight[some] = np.clip(self.weight[some] + change, rule.w_min, rule.w_max)
        if not minus:
            self._count("post", cells, step, rule.tau_minus)

    def _count(self, which: str, cells: np.ndarray, step: int, tau: float) -> None:
        """Add 1 to the traces of cells that spike."""
        trace, last = self._trace[which], self._last[which]
        trace[cells] = trace[cells] * np.exp((last[cells] - step) * (self.model.dt / tau)) + 1
        last[cells] = step

    def mark(self) -> float:
        """Return a mark of this moment, for `seconds`."""
        return time.perf_counter()

    def seconds(self, marks: Sequence[Mark]) -> list[float]:
        """Return the moments, s."""
        return list(marks)

    def deliver(self, first: int, count: int) -> None:
        """Do nothing: spikes were sent in their step."""

    def voltages(self) -> np.ndarray:
        """(n,) float64, mV: in natural order."""
        return self.v.copy()

    def weights(self) -> np.ndarray:
        """(m,) float64: of all connections, as they are now."""
        return self.weight.copy()

    def now(self, records: Sequence[Record], step: int) -> list[np.ndarray]:
        """Values of records as they are, (1, r) each."""
        self._reducers.begin(records)
        return self._reducers.now(values_now(self, self.model, self._reducers.sources), step)

    def save(self) -> dict[str, np.ndarray]:
        """Arrays that `load` takes."""
        return {f.key: self._owner(f)[f.name].copy() for f in self.model.schema}

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Continue from the arrays of `save`."""
        for field in self.model.schema:
            self._owner(field)[field.name] = saved[field.key].copy()

    def _owner(self, field: Field) -> dict[str, np.ndarray]:
        """Return the dict that has the array of a field, by the field's name."""
        if field.kind is not None:
            return self.states[field.kind]
        if field.what == "plastic_trace":
            return self._trace
        return self._last if field.what == "plastic_step" else vars(self)
