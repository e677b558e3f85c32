"""The arenas: what is in which region, and the spec that names them."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from clhines.core.arrays import inverse, offsets, place_of, shifted, starts, stretch_of
from clhines.core.errors import InputError
from clhines.simulator.kinds.spec import ArenaSpec, KindBlocks, check_parameters
from clhines.simulator.mechanisms.emit.noise import normal_source
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.mechanisms.text.language import Text
from clhines.simulator.model.model import ADVANCE_REVERSAL, Kind, Model, ModelSources
from clhines.simulator.records.records import Record
from clhines.simulator.state.arena import NONE, Arena, Tiler
from clhines.simulator.state.plays import entries_until
from clhines.simulator.state.ranges import check_range
from clhines.simulator.state.sources import (
    SENDING,
    Wires,
    detected,
    has_second_round,
    moved_rings,
)
from clhines.simulator.state.variables import Variables, nernst_scale
from clhines.solver.plan.plan import real_name

_DOUBLE = np.dtype(np.float64)
_ACTIVE: WeakKeyDictionary[ModelSources, tuple[np.ndarray, np.ndarray]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class KindColumns:
    """Where arenas have the values of instances: column after column, or node after node."""

    by_node: ClassVar[bool] = True
    count: int

    def at(self, instance: np.ndarray, column: int, columns: int) -> np.ndarray:
        return column * self.count + np.asarray(instance)

    def put(
        self, mem: Arena, name: str, values: Sequence[np.ndarray], before: np.ndarray = NONE
    ) -> None:
        mem.tile(name, np.reshape(values, (len(values), self.count)), before=before)


class Layout:
    """Where arenas have what belongs to nodes and instances: active nodes ascend.

    Of copies that are alike those of one are followed by those of the next, so that nothing is
    looked up in arrays of all: with active nodes 1 and 3 of 4, node 7 of two copies, which is node
    3 of the second, has number 2 + 1.
    """

    groups: Mapping[int, KindColumns] = {}  # by kind, where instances are in groups
    ring_steps = 0  # by which artificial cells go ahead: their rings have room for these, too

    def __init__(self, model: Model) -> None:
        self._model = model

    @cached_property
    def once(self) -> Layout:
        return self if self._model.copies == 1 else Layout(self._model.once)

    @property
    def nodes(self) -> np.ndarray:
        """(a,) int64: nodes in the order of the arenas."""
        return active_nodes(self._model)

    @property
    def count(self) -> int:
        return num_active(self._model)

    def number(self, node: np.ndarray) -> np.ndarray:
        """Return where nodes are in the order of the arenas; -1 of no node."""
        once = self._model.once
        nodes, before = _active(once)
        n = once.forest.num_nodes
        copy, in_copy = (0, node) if once is self._model else np.divmod(node, n)
        return np.where(node < 0, -1, copy * len(nodes) + before[in_copy])

    def first(self, number: np.ndarray) -> np.ndarray:
        """Return where those of each node begin in numbers that ascend, and the end."""
        return np.cumsum(np.bincount(number + 1, minlength=self.count + 1))[: self.count + 1]

    def columns(self, k: int, kind: Kind) -> KindColumns:
        return KindColumns(kind.count)


def active_nodes(model: Model) -> np.ndarray:
    """Return nodes that have instances, ions or detectors; (a,) int64, ascending."""
    if model.copies > 1:
        return shifted(active_nodes(model.once), model.once.forest.num_nodes, model.copies)
    return _active(model)[0]


def _active(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return the active nodes of one copy, and how many come before each node, (n + 1,)."""
    sources = model.sources
    if sources not in _ACTIVE:  # which models with other values of parameters have, too
        nodes = [model.soma, model.sources.detector_node]
        nodes += [k.node for k in model.kinds] + [ion.node for ion in model.ions]
        active = np.zeros(model.forest.num_nodes + 1, bool)  # the last: -1, no node
        for some in nodes:
            active[some] = True
        active[-1] = False
        _ACTIVE[sources] = np.flatnonzero(active), np.cumsum(active) - active
        for a in _ACTIVE[sources]:
            a.setflags(write=False)
    return _ACTIVE[sources]


def base_diagonal(model: Model, layout: Layout) -> np.ndarray:
    """Return the constant part of the diagonal of each active node, (a,) float64, µS."""
    return (model.capacitance_over_dt + model.constant_d)[layout.nodes]


