"""The compartments of all sections, as NEURON connects them.

NEURON has a node without membrane at the far end of a section, and at the end 0 of a root. If no
section and no point process is attached there, it is left out, because solving for it would lose
digits of a small segment beside a large axial conductance. A section starts at the node of its
parent's segment; at the near end of a parent that is no root, at the node where the parent starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from clhines.core.arrays import place_of, starts
from clhines.core.errors import InputError
from clhines.neuron.memory.fields import Data, Fields, column_at
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.raw import gather, ref
from clhines.neuron.memory.session import Hoc, Section, Segment, all_sections
from clhines.simulator.network import Axis

_EQUAL = 1e-9  # mV: tolerance for equal voltages
CAPACITANCE = 1e-5  # µF/cm² times µm² in nF
CONDUCTANCE = 1e-2  # S/cm² times µm² in µS


@dataclass(frozen=True, eq=False)
class TreeLayers:
    """Nodes that represent extracellular layers around other nodes (`extracellular.layers`)."""

    around: np.ndarray  # (n,) int64: see `Network.from_arrays`, also for `g`
    g: np.ndarray  # µS
    addresses: np.ndarray  # (k,) uint64: where NEURON has vext, section ends included
    numbers: np.ndarray  # (k,) int64: nodes at these addresses

    def at(self, nodes: np.ndarray, layer: int = -1) -> np.ndarray:
        """Return the nodes in a layer around inner nodes; -1 is the outermost layer."""
        at = self.around[nodes]
        while layer and (self.around[at] >= 0).all():
            at, layer = self.around[at], layer - 1
        return at


@dataclass(eq=False)
class Tree:
    """All nodes of a model, cell after cell, parents before children."""

    order: np.ndarray  # each section's index in `all_sections()`
    nseg: np.ndarray
    turned: np.ndarray  # whether its end 1 is at the parent
    begin: np.ndarray  # node at which the section starts: its parent's or the root
    end: np.ndarray  # node at its other end
    parent: np.ndarray
    cell_offsets: np.ndarray
    area: np.ndarray  # µm²
    g_axial: np.ndarray  # µS
    capacitance: np.ndarray  # nF
    diam: np.ndarray  # µm
    inner: np.ndarray  # addresses of NEURON's nodes with membrane, each section from end 0 to 1
    inner_numbers: np.ndarray  # for each of `inner`, our node
    v: int  # NEURON's voltage column, as an address
    addresses: np.ndarray  # all NEURON nodes, ascending
    numbers: np.ndarray  # for each of `addresses`, our node with its voltage
    layers: TreeLayers | None = None

    @cached_property
    def owner(self) -> np.ndarray:
        """Section of each node, (n,) int64; -1 for nodes of extracellular layers."""
        owner, inner = np.full(self.num_nodes, -1), np.repeat(np.arange(len(self.nseg)), self.nseg)
        owner[self.inner_numbers] = inner
        free = owner[self.end] < 0
        owner[self.end[free]] = np.flatnonzero(free)
        roots = self.cell_offsets[:-1]
        roots = roots[owner[roots] < 0]
        owner[roots] = owner[roots + 1]
        return owner

    @property
    def num_nodes(self) -> int:
        return len(self.parent)

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        every = all_sections()
        return tuple(every[k] for k in self.order.tolist())

    @cached_property
    def _index(self) -> dict[Section, int]:
        return {section: k for k, section in enumerate(self.sections)}

    @cached_property
    def _first_inner(self) -> np.ndarray:
        return starts(self.nseg)

    def forget(self) -> None:
        for name in ("sections", "_index"):
            self.__dict__.pop(name, None)

    def __contains__(self, section: object) -> bool:
        return section in self._index

    def nodes(self, section: Section) -> np.ndarray:
        """Return the nodes of a section's segments, (nseg,) int64, from its end 0 to its end 1."""
        k = self._index[section]
        return self.inner_numbers[self._first_inner[k] :][: self.nseg[k]]

    def at(self, segment: Segment) -> int:
        if segment.sec not in self:
            raise InputError(f"{segment} is in no section of the model")
        k, x = self._index[segment.sec], segment.x
        if x in (0.0, 1.0):
            return int((self.begin if x == self.turned[k] else self.end)[k])
        place = min(int(x * self.nseg[k]), self.nseg[k] - 1)
        return int(self.inner_numbers[self._first_inner[k] + place])

    def near(self) -> np.ndarray:
        """Return the index, among all segments, of each section's one next to its parent, (s,)."""
        return self._first_inner + np.where(self.turned, self.nseg - 1, 0)

    def axis(self) -> Axis:
        """Return lengths and neighbours of segments, for diffusion along sections."""
        section = np.zeros(self.num_nodes, np.int64)
        section[self.inner_numbers] = np.repeat(np.arange(len(self.nseg)), self.nseg)
        each = np.array([s.L for s in self.sections]) / self.nseg
        parents = (s.parentseg() for s in self.sections)
        above = [-1 if at is None else self._index[at.sec] for at in parents]
        first = np.append(self.inner_numbers[self.near()], -1)[above]
        return Axis.of(self.parent, section, each, first)

    def segment(self, place: int) -> Segment:
        k = int(np.searchsorted(self._first_inner, place, side="right")) - 1
        return self.sections[k]((place - self._first_inner[k] + 0.5) / self.nseg[k])

    def numbers_of(self, addresses: np.ndarray) -> np.ndarray:
        """Return the node number at each address of a NEURON node, (k,) int64; -1 for none."""
        at = place_of(self.addresses, addresses, np.arange(len(self.addresses)))
        return np.where(at < 0, -1, self.numbers[at])


