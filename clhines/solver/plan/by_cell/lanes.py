"""Plan chains on CPUs, a chain per lane of a vector, for `solver.engines.lanes`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from clhines.core.arrays import offsets
from clhines.solver.forest import Forest
from clhines.solver.plan.kernel_spec import GROWTH, STATUS, TemplateSpec, Word
from clhines.solver.plan.plan import MAX_PLACES, Limits

LANES = 8  # chains in a block
_MOST_ROWS = 1 << 14  # longest chain in lanes: blocks with longer chains exceed the cache
_LONG_ROWS = 1 << 20  # least rows in chains for which no plan is made
_FEW = 1 << 14  # batches up to this many values, padding included, may be mostly padding
_PADDING = 1.5  # most values per row, padding included, in other batches


@dataclass(frozen=True)
class LanesSpec(TemplateSpec):
    """Spec of ``lanes.mako``: a chain per vector lane, `vectors` vectors of `width` in a block."""

    template: ClassVar[str] = "solver/by_cell/lanes"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "eliminate": (
            "int num_blocks, const int *restrict block_first, const int *restrict lane_first",
            "const int *restrict lane_rows if ragged, const int *restrict lane_chain",
            "const real *restrict d, const real *restrict u, const real *restrict l if unsymmetric",
            "wide *restrict inverse, wide *restrict low, wide *restrict up if unsymmetric",
            "int *restrict status",
        ),
        "substitute": (
            "int num_blocks, int num_rhs, int size, int room if wider",
            "const int *restrict block_first, const int *restrict lane_first",
            "const int *restrict lane_rows if ragged, const wide *restrict inverse",
            "const wide *restrict low, const wide *restrict up if unsymmetric",
            "const real *all_b, real *all_x, wide *restrict values if wider, int *not_finite",
        ),
    }
    status: ClassVar[Word] = STATUS
    growth: ClassVar[int] = GROWTH
    real: str
    width: int
    vectors: int
    ragged: bool
    symmetric: bool

    @property
    def lanes(self) -> int:
        return self.width * self.vectors

    @property
    def wider(self) -> bool:
        """Whether a block has several chains, which are solved in scratch memory."""
        return self.lanes > 1

    @property
    def unsymmetric(self) -> bool:
        return not self.symmetric


def lanes_spec(real: str, limits: Limits, blocks: ChainBlocks, symmetric: bool) -> LanesSpec:
    """Return the spec for a device, with vectors that its compiler compiles correctly."""
    itemsize = 8 if real == "double" else 4
    width = min(limits.vector_bytes, limits.trusted_bytes) // itemsize
    width = max(1, min(blocks.lanes, width))
    return LanesSpec(real, width, blocks.lanes // width, blocks.ragged, symmetric)


@dataclass(frozen=True, eq=False)
class ChainBlocks:
    """Chains grouped into blocks of `lanes` chains, longest first if their lengths differ.

    Attributes
    ----------
    first : (num_blocks + 1,) int64
        First row of each block, and the end; a block has as many rows as its longest chain.
    chain : (num_blocks * lanes,) int64
        Chain of each lane.
    ragged : bool
        Whether the chains of a block may differ in length.
    """

    lanes: int
    first: np.ndarray
    chain: np.ndarray
    ragged: bool

    @property
    def num_blocks(self) -> int:
        return len(self.first) - 1

    @property
    def size(self) -> int:
        """Value count of an array of the eliminated matrix, with padding."""
        return int(self.first[-1]) * self.lanes

    @property
    def are_long(self) -> bool:
        """Whether chains are so long that making a plan would take much longer than a solve."""
        return self.lanes == 1 and int(self.first[-1]) >= _LONG_ROWS

    @property
    def room(self) -> int:
        """Row count of the longest block."""
        return int(np.diff(self.first).max())


def blocks_of(forest: Forest) -> ChainBlocks | None:
    """Group a forest's chains into blocks; None if it has branches or needs much padding."""
    if not forest.trees.is_chains:
        return None
    sizes = forest.sizes
    count, largest = len(sizes), int(sizes.max())
    ragged = int(sizes.min()) < largest
    order = np.argsort(-sizes, kind="stable") if ragged else np.arange(count)
    if count > 1 and largest <= _MOST_ROWS:
        place = np.arange(-(-count // LANES) * LANES)
        place = np.where(place < count, place, place // LANES * LANES)
        blocks = ChainBlocks(LANES, offsets(sizes[order[::LANES]]), order[place], ragged)
        if blocks.size <= max(_FEW, _PADDING * forest.num_nodes):
            return blocks if blocks.size <= MAX_PLACES else None
    return ChainBlocks(1, offsets(sizes), np.arange(count), False)
