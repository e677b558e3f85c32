"""A gradient's quantities, and the derivatives with respect to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from clhines.core.checks import as_real, shown
from clhines.core.errors import InputError, meant
from clhines.simulator.cells.cable import Cable
from clhines.simulator.gradients.adjoint import Adjoint, by_constant, selected
from clhines.simulator.gradients.refused import (
    check_event_times,
    check_parameter,
    check_weights,
    is_of_start,
)
from clhines.simulator.model.instances import factor_of
from clhines.simulator.model.model import Model
from clhines.simulator.network.groups import Group, inside, is_field
from clhines.simulator.network.network import Network
from clhines.simulator.refusals import refusal

GradientQuantity: TypeAlias = "str | tuple[Group, str]"
Direction: TypeAlias = tuple[int, str, np.ndarray]  # a kind, a parameter, instances
WORDS = ("v_init", "cm", "Ra", "weight", "played")
_NO_SLOPE = ("delay", "threshold", "time", "events", "dt", "celsius")
_NF = 1e-5  # nF per 1 µF/cm² times 1 µm²


def as_list(of: object) -> Sequence[GradientQuantity]:
    """Check that `of` is a list with at least one entry; `Quantities.check` checks entries."""
    if isinstance(of, str) or not isinstance(of, Sequence) or not len(of):
        raise InputError(
            f"of is {shown(of)}; expected a list of (group, name) and of {', '.join(WORDS)}"
        )
    return of


@dataclass(frozen=True, eq=False)
class Quantities:
    """The quantities, named by the user, with respect to which a loss is differentiated."""

    network: Network
    model: Model
    groups: Sequence[Group]  # the network's, with current values
    of: Sequence[GradientQuantity]

    @classmethod
    def checked(
        cls, network: Network, model: Model, groups: Sequence[Group], of: object
    ) -> Quantities:
        quantities = cls(network, model, groups, tuple(as_list(of)))
        for one in quantities.of:
            quantities.check(one)
        return quantities

    def check(self, one: object) -> None:
        if isinstance(one, str):
            if one in _NO_SLOPE:
                raise InputError(refusal("gradient.no-slope", value=one))
            if one not in WORDS:
                expected = f"(group, name) or {', '.join(WORDS)}{meant(one, WORDS)}"
                raise InputError(f"of has {shown(one)}; expected {expected}")
            if one == "Ra":
                self._axial_resistivity()
            if one == "weight":
                check_weights(self.model)
            return
        if not isinstance(one, tuple) or len(one) != 2 or not isinstance(one[0], Group):
            raise InputError(f"of has {shown(one)}; expected (group, name) or {', '.join(WORDS)}")
        group, name = one
        if group.number >= len(self.groups) or group.network is not self.network:
            raise InputError(f"of has {group!r}, which is of another network")
        program = group.mechanism.program
        names = (*group.mechanism.settable, *group.mechanism.states)
        if name not in names:
            expected = f"expected one of {', '.join(names)}{meant(str(name), names)}"
            raise InputError(f"{group.mechanism.name} has no {shown(name)}; {expected}")
        if name in program.fixed or (name == "celsius" and name in program.built_in):
            raise InputError(refusal("gradient.no-slope", value=name))
        if name in group.mechanism.settable:
            check_parameter(group.mechanism, name)
        else:
            check_event_times(group.mechanism, {name: name})

    def _axial_resistivity(self) -> np.ndarray:
        cables: Sequence[Cable] = inside(self.network).structure.cables
        values = [cable.Ra for cable in cables]
        if not values or any(isinstance(value, np.ndarray) for value in values):
            raise InputError(refusal("gradient.several-ra"))
        fields = [g.mechanism.name for g in self.groups if is_field(g.mechanism)]
        if fields:
            raise InputError(refusal("gradient.field-ra", name=fields[0]))
        return np.resize(np.array(values, float), self.network.num_cells)

    @cached_property
    def _of_groups(self) -> list[tuple[Group, str]]:
        return [one for one in self.of if not isinstance(one, str)]

    @property
    def by_matrix(self) -> bool:
        """Whether a quantity acts by the matrix: cm, Ra, a parameter of a constant mechanism."""
        constant = (self.model.instances[group.number][0] < 0 for group, _ in self._of_groups)
        return "cm" in self.of or "Ra" in self.of or any(constant)

    @property
    def of_start(self) -> bool:
        """Whether any quantity is an initial value, or a parameter that INITIAL reads."""
        return "v_init" in self.of or any(is_of_start(g.mechanism, n) for g, n in self._of_groups)

    def parameters(self) -> dict[int, set[str]]:
        """Return the parameters' names among the quantities, by mechanism number."""
        names: dict[int, set[str]] = {}
        for group, name in self._of_groups:
            kind = self.model.instances[group.number][0]
            if kind >= 0 and name in group.mechanism.parameters:
                names.setdefault(kind, set()).add(name)
        return names

    def directions(self, copies: int) -> list[Direction]:
        """Return the directions of forward mode: (mechanism, parameter, instances) for each.

        Along a direction, the parameter changes by the same number in these instances: in one
        instance of each of the `copies`, or in all instances of a group that share the value. The
        list is empty if forward mode does not support a quantity: one that is not a parameter, acts
        by the matrix, or sets the start.
        """
        if self.by_matrix or self.of_start or len(self._of_groups) < len(self.of):
            return []
        directions = []
        for group, name in self._of_groups:
            k, instances = self.model.instances[group.number]
            number = np.ndim(self.groups[group.number].parameters.get(name, np.zeros(1))) == 0
            each = instances % (self.model.kinds[k].count // copies)
            for j in [None] if number else np.unique(each):
                directions.append((k, name, instances if j is None else instances[each == j]))
        return directions

    def slopes(self, adjoint: Adjoint) -> list[np.ndarray | list[np.ndarray]]:
        """Return the derivatives with respect to each quantity; InputError if one is not finite."""
        slopes = [self._slope(adjoint, one) for one in self.of]
        for one, slope in zip(self.of, slopes, strict=True):
            values = np.concatenate([[], *slope]) if isinstance(slope, list) else slope
            if not np.isfinite(values).all():
                at = np.argwhere(~np.isfinite(values))
                value = one if isinstance(one, str) else f"{one[1]} of {one[0].mechanism.name}"
                where = f"[{at[0][0]}]" if values.ndim else ""
                got = values[tuple(at[0])]
                raise InputError(
                    refusal("gradient.not-finite", value=value, where=where, got=f"{got:g}")
                )
        return slopes

    def _slope(self, adjoint: Adjoint, one: GradientQuantity) -> np.ndarray | list[np.ndarray]:
        model, matrix = self.model, adjoint.matrix
        if one == "v_init":
            return adjoint.v.copy()
        if one == "cm":
            by_nf = matrix["by_diagonal"] / model.solved_dt + matrix["by_capacitance"]
            return by_nf * _NF * model.area
        if one == "Ra":
            return self._by_axial_resistivity(matrix)
        if one == "weight":
            weight = np.zeros(len(model.given_weights))
            weight[model.numbers] = adjoint.weight[len(model.netcons.weight) :]
            weight[model.exact_numbers] = adjoint.weight[: len(model.exact_numbers)]
            of_train = model.events.number >= 0
            np.add.at(weight, model.events.number[of_train], adjoint.event_weight[of_train])
            return weight
        if one == "played":
            return [slope.copy() for slope in adjoint.played.values()]
        assert isinstance(one, tuple)
        group, name = self.groups[one[0].number], one[1]
        slope = self._of_group(adjoint, group, name)
        value = group.parameters.get(name, np.zeros(len(group)))
        return slope if np.ndim(value) else np.asarray(slope.sum())

    def _of_group(self, adjoint: Adjoint, group: Group, name: str) -> np.ndarray:
        k, instances = self.model.instances[group.number]
        mechanism = group.mechanism
        if k < 0:
            factor = factor_of(mechanism, selected(self.model.area, group.nodes))
            place = group.nodes, factor, group.parameters
            slopes = by_constant(self.model, adjoint.matrix, mechanism, *place)
            slope = slopes.get(name, np.zeros(1))
            return slope if np.shape(slope) == (len(group),) else np.resize(slope, len(group))
        if name in mechanism.parameters:
            return selected(adjoint.parameters[k][name], instances)
        begins = name in mechanism.begins  # its value before INITIAL
        return selected((adjoint.states if begins else adjoint.start)[k][name], instances)

    def _by_axial_resistivity(self, matrix: dict[str, np.ndarray]) -> np.ndarray:
        """Return the derivatives with respect to each cell's Ra, (num_cells,).

        All axial conductances in a cell are multiples of 1 / Ra.
        """
        forest, by_g = self.model.forest, matrix["by_diagonal"] - matrix["by_u"]
        child = np.flatnonzero(forest.parent >= 0)
        by_g[child] += matrix["by_diagonal"][forest.parent[child]]
        by_node = np.zeros(len(by_g))
        by_node[child] = by_g[child] * self.model.u[child]  # minus the conductances
        return np.add.reduceat(by_node, forest.cell_offsets[:-1]) / self._axial_resistivity()


def as_cotangents(values: object, shapes: Sequence[tuple[int, int]]) -> list[np.ndarray]:
    """Return a loss's derivatives as a list, an array for each record; InputError if wrong."""
    several = [values] if len(shapes) == 1 and not isinstance(values, list | tuple) else values
    if not isinstance(several, list | tuple) or len(several) != len(shapes):
        raise InputError(
            f"loss returned derivatives of {type(values).__name__}; expected an array for each of "
            f"{len(shapes)} records"
        )
    name = "derivatives of a loss"
    arrays = [as_real(name, np.asarray(one), copy=False) for one in several]
    for array, shape in zip(arrays, shapes, strict=True):
        if array.shape != shape:
            raise InputError(
                f"loss returned derivatives of shape {array.shape}; expected {shape}, the "
                "record's shape"
            )
    return arrays
