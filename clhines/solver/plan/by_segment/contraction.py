"""Method `contraction`: a work-group per block of cells, a work-item per segment of a branch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from clhines.core.arrays import climb, inverse, offsets, ranges, starts, stretch_of
from clhines.core.errors import InputError, shown
from clhines.solver.forest import Forest, Trees
from clhines.solver.plan import layout, packing
from clhines.solver.plan.by_branch.fine_vector import FINE_OPTIONS, plan_fine
from clhines.solver.plan.by_segment import codes, room, schedule
from clhines.solver.plan.by_segment import layout as segment_layout
from clhines.solver.plan.by_segment.cut import USUAL_PLACES, Cut, cut_trees, joined
from clhines.solver.plan.by_segment.schedule import KEPT_VALUES, NO_LANE
from clhines.solver.plan.kernel_spec import KernelSpec, Word
from clhines.solver.plan.plan import (
    COARSE,
    Limits,
    Options,
    Part,
    Plan,
    as_int32,
    local_size,
    plan_by_kind,
)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Cells cut into connected parts that fit into local memory; each is a tree of `forest`."""

    forest: Forest  # the pieces, cell after cell
    natural: np.ndarray  # (n,) each node's index in the old forest
    cell: np.ndarray  # (num_pieces,) each piece's cell in the old forest
    above: np.ndarray  # (num_pieces,) parent of each piece's first node, -1 at cell roots
    ends: np.ndarray  # (nodes of ``forest.trees``,) bool: first nodes, and parents of other pieces
    rank: np.ndarray  # (nodes of ``forest.trees``,) number in the old tree's elimination order


def split_cells(forest: Forest, segment: int, most: int, most_segments: int) -> Pieces:
    """Cut cells into connected parts of at most `most` values and `most_segments` segments.

    A segment has at most `segment` nodes.
    """
    trees = forest.trees
    cut = schedule.segments(trees, segment)
    top = schedule.pieces(cut, most, most_segments)
    anchor, _ = climb(np.where(top, -1, cut.parent))
    number = (np.cumsum(top) - 1)[anchor]  # each segment's piece
    piece = np.repeat(number, cut.length)  # for each place in trees.order
    place = np.argsort(piece, kind="stable")
    new = inverse(place)
    above = trees.parent[trees.order]
    above = np.where(above < 0, -1, trees.rank[above])  # parents as places
    bounds = offsets(np.bincount(piece))
    inside = (above >= 0) & (piece[above] == piece)
    pieces = Trees(bounds, np.where(inside, new[above], -1)[place])
    first = place[bounds[:-1]]  # each piece's top node
    hangs = np.where(above[first] < 0, -1, new[above[first]])
    ends = np.zeros(len(place), bool)
    ends[bounds[:-1]] = True
    ends[hangs[hangs >= 0]] = True

    tree_of_place = np.repeat(np.arange(trees.num_trees), trees.sizes)
    counts = np.bincount(tree_of_place[first], minlength=trees.num_trees)
    begin = starts(counts)
    shape = forest.shape_of_cell
    which = ranges(begin[shape], counts[shape])
    cell = np.repeat(np.arange(forest.num_cells), counts[shape])
    local = (trees.order - trees.offsets[tree_of_place])[place]
    sizes = pieces.sizes[which]
    natural = local[ranges(bounds[which], sizes)] + np.repeat(forest.cell_offsets[cell], sizes)
    shift = forest.cell_offsets[cell] - trees.offsets[shape[cell]]
    return Pieces(
        forest=Forest.from_trees(pieces, which),
        natural=natural,
        cell=cell,
        above=np.where(hangs[which] < 0, -1, hangs[which] + shift),
        ends=ends,
        rank=(np.arange(len(place)) - trees.offsets[tree_of_place])[place],
    )