def has_constants(model: Model) -> bool:
    return model.of_nodes.any("constant_g") or model.of_nodes.any("constant_b")


def num_active(model: Model) -> int:
    return model.copies * len(active_nodes(model.once))


def is_artificial(kind: Kind) -> bool:
    """Whether the instances of a kind are at no node."""
    return kind.mechanism.kind == "artificial"


def filled_arenas(
    variables: Variables,
    dtype: np.dtype,
    place: np.ndarray | None,
    layout: Layout | None = None,
    instant: np.dtype = _DOUBLE,
    tiler: Tiler | None = None,
) -> dict[str, Arena]:
    """Return the arenas ``mem``, ``clock`` and ``ints`` with all that a network needs.

    Of copies that are alike the arrays by node and instance are of one, and repeated on the device
    by `tiler`: `Tiler.find_places` then finds the places of active nodes. `dtype` is that of
    ``mem``, `instant` that of ``clock``. `place` is that of each node in the solver's order; of
    copies None, where no pointers need it.
    """
    mem, clock, ints = (Arena(d, tiler) for d in (dtype, instant, np.dtype(np.int32)))
    model, once = variables.model, variables.once
    whole = layout or Layout(model)
    layout = whole if model is once else whole.once
    nodes = layout.nodes
    check_range("a voltage", variables.v, dtype)
    check_range("a weight", variables.exact.weight, dtype)
    mem.tile("area", once.area[nodes][None])
    mem.tile("base_d", base_diagonal(once, layout)[None])
    if tiler is None:
        assert place is not None
        ints.add("place_of", place[nodes])
    else:
        ints.room("place_of", (ints.copies * len(nodes),))
    cell = inverse(once.soma, once.forest.num_nodes)
    ints.tile("cell", cell[nodes][None], once.forest.num_cells)
    ints.add("error", np.zeros(1))
    _add_ions(variables, nodes, (mem, ints))
    for k, kind in enumerate(once.kinds):
        _add_kind(variables, k, kind, layout, (mem, ints))
        for (of, name), node in model.pointers.items():
            if of == k:
                assert place is not None
                ints.add(f"pointer_{k}_{name}", place[node])
    _add_read(model, layout, mem, ints)
    if model.written:
        _add_sums(model, layout, mem, ints)
    detector = layout.number(once.sources.detector_node)
    _tile_first(ints, "first_detector", layout.first(np.sort(detector)))
    order = detector_order(variables, whole)
    ints.add("detector_source", model.sources.detector_source[order])
    ints.add("detector_held", variables.exact.held[order])
    ints.add("detector_hold", model.detector_hold[order])
    mem.add("detector_threshold", model.sources.detector_threshold[order])
    add_wires(variables, (mem, clock, ints), whole.ring_steps)
    add_played(variables, whole, mem, clock, ints)
    return {"mem": mem, "clock": clock, "ints": ints}


