"""Decisions by array elements outside of the bounds."""

import numpy as np
import pytest

from clhines.simulator.mechanisms import Mechanism

DECIDING = """NEURON { SUFFIX deciding NONSPECIFIC_CURRENT i RANGE x, at }
PARAMETER { at = 1 }
ASSIGNED { v i x y[3] last }
INITIAL { FROM k = 0 TO 2 { y[k] = k - 1 } last = y[at] }
BREAKPOINT { LOCAL n
    x = 1
    CONDITION
    i = 1e-5*(v + 50)
}
FUNCTION looked(a) { TABLE FROM 0 TO 1 WITH 4
    looked = a
}"""


@pytest.mark.filterwarnings("ignore:invalid value encountered in log")
@pytest.mark.parametrize(
    "condition",
    [
        "if (y[at] > 0) { x = 2 }",
        "if (at < 9 && !(y[at] <= 0)) { x = 2 }",
        "if (y[at]) { x = 2 }",
        "if (last > 0) { if (v < 0) { x = 2 } }",
        "n = 0 WHILE (n < 2) { n = n + 1 if (y[at] == 1) { x = 2 } }",
        "n = 0 WHILE (n < 2*y[at]) { n = n + 1 x = 2 }",
        "x = 1 + looked(y[at])",
        "n = 2 WHILE (n <= 2 && y[at] > 0) { n = n + 1 x = 2 }",
        "x = at if (at > 2 || at < 0) { x = y[3] }",
        "IF (1) { LOCAL w[2]\nw[1] = at IF (w[1] < 3 && w[1] >= 0) { x = at } ELSE { x = w[2] } }",
    ],
)
def test_decisions_by_what_is_outside_of_an_array_are_no_number(condition):
    m = Mechanism.from_nmodl(DECIDING.replace("CONDITION", condition))
    at = np.array([1.0, 2.0, 3.0, -1.0])
    lists = [m.calls("initial"), m.calls("current", ["x"])]
    values = dict.fromkeys((a.name for calls in lists for a in calls), np.zeros(4))
    values |= {"at": at, "v": at * 0 - 65, "looked": np.arange(5.0)[:, None] / 4}
    for block, calls in zip(("initial", "current"), lists, strict=True):
        given = [values[a.name] for a in calls if a.direction != "out"]
        outputs = ["x"] if block == "current" else []
        got = m.twin(block, outputs)(*given)
        names = [a.name for a in calls if a.direction != "in"]
        values |= {n: np.broadcast_to(x, 4) for n, x in zip(names, got, strict=True)}
    assert np.array_equal(values["x"], [1, 2, np.nan, np.nan], equal_nan=True)
