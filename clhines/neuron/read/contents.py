"""Instances of a model's mechanisms, with their values."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from clhines.neuron.convert import lengths_of
from clhines.neuron.memory.fields import Data, DataColumns, Fields, column_at
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.objects import POINTER
from clhines.neuron.memory.raw import Readable, gather, words_at
from clhines.neuron.memory.session import Hoc
from clhines.neuron.read.catalogue import OUTSIDE, STRUCTURE, Catalogue, CatalogueEntry
from clhines.neuron.read.tree import Tree

_SAMPLES = 20  # instances to compare with hoc's values after reading all
_BEGIN = "area", "pntproc"  # every point process's first two dparam slots


class Things(Sequence[Hoc]):
    """NEURON's objects that have the variables of instances, loaded when first used.

    They are segments (for ions), mechanisms of segments, or point processes.
    """

    def __init__(self, count: int, load: Callable[[], Callable[[int], Hoc]]) -> None:
        self._count, self._load = count, load
        self._thing: Callable[[int], Hoc] | None = None

    def forget(self) -> None:
        """Drop all references to NEURON's objects, so that NEURON can delete them."""
        self._thing = None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, k: Any) -> Hoc:  # no slices
        if self._thing is None:
            self._thing = self._load()
        return self._thing(range(self._count)[k])


@dataclass(eq=False)
class Instances:
    """All instances of one mechanism."""

    entry: CatalogueEntry
    things: Things
    nodes: np.ndarray  # (k,) int64, -1 for artificial cells
    columns: DataColumns  # reads and sets a variable for all instances at once
    places: np.ndarray  # (k,) int64, addresses of dparam slots
    # (k,) int64, addresses of point processes' hoc objects
    objects: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.things)

    def values(self, name: str, place: int | None = None) -> np.ndarray:
        """Return a variable, or element `place` of an array, of all instances, (k,) float64."""
        if (at := self._column_of(name, place)) is not None:
            return at[0][at[1]]
        if place is None:
            return np.array([getattr(thing, name) for thing in self.things], np.float64)
        return np.array([getattr(thing, name)[place] for thing in self.things], np.float64)

    def put(self, name: str, values: np.ndarray, place: int | None = None) -> None:
        if (at := self._column_of(name, place)) is not None:
            at[0][at[1]] = values
            return
        for thing, value in zip(self.things, values.tolist(), strict=True):
            if place is None:
                setattr(thing, name, value)
            else:
                getattr(thing, name)[place] = value

    @cached_property
    def hidden(self) -> dict[str, int]:
        """The columns of ASSIGNED variables that hoc does not show, as they are not in RANGE."""
        columns = self.columns.every(self.entry.ranges)
        return {n: at for n, at in columns.items() if n not in self.entry.ranges}

    def _column_of(self, name: str, place: int | None) -> tuple[np.ndarray, np.ndarray] | None:
        """Return a variable's column and each instance's index; None if it is in no column."""
        at = self.columns.find(name, place)
        if at is not None or name not in self.hidden:
            return at
        number = self.columns.numbers()
        if place is not None:
            number = number * lengths_of(self.entry.text, self.entry.file)[name] + place
        return column_at(self.hidden[name], number), number


@dataclass(eq=False)
class Ion:
    name: str
    valence: float
    instances: Instances
    style: np.ndarray  # (k,) int64: NEURON's style bits in each segment


@dataclass(eq=False)
class Contents:
    density: dict[str, Instances]
    points: dict[str, Instances]  # including artificial cells
    ions: dict[str, Ion]  # by NEURON's name, such as ``ca_ion``
    structural: dict[str, str]  # mechanisms without NMODL, and a section with each, or empty
    outside: Instances | None = None  # `extracellular`; segments own its variables

    @property
    def others(self) -> list[Instances]:
        """Instances of ions and extracellular."""
        outside = [] if self.outside is None else [self.outside]
        return [*(ion.instances for ion in self.ions.values()), *outside]


def read_contents(
    h: Hoc, memory: NeuronMemory, fields: Fields, read: tuple[Tree, Data], catalogue: Catalogue
) -> Contents:
    contents = Contents({}, {}, {}, {})
    tree, data = read
    for number in data.types():
        entry = catalogue.with_channel(catalogue[catalogue.of_number[number]], memory)
        _add_membranes(h, memory, tree, contents, entry, data.of(number))
    without_text = catalogue.without_text()
    for name in catalogue.points():
        every = list(h.List(name))
        if every and name in without_text:
            contents.structural[name] = ""
        elif every:
            entry = catalogue.with_channel(catalogue[name], memory)
            _add_points(h, memory, fields, tree, contents, entry, every)
    return contents


