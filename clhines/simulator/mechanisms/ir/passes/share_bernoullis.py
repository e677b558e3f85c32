"""Compute ``x/(exp(x) - 1)`` and its slope once for x and -x."""

from __future__ import annotations

from collections.abc import Sequence

from clhines.simulator.mechanisms.ir.expressions import Node, postorder
from clhines.simulator.mechanisms.ir.forms import multiples

_SLOPE = "bernoulli_slope"


def share_bernoullis(roots: Sequence[Node]) -> list[Node]:
    """Use ``B(-x) = B(x)*exp(x) = B(x) + x`` for ``B(x) = x/(exp(x) - 1)`` if both are needed.

    For the slope S of B, ``S(-x) = -exp(x)*(S(x) + B(x)) = -1 - S(x)``. The products serve x below
    0, the sums x above 0: so nothing cancels and nothing overflows.
    """
    if not roots:
        return []
    replaced: dict[Node, Node] = {}
    graph = roots[0].graph
    every = {(n.op, n.args[0]): n for n in postorder(roots) if n.op in ("bernoulli", _SLOPE)}
    for (op, x), node in every.items():
        other, form = every.get((op, -x)), multiples(x)
        if other is None or form is None or not form.factors:
            continue
        if form.factors[min(form.factors, key=lambda f: f.index)] > 0:
            value, named = graph.local("_bernoulli", node), graph.local("_argument", x)
            both = value * node.args[1], value + named
            if op == _SLOPE:
                plain = graph.local("_bernoulli", graph.call("bernoulli", *node.args))
                both = -(value + plain) * node.args[1], -value - graph.one
            replaced[other] = graph.where(graph.less(named, graph.zero), *both)
    return graph.replaced(roots, replaced) if replaced else list(roots)
