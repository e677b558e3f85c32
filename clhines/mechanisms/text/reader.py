"""The statements of a mechanism's text, sorted and checked; `language` makes `Equations` of them.

The format is described in `Mechanism`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from fractions import Fraction
from itertools import accumulate

from clhines.errors import InputError
from clhines.mechanisms import units
from clhines.mechanisms.ir import exact
from clhines.mechanisms.ir.exact import ExpressionError, NotRealError
from clhines.mechanisms.ir.expressions import Graph, Node
from clhines.mechanisms.text.parser import FUNCTIONS, Parser, shortened
from clhines.mechanisms.units import Unit, UnitError

MAX_TEXT = 100_000
NAMES = {"v", "t", "dt", "noise", "weight"}  # given to a mechanism, each where that is allowed
RESERVED = NAMES | {"pi", "and", "or", "not"}
KEYWORDS = ("parameter", "state", "current", "method", "substeps", "density", "point")
CURRENT_UNITS = {"density": "mA/cm2", "point": "nA"}

_NAME = r"[A-Za-z][A-Za-z0-9_]*"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"


@dataclass
class Line:
    """One statement of a text, and what was read of it."""

    number: int
    text: str
    name: str = ""  # what it defines
    source: str = ""  # the expression as written
    unit: Unit | None = None

    @property
    def factor(self) -> Fraction:
        """What a value as written is multiplied by."""
        return self.unit.exact if self.unit else Fraction(1)

    @property
    def unit_name(self) -> str:
        """NEURON's unit, empty where none is written."""
        return self.unit.canonical if self.unit else ""