def sums_of(model: Model) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kind, number of the state and instance, (3, s), of what pointers write, and who writes it.

    Of all that add, in NEURON's order, the sum to which each adds, number of its kind and pointer
    in `Model.written`, and instance, (3, m); the last that sets each sum, likewise, -1 for none.
    """
    targets, adds, puts = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    for number, ((k, name), to) in enumerate(model.written.items()):
        blocks, count = model.kinds[k].mechanism.program.blocks, len(to.instance)
        states = [q.name for q in model.kinds[to.kind].mechanism.program.states]
        own = np.full(count, to.kind), np.full(count, states.index(to.state)), to.instance
        targets.append(np.stack(own))
        for pointers, block, role in (
            (adds, "after_solve", "add"),
            (puts, "before_breakpoint", "put"),
        ):
            if any((a.role, a.name) == (role, name) for a in blocks.get(block, ())):
                pointers.append(np.stack((np.full(count, number), np.arange(count))))
    sums, of = np.unique(np.concatenate(targets, axis=1), axis=1, return_inverse=True)
    begin = offsets(np.array([len(to.instance) for to in model.written.values()], np.int64))
    of = of.reshape(-1)
    none = np.zeros((2, 0), np.int64)
    number, instance = np.concatenate([none, *adds], axis=1)
    to_sum = of[begin[number] + instance]
    kind = np.array([k for k, _ in model.written], np.int64)
    order = np.lexsort((kind[number], to_sum))
    set_by = np.full((2, sums.shape[1]), -1)
    setters = np.concatenate([none, *puts], axis=1)
    setters = setters[:, np.argsort(kind[setters[0]], kind="stable")]
    set_by[:, of[begin[setters[0]] + setters[1]]] = setters
    return sums, np.stack((to_sum, number, instance))[:, order], set_by


def cells_of_sums(model: Model) -> np.ndarray:
    """(s,) int64: cell of the instance whose state each sum is."""
    kind, _, instance = sums_of(model)[0]
    nodes = [model.kinds[k].node[j] for k, j in zip(kind, instance, strict=True)]
    return stretch_of(model.forest.cell_offsets, np.array(nodes, np.int64))


def add_turns(model: Model, mem: Arena, turns: int) -> None:
    """Make room for values of the last instances, one for each of so many steps in turn."""
    for k in range(len(model.kinds)):
        for name in model.of_last(k):
            mem.room(f"turns_{k}_{name}", (turns,))


def num_sums(model: Model) -> int:
    return sums_of(model)[0].shape[1] if model.written else 0


def _add_read(model: Model, layout: Layout, mem: Arena, ints: Arena) -> None:
    """Add where pointers that are read point to."""
    for (k, name), to in model.read.items():
        at = _states_at(model, layout, mem, (to.kind, to.state), to.instance)
        ints.add(f"pointer_{k}_{name}", at)


def _states_at(
    model: Model, layout: Layout, mem: Arena, state: tuple[int, str], instance: np.ndarray
) -> np.ndarray:
    """(m,) int64: places in `mem` of a state, by kind and name, of instances."""
    (k, name), kind = state, model.kinds[state[0]]
    states = [q.name for q in kind.mechanism.program.states]
    columns = layout.columns(k, kind)
    return mem.offset[f"states_{k}"] + columns.at(instance, states.index(name), len(states))


def _add_sums(model: Model, layout: Layout, mem: Arena, ints: Arena) -> None:
    """Add where each sum of what instances set and add by pointers is, and what is added."""
    sums, adds, puts = sums_of(model)

    def places(role: str, number: np.ndarray, instance: np.ndarray) -> np.ndarray:
        first = np.array([mem.offset[f"{role}_{k}_{name}"] for k, name in model.written])
        return np.where(number < 0, -1, first[number] + instance)

    at = np.zeros(sums.shape[1], np.int64)
    for k in np.unique(sums[0]).tolist():
        for line, state in enumerate(model.kinds[k].mechanism.program.states):
            some = (sums[0] == k) & (sums[1] == line)
            at[some] = _states_at(model, layout, mem, (k, state.name), sums[2, some])
    ints.add("sum_at", at)
    ints.add("sum_row", layout.count + 1 + np.arange(len(at)))
    ints.add("sum_set", places("put", *puts))
    ints.add("sum_first", np.searchsorted(adds[0], np.arange(len(at) + 1)))
    ints.add("sum_from", places("add", adds[1], adds[2]))


def _add_ions(variables: Variables, nodes: np.ndarray, arenas: tuple[Arena, Arena]) -> None:
    (mem, ints), once = arenas, variables.once
    for ion in once.ions:
        for name in (*ion.variables, f"d{ion.variables[3]}"):
            mem.tile(f"ion_{name}", variables.ions[name][nodes][None])
        mem.add(f"nernst_{ion.name}", np.array([nernst_scale(once.celsius, ion.valence)]))
        advances = np.zeros(once.forest.num_nodes, bool)
        advances[ion.node] = (ion.style & ADVANCE_REVERSAL) > 0
        ints.tile(f"advances_{ion.name}", advances[nodes][None])


def _tile_first(ints: Arena, name: str, first: np.ndarray) -> None:
    """Add where those of each active node begin, of things by node, and their end."""
    ints.tile(name, first[None, :-1], int(first[-1]), after=first[-1:] * ints.copies)


def node_numbers(model: Model) -> np.ndarray:
    """(n,) int32: number of each node among the `active_nodes`, -1 of others."""
    return inverse(active_nodes(model), model.forest.num_nodes).astype(np.int32)


def _add_kind(
    variables: Variables, k: int, kind: Kind, layout: Layout, arenas: tuple[Arena, Arena]
) -> None:
    (mem, ints), columns = arenas, layout.columns(k, kind)
    check_parameters(kind, mem.dtype)
    given = [variables.parameters[k][n] for n, single in variables.singles[k] if not single]
    alone = [n for n, single in variables.singles[k] if single]
    # a number even where a rank has no instances
    single = [np.append(variables.parameters[k][n], kind.parameters[n])[:1] for n in alone]
    columns.put(mem, f"parameters_{k}", given, before=np.concatenate([np.zeros(0), *single]))
    for what, kept in (("states", variables.states[k]), ("outputs", variables.outputs[k])):
        names = variables.wanted[k] if what == "outputs" else [*kept]
        columns.put(mem, f"{what}_{k}", [kept[n] for n in names])
    diffusing = kind.mechanism.program.diffusing
    if diffusing:  # volumes and coefficients
        columns.put(mem, f"diffusing_{k}", [np.zeros(kind.count)] * (2 * len(diffusing)))
    for name, rows in variables.tables[k].items():
        mem.align(4)  # epochs load four numbers of a row at once
        mem.add(f"table_{k}_{name}", rows)
    for name in kind.mechanism.program.written:
        for role in ("put", "add"):
            mem.add(f"{role}_{k}_{name}", np.zeros(kind.count))
    for name in kind.mechanism.program.random:
        ids = variables.stream(k, name, np.arange(kind.count * ints.copies))
        ints.add(f"stream_{k}_{name}", ids.view(np.int32))
        ints.add(f"drawn_{k}_{name}", variables.drawn[k, name].view(np.int32))
    if is_artificial(kind):
        return
    number = layout.number(kind.node)
    if columns.by_node:
        _tile_first(ints, f"first_{k}", layout.first(number))
    ints.tile(f"active_{k}", number[None], layout.count)


def add_vectors(model: Model, arenas: dict[str, Arena]) -> None:
    """Add what only vectors need: lists by active node, and room for v, d and b there."""
    layout = Layout(model)
    for name in ("here_v", "here_d", "here_b"):
        arenas["mem"].add(name, np.zeros(layout.count))
    add_cells(model, layout, arenas["ints"])


def add_cells(model: Model, layout: Layout, ints: Arena, numbers: bool = False) -> None:
    """Add somas and detectors by node; `numbers`: of the cells too, which do not ascend."""
    soma = layout.number(model.soma)
    order = np.argsort(soma, kind="stable")
    ints.add("first_cell", layout.first(soma[order]))
    ints.add("soma_of", soma[order])
    if numbers:
        ints.add("cell_of", order)
    ints.add("detector_at", np.sort(layout.number(model.sources.detector_node)))


def detector_order(variables: Variables, layout: Layout) -> np.ndarray:
    """(d,) int64: detectors by node, in the order of the arenas."""
    return np.argsort(layout.number(variables.model.sources.detector_node), kind="stable")


def add_wires(variables: Variables, arenas: tuple[Arena, Arena, Arena], ahead: int = 0) -> None:
    """Add rings, connections and queues; artificial cells go `ahead` steps first."""
    mem, clock, ints = arenas
    wires, model = variables.wires, variables.model
    order, netcons, size = wires.order, model.netcons, wires.sizes_ahead(model, ahead)
    clock.add(
        "ring", moved_rings(variables.exact.ring, variables.exact.count, wires.ring_size, size)
    )
    clock.add("delay", netcons.delay[order])
    mem.add("weight", variables.exact.weight)
    ints.add("ring_first", starts(size))
    ints.add("ring_size", size)
    ints.add("event_count", variables.exact.count)
    ints.add("event_live", variables.exact.count)
    ints.add("first_connection", wires.first)
    ints.add("connection_source", netcons.source[order])
    short = model.sources.is_emitted[netcons.source] & (netcons.delay < variables.model.dt)
    if model.bins:
        ints.add("connection_rank", model.connection_ranks[order])
        clock.add("bin_dt", np.array([variables.model.dt]))
        short = SENDING.pack(short=short, crossed=detected(model), apart=0)
    ints.add("connection_short", short[order])
    ints.add("cursor", variables.exact.cursor[order])
    source = netcons.source[order]
    ints.add("fan", wires.target[order][np.argsort(source, kind="stable")])
    ints.add("first_fan", offsets(np.bincount(source, minlength=model.sources.count)))
    ints.add("stale", np.ones(wires.num_targets))
    clock.add("next_due", np.zeros(wires.num_targets))
    ints.add("first_weight", netcons.first_weight[:-1][order])
    ints.add("targets", np.concatenate([np.zeros(0, int), *wires.layers]))
    ints.add("loose", loose_targets(model, variables.wires))
    emitters = [np.zeros(0, np.int64), *model.sources.emitted.values()]
    ints.add("emitter_source", np.concatenate(emitters))
    for k, sources in model.sources.emitted.items():
        ints.add(f"emitted_{k}", sources)
    number = np.append(np.argsort(order), -1)  # connections as kernels number them
    for (k, name), to in model.steered.items():
        ints.add(f"steered_{k}_{name}", to.places(model))
        ints.add(f"steers_{k}_{name}", number[to.connection])
    if model.steered:
        clock.add("set_at", np.full(netcons.count, -np.inf))
    for k, queue in variables.queues.items():
        ints.add(f"queue_connection_{k}", number[queue.connection])
        for name, arena in _of_queues(mem, clock, ints):
            arena.add(f"queue_{name}_{k}", getattr(queue, name))
        bits = 1 << np.arange(len(queue.armed))[:, None]
        ints.add(f"armed_{k}", (queue.armed * bits).sum(axis=0))
        ints.add(f"above_flags_{k}", (queue.above * bits).sum(axis=0))


def _of_queues(mem: Arena, clock: Arena, ints: Arena) -> list[tuple[str, Arena]]:
    """Arrays of a `Queue` that are in arenas as they are."""
    return [("time", clock), ("sent", clock), ("flag", mem), ("size", ints), ("last", ints)]


def loose_targets(model: Model, wires: Wires) -> np.ndarray:
    """(k,) int64: targets that are at no node."""
    each = [
        first + np.arange(model.kinds[k].count)
        for k, first in wires.first_target.items()
        if is_artificial(model.kinds[k])
    ]
    return np.concatenate([np.zeros(0, np.int64), *each])


def add_played(variables: Variables, layout: Layout, mem: Arena, clock: Arena, ints: Arena) -> None:
    """Add what is played, by active node; what is at none comes last."""
    kinds, given = variables.model.kinds, variables.model.played
    owner, order = _order_of_played(variables.model, layout)
    played = [given[k] for k in order]
    if played:
        ints.add("first_played", layout.first(owner[order]))
    else:
        none = np.zeros((1, layout.count // ints.copies))
        ints.tile("first_played", none, after=np.zeros(1))
    clock.add("played_time", np.concatenate([np.zeros(0), *(p.t for p in played)]))
    clock.add("played_y", np.concatenate([np.zeros(0), *(p.y for p in played)]))
    ints.add("played_first", offsets(np.array([len(p.t) for p in played], int)))
    ints.add("played_continuous", np.array([p.continuous for p in played], int))
    places = [
        mem.offset[f"parameters_{p.kind}"]
        + at_parameter(variables, layout, p.kind, p.parameter, p.instance)
        for p in played
    ]
    ints.add("played_place", np.array(places, int))
    if not (into_events := [k for k in range(len(kinds)) if plays_into_events(variables.model, k)]):
        return
    ints.add("played_next", np.zeros(len(played)))
    for k in into_events:
        number = np.array([n for n, p in enumerate(played) if p.kind == k and not p.after_events])
        instance = np.array([played[n].instance for n in number])
        ints.add(f"plays_{k}", number[np.argsort(instance, kind="stable")])
        ints.add(f"first_plays_{k}", offsets(np.bincount(instance, minlength=kinds[k].count)))


def _order_of_played(model: Model, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Owners of what is played, and its order in arenas."""
    at = [_owners(model.kinds[p.kind], np.array([p.instance]), layout) for p in model.played]
    owner = np.concatenate([np.zeros(0, np.int64), *at])
    return owner, np.argsort(owner, kind="stable")


