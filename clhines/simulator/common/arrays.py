"""Operations on networks' and models' flat arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import DTypeLike


def once(values: np.ndarray) -> np.ndarray:
    """Return the single stored value, (1,), of a broadcast array, or any other array itself."""
    return values[:1] if not values.strides[0] else values


def each(function: Callable[[np.ndarray], np.ndarray], values: np.ndarray) -> np.ndarray:
    """Apply a function to an array, (m,); compute and store one value if it is broadcast."""
    return np.broadcast_to(function(once(values)), values.shape)


def joined(parts: Sequence[np.ndarray], dtype: DTypeLike) -> np.ndarray:
    parts = [part for part in parts if len(part)] or [np.zeros(0, dtype)]
    if len(parts) == 1:
        return each(lambda values: values.astype(dtype, copy=False), parts[0])
    values = np.array([part[0] for part in parts])
    if not any(part.strides[0] for part in parts) and (values == values[0]).all():
        return np.broadcast_to(values[:1].astype(dtype), sum(map(len, parts)))
    return np.concatenate(parts, dtype=dtype)


def least_tied(count: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the smallest number in each number's connected component, (count,) int64.

    Pairs ``a[k], b[k]`` are the edges between the numbers 0 to count - 1.
    """
    least = np.arange(count)
    while True:
        smaller = np.minimum(least[a], least[b])
        new = least.copy()
        np.minimum.at(new, a, smaller)
        np.minimum.at(new, b, smaller)
        if np.array_equal(new, least):
            return least
        least = new
