"""Sections: a cell cut into unbranched chains of 3-D points, by the rules of NEURON's importer.

The rules are those of ``Import3d_SWC_read`` and ``Import3d_GUI.instantiate`` in NEURON 9.0. They
were found by reading and comparing; the code is our own. They are stated for files in depth-first
order. A sample's *first child* is the child with the smallest id. `simulator.cells.samples` defines
sections and the soma.

Intended differences from NEURON's importer
    - *order*: the order of samples in the file does not matter; every file is treated as if it were
      in depth-first order. NEURON ends a section if a sample's only child is not the next sample,
      and needs parents with smaller ids.
    - *root*: a soma away from the root becomes the root. NEURON turns a one-sample soma there into
      a frustum, not a sphere.
    - *outline*: a soma with three or more samples in a row, all with radius 0, is a sphere at their
      mean, with the radius of a circle that has the outline's area. NEURON gives it diameter 0 and
      stops at ``lambda_f``. If all samples of a soma coincide, it is a sphere with the largest
      radius; NEURON sets a section without length and with more than two points to 1e-9 µm.
    - *one sample*: a one-sample neurite at the root of a branched soma is kept, with the point that
      it leaves. NEURON drops it.
    - *ring*: a step of the diameter at the very end of a section always adds its ring of membrane.
      In NEURON, rounding decides, if the section has more than one segment.
    - A one-sample cell that does not have type 1 is refused, and a sphere of three samples has only
      type-1 samples. NEURON checks only the root's type.

Agreement
    Of 30 files (``tests/simulator/cells/test_import3d.py``, NEURON 9.0.2) 25 agree as they are, and
    all 30 once written depth first from their somas (the outlined one with a sphere instead of the
    outline): equal sections, equal segments by the d_lambda rule, areas and input resistances
    within 1e-9. So do 160 random cells with somas, types and coincident samples of all kinds.

Position of a section on its parent, and whether its points begin with the sample that it leaves
    - From a one-sample soma: at 0.5. The point is included only if the section has one sample.
    - From the root sample: at 0.0, with the point; without it if the root has two type-1 children
      and the section is not of type 1.
    - From a sample inside a type-1 section: at 0.5; without the point if the section is not of type
      1 and has more than one sample.
    - From the last sample of any section: at 1.0, with the point; without it if the section is of
      another type and has more than one sample, and the sample has two or more type-1 children.
    - A neurite that branches at its first sample beside the soma continues into its first child;
      other children are connected at 0.0. (The same holds for a root that is not of type 1, but not
      for the root's first child.) It still ends there if the last child is of another type.

Sections without length
    are dropped; their children are connected to their place.

Radii
    must be finite and above 0. Exceptions: the outline, and a tip, which may have radius 0 if its
    parent has not. The neurite then ends in a cone, with an area and with a finite resistance up to
    any node inside. A missing or negative radius, or 0 elsewhere, raises `CableError`, which names
    the sample; `simulator.cells.samples` can interpolate zero radii.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.arrays import climb, inverse
from clhines.core.checks import as_array, as_number
from clhines.core.errors import CableError, InputError, shown
from clhines.core.quantities import as_numbers
from clhines.simulator.cells.morphology import Morphology
from clhines.simulator.cells.samples import (
    SampleTree,
    at,
    from_soma,
    in_a_row,
    is_sphere_of_three,
    tree_of,
    zero_radii,
)
from clhines.simulator.common.checks import spread

_LAMBDA_FREQUENCY = 100.0  # Hz, in the d_lambda rule
MAX_SEGMENTS = 2**20  # per cell


@dataclass(frozen=True, eq=False)
class Sections:
    """One cell as unbranched sections of 3-D points: the soma first, parents before children."""

    parent: np.ndarray  # -1 at section 0 only
    parent_x: np.ndarray  # position on it: 1.0 end, 0.5 middle (of a soma), 0.0 beginning
    offsets: np.ndarray  # points of section s: ``offsets[s]:offsets[s + 1]``, at least two
    points: np.ndarray  # (num_points, 4) float32, µm: x, y, z and diameter
    soma: np.ndarray  # whether a section belongs to the soma
    type: np.ndarray  # SWC type of the first sample after the point that it leaves
    name: str = "cell"

    @property
    def num_sections(self) -> int:
        return len(self.parent)

    @property
    def has_soma(self) -> bool:
        return bool(self.soma[0])

    @cached_property
    def needs_middle(self) -> np.ndarray:
        """Which sections need a segment in the middle, (num_sections,) bool.

        These are the soma's first section, and sections to whose middle a child is connected.
        """
        needed = np.zeros(self.num_sections, dtype=bool)
        needed[self.parent[self.parent_x == 0.5]] = True
        needed[0] |= self.has_soma
        return needed

    @cached_property
    def arc(self) -> np.ndarray:
        # NEURON subtracts in single precision, then converts to double.
        with np.errstate(over="ignore"):  # reported by `checked_counts`
            step = np.diff(self.points[:, :3], axis=0).astype(np.float64)
        x, y, z = step.T
        distance = np.sqrt(x * x + y * y + z * z)
        arc = np.zeros(len(self.points))
        for begin, end in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True):
            np.cumsum(distance[begin : end - 1], out=arc[begin + 1 : end])
        return arc

    @cached_property
    def length(self) -> np.ndarray:
        return self.arc[self.offsets[1:] - 1]

    def nseg_by_length(self, max_length: float) -> np.ndarray:
        """Return the fewest segments per section for which none is above `max_length`, µm.

        The number is odd in sections that need a segment in the middle.
        """
        max_length = as_positive("max_length", max_length, "um")
        with np.errstate(over="ignore"):
            nseg = self.checked_counts(np.maximum(np.ceil(self.length / max_length), 1))
        nseg[self.needs_middle] |= 1
        return nseg

    def nseg_by_lambda(
        self, d_lambda: float, Ra: float | np.ndarray, cm: float | np.ndarray
    ) -> np.ndarray:
        """Return each section's segment count by NEURON's d_lambda rule, always odd."""
        d_lambda = as_positive("d_lambda", d_lambda)
        diameter = self.points[:, 3].astype(np.float64)
        inside = np.ones(len(diameter) - 1, dtype=bool)  # False between sections: no frustum
        inside[self.offsets[1:-1] - 1] = False
        height, both = np.diff(self.arc)[inside], (diameter[:-1] + diameter[1:])[inside]
        each = np.divide(height, np.sqrt(both), out=np.zeros_like(both), where=both > 0)
        lam = np.add.reduceat(each, self.offsets[:-1] - np.arange(self.num_sections))
        lam *= np.sqrt(2) * 1e-5 * np.sqrt(4 * np.pi * _LAMBDA_FREQUENCY * Ra * cm)
        with np.errstate(all="ignore"):  # reported by `checked_counts`
            lambda_f = self.length / lam
            counts = np.floor((self.length / (d_lambda * lambda_f) + 0.9) / 2) * 2 + 1
        return self.checked_counts(counts)

    def checked_counts(self, counts: np.ndarray) -> np.ndarray:
        """Return the segment counts as int64; InputError if their sum is too large."""
        infinite = np.flatnonzero(~np.isfinite(self.length))
        if len(infinite):
            raise InputError(
                f"{self.name}: section {infinite[0]} is too long for single precision; "
                "expected coordinates and lengths in µm"
            )
        total = float(counts.sum())
        if not total <= MAX_SEGMENTS:  # also if NaN
            s = int(np.argmax(counts))
            raise InputError(
                f"{self.name}: {total:.6g} segments in a cell, of which {float(counts[s]):.6g} in "
                f"section {s} of {self.length[s]:.6g} µm; expected at most {MAX_SEGMENTS}"
            )
        return counts.astype(np.int64)


def sections_of(cell: Morphology) -> Sections:
    """Cut a cell into sections by this module's rules; CableError if that is not possible."""
    parent, soma = from_soma(cell)
    row = in_a_row(parent, soma)
    outline = len(row) >= 3 and not cell.radius[row].any()
    _check_numbers(cell, parent, soma, row if outline else row[:0])
    root = int(np.flatnonzero(parent < 0)[0])
    if len(parent) == 1 and not soma.any():
        _refuse_without_length(cell)
    tree = tree_of(cell, parent, root)
    body = np.array([root])
    if outline:
        body = row
    elif is_sphere_of_three(cell, tree):
        body = np.append(root, np.flatnonzero(soma & (parent >= 0)))
    return _cut(cell, tree, soma, body, _body_points(cell, body, outline))


