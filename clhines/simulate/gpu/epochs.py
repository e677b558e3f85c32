"""Epochs of whole cells on chip: many steps in one launch, some cells per work-group.

Cells interact through spikes only, and a spike acts no earlier than the smallest delay. For
that many steps a work-group keeps its cells' voltages, states and factors in local memory and
registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from numpy.typing import ArrayLike

from clhines.device import program, trust
from clhines.model.model import Model
from clhines.plan.plan import Limits
from clhines.simulate.engines.run import DeviceRun, Job
from clhines.simulate.gpu.lists import NodeLists
from clhines.simulate.gpu.plan import EpochPlan, plan_epochs, recorded_lists
from clhines.simulate.gpu.spec import WARP
from clhines.simulate.kinds.spec import place_of
from clhines.simulate.records.sampling import Sample, arguments
from clhines.simulate.state.spread import Spread, Storage, each_instance
from clhines.simulate.state.state import State

_VALUES = 6  # of `_Launch._lists`: the values of nodes and instances


def make(job: Job) -> DeviceRun:
    """Make a run of epochs; see `Job`."""
    job.check("epochs")
    state = job.state
    limits = trust.limits(job.queue.device, "epochs", job.dtype)
    return DeviceRun(state, BlockEpochs(state.model, state, limits))


class BlockEpochs:
    """Executor: epochs of cells that fit into a work-group, some of them in each.

    Parameters
    ----------
    model : Model
    state : State
        Device arrays shared with the delivery of spikes.
    limits : Limits
    segment, units, by_node : int and bool, optional
        See `plan_epochs`.

    Raises
    ------
    InputError
        A cell is too large for a work-group.
    """

    def __init__(
        self,
        model: Model,
        state: State,
        limits: Limits,
        segment: int | None = None,
        units: int | None = None,
        by_node: bool | None = None,
    ) -> None:
        self.model, self.queue, self.max_steps = model, state.queue, state.epoch
        plans = plan_epochs(model, state.dtype, limits, segment, units, state.decisions, by_node)
        shared, self._inflow = _Shared(model, state, plans[0]), state.decisions.inflow
        self._shared = shared
        context, device = self.queue.context, self.queue.device
        self.launches = [_Launch(model, state, plan, shared) for plan in plans]
        # launches after the first run concurrently with it
        self._queues = [cl.CommandQueue(context, device) for _ in plans[1:]]
        self._v = np.zeros(model.forest.num_nodes, state.dtype)

    def set_records(self, nodes: np.ndarray) -> None:
        """Record the voltage at natural `nodes`, a column each."""
        plans = (launch.plan for launch in self.launches)
        offsets = self.model.forest.cell_offsets
        self._shared.set_records(*recorded_lists(offsets, plans, nodes))

    def set_samples(self, samples: Sequence[Sample], sampled: cla.Array) -> None:
        """Record states and currents from now on; see `Sampling`."""
        given: list[cla.Array | np.int32] = []
        if samples:
            sizes = [kind.count for kind in self.model.kinds]
            given = arguments(self.queue, samples, sizes, _by_instance, sampled)
        for launch in self.launches:
            launch.bind(given)

    def advance(self, first: int, count: int, row: int) -> None:
        """Enqueue `count` steps from step `first`; the first is recorded in `row`."""
        own, *others = self.launches
        begin, ends = [], []
        if others:
            begin = [cl.enqueue_marker(self.queue)]
            self.queue.flush()
        own.advance(self.queue, first, count, row)
        for queue, launch in zip(self._queues, others, strict=True):
            ends.append(launch.advance(queue, first, count, row, begin))
            queue.flush()
        if ends:
            cl.enqueue_barrier(self.queue, wait_for=ends)

    def storage(self, k: int, name: str) -> list[Storage]:
        """Where the values of a parameter of kind `k` are; empty: in the program."""
        kind = self.model.kinds[k]
        single, index = place_of(kind, name)
        if single:
            return []
        if not self.launches[0].spec.by_node:
            array = self._shared.of_kinds[k][1][-self._shared.num_varying[k] + index]
            return [Storage(array, 0, k, lambda: each_instance(kind))]
        if (kind.mechanism.name, name) not in self.model.stored:
            return []
        return [launch.storage(k, index) for launch in self.launches]

    def set_constants(self, d: np.ndarray, b: np.ndarray) -> bool:
        """Take other `Model.constant_d` and `constant_b`, (n,) float64; whether it can."""
        if b.any() and not self._inflow:
            return False
        done = [launch.set_constants(d, b) for launch in self.launches]
        return all(done)

    def voltage_arrays(self) -> list[cla.Array]:
        """Arrays on the device that `set_voltages` sets."""
        return [launch.v for launch in self.launches]

    def voltages(self) -> np.ndarray:
        """(n,) of the dtype, mV, in natural order."""
        for launch in self.launches:
            launch.get_voltages(self._v)
        return self._v.copy()

    def set_voltages(self, v: np.ndarray) -> None:
        """Take (n,) voltages, mV, in natural order."""
        for launch in self.launches:
            launch.set_voltages(v)


def _by_instance(_: int, instance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each instance owns its samples; see `sampling.arguments`."""
    return instance, np.zeros_like(instance)


