"""The engine of mixed precision: float32 factors, refined with float64 residuals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.arrays import offsets, ranges, stretch_of
from clhines.device import devices, program
from clhines.device.arrays import Array
from clhines.device.program import Argument
from clhines.device.templates import render
from clhines.errors import DeviceMemoryError, InputError, RefinementWarning, warn_caller
from clhines.forest import Forest
from clhines.plan.kernel_spec import TemplateSpec
from clhines.plan.plan import MAX_RHS
from clhines.solve.engines.engine import BadPivots, DeviceOrder, nothing_solved
from clhines.solve.engines.loaded import Step
from clhines.solve.engines.whole import Whole, WholeFactors
from clhines.solve.memory import Buffers, Memory, mixed_buffers, most_buffers, total

EPS = float(np.finfo(np.float64).eps)
GOAL = 2 * EPS  # componentwise backward error at which a cell is not refined further
LIMIT = 4 * EPS  # above this, a warning
MAX_STEPS = 20  # corrections after the first solve
CHUNK = 1024  # nodes of a work-group


@dataclass(frozen=True)
class Refinement:
    """Outcome of the refinement of a solve.

    Attributes
    ----------
    steps : int
        Corrections after the first solve, of the cell and right-hand side with most of them.
    residual : float
        Largest componentwise backward error ``|b - A x|_i / (|A| |x| + |b|)_i`` over all cells
        and right-hand sides, as `clhines.reference.residual` has it; infinite where a cell has no
        finite solution.
    """

    steps: int
    residual: float

    @property
    def reached(self) -> bool:
        """Whether the residual is that of a float64 solution, at most `LIMIT`."""
        return self.residual <= LIMIT


@dataclass(frozen=True)
class ResidualSpec(TemplateSpec):
    """Numbers and switches of ``residual.mako``: one work-group per chunk of a cell's nodes.

    If `symmetric`, ``l`` equals ``u`` and is not passed; `work_group` is a power of two.
    """

    template: ClassVar[str] = "around/residual"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "narrow": (
            "int is_diagonal, const int *restrict chunks, const int *restrict parent",
            "const double *restrict wide, float *restrict narrowed",
            "volatile int *restrict first_bad",
        ),
        "residual": (
            "int num_nodes, int num_cells, int num_chunks, int first_row",
            "const int *restrict chunks, const int *restrict parent",
            "const int *restrict child_start, const int *restrict child",
            "const double *restrict d, const double *restrict u",
            "const double *restrict l if unsymmetric, const double *restrict b",
            "const double *restrict x, const float *restrict dx, const double *restrict scales",
            "double *restrict r, double *restrict chunk_most",
        ),
        "update": (
            "int num_nodes, int num_cells, int num_chunks, double goal",
            "const int *restrict chunks, const int *restrict cell_chunks",
            "const double *restrict chunk_most, const double *restrict r",
            "const float *restrict dx, const double *restrict errors",
            "const double *restrict scales, double *restrict new_errors",
            "double *restrict new_scales, int *restrict active, double *restrict x",
            "float *restrict rounded",
        ),
    }
    symmetric: bool
    work_group: int

    @property
    def unsymmetric(self) -> bool:
        """Whether ``l`` is passed."""
        return not self.symmetric


def is_mixed(dtype: object) -> bool:
    """Whether this is the name ``mixed``, which is no dtype of NumPy's."""
    return isinstance(dtype, str) and dtype == "mixed"


