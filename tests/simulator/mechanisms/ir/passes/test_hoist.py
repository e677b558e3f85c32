"""Hoist: an expression of parameters and the step alone gets a symbol."""

import pytest
from graph_values import operations, value

from clhines.simulator.mechanisms.ir.expressions import Graph
from clhines.simulator.mechanisms.ir.passes.hoist import Constants, constant_symbols

pytestmark = pytest.mark.core


def test_expensive_constants_are_hoisted():
    graph = Graph()
    v, q, tau, dt = map(graph.symbol, ("v", "q", "tau", "dt"))
    root = v * graph.call("exp", q) * 3 + (q + tau) * v + v / tau * dt
    constants = Constants(graph, ["q", "tau", "dt"])
    (result,) = constants.lifted([root])
    assert not {"exp", "pow"} & operations([result]).keys()
    assert result.free >= {"v", "q", "tau"}
    options = {"v": -61.0, "q": 0.3, "tau": 7.0, "dt": 0.025}
    symbols = constant_symbols(constants)
    known = {name: value(node.definition, **options) for node, name in constants.names.items()}
    hoisted = {symbol: known[name] for symbol, name in symbols.items()}
    assert value(result, **options, **hoisted) == pytest.approx(value(root, **options), rel=1e-14)


def test_names_are_kept_unless_they_are_taken():
    graph = Graph()
    rate = graph.local("rate", graph.call("exp", graph.symbol("q")))
    for taken, name in ((), "rate"), (("rate",), "_c0"):
        constants = Constants(graph, ["q"], taken)
        constants.lifted([rate * graph.symbol("v")])
        assert [*constants.names.values()] == [name]


def test_conditions_are_no_numbers():
    graph = Graph()
    v, q = graph.symbol("v"), graph.symbol("q")
    root = graph.where(graph.less(graph.call("exp", q), graph.one), v, -v)
    constants = Constants(graph, ["q"])
    (result,) = constants.lifted([root])
    assert result.op == "where" and result.args[0].op == "less" and len(constants.names) == 1
