"""The gradient by a few numbers: their tangents advance with the run on a device.

A step has one more solve for each number, with the same matrix, and keeps no state. The derivatives
of record rows are ready when the run ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.simulator.gradients.adjoint import Adjoint
from clhines.simulator.gradients.by_device import DeviceSteps
from clhines.simulator.gradients.kernels import NOTES, turn_of


class TangentGradient:
    """Advance a model on a device together with its derivatives by a few parameters."""

    def __init__(self, steps: DeviceSteps) -> None:
        self._steps = steps

    def forward(self) -> list[np.ndarray]:
        run, count, end = self._steps, len(self._steps.directions), self._steps.steps
        start, rows, store = run.started(), run.new_rows(), run.zeros(2 * run.plan.entries)
        cl.enqueue_copy(run.queue, store.base_data, start.base_data, byte_count=start.nbytes)
        self._by_numbers = run.new_rows(count)
        d, x = run.systems(1)(0), run.systems(0)(0)
        shape = (count, len(run.solver.plan.gather))
        by_x, right = (cla.zeros(run.queue, shape, run.dtype) for _ in range(2))
        kinds, directions = run.model.kinds, run.directions
        masks = [np.isin(np.arange(kinds[k].count), instances) for k, _, instances in directions]
        run.bind("take_step", {"store": store, "rows": rows, "system_d": d, "changes": x})
        more = {
            "store": store,
            "rows": self._by_numbers,
            "system_b": right,
            "changes": x,
            "tangents": run.zeros(2 * count * run.plan.entries),
            "seeds": run.to_device(np.concatenate([*map(run.layout.packed, masks)])),
            "tangent_changes": by_x,
            "num_entries": np.int32(run.plan.entries),
            "size": np.int64(shape[1]),
        }
        run.bind("take_tangents", more)
        solve, solve_tangents = run.prepared(d, x), run.prepared(d, by_x, right)
        for step in range(end + 1):
            turn, slots = turn_of(step, end, NOTES), (max(step - 1, 0) % 2, step % 2)
            run.launch("take_step", run.queue, step, turn, *slots, d, x)
            if step < end:
                solve()
            run.launch("take_tangents", run.queue, step, turn, *slots)
            if step < end:
                solve_tangents()
        return run.recorded_rows(rows, store[end % 2 * start.size :])

    def backward(self, cotangents: Sequence[np.ndarray]) -> Adjoint:
        run, adjoint = self._steps, Adjoint(self._steps.host, None, self._steps.model)
        by_rows = run.by_rows(cotangents)
        shape = len(by_rows), len(run.directions), *by_rows.shape[1:]
        tangents = self._by_numbers.get(run.queue).reshape(shape)
        slopes = np.einsum("swl,srwl->rl", by_rows, tangents)[:, : run.layout.count]
        for (k, name, instances), slope in zip(run.directions, slopes, strict=True):
            copy = instances * run.layout.count // run.model.kinds[k].count
            copies, first = np.unique(copy, return_index=True)
            adjoint.parameters[k][name][instances[first]] = slope[copies]  # sum over a copy
        return adjoint