def _check_numbers(
    cell: Morphology, parent: np.ndarray, soma: np.ndarray, outline: np.ndarray
) -> None:
    with np.errstate(over="ignore", under="ignore"):
        xyz = cell.xyz.astype(np.float32)
        diameter = (2 * cell.radius).astype(np.float32)
    numbers = np.logical_and.reduce(np.isfinite(xyz), axis=1)
    tip = np.bincount(parent[parent >= 0], minlength=len(parent)) == 0
    cone = (cell.radius == 0) & tip & ~at(soma, parent) & at(diameter > 0, parent)
    outlined = np.isin(np.arange(len(parent)), outline)
    positive = np.isfinite(diameter) & ((diameter > 0) | cone | outlined)
    bad = np.flatnonzero(~(numbers & positive))
    if not bad.size:
        return
    i = int(bad[0])
    if not numbers[i]:
        _refuse(cell, i, f"is at {cell.xyz[i].tolist()}", "finite numbers")
    expected = "a finite number above 0 (µm)"
    if cell.radius[i] == 0:
        expected = "a radius above 0 µm; 0 is allowed in the last sample of a neurite"
        if i in zero_radii(cell)[0]:
            expected += "; or an interpolated one, by repair='zero-radius', --repair zero-radius"
    _refuse(cell, i, f"has radius {cell.radius[i]:g}", expected)