def kept_forest(pieces: Pieces, cut: Cut, num_cells: int) -> tuple[Forest, np.ndarray]:
    """Return the reduced system's forest, and the index in `pieces.forest` of each of its nodes.

    Each piece, a part of a cell, is eliminated up to a few nodes, which form the reduced system:
    last nodes of segments in `cut`.
    """
    trees, segment = pieces.forest.trees, cut.segments
    kept = np.flatnonzero(cut.kept >= 0)
    tree = np.searchsorted(segment.offsets, kept, side="right") - 1
    last = trees.order[segment.first[kept] + segment.length[kept] - 1]  # tree nodes
    number = np.full(len(trees.parent), -1)
    number[last] = cut.kept[kept]
    counts = np.bincount(tree, minlength=trees.num_trees)
    first = starts(counts)
    shape = pieces.forest.shape_of_cell
    which = ranges(first[shape], counts[shape])
    piece = np.repeat(np.arange(len(shape)), counts[shape])
    begin = starts(counts[shape])
    above = cut.contraction.parent[kept[which]]
    parent = np.where(above < 0, -1, begin[piece] + cut.kept[above])
    outside = pieces.above[piece]
    there = stretch_of(pieces.forest.cell_offsets, outside)
    local = outside - pieces.forest.cell_offsets[there] + trees.offsets[shape[there]]
    hung = (above < 0) & (outside >= 0)
    parent = np.where(hung, begin[there] + number[np.where(hung, local, 0)], parent)
    sizes = np.bincount(pieces.cell[piece], minlength=num_cells)
    rest = Forest(parent, offsets(sizes))
    place = last[which] - trees.offsets[shape[piece]] + pieces.forest.cell_offsets[piece]
    return rest, place


USUAL_LANES = 128  # lanes in a work-group
# Cell classes. A launch has one class, as all its work-groups have the same local memory.
#   USUAL         fits into `USUAL_LANES` and `USUAL_PLACES`: compute units have many work-groups
#   LARGER        fits into local memory, in a larger work-group
#   ABOVE         does not fit: its pieces are reduced, the kept nodes solved, the pieces expanded
#   IN_REGISTERS  has its values in registers, by NVIDIA's compiler (bench/notes/contraction.md)
ABOVE, USUAL, LARGER, IN_REGISTERS = 0, 1, 2, 3


