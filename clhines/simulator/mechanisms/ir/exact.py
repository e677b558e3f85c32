"""Exact numbers: fractions of bounded size, and their functions to 60 digits.

Literals are exact decimals. Results stay exact until they need too many digits; then, like
irrational function values, they are rounded to `DIGITS` decimal digits, many more than float64 has.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

DIGITS = 60
MAX_LITERAL = 400  # characters in a literal
MAX_POWER = 64  # largest whole exponent
_MAX_BITS = 6000  # numerator and denominator together
_LARGEST = Fraction(math.ldexp(1.0, 1023)) * 2
_SMALLEST = Fraction(1, 10**400)
_SAME = Fraction(1, 10**50)  # relative difference that rounding may cause
PI = Fraction("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")


class ExpressionError(ValueError):
    """An expression that has no finite real value, or is too large."""


class NotRealError(ExpressionError):
    """A constant part of an expression has no finite real value."""


def bounded(x: Fraction) -> Fraction:
    """Round a number to `DIGITS` if it is too long; ExpressionError if it is out of range."""
    n, d = x.numerator, x.denominator
    if n.bit_length() < 900 and d.bit_length() < 900:
        return x
    if abs(x) >= _LARGEST:
        raise ExpressionError("a number is too large")
    if abs(x) < _SMALLEST:
        raise ExpressionError("a number is too small")
    if n.bit_length() + d.bit_length() > _MAX_BITS:
        return Fraction(_decimal(x))
    return x


def literal(text: str) -> Fraction:
    """Return a decimal literal's exact value; ExpressionError if too long or out of range."""
    if len(text) > MAX_LITERAL:
        raise ExpressionError(
            f"a number has {len(text)} characters; expected at most {MAX_LITERAL}"
        )
    mantissa, _, exponent = text.lower().partition("e")
    digits = Fraction(mantissa)
    power = int(exponent or 0)
    if digits != 0 and power > 400:
        raise ExpressionError("a number is too large")
    if digits != 0 and power < -800:
        raise ExpressionError("a number is too small")
    return bounded(digits * Fraction(10) ** power) if digits else Fraction(0)


def total(numbers: list[Fraction]) -> Fraction:
    """Return a sum; 0 if it is within rounding error of 0."""
    if len(numbers) == 1:
        return numbers[0]
    result = sum(numbers, Fraction(0))
    if result and abs(result) < _SAME * max(abs(x) for x in numbers):
        return Fraction(0)
    return bounded(result)


def power(base: Fraction, exponent: Fraction) -> Fraction:
    """Return a power; NotRealError if it is no finite real number, ExpressionError if too large."""
    if (base == 0 and exponent < 0) or (base < 0 and exponent.denominator != 1):
        raise NotRealError("a power")
    if base == 0 or exponent == 0:
        return Fraction(int(exponent == 0))
    if abs(base) != 1:
        size = float(exponent) * math.log10(abs(base))
        if abs(size) > 400:
            raise ExpressionError(f"a number is too {'large' if size > 0 else 'small'}")
    if exponent.denominator == 1 and abs(exponent) <= MAX_POWER:
        return bounded(base ** int(exponent))
    if exponent == Fraction(1, 2):
        whole = Fraction(math.isqrt(base.numerator), math.isqrt(base.denominator))
        if whole * whole == base:
            return whole
    sign = -1 if base < 0 and exponent % 2 == 1 else 1
    with localcontext() as context:
        context.prec = DIGITS
        return sign * bounded(Fraction((_decimal(exponent) * _decimal(abs(base)).ln()).exp()))


def _decimal(x: Fraction) -> Decimal:
    with localcontext() as context:
        context.prec = DIGITS
        return Decimal(x.numerator) / Decimal(x.denominator)


def exp(x: Fraction) -> Fraction:
    if abs(x) > 900:
        raise ExpressionError(f"a number is too {'large' if x > 0 else 'small'}")
    with localcontext() as context:
        context.prec = DIGITS
        return bounded(Fraction(_decimal(x).exp()))


def log(x: Fraction) -> Fraction:
    if x <= 0:
        raise NotRealError("a logarithm")
    with localcontext() as context:
        context.prec = DIGITS
        return Fraction(_decimal(x).ln())


def sign(x: Fraction) -> Fraction:
    return Fraction((x > 0) - (x < 0))


FUNCTIONS: dict[str, Callable[[Fraction], Fraction]] = {
    "exp": exp, "log": log, "abs": abs, "sign": sign,
}  # fmt: skip


@lru_cache(maxsize=4)
def bernoulli_numbers(count: int) -> list[Fraction]:
    result: list[Fraction] = []
    for m in range(count):
        rest = sum((math.comb(m + 1, k) * b for k, b in enumerate(result)), Fraction(0))
        result.append(Fraction(1) if m == 0 else -rest / (m + 1))
    return result
