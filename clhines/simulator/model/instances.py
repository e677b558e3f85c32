"""Merge a network's groups by mechanism into the mechanisms of a `Model`.

Constant mechanisms are summed by node, and summed again when their parameters change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.arrays import ascending, inverse, repeat_moved, stretch_of
from clhines.core.errors import InputError
from clhines.simulator.cells.around import Enclosing
from clhines.simulator.common.checks import spread
from clhines.simulator.mechanisms.ir.program import CAPACITANCE, GENERATOR, HELD_STEPS, Program
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.mechanisms.mechanism import mechanism as built_in
from clhines.simulator.model.model import DENSITY, Kind, Model
from clhines.simulator.network.groups import Group, inside, is_field
from clhines.simulator.network.network import Network
from clhines.simulator.network.structure import NodeValues, Structure
from clhines.simulator.network.times import refractory_steps

ELECTRODES = ("iclamp", "inoise")  # built-in mechanisms that inject current, whatever v is


def check_temperature(kinds: Sequence[Kind], celsius: float) -> None:
    for kind in kinds:
        temperature = kind.parameters.get("celsius", celsius)
        if celsius != 6.3:
            _check_celsius(kind.mechanism, temperature, celsius)


def check_alone(kinds: Sequence[Kind], is_copied: bool) -> None:
    """Refuse several instances of a mechanism that supports only one."""
    drawing = {k.mechanism.name: k.count for k in kinds if GENERATOR in k.mechanism.program.random}
    if sum(drawing.values()) > 1:
        which = ", ".join(f"{count} of {name}" for name, count in drawing.items())
        raise InputError(
            f"{which}: instances that take numbers of NEURON's one generator; expected one "
            "in the model, or RANDOM variables in their files"
        )
    for kind in kinds:
        program = kind.mechanism.program
        names = (*program.alone, *(program.last if is_copied else ()))
        if names and kind.count > 1:
            raise InputError(
                f"{program.name}: each of its {kind.count} instances sets {names[0]}, which is "
                "one for all, for the next ones in NEURON's order; expected one instance, or "
                f"{names[0]} in RANGE in its file"
            )


def _check_celsius(mechanism: Mechanism, values: float | np.ndarray, celsius: float) -> None:
    other = np.ravel(values)[np.ravel(values) != celsius]
    if len(other):
        raise InputError(
            f"{mechanism.name}: celsius is {other[0]:g}, the network's is {celsius:g}; "
            "expected the same"
        )


def kinds_of(
    all_groups: Sequence[Group],
    area_at: Callable[[np.ndarray], np.ndarray],
    celsius: float,
    stored: Collection[tuple[str, str]] = (),
    last: Mapping[int, int] | None = None,
) -> tuple[tuple[Kind, ...], tuple[tuple[int, np.ndarray], ...]]:
    """Merge each mechanism's groups; return `Model.kinds` and `Model.instances`.

    Constant mechanisms are left out. `area_at` returns nodes' areas. `stored` has (mechanism,
    parameter) names of parameters that must be arrays, even if all instances have the same value.
    `last` has, by group number, the instance that sets GLOBAL variables (see `Kind.last`); None if
    all instances must agree.
    """
    together: dict[Mechanism, list[Group]] = {}
    instances: list[tuple[int, np.ndarray]] = [(-1, g.nodes) for g in all_groups]
    for group in all_groups:
        if not group.mechanism.constant and len(group):
            together.setdefault(group.mechanism, []).append(group)
    kinds: list[Kind] = []
    targets = first = 0
    for mechanism, groups in together.items():
        node, order, ranks = _by_node(groups)
        for group, rank in zip(groups, ranks, strict=True):
            instances[group.number] = len(kinds), rank
        values = {
            p: _merged(groups, p, order, (mechanism.name, p) in stored) for p in mechanism.settable
        }
        if "celsius" in mechanism.program.built_in:
            _check_celsius(mechanism, values["celsius"], celsius)
            values["celsius"] = celsius
        factor = factor_of(mechanism, area_at(node))
        target = targets if mechanism.takes_events else -1
        end = None if last is None or not mechanism.program.last else len(node) - 1
        if last and groups[-1].number in last:
            end = int(ranks[-1][last[groups[-1].number]])
        kinds.append(Kind(mechanism, node, values, factor, target, first, end))
        first += len(node)
        targets += len(node) if mechanism.takes_events else 0
    return tuple(kinds), tuple(instances)


def is_electrode(mechanism: Mechanism) -> bool:
    """Return whether a mechanism injects current; other currents flow through the membrane."""
    names = (*ELECTRODES, "vclamp")
    return mechanism.program.electrode or mechanism in [built_in(name) for name in names]


def reads_outside(mechanism: Mechanism) -> set[str]:
    """Return the roles of an electrode's arguments that differ between both sides of a membrane."""
    if not is_electrode(mechanism) or mechanism in [built_in(name) for name in ELECTRODES]:
        return set()
    roles = {a.role for arguments in mechanism.program.blocks.values() for a in arguments}
    return roles & {"v", "ion", "pointer"}


