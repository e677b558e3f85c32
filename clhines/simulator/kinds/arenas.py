"""Copy a model's variables to the arenas (``mem``, ``clock``, ``ints``), and read them back."""

from __future__ import annotations

import numpy as np

from clhines.core.arrays import inverse, offsets, starts
from clhines.simulator.kinds.layouts import (
    Layout,
    at_parameter,
    is_artificial,
    loose_targets,
    sums_of,
)
from clhines.simulator.kinds.played import add_played
from clhines.simulator.kinds.spec import check_parameters
from clhines.simulator.model.model import ADVANCE_REVERSAL, Kind, Model
from clhines.simulator.state.arena import Arena
from clhines.simulator.state.ranges import check_range
from clhines.simulator.state.sources import SENDING, detected, moved_rings
from clhines.simulator.state.variables import Variables, nernst_scale

_DOUBLE = np.dtype(np.float64)


def base_diagonal(model: Model, layout: Layout) -> np.ndarray:
    return (model.capacitance_over_dt + model.constant_d)[layout.nodes]


def fill_arenas(
    variables: Variables,
    dtype: np.dtype,
    place: np.ndarray,
    layout: Layout | None = None,
    instant: np.dtype = _DOUBLE,
) -> dict[str, Arena]:
    """Return the arenas (device arrays) ``mem``, ``clock`` and ``ints``, filled for a network.

    ``mem`` has the type `dtype`, ``clock`` the type `instant`. `place` has each node's index in the
    solver's order.
    """
    mem, clock, ints = (Arena(d) for d in (dtype, instant, np.dtype(np.int32)))
    model = variables.model
    layout = layout or Layout(model)
    nodes = layout.nodes
    check_range("a voltage", variables.v, dtype)
    check_range("a weight", variables.exact.weight, dtype)
    mem.add("area", model.area[nodes])
    mem.add("base_d", base_diagonal(model, layout))
    ints.add("place_of", place[nodes])
    ints.add("cell", inverse(model.soma, model.forest.num_nodes)[nodes])
    ints.add("error", np.zeros(1))
    _add_ions(variables, nodes, (mem, ints))
    for k, kind in enumerate(model.kinds):
        _add_kind(variables, k, kind, layout, (mem, ints))
        for (pointing_kind, name), node in model.pointers.items():
            if pointing_kind == k:
                ints.add(f"pointer_{k}_{name}", place[node])
    _add_read(model, layout, mem, ints)
    if model.written:
        _add_sums(model, layout, mem, ints)
    detector = layout.number(model.sources.detector_node)
    ints.add("first_detector", layout.first(np.sort(detector)))
    order = detector_order(variables, layout)
    ints.add("detector_source", model.sources.detector_source[order])
    ints.add("detector_held", variables.exact.held[order])
    ints.add("detector_hold", model.detector_hold[order])
    mem.add("detector_threshold", model.sources.detector_threshold[order])
    add_wires(variables, (mem, clock, ints), layout.ring_steps)
    add_played(variables, layout, mem, clock, ints)
    return {"mem": mem, "clock": clock, "ints": ints}


def add_turns(model: Model, mem: Arena, turns: int) -> None:
    for k in range(len(model.kinds)):
        for name in model.of_last(k):
            mem.room(f"turns_{k}_{name}", (turns,))


def _add_read(model: Model, layout: Layout, mem: Arena, ints: Arena) -> None:
    for (k, name), to in model.read.items():
        at = _states_at(model, layout, mem, (to.kind, to.state), to.instance)
        ints.add(f"pointer_{k}_{name}", at)


def _states_at(
    model: Model, layout: Layout, mem: Arena, state: tuple[int, str], instance: np.ndarray
) -> np.ndarray:
    (k, name), kind = state, model.kinds[state[0]]
    states = [q.name for q in kind.mechanism.program.states]
    columns = layout.columns(k, kind)
    return mem.offset[f"states_{k}"] + columns.at(instance, states.index(name), len(states))


def _add_sums(model: Model, layout: Layout, mem: Arena, ints: Arena) -> None:
    """Add tables of states to which POINTERs add terms: the indices of the states and the terms."""
    sums, adds, puts = sums_of(model)

    def places(role: str, number: np.ndarray, instance: np.ndarray) -> np.ndarray:
        first = np.array([mem.offset[f"{role}_{k}_{name}"] for k, name in model.written])
        return np.where(number < 0, -1, first[number] + instance)

    at = np.zeros(sums.shape[1], np.int64)
    for k in np.unique(sums[0]).tolist():
        for line, state in enumerate(model.kinds[k].mechanism.program.states):
            here = (sums[0] == k) & (sums[1] == line)
            at[here] = _states_at(model, layout, mem, (k, state.name), sums[2, here])
    ints.add("sum_at", at)
    ints.add("sum_row", layout.count + 1 + np.arange(len(at)))
    ints.add("sum_set", places("put", *puts))
    ints.add("sum_first", np.searchsorted(adds[0], np.arange(len(at) + 1)))
    ints.add("sum_from", places("add", adds[1], adds[2]))


