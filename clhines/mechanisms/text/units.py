"""Units of the mechanism language: a text becomes a factor to NEURON's unit and a dimension.

A mechanism computes with NEURON's numbers: mV, ms, mA/cm2, nA and so on. `parse` reads a unit as
text and returns what a number written in it is to be multiplied by. Grammar::

    unit    = ["1"] { "/" factor } | product { "/" factor }
    product = power { ("*" | "-" | " ") power }
    factor  = power | "(" product ")"
    power   = NAME [ ["^" | "**"] EXPONENT ]         # cm2, ms-1, cm^2; EXPONENT from -9 to 9, not 0

``a/b/c`` is ``a/(b c)``; a product after a division (``a/b c``, ``a/b*c``) has two readings and is
refused. ``/ms`` is ``1/ms``; ``1`` is a pure number; ``-`` before a letter is a product, as in
NMODL (``ohm-cm``), and before a digit the sign of an exponent. ``µ`` is ``u`` and ``Ω`` is
``ohm``. Names are those of `BASES` with at most one SI prefix. No number but the ``1`` is part of a
unit.

Which unit is NEURON's? Its units do not form one coherent system, so the dimension decides:

1. The dimensions of `NEURON_UNITS` have the unit of that table.
2. Each other dimension that is a product of voltage, time, concentration, temperature difference
   and *either* current *or* current per area, with whole exponents, has the product of mV, ms, mM,
   K and nA or mA/cm2 (time at most squared). Within each of the two sets NEURON's units are
   coherent (S/cm2 times mV is mA/cm2, uS times mV is nA), so that this product is unique. The
   exception is capacitance per area, of rule 1: uF/cm2 times mV/ms is 0.001 mA/cm2.
3. Any other dimension is refused (length per time, C/mol, J/K/mol ...): NEURON has no one unit
   of it, and formulas differ in which they expect. Leave such a unit out; the number then counts
   as it is written.

``degC`` has an offset to K and is accepted alone only; a difference of temperatures inside a
product is in K. Exact numbers are kept: ``parse("mS/cm2").exact`` is ``Fraction(1, 1000)``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from functools import lru_cache
from typing import NoReturn

from clhines.errors import InputError

Dimension = tuple[int, ...]  # exponents of metre, kilogram, second, ampere, mole and kelvin
Scaled = tuple[Fraction, Dimension]  # a unit as a multiple of the SI's unit of its dimension

MAX_TEXT, MAX_EXPONENT, MAX_TIME = 100, 9, 2
PREFIXES = {
    **{"T": 12, "G": 9, "M": 6, "k": 3, "h": 2, "da": 1, "d": -1, "c": -2, "m": -3, "u": -6},
    **{"n": -9, "p": -12, "f": -15, "a": -18},
}
LONG_PREFIXES = {
    **{"tera": 12, "giga": 9, "mega": 6, "kilo": 3, "deci": -1, "centi": -2, "milli": -3},
    **{"micro": -6, "nano": -9, "pico": -12, "femto": -15, "atto": -18},
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


def _ten(power: int) -> Fraction:
    return Fraction(10) ** power


# What most mechanisms use, so that they need no registry of pint's, which takes 0.4 s to build.
COMMON: dict[str, Scaled] = {
    **{n: (_ten(k), _VOLT) for n, k in {"uV": -6, "mV": -3, "V": 0}.items()},
    **{n: (_ten(k), _SECOND) for n, k in {"us": -6, "ms": -3, "s": 0}.items()},
    **{n: (_ten(k), _AMPERE) for n, k in {"pA": -12, "nA": -9, "uA": -6, "mA": -3, "A": 0}.items()},
    **{n: (_ten(k), _SIEMENS) for n, k in {"pS": -12, "nS": -9, "uS": -6, "mS": -3}.items()},
    **{n: (_ten(k), _SIEMENS) for n, k in {"S": 0, "mho": 0, "mmho": -3, "umho": -6}.items()},
    **{n: (_ten(k), _FARAD) for n, k in {"pF": -12, "nF": -9, "uF": -6, "F": 0}.items()},
    **{n: (_ten(k), _OHM) for n, k in {"ohm": 0, "Mohm": 6}.items()},
    **{
        n: (_ten(k), _METRE)
        for n, k in {"um": -6, "micron": -6, "mm": -3, "cm": -2, "m": 0}.items()
    },
    **{n: (_ten(k), _MOLAR) for n, k in {"nM": -6, "uM": -3, "mM": 0, "M": 3}.items()},
    **{n: (_ten(k), (0, 0, -1, 0, 0, 0)) for n, k in {"Hz": 0, "kHz": 3}.items()},
    "K": (Fraction(1), _KELVIN),
}


class UnitError(InputError):
    """A unit cannot be read, or NEURON has no unit of its dimension."""


@dataclass(frozen=True)
class Unit:
    """A unit as written, and what makes NEURON's number of a number written in it.

    Attributes
    ----------
    exact : NEURON's number is this times the number written
    canonical : NEURON's unit of this dimension; ``1`` for a pure number
    dimension : exponents of metre, kilogram, second, ampere, mole and kelvin
    """

    text: str
    exact: Fraction
    canonical: str
    dimension: Dimension

    @property
    def factor(self) -> float:
        """What a number in this unit is multiplied by, rounded to float64."""
        return float(self.exact)

    @property
    def is_number(self) -> bool:
        """Whether it is the unit of a pure number."""
        return self.dimension == _NONE

    def convert(self, number: str | float | int | Fraction) -> Fraction:
        """Return NEURON's number, exactly, of a number or a text of one in this unit."""
        try:
            return Fraction(number) * self.exact
        except (ValueError, OverflowError) as error:
            raise UnitError(f"number is {_short(str(number))}; expected a finite number") from error

    def per_time(self) -> Unit:
        """Return NEURON's unit of the rate of a state in this unit, per ms.

        A UnitError says that this is not NEURON's unit of the state per ms, or that NEURON has
        none; so for capacitance, length and what has a length of its own.
        """
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


