"""Networks in files: what a network was given, and the calls that give it to a new one.

A file is an ``.npz`` of numbers and of one text, ``network``: strict JSON in which ``{"array": 3}``
is the member ``a3``. It is read by the methods that users call, and so checked as theirs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from math import prod
from typing import Any, cast

import numpy as np

from clhines.core.checks import as_indices
from clhines.core.errors import InputError
from clhines.core.files import Member, Npz, PathLike, parse_json, write_npz
from clhines.simulator.cells.cable import Axis
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.mechanisms.nmodl.build import MAX_QUEUE, Nmodl, tables_of
from clhines.simulator.mechanisms.nmodl.reading.tree import FunctionTable
from clhines.simulator.network.groups import Group, inside
from clhines.simulator.network.plasticity import STDP, Rule
from clhines.simulator.network.structure import Structure, of_arrays

FORMAT = 1
_WHAT = "a file that Network.save() has written"
_NODES = "area", "g_axial", "capacitance", "g_total", "in_soma"
_ARGUMENTS = "self", "mechanism", "at", "count"  # of insert, add and add_artificial
_NEAR = 1e-12  # relative: how far sums of conductances are from those of a file, by their order


def save(network: Any, path: PathLike, celsius: float | None) -> None:
    if inside(network).copied is not None:
        raise InputError("copies of a network cannot be saved; expected the one, to be copied")
    if inside(network).gids is not None:
        raise InputError("a network with gids cannot be saved; expected one without")
    if inside(network).added.steered:
        raise InputError("a network whose events set weights by a POINTER cannot be saved")
    arrays = list[np.ndarray]()

    def put(values: object) -> object:
        array = np.asarray(values)
        if not array.ndim:
            return array.item()
        arrays.append(array)
        return {"array": len(arrays) - 1}

    saved = json.dumps({"celsius": celsius, **_described(network, put)}, allow_nan=False)
    members = {f"a{k}": array for k, array in enumerate(arrays)}
    write_npz(path, {"network": np.frombuffer(saved.encode(), np.uint8), **members})


def _described(net: Any, put: Callable[[object], object]) -> dict[str, object]:
    """Return all that a network was given, with `put` in place of arrays."""
    structure, added, wiring = inside(net).structure, inside(net).added, inside(net).wiring
    mechanisms = list(dict.fromkeys(group.mechanism for group in net.groups))
    numbers = {mechanism: k for k, mechanism in enumerate(mechanisms)}
    return {
        "format": FORMAT,
        "cells": {
            "parent": put(net.forest.parent), "cell_offsets": put(net.forest.cell_offsets),
            **{name: put(structure.whole(name)) for name in _NODES}, "soma": put(net.soma),
            **_described_axis(net, put),
            **_described_around(structure, put),
        },
        "threshold": put(net.threshold),
        "settings": net.settings,
        "bins": added.bins,
        "exact": added.exact,
        "last": [*added.last.items()],
        "mechanisms": [
            {"text": m.text, "nmodl": asdict(m.language) if isinstance(m.language, Nmodl) else None}
            for m in mechanisms
        ],
        "groups": [
            {
                "mechanism": numbers[group.mechanism], "nodes": put(group.nodes),
                "parameters": {name: put(group.parameters[name]) for name in group.given},
            }
            for group in net.groups
        ],
        "sources": [
            {
                "first": source.first, "node": put(source.node), "threshold": put(source.threshold),
                "refractory": put(source.refractory),
                "sizes": put([len(t) for t in source.times]) if source.times else None,
                "times": put(np.concatenate([np.zeros(0), *source.times])),
            }
            for source in added.sources
        ],
        "ions": [
            [ion.name, put(ion.nodes), ion.valence, {k: put(v) for k, v in ion.values.items()}]
            for ion in added.ions
        ],
        "pointers": [[k, name, put(node), put(which)] for k, name, which, node in added.pointers],
        "written": [
            [k, name, put(place), of, variable, put(at)]
            for k, name, place, of, variable, at in added.written
        ],
        "plays": [
            [p.group, p.index, p.parameter, put(p.t), put(p.y), p.continuous] for p in added.plays
        ],
        "streams": [[k, name, put(ids), added.random_index] for k, name, ids in added.streams],
        "rule": _saved_rule(wiring.rule),
        "connections": [[put(column) for column in columns] for columns in wiring.given],
        "events": [[put(column) for column in columns] for columns in wiring.outside],
    }  # fmt: skip


def _described_axis(net: Any, put: Callable[[object], object]) -> dict[str, object]:
    """Return lengths and neighbours of segments, where something diffuses."""
    axis = inside(net).structure.axis
    if axis is None or not any(g.mechanism.program.diffusing for g in net.groups):
        return {}
    return {"length": put(axis.length), "before": put(axis.before)}


def _described_around(structure: Structure, put: Callable[[object], object]) -> dict[str, object]:
    around = structure.around
    return {} if around is None else {"around": put(around.node), "g_around": put(around.g)}


def load(path: PathLike, make: Callable[[Structure], Any]) -> Any:
    with Npz(path, _WHAT) as file:
        if file.header("network")[1].kind == "U":  # its digest
            what = "is the state of a simulation, for Simulation.restore()"
            raise InputError(f"{file.name}: {what}; expected {_WHAT}")
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
        raise InputError(f"{name} has shape {shape}; expected no more than is in the file")
    return file.read(name, Member(shape, dtype))


def _value(file: Npz, saved: object) -> Any:
    return _member(file, f"a{int(saved['array'])}") if isinstance(saved, dict) else saved


def _made(
    saved: dict[str, Any], value: Callable[[object], Any], make: Callable[[Structure], Any]
) -> Any:
    if saved["format"] != FORMAT:
        raise InputError(f"format {saved['format']!r:.20}; expected {FORMAT}")
    if saved.get("linear"):
        raise InputError(
            "has linear equations of voltages (add_linear, NEURON's LinearMechanism), which are no "
            "longer simulated; expected a network without them"
        )
    net = make(_cells({name: value(a) for name, a in saved["cells"].items()}))
    if saved["celsius"] is not None:
        net.celsius = saved["celsius"]
    net.threshold = value(saved["threshold"])
    kinds = {"secondorder": int}
    net.settings.update({str(k): kinds.get(k, float)(v) for k, v in saved["settings"].items()})
    inside(net).added.bins = bool(saved["bins"])
    inside(net).added.exact = bool(saved["exact"])
    mechanisms = [_mechanism(each) for each in saved["mechanisms"]]
    _add_groups(net, saved, mechanisms, value)
    for name, nodes, valence, given in saved["ions"]:
        net.ion(name, value(nodes), valence, **{k: value(v) for k, v in given.items()})
    groups = net.groups
    for k, last in saved.get("last", ()):
        if type(last) is not int or not 0 <= last < len(groups[k]):
            raise InputError(f"last instance {last!r:.20} of group {k}")
        inside(net).added.last[k] = last
    for k, name, node, which in saved["pointers"]:
        net.set_pointer(groups[k], name, value(node), value(which))
    for k, name, which, of, variable, at in saved.get("written", ()):
        net.set_pointer(groups[k], name, (groups[of], variable, value(at)), value(which))
    for k, index, name, t, y, continuous in saved["plays"]:
        net.play(groups[k], index, name, value(t), value(y), bool(continuous))
    for k, name, ids, index in saved["streams"]:
        net.random(groups[k], name, value(ids), index)
    rule = saved["rule"]
    if rule is not None:
        rule = Rule(rule["text"], **rule["parameters"]) if "text" in rule else STDP(**rule)
    for columns in saved["connections"]:
        _connect(net, [value(column) for column in columns], rule)
    for columns in saved["events"]:
        group, *rest = (value(column) for column in columns)
        if len(group):
            net.add_event(groups[_one(group)], *rest)
    return net


def _cells(given: dict[str, Any]) -> Structure:
    made = of_arrays(
        given["parent"], given["cell_offsets"], given["area"], given["g_axial"],
        given["capacitance"], given["soma"], around=given.get("around"),
        g_around=given.get("g_around"),
    )  # fmt: skip
    total, in_soma = given["g_total"], given["in_soma"]
    sums = made.whole("g_total")
    near = np.shape(total) == sums.shape and np.allclose(total, sums, _NEAR, 0)
    if not near or np.shape(in_soma) != sums.shape or in_soma.dtype != bool:
        raise InputError("g_total or in_soma do not fit the cells")
    axis = None
    if "length" in given:
        n = made.forest.num_nodes
        length, before = given["length"], given["before"]
        fits = np.shape(length) == (n,) and np.shape(before) == (3, n) and before.dtype.kind == "i"
        if not fits or not (length >= 0).all() or (before < -1).any() or (before >= n).any():
            raise InputError("length or before do not fit the cells")
        axis = Axis(length, before)
    return replace(made, g_total=[total], in_soma=[in_soma], given_axis=axis)


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
    kept = tuple(map(str, about.get("kept", ())))
    return Mechanism(saved["text"], Nmodl(str(about["path"]), includes, *how, *more, kept))


def _add_groups(
    net: Any, saved: dict[str, Any], mechanisms: list[Mechanism], value: Callable[[object], Any]
) -> None:
    """Add groups and sources in an order that gives sources their old numbers."""
    waiting = sorted(saved["sources"], key=lambda each: each["first"])

    def add_sources() -> None:
        while waiting and waiting[0]["first"] == inside(net).added.num_sources:
            source = waiting.pop(0)
            if source["sizes"] is None:  # files of before have no refractory times
                kept = [k for k in ("node", "threshold", "refractory") if k in source]
                net.add_detector(*(value(source[k]) for k in kept))
            else:
                ends, times = np.cumsum(value(source["sizes"])), value(source["times"])
                net.spike_source(np.split(times, ends[:-1]) if len(ends) else [])

    for each in saved["groups"]:
        mechanism = mechanisms[each["mechanism"]]
        add_sources()
        given = {str(name): value(a) for name, a in each["parameters"].items()}
        put_group(net, mechanism, value(each["nodes"]), given)
    add_sources()
    if waiting:
        raise InputError("sources do not follow each other")


def put_group(net: Any, mechanism: Mechanism, nodes: np.ndarray, given: Mapping[str, Any]) -> Group:
    # a parameter that has the name of an argument is set afterwards
    rest = {name: v for name, v in given.items() if name not in _ARGUMENTS}
    if mechanism.kind == "artificial":
        group = net.add_artificial(mechanism, len(nodes), **rest)
    else:
        add = net.insert if mechanism.kind == "density" else net.add
        group = add(mechanism, nodes, **rest)
    for name in given.keys() - rest.keys():
        group.parameters[name] = given[name]
    return group


def _saved_rule(rule: Rule | None) -> dict[str, object] | None:
    """Return a rule as the file has it: of `STDP` its numbers, of others the text as well."""
    if rule is None:
        return None
    given: dict[str, object] = dict(rule.parameters)
    return given if isinstance(rule, STDP) else {"text": rule.text, "parameters": given}


def _connect(net: Any, columns: list[Any], rule: Rule | None) -> None:
    source, group, *given, plastic = columns
    if not len(group):
        return
    source = as_indices("source", source, inside(net).added.num_sources, "source")
    own = rule if _one(plastic) else None
    inside(net).connect(source, net.groups[_one(group)], *given, own)


def _one(values: np.ndarray) -> int:
    if np.ndim(values) != 1 or (values != values[0]).any() or values[0] < 0:
        raise InputError(f"{np.unique(values)[:3]} stand for one group")
    return int(values[0])
