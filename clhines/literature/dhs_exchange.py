"""Method `dhs` on GPUs: cells of a work-group side by side, what nodes exchange in local memory.

A node hands two numbers to its parent in the backward sweep, and gets one from it in the forward
sweep. Both go through an *exchange slot*, a place in local memory that belongs to the node between
its own step and its parent's. A node inherits the slot of its first child; only tips take new
ones, so a cell needs as many as it has branches in flight, not as many as it has nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import ClassVar

import numpy as np

from clhines.arrays import offsets
from clhines.forest import Forest, Trees
from clhines.literature.schedule import LaneSteps
from clhines.plan.kernel_spec import KernelSpec, Word
from clhines.plan.plan import MAX_RHS, Limits, Part, Plan, as_int32, local_size

# A node: whether it inherits the slot of a child; whether it has further children; its slot.
NODE = Word(inherits=1, joins=1, slot=29)


@dataclass(frozen=True)
class DhsExchangeSpec(KernelSpec):
    """Numbers and switches of ``dhs_exchange.mako``: some lanes per cell, a barrier per step."""

    template: ClassVar[str] = "literature/dhs_exchange"
    first_argument: ClassVar[str] = "num_cells"
    tables: ClassVar[tuple[str, ...]] = (
        "cell_number:cell",
        "cell_node",
        "cell_step",
        "cell_steps",
        "group_start:place",
        "group_step",
        "group_steps",
        "step_first",
        "node_code",
        "node_order",
        "node_joins",
        "join_slot",
    )
    takes: ClassVar[tuple[str, ...]] = (*KernelSpec.takes[:-1], "int *restrict status")
    node: ClassVar[Word] = NODE
    lanes: int  # work-items per cell
    slots: int  # exchange slots per cell

    @property
    def cells(self) -> int:
        return self.work_group // self.lanes


@dataclass(frozen=True, eq=False)
class Slots:
    """Exchange slots of the nodes of `Trees`, in the order of their elimination."""

    code: np.ndarray  # (num_nodes,) int32, a `NODE` each
    joins: np.ndarray  # of node i's further children: ``join_slot[joins[i]:joins[i + 1]]``
    join_slot: np.ndarray  # in the order of the child list
    most: np.ndarray  # slots that each tree needs


def exchange_slots(trees: Trees, steps: LaneSteps) -> Slots:
    """Give every node its slot.

    A slot that is read in one step is given to a tip in a later step only: in the same one,
    another lane may be the first. The forward sweep goes the same way back.

    >>> from clhines import Forest
    >>> from clhines.literature.schedule import k_lane_steps
    >>> trees = Forest(np.array([-1, 0, 1, 1, 0])).trees
    >>> found = exchange_slots(trees, k_lane_steps(trees, 2))
    >>> NODE.unpack("slot", found.code).tolist()
    [0, 1, 0, 2, 0]
    """
    place = np.empty_like(steps.order)
    place[steps.order] = np.arange(len(place))
    above = trees.parent[steps.order]
    parent = np.where(above < 0, -1, place[np.maximum(above, 0)])
    inner = np.flatnonzero(parent >= 0)
    child = inner[np.argsort(parent[inner], kind="stable")]
    first = offsets(np.bincount(parent[inner], minlength=len(place)))
    has = first[1:] > first[:-1]
    heir = np.full(len(place), -1)
    heir[has] = child[first[:-1][has]]
    is_join = np.ones(len(child), bool)
    is_join[first[:-1][has]] = False
    slot, most = _assigned(trees, steps, heir, first, child)
    further = np.maximum(np.diff(first) - 1, 0)
    return Slots(
        NODE.pack(inherits=has, joins=further > 0, slot=slot),
        offsets(further),
        slot[child[is_join]],
        most,
    )


def _assigned(
    trees: Trees, steps: LaneSteps, heir: np.ndarray, first: np.ndarray, child: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Slots of all nodes, and how many each tree has."""
    width = steps.width.tolist()
    heirs, firsts, children = heir.tolist(), first.tolist(), child.tolist()
    slot, most, node = [0] * len(heirs), [], 0
    for tree in range(trees.num_trees):
        free: list[int] = []
        used = 0
        for step in range(int(steps.offsets[tree]), int(steps.offsets[tree + 1])):
            left: list[int] = []
            for v in range(node, node + width[step]):
                if heirs[v] >= 0:
                    slot[v] = slot[heirs[v]]
                    left += [slot[c] for c in children[firsts[v] + 1 : firsts[v + 1]]]
                elif free:
                    slot[v] = heappop(free)
                else:
                    slot[v], used = used, used + 1
            node += width[step]
            for s in left:
                heappush(free, s)
        most.append(used)
    return np.array(slot), np.array(most)


def bytes_per_cell(slots: np.ndarray, real: str) -> np.ndarray:
    """Local memory of cells that need so many slots, with one right-hand side."""
    return 2 * slots * (8 if real == "double" else 4)


@dataclass(frozen=True, eq=False)
class _Groups:
    cells: np.ndarray  # natural cells in the order of the work-groups
    width: int  # cells of each group; the last one may have fewer
    profile: np.ndarray  # of each group: the most lanes of its cells in every step
    profiles: list[np.ndarray]  # (num_steps + 1,) nodes of a lane-padded cell before each step
    start: np.ndarray  # place of each group's first value, and the end