def _in_order(memory: NeuronMemory, fields: Fields) -> tuple[list[Section], list[int], np.ndarray]:
    """Return sections, parents first, their indices in `all_sections`, whether each is a root."""
    every = all_sections()
    address = memory.objects_of(every)
    sorted_ = np.argsort(address)
    parent = fields.parents_of(address)
    at = sorted_[np.searchsorted(address[sorted_], parent) % len(every)]
    children: list[list[int]] = [[] for _ in every]
    roots = list[int]()
    for k, (mother, mothers) in enumerate(zip(at.tolist(), parent.tolist(), strict=True)):
        (children[mother] if mothers else roots).append(k)
    order, is_root = list[int](), np.zeros(len(every), bool)
    for root in roots:
        is_root[len(order)] = True
        todo = [root]
        while todo:
            k = todo.pop()
            order.append(k)
            todo += reversed(children[k])
    return [every[k] for k in order], order, is_root


def read_tree(memory: NeuronMemory, fields: Fields) -> tuple[Tree, Data]:
    sections, order, is_root = _in_order(memory, fields)
    count, nodes, start = fields.nodes_of(memory.objects_of(sections))
    nseg, first_node = count - 1, starts(count)
    far = first_node + nseg  # among `nodes`
    is_inner = ~np.isin(np.arange(len(nodes)), far)
    v = memory.place(ref(sections[0](0.5), "v")).column
    keeps = ~_bare(memory.h, fields, v, (nodes[far], nodes[far - 1]), start)
    roots, has_root = (start[is_root], nodes[first_node[is_root]]), np.zeros(len(sections), bool)
    has_root[is_root] = ~_bare(memory.h, fields, v, roots, start[~is_root])
    size = has_root + nseg + keeps
    offset = starts(size)
    first = offset + has_root
    place = np.arange(len(nodes)) - np.repeat(first_node, count)
    numbers = np.repeat(first, count) + place - (~is_inner & ~np.repeat(keeps, count))
    every = np.concatenate([nodes, start[is_root]])
    sorted_ = np.argsort(every)
    every, number_of_every = every[sorted_], np.append(numbers, offset[is_root])[sorted_]
    before = number_of_every[np.searchsorted(every, start)]
    before[is_root & ~has_root] = -1
    parent = np.arange(-1, int(size.sum()) - 1)
    parent[offset[has_root]] = -1
    parent[first] = before
    turned = np.array([s.orientation() for s in sections]) != 0
    upward = _upward(first_node, nseg, turned)
    inner, inner_numbers, data = nodes[upward], numbers[upward], fields.data_of(nodes[upward])
    area, cm, diam = _properties(memory, fields, sections[0], (inner, inner_numbers, data), parent)
    g_axial = np.zeros(len(parent))
    with_node = is_inner | np.repeat(keeps, count)
    g_axial[numbers[with_node]] = fields.g_axial(nodes[with_node])
    g_axial = np.where(parent < 0, 0.0, g_axial)
    ends = np.where(before < 0, first, before), first + nseg - 1 + keeps
    cells = parent, np.append(offset[is_root], len(parent))
    values = area, g_axial, CAPACITANCE * cm * area, diam
    inner_nodes, all_nodes = (inner, inner_numbers), (every, number_of_every)
    of_sections = np.array(order, np.int64), nseg, turned
    return Tree(*of_sections, *ends, *cells, *values, *inner_nodes, v, *all_nodes), data


