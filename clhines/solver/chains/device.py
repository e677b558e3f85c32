"""Convert tridiagonal systems to Hines matrices on a device, and solutions back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.arrays import inverse
from clhines.solver.chains.shapes import Chains, Matrix, Shape
from clhines.solver.device import program
from clhines.solver.device.devices import wide_groups
from clhines.solver.engines.loaded import only_event
from clhines.solver.plan.kernel_spec import TemplateSpec
from clhines.solver.plan.plan import real_name


@dataclass(frozen=True)
class ChainsSpec(TemplateSpec):
    """Spec of ``chains.mako``, whose kernels convert tridiagonal systems to a Hines matrix."""

    template: ClassVar[str] = "solver/around/chains"
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


class DeviceChains:
    """Convert pyopencl arrays of tridiagonal systems to Hines matrices, in new arrays."""

    def __init__(self, chains: Chains, queue: cl.CommandQueue) -> None:
        self._chains, self._queue = chains, queue
        spec = ChainsSpec(real_name(chains.dtype))
        self._kernels = [program.kernel_of(queue.context, spec, name) for name in spec.kernels]
        inner = inverse(chains.inner, chains.n).astype(np.int32)
        self._inner = cla.to_device(queue, inner)
        self._groups = wide_groups(queue.device, chains.n)

    def matrix(self, dl: cla.Array, d: cla.Array, du: cla.Array) -> Matrix:
        chains, diagonals = self._chains, {"dl": dl, "d": d, "du": du}
        between = [chains.is_between(name, a.shape) for name, a in diagonals.items()]
        out = [cla.empty(self._queue, chains.n, chains.dtype) for _ in range(4)]
        sizes = [a.size for a in diagonals.values()]
        numbers = [between[0], between[2], *sizes]
        arrays = [a.base_data for a in (*diagonals.values(), *out)]
        arguments = chains.n, self._inner.base_data, *map(int, numbers), *arrays
        self._launch(0, arguments, list(diagonals.values()), out, None)
        return Matrix(*out)

    @cached_property
    def ones(self) -> cla.Array:
        """Row signs of a matrix without negated rows, (n,): all 1."""
        return cla.to_device(self._queue, np.ones(self._chains.n, self._chains.dtype))

    def rows(
        self, b: cla.Array, sign: cla.Array, shape: Shape, columns: bool, out: cla.Array | None
    ) -> cla.Array:
        """Enqueue ``sign * b`` in the layout `shape`, (n,) or (k, n); return that array.

        With `columns` the last axis of b counts right-hand sides. `out`, if set, gets the result.
        """
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
        inputs: list[cla.Array],
        out: list[cla.Array],
        rows: int | None,
    ) -> None:
        events = [event for a in (*inputs, *out) for event in a.events]
        items, group = self._groups
        size, local = (items, group) if rows is None else ((*items, rows), (*group, 1))
        event = self._kernels[kernel](self._queue, size, local, *arguments, wait_for=events or None)
        for a in out:
            only_event(a, event)
