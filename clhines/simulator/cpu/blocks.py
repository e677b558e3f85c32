"""Advance a network with exact times on a CPU: one launch takes many steps in blocks of cells.

The state and the arenas are those of the engine `steps`. A work-item has a block of whole cells,
solves for them from the tips to the roots, and sees its own cells' events at once. The next launch
sees other blocks' events: a launch is no longer than their smallest delay.

    launch        1                  2
    work-item 0   cells 0..9  |      cells 0..9  |      events between blocks
    work-item 1   cells 10..19|      cells 10..19|      at the bars
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyopencl.array as cla

from clhines.core.arrays import inverse, offsets, starts, stretch_of
from clhines.core.errors import InputError
from clhines.simulator.cpu.groups import (
    TOGETHER,
    Groups,
    class_changes,
    conducts,
    consecutive,
    constant_pivots,
    level_ions,
    make_groups,
    node_classes,
    nodes_in_part,
    order_slots,
    takes_twice,
    variable_nodes,
)
from clhines.simulator.cpu.plan import CellRanges, delivers_alone, plan_blocks
from clhines.simulator.device import launches
from clhines.simulator.device.reads import copy_onto
from clhines.simulator.engines.arena_run import ArenaKernels, ArenaRun, same_constants
from clhines.simulator.engines.run import Job
from clhines.simulator.kinds import layouts
from clhines.simulator.kinds.arenas import add_cells, add_turns, fill_arenas
from clhines.simulator.kinds.diffusing import add_diffusing_rows
from clhines.simulator.kinds.kind import CallValues, KindBlocks, call_of, fields_of
from clhines.simulator.kinds.places import ArenaPlaces
from clhines.simulator.kinds.spec import ArenaSpec
from clhines.simulator.kinds.vectors import call_wide
from clhines.simulator.mechanisms.emit.functions import Functions, all_helpers, shared_prefix
from clhines.simulator.mechanisms.ir.program import Argument
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.model.model import Kind, Model
from clhines.simulator.records.records import Record
from clhines.simulator.state.arena import Arena
from clhines.simulator.state.sources import SENDING, Wires, wires_of
from clhines.simulator.state.variables import Variables
from clhines.solver.device import devices, program
from clhines.solver.device.arrays import set_soon, within_reach
from clhines.solver.forest import Forest


@dataclass(frozen=True, eq=False)
class Tiles:
    """Arrange all cells' nodes in *tiles*, which several cells with one shape share.

    In a tile of L lanes, L consecutive numbers (a *slot*, read as a vector) belong to one node of L
    cells. Slots are in elimination order: first nodes with constant pivots, the roots last.

        a tile of 2 lanes, cells a and b   slot 0: a0 b0   slot 1: a1 b1   slot 2 (roots): a2 b2

    A tile may have several times L cells, with several shapes: then consecutive slots mostly belong
    to different cells, whose eliminations do not depend on each other.
    """

    node: np.ndarray  # (n,), at each place
    block_place: np.ndarray  # (blocks + 1,), each block's first place
    block: np.ndarray  # by tile, as the next ones
    width: np.ndarray  # lanes
    place: np.ndarray  # first place
    slots: np.ndarray
    constant: np.ndarray  # slots with constant pivots
    roots: np.ndarray
    parents: np.ndarray  # its first entry in `parent`
    parent: np.ndarray  # slots, -1 for roots

    @property
    def widths(self) -> list[int]:
        return np.unique(self.width).tolist()


def make_tiles(
    model: Model, blocks: CellRanges, widest: int, variable: np.ndarray, classes: np.ndarray
) -> Tiles:
    """Put each block's cells into tiles of at most `widest` lanes, a power of two.

    By node of the shapes, `variable` says whether the pivot changes, and `classes` numbers the set
    of mechanisms (see `node_classes`).
    """
    forest, trees = model.forest, model.forest.trees
    keys = -trees.depth, classes, -class_changes(trees, classes), trees.parent < 0, variable
    tiles: list[tuple[int, int, int, int]] = []
    nodes, parents = list[np.ndarray](), list[np.ndarray]()
    for block in range(blocks.count):
        cells = blocks.order[blocks.cells[block] : blocks.cells[block + 1]]
        for width, rows in _rows(forest, cells, widest):
            shapes = forest.shape_of_cell[rows[:, 0]].tolist()
            at, row, parent = order_slots(trees, shapes, keys)
            within = at - trees.offsets[shapes][row]
            nodes.append((forest.cell_offsets[rows][row] + within[:, None]).reshape(-1))
            parents.append(parent)
            tiles.append((block, width, int((~variable[at]).sum()), len(rows)))
    tile_block, width, constant, roots = np.array(tiles, np.int64).T
    size, slots = (np.array([len(a) for a in arrays]) for arrays in (nodes, parents))
    return Tiles(
        node=np.concatenate(nodes),
        block_place=offsets(np.bincount(tile_block, size, blocks.count).astype(np.int64)),
        block=tile_block,
        width=width,
        place=starts(size),
        slots=slots,
        constant=constant,
        roots=roots,
        parents=starts(slots),
        parent=np.concatenate(parents),
    )


def _rows(forest: Forest, cells: np.ndarray, widest: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield tiles of `cells`: the lane count, at most `widest`, and the cells, (rows, lanes).

    All cells in a row have one shape.
    """
    rows = dict[int, list[np.ndarray]]()
    shape = forest.shape_of_cell[cells]
    for s in np.unique(shape).tolist():
        alike = cells[shape == s]
        while len(alike):
            width = min(widest, 1 << (len(alike).bit_length() - 1))
            rows.setdefault(width, []).append(alike[:width])
            alike = alike[width:]
    for width, several in rows.items():
        group = starts(forest.sizes[[row[0] for row in several]]) * width // TOGETHER
        for g in np.unique(group):
            yield width, np.stack([several[k] for k in np.flatnonzero(group == g)])


