"""The compartments of all sections, as NEURON connects them.

Each section has a node for each segment. At its end away from its parent, and at the end 0 of a
root section, NEURON has a node without membrane. It has the voltage of the segment beside it where
no section and no point process is there; it is left out then: solving for it would round the
membrane of a small segment beside a large axial conductance. A section starts at the node of its
parent's segment; at the near end of a section that is not a root this is the node where that
section itself starts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clhines.errors import InputError
from clhines.neuron.memory.session import Hoc, Section, Segment

_EQUAL = 1e-9  # mV: voltages of nodes that differ by rounding
CAPACITANCE = 1e-5  # µF/cm² times µm² in nF


@dataclass(frozen=True, eq=False)
class Tree:
    """All nodes of a model, cell after cell.

    Attributes
    ----------
    sections : tuple of Section
        Parents before children, cell after cell.
    first : dict of Section -> int
        Node of the segment that is next to the parent.
    reversed_sections : set of Section
        Those whose end 1 is at the parent.
    begin, end : dict of Section -> int
        Node at which the section starts, one of its parent's or the root; node of its other end.
    parent, cell_offsets : int64 arrays
    area : (n,) float64, µm²
    g_axial : (n,) float64, µS
    capacitance : (n,) float64, nF
    diam : (n,) float64, µm
    """

    sections: tuple[Section, ...]
    first: dict[Section, int]
    reversed_sections: set[Section]
    begin: dict[Section, int]
    end: dict[Section, int]
    parent: np.ndarray
    cell_offsets: np.ndarray
    area: np.ndarray
    g_axial: np.ndarray
    capacitance: np.ndarray
    diam: np.ndarray

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.parent)

    def nodes(self, section: Section) -> np.ndarray:
        """(nseg,) int64: nodes of the segments of a section, from its end 0 to its end 1."""
        numbers = self.first[section] + np.arange(section.nseg)
        return numbers[::-1] if section in self.reversed_sections else numbers

    def node(self, section: Section, x: float) -> int:
        """Node at a place of a section."""
        near = 1.0 if section in self.reversed_sections else 0.0
        if x == near:
            return self.begin[section]
        if x in (0.0, 1.0):
            return self.end[section]
        return int(self.nodes(section)[min(int(x * section.nseg), section.nseg - 1)])

    def at(self, segment: Segment) -> int:
        """Node of a segment."""
        if segment.sec not in self.first:
            raise InputError(f"{segment} is of no section of the model")
        return self.node(segment.sec, segment.x)


def _order(h: Hoc) -> list[list[Section]]:
    """Return the sections of each cell, parents before children."""
    every = list(h.allsec())
    children: dict[Section, list[Section]] = {}
    roots = []
    for section in every:
        at = section.parentseg()
        if at is None:
            roots.append(section)
        else:
            children.setdefault(at.sec, []).append(section)
    cells = []
    for root in roots:
        cell, todo = [], [root]
        while todo:
            section = todo.pop()
            cell.append(section)
            todo += reversed(children.get(section, []))
        cells.append(cell)
    return cells


class _Ends:
    """Which ends of sections need a node.

    Parameters
    ----------
    h : Hoc
    cells : list of list of Section
    """

    def __init__(self, h: Hoc, cells: list[list[Section]]) -> None:
        starts = (section.parentseg() for cell in cells for section in cell)
        self._joined = {(at.sec, at.x) for at in starts if at is not None and at.x in (0.0, 1.0)}
        self._all = bool(h.CVode().use_fast_imem())  # their membranes' currents are 0

    def is_bare(self, section: Section, x: float) -> bool:
        """Whether nothing is at an end, which has the voltage of the segment beside it."""
        if self._all or (section, x) in self._joined:
            return False
        end = section(x)
        beside = section(abs(x - 0.5 / section.nseg))
        return abs(end.v - beside.v) <= _EQUAL and not end.point_processes()


def read_tree(h: Hoc) -> Tree:
    """Read the compartments of all sections.

    Raises
    ------
    InputError
        There are no sections.
    """
    cells = _order(h)
    if not cells:
        raise InputError("NEURON has no sections; expected a model in its memory")
    bare = _Ends(h, cells)
    first: dict[Section, int] = {}
    begin: dict[Section, int] = {}
    end: dict[Section, int] = {}
    turned: set[Section] = set()
    parent: list[int] = []
    columns: list[tuple[float, float, float, float]] = []
    offsets = [0]
    tree = Tree((), first, turned, begin, end, *(np.zeros(0) for _ in range(6)))
    for cell in cells:
        for section in cell:
            at, near = section.parentseg(), float(section.orientation())
            if near:
                turned.add(section)
            before = -1 if at is None else tree.node(at.sec, at.x)
            if at is None and not bare.is_bare(section, near):
                before = len(parent)
                parent.append(-1)
                columns.append((0.0, 0.0, 0.0, 0.0))
            first[section] = len(parent)
            begin[section] = before if before >= 0 else first[section]
            rows = _columns(section, section in turned)
            if bare.is_bare(section, 1.0 - near):
                rows.pop()
            if before < 0:  # a root
                area, _, cm, diam = rows[0]
                rows[0] = area, 0.0, cm, diam
            end[section] = first[section] + len(rows) - 1
            parent += [before, *range(first[section], end[section])]
            columns += rows
        offsets.append(len(parent))
    area, g, cm, diam = np.array(columns).T
    return Tree(
        tuple(s for cell in cells for s in cell),
        first,
        turned,
        begin,
        end,
        np.array(parent, np.int64),
        np.array(offsets, np.int64),
        area,
        g,
        CAPACITANCE * cm * area,
        diam,
    )


def _columns(section: Section, turned: bool) -> list[tuple[float, float, float, float]]:
    """Area, axial conductance, cm and diam of the nodes that a section adds."""
    segments = list(section)
    end = section(0.0) if turned else section(1.0)
    rows = [(s.area(), 1.0 / s.ri(), s.cm, s.diam) for s in segments]
    if turned:
        rows.reverse()
    return [*rows, (0.0, 1.0 / end.ri(), 0.0, 0.0)]
