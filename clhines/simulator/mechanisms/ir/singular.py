"""Quotients that are 0/0 at a point: written so that they are finite there, or found and refused.

``x / (exp(x) - 1)`` and its relatives become a ``bernoulli`` of ``x`` and ``exp(x)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from clhines.simulator.mechanisms.ir import exact
from clhines.simulator.mechanisms.ir.expressions import CONDITIONS, Node, postorder
from clhines.simulator.mechanisms.ir.forms import Multiples, linear_parts, multiples

_FACTORS = 12  # of a product, which are compared with each other
_TRAP = Fraction(1, 100_000)  # largest distance from 0/0 that is taken for it alone
_BESIDE = 1e-6  # of an exponent: what is left of x/(exp(x) - 1) has an error of eps/x
_GRID = np.arange(-200, 200.5, 0.5)  # mV, where 0/0 is sought


def remove_singularities(roots: list[Node], done: dict[Node, Node]) -> list[Node]:
    """Write ``x / (exp(x) - 1)`` and its relatives by ``bernoulli``, which is finite at ``x = 0``.

    Found are quotients of a factor and a difference of two exponentials (one may be a constant), a
    hyperbolic tangent or sine, and the reciprocals, where both vanish at the same point and the
    factor is proportional to the exponent's distance from it. `done` has results by node so far,
    and gets more.
    """
    for node in postorder(roots, stop=done):
        if node not in done:
            new = node.graph.rebuilt(node, tuple(done[a] for a in node.args))
            done[node] = _quotients(new) if new.op == "mul" else new
    return [done[root] for root in roots]


def _quotients(product: Node) -> Node:
    """Replace pairs of factors, one above and one below, that vanish together."""
    if len(product.args) > _FACTORS:
        return product
    above = [f.args[0] if _power(f) else f for f in product.args if _power(f) >= 0]
    below = [f.args[0] for f in product.args if _power(f) < 0]
    for low in below:
        for high in above:
            for divided, by, power in ((high, low, 1), (low, high, -1)):
                quotient = _quotient(divided, by)
                if quotient is not None:
                    rest = product / high * low * quotient**power
                    return _quotients(rest) if rest.op == "mul" else rest
    return product


def without_trap(condition: Node, near: Node, other: Node) -> Node | None:
    """Return ``where(condition, near, other)`` by ``bernoulli``, if it keeps off 0/0 alone.

    So it is where ``abs(z) < 1e-6`` gives ``y*(1 - z/2)``, and ``y*z/(exp(z) - 1)`` elsewhere, as
    models in NMODL have it, whose results differ from the quotient's by 1e-13 times as much.
    """
    graph, plain = other.graph, other.definition
    if condition.op not in ("less", "lessequal") or condition.args[0].op != "abs":
        return None
    z, limit = condition.args[0].args[0], condition.args[1]
    if plain.op != "mul" or not limit.is_number or not 0 < limit.value <= _TRAP:
        return None
    found = _quotients(plain)
    known = [f for f in (found.args if found.op == "mul" else (found,)) if f.op == "bernoulli"]
    if found is plain or len(known) != 1:
        return None
    y, scale = known[0].args[0], found / known[0]
    if not any(_same(z, one) for one in (y, -y)):
        return None
    series = scale * (graph.one + y * graph.number(Fraction(-1, 2)))
    return found if _same(near, series) or _same(near, scale) else None


def _power(factor: Node) -> Fraction:
    """Return the whole exponent of a power, 0 where it is none."""
    if factor.op == "pow" and factor.args[1].is_number:
        value = factor.args[1].value
        return value if value.denominator == 1 else Fraction(0)
    return Fraction(0)


def _quotient(above: Node, below: Node) -> Node | None:
    """Return ``above / below`` without the 0/0 that both share, or None where they share none."""
    graph, plain = above.graph, below.definition
    if above.is_number or below.is_number or not above.mask & below.mask:
        return None
    if plain.op in ("tanh", "sinh"):
        y = plain.args[0]
        ratio = _proportional(above, y)
        if ratio is None:
            return None
        if plain.op == "tanh":  # 1/tanh(y) = 1 + 2/(exp(2 y) - 1)
            return ratio * (y + _of(y * 2))
        y = graph.call("abs", y)  # 1/sinh(y) = 2 exp(-y)/(1 - exp(-2 y)), which does not overflow
        return ratio * graph.call("exp", -y) * _of(y * -2)
    found = _distance(plain)
    if found is None:
        return None
    scale, x = found
    ratio = _proportional(above, x)
    return None if ratio is None else ratio / scale * _of(x)


def _of(x: Node) -> Node:
    return x.graph.call("bernoulli", x, x.graph.call("exp", x))


def _distance(below: Node) -> tuple[Node, Node] | None:
    """Write a denominator as ``scale * (exp(x) - 1)``: (scale, x), or None if it is not so."""
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
    shift = Multiples(exact.log(1 / ratio.value), {})
    difference = a.minus(b).minus(shift)
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
    """Return ``factor / x`` where both are linear in a symbol and vanish together, else None."""
    shared = factor.mask & x.mask
    names = [name for name, bit in factor.graph.bits.items() if bit & shared]
    for name in sorted(names, key=lambda n: n != "v")[:4]:
        a, b = linear_parts(factor, name), linear_parts(x, name)
        if a is None or b is None or factor.graph.zero in (a[1], b[1]):
            continue
        if _same(a[0] * b[1], a[1] * b[0]):
            return a[1] / b[1]
    return None


def _same(a: Node, b: Node) -> bool:
    """Whether two expressions are equal as sums of multiples, to the rounding of constants."""
    x, y = multiples(a), multiples(b)
    if x is None or y is None:
        return a is b
    rest = x.minus(y)
    return not rest.factors and rest.shift == 0


def is_beside(roots: list[Node], at: np.ndarray, given: Mapping[str, float]) -> bool:
    """Whether one of those values of the one symbol not given is as near to 0/0 as rounding is.

    There a quotient is written by ``bernoulli``; as it stands it is of its rounding alone.
    """
    for node in postorder(remove_singularities(roots, {})):
        names = node.args[0].free - given.keys() if node.op == "bernoulli" else set()
        if len(names) == 1:
            z = _at(node.args[0], at, {**given, names.pop(): at}, {})
            if z is not None and ((z != 0) & (np.abs(z) < _BESIDE)).any():
                return True
    return False


def value_of(root: Node, given: Mapping[str, float]) -> float | None:
    """Return an expression of numbers by name, or None where it has others."""
    with np.errstate(all="ignore"):
        found = None if root.uses("v") else _at(root, np.zeros(1), given, {})
    return None if found is None else float(found[0])


# --------------------------------------------------------------------------- what is left of 0/0


def singular_point(
    root: Node, defaults: Mapping[str, float], seen: dict[Node, np.ndarray | None]
) -> float | None:
    """Return a voltage within 200 mV of 0 where a quotient is still 0/0, or None.

    Sought at the parameters' defaults, in quotients that depend on v only, by changes of sign of
    what stands below. What is inside of ``where`` is left out, and what `seen` has already: values
    on the grid, (801,) float64, or None where an expression depends on more. It gets more.
    """
    checked = [node for node in _outside_where(root) if node.op == "mul"]
    for node in checked:
        below = [f for f in node.args if f.op == "pow" and _power(f) < 0 and f.uses("v")]
        if not below:
            continue
        with np.errstate(all="ignore"):
            top = _at(node.graph.mul(f for f in node.args if f not in below), _GRID, defaults, seen)
            for f in below:
                point = _vanishing(f.args[0], node, top, defaults, seen)
                if point is not None:
                    return point
    return None


def _outside_where(root: Node) -> list[Node]:
    result, seen, stack = [], {root}, [root]
    while stack:
        node = stack.pop()
        if node.op == "where" or node.op in CONDITIONS:
            continue
        result.append(node)
        for a in node.args:
            if a not in seen and a.op != "local":  # which has been checked in its own line
                seen.add(a)
                stack.append(a)
    return result


def _vanishing(
    low: Node,
    product: Node,
    top: np.ndarray | None,
    defaults: Mapping[str, float],
    seen: dict[Node, np.ndarray | None],
) -> float | None:
    """Return where a denominator changes its sign and what stands above vanishes, too."""
    values = _at(low, _GRID, defaults, seen)
    if values is None or top is None:
        return None
    size = np.nanmedian(np.abs(top))
    signs = (values[:-1] <= 0) & (values[1:] > 0) | (values[:-1] >= 0) & (values[1:] < 0)
    others = [f for f in product.args if _power(f) >= 0 or not f.uses("v")]
    above = product.graph.mul(others)
    at = np.flatnonzero(signs)
    if not len(at):
        return None

    def value(e: Node, v: np.ndarray) -> np.ndarray:
        found = _at(e, v, defaults, {})
        return np.full(v.shape, np.nan) if found is None else found

    roots = _bisect(lambda v: value(low, v), _GRID[at], _GRID[at + 1])
    hits = np.abs(value(above, roots)) <= 1e-9 * size
    return float(roots[hits][0]) if hits.any() else None


def _bisect(
    function: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Return where a function changes its sign between two numbers, of each of many pairs."""
    below = (function(low) < 0) | (function(high) > 0)
    for _ in range(60):
        middle = (low + high) / 2
        values = function(middle)
        left = ((values < 0) == below) & (values != 0)
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return high


