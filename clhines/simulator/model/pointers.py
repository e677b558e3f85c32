"""Pointers to voltages, mechanism variables, and connection weights."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from clhines.core.errors import InputError
from clhines.simulator.model.model import Kind, Steered, Written
from clhines.simulator.model.needs import refused
from clhines.simulator.network.additions import Additions

Spans = Sequence[tuple[int, np.ndarray]]  # see `Model.instances`


def pointer_fields(added: Additions, kinds: Sequence[Kind], instances: Spans) -> dict[str, object]:
    """Return the fields of a `Model` for POINTERs; InputError if a POINTER is not set."""
    every = _written(added, kinds, instances)
    written = {k: to for k, to in every.items() if k[1] in kinds[k[0]].mechanism.program.written}
    read = {k: to for k, to in every.items() if k not in written}
    return {
        "pointers": _pointers(added, kinds, instances, read.keys()),
        "written": written,
        "steered": _steered(added, kinds, instances),
        "read": read,
    }


def _steered(
    added: Additions, kinds: Sequence[Kind], instances: Spans
) -> dict[tuple[int, str], Steered]:
    steered = dict[tuple[int, str], Steered]()
    for k, kind in enumerate(kinds):
        for name in kind.mechanism.program.steered:
            steered[k, name] = Steered(np.full(kind.count, -1), np.zeros(kind.count, np.int64))
    for group, name, connection, element in added.steered:
        k, place = instances[group]
        steered[k, name].connection[place] = connection
        steered[k, name].element[place] = element
    for (k, name), to in steered.items():
        if loose := int((to.connection < 0).sum()):
            raise _nowhere(kinds[k], name, loose)
    return steered


def _pointers(
    added: Additions, kinds: Sequence[Kind], instances: Spans, others: Collection[tuple[int, str]]
) -> dict[tuple[int, str], np.ndarray]:
    pointers = {
        (k, name): np.full(kind.count, -1)
        for k, kind in enumerate(kinds)
        for name in kind.mechanism.program.pointers
        if (k, name) not in others
    }
    for group, name, index, node in added.pointers:
        k, place = instances[group]
        if k < 0:  # no instances
            continue
        if (k, name) in others:
            raise refused(
                "network.pointer-to-voltages-and-variables",
                name=kinds[k].mechanism.name,
                name2=name,
            )
        pointers[k, name][place[index]] = node
    for (k, name), nodes in pointers.items():
        loose = np.flatnonzero(nodes < 0)
        if len(loose):
            raise _nowhere(kinds[k], name, len(loose))
    return pointers


def _written(
    added: Additions, kinds: Sequence[Kind], instances: Spans
) -> dict[tuple[int, str], Written]:
    written: dict[tuple[int, str], Written] = {}
    for group, name, index, of, variable, at in added.written:
        (k, place), (target, there) = instances[group], instances[of]
        none = np.full(kinds[k].count, -1)
        entry = written.setdefault((k, name), Written(target, variable, none))
        if (entry.kind, entry.state) != (target, variable):
            raise refused(
                "network.pointer-to-two-variables",
                name=kinds[k].mechanism.name,
                name2=name,
                state=entry.state,
                name3=kinds[entry.kind].mechanism.name,
                variable=variable,
                name4=kinds[target].mechanism.name,
            )
        entry.instance[place[index]] = there[at]
    for k, kind in enumerate(kinds):
        names = kind.mechanism.program.written
        for name in (*names, *(n for j, n in written if j == k and n not in names)):
            loose = (written[k, name].instance < 0).sum() if (k, name) in written else kind.count
            if loose:
                raise _nowhere(kind, name, int(loose))
    return written


def _nowhere(kind: Kind, name: str, count: int) -> InputError:
    return refused("network.pointer-unset", name=kind.mechanism.name, name2=name, count=count)
