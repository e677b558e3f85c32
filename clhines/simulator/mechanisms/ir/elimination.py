"""Linear systems of expressions, and exponential Euler, for the methods of both languages."""

from __future__ import annotations

from collections.abc import Callable

from clhines.simulator.mechanisms.ir.expressions import ExpressionError, Node

MAX_PRODUCTS = 12_000
Entries = dict[str, dict[str, Node]]  # matrix entries by row and column


def exponential_euler(
    x: Node, a: Node, b: Node, h: Node, named: Callable[[str, Node], Node], name: str
) -> Node:
    """Return x after a step h of ``dx/dt = a + b*x``, exactly; b gets the name `name`."""
    graph = x.graph
    if b is graph.zero:
        return x + h * a
    if a is graph.zero:
        return x * graph.call("exp", b * h)
    b = named(name, b)
    return x + graph.call("weight", b, h) * (a + b * x)


def solved(
    matrix: Entries, right: dict[str, Node], named: Callable[[str, Node], Node]
) -> dict[str, Node]:
    """Solve a linear system of expressions by Gaussian elimination; return the unknowns by name.

    `matrix` has the nonzero entries, and the diagonal, by row and column. `named` names an
    expression, so that it is computed once. The next unknown to eliminate is the one whose row and
    column have the fewest other entries, for little fill-in (Markowitz). Rows are exchanged only if
    all remaining diagonal entries are 0 for any symbol values. ExpressionError if the system is
    singular or too large.
    """
    rows = {row: dict(entries) for row, entries in matrix.items()}
    b, left, order, products = dict(right), list(rows), list[str](), 0

    while left:
        pivot = _pivot(rows, b, left)
        left.remove(pivot)
        order.append(pivot)
        columns = [c for c in left if c in rows[pivot]]
        below = [row for row in left if pivot in rows[row]]
        products += len(below) * (len(columns) + 1)
        if products > MAX_PRODUCTS:
            raise ExpressionError(f"more than {MAX_PRODUCTS} products; expected fewer or sparser")
        if not below and not columns:
            continue
        inverse = named("_inverse", rows[pivot][pivot] ** -1)
        for row in below:
            factor = named("_factor", rows[row].pop(pivot) * inverse)
            for column in columns:
                old, change = rows[row].get(column), -(factor * rows[pivot][column])
                new = change if old is None else old + change
                rows[row][column] = named("_entry", new)
                if new is new.graph.zero:
                    del rows[row][column]
            b[row] = named("_right", b[row] - factor * b[pivot])
    return _substituted(rows, b, order, named)


def _pivot(rows: Entries, b: dict[str, Node], left: list[str]) -> str:
    def fill(name: str) -> int:
        column = sum(name in rows[row] for row in left) - 1
        return column * (sum(c in rows[name] for c in left) - 1)

    if not any(name in rows[name] for name in left):
        row = next((r for r in left if left[0] in rows[r]), None)
        if row is None:
            raise ExpressionError("a system of equations that is singular")
        rows[left[0]], rows[row] = rows[row], rows[left[0]]
        b[left[0]], b[row] = b[row], b[left[0]]
    return min((name for name in left if name in rows[name]), key=fill)


def _substituted(
    rows: Entries, b: dict[str, Node], order: list[str], named: Callable[[str, Node], Node]
) -> dict[str, Node]:
    x: dict[str, Node] = {}
    for name in reversed(order):
        others = [rows[name][c] * x[c] for c in x if c in rows[name]]
        above = b[name] - b[name].graph.add(others) if others else b[name]
        x[name] = named(f"_{name}_solved", above * rows[name][name] ** -1)
    return x
