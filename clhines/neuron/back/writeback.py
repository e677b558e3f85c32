"""Results of a run into NEURON's memory: recording vectors, events on their way, and warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from clhines.core.arrays import half_steps, ranges
from clhines.core.errors import say_to_caller
from clhines.neuron.back.states import Arrays, check_numbers, voltages
from clhines.neuron.calls import clock
from clhines.neuron.convert import Rejected, RejectedError, split_name
from clhines.neuron.importer import Imported
from clhines.neuron.memory.catalogue import OUTSIDE
from clhines.neuron.read.contents import Instances
from clhines.neuron.read.places import CAPACITIVE, ELEMENT, ION, OF_HOC, Variable
from clhines.neuron.read.played import Recorder
from clhines.neuron.read.trains import held_vector
from clhines.neuron.read.tree import CAPACITANCE
from clhines.neuron.read.wiring import Origin
from clhines.simulator.importing import SPIKE_LATE, check_rings, rings_of
from clhines.simulator.mechanisms import SET, SET_AT, Mechanism
from clhines.simulator.mechanisms.nmodl import counts_crossings
from clhines.simulator.refusals import refusal
from clhines.simulator.result import Result
from clhines.simulator.simulation import Simulation

_CHARGED = "", CAPACITIVE
_V = "", "v"
_MEMBRANE, _VEXT = (OUTSIDE, "i_membrane"), (OUTSIDE, "vext")
NEAR = 1e-6  # steps: times that differ by rounding
BEFORE_STEPS = {"before_initial", "initial", "after_initial"}  # blocks
# mV: from here on v + 0.001 mV, with which NEURON makes conductances, is rounded by 2^-23 of the
# difference and more, as in float32; ten million times further away nothing of it is left
FAR = 2.0**20


def last_delivery(t: float, dt: float, steps: int) -> float:
    """Time, ms, up to which NEURON has delivered after some steps: the middle of the last."""
    if not steps:
        return t - 0.5 * dt
    return float(half_steps(t, dt, 2 * steps - 1)[-1])


def changes(mechanism: Mechanism, output: str) -> bool:
    """Whether a block of steps sets an output."""
    return any(
        a.role == "output" and a.name == output
        for block in mechanism.program.blocks
        if block not in BEFORE_STEPS
        for a in mechanism.calls(block, (output,))
    )


def due_times(
    recorder: Recorder, first: float, count: int, last: float
) -> tuple[np.ndarray, float]:
    """Return when one at intervals or times records, (k,) float64, ms, up to `last`; and the next.

    `first`, ms: when its event comes; `count`: the numbers that its Vector has then. The next time
    is inf where there is none.
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
    """Return what is recorded at times `due`, (k,) float64.

    `values` (steps,) of a run are those at `t` (steps + 1,), ms, after the first.
    """
    if recorder.variable is not None:
        return np.concatenate([[recorder.now], values])[np.searchsorted(t + 0.5 * dt, due)]
    # at times of a Vector NEURON appends h.t, which it sets behind the events of a step
    behind = np.maximum(np.searchsorted(t, due) - 1, 0)
    return due if recorder.times is None else t[behind]


