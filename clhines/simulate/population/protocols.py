"""Parameters and protocols of a population: checked, and by instance, step and cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from clhines.checks import as_indices, as_number, shown
from clhines.errors import InputError, meant
from clhines.network.groups import Group
from clhines.network.network import Network
from clhines.network.times import whole_steps
from clhines.quantities import as_numbers

STIMULUS = {"amp": 0.0, "delay": 0.0, "dur": 1e9}
_UNITS = {"amp": "nA", "delay": "ms", "dur": "ms"}

Parameter = tuple[str, str] | tuple[str, str, ArrayLike]
Stimulus = Mapping[str, float]
Protocol = Mapping[str, float | Sequence[Stimulus]]


@dataclass(frozen=True, eq=False)
class Pieces:
    """The groups of a model, divided so that each parameter has pieces of its own."""

    groups: list[Group]
    instances: list[np.ndarray]  # of each piece, by their numbers in its group
    of_parameter: list[list[int]]  # pieces of each


def divided(model: Network, parameters: Mapping[str, Parameter]) -> Pieces:
    """Divide the groups of a model so that each parameter has pieces of its own."""
    masks: dict[int, list[np.ndarray]] = {g.number: [] for g in model.groups}
    used: dict[int, list[tuple[int, str]]] = {g.number: [] for g in model.groups}
    for k, (name, spec) in enumerate(parameters.items()):
        for group, mask in _instances(model, name, spec):
            for (_, other), known in zip(used[group.number], masks[group.number], strict=True):
                if other == spec[1] and (known & mask).any():
                    raise InputError(f"{name}: {spec[0]} {spec[1]} is of another name, too")
            masks[group.number].append(mask)
            used[group.number].append((k, spec[1]))
    pieces, instances = list[Group](), list[np.ndarray]()
    parts: list[list[int]] = [[] for _ in parameters]
    for group in model.groups:
        of_group = np.array(masks[group.number], bool).reshape(-1, len(group))
        sorts, piece = np.unique(of_group, axis=1, return_inverse=True)
        for p in range(sorts.shape[1] if len(of_group) else 1):
            mine = np.flatnonzero(piece.reshape(-1) == p) if len(of_group) else np.arange(
                len(group))  # fmt: skip
            here = [u for u, taken in zip(used[group.number], sorts[:, p], strict=True) if taken]
            values = {
                n: np.broadcast_to(v, len(group))[mine].copy()
                if np.ndim(v) or any(n == other for _, other in here)
                else v
                for n, v in group.parameters.items()
            }
            for k, _ in here:
                parts[k].append(len(pieces))
            instances.append(mine)
            given = group.network, group.number, group.mechanism, group.nodes[mine], values
            pieces.append(Group(*given))
    return Pieces(pieces, instances, parts)


def _instances(model: Network, name: str, spec: Parameter) -> list[tuple[Group, np.ndarray]]:
    """Return the groups that a parameter is of, and which of their instances."""
    if not isinstance(spec, tuple) or len(spec) not in (2, 3):
        raise InputError(
            f"{name} is {shown(spec)}; expected (mechanism, parameter) or (mechanism, parameter, "
            "at)"
        )
    mechanism, parameter = spec[:2]
    known = {g.mechanism.name for g in model.groups}
    groups = [g for g in model.groups if g.mechanism.name == mechanism]
    if not groups:
        raise InputError(
            f"{name}: the model has no {shown(mechanism)}; expected one of "
            f"{', '.join(sorted(known)) or 'none'}{meant(mechanism, known)}"
        )
    of_mechanism = groups[0].mechanism.settable
    if parameter not in of_mechanism:
        raise InputError(
            f"{name}: {mechanism} has no parameter {shown(parameter)}; expected one of "
            f"{', '.join(of_mechanism)}{meant(parameter, of_mechanism)}"
        )
    if len(spec) == 2:
        return [(g, np.ones(len(g), bool)) for g in groups]
    if groups[0].mechanism.kind != "density":
        raise InputError(f"{name}: at is for mechanisms of the membrane; expected none")
    nodes = model.nodes(at=spec[2])
    found = [(g, np.isin(g.nodes, nodes)) for g in groups]
    found = [(g, mask) for g, mask in found if mask.any()]
    if not found:
        raise InputError(f"{name}: no {mechanism} at={shown(spec[2])}; expected nodes with it")
    return found


def by_step(
    model: Network, protocols: Mapping[str, Protocol], dt: float
) -> tuple[np.ndarray, list[dict[str, np.ndarray]]]:
    """Return stop of each protocol in steps, and for each clamp of a cell values by protocol."""
    stops, lists = [], []
    for name, given in protocols.items():
        if not isinstance(given, Mapping) or not {*given} <= {"stop", "stimuli"}:
            raise InputError(f"protocol {name} is {shown(given)}; expected stop and stimuli")
        steps = whole_steps(given.get("stop"), dt)
        if not steps:
            raise InputError(
                f"protocol {name}: stop is {shown(given.get('stop'))}; expected a whole number of "
                f"steps of {dt:g} ms"
            )
        stops.append(steps)
        stimuli = given.get("stimuli", ())
        if not isinstance(stimuli, Sequence):
            raise InputError(f"protocol {name}: stimuli is {shown(stimuli)}; expected a list")
        lists.append([_stimulus(model, name, one) for one in stimuli])
    none = dict(STIMULUS, dur=0.0, at=float(model.soma[0]))
    columns = []
    for k in range(max(len(each) for each in lists)):
        rows = [each[k] if k < len(each) else none for each in lists]
        columns.append({key: np.array([row[key] for row in rows]) for key in none})
    return np.array(stops), columns


def _stimulus(model: Network, protocol: str, given: Stimulus) -> dict[str, float]:
    if not isinstance(given, Mapping) or not {*given} <= {*STIMULUS, "at"}:
        raise InputError(
            f"protocol {protocol}: stimulus is {shown(given)}; expected amp, delay, dur and at"
        )
    if "amp" not in given:
        raise InputError(f"protocol {protocol}: stimulus is {shown(given)}; expected amp, nA")
    found = {
        name: as_number(f"protocol {protocol}: {name}", given.get(name, default), _UNITS[name])
        for name, default in STIMULUS.items()
    }
    if found["dur"] < 0:
        raise InputError(f"protocol {protocol}: dur is {found['dur']:g} ms; expected 0 or more")
    node = np.asarray([as_numbers("at", given.get("at", model.soma[0]))])
    at = as_indices(f"protocol {protocol}: at", node, model.forest.num_nodes, "node")
    return {**found, "at": float(at[0])}
