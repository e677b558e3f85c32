"""Networks in files.

A file is an ``.npz`` of arrays and one text, ``network``: strict JSON in which ``{"array": 3}``
stands for member ``a3``. Loading calls users' methods, with the same checks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from math import prod
from typing import Any, cast

import numpy as np

from clhines.core.checks import as_indices, as_real
from clhines.core.errors import InputError
from clhines.core.files import PathLike, parse_json, write_npz
from clhines.simulator.cells.cable import Axis
from clhines.simulator.common.npz import Member, Npz
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.mechanisms.nmodl.build import MAX_QUEUE, Nmodl, tables_of
from clhines.simulator.mechanisms.nmodl.reading.changes import FileChanges
from clhines.simulator.mechanisms.nmodl.reading.tree import FunctionTable
from clhines.simulator.network.additions import Additions
from clhines.simulator.network.groups import Group, Inside, inside
from clhines.simulator.network.plasticity import STDP, Rule
from clhines.simulator.network.structure import Structure, of_arrays

Put = Callable[[object], object]
Get = Callable[[object], Any]
FORMAT = 1
_WHAT = "a file that Network.save() has written"
_NODES = "area", "g_axial", "capacitance", "g_total", "in_soma"
_ARGUMENTS = "self", "mechanism", "at", "count"  # for insert, add and add_artificial
_NEAR = 1e-12  # relative: conductance sums in a file differ by their order


def save(network: Any, path: PathLike, celsius: float | None) -> None:
    text, arrays = packed(network, celsius)
    members = {f"a{k}": array for k, array in enumerate(arrays)}
    write_npz(path, {"network": np.frombuffer(text.encode(), np.uint8), **members})


def packed(network: Any, celsius: float | None) -> tuple[str, list[np.ndarray]]:
    """Convert a network to JSON, and arrays to which the JSON refers by number."""
    parts = inside(network)
    if parts.added.steered:
        raise InputError("a network whose events set weights by a POINTER cannot be saved")
    arrays = list[np.ndarray]()

    def put(values: object) -> object:
        array = np.asarray(values)
        if not array.ndim:
            return array.item()
        arrays.append(array)
        return {"array": len(arrays) - 1}

    saved = {"celsius": celsius, **_described(network, put)}
    return json.dumps(saved, allow_nan=False), arrays


def unpacked(text: str, arrays: Sequence[np.ndarray], make: Callable[[Structure], Any]) -> Any:
    def get(saved: object) -> Any:
        return arrays[int(saved["array"])] if isinstance(saved, dict) else saved

    return _made(cast("dict[str, Any]", parse_json(text.encode(), "network")), get, make)


def _described(net: Any, put: Put) -> dict[str, object]:
    parts = inside(net)
    return {
        "format": FORMAT,
        "cells": _described_cells(net, parts.structure, put),
        "threshold": put(net.threshold),
        "settings": net.settings,
        **_described_groups(net, put),
        **_described_additions(parts.added, put),
        **_described_wiring(parts.wiring, put),
    }


def _described_cells(net: Any, structure: Structure, put: Put) -> dict[str, object]:
    axis = structure.axis
    cells = {"parent": put(net.forest.parent), "cell_offsets": put(net.forest.cell_offsets)}
    cells |= {name: put(structure.whole(name)) for name in _NODES} | {"soma": put(net.soma)}
    if axis is not None and any(g.mechanism.program.diffusing for g in net.groups):
        cells |= {"length": put(axis.length), "before": put(axis.before)}
    if structure.around is not None:
        cells |= {"around": put(structure.around.node), "g_around": put(structure.around.g)}
    return cells


def _described_groups(net: Any, put: Put) -> dict[str, object]:
    mechanisms = list(dict.fromkeys(group.mechanism for group in net.groups))
    numbers = {mechanism: k for k, mechanism in enumerate(mechanisms)}
    return {
        "mechanisms": [
            {"text": m.text, "nmodl": asdict(m.language) if isinstance(m.language, Nmodl) else None}
            for m in mechanisms
        ],
        "groups": [
            {
                "mechanism": numbers[group.mechanism],
                "nodes": put(group.nodes),
                "parameters": {name: put(group.parameters[name]) for name in group.given},
            }
            for group in net.groups
        ],
    }


def _described_additions(added: Any, put: Put) -> dict[str, object]:
    return {
        "bins": added.bins,
        "exact": added.exact,
        "last": [*added.last.items()],
        "sources": [
            {
                "first": source.first,
                "node": put(source.node),
                "threshold": put(source.threshold),
                "refractory": put(source.refractory),
                "sizes": put([len(t) for t in source.times]) if source.times else None,
                "times": put(np.concatenate([np.zeros(0), *source.times])),
            }
            for source in added.sources
        ],
        "remote_v": put(added.remote_v),
        "ions": [
            [ion.name, put(ion.nodes), ion.valence, {k: put(v) for k, v in ion.values.items()}]
            for ion in added.ions
        ],
        "pointers": [[k, name, put(node), put(which)] for k, name, which, node in added.pointers],
        "written": [
            [k, name, put(place), target, variable, put(at)]
            for k, name, place, target, variable, at in added.written
        ],
        "plays": [
            [p.group, p.index, p.parameter, put(p.t), put(p.y), p.continuous, p.after_events]
            for p in added.plays
        ],
        "streams": [[k, name, put(ids), added.random_index] for k, name, ids in added.streams],
    }


def _described_wiring(wiring: Any, put: Put) -> dict[str, object]:
    rule = None if wiring.rule is None else dict(wiring.rule.parameters)
    if rule is not None and not isinstance(wiring.rule, STDP):
        rule = {"text": wiring.rule.text, "parameters": rule}
    return {
        "rule": rule,
        "connections": [[put(column) for column in columns] for columns in wiring.calls],
        "events": [[put(column) for column in columns] for columns in wiring.outside],
    }


def load(path: PathLike, make: Callable[[Structure], Any]) -> Any:
    with Npz(path, _WHAT) as file:
        if file.header("network")[1].kind == "U":  # a state's digest
            got = "is the state of a simulation, for Simulation.restore()"
            raise InputError(f"{file.name}: {got}; expected {_WHAT}")
        try:
            saved = parse_json(_member(file, "network").tobytes(), "network")
            return _made(cast("dict[str, Any]", saved), partial(_value, file), make)
        except InputError as error:
            named = str(error).startswith(file.name)
            raise InputError(str(error) if named else f"{file.name}: {error}") from error
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"{file.name}: not {_WHAT}: {error!r:.100}") from error


def _member(file: Npz, name: str) -> np.ndarray:
    shape, dtype = file.header(name)
    if dtype.kind not in "fiub":
        raise InputError(f"{name} has dtype {dtype}; expected numbers")
    if dtype.itemsize * prod(shape) > file.size:  # members are not compressed
        raise InputError(f"{name} has shape {shape}; expected at most the size of the file")
    return file.read(name, Member(shape, dtype))


def _value(file: Npz, saved: object) -> Any:
    return _member(file, f"a{int(saved['array'])}") if isinstance(saved, dict) else saved


def _made(saved: dict[str, Any], get: Get, make: Callable[[Structure], Any]) -> Any:
    if saved["format"] != FORMAT:
        raise InputError(f"format {saved['format']!r:.20}; expected {FORMAT}")
    if saved.get("linear"):
        raise InputError(
            "has linear equations of voltages (add_linear, NEURON's LinearMechanism), which are no "
            "longer simulated; expected a network without them"
        )
    net = make(_cells({name: get(a) for name, a in saved["cells"].items()}))
    if saved["celsius"] is not None:
        net.celsius = saved["celsius"]
    net.threshold = get(saved["threshold"])
    kinds = {"secondorder": int}
    net.settings.update({str(k): kinds.get(k, float)(v) for k, v in saved["settings"].items()})
    added = inside(net).added
    added.bins, added.exact = bool(saved["bins"]), bool(saved["exact"])
    _add_groups(net, added, saved, get)
    _add_additions(net, added, saved, get)
    _add_wiring(net, inside(net), saved, get)
    return net


def _add_additions(net: Any, added: Additions, saved: dict[str, Any], get: Get) -> None:
    groups = net.groups
    if "remote_v" in saved:
        added.remote_v = as_real("remote_v", get(saved["remote_v"]))
        if added.remote_v.ndim != 1:
            raise InputError(f"remote_v has shape {added.remote_v.shape}; expected (m,)")
    for name, nodes, valence, values in saved["ions"]:
        net.ion(name, get(nodes), valence, **{k: get(v) for k, v in values.items()})
    for k, last in saved.get("last", ()):
        if type(last) is not int or not 0 <= last < len(groups[k]):
            raise InputError(f"last instance {last!r:.20} of group {k}")
        added.last[k] = last
    for k, name, node, which in saved["pointers"]:
        net.set_pointer(groups[k], name, get(node), get(which))
    for k, name, which, target, variable, at in saved.get("written", ()):
        net.set_pointer(groups[k], name, (groups[target], variable, get(at)), get(which))
    for k, index, name, t, y, *flags in saved["plays"]:
        added.play(groups[k], index, name, get(t), get(y), *map(bool, flags))
    for k, name, ids, index in saved["streams"]:
        net.random(groups[k], name, get(ids), index)


def _add_wiring(net: Any, parts: Inside, saved: dict[str, Any], get: Get) -> None:
    rule = saved["rule"]
    if rule is not None:
        rule = Rule(rule["text"], **rule["parameters"]) if "text" in rule else STDP(**rule)
    for columns in saved["connections"]:
        source, group, *more_columns, plastic = (get(column) for column in columns)
        if len(group):
            source = as_indices("source", source, parts.added.num_sources, "source")
            change = rule if _one(plastic) else None
            parts.connect(source, net.groups[_one(group)], *more_columns, change)
    for columns in saved["events"]:
        group, *event_columns = (get(column) for column in columns)
        if len(group):
            net.add_event(net.groups[_one(group)], *event_columns)


def _cells(arrays: dict[str, Any]) -> Structure:
    names = "parent", "cell_offsets", "area", "g_axial", "capacitance", "soma"
    around: dict[str, Any] = {name: arrays.get(name) for name in ("around", "g_around")}
    structure = of_arrays(*(arrays[name] for name in names), **around)
    total, in_soma = arrays["g_total"], arrays["in_soma"]
    sums = structure.whole("g_total")
    near = np.shape(total) == sums.shape and np.allclose(total, sums, _NEAR, 0)
    if not near or np.shape(in_soma) != sums.shape or in_soma.dtype != bool:
        raise InputError("g_total or in_soma do not fit the cells")
    axis = _axis(arrays, structure.forest.num_nodes) if "length" in arrays else None
    return replace(structure, g_total=[total], in_soma=[in_soma], given_axis=axis)


def _axis(arrays: dict[str, Any], n: int) -> Axis:
    length, before = arrays["length"], arrays["before"]
    fits = np.shape(length) == (n,) and np.shape(before) == (3, n) and before.dtype.kind == "i"
    if not fits or not (length >= 0).all() or (before < -1).any() or (before >= n).any():
        raise InputError("length or before do not fit the cells")
    return Axis(length, before)


def _mechanism(saved: dict[str, Any]) -> Mechanism:
    if saved["nmodl"] is None:
        return Mechanism(saved["text"])
    about = saved["nmodl"]
    includes = tuple((str(name), str(text)) for name, text in about["includes"])
    tables = {
        str(name): FunctionTable(tuple(map(tuple, table["axes"])), tuple(table["values"]))
        for name, table in about.get("function_tables", ())
    }
    how = bool(about["use_tables"]), bool(about["secondorder"]), tables_of(tables)
    more = bool(about.get("constructed")), int(about.get("queue", MAX_QUEUE))
    kept, draws = tuple(map(str, about.get("kept", ()))), bool(about.get("draws"))
    language = Nmodl(str(about["path"]), includes, *how, *more, kept, draws)
    return Mechanism(saved["text"], replace(language, changes=_changes(about.get("changes", {}))))


def _changes(saved: dict[str, Any]) -> FileChanges:
    names = ("pointing", "unpointed", "streamless", "ranged")
    statics = tuple((str(name), int(value)) for name, value in saved.get("statics", ()))
    lists = {name: tuple(map(str, saved.get(name, ()))) for name in names}
    return FileChanges(statics, shows_currents=bool(saved.get("shows_currents")), **lists)


def _add_groups(net: Any, added: Additions, saved: dict[str, Any], get: Get) -> None:
    """Add groups and sources in the order that gives sources their saved numbers."""
    mechanisms = [_mechanism(each) for each in saved["mechanisms"]]
    waiting = sorted(saved["sources"], key=lambda each: each["first"])

    def add_sources() -> None:
        while waiting and waiting[0]["first"] == added.num_sources:
            source = waiting.pop(0)
            if source["sizes"] is None:  # a detector; older files have no refractory times
                names = [k for k in ("node", "threshold", "refractory") if k in source]
                net.add_detector(*(get(source[k]) for k in names))
            else:
                ends, times = np.cumsum(get(source["sizes"])), get(source["times"])
                net.spike_source(np.split(times, ends[:-1]) if len(ends) else [])

    for each in saved["groups"]:
        mechanism = mechanisms[each["mechanism"]]
        add_sources()
        parameters = {str(name): get(a) for name, a in each["parameters"].items()}
        put_group(net, mechanism, get(each["nodes"]), parameters)
    add_sources()
    if waiting:
        raise InputError("sources do not follow each other")


def put_group(
    net: Any, mechanism: Mechanism, nodes: np.ndarray, parameters: Mapping[str, Any]
) -> Group:
    """Add a group of any kind of mechanism.

    Parameters with the name of an argument of `insert` or `add` are set afterwards.
    """
    arguments = {name: v for name, v in parameters.items() if name not in _ARGUMENTS}
    if mechanism.kind == "artificial":
        group = net.add_artificial(mechanism, len(nodes), **arguments)
    else:
        add = net.insert if mechanism.kind == "density" else net.add
        group = add(mechanism, nodes, **arguments)
    for name in parameters.keys() - arguments.keys():
        group.parameters[name] = parameters[name]
    return group


def _one(values: np.ndarray) -> int:
    if np.ndim(values) != 1 or (values != values[0]).any() or values[0] < 0:
        raise InputError(f"{np.unique(values)[:3]} stand for one group")
    return int(values[0])
