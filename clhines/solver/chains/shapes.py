"""Check the shapes of tridiagonal arrays, and convert NumPy arrays to Hines matrices."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.arrays import inverse, offsets
from clhines.core.checks import check_room, in_precision, real_numbers
from clhines.core.errors import InputError
from clhines.solver.device.arrays import Array
from clhines.solver.forest import ChainTrees, Forest

_ROW_BYTES = 64  # least memory per row for the forest, bytes
MOST_OF_ALL = 2**31 - 1  # most rows in a batch: kernels count them in 32 bits
MIXED = "dl, d, du and b mix NumPy, or numbers, and pyopencl arrays; expected one kind"
Shape: TypeAlias = tuple[int, ...]


class Matrix(NamedTuple):
    """A Hines matrix of tridiagonal systems; its row i was multiplied by ``sign[i]``, if set."""

    l: Array
    d: Array
    u: Array
    sign: Array | None


def refuse_buffer(name: str, a: object) -> None:
    if isinstance(a, cl.Buffer):  # its shape is not known
        raise InputError(
            f"{name} is a pyopencl buffer; expected an array, such as pyopencl.array.Array(queue, "
            f"shape, dtype, data={name})"
        )


def sizes_of(sizes: object) -> np.ndarray:
    if isinstance(sizes, cla.Array):
        raise InputError("sizes is a pyopencl array; expected NumPy")
    if np.ma.is_masked(sizes):
        raise InputError("sizes has masked values; expected none")
    rows = real_numbers("sizes", sizes)
    if rows.ndim != 1 or not rows.size or rows.dtype.kind not in "iu" or (rows < 1).any():
        text = np.array2string(rows, threshold=8, edgeitems=3, max_line_width=10_000)
        text = " ".join(text.split())
        text = text if len(text) <= 100 else text[:97] + "..."
        raise InputError(
            f"sizes is {text} of {rows.dtype}; expected whole numbers of 1 or more, one per system"
        )
    total = float(rows.sum(dtype=float))
    if total > MOST_OF_ALL:
        raise InputError(f"sizes has {total:.0f} rows in all; expected at most {MOST_OF_ALL}")
    check_room(_ROW_BYTES * total, f"{len(rows)} systems")
    return rows.astype(np.int64)


class Chains:
    """The m tridiagonal systems of a batch, n rows in all; each is a chain of nodes.

    `grid` is (m, n / m) if all systems have the same size, else None.
    """

    def __init__(self, rows: np.ndarray, dtype: np.dtype) -> None:
        self.rows, self.dtype = rows, dtype
        self.offsets = offsets(rows)
        self.m, self.n = len(rows), int(self.offsets[-1])
        equal = bool((rows == rows[0]).all())
        self.grid = (self.m, int(rows[0])) if equal else None

    def forest(self) -> Forest:
        """Return the forest of chains, one per system; chains of equal length share one plan."""
        sizes, first, number = np.unique(self.rows, return_index=True, return_inverse=True)
        appear = np.argsort(first)  # shapes are numbered by their first appearance
        shape = inverse(appear)[number.reshape(-1)]
        return Forest.from_trees(ChainTrees(sizes[appear]), shape)

    @cached_property
    def inner(self) -> np.ndarray:
        """All rows except the first row of each system, (n - m,) int64."""
        is_inner = np.ones(self.n, bool)
        is_inner[self.offsets[:-1]] = False
        return np.flatnonzero(is_inner)

    # -- shapes --------------------------------------------------------------------------------

    def _shapes(self, between: bool) -> list[Shape]:
        """Return the accepted shapes of a diagonal; `between`: it has one value less per system."""
        less = int(between)
        shapes: list[Shape] = [(self.n - less * self.m,)]
        if self.grid is not None:
            m, n = self.grid[0], self.grid[1] - less
            shapes += [(m, n), (n,), (1, n)]
        return shapes

    def is_between(self, name: str, shape: Shape) -> bool:
        """Whether diagonal `name` lacks a value per system (False: as long as `d`); else refuse."""
        if name != "d" and shape in self._shapes(True):
            return True
        if shape and shape not in self._shapes(False):
            shapes = [self._shapes(True)[0], self._shapes(False)[0]]
            if self.grid is not None and self.m > 1:
                shapes = [self._shapes(True)[1], self.grid]
            expected = f"{shapes[0]} or {shapes[1]}" if name != "d" else f"{shapes[1]}"
            raise InputError(f"{name} has shape {shape}; expected {expected}")
        return False

    def shapes(self, b_shape: Shape, columns: bool) -> tuple[Shape, Shape]:
        """Return the shape of x for the user, and for the solver, (n,) or (k, n).

        With `columns` the last axis of `b_shape` counts right-hand sides.
        """
        first = (*b_shape[-1:], *b_shape[:-1]) if columns else b_shape
        grid, shape = self.grid or (0, 0), self._solution_shape(first)
        alone = shape in ((self.n,), grid)
        none = shape[:1] == (0,) and not alone  # no right-hand sides
        if not shape or (0 in shape and not none) or (columns and alone and shape != (1, self.n)):
            one = f"({self.n},)" if self.grid is None else f"{grid} or ({self.n},)"
            where = "k last" if columns else "k first, or last with columns=True"
            expected = f"k of {one}" if columns else f"{one}, or k of these"
            raise InputError(f"b has shape {b_shape}; expected {expected}, {where}")
        rows = (self.n,) if alone and not columns else (math.prod(shape) // self.n, self.n)
        return ((*shape[1:], *shape[:1]) if columns else shape), rows

    def _solution_shape(self, b_shape: Shape) -> Shape:
        """Return x's shape for a b with this shape, right-hand sides first; () if it is wrong."""
        if b_shape[-1:] == (self.n,) and len(b_shape) < 3:
            return b_shape
        if self.grid is None:
            return ()
        row = (1, self.grid[1])  # one right-hand side that all systems share
        if b_shape in (self.grid[1:], row):
            return self.grid
        if b_shape[-2:] in (self.grid, row) and len(b_shape) < 4:
            return *b_shape[:-2], *self.grid
        return ()

    # -- on the host ---------------------------------------------------------------------------

    def values(self, name: str, a: object) -> np.ndarray:
        refuse_buffer(name, a)
        if isinstance(a, cla.Array):
            raise InputError(MIXED)
        return in_precision(name, real_numbers(name, a), self.dtype)

    def matrix(self, dl: object, d: object, du: object) -> Matrix:
        main = self._spread("d", self.values("d", d))
        low = self._spread("dl", self.values("dl", dl))
        up = self._spread("du", self.values("du", du))
        if main.min() >= 0:  # False for NaN
            return Matrix(low, main, up, None)
        sign = np.where(main < 0, -1, 1).astype(self.dtype)
        above = np.append(sign[:1], sign[:-1])  # `up` belongs to the row before
        return Matrix(low * sign, main * sign, up * above, sign)

    def _spread(self, name: str, a: np.ndarray) -> np.ndarray:
        between = self.is_between(name, a.shape)
        if name != "du" and not between and a.size == self.n:
            return np.ascontiguousarray(a).reshape(-1)
        out = np.empty(self.n, self.dtype)
        if self.grid is not None:
            flat = a.shape == (self.n - self.m * between,)
            rows = a.reshape(self.m, -1) if flat else a
            self._spread_grid(name, rows, between, out.reshape(self.grid))
        elif between:
            out[self.offsets[:-1]], out[self.inner] = 0, a
        elif a.ndim and name == "du":
            out[1:], out[0] = a[:-1], 0
        else:
            out[...] = a
        return out

    @staticmethod
    def _spread_grid(name: str, rows: np.ndarray, between: bool, table: np.ndarray) -> None:
        """Write the diagonal `name` to `table`, (m, n); row i gets the `du` of row i - 1.

        `between`: `rows` has one value less per system.
        """
        if name == "d" or (name == "dl" and not between):
            table[...] = rows
            return
        last = None if between or not rows.ndim or name == "dl" else -1
        table[:, 1:], table[:, 0] = rows[..., :last] if rows.ndim else rows, 0

    def whole(self, name: str, a: object) -> np.ndarray:
        """Expand a diagonal of periodic matrices to one value per row, (n,)."""
        if isinstance(a, cla.Array):
            raise InputError(f"{name} is a pyopencl array; expected NumPy for periodic systems")
        values = self.values(name, a)
        if values.ndim and values.shape not in self._shapes(False):
            shape = self.grid or (self.n,)
            raise InputError(
                f"{name} has shape {values.shape}; expected {shape} in periodic systems, whose "
                "corners are the first dl and the last du"
            )
        if self.grid is None or values.shape == (self.n,):
            return np.broadcast_to(values, self.n)
        return np.broadcast_to(values, self.grid).reshape(-1)

    def right_hand_sides(self, b: object, columns: bool) -> tuple[np.ndarray, Shape]:
        """Convert `b` to (n,) or (k, n) for the solver; return it and the user's shape of x.

        With `columns` the last axis of `b` counts right-hand sides.
        """
        a = self.values("b", b)
        shape, rows = self.shapes(a.shape, columns)
        if columns:
            a = np.moveaxis(a, -1, 0)
        if a.size != math.prod(rows):
            a = np.broadcast_to(a, (*shape[-1:], *shape[:-1]) if columns else shape)
        return np.ascontiguousarray(a).reshape(rows), shape
