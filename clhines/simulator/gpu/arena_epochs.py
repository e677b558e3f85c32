"""Epochs of a network with exact times on chip: whole cells, many steps in one launch.

The state is that of `steps`, in the same arenas. A work-group has one cell or some; a lane
does for its node what the kernels of `steps` do, and segments are eliminated in local
memory, see ``epoch_by_node.mako``. On NVIDIA a large cell may have several work-groups, which share
its lists out and meet once a step; each eliminates by itself. Events of an epoch are seen by the
next one: an epoch is no longer than the smallest delay. It is one launch, or one for each step
where cells read voltages of others; where these are read at the end of a step, too, the next launch
does what is left of it. Artificial cells go ahead by an epoch, see `Artificial`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.arrays import offsets, stretch_of
from clhines.core.errors import InputError
from clhines.simulator.engines.arena_run import ArenaKernels, ArenaRun, same_constants
from clhines.simulator.engines.run import Job
from clhines.simulator.gpu.arena_spec import (
    BY_LAYERS,
    HAS_SPECIAL,
    SPECIAL,
    ArenaEpochSpec,
    constant_ions,
    node_words,
    takes_apart,
    with_blocks,
)
from clhines.simulator.gpu.lists import NodeLists
from clhines.simulator.gpu.plan import EpochPlan, plan_epochs, recorded_lists
from clhines.simulator.gpu.spec import WARP, SeriesNumbers
from clhines.simulator.kinds import layouts
from clhines.simulator.kinds.arenas import add_turns, filled_arenas
from clhines.simulator.kinds.diffusing import add_diffusing_rows
from clhines.simulator.kinds.spec import ArenaSpec, fields_of
from clhines.simulator.model.model import Model
from clhines.simulator.model.needs import artificial_sources
from clhines.simulator.state.arena import Arena
from clhines.simulator.state.changes import Storage
from clhines.simulator.state.decisions import MAX_EPOCH, Decisions
from clhines.simulator.state.sources import Wires, steps_between, steps_of_cells
from clhines.simulator.state.variables import Variables
from clhines.solver.device import devices, program
from clhines.solver.device.arrays import copy_onto, to_device
from clhines.solver.plan.plan import real_name

MOST_TOGETHER = 4096  # artificial cells of one work-group, if others could be
_GROUP = 256


@dataclass(frozen=True)
class ArtificialSpec(ArenaSpec):
    """``artificial.mako``; with `together` one work-group has all, and `kinds` are artificial."""

    template: ClassVar[str] = "simulator/artificial"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "artificial": (
            "int num_steps, int first_time, int record_row, int num_layers, int num_emitters",
            "const int *restrict loose_targets, const int *restrict first_of_layer",
            "const int *restrict loose_sources, const double *restrict step_begin, real dt",
            "double half_dt, int capacity, const real *v, int *restrict spike_count",
            "int *restrict spike_source, double *restrict spike_time, int num_mem",
            "const int *restrict mem_first, const int *restrict mem_column",
            "const int *restrict mem_index, real *restrict mem_rows",
            "real *mem, double *clock, int *ints, const int *at",
        ),
    }
    together: bool = False

    @classmethod
    def of(cls, spec: ArenaSpec, together: bool) -> ArtificialSpec:
        """Return the spec of artificial cells that corresponds to `spec` of the cells."""
        kinds = tuple(kind for kind in spec.kinds if kind.kind == "artificial")
        options = {"kinds": kinds, "grid": False, "noise": "", "sets_v": False, "sums": False}
        return cls(**{**fields_of(spec), **options, "together": together})


def epoch_of(model: Model) -> tuple[int, bool]:
    """Return the steps of a launch, and whether artificial cells are `together` in it.

    No event of a launch is due in it but those of artificial cells, which go ahead, and those
    within a step from an instance to another one of its cell, which are delivered in layers.
    """
    of_cells = steps_of_cells(model)
    loose = artificial_sources(model)[model.netcons.source]
    artificial = np.array([layouts.is_artificial(kind) for kind in model.kinds], bool)
    of_loose = steps_between(model, loose & artificial[model.netcons.kind])
    epoch = MAX_EPOCH if of_cells is None else min(max(of_cells, 1), MAX_EPOCH)
    played = any(layouts.is_artificial(model.kinds[p.kind]) for p in model.played)
    if of_loose is None or of_loose >= epoch:
        return epoch, played
    total = sum(kind.count for kind in model.kinds if layouts.is_artificial(kind))
    if total > MOST_TOGETHER and of_loose:
        return of_loose, played
    return epoch, True


class Artificial:
    """The kernel that advances all artificial cells of a run, ahead of the cells by a launch.

    Without voltage, all they do in a launch depends on events of launches before and of each other.
    Where they send each other events due within a launch, are recorded or have values played into
    them, one work-group takes all of them, step by step.
    """

    def __init__(self, run: ArenaRun, together: bool) -> None:
        self._run, self._together = run, together
        loose = layouts.loose_targets(run.model, run.wires)
        layers = [layer[np.isin(layer, loose)] for layer in run.wires.layers]
        layers = [layer for layer in layers if len(layer)]
        self.count = len(loose)
        sources = np.flatnonzero(artificial_sources(run.model))
        tables = {
            "loose_targets": np.concatenate([np.zeros(0, np.int64), *layers]),
            "first_of_layer": offsets([len(layer) for layer in layers]),
            "loose_sources": sources,
        }
        num = np.int32
        self._given: dict[str, Any] = {
            "num_steps": num(0), "first_time": num(0), "record_row": num(0),
            "num_layers": num(len(layers)), "num_emitters": num(len(sources)),
            **{name: to_device(run.queue, a, num) for name, a in tables.items()},
        }  # fmt: skip

    def compile(self, spec: ArenaSpec, at: np.ndarray) -> None:
        self._spec = spec
        self._given["at"] = to_device(self._run.queue, at, np.int32)

    def bind(self, v: Any, arguments: dict[str, Any]) -> None:
        self._known: dict[str, Any] | None = {**self._given, **arguments, "v": v}
        kinds, records = self._run.model.kinds, self._run.reducers.sources
        of_these = (r.kind >= 0 and layouts.is_artificial(kinds[r.kind]) for r in records)
        self._now = self._together or any(of_these)

    def launch(self, count: int, first_time: int, row: int) -> None:
        queue, known = self._run.queue, self._known
        if known is not None:
            spec, changes = ArtificialSpec.of(self._spec, self._now), tuple(self._given)[:3]
            built = program.build(queue.context, spec)
            self._kernel = program.bind(built, spec, "artificial", known, changes)
            self._known = None
        self._kernel.change(*map(np.int32, (count, first_time, row)))
        (items,), (group,) = devices.small_groups(queue.device, self.count)
        if self._now:
            items = group = min(_GROUP, self._run.limits.max_work_group)
        self._kernel.launch(queue, items, group)


_TURN = threading.Lock()
_LAST: dict[cl.Device, tuple[cl.CommandQueue, cl.Event]] = {}  # launch whose work-groups meet
# arguments of each launch
_CHANGES = ("numbers", "first_step", "num_steps", "first_time", "record_row", "looks")


class _Others:
    """Voltages `v` that cells see of others, twice: of this step, and of the next one.

    After them `v` has room for changes of voltages, with which a launch ends the step before.
    So many work-groups, `groups`, wait for each other after each step. Where they do not wait,
    `later` says whether a launch leaves the end of its step to the next one.
    """

    v: cla.Array | None = None
    groups, later = 0, False


@dataclass(eq=False)
class _ListsKernel:
    """Cells of a plan, their tables on the device, and the kernel that advances them."""

    plan: EpochPlan
    base: int  # of its places in the voltages of all
    given: dict[str, Any]
    spec: ArenaEpochSpec | None = None
    kernel: program.BoundKernel | None = None

    @property
    def lists(self) -> NodeLists:
        assert self.plan.lists is not None
        return self.plan.lists

    @property
    def meets(self) -> bool:
        return self.spec is not None and self.spec.meets

    def given_to(self, k: int, name: str) -> str:
        """Expression of a parameter in the lists; empty if they take it from the arenas."""
        assert self.spec is not None
        arguments = self.spec.blocks[k].given
        expressions = [
            x for role, argument, x in arguments if (role, argument) == ("parameter", name)
        ]
        return expressions[0] if expressions else ""

    def storage(self, k: int, name: str) -> Storage:
        offset, places = self.lists.numbers.places_of(k, name)
        return Storage(self.given["node_values"], offset, (k, id(self)), lambda: places)


@dataclass(frozen=True, eq=False)
class CellRegions:
    """Regions that only epochs of whole cells have in the arenas.

    `within` is the place of each node in its cell. Where work-groups share a cell (`spreads`),
    slots of currents are there for two steps.
    """

    model: Model
    wires: Wires
    within: np.ndarray
    spreads: bool

    def add(self, network: Model, arenas: dict[str, Arena]) -> int:
        """Add the regions; return the number of layers of targets. `network` is of all ranks."""
        ints, model = arenas["ints"], self.model
        arenas["clock"].add("node_due", np.zeros(layouts.num_active(model)))
        for k in takes_apart(network):
            kind = model.kinds[k]
            ints.add(f"place_in_cell_{k}", self.within[kind.node])
            ints.room(f"waits_{k}", (kind.count,))
            for name in (f"slot_i_{k}", f"slot_g_{k}"):
                arenas["mem"].room(name, (2 if self.spreads else 1, kind.count))
        if model.written:
            cell = layouts.cells_of_sums(model)
            ints.add("cell_sums", np.argsort(cell, kind="stable"))
            counts = np.bincount(cell, minlength=model.forest.num_cells)
            ints.add("cell_sum", offsets(counts))
        if not model.needs & BY_LAYERS:
            return 0
        first, targets = self._layers()
        ints.add("first_of_cells_layer", first)
        ints.add("layer_targets", targets)
        return (len(first) - 1) // model.forest.num_cells

    def _layers(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the layers of each cell begin among targets, and the end; targets at nodes."""
        model, wires = self.model, self.wires
        cell, layer = np.full((2, wires.num_targets), -1)
        for k, first in wires.first_target.items():
            if not layouts.is_artificial(model.kinds[k]):
                own = slice(first, first + model.kinds[k].count)
                cell[own] = stretch_of(model.forest.cell_offsets, model.kinds[k].node)
        for k, targets in enumerate(wires.layers):
            layer[targets] = k
        with_cell = np.flatnonzero(cell >= 0)
        used, layer = np.unique(layer[with_cell], return_inverse=True)
        number = cell[with_cell] * len(used) + layer
        counts = np.bincount(number, minlength=model.forest.num_cells * len(used))
        return offsets(counts), with_cell[np.argsort(number, kind="stable")]