def _refuse(cell: Morphology, sample: int | np.integer, got: str, expected: str) -> NoReturn:
    line = f":{cell.line[sample]}" if cell.line[sample] > 0 else ""
    raise CableError(f"{cell.name}{line}: sample {cell.id[sample]} {got}, expected {expected}")


def _refuse_without_length(cell: Morphology) -> NoReturn:
    raise CableError(
        f"{cell.name}:{cell.line[0]}: sample {cell.id[0]} and the samples joined to it have "
        "no length and are not a soma; expected one of the two"
    )


def _body_points(cell: Morphology, body: np.ndarray, outline: bool) -> np.ndarray:
    if not outline:
        return _ball(cell.xyz[body[0]], float(cell.radius[body[0]]))
    xyz = cell.xyz[body]
    centred = xyz - xyz.mean(axis=0)
    twice_area = np.linalg.norm(np.cross(centred, np.roll(centred, -1, axis=0)).sum(axis=0))
    equivalent = float(np.sqrt(twice_area / (2 * np.pi)))
    if not np.float32(equivalent) > 0:
        _refuse(cell, body[0], "begins an outline without area", "a soma with a radius")
    return _ball(xyz.mean(axis=0), equivalent)


def _ball(centre: np.ndarray, radius: float) -> np.ndarray:
    """Return the points of a cylinder along x with the area of a sphere, (3, 4) float32."""
    with np.errstate(over="ignore"):  # as NEURON: round to single precision, then add in double
        x, y, z, half = np.array([*centre, radius], np.float32).astype(np.float64).tolist()
        points = [(x + along, y, z, 2 * half) for along in (-half, 0.0, half)]
        return np.array(points).astype(np.float32)


@dataclass(frozen=True, eq=False)
class _SectionChains:
    """Sections as chains of samples; ordered by level from the root, then as in the file."""

    head: np.ndarray  # first sample
    last: np.ndarray  # last sample
    above: np.ndarray  # parent section, -1 for 0
    samples: np.ndarray  # all sections' points, section by section
    offsets: np.ndarray


def _chains(tree: SampleTree, body: np.ndarray) -> _SectionChains:
    n, inside = len(tree.parent), np.zeros(len(tree.parent), dtype=bool)
    parent = tree.parent
    if len(body) > 1:
        inside[body] = True
        parent = np.where(at(inside, parent), tree.root, parent)
    head = ~at(tree.goes_on & ~inside, parent)
    head |= np.arange(n) != tree.first[parent]
    inside[tree.root] = False
    head[inside], head[tree.root] = False, True
    head_of, distance = climb(np.where(head, -1, parent))

    heads = np.flatnonzero(head)
    number = inverse(heads, n)
    above = np.where(heads == tree.root, -1, number[head_of[parent[heads]]])
    _, level = climb(above)
    order = np.argsort(level, kind="stable")
    rank = inverse(order)
    of = rank[number[head_of]]
    kept = np.flatnonzero(~inside)
    samples = kept[np.lexsort((distance[kept], of[kept]))]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(of[kept], minlength=len(heads)))])
    return _SectionChains(
        head=heads[order],
        last=samples[offsets[1:] - 1],
        above=np.where(above < 0, -1, rank[above])[order],
        samples=samples,
        offsets=offsets,
    )


def _connections(tree: SampleTree, chains: _SectionChains) -> tuple[np.ndarray, np.ndarray]:
    """Return each section's position on its parent, and whether it omits the parent's point."""
    head, up = chains.head, np.maximum(chains.above, 0)
    leaves, several = tree.parent[head], np.diff(chains.offsets) > 1
    neurite, of_soma = ~tree.is_soma[head], tree.is_soma[head[up]]
    splits = tree.soma_children[leaves] > 1  # several soma sections begin there

    at_ball = (up == 0) & neurite & of_soma & (chains.offsets[1] == 1)
    at_root = (up == 0) & ~at_ball & (leaves == tree.root)
    other = of_soma & ~at_ball & ~at_root
    inner = other & (leaves != chains.last[up])
    end = other & ~inner
    x = np.where(at_ball | inner, 0.5, np.where(at_root, 0.0, 1.0))
    lacks = (at_ball | inner | ((end | at_root) & splits)) & neurite & several
    x[at(tree.shared_begin, leaves) & (head != tree.first[leaves])] = 0.0
    return x, lacks