class BlockLayout(layouts.Layout):
    """Order nodes as in `tiles` and instances in groups, for the device arrays of `epochs-cpu`."""

    def __init__(self, model: Model, tiles: Tiles, most: int, twice: bool) -> None:
        super().__init__(model)
        self.tiles, self._place = tiles, inverse(tiles.node)
        self.most = most  # numbers per vector
        self.groups: dict[int, Groups] = {
            k: make_groups(self._place[kind.node], tiles.block_place, most, twice)
            for k, kind in enumerate(model.kinds)
            if not layouts.is_artificial(kind)
        }

    @property
    def nodes(self) -> np.ndarray:
        return self.tiles.node

    @property
    def count(self) -> int:
        return len(self.tiles.node)

    def number(self, node: np.ndarray) -> np.ndarray:
        return np.where(node < 0, -1, self._place[node])

    def columns(self, k: int, kind: Kind) -> layouts.KindColumns:
        return self.groups.get(k) or super().columns(k, kind)


@dataclass(frozen=True)
class GroupPlaces(ArenaPlaces):
    width: int

    def in_line(self, line: int, lines: int) -> str:
        return f"in_group(ints[position_{self.number} + j], {self.width}, {lines}, {line})"


@dataclass(frozen=True)
class GroupedKind(KindBlocks):
    """Print block calls for groups of `width` instances, by the vector functions `wide`."""

    width: int = 1
    wide: str = ""
    constants: tuple[str, ...] = ()  # results from ``NAME_constants``
    conducts: bool = True  # its conductance is not always 0
    level: tuple[str, ...] = ()  # ion variables that are one constant number

    @classmethod
    def of(
        cls,
        kind: KindBlocks,
        mechanism: Mechanism,
        groups: Groups,
        real: str,
        level: tuple[str, ...],
    ) -> GroupedKind:
        vectors = [name for name, _ in kind.vectors]
        single = tuple(name for name, alone in kind.parameters if alone)
        declared = [q.name for q in mechanism.program.outputs]  # others are the current itself
        outputs = tuple(name for name in kind.outputs if name in declared)
        print_options = real, groups.width, single, outputs
        printed = Functions(mechanism.compiled, *print_options, share=True)
        takes_events = kind.summed and printed.takes_events
        blocks = vectors + ["receive"] * takes_events

        def lifted() -> tuple[str, list[str], dict[str, tuple[Argument, ...]]]:
            text, constants = printed.lifted(blocks) if blocks else ("", [])
            return text, constants, {name: printed.calls(name) for name in blocks}

        key = "lifted", *print_options, *blocks
        wide, constants, calls = mechanism.compiled.once(key, lifted)
        functions = {name: (f, arguments) for name, f, arguments in kind.blocks}
        functions |= {name: (functions[name][0], calls[name]) for name in vectors}
        scalar = [n for n in functions if n not in vectors]
        wide_names = [(name, f"{printed.prefix}_{name}") for name in vectors]
        if takes_events:  # for several instances at once
            wide_names.append(
                ("events", printed.prefix + functions["receive"][0].removeprefix(kind.name))
            )
            functions["events"] = "", calls["receive"]
        names = [*(["initial"] if f"{mechanism.name}_initial(" in kind.functions else []), *scalar]
        return cls(
            **{
                **fields_of(kind),
                "functions": mechanism.functions(real, outputs, names),
                "blocks": tuple((name, *rest) for name, rest in functions.items()),
                "vectors": tuple(wide_names),
                "rows": False,
            },
            width=groups.width,
            wide=wide,
            constants=tuple(constants),
            conducts=conducts(mechanism),
            level=level,
        )

    @property
    def vector(self) -> str:
        return f"real{self.width}"

    @property
    def has_exponentials(self) -> bool:
        return f"{shared_prefix(self.width)}_exp_(" in self.wide

    def call_constants(self) -> str:
        values = ["dt", *(self.places.parameter(n) for n in self.singles)]
        values += [f"constants_{self.number} + {c}" for c in range(len(self.constants))]
        return call_of(f"{self.name}_constants", values, 4).rstrip("\n")

    @property
    def places(self) -> GroupPlaces:
        return GroupPlaces(**vars(super().places), width=self.width)

    def addresses(self) -> str:
        """Return declarations of pointers to all groups' values, for use in loops."""
        k = self.number
        lines = [
            f"__global const int *lanes_of_{k} = ints + lane_{k}, *runs_of_{k} = ints + run_{k};",
            f"__global const real *shares_of_{k} = mem + share_{k};",
            f"__global real *parameters_of_{k} = mem + parameters_{k} + {len(self.singles)};",
            f"__global real *states_of_{k} = mem + states_{k};",
            f"__global real *outputs_of_{k} = mem + outputs_{k};",
        ]
        for number, name in enumerate(self.singles):
            lines.append(f"const real single_{k}_{number} = {self.places.parameter(name)};")
        used = {a.name for name in dict(self.vectors) for a in self.arguments(name)}
        for name in self.level:
            if name in used:
                lines.append(f"const real one_{name} = mem[level_{name}];")
        return "".join(f"        {line}\n" for line in lines)

    def value(self, a: Argument, values: CallValues) -> str:
        return self.places.turn(a.name, "turn") if self.is_last(a) else super().value(a, values)

    def call_group(
        self, block: str, values: CallValues, always: tuple[str, ...], indent: int
    ) -> str:
        """Return statements that call `block` for the instances of group ``q``.

        Each call adds to the currents of the ions `always`. It adds to currents of other ions only
        if the kernel's argument ``sums`` is not 0.
        """
        keep = partial(self._keep, block, always)
        return call_wide(
            self,
            block,
            self.vector,
            lambda a: self._where(a) or self._value(a, values),
            keep,
            indent,
        )

    def _where(self, a: Argument) -> str:
        w, names = self.width, tuple[str, ...]()
        if self.is_last(a):
            return ""
        if a.role == "parameter" and a.name in self.several:
            names = self.several
        elif a.role in ("state", "output"):
            names = self.states if a.role == "state" else self.outputs
        if not names:
            return ""
        begin = f"{a.role}s_of_{self.number}"
        return f"LOOSE_{w}({begin} + {w * len(names)} * q + {w * names.index(a.name)})"

    def _value(self, a: Argument, values: CallValues) -> str:
        if a.role == "parameter":
            return f"single_{self.number}_{self.singles.index(a.name)}"
        if a.role == "weight":
            return values["sum"]
        if self.is_last(a):
            return f"({self.vector}){self.value(a, values)}"
        if a.role == "constant":
            return f"constants_{self.number}[{self.constants.index(a.name)}]"
        if a.role == "ion" and a.name in self.level:
            return f"({self.vector})one_{a.name}"
        if a.role == "ion":
            return f"at_{self.width}(mem + ion_{a.name}, place, run)"
        return self.value(a, values) if a.direction != "out" else ""

    def _keep(self, block: str, always: tuple[str, ...], a: Argument, local: str) -> str:
        w, here = self.width, self._where(a)
        if here and block == "events":
            return f"{here} = weights != (real)0 ? {local} : {here};"
        if here or a.role not in ("ion", "ion_current"):
            return f"{here} = {local};" if here else ""
        if not self.adds_current(a, block):
            return f"keep_{w}({local}, mem + ion_{a.name}, place, run);"
        where = f"mem + ion_{'d' * (a.role == 'ion_current')}{a.name}"
        if self.kind == "point":  # as a density
            local = f"{local} * (100 / at_{w}(mem + area, place, run))"
        test = "" if a.name[1:] in always else "if (sums) "
        return f"{test}add_{w}({local}, {where}, place, run);"

    def currents_of_ions(self) -> set[str]:
        """Return the ions whose currents must be summed in each step because of this mechanism.

        It reads an ion's current; or it sets the current in a block other than ``current``, or in a
        ``current`` that has no vector function.
        """
        names = {f"i{ion}": ion for ion in self.ions}
        currents = set()
        for block, _, arguments in self.blocks:
            alone = block != "current" or "current" not in dict(self.vectors)
            ions = [a for a in arguments if a.role == "ion" and a.name in names]
            currents |= {names[a.name] for a in ions if alone or a.direction != "out"}
        return currents

    def is_early(self, always: tuple[str, ...]) -> bool:
        """Whether currents, with sums for the ions `always`, need only values of the last step."""
        blocks = {name for name, _, _ in self.blocks if self.has(name)}
        # the next step's event sums may come early, too
        events = {"receive", "events"} if self.summed else set[str]()
        vectors = {"current", "advance"}
        if blocks - events != vectors or not vectors <= {*dict(self.vectors)} or self.has_net:
            return False
        arguments = self.arguments("current")
        currents = [f"i{ion}" for ion in self.ions if ion not in always]
        ions = [a for a in arguments if a.role == "ion" and a.name not in currents]
        return all(a.name in self.level for a in ions)