def _add_membranes(
    h: Hoc, memory: NeuronMemory, tree: Tree, contents: Contents, entry: CatalogueEntry, data: Data
) -> None:
    if entry.name in STRUCTURE:
        return
    at, is_ion, is_outside = data.node, entry.kind == "ion", entry.name == OUTSIDE
    if not (is_ion or is_outside or entry.text or entry.channel):
        contents.structural[entry.name] = str(tree.segment(int(at[0])).sec)
        return

    def thing(k: int) -> Hoc:
        segment = tree.segment(int(at[k]))
        return segment if is_ion or is_outside else getattr(segment, entry.name)

    def load() -> Callable[[int], Hoc]:
        first = tree.segment(int(at[0]))
        if entry.channel is not None and not hasattr(first, entry.name):
            with suppress(ValueError):  # its failure makes a mechanism built by hoc visible
                first.sec.insert("no mechanism")
        return thing

    things = Things(len(at), load)
    columns = DataColumns(memory, things, data.row)
    if is_outside:
        hoc_names = {"e": f"e_{OUTSIDE}"}
        ranges = {hoc_names.get(name, name): size for name, size in entry.ranges.items()}
        entry = replace(entry, ranges=ranges)
    instances = Instances(entry, things, tree.inner_numbers[at], columns, data.places)
    if is_outside:
        contents.outside = instances
        return
    if not is_ion:
        contents.density[entry.name] = instances
        return
    styles = gather(data.places, POINTER + 1)[:, POINTER] & np.uint64(0xFFFFFFFF)
    short, valence = entry.name.removesuffix("_ion"), float(h.ion_charge(entry.name))
    contents.ions[entry.name] = Ion(short, valence, instances, styles.astype(np.int64))
    _check_styles(h, tree, contents.ions[entry.name], at)