def plays_into_events(model: Model, k: int) -> bool:
    """Whether events of a kind read a parameter into which is played."""
    mechanism, of_kind = model.kinds[k].mechanism, [p for p in model.played if p.kind == k]
    played = {p.parameter for p in of_kind if not p.after_events}
    blocks = [b for b in mechanism.program.blocks if b.startswith(("receive", "watch", "for_net"))]
    read = {a.name for b in blocks for a in mechanism.calls(b) if a.role == "parameter"}
    return bool(played & read)


def entries_come(model: Model, layout: Layout, t: float) -> np.ndarray:
    """(played,) int32: first entry of each after a time, ms, in the order and places of arenas."""
    _, order = _order_of_played(model, layout)
    played = [model.played[n] for n in order.tolist()]
    came = np.array([entries_until(p, t) for p in played], np.int32)
    return came + offsets(np.array([len(p.t) for p in played], int))[:-1].astype(np.int32)


def at_parameter(
    variables: Variables, layout: Layout, k: int, name: str, instance: np.ndarray
) -> np.ndarray:
    """Where a parameter that is not single is among the parameters of a kind."""
    singles = variables.singles[k]
    given = [n for n, single in singles if not single]
    columns = layout.columns(k, variables.model.kinds[k])
    return len(singles) - len(given) + columns.at(instance, given.index(name), len(given))


