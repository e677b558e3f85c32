"""Unroll: loops of a few turns as expressions."""

import pytest
from graph_values import value

from clhines.simulator.mechanisms.ir.compiled import Body, Loop
from clhines.simulator.mechanisms.ir.expressions import Graph
from clhines.simulator.mechanisms.ir.passes.unroll import MAX_TURNS, unroll

pytestmark = pytest.mark.core


def doubled(turns, **given):
    graph = Graph()
    now, end, x = map(graph.symbol, ("now", "end", "x"))
    loop = Loop(["now"], ["end"], [x], [now * 2 + 1], most=turns, **given)
    return Body([("i", "i", end * x)], {"s": end}, [loop])


def test_turns_become_expressions():
    body = unroll(doubled(3))
    assert body.loops == [] and body.free(["s"]) == {"x"}
    assert value(body.writes["s"], x=1.5) == ((1.5 * 2 + 1) * 2 + 1) * 2 + 1
    assert value(body.results[0][2], x=1.5) == value(body.writes["s"], x=1.5) * 1.5


def test_other_loops_stay():
    for body in (doubled(MAX_TURNS + 1), doubled(3, go_on=Graph().symbol("go"))):
        assert unroll(body) is body