def _add_ions(variables: Variables, nodes: np.ndarray, arenas: tuple[Arena, Arena]) -> None:
    (mem, ints), model = arenas, variables.model
    for ion in model.ions:
        for name in (*ion.variables, f"d{ion.variables[3]}"):
            mem.add(f"ion_{name}", variables.ions[name][nodes])
        mem.add(f"nernst_{ion.name}", np.array([nernst_scale(model.celsius, ion.valence)]))
        advances = np.zeros(model.forest.num_nodes, bool)
        advances[ion.node] = (ion.style & ADVANCE_REVERSAL) > 0
        ints.add(f"advances_{ion.name}", advances[nodes])


def _add_kind(
    variables: Variables, k: int, kind: Kind, layout: Layout, arenas: tuple[Arena, Arena]
) -> None:
    (mem, ints), columns = arenas, layout.columns(k, kind)
    check_parameters(kind, mem.dtype)
    several = [variables.parameters[k][n] for n, single in variables.singles[k] if not single]
    names = [n for n, single in variables.singles[k] if single]
    # a number even if a rank has no instances
    singles = [np.append(variables.parameters[k][n], kind.parameters[n])[:1] for n in names]
    columns.put(mem, f"parameters_{k}", several, before=np.concatenate([np.zeros(0), *singles]))
    columns.put(mem, f"states_{k}", [*variables.states[k].values()])
    columns.put(mem, f"outputs_{k}", [variables.outputs[k][n] for n in variables.wanted[k]])
    diffusing = kind.mechanism.program.diffusing
    if diffusing:  # volumes and coefficients
        columns.put(mem, f"diffusing_{k}", [np.zeros(kind.count)] * (2 * len(diffusing)))
    for name, rows in variables.tables[k].items():
        mem.align(4)  # epochs load four numbers in a row at once
        mem.add(f"table_{k}_{name}", rows)
    for name in kind.mechanism.program.written:
        for role in ("put", "add"):
            mem.add(f"{role}_{k}_{name}", np.zeros(kind.count))
    for name in kind.mechanism.program.random:
        ids = variables.stream(k, name, np.arange(kind.count))
        ints.add(f"stream_{k}_{name}", ids.view(np.int32))
        ints.add(f"drawn_{k}_{name}", variables.drawn[k, name].view(np.int32))
    if is_artificial(kind):
        return
    number = layout.number(kind.node)
    if columns.by_node:
        ints.add(f"first_{k}", layout.first(number))
    ints.add(f"active_{k}", number)


def add_vectors(model: Model, arenas: dict[str, Arena]) -> None:
    """Add to the arenas what kernels with CPU vectors need.

    This is memory for v, d and b at active nodes, and the lists of `add_cells`.
    """
    layout = Layout(model)
    for name in ("here_v", "here_d", "here_b"):
        arenas["mem"].add(name, np.zeros(layout.count))
    add_cells(model, layout, arenas["ints"])


def add_cells(model: Model, layout: Layout, ints: Arena, numbers: bool = False) -> None:
    """Add somas and detectors sorted by node; with `numbers` also each soma's cell."""
    soma = layout.number(model.soma)
    order = np.argsort(soma, kind="stable")
    ints.add("first_cell", layout.first(soma[order]))
    ints.add("soma_of", soma[order])
    if numbers:
        ints.add("cell_of", order)
    ints.add("detector_at", np.sort(layout.number(model.sources.detector_node)))


def detector_order(variables: Variables, layout: Layout) -> np.ndarray:
    """Return the detectors sorted by active node, their order on the device, (d,) int64."""
    return np.argsort(layout.number(variables.model.sources.detector_node), kind="stable")


def add_wires(variables: Variables, arenas: tuple[Arena, Arena, Arena], ahead: int = 0) -> None:
    """Add regions for ring buffers of event times, for connections and for self events.

    Artificial cells run `ahead` steps ahead of the others, so their ring buffers are longer.
    """
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
    number = np.append(np.argsort(order), -1)  # connection index in kernels; -1: none
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
    return [("time", clock), ("sent", clock), ("flag", mem), ("size", ints), ("last", ints)]


def read_back(
    variables: Variables, arenas: dict[str, Arena], layout: Layout
) -> dict[str, np.ndarray]:
    """Read all variables from the device; return the arrays that `Variables.save` returns."""
    mem, clock, ints = (arenas[name].fetched() for name in ("mem", "clock", "ints"))
    model, order, now = variables.model, variables.wires.order, variables.copy()
    nodes = layout.nodes
    for k, kind in enumerate(model.kinds):
        columns, every = layout.columns(k, kind), np.arange(kind.count)
        for role, arrays, names in (
            ("states", now.states[k], [*now.states[k]]),
            ("outputs", now.outputs[k], now.wanted[k]),
        ):
            read = mem.get(f"{role}_{k}")
            arrays.update((n, read[columns.at(every, c, len(names))]) for c, n in enumerate(names))
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
