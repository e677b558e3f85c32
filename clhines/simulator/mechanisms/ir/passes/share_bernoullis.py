"""Share bernoullis: compute ``x/(exp(x) - 1)`` once for x and -x."""

from __future__ import annotations

from collections.abc import Sequence

from clhines.simulator.mechanisms.ir.expressions import Node, postorder
from clhines.simulator.mechanisms.ir.forms import multiples


def share_bernoullis(roots: Sequence[Node]) -> list[Node]:
    """Use ``B(-x) = B(x)*exp(x) = B(x) + x`` for ``B(x) = x/(exp(x) - 1)`` if both are needed.

    The product for x below 0, the sum above: so nothing cancels and nothing overflows.
    """
    replaced: dict[Node, Node] = {}
    every = {node.args[0]: node for node in postorder(roots) if node.op == "bernoulli"}
    for x, node in every.items():
        other, form = every.get(-x), multiples(x)
        if other is None or form is None or not form.factors:
            continue
        if form.factors[min(form.factors, key=lambda f: f.index)] > 0:
            graph = x.graph
            value, named = graph.local("_bernoulli", node), graph.local("_argument", x)
            both = value * node.args[1], value + named
            replaced[other] = graph.where(graph.less(named, graph.zero), *both)
    return roots[0].graph.replaced(roots, replaced) if replaced else list(roots)
