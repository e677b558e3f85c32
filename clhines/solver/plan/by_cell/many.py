"""Plan a lane per right-hand side: node order, kernels and costs, for `solver.engines.many`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from clhines.core.arrays import ranges
from clhines.solver.forest import Forest
from clhines.solver.plan.kernel_spec import GROWTH, NOT_FINITE, STATUS, TemplateSpec, Word
from clhines.solver.plan.plan import Limits, Plan

_LANES = 8  # right-hand sides per work-item on CPUs
_CELL_BYTES = 64 << 20  # most bytes for a work-item's right-hand sides
_AHEAD, _GROUP = 8, 32  # on GPUs: values read at once, and work-items per group
# Seconds in the cost model of `is_faster`. Lanes over right-hand sides: the launches, a dependent
# node, a value. The plan: a launch, a node in it. On CPUs nodes and values are for one core.
_CPU_LANES, _CPU_PLAN = (100e-6, 8e-9, 5e-9), (40e-6, 40e-9)
_GPU_LANES, _GPU_PLAN = (30e-6, 0.3e-6, 4e-11), (15e-6, 4e-11)


@dataclass(frozen=True)
class ManySpec(TemplateSpec):
    """Spec of ``many.mako``, which solves cells for many right-hand sides.

    A work-item has `vectors` vectors of `width` right-hand sides each; with `apart` it has one
    right-hand side. In `chains` each node is the only child of the node before.
    """

    template: ClassVar[str] = "solver/by_cell/many"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "eliminate": (
            "const int *restrict cell_first, const int *restrict node",
            "const int *restrict parent, const real *restrict d, const real *restrict u",
            "const real *restrict l",
            "real *restrict inverse, real *restrict up, real *restrict factor",
            "int *restrict status",
        ),
        "substitute": (
            "int rows, int size, int num_cells if not apart, int room if not apart",
            "const int *restrict cell_first, const int *restrict node",
            "const int *restrict parent if reads_parents",
            "const int *restrict branches if apart and not chains",
            "const real *restrict inverse, const real *restrict up",
            "const real *restrict factor, const real *b, real *x, real *values if not apart",
            "int *status",
        ),
    }
    status: ClassVar[Word] = STATUS
    growth: ClassVar[int] = GROWTH
    not_finite: ClassVar[int] = NOT_FINITE
    ahead: ClassVar[int] = _AHEAD
    real: str
    width: int = 1
    vectors: int = 1
    apart: bool = False
    chains: bool = False

    @property
    def reads_parents(self) -> bool:
        return not (self.apart and self.chains)

    @property
    def group(self) -> int:
        return _GROUP if self.apart else 1

    @property
    def lanes(self) -> int:
        return self.width * self.vectors


def many_spec(real: str, limits: Limits, chains: bool) -> ManySpec:
    """Return the spec for a device, with vectors that its compiler compiles correctly."""
    if not limits.is_cpu:
        return ManySpec(real, apart=True, chains=chains)
    itemsize = 8 if real == "double" else 4
    width = max(1, min(_LANES, limits.vector_bytes // itemsize, limits.trusted_bytes // itemsize))
    return ManySpec(real, width, max(1, _LANES // width))


def steps_of(forest: Forest) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes in elimination order, parents first, and each one's parent; (n,) int64.

    The first array has natural indices. The second has the parent's position in the first, or -1.
    """
    trees, shape = forest.trees, forest.shape_of_cell
    start, sizes = trees.offsets[:-1][shape], forest.sizes
    of_trees = ranges(start, sizes)  # all cells' steps, as steps in their trees
    first = np.repeat(forest.cell_offsets[:-1] - start, sizes)
    above = trees.parent[trees.order]
    parent = np.where(above < 0, -1, trees.rank[above])[of_trees]
    return trees.order[of_trees] + first, np.where(parent < 0, -1, parent + first)


def is_faster(plan: Plan, limits: Limits, dtype: np.dtype, rows: int) -> bool:
    """Whether `rows` right-hand sides, a lane each, are probably solved faster than by `plan`."""
    forest, most = plan.forest, max(part.max_rhs for part in plan.parts)
    n, cells, largest = forest.num_nodes, forest.num_cells, int(forest.sizes.max())
    blocks, launches, units = -(-rows // _LANES), -(-rows // most), limits.compute_units
    if not limits.is_cpu:
        once, node, value = _GPU_LANES
        launch, of_launch = _GPU_PLAN
        return once + largest * node + n * rows * value < launches * (launch + n * of_launch)
    if largest * _LANES * dtype.itemsize > _CELL_BYTES:
        return False
    once, node, value = _CPU_LANES
    launch, of_launch = _CPU_PLAN
    seconds = once + max(largest, n / units) * node
    seconds += n * blocks * _LANES * value / min(units, cells * blocks)
    return seconds < launches * (launch + n * of_launch / units)