def place_electrodes(groups: Sequence[Group], around: Enclosing | None) -> list[Group]:
    """Return groups whose electrodes are moved to the extracellular node around their node."""
    if around is None:
        return [*groups]
    inner, layers, moved_groups = around.rows[0], around.rows[1:-1], list[Group]()
    for group in groups:
        nodes, mechanism = group.nodes, group.mechanism
        if not len(nodes) or mechanism.kind == "artificial":
            moved_groups.append(group)
            continue
        is_inner, electrode = np.isin(nodes, inner), is_electrode(mechanism)
        wrong = np.isin(nodes, layers) if electrode else ~is_inner
        if wrong.any():
            raise InputError(
                f"{mechanism.name} at node {int(nodes[wrong][0])}, which is around another; "
                f"expected {'an outermost one' if electrode else 'an electrode'}"
            )
        to = np.where(is_inner, around.node[nodes], nodes)
        moved = electrode & is_inner & (to >= 0)
        if moved.any():
            _check_moved(mechanism, int(nodes[moved][0]))
            nodes = np.where(moved, to, nodes)
            group = Group(group.network, group.number, mechanism, nodes, group.parameters)
        moved_groups.append(group)
    return moved_groups


def _check_moved(mechanism: Mechanism, node: int) -> None:
    if reads_outside(mechanism):
        raise InputError(
            f"{mechanism.name} at node {node}, which has nodes around it, is an "
            "electrode that depends on v, ions or pointers; expected one that does not"
        )


def check_fields(model: Model) -> None:
    """Raise InputError if a current between the inside of cells leaves out the voltage outside."""
    fields = any(is_field(kind.mechanism) for kind in model.kinds)
    for k, kind in enumerate(model.kinds):
        name, program = kind.mechanism.name, kind.mechanism.program
        if fields and "v" in reads_outside(kind.mechanism):
            raise InputError(f"{name}, an electrode that depends on v, in a field; expected others")
        gaps = [a.name for a in program.blocks.get("current", ()) if a.role == "pointer"]
        others = any((model.pointers.get((k, a), kind.node) != kind.node).any() for a in gaps)
        if others and (fields or (model.layers is not None and name == "half_gap")):
            raise InputError(
                f"{name}, whose current depends on the voltage of another node, in "
                f"{'a field' if fields else 'a network with extracellular layers'}; expected others"
            )


