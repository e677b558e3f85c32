"""Divide the cells into blocks, one per CPU work-item, and choose the launch length."""

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

LANES = 8  # most one-shape cells that stay together
APART = 1.2  # relative time per step if one-shape cells are apart
MOST_STEPS = 1024  # per launch
# Measured, ns: a node and an instance per step, a statement of its functions in vectors and in
# scalars, and a launch for which others wait
NODE, INSTANCE, STATEMENT, SCALAR, LAUNCH = 15.0, 2.5, 0.16, 0.6, 40_000.0
LAUNCHES, STEPS = 3, 2.0  # `Steps`' launches per step, and its least relative time
LOOPS = 4  # factor for statements in functions with loops
NUMBERS, NEAR = 6, 2**19  # numbers per node or instance, about; bytes that stay in a core's cache
FAR = 1.2  # relative time beyond the cache
TIED = (np.inf, 16.0, 1.0)  # steps: cells with shorter delays share a block; tried in turn


@dataclass(frozen=True, eq=False)
class CellRanges:
    """Blocks of cells, each advanced by one work-item."""

    order: np.ndarray  # the cells, block after block
    cells: np.ndarray  # (blocks + 1,): each block's first cell
    target: np.ndarray  # each event target's block
    crossing: np.ndarray  # whether each connection leads to another block
    epoch: int  # steps per launch: none of its events is due in another block
    work: float  # ns: predicted for the slowest block's step
    leads: bool = False  # the first block runs first: the others read its values in each step

    @property
    def count(self) -> int:
        return len(self.cells) - 1

    def first(self, block: np.ndarray) -> np.ndarray:
        return offsets(np.bincount(block, minlength=self.count))


def delivers_alone(model: Model) -> bool:
    """Whether one block of all cells could deliver all spikes in whole steps by itself.

    The network must have connections with delays in whole steps, without plasticity.
    """
    return model.connections.count > 0 and model.connections.rule is None


def plan_blocks(
    model: Model, wires: Wires, units: int, always: bool = False, split: bool = False
) -> CellRanges | None:
    """Return the fastest blocks for `units` compute units; None if the engine `steps` is faster.

    With `always`, return blocks even if `steps` is faster. With `split`, the model is a rank's part
    of a network, and all spikes are exchanged.
    """
    work = work_of(model)
    size = 8.0 * NUMBERS * (model.forest.num_nodes + sum(kind.count for kind in model.kinds))
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
    """Return cell orders to compare, each with a step's relative time: by shape, then unchanged."""
    cells = np.arange(model.forest.num_cells)
    by_shape = np.argsort(model.forest.shape_of_cell, kind="stable")
    if np.array_equal(by_shape, cells):
        return [(cells, 1.0)]
    return [(by_shape, 1.0), (cells, APART)]


def _slower(size: float) -> float:
    return FAR if size > NEAR else 1.0


def work_of(model: Model) -> np.ndarray:
    """Predict each cell's time per step, (cells,) float64, ns."""
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
            each = STATEMENT if in_vectors(mechanism, block) else SCALAR
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
    """Cut the cells, in this `order`, into `count` blocks with about equal `work` (ns per step).

    Return None if this separates cells that pointers connect, or whose events act within `tied`
    steps. If there are several blocks, the cells in `Model.leading_cells` are an additional first
    one. Up to `lanes` cells with one shape stay together.
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
    owners = _owners(model, wires)
    sender = _senders(model, wires, owners)
    netcons = model.netcons
    target = wires.target
    near = model.sources.is_emitted[netcons.source] & (netcons.delay < tied * model.dt)
    pairs = [(sender[netcons.source][near], owners[target][near])]
    for (k, _), node in model.pointers.items():
        ends = stretch_of(model.forest.cell_offsets, np.stack((model.kinds[k].node, node)))
        pairs.append((ends[0], ends[1]))
    a, b = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
    group = least_tied(num_cells + wires.num_targets, a, b)
    block_of = np.full(len(group), -1)  # each group's block, by its least member
    cell_block = np.empty(num_cells, np.int64)
    cell_block[order] = stretch_of(cells, np.arange(num_cells))
    block_of[group[:num_cells]] = cell_block
    if (block_of[group[:num_cells]] != cell_block).any():
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
    """Return the first cell of each tile: at most `lanes` consecutive cells with equal `shape`."""
    begins = np.flatnonzero(np.diff(shape, prepend=-1))
    within = np.arange(len(shape)) - np.repeat(begins, np.diff(np.append(begins, len(shape))))
    return np.flatnonzero(within % lanes == 0)


def _owners(model: Model, wires: Wires) -> np.ndarray:
    """Return each event target's cell, (t,) int64; artificial cells get later numbers."""
    num_cells, bounds = model.forest.num_cells, model.forest.cell_offsets
    owners = num_cells + np.arange(wires.num_targets)
    for k, first in wires.first_target.items():
        kind = model.kinds[k]
        if not is_artificial(kind):
            owners[first : first + kind.count] = stretch_of(bounds, kind.node)
    return owners


def _senders(model: Model, wires: Wires, owners: np.ndarray) -> np.ndarray:
    """Return each event source's cell, numbered as in `owners`, (s,) int64; -1: a spike train."""
    senders = np.full(model.sources.count, -1)
    detected = stretch_of(model.forest.cell_offsets, model.sources.detector_node)
    senders[model.sources.detector_source] = detected
    for k, sources in model.sources.emitted.items():
        emitting = np.flatnonzero(sources >= 0)
        senders[sources[emitting]] = owners[wires.first_target[k] + emitting]
    return senders
