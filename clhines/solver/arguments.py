"""Check the arrays that users pass to a solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.arrays import stretch_of
from clhines.core.checks import host_array, to_numpy
from clhines.core.errors import InputError, PivotError
from clhines.solver import reference
from clhines.solver.device.arrays import (
    Array,
    Given,
    Order,
    order_of,
    target_of,
    unmark,
    unshared,
    writable,
)
from clhines.solver.engines.engine import SolveEngine
from clhines.solver.engines.pivots import BadPivots
from clhines.solver.forest import Forest


@dataclass(frozen=True)
class Arguments:
    """Check a user's arrays for one solver: shape, dtype, order and OpenCL context.

    Arrays are NumPy arrays, or pyopencl arrays in the solver's context. Messages name the cell and
    the node; with `chains` they name the system and the row.
    """

    forest: Forest
    dtype: np.dtype
    queue: cl.CommandQueue
    chains: bool = False

    def checked(self, name: str, a: Given, size: int, on_device: bool = False) -> Array:
        """Check `a`, (size,) or (k, size), and return it; with `on_device` in device order."""
        a = self.of_buffer(name, a, size)
        if isinstance(a, cla.Array):
            a = self.of_device(name, a, on_device)
        elif on_device:
            raise InputError(
                f"{name} is {type(a).__name__}; expected a pyopencl array (see to_device_order)"
            )
        else:
            a = to_numpy(name, a, self.dtype)
        is_empty = name == "b" and not on_device and a.shape == (0, size)  # no right-hand sides
        if not is_empty and (a.ndim not in (1, 2) or a.shape[-1] != size or 0 in a.shape):
            order = "device" if on_device else "natural"
            rows = f" or (k, {size})" if name in ("b", "out", "x", "a") else ""
            raise InputError(
                f"{name} has shape {a.shape}; expected ({size},){rows} in {order} order"
            )
        return a

    def of_buffer(self, name: str, a: Given | None, size: int) -> Given | None:
        """Wrap a `pyopencl.Buffer` as an array, (size,) or (k, size); return others unchanged."""
        if not isinstance(a, cl.Buffer):
            return a
        row = size * self.dtype.itemsize
        if a.size % row or not a.size:
            raise InputError(
                f"{name} is a buffer of {a.size} bytes; expected {row}, or k times as many for k "
                f"right-hand sides: {size} values of {self.dtype}"
            )
        if a.context != self.queue.context:
            raise InputError(f"{name} lives in another OpenCL context than the solver")
        shape = (size,) if a.size == row else (a.size // row, size)
        return cla.Array(self.queue, shape, self.dtype, data=a)

    def of_buffers(self, names: str, arrays: tuple[Any, ...], order: Order) -> tuple[Any, ...]:
        size = len(order.gather)
        return tuple(self.of_buffer(n, a, size) for n, a in zip(names.split(), arrays))

    def of_device(self, name: str, a: cla.Array, on_device: bool) -> cla.Array:
        """Check a pyopencl array and return it; with `on_device` it may be in device order."""
        if a.dtype != self.dtype:
            raise InputError(f"{name} has dtype {a.dtype}; expected {self.dtype}")
        if a.context != self.queue.context:
            raise InputError(f"{name} lives in another OpenCL context than the solver")
        if not on_device and (order := order_of(a)) is not None and not order.is_natural:
            raise InputError(
                f"{name} is in device order; expected natural order (see from_device_order)"
            )
        if not a.flags.c_contiguous:
            raise InputError(f"{name} is a strided view; expected a C-contiguous array")
        if a.offset and on_device:  # a copy would run before the caller's wait_for
            raise InputError(f"{name} is an offset view; expected a whole array")
        return a.copy(queue=self.queue) if a.offset else a

    def natural(self, system: dict[str, Given | None]) -> dict[str, Array]:
        """Check d, u, (l), b in natural order, all NumPy or all pyopencl arrays; return them."""
        ready = self._ready(system)
        if ready is not None:
            return ready
        system = {name: a for name, a in system.items() if name != "l" or a is not None}
        arrays = {name: self.checked(name, a, self.forest.num_nodes) for name, a in system.items()}
        if len({isinstance(a, cla.Array) for a in arrays.values()}) != 1:
            raise InputError("d, u, l and b mix NumPy and pyopencl arrays; expected one kind")
        if any(a.ndim != 1 for name, a in arrays.items() if name != "b"):
            raise InputError("d, u and l have one row; only b may have several")
        return arrays

    def _ready(self, system: dict[str, Given | None]) -> dict[str, Array] | None:
        ready: dict[str, Array] = {}
        row = (self.forest.num_nodes,)
        for name, a in system.items():
            if a is None and name == "l":
                continue
            if type(a) is not np.ndarray or a.dtype != self.dtype or not a.flags.c_contiguous:
                return None
            if a.shape != row and (name != "b" or a.shape[1:] != row or not a.shape[0]):
                return None
            ready[name] = a
        return ready

    def target(
        self, engine: SolveEngine, original: Given, b: Array, out: Array | None, overwrite: bool
    ) -> Array:
        out = self.of_buffer("out", host_array("out", out), self.forest.num_nodes)
        original = b if isinstance(original, cl.Buffer) else original
        target = target_of(original, b, out, overwrite, self.dtype, engine.empty_like)
        unmark(target)
        return target

    def check_out(self, out: Any, shape: tuple[int, ...]) -> cla.Array:
        """Return the pyopencl array `out`; refuse it if it cannot hold a solution of this shape."""
        self.checked("out", out, shape[-1], on_device=True)
        if out.shape != shape:
            raise InputError(f"out has shape {out.shape}; expected {shape}, as b or a")
        if not writable(out):
            raise InputError("out is read-only or a view; expected a whole array of its own")
        return cast("cla.Array", out)

    def in_order(self, name: str, a: cla.Array, order: Order, packed: bool) -> cla.Array:
        """Check that `a` is in device order, unless the caller sets `packed`; return `a`."""
        a = self.checked(name, a, len(order.gather), on_device=True)
        if not packed:
            order.check(name, a)
        return order.mark(a)

    def packed(
        self, system: dict[str, cla.Array | None], out: cla.Array, order: Order, packed: bool
    ) -> list[cla.Array]:
        """Check `out` and d, u, (l), b (their order only without `packed`); return d, u, (l), b."""
        system = {name: a for name, a in system.items() if name != "l" or a is not None}
        operands = [self.in_order(name, a, order, packed) for name, a in system.items()]
        self.check_out(out, operands[-1].shape)
        if any(a.ndim != 1 for a in operands[:-1]):
            raise InputError("d, u and l have one row; only b and out may have several")
        if any(out.base_data == a.base_data for a in operands[:-1]):
            raise InputError("out is d, u or l; expected another array")
        return operands

    def check_finite(self, name: str, a: np.ndarray | cla.Array) -> None:
        place = not_finite(a) if isinstance(a, np.ndarray) else None
        if place is not None:
            cell = int(stretch_of(self.forest.cell_offsets, place[-1]))
            raise InputError(
                f"{self.where(cell, place[-1])}: {name} is {a[place]}; expected finite"
            )

    def where(self, cell: int, node: int) -> str:
        if not self.chains:
            return f"cell {cell}, node {node}"
        row = node - int(self.forest.cell_offsets[cell])
        return f"system {cell}, row {row} (row {node} of all)"

    def may_check_late(self, engine: SolveEngine, b: Array, target: Array) -> bool:
        """Whether b may be checked after the solve, which finds NaN and infinite values itself."""
        if not (isinstance(b, np.ndarray) and isinstance(target, np.ndarray)):
            return False
        return engine.finds_finite and not np.may_share_memory(b, target)

    def raise_bad_pivot(self, pivots: BadPivots) -> None:
        first = pivots.first(bad=True)
        if first is None:
            return
        if not self.chains:
            raise reference.pivot_error(self.forest, *first)
        raise PivotError(
            f"{self.where(*first)}: pivot is zero, negative, NaN or infinite; expected positive "
            "and finite, as in diagonally dominant systems",
            *first,
        )


def apart(arrays: dict[str, np.ndarray], target: np.ndarray) -> dict[str, np.ndarray]:
    return {name: unshared(a, target, name != "b") for name, a in arrays.items()}


def not_finite(a: np.ndarray) -> tuple[int, ...] | None:
    """Return the index of the first value that is not finite, or None."""
    good = np.isfinite(a)
    return None if good.all() else tuple(int(k) for k in np.argwhere(~good)[0])