def _check_styles(h: Hoc, tree: Tree, ion: Ion, at: np.ndarray) -> None:
    """Raise an OSError if an ion's style bits differ from hoc's ``ion_style()``.

    hoc shows the style only for the segment next to a section's parent. `at`: segments of the ion.
    """
    near = np.searchsorted(at, tree.near())
    shown = np.flatnonzero(at[np.minimum(near, len(at) - 1)] == tree.near())
    for k in shown[:: max(len(shown) // _SAMPLES, 1)].tolist():
        style = int(h.ion_style(ion.instances.entry.name, sec=tree.sections[k]))
        if style != ion.style[near[k]]:
            raise OSError(f"the style of {ion.name} in {tree.sections[k]} is not as expected")


def _add_points(
    h: Hoc,
    memory: NeuronMemory,
    fields: Fields,
    tree: Tree,
    contents: Contents,
    entry: CatalogueEntry,
    every: list[Hoc],
) -> None:
    objects = memory.objects_of(every)
    data = fields.data_of_points(memory.insides_of(objects))
    nodes, chosen = np.full(len(every), -1), np.ones(len(every), bool)
    if entry.kind != "artificial":
        nodes = tree.numbers_of(data.node)
        chosen = nodes >= 0
        for k in np.flatnonzero(chosen)[:: max(int(chosen.sum()) // _SAMPLES, 1)].tolist():
            if tree.at(every[k].get_segment()) != nodes[k]:
                raise OSError(f"{every[k]} is in another node than expected")
    places = np.flatnonzero(chosen).tolist()

    def load() -> Callable[[int], Hoc]:
        listed = list(h.List(entry.name))
        return lambda k: listed[places[k]]

    if places:
        things = Things(len(places), load)
        columns = DataColumns(memory, things, data.row[chosen])
        contents.points[entry.name] = Instances(
            entry, things, nodes[chosen], columns, data.places[chosen], objects[chosen]
        )


class WatchSlots:
    """Read and write WATCH conditions, POINTERs and self events in instances' dparam slots.

    These slots are words for pointers; NEURON's table of mechanisms says what each is.
    """

    def __init__(self, memory: NeuronMemory) -> None:
        self._memory = memory
        name = "_Z27nrn_dparam_semantics_to_intPKc"
        number = memory.function(name, ctypes.c_int, ctypes.c_char_p)
        names = *_BEGIN, "netsend", "watch", "pointer", "bbcorepointer"
        self._number = {n: int(number(n.encode())) for n in names}
        begin, end = words_at(memory.address("memb_func"), 2)
        count = ctypes.c_int.from_address(memory.address("n_memb_func")).value
        self._table, self._stride = begin, (end - begin) // count
        self._places: dict[tuple[int, str], int] = {}

    def place_of(self, kind: int, what: str) -> int:
        """Return the index of the first dparam slot of a mechanism with meaning `what`, or -1.

        `kind` is NEURON's number of the mechanism; `what` is, for example, ``watch``.
        """
        if (kind, what) not in self._places:
            meanings, number = self._meanings(kind), self._number[what]
            self._places[kind, what] = meanings.index(number) if number in meanings else -1
        return self._places[kind, what]

    def pointers(self, instances: Instances, width: int) -> np.ndarray:
        """Return the address in each instance's only POINTER; `width`: bytes of a dparam slot."""
        numbers = [self._number[what] for what in ("pointer", "bbcorepointer")]
        meanings = self._meanings(instances.entry.number)
        places = [k for k, number in enumerate(meanings) if number in numbers]
        if len(places) != 1:
            raise OSError("its pointers are not as expected")
        words = gather(instances.places + width * places[0] + 8 * POINTER)
        return words[:, 0].astype(np.int64)

    def _entry(self, kind: int) -> list[int]:
        return words_at(self._table + self._stride * kind, self._stride // 8)

    def _meanings(self, kind: int) -> list[int]:
        """Return NEURON's number for the meaning of each dparam slot of a mechanism."""
        address = self._entry(kind)[self._meaning_word]
        return list((ctypes.c_int * self._memory.num_places(kind)).from_address(address))

    @cached_property
    def _meaning_word(self) -> int:
        """Index, in a mechanism's entry of the table, of the word that points to slots' meanings.

        It is found by a point process, whose first two slots have known meanings.
        """
        kind = int(np.flatnonzero(self._memory.are_points())[0])
        size, begin = self._memory.num_places(kind), [self._number[n] for n in _BEGIN]
        readable = Readable(4 * size + 8)
        for k, word in enumerate(self._entry(kind)):
            if word % 4 == 0 and word // 8 * 8 in readable:
                if (ctypes.c_int * size).from_address(word)[:2] == begin:
                    return k
        raise OSError("the table of mechanisms is not as expected")

    def movable(self, instances: Instances) -> np.ndarray:
        """Return the address of each instance's slot for net_move, (k,) int64; 0 for none."""
        place = self.place_of(instances.entry.number, "netsend")
        if place < 0:
            return np.zeros(len(instances), np.int64)
        first = self._memory.object_address(instances.things[0])
        begin, width, _ = self._memory.points.slots_of(first)
        if begin != instances.places[0]:
            raise OSError("a point process's places are not as expected")
        return instances.places + width * place

    def moved(self, instances: Instances) -> set[int]:
        """Return the addresses of the queue entries that net_move of these instances would move."""
        places = self.movable(instances)
        return {*gather(places[places > 0] + 8 * POINTER)[:, 0].tolist()}

    # -- WATCH -------------------------------------------------------------------------------------

    def watched(self, instances: Instances) -> list[tuple[int, int, bool]]:
        """Return all armed conditions: (instance, index of the WATCH, whether it is true)."""
        begin = self.place_of(instances.entry.number, "watch")
        rows = {row: k for k, row in enumerate(instances.columns.numbers().tolist())}
        armed: list[tuple[int, int, bool]] = []

        def take(_: int, kind: int, row: int, place: int, above: int) -> None:
            if kind == instances.entry.number:
                armed.append((rows[row], place - begin - 1, bool(above)))

        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int] * 5)
        self._memory.function("nrn2core_transfer_WATCH", None, kind)(kind(take))
        return armed

    def disarm(self) -> None:
        self._memory.function("_Z15nrn_watch_clearv", None)()

    def watch(self, instances: Instances, armed: Sequence[tuple[int, int, bool]]) -> None:
        kind, begin = instances.entry.number, self.place_of(instances.entry.number, "watch")
        rows = instances.columns.numbers()
        of_row: list[list[int]] = [[] for _ in rows]
        for instance, condition, above in armed:
            of_row[rows[instance]].append((begin + 1 + condition) | int(above) << 32)
        arrays = [(ctypes.c_uint64 * max(len(row), 1))(*row) for row in of_row]
        vectors = (ctypes.c_uint64 * (3 * len(rows)))()  # std::vector: begin, end, end of capacity
        for k, (row, array) in enumerate(zip(of_row, arrays, strict=True)):
            address = ctypes.addressof(array)
            vectors[3 * k] = address
            vectors[3 * k + 1] = vectors[3 * k + 2] = address + 8 * len(row)
        at = ctypes.addressof(vectors)
        outer = (ctypes.c_uint64 * 3)(at, at + 24 * len(rows), at + 24 * len(rows))
        arguments = *[ctypes.c_int] * 3, ctypes.c_void_p
        activate = self._memory.function("core2nrn_watch_activate", None, *arguments)
        activate(0, kind, begin, ctypes.addressof(outer))


class SharedVariables:
    """Read and write GLOBAL variables of a mechanism, of which NEURON stores only one value each.

    A simulation may have a copy for each instance: the copy of instance `last` is written.
    """

    def __init__(self, h: Hoc, mechanism: str, last: int) -> None:
        self._h, self._mechanism, self._last = h, mechanism, last

    def values(self, name: str, place: int | None) -> np.ndarray:
        value = getattr(self._h, f"{name}_{self._mechanism}")
        return np.array([value if place is None else value[place]])

    def put(self, name: str, values: np.ndarray, place: int | None) -> None:
        if place is None:
            setattr(self._h, f"{name}_{self._mechanism}", values[self._last])
        else:
            getattr(self._h, f"{name}_{self._mechanism}")[place] = values[self._last]
