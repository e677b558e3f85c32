"""Checks of values of a cell: positive numbers, one or one for each section."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from clhines.checks import as_number, spread
from clhines.errors import InputError, shown


def check_positive(name: str, value: object) -> None:
    """Reject values that are not finite numbers above 0."""
    try:
        good = as_number(name, value) > 0
    except InputError:
        good = False
    if not good:
        raise InputError(f"{name} is {shown(value)}, expected a positive number")


def per_section(name: str, value: ArrayLike, num_sections: int) -> float | np.ndarray:
    """Return a positive number, or one for each section as (num_sections,) float64."""
    if not isinstance(value, (np.ndarray, list, tuple)) or np.ndim(value) == 0:
        check_positive(name, value)
        return as_number(name, value)
    array = spread(name, value, num_sections)
    bad = np.flatnonzero(~(array > 0))
    if len(bad):
        s = int(bad[0])
        raise InputError(f"{name} of section {s} is {array[s]:g}, expected a positive number")
    array.setflags(write=False)
    return array
