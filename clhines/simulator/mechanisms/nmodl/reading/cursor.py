"""`Cursor`: a position in an NMODL file's tokens, where it reads words, numbers and lists."""

from __future__ import annotations

from fractions import Fraction

from clhines.simulator.mechanisms.ir import exact
from clhines.simulator.mechanisms.nmodl.reading.keywords import BLOCKS, KEYWORDS
from clhines.simulator.mechanisms.nmodl.reading.lexer import Token
from clhines.simulator.mechanisms.nmodl.reading.tree import Refused, not_neuron, refuse


class Cursor:
    """A position in a list of tokens, and notes on the names read so far.

    Its methods read at the position and move it on; they raise Refused if they find something else.
    """

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.place = self.depth = 0
        self.defines: dict[str, int] = {}
        self.own_units: dict[str, str] = {}
        self.sort = ""  # the enclosing block's sort
        self.drawn: dict[
            str, bool
        ] = {}  # variables drawn from; whether by functions for hoc's Random
        self.has_exponential = False  # whether exprand is called
        self.used: list[tuple[str, bool, int]] = []  # names outside C: name, has an index, line
        self.scopes: list[dict[str, int]] = []  # lengths of arguments and LOCALs, inner block last

    @property
    def token(self) -> Token:
        return self.tokens[self.place]

    def wrong(self) -> Refused:
        """Return the refusal of the next token: a syntax error, or a brace that is not closed."""
        what = f"unexpected '{self.token.text[:40]}'" if self.token.text else "unexpected end"
        if self.token.sort == "end" or self.token.text in BLOCKS:
            texts = enumerate(token.text for token in self.tokens[: self.place])
            opened = list[int]()
            for k, text in texts:
                opened += [k] if text == "{" else []
                del opened[len(opened) - (text == "}") :]
            if opened:
                what = f"'{{' without its '}}' before {what.removeprefix('unexpected ')}"
                end = f"line {self.token.line}"
                return not_neuron(f"{what} in {end}", self.tokens[opened[-1]].line, "close it")
        return refuse("mod.syntax", self.token.line, what=what)

    def take(self, text: str) -> bool:
        """If the text of the next token is `text`, skip it; return whether it is."""
        matches = self.token.text == text and self.token.sort in ("name", "sign")
        self.place += matches
        return matches

    def need(self, text: str) -> None:
        """Skip the next token; Refused unless its text is `text`."""
        if not self.take(text):
            raise self.wrong()

    def word(self) -> str:
        if self.token.sort != "name":
            raise self.wrong()
        self.place += 1
        return self.tokens[self.place - 1].text

    def name(self) -> str:
        token = self.token
        if (token.text in KEYWORDS or token.text.startswith("_")) and not token.of_c:
            raise self.wrong()
        if token.text == "celcius" and not token.of_c:
            raise not_neuron("the name 'celcius'", token.line, "write celsius")
        return self.word()

    def names(self) -> tuple[str, ...]:
        names = [self.name()]
        while self.take(","):
            names.append(self.name())
        return tuple(names)

    def unit(self) -> str:
        """Read a unit in brackets, and return it without them; return "" if there is none."""
        if self.token.text != "(":
            return ""
        unit_text, before = "", self.token
        begin = before.line
        self.place += 1
        while self.token.line != begin or not self.take(")"):
            token = self.token
            if token.sort == "end" or token.text in ("{", "}", "(") or token.line != begin:
                what = f"unit ({unit_text.strip()[:40]} without its ')'"
                raise not_neuron(what, begin, "close it in its line")
            unit_text += token.text if token.start == before.end else " " + token.text
            before = token
            self.place += 1
        return unit_text.strip()

    def signed(self) -> Fraction:
        """Read a number, or the name of a DEFINE, with or without a sign."""
        minus = self.take("-")
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
        """Read the length of an array in square brackets; return 0 if there are none."""
        if not self.take("["):
            return 0
        value = self.whole()
        self.need("]")
        if not 1 <= value <= 10_000:
            raise refuse("mod.array-size", self.token.line, value=value)
        return value

    def whole(self) -> int:
        if not self.token.text.isdigit() and self.token.text not in self.defines:
            raise self.wrong()
        return int(self.signed())

    def limits(self) -> None:
        if self.take("<"):
            self.signed()
            self.need(",")
            self.signed()
            self.need(">")

    def arguments(self) -> tuple[str, ...]:
        names: list[str] = []
        self.need("(")
        while names or not self.take(")"):
            names.append(self.name())
            self.unit()
            if not self.take(","):
                self.need(")")
                break
        return tuple(names)