@dataclass
class Reader:
    """One reading of a text: its statements by sort."""

    text: str
    name: str = ""
    kind: str = ""
    parameters: dict[str, Line] = field(default_factory=dict)
    states: dict[str, Line] = field(default_factory=dict)
    rates: dict[str, Line] = field(default_factory=dict)
    currents: dict[str, Line] = field(default_factory=dict)
    named: dict[str, Line] = field(default_factory=dict)
    ordered: list[tuple[str, str, Line]] = field(default_factory=list)  # sort, name
    events: list[tuple[Line, str]] = field(default_factory=list)
    settings: dict[str, Line] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)

    def fail(self, line: Line, problem: str) -> InputError:
        """Return the error of a line."""
        where = f"mechanism {shortened(self.name, 40)}, " if self.name else ""
        return InputError(f"{where}line {line.number}: {problem}; in '{shortened(line.text)}'")

    # --------------------------------------------------------------------------- statements

    def read(self) -> None:
        """Sort the statements of the text."""
        for line in _lines(self.text):
            if not self.kind:
                self._header(line)
                continue
            for pattern, take in _STATEMENTS:
                found = re.fullmatch(pattern, line.text, re.S)
                if found:
                    take(self, line, *found.groups())
                    break
            else:
                self._unknown(line)
        if not self.kind:
            raise InputError("the text of the mechanism is empty; expected 'density NAME' first")

    def _unknown(self, line: Line) -> None:
        first = re.split(r"[\s=:]", line.text, maxsplit=1)[0]
        near = _near_keyword(first[:40])
        hint = f"did you mean '{near}'?" if near else ""
        raise self.fail(
            line,
            "cannot read this statement; "
            + (
                hint
                or "expected 'parameter NAME = NUMBER UNIT', "
                "'state NAME = ...', 'dNAME/dt = ...', 'current NAME = ...', 'NAME = ...', "
                "'on event: NAME += ...', 'method ...' or 'substeps ...'"
            ),
        )

    def _header(self, line: Line) -> None:
        found = re.fullmatch(rf"(density|point)\s+({_NAME})", line.text)
        if not found:
            text = "expected 'density NAME' or 'point NAME' as the mechanism's first statement"
            if line.text.endswith(".mod") or line.text.startswith(("NEURON", "TITLE", "COMMENT")):
                text += "; NMODL is read by Mechanism.from_nmodl()"
            raise self.fail(line, text)
        if "__" in found.group(2) or found.group(2).endswith("_"):
            raise self.fail(line, "names have no double or last underscore")
        if len(found.group(2)) > 60:
            raise self.fail(line, "the name is too long; expected at most 60 letters")
        self.kind, self.name = found.groups()

    def _define(self, line: Line, name: str, source: str) -> None:
        """Check that a name is new, and take a unit off its expression."""
        shown = shortened(name, 40)
        if name in RESERVED or name in FUNCTIONS:
            raise self.fail(line, f"'{name}' has a meaning already and cannot be defined")
        if "__" in name or name.endswith("_"):
            raise self.fail(line, f"'{shown}': names have no double or last underscore")
        if len(name) > 60:
            raise self.fail(line, f"the name '{shown}' is too long; expected at most 60 letters")
        for other in (self.parameters, self.states, self.currents, self.named):
            if name in other:
                raise self.fail(
                    line, f"'{name}' is defined twice, first in line {other[name].number}"
                )
        line.name = name
        self._take(line, source)

    def _take(self, line: Line, source: str, more: str = "") -> None:
        line.source = source.strip()
        found = re.fullmatch(r"(.*\S)\s*\[([^\[]*)\]", line.source, re.S) or re.fullmatch(
            rf"({_NUMBER})\s+([A-Za-z0-9µμΩ°{more}].*)", line.source, re.S
        )
        if found:
            line.source, unit = found.group(1), found.group(2).strip()
            try:
                line.unit = units.parse(unit)
            except UnitError as error:
                raise self.fail(line, f"'{line.name}': {error}") from error

    def parameter(self, line: Line, name: str, source: str) -> None:
        """Take ``parameter NAME = NUMBER UNIT``."""
        self._define(line, name, "0")
        self._take(line, source, more="/")
        try:
            if not re.fullmatch(_NUMBER, line.source):
                raise ExpressionError("no number")
            value = exact.literal(line.source.lstrip("+-"))
            float(exact.bounded(value * line.factor))
        except ExpressionError as error:
            raise self.fail(
                line,
                f"parameter '{name}' got '{shortened(line.source)}'; "
                "expected a number and its unit",
            ) from error
        self.parameters[name] = line

    def default(self, name: str) -> float:
        """Return a parameter's default in NEURON's unit."""
        line = self.parameters[name]
        value = exact.literal(line.source.lstrip("+-")) * line.factor
        return float(-value if line.source.startswith("-") else value)

    def state(self, line: Line, name: str, source: str | None) -> None:
        """Take ``state NAME = INITIAL VALUE``."""
        if source is None:
            raise self.fail(
                line, f"state '{name}' has no initial value; expected 'state {name} = ...'"
            )
        self._define(line, name, source)
        self.states[name] = line

    def rate(self, line: Line, name: str, source: str) -> None:
        """Take ``dNAME/dt = EXPRESSION``."""
        if name in self.rates:
            raise self.fail(
                line, f"'d{name}/dt' is given twice, first in line {self.rates[name].number}"
            )
        line.name = f"d{name}/dt"
        self._take(line, source)
        self.rates[name] = line
        self.ordered.append(("rate", name, line))

    def current(self, line: Line, name: str, source: str) -> None:
        """Take ``current NAME = EXPRESSION``."""
        self._define(line, name, source)
        expected = CURRENT_UNITS[self.kind]
        if line.unit and line.unit.dimension != units.parse(expected).dimension:
            raise self.fail(
                line,
                f"current '{name}' is in '{line.unit.text}'; expected {expected} or a multiple "
                f"of it in a {self.kind} mechanism",
            )
        self.currents[name] = line
        self.ordered.append(("current", name, line))

    def expression(self, line: Line, name: str, source: str) -> None:
        """Take ``NAME = EXPRESSION``."""
        if name in KEYWORDS:
            raise self.fail(
                line, f"'{name}' is a keyword; expected a name after it, as in '{name} x = ...'"
            )
        self._define(line, name, source)
        self.named[name] = line
        self.ordered.append(("name", name, line))

    def event(self, line: Line, actions: str) -> None:
        """Take ``on event: NAME += EXPRESSION; ...``."""
        for action in actions.split(";"):
            found = re.fullmatch(rf"\s*({_NAME})\s*([-+*/]?)=(?!=)(.*\S)\s*", action, re.S)
            if not found:
                raise self.fail(
                    line, f"cannot read the action '{shortened(action)}'; expected 'NAME += ...'"
                )
            name, sign, source = found.groups()
            if any(name == other.name for other, _ in self.events):
                raise self.fail(line, f"the event changes '{name}' twice")
            self.events.append((Line(line.number, line.text, name, source), sign))

    def setting(self, line: Line, key: str, value: str) -> None:
        """Take ``method NAME`` or ``substeps NUMBER``."""
        if key in self.settings:
            raise self.fail(
                line, f"'{key}' is given twice, first in line {self.settings[key].number}"
            )
        line.name, line.source = key, value
        self.settings[key] = line

    # -------------------------------------------------------------------------- expressions

    def resolve(self, name: str) -> Node:
        """Return the symbol of a name, or a constant's number."""
        known = (self.parameters, self.states, self.named, self.currents)
        if name in NAMES or any(name in group for group in known):
            return self.graph.symbol(name)
        if name == "pi":
            return self.graph.number(exact.PI)
        raise ExpressionError(f"unknown symbol '{shortened(name)}'; {self._hint(name)}")

    def _hint(self, name: str) -> str:
        if name in FUNCTIONS:
            return f"'{name}' is a function and needs its argument in brackets"
        known = [*self.parameters, *self.states, *self.named, *self.currents, *sorted(NAMES)]
        near = get_close_matches(name[:60], known[:2000], n=1, cutoff=0.6)
        if near:
            return f"did you mean '{near[0]}'?"
        return "known are " + shortened(", ".join(known), 100)

    def parsed(self, line: Line) -> Node:
        """Return the expression of a line, in NEURON's unit."""
        if not line.source:
            raise self.fail(line, f"'{line.name}' has nothing on its right side")
        depths = list(accumulate((c == "(") - (c == ")") for c in line.source))
        if min(depths) < 0 or depths[-1] != 0:
            raise self.fail(line, f"the brackets of '{line.name}' do not match")

        def work() -> Node:
            node = Parser(self.graph, line.source, self.resolve).parse()
            return self.graph.number(line.factor) * node

        return self.attempt(line, work)

    def attempt(self, line: Line, work: Callable[[], Node]) -> Node:
        """Return what `work` does for a line; its problems become the line's."""
        try:
            return work()
        except NotRealError as error:
            problem = f"'{line.name}' is not a finite real number"
            raise self.fail(line, problem) from error
        except ExpressionError as error:
            hint = ""
            last = re.sub(r"[\d^]*(/.*)?$", "", line.source.split()[-1])
            if str(error).startswith("cannot read the expr") and last in units.BASES | {"mA", "nA"}:
                hint = " (a unit stands in [ ])"
            raise self.fail(line, f"{error}{hint}") from error


