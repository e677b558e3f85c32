"""Currents of mechanisms, recorded: those that a step had, computed once more before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device import devices, program
from clhines.mechanisms.emit.noise import normal, normal_source
from clhines.model.model import Kind, Model
from clhines.plan.kernel_spec import TemplateSpec
from clhines.plan.plan import real_name
from clhines.simulate.kinds.spec import MechanismSpec, kind_spec, parameter_array


@dataclass(frozen=True)
class CurrentsSpec(TemplateSpec):
    """``currents.mako``.

    Attributes
    ----------
    real : str
        ``double`` or ``float``.
    kind : MechanismSpec
    noise : str
        OpenCL source of `mechanisms.normal`, where the kind uses it.
    """

    template: ClassVar[str] = "simulate/currents"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "currents": (
            "int width, int count, int target, int number, int events, int step, int before",
            "int stride, int column, int row, real dt, real t_mid, real scale_of_events",
            "ulong seed, const int *restrict index, const real *restrict v",
            "const real *restrict parameters, const real *restrict states, real *restrict copy",
            "const long *restrict incoming, real *restrict values",
        ),
    }
    real: str
    kind: MechanismSpec
    noise: str


class Currents:
    """Enqueues rows of the currents of instances of a kind.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    model : Model
    kind : int
    instance : (r,) int64
        No one twice.
    states : (num_states * count,) real
    scale : float
        Of the weights in `incoming`.
    """

    def __init__(
        self,
        queue: cl.CommandQueue,
        model: Model,
        kind: int,
        instance: np.ndarray,
        states: cla.Array,
        scale: float,
    ) -> None:
        self._queue, self._model, self._kind = queue, model, model.kinds[kind]
        self._states, self._width = states, len(instance)
        self._real = states.dtype.type
        real = real_name(states.dtype)
        spec = kind_spec(self._kind, real)
        noise = normal_source(real) if spec.uses_noise else ""
        self._built = program.build(queue.context, CurrentsSpec(real, spec, noise))
        index = instance.astype(np.int32) if len(instance) else np.zeros(1, np.int32)
        self._index = cla.to_device(queue, index)
        self._parameters = cla.to_device(queue, parameter_array(self._kind, states.dtype))
        self._copy, self._scale = cla.zeros_like(states), self._real(scale)

    def enqueue(
        self,
        step: int,
        row: int,
        before: tuple[cla.Array, int, int],
        incoming: cla.Array,
        events: int,
        values: cla.Array,
    ) -> None:
        """Enqueue that a row is written, before its step is.

        Parameters
        ----------
        step, row : int
        before : ((rows, stride) real, int, int)
            Voltages, their row at the begin of the step, and the column of the first instance.
        incoming : (slots * num_targets,) int64
        events : int
            Where those of the step begin.
        values : (rows, r) real
        """
        if not self._width:
            return
        kind, model, (v, at, column) = self._kind, self._model, before
        numbers = self._width, kind.count, kind.first_target, kind.first_instance, events, step
        dt, middle = self._real(model.dt), self._real((step + 0.5) * model.dt)
        arguments: list[object] = [
            *(np.int32(n) for n in (*numbers, at, v.shape[1], column, row)),
            *(dt, middle, self._scale, np.uint64(model.seed & (1 << 64) - 1)),
            *(self._index, v, self._parameters, self._states, self._copy, incoming, values),
        ]
        (items,), (group,) = devices.small_groups(self._queue.device, self._width)
        kernel = program.BoundKernel(self._built, "currents", arguments)
        kernel.launch(self._queue, items, group)


def current_now(
    model: Model, kind: Kind, v: np.ndarray, states: Mapping[str, np.ndarray]
) -> np.ndarray:
    """(count,) float64: currents of a kind at t = 0, before the first event."""
    noise = None
    if kind.mechanism.uses_noise:
        noise = normal(model.seed, kind.first_instance + np.arange(kind.count), 0)
    args = v[kind.node], 0.0, kind.arrays(), states, noise, model.dt
    return kind.mechanism.current(*args)[0]
