"""Readable OpenCL, and NumPy twins of it, from the expressions of `equations`.

Both are printed from the same list of assignments, so that they do the same operations in the same
order.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from keyword import kwlist
from typing import Any

import numpy as np
import sympy as sp

from clhines.equations import (
    Bernoulli,
    BernoulliSlope,
    Equations,
    Less,
    LessEqual,
    Where,
    is_condition,
    linear_parts,
    symbol,
)
from clhines.vectors import exponentials

MAX_SHARED_POWER = 8  # of one exponential that stands for others: 8 times its rounding error
MAX_SHIFT = 40  # largest constant exponent that is split off: e**40 is far from float32's end
# words of OpenCL C that may be names in a text; functions may not, for locals would hide them
_WORDS = set(
    """auto bool break case char const constant continue default do double else enum extern float
    for global goto half if image1d_t image2d_t image3d_t inline int kernel local long main private
    real register restrict return sampler_t short signed size_t sizeof static struct switch typedef
    uchar uint ulong union unsigned ushort void volatile while event_t true false NULL
    complex imaginary pipe generic NAN INFINITY HUGE_VAL HUGE_VALF MAXFLOAT CHAR_BIT
    fabs exp log pow sqrt sin cos tan sinh cosh tanh sign np substep part range""".split()
) | set(kwlist)


_MACRO = re.compile("(M|FLT|DBL|HALF|U?INT|U?LONG|[US]?CHAR|U?SHRT|FP|CLK|CL|cl)_")


class Weight(sp.Function):
    """``(exp(b * dt) - 1) / b`` of ``b`` and ``dt``: ``dt`` at ``b = 0``."""

    nargs = 2


def safe(name: str) -> str:
    """Return a name as it stands in generated source: with an underscore if it is a word of it."""
    numbered = name[0] in "xec" and name[1:].isdigit()  # names of generated locals
    vector = name.rstrip("0123456789") in _WORDS  # float4 and the like
    return name + "_" if vector or numbered or _MACRO.match(name) else name


def local(name: str) -> sp.Symbol:
    """Return the symbol of a generated local; its last space keeps it apart from a text's names."""
    return sp.Symbol(name + " ", real=True)


# ---------------------------------------------------------------------------------- expressions


@dataclass(frozen=True)
class Block:
    """Assignments in an order that works, and the results in terms of them."""

    assignments: tuple[tuple[str, Any], ...]
    results: tuple[Any, ...]


def block(results: list[Any], named: dict[str, Any]) -> Block:
    """Share what the results have in common; names of the text are kept where they fit."""
    shared = _share_exponentials([*results, *named.values()])
    shared.expressions = [_constant_powers(e) for e in shared.expressions]
    prelude = list(shared.prelude.items())
    everything = [*shared.expressions, *(value for _, value in prelude)]
    found, reduced = sp.cse(everything, symbols=(local(f"x{k}") for k in itertools.count()))
    found, reduced = _without_signs(found, reduced)
    count, names = len(results), list(named)
    assigned = dict(found)
    assigned |= {s: value for (s, _), value in zip(prelude, reduced[count + len(names) :])}
    renamed = {
        value: local(safe(name))
        for name, value in zip(names, reduced[count : count + len(names)], strict=True)
        if value in assigned
    }
    outputs = reduced[:count]
    used = _needed(assigned, outputs)
    spare = [s for s, _ in found if s in used and s not in renamed]
    outputs = _used_once(assigned, used, outputs, spare)
    order = _ordered(assigned, used)
    plain = [s for s, _ in found if s in used and s not in renamed]
    plain.sort(key=order.index)
    renamed |= {s: local(f"x{k}") for k, s in enumerate(plain)}
    return Block(
        tuple((renamed.get(s, s).name.strip(), assigned[s].xreplace(renamed)) for s in order),
        tuple(value.xreplace(renamed) for value in outputs),
    )


def _without_signs(found: list[Any], reduced: list[Any]) -> tuple[list[Any], list[Any]]:
    """Put negatives of a symbol and comparisons back where they are used: they save nothing."""
    gone: dict[Any, Any] = {}
    kept = []
    for s, value in found:
        value = value.xreplace(gone)
        if (value.is_Mul and (-value).is_Symbol) or is_condition(value):
            gone[s] = value
        else:
            kept.append((s, value))
    return kept, [value.xreplace(gone) for value in reduced]


def _used_once(
    assigned: dict[Any, Any], used: set[Any], outputs: list[Any], spare: list[Any]
) -> list[Any]:
    """Put what is needed in one place only back there; sums stay apart, for SymPy expands them."""
    for s in spare:
        value = assigned[s]
        places = [assigned[other] for other in used] + outputs
        if value.is_Add or sum(place.count(s) for place in places) != 1:
            continue
        used.discard(s)
        for other in used:
            assigned[other] = assigned[other].xreplace({s: value})
        outputs = [output.xreplace({s: value}) for output in outputs]
    return outputs


