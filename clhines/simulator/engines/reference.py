"""The engine `reference`: NumPy in float64, the oracle for engines on devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from clhines.simulator.engines.run import PartRun
from clhines.simulator.events.exact import HostEvents
from clhines.simulator.events.spike_list import Spikes
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.model.model import ADVANCE_REVERSAL, DENSITY, INITIAL_REVERSAL, Kind, Model
from clhines.simulator.model.needs import refused
from clhines.simulator.network.times import begins_of, last_middle
from clhines.simulator.records.records import CURRENT, Record, is_current
from clhines.simulator.records.reduced import HostReducer, Reducers
from clhines.simulator.state.chunk import Chunk, runaways
from clhines.simulator.state.decisions import MAX_EPOCH, Decisions
from clhines.simulator.state.sources import Wires, wires_of
from clhines.simulator.state.variables import BlockCall, Variables
from clhines.solver import reference
from clhines.solver.forest import Forest


def start_model(
    model: Model,
    wires: Wires,
    wanted: Sequence[tuple[str, ...]] = (),
    decisions: Decisions | None = None,
    make: Callable[..., Variables] = Variables,
) -> tuple[Variables, HostEvents]:
    """Initialise all variables at t = 0, deliver events due then, and detect spikes.

    Return the variables and their events. `wanted` has each mechanism's recorded outputs.
    `decisions` are the choices for the network on all ranks, and `make` is the variables' class.
    """
    variables = make(model, wires, decisions)
    if wanted:
        variables.want(wanted)
    events = HostEvents(variables)
    events.plays.start()
    for ion in model.ions:
        variables.to_nernst(ion, ion.node[(ion.style & INITIAL_REVERSAL) > 0])
    kinds, begin = range(len(model.kinds)), {"begin": 0.0, "now": 0.0, "end": 0.0}
    for k in kinds:
        variables.run_block(k, "before_initial", begin)
    for k in kinds:
        _refuse(variables, k, "unless_initial")
        _initial(events, k)
        _refuse(variables, k, "unless")
    for k in wires.kinds:
        _connections(events, k)
    for k in kinds:
        variables.run_block(k, "after_initial", begin)
    events.deliver_until(0.0)
    if variables.starts_currents:
        currents(variables, {"begin": 0.0, "now": 0.0, "end": 0.0}, 0)
    for k in kinds:
        variables.run_block(k, "before_step", begin)
    events.detect(0.0, -1)
    return variables, events


def _refuse(variables: Variables, k: int, block: str) -> None:
    mechanism = variables.model.kinds[k].mechanism
    if block in mechanism.program.blocks and len(variables.model.kinds[k].node):
        check_unless(mechanism, block, {**variables.parameters[k], **variables.states[k]})


def refusal_flags(
    mechanism: Mechanism, block: str, values: Mapping[str, np.ndarray]
) -> list[tuple[int, np.ndarray]]:
    """Evaluate the conditions under which `block` is not supported, from `values` of its inputs.

    Return (index in `Program.unless`, condition) for each, a single bool or one for each instance.
    """
    arguments = mechanism.calls(block)
    inputs = [a.name for a in arguments if a.direction == "in"]
    reasons = [int(a.name) for a in arguments if a.direction == "out"]
    with np.errstate(all="ignore"):
        flags = mechanism.twin(block)(*(values[name] for name in inputs))
    return [(k, np.asarray(where) != 0) for k, where in zip(reasons, flags, strict=True)]


def check_unless(mechanism: Mechanism, block: str, values: Mapping[str, np.ndarray]) -> None:
    """Raise InputError if `values` of its inputs select a part of `block` that is not supported."""
    inputs = [a.name for a in mechanism.calls(block) if a.direction == "in"]
    count = max(np.size(values[name]) for name in inputs)
    for number, where in refusal_flags(mechanism, block, values):
        instances = np.flatnonzero(np.broadcast_to(where, count))
        if len(instances):
            at = {name: np.broadcast_to(values[name], count)[instances[0]] for name in inputs}
            shown = ", ".join(f"{name} = {x:g}" for name, x in at.items())
            raise refused(
                "network.called-with",
                name=mechanism.name,
                unle=mechanism.program.unless[number],
                shown=shown,
                instance=instances[0],
            )


def _initial(events: HostEvents, k: int) -> None:
    variables = events.variables
    kind = variables.model.kinds[k]
    if "initial" not in kind.mechanism.program.blocks:
        return
    for instances in variables.rounds[k]:
        zero, none = np.zeros(len(instances)), np.full(len(instances), -1)
        v = variables.v_of(k, instances)
        call = BlockCall(v, dict.fromkeys(("now", "begin", "end"), zero), zero, none)
        variables.call(k, "initial", instances, call)
        if k in variables.queues:
            events.apply_requests(k, instances, zero, none, call)
        variables.wrote_concentrations(k, "initial", instances)
    check_globals(kind, variables.states[k])


def check_globals(kind: Kind, states: Mapping[str, np.ndarray]) -> None:
    """Let all instances agree on GLOBAL variables after INITIAL, or raise InputError.

    All get the value of the instance that ran last, if the mechanism's INITIAL sets it.
    """
    mechanism = kind.mechanism
    for quantity in mechanism.program.states:
        values = states[quantity.name]
        if quantity.name in mechanism.program.begun and kind.last is not None:
            values[:] = values[kind.last]
        if quantity.name in mechanism.program.last:
            continue
        if quantity.is_global and (values != values[:1]).any() and not np.isnan(values).all():
            raise refused(
                "network.global-differs-after-initial",
                value=quantity.public or quantity.name,
                name=mechanism.name,
                min=values.min(),
                max=values.max(),
            )


def _connections(events: HostEvents, k: int) -> None:
    """Initialise the weights of each connection to mechanism `k`.

    Run NET_RECEIVE's INITIAL block for it; without this block, set all weights but the first to 0.
    """
    variables, wires = events.variables, events.variables.wires
    kind, netcons = variables.model.kinds[k], variables.model.netcons
    of_kind = np.flatnonzero(netcons.kind == k)
    program = kind.mechanism.program
    if "net_initial" not in program.blocks:
        assert program.net is not None
        for w in range(1, len(program.net.weights)):
            variables.exact.weight[netcons.first_weight[of_kind] + w] = 0.0
        return
    counts = np.diff(wires.first)[wires.first_target[k] : wires.first_target[k] + kind.count]
    for turn in range(int(counts.max(initial=0))):
        instances = np.flatnonzero(counts > turn)
        connection = wires.order[wires.first[wires.first_target[k] + instances] + turn]
        zero, at = np.zeros(len(instances)), netcons.first_weight[connection]
        call = BlockCall(variables.v_of(k, instances), {"now": zero}, zero, at)
        variables.call(k, "net_initial", instances, call)


def currents(variables: Variables, t: dict[str, float], step: int) -> tuple[np.ndarray, np.ndarray]:
    """Sum all mechanisms' conductances, µS, and currents, nA, at each node, (n,) each.

    `t` has the step's times ``begin``, ``now`` and ``end``, ms.
    """
    model = variables.model
    n = model.forest.num_nodes
    g_sum, i_sum = np.zeros(n), np.zeros(n)
    for k in range(len(model.kinds)):
        variables.run_block(k, "before_breakpoint", t)
    variables.clear_currents()
    for ion in model.ions:
        variables.to_nernst(ion, ion.node[(ion.style & ADVANCE_REVERSAL) > 0])
    for k, kind in enumerate(model.kinds):
        if "current" not in kind.mechanism.program.blocks:
            continue
        for instances in variables.rounds[k]:
            node = kind.node[instances]
            call = BlockCall(variables.v[node], dict(t), step=step)
            variables.call(k, "current", instances, call)
            zero = np.zeros(len(instances))
            i, g = (call.results.get((role, role), zero) for role in ("i", "g"))
            factor = DENSITY * model.area[node] if kind.mechanism.kind == "density" else 1.0
            g_sum += np.bincount(node, factor * g, n)
            i_sum += np.bincount(node, factor * i, n)
    return g_sum, i_sum


def axial_currents(forest: Forest, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the axial current into each node, (n,), nA; `u`, µS, is minus the conductance.

    A step solves for changes of v, as NEURON does: ``A dv = sum of g (v_neighbour - v) - i``. The
    conductance between short compartments is thousands of times C/dt; a right-hand side ``C/dt v``
    would lose digits that differences between neighbours keep.
    """
    child = np.flatnonzero(forest.parent >= 0)
    parent = forest.parent[child]
    flow = u[child] * (v[child] - v[parent])
    current = np.zeros(forest.num_nodes)
    current[child] = flow
    return current - np.bincount(parent, flow, forest.num_nodes)


