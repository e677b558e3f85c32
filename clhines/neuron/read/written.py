"""Targets of POINTERs: voltages, mechanism variables, Vector elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from clhines.core.arrays import place_of
from clhines.neuron.convert import Rejected, reject
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.raw import Place
from clhines.neuron.read.contents import Instances
from clhines.neuron.read.places import ELEMENT, MemoryPlaces, Variable
from clhines.neuron.read.played import name_of
from clhines.neuron.read.wiring import NeuronWires
from clhines.simulator.mechanisms import Mechanism


@dataclass(eq=False)
class PointerTargets:
    # by mechanism and POINTER: each instance's target
    targets: dict[tuple[str, str], list[Variable]] = field(default_factory=dict)
    elements: list[int] = field(default_factory=list)  # addresses of targets in Vectors
    rejected: list[Rejected] = field(default_factory=list)


def read_written(
    memory: NeuronMemory,
    places: MemoryPlaces,
    every: Mapping[str, Instances],
    mechanisms: Mapping[str, Mechanism],
    used: Sequence[int],
) -> PointerTargets:
    """Return the targets of POINTERs that mechanisms write.

    `used` has addresses of Vectors that play or record: their elements cannot be targets.
    """
    result, elements, set_by = PointerTargets(), dict[int, None](), set[int]()
    pointers = [(n, p) for n, m in mechanisms.items() for p in m.program.written]
    rooms = _address_ranges(memory, used) if pointers else np.zeros((0, 2), np.int64)
    for name, pointer in pointers:
        program, targets = mechanisms[name].program, list[Variable]()
        before = program.blocks.get("before_breakpoint", ())
        sets = any((a.role, a.name) == ("put", pointer) for a in before)
        for thing in every[name].things:
            place = memory.known_place(thing, pointer)
            variable = None if place is None else _variable(places, rooms, place)
            if variable is None:
                words = {"pointer": pointer, "memory": _shown(memory, place)}
                expected = "expected a variable of a mechanism, or an element of a Vector"
                said = reject(name, "neuron.pointer-written-target", expected, **words)
                result.rejected.append(said)
                break
            targets.append(variable)
            if variable.owner == ELEMENT:
                elements[variable.number] = None
                if sets:
                    set_by.add(variable.number)
        if len({(v.owner, v.name) for v in targets}) > 1:
            result.rejected += [reject(name, "neuron.pointer-written-to-several", pointer=pointer)]
        result.targets[name, pointer] = targets
    if elements.keys() - set_by:
        result.rejected.append(reject("", "neuron.pointer-sum-not-reset"))
    result.elements = [*elements]
    return result


def read_steered(
    memory: NeuronMemory,
    wires: NeuronWires,
    every: Mapping[str, Instances],
    mechanisms: Mapping[str, Mechanism],
) -> tuple[dict[tuple[str, str], np.ndarray], list[Rejected]]:
    """Return the weights that NET_RECEIVE sets by POINTERs, and rejections.

    The weights: by mechanism and POINTER, each instance's NetCon and weight index, (k, 2) int64.
    """
    steered, rejected = dict[tuple[str, str], np.ndarray](), list[Rejected]()
    for name, pointer in ((n, p) for n, m in mechanisms.items() for p in m.program.steered):
        places = [memory.known_place(thing, pointer) for thing in every[name].things]
        at = [0 if place is None or place.row else place.column for place in places]
        number = place_of(wires.weight_addresses, np.array(at, np.int64))
        netcon = np.append(np.repeat(np.arange(len(wires.width)), wires.width), -1)[number]
        if (netcon < 0).any() or (wires.origin[netcon] < 0).any():
            what = f"POINTER {pointer}, which NET_RECEIVE writes, points to no weight of a NetCon"
            rejected.append(reject(name, "neuron.pointer-to-no-weight", what=what))
            continue
        first = np.cumsum(wires.width) - wires.width
        steered[name, pointer] = np.stack((netcon, number - first[netcon]), axis=1)
    return steered, rejected


def read_pointed(
    memory: NeuronMemory,
    places: MemoryPlaces,
    every: Mapping[str, Instances],
    mechanisms: Mapping[str, Mechanism],
    gap_nodes: Mapping[tuple[str, str, int], int],
) -> tuple[dict[tuple[str, str], list[Variable]], list[Rejected]]:
    """Return, by (mechanism, POINTER), the target that each instance reads; and rejections.

    `gap_nodes`: by (mechanism, variable, instance), the node whose voltage ``target_var`` copies.
    """
    pointed, rejected = dict[tuple[str, str], list[Variable]](), list[Rejected]()
    for name, pointer in ((n, p) for n, m in mechanisms.items() for p in m.program.pointers):
        is_set = pointer in mechanisms[name].program.assigned
        targets = list[Variable]()
        for k, thing in enumerate(every[name].things):
            place = memory.known_place(thing, pointer)
            variable = None if place is None or not place.row else places.find(place)
            if (name, pointer, k) in gap_nodes:
                variable = Variable("", "v", gap_nodes[name, pointer, k])
            what, expected = "", ""
            if variable is None or variable.number < 0:
                what = _shown(memory, place)
                expected = "expected a voltage, or a variable of an instance of a mechanism"
            else:
                what = _unsupported(variable, targets, every)
                if not what and is_set:
                    what = _not_assigned(variable, targets, name)
            if what or variable is None:
                words = {"pointer": pointer, "what": what}
                rejected.append(reject(name, "neuron.pointer-target", expected, **words))
                break
            targets.append(variable)
        else:
            pointed[name, pointer] = targets
    return pointed, rejected


def _unsupported(
    variable: Variable, targets: Sequence[Variable], every: Mapping[str, Instances]
) -> str:
    """Say why a POINTER cannot read a variable; "" if it can. `targets` are all its targets."""
    owner = variable.owner
    if owner not in ("", *every) or (not owner and variable.name != "v"):
        return f"{variable.name} of {owner or 'a segment'}"
    if targets and _kind(variable) != _kind(targets[0]):
        return f"{targets[0].name} and, in another instance, to {variable.name}"
    return ""


def _not_assigned(variable: Variable, targets: Sequence[Variable], name: str) -> str:
    """Say why a POINTER of mechanism `name` cannot assign a variable; empty if it can."""
    owner = variable.owner
    if owner in ("", name):
        return f"{variable.name} of {owner or 'a node'}, and is written"
    if variable.place is not None:
        return f"{variable.name} of {owner}, of an array, and is written"
    if variable.number in {target.number for target in targets}:
        return f"{variable.name} of {owner}, of several instances, and is written"
    return ""


def _shown(memory: NeuronMemory, place: Place | None) -> str:
    if place is None or not (place.row or place.column):
        return "nothing"
    return name_of(memory, place)


def _kind(variable: Variable) -> tuple[str, str, int | None]:
    return variable.owner, variable.name, variable.place


def _variable(places: MemoryPlaces, rooms: np.ndarray, place: Place) -> Variable | None:
    if not place.row and ((rooms[:, 0] <= place.column) & (place.column < rooms[:, 1])).any():
        return Variable(ELEMENT, "x", place.column)
    variable = places.find(place) if place.row else None
    return variable if variable is not None and variable.owner and variable.number >= 0 else None


def _address_ranges(memory: NeuronMemory, used: Sequence[int]) -> np.ndarray:
    """Return begin and end of the numbers of Vectors not in `used`, (k, 2) int64."""
    busy, ranges = {*used}, list[tuple[int, int]]()
    for address, vector in memory.vectors.by_address().items():
        if address not in busy and len(vector):
            numbers = vector.as_numpy()
            begin = int(numbers.__array_interface__["data"][0])
            ranges.append((begin, begin + numbers.nbytes))
    return np.array(ranges, np.int64).reshape(-1, 2)
