"""C's mathematical functions as expressions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from clhines.simulator.mechanisms.ir.expressions import Graph, Node
from clhines.simulator.mechanisms.nmodl.reading.tree import refuse

FUNCTIONS = {  # argument count by name
    **dict.fromkeys("exp log log10 sqrt fabs abs sin cos tan sinh cosh tanh".split(), 1),
    **dict.fromkeys("floor ceil asin acos atan".split(), 1),
    "pow": 2, "fmod": 2, "atan2": 2,
}  # fmt: skip


def built_in(graph: Graph, name: str, values: Sequence[Node]) -> Node:
    """Call a function in `FUNCTIONS`."""
    x = values[0]
    if name == "sqrt":
        return graph.sqrt(x)
    if name in ("fabs", "abs"):
        return graph.call("abs", x)
    if name == "log10":
        return graph.call("log", x) / graph.call("log", graph.number(10))
    if name == "pow":
        return _power(graph, x, values[1])
    if name in ("floor", "ceil") and x.definition.is_number:
        value = x.definition.value
        return graph.number(value.__floor__() if name == "floor" else value.__ceil__())
    return graph.call(name, *values)


def _power(graph: Graph, base: Node, exponent: Node) -> Node:
    plain, number = base.definition, exponent.definition
    if number.is_number:
        if plain.is_number and plain.value < 0 and number.value.denominator != 1:
            raise refuse(
                "mod.power-of-numbers", value=float(plain.value), value2=float(number.value)
            )
        return graph.power(plain if plain.is_number else base, number)
    if plain.is_number and plain.value == Fraction(0):
        return graph.where(graph.less(graph.zero, exponent), graph.zero, graph.one)
    return graph.power(plain if plain.is_number else base, exponent)


def whole(x: Node) -> Node:
    """Cut off a number's fraction, as C's cast to int does."""
    graph, plain = x.graph, x.definition
    if plain.is_number:
        return graph.number(int(plain.value))
    return graph.where(graph.less(x, graph.zero), graph.call("ceil", x), graph.call("floor", x))
