"""The text of a mechanism, read line by line into SymPy expressions; nothing of it is executed.

The only module that reads mechanisms and needs SymPy for it; `channels` imports it when the first
mechanism is made. The format is described in `channels.Mechanism`.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from keyword import iskeyword
from typing import Any

import numpy as np
import sympy as sp

from clhines.errors import InputError

METHODS = ("euler", "rk2", "rk4")
MAX_SUBSTEPS, MAX_POWER, MAX_TEXT = 1000, 64, 100_000
CURRENT_UNITS = {"density": "mA/cm2", "point": "nA"}
BASE_UNITS = set(
    """1 S mS uS nS pS A mA uA nA pA V mV uV s ms us ns Hz kHz M mM uM nM mol mmol m cm mm um
    F mF uF nF pF ohm kohm Mohm Gohm C J degC K L g kg""".split()
)
NAMES = {"v", "t", "noise", "weight"}  # given to a mechanism, each in the places that allow it
CONSTANTS = {"pi": sp.pi}
RESERVED = NAMES | set(CONSTANTS) | {"dt"}

_NAME = r"[A-Za-z][A-Za-z0-9_]*"
_KEYWORD = "__"  # put after a name that is a word of Python's, such as lambda
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"


# ------------------------------------------------------------------------------------- functions


class Less(sp.Function):
    """1 where the first argument is below the second, else 0."""

    nargs = 2

    @classmethod
    def eval(cls, a: Any, b: Any) -> Any:
        """Decide between two numbers at once."""
        return sp.Integer(bool(a < b)) if a.is_Number and b.is_Number else None

    def _eval_derivative(self, s: Any) -> Any:
        return sp.S.Zero


class LessEqual(Less):
    """1 where the first argument is at most the second, else 0."""

    @classmethod
    def eval(cls, a: Any, b: Any) -> Any:
        """Decide between two numbers at once."""
        return sp.Integer(bool(a <= b)) if a.is_Number and b.is_Number else None


class Where(sp.Function):
    """The second argument where the first is not 0, else the third."""

    nargs = 3

    @classmethod
    def eval(cls, condition: Any, a: Any, b: Any) -> Any:
        """Drop a condition that is a number, or that decides nothing."""
        if condition.is_Number:
            return b if condition == 0 else a
        return a if a == b else None

    def _eval_derivative(self, s: Any) -> Any:
        condition, a, b = self.args
        return Where(condition, a.diff(s), b.diff(s))


class Bernoulli(sp.Function):
    """``x / (exp(x) - 1)`` of ``x`` and ``exp(x)``: 1 at ``x = 0``."""

    nargs = 2

    def _eval_derivative(self, s: Any) -> Any:
        return BernoulliSlope(*self.args) * self.args[0].diff(s)


class BernoulliSlope(sp.Function):
    """Derivative of `Bernoulli` by its first argument: -1/2 at ``x = 0``."""

    nargs = 2


def is_condition(e: Any) -> bool:
    """Whether an expression is a comparison, or comparisons that must all hold."""
    return all(isinstance(factor, Less) for factor in sp.Mul.make_args(e))


def _negated(e: Any) -> Any:
    if isinstance(e, Less):
        return (Less if isinstance(e, LessEqual) else LessEqual)(e.args[1], e.args[0])
    return Where(e, sp.S.Zero, sp.S.One)


def _minimum(a: Any, b: Any) -> Any:
    return Where(Less(a, b), a, b)


def _maximum(a: Any, b: Any) -> Any:
    return Where(Less(b, a), a, b)


FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "exp": (1, sp.exp),
    "log": (1, sp.log),
    "sqrt": (1, sp.sqrt),
    "sin": (1, sp.sin),
    "cos": (1, sp.cos),
    "tan": (1, sp.tan),
    "sinh": (1, sp.sinh),
    "cosh": (1, sp.cosh),
    "tanh": (1, sp.tanh),
    "abs": (1, sp.Abs),
    "min": (2, _minimum),
    "max": (2, _maximum),
    "where": (3, Where),
}


# --------------------------------------------------------------------------------------- results


@dataclass(frozen=True)
class Quantity:
    """A parameter or a state: its name, its unit as written, and a parameter's default."""

    name: str
    unit: str
    default: float = 0.0