def make(job: Job) -> ArenaRun:
    job.check("lists")
    return ArenaRun(job, ArenaEpochs, ArenaEpochs.family, apart=True)


def _leading(model: Model) -> np.ndarray | None:
    """Return the cells of the last instances, which go first in each epoch; None without any.

    InputError if one of them reads values of another one.
    """
    leading = model.leading_cells
    for k, kind in enumerate(model.kinds):
        if not model.of_last(k):
            continue
        cells = stretch_of(model.forest.cell_offsets, kind.node)
        if (cells[np.isin(cells, leading)] != model.last_cell(k)).any():
            raise InputError(
                f"{kind.mechanism.name}: {model.of_last(k)[0]}, which is one for all, is set last "
                "in one cell and read in another whose value all cells read; expected "
                "engine='steps'"
            )
    return leading if len(leading) else None


class ArenaEpochs(ArenaKernels):
    """Advance a model with exact times by whole cells; an InputError where one is too large."""

    family = "lists"

    # -- tables --------------------------------------------------------------------------------

    def put_matrix(self) -> None:
        model, whole, limits = self.model, self.network, self.run.limits
        self.epoch, together = epoch_of(whole)
        decisions = Decisions(
            network=whole, split=model is not whole, overlap=False, epoch=self.epoch, slots=1,
            scale=1.0, constant_factors=False, inflow=layouts.has_constants(whole),
        )  # fmt: skip
        lists = replace(model, needs=model.needs | {"exact_times"})  # with kernels for these
        leading = _leading(model)
        plans = plan_epochs(
            lists, self.dtype, limits, decisions=decisions, by_node=True, leading=leading
        )
        self._num_leading = int(leading is not None)  # of plans, which is the first
        self.place, self._within = np.zeros((2, model.forest.num_nodes), np.int64)
        self.layout, self._tables, base = layouts.Layout(model), list[_ListsKernel](), 0
        self.artificial = None
        if any(map(layouts.is_artificial, model.kinds)):
            self.artificial, self.layout.ring_steps = Artificial(self.run, together), self.epoch
        others = plans[self._num_leading :]
        others.sort(key=lambda plan: -plan.groups)  # others end beside the largest
        for plan in (*plans[: self._num_leading], *others):
            real = np.flatnonzero(plan.table.gather >= 0)
            self.place[plan.table.gather[real]] = base + real
            begin = np.repeat(plan.table.units[:, 0], plan.table.units[:, 1])
            self._within[plan.table.gather[real]] = real - begin[real]
            self._tables.append(self._launch(plan, base))
            base += len(plan.table.gather)
        self.places = base
        self._others = _Others()
        if model.pointers and len(plans) == 1 and plans[0].groups <= limits.compute_units:
            self._others.groups = plans[0].groups if limits.ptx or plans[0].groups == 1 else 0
        self._others.later = not self._others.groups and "pointers_in_states" in model.needs
        self._node = np.full(base, -1)
        self._node[self.place] = np.arange(len(self.place))
        self.v = [cla.zeros(self.queue, max(base, 1), self.dtype)]

    def renew(self, before: Model) -> bool:
        """See `ArenaKernels`: lists take other numbers where each cell has its own."""
        model, alike = self.model, same_constants(before, self.model)
        for k, (kind, old) in enumerate(zip(model.kinds, before.kinds, strict=True)):
            for name in kind.mechanism.parameters:
                value, earlier = kind.parameters[name], old.parameters[name]
                if np.shape(value) == np.shape(earlier) == ():
                    if value != earlier:
                        self.take(k, name, np.reshape(value, 1))
                else:
                    alike &= value is earlier or np.array_equal(value, earlier)
        if alike:
            return True
        inflow = layouts.has_constants(model)
        if not all(launch.lists.renew(model, inflow) for launch in self._tables):
            return False
        for launch in self._tables:
            numbers = launch.lists.numbers
            for name, a in (("node_scalars", numbers.scalars), ("node_values", numbers.values)):
                values = to_device(self.queue, a, self.dtype)
                copy_onto(launch.given[name], values, self.queue)
        return True

    def voltage_arrays(self) -> list[cla.Array]:
        seen = self._others.v
        return [self.v[0], *([seen] if seen is not None and self.model.pointers else [])]

    def _launch(self, plan: EpochPlan, base: int) -> _ListsKernel:
        lists, table, words = plan.lists, plan.table, node_words(self.model)
        assert lists is not None
        units, homes = plan.units.copy(), lists.homes.copy()
        nodes, rows = lists.lanes.nodes, lists.rows.copy()
        active = np.where(nodes < 0, -1, words[nodes])
        rows[((active >= SPECIAL).any(axis=1)), 0] |= HAS_SPECIAL
        cells, bounds = units[:, 6], self.model.forest.cell_offsets
        active_of = np.searchsorted(layouts.active_nodes(self.model), bounds)  # of each cell
        homes[:, 5], homes[:, 6] = active_of[cells], active_of[cells + 1]
        units[:, 0] += base
        ints = {
            "units": units, "rows": table.rows.rows, "links": table.lanes.links,
            "children": table.lanes.children, "homes": homes, "instances": lists.instances,
            "node_lists": rows, "node_places": lists.lanes.places,
            "node_members": lists.numbers.members,
            "node_active": active, **({"node_bits": lists.lanes.own} if lists.lanes.mixed else {}),
        }  # fmt: skip
        reals = {
            "all_tie": table.values("tie", self.model.u.__getitem__),
            "all_up": table.values("up", self.model.u.__getitem__),
            "node_scalars": lists.numbers.scalars, "node_values": lists.numbers.values,
            "node_states": np.zeros(lists.state_lines * WARP),
        }  # fmt: skip
        tables = {name: to_device(self.queue, a, np.int32) for name, a in ints.items()}
        tables |= {name: to_device(self.queue, a, self.dtype) for name, a in reals.items()}
        return _ListsKernel(plan, base, {**tables, "num_units": np.int32(len(plan.cells.numbers))})

    # -- kernels -------------------------------------------------------------------------------

    def fill(self, variables: Variables) -> dict[str, Arena]:
        packed = np.zeros(len(self._node), self.dtype)
        packed[self.place] = variables.v
        self.v[0].set(packed, self.queue)
        seen = np.tile(packed, 3 if self.model.pointers else 0)
        if self.model.pointers and self._others.v is not None:
            self._others.v.set(seen, self.queue)
        else:
            self._others.v = to_device(self.queue, seen, self.dtype)
        arenas = filled_arenas(variables, self.dtype, self.place, self.layout)
        spreads = any(launch.plan.spec.parts > 1 for launch in self._tables)
        regions = CellRegions(self.model, self.run.wires, self._within, spreads)
        self._num_layers = regions.add(self.network, arenas)
        add_turns(self.model, arenas["mem"], self._steps + 2)
        self._rounds = 0
        if self.model.diffusions:
            order = np.arange(self.model.forest.num_cells)
            mem, ints = arenas["mem"], arenas["ints"]
            self._rounds = add_diffusing_rows(self.model, self.layout, mem, ints, order).rounds
        return arenas

    def suit(self, variables: Variables) -> bool:
        """See `ArenaKernels`; functions take terms that depend on tables."""
        tables = zip(variables.tables, self._known_tables, strict=True)
        same = all(np.array_equal(a[n], b[n]) for a, b in tables for n in a)
        return same and constant_ions(self._kinds, variables) == self._constants

    def compile(self, spec: ArenaSpec, at: np.ndarray) -> None:
        self._kinds = spec.kinds
        self._constants = constant_ions(spec.kinds, self.run.variables)
        self._known_tables = self.run.variables.tables
        regions = np.zeros((), [(name, np.int32) for name in spec.regions])
        for name, value in zip(spec.regions, at.tolist(), strict=True):
            regions[name] = value
        self._regions = regions[()]
        spec = replace(spec, calls=devices.is_cpu(self.queue.device))
        if self.artificial is not None:
            self.artificial.compile(spec, at)
        for number, launch in enumerate(self._tables):
            plan = launch.plan.spec
            assert isinstance(plan, ArenaEpochSpec)
            known = launch.lists, self.run.variables, self.network, self._steps
            leads = number < self._num_leading
            launch.spec, numbers = with_blocks(plan, spec, *known, leads)
            launch.spec = replace(
                launch.spec, joins=self._others.groups, ends_later=self._others.later,
                layers=self._num_layers, diffusing_rounds=self._rounds, leads=leads,
                turns=self._steps + 2 if "last_instances" in self.model.needs else 0,
            )  # fmt: skip
            num_cells = len(launch.plan.cells.numbers)
            if launch.spec.meets:
                launch.given["arrived"] = cla.zeros(self.queue, num_cells, np.uint64)
            if launch.spec.spreads:
                rows = 4 * plan.most_lists * WARP * num_cells
                launch.given["shared"] = cla.empty(self.queue, rows, self.dtype)
            if plan.far:
                held = 3 * plan.capacity * max(1, launch.plan.groups)
                launch.given["far_held"] = cla.empty(self.queue, held, self.dtype)
            launch.given["numbers"] = np.array([*numbers, *[0.0] * (not numbers)], self.dtype)
        self._beside = None  # work-groups that wait for each other take the device alone
        if not any(launch.meets for launch in self._tables):
            self._beside = program.SideBySide(self.queue, len(self._following))

    def bind(self) -> None:
        self.run.times.forget()
        num, recorded, real = np.int32, self.run.recorded_at, real_name(self.dtype)
        at = recorded["v_index"].get(self.queue)[: int(recorded["num_v"])]  # type: ignore[union-attr]
        plans = (launch.plan for launch in self._tables)
        offsets = self.model.forest.cell_offsets
        starts, entries = recorded_lists(offsets, plans, self._node[at])
        arguments = {
            "first_step": num(0), "num_steps": num(0), "all_v": self.v[0], "first_time": num(0),
            "record_start": to_device(self.queue, starts, num),
            "record_list": to_device(self.queue, entries, num),
            "record_v": recorded["v_rows"], "record_row": num(0), "num_records": recorded["num_v"],
            "regions": self._regions, "seen_v": self._others.v, "num_places": num(self.places),
            "looks": num(1), "pending": num(0),
            **self.run.arguments,
        }  # fmt: skip
        arguments |= {n: self.dtype.type(x) for n, x in SeriesNumbers(real).arguments.items()}
        self._arguments = arguments
        self._publisher: program.BoundKernel | None = None
        for launch in self._tables:
            launch.kernel = None
        if self.artificial is not None:
            self.artificial.bind(self.v[0], self.run.arguments)

    def _kernel(self, launch: _ListsKernel) -> program.BoundKernel:
        """Return the kernel of a plan, built when it is first launched."""
        if launch.kernel is None:
            spec, arguments = launch.spec, {**self._arguments, **launch.given}
            assert spec is not None
            built = program.build(self.queue.context, spec)
            changes = (*_CHANGES, *("pending",) * self._others.later)
            launch.kernel = program.bind(built, spec, "advance", arguments, changes)
        return launch.kernel

    @property
    def _following(self) -> list[_ListsKernel]:
        """Tables of cells that no other cell waits for."""
        return self._tables[self._num_leading :]

    @property
    def _steps(self) -> int:
        """Steps of a launch of cells, at most."""
        return self.epoch if self._others.groups or not self.model.pointers else 1

    # -- values --------------------------------------------------------------------------------

    def storage(self, k: int, name: str, found: list[Storage]) -> list[Storage]:
        """See `ArenaKernels`: in lists of their own, too, if cells share none."""
        for launch in self._tables:
            text = launch.given_to(k, name)
            if text.startswith("p[") and launch.lists.of_own_cells:
                found.append(launch.storage(k, name))
            elif text and not text.startswith("numbers."):
                return []
        return found

    def take(self, k: int, name: str, values: np.ndarray) -> None:
        """See `ArenaKernels`: numbers for all instances are an argument of the kernels."""
        for launch in self._tables:
            text = "" if launch.spec is None else launch.given_to(k, name)
            if text.startswith("numbers."):
                numbers = launch.given["numbers"].copy()
                numbers[int(text.removeprefix("numbers.n"))] = values[0]
                launch.given["numbers"] = numbers  # which the next launch takes

    # -- steps ---------------------------------------------------------------------------------

    def advance(self, first: int, count: int, row: int) -> None:
        self.run.times.put(first, count)
        steps = self._steps
        for done in range(0, count, self.epoch):
            some = min(self.epoch, count - done)
            if self.artificial is not None:
                self.artificial.launch(some, first + done - self.run.times.steps.start, row + done)
                self._publish()
            for step in range(0, some + self._others.later, steps):
                each = min(steps, some - step)
                self._launch_cells(first + done + step, each, row + done + step, not step)
            self._publish()

    def _launch_cells(self, first: int, count: int, row: int, begins: bool) -> None:
        """Enqueue steps in a launch of each plan; `begins`: an epoch does."""
        begin = self.run.times.steps.start
        steps = first, count, begin, row, begins, *(not begins,) * self._others.later
        for launch in self._tables:
            self._kernel(launch).change(launch.given["numbers"], *map(np.int32, steps))
        for launch in self._tables[: self._num_leading]:
            self._launch_plan(launch, self.queue)
        following = self._following
        if self._beside is not None and count > 1 and following:
            self._beside.launch([partial(self._launch_plan, launch) for launch in following])
            return
        for launch in following:
            self._launch_plan(launch, self.queue)

    def _launch_plan(
        self, launch: _ListsKernel, queue: cl.CommandQueue, waits: list[cl.Event] | None = None
    ) -> cl.Event:
        kernel, group = self._kernel(launch), launch.plan.spec.work_group
        items = launch.plan.groups * group
        if launch.meets:
            return _launch_in_turn(kernel, queue, items, group)
        return kernel.launch(queue, items, group, waits)

    def _publish(self) -> None:
        """Enqueue that all targets, if there are any, see the events that were sent so far."""
        count = self.model.sources.count
        if not self.run.wires.num_targets or not count:
            return
        if self._publisher is None:
            spec = self._tables[0].spec
            assert spec is not None
            built = program.build(self.queue.context, spec)
            arguments = {**self._arguments, "num_sources": np.int32(count)}
            self._publisher = program.bind(built, spec, "publish", arguments)
        self._publisher.launch_columns(self.queue, count, 1)


def _launch_in_turn(
    kernel: program.BoundKernel, queue: cl.CommandQueue, items: int, group: int
) -> cl.Event:
    """Enqueue a kernel whose work-groups wait for each other: all must be on the device.

    So it begins when the last one of this sort has ended, whose queue may be another one.
    """
    with _TURN:
        before, event = _LAST.get(queue.device, (queue, None))
        elsewhere = before != queue and before.context == queue.context
        if elsewhere:
            before.flush()
        waits = elsewhere and event and event.command_execution_status > 0  # it has not ended
        done = kernel.launch(queue, items, group, [event] if waits else None)
        _LAST[queue.device] = queue, done
    return done
