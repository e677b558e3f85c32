"""Checks of values of a cell: positive numbers, one or one for each section."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from clhines.checks import as_number, spread
from clhines.errors import InputError, shown
from clhines.quantities import as_numbers


def as_positive(name: str, value: object, unit: str | None = None) -> float:
    """Return a finite number above 0, in a unit."""
    value = as_numbers(name, value, unit)
    try:
        number = as_number(name, value)
    except InputError:
        number = 0.0
    if not number > 0:
        raise InputError(f"{name} is {shown(value)}, expected a positive number")
    return number


def per_section(name: str, value: ArrayLike, num_sections: int, unit: str) -> float | np.ndarray:
    """Return a positive number, or one for each section as (num_sections,) float64."""
    value = as_numbers(name, value, unit)  # type: ignore[assignment]
    if not isinstance(value, (np.ndarray, list, tuple)) or np.ndim(value) == 0:
        return as_positive(name, value)
    array = spread(name, value, num_sections)
    bad = np.flatnonzero(~(array > 0))
    if len(bad):
        s = int(bad[0])
        raise InputError(f"{name} of section {s} is {array[s]:g}, expected a positive number")
    array.setflags(write=False)
    return array
