"""Steps: a few kernels per step, around the solve; cells of any size, any method of the solver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, TypeAlias, cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.arrays import offsets
from clhines.device import devices, program, trust
from clhines.errors import DeviceMemoryError
from clhines.forest import Forest
from clhines.plan.methods import METHODS, make_plan
from clhines.plan.plan import Limits
from clhines.simulate.engines.arena_run import ArenaKernels, ArenaRun
from clhines.simulate.engines.reference import neighbours, placed_neighbours
from clhines.simulate.engines.variables import Variables
from clhines.simulate.kinds import layouts
from clhines.simulate.kinds.spec import ArenaSpec
from clhines.simulate.state.arena import Arena, Tiler
from clhines.solve.solver import Solver

BLOCKS_PER_UNIT, LEAST_NODES = 4, 32  # of nodes that a work-item of a CPU has
NEIGHBOURS = ("above", "below", "beside")  # of `neighbours`
Launch: TypeAlias = Callable[[], object]


def bound(
    queue: cl.CommandQueue,
    built: tuple[cl.Program, ArenaSpec],
    name: str,
    given: dict[str, Any],
    items: int,
    alone: bool = False,
) -> Launch:
    """Return a launch of a kernel, its arguments by name; `alone` are work-groups of one item."""
    kernel = program.bind(*built, name, given)
    (total,), (group,) = devices.small_groups(queue.device, items)
    return partial(kernel.launch, queue, items if alone else total, 1 if alone else group)


def of_whole(
    forest: Forest, method: str, dtype: np.dtype, limits: Limits, options: Mapping[str, object]
) -> tuple[str, dict[str, object]]:
    """Choose for a part the method and options of the whole network: the bits depend on them."""
    plan = make_plan(forest, method, dtype, limits, **cast("dict[str, Any]", options))
    chosen: dict[str, object] = {}
    for name in ("segment", "vector_width"):
        values = {getattr(part.spec, name, None) for part in plan.parts}
        if len(values) == 1 and name in METHODS[plan.method].options and values != {None}:
            chosen[name] = values.pop()
    return plan.method, {**chosen, **options}


def _solver_of(run: ArenaRun) -> Solver:
    method, options, forest = run.request.method, run.request.options, run.model.forest
    if run.whole is not None:
        limits = trust.limits(devices.whole_device(run.device), "solve", run.dtype)
        whole = run.whole.network.forest
        method, options = of_whole(whole, method, run.dtype, limits, options)
    given = cast("dict[str, Any]", options)
    solver = Solver(forest, method, run.dtype, None, run.queue, **given)
    if not solver.takes_device_order:
        raise DeviceMemoryError(
            f"a network needs its {forest.num_nodes} nodes on the device at once; the "
            f"solver would need {solver.num_slices} slices"
        )
    return solver


class Steps(ArenaKernels):
    """Advance a model with the solver that the request asks for, in the order of its plan."""

    def __init__(self, run: ArenaRun) -> None:
        super().__init__(run)
        self.in_vectors = devices.is_cpu(run.queue.device)
        self.solver = _solver_of(run)
        self._tiler = None
        if run.model.copies > 1:
            gather = self.solver.plan.gather
            self._tiler = Tiler(run.queue, run.dtype, run.model.copies, gather)

    @cached_property
    def place(self) -> np.ndarray:  # type: ignore[override]
        """(n,) int64: of each node among the voltages; nodes of other ranks follow."""
        gather, n = self.solver.plan.gather, self.model.forest.num_nodes
        remote = len(self.model.remote_v)
        found = np.empty(n + remote, np.int64)
        at = np.flatnonzero(gather >= 0)
        found[gather[at]], found[n:] = at, len(gather) + np.arange(remote)
        return found

    def put_matrix(self) -> None:
        once, solver, tiler = self.model.once, self.solver, self._tiler
        pack = solver.to_device_order if tiler is None else tiler.pack
        d, gather = pack(once.capacitance_over_dt + once.constant_d), solver.plan.gather
        self.layout, self.places = layouts.Layout(self.model), len(gather)
        remote = np.zeros(len(self.model.remote_v))
        self.v = [self._packed(pack, once.v_init, remote) for _ in range(2)]
        if tiler is not None:  # which finds the active nodes when the arenas are there
            beside = tiler.neighbours(neighbours(once.forest))
            active = cla.empty(self.queue, self.places, np.int32)
        else:
            placed = placed_neighbours(once.forest, gather, self.place)
            beside = [cla.to_device(self.queue, a) for a in placed]
            number = np.where(gather < 0, -1, layouts.node_numbers(once)[gather]).astype(np.int32)
            active = cla.to_device(self.queue, number)
        # arguments of kernels, by place; `active`: number of an active node, -1 for others
        self.matrix = {
            name: pack(getattr(once, name)) for name in ("constant_g", "constant_b", "u")
        }
        self.matrix |= {"d": d, "b": cla.zeros_like(d), "x": cla.zeros_like(d), "active": active}
        self.matrix |= zip(NEIGHBOURS, beside, strict=True)

    def _packed(
        self, pack: Callable[[np.ndarray], cla.Array], v: np.ndarray, remote: np.ndarray
    ) -> cla.Array:
        """Voltages by place, those of nodes of other ranks after them."""
        packed = pack(v)
        if not len(remote):
            return packed
        return cla.to_device(
            self.queue, np.append(packed.get(self.queue), remote).astype(self.dtype)
        )

    def fill(self, variables: Variables) -> dict[str, Arena]:
        of_one = variables.once is not self.model
        tiler = self._tiler if of_one else None
        pack = self.solver.to_device_order if tiler is None else tiler.pack
        self.v[0] = self._packed(pack, variables.v, variables.remote_v)
        place = self.place if tiler is None or self.model.pointers else None
        arenas = layouts.filled_arenas(
            variables, self.dtype, place, self.layout, self.run.instant, tiler
        )
        if self.in_vectors:
            layouts.add_vectors(self.model, arenas)
        return arenas

    def compile(self, spec: ArenaSpec, at: np.ndarray) -> None:
        if self._tiler is not None:
            begin, active = self.run.arenas["ints"].offset["place_of"], self.matrix["active"]
            self._tiler.find_places(
                layouts.node_numbers(self.model.once), active, self.run.ints, begin
            )
        self._at = cla.to_device(self.queue, at)
        self._built = program.build(self.queue.context, spec), spec

    def bind(self) -> None:
        emitters = sum(len(s) for s in self.model.sources.emitted.values())
        self.run.times.forget()
        num = np.int32
        self._given = {
            "num_places": num(self.places), "num_emitters": num(emitters),
            "first_item": num(0), "num_items": num(0), "step_state": self.run.times.state,
            **self.matrix, "at": self._at, **self.run.arguments,
        }  # fmt: skip
        self._launches = [self._launches_of(*pair) for pair in (self.v, self.v[::-1])]

    def _launches_of(self, old: cla.Array, new: cla.Array) -> tuple[list[Launch], list[Launch]]:
        """Kernels of a step from one array of voltages to another: before and after the solve."""
        spec, before = self._built[1], list[Launch]()
        arguments = {**self._given, "v": old, "v_old": old, "v_new": new}
        if spec.layered:
            layers = offsets([len(targets) for targets in self.run.wires.layers]).tolist()
            for first, end in pairwise(layers):
                layer = {"first_item": np.int32(first), "num_items": np.int32(end - first)}
                given = arguments | layer
                before.append(bound(self.queue, self._built, "events", given, end - first))
        alone = spec.width > 1
        if alone:  # work-items of blocks of nodes
            most = BLOCKS_PER_UNIT * self.run.limits.compute_units
            items = [max(1, min(layouts.num_active(self.model) // LEAST_NODES, most))] * 2
            arguments["num_items"] = np.int32(items[0])
        else:
            others = int(arguments["num_emitters"]) + int(self.run.recorded_at["num_v"]) + 1
            items = [
                self.places + n
                for n in (len(layouts.loose_targets(self.model, self.run.wires)), others)
            ]
        before.append(bound(self.queue, self._built, "begin_step", arguments, items[0], alone))
        after = [bound(self.queue, self._built, "finish_step", arguments, items[1], alone)]
        if spec.sums:
            count = layouts.num_sums(self.model)
            after.append(bound(self.queue, self._built, "add_up", arguments, count))
        return before, after

    def advance(self, first: int, count: int, row: int) -> None:
        self.run.times.count_from(first, row, count)
        d, u, b, x = (self.matrix[name] for name in "dubx")
        for _ in range(count):
            before, after = self._launches[0]
            for launch in before:
                launch()
            self.solver.enqueue(d, u, b, out=x, packed=True)
            for launch in after:
                launch()
            self.v.reverse()
            self._launches.reverse()