def _needed(assigned: dict[Any, Any], outputs: list[Any]) -> set[Any]:
    used: set[Any] = set()
    waiting = [s for value in outputs for s in value.free_symbols]
    while waiting:
        s = waiting.pop()
        if s in assigned and s not in used:
            used.add(s)
            waiting.extend(assigned[s].free_symbols)
    return used


def _ordered(assigned: dict[Any, Any], used: set[Any]) -> list[Any]:
    """Put what is used first before its use; otherwise in the order given."""
    order: list[Any] = []

    def visit(s: Any) -> None:
        if s in used and s not in order:
            for other in assigned:
                if other in assigned[s].free_symbols:
                    visit(other)
            order.append(s)

    for s in assigned:
        visit(s)
    return order


def _constant_powers(e: Any) -> Any:
    """Write ``3**x`` as ``exp(log(3) * x)``: a power function takes several times as long.

    SymPy splits such a power in a product, ``3**(x + 1/2)``; its parts are put together again.
    """
    exponents: dict[Any, Any] = {}
    rest = []
    for factor in sp.Mul.make_args(e):
        if factor.is_Pow and factor.base.is_Number and factor.base.is_positive:
            exponents[factor.base] = exponents.get(factor.base, 0) + factor.exp
        else:
            rest.append(factor)
    inner = [f.func(*(_constant_powers(a) for a in f.args)) if f.args else f for f in rest]
    for base, exponent in exponents.items():
        if exponent.is_number:
            inner.append(base**exponent)
        else:
            factor = sp.Rational(str(sp.log(base).evalf(25)))  # a Float would be split off again
            inner.append(sp.exp(sp.expand(factor * _constant_powers(exponent))))
    return sp.Mul(*inner)


@dataclass
class _Shared:
    expressions: list[Any]
    prelude: dict[Any, Any]


def _share_exponentials(expressions: list[Any]) -> _Shared:
    """Make exponentials of multiples of one thing powers of one, where few multiplications do.

    ``exp(b + a*s)`` with numbers a and b is ``exp(b) * e**k`` with ``e = exp(g*s)``, ``k = a/g`` a
    whole number. Rounding errors grow k-fold, hence `MAX_SHARED_POWER`.
    """
    found: dict[Any, list[tuple[Any, Any, Any]]] = {}
    atoms = set().union(*(e.atoms(sp.exp) for e in expressions))
    for atom in sorted(atoms, key=sp.default_sort_key):
        parts = _parts_of_exponent(atom.args[0])
        if parts is not None:
            shift, factor, s = parts
            found.setdefault(s, []).append((atom, shift, factor))
    replaced: dict[Any, Any] = {}
    prelude: dict[Any, Any] = {}
    for s, members in found.items():
        rest = sorted(members, key=lambda m: (abs(m[2]), sp.default_sort_key(m[0])))
        while rest:
            unit = abs(rest[0][2])
            powers = [(m, m[2] / unit) for m in rest]
            cluster = [(m, k) for m, k in powers if k.is_Integer and abs(k) <= MAX_SHARED_POWER]
            rest = [m for m, k in powers if not (k.is_Integer and abs(k) <= MAX_SHARED_POWER)]
            if len(cluster) > 1:
                _share(cluster, unit * (sp.factor_terms(s) if s.is_Add else s), replaced, prelude)
    return _Shared([e.xreplace(replaced) for e in expressions], prelude)


def _parts_of_exponent(exponent: Any) -> tuple[Any, Any, Any] | None:
    """Split ``b + a*s`` into (b, a, s), a rational, or None where it is not of that form."""
    exponent = sp.expand(exponent)
    if exponent.has(sp.exp) or not exponent.free_symbols:
        return None
    shift, rest = exponent.as_independent(*exponent.free_symbols, as_Add=True)
    content, s = rest.as_content_primitive() if rest.is_Add else rest.as_coeff_Mul()
    if s.could_extract_minus_sign():
        content, s = -content, -s
    if not content.is_Rational or abs(float(shift)) > MAX_SHIFT:
        return None
    return shift, content, s


