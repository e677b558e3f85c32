"""Solve extracellular layers by segments: a lane solves for the potentials of some columns.

A *column* is a node with its extracellular layers. A cell's columns are a tree
(`simulator.model.layers`). It is cut into segments of its branches, which are contracted in rounds
as in `solver.plan.by_segment.schedule`.

1. A lane eliminates the columns of its segment except the last one, star to mesh. The last column
keeps its sums, and conductances from each of its potentials to each of the parent's last column. A
leaf segment is eliminated completely. 2. The last columns are eliminated in rounds, and get their
potentials in reverse order. 3. A lane eliminates the columns of its segment again, now between two
columns with known potentials. It does not spread the conductances to the parent this time, so that
a column needs few factors, which stay in registers.

    parent's last column  o===[o  o  o  o]   step 1: conductances (=) from each column to it
                              1  2  3  last

Nothing is subtracted. v changes in place. Device arrays are row by row: a row has the first columns
of all lanes of a cell, the next row their second columns, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyopencl as cl

from clhines.core.arrays import ranges
from clhines.simulator.device import launches
from clhines.simulator.kinds import layouts
from clhines.simulator.model.layers import Layers
from clhines.simulator.model.model import Model
from clhines.solver.device import program
from clhines.solver.device.arrays import to_device
from clhines.solver.forest import Forest
from clhines.solver.plan.by_segment import codes, schedule
from clhines.solver.plan.by_segment.cut import Cut, cut_trees
from clhines.solver.plan.kernel_spec import TemplateSpec, Word
from clhines.solver.plan.plan import Limits, real_name

WARP = 32
MOST = 8  # most columns per segment; with few cells, as few as fit a cell into `WARP` lanes
EMPTY = 8  # most places per column
CELLS = 8  # per compute unit: up to this number cells are few


@dataclass(frozen=True)
class LayerSegmentsSpec(TemplateSpec):
    """``layer_segments.mako``: `rows` potentials per column, `units` cells per work-group.

    A cell has `lanes`; the segments of the first `inner` ones are no leaves.
    """

    template: ClassVar[str] = "simulator/layer_segments"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "solve_layers": (
            "int num_cells, const int *restrict kinds, const int *restrict heads",
            "const int *restrict links, const int *restrict children",
            "const int *restrict all_around",
            "const real *restrict axial, const real *restrict g, const real *restrict over",
            "const real *restrict constant_g if constant",
            "const real *restrict constant_b if constant",
            "const real *restrict d, const real *restrict b, real *v",
        )
    }
    link: ClassVar[Word] = schedule.LINK
    at_elimination: ClassVar[Word] = schedule.AT_ELIMINATION
    family: ClassVar[Word] = schedule.FAMILY
    real: str
    rows: int
    segment: int
    lanes: int
    units: int
    inner: int
    rounds: int
    constant: bool
    driven: tuple[int, ...]  # rows of layers with electrodes

    def fits(self, limits: Limits) -> bool:
        """Return whether a device has enough work-items and local memory for a work-group."""
        sums = 2 * self.rows + self.rows * (self.rows - 1) // 2
        numbers = (sums + self.rows**2) * self.inner + sums * self.lanes
        local = self.units * numbers * (8 if self.real == "double" else 4)
        return self.lanes * self.units <= limits.max_work_group and local <= limits.local_bytes


def segments_of(model: Model, dtype: np.dtype, limits: Limits) -> LayerSegments | None:
    """Plan a model's extracellular layers by segments; None if its cells do not fit a device."""
    layers = model.once.layers
    assert layers is not None
    forest = Forest(layers.parent, layers.of_cells)
    few = forest.num_cells * model.copies <= CELLS * limits.compute_units
    for most in range(1 if few else MOST, MOST + 1):
        cut = cut_trees(forest.trees, most)
        lanes = int(cut.lanes.max())
        if lanes <= WARP:
            break
    width = -(-lanes // WARP) * WARP if lanes > WARP else 1 << (lanes - 1).bit_length()
    places = forest.num_cells * most * width
    if lanes >= schedule.NO_LANE or places > EMPTY * forest.num_nodes:
        return None
    segments = LayerSegments(model, layers, dtype, forest, cut, (most, width))
    return segments if segments.spec.fits(limits) else None


class LayerSegments:
    """A model's layers by segments; `size` is (columns per segment, lanes per cell).

    `gather`, (places,), has the node at each device index, -1 for none.
    """

    def __init__(
        self,
        model: Model,
        layers: Layers,
        dtype: np.dtype,
        forest: Forest,
        cut: Cut,
        size: tuple[int, int],
    ) -> None:
        every, (most, width), rows = np.arange(len(cut.lanes)), size, len(layers.node)
        lanes = codes.segment_lanes(cut.segments, cut.contraction, every, every)
        self._layers, self._lanes = layers, lanes
        self._dtype, self._copies = dtype, model.copies
        has = (layers.node >= 0) & (layouts.node_numbers(model.once) >= 0)[layers.node]
        self.spec = LayerSegmentsSpec(
            real=real_name(dtype),
            rows=rows,
            segment=most,
            lanes=width,
            units=max(1, WARP // width),
            inner=int(lanes.inner.max()),
            rounds=max(1, int(lanes.rounds.max())),
            constant=layouts.has_constants(model.once),
            driven=tuple(x for x in sorted({1, rows - 1}) if has[x].any()),
        )
        self._column, self._tie = self._columns(forest)
        self._shape = forest.shape_of_cell
        self._kind, self._example = self._kinds()
        at = self._column[self._shape]
        at = np.where(at < 0, -1, at + layers.of_cells[:-1, None, None])
        node = np.where(at < 0, -1, layers.node[:, at]).transpose(1, 0, 2, 3).reshape(-1)
        n = model.once.forest.num_nodes * np.arange(self._copies)[:, None]
        self.gather = np.where(node < 0, -1, node + n).reshape(-1)

    def _columns(self, forest: Forest) -> tuple[np.ndarray, np.ndarray]:
        """Return the column at each index of each tree, and which column's `axial` connects to it.

        The second array has one more row, from segments to their parents; -1 for none.
        """
        lanes, trees, spec = self._lanes, forest.trees, self.spec
        length, tree = lanes.length, lanes.template
        lane = np.arange(len(length)) - lanes.template_start[tree]
        leaf = lane >= lanes.inner[tree]
        k, j = np.repeat(np.arange(len(length)), length), ranges(np.zeros_like(length), length)
        place = lanes.first[k] + np.where(leaf[k], length[k] - 1 - j, j)
        column, tie = (np.full((trees.num_trees, spec.segment + m, spec.lanes), -1) for m in (0, 1))
        column[tree[k], j, lane[k]] = trees.order[place] - trees.offsets[tree[k]]
        tie[tree[k], np.where(leaf[k], j, j - 1), lane[k]] = column[tree[k], j, lane[k]]
        return column, tie

    def _kinds(self) -> tuple[np.ndarray, np.ndarray]:
        """Group cells of equal shape and conductances; return cells' groups, and a cell of each."""
        layers, numbers, kind = self._layers, dict[tuple[Any, ...], int](), list[int]()
        first = list[int]()
        for cell, (begin, end) in enumerate(
            zip(layers.of_cells, layers.of_cells[1:], strict=False)
        ):
            has = layers.node[1, begin:end] >= 0
            values = (layers.axial, layers.g, layers.c)
            key = self._shape[cell], has.tobytes(), *(a[:, begin:end].tobytes() for a in values)
            if key not in numbers:
                numbers[key] = len(first)
                first.append(cell)
            kind.append(numbers[key])
        return np.array(kind), np.array(first)

    def tables(self, queue: cl.CommandQueue, dt: float) -> dict[str, Any]:
        """Return the kernel arguments that are the same in all steps."""
        layers, lanes, spec = self._layers, self._lanes, self.spec
        shape, begin = self._shape[self._example], layers.of_cells[self._example][:, None, None]

        def of_kinds(values: np.ndarray, column: np.ndarray) -> np.ndarray:
            at = column[shape]
            by_place = np.where(at < 0, 0, values[:, np.where(at < 0, 0, at + begin)])
            return by_place.transpose(1, 0, 2, 3).reshape(-1)

        has = of_kinds(layers.node[1:2] >= 0, self._column).reshape(len(shape), -1, spec.lanes)
        bits = (has.astype(np.int64) << np.arange(spec.segment)[:, None]).sum(axis=1)
        counts = np.diff(lanes.template_start)
        heads = np.stack((lanes.template_start[:-1], counts, lanes.inner), axis=1)[shape]
        ints = {
            "kinds": np.tile(self._kind, self._copies), "heads": heads, "links": lanes.links,
            "children": lanes.children, "all_around": bits,
        }  # fmt: skip
        over = layers.g + layers.c / dt
        reals = {
            "axial": of_kinds(layers.axial, self._tie), "g": of_kinds(layers.g[1:], self._column),
            "over": of_kinds(over[1:], self._column),
        }  # fmt: skip
        return {
            "num_cells": np.int32(len(self._kind) * self._copies),
            **{name: to_device(queue, a, np.int32) for name, a in ints.items()},
            **{name: to_device(queue, a, self._dtype) for name, a in reals.items()},
        }

    def bind(self, queue: cl.CommandQueue, arguments: Mapping[str, Any]) -> Callable[[], object]:
        built = program.build(queue.context, self.spec)
        kernel = launches.bind(built, self.spec, "solve_layers", arguments)
        group = self.spec.lanes * self.spec.units
        groups = -(-len(self._kind) * self._copies // self.spec.units)
        return partial(kernel.launch, queue, groups * group, group)
