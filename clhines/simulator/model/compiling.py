"""Compile a `Network` to the arrays of a `Model`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.arrays import inverse, offsets
from clhines.core.checks import as_number, shown
from clhines.core.errors import InputError
from clhines.simulator.common.checks import as_seed, spread
from clhines.simulator.mechanisms.ir.program import IonUse
from clhines.simulator.model.deliveries import (
    by_delivery,
    compile_connections,
    compile_events,
    number_connections,
)
from clhines.simulator.model.diffusion import Diffusion
from clhines.simulator.model.instances import (
    begin_of,
    check_alone,
    check_fields,
    check_temperature,
    kinds_of,
    nodes_of,
    place_electrodes,
    replace_values,
    set_spike_thresholds,
    sums_of_nodes,
)
from clhines.simulator.model.layers import layers_of
from clhines.simulator.model.model import (
    KNOWN_IONS,
    OTHER_ION,
    IonNodes,
    Kind,
    Model,
    ModelSources,
    NetCons,
    Played,
    promote,
)
from clhines.simulator.model.needs import (
    GRID,
    check_read,
    check_set_voltages,
    check_steered,
    check_written,
    of_model,
    of_network,
)
from clhines.simulator.model.pointers import Spans, pointer_fields
from clhines.simulator.network.additions import Additions, Sources
from clhines.simulator.network.changes import Changes
from clhines.simulator.network.groups import Group, Inside, inside
from clhines.simulator.network.network import Network
from clhines.simulator.network.structure import NodeValues, Structure
from clhines.simulator.network.times import as_step
from clhines.simulator.network.wiring import CallColumns


def compile(
    network: Network,
    dt: float = 0.025,
    v_init: ArrayLike = -65.0,
    secondorder: bool | int = False,
    seed: int = 0,
    changes: Changes | None = None,
) -> Model:
    """Check a network and make the arrays that engines use.

    Parameters
    ----------
    network : Network
    dt : float, ms
    v_init : float or (n,) float64, mV
    secondorder : bool, or 0 or 2 as in NEURON
        NEURON's ``secondorder = 2``: half a step implicitly, then extrapolated.
    seed : int
        Seed of the noise.
    changes : Changes, optional
        Values that `Simulation.set` changed.

    Returns
    -------
    Model

    Raises
    ------
    InputError
        If parts of the network contradict each other.
    """
    return _compiled(network, changes or Changes(), (dt, v_init, secondorder, seed))


def _kinds(
    parts: Inside, groups: Sequence[Group], celsius: float, stored: Collection[tuple[str, str]]
) -> tuple[tuple[Kind, ...], tuple[tuple[int, np.ndarray], ...]]:
    last = None if parts.of_copies else parts.added.last
    merged = kinds_of(groups, parts.places.area_at, celsius, stored, last)
    check_temperature(merged[0], celsius)
    check_alone(merged[0], parts.of_copies)
    return merged


def _compiled(
    network: Network, changes: Changes, times: tuple[float, ArrayLike, bool | int, int]
) -> Model:
    parts, stored = inside(network), changes.stored
    dt, structure, added = as_step(times[0]), parts.structure, parts.added
    groups = place_electrodes(changes.groups(network.groups), structure.around)
    wiring = parts.wiring.changed(changes)
    of_nodes = nodes_of(groups, structure, times[1])
    features = of_network(added, groups, wiring.calls)
    kinds, instances = _kinds(parts, groups, network.celsius, stored)
    first = np.array([kinds[k].first_target if k >= 0 else -1 for k, _ in instances], int)
    targets = sum(k.count for k in kinds if k.first_target >= 0)
    on_steps, at_times, on_grid = by_delivery(
        network, wiring, groups, dt, targets, bool(features), bool(features - GRID)
    )
    exact = on_grid is not None
    places = (
        dt,
        targets if on_steps.calls or on_steps.outside or not exact else 0,
        first,
        instances,
    )
    connections, numbers = compile_connections(on_steps, added, *places)
    numbers, weights, exactly = number_connections(connections, numbers, wiring, on_grid)
    threshold = spread("threshold", network.threshold, network.num_cells)
    kinds, threshold = set_spike_thresholds(network, kinds, threshold, dt)
    second_order = _second_order(times[2], exact)
    if second_order and any(kind.mechanism.program.spike for kind in kinds):
        raise InputError("secondorder: a text with 'spike:' resets v; expected secondorder=0")
    cells = Sources(network, 0, network.soma, threshold, np.zeros(len(threshold)))
    calls = at_times.calls, at_times.outside
    added_fields = fields_of(
        added, cells, kinds, instances, of_nodes, network.celsius, calls, times[2]
    )
    model = Model(
        forest=network.forest,
        soma=network.soma,
        of_nodes=of_nodes,
        kinds=kinds,
        instances=instances,
        num_targets=places[1],
        connections=connections,
        numbers=numbers,
        exact_numbers=exactly,
        given_weights=weights,
        events=compile_events(on_steps, added, dt, first, instances, on_grid),
        dt=dt,
        secondorder=second_order,
        seed=as_seed(times[3]),
        diffusions=tuple(_diffusions(kinds, structure)),
        layers=layers_of(structure, second_order),
        stored=frozenset(stored),
        **added_fields,
    )
    check_fields(model)
    check_set_voltages(model)
    check_written(model)
    check_read(model)
    check_steered(model)
    return replace(model, needs=features | of_model(model, exact))


def with_values(
    network: Network,
    model: Model,
    groups: Sequence[Group],
    v_init: ArrayLike,
    changes: Changes,
) -> Model:
    """Return a network's model, compiled before, with another `v_init` and changed parameters."""
    changed = [(number, name) for number, values in changes.parameters.items() for name in values]
    now = changes.groups(groups)
    kinds = replace_values(model.kinds, model.instances, now, changed, changes.stored, model.dt)
    check_temperature(kinds, network.celsius)
    structure = inside(network).structure
    return replace(
        model,
        kinds=kinds,
        of_nodes=model.of_nodes.changed(
            **sums_of_nodes(place_electrodes(now, structure.around), structure),
            v_init=begin_of(structure, v_init),
        ),
        stored=frozenset(changes.stored),
    )


