"""Decide which cells fit into local memory or registers, and how long their segments are.

`real` is the type of reals, ``double`` or ``float``.
"""

from __future__ import annotations

import numpy as np

from clhines.core.errors import InputError
from clhines.solver.forest import Forest
from clhines.solver.plan import layout
from clhines.solver.plan.by_segment import schedule
from clhines.solver.plan.by_segment.cut import USUAL_PLACES, Cut, cut_trees
from clhines.solver.plan.by_segment.schedule import NO_LANE
from clhines.solver.plan.plan import Limits, Options

OWN_LAUNCH = 32 * USUAL_PLACES  # least nodes per compute unit for a launch with only whole cells
WARP = 32
# For work-groups with values in registers (measured: bench/notes/contraction.md):
TREE_VALUES = 6  # a lane's values in local memory, besides an int
ALL_REGISTERS = 1 << 16  # registers per multiprocessor
OTHER_REGISTERS = 30  # registers per lane besides its values
MOST_HOLDING = 512  # most lanes in a work-group
MOST_SHARED = 64  # most lanes if many cells share a multiprocessor
LEAST_FILLED = 0.8  # least share of a lane's registers that hold values
FEW, MANY = 4, 16  # cells per compute unit: up to FEW latency counts, above MANY throughput
FEW_NODES = 20_000  # nodes per compute unit up to which chains are in registers even if they fit


def is_small(forest: Forest, limits: Limits) -> bool:
    """Whether all cells fit into two usual work-groups per compute unit, so that latency counts."""
    return forest.num_nodes < USUAL_PLACES * 2 * limits.compute_units


def usual_segment(forest: Forest, real: str, limits: Limits, options: Options) -> int:
    """Return the longest segment, in nodes: 16; less in small batches, more in large cells."""
    usual = (16, 24, schedule.MAX_SEGMENT)
    sizes = (4, 8, 16, 18, *usual[1:]) if is_small(forest, limits) else usual
    best, chosen = -1, sizes[0]
    for most in sizes:
        fits = fits_local(cut_trees(forest.trees, most), real, limits, options)
        if fits.all():
            return most
        nodes = int(forest.sizes[fits[forest.shape_of_cell]].sum())
        if best < 0 or nodes - best >= OWN_LAUNCH * limits.compute_units:
            best, chosen = nodes, most
    return chosen


