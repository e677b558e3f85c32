"""NEURON's recording vectors, filled from a run of a `Simulation`."""

from __future__ import annotations

import numpy as np

from clhines.mechanisms.mechanism import Mechanism
from clhines.neuron.convert import Rejected, RejectedError
from clhines.neuron.importer import Imported, split_name
from clhines.neuron.memory.places import ION
from clhines.neuron.memory.session import Hoc
from clhines.neuron.read.played import Recorder
from clhines.simulate.result import Result
from clhines.simulate.simulation import Simulation

BEFORE_STEPS = {"before_initial", "initial", "after_initial"}  # blocks
SPIKE_LATE = 1e-10  # ms, which NEURON adds to the time at which a voltage crosses a threshold


def clock(t: float, dt: float, steps: int) -> np.ndarray:
    """Return NEURON's times, (steps + 1,) float64, ms; each step adds two halves."""
    halves = np.full(2 * steps + 1, 0.5 * dt)
    halves[0] = t
    return np.cumsum(halves)[::2]


def last_delivery(t: float, dt: float, steps: int) -> float:
    """Return up to when NEURON has delivered events after some steps from t, ms.

    It delivers at the begin of each step what comes up to the middle of it.
    """
    halves = np.full(2 * steps, 0.5 * dt)
    halves[0] = t
    return float(np.cumsum(halves)[-1])


def _changes(mechanism: Mechanism, output: str) -> bool:
    """Whether a block after INITIAL sets an output."""
    return any(
        a.role == "output" and a.name == output
        for block in mechanism.program.blocks
        if block not in BEFORE_STEPS
        for a in mechanism.calls(block, (output,))
    )