def _diffusions(kinds: Sequence[Kind], structure: Structure) -> Iterator[Diffusion]:
    diffusing = set[str]()
    for k, kind in enumerate(kinds):
        program = kind.mechanism.program
        if not program.diffusing:
            continue
        axis = structure.axis
        if axis is None:
            raise InputError(
                f"{program.name}: LONGITUDINAL_DIFFUSION needs lengths of segments, which cells of "
                "arrays do not have; expected cells of cables"
            )
        ions = {*program.diffusing} - {q.name for q in program.states}
        if ions & diffusing:
            raise InputError(
                f"{program.name}: {min(ions & diffusing)} diffuses by another mechanism, too; "
                "expected one of them"
            )
        diffusing |= ions
        at = inverse(kind.node, len(axis.length) + 1)  # the last entry: no node
        first, second, third = at[axis.before[:, kind.node]]
        parent = np.where(first >= 0, first, np.where(second >= 0, second, third))
        length = axis.length[kind.node]
        above = length[parent]
        up, down = 2 / above / (length + above), 2 / length / (length + above)
        yield Diffusion(k, program.diffusing, parent, up, down)


def _second_order(value: object, exact: bool) -> bool:
    """Return whether `secondorder` is not 0; 1 is valid only with events at exact times."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    orders = (0, 1, 2) if exact else (0, 2)
    if not isinstance(value, (int, np.integer)) or value not in orders:
        raise InputError(f"secondorder is {shown(value)}; expected True or False")
    return bool(value > 0)


def fields_of(
    added: Additions,
    cells: Sources,
    kinds: Sequence[Kind],
    instances: Spans,
    of_nodes: NodeValues,
    celsius: object,
    wiring: tuple[CallColumns, CallColumns],
    secondorder: object,
) -> dict[str, Any]:
    """Return those `Model` fields that come from a network's additions to its cells.

    `cells` are the somas as sources. `wiring` has the connections and the external events at exact
    times; other arguments are `Model` fields.
    """
    detectors = [cells, *(s for s in added.sources if not s.times)]
    trains = [s for s in added.sources if s.times]
    columns, outside = wiring
    source = [s.first + np.arange(len(s)) for s in trains]
    times = [t for s in trains for t in s.times]
    events, count = CallColumns(), added.num_sources
    for group, index, time, weight in outside:  # each event is a train without delay
        source.append(count + np.arange(len(time)))
        times += [np.array([t]) for t in time.tolist()]
        none = np.zeros(len(time))
        events.append((source[-1], group, index, weight[:, None], none, none > 0))
        count += len(time)
    return {
        "celsius": as_number("celsius", celsius),
        "ions": tuple(_ions(added, kinds, of_nodes)),
        "sources": ModelSources(
            count=count,
            detector_node=np.concatenate([s.node for s in detectors]),
            detector_threshold=np.concatenate([s.threshold for s in detectors]),
            detector_refractory=np.concatenate([s.refractory for s in detectors]),
            detector_source=np.concatenate([s.first + np.arange(len(s)) for s in detectors]),
            train_source=np.concatenate([np.zeros(0, np.int64), *source]),
            train_time=tuple(times),
            emitted=_emitted(added, kinds, instances),
        ),
        "netcons": _netcons([*columns, *events], instances, kinds),
        **pointer_fields(added, kinds, instances),
        "remote_v": added.remote_v,
        "played": _played(added, instances),
        "random_ids": _streams(added, kinds, instances),
        "random_index": added.random_index,
        "bins": added.bins,
        "second_order_currents": bool(secondorder) and (secondorder is True or secondorder == 2),
    }


def _played(added: Additions, instances: Spans) -> tuple[Played, ...]:
    return tuple(
        Played(k, int(place[p.index]), p.parameter, p.t, p.y, p.continuous, p.after_events)
        for p in added.plays
        for k, place in [instances[p.group]]
    )


def _netcons(calls: CallColumns, instances: Spans, kinds: Sequence[Kind]) -> NetCons:
    kind, instance, weights, counts = [], [], [], []
    for columns in calls:
        group, index, rows = columns[1:4]
        if not len(group):
            continue
        k, place = instances[int(group[0])]
        net = kinds[k].mechanism.program.net if k >= 0 else None
        width = len(net.weights) if net is not None else 0
        row = np.zeros((len(group), width))
        common = min(width, rows.shape[1])
        row[:, :common] = rows[:, :common]
        kind.append(np.full(len(group), k))
        instance.append(place[index])
        weights.append(row.ravel())
        counts.append(np.full(len(group), width))
    none = [np.zeros(0, np.int64)]
    used = [c for c in calls if len(c[1])]
    return NetCons(
        source=np.concatenate(none + [c[0] for c in used]).astype(np.int64),
        kind=np.concatenate(none + kind),
        instance=np.concatenate(none + instance),
        delay=np.concatenate([np.zeros(0), *(c[4] for c in used)]),
        weight=np.concatenate([np.zeros(0), *weights]),
        first_weight=offsets(np.concatenate(none + counts)).astype(np.int64),
    )


def _ions(added: Additions, kinds: Sequence[Kind], of_nodes: NodeValues) -> Iterator[IonNodes]:
    every = [(kind, use) for kind in kinds for use in kind.mechanism.program.ions]
    for name in dict.fromkeys([use.name for _, use in every] + [g.name for g in added.ions]):
        uses = [(kind, use) for kind, use in every if use.name == name]
        declared = [g for g in added.ions if g.name == name]
        has_ion = np.zeros(of_nodes.count, bool)
        for nodes in [*(k.node for k, _ in uses), *(g.nodes for g in declared)]:
            has_ion[nodes] = True
        node, place = np.flatnonzero(has_ion), np.cumsum(has_ion) - 1
        bare = node[of_nodes.at("area", node) <= 0]
        if len(bare):
            raise InputError(f"ion {name} is at node {bare[0]}, which has no membrane")
        _, *defaults = KNOWN_IONS.get(name, OTHER_ION)
        valence = _valence(name, [*(u.valence for _, u in uses), *(g.valence for g in declared)])
        style = np.zeros(len(node), np.int64)
        for kind, use in uses:
            at, (c, e) = place[kind.node], _promotion(use)
            style[at] = promote(style[at], c, e)
        values = {"style": style.astype(np.float64)}
        at_start = zip(("e", "ci", "co"), defaults, strict=True)
        values |= {k: np.full(len(node), x) for k, x in at_start}
        for g in declared:
            for key, value in g.values.items():
                values[key][place[g.nodes]] = value
        whole = values.pop("style").astype(np.int64)
        yield IonNodes(name, valence, node, style=whole, **values)


def _valence(name: str, declared: Sequence[float | None]) -> float:
    valences = {valence for valence in declared if valence is not None}
    if name in KNOWN_IONS:
        valences.add(KNOWN_IONS[name][0])
    if len(valences) != 1:
        got = " and ".join(f"{c:g}" for c in sorted(valences)) or "not given"
        raise InputError(f"valence of ion {name} is {got}; expected one: ion(valence=)")
    return valences.pop()


def _promotion(use: IonUse) -> tuple[int, int]:
    """Return NEURON's arguments of nrn_promote for an ion's use by a mechanism.

    The first is for the concentrations, the second for the reversal potential: 3 if the mechanism
    writes it, 1 if it reads it, else 0.
    """

    def level(*names: str) -> int:
        if {*names} & {*use.writes}:
            return 3
        return int(bool({*names} & {*use.reads}))

    return level(f"{use.name}i", f"{use.name}o"), level(f"e{use.name}")


def _emitted(added: Additions, kinds: Sequence[Kind], instances: Spans) -> dict[int, np.ndarray]:
    emitted: dict[int, np.ndarray] = {}
    for group, first in added.emitters:
        if not len(group):
            continue
        k, place = instances[group.number]
        sources = emitted.setdefault(k, np.full(kinds[k].count, -1))
        sources[place] = first + np.arange(len(group))
    return emitted


def _streams(
    added: Additions, kinds: Sequence[Kind], instances: Spans
) -> dict[tuple[int, str], np.ndarray]:
    streams, number = {}, 0
    for k, kind in enumerate(kinds):
        for name in kind.mechanism.program.random:
            ids = np.zeros((kind.count, 3), np.uint32)
            ids[:, 0], ids[:, 2] = 1, number + 1 + np.arange(kind.count)
            streams[k, name] = ids
            number += kind.count
    for group, name, ids in added.streams:
        k, place = instances[group]
        streams[k, name][place] = ids
    return streams
