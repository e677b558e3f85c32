"""Rewrite quotients that are 0/0 at a point so that they are finite there.

``x / (exp(x) - 1)`` and its like become a ``bernoulli`` of ``x`` and ``exp(x)``.
"""

from __future__ import annotations

from fractions import Fraction

from clhines.simulator.mechanisms.ir import exact
from clhines.simulator.mechanisms.ir.expressions import Node, postorder
from clhines.simulator.mechanisms.ir.forms import Multiples, linear_parts, multiples

_FACTORS = 12  # most factors in a product that are compared with each other
_TRAP = Fraction(1, 100_000)  # largest distance from 0/0 at which a condition only avoids 0/0


def remove_singularities(roots: list[Node], done: dict[Node, Node]) -> list[Node]:
    for node in postorder(roots, stop=done):
        if node not in done:
            new = node.graph.rebuilt(node, tuple(done[a] for a in node.args))
            done[node] = _quotients(new) if new.op == "mul" else new
    return [done[root] for root in roots]


def _quotients(product: Node) -> Node:
    if len(product.args) > _FACTORS:
        return product
    above = [f.args[0] if whole_power(f) else f for f in product.args if whole_power(f) >= 0]
    below = [f.args[0] for f in product.args if whole_power(f) < 0]
    for low in below:
        for high in above:
            for divided, by, power in ((high, low, 1), (low, high, -1)):
                quotient = _quotient(divided, by)
                if quotient is not None:
                    rest = product / high * low * quotient**power
                    return _quotients(rest) if rest.op == "mul" else rest
    return product


def without_trap(condition: Node, near: Node, other: Node) -> Node | None:
    """Rewrite ``where(condition, near, other)`` by ``bernoulli`` if it only avoids 0/0, else None.

    NMODL models compute ``y*(1 - z/2)`` if ``abs(z) < 1e-6``, else ``y*z/(exp(z) - 1)``. Near z = 0
    these differ by a factor of 1 + 1e-13, and ``bernoulli`` replaces both.
    """
    graph, plain = other.graph, other.definition
    if condition.op not in ("less", "lessequal") or condition.args[0].op != "abs":
        return None
    z, limit = condition.args[0].args[0], condition.args[1]
    if plain.op != "mul" or not limit.is_number or not 0 < limit.value <= _TRAP:
        return None
    finite = _quotients(plain)
    bernoullis = [
        f for f in (finite.args if finite.op == "mul" else (finite,)) if f.op == "bernoulli"
    ]
    if finite is plain or len(bernoullis) != 1:
        return None
    y, scale = bernoullis[0].args[0], finite / bernoullis[0]
    if not any(_same(z, one) for one in (y, -y)):
        return None
    series = scale * (graph.one + y * graph.number(Fraction(-1, 2)))
    return finite if _same(near, series) or _same(near, scale) else None


def whole_power(factor: Node) -> Fraction:
    if factor.op == "pow" and factor.args[1].is_number:
        value = factor.args[1].value
        return value if value.denominator == 1 else Fraction(0)
    return Fraction(0)


def _quotient(above: Node, below: Node) -> Node | None:
    """Return ``above / below`` by ``bernoulli`` if both are 0 at the same point, else None."""
    graph, plain = above.graph, below.definition
    if above.is_number or below.is_number or not above.mask & below.mask:
        return None
    if plain.op in ("tanh", "sinh"):
        y = plain.args[0]
        ratio = _proportional(above, y)
        if ratio is None:
            return None
        if plain.op == "tanh":  # 1/tanh(y) = 1 + 2/(exp(2 y) - 1)
            return ratio * (y + _bernoulli(y * 2))
        y = graph.call("abs", y)  # 1/sinh(y) = 2 exp(-y)/(1 - exp(-2 y)), which does not overflow
        return ratio * graph.call("exp", -y) * _bernoulli(y * -2)
    distance = _distance(plain)
    if distance is None:
        return None
    scale, x = distance
    ratio = _proportional(above, x)
    return None if ratio is None else ratio / scale * _bernoulli(x)


def _bernoulli(x: Node) -> Node:
    return x.graph.call("bernoulli", x, x.graph.call("exp", x))


def _distance(below: Node) -> tuple[Node, Node] | None:
    """Return scale and x of a denominator ``scale * (exp(x) - 1)``, or None."""
    if below.op != "add" or len(below.args) != 2:
        return None
    graph = below.graph
    (c1, x1), (c2, x2) = (_coefficient_and_exponent(term) for term in below.args)
    if x1 is graph.zero:
        (c1, x1), (c2, x2) = (c2, x2), (c1, x1)
    ratio = -(c1 / c2)
    if x1 is x2 or not ratio.is_number or ratio.value <= 0:
        return None
    a, b = multiples(x1), multiples(x2)
    if a is None or b is None:
        return None
    difference = a.minus(b).minus(Multiples(exact.log(1 / ratio.value), {}))
    if not difference.factors:
        return None
    return -c2 * graph.call("exp", x2), difference.node(graph)


def _coefficient_and_exponent(term: Node) -> tuple[Node, Node]:
    graph = term.graph
    exponents, factors = [], []
    for factor in term.args if term.op == "mul" else (term,):
        plain = factor.definition
        if plain.op == "exp":
            exponents.append(plain.args[0])
        else:
            factors.append(factor)
    return graph.mul(factors), graph.add(exponents)


def _proportional(factor: Node, x: Node) -> Node | None:
    """Return ``factor / x`` if both are linear in a symbol and 0 at the same value, else None."""
    names = [name for name, bit in factor.graph.bits.items() if bit & factor.mask & x.mask]
    for name in sorted(names, key=lambda n: n != "v")[:4]:
        a, b = linear_parts(factor, name), linear_parts(x, name)
        if a is None or b is None or factor.graph.zero in (a[1], b[1]):
            continue
        if _same(a[0] * b[1], a[1] * b[0]):
            return a[1] / b[1]
    return None


def _same(a: Node, b: Node) -> bool:
    x, y = multiples(a), multiples(b)
    if x is None or y is None:
        return a is b
    rest = x.minus(y)
    return not rest.factors and rest.shift == 0