def fits_local(cut: Cut, real: str, limits: Limits, options: Options) -> np.ndarray:
    most = min(limits.max_work_group, NO_LANE - 1)
    if (options["work_group"] or 0) > most:
        raise InputError(f"work_group={options['work_group']} is above contraction's {most} lanes")
    most = options["work_group"] or most
    group = options["work_group"] or -(-np.minimum(cut.lanes, most) // 32) * 32
    return (cut.lanes <= most) & (cut.places <= local_capacity(real, limits, group))


def local_capacity(real: str, limits: Limits, work_group: int | np.ndarray) -> np.ndarray:
    """Return how many nodes of three values fit into local memory, beside three values per lane."""
    values = (limits.local_bytes - 8 * schedule.MAX_SEGMENT) // (8 if real == "double" else 4)
    lanes = np.asarray(work_group)
    return np.maximum(0, values - 3 * lanes) // 3 // layout.ALIGNMENT * layout.ALIGNMENT


def most_lanes(real: str, limits: Limits, options: Options) -> int:
    """Return the most lanes of a work-group that keeps its values in registers."""
    size = TREE_VALUES * (8 if real == "double" else 4) + 4
    room = (limits.local_bytes - 8 * schedule.MAX_SEGMENT) // size
    most = min(room, limits.max_work_group, NO_LANE - 1)
    return min(most // WARP * WARP, int(options["work_group"] or most))


def fits_registers(
    forest: Forest, above: np.ndarray, real: str, limits: Limits, options: Options
) -> np.ndarray:
    """Mark the cells to solve in registers, (num_cells,) bool.

    `above` marks cells that exceed local memory. By default either all cells are solved in
    registers or none, and only with NVIDIA's compiler: on NVIDIA's devices a cache beside local
    memory has room for values that do not fit into registers.
    """
    registers = options["registers"]
    none: np.ndarray = np.zeros(forest.num_cells, bool)
    if registers is False:
        return none
    if registers is None:
        usual = limits.ptx and not options["work_group"]
        if usual and _short_of_groups(forest, real, limits, options):
            return ~none
        if not (usual and above.any()):
            return none
    lanes = most_lanes(real, limits, options)
    longest = int(options["segment"] or schedule.MAX_SEGMENT)
    wanted = (forest.sizes <= lanes * longest) & (above | (registers is True))
    if not lanes or not wanted.any():
        return none
    some = forest.subset(np.flatnonzero(wanted))
    if registers or some.num_cells <= FEW * limits.compute_units:
        good = cut_trees(some.trees, longest).lanes <= lanes
    else:
        good = _fill_registers(some, real, options)
    wanted[wanted] = good[some.shape_of_cell]
    return wanted if registers or wanted[above].all() else none


def _short_of_groups(forest: Forest, real: str, limits: Limits, options: Options) -> bool:
    """Whether cells are nearly chains, and too few work-groups at once fit into local memory."""
    many = forest.num_nodes > FEW_NODES * limits.compute_units
    if real != "double" or many or is_small(forest, limits) or options["segment"]:
        return False
    lanes = cut_trees(forest.trees, _OF_MANY[0]).lanes
    filled = forest.trees.sizes >= LEAST_FILLED * _OF_MANY[0] * lanes
    return bool((filled & (in_warps(lanes) <= MOST_SHARED)).all())


def _fill_registers(forest: Forest, real: str, options: Options) -> np.ndarray:
    """Mark the trees that fit into registers and fill most of them, (num_trees,) bool."""
    good: np.ndarray = np.zeros(forest.trees.num_trees, bool)
    for most in [int(options["segment"])] if options["segment"] else _SEGMENTS:
        lanes = cut_trees(forest.trees, most).lanes
        filled = forest.trees.sizes >= LEAST_FILLED * most * in_warps(lanes)
        good |= _registers_hold(lanes, most, real) & filled
    return good


def in_warps(lanes: np.ndarray) -> np.ndarray:
    return -(-lanes // WARP) * WARP


def _registers_hold(lanes: np.ndarray, most: int, real: str) -> np.ndarray:
    needed = 3 * most * (2 if real == "double" else 1) + OTHER_REGISTERS
    group = in_warps(lanes)
    return (group <= MOST_HOLDING) & (group * needed <= ALL_REGISTERS)


# nodes per segment; the first number that fits is used
_SEGMENTS = (8, 12, 16, 24)
_OF_MANY = (16, 12, 24, 8)  # if there are many cells
_OF_MANY_LANES = (4, 6, 8, 9, 12, 16, 24)  # if no number leaves all values in registers


def registers_segment(forest: Forest, real: str, limits: Limits, options: Options) -> int:
    """Return the maximum length of a segment, in nodes, for cells that are solved in registers.

    With this length, all values of each cell fit into registers. If no length does, a work-group
    has at least enough lanes for the segments of each cell.
    """
    if options["segment"]:
        return int(options["segment"])
    lanes = most_lanes(real, limits, options)
    many = forest.num_cells > MANY * limits.compute_units
    many |= _short_of_groups(forest, real, limits, options)
    for most in _OF_MANY if many else _SEGMENTS:
        lane_counts = cut_trees(forest.trees, most).lanes
        if _registers_hold(lane_counts, most, real).all() and (lane_counts <= lanes).all():
            return most
    for most in _OF_MANY_LANES:
        if (cut_trees(forest.trees, most).lanes <= lanes).all():
            return most
    return schedule.MAX_SEGMENT
