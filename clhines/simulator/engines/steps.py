"""The engine `steps`: a few kernels per step around the solve, for cells of any size.

Any method of the solver can be used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.arrays import inverse, offsets, stretch_of
from clhines.core.errors import InputError
from clhines.simulator.device import launches
from clhines.simulator.device.reads import copy_onto
from clhines.simulator.engines.arena_run import ArenaKernels, ArenaRun, same_constants
from clhines.simulator.engines.reference import placed_neighbours
from clhines.simulator.kinds import layouts
from clhines.simulator.kinds.arenas import add_vectors, fill_arenas
from clhines.simulator.kinds.spec import ArenaSpec
from clhines.simulator.model.model import Model
from clhines.simulator.model.needs import refused
from clhines.simulator.state.arena import Arena
from clhines.simulator.state.variables import Variables
from clhines.solver.device import devices, program, trust
from clhines.solver.device.arrays import to_device
from clhines.solver.forest import Forest
from clhines.solver.plan.kernel_spec import TemplateSpec, Word
from clhines.solver.plan.methods import METHODS, make_plan
from clhines.solver.plan.plan import Limits, real_name
from clhines.solver.solver import Solver

BLOCKS_PER_UNIT, LEAST_NODES = 4, 32  # blocks per CPU compute unit; nodes per block
# True: on CPUs. With layers a solver only orders the nodes: its method, and cells side by side
ORDERS, LANES = {True: "auto", False: "block_interleaved"}, {True: 1, False: 32}
NEIGHBOURS = ("above", "below", "beside")  # the rows of `neighbours`
Enqueue: TypeAlias = Callable[[], object]


def bound(
    queue: cl.CommandQueue,
    built: tuple[cl.Program, TemplateSpec],
    name: str,
    arguments: dict[str, Any],
    items: int,
    alone: bool = False,
) -> Enqueue:
    """Return a function that launches a kernel with `items` work-items and these arguments.

    With `alone`, each work-group has one work-item.
    """
    kernel = launches.bind(*built, name, arguments)
    (total,), (group,) = devices.small_groups(queue.device, items)
    return partial(kernel.launch, queue, items if alone else total, 1 if alone else group)


def of_whole(
    forest: Forest, method: str, dtype: np.dtype, limits: Limits, options: Mapping[str, object]
) -> tuple[str, dict[str, object]]:
    """Choose the solver's method and options for the whole network.

    All ranks use them, so that results have the same bits on any number of ranks. `forest` has all
    cells, `limits` hold for the whole device.
    """
    plan = make_plan(forest, method, dtype, limits, **cast("dict[str, Any]", options))
    chosen: dict[str, object] = {}
    for name in ("segment", "vector_width"):
        values = {getattr(part.spec, name, None) for part in plan.parts}
        if len(values) == 1 and name in METHODS[plan.method].options and values != {None}:
            chosen[name] = values.pop()
    return plan.method, {**chosen, **options}


def _solver_of(run: ArenaRun, method: str, options: Mapping[str, object]) -> Solver:
    if run.job.decisions is not None:
        limits = trust.limits(devices.whole_device(run.device), "solve", run.dtype)
        whole = run.job.decisions.network.forest
        method, options = of_whole(whole, method, run.dtype, limits, options)
    solving = run.model.forest, method, run.dtype, None, run.queue
    return Solver(*solving, **cast("dict[str, Any]", options))


@dataclass(frozen=True)
class LayersSpec(TemplateSpec):
    """Spec of ``layers.mako``, which solves for cells with extracellular layers.

    A *column* is a node with its extracellular layers, and has `rows` potentials. The arrays of
    `lanes` cells are interleaved.
    """

    template: ClassVar[str] = "simulator/layers"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "solve_layers": (
            "int num_items, int num_cells, int num_columns, int most",
            "const int *restrict start, const int *restrict sizes, const int *restrict code",
            "const int *restrict place, const real *restrict axial, const real *restrict g",
            "const real *restrict over, const real *restrict d, const real *restrict b",
            "const real *restrict v, real *work, real *x",
        )
    }
    column: ClassVar[Word] = Word(waits=1, first=1, parent=29)
    real: str
    rows: int
    lanes: int = 1


def _codes(parent: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return each column's parent, and how its sums reach the parent, packed as `column`.

    `parent` is each column's parent, `numbers` its index in its cell. See ``layers.mako`` for the
    bits.
    """
    number = np.arange(len(parent))
    above = np.where(parent < 0, -1, parent - number + numbers)
    apart = np.flatnonzero((parent >= 0) & (parent != number - 1))
    waits, first = np.zeros((2, len(parent)), np.int64)
    waits[parent[apart]] = 1
    last = np.full(len(parent), -1)
    last[parent[apart]] = apart  # the last child wins
    first[last[last >= 0]] = 1
    return LayersSpec.column.pack(waits=waits, first=first, parent=above)


