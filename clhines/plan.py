"""Plans: a method applied to a forest, as tables for the device and numbers to judge it by.

A method is a row of `METHODS`; `make_plan` turns a row, a forest and the limits of a device into
a `Plan`. Nothing here needs a device or OpenCL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any, ClassVar

import numpy as np

from clhines import choice, layout, packing, schedule
from clhines.choice import Candidate
from clhines.errors import InputError
from clhines.forest import Forest, Trees, ranges
from clhines.pieces import Pieces, split_cells
from clhines.schedule import KEPT_VALUES, NO_LANE

CACHE_BYTES = 336 << 10  # what a block may keep in local memory on a CPU, to stay in its L2 cache
STREAM_BYTES = 2 << 20  # a solution of more bytes is stored past the caches of a CPU
MAX_RHS = 4  # right-hand sides that kernels take at once, where they take several
MAX_PLACES = (1 << 31) - 1  # positions are 32-bit on the device; larger batches are sliced

USUAL_LANES = 128  # of a work-group of `contraction`
USUAL_PLACES = 1056  # values of each of its arrays in local memory

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
    ptx : bool
        The compiler takes inline PTX (NVIDIA's).
    """

    compute_units: int = 64
    max_work_group: int = 256
    is_cpu: bool = False
    vector_bytes: int = 16
    local_bytes: int = 48 << 10
    ptx: bool = False


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
    ptx : bool
        The compiler takes inline PTX.
    phase : str
        ``solve``; or ``reduce`` pieces of cells to the trees of their kept nodes, and
        ``expand`` the solution of these to all nodes.
    shared : bool
        Several work-groups, or launches, share a cell.
    derived : bool
        The system stands for a larger one: a bad value may come from any node of it.
    factor : str
        ``make``: write the inverse pivots, of d and u alone; ``use``: take these for `d`; or
        empty: solve from d, u and b.
    natural : bool
        d, u, l, b and x are in natural order.
    """

    template: ClassVar[str] = "contraction"
    real: str
    symmetric: bool
    rhs: int
    work_group: int
    capacity: int
    segment: int
    ptx: bool
    phase: str = "solve"
    shared: bool = False
    derived: bool = False
    factor: str = ""
    natural: bool = False


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
    source, target : int
        Arrays that the launch works on: 0 the batch, k the k-th of `Plan.scratch`; and those
        that it reduces to or expands from.
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
    source: int = 0
    target: int = 0
    max_rhs: int = MAX_RHS

    @property
    def needs_factor(self) -> bool:
        """Whether the kernel takes a scratch array in device order for the factors."""
        return not isinstance(self.spec, ContractionSpec)

    @property
    def phase(self) -> str:
        """What the launch does: ``solve``, ``reduce`` or ``expand``."""
        return getattr(self.spec, "phase", "solve")

    @property
    def factor_may_be_d(self) -> bool:
        """Whether the factors may take the place of `d`: not where pivots are looked at again."""
        return not isinstance(self.spec, FineVectorSpec)

    @property
    def takes_natural(self) -> bool:
        """Whether the launch can read and write natural order."""
        return self.keeps_factors

    @property
    def keeps_factors(self) -> bool:
        """Whether the launch can work out the inverse pivots once and solve with them."""
        whole = isinstance(self.spec, ContractionSpec) and self.phase == "solve"
        return whole and self.source == 0

    def solve_spec(self, symmetric: bool, rhs: int, factor: str = "", natural: bool = False) -> Any:
        """Spec of the kernel for `rhs` right-hand sides, with or without `l`.

        Parameters
        ----------
        factor : str
            As in `ContractionSpec`, where the launch keeps factors.
        natural : bool
            As there, where the launch takes natural order.
        """
        more: dict[str, Any] = {"factor": factor} if factor else {}
        if natural:
            more["natural"] = True
        return replace(self.spec, symmetric=symmetric, rhs=rhs, **more)

    def natural_tables(self, forest: Forest, gather: np.ndarray) -> dict[str, np.ndarray]:
        """More tables, int32, of a launch that takes natural order; `gather` is the plan's."""
        blocks, cells = self.tables["blocks"].reshape(-1, 8), self.tables["cell_number"]
        tables = layout.natural_order(
            forest, gather, cells, blocks[:, 0], blocks[:, 1], blocks[:, 4], blocks[:, 6:]
        )
        return _as_int32(tables, len(gather))

    def moved(self, first_place: int, cells: np.ndarray, scratch: int) -> Part:
        """Return the same launch as a part of a larger plan.

        Parameters
        ----------
        first_place : int
            Where its device order begins.
        cells : (num_cells,) integer
            Number in the whole batch of each cell of this part.
        scratch : int
            Scratch arrays before its own.
        """
        tables = dict(self.tables)
        for name in ("cell_start", "block_start", "blocks") if not self.source else ():
            if name in tables:
                tables[name] = tables[name].copy()
                tables[name][:: 8 if name == "blocks" else 1] += np.int32(first_place)
        if "node_rank" in tables and not self.source:  # places before its own are not read
            tables["node_rank"] = np.pad(tables["node_rank"], (first_place, 0))
        number = tables["cell_number"]
        tables["cell_number"] = np.where(number < 0, -1, cells[number]).astype(np.int32)
        source, target = (k + scratch if k else 0 for k in (self.source, self.target))
        return replace(self, tables=tables, source=source, target=target)

    def deeper(self) -> Part:
        """Return the same launch on the next scratch arrays."""
        target = self.target + 1 if self.target else 0
        spec = replace(self.spec, derived=True)
        return replace(self, spec=spec, source=self.source + 1, target=target)


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
        Launches, in order; each works on its own cells, in its own stretch of its arrays.
    scratch : tuple of int
        Lengths of further sets of arrays, of systems that stand for larger ones.
    """

    forest: Forest
    method: str
    gather: np.ndarray
    parts: tuple[Part, ...]
    scratch: tuple[int, ...] = ()

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
        values = self.packed_size + sum(self.scratch)
        return values * itemsize * arrays + self.gather.nbytes + tables

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
        ``auto``, the first of `candidate_plans`, or a name in `METHODS`.
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
        return next(candidate_plans(forest, dtype, limits, **options))[1]
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


def candidate_plans(
    forest: Forest, dtype: Any, limits: Limits, **options: Any
) -> Iterator[tuple[Candidate, Plan]]:
    """Yield what `auto` may stand for, with its plan, fastest first by the cost model.

    Candidates that the forest or the device refuses are passed over, and so are those that do not
    know one of the `options`, which override the candidate's own.

    Raises
    ------
    InputError
        No candidate can be planned; says why the first one could not.
    """
    real_name(dtype)
    refused: InputError | None = None
    yielded: list[tuple[str, dict[str, Any]]] = []
    for candidate, _ in choice.ranked(forest, dtype, limits):
        asked = {**candidate.options, **options}
        if (candidate.method, asked) in yielded:  # the options made it one of those before
            continue
        try:
            plan = make_plan(forest, candidate.method, dtype, limits, **asked)
        except InputError as error:
            refused = refused or error
            continue
        yielded.append((candidate.method, asked))
        yield Candidate(candidate.method, asked), plan
    if not yielded and refused is not None:
        raise refused


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
    """Row `contraction`; cells above local memory in pieces, stars among them by `fine`."""
    return _contraction(forest, method, real, limits, options, None)


def _contraction(
    forest: Forest,
    method: str,
    real: str,
    limits: Limits,
    options: dict[str, Any],
    ranks: np.ndarray | None,
) -> Plan:
    """Plan cells that fit into local memory, those above it, and put the launches together.

    Parameters
    ----------
    ranks : (n,) integer, optional
        Of a system that stands for a larger one: the place of each node in the elimination
        order of its cell there.
    """
    most = int(options["segment"] or 0) or _segment(forest, real, limits, options)
    if most > schedule.MAX_SEGMENT:
        raise InputError(f"segment={most} is above the limit of {schedule.MAX_SEGMENT} nodes")
    cut = _cut(forest.trees, most)
    kind = _classes(forest, cut, real, limits, options)
    build = _Contraction(method, real, limits, options, most)
    plans = []
    for k in np.unique(kind):
        cells = np.flatnonzero(kind == k)
        part = forest if len(cells) == forest.num_cells else forest.take(cells)
        mine = ranks
        if ranks is not None:
            mine = ranks[ranges(forest.cell_offsets[cells], forest.sizes[cells])]
        plans.append((cells, (build.large if k == 2 else build.small)(part, mine)))
    if len(plans) == 1:
        return plans[0][1]
    return _combine(forest, method, plans)


def _segment(forest: Forest, real: str, limits: Limits, options: dict[str, Any]) -> int:
    """Nodes of a segment: 16, or fewer for batches so small that only latency counts."""
    if forest.num_nodes >= USUAL_PLACES * 2 * limits.compute_units:
        return 16
    fits = _fits(_cut(forest.trees, 16), real, limits, options)
    for most in (4, 8):
        if (_fits(_cut(forest.trees, most), real, limits, options) >= fits).all():
            return most
    return 16


def _fits(cut: _Cut, real: str, limits: Limits, options: dict[str, Any]) -> np.ndarray:
    """(num_trees,) bool: trees that fit into a work-group and its local memory."""
    most = min(limits.max_work_group, NO_LANE - 1)
    if (options["work_group"] or 0) > most:
        raise InputError(f"work_group={options['work_group']} is above contraction's {most} lanes")
    most = options["work_group"] or most
    group = options["work_group"] or -(-np.minimum(cut.lanes, most) // 32) * 32
    return (cut.lanes <= most) & (cut.places <= _local_capacity(real, limits, group))


def _classes(
    forest: Forest, cut: _Cut, real: str, limits: Limits, options: dict[str, Any]
) -> np.ndarray:
    """(num_cells,) int64: 0 for the usual cells, 1 for larger ones that fit, 2 for all above.

    Classes 0 and 1 are one where the batch is too small to fill the device twice.
    """
    fits = _fits(cut, real, limits, options)
    usual = (cut.lanes <= USUAL_LANES) & (cut.places <= USUAL_PLACES)
    if options["work_group"] or forest.num_nodes < USUAL_PLACES * 8 * limits.compute_units:
        usual = fits
    return np.where(usual & fits, 0, np.where(fits, 1, 2))[forest.shape_of_cell]


def _local_capacity(real: str, limits: Limits, work_group: Any) -> Any:
    """Nodes that fit into local memory: three values a node, and three a lane."""
    values = (limits.local_bytes - 8 * schedule.MAX_SEGMENT) // (8 if real == "double" else 4)
    return np.maximum(0, values - 3 * work_group) // 3 // layout.ALIGNMENT * layout.ALIGNMENT


@dataclass(frozen=True, eq=False)
class _Cut:
    """Trees cut into segments, and how these are contracted.

    Attributes
    ----------
    lanes, places : (num_trees,) int64
        Segments, and the local memory that each tree takes: its nodes, mostly, as five values
        an inner segment lie where `u` of the leaf segments was.
    kept : (num_segments,) int64
        Number of each segment that is kept among those of its tree, else -1.
    """

    segments: schedule.Segments
    contraction: schedule.Contraction
    lanes: np.ndarray
    places: np.ndarray
    kept: np.ndarray


def _cut(trees: Trees, most: int, ends: np.ndarray | None = None) -> _Cut:
    """Cut trees into segments; `ends`, (num_nodes,) bool, are kept and end theirs."""
    ordered = None if ends is None else ends[trees.order]
    cut = schedule.segments(trees, most, ordered)
    pinned = None if ordered is None else ordered[cut.first + cut.length - 1]
    plan = schedule.contract(cut.parent, pinned)
    starts = cut.offsets[:-1]
    leaf = plan.round == schedule.Contraction.LEAF
    inner = np.add.reduceat(~leaf + 0, starts)
    places = trees.sizes + np.maximum(
        0, KEPT_VALUES * inner - np.add.reduceat(np.where(leaf, cut.length, 0), starts)
    )
    is_kept = plan.round == schedule.Contraction.KEPT
    before = np.cumsum(is_kept) - is_kept
    number = before - np.repeat(before[starts], np.diff(cut.offsets))
    return _Cut(cut, plan, np.diff(cut.offsets), places, np.where(is_kept, number, -1))


def _combine(forest: Forest, method: str, plans: list[tuple[np.ndarray, Plan]]) -> Plan:
    """One plan of several for different cells: their device orders one after another."""
    parts: list[Part] = []
    gathers, start, scratch = [], 0, 0
    for cells, plan in plans:
        natural = ranges(forest.cell_offsets[cells], forest.sizes[cells])
        gather = np.where(plan.gather < 0, -1, natural[plan.gather]).astype(np.int32)
        parts += [part.moved(start, cells, scratch) for part in plan.parts]
        gathers.append(gather)
        start += len(gather)
        scratch += len(plan.scratch)
    sizes = tuple(size for _, plan in plans for size in plan.scratch)
    return Plan(forest, method, np.concatenate(gathers), tuple(parts), sizes)


@dataclass(frozen=True)
class _Contraction:
    """What all launches of a contraction plan share."""

    method: str
    real: str
    limits: Limits
    options: dict[str, Any]
    most: int

    def small(self, forest: Forest, ranks: np.ndarray | None) -> Plan:
        """Cells that fit into local memory."""
        cut = _cut(forest.trees, self.most)
        group, blocks, lanes, places = self._blocks(forest, cut)
        gather = places.gather(forest)
        part = self._part("solve", group, forest, blocks, lanes, places, _on_device(ranks, gather))
        return Plan(forest, self.method, gather, (part,))

    def large(self, forest: Forest, ranks: np.ndarray | None) -> Plan:
        """Cells above local memory: reduced in pieces, solved, expanded; stars by `fine`."""
        group = min(int(self.options["work_group"] or USUAL_LANES), self.limits.max_work_group)
        capacity = min(USUAL_PLACES, int(_local_capacity(self.real, self.limits, group)))
        # half a work-group each: these pack better than whole ones
        pieces = split_cells(forest, self.most, capacity // 2, group // 2)
        cut = _cut(pieces.forest.trees, self.most, pieces.ends)
        rest, place = self._rest(pieces, cut, forest.num_cells)
        stars = rest.sizes * 4 > forest.sizes  # hardly smaller: too many pieces hang from a node
        if stars.any():
            if ranks is not None:
                raise InputError("a cell is too wide for contraction; use fine")
            return self._with_stars(forest, stars)
        node = pieces.rank[_tree_nodes(pieces.forest)] if ranks is None else ranks[pieces.natural]
        group, blocks, lanes, places = self._blocks(pieces.forest, cut, True)
        gather = places.gather(pieces.forest)
        try:
            inner = _contraction(
                rest, self.method, self.real, self.limits, self.options, node[place]
            )
        except InputError:
            if ranks is not None:
                raise
            return self._with_stars(forest, np.ones(forest.num_cells, bool))
        scatter = np.empty(rest.num_nodes, np.int64)
        real = inner.gather >= 0
        scatter[inner.gather[real]] = np.flatnonzero(real)
        counts = np.add.reduceat((cut.kept >= 0) + 0, cut.segments.offsets[:-1])
        kept_of_piece = counts[pieces.forest.shape_of_cell]
        begin = np.cumsum(kept_of_piece) - kept_of_piece
        # the kept lanes of every block, in the order of their numbers
        is_kept = np.flatnonzero(cut.kept[lanes.segment] >= 0)
        per_template = np.bincount(lanes.template[is_kept], minlength=len(lanes.inner))
        first = np.cumsum(per_template) - per_template
        kind = blocks.template
        lane = is_kept[ranges(first[kind], per_template[kind])]
        block = np.repeat(np.arange(blocks.num_blocks), per_template[kind])
        slot = lanes.slot[lane] - blocks.slot_start[kind[block]]
        piece = blocks.cells[blocks.cell_start[block] + slot]
        tables = {
            "kept_start": np.cumsum(per_template[kind]) - per_template[kind],
            "kept": scatter[begin[piece] + cut.kept[lanes.segment[lane]]],
        }
        whole = replace(blocks, cells=pieces.cell[blocks.cells])
        shared = _on_device(node, gather)
        reduce, expand = (
            self._part(phase, group, pieces.forest, whole, lanes, places, shared, tables)
            for phase in ("reduce", "expand")
        )
        parts = (reduce, *(part.deeper() for part in inner.parts), expand)
        natural = np.where(gather < 0, -1, pieces.natural[gather]).astype(np.int32)
        return Plan(forest, self.method, natural, parts, (inner.packed_size, *inner.scratch))

    def _with_stars(self, forest: Forest, stars: np.ndarray) -> Plan:
        """Large cells, those that `stars` marks by `fine`."""
        wide, others = np.flatnonzero(stars), np.flatnonzero(~stars)
        options = METHODS["fine"].options
        plans = [(wide, _plan_fine(forest.take(wide), "fine", self.real, self.limits, options))]
        if len(others):
            plans.insert(0, (others, self.large(forest.take(others), None)))
        return _combine(forest, self.method, plans)

    def _rest(self, pieces: Pieces, cut: _Cut, num_cells: int) -> tuple[Forest, np.ndarray]:
        """Return the trees of kept nodes, and the index of each of these in `pieces.forest`."""
        trees, segment = pieces.forest.trees, cut.segments
        kept = np.flatnonzero(cut.kept >= 0)
        tree = np.searchsorted(segment.offsets, kept, side="right") - 1
        last = trees.order[segment.first[kept] + segment.length[kept] - 1]  # nodes of trees
        number = np.full(len(trees.parent), -1)
        number[last] = cut.kept[kept]
        counts = np.bincount(tree, minlength=trees.num_trees)
        first = np.cumsum(counts) - counts
        shape = pieces.forest.shape_of_cell
        which = ranges(first[shape], counts[shape])
        piece = np.repeat(np.arange(len(shape)), counts[shape])
        begin = np.cumsum(counts[shape]) - counts[shape]
        above = cut.contraction.parent[kept[which]]
        parent = np.where(above < 0, -1, begin[piece] + cut.kept[above])
        outside = pieces.above[piece]
        there = np.searchsorted(pieces.forest.cell_offsets, outside, side="right") - 1
        local = outside - pieces.forest.cell_offsets[there] + trees.offsets[shape[there]]
        hung = (above < 0) & (outside >= 0)
        parent = np.where(hung, begin[there] + number[np.where(hung, local, 0)], parent)
        sizes = np.bincount(pieces.cell[piece], minlength=num_cells)
        rest = Forest(parent, np.concatenate(([0], np.cumsum(sizes))))
        place = last[which] - trees.offsets[shape[piece]] + pieces.forest.cell_offsets[piece]
        return rest, place

    def _blocks(
        self, forest: Forest, cut: _Cut, pieces: bool = False
    ) -> tuple[int, packing.Blocks, schedule.SegmentLanes, layout.SegmentRows]:
        """Work-items of a group, cells in blocks, lanes for the segments, places of the nodes.

        Small batches are spread over the device; others, and pieces, are packed tightly.
        """
        limits, num_cells = self.limits, forest.num_cells
        many = max(1, num_cells // (16 * limits.compute_units))
        max_cells = int(self.options["max_cells"] or many)
        least = USUAL_LANES if many > 1 or pieces else 64
        widest = max(-(-int(cut.lanes.max()) // 32) * 32, least)
        group = int(self.options["work_group"] or min(widest, limits.max_work_group, NO_LANE - 1))
        capacity = int(_local_capacity(self.real, limits, group))
        capacity = max(int(cut.places.max()), min(capacity, USUAL_PLACES))
        share = -(-cut.places * group // capacity)  # of local memory, as lanes
        widths = np.stack((cut.lanes, share), axis=1)
        if pieces or (many >= 8 and not self.options["max_cells"]):
            blocks = packing.best_fit(forest.shape_of_cell, widths, group)
        else:
            blocks = packing.next_fit(forest, list(widths), group, max_cells)
        lanes = schedule.segment_lanes(
            cut.segments, cut.contraction, blocks.slot_template, blocks.slot_tree
        )
        return group, blocks, lanes, layout.SegmentRows(lanes, blocks)

    def _part(
        self,
        phase: str,
        work_group: int,
        forest: Forest,
        blocks: packing.Blocks,
        lanes: schedule.SegmentLanes,
        places: layout.SegmentRows,
        node_rank: np.ndarray | None = None,
        more: dict[str, np.ndarray] | None = None,
    ) -> Part:
        """One launch: a work-group a block, a work-item a segment."""
        trees, kind = forest.trees, blocks.template
        longest, counts = int(places.rows.shape[-1]), np.diff(lanes.template_start)
        record = (
            places.block_start,
            places.template_size[kind],
            lanes.template_start[kind],
            (counts | lanes.inner << 16)[kind],
            kind * longest * 2,
            lanes.rounds[kind],
            blocks.cell_start[:-1],
            blocks.cell_start[1:],
        )
        tables = {
            "blocks": np.stack(record, axis=1).reshape(-1),
            "cell_number": blocks.cells,
            "rows": places.rows.reshape(-1),
            "links": lanes.links.reshape(-1),
            "children": lanes.children,
            "lane_slot": lanes.slot - blocks.slot_start[lanes.template],
            "lane_rank": lanes.first - trees.offsets[blocks.slot_tree[lanes.slot]],
            **({} if node_rank is None else {"node_rank": node_rank}),
            **(more or {}),
        }
        spec = ContractionSpec(
            real=self.real,
            symmetric=True,
            rhs=1,
            work_group=work_group,
            capacity=_aligned(
                np.maximum(places.template_size, places.rows[:, 1, 0] + KEPT_VALUES * lanes.inner)
            ),
            segment=longest,
            ptx=self.limits.ptx,
            phase=phase,
            shared=node_rank is not None,
        )
        used = int((np.bincount(kind) * counts).sum())
        return Part(
            spec=spec,
            tables=_as_int32(tables, places.size),
            num_units=blocks.num_blocks,
            num_groups=blocks.num_blocks,
            max_rhs=1,
            target=0 if phase == "solve" else 1,
            statistics={
                "rounds": int(lanes.rounds.max()),
                "dependent_steps": 2 * int(spec.segment + lanes.rounds.max()),
                "barriers": int((2 * lanes.rounds[kind] + 5).sum()),
                "idle_lanes": 1 - used / (blocks.num_blocks * work_group),
                "cells_per_block": len(blocks.cells) / blocks.num_blocks,
            },
        )


def _on_device(values: np.ndarray | None, gather: np.ndarray) -> np.ndarray | None:
    return None if values is None else np.where(gather < 0, 0, values[gather])


def _tree_nodes(forest: Forest) -> np.ndarray:
    """(num_nodes,) int64: index in `forest.trees` of each node."""
    shape = forest.shape_of_cell
    return ranges(forest.trees.offsets[shape], forest.trees.sizes[shape])


def _aligned(sizes: np.ndarray) -> int:
    """Return the largest of `sizes`, rounded up to whole memory transactions."""
    return int(-(-int(sizes.max()) // layout.ALIGNMENT) * layout.ALIGNMENT)


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
