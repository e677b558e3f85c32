"""FOR_NETCONS changes the weights of all connections to an instance, also of the event's own.

The functions generated for FOR_NETCONS run before the event's function, which sees the changed
weights. So an event may use such a weight after FOR_NETCONS, but not before it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from clhines.simulator.mechanisms.ir.expressions import Graph, Node
from clhines.simulator.mechanisms.nmodl.reading.tree import refuse
from clhines.simulator.mechanisms.nmodl.values import weight


def assumed(graph: Graph, guard: Node) -> dict[Node, Node]:
    """Return the values that conditions and symbols must have if the condition `guard` holds."""
    values: dict[Node, Node] = {}
    pending = [guard]
    while pending:
        node = pending.pop()
        if node.is_number:
            continue
        values[node] = graph.one
        plain = node.definition
        values[plain] = graph.one
        if plain.op == "both":
            pending += plain.args
        elif plain.op == "where":
            condition, yes, no = plain.args
            if no is graph.zero:
                pending += [condition, yes]
            elif yes is graph.zero:
                values[condition] = values[condition.definition] = graph.zero
                pending.append(no)
    for node in [*values]:
        if node.op in ("less", "lessequal") and values[node] is graph.one:
            values.setdefault(graph.negated(node), graph.zero)
            a, b = node.args
            same = node.op == "lessequal" and graph.less(b, a, or_equal=True) in values
            if same and a.op == "symbol" and b.is_number:
                values[a] = b
    return values


def where_true(graph: Graph, guard: Node, nodes: Sequence[Node]) -> list[Node]:
    return graph.replaced(nodes, assumed(graph, guard))


def check(
    graph: Graph, nodes: Sequence[Node], guard: Node, changed: Collection[str], line: int
) -> None:
    """Refuse an event that uses weights before a FOR_NETCONS changes them.

    `nodes` are the event's results, `guard` is the condition around the FOR_NETCONS, and `changed`
    are the arguments of NET_RECEIVE that it changes.
    """
    left = [guard, *where_true(graph, guard, nodes)]
    for name in changed:
        if any(node.uses(weight(name)) for node in left):
            raise refuse("mod.used-before-for-netcons", line, name=name)
