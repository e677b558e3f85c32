"""A network advanced by a few kernels per step, around the solve; cells of any size and method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device import devices, program, trust
from clhines.errors import DeviceMemoryError
from clhines.forest import Forest
from clhines.plan.kernel_spec import Parameter, TemplateSpec
from clhines.plan.methods import METHODS, make_plan
from clhines.plan.plan import Limits, real_name
from clhines.simulate.kinds.spec import (
    MechanismSpec,
    model_kinds,
    of_each_kind,
    parameter_array,
    place_of,
)
from clhines.simulate.state.spread import Storage, each_instance
from clhines.simulate.state.state import State
from clhines.solve.solver import Solver


@dataclass(frozen=True)
class StepSpec(TemplateSpec):
    """``steps.mako``.

    Attributes
    ----------
    real : str
        ``double`` or ``float``.
    kinds : tuple of MechanismSpec
    secondorder : bool
    noise : str
        OpenCL source of `mechanisms.normal`, where a kind uses it.
    """

    template: ClassVar[str] = "simulate/steps"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "between_solves": (
            "int num_places, int finish, int begin, int done, int next, real dt, real t_done",
            "real t_mid, const int *restrict active, const real *restrict over_dt",
            "const real *restrict constant_b, const real *restrict x, real *restrict v",
            "real *restrict d, real *restrict b, const real *restrict base_d",
            "const int *restrict cell, const real *restrict threshold, int *restrict failed",
            "int capacity, int *restrict spike_source, int *restrict spike_step",
            "int *restrict spike_count, int row, real scale_of_events, ulong seed",
            "long *restrict incoming",
        )
    }
    of_kind: ClassVar[tuple[str, ...]] = (
        "int count_{k}, int target_{k}, int number_{k}, const int *restrict first_{k}",
        "const real *restrict parameters_{k}, real *restrict states_{k}",
        "const real *restrict factor_{k}",
    )
    real: str
    kinds: tuple[MechanismSpec, ...]
    secondorder: bool
    noise: str

    def parameters(self, kernel: str) -> list[Parameter]:
        """Parameters of the kernel, last those of each kind."""
        return [*super().parameters(kernel), *of_each_kind(self.of_kind, self.kinds)]


def of_whole(
    forest: Forest, method: str, dtype: np.dtype, limits: Limits, options: Mapping[str, object]
) -> tuple[str, dict[str, object]]:
    """Choose for a part the method and options of the whole network: the bits depend on them."""
    plan = make_plan(forest, method, dtype, limits, **cast("dict[str, Any]", options))
    chosen: dict[str, object] = {}
    for name in ("segment", "vector_width"):
        values = {getattr(part.spec, name, None) for part in plan.parts}
        if len(values) == 1 and name in METHODS[plan.method].options and values != {None}:
            chosen[name] = values.pop()
    return plan.method, {**chosen, **options}


class Steps:
    """Advance a model with a solver, in the order of its plan.

    Parameters
    ----------
    state : State
    method : str
        Of the solver.
    **options
        Of the solver.

    Attributes
    ----------
    solver : Solver
    max_steps : int
        Steps whose events must be known before the first of them.

    Raises
    ------
    DeviceMemoryError
        The solver would need slices.
    """

    def __init__(self, state: State, method: str = "auto", **options: object) -> None:
        self.state, self.model, self.queue = state, state.model, state.queue
        model, dtype = self.model, state.dtype
        trust.limits(self.queue.device, "steps", dtype)
        self.max_steps = state.epoch
        if state.decisions.split:
            limits = trust.limits(devices.whole_device(self.queue.device), "solve", dtype)
            whole = state.decisions.network.forest
            method, options = of_whole(whole, method, dtype, limits, options)
        chosen = cast("dict[str, Any]", options)  # checked by the solver
        self.solver = Solver(model.forest, method, dtype, None, self.queue, **chosen)
        if not self.solver.takes_device_order:
            raise DeviceMemoryError(
                f"a network needs its {model.forest.num_nodes} nodes on the device at once; the "
                f"solver would need {self.solver.num_slices} slices"
            )
        real = real_name(dtype)
        kinds, noise = model_kinds(model, real)
        spec = StepSpec(real, kinds, model.secondorder, noise)
        built = program.build(self.queue.context, spec)
        self._size = self.solver.plan.packed_size
        over_dt = model.capacitance_over_dt
        base_d = over_dt + model.constant_d
        self._d, self._over_dt = self.solver.pack(base_d), self.solver.pack(over_dt)
        self._u = self.solver.pack(model.u)
        self._constant_b = self.solver.pack(model.constant_b)
        self._v, self._x = self.solver.pack(model.v_init), cla.zeros_like(self._d)
        self._b = cla.zeros_like(self._d)
        gather = self.solver.plan.gather
        self._position = np.zeros(model.forest.num_nodes, np.int64)
        self._position[gather[gather >= 0]] = np.flatnonzero(gather >= 0)
        self._parameters: list[cla.Array] = []
        self._kernel = program.BoundKernel(built, "between_solves", self._arguments(base_d, gather))
        self._recorded: cla.Array | None = None

    def _arguments(self, base_d: np.ndarray, gather: np.ndarray) -> list[object]:
        """Put the tables on the device; `_launch` sets the arguments that change."""
        model, state, real = self.model, self.state, self.state.dtype.type
        nodes = np.unique(np.concatenate([model.soma, *(k.node for k in model.kinds)]))
        number = np.full(model.forest.num_nodes, -1, np.int32)
        number[nodes] = np.arange(len(nodes))
        cell = np.full(len(nodes), -1, np.int32)
        cell[number[model.soma]] = np.arange(model.forest.num_cells)
        active = np.where(gather < 0, -1, number[gather]).astype(np.int32)
        self._active_nodes, self._base_d = nodes, self._put(base_d[nodes].astype(real))
        arrays: list[object] = [
            self._put(active), self._over_dt, self._constant_b, self._x, self._v, self._d, self._b,
            self._base_d, self._put(cell),
            self._put(model.threshold.astype(real)), state.failed,
        ]  # fmt: skip
        found = [state.spike_source, state.spike_step, state.spike_count]
        changing = [*[np.int32(0)] * 4, *[real(0)] * 3]
        arguments: list[object] = [np.int32(self._size), *changing, *arrays]
        arguments += [np.int32(state.max_spikes), *found]
        self._row_argument = len(arguments)
        arguments += [
            np.int32(0),
            real(state.incoming_scale),
            np.uint64(model.seed),
            state.incoming,
        ]
        for k, kind in enumerate(model.kinds):
            first = np.searchsorted(kind.node, np.append(nodes, model.forest.num_nodes))
            numbers = [kind.count, kind.first_target, kind.first_instance]
            arguments += [np.int32(n) for n in numbers]
            self._parameters.append(self._put(parameter_array(kind, self.state.dtype)))
            arguments += [
                self._put(first.astype(np.int32)),
                self._parameters[k],
                state.states[k],
                self._put(kind.factor.astype(real)),
            ]
        return arguments

    def _put(self, a: np.ndarray) -> cla.Array:
        return cla.to_device(self.queue, a)

    def _launch(self, done: int | None, next_step: int | None) -> None:
        """Enqueue the end of a step and the beginning of another."""
        real, dt, kernel = self.state.dtype.type, self.model.dt, self._kernel
        last = done if done is not None else 0
        step = next_step if next_step is not None else 0
        numbers = [np.int32(done is not None), np.int32(next_step is not None), np.int32(last)]
        times = [real(dt), real(last * dt), real((step + 0.5) * dt)]
        for k, value in enumerate([*numbers, np.int32(step), *times], 1):
            kernel[k] = value
        row = (step % self.state.slots) * self.model.num_targets
        kernel[self._row_argument] = np.int32(row)
        (items,), (group,) = devices.small_groups(self.queue.device, self._size)
        kernel.launch(self.queue, items, group)

    def set_records(self, nodes: np.ndarray) -> None:
        """Record the voltages of `nodes`, (r,) natural."""
        self._recorded = self._put(self._position[nodes].astype(np.int32)) if len(nodes) else None

    def advance(self, first: int, count: int, row: int) -> None:
        """Enqueue `count` steps from step `first`; the first is recorded in `row`."""
        done: int | None = None
        for step in range(first, first + count):
            self._launch(done, step)
            if done is not None:
                self._record_row(row + done - first)
            self.solver.enqueue(self._d, self._u, self._b, out=self._x, packed=True)
            done = step
        self._launch(done, None)
        self._record_row(row + count - 1)

    def _record_row(self, row: int) -> None:
        state = self.state
        if state.num_recorded_nodes:
            state.enqueue_record(row, self._recorded, self._v, state.record_v)

    def storage(self, k: int, name: str) -> list[Storage]:
        """Where the values of a parameter of kind `k` are."""
        kind, array = self.model.kinds[k], self._parameters[k]
        single, index = place_of(kind, name)
        if single:
            return [Storage(array, index)]
        ones = sum(np.ndim(v) == 0 for v in kind.parameters.values())
        return [Storage(array, ones + index * kind.count, k, lambda: each_instance(kind))]

    def set_constants(self, d: np.ndarray, b: np.ndarray) -> bool:
        """Take other `Model.constant_d` and `constant_b`, (n,) float64; whether it can."""
        base_d = self.model.capacitance_over_dt + d
        for array, values in ((self._d, base_d), (self._constant_b, b)):
            cl.enqueue_copy(self.queue, array.data, self.solver.pack(values).data)
        self._base_d.set(base_d[self._active_nodes].astype(self.state.dtype), self.queue)
        return True

    def voltage_arrays(self) -> list[cla.Array]:
        """Arrays on the device that `set_voltages` sets."""
        return [self._v]

    def voltages(self) -> np.ndarray:
        """(n,) of the dtype, mV: in natural order."""
        return self.solver.unpack(self._v).get(self.queue)

    def set_voltages(self, v: np.ndarray) -> None:
        """Go on from other voltages, (n,) mV in natural order."""
        packed = self.solver.pack(v)
        cl.enqueue_copy(self.queue, self._v.data, packed.data)