class Records:
    """Lets a simulation record what NEURON's vectors record, or others, and fills them."""

    def __init__(
        self, sim: Simulation, imported: Imported, recorders: Sequence[Recorder] | None = None
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
        self._charged = np.array(wanted.get(_CHARGED, []), np.int64)
        self._nodes = np.array(wanted.get(_V, []), np.int64)
        if self._charged.size:
            self._check_charged()
        set_by = map(self._set_by, self._recorders, self._at)
        self._set = dict(enumerate(set_by))

    def _check_charged(self) -> None:
        what = f"Vector.record of {CAPACITIVE}"
        if self._setters:
            name = self._setters[0].mechanism.name
            raise RejectedError([Rejected(name, refusal("neuron.i-cap-events-set-v", what=what))])
        if self._sim.dtype != np.float64:
            raise RejectedError([Rejected("", refusal("neuron.i-cap-float32", what=what))])

    def _charging(self, v: np.ndarray, first: int, begin: np.ndarray | None) -> np.ndarray:
        """(k, n) float64, mA/cm²: capacitive currents, from voltages of each step."""
        tree, nodes = self._imported.model.tree, self._charged
        begin = voltages(self._imported) if begin is None and not first else begin
        before = v[first - 1] if first or begin is None else begin[nodes]
        cm = tree.capacitance[nodes] / (CAPACITANCE * tree.area[nodes])
        return np.diff(np.vstack([before, v[first:]]), axis=0) * (1e-3 * cm / self._sim.model.dt)

    def _transferred(
        self, variable: Variable | None, gaps: dict[tuple[str, str, int], int]
    ) -> Variable | None:
        """Return the voltage that `target_var` transfers into a variable, within a step."""
        if (
            variable is None
            or (key := (variable.owner, variable.name, variable.number)) not in gaps
        ):
            return variable
        if gaps[key] not in self._imported.model.nodes:
            what = refusal(
                "neuron.vector-record-into-target-var-brings-no-voltage", name=variable.name
            )
            raise RejectedError([Rejected(variable.owner, what)])
        return Variable("", "v", gaps[key] - self._imported.model.nodes.start)

    def _outer(self, variable: Variable | None) -> Variable | None:
        """Return the voltage of the node that has a layer's potential outside."""
        contents, layers = self._imported.model.contents, self._imported.model.tree.layers
        if variable is None or layers is None or (variable.owner, variable.name) != _VEXT:
            return variable
        assert contents.outside is not None
        node = contents.outside.nodes[variable.number]
        return Variable("", "v", int(layers.at(node, variable.place or 0)))

    def _key(self, variable: Variable | None) -> tuple[str, str] | None:
        """Return owner and name of what is recorded; None of the time, and of what stays."""
        if variable is None or variable.owner == OF_HOC:
            return None
        imported = self._imported
        ions = {ion.name + ION for ion in imported.model.contents.ions.values()}
        if variable.owner == ELEMENT:  # by the number of the group that has it
            own = [variable.number in addresses for _, addresses in imported.elements]
            return ELEMENT, str(own.index(True))
        if not variable.owner or variable.owner in ions:
            return variable.owner, variable.name
        if variable.owner == OUTSIDE:
            return _MEMBRANE if variable.name == _MEMBRANE[1] else None
        if variable.owner not in imported.groups or variable.number < 0:
            what = refusal("neuron.vector-record-not-simulated", name=variable.name)
            raise RejectedError([Rejected(variable.owner, what)])
        return self._changing(variable)

    def _changing(self, variable: Variable) -> tuple[str, str] | None:
        """Return owner and name of a mechanism's variable that may change; None if it stays."""
        group, model = self._imported.groups[variable.owner], self._sim.model
        mechanism, (kind, _) = group.mechanism, model.instances[group.number]
        program = mechanism.program
        played = {p.parameter for p in model.played if p.kind == kind}
        known = (*program.states, *(q for q in program.outputs if changes(mechanism, q.name)))
        known = (*known, *(q for q in program.parameters if q.name in played))
        for quantity in known:
            if split_name(quantity) == (variable.name, variable.place):
                return variable.owner, quantity.name
        return None

    def _kept(self, recorder: Recorder) -> float:
        """Value of what stays; of a potential outside, from the first step on."""
        variable = recorder.variable
        if variable is None or variable.owner != OUTSIDE:
            return recorder.now
        return float(self._imported.model.outside.potentials()[variable.number])

    def _set_by(
        self, recorder: Recorder, at: tuple[tuple[str, str], int] | None
    ) -> tuple[int, int] | None:
        """Record what events leave, and when, where one samples what they set.

        NEURON samples at times of a queue, where what a WATCH condition sends comes first; of other
        events those do so whose time is less by as little as rounding.
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
            what = refusal("neuron.vector-record-intervals-times-events-set", name=name)
            raise RejectedError([Rejected(group.mechanism.name, what)])
        at_ = np.flatnonzero(group.nodes == variable.number) if at[0] == _V else variable.number
        of_it, of_t = (
            self._sim.record(made, group, np.atleast_1d(at_)) for made in (SET.format(name), SET_AT)
        )
        return of_it, of_t

    def _record(self, key: tuple[str, str], numbers: np.ndarray) -> int:
        owner, name = key
        if owner in self._imported.groups:
            return self._sim.record(name, self._imported.groups[owner], numbers)
        if owner == ELEMENT:
            group, addresses = self._imported.elements[int(name)]
            (state,) = group.mechanism.program.states
            place = {n: k for k, n in enumerate(addresses)}
            return self._sim.record(state.name, group, [place[n] for n in numbers.tolist()])
        if key == _MEMBRANE:
            return self._sim.record(name, self._membranes)
        instances = [i.instances for i in self._imported.model.contents.ions.values()
                     if i.name + ION == owner]  # fmt: skip
        nodes = np.array(instances[0].nodes)[numbers] if instances else numbers
        return self._sim.record("v" if key == _CHARGED else name, nodes)

    def voltages(self, result: Result) -> tuple[np.ndarray, np.ndarray]:
        """Nodes whose voltage Vectors record, (k,) int64, and their rows in a result, mV."""
        at = self._records.get(_V)
        nothing = np.zeros(0, np.int64), np.zeros((0, 0))
        return nothing if at is None else (self._nodes, result[at])

    def rows(
        self, result: Result, first: int, begin: np.ndarray | None = None
    ) -> list[np.ndarray | None]:
        """Return what each has in a run less its `first` rows, (steps,) float64; None of times.

        `begin`, (nodes,) mV: voltages before it; None where NEURON's memory has them.
        """
        rows = {k: result[n][first:].astype(np.float64) for k, n in self._records.items()}
        if self._charged.size:
            rows[_CHARGED] = self._charging(result[self._records[_CHARGED]], first, begin)
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
        """Append a run from `begin`, ms, to all vectors, less its `first` rows."""
        t = clock(begin, self._sim.model.dt, len(result.t) - first)
        every = zip(self._recorders, self._at, self.rows(result, first), strict=True)
        for k, (recorder, at, row) in enumerate(every):
            own = self._set[k]
            after = None if own is None else tuple(result[n][first:, 0] for n in own)
            values = t[1:] if row is None else row
            if at is not None and recorder.place is not None and recorder.place.row and len(values):
                self._imported.model.memory.set_value(
                    recorder.place, float(values[-1])
                )  # once more
            self._append(recorder, values, t, after)

    def _append(
        self,
        recorder: Recorder,
        values: np.ndarray,
        t: np.ndarray,
        after: tuple[np.ndarray, ...] | None,
    ) -> None:
        vector = recorder.vector
        assert vector is not None
        if recorder.event:
            due, dt = self._due(recorder, t), self._sim.model.dt
            values = sampled(recorder, due, t, values, dt)
            if after is not None:  # by an event of the step that begins at a row
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
        """(k,) float64, ms: times up to the last at which a recorder records, and set its event."""
        queue = self._imported.model.queue
        events = [e for e in queue.events() if e.address == recorder.event]
        if not events:
            return np.zeros(0)
        assert recorder.vector is not None
        due, after = due_times(recorder, events[0].time, len(recorder.vector), t[-1])
        if after == np.inf:
            queue.remove(events[0].item)
        elif len(due):
            queue.move(events[0].item, after)
        return due

    def fill_spikes(self, result: Result, begin: float, after: float, last: float) -> None:
        """Append events, ms, of a run to vectors; NEURON has recorded up to `after` itself."""
        h, vectors = self._imported.model.h, self._imported.model.plays.vectors
        for vector, _, values in self.spikes(result, begin, after, last):
            vectors[vector].append(h.Vector(values))

    def spikes(
        self, result: Result, begin: float, after: float, last: float
    ) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """Return vectors of a run's events by address, times, ms, and what NEURON appends then.

        NEURON sees at the begin of a step what has crossed a threshold in the step before: what did
        so before the run counts, what does so in its last step does not yet.
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
        found = list[tuple[int, np.ndarray, np.ndarray]]()
        for vector, events in every.items():
            numbered = identifiers[vector] in vectors
            if self._may_lack:
                events = self._unrecorded(vector, identifiers[vector] * numbered, events, after)
            if not events:
                continue
            t, numbers = np.array(sorted(events, key=lambda pair: pair[0])).T
            found.append((vector, t, t))
            if numbered:
                found.append((identifiers[vector], t, numbers))
        return found

    @property
    def _may_lack(self) -> bool:
        """Whether NEURON may lack events of its present time, of which it has others.

        WATCH conditions send at the begin of a step, NEURON's bins hold events until then.
        """
        return bool(self._imported.model.watched) or self._imported.model.bins is not None

    def _sent(
        self, result: Result, begin: float, after: float, wanted: Sequence[Origin]
    ) -> Iterator[tuple[Origin, np.ndarray]]:
        """Yield some sources and the times, ms, of events that NEURON has not sent by `after`."""
        imported = self._imported
        trains, order = imported.model.trains.times, np.argsort(result.spike_cell, kind="stable")
        spike_time, cells = result.spike_time[order], result.spike_cell[order]
        chosen = {id(origin) for origin in wanted}
        origins = imported.model.wires.origins
        for number, origin in zip(imported.numbers.tolist(), origins, strict=True):
            if id(origin) not in chosen:
                continue
            late = SPIKE_LATE if origin.is_compared else 0.0
            first, end = np.searchsorted(cells, [number, number + 1])
            times = spike_time[first:end] + late
            may_lack = self._may_lack and not origin.is_compared
            times = times[times >= after - SPIKE_LATE if may_lack else times > after]
            if origin.sender in trains:
                times = trains[origin.sender]
            if number in imported.crossed:
                times = np.append(begin + late, times)
            yield origin, times

    def _unrecorded(
        self, vector: int, identifiers: int, events: list[tuple[float, int]], after: float
    ) -> list[tuple[float, int]]:
        """Return events, times and numbers, but those of the time `after` that NEURON has.

        `vector`, and `identifiers` where it is not 0, are the addresses of its Vectors.
        """
        vectors = self._imported.model.plays.vectors
        times = np.array(vectors[vector])
        numbers = np.array(vectors[identifiers])[: len(times)] if identifiers else 0 * times
        known = Counter(numbers[np.abs(times[: len(numbers)] - after) <= SPIKE_LATE].tolist())
        found = []
        for t, number in events:
            key = number if identifiers else 0
            if abs(t - after) <= SPIKE_LATE and known[key]:
                known[key] -= 1
            else:
                found.append((t, number))
        return found


class Runaways:
    """Says which voltages run off, where NEURON's own results are those of its rounding.

    It sees voltages that Vectors record, those at instances that get a negative weight, which may
    make conductances negative, in each step, and all at the end of a run.
    """

    def __init__(self, sim: Simulation, imported: Imported, records: Records) -> None:
        self._imported, self._records = imported, records
        self._told, self._until = set[int](), np.inf  # in this run, up to this time, ms
        self._nodes = self._reached()
        words = ("min", "max") if len(self._nodes) else ()
        self._extremes = [sim.record("v", self._nodes, reduce=word) for word in words]

    def _reached(self) -> np.ndarray:
        """Return the nodes, (k,) int64, at which instances get a negative weight."""
        model, nodes = self._imported.model, set[int]()
        wires = model.wires
        for number in np.unique(wires.target[(wires.weights < 0).any(1)]).tolist():
            name, k = wires.senders[number]
            if name in self._imported.groups:
                nodes.add(int(model.contents.points[name].nodes[k]))
        return np.array(sorted(nodes - {-1}), np.int64)

    def are_seen(self) -> bool:
        """Whether it still sees all instances with a negative weight."""
        return bool(np.isin(self._reached(), self._nodes).all())

    def tell(self, result: Result, first: int, end: np.ndarray) -> None:
        """Warn of a run, less the first rows of records, that ends with voltages `end`, mV."""
        before, self._until = self._until, float(self._imported.model.h.t)
        if self._until <= before:
            self._told.clear()
        most = np.abs(end).astype(np.float64)
        for extreme in self._extremes:
            most[self._nodes] = np.fmax(most[self._nodes], np.abs(result[extreme]))
        nodes, rows = self._records.voltages(result)
        if len(rows) > first:
            seen = rows[first:]
            np.fmax.at(most, nodes, np.fmax(seen.max(0), -seen.min(0)))
        far = [k for k in np.flatnonzero(most >= FAR).tolist() if k not in self._told]
        if not far:
            return
        self._told.update(far)
        at = max(far, key=lambda k: float(most[k]))
        more = f" and {len(far) - 1} more" if len(far) > 1 else ""
        say_to_caller(
            f"voltages run off: {self._name(at)}{more}, to {most[at]:.1g} mV, by t = "
            f"{self._imported.model.h.t:g} ms; rounding spoils NEURON's conductances, which are "
            f"differences over 0.001 mV, beyond {FAR:.0g} mV, so that its spikes may be others"
        )

    def _name(self, node: int) -> str:
        """Return the segment of a node, or the nearest above it, and a gid of its cell."""
        tree, wires = self._imported.model.tree, self._imported.model.wires
        place = np.flatnonzero(tree.inner_numbers == node)
        while not len(place) and tree.parent[node] >= 0:
            node = int(tree.parent[node])
            place = np.flatnonzero(tree.inner_numbers == node)
        named = str(tree.segment(int(place[0]))) if len(place) else f"node {node}"
        bounds = self._imported.network.forest.cell_offsets
        cell = np.searchsorted(bounds, node, side="right") - 1
        for origin in wires.origins:
            if origin.gid >= 0 and bounds[cell] <= origin.node < bounds[cell + 1]:
                return f"{named} (gid {origin.gid})"
        return named


class Counters:
    """Lets a simulation record the times that Vectors of APCount keep, and fills them."""

    def __init__(self, sim: Simulation, imported: Imported) -> None:
        model = self._model = imported.model
        self._found: list[tuple[int, Instances, int, int, int]] = []
        points = {n: i for n, i in model.contents.points.items() if counts_crossings(i.entry.text)}
        for name, instances in points.items():
            for k, thing in enumerate(instances.things):
                vector = held_vector(model.memory, thing, model.plays.vectors)
                if vector is not None:
                    group = imported.groups[name]
                    n, time = (sim.record(variable, group, [k]) for variable in ("n", "time"))
                    self._found.append((model.memory.inside(vector), instances, k, n, time))

    def fill(self, result: Result, first: int) -> None:
        """Put a run's times into all vectors, where NEURON has the numbers of its begin."""
        for address, instances, k, n, time in self._found:
            vector = self._model.plays.vectors[address]
            counts = np.append(instances.values("n")[k], result[n][first:, 0])
            for row in np.flatnonzero(np.diff(counts) > 0).tolist():
                vector.resize(int(counts[row + 1]))
                vector.x[int(counts[row + 1]) - 1] = float(result[time][first + row, 0])


def check_values(sim: Simulation, imported: Imported, arrays: Arrays) -> None:
    """Refuse, before anything is written, what NEURON's memory cannot take."""
    netcons = sim.model.netcons
    counts = arrays["count"][netcons.source] - arrays["cursor"]
    check_rings(counts, rings_of(sim.model)[1][netcons.source])  # ranks have told each other since
    check_numbers(sim, imported, arrays)


def put_events(sim: Simulation, imported: Imported, arrays: Arrays, last: float) -> None:
    """Replace the events on their way by a simulation's; given times were sent up to `last`, ms."""
    model = imported.model
    queue, t = model.queue, float(model.h.t)
    unseen = _unseen(sim, arrays, t)
    movable = _movable(imported)
    events, senders = queue.columns(), model.wires.senders
    selves = events.what == "SelfEvent"
    number = np.where(selves, senders.of_points(events.target), -1)
    of_trains = np.array([name in model.trains.names for name in (*senders.names, "")], bool)
    of_trains = of_trains[np.append(senders.name, -1)[number]]
    gone = (number >= 0) & ~of_trains | np.isin(events.what, ("NetCon", "PreSyn"))
    # in the order of NEURON's bins, in which the first is found at once
    order = np.argsort(events.bin_order, kind="stable")
    queue.remove(*events.item[order][gone[order]].tolist())
    of_stims = zip(number[of_trains].tolist(), events.item[of_trains].tolist(), strict=True)
    stims = {senders[k]: item for k, item in of_stims}
    model.h.t = min(last, t)  # NEURON takes no event of the past, and has delivered up to here
    _put_netcons(sim, imported, arrays, last, unseen)
    _put_selves(sim, imported, arrays, movable)
    model.h.t = t
    _move_trains(imported, stims, last)
    delivers = model.bins is not None or model.watched
    if delivers or model.plays.is_playing:  # on this rank alone, perhaps: all exchange in a step
        queue.put_exchange_off(float(clock(t, sim.model.dt, 1)[-1]))
    if model.plays.is_playing:
        queue.play(last, t)
    _put_watches(sim, imported, arrays)
    above = dict(zip(sim.model.sources.detector_source.tolist(), arrays["held"], strict=True))
    for address, sources in imported.detectors.items():
        one = int(sources[0])
        model.sources.above(address).value = bool(above[one]) and one not in unseen
    if delivers:  # self events come before the next bin, and before WATCH conditions are compared
        queue.deliver_until(t)


def _unseen(sim: Simulation, arrays: Arrays, t: float) -> set[int]:
    """Return sources that crossed their threshold in the last step, which NEURON sees later."""
    first, size = rings_of(sim.model)
    sources = sim.model.sources.detector_source
    sources = sources[arrays["count"][sources] > 0]
    last = arrays["ring"][first[sources] + (arrays["count"][sources] - 1) % size[sources]]
    return set(sources[last > t - 0.5 * sim.model.dt].tolist())


def _movable(imported: Imported) -> dict[str, np.ndarray]:
    """Where instances keep their event for net_move, by mechanism; 0 for none; emptied."""
    model, found = imported.model, dict[str, np.ndarray]()
    for name, group in imported.groups.items():
        net = group.mechanism.program.net
        if net is not None and any(s.kind != "event" for s in net.sends):
            found[name] = model.slots.movable(model.every[name])
    return found


def _put_watches(sim: Simulation, imported: Imported, arrays: Arrays) -> None:
    model = imported.model
    if model.watched:
        model.slots.disarm()
    for name in model.watched:
        k, place = sim.model.instances[imported.groups[name].number]
        queue = sim.model.schema.named(arrays, "queue", k)
        armed, above = queue["armed"][:, place], queue["above"][:, place]
        conditions = [(int(j), int(w), bool(above[w, j])) for w, j in np.argwhere(armed)]
        model.slots.watch(model.every[name], conditions)
    for name, group in imported.compared.items():
        k, place = sim.model.instances[group.number]
        above = sim.model.schema.named(arrays, "queue", k)["above"][0, place]
        for origin, is_above in zip(model.wires.compared[name], above.tolist(), strict=True):
            model.sources.above(origin.address).value = bool(is_above)


def _put_netcons(
    sim: Simulation, imported: Imported, arrays: Arrays, last: float, unseen: set[int]
) -> None:
    model, netcons, t = imported.model, sim.model.netcons, imported.model.h.t
    first, size = rings_of(sim.model)
    counts = arrays["count"][netcons.source] - arrays["cursor"]
    c = np.repeat(np.arange(len(counts)), counts)
    source, event = netcons.source[c], ranges(arrays["cursor"], counts)
    sent = arrays["ring"][first[source] + event % size[source]]
    to_come = np.isin(source, [*_train_numbers(imported)]) & (sent > last)
    to_be_seen = np.isin(source, [*unseen]) & (event + 1 == arrays["count"][source])
    c, source, event, sent = (a[~(to_come | to_be_seen)] for a in (c, source, event, sent))
    address = model.wires.read.address[imported.netcons[c]]
    time = sent + netcons.delay[c]
    if model.bins is None:
        model.queue.send(address, np.maximum(time, t))
        return
    key = np.where(np.isin(source, sim.model.sources.detector_source), sent, sent + SPIKE_LATE)
    model.bins.begin_at(last)
    order = np.lexsort((event, sim.model.connection_ranks[c], key))
    model.bins.put(address[order], time[order])


def _train_numbers(imported: Imported) -> set[int]:
    origins, names = imported.model.wires.origins, imported.model.trains
    return {
        number
        for number, origin in zip(imported.numbers.tolist(), origins, strict=True)
        if origin.sender is not None and origin.sender[0] in names.names
    }


def _put_selves(
    sim: Simulation, imported: Imported, arrays: Arrays, movable: dict[str, np.ndarray]
) -> None:
    model, t = imported.model, imported.model.h.t
    for name, group in imported.groups.items():
        k, place = sim.model.instances[group.number]
        queue = sim.model.schema.named(arrays, "queue", k)
        if not queue:
            continue
        senders, size = model.wires.senders, queue["size"][place]
        points = senders.points[senders.name == senders.names.index(name)]
        places = movable.get(name, np.zeros(len(points), np.int64))
        instance = np.repeat(np.arange(len(size)), size)
        at = ranges(np.zeros_like(size), size), place[instance]
        number = np.append(imported.netcons, -1)[queue["connection"][at]]
        weight = np.append(model.wires.read.weight, 0)[number]
        time, flag = np.maximum(queue["time"][at], t), queue["flag"][at].astype(np.float64)
        model.queue.send_selves(points[instance], time, flag, weight, places[instance])


def _move_trains(imported: Imported, stims: dict[tuple[str, int], int], last: float) -> None:
    model = imported.model
    for stim, item in stims.items():
        times = model.trains.times[stim]
        past = int(np.searchsorted(times, last, side="right"))
        if past:
            model.trains.go_on(stim, past)
        if past < len(times):
            model.queue.move(item, float(times[past]))
        else:
            model.queue.remove(item)
