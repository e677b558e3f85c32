"""Share bernoullis: B(-x) is B(x) + x."""

import pytest
from graph_values import operations, value

from clhines.simulator.mechanisms.ir.expressions import Graph
from clhines.simulator.mechanisms.ir.passes.share_bernoullis import share_bernoullis

pytestmark = pytest.mark.core


def bernoulli(x):
    return x.graph.call("bernoulli", x, x.graph.call("exp", x))


def test_one_quotient_for_both_signs():
    graph = Graph()
    x = (graph.symbol("v") + 40) / 10
    roots = [bernoulli(x), bernoulli(-x)]
    result = share_bernoullis(roots)
    assert operations(roots)["bernoulli"] == 2 and operations(result)["bernoulli"] == 1
    for v in (-140.0, -40.5, -40.0, -39.0, 60.0):
        for before, after in zip(roots, result, strict=True):
            assert value(after, v=v) == pytest.approx(value(before, v=v), rel=1e-14)


def test_slopes_of_both_signs():
    """Far from 0 a slope is tiny on one side: a sum would leave rounding errors there."""
    graph = Graph()
    x = (graph.symbol("v") + 40) / 10
    roots = [graph.slope(bernoulli(y), "v") for y in (x, -x)]
    result = share_bernoullis(roots)
    assert operations(roots)["bernoulli_slope"] == 2 and operations(result)["bernoulli_slope"] == 1
    for v in (-340.0, -140.0, -50.0, -41.5, -38.5, -30.0, 60.0, 260.0):
        for before, after in zip(roots, result, strict=True):
            assert value(after, v=v) == pytest.approx(value(before, v=v), rel=1e-14)


def test_others_are_left_alone():
    graph = Graph()
    roots = [bernoulli(graph.symbol("v")), bernoulli(-graph.symbol("v") - 1)]
    assert share_bernoullis(roots) == roots
