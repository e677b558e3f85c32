"""Bare trees of chosen shapes, as arrays of parents."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Literal

import numpy as np

from clhines.errors import InputError, shown
from clhines.quantities import as_numbers

Seed = int | np.random.Generator
_MAX_NODES = 2**31 - 1  # parent arrays are int32
_MAX_BRANCHES = 2**22  # of a synthetic cell


def chain(n: int) -> np.ndarray:
    """Give the parents of a chain: each node is the only child of the one before.

    Parameters
    ----------
    n : int
        Number of nodes, 1 or more.

    Returns
    -------
    (n,) int32
        Parent of each node, -1 at the root, which is node 0; parents before children.

    Raises
    ------
    InputError
        `n` is not a whole number of 1 or more.
    """
    return np.arange(-1, whole_count("n", n) - 1, dtype=np.int32)


def star(n: int) -> np.ndarray:
    """Give the parents of a star: a root and ``n - 1`` leaves.

    Parameters
    ----------
    n : int
        Number of nodes, 1 or more.

    Returns
    -------
    (n,) int32
        Parent of each node, -1 at the root, which is node 0.

    Raises
    ------
    InputError
        `n` is not a whole number of 1 or more.
    """
    parent = np.zeros(whole_count("n", n), dtype=np.int32)
    parent[0] = -1
    return parent


def caterpillar(n: int) -> np.ndarray:
    """Give the parents of a caterpillar: a spine with one leaf at each spine node.

    Parameters
    ----------
    n : int
        Number of nodes, spine and leaves, 1 or more. Even nodes are the spine and odd nodes the
        leaves, so the last spine node has no leaf where `n` is odd.

    Returns
    -------
    (n,) int32
        Parent of each node, -1 at the root, which is node 0; parents before children.

    Raises
    ------
    InputError
        `n` is not a whole number of 1 or more.
    """
    node = np.arange(whole_count("n", n), dtype=np.int32)
    parent = np.where(node % 2 == 1, node - 1, node - 2).astype(np.int32)
    parent[0] = -1
    return parent


def complete_binary(levels: int) -> np.ndarray:
    """Give the parents of a complete binary tree of ``2**levels - 1`` nodes.

    Parameters
    ----------
    levels : int
        Levels of nodes, 1 (only the root) to 31.

    Returns
    -------
    (2**levels - 1,) int32
        Parent of each node, -1 at the root, which is node 0; parents before children.

    Raises
    ------
    InputError
        `levels` is not a whole number from 1 to 31.
    """
    levels = whole_count("levels", levels)
    if levels > 31:
        raise InputError(f"levels is {levels}, expected at most 31: node numbers are int32")
    node = np.arange(2**levels - 1, dtype=np.int32)
    return (node + 1) // 2 - 1  # (0 + 1) // 2 - 1 = -1: the root too


def random_tree(
    seed: Seed,
    levels: int,
    branching_probability: float | Sequence[float],
    compartments: int = 10,
    length_law: Literal["constant", "uniform", "geometric"] = "constant",
) -> np.ndarray:
    """Give the parents of a random tree of branches that split in two or end.

    Level 0 is one branch, its first node the root. A branch of level k either splits at its end
    into two branches of level k + 1, with the branching probability of level k, or ends there.
    The last level does not split. (In :func:`ring_cell` a branch that does not split goes on.)

    Parameters
    ----------
    seed : int or numpy.random.Generator
        The same seed gives the same tree.
    levels : int
        Most levels of branches, 1 or more.
    branching_probability : float or sequence of float
        Probability in [0, 1] that a branch splits; or one value a level, ``levels`` values or
        ``levels - 1``, as that of the last level is not used.
    compartments : int
        Mean number of nodes of a branch, 1 or more.
    length_law : {"constant", "uniform", "geometric"}
        Nodes of a branch: all alike; each number from 1 to ``2 * compartments - 1`` as likely; or
        geometric from 1 up.

    Returns
    -------
    (n,) int32
        Parent of each node, -1 at the root, which is node 0; parents before children, the nodes
        of a branch in a row, the branches level by level.

    Raises
    ------
    InputError
        An argument is out of range, or the tree has more nodes than int32 can number.
    """
    c = whole_count("compartments", compartments)
    rng = generator(seed)
    branch_parent, _ = grow(rng, levels, branching_probability, stems=1, unsplit_children=0)
    size = branch_parent.size
    if length_law == "constant":
        lengths = np.full(size, c, dtype=np.int64)
    elif length_law == "uniform":
        lengths = rng.integers(1, 2 * c, size=size)
    elif length_law == "geometric":
        lengths = rng.geometric(1.0 / c, size=size)
    else:
        expected = '"constant", "uniform" or "geometric"'
        raise InputError(f"length_law is {shown(length_law)}, expected {expected}")
    return number_nodes(branch_parent, lengths, soma_nodes=0)


def random_binary_tree(num_nodes: int, num_branches: int, seed: Seed, stems: int = 4) -> np.ndarray:
    """Give the parents of a random neuron-like tree of a given size, for benchmarks.

    Node 0 is the soma, with up to `stems` stems. Random tips split in two until there are enough
    branches, and the nodes are shared out to the branches at random: at least one each, at
    least two where there are enough. 512 nodes in 50 branches is the usual case.

    A branch is a maximal unbranched chain, and the soma is one of its own when it has several
    stems. So k > 1 stems and s splits make ``1 + k + 2 * s`` branches, one stem ``1 + 2 * s``.

    Parameters
    ----------
    num_nodes : int
        Exact number of nodes, 1 or more.
    num_branches : int
        Number of branches, 1 or more. Met exactly by using as many stems as the parity allows. One
        branch fewer where no number of stems fits (an even number with less than three stems,
        or 2), and never more branches than there are nodes for.
    seed : int or numpy.random.Generator
        The same seed gives the same tree.
    stems : int
        Most stems at the soma, 1 or more.

    Returns
    -------
    (num_nodes,) int32
        Parent of each node, -1 at the root, which is node 0; parents before children, the nodes
        of a branch in a row.

    Raises
    ------
    InputError
        An argument is not a whole number of 1 or more, or `num_nodes` does not fit int32.
    """
    n = whole_count("num_nodes", num_nodes)
    stems = whole_count("stems", stems)
    most = n if stems > 1 else max(n - 1, 1)  # the soma cannot be a branch beside its only stem
    first, splits = _stems_and_splits(min(whole_count("num_branches", num_branches), most), stems)
    rng = generator(seed)
    if n == 1:
        return np.full(1, -1, dtype=np.int32)
    branch_parent = [-1] * first
    tips = list(range(first))
    for draw in rng.random(splits).tolist():
        k = int(draw * len(tips))
        tip, size = tips[k], len(branch_parent)
        branch_parent += [tip, tip]
        tips[k] = size
        tips.append(size + 1)
    lengths = _share_out(rng, n - 1, len(branch_parent))
    return number_nodes(np.array(branch_parent, dtype=np.int64), lengths, soma_nodes=1)


def _stems_and_splits(branches: int, stems: int) -> tuple[int, int]:
    """Choose stems (at most `stems`) and splits that make `branches` branches, or one fewer."""
    for total in (branches, branches - 1):
        for k in range(min(stems, total - 1), 1, -1):
            if (total - 1 - k) % 2 == 0:
                return k, (total - 1 - k) // 2
        if total % 2 == 1:
            return 1, (total - 1) // 2
    raise AssertionError("one of two neighbours is odd, and every odd number can be made")


def _share_out(rng: np.random.Generator, nodes: int, branches: int) -> np.ndarray:
    """Cut `nodes` into random lengths of at least one, at least two where there are enough."""
    least = 2 if nodes >= 2 * branches else 1
    cuts = np.empty(branches + 1, dtype=np.int64)
    cuts[0], cuts[-1] = 0, nodes - least * branches
    cuts[1:-1] = np.sort(rng.integers(0, cuts[-1] + 1, size=branches - 1))
    return np.diff(cuts) + least


def grow(
    rng: np.random.Generator,
    levels: int,
    probability: float | Sequence[float],
    stems: int,
    unsplit_children: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Grow branches level by level; (num_branches,) int64 parent branch (-1) and level of each."""
    levels = whole_count("levels", levels)
    p = _probability_of_levels(probability, levels)
    parents = [np.full(stems, -1, dtype=np.int64)]
    total = 0
    for level in range(levels - 1):
        here = parents[-1].size
        children = np.where(rng.random(here) < p[level], 2, unsplit_children)
        parents.append(np.repeat(np.arange(total, total + here), children))
        total += here
        if total + parents[-1].size > _MAX_BRANCHES:
            message = f"{total + parents[-1].size} branches at level {level + 1} of {levels}"
            raise InputError(f"{message}, expected at most {_MAX_BRANCHES}")
        if parents[-1].size == 0:
            break
    sizes = [each.size for each in parents]
    return np.concatenate(parents), np.repeat(np.arange(len(sizes)), sizes)


