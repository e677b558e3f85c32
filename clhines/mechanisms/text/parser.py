"""Expressions of a mechanism's text: read by a grammar of their own, nothing is evaluated.

In order of how tightly they bind: ``^``, signs, ``* /``, ``+ -``, comparisons, ``not``, ``and``,
``or``. Sums and products of any length are read in one loop; only brackets, signs and powers nest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from clhines.errors import meant
from clhines.mechanisms.ir import exact
from clhines.mechanisms.ir.exact import ExpressionError
from clhines.mechanisms.ir.expressions import Graph, Node

MAX_DEPTH = 100  # of brackets and powers within each other
MAX_TERMS, MAX_FACTORS, MAX_TESTS = 1000, 64, 64  # of one sum, product or choice
CONSTANTS = {"pi": exact.PI}

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>\*\*|<=|>=|==|!=|[-+*/^()<>,]))"
)
_COMPARISONS = ("<", "<=", ">", ">=")


def _plain(name: str) -> Callable[..., Node]:
    return lambda g, x: g.call(name, x)


FUNCTIONS: dict[str, tuple[int, Callable[..., Node]]] = {
    **{name: (1, _plain(name)) for name in ("exp", "log")},
    "sqrt": (1, lambda g, x: g.sqrt(x)),
    **{name: (1, _plain(name)) for name in "sin cos tan sinh cosh tanh abs".split()},
    "min": (2, lambda g, a, b: g.where(g.less(a, b), a, b)),
    "max": (2, lambda g, a, b: g.where(g.less(b, a), a, b)),
    "where": (3, lambda g, c, a, b: g.where(c, a, b)),
}
_WORDS = ("and", "or", "not")


class Parser:
    """One reading of one expression; `resolve` returns the expression of a name, or raises."""

    def __init__(self, graph: Graph, source: str, resolve: Callable[[str], Node]) -> None:
        source = source.rstrip()
        self.graph, self.source, self.resolve = graph, source, resolve
        self.tokens: list[tuple[str, str, int]] = []  # sort, text, position
        self.place = self.depth = 0
        at = 0
        while at < len(source):
            found = _TOKEN.match(source, at)
            if found is None:
                bad = source[at:].lstrip()[0]
                raise ExpressionError(
                    f"cannot use '{self.word(at)}' in an expression"
                    if bad == "."
                    else f"unexpected character '{bad}'"
                )
            sort = str(found.lastgroup)
            self.tokens.append((sort, found.group(sort), found.start(sort)))
            at = found.end()
        self.tokens.append(("end", "", len(source)))

    def word(self, at: int) -> str:
        """Return the word around a position, for a message."""
        begin = max(self.source.rfind(c, 0, at) for c in " (+-*/^,") + 1
        found = re.match(r"[A-Za-z0-9_.]*", self.source[begin:])
        return shortened(found.group() if found else "", 40)

    # ------------------------------------------------------------------------------ tokens

    @property
    def next(self) -> str:
        """Text of the next token."""
        return self.tokens[self.place][1]

    def take(self, *texts: str) -> str:
        """Return the next token and go on, if it is one of these."""
        sort, text, _ = self.tokens[self.place]
        if text in texts and sort in ("sign", "name"):
            self.place += 1
            return text
        return ""

    def wrong(self) -> ExpressionError:
        """Return the error of a token that cannot stand where it is."""
        rest = self.source[self.tokens[self.place][2] :].strip()
        return ExpressionError(f"cannot read the expression at '{shortened(rest) or 'the end'}'")

    # ------------------------------------------------------------------------------ grammar

    def parse(self) -> Node:
        """Return the whole expression."""
        result = self._choice()
        if self.tokens[self.place][0] != "end":
            raise self.wrong()
        return result

    @staticmethod
    def _checked(count: int, most: int, what: str) -> None:
        if count > most:
            raise ExpressionError(f"more than {most} {what} in a row")

    def _choice(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ExpressionError(f"the expression is too deep; expected at most {MAX_DEPTH}")
        values = [self._all()]
        while self.take("or"):
            values.append(self._all())
            self._checked(len(values), MAX_TESTS, "'or'")
        result = values.pop()
        while values:
            result = self.graph.where(values.pop(), self.graph.one, result)
        self.depth -= 1
        return result

    def _all(self) -> Node:
        result, count = self._negation(), 1
        while self.take("and"):
            count += 1
            self._checked(count, MAX_TESTS, "'and'")
            result = self.graph.both(result, self._negation())
        return result

    def _negation(self) -> Node:
        count = 0
        while self.take("not"):
            count += 1
        result = self._comparison()
        for _ in range(min(count, 2 + count % 2)):
            result = self.graph.negated(result)
        return result

    def _comparison(self) -> Node:
        g = self.graph
        values, result = [self._sum()], None
        while self.next in (*_COMPARISONS, "==", "!="):
            sign = self.take(*_COMPARISONS)
            if not sign:
                raise ExpressionError("expected <, <=, > or >= as a comparison")
            values.append(self._sum())
            self._checked(len(values), MAX_TESTS, "comparisons")
            a, b = values[-2:] if sign in ("<", "<=") else reversed(values[-2:])
            test = g.less(a, b, or_equal=len(sign) > 1)
            result = test if result is None else g.both(result, test)
        return values[0] if result is None else result

    def _sum(self) -> Node:
        terms = [self._product()]
        while sign := self.take("+", "-"):
            term = self._product()
            terms.append(-term if sign == "-" else term)
            self._checked(len(terms), MAX_TERMS, "terms")
        return self.graph.add(terms) if len(terms) > 1 else terms[0]

    def _product(self) -> Node:
        factors = [self._signed()]
        while sign := self.take("*", "/"):
            factor = self._signed()
            factors.append(factor**-1 if sign == "/" else factor)
            self._checked(len(factors), MAX_FACTORS, "factors")
        return self.graph.mul(factors) if len(factors) > 1 else factors[0]

    def _signed(self) -> Node:
        negative = False
        while sign := self.take("-", "+"):
            negative ^= sign == "-"
        value = self._power()
        return -value if negative else value

    def _power(self) -> Node:
        """Powers bind to the right, and an exponent may have a sign."""
        parts, negative = [self._atom()], [False]
        while self.take("^", "**"):
            minus = False
            while sign := self.take("-", "+"):
                minus ^= sign == "-"
            parts.append(self._atom())
            negative.append(minus)
            if len(parts) > MAX_DEPTH:
                raise ExpressionError(f"the expression is too deep; expected at most {MAX_DEPTH}")
        result = parts.pop()
        while parts:
            result = self.graph.power(parts.pop(), -result if negative.pop() else result)
        return result

    def _atom(self) -> Node:
        sort, text, _ = self.tokens[self.place]
        if sort == "number":
            self.place += 1
            return self.graph.number(exact.literal(text))
        if sort == "name" and text not in _WORDS:
            self.place += 1
            if self.next == "(":
                return self._call(text)
            return self.resolve(text)
        if not self.take("("):
            raise self.wrong()
        result = self._choice()
        if not self.take(")"):
            raise self.wrong()
        return result

    def _call(self, name: str) -> Node:
        if name not in FUNCTIONS:
            known = ", ".join(FUNCTIONS)
            near = meant(name, FUNCTIONS)
            raise ExpressionError(f"unknown function '{shortened(name)}'; known are {known}{near}")
        self.take("(")
        values = []
        if self.next != ")":
            values.append(self._choice())
            while self.take(","):
                values.append(self._choice())
        if not self.take(")"):
            raise self.wrong()
        count, function = FUNCTIONS[name]
        if len(values) != count:
            raise ExpressionError(f"'{name}' got {len(values)} arguments; expected {count}")
        return function(self.graph, *values)


def constant(graph: Graph, name: str) -> Node | None:
    """Return the number of a constant's name, or None."""
    value: Fraction | None = CONSTANTS.get(name)
    return None if value is None else graph.number(value)


def shortened(text: str, most: int = 60) -> str:
    """Return a text on one line, cut to `most` characters, without control characters."""
    text = " ".join(text[: 4 * most].split()) if len(text) > 4 * most else " ".join(text.split())
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= most else text[: most - 3] + "..."
