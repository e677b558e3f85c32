"""Pull back: derivatives by symbols in one backward sweep."""

import math

import numpy as np
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
        result = value(slopes[name], **AT) if name in slopes else 0.0
        assert result == pytest.approx(AT["w"] * at, rel=1e-9, abs=1e-11)


def test_several_results_share_one_sweep():
    graph = Graph()
    x, y, w, u = map(graph.symbol, "xywu")
    slopes = pull_back([(x * y, w), (x + y, u), (x, graph.zero)], "x")
    assert slopes.keys() == {"x"} and value(slopes["x"], **AT) == AT["w"] * AT["y"] + AT["u"]


def test_a_branch_that_is_not_taken_may_be_infinite():
    """The slope of ``where(x == 0, 1, sin(x)/x)`` has no product of 0 and infinity."""
    graph = Graph()
    x, w = graph.symbol("x"), graph.symbol("w")
    far = graph.call("sin", x) / x
    is_near = graph.less(graph.call("abs", x), graph.number(1) / 1000)
    root = graph.where(is_near, graph.one - x**2 / 6, far)
    slope = pull_back([(root, w)], "x")["x"]
    assert lazy(slope, x=0.0, w=2.0) == 0.0
    assert lazy(slope, x=1.0, w=2.0) == pytest.approx(2 * (math.cos(1) - math.sin(1)))


def overflowing(graph):
    x, a = graph.symbol("x"), graph.symbol("a")
    e, one = graph.call("exp", x), graph.one
    yield one / (one + e)
    yield a * x / (a + e)
    yield one / (one + a * graph.local("e", e))
    yield x**2 / (graph.local("e", e) ** 2 + a)
    yield a / graph.call("cosh", x)
    yield a / (one + graph.power(a * graph.sqrt(one + x**2), graph.number(200) * a))
    yield graph.call("tanh", e) + graph.call("atan", e * a)
    yield graph.call("exp", -(e**2)) * x
    yield one / graph.call("log", one + e)
    yield graph.where(graph.less(x, graph.zero), x, a * x / (one + e))


@pytest.mark.parametrize("number", range(10))
def test_a_weight_of_zero_times_an_overflow_is_zero(number, monkeypatch):
    """Values and derivatives stay finite although an exponential in them is infinite."""
    for name in ("exp", "sinh", "cosh"):
        monkeypatch.setitem(OPS, name, getattr(np, name))
    monkeypatch.setitem(OPS, "pow", lambda x, y: float(np.float64(x) ** y))
    monkeypatch.setitem(OPS, "mul", lambda *x: float(np.prod(x)))
    graph = Graph()
    root = list(overflowing(graph))[number]
    slopes = pull_back([(root, graph.symbol("w"))], ["x", "a"])
    at = {"x": 1000.0, "a": 1.5, "w": 2.0}
    with np.errstate(all="ignore"):
        assert math.isfinite(value(root, **at)) and "x" in slopes
        assert all(value(slope, **at) == 0 for slope in slopes.values())


@pytest.mark.parametrize(("power", "x"), [(1, 400.0), (2, 300.0), (3, 200.0)])
def test_a_square_that_overflows_is_not_needed(power, x, monkeypatch):
    """``(exp(x)/(1 + exp(x)))**n`` is 1 to rounding, and its derivative 0."""
    monkeypatch.setitem(OPS, "pow", lambda x, y: float(np.float64(x) ** y))
    graph = Graph()
    e = graph.local("e", graph.call("exp", graph.symbol("x")))
    root = e**power / (graph.one + e) ** power
    slopes = pull_back([(root, graph.symbol("w"))], ["x"])["x"], graph.slope(root, "x")
    with np.errstate(all="ignore"):
        assert value(root, x=x) == 1.0
        assert all(abs(value(slope, x=x, w=2.0)) < 1e-14 for slope in slopes)


def test_an_infinite_slope_at_zero_is_no_overflow(monkeypatch):
    """``s*s`` with ``s = sqrt(x)`` has slope 1 at 0, not 0: 0 times infinity must stay NaN."""
    monkeypatch.setitem(OPS, "pow", lambda x, y: float(np.float64(x) ** y))
    graph = Graph()
    x, w = graph.symbol("x"), graph.symbol("w")
    s = graph.local("s", graph.sqrt(x))
    slope = pull_back([(s * s * graph.call("exp", x), w)], "x")["x"]
    with np.errstate(all="ignore"):
        assert math.isnan(value(slope, x=0.0, w=1.0))


def lazy(node, **symbols):
    """Return an expression's value, without evaluating the other branch of `where`."""
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