def number_nodes(branch_parent: np.ndarray, lengths: np.ndarray, soma_nodes: int) -> np.ndarray:
    """Lay out the nodes branch after branch; (n,) int32 parents.

    The branches hang at the end of their parent branch (which comes before them), those without
    one at the end of the `soma_nodes` nodes before all branches; with none there they are roots.
    """
    end = soma_nodes + np.cumsum(lengths)
    if end[-1] > _MAX_NODES:
        raise InputError(f"a tree of {end[-1]} nodes, expected at most {_MAX_NODES}")
    parent = np.arange(-1, end[-1] - 1, dtype=np.int32)
    parent[end - lengths] = np.where(branch_parent < 0, soma_nodes, end[branch_parent]) - 1
    return parent


def whole_count(name: str, value: int, least: int = 1) -> int:
    """Return a whole number of nodes, branches or levels."""
    try:
        count = operator.index(value)
    except TypeError:
        count = None
    if count is None or not least <= count <= _MAX_NODES:
        raise InputError(f"{name} is {shown(value)}, expected a whole number from {least}")
    return count


def generator(seed: Seed) -> np.random.Generator:
    """Return a generator of random numbers from a seed."""
    try:
        return np.random.default_rng(
            seed if isinstance(seed, np.random.Generator) else operator.index(seed)
        )
    except (TypeError, ValueError) as error:
        message = f"seed is {shown(seed)}, expected a whole number from 0 or a numpy Generator"
        raise InputError(message) from error


def _probability_of_levels(probability: float | Sequence[float], levels: int) -> np.ndarray:
    p = np.asarray(as_numbers("branching_probability", probability), dtype=np.float64)
    if p.ndim > 1 or (p.ndim == 1 and p.size not in (levels, levels - 1)):
        raise InputError(
            f"branching_probability has shape {p.shape}, expected one number or one per level, "
            f"{levels} or {levels - 1}"
        )
    if not ((p >= 0) & (p <= 1)).all():  # false for NaN too
        raise InputError(f"branching_probability is {shown(probability)}, expected 0 to 1")
    return np.broadcast_to(p, levels) if p.ndim == 0 else p
