"""Few terms: exponentials of tabled time constants, with the terms that their tables ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clhines.simulator.mechanisms.ir.expressions import Node, postorder, split


def few_terms(roots: Sequence[Node], terms: Mapping[tuple[str, int], int]) -> list[Node]:
    """Give each ``grown(-h/tau)`` the terms of its tau, a column of a table.

    `terms` has their number by table and column, where a few terms of the series will do.
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
    """Table and column of tau in ``grown(-h/tau)``; an empty name if there is none."""
    factors = grown.args[0].args if grown.args[0].op == "mul" else ()
    for factor in factors:
        number, rest = split(factor.definition)
        inverse = rest.definition
        if number != -1 or inverse.op != "pow" or inverse.args[1].value != -1:
            continue
        tau = inverse.args[0].definition
        if tau.op == "lookup":
            return tau.args[1].name.removesuffix("__table"), int(tau.args[2].value)
    return "", 0
