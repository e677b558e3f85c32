"""Ions, sources, exact connections, pointers and more: from what a network was given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from clhines.arrays import offsets
from clhines.checks import as_number
from clhines.errors import InputError
from clhines.mechanisms.ir.program import IonUse
from clhines.model.ions import KNOWN_IONS, OTHER_ION, IonNodes, promoted
from clhines.model.model import Kind
from clhines.model.sources import NetCons, Played, Sources
from clhines.network.additions import Added
from clhines.network.additions import Sources as GivenSources

Instances = Sequence[tuple[int, np.ndarray]]  # see `Model.instances`
Columns = list[tuple[np.ndarray, ...]]


def fields_of(
    added: Added,
    cells: GivenSources,
    kinds: Sequence[Kind],
    instances: Instances,
    area: np.ndarray,
    celsius: object,
    wiring: tuple[Columns, Columns],
    secondorder: object,
    ions: tuple[IonNodes, ...] | None = None,
) -> dict[str, Any]:
    """Return the fields of a `Model` that ions, sources and exact connections fill."""
    detectors = [cells, *(s for s in added.sources if not s.times)]
    trains = [s for s in added.sources if s.times]
    given, outside = wiring
    source = [s.first + np.arange(len(s)) for s in trains]
    times = [t for s in trains for t in s.times]
    events = _outside(outside, added.num_sources)
    netcons = _netcons([*given, *events], instances, kinds)
    for rows in events:
        source.append(rows[0])
        times += [np.array([t]) for t in rows[6].tolist()]
    return {
        "celsius": as_number("celsius", celsius),
        "ions": tuple(_ions(added, kinds, area)) if ions is None else ions,
        "sources": Sources(
            count=added.num_sources + sum(len(rows[0]) for rows in events),
            detector_node=np.concatenate([s.node for s in detectors]),
            detector_threshold=np.concatenate([s.threshold for s in detectors]),
            detector_refractory=np.concatenate([s.refractory for s in detectors]),
            detector_source=np.concatenate([s.first + np.arange(len(s)) for s in detectors]),
            train_source=np.concatenate([np.zeros(0, np.int64), *source]),
            train_time=tuple(times),
            emitted=_emitted(added, kinds, instances),
        ),
        "netcons": netcons,
        "pointers": _pointers(added, kinds, instances),
        "remote_v": added.remote_v,
        "played": _played(added, instances),
        "random_ids": _streams(added, kinds, instances),
        "random_index": added.random_index,
        "bins": added.bins,
        "second_order_currents": bool(secondorder) and (secondorder is True or secondorder == 2),
    }


def _played(added: Added, instances: Instances) -> tuple[Played, ...]:
    return tuple(
        Played(k, int(place[p.index]), p.parameter, p.t, p.y, p.continuous)
        for p in added.plays
        for k, place in [instances[p.group]]
    )


def _outside(events: Columns, first: int) -> Columns:
    """Return events from outside as connections without delay, each from a train of its own."""
    found: Columns = []
    for group, index, time, weight in events:
        source = first + np.arange(len(time))
        none = np.zeros(len(time))
        found.append((source, group, index, weight[:, None], none, none > 0, time))
        first += len(time)
    return found


def _netcons(given: Columns, instances: Instances, kinds: Sequence[Kind]) -> NetCons:
    kind, instance, weights, counts = [], [], [], []
    for columns in given:
        group, index, rows = columns[1:4]
        if not len(group):
            continue
        k, place = instances[int(group[0])]
        net = kinds[k].mechanism.program.net if k >= 0 else None
        width = len(net.weights) if net is not None else 0
        row = np.zeros((len(group), width))
        kept = min(width, rows.shape[1])
        row[:, :kept] = rows[:, :kept]
        kind.append(np.full(len(group), k))
        instance.append(place[index])
        weights.append(row.ravel())
        counts.append(np.full(len(group), width))
    none = [np.zeros(0, np.int64)]
    used = [c for c in given if len(c[1])]
    return NetCons(
        source=np.concatenate(none + [c[0] for c in used]).astype(np.int64),
        kind=np.concatenate(none + kind),
        instance=np.concatenate(none + instance),
        delay=np.concatenate([np.zeros(0), *(c[4] for c in used)]),
        weight=np.concatenate([np.zeros(0), *weights]),
        first_weight=offsets(np.concatenate(none + counts)).astype(np.int64),
    )


def _uses(kinds: Sequence[Kind]) -> Iterator[tuple[Kind, IonUse]]:
    for kind in kinds:
        for use in kind.mechanism.program.ions:
            yield kind, use


def _ions(added: Added, kinds: Sequence[Kind], area: np.ndarray) -> Iterator[IonNodes]:
    """Find where ions are, with values given or NEURON's, in the order of their first use."""
    names = dict.fromkeys([use.name for _, use in _uses(kinds)] + [g.name for g in added.ions])
    for name in names:
        uses = [(kind, use) for kind, use in _uses(kinds) if use.name == name]
        given = [g for g in added.ions if g.name == name]
        has_ion = np.zeros(len(area), bool)
        for nodes in [*(k.node for k, _ in uses), *(g.nodes for g in given)]:
            has_ion[nodes] = True
        node = np.flatnonzero(has_ion)
        bare = node[area[node] <= 0]
        if len(bare):
            raise InputError(f"ion {name} is at node {bare[0]}, which has no membrane")
        charge, *defaults = KNOWN_IONS.get(name, OTHER_ION)
        charges = {u.valence for _, u in uses if u.valence is not None}
        charges |= {g.valence for g in given if g.valence is not None}
        charges |= {charge} if name in KNOWN_IONS else set()
        if len(charges) != 1:
            got = " and ".join(f"{c:g}" for c in sorted(charges)) or "not given"
            raise InputError(f"valence of ion {name} is {got}; expected one: ion(valence=)")
        style = np.zeros(len(node), np.int64)
        for kind, use in uses:
            at, (c, e) = np.searchsorted(node, np.unique(kind.node)), _promotion(use)
            style[at] = promoted(style[at], c, e)
        values = {"style": style.astype(np.float64)}
        at_start = zip(("e", "ci", "co"), defaults, strict=True)
        values |= {k: np.full(len(node), x) for k, x in at_start}
        for g in given:
            for key, value in g.values.items():
                values[key][np.searchsorted(node, g.nodes)] = value
        whole = values.pop("style").astype(np.int64)
        yield IonNodes(name, charges.pop(), node, style=whole, **values)


