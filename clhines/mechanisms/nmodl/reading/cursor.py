"""A place in the tokens of an NMODL text, and the expression that stands there.

How tightly operators bind, from loose to tight: ``||``, ``&&``, comparisons, ``+ -``, ``* /``,
signs and ``!``, ``^`` (to the right). Line ends mean nothing.
"""

from __future__ import annotations

from fractions import Fraction

from clhines.mechanisms.ir import exact
from clhines.mechanisms.nmodl.reading.lexer import Token
from clhines.mechanisms.nmodl.reading.tree import Expression, Refused

MAX_DEPTH = 100  # of brackets and blocks within each other
_LEVELS = (("||",), ("&&",), ("<", "<=", ">", ">=", "==", "!="), ("+", "-"), ("*", "/", "%"))


class Cursor:
    """A place in a list of tokens."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.place = self.depth = 0
        self.defines: dict[str, int] = {}
        self.own_units: dict[str, str] = {}
        self.sort = ""  # of the block

    # ------------------------------------------------------------------------------- tokens

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.place]

    def wrong(self) -> Refused:
        """Return the refusal of the next token."""
        what = f"unexpected '{self.token.text[:40]}'" if self.token.text else "unexpected end"
        return Refused(f"{what}: no NMODL that is read here", self.token.line)

    def take(self, text: str) -> bool:
        """Go on if the next token is this one."""
        found = self.token.text == text and self.token.sort in ("name", "sign")
        self.place += found
        return found

    def need(self, text: str) -> None:
        """Go on, or refuse the file."""
        if not self.take(text):
            raise self.wrong()

    def name(self) -> str:
        """Return a name and go on."""
        if self.token.sort != "name":
            raise self.wrong()
        self.place += 1
        return self.tokens[self.place - 1].text

    def names(self) -> tuple[str, ...]:
        """Return names with commas between them."""
        found = [self.name()]
        while self.take(","):
            found.append(self.name())
        return tuple(found)

    def unit(self) -> str:
        """Return a unit in brackets, if there is one, without them."""
        if self.token.text != "(":
            return ""
        found, before = "", self.token
        self.place += 1
        while not self.take(")"):
            token = self.token
            if token.sort == "end":
                raise self.wrong()
            found += token.text if token.start == before.end else " " + token.text
            before = token
            self.place += 1
        return found.strip()

    def signed(self) -> Fraction:
        """Return a number with a sign, or a DEFINE."""
        minus = False
        while self.token.text in ("-", "+"):
            minus ^= self.token.text == "-"
            self.place += 1
        token = self.token
        if token.text in self.defines:
            value = Fraction(self.defines[token.text])
        elif token.sort == "number":
            value = exact.literal(token.text)
        else:
            raise self.wrong()
        self.place += 1
        return -value if minus else value

    def length(self) -> int:
        """Return the length of an array in square brackets, 0 if there are none."""
        if not self.take("["):
            return 0
        value = self.signed()
        self.need("]")
        if not 1 <= value <= 10_000:
            raise Refused(f"an array of {value}", self.token.line)
        return int(value)

    def limits(self) -> None:
        """Skip limits of a value."""
        if self.take("<"):
            self.signed()
            if self.take(","):
                self.signed()
            self.need(">")

    def arguments(self) -> tuple[str, ...]:
        """Return the arguments of a block, without their units."""
        found: list[str] = []
        self.need("(")
        while not self.take(")"):
            found.append(self.name())
            self.unit()
            self.take(",")
        return tuple(found)

    # ---------------------------------------------------------------------------- expressions

    def expression(self, level: int = 0) -> Expression:
        """Return an expression of operators that bind at least so tightly."""
        if level == len(_LEVELS):
            return self.unary()
        left = self.expression(level + 1)
        while self.token.sort == "sign" and self.token.text in _LEVELS[level]:
            sign = self.token.text
            self.place += 1
            left = (sign, left, self.expression(level + 1))
        return left

    def unary(self) -> Expression:
        """Return an expression with its signs."""
        signs = []
        while self.token.sort == "sign" and self.token.text in ("-", "+", "!"):
            signs.append(self.token.text)
            self.place += 1
        value = self._power()
        for sign in reversed(signs):
            if sign != "+":
                value = ("neg" if sign == "-" else "not", value)
        return value

    def _power(self) -> Expression:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Refused(f"more than {MAX_DEPTH} brackets within each other", self.token.line)
        base = self._primary()
        if self.take("^"):
            base = ("^", base, self.unary())
        self.depth -= 1
        return base

    def _primary(self) -> Expression:
        token = self.token
        if token.sort == "number":
            self.place += 1
            if self.token.text == "(" and self.token.line == token.line:
                self.unit()
            return ("number", exact.literal(token.text))
        if token.sort == "text":
            self.place += 1
            return ("text", token.text)
        if self.take("("):
            inner = self.expression()
            self.need(")")
            return inner
        return self._named()

    def _named(self) -> Expression:
        line, name = self.token.line, self.name()
        if self.token.text == "(" and name not in self.defines:
            self.place += 1
            values: list[Expression] = []
            while not self.take(")"):
                values.append(self.expression())
                self.take(",")
            return ("call", name, tuple(values), line)
        if name in self.defines:
            return ("number", Fraction(self.defines[name]))
        index: Expression | None = None
        if self.take("["):
            index = self.expression()
            self.need("]")
        return ("name", name, index)