_log = logging.getLogger(__name__)
_CHANGES = ("first_block", "first_step", "num_steps", "first_time", "first_row", "unmarked")


@dataclass(frozen=True)
class CellBlocksSpec(ArenaSpec):
    """Spec of the kernels for the engine `epochs-cpu`, see ``blocks.mako``."""

    template: ClassVar[str] = "simulator/blocks"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "publish": (
            "int num_sources, int first_time, const instant *restrict step_begin, instant *clock",
            "int *ints, const int *at",
        ),
        "advance": (
            "int num_blocks, int first_block, int first_step, int num_steps",
            "int first_time, int first_row, int unmarked",
            "int capacity, int num_nodes, int num_v, int num_mem, int keeps_ions, int keeps_states",
            "ulong seed",
            "real dt, instant half_dt, const instant *restrict step_begin, const real *restrict u",
            "const real *restrict base, const real *restrict constant_g if constant",
            "const real *restrict constant_b if constant",
            "real *v, real *d, real *b, real *x, int *restrict failed",
            "int *restrict spike_count, int *restrict spike_source, instant *restrict spike_time",
            "int slots if grid, int num_targets if grid, real scale_of_events if grid",
            "long *restrict incoming if grid, int *restrict grid_count if grid",
            "int *restrict grid_source if grid, int *restrict grid_step if grid",
            "const int *restrict first_of if alone, const int *restrict offset if alone",
            "const long *restrict weight_of if alone",
            "const int *restrict v_first, const int *restrict v_column",
            "const int *restrict v_index, real *restrict v_rows, const int *restrict mem_first",
            "const int *restrict mem_column, const int *restrict mem_index",
            "const int *restrict mem_block, real *restrict mem_rows",
            "real *mem, instant *clock, int *ints, const int *at",
        ),
    }

    blocks: ClassVar[bool] = True
    tile_widths: tuple[int, ...] = ()
    turns: int = 0  # steps for which last instances' values are stored; 0: none are read
    rounds: int = 0  # elimination rounds for diffusing states; 0: nothing diffuses
    played_kinds: tuple[int, ...] = ()
    added_kinds: tuple[int, ...] = ()  # kinds whose states others set by pointers, or add to
    kinds_read: tuple[int, ...] = ()  # kinds whose states others read by pointers
    alone: bool = False  # one work-item has all cells, and delivers their events in whole steps
    in_rows: bool = False  # groups of one-node cells take whole steps in registers
    idle_lanes: bool = False  # the last group is not full

    @classmethod
    def of(
        cls,
        spec: ArenaSpec,
        network: Model,
        layout: BlockLayout,
        level: tuple[str, ...],
        alone: bool = False,
    ) -> CellBlocksSpec:
        """Derive the spec from the `spec` of the engine `steps`.

        `network` is the model on all ranks, and `level` has the names of ion variables that are one
        constant at all nodes. With `alone`, one work-item has all cells.
        """
        kinds = (
            GroupedKind.of(kind, network.kinds[kind.number].mechanism, groups, spec.real, level)
            if (groups := layout.groups.get(kind.number)) is not None
            else kind
            for kind in spec.kinds
        )
        return cls(
            **{**fields_of(spec), "kinds": tuple(kinds)},
            tile_widths=tuple(layout.tiles.widths),
            played_kinds=tuple(sorted({p.kind for p in network.played})),
            added_kinds=tuple(sorted(network.added_kinds)),
            kinds_read=tuple(sorted({to.kind for to in network.read.values()})),
            alone=alone,
        ).with_rows(network, layout)

    def with_rows(self, network: Model, layout: BlockLayout) -> CellBlocksSpec:
        nodes, of_all = np.arange(network.forest.num_nodes), [network.sources.detector_node]
        of_all.append(np.flatnonzero(network.forest.parent < 0))
        of_all += [network.kinds[kind.number].node for kind in self.grouped]
        alike = all(np.array_equal(np.sort(at), nodes) for at in of_all)
        pointers = network.pointers or network.read or network.written
        more = self.ions or self.played or self.turns or self.diffuses or self.layered or pointers
        plain = not (more or self.secondorder or self.sets_v) and self.early == self.grouped != ()
        idle = any((groups.member < 0).any() for groups in layout.groups.values())
        in_rows = self.alone and alike and plain
        return replace(self, in_rows=in_rows, idle_lanes=in_rows and idle)

    def read_last(self, block: str) -> list[tuple[GroupedKind, str]]:
        """Return (mechanism, name) for each GLOBAL that a last instance sets and `block` reads."""
        arguments = (
            (kind, a)
            for kind in self.grouped
            for name, _, every in kind.blocks
            if name == block
            for a in every
        )
        return [(kind, a.name) for kind, a in arguments if kind.is_last(a)]

    @property
    def grouped(self) -> tuple[GroupedKind, ...]:
        return tuple(kind for kind in self.kinds if isinstance(kind, GroupedKind))

    @property
    def group_widths(self) -> list[int]:
        return sorted({kind.width for kind in self.grouped})

    @property
    def shared_helpers(self) -> str:
        texts = {w: "".join(k.wide for k in self.grouped if k.width == w) for w in self.widths}
        return "".join(all_helpers(t, shared_prefix(w), self.real, w) for w, t in texts.items())

    @property
    def widths(self) -> list[int]:
        return sorted({self.width, *self.group_widths, *self.tile_widths} - {1})

    @cached_property
    def always(self) -> tuple[str, ...]:
        """Ions whose currents must be summed in every step, because a mechanism may read them."""
        currents = set().union(*(kind.currents_of_ions() for kind in self.grouped))
        return tuple(ion for ion in self.ions if ion in currents)

    @cached_property
    def early(self) -> tuple[GroupedKind, ...]:
        """Mechanisms whose currents depend only on the step before, so that they come first."""
        return tuple(
            kind
            for kind in self.grouped
            if kind.is_early(self.always)
            and not kind.last
            and kind.number not in (*self.played_kinds, *self.added_kinds)
            and not (
                kind.number in self.kinds_read and (kind.summed or kind.sets_states("current"))
            )
        )

    @cached_property
    def ahead(self) -> tuple[GroupedKind, ...]:
        """Mechanisms whose currents for the next step are computed right after their states.

        Values are recorded only after the currents are computed, so these must not change recorded
        values.
        """
        kinds = () if self.sets_v else self.early
        return tuple(
            k
            for k in kinds
            if not k.outputs
            and not k.sets_states("current")
            and not (k.asks("current", "t") and k.has_exponentials)
        )

    @property
    def own_v(self) -> str:
        return "v[a]"

    def functions(self, kind: KindBlocks) -> str:
        wide = kind.wide if isinstance(kind, GroupedKind) else ""
        return "\n".join(text for text in (super().functions(kind), wide) if text)

    def counts(self, word: str) -> str:
        apart = self.sending.read("apart", word) if self.bins else f"{word} == 2"
        return f"{apart} ? event_shown : {super().counts(word)}"


