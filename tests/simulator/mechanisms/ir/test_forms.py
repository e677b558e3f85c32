"""Linear forms, and sums of multiples."""

from fractions import Fraction

import pytest

from clhines.simulator.mechanisms.ir.expressions import Graph
from clhines.simulator.mechanisms.ir.forms import linear_form, linear_parts, multiples

pytestmark = pytest.mark.core


@pytest.fixture
def graph():
    return Graph()


def test_linear_forms(graph):
    a, b, v, w = (graph.symbol(n) for n in "abvw")
    rate = graph.local("rate", v * (a * 2 - b)) + a / w + 3
    form = linear_form(rate, ["a", "b"])
    assert form.constant.definition is graph.number(3)
    assert form.coefficients["a"] is v * 2 + w**-1 and form.coefficients["b"] is -v
    assert linear_parts(rate, "b") == (linear_form(rate, ["b"]).constant, -v)
    constant, slope = linear_parts(v * w, "a")
    assert constant is v * w and slope is graph.zero
    choice = graph.where(graph.less(v, w), a, b)
    assert linear_form(choice, ["a", "b"]).coefficients["a"] is graph.where(
        graph.less(v, w), graph.one, graph.zero
    )


def test_what_is_not_linear(graph):
    a, b = graph.symbol("a"), graph.symbol("b")
    for rate in (a * b, a**2, graph.call("exp", a), graph.where(graph.less(a, b), b, graph.one)):
        assert linear_form(rate, ["a", "b"]) is None
    assert linear_form(a * b, ["a"]) is not None


def test_sums_of_multiples(graph):
    x, y = graph.symbol("x"), graph.symbol("y")
    named = graph.local("named", x * 2 - y)
    result = multiples(named * 3 + x + 5)
    assert (result.shift, result.factors) == (5, {x: Fraction(7), y: Fraction(-3)})
    rest = result.minus(multiples(x * 7))
    assert rest.node(graph) is graph.number(5) - y * 3
