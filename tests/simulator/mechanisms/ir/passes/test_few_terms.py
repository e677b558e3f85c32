"""Few terms: exponentials of tabled time constants."""

import pytest
from graph_values import operations

from clhines.simulator.mechanisms.ir.expressions import Graph
from clhines.simulator.mechanisms.ir.passes.few_terms import few_terms

pytestmark = pytest.mark.core


def grown(graph, tau, sign=-1):
    rate = graph.local("rate", graph.number(sign) / tau)
    return graph.call("grown", rate * graph.symbol("dt"))


def column(graph, number):
    place = graph.call("place", graph.symbol("v"), graph.number(440))
    return graph.local("tau", graph.lookup("rates__table", number, 2, 440, place))


def test_the_column_of_tau_decides():
    graph = Graph()
    roots = [grown(graph, column(graph, k)) for k in (0, 1)]
    result = few_terms(roots, {("rates", 1): 7})
    assert result[0] is roots[0]
    assert result[1].op == "grown" and result[1].args[0] is roots[1].args[0]
    assert result[1].args[1].value == 7


@pytest.mark.parametrize("make", [
    lambda graph: grown(graph, graph.symbol("tau")),  # not in a table
    lambda graph: grown(graph, column(graph, 1), sign=1),  # grows without bound
    lambda graph: grown(graph, column(graph, 1) + 1),
    lambda graph: graph.call("grown", graph.symbol("dt")),
])  # fmt: skip
def test_others_keep_all_terms(make):
    root = make(Graph())
    assert few_terms([root], {("rates", 1): 7}) == [root]
    assert operations([root])["grown"] == 1 and few_terms([], {}) == []
