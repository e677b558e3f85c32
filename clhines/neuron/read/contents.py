"""What is in the membranes and at the nodes of a model: instances with their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np

from clhines.neuron.memory.columns import Columns
from clhines.neuron.memory.fields import Data, Fields
from clhines.neuron.memory.memory import Memory
from clhines.neuron.memory.objects import POINTER
from clhines.neuron.memory.raw import gather
from clhines.neuron.memory.session import Hoc
from clhines.neuron.read.catalogue import STRUCTURE, Catalogue, Entry
from clhines.neuron.read.tree import Tree

_SAMPLES = 20  # of what is read at once, so many are compared with what hoc says


class Things(Sequence[Hoc]):
    """What variables of instances are attributes of, made when asked for.

    `load` returns a function from an instance to what its variables are attributes of.
    """

    def __init__(self, count: int, load: Callable[[], Callable[[int], Hoc]]) -> None:
        self._count, self._load = count, load
        self._thing: Callable[[int], Hoc] | None = None

    def forget(self) -> None:
        """Hold nothing of NEURON's any more: what is held lives on."""
        self._thing = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, k: int) -> Hoc: ...

    @overload
    def __getitem__(self, k: slice) -> list[Hoc]: ...

    def __getitem__(self, k: int | slice) -> Hoc | list[Hoc]:
        if self._thing is None:
            self._thing = self._load()
        if isinstance(k, slice):
            return [self._thing(j) for j in range(*k.indices(self._count))]
        return self._thing(range(self._count)[k])


@dataclass(eq=False)
class Instances:
    """All instances of one mechanism.

    Attributes
    ----------
    nodes : (k,) int64, -1 for artificial cells
    columns : where their variables can be read all at once
    places : (k,) int64, addresses of what is no variable
    objects : (k,) int64, addresses of hoc objects, of point processes and artificial cells
    """

    entry: Entry
    things: Things
    nodes: np.ndarray
    columns: Columns
    places: np.ndarray
    objects: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.things)

    def values(self, name: str, place: int | None = None) -> np.ndarray:
        """(count,) float64: a variable of all instances, `place` in one that is an array."""
        found = self.columns.values(name, place)
        if found is not None:
            return found
        if place is None:
            return np.array([getattr(thing, name) for thing in self.things], np.float64)
        return np.array([getattr(thing, name)[place] for thing in self.things], np.float64)

    def put(self, name: str, values: np.ndarray, place: int | None = None) -> None:
        """Set a variable of all instances."""
        if self.columns.put(name, values, place):
            return
        for thing, value in zip(self.things, values.tolist(), strict=True):
            if place is None:
                setattr(thing, name, value)
            else:
                getattr(thing, name)[place] = value


@dataclass(eq=False)
class Ion:
    """An ion, as ``ca``, where it is.

    `style` has NEURON's bits: how concentrations and reversal potentials go, in each segment.
    """

    name: str
    valence: float
    instances: Instances
    style: list[int] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Contents:
    """What a model has besides its tree.

    Attributes
    ----------
    points : point processes and artificial cells
    ions : by NEURON's name, as ``ca_ion``
    structural : mechanisms without NMODL, as ``extracellular``, and a section where each is; empty
        for point processes
    adrift : point processes that are at no segment
    """

    density: dict[str, Instances]
    points: dict[str, Instances]
    ions: dict[str, Ion]
    structural: dict[str, str]
    adrift: list[str]


def read_contents(
    h: Hoc, memory: Memory, fields: Fields, read: tuple[Tree, Data], catalogue: Catalogue
) -> Contents:
    """Find all instances of all mechanisms; `read` is from `read_tree`."""
    found = Contents({}, {}, {}, {}, [])
    tree, data = read
    for number in data.types():
        entry = catalogue.of_number(number)
        _add_membranes(h, memory, tree, found, entry, data.of(number))
    without_text = catalogue.without_text(points=True)
    for name in catalogue.names(points=True):
        every = list(h.List(name))
        if every and name in without_text:
            found.structural[name] = ""
        elif every:
            _add_points(h, memory, fields, tree, found, catalogue[name], every)
    return found


def _add_membranes(
    h: Hoc, memory: Memory, tree: Tree, found: Contents, entry: Entry, data: Data
) -> None:
    """Add all instances of an ion or of a mechanism that is in membranes."""
    if entry.name in STRUCTURE:
        return
    at, is_ion = data.node, entry.kind == "ion"
    if not is_ion and not entry.text:
        found.structural[entry.name] = str(tree.segment(int(at[0])).sec)
        return

    def thing(k: int) -> Hoc:
        segment = tree.segment(int(at[k]))
        return segment if is_ion else getattr(segment, entry.name)

    things = Things(len(at), lambda: thing)
    columns = Columns(memory, things, data.row)
    instances = Instances(entry, things, tree.inner_numbers[at], columns, data.places)
    if not is_ion:
        found.density[entry.name] = instances
        return
    styles = gather(data.places, POINTER + 1)[:, POINTER] & np.uint64(0xFFFFFFFF)
    short, valence = entry.name.removesuffix("_ion"), float(h.ion_charge(entry.name))
    found.ions[entry.name] = Ion(short, valence, instances, styles.astype(np.int64).tolist())
    _check_styles(h, tree, found.ions[entry.name], at)


def _check_styles(h: Hoc, tree: Tree, ion: Ion, at: np.ndarray) -> None:
    """Compare with hoc, which shows the style of the segment next to the parent of a section."""
    near = np.searchsorted(at, tree.near())
    known = np.flatnonzero(at[np.minimum(near, len(at) - 1)] == tree.near())
    for k in known[:: max(len(known) // _SAMPLES, 1)].tolist():
        style = int(h.ion_style(ion.instances.entry.name, sec=tree.sections[k]))
        if style != ion.style[near[k]]:
            raise OSError(f"the style of {ion.name} in {tree.sections[k]} is not as expected")


def _add_points(
    h: Hoc,
    memory: Memory,
    fields: Fields,
    tree: Tree,
    found: Contents,
    entry: Entry,
    every: list[Hoc],
) -> None:
    objects = memory.objects_of(every)
    data = fields.data_of_points(memory.insides_of(objects))
    nodes, chosen = np.full(len(every), -1), np.ones(len(every), bool)
    if entry.kind != "artificial":
        nodes = tree.numbers_of(data.node)
        chosen = nodes >= 0
        found.adrift.extend(str(every[k]) for k in np.flatnonzero(~chosen).tolist())
        for k in np.flatnonzero(chosen)[:: max(int(chosen.sum()) // _SAMPLES, 1)].tolist():
            if tree.at(every[k].get_segment()) != nodes[k]:
                raise OSError(f"{every[k]} is not where it was expected")
    places = np.flatnonzero(chosen).tolist()

    def load() -> Callable[[int], Hoc]:
        listed = list(h.List(entry.name))
        return lambda k: listed[places[k]]

    if places:
        things = Things(len(places), load)
        columns = Columns(memory, things, data.row[chosen])
        found.points[entry.name] = Instances(
            entry, things, nodes[chosen], columns, data.places[chosen], objects[chosen]
        )
