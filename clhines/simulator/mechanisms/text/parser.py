"""Parser for expressions in a mechanism's text, with a grammar of its own, without eval.

Operators from the tightest to the loosest are ``^``, signs, ``* /``, ``+ -``, comparisons, ``not``,
``and``, ``or``. A loop reads sums and products of any length; only brackets and powers nest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce

from clhines.core.errors import meant
from clhines.simulator.mechanisms.ir import exact
from clhines.simulator.mechanisms.ir.exact import ExpressionError
from clhines.simulator.mechanisms.ir.expressions import Graph, Node

MAX_DEPTH = 100  # brackets and powers within each other
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>\*\*|<=|>=|==|!=|[-+*/^()<>,]))"
)
_LEVELS = (  # loosest first: operators, the most operands in a row, and a name for them
    (("or",), 64, "'or'"),
    (("and",), 64, "'and'"),
    (("<", "<=", ">", ">=", "==", "!="), 64, "comparisons"),
    (("+", "-"), 1000, "terms"),
    (("*", "/"), 64, "factors"),
)
_COMPARISONS, _PRODUCTS = 2, 4
FUNCTIONS: dict[str, tuple[int, Callable[..., Node]]] = {  # argument count, maker of the node
    **{
        name: (1, lambda g, x, name=name: g.call(name, x))
        for name in "exp log sqrt sin cos tan sinh cosh tanh abs".split()
    },
    "sqrt": (1, Graph.sqrt),
    "min": (2, lambda g, a, b: g.where(g.less(a, b), a, b)),
    "max": (2, lambda g, a, b: g.where(g.less(b, a), a, b)),
    "where": (3, Graph.where),
}


class ExpressionParser:
    """Parser of one expression; ``resolve(name)`` returns a name's node, or raises."""

    def __init__(self, graph: Graph, source: str, resolve: Callable[[str], Node]) -> None:
        source = source.rstrip()
        self.graph, self.source, self.resolve = graph, source, resolve
        self.tokens: list[tuple[str, str, int]] = []  # sort, text, position
        self.place = self.depth = at = 0
        while at < len(source):
            match = _TOKEN.match(source, at)
            if match is None:
                bad = source[at:].lstrip()[0]
                words = (w for w in re.finditer(r"[A-Za-z0-9_.]+", source) if w.end() > at)
                word = shortened(next(words).group(), 40) if bad == "." else ""
                what = f"cannot use '{word}' in an expression"
                raise ExpressionError(what if word else f"unexpected character '{shortened(bad)}'")
            sort = str(match.lastgroup)
            self.tokens.append((sort, match.group(sort), match.start(sort)))
            at = match.end()
        self.tokens.append(("end", "the end", len(source)))

    def _take(self, *texts: str) -> str:
        _, text, _ = self.tokens[self.place]
        self.place += text in texts
        return text if text in texts else ""

    def _need(self, text: str) -> None:
        if not self._take(text):
            rest = shortened(self.source[self.tokens[self.place][2] :].strip())
            raise ExpressionError(f"cannot read the expression at '{rest or 'the end'}'")

    def parse(self) -> Node:
        result = self._within(self._operands)
        self._need("the end")
        return result

    def _within(self, read: Callable[[], Node]) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ExpressionError(f"the expression is too deep; expected at most {MAX_DEPTH}")
        result = read()
        self.depth -= 1
        return result

    def _operands(self, level: int = 0) -> Node:
        count = 0
        while level == _COMPARISONS and self._take("not"):
            count += 1
        signs, most, what = _LEVELS[level]
        values, between = list[Node](), list[str]()
        while not values or (sign := self._take(*signs)):
            value = self._signed() if level == _PRODUCTS else self._operands(level + 1)
            if values:
                value = -value if sign == "-" else value**-1 if sign == "/" else value
                between.append(sign)
            values.append(value)
            if len(values) > most:
                raise ExpressionError(f"more than {most} {what} in a row")
        result = self._joined(values, between) if between else values[0]
        for _ in range(min(count, 2 + count % 2)):
            result = self.graph.negated(result)
        return result

    def _joined(self, values: list[Node], between: list[str]) -> Node:
        graph = self.graph
        if between[0] in ("+", "-"):
            return graph.add(values)
        if between[0] in ("*", "/"):
            return graph.mul(values)
        if between[0] == "or":
            return reduce(lambda b, a: graph.where(a, graph.one, b), reversed(values))
        if between[0] == "and":
            return reduce(graph.both, values)
        if not {"==", "!="}.isdisjoint(between):
            raise ExpressionError("expected <, <=, > or >= as a comparison")
        tests = (
            graph.less(*((a, b) if "<" in sign else (b, a)), or_equal="=" in sign)
            for sign, a, b in zip(between, values, values[1:], strict=False)
        )
        return reduce(graph.both, tests)

    def _signed(self) -> Node:
        negative = False
        while sign := self._take("-", "+"):
            negative ^= sign == "-"
        value = self._atom()
        if self._take("^", "**"):
            value = self.graph.power(value, self._within(self._signed))
        return -value if negative else value

    def _atom(self) -> Node:
        sort, text, _ = self.tokens[self.place]
        if sort == "number":
            self.place += 1
            return self.graph.number(exact.literal(text))
        if sort == "name" and text not in ("and", "or", "not"):
            self.place += 1
            return self._call(text) if self._take("(") else self.resolve(text)
        self._need("(")
        result = self._within(self._operands)
        self._need(")")
        return result

    def _call(self, name: str) -> Node:
        if name not in FUNCTIONS:
            function_names, near = ", ".join(FUNCTIONS), meant(name, FUNCTIONS)
            raise ExpressionError(
                f"unknown function '{shortened(name)}'; known are {function_names}{near}"
            )
        values = list[Node]()
        while not self._take(")"):
            if values:
                self._need(",")
            values.append(self._within(self._operands))
        count, function = FUNCTIONS[name]
        if len(values) != count:
            raise ExpressionError(f"'{name}' got {len(values)} arguments; expected {count}")
        return function(self.graph, *values)


def shortened(text: str, most: int = 60) -> str:
    text = " ".join(text[: 4 * most].split()) if len(text) > 4 * most else " ".join(text.split())
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= most else text[: most - 3] + "..."
