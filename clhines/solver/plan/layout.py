"""Maps between natural and device order, and aligned blocks: shared by all layouts.

A layout is an array `gather`: ``packed[i] = natural[gather[i]]``; -1 marks padding. The layouts are
`by_cell.layout.Columns`, `by_branch.layout.LevelStrided` and `VectorRows`, and
`by_segment.layout.SegmentRows`; ``docs/layouts.py`` draws them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clhines.core.arrays import offsets, ranges, starts
from clhines.solver.forest import Forest
from clhines.solver.plan.by_cell.layout import runs
from clhines.solver.plan.kernel_spec import Word
from clhines.solver.plan.packing import Blocks

ORDER = Word(place=16, cell=15)  # for a value in natural order: its place and cell in the block
_CACHED = 1 << 17  # entries that are written at once: they stay in the cache
ALIGNMENT = 32  # values: a work-group's block starts on a whole memory transaction


def aligned(values: Any) -> Any:
    """Round value counts up to multiples of `ALIGNMENT`: whole memory transactions."""
    return -(-values // ALIGNMENT) * ALIGNMENT


def aligned_blocks(values: np.ndarray, blocks: Blocks) -> tuple[np.ndarray, np.ndarray, int]:
    template_size = aligned(values)
    ends = np.cumsum(template_size[blocks.template])
    return template_size, ends - template_size[blocks.template], int(ends[-1])


def natural_order(
    forest: Forest,
    gather: np.ndarray,
    cells: np.ndarray,
    start: np.ndarray,
    size: np.ndarray,
    template: np.ndarray,
    bounds: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return the tables by which kernels read blocks from natural order, one cell after another.

    Block k has the cells ``cells[bounds[k, 0]:bounds[k, 1]]``, and ``size[k]`` values in device
    order from ``start[k]`` on; blocks of the same trees have the same number in `template`.
    `gather` is the plan's. The tables are:

    - ``order_start``: for each block, where its values start in ``order``, and their number;
    - ``order``: for each value of a template, cell after cell, an `ORDER`: its index in the block,
      and the number of its cell in the block;
    - ``cell_base``: for each cell of a block, the natural index of its first node, minus the number
      of that node among the block's values.
    """
    sizes, natural_start = forest.sizes[cells], forest.cell_offsets[cells]
    before = offsets(sizes)
    in_block = np.repeat(before[bounds[:, 0]], bounds[:, 1] - bounds[:, 0])
    values = before[bounds[:, 1]] - before[bounds[:, 0]]
    _, model, kind = np.unique(template, return_index=True, return_inverse=True)
    # for one block per template: natural index and place, then natural index and cell
    place = ranges(np.zeros(len(model), np.int64), size[model])
    natural = gather[ranges(start[model], size[model])]
    place, natural = place[natural >= 0], natural[natural >= 0]
    counts = bounds[model, 1] - bounds[model, 0]
    which = ranges(bounds[model, 0], counts)
    number = np.repeat(ranges(np.zeros(len(model), np.int64), counts), sizes[which])
    order = np.empty(len(natural), np.int64)
    order[np.argsort(ranges(natural_start[which], sizes[which]))] = place[np.argsort(natural)]
    begin = starts(values[model])
    return {
        "order_start": np.stack((begin[kind.reshape(-1)], values), axis=1).reshape(-1),
        "order": ORDER.pack(place=order, cell=number),
        "cell_base": natural_start - (before[:-1] - in_block),
    }


def natural_sizes(
    forest: Forest, cells: np.ndarray, template: np.ndarray, bounds: np.ndarray
) -> dict[str, int]:
    """Return the lengths of the tables that `natural_order` makes of the same arguments."""
    before = offsets(forest.sizes[cells])
    _, model = np.unique(template, return_index=True)
    values = before[bounds[model, 1]] - before[bounds[model, 0]]
    return {"order_start": 2 * len(bounds), "order": int(values.sum()), "cell_base": len(cells)}


