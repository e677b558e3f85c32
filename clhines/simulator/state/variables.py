"""Every changing value in a network, in NumPy, and calls of mechanisms' blocks.

The reference works on `Variables`; runs on devices take their initial values from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from clhines.core.errors import InputError
from clhines.simulator.mechanisms.emit.noise import normal
from clhines.simulator.mechanisms.ir.program import Argument
from clhines.simulator.model.model import DENSITY, INITIAL_REVERSAL, IonNodes, Kind, Model
from clhines.simulator.model.schema import Field
from clhines.simulator.records.records import CURRENT
from clhines.simulator.state.decisions import Decisions, length
from clhines.simulator.state.host_grid import HostGrid
from clhines.simulator.state.sources import Wires

GAS, FARADAY = 8.3144626181532395, 96485.3321233100141  # J/(mol K), C/mol: NEURON's
ABSOLUTE_ZERO = 273.15
# arguments that a block reads, arguments that it sets, and its NumPy function
BlockFunction = tuple[list[Argument], list[Argument], Callable[..., Any] | None]


@dataclass(eq=False)
class Queue:
    """The pending self events of a mechanism's instances, as sent, and their WATCH conditions."""

    time: np.ndarray  # (capacity, count), when the event is due, ms
    flag: np.ndarray  # (capacity, count)
    sent: np.ndarray  # (capacity, count), when it was sent, ms
    connection: np.ndarray  # (capacity, count), whose event made the instance send it; -1: none
    size: np.ndarray  # (count,), pending events
    last: np.ndarray  # (count,), latest event with flag 1, which net_move moves; -1: none
    armed: np.ndarray  # (watches, count)
    above: np.ndarray  # (watches, count)


@dataclass(eq=False)
class Exact:
    """Weights, ring buffers and read positions of events at exact times; see `Wires`."""

    weight: np.ndarray
    cursor: np.ndarray  # by connection
    ring: np.ndarray
    count: np.ndarray
    held: np.ndarray  # int32: steps in which a detector stays silent; at least 1 while above


@dataclass(eq=False)
class BlockCall:
    """Inputs for a call of an NMODL block, besides its instances' values, and the results."""

    v: np.ndarray
    t: dict[str, float | np.ndarray]
    flag: np.ndarray | None = None
    weight_at: np.ndarray | None = None  # index of the event's first weight; -1: none
    other_at: np.ndarray | None = None  # index of the first weight that FOR_NETCONS visits
    step: int = 0
    sums: np.ndarray | None = None  # summed weights for events in whole steps
    results: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)


def nernst_scale(celsius: float, z: float) -> float:
    return 1000.0 * GAS * (celsius + ABSOLUTE_ZERO) / FARADAY / z if z else 0.0


def nernst(ci: np.ndarray, co: np.ndarray, z: float, celsius: float) -> np.ndarray:
    """Return Nernst's potential, mV, of an ion with charge `z`, as NEURON computes it."""
    if z == 0:
        return np.zeros(len(ci))
    scale = nernst_scale(celsius, z)
    with np.errstate(all="ignore"):
        value = scale * np.log(co / ci)
    return np.where(ci <= 0, 1e6, np.where(co <= 0, -1e6, value))


