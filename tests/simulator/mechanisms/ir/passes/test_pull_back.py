"""Pull back: derivatives by symbols in one sweep."""

import math

import pytest
from graph_values import OPS, value

from clhines.simulator.mechanisms.ir.expressions import ExpressionError, Graph
from clhines.simulator.mechanisms.ir.passes.pull_back import pull_back

pytestmark = pytest.mark.core
AT = {"x": 0.7, "y": 1.3, "z": -0.4, "w": 2.0, "u": -0.5}


def expressions(graph):
    x, y, z = map(graph.symbol, "xyz")
    e = graph.local("e", graph.call("exp", x * y))
    yield e * x + e**2 / y
    yield graph.power(y, x + z) * graph.call("tanh", z)
    yield graph.call("bernoulli", x, graph.call("exp", x)) * z
    yield graph.call("weight", x * y, graph.number(2)) + graph.call("abs", z) * x
    yield graph.where(graph.less(z, graph.zero), x * z, x / z)
    yield graph.call("atan", x) * graph.call("asin", z) + graph.call("acos", z)
    yield graph.sqrt(y) * graph.call("log", y) - graph.call("floor", y) * y


@pytest.mark.parametrize("number", range(7))
def test_derivatives_are_those_of_differences(number):
    graph = Graph()
    root = list(expressions(graph))[number]
    slopes = pull_back([(root, graph.symbol("w"))], "xyz")
    for name in "xyz":
        h = 1e-4
        steps = ((-2, 1), (-1, -8), (1, 8), (2, -1))
        at = sum(c * value(root, **{**AT, name: AT[name] + k * h}) for k, c in steps) / (12 * h)
        found = value(slopes[name], **AT) if name in slopes else 0.0
        assert found == pytest.approx(AT["w"] * at, rel=1e-9, abs=1e-11)


def test_several_results_share_one_sweep():
    graph = Graph()
    x, y, w, u = map(graph.symbol, "xywu")
    slopes = pull_back([(x * y, w), (x + y, u), (x, graph.zero)], "x")
    assert slopes.keys() == {"x"} and value(slopes["x"], **AT) == AT["w"] * AT["y"] + AT["u"]


def test_a_branch_that_is_not_taken_may_be_infinite():
    """``where(x == 0, 1, sin(x)/x)``: no product of 0 and infinity."""
    graph = Graph()
    x, w = graph.symbol("x"), graph.symbol("w")
    far = graph.call("sin", x) / x
    is_near = graph.less(graph.call("abs", x), graph.number(1) / 1000)
    root = graph.where(is_near, graph.one - x**2 / 6, far)
    slope = pull_back([(root, w)], "x")["x"]
    assert lazy(slope, x=0.0, w=2.0) == 0.0
    assert lazy(slope, x=1.0, w=2.0) == pytest.approx(2 * (math.cos(1) - math.sin(1)))


def lazy(node, **symbols):
    """Value of an expression whose branches that are not taken are not computed."""
    if node.op == "where":
        holds = lazy(node.args[0], **symbols)
        return lazy(node.args[1 if holds else 2], **symbols)
    if node.op in ("add", "mul", "local"):
        return OPS[node.op](*(lazy(a, **symbols) for a in node.args))
    return value(node, **symbols)


def test_a_function_without_a_derivative_is_named():
    graph = Graph()
    x = graph.symbol("x")
    with pytest.raises(ExpressionError, match="fmod"):
        pull_back([(graph.call("fmod", x, graph.one), graph.one)], "x")
    assert pull_back([(graph.less(x, graph.one), graph.one)], "x") == {}
    assert pull_back([], "x") == {}
