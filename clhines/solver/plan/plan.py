"""`Plan`: launches with their index tables; `Limits`: properties of the device it is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import numpy as np
from numpy.typing import DTypeLike

from clhines.core.arrays import ranges
from clhines.core.errors import InputError, meant, shown
from clhines.core.files import PathLike
from clhines.core.summary import counted
from clhines.solver.forest import Forest
from clhines.solver.plan import export, layout

MAX_PLACES = (1 << 31) - 1  # values in a plan: kernels have 32-bit indices
COARSE = 256  # local arrays up to this many values may be larger than needed
SMALL = 512  # smallest such array on a CPU, where untouched values cost nothing
MAX_RHS = 4  # right-hand sides per launch
STREAM_BYTES = 2 << 20  # larger solutions bypass a CPU's caches
WIDEST_VECTOR = 128  # bytes: OpenCL's widest vector has 16 doubles


@dataclass(frozen=True)
class Limits:
    """Properties of a device that planning depends on; the defaults describe a mid-size GPU."""

    compute_units: int = 64
    max_work_group: int = 256  # work-items
    is_cpu: bool = False
    vector_bytes: int = 16  # vector width to use
    trusted_bytes: int = WIDEST_VECTOR  # largest width that the compiler gets right
    local_bytes: int = 48 << 10  # local memory per work-group
    ptx: bool = False  # the compiler supports inline PTX (NVIDIA's)
    bulk: bool = False  # the device copies in bulk into local memory (NVIDIA's from 9.0 on)
    clang: bool = False  # the compiler supports Clang's builtin functions
    vectorises: bool = False  # the compiler makes work-items vector lanes (Intel's)


Option = int | str | None  # an option's value


class Options(TypedDict, total=False):
    """Options of the methods; None leaves the choice to the method."""

    work_group: int | None
    block_size: int | None
    vector_width: int | None
    padding: str | None
    local: bool | None
    switch: int | None
    segment: int | None
    max_cells: int | None
    split: str | None
    packing: str | None
    level_shift: bool
    registers: bool | None


@dataclass(frozen=True, eq=False)
class Part:
    """One kernel of a plan, for some or all cells, and its launches, usually one.

    `source` and `target` number the arrays that the launches read and write: 0 for the batch, k for
    the k-th set of `Plan.scratch`. `launches` has, for each launch, the kernel's first argument and
    the number of work-groups.
    """

    spec: Any  # such as `CellSpec`; `rhs` and `symmetric` are for a plain solve
    tables: dict[str, np.ndarray]  # int32, in the order of the kernel's arguments
    num_units: int  # cells or blocks, idle lanes included
    num_groups: int  # work-groups in all launches
    statistics: dict[str, int | float] = field(default_factory=dict)
    source: int = 0
    target: int = 0
    max_rhs: int = MAX_RHS  # in one launch
    launches: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if not self.launches:
            object.__setattr__(self, "launches", ((self.num_units, self.num_groups),))

    @property
    def phase(self) -> str:
        return str(self.spec.phase)

    @property
    def takes_natural(self) -> bool:
        """Whether the launch can use natural order; a reduced system has no other order."""
        return bool(self.source or self.spec.takes_natural)

    def finds_infinite(self, rows: int) -> bool:
        """Whether a launch in natural order for `rows` right-hand sides finds infinite or NaN x."""
        return bool(self.spec.finds_infinite) and not self.source and rows <= self.max_rhs

    @property
    def keeps_factors(self) -> bool:
        """Whether the launch can compute the inverse pivots once, and use them in later solves."""
        return bool(self.spec.keeps_factors) and self.phase == "solve" and self.source == 0

    def solve_spec(self, symmetric: bool, rhs: int, factor: str = "", natural: bool = False) -> Any:
        """Return the spec of the kernel for `rhs` right-hand sides.

        `factor` is "make" or "use" for kernels that keep factors, see `ContractionSpec`.
        """
        more: dict[str, Any] = {"factor": factor} if factor else {}
        if natural:
            more["natural"] = True
        symmetric |= self.phase == "forward"  # this phase does not read the matrix
        return replace(self.spec, symmetric=symmetric, rhs=rhs, **more)

    @property
    def _reorders(self) -> bool:
        """Whether a launch in natural order needs other tables than `Plan.gather`."""
        if "blocks" not in self.tables or self.source:
            return False
        return "order" in self.solve_spec(True, 1, natural=True).roles()

    @property
    def _reads_cells(self) -> bool:
        """Whether a launch in natural order needs the first node of each cell."""
        return not self.source and "cell_start" in self.solve_spec(True, 1, natural=True).roles()

    def natural_tables(self, forest: Forest, gather: np.ndarray) -> dict[str, np.ndarray]:
        """Return the tables, int32, that kernels for arrays in natural order read besides others.

        `gather` has the node at each device index, as in the plan.
        """
        if self._reads_cells:
            return as_int32({"cell_start": forest.cell_offsets}, len(gather))
        if not self._reorders:
            return {}
        blocks, cells = self.tables["blocks"].reshape(-1, 8), self.tables["cell_number"]
        if self.phase != "solve":
            tables = layout.natural_pieces(gather, blocks[:, 0], blocks[:, 1], blocks[:, 4])
            if self.phase != "expand":
                del tables["natural_index"]  # the launch that expands has it
        else:
            tables = layout.natural_order(
                forest, gather, cells, blocks[:, 0], blocks[:, 1], blocks[:, 4], blocks[:, 6:]
            )
        return as_int32(tables, len(gather))

    def natural_sizes(self, forest: Forest) -> dict[str, int]:
        if self._reads_cells:
            return {"cell_start": forest.num_cells + 1}
        if not self._reorders:
            return {}
        blocks, cells = self.tables["blocks"].reshape(-1, 8), self.tables["cell_number"]
        if self.phase != "solve":
            _, model = np.unique(blocks[:, 4], return_index=True)
            sizes = {"order_start": 2 * len(blocks), "order": int(blocks[model, 1].sum())}
            end = int((blocks[:, 0] + blocks[:, 1]).max())
            return sizes | ({"natural_index": end} if self.phase == "expand" else {})
        return layout.natural_sizes(forest, cells, blocks[:, 4], blocks[:, 6:])

    def shown_statistics(self) -> dict[str, str]:
        return {
            name.replace("_", " "): f"{value:.1%}" if name == "idle_lanes" else f"{value:.6g}"
            for name, value in self.statistics.items()
        }

    def moved(self, first_place: int, cells: np.ndarray, scratch: int) -> Part:
        """Return this part with its tables shifted for a larger plan that combines several.

        In the larger plan this part's values start at `first_place`, its cell k is cell
        ``cells[k]``, and its scratch set k is set ``scratch + k``. `KernelSpec` says how each table
        is shifted.
        """
        tables = dict(self.tables)
        for name, role in self.spec.roles().items():
            if name not in tables or (self.source and role != "cell"):
                continue
            if role.startswith("place"):
                tables[name] = tables[name].copy()
                tables[name][:: int(role[6:] or 1)] += np.int32(first_place)
            elif role == "in_order":  # earlier places are not read
                tables[name] = np.pad(tables[name], (first_place, 0))
            elif role == "cell":
                number = tables[name]
                tables[name] = np.where(number < 0, -1, cells[number]).astype(np.int32)
        source, target = (k + scratch if k else 0 for k in (self.source, self.target))
        return replace(self, tables=tables, source=source, target=target)

    def deeper(self) -> Part:
        """Return this part for a plan in which its batch is the reduced system of a larger one.

        It then reads and writes the next set of scratch arrays.
        """
        target = self.target + 1 if self.target else 0
        spec = replace(self.spec, derived=True)
        return replace(self, spec=spec, source=self.source + 1, target=target)


@dataclass(frozen=True, eq=False)
class Plan:
    """How a batch is solved: launches, layout and cost.

    Attributes
    ----------
    forest : Forest
        The forest that is solved: the caller's, or one with more branches and the same nodes.
    method : str
    gather : (packed_size,) int32
        ``packed[i] = natural[gather[i]]``; -1 marks padding.
    parts : tuple of Part
        Launches, in order; each has its own cells, and its own range of the arrays.
    scratch : tuple of int
        Lengths of further sets of arrays, for reduced systems or for values that one launch leaves
        for the next.
    summary : str
        Description of the method, in a few words.
    changes : dict of name -> text
        Options that change the forest or the launches.
    """

    forest: Forest
    method: str
    gather: np.ndarray
    parts: tuple[Part, ...]
    scratch: tuple[int, ...] = ()
    summary: str = ""
    changes: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        launches = f"{len(self.parts)} launch" + ("es" if len(self.parts) > 1 else "")
        cells, nodes = self.forest.num_cells, self.forest.num_nodes
        batch = f"{counted(cells, 'cell')}, {counted(nodes, 'node')}"
        return f"Plan({self.method}: {batch}, {launches})"

    @property
    def packed_size(self) -> int:
        """Length of one array in device order, padding included."""
        return len(self.gather)

    @property
    def takes_natural(self) -> bool:
        """Whether all launches can read and write natural order."""
        return all(part.takes_natural for part in self.parts)

    @property
    def needs_factor(self) -> bool:
        """Whether any launch needs a scratch array in device order for the factors."""
        return any(part.spec.needs_factor for part in self.parts)

    def bytes_needed(self, itemsize: int, arrays: int = 5) -> int:
        """Return the device memory for the tables and `arrays` arrays in device order, bytes."""
        tables = sum(t.nbytes for part in self.parts for t in part.tables.values())
        values = self.packed_size + sum(self.scratch)
        return values * itemsize * arrays + self.gather.nbytes + tables

    def describe(self) -> str:
        """Return a short table of the plan, as text."""
        forest = self.forest
        lines = [
            f"method            {self.method}",
            f"                  {self.summary}",
            f"cells             {forest.num_cells} ({forest.trees.num_trees} distinct shapes)",
            f"nodes             {forest.num_nodes}",
            f"branches          {forest.num_branches}",
            f"height            {int(forest.heights.max())} nodes at most",
            f"padding           {self.packed_size / forest.num_nodes - 1:.1%} of the nodes",
            f"memory            {self._memory()}",
        ]
        lines += [f"{name.replace('_', ' '):<18}{text}" for name, text in self.changes.items()]
        for part in self.parts:
            names = [part.spec.template.rpartition("/")[2], part.spec.variant]
            lines.append(f"kernel            {', '.join(filter(None, names))}")
            lines.append(f"  work-groups     {part.num_groups} of {part.spec.work_group}")
            for name, text in part.shown_statistics().items():
                lines.append(f"  {name:<16}{text}")
        return "\n".join(lines)

    def _memory(self) -> str:
        itemsize = 8 if self.parts[0].spec.real == "double" else 4
        return f"{self.bytes_needed(itemsize) / 2**20:.3g} MiB: d, u, b, x, factors, tables"

    def export(self, folder: PathLike, symmetric: bool = True) -> None:
        """Write the kernels, their tables and a manifest, for programs in C and C++.

        `Solver.export` adds the kernels compiled for its device. `solver.plan.export` describes the
        files; docs/howto/export.md has programs that read them.

        Parameters
        ----------
        folder : str or path
            Made if it does not exist; files with the same names are replaced.
        symmetric : bool
            False: for matrices with `l`.

        Raises
        ------
        InputError
            A method other than `flat`, `interleaved`, `fine` and `contraction`, or a folder that
            cannot be written.
        """
        export.write_plan(self, folder, symmetric)


def real_name(dtype: DTypeLike) -> str:
    try:
        checked = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError):  # SyntaxError: NumPy parses texts with commas
        checked = None
    if checked == np.float64:
        return "double"
    if checked == np.float32:
        return "float"
    raise InputError(
        f"dtype {shown(dtype)} is not supported; expected float64 or float32"
        f"{meant(dtype, ('float64', 'float32'))}"
    )


def work_group_size(options: Options, limits: Limits, default: int) -> int:
    return int(options["work_group"] or min(default, limits.max_work_group))


def coarse(needed: int, room: int, least: int = 1) -> int:
    """Return a local array's size for `needed` values: a power of 2, so that few kernels are built.

    It is `least` or more, but at most `room`.
    """
    return max(needed, min(max(least, 1 << (needed - 1).bit_length()), room))


def local_size(needed: int, room: int, is_cpu: bool) -> int:
    """Return a local array's size: `coarse` on CPUs or up to `COARSE` values, else `needed`."""
    needed = int(layout.aligned(needed))
    size = coarse(needed, room, SMALL if is_cpu else 1)
    return size if is_cpu or size <= COARSE else needed


def as_int32(tables: dict[str, np.ndarray], size: int) -> dict[str, np.ndarray]:
    if size > MAX_PLACES:
        raise InputError(f"one plan holds at most {MAX_PLACES} values; this one needs {size}")
    return {name: np.ascontiguousarray(a, np.int32) for name, a in tables.items()}


def plan_by_kind(
    forest: Forest, method: str, kind: np.ndarray, plan: Callable[[Forest, np.ndarray, int], Plan]
) -> Plan:
    """Plan each class of cells by itself, and combine the plans.

    `kind`, (num_cells,), is the class of each cell. ``plan(forest, cells, kind)`` plans one class.
    """
    plans = []
    for k in np.unique(kind).tolist():
        cells = np.flatnonzero(kind == k)
        part = forest if len(cells) == forest.num_cells else forest.subset(cells)
        plans.append((cells, plan(part, cells, k)))
    if len(plans) == 1:
        return replace(plans[0][1], method=method)
    return _combine(forest, method, plans)


def _combine(forest: Forest, method: str, plans: list[tuple[np.ndarray, Plan]]) -> Plan:
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
