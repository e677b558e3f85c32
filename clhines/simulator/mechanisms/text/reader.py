"""The statements of a mechanism's text, sorted and checked, and values of names at a place of it.

The format is that of `Mechanism`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import ClassVar

from clhines.core import units
from clhines.core.errors import InputError
from clhines.core.units import Unit, UnitError
from clhines.simulator.mechanisms.ir import exact
from clhines.simulator.mechanisms.ir.exact import ExpressionError, NotRealError
from clhines.simulator.mechanisms.ir.expressions import Graph, Node
from clhines.simulator.mechanisms.ir.passes.remove_singularities import remove_singularities
from clhines.simulator.mechanisms.ir.program import (
    CAPACITANCE,
    HELD,
    HELD_STEPS,
    HIDDEN,
    IonUse,
    Quantity,
    Spike,
)
from clhines.simulator.mechanisms.text.parser import FUNCTIONS, ExpressionParser, shortened

NAMES = {"v", "t", "dt", "noise", "weight"}  # given to a mechanism, each where that is allowed
RESERVED = {*NAMES, *FUNCTIONS, "pi", "and", "or", "not"}
KEYWORDS = ("parameter", "state", "current", "ion", "method", "substeps", "density", "point")
CURRENT_UNITS = {"density": "mA/cm2", "point": "nA"}
# variables of an ion, and the statement by which a text writes each; none: it only reads it
ION_NAMES = {"e{}": "", "{}i": "state", "{}o": "state", "i{}": "current"}
NAME = r"[A-Za-z][A-Za-z0-9_]*"
_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"


@dataclass
class Line:
    """One statement of a text, and what was read of it."""

    number: int
    text: str
    sort: str = ""  # name, parameter, state, current, rate, event, or a setting
    name: str = ""  # what it defines or changes; of a rate its state
    source: str = ""  # the expression as written
    sign: str = ""  # before the = of an event's action
    unit: Unit | None = None
    value: Node = field(init=False)  # the expression in NEURON's unit, in terms of symbols
    default: float = 0.0  # of a parameter, in NEURON's unit

    @property
    def shown(self) -> str:
        """The left side, as written."""
        return f"d{self.name}/dt" if self.sort == "rate" else self.name

    def acted(self, old: Node, value: Node) -> Node:
        """Apply an action with its sign to an old value."""
        changed = {"": value, "+": old + value, "-": old - value, "*": old * value}
        return old / value if self.sign == "/" else changed[self.sign]


@dataclass
class Equations:
    """A mechanism's text as a list of assignments to names, in its order.

    A name stands in the expressions of others as a symbol, so that the length of all expressions is
    that of the text; `Scope` puts values in place of the symbols. `what` is described, with `given`
    names and `keywords`.
    """

    what: ClassVar[str] = "mechanism"
    given: ClassVar[set[str]] = NAMES
    keywords: ClassVar[tuple[str, ...]] = KEYWORDS
    text: str
    name: str = ""
    kind: str = ""
    defined: dict[str, Line] = field(default_factory=dict)  # what has a name of its own
    ordered: list[Line] = field(default_factory=list)  # names, currents and rates
    states: dict[str, Line] = field(default_factory=dict)
    currents: dict[str, Line] = field(default_factory=dict)
    rates: dict[str, Line] = field(default_factory=dict)  # by state
    events: dict[str, Line] = field(default_factory=dict)  # by state
    spiking: dict[str, Line] = field(default_factory=dict)  # spike, reset of v, refractory
    resets: dict[str, Line] = field(default_factory=dict)  # by state
    spike: Spike | None = None
    ions: dict[str, Line] = field(default_factory=dict)  # by name
    settings: dict[str, Line] = field(default_factory=dict)  # by keyword
    graph: Graph = field(default_factory=Graph)
    method: str = ""
    stepped: tuple[str, ...] = ()  # states that it takes together, in the order of their rates
    substeps: int = 1
    uses_currents: bool = False  # whether a rate depends on a current of before
    is_noisy: bool = False  # whether a rate has noise
    keeps_v: bool = False  # whether states take the voltage of the begin of the step
    plain: dict[Node, Node] = field(default_factory=dict)  # results of `remove_singularities`

    def of_sort(self, sort: str) -> dict[str, Line]:
        """Return the definitions by statements of a sort."""
        return {name: line for name, line in self.defined.items() if line.sort == sort}

    @cached_property
    def written(self) -> dict[str, Node]:
        """Expressions of names and currents."""
        return {line.name: line.value for line in self.ordered if line.sort != "rate"}

    @cached_property
    def parameters(self) -> tuple[Quantity, ...]:
        """Parameters with their defaults."""
        declared = self.of_sort("parameter").values()
        quantities = [Quantity(p.name, _canonical(p), p.default) for p in declared]
        added = [CAPACITANCE] * bool(self.spiking) + [HELD_STEPS] * ("refractory" in self.spiking)
        return (*quantities, *(Quantity(name, "") for name in added))

    @property
    def kept(self) -> tuple[Quantity, ...]:
        """All states that instances have, the hidden ones last."""
        states = {name: line for name, line in self.states.items() if name not in self.outside}
        quantities = [Quantity(name, _canonical(line)) for name, line in states.items()]
        quantities += [Quantity(HELD, "")] * bool(self.spiking)
        return (*quantities, *[Quantity(HIDDEN, "mV")] * self.keeps_v)

    @cached_property
    def outside(self) -> dict[str, str]:
        """Names that variables of ions have, and the statement by which a text writes each."""
        return {n.format(ion): sort for ion in self.ions for n, sort in ION_NAMES.items()}

    @cached_property
    def ion_uses(self) -> tuple[IonUse, ...]:
        """The text's use of each ion, known after all expressions are read."""
        lines = (*self.ordered, *self.states.values())
        used = {name for line in lines for name in line.value.free}
        uses = []
        for ion, line in self.ions.items():
            names = [n.format(ion) for n in ION_NAMES]
            reads = tuple(n for n in names if n in used and n not in self.defined)
            writes = tuple(n for n in names if n in self.defined)
            uses.append(IonUse(ion, line.default if line.source else None, reads, writes))
        return tuple(uses)

    # --------------------------------------------------------------------------- statements

    def fail(self, line: Line, problem: str) -> InputError:
        """Return the error of a line."""
        where = f"{self.what} {shortened(self.name, 40)}, " if self.name else ""
        return InputError(f"{where}line {line.number}: {problem}; in '{shortened(line.text)}'")

    def read(self) -> None:
        """Sort the statements of the text, and read their expressions."""
        self._sort(_STATEMENTS, _EXPECTED)
        if not self.kind:
            raise InputError("the text of the mechanism is empty; expected 'density NAME' first")
        self.states, self.currents = self.of_sort("state"), self.of_sort("current")

    def _sort(self, statements: list[tuple[str, Callable[..., None]]], expected: str) -> None:
        """Hand each statement of the text to the function of its pattern."""
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
                near = _near_keyword(word, self.keywords)
                hint = f"did you mean '{near}'?" if near else expected
                raise self.fail(line, f"cannot read this statement; {hint}")

    def _header(self, line: Line) -> None:
        match = re.fullmatch(rf"(density|point)\s+({NAME})", line.text)
        if not match:
            text = "expected 'density NAME' or 'point NAME' as the mechanism's first statement"
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
        """Take ``NAME = EXPRESSION``, of a parameter, a state, a current or by itself."""
        if not sort and name in KEYWORDS:
            raise self.fail(
                line, f"'{name}' is a keyword; expected a name after it, as in '{name} x = ...'"
            )
        if name in self.given or name in RESERVED - NAMES:
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
        if sort == "current" and line.unit:
            expected = CURRENT_UNITS[self.kind]
            if line.unit.dimension != units.parse(expected).dimension:
                raise self.fail(
                    line,
                    f"current '{name}' is in '{line.unit.text}'; expected {expected} or a multiple "
                    f"of it in a {self.kind} mechanism",
                )
        self.defined[name] = line
        if sort in ("current", None):
            self.ordered.append(line)

    def _take(self, line: Line, source: str) -> None:
        """Take a unit off an expression."""
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
        """Keep the number that a line has; ExpressionError for anything else."""
        if not re.fullmatch(_NUMBER, line.source):
            raise ExpressionError("no number")
        value = exact.literal(line.source.lstrip("+-")) * _factor(line)
        line.default = float(exact.bounded(value)) * (-1) ** line.source.startswith("-")

    def no_value(self, line: Line, name: str) -> None:
        """Refuse ``state NAME``."""
        problem = f"state '{name}' has no initial value; expected 'state {name} = ...'"
        raise self.fail(line, problem)

    def _once(self, table: dict[str, Line], line: Line) -> None:
        if line.name in table:
            first = table[line.name].number
            raise self.fail(line, f"'{line.shown}' is given twice, first in line {first}")
        table[line.name] = line

    def rate(self, line: Line, name: str, source: str) -> None:
        """Take ``dNAME/dt = EXPRESSION``."""
        line.sort, line.name = "rate", name
        self._once(self.rates, line)
        self._take(line, source)
        self.ordered.append(line)

    def event(self, line: Line, actions: str) -> None:
        """Take ``on event: NAME += EXPRESSION; ...``."""
        self._actions(line, actions, "event", self.events)

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

    def spikes(self, line: Line, key: str, source: str) -> None:
        """Take ``spike: v > X``, ``reset: v = X; NAME += ...`` or ``refractory: X``."""
        line.sort = line.name = key
        self._once(self.spiking, line)
        if key == "spike":
            match = re.fullmatch(r"\s*v\s*>(?!=)(.*)", source, re.S)
            if not match:
                raise self.fail(line, "expected 'spike: v > X', X a parameter or a number")
            source = match.group(1)
        elif key == "reset":
            self._actions(line, source, "reset", self.resets)
            reset = self.resets.pop("v", None)
            if reset is None or reset.sign:
                raise self.fail(line, "expected 'reset: v = X', X a parameter or a number")
            source = reset.source
        self._take(line, source)

    def ion(self, line: Line, name: str, valence: str | None) -> None:
        """Take ``ion NAME`` or ``ion NAME valence NUMBER``."""
        line.sort, line.name, line.source = "ion", name, valence or ""
        self._once(self.ions, line)
        self._check_name(line, name)
        line.default = float(valence or 0)
        names = [n.format(ion) for ion in self.ions for n in ION_NAMES]
        if len({*names}) < len(names) or not RESERVED.isdisjoint(names):
            shown = ", ".join(names[-len(ION_NAMES) :])
            raise self.fail(line, f"one of {shown} has a meaning already; expected another ion")

    def setting(self, line: Line, key: str, value: str) -> None:
        """Take ``method NAME`` or ``substeps NUMBER``."""
        line.sort, line.name, line.source = key, key, value
        self._once(self.settings, line)

    # -------------------------------------------------------------------------- expressions

    def _resolve(self, name: str) -> Node:
        """Return the symbol of a name, or a constant's number."""
        if name in self.given or name in self.defined or name in self.outside:
            return self.graph.symbol(name)
        if name == "pi":
            return self.graph.number(exact.PI)
        names = [*self.defined, *self.outside, *sorted(self.given)]
        near = get_close_matches(name[:60], names[:2000], n=1, cutoff=0.6)
        hint = f"did you mean '{near[0]}'?" if near else "known are "
        hint += "" if near else shortened(", ".join(names), 100)
        if name in FUNCTIONS:
            hint = f"'{name}' is a function and needs its argument in brackets"
        raise ExpressionError(f"unknown symbol '{shortened(name)}'; {hint}")

    def parse(self, line: Line) -> None:
        """Read the expression of a line."""
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
        """Return the result of `work` for a line; its problems become the line's."""
        try:
            return work()
        except NotRealError as error:
            problem = f"'{line.shown}' is not a finite real number"
            raise self.fail(line, problem) from error
        except ExpressionError as error:
            hint = ""
            last = re.sub(r"[\d^]*(/.*)?$", "", line.source.split()[-1])
            if str(error).startswith("cannot read the expr") and last in units.BASES | {"mA", "nA"}:
                hint = " (a unit stands in [ ])"
            raise self.fail(line, f"{error}{hint}") from error

    def check_unused(self, used: set[str]) -> None:
        """Refuse a name that is used nowhere and looks like a misspelt keyword."""
        for name, line in self.of_sort("name").items():
            near = _near_keyword(name) if name not in used else ""
            if near:
                problem = f"'{name}' is used nowhere; did you mean the keyword '{near}'?"
                raise self.fail(line, problem)