class _Shared:
    """Device arrays that all launches take: of the kinds' instances, thresholds and records."""

    def __init__(self, model: Model, state: State, plan: EpochPlan) -> None:
        self.queue, self.state = state.queue, state
        self.of_kinds = []  # states, number of instances; factor and parameters that vary
        self.num_varying: list[int] = []
        for kind, spec, states in zip(model.kinds, plan.spec.kinds, state.states, strict=True):
            varying = [self.reals(v) for v in kind.parameters.values() if np.ndim(v)]
            self.num_varying.append(len(varying))
            factor = [self.reals(kind.factor)] if spec.density and not spec.factor else []
            self.of_kinds.append((states, [np.int32(kind.count), *factor, *varying]))
        self.threshold = self.reals(model.threshold)
        self.set_records(np.zeros(model.forest.num_cells + 1), np.zeros((0, 2)))

    def integers(self, values: ArrayLike) -> cla.Array:
        """Int32 on the device, one at least."""
        values = np.ascontiguousarray(values).astype(np.int32).reshape(-1)
        return cla.to_device(self.queue, values if values.size else np.zeros(1, np.int32))

    def reals(self, values: ArrayLike) -> cla.Array:
        """Reals on the device, one at least."""
        values = np.ascontiguousarray(values, self.state.dtype).reshape(-1)
        return cla.to_device(self.queue, values if values.size else np.zeros(1, values.dtype))

    def set_records(self, starts: np.ndarray, entries: np.ndarray) -> None:
        """Take first entry of each cell, and entries of lane, row and column."""
        self._records = [self.integers(starts), self.integers(entries)]
        self._num_records = np.int32(len(entries))

    def record_arguments(self, row: int) -> list[object]:
        """Return the arguments of a kernel that writes records from a row on."""
        return [*self._records, self.state.record_v, np.int32(row), self._num_records]


