"""Layouts for a work-item per branch (`LevelStrided`) or a lane per branch (`VectorRows`)."""

from __future__ import annotations

import numpy as np

from clhines.solver.forest import Forest
from clhines.solver.plan.by_branch.schedule import BranchLevels, BranchVectors
from clhines.solver.plan.layout import aligned_blocks, block_gather, expand
from clhines.solver.plan.packing import Blocks


class LevelStrided:
    """The levels of a block one after another; the branches of a level are interleaved.

    Node j of branch k on a level with w branches is at ``level_offset + j * w + k`` (2018 report,
    section 5), counted from the start of the block; shorter branches leave padding.
    """

    def __init__(self, levels: BranchLevels, blocks: Blocks) -> None:
        width, longest = levels.width, levels.longest
        ends = np.cumsum(width * longest)
        begin_of_template = levels.level_start[:-1]
        before = (ends - width * longest)[begin_of_template]
        num_levels = np.diff(levels.level_start)
        self.level_offset = ends - width * longest - np.repeat(before, num_levels)
        values = ends[levels.level_start[1:] - 1] - before
        self.template_size, self.block_start, self.size = aligned_blocks(values, blocks)
        level = np.repeat(np.arange(len(width)), width)
        lane = np.arange(len(level)) - levels.branch_start[level]
        self.first = self.level_offset[level] + lane
        self.stride = width[level]
        self.last = self.first + (levels.length - 1) * self.stride
        self._levels, self._blocks = levels, blocks

    def gather(self, forest: Forest) -> np.ndarray:
        """Return the natural index of each value in device order, (size,) int32; -1: padding."""
        levels = self._levels
        begin = forest.trees.branch_start[levels.tree_branch]
        branch, step = expand(levels.length)
        place = self.first[branch] + step * self.stride[branch]
        return block_gather(
            forest,
            self._blocks,
            self.template_size,
            place,
            levels.slot[branch],
            begin[branch] + step,
        )


class VectorRows:
    """The vectors of a block one after another, each with its nodes nearest the root at the end.

    Node j, counted from the root, of lane k in a vector of r rows is at ``block_start +
    vector_place + (r - 1 - j) * width + k``: the backward sweep reads ascending addresses. Shorter
    branches and idle lanes leave padding.
    """

    def __init__(self, vectors: BranchVectors, blocks: Blocks) -> None:
        ends = np.cumsum(vectors.rows * vectors.width)
        begin = ends - vectors.rows * vectors.width
        before = begin[vectors.template_start[:-1]]
        self.vector_place = begin - before[vectors.template]
        values = ends[vectors.template_start[1:] - 1] - before
        self.template_size, self.block_start, self.size = aligned_blocks(values, blocks)
        self._vectors, self._blocks = vectors, blocks

    def gather(self, forest: Forest) -> np.ndarray:
        vectors = self._vectors
        root = self.vector_place + (vectors.rows - 1) * vectors.width
        first = root[vectors.vector] + vectors.lane
        begin = forest.trees.branch_start[vectors.tree_branch]
        branch, step = expand(vectors.length)
        return block_gather(
            forest,
            self._blocks,
            self.template_size,
            first[branch] - step * vectors.width,
            vectors.slot[branch],
            begin[branch] + step,
        )
