"""The layout of NEURON's sections, nodes and mechanism data in memory.

The offset of each field is found in one section, because NEURON's functions and Python show what
that section contains. NEURON stores each variable of a mechanism in one array, its *column*, and
each instance has a *row* in it, so that NumPy reads and sets all instances at once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np

from clhines.core.arrays import starts
from clhines.neuron.memory import raw
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.session import Hoc, Section, all_sections

_SECTION, _NODE, _DATA = 8, 12, 10  # words to search in each object
_COUNT = 0xFFFF  # mask: a section stores its node count in 16 bits


@dataclass(frozen=True, eq=False)
class Fields:
    """Offsets of fields in NEURON's C++ objects, in 64-bit words (``half``: 32-bit; data: Prop)."""

    parent: int  # section: its parent; -1 if all sections are roots
    count_half: int  # section: its node count
    nodes: int  # section: its nodes' address
    parent_node: int  # section: node at which it starts
    row: int  # node: where its row number in columns is
    rinv: int  # node: axial conductance to its parent, µS
    data: int  # node: its first mechanism data
    next: int  # data: the node's next data
    type_half: int  # data: the mechanism's number
    row_of_data: int  # data: where its row number in the mechanism's columns is
    places: int  # data: its dparam slots (everything but variables)
    is_point: np.ndarray  # per mechanism: point process or artificial cell

    def nodes_of(self, sections: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return each section's node count, its nodes from the parent's end on, its parent node."""
        number = self._half(sections, self.count_half)
        begin = np.repeat(self._word(sections, self.nodes) - 8 * starts(number), number)
        nodes = self._word(begin + 8 * np.arange(number.sum()), 0)
        return number, nodes, self._word(sections, self.parent_node)

    def parents_of(self, sections: np.ndarray) -> np.ndarray:
        """Return the addresses of the sections' parents, (s,) int64; 0 for a root."""
        if self.parent < 0:
            return np.zeros(len(sections), np.int64)
        return self._word(sections, self.parent)

    def g_axial(self, nodes: np.ndarray) -> np.ndarray:
        """Return the axial conductances of nodes to their parents, ``1 / seg.ri()``, (k,), µS."""
        inverse = raw.numbers_at(nodes + 8 * self.rinv)
        ri = np.full(len(nodes), 1e30)  # MOhm, NEURON's value for no connection
        np.divide(1.0, inverse, out=ri, where=inverse != 0)
        return 1.0 / ri

    def values(self, column: int, nodes: np.ndarray) -> np.ndarray:
        array, rows = self.rows(column, nodes)
        return array[rows]

    def rows(self, column: int, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = self._word(self.rows_at(nodes), 0)
        return column_at(column, rows), rows

    def rows_at(self, nodes: np.ndarray) -> np.ndarray:
        return self._word(nodes, self.row)

    def data_of(self, nodes: np.ndarray, points: bool = False) -> Data:
        """If `points`, return data of point processes in nodes, else of all other mechanisms."""
        most = 1 + max(self.next, self.type_half // 2, self.row_of_data, self.places)
        address = self._word(nodes, self.data)
        at, parts = np.arange(len(nodes), dtype=np.int32), []
        for depth in count():
            at, address = at[address != 0], address[address != 0]
            words = raw.gather(address, most).view(np.int64)
            type_ = words[:, self.type_half // 2] >> (32 * (self.type_half % 2)) & _COUNT
            chosen = np.flatnonzero(self.is_point[type_] == points)
            row, places = (words[chosen, k] for k in (self.row_of_data, self.places))
            small = np.full(len(chosen), depth, np.int32), type_[chosen].astype(np.int16)
            parts.append((at[chosen], *small, row, places))
            if not len(at):
                break
            address = words[:, self.next]
        columns = [np.concatenate(part) for part in zip(*parts, strict=True)]
        order = np.argsort(columns[2] * np.int64(len(nodes)) + columns[0], kind="stable")
        return Data(*(column[order] for column in columns))

    def data_of_points(self, points: np.ndarray) -> Data:
        """Return data of point processes at C++ addresses `points`; zeros for one without data."""
        _, node, data, owner = raw.gather(points, 4).astype(np.int64).T
        rows = np.zeros((len(points), 5), np.int64)
        has_data = data != 0
        if (raw.gather(owner[has_data], 2)[:, 1].astype(np.int64) != points[has_data]).any():
            raise OSError("a point process is not as expected")
        at = data[has_data]
        row, places = (self._word(at, k) for k in (self.row_of_data, self.places))
        nodes, type_ = node[has_data], self._half(at, self.type_half)
        rows[has_data] = np.column_stack((nodes, 0 * nodes, type_, row, places))
        return Data(*rows.T)

    @staticmethod
    def _word(addresses: np.ndarray, place: int) -> np.ndarray:
        return raw.gather(addresses + 8 * place)[:, 0].view(np.int64)

    def _half(self, addresses: np.ndarray, place: int) -> np.ndarray:
        return (self._word(addresses, place // 2) >> (32 * (place % 2))) & _COUNT


class Data(NamedTuple):
    """Columns of mechanism data (Prop) in nodes, sorted by mechanism, then by node."""

    node: np.ndarray  # index among the nodes
    depth: np.ndarray  # position in the node's list
    type_: np.ndarray  # the mechanism's number
    row: np.ndarray  # address of the row number
    places: np.ndarray  # address of the dparam slots

    def of(self, type_: int) -> Data:
        begin, end = np.searchsorted(self.type_, np.array([type_, type_ + 1], self.type_.dtype))
        return Data(*(column[begin:end] for column in self))

    def types(self) -> list[int]:
        """Return the mechanisms in the order of their first occurrence."""
        numbers, first = np.unique(self.type_, return_index=True)
        return numbers[np.lexsort((self.depth[first], self.node[first]))].tolist()


def find_fields(memory: NeuronMemory) -> Fields:
    """Find the offsets by known values of example sections; OSError if these are not found."""
    try:
        return _fields_of_example(memory, all_sections()[0], _parent_word(memory))
    except (ValueError, IndexError, StopIteration):
        raise OSError("sections are not as expected") from None


def _parent_word(memory: NeuronMemory) -> int:
    for section in all_sections():
        at = section.parentseg()
        if at is not None:
            words = raw.words_at(memory.object_of(section), _SECTION)
            return words.index(memory.object_of(at.sec))
    return -1


def _only(places: Iterable[int]) -> int:
    (place,) = places
    return place


def _fields_of_example(memory: NeuronMemory, section: Section, parent: int) -> Fields:
    pointer = ctypes.c_void_p
    node_at = memory.function("_Z10node_exactP7Sectiond", pointer, pointer, ctypes.c_double)
    data_at = memory.function("_Z13nrn_mechanismiP4Node", pointer, ctypes.c_int, pointer)
    type_of = memory.function("_Z23_nrn_mechanism_get_typeP4Prop", ctypes.c_int, pointer)
    places = memory.function("_Z28_nrn_mechanism_access_dparamP4Prop", pointer, pointer)
    address, nseg = memory.object_of(section), int(section.nseg)
    far = 1.0 - float(section.orientation())
    segments = [node_at(address, (k + 0.5) / nseg) for k in range(nseg)]
    nodes = [*(segments if far else segments[::-1]), node_at(address, far)]  # from the parent on
    words, readable = raw.words_at(address, _SECTION), raw.Readable(8 * (nseg + 1))
    likely = (k for k, w in enumerate(words) if readable.likely(w))
    at_nodes = next(k for k in likely if raw.words_at(words[k], nseg + 1) == nodes)
    counts = [half & _COUNT for half in raw.halves(words)]
    node, segment = nodes[0], next(iter(section)) if far else list(section)[-1]
    of_node = raw.words_at(node, _NODE)
    most = ctypes.c_int.from_address(memory.address("n_memb_func")).value
    addresses = [*filter(None, map(data_at, range(most), [node] * most))]
    ri = np.array([1.0 / segment.ri()]).view(np.uint64)[0]
    following = [raw.words_at(data, _DATA) for data in addresses]
    kinds = [[half & _COUNT for half in raw.halves(words)] for words in following]
    every = tuple(map(type_of, addresses))
    rows = memory.place(raw.ref(segment, "diam")).row
    of_morphology = next(w for w in following if rows in w)
    row_of_data = of_morphology.index(rows)
    (offset,) = {places(data) - data for data in addresses}
    return Fields(
        parent=parent,
        count_half=counts.index(nseg + 1, 1),
        nodes=at_nodes,
        parent_node=words.index(node_at(address, 1.0 - far)),
        row=of_node.index(memory.place(raw.ref(segment, "v")).row),
        rinv=_only(k for k, w in enumerate(of_node) if abs(int(w) - int(ri)) <= 1),
        data=_only(k for k, w in enumerate(of_node) if w in addresses),
        next=_only(k for k in range(_DATA) if any(words[k] in addresses for words in following)),
        type_half=next(k for k, kind in enumerate(zip(*kinds, strict=True)) if kind == every),
        row_of_data=row_of_data,
        places=offset // 8,
        is_point=memory.are_points(),
    )


class DataColumns:
    """Find the columns of variables, which hold the values of all instances of one mechanism.

    `things`: NEURON's objects for the instances; `rows`: addresses of row numbers, (k,) int64.
    """

    def __init__(self, memory: NeuronMemory, things: Sequence[Hoc], rows: np.ndarray) -> None:
        self._memory, self._things, self.rows = memory, things, rows
        self._numbers: np.ndarray | None = None
        self._places: dict[tuple[str, int | None], raw.Place | None] = {}

    def every(self, ranges: Mapping[str, int]) -> dict[str, int]:
        """Return all columns of the mechanism by name; see `NeuronMemory.columns_of`."""
        return self._memory.columns_of(self._things[0], ranges)

    def refresh(self) -> None:
        """Read the row numbers again, because NEURON sorts columns when a model changes."""
        self._numbers = None

    def find(self, name: str, place: int | None) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the column of `name` and each instance's index; None if hoc's values differ."""
        key = name, place
        if key not in self._places:
            self._places[key] = self._look_up(name, place)
        at = self._places[key]
        if at is None:
            return None
        number = self.numbers() * at.size + (at.place if place is None else place)
        return column_at(at.column, number), number

    def _look_up(self, name: str, place: int | None) -> raw.Place | None:
        if not len(self.rows):
            return None
        at = self._memory.known_place(self._things[0], name, 1 if place is None else 2)
        if at is None or not at.row or at.row != self.rows[0]:
            return None
        number = self.numbers() * at.size + (at.place if place is None else place)
        column = column_at(at.column, number)
        for k in {0, len(number) // 2, len(number) - 1}:
            seen = getattr(self._things[k], name)
            seen = seen if place is None else seen[place]
            if not np.array_equal(column[number[k]], seen, equal_nan=True):
                return None
        return at

    def numbers(self) -> np.ndarray:
        if self._numbers is None:
            self._numbers = raw.gather(self.rows)[:, 0].view(np.int64)
        return self._numbers


def column_at(address: int, number: np.ndarray) -> np.ndarray:
    """Return the column behind the pointer at `address`, up to the index max(`number`)."""
    kind = ctypes.c_double * (int(number.max()) + 1)
    return np.frombuffer(memoryview(kind.from_address(raw.WORD.from_address(address).value)))
