"""Cable: from a morphology to compartments and to the matrix for a backward-Euler step.

The discretisation is NEURON's (Hines and Carnevale 1997). A cell is cut into *sections*, unbranched
chains of 3-D points joined by frusta; a section into `nseg` segments of equal length. Each segment
is a node with its surface piece's area; the axial resistance between their centres joins two nodes.
As in NEURON, 3-D points are in single precision and everything computed from them in double
precision. `simulator.cells.sections` describes sections, the soma, and differences from NEURON's
SWC importer.

Units are NEURON's: lengths, diameters and positions in µm, areas in µm², `Ra` in Ω·cm, `cm` in
µF/cm², `g_pas` in S/cm², voltages in mV, times in ms, point currents in nA; so node capacitances
are in nF, node conductances and matrix entries in µS. Samples are assumed to be in µm, whatever a
file's header says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.arrays import climb, starts
from clhines.core.checks import as_array, as_indices, as_real, as_text, shown
from clhines.core.errors import InputError
from clhines.core.files import PathLike
from clhines.core.summary import range_text
from clhines.simulator.cells.morphology import Morphology
from clhines.simulator.cells.sections import Sections, as_positive, per_section, sections_of
from clhines.simulator.common.checks import unchangeable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# SWC type codes; `dend` and `apic` are the names in NEURON's importer.
REGIONS = {"axon": 2, "basal": 3, "dend": 3, "apical": 4, "apic": 4}
WORDS = ("soma", "dendrites", "all", *REGIONS)
NAMES = {1: "soma", 2: "axon", 3: "basal", 4: "apical"}


def in_region(word: object, area: np.ndarray, in_soma: np.ndarray, type_: np.ndarray) -> np.ndarray:
    """Return which nodes have membrane in a region, (n,) bool; ``dendrites`` include axons."""
    if not isinstance(word, str) or word not in WORDS:
        raise InputError(f"at={shown(word)}; expected {', '.join(WORDS)}")
    membrane = area > 0
    if word == "all":
        return membrane
    if word == "soma":
        return in_soma
    if word == "dendrites":
        return membrane & ~in_soma
    return membrane & ~in_soma & (type_ == REGIONS[word])


def path_distance(parent: np.ndarray, to_parent: np.ndarray, origin: int) -> np.ndarray:
    """Return the path length from `origin` to each node, (n,) float64.

    `to_parent` is the length from each node to its parent. The path from a node climbs until it
    meets the path from `origin` to the root: in the chain 0-1-2 with a branch 1-3 and origin 2, the
    path from node 3 meets it at node 1.
    """
    _, depth = climb(parent, to_parent)
    on_way = np.zeros(len(parent), bool)
    node = origin
    while node >= 0:
        on_way[node] = True
        node = int(parent[node])
    meets, length = climb(np.where(on_way, -1, parent), np.where(on_way, 0.0, to_parent))
    return length + np.abs(depth[origin] - depth[meets])


def areas_and_resistances(
    sections: Sections, nseg: np.ndarray, Ra: float | np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each segment's area, µm², and the axial resistances of both its halves, MΩ.

    A section's 3-D points and its segments' centres and ends, sorted by arc length, cut the section
    into pieces. Each piece lies in one frustum and in one half of a segment. Areas and resistances
    are sums over pieces.

        points     |-----|-----------|-------|
        cuts       |    .    |    .    |   .  |     . centre, | end
    """
    arc, diameter = sections.arc, sections.points[:, 3].astype(np.float64)
    section, cut = _cuts(sections, nseg)
    point_section = np.repeat(np.arange(sections.num_sections), np.diff(sections.offsets))
    all_section = np.concatenate([point_section, section])
    all_arc = np.concatenate([arc, cut])
    order = np.lexsort((all_arc, all_section))
    is_point = order < len(arc)
    all_section, all_arc = all_section[order], all_arc[order]

    piece = np.flatnonzero(all_section[1:] == all_section[:-1])  # from each entry to the next
    begin, end = all_arc[piece], all_arc[piece + 1]
    frustum = (np.cumsum(is_point) - 1)[piece]
    half = (np.cumsum(~is_point) + all_section)[piece]  # a section has one cut less than halves
    height = arc[frustum + 1] - arc[frustum]
    d0, d1 = diameter[frustum], diameter[frustum + 1]
    # Without height (coincident points, or lost to rounding in the sum) it is a ring.
    solid = height > 0
    f0 = np.divide(begin - arc[frustum], height, out=np.zeros_like(height), where=solid)
    f1 = np.divide(end - arc[frustum], height, out=np.ones_like(height), where=solid)
    d0, d1 = (1 - f0) * d0 + f0 * d1, (1 - f1) * d0 + f1 * d1

    dx = end - begin
    ra = Ra[all_section[piece]] if isinstance(Ra, np.ndarray) else Ra
    num = 2 * int(nseg.sum())
    area = np.pi / 2 * (d0 + d1) * np.hypot(dx, (d1 - d0) / 2)
    with np.errstate(divide="ignore"):
        each = np.divide(0.01 * ra * 4 / np.pi * dx, d0 * d1, out=np.zeros_like(dx), where=dx > 0)
    ohmic = np.bincount(half, each, minlength=num)
    return np.bincount(half // 2, area, minlength=num // 2), ohmic[0::2], ohmic[1::2]


def _cuts(sections: Sections, nseg: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the section and arc length, µm, of segments' centres and of points where two meet."""
    counts = 2 * nseg - 1
    section = np.repeat(np.arange(sections.num_sections), counts)
    k = 1 + np.arange(len(section)) - starts(counts)[section]
    ds = (sections.length / nseg)[section]
    return section, (k // 2) * ds + (k % 2) * (ds / 2)


def centres(
    sections: Sections, nseg: np.ndarray, first: np.ndarray, junction: np.ndarray, num_nodes: int
) -> np.ndarray:
    """Return each node's position on its section's axis, (num_nodes, 3) float64, µm.

    `first` and `junction` are from `_first_nodes`.
    """
    xyz = sections.points[:, :3].astype(np.float64)
    centre = np.empty((num_nodes, 3))
    centre[0] = xyz[0]  # the root junction, if there is one
    ends = junction >= 0
    centre[junction[ends]] = xyz[sections.offsets[1:][ends] - 1]
    for s, (begin, stop) in enumerate(
        zip(sections.offsets[:-1], sections.offsets[1:], strict=True)
    ):
        x = (np.arange(nseg[s]) + 0.5) * (sections.length[s] / nseg[s])
        nodes = slice(first[s], first[s] + nseg[s])
        for axis in range(3):
            centre[nodes, axis] = np.interp(x, sections.arc[begin:stop], xyz[begin:stop, axis])
    return centre


@dataclass(frozen=True, eq=False)
class Axis:
    """Lengths and neighbours of a cell's segments, for diffusion along the cell.

    As in NEURON, a substance diffuses between a node and the first one of ``before[:, node]`` that
    has the mechanism. These are the parent and, for a section's first segment, the parent's parent
    and the parent section's first segment; -1 if there is none.
    """

    length: np.ndarray  # (n,) float64, µm, each segment's length
    before: np.ndarray  # (3, n) int64

    @classmethod
    def joined(cls, parts: Sequence[Axis]) -> Axis:
        first = starts(np.array([len(part.length) for part in parts], np.int64))
        before = [
            np.where(p.before < 0, -1, p.before + k) for p, k in zip(parts, first, strict=True)
        ]
        return cls(np.concatenate([p.length for p in parts]), np.concatenate(before, axis=1))

    @classmethod
    def of(
        cls, parent: np.ndarray, section: np.ndarray, length: np.ndarray, first_above: np.ndarray
    ) -> Axis:
        """Make a cell's axis.

        Each section has the `length` of its segments, and `first_above`, its parent's first
        segment.
        """
        is_first = (parent >= 0) & (section[parent] != section)
        others = np.stack([parent[parent], first_above[section]])
        before = np.concatenate([parent[None], np.where(is_first, others, -1)])
        return cls(length[section], before.astype(np.int64))


@unchangeable("discretise() with other arguments")
@dataclass(frozen=True, eq=False)
class Cable:
    """One cell as nodes: the segments of its sections, and junctions.

    A *junction* is a node without area that joins sections, as in NEURON: at the end of a section
    with children, after the section's segments; and at the beginning of the root section if other
    sections begin there, too (node 0). Other ends of sections have no node, since no current flows
    through them: their voltage equals the last segment's.

    Attributes
    ----------
    parent : (n,) int32
        Parent node, -1 at the root, which is node 0; parents before children.
    area : (n,) float64, µm²
        Membrane area, 0 at junctions.
    g_axial : (n,) float64, µS
        Conductance to the parent node, 0 at the root.
    xyz : (n, 3) float64, µm
        Centre of each node, on the axis.
    section : (n,) int32
        Number of the section in `sections`.
    soma : int
        Node in the middle of the soma's first section, section 0; without a soma, the first segment
        of section 0.
    sections : Sections
    nseg : (num_sections,) int64
        Segments of each section.
    Ra : float or (num_sections,) float64, Ω·cm
        Axial resistivity.
    cm : float or (num_sections,) float64, µF/cm²
        Specific membrane capacitance.
    name : str
        Name of the morphology.
    """

    parent: np.ndarray
    area: np.ndarray
    g_axial: np.ndarray
    xyz: np.ndarray
    section: np.ndarray
    soma: int
    sections: Sections
    nseg: np.ndarray
    Ra: float | np.ndarray
    cm: float | np.ndarray
    name: str = "cell"

    def __repr__(self) -> str:
        nodes = f"{self.num_nodes} nodes in {self.sections.num_sections} sections"
        values = f"Ra {range_text(self.Ra)} Ω·cm, cm {range_text(self.cm)} µF/cm²"
        area = f"{self.area.sum():.5g} µm²"
        return f"Cable({self.name}: {nodes} ({self._regions()}); {values}; {area})"

    def _regions(self) -> str:
        types, counts = np.unique(self.sections.type, return_counts=True)
        kinds = zip(types.tolist(), counts.tolist(), strict=True)
        return ", ".join(f"{NAMES.get(t, f'type {t}')} {count}" for t, count in kinds)

    def plot(
        self,
        values: ArrayLike | None = None,
        label: str = "",
        ax: Axes | None = None,
        path: PathLike | None = None,
    ) -> Figure:
        """Draw the cell, coloured by values at its nodes; see `analysis.draw.plot_morphology`.

        `values` are (n,), or (k, n) for k pictures; default: the distance from the soma. `label`
        names the quantity and its unit.
        """
        from clhines.simulator.analysis import draw

        label = as_text("label", label)
        if values is None:
            values, label = self.distance, label or "distance from the soma [µm]"
        return draw.plot_morphology(self, values, label, ax=ax, path=path)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.parent)

    @cached_property
    def in_soma(self) -> np.ndarray:
        """Whether each node is a segment of the soma, (n,) bool."""
        return self.sections.soma[self.section] & (self.area > 0)

    @cached_property
    def capacitance(self) -> np.ndarray:
        """Each node's capacitance, (n,) float64, nF; 0 at junctions."""
        cm = self.cm[self.section] if isinstance(self.cm, np.ndarray) else self.cm
        return 1e-5 * cm * self.area

    @cached_property
    def g_total(self) -> np.ndarray:
        """Sum of the axial conductances at each node, (n,) float64, µS."""
        total = self.g_axial.copy()
        child = np.flatnonzero(self.parent >= 0)
        up = self.parent[child]
        return total + np.bincount(up, weights=self.g_axial[child], minlength=self.num_nodes)

    @cached_property
    def first_node(self) -> np.ndarray:
        """Each section's first node, (num_sections,) int64; its other segments follow."""
        return _first_nodes(self.sections, self.nseg)[0]

    @cached_property
    def axis(self) -> Axis:
        """Lengths and neighbours of the cell's segments."""
        up, each = self.sections.parent, self.sections.length / self.nseg
        above = np.where(up < 0, -1, self.first_node[up])
        return Axis.of(self.parent, self.section, each, above)

    @cached_property
    def type(self) -> np.ndarray:
        """The SWC type of each node's section, (n,) int64: 1 soma, 2 axon, 3 basal, 4 apical."""
        return self.sections.type[self.section]

    @cached_property
    def distance(self) -> np.ndarray:
        """Path length from node `soma` to each node, along the axis, (n,) float64, µm."""
        half = (self.sections.length / self.nseg)[self.section] / 2
        _, junction = _first_nodes(self.sections, self.nseg)
        length = 2 * half
        ends = np.concatenate([self.first_node, junction[junction >= 0]])
        length[ends] = half[ends]
        length[self.parent < 0] = 0.0
        return path_distance(self.parent, length, self.soma)

    def nodes(self, at: str = "all") -> np.ndarray:
        """Return the nodes with membrane in a region, (m,) int64.

        Parameters
        ----------
        at : "all", "soma", "dendrites", "axon", "basal" or "dend", "apical" or "apic"
            ``dendrites`` is everything except the soma, axons included; the last three use the
            file's types. For other types: ``np.flatnonzero(cable.type == 7)``.
        """
        return np.flatnonzero(in_region(at, self.area, self.in_soma, self.type))

    def node(self, section: ArrayLike, x: ArrayLike) -> int | np.ndarray:
        """Return the node at a position of a section, as NEURON numbers positions.

        Parameters
        ----------
        section : int or (m,) integer
            Number of the section in `sections`.
        x : float or (m,), 0 to 1
            0 is the node to which the section is connected; 1 the junction at its end, or without
            children the last segment, which has the same voltage.

        Returns
        -------
        int or (m,) int64
        """
        s = as_indices("section", section, len(self.nseg), "section")
        at = as_real("x", np.atleast_1d(as_array("x", x)))
        outside = at[(at < 0) | (at > 1)]
        if len(outside):
            raise InputError(f"x is {outside[0]:g}; expected 0 to 1")
        if len(s) != len(at) and 1 not in (len(s), len(at)):
            raise InputError(f"x has shape {at.shape}; expected {s.shape}, like section")
        s, at = np.broadcast_arrays(s, at)
        first, junction = _first_nodes(self.sections, self.nseg)
        node = first[s] + np.minimum((at * self.nseg[s]).astype(np.int64), self.nseg[s] - 1)
        node = np.where((at == 1) & (junction[s] >= 0), junction[s], node)
        node = np.where((at == 0) & (self.parent[first[s]] >= 0), self.parent[first[s]], node)
        return int(node[0]) if np.ndim(section) == np.ndim(x) == 0 else node

    def system(
        self, dt: float, g_pas: float | np.ndarray = 1e-4, e_pas: float | np.ndarray = -65.0
    ) -> System:
        """Make the linear system of a backward-Euler step with a passive membrane.

        Parameters
        ----------
        dt : float, ms
        g_pas : float or (n,) float64, S/cm²
            Membrane conductance, 0 or more.
        e_pas : float or (n,) float64, mV
            Reversal potential.

        Returns
        -------
        System
        """
        dt = as_positive("dt", dt, "ms")
        g, e = as_real("g_pas", g_pas, "S/cm2"), as_real("e_pas", e_pas, "mV")
        for name, array in (("g_pas", g), ("e_pas", e)):
            if array.shape not in ((), (self.num_nodes,)):
                got = f"has shape {array.shape}"
                expected = f"a finite number or one for each of {self.num_nodes} nodes"
                raise InputError(f"{name} {got}, expected {expected}")
        if (g < 0).any():
            raise InputError(f"g_pas is {g.min():g}, expected 0 or more (S/cm²)")
        leak = 1e-2 * g * self.area
        over_dt = self.capacitance / dt
        return System(
            d=over_dt + leak + self.g_total,
            u=-self.g_axial,
            capacitance_over_dt=over_dt,
            constant=leak * e,
        )


@dataclass(frozen=True, eq=False)
class System:
    """The linear system ``A v(t + dt) = b`` of one backward-Euler step of one cell.

    Arrays are (n,) float64. `d`, µS: the diagonal, the sum of capacitance / dt, membrane
    conductance and all axial conductances. `u`, µS: minus the axial conductance to the parent, 0 at
    the root. `constant`, nA: membrane conductance times reversal potential.
    """

    d: np.ndarray
    u: np.ndarray
    capacitance_over_dt: np.ndarray
    constant: np.ndarray

    def rhs(self, v: np.ndarray, current: float | np.ndarray = 0.0) -> np.ndarray:
        """Return the right-hand side ``capacitance_over_dt * v + constant + current``.

        Parameters
        ----------
        v : (n,) or (k, n) float64, mV
            Voltages at t.
        current : float or array that broadcasts with `v`, nA
            Point currents into the nodes at t + dt; positive ones depolarise.

        Returns
        -------
        like `v`, float64, nA

        Raises
        ------
        InputError
            Wrong shapes, or not numbers.
        """
        n = len(self.d)
        volts, amperes = as_real("v", v, "mV"), as_real("current", current, "nA")
        if volts.ndim not in (1, 2) or volts.shape[-1] != n:
            raise InputError(f"v has shape {volts.shape}, expected ({n},) or (k, {n})")
        if amperes.shape not in ((), (n,), volts.shape):
            raise InputError(
                f"current has shape {amperes.shape}, expected (), ({n},) or the shape of v"
            )
        return self.capacitance_over_dt * volts + self.constant + amperes


def discretise(
    morphology: Morphology | Sections,
    max_length: float | None = None,
    d_lambda: float = 0.1,
    Ra: float | np.ndarray = 100.0,
    cm: float | np.ndarray = 1.0,
    nseg: int | np.ndarray | None = None,
) -> Cable:
    """Cut a cell into compartments, by length, by the d_lambda rule or by number.

    Sections are those of NEURON's SWC importer, except for the differences in
    `simulator.cells.sections`; areas and axial resistances are NEURON's.

    Parameters
    ----------
    morphology : Morphology or Sections
    max_length : float, optional, µm
        Longest segment; each section gets as few segments as possible (in a soma, an odd number).
        Default: the d_lambda rule.
    d_lambda : float
        Longest segment in units of the length constant at 100 Hz; not used with `max_length`.
    Ra : float or (num_sections,), Ω·cm
        Axial resistivity of all sections, or of each section of ``sections_of(morphology)``.
    cm : float or (num_sections,), µF/cm²
        Specific membrane capacitance.
    nseg : int or (num_sections,) integer, optional
        Segments of all sections or of each one, instead of both rules; odd in a soma.

    Returns
    -------
    Cable

    Raises
    ------
    CableError
        The morphology cannot be discretised; the message names file, line, sample and value.
    InputError
        An argument is not positive, or the cell would have more than 1,048,576 segments,
        `sections.MAX_SEGMENTS`.
    """
    if not isinstance(morphology, (Morphology, Sections)):
        raise InputError(
            f"morphology is {type(morphology).__name__}; expected a Morphology from read_swc()"
        )
    sections = morphology if isinstance(morphology, Sections) else sections_of(morphology)
    Ra, cm = (
        per_section(name, value, sections.num_sections, unit)
        for name, value, unit in (("Ra", Ra, "ohm cm"), ("cm", cm, "uF/cm2"))
    )
    if nseg is not None:
        counts = _checked_nseg(sections, nseg)
    elif max_length is None:
        counts = sections.nseg_by_lambda(d_lambda, Ra, cm)
    else:
        counts = sections.nseg_by_length(max_length)
    return _assemble(sections, counts, Ra, cm)


discretize = discretise


def _checked_nseg(sections: Sections, nseg: int | np.ndarray) -> np.ndarray:
    counts = as_array("nseg", nseg)
    if not counts.ndim:
        counts = np.full(sections.num_sections, counts)
    if counts.shape != (sections.num_sections,) or counts.dtype.kind not in "iu":
        raise InputError(
            f"nseg has shape {counts.shape} and dtype {counts.dtype}; expected a whole number for "
            f"each of {sections.num_sections} sections"
        )
    if counts.min() < 1:
        raise InputError(f"nseg of section {counts.argmin()} is {counts.min()}; expected 1 or more")
    even = np.flatnonzero(sections.needs_middle & (counts % 2 == 0))
    if len(even):
        s = int(even[0])
        raise InputError(f"nseg of section {s}, a soma, is {counts[s]}; expected an odd number")
    return sections.checked_counts(counts.astype(np.float64))


def _assemble(
    sections: Sections, nseg: np.ndarray, Ra: float | np.ndarray, cm: float | np.ndarray
) -> Cable:
    first, junction = _first_nodes(sections, nseg)
    num_nodes = int(first[-1] + nseg[-1] + (junction[-1] >= 0))
    segment_section = np.repeat(np.arange(sections.num_sections), nseg)
    segment = np.arange(len(segment_section)) - starts(nseg)[segment_section]
    node = first[segment_section] + segment
    area, left, right = areas_and_resistances(sections, nseg, Ra)

    parent = np.arange(-1, num_nodes - 1, dtype=np.int32)
    parent[first] = _node_above(sections, nseg, first, junction)
    resistance = np.zeros(num_nodes)  # MΩ, to the parent
    resistance[node] = left
    follows = segment > 0
    resistance[node[follows]] += right[np.flatnonzero(follows) - 1]
    ends = junction >= 0
    resistance[junction[ends]] = right[(np.cumsum(nseg) - 1)[ends]]
    g_axial = np.zeros(num_nodes)
    np.divide(1.0, resistance, out=g_axial, where=parent >= 0)

    node_area = np.zeros(num_nodes)
    node_area[node] = area
    section = np.zeros(num_nodes, dtype=np.int32)
    section[node] = segment_section
    section[junction[ends]] = np.flatnonzero(ends)
    return Cable(
        parent=parent,
        area=node_area,
        g_axial=g_axial,
        xyz=centres(sections, nseg, first, junction, num_nodes),
        section=section,
        soma=int(first[0] + (nseg[0] // 2 if sections.has_soma else 0)),
        sections=sections,
        nseg=nseg,
        Ra=Ra,
        cm=cm,
        name=sections.name,
    )


def _first_nodes(sections: Sections, nseg: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    up, x = _joints(sections)
    has_junction = np.zeros(sections.num_sections, dtype=bool)
    has_junction[up[x == 1.0]] = True
    count = nseg + has_junction
    first = int(_has_root_junction(sections)) + np.cumsum(count) - count
    return first, np.where(has_junction, first + nseg, -1)


def _joints(sections: Sections) -> tuple[np.ndarray, np.ndarray]:
    """Return the section to which each section is connected, and the position there, 0 to 1.

    A section at the beginning of section s is connected where s itself is connected.
    """
    up, x = sections.parent.copy(), sections.parent_x.copy()
    while (at_begin := (x == 0.0) & (up > 0)).any():
        up[at_begin], x[at_begin] = up[up[at_begin]], x[up[at_begin]]
    return up, x


def _has_root_junction(sections: Sections) -> bool:
    return bool((_joints(sections)[1][1:] == 0.0).any())


def _node_above(
    sections: Sections, nseg: np.ndarray, first: np.ndarray, junction: np.ndarray
) -> np.ndarray:
    up, x = _joints(sections)
    above = np.where(x == 1.0, junction[up], np.where(x == 0.5, first[up] + nseg[up] // 2, 0))
    above[0] = 0 if _has_root_junction(sections) else -1
    return above


def check_cables(cables: object) -> list[Cable]:
    if isinstance(cables, Cable | Morphology):
        cables = [cables]
    if not isinstance(cables, Iterable) or isinstance(cables, np.ndarray):
        raise InputError(f"cables is {type(cables).__name__}; expected a Cable, or several")
    checked = list(cables)
    for k, cable in enumerate(checked):
        if not isinstance(cable, Cable):
            raise InputError(
                f"cables[{k}] is {type(cable).__name__}; expected a Cable from discretise()"
            )
    if not checked:
        raise InputError("got no cables; expected at least one")
    return checked