def _factor(line: Line) -> Fraction:
    """Return the factor of a value as written."""
    return line.unit.exact if line.unit else Fraction(1)


def _canonical(line: Line) -> str:
    """Return NEURON's unit, empty where none is written."""
    return line.unit.canonical if line.unit else ""


def _near_keyword(word: str, keywords: tuple[str, ...] = KEYWORDS) -> str:
    near = get_close_matches(word, keywords, n=1, cutoff=0.75)
    return near[0] if near else ""


_EXPECTED = (
    "expected 'parameter NAME = NUMBER UNIT', 'state NAME = ...', 'dNAME/dt = ...', "
    "'current NAME = ...', 'NAME = ...', 'ion NAME', 'on event: NAME += ...', 'spike: v > ...', "
    "'reset: v = ...', 'refractory: ...', 'method ...' or 'substeps ...'"
)
_STATEMENTS: list[tuple[str, Callable[..., None]]] = [
    (rf"(?:(parameter|state|current)\s+)?({NAME})\s*=(?!=)(.*)", Equations.define),
    (rf"state\s+({NAME})\s*", Equations.no_value),
    (rf"d({NAME})\s*/\s*dt\s*=(?!=)(.*)", Equations.rate),
    (r"on\s+event\s*:(.*)", Equations.event),
    (rf"ion\s+({NAME})(?:\s+valence\s+([-+]?[0-9]{{1,2}}))?", Equations.ion),
    (r"(spike|reset|refractory)\s*:(.*)", Equations.spikes),
    (r"(method|substeps)\s+([^=]*)", Equations.setting),
]

