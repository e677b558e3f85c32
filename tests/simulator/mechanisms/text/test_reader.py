"""Statements of a text: sorted, checked and refused by line."""

import pytest
from mechanism_texts import minimal

from clhines.core.errors import InputError
from clhines.simulator.mechanisms.mechanism import Mechanism

pytestmark = pytest.mark.core


REFUSED = {
    "parametee gbar = 1\ncurrent i = v": "line 2: cannot read this statement; did you mean 'para",
    "parametee = 3\ncurrent i = v": "line 2: 'parametee' is used nowhere; did you mean the keywor",
    "parameter = 3\ncurrent i = v": "line 2: 'parameter' is a keyword",
    "parameter gbar 1.5 S/cm2": "line 2: cannot read this statement; expected 'parameter NAM",
    "parameter celsius = 23 C": "line 2: parameter 'celsius' has the unit nA ms; expected degC",
    "current i = celsius*v": "line 2: unknown symbol 'celsius'; expected 'parameter celsius = 6.3",
    "parameter gbar = 1\ncurrent i = gbr*v": "line 3: unknown symbol 'gbr'; did you mean 'gbar'",
    "current i = v*" + "q" * 50_000: "line 2: unknown symbol 'qqq",
    "q" * 50_000: "line 2: cannot read this statement",
    "current i = exp(1000)*v": "line 2: a number is too large",
    "current i = v*1e-500": "line 2: a number is too small",
    "state s = 1\ncurrent i = s\non event: s /= 0": "line 4: 's' is not a finite real number",
    "state s = 1\ncurrent i = s\non event: s = 1/(2 - 2)": "line 4: 's' is not a finite real",
    "parameter g = 120 parsec\ncurrent i = g": "line 2: 'g': unit 'parsec': unknown unit",
    "current i = v [S/cm2]": "line 2: current 'i' is in 'S/cm2'; expected mA/cm2",
    "current i = v [nA]": "line 2: current 'i' is in 'nA'; expected mA/cm2",
    "parameter g = 1 S/cm3\ncurrent i = g": "line 2: 'g': unit 'S/cm3': NEURON has no one unit",
    "current i = v [S]": "line 2: current 'i' is in 'S'; expected mA/cm2",
    "state m = 0\ndm/dt = -m [mV]\ncurrent i = m": "line 3: 'dm/dt' is in 'mV'; expected 1/ms or a",
    "state m = 0 mM\ndm/dt = -m [1/ms]\ncurrent i = m": "expected mM/ms or a multiple of it",
    "state a = 1\nstate b = 0\nda/dt = b - a\ndb/dt = a - b\ncurrent i = a": (
        "line 4: states 'a', 'b' depend on each other and no method is named; expected a line "
        "'method sparse'"
    ),
    "state a = 1\nstate b = 0\nf = 2*b\nda/dt = f - a\ng = a\ndb/dt = g - b\ncurrent i = a": (
        "line 5: states 'a', 'b' depend on each other"
    ),
    "state a = 1\nda/dt = -a\ncurrent i = a\nmethod rk4": "line 5: no state takes 'method rk4'",
    "state a = 1\nda/dt = -a\ncurrent i = a\nmethod sparse": "no state takes 'method sparse'",
    "state a = 1\nda/dt = -a^2\ncurrent i = a\nmethod sparse": "line 3: 'da/dt' is not linear in",
    "state a = 1\nstate b = 1\nda/dt = -a*b\ndb/dt = a - b\ncurrent i = a\nmethod sparse": (
        "'da/dt' is not linear in 'a', 'b' together"
    ),
    "state a = dt\ncurrent i = a": "line 2: an initial value cannot depend on 'dt'",
    "state a = 1\ncurrent i = a\non event: a += dt": "the action of an event cannot depend on 'dt'",
    "parameter dt = 1\ncurrent i = v": "line 2: 'dt' has a meaning already",
}


@pytest.mark.parametrize("body", REFUSED, ids=lambda b: b[:40].replace("\n", " | "))
def test_refusals(body):
    with pytest.raises(InputError) as caught:
        Mechanism(minimal(body))
    assert REFUSED[body] in str(caught.value)
    assert len(str(caught.value)) <= 400 and "\n" not in str(caught.value)


def test_what_looks_like_a_keyword_and_is_used_is_a_name():
    assert Mechanism(minimal("states = 2*v\ncurrent i = states")).current(3.0, 0.0)[0] == 6


@pytest.mark.parametrize(
    "line",
    [
        *("parameter g = \u0665", "parameter g = 1\u0665 mS/cm2", "parameter g = 1 mS/cm\u0662"),
        *("x = 3*\u0663", "ion zn valence \u0662", "ion \u00f1", "ion n\u0662"),
    ],
)
def test_digits_of_other_scripts_are_refused(line):
    with pytest.raises(InputError, match="line 2"):
        Mechanism(f"density one\n{line}\nparameter p = 1 mS/cm2\ncurrent i = p*v\n")
