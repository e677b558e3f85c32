"""Tiles of blocks: cells side by side, and the instances of a kind in groups of these.

Where a tile has L lanes, each of its slots has L places; slots are nodes in the order of
elimination, the roots last. So a vector of L numbers is a node of L cells of one shape, and vectors
of instances read places that follow each other:

    places of a tile of 2 lanes    slot 0: a0 b0    slot 1: a1 b1    slot 2 (the roots): a2 b2

A tile may have several times L cells, of several shapes: what follows each other in the order of
elimination is then mostly of different cells, and does not wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from clhines.arrays import offsets, starts
from clhines.forest import Forest
from clhines.model.model import Kind, Model
from clhines.simulate.cpu.groups import TOGETHER, Groups, eliminated, make_groups
from clhines.simulate.cpu.pivots import class_changes, node_classes, nodes_in_part
from clhines.simulate.cpu.plan import Blocks
from clhines.simulate.kinds.layouts import Columns, Layout, is_artificial


@dataclass(frozen=True, eq=False)
class Tiles:
    """Tiles block after block, and the places of nodes in them."""

    node: np.ndarray  # (n,), at each place
    block_place: np.ndarray  # (blocks + 1,), first place of each block
    block: np.ndarray  # this and the next are by tile
    width: np.ndarray  # lanes
    place: np.ndarray  # first place
    slots: np.ndarray
    roots: np.ndarray
    parents: np.ndarray  # where its entries of `parent` begin
    parent: np.ndarray  # slots, -1 of roots

    @property
    def widths(self) -> list[int]:
        """Widths that there are."""
        return np.unique(self.width).tolist()


def make_tiles(model: Model, blocks: Blocks, widest: int, network: Model | None = None) -> Tiles:
    """Put cells of each block into tiles of powers of two lanes, in classes of the `network`."""
    forest, classes = model.forest, node_classes(network or model)
    if network is not None and network is not model:
        classes = classes[nodes_in_part(model, network)]
    trees = forest.trees
    keys = -trees.depth, classes, -class_changes(trees, classes), trees.parent < 0
    found: list[tuple[int, int, int]] = []
    nodes, parents = list[np.ndarray](), list[np.ndarray]()
    for block in range(blocks.count):
        cells = blocks.order[blocks.cells[block] : blocks.cells[block + 1]]
        for width, rows in _rows(forest, cells, widest):
            shapes = forest.shape_of_cell[rows[:, 0]].tolist()
            at, row, parent = eliminated(trees, shapes, keys)
            within = at - trees.offsets[shapes][row]
            nodes.append((forest.cell_offsets[rows][row] + within[:, None]).reshape(-1))
            parents.append(parent)
            found.append((block, width, len(rows)))
    of_block, width, roots = np.array(found, np.int64).T
    size, slots = (np.array([len(a) for a in some]) for some in (nodes, parents))
    return Tiles(
        node=np.concatenate(nodes),
        block_place=offsets(np.bincount(of_block, size, blocks.count).astype(np.int64)),
        block=of_block,
        width=width,
        place=starts(size),
        slots=slots,
        roots=roots,
        parents=starts(slots),
        parent=np.concatenate(parents),
    )


def _rows(forest: Forest, cells: np.ndarray, widest: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield widths, and cells in rows of so many of one shape."""
    rows = dict[int, list[np.ndarray]]()
    shape = forest.shape_of_cell[cells]
    for s in np.unique(shape).tolist():
        alike = cells[shape == s]
        while len(alike):
            width = min(widest, 1 << (len(alike).bit_length() - 1))
            rows.setdefault(width, []).append(alike[:width])
            alike = alike[width:]
    for width, several in rows.items():
        sizes = forest.sizes[[row[0] for row in several]]
        group = starts(sizes) * width // TOGETHER
        for g in np.unique(group):
            yield width, np.stack([several[k] for k in np.flatnonzero(group == g)])


class BlockLayout(Layout):
    """Where the arenas of blocks of cells have what belongs to nodes and instances: by place."""

    def __init__(self, model: Model, tiles: Tiles, most: int, twice: bool) -> None:
        super().__init__(model)
        self.tiles, self._place = tiles, np.empty(len(tiles.node), np.int64)
        self._place[tiles.node] = np.arange(len(tiles.node))
        self.groups: dict[int, Groups] = {
            k: make_groups(
                np.arange(kind.count), self._place[kind.node], tiles.block_place, most, twice, True
            )
            for k, kind in enumerate(model.kinds)
            if not is_artificial(kind)
        }

    @property
    def nodes(self) -> np.ndarray:
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