def read_back(
    variables: Variables, arenas: dict[str, Arena], layout: Layout
) -> dict[str, np.ndarray]:
    """Return the arrays of `Variables.save`, those in arenas as they are on the device."""
    mem, clock, ints = (arenas[name].fetched() for name in ("mem", "clock", "ints"))
    model, order, now = variables.model, variables.wires.order, variables.copy()
    nodes = layout.nodes
    for k, kind in enumerate(model.kinds):
        columns, every = layout.columns(k, kind), np.arange(kind.count)
        for what, kept, names in (
            ("states", now.states[k], [*now.states[k]]),
            ("outputs", now.outputs[k], now.wanted[k]),
        ):
            found = mem.get(f"{what}_{k}")
            kept.update((n, found[columns.at(every, c, len(names))]) for c, n in enumerate(names))
        for name in {p.parameter for p in now.model.played if p.kind == k}:
            at = at_parameter(now, layout, k, name, every)
            now.parameters[k][name] = mem.get(f"parameters_{k}")[at]
    for name, values in variables.ions.items():
        now.ions[name] = values.copy()
        now.ions[name][nodes] = mem.get(f"ion_{name}")
    for k, name in now.drawn:
        pairs = np.ascontiguousarray(ints.get(f"drawn_{k}_{name}"))
        now.drawn[k, name] = pairs.view(np.int64)
    exact = now.exact
    exact.weight, exact.count = mem.get("weight"), ints.get("event_count")
    size = variables.wires.ring_size
    ahead = variables.wires.sizes_ahead(model, layout.ring_steps)
    exact.ring = moved_rings(clock.get("ring"), exact.count, ahead, size)
    exact.cursor, exact.held = exact.cursor.copy(), exact.held.copy()
    exact.cursor[order] = ints.get("cursor")
    exact.held[detector_order(variables, layout)] = ints.get("detector_held")
    for k, queue in now.queues.items():
        for name, arena in _of_queues(mem, clock, ints):
            setattr(queue, name, arena.get(f"queue_{name}_{k}"))
        queue.connection = np.append(order, -1)[ints.get(f"queue_connection_{k}")]
        bits = 1 << np.arange(len(queue.armed))[:, None]
        queue.armed = (ints.get(f"armed_{k}") & bits) != 0
        queue.above = (ints.get(f"above_flags_{k}") & bits) != 0
    return now.save(mem.dtype, copy=False)


