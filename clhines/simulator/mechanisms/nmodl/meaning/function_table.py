"""FUNCTION_TABLE: linear interpolation between a user's knots, as in NEURON's hoc_func_table.

Knots and values are rows of look-up tables. Bisection finds the knots beside an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from clhines.simulator.mechanisms.ir.expressions import Node
from clhines.simulator.mechanisms.nmodl.reading.tree import Block, FunctionTable, refuse
from clhines.simulator.mechanisms.nmodl.values import BlockValues, TableUse


def value(run: BlockValues, block: Block, arguments: Sequence[Node], line: int) -> Node:
    """Return a FUNCTION_TABLE's value at its arguments; Refused if the user gave no table."""
    table, graph = run.shared.function_tables.get(block.name), run.graph
    if table is None:
        way_out = f"give Mechanism.from_nmodl function_tables={{'{block.name}': (x, y)}}"
        raise refuse("mod.function-table-without-table", line, way_out, name=block.name)
    if len(table.values) == 1:
        return graph.number(Fraction(table.values[0]))
    if len(arguments) != len(table.axes):
        raise refuse("mod.function-table-arguments", line, name=block.name, count=len(arguments))
    rows = _RowTables(run, block, table)
    (j, share), *second = [rows.place(k, x) for k, x in enumerate(arguments)]
    if not second:
        return rows.between(share, rows.of(j), rows.of(j + 1))
    (k, other), width = second[0], len(table.axes[1])
    at = graph.local("_row", j * width + k)
    ends = [rows.between(other, rows.of(at + d), rows.of(at + d + 1)) for d in (0, width)]
    return rows.between(share, *ends)


class _RowTables:
    def __init__(self, run: BlockValues, block: Block, table: FunctionTable) -> None:
        self._run, self._block, self._table, self._graph = run, block, table, run.graph

    def of(self, row: Node) -> Node:
        """Return the FUNCTION_TABLE's value at knot number `row`.

        Knots with two arguments are numbered row by row: the second argument varies fastest.
        """
        beyond = len(self._table.axes[-1]) + 1  # rows that are read with the weight 0
        values = self._table.values
        return self._read("", values + values[-1:] * beyond, row)

    def between(self, share: Node, low: Node, high: Node) -> Node:
        mixed = (self._graph.one - share) * low + share * high
        return self._graph.where(self._graph.less(self._graph.zero, share), mixed, low)

    def place(self, k: int, x: Node) -> tuple[Node, Node]:
        """Return the knot below argument number k, and x's position from it to the next, 0 to 1."""
        graph, knots = self._graph, self._table.axes[k]
        if len(knots) == 1:
            return graph.zero, graph.zero
        name, bits = f"__x{k}", (len(knots) - 1).bit_length()
        rows = knots + knots[-1:] * ((1 << bits) + 1 - len(knots))
        x, at = graph.local(f"_at{k}", x), graph.zero
        for bit in reversed(range(bits)):
            further = at + (1 << bit)
            there = graph.less(self._read(name, rows, further), x, or_equal=True)
            at = graph.local(f"_knot{k}", graph.where(there, further, at))
        first, last = (graph.number(Fraction(knots[j])) for j in (0, -1))
        low, high = (self._read(name, rows, at + d) for d in (0, 1))
        inside = graph.both(graph.less(first, x), graph.less(x, last))
        share = graph.where(inside, (x - low) / (high - low), graph.zero)
        at = graph.where(graph.less(last, x, or_equal=True), graph.number(len(knots) - 1), at)
        return graph.local(f"_row{k}", at), graph.local(f"_share{k}", share)

    def _read(self, end: str, rows: tuple[float, ...], row: Node) -> Node:
        graph, name, n = self._graph, self._block.name + end, len(rows) - 1
        limits = graph.zero, graph.number(n)
        self._run.shared.tables.setdefault(
            name, TableUse(self._block, [self._block.name], *limits, n, rows)
        )
        return graph.call("entry", row, graph.symbol(f"{name}__table"), limits[1])


def row_of(run: BlockValues, rows: Sequence[float], x: Node) -> Node:
    """Return ``rows[x]`` for a whole number x, as an expression that bisects x."""
    graph = run.graph

    def among(first: int, after: int) -> Node:
        if after - first == 1:
            return graph.number(Fraction(rows[first]))
        middle = (first + after) // 2
        below = graph.less(x, graph.number(Fraction(middle - 0.5)))
        return graph.where(below, among(first, middle), among(middle, after))

    return among(0, len(rows))
