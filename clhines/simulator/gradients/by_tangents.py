"""The gradient of a run by a few numbers: their tangents go forward with the run, on a device.

A step has one more solve for each number, with the same matrix, and no state is kept. Derivatives
of the rows of records are ready when the run ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyopencl.array as cla

from clhines.simulator.gradients.adjoint import Adjoint
from clhines.simulator.gradients.by_device import DeviceGradient


class TangentGradient(DeviceGradient):
    """A run on a device whose rows are differentiated by its `directions`, as they come."""

    def forward(self) -> list[np.ndarray]:
        """Take all steps; return the rows of each record."""
        queue, layout, count = self._queue, self._layout, len(self.directions)
        lanes, width = layout.rows * layout.width, max(1, len(self._recorded))
        start = self._start()
        self._store = cla.empty(queue, 2 * len(start), self._dtype)
        self._kept = [self._to_device(start)]
        self._load(0)
        self._rows = cla.zeros(queue, (self.steps + 1) * width * lanes, self._dtype)
        self._by_rows_of = cla.zeros(queue, count * self._rows.size, self._dtype)
        d, x = self._system(1), self._system(0)
        size = (count, len(self._solver.plan.gather))
        by_x, right = (cla.zeros(queue, size, self._dtype) for _ in range(2))
        masks = [self._mask(k, instances) for k, _, instances in self.directions]
        more = {
            "tangents": self._zeros(2 * count * self._plan.entries),
            "seeds": self._to_device(np.concatenate(masks)),
            "tangent_changes": by_x,
            "num_entries": np.int32(self._plan.entries),
            "size": np.int64(size[1]),
        }
        self._bind(["take_step"], {**self._arrays, "system_d": d, "changes": x})
        more |= {**self._arrays, "rows": self._by_rows_of, "system_b": right, "changes": x}
        self._bind(["take_tangents"], more)
        for step in range(self.steps + 1):
            before, after = max(step - 1, 0) % 2, step % 2
            between = step, step > 0, step < self.steps, step
            self._launch("take_step", *between, before, after, before, after)
            if step < self.steps:
                self._solve(d, x)
            self._launch("take_tangents", *between, before, after)
            if step < self.steps:
                self._solver.enqueue(d, self._u, right, out=by_x, packed=True)
        return self._recorded_rows()

    def _mask(self, k: int, instances: np.ndarray) -> np.ndarray:
        mask = np.zeros(self.model.kinds[k].count)
        mask[instances] = 1.0
        return self._layout.packed(mask)

    def backward(self, cotangents: Sequence[np.ndarray]) -> Adjoint:
        """Return the derivatives of a loss by everything, of those by the rows."""
        layout, adjoint = self._layout, Adjoint(self._host)
        by_rows = self._by_rows(cotangents)
        shape = len(by_rows), len(self.directions), *by_rows.shape[1:]
        tangents = self._by_rows_of.get(self._queue).reshape(shape)
        slopes = np.einsum("swl,srwl->rl", by_rows, tangents)[:, : layout.count]
        for (k, name, instances), slope in zip(self.directions, slopes, strict=True):
            copy = instances * layout.count // self.model.kinds[k].count
            copies, first = np.unique(copy, return_index=True)
            adjoint.parameters[k][name][instances[first]] = slope[copies]  # of all of a copy
        return adjoint
