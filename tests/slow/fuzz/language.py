"""The language of mechanisms, evaluated by its description alone, in many digits.

No code of the package is used. Every value carries its rounding error, so results in double
precision need no extra tolerance.
"""

import ast
import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import mpmath as mp

DIGITS = 60
LARGE = mp.mpf(10) ** 250  # beyond double precision with a margin
NAME = r"[A-Za-z][A-Za-z0-9_]*"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
KEYWORDS = ("density", "point", "parameter", "state", "current", "method")
_MARK = "n_"  # before every name, so that Python's words may be names
# factors to the units in which values count, by the unit as written; others are taken as they are
UNITS = {
    "mS/cm2": 1e-3, "uS/cm2": 1e-6, "S/m2": 1e-4, "S/cm2": 1, "V": 1e3, "mV": 1, "uV": 1e-3,
    "s": 1e3, "ms": 1, "us": 1e-3, "uS": 1, "nS": 1e-3, "pS": 1e-6, "nA": 1, "pA": 1e-3, "uA": 1e3,
    "1/ms": 1, "/ms": 1, "1/s": 1e-3, "Hz": 1e-3, "kHz": 1, "mM": 1, "uM": 1e-3, "M": 1e3,
    "degC": 1, "": 1, "1": 1,
}  # fmt: skip


class UnclearError(Exception):
    """A value is indeterminate: undefined, beyond double precision, or at a jump."""


class UnreadError(Exception):
    """This module cannot read the text."""


@dataclass(frozen=True)
class Value:
    """A number, and its rounding error in units of epsilon."""

    v: Any
    e: Any
    limit: bool = False  # limit of a quotient that is 0/0 here

    def __post_init__(self):
        if not isinstance(self.v, mp.mpf) or not mp.isfinite(self.v) or abs(self.v) > LARGE:
            raise UnclearError("not a finite number of moderate size")
        if self.v and abs(self.v) < 1 / LARGE:
            raise UnclearError("below double precision")


def exact(v):
    v = mp.mpf(v)
    return Value(v, abs(v))


def _of(v, e):
    return Value(v, e + abs(v)) if isinstance(v, mp.mpf) else Value(v, 0)


def _pow(a, b):
    if a.v == 0 and b.v <= 0:
        raise UnclearError("a power of 0")
    if abs(b.v) > 1e6:
        raise UnclearError("a large power")
    v = mp.power(a.v, b.v)
    if a.v == 0:
        return _of(mp.mpf(v), a.e)
    return _of(v, abs(v * b.v / a.v) * a.e + abs(v * mp.log(abs(a.v))) * b.e)


def _div(a, b):
    if b.v == 0 or abs(b.v) < 1e-40 * b.e:
        raise UnclearError("division by 0")
    v = a.v / b.v
    return _of(v, a.e / abs(b.v) + abs(v / b.v) * b.e)


_BINARY = {
    ast.Add: lambda a, b: _of(a.v + b.v, a.e + b.e),
    ast.Sub: lambda a, b: _of(a.v - b.v, a.e + b.e),
    ast.Mult: lambda a, b: _of(a.v * b.v, abs(a.v) * b.e + abs(b.v) * a.e),
    ast.Div: _div,
    ast.Pow: _pow,
}
_SMOOTH = {
    "exp": (mp.exp, mp.exp),
    "log": (mp.log, lambda x: 1 / x),
    "sqrt": (mp.sqrt, lambda x: 1 / (2 * mp.sqrt(x)) if x else mp.mpf(0)),
    "sin": (mp.sin, mp.cos),
    "cos": (mp.cos, mp.sin),
    "tan": (mp.tan, lambda x: 1 + mp.tan(x) ** 2),
    "sinh": (mp.sinh, mp.cosh),
    "cosh": (mp.cosh, mp.sinh),
    "tanh": (mp.tanh, lambda x: 1 - mp.tanh(x) ** 2),
    "abs": (abs, lambda x: mp.mpf(1)),
}
ARGUMENTS = dict.fromkeys(_SMOOTH, 1) | {"min": 2, "max": 2, "where": 3}


def _less(a, b):
    if a.v != b.v and abs(a.v - b.v) < 1e-9 * (a.e + b.e):
        raise UnclearError("at a jump")
    return bool(a.v < b.v)


def _smooth(name, a):
    function, slope = _SMOOTH[name]
    if name in ("exp", "sinh", "cosh") and abs(a.v) > 600:
        raise UnclearError("a large exponent")
    if (name == "log" and a.v <= 0) or (name == "sqrt" and a.v < 0):
        raise UnclearError("no real value")
    if name in ("sin", "cos", "tan") and abs(a.v) > 1e6:
        raise UnclearError("an angle of many turns")
    return _of(mp.mpf(function(a.v)), abs(slope(a.v)) * a.e)


# ------------------------------------------------------------------------------------ statements


