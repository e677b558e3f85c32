"""Epochs of whole cells on the chip: many steps per launch, some cells per work-group.

The state is the one of `steps`, in the same arenas. A work-group has one or some cells; their
voltages stay on the chip, where segments are eliminated. The next epoch sees the events of an
epoch, which is no longer than the smallest delay:

    steps     0 1 2 3 4 | 5 6 7 8 9 | ...     smallest delay: 5 steps
    launch        1     |     2     |         `publish` between them
    events    a spike in step 2 acts in step 7 at the earliest

There are three forms, chosen by `plan_epochs`:

    constant factors   only the roots' conductances change: ``epoch_constant.mako``
    by instance        small cells, events in whole steps: ``epoch_by_instance.mako``
    by node            lists of nodes; any events, large cells: ``epoch_by_node.mako``

By node, a large cell may have several work-groups on NVIDIA, which share its lists and meet once a
step; each eliminates the whole cell. An epoch is one launch, or one per step if cells read voltages
of others. If they read these at the end of a step, too, the next launch does the rest of the step.
Artificial cells are one epoch ahead, see `Artificial`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.arrays import inverse, offsets, starts, stretch_of
from clhines.core.errors import InputError
from clhines.simulator.device import launches
from clhines.simulator.device.reads import copy_onto
from clhines.simulator.engines.arena_run import ArenaKernels, ArenaRun, same_constants
from clhines.simulator.engines.run import Job
from clhines.simulator.gpu.artificial import Artificial, epoch_of
from clhines.simulator.gpu.functions import (
    BY_LAYERS,
    constant_ions,
    node_words,
    takes_apart,
    with_lists,
    with_sites,
)
from clhines.simulator.gpu.lists import NodeLists
from clhines.simulator.gpu.plan import EpochPlan, plan_epochs, recorded_lists
from clhines.simulator.gpu.series import SeriesNumbers
from clhines.simulator.gpu.spec import EpochSpec
from clhines.simulator.gpu.words import HAS_SPECIAL, SPECIAL, WARP
from clhines.simulator.kinds import layouts
from clhines.simulator.kinds.arenas import add_turns, detector_order, fill_arenas
from clhines.simulator.kinds.diffusing import add_diffusing_rows
from clhines.simulator.kinds.spec import ArenaSpec
from clhines.simulator.model.model import Model
from clhines.simulator.state.arena import Arena
from clhines.simulator.state.changes import Spread, Storage
from clhines.simulator.state.sources import Wires
from clhines.simulator.state.variables import Variables
from clhines.solver.device import devices, program
from clhines.solver.device.arrays import to_device
from clhines.solver.plan.plan import Limits, real_name

_TURN = threading.Lock()
_LAST: dict[cl.Device, tuple[cl.CommandQueue, cl.Event]] = {}  # last launch with meeting groups


class _Others:
    """Other cells' voltages `v`, twice: for this step and for the next one.

    They are followed by room for changes of voltages, with which a launch ends the step before.
    `groups` work-groups wait for each other after each step. If they do not wait, `later` says
    whether a launch leaves the end of its step to the next one.
    """

    v: cla.Array | None = None
    groups, later = 0, False


@dataclass(eq=False)
class PlanLaunch:
    """Cells of a plan, their tables on the device, and the kernel that advances them."""

    plan: EpochPlan
    given: dict[str, Any]
    spec: EpochSpec
    kernel: launches.BoundKernel | None = None

    @property
    def lists(self) -> NodeLists | None:
        return self.plan.lists

    @property
    def changes(self) -> tuple[str, ...]:
        """Arguments that `change` sets for each launch."""
        of_lists = ("numbers", "looks") * self.spec.by_node + ("pending",) * self.spec.ends_later
        return ("first_step", "num_steps", "first_time", "record_row", *of_lists)

    def change(self, kernel: launches.BoundKernel, *steps: int, begins: bool) -> None:
        """Set a launch's arguments; `steps` are the first four, `begins`: it begins an epoch."""
        of_lists = (self.given["numbers"], int(begins)) if self.spec.by_node else ()
        ends = (int(not begins),) if self.spec.ends_later else ()
        kernel.change(*steps, *of_lists, *ends)

    def given_to(self, k: int, name: str) -> str:
        """Return a parameter's expression in the lists; empty if they read it from the arenas."""
        if self.lists is None:
            return ""
        arguments = self.spec.lists[k].given
        expressions = [
            x for role, argument, x in arguments if (role, argument) == ("parameter", name)
        ]
        return expressions[0] if expressions else ""

    def storage(self, k: int, name: str) -> Storage:
        assert self.lists is not None
        offset, places = self.lists.numbers.places_of(k, name)
        return Storage(self.given["node_values"], offset, (k, id(self)), lambda: places)