@dataclass(frozen=True, eq=False)
class BlockTables:
    """Add the regions that only the engine `epochs-cpu` needs to the arenas (device arrays)."""

    model: Model
    wires: Wires
    blocks: CellRanges
    layout: BlockLayout

    def add(self, variables: Variables, network: Model, arenas: dict[str, Arena]) -> None:
        clock, ints = arenas["clock"], arenas["ints"]
        ints.add("event_shown", variables.exact.count)
        netcons, crossing = self.model.netcons, self.blocks.crossing
        longest = np.full(self.model.sources.count, -np.inf)
        np.maximum.at(longest, netcons.source[crossing], netcons.delay[crossing])
        clock.add("longest", longest)
        clock.add("launch_begin", np.zeros(1))
        self._add_tiles(ints)
        self._add_groups(arenas["mem"], ints)
        width = self.layout.most
        detectors = np.sort(self.layout.number(self.model.sources.detector_node))
        ints.add("detector_run", consecutive(detectors, width))
        for name, value in level_ions(variables, network).items():
            arenas["mem"].add(f"level_{name}", np.array([value]))
        add_cells(self.model, self.layout, ints, numbers=True)
        self._mark_connections(ints)
        self._add_lists(ints)

    def _add_tiles(self, ints: Arena) -> None:
        tiles = self.layout.tiles
        ints.add("block_place", tiles.block_place)
        ints.add("parents", tiles.parent)
        columns = np.stack(
            (tiles.place, tiles.slots, tiles.constant, tiles.roots, tiles.parents), axis=1
        )
        for width in tiles.widths:
            of_width = tiles.width == width
            ints.add(f"tiles_{width}", columns[of_width])
            ints.add(f"tile_{width}", self.blocks.first(tiles.block[of_width]))

    def _add_groups(self, mem: Arena, ints: Arena) -> None:
        model = self.model
        for k, groups in self.layout.groups.items():
            used = groups.member >= 0
            ints.add(f"group_{k}", groups.first)
            ints.add(f"lane_{k}", groups.place)
            run = np.where(groups.side_by_side, groups.place[:, 0], -used.sum(axis=1))
            ints.add(f"run_{k}", run)
            ints.add(f"aside_{k}", groups.first_members)
            ints.add(f"position_{k}", groups.position)
            ints.add(f"member_{k}", np.where(used, groups.member, -1))
            area = model.area[model.kinds[k].node][groups.source].astype(mem.dtype)
            mem.add(f"share_{k}", area * mem.dtype.type(0.01))

    def _mark_connections(self, ints: Arena) -> None:
        crosses = self.blocks.crossing[self.wires.order]
        word = ints.get("connection_short")
        apart = word | SENDING.pack(short=0, crossed=0, apart=1) if self.model.bins else 2
        ints.set("connection_short", np.where(crosses, apart, word))

    def _add_lists(self, ints: Arena) -> None:
        """Add lists by block: event targets, states that pointers write, sources, played values."""
        model, wires, blocks = self.model, self.wires, self.blocks
        targets = layouts.loose_targets(model, wires)
        targets = np.concatenate(wires.layers) if wires.apart else targets
        self._add_list(ints, "target", targets, blocks.target[targets])
        if model.written:
            at = self.layout.number(model.soma[layouts.cells_of_sums(model)])
            block = stretch_of(self.layout.tiles.block_place, at)
            self._add_list(ints, "sum", np.arange(len(block)), block)
        emitters = [np.zeros((2, 0), np.int64)]
        for k, sources in model.sources.emitted.items():
            instance = np.flatnonzero(sources >= 0)
            block = blocks.target[wires.first_target[k] + instance]
            emitters.append(np.stack((sources[instance], block)))
        self._add_list(ints, "emitter", *np.concatenate(emitters, axis=1))
        loose = [p for p in model.played if layouts.is_artificial(model.kinds[p.kind])]
        where = [blocks.target[wires.first_target[p.kind] + p.instance] for p in loose]
        number = len(model.played) - len(loose) + np.arange(len(loose))  # they are the last
        self._add_list(ints, "loose_play", number, np.array(where, np.int64))

    def _add_list(self, ints: Arena, name: str, values: np.ndarray, block: np.ndarray) -> None:
        ints.add(f"block_{name}s", values[np.argsort(block, kind="stable")])
        ints.add(f"block_{name}", self.blocks.first(block))


