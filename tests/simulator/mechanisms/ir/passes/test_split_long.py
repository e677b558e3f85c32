"""Split long: no sum or product has more arguments than compilers nest."""

import pytest
from graph_values import value

from clhines.simulator.mechanisms.ir.expressions import Graph, postorder
from clhines.simulator.mechanisms.ir.passes.split_long import split_long

pytestmark = pytest.mark.core


def test_long_sums_are_sums_of_parts():
    graph = Graph()
    names = [f"x{k}" for k in range(2000)]
    root = graph.add(map(graph.symbol, names))
    (result,) = split_long([root])
    assert len(root.args) == 2000
    assert max(len(node.args) for node in postorder([result])) <= 32
    parameters = {name: float(k) for k, name in enumerate(names)}
    assert value(result, **parameters) == value(root, **parameters)


def test_short_ones_stay():
    graph = Graph()
    root = graph.symbol("a") * graph.symbol("b") + 1
    assert split_long([root]) == [root]
