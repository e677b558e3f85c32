"""Print assignments and expressions in readable OpenCL or NumPy.

Both languages do the same operations in the same order. A text's names are printed unchanged, with
an underscore after reserved words. Generated names begin with an underscore or have two in a row,
which a text's names must not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from clhines.core.errors import InputError
from clhines.simulator.mechanisms.emit.words import safe
from clhines.simulator.mechanisms.ir.blocks import Assignments, without_sign
from clhines.simulator.mechanisms.ir.expressions import Node

HELPERS = frozenset(("bernoulli", "bernoulli_slope", "weight", "weight_slope"))
_NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2"}


def vector(width: int) -> str:
    """Return the OpenCL type of `width` reals, which the kernel defines: ``real4`` for 4."""
    return "real" if width == 1 else f"real{width}"


class Printer:
    """Printer of one function's statements and expressions; `lines` has the statements.

    `real` is ``double``, ``float`` or ``numpy``, `width` the vector length. The function's name
    begins with `prefix`; names of the helpers that it calls begin with `helpers`, by default the
    same. `symbols` has the printed names of symbols, if these differ from the symbols.
    """

    def __init__(
        self,
        prefix: str,
        real: str,
        width: int = 1,
        symbols: Mapping[str, str] | None = None,
        helpers: str = "",
    ) -> None:
        self.prefix, self.real, self.width = prefix, real, width
        self.helpers = helpers or prefix
        self.symbols = dict(symbols or {})
        self.indent = "    "
        self.lines: list[str] = []
        self.names: dict[Node, str] = {}

    @property
    def python(self) -> bool:
        return self.real == "numpy"

    @property
    def type(self) -> str:
        return vector(self.width)

    def number(self, x: Fraction | float | int) -> str:
        """Return a number as a literal; InputError if it is beyond the precision."""
        value = float(x)
        if self.real == "float":
            with np.errstate(all="ignore"):
                rounded = float(np.float32(value))
        else:
            rounded = value
        if not np.isfinite(rounded) or (rounded == 0) != (x == 0):
            what = "single" if self.real == "float" else "double"
            name = self.prefix.split("__")[0]
            size = f"{value:g}" if value and np.isfinite(value) else "a number"
            raise InputError(f"mechanism {name}: {size} is beyond {what} precision")
        if self.real != "float":
            return repr(value)
        text = str(np.format_float_scientific(np.float32(value), unique=True, trim="0"))
        short = str(np.float32(value))
        return (short if len(short) <= len(text) else text) + "f"

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def assign(self, name: str, value: str) -> None:
        const, end = ("", "") if self.python else (f"const {self.type} ", ";")
        line = f"{self.indent}{const}{name} = {value}{end}"
        self.lines.append(line if self.python else folded(line))

    def call(self, name: str, *arguments: str) -> str:
        if self.width > 1 and name in ("exp", "sqrt"):
            return f"{self.helpers}_{name}_({', '.join(arguments)})"
        if self.width > 1:  # all have one type
            arguments = tuple(f"({self.type})({a})" for a in arguments)
        return f"{'np.' if self.python else ''}{name}({', '.join(arguments)})"

    def where(self, condition: Node, a: str, b: str) -> str:
        holds = self.holds(condition)
        if self.width > 1:
            return f"(({holds}) ? ({self.type})({a}) : ({self.type})({b}))"
        return f"np.where({holds}, {a}, {b})" if self.python else f"({holds} ? {a} : {b})"

    def holds(self, condition: Node) -> str:
        """Return a condition as source; in a vector a true component is -1."""
        conditions = condition.args if condition.op == "both" else (condition,)
        tests = [self._test(c) for c in conditions]
        if not self.python and self.width == 1:
            return " && ".join(tests)
        return " & ".join(f"({t})" for t in tests) if len(tests) > 1 else tests[0]

    @property
    def mask(self) -> str:
        return f"{'long' if self.real == 'double' else 'int'}{self.width}"

    def _test(self, condition: Node) -> str:
        if condition.op in ("less", "lessequal"):
            sign = "<=" if condition.op == "lessequal" else "<"
            left, right = (self.show(x) for x in condition.args)
        else:
            left, sign, right = self.show(condition, 1), "!=", self.number(0)
        return (
            f"({self.type})({left}) {sign} {right}" if self.width > 1 else f"{left} {sign} {right}"
        )

    def begin(self, block: Assignments) -> None:
        self.names = {node: safe(name) for node, name in block.names.items()}

    def steps(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            is_local = node.op == "local"
            value = self.show(node.args[0], 0, node) if is_local else self._inside(node, 0)
            self.assign(self.names[node], value)

    def show(self, e: Node, level: int = 0, defining: Node | None = None) -> str:
        """Return an expression as source: its local variable's name, or the expression.

        At `level` 1 a sum gets brackets, at 2 also a product. `defining` is the local variable in
        whose definition the expression stands, and whose name is not used there.
        """
        name = self.names.get(e)
        if name is not None and (defining is None or name != self.names[defining]):
            return name
        return self._inside(e, level)

    def _inside(self, e: Node, level: int) -> str:
        if e.op == "local":
            return self.show(e.args[0], level)
        if e.op == "symbol":
            return self.symbols.get(e.name) or safe(e.name)
        if e.is_number:
            text = self.number(e.value)
            return f"({text})" if text.startswith("-") and level else text
        if e.op == "add":
            return self._brackets(self._sum(e), level >= 1)
        if e.op == "mul":
            text = self._product(e)
            return self._brackets(text, level >= 2 or (level >= 1 and text.startswith("-")))
        if e.op == "pow":
            return self.power(e, level)
        return self.called(e)

    @staticmethod
    def _brackets(text: str, wanted: bool) -> str:
        return f"({text})" if wanted else text

    def _sum(self, e: Node) -> str:
        signed = [(a.is_number, *without_sign(a)) for a in e.args]
        signed.sort(key=lambda s: s[:2])
        text = ""
        for _, negative, term in signed:
            shown = self.show(term, 1)
            if not text:
                text = f"-{shown}" if negative else shown
            else:
                text += f" {'-' if negative else '+'} {shown}"
        return text

    def _product(self, e: Node) -> str:
        negative, positive = without_sign(e)
        if negative:
            return "-" + self.show(positive, 1)
        above, below = [], []
        for f in positive.args if positive.op == "mul" else (positive,):
            power = f.args[1] if f.op == "pow" and f not in self.names else None
            if power is not None and power.is_number and power.value < 0:
                below.append(f.graph.power(f.args[0], f.graph.number(-power.value)))
            else:
                above.append(f)
        text = " * ".join(self.show(a, 2) for a in above)
        return self.quotient(text, below) if below else text

    def quotient(self, above: str, below: Sequence[Node]) -> str:
        under = " * ".join(self.show(a, 2) for a in below)
        return f"{above or self.number(1)} / {self._brackets(under, len(below) > 1)}"

    def power(self, e: Node, level: int) -> str:
        """Return a power as source; `level` decides about brackets, as in `show`."""
        base, exponent = e.args
        value = exponent.value
        if value < 0:
            inverse = e.graph.power(base, e.graph.number(-value))
            return self._brackets(self.quotient("", [inverse]), level >= 2)
        if value * 2 == 1:
            return self.call("sqrt", self.show(base))
        if exponent.is_number and value.denominator == 1:
            return self._brackets(self._repeated(base, int(value)), level >= 2)
        return self.call("power" if self.python else "pow", self.show(base), self.show(exponent))

    def _repeated(self, base: Node, exponent: int) -> str:
        if exponent <= 3:
            return " * ".join([self.show(base, 2)] * exponent)
        half = base.graph.power(base, base.graph.number(exponent // 2))
        parts = [half, half, *([base] if exponent % 2 else [])]
        return " * ".join(self.show(p, 2) for p in parts)

    def called(self, e: Node) -> str:
        if e.op == "where":
            return self.where(e.args[0], self.show(e.args[1], 1), self.show(e.args[2], 1))
        if e.op in ("less", "lessequal", "both"):
            return self.where(e, self.number(1), self.number(0))
        arguments = [self.show(a) for a in e.args]
        if e.op in ("place", "lookup", "entry"):
            numbers = [str(int(a.value)) for a in e.args[1:] if a.is_number]
            shown = [self.show(a) for a in e.args[1:] if not a.is_number]
            place = f"({self.type})({arguments[0]})" if e.args[0].is_number else arguments[0]
            place = arguments[0] if self.python else place
            return f"{self.helpers}_{e.op}_({', '.join([place, *shown, *numbers])})"
        if self.python and e.op in _NUMPY:
            return self.call(_NUMPY[e.op], *arguments)
        if e.op in HELPERS or e.op.startswith(("random_", "scop_")):
            return f"{self.helpers}_{e.op}_({', '.join(arguments)})"
        return self.call("fabs" if e.op == "abs" else e.op, *arguments)


def folded(line: str, width: int = 100) -> str:
    """Break a long C statement at spaces; indent the other lines by four more columns."""
    start = len(line) - len(line.lstrip()) + 4
    lines = []
    while len(line) > width:
        at = line.rfind(" ", start, width)
        if at < 0:
            break
        lines.append(line[:at])
        line = " " * start + line[at + 1 :]
    return "\n".join([*lines, line])


def wrapped(parts: list[str], indent: int, width: int = 100) -> str:
    """Join a list of arguments by commas, on lines that begin at column `indent`."""
    lines = [parts[0]]
    for part in parts[1:]:
        if indent + len(lines[-1]) + len(part) + 3 > width:
            lines[-1] += ","
            lines.append(part)
        else:
            lines[-1] += ", " + part
    return ("\n" + " " * indent).join(lines)
