"""Check that values fit a precision."""

from __future__ import annotations

from functools import cache

import numpy as np

from clhines.core.errors import InputError


@cache
def largest_of(dtype: np.dtype) -> float:
    return float(np.finfo(dtype).max)


def check_range(what: str, values: np.ndarray, dtype: np.dtype) -> None:
    one = values.size == 1  # ten times faster
    most, largest = largest_of(dtype), abs(values.item()) if one else np.abs(values).max(initial=0)
    if largest > most:
        raise InputError(
            f"{what} is {largest:g}; expected at most {most:.3g}, the largest number of "
            f"{np.dtype(dtype).name}"
        )
