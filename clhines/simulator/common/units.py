"""Parse units of the mechanism language: from a text to a dimension and a factor.

A mechanism computes in NEURON's units: mV, ms, mA/cm2, nA and so on. `parse` returns the factor
that converts numbers in a unit to NEURON's unit. Grammar::

    unit    = ["1"] { "/" factor } | product { "/" factor }
    product = power { ("*" | "-" | " ") power }
    factor  = power | "(" product ")"
    power   = NAME [ ["^" | "**"] EXPONENT ]         # cm2, ms-1, cm^2; EXPONENT from -9 to 9, not 0

``a/b/c`` is ``a/(b c)``; a product after a division (``a/b c``, ``a/b*c``) is ambiguous and
refused. ``/ms`` is ``1/ms``; ``1`` is a pure number; ``-`` before a letter is a product, as in
NMODL (``ohm-cm``), and before a digit the sign of an exponent. ``µ`` is ``u`` and ``Ω`` is
``ohm``. `BASES` lists the names, which take at most one SI prefix. ``1`` is the only number.

NEURON's units are not one coherent system, so the dimension decides which unit is NEURON's:

1. Dimensions in `NEURON_UNITS` have the unit of that table.
2. Every other dimension that is a product of voltage, time, concentration, temperature difference
   and *either* current *or* current per area, with integer exponents, has the product of mV, ms,
   mM, K and nA or mA/cm2 (time at most squared). Each of the two sets is coherent (S/cm2 times mV
   is mA/cm2, uS times mV is nA), so this product is unique. The exception is capacitance per area,
   by rule 1: uF/cm2 times mV/ms is 0.001 mA/cm2.
3. Any other dimension is refused (length per time, C/mol, J/K/mol ...): NEURON has no single unit
   for it, and formulas differ in which they expect. Without a unit, the number is used as written.

``degC`` has an offset to K and is accepted only alone; a temperature difference inside a product is
in K. Numbers are exact: ``parse("mS/cm2").exact`` is ``Fraction(1, 1000)``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import NoReturn

from clhines.core.errors import InputError

Dimension = tuple[int, ...]  # exponents: metre, kilogram, second, ampere, mole, kelvin
Scaled = tuple[Fraction, Dimension]  # a unit as a multiple of its dimension's SI unit

MAX_TEXT, MAX_EXPONENT, MAX_TIME = 100, 9, 2
PREFIXES = {
    **{"T": 12, "G": 9, "M": 6, "k": 3, "h": 2, "da": 1, "d": -1, "c": -2, "m": -3, "u": -6},
    **{"n": -9, "p": -12, "f": -15, "a": -18},
}
LONG_PREFIXES = {
    **{"yotta": 24, "zetta": 21, "exa": 18, "peta": 15, "tera": 12, "giga": 9, "mega": 6},
    **{"kilo": 3, "hecto": 2, "deka": 1, "deci": -1, "centi": -2, "milli": -3, "micro": -6},
    **{"nano": -9, "pico": -12, "femto": -15, "atto": -18},
}
SYMBOLS = set("m s A K mol V F S C J W L l M mho ohm Hz amp sec molar".split())
WORDS = set(
    """metre meter second ampere amp kelvin mole volt farad siemens mho ohm coulomb joule watt
    litre liter molar hertz""".split()
)
PLAIN = {"degC", "micron", "min", "minute", "hour", "angstrom"}  # these take no prefix
BASES = SYMBOLS | WORDS | PLAIN

_NONE: Dimension = (0, 0, 0, 0, 0, 0)
_VOLT, _SECOND, _AMPERE = (2, 1, -3, -1, 0, 0), (0, 0, 1, 0, 0, 0), (0, 0, 0, 1, 0, 0)
_METRE, _MOLAR, _KELVIN = (1, 0, 0, 0, 0, 0), (-3, 0, 0, 0, 1, 0), (0, 0, 0, 0, 0, 1)
_SIEMENS, _FARAD, _OHM = (-2, -1, 3, 2, 0, 0), (-2, -1, 4, 2, 0, 0), (2, 1, -3, -2, 0, 0)
_JOULE, _WATT, _HERTZ = (2, 1, -2, 0, 0, 0), (2, 1, -3, 0, 0, 0), (0, 0, -1, 0, 0, 0)
_COMMON = """uV mV V us ms s pA nA uA mA A pS nS uS mS S mho mmho umho pF nF uF F ohm Mohm um
    micron mm cm m nM uM mM M Hz kHz K""".split()  # suggested for wrong names
_TABLE: dict[str, tuple[str | int, Dimension]] = {  # names: size, and dimension
    "m meter metre": (1, _METRE),
    "s sec second": (1, _SECOND),
    "A amp ampere": (1, _AMPERE),
    "K degC kelvin degK celsius": (1, _KELVIN),
    "mol mole": (1, (0, 0, 0, 0, 1, 0)),
    "g gram gm": ("1e-3", (0, 1, 0, 0, 0, 0)),
    "minute min": (60, _SECOND),
    "hour hr": (3600, _SECOND),
    "C coulomb coul": (1, (0, 0, 1, 1, 0, 0)),
    "V volt": (1, _VOLT),
    "ohm": (1, _OHM),
    "S siemens mho": (1, _SIEMENS),
    "F farad": (1, _FARAD),
    "J joule": (1, _JOULE),
    "N newton": (1, (1, 1, -2, 0, 0, 0)),
    "W watt": (1, _WATT),
    "Hz hertz": (1, _HERTZ),
    "L l liter litre": ("1e-3", (3, 0, 0, 0, 0, 0)),
    "M molar": (1000, _MOLAR),
    "micron": ("1e-6", _METRE),
    "angstrom": ("1e-10", _METRE),
    "inch": ("0.0254", _METRE),
    "dyne": ("1e-5", (1, 1, -2, 0, 0, 0)),
    "erg": ("1e-7", _JOULE),
    "cal calorie": ("4.184", _JOULE),
}
# Units without a prefix in both languages; `BASES` has the texts' units.
UNITS: dict[str, Scaled] = {
    name: (Fraction(size), dimension)
    for names, (size, dimension) in _TABLE.items()
    for name in names.split()
}


def _ten(power: int) -> Fraction:
    return Fraction(10) ** power


class UnitError(InputError):
    """A unit cannot be read, or NEURON has no unit of its dimension."""


@dataclass(frozen=True)
class Unit:
    """A unit as written, with its factor to NEURON's unit and its dimension."""

    text: str
    exact: Fraction  # a written number times this is in NEURON's unit
    canonical: str  # NEURON's unit for this dimension; ``1`` for a pure number
    dimension: Dimension  # exponents: metre, kilogram, second, ampere, mole, kelvin

    @property
    def factor(self) -> float:
        return float(self.exact)

    def per_time(self) -> Unit:
        """Return NEURON's unit for the time derivative of a state in this unit, else UnitError."""
        scale, name = _neuron_unit(self.dimension, self.text)
        dimension = _product([(self.dimension, 1), (_SECOND, -1)])
        try:
            rate, rate_name = _neuron_unit(dimension, f"{name}/ms")
        except UnitError:
            rate, rate_name = Fraction(0), ""
        if rate != scale * 1000:
            raise UnitError(
                f"unit '{_short(self.text)}': a state of this unit has no rate in NEURON's units; "
                "expected a unit of voltage, time, concentration, current, conductance or charge"
            )
        return Unit(rate_name, Fraction(1), rate_name, dimension)