def _groups(forest: Forest, steps: LaneSteps, cells: np.ndarray, width: int) -> _Groups:
    """Put `width` cells at a time side by side."""
    shape = forest.shape_of_cell[cells]
    known: dict[tuple[int, ...], int] = {}
    profiles: list[np.ndarray] = []
    count = -(-len(cells) // width)
    profile = np.empty(count, np.int64)
    for group in range(count):
        key = tuple(np.unique(shape[group * width : (group + 1) * width]).tolist())
        if key not in known:
            known[key] = len(profiles)
            profiles.append(offsets(_widest(steps, key)))
        profile[group] = known[key]
    ends = np.array([p[-1] for p in profiles])
    return _Groups(cells, width, profile, profiles, offsets(ends[profile] * width))


def _widest(steps: LaneSteps, shapes: tuple[int, ...]) -> np.ndarray:
    """Largest width of each step over some trees."""
    widths = [steps.width[steps.offsets[s] : steps.offsets[s + 1]] for s in shapes]
    most = np.zeros(max(map(len, widths)), np.int64)
    for width in widths:
        most[: len(width)] = np.maximum(most[: len(width)], width)
    return most


def _gather(forest: Forest, steps: LaneSteps, groups: _Groups) -> np.ndarray:
    """Natural index of each place, -1 where a lane has no node."""
    trees = forest.trees
    gather = np.full(int(groups.start[-1]), -1, np.int32)
    group = np.arange(len(groups.cells)) // groups.width
    column = groups.start[group] + np.arange(len(groups.cells)) % groups.width
    keys = forest.shape_of_cell[groups.cells] * len(groups.profiles) + groups.profile[group]
    by_key = np.argsort(keys, kind="stable")
    for some in np.split(by_key, np.flatnonzero(np.diff(keys[by_key])) + 1):
        tree = int(forest.shape_of_cell[groups.cells[some[0]]])
        profile = groups.profiles[groups.profile[group[some[0]]]]
        width = steps.width[steps.offsets[tree] : steps.offsets[tree + 1]]
        lane = np.arange(int(width.sum())) - np.repeat(offsets(width)[:-1], width)
        row = (np.repeat(profile[: len(width)], width) + lane) * groups.width
        begin, end = trees.offsets[tree], trees.offsets[tree + 1]
        natural = steps.order[begin:end] - begin
        first = forest.cell_offsets[groups.cells[some]]
        gather[column[some][:, None] + row] = first[:, None] + natural
    return gather


def plan_exchange(
    forest: Forest,
    method: str,
    spec: DhsExchangeSpec,
    steps: LaneSteps,
    slots: Slots,
    cells: np.ndarray,
    limits: Limits,
) -> Plan:
    """One launch for all cells, which share work-groups in the order of `cells`."""
    groups = _groups(forest, steps, cells, spec.cells)
    gather = _gather(forest, steps, groups)
    count = len(groups.profile)
    group_steps = np.array([len(p) - 1 for p in groups.profiles])[groups.profile]
    room = (limits.local_bytes - 4 * spec.work_group) // (8 if spec.real == "double" else 4)
    lane_steps = int(group_steps.sum()) * spec.work_group
    part = Part(
        spec=spec,
        tables=as_int32(dict(_tables(forest, steps, slots, groups)), len(gather)),
        num_units=count * spec.cells,
        num_groups=count,
        statistics={
            "steps": int(group_steps.max()),
            "dependent_steps": int(group_steps.max()) * 2,
            "barriers": int(group_steps.sum()) * 2 if spec.lanes > 1 else 0,
            "idle_lanes": 1 - forest.num_nodes / lane_steps,
            "cells_per_block": len(cells) / count,
            "local_bytes": int(bytes_per_cell(np.array(spec.slots), spec.real)) * spec.cells,
        },
        max_rhs=min(MAX_RHS, room // (spec.slots * spec.cells) - 1),
    )
    return Plan(forest, method, gather, (part,))


def _tables(
    forest: Forest, steps: LaneSteps, slots: Slots, groups: _Groups
) -> Iterator[tuple[str, np.ndarray]]:
    trees = forest.trees
    shape = forest.shape_of_cell[groups.cells]
    idle = len(groups.profile) * groups.width - len(shape)
    own = [np.diff(steps.offsets)[shape], (steps.offsets[:-1] + np.arange(trees.num_trees))[shape]]
    ends = np.cumsum(steps.width)
    first = ends - steps.width - np.repeat(trees.offsets[:-1], steps.counts)
    first = np.insert(first, steps.offsets[1:], trees.sizes)
    at = offsets([len(p) for p in groups.profiles])[:-1] + len(first)
    order = trees.rank[steps.order] - np.repeat(trees.offsets[:-1], trees.sizes)
    joins = slots.joins
    yield "cell_number", np.pad(groups.cells, (0, idle), constant_values=-1)
    yield "cell_node", np.pad(trees.offsets[shape], (0, idle))
    yield "cell_step", np.pad(own[1], (0, idle))
    yield "cell_steps", np.pad(own[0], (0, idle))
    yield "group_start", groups.start[:-1]
    yield "group_step", at[groups.profile]
    yield "group_steps", np.array([len(p) - 1 for p in groups.profiles])[groups.profile]
    yield "step_first", np.concatenate([first, *groups.profiles])
    yield "node_code", slots.code
    yield "node_order", order
    yield "node_joins", joins
    yield "join_slot", np.append(slots.join_slot, 0)  # one more: never empty


def slots_of(slots: Slots, room: int, limits: Limits) -> int:
    """Slots per cell of the kernel: those of the cell that needs most."""
    return min(local_size(int(slots.most.max()), room, limits.is_cpu), room)