def _promotion(use: IonUse) -> tuple[int, int]:
    """Return what NEURON's `nrn_promote` takes: of concentrations and of the reversal potential."""
    conc, rev = {f"{use.name}i", f"{use.name}o"}, {f"e{use.name}"}
    return tuple(  # type: ignore[return-value]
        3 if names & {*use.writes} else 1 if names & {*use.reads} else 0 for names in (conc, rev)
    )


def _emitted(added: Added, kinds: Sequence[Kind], instances: Instances) -> dict[int, np.ndarray]:
    found: dict[int, np.ndarray] = {}
    for group, first in added.emitters:
        if not len(group):
            continue
        k, place = instances[group.number]
        sources = found.setdefault(k, np.full(kinds[k].count, -1))
        sources[place] = first + np.arange(len(group))
    return found


def _pointers(
    added: Added, kinds: Sequence[Kind], instances: Instances
) -> dict[tuple[int, str], np.ndarray]:
    found = {
        (k, name): np.full(kind.count, -1)
        for k, kind in enumerate(kinds)
        for name in kind.mechanism.program.pointers
    }
    for group, name, index, node in added.pointers:
        k, place = instances[group]
        found[k, name][place[index]] = node
    for (k, name), nodes in found.items():
        loose = np.flatnonzero(nodes < 0)
        if len(loose):
            raise InputError(
                f"{kinds[k].mechanism.name}: pointer {name} of {len(loose)} instances points "
                "nowhere; expected point() for each"
            )
    return found


def _streams(
    added: Added, kinds: Sequence[Kind], instances: Instances
) -> dict[tuple[int, str], np.ndarray]:
    """Return numbers of streams; NEURON's for those not set: 1, the rank, and a running number."""
    found, number = {}, 0
    for k, kind in enumerate(kinds):
        for name in kind.mechanism.program.random:
            ids = np.zeros((kind.count, 3), np.uint32)
            ids[:, 0], ids[:, 2] = 1, number + 1 + np.arange(kind.count)
            found[k, name] = ids
            number += kind.count
    for group, name, ids in added.streams:
        k, place = instances[group]
        found[k, name][place] = ids
    return found