def _share(
    cluster: list[Any], base: Any, replaced: dict[Any, Any], prelude: dict[Any, Any]
) -> None:
    negative = sum(bool(k < 0) for _, k in cluster) * 2 > len(cluster)
    first = local(f"e{len(prelude)}")
    prelude[first] = sp.exp(-base if negative else base)
    known = {1: first}

    def power(k: int) -> Any:
        if k not in known:
            if k < 0:
                value = 1 / power(-k) if k == -1 else power(-1) ** -k
            else:
                value = power(k // 2) ** 2 * (first if k % 2 else 1)
            known[k] = local(f"e{len(prelude)}")
            prelude[known[k]] = value
        return known[k]

    for (atom, shift, _), k in cluster:
        factor = sp.exp(shift).evalf(25) if shift != 0 else sp.S.One
        replaced[atom] = factor * power(int(-k if negative else k))


# -------------------------------------------------------------------------------------- printing


class Printer:
    """One function's source in one language: statements pile up in `lines`."""

    def __init__(self, prefix: str, real: str, indent: str = "    ", width: int = 1) -> None:
        self.prefix, self.real, self.indent, self.width = prefix, real, indent, width
        self.lines: list[str] = []
        self.spare = 0

    # ------------------------------------------------------------------------- of a language

    @property
    def python(self) -> bool:
        """Whether the language is Python."""
        return self.real == "numpy"

    @property
    def type(self) -> str:
        """Type of a local."""
        return vector(self.width)

    def number(self, x: Any) -> str:
        """Return a literal in the precision of the source."""
        if self.python:
            return repr(float(x))
        if self.real == "double":
            return repr(float(x))
        text = str(np.format_float_scientific(np.float32(float(x)), unique=True, trim="0"))
        short = str(np.float32(float(x)))
        return (short if len(short) <= len(text) else text) + "f"

    def assign(self, name: str, value: str) -> None:
        """Add the definition of a local."""
        const, end = ("", "") if self.python else (f"const {self.type} ", ";")
        line = f"{self.indent}{const}{name} = {value}{end}"
        self.lines.append(line if self.python else folded(line))

    def call(self, name: str, *arguments: str) -> str:
        """Return a call of a mathematical function."""
        if self.width > 1 and name == "exp":
            return f"{self.prefix}_exp_({', '.join(arguments)})"
        if self.width > 1 and len(arguments) > 1:  # all of one type
            arguments = tuple(f"({self.type})({a})" for a in arguments)
        return f"{'np.' if self.python else ''}{name}({', '.join(arguments)})"

    def where(self, condition: Any, a: str, b: str) -> str:
        """Return a choice."""
        tests = [self._test(c) for c in reversed(sp.Mul.make_args(condition))]
        if self.width > 1:  # true is -1 in each component
            test = " & ".join(f"({t})" for t in tests) if len(tests) > 1 else tests[0]
            return f"({test} ? ({self.type})({a}) : ({self.type})({b}))"
        if not self.python:
            return f"({' && '.join(tests)} ? {a} : {b})"
        test = " & ".join(f"({t})" for t in tests) if len(tests) > 1 else tests[0]
        return f"np.where({test}, {a}, {b})"

    def _test(self, condition: Any) -> str:
        if isinstance(condition, Less):
            sign = "<=" if isinstance(condition, LessEqual) else "<"
            left, right = (self.show(x) for x in condition.args)
        else:
            left, sign, right = self.show(condition, 1), "!=", self.number(0)
        return (
            f"({self.type})({left}) {sign} {right}" if self.width > 1 else f"{left} {sign} {right}"
        )

    # -------------------------------------------------------------------------- expressions

    def block(self, code: Block) -> list[str]:
        """Add the assignments and return the results."""
        for name, value in code.assignments:
            self.assign(name, self.show(value))
        return [self.show(value) for value in code.results]

    def show(self, e: Any, level: int = 0) -> str:
        """Return an expression; `level` 1 wants no sum without brackets, 2 no product, either."""
        if e.is_Symbol:
            return e.name.strip() if e.name.endswith(" ") else safe(e.name)
        if e.is_number:
            text = self.number(e.evalf(25) if not e.is_Rational else e)
            return f"({text})" if text.startswith("-") and level else text
        if e.is_Add:
            return self._brackets(self._sum(e), level >= 1)
        if e.is_Mul:
            text = self._product(e)
            return self._brackets(text, level >= 2 or (level >= 1 and text.startswith("-")))
        if e.is_Pow:
            return self._power(e, level)
        return self._function(e)

    @staticmethod
    def _brackets(text: str, wanted: bool) -> str:
        return f"({text})" if wanted else text

    def _sum(self, e: Any) -> str:
        terms = sorted(e.as_ordered_terms(), key=lambda a: (bool(a.is_number), _is_negative(a)))
        text = self.show(terms[0]) if not terms[0].is_Add else self.show(terms[0], 1)
        for term in terms[1:]:
            if _is_negative(term):
                text += " - " + self.show(-term, 1)
            else:
                text += " + " + self.show(term, 1)
        return text

    def _product(self, e: Any) -> str:
        coefficient, above, below = sp.S.One, [], []
        for factor in e.as_ordered_factors():
            if factor.is_number:
                coefficient *= factor
            elif factor.is_Pow and factor.exp.is_Rational and factor.exp < 0:
                below.append(1 / factor)
            else:
                above.append(factor)
        negative = coefficient.is_negative
        coefficient = abs(coefficient)
        parts = [self.show(a, 2) for a in above]
        if coefficient != 1 or not parts:
            parts.insert(0, self.number(coefficient))
        text = ("-" if negative else "") + " * ".join(parts)
        if below:
            under = " * ".join(self.show(a, 2) for a in below)
            text += f" / ({under})" if len(below) > 1 else f" / {under}"
        return text

    def _power(self, e: Any, level: int) -> str:
        base, exponent = e.base, e.exp
        if exponent.is_Rational and exponent < 0:
            text = f"{self.number(1)} / {self.show(1 / e, 2)}"
            return self._brackets(text, level >= 2)
        if exponent.is_Integer:
            return self._brackets(self._repeated(base, int(exponent)), level >= 2)
        if exponent == sp.Rational(1, 2):
            return self.call("sqrt", self.show(base))
        name = "power" if self.python else "pow"
        return self.call(name, self.show(base), self.show(exponent))

    def _repeated(self, base: Any, exponent: int) -> str:
        name = self.show(base, 2) if base.is_Symbol else self._local(self.show(base))
        while exponent % 2 == 0 and exponent > 4:
            name, exponent = self._local(f"{name} * {name}"), exponent // 2
        if exponent <= 3:
            return " * ".join([name] * exponent)
        if exponent == 4:
            name = self._local(f"{name} * {name}")
            return f"{name} * {name}"
        half = self._local(self._repeated(local(name), exponent // 2))
        return f"{half} * {half} * {name}"

    def _local(self, value: str) -> str:
        self.spare += 1
        name = f"p{self.spare}_"
        self.assign(name, value)
        return name

    def _function(self, e: Any) -> str:
        if isinstance(e, Where):
            return self.where(e.args[0], self.show(e.args[1], 1), self.show(e.args[2], 1))
        if isinstance(e, Less):
            return self.where(e, self.number(1), self.number(0))
        helpers = {Bernoulli: "bernoulli", BernoulliSlope: "bernoulli_slope", Weight: "weight"}
        arguments = [self.show(a) for a in e.args]
        if type(e) in helpers:
            return f"{self.prefix}_{helpers[type(e)]}_({', '.join(arguments)})"
        names = {"Abs": "fabs"}
        return self.call(names.get(type(e).__name__, type(e).__name__), *arguments)


def _is_negative(term: Any) -> bool:
    return bool(term.as_coeff_Mul()[0].is_negative)


# --------------------------------------------------------------------------------------- helpers


def _eps(real: str) -> float:
    return float(np.finfo(np.float32 if real == "float" else np.float64).eps)


def bernoulli_coefficients(real: str) -> list[Any]:
    """Coefficients of ``x**2k`` in ``x / (exp(x) - 1)``, so many that the rest is no rounding.

    They fall by ``4 pi**2`` each and are used up to ``x = 1``.
    """
    result = []
    for k in range(1, 40):
        value = sp.bernoulli(2 * k) / sp.factorial(2 * k)
        result.append(value)
        if abs(value) < _eps(real) / 64:
            break
    return result


def _expm1_coefficients(real: str, most: float = 0.5) -> list[Any]:
    """Coefficients of ``z**k`` in ``(exp(z) - 1) / z``, enough up to ``z = most``."""
    eps = _eps(real)
    result = [sp.S.One]
    while result[-1] * most ** (len(result) - 1) > eps / 16:
        result.append(result[-1] / (len(result) + 1))
    return result


def _horner(p: Printer, coefficients: list[Any], x: str) -> list[str]:
    """Return statements that leave a polynomial in the local ``sum``."""
    numbers = [p.number(c) for c in reversed(coefficients)]
    first = f"sum = {numbers[0]}" if p.python else f"{p.type} sum = {numbers[0]}"
    return [first, *(f"sum = sum * {x} + {c}" for c in numbers[1:])]


def _helper_bodies(p: Printer) -> dict[str, tuple[list[str], list[str], str]]:
    """Arguments, statements and result of each helper, in the printer's language.

    What follows `_branching_bodies` is for whole arrays and vectors, which compute both sides.
    """
    one, half, tiny = p.number(1), p.number(0.5), p.number(_eps(p.real) / 4) if not p.python else ""
    c = bernoulli_coefficients("double" if p.python else p.real)
    slope = [2 * (k + 1) * value for k, value in enumerate(c)]
    series = _expm1_coefficients("double" if p.python else p.real)
    if not p.python and p.width == 1:
        return _branching_bodies(p, c, slope, series)
    const = "" if p.python else f"const {p.type} "
    weight = [f"{const}z = b * dt", *_horner(p, series, "z")]
    weight_value = "dt * sum", f"({p.call('exp', 'z')} - {one}) / b"
    if p.width > 1:
        weight = weight[:1]
        weight_value = f"({p.type})(dt)", f"{p.prefix}_expm1_(z) / b"

    def choose(argument: str, limit: str, a: str, b: str) -> str:
        if p.width > 1:  # fabs may be a call
            return f"({argument} < {limit} & {argument} > -{limit}) ? {a} : {b}"
        test = f"{p.call('fabs', argument)} < {limit}"
        return f"np.where({test}, {a}, {b})"

    far, far_slope = f"x / (e - {one})", f"({one} - x - x / (e - {one})) / (e - {one})"
    return {
        "bernoulli": (
            ["x", "e"],
            [f"{const}y = x * x", *_horner(p, c, "y")],
            choose("x", one, f"sum * y - {half} * x + {one}", far),
        ),
        "bernoulli_slope": (
            ["x", "e"],
            [f"{const}y = x * x", *_horner(p, slope, "y")],
            choose("x", one, f"sum * x - {half}", far_slope),
        ),
        "weight": (
            ["b", "dt"],
            weight,
            choose("z", tiny if p.width > 1 else half, *weight_value),
        ),
    }


def _branching_bodies(
    p: Printer, c: list[Any], slope: list[Any], series: list[Any]
) -> dict[str, tuple[list[str], list[str], str]]:
    """`_helper_bodies` of scalars: a work-item computes what it needs alone."""
    one, half = p.number(1), p.number(0.5)
    few = _expm1_coefficients(p.real, _SMALL)
    many = [f"sum = sum * z + {p.number(k)};" for k in reversed(series[len(few) : -1])]
    far = "x / (e - {0})", "({0} - x - x / (e - {0})) / (e - {0})"
    y = f"const {p.type} y = x * x"

    def leave(argument: str, limit: str, value: str) -> str:
        return f"if (fabs({argument}) >= {limit}) return {value}"

    return {
        "bernoulli": (
            ["x", "e"],
            [leave("x", one, far[0].format(one)), y, *_horner(p, c, "y")],
            f"sum * y - {half} * x + {one}",
        ),
        "bernoulli_slope": (
            ["x", "e"],
            [leave("x", one, far[1].format(one)), y, *_horner(p, slope, "y")],
            f"sum * x - {half}",
        ),
        "weight": (
            ["b", "dt"],
            [
                f"const {p.type} z = b * dt",
                leave("z", half, f"(exp(z) - {one}) / b"),
                f"{p.type} sum = {p.number(0)}",
                f"if (fabs(z) >= {p.number(_SMALL)}) {{   // else these terms are nothing\n"
                f"        sum = {p.number(series[-1])};\n        "
                + "\n        ".join(many)
                + "\n    }",
                *(f"sum = sum * z + {p.number(k)}" for k in reversed(few)),
            ],
            "dt * sum",
        ),
    }


_SMALL = 0.03125  # rate times step, below which a short series will do
_COMMENTS = {
    "bernoulli": "x / (exp(x) - 1), e = exp(x); its series near x = 0",
    "bernoulli_slope": "derivative of x / (exp(x) - 1), e = exp(x)",
    "weight": "(exp(b*dt) - 1) / b, the integral of exp(b*s) over a step",
}


def helpers(text: str, prefix: str, real: str, width: int = 1) -> str:
    """Return the helper functions that `text` calls."""
    p = Printer(prefix, real, width=width)
    result = ""
    for name, (arguments, lines, value) in _helper_bodies(p).items():
        if f"{prefix}_{name}_(" not in text:
            continue
        if p.python:
            result += f"def {prefix}_{name}_({', '.join(arguments)}):\n"
            result += "".join(f"    {line}\n" for line in lines) + f"    return {value}\n\n\n"
        else:
            declared = ", ".join(f"const {p.type} {a}" for a in arguments)
            result += f"// {_COMMENTS[name]}\nstatic {p.type} {prefix}_{name}_({declared})\n{{\n"
            result += "".join(f"    {line}{'' if line.endswith('}') else ';'}\n" for line in lines)
            result += folded(f"    return {value};") + "\n}\n\n"
    return result if width == 1 else _exponentials(result + text, p) + result


def _exponentials(text: str, p: Printer) -> str:
    texts = exponentials(p.real, p.width, p.prefix)
    called = [name for name in ("exp", "expm1") if f"{p.prefix}_{name}_(" in text]
    return "".join(texts[name] for name in (["reduced", *called] if called else []))


def vector(width: int) -> str:
    """Type of `width` numbers in generated source, which its kernel defines."""
    return "real" if width == 1 else f"real{width}"


# ------------------------------------------------------------------------------------- functions


@dataclass(frozen=True)
class _Function:
    """One function: what it takes, and which states it changes in place."""

    suffix: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    changes: tuple[str, ...] = ()
    comment: str = ""


class Source:
    """The functions of one mechanism in one language: ``double``, ``float`` or ``numpy``.

    Parameters
    ----------
    equations : Equations
    real : str
    width : int
        Instances that the functions take at a time, in vectors.
    single : sequence of str, optional
        Parameters that are one number for all instances. Where it is given, expensive expressions
        of these alone are worked out by a function ``NAME_constants``, for all steps.
    """

    def __init__(
        self, equations: Equations, real: str, width: int = 1, single: Sequence[str] | None = None
    ) -> None:
        self.eq, self.real, self.width = equations, real, width
        self.prefix = equations.name if width == 1 else f"{equations.name}_v{width}"
        self.parameters = tuple(safe(q.name) for q in equations.parameters)
        self.states = tuple(safe(q.name) for q in equations.states)
        self.lifts = single is not None
        self.single = {q.name for q in equations.parameters if q.name in (single or ())}
        self.constants: dict[Any, Any] = {}  # expression -> symbol of what was worked out before

    def parts(self) -> tuple[str, tuple[str, ...]]:
        """Return functions for instances in groups, helpers first, and names of the constants.

        One at a time: constants and event; `width` at a time: current and advance.
        """
        functions = [self._current, *([self._advance] if self.states else [])]
        for function in functions:
            function()  # finds the constants, which all functions take
        plain = Source(self.eq, self.real)
        one = [self._constants(plain)] if self.constants else []
        one += [plain._event()] if self.eq.events else []
        vectors = [function() for function in functions]
        names = self._worked_out()
        if self.width == 1:
            body = "\n".join(one + vectors)
            return helpers(body, self.prefix, self.real) + body, names
        texts = []
        for body, prefix, width in (
            ("\n".join(one), plain.prefix, 1),
            ("\n".join(vectors), self.prefix, self.width),
        ):
            texts += [helpers(body, prefix, self.real, width) + body] if body else []
        return "\n".join(texts), names

    def text(self) -> str:
        """Return all functions, helpers first."""
        parts = [self._initial(), self._current()]
        if self.states:
            parts.append(self._advance())
        if self.eq.events:
            parts.append(self._event())
        body = "\n".join(parts)
        return helpers(body, self.prefix, self.real) + body

    def _worked_out(self) -> tuple[str, ...]:
        return tuple(s.name.strip() for s in self.constants.values())

    def _printer(self, indent: str = "    ") -> Printer:
        return Printer(self.prefix, self.real, indent, self.width)

    # -------------------------------------------------------------------- what is constant

    def _lifted(self, e: Any, new: bool = True) -> Any:
        """Put constants in place of expensive expressions of single parameters and the step.

        Without `new`, only those that are constants already.
        """
        known = {symbol(name) for name in self.single}
        known |= {local("dt")} if self.eq.substeps == 1 else set()
        if not self.lifts or not e.args or not e.free_symbols & known:
            return e
        if e.free_symbols <= known:
            return self._constant(e, new) if e.has(sp.Function, sp.Pow) else e
        if e.is_Add or e.is_Mul:
            own = [a for a in e.args if a.free_symbols and a.free_symbols <= known]
            rest = [self._lifted(a, new) for a in e.args if a not in own]
            return e.func(self._lifted(e.func(*own), new), *rest)
        return e.func(*(self._lifted(a, new) for a in e.args))

    def _constant(self, e: Any, new: bool) -> Any:
        if e not in self.constants and not new:
            return e
        if e not in self.constants:
            name = next((n for n, value in self.eq.named.items() if value == e), "")
            self.constants[e] = local(safe(name) if name else f"c{len(self.constants)}")
        return self.constants[e]

    def _block(self, results: list[Any], named: dict[str, Any]) -> Block:
        """Return the assignments of results and named expressions without constants."""
        values = [self._lifted(e) for e in results]
        lifted = {name: self._lifted(value, new=False) for name, value in named.items()}
        return block(values, {name: value for name, value in lifted.items() if value.args})

    def _constants(self, plain: Source) -> str:
        names = self._worked_out()
        p = plain._printer()
        values = p.block(block(list(self.constants), {}))
        inputs = ("dt", *(a for a in self.parameters if a in map(safe, self.single)))
        f = _Function("constants", inputs, names, comment="what does not change from step to step")
        return plain._frame(f, p.lines, values)

    def _named(self, used: set[str]) -> dict[str, Any]:
        """Intermediate expressions that need nothing but `used`."""
        return {
            name: value
            for name, value in self.eq.named.items()
            if not value.is_number and {s.name for s in value.free_symbols} <= used
        }

    def _names(self, *more: str) -> set[str]:
        states = (q.name for q in self.eq.states)
        return {*(q.name for q in self.eq.parameters), *states, *more}

    # ------------------------------------------------------------------------------ parts

    def _initial(self) -> str:
        names = self._names("v") - {q.name for q in self.eq.states}
        order = [q.name for q in self.eq.states]
        code = block([self.eq.initial[s] for s in order], self._named(names))
        p = self._printer()
        values = p.block(code)
        f = _Function(
            "initial", ("v", *self.parameters), self.states, comment="states at the start, at v"
        )
        return self._frame(f, p.lines, values)

    def _current(self) -> str:
        eq = self.eq
        slope = eq.current.diff(symbol("v"))
        code = self._block([eq.current, slope], self._named(self._names("v", "t", "noise")))
        p = self._printer()
        values = p.block(code)
        noise = ("noise",) if uses(eq.current, "noise") else ()
        unit, per = ("mA/cm2", "S/cm2") if eq.kind == "density" else ("nA", "uS")
        f = _Function(
            "current",
            ("v", "t", *self.parameters, *self._worked_out(), *self.states, *noise),
            ("i", "g"),
            comment=f"i in {unit}, outward; g = di/dv in {per}",
        )
        return self._frame(f, p.lines, values)

    def _event(self) -> str:
        order = [s for s in (q.name for q in self.eq.states) if s in self.eq.events]
        code = block([self.eq.events[s] for s in order], self._named(self._names("weight")))
        p = self._printer()
        values = p.block(code)
        f = _Function(
            "event",
            ("weight", *self.parameters),
            tuple(safe(s) for s in order),
            self.states,
            comment="what an event of this weight does",
        )
        return self._frame(f, p.lines, values)

    # ---------------------------------------------------------------------------- advance

    def _advance(self) -> str:
        eq = self.eq
        stepped = tuple(eq.rates) if eq.method_for_all else eq.nonlinear
        exact = [s for s in eq.rates if s not in stepped]
        f = _Function(
            "advance",
            ("v", "t", "dt", *self.parameters, *self._worked_out()),
            self.states,
            self.states,
            comment=f"one step; v is its last voltage, t its begin; {self._how(exact, stepped)}",
        )
        if not eq.rates:
            return self._frame(f, [], list(self.states))
        loop = eq.substeps > 1
        p = self._printer("        " if loop else "    ")
        h = "substep" if loop else "dt"
        values = p.block(self._exact_block(exact, h))
        new = dict(zip((safe(s) for s in exact), values, strict=True))
        new |= self._stepped(p, stepped, h)
        before = self._rate_function(stepped) if stepped else ""
        if not loop:
            return before + self._frame(f, p.lines, [new.get(s, s) for s in self.states])
        return before + self._frame(f, self._loop(p, new), list(self.states))

    def _how(self, exact: list[str], stepped: tuple[str, ...]) -> str:
        parts = [f"{', '.join(exact)} by exponential Euler"] if exact else []
        parts += [f"{', '.join(stepped)} by {self.eq.method}"] if stepped else []
        return "; ".join(parts) or "nothing changes"

    def _exact_block(self, exact: list[str], h: str) -> Block:
        step, results = local(h), []
        middle = symbol("t") + step / 2
        for name in exact:
            parts = linear_parts(self.eq.rates[name], name)
            assert parts is not None
            a, b = (part.subs(symbol("t"), middle) for part in parts)
            x = symbol(name)
            if b == 0:
                results.append(x + step * a)
            elif a == 0:
                results.append(x * sp.exp(b * step))
            else:
                results.append(x + Weight(b, step) * (a + b * x))
        names = self._names("v")
        return self._block(results, self._named(names))

    def _rate_function(self, stepped: tuple[str, ...]) -> str:
        code = block([self.eq.rates[s] for s in stepped], self._named(self._names("v", "t")))
        p = self._printer()
        values = p.block(code)
        f = _Function(
            "rate_",
            ("v", "t", *self.parameters, *self.states),
            tuple(f"d{s}" for s in stepped),
            comment="time derivatives",
        )
        return self._frame(f, p.lines, values) + "\n"

    def _stepped(self, p: Printer, stepped: tuple[str, ...], h: str) -> dict[str, str]:
        """Add the stages of a method, and return the new values of its states."""
        if not stepped:
            return {}
        states = [safe(s) for s in stepped]
        half = f"{p.number(0.5)} * {h}"
        self._stage(p, stepped, "1", "t", {})
        if self.eq.method == "euler":
            return {s: f"{s} + {h} * k1_{s}_" for s in states}
        at = {s: f"{s} + {half} * k1_{s}_" for s in states}
        self._stage(p, stepped, "2", f"t + {half}", at)
        if self.eq.method == "rk2":
            return {s: f"{s} + {h} * k2_{s}_" for s in states}
        at = {s: f"{s} + {half} * k2_{s}_" for s in states}
        self._stage(p, stepped, "3", f"t + {half}", at)
        at = {s: f"{s} + {h} * k3_{s}_" for s in states}
        self._stage(p, stepped, "4", f"t + {h}", at)
        two, sixth = p.number(2), p.number(sp.Rational(1, 6))
        return {
            s: f"{s} + {sixth} * {h} * (k1_{s}_ + {two} * (k2_{s}_ + k3_{s}_) + k4_{s}_)"
            for s in states
        }

    def _stage(
        self, p: Printer, stepped: tuple[str, ...], k: str, t: str, at: dict[str, str]
    ) -> None:
        outputs = [f"k{k}_{safe(s)}_" for s in stepped]
        inputs = ", ".join(["v", t, *self.parameters, *(at.get(s, s) for s in self.states)])
        if p.python:
            p.lines.append(f"{p.indent}{', '.join(outputs)}, = {self.prefix}_rate_({inputs})")
        else:
            p.lines.append(f"{p.indent}{p.type} {', '.join(outputs)};")
            begin = f"{p.indent}{self.prefix}_rate_("
            given = ["v", t, *self.parameters, *(at.get(s, s) for s in self.states)]
            given += [f"&{o}" for o in outputs]
            p.lines.append(begin + _wrapped(given, len(begin)) + ");")

    def _loop(self, p: Printer, new: dict[str, str]) -> list[str]:
        n = self.eq.substeps
        share = p.number(sp.Rational(1, n))
        if p.python:
            inside = f"        {', '.join(new)}, t = {', '.join(new.values())}, t + substep"
            return [f"    substep = dt * {share}", f"    for _ in range({n}):", *p.lines, inside]
        lasts = (f"        const {p.type} new_{s}_ = {value};" for s, value in new.items())
        body = [*p.lines, *(folded(line) for line in lasts)]
        body += [f"        {s} = new_{s}_;" for s in new]
        if self._uses_clock():
            body.append("        t += substep;")
        first = f"    const real substep = dt * {share};"
        return [first, f"    for (int part = 0; part < {n}; part++) {{", *body, "    }"]

    def _uses_clock(self) -> bool:
        return any(uses(rate, "t") for rate in self.eq.rates.values())

    # ------------------------------------------------------------------------------ frame

    def _frame(self, f: _Function, lines: list[str], values: list[str]) -> str:
        return self._python(f, lines, values) if self.real == "numpy" else self._c(f, lines, values)

    def _python(self, f: _Function, lines: list[str], values: list[str]) -> str:
        inputs = ", ".join((*f.inputs, *f.changes))
        result = f"def {self.prefix}_{f.suffix}({inputs}):\n"
        result += "".join(line + "\n" for line in lines)
        return result + f"    return ({', '.join(values)}{',' if values else ''})\n\n"

    def _c(self, f: _Function, lines: list[str], values: list[str]) -> str:
        outputs = [o for o in f.outputs if o not in f.changes]
        loops = self.eq.substeps > 1 and f.suffix == "advance"
        moving = ("t",) if loops and self._uses_clock() else ()
        kind = vector(self.width)
        alike = {"t", "dt", "weight", *map(safe, self.single), *self._worked_out()}
        arguments = [
            f"{'' if a in moving else 'const '}{'real' if a in alike else kind} {a}"
            for a in f.inputs
        ]
        arguments += [f"{kind} *{a}_" for a in (*f.changes, *outputs)]
        result = f"static void {self.prefix}_{f.suffix}("
        result += _wrapped(arguments, len(result)) + ")\n{\n"
        kind = kind if loops else f"const {kind}"
        result += "".join(f"    {kind} {s} = *{s}_;\n" for s in f.changes)
        result += "".join(line + "\n" for line in lines)
        for output, value in zip(f.outputs, values, strict=True):
            result += folded(f"    *{output}_ = {value};") + "\n"
        return f"// {f.comment}\n{result}}}\n"


def folded(line: str, width: int = 100) -> str:
    """Break a long statement of C at spaces, four columns further in."""
    start = len(line) - len(line.lstrip()) + 4
    lines = []
    while len(line) > width:
        at = line.rfind(" ", start, width)
        if at < 0:
            break
        lines.append(line[:at])
        line = " " * start + line[at + 1 :]
    return "\n".join([*lines, line])


def _wrapped(parts: list[str], indent: int, width: int = 100) -> str:
    lines = [parts[0]]
    for part in parts[1:]:
        if indent + len(lines[-1]) + len(part) + 3 > width:
            lines[-1] += ","
            lines.append(part)
        else:
            lines[-1] += ", " + part
    return ("\n" + " " * indent).join(lines)


def uses(expression: Any, name: str) -> bool:
    """Whether a name stands in an expression."""
    return symbol(name) in expression.free_symbols


def is_constant(eq: Equations) -> bool:
    """Whether the current is linear in v with coefficients of parameters only, without states."""
    if eq.states or any(uses(test, "v") for test in eq.current.atoms(Less)):
        return False
    v, allowed = symbol("v"), {q.name for q in eq.parameters}
    slope = eq.current.diff(v)
    rest = eq.current.subs(v, 0)
    return all({s.name for s in e.free_symbols} <= allowed for e in (slope, rest))
