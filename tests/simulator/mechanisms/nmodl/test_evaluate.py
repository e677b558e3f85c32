"""Expressions of NMODL: functions, draws and indices that are refused."""

import pytest
from nmodl_texts import assert_refused, rejections, text_of

from clhines.simulator.mechanisms import Mechanism
from clhines.simulator.mechanisms.ir import expressions

REFUSED = {  # text, refused construct, words in its line
    "BBCOREPOINTER": (
        text_of("x = p", "BBCOREPOINTER p", "ASSIGNED { p }"),
        "BBCOREPOINTER p",
        "x = p",
    ),
    "FUNCTION_TABLE": (text_of("x = f(3)", more="FUNCTION_TABLE f(a)"), "FUNCTION_TABLE f", "f(3)"),
    "recursion": (
        text_of("x = f(v)", more="FUNCTION f(a) { f = g(a) }\nFUNCTION g(a) { g = f(a) }"),
        "f calls itself",
        "g = f(a)",
    ),
    "undeclared": (text_of("x = nothing"), "'nothing' is not declared", "nothing"),
    "unknown function": (text_of("x = poisson(v)"), "the function poisson", "poisson"),
    "poisrand": (text_of("x = poisrand(3)"), "the function poisrand", "poisrand"),
    "draw while solving": (
        text_of("").replace("m' = -m", "m' = -random_uniform(r)").replace("RANGE x", "RANDOM r"),
        "random_uniform in BREAKPOINT",
        "m' =",
    ),
    "setids": (text_of("random_setids(r, 1, 2, 3)", "RANDOM r"), "random_setids", "setids"),
    "normrand while solving": (
        text_of("").replace("m' = -m", "m' = normrand(0, 1) - m").replace("cnexp", "derivimplicit"),
        "normrand in BREAKPOINT",
        "m' =",
    ),
    "set_seed in a step": (
        text_of("").replace("x = m", "set_seed(3)"),
        "set_seed in BREAKPOINT",
        "set_seed",
    ),
    "factor of a state": (
        text_of("").replace("m' = -m", "m' = -m*scop_random()"),
        "a random number that is a factor of m in m'",
        "m' =",
    ),
    "two draws in a call": (
        text_of("x = atan2(random_uniform(r), random_uniform(r))", "RANDOM r"),
        "arguments of one call that draw or set variables",
        "atan2",
    ),
    "an argument that another sets": (
        text_of("x = atan2(m, f(2))", more="FUNCTION f(a) { m = a f = a }"),
        "arguments of one call that draw or set variables",
        "atan2",
    ),
    "of no file": (text_of("x = nowhere(v)"), "the function nowhere, which the file", "nowhere"),
    "array": (
        text_of("y[3] = 1", "RANGE y", "ASSIGNED { y[3] }"),
        "y[3], but 'y' has 3 elements",
        "y[3] = 1",
    ),
    "computed index": (
        text_of("y[v] = 1", "RANGE y", "ASSIGNED { y[5] }"),
        "an index that is not constant",
        "y[v] = 1",
    ),
    "computed index of an element that is read": (
        text_of("x = y[v]", "RANGE y", "ASSIGNED { y[5] }"),
        "an index that is not constant",
        "x = y[v]",
    ),
    "read outside": (
        text_of("x = y[5]", "RANGE y", "ASSIGNED { y[5] }"),
        "y[5], but 'y' has 5 elements",
        "x = y[5]",
    ),
    "index of no array": (text_of("x[v] = 1"), "'x' is not an array", "x[v] = 1"),
    "index of an argument": (
        "NEURON { SUFFIX a RANGE x }\nASSIGNED { v x }\n"
        "FUNCTION f(y) { f = y[v] }\nINITIAL { x = f(2) }",
        "'y' is not an array",
        "FUNCTION f",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_refused_by_name_and_line(which):
    assert_refused(*REFUSED[which])


@pytest.mark.parametrize(
    "body",
    [
        "x = atan2(random_uniform(r), 3*v) + 2^random_uniform(r)",
        "x = pow(f(2), v) + random_normal(r, m, 1 + v)",
        "x = f(1)*f(2)",
    ],
)
def test_one_argument_may_draw_or_set_what_the_others_do_not_read(body):
    text = text_of(body, "RANDOM r", "ASSIGNED { y }\nFUNCTION f(a) { y = a f = y }")
    Mechanism.from_nmodl(text, path="some.mod")


def test_too_many_operations_are_refused_wherever_they_are_found(monkeypatch):
    body = "FROM k = 0 TO 9 { x = x + exp(k*v) IF (x > k*v) { x = fabs(x - v) } }\nx = x/v"
    text = text_of(body)
    refused = 0
    for most in range(20, 2000, 3):
        monkeypatch.setattr(expressions, "MAX_NODES", most)
        refusals = rejections(text)
        if not refusals:
            break
        refused += 1
        assert {r.construct for r in refusals} == {f"an expression: more than {most} operations"}
    assert refused > 10 and not refusals