def set_spike_thresholds(
    network: Network, kinds: Sequence[Kind], threshold: np.ndarray, dt: float
) -> tuple[tuple[Kind, ...], np.ndarray]:
    """Apply thresholds in mechanism texts (``spike:``).

    Return the mechanisms, with refractory times in steps, and the cells' thresholds, mV.
    """
    changed, has_text = list(kinds), np.zeros(network.num_cells, bool)
    for k, kind in enumerate(kinds):
        spike, name = kind.mechanism.program.spike, kind.mechanism.name
        if spike is None:
            continue
        cell = stretch_of(network.forest.cell_offsets, kind.node)
        values = kind.arrays()
        at, reset, refractory = (
            np.broadcast_to(values[x] if isinstance(x, str) else x, kind.count)
            for x in (spike.threshold, spike.reset, spike.refractory)
        )
        capacitance = inside(network).structure.whole("capacitance")[kind.node]
        again = has_text[cell]
        again[1:] |= cell[1:] == cell[:-1]
        for wrong, fault in (
            (network.soma[cell] != kind.node, "is not where its cell spikes; expected net.soma"),
            (again, "is not the only text with 'spike:' there; expected one in a cell"),
            (capacitance <= 0, "has no capacitance; expected more than 0 nF"),
            (reset >= at, "resets v to its threshold or above; expected a lower voltage"),
            (
                values[CAPACITANCE] != 0,
                "sets its capacitance; expected the node's",
            ),
            (refractory < 0, "has a refractory time below 0; expected 0 ms or more"),
        ):
            if wrong.any():
                j = int(np.argmax(wrong))
                raise InputError(f"{name} in node {kind.node[j]} of cell {cell[j]} {fault}")
        has_text[cell], threshold = True, threshold.copy()
        threshold[cell] = at
        each = np.asarray(capacitance / kind.factor)
        capacitance = each[0] if (each == each[0]).all() else each
        steps = {
            CAPACITANCE: capacitance,
            **held_steps(kind.mechanism.program, kind.parameters, dt),
        }
        changed[k] = replace(kind, parameters=kind.parameters | steps)
    return tuple(changed), threshold


def held_steps(
    program: Program, values: Mapping[str, float | np.ndarray], dt: float
) -> dict[str, float | np.ndarray]:
    """Return a text's refractory time in steps by the parameter's name; empty if it has none."""
    if program.spike is None or HELD_STEPS not in program.built_in:
        return {}
    time = program.spike.refractory
    steps = refractory_steps(values[time] if isinstance(time, str) else time, dt)
    return {HELD_STEPS: steps if steps.ndim else float(steps)}


def replace_values(
    kinds: Sequence[Kind],
    instances: Sequence[tuple[int, np.ndarray]],
    groups: Sequence[Group],
    changed: Collection[tuple[int, str]],
    stored: Collection[tuple[str, str]],
    dt: float,
) -> tuple[Kind, ...]:
    """Return the mechanisms with the present values of changed parameters.

    `changed` has group numbers and parameter names. `stored` has mechanisms and names of parameters
    that get one value for each instance.
    """
    groups_here = []
    for k, kind in enumerate(kinds):
        of_kind = [g for g in groups if instances[g.number][0] == k]
        mechanism, numbers = kind.mechanism, {g.number for g in of_kind}
        names = {name for number, name in changed if number in numbers}
        names |= {name for mechanism_name, name in stored if mechanism_name == mechanism.name}
        if names:
            order = inverse(np.concatenate([instances[g.number][1] for g in of_kind]))
            columns = {p for p in names if np.ndim(kind.parameters[p])}  # kernels read them so
            columns |= {p for p in names if (mechanism.name, p) in stored}
            values = {p: _merged(of_kind, p, order, p in columns) for p in names}
            values |= held_steps(mechanism.program, {**kind.parameters, **values}, dt)
            kind = replace(kind, parameters=kind.parameters | values)
        groups_here.append(kind)
    return tuple(groups_here)


def _by_node(groups: Sequence[Group]) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    if len(groups) == 1 and ascending(groups[0].nodes):
        order = np.arange(len(groups[0]))
        return groups[0].nodes, order, [order]
    node = np.concatenate([g.nodes for g in groups])
    order = np.argsort(node, kind="stable")
    ends = np.cumsum([len(g) for g in groups])
    return node[order], order, np.split(inverse(order), ends[:-1])