@dataclass(frozen=True)
class Equations:
    """What a text says. Expressions are SymPy's, of the symbols of `symbol`.

    `current` is the sum of all currents; `rates`, `initial` and `events` are by state, `named`
    are the intermediate expressions. All are in terms of what a mechanism is given: parameters,
    states, and `NAMES`.
    """

    name: str
    kind: str
    parameters: tuple[Quantity, ...]
    states: tuple[Quantity, ...]
    current: Any
    currents: tuple[str, ...]
    initial: dict[str, Any]
    rates: dict[str, Any]
    events: dict[str, Any]
    named: dict[str, Any]
    nonlinear: tuple[str, ...]
    method: str
    method_for_all: bool
    substeps: int


def symbol(name: str) -> sp.Symbol:
    """Return the real symbol of a name."""
    return sp.Symbol(name, real=True)


# --------------------------------------------------------------------------------------- reading


@dataclass
class _Line:
    number: int
    text: str
    name: str = ""  # what it defines
    source: str = ""  # the expression as written
    unit: str = ""


@dataclass
class _Reader:
    """One reading of a text: statements by kind, then names resolved on demand."""

    text: str
    name: str = ""
    kind: str = ""
    parameters: dict[str, _Line] = field(default_factory=dict)
    states: dict[str, _Line] = field(default_factory=dict)
    rates: dict[str, _Line] = field(default_factory=dict)
    currents: dict[str, _Line] = field(default_factory=dict)
    named: dict[str, _Line] = field(default_factory=dict)
    events: list[tuple[_Line, str]] = field(default_factory=list)
    settings: dict[str, _Line] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)  # resolved names
    open: list[str] = field(default_factory=list)  # names being resolved

    def fail(self, line: _Line, problem: str) -> InputError:
        """Return the error of a line."""
        where = f"mechanism {self.name}, " if self.name else ""
        text = line.text if len(line.text) <= 80 else line.text[:77] + "..."
        return InputError(f"{where}line {line.number}: {problem}; in '{text}'")

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
                raise self.fail(
                    line,
                    "cannot read this statement; expected 'parameter NAME = NUMBER UNIT', "
                    "'state NAME = ...', 'dNAME/dt = ...', 'current NAME = ...', 'NAME = ...', "
                    "'on event: NAME += ...', 'method ...' or 'substeps ...'",
                )
        if not self.kind:
            raise InputError("the text of the mechanism is empty; expected 'density NAME' first")

    def _header(self, line: _Line) -> None:
        found = re.fullmatch(rf"(density|point)\s+({_NAME})", line.text)
        if not found:
            raise self.fail(
                line, "expected 'density NAME' or 'point NAME' as the mechanism's first statement"
            )
        if "__" in found.group(2) or found.group(2).endswith("_"):
            raise self.fail(line, "names have no double or last underscore")
        self.kind, self.name = found.groups()

    def _define(self, line: _Line, name: str, source: str) -> None:
        """Check that a name is new, and split a unit off its expression."""
        if name in RESERVED or name in FUNCTIONS:
            raise self.fail(line, f"'{name}' has a meaning already and cannot be defined")
        if "__" in name or name.endswith("_"):
            raise self.fail(line, f"'{name}': names have no double or last underscore")
        for other in (self.parameters, self.states, self.currents, self.named):
            if name in other:
                raise self.fail(
                    line, f"'{name}' is defined twice, first in line {other[name].number}"
                )
        line.name = name
        self._take(line, source)

    def _take(self, line: _Line, source: str) -> None:
        line.source = source.strip()
        found = re.fullmatch(r"(.*\S)\s*\[(.*)\]", line.source, re.S) or re.fullmatch(
            rf"({_NUMBER})\s+([A-Za-z0-9].*)", line.source, re.S
        )
        if found:
            line.source, line.unit = found.group(1), found.group(2).strip()
            self._check_unit(line)

    def _check_unit(self, line: _Line) -> None:
        for part in re.split(r"[/*]", line.unit):
            found = re.fullmatch(r"\s*([A-Za-z]+|1)(?:\^?-?\d+)?\s*", part)
            if not found or found.group(1) not in BASE_UNITS:
                raise self.fail(
                    line,
                    f"unknown unit '{part.strip()}' of '{line.name}'; expected products and "
                    "quotients of S, mA, nA, mV, ms, uS, cm2, mM, degC, 1 and the like",
                )

    def parameter(self, line: _Line, name: str, source: str) -> None:
        """Take ``parameter NAME = NUMBER UNIT``."""
        self._define(line, name, source)
        if not re.fullmatch(_NUMBER, line.source) or not math.isfinite(float(line.source)):
            raise self.fail(
                line, f"parameter '{name}' got '{line.source}'; expected a number and its unit"
            )
        self.parameters[name] = line

    def state(self, line: _Line, name: str, source: str | None) -> None:
        """Take ``state NAME = INITIAL VALUE``."""
        if source is None:
            raise self.fail(
                line, f"state '{name}' has no initial value; expected 'state {name} = ...'"
            )
        self._define(line, name, source)
        self.states[name] = line

    def rate(self, line: _Line, name: str, source: str) -> None:
        """Take ``dNAME/dt = EXPRESSION``."""
        if name in self.rates:
            raise self.fail(
                line, f"'d{name}/dt' is given twice, first in line {self.rates[name].number}"
            )
        line.name = f"d{name}/dt"
        self._take(line, source)
        self.rates[name] = line

    def current(self, line: _Line, name: str, source: str) -> None:
        """Take ``current NAME = EXPRESSION``."""
        self._define(line, name, source)
        expected = CURRENT_UNITS[self.kind]
        if line.unit and line.unit != expected:
            raise self.fail(
                line,
                f"current '{name}' is in '{line.unit}'; expected {expected} "
                f"in a {self.kind} mechanism",
            )
        self.currents[name] = line

    def expression(self, line: _Line, name: str, source: str) -> None:
        """Take ``NAME = EXPRESSION``."""
        self._define(line, name, source)
        self.named[name] = line

    def event(self, line: _Line, actions: str) -> None:
        """Take ``on event: NAME += EXPRESSION; ...``."""
        for action in actions.split(";"):
            found = re.fullmatch(rf"\s*({_NAME})\s*([-+*/]?)=(?!=)(.*\S)\s*", action, re.S)
            if not found:
                raise self.fail(
                    line, f"cannot read the action '{action.strip()}'; expected 'NAME += ...'"
                )
            name, sign, source = found.groups()
            if any(name == other.name for other, _ in self.events):
                raise self.fail(line, f"the event changes '{name}' twice")
            self.events.append((_Line(line.number, line.text, name, source), sign))

    def setting(self, line: _Line, key: str, value: str) -> None:
        """Take ``method NAME`` or ``substeps NUMBER``."""
        if key in self.settings:
            raise self.fail(
                line, f"'{key}' is given twice, first in line {self.settings[key].number}"
            )
        line.name, line.source = key, value
        self.settings[key] = line

    # ------------------------------------------------------------------------- expressions

    def resolve(self, name: str, line: _Line) -> Any:
        """Return the expression of a name that `line` uses."""
        if name in self.known:
            return self.known[name]
        if name in NAMES or name in self.parameters or name in self.states:
            return symbol(name)
        if name in CONSTANTS:
            return CONSTANTS[name]
        lines = self.named if name in self.named else self.currents
        if name not in lines:
            raise self.fail(line, f"unknown symbol '{name}'; {self._hint(name)}")
        if name in self.open:
            chain = " -> ".join([*self.open[self.open.index(name) :], name])
            raise self.fail(lines[name], f"'{name}' is defined by itself ({chain})")
        self.open.append(name)
        self.known[name] = self.convert(lines[name])
        self.open.pop()
        return self.known[name]

    def _hint(self, name: str) -> str:
        if name in FUNCTIONS:
            return f"'{name}' is a function and needs its argument in brackets"
        known = [*self.parameters, *self.states, *self.named, *self.currents, *sorted(NAMES)]
        return "known are " + ", ".join(known)

    def convert(self, line: _Line) -> Any:
        """Turn the expression of a line into SymPy's, removable singularities removed."""
        try:
            result = self._expression(self._parsed(line), line)
        except InputError:
            raise
        except RecursionError as error:
            raise self.fail(line, "the expression is too deep") from error
        except (TypeError, ValueError, ArithmeticError) as error:  # SymPy's, of complex numbers
            problem = " ".join(str(error).split())
            raise self.fail(line, f"'{line.name}' has no real value ({problem})") from error
        if result.has(sp.zoo, sp.nan, sp.oo, -sp.oo, sp.I):
            raise self.fail(line, f"'{line.name}' is not a finite real number: {result}")
        result = result.replace(sp.cot, lambda a: 1 / sp.tan(a))  # SymPy's tan(pi/2 - a)
        result = remove_singularities(result)
        point = singular_point(result, self._defaults())
        if point is not None:
            raise self.fail(
                line,
                f"'{line.name}' is 0/0 at v = {point:.10g} in a way that is not known how to "
                "remove; expected a form with exp, tanh or sinh, or where(...) around it",
            )
        return result

    def _parsed(self, line: _Line) -> ast.expr:
        """Return Python's tree of an expression; what is in it is checked later."""
        if not line.source:
            raise self.fail(line, f"'{line.name}' has nothing on its right side")
        bad = re.search(r"[^A-Za-z0-9_\s.+\-*/^()<>=!,]", line.source)
        if bad:
            raise self.fail(line, f"unexpected character '{bad.group()}'")
        depths = list(accumulate((c == "(") - (c == ")") for c in line.source))
        if min(depths) < 0 or depths[-1] != 0:
            raise self.fail(line, f"the brackets of '{line.name}' do not match")
        try:
            source = re.sub(rf"\b{_NAME}", _no_keyword, line.source).replace("^", "**")
            return ast.parse(f"({source})", mode="eval").body
        except SyntaxError as error:
            rest = (error.text or "")[max((error.offset or 1) - 1, 0) :].strip("() ") or "the end"
            last = re.sub(r"[\d^]*(/.*)?$", "", rest.split()[-1])
            hint = " (a unit stands in [ ])" if last in BASE_UNITS else ""
            raise self.fail(line, f"cannot read the expression at '{rest}'{hint}") from error
        except (RecursionError, MemoryError) as error:
            raise self.fail(line, "the expression is too deep") from error

    def _defaults(self) -> dict[Any, float]:
        return {
            symbol(name): float(line.source)
            for name, line in self.parameters.items()
            if re.fullmatch(_NUMBER, line.source)
        }

    def _expression(self, node: ast.expr, line: _Line) -> Any:
        def inner(child: ast.expr) -> Any:
            return self._expression(child, line)

        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            if not math.isfinite(node.value):
                raise self.fail(line, "a number is too large")
            return sp.Rational(repr(node.value))
        if isinstance(node, ast.Name):
            word = node.id.removesuffix(_KEYWORD)
            return self.resolve(word if iskeyword(word) else node.id, line)
        if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
            return _UNARY[type(node.op)](inner(node.operand))
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            a, b = inner(node.left), inner(node.right)
            if isinstance(node.op, ast.Pow) and b.is_Number and abs(b) > MAX_POWER:
                raise self.fail(line, f"power {b} is too large; expected at most {MAX_POWER}")
            return _BINARY[type(node.op)](a, b)
        if isinstance(node, ast.BoolOp):
            values = [inner(v) for v in node.values]
            result = values[0]
            for value in values[1:]:
                if isinstance(node.op, ast.And):
                    both = is_condition(result) and is_condition(value)
                    result = result * value if both else Where(result, value, sp.S.Zero)
                else:
                    result = Where(result, sp.S.One, value)
            return result
        if isinstance(node, ast.Compare):
            return self._comparison(node, line)
        if isinstance(node, ast.Call):
            return self._call(node, line)
        raise self.fail(line, f"cannot use '{ast.unparse(node)}' in an expression")

    def _comparison(self, node: ast.Compare, line: _Line) -> Any:
        values = [self._expression(v, line) for v in (node.left, *node.comparators)]
        result = sp.S.One
        for op, a, b in zip(node.ops, values[:-1], values[1:], strict=True):
            if type(op) not in _COMPARISONS:
                raise self.fail(line, "expected <, <=, > or >= as a comparison")
            result = result * _COMPARISONS[type(op)](a, b)
        return result

    def _call(self, node: ast.Call, line: _Line) -> Any:
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        if name not in FUNCTIONS:
            raise self.fail(line, f"unknown function '{name}'; known are {', '.join(FUNCTIONS)}")
        count, function = FUNCTIONS[name]
        if len(node.args) != count or node.keywords:
            raise self.fail(line, f"'{name}' got {len(node.args)} arguments; expected {count}")
        return function(*(self._expression(a, line) for a in node.args))