@dataclass
class Text:
    """A text's statements by kind; expressions as Python's trees with marked names."""

    kind: str = ""
    name: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    states: dict[str, ast.expr] = field(default_factory=dict)
    rates: dict[str, ast.expr] = field(default_factory=dict)
    currents: dict[str, ast.expr] = field(default_factory=dict)
    named: dict[str, ast.expr] = field(default_factory=dict)
    events: dict[str, tuple[str, ast.expr]] = field(default_factory=dict)
    resets: dict[str, tuple[str, ast.expr]] = field(default_factory=dict)  # resets, of `v`, too
    threshold: ast.expr | None = None
    units: dict[str, str] = field(default_factory=dict)
    method: str = ""

    def needs(self, tree):
        """Return the names in an expression, also through named expressions."""
        names = set()
        waiting = [tree]
        while waiting:
            for node in ast.walk(waiting.pop()):
                if isinstance(node, ast.Name):
                    name = node.id.removeprefix(_MARK)
                    if name not in names:
                        names.add(name)
                        inner = self.named.get(name, self.currents.get(name))
                        waiting += [inner] if inner is not None else []
        return names

    def names(self):
        every = [*self.states.values(), *self.rates.values(), *self.currents.values()]
        every += [tree for _, tree in (*self.events.values(), *self.resets.values())]
        return set().union(*map(self.needs, every))

    def circles(self):
        """Return states whose rates depend on each other in a circle of two or more."""
        above = {s: self.needs(rate) & set(self.rates) - {s} for s, rate in self.rates.items()}
        for _ in above:
            above = {s: set(up).union(*(above[t] for t in up)) for s, up in above.items()}
        return {s for s, up in above.items() if s in up}


def read(text):
    """Sort the statements of a text."""
    result = Text()
    for line in statements(text):
        if not result.kind:
            head = re.fullmatch(rf"(density|point)\s+({NAME})", line)
            if not head:
                raise UnreadError(line)
            result.kind, result.name = head.groups()
        else:
            _take(result, line)
    return result


def statements(text):
    lines = []
    depth = 0
    for raw in text.split("\n"):
        part = raw.partition("#")[0].strip()
        if not part:
            continue
        if depth > 0:
            lines[-1] += " " + part
        else:
            lines.append(part)
        depth = lines[-1].count("(") - lines[-1].count(")")
    return lines


def _take(found, line):
    match = re.fullmatch(rf"parameter\s+({NAME})\s*=\s*({_NUMBER})(?:\s+(\S.*)|\s*\[(.*)\])?", line)
    if match:
        name, number, *units = match.groups()
        found.units[name] = (units[0] or units[1] or "").strip()
        found.parameters[name] = mp.mpf(number)
        return
    match = re.fullmatch(r"(on\s+event|reset)\s*:(.*)", line, re.S)
    if match:
        table = found.resets if match.group(1) == "reset" else found.events
        for action in match.group(2).split(";"):
            part = re.fullmatch(rf"\s*({NAME})\s*([-+*/]?)=(?!=)(.*)", action, re.S)
            if not part:
                raise UnreadError(action)
            source = scaled(part.group(3)) if part.group(1) == "v" else part.group(3)
            table[part.group(1)] = part.group(2), tree_of(source)
        return
    match = re.fullmatch(r"spike\s*:\s*v\s*>(?!=)(.*)", line, re.S)
    if match:
        found.threshold = tree_of(scaled(match.group(1)))
        return
    if re.fullmatch(r"refractory\s*:.*", line, re.S):  # changes the behaviour after a spike
        return
    match = re.fullmatch(r"method\s+(.*)", line)
    if match:
        found.method = match.group(1).strip()
        return
    patterns = {
        rf"state\s+({NAME})\s*=(?!=)(.*)": found.states,
        rf"d({NAME})\s*/\s*dt\s*=(?!=)(.*)": found.rates,
        rf"current\s+({NAME})\s*=(?!=)(.*)": found.currents,
        rf"({NAME})\s*=(?!=)(.*)": found.named,
    }
    for pattern, place in patterns.items():
        match = re.fullmatch(pattern, line, re.S)
        if match:
            name, source = match.groups()
            unit = re.fullmatch(r"(.*\S)\s*\[(.*)\]", source, re.S)
            place[name] = tree_of(unit.group(1) if unit else source)
            found.units.setdefault(name, unit.group(2).strip() if unit else "")
            return
    raise UnreadError(line)


def scaled(source):
    """Return a number with a unit as an expression in the base unit."""
    match = re.fullmatch(rf"\s*({_NUMBER})\s+(\S.*?)\s*", source)
    if not match:
        return source
    if match.group(2) not in UNITS:
        raise UnreadError(source)
    return f"{match.group(1)}*{UNITS[match.group(2)]}"


