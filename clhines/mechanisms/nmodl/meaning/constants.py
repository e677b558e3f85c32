"""Numbers that UNITS blocks take from units: ``FARADAY = (faraday) (coulomb)``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from clhines.mechanisms.nmodl.reading.tree import Refused

_PI = Fraction("3.14159265358979323846")
_MOLE = Fraction("6.02214076e23")  # a number, as in NEURON's table of units
_E = Fraction("1.602176634e-19")
_K = Fraction("1.380649e-23")
# name: size in m, kg, s, A, K; and their exponents
_BASE: dict[str, tuple[Fraction, tuple[int, int, int, int, int]]] = {}


def _add(names: str, size: Fraction | int | str, *dimension: int) -> None:
    for name in names.split():
        _BASE[name] = (Fraction(size), (*dimension, *(0,) * (5 - len(dimension))))  # type: ignore[assignment]


_add("m meter metre", 1, 1)
_add("g gram gm", "1e-3", 0, 1)
_add("s sec second", 1, 0, 0, 1)
_add("minute min", 60, 0, 0, 1)
_add("hour hr", 3600, 0, 0, 1)
_add("A amp ampere", 1, 0, 0, 0, 1)
_add("K degC degK kelvin celsius", 1, 0, 0, 0, 0, 1)
_add("coul coulomb C", 1, 0, 0, 1, 1)
_add("V volt", 1, 2, 1, -3, -1)
_add("ohm", 1, 2, 1, -3, -2)
_add("S siemens mho", 1, -2, -1, 3, 2)
_add("F farad", 1, -2, -1, 4, 2)
_add("J joule", 1, 2, 1, -2)
_add("N newton", 1, 1, 1, -2)
_add("W watt", 1, 2, 1, -3)
_add("Hz hertz", 1, 0, 0, -1)
_add("dyne", "1e-5", 1, 1, -2)
_add("erg", "1e-7", 2, 1, -2)
_add("cal calorie", "4.184", 2, 1, -2)
_add("L l liter litre", "1e-3", 3)
_add("micron", "1e-6", 1)
_add("angstrom", "1e-10", 1)
_add("inch", "0.0254", 1)
_add("mole mol", _MOLE)
_add("molar M", _MOLE * 1000, -3)
_add("pi", _PI)
_add("radian rad", 1)
_add("degree deg", _PI / 180)
_add("percent", "1e-2")
_add("c", 299792458, 1, 0, -1)
_add("e", _E, 0, 0, 1, 1)
_add("k boltzmann", _K, 2, 1, -2, 0, -1)
_add("faraday", _E * _MOLE, 0, 0, 1, 1)
_add("R", _K * _MOLE, 2, 1, -2, 0, -1)
_add("planck", "6.62607015e-34", 2, 1, -1)
_add("fuzz dimensionless", 1)
_PREFIXES = {
    "yotta": 24, "zetta": 21, "exa": 18, "peta": 15, "tera": 12, "giga": 9, "mega": 6,
    "kilo": 3, "hecto": 2, "deka": 1, "deci": -1, "centi": -2, "milli": -3, "micro": -6,
    "nano": -9, "pico": -12, "femto": -15, "atto": -18,
    "G": 9, "M": 6, "k": 3, "h": 2, "d": -1, "c": -2, "m": -3, "u": -6, "n": -9, "p": -12,
    "f": -15,
}  # fmt: skip
_PART = re.compile(r"([A-Za-z]+)\^?(\d*)|([-+]?\d*\.?\d+(?:[eE][-+]?\d+|[-+]\d+)?)|([/*\s.-])")

Scaled = tuple[Fraction, tuple[int, ...]]


def factor(first: str, second: str, own: Mapping[str, str], line: int) -> Fraction:
    """Return how many of the second unit are one of the first.

    Refused where a unit is unknown, or they are of different kinds.
    """
    a, b = (_size(unit, own, line, 0) for unit in (first, second))
    if b == (Fraction(1), (0,) * 5):
        return a[0]
    if a[1] != b[1]:
        raise Refused(f"UNITS ({first}) is no multiple of ({second})", line)
    return a[0] / b[0]


def _size(text: str, own: Mapping[str, str], line: int, depth: int) -> Scaled:
    if text in own and own[text] != text and depth < 20:
        return _size(own[text], own, line, depth + 1)
    size, dimension, sign, at = Fraction(1), [0] * 5, 1, 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:
            raise Refused(f"UNITS ({text})", line, "write the number instead")
        at = found.end()
        name, exponent, number, mark = found.groups()
        if mark is not None:
            sign = -1 if mark == "/" else sign
            continue
        if number is not None:
            size *= _number(number) ** sign
            continue
        one = _named(name, own, line, depth)
        if one is None:
            raise Refused(f"unknown unit in UNITS ({text})", line, "write the number instead")
        power = sign * int(exponent or 1)
        size *= one[0] ** power
        dimension = [d + power * e for d, e in zip(dimension, one[1], strict=True)]
    return size, tuple(dimension)


def _number(text: str) -> Fraction:
    plain = re.fullmatch(r"(\d*\.?\d+)([-+]\d+)", text)  # 1-3 is 1e-3
    return Fraction(f"{plain[1]}e{plain[2]}" if plain else text)


def _named(name: str, own: Mapping[str, str], line: int, depth: int) -> Scaled | None:
    if name in own and own[name] != name and depth < 20:
        return _size(own[name], own, line, depth + 1)
    if name in _BASE:
        return _BASE[name]
    if name.endswith("s") and len(name) > 3:
        one = _named(name[:-1], own, line, depth)
        if one is not None:
            return one
    for prefix in sorted(_PREFIXES, key=len, reverse=True):
        rest = name[len(prefix) :]
        if name.startswith(prefix) and rest:
            if rest.endswith("s") and len(rest) > 3 and rest not in _BASE:
                rest = rest[:-1]
            if rest in _BASE:
                size, dimension = _BASE[rest]
                return size * Fraction(10) ** _PREFIXES[prefix], dimension
    return None