def constant_sums(
    groups: Sequence[Group], structure: Structure, axial: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Sum conductances, µS, and negated currents at 0 mV, nA, of constant mechanisms by node.

    If all cells repeat one cell, the sums are for one cell. With `axial`, add axial conductances.
    """
    constant = [group for group in groups if group.mechanism.constant]
    area, d = structure.once("area"), structure.once("g_total")
    d = d if axial else np.zeros_like(d)
    b, count = np.zeros(len(d)), 0
    while count < len(constant) and _repeats(constant[count]):
        _fold(constant[count], constant[count].nodes[: constant[count].in_round], area, d, b)
        count += 1
    if count < len(constant):
        area, d, b = (repeat_moved(a, structure.forest.num_nodes) for a in (area, d, b))
    for group in constant[count:]:
        _fold(group, group.nodes, area, d, b)
    return d, b


def sums_of_nodes(groups: Sequence[Group], structure: Structure) -> dict[str, np.ndarray]:
    """Return `Model.constant_d`, `constant_b` and `constant_g`, for one cell if all repeat it."""
    d, b = constant_sums(groups, structure)
    g, _ = constant_sums(groups, structure, axial=False)
    return {"constant_d": d, "constant_b": b, "constant_g": g}


def nodes_of(groups: Sequence[Group], structure: Structure, v_init: ArrayLike) -> NodeValues:
    of_nodes = {
        "u": -structure.once("g_axial") * (structure.around is None),
        "capacitance": structure.once("capacitance"),
        "area": structure.once("area"),
        **sums_of_nodes(groups, structure),
        "v_init": begin_of(structure, v_init),
    }
    return NodeValues(of_nodes, structure.forest.num_nodes)


def begin_of(structure: Structure, v_init: ArrayLike) -> np.ndarray:
    """Return the initial voltages, (n,) or (1,), mV; extracellular nodes begin at 0."""
    count, around = structure.forest.num_nodes, structure.around
    v = spread("v_init", v_init, count, writable=False, unit="mV")
    return v if around is None or np.ndim(v_init) else np.where(around.inner, v, 0)


def _repeats(group: Group) -> bool:
    return bool(group.in_round) and all(np.ndim(v) == 0 for v in group.parameters.values())


def factor_of(mechanism: Mechanism, area: np.ndarray) -> np.ndarray:
    """Return the factors (`Kind.factor`) from a mechanism's units to µS and nA; `area` in µm²."""
    return DENSITY * area if mechanism.kind == "density" else np.ones(len(area))


def _fold(group: Group, nodes: np.ndarray, area: np.ndarray, d: np.ndarray, b: np.ndarray) -> None:
    n = len(area)
    alike = all(np.ndim(v) == 0 for v in group.parameters.values())
    count = 1 if alike else len(group)
    values = {k: np.broadcast_to(np.float64(v), count) for k, v in group.parameters.items()}
    i, g = group.mechanism.current(np.zeros(count), 0.0, values, {})  # at 0 mV
    factor = factor_of(group.mechanism, area[nodes])
    if len(nodes) and ascending(nodes):  # no node twice
        d[nodes] += factor * g
        b[nodes] -= factor * i
        return
    d += np.bincount(nodes, factor * g, n)
    b -= np.bincount(nodes, factor * i, n)


def _merged(
    groups: Sequence[Group], name: str, order: np.ndarray, each: bool = False
) -> float | np.ndarray:
    """Merge a parameter's values: one number if all are equal and not `each`, else in `order`."""
    values = [g.parameters[name] for g in groups]
    if not each and all(np.ndim(v) == 0 and v == values[0] for v in values):
        return values[0]
    parts = [np.broadcast_to(v, len(g)) for v, g in zip(values, groups, strict=True)]
    return np.concatenate(parts)[order]
