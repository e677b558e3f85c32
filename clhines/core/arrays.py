"""Operations on flat arrays that many modules share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_ROUND = 1 << 13  # entries that `repeat_moved` copies at once
_CHUNK = 1 << 18  # entries that `ascending` compares at once: they stay in the cache


def offsets(counts: np.ndarray | Sequence[int]) -> np.ndarray:
    """Return where consecutive ranges start, and where the last one ends, (m + 1,) int64.

    Range k has ``counts[k]`` entries: the result is 0 and the cumulative sums.
    """
    return np.concatenate(([0], np.cumsum(counts)))


def shifted(numbers: Sequence[int] | np.ndarray, step: int, copies: int) -> np.ndarray:
    """Concatenate `copies` copies of `numbers`, int64; copy k is larger by ``k * step``."""
    return (np.asarray(numbers, np.int64) + step * np.arange(copies)[:, None]).reshape(-1)


def starts(counts: np.ndarray) -> np.ndarray:
    """Return where consecutive ranges start, (m,) int64; range k has ``counts[k]`` entries."""
    return np.cumsum(counts) - counts


def inverse(order: np.ndarray, size: int | None = None) -> np.ndarray:
    """Invert a permutation: return a, (size,) int64, with ``a[order[k]] = k`` and -1 elsewhere."""
    place = np.full(len(order) if size is None else size, -1)
    place[order] = np.arange(len(order))
    return place


def children_of(parent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all nodes with a parent, sorted by parent, (c,) int64, and where each parent's begin.

    The second array has the `offsets`: node k has ``child[offsets[k]:offsets[k + 1]]``.
    """
    inner = np.flatnonzero(parent >= 0)
    child = inner[np.argsort(parent[inner], kind="stable")]
    return child, offsets(np.bincount(parent[inner], minlength=len(parent)))


def stretch_of(offsets: np.ndarray, index: np.ndarray | int) -> np.ndarray:
    """Return, for each index, the number k of the range ``offsets[k]:offsets[k + 1]`` around it."""
    return np.searchsorted(offsets, index, side="right") - 1


def place_of(keys: np.ndarray, wanted: np.ndarray, order: np.ndarray | None = None) -> np.ndarray:
    """Return (n,) int64: the index in `keys` of each wanted key, -1 if it is missing.

    All `keys` differ. `order` is their ``argsort``, if the caller has it already.

    >>> place_of(np.array([7, 3, 5]), np.array([5, 4]))
    array([ 2, -1])
    """
    if not len(keys):
        return np.full(len(wanted), -1)
    order = np.argsort(keys) if order is None else order
    at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    return np.where(keys[at] == wanted, at, -1)


def moved(parent: np.ndarray, by: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Shift the parents in consecutive cells: add ``by[k]`` in cell k; roots stay -1.

    Cell k has ``counts[k]`` nodes.
    """
    return np.where(parent < 0, -1, parent + np.repeat(by, counts))


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Concatenate ``arange(starts[k], starts[k] + counts[k])`` over k; int64."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - counts), counts)


def by_level(level: np.ndarray) -> list[np.ndarray]:
    """Group indices by level: return one index array per level that occurs, lowest level first."""
    order = np.argsort(level, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(level[order])) + 1)


def repeat(per_cell: Sequence[np.ndarray], num_cells: int) -> np.ndarray:
    """Concatenate one array per cell, (n_c, ...); the cells use those in `per_cell` in turn."""
    once = np.concatenate(per_cell[:num_cells])
    count = repeated_nodes([len(a) for a in per_cell], num_cells)
    return repeat_moved(once, count)


def repeat_moved(once: np.ndarray, count: int, step: int = 0) -> np.ndarray:
    """Tile an array to `count` entries; ``k * step`` is added to repetition k."""
    once, axes = once.astype(np.int64) if step else once, [1] * once.ndim
    more = min(-(-_ROUND // max(1, len(once))), -(-count // max(1, len(once))))
    if more > 1:  # short arrays: several repetitions at once
        joined = np.broadcast_to(once, (more, *once.shape))
        if step:
            joined = joined + step * np.arange(more).reshape(-1, *axes)
        once, step = joined.reshape(-1, *once.shape[1:]), step * more
    out = np.empty((count, *once.shape[1:]), once.dtype)
    rounds, rest = divmod(count, max(1, len(once)))
    whole = out[: rounds * len(once)].reshape(rounds, *once.shape)
    last = out[rounds * len(once) :]
    if step:
        np.add(once, step * np.arange(rounds).reshape(-1, *axes), out=whole)
        np.add(once[:rest], step * rounds, out=last)
    else:
        whole[...], last[...] = once, once[:rest]
    return out


def repeated_parents(once: np.ndarray, count: int) -> np.ndarray:
    """Tile the parents `once` of a few cells to `count` nodes, and renumber each repetition."""
    parent, roots = repeat_moved(once, count, len(once)), np.flatnonzero(once < 0)
    rounds, rest = divmod(count, len(once))
    some = rounds * len(roots) + int(np.searchsorted(roots, rest))
    parent[repeat_moved(roots, some, len(once))] = -1
    return parent


def parents_of(parent: np.ndarray, first: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the parents in some cells, whose nodes are numbered from 0 on.

    Cell k has the nodes ``first[k]`` to ``first[k] + sizes[k] - 1`` in `parent`.
    """
    if (first[1:] == first[:-1] + sizes[:-1]).all():  # consecutive cells: a slice keeps the dtype
        some = parent[first[0] : first[-1] + sizes[-1]]
        return np.where(some < 0, -1, some - int(first[0]))
    return moved(parent[ranges(first, sizes)].astype(np.int64), starts(sizes) - first, sizes)


def ascending(values: np.ndarray) -> bool:
    return all(
        (values[k + 1 : k + 1 + _CHUNK] > values[k : k + _CHUNK][: len(values) - k - 1]).all()
        for k in range(0, len(values) - 1, _CHUNK)
    )


def repeated_nodes(sizes: Sequence[int], num_cells: int) -> int:
    """Return the node count of `num_cells` cells; cell c has ``sizes[c % len(sizes)]`` nodes."""
    rounds, rest = divmod(int(num_cells), len(sizes))
    return rounds * sum(sizes) + sum(sizes[:rest])


def climb(above: np.ndarray, weight: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the end of each node's path along `above`, and the sum of `weight` over the path.

    A path ends where `above` is -1 or the node itself; this end must have the weight 0. By default
    all other nodes have the weight 1. Pointer jumping takes O(log n) rounds. A path into a cycle
    ends somewhere in the cycle.
    """
    numbers = np.arange(len(above))
    anchor = np.where(above < 0, numbers, above)
    weight = (anchor != numbers) + 0 if weight is None else weight
    for _ in range(len(anchor).bit_length() + 1):
        above = anchor[anchor]
        if np.array_equal(above, anchor):
            break
        weight = weight + weight[anchor]
        anchor = above
    return anchor, weight


def half_steps(t: float, dt: float, count: int) -> np.ndarray:
    """Return NEURON's clock, (count + 1,) float64, ms: `t`, then the time after each half step."""
    halves = np.full(count + 1, 0.5 * dt)
    halves[0] = t
    return np.cumsum(halves)
