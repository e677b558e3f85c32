"""Few terms: shorten the series of exponentials whose time constants come from tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clhines.simulator.mechanisms.ir.expressions import Node, postorder, split


def few_terms(roots: Sequence[Node], terms: Mapping[tuple[str, int], int]) -> list[Node]:
    """Give ``grown(-h/tau)``, ``exp(-h/tau) - 1``, the number of terms that its series needs.

    That is if tau is a column of a table: `terms` has the number of terms by table and column, if
    it is small.
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
    """Return the table and column of tau in ``grown(-h/tau)``; else an empty name and 0."""
    for factor in grown.args[0].args if grown.args[0].op == "mul" else ():
        number, rest = split(factor.definition)
        inverse = rest.definition
        if number != -1 or inverse.op != "pow" or inverse.args[1].value != -1:
            continue
        tau = inverse.args[0].definition
        if tau.op == "lookup":
            return tau.args[1].name.removesuffix("__table"), int(tau.args[2].value)
    return "", 0