def natural_pieces(
    gather: np.ndarray, start: np.ndarray, size: np.ndarray, template: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the tables by which kernels read parts of cells (pieces) from natural order.

    Parameters and ``order_start`` are as in `natural_order`. For each value of a template in
    natural order, ``order`` has its index in the block; ``natural_index`` has the natural index of
    each value of a block.
    """
    ascending = np.argsort(start)
    start, size, template = start[ascending], size[ascending], template[ascending]
    _, model, kind = np.unique(template, return_index=True, return_inverse=True)
    kind = kind.reshape(-1)
    place = ranges(np.zeros(len(model), np.int64), size[model])
    owner = np.repeat(np.arange(len(model)), size[model])
    natural = gather[start[model][owner] + place]
    sort = np.lexsort((natural, natural < 0, owner))  # padding last
    order = place[sort]
    values = np.bincount(owner[natural >= 0], minlength=len(model))
    begin = starts(size[model])
    index = np.zeros(int((start + size).max()), np.int32)
    for lo, hi in runs(kind):  # blocks with one template usually follow one another
        k = kind[lo]
        mine = order[begin[k] : begin[k] + values[k]]
        rows = start[lo:hi, None]
        index[rows + np.arange(values[k])] = gather[rows + mine]
    order_start = np.empty((len(start), 2), np.int64)
    order_start[ascending] = np.stack((begin[kind], values[kind]), axis=1)
    return {"order_start": order_start.reshape(-1), "order": order, "natural_index": index}


def expand(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    owner = np.repeat(np.arange(len(lengths)), lengths)
    return owner, np.arange(len(owner)) - np.repeat(starts(lengths), lengths)


def block_gather(
    forest: Forest,
    blocks: Blocks,
    template_size: np.ndarray,
    place: np.ndarray,
    slot: np.ndarray,
    rank: np.ndarray,
) -> np.ndarray:
    """Return the natural index of each value of a block layout, or -1 for padding; int32.

    `template_size` has the values per block of each template. Entry j of `place`, `slot` and `rank`
    says: node `rank` (in elimination order) of the cell in `slot` has index `place` in its block.
    """
    trees = forest.trees
    bounds = offsets(template_size)
    template = blocks.slot_template[slot]
    slot_at = np.full(int(bounds[-1]), -1, np.int64)  # -1: padding
    node_at = np.zeros(int(bounds[-1]), np.int32)
    slot_at[bounds[template] + place] = slot - blocks.slot_start[template]
    node_at[bounds[template] + place] = trees.order[rank] - trees.offsets[blocks.slot_tree[slot]]
    block_size = template_size[blocks.template]
    block_start = starts(block_size)
    gather = np.empty(int(block_size.sum()), np.int32)
    first_node = forest.cell_offsets[blocks.cells].astype(np.int32)
    for lo, hi in runs(blocks.template):
        t = blocks.template[lo]
        here = slice(bounds[t], bounds[t + 1])
        slots = int(blocks.slot_start[t + 1] - blocks.slot_start[t])
        cells = blocks.cell_start[lo]
        base = first_node[cells : cells + slots * (hi - lo)].reshape(hi - lo, slots)
        out = gather[block_start[lo] :][: (hi - lo) * (here.stop - here.start)]
        out = out.reshape(hi - lo, -1)
        if slots == 1:
            add_to_rows(base[:, 0], np.where(slot_at[here] < 0, -1, node_at[here]), out)
            continue
        base = np.concatenate((base, np.full((hi - lo, 1), -1, np.int32)), axis=1)
        np.take(base, slot_at[here], axis=1, out=out, mode="wrap")
        out += node_at[here]
    return gather


def add_to_rows(first: np.ndarray, within: np.ndarray, out: np.ndarray) -> None:
    """Write ``first[k] + within`` into row k of `out`, and -1 if `within` is negative."""
    within, none = within.astype(out.dtype), np.flatnonzero(within < 0)
    step = max(1, _CACHED // max(1, len(within)))
    for k in range(0, len(out), step):
        rows = out[k : k + step]
        np.add(first[k : k + step, None], within, out=rows)
        rows[:, none] = -1
