"""Cable: from a morphology to compartments and to the matrix of the backward-Euler step.

The discretisation is NEURON's (Hines and Carnevale 1997): a cell is cut into *sections*, unbranched
chains of 3-D points joined by frusta; a section into `nseg` segments of equal length, each a node
with the area of its piece of the surface; and two nodes are joined by the resistance along the
axis between their centres. As in NEURON, 3-D points are in single precision, and everything
that is computed from them in double precision.

Where sections begin
    A section runs from a branching sample, or the root, to the next branching sample or tip, and
    has the sample where it begins as its first 3-D point. A section that leaves the soma begins
    instead at its own first sample: the way inside the soma is the soma's. If it has no
    length without it (one sample, say), it does begin at the soma's sample, with the radius of its
    own first one. NEURON's SWC importer does the same.

The soma
    The soma is the connected group of samples of type 1 that holds the root, or else the first such
    group in the file; the tree is turned so that it is rooted there. Further groups of type 1 are
    ordinary samples. What becomes of the soma depends on its form:

    - one sample: a sphere of that radius, as a cylinder with length = diameter = 2 radius, whose
      area is the sphere's;
    - three samples of one radius, two of them at opposite sides of the first, both one radius away
      (the form of NeuroMorpho.Org; 1 % off is allowed): the same, in the direction of the two;
    - an outline, three or more samples in a row which all have radius 0: the same, with the
      radius of the circle that has the area of the outline, at the mean of its samples;
    - other samples in a row, to one side of the root or to both (stacked discs): one section.
      Without length (all samples at one place) it is a sphere with the largest radius;
    - branched: ordinary sections, each neurite connected to the sample that it leaves;
    - no sample of type 1: there is no soma, and the cell begins at its root.

    All neurites of the first four are connected to the middle (0.5) of the soma.

Samples at the place of their parents
    are merged in single precision, and of the radii of a place the last along the section counts.
    A section without any length is left out, and its children begin where it did.

Radii
    must be finite and above 0, with one exception besides the outline: a tip may have radius 0
    where its parent has more. The neurite then ends in a cone, which has an area, and whose
    resistance up to any node inside is finite. Nothing is ever made up for a radius that is not
    there, negative, or 0 elsewhere: `CableError` names the sample.

Units are NEURON's: lengths, diameters and positions in µm, areas in µm², `Ra` in Ω·cm, `cm` in
µF/cm², `g_pas` in S/cm², voltages in mV, times in ms, point currents in nA; so capacitances of
nodes are in nF, and conductances of nodes and all entries of the matrix in µS. Samples are taken to
be in µm, whatever a file's header says.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np

from clhines.errors import CableError, InputError
from clhines.forest import climb
from clhines.morphology import Morphology

_SOMA = 1  # type code of SWC
_MAX_NODES = 2**31 - 1  # parent arrays are int32
_LAMBDA_FREQUENCY = 100.0  # Hz, of the d_lambda rule


# ----------------------------------------------------------------------------------- sections


@dataclass(frozen=True, eq=False)
class Sections:
    """One cell as unbranched sections of 3-D points; parents before children.

    Attributes
    ----------
    parent : (num_sections,) int64
        Parent section, -1 at section 0 and only there.
    parent_x : (num_sections,) float64
        Where on its parent a section begins: 1.0 at the end, 0.5 in the middle (of a soma), 0.0 at
        the beginning of section 0. A section is connected by its own beginning.
    offsets : (num_sections + 1,) int64
        Points of section s are ``offsets[s]:offsets[s + 1]``, two at least.
    points : (num_points, 4) float32, µm
        x, y, z and diameter.
    has_soma : bool
        Whether section 0 is a soma to whose middle all its children are connected.
    name : str
        Name of the morphology.
    """

    parent: np.ndarray
    parent_x: np.ndarray
    offsets: np.ndarray
    points: np.ndarray
    has_soma: bool
    name: str = "cell"

    @property
    def num_sections(self) -> int:
        """Number of sections."""
        return len(self.parent)

    @cached_property
    def arc(self) -> np.ndarray:
        """(num_points,) float64, µm: distance of each point from the beginning of its section."""
        # NEURON subtracts in single precision before it goes over to double.
        step = np.diff(self.points[:, :3], axis=0).astype(np.float64)
        x, y, z = step.T
        distance = np.sqrt(x * x + y * y + z * z)
        arc = np.zeros(len(self.points))
        for begin, end in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True):
            np.cumsum(distance[begin : end - 1], out=arc[begin + 1 : end])
        return arc

    @cached_property
    def length(self) -> np.ndarray:
        """(num_sections,) float64, µm: length along the axis."""
        return self.arc[self.offsets[1:] - 1]

    def nseg_by_length(self, max_length: float) -> np.ndarray:
        """Count the fewest segments of at most `max_length` µm, an odd number in a soma.

        Parameters
        ----------
        max_length : float, µm

        Returns
        -------
        (num_sections,) int64
            The soma's number is odd so that its middle is the centre of a segment.
        """
        _positive("max_length", max_length)
        nseg = _whole(np.maximum(np.ceil(self.length / max_length), 1))
        if self.has_soma:
            nseg[0] |= 1
        return nseg

    def nseg_by_lambda(
        self, d_lambda: float = 0.1, Ra: float = 100.0, cm: float = 1.0
    ) -> np.ndarray:
        """Count segments by NEURON's d_lambda rule.

        Parameters
        ----------
        d_lambda : float
            Longest segment in units of the length constant at 100 Hz.
        Ra : float, Ω·cm
            Axial resistivity.
        cm : float, µF/cm²
            Specific membrane capacitance.

        Returns
        -------
        (num_sections,) int64
            Odd numbers, ``int((L / (d_lambda * lambda_f(100)) + 0.9) / 2) * 2 + 1``.
        """
        for name, value in (("d_lambda", d_lambda), ("Ra", Ra), ("cm", cm)):
            _positive(name, value)
        diameter = self.points[:, 3].astype(np.float64)
        inside = np.ones(len(diameter) - 1, dtype=bool)  # no frustum between two sections
        inside[self.offsets[1:-1] - 1] = False
        each = np.diff(self.arc)[inside] / np.sqrt((diameter[:-1] + diameter[1:])[inside])
        lam = np.add.reduceat(each, self.offsets[:-1] - np.arange(self.num_sections))
        lam *= np.sqrt(2) * 1e-5 * np.sqrt(4 * np.pi * _LAMBDA_FREQUENCY * Ra * cm)
        lambda_f = self.length / lam
        return _whole(np.floor((self.length / (d_lambda * lambda_f) + 0.9) / 2) * 2 + 1)


def _whole(counts: np.ndarray) -> np.ndarray:
    total = float(counts.sum())
    if not total <= _MAX_NODES // 2:  # as many junctions may come on top; false for NaN too
        raise InputError(f"{total:.6g} segments in a cell, expected at most {_MAX_NODES // 2}")
    return counts.astype(np.int64)


def sections_of(cell: Morphology) -> Sections:
    """Cut a cell into unbranched sections; the rules are at the top of this module.

    Parameters
    ----------
    cell : Morphology

    Returns
    -------
    Sections

    Raises
    ------
    CableError
        The samples are not one tree, a radius is not above 0 where it has to be, a number is
        beyond single precision, or the cell has neither a soma nor a length.
    """
    parent = cell.parent
    _check_tree(parent, cell.name)
    soma = _soma_group(cell)
    if soma.any():
        parent = _rooted_at(parent, int(np.flatnonzero(soma & ~_at(soma, parent))[0]))
    row = _in_a_row(parent, soma)
    outline = len(row) >= 3 and not cell.radius[row].any()
    _check_numbers(cell, parent, soma, row if outline else row[:0])
    with np.errstate(over="ignore"):
        points = np.column_stack([cell.xyz, 2 * cell.radius]).astype(np.float32)
    body = _soma_points(cell, parent, row, outline) if len(row) else None
    if body is not None and (body[:, :3] == body[0, :3]).all():
        got = f"is at {cell.xyz[row[0]].tolist()}"
        _refuse(cell, row[0], got, "a soma that single precision can tell from a point there")
    chains = _chains(parent, soma, points, contracted=body is not None)
    above, offsets, points = _without_coincidences(*chains)
    if body is None:
        if not len(above):
            raise CableError(
                f"{cell.name}:{cell.line[0]}: sample {cell.id[0]} and those joined to it have no "
                "length and are no soma; expected one of the two"
            )
        x = np.where(above < 0, 0.0, 1.0)
        above = np.maximum(above, 0)
        above[0] = -1
        return Sections(above, x, offsets, points, False, cell.name)
    return Sections(
        parent=np.concatenate([[-1], above + 1]),
        parent_x=np.concatenate([[0.0], np.where(above < 0, 0.5, 1.0)]),
        offsets=np.concatenate([[0], offsets + len(body)]),
        points=np.concatenate([body, points]),
        has_soma=True,
        name=cell.name,
    )


def _check_tree(parent: np.ndarray, name: str) -> None:
    """Refuse what no reader makes; the rest here relies on a tree."""
    n = len(parent)
    if n and parent.min() >= -1 and parent.max() < n and np.count_nonzero(parent < 0) == 1:
        top, _ = _climb(np.where(parent < 0, np.arange(n), parent))
        if (parent[top] < 0).all():
            return
    raise CableError(f"{name}: the samples are not a tree, expected one root (-1) and no cycle")


def _at(mask: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Look up a mask, false where the index is -1."""
    return (index >= 0) & mask[index]