def tree_of(source):
    """Return Python's tree of an expression, every name marked."""
    if re.search(r"[^A-Za-z0-9_\s.+\-*/^()<>=!,]", source):
        raise UnreadError(source)

    def marked(match):
        word = match.group()
        return word if word in ("and", "or", "not") else _MARK + word

    source = re.sub(rf"(?<![A-Za-z0-9_.]){NAME}", marked, source)
    try:
        return ast.parse(f"({source.replace('^', '**')})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnreadError(str(error)) from error


# ------------------------------------------------------------------------------------ evaluation


@dataclass
class Scope:
    """Values of names, and the text whose named expressions they meet."""

    text: Text
    values: Mapping[str, Any]
    known: dict[str, Value] = field(default_factory=dict)

    def name(self, name):
        if name in self.values:
            return exact(self.values[name])
        if name == "pi":
            return exact(+mp.pi)
        if name not in self.known:
            tree = self.text.named.get(name, self.text.currents.get(name))
            if tree is None:
                raise UnreadError(name)
            self.known[name] = self.value(tree)
        return self.known[name]

    def value(self, tree):
        if isinstance(tree, ast.Constant):
            if isinstance(tree.value, bool) or not isinstance(tree.value, int | float):
                raise UnreadError(repr(tree.value))
            return exact(repr(tree.value))
        if isinstance(tree, ast.Name):
            return self.name(tree.id.removeprefix(_MARK))
        if isinstance(tree, ast.UnaryOp):
            inner = self.value(tree.operand)
            if isinstance(tree.op, ast.Not):
                return exact(inner.v == 0)
            return Value(-inner.v, inner.e) if isinstance(tree.op, ast.USub) else inner
        if isinstance(tree, ast.BinOp) and type(tree.op) in _BINARY:
            return _BINARY[type(tree.op)](self.value(tree.left), self.value(tree.right))
        if isinstance(tree, ast.Compare):
            return self._compare(tree)
        if isinstance(tree, ast.BoolOp):
            return self._logic(tree)
        if isinstance(tree, ast.Call):
            return self._call(tree)
        raise UnreadError(type(tree).__name__)

    def _compare(self, tree):
        values = [self.value(t) for t in (tree.left, *tree.comparators)]
        result = True
        for op, a, b in zip(tree.ops, values[:-1], values[1:], strict=True):
            tests = {
                ast.Lt: lambda a=a, b=b: _less(a, b),
                ast.Gt: lambda a=a, b=b: _less(b, a),
                ast.LtE: lambda a=a, b=b: not _less(b, a),
                ast.GtE: lambda a=a, b=b: not _less(a, b),
            }
            if type(op) not in tests:
                raise UnreadError(type(op).__name__)
            result = result and tests[type(op)]()
        return exact(int(result))

    def _logic(self, tree):
        values = [self.value(t) for t in tree.values]
        if any(x.v not in (0, 1) for x in values):
            raise UnclearError("the description says nothing of such conditions")
        every = isinstance(tree.op, ast.And)
        return exact(int(all(x.v for x in values) if every else any(x.v for x in values)))

    def _call(self, tree):
        name = tree.func.id.removeprefix(_MARK) if isinstance(tree.func, ast.Name) else ""
        if ARGUMENTS.get(name) != len(tree.args) or tree.keywords:
            raise UnreadError(name)
        if name == "where":
            return self.value(tree.args[1] if self.value(tree.args[0]).v != 0 else tree.args[2])
        values = [self.value(t) for t in tree.args]
        if name in ("min", "max"):
            first = values[0].v < values[1].v
            return values[0] if first == (name == "min") else values[1]
        return _smooth(name, values[0])


def evaluate(text, tree, values):
    """Return the value of an expression of a text, in `DIGITS` digits.

    At a removable singularity, return the value very close to it.
    """
    with mp.workdps(DIGITS):
        try:
            return Scope(text, values).value(tree)
        except (ZeroDivisionError, UnclearError):
            if "v" not in values:
                raise UnclearError("undefined") from None
        # 0/0 at this very voltage has the limit from both sides
        sides = mp.mpf(10) ** -25, -(mp.mpf(10) ** -25), mp.mpf(10) ** -21
        beside = [mp.mpf(values["v"]) + side for side in sides]
        try:
            low, *others = (Scope(text, {**values, "v": v}).value(tree) for v in beside)
        except ZeroDivisionError as error:
            raise UnclearError("undefined") from error
        if any(abs(low.v - x.v) > mp.mpf(10) ** -15 * (1 + abs(low.v)) for x in others):
            raise UnclearError("a jump or a pole")
        smooth = text.name == "smooth"  # its forms are documented to be finite there
        return Value(low.v, 1 + abs(low.v) * 10, limit=not smooth)


def must_refuse(text):
    """Return why the rules of methods refuse a text, or nothing if they accept it."""
    method = text.method.split()
    if text.circles() and not method:
        return "states coupled in a circle without a method"
    if method and not text.rates:
        return "a method that no state takes"
    return ""


def near_keyword(name):
    """Return whether a name is a keyword with a letter wrong, missing or extra, or two swapped."""
    if keyword.iskeyword(name) or name in KEYWORDS:
        return False
    return any(_one_off(name, word) for word in KEYWORDS if len(word) > 5)


def _one_off(a, b):
    if abs(len(a) - len(b)) > 1 or a == b:
        return False
    k = next((k for k, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    if len(a) == len(b):
        exchanged = a[k : k + 2] == b[k : k + 2][::-1] and a[k + 2 :] == b[k + 2 :]
        return exchanged or a[k + 1 :] == b[k + 1 :]
    short, long = sorted((a, b), key=len)
    return short[k:] == long[k + 1 :]
