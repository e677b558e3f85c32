"""Record the variables of NEURON's recording Vectors in a simulation, and fill the Vectors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from clhines.neuron.calls import clock
from clhines.neuron.convert import rejection, split_name
from clhines.neuron.importer import NeuronNetwork
from clhines.neuron.read.catalogue import OUTSIDE
from clhines.neuron.read.places import ELEMENT, ION, Variable
from clhines.neuron.read.played import Recorder
from clhines.neuron.read.wiring import Origin
from clhines.simulator.importing import SPIKE_LATE
from clhines.simulator.mechanisms import SET, SET_AT, Mechanism
from clhines.simulator.result import Result
from clhines.simulator.simulation import Simulation

_V = "", "v"
_MEMBRANE, _VEXT = (OUTSIDE, "i_membrane"), (OUTSIDE, "vext")
BEFORE_STEPS = {"before_initial", "initial", "after_initial"}  # blocks that no step runs


def changes(mechanism: Mechanism, output: str) -> bool:
    """Whether `mechanism` sets its variable `output` during steps, not only before them."""
    return any(
        a.role == "output" and a.name == output
        for block in mechanism.program.blocks
        if block not in BEFORE_STEPS
        for a in mechanism.calls(block, (output,))
    )


def due_times(
    recorder: Recorder, first: float, count: int, last: float
) -> tuple[np.ndarray, float]:
    """Return a Vector's recording times from `first` to `last` ms, and the first time after `last`.

    The Vector records at intervals or at listed times, and has `count` numbers already. The times
    are (k,) float64; the time after `last` is inf if there is none.
    """
    if recorder.times is not None:
        every = recorder.times[count:]
    else:
        every = np.full(max(int((last - first) / recorder.interval) + 2, 1) + 1, recorder.interval)
        every[0] = first
        every = np.cumsum(every)
    due = every[every <= last]
    after = every[len(due) : len(due) + 1]
    return due, float(after[0]) if len(after) else np.inf


def sampled(
    recorder: Recorder, due: np.ndarray, t: np.ndarray, values: np.ndarray, dt: float
) -> np.ndarray:
    """Return the numbers that a Vector records at times `due`, ms, in a run, (k,) float64.

    `values` is the variable at step ends, (steps,). `t` has the run's begin and the step ends, ms,
    (steps + 1,).
    """
    if recorder.variable is not None:
        return np.concatenate([[recorder.now], values])[np.searchsorted(t + 0.5 * dt, due)]
    # at a Vector's times NEURON appends h.t, which it sets after a step's events
    last_begin = np.maximum(np.searchsorted(t, due) - 1, 0)
    return due if recorder.times is None else t[last_begin]


class Records:
    """Record the variables of `recorders` (default: NEURON's) in a simulation, and fill Vectors."""

    def __init__(
        self, sim: Simulation, imported: NeuronNetwork, recorders: Sequence[Recorder] | None = None
    ) -> None:
        self._sim, self._imported = sim, imported
        self._recorders = imported.model.plays.recorders if recorders is None else recorders
        wanted: dict[tuple[str, str], list[int]] = {}
        self._at: list[tuple[tuple[str, str], int] | None] = []
        gaps = {(gap.owner, gap.name, gap.instance): gap.node for gap in imported.model.gaps}
        for recorder in self._recorders:
            variable = self._outer(self._transferred(recorder.variable, gaps))
            key = self._key(variable)
            if key is None or variable is None:
                self._at.append(None)
                continue
            numbers = wanted.setdefault(key, [])
            self._at.append((key, len(numbers)))
            numbers.append(variable.number)
        outside = imported.model.contents.outside
        self._membranes = np.zeros(0, np.int64)
        if outside is not None:
            self._membranes = outside.nodes[wanted.get(_MEMBRANE, [])]
        self._records = {key: self._record(key, np.array(n)) for key, n in wanted.items()}
        self._setters = [g for g in imported.groups.values() if g.mechanism.program.sets_v]
        self._nodes = np.array(wanted.get(_V, []), np.int64)
        self._set = [*map(self._set_by, self._recorders, self._at)]
        self._sizes: dict[int, int] = {}  # of each Vector of spikes after the last call

    def _transferred(
        self, variable: Variable | None, gaps: dict[tuple[str, str, int], int]
    ) -> Variable | None:
        """Return the voltage that `target_var` copies into `variable`, otherwise `variable`.

        `gaps` has the node of the copied voltage, by the variable's owner, name and instance.
        """
        if (
            variable is None
            or (key := (variable.owner, variable.name, variable.number)) not in gaps
        ):
            return variable
        if gaps[key] not in self._imported.model.nodes:
            raise rejection(variable.owner, "neuron.vector-record-target-var", name=variable.name)
        return Variable("", "v", gaps[key] - self._imported.model.nodes.start)

    def _outer(self, variable: Variable | None) -> Variable | None:
        """Return, for vext of a layer, the voltage of the layer's node; else `variable` itself."""
        contents, layers = self._imported.model.contents, self._imported.model.tree.layers
        if variable is None or layers is None or (variable.owner, variable.name) != _VEXT:
            return variable
        assert contents.outside is not None
        node = contents.outside.nodes[variable.number]
        return Variable("", "v", int(layers.at(node, variable.place or 0)))

    def _key(self, variable: Variable | None) -> tuple[str, str] | None:
        """Return the owner and name to record a variable; None for time and constants."""
        if variable is None:
            return None
        imported = self._imported
        ions = {ion.name + ION for ion in imported.model.contents.ions.values()}
        if variable.owner == ELEMENT:  # named by its group's number
            has_element = [variable.number in addresses for _, addresses in imported.elements]
            return ELEMENT, str(has_element.index(True))
        if not variable.owner or variable.owner in ions:
            return variable.owner, variable.name
        if variable.owner == OUTSIDE:
            return _MEMBRANE if variable.name == _MEMBRANE[1] else None
        if variable.owner not in imported.groups or variable.number < 0:
            owner, name = variable.owner, variable.name
            raise rejection(owner, "neuron.vector-record-not-simulated", name=name)
        return self._changing(variable)

    def _changing(self, variable: Variable) -> tuple[str, str] | None:
        """Return owner and quantity of a mechanism's variable; None if no run changes it."""
        group, model = self._imported.groups[variable.owner], self._sim.model
        mechanism, (kind, _) = group.mechanism, model.instances[group.number]
        program = mechanism.program
        played = {p.parameter for p in model.played if p.kind == kind}
        quantities = (*program.states, *(q for q in program.outputs if changes(mechanism, q.name)))
        quantities = (*quantities, *(q for q in program.parameters if q.name in played))
        for quantity in quantities:
            if split_name(quantity) == (variable.name, variable.place):
                return variable.owner, quantity.name
        return None

    def _kept(self, recorder: Recorder) -> float:
        variable = recorder.variable
        if variable is None or variable.owner != OUTSIDE:
            return recorder.now
        return float(self._imported.model.outside.potentials()[variable.number])

    def _set_by(
        self, recorder: Recorder, at: tuple[tuple[str, str], int] | None
    ) -> tuple[int, int] | None:
        """If a Vector samples a variable that events set, record the last event's value and time.

        ``at[0]`` is the variable's owner and name. NEURON samples after events of WATCH conditions;
        rounding decides about other events at that time. Return the two records' numbers, or None
        without events.
        """
        variable = recorder.variable
        if not recorder.event or variable is None or at is None:
            return None
        owner, name = at[0]
        if at[0] == _V:
            groups = [g for g in self._setters if np.isin(variable.number, g.nodes)]
        else:
            groups = [self._imported.groups[owner]] if owner in self._imported.groups else []
            groups = [g for g in groups if name in g.mechanism.program.received]
        if not groups:
            return None
        (group, *_), program = groups, groups[0].mechanism.program
        if name in program.late or not program.sets_v:
            raise rejection(group.mechanism.name, "neuron.vector-record-set-by-events", name=name)
        index = np.flatnonzero(group.nodes == variable.number) if at[0] == _V else variable.number
        at_index = group, np.atleast_1d(index)
        return self._sim.record(SET.format(name), *at_index), self._sim.record(SET_AT, *at_index)

    def _record(self, key: tuple[str, str], numbers: np.ndarray) -> int:
        owner, name = key
        if owner in self._imported.groups:
            return self._sim.record(name, self._imported.groups[owner], numbers)
        if owner == ELEMENT:
            group, addresses = self._imported.elements[int(name)]
            (state,) = group.mechanism.program.states
            element_index = {n: k for k, n in enumerate(addresses)}
            return self._sim.record(state.name, group, [element_index[n] for n in numbers.tolist()])
        if key == _MEMBRANE:
            return self._sim.record(name, self._membranes)
        instances = [i.instances for i in self._imported.model.contents.ions.values()
                     if i.name + ION == owner]  # fmt: skip
        nodes = np.array(instances[0].nodes)[numbers] if instances else numbers
        return self._sim.record(name, nodes)

    def voltages(self, result: Result) -> tuple[np.ndarray, np.ndarray]:
        """Return the nodes whose voltage is recorded, (k,) int64, and voltages (mV, steps, k)."""
        at = self._records.get(_V)
        nothing = np.zeros(0, np.int64), np.zeros((0, 0))
        return nothing if at is None else (self._nodes, result[at])

    def rows(self, result: Result, first: int) -> list[np.ndarray | None]:
        """Return each recorder's values from row `first` on; None for recorders of the time."""
        rows = {k: result[n][first:].astype(np.float64) for k, n in self._records.items()}
        if _MEMBRANE in rows:  # nA
            rows[_MEMBRANE] *= 100 / self._imported.model.tree.area[self._membranes]
        stay = len(result.t) - first
        return [
            rows[at[0]][:, at[1]]
            if at is not None
            else None
            if recorder.variable is None
            else np.full(stay, self._kept(recorder))
            for recorder, at in zip(self._recorders, self._at, strict=True)
        ]

    def fill(self, result: Result, begin: float, first: int) -> None:
        """Append rows of `result`, from row `first` and time `begin` (ms) on, to all Vectors."""
        t = clock(begin, self._sim.model.dt, len(result.t) - first)
        rows = self.rows(result, first)
        every = zip(self._recorders, self._at, rows, self._set, strict=True)
        for recorder, at, row, set_rows in every:
            after = None if set_rows is None else tuple(result[n][first:, 0] for n in set_rows)
            values = t[1:] if row is None else row
            if at is not None and recorder.place is not None and recorder.place.row and len(values):
                # recorded ASSIGNED variables go on in NEURON; `put_values` writes states only
                self._imported.model.memory.number(recorder.place).value = float(values[-1])
            self._append(recorder, values, t, after)

    def _append(
        self,
        recorder: Recorder,
        values: np.ndarray,
        t: np.ndarray,
        after: tuple[np.ndarray, ...] | None,
    ) -> None:
        vector = recorder.vector
        if recorder.event:
            due, dt = self._due(recorder, t), self._sim.model.dt
            values = sampled(recorder, due, t, values, dt)
            if after is not None:  # set by an event in the step that begins at a row
                rows = np.searchsorted(t + 0.5 * dt, due)
                later = np.flatnonzero(due > t[rows])
                of_v, of_t = (a[rows[later]] for a in after)
                is_set = of_t > t[rows[later]] - 0.25 * dt
                values[later] = np.where(is_set, of_v, values[later])
        if len(values):
            size = len(vector)
            vector.resize(size + len(values))
            vector.as_numpy()[size:] = values

    def _due(self, recorder: Recorder, t: np.ndarray) -> np.ndarray:
        """Return the times (ms) at which a Vector records within `t`; make NEURON skip them."""
        queue = self._imported.model.queue
        events = [e for e in queue.events() if e.address == recorder.event]
        if not events:
            return np.zeros(0)
        due, after = due_times(recorder, events[0].time, len(recorder.vector), t[-1])
        if after == np.inf:
            queue.remove(events[0].item)
        elif len(due):
            queue.move(events[0].item, after)
        return due

    def spikes(
        self, result: Result, begin: float, after: float, last: float
    ) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """Return (address, event times in ms, entries to append) for each recording Vector.

        The entries are times or source numbers. The run began at `begin` (ms). The Vectors already
        have the events up to `after`; NEURON has delivered those up to `last`. It detects a
        crossing at the begin of the next step. So crossings in the step before the run count, and
        crossings in its last step do not count yet.
        """
        vectors = self._imported.model.plays.vectors
        every: dict[int, list[tuple[float, int]]] = {}
        identifiers: dict[int, int] = {}
        wanted = [o for o in self._imported.model.wires.origins if o.times in vectors]
        for origin, times in self._sent(result, begin, after, wanted):
            if origin.sender is None:
                times = times[times < last]
            elif origin.sender in self._imported.model.trains.times:
                times = times[times <= last]
            pairs = every.setdefault(origin.times, [])
            pairs += [(t, origin.record_as) for t in times.tolist()]
            identifiers[origin.times] = origin.numbers
        appended = list[tuple[int, np.ndarray, np.ndarray]]()
        for vector, events in every.items():
            numbered = identifiers[vector] in vectors
            if self._may_lack or len(vectors[vector]) > self._sizes.get(vector, math.inf):
                events = self._unrecorded(vector, identifiers[vector] * numbered, events, after)
            if not events:
                continue
            t, numbers = np.array(sorted(events, key=lambda pair: pair[0])).T
            appended.append((vector, t, t))
            if numbered:
                appended.append((identifiers[vector], t, numbers))
        new = {vector: len(values) for vector, _, values in appended}
        self._sizes = {vector: len(vectors[vector]) + new.get(vector, 0) for vector in every}
        return appended

    @property
    def _may_lack(self) -> bool:
        """Whether NEURON may have recorded only some of the events at its present time.

        Events of WATCH conditions and events in NEURON's bins wait for the begin of a step.
        """
        return bool(self._imported.model.watched) or self._imported.model.bins is not None

    def _sent(
        self, result: Result, begin: float, after: float, wanted: Sequence[Origin]
    ) -> Iterator[tuple[Origin, np.ndarray]]:
        """Yield each of the `wanted` sources, with its events (ms) not yet recorded by `after`."""
        imported = self._imported
        trains, order = imported.model.trains.times, np.argsort(result.spike_cell, kind="stable")
        spike_time, cells = result.spike_time[order], result.spike_cell[order]
        chosen = {id(origin) for origin in wanted}
        dt = self._sim.model.dt  # h.t, which a script may set, differs from a sum from 0 ms
        clocked = clock(begin, dt, max(round((result.t[-1] - begin) / dt), 0))
        origins = imported.model.wires.origins
        for number, origin in zip(imported.numbers.tolist(), origins, strict=True):
            if id(origin) not in chosen:
                continue
            late = SPIKE_LATE if origin.sender is None else 0.0
            first, end = np.searchsorted(cells, [number, number + 1])
            times = spike_time[first:end] + late
            if origin.sender is None:  # at the end of a step
                step = np.rint((times - begin) / dt).astype(np.int64)
                times = np.where(step < 0, times, clocked[np.maximum(step, 0)] + late)
                if abs(begin) < dt / 2:
                    times = times[step != 0]  # NEURON itself records those of its first state
            may_lack = self._may_lack and origin.sender is not None
            times = times[times >= after - SPIKE_LATE if may_lack else times > after]
            if origin.sender in trains:
                times = trains[origin.sender]
            if number in imported.crossed:
                times = np.append(begin + late, times)
            yield origin, times

    def _unrecorded(
        self, vector: int, identifiers: int, events: list[tuple[float, int]], after: float
    ) -> list[tuple[float, int]]:
        """Return the events (time, number) that NEURON, which is at time `after`, has not recorded.

        `vector` and `identifiers` are addresses of the Vectors for times and numbers, 0 for none. A
        net_event in NEURON's steps after the last call may have recorded an event of a later time.
        """
        vectors = self._imported.model.plays.vectors
        times = np.array(vectors[vector])
        numbers = np.array(vectors[identifiers])[: len(times)] if identifiers else 0 * times
        times = times[: len(numbers)]
        is_known = np.arange(len(times)) >= self._sizes.get(vector, len(times))
        is_known &= times > after
        if self._may_lack:
            is_known |= np.abs(times - after) <= SPIKE_LATE
        recorded = [*zip(times[is_known].tolist(), numbers[is_known].tolist(), strict=True)]
        latest = max(recorded, default=(-math.inf, 0))[0] + 2 * SPIKE_LATE
        unrecorded = []
        for t, number in events:
            key = number if identifiers else 0
            alike = recorded if t <= latest else []
            same = [one for one in alike if one[1] == key and abs(one[0] - t) <= 2 * SPIKE_LATE]
            if same:
                recorded.remove(same[0])
            else:
                unrecorded.append((t, number))
        return unrecorded
