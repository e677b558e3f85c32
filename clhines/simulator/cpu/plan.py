"""Which cells a work-item of a CPU advances by itself, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from clhines.core.arrays import offsets, stretch_of
from clhines.simulator.common.arrays import least_tied
from clhines.simulator.cpu.groups import choose_lanes, equal_parts
from clhines.simulator.kinds.blocks import in_vectors
from clhines.simulator.kinds.layouts import is_artificial
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.model.model import Model
from clhines.simulator.state.decisions import epoch_steps
from clhines.simulator.state.sources import Wires, steps_between

LANES = 8  # cells of one shape that are kept together, at most
APART = 1.2  # time of a step where cells of one shape are not side by side, in that where they are
MOST_STEPS = 1024  # of a launch
# Measured, ns: a node and an instance in a step, a statement of its functions, in vectors and not,
# and what a launch takes when others wait for it
NODE, INSTANCE, STATEMENT, ALONE, LAUNCH = 15.0, 2.5, 0.16, 0.6, 40_000.0
LAUNCHES, STEPS = 3, 2.0  # of a step by `Steps`, and how much longer its work takes, at least
LOOPS = 4  # times that statements of functions with loops are counted
NUMBERS, NEAR = 6, 2**19  # of a node or an instance, about; bytes that stay in a core's cache
FAR = 1.2  # time of more, in these
TIED = (np.inf, 16.0, 1.0)  # steps: what sends sooner is in one block; the first that can be


@dataclass(frozen=True, eq=False)
class CellRanges:
    """Blocks of cells, one after another."""

    order: np.ndarray  # of the cells, block after block
    cells: np.ndarray  # (blocks + 1,): where the cells of each begin
    target: np.ndarray  # block of each target of events
    crossing: np.ndarray  # connections to another block
    epoch: int  # steps of a launch: no event of it is due in another block
    work: float  # ns: predicted for a step of the block that takes longest
    leads: bool = False  # the first block goes first: the others read what it leaves of each step

    @property
    def count(self) -> int:
        return len(self.cells) - 1

    def first(self, block: np.ndarray) -> np.ndarray:
        """Return where the items of each block begin, of items that are block after block."""
        return offsets(np.bincount(block, minlength=self.count))


def delivers_alone(model: Model) -> bool:
    """Whether one block of all cells could deliver the network's events in whole steps itself."""
    return model.connections.count > 0 and model.connections.rule is None


def plan_blocks(
    model: Model, wires: Wires, units: int, always: bool = False, split: bool = False
) -> CellRanges | None:
    """Return the blocks for as many compute units; None where `Steps` is faster.

    The model may be a part of a network that is `split`: then all its spikes are exchanged.
    """
    work = work_of(model)
    size = _size_of(model)
    least, best = STEPS * work.sum() / units * _slower(size) + LAUNCHES * LAUNCH, None
    least = np.inf if always else least
    lanes = choose_lanes(model.forest, LANES, units)
    between = min(epoch_steps(model), MOST_STEPS) if model.has_sums else MOST_STEPS
    for count in {min(n, len(work)) for n in (1, units, max(units, ceil(size / NEAR)))}:
        for order, slower in _orders(model):
            tries = (blocks_of(model, wires, work, count, tied, order, lanes) for tied in TIED)
            plan = next((f for f in tries if f is not None), None)
            if plan is None:
                continue
            cost = max(plan.work, work.sum() / units) * _slower(size / plan.count)
            alone = plan.count == 1 and delivers_alone(model) and not split
            launch = plan.epoch if alone else min(plan.epoch, between)
            cost = cost * slower + 2 * LAUNCH / launch
            if cost < least:
                least, best = cost, plan
    return best


def _orders(model: Model) -> list[tuple[np.ndarray, float]]:
    """Orders of cells to try, by shape and as they are, and how much longer a step then takes."""
    cells = np.arange(model.forest.num_cells)
    by_shape = np.argsort(model.forest.shape_of_cell, kind="stable")
    if np.array_equal(by_shape, cells):
        return [(cells, 1.0)]
    return [(by_shape, 1.0), (cells, APART)]


def _slower(size: float) -> float:
    """Return the slowdown of a pass over a number of bytes."""
    return FAR if size > NEAR else 1.0


def _size_of(model: Model) -> float:
    """Bytes of the numbers of all nodes and instances, about."""
    return 8.0 * NUMBERS * (model.forest.num_nodes + sum(kind.count for kind in model.kinds))


