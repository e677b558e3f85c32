"""Texts that NEURON's translator refuses are refused, with the number of the wrong line."""

import inspect
import math

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
WRONG = {  # template: its insertions
    BODY: [
        "x = +1", "x = 2*+x", "x = 1 ;", "f2(1 2)", "x = f2(1, 2,)", "LOCAL q x = q",
        "x = 1 LOCAL q", "x = 1\nLOCAL q\nq = 1", "x = y", "y = 1", "x[0] = 1", "x = x[0]",
        "y[1.5] = 1", "y[y[0]] = 1", "(x) = 1", "FROM k = 0.5 TO 2 { x = k }",
        "FROM k = -1 TO 2 { x = k }", "SOLVE rates METHOD cnexp", "INITIAL { x = 1 }",
        "TABLE x FROM 0 TO 1 WITH 10", "CONDUCTANCE p USEION na", "x = 1 (mV", "x = 1 (mV\n)",
        "x = POINTER", "x = {", "x = 1 }", "VERBATIM\nENDVERBATIM x = 1 VERBATIM\nENDVERBATIM",
        "VERBATIM x = 1; ENDVERBATIM", "x = t[v]", "x = t[0]", "x = v[0]", "x = celsius[0]",
        "x = zz[1]", "LOCAL q\nx = q[1]", "LOCAL q[2]\nx = q", "FROM k = 0 TO 2 { x = k[1] }",
        "x = 5 % 3", "LAG x BY 3",
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
        "FUNCTION g(y) { g = y[2] }", "ASSIGNED { y[3] }\nFUNCTION g(y) { g = y[2] }",
        "INITIAL { i = y[1] }\nASSIGNED { y[3] }", "BEFORE SOMETHING { i = 1 }",
        "STATE { s () START 1 }", "STATE { s () FROM 0 TO 1 }", "STATE { s () (mV) }",
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
    texts = [builtin.KEPT_NUMBER, builtin.GIVEN_CURRENT, builtin.HALF_GAP]
    for text in texts:
        Mechanism.from_nmodl(text)
        assert nocmodl.folder() is None or nocmodl.takes(text)


def call_twin(function, inputs):
    """Call a generated NumPy function with the inputs that its parameters name."""
    return function(*(inputs[name] for name in inspect.signature(function).parameters))


@pytest.mark.parametrize(
    "body", ["LOCAL q x = q", "LOCAL q, r  q = 1 r = q x = r", "LOCAL q[2] if (v > 0) { x = 1 }"]
)
@pytest.mark.parametrize("block", ["INITIAL", "PROCEDURE p()", "FUNCTION f(a)"])
def test_statements_stand_behind_local_in_its_line(block, body):
    text = f"NEURON {{ SUFFIX one RANGE x }}\nASSIGNED {{ v x }}\n{block} {{ {body} }}\n"
    Mechanism.from_nmodl(text)
    Mechanism.from_nmodl(text.replace(body, f"if (v > 1) {{ {body} }}"))
    assert nocmodl.folder() is None or nocmodl.takes(text)


def test_a_unit_without_a_name_is_one_of_a_state():
    text = "NEURON { SUFFIX one RANGE x }\nASSIGNED { x () }\nSTATE { m () a START 1 () }\n"
    Mechanism.from_nmodl(text)
    assert nocmodl.folder() is None or nocmodl.takes(text)


@pytest.mark.parametrize("name", ["t", "dt", "celsius", "diam", "area", "v", "p"])
def test_a_local_of_the_file_may_not_hide_a_name(name):
    text = "NEURON { SUFFIX one RANGE x }\nPARAMETER { p = 2 }\nASSIGNED { x }\n"
    with pytest.raises(NmodlError, match=f"'{name}' is declared twice"):
        Mechanism.from_nmodl(f"{text}LOCAL {name}\nINITIAL {{ {name} = 5 x = {name} }}")


def test_a_second_breakpoint_is_executed_after_the_first():
    """By NEURON's code: two bodies, one after the other, each with its own LOCALs."""
    text = """
    NEURON { SUFFIX one RANGE x, y }
    ASSIGNED { x y }
    LOCAL q
    INITIAL { q = 1 x = 0 }
    INITIAL { LOCAL q
        q = 2 x = x + q }
    INITIAL { y = 10*x + q }
    """
    made = Mechanism.from_nmodl(text)
    assert [float(v) for v in made.twin("initial", ("x", "y"))()] == [2.0, 21.0]
    both = text.replace("INITIAL", "BREAKPOINT")
    Mechanism.from_nmodl(both)
    assert nocmodl.folder() is None or (nocmodl.takes(text) and nocmodl.takes(both))


@pytest.mark.parametrize(
    ("words", "kind", "name"),
    [
        ("SUFFIX one SUFFIX two", "density", "two"),
        ("SUFFIX one POINT_PROCESS two", "point", "two"),
        ("POINT_PROCESS one SUFFIX two", "point", "two"),
        ("POINT_PROCESS one }\nNEURON { SUFFIX two", "point", "two"),
    ],
)
def test_the_last_name_of_a_mechanism_counts(words, kind, name):
    """As in NEURON: the last name counts, and any POINT_PROCESS makes a point process."""
    text = f"NEURON {{ {words} RANGE x }}\nASSIGNED {{ x }}\n"
    made = Mechanism.from_nmodl(text)
    assert (made.kind, made.name) == (kind, name)
    assert nocmodl.folder() is None or nocmodl.takes(text)


@pytest.mark.parametrize(
    ("rate", "after"),
    [
        ("f() - m", lambda m, h: m + (1 - math.exp(-h)) * (0.5 * m - m)),
        ("-m*f()", lambda m, h: m * math.exp(-0.5 * m * h)),
        ("f()", lambda m, h: m + h * 0.5 * m),
    ],
)
def test_cnexp_does_not_see_a_state_in_a_function(rate, after):
    """NEURON's formula reads the text alone: f() is a constant with the previous state."""
    text = f"""
    NEURON {{ SUFFIX one }}
    STATE {{ m }}
    BREAKPOINT {{ SOLVE s METHOD cnexp }}
    DERIVATIVE s {{ m' = {rate} }}
    FUNCTION f() {{ f = 0.5*m }}
    """
    result = Mechanism.from_nmodl(text).twin("advance", ("m",))
    m, h = 0.7, 0.025
    assert float(call_twin(result, {"m": m, "dt": h})[0]) == pytest.approx(after(m, h), rel=4e-16)
    assert nocmodl.folder() is None or nocmodl.takes(text)