def _near_keyword(word: str) -> str:
    near = get_close_matches(word, KEYWORDS, n=1, cutoff=0.75)
    return near[0] if near else ""


def check_unused(reader: Reader, used: set[str]) -> None:
    """Refuse a named expression that is used nowhere and looks like a misspelt keyword."""
    for name, line in reader.named.items():
        near = _near_keyword(name) if name not in used else ""
        if near:
            raise reader.fail(line, f"'{name}' is used nowhere; did you mean the keyword '{near}'?")


_STATEMENTS: list[tuple[str, Callable[..., None]]] = [
    (rf"parameter\s+({_NAME})\s*=(?!=)(.*)", Reader.parameter),
    (rf"state\s+({_NAME})\s*(?:=(?!=)(.*))?", Reader.state),
    (rf"current\s+({_NAME})\s*=(?!=)(.*)", Reader.current),
    (rf"d({_NAME})\s*/\s*dt\s*=(?!=)(.*)", Reader.rate),
    (r"on\s+event\s*:(.*)", Reader.event),
    (r"(method|substeps)\s+([^=]*)", Reader.setting),
    (rf"({_NAME})\s*=(?!=)(.*)", Reader.expression),
]

# What no expression goes on with: an open bracket before it was forgotten.
_BEGIN = re.compile(rf"((parameter|state|current)\s+{_NAME}|d{_NAME}\s*/\s*dt)\s*=")


def _lines(text: str) -> list[Line]:
    """Statements without comments; one goes on while a bracket is open."""
    found: list[tuple[int, list[str]]] = []
    depth = 0
    for number, raw in enumerate(text.splitlines(), 1):
        part = raw.split("#")[0].strip()
        if not part:
            continue
        if depth > 0 and not _BEGIN.match(part):
            found[-1][1].append(part)
        else:
            found.append((number, [part]))
            depth = 0
        depth += part.count("(") - part.count(")")
    return [Line(number, " ".join(parts)) for number, parts in found]