def work_of(model: Model) -> np.ndarray:
    """(cells,) float64, ns: what a step of each cell takes."""
    bounds = model.forest.cell_offsets
    work = NODE * np.diff(bounds)
    for kind in model.kinds:
        if not is_artificial(kind):
            cell = stretch_of(bounds, kind.node)
            work += _instance(kind.mechanism) * np.bincount(cell, minlength=len(work))
    return work


def _instance(mechanism: Mechanism) -> float:
    time = INSTANCE
    for block in ("current", "advance"):
        if block in mechanism.program.blocks:
            text = mechanism.functions("double", (), [block])
            often = LOOPS if "for (" in text or "while (" in text else 1
            each = STATEMENT if in_vectors(mechanism, block) else ALONE
            time += often * each * text.count(";")
    return time


def blocks_of(
    model: Model,
    wires: Wires,
    work: np.ndarray,
    count: int,
    tied: float,
    order: np.ndarray | None = None,
    lanes: int = 1,
) -> CellRanges | None:
    """Return `count` blocks of about equal work, ns; None where `tied` cells would be apart.

    With several blocks the cells of `Model.leading_cells` are one more, the first.
    """
    num_cells = len(work)
    order, leading = np.arange(num_cells) if order is None else order, model.leading_cells
    if count == 1 or len(leading) == num_cells:
        leading = leading[:0]
    order = np.append(leading, order[~np.isin(order, leading)])
    work, first = work[order], len(leading)
    tiles = first + _first_of_tiles(model.forest.shape_of_cell[order[first:]], lanes)
    cells = np.append(tiles, num_cells)[equal_parts(np.add.reduceat(work, tiles), count)]
    longest = float(work[:first].sum() + np.add.reduceat(work, cells[:-1]).max())
    cells = np.append([0] * (first > 0), cells).astype(np.int64)
    count = len(cells) - 1
    owners = _own(model, wires)
    sender = _senders(model, wires, owners)
    netcons = model.netcons
    target = wires.target
    near = model.sources.is_emitted[netcons.source] & (netcons.delay < tied * model.dt)
    pairs = [(sender[netcons.source][near], owners[target][near])]
    for (k, _), node in model.pointers.items():
        of = stretch_of(model.forest.cell_offsets, np.stack((model.kinds[k].node, node)))
        pairs.append((of[0], of[1]))
    a, b = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
    group = least_tied(num_cells + wires.num_targets, a, b)
    block_of = np.full(len(group), -1)  # of groups, by their least member
    of_cell = np.empty(num_cells, np.int64)
    of_cell[order] = stretch_of(cells, np.arange(num_cells))
    block_of[group[:num_cells]] = of_cell
    if (block_of[group[:num_cells]] != of_cell).any():
        return None
    block_of = np.where(block_of < 0, np.arange(len(group)) % count, block_of)
    at, sent = block_of[group], sender[netcons.source]
    crossing = (sent >= 0) & (at[sent] != at[owners[target]])
    between = steps_between(model, crossing)
    if between == 0:
        return None
    epoch = MOST_STEPS if between is None else min(between, MOST_STEPS)
    return CellRanges(order, cells, at[owners], crossing, epoch, longest, first > 0)


def _first_of_tiles(shape: np.ndarray, lanes: int) -> np.ndarray:
    """(tiles,) int64: first cells of runs of one shape, each of at most `lanes` cells."""
    begins = np.flatnonzero(np.diff(shape, prepend=-1))
    within = np.arange(len(shape)) - np.repeat(begins, np.diff(np.append(begins, len(shape))))
    return np.flatnonzero(within % lanes == 0)


def _own(model: Model, wires: Wires) -> np.ndarray:
    """(t,) int64: the cell of each target; those at no node have numbers after the cells."""
    num_cells, bounds = model.forest.num_cells, model.forest.cell_offsets
    owners = num_cells + np.arange(wires.num_targets)
    for k, first in wires.first_target.items():
        kind = model.kinds[k]
        if not is_artificial(kind):
            owners[first : first + kind.count] = stretch_of(bounds, kind.node)
    return owners


def _senders(model: Model, wires: Wires, own: np.ndarray) -> np.ndarray:
    """(s,) int64: the cell of each source, or the number of what is at no node; -1 of trains."""
    senders = np.full(model.sources.count, -1)
    detected = stretch_of(model.forest.cell_offsets, model.sources.detector_node)
    senders[model.sources.detector_source] = detected
    for k, sources in model.sources.emitted.items():
        emitting = np.flatnonzero(sources >= 0)
        senders[sources[emitting]] = own[wires.first_target[k] + emitting]
    return senders
