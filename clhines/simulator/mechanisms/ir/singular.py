"""Find voltages at which a quotient is still 0/0; evaluate expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from clhines.simulator.mechanisms.ir.expressions import CONDITIONS, Node, postorder
from clhines.simulator.mechanisms.ir.passes.remove_singularities import (
    remove_singularities,
    whole_power,
)

_BESIDE = 1e-6  # exponent x up to which x/(exp(x) - 1) as written is wrong: its error is eps/x
_GRID = np.arange(-200, 200.5, 0.5)  # mV, grid for the search for 0/0


def is_beside(roots: list[Node], at: np.ndarray, numbers: Mapping[str, float]) -> bool:
    """Return whether a quotient like ``x/(exp(x) - 1)`` is almost 0/0 at one of the values `at`.

    Then the quotient as written would be rounding error. `numbers` has the values of all symbols
    but one; `at` has values of that symbol.
    """
    for node in postorder(remove_singularities(roots, {})):
        names = node.args[0].free - numbers.keys() if node.op == "bernoulli" else set()
        if len(names) == 1:
            z = _at(node.args[0], at, {**numbers, names.pop(): at}, {})
            if z is not None and ((z != 0) & (np.abs(z) < _BESIDE)).any():
                return True
    return False


def value_of(root: Node, numbers: Mapping[str, float]) -> float | None:
    """Evaluate an expression; None if it depends on v or on symbols that are not in `numbers`."""
    with np.errstate(all="ignore"):
        values = None if root.uses("v") else _at(root, np.zeros(1), numbers, {})
    return None if values is None else float(values[0])


def singular_point(
    root: Node, defaults: Mapping[str, float], cache: dict[Node, np.ndarray | None]
) -> float | None:
    """Return a voltage from -200 to 200 mV at which a quotient is still 0/0, or None.

    Search quotients that depend on v and parameters for changes in the denominator's sign;
    parameters have their defaults. Skip expressions inside ``where``. `cache` has expressions'
    values on the voltage grid, (801,) float64, or None if they depend on more than v.
    """
    for node in (node for node in _outside_where(root) if node.op == "mul"):
        below = [f for f in node.args if f.op == "pow" and whole_power(f) < 0 and f.uses("v")]
        if not below:
            continue
        with np.errstate(all="ignore"):
            top = _at(
                node.graph.mul(f for f in node.args if f not in below), _GRID, defaults, cache
            )
            for f in below:
                point = _vanishing(f.args[0], node, top, defaults, cache)
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
            if a not in seen and a.op != "local":  # locals have been checked in their own lines
                seen.add(a)
                stack.append(a)
    return result


def _vanishing(
    low: Node,
    product: Node,
    top: np.ndarray | None,
    defaults: Mapping[str, float],
    cache: dict[Node, np.ndarray | None],
) -> float | None:
    """Return a voltage where the divisor `low` changes sign and the dividend is 0.

    `product` is the quotient, `top` has the dividend's values on the voltage grid. None if there is
    no such voltage.
    """
    values = _at(low, _GRID, defaults, cache)
    if values is None or top is None:
        return None
    size = np.nanmedian(np.abs(top))
    signs = (values[:-1] <= 0) & (values[1:] > 0) | (values[:-1] >= 0) & (values[1:] < 0)
    others = [f for f in product.args if whole_power(f) >= 0 or not f.uses("v")]
    above = product.graph.mul(others)
    at = np.flatnonzero(signs)
    if not len(at):
        return None

    def value(e: Node, v: np.ndarray) -> np.ndarray:
        values = _at(e, v, defaults, {})
        return np.full(v.shape, np.nan) if values is None else values

    roots = _bisect(lambda v: value(low, v), _GRID[at], _GRID[at + 1])
    hits = np.abs(value(above, roots)) <= 1e-9 * size
    return float(roots[hits][0]) if hits.any() else None


def _bisect(
    function: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray
) -> np.ndarray:
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
    cache: dict[Node, np.ndarray | None],
) -> np.ndarray | None:
    numbers: dict[str, float | np.ndarray] = {**defaults, "v": v}
    for node in postorder([e], stop=cache):
        if node not in cache:
            cache[node] = _value(node, numbers, [cache[a] for a in node.args])
    result = cache[e]
    return None if result is None else result * np.ones_like(v)


def _value(
    node: Node, numbers: Mapping[str, float | np.ndarray], args: list[np.ndarray | None]
) -> np.ndarray | None:
    if node.is_number:
        return np.array(float(node.value))
    if node.op == "symbol":
        return np.asarray(numbers[node.name]) if node.name in numbers else None
    values = [a for a in args if a is not None]
    if len(values) < len(args):
        return None
    if node.op == "add":
        return np.sum(np.broadcast_arrays(*values), axis=0)
    if node.op == "mul":
        return np.prod(np.broadcast_arrays(*values), axis=0)
    function = _NUMPY.get(node.op)  # where and bernoulli are finite and need no check
    return None if function is None else function(*values)
