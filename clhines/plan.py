"""Plans: a method applied to a forest, as tables for the device and numbers to judge it by.

A method is a row of `METHODS`; `make_plan` turns a row, a forest and the limits of a device into
a `Plan`. Nothing here needs a device or OpenCL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any, ClassVar

import numpy as np

from clhines import layout, packing, schedule
from clhines.errors import InputError
from clhines.forest import Forest, ranges

CACHE_BYTES = 336 << 10  # what a block may keep in local memory on a CPU, to stay in its L2 cache
STREAM_BYTES = 2 << 20  # a solution of more bytes is stored past the caches of a CPU
MAX_RHS = 4  # right-hand sides that kernels take at once, where they take several
MAX_PLACES = (1 << 31) - 1  # positions are 32-bit on the device; larger batches are sliced

STATUS_CLEAN = 1 << 30  # in a cell's status: this pivot was not spoilt by another bad one


@dataclass(frozen=True)
class Limits:
    """What a plan needs to know of a device; the defaults describe a mid-size GPU.

    Attributes
    ----------
    compute_units : int
    max_work_group : int
        Work-items.
    is_cpu : bool
    vector_bytes : int
        Width of the vectors that explicit vector code should use.
    local_bytes : int
        Local memory of a work-group.
    """

    compute_units: int = 64
    max_work_group: int = 256
    is_cpu: bool = False
    vector_bytes: int = 16
    local_bytes: int = 48 << 10


@dataclass(frozen=True)
class CellSpec:
    """Numbers and switches of ``cell.mako``: one work-item a cell, or a vector of cells.

    Attributes
    ----------
    real : str
        ``double`` or ``float``.
    symmetric : bool
        ``l`` equals ``u`` and is not passed.
    rhs : int
        Right-hand sides solved together.
    stride : int
        Distance between a cell's values; 0 reads it from the table.
    vector_width : int
        Cells a work-item takes.
    same_shape : bool
        The cells of a work-item have one shape: vector types, one step code for all.
    codes_in_order : bool
        Step codes lie in device order (all shapes different), not shape after shape.
    work_group : int
        Work-items of a work-group.
    """

    template: ClassVar[str] = "cell"
    real: str
    symmetric: bool
    rhs: int
    stride: int
    vector_width: int
    same_shape: bool
    codes_in_order: bool
    work_group: int


@dataclass(frozen=True)
class FineSpec:
    """Numbers and switches of ``fine.mako``: one work-group a block, one work-item a branch.

    Attributes
    ----------
    real, symmetric, rhs, work_group
        As in `CellSpec`.
    levels : int
        Branch levels of every block; 0 reads each block's count from the table.
    """

    template: ClassVar[str] = "fine"
    real: str
    symmetric: bool
    rhs: int
    work_group: int
    levels: int


@dataclass(frozen=True)
class FineVectorSpec:
    """Numbers and switches of ``fine_vector.mako``: one work-item a block, a branch a lane.

    Attributes
    ----------
    real, symmetric, rhs
        As in `CellSpec`.
    work_group : int
        1: work-items share nothing.
    vector_width : int
        Branches a vector.
    capacity : int
        Values of the largest block, for which local memory holds the factors and the
        intermediate solution of one right-hand side; 0 leaves them in global memory, as do
        several right-hand sides.
    slots : int
        Lanes of the largest block: what it exchanges between branches, in local memory.
    streaming : bool
        The solution is stored past the caches, where the compiler can.
    prefetch : bool
        Values are asked for before they are needed, where the compiler can.
    """

    template: ClassVar[str] = "fine_vector"
    real: str
    symmetric: bool
    rhs: int
    work_group: int
    vector_width: int
    capacity: int
    slots: int
    streaming: bool
    prefetch: bool


@dataclass(frozen=True)
class ContractionSpec:
    """Numbers and switches of ``contraction.mako``: one work-item a segment of a branch.

    Attributes
    ----------
    real, symmetric, rhs, work_group
        As in `CellSpec`.
    capacity : int
        Values of the largest block: what a work-group holds of each array in local memory.
    segment : int
        Most nodes of a segment.
    rounds : int
        Rounds in which the segments' last nodes are eliminated, after round 0.
    """

    template: ClassVar[str] = "contraction"
    real: str
    symmetric: bool
    rhs: int
    work_group: int
    capacity: int
    segment: int
    rounds: int


@dataclass(frozen=True, eq=False)
class Part:
    """One kernel launch of a plan, for some or all of its cells.

    Attributes
    ----------
    spec : CellSpec, FineSpec, FineVectorSpec or ContractionSpec
        Becomes the kernel; `rhs` and `symmetric` are those of a plain solve.
    tables : dict of name -> (m,) int32
        Index arrays of the kernel, in the order of its arguments.
    num_units : int
        Cells or blocks that the launch works through, idle lanes included.
    num_groups : int
        Work-groups of the launch.
    statistics : dict
        What judges the plan without a device: `dependent_steps`, eliminations and substitutions
        one after another; `idle_lanes`, the share of lane-steps without work; barriers, levels
        or rounds, cells a block.
    max_rhs : int
        Right-hand sides that one launch can take.
    """

    spec: Any
    tables: dict[str, np.ndarray]
    num_units: int
    num_groups: int
    statistics: dict[str, int | float] = field(default_factory=dict)
    max_rhs: int = MAX_RHS

    @property
    def needs_factor(self) -> bool:
        """Whether the kernel takes a scratch array in device order for the factors."""
        return not isinstance(self.spec, ContractionSpec)

    @property
    def factor_may_be_d(self) -> bool:
        """Whether the factors may take the place of `d`: not where pivots are looked at again."""
        return not isinstance(self.spec, FineVectorSpec)

    def solve_spec(self, symmetric: bool, rhs: int) -> Any:
        """Spec of the kernel for `rhs` right-hand sides, with or without `l`."""
        return replace(self.spec, symmetric=symmetric, rhs=rhs)

    def moved(self, first_place: int, cells: np.ndarray) -> Part:
        """Return the same launch for a device order that begins at `first_place`.

        Parameters
        ----------
        first_place : int
        cells : (num_cells,) integer
            Number in the whole batch of each cell of this part.
        """
        tables = dict(self.tables)
        for name in ("cell_start", "block_start"):
            if name in tables:
                tables[name] = tables[name] + np.int32(first_place)
        if "blocks" in tables:
            tables["blocks"] = tables["blocks"].copy()
            tables["blocks"][::8] += np.int32(first_place)
        number = tables["cell_number"]
        tables["cell_number"] = np.where(number < 0, -1, cells[number]).astype(np.int32)
        return replace(self, tables=tables)


@dataclass(frozen=True, eq=False)
class Plan:
    """How a batch is solved: who works, where the numbers lie, and what it costs.

    Attributes
    ----------
    forest : Forest
    method : str
    gather : (packed_size,) int32
        ``packed[i] = natural[gather[i]]``, -1 in the padding.
    parts : tuple of Part
        Launches; each solves its own cells, in its own stretch of the device order.
    """

    forest: Forest
    method: str
    gather: np.ndarray
    parts: tuple[Part, ...]

    @property
    def packed_size(self) -> int:
        """Length of one array in device order, padding included."""
        return len(self.gather)

    @property
    def needs_factor(self) -> bool:
        """Whether any part takes a scratch array in device order for the factors."""
        return any(part.needs_factor for part in self.parts)

    def bytes_needed(self, itemsize: int, arrays: int = 5) -> int:
        """Device memory for `arrays` arrays in device order and the tables, in bytes."""
        tables = sum(t.nbytes for part in self.parts for t in part.tables.values())
        return self.packed_size * itemsize * arrays + self.gather.nbytes + tables

    def describe(self) -> str:
        """Return a short table of what the plan does, for reading."""
        forest = self.forest
        lines = [
            f"method            {self.method}",
            f"                  {METHODS[self.method].summary}",
            f"cells             {forest.num_cells} ({forest.trees.num_trees} distinct shapes)",
            f"nodes             {forest.num_nodes}",
            f"branches          {forest.num_branches}",
            f"height            {int(forest.heights.max())} nodes at most",
            f"padding           {self.packed_size / forest.num_nodes - 1:.1%} of the nodes",
        ]
        for part in self.parts:
            lines.append(f"kernel            {part.spec.template}")
            lines.append(f"  work-groups     {part.num_groups} of {part.spec.work_group}")
            for name, value in part.statistics.items():
                shown = f"{value:.1%}" if name == "idle_lanes" else f"{value:.6g}"
                lines.append(f"  {name.replace('_', ' '):<16}{shown}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Method:
    """One row of the table of methods.

    Attributes
    ----------
    summary : str
        Unit of work and layout in a few words.
    source : str
        Where it comes from.
    build : callable
        ``build(forest, real, limits, options) -> Plan``.
    options : dict of name -> default
        What the row understands besides dtype and device; None is chosen from the limits.
    """

    summary: str
    source: str
    build: Callable[[Forest, str, str, Limits, dict[str, Any]], Plan]
    options: dict[str, Any]


def make_plan(
    forest: Forest,
    method: str = "auto",
    dtype: Any = np.float64,
    limits: Limits | None = None,
    **options: Any,
) -> Plan:
    """Plan the solution of a forest.

    Parameters
    ----------
    forest : Forest
    method : str
        ``auto`` (see `choose_method`) or a name in `METHODS`.
    dtype : numpy dtype
        float64 or float32.
    limits : Limits, optional
        Of the device; default: those of a mid-size GPU.
    **options
        See ``METHODS[method].options``.

    Returns
    -------
    Plan

    Raises
    ------
    InputError
        Unknown method or option, or an option the device cannot serve.
    """
    if not isinstance(forest, Forest):
        raise InputError(f"forest is {type(forest).__name__}; expected a clhines.Forest")
    limits = limits or Limits()
    if method == "auto":
        method = choose_method(limits)
    row = find_method(method)
    unknown = sorted(set(options) - set(row.options))
    if unknown:
        raise InputError(
            f"option {unknown[0]!r} is not one of method {method!r}; "
            f"expected {', '.join(row.options) or 'none'}"
        )
    for name, value in options.items():
        _check_option(name, value, limits)
    real = real_name(dtype)
    if int(forest.sizes.max()) > schedule.MAX_CELL_NODES:
        raise InputError(
            f"cell {int(forest.sizes.argmax())} has {int(forest.sizes.max())} nodes; "
            f"expected at most {schedule.MAX_CELL_NODES}"
        )
    return row.build(forest, method, real, limits, {**row.options, **options})


def choose_method(limits: Limits) -> str:
    """Return the row that `auto` stands for on a device of these limits.

    On GPUs `contraction`, which was the fastest row in all cases of ``bench/results``; on CPUs
    `block_interleaved`, the only row in explicit vectors. Never a GPU-shaped row on a CPU.
    """
    return "block_interleaved" if limits.is_cpu else "contraction"


def find_method(name: str) -> Method:
    """Return the row of `METHODS` called `name`, or raise `InputError` listing all names."""
    if not isinstance(name, str) or name not in METHODS:
        raise InputError(f"method {name!r} is unknown; expected auto, {', '.join(METHODS)}")
    return METHODS[name]


def real_name(dtype: Any) -> str:
    """``double`` for float64 and ``float`` for float32; `InputError` for anything else."""
    try:
        known = np.dtype(dtype)
    except TypeError:
        known = None
    if known == np.float64:
        return "double"
    if known == np.float32:
        return "float"
    raise InputError(f"dtype {dtype!r} is not supported; expected float64 or float32")


def _check_option(name: str, value: Any, limits: Limits) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InputError(f"{name}={value!r} is not valid; expected a whole number of at least 1")
    if name == "vector_width" and value not in (1, 2, 4, 8, 16):
        raise InputError(f"vector_width={value} is not valid; expected 1, 2, 4, 8 or 16")
    if name == "work_group" and value > limits.max_work_group:
        raise InputError(
            f"work_group={value} is above the device's limit of {limits.max_work_group} work-items"
        )


def _plan_columns(
    forest: Forest, method: str, real: str, limits: Limits, options: dict[str, Any]
) -> Plan:
    """Rows with one work-item a cell: `flat`, `interleaved`, `block_interleaved`."""
    vector, block = _column_widths(method, forest.num_cells, real, limits, options)
    whole = vector > 1
    columns = packing.columns(forest, block, whole_shapes=whole)
    if whole and columns.size > 1.25 * forest.num_nodes:  # too few cells of one shape
        columns, whole = packing.columns(forest, block), False
    lanes = columns.cells
    shape = np.where(lanes < 0, -1, forest.shape_of_cell[lanes])
    per_shape = (vector > 1 and whole) or forest.trees.num_trees * 2 <= forest.num_cells
    codes, code_start = _step_codes(forest, columns, shape, bool(per_shape))
    stride = columns.stride
    spec = CellSpec(
        real=real,
        symmetric=True,
        rhs=1,
        stride=int(stride[0]) if (stride == stride[0]).all() else 0,
        vector_width=vector,
        same_shape=whole or vector == 1,
        codes_in_order=not per_shape,
        work_group=_work_group(options, limits, 1 if limits.is_cpu else 64),
    )
    items = len(lanes) // vector
    gather = layout.column_gather(forest, columns)
    tables = {
        "cell_start": columns.start,
        "cell_stride": stride,
        "cell_size": np.where(lanes < 0, 0, forest.sizes[lanes]),
        "cell_number": lanes,
        "code_start": code_start,
        "codes": codes,
    }
    part = Part(
        spec=spec,
        tables=_as_int32(tables, columns.size),
        num_units=len(lanes),
        num_groups=-(-items // spec.work_group),
        statistics={
            "dependent_steps": int(forest.sizes.max()) * 2,
            "idle_lanes": 1 - forest.num_nodes / max(1, columns.size),
        },
    )
    return Plan(forest, method, gather, (part,))


def _column_widths(
    method: str, num_cells: int, real: str, limits: Limits, options: dict[str, Any]
) -> tuple[int, int]:
    """Cells a work-item and lanes a block; 0 lanes is full interleaving."""
    if method != "block_interleaved":
        return 1, (1 if method == "flat" else 0)
    itemsize = 8 if real == "double" else 4
    native = max(1, limits.vector_bytes // itemsize) if limits.is_cpu else 1
    while native > num_cells:  # a few cells would only be padded
        native //= 2
    vector = int(options["vector_width"] or native)
    wide = vector if limits.is_cpu else max(vector, min(64, -(-num_cells // vector) * vector))
    block = int(options["block_size"] or wide)
    if options["vector_width"] is None:
        vector = gcd(vector, block)  # the widest that an asked-for block can be cut into
    if block % vector:
        raise InputError(f"block_size={block} is not a multiple of vector_width={vector}")
    return vector, block


def _step_codes(
    forest: Forest, columns: packing.Columns, shape: np.ndarray, per_shape: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Step codes of the lanes and where each lane's begin."""
    trees = forest.trees
    codes = schedule.serial_steps(trees)
    if per_shape:
        return codes, np.where(shape < 0, 0, trees.offsets[shape])
    out = np.zeros(columns.size, np.int32)
    values = np.split(codes, trees.offsets[1:-1])
    layout.fill_columns(out, columns, shape, values, np.zeros(len(shape), np.int32))
    return out, columns.start