# NEURON's units, with the names in its programmers' reference and its mechanisms.
NEURON_UNITS: dict[Dimension, tuple[Fraction, str]] = {
    _NONE: (Fraction(1), "1"),
    _VOLT: (_ten(-3), "mV"),
    _SECOND: (_ten(-3), "ms"),
    _HERTZ: (_ten(3), "1/ms"),
    _AMPERE: (_ten(-9), "nA"),
    (-2, 0, 0, 1, 0, 0): (_ten(1), "mA/cm2"),
    _SIEMENS: (_ten(-6), "uS"),
    (-4, -1, 3, 2, 0, 0): (_ten(4), "S/cm2"),
    _FARAD: (_ten(-9), "nF"),
    (-4, -1, 4, 2, 0, 0): (_ten(-2), "uF/cm2"),
    _OHM: (_ten(6), "Mohm"),
    (3, 1, -3, -2, 0, 0): (_ten(-2), "ohm cm"),
    _METRE: (_ten(-6), "um"),
    (2, 0, 0, 0, 0, 0): (_ten(-12), "um2"),
    (3, 0, 0, 0, 0, 0): (_ten(-18), "um3"),
    _MOLAR: (Fraction(1), "mM"),
}


_NAME = r"[A-Za-z]+"
_POWER = rf"({_NAME})(?:(?:\^|\*\*)?([-+]?[0-9]+))?"
_PRODUCT = rf"{_POWER}(?:(?:\s*\*\s*|\s+|\s*-\s*){_POWER})*"
_FACTOR = rf"(?:{_POWER}|\(\s*{_PRODUCT}\s*\))"
_QUOTIENTS = rf"(?:\s*/\s*{_FACTOR})"
_GRAMMAR = re.compile(rf"(?:1|1?{_QUOTIENTS}+|{_PRODUCT}{_QUOTIENTS}*)")
_SIGNS = str.maketrans({"µ": "u", "μ": "u", "²": "2", "³": "3", "⁻": "-", "¹": "1", "·": "*"})
_OHMS = str.maketrans({"Ω": "ohm", "\u2126": "ohm", "°": "deg"})


