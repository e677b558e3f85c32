"""Epochs of whole cells on chip: many steps in one launch, some cells per work-group.

Cells interact through spikes only, and a spike acts no earlier than the smallest delay. For
that many steps a work-group keeps its cells' voltages, states and factors in local memory and
registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from numpy.typing import ArrayLike

from clhines.simulator.engines.cells_run import Cells, CellsRun
from clhines.simulator.engines.run import Job
from clhines.simulator.gpu.lists import NodeLists
from clhines.simulator.gpu.plan import EpochPlan, plan_epochs, recorded_lists
from clhines.simulator.gpu.spec import WARP, varying
from clhines.simulator.kinds.spec import Owners, Sample, place_of, sample_arguments
from clhines.simulator.state.changes import Spread, Storage
from clhines.solver.device import program
from clhines.solver.device.arrays import to_device
from clhines.solver.plan.plan import Limits

_RECORDS = ("record_start", "record_list", "record_v", "num_records")
_CHANGES = ("first_step", "num_steps", "record_row", *_RECORDS)  # arguments of each launch


def make(job: Job, **options: Any) -> CellsRun:
    job.check("epochs")
    return CellsRun(job, partial(BlockEpochs, **options))


class BlockEpochs(Cells):
    """Epochs of cells that fit into a work-group; options are those of `plan_epochs`."""

    def __init__(
        self,
        run: CellsRun,
        limits: Limits | None = None,
        segment: int | None = None,
        units: int | None = None,
        by_node: bool | None = None,
    ) -> None:
        self.model, self.queue, self.run = run.model, run.queue, run
        options = segment, units, run.decisions, by_node
        plans = plan_epochs(run.model, run.dtype, limits or run.limits, *options)
        self.of_kinds: dict[str, program.KernelArgument] = {}
        self.parameters = list[list[cla.Array]]()  # of each kind, those that vary
        of_each = zip(run.model.kinds, plans[0].spec.kinds, run.states.of_kinds, strict=True)
        for kind, spec, states in of_each:
            values = [self.reals(v) for v in kind.parameters.values() if np.ndim(v)]
            self.parameters.append(values)
            factor = [self.reals(kind.factor)] if spec.density and not spec.factor else []
            count = np.int32(kind.count)
            self.of_kinds |= {f"{spec.name}__states": states, f"{spec.name}__count": count}
            self.of_kinds |= zip(varying(spec), [*factor, *values], strict=True)
        self.threshold = self.reals(run.model.threshold)
        starts, none = np.zeros(run.model.forest.num_cells + 1), np.zeros((0, 2))
        self.recorded = self._recorded(starts, none, 0, self.reals(none))
        self.launches = [_CellsKernel(self, plan) for plan in plans]
        self._together = program.SideBySide(self.queue, len(plans))

    def integers(self, values: ArrayLike) -> cla.Array:
        return to_device(self.queue, values, np.int32)

    def reals(self, values: ArrayLike) -> cla.Array:
        return to_device(self.queue, values, self.run.dtype)

    def _recorded(
        self, starts: np.ndarray, entries: np.ndarray, columns: int, rows: cla.Array
    ) -> list[program.KernelArgument]:
        """Return the arguments `_RECORDS` of kernels."""
        return [self.integers(starts), self.integers(entries), rows, np.int32(columns)]

    def record(self, nodes: np.ndarray, rows: cla.Array) -> None:
        model, plans = self.model, (launch.plan for launch in self.launches)
        every = np.append(nodes, model.sources.detector_node[len(model.soma) :])
        starts, entries = recorded_lists(model.forest.cell_offsets, plans, every)
        detectors = entries[:, 1] >= len(nodes)  # which have their numbers for columns
        entries[detectors, 1] = ~(entries[detectors, 1] - len(nodes))
        self.recorded = self._recorded(starts, entries, len(nodes), rows)

    def sample(self, samples: Sequence[Sample], rows: cla.Array) -> None:
        lists: list[cla.Array | np.int32] = []
        if samples:
            sizes = [kind.count for kind in self.model.kinds]
            owners: Owners = lambda _, own: (own, np.zeros_like(own))  # noqa: E731 - itself
            lists = sample_arguments(samples, sizes, owners, rows)
        for launch in self.launches:
            launch.bind(lists)

    def launch(self, first: int, count: int, row: int) -> None:
        steps = first, count, row
        self._together.launch([partial(launch.advance, steps) for launch in self.launches])

    def storage(self, k: int, name: str) -> list[Storage]:
        kind = self.model.kinds[k]
        single, index = place_of(kind, name)
        if single:
            return []
        if not self.launches[0].spec.by_node:
            array = self.parameters[k][index]
            return [Storage(array, 0, k, lambda: (np.arange(kind.count),) * 2)]
        if (kind.mechanism.name, name) not in self.model.stored:
            return []
        return [launch.storage(k, index) for launch in self.launches]

    def set_constants(self, d: np.ndarray, b: np.ndarray, g: np.ndarray) -> bool:
        if (b.any() or g.any()) and not self.run.decisions.inflow:
            return False
        done = [launch.set_constants(d, b, g) for launch in self.launches]
        return all(done)

    def voltage_arrays(self) -> list[cla.Array]:
        return [launch.v for launch in self.launches]

    def voltages(self) -> np.ndarray:
        v = np.zeros(self.model.forest.num_nodes, self.run.dtype)
        for launch in self.launches:
            gather = launch.plan.table.gather
            v[gather[gather >= 0]] = launch.v.get()[gather >= 0]
        return v

    def set_voltages(self, v: np.ndarray) -> None:
        for launch in self.launches:
            gather = launch.plan.table.gather
            launch.v.set(np.where(gather < 0, 0, v[gather]).astype(self.run.dtype))


class _CellsKernel:
    """The cells of a plan on the device, and the kernel that advances them."""

    def __init__(self, epochs: BlockEpochs, plan: EpochPlan) -> None:
        self._epochs, self._run, self.plan, self.spec = epochs, epochs.run, plan, plan.spec
        self.model, self.queue = epochs.model, epochs.queue
        self._spread: Spread | None = None
        self._upload()
        if self.spec.constant:
            dense, lanes = max(1, self.spec.of_factors.dense**2), max(1, 3 * plan.table.num_lanes)
            self._arrays |= {
                n: cla.zeros_like(self._d) for n in ("all_f1", "all_f2", "all_inverse")
            }
            self._arrays["tree_factors"] = cla.zeros(self.queue, lanes, self._run.dtype)
            size = len(plan.cells.numbers) * dense
            self._arrays["tree_inverses"] = cla.zeros(self.queue, size, self._run.dtype)
            self._factor()
        self._samples = False
        self._kernel = self._bound([])

    def _packed(
        self, at: Callable[[np.ndarray], np.ndarray], name: str = "gather", padding: float = 0.0
    ) -> cla.Array:
        return self._epochs.reals(self.plan.table.values(name, at, self._run.dtype, padding))

    def _upload(self) -> None:
        model, plan = self.model, self.plan
        table, integers = plan.table, self._epochs.integers
        values, dt = model.of_nodes, model.solved_dt
        u, v = partial(values.at, "u"), partial(values.at, "v_init")
        self.v = self._packed(v)
        self._arrays = {
            "units": integers(plan.units),
            "rows": integers(table.rows.rows),
            "links": integers(table.lanes.links),
            "children": integers(table.lanes.children),
            "all_tie": self._packed(u, "tie"),
            "all_up": self._packed(u, "up"),
            "all_v": self.v,
        }
        if plan.lists is not None:
            self._upload_lists(plan.lists)
            return

        def over_dt(nodes: np.ndarray) -> np.ndarray:
            return values.at("capacitance", nodes) / dt

        of_d = "constant_g" if self.spec.constant else "constant_d"  # row sums, or the diagonal
        self._d = self._packed(lambda nodes: over_dt(nodes) + values.at(of_d, nodes), padding=1.0)
        self._g = self._packed(partial(values.at, "constant_g"))
        self._k = self._packed(partial(values.at, "constant_b"))
        self._arrays |= {"all_d": self._d, "all_g": self._g, "all_k": self._k}
        self._arrays["all_c"] = self._packed(over_dt)
        assert plan.sites is not None
        for kind, (start, instances) in zip(self.spec.kinds, plan.sites.instances, strict=True):
            self._arrays[f"{kind.name}__start"] = integers(start)
            self._arrays[f"{kind.name}__list"] = integers(instances)
        self._arrays["slots"] = integers(plan.sites.slots)

    def _upload_lists(self, lists: NodeLists) -> None:
        integers, reals = self._epochs.integers, self._epochs.reals
        size, held = max(1, lists.state_lines * self.spec.warp), 3 * self.spec.capacity
        self._values = reals(lists.numbers.values)
        self._arrays |= {
            "homes": integers(lists.homes),
            "instances": integers(lists.instances),
            "node_lists": integers(lists.rows),
            "node_places": integers(lists.lanes.places),
            "node_members": integers(lists.numbers.members),
            "node_scalars": reals(lists.numbers.scalars),
            "node_values": self._values,
            "node_states": cla.empty(self.queue, size, self._run.dtype),
        }
        if self.spec.far:
            size = held * len(self.plan.cells.numbers)
            self._arrays["far_held"] = cla.empty(self.queue, size, self._run.dtype)

    def _factor(self) -> None:
        """Work out f1, f2, 1 / d of all nodes and of the trees of segments."""
        spec = self.spec.of_factors
        built = program.build(self.queue.context, spec)
        kernel = program.bind(built, spec, "advance", {**self._arrays, **self._numbers()})
        kernel.launch(self.queue, self.plan.groups * spec.work_group, spec.work_group)

    def _numbers(self) -> dict[str, program.KernelArgument]:
        num, cells = np.int32, len(self.plan.cells.numbers)
        return {"first_step": num(0), "num_steps": num(0), "num_units": num(cells)}

    def bind(self, samples: list[cla.Array | np.int32]) -> None:
        """Take the arguments for samples; none: record no states and currents."""
        if samples or self._samples:
            self._kernel, self._samples = self._bound(samples), bool(samples)

    def _bound(self, samples: list[cla.Array | np.int32]) -> program.BoundKernel:
        run, model, epochs = self._run, self.model, self._epochs
        real, spec = (
            run.dtype.type,
            replace(self.spec, samples=bool(samples), detects=self.model.num_extra > 0),
        )
        series = spec.series_numbers.arguments if spec.takes_series else {}
        arguments: dict[str, program.KernelArgument] = {
            **self._numbers(),
            **self._arrays,
            **epochs.of_kinds,
            **{name: real(value) for name, value in series.items()},
            "incoming": run.grid.incoming,
            "ring": np.int32(run.grid.slots),
            "num_targets": np.int32(model.num_targets),
            "scale": real(run.grid.scale),
            "dt": real(model.dt),
            "seed": np.uint64(model.seed & (1 << 64) - 1),
            "threshold": epochs.threshold,
            "spike_source": run.grid.spikes.source,
            "spike_step": run.grid.spikes.step,
            "spike_count": run.grid.spikes.count,
            "capacity": np.int32(run.max_spikes),
            "failed": run.failed,
            **run.states.detectors,
            "record_row": np.int32(0),
            **dict(zip(_RECORDS, epochs.recorded, strict=True)),
            **dict(zip((p.name for p in spec.of_samples), samples, strict=True)),
        }
        built = program.build(self.queue.context, spec)
        return program.bind(built, spec, "advance", arguments, _CHANGES)

    def advance(
        self, steps: tuple[int, int, int], queue: cl.CommandQueue, waits: list[cl.Event] | None
    ) -> cl.Event:
        """Enqueue steps: the first, how many, and the row in which the first is recorded."""
        kernel, group = self._kernel, self.spec.work_group
        kernel.change(*map(np.int32, steps), *self._epochs.recorded)
        return kernel.launch(queue, self.plan.groups * group, group, waits)

    def storage(self, k: int, index: int) -> Storage:
        lists = self.plan.lists
        assert lists is not None
        kind = self.model.kinds[k]
        name = [n for n, v in kind.parameters.items() if np.ndim(v)][index]
        offset, places = lists.numbers.places_of(k, name)
        return Storage(self._values, offset, (k, id(self)), lambda: places)

    def set_constants(self, d: np.ndarray, b: np.ndarray, g: np.ndarray) -> bool:
        lists = self.plan.lists
        total = self.model.capacitance_over_dt + (g if self.spec.constant else d)
        if lists is not None:
            return lists.of_own_cells and self._set_lists(lists, total, b, g)
        every = (self._d, total, 1.0), (self._g, g, 0.0), (self._k, b, 0.0)
        for array, values, padding in every:
            gather = self.plan.table.gather
            packed = np.where(gather < 0, padding, values[gather])
            array[: len(packed)].set(packed.astype(self._run.dtype), self.queue)
        if self.spec.constant:
            self._factor()
        return True

    def _set_lists(self, lists: NodeLists, total: np.ndarray, b: np.ndarray, g: np.ndarray) -> bool:
        if self._spread is None:
            self._spread = Spread(self.queue, self._run.dtype, self.model)
            self._of_nodes = [self._epochs.integers(a) for a in lists.numbers.places_of_nodes]
        put, (at, node) = self._spread.values, self._of_nodes
        put(self._values, at, node, total, WARP)
        if self._run.decisions.inflow:
            put(self._values, at, node, g, 2 * WARP)
            put(self._values, at, node, b, 3 * WARP)
        return True
