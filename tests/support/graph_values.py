"""Values of expressions on a graph, and their numbers of operations, for tests of passes."""

import math
from collections import Counter

from clhines.simulator.mechanisms.ir.expressions import postorder


def _weight(b, dt):
    return math.expm1(b * dt) / b if b else dt


def _weight_slope(b, dt, weight):
    z = b * dt
    return dt**2 * sum(k * z ** (k - 1) / math.factorial(k + 1) for k in range(1, 40))


def _bernoulli_slope(x, e):
    return (1 - x - x / (e - 1)) / (e - 1)


OPS = {
    "add": lambda *x: math.fsum(x),
    "mul": lambda *x: math.prod(x),
    "pow": lambda x, y: x**y,
    "less": lambda a, b: float(a < b),
    "lessequal": lambda a, b: float(a <= b),
    "both": lambda *x: float(all(x)),
    "where": lambda c, a, b: a if c else b,
    "local": lambda x: x,
    "abs": abs,
    "bernoulli": lambda x, e: x / math.expm1(x) if x else 1.0,
    "bernoulli_slope": _bernoulli_slope,
    "sign": lambda x: math.copysign(1.0, x),
    "weight": _weight,
    "weight_slope": _weight_slope,
    "grown": lambda x, *terms: math.expm1(x),
}


def value(root, **symbols):
    """Return the value of an expression for values of its symbols."""
    values = {}
    for node in postorder([root]):
        args = [values[a] for a in node.args]
        if node.op == "symbol":
            values[node] = symbols[node.name]
        elif node.is_number:
            values[node] = float(node.value)
        else:
            values[node] = (OPS.get(node.op) or getattr(math, node.op))(*args)
    return values[root]


def operations(roots):
    """Count the different nodes of each op."""
    return Counter(node.op for node in postorder(roots))
