"""Share arguments: common factors and terms get a name."""

import pytest
from graph_values import value

from clhines.simulator.mechanisms.ir.expressions import Graph, postorder
from clhines.simulator.mechanisms.ir.passes.share_arguments import share_arguments

pytestmark = pytest.mark.core


@pytest.mark.parametrize("op", ["mul", "add"])
def test_pairs_in_common_are_named_once(op):
    """``g*m*h*e`` and ``g*m*h`` together have three operations, not six."""
    graph = Graph()
    g, m, h, e = map(graph.symbol, "gmhe")
    make = graph.mul if op == "mul" else graph.add
    roots = [make((g, m, h, e)), make((g, m, h))]
    result = share_arguments(roots, op)
    nodes = [node for node in postorder(result) if node.op == op]
    assert sum(len(node.args) - 1 for node in nodes) == 3
    parameters = {"g": 2.0, "m": 3.0, "h": 5.0, "e": 7.0}
    assert [value(r, **parameters) for r in result] == [value(r, **parameters) for r in roots]


@pytest.mark.parametrize("op", ["mul", "add"])
def test_nothing_in_common(op):
    graph = Graph()
    roots = [graph.symbol("a") * graph.symbol("b"), graph.symbol("a") + graph.symbol("c")]
    assert share_arguments(roots, op) == roots and share_arguments([], op) == []
