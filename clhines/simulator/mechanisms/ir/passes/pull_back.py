"""Differentiate a weighted sum of expressions with respect to symbols.

One sweep goes from the results to the symbols and visits each node once (reverse accumulation)::

    y = x*exp(x), weight w      w to y;  w*exp(x) to x,  w*x to exp(x);  w*x*exp(x) to x

Invariant: a node is visited after all its users. A weight that reaches a node through a branch of
``where`` carries the branch's conditions, its guard, and is multiplied by this branch's slopes
only: the slope of a branch that is not taken may be infinite.

If ``exp(x)`` overflows in ``1/(1 + exp(x))``, its weight is 0 and its slope is infinite. Their
product is 0, not NaN. The slope of a square root at 0 is infinite without an overflow: 0 times this
slope stays NaN, and `Quantities.slopes` refuses it.

The square of ``1 + exp(x)`` overflows long before ``exp(x)/(1 + exp(x))`` does. So the weight of a
reciprocal ``r`` is multiplied by ``r``, and then by ``r`` again: ``r*r`` would be 0.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from clhines.simulator.mechanisms.ir.expressions import CONDITIONS, STEPS, Graph, Node, postorder

GROWING = frozenset(("exp", "sinh", "cosh"))  # functions that overflow at finite arguments
_PASSING = frozenset(("add", "mul", "local", "abs", "log", "where"))  # overflow if these do
Guard = tuple[tuple[Node, bool], ...]  # conditions, outermost first, and each one's branch


def pull_back(
    weighted: Sequence[tuple[Node, Node]],
    names: Iterable[str],
    growing: Container[str] = GROWING,
) -> dict[str, Node]:
    """Return the nonzero derivatives of ``sum(weight * node)`` with respect to `names`.

    `weighted` has pairs (node, weight). Functions in `growing` may overflow. ExpressionError if a
    function has no derivative.
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
    roots = [node for node, _ in weighted]
    huge = _overflowing(roots, growing)
    order = [n for n in postorder(roots, mask=mask) if n.mask & mask]
    for node in reversed(order):
        if node not in reaching:
            continue
        guard, weight = _joined(graph, reaching.pop(node))
        if weight is graph.zero:
            continue
        if node.op == "symbol":
            slopes[node.name] = _guarded(graph, guard, weight)
            continue
        for argument, inner, share in _shares(node, guard, graph.local("_back", weight), huge):
            if argument.mask & mask:
                reaching.setdefault(argument, []).append((inner, share))
    return {name: slope for name, slope in slopes.items() if slope is not graph.zero}


def _joined(graph: Graph, parts: Sequence[tuple[Guard, Node]]) -> tuple[Guard, Node]:
    common = parts[0][0]
    for guard, _ in parts[1:]:
        same = (k for k, (a, b) in enumerate(zip(common, guard)) if a != b)
        common = common[: next(same, min(len(common), len(guard)))]
    return common, graph.add(_guarded(graph, g[len(common) :], e) for g, e in parts)


def _guarded(graph: Graph, guard: Guard, e: Node) -> Node:
    for condition, holds in reversed(guard):
        e = graph.where(condition, *((e, graph.zero) if holds else (graph.zero, e)))
    return e


def _overflowing(roots: Sequence[Node], growing: Container[str]) -> set[Node]:
    """Return the nodes that may be infinite although all symbols are finite and not 0."""
    huge = set[Node]()
    for node in postorder(roots):
        args = node.args
        if node.op == "pow":
            grows = not args[1].is_number or (args[1].value > 0 and args[0] in huge)
        else:
            grows = node.op in growing or (node.op in _PASSING and not huge.isdisjoint(args))
        if grows:
            huge.add(node)
    return huge


def _draws(node: Node) -> bool:
    """Whether a node draws random numbers, and only conditions decide which ones."""
    return node.op.startswith("random_") and all(map(_is_chosen, node.args[2:]))


def _is_chosen(node: Node) -> bool:
    """Whether an expression is a number, or conditions select one of several numbers."""
    branches = node.args[1:] if node.op == "where" else node.args
    passes = node.op in ("where", "local", "add", "mul")
    return node.is_number or (passes and all(map(_is_chosen, branches)))


def _shares(
    node: Node, guard: Guard, weight: Node, huge: Container[Node]
) -> Iterable[tuple[Node, Guard, Node]]:
    """Yield each argument of a node, with the weight that it gets from the node, and a guard.

    The weight is the node's weight times the derivative with respect to the argument. A weight of 0
    stays 0 if the derivative overflows: `huge` has the nodes that may be infinite.
    """
    graph, op, args = node.graph, node.op, node.args

    def share(value: Node, may_overflow: bool, counts: Node = weight) -> Node:
        return graph.where(counts, value, graph.zero) if may_overflow else value

    if op in ("local", "add"):
        yield from ((a, guard, weight) for a in args)
    elif op == "mul":
        for k, a in enumerate(args):
            others = (*args[:k], *args[k + 1 :])
            value = graph.mul((weight, *others))
            yield a, guard, share(value, any(other in huge for other in others))
    elif op == "pow":
        base, exponent = args
        counts = graph.where(base, weight, graph.one)  # a slope at a base of 0 is no overflow
        value = weight * (exponent * graph.power(base, exponent - 1))
        if exponent.is_number and exponent.value < 0:
            inverse = graph.local("_inverse", base**-1)
            power = inverse if node is inverse.args[0] else node
            value = graph.local("_back", weight * power) * (exponent * inverse)
        yield base, guard, share(value, node in huge, counts)
        if not exponent.is_number:
            value = share(weight * node * graph.call("log", base), True, counts)
            yield exponent, guard, share(value, True, node)
    elif op == "where":
        for a, holds in zip(args[1:], (True, False), strict=True):
            yield a, (*guard, (args[0], holds)), weight
    elif op not in CONDITIONS and op not in STEPS and not _draws(node):
        value = weight * graph.outer(node)
        yield args[0], guard, share(value, op in GROWING and node in huge)
