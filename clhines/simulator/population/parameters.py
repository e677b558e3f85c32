"""Divide a population's groups so that each parameter sets whole groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.checks import shown
from clhines.core.errors import InputError, meant
from clhines.simulator.network.groups import Group
from clhines.simulator.network.network import Network

ParameterPath = tuple[str, str] | tuple[str, str, ArrayLike]


@dataclass(frozen=True, eq=False)
class ParameterGroups:
    """A model's groups, divided so that a parameter sets all instances in a group or none."""

    groups: list[Group]  # the pieces
    instances: list[np.ndarray]  # for each piece, by their numbers in the model's group
    of_parameter: list[list[int]]  # for each parameter: its pieces' numbers


@dataclass(frozen=True, eq=False)
class _Setting:
    """A mechanism's variable that a population's parameter sets, for some instances of a group."""

    parameter: int
    variable: str
    mask: np.ndarray  # (count,) bool: which instances


def divide_groups(model: Network, parameters: Mapping[str, ParameterPath]) -> ParameterGroups:
    """Divide each group in a model so that the same parameters set all its instances.

    `parameters` are the population's parameters; each may set instances in several groups.
    """
    settings = _settings_by_group(model, parameters)
    divided = ParameterGroups([], [], [[] for _ in parameters])
    for group in model.groups:
        for members, of_piece in _pieces(group, settings[group.number]):
            for setting in of_piece:
                divided.of_parameter[setting.parameter].append(len(divided.groups))
            divided.instances.append(members)
            divided.groups.append(_part(group, members, {s.variable for s in of_piece}))
    return divided


def _settings_by_group(
    model: Network, parameters: Mapping[str, ParameterPath]
) -> dict[int, list[_Setting]]:
    settings: dict[int, list[_Setting]] = {g.number: [] for g in model.groups}
    names = [*parameters]
    for k, (name, path) in enumerate(parameters.items()):
        for group, mask in _instances(model, name, path):
            for other in settings[group.number]:
                if other.variable == path[1] and (other.mask & mask).any():
                    both = f"{shown(names[other.parameter])} and {shown(name)}"
                    conflict = f"{group.mechanism.name}.{path[1]} of the same instances"
                    raise InputError(f"parameters {both} both set {conflict}; expected one of them")
            settings[group.number].append(_Setting(k, path[1], mask))
    return settings


def _pieces(group: Group, settings: list[_Setting]) -> Iterator[tuple[np.ndarray, list[_Setting]]]:
    """Yield a group's parts, each set by the same parameters: instances, and their settings."""
    if not settings:
        yield np.arange(len(group)), []
        return
    different, piece = np.unique([s.mask for s in settings], axis=1, return_inverse=True)
    for p in range(different.shape[1]):
        members = np.flatnonzero(piece.reshape(-1) == p)
        yield members, [s for s, is_set in zip(settings, different[:, p], strict=True) if is_set]


def _part(group: Group, members: np.ndarray, set_variables: set[str]) -> Group:
    values = {
        name: np.broadcast_to(value, len(group))[members].copy()
        if np.ndim(value) or name in set_variables
        else value
        for name, value in group.parameters.items()
    }
    return Group(group.network, group.number, group.mechanism, group.nodes[members], values)


def _instances(model: Network, name: str, spec: ParameterPath) -> list[tuple[Group, np.ndarray]]:
    if not isinstance(spec, tuple) or len(spec) not in (2, 3):
        raise InputError(
            f"{name} is {shown(spec)}; expected (mechanism, parameter) or (mechanism, parameter, "
            "at)"
        )
    mechanism, parameter = spec[:2]
    mechanisms = {g.mechanism.name for g in model.groups}
    is_name = isinstance(mechanism, str)
    groups = [g for g in model.groups if is_name and g.mechanism.name == mechanism]
    if not groups:
        raise InputError(
            f"{name}: the model has no {shown(mechanism)}; expected one of "
            f"{', '.join(sorted(mechanisms)) or 'none'}{meant(mechanism, mechanisms)}"
        )
    of_mechanism = groups[0].mechanism.settable
    if not isinstance(parameter, str) or parameter not in of_mechanism:
        raise InputError(
            f"{name}: {mechanism} has no parameter {shown(parameter)}; expected one of "
            f"{', '.join(of_mechanism)}{meant(parameter, of_mechanism)}"
        )
    if len(spec) == 2:
        return [(g, np.ones(len(g), bool)) for g in groups]
    if groups[0].mechanism.kind != "density":
        raise InputError(f"{name}: at is only for membrane mechanisms; expected none")
    nodes = model.nodes(at=spec[2])
    masks = [(g, np.isin(g.nodes, nodes)) for g in groups]
    masks = [(g, mask) for g, mask in masks if mask.any()]
    if not masks:
        raise InputError(f"{name}: no {mechanism} at={shown(spec[2])}; expected nodes with it")
    return masks