class Variables:
    """All values that change in a network, or in one rank's part of it.

    A part needs the `decisions` for the whole network.

    - `parameters`, `states`, `outputs`: for each mechanism a dict, (count,) float64 by name
    - `ions`: (n,) by variable, such as ``cai``, and ``dica`` for a current's slope
    - `remote_v`: voltages, mV, of nodes on other ranks
    - `failed`: see `Chunk.failed`
    - `wanted`: names of recorded outputs, by mechanism
    - `drawn`: how many numbers each Random123 stream has given, by (mechanism, name)
    """

    starts_currents = True  # False: nothing that lasts depends on the first currents

    def __init__(self, model: Model, wires: Wires, decisions: Decisions | None = None) -> None:
        self.model, self.wires = model, wires
        n = model.forest.num_nodes
        self.v, self.remote_v = model.v_init.copy(), model.remote_v.copy()
        self.failed = np.zeros(model.forest.num_cells, np.int32)
        self.wanted: list[tuple[str, ...]] = [()] * len(model.kinds)
        self.functions: dict[tuple[int, str], BlockFunction] = {}  # for the wanted outputs
        self.parameters = [{k: a.copy() for k, a in kind.arrays().items()} for kind in model.kinds]
        self.states, self.outputs = [], []
        for kind in model.kinds:
            program = kind.mechanism.program
            parameters = kind.parameters
            self.states.append(
                {
                    q.name: np.full(kind.count, parameters.get(q.name, q.default))
                    for q in program.states
                }
            )
            self.outputs.append({q.name: np.full(kind.count, q.default) for q in program.outputs})
        self.ions = {}
        for ion in model.ions:
            e, inside, outside, current = ion.variables
            for name, values in ((e, ion.e), (inside, ion.ci), (outside, ion.co)):
                self.ions[name] = np.zeros(n)
                self.ions[name][ion.node] = values
            self.ions[current], self.ions[f"d{current}"] = np.zeros(n), np.zeros(n)
        self.exact = Exact(
            weight=model.netcons.weight.copy(),
            cursor=np.zeros(model.netcons.count, np.int64),
            ring=wires.ring.copy(),
            count=wires.count.copy(),
            held=np.zeros(len(model.sources.detector_node), np.int32),
        )
        self.grid = HostGrid(model, decisions or Decisions.of(model)) if model.has_sums else None
        self.queues = {}
        for k in wires.kinds:
            count = model.kinds[k].count
            a, b = (length(model, "event", k), count), (length(model, "watch", k), count)
            self.queues[k] = Queue(
                time=np.zeros(a),
                flag=np.zeros(a),
                sent=np.zeros(a),
                connection=np.full(a, -1),
                size=np.zeros(count, np.int64),
                last=np.full(count, -1),
                armed=np.zeros(b, bool),
                above=np.zeros(b, bool),
            )
        self.drawn = {key: np.zeros(len(ids), np.int64) for key, ids in model.random_ids.items()}
        self.tables: list[dict[str, np.ndarray]] = [{} for _ in model.kinds]
        for k, kind in enumerate(model.kinds):
            for table in kind.mechanism.program.tables:
                self._table(k, table.name)

    @cached_property
    def rounds(self) -> list[list[np.ndarray]]:
        return [_rounds(kind.node, kind.mechanism.program.ions) for kind in self.model.kinds]

    @cached_property
    def _currents(self) -> set[str]:
        return {ion.variables[3] for ion in self.model.ions}

    def _table(self, k: int, name: str) -> np.ndarray:
        if name not in self.tables[k]:
            self.tables[k][name] = self._filled(k, name)
        return self.tables[k][name]

    def _filled(self, k: int, name: str) -> np.ndarray:
        mechanism = self.model.kinds[k].mechanism
        table = next(t for t in mechanism.program.tables if t.name == name)
        n = table.n
        first = np.zeros(1, np.int64)
        if not len(self.model.kinds[k].node):
            return np.zeros((n + 1, len(table.columns)))
        if table.made:
            return np.reshape(table.made, (n + 1, len(table.columns)))
        for depends in table.depends:
            values = self.parameters[k][depends]
            if (values != values[0]).any():
                raise InputError(
                    f"{mechanism.name}: {depends} differs between instances, and table "
                    f"{name} depends on it; expected one value"
                )
        grid = BlockCall(np.zeros(1), {})
        lo, hi = (float(np.ravel(x)[0]) for x in self.call(k, f"grid_{name}", first, grid))
        dx = (hi - lo) / n
        x = np.full(n + 1, dx)
        x[0] = lo
        x = np.cumsum(x)
        filled = BlockCall(x, {"x": x})
        rows = self.call(k, f"table_{name}", np.zeros(n + 1, np.int64), filled)
        return np.stack([np.broadcast_to(row, n + 1) for row in rows], axis=1)

    @cached_property
    def singles(self) -> list[list[tuple[str, bool]]]:
        """For each mechanism its parameters: (name, whether one number is for all instances)."""
        played = {(p.kind, p.parameter) for p in self.model.played}
        return [
            [(n, n in kind.singles and (k, n) not in played) for n in kind.mechanism.parameters]
            for k, kind in enumerate(self.model.kinds)
        ]

    def want(self, wanted: Sequence[tuple[str, ...]]) -> None:
        self.wanted, self.functions = list(wanted), {}
        for kind, outputs, names in zip(self.model.kinds, self.outputs, wanted, strict=True):
            for name in names:
                outputs.setdefault(name, np.zeros(kind.count))

    def declared(self, k: int) -> tuple[str, ...]:
        """Return mechanism `k`'s recorded outputs that it declares.

        The current ``i`` of a mechanism that is written as equations is recorded without a
        declaration.
        """
        if not self.wanted[k]:
            return ()
        declared = {q.name for q in self.model.kinds[k].mechanism.program.outputs}
        return tuple(name for name in self.wanted[k] if name in declared)

    def call(
        self, k: int, block: str, instances: np.ndarray, call: BlockCall
    ) -> Sequence[np.ndarray]:
        """Call a block's NumPy function for `instances` of mechanism `k`, and store its results.

        `call` has the arguments that are not values of the instances, such as voltages and times.
        """
        if (k, block) not in self.functions:
            self.functions[k, block] = self._function(k, block)
        read, changed, function = self.functions[k, block]
        if function is None:
            return ()
        values: list[Any] = [self._value(k, a, instances, call) for a in read]
        self.note("call", k, block, instances, call, values)
        alike = block == "initial" and len(instances) > 1 and self._are_alike(k, read, values)
        if alike:  # compute one instance
            values = [np.asarray(x)[:1] if np.ndim(x) == 1 else x for x in values]
        with np.errstate(all="ignore"):  # np.where computes both branches
            results = function(*values)
        if alike:
            results = [np.broadcast_to(x, instances.shape) for x in results]
        for argument, value in zip(changed, results, strict=True):
            self._put(k, block, argument, value, instances, call)
        return results

    def _are_alike(self, k: int, read: Sequence[Argument], values: Sequence[Any]) -> bool:
        used = self.model.kinds[k].mechanism.compiled.free("initial")
        has_outputs = bool(self.declared(k))  # which may read any parameter
        for a, x in zip(read, values, strict=True):
            if a.role in ("table", "stream", "drawn"):
                return False
            is_unused = a.role == "parameter" and not has_outputs and a.name not in used
            if not np.ndim(x) or is_unused:
                continue
            bits = np.ascontiguousarray(x, np.float64).view(np.int64)
            if (bits != bits[0]).any():
                return False
        return True

    def note(self, operation: str, *values: Any) -> None:
        """Do nothing here; a subclass for gradients records operations and the values they read."""

    def _function(self, k: int, block: str) -> BlockFunction:
        mechanism, outputs = self.model.kinds[k].mechanism, self.declared(k)
        wanted = (outputs,) if outputs else ()
        arguments = mechanism.calls(block, *wanted)
        read = [a for a in arguments if a.direction != "out"]
        changed = [a for a in arguments if a.direction != "in"]
        return read, changed, mechanism.twin(block, *wanted) if changed else None

    def _value(self, k: int, a: Argument, instances: np.ndarray, call: BlockCall) -> object:
        role, name = a.role, a.name
        if role == "parameter":
            return self.parameters[k][name][instances]
        if role == "state":
            values = self.states[k][name]
            if a.direction == "in" and name in self.model.of_last(k):
                return np.broadcast_to(values[self.model.kinds[k].last], instances.shape)
            return values[instances]
        if role == "ion":
            return self.ions[name][self.model.kinds[k].node[instances]]
        if role == "table":
            return self._table(k, name)
        if role == "pointer":
            return self._pointed(k, name, instances)
        if role == "steered":
            return self.exact.weight[self.model.steered[k, name].places(self.model)[instances]]
        if role in ("weight", "other_weight"):
            return self._weights(k, role, name, call)
        if role == "noise":
            number = self.model.kinds[k].first_instance + instances
            return normal(self.model.seed, number, call.step)
        if role in ("v", "t", "dt", "flag", "x"):
            single = {"v": call.v, "dt": np.float64(self.model.dt), "flag": call.flag}
            return call.t[name] if role in ("t", "x") else single[role]
        if role == "stream":
            return self.stream(k, name, instances)
        if role == "drawn":
            return self.drawn[k, name][instances]
        raise InputError(f"{self.model.kinds[k].mechanism.name}: argument {role} {name} is unknown")

    def _pointed(self, k: int, name: str, instances: np.ndarray) -> np.ndarray:
        if (k, name) in self.model.read:
            to = self.model.read[k, name]
            return self.states[to.kind][to.state][to.instance[instances]]
        return np.append(self.v, self.remote_v)[self.model.pointers[k, name][instances]]

    def stream(self, k: int, name: str, instances: np.ndarray) -> np.ndarray:
        """Return the Random123 keys of `instances` for the stream `name`, (r, 4) uint32."""
        ids = self.model.random_ids[k, name][instances]
        return np.hstack([ids, np.full((len(instances), 1), self.model.random_index, np.uint32)])

    def _weights(self, k: int, role: str, name: str, call: BlockCall) -> np.ndarray:
        if call.sums is not None:
            return call.sums
        place = self.place_of_weight(k, role, name, call)
        padded = self.exact.weight if len(self.exact.weight) else np.zeros(1)
        return np.where(place < 0, 0.0, padded[place])

    def place_of_weight(self, k: int, role: str, name: str, call: BlockCall) -> np.ndarray:
        """Return each event's index in `NetCons.weight` for the weight `name`, (r,) int64.

        With role ``weight`` it belongs to the event's connection, else to the connection that
        FOR_NETCONS visits. The index is -1 without a connection.
        """
        at = call.weight_at if role == "weight" else call.other_at
        net = self.model.kinds[k].mechanism.program.net
        assert net is not None and at is not None  # a weight belongs to an event
        return np.where(at < 0, -1, at + net.weights.index(name))

    def _put(
        self,
        k: int,
        block: str,
        a: Argument,
        value: np.ndarray,
        instances: np.ndarray,
        call: BlockCall,
    ) -> None:
        role, name = a.role, a.name
        kind = self.model.kinds[k]
        if role in ("state", "output"):
            (self.states if role == "state" else self.outputs)[k][name][instances] = value
        elif role == "drawn":
            self.drawn[k, name][instances] = value
        elif role == "set_v":
            self.v[kind.node[instances]] = value
        elif role == "assign":
            to = self.model.read[k, name]
            self.states[to.kind][to.state][to.instance[instances]] = value
        elif role in ("put", "add"):  # by one instance after the other
            to = self.model.written[k, name]
            target, at = self.states[to.kind][to.state], to.instance[instances]
            np.add.at(target, at, value) if role == "add" else np.put(target, at, value)
        elif role == "ion" and not (block == "current" and name in self._currents):
            self.ions[name][kind.node[instances]] = value
        elif role in ("ion", "ion_current"):
            self._add_current(kind, name if role == "ion" else f"d{name}", value, instances)
        elif role in ("weight", "other_weight"):
            place = self.place_of_weight(k, role, name, call)
            has_weight = place >= 0
            weights = np.broadcast_to(value, has_weight.shape)[has_weight]
            self.exact.weight[place[has_weight]] = weights
        else:
            call.results[role, name] = np.full(instances.shape, value)
            if role == CURRENT and {*self.wanted[k]} - {*self.declared(k)}:
                self.outputs[k][CURRENT][instances] = call.results[role, name]

    def _add_current(self, kind: Kind, name: str, value: np.ndarray, instances: np.ndarray) -> None:
        node, per_area = kind.node[instances], 1.0
        if kind.mechanism.kind == "point":
            per_area = 1.0 / (DENSITY * self.model.area[node])
        self.ions[name][node] += value * per_area

    def writes(self, k: int, block: str) -> list[IonNodes]:
        program = self.model.kinds[k].mechanism.program
        names = {a.name for a in program.blocks[block] if a.role == "ion" and a.direction != "in"}
        return [ion for ion in self.model.ions if names & {*ion.variables[1:3]}]

    def wrote_concentrations(self, k: int, block: str, instances: np.ndarray) -> None:
        node = self.model.kinds[k].node[instances]
        for ion in self.writes(k, block):
            style = ion.style[np.searchsorted(ion.node, node)]
            # within a round nodes differ, so each is updated once
            self.to_nernst(ion, node[(style & INITIAL_REVERSAL) > 0])

    def to_nernst(self, ion: IonNodes, node: np.ndarray) -> None:
        e, inside, outside, _ = ion.variables
        ci, co = self.ions[inside][node], self.ions[outside][node]
        self.note("to_nernst", ion, node, ci, co)
        self.ions[e][node] = nernst(ci, co, ion.valence, self.model.celsius)

    def clear_currents(self) -> None:
        self.note("clear_currents")
        for ion in self.model.ions:
            current = ion.variables[3]
            self.ions[current][:] = 0.0
            self.ions[f"d{current}"][:] = 0.0

    def run_block(self, k: int, block: str, t: dict[str, float]) -> None:
        if block in self.model.kinds[k].mechanism.program.blocks:
            for instances in self.rounds[k]:
                self.call(k, block, instances, BlockCall(self.v_of(k, instances), dict(t)))

    def v_of(self, k: int, instances: np.ndarray) -> np.ndarray:
        kind = self.model.kinds[k]
        artificial = kind.mechanism.kind == "artificial"
        return np.zeros(len(instances)) if artificial else self.v[kind.node[instances]]

    def array(self, one: Field) -> np.ndarray:
        owner, name = self._place_of(one)
        return owner[name]

    def put(self, one: Field, array: np.ndarray) -> None:
        owner, name = self._place_of(one)
        owner[name] = array

    def _place_of(self, one: Field) -> tuple[dict[Any, Any], object]:
        if one.kind is None:
            if one.key == "incoming" or one.family.startswith("plastic"):
                assert self.grid is not None
                return self.grid.owner(one), one.name
            exact = vars(self.exact)
            place = exact if one.name in exact else vars(self)
            return self.ions if one.family == "ion" else place, one.name
        if one.family == "queue":
            return vars(self.queues[one.kind]), one.name
        if one.family == "drawn":
            return self.drawn, (one.kind, one.name)
        kinds = {"state": self.states, "output": self.outputs, "played": self.parameters}
        return kinds[one.family][one.kind], one.name

    def copy(self) -> Variables:
        """Return a copy that shares the arrays; replace them one by one, do not change them."""
        copied = copy(self)
        copied.functions = {}  # they depend on the model, and it may be replaced
        vars(copied).pop("rounds", None)  # likewise
        copied.parameters, copied.states, copied.outputs = (
            [dict(of_kind) for of_kind in kinds]
            for kinds in (self.parameters, self.states, self.outputs)
        )
        copied.ions, copied.drawn, copied.exact = (
            dict(self.ions),
            dict(self.drawn),
            copy(self.exact),
        )
        copied.queues = {k: copy(queue) for k, queue in self.queues.items()}
        return copied

    def save(self, real: DTypeLike = np.float64, copy: bool = True) -> dict[str, np.ndarray]:
        """Return all arrays of `Model.schema`, by their names in a file."""
        schema = self.model.schema
        return {f.key: self.array(f).astype(f.dtype_in(real), copy=copy) for f in schema}

    def load(self, saved: dict[str, np.ndarray]) -> None:
        for one in self.model.schema:
            array = self.array(one)
            array[...] = saved[one.key].reshape(array.shape)
        if "held" not in saved:  # all detectors are at somas
            self.exact.held = self.model.sources.above(self.v).astype(np.int32)


def _rounds(node: np.ndarray, ions: object) -> list[np.ndarray]:
    if not ions or np.diff(node).all():  # nodes are ascending
        return [np.arange(len(node))]
    again = np.arange(len(node)) - np.searchsorted(node, node)
    return [np.flatnonzero(again == r) for r in range(int(again.max()) + 1)]
