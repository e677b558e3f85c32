"""Texts that NEURON's translator refuses are refused, in the line where they are wrong."""

import nocmodl
import pytest

from clhines.simulator.mechanisms import Mechanism, builtin
from clhines.simulator.mechanisms.nmodl import NmodlError

BODY = """NEURON {{ SUFFIX one  NONSPECIFIC_CURRENT i  RANGE x }}
ASSIGNED {{ v i x y[4] }}
PARAMETER {{ p = 1 }}
STATE {{ m }}
BREAKPOINT {{ SOLVE rates METHOD cnexp
{}
i = v*p }}
DERIVATIVE rates {{ m' = 1 - m }}
FUNCTION f(a) {{ f = a }}
FUNCTION f2(a, b) {{ f2 = a + b }}
"""
NEURON = """NEURON {{ SUFFIX one  NONSPECIFIC_CURRENT i
{} }}
ASSIGNED {{ v i zz xx ina ena cai }}
BREAKPOINT {{ i = v }}
"""
FILE = """NEURON {{ SUFFIX one  NONSPECIFIC_CURRENT i }}
ASSIGNED {{ v i }}
{}
BREAKPOINT {{ i = v }}
"""
WRONG = {  # template, and what stands in it
    BODY: [
        "x = +1", "x = 2*+x", "x = 1 ;", "f2(1 2)", "x = f2(1, 2,)", "LOCAL q x = q",
        "x = 1 LOCAL q", "x = 1\nLOCAL q\nq = 1", "x = y", "y = 1", "x[0] = 1", "x = x[0]",
        "y[1.5] = 1", "y[y[0]] = 1", "(x) = 1", "FROM k = 0.5 TO 2 { x = k }",
        "FROM k = -1 TO 2 { x = k }", "SOLVE rates METHOD cnexp", "INITIAL { x = 1 }",
        "TABLE x FROM 0 TO 1 WITH 10", "CONDUCTANCE p USEION na", "x = 1 (mV", "x = 1 (mV\n)",
        "x = POINTER", "x = {", "x = 1 }", "VERBATIM\nENDVERBATIM x = 1 VERBATIM\nENDVERBATIM",
        "VERBATIM x = 1; ENDVERBATIM",
    ],
    NEURON: [
        "RANGE", "RANGE zz,", "RANGE zz xx", "NONSPECIFIC_CURRENT", "GLOBAL nope",
        "POINTER nope", "RANDOM zz", "SECTION zz", "USEION na", "USEION na READ zz",
        "USEION na READ ena WRITE zz", "USEION na READ ena WRITE ina, zz",
        "USEION na WRITE ina READ ena", "USEION na READ ena READ ina", "USEION na READ ena ina",
        "USEION na READ ena VALENCE 2 WRITE ina", "USEION na READ ena\nUSEION na WRITE ina",
        "USEION ca READ cai\nUSEION na READ cai", "RANDOM t", "RANDOM acos",
    ],
    FILE: [
        "PARAMETER { g = 1 (S/cm2 }", "PARAMETER { g = +1 }",
        "PARAMETER { g = --1 }", "PARAMETER { g = 1 <0> }", "PARAMETER { g[3] = 1 }",
        "PARAMETER { g[1.5] }", "PARAMETER { UNITSOFF }", "PARAMETER { v = 1 }",
        "PARAMETER { t (ms) }", "PARAMETER { exp = 1 }", "PARAMETER { step = 1 }",
        "PARAMETER { g = 1_0 }", "PARAMETER { FROM = 1 }", "PARAMETER { _g = 1 }",
        "ASSIGNED { a, b }", "ASSIGNED { a START 2 }", "ASSIGNED { a <0,1> }",
        "ASSIGNED { READ a }", "STATE { a, b }", "STATE { a <1,2> }",
        "STATE { a }\nASSIGNED { Da }",
        "CONSTANT { a[2] = 1 }", "UNITS { F = 96485 }", "UNITS { F = (faraday) }",
        "UNITS { F = -96485 (coulomb) }", "DEFINE N 2.5", "DEFINE N 2\nDEFINE N 3",
        "DEFINE N 2\nPARAMETER { N = 3 }", "INDEPENDENT { t }", "PLOT v", "TERMINAL { }",
        "EQUATION { }", "DEPENDENT { a }", "DESTRUCTOR { }", "NET_RECEIVE(w) { }",
        "PROCEDURE f { }", "PROCEDURE f(a b) { }", "PROCEDURE f(a,) { }", "PROCEDURE exp() { }",
        "PROCEDURE i() { }", "FUNCTION_TABLE f()", "DERIVATIVE s { }", "KINETIC s { }",
        "LINEAR s { }", "STATE { s }\nDERIVATIVE r() { s' = 1 }", "DERIVATIVE s { i' = 1 }",
        "STATE { s }\nFUNCTION s(a) { s = a }", "COMMENT x ENDCOMMENT",
        "PROCEDURE f(a) { TABLE FROM 0 TO 1 WITH 10\ni = a }",
        "PROCEDURE f(a, b) { TABLE i FROM 0 TO 1 WITH 10\ni = a }",
        "PROCEDURE f(a) { TABLE i FROM 0 TO 1 WITH 10.5\ni = a }",
        "FUNCTION f(a) { TABLE f FROM 0 TO 1 WITH 10\nf = a }",
        "DEFINE t 3", "DEFINE acos 3", "PROCEDURE t() { i = 1 }", "CONSTANT { celcius = 1 }",
        "LOCAL celcius", "PARAMETER { g = \u0661 }", "PARAMETER { g\u0661 = 1 }", "FUNCTION",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("template", "part"), [(t, p) for t, parts in WRONG.items() for p in parts], ids=repr
)
def test_texts_that_neuron_refuses(template, part):
    Mechanism.from_nmodl(template.format(""))
    text = template.format(part)
    with pytest.raises(NmodlError) as caught:
        Mechanism.from_nmodl(text)
    first, last = (template.split("{}")[0].count("\n") + k for k in (1, 1 + part.count("\n")))
    elsewhere = "without its '}'" in str(caught.value) or part in ("x = 1 }", "RANDOM zz")
    assert elsewhere or first <= caught.value.rejections[0].line <= last + 1
    assert len(str(caught.value)) < 200
    if nocmodl.folder() is not None:
        assert nocmodl.takes(template.format("")) and not nocmodl.takes(text)


@pytest.mark.parametrize("name", ["area", "diam"])
@pytest.mark.parametrize("word", ["RANGE", "GLOBAL"])
def test_geometry_in_lists_is_refused(name, word):
    text = f"NEURON {{ SUFFIX one {word} {name} }}\nPARAMETER {{ {name} = 2 }}"
    with pytest.raises(NmodlError, match=f"'{name}' in {word}; NEURON refuses it, too"):
        Mechanism.from_nmodl(text)
    if nocmodl.folder() is not None:
        assert not nocmodl.takes(text)


def test_the_texts_of_the_package_are_such_that_neuron_takes_them():
    texts = [builtin.KEPT_NUMBER, builtin.GIVEN_CURRENT, builtin.CROSSING, builtin.HALF_GAP]
    for text in texts:
        Mechanism.from_nmodl(text)
        assert nocmodl.folder() is None or nocmodl.takes(text)