_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: lambda a: -a,
    ast.UAdd: lambda a: a,
    ast.Not: _negated,
}
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: Less,
    ast.LtE: LessEqual,
    ast.Gt: lambda a, b: Less(b, a),
    ast.GtE: lambda a, b: LessEqual(b, a),
}
_STATEMENTS: list[tuple[str, Callable[..., None]]] = [
    (rf"parameter\s+({_NAME})\s*=(?!=)(.*)", _Reader.parameter),
    (rf"state\s+({_NAME})\s*(?:=(?!=)(.*))?", _Reader.state),
    (rf"current\s+({_NAME})\s*=(?!=)(.*)", _Reader.current),
    (rf"d({_NAME})\s*/\s*dt\s*=(?!=)(.*)", _Reader.rate),
    (r"on\s+event\s*:(.*)", _Reader.event),
    (r"(method|substeps)\s+(.*)", _Reader.setting),
    (rf"({_NAME})\s*=(?!=)(.*)", _Reader.expression),
]


def _no_keyword(found: re.Match[str]) -> str:
    name = found.group()
    return name + _KEYWORD if iskeyword(name) and name not in ("and", "or", "not") else name


# What no expression goes on with: an open bracket before it was forgotten.
_BEGIN = re.compile(rf"((parameter|state|current)\s+{_NAME}|d{_NAME}\s*/\s*dt)\s*=")


