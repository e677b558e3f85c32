"""Shorten the series of exponentials whose time constants come from tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clhines.simulator.mechanisms.ir.expressions import Node, postorder, split


def few_terms(roots: Sequence[Node], terms: Mapping[tuple[str, int], int]) -> list[Node]:
    """Shorten the series of ``grown(-h/tau)``, which is ``exp(-h/tau) - 1``, if few terms suffice.

    This applies only if tau is a column of a look-up table: `terms` maps a table's name and a
    column to the number of terms. The number becomes a second argument of ``grown``.
    """
    if not roots:
        return []
    graph, replaced = roots[0].graph, dict[Node, Node]()
    for node in postorder(roots):
        number = terms.get(_column(node)) if node.op == "grown" else None
        if number:
            replaced[node] = graph.call("grown", node.args[0], graph.number(number))
    return graph.replaced(roots, replaced)


def _column(grown: Node) -> tuple[str, int]:
    """Return the table and column of tau in ``grown(-h/tau)``; ("", 0) for others."""
    for factor in grown.args[0].args if grown.args[0].op == "mul" else ():
        number, rest = split(factor.definition)
        inverse = rest.definition
        if number != -1 or inverse.op != "pow" or inverse.args[1].value != -1:
            continue
        tau = inverse.args[0].definition
        if tau.op == "lookup":
            return tau.args[1].name.removesuffix("__table"), int(tau.args[2].value)
    return "", 0