class CellLayout(layouts.Layout):
    """Active nodes ascend; instances `at_sites`, (n,) bool by node, write their own rows."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.at_sites = np.zeros(model.forest.num_nodes, bool)
        self.first_owner = super().num_owners + starts(
            np.array([kind.count for kind in model.kinds], np.int64)
        )

    @property
    def num_owners(self) -> int:
        if not self.at_sites.any():
            return super().num_owners
        return super().num_owners + sum(kind.count for kind in self._model.kinds) + 1  # an end

    def owner(self, k: int, instance: np.ndarray) -> np.ndarray:
        owner = super().owner(k, instance)
        if not self.at_sites.any():
            return owner
        at_site = self.at_sites[self._model.kinds[k].node[instance]]
        return np.where(at_site, self.first_owner[k] + instance, owner)


@dataclass(frozen=True, eq=False)
class CellRegions:
    """Regions that only epochs have in the arenas.

    `within` is the place of each node in its cell. If work-groups share a cell (`spreads`), slots
    of currents exist for two steps.
    """

    model: Model
    wires: Wires
    within: np.ndarray
    spreads: bool

    def add_sites(self, layout: CellLayout, arenas: dict[str, Arena]) -> None:
        """Add factors and row owners of instances that lanes advance one by one."""
        for k, kind in enumerate(self.model.kinds):
            arenas["ints"].add(f"owner_{k}", layout.first_owner[[k]])
            arenas["mem"].add(f"factor_{k}", kind.factor)

    def add(self, network: Model, arenas: dict[str, Arena]) -> int:
        """Add regions of lists; return the number of layers. `network` is all ranks' model."""
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
        """Return the begins of each cell's layers among targets, and the targets at nodes."""
        model, wires = self.model, self.wires
        cell, layer = np.full((2, wires.num_targets), -1)
        for k, first in wires.first_target.items():
            if not layouts.is_artificial(model.kinds[k]):
                here = slice(first, first + model.kinds[k].count)
                cell[here] = stretch_of(model.forest.cell_offsets, model.kinds[k].node)
        for k, targets in enumerate(wires.layers):
            layer[targets] = k
        with_cell = np.flatnonzero(cell >= 0)
        used, layer = np.unique(layer[with_cell], return_inverse=True)
        number = cell[with_cell] * len(used) + layer
        counts = np.bincount(number, minlength=model.forest.num_cells * len(used))
        return offsets(counts), with_cell[np.argsort(number, kind="stable")]


def make(job: Job, **options: Any) -> ArenaRun:
    job.check("epochs")
    return ArenaRun(job, partial(CellEpochs, **options), CellEpochs.family, apart=True)