class _Launch:
    """The cells of a plan on the device, and the kernel that advances them."""

    def __init__(self, model: Model, state: State, plan: EpochPlan, shared: _Shared) -> None:
        self.model, self.plan, self._state, self._shared = model, plan, state, shared
        self.queue, self.spec = state.queue, plan.spec
        self._spread: Spread | None = None
        self._upload()
        if self.spec.constant:
            self._f1, self._f2, self._inverse = (cla.zeros_like(self._d) for _ in range(3))
            dense, lanes = max(1, self.spec.of_factors.dense**2), max(1, 3 * plan.table.num_lanes)
            self._tree = cla.zeros(self.queue, lanes, state.dtype)
            self._tree_inverses = cla.zeros(self.queue, len(plan.cells) * dense, state.dtype)
            self._factor()
        self._samples = False
        self._kernel = self._bound([])

    # -- device --------------------------------------------------------------------------------

    def _packed(
        self, at: Callable[[np.ndarray], np.ndarray], name: str = "gather", padding: float = 0.0
    ) -> cla.Array:
        """Return a function of the nodes of `CellTable.spread` on the device, padded.

        Nothing is as large but the reals of the device's precision.
        """
        table = self.plan.table
        size = table.num_lanes if name == "up" else table.rows.size
        out = np.full(size, padding, self._state.dtype)
        for here, index in table.spread(name):
            out[here] = np.where(index < 0, padding, at(index))
        return self._shared.reals(out)

    def _upload(self) -> None:
        model, plan = self.model, self.plan
        table, integers = plan.table, self._shared.integers
        self._tables = [
            integers(plan.units),
            integers(table.rows.rows),
            integers(table.lanes.links),
            integers(table.lanes.children),
        ]
        values, dt = model.of_nodes, model.solved_dt
        u, v = partial(values.at, "u"), partial(values.at, "v_init")
        self._tie, self._up = (self._packed(u, name) for name in ("tie", "up"))
        self.v = self._packed(v)
        if plan.lists is not None:
            self._upload_lists(plan.lists)
            return

        def over_dt(nodes: np.ndarray) -> np.ndarray:
            return values.at("capacitance", nodes) / dt

        self._d = self._packed(
            lambda nodes: over_dt(nodes) + values.at("constant_d", nodes), padding=1.0
        )
        self._c = self._packed(over_dt)
        self._k = self._packed(partial(values.at, "constant_b"))
        self._instances = [[integers(a) for a in each] for each in plan.instances]
        self._slots = integers(plan.slots)

    def _upload_lists(self, lists: NodeLists) -> None:
        integers, reals = self._shared.integers, self._shared.reals
        tables = lists.homes, lists.instances, lists.rows, lists.places, lists.members
        size, held = max(1, lists.state_lines * self.spec.warp), 3 * self.spec.capacity
        far = [held * len(self.plan.cells)] if self.spec.far else []
        self._far = [cla.empty(self.queue, n, self._state.dtype) for n in far]
        self._lists = [
            *(integers(a) for a in tables),
            reals(lists.scalars),
            reals(lists.values),
            cla.empty(self.queue, size, self._state.dtype),
        ]

    def _factor(self) -> None:
        """Work out f1, f2, 1 / d of all nodes and of the trees of segments."""
        spec = self.spec.of_factors
        kernel = program.Kernel(program.build(self.queue.context, spec), "advance")
        cells = len(self.plan.cells)
        arrays = [self._d, self._tie, self._up, self._f1, self._f2, self._inverse, self._tree]
        arrays.append(self._tree_inverses)
        kernel(
            self.queue,
            (self.plan.groups * spec.work_group,),
            (spec.work_group,),
            np.int32(0),
            np.int32(0),
            np.int32(cells),
            *(a.data for a in self._tables + arrays),
        )

    def bind(self, samples: list[cla.Array | np.int32]) -> None:
        """Take the arguments for samples; none: record no states and currents."""
        if samples or self._samples:
            self._kernel, self._samples = self._bound(samples), bool(samples)

    def _bound(self, samples: list[cla.Array | np.int32]) -> program.BoundKernel:
        """Return the kernel with its arguments; those of records and samples are the last."""
        state, model, shared = self._state, self.model, self._shared
        real = state.dtype.type
        given: list[object] = [np.int32(0), np.int32(0), np.int32(len(self.plan.cells))]
        by_node = self.spec.by_node
        given += [*self._tables, *([] if by_node else [self._d]), self._tie, self._up]
        if self.spec.constant:
            given += [self._f1, self._f2, self._inverse, self._tree, self._tree_inverses]
        numbers = self.spec.numbers if self.spec.takes_series else {}
        series = [real(c) for c in numbers.values()]
        if by_node:
            given += [self.v, *self._lists, *self._far, *series]
            given += [a for states, values in shared.of_kinds for a in (states, values[0])]
        else:
            given += [self._c, self._k, self.v, *series]
            for lists, (states, values) in zip(self._instances, shared.of_kinds, strict=True):
                given += [*lists, states, *values]
        if self.spec.has_slots:
            given.append(self._slots)
        given += [
            state.incoming,
            np.int32(state.slots),
            np.int32(model.num_targets),
            real(state.incoming_scale),
            real(model.dt),
            np.uint64(model.seed & (1 << 64) - 1),
            shared.threshold,
            state.spike_source,
            state.spike_step,
            state.spike_count,
            np.int32(state.spike_source.size),
            state.failed,
        ]
        self._record_argument = len(given)
        given += [*shared.record_arguments(0), *samples]
        built = program.build(self.queue.context, replace(self.spec, samples=bool(samples)))
        return program.BoundKernel(built, "advance", given)

    # -- steps ---------------------------------------------------------------------------------

    def advance(
        self,
        queue: cl.CommandQueue,
        first_step: int,
        count: int,
        record_row: int,
        wait_for: list[cl.Event] | None = None,
    ) -> cl.Event:
        """Enqueue steps on a queue; see `BlockEpochs.advance`."""
        kernel, group = self._kernel, self.spec.work_group
        kernel[0], kernel[1] = np.int32(first_step), np.int32(count)
        records = self._shared.record_arguments(record_row)
        for k, argument in enumerate(records, self._record_argument):
            kernel[k] = argument
        return kernel.launch(queue, self.plan.groups * group, group, wait_for)

    # -- changes -------------------------------------------------------------------------------

    def storage(self, k: int, index: int) -> Storage:
        """Where the values of a parameter of kind `k` are in the lists; see `BlockEpochs`."""
        lists = self.plan.lists
        assert lists is not None
        kind, array = self.model.kinds[k], self._lists[_VALUES]
        name = [n for n, v in kind.parameters.items() if np.ndim(v)][index]
        offset, places = lists.places_of(k, name)
        assert isinstance(array, cla.Array)
        return Storage(array, offset, (k, id(self)), lambda: places)

    def set_constants(self, d: np.ndarray, b: np.ndarray) -> bool:
        """Take other constant conductances and currents, (n,) float64 in natural order."""
        lists, total = self.plan.lists, self.model.capacitance_over_dt + d
        if lists is not None:
            return lists.of_own_cells and self._set_lists(lists, total, b)
        for array, values, padding in ((self._d, total, 1.0), (self._k, b, 0.0)):
            gather = self.plan.table.gather
            packed = np.where(gather < 0, padding, values[gather])
            array[: len(packed)].set(packed.astype(self._state.dtype), self.queue)
        if self.spec.constant:
            self._factor()
        return True

    def _set_lists(self, lists: NodeLists, total: np.ndarray, b: np.ndarray) -> bool:
        array = self._lists[_VALUES]
        assert isinstance(array, cla.Array)
        if self._spread is None:
            self._spread = Spread(self.queue, self._state.dtype, self.model)
            self._of_nodes = [self._shared.integers(a) for a in lists.places_of_nodes]
        put, (at, node) = self._spread.values, self._of_nodes
        put(array, at, node, total, WARP)
        if self._state.decisions.inflow:
            put(array, at, node, b, 3 * WARP)
        return True

    def get_voltages(self, v: np.ndarray) -> None:
        """Write those of the own cells into (n,) voltages in natural order."""
        gather = self.plan.table.gather
        v[gather[gather >= 0]] = self.v.get()[gather >= 0]

    def set_voltages(self, v: np.ndarray) -> None:
        """Take those of the own cells from (n,) voltages in natural order."""
        gather = self.plan.table.gather
        self.v.set(np.where(gather < 0, 0, v[gather]).astype(self._state.dtype))
