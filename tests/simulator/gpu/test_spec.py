"""Rate functions for lanes of nodes: their constants against exact numbers."""

from fractions import Fraction
from math import factorial

import numpy as np
import pytest

from clhines.simulator.mechanisms.emit.series import SeriesNumbers, coefficients

EPS = {"double": 2.0**-52, "float": 2.0**-23}


@pytest.mark.parametrize("real", EPS)
def test_polynomial_of_the_exponential(real):
    """The polynomial is within an eighth rounding of the series in exact numbers."""
    c = coefficients(real)
    for k in range(-40, 41):
        x = Fraction(k) * Fraction(34657, 4000000)
        exact = sum(x**n / factorial(n + 1) for n in range(25))
        powers = [int(n[4:]) for n in c if n.startswith("exp_")]
        result = sum(Fraction(c[f"exp_{n}"]) * x**n for n in powers)
        assert abs(result / exact - 1) < EPS[real] / 8


def test_arguments_are_what_no_instruction_holds():
    for name, value in coefficients("double").items():
        long = np.float64(value) != short(value)
        assert (name in SeriesNumbers("double").arguments) == long
    assert list(SeriesNumbers("float").arguments) == ["nearly_zero"]


def short(value):
    """Return the double whose last 32 bits are 0."""
    return (np.float64(value).view(np.int64) >> 32 << 32).view(np.float64)