class Records:
    """Lets a simulation record what NEURON's vectors record, and fills them.

    A RejectedError says that a vector records what a simulation does not have.
    """

    def __init__(self, sim: Simulation, imported: Imported) -> None:
        self._sim, self._imported = sim, imported
        wanted: dict[tuple[str, str], list[int]] = {}
        self._at: list[tuple[tuple[str, str], int] | float] = []
        for recorder in imported.model.plays.recorders:
            key = self._key(recorder)
            if isinstance(key, float):
                self._at.append(key)
                continue
            assert recorder.variable is not None
            numbers = wanted.setdefault(key, [])
            self._at.append((key, len(numbers)))
            numbers.append(recorder.variable.number)
        self._records = {key: self._record(key, np.array(n)) for key, n in wanted.items()}

    def _key(self, recorder: Recorder) -> tuple[str, str] | float:
        """Return owner and name of what is recorded, or the value that it keeps."""
        variable = recorder.variable
        if variable is None:
            return 0.0  # the time
        imported = self._imported
        ions = {ion.name + ION for ion in imported.model.contents.ions.values()}
        if not variable.owner or variable.owner in ions:
            return variable.owner, variable.name
        if variable.owner not in imported.groups or variable.number < 0:
            what = f"Vector.record of {variable.name}, which is not simulated"
            raise RejectedError([Rejected(variable.owner, what)])
        mechanism = imported.groups[variable.owner].mechanism
        program = mechanism.program
        played = {(p.variable.owner, p.variable.name) for p in imported.model.plays.players}
        known = (*program.states, *(q for q in program.outputs if _changes(mechanism, q.name)))
        if (variable.owner, variable.name) in played:
            known = (*known, *program.parameters)
        for quantity in known:
            if split_name(quantity) == (variable.name, variable.place):
                return variable.owner, quantity.name
        every = imported.model.every[variable.owner]
        value = getattr(every.things[variable.number], variable.name)
        return float(value if variable.place is None else value[variable.place])

    def _record(self, key: tuple[str, str], numbers: np.ndarray) -> int:
        owner, name = key
        if owner in self._imported.groups:
            return self._sim.record(name, self._imported.groups[owner], numbers)
        instances = [i.instances for i in self._imported.model.contents.ions.values()
                     if i.name + ION == owner]  # fmt: skip
        nodes = np.array(instances[0].nodes)[numbers] if instances else numbers
        return self._sim.record(name, nodes)

    def fill(self, result: Result, begin: float, first: int) -> None:
        """Append a run to all vectors; `begin` is NEURON's time at its begin, ms.

        `first` rows of the result are before its first step: 1 where it began at t = 0.
        """
        steps = len(result.t) - first
        t = clock(begin, self._sim.model.dt, steps)
        for recorder, at in zip(self._imported.model.plays.recorders, self._at, strict=True):
            if isinstance(at, float):
                values = t[1:] if recorder.variable is None else np.full(steps, at)
            else:
                record, column = self._records[at[0]], at[1]
                values = result[record][first:, column].astype(np.float64)
                if recorder.place is not None and recorder.place.row and len(values):  # once more
                    self._imported.model.memory.set_value(recorder.place, float(values[-1]))
            self._append(recorder, values, t)

    def _append(self, recorder: Recorder, values: np.ndarray, t: np.ndarray) -> None:
        h, vector = self._imported.model.h, recorder.vector
        if recorder.event:
            due = self._due(recorder, t)
            rows = np.searchsorted(t + 0.5 * self._sim.model.dt, due)
            if recorder.variable is None:
                values = due
            else:
                values = np.concatenate([[recorder.now], values])[rows]
        if len(values):
            vector.append(h.Vector(values))

    def _due(self, recorder: Recorder, t: np.ndarray) -> np.ndarray:
        """(k,) float64, ms: times up to the last at which a recorder records, and set its event."""
        queue = self._imported.model.queue
        events = [e for e in queue.events() if e.address == recorder.event]
        if not events:
            return np.zeros(0)
        event, last = events[0], t[-1]
        if recorder.times is not None:
            rest = recorder.times[len(recorder.vector) :]
            due = rest[rest <= last]
            after = rest[len(due) : len(due) + 1]
        else:
            count = max(int((last - event.time) / recorder.interval) + 2, 1)
            every = np.full(count + 1, recorder.interval)
            every[0] = event.time
            every = np.cumsum(every)
            due = every[every <= last]
            after = every[len(due) : len(due) + 1]
        if not len(after):
            queue.remove(event.item)
        elif len(due):
            queue.move(event.item, float(after[0]))
        return due

    def fill_spikes(self, result: Result, begin: float, after: float, last: float) -> None:
        """Append the events of a run to the vectors that record sources; times are in ms.

        NEURON has recorded events itself up to `after`; `last` is as `last_delivery` has it. NEURON
        sees at the begin of a step what has crossed a threshold in the step before: what did so
        before the run counts, what does so in its last step does not yet.
        """
        imported = self._imported
        h, network, trains = imported.model.h, imported.network, imported.model.trains.times
        every: dict[int, list[tuple[float, int]]] = {}
        identifiers: dict[int, Hoc] = {}
        vectors, order = imported.model.plays.vectors, np.argsort(result.spike_cell, kind="stable")
        spike_time, cells = result.spike_time[order], result.spike_cell[order]
        for (source, k), origin in zip(imported.sources, imported.model.wires.origins, strict=True):
            if origin.times not in vectors:
                continue
            number = int(network.source_numbers(source, [k])[0])
            late = SPIKE_LATE if origin.sender is None else 0.0
            first, end = np.searchsorted(cells, [number, number + 1])
            own = spike_time[first:end] + late
            own = own[own > after]
            if origin.sender is None:
                own = own[own < last]
            elif origin.sender in trains:
                own = trains[origin.sender][trains[origin.sender] <= last]
            if number in self._imported.crossed:
                own = np.append(begin + late, own)
            pairs = every.setdefault(origin.times, [])
            pairs += [(t, origin.record_as) for t in own.tolist()]
            identifiers[origin.times] = vectors.get(origin.numbers)
        for key, found in every.items():
            found.sort(key=lambda pair: pair[0])
            if found:
                vectors[key].append(h.Vector([t for t, _ in found]))
            if found and identifiers[key] is not None:
                identifiers[key].append(h.Vector([k for _, k in found]))
