"""Statements in a text; texts are mechanisms or plasticity rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from fractions import Fraction
from itertools import accumulate
from typing import ClassVar

from clhines.core.errors import InputError
from clhines.simulator.common import units
from clhines.simulator.common.units import Unit, UnitError
from clhines.simulator.mechanisms.ir import exact
from clhines.simulator.mechanisms.ir.exact import ExpressionError, NotRealError
from clhines.simulator.mechanisms.ir.expressions import Graph, Node
from clhines.simulator.mechanisms.ir.program import Quantity
from clhines.simulator.mechanisms.text.parser import FUNCTIONS, ExpressionParser, shortened

NAMES = {"v", "t", "dt", "noise", "weight"}  # a mechanism's predefined names
RESERVED = {*NAMES, *FUNCTIONS, "pi", "and", "or", "not"}
NAME = r"[A-Za-z][A-Za-z0-9_]*"
_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"


@dataclass
class Line:
    """A statement of a text, divided into name, expression and unit."""

    number: int
    text: str
    sort: str = ""  # name, parameter, state, current, rate, event, or a setting
    name: str = ""  # variable that the statement defines or changes; a rate's state
    source: str = ""  # the expression as written
    sign: str = ""  # sign before the = in an event's action
    unit: Unit | None = None
    value: Node = field(init=False)  # the expression in NEURON's unit, in terms of symbols
    default: float = 0.0  # a parameter's value, in NEURON's unit

    @property
    def shown(self) -> str:
        return f"d{self.name}/dt" if self.sort == "rate" else self.name

    def acted(self, old: Node, value: Node) -> Node:
        """Return a variable's new value after an action such as ``x += value``.

        `old` is the variable's value before the action, `value` the action's right side.
        """
        changed = {"": value, "+": old + value, "-": old - value, "*": old * value}
        return old / value if self.sign == "/" else changed[self.sign]


@dataclass
class TextStatements:
    """A text's statements: definitions of names, rates, and actions at events.

    Expressions refer to definitions by name, and do not contain them, so their total length is at
    most the text's. The text of a subclass begins with one of `kinds` and must not define names in
    `predefined`; `what` is its name in messages.
    """

    what: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    predefined: ClassVar[set[str]]
    keywords: ClassVar[tuple[str, ...]]
    text: str
    name: str = ""
    kind: str = ""
    defined: dict[str, Line] = field(default_factory=dict)  # by name
    ordered: list[Line] = field(default_factory=list)  # names, currents and rates
    rates: dict[str, Line] = field(default_factory=dict)  # by state or trace
    graph: Graph = field(default_factory=Graph)

    def of_sort(self, sort: str) -> dict[str, Line]:
        return {name: line for name, line in self.defined.items() if line.sort == sort}

    @property
    def parameters(self) -> tuple[Quantity, ...]:
        declared = self.of_sort("parameter").values()
        return tuple(Quantity(p.name, canonical(p), p.default) for p in declared)

    @property
    def outside(self) -> dict[str, str]:
        return {}

    def fail(self, line: Line, problem: str) -> InputError:
        where = f"{self.what} {shortened(self.name, 40)}, " if self.name else ""
        return InputError(f"{where}line {line.number}: {problem}; in '{shortened(line.text)}'")

    def _sort(self, statements: list[tuple[str, Callable[..., None]]], expected: str) -> None:
        """Read each statement by the function of the first matching (pattern, function)."""
        for line in _lines(self.text):
            if not self.kind:
                self._header(line)
                continue
            for pattern, take in statements:
                match = re.fullmatch(pattern, line.text, re.S)
                if match:
                    take(self, line, *match.groups())
                    break
            else:
                word = re.split(r"[\s=:]", line.text, maxsplit=1)[0][:40]
                near = near_keyword(word, self.keywords)
                hint = f"did you mean '{near}'?" if near else expected
                if near == word == "parameter":
                    hint = "expected 'parameter NAME = NUMBER UNIT'"
                raise self.fail(line, f"cannot read this statement; {hint}")
        if not self.kind:
            first = f"expected '{self.kinds[0]} NAME' first"
            raise InputError(f"the text of the {self.what} is empty; {first}")

    def _header(self, line: Line) -> None:
        match = re.fullmatch(rf"({'|'.join(self.kinds)})\s+({NAME})", line.text)
        if not match:
            kinds = " or ".join(f"'{kind} NAME'" for kind in self.kinds)
            text = f"expected {kinds} as the {self.what}'s first statement"
            if line.text.endswith(".mod") or line.text.startswith(("NEURON", "TITLE", "COMMENT")):
                text += "; NMODL is read by Mechanism.from_nmodl()"
            raise self.fail(line, text)
        self._check_name(line, match.group(2))
        self.kind, self.name = match.groups()

    def _check_name(self, line: Line, name: str) -> None:
        if "__" in name or name.endswith("_"):
            shown = shortened(name, 40)
            raise self.fail(line, f"'{shown}': names have no double or last underscore")
        if len(name) > 60:
            shown = shortened(name, 40)
            raise self.fail(line, f"the name '{shown}' is too long; expected at most 60 letters")

    def define(self, line: Line, sort: str | None, name: str, source: str) -> None:
        """Read ``NAME = EXPRESSION``, which may begin with ``parameter``."""
        if name in self.predefined or name in RESERVED - NAMES:
            raise self.fail(line, f"'{name}' has a meaning already and cannot be defined")
        self._check_name(line, name)
        if name in self.defined:
            first = self.defined[name].number
            raise self.fail(line, f"'{name}' is defined twice, first in line {first}")
        line.sort, line.name = sort or "name", name
        self._take(line, source)
        if sort == "parameter":
            try:
                self.number(line)
            except ExpressionError as error:
                problem = f"parameter '{line.name}' got '{shortened(line.source)}'"
                raise self.fail(line, f"{problem}; expected a number and its unit") from error
            if name == "celsius" and canonical(line) not in ("", "degC"):
                problem = f"parameter 'celsius' has the unit {canonical(line)}"
                raise self.fail(line, f"{problem}; expected degC")
        self.defined[name] = line

    def _take(self, line: Line, source: str) -> None:
        line.source, more = source.strip(), "/" if line.sort == "parameter" else ""
        match = re.fullmatch(r"(.*\S)\s*\[([^\[]*)\]", line.source, re.S) or re.fullmatch(
            rf"({_NUMBER})\s+([A-Za-z0-9µμΩ°{more}].*)", line.source, re.S
        )
        if match:
            line.source = match.group(1)
            try:
                line.unit = units.parse(match.group(2).strip())
            except UnitError as error:
                raise self.fail(line, f"'{line.shown}': {error}") from error

    def number(self, line: Line) -> None:
        """Store a line's number as its default; ExpressionError if it has an expression."""
        if not re.fullmatch(_NUMBER, line.source):
            raise ExpressionError("no number")
        value = exact.literal(line.source.lstrip("+-")) * _factor(line)
        line.default = float(exact.bounded(value)) * (-1) ** line.source.startswith("-")

    def _once(self, table: dict[str, Line], line: Line) -> None:
        if line.name in table:
            first = table[line.name].number
            raise self.fail(line, f"'{line.shown}' is given twice, first in line {first}")
        table[line.name] = line

    def rate(self, line: Line, name: str, source: str) -> None:
        """Read ``dNAME/dt = EXPRESSION``."""
        line.sort, line.name = "rate", name
        self._once(self.rates, line)
        self._take(line, source)
        self.ordered.append(line)

    def _actions(self, line: Line, actions: str, sort: str, table: dict[str, Line]) -> None:
        for action in actions.split(";"):
            match = re.fullmatch(rf"\s*({NAME})\s*([-+*/]?)=(?!=)(.*\S)\s*", action, re.S)
            if not match:
                raise self.fail(
                    line, f"cannot read the action '{shortened(action)}'; expected 'NAME += ...'"
                )
            name, sign, source = match.groups()
            if name in table:
                raise self.fail(line, f"the {sort} changes '{name}' twice")
            table[name] = Line(line.number, line.text, sort, name, source, sign)

    def _resolve(self, name: str) -> Node:
        if name in self.predefined or name in self.defined or name in self.outside:
            return self.graph.symbol(name)
        if name == "pi":
            return self.graph.number(exact.PI)
        names = [*self.defined, *self.outside, *sorted(self.predefined)]
        near = get_close_matches(name[:60], names[:2000], n=1, cutoff=0.6)
        hint = f"did you mean '{near[0]}'?" if near else "known are "
        hint += "" if near else shortened(", ".join(names), 100)
        if name == "celsius":
            hint = "expected 'parameter celsius = 6.3 degC', which the network's temperature sets"
        if name in FUNCTIONS:
            hint = f"'{name}' is a function and needs its argument in brackets"
        raise ExpressionError(f"unknown symbol '{shortened(name)}'; {hint}")

    def parse(self, line: Line) -> None:
        """Parse a line's expression, and store it as the line's value."""
        if not line.source:
            raise self.fail(line, f"'{line.shown}' has nothing on its right side")
        depths = list(accumulate((c == "(") - (c == ")") for c in line.source))
        if min(depths) < 0 or depths[-1] != 0:
            raise self.fail(line, f"the brackets of '{line.shown}' do not match")

        def work() -> Node:
            node = ExpressionParser(self.graph, line.source, self._resolve).parse()
            return self.graph.number(_factor(line)) * node

        line.value = self.attempt(line, work)

    def attempt(self, line: Line, work: Callable[[], Node]) -> Node:
        try:
            return work()
        except NotRealError as error:
            raise self.fail(line, f"'{line.shown}' is not a finite real number") from error
        except ExpressionError as error:
            hint = ""
            last = re.sub(r"[\d^]*(/.*)?$", "", line.source.split()[-1])
            if str(error).startswith("cannot read the expr") and last in units.BASES | {"mA", "nA"}:
                hint = " (a unit stands in [ ])"
            raise self.fail(line, f"{error}{hint}") from error


def _factor(line: Line) -> Fraction:
    return line.unit.exact if line.unit else Fraction(1)


def canonical(line: Line) -> str:
    """Return NEURON's unit for a line's unit; "" if the line has none."""
    return line.unit.canonical if line.unit else ""


def near_keyword(word: str, keywords: tuple[str, ...]) -> str:
    near = get_close_matches(word, keywords, n=1, cutoff=0.75)
    return near[0] if near else ""


# statement beginnings: after an open bracket they show that it is never closed
_BEGIN = re.compile(rf"((parameter|state|current)\s+{NAME}|d{NAME}\s*/\s*dt)\s*=")


def _lines(text: str) -> list[Line]:
    """Split a text into statements without comments; an open bracket continues a line."""
    numbered: list[tuple[int, list[str]]] = []
    depth = 0
    for number, raw in enumerate(text.splitlines(), 1):
        part = raw.split("#")[0].strip()
        if not part:
            continue
        if depth > 0 and not _BEGIN.match(part):
            numbered[-1][1].append(part)
        else:
            numbered.append((number, [part]))
            depth = 0
        depth += part.count("(") - part.count(")")
    return [Line(number, " ".join(parts)) for number, parts in numbered]