def neighbours(parents: np.ndarray) -> np.ndarray:
    """Return parent, first child and next sibling of each node, -1 for none, (3, n).

    `parents` are the nodes' parents; children of a node are in ascending order.
    """
    nodes = np.full((3, len(parents)), -1)
    nodes[0] = parents
    child = np.flatnonzero(parents >= 0)
    child = child[np.argsort(parents[child], kind="stable")]
    parent = parents[child]
    is_first = np.diff(parent, prepend=-1) != 0
    nodes[1, parent[is_first]] = child[is_first]
    later = np.flatnonzero(~is_first)
    nodes[2, child[later - 1]] = child[later]
    return nodes


def placed_neighbours(forest: Forest, gather: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return the `neighbours` at each device index, as device indices, (3, places) int32.

    `place` has the device index of each node, `gather` the node at each device index. -1 stands for
    no neighbour.
    """
    nodes = neighbours(forest.parent)
    placed = np.where(nodes < 0, -1, place[nodes])
    return np.ascontiguousarray(np.where(gather < 0, -1, placed[:, gather]), np.int32)


def diffuse(variables: Variables) -> None:
    for one in variables.model.diffusions:
        kind = variables.model.kinds[one.kind]
        call = BlockCall(np.zeros(kind.count), {})
        variables.call(one.kind, "diffuse", np.arange(kind.count), call)
        for name in one.names:
            is_state = name in variables.states[one.kind]
            values, at = (
                (variables.states[one.kind][name], slice(None))
                if is_state
                else (variables.ions[name], kind.node)
            )
            volume, diffusion = (call.results[role, name] for role in ("volume", "diffusion"))
            values[at] = one.solve(values[at], volume, diffusion, variables.model.dt)


Wanted = Sequence[tuple[str, ...]]  # outputs to compute, by kind


def wanted_outputs(model: Model, records: Sequence[Record]) -> Wanted:
    """Return each mechanism's recorded outputs; the current ``i`` comes last."""
    recorded = {(r.kind, r.name) for r in records}
    current = {r.kind for r in records if is_current(r, model)}
    return tuple(
        (
            *(q.name for q in kind.mechanism.program.outputs if (k, q.name) in recorded),
            *([CURRENT] if k in current else []),
        )
        for k, kind in enumerate(model.kinds)
    )


def without_outputs(
    model: Model, records: Sequence[Record], samples: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Set recorded outputs (variables that blocks compute for users only) to NaN.

    A loaded state has no values for them. `samples` has an array for each record.
    """
    remaining = list(samples)
    for k, r in enumerate(records):
        if r.kind < 0:
            continue
        outputs = model.kinds[r.kind].mechanism.program.outputs
        if is_current(r, model) or r.name in {q.name for q in outputs}:
            remaining[k] = np.full_like(samples[k], np.nan)
    return remaining


class Reference(PartRun):
    """Advance a model in NumPy.

    If the model is one rank's part, `decisions` are the choices made for the whole network.
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
        self.dtype, self.max_steps = np.dtype(np.float64), MAX_EPOCH
        self._decisions, self._noted = decisions, 0
        if decisions is not None and decisions.split:  # until others' spikes act
            self.max_steps = decisions.epoch
        self.has_advanced = False
        self._next = -1  # step that the played values' cursors are at; -1: none
        self.variables, self.events = self.start(wanted)
        self.records: list[Record] = []
        self._reducers = Reducers(lambda record: HostReducer(record, model))
        self._first = 0
        self._rows: list[list[np.ndarray]] = []

    @cached_property
    def elimination(self) -> list[np.ndarray]:
        return reference.elimination_steps(self.model.forest)

    def start(self, wanted: Wanted) -> tuple[Variables, HostEvents]:
        return start_model(self.model, self._wires, wanted, self._decisions)

    def want(self, records: Sequence[Record]) -> None:
        """Compute the outputs to record from now on; before the first step also at t = 0."""
        wanted = wanted_outputs(self.model, records)
        if wanted == tuple(self.variables.wanted):
            return
        self.variables.want(wanted)
        if not self.has_advanced:
            self.variables, self.events = self.start(wanted)

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        self._reducers.begin(records)
        self.records = self._reducers.sources
        self.want(self.records)
        self._rows = [[] for _ in self.records]

    def advance(self, first: int, count: int, row: int) -> None:
        if row == 0:
            self._first = first
        with np.errstate(all="ignore"):  # `failed` reports voltages that are not finite
            for step in range(first, first + count):
                self.step(step)
                # phase 9: records
                for rows, record in zip(self._rows, self.records, strict=True):
                    rows.append(self.recorded(record))

    def recorded(self, record: Record) -> np.ndarray:
        variables = self.variables
        if record.kind == -1:
            return variables.v[record.index]
        if record.kind < 0:
            return variables.ions[record.name][record.index]
        for values in (variables.states, variables.outputs):
            if record.name in values[record.kind]:
                return values[record.kind][record.name][record.index]
        return variables.parameters[record.kind][record.name][record.index]

    def end(self) -> Chunk:
        self.events.check()
        source, t = self._new_events()
        sampled = [
            np.array(rows, np.float64).reshape(len(rows), len(record.index))
            for rows, record in zip(self._rows, self.records, strict=True)
        ]
        pairs = self._reducers.with_samples(sampled)
        values = [reducer.chunk(samples, self._first) for reducer, samples in pairs]
        failed = self.variables.failed.copy()
        self.variables.failed[failed < 0] = 0
        return Chunk.of(t, source, self.model.dt, failed, values)

    def step(self, step: int) -> None:
        self.has_advanced = True
        model, variables = self.model, self.variables
        begin, half = float(begins_of(step, model.dt)), 0.5 * model.dt
        middle = begin + half
        end = middle + half
        if step != self._next:
            self.events.plays.begin(last_middle(step, model.dt))
        self._next = step + 1
        # phase 1: events
        self.events.deliver_sums(step, middle)
        self.events.deliver(begin, middle)
        # phase 2: played values
        self.events.plays.at(middle, middle)
        # phase 3: currents
        g, i = currents(variables, {"begin": begin, "now": middle, "end": end}, step)
        # phase 4: solve
        dv = self.voltage_change(g, i)
        # phase 5: voltages
        if self.model.second_order_currents:
            for ion in self.model.ions:
                current = ion.variables[3]
                variables.ions[current] += variables.ions[f"d{current}"] * dv
        variables.v = variables.v + (2 * dv if model.secondorder else dv)
        # phase 6: continuously played values
        self.events.plays.at(end, middle)
        # phase 7: states
        for block in ("advance", "after_solve", "before_step"):
            for k in range(len(model.kinds)):
                variables.run_block(k, block, {"begin": begin, "now": end, "end": end})
            if block == "advance":
                diffuse(variables)
        variables.failed[:] = runaways(variables.v[model.soma], variables.failed, step)
        # phase 8: thresholds
        self.events.detect(end, step)

    def voltage_change(self, g: np.ndarray, i: np.ndarray) -> np.ndarray:
        """Return each node's voltage change, mV, from conductances, µS, and currents, nA."""
        model, v = self.model, self.variables.v
        d = model.capacitance_over_dt + model.constant_d + g
        b = model.constant_b - model.constant_g * v - i
        if model.layers is not None:
            return model.layers.change(d, b, v, model.dt)
        b = axial_currents(model.forest, model.u, v) + b
        dv, _ = reference.solve_with_pivots(model.forest, d, model.u, b, steps=self.elimination)
        self.variables.note("change_voltages", d, v, dv)
        return dv

    def early_sources(self) -> np.ndarray:
        return self._new_events()[0]

    def note_spikes(self) -> Callable[[], Spikes]:
        source, t = self._events_from(self._noted)
        self._noted = len(self.events.emitted)
        step = np.rint(t / self.model.dt).astype(np.int64) - 1
        return lambda: (source, step)

    def new_events(self, node: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return *self._new_events(), self.variables.v[node]

    def note_events(self) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
        events = self._new_events()
        return lambda: events

    def _new_events(self) -> tuple[np.ndarray, np.ndarray]:
        events = self._events_from(0)
        self.events.emitted, self._noted = [], 0
        return events

    def _events_from(self, begin: int) -> tuple[np.ndarray, np.ndarray]:
        events = [(np.zeros(0, np.int64), np.zeros(0)), *self.events.emitted[begin:]]
        source, t = (np.concatenate(each) for each in zip(*events, strict=True))
        return source, t

    def take_events(self, source: np.ndarray, time: np.ndarray) -> None:
        for s, t in zip(source, time, strict=True):
            self.events.append(np.array([s]), np.array([t]))

    def send(self, source: np.ndarray, step: np.ndarray, first: int, count: int) -> None:
        if self.variables.grid is not None:
            for one in np.unique(step).tolist():
                self.variables.grid.send(one, np.sort(source[step == one]))

    def take_voltages(self, v: np.ndarray) -> None:
        self.variables.remote_v = v.astype(np.float64)

    def voltages(self) -> np.ndarray:
        return self.variables.v.copy()

    def weights(self) -> np.ndarray:
        grid = [] if self.variables.grid is None else [self.variables.grid.weight]
        return np.concatenate([*grid, self.variables.exact.weight])

    def reward(self, reward: float, step: int) -> None:
        if self.variables.grid is not None:
            self.variables.grid.reward(reward, step)

    def now(self, records: Sequence[Record], step: int) -> list[np.ndarray]:
        self._reducers.begin(records)
        sources = self._reducers.sources
        self.want(sources)
        samples = [self.recorded(source)[None] for source in sources]
        samples = (
            samples
            if step or not self.has_advanced
            else without_outputs(self.model, sources, samples)
        )
        return self._reducers.now(samples, step)

    def save(self) -> dict[str, np.ndarray]:
        return self.variables.save()

    def load(self, saved: dict[str, np.ndarray]) -> None:
        self.has_advanced, self._next = True, -1
        self.variables.load(saved)
        self._new_events()  # drop the unused start's events
