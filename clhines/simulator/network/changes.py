"""Changes to a frozen network's parameters, weights and events, for one simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.checks import as_array, as_real, shown
from clhines.core.errors import InputError
from clhines.core.quantities import as_numbers
from clhines.simulator.common.checks import check_parameter
from clhines.simulator.network.groups import Group, inside
from clhines.simulator.network.structure import PerCell
from clhines.simulator.network.times import event_steps

_PLAIN = (float, np.float64)
Event: TypeAlias = tuple[Group, ArrayLike, ArrayLike, ArrayLike]  # group, index, time, weight


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
    """Parameters, weights and events that one simulation has changed; None: not changed.

    `parameters` are by group number and name. `stored` has the mechanism and name of parameters for
    which a run needs memory for one value per instance.
    """

    parameters: dict[int, dict[str, ParameterValue]] = field(default_factory=dict)
    stored: set[tuple[str, str]] = field(default_factory=set)
    weight: np.ndarray | None = None
    events: list[Event] | None = None

    @property
    def any(self) -> bool:
        changed = self.parameters or self.stored or self.weight is not None
        return bool(changed) or self.events is not None

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
        array, forest = as_array(f"{mechanism.name}: {name}", value, unit=unit), network.forest
        of_others = len(group), 1, forest.num_nodes, int(forest.sizes[0])
        if array.shape == (forest.num_cells,) and forest.num_cells not in of_others:
            return ParameterValue(as_real(f"{mechanism.name}: {name}", array), "cell")
    checked = inside(network).parameter(mechanism.name, name, value, group.nodes, unit)
    whole = isinstance(checked, np.ndarray)
    return ParameterValue(np.atleast_1d(np.float64(checked)), "instance" if whole else "all")


def as_events(value: object) -> list[Event]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InputError(
            f"events is {shown(value)}; expected a list of (group, index, time, weight)"
        )
    for k, one in enumerate(value):
        if not isinstance(one, tuple) or len(one) != 4 or not isinstance(one[0], Group):
            raise InputError(
                f"events[{k}] is {shown(one)}; expected a tuple (group, index, time, weight)"
            )
    return list(value)


def check_not_past(events: Sequence[Event], dt: float, now: int) -> None:
    for k, (_, _, time, _) in enumerate(events):
        times = as_real("time", np.atleast_1d(as_array("time", time, unit="ms")))
        past = times[(times >= 0) & (event_steps(np.maximum(times, 0), dt) < now)]
        if len(past):
            raise InputError(
                f"events[{k}] is at {past[0]:g} ms; expected not before t = {now * dt:g} ms, or "
                "reset() first"
            )