class Surrounded:
    """Solve for cells with extracellular layers, a cell per work-item; on GPUs interleaved."""

    def __init__(self, run: ArenaRun, place: np.ndarray) -> None:
        layers, num = run.model.layers, np.int32
        assert layers is not None
        on_cpu = devices.is_cpu(run.device)
        lanes, rows = LANES[on_cpu], len(layers.node)
        self._run = run
        self._spec = LayersSpec(real_name(run.dtype), rows, lanes)
        sizes = np.diff(layers.of_cells)
        rank = np.argsort(sizes, kind="stable")  # equal sizes side by side
        groups = np.maximum.reduceat(sizes[rank], np.arange(0, len(rank), lanes))
        first, ranks = lanes * offsets(groups), np.arange(len(rank))
        start = first[ranks // lanes] + ranks % lanes
        columns = int(first[-1])
        cell = stretch_of(layers.of_cells, np.arange(len(layers.parent)))
        numbers = np.arange(len(cell)) - layers.of_cells[cell]
        at = start[inverse(rank)][cell] + lanes * numbers

        def padded(values: np.ndarray, fill: float = 0) -> np.ndarray:
            array = np.full((*values.shape[:-1], columns), fill, values.dtype)
            array[..., at] = values
            return array.reshape(-1)

        places = np.where(layers.node < 0, -1, place[layers.node])
        ints = {
            "start": start, "sizes": sizes[rank], "code": padded(_codes(layers.parent, numbers)),
            "place": padded(places, -1),
        }  # fmt: skip
        over = layers.g + layers.c / run.model.dt
        reals = {"axial": layers.axial, "g": layers.g, "over": over}
        self._items = cells = len(rank)
        if on_cpu:
            self._items = min(cells, BLOCKS_PER_UNIT * run.limits.compute_units)
        most, room = int(sizes.max()), -(-self._items // lanes) * lanes
        self._arguments: dict[str, Any] = {
            "num_items": num(self._items), "num_cells": num(cells),
            "num_columns": num(columns), "most": num(most),
            **{name: to_device(run.queue, a, np.int32) for name, a in ints.items()},
            **{name: to_device(run.queue, padded(a), run.dtype) for name, a in reals.items()},
            "work": cla.zeros(run.queue, (room, most * rows * (rows + 1)), run.dtype),
        }  # fmt: skip

    def bind(self, queue: cl.CommandQueue, arguments: Mapping[str, Any]) -> Enqueue:
        built = program.build(queue.context, self._spec), self._spec
        alone = devices.is_cpu(queue.device)
        every = {**arguments, **self._arguments}
        return bound(queue, built, "solve_layers", every, self._items, alone)


def _check_model(model: Model) -> None:
    """Raise InputError for diffusion, and for bins with delays of half a step to a step.

    Only delays of events that instances send count; bins are those of CVode.queue_mode.
    """
    if model.diffusions:
        raise InputError("engine='steps' takes no LONGITUDINAL_DIFFUSION; expected 'epochs'")
    delay = model.netcons.delay / model.dt
    short = model.sources.is_emitted[model.netcons.source] & (delay >= 0.5) & (delay < 1)
    if model.bins and short.any():
        raise refused("network.engine-steps-bins")


class Steps(ArenaKernels):
    """Advance a model with the requested solver; nodes are in the order of the solver's plan."""

    def __init__(self, run: ArenaRun) -> None:
        _check_model(run.model)
        super().__init__(run)
        on_cpu, request = devices.is_cpu(run.queue.device), run.job.request
        method, layered = request.method, run.model.layers is not None
        if layered and method == "auto" and not request.options:
            method = ORDERS[on_cpu]
        self.in_vectors = on_cpu
        self.solver = _solver_of(run, method, request.options)
        self.gather = self.solver.plan.gather
        self._surrounded = Surrounded(run, self.place) if layered else None

    @cached_property
    def place(self) -> np.ndarray:  # type: ignore[override]
        """Each node's index in the voltage array, (n,) int64; other ranks' nodes are last."""
        gather, n = self.gather, self.model.forest.num_nodes
        remote = len(self.model.remote_v)
        places = np.empty(n + remote, np.int64)
        at = np.flatnonzero(gather >= 0)
        places[gather[at]], places[n:] = at, len(gather) + np.arange(remote)
        return places

    def put_matrix(self) -> None:
        model, pack, gather = self.model, self.solver.to_device_order, self.gather
        d = pack(model.capacitance_over_dt + model.constant_d)
        self.layout, self.places = layouts.Layout(model), len(gather)
        remote = np.zeros(len(model.remote_v))
        self.v = [self._packed(model.v_init, remote) for _ in range(2)]
        # kernel arguments by device index; `active`: an active node's index, -1 for others
        b = cla.zeros_like(d)
        self.matrix = {name: pack(getattr(model, name)) for name in ("constant_g", "constant_b")}
        self.matrix |= {"d": d, "b": b}
        placed = np.full((3, len(gather)), -1, np.int32)  # with layers: see `solve_layers`
        if model.layers is None:
            placed = placed_neighbours(model.forest, gather, self.place)
        number = np.where(gather < 0, -1, layouts.node_numbers(model)[gather]).astype(np.int32)
        self.matrix |= {"u": pack(model.u), "x": cla.zeros_like(b)}
        for name, values in zip((*NEIGHBOURS, "active"), (*placed, number), strict=True):
            self.matrix[name] = cla.to_device(self.queue, values)

    def renew(self, before: Model) -> bool:
        return same_constants(before, self.model) or self.renew_constants()

    def renew_constants(self) -> bool:
        model = self.model
        values = {name: getattr(model, name) for name in ("constant_g", "constant_b")}
        values["d"] = model.capacitance_over_dt + model.constant_d
        for name, of_nodes in values.items():
            copy_onto(self.matrix[name], self.solver.to_device_order(of_nodes), self.queue)
        return True

    def suit(self, variables: Variables) -> bool:
        return True

    def _packed(self, v: np.ndarray, remote: np.ndarray) -> cla.Array:
        packed = self.solver.to_device_order(v)
        if not len(remote):
            return packed
        return cla.to_device(
            self.queue, np.append(packed.get(self.queue), remote).astype(self.dtype)
        )

    def fill(self, variables: Variables) -> dict[str, Arena]:
        v = self._packed(variables.v, variables.remote_v)
        copy_onto(self.v[0], v, self.queue)
        arenas = fill_arenas(variables, self.dtype, self.place, self.layout, self.run.times.instant)
        if self.in_vectors:
            add_vectors(self.model, arenas)
        return arenas

    def compile(self, spec: ArenaSpec, at: np.ndarray) -> None:
        self.matrix["at"] = cla.to_device(self.queue, at)
        self._built = program.build(self.queue.context, spec), spec

    def bind(self) -> None:
        emitters = sum(len(s) for s in self.model.sources.emitted.values())
        self.run.times.forget()
        num = np.int32
        shared = {
            "num_places": num(self.places), "num_emitters": num(emitters),
            "first_item": num(0), "num_items": num(0), "step_state": self.run.times.state,
            **self.matrix, **self.run.arguments,
        }  # fmt: skip
        voltages = (self.v[0], self.v[1]), (self.v[1], self.v[0])
        self._launches = [self._launches_of(shared, *pair) for pair in voltages]

    def _launches_of(
        self, shared: dict[str, Any], old: cla.Array, new: cla.Array
    ) -> tuple[list[Enqueue], list[Enqueue]]:
        """Return the functions that launch a step's kernels: before and after the solve.

        `shared` has arguments for all kernels. A step reads voltages from `old` and writes them to
        `new`.
        """
        spec, before = self._built[1], list[Enqueue]()
        arguments = {**shared, "v": old, "v_old": old, "v_new": new}
        if spec.layered:
            layers = offsets([len(targets) for targets in self.run.wires.layers]).tolist()
            for first, end in pairwise(layers):
                layer = {"first_item": np.int32(first), "num_items": np.int32(end - first)}
                of_layer = arguments | layer
                before.append(bound(self.queue, self._built, "events", of_layer, end - first))
        alone = spec.width > 1
        if alone:  # work-items that advance blocks of nodes
            most = BLOCKS_PER_UNIT * self.run.limits.compute_units
            items = [max(1, min(layouts.num_active(self.model) // LEAST_NODES, most))] * 2
            arguments["num_items"] = np.int32(items[0])
        else:
            others = int(arguments["num_emitters"]) + int(self.run.rows.arguments["num_v"]) + 1
            items = [
                self.places + n
                for n in (len(layouts.loose_targets(self.model, self.run.wires)), others)
            ]
        before.append(bound(self.queue, self._built, "begin_step", arguments, items[0], alone))
        if self._surrounded is not None:
            before.append(self._surrounded.bind(self.queue, arguments))
        after = [bound(self.queue, self._built, "finish_step", arguments, items[1], alone)]
        if spec.sums:
            count = layouts.num_sums(self.model)
            after.append(bound(self.queue, self._built, "add_up", arguments, count))
        return before, after

    def advance(self, first: int, count: int, row: int) -> None:
        self.run.times.count_from(first, row, count)
        d, u, b, x = (self.matrix.get(name) for name in "dubx")
        for _ in range(count):
            before, after = self._launches[0]
            for launch in before:
                launch()
            if self._surrounded is None:
                self.solver.enqueue(d, u, b, out=x, packed=True)
            for launch in after:
                launch()
            self.v.reverse()
            self._launches.reverse()
