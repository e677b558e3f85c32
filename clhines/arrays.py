"""Array idioms, named once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def offsets(counts: np.ndarray | Sequence[int]) -> np.ndarray:
    """(m + 1,) int64: where each of m stretches of so many entries begins, and the end."""
    return np.concatenate(([0], np.cumsum(counts)))


def shifted(numbers: Sequence[int] | np.ndarray, step: int, copies: int) -> np.ndarray:
    """Return numbers, then all of them `step` larger, and so on, (copies * m,) int64."""
    return (np.asarray(numbers, np.int64) + step * np.arange(copies)[:, None]).reshape(-1)


def in_blocks(sizes: np.ndarray | Sequence[int], copies: int) -> np.ndarray:
    """Return numbers of m things in all copies, (copies, m) int64; blocks have copy after copy.

    Parameters
    ----------
    sizes : integer array
        Of the blocks of one copy; m in all.
    copies : int
    """
    each = np.asarray(sizes, np.int64)
    base = np.arange(int(each.sum())) + np.repeat(starts(each) * (copies - 1), each)
    return base + np.repeat(each, each) * np.arange(copies)[:, None]


def starts(counts: np.ndarray) -> np.ndarray:
    """(m,) int64: where each of m stretches of so many entries begins."""
    return np.cumsum(counts) - counts


def stretch_of(offsets: np.ndarray, index: np.ndarray | int) -> np.ndarray:
    """Return in which of the stretches at `offsets` each index is; none of them is empty."""
    return np.searchsorted(offsets, index, side="right") - 1


def moved(parent: np.ndarray, by: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return parents with ``by[k]`` added in the k-th stretch of ``counts[k]``; roots stay -1."""
    return np.where(parent < 0, -1, parent + np.repeat(by, counts))


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Concatenate ``arange(starts[k], starts[k] + counts[k])`` over k.

    Parameters
    ----------
    starts, counts : (m,) integer

    Returns
    -------
    (sum(counts),) int64
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - counts), counts)


def by_level(level: np.ndarray) -> list[np.ndarray]:
    """Return the indices of each level that occurs, the lowest level first, in ascending order."""
    order = np.argsort(level, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(level[order])) + 1)


def repeat(per_cell: Sequence[np.ndarray], num_cells: int) -> np.ndarray:
    """Values of the given cells in turn, cell after cell, cut after `num_cells` cells.

    Parameters
    ----------
    per_cell : sequence of (n_c, ...) arrays
    num_cells : int
    """
    rounds, rest = divmod(num_cells, len(per_cell))
    if not rest:
        whole = np.concatenate(per_cell)
        return np.tile(whole, (rounds,) + (1,) * (whole.ndim - 1))
    return np.concatenate([*[np.concatenate(per_cell)] * rounds, *per_cell[:rest]])


def repeated_nodes(sizes: Sequence[int], num_cells: int) -> int:
    """Count the nodes of `num_cells` cells that have the given sizes in turn."""
    rounds, rest = divmod(int(num_cells), len(sizes))
    return rounds * sum(sizes) + sum(sizes[:rest])


def climb(anchor: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Follow `anchor` to its fixed points, adding `weight` on the way (pointer doubling).

    Nodes on a cycle never reach a fixed point; the caller sees ``anchor[top] != top``.
    """
    for _ in range(len(anchor).bit_length() + 1):
        above = anchor[anchor]
        if np.array_equal(above, anchor):
            break
        weight = weight + weight[anchor]
        anchor = above
    return anchor, weight
