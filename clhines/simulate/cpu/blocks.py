"""A network with exact times on a CPU: many steps in one launch, of blocks of whole cells.

The state is that of `steps`, in the same arenas. A work-item has a block of cells, solves
for them from the tips to the roots, and sees events of its own cells at once; events of other
blocks are seen by the next launch, as a launch is no longer than their smallest delay.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.arrays import offsets, stretch_of
from clhines.device import devices, program
from clhines.errors import InputError
from clhines.model.model import Model
from clhines.simulate.cpu.plan import Blocks, plan_blocks
from clhines.simulate.engines.arena_run import ArenaRun
from clhines.simulate.engines.axial import placed_neighbours
from clhines.simulate.engines.run import Job
from clhines.simulate.engines.variables import Variables
from clhines.simulate.events.sources import wires_of
from clhines.simulate.kinds.calls import ArenaSpec
from clhines.simulate.kinds.layouts import (
    active_nodes,
    filled_arenas,
    is_artificial,
    node_numbers,
)
from clhines.simulate.state.arena import Arena

TOGETHER = 4096  # nodes of cells whose depths are passed together, about
_log = logging.getLogger(__name__)
_CHANGES = ("first_step", "num_steps", "first_time", "first_row", "v", "v_other")


@dataclass(frozen=True)
class CellBlocksSpec(ArenaSpec):
    """``blocks.mako``; see `ArenaSpec`."""

    template: ClassVar[str] = "simulate/blocks"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "publish": (
            "int num_sources, int first_time, const double *restrict step_begin, double *clock",
            "int *ints, const int *at",
        ),
        "advance": (
            "int num_blocks, int first_step, int num_steps, int first_time, int first_row",
            "int capacity, int num_v, int num_mem, ulong seed, real dt, double half_dt",
            "const double *restrict step_begin, const int *restrict active",
            "const int *restrict above, const int *restrict below, const int *restrict beside",
            "const real *restrict u, const real *restrict base",
            "const real *restrict constant_g if constant",
            "const real *restrict constant_b if constant",
            "real *v, real *v_other, real *d, real *b, int *restrict failed",
            "int *restrict spike_count, int *restrict spike_source, double *restrict spike_time",
            "int slots if grid, int num_targets if grid, real scale_of_events if grid",
            "long *restrict incoming if grid, int *restrict grid_count if grid",
            "int *restrict grid_source if grid, int *restrict grid_step if grid",
            "const int *restrict v_first, const int *restrict v_column",
            "const int *restrict v_index, real *restrict v_rows, const int *restrict mem_first",
            "const int *restrict mem_column, const int *restrict mem_index",
            "const int *restrict mem_block, real *restrict mem_rows",
            "real *mem, double *clock, int *ints, const int *at",
        ),
    }

    blocks: ClassVar[bool] = True

    @classmethod
    def of(cls, spec: ArenaSpec) -> CellBlocksSpec:
        """Return what blocks of cells take where steps take `spec`."""
        return cls(**{f.name: getattr(spec, f.name) for f in fields(spec)})

    def counts(self, short: str) -> str:
        """Where the events of a connection's source are counted that its target may see."""
        return f"{short} == 2 ? event_shown : {super().counts(short)}"


def make(job: Job) -> CellBlocks:
    """Make a run by blocks; see `Job`."""
    model = job.model
    units = devices.limits(job.queue.device).compute_units
    blocks = plan_blocks(model, wires_of(model), units, always=job.asked)
    if blocks is None:
        raise InputError("steps are expected to be faster")
    job.check("blocks")
    _log.info("%d blocks of cells, launches of %d steps", blocks.count, blocks.epoch)
    return CellBlocks(model, blocks, job.queue, job.dtype, job.max_spikes)