def _regions(variables: Variables, arenas: dict[str, Arena]) -> dict[str, int]:
    """Return where regions of the arenas begin, and counts, by name."""
    model, wires = variables.model, variables.wires
    regions = {n: at for arena in arenas.values() for n, at in arena.offset.items()}
    for k, kind in enumerate(model.kinds):
        regions |= {f"count_{k}": kind.count, f"number_{k}": kind.first_instance}
        if model.of_last(k):
            regions |= {f"last_{k}": kind.last or 0, f"last_cell_{k}": model.last_cell(k)}
        if k in wires.first_target:
            regions[f"target_{k}"] = wires.first_target[k]
        if model.on_grid and kind.first_target >= 0:
            regions[f"sum_{k}"] = kind.first_target
    return regions | {
        "num_active": num_active(model),
        "num_played": len(model.played),
        "num_sums": num_sums(model),
        "num_loose": len(loose_targets(model, wires)),
    }


def spec_of(
    variables: Variables,
    arenas: dict[str, Arena],
    real: str,
    vector_bytes: int = 0,
    grouped: Container[int] = (),
) -> tuple[ArenaSpec, np.ndarray]:
    """Return the kernels' spec and what ``at`` holds; `grouped` kinds have no vector functions."""
    model, regions = variables.model, _regions(variables, arenas)
    width = vector_bytes // arenas["mem"].dtype.itemsize or 1
    every = range(len(model.kinds))
    kinds = tuple(_blocks_of(variables, k, real, width, k in grouped) for k in every)
    noisy = any(a.role == "noise" for k in kinds for _, _, arguments in k.blocks for a in arguments)
    spec = ArenaSpec(
        real=real,
        instant=real_name(arenas["clock"].dtype),
        kinds=kinds,
        ions=tuple(ion.name for ion in model.ions),
        regions=tuple(regions),
        secondorder=model.secondorder,
        second_order_currents=model.second_order_currents,
        noise=normal_source(real) if noisy else "",
        layered=variables.wires.apart,
        nernst=tuple(ion.name for ion in model.ions if ((ion.style & ADVANCE_REVERSAL) > 0).any()),
        grid=model.on_grid,
        bins=(1 + has_second_round(model)) * model.bins,
        calls=vector_bytes > 0,
        width=width,
        played=bool(model.played),
        constant=has_constants(model.once),
        sets_v="set_voltages" in model.needs,
        sums=bool(model.written),
        steers=bool(model.steered),
        diffuses=bool(model.diffusions),
    )
    return spec, np.array([*regions.values()], np.int32)


