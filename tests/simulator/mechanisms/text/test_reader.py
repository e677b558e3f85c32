"""Statements of a text: sorted, checked and refused by line."""

import pytest
from mechanism_texts import minimal

from clhines.core.errors import InputError
from clhines.simulator.mechanisms.mechanism import Mechanism

pytestmark = pytest.mark.core


REFUSED = {
    "current i = g*(v - e)": "line 2: unknown symbol 'g'",
    "parameter g = 1 S/cm2\ncurrent i = g*foo(v)": "line 3: unknown function 'foo'; known are exp",
    "parameter g = 1 S/cm3/parsec\ncurrent i = g": "line 2: 'g': unit 'S/cm3/parsec': unknown",
    "parameter g = v\ncurrent i = v": "line 2: parameter 'g' got 'v'; expected a number",
    "state m\ncurrent i = v": "line 2: state 'm' has no initial value",
    "state m =\ncurrent i = v": "line 2: 'm' has nothing on its right side",
    "dm/dt = 1 - v\ncurrent i = v": "line 2: 'm' is no state",
    "state m = 0\ndm/dt = -m\ndm/dt = -m\ncurrent i = m": "line 4: 'dm/dt' is given twice",
    "state m = 0\nm = 2\ncurrent i = m": "line 3: 'm' is defined twice, first in line 2",
    "state m = 0\ndm/dt = -m^2\ncurrent i = m": "line 3: state 'm' is not linear in itself and no",
    "state m = 0\ndm/dt = m^2 - (m + 1)^2\ncurrent i = m": "line 3: state 'm' is not linear in its",
    "state m = 0\ndm/dt = -m\ncurrent i = m\nmethod heun": "line 5: unknown method 'heun'",
    "state m = n\nstate n = m\ncurrent i = m": "line 2: an initial value cannot depend on 'n'",
    "state m = t\ncurrent i = m": "line 2: an initial value cannot depend on 't'",
    "state m = 0\ndm/dt = noise*m\ncurrent i = m": "line 3: noise in 'dm/dt' is no term that exp",
    "state m = 0\ndm/dt = noise^2 - m\ncurrent i = m": "line 3: noise in 'dm/dt' is no term",
    "state m = 0\ndm/dt = noise - i\ncurrent i = m*v": "line 3: noise in 'dm/dt' is no term",
    "state m = 0\ndm/dt = noise - m\ncurrent i = m\nmethod euler all": "line 3: noise in 'dm/dt'",
    "ion ca\ncurrent i = v": "line 2: expected one of eca, cai, cao, ica in the text",
    "ion ca\nparameter eca = 120 mV\ncurrent i = v - eca": "line 3: 'eca' is a variable of an ion",
    "ion ca\ncai = 1e-4\ncurrent i = cai": "line 3: 'cai' is a variable of an ion; expected 'state",
    "ion ca\nstate ica = 0\ncurrent i = v": "line 3: 'ica' is a variable of an ion; expected 'curr",
    "ion ca\nstate cai = 1 mV\ndcai/dt = -cai": "line 3: 'cai' is in 'mV'; expected mM",
    "ion ca\ncurrent i = ica": "line 3: a current cannot depend on 'ica'",
    "ion ca\nstate m = ica\ncurrent i = m": "line 3: an initial value cannot depend on 'ica'",
    "ion ca\nion ca\ncurrent i = eca": "line 3: 'ca' is given twice, first in line 2",
    "ion ca\nstate cai = 1\non event: cai += 1": "line 4: the event changes 'cai', which is of an",
    "ion ca\nstate m = 0\ncurrent i = m*cai\non event: m += cai": "line 5: the action of an",
    "ion p\ncurrent i = pi": "line 2: one of ep, pi, po, ip has a meaning already",
    "ion i\ncurrent i = ei": "line 2: one of ei, ii, io, ii has a meaning already",
    "ion c__a\ncurrent i = ec__a": "line 2: 'c__a': names have no double",
    "current ica = v - eca": "line 2: unknown symbol 'eca'",
    "ion ca, cai\ncurrent i = cai": "line 2: cannot read this statement; did you mean 'ion",
    "current i = weight": "line 2: a current cannot depend on 'weight'",
    "a = b\nb = 2*a\ncurrent i = a": "line 2: 'a' is defined by itself (a -> b -> a)",
    "parameter g = 1": "few has no current; expected a line 'current i",
    "current i = v\non event: i += weight": "line 3: the event changes 'i', which is no state",
    "state g = 0\ncurrent i = g\non event: g": "line 4: cannot read the action 'g'",
    "state g = 0\ncurrent i = g\non event: g += v": "line 4: the action of an event cannot",
    "state g = 0\ncurrent i = g\non event: g += 1; g += 2": "line 4: the event changes 'g' twice",
    "current i = v +": "line 2: cannot read the expression at 'the end'",
    "current i = 2 v": "line 2: 'i': unit 'v': unknown unit 'v'",
    "state w = 0\ndw/dt = (1 - w\ncurrent i = w*(v)": "line 3: the brackets of 'dw/dt'",
    "current i = (v": "line 2: the brackets of 'i' do not match",
    "current i = v) + (v": "line 2: the brackets of 'i' do not match",
    "state m = 0\ncurrent i = m__": "line 3: unknown symbol 'm__'",
    "current i = v*2 mA/cm2": "line 2: cannot read the expression at 'mA/cm2' (a unit",
    "parameter g = 1e999\ncurrent i = v": "line 2: parameter 'g' got '1e999'; expected a number",
    "current i = True": "line 2: unknown symbol 'True'",
    "current i = 1e999*v": "line 2: a number is too large",
    "current i = v; import os": "line 2: unexpected character ';'",
    "current i = v.real": "line 2: cannot use 'v.real'",
    "current i = v*\x01": r"line 2: unexpected character '\x01'; in 'current i = v*\x01'",
    "current i = exp": "line 2: unknown symbol 'exp'; 'exp' is a function",
    "current i = exp(v, 2)": "line 2: 'exp' got 2 arguments; expected 1",
    "current i = v == 2": "line 2: expected <, <=, > or >=",
    "current i = [x for x in v]": "line 2:",
    "current i = lambda: v": "line 2: unexpected character ':'",
    "current i = __import__": "line 2: unknown symbol '__import__'",
    "current i = v^999999999": "line 2: power 999999999 is too large",
    "current i = 9^9^9^9": "line 2: power",
    "current i = 1/0": "line 2: 'i' is not a finite real number",
    "current i = sqrt(-2)*v": "line 2: 'i' is not a finite real number",
    "parameter v = 2\ncurrent i = v": "line 2: 'v' has a meaning already",
    "parameter exp = 2\ncurrent i = v": "line 2: 'exp' has a meaning already",
    "parameter g_ = 2\ncurrent i = v": "line 2: 'g_': names have",
    "currant i = v": "line 2: cannot read this statement",
    "current i = v\nsubsteps 2": "line 3: cannot read this statement",
    "current i = v\nmethod euler\nmethod rk4": "line 4: 'method' is given twice, first in line 3",
    "parameter µ = 2\ncurrent i = v": "line 2:",
    "current i = " + "(" * 400 + "v" + ")" * 400: "line 2:",
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