# NEURON's own units: the names that its programmers' reference and its mechanisms have.
NEURON_UNITS: dict[Dimension, tuple[Fraction, str]] = {
    _NONE: (Fraction(1), "1"),
    _VOLT: (_ten(-3), "mV"),
    _SECOND: (_ten(-3), "ms"),
    (0, 0, -1, 0, 0, 0): (_ten(3), "1/ms"),
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


# --------------------------------------------------------------------------------------- reading

_NAME = r"[A-Za-z]+"
_POWER = rf"({_NAME})(?:(?:\^|\*\*)?([-+]?\d+))?"
_PRODUCT = rf"{_POWER}(?:(?:\s*\*\s*|\s+|\s*-\s*){_POWER})*"
_FACTOR = rf"(?:{_POWER}|\(\s*{_PRODUCT}\s*\))"
_QUOTIENTS = rf"(?:\s*/\s*{_FACTOR})"
_GRAMMAR = re.compile(rf"(?:1|1?{_QUOTIENTS}+|{_PRODUCT}{_QUOTIENTS}*)")
_SIGNS = str.maketrans({"µ": "u", "μ": "u", "²": "2", "³": "3", "⁻": "-", "¹": "1", "·": "*"})
_OHMS = str.maketrans({"Ω": "ohm", "\u2126": "ohm", "°": "deg"})


def parse(text: str) -> Unit:
    """Read a unit, as the module says; nothing of the text is executed.

    A UnitError says that it is not a unit, that a name is unknown, or that NEURON has no unit of
    this dimension.
    """
    if not isinstance(text, str):
        raise UnitError(f"unit is {type(text).__name__}; expected a text such as 'mS/cm2'")
    if len(text) > MAX_TEXT:
        raise UnitError(f"unit has {len(text)} characters; expected at most {MAX_TEXT}")
    return _parsed(" ".join(text.split()))


@lru_cache(maxsize=1000)
def _parsed(given: str) -> Unit:
    plain = given.translate(_SIGNS).translate(_OHMS)
    if plain == "degC":
        return Unit(given, Fraction(1), "degC", _KELVIN)
    scale, powers = Fraction(1), []
    for name, exponent in unit_powers(plain, given):
        size, dimension = _named(name, given)
        scale *= size**exponent
        powers.append((dimension, exponent))
    dimension = _product(powers)
    if dimension == _KELVIN:
        _fail(given, "a temperature of its own is in degC in NEURON; expected degC")
    unit, canonical = _neuron_unit(dimension, given)
    return Unit(given, scale / unit, canonical, dimension)


def unit_powers(text: str, given: str) -> list[tuple[str, int]]:
    """Return names and exponents of a text that the grammar accepts."""
    if not _GRAMMAR.fullmatch(text):
        if re.search(r"/[^()/]*[A-Za-z0-9]\s*[* ]\s*[A-Za-z]", text):
            _fail(given, "a product after '/' has two readings; expected a/b/c, a/(b c) or a*c/b")
        _fail(given, "expected products and quotients of names, such as mA/cm2, 1/ms or ohm cm")
    found = []
    first, *divisors = text.split("/")
    for sign, part in [(1, first), *((-1, divisor) for divisor in divisors)]:
        for name, digits in re.findall(_POWER, part):
            exponent = int(digits) if digits else 1
            if not 0 < abs(exponent) <= MAX_EXPONENT:
                _fail(
                    given,
                    f"exponent of '{name}' is {_short(digits)}; "
                    f"expected -{MAX_EXPONENT} to {MAX_EXPONENT}, not 0",
                )
            found.append((name, sign * exponent))
    return found


def _named(name: str, given: str) -> Scaled:
    """Return a unit of one name: a base with at most one prefix."""
    name = name.replace("Ohm", "ohm")
    if name in COMMON:
        return COMMON[name]
    if name == "degC":
        _fail(given, "degC has an offset and stands alone; expected K for a difference")
    if name not in _all_names():
        near = _suggested(name)
        hint = f"did you mean '{near}'?" if near else "expected V, A, S, s, m, M and the like"
        _fail(given, f"unknown unit '{_short(name)}'; {hint}")
    return from_pint(name)


@lru_cache(maxsize=1)
def _all_names() -> frozenset[str]:
    """Every name: bases, and bases with a prefix."""
    short = {prefix + base for prefix in PREFIXES for base in SYMBOLS}
    long = {prefix + base for prefix in LONG_PREFIXES for base in WORDS}
    return frozenset(BASES | short | long)


def _suggested(name: str) -> str:
    """Return the name that a wrong one is meant to be: one that differs in case, or a close one."""
    same = [known for known in COMMON if known.lower() == name.lower()]
    long = (prefix + word for prefix in LONG_PREFIXES for word in sorted(WORDS))
    near = same or get_close_matches(name, [*COMMON, *sorted(BASES), *long], n=1, cutoff=0.6)
    return near[0] if near else ""


@lru_cache(maxsize=1000)
def from_pint(name: str) -> Scaled:
    """Return what pint says of one name of `_all_names`: size in SI's units, and dimension."""
    registry = _registry()
    units = registry.UnitsContainer({name: 1})
    base = registry.Quantity(Decimal(1), units).to_base_units()
    sizes = dict(base.unit_items())
    order = ("meter", "kilogram", "second", "ampere", "mole", "kelvin")
    unknown = set(sizes) - set(order)
    if unknown:
        raise UnitError(f"unit '{_short(name)}': its dimension has {', '.join(sorted(unknown))}")
    return Fraction(base.magnitude), tuple(int(sizes.get(unit, 0)) for unit in order)


@lru_cache(maxsize=1)
def _registry():  # type: ignore[no-untyped-def]  # pint is imported when first needed
    from pint import UnitRegistry

    return UnitRegistry(non_int_type=Decimal, cache_folder=None)


# ------------------------------------------------------------------------------------ dimensions


def _product(powers: list[tuple[Dimension, int]]) -> Dimension:
    """Add up the exponents of several dimensions."""
    return tuple(sum(d[k] * exponent for d, exponent in powers) for k in range(len(_NONE)))


def _neuron_unit(dimension: Dimension, given: str) -> tuple[Fraction, str]:
    """Return NEURON's unit of a dimension: its size in SI's units and its name."""
    if dimension in NEURON_UNITS:
        return NEURON_UNITS[dimension]
    length, mass, time, current, substance, temperature = dimension
    # Solve for exponents: the kilogram is in the volt alone, the mole in mM alone; lengths left
    # over come from currents per area, which then must be all the current there is, or none.
    voltage, concentration = mass, substance
    rest = length - 2 * voltage + 3 * concentration
    amperes, seconds = current + voltage, time + 3 * voltage
    density = -rest // 2
    if rest % 2 or density not in (0, amperes) or abs(seconds) > MAX_TIME:
        _fail(
            given,
            "NEURON has no one unit of this dimension; expected one of voltage, time, "
            "concentration and current, or current per area; or leave the unit out",
        )
    parts = {"nA": amperes - density, "mA/cm2": density, "mV": voltage, "mM": concentration}
    parts |= {"ms": seconds, "K": temperature}
    sizes = {"nA": -9, "mA/cm2": 1, "mV": -3, "mM": 0, "ms": -3, "K": 0}
    return _ten(sum(sizes[name] * exponent for name, exponent in parts.items())), _text(parts)


def _text(parts: dict[str, int]) -> str:
    """Write a product of powers as `parse` reads it, with conductances by their names."""
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


def _fail(given: str, problem: str) -> NoReturn:
    raise UnitError(f"unit '{_short(given)}': {problem}")