def _lines(text: str) -> list[_Line]:
    """Statements without comments; one goes on while a bracket is open."""
    result: list[_Line] = []
    depth = 0
    for number, raw in enumerate(text.splitlines(), 1):
        part = raw.split("#")[0].strip()
        if not part:
            continue
        if depth > 0 and not _BEGIN.match(part):
            result[-1].text += " " + part
        else:
            result.append(_Line(number, part))
        depth = result[-1].text.count("(") - result[-1].text.count(")")
    return result


# -------------------------------------------------------------------------------------- meaning


@lru_cache(maxsize=256)
def read(text: str) -> Equations:
    """Read the text of a mechanism.

    Raises
    ------
    InputError
        With the line and the symbol that is wrong.
    """
    if len(text) > MAX_TEXT:
        raise InputError(f"the mechanism's text has {len(text)} letters; at most {MAX_TEXT}")
    reader = _Reader(text)
    reader.read()
    return _meaning(reader)


def _meaning(r: _Reader) -> Equations:
    for name, line in r.rates.items():
        if name not in r.states:
            raise r.fail(line, f"'{name}' is no state; expected a line 'state {name} = ...'")
    named = {name: r.resolve(name, line) for name, line in r.named.items()}
    currents = {name: r.resolve(name, line) for name, line in r.currents.items()}
    if not currents:
        raise InputError(f"mechanism {r.name} has no current; expected a line 'current i = ...'")
    states = set(r.states)
    for name, line in r.currents.items():
        _refuse(r, line, currents[name], {"weight"}, "a current")
    initial = {name: r.convert(line) for name, line in r.states.items()}
    for name, line in r.states.items():
        _refuse(r, line, initial[name], states | {"t", "noise", "weight"}, "an initial value")
    rates = {name: r.convert(line) for name, line in r.rates.items()}
    for name, line in r.rates.items():
        _refuse(r, line, rates[name], {"noise", "weight"}, "a rate")
    rates = {name: rates[name] for name in r.states if name in rates}
    nonlinear = tuple(name for name in rates if linear_parts(rates[name], name) is None)
    method, for_all = _method(r, nonlinear)
    return Equations(
        name=r.name,
        kind=r.kind,
        parameters=tuple(
            Quantity(name, line.unit, float(line.source)) for name, line in r.parameters.items()
        ),
        states=tuple(Quantity(name, line.unit) for name, line in r.states.items()),
        current=sp.Add(*currents.values()),
        currents=tuple(currents),
        initial=initial,
        rates=rates,
        events=_events(r),
        named={**named, **currents},
        nonlinear=nonlinear,
        method=method,
        method_for_all=for_all,
        substeps=_substeps(r),
    )