def refinement_tables(forest: Forest) -> dict[str, np.ndarray]:
    """Tables of ``residual.mako``, int32.

    A row of ``chunks`` has the first node, the end, the cell, and the offset from a node to its
    number in the distinct trees; ``cell_chunks`` is (num_cells + 1,). ``parent``, ``child_start``
    and ``child`` are of the distinct trees, in their own numbers; children in increasing order.
    """
    trees = forest.trees
    counts = -(-forest.sizes // CHUNK)
    cell = np.repeat(np.arange(forest.num_cells), counts)
    begin = forest.cell_offsets
    first = begin[cell] + ranges(np.zeros(len(counts), np.int64), counts) * CHUNK
    shift = (trees.offsets[forest.shape_of_cell] - begin[:-1])[cell]
    chunks = np.stack((first, np.minimum(first + CHUNK, begin[cell + 1]), cell, shift), axis=1)
    inner = np.flatnonzero(trees.parent >= 0)
    child = inner[np.argsort(trees.parent[inner], kind="stable")]
    tables = {
        "chunks": chunks,
        "cell_chunks": offsets(counts),
        "parent": trees.parent,
        "child_start": offsets(trees.num_children),
        "child": np.append(child, -1),  # never empty
    }
    return {name: np.ascontiguousarray(a, np.int32) for name, a in tables.items()}


def bytes_beside(forest: Forest, rows: int) -> int:
    """Device memory for `rows` right-hand sides, beside that of the float32 solver."""
    return total(mixed_buffers(forest, CHUNK, 4, rows))


class Mixed:
    """Engine: eliminations in float32, and refinement with float64 residuals.

    `rounded` has the same forest and method in float32, on a device that has float64. Both may use
    `memory` bytes; a batch that does not fit as a whole is a `DeviceMemoryError`.
    """

    num_slices = 1
    takes_device_order = False
    finds_finite = found_finite = False
    may_lose = False  # the residual is known anyhow

    def __init__(self, rounded: Whole, memory: int) -> None:
        self.rounded, self.plan, self.queue = rounded, rounded.plan, rounded.queue
        self.forest = self.plan.forest
        size, device = self.forest.num_nodes * 8, self.queue.device
        if size > device.max_mem_alloc_size:
            raise too_large(rounded.room.needed(self.plan), self.forest, memory)
        several = self._bytes(MAX_RHS) <= memory and size * MAX_RHS <= device.max_mem_alloc_size
        self.rows_at_once = MAX_RHS if several else 1
        limits = devices.limits(device)
        most = 1 << (limits.max_work_group.bit_length() - 1)
        self._group = min(16 if limits.is_cpu else 64, most)
        tables = refinement_tables(self.forest)
        self._num_chunks = len(tables["chunks"])
        taken = self._buffers(4, 1)
        self._tables = {name: taken.put(name, t.reshape(-1)) for name, t in tables.items()}
        self.kernel_events: list[cl.Event] = []
        self.refinement: Refinement | None = None
        self._bad: BadPivots | None = None
        self._kernels: dict[tuple[str, bool], cl.Kernel] = {}
        program.build(self.queue.context, self.spec())

    @property
    def memory(self) -> list[Memory]:
        """See `Engine`."""
        return [Memory(self._bytes(self.rows_at_once), 0, 1)]

    def _bytes(self, rows: int) -> int:
        rounded = most_buffers(self.plan, self.rounded.dtype, rows)
        return total(rounded) + bytes_beside(self.forest, rows)

    def _buffers(self, operands: int, rows: int) -> Buffers:
        return Buffers(mixed_buffers(self.forest, CHUNK, operands, rows), self.queue)

    @property
    def source(self) -> str:
        """See `Engine`."""
        return self.rounded.source + "\n" + render(self.spec())

    def describe(self) -> str:
        """See `Engine`."""
        return self.rounded.describe()

    def device_order(self, what: str) -> DeviceOrder:
        """Raise `InputError`: device order is for the other dtypes."""
        raise InputError(
            f"{what} works in device order; dtype 'mixed' has natural order only: use solve() "
            "or factor().solve()"
        )

    def empty_like(self, b: np.ndarray) -> np.ndarray:
        """See `Engine`."""
        return np.empty_like(b)

    def solve_host(self, arrays: dict[str, np.ndarray], target: np.ndarray, check: bool) -> None:
        """See `Engine`; refines nothing where there are bad pivots that are to be reported."""
        self._solve(dict(arrays), target, check)

    def solve_device(self, arrays: dict[str, cla.Array], target: cla.Array, check: bool) -> None:
        """See `Engine`; waits."""
        self._solve(dict(arrays), target, check)

    def _solve(
        self,
        arrays: dict[str, np.ndarray | cla.Array],
        target: np.ndarray | cla.Array,
        check: bool,
    ) -> None:
        b = arrays.pop("b")
        factors = self._eliminate(arrays, check, keep=False)
        self._bad = factors.bad_pivots()
        if not (check and len(self._bad[0])):
            self.refine(factors, b, target)

    def factor(self, arrays: dict[str, np.ndarray | cla.Array], check: bool) -> MixedFactors:
        """See `Engine`; `check` rejects values beyond float32."""
        return self._eliminate(arrays, check, keep=True)

    def bad_pivots(self) -> BadPivots:
        """See `Engine`."""
        if self._bad is None:
            raise nothing_solved()
        return self._bad

    def warn(self) -> None:
        """Warn where the residual is above `LIMIT`."""
        done = self.refinement
        if done is not None and not done.reached:
            message = (
                f"the residual is {done.residual:.3g} after {done.steps} corrections; expected "
                f"{LIMIT:.3g}: too ill-conditioned for float32 factors; use dtype float64"
            )
            warn_caller(message, RefinementWarning)

    def spec(self, symmetric: bool = True) -> ResidualSpec:
        """Spec of the kernels."""
        return ResidualSpec(symmetric, self._group)

    def _run(
        self,
        name: str,
        symmetric: bool,
        rows: int,
        args: Sequence[Argument],
        wait_for: list[cl.Event] | None = None,
    ) -> cl.Event:
        if (name, symmetric) not in self._kernels:
            built = program.build(self.queue.context, self.spec(symmetric))
            num_ints = sum(isinstance(a, int | np.integer) for a in args)
            self._kernels[name, symmetric] = program.typed_kernel(built, name, "i" * num_ints)
        kernel = self._kernels[name, symmetric]
        values = [a.base_data if isinstance(a, cla.Array) else a for a in args]
        size = self._num_chunks * self._group, rows
        return kernel(self.queue, size, (self._group, 1), *values, wait_for=wait_for)

    def _eliminate(
        self, arrays: dict[str, np.ndarray | cla.Array], check: bool, keep: bool
    ) -> MixedFactors:
        """Eliminate d, u, (l) in float32; with `keep`, copy arrays that are on the device."""
        matrix: list[cla.Array] = []
        narrowed: dict[str, np.ndarray | cla.Array] = {}
        taken = self._buffers(len(arrays) + 1, 1)
        for name, a in arrays.items():
            if not isinstance(a, cla.Array):
                a = taken.put(name, a)
            elif keep:
                copy = {"src_offset": a.offset, "byte_count": a.nbytes, "wait_for": a.events}
                event = cl.enqueue_copy(self.queue, taken[name].base_data, a.base_data, **copy)
                a = taken[name]
                a.add_event(event)
            matrix.append(a)
            narrowed[name] = self._narrow(name, a, check, taken)
        return MixedFactors(self, self.rounded.factor_on_device(narrowed), matrix)

    def _narrow(self, name: str, wide: cla.Array, check: bool, taken: Buffers) -> cla.Array:
        """Return d, u or l in float32."""
        nowhere = (1 << 31) - 1
        first_bad = taken.put("first_bad", np.array([nowhere], np.int32))
        out = taken[f"narrowed {name}"]
        chunks, parent = self._tables["chunks"], self._tables["parent"]
        args = np.int32(name == "d"), chunks, parent, wide, out, first_bad
        self._run("narrow", "l" not in taken.listed, 1, args, wide.events)
        node = int(first_bad.get(self.queue)[0]) if check else nowhere
        if node != nowhere:
            cell = int(stretch_of(self.forest.cell_offsets, node))
            value = float(wide[node : node + 1].get(self.queue)[0])
            raise InputError(
                f"cell {cell}, node {node}: {name} is {value:.6g}; expected a value in the range "
                "of float32, in which dtype 'mixed' factors"
            )
        return out

    def refine(
        self,
        factors: MixedFactors,
        b: Array,
        target: Array,
    ) -> None:
        """Solve for b, (n,) or (k, n) in natural order, into `target` of the same kind."""
        n = self.forest.num_nodes
        count = b.size // n
        self.kernel_events, done = [], []
        taken = self._buffers(len(factors.matrix) + 1, min(self.rows_at_once, count))
        for first in range(0, count, self.rows_at_once):
            x = taken.view("x", (min(self.rows_at_once, count - first), n))
            if isinstance(b, cla.Array) and isinstance(target, cla.Array):
                done.append(self._refine(factors, b, first, x, taken))
                place = {"dst_offset": first * n * 8, "wait_for": target.events}
                copy = cl.enqueue_copy(
                    self.queue, target.base_data, x.base_data, byte_count=x.nbytes, **place
                )
                target.events[:] = [copy]
            else:
                some = slice(first, first + len(x))
                part = taken.put("b", np.atleast_2d(b)[some])
                done.append(self._refine(factors, part, 0, x, taken))
                np.atleast_2d(target)[some] = x.get(self.queue)
        self.refinement = Refinement(max(d.steps for d in done), max(d.residual for d in done))

    def _refine(
        self, factors: MixedFactors, b: cla.Array, first: int, x: cla.Array, taken: Buffers
    ) -> Refinement:
        """Solve for rows of b from `first` on into x, (rows, n).

        Each cell of each row is refined independently: its residual is scaled to about one, so that
        float32 holds it whatever the size of b; a correction that does not make the error
        smaller is not taken; and it is left as it is once the error is at the goal or was not
        halved.
        """
        queue, (rows, n), cells = self.queue, x.shape, self.forest.num_cells
        rounded, dx = taken.view("rounded", x.shape), taken.view("dx", x.shape)
        for a in (x, dx):
            cl.enqueue_fill_buffer(queue, a.base_data, np.zeros(1, a.dtype), 0, a.nbytes)
        errors = taken.put("errors", np.full(rows * cells, np.inf))
        scales = taken.put("scales", np.ones(rows * cells))
        new_errors, new_scales = taken["new_errors"], taken["new_scales"]
        r, most, active = (taken[name] for name in ("r", "chunk_most", "active"))
        symmetric, matrix = len(factors.matrix) == 2, factors.matrix
        chunks, starts, *tree = self._tables.values()
        sizes = np.int32(n), np.int32(cells), np.int32(self._num_chunks)
        wait_for = [e for a in (*matrix, b) for e in a.events]
        step = -1  # at first the residual is b
        while step <= MAX_STEPS:
            if step >= 0:
                factors.rounded.solve_device(rounded, dx)
                self.kernel_events += self.rounded.kernel_events
            args = [*sizes, np.int32(first), chunks, *tree, *matrix, b, x, dx, scales, r, most]
            self.kernel_events.append(self._run("residual", symmetric, rows, args, wait_for))
            args = [*sizes, np.float64(GOAL), chunks, starts, most, r, dx, errors, scales]
            args += [new_errors, new_scales, active, x, rounded]
            self.kernel_events.append(self._run("update", symmetric, rows, args))
            scales, new_scales = new_scales, scales
            if step >= 0:
                errors, new_errors = new_errors, errors
                if not active.get(queue)[: rows * cells].any():
                    break
            step += 1
        found = errors.get(queue)[: rows * cells]
        return Refinement(min(step, MAX_STEPS), float(found.max()))


class MixedFactors:
    """A matrix that `Mixed` has eliminated in float32.

    `matrix` is d, u, (l), (n,) float64 in natural order.
    """

    def __init__(self, engine: Mixed, rounded: WholeFactors, matrix: list[cla.Array]) -> None:
        self.engine, self.rounded, self.matrix = engine, rounded, matrix

    def solve_host(self, b: np.ndarray, target: np.ndarray) -> None:
        """See `Eliminated`."""
        self.engine.refine(self, b, target)

    def solve_device(self, b: cla.Array, target: cla.Array) -> None:
        """See `Eliminated`; waits."""
        self.engine.refine(self, b, target)

    def prepare(self, b: cla.Array, out: cla.Array) -> list[Step]:
        """Raise `InputError`."""
        self.engine.device_order("enqueue()")
        raise AssertionError

    def enqueue(self, steps: list[Step], out: cla.Array, waits: list[cl.Event]) -> cl.Event:
        """Never called: `prepare` raises."""
        raise AssertionError

    def bad_pivots(self) -> BadPivots:
        """See `Eliminated`."""
        return self.rounded.bad_pivots()

    def transposed(self) -> MixedFactors:
        """See `Eliminated`."""
        diagonal, *couplings = self.matrix
        matrix = [diagonal, *reversed(couplings)]
        return MixedFactors(self.engine, self.rounded.transposed(), matrix)

    def matrix_on_host(self) -> dict[str, np.ndarray]:
        """See `Eliminated`."""
        return {
            name: a.get(self.engine.queue)
            for name, a in zip(("d", "u", "l"), self.matrix, strict=False)
        }


def too_large(taken: int, forest: Forest, memory: int) -> DeviceMemoryError:
    """Error of a batch that does not fit on the device as a whole."""
    need = (taken + bytes_beside(forest, 1)) / 2**20
    return DeviceMemoryError(
        f"dtype 'mixed' needs the whole batch on the device: about {need:.1f} MiB of "
        f"{memory / 2**20:.1f} MiB; float64 and float32 work in slices"
    )
