"""Pieces: cells too large for a work-group cut into connected pieces, and the map back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clhines.arrays import climb, offsets, ranges, starts, stretch_of
from clhines.forest import Forest, Trees
from clhines.plan.by_segment import schedule
from clhines.plan.by_segment.cut import Cut


@dataclass(frozen=True, eq=False)
class Pieces:
    """Cells cut into connected pieces, each a cell of its own in a new forest.

    Attributes
    ----------
    forest : Forest
        The pieces, those of a cell one after another.
    natural : (n,) int64
        Index in the old forest of each node of the new one.
    cell : (num_pieces,) int64
        Old cell of each piece.
    above : (num_pieces,) int64
        Node of the new forest that each piece hangs from, -1 for the roots of the cells.
    ends : (nodes of forest.trees,) bool
        First node of each piece, and every node that another piece hangs from.
    rank : (nodes of forest.trees,) int64
        Place of each node in the elimination order of its old tree.
    """

    forest: Forest
    natural: np.ndarray
    cell: np.ndarray
    above: np.ndarray
    ends: np.ndarray
    rank: np.ndarray


def split_cells(forest: Forest, segment: int, most: int, most_segments: int) -> Pieces:
    """Cut every cell into connected pieces that fit a work-group.

    Parameters
    ----------
    segment : int
        Most nodes of a segment, see `schedule.segments`; pieces consist of whole segments.
    most, most_segments : int
        Most values in local memory, and most segments, of a piece.
    """
    trees = forest.trees
    cut = schedule.segments(trees, segment)
    top = schedule.pieces(cut, most, most_segments)
    anchor, _ = climb(np.where(top, np.arange(len(top)), cut.parent), np.zeros(len(top), np.int64))
    number = (np.cumsum(top) - 1)[anchor]  # piece of each segment
    piece = np.repeat(number, cut.length)  # of each place in trees.order
    place = np.argsort(piece, kind="stable")
    new = np.empty_like(place)
    new[place] = np.arange(len(place))
    above = trees.parent[trees.order]
    above = np.where(above < 0, -1, trees.rank[above])  # parents as places
    bounds = offsets(np.bincount(piece))
    inside = (above >= 0) & (piece[above] == piece)
    pieces = Trees(bounds, np.where(inside, new[above], -1)[place])
    first = place[bounds[:-1]]  # the top of each piece
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
        forest=Forest.of_trees(pieces, which),
        natural=natural,
        cell=cell,
        above=np.where(hangs[which] < 0, -1, hangs[which] + shift),
        ends=ends,
        rank=(np.arange(len(place)) - trees.offsets[tree_of_place])[place],
    )


def kept_forest(pieces: Pieces, cut: Cut, num_cells: int) -> tuple[Forest, np.ndarray]:
    """Return the trees of kept nodes, and the index of each of these in `pieces.forest`."""
    trees, segment = pieces.forest.trees, cut.segments
    kept = np.flatnonzero(cut.kept >= 0)
    tree = np.searchsorted(segment.offsets, kept, side="right") - 1
    last = trees.order[segment.first[kept] + segment.length[kept] - 1]  # nodes of trees
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


def tree_nodes(forest: Forest) -> np.ndarray:
    """(num_nodes,) int64: index in `forest.trees` of each node."""
    shape = forest.shape_of_cell
    return ranges(forest.trees.offsets[shape], forest.trees.sizes[shape])