# What no expression goes on with: an open bracket before it was forgotten.
_BEGIN = re.compile(rf"((parameter|state|current)\s+{NAME}|d{NAME}\s*/\s*dt)\s*=")


def _lines(text: str) -> list[Line]:
    """Statements without comments; one goes on while a bracket is open."""
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


class Scope:
    """Values of names: those given in place of symbols, and expressions of them."""

    def __init__(self, equations: Equations, values: Mapping[str, Node] | None = None) -> None:
        self.eq, self.graph = equations, equations.graph
        self.values: dict[str, Node] = dict(values or {})

    def value(self, name: str) -> Node:
        """Return the value of a name."""
        return self.expression(self.graph.symbol(name))

    def expression(self, e: Node, keep: bool = True) -> Node:
        """Return an expression with the values of names in it.

        With `keep`, names without a value keep the one that they get.
        """
        values = self.values if keep else dict(self.values)
        for name in self._missing(e, values):
            values[name] = self.named(name, self._replaced(self.eq.written[name], values))
        return self._replaced(e, values)

    def assign(self, name: str) -> None:
        """Give a name the value that it has here."""
        self.values.pop(name, None)
        self.values[name] = self.named(name, self.expression(self.eq.written[name], keep=False))

    def current(self) -> Node:
        """Return the sum of all currents."""
        return self.graph.add([self.value(name) for name in self.eq.currents])

    def named(self, name: str, value: Node) -> Node:
        """Return a value under a name."""
        result = self.graph.local(name, value)
        self.eq.plain[result] = result
        return result

    def _replaced(self, e: Node, values: Mapping[str, Node]) -> Node:
        symbol = self.graph.symbol
        replacements = {symbol(name): values[name] for name in e.free if name in values}
        value = self.graph.replaced([e], replacements)[0] if replacements else e
        [result] = remove_singularities([value], self.eq.plain)
        self.eq.plain[result] = result
        return result

    def _missing(self, e: Node, values: Mapping[str, Node]) -> Iterable[str]:
        """Names that an expression needs and that have no value, each after what it needs."""
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
    """Return of each state that others depend on in a circle the states of the circle."""
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
