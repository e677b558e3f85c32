"""Cells and instances in CPU vectors, and the elimination of constant pivots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from clhines.core.arrays import by_level, inverse, offsets, ranges, starts, stretch_of
from clhines.simulator.kinds.layouts import NONE, KindColumns
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.model.model import ADVANCE_REVERSAL, INITIAL_REVERSAL, Model
from clhines.simulator.state.arena import Arena
from clhines.simulator.state.variables import Variables
from clhines.solver import reference
from clhines.solver.forest import Forest, Trees


def variable_nodes(model: Model) -> np.ndarray:
    """Return whether each node's pivot changes between steps, for all shapes (trees), (m,) bool.

    The pivot changes at roots, and at nodes with a conductance somewhere in their subtree.
    """
    trees = model.forest.trees
    variable = trees.parent < 0
    for kind in model.kinds:
        if conducts(kind.mechanism):
            variable[_in_shapes(model.forest, kind.node)] = True
    for deep in reversed(by_level(trees.depth)[1:]):
        variable[trees.parent[deep[variable[deep]]]] = True
    return variable


def conducts(mechanism: Mechanism) -> bool:
    body = mechanism.compiled.bodies.get("current")
    if body is None or mechanism.kind == "artificial":
        return False
    return not all(g.is_number and g.value == 0 for role, _, g in body.results if role == "g")


def _in_shapes(forest: Forest, nodes: np.ndarray) -> np.ndarray:
    cell = stretch_of(forest.cell_offsets, nodes)
    return nodes - forest.cell_offsets[cell] + forest.trees.offsets[forest.shape_of_cell[cell]]


def node_classes(model: Model) -> np.ndarray:
    """Return a number for each node of each tree, (m,) int64, equal for equal mechanisms."""
    classes = np.zeros(len(model.forest.trees.parent), np.int64)
    for kind in model.kinds:
        if kind.mechanism.kind == "artificial":
            continue
        there = np.zeros(len(classes), np.int64)
        there[_in_shapes(model.forest, kind.node)] = 1
        classes = np.unique(2 * classes + there, return_inverse=True)[1].reshape(-1)
    return classes


def class_changes(trees: Trees, classes: np.ndarray) -> np.ndarray:
    """Return how often the class (see `node_classes`) changes from each node to its root, int64."""
    changes = ((classes != classes[trees.parent]) & (trees.parent >= 0)).astype(np.int64)
    for nodes in by_level(trees.depth)[1:]:
        changes[nodes] += changes[trees.parent[nodes]]
    return changes


def nodes_in_part(model: Model, network: Model) -> np.ndarray:
    """Return where the whole network's shapes have the nodes of a rank's shapes."""
    whole, shapes = network.forest, model.forest.shape_of_cell
    first = np.unique(shapes, return_index=True)[1] + model.first_cell
    start = whole.trees.offsets[whole.shape_of_cell[first]]
    return ranges(start, model.forest.trees.sizes)


def constant_pivots(model: Model, variable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eliminate the nodes whose pivots never change, all except the `variable` ones.

    Return two float64 arrays by node, in natural order. At constant nodes they have the inverse
    pivot and the elimination factor; at variable nodes both have the diagonal without the constant
    nodes' contributions.
    """
    forest = model.forest
    diagonal = model.capacitance_over_dt + model.constant_d
    start = forest.trees.offsets[forest.shape_of_cell] - forest.cell_offsets[:-1]
    constant = ~variable[np.arange(forest.num_nodes) + np.repeat(start, forest.sizes)]
    if not constant.any():
        return diagonal, diagonal
    parent, u = forest.parent, model.u
    for nodes in reversed(reference.elimination_steps(forest)[1:]):
        i = nodes[constant[nodes]]
        np.subtract.at(diagonal, parent[i], u[i] ** 2 / diagonal[i])
    inverse = 1 / diagonal
    return np.where(constant, inverse, diagonal), np.where(constant, u * inverse, diagonal)


