"""Statements of NMODL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from clhines.simulator.mechanisms.ir import exact
from clhines.simulator.mechanisms.nmodl.reading.keywords import BLOCKS, KEYWORDS
from clhines.simulator.mechanisms.nmodl.reading.lexer import Token
from clhines.simulator.mechanisms.nmodl.reading.tree import (
    PICK,
    Expression,
    Refused,
    Statement,
    not_neuron,
    refuse,
)
from clhines.simulator.refusals import refusal

MAX_DEPTH = 100  # of brackets and blocks within each other
_LEVELS = (("||",), ("&&",), ("<", "<=", ">", ">=", "==", "!="), ("+", "-"), ("*", "/"))


def check_index(name: str, length: int, has_index: bool, line: int) -> None:
    """Refuse an index of a variable that is no array, and an array without an index."""
    if has_index and not length:
        raise not_neuron(f"'{name}' is no array", line)
    if length and not has_index:
        raise not_neuron(f"'{name}' is an array", line, f"give an index, as {name}[0]")


class Cursor:
    """A place in a list of tokens."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.place = self.depth = 0
        self.defines: dict[str, int] = {}
        self.own_units: dict[str, str] = {}
        self.sort = ""  # of the block
        self.drawn: dict[str, bool] = {}  # first arguments of draws; whether by a Random of hoc
        self.has_exponential = False  # whether exprand is called
        self.used: list[tuple[str, bool, int]] = []  # names, whether with an index, lines; not of C
        self.scopes: list[dict[str, int]] = []  # lengths of arguments and LOCALs, by block
        self.hidden: dict[str, str] = {}  # names, and LOCALs of the file that hide them

    # ------------------------------------------------------------------------------- tokens

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.place]

    def wrong(self) -> Refused:
        """Return the refusal of the next token."""
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
        """Go on if the next token is this one."""
        matches = self.token.text == text and self.token.sort in ("name", "sign")
        self.place += matches
        return matches

    def need(self, text: str) -> None:
        """Go on, or refuse the file."""
        if not self.take(text):
            raise self.wrong()

    def word(self) -> str:
        """Return a name or a keyword and go on."""
        if self.token.sort != "name":
            raise self.wrong()
        self.place += 1
        return self.tokens[self.place - 1].text

    def name(self) -> str:
        """Return a name and go on."""
        token = self.token
        if (token.text in KEYWORDS or token.text.startswith("_")) and not token.of_c:
            raise self.wrong()
        if token.text == "celcius" and not token.of_c:
            raise not_neuron("the name 'celcius'", token.line, "write celsius")
        return self.word()

    def names(self) -> tuple[str, ...]:
        """Return names with commas between them."""
        names = [self.name()]
        while self.take(","):
            names.append(self.name())
        return tuple(names)

    def unit(self) -> str:
        """Return a unit in brackets, if there is one, without them."""
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
        """Return a number with a sign, or a DEFINE."""
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
        """Return the length of an array in square brackets, 0 if there are none."""
        if not self.take("["):
            return 0
        value = self.whole()
        self.need("]")
        if not 1 <= value <= 10_000:
            raise refuse("mod.array-size", self.token.line, value=value)
        return value

    def whole(self) -> int:
        """Return a whole number, or a DEFINE."""
        if not self.token.text.isdigit() and self.token.text not in self.defines:
            raise self.wrong()
        return int(self.signed())

    def limits(self) -> None:
        """Skip limits of a value."""
        if self.take("<"):
            self.signed()
            self.need(",")
            self.signed()
            self.need(">")

    def arguments(self) -> tuple[str, ...]:
        """Return the arguments of a block, without their units."""
        names: list[str] = []
        self.need("(")
        while names or not self.take(")"):
            names.append(self.name())
            self.unit()
            if not self.take(","):
                self.need(")")
                break
        return tuple(names)

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
        unary_signs = ("-", "+", "!") if self.token.of_c else ("-", "!")
        while self.token.sort == "sign" and self.token.text in unary_signs:
            signs.append(self.token.text)
            self.place += 1
        value = self._power()
        for sign in reversed(signs):
            if sign != "+":
                value = ("neg" if sign == "-" else "not", value)
        return value

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            what = f"more than {MAX_DEPTH} brackets or blocks"
            raise refuse("mod.too-deep", self.token.line, what=what)

    def _power(self) -> Expression:
        self._deeper()
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
        line, of_c, name = self.token.line, self.token.of_c, self.name()
        if not of_c and self.token.text != "(":
            has_index = self.token.text == "["
            lengths = [scope[name] for scope in self.scopes if name in scope]
            if lengths:
                check_index(name, lengths[-1], has_index, line)
            else:
                name = self.hidden.get(name, name)
                self.used.append((name, has_index, line))
        if self.token.text == "(" and name not in self.defines:
            self.place += 1
            values: list[Expression] = []
            while values or not self.take(")"):
                values.append(self.expression())
                if not self.take(","):
                    self.need(")")
                    break
            self._note(name, values)
            return ("call", name, tuple(values), line)
        if name in self.defines:
            return ("number", Fraction(self.defines[name]))
        after = self.tokens[self.place + 1 : self.place + 2]
        if self.sort == "DERIVATIVE" and after and after[0].text not in ("=", "'", "["):
            if self.take("'"):
                raise refuse("mod.rate-in-expression", line, name=name)
        return ("name", name, self.index())

    def _note(self, name: str, values: list[Expression]) -> None:
        """Note the stream from which a call draws a random number."""
        self.has_exponential |= name == "exprand"
        picks = name == PICK
        if (picks or name.startswith("random_")) and values and values[0][0] == "name":
            stream = str(values[0][1])
            self.drawn[stream] = self.drawn.get(stream, False) or picks

    def index(self) -> Expression | None:
        """Return an index in square brackets, if there is one."""
        if not self.take("["):
            return None
        index = self.integer()
        self.need("]")
        return index

    def integer(self) -> Expression:
        """Return an expression of whole numbers and plain names, as NMODL's indices are."""
        begin = self.place
        value = self.expression()
        for token in self.tokens[begin : self.place]:
            plain = token.sort == "name" or token.text.isdigit() or token.text in "+-*/()"
            if not plain and not token.of_c:
                what = f"'{token.text[:40]}' in an index or a bound of FROM"
                raise not_neuron(what, token.line, "use whole numbers and names")
        if value[0] in ("neg", "call") and not self.tokens[begin].of_c:
            raise not_neuron("a sign or a call in an index or a bound of FROM", self.token.line)
        return value