def _climb(above: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Go up to where ``above[i] == i``; (n,) where that is and (n,) how many steps it took."""
    return climb(above, (above != np.arange(len(above))).astype(np.int64))


def _soma_group(cell: Morphology) -> np.ndarray:
    """(n,) bool: the samples of the soma."""
    is_soma = cell.type == _SOMA
    below = is_soma & _at(is_soma, cell.parent)
    tops = np.flatnonzero(is_soma & ~below)
    if not tops.size:
        return is_soma
    at_root = tops[cell.parent[tops] < 0]
    top = at_root[0] if at_root.size else tops[0]
    group, _ = _climb(np.where(below, cell.parent, np.arange(len(below))))
    return group == top


def _rooted_at(parent: np.ndarray, root: int) -> np.ndarray:
    """Turn round the edges between `root` and the root so far; (n,) int64 parents."""
    end = len(parent)  # where the path ends: above the root, and above itself
    above = np.append(np.where(parent < 0, end, parent), end)
    path = np.array([root])
    while path[-1] != end:
        path = np.concatenate([path, above[path]])
        above = above[above]
    path = path[path != end]
    turned = parent.copy()
    turned[path[1:]] = path[:-1]
    turned[root] = -1
    return turned


def _in_a_row(parent: np.ndarray, soma: np.ndarray) -> np.ndarray:
    """(m,) int64: the soma's samples from one end to the other; none where they branch."""
    inner = np.flatnonzero(soma & _at(soma, parent))
    if not inner.size:
        return np.flatnonzero(soma)
    neighbours = np.bincount(parent[inner], minlength=len(parent))
    neighbours[inner] += 1
    if neighbours.max() > 2:
        return inner[:0]
    root = np.flatnonzero(soma & (parent < 0))[0]
    above = np.arange(len(parent))
    inside = inner[parent[inner] != root]
    above[inside] = parent[inside]
    arm, depth = _climb(above)
    first_arm = inner[parent[inner] == root][0]
    place = np.where(arm[inner] == first_arm, -1 - depth[inner], 1 + depth[inner])
    return np.concatenate([inner, [root]])[np.argsort(np.append(place, 0))]


def _check_numbers(
    cell: Morphology, parent: np.ndarray, soma: np.ndarray, outline: np.ndarray
) -> None:
    """Refuse the first sample whose place or radius cannot be used."""
    with np.errstate(over="ignore", under="ignore"):
        xyz = cell.xyz.astype(np.float32)
        diameter = (2 * cell.radius).astype(np.float32)
    numbers = np.logical_and.reduce(np.isfinite(xyz), axis=1)
    tip = np.bincount(parent[parent >= 0], minlength=len(parent)) == 0
    cone = (cell.radius == 0) & tip & ~_at(soma, parent) & _at(diameter > 0, parent)
    outlined = np.isin(np.arange(len(parent)), outline)
    positive = np.isfinite(diameter) & ((diameter > 0) | cone | outlined)
    bad = np.flatnonzero(~(numbers & positive))
    if not bad.size:
        return
    i = int(bad[0])
    if not numbers[i]:
        _refuse(cell, i, f"is at {cell.xyz[i].tolist()}", "finite numbers")
    where = " or, at a tip off the soma, 0" if cell.radius[i] == 0 else ""
    _refuse(cell, i, f"has radius {cell.radius[i]:g}", f"a finite number above 0{where} (µm)")


def _refuse(cell: Morphology, sample: int | np.integer, got: str, expected: str) -> NoReturn:
    line = f":{cell.line[sample]}" if cell.line[sample] > 0 else ""
    raise CableError(f"{cell.name}{line}: sample {cell.id[sample]} {got}, expected {expected}")


def _soma_points(
    cell: Morphology, parent: np.ndarray, row: np.ndarray, outline: bool
) -> np.ndarray:
    """(m, 4) float32: the soma as a section, from its samples in a row."""
    xyz, radius = cell.xyz[row], cell.radius[row]
    if outline:
        centred = xyz - xyz.mean(axis=0)
        twice_area = np.linalg.norm(np.cross(centred, np.roll(centred, -1, axis=0)).sum(axis=0))
        equivalent = float(np.sqrt(twice_area / (2 * np.pi)))
        if not np.float32(equivalent) > 0:
            _refuse(cell, row[0], "begins an outline without area", "a soma with a radius")
        return _ball(xyz.mean(axis=0), equivalent, np.array([1.0, 0.0, 0.0]))
    if len(row) == 1:
        return _ball(xyz[0], radius[0], np.array([1.0, 0.0, 0.0]))
    arms = xyz[[0, -1]] - xyz[1]
    if len(row) == 3 and parent[row[1]] < 0 and (radius == radius[1]).all():
        across = arms[1] - arms[0]
        lengths = np.array([*np.linalg.norm(arms, axis=1), np.linalg.norm(across) / 2])
        if (np.abs(lengths / radius[1] - 1) < 0.01).all():
            return _ball(xyz[1], radius[1], across / np.linalg.norm(across))
    points = np.column_stack([xyz, 2 * radius]).astype(np.float32)
    _, offsets, merged = _without_coincidences(np.array([-1]), np.array([0, len(row)]), points)
    return merged if len(offsets) > 1 else _ball(xyz[0], radius.max(), np.array([1.0, 0.0, 0.0]))


def _ball(centre: np.ndarray, radius: float, direction: np.ndarray) -> np.ndarray:
    """(3, 4) float32: a cylinder with the area of a sphere, along a unit vector."""
    along = np.array([-radius, 0.0, radius])[:, None] * direction
    return np.column_stack([centre + along, np.full(3, 2 * radius)]).astype(np.float32)


Chains = tuple[np.ndarray, np.ndarray, np.ndarray]


def _chains(parent: np.ndarray, soma: np.ndarray, points: np.ndarray, contracted: bool) -> Chains:
    """Cut the tree into chains of 3-D points, each with the point where it begins.

    With `contracted` the soma counts as the root, and its samples are in no chain. Gives the
    parent chain, -1 at the root (num_chains,), offsets (num_chains + 1,) and points (m, 4).
    """
    n = len(parent)
    top = soma.copy() if contracted else np.zeros(n, dtype=bool)
    top |= parent < 0
    stem = ~soma & _at(soma, parent)
    num_children = np.bincount(parent[parent >= 0], minlength=n)
    head = ~top & (stem | _at(top, parent) | (num_children[parent] > 1))
    samples = np.flatnonzero(~top)
    head_of, place = _climb(np.where(top | head, np.arange(n), parent))

    heads = np.flatnonzero(head)
    number = np.full(n, -1)
    number[heads] = np.arange(len(heads))
    above = number[head_of[parent[heads]]]  # -1 where that is the root or the soma
    _, level = _climb(np.where(above < 0, np.arange(len(heads)), above))
    order = np.argsort(level, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    above = np.where(above < 0, -1, rank[above])[order]
    heads = heads[order]

    chain = rank[number[head_of[samples]]]
    samples = samples[np.lexsort((place[samples], chain))]
    begins = np.concatenate([[0], np.cumsum(np.bincount(chain, minlength=len(heads)))])
    first = points[parent[heads]]
    first[stem[heads], 3] = points[heads[stem[heads]], 3]
    moved = ~head & (points[:, :3] != points[parent, :3]).any(axis=1)
    has_length = np.bincount(number[head_of[moved & ~top]], minlength=len(heads))[order] > 0
    begun = ~(stem[heads] & has_length)
    with_first = np.insert(points[samples], begins[:-1][begun], first[begun], axis=0)
    return above, begins + np.concatenate([[0], np.cumsum(begun)]), with_first


def _without_coincidences(above: np.ndarray, offsets: np.ndarray, points: np.ndarray) -> Chains:
    """Merge neighbours at one place, keep the last; leave out chains without a length."""
    num = len(above)
    chain = np.repeat(np.arange(num), np.diff(offsets))
    same = (chain[1:] == chain[:-1]) & (points[1:, :3] == points[:-1, :3]).all(axis=1)
    last = np.append(~same, np.ones(min(len(points), 1), dtype=bool))
    counts = np.bincount(chain[last], minlength=num)
    kept = counts > 1
    end = np.append(np.where(kept, np.arange(num), np.where(above < 0, num, above)), num)
    nearest, _ = _climb(end)
    number = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
    return (
        number[nearest[above[kept]]],
        np.concatenate([[0], np.cumsum(counts[kept])]),
        points[last & kept[chain]],
    )


# -------------------------------------------------------------------------------------- cable


@dataclass(frozen=True, eq=False)
class Cable:
    """One cell as nodes: the segments of its sections, and junctions.

    A *junction* is a node without area where NEURON has one and it carries current: at the end of
    a section with children, after the section's segments, and at the beginning of the root section
    if others begin there too (node 0). Ends of sections without children have no node: no current
    flows through them, so that the voltage there is that of the last segment.

    Attributes
    ----------
    parent : (n,) int32
        Parent node, -1 at the root, which is node 0; parents before children.
    area : (n,) float64, µm²
        Area of membrane, 0 at junctions.
    g_axial : (n,) float64, µS
        Conductance to the parent node, 0 at the root.
    xyz : (n, 3) float64, µm
        Centre of each node, on the axis.
    section : (n,) int32
        Number of the section in `sections`.
    soma : int
        Node in the middle of the soma; where the soma is branched or there is none, the first
        segment of section 0.
    sections : Sections
        The sections.
    nseg : (num_sections,) int64
        Segments of each section.
    Ra : float, Ω·cm
        Axial resistivity.
    cm : float, µF/cm²
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
    Ra: float
    cm: float
    name: str = "cell"

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.parent)

    @cached_property
    def capacitance(self) -> np.ndarray:
        """(n,) float64, nF: capacitance of each node, 0 at junctions."""
        return 1e-5 * self.cm * self.area

    @cached_property
    def g_total(self) -> np.ndarray:
        """(n,) float64, µS: sum of the axial conductances at each node."""
        total = self.g_axial.copy()
        child = np.flatnonzero(self.parent >= 0)
        up = self.parent[child]
        return total + np.bincount(up, weights=self.g_axial[child], minlength=self.num_nodes)

    @cached_property
    def first_node(self) -> np.ndarray:
        """(num_sections,) int64: segment k of section s is node ``first_node[s] + k``."""
        return _first_nodes(self.sections, self.nseg)[0]

    def system(
        self, dt: float, g_pas: float | np.ndarray = 1e-4, e_pas: float | np.ndarray = -65.0
    ) -> System:
        """Make the linear system of a backward-Euler step with a passive membrane.

        Parameters
        ----------
        dt : float, ms
            Length of the step.
        g_pas : float or (n,) float64, S/cm²
            Conductance of the membrane; not negative.
        e_pas : float or (n,) float64, mV
            Reversal potential.

        Returns
        -------
        System
        """
        _positive("dt", dt)
        try:
            g, e = (np.asarray(a, dtype=np.float64) for a in (g_pas, e_pas))
        except (TypeError, ValueError) as error:
            raise InputError(f"g_pas and e_pas: expected numbers, {error}") from error
        for name, array in (("g_pas", g), ("e_pas", e)):
            if array.shape not in ((), (self.num_nodes,)) or not np.isfinite(array).all():
                got = f"has shape {array.shape}" if array.shape else f"is {array}"
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
    """One backward-Euler step ``A v(t + dt) = b`` of one cell.

    Attributes
    ----------
    d : (n,) float64, µS
        Diagonal: capacitance / dt, membrane conductance and all axial conductances of a node.
    u : (n,) float64, µS
        ``A[i, parent[i]] = A[parent[i], i] = u[i]``, minus the axial conductance; 0 at the root.
    capacitance_over_dt : (n,) float64, µS
    constant : (n,) float64, nA
        The membrane's part of the right-hand side: conductance times reversal potential.
    """

    d: np.ndarray
    u: np.ndarray
    capacitance_over_dt: np.ndarray
    constant: np.ndarray

    def rhs(self, v: np.ndarray, current: float | np.ndarray = 0.0) -> np.ndarray:
        """Make the right-hand side ``capacitance_over_dt * v + constant + current``.

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
            Other shapes, or no numbers.
        """
        n, arrays = len(self.d), []
        for name, given in (("v", v), ("current", current)):
            try:
                arrays.append(np.asarray(given, np.float64))
            except (TypeError, ValueError) as error:
                raise InputError(f"{name} is not an array of numbers: {error}") from error
        volts, amperes = arrays
        if volts.ndim not in (1, 2) or volts.shape[-1] != n:
            raise InputError(f"v has shape {volts.shape}, expected ({n},) or (k, {n})")
        if amperes.shape not in ((), (n,), volts.shape):
            raise InputError(f"current has shape {amperes.shape}, expected (), ({n},) or that of v")
        return self.capacitance_over_dt * volts + self.constant + amperes


def discretise(
    morphology: Morphology | Sections,
    max_length: float | None = None,
    d_lambda: float = 0.1,
    Ra: float = 100.0,
    cm: float = 1.0,
    nseg: np.ndarray | None = None,
) -> Cable:
    """Cut a cell into compartments, by their length, by the d_lambda rule or by number.

    Parameters
    ----------
    morphology : Morphology or Sections
        The cell.
    max_length : float, optional, µm
        Longest segment; the number of segments is then the smallest possible (the smallest odd
        one in a soma). Without it the d_lambda rule decides.
    d_lambda : float
        Longest segment in units of the length constant at 100 Hz; not used with `max_length`.
    Ra : float, Ω·cm
        Axial resistivity.
    cm : float, µF/cm²
        Specific membrane capacitance.
    nseg : (num_sections,) integer, optional
        Segments of each section, in place of both rules; an odd number in a soma.

    Returns
    -------
    Cable

    Raises
    ------
    CableError
        The morphology cannot be discretised; the message names file, line, sample and value.
    InputError
        An argument is not positive, or there would be too many nodes.
    """
    for name, value in (("Ra", Ra), ("cm", cm)):
        _positive(name, value)
    if not isinstance(morphology, (Morphology, Sections)):
        raise InputError(
            f"morphology is {type(morphology).__name__}; expected a Morphology, of read_swc()"
        )
    sections = morphology if isinstance(morphology, Sections) else sections_of(morphology)
    if nseg is not None:
        counts = _checked_nseg(sections, nseg)
    elif max_length is None:
        counts = sections.nseg_by_lambda(d_lambda, Ra, cm)
    else:
        counts = sections.nseg_by_length(max_length)
    return _assemble(sections, counts, float(Ra), float(cm))


def _checked_nseg(sections: Sections, nseg: np.ndarray) -> np.ndarray:
    counts = np.asarray(nseg)
    if counts.shape != (sections.num_sections,) or counts.dtype.kind not in "iu":
        raise InputError(
            f"nseg has shape {counts.shape} and dtype {counts.dtype}; expected a whole number for "
            f"each of {sections.num_sections} sections"
        )
    if counts.min() < 1:
        raise InputError(f"nseg of section {counts.argmin()} is {counts.min()}; expected 1 or more")
    if sections.has_soma and counts[0] % 2 == 0:
        raise InputError(f"nseg of section 0, a soma, is {counts[0]}; expected an odd number")
    return _whole(counts.astype(np.float64))


def _positive(name: str, value: float) -> None:
    try:
        good = bool(0 < value < np.inf)
    except (TypeError, ValueError):
        good = False
    if not good:
        raise InputError(f"{name} is {value!r}, expected a positive number")


def _assemble(sections: Sections, nseg: np.ndarray, Ra: float, cm: float) -> Cable:
    """Give the sections' segments and junctions their numbers, and connect them."""
    first, junction = _first_nodes(sections, nseg)
    num_nodes = int(first[-1] + nseg[-1] + (junction[-1] >= 0))
    segment_section = np.repeat(np.arange(sections.num_sections), nseg)
    segment = np.arange(len(segment_section)) - (np.cumsum(nseg) - nseg)[segment_section]
    node = first[segment_section] + segment
    area, left, right = _areas_and_resistances(sections, nseg, Ra)

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
        xyz=_centres(sections, nseg, first, junction, num_nodes),
        section=section,
        soma=int(first[0] + (nseg[0] // 2 if sections.has_soma else 0)),
        sections=sections,
        nseg=nseg,
        Ra=Ra,
        cm=cm,
        name=sections.name,
    )


def _first_nodes(sections: Sections, nseg: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First segment's node and end junction's node (-1: none) of each section; int64."""
    has_junction = np.zeros(sections.num_sections, dtype=bool)
    has_junction[sections.parent[sections.parent_x == 1.0]] = True
    count = nseg + has_junction
    first = int(_has_root_junction(sections)) + np.cumsum(count) - count
    return first, np.where(has_junction, first + nseg, -1)


def _has_root_junction(sections: Sections) -> bool:
    return bool((sections.parent_x[1:] == 0.0).any())


def _node_above(
    sections: Sections, nseg: np.ndarray, first: np.ndarray, junction: np.ndarray
) -> np.ndarray:
    """(num_sections,) int64: the node to which the first segment of each section is connected."""
    up, x = sections.parent, sections.parent_x
    above = np.where(x == 1.0, junction[up], np.where(x == 0.5, first[up] + nseg[up] // 2, 0))
    above[0] = 0 if _has_root_junction(sections) else -1
    return above


def _areas_and_resistances(
    sections: Sections, nseg: np.ndarray, Ra: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Integrate over the frusta, cut at the ends and centres of the segments.

    Returns
    -------
    area : (num_segments,) float64, µm²
    left, right : (num_segments,) float64, MΩ
        Resistance from the beginning of a segment to its centre and from there to its end, which is
        infinite at a tip of diameter 0.
    """
    arc, diameter = sections.arc, sections.points[:, 3].astype(np.float64)
    section, cut = _cuts(sections, nseg)
    point_section = np.repeat(np.arange(sections.num_sections), np.diff(sections.offsets))
    all_section = np.concatenate([point_section, section])
    all_arc = np.concatenate([arc, cut])
    order = np.lexsort((all_arc, all_section))
    is_point = order < len(arc)
    all_section, all_arc = all_section[order], all_arc[order]

    piece = np.flatnonzero(all_section[1:] == all_section[:-1])  # from here to the next
    begin, end = all_arc[piece], all_arc[piece + 1]
    frustum = (np.cumsum(is_point) - 1)[piece]
    half = (np.cumsum(~is_point) + all_section)[piece]  # a section has a cut less than halves
    height = arc[frustum + 1] - arc[frustum]
    d0, d1 = diameter[frustum], diameter[frustum + 1]
    solid = height > 0  # false where rounding in the sum has swallowed a tiny one
    f0 = np.divide(begin - arc[frustum], height, out=np.zeros_like(height), where=solid)
    f1 = np.divide(end - arc[frustum], height, out=np.zeros_like(height), where=solid)
    d0, d1 = (1 - f0) * d0 + f0 * d1, (1 - f1) * d0 + f1 * d1

    dx = end - begin
    num = 2 * int(nseg.sum())
    area = np.pi / 2 * (d0 + d1) * np.hypot(dx, (d1 - d0) / 2)
    with np.errstate(divide="ignore"):
        ohmic = np.bincount(half, 0.01 * Ra * 4 / np.pi * dx / (d0 * d1), minlength=num)
    return np.bincount(half // 2, area, minlength=num // 2), ohmic[0::2], ohmic[1::2]


def _cuts(sections: Sections, nseg: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Section (m,) int64 and arc (m,) float64, µm, of the centres and inner ends of segments."""
    counts = 2 * nseg - 1
    section = np.repeat(np.arange(sections.num_sections), counts)
    k = 1 + np.arange(len(section)) - (np.cumsum(counts) - counts)[section]
    ds = (sections.length / nseg)[section]
    return section, (k // 2) * ds + (k % 2) * (ds / 2)


def _centres(
    sections: Sections,
    nseg: np.ndarray,
    first: np.ndarray,
    junction: np.ndarray,
    num_nodes: int,
) -> np.ndarray:
    """(num_nodes, 3) float64, µm: the place of each node on the axis."""
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