def _leading(model: Model) -> np.ndarray | None:
    """Return the last instances' cells, which run first in each epoch, or None.

    InputError if one reads values of another.
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


class CellEpochs(ArenaKernels):
    """Advance a model by whole cells; InputError if one is too large.

    `limits`, `segment`, `units` and `by_node` are arguments of `plan_epochs`.
    """

    family = "epochs"
    layout: CellLayout

    def __init__(
        self,
        run: ArenaRun,
        limits: Limits | None = None,
        segment: int | None = None,
        units: int | None = None,
        by_node: bool | None = None,
    ) -> None:
        super().__init__(run)
        self._limits = limits or run.limits
        self._options = segment, units
        self.in_steps = not self.network.exact
        self._by_node = True if self.network.exact else by_node

    # -- tables --------------------------------------------------------------------------------

    def put_matrix(self) -> None:
        model, whole, limits = self.model, self.network, self._limits
        self.epoch, together = epoch_of(whole)
        decisions = self.run.decisions
        if self._by_node:
            decisions = replace(decisions, constant_factors=False)
        if self.network.exact:
            decisions = replace(decisions, inflow=layouts.has_constants(whole))
        self._inflow = decisions.inflow
        leading = _leading(model)
        plans = plan_epochs(
            model, self.dtype, limits, *self._options, decisions, self._by_node, leading
        )
        self._num_leading = int(leading is not None)  # the first plan
        self.place, self._within = np.zeros((2, model.forest.num_nodes), np.int64)
        self.layout, self.launches, base = CellLayout(model), list[PlanLaunch](), 0
        self.artificial = None
        if any(map(layouts.is_artificial, model.kinds)):
            self.artificial, self.layout.ring_steps = Artificial(self.run, together), self.epoch
        others = plans[self._num_leading :]
        if self.network.exact:
            others.sort(key=lambda plan: -plan.groups)  # smaller ones run beside the largest
        plans = [*plans[: self._num_leading], *others]
        for plan in plans:
            real = np.flatnonzero(plan.table.gather >= 0)
            self.place[plan.table.gather[real]] = base + real
            begin = np.repeat(plan.table.units[:, 0], plan.table.units[:, 1])
            self._within[plan.table.gather[real]] = real - begin[real]
            if plan.lists is None:
                self.layout.at_sites[plan.table.gather[real]] = True
            self.launches.append(PlanLaunch(plan, self._tables(plan, base), plan.spec))
            base += len(plan.table.gather)
        self.places = base
        self._put_others(plans)
        self._node = np.full(base, -1)
        self._node[self.place] = np.arange(len(self.place))
        self.v = [cla.zeros(self.queue, max(base, 1), self.dtype)]
        self._put_nodes(plans)

    def _put_others(self, plans: list[EpochPlan]) -> None:
        """Choose how cells read voltages of others."""
        model, limits = self.model, self._limits
        self._others = _Others()
        if model.pointers and len(plans) == 1 and plans[0].groups <= limits.compute_units:
            self._others.groups = plans[0].groups if limits.ptx or plans[0].groups == 1 else 0
        self._others.later = not self._others.groups and "pointers_in_states" in model.needs

    @property
    def _at_sites(self) -> list[PlanLaunch]:
        """Plans that advance instance by instance."""
        return [launch for launch in self.launches if launch.lists is None]

    @property
    def _with_lists(self) -> list[tuple[PlanLaunch, NodeLists]]:
        """Plans with lists of nodes, and the lists."""
        return [(launch, launch.lists) for launch in self.launches if launch.lists is not None]

    def _tables(self, plan: EpochPlan, base: int) -> dict[str, Any]:
        """Put the tables of a plan on the device; its first place is `base`."""
        table, units, num = plan.table, plan.units.copy(), np.int32
        units[:, 0] += base
        ints = {
            "units": units, "rows": table.rows.rows, "links": table.lanes.links,
            "children": table.lanes.children,
        }  # fmt: skip
        reals = {"all_up": table.values("up", self.model.u.__getitem__)}
        if plan.lists is not None:
            self._add_lists(plan, base, ints, reals)
        else:
            assert plan.sites is not None
            for kind, (start, instances) in zip(
                self.model.kinds, plan.sites.instances, strict=True
            ):
                ints |= {f"{kind.mechanism.name}__start": start}
                ints |= {f"{kind.mechanism.name}__list": instances}
        if plan.spec.constant:
            dense, lanes = max(1, plan.spec.dense**2), max(1, 3 * table.num_lanes)
            reals["tree_factors"] = np.zeros(lanes)
            reals["tree_inverses"] = np.zeros(len(plan.cells.numbers) * dense)
        tables = {name: to_device(self.queue, a, num) for name, a in ints.items()}
        tables |= {name: to_device(self.queue, a, self.dtype) for name, a in reals.items()}
        return {**tables, "num_units": num(len(plan.cells.numbers))}

    def _add_lists(
        self, plan: EpochPlan, base: int, ints: dict[str, np.ndarray], reals: dict[str, np.ndarray]
    ) -> None:
        lists, words = plan.lists, node_words(self.model)
        assert lists is not None
        homes, rows, nodes = lists.homes.copy(), lists.rows.copy(), lists.lanes.nodes
        active = np.where(nodes < 0, -1, words[nodes])
        if not plan.spec.in_steps:
            rows[((active >= SPECIAL).any(axis=1)), 0] |= HAS_SPECIAL
        cells, bounds = plan.units[:, 6], self.model.forest.cell_offsets
        active_of = np.searchsorted(
            layouts.active_nodes(self.model), bounds
        )  # each cell's first active node
        homes[:, 5], homes[:, 6] = active_of[cells], active_of[cells + 1]
        homes[:, 0] += base
        ints |= {
            "homes": homes, "instances": lists.instances, "node_lists": rows,
            "node_places": lists.lanes.places, "node_members": lists.numbers.members,
            "node_active": active, **({"node_bits": lists.lanes.own} if lists.lanes.mixed else {}),
        }  # fmt: skip
        reals |= {
            "node_scalars": lists.numbers.scalars, "node_values": lists.numbers.values,
            "node_states": np.zeros(lists.state_lines * WARP),
        }  # fmt: skip

    def _put_nodes(self, plans: list[EpochPlan]) -> None:
        """Put values of nodes on the device by place, and where their instances are."""
        tie, end = np.zeros(max(self.places, 1)), 0
        runs = np.zeros(len(tie), np.int64)
        for plan in plans:
            begin, end = end, end + len(plan.table.gather)
            tie[begin:end] = plan.table.values("tie", self.model.u.__getitem__)
            if plan.sites is not None and not plan.spec.constant:
                runs[begin:end] = plan.sites.slots
        self._nodes = {"all_tie": to_device(self.queue, tie, self.dtype)}
        if not self._at_sites:
            return
        for launch in self._at_sites:
            assert launch.plan.sites is not None
            if launch.spec.constant:  # by cell
                runs = launch.plan.sites.slots
            launch.given["slot_runs"] = to_device(self.queue, runs, np.int32)
        for name in ("all_f1", "all_f2", "all_inverse"):
            self._nodes[name] = cla.zeros_like(self.v[0])
        self._put_constants()

    def _packed(self, natural: np.ndarray, padding: float = 0.0) -> cla.Array:
        packed = np.full(max(self.places, 1), padding)
        packed[self.place] = natural
        return to_device(self.queue, packed, self.dtype)

    def _put_constants(self) -> None:
        """Put constant conductances and currents of nodes on the device, and factor."""
        model = self.model
        over_dt, g, b = model.capacitance_over_dt, model.constant_g, model.constant_b
        constant = any(launch.spec.constant for launch in self._at_sites)
        row = over_dt + (g if constant else model.constant_d)  # its sum, or the diagonal
        nodes = {"all_d": self._packed(row, 1.0), "all_g": self._packed(g)}
        nodes |= {"all_k": self._packed(b), "all_c": self._packed(over_dt)}
        for name, values in nodes.items():
            if name in self._nodes:
                copy_onto(self._nodes[name], values, self.queue)
            else:
                self._nodes[name] = values
        none = {name: np.int32(0) for name in ("first_step", "num_steps")}
        for launch in self._at_sites if constant else ():
            spec = launch.plan.spec.of_factors
            built = program.build(self.queue.context, spec)
            kernel = launches.bind(built, spec, "advance", {**launch.given, **self._nodes, **none})
            kernel.launch(self.queue, launch.plan.groups * spec.work_group, spec.work_group)

    def renew(self, before: Model) -> bool:
        """See `ArenaKernels`; lists get new numbers if cells do not share them."""
        model, alike = self.model, same_constants(before, self.model)
        same_nodes = alike
        for k, (kind, old) in enumerate(zip(model.kinds, before.kinds, strict=True)):
            for name in kind.mechanism.parameters:
                value, earlier = kind.parameters[name], old.parameters[name]
                if np.shape(value) == np.shape(earlier) == ():
                    if value != earlier:
                        if self._at_sites:  # a literal
                            return False
                        self.take(k, name, np.reshape(value, 1))
                else:
                    alike &= value is earlier or np.array_equal(value, earlier)
        if alike:
            return True
        if not all(lists.renew(model, self._inflow) for _, lists in self._with_lists):
            return False
        for launch, lists in self._with_lists:
            numbers = lists.numbers
            for name, a in (("node_scalars", numbers.scalars), ("node_values", numbers.values)):
                values = to_device(self.queue, a, self.dtype)
                copy_onto(launch.given[name], values, self.queue)
        if self._at_sites and not same_nodes:
            self._put_constants()
        return True

    def renew_constants(self) -> bool:
        model = self.model
        flows = model.constant_b.any() or model.constant_g.any()
        unshared = all(lists.of_own_cells for _, lists in self._with_lists)
        if not unshared or (flows and not self._inflow):
            return False
        if self._at_sites:
            self._put_constants()
        spread = Spread(self.queue, self.dtype, model)
        total = model.capacitance_over_dt + model.constant_d
        lines = [total, model.constant_g, model.constant_b][: 3 if self._inflow else 1]
        for launch, lists in self._with_lists:
            at, node = (to_device(self.queue, a, np.int32) for a in lists.numbers.places_of_nodes)
            for line, values in enumerate(lines, 1):
                spread.values(launch.given["node_values"], at, node, values, line * WARP)
        return True

    def voltage_arrays(self) -> list[cla.Array]:
        seen = self._others.v
        return [self.v[0], *([seen] if seen is not None and self.model.pointers else [])]

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
        arenas = fill_arenas(variables, self.dtype, self.place, self.layout, self.run.instant)
        spreads = any(launch.plan.spec.parts > 1 for launch in self.launches)
        regions = CellRegions(self.model, self.run.wires, self._within, spreads)
        if self._at_sites:
            regions.add_sites(self.layout, arenas)
        only_sites = len(self._at_sites) == len(self.launches)
        self._num_layers = 0 if only_sites else regions.add(self.network, arenas)
        detectors = inverse(detector_order(variables, self.layout))
        self._detectors = np.split(
            detectors, [len(self.model.soma)]
        )  # somas' detectors, and others
        add_turns(self.model, arenas["mem"], self._steps + 2)
        self._rounds = 0
        if self.model.diffusions:
            order = np.arange(self.model.forest.num_cells)
            mem, ints = arenas["mem"], arenas["ints"]
            self._rounds = add_diffusing_rows(self.model, self.layout, mem, ints, order).rounds
        return arenas

    def suit(self, variables: Variables) -> bool:
        """See `ArenaKernels`; the terms in functions depend on tables."""
        tables = zip(variables.tables, self._tables_before, strict=True)
        same = all(np.array_equal(a[n], b[n]) for a, b in tables for n in a)
        return same and constant_ions(self._kinds, variables) == self._constants

    def compile(self, spec: ArenaSpec, at: np.ndarray) -> None:
        self._kinds = spec.kinds
        self._constants = constant_ions(spec.kinds, self.run.variables)
        self._tables_before = self.run.variables.tables
        regions = np.zeros((), [(name, np.int32) for name in spec.regions])
        for name, value in zip(spec.regions, at.tolist(), strict=True):
            regions[name] = value
        self._regions = regions[()]
        spec = replace(spec, calls=devices.is_cpu(self.queue.device))
        if self.artificial is not None:
            self.artificial.compile(spec, at)
        for number, launch in enumerate(self.launches):
            if launch.lists is None:
                sites = with_sites(launch.plan.spec, spec, self.model)
                launch.spec = sites
            else:
                self._compile_lists(launch, spec, number < self._num_leading)
            detects = launch.spec.in_steps and self.model.num_extra > 0
            launch.spec = replace(launch.spec, detects=detects)
        self._beside = None  # work-groups that wait for each other need the device alone
        if not any(launch.spec.meets for launch in self.launches):
            self._beside = launches.SideBySide(self.queue, len(self._following))

    def _compile_lists(self, launch: PlanLaunch, spec: ArenaSpec, leads: bool) -> None:
        plan, lists = launch.plan.spec, launch.lists
        assert lists is not None
        values = lists, self.run.variables, self.network, self._steps
        launch.spec, numbers = with_lists(plan, spec, *values, leads)
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

    def bind(self) -> None:
        self.run.times.forget()
        num, recorded, real = np.int32, self.run.recorded_at, real_name(self.dtype)
        count = 0 if recorded["whole"] else int(recorded["num_v"])
        at = recorded["v_index"].get(self.queue)[:count]  # type: ignore[union-attr]
        plans = (launch.plan for launch in self.launches)
        offsets, sources = self.model.forest.cell_offsets, self.model.sources
        somas, others = self._detectors
        detecting = sources.detector_node[len(somas) :] if self.in_steps else np.zeros(0, np.int64)
        first, entries = recorded_lists(offsets, plans, np.append(self._node[at], detecting))
        of_detector = entries[:, 1] >= len(at)
        entries[of_detector, 1] = ~others[entries[of_detector, 1] - len(at)]
        arguments = {
            "first_step": num(0), "num_steps": num(0), "all_v": self.v[0], "first_time": num(0),
            "record_start": to_device(self.queue, first, num),
            "record_list": to_device(self.queue, entries, num),
            "record_v": recorded["v_rows"], "record_row": num(0), "num_records": recorded["num_v"],
            "regions": self._regions, "seen_v": self._others.v, "num_places": num(self.places),
            "looks": num(1), "pending": num(0), "soma_detector": to_device(self.queue, somas, num),
            **self._nodes, **self.run.arguments,
        }  # fmt: skip
        arguments |= {n: self.dtype.type(x) for n, x in SeriesNumbers(real).arguments.items()}
        self._arguments = arguments
        self._publisher: launches.BoundKernel | None = None
        for launch in self.launches:
            launch.kernel = None
        if self.artificial is not None:
            self.artificial.bind(self.v[0], self.run.arguments)

    def _kernel(self, launch: PlanLaunch) -> launches.BoundKernel:
        """Return the kernel of a plan, built for its first launch."""
        if launch.kernel is None:
            spec, arguments = launch.spec, {**self._arguments, **launch.given}
            spec = replace(spec, whole=bool(arguments["whole"]))
            if spec.in_steps:
                spec = replace(spec, samples=bool(arguments["num_mem"]))
            built = program.build(self.queue.context, spec)
            launch.kernel = launches.bind(built, spec, "advance", arguments, launch.changes)
        return launch.kernel

    @property
    def _following(self) -> list[PlanLaunch]:
        """Plans of cells that no other cell waits for."""
        return self.launches[self._num_leading :]

    @property
    def _steps(self) -> int:
        """Most steps per launch of cells."""
        return self.epoch if self._others.groups or not self.model.pointers else 1

    # -- values --------------------------------------------------------------------------------

    def storage(self, k: int, name: str, in_arenas: list[Storage]) -> list[Storage]:
        """See `ArenaKernels`; also in lists that cells do not share."""
        if self._at_sites and name in self.model.kinds[k].singles:
            return []  # a literal
        for launch in self.launches:
            text = launch.given_to(k, name)
            if text.startswith("p[") and launch.lists is not None and launch.lists.of_own_cells:
                in_arenas.append(launch.storage(k, name))
            elif text and not text.startswith("numbers."):
                return []
        return in_arenas

    def take(self, k: int, name: str, values: np.ndarray) -> None:
        """See `ArenaKernels`; numbers for all instances are a kernel argument."""
        for launch in self.launches:
            text = launch.given_to(k, name)
            if text.startswith("numbers."):
                numbers = launch.given["numbers"].copy()
                numbers[int(text.removeprefix("numbers.n"))] = values[0]
                launch.given["numbers"] = numbers  # for the next launch

    def complete(self, saved: dict[str, np.ndarray]) -> None:
        """See `ArenaKernels`; in whole steps kernels keep no count for somas."""
        if "held" in saved and self.in_steps:
            above, somas = self.model.sources.above(saved["v"]), len(self.model.soma)
            saved["held"][:somas] = above[:somas]

    # -- steps ---------------------------------------------------------------------------------

    @property
    def whole_rows(self) -> int:  # type: ignore[override]
        return 0 if any(launch.spec.constant for launch in self.launches) else self.places

    def advance(self, first: int, count: int, row: int) -> None:
        self.run.times.put(first, count)
        steps = self._steps
        for done in range(0, count, self.epoch):
            epoch = min(self.epoch, count - done)
            if self.artificial is not None:
                self.artificial.launch(epoch, first + done - self.run.times.steps.start, row + done)
                self._publish()
            for step in range(0, epoch + self._others.later, steps):
                each = min(steps, epoch - step)
                self._launch_cells(first + done + step, each, row + done + step, not step)
            self._publish()

    def _launch_cells(self, first: int, count: int, row: int, begins: bool) -> None:
        """Enqueue steps in a launch of each plan; `begins`: they begin an epoch."""
        begin = self.run.times.steps.start
        for launch in self.launches:
            launch.change(self._kernel(launch), first, count, begin, row, begins=begins)
        for launch in self.launches[: self._num_leading]:
            self._launch_plan(launch, self.queue)
        following = self._following
        if self._beside is not None and count > 1 and following:
            self._beside.launch([partial(self._launch_plan, launch) for launch in following])
            return
        for launch in following:
            self._launch_plan(launch, self.queue)

    def _launch_plan(
        self, launch: PlanLaunch, queue: cl.CommandQueue, waits: list[cl.Event] | None = None
    ) -> cl.Event:
        kernel, group = self._kernel(launch), launch.plan.spec.work_group
        items = launch.plan.groups * group
        if launch.spec.meets:
            return _launch_in_turn(kernel, queue, items, group)
        return kernel.launch(queue, items, group, waits)

    def _publish(self) -> None:
        """Let all targets see the events that were sent so far."""
        count = self.model.sources.count
        if not self.network.exact or not self.run.wires.num_targets or not count:
            return
        if self._publisher is None:
            spec = self.launches[0].spec
            built = program.build(self.queue.context, spec)
            arguments = {**self._arguments, "num_sources": np.int32(count)}
            self._publisher = launches.bind(built, spec, "publish", arguments)
        self._publisher.launch_columns(self.queue, count, 1)


def _launch_in_turn(
    kernel: launches.BoundKernel, queue: cl.CommandQueue, items: int, group: int
) -> cl.Event:
    """Enqueue a kernel whose work-groups wait for each other: all must be on the device.

    So it starts after the last such kernel has ended, maybe on another queue.
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
