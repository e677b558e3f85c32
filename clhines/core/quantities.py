"""Quantities: numbers with units of pint, quantities (Neo), astropy and the like, and texts.

`as_numbers` handles each number from users. It converts a quantity to the unit of the argument, and
refuses it if the argument has no unit: NumPy would read 100 pA as 100.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from clhines.core.errors import InputError, shown

TextReader: TypeAlias = Callable[[str, str], float | None]  # (text, unit) -> number in that unit
_readers: list[TextReader] = []  # empty, or the simulator's `number_in`
_MEMBERS = (  # attributes of unit types: pint and quantities; astropy and unyt; brian2
    ("magnitude", "units"),
    ("unit", "to_value"),
    ("units", "to_value"),
    ("dimensions", "in_best_unit"),
)


@lru_cache(maxsize=1000)
def _has_unit(kind: type) -> bool:
    return any(all(hasattr(kind, name) for name in names) for names in _MEMBERS)


def _is_quantity(value: object) -> bool:
    kind: type = type(value)
    return _has_unit(kind)


def has_unit(value: object) -> bool:
    if _is_quantity(value):
        return True
    if isinstance(value, np.ndarray) and value.dtype == object:
        value = value.reshape(-1).tolist()
    if not isinstance(value, (list, tuple)):
        return False
    kinds = set(map(type, value))
    if any(map(_has_unit, kinds)):
        return True
    nested = tuple(k for k in kinds if issubclass(k, (list, tuple, np.ndarray)))
    return bool(nested) and any(has_unit(one) for one in value if isinstance(one, nested))


def as_numbers(name: str, value: object, unit: str | None = None) -> object:
    """Convert quantities, and texts such as "3 mV", to numbers in `unit`; keep other objects."""
    if isinstance(value, str) and unit:
        return _of_text(name, value, unit)
    try:
        is_quantity = has_unit(value)
    except RecursionError:
        raise InputError(f"{name} is nested too deeply; expected numbers") from None
    if not is_quantity:
        return value
    if _is_quantity(value):
        return _converted(name, value, unit)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    assert isinstance(value, (list, tuple))
    bare = [one for one in value if not has_unit(one)]
    if bare:
        raise InputError(
            f"{name} has quantities beside {shown(bare[0])}; expected units in all or in none"
        )
    return [as_numbers(f"{name}[{k}]", one, unit) for k, one in enumerate(value)]


def read_texts_by(reader: TextReader) -> None:
    """Set the function that converts a text such as "3 mV"; it returns None for other texts."""
    _readers[:] = [reader]


def _of_text(name: str, text: str, unit: str) -> object:
    try:
        number = _readers[0](text, unit) if _readers else None
    except InputError as error:
        raise InputError(
            f"{name} is {shown(text)}: {error}; expected a number, or one in {unit}"
        ) from error
    return text if number is None else number


def _converted(name: str, value: object, unit: str | None) -> object:
    unit = unit or "1"
    expected = f"a quantity in {unit}, or a number" if unit != "1" else "a pure number"
    target = re.sub(r"(?<=[A-Za-z])(\d)", r"**\1", unit).replace(" ", "*")
    for method in ("rescale", "to_value", "to"):  # quantities; astropy and unyt; pint and brian2
        convert: Callable[[str], object] | None = getattr(value, method, None)
        if convert is None:
            continue
        if unit == "1":  # astropy has no unit "dimensionless", quantities none without a name
            target = "dimensionless" if method == "rescale" else ""
        try:
            number = convert(target)
        except Exception as error:  # each package has its own
            raise InputError(f"{name} is {_unit_of(value)}; expected {expected}") from error
        number = getattr(number, "magnitude", number)
        return number.item() if isinstance(number, np.ndarray) and not number.ndim else number
    raise InputError(f"{name} is {_unit_of(value)}; expected {expected}")


def _unit_of(value: object) -> str:
    for attribute in ("dimensionality", "units", "unit", "dimensions"):
        unit = getattr(value, attribute, None)
        if attribute == "dimensionality" and not hasattr(unit, "string"):
            continue  # pint's `dimensionality` names no unit
        if unit is not None:
            text = _text(getattr(unit, "string", unit))
            return f"in {text}" if text else "dimensionless"
    return "a quantity"


def _text(unit: object) -> str:
    try:
        return format(unit, "~C")  # pint's short names
    except (TypeError, ValueError):
        return str(unit)


def check_no_units(**arguments: object) -> None:
    for name, value in arguments.items():
        as_numbers(name, value)