def _cut(
    cell: Morphology, tree: SampleTree, soma: np.ndarray, body: np.ndarray, ball: np.ndarray
) -> Sections:
    """Make a section from each chain of samples; a spherical soma has the samples `body`.

    A section's first point is a copy of the sample at which the chain leaves its parent. Sections
    without length are dropped. If the root section is a sphere, `ball` has its points.
    """
    chains = _chains(tree, body)
    x, lacks = _connections(tree, chains)
    with np.errstate(over="ignore"):
        points = np.column_stack([cell.xyz, 2 * cell.radius]).astype(np.float32)
    head, up = chains.head, np.maximum(chains.above, 0)
    left = points[tree.parent[head]]
    narrow = tree.is_soma[head[up]] & ~tree.is_soma[head]
    left[narrow, 3] = points[head[narrow], 3]
    begun = ~lacks
    begun[0] = False
    made = np.insert(points[chains.samples], chains.offsets[:-1][begun], left[begun], axis=0)
    offsets = chains.offsets + np.concatenate([[0], np.cumsum(begun)])
    if chains.offsets[1] == 1:
        made, offsets = np.concatenate([ball, made[1:]]), np.append(0, offsets[1:] + 2)
    if soma.any() and (made[: offsets[1], :3] == made[0, :3]).all():
        made, offsets = _largest_sphere(cell, chains, made, offsets)
    return _with_length(cell, chains.above, x, offsets, made, soma[head], cell.type[head])


def _largest_sphere(
    cell: Morphology, chains: _SectionChains, points: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    first = chains.samples[: chains.offsets[1]]
    largest = int(first[np.argmax(cell.radius[first])])
    ball = _ball(cell.xyz[chains.head[0]], float(cell.radius[largest]))
    if (ball[:, :3] == ball[0, :3]).all():
        got = f"is at {cell.xyz[first[0]].tolist()}"
        _refuse(cell, first[0], got, "a soma that single precision can distinguish from a point")
    points = np.concatenate([ball, points[offsets[1] :]])
    return points, np.append(0, offsets[1:] + len(ball) - offsets[1])


def _with_length(
    cell: Morphology,
    above: np.ndarray,
    x: np.ndarray,
    offsets: np.ndarray,
    points: np.ndarray,
    soma: np.ndarray,
    types: np.ndarray,
) -> Sections:
    """Drop sections without length, and connect their children to the remaining ancestors.

    Each section has a parent section (`above`), a position `x` on it, `points` from `offsets`, a
    type, and may be in the `soma`.
    """
    num = len(above)
    section = np.repeat(np.arange(num), np.diff(offsets))
    moved = (points[:, :3] != points[offsets[:-1], :3][section]).any(axis=1)
    kept = np.bincount(section[moved], minlength=num) > 0
    if not kept.any():
        _refuse_without_length(cell)
    # Climb over dropped sections to the first one whose parent is kept, or that has none.
    stays = kept[np.maximum(above, 0)] | (above < 0)
    joint, _ = climb(np.where(stays, -1, above))
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    parent = np.where(above[joint] < 0, -1, number[above[joint]])[kept]
    parent_x = x[joint][kept]
    rootless = parent < 0  # several, if the root section has no length
    parent[rootless], parent_x[rootless] = 0, 0.0
    parent[0] = -1
    return Sections(
        parent=parent,
        parent_x=parent_x,
        offsets=np.concatenate([[0], np.cumsum(np.diff(offsets)[kept])]),
        points=points[kept[section]],
        soma=soma[kept],
        type=types[kept],
        name=cell.name,
    )


def as_positive(name: str, value: object, unit: str | None = None) -> float:
    value = as_numbers(name, value, unit)
    try:
        number = as_number(name, value)
    except InputError:
        number = 0.0
    if not number > 0:
        raise InputError(f"{name} is {shown(value)}, expected a positive number")
    return number


def per_section(name: str, value: ArrayLike, num_sections: int, unit: str) -> float | np.ndarray:
    """Check a positive number, or one for each section; return float64."""
    values = as_array(name, value, unit=unit)
    if not values.ndim:
        return as_positive(name, values.item())
    array = spread(name, values, num_sections)
    bad = np.flatnonzero(~(array > 0))
    if len(bad):
        s = int(bad[0])
        raise InputError(f"{name} of section {s} is {array[s]:g}, expected a positive number")
    array.setflags(write=False)
    return array
