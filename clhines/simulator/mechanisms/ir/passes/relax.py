"""Let a state approach its steady value without a quotient by the rate.

    x + weight(b, h) * (b*x - b*y)   becomes   x + grown(b*h) * (x - y)

since ``weight(b, h)`` is ``(exp(b*h) - 1) / b``, and ``grown(z)`` is ``exp(z) - 1``.
"""

from __future__ import annotations

from collections.abc import Sequence

from clhines.simulator.mechanisms.ir.expressions import Node, postorder, split


def relax(roots: Sequence[Node]) -> list[Node]:
    """Replace ``weight(b, h)*change`` by ``grown(b*h)*(change/b)`` if b is a factor of change.

    ``weight(b, h)`` is ``(exp(b*h) - 1)/b``, also for b = 0, and ``grown(x)`` is ``exp(x) - 1``.
    """
    if not roots:
        return []
    shorter = {node: _relaxed(node) for node in postorder(roots) if node.op == "mul"}
    replaced = {node: new for node, new in shorter.items() if new is not None}
    return roots[0].graph.replaced(roots, replaced)


def _relaxed(product: Node) -> Node | None:
    for factor in product.args:
        if factor.op == "weight":
            rate, step = factor.args
            change = _divided(product / factor, rate)
            if change is not None:
                return product.graph.call("grown", rate * step) * change
    return None


def _divided(e: Node, rate: Node) -> Node | None:
    """Return ``e / rate`` if `rate`, or its definition, is a factor of all terms of `e`."""
    graph = e.graph
    if e.op == "add":
        terms = [_divided(term, rate) for term in e.args]
        quotients = [term for term in terms if term is not None]
        return graph.add(quotients) if len(quotients) == len(terms) else None
    factors = e.args if e.op == "mul" else (e,)
    if rate in factors:
        return e / rate
    number, core = split(rate.definition)
    if all(f in factors for f in (core.args if core.op == "mul" else (core,))):
        return e / core * graph.number(1 / number)
    for factor in factors:
        if factor.op == "add":
            shorter = _divided(factor, rate)
            if shorter is not None:
                return e / factor * shorter
    return None
