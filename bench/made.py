"""Trees of chosen shapes, and random connections, for benchmarks and tests.

Tree functions return each node's parent, int32. Node 0 is the root, with parent -1, and parents
come before children. Numbers out of range raise InputError.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.checks import as_array, as_whole_number

if TYPE_CHECKING:
    from clhines.simulator.model.connections import GridConnections

Seed = int | np.random.Generator
MAX_NODES = 2**31 - 1  # parent arrays are int32


def chain(n: int) -> np.ndarray:
    """Give the parents in a chain: each node is the previous one's only child."""
    return np.arange(-1, as_whole_number("n", n, 1, MAX_NODES) - 1, dtype=np.int32)


def star(n: int) -> np.ndarray:
    """Give the parents in a star: a root and ``n - 1`` leaves."""
    parent = np.zeros(as_whole_number("n", n, 1, MAX_NODES), dtype=np.int32)
    parent[0] = -1
    return parent


def caterpillar(n: int) -> np.ndarray:
    """Give the parents in a caterpillar: a spine with one leaf at each spine node.

    Even nodes form the spine, odd nodes are leaves. If `n` is odd, the last spine node has no leaf.
    """
    node = np.arange(as_whole_number("n", n, 1, MAX_NODES), dtype=np.int32)
    parent = np.where(node % 2 == 1, node - 1, node - 2).astype(np.int32)
    parent[0] = -1
    return parent


def random_binary_tree(num_nodes: int, num_branches: int, seed: Seed, stems: int = 4) -> np.ndarray:
    """Give the parents of a random neuron-like tree of a given size, for benchmarks.

    Node 0 is the soma, with up to `stems` stems. Random tips split in two until there are enough
    branches. Each branch gets a random number of nodes: at least one, and at least two if there are
    enough nodes. The usual case is 512 nodes in 50 branches.

    A branch is a maximal unbranched chain; a soma with several stems is a branch by itself. So k >
    1 stems and s splits make ``1 + k + 2 * s`` branches, one stem ``1 + 2 * s``.
    """
    n = as_whole_number("num_nodes", num_nodes, 1, MAX_NODES)
    stems = as_whole_number("stems", stems, 1, MAX_NODES)
    most = n if stems > 1 else max(n - 1, 1)  # the soma cannot be a branch beside its only stem
    first, splits = _stems_and_splits(
        min(as_whole_number("num_branches", num_branches, 1, MAX_NODES), most), stems
    )
    rng = np.random.default_rng(seed)
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
    """Cut `nodes` into random lengths of at least one, at least two if there are enough nodes."""
    least = 2 if nodes >= 2 * branches else 1
    cuts = np.empty(branches + 1, dtype=np.int64)
    cuts[0], cuts[-1] = 0, nodes - least * branches
    cuts[1:-1] = np.sort(rng.integers(0, cuts[-1] + 1, size=branches - 1))
    return np.diff(cuts) + least


def number_nodes(branch_parent: np.ndarray, lengths: np.ndarray, soma_nodes: int) -> np.ndarray:
    """Return the parents of a tree's nodes, (n,) int32; the soma first, then branch by branch.

    Branch k has ``lengths[k]`` nodes and starts at the end of branch ``branch_parent[k]``, or of
    the soma if this is -1.
    """
    end = soma_nodes + np.cumsum(lengths)
    parent = np.arange(-1, end[-1] - 1, dtype=np.int32)
    parent[end - lengths] = np.where(branch_parent < 0, soma_nodes, end[branch_parent]) - 1
    return parent


def random_connections(
    num_sources: int,
    num_targets: int,
    probability: float,
    seed: int,
    weight: float | tuple[float, float] = 1.0,
    delay: int | tuple[int, int] = 1,
) -> GridConnections:
    """Connect each source with each target at a given probability.

    Parameters
    ----------
    num_sources, num_targets : int
    probability : float
        0 to 1, independent for every pair.
    seed : int
        Of a counter-based generator (Philox): the same numbers on every machine.
    weight : float or (low, high)
        One for all, or uniform between two.
    delay : int or (low, high), steps
        One for all, or uniform from low to high, both included.

    Returns
    -------
    Connections
        Sorted by source, then target.
    """
    generator = np.random.Generator(np.random.Philox(seed))
    pairs = _successes(generator, num_sources * num_targets, probability)
    count = len(pairs)
    weights: ArrayLike = weight
    if np.ndim(weight):
        low, high = as_array("weight", weight).tolist()
        weights = generator.uniform(low, high, count)
    delays: ArrayLike = delay
    if np.ndim(delay):
        first, last = as_array("delay", delay).tolist()
        delays = generator.integers(first, last, count, endpoint=True)
    source, target = np.divmod(pairs, max(1, num_targets))
    from clhines.simulator.model.connections import GridConnections

    return GridConnections(source, target, weights, delays, num_sources, num_targets)


def _successes(generator: np.random.Generator, trials: int, probability: float) -> np.ndarray:
    """Return the successful trials, ascending; the gaps between them are drawn."""
    if probability == 0 or trials == 0:
        return np.zeros(0, np.int64)
    parts, last = [], -1
    while last < trials:
        mean = (trials - last) * probability
        gaps = generator.geometric(probability, int(mean + 4 * math.sqrt(mean) + 16))
        # beyond the end one gap is as good as another, and sums stay in range
        positions = last + np.cumsum(np.minimum(gaps, trials + 1))
        parts.append(positions)
        last = int(positions[-1])
    every = np.concatenate(parts)
    return every[every < trials]