_WIDEST = 16  # most numbers in an OpenCL vector
_OF_MANY = 64  # bytes per register, on processors with enough registers for pairs
TOGETHER = 4096  # nodes per tile with several shapes, about
_SPARE = 1.1  # narrower vectors may need at most so many times the widest vectors' groups
_PAIR = 1.9  # register pairs must reduce the group count at least by this factor
_WASTE = 1.25  # most lanes per cell in one-shape vectors


def choose_lanes(forest: Forest, most: int, units: int) -> int:
    """Return how many cells of one shape share a vector, at most `most`.

    Few elements of vectors stay empty, and each of the device's `units` (compute units) still gets
    a block of cells.
    """
    counts = np.bincount(forest.shape_of_cell)
    lanes = most
    while lanes > 1:
        blocks = int((-(-counts // lanes)).sum())
        if blocks * lanes <= _WASTE * forest.num_cells and blocks >= units:
            break
        lanes //= 2
    return lanes


def equal_parts(sizes: np.ndarray, count: int) -> np.ndarray:
    """Cut a list into at most `count` parts with about equal sums of `sizes`.

    Return each part's first entry, and the list's length.
    """
    ends = np.cumsum(sizes)
    cuts = np.searchsorted(ends - sizes / 2, ends[-1] * np.arange(1, count) / count)
    return np.unique(np.concatenate(([0], cuts, [len(sizes)])))


def order_slots(
    trees: Trees, shapes: Sequence[int], keys: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """Sort several trees' nodes into one list; return each node, its tree, and its parent.

    `shapes` has the trees' numbers in `trees`; returned trees are indices in `shapes`. Returned
    parents are positions in the sorted list, -1 for none. `keys` are arrays by node to sort by; the
    last one counts most.
    """
    sizes, first = trees.sizes[list(shapes)], trees.offsets[list(shapes)]
    at, row = ranges(first, sizes), np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((row, *(key[at] for key in keys)))
    slot, above = inverse(order), trees.parent[at]
    shift = np.repeat(first - starts(sizes), sizes)
    parent = np.where(above < 0, -1, slot[np.maximum(above - shift, 0)])
    return at[order], row[order], parent[order]


@dataclass(frozen=True, eq=False)
class Groups(KindColumns):
    """A mechanism's instances in groups of `width`, which a vector advances at once.

        member    0  1  2  3 | 4  5 ~5 ~5      6 instances of a block in groups of 4: 2 idle lanes
        columns   m0 m1 m2 m3  h0 h1 h2 h3 | m4 m5 m5 m5  h4 h5 h5 h5

    An idle lane has ``~instance`` of the block's last instance: it computes with the same numbers,
    and its results are not stored. Groups are sorted by their nodes' `place` (index).
    """

    by_node: ClassVar[bool] = False
    member: np.ndarray  # (groups, width)
    place: np.ndarray  # (groups, width), ascends
    first: np.ndarray  # (blocks + 1,): each block's first group

    @property
    def width(self) -> int:
        return self.member.shape[1]

    @property
    def source(self) -> np.ndarray:
        """The instance whose numbers each lane reads, (groups, width) int64."""
        return np.where(self.member < 0, ~self.member, self.member)

    @property
    def side_by_side(self) -> np.ndarray:
        return (np.diff(self.place, axis=1) == 1).all(axis=1)

    @property
    def first_members(self) -> np.ndarray:
        """The first instance of each group with consecutive instances, else -1, (groups,) int64."""
        follow = (np.diff(self.member, axis=1) == 1).all(axis=1) & (self.member[:, 0] >= 0)
        return np.where(follow, self.member[:, 0], -1)

    @cached_property
    def position(self) -> np.ndarray:
        """Each instance's position, ``group * width + lane``, (count,) int64."""
        member = self.member.reshape(-1)
        used = np.flatnonzero(member >= 0)
        position = np.empty(self.count, np.int64)
        position[member[used]] = used
        return position

    def at(self, instance: np.ndarray, column: int, columns: int) -> np.ndarray:
        group, lane = np.divmod(self.position[instance], self.width)
        return (group * columns + column) * self.width + lane

    def put(
        self, mem: Arena, name: str, values: Sequence[np.ndarray], before: np.ndarray = NONE
    ) -> None:
        """Add the region `name` to an arena: the numbers `before`, then each group's variables.

        `values` has a variable's numbers by instance. A group has a vector for each variable.
        """
        source = self.source
        lines = np.stack([v[source] for v in values], axis=1) if values else NONE
        mem.add(name, np.concatenate([before, lines.reshape(-1)]))


def make_groups(
    place: np.ndarray, block_place: np.ndarray, most: int, twice: bool = False
) -> Groups:
    """Group a mechanism's instances, sorted by their nodes' `place` (index).

    `block_place` has the first place in each block of cells. A vector has `most` numbers, or with
    `twice` two registers may form one vector.
    """
    order = np.argsort(place, kind="stable")
    counts = np.bincount(stretch_of(block_place, place), minlength=len(block_place) - 1)
    width = max(2, choose_width(counts, most, twice))
    groups = -(-counts // width)
    block = np.repeat(np.arange(len(counts)), groups * width)
    within = ranges(np.zeros_like(counts), groups * width)
    # the block's last instance fills up its last group
    member = order[starts(counts)[block] + np.minimum(within, counts[block] - 1)]
    places, shape = place[member].reshape(-1, width), (-1, width)
    member = np.where(within >= counts[block], ~member, member)
    return Groups(len(place), member.reshape(shape), places, offsets(groups))


def takes_twice(most: int, itemsize: int) -> bool:
    return 2 * most <= _WIDEST and most * itemsize == _OF_MANY


def choose_width(counts: np.ndarray, most: int, twice: bool = False) -> int:
    """Return the instance count per group, a power of two; a block has `counts` instances.

    A group takes about as long for any width up to `most`, so narrow groups are chosen if wide ones
    have idle lanes. With `twice`, a group may use two registers for each number, so that operations
    on one fill the other's latency.
    """
    if twice and _PAIR * np.sum(-(-counts // (2 * most))) <= np.sum(-(-counts // most)):
        return 2 * most
    widths = [2**k for k in range(most.bit_length())]
    groups = [int((-(-counts // width)).sum()) for width in widths]
    return next(w for w, number in zip(widths, groups) if number <= _SPARE * groups[-1])


def level_ions(variables: Variables, network: Model) -> dict[str, float]:
    """Return the ion variables that are one constant at all nodes: values by name."""
    changing = _changing_ions(network)
    values = {
        name: variables.ions[name][ion.node]
        for ion in variables.model.ions
        for name in ion.variables
        if name not in changing
    }
    return {n: v[0] if len(v) else 0.0 for n, v in values.items() if not _differ(v)}


def _changing_ions(network: Model) -> set[str]:
    written = {
        a.name
        for kind in network.kinds
        for arguments in kind.mechanism.program.blocks.values()
        for a in arguments
        if a.role == "ion" and a.direction != "in"
    }
    for ion in network.ions:
        e, *concentrations, current = ion.variables
        written.add(current)
        if ((ion.style & ADVANCE_REVERSAL) > 0).any():
            written.add(e)
        uneven = {n for n, x in zip(concentrations, (ion.ci, ion.co), strict=True) if _differ(x)}
        starts = ion.style & INITIAL_REVERSAL
        if _differ(ion.e) or _differ(starts) or (uneven and starts.any()):
            uneven.add(e)
        written |= uneven
    return written


def consecutive(places: np.ndarray, width: int) -> np.ndarray:
    """Return whether each of `places` begins `width` consecutive numbers, (n,) bool."""
    breaks = np.append(0, np.cumsum(np.append(np.diff(places) != 1, [True])))
    ends = np.minimum(np.arange(len(places)) + width - 1, len(places))
    return breaks[ends] == breaks[: len(places)]


def _differ(values: np.ndarray) -> bool:
    return bool((values[1:] != values[:-1]).any())
