"""Forest: a batch of trees; it checks them, and finds distinct shapes, branches and levels.

All of this is vectorised NumPy. Ancestors are found by pointer jumping: a chain of a million nodes
takes twenty rounds instead of a million.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from clhines.core import arrays
from clhines.core.checks import as_array, as_places, as_whole_number, check_room, integers
from clhines.core.errors import ForestError, shown
from clhines.core.summary import counted

_NODE_BYTES, _CELL_BYTES = 8, 32  # forest memory per node and per cell, bytes
_CHUNK_NODES = 1 << 20  # nodes to compare at once: they stay in the cache


def _as_list(parents: object) -> list[np.ndarray]:
    if not isinstance(parents, Iterable) or (isinstance(parents, np.ndarray) and not parents.ndim):
        raise ForestError(f"parents is {shown(parents)}; expected a list of arrays")
    return list(parents)


def _are_flat(parents: Sequence[np.ndarray]) -> bool:
    try:
        return all(np.ndim(p) == 1 for p in parents)
    except ValueError:  # nested lists with different lengths
        return False


@dataclass(frozen=True, eq=False)
class Trees:
    """The distinct trees of a forest, one after another, with their branches.

    A *branch* is a maximal chain of nodes. It starts at a root, at each child of a node with
    several children, and at each node of `cuts`, (num_nodes,) bool. Branches are numbered by tree,
    then level, then first node (2018 report, section 2).
    """

    offsets: np.ndarray  # tree s has the nodes ``offsets[s]:offsets[s + 1]``
    parent: np.ndarray  # each node's parent, as an index in these arrays; -1 at roots
    cuts: np.ndarray | None = None

    @property
    def num_trees(self) -> int:
        return len(self.offsets) - 1

    def used(self, shape_of_cell: np.ndarray) -> tuple[np.ndarray, Trees]:
        """Drop trees that no cell has; return each cell's new tree number, and the trees left."""
        shapes, first = np.unique(shape_of_cell, return_index=True)
        shapes = shapes[np.argsort(first)]
        if np.array_equal(shapes, np.arange(self.num_trees)):
            return shape_of_cell, self
        number = arrays.inverse(shapes, self.num_trees)
        bounds = arrays.offsets(self.sizes[shapes])
        nodes = arrays.ranges(self.offsets[shapes], self.sizes[shapes])
        parent = arrays.moved(
            self.parent[nodes], bounds[:-1] - self.offsets[shapes], self.sizes[shapes]
        )
        cuts = None if self.cuts is None else self.cuts[nodes]
        return number[shape_of_cell], Trees(bounds, parent, cuts)

    @cached_property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)

    @cached_property
    def is_chains(self) -> bool:
        """Whether all trees are chains, with each node directly after its parent."""
        inner = np.ones(len(self.parent), bool)
        inner[self.offsets[:-1]] = False
        return bool((self.parent[inner] == np.flatnonzero(inner) - 1).all())

    @cached_property
    def num_children(self) -> np.ndarray:
        inner = self.parent[self.parent >= 0]
        return np.bincount(inner, minlength=len(self.parent))

    @cached_property
    def _chains(self) -> tuple[np.ndarray, np.ndarray]:
        """First node of each node's branch, and the node's position in that branch."""
        inner = self.parent >= 0
        is_first = ~inner
        is_first[inner] = self.num_children[self.parent[inner]] != 1
        if self.cuts is not None:
            is_first |= self.cuts
        return arrays.climb(np.where(is_first, -1, self.parent))

    @cached_property
    def _branches(self) -> tuple[np.ndarray, ...]:
        first_of_node, _ = self._chains
        heads = np.flatnonzero(first_of_node == np.arange(len(self.parent)))
        number = arrays.inverse(heads, len(self.parent))
        branch_of_node = number[first_of_node]  # -1 on a cycle without side branches
        above = self.parent[heads]
        above = np.where(above >= 0, branch_of_node[above], -1)
        is_root = above < 0
        top, level = arrays.climb(above)
        tree = np.searchsorted(self.offsets, heads, side="right") - 1
        rank = np.lexsort((heads, level, tree))
        new = arrays.inverse(rank)
        on_cycle = branch_of_node < 0
        on_cycle[~on_cycle] = ~is_root[top[branch_of_node[~on_cycle]]]
        branch_of_node = np.where(branch_of_node < 0, -1, new[branch_of_node])
        parent = np.where(is_root, -1, new[above])[rank]
        return branch_of_node, heads[rank], parent, level[rank], tree[rank], on_cycle

    @property
    def position(self) -> np.ndarray:
        """Index of each node in its branch, (num_nodes,) int64; 0 is nearest the root."""
        return self._chains[1]

    @property
    def branch_of_node(self) -> np.ndarray:
        return self._branches[0]

    @property
    def branch_first(self) -> np.ndarray:
        """The node of each branch that is nearest the root, (num_branches,) int64."""
        return self._branches[1]

    @property
    def branch_parent(self) -> np.ndarray:
        """The branch from which each branch starts, (num_branches,) int64; -1 at roots."""
        return self._branches[2]

    @property
    def branch_level(self) -> np.ndarray:
        """Number of branches above each branch, (num_branches,) int64; 0 for a root's branch."""
        return self._branches[3]

    @property
    def branch_tree(self) -> np.ndarray:
        return self._branches[4]

    @property
    def on_cycle(self) -> np.ndarray:
        """Whether ancestors of a node form a cycle, (num_nodes,) bool; never in a valid forest."""
        return self._branches[5]

    @cached_property
    def branch_length(self) -> np.ndarray:
        return np.bincount(self.branch_of_node, minlength=len(self.branch_first))

    @cached_property
    def branch_offsets(self) -> np.ndarray:
        """First branch of each tree, and the branch count, (num_trees + 1,) int64."""
        counts = np.bincount(self.branch_tree, minlength=self.num_trees)
        return arrays.offsets(counts)

    @cached_property
    def num_levels(self) -> np.ndarray:
        return self.branch_level[self.branch_offsets[1:] - 1] + 1

    @cached_property
    def branch_start(self) -> np.ndarray:
        """Index in `order` of each branch's first node, (num_branches,) int64."""
        return arrays.starts(self.branch_length)

    @cached_property
    def order(self) -> np.ndarray:
        """The nodes, branch after branch, (num_nodes,) int64; reversed, the elimination order."""
        return arrays.inverse(self.rank)

    @cached_property
    def rank(self) -> np.ndarray:
        """Index of each node in `order`, (num_nodes,) int64."""
        return self.branch_start[self.branch_of_node] + self.position

    @cached_property
    def depth(self) -> np.ndarray:
        """Number of edges from the root to each node, (num_nodes,) int64."""
        above = self.branch_parent
        _, before = arrays.climb(above, np.where(above < 0, 0, self.branch_length[above]))
        return before[self.branch_of_node] + self.position

    def by_level(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first branch of each level, tree after tree, and each tree's index in this."""
        first = np.flatnonzero(np.diff(self.branch_level, prepend=-1))
        first = np.union1d(first, self.branch_offsets[:-1])  # a tree with one level follows another
        return first, np.searchsorted(first, self.branch_offsets[:-1])

    @cached_property
    def heights(self) -> np.ndarray:
        """Number of nodes on the longest path from the root to a tip, (num_trees,) int64."""
        return np.maximum.reduceat(self.depth, self.offsets[:-1]) + 1


class ChainTrees(Trees):
    """Chains of given lengths; their parents are only computed when needed."""

    is_chains = True

    def __init__(self, sizes: np.ndarray) -> None:
        vars(self)["offsets"] = arrays.offsets(sizes)

    @cached_property
    def parent(self) -> np.ndarray:
        parent = np.arange(self.offsets[-1]) - 1
        parent[self.offsets[:-1]] = -1
        parent.flags.writeable = False
        return parent


class Forest:
    """A batch of cells, each a rooted tree: the structure of Hines matrices.

    Arguments are copied; the arrays of a forest are read-only.

    Parameters
    ----------
    parent : (n,) integer array
        Index of each node's parent in this same array, -1 at each root. Within a cell any order is
        accepted; parents need not come first.
    cell_offsets : (num_cells + 1,) integer array, optional
        Nodes of cell c are ``cell_offsets[c]:cell_offsets[c + 1]``. Default: one cell.

    Attributes
    ----------
    trees : Trees
        The distinct shapes of the cells. Cells of one shape are analysed and planned once.
    shape_of_cell : (num_cells,) int64
        Number of each cell's tree in `trees`; shapes are numbered by first appearance.

    Raises
    ------
    ForestError
        Parent out of range or in another cell, cycle, no root or several roots, empty cell, offsets
        not increasing, wrong dtype, NaN. The message names the cell and the node.
    """

    def __init__(self, parent: np.ndarray, cell_offsets: np.ndarray | None = None) -> None:
        first: object = parent[0] if isinstance(parent, (list, tuple)) and len(parent) else None
        if isinstance(first, (list, tuple)) or getattr(first, "ndim", 0) > 0:
            raise ForestError(
                "parent holds several arrays; expected one, or Forest.from_parents(parents)"
            )
        parents = integers(parent, "parent").copy()
        bounds = np.array([0, len(parents)]) if cell_offsets is None else cell_offsets
        self._take_over(parents, integers(bounds, "cell_offsets").astype(np.int64))

    def _take_over(self, parent: np.ndarray, cell_offsets: np.ndarray) -> None:
        """Check, analyse and freeze arrays that nothing else refers to."""
        self.parent, self.cell_offsets = parent, cell_offsets
        self._check_offsets(len(parent))
        self.shape_of_cell, first_cell = self._group_cells()
        sizes = self.sizes[first_cell]
        parents = arrays.parents_of(self.parent, self.cell_offsets[first_cell], sizes)
        self.trees = Trees(arrays.offsets(sizes), parents.astype(np.int64))
        self._check_trees(first_cell)
        self._freeze()

    def _freeze(self) -> None:
        trees = self.trees
        computed = [vars(one)["parent"] for one in (self, trees) if "parent" in vars(one)]
        for a in (*computed, self.cell_offsets, self.shape_of_cell, trees.offsets):
            a.flags.writeable = False

    @cached_property
    def parent(self) -> np.ndarray:
        """Parent of each node, (n,) integer; computed when first needed."""
        parent = self._parents()
        parent.flags.writeable = False
        return parent

    @classmethod
    def from_parents(cls, parents: Iterable[np.ndarray]) -> Forest:
        """Make a forest from each cell's parents, (n_c,), counted from 0 in the cell; root: -1."""
        cells = [integers(p, f"parent of cell {c}") for c, p in enumerate(_as_list(parents))]
        sizes = np.array([len(p) for p in cells], np.int64)
        bounds = arrays.offsets(sizes)
        flat = np.concatenate([*cells, np.empty(0, np.int64)]).astype(np.int64)
        bad = np.flatnonzero((flat < -1) | (flat >= np.repeat(sizes, sizes)))
        if len(bad):
            i = int(bad[0])
            c = int(np.searchsorted(bounds, i, side="right")) - 1
            raise ForestError(
                f"cell {c}, node {i - bounds[c]}: parent {flat[i]} is out of range; expected "
                f"-1 or 0 to {sizes[c] - 1}"
            )
        return cls(arrays.moved(flat, bounds[:-1], sizes), bounds)

    @classmethod
    def repeat(cls, parents: Sequence[np.ndarray], num_cells: int) -> Forest:
        """Make a forest of `num_cells` cells whose trees cycle through `parents`.

        `parents` are (n_c,) integer arrays: each node's parent in its cell, -1 at the root.
        """
        parents = _as_list(parents)
        whole = isinstance(num_cells, (int, np.integer)) and not isinstance(num_cells, bool)
        if not whole or num_cells < 1 or not len(parents):
            raise ForestError(
                f"got {len(parents)} trees for {shown(num_cells)} cells; expected 1 or more"
            )
        if not _are_flat(parents):
            raise ForestError(
                "parents has a tree that is not 1-dimensional; expected a list of arrays, "
                "also of a single tree: [parent]"
            )
        nodes = arrays.repeated_nodes([len(p) for p in parents], num_cells)
        num_cells = int(num_cells)
        check_room(_NODE_BYTES * nodes + _CELL_BYTES * num_cells, f"{shown(num_cells)} cells")
        once = cls.from_parents(parents[:num_cells])
        shape_of_cell = np.resize(once.shape_of_cell, num_cells)
        return cls._of(
            once.trees, shape_of_cell, partial(arrays.repeated_parents, once.parent, nodes)
        )

    def copied(self, count: int) -> Forest:
        """Return a forest with this one's cells `count` times, without analysing them again."""
        nodes, cells = self.num_nodes * count, self.num_cells * count
        check_room(_NODE_BYTES * nodes + _CELL_BYTES * cells, f"{cells} cells")
        parents = partial(arrays.repeated_parents, self.parent, nodes)
        return self._of(self.trees, np.tile(self.shape_of_cell, count), parents)

    @classmethod
    def from_trees(cls, trees: Trees, shape_of_cell: np.ndarray) -> Forest:
        """Make a forest from valid, distinct trees; cell c has tree ``shape_of_cell[c]``."""
        first, sizes = trees.offsets[shape_of_cell], trees.sizes[shape_of_cell]

        def parents() -> np.ndarray:
            return arrays.parents_of(trees.parent, first, sizes)

        return cls._of(trees, np.array(shape_of_cell), parents)

    @classmethod
    def _of(cls, trees: Trees, shapes: np.ndarray, parents: Callable[[], np.ndarray]) -> Forest:
        """Make a forest of valid trees; ``parents()`` computes its `parent` when first needed."""
        forest = cls.__new__(cls)
        forest._put(trees, shapes, parents)
        return forest

    def _put(self, trees: Trees, shapes: np.ndarray, parents: Callable[[], np.ndarray]) -> None:
        self.trees, self.shape_of_cell, self._parents = trees, shapes, parents
        self.cell_offsets = arrays.offsets(trees.sizes[shapes])
        self._check_offsets(self.num_nodes)
        self._freeze()

    @property
    def num_cells(self) -> int:
        """Number of cells."""
        return len(self.cell_offsets) - 1

    @property
    def num_nodes(self) -> int:
        """Number of nodes over all cells."""
        return int(self.cell_offsets[-1])

    @cached_property
    def sizes(self) -> np.ndarray:
        """Number of nodes of each cell, (num_cells,) int64."""
        return np.diff(self.cell_offsets)

    @property
    def num_branches(self) -> int:
        """Number of branches over all cells."""
        return int(np.diff(self.trees.branch_offsets)[self.shape_of_cell].sum())

    @property
    def heights(self) -> np.ndarray:
        """Number of nodes on the longest path from root to tip, (num_cells,) int64."""
        return self.trees.heights[self.shape_of_cell]

    def node_index(self, cell: int, rank: int) -> int:
        """Return a node's natural index from `rank`, its number in the elimination order."""
        cell = as_whole_number("cell", cell, 0, self.num_cells - 1)
        rank = as_whole_number("rank", rank, 0, int(self.sizes[cell]) - 1)
        shape = int(self.shape_of_cell[cell])
        start = int(self.trees.offsets[shape])
        return int(self.trees.order[start + rank]) - start + int(self.cell_offsets[cell])

    def subset(self, cells: np.ndarray) -> Forest:
        """Return the forest of the selected `cells`, (m,) integer or (num_cells,) bool."""
        cells = np.atleast_1d(as_array("cells", cells))
        cells = as_places("cells", cells, self.num_cells, "cell")
        first, sizes = self.cell_offsets[cells], self.sizes[cells]
        shape_of_cell, trees = self.trees.used(self.shape_of_cell[cells])
        return self._of(trees, shape_of_cell, lambda: arrays.parents_of(self.parent, first, sizes))

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "parent": self.parent, "_parents": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._freeze()

    def __repr__(self) -> str:
        cells, nodes = counted(self.num_cells, "cell"), counted(self.num_nodes, "node")
        return f"Forest({cells}, {nodes}, {counted(self.trees.num_trees, 'distinct shape')})"

    def _check_offsets(self, n: int) -> None:
        bounds = self.cell_offsets
        if len(bounds) < 2:
            raise ForestError(f"cell_offsets has {len(bounds)} entries; expected at least 2")
        if bounds[0] != 0 or bounds[-1] != n:
            raise ForestError(
                f"cell_offsets runs from {bounds[0]} to {bounds[-1]}; expected 0 to {n}, "
                "the length of parent"
            )
        bad = np.flatnonzero(np.diff(bounds) <= 0)
        if len(bad):
            c = int(bad[0])
            what = "is empty" if bounds[c] == bounds[c + 1] else "has decreasing offsets"
            raise ForestError(
                f"cell {c} {what}: cell_offsets[{c}] = {bounds[c]}, "
                f"cell_offsets[{c + 1}] = {bounds[c + 1]}; expected increasing offsets"
            )

    def _rows(self, cells: np.ndarray, size: int) -> np.ndarray:
        """Return the parents in cells of one size, (len(cells), size), numbered from 0 per cell."""
        starts = self.cell_offsets[cells]
        if starts[-1] - starts[0] == (len(cells) - 1) * size:  # consecutive cells: no copy needed
            rows = self.parent[starts[0] : starts[-1] + size].reshape(-1, size)
        else:
            rows = self.parent[starts[:, None] + np.arange(size)]
        local = rows - starts[:, None].astype(rows.dtype)
        outside = (local.max(axis=1) >= size).any() or ((rows >= 0) & (local < 0)).any()
        if rows.min() < -1 or outside:
            self._raise_range(cells, rows, local, size)
        np.copyto(local, -1, where=rows < 0)
        return local

    def _raise_range(
        self, cells: np.ndarray, rows: np.ndarray, local: np.ndarray, size: int
    ) -> None:
        bad = (rows < -1) | (local >= size) | ((rows >= 0) & (local < 0))
        r, k = (int(v) for v in np.argwhere(bad)[0])
        cell, p, lo = int(cells[r]), int(rows[r, k]), int(self.cell_offsets[cells[r]])
        where = f"cell {cell}, node {lo + k}: parent {p}"
        if p < -1 or p >= len(self.parent):
            raise ForestError(f"{where} is out of range; expected -1 or {lo} to {lo + size - 1}")
        other = int(arrays.stretch_of(self.cell_offsets, p))
        raise ForestError(
            f"{where} lies in cell {other}; expected -1 or a node of its own cell, "
            f"{lo} to {lo + size - 1} (Forest.from_parents counts from 0 in each cell)"
        )

    def _equal_sized(self) -> Iterator[tuple[np.ndarray, int]]:
        """Yield (cells of one size, this size), at most about `_CHUNK_NODES` nodes at a time."""
        by_size = np.argsort(self.sizes, kind="stable")
        cuts = np.flatnonzero(np.diff(self.sizes[by_size])) + 1
        for cells in np.split(by_size, cuts):
            size = int(self.sizes[cells[0]])
            step = max(1, _CHUNK_NODES // size)
            for k in range(0, len(cells), step):
                yield cells[k : k + step], size

    def _group_cells(self) -> tuple[np.ndarray, np.ndarray]:
        """Group cells with equal trees; return the shape of each cell, and each shape's first cell.

        Cells are grouped by a hash, and then compared: collisions only cost time.
        """
        hashes = np.empty(self.num_cells, np.int64)
        weights = np.random.default_rng(2018).integers(1, 1 << 62, int(self.sizes.max())) | 1
        for cells, size in self._equal_sized():
            hashes[cells] = self._rows(cells, size) @ weights[:size] + size
        _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
        leader = first[group.reshape(-1)]
        for cells, size in self._equal_sized():
            mine = self._rows(cells, size)
            others, which = np.unique(leader[cells], return_inverse=True)
            same = self.sizes[others] == size
            ok = same[which]
            theirs = self._rows(others[same], size) if same.any() else mine[:0]
            slot = np.cumsum(same) - 1
            ok[ok] = (mine[ok] == theirs[slot[which[ok]]]).all(axis=1)
            leader[cells[~ok]] = cells[~ok]
        first_cell, shape = np.unique(leader, return_inverse=True)
        return shape.reshape(-1), first_cell

    def _check_trees(self, first_cell: np.ndarray) -> None:
        trees = self.trees
        roots = np.add.reduceat((trees.parent < 0) + 0, trees.offsets[:-1])
        bad = np.flatnonzero(roots != 1)
        if len(bad):
            s = int(bad[np.argmin(first_cell[bad])])
            cell, start = int(first_cell[s]), int(trees.offsets[s])
            if roots[s] == 0:
                raise ForestError(f"cell {cell} has no root; expected one node with parent -1")
            local = np.flatnonzero(trees.parent[start : trees.offsets[s + 1]] < 0)
            nodes = ", ".join(str(int(k + self.cell_offsets[cell])) for k in local[:3])
            raise ForestError(
                f"cell {cell} has {roots[s]} roots (nodes {nodes}{', ...' * (len(local) > 3)}); "
                "expected one"
            )
        if trees.on_cycle.any():
            i = int(np.flatnonzero(trees.on_cycle)[0])
            s = int(np.searchsorted(trees.offsets, i, side="right")) - 1
            cell = int(first_cell[s])
            at = f"cell {cell}, node {i - int(trees.offsets[s]) + int(self.cell_offsets[cell])}"
            raise ForestError(f"{at}: its parents run in a cycle, not to a root")
