"""Helpers of generated source: a quotient that is finite at 0."""

from fractions import Fraction

import pytest

from clhines.simulator.mechanisms.emit.helpers import bernoulli_coefficients
from clhines.simulator.mechanisms.emit.series import NEAR, coefficients

EPS = {"double": 2.0**-52, "float": 2.0**-23}


@pytest.mark.parametrize("real", EPS)
def test_series_near_zero(real):
    c, x = coefficients(real), Fraction(NEAR)
    every = bernoulli_coefficients("double")
    exact = 1 - x / 2 + sum(value * x ** (2 * k + 2) for k, value in enumerate(every))
    own = [int(n[10:]) for n in c if n.startswith("bernoulli_")]
    result = 1 - x / 2 + sum(Fraction(c[f"bernoulli_{k}"]) * x ** (2 * k + 2) for k in own)
    assert abs(result / exact - 1) < EPS[real] / 4
