"""Tridiagonal systems as Hines matrices of chains: shapes, broadcasting and signs.

Row i of a system is a node, and its parent is the row before. So its entry `dl` is the node's `l`,
and the entry `du` of the row before is the node's `u`. A row with a negative diagonal is multiplied
by -1, and so are its right-hand sides: the pivots of a Hines matrix must be positive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.arrays import offsets
from clhines.checks import check_room, real_numbers
from clhines.device import program
from clhines.device.arrays import Array, Given
from clhines.device.devices import wide_groups
from clhines.errors import InputError
from clhines.forest import Forest, Trees
from clhines.plan.kernel_spec import TemplateSpec
from clhines.plan.plan import real_name
from clhines.quantities import as_numbers
from clhines.solve.engines.loaded import only_event

_ROW_BYTES = 8  # at least, for each row of a batch
MIXED = "dl, d, du and b mix NumPy, or numbers, and pyopencl arrays; expected one kind"
Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class ChainsSpec(TemplateSpec):
    """``chains.mako``: arrays of tridiagonal systems to those of a Hines matrix, on the device."""

    template: ClassVar[str] = "around/chains"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "matrix": (
            "int n, const int *restrict inner, int low_inner, int up_inner",
            "int num_low, int num_main, int num_up",
            "const real *restrict dl, const real *restrict d, const real *restrict du",
            "real *restrict low, real *restrict main, real *restrict up, real *restrict sign",
        ),
        "rows": (
            "int n, int period, long next_row, long next_value",
            "long to_row, long to_value",
            "const real *restrict sign, const real *b, real *out",
        ),
    }
    real: str


class Matrix(NamedTuple):
    """A Hines matrix of chains, (n,) each; `sign` is that of each row, None where all are 1."""

    l: Array  # noqa: E741
    d: Array
    u: Array
    sign: Array | None


def sizes_of(sizes: object) -> np.ndarray:
    if isinstance(sizes, cla.Array):
        raise InputError("sizes is a pyopencl array; expected NumPy")
    rows = np.asarray(as_numbers("sizes", sizes))
    if np.ma.is_masked(sizes):
        raise InputError("sizes has masked values; expected none")
    if rows.ndim != 1 or not rows.size or rows.dtype.kind not in "iu" or (rows < 1).any():
        text = np.array2string(rows, threshold=8, edgeitems=3, max_line_width=10_000)
        text = " ".join(text.split())
        text = text if len(text) <= 100 else text[:97] + "..."
        raise InputError(
            f"sizes is {text} of {rows.dtype}; expected whole numbers of 1 or more, one per system"
        )
    check_room(_ROW_BYTES * float(rows.sum(dtype=float)), f"{len(rows)} systems")
    return rows.astype(np.int64)


class Chains:
    """Shapes of arrays of tridiagonal systems, (m, n) `grid` if equal, and their Hines matrices."""

    def __init__(self, rows: np.ndarray, dtype: np.dtype) -> None:
        self.rows, self.dtype = rows, dtype
        self.offsets = offsets(rows)
        self.m, self.n = len(rows), int(self.offsets[-1])
        equal = bool((rows == rows[0]).all())
        self.grid = (self.m, int(rows[0])) if equal else None

    def forest(self) -> Forest:
        """One chain per system; those of one size are planned once."""
        found, number = np.unique(self.rows, return_inverse=True)
        bounds = offsets(found)
        parent = np.arange(bounds[-1]) - 1
        parent[bounds[:-1]] = -1
        number, trees = Trees(bounds, parent).used(number.reshape(-1))
        return Forest.from_trees(trees, number)

    @cached_property
    def inner(self) -> np.ndarray:
        """(n - m,) int64: all rows but the first of each system."""
        is_inner = np.ones(self.n, bool)
        is_inner[self.offsets[:-1]] = False
        return np.flatnonzero(is_inner)

    # -- shapes --------------------------------------------------------------------------------

    def _shapes(self, between: bool) -> list[Shape]:
        """Shapes of a diagonal, or of one that has values `between` the rows of a system only."""
        less = int(between)
        found: list[Shape] = [(self.n - less * self.m,)]
        if self.grid is not None:
            m, n = self.grid[0], self.grid[1] - less
            found += [(m, n), (n,), (1, n)]
        return found

    def is_between(self, name: str, shape: Shape) -> bool:
        """Whether an off-diagonal has one value less per system; other shapes are rejected."""
        if name != "d" and shape in self._shapes(True):
            return True
        if shape and shape not in self._shapes(False):
            shapes = [self._shapes(True)[0], self._shapes(False)[0]]
            if self.grid is not None:
                shapes = [self._shapes(True)[1], self.grid]
            expected = f"{shapes[0]} or {shapes[1]}" if name != "d" else f"{shapes[1]}"
            raise InputError(f"{name} has shape {shape}; expected {expected}")
        return False

    def shapes(self, given: Shape, columns: bool) -> tuple[Shape, Shape]:
        """Return the shape of the solution for `b` of a shape, and (n,) or (k, n) of its rows."""
        first = (*given[-1:], *given[:-1]) if columns else given
        grid = self.grid or (0, 0)
        shape: Shape = ()
        if first[-1:] == (self.n,) and len(first) < 3:
            shape = first
        elif self.grid is not None and first in (grid[1:], (1, *grid[1:])):
            shape = grid
        elif self.grid is not None and first[-2:] in (grid, (1, *grid[1:])) and len(first) < 4:
            shape = *first[:-2], *grid
        alone = shape in ((self.n,), grid)
        if not shape or 0 in shape or (columns and alone and shape != (1, self.n)):
            one = f"({self.n},)" if self.grid is None else f"{grid} or ({self.n},)"
            where = "k last" if columns else "k first, or last with columns=True"
            expected = f"k of {one}" if columns else f"{one}, or k of these"
            raise InputError(f"b has shape {given}; expected {expected}, {where}")
        rows = (self.n,) if alone and not columns else (math.prod(shape) // self.n, self.n)
        return ((*shape[1:], *shape[:1]) if columns else shape), rows

    # -- on the host ---------------------------------------------------------------------------

    def values(self, name: str, a: object) -> np.ndarray:
        if isinstance(a, cla.Array):
            raise InputError(MIXED)
        with np.errstate(over="ignore"):  # what becomes infinite is told of as such
            return real_numbers(name, a).astype(self.dtype, copy=False)

    def matrix(self, dl: object, d: object, du: object) -> Matrix:
        main = self._spread("d", self.values("d", d))
        low = self._spread("dl", self.values("dl", dl))
        up = self._spread("du", self.values("du", du))
        if main.min() >= 0:  # not so where there are NaN
            return Matrix(low, main, up, None)
        sign = np.where(main < 0, -1, 1).astype(self.dtype)
        above = np.append(sign[:1], sign[:-1])  # of the row that `up` is in
        return Matrix(low * sign, main * sign, up * above, sign)

    def _spread(self, name: str, a: np.ndarray) -> np.ndarray:
        between = self.is_between(name, a.shape)
        if name != "du" and not between and a.size == self.n:
            return np.ascontiguousarray(a).reshape(-1)
        out = np.empty(self.n, self.dtype)
        if self.grid is not None:
            flat = a.shape == (self.n - self.m * between,)
            given, table = a.reshape(self.m, -1) if flat else a, out.reshape(self.grid)
            if name == "d" or (name == "dl" and not between):
                table[...] = given
                return out
            last = None if between or not a.ndim or name == "dl" else -1
            table[:, 1:], table[:, 0] = given[..., :last] if a.ndim else given, 0
        elif between:
            out[self.offsets[:-1]], out[self.inner] = 0, a
        elif a.ndim and name == "du":
            out[1:], out[0] = a[:-1], 0
        else:
            out[...] = a
        return out

    def right_hand_sides(self, b: object, columns: bool) -> tuple[np.ndarray, Shape]:
        """Return `b` as (n,) or (k, n), and the shape of the solution."""
        a = self.values("b", b)
        shape, rows = self.shapes(a.shape, columns)
        if columns:
            a = np.moveaxis(a, -1, 0)
        if a.size != math.prod(rows):
            a = np.broadcast_to(a, (*shape[-1:], *shape[:-1]) if columns else shape)
        return np.ascontiguousarray(a).reshape(rows), shape


class DeviceChains:
    """The same on a device: `Matrix` and right-hand sides in arrays of their own."""

    def __init__(self, chains: Chains, queue: cl.CommandQueue) -> None:
        self._chains, self._queue = chains, queue
        spec = ChainsSpec(real_name(chains.dtype))
        self._kernels = [program.kernel_of(queue.context, spec, name) for name in spec.kernels]
        inner = np.full(chains.n, -1, np.int32)
        inner[chains.inner] = np.arange(len(chains.inner), dtype=np.int32)
        self._inner = cla.to_device(queue, inner)
        self._groups = wide_groups(queue.device, chains.n)

    def matrix(self, dl: cla.Array, d: cla.Array, du: cla.Array) -> Matrix:
        chains, given = self._chains, {"dl": dl, "d": d, "du": du}
        between = [chains.is_between(name, a.shape) for name, a in given.items()]
        out = [cla.empty(self._queue, chains.n, chains.dtype) for _ in range(4)]
        sizes = [a.size for a in given.values()]
        numbers = [between[0], between[2], *sizes]
        arrays = [a.base_data for a in (*given.values(), *out)]
        arguments = chains.n, self._inner.base_data, *map(int, numbers), *arrays
        self._launch(0, arguments, list(given.values()), out, None)
        return Matrix(*out)

    @cached_property
    def ones(self) -> cla.Array:
        """(n,): signs that change nothing."""
        return cla.to_device(self._queue, np.ones(self._chains.n, self._chains.dtype))

    def rows(
        self, b: cla.Array, sign: cla.Array, shape: Shape, columns: bool, out: cla.Array | None
    ) -> cla.Array:
        """Enqueue ``sign * b`` as (n,) or (k, n), in the memory of `out` if given."""
        target = cla.empty(self._queue, shape, self._chains.dtype)
        if out is not None:
            target = cla.Array(self._queue, shape, out.dtype, data=out.base_data)
            target.events[:] = out.events
        count = target.size // self._chains.n
        period = b.size // count
        strides = (1, count) if columns else (period, 1)
        arguments = self._chains.n, period, *strides, self._chains.n, 1
        buffers = sign.base_data, b.base_data, target.base_data
        self._launch(1, (*arguments, *buffers), [sign, b], [target], count)
        return target

    def give(self, x: cla.Array, sign: cla.Array, out: cla.Array, columns: bool) -> None:
        n = self._chains.n
        count = x.size // n
        strides = (1, count) if columns else (n, 1)
        buffers = sign.base_data, x.base_data, out.base_data
        self._launch(1, (n, n, n, 1, *strides, *buffers), [sign, x], [out], count)

    def _launch(
        self,
        kernel: int,
        arguments: Sequence[Any],
        given: list[cla.Array],
        out: list[cla.Array],
        rows: int | None,
    ) -> None:
        events = [event for a in (*given, *out) for event in a.events]
        items, group = self._groups
        size, local = (items, group) if rows is None else ((*items, rows), (*group, 1))
        event = self._kernels[kernel](self._queue, size, local, *arguments, wait_for=events or None)
        for a in out:
            only_event(a, event)


def on_device(*arrays: Given) -> bool:
    return any(isinstance(a, cla.Array) for a in arrays)
