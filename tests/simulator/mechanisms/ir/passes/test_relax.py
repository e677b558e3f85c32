"""Relax: steps towards a steady value without a quotient by the rate."""

import pytest
from graph_values import operations, value

from clhines.simulator.mechanisms.ir.elimination import exponential_euler
from clhines.simulator.mechanisms.ir.expressions import Graph
from clhines.simulator.mechanisms.ir.passes.relax import relax

pytestmark = pytest.mark.core
GIVEN = {"x": 0.3, "y": 0.8, "tau": 4.0, "q": 2.5, "dt": 0.025, "a": 0.2, "b": 0.7}


def step(drive, rate):
    """Return a step of ``x' = drive + rate*x``; `rate` has a name, as from front ends."""
    graph = drive.graph
    x, dt = graph.symbol("x"), graph.symbol("dt")
    return exponential_euler(x, drive, rate, dt, graph.local, "rate")


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_steps_towards_a_steady_value(scaled, named):
    """``x' = q*(y - x)/tau`` needs no weight and one quotient, 1/tau."""
    graph = Graph()
    y, tau, q = map(graph.symbol, ("y", "tau", "q"))
    inverse = (q if scaled else graph.one) / tau
    rate = graph.local("rate", -inverse) if named else -inverse
    root = step(inverse * y, rate)
    (result,) = relax([root])
    ops = operations([result])
    assert ops["grown"] == 1 and not ops["weight"] and ops["pow"] == 1
    assert value(result, **GIVEN) == pytest.approx(value(root, **GIVEN), rel=1e-14)


def test_steps_of_two_rates_stay():
    """``x' = a*(1 - x) - b*x`` stays, because its steady value would be a quotient."""
    graph = Graph()
    a, b = graph.symbol("a"), graph.symbol("b")
    root = step(a, graph.local("rate", -a - b))
    assert relax([root]) == [root] and operations([root])["weight"] == 1


def test_nothing():
    assert relax([]) == []