_NUMPY: dict[str, Callable[..., np.ndarray]] = {
    name: getattr(np, name) for name in ("exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh")
} | {"abs": np.abs, "sign": np.sign, "local": lambda x: x, "pow": np.power}


def _at(
    e: Node,
    v: np.ndarray,
    defaults: Mapping[str, float | np.ndarray],
    seen: dict[Node, np.ndarray | None],
) -> np.ndarray | None:
    """Return an expression at voltages, or None if it depends on more."""
    given: dict[str, float | np.ndarray] = {**defaults, "v": v}
    for node in postorder([e], stop=seen):
        if node not in seen:
            seen[node] = _value(node, given, [seen[a] for a in node.args])
    result = seen[e]
    return None if result is None else result * np.ones_like(v)


def _value(
    node: Node, given: Mapping[str, float | np.ndarray], args: list[np.ndarray | None]
) -> np.ndarray | None:
    if node.is_number:
        return np.array(float(node.value))
    if node.op == "symbol":
        return np.asarray(given[node.name]) if node.name in given else None
    known = [a for a in args if a is not None]
    if len(known) < len(args):
        return None
    if node.op == "add":
        return np.sum(np.broadcast_arrays(*known), axis=0)
    if node.op == "mul":
        return np.prod(np.broadcast_arrays(*known), axis=0)
    function = _NUMPY.get(node.op)  # not of where and bernoulli, which are finite already
    return None if function is None else function(*known)