class Statements(Cursor):
    """Statements, from a place in the tokens on."""

    # ----------------------------------------------------------------------------- statements

    def block(self, sort: str = "", arguments: Sequence[str] = ()) -> list[Statement]:
        """Return the statements of a block."""
        self.sort = sort or self.sort
        self.scopes.append(dict.fromkeys(arguments, 0))
        self._deeper()
        if self.take("SOLVEFOR"):
            self.names()
        self.need("{")
        statements: list[Statement] = []
        while not self.take("}"):
            token, one = self.token, self.statement()
            if one is not None and one.kind == "local" and statements and not token.of_c:
                raise not_neuron("LOCAL behind a statement", one.line, "begin the block with it")
            if one is not None:
                statements.append(one)
        self.depth -= 1
        self.scopes.pop()
        if not self.depth:
            self.sort = ""
        return statements

    def statement(self) -> Statement | None:
        """Return the next statement; None if it has no effect."""
        token = self.token
        if token.sort == "verbatim":
            self.place += 1
            return Statement("verbatim", token.line, (token.text,))
        if token.text == "~":
            self.place += 1
            return self._reaction() if self.sort == "KINETIC" else self._equation(token.line)
        if token.sort != "name":
            return self._bare()
        readers: dict[str, Callable[[int], Statement | None]] = {
            "IF": self._if, "if": self._if, "WHILE": self._while, "while": self._while,
            "FROM": self._from, "LOCAL": self._local, "SOLVE": self._solve, "TABLE": self._table,
            "CONSERVE": self._conserve, "COMPARTMENT": self._compartment, "PROTECT": self._none,
            "LONGITUDINAL_DIFFUSION": self._diffuse, "WATCH": self._watch,
            "FOR_NETCONS": self._for_netcons, "INITIAL": self._initial,
            "CONDUCTANCE": self._conductance, "UNITSON": self._none, "UNITSOFF": self._none,
            "MUTEXLOCK": self._none, "MUTEXUNLOCK": self._none,
        }  # fmt: skip
        reader = readers.get(token.text)
        if reader is not None:
            self.place += 1
            return reader(token.line)
        return self._bare()

    def _none(self, line: int) -> None:
        return None

    def _bare(self) -> Statement | None:
        """Return an assignment or a call."""
        line = self.token.line
        if self.token.of_c and self.take(";"):
            return None
        if self.token.text == "{":  # a block of its own
            return Statement("if", line, values=(("number", Fraction(1)),), blocks=[self.block()])
        start, is_named = self.place, self.token.sort == "name"
        left = self.unary()
        if left[0] == "name" and (is_named or self.sort in ("LINEAR", "NONLINEAR")):
            primes = 0
            while self.take("'"):
                primes += 1
            index = left[2]
            if primes and index is None:
                index = self.index()
            if self.take("="):
                if primes > 1:
                    raise refuse("mod.derivative-order", line, primes=primes)
                kind = "prime" if primes else "assign"
                return Statement(kind, line, (left[1], index), (self.expression(),))
            if self.sort in ("LINEAR", "NONLINEAR") and not primes:
                self.place = start
                return self._equation(line)
        if left[0] == "call":
            return Statement("call", line, values=(left,))
        self.place = start
        raise self.wrong()

    def _bracketed(self) -> Expression:
        self.need("(")
        inner = self.expression()
        self.need(")")
        return inner

    def _if(self, line: int) -> Statement:
        result = Statement("if", line, values=(self._bracketed(),), blocks=[self.block()])
        if self.take("ELSE") or self.take("else"):
            at = self.token.line
            if self.take("IF") or self.take("if"):
                result.blocks.append([self._if(at)])
            else:
                result.blocks.append(self.block())
        return result

    def _while(self, line: int) -> Statement:
        return Statement("while", line, values=(self._bracketed(),), blocks=[self.block()])

    def _from(self, line: int) -> Statement:
        name = self.name()
        self.need("=")
        first = self.integer()
        self.need("TO")
        last = self.integer()
        by: Expression = self.integer() if self.take("BY") else ("number", Fraction(1))
        return Statement("from", line, (name,), (first, last, by), [self.block("", (name,))])

    def _local(self, line: int) -> Statement:
        declared = [(self.name(), self.length())]
        while self.take(","):
            declared.append((self.name(), self.length()))
        self.scopes[-1] |= declared
        before, after = self.tokens[self.place - 1], self.token
        if before.line == after.line and after.text != "}" and not before.of_c:
            raise not_neuron(f"'{after.text[:40]}' behind LOCAL in its line", line, "end the line")
        return Statement("local", line, tuple(declared))

    def _solve(self, line: int) -> Statement:
        name, method, steady = self.name(), "", False
        while True:
            if self.take("METHOD"):
                method = self.word()
            elif self.take("STEADYSTATE"):
                method, steady = self.word(), True
            else:
                return Statement("solve", line, (name, method, steady))

    def _table(self, line: int) -> Statement:
        columns = self.names() if self.token.text not in ("DEPEND", "FROM") else ()
        depends = self.names() if self.take("DEPEND") else ()
        self.need("FROM")
        low = self.expression()
        self.need("TO")
        high = self.expression()
        self.need("WITH")
        columns = tuple(self.hidden.get(name, name) for name in columns)
        return Statement("table", line, (columns, depends, self.whole()), (low, high))

    def _conserve(self, line: int) -> Statement:
        terms = self._terms()
        self.need("=")
        return Statement("conserve", line, (terms,), (self.expression(),))

    def _compartment(self, line: int) -> Statement:
        name = ""
        if self.token.sort == "name" and self.tokens[self.place + 1].text == ",":
            name = self.name()
            self.need(",")
        volume = self.expression()
        self.need("{")
        names = []
        while not self.take("}"):
            names.append(self.name())
            self.take(",")
        return Statement("compartment", line, (name, tuple(names)), (volume,))

    def _diffuse(self, line: int) -> Statement:
        compartment = self._compartment(line)
        return Statement("diffuse", line, compartment.names, compartment.values)

    def _watch(self, line: int) -> Statement:
        values: list[Expression] = []
        while True:
            values += [self._bracketed(), self.unary()]
            if not self.take(","):
                return Statement("watch", line, values=tuple(values))

    def _for_netcons(self, line: int) -> Statement:
        names = self.arguments()
        return Statement("for_netcons", line, names, blocks=[self.block("", names)])

    def _initial(self, line: int) -> Statement:
        return Statement("initial", line, blocks=[self.block()])

    def _conductance(self, line: int) -> Statement:
        name = self.name()
        ion = self.name() if self.take("USEION") else ""
        return Statement("conductance", line, (name, ion))

    # ------------------------------------------------------------------ reactions, equations

    def _terms(self) -> tuple[tuple[Fraction, Expression], ...]:
        """Return ``2 a + b[i]``: numbers and names."""
        terms: list[tuple[Fraction, Expression]] = []
        while True:
            number = Fraction(1)
            if self.token.sort == "number" or self.token.text in self.defines:
                number = self.signed()
            terms.append((number, ("name", self.name(), self.index())))
            if not self.take("+"):
                return tuple(terms)

    def _reaction(self) -> Statement:
        line = self.token.line
        left = self._terms()
        right: tuple[tuple[Fraction, Expression], ...] = ()
        sign = next((s for s in ("<->", "<<", "->") if self.take(s)), "")
        if not sign:
            raise self.wrong()
        if sign == "<->":
            right = self._terms()
        self.need("(")
        read = self.expression if sign == "<<" else self._rate
        values = [read()]
        if self.take(","):
            values.append(read())
        self.need(")")
        return Statement("reaction", line, (sign, left, right), tuple(values))

    def _rate(self) -> Expression:
        """Return a rate, which NEURON writes before the states as it is: it must be one factor."""
        begin, depth = self.place, 0
        rate = self.expression()
        for k in range(begin, self.place):
            text = self.tokens[k].text
            depth += (text in ("(", "[")) - (text in (")", "]"))
            if k > begin and not depth and any(text in level for level in _LEVELS[:4]):
                what = refusal("mod.rate-without-brackets")
                raise not_neuron(what, self.tokens[k].line)
        return rate

    def _equation(self, line: int) -> Statement:
        left = self.expression()
        self.need("=")
        return Statement("equation", line, values=(left, self.expression()))