@dataclass(frozen=True)
class ContractionSpec(KernelSpec):
    """Spec of ``contraction.mako``, whose kernels have a work-item for each segment of a branch.

    `phase` is ``solve`` for whole cells. A cell that exceeds local memory is cut into parts:
    ``reduce`` eliminates most nodes of each part, which leaves a smaller system, and ``expand``
    computes them from the solution of this system. `factor` is ``make`` (write the inverse pivots),
    ``use`` (read the inverse pivots instead of `d`), or empty.
    """

    template: ClassVar[str] = "solver/by_segment/contraction"
    link: ClassVar[Word] = schedule.LINK
    at_elimination: ClassVar[Word] = schedule.AT_ELIMINATION
    family: ClassVar[Word] = schedule.FAMILY
    lane_counts: ClassVar[Word] = schedule.LANE_COUNTS
    order: ClassVar[Word] = layout.ORDER
    tables: ClassVar[tuple[str, ...]] = (
        "blocks:place/8",
        "cell_number:cell",
        "rows",
        "links",
        "children",
        "lane_slot",
        "lane_rank",
        "node_rank:in_order if shared",
        "kept_start if of_pieces",
        "kept if of_pieces",
        "gather if natural",
        "order_start if reorders",
        "order if reorders",
        "cell_base if reorders_cells",
        "natural_index if reorders and of_pieces",
    )
    takes: ClassVar[tuple[str, ...]] = (
        "const real *d",
        "const real *restrict u",
        "const real *restrict l if unsymmetric",
        "const real *b if not makes",
        "real *inverses if makes",
        "real *rest_d if reduces",
        "real *rest_u if reduces",
        "real *rest_l if reduces and unsymmetric",
        "real *rest_b if reduces",
        "const real *rest_x if expands",
        "real *x if not makes and not reduces",
        "int *status",
    )
    needs_factor: ClassVar[bool] = False
    takes_natural: ClassVar[bool] = True
    capacity: int  # values per array in local memory, for the largest block
    segment: int  # most nodes in a segment
    ptx: bool  # the compiler supports inline PTX
    fused: bool  # multiplications and additions may be fused
    phase: str = "solve"
    shared: bool = False  # several work-groups, or launches, share a cell
    derived: bool = False  # a reduced system: any node of the larger one may cause a bad value
    factor: str = ""
    natural: bool = False  # d, u, l, b and x are in natural order
    tree_places: int = 0  # the contracted tree's local values if they exceed `capacity`, else 0
    direct: bool = False  # values are in registers, not in local memory
    bulk: bool = False  # bulk copies into local memory are supported

    @property
    def keeps_factors(self) -> bool:  # type: ignore[override]
        """Whether the kernel can store inverse pivots and use them for later right-hand sides."""
        return not self.direct

    @property
    def finds_infinite(self) -> bool:  # type: ignore[override]
        """Whether a kernel writes a cell's status after all its x, and can report infinite x."""
        return self.phase == "solve" and not self.shared

    @property
    def flags_infinite(self) -> bool:
        return self.natural and self.finds_infinite

    @property
    def reorders(self) -> bool:
        """Whether the kernel converts natural to device order when it reads into local memory."""
        return self.natural and not self.direct

    @property
    def reorders_cells(self) -> bool:
        return self.reorders and not self.of_pieces

    @property
    def of_pieces(self) -> bool:
        return self.phase != "solve"

    @property
    def reduces(self) -> bool:
        return self.phase == "reduce"

    @property
    def expands(self) -> bool:
        return self.phase == "expand"

    @property
    def makes(self) -> bool:
        return self.factor == "make"

    @property
    def uses(self) -> bool:
        return self.factor == "use"

    @property
    def eliminates(self) -> bool:
        """Whether the kernel eliminates `d`, instead of reading inverse pivots."""
        return not self.uses

    @property
    def solves(self) -> bool:
        """Whether the kernel reads right-hand sides `b`."""
        return not self.makes

    @property
    def local_arrays(self) -> str:
        """Names of the arrays in local memory; the last one, `u`, may be longer than the others."""
        return "dbu" if self.solves else "du"

    @property
    def copies_bulk(self) -> bool:
        return self.bulk and not self.natural

    @property
    def chunk(self) -> int:
        return 16 // (8 if self.real == "double" else 4)

    @property
    def steps_of_one(self) -> int:
        """How often each lane copies one value while a work-group copies an array of its block."""
        return -(-self.capacity // self.work_group)

    @property
    def batch_of_one(self) -> int:
        """Loads of one array that a work-item issues before it uses the first value."""
        return 12 if self.ptx else 4

    def at(self, place: str) -> str:
        """Return OpenCL code for the index of the block's value `place` in global memory."""
        return f"gather[block.s0 + {place}]" if self.natural else f"block.s0 + {place}"

    def index(self, k: int) -> str:
        """Return the OpenCL expression for the natural index of the k-th copied value."""
        if self.of_pieces:
            return f"natural_index[block.s0 + k{k}]"
        return f"cell_from[{self.order.read('cell', f'to{k}')}] + k{k}"

    def place_of(self, k: int) -> str:
        """Return the OpenCL expression for the index in local memory of the k-th copied value."""
        return f"to{k}" if self.of_pieces else self.order.read("place", f"to{k}")

    def measure(self, pivot: str, own: str) -> str:
        """Return the OpenCL call that checks the variable `pivot` for lost digits.

        For unsymmetric matrices the call compares the pivot with the diagonal entry, `own`.
        """
        return f"measure({pivot})" if self.symmetric else f"compare({pivot}, {own})"

    def lower(self, name: str) -> str:
        """Return l's variable for u's variable `name`; symmetric matrices share it."""
        return name if self.symmetric else name.replace("up", "low", 1)


def plan_contraction(
    forest: Forest,
    method: str,
    real: str,
    limits: Limits,
    options: Options,
    ranks: np.ndarray | None = None,
) -> Plan:
    """Plan the method `contraction` for a batch of cells.

    Cells that exceed local memory are cut into parts, or planned by the method `fine` if one of
    their nodes has too many branches. If the batch is the reduced system of a larger one, `ranks`
    has the number of each node in the larger system's elimination order.
    """
    most = int(options["segment"] or 0) or room.usual_segment(forest, real, limits, options)
    if most > schedule.MAX_SEGMENT:
        raise InputError(
            f"segment={shown(most)} is above the limit of {schedule.MAX_SEGMENT} nodes"
        )
    cut = cut_trees(forest.trees, most)
    kind = _classes(forest, cut, real, limits, options)
    if ranks is None:
        direct = room.fits_registers(forest, kind == ABOVE, real, limits, options)
        kind = np.where(direct, IN_REGISTERS, kind)
    build = _ContractionPlanner(method, real, limits, options, most)
    if (kind == kind[0]).all():
        if kind[0] == IN_REGISTERS:
            return build.direct(forest)
        return build.large(forest, ranks) if kind[0] == ABOVE else build.small(forest, ranks, cut)
    joins = False
    if ranks is None and (kind == ABOVE).any():
        few = room.OWN_LAUNCH * limits.compute_units
        if int(forest.sizes[kind == LARGER].sum()) < few:
            kind = np.where(kind == LARGER, ABOVE, kind)
        joins = int(forest.sizes[kind == USUAL].sum()) < few
    return build.by_kind(forest, ranks, kind, joins)


def _classes(forest: Forest, cut: Cut, real: str, limits: Limits, options: Options) -> np.ndarray:
    """Return each cell's class: `USUAL` or `LARGER` if it fits into local memory, else `ABOVE`."""
    fits = room.fits_local(cut, real, limits, options)
    usual = (cut.lanes <= (options["work_group"] or USUAL_LANES)) & (cut.places <= USUAL_PLACES)
    small = forest.num_nodes < USUAL_PLACES * 8 * limits.compute_units
    if fits.all() and (options["work_group"] or small):
        usual = fits
    return np.where(fits, np.where(usual, USUAL, LARGER), ABOVE)[forest.shape_of_cell]


@dataclass(frozen=True)
class _ContractionPlanner:
    method: str
    real: str
    limits: Limits
    options: Options
    most: int

    def by_kind(
        self, forest: Forest, ranks: np.ndarray | None, kind: np.ndarray, joins: bool = False
    ) -> Plan:
        """Plan a launch for each class of cells: `USUAL`, `LARGER`, `ABOVE`, `IN_REGISTERS`.

        With `joins`, the launch that expands the parts of `ABOVE` cells also solves the `USUAL`
        cells.
        """

        def plan_some(part: Forest, cells: np.ndarray, k: int) -> Plan:
            mine = None
            if ranks is not None:
                mine = ranks[ranges(forest.cell_offsets[cells], forest.sizes[cells])]
            if k == IN_REGISTERS:
                return self.direct(part)
            if k == ABOVE:
                return self.large(part, mine)
            return self.small(part, mine, pieces=joins and k == USUAL)

        plan = plan_by_kind(forest, self.method, kind, plan_some)
        return replace(plan, parts=joined(plan.parts)) if joins else plan

    def small(
        self, forest: Forest, ranks: np.ndarray | None, cut: Cut | None = None, pieces: bool = False
    ) -> Plan:
        cut = cut or cut_trees(forest.trees, self.most)
        group = self._group(forest, cut, pieces)
        beyond = cut.places > room.local_capacity(self.real, self.limits, group)
        if beyond.any():  # beside the widest tree's lanes there is less local memory
            kind = np.where(beyond[forest.shape_of_cell], LARGER, USUAL)
            return self.by_kind(forest, ranks, kind)
        blocks, lanes, places = self._blocks(forest, cut, group, pieces)
        gather = places.gather(forest)
        if not pieces:
            group = self._used(forest, group, lanes)
        part = self._part("solve", group, forest, blocks, lanes, places, _on_device(ranks, gather))
        return Plan(forest, self.method, gather, (part,))

    def direct(self, forest: Forest) -> Plan:
        most = room.registers_segment(forest, self.real, self.limits, self.options)
        cut = cut_trees(forest.trees, most)
        group = int(self.options["work_group"] or room.in_warps(cut.lanes).max())
        many = int(self.options["max_cells"] or self._many(forest))
        widths = cut.lanes[:, None]
        blocks = packing.best_fit(forest.shape_of_cell, widths, group, many)
        lanes = codes.segment_lanes(
            cut.segments, cut.contraction, blocks.slot_template, blocks.slot_tree
        )
        places = segment_layout.SegmentRows(lanes, blocks, most)
        part = self._part("solve", group, forest, blocks, lanes, places, direct=True)
        return Plan(forest, self.method, places.gather(forest), (part,))

    def large(self, forest: Forest, ranks: np.ndarray | None) -> Plan:
        """Plan cells that exceed local memory: eliminate each part, solve the rest, expand all."""
        group = min(int(self.options["work_group"] or USUAL_LANES), self.limits.max_work_group)
        capacity = min(USUAL_PLACES, int(room.local_capacity(self.real, self.limits, group)))
        if group < 4 and ranks is None:
            return self._with_stars(forest, np.ones(forest.num_cells, bool))
        # pieces for half a work-group: they pack better than larger ones
        pieces = split_cells(forest, self.most, capacity // 2, group // 2)
        cut = cut_trees(pieces.forest.trees, self.most, pieces.ends)
        rest, place = kept_forest(pieces, cut, forest.num_cells)
        stars = rest.sizes * 4 > forest.sizes  # too many pieces have the same parent
        if stars.any():
            if ranks is not None:
                raise InputError("a cell is too wide for contraction; use fine")
            return self._with_stars(forest, stars)
        trees, shape = pieces.forest.trees, pieces.forest.shape_of_cell
        of_trees = ranges(trees.offsets[shape], trees.sizes[shape])
        node = pieces.rank[of_trees] if ranks is None else ranks[pieces.natural]
        group = self._group(pieces.forest, cut, True)
        blocks, lanes, places = self._blocks(pieces.forest, cut, group, True)
        gather = places.gather(pieces.forest)
        try:
            inner = plan_contraction(
                rest, self.method, self.real, self.limits, self.options, node[place]
            )
        except InputError:
            if ranks is not None:
                raise
            return self._with_stars(forest, np.ones(forest.num_cells, bool))
        scatter = np.empty(rest.num_nodes, np.int64)
        real = inner.gather >= 0
        scatter[inner.gather[real]] = np.flatnonzero(real)
        counts = np.add.reduceat((cut.kept >= 0) + 0, cut.segments.offsets[:-1])
        begin = starts(counts[pieces.forest.shape_of_cell])
        # lanes with a kept node, in every block, ascending
        is_kept = np.flatnonzero(cut.kept[lanes.segment] >= 0)
        per_template = np.bincount(lanes.template[is_kept], minlength=len(lanes.inner))
        first = starts(per_template)
        kind = blocks.template
        lane = is_kept[ranges(first[kind], per_template[kind])]
        block = np.repeat(np.arange(blocks.num_blocks), per_template[kind])
        slot = lanes.slot[lane] - blocks.slot_start[kind[block]]
        piece = blocks.cells[blocks.cell_start[block] + slot]
        tables = {
            "kept_start": starts(per_template[kind]),
            "kept": scatter[begin[piece] + cut.kept[lanes.segment[lane]]],
        }
        whole = replace(blocks, cells=pieces.cell[blocks.cells])
        shared = _on_device(node, gather)
        reduce, expand = (
            self._part(phase, group, pieces.forest, whole, lanes, places, shared, tables)
            for phase in ("reduce", "expand")
        )
        # expand what was reduced last first: its values may still be in a cache
        for name, width in (("blocks", 8), ("kept_start", 1)):
            rows = reduce.tables[name].reshape(-1, width)[::-1]
            reduce.tables[name] = np.ascontiguousarray(rows).reshape(-1)
        parts = (reduce, *(part.deeper() for part in inner.parts), expand)
        natural = np.where(gather < 0, -1, pieces.natural[gather]).astype(np.int32)
        return Plan(forest, self.method, natural, parts, (inner.packed_size, *inner.scratch))

    def _with_stars(self, forest: Forest, stars: np.ndarray) -> Plan:
        """Plan cells that exceed local memory; `stars`, (num_cells,) bool, marks star-shaped cells.

        A star-shaped cell has too many parts with the same parent. It is solved whole if its
        segments fit into local memory, else by the method `fine`. All other cells are cut into
        parts.
        """
        fits = room.fits_local(
            cut_trees(forest.trees, self.most), self.real, self.limits, self.options
        )

        def plan_some(part: Forest, _: np.ndarray, how: int) -> Plan:
            if how == 0:
                return self.large(part, None)
            if how == 1:
                return self.small(part, None)
            return plan_fine(part, "fine", self.real, self.limits, FINE_OPTIONS)

        how = np.where(stars, np.where(fits[forest.shape_of_cell], 1, 2), 0)
        return plan_by_kind(forest, self.method, how, plan_some)

    def _many(self, forest: Forest) -> int:
        """Return the maximum cell count of a work-group.

        In small batches it is small, so that all compute units work, as latency decides the time.
        """
        if room.is_small(forest, self.limits):
            return max(1, forest.num_cells // (2 * self.limits.compute_units))
        return forest.num_cells

    def _group(self, forest: Forest, cut: Cut, pieces: bool = False) -> int:
        """Return the work-group size: enough work-items for the tree with the most lanes.

        It is larger if several cells share a work-group and local memory suffices.
        """
        if self.options["work_group"]:
            return int(self.options["work_group"])
        limits, widest = self.limits, -(-int(cut.lanes.max()) // 32) * 32
        usual = max(widest, USUAL_LANES if self._many(forest) > 1 or pieces else 64)
        if cut.places.max() > room.local_capacity(self.real, limits, usual):
            usual = widest
        return min(usual, limits.max_work_group, NO_LANE - 1)

    def _used(self, forest: Forest, group: int, lanes: codes.SegmentLanes) -> int:
        """Return how many work-items of a work-group of `group` lanes to launch.

        Usually this is the largest number of lanes in a block, in whole warps, because idle
        work-items would use registers.
        """
        if self.options["work_group"] or self.limits.is_cpu or room.is_small(forest, self.limits):
            return group
        widest = int(np.diff(lanes.template_start).max())
        return min(group, -(-widest // 32) * 32)

    def _blocks(
        self, forest: Forest, cut: Cut, group: int, pieces: bool = False
    ) -> tuple[packing.Blocks, codes.SegmentLanes, segment_layout.SegmentRows]:
        """Group cells into blocks for work-groups of `group` work-items.

        Return the blocks, the lanes of their segments, and the nodes' layout. `pieces`: cells are
        pieces of larger ones.
        """
        many = self._many(forest)
        max_cells = int(self.options["max_cells"] or many)
        capacity = int(room.local_capacity(self.real, self.limits, group))
        if cut.lanes.max() > group or cut.places.max() > capacity:
            raise InputError(
                f"work_group={group}, {self.limits.local_bytes} bytes of local memory: too small "
                f"for a cell of {int(cut.lanes.max())} segments, {int(cut.places.max())} values"
            )
        capacity = max(int(cut.places.max()), min(capacity, USUAL_PLACES))
        share = -(-cut.places * group // capacity)  # lanes that have as much local memory
        widths = np.stack((cut.lanes, share), axis=1)
        if pieces or (many >= 8 and not self.options["max_cells"]):
            most = None if pieces else max_cells
            blocks = packing.best_fit(forest.shape_of_cell, widths, group, most)
        else:
            blocks = packing.next_fit(forest, list(widths), group, max_cells)
        lanes = codes.segment_lanes(
            cut.segments, cut.contraction, blocks.slot_template, blocks.slot_tree
        )
        return blocks, lanes, segment_layout.SegmentRows(lanes, blocks, self.most)

    def _part(
        self,
        phase: str,
        work_group: int,
        forest: Forest,
        blocks: packing.Blocks,
        lanes: codes.SegmentLanes,
        places: segment_layout.SegmentRows,
        node_rank: np.ndarray | None = None,
        more: dict[str, np.ndarray] | None = None,
        direct: bool = False,
    ) -> Part:
        kind, counts = blocks.template, np.diff(lanes.template_start)
        longest, leaves = int(places.rows.shape[-1]), places.rows[:, 1, 0]
        tables = segment_layout.tables(forest.trees, blocks, lanes, places)
        if node_rank is not None:
            tables["node_rank"] = node_rank
        space = int(room.local_capacity(self.real, self.limits, work_group))
        most, tree = int(places.template_size.max()), leaves + KEPT_VALUES * lanes.inner
        tree = int(layout.aligned(tree.max()))
        capacity = local_size(max(most, tree), space, self.limits.is_cpu)
        if capacity > COARSE and not self.limits.is_cpu:  # no more memory than needed
            capacity = int(layout.aligned(most))
        spec = ContractionSpec(
            real=self.real,
            work_group=work_group,
            capacity=0 if direct else capacity,
            tree_places=tree if tree > capacity and not direct else 0,
            segment=longest,
            direct=direct,
            # registers with floats need no PTX
            ptx=self.limits.ptx and not (direct and self.real == "float"),
            fused=not self.limits.is_cpu,
            phase=phase,
            shared=node_rank is not None,
            bulk=self.limits.bulk and not direct,
        )
        used = int((np.bincount(kind) * counts).sum())
        return Part(
            spec=spec,
            tables=as_int32(tables | (more or {}), places.size),
            num_units=blocks.num_blocks,
            num_groups=blocks.num_blocks,
            max_rhs=1,
            target=0 if phase == "solve" else 1,
            statistics={
                "rounds": int(lanes.rounds.max()),
                "dependent_steps": 2 * int(spec.segment + lanes.rounds.max()),
                "barriers": int((2 * lanes.rounds[kind] + 5).sum()),
                "idle_lanes": 1 - used / (blocks.num_blocks * work_group),
                "cells_per_block": len(blocks.cells) / blocks.num_blocks,
            },
        )


def _on_device(values: np.ndarray | None, gather: np.ndarray) -> np.ndarray | None:
    return None if values is None else np.where(gather < 0, 0, values[gather])
