"""Share bernoullis: B(-x) is B(x) + x."""

import pytest
from graph_values import operations, value

from clhines.simulator.mechanisms.ir.expressions import Graph
from clhines.simulator.mechanisms.ir.passes.share_bernoullis import share_bernoullis

pytestmark = pytest.mark.core


def bernoulli(x):
    return x.graph.call("bernoulli", x, x.graph.call("exp", x))


@pytest.mark.parametrize(
    ("name", "voltages"),
    [
        ("bernoulli", (-140.0, -40.5, -40.0, -39.0, 60.0)),
        ("bernoulli_slope", (-340.0, -140.0, -50.0, -41.5, -38.5, -30.0, 60.0, 260.0)),
    ],
)
def test_one_quotient_or_slope_for_both_signs(name, voltages):
    """Far from 0 a slope is tiny on one side: a sum would leave rounding errors there."""
    graph = Graph()
    x = (graph.symbol("v") + 40) / 10
    roots = [bernoulli(x), bernoulli(-x)]
    roots = [graph.slope(root, "v") for root in roots] if name == "bernoulli_slope" else roots
    result = share_bernoullis(roots)
    assert operations(roots)[name] == 2 and operations(result)[name] == 1
    for v in voltages:
        for before, after in zip(roots, result, strict=True):
            assert value(after, v=v) == pytest.approx(value(before, v=v), rel=1e-14)


def test_others_are_left_alone():
    graph = Graph()
    roots = [bernoulli(graph.symbol("v")), bernoulli(-graph.symbol("v") - 1)]
    assert share_bernoullis(roots) == roots