_ON_DEVICE = (
    "current",
    "advance",
    "diffuse",
    "receive",
    "watch",
    "before_breakpoint",
    "after_solve",
    "before_step",
)


def _blocks_of(variables: Variables, k: int, real: str, width: int, grouped: bool) -> KindBlocks:
    model, outputs = variables.model, variables.declared(k)
    kind, more = model.kinds[k], (outputs,) if outputs else ()
    mechanism = kind.mechanism
    program = mechanism.program
    names = [b for b in program.blocks if b in _ON_DEVICE or b.startswith("for_netcons")]
    single = [n for n, alone in variables.singles[k] if alone]
    wide = [b for b in names if width > 1 and in_vectors(mechanism, b, outputs)]
    scalar = [b for b in names if b not in wide]
    if isinstance(mechanism.language, Text):
        scalar.insert(0, "initial")
    functions = [
        mechanism.functions(real, outputs, scalar),
        "" if grouped else mechanism.functions(real, outputs, wide, width, single),
    ]
    return KindBlocks(
        number=k,
        name=mechanism.name,
        functions="\n".join(f for f in functions if f),
        kind=mechanism.kind,
        blocks=tuple(
            (b, mechanism.function_name(b), tuple(mechanism.calls(b, *more))) for b in names
        ),
        parameters=tuple(variables.singles[k]),
        states=tuple(q.name for q in program.states),
        outputs=tuple(variables.wanted[k]),
        **_of_events(model, k),
        queue=len(variables.queues[k].time) if k in variables.queues else 0,
        emits=k in model.sources.emitted,
        ions=tuple(ion.name for ion in model.ions),
        vectors=tuple((b, f"{mechanism.name}__v{width}_{b}") for b in wide),
        rows=width > 1 and bool(np.diff(kind.node).all()),
        last=model.of_last(k),
        plays=k in variables.wires.first_target and plays_into_events(model, k),
        reads=tuple(name for of, name in model.read if of == k),
    )


def _of_events(model: Model, k: int) -> dict[str, Any]:
    """Return the fields of `KindBlocks` that say which events a kind takes and sends."""
    mechanism = model.kinds[k].mechanism
    net = mechanism.program.net
    if net is None:
        return {}
    comes = bool(net.sends or net.watch_flags) or bool((model.netcons.kind == k).any())
    return {
        "weights": net.weights,
        "sends": tuple(s.kind for s in net.sends),
        "watch_flags": net.watch_flags,
        "for_netcons": net.for_netcons,
        "has_net": comes and "receive" in mechanism.program.blocks,
        "summed": model.on_grid and net.summed and mechanism.kind != "artificial",
    }


