"""Whole epochs on CPUs: one work-item takes all steps of a block of cells, one per vector lane.

The cells' numbers stay in the caches from step to step. Nodes with nothing but constant
mechanisms at and below them have constant pivots: they are eliminated once, on the host, and a
step only moves their right-hand sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from numpy.typing import DTypeLike

from clhines.core.arrays import starts
from clhines.simulator.cpu.groups import (
    ConstantPivots,
    Groups,
    LaneBlocks,
    SlotNodes,
    choose_count,
    choose_lanes,
    in_groups,
    make_blocks,
    node_classes,
    nodes_in_part,
    takes_twice,
    variable_nodes,
)
from clhines.simulator.cpu.plan import LAUNCH, stays_near, work_of
from clhines.simulator.engines.cells_run import Cells, CellsRun
from clhines.simulator.engines.run import Job
from clhines.simulator.kinds.spec import (
    MechanismSpec,
    Sample,
    SampledSpec,
    grouped_kind_spec,
    of_each_kind,
    place_of,
    sample_arguments,
)
from clhines.simulator.mechanisms.emit.noise import normal_source
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.model.model import Kind, Model
from clhines.simulator.state.changes import Storage
from clhines.simulator.state.decisions import Decisions
from clhines.solver.device import devices, program
from clhines.solver.device.arrays import to_device, within_reach
from clhines.solver.plan.kernel_spec import Parameter
from clhines.solver.plan.methods import check_width
from clhines.solver.plan.plan import Limits, real_name

_RECORDS = ("blocks", "width", "record_slot", "record_column", "record_v")
_CHANGES = ("first_step", "steps", "row", *_RECORDS)  # arguments of each launch
_LANES_BYTES = 64  # of the cells of a block, at most


@dataclass(frozen=True)
class CellEpochSpec(SampledSpec):
    """``epoch_vector.mako``: blocks of `lanes` cells; `noise` is source, where a kind uses it."""

    template: ClassVar[str] = "simulator/epoch_vector"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "epoch": (
            "int first_step, int steps, real dt, const int *restrict blocks",
            "const int *restrict parents, const lanes *restrict constant_gs",
            "const lanes *restrict constant_bs, const lanes *restrict inverses",
            "lanes *restrict vs, lanes *restrict bs, lanes *restrict xs, const lanes *restrict us",
            "const lanes *restrict base_ds, lanes *restrict ds, lanes *restrict fs",
            "const int *restrict cells, const lanes *restrict thresholds, int *restrict failed",
            "int capacity, int *restrict spike_source, int *restrict spike_step",
            "int *restrict spike_count, int num_targets, int slots, real scale_of_events",
            "ulong seed, long *restrict incoming, int row, int width",
            "const int *restrict record_slot, const int *restrict record_column",
            "real *restrict record_v, int *restrict detector_held if detects",
            "const int *restrict detector_hold if detects",
            "const real *restrict detector_threshold if detects",
            "const int *restrict detector_source if detects",
            "const int *restrict first_of if alone, const int *restrict offset if alone",
            "const long *restrict weight_of if alone, int *restrict touched if alone",
        )
    }
    of_kind: ClassVar[tuple[str, ...]] = (
        "int count_{k}, int target_{k}, int number_{k}, const int *restrict member_{k}",
        "const int *restrict place_{k}, const int *restrict run_{k}, const int *restrict aside_{k}",
        "const real *restrict parameters_{k}, const real{width} *restrict given_{k}",
        "const real{width} *restrict factor_{k}, real *restrict states_{k}",
        "real{width} *restrict held_{k}, const int *restrict position_{k}",
    )
    real: str
    lanes: int
    kinds: tuple[MechanismSpec, ...]
    secondorder: bool
    noise: str
    window: int  # slots whose changes of v are kept, a power of two; a parent is nearer
    samples: bool = False
    detects: bool = False  # there are detectors besides those of the somas
    alone: bool = False  # one work-item has all cells, and delivers their spikes
    flat: int = 0  # numbers of a vector at the end of a step, where cells share none
    rows: tuple[bool, ...] = ()  # of cells of one node: the kinds with one instance each, in order
    share_of_lists: int = 16  # targets, over those of a step that are listed
    prefetch: str = ""  # ``builtin``: rows that are alone fetch connections by Clang's function

    def parameters(self, kernel: str) -> list[Parameter]:
        parameters = super().parameters(kernel)
        return [*parameters, *of_each_kind(self.of_kind, self.kinds), *self.of_samples]


def make(job: Job, lanes: int | None = None) -> CellsRun:
    job.check("epochs")
    return CellsRun(job, partial(CellEpochs, lanes=lanes), is_faster_alone)


def is_faster_alone(run: CellsRun) -> bool:
    """Whether one core takes all steps sooner than all cores with launches between deliveries."""
    model, units = run.model, devices.limits(run.device).compute_units
    connections = model.connections
    if run.decisions.split or connections.rule is not None or not connections.count:
        return False
    if not stays_near(model):  # one block would have all
        return False
    work = float(work_of(model).sum())
    return work < work / units + 2 * LAUNCH / run.decisions.epoch


def has_points_alone(model: Model) -> bool:
    """Whether all cells are of one node."""
    return model.forest.num_nodes == model.forest.num_cells


@dataclass(frozen=True, eq=False)
class VectorPlan:
    """Which cells share vectors and blocks, and which instances `groups`, one a kind."""

    blocks: LaneBlocks
    nodes: SlotNodes
    variable: np.ndarray  # nodes of all shapes: whose pivots change
    groups: list[Groups]
    spec: CellEpochSpec  # where no states or currents are recorded


def plan_vectors(
    model: Model,
    decisions: Decisions,
    device: cl.Device,
    limits: Limits,
    dtype: np.dtype,
    lanes: int | None = None,
    alone: bool = False,
) -> VectorPlan:
    """Plan epochs, with `lanes` cells in a vector, or as shapes allow; `alone` in one block."""
    real, size, chosen = real_name(dtype), dtype.itemsize, lanes
    check_width(lanes, "lanes", real, limits)
    widest, most = min(_LANES_BYTES, limits.trusted_bytes) // size, limits.vector_bytes // size
    lanes = chosen or choose_lanes(model.forest, widest, 1 if alone else limits.compute_units)
    whole = decisions.network if decisions.split else model
    of_all, classes = variable_nodes(whole), node_classes(whole)
    in_part = nodes_in_part(model, whole) if decisions.split else slice(None)
    variable = of_all[in_part]
    units = limits.compute_units
    count = 1 if alone else choose_count(model.forest, units, lanes, widest, of_all)
    blocks = make_blocks(model.forest, variable, lanes, classes[in_part], count)
    several = dict[Mechanism, bool]()
    rows = lanes > 1 and has_points_alone(model)
    if decisions.split or alone or rows:  # by the same functions as all cores together
        units = devices.limits(devices.whole_device(device)).compute_units
        lanes_of_all = chosen or choose_lanes(whole.forest, widest, units)
        count = choose_count(whole.forest, units, lanes_of_all, widest, of_all)
        several = in_groups(whole, of_all, lanes_of_all, most, count, decisions.by_gid)
    nodes, twice = SlotNodes(blocks, model.forest), takes_twice(most, size)
    groups = [nodes.groups(k, most, twice, several.get(k.mechanism), rows) for k in model.kinds]
    kinds = tuple(
        grouped_kind_spec(k, real, g.width) for k, g in zip(model.kinds, groups, strict=True)
    )
    noise = normal_source(real) if any(kind.uses_noise for kind in kinds) else ""
    flat = most if lanes == 1 and most > 1 else 0
    window = blocks.largest if flat else blocks.window
    spec = CellEpochSpec(
        real,
        lanes,
        kinds,
        model.secondorder,
        noise,
        window,
        detects=model.num_extra > 0,
        alone=alone,
        flat=flat,
        prefetch="builtin" if rows and alone and limits.clang else "",
        rows=tuple(map(nodes.in_order, groups)) if rows else (),
    )
    return VectorPlan(blocks, nodes, variable, groups, spec)


class CellEpochs(Cells):
    """Epochs of cells in vectors, `lanes` as of `plan_vectors`; each block has a work-item."""

    def __init__(self, run: CellsRun, lanes: int | None = None) -> None:
        model, queue, dtype = run.model, run.queue, run.dtype
        decided = run.decisions, queue.device, run.limits
        self.plan = plan = plan_vectors(model, *decided, dtype, lanes, run.alone)
        self._run, self._spec = run, plan.spec
        self.pivots = ConstantPivots(model, plan.nodes.node, plan.variable, queue, dtype)
        self._parameters = list[tuple[cla.Array, cla.Array]]()  # of all instances, and of each
        self._v = self._by_node("v_init")
        self._table, none = self._block_table(), self._put(np.zeros(1))
        self._recorded: list[program.KernelArgument]
        self._recorded = [self._put(self._table), np.int32(0), none, none, none]
        recorded = dict(zip(_RECORDS, self._recorded, strict=True))
        self._given = {**self._of_nodes(), **self._of_events(), **recorded}
        for k, kind in enumerate(model.kinds):
            self._given |= {f"{name}_{k}": a for name, a in self._of_kind(k, kind).items()}
        self._kernel = self._bound([])

    def _block_table(self) -> np.ndarray:
        """(num_blocks, ...) int32: what each block has, in columns; of kinds, their groups."""
        blocks, pattern = self.plan.blocks, self.plan.blocks.pattern
        slot = self.plan.nodes.block_place[:-1] // blocks.lanes
        sizes, constant = blocks.sizes[pattern], blocks.constant[pattern]
        variable, none = starts((sizes - constant).astype(np.int64)), np.zeros_like(slot)
        columns = [slot, sizes, constant, blocks.first[pattern], variable, none, none]
        columns += [blocks.first_row[:-1], np.diff(blocks.first_row)]
        columns += [c for g in self.plan.groups for c in (g.first[:-1], g.first[1:])]
        return np.stack(columns, axis=1).astype(np.int32)

    def _of_nodes(self) -> dict[str, program.KernelArgument]:
        run, blocks, by_node = self._run, self.plan.blocks, self._by_node
        constant_g, constant_b, base_d, inverse = self.pivots.arrays
        window = max(1, blocks.count * self._spec.window * blocks.lanes)
        return {
            "parents": self._put(blocks.parent),
            "constant_gs": constant_g, "constant_bs": constant_b, "inverses": inverse,
            "vs": self._v, "bs": cla.zeros_like(self._v),
            "xs": cla.zeros(run.queue, window, run.dtype), "us": by_node("u"),
            "base_ds": base_d, "ds": base_d.copy(), "fs": cla.zeros_like(base_d),
        }  # fmt: skip

    def _of_events(self) -> dict[str, program.KernelArgument]:
        run, model, num, real = self._run, self._run.model, np.int32, self._run.dtype.type
        spikes, grid = run.grid.spikes, run.grid
        alone: dict[str, cla.Array] = {}
        if run.alone:
            listed = grid.slots * (model.num_targets // self._spec.share_of_lists + 2)
            alone = grid.tables | {"touched": cla.zeros(run.queue, listed, np.int32)}
        return {
            "first_step": num(0), "steps": num(0), "row": num(0), "dt": real(model.dt),
            "cells": self._put(self.plan.blocks.cells),
            "thresholds": self._put(model.threshold[self.plan.blocks.own], real),
            "failed": run.failed, "capacity": num(run.max_spikes),
            "spike_source": spikes.source, "spike_step": spikes.step, "spike_count": spikes.count,
            "num_targets": num(model.num_targets), "slots": num(grid.slots),
            "scale_of_events": real(grid.scale), "seed": np.uint64(model.seed),
            "incoming": grid.incoming, **run.states.detectors, **alone,
        }  # fmt: skip

    def _of_kind(self, k: int, kind: Kind) -> dict[str, program.KernelArgument]:
        dtype, put, groups, num = self._run.dtype, self._put, self.plan.groups[k], np.int32
        parameters = [kind.parameters[name] for name in kind.mechanism.parameters]
        single = [p for p in parameters if np.ndim(p) == 0] or [0.0]
        instance = groups.source
        columns = [p[instance] for p in parameters if isinstance(p, np.ndarray)] or [
            np.zeros(instance.shape)
        ]
        ones = within_reach(self._run.queue, (len(single),), dtype)
        ones.set(np.array(single, dtype), self._run.queue)
        others = put(np.stack(columns, axis=1), dtype)
        self._parameters.append((ones, others))
        length = max(1, len(kind.mechanism.states)) * instance.size
        first = self.plan.nodes.block_place[:-1].repeat(np.diff(groups.first))
        place = groups.place - first[:, None]
        return {
            "count": num(kind.count), "target": num(kind.first_target),
            "number": num(kind.first_instance), "member": put(groups.member),
            "place": put(place),
            "run": put(np.where(groups.side_by_side, place[:, 0], -1)),
            "aside": put(groups.first_members),
            "parameters": ones, "given": others,
            "factor": put(kind.factor[instance], dtype),
            "states": self._run.states.of_kinds[k],
            "held": cla.zeros(self._run.queue, length, dtype), "position": put(groups.position),
        }  # fmt: skip

    def _put(self, a: np.ndarray, dtype: DTypeLike = np.int32) -> cla.Array:
        return to_device(self._run.queue, a, dtype)

    def _by_node(self, name: str) -> cla.Array:
        """Values of nodes on the device, by slot and lane; see `Model.of_nodes`."""
        dtype = self._run.dtype
        return self._put(self._run.model.of_nodes.at(name, self.plan.nodes.node, dtype), dtype)

    def _bound(self, samples: list[cla.Array | np.int32]) -> program.BoundKernel:
        self._spec = spec = replace(self._spec, samples=bool(samples))
        more = dict(zip((p.name for p in spec.of_samples), samples, strict=True))
        built = program.build(self._run.queue.context, spec)
        return program.bind(built, spec, "epoch", {**self._given, **more}, _CHANGES)

    def record(self, nodes: np.ndarray, rows: cla.Array) -> None:
        model, at = self._run.model, self.plan.nodes
        column = np.append(np.arange(len(nodes)), ~np.arange(model.num_extra))
        place = at.place[np.append(nodes, model.sources.detector_node[len(model.soma) :])]
        block = at.block[place // self.plan.blocks.lanes]
        order = np.argsort(block, kind="stable")
        counts = np.bincount(block, minlength=len(self._table))
        self._table[:, 6] = np.cumsum(counts)
        self._table[:, 5] = self._table[:, 6] - counts
        slot = place - at.block_place[block]
        lists = self._put(slot[order]), self._put(column[order])
        self._recorded = [self._put(self._table), np.int32(rows.shape[1]), *lists, rows]

    def sample(self, samples: Sequence[Sample], rows: cla.Array) -> None:
        if samples or self._spec.samples:
            sizes = [len(groups.member) for groups in self.plan.groups]
            sampling = samples, sizes, self._by_group, rows
            self._kernel = self._bound(sample_arguments(*sampling) if samples else [])

    def _by_group(self, k: int, instance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        groups = self.plan.groups[k]
        return np.divmod(groups.position[instance], groups.width)

    def launch(self, first: int, count: int, row: int) -> None:
        self._kernel.change(np.int32(first), np.int32(count), np.int32(row), *self._recorded)
        self._kernel.launch(self._run.queue, len(self._table), 1)

    def storage(self, k: int, name: str) -> list[Storage]:
        kind, groups = self._run.model.kinds[k], self.plan.groups[k]
        single, index = place_of(kind, name)
        ones, columns = self._parameters[k]
        if single:
            return [Storage(ones, index)]
        number = sum(np.ndim(v) > 0 for v in kind.parameters.values())

        def places() -> tuple[np.ndarray, np.ndarray]:
            first = np.arange(len(groups.member)) * (number * groups.width)
            return (first[:, None] + np.arange(groups.width)).reshape(-1), groups.source.reshape(-1)

        return [Storage(columns, index * groups.width, k, places)]

    def set_constants(self, d: np.ndarray, b: np.ndarray, g: np.ndarray) -> bool:
        self.pivots.set(d, b, g)
        return True

    def voltage_arrays(self) -> list[cla.Array]:
        return [self._v]

    def voltages(self) -> np.ndarray:
        return self._v.get(self._run.queue)[self.plan.nodes.place]

    def set_voltages(self, v: np.ndarray) -> None:
        values = np.asarray(v)[self.plan.nodes.node].astype(self._run.dtype)
        self._v.set(values.reshape(-1), self._run.queue)
