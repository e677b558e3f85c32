"""`Scope`: the values that names have at one line of a text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clhines.simulator.mechanisms.ir.expressions import Node
from clhines.simulator.mechanisms.ir.passes.remove_singularities import remove_singularities
from clhines.simulator.mechanisms.text.reader import Equations


class Scope:
    """The values of names at one line of a text; they replace the names' symbols in expressions."""

    def __init__(self, equations: Equations, values: Mapping[str, Node] | None = None) -> None:
        self.eq, self.graph = equations, equations.graph
        self.values: dict[str, Node] = dict(values or {})

    def value(self, name: str) -> Node:
        return self.expression(self.graph.symbol(name))

    def expression(self, e: Node, keep: bool = True) -> Node:
        """Replace the names in an expression by their values.

        Names without a value are evaluated first. With `keep` these values remain for later
        expressions, else those evaluate the names again.
        """
        values = self.values if keep else dict(self.values)
        for name in self._missing(e, values):
            values[name] = self.named(name, self._replaced(self.eq.written[name], values))
        return self._replaced(e, values)

    def assign(self, name: str) -> None:
        self.values.pop(name, None)
        self.values[name] = self.named(name, self.expression(self.eq.written[name], keep=False))

    def current(self) -> Node:
        return self.graph.add([self.value(name) for name in self.eq.currents])

    def named(self, name: str, value: Node) -> Node:
        result = self.graph.local(name, value)
        self.eq.plain[result] = result
        return result

    def _replaced(self, e: Node, values: Mapping[str, Node]) -> Node:
        replacements = {self.graph.symbol(name): values[name] for name in e.free if name in values}
        value = self.graph.replaced([e], replacements)[0] if replacements else e
        [result] = remove_singularities([value], self.eq.plain)
        self.eq.plain[result] = result
        return result

    def _missing(self, e: Node, values: Mapping[str, Node]) -> Iterable[str]:
        """Return the names that an expression needs and that `values` lacks.

        They are in the order of their computation: a name comes after all names in its definition.
        """
        order: dict[str, None] = {}
        written = self.eq.written
        stack = [(name, False) for name in sorted(e.free, reverse=True)]
        while stack:
            name, done = stack.pop()
            if done:
                order[name] = None
            elif name in written and name not in order and name not in values:
                stack.append((name, True))
                stack.extend((n, False) for n in sorted(written[name].free, reverse=True))
        return order


def coupled(rates: Mapping[str, Node]) -> dict[str, list[str]]:
    """Return groups of states whose rates depend on each other in a circle.

    The keys are the states in a circle; each maps to its circle's states, itself included.
    """
    bits = {name: rate.graph.bits.get(name, 0) for name, rate in rates.items()}
    reached = {name: rate.mask for name, rate in rates.items()}
    for through in rates:
        for name in rates:
            if reached[name] & bits[through]:
                reached[name] |= reached[through]
    circles = {}
    for name in rates:
        both = [n for n in rates if reached[name] & bits[n] and reached[n] & bits[name]]
        if len(both) > 1:
            circles[name] = both
    return circles
