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
from clhines.model.ions import ADVANCE_REVERSAL
from clhines.model.model import Model
from clhines.simulate.cpu.groups import takes_twice
from clhines.simulate.cpu.kinds import GroupedKind
from clhines.simulate.cpu.plan import Blocks, plan_blocks
from clhines.simulate.cpu.tiles import BlockLayout, make_tiles
from clhines.simulate.engines.arena_run import ArenaRun
from clhines.simulate.engines.run import Job
from clhines.simulate.engines.variables import Variables
from clhines.simulate.events.sources import wires_of
from clhines.simulate.kinds.calls import ArenaSpec, KindBlocks
from clhines.simulate.kinds.layouts import (
    detector_order,
    filled_arenas,
    is_artificial,
)
from clhines.simulate.state.arena import Arena

_log = logging.getLogger(__name__)
_CHANGES = ("first_step", "num_steps", "first_time", "first_row")


@dataclass(frozen=True)
class CellBlocksSpec(ArenaSpec):
    """``blocks.mako``; see `ArenaSpec`.

    Attributes
    ----------
    tile_widths : tuple of int
        Cells of tiles.
    played_kinds : tuple of int
        Kinds with parameters that take values in time.
    """

    template: ClassVar[str] = "simulate/blocks"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "publish": (
            "int num_sources, int first_time, const double *restrict step_begin, double *clock",
            "int *ints, const int *at",
        ),
        "advance": (
            "int num_blocks, int first_step, int num_steps, int first_time, int first_row",
            "int capacity, int num_nodes, int num_v, int num_mem, int keeps_ions, ulong seed",
            "real dt, double half_dt, const double *restrict step_begin, const real *restrict u",
            "const real *restrict base, const real *restrict constant_g if constant",
            "const real *restrict constant_b if constant",
            "real *v, real *d, real *b, real *x, int *restrict failed",
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
    tile_widths: tuple[int, ...] = ()
    played_kinds: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, spec: ArenaSpec, model: Model, layout: BlockLayout, level: tuple[str, ...]
    ) -> CellBlocksSpec:
        """Return what blocks of cells take where steps take `spec`."""
        given = {f.name: getattr(spec, f.name) for f in fields(spec)}
        kinds = (
            GroupedKind.of(kind, model.kinds[kind.number].mechanism, groups, spec.real, level)
            if (groups := layout.groups.get(kind.number)) is not None
            else kind
            for kind in spec.kinds
        )
        return cls(
            **{**given, "kinds": tuple(kinds)},
            tile_widths=tuple(layout.tiles.widths),
            played_kinds=tuple(sorted({p.kind for p in model.played})),
        )

    @property
    def grouped(self) -> tuple[GroupedKind, ...]:
        """Kinds at nodes."""
        return tuple(kind for kind in self.kinds if isinstance(kind, GroupedKind))

    @property
    def group_widths(self) -> list[int]:
        """Widths of groups."""
        return sorted({kind.width for kind in self.grouped})

    @property
    def widths(self) -> list[int]:
        """Widths of vectors."""
        return sorted({self.width, *self.group_widths, *self.tile_widths} - {1})

    @property
    def always(self) -> tuple[str, ...]:
        """Ions whose currents are added up in every step: something may need them."""
        found = set().union(*(kind.currents_of_ions() for kind in self.grouped))
        return tuple(ion for ion in self.ions if ion in found)

    @property
    def early(self) -> tuple[GroupedKind, ...]:
        """Kinds whose currents come first in a step, as they may be worked out before it."""
        return tuple(
            kind
            for kind in self.grouped
            if kind.is_early(self.always) and kind.number not in self.played_kinds
        )

    @property
    def ahead(self) -> tuple[GroupedKind, ...]:
        """Those of them whose currents are worked out when their states have advanced."""
        return tuple(kind for kind in self.early if not kind.outputs)

    @property
    def own_v(self) -> str:
        """Voltage of node a in functions."""
        return "v[a]"

    def functions(self, kind: KindBlocks) -> str:
        """Functions of the blocks of a kind; those for groups may be copied to their calls."""
        wide = kind.wide if isinstance(kind, GroupedKind) else ""
        return "\n".join(text for text in (super().functions(kind), wide) if text)

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
    layout: BlockLayout

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
        """Put what does not change on the device, by place."""
        model, most = self.model, self.limits.vector_bytes // self.dtype.itemsize
        self.base_d = model.capacitance_over_dt + model.constant_d
        twice = takes_twice(most, self.dtype.itemsize)
        self.layout = BlockLayout(model, make_tiles(model, self.blocks, most), most, twice)
        self._node = self.layout.nodes
        self.places = len(self._node)
        self.place = self.layout.number(np.arange(self.places))
        self._constant_g = self._packed(model.constant_g)
        self._constant_b, self._u = self._packed(model.constant_b), self._packed(model.u)
        self._base = self._packed(self.base_d)
        self._d, self._b, self._x = (cla.zeros_like(self._base) for _ in range(3))
        self.v = [self._packed(model.v_init)]

    def _packed(self, natural: np.ndarray) -> cla.Array:
        return cla.to_device(self.queue, natural[self._node].astype(self.dtype))

    def fill(self, variables: Variables) -> dict[str, Arena]:
        """Put the voltages on the device, and return the arenas."""
        self.v[0].set(variables.v[self._node].astype(self.dtype), self.queue)
        layout, model = self.layout, self.model
        arenas = filled_arenas(variables, self.dtype, self.place, self.base_d, layout)
        ints, wires, tiles = arenas["ints"], self.wires, layout.tiles
        ints.add("event_shown", variables.count)
        netcons, crossing = model.netcons, self.blocks.crossing
        longest = np.full(model.sources.count, -np.inf)
        np.maximum.at(longest, netcons.source[crossing], netcons.delay[crossing])
        arenas["clock"].add("longest", longest)
        arenas["clock"].add("launch_begin", np.zeros(1))
        ints.add("block_place", tiles.block_place)
        ints.add("parents", tiles.parent)
        for width in tiles.widths:
            some = tiles.width == width
            columns = tiles.place, tiles.slots, tiles.roots, tiles.parents
            ints.add(f"tiles_{width}", np.stack(columns, axis=1)[some])
            self._add_first(ints, f"tile_{width}", tiles.block[some])
        self._add_groups(arenas)
        level = level_ions(variables)
        self._level = tuple(level)
        for name, value in level.items():
            arenas["mem"].add(f"level_{name}", np.array([value]))
        soma = layout.number(model.soma)
        order = np.argsort(soma, kind="stable")
        ints.add("first_cell", layout.first(soma[order]))
        ints.add("soma_of", soma[order])
        ints.add("cell_of", order)
        detector = layout.number(model.sources.detector_node)
        ints.add("detector_at", detector[detector_order(variables, layout)])
        self._add_lists(ints, "target", *self._targets())
        emitters = [np.zeros((2, 0), np.int64)]
        for k, sources in model.sources.emitted.items():
            some = np.flatnonzero(sources >= 0)
            of = self.blocks.target[wires.first_target[k] + some]
            emitters.append(np.stack((sources[some], of)))
        self._add_lists(ints, "emitter", *np.concatenate(emitters, axis=1))
        crosses = crossing[wires.order]  # connections that come from other blocks
        ints.set("connection_short", np.where(crosses, 2, ints.get("connection_short")))
        return arenas

    def _add_groups(self, arenas: dict[str, Arena]) -> None:
        """Add where the groups of kinds are, and what they multiply densities by."""
        mem, ints, layout = arenas["mem"], arenas["ints"], self.layout
        for k, groups in layout.groups.items():
            kind = self.model.kinds[k]
            place = layout.number(kind.node)[groups.source]
            follow = groups.kept.all(axis=1) & (np.diff(place, axis=1) == 1).all(axis=1)
            ints.add(f"group_{k}", groups.first)
            ints.add(f"lane_{k}", place)
            ints.add(f"run_{k}", np.where(follow, place[:, 0], -groups.kept.sum(axis=1)))
            ints.add(f"position_{k}", groups.position)
            ints.add(f"member_{k}", np.where(groups.kept, groups.source, -1))
            area = self.model.area[kind.node][groups.source].astype(self.dtype)
            mem.add(f"share_{k}", area * self.dtype.type(0.01))

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
        self._add_first(ints, f"block_{name}", block)

    def _add_first(self, ints: Arena, name: str, block: np.ndarray) -> None:
        """Add where those of each block begin, of things that are block after block."""
        ints.add(name, offsets(np.bincount(block, minlength=self.blocks.count)))

    # -- kernels -------------------------------------------------------------------------------

    def compile(self, spec: ArenaSpec, at: np.ndarray) -> None:
        """Build the kernels."""
        spec = CellBlocksSpec.of(spec, self.model, self.layout, self._level)
        self._at = cla.to_device(self.queue, at)
        self._built = program.build(self.queue.context, spec), spec

    def bind(self) -> None:
        """Bind the arguments of all kernels."""
        self.times.forget()
        num, queue, recorded = np.int32, self.queue, self.recorded_at
        at = recorded["v_index"].get(queue)[: int(recorded["num_v"])]  # type: ignore[union-attr]
        block = stretch_of(self.layout.tiles.block_place, at)
        v_first = offsets(np.bincount(block, minlength=self.blocks.count))
        given = {
            "num_blocks": num(self.blocks.count), "num_sources": num(self.model.sources.count),
            "keeps_ions": num(any(r.kind < -1 for r in self.reducers.sources)),
            "num_nodes": num(self.places), "u": self._u, "base": self._base,
            "constant_g": self._constant_g, "constant_b": self._constant_b, "d": self._d,
            "b": self._b, "x": self._x, "v": self.v[0], "v_first": self._numbers(v_first),
            "v_column": self._numbers(np.argsort(block, kind="stable")),
            "mem_block": self._numbers(self._blocks_of_loose()), "at": self._at,
            **{name: num(0) for name in _CHANGES}, **self.arguments,
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
            self._kernel.change(*map(np.int32, numbers))
            if self.blocks.crossing.any():
                self._publish.change(np.int32(numbers[2]))
                self._publish.launch(self.queue, 1, 1)
            self._kernel.launch(self.queue, self.blocks.count, 1)


def level_ions(variables: Variables) -> dict[str, float]:
    """Variables of ions that are one number wherever the ion is, and that nothing changes."""
    model, written = variables.model, set[str]()
    for kind in model.kinds:
        blocks = kind.mechanism.program.blocks.values()
        written |= {
            a.name for given in blocks for a in given if a.role == "ion" and a.direction != "in"
        }
    for ion in model.ions:
        written.add(f"i{ion.name}")
        if ((ion.style & ADVANCE_REVERSAL) > 0).any():
            written.add(f"e{ion.name}")
    values = {
        name: variables.ions[name][ion.node]
        for ion in model.ions
        for name in ion.variables
        if name not in written and len(ion.node)
    }
    return {name: v[0] for name, v in values.items() if np.ptp(v) == 0}