def _plan_fine(
    forest: Forest, method: str, real: str, limits: Limits, options: dict[str, Any]
) -> Plan:
    """Row `fine`: one work-group a block of cells, one work-item a branch, barrier a level."""
    width, group = options.get("vector_width"), options["work_group"]
    if width and (group or 1) > 1:
        raise InputError(f"vector_width={width} needs work_group=1; got work_group={group}")
    if width or (limits.is_cpu and (group or 1) == 1):
        return _plan_vectors(forest, method, real, limits, options)
    return _plan_lanes(forest, method, real, limits, options)


def _plan_lanes(
    forest: Forest, method: str, real: str, limits: Limits, options: dict[str, Any]
) -> Plan:
    """`fine` with one work-item a branch."""
    work_group = _work_group(options, limits, 16 if limits.is_cpu else 64)
    enough_blocks = 4 * limits.compute_units
    max_cells = int(options["max_cells"] or max(1, forest.num_cells // enough_blocks))
    blocks = packing.next_fit(forest, packing.level_widths(forest), work_group, max_cells)
    levels = schedule.branch_levels(forest.trees, blocks.slot_template, blocks.slot_tree)
    places = layout.LevelStrided(levels, blocks)
    counts = np.diff(levels.level_start)
    has_parent = levels.parent >= 0
    tables = {
        "block_template": blocks.template,
        "block_start": places.block_start,
        "block_cells": blocks.cell_start,
        "cell_number": blocks.cells,
        "template_levels": levels.level_start,
        "level_branches": levels.branch_start,
        "level_offset": places.level_offset,
        "branch_length": levels.length,
        "branch_parent": np.where(has_parent, places.last[levels.parent], -1),
        "branch_children": levels.child_start,
        "child_first": places.first[levels.child],
        "branch_slot": levels.slot - blocks.slot_start[blocks.slot_template[levels.slot]],
        "branch_rank": _rank_in_tree(forest, levels),
    }
    spec = FineSpec(
        real=real,
        symmetric=True,
        rhs=1,
        work_group=work_group,
        levels=int(counts[0]) if (counts == counts[0]).all() else 0,
    )
    part = Part(
        spec=spec,
        tables=_as_int32(tables, places.size),
        num_units=blocks.num_blocks,
        num_groups=blocks.num_blocks,
        statistics=_fine_statistics(levels, blocks, work_group),
    )
    return Plan(forest, method, places.gather(forest), (part,))


def _plan_vectors(
    forest: Forest, method: str, real: str, limits: Limits, options: dict[str, Any]
) -> Plan:
    """`fine` for CPUs: one work-item a block of cells, one branch a lane of a vector.

    Cells too large for the cache-sized local memory of a work-item keep their factors in global
    memory; where even what branches exchange does not fit, `_plan_lanes` takes over.
    """
    room = limits.local_bytes // (8 if real == "double" else 4)  # values
    budget = min(CACHE_BYTES * room // limits.local_bytes, room * 7 // 10)
    exchanged = 2 * (np.diff(forest.trees.branch_offsets) + 1)
    kept = 2 * forest.trees.sizes + exchanged  # without padding
    kind = np.where(2 * kept <= budget, 0, np.where(2 * exchanged <= room, 1, 2))
    kind = kind[forest.shape_of_cell]
    plans = []
    for k in np.unique(kind).tolist():
        cells = np.flatnonzero(kind == k)
        part = forest if len(cells) == forest.num_cells else forest.take(cells)
        if k == 2:
            lanes = {**METHODS["fine"].options, "max_cells": options["max_cells"]}
            plan = _plan_lanes(part, method, real, limits, lanes)
        else:
            plan = _plan_blocks(part, method, real, limits, options, 0 if k else budget)
        plans.append((cells, plan))
    return plans[0][1] if len(plans) == 1 else _combine(forest, method, plans)


def _plan_blocks(
    forest: Forest,
    method: str,
    real: str,
    limits: Limits,
    options: dict[str, Any],
    budget: int,
) -> Plan:
    """Blocks of cells of `budget` values in local memory; 0 leaves the factors in global memory."""
    itemsize = 8 if real == "double" else 4
    weight = 2 * (forest.trees.sizes + np.diff(forest.trees.branch_offsets) + 1)
    widest = int(options["vector_width"] or max(1, limits.vector_bytes // itemsize))
    max_cells = int(options["max_cells"] or _cells_a_block(forest, weight, limits, budget, widest))
    room = limits.local_bytes // itemsize
    found = []
    for width in [widest >> k for k in range(widest.bit_length())]:
        fits, blocks, vectors, places = _fit_vectors(forest, weight, max_cells, budget, room, width)
        padded = places.size / forest.num_nodes
        cost = padded * (1 + 8 / width)  # a value counts, and so does every row
        found.append((not fits, cost, blocks, vectors, places))
        if fits and (padded < 1.25 or options["vector_width"]):
            break
    _, _, blocks, vectors, places = min(found, key=lambda f: f[:2])
    slots = _most_slots(vectors)
    spec = FineVectorSpec(
        real=real,
        symmetric=True,
        rhs=1,
        work_group=1,
        vector_width=vectors.width,
        capacity=int(places.template_size.max()) if budget else 0,
        slots=slots,
        streaming=places.size * itemsize > STREAM_BYTES and vectors.width * itemsize >= 16,
        prefetch=limits.is_cpu,
    )
    part = Part(
        spec=spec,
        tables=_as_int32(_vector_tables(forest, blocks, vectors, places), places.size),
        num_units=blocks.num_blocks,
        num_groups=blocks.num_blocks,
        statistics=_vector_statistics(forest, blocks, vectors, places),
        max_rhs=max(1, min(MAX_RHS, room // slots - 1)),
    )
    return Plan(forest, method, places.gather(forest), (part,))


def _fit_vectors(
    forest: Forest, weight: np.ndarray, max_cells: int, budget: int, room: int, width: int
) -> tuple[bool, packing.Blocks, schedule.BranchVectors, layout.VectorRows]:
    """Vectors of `width` branches, in blocks made smaller until `room` values hold each.

    Returns
    -------
    fits : bool
        False where even blocks of few cells need more.
    blocks, vectors, places
    """
    most = budget or int(weight.max()) * max_cells
    for share in (1, 2, 4, 8, 16):
        blocks = packing.next_fit(forest, list(weight[:, None]), most // share, max_cells)
        vectors = schedule.branch_vectors(
            forest.trees, blocks.slot_template, blocks.slot_tree, width
        )
        places = layout.VectorRows(vectors, blocks)
        capacity = int(places.template_size.max()) if budget else 0
        if 2 * (capacity + _most_slots(vectors)) <= room:
            return True, blocks, vectors, places
    return False, blocks, vectors, places


def _most_slots(vectors: schedule.BranchVectors) -> int:
    """Lanes of the largest block, and those that hold zeros."""
    return (int(np.diff(vectors.template_start).max()) + 1) * vectors.width


def _cells_a_block(
    forest: Forest, weight: np.ndarray, limits: Limits, budget: int, width: int
) -> int:
    """Most cells a block so that blocks fit the budget and all compute units have as many."""
    units = limits.compute_units
    total = int(weight[forest.shape_of_cell].sum())
    needed = -(-total // budget) if budget else -(-forest.num_cells // width)
    needed = max(needed, min(forest.num_cells, units))
    if needed < 8 * units:
        needed = -(-needed // units) * units
    cells = -(-forest.num_cells // needed)
    if forest.trees.num_trees * width > forest.num_cells:
        return cells if budget else 1
    return cells // width * width or cells  # whole vectors of cells of one shape


def _vector_tables(
    forest: Forest,
    blocks: packing.Blocks,
    vectors: schedule.BranchVectors,
    places: layout.VectorRows,
) -> dict[str, np.ndarray]:
    """Tables of ``fine_vector.mako``, in the order of its arguments."""
    round_start, child = vectors.rounds()
    parent = np.where(vectors.parent < 0, 0, vectors.exchange()[vectors.parent])
    parent = vectors.lanes(parent).reshape(-1, vectors.width)
    return {
        "block_template": blocks.template,
        "block_start": places.block_start,
        "block_cells": blocks.cell_start,
        "cell_number": blocks.cells,
        "template_vectors": vectors.template_start,
        "vector_place": places.vector_place,
        "vector_rows": vectors.rows,
        "vector_even": vectors.even,
        "vector_parent": _whole_vectors(parent),
        "vector_rounds": round_start,
        "round_vector": np.append(_whole_vectors(child), -1),
        "round_child": np.append(child, np.zeros((1, vectors.width), np.int64)),
        "lane_parent": parent.reshape(-1),
        "lane_length": vectors.lanes(vectors.length),
        "lane_slot": vectors.lanes(
            vectors.slot - blocks.slot_start[vectors.template[vectors.vector]]
        ),
        "lane_rank": vectors.lanes(_rank_in_tree(forest, vectors)),
    }


def _whole_vectors(slots: np.ndarray) -> np.ndarray:
    """Vector that each row of lanes is, lane for lane; -1 where it is a mixture."""
    width = slots.shape[1]
    whole = (slots == slots[:, :1] + np.arange(width)).all(axis=1) & (slots[:, 0] % width == 0)
    return np.where(whole, slots[:, 0] // width, -1)


def _vector_statistics(
    forest: Forest,
    blocks: packing.Blocks,
    vectors: schedule.BranchVectors,
    places: layout.VectorRows,
) -> dict[str, int | float]:
    steps = np.add.reduceat(vectors.rows, vectors.template_start[:-1])
    return {
        "dependent_steps": int(steps.max()) * 2,
        "idle_lanes": 1 - forest.num_nodes / places.size,
        "cells_per_block": len(blocks.cells) / blocks.num_blocks,
    }


def _rank_in_tree(
    forest: Forest, levels: schedule.BranchLevels | schedule.BranchVectors
) -> np.ndarray:
    trees = forest.trees
    first = trees.branch_start[levels.tree_branch]
    return first - trees.offsets[trees.branch_tree[levels.tree_branch]]


def _fine_statistics(
    levels: schedule.BranchLevels, blocks: packing.Blocks, work_group: int
) -> dict[str, int | float]:
    """Levels, steps and idle lanes over all blocks; a step is one element of every lane."""
    repeats = np.bincount(blocks.template)
    counts = np.diff(levels.level_start)
    per_level = np.repeat(repeats, counts)
    passes = -(-levels.width // work_group)
    steps = levels.longest * passes
    lane_steps = int((per_level * steps).sum()) * work_group
    busy = int((repeats[blocks.slot_template[levels.slot]] * levels.length).sum())
    return {
        "levels": int(counts.max()),
        "dependent_steps": int(np.add.reduceat(steps, levels.level_start[:-1]).max()) * 2,
        "barriers": int((per_level * 2).sum()),
        "idle_lanes": 1 - busy / lane_steps,
        "cells_per_block": len(blocks.cells) / blocks.num_blocks,
    }


def _plan_contraction(
    forest: Forest, method: str, real: str, limits: Limits, options: dict[str, Any]
) -> Plan:
    """Row `contraction`; cells that do not fit into local memory are left to `fine`."""
    many = forest.num_cells >= 16 * limits.compute_units
    most = int(options["segment"] or 16)
    if most > schedule.MAX_SEGMENT:
        raise InputError(f"segment={most} is above the limit of {schedule.MAX_SEGMENT} nodes")
    pieces = np.add.reduceat(
        -(-forest.trees.branch_length // most), forest.trees.branch_offsets[:-1]
    )
    lanes = pieces[forest.shape_of_cell]
    work_group = _contraction_group(lanes, options, limits, 128 if many else 64)
    capacity = _local_capacity(real, limits, work_group)
    fits = (lanes <= work_group) & (forest.sizes <= capacity)
    small = np.flatnonzero(fits)
    if len(small) == forest.num_cells:
        return _plan_segments(forest, method, real, limits, options, most, work_group, capacity)
    large = np.flatnonzero(~fits)
    rest = _plan_lanes(forest.take(large), "fine", real, limits, METHODS["fine"].options)
    if not len(small):
        return replace(rest, forest=forest, method=method)
    main = _plan_segments(
        forest.take(small), method, real, limits, options, most, work_group, capacity
    )
    return _combine(forest, method, [(small, main), (large, rest)])


def _contraction_group(
    lanes: np.ndarray, options: dict[str, Any], limits: Limits, least: int
) -> int:
    """Work-items of a group: a whole number of 32, enough for the largest cell that can fit."""
    most = min(limits.max_work_group, schedule.NO_LANE - 1)
    if (options["work_group"] or 0) > most:
        raise InputError(f"work_group={options['work_group']} is above contraction's {most} lanes")
    wanted = lanes[lanes <= most].max(initial=1)
    return int(options["work_group"] or min(most, max(least, -(-int(wanted) // 32) * 32)))


def _local_capacity(real: str, limits: Limits, work_group: int) -> int:
    """Nodes that fit into local memory: three values a node, and six a lane."""
    values = limits.local_bytes // (8 if real == "double" else 4)
    return max(0, values - 6 * work_group) // 3 // layout.ALIGNMENT * layout.ALIGNMENT


def _combine(forest: Forest, method: str, plans: list[tuple[np.ndarray, Plan]]) -> Plan:
    """One plan of several for different cells: their device orders one after another."""
    parts: list[Part] = []
    gathers, start = [], 0
    for cells, plan in plans:
        natural = ranges(forest.cell_offsets[cells], forest.sizes[cells])
        gather = np.where(plan.gather < 0, -1, natural[plan.gather]).astype(np.int32)
        parts += [part.moved(start, cells) for part in plan.parts]
        gathers.append(gather)
        start += len(gather)
    return Plan(forest, method, np.concatenate(gathers), tuple(parts))


def _plan_segments(
    forest: Forest,
    method: str,
    real: str,
    limits: Limits,
    options: dict[str, Any],
    most: int,
    work_group: int,
    capacity: int,
) -> Plan:
    """Contraction of cells that fit: one work-group a block, one work-item a segment."""
    trees = forest.trees
    cut = schedule.segments(trees, most)
    rounds = schedule.contract(cut.parent)
    if rounds.rounds > schedule.MAX_ROUNDS:
        raise InputError(f"a cell needs {rounds.rounds} rounds; the limit is {schedule.MAX_ROUNDS}")
    max_cells = int(options["max_cells"] or max(1, forest.num_cells // (4 * limits.compute_units)))
    share = -(-trees.sizes * work_group // max(1, capacity))  # of local memory, as lanes
    widths = list(np.stack((np.diff(cut.offsets), share), axis=1))
    blocks = packing.next_fit(forest, widths, work_group, max_cells)
    lanes = schedule.segment_lanes(cut, rounds, blocks.slot_template, blocks.slot_tree)
    places = layout.SegmentRows(lanes, blocks)
    longest, kind = int(places.rows.shape[-1]), blocks.template
    counts = np.diff(lanes.template_start)
    record = (
        places.block_start,
        places.template_size[kind],
        lanes.template_start[kind],
        (counts | lanes.inner << 16)[kind],
        kind * longest * 2,
        lanes.fetch_start[kind],
        blocks.cell_start[:-1],
        blocks.cell_start[1:],
    )
    tables = {
        "blocks": np.stack(record, axis=1).reshape(-1),
        "cell_number": blocks.cells,
        "rows": places.rows.reshape(-1),
        "links": lanes.links.reshape(-1),
        "siblings": lanes.siblings,
        "fetches": np.append(lanes.fetches, 0),
        "lane_slot": lanes.slot - blocks.slot_start[lanes.template],
        "lane_rank": lanes.first - trees.offsets[blocks.slot_tree[lanes.slot]],
    }
    spec = ContractionSpec(
        real=real,
        symmetric=True,
        rhs=1,
        work_group=work_group,
        capacity=int(places.template_size.max()),
        segment=longest,
        rounds=rounds.rounds,
    )
    used = int((np.bincount(kind) * counts).sum())
    part = Part(
        spec=spec,
        tables=_as_int32(tables, places.size),
        num_units=blocks.num_blocks,
        num_groups=blocks.num_blocks,
        statistics={
            "rounds": rounds.rounds,
            "dependent_steps": 2 * (spec.segment + rounds.rounds),
            "barriers": 2 * (rounds.rounds + 1) * blocks.num_blocks,
            "idle_lanes": 1 - used / (blocks.num_blocks * work_group),
            "cells_per_block": len(blocks.cells) / blocks.num_blocks,
        },
        max_rhs=1,
    )
    return Plan(forest, method, places.gather(forest), (part,))


def _work_group(options: dict[str, Any], limits: Limits, default: int) -> int:
    return int(options["work_group"] or min(default, limits.max_work_group))


def _as_int32(tables: dict[str, np.ndarray], size: int) -> dict[str, np.ndarray]:
    if size > MAX_PLACES:
        raise InputError(f"one plan holds at most {MAX_PLACES} values; this one needs {size}")
    return {name: np.ascontiguousarray(a, np.int32) for name, a in tables.items()}


METHODS: dict[str, Method] = {
    "flat": Method(
        "one work-item a cell, cell after cell",
        "Valero-Lara 2018, Flat; Huber 2018, the old solver",
        _plan_columns,
        {"work_group": None},
    ),
    "interleaved": Method(
        "one work-item a cell, element j of all cells side by side",
        "Valero-Lara 2018, Full-Interleaved; cuThomasBatch on chains",
        _plan_columns,
        {"work_group": None},
    ),
    "block_interleaved": Method(
        "one work-item a cell or a vector of cells, interleaved in blocks",
        "Valero-Lara 2018, Block-Interleaved",
        _plan_columns,
        {"work_group": None, "block_size": None, "vector_width": None},
    ),
    "fine": Method(
        "one work-group a block of cells, one work-item or lane of a vector a branch",
        "Huber 2018, sections 3 to 5",
        _plan_fine,
        {"work_group": None, "max_cells": None, "vector_width": None},
    ),
    "contraction": Method(
        "one work-group a block of cells, one work-item a segment, O(log n) rounds",
        "new here; rake and compress after Miller and Reif 1985",
        _plan_contraction,
        {"work_group": None, "segment": None, "max_cells": None},
    ),
}