def _refuse(r: _Reader, line: _Line, expression: Any, names: set[str], what: str) -> None:
    wrong = sorted(s.name for s in expression.free_symbols if s.name in names)
    if wrong:
        raise r.fail(line, f"{what} cannot depend on '{wrong[0]}', as '{line.name}' does")


def _events(r: _Reader) -> dict[str, Any]:
    result = {}
    for line, sign in r.events:
        if line.name not in r.states:
            raise r.fail(line, f"the event changes '{line.name}', which is no state")
        value = r.convert(line)
        _refuse(r, line, value, {"v", "t", "noise"}, "the action of an event")
        old = symbol(line.name)
        result[line.name] = {
            "": value,
            "+": old + value,
            "-": old - value,
            "*": old * value,
            "/": old / value,
        }[sign]
    return result


def _method(r: _Reader, nonlinear: tuple[str, ...]) -> tuple[str, bool]:
    line = r.settings.get("method")
    if line is None:
        if nonlinear:
            name = nonlinear[0]
            raise r.fail(
                r.rates[name],
                f"state '{name}' is not linear in itself and no method is named; "
                "expected a line 'method euler', 'method rk2' or 'method rk4'",
            )
        return "", False
    words = line.source.split()
    if words[0] not in METHODS or words[1:] not in ([], ["all"]):
        raise r.fail(
            line,
            f"unknown method '{line.source}'; expected euler, rk2 or rk4, and 'all' after it "
            "if states that are linear in themselves take it too",
        )
    return words[0], len(words) > 1