def _properties(
    memory: NeuronMemory,
    fields: Fields,
    section: Section,
    inner: tuple[np.ndarray, np.ndarray, Data],
    parent: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return areas (µm²), specific capacitances (µF/cm²) and diameters (µm) of compartments.

    `inner`: NEURON's nodes of the segments, their numbers, and the mechanisms' data there.
    """
    nodes, numbers, data = inner
    area, cm, diam = (np.zeros(len(parent)) for _ in range(3))
    area[numbers] = fields.values(memory.area(int(nodes[0])).column, nodes)
    for array, name in ((cm, "cm"), (diam, "diam")):
        place = memory.place(ref(section(0.5), name))
        of_mechanism = data.of(data.type_[np.flatnonzero(data.row == place.row)[0]])
        rows = gather(of_mechanism.row)[:, 0].astype(np.int64)
        array[numbers[of_mechanism.node]] = column_at(place.column, rows)[rows]
    return area, cm, diam


def _upward(first: np.ndarray, nseg: np.ndarray, turned: np.ndarray) -> np.ndarray:
    """Return the index of each segment among NEURON's nodes, in each section from end 0 to end 1.

    NEURON stores the nodes of a section from the parent's end on; the first one has index `first`.
    `turned`: whether the section's end 1 is at its parent.

    >>> _upward(np.array([0, 4]), np.array([3, 2]), np.array([False, True]))
    array([0, 1, 2, 5, 4])
    """
    place = np.arange(int(nseg.sum())) - np.repeat(starts(nseg), nseg)
    backward = np.repeat(nseg, nseg) - 1 - place
    return np.repeat(first, nseg) + np.where(np.repeat(turned, nseg), backward, place)


def _bare(
    h: Hoc, fields: Fields, column: int, ends: tuple[np.ndarray, np.ndarray], joined: np.ndarray
) -> np.ndarray:
    """Return which section ends need no node, because a node would change nothing, (s,) bool.

    Nothing is attached to such an end, and its voltage is its neighbour's. `ends`: NEURON's nodes
    at ends, and beside them; `joined`: nodes at which sections start; `column`: NEURON's voltages.
    """
    if h.secondorder or h.CVode().use_fast_imem():  # needs the difference, or the end's current
        return np.zeros(len(ends[0]), bool)
    v, beside = (fields.values(column, nodes) for nodes in ends)
    has_points = np.zeros(len(ends[0]), bool)
    has_points[fields.data_of(ends[0], points=True).node] = True
    return (np.abs(v - beside) <= _EQUAL) & ~np.isin(ends[0], joined) & ~has_points
