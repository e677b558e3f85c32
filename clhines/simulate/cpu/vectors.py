"""Whole epochs on CPUs: one work-item takes all steps of a block of cells, one per vector lane.

The cells' numbers stay in the caches from step to step. Nodes with nothing but constant
mechanisms at and below them have constant pivots: they are eliminated once, on the host, and a
step only moves their right-hand sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyopencl.array as cla

from clhines import reference
from clhines.arrays import ranges, starts
from clhines.device import devices, program, trust
from clhines.mechanisms.emit.noise import normal_source
from clhines.mechanisms.mechanism import Mechanism
from clhines.model.model import Kind
from clhines.plan.kernel_spec import Parameter, TemplateSpec
from clhines.plan.methods import check_width
from clhines.plan.plan import real_name
from clhines.simulate.cpu.groups import (
    Groups,
    choose_count,
    choose_lanes,
    in_groups,
    make_blocks,
    make_groups,
)
from clhines.simulate.cpu.pivots import (
    eliminate_constant,
    node_classes,
    nodes_in_part,
    variable_nodes,
)
from clhines.simulate.engines.run import DeviceRun, Job
from clhines.simulate.kinds.spec import MechanismSpec, grouped_kind_spec, of_each_kind, place_of
from clhines.simulate.records.sampling import REST, TABLES, Sample, arguments
from clhines.simulate.state.spread import Storage
from clhines.simulate.state.state import State

_LANES_BYTES = 64  # of the cells of a block, at most
_WIDEST = 16  # numbers of OpenCL's vectors
_OF_MANY = 64  # bytes of a register, where a processor has enough of them for groups of two


@dataclass(frozen=True)
class CellEpochSpec(TemplateSpec):
    """``epoch_vector.mako``.

    Attributes
    ----------
    real : str
        ``double`` or ``float``.
    lanes : int
        Cells of a block.
    kinds : tuple of MechanismSpec
    secondorder : bool
    noise : str
        OpenCL source of `mechanisms.normal`, where a kind uses it.
    samples : bool
        States or currents are recorded, see `sampling`.
    detects : bool
        There are detectors besides those of the somas.
    widest : int
        Numbers of a vector register.
    """

    template: ClassVar[str] = "simulate/epoch_vector"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "epoch": (
            "int first_step, int steps, real dt, const int *restrict blocks",
            "const int *restrict parents, const lanes *restrict over_dts",
            "const lanes *restrict constant_bs, const lanes *restrict fs",
            "const lanes *restrict inverses, lanes *restrict vs, lanes *restrict bs",
            "lanes *restrict xs if secondorder",
            "const lanes *restrict base_ds, const lanes *restrict us, lanes *restrict ds",
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
    samples: bool = False
    detects: bool = False
    widest: int = 1

    def parameters(self, kernel: str) -> list[Parameter]:
        """Parameters of the kernel, last those of each kind and of samples."""
        found = [*super().parameters(kernel), *of_each_kind(self.of_kind, self.kinds)]
        if self.samples:
            found += [*of_each_kind(TABLES, self.kinds), *of_each_kind((REST,), self.kinds[:1])]
        return found


def make(job: Job) -> DeviceRun:
    """Make a run of epochs; see `Job`."""
    job.check("epochs")
    return DeviceRun(job.state, CellEpochs(job.state))


class CellEpochs:
    """Advance a model in epochs on a CPU.

    Parameters
    ----------
    state : State
    lanes : int, optional
        Cells that share a vector; by default chosen from their shapes.

    Attributes
    ----------
    blocks : Blocks
    groups : list of Groups
        Of each kind.
    max_steps : int
        Steps of one launch at most.
    """

    def __init__(self, state: State, lanes: int | None = None) -> None:
        self.state, self.model, self.queue = state, state.model, state.queue
        self.max_steps = state.epoch
        model, real = self.model, real_name(state.dtype)
        device, chosen = self.queue.device, lanes
        limits = trust.limits(device, "epochs", state.dtype)
        check_width(lanes, "lanes", real, limits)
        widest = min(_LANES_BYTES, limits.trusted_bytes) // state.dtype.itemsize
        lanes = chosen or choose_lanes(model.forest, widest, limits.compute_units)
        split, network = state.decisions.split, state.decisions.network
        whole = network if split else model
        own = nodes_in_part(model, network) if split else slice(None)
        of_all = variable_nodes(whole)
        variable, classes = of_all[own], node_classes(whole)[own]
        count = choose_count(model.forest, limits.compute_units, lanes, widest, of_all)
        self.blocks = make_blocks(model.forest, variable, lanes, classes, count)
        most = limits.vector_bytes // state.dtype.itemsize
        several = dict[Mechanism, bool]()
        if split:
            units = devices.limits(devices.whole_device(device)).compute_units
            lanes_of_all = chosen or choose_lanes(network.forest, widest, units)
            count = choose_count(network.forest, units, lanes_of_all, widest, of_all)
            several = in_groups(network, lanes_of_all, most, count)
        twice = 2 * most <= _WIDEST and most * state.dtype.itemsize == _OF_MANY
        self.groups = [
            make_groups(model.forest, self.blocks, k, most, several.get(k.mechanism), twice)
            for k in model.kinds
        ]
        kinds = tuple(
            grouped_kind_spec(kind, real, groups.member.shape[1])
            for kind, groups in zip(model.kinds, self.groups, strict=True)
        )
        noise = normal_source(real) if any(kind.uses_noise for kind in kinds) else ""
        self._spec = CellEpochSpec(
            real, lanes, kinds, model.secondorder, noise, detects=model.num_extra > 0, widest=most
        )
        self._given = self._arguments(variable)
        self._kernel = self._bound([])

    def _arguments(self, variable: np.ndarray) -> list[object]:
        """Put all numbers into blocks on the device; `set_records` and `advance` change some."""
        model, blocks, state = self.model, self.blocks, self.state
        real, put = state.dtype.type, self._put
        self._place_nodes()
        self._constants, self._parameters = list[cla.Array](), list[tuple[cla.Array, cla.Array]]()
        arrays = self._node_values(variable)
        found = [state.spike_source, state.spike_step, state.spike_count]
        self._table_on_device = put(self._table)
        arguments: list[object] = [
            np.int32(0), np.int32(0), real(model.dt), self._table_on_device,
            put(blocks.parent.astype(np.int32)), *arrays,
            put(blocks.cells.astype(np.int32)),
            put(model.threshold.astype(real)), state.failed, np.int32(state.max_spikes), *found,
            np.int32(model.num_targets), np.int32(state.slots), real(state.incoming_scale),
            np.uint64(model.seed), state.incoming,
        ]  # fmt: skip
        self._record_argument = len(arguments)
        nothing = put(np.zeros(1, np.int32))
        arguments += [np.int32(0), np.int32(0), nothing, nothing, state.record_v]
        arguments += state.detectors
        for k, kind in enumerate(model.kinds):
            numbers = kind.count, kind.first_target, kind.first_instance
            arguments += [np.int32(n) for n in numbers]
            *by_group, held = self._of_groups(kind, self.groups[k])
            self._parameters.append((by_group[3], by_group[4]))
            arguments += [*by_group, state.states[k], held]
        return arguments

    def _bound(self, samples: list[cla.Array | np.int32]) -> program.BoundKernel:
        """Return the kernel with its arguments; those of samples are the last."""
        self._samples = bool(samples)
        spec = replace(self._spec, samples=self._samples)
        built = program.build(self.queue.context, spec)
        return program.BoundKernel(built, "epoch", [*self._given, *samples])

    def _put(self, a: np.ndarray) -> cla.Array:
        return cla.to_device(self.queue, np.ascontiguousarray(a.reshape(-1)))

    def _place_nodes(self) -> None:
        """Find the node of each slot and lane of the blocks, and the place of each node."""
        blocks, forest = self.blocks, self.model.forest
        sizes = blocks.sizes[blocks.pattern]
        slot, at = starts(sizes), ranges(blocks.first[blocks.pattern], sizes)
        block = np.repeat(np.arange(len(sizes)), sizes)
        row = blocks.first_row[block] + blocks.row[at]
        # lanes without a cell compute what the first lane does, and keep none of it
        node = forest.cell_offsets[blocks.own][row] + blocks.order[at][:, None]  # slot and lane
        kept = (blocks.cells >= 0)[row]
        self._place = np.empty(forest.num_nodes, np.int64)
        self._place[node[kept]] = np.flatnonzero(kept)
        self._node, self._slot, self._block = node, slot, block

    def _node_values(self, variable: np.ndarray) -> list[cla.Array]:
        """Numbers of all nodes by block, as the kernel takes them, and the table of the blocks."""
        model, blocks = self.model, self.blocks
        forest, real = model.forest, self.state.dtype.type
        node, slot, sizes = self._node, self._slot, blocks.sizes[blocks.pattern]
        start = np.repeat(forest.trees.offsets[forest.shape_of_cell], forest.sizes)
        within = np.arange(forest.num_nodes) - np.repeat(forest.cell_offsets[:-1], forest.sizes)
        self._constant = ~variable[start + within]
        self._moving = ~self._constant[node[:, 0]]
        constant = blocks.constant[blocks.pattern]
        count = (sizes - constant).astype(np.int64)
        self._variable = starts(count)

        def values(a: np.ndarray, where: np.ndarray | slice = slice(None)) -> cla.Array:
            return self._put(a[node[where]].astype(real))

        self._v, self._b = values(model.v_init), values(np.zeros(forest.num_nodes))
        columns = [slot, sizes, constant, blocks.first[blocks.pattern]]
        columns += [self._variable, np.zeros_like(slot), np.zeros_like(slot)]
        columns += [blocks.first_row[:-1], np.diff(blocks.first_row)]
        columns += [c for groups in self.groups for c in (groups.ends[:-1], groups.ends[1:])]
        self._table = np.stack(columns, axis=1).astype(np.int32)
        fixed = [self._put(a) for a in self._fixed(model.constant_d, model.constant_b)]
        constant_b, base_d, f, inverse = self._constants = fixed
        return [
            values(model.capacitance_over_dt), constant_b, f, inverse,
            self._v, self._b, *([values(model.v_init)] if model.secondorder else []),
            base_d, values(model.u, self._moving), base_d.copy(),
        ]  # fmt: skip

    def _fixed(self, constant_d: np.ndarray, constant_b: np.ndarray) -> list[np.ndarray]:
        """By slot and lane constant currents, reduced diagonal, factors and inverse pivots."""
        model, constant, real = self.model, self._constant, self.state.dtype.type
        total = model.capacitance_over_dt + constant_d
        if not constant.any() and self._constants:  # the others are 0
            return [a.astype(real) for a in (constant_b[self._node], total[self._moving_node])]
        left = eliminate_constant(model.forest, total, model.u, constant, self._steps)
        inverse = np.where(constant, 1 / left, 0.0)
        found = [constant_b[self._node], left[self._moving_node]]
        found += [(model.u * inverse)[self._node], inverse[self._node]]
        return [a.astype(real) for a in found]

    @cached_property
    def _steps(self) -> list[np.ndarray]:
        return reference.elimination_steps(self.model.forest) if self._constant.any() else []

    @cached_property
    def _moving_node(self) -> np.ndarray:
        return self._node[self._moving]

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

    def set_constants(self, d: np.ndarray, b: np.ndarray) -> bool:
        """Take other `Model.constant_d` and `constant_b`, (n,) float64; whether it can."""
        for array, values in zip(self._constants, self._fixed(d, b), strict=False):
            array.set(values.reshape(-1), self.queue)
        return True

    def voltage_arrays(self) -> list[cla.Array]:
        """Arrays on the device that `set_voltages` sets."""
        return [self._v]

    def _of_groups(self, kind: Kind, groups: Groups) -> list[cla.Array]:
        """Give what the kernel takes of a kind by group, length for states last."""
        dtype, put = self.state.dtype, self._put
        parameters = [kind.parameters[name] for name in kind.mechanism.parameters]
        single = [p for p in parameters if np.ndim(p) == 0] or [0.0]
        instance = np.where(groups.member < 0, ~groups.member, groups.member)
        given = [p[instance] for p in parameters if isinstance(p, np.ndarray)] or [
            np.zeros(instance.shape)
        ]
        length = max(1, len(kind.mechanism.states)) * instance.size
        return [
            *(put(a.astype(np.int32)) for a in (groups.member, groups.place, groups.run)),
            put(np.array(single, dtype)),
            put(np.stack(given, axis=1).astype(dtype)),
            put(kind.factor[instance].astype(dtype)),
            cla.zeros(self.queue, length, dtype),
        ]

    def set_records(self, nodes: np.ndarray) -> None:
        """Record the voltages of `nodes`, (r,) natural: each block gets a list of its own."""
        state, lanes = self.state, self.blocks.lanes
        column = np.append(np.arange(len(nodes)), ~np.arange(self.model.num_extra))
        nodes = np.append(nodes, self.model.sources.detector_node[len(self.model.soma) :])
        place = self._place[nodes]
        block = self._block[place // lanes]
        order = np.argsort(block, kind="stable")
        counts = np.bincount(block, minlength=len(self._slot))
        self._table[:, 6] = np.cumsum(counts)
        self._table[:, 5] = self._table[:, 6] - counts
        self._table_on_device.set(self._table.reshape(-1), self.queue)
        slot = place - self._slot[block] * lanes
        given = [slot[order], column[order]] if len(nodes) else [np.zeros(1), np.zeros(1)]
        lists = [cla.to_device(self.queue, a.astype(np.int32)) for a in given]
        recorded = [np.int32(state.record_v.shape[1]), *lists, state.record_v]
        for k, value in enumerate(recorded, self._record_argument + 1):
            self._kernel[k] = self._given[k] = value

    def set_samples(self, samples: Sequence[Sample], sampled: cla.Array) -> None:
        """Record states and currents from now on; see `Sampling`."""
        if samples or self._samples:
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

    def advance(self, first: int, count: int, row: int) -> None:
        """Enqueue `count` steps from step `first`; the first is recorded in `row`."""
        self._kernel[0], self._kernel[1] = np.int32(first), np.int32(count)
        self._kernel[self._record_argument] = np.int32(row)
        self._kernel.launch(self.queue, len(self._table), 1)

    def voltages(self) -> np.ndarray:
        """(n,) of the dtype, mV: in natural order."""
        return self._v.get(self.queue)[self._place]

    def set_voltages(self, v: np.ndarray) -> None:
        """Go on from other voltages, (n,) mV in natural order."""
        values = np.asarray(v)[self._node].astype(self.state.dtype)
        self._v.set(values.reshape(-1), self.queue)
