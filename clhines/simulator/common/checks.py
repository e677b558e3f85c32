"""Argument checks for networks and simulations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

import numpy as np

from clhines.core.checks import as_array, as_real, as_whole_number
from clhines.core.errors import InputError, meant, shown

_Class = TypeVar("_Class", bound=type)


def as_seed(seed: object) -> int:
    if isinstance(seed, int) and seed >= 2**64:
        raise InputError(f"seed is {shown(seed)}; expected less than 2**64")
    return as_whole_number("seed", seed, 0, 2**64 - 1)


def check_parameter(of: str, name: object, expected: Collection[str]) -> None:
    if not isinstance(name, str) or name not in expected:
        raise InputError(
            f"{of} has no parameter {shown(name)}; expected one of "
            f"{', '.join(expected) or 'none'}{meant(name, expected)}"
        )


def unchangeable(advice: str) -> Callable[[_Class], _Class]:
    """Decorate a class so that setting an attribute raises `InputError` with `advice`."""

    def decorate(cls: _Class) -> _Class:
        def refuse(self: object, name: str, *_: object) -> None:
            raise InputError(f"{cls.__name__}: {name} cannot be set; expected {advice}")

        for method in ("__setattr__", "__delattr__"):
            setattr(cls, method, refuse)
        return cls

    return decorate


def spread(
    name: str, value: object, count: int, writable: bool = True, unit: str | None = None
) -> np.ndarray:
    """Check a number or `count` numbers; return (count,) float64, a copy if `writable`."""
    array = as_array(name, value, unit=unit)
    if array.shape not in ((), (count,)):
        raise InputError(f"{name} has shape {array.shape}; expected a number or ({count},)")
    values = as_real(name, np.atleast_1d(array))
    return np.broadcast_to(values, count).copy() if writable else values


def broadcast(
    values_by_name: Mapping[str, object], units: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Broadcast arrays by name to 1-D arrays of equal length; `units` convert texts."""
    arrays = {
        name: np.atleast_1d(as_array(name, values, unit=units.get(name)))
        for name, values in values_by_name.items()
    }
    try:
        equal = np.broadcast_arrays(*arrays.values())
    except ValueError as error:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in arrays.items())
        raise InputError(f"{shapes} do not broadcast; expected equal lengths or 1") from error
    return dict(zip(arrays, equal, strict=True))
