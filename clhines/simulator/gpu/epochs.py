"""Epochs of whole cells on the chip: many steps per launch, one or some cells per work-group.

The state and the arenas are those of the engine `steps`. A work-group has one or some cells; their
voltages stay on the chip, where their matrices are eliminated. An epoch's events act in the next
one, as an epoch is no longer than the smallest delay:

    steps     0 1 2 3 4 | 5 6 7 8 9 | ...     smallest delay: 5 steps
    launch        1     |     2     |         `publish` between them
    events    a spike in step 2 acts in step 7 at the earliest

There are three forms, chosen by `plan_epochs`:

    constant factors   only the roots' conductances change: ``epoch_constant.mako``
    by instance        small cells, events in whole steps: ``epoch_by_instance.mako``
    by node            lists of nodes; any events, large cells: ``epoch_by_node.mako``

By node, a large cell may have several work-groups on NVIDIA, which share its lists and meet once a
step; each eliminates the whole cell. An epoch is one launch, or one per step if cells read other
cells' voltages. If they also read these at the end of a step, the next launch ends the step.
Artificial cells are one epoch ahead, see `Artificial`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyopencl.array as cla

from clhines.core.arrays import inverse, stretch_of
from clhines.core.errors import InputError
from clhines.simulator.device.reads import copy_onto
from clhines.simulator.engines.arena_run import ArenaKernels, ArenaRun, same_constants
from clhines.simulator.engines.run import Job
from clhines.simulator.gpu.artificial import Artificial, epoch_of
from clhines.simulator.gpu.columns import ColumnTable, constants_around
from clhines.simulator.gpu.functions import constant_ions, with_lists, with_sites
from clhines.simulator.gpu.launch import CellLaunches, PlanLaunch
from clhines.simulator.gpu.layout import CellLayout, CellRegions, NodePlaces
from clhines.simulator.gpu.lists import NodeLists
from clhines.simulator.gpu.plan import EpochPlan, plan_epochs, recorded_lists
from clhines.simulator.gpu.tables import PlacedValues, column_tables, put_tables
from clhines.simulator.gpu.words import WARP
from clhines.simulator.kinds import layouts
from clhines.simulator.kinds.arenas import add_turns, detector_order, fill_arenas
from clhines.simulator.kinds.diffusing import ROW_REALS
from clhines.simulator.kinds.spec import ArenaSpec
from clhines.simulator.mechanisms.emit.series import SeriesNumbers
from clhines.simulator.model.model import Model
from clhines.simulator.state.arena import Arena
from clhines.simulator.state.changes import Spread, Storage
from clhines.simulator.state.variables import Variables
from clhines.solver.device import devices
from clhines.solver.device.arrays import to_device
from clhines.solver.plan.plan import Limits, real_name


class _OtherCells:
    """Decide how kernels read other cells' voltages, to which POINTERs refer.

    `v` is a device buffer with the voltages at this step and the next one, and with the voltage
    changes, from which a launch can end the step before. If `groups` is not 0, this number of
    work-groups wait for each other after each step. Otherwise `later` says whether the end of a
    launch's last step is left to the next launch. A launch has at most `steps` steps: 1 if cells
    read voltages of work-groups that do not wait, else `epoch`.
    """

    v: cla.Array | None = None

    def __init__(self, model: Model, plans: list[EpochPlan], limits: Limits, epoch: int) -> None:
        self.groups = 0
        if model.pointers and len(plans) == 1 and plans[0].groups <= limits.compute_units:
            self.groups = plans[0].groups if limits.ptx or plans[0].groups == 1 else 0
        self.later = not self.groups and "pointers_in_states" in model.needs
        self.steps = epoch if self.groups or not model.pointers else 1


def make(job: Job, **options: Any) -> ArenaRun:
    job.check("epochs")
    return ArenaRun(job, partial(CellEpochs, **options), CellEpochs.family)


def _leading(model: Model) -> np.ndarray | None:
    """Return the cells that set GLOBAL variables for all, or None; they run first in an epoch.

    InputError if one of these cells reads a GLOBAL variable that another one sets.
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
    """Advance each cell by a work-group for many steps; InputError if a cell does not fit a GPU.

    See `plan_epochs` for the options `limits`, `segment`, `units` and `by_node`.
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
        by_node = True if self.network.exact or self.model.layers is not None else by_node
        options = {"segment": segment, "units": units, "by_node": by_node}
        self._options: dict[str, Any] = {"limits": limits or run.limits, **options}

    @property
    def in_steps(self) -> bool:  # type: ignore[override]
        return not self.network.exact

    @property
    def launches(self) -> list[PlanLaunch]:
        return self._cells.each

    def put_matrix(self) -> None:
        model, whole = self.model, self.network
        self.epoch, together = epoch_of(whole)
        leading = _leading(model)
        plans, first = self._plans(leading), int(leading is not None)
        self.layout, self._places = CellLayout(model), NodePlaces(model, plans)
        self.artificial = None
        if any(map(layouts.is_artificial, model.kinds)):
            self.artificial, self.layout.ring_steps = Artificial(self.run, together), self.epoch
        each = list[PlanLaunch]()
        for plan, base in zip(plans, self._places.first.tolist(), strict=True):
            if plan.lists is None:
                self.layout.at_sites[plan.cells.nodes] = True
            tables = put_tables(plan, base, model, self.queue, self.dtype)
            each.append(PlanLaunch(plan, tables, plan.spec))
        self._cells = CellLaunches(self.queue, each, first)
        self._others = _OtherCells(model, plans, self._options["limits"], self.epoch)
        self.place = self._places.of_node
        self.v = [cla.zeros(self.queue, max(self._places.count, 1), self.dtype)]
        self._nodes = PlacedValues(model, self._cells, self._places, self.dtype)

    def _plans(self, leading: np.ndarray | None) -> list[EpochPlan]:
        decisions = self.run.decisions
        if self._options["by_node"]:
            decisions = replace(decisions, constant_factors=False)
        if self.network.exact:
            decisions = replace(decisions, inflow=layouts.has_constants(self.network))
        options = {"decisions": decisions, "leading": leading, **self._options}
        plans = plan_epochs(self.model, self.dtype, **options)
        if not self.network.exact:
            return plans
        first = int(leading is not None)
        # smaller ones run beside the largest
        return plans[:first] + sorted(plans[first:], key=lambda plan: -plan.groups)

    def renew(self, before: Model) -> bool:
        """Use changed parameters in the run's model; return False if other kernels are needed.

        Return False also if lists of nodes would change. The model `before` has the old parameters,
        see `ArenaKernels`.
        """
        model, alike = self.model, same_constants(before, self.model)
        same_nodes = alike
        for k, (kind, old) in enumerate(zip(model.kinds, before.kinds, strict=True)):
            for name in kind.mechanism.parameters:
                value, earlier = kind.parameters[name], old.parameters[name]
                if np.shape(value) == np.shape(earlier) == ():
                    if value != earlier:
                        if self._cells.at_sites:  # a literal
                            return False
                        self.take(k, name, np.reshape(value, 1))
                else:
                    alike &= value is earlier or np.array_equal(value, earlier)
        if alike:
            return True
        if not same_nodes and constants_around(model):
            return False
        if not all(lists.renew(model, lists.numbers.inflow) for _, lists in self._cells.with_lists):
            return False
        for launch, lists in self._cells.with_lists:
            numbers = lists.numbers
            for name, a in (("node_scalars", numbers.scalars), ("node_values", numbers.values)):
                values = to_device(self.queue, a, self.dtype)
                copy_onto(launch.given[name], values, self.queue)
        if not same_nodes:
            self._put_constants()
        return True

    def renew_constants(self) -> bool:
        model, of_lists = self.model, self._cells.with_lists
        flows = model.constant_b.any() or model.constant_g.any()
        inflow = any(launch.plan.spec.inflow for launch in self.launches)
        if not all(lists.of_own_cells for _, lists in of_lists) or (flows and not inflow):
            return False
        if constants_around(model):
            return False
        self._put_constants()
        spread = Spread(self.queue, self.dtype, model)
        total = model.capacitance_over_dt + model.constant_d
        lines = [total, model.constant_g, model.constant_b][: 3 if inflow else 1]
        for launch, lists in of_lists:
            at, node = (to_device(self.queue, a, np.int32) for a in lists.numbers.places_of_nodes)
            for line, values in enumerate(lines, 1):
                spread.values(launch.given["node_values"], at, node, values, line * WARP)
        return True

    def _put_constants(self) -> None:
        self._nodes.put_constants(self.model)
        for launch in self.launches:
            if isinstance(launch.plan.table, ColumnTable):
                launch.plan.cells.model = self.model
                launch.given |= column_tables(launch.plan.table, self.queue, self.dtype)
                self.is_bound = False

    def voltage_arrays(self) -> list[cla.Array]:
        seen = self._others.v
        return [self.v[0], *([seen] if seen is not None and self.model.pointers else [])]

    def fill(self, variables: Variables) -> dict[str, Arena]:
        packed = self._places.packed(variables.v)[: self._places.count].astype(self.dtype)
        self.v[0].set(packed, self.queue)
        seen = np.tile(packed, 3 if self.model.pointers else 0)
        if self.model.pointers and self._others.v is not None:
            self._others.v.set(seen, self.queue)
        else:
            self._others.v = to_device(self.queue, seen, self.dtype)
        instant = self.run.times.instant
        arenas = fill_arenas(variables, self.dtype, self.place, self.layout, instant)
        self._regions = regions = CellRegions(self.model, self.run.wires)
        if self._cells.at_sites:
            regions.add_sites(self.layout, arenas)
        if self._cells.with_lists:
            spreads = any(launch.plan.spec.parts > 1 for launch in self.launches)
            regions.add_lists(self.network, self._places.within, spreads, arenas)
        add_turns(self.model, arenas["mem"], self._others.steps + 2)
        if self.model.diffusions:
            regions.add_diffusion(self.layout, arenas)
        return arenas

    def suit(self, variables: Variables) -> bool:
        """Whether `variables` has the compiled functions' constant ions and rate tables."""
        kinds, constants, before = self._printed_for
        tables = zip(variables.tables, before, strict=True)
        same = all(np.array_equal(a[n], b[n]) for a, b in tables for n in a)
        return same and constant_ions(kinds, variables) == constants

    def compile(self, spec: ArenaSpec, at: np.ndarray) -> None:
        variables = self.run.state.variables
        self._printed_for = spec.kinds, constant_ions(spec.kinds, variables), variables.tables
        self._cells.set_regions(spec.regions, at)
        spec = replace(spec, calls=devices.is_cpu(self.queue.device))
        if self.artificial is not None:
            self.artificial.compile(spec, at)
        for launch in self.launches:
            if launch.lists is None:
                launch.spec = with_sites(launch.plan.spec, spec, self.model)
            else:
                self._compile_lists(launch, launch.lists, spec)
            detects = launch.spec.in_steps and self.model.num_extra > 0
            launch.spec = replace(launch.spec, detects=detects)

    def _compile_lists(self, launch: PlanLaunch, lists: NodeLists, spec: ArenaSpec) -> None:
        plan, steps, leads = launch.plan.spec, self._others.steps, launch in self._cells.leading
        values = lists, self.run.state.variables, self.network, steps
        launch.spec, numbers = with_lists(plan, spec, *values, leads)
        launch.spec = replace(
            launch.spec, joins=self._others.groups, ends_later=self._others.later,
            layers=self._regions.layers, diffusing_rounds=self._regions.rounds, leads=leads,
            turns=steps + 2 if "last_instances" in self.model.needs else 0,
        )  # fmt: skip
        bytes_of_rows = (
            launch.spec.units * ROW_REALS * self._regions.most_rows * self.dtype.itemsize
        )
        if launch.spec.chip.local_bytes + bytes_of_rows <= self.run.limits.local_bytes:
            launch.spec = replace(launch.spec, diffusing_rows=self._regions.most_rows)
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
        num, rows, model = np.int32, self.run.rows.arguments, self.model
        # detectors in arena order: somas', then others
        detectors = inverse(detector_order(self.run.state.variables, self.layout))
        somas, others = np.split(detectors, [len(model.soma)])
        first, entries = self._records(others)
        arguments = {
            "all_v": self.v[0],
            "record_start": to_device(self.queue, first, num),
            "record_list": to_device(self.queue, entries, num),
            "record_v": rows["v_rows"], "num_records": rows["num_v"],
            "seen_v": self._others.v, "num_places": num(self._places.count),
            "soma_detector": to_device(self.queue, somas, num),
            **self._nodes.arrays, **self.run.arguments,
        }  # fmt: skip
        series = SeriesNumbers(real_name(self.dtype)).arguments
        arguments |= {n: self.dtype.type(x) for n, x in series.items()}
        receives = self.network.exact and self.run.wires.num_targets > 0
        self._cells.bind(arguments, model.sources.count if receives else 0)
        if self.artificial is not None:
            self.artificial.bind(self.v[0], self.run.arguments)

    def _records(self, detectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which lanes record voltages or check thresholds, as from `recorded_lists`.

        Instead of a column, the i-th detector that is not at a soma has the number
        ``~detectors[i]``. If events act at exact times, lanes check no thresholds.
        """
        rows, sources = self.run.rows.arguments, self.model.sources
        count = 0 if rows["whole"] else int(rows["num_v"])
        at = rows["v_index"].get(self.queue)[:count]  # type: ignore[union-attr]
        nodes = self._places.node[at]
        if self.in_steps:
            nodes = np.append(nodes, sources.detector_node[len(self.model.soma) :])
        plans = (launch.plan for launch in self.launches)
        first, entries = recorded_lists(self.model.forest.cell_offsets, plans, nodes)
        of_detector = entries[:, 1] >= len(at)
        entries[of_detector, 1] = ~detectors[entries[of_detector, 1] - len(at)]
        return first, entries

    def storage(self, k: int, name: str, in_arenas: list[Storage]) -> list[Storage]:
        """Return all arrays with a parameter's value: `in_arenas`, and the lists of nodes.

        The result is empty if the parameter cannot be changed in place: its value is a literal in a
        kernel, a list has it once for all its nodes, or equal cells share a list.
        """
        if self._cells.at_sites and name in self.model.kinds[k].singles:
            return []  # a literal
        for launch in self.launches:
            text = launch.given_to(k, name)
            if text.startswith("p[") and launch.lists is not None and launch.lists.of_own_cells:
                in_arenas.append(launch.storage(k, name))
            elif text and not text.startswith("numbers."):
                return []
        return in_arenas

    def take(self, k: int, name: str, values: np.ndarray) -> None:
        """Set a parameter that is a kernel argument, a single number for all instances."""
        for launch in self._cells.each:
            text = launch.given_to(k, name)
            if text.startswith("numbers."):
                numbers = launch.given["numbers"].copy()
                numbers[int(text.removeprefix("numbers.n"))] = values[0]
                launch.given["numbers"] = numbers  # for the next launch

    def complete(self, saved: dict[str, np.ndarray]) -> None:
        if "held" in saved and self.in_steps:
            above, somas = self.model.sources.above(saved["v"]), len(self.model.soma)
            saved["held"][:somas] = above[:somas]

    @property
    def whole_rows(self) -> int:  # type: ignore[override]
        constant = any(launch.spec.constant for launch in self.launches)
        return 0 if constant else self._places.count

    def advance(self, first: int, count: int, row: int) -> None:
        begin, cells, others = self.run.times.put(first, count), self._cells, self._others
        most, later = others.steps, others.later
        for done in range(0, count, self.epoch):
            epoch = min(self.epoch, count - done)
            if self.artificial is not None:
                self.artificial.launch(epoch, first + done - begin, row + done)
                if cells.num_sources:
                    cells.publish()
            for step in range(done, done + epoch + later, most):
                each = min(most, done + epoch - step)
                cells.advance(first + step, each, begin, row + step, step == done)
            if cells.num_sources:
                cells.publish()
