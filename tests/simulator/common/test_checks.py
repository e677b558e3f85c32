"""Checks of network arguments: conversions and refusals."""

import numpy as np
import pytest

from clhines.core.errors import InputError
from clhines.simulator.common import checks

pytestmark = pytest.mark.core


def test_numbers_are_spread():
    assert checks.as_seed(2**64 - 1) == 2**64 - 1
    assert checks.spread("x", 2, 3).tolist() == [2.0, 2.0, 2.0]
    assert checks.broadcast({"a": [1, 2], "b": 3}, {})["b"].tolist() == [3, 3]


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (lambda: checks.as_seed(np.timedelta64(1, "s")), "expected a whole number, 0 or more"),
        (lambda: checks.as_seed(2**64), "expected less than 2**64"),
        (lambda: checks.check_parameter("hh", "gnabr", ["gnabar"]), "hh has no parameter 'gnabr'"),
        (lambda: checks.spread("x", [1, 2], 3), "x has shape (2,); expected a number or (3,)"),
        (lambda: checks.broadcast({"a": [1, 2], "b": [1, 2, 3]}, {}), "a (2,), b (3,) do not"),
    ],
)
def test_one_line_says_what_was_expected(check, text):
    with pytest.raises(InputError) as error:
        check()
    assert text in str(error.value) and "\n" not in str(error.value)


def test_wrong_attributes():
    @checks.unchangeable("another solver")
    class Fixed:
        pass

    with pytest.raises(InputError, match="Fixed: dtype cannot be set; expected another solver"):
        Fixed().dtype = 1
