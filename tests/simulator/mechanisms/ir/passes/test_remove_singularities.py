"""Remove singularities: quotients that are 0/0 become bernoullis. See ``test_singular.py``, too."""

import pytest
from graph_values import operations, value

from clhines.simulator.mechanisms.ir.expressions import Graph
from clhines.simulator.mechanisms.ir.passes.remove_singularities import (
    remove_singularities,
    without_trap,
)

pytestmark = pytest.mark.core


def test_a_quotient_becomes_a_bernoulli():
    graph = Graph()
    v = graph.symbol("v")
    root = (v + 40) / (graph.one - graph.call("exp", -(v + 40) / 10))
    (result,) = remove_singularities([root], {})
    assert operations([result])["bernoulli"] == 1
    assert value(result, v=-40.0) == 10.0
    assert value(result, v=-35.0) == pytest.approx(value(root, v=-35.0), rel=1e-14)


def test_a_pole_stays():
    graph = Graph()
    v = graph.symbol("v")
    root = (v + 41) / (graph.one - graph.call("exp", -(v + 40) / 10))
    assert remove_singularities([root], {}) == [root]


def test_a_branch_that_keeps_off_0_by_0_is_not_needed():
    """``vtrap`` in NMODL loses its branch if the branch is the quotient's series."""
    graph = Graph()
    x, one, half = graph.symbol("x"), graph.one, graph.one / 2
    near = graph.less(graph.call("abs", x), graph.number(10) ** -6)
    far = x / (graph.call("exp", x) - 1)
    result = without_trap(near, one - x * half, far)
    assert result is not None and operations([result])["bernoulli"] == 1
    assert without_trap(near, one + x, far) is None
