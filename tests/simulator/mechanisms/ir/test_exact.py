"""Exact numbers: functions to 60 digits against mpmath; refusals."""

from fractions import Fraction

import mpmath
import pytest

from clhines.simulator.mechanisms.ir import exact
from clhines.simulator.mechanisms.ir.exact import ExpressionError, NotRealError

pytestmark = pytest.mark.core
NUMBERS = [Fraction(n, d) for n, d in ((1, 3), (-7, 2), (22, 7), (355, 113), (-1, 1000))]


@pytest.mark.parametrize("name", ["exp", "log"])
def test_functions_have_60_digits(name):
    with mpmath.workdps(80):
        for x in NUMBERS:
            if name == "log":
                x = abs(x)
            true = getattr(mpmath, name)(mpmath.mpf(x.numerator) / x.denominator)
            result = exact.FUNCTIONS[name](x)
            result = mpmath.mpf(result.numerator) / result.denominator
            # four roundings of 5e-60 each (60 digits) and the argument's rounding; some cancel
            size = (4 + abs(float(x))) * max(1, abs(true))
            assert abs(result - true) < 5 * mpmath.mpf(10) ** -60 * size


def test_powers_and_literals():
    assert exact.power(Fraction(4, 9), Fraction(1, 2)) == Fraction(2, 3)
    assert exact.power(Fraction(-2, 3), Fraction(-3)) == Fraction(-27, 8)
    with mpmath.workdps(80):
        result = exact.power(Fraction(2), Fraction(1, 3))
        assert abs(mpmath.mpf(result.numerator) / result.denominator - mpmath.cbrt(2)) < 1e-58
    assert exact.literal("1.25e-3") == Fraction(1, 800) and exact.literal("0e999") == 0
    assert exact.total([Fraction(1, 3), -exact.bounded(Fraction(1, 3))]) == 0


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: exact.literal("1" * 401), "a number has 401 characters; expected at most 400"),
        (lambda: exact.literal("1e401"), "a number is too large"),
        (lambda: exact.literal("1e-500"), "a number is too small"),
        (lambda: exact.exp(Fraction(901)), "a number is too large"),
        (lambda: exact.power(Fraction(10), Fraction(401)), "a number is too large"),
    ],
)
def test_what_is_too_large_is_refused(call, text):
    with pytest.raises(ExpressionError, match=text):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: exact.log(Fraction(0)),
        lambda: exact.power(Fraction(0), Fraction(-1)),
        lambda: exact.power(Fraction(-2), Fraction(1, 2)),
    ],
)
def test_what_is_no_real_number(call):
    with pytest.raises(NotRealError):
        call()