class CellBlocks(ArenaRun):
    """Advance a model with exact times by blocks of whole cells on a CPU; see `engines.run.Run`.

    Parameters
    ----------
    model : Model
    blocks : Blocks
    queue : pyopencl.CommandQueue
    dtype : float64 or float32
    max_spikes : int, optional
        Spikes that one chunk may have.
    """

    in_vectors, family = True, "blocks"

    def __init__(
        self,
        model: Model,
        blocks: Blocks,
        queue: cl.CommandQueue,
        dtype: np.dtype,
        max_spikes: int | None = None,
    ) -> None:
        self.blocks = blocks
        super().__init__(model, queue, dtype, max_spikes)

    # -- tables --------------------------------------------------------------------------------

    def put_matrix(self) -> None:
        """Put what does not change on the device, by place: parents come before children."""
        model, forest = self.model, self.model.forest
        self.base_d = model.capacitance_over_dt + model.constant_d
        self._node = _order(model, self.blocks)
        self.places = len(self._node)
        self.place = np.argsort(self._node)
        self._active = cla.to_device(self.queue, node_numbers(model)[self._node])
        places = placed_neighbours(forest, self._node, self.place)
        self._neighbours = [cla.to_device(self.queue, some) for some in places]
        self._constant_g = self._packed(model.constant_g)
        self._constant_b, self._u = self._packed(model.constant_b), self._packed(model.u)
        self._base = self._packed(self.base_d)
        self._d, self._b = cla.zeros_like(self._base), cla.zeros_like(self._base)
        v = self._packed(model.v_init)
        self.v = [v, v.copy(self.queue)]

    def _packed(self, natural: np.ndarray) -> cla.Array:
        return cla.to_device(self.queue, natural[self._node].astype(self.dtype))

    def fill(self, variables: Variables) -> dict[str, Arena]:
        """Put the voltages on the device, and return the arenas."""
        self.v[0].set(variables.v[self._node].astype(self.dtype), self.queue)
        arenas = filled_arenas(variables, self.dtype, self.place, self.base_d)
        ints, wires, bounds = arenas["ints"], self.wires, self.model.forest.cell_offsets
        first = bounds[self.blocks.cells]
        ints.add("event_shown", variables.count)
        netcons, crossing = self.model.netcons, self.blocks.crossing
        longest = np.full(self.model.sources.count, -np.inf)
        np.maximum.at(longest, netcons.source[crossing], netcons.delay[crossing])
        arenas["clock"].add("longest", longest)
        arenas["clock"].add("launch_begin", np.zeros(1))
        ints.add("block_place", first)
        ints.add("block_node", np.searchsorted(active_nodes(self.model), first))
        self._add_lists(ints, "target", *self._targets())
        emitters = [np.zeros((2, 0), np.int64)]
        for k, sources in self.model.sources.emitted.items():
            some = np.flatnonzero(sources >= 0)
            of = self.blocks.target[wires.first_target[k] + some]
            emitters.append(np.stack((sources[some], of)))
        self._add_lists(ints, "emitter", *np.concatenate(emitters, axis=1))
        crosses = crossing[wires.order]  # connections that come from other blocks
        ints.set("connection_short", np.where(crosses, 2, ints.get("connection_short")))
        return arenas

    def _targets(self) -> tuple[np.ndarray, np.ndarray]:
        """Targets that blocks look after one by one, and their blocks."""
        layers, kinds = self.wires.layers, self.model.kinds
        if len(layers) < 2:
            layers = [
                first + np.arange(kinds[k].count)
                for k, first in self.wires.first_target.items()
                if is_artificial(kinds[k])
            ]
        found = np.concatenate([np.zeros(0, np.int64), *layers])
        return found, self.blocks.target[found]

    def _add_lists(self, ints: Arena, name: str, values: np.ndarray, block: np.ndarray) -> None:
        """Add values block by block, in the order given, and where those of each block begin."""
        ints.add(f"block_{name}s", values[np.argsort(block, kind="stable")])
        ints.add(f"block_{name}", offsets(np.bincount(block, minlength=self.blocks.count)))

    # -- kernels -------------------------------------------------------------------------------

    def compile(self, spec: ArenaSpec, at: np.ndarray) -> None:
        """Build the kernels."""
        spec, self._at = CellBlocksSpec.of(spec), cla.to_device(self.queue, at)
        self._built = program.build(self.queue.context, spec), spec

    def bind(self) -> None:
        """Bind the arguments of all kernels."""
        self.times.forget()
        num, queue, recorded = np.int32, self.queue, self.recorded_at
        at = recorded["v_index"].get(queue)[: int(recorded["num_v"])]  # type: ignore[union-attr]
        places = self.model.forest.cell_offsets[self.blocks.cells]
        block = stretch_of(places, at)
        v_first = offsets(np.bincount(block, minlength=self.blocks.count))
        given = {
            "num_blocks": num(self.blocks.count), "num_sources": num(self.model.sources.count),
            "active": self._active, "u": self._u, "base": self._base,
            "constant_g": self._constant_g,
            **dict(zip(("above", "below", "beside"), self._neighbours, strict=True)),
            "constant_b": self._constant_b, "d": self._d, "b": self._b, "v": self.v[0],
            "v_other": self.v[1],
            "v_first": self._numbers(v_first),
            "v_column": self._numbers(np.argsort(block, kind="stable")),
            "mem_block": self._numbers(self._blocks_of_loose()), "at": self._at,
            **{name: num(0) for name in _CHANGES[:4]}, **self.arguments,
        }  # fmt: skip
        built, spec = self._built
        self._publish = program.bind(built, spec, "publish", given, ("first_time",))
        self._kernel = program.bind(built, spec, "advance", given, _CHANGES)

    def _blocks_of_loose(self) -> np.ndarray:
        """Block of each variable that is recorded and at no node, in the order of records."""
        found, kinds = [np.zeros(0, np.int64)], self.model.kinds
        for record in self.reducers.sources:
            if record.kind >= 0 and is_artificial(kinds[record.kind]):
                first = self.wires.first_target.get(record.kind)
                of = np.zeros(len(record.index), np.int64)
                found.append(of if first is None else self.blocks.target[first + record.index])
        return np.concatenate(found)

    def _numbers(self, values: np.ndarray) -> cla.Array:
        return cla.to_device(self.queue, np.append(values, 0).astype(np.int32))

    # -- steps ---------------------------------------------------------------------------------

    def advance(self, first: int, count: int, row: int) -> None:
        """Enqueue `count` steps from step `first`; the first is recorded in `row`."""
        self.begin_advance(first, count, row)
        self.times.put(first, count)
        for done in range(0, count, self.blocks.epoch):
            some = min(self.blocks.epoch, count - done)
            numbers = first + done, some, first + done - self.times.steps.start, row + done
            self._kernel.change(*map(np.int32, numbers), *self.v)
            if self.blocks.crossing.any():
                self._publish.change(np.int32(numbers[2]))
                self._publish.launch(self.queue, 1, 1)
            self._kernel.launch(self.queue, self.blocks.count, 1)
            if some % 2:
                self.v.reverse()


def _order(model: Model, blocks: Blocks) -> np.ndarray:
    """(n,) int64: nodes block after block, of several cells together by depth, parents first.

    What follows each other does then not wait for each other.
    """
    forest, trees = model.forest, model.forest.trees
    bounds, first = forest.cell_offsets, forest.cell_offsets[blocks.cells]
    block = stretch_of(blocks.cells, np.arange(forest.num_cells))
    group = (bounds[:-1] - first[block]) // TOGETHER
    node, depth = [], []
    for begin, shape in zip(bounds[:-1], forest.shape_of_cell):
        some = slice(trees.offsets[shape], trees.offsets[shape + 1])
        node.append(begin + trees.order[some] - some.start)
        depth.append(trees.depth[trees.order[some]])
    cell = np.repeat(np.arange(forest.num_cells), np.diff(bounds))
    by_depth = np.lexsort((np.concatenate(depth), group[cell], block[cell]))
    return np.concatenate(node)[by_depth]