def parse(text: str) -> Unit:
    """Read a unit by the grammar of this module; nothing in the text is executed."""
    if not isinstance(text, str):
        raise UnitError(f"unit is {type(text).__name__}; expected a text such as 'mS/cm2'")
    if len(text) > MAX_TEXT:
        raise UnitError(f"unit has {len(text)} characters; expected at most {MAX_TEXT}")
    return _parsed(" ".join(text.split()))


@lru_cache(maxsize=1000)
def _parsed(unit_text: str) -> Unit:
    plain = unit_text.translate(_SIGNS).translate(_OHMS)
    if plain == "degC":
        return Unit(unit_text, Fraction(1), "degC", _KELVIN)
    scale, powers = Fraction(1), []
    for name, exponent in unit_powers(plain, unit_text):
        size, dimension = _named(name, unit_text)
        scale *= size**exponent
        powers.append((dimension, exponent))
    dimension = _product(powers)
    if dimension == _KELVIN:
        _fail(unit_text, "a temperature of its own is in degC in NEURON; expected degC")
    unit, canonical = _neuron_unit(dimension, unit_text)
    return Unit(unit_text, scale / unit, canonical, dimension)


_NUMBER = r"[-+]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,3})?"
_QUANTITY = re.compile(rf"({_NUMBER})\s*(?![eE]?[-+]?\d+$)([^\d\s.+-].*)", re.S)


