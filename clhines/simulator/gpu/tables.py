"""Copy plans' tables, and node values, to the device for epochs on GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from numpy.typing import DTypeLike

from clhines.simulator.device import launches
from clhines.simulator.device.reads import copy_onto
from clhines.simulator.gpu.columns import ColumnTable
from clhines.simulator.gpu.functions import node_words
from clhines.simulator.gpu.launch import CellLaunches
from clhines.simulator.gpu.layout import NodePlaces
from clhines.simulator.gpu.lists import NodeLists
from clhines.simulator.gpu.plan import EpochPlan
from clhines.simulator.gpu.words import HAS_SPECIAL, SPECIAL, WARP
from clhines.simulator.kinds import layouts
from clhines.simulator.model.model import Model
from clhines.solver.device import program
from clhines.solver.device.arrays import to_device


def put_tables(
    plan: EpochPlan, base: int, model: Model, queue: cl.CommandQueue, dtype: DTypeLike
) -> dict[str, Any]:
    """Copy a plan's tables to the device; return them by kernel argument names.

    `base` is the device index of the plan's first node.
    """
    table, units, num = plan.table, plan.units.copy(), np.int32
    units[:, 0] += base
    ints = {
        "units": units, "rows": table.rows.rows, "links": table.lanes.links,
        "children": table.lanes.children,
    }  # fmt: skip
    reals = dict[str, np.ndarray]()
    if not isinstance(table, ColumnTable):
        reals["all_up"] = table.values("up", model.u.__getitem__)
    if plan.lists is not None:
        more_ints, more_reals = _of_lists(plan, plan.lists, base, model)
        ints |= more_ints
        reals |= more_reals
    else:
        assert plan.sites is not None
        for kind, (start, instances) in zip(model.kinds, plan.sites.instances, strict=True):
            ints |= {f"{kind.mechanism.name}__start": start}
            ints |= {f"{kind.mechanism.name}__list": instances}
    if plan.spec.constant:
        dense, lanes = max(1, plan.spec.dense**2), max(1, 3 * table.num_lanes)
        reals["tree_factors"] = np.zeros(lanes)
        reals["tree_inverses"] = np.zeros(len(plan.cells.numbers) * dense)
    tables = {name: to_device(queue, a, num) for name, a in ints.items()}
    tables |= {name: to_device(queue, a, dtype) for name, a in reals.items()}
    if isinstance(table, ColumnTable):
        tables |= column_tables(table, queue, dtype)
    return {**tables, "num_units": num(len(plan.cells.numbers))}


def column_tables(
    table: ColumnTable, queue: cl.CommandQueue, dtype: DTypeLike
) -> dict[str, cla.Array]:
    index, rows = table.factors()
    names = "row_of_column", "rows_of_factors"
    return dict(zip(names, (to_device(queue, index, np.int32), to_device(queue, rows, dtype))))


def _of_lists(
    plan: EpochPlan, lists: NodeLists, base: int, model: Model
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    words = node_words(model)
    homes, rows, nodes = lists.homes.copy(), lists.rows.copy(), lists.lanes.nodes
    active = np.where(nodes < 0, -1, words[nodes])
    if not plan.spec.in_steps:
        rows[((active >= SPECIAL).any(axis=1)), 0] |= HAS_SPECIAL
    cells = plan.units[:, 6]
    first = np.searchsorted(layouts.active_nodes(model), model.forest.cell_offsets)  # each cell's
    homes[:, 5], homes[:, 6] = first[cells], first[cells + 1]
    if isinstance(plan.table, ColumnTable):
        homes[:, 0] //= plan.table.potentials  # among columns
    else:
        homes[:, 0] += base
    ints = {
        "homes": homes, "instances": lists.instances, "node_lists": rows,
        "node_places": lists.lanes.places, "node_members": lists.numbers.members,
        "node_active": active, **({"node_bits": lists.lanes.own} if lists.lanes.mixed else {}),
    }  # fmt: skip
    reals = {
        "node_scalars": lists.numbers.scalars, "node_values": lists.numbers.values,
        "node_states": np.zeros(lists.state_lines * WARP),
    }  # fmt: skip
    return ints, reals


class PlacedValues:
    """Copy node constants, such as capacitances and couplings, to the device, in device order.

    `arrays` has them by argument names. Plans with lists of nodes need only ``all_tie``.
    """

    def __init__(
        self, model: Model, cells: CellLaunches, places: NodePlaces, dtype: np.dtype
    ) -> None:
        self._cells, self._places, self._dtype = cells, places, dtype
        tie, end = np.zeros(max(places.count, 1)), 0
        self.arrays = dict[str, cla.Array]()
        if model.layers is not None:
            return
        runs = np.zeros(len(tie), np.int64)
        for launch in cells.each:
            plan = launch.plan
            begin, end = end, end + len(plan.table.gather)
            tie[begin:end] = plan.table.values("tie", model.u.__getitem__)
            if plan.sites is not None and not plan.spec.constant:
                runs[begin:end] = plan.sites.slots
        self.arrays |= {"all_tie": to_device(cells.queue, tie, dtype)}
        for launch in cells.at_sites:
            assert launch.plan.sites is not None
            if launch.spec.constant:  # by cell
                runs = launch.plan.sites.slots
            launch.given["slot_runs"] = to_device(cells.queue, runs, np.int32)
        for name in ("all_f1", "all_f2", "all_inverse") if cells.at_sites else ():
            self.arrays[name] = cla.zeros_like(self.arrays["all_tie"])
        self.put_constants(model)

    def put_constants(self, model: Model) -> None:
        """Copy node constants to the device; compute the factors that are constant."""
        queue, at_sites = self._cells.queue, self._cells.at_sites
        if not at_sites:
            return
        over_dt, g, b = model.capacitance_over_dt, model.constant_g, model.constant_b
        constant = any(launch.spec.constant for launch in at_sites)
        row = over_dt + (g if constant else model.constant_d)  # its sum, or the diagonal
        columns = {
            "all_d": (row, 1.0),
            "all_g": (g, 0.0),
            "all_k": (b, 0.0),
            "all_c": (over_dt, 0.0),
        }
        for name, (values, padding) in columns.items():
            array = to_device(queue, self._places.packed(values, padding), self._dtype)
            if name in self.arrays:
                copy_onto(self.arrays[name], array, queue)
            else:
                self.arrays[name] = array
        for launch in at_sites if constant else ():
            spec = launch.plan.spec.of_factors
            built = program.build(queue.context, spec)
            kernel = launches.bind(built, spec, "advance", {**launch.given, **self.arrays})
            kernel.launch(queue, launch.plan.groups * spec.work_group, spec.work_group)
