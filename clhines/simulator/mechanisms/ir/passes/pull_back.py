"""Pull back: compute the derivatives of a weighted sum of expressions by symbols.

One sweep goes from the results to the symbols and visits each node once (reverse accumulation)::

    y = x*exp(x), weight w      w to y;  w*exp(x) to x,  w*x to exp(x);  w*x*exp(x) to x

Invariant: a node is visited after all its users. A weight that reaches a node through a branch of
``where`` carries the branch's conditions, its guard, and is multiplied by slopes of that branch
only: the slope of a branch that is not taken may be infinite.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clhines.simulator.mechanisms.ir.expressions import CONDITIONS, STEPS, Graph, Node, postorder

Guard = tuple[tuple[Node, bool], ...]  # conditions, outermost first, and the branch of each


def pull_back(weighted: Sequence[tuple[Node, Node]], names: Iterable[str]) -> dict[str, Node]:
    """Return the nonzero derivatives of the sum of ``weight * node`` by the symbols `names`.

    `weighted` has pairs of a node and a weight. An ExpressionError names a function without a
    derivative.
    """
    if not weighted:
        return {}
    graph, slopes = weighted[0][0].graph, dict[str, Node]()
    mask = 0
    for name in names:
        mask |= graph.bits.get(name, 0)
    reaching: dict[Node, list[tuple[Guard, Node]]] = {}
    for node, weight in weighted:
        reaching.setdefault(node, []).append(((), weight))
    order = [n for n in postorder([node for node, _ in weighted], mask=mask) if n.mask & mask]
    for node in reversed(order):
        if node not in reaching:
            continue
        guard, weight = _joined(graph, reaching.pop(node))
        if weight is graph.zero:
            continue
        if node.op == "symbol":
            slopes[node.name] = _guarded(graph, guard, weight)
            continue
        for argument, inner, share in _shares(node, guard, graph.local("_back", weight)):
            if argument.mask & mask:
                reaching.setdefault(argument, []).append((inner, share))
    return {name: slope for name, slope in slopes.items() if slope is not graph.zero}


def _joined(graph: Graph, parts: Sequence[tuple[Guard, Node]]) -> tuple[Guard, Node]:
    """Add up the weights of a node, each of which counts only if its guard holds.

    Return the part of the guards that all have in common, and the sum.
    """
    common = parts[0][0]
    for guard, _ in parts[1:]:
        same = (k for k, (a, b) in enumerate(zip(common, guard)) if a != b)
        common = common[: next(same, min(len(common), len(guard)))]
    return common, graph.add(_guarded(graph, g[len(common) :], e) for g, e in parts)


def _guarded(graph: Graph, guard: Guard, e: Node) -> Node:
    for condition, holds in reversed(guard):
        e = graph.where(condition, *((e, graph.zero) if holds else (graph.zero, e)))
    return e


def _shares(node: Node, guard: Guard, weight: Node) -> Iterable[tuple[Node, Guard, Node]]:
    """Yield the arguments of a node, with the weights that they get from the node's weight.

    A weight is the node's weight times the derivative by the argument. Each comes with its guard.
    """
    graph, op, args = node.graph, node.op, node.args
    if op in ("local", "add"):
        yield from ((a, guard, weight) for a in args)
    elif op == "mul":
        for k, a in enumerate(args):
            yield a, guard, graph.mul([weight, *args[:k], *args[k + 1 :]])
    elif op == "pow":
        base, exponent = args
        yield base, guard, weight * (exponent * graph.power(base, exponent - 1))
        if not exponent.is_number:
            yield exponent, guard, weight * node * graph.call("log", base)
    elif op == "where":
        for a, holds in zip(args[1:], (True, False), strict=True):
            yield a, (*guard, (args[0], holds)), weight
    elif op not in CONDITIONS and op not in STEPS:
        yield args[0], guard, weight * graph.outer(node)
