"""Forests and well-scaled systems that the tests share; everything is seeded."""

from dataclasses import dataclass, replace

import numpy as np
from tolerances import REDUCTION_UPDATES, assert_close, residual_bound
from trees import complete_binary

from bench.made import caterpillar, chain, random_binary_tree, star
from clhines import METHODS, Forest, PivotError
from clhines.solver import reference

SIZES = (1, 2, 31, 32, 33, 63, 64, 65)  # around work-group and vector sizes


@dataclass(frozen=True, eq=False)
class System:
    """One batch of systems; `l` is None if it is symmetric."""

    forest: Forest
    d: np.ndarray
    u: np.ndarray
    b: np.ndarray
    l: np.ndarray | None = None

    @property
    def arrays(self):
        """Return the arguments of `Solver.solve` and of the reference."""
        return {"d": self.d, "u": self.u, "b": self.b, "l": self.l}

    def truth(self):
        return reference.solve_serial(self.forest, **self.arrays)

    def dense_solution(self, transpose=False):
        """Return LAPACK's solution of each cell's dense matrix, float64."""
        x, offsets = np.empty(self.b.shape), self.forest.cell_offsets
        for cell in range(self.forest.num_cells):
            matrix = reference.dense(self.forest, self.d, self.u, self.l, cell)
            mine = slice(*offsets[cell : cell + 2])
            x[..., mine] = np.linalg.solve(matrix.T if transpose else matrix, self.b[..., mine].T).T
        return x

    def copy(self):
        values = {k: None if a is None else a.copy() for k, a in self.arrays.items()}
        return replace(self, **values)

    def assert_solved(self, x, updates=1):
        """Assert type, shape, forward error against the reference, and the residual."""
        assert isinstance(x, np.ndarray)
        assert x.dtype == self.b.dtype
        assert x.shape == self.b.shape
        assert_close(self.forest, x, self.truth(), x.dtype)
        arrays = self.arrays
        lower = arrays.pop("l")
        worst = reference.residual(self.forest, **arrays, x=x, l=lower)
        assert worst <= residual_bound(x.dtype, updates)


def make_system(forest, dtype=np.float64, symmetric=True, rows=None, seed=1):
    """Return a system whose rows and columns are dominated by the diagonal by at least 0.5.

    Couplings are -1 to -0.1, in unsymmetric systems of either sign. ``u`` and ``l`` at the roots,
    which no solver may read, are large.
    """
    rng = np.random.default_rng(seed)
    n = forest.num_nodes
    inner = np.flatnonzero(forest.parent >= 0)
    above = forest.parent[inner]
    u = -rng.uniform(0.1, 1, n)
    low = u
    if not symmetric:
        u = u * rng.choice([-1, 1], n)
        low = rng.uniform(0.1, 1, n) * rng.choice([-1, 1], n)
    rows_sum, columns_sum = np.zeros(n), np.zeros(n)
    rows_sum[inner] += np.abs(low[inner])
    columns_sum[inner] += np.abs(u[inner])
    rows_sum += np.bincount(above, np.abs(u[inner]), n)
    columns_sum += np.bincount(above, np.abs(low[inner]), n)
    d = np.maximum(rows_sum, columns_sum) + rng.uniform(0.5, 1.5, n)
    shape = n if rows is None else (rows, n)
    b = rng.uniform(-1, 1, shape)
    roots = forest.parent < 0
    u[roots] = 1e9
    if not symmetric:
        low[roots] = -1e9
    d, u, b, low = (a.astype(dtype) for a in (d, u, b, low))
    return System(forest, d, u, b, None if symmetric else low)


def renumbered(parent, rng):
    """Return the same tree with its nodes in random order."""
    new = rng.permutation(len(parent))
    out = np.empty(len(parent), np.int64)
    out[new] = np.where(parent < 0, -1, new[parent])
    return out


def children_first(parent):
    """Return the same tree with its nodes in reverse order: the root is last."""
    n = len(parent)
    return np.where(parent < 0, -1, n - 1 - parent)[::-1].copy()


def straightened(parent):
    """Return a chain of as many nodes, numbered in the same way: in the order of elimination."""
    order = Forest(parent).trees.order
    out = np.full(len(order), -1)
    out[order[1:]] = order[:-1]
    return out


def cells_for(method, cells):
    """Return `cells` or, for a method that supports only chains, chains of the same sizes."""
    return [straightened(p) for p in cells] if METHODS[method].chains_only else list(cells)


def forest_for(method, cells):
    """Return the forest of `cells_for`."""
    return Forest.from_parents(cells_for(method, cells))


def updates_for(method):
    """Return the updates of a row for the bound of the residual, see `tolerances`."""
    return REDUCTION_UPDATES if METHODS[method].chains_only else 1


def dissimilar(count, seed=5, least=1, most=70):
    """Return `count` random trees of random sizes, hardly ever two of one shape."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(least, most, count)
    return [
        renumbered(random_binary_tree(int(n), int(rng.integers(1, 20)), rng), rng) for n in sizes
    ]


def families(half=None):
    """Return lists of cells by name: all shapes at sizes that straddle boundaries, in a batch.

    With `half` 0 or 1 return every second one, for tests of two kinds of system, each on its half:
    building the kernels takes most of the time.
    """
    rng = np.random.default_rng(7)
    some = [random_binary_tree(n, max(1, n // 4), rng) for n in SIZES]
    cells_of = {
        "chain": [chain(n) for n in SIZES],
        "star": [star(n) for n in SIZES],
        "caterpillar": [caterpillar(n) for n in SIZES],
        "binary": [complete_binary(k) for k in (1, 2, 5, 6)],
        "random": some,
        "children_first": [children_first(p) for p in some],
        "shuffled": [renumbered(p, rng) for p in some],
        "equal": [random_binary_tree(40, 13, 4)] * 9,
        "few_shapes": [some[k] for k in (3, 4, 3, 3, 2, 4, 3, 3, 4, 2, 4, 4, 3, 4, 1, 0, 1)],
        "all_different": dissimilar(13),
    }
    return cells_of if half is None else dict(list(cells_of.items())[half::2])


def bad_pivot(_):
    """Raise an error with attributes; here, as processes of a pool import what they call."""
    raise PivotError("cell 3: a pivot", 3, 14)


def small_system(symmetric, rows):
    """A few cells of some nodes, whose gradients are compared with a dense solve's."""
    forest = Forest.from_parents([star(5), caterpillar(6), chain(1), *dissimilar(1, most=9)])
    system = make_system(forest, symmetric=symmetric, rows=rows)
    system.u[forest.parent < 0] = 0.5  # large ones would spoil the differences
    if system.l is not None:
        system.l[forest.parent < 0] = 0.5
    return system
