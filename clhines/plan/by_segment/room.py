"""What fits: cells into local memory, or into registers, and how long their segments are then."""

from __future__ import annotations

import numpy as np

from clhines.errors import InputError
from clhines.forest import Forest
from clhines.plan import layout
from clhines.plan.by_segment import schedule
from clhines.plan.by_segment.cut import Cut, cut_trees
from clhines.plan.by_segment.joined import USUAL_PLACES
from clhines.plan.by_segment.schedule import NO_LANE
from clhines.plan.plan import Limits, Options

OWN_LAUNCH = 32 * USUAL_PLACES  # nodes per compute unit: fewer go into the launches of cut cells
WARP = 32
TREE_VALUES = 6  # local memory of a lane with its values in registers, and an int


def is_small(forest: Forest, limits: Limits) -> bool:
    """Whether only latency counts: two usual work-groups per compute unit hold the whole batch."""
    return forest.num_nodes < USUAL_PLACES * 2 * limits.compute_units


def usual_segment(forest: Forest, real: str, limits: Limits, options: Options) -> int:
    """Nodes of a segment: 16; fewer for batches so small that only latency counts.

    More where only longer segments, which leave less to contract, let all cells fit, or as
    many as are worth a launch of their own.
    """
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
    """(num_trees,) bool: trees that fit into a work-group and its local memory."""
    most = min(limits.max_work_group, NO_LANE - 1)
    if (options["work_group"] or 0) > most:
        raise InputError(f"work_group={options['work_group']} is above contraction's {most} lanes")
    most = options["work_group"] or most
    group = options["work_group"] or -(-np.minimum(cut.lanes, most) // 32) * 32
    return (cut.lanes <= most) & (cut.places <= local_capacity(real, limits, group))


def local_capacity(real: str, limits: Limits, work_group: int | np.ndarray) -> np.ndarray:
    """Nodes that fit into local memory: three values per node, and three per lane."""
    values = (limits.local_bytes - 8 * schedule.MAX_SEGMENT) // (8 if real == "double" else 4)
    lanes = np.asarray(work_group)
    return np.maximum(0, values - 3 * lanes) // 3 // layout.ALIGNMENT * layout.ALIGNMENT


def most_lanes(real: str, limits: Limits, options: Options) -> int:
    """Lanes of a work-group whose lanes have their values in registers."""
    size = TREE_VALUES * (8 if real == "double" else 4) + 4
    room = (limits.local_bytes - 8 * schedule.MAX_SEGMENT) // size
    most = min(room, limits.max_work_group, NO_LANE - 1)
    return min(most // WARP * WARP, int(options["work_group"] or most))


def fits_registers(
    forest: Forest, above: np.ndarray, real: str, limits: Limits, options: Options
) -> np.ndarray:
    """(num_cells,) bool: cells whose values go into registers; `above` local memory are some.

    By default those alone, and only where the compiler is NVIDIA's: what a register file has no
    room for is in a cache beside local memory there.
    """
    asked = options["registers"]
    none: np.ndarray = np.zeros(forest.num_cells, bool)
    if asked is False or (asked is None and not (limits.ptx and above.any())):
        return none
    lanes = most_lanes(real, limits, options)
    longest = int(options["segment"] or schedule.MAX_SEGMENT)
    wanted = (forest.sizes <= lanes * longest) & (above | (asked is True))
    if not lanes or not wanted.any():
        return none
    some = forest.take(np.flatnonzero(wanted))
    wanted[wanted] = (cut_trees(some.trees, longest).lanes <= lanes)[some.shape_of_cell]
    return wanted


def registers_segment(forest: Forest, real: str, limits: Limits, options: Options) -> int:
    """Nodes of a segment in registers: as few as let all cells fit."""
    lanes = most_lanes(real, limits, options)
    for most in (4, 6, 8, 9, 12, 16, 24):
        if not options["segment"] and (cut_trees(forest.trees, most).lanes <= lanes).all():
            return most
    return int(options["segment"] or schedule.MAX_SEGMENT)
