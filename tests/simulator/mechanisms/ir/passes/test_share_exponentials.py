"""Share exponentials: exponentials of whole multiples become powers of one exponential."""

import time
from fractions import Fraction

import pytest

from clhines.simulator.mechanisms.ir.expressions import Graph
from clhines.simulator.mechanisms.ir.passes.share_exponentials import share_exponentials

pytestmark = pytest.mark.core


def test_many_exponentials_are_shared_in_time_in_proportion_to_their_number():
    """Of 4,000 exponentials, whole multiples up to 8 of another's exponent become powers."""
    graph = Graph()
    v = graph.symbol("v")
    roots = [graph.call("exp", v * graph.number(Fraction(1, k))) for k in range(2000, 6000)]
    begin = time.process_time()
    result = share_exponentials(roots)
    assert time.process_time() - begin < 5  # usually a fifth of this at most
    shared = [k for k, (a, b) in enumerate(zip(roots, result, strict=True), 2000) if a is not b]
    multiples = {k for a in range(2000, 6000) for b in (2, 3) if (k := a * b) < 6000}
    assert {*shared} == multiples | {k for k in range(2000, 3000)}
