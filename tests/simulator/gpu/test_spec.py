"""Rate functions for lanes of nodes: their constants against exact numbers."""

from fractions import Fraction
from math import factorial

import numpy as np
import pytest

from clhines.simulator.mechanisms.emit.series import SeriesNumbers, coefficients, terms

EPS = {"double": 2.0**-52, "float": 2.0**-23}


def off(coefficients, powers, x):
    """Return a polynomial's relative difference from the exponential's series in exact numbers."""
    exact = sum(x**n / factorial(n + 1) for n in range(25))
    return abs(sum(Fraction(coefficients[f"exp_{n}"]) * x**n for n in powers) / exact - 1)


@pytest.mark.parametrize("real", EPS)
def test_polynomial_of_the_exponential(real):
    """It is within an eighth rounding; its first terms are within half of one, where they do."""
    c = coefficients(real)
    powers = [int(n[4:]) for n in c if n.startswith("exp_")]
    for k in range(-40, 41):
        assert off(c, powers, Fraction(k) * Fraction(34657, 4000000)) < EPS[real] / 8
    for most in (0.004, 0.05, 0.2, 0.34):
        few = range(terms(most, np.array([1.0, 3.0]), real))
        assert all(off(c, few, -Fraction(most) * k / 10) < EPS[real] / 2 for k in range(11))


@pytest.mark.parametrize("least, has", [(1.0, True), (0.05, False), (-1.0, False)])
def test_terms_are_those_of_the_least_tau(least, has):
    assert (terms(0.025, np.array([2.0, least]), "double") > 0) == has


def test_arguments_are_what_no_instruction_holds():
    for name, value in coefficients("double").items():
        long = np.float64(value) != short(value)
        assert (name in SeriesNumbers("double").arguments) == long
    assert list(SeriesNumbers("float").arguments) == ["nearly_zero"]


def short(value):
    """Return the double whose last 32 bits are 0."""
    return (np.float64(value).view(np.int64) >> 32 << 32).view(np.float64)
