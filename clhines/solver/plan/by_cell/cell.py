"""Methods with a work-item per cell: `flat`, `interleaved`, `block_interleaved`, `block_local`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Any, ClassVar

import numpy as np

from clhines.core.errors import InputError
from clhines.solver.forest import Forest, Trees
from clhines.solver.plan.by_cell import layout
from clhines.solver.plan.kernel_spec import KernelSpec, Word
from clhines.solver.plan.plan import (
    MAX_RHS,
    Limits,
    Options,
    Part,
    Plan,
    as_int32,
    local_size,
    plan_by_kind,
    work_group_size,
)

# `serial_steps`: the node begins its parent's sum in memory; has such a sum; its parent, -1: root
STEP = Word(first=1, waiting=1, parent=29)
MAX_CELL_NODES = STEP.most("parent") + 1


def serial_steps(trees: Trees) -> np.ndarray:
    """Return a `STEP` word for each node in ``trees.order``; elimination runs from its end.

    A node passes its contribution to its parent in registers if the parent is the next step, and
    through memory otherwise. So every sum has a fixed order, without atomics.
    """
    start = np.repeat(trees.offsets[:-1], trees.sizes)
    above = trees.parent[trees.order]
    parent = np.where(above < 0, start - 1, trees.rank[above])
    step = np.arange(len(parent))
    leaves_sum = np.flatnonzero((parent != step - 1) & (parent >= start))
    waiting = np.zeros(len(parent), np.int64)
    waiting[parent[leaves_sum]] = 1
    last = np.full(len(parent), -1)
    np.maximum.at(last, parent[leaves_sum], leaves_sum)
    first = np.zeros(len(parent), np.int64)
    first[last[last >= 0]] = 1
    return STEP.pack(first=first, waiting=waiting, parent=parent - start)


# Nodes that a GPU's work-item reads at once, as it waits long for each read; CPUs prefetch.
AHEAD = 8
AHEAD_ROWS = 10  # if all cells have equal size
AHEAD_CHAINS = 16  # if all cells are chains
# Methods whose kernels are specialised for chains and for a node count, on GPUs only.
SPECIALISED = ("interleaved", "block_interleaved")


@dataclass(frozen=True)
class CellSpec(KernelSpec):
    """Spec of ``cell.mako``: a work-item per cell, or per vector of cells."""

    template: ClassVar[str] = "solver/by_cell/cell"
    step: ClassVar[Word] = STEP
    first_argument: ClassVar[str] = "num_lanes"
    tables: ClassVar[tuple[str, ...]] = (
        "cell_start:place",
        "cell_stride",
        "cell_size",
        "cell_number:cell",
        "code_start",
        "codes:in_order if codes_in_order",
        "codes if not codes_in_order",
    )
    takes: ClassVar[tuple[str, ...]] = (*KernelSpec.takes[:-1], "int *restrict status")
    stride: int  # distance between a cell's values; 0: read from a table
    vector_width: int  # cells per work-item
    same_shape: bool
    codes_in_order: bool  # step codes are in device order, not shape after shape
    rhs_local: int
    ahead: int  # nodes that are read at once, with one cell and one right-hand side
    rows: int  # nodes in each cell; 0 if cells differ
    chains: bool  # each node is the previous node's only child: there are no step codes

    @property
    def variant(self) -> str:
        size = f" of {self.rows} nodes" if self.rows else ""
        return f"written for {'chains' if self.chains else 'cells' if size else 'any cells'}{size}"

    @property
    def vector(self) -> int:
        """Number of cells in a vector variable; 1 if the cells' shapes differ."""
        return self.vector_width if self.same_shape else 1

    @property
    def lanes(self) -> int:
        """Number of cells that a work-item solves side by side in scalar variables."""
        return 1 if self.vector > 1 else self.vector_width

    @property
    def mask(self) -> str:
        """OpenCL type of a comparison's result."""
        whole = "long" if self.real == "double" else "int"
        return whole + (str(self.vector) if self.vector > 1 else "")

    @property
    def nodes_ahead(self) -> int:
        return max(1, self.ahead // self.rhs) if self.vector_width == 1 else 1

    @property
    def reads_next(self) -> bool:
        """Whether a work-item reads its next nodes while it eliminates those read before."""
        return self.nodes_ahead > 1 and bool(self.rows or self.chains)

    @property
    def read_by(self) -> dict[str, list[str]]:
        """Names of the arrays that each sweep reads."""
        below = [] if self.symmetric else ["l"]
        return {"eliminate": ["d", "u", "b", *below], "substitute": ["f", "x"]}

    @property
    def code(self) -> str:
        """OpenCL expression for the `STEP` code of node `at`, see `serial_steps`."""
        return "codes[place]" if self.codes_in_order else "codes[code_start[cell] + at]"

    def rhs_of(self, node: str, place: str) -> str:
        """Return the OpenCL expression for the right-hand side of a node of this cell.

        `node` and `place` are OpenCL expressions: the node's number in the cell, and its index in
        global memory.
        """
        return f"KEPT({node})" if self.rhs_local else f"load(x, {place} + shift)"

    def keep_rhs(self, node: str, place: str, value: str) -> str:
        """Return the OpenCL statement that stores `value` as a node's right-hand side.

        All arguments are OpenCL expressions, as in `rhs_of`.
        """
        if self.rhs_local:
            return f"KEPT({node}) = {value};"
        return f"store(x, {place} + shift, {value});"

    def value_of(self, array: str) -> str:
        """Return the OpenCL expression for the value of `array` at node `at`.

        If the kernel has read several nodes ahead, this is a private copy, else a load.
        """
        if self.nodes_ahead > 1:
            return f"{array}_read[k]" + ("[r]" if array == "b" else "")
        return f"load({array}, place{' + shift' if array == 'b' else ''})"


def plan_cells(forest: Forest, method: str, real: str, limits: Limits, options: Options) -> Plan:
    vector, block = _column_widths(method, forest.num_cells, real, limits, options)
    work_group = work_group_size(options, limits, 1 if limits.is_cpu else 64)
    return _plan_columns(forest, method, real, vector, block, work_group, limits.is_cpu)


def plan_block_local(
    forest: Forest, method: str, real: str, limits: Limits, options: Options
) -> Plan:
    """Plan `block_local`: right-hand sides in local memory (Valero-Lara et al. 2018, 3.1)."""
    itemsize = 8 if real == "double" else 4
    room = limits.local_bytes // itemsize

    def plan_some(part: Forest, _: np.ndarray, large: int) -> Plan:
        if large:
            rest: Options = {"work_group": None, "block_size": None, "vector_width": None}
            return plan_cells(part, "block_interleaved", real, limits, rest)
        block = _cells_per_local_block(part, real, limits, options["block_size"])
        values = block * int(part.sizes.max())
        values = min(local_size(values, room, limits.is_cpu), room)
        most = min(MAX_RHS, room // values)
        return _plan_columns(part, method, real, 1, block, block, limits.is_cpu, values, most)

    plan = plan_by_kind(forest, method, forest.sizes > room, plan_some)
    parts = [
        replace(p, statistics={**p.statistics, "local_bytes": p.spec.rhs_local * itemsize})
        for p in plan.parts
    ]
    return replace(plan, parts=tuple(parts))


def _cells_per_local_block(
    forest: Forest, real: str, limits: Limits, block_size: int | None
) -> int:
    itemsize = 8 if real == "double" else 4
    largest = int(forest.sizes.max())
    fits = limits.local_bytes // itemsize // largest
    if block_size is None:
        wide = limits.vector_bytes // itemsize if limits.is_cpu else 64
        return 1 << min(wide, fits, limits.max_work_group, forest.num_cells).bit_length() - 1
    if block_size > limits.max_work_group:
        raise InputError(
            f"block_size={block_size} is above the device's limit of {limits.max_work_group} "
            "work-items"
        )
    if block_size > fits:
        raise InputError(
            f"block_size={block_size} needs {block_size * largest * itemsize} bytes of local "
            f"memory for cells of {largest} nodes; the device has {limits.local_bytes}, enough "
            f"for {fits}"
        )
    return int(block_size)


def _plan_columns(
    forest: Forest,
    method: str,
    real: str,
    vector: int,
    block: int,
    work_group: int,
    is_cpu: bool,
    rhs_local: int = 0,
    max_rhs: int = MAX_RHS,
) -> Plan:
    """Plan cells in blocks of `block` lanes, with `vector` lanes per work-item.

    `rhs_local` is how many values of a right-hand side are in local memory; a launch has up to
    `max_rhs` right-hand sides.
    """
    whole = vector > 1
    columns = layout.columns(forest, block, whole_shapes=whole)
    if whole and columns.size > 1.25 * forest.num_nodes:  # too few cells per shape
        columns, whole = layout.columns(forest, block), False
    lanes = columns.cells
    shape = np.where(lanes < 0, -1, forest.shape_of_cell[lanes])
    per_shape = (vector > 1 and whole) or forest.trees.num_trees * 2 <= forest.num_cells
    codes, code_start = _step_codes(forest, columns, shape, bool(per_shape))
    stride = columns.stride
    spec = CellSpec(
        real=real,
        stride=int(stride[0]) if (stride == stride[0]).all() else 0,
        vector_width=vector,
        same_shape=whole or vector == 1,
        codes_in_order=not per_shape,
        work_group=work_group,
        rhs_local=rhs_local,
        **_in_common(forest, lanes, method, is_cpu),
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
        tables=as_int32(tables, columns.size),
        num_units=len(lanes),
        num_groups=-(-items // spec.work_group),
        statistics={
            "dependent_steps": int(forest.sizes.max()) * 2,
            "idle_lanes": 1 - forest.num_nodes / max(1, columns.size),
        },
        max_rhs=max_rhs,
    )
    return Plan(forest, method, gather, (part,))


def _in_common(forest: Forest, lanes: np.ndarray, method: str, is_cpu: bool) -> dict[str, Any]:
    """Return the `CellSpec` fields that depend on all cells; `lanes` has each lane's cell or -1."""
    specialised, sizes = method in SPECIALISED and not is_cpu, forest.sizes
    equal = lanes.min() >= 0 and sizes.min() == sizes.max()  # idle lanes have no rows
    chains = bool(specialised and (forest.trees.num_children <= 1).all())
    rows = int(sizes[0]) if specialised and equal else 0
    ahead = AHEAD_CHAINS if chains else AHEAD_ROWS if rows else AHEAD
    return {"ahead": 1 if is_cpu else ahead, "rows": rows, "chains": chains}


def _column_widths(
    method: str, num_cells: int, real: str, limits: Limits, options: Options
) -> tuple[int, int]:
    if method != "block_interleaved":
        return 1, (1 if method == "flat" else 0)
    itemsize = 8 if real == "double" else 4
    native = max(1, limits.vector_bytes // itemsize) if limits.is_cpu else 1
    while native > num_cells:  # a wider vector would only be padded
        native //= 2
    vector = int(options["vector_width"] or native)
    wide = vector if limits.is_cpu else max(vector, min(64, -(-num_cells // vector) * vector))
    block = int(options["block_size"] or wide)
    if options["vector_width"] is None:
        vector = gcd(vector, block)  # a width that divides the requested block
    if block % vector:
        raise InputError(f"block_size={block} is not a multiple of vector_width={vector}")
    return vector, min(block, -(-num_cells // vector) * vector)


def _step_codes(
    forest: Forest, columns: layout.Columns, shape: np.ndarray, per_shape: bool
) -> tuple[np.ndarray, np.ndarray]:
    trees = forest.trees
    codes = serial_steps(trees)
    if per_shape:
        return codes, np.where(shape < 0, 0, trees.offsets[shape])
    out = np.zeros(columns.size, np.int32)
    values = np.split(codes, trees.offsets[1:-1])
    layout.fill_columns(out, columns, shape, values, np.zeros(len(shape), np.int32))
    return out, columns.start
