"""Argument checks for networks and simulations."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import ParamSpec, TypeVar

import numpy as np

from clhines.core.checks import as_array, as_real, as_whole_number
from clhines.core.errors import InputError, meant, shown

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Class = TypeVar("_Class", bound=type)


def as_seed(seed: object) -> int:
    if isinstance(seed, int) and seed >= 2**64:
        raise InputError(f"seed is {shown(seed)}; expected less than 2**64")
    return as_whole_number("seed", seed, 0, 2**64 - 1)


def check_parameter(of: str, name: object, expected: Collection[str]) -> None:
    if name not in expected:
        raise InputError(
            f"{of} has no parameter {shown(name)}; expected one of "
            f"{', '.join(expected) or 'none'}{meant(name, expected)}"
        )


def names_parameters(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorate a function so that unknown arguments raise `InputError`."""
    signature = inspect.signature(function)
    name = function.__qualname__.removesuffix(".__init__")
    parameter_names = [n for n in signature.parameters if n not in ("self", "cls")]

    @functools.wraps(function)
    def checked(*arguments: _P.args, **named: _P.kwargs) -> _T:
        try:
            return function(*arguments, **named)
        except TypeError:
            _check_names(name, signature, parameter_names, arguments, named)
            raise

    return checked


def _check_names(
    name: str,
    signature: inspect.Signature,
    parameter_names: list[str],
    arguments: tuple[object, ...],
    named: Mapping[str, object],
) -> None:
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        wrong = next((n for n in named if n not in parameter_names), None)
        what = str(error) if wrong is None else f"there is no parameter {shown(wrong)}"
        raise InputError(
            f"{name}: {what}; expected {', '.join(parameter_names)}{meant(wrong, parameter_names)}"
        ) from None


def unchangeable(advice: str | Callable[[object, str, object], str]) -> Callable[[_Class], _Class]:
    """Decorate a class so that setting an attribute raises `InputError` with `advice`.

    A function of object, name and value may return the advice.
    """

    def decorate(cls: _Class) -> _Class:
        def refuse(self: object, name: str, *value: object) -> None:
            text = advice(self, name, *value) if value and callable(advice) else advice
            text = "another one" if callable(text) else text
            raise InputError(f"{cls.__name__}: {name} cannot be set; expected {text}")

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
