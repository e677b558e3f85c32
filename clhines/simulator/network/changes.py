"""Changes to a frozen network's parameters and weights, for one simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from clhines.core.checks import as_array, as_real
from clhines.core.errors import InputError
from clhines.core.quantities import as_numbers
from clhines.simulator.common.checks import check_parameter
from clhines.simulator.network.groups import Group, inside
from clhines.simulator.network.structure import PerCell

_PLAIN = (float, np.float64)


class ParameterValue(NamedTuple):
    numbers: np.ndarray  # (1,), (num_cells,) or (count,) float64
    by: str  # ``all``, ``cell`` or ``instance``

    @property
    def argument(self) -> object:
        if self.by == "all":
            return float(self.numbers[0])
        return PerCell(self.numbers) if self.by == "cell" else self.numbers


@dataclass(eq=False)
class Changes:
    """Parameters and weights that one simulation has changed; None: not changed.

    `parameters` are by group number and name. `stored` has the mechanism and name of parameters for
    which a run needs memory for one value per instance.
    """

    parameters: dict[int, dict[str, ParameterValue]] = field(default_factory=dict)
    stored: set[tuple[str, str]] = field(default_factory=set)
    weight: np.ndarray | None = None

    @property
    def any(self) -> bool:
        return bool(self.parameters or self.stored) or self.weight is not None

    def groups(self, groups: Sequence[Group]) -> list[Group]:
        return [self._changed(group) for group in groups]

    def _changed(self, group: Group) -> Group:
        new_values = self.parameters.get(group.number)
        if not new_values:
            return group
        values = dict(group.parameters)
        for name, value in new_values.items():
            values[name] = inside(group.network).parameter(
                group.mechanism.name, name, value.argument, group.nodes
            )
        unchanged = group.network, group.number, group.mechanism, group.nodes
        return Group(*unchanged, values, group.in_round)


def is_plain(value: object) -> bool:
    """Whether a value is a finite number without a unit, which needs no other checks."""
    return type(value) in _PLAIN and math.isfinite(value)  # type: ignore[arg-type]


def as_value(group: Group, name: str, value: object) -> ParameterValue:
    """Check a new value for parameter `name`; return it as one number, by cell, or by instance."""
    mechanism, network = group.mechanism, group.network
    program = mechanism.program
    if name not in program.settable:
        check_parameter(mechanism.name, name, program.settable)
    if name == "celsius" and "celsius" in program.built_in:
        raise InputError(
            f"{mechanism.name}: celsius belongs to the network and cannot change; expected "
            "another parameter, or a new Network"
        )
    if fixed := program.fixed.get(name):
        raise InputError(f"{mechanism.name}: {name} is {fixed}; expected another parameter")
    unit = program.units.get(name)
    value = as_numbers(f"{mechanism.name}: {name}", value, unit)
    if isinstance(value, PerCell) and len(value.values) == network.num_cells:
        return ParameterValue(value.values, "cell")
    if not callable(value) and not isinstance(value, PerCell):
        array, cells = as_array(f"{mechanism.name}: {name}", value, unit=unit), network.num_cells
        if array.shape == (cells,) and cells not in (len(group), 1, network.forest.sizes[0]):
            return ParameterValue(as_real(f"{mechanism.name}: {name}", array), "cell")
    checked = inside(network).parameter(mechanism.name, name, value, group.nodes, unit)
    whole = isinstance(checked, np.ndarray)
    return ParameterValue(np.atleast_1d(np.float64(checked)), "instance" if whole else "all")
