"""Tiles of blocks: cells of one shape side by side, and the instances of a kind in groups of these.

Where a tile has L cells, each of its slots has L places, one per cell; slots are nodes in the order
of elimination. So a vector of L numbers is a node of all the cells, and vectors of instances read
places that follow each other:

    places of a tile of 2 cells    slot 0: a0 b0    slot 1: a1 b1    slot 2 (the roots): a2 b2
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clhines.arrays import offsets, starts, stretch_of
from clhines.model.model import Kind, Model
from clhines.simulate.cpu.groups import choose_width, make_blocks
from clhines.simulate.cpu.pivots import node_classes
from clhines.simulate.cpu.plan import Blocks
from clhines.simulate.kinds.layouts import Columns, Layout, is_artificial


@dataclass(frozen=True, eq=False)
class Tiles:
    """Tiles block after block, and the places of nodes in them.

    Attributes
    ----------
    node : (n,) int64
        At each place.
    block_place : (blocks + 1,) int64
        First place of each block.
    block, width, place, slots, parents : (tiles,) int64
        Of each tile the block, the number of cells, the first place, the number of slots, and where
        its entries of `parent` begin.
    parent : (num_nodes of all shapes,) int64
        The parent's slot, by shape and slot; -1 of roots.
    """

    node: np.ndarray
    block_place: np.ndarray
    block: np.ndarray
    width: np.ndarray
    place: np.ndarray
    slots: np.ndarray
    parents: np.ndarray
    parent: np.ndarray

    @property
    def widths(self) -> list[int]:
        """Widths that there are."""
        return np.unique(self.width).tolist()


def make_tiles(model: Model, blocks: Blocks, widest: int) -> Tiles:
    """Put the cells of each block into tiles of powers of two, at most `widest`, by shape."""
    forest = model.forest
    shapes = make_blocks(forest, np.ones(len(forest.trees.parent), bool), 1, node_classes(model))
    found: list[tuple[int, int, int]] = []
    nodes: list[np.ndarray] = []
    for block in range(blocks.count):
        cells = blocks.order[blocks.cells[block] : blocks.cells[block + 1]]
        shape = forest.shape_of_cell[cells]
        for s in np.unique(shape).tolist():
            alike = cells[shape == s]
            slots = shapes.order[shapes.first[s] : shapes.first[s] + shapes.sizes[s]]
            while len(alike):
                width = min(widest, 1 << (len(alike).bit_length() - 1))
                some, alike = alike[:width], alike[width:]
                nodes.append((forest.cell_offsets[some] + slots[:, None]).reshape(-1))
                found.append((block, width, s))
    of_block, width, of_shape = np.array(found, np.int64).T
    size = np.array([len(some) for some in nodes])
    return Tiles(
        node=np.concatenate(nodes),
        block_place=offsets(np.bincount(of_block, size, blocks.count).astype(np.int64)),
        block=of_block,
        width=width,
        place=starts(size),
        slots=shapes.sizes[of_shape],
        parents=shapes.first[of_shape],
        parent=shapes.parent,
    )


@dataclass(frozen=True, eq=False)
class Groups(Columns):
    """Instances of a kind in groups, block after block, by place; a group has lines of `width`.

    Attributes
    ----------
    width : int
    position : (count,) int64
        Of each instance: ``group * width + lane``.
    source : (groups, width) int64
        Instances; the last group of a block is filled up with its last one.
    kept : (groups, width) bool
        Whether a lane has an instance of its own.
    first : (blocks + 1,) int64
        First group of each block.
    """

    width: int
    position: np.ndarray
    source: np.ndarray
    kept: np.ndarray
    first: np.ndarray

    def at(self, instance: np.ndarray, column: int, columns: int) -> np.ndarray:
        """Where instances have their values in one of so many columns."""
        group, lane = np.divmod(self.position[instance], self.width)
        return (group * columns + column) * self.width + lane

    def filled(self, values: list[np.ndarray]) -> np.ndarray:  # type: ignore[override]
        """Return what arenas have of columns: lines of a group, one after another."""
        if not values:
            return np.zeros(0)
        return np.stack([v[self.source] for v in values], axis=1).reshape(-1)


def make_groups(place: np.ndarray, tiles: Tiles, most: int, twice: bool) -> Groups:
    """Group instances by their places.

    Parameters
    ----------
    place : (count,) int64
    tiles : Tiles
    most, twice
        As of `choose_width`.
    """
    num_blocks = len(tiles.block_place) - 1
    order = np.argsort(place, kind="stable")
    of_block = np.bincount(stretch_of(tiles.block_place, place), minlength=num_blocks)
    width = max(2, choose_width(of_block, most, twice))
    groups = -(-of_block // width)
    first = offsets(groups)
    position = np.empty(len(place), np.int64)
    within = np.arange(len(place)) - np.repeat(starts(of_block), of_block)
    position[order] = np.repeat(first[:-1] * width, of_block) + within
    spare = groups * width - of_block
    source = np.full(int(first[-1]) * width, -1)
    source[position] = np.arange(len(place))
    kept = source >= 0
    source[~kept] = np.repeat(order[np.cumsum(of_block) - 1], spare)
    shape = -1, width
    return Groups(
        len(place), width, position, source.reshape(shape), kept.reshape(shape), first
    )


class BlockLayout(Layout):
    """Where the arenas of blocks of cells have what belongs to nodes and instances: by place."""

    def __init__(self, model: Model, tiles: Tiles, most: int, twice: bool) -> None:
        super().__init__(model)
        self.tiles, self._place = tiles, np.empty(len(tiles.node), np.int64)
        self._place[tiles.node] = np.arange(len(tiles.node))
        self.groups = {
            k: make_groups(self._place[kind.node], tiles, most, twice)
            for k, kind in enumerate(model.kinds)
            if not is_artificial(kind)
        }

    @property
    def nodes(self) -> np.ndarray:  # type: ignore[override]
        """(n,) int64: nodes in the order of the arenas."""
        return self.tiles.node

    @property
    def count(self) -> int:
        """Number of nodes."""
        return len(self.tiles.node)

    def number(self, node: np.ndarray) -> np.ndarray:
        """Return the places of nodes; -1 of no node."""
        return np.where(node < 0, -1, self._place[node])

    def columns(self, k: int, kind: Kind) -> Columns:
        """Where the values of kind `k` are."""
        return self.groups.get(k) or super().columns(k, kind)