def in_vectors(mechanism: Mechanism, block: str, outputs: Sequence[str] = ()) -> bool:
    """Whether CPUs take several instances at once; `outputs` are variables that are recorded."""
    arguments = mechanism.program.blocks.get(block)
    if block not in ("current", "advance") or arguments is None:
        return False
    of_one = "noise", "pointer", "assign"  # each instance has its own
    if any(a.role in of_one for a in arguments):
        return False
    ions = [a for a in arguments if a.role == "ion"]
    if block == "current":
        apart = all(a.direction != "inout" for a in ions)
    else:
        apart = mechanism.kind == "density" or all(a.direction == "in" for a in ions)
    return apart and mechanism.takes_vectors(block, outputs)


def owner_of(record: Record, variables: Variables, layout: Layout) -> np.ndarray:
    """(r,) int64: active nodes whose work-items write what is recorded; else how many there are.

    Sums of what pointers add have numbers after that. A state that another instance sets is written
    by the work-item of that instance.
    """
    if record.kind < 0:
        return layout.number(record.index)
    model, k = variables.model, record.kind
    owners = _owners(model.kinds[k], record.index, layout)
    for (of, name), to in model.read.items():
        if (to.kind, to.state) == (k, record.name) and name in model.kinds[
            of
        ].mechanism.program.assigned:
            set_by = np.full(model.kinds[k].count, -1)
            set_by[to.instance] = _owners(model.kinds[of], np.arange(len(to.instance)), layout)
            owners = np.where(set_by[record.index] < 0, owners, set_by[record.index])
    states = [q.name for q in model.kinds[k].mechanism.program.states]
    if not model.written or record.name not in states:
        return owners
    sums, line = sums_of(model)[0], states.index(record.name)
    of_state = np.flatnonzero((sums[0] == k) & (sums[1] == line))
    at = place_of(sums[2, of_state], record.index)
    return np.where(at < 0, owners, layout.count + 1 + np.append(of_state, 0)[at])


def _owners(kind: Kind, instance: np.ndarray, layout: Layout) -> np.ndarray:
    """(r,) int64: active nodes of instances; how many there are for artificial cells."""
    if is_artificial(kind):
        return np.full(len(instance), layout.count)
    return layout.number(kind.node[instance])


def locations(
    records: Sequence[Record],
    variables: Variables,
    arenas: dict[str, Arena],
    place: Callable[[], np.ndarray],
    layout: Layout,
) -> list[tuple[str, np.ndarray]]:
    """Return which array each record is in, ``v`` or ``mem``, and where in it its values are.

    `place` is asked only if there are records.
    """
    mem, places = arenas["mem"], list[tuple[str, np.ndarray]]()
    for record in records:
        name, k, index = record.name, record.kind, record.index
        if k == -1:
            places.append(("v", place()[index]))
            continue
        if k < 0:
            places.append(("mem", mem.offset[f"ion_{name}"] + layout.number(index)))
            continue
        columns = layout.columns(k, variables.model.kinds[k])
        kept = {"states": [*variables.states[k]], "outputs": [*variables.wanted[k]]}
        values = next((values for values, names in kept.items() if name in names), "parameters")
        at = (
            at_parameter(variables, layout, k, name, index)
            if values == "parameters"
            else columns.at(index, kept[values].index(name), len(kept[values]))
        )
        places.append(("mem", mem.offset[f"{values}_{k}"] + at))
    return places


TOO_MANY_EVENTS = (
    "a source sent more events within its longest delay than there is room for; expected fewer"
)
WRONG_EVENTS = (
    "too many self events under way",
    "net_move without a self event of flag 1 under way",
    "an event is sent at a time that is past, or no number",
    "net_event at a time before that of an earlier net_event; expected times that ascend",
)


TOO_LATE = (
    "an event comes at the time, or before in the same step, at which another's event sets its "
    "weight by a POINTER; expected times that differ"
)
LATE = 1 << 20  # code of the first kind of which an event comes so


def check_events(model: Model, code: int) -> None:
    """Raise InputError for the code by which kernels say what was wrong with an event."""
    if not code:
        return
    if code == 1:
        raise InputError(TOO_MANY_EVENTS)
    if code >= LATE:
        raise InputError(f"{model.kinds[code - LATE].mechanism.name}: {TOO_LATE}")
    kind, what = divmod(code - 2, 4)
    raise InputError(f"{model.kinds[kind].mechanism.name}: {WRONG_EVENTS[what]}")