def number_in(text: str, unit: str) -> float | None:
    """Convert a text such as ``5 ms`` to a correctly rounded number in `unit`, others to None."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        return None
    text_unit, wanted = parse(match[2]), parse(unit)
    if text_unit.dimension != wanted.dimension:
        raise UnitError(f"{_short(text_unit.text)} and {unit} are units of different quantities")
    try:
        return float(Fraction(match[1]) * text_unit.exact / wanted.exact)
    except OverflowError:
        return math.copysign(math.inf, float(match[1]))


def unit_powers(text: str, unit_text: str) -> list[tuple[str, int]]:
    """Return the names in a unit and their exponents; errors quote `unit_text`."""
    if not _GRAMMAR.fullmatch(text):
        if re.search(r"/[^()/]*[A-Za-z0-9]\s*[* ]\s*[A-Za-z]", text):
            _fail(
                unit_text, "a product after '/' has two readings; expected a/b/c, a/(b c) or a*c/b"
            )
        _fail(unit_text, "expected products and quotients of names, such as mA/cm2, 1/ms or ohm cm")
    powers = []
    first, *divisors = text.split("/")
    for sign, part in [(1, first), *((-1, divisor) for divisor in divisors)]:
        for name, digits in re.findall(_POWER, part):
            exponent = int(digits) if digits else 1
            if not 0 < abs(exponent) <= MAX_EXPONENT:
                _fail(
                    unit_text,
                    f"exponent of '{name}' is {_short(digits)}; "
                    f"expected -{MAX_EXPONENT} to {MAX_EXPONENT}, not 0",
                )
            powers.append((name, sign * exponent))
    return powers


def _named(name: str, unit_text: str) -> Scaled:
    name = name.replace("Ohm", "ohm")
    if name == "degC":
        _fail(unit_text, "degC has an offset and stands alone; expected K for a difference")
    if name not in all_names():
        near = _suggested(name)
        hint = f"did you mean '{near}'?" if near else "expected V, A, S, s, m, M and the like"
        _fail(unit_text, f"unknown unit '{_short(name)}'; {hint}")
    return all_names()[name]


@lru_cache(maxsize=1)
def all_names() -> dict[str, Scaled]:
    units = {base: UNITS[base] for base in BASES}
    for prefixes, bases in ((PREFIXES, SYMBOLS), (LONG_PREFIXES, WORDS)):
        for prefix, base in product(prefixes, bases):
            size, dimension = UNITS[base]
            units[prefix + base] = size * _ten(prefixes[prefix]), dimension
    return units


def _suggested(name: str) -> str:
    same = [common for common in _COMMON if common.lower() == name.lower()]
    long = (prefix + word for prefix in LONG_PREFIXES for word in sorted(WORDS))
    near = same or get_close_matches(name, [*_COMMON, *sorted(BASES), *long], n=1, cutoff=0.6)
    return near[0] if near else ""


def _product(powers: list[tuple[Dimension, int]]) -> Dimension:
    return tuple(sum(d[k] * exponent for d, exponent in powers) for k in range(len(_NONE)))


def _neuron_unit(dimension: Dimension, unit_text: str) -> tuple[Fraction, str]:
    if dimension in NEURON_UNITS:
        return NEURON_UNITS[dimension]
    length, mass, time, current, substance, temperature = dimension
    # Solve for exponents: only the volt contains the kilogram, only mM the mole. The remaining
    # lengths belong to currents per area; either all current is per area, or none.
    voltage, concentration = mass, substance
    rest = length - 2 * voltage + 3 * concentration
    amperes, seconds = current + voltage, time + 3 * voltage
    density = -rest // 2
    if rest % 2 or density not in (0, amperes) or abs(seconds) > MAX_TIME:
        _fail(
            unit_text,
            "NEURON has no one unit of this dimension; expected one of voltage, time, "
            "concentration and current, or current per area; or leave the unit out",
        )
    parts = {"nA": amperes - density, "mA/cm2": density, "mV": voltage, "mM": concentration}
    parts |= {"ms": seconds, "K": temperature}
    sizes = {"nA": -9, "mA/cm2": 1, "mV": -3, "mM": 0, "ms": -3, "K": 0}
    return _ten(sum(sizes[name] * exponent for name, exponent in parts.items())), _text(parts)


def _text(parts: dict[str, int]) -> str:
    """Write a unit in `parse`'s grammar from exponents of NEURON's units."""
    parts = dict(parts)
    powers: list[tuple[str, int]] = []
    for current, conductance in (("nA", "uS"), ("mA/cm2", "S/cm2")):
        if parts[current] == 1 and parts["mV"] < 0:
            parts |= {current: 0, "mV": parts["mV"] + 1, conductance: 1}
    for name in sorted(parts, key=lambda name: "S" not in name):
        above, _, below = name.partition("/")
        powers.append((above, parts[name]))
        powers += [("cm", -2 * parts[name])] if below else []
    over = [n + (str(e) if e > 1 else "") for n, e in powers if e > 0]
    under = [n + (str(-e) if e < -1 else "") for n, e in powers if e < 0]
    return "/".join([" ".join(over) or "1", *under])


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _fail(unit_text: str, problem: str) -> NoReturn:
    raise UnitError(f"unit '{_short(unit_text)}': {problem}")
