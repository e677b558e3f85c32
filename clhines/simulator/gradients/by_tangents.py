"""The gradient of a run by a few numbers: their tangents go forward with the run, on a device.

A step has one more solve for each number, with the same matrix, and no state is kept. Derivatives
of the rows of records are ready when the run ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyopencl.array as cla

from clhines.simulator.gradients.adjoint import Adjoint
from clhines.simulator.gradients.by_device import DeviceSteps
from clhines.simulator.gradients.kernels import NOTES, turn_of


class TangentGradient:
    """A run on a device whose rows are differentiated by the directions of its steps."""

    def __init__(self, steps: DeviceSteps) -> None:
        self._steps = steps

    def forward(self) -> list[np.ndarray]:
        """Take all steps; return the rows of each record."""
        of, count, end = self._steps, len(self._steps.directions), self._steps.steps
        start, rows = of.plan.start(), of.new_rows()
        store = of.to_device(np.concatenate([start, start]))
        self._by_numbers = of.new_rows(count)
        d, x = of.system(1), of.system(0)
        size = (count, len(of.solver.plan.gather))
        by_x, right = (cla.zeros(of.queue, size, of.dtype) for _ in range(2))
        masks = [self._mask(k, instances) for k, _, instances in of.directions]
        of.bind(["take_step"], {"store": store, "rows": rows, "system_d": d, "changes": x})
        more = {
            "store": store,
            "rows": self._by_numbers,
            "system_b": right,
            "changes": x,
            "tangents": of.zeros(2 * count * of.plan.entries),
            "seeds": of.to_device(np.concatenate(masks)),
            "tangent_changes": by_x,
            "num_entries": np.int32(of.plan.entries),
            "size": np.int64(size[1]),
        }
        of.bind(["take_tangents"], more)
        solve, solve_tangents = of.prepared(d, x), of.prepared(d, by_x, right)
        for step in range(end + 1):
            turn, slots = turn_of(step, end, NOTES), (max(step - 1, 0) % 2, step % 2)
            of.launch("take_step", step, turn, *slots)
            if step < end:
                solve()
            of.launch("take_tangents", step, turn, *slots)
            if step < end:
                solve_tangents()
        return of.recorded_rows(rows)

    def _mask(self, k: int, instances: np.ndarray) -> np.ndarray:
        mask = np.zeros(self._steps.model.kinds[k].count)
        mask[instances] = 1.0
        return self._steps.layout.packed(mask)

    def backward(self, cotangents: Sequence[np.ndarray]) -> Adjoint:
        """Return the derivatives of a loss by everything, of those by the rows."""
        of, adjoint = self._steps, Adjoint(self._steps.host)
        by_rows = of.by_rows(cotangents)
        shape = len(by_rows), len(of.directions), *by_rows.shape[1:]
        tangents = self._by_numbers.get(of.queue).reshape(shape)
        slopes = np.einsum("swl,srwl->rl", by_rows, tangents)[:, : of.layout.count]
        for (k, name, instances), slope in zip(of.directions, slopes, strict=True):
            copy = instances * of.layout.count // of.model.kinds[k].count
            copies, first = np.unique(copy, return_index=True)
            adjoint.parameters[k][name][instances[first]] = slope[copies]  # of all of a copy
        return adjoint
