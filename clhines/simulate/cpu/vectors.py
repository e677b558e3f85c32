"""Whole epochs on CPUs: one work-item takes all steps of a block of cells, one per vector lane.

The cells' numbers stay in the caches from step to step. Nodes with nothing but constant
mechanisms at and below them have constant pivots: they are eliminated once, on the host, and a
step only moves their right-hand sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyopencl.array as cla

from clhines.arrays import starts
from clhines.device import devices, program
from clhines.device.arrays import within_reach
from clhines.mechanisms.emit.noise import normal_source
from clhines.mechanisms.mechanism import Mechanism
from clhines.model.model import Kind
from clhines.plan.kernel_spec import Parameter, TemplateSpec
from clhines.plan.methods import check_width
from clhines.plan.plan import real_name
from clhines.simulate.cpu.groups import (
    SlotNodes,
    choose_count,
    choose_lanes,
    in_groups,
    make_blocks,
    make_groups,
    takes_twice,
)
from clhines.simulate.cpu.pivots import (
    ConstantPivots,
    node_classes,
    nodes_in_part,
    variable_nodes,
)
from clhines.simulate.engines.cells_run import CellsRun
from clhines.simulate.engines.run import Job
from clhines.simulate.kinds.spec import MechanismSpec, grouped_kind_spec, of_each_kind, place_of
from clhines.simulate.records.sampling import REST, TABLES, Sample, arguments
from clhines.simulate.state.spread import Storage

_RECORDS = ("blocks", "width", "record_slot", "record_column", "record_v")
_CHANGES = ("first_step", "steps", "row", *_RECORDS)  # arguments of each launch
_DETECTORS = ("above", "detector_threshold", "detector_source")
_LANES_BYTES = 64  # of the cells of a block, at most


@dataclass(frozen=True)
class CellEpochSpec(TemplateSpec):
    """``epoch_vector.mako``: blocks of `lanes` cells; `noise` is source, where a kind uses it."""

    template: ClassVar[str] = "simulate/epoch_vector"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "epoch": (
            "int first_step, int steps, real dt, const int *restrict blocks",
            "const int *restrict parents, const lanes *restrict constant_gs",
            "const lanes *restrict constant_bs, const lanes *restrict inverses",
            "lanes *restrict vs, lanes *restrict bs, lanes *restrict xs, const lanes *restrict us",
            "const lanes *restrict base_ds, lanes *restrict ds, lanes *restrict fs",
            "const int *restrict cells, const real *restrict threshold, int *restrict failed",
            "int capacity, int *restrict spike_source, int *restrict spike_step",
            "int *restrict spike_count, int num_targets, int slots, real scale_of_events",
            "ulong seed, long *restrict incoming, int row, int width",
            "const int *restrict record_slot, const int *restrict record_column",
            "real *restrict record_v, int *restrict above if detects",
            "const real *restrict detector_threshold if detects",
            "const int *restrict detector_source if detects",
        )
    }
    of_kind: ClassVar[tuple[str, ...]] = (
        "int count_{k}, int target_{k}, int number_{k}, const int *restrict member_{k}",
        "const int *restrict place_{k}, const int *restrict run_{k}",
        "const real *restrict parameters_{k}, const real{width} *restrict given_{k}",
        "const real{width} *restrict factor_{k}, real *restrict states_{k}",
        "real{width} *restrict held_{k}",
    )
    real: str
    lanes: int
    kinds: tuple[MechanismSpec, ...]
    secondorder: bool
    noise: str
    window: int  # slots whose changes of v are kept, a power of two; a parent is nearer
    samples: bool = False  # states or currents are recorded, see `sampling`
    detects: bool = False  # there are detectors besides those of the somas
    flat: int = 0  # numbers of a vector at the end of a step, where cells share none

    def parameters(self, kernel: str) -> list[Parameter]:
        """Parameters of the kernel, last those of each kind and of samples."""
        own = super().parameters(kernel)
        return [*own, *of_each_kind(self.of_kind, self.kinds), *self.of_samples]

    @property
    def of_samples(self) -> list[Parameter]:
        """Parameters for states and currents that are recorded, in the order of `sampling`."""
        if not self.samples:
            return []
        return [*of_each_kind(TABLES, self.kinds), *of_each_kind((REST,), self.kinds[:1])]


def make(job: Job) -> CellEpochs:
    """Make a run of epochs; see `Job`."""
    job.check("epochs")
    return CellEpochs.of(job)


class CellEpochs(CellsRun):
    """Advance a model in epochs on a CPU, `lanes` cells in a vector: by default as shapes allow."""

    def __init__(self, *given: Any, lanes: int | None = None) -> None:
        super().__init__(*given)
        model, real, size = self.model, real_name(self.dtype), self.dtype.itemsize
        device, limits, chosen = self.queue.device, self.limits, lanes
        check_width(lanes, "lanes", real, limits)
        widest = min(_LANES_BYTES, limits.trusted_bytes) // size
        lanes = chosen or choose_lanes(model.forest, widest, limits.compute_units)
        split, network = self.decisions.split, self.decisions.network
        whole = network if split else model
        own = nodes_in_part(model, network) if split else slice(None)
        of_all = variable_nodes(whole)
        variable, classes = of_all[own], node_classes(whole)[own]
        count = choose_count(model.forest, limits.compute_units, lanes, widest, of_all)
        self.blocks = make_blocks(model.forest, variable, lanes, classes, count)
        most = limits.vector_bytes // size
        several = dict[Mechanism, bool]()
        if split:
            units = devices.limits(devices.whole_device(device)).compute_units
            lanes_of_all = chosen or choose_lanes(network.forest, widest, units)
            count = choose_count(network.forest, units, lanes_of_all, widest, of_all)
            several = in_groups(network, lanes_of_all, most, count)
        twice = takes_twice(most, size)
        self.groups = [
            make_groups(model.forest, self.blocks, k, most, several.get(k.mechanism), twice)
            for k in model.kinds
        ]
        kinds = tuple(
            grouped_kind_spec(kind, real, groups.member.shape[1])
            for kind, groups in zip(model.kinds, self.groups, strict=True)
        )
        noise = normal_source(real) if any(kind.uses_noise for kind in kinds) else ""
        flat = lanes == 1 and most > 1
        window = self.blocks.largest if flat else self.blocks.window
        self._spec = CellEpochSpec(
            real, lanes, kinds, model.secondorder, noise, window, detects=model.num_extra > 0,
            flat=most if flat else 0,
        )  # fmt: skip
        self.nodes = SlotNodes(self.blocks, model.forest)
        self.pivots = ConstantPivots(model, self.nodes.node, variable, self.queue, self.dtype)
        self._parameters = list[tuple[cla.Array, cla.Array]]()
        self._v = self._by_node(model.v_init)
        self._table, none = self._block_table(), self._put(np.zeros(1, np.int32))
        self._recorded: list[program.Argument]
        self._recorded = [self._put(self._table), np.int32(0), none, none, self.record_v]
        self._given = {**self._arguments(), **dict(zip(_RECORDS, self._recorded, strict=True))}
        for k, kind in enumerate(model.kinds):
            self._given |= {f"{name}_{k}": a for name, a in self._of_kind(k, kind).items()}
        self._kernel = self._bound([])

    def _block_table(self) -> np.ndarray:
        """(num_blocks, ...) int32: what each block has, in columns; of kinds, their groups."""
        blocks, slot, pattern = self.blocks, self.nodes.slot, self.blocks.pattern
        sizes, constant = blocks.sizes[pattern], blocks.constant[pattern]
        variable, none = starts((sizes - constant).astype(np.int64)), np.zeros_like(slot)
        columns = [slot, sizes, constant, blocks.first[pattern], variable, none, none]
        columns += [blocks.first_row[:-1], np.diff(blocks.first_row)]
        columns += [c for groups in self.groups for c in (groups.ends[:-1], groups.ends[1:])]
        return np.stack(columns, axis=1).astype(np.int32)

    def _arguments(self) -> dict[str, program.Argument]:
        """Put all numbers of nodes and cells into blocks on the device."""
        model, blocks, grid, num = self.model, self.blocks, self.grid, np.int32
        real, put, by_node = self.dtype.type, self._put, self._by_node
        constant_g, constant_b, base_d, inverse = self.pivots.arrays
        window = max(1, blocks.count * self._spec.window * blocks.lanes)
        spikes = self.spikes
        return {
            "first_step": num(0), "steps": num(0), "row": num(0), "dt": real(model.dt),
            "parents": put(blocks.parent.astype(num)),
            "constant_gs": constant_g, "constant_bs": constant_b, "inverses": inverse,
            "vs": self._v, "bs": by_node(np.zeros(model.forest.num_nodes)),
            "xs": cla.zeros(self.queue, window, real), "us": by_node(model.u),
            "base_ds": base_d, "ds": base_d.copy(), "fs": cla.zeros_like(base_d),
            "cells": put(blocks.cells.astype(num)), "threshold": put(model.threshold.astype(real)),
            "failed": self.failed, "capacity": num(self.max_spikes),
            "spike_source": spikes.source, "spike_step": spikes.step, "spike_count": spikes.count,
            "num_targets": num(model.num_targets), "slots": num(grid.slots),
            "scale_of_events": real(grid.scale), "seed": np.uint64(model.seed),
            "incoming": grid.incoming, **dict(zip(_DETECTORS, self.detectors, strict=False)),
        }  # fmt: skip

    def _of_kind(self, k: int, kind: Kind) -> dict[str, program.Argument]:
        """Put a kind into groups on the device; names are without the kind's number."""
        dtype, put, groups, num = self.dtype, self._put, self.groups[k], np.int32
        parameters = [kind.parameters[name] for name in kind.mechanism.parameters]
        single = [p for p in parameters if np.ndim(p) == 0] or [0.0]
        instance = np.where(groups.member < 0, ~groups.member, groups.member)
        given = [p[instance] for p in parameters if isinstance(p, np.ndarray)] or [
            np.zeros(instance.shape)
        ]
        ones = within_reach(self.queue, (len(single),), dtype)
        ones.set(np.array(single, dtype), self.queue)
        others = put(np.stack(given, axis=1).astype(dtype))
        self._parameters.append((ones, others))
        length = max(1, len(kind.mechanism.states)) * instance.size
        return {
            "count": num(kind.count), "target": num(kind.first_target),
            "number": num(kind.first_instance), "member": put(groups.member.astype(num)),
            "place": put(groups.place.astype(num)), "run": put(groups.run.astype(num)),
            "parameters": ones, "given": others,
            "factor": put(kind.factor[instance].astype(dtype)), "states": self.states[k],
            "held": cla.zeros(self.queue, length, dtype),
        }  # fmt: skip

    def _bound(self, samples: list[cla.Array | np.int32]) -> program.BoundKernel:
        """Return the kernel with its arguments, of which `advance` changes some."""
        self._spec = spec = replace(self._spec, samples=bool(samples))
        more = dict(zip((p.name for p in spec.of_samples), samples, strict=True))
        built = program.build(self.queue.context, spec)
        return program.bind(built, spec, "epoch", {**self._given, **more}, _CHANGES)

    def _put(self, a: np.ndarray) -> cla.Array:
        return cla.to_device(self.queue, np.ascontiguousarray(a.reshape(-1)))

    def _by_node(self, a: np.ndarray) -> cla.Array:
        """(n,) values of nodes on the device, by slot and lane."""
        return self._put(a[self.nodes.node].astype(self.dtype))

    def storage(self, k: int, name: str) -> list[Storage]:
        """Where the values of a parameter of kind `k` are."""
        kind, groups = self.model.kinds[k], self.groups[k]
        single, index = place_of(kind, name)
        ones, given = self._parameters[k]
        if single:
            return [Storage(ones, index)]
        width = groups.member.shape[1]
        number = sum(np.ndim(v) > 0 for v in kind.parameters.values())

        def places() -> tuple[np.ndarray, np.ndarray]:
            first = np.arange(len(groups.member)) * (number * width)
            member = groups.member.reshape(-1)
            at = (first[:, None] + np.arange(width)).reshape(-1)
            return at, np.where(member < 0, ~member, member)

        return [Storage(given, index * width, k, places)]

    def set_constants(self, d: np.ndarray, b: np.ndarray, g: np.ndarray) -> bool:
        """Take other `Model.constant_d`, `constant_b` and `constant_g`; whether it can."""
        self.pivots.set(d, b, g)
        return True

    def voltage_arrays(self) -> list[cla.Array]:
        """Arrays on the device that `set_voltages` sets."""
        return [self._v]

    def set_records(self, nodes: np.ndarray) -> None:
        """Record the voltages of `nodes`, (r,) natural: each block gets a list of its own."""
        lanes = self.blocks.lanes
        column = np.append(np.arange(len(nodes)), ~np.arange(self.model.num_extra))
        nodes = np.append(nodes, self.model.sources.detector_node[len(self.model.soma) :])
        place = self.nodes.place[nodes]
        block = self.nodes.block[place // lanes]
        order = np.argsort(block, kind="stable")
        counts = np.bincount(block, minlength=len(self._table))
        self._table[:, 6] = np.cumsum(counts)
        self._table[:, 5] = self._table[:, 6] - counts
        slot = place - self.nodes.slot[block] * lanes
        given = [slot[order], column[order]] if len(nodes) else [np.zeros(1), np.zeros(1)]
        lists = [self._put(a.astype(np.int32)) for a in given]
        width = np.int32(self.record_v.shape[1])
        self._recorded = [self._put(self._table), width, *lists, self.record_v]

    def set_samples(self, samples: Sequence[Sample], sampled: cla.Array) -> None:
        """Record states and currents from now on; see `Sampling`."""
        if samples or self._spec.samples:
            sizes = [len(groups.member) for groups in self.groups]
            given = (self.queue, samples, sizes, self._by_group, sampled)
            self._kernel = self._bound(arguments(*given) if samples else [])

    def _by_group(self, k: int, instance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Group and lane of instances of a kind."""
        member = self.groups[k].member
        at = np.empty(self.model.kinds[k].count, np.int64)
        own = np.flatnonzero(member.reshape(-1) >= 0)
        at[member.reshape(-1)[own]] = own
        return np.divmod(at[instance], member.shape[1])

    def launch(self, first: int, count: int, row: int) -> None:
        """Enqueue `count` steps from step `first`; the first is recorded in `row`."""
        self._kernel.change(np.int32(first), np.int32(count), np.int32(row), *self._recorded)
        self._kernel.launch(self.queue, len(self._table), 1)

    def voltages(self) -> np.ndarray:
        """(n,) of the dtype, mV: in natural order."""
        return self._v.get(self.queue)[self.nodes.place]

    def set_voltages(self, v: np.ndarray) -> None:
        """Go on from other voltages, (n,) mV in natural order."""
        values = np.asarray(v)[self.nodes.node].astype(self.dtype)
        self._v.set(values.reshape(-1), self.queue)