def _substeps(r: _Reader) -> int:
    line = r.settings.get("substeps")
    if line is None:
        return 1
    if not re.fullmatch(r"\d{1,9}", line.source) or not 1 <= int(line.source) <= MAX_SUBSTEPS:
        raise r.fail(line, f"substeps got '{line.source}'; expected 1 to {MAX_SUBSTEPS}")
    return int(line.source)


def linear_parts(rate: Any, name: str) -> tuple[Any, Any] | None:
    """Return ``a`` and ``b`` of ``rate = a + b * state``, or None if it is not so."""
    state = symbol(name)
    if any(state in test.free_symbols for test in rate.atoms(Less)):
        return None
    b = rate.diff(state)
    if b.has(state):
        if any(p.exp.is_number and abs(p.exp) > 4 for p in b.atoms(sp.Pow)):
            return None  # multiplied out, it may be too long
        b = sp.expand(b)
        if b.has(state):
            return None
    return rate.subs(state, 0), b


# -------------------------------------------------------------------------------- singularities


def remove_singularities(expression: Any) -> Any:
    """Write ``x / (exp(x) - 1)`` and its relatives by `Bernoulli`, which is finite at ``x = 0``.

    Found are quotients of a factor and a difference of two exponentials (one may be a constant), a
    hyperbolic tangent or sine, and the reciprocals, where both vanish at the same point and the
    factor is proportional to the exponent's distance from it.
    """
    if not expression.args or isinstance(expression, Bernoulli):
        return expression
    inner = expression.func(*(remove_singularities(a) for a in expression.args))
    return _quotients(inner) if inner.is_Mul else inner


def _quotients(product: Any) -> Any:
    """Replace pairs of factors, one above and one below, that vanish together."""
    above = [f.base if f.is_Pow and f.exp.is_Integer else f for f in product.args if _is_above(f)]
    below = [f.base for f in product.args if f.is_Pow and f.exp.is_Integer and f.exp < 0]
    for low in below:
        for high in above:
            for divided, by, power in ((high, low, 1), (low, high, -1)):
                quotient = _quotient(divided, by)
                if quotient is not None:
                    return _quotients(product / high * low * quotient**power)
    return product