def make(job: Job) -> ArenaRun:
    model = job.model
    always = job.requested or bool(model.diffusions)  # which `steps` do not support
    units = devices.limits(job.queue.device).compute_units
    if job.decisions is not None and not always:  # choose for all ranks by the whole network
        network, always = job.decisions.network, True
        all_units = devices.limits(devices.whole_device(job.queue.device)).compute_units
        if plan_blocks(network, wires_of(network), all_units, split=True) is None:
            raise InputError("steps are expected to be faster")
    split = job.decisions is not None
    blocks = plan_blocks(model, wires_of(model), units, always, split)
    if blocks is None:
        raise InputError("steps are expected to be faster")
    job.check("blocks")
    _log.info("%d blocks of cells, launches of %d steps", blocks.count, blocks.epoch)
    kernels = partial(CellBlocks, blocks=blocks)
    return ArenaRun(job, kernels, CellBlocks.family)


class CellBlocks(ArenaKernels):
    """Advance a model by blocks of whole cells on a CPU."""

    in_vectors, family = True, "blocks"
    layout: BlockLayout

    def __init__(self, run: ArenaRun, blocks: CellRanges) -> None:
        super().__init__(run)
        self.blocks = blocks
        self.alone = blocks.count == 1 and delivers_alone(run.model) and run.job.decisions is None

    def put_matrix(self) -> None:
        model, network = self.model, self.network
        most = self.run.limits.vector_bytes // self.dtype.itemsize
        twice = takes_twice(most, self.dtype.itemsize)
        variable, classes = variable_nodes(network), node_classes(network)
        if model is not network:
            here = nodes_in_part(model, network)
            variable, classes = variable[here], classes[here]
        tiles = make_tiles(model, self.blocks, most, variable, classes)
        self.layout = BlockLayout(model, tiles, most, twice)
        self.place = self.layout.number(np.arange(self.layout.count))
        # the last group of one-node cells may have idle lanes
        self._idle = -len(self.place) % (2 * most) if self.alone else 0
        self.v = [within_reach(self.queue, (len(self.place) + self._idle,), self.dtype)]
        self._variable = variable
        self._arguments = {
            "num_blocks": np.int32(self.blocks.count), "num_nodes": np.int32(len(self.place)),
            "num_sources": np.int32(model.sources.count), "v": self.v[0],
            "u": self._packed(model.u), **self._constants(),
            **{name: cla.zeros_like(self.v[0]) for name in "bx"},
            **{name: np.int32(0) for name in _CHANGES},
        }  # fmt: skip

    def _constants(self) -> dict[str, cla.Array]:
        model = self.model
        base, diagonal = constant_pivots(model, self._variable)
        columns = {"constant_g": model.constant_g, "constant_b": model.constant_b}
        columns |= {"base": base, "d": diagonal}
        return {name: self._packed(values) for name, values in columns.items()}

    def renew(self, before: Model) -> bool:
        return same_constants(before, self.model) or self.renew_constants()

    def renew_constants(self) -> bool:
        for name, values in self._constants().items():
            copy_onto(self._arguments[name], values, self.queue)
        return True

    def _packed(self, natural: np.ndarray) -> cla.Array:
        return cla.to_device(self.queue, self._in_order(natural))

    def _in_order(self, natural: np.ndarray) -> np.ndarray:
        return np.append(natural[self.layout.nodes], np.ones(self._idle)).astype(self.dtype)

    def fill(self, variables: Variables) -> dict[str, Arena]:
        set_soon(self.v[0], 0, self._in_order(variables.v), self.queue)
        arenas = fill_arenas(variables, self.dtype, self.place, self.layout, self.run.times.instant)
        tables = BlockTables(self.model, self.run.wires, self.blocks, self.layout)
        tables.add(variables, self.network, arenas)
        add_turns(self.model, arenas["mem"], self._turns)
        self._rounds = 0
        if self.model.diffusions:
            mem, ints, order = arenas["mem"], arenas["ints"], self.blocks.order
            rows = add_diffusing_rows(self.model, self.layout, mem, ints, order)
            ints.add("diffusing_block", self.blocks.cells)
            self._rounds = rows.rounds
        if self.alone and self.run.grid is not None:  # a bit for each target with pending events
            pending = self.run.grid.save()["incoming"] != 0
            pending = np.pad(pending, ((0, 0), (0, -pending.shape[1] % 32)))
            arenas["ints"].add("marked", np.packbits(pending, bitorder="little").view("<i4"))
        return arenas

    @property
    def _turns(self) -> int:
        return self.blocks.epoch + 2 if "last_instances" in self.model.needs else 0

    def suit(self, variables: Variables) -> bool:
        return True

    def compile(self, spec: ArenaSpec, at: np.ndarray) -> None:
        level = tuple(level_ions(self.run.state.variables, self.network))
        spec = CellBlocksSpec.of(spec, self.network, self.layout, level, self.alone)
        spec = replace(spec, turns=self._turns, rounds=self._rounds)
        self._arguments["at"] = cla.to_device(self.queue, at)
        self.built = program.build(self.queue.context, spec), spec

    def bind(self) -> None:
        self.run.times.forget()
        recorded, sources = self.run.rows.arguments, self.run.rows.reducers.sources
        at = recorded["v_index"].get(self.queue)  # type: ignore[union-attr]
        lists = self._record_lists(at[: int(recorded["num_v"])], sources)
        # the next step's events may change these before a step's states are recorded
        changing = {kind.number for kind in self.built[1].ahead if kind.summed}
        arguments = {
            "keeps_ions": np.int32(any(r.kind < -1 for r in sources)),
            "keeps_states": np.int32(any(r.kind in changing for r in sources)),
            **{name: cla.to_device(self.queue, values) for name, values in lists.items()},
            **self._arguments, **self.run.arguments,
            **(self.run.grid.tables if self.alone and self.run.grid is not None else {}),
        }  # fmt: skip
        publish = launches.bind(*self.built, "publish", arguments, ("first_time",))
        self._kernels = publish, launches.bind(*self.built, "advance", arguments, _CHANGES)

    def advance(self, first: int, count: int, row: int) -> None:
        self.run.times.put(first, count)
        publish, advance = self._kernels
        unmarked = int(self.run.grid is not None and self.run.grid.added)
        for done in range(0, count, self.blocks.epoch):
            steps = min(self.blocks.epoch, count - done)
            begin = first + done - self.run.times.steps.start
            if self.blocks.crossing.any():
                publish.change(begin)
                publish.launch(self.queue, 1, 1)
            bounds = (0, 1, self.blocks.count) if self.blocks.leads else (0, self.blocks.count)
            for block, end in pairwise(bounds):
                numbers = block, first + done, steps, begin, row + done, unmarked
                advance.change(*numbers)
                advance.launch(self.queue, end - block, 1)

    def _record_lists(self, place: np.ndarray, records: Sequence[Record]) -> dict[str, np.ndarray]:
        """Return lists by block: the recorded voltages, and the recorded artificial cells.

        `place` has the index of each recorded voltage. The lists are int32 arrays by argument names
        of the kernel.
        """
        block, kinds = stretch_of(self.layout.tiles.block_place, place), self.model.kinds
        loose = [np.zeros(0, np.int64)]
        for record in records:
            if record.kind >= 0 and layouts.is_artificial(kinds[record.kind]):
                first = self.run.wires.first_target.get(record.kind)
                block_0 = np.zeros(len(record.index), np.int64)
                loose.append(block_0 if first is None else self.blocks.target[first + record.index])
        tables = {
            "v_first": self.blocks.first(block),
            "v_column": np.argsort(block, kind="stable"),
            "mem_block": np.concatenate(loose),
        }
        return {name: np.append(values, 0).astype(np.int32) for name, values in tables.items()}
