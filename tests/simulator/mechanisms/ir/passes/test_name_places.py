"""Name places: a local variable for each position in a table."""

import pytest

from clhines.simulator.mechanisms.ir.expressions import Graph, postorder
from clhines.simulator.mechanisms.ir.passes.name_places import name_places

pytestmark = pytest.mark.core


def test_lookups_at_one_place_share_its_name():
    graph = Graph()
    place = graph.call("place", graph.symbol("v"), graph.number(440))
    other = graph.call("place", graph.symbol("cai"), graph.number(100))
    places = [place, graph.local("_at", place), other]
    roots = [graph.lookup(f"r{k}__table", k, 3, 440, at) for k, at in enumerate(places)]
    result = name_places(roots)
    names = [node.args[0].name for node in result]
    assert names == ["r0__row", "r0__row", "r2__row"]
    assert [node.args[1:] for node in result] == [node.args[1:] for node in roots]
    assert sum(node.op == "local" for node in postorder(result)) == 2


def test_what_is_no_place_stays():
    graph = Graph()
    root = graph.lookup("r__table", 0, 1, 440, graph.symbol("x"))
    assert name_places([root]) == [root] and name_places([]) == []