def _is_above(factor: Any) -> bool:
    return not (factor.is_Pow and not factor.exp.is_positive)


def _quotient(above: Any, below: Any) -> Any:
    """Return ``above / below`` without the 0/0 that both share, or None where they share none."""
    if isinstance(below, sp.tanh | sp.sinh):
        y = below.args[0]
        ratio = _proportional(above, y)
        if ratio is None:
            return None
        if isinstance(below, sp.tanh):  # 1/tanh(y) = 1 + 2/(exp(2 y) - 1)
            return ratio * (y + _of(2 * y))
        y = sp.Abs(y)  # 1/sinh(y) = 2 exp(-y)/(1 - exp(-2 y)), which does not overflow
        return ratio * sp.exp(-y) * _of(-2 * y)
    found = _distance(below)
    ratio = _proportional(above, found[1]) if found else None
    if found is None or ratio is None:
        return None
    return ratio / found[0] * _of(found[1])


def _of(x: Any) -> Any:
    return Bernoulli(x, sp.exp(x))


def _distance(below: Any) -> tuple[Any, Any] | None:
    """Write a denominator as ``scale * (exp(x) - 1)``: (scale, x), or None if it is not so."""
    terms = below.args if below.is_Add else ()
    if len(terms) != 2:
        return None
    (c1, x1), (c2, x2) = (_coefficient_and_exponent(term) for term in terms)
    if x1 == 0:
        (c1, x1), (c2, x2) = (c2, x2), (c1, x1)
    ratio = -c1 / c2
    if x1 == x2 or not (ratio.is_number and ratio.is_positive):
        return None
    x = sp.expand(sp.expand_log(x1 - x2 + sp.log(ratio)))
    return -c2 * sp.exp(x2), sp.factor_terms(x) if x.is_Add else x


def _coefficient_and_exponent(term: Any) -> tuple[Any, Any]:
    exponent, factors = sp.S.Zero, []
    for factor in sp.Mul.make_args(term):
        if isinstance(factor, sp.exp):
            exponent += factor.args[0]
        elif factor.is_Pow and factor.base.is_Number and factor.base.is_positive:
            exponent += sp.log(factor.base) * factor.exp
        else:
            factors.append(factor)
    return sp.Mul(*factors), exponent


def _proportional(factor: Any, x: Any) -> Any:
    """Return ``factor / x`` if it has no pole in what they share, else None."""
    shared = x.free_symbols & factor.free_symbols
    if not shared:
        return None
    ratio = sp.cancel(factor / x)
    return None if sp.fraction(ratio)[1].free_symbols & shared else ratio


def singular_point(expression: Any, parameters: dict[Any, float]) -> float | None:
    """Return a voltage within 200 mV of 0 where a quotient is still 0/0, or None.

    Sought at the parameters' defaults, in quotients that depend on v only, by changes of sign of
    what stands below.
    """
    if isinstance(expression, Where) or not expression.args:
        return None
    for part in expression.args:
        point = singular_point(part, parameters)
        if point is not None:
            return point
    if not expression.is_Mul:
        return None
    given = expression.subs(parameters)
    above, below = sp.fraction(given)
    v = symbol("v")
    if below.free_symbols != {v} or above.free_symbols - {v} or given.atoms(Bernoulli, Where, Less):
        return None
    top, bottom = (sp.lambdify(v, e, "numpy") for e in (above, below))
    with np.errstate(all="ignore"):
        grid = np.arange(-200, 200.5, 0.5)
        values = bottom(grid)
        size = np.nanmedian(np.abs(top(grid) * np.ones_like(grid)))
        for k in np.flatnonzero(
            (values[:-1] <= 0) & (values[1:] > 0) | (values[:-1] >= 0) & (values[1:] < 0)
        ):
            root = _bisect(bottom, grid[k], grid[k + 1])
            if abs(top(root)) <= 1e-9 * size:
                return float(root)
    return None


def _bisect(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function changes its sign between two numbers."""
    below = function(low) < 0 or function(high) > 0
    for _ in range(60):
        middle = (low + high) / 2
        if (function(middle) < 0) == below and function(middle) != 0:
            low = middle
        else:
            high = middle
    return high
