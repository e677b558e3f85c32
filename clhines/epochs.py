"""Epochs of whole cells on chip: many steps in one launch, a work-group some cells.

Cells talk through spikes alone, and a spike acts no earlier than the smallest delay. For that
many steps a work-group keeps its cells' voltages, states and factors in local memory and registers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines import layout, packing, program, schedule
from clhines.channels import normal_source
from clhines.errors import InputError
from clhines.forest import ranges
from clhines.network import Kind, Model
from clhines.parts import Limits, real_name
from clhines.plan_contraction import Cut, cut_trees

MAX_DENSE = 16  # nodes of a tree that are solved by the inverse of their matrix
_SEGMENTS = (4, 6, 8, 12, 16)  # most nodes of a segment
_FULL = 4  # cells a compute unit, from which on those in flight count, not the time of one
# cells of a work-group and registers of a work-item (0: as the compiler likes) then, by precision
# and whether factors are constant; measured, see bench/NOTES.md
_BUSY = {
    ("double", True): (2, 96),
    ("float", True): (3, 72),
    ("double", False): (2, 0),
    ("float", False): (3, 80),
}
_NAMED_BARRIERS = 15  # of NVIDIA's work-groups, besides the usual one
# what the bits of an instance's site and of a node's slots have room for
_MAX_UNITS, _MAX_PLACES, _MAX_SLOTS = 16, 1 << 12, (1 << 15) - 1


@dataclass(frozen=True)
class EpochKind:
    """One kind of mechanism, for ``epoch.mako``.

    Attributes
    ----------
    name, source : str
        The mechanism's name and functions.
    number : int
        Of its instance 0 among all instances: what noise is drawn by.
    parameters, states : tuple of str
    literals : tuple of str
        Value of each parameter where it is one number, else empty.
    most : int
        Instances of a work-group.
    density, takes_events, uses_noise : bool
    factor : str
        What makes the factor of a node of its capacitance over dt, where that is one number.
    first_target : int
        Number of instance 0 among the targets of events.
    local : bool
        The states lie in local memory during an epoch.
    """

    name: str
    source: str = field(repr=False)
    number: int
    parameters: tuple[str, ...]
    states: tuple[str, ...]
    literals: tuple[str, ...]
    most: int
    density: bool
    takes_events: bool
    uses_noise: bool
    factor: str
    first_target: int
    local: bool = True


@dataclass(frozen=True)
class EpochSpec:
    """Numbers and switches of ``epoch.mako``: one work-item a segment of a branch.

    Attributes
    ----------
    real : str
        ``double`` or ``float``.
    phase : str
        ``factor``: the constant factors, once; ``advance``: steps.
    constant : bool
        Only the roots' conductances change.
    lanes, units : int
        Lanes of a cell, cells of a work-group.
    extra : int
        Further work-items, for the mechanisms alone.
    segment : int
        Most nodes of a segment.
    capacity : int
        Values of the largest cell, and one more.
    rounds : int
        Most rounds of a cell, 1 or more.
    before, dense : int
        With constant factors: after so many rounds at most so many nodes are left, which are solved
        by the inverse of their matrix; 0 for rounds alone.
    slots : int
        Instances of a work-group.
    secondorder, ptx, fused : bool
        As in `Model` and `ContractionSpec`.
    kinds : tuple of EpochKind
    normal : str
        The functions of the generator, where a kind uses noise.
    registers : int
        Most registers of a work-item (NVIDIA's compiler); 0 leaves them to it.
    """

    template: ClassVar[str] = "epoch"
    real: str
    phase: str
    constant: bool
    lanes: int
    units: int
    extra: int
    segment: int
    capacity: int
    rounds: int
    before: int
    dense: int
    slots: int
    secondorder: bool
    ptx: bool
    fused: bool
    kinds: tuple[EpochKind, ...] = ()
    normal: str = field(default="", repr=False)
    registers: int = 0

    @property
    def build_options(self) -> tuple[str, ...]:
        """Options of the compiler."""
        return (f"-cl-nv-maxrregcount={self.registers}",) if self.registers else ()

    @property
    def work_group(self) -> int:
        """Work-items of a group."""
        return self.lanes * self.units + self.extra

    @property
    def local_bytes(self) -> int:
        """Local memory that the kernel takes, at most."""
        factor = self.phase == "factor"
        held = 2 if factor else 4 if self.constant else 5
        tree = 7 if factor or not self.constant else 3
        reals = self.units * (held * self.capacity + tree * self.lanes)
        ints = self.units * 2 * self.segment + sum(k.most for k in self.kinds)
        if self.dense:
            ints += self.units * (self.lanes + 1)
        if self.dense and not factor:
            reals += self.units * (self.dense * (self.dense + 1) + 1)
        if self.constant and not factor:
            reals += self.units
        if self.kinds:
            reals += 2 * self.slots
            reals += sum(len(k.states) * k.most for k in self.kinds if k.local)
        gaps = 8 * (4 + len(self.kinds))  # before what must lie at a multiple of 8
        return (8 if self.real == "double" else 4) * reals + 4 * ints + gaps

    @property
    def of_factors(self) -> EpochSpec:
        """The kernel that works out the constant factors of this one."""
        return replace(self, phase="factor", extra=0, kinds=(), slots=0, normal="")

    def fits(self, limits: Limits) -> bool:
        """Whether its work-groups suit a device, and its numbers the bits that they are given."""
        kernels = (self, self.of_factors) if self.constant else (self,)
        return (
            self.work_group <= limits.max_work_group
            and max(k.local_bytes for k in kernels) <= limits.local_bytes
            and (self.lanes == 32 or self.units <= _NAMED_BARRIERS)
            and self.units <= _MAX_UNITS
            and self.slots <= _MAX_SLOTS
            and self.capacity <= _MAX_PLACES
        )


class _Table:
    """The cells of a model as units: lanes, places of the nodes, ties between them."""

    def __init__(self, model: Model, cut: Cut, most: int) -> None:
        forest = model.forest
        blocks = packing.next_fit(forest, list(cut.lanes[:, None]), int(cut.lanes.max()), 1)
        lanes = schedule.segment_lanes(
            cut.segments, cut.contraction, blocks.slot_template, blocks.slot_tree
        )
        rows = layout.SegmentRows(lanes, blocks, most)
        self.blocks, self.lanes, self.rows = blocks, lanes, rows
        self.gather = rows.gather(forest)
        real = np.flatnonzero(self.gather >= 0)
        self._place = np.empty(forest.num_nodes, np.int64)
        self._place[self.gather[real]] = real
        kind, counts = blocks.template, np.diff(lanes.template_start)
        self.lane_base = np.cumsum(counts[kind]) - counts[kind]
        self.num_lanes = int(counts[kind].sum())
        self.units = np.stack(
            (
                rows.block_start,
                rows.template_size[kind],
                lanes.template_start[kind],
                (counts | lanes.inner << 16)[kind],
                kind * most * 2,
                np.maximum(lanes.rounds, 1)[kind],
                blocks.cells,
                self.lane_base,
            ),
            axis=1,
        )
        self.unit_of_cell = np.empty(forest.num_cells, np.int64)
        self.unit_of_cell[blocks.cells] = np.arange(forest.num_cells)
        self._ties()

    def _ties(self) -> None:
        """Find whose `u` ties each place to the next of its segment, and each lane to its parent.

        `tie` and `up` are natural indices, -1 for none.
        """
        lanes, rows, kind = self.lanes, self.rows, self.blocks.template
        length, template = lanes.length, lanes.template
        lane = np.arange(len(length)) - lanes.template_start[template]
        leaf = lane >= lanes.inner[template]
        column = np.where(leaf, lane - lanes.inner[template], lane)
        k = np.repeat(np.arange(len(length)), length)
        j = ranges(np.zeros(len(length), np.int64), length)

        def place(k: np.ndarray, j: np.ndarray) -> np.ndarray:
            return rows.rows[template[k], leaf[k] + 0, j] + column[k]

        # of each value of each template, the place whose u is meant
        size = rows.template_size
        begin = np.cumsum(size) - size
        source = np.full(int(size.sum()), -1)
        last = j == length[k] - 1
        following = np.minimum(j + 1, length[k] - 1)
        source[begin[template[k]] + place(k, j)] = np.where(
            last, -1, place(k, np.where(leaf[k], j, following))
        )
        spread = source[ranges(begin[kind], size[kind])]
        start = np.repeat(rows.block_start, size[kind])
        real = np.flatnonzero(spread >= 0)
        self.tie = np.full(rows.size, -1)
        self.tie[ranges(rows.block_start, size[kind])[real]] = self.gather[(spread + start)[real]]
        every = np.arange(len(length))
        top = place(every, np.where(leaf, length - 1, 0))
        counts = np.diff(lanes.template_start)
        which = ranges(lanes.template_start[kind], counts[kind])
        self.up = self.gather[top[which] + np.repeat(rows.block_start, counts[kind])]

    def places(self, nodes: np.ndarray | slice) -> np.ndarray:
        """Place of natural nodes in the device order."""
        return self._place[nodes]

    def lane_and_row(self, nodes: np.ndarray) -> np.ndarray:
        """``lane | row << 16`` of natural nodes."""
        place = self.places(nodes)
        unit = np.searchsorted(self.rows.block_start, place, side="right") - 1
        template, inside = self.blocks.template[unit], place - self.rows.block_start[unit]
        flat = self.rows.rows[template].reshape(len(nodes), -1)
        at = (flat <= inside[:, None]).sum(axis=1) - 1  # rows of no width begin where others do
        most = self.rows.rows.shape[-1]
        column = inside - flat[np.arange(len(nodes)), at]
        leaf = at >= most
        return (column + np.where(leaf, self.lanes.inner[template], 0)) | (at % most) << 16


class BlockEpochs:
    """Executor: epochs of cells that fit into a work-group, `UNITS` of them in each.

    Parameters
    ----------
    model : Model
    state : State
        Device arrays shared with the delivery of spikes.
    limits : Limits
    segment, units : int, optional
        Most nodes of a segment and cells of a work-group; chosen where not given.

    Raises
    ------
    InputError
        A cell is too large for a work-group.
    """

    def __init__(
        self,
        model: Model,
        state: Any,
        limits: Limits,
        segment: int | None = None,
        units: int | None = None,
    ) -> None:
        self.model, self.state, self.queue = model, state, state.queue
        self.max_steps = state.epoch
        self.dtype = np.dtype(state.dtype)
        # what a part of a network takes from the whole: all that its cells' bits depend on
        self.constant = constant_factors(model.all)
        self._most, cut = _choose_cut(model.all, self.constant, segment)
        if model.whole is not None:
            trees = model.forest.trees
            cut = cut_trees(trees, self._most, trees.parent < 0)
        if cut.lanes.max() > schedule.NO_LANE:  # the last number says that there is none
            raise self._too_large(int(cut.lanes.max()), limits)
        self._table = _Table(model, cut, self._most)
        self.spec = self._plan(cut, limits, units)
        self._upload()
        if self.constant:
            self._factor()
        self._advance = self._kernel()
        self.set_voltages(model.v_init)

    # -- plan ----------------------------------------------------------------------------------

    def _plan(self, cut: Cut, limits: Limits, units: int | None) -> EpochSpec:
        lanes = -(-int(cut.lanes.max()) // 32) * 32
        before, dense = self._dense() if self.constant else (0, 0)
        spec = EpochSpec(
            real=real_name(self.dtype),
            phase="advance",
            constant=self.constant,
            lanes=lanes,
            units=1,
            extra=32 if self.constant and self.model.kinds else 0,
            segment=self._most,
            capacity=int(self._table.rows.template_size.max()) + 1,
            rounds=max(1, int(self._table.lanes.rounds.max())),
            before=before,
            dense=dense,
            slots=0,
            secondorder=self.model.secondorder,
            ptx=limits.ptx,
            fused=not limits.is_cpu,
            normal=normal_source(real_name(self.dtype))
            if any(k.mechanism.uses_noise for k in self.model.kinds)
            else "",
        )
        busy = self.model.all.forest.num_cells >= _FULL * limits.compute_units
        most, registers = _BUSY[spec.real, self.constant] if busy else (1, 0)
        if limits.ptx:
            spec = replace(spec, registers=registers)
        most = units or most
        for count in range(most, 0, -1):
            found = self._list_instances(count)
            for local in (True, False):
                kinds = tuple(replace(kind, local=local) for kind in found)
                chosen = replace(spec, units=count, slots=self._slots, kinds=kinds)
                if chosen.fits(limits):
                    return chosen
        raise self._too_large(lanes, limits)

    def _too_large(self, lanes: int, limits: Limits) -> InputError:
        return InputError(
            f"cells of {int(self.model.forest.sizes.max())} nodes, {lanes} lanes: too large to "
            f"stay in {limits.local_bytes} bytes of local memory, with {limits.max_work_group} "
            "work-items; use path='steps'"
        )

    def _dense(self) -> tuple[int, int]:
        """Find the rounds after which few nodes of all trees are left, and how many."""
        lanes = self._lanes_of_all()
        inner = ranges(lanes.template_start[:-1], lanes.inner)
        when, template = lanes.links[inner, 1] & schedule.NO_LANE, lanes.template[inner]
        for before in range(int(lanes.rounds.max()) + 1):
            left = int(np.bincount(template[when >= before]).max())
            if left <= MAX_DENSE:
                return before, -(-left // 4) * 4
        raise AssertionError("only the root is left after the last round")

    def _lanes_of_all(self) -> schedule.SegmentLanes:
        """Lanes of all trees of the network, of which those here may be some."""
        whole = self.model.whole
        if whole is None:
            return self._table.lanes
        trees = whole.forest.trees
        cut = cut_trees(trees, self._most, trees.parent < 0)
        number = np.arange(trees.num_trees)
        return schedule.segment_lanes(cut.segments, cut.contraction, number, number)

    def _list_instances(self, units: int) -> list[EpochKind]:
        """List instances of each group of `units` cells, and the slots that they write to."""
        model, table = self.model, self._table
        groups = -(-model.forest.num_cells // units)
        kinds = model.kinds
        node = np.concatenate([k.node for k in kinds]) if kinds else np.zeros(0, np.int64)
        which = np.repeat(np.arange(len(kinds)), [k.count for k in kinds])
        cell = np.searchsorted(model.forest.cell_offsets, node, side="right") - 1
        unit = table.unit_of_cell[cell]
        place = table.places(node) - table.rows.block_start[unit] if len(node) else node
        order = np.lexsort((which, place, unit))
        first = np.searchsorted(unit[order] // units, np.arange(groups + 1))
        slot = np.empty(len(node), np.int64)
        slot[order] = np.arange(len(node)) - first[unit[order] // units]
        self._slots = int(np.diff(first).max()) if kinds else 0
        self._lists, specs = [], []
        begin = 0
        for kind in kinds:
            mine = np.arange(begin, begin + kind.count)
            sort = np.lexsort((place[mine], unit[mine]))
            mine = mine[sort]
            starts = np.searchsorted(unit[mine] // units, np.arange(groups + 1))
            site = place[mine] | (unit[mine] % units) << 12 | slot[mine] << 16
            entries = np.stack((sort, site), axis=1).astype(np.uint32).view(np.int32)
            self._lists.append((starts, entries))
            specs.append(self._kind_spec(kind, int(np.diff(starts).max())))
            begin += kind.count
        self._slot_table = self._slots_of_nodes(node, cell, slot)
        return specs

    def _slots_of_nodes(self, node: np.ndarray, cell: np.ndarray, slot: np.ndarray) -> np.ndarray:
        """First and end slot of each cell; or ``first | number << 16`` of each place."""
        count = self.model.forest.num_cells if self.constant else self._table.rows.size
        key = cell if self.constant else self._table.places(node)
        number = np.bincount(key, minlength=count)
        first = np.full(count, 1 << 30)
        np.minimum.at(first, key, slot)
        first = np.where(number > 0, first, 0)
        if self.constant:
            return np.stack((first, first + number), axis=1).reshape(-1)
        return first | number << 16

    def _kind_spec(self, kind: Kind, most: int) -> EpochKind:
        mechanism, real = kind.mechanism, real_name(self.dtype)
        values = [kind.parameters[p] for p in mechanism.parameters]
        return EpochKind(
            name=mechanism.name,
            source=mechanism.functions(real),
            number=kind.first_instance,
            parameters=tuple(mechanism.parameters),
            states=tuple(mechanism.states),
            literals=tuple("" if np.ndim(v) else _literal(float(v), self.dtype) for v in values),
            most=most,
            density=mechanism.kind == "density",
            takes_events=mechanism.takes_events,
            uses_noise=mechanism.uses_noise,
            factor=self._factor_of_capacitance(kind),
            first_target=max(0, kind.first_target),
        )

    def _factor_of_capacitance(self, kind: Kind) -> str:
        """Literal of factor / (capacitance / dt), where that is one number to rounding."""
        model = self.model.all
        kind = next(k for k in model.kinds if k.mechanism == kind.mechanism)
        if kind.mechanism.kind != "density":
            return ""
        ratio = kind.factor / model.capacitance_over_dt[kind.node]
        if np.ptp(ratio) > 8 * np.finfo(np.float64).eps * ratio.max():
            return ""
        return _literal(float(ratio[0]), self.dtype)

    # -- device --------------------------------------------------------------------------------

    def _int32(self, values: Any) -> cla.Array:
        values = np.ascontiguousarray(values, np.int32).reshape(-1)
        return cla.to_device(self.queue, values if values.size else np.zeros(1, np.int32))

    def _real(self, values: Any) -> cla.Array:
        values = np.ascontiguousarray(values, self.dtype).reshape(-1)
        return cla.to_device(self.queue, values if values.size else np.zeros(1, self.dtype))

    def _packed(self, values: np.ndarray, index: np.ndarray, padding: float = 0.0) -> cla.Array:
        return self._real(np.where(index < 0, padding, values[index]))

    def _upload(self) -> None:
        model, table = self.model, self._table
        gather = table.gather
        self._tables = [
            self._int32(table.units),
            self._int32(table.rows.rows),
            self._int32(table.lanes.links),
            self._int32(table.lanes.children),
        ]
        c = model.capacitance_over_dt
        self._d = self._packed(c + model.constant_d, gather, 1.0)
        self._tie, self._up = (self._packed(model.u, k) for k in (table.tie, table.up))
        self._c, self._k = (self._packed(a, gather) for a in (c, model.constant_b))
        self._v = self._packed(model.v_init, gather)
        self._threshold = self._real(model.threshold)
        self._of_kinds = []
        for k, kind in enumerate(model.kinds):
            starts, entries = self._lists[k]
            arrays = [self._int32(starts), self._int32(entries), self.state.states[k]]
            varying = [self._real(v) for v in kind.parameters.values() if np.ndim(v)]
            factor = [] if self.spec.kinds[k].factor else [self._real(kind.factor)]
            factor = factor if self.spec.kinds[k].density else []
            self._of_kinds.append((arrays, np.int32(kind.count), factor + varying))
        self._slot_array = self._int32(self._slot_table)
        self.set_records(np.zeros(0, np.int64))

    def set_records(self, nodes: np.ndarray) -> None:
        """Record the voltage at natural `nodes`, a column each."""
        cells = np.searchsorted(self.model.forest.cell_offsets, nodes, side="right") - 1
        order = np.argsort(cells, kind="stable")
        starts = np.searchsorted(cells[order], np.arange(self.model.forest.num_cells + 1))
        at = self._table.lane_and_row(nodes[order]) if len(nodes) else np.zeros(0, int)
        self._record_start = self._int32(starts)
        self._record_list = self._int32(np.stack((at, order), axis=1))
        self._num_records = len(nodes)

    def _factor(self) -> None:
        """Work out f1, f2, 1 / d of all nodes and of the trees of segments."""
        spec = self.spec.of_factors
        kernel = cl.Kernel(program.build(self.queue.context, spec), "advance")
        self._f1, self._f2, self._inverse = (cla.zeros_like(self._d) for _ in range(3))
        self._tree = cla.zeros(self.queue, max(1, 3 * self._table.num_lanes), self.dtype)
        inverses = self.model.forest.num_cells * max(1, spec.dense**2)
        self._tree_inverses = cla.zeros(self.queue, inverses, self.dtype)
        arrays = [self._d, self._tie, self._up, self._f1, self._f2, self._inverse, self._tree]
        arrays.append(self._tree_inverses)
        kernel(
            self.queue,
            (self._groups * spec.work_group,),
            (spec.work_group,),
            np.int32(0),
            np.int32(0),
            np.int32(self.model.forest.num_cells),
            *(a.data for a in self._tables + arrays),
        )

    @property
    def _groups(self) -> int:
        return -(-self.model.forest.num_cells // self.spec.units)

    def _kernel(self) -> program.BoundKernel:
        state, model = self.state, self.model
        arguments: list[Any] = [np.int32(0), np.int32(0), np.int32(model.forest.num_cells)]
        arguments += [*self._tables, self._d, self._tie, self._up]
        if self.constant:
            arguments += [self._f1, self._f2, self._inverse, self._tree, self._tree_inverses]
        arguments += [self._c, self._k, self._v]
        for tables, count, values in self._of_kinds:
            arguments += [*tables, count, *values]
        if model.kinds:
            arguments.append(self._slot_array)
        arguments += [
            state.incoming,
            np.int32(state.slots),
            np.int32(model.num_targets),
            self.dtype.type(state.incoming_scale),
            self.dtype.type(model.dt),
            np.uint64(model.seed & (1 << 64) - 1),
            self._threshold,
            state.spike_source,
            state.spike_step,
            state.spike_count,
            np.int32(state.spike_source.size),
            state.failed,
        ]
        self._record_argument = len(arguments)
        arguments += self._record_arguments(0)
        return program.BoundKernel(
            program.build(self.queue.context, self.spec), "advance", arguments
        )

    def _record_arguments(self, row: int) -> list[Any]:
        lists = [self._record_start, self._record_list]
        return [*lists, self.state.record_v, np.int32(row), np.int32(self._num_records)]

    # -- steps ---------------------------------------------------------------------------------

    def advance(self, first_step: int, count: int, record_row: int = 0) -> cl.Event:
        """Enqueue `count` steps from `first_step`; records go to rows from `record_row` on."""
        kernel, group = self._advance, self.spec.work_group
        kernel[0], kernel[1] = np.int32(first_step), np.int32(count)
        for k, argument in enumerate(self._record_arguments(record_row), self._record_argument):
            kernel[k] = argument
        return kernel.launch(self.queue, self._groups * group, group)

    def voltages(self) -> np.ndarray:
        """(n,) of the dtype, mV, in natural order."""
        return self._v.get()[self._table.places(slice(None))]

    def set_voltages(self, v: np.ndarray) -> None:
        """Take (n,) voltages, mV, in natural order."""
        gather = self._table.gather
        self._v.set(np.where(gather < 0, 0, v[gather]).astype(self.dtype))


def _literal(value: float, dtype: np.dtype) -> str:
    return f"({value!r}{'f' if dtype == np.float32 else ''})"


def constant_factors(model: Model) -> bool:
    """Whether only the roots' conductances change, so that all other factors are constants."""
    return all(np.isin(kind.node, model.soma).all() for kind in model.kinds)


def _choose_cut(model: Model, constant: bool, segment: int | None) -> tuple[int, Cut]:
    """Cut trees into segments: as few nodes as let the largest cell have 64 lanes, or the most."""
    trees = model.forest.trees
    # without constant factors all those of a segment's nodes are in registers
    sizes = _SEGMENTS if constant else tuple(most for most in _SEGMENTS if most <= 8)
    for most in (segment,) if segment else sizes:
        cut = cut_trees(trees, most, trees.parent < 0)
        if cut.lanes.max() <= 64:
            break
    return most, cut
