"""Rate functions for lanes that work side by side: without branches, and with quick divisions.

All functions take the numbers of their series, `coefficients`, as a first argument, ``series__``.

A mechanism's functions choose between a series and an exponential by branches, which keep the
chains of operations of several gates apart. Here their helpers are those of
``common/rates.mako``, which compute both sides, and where the compiler takes PTX a quotient of
doubles is a product with `node_inverse_`, which has no slow path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from clhines.mechanisms.emit.exponentials import LOG2, series
from clhines.mechanisms.emit.helpers import bernoulli_coefficients

WEIGHTS = Fraction(-3, 4), Fraction(0)  # rates times dt for which weights have a polynomial
NEAR = 0.5  # |x| below which x / (exp(x) - 1) is a series
_HELPERS = ("bernoulli_slope", "bernoulli", "weight")
_RELAXES = re.compile(
    r"(?P<x>\w+) \+ node_weight_\(series__, (?P<rate>\w+), dt\)\s\*\s"
    r"\((?P<inverse>\w+) \* (?P<y>\w+) \+ (?P=rate) \* (?P=x)\)"
)
_QUOTIENT = re.compile(r"/(\s+)(?=[\w(])")
_HEAD = re.compile(r"(\w+)\(const node_series_ series__")
_LINE = re.compile(r"(?m)^    const real (\w+) = ([^;]+);\n")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_CALL = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\(")
_PURE = frozenset(
    {
        *("pow", "exp", "log", "log10", "sqrt", "fabs", "fmin", "fmax", "floor", "ceil", "fma"),
        *("sin", "cos", "tan", "tanh", "node_exp_", "node_inverse_"),
    }
)  # functions of their arguments alone
_OPERAND = re.compile(r"(?:\d[\w.]*(?:(?<=e)[-+]\d+)?|\w+)?")


def side_by_side(source: str, prefix: str, quick: bool) -> str:
    """Return a mechanism's functions, whose names begin with `prefix`, with these helpers.

    `quick`: divide by `node_inverse_`.
    """
    functions = re.split(r"(?<=\n}\n)\n", source)
    names, own = "|".join(_HELPERS), re.escape(prefix)
    helper = re.compile(rf"(?m)^static \w+ {own}_({names})_\(")
    text = "\n".join(f for f in functions if not helper.search(f))
    text = re.sub(r"(?m)^//.*\n", "", text)
    text = re.sub(rf"(?m)^(static [\w ]+\b{own}_\w+)\(", r"\1(const node_series_ series__, ", text)
    text = text.replace("(const node_series_ series__, void)", "(const node_series_ series__)")
    text = re.sub(rf"\b{own}_({names})_\(", r"node_\1_(series__, ", text)
    text = re.sub(rf"\b({own}_\w+)\((?!const node_series_ )", r"\1(series__, ", text)
    text = re.sub(r"(?<![\w.])exp\(", "node_exp_(series__, ", text)
    text = _RELAXES.sub(_relaxed, text)
    return with_inverses(text) if quick else text


def _relaxed(found: re.Match[str]) -> str:
    """Return a step of ``x' = (y - x) / tau`` without a quotient by the rate."""
    x, y, rate, inverse = (found[name] for name in ("x", "y", "rate", "inverse"))
    before = found.string[: found.start()]
    declared = before.rfind(f" {rate} = ")
    if not before[declared:].startswith(f" {rate} = -{inverse};"):
        return found[0]
    return f"{x} + node_grown_(series__, {rate} * dt) * ({x} - {y})"


def with_inverses(source: str) -> str:
    """Return source in which quotients are products with `node_inverse_`.

    >>> with_inverses("x = a * b / (c + 1.0) + 1.0 / exp(z);")
    'x = a * b * node_inverse_(c + 1.0) + 1.0 * node_inverse_(exp(z));'
    """
    code = re.sub(r"(?m)^//.*\n", "", source)
    done, at = "", 0
    for found in _QUOTIENT.finditer(code):
        if found.start() < at:  # inside an operand that is done
            continue
        end = _end_of_operand(code, found.end())
        if end < 0:
            continue
        operand = with_inverses(code[found.end() : end])
        if operand.startswith("("):
            operand = operand[1:-1]
        done += code[at : found.start()] + f"*{found[1]}node_inverse_({operand})"
        at = end
    return done + code[at:]


def with_once(
    source: str, given: Mapping[str, Mapping[str, str]], first: int, most: int
) -> tuple[str, list[str]]:
    r"""Return functions that read what all their calls have in common, and who works it out.

    `given` has of a function, by its name, the arguments that are the same in each call, with
    their expressions in the kernel. What takes a call or a quotient and depends on these alone is
    an element of ``once__`` from `first` on, of which there are `most`; all of `given` then have
    that argument, behind ``series__``.

    >>> source = "void f(const node_series_ series__, const real q, real *x)"
    >>> source += "\n{\n    const real y = pow(q, 2);\n    *x = y;\n}\n"
    >>> with_once(source, {"f": {"q": "numbers.n0"}}, 3, 8)[1]
    ['const real q = numbers.n0; const real y = pow(q, 2); once__[3] = y;']
    """
    functions, blocks = re.split(r"(?<=\n}\n)\n", source), list[str]()
    names = [found[1] if (found := _HEAD.search(f)) else "" for f in functions]
    for number, (name, function) in enumerate(zip(names, functions, strict=True)):
        text, values = _once_of(function, given.get(name, {}))
        if not values or first + len(values) > most:
            continue
        places = list(enumerate(values, first))
        reads = (f"    const real {n} = once__[{k}];\n" for k, n in places)
        functions[number] = text.replace("\n{\n", "\n{\n" + "".join(reads), 1)
        ends = (f"once__[{k}] = {n};" for k, n in places)
        blocks.append(" ".join((*next(iter(values.values())), *ends)))
        first += len(values)
    if not blocks:
        return source, []
    for number, name in enumerate(names):
        if name in given:
            functions[number] = _HEAD.sub(
                r"\g<0>, __local const real *once__", functions[number], 1
            )
    return "\n".join(functions), blocks


def _once_of(function: str, given: Mapping[str, str]) -> tuple[str, dict[str, list[str]]]:
    """Return a function less what is worked out once, and by name the statements of all that."""
    known = {n: f"const real {n} = {x};" if n != x else "" for n, x in given.items()}
    costly = set[str]()
    for found in _LINE.finditer(function):
        calls = set(_CALL.findall(found[2]))
        names = set(_NAME.findall(found[2])) - calls - {"series__"}
        if names <= known.keys() and calls <= _PURE:
            known[found[1]] = found[0].strip()
            if calls or "/" in found[2] or names & costly:
                costly.add(found[1])
    rest = _LINE.sub(lambda found: "" if found[1] in costly else found[0], function)
    for found in dict.fromkeys(re.findall(r"node_inverse_\((\w+)\)", rest)):
        if found in known:
            inverse = f"{found}__inverse"
            known[inverse] = f"const real {inverse} = node_inverse_({found});"
            costly.add(inverse)
            rest = rest.replace(f"node_inverse_({found})", inverse)
    read = [name for name in known if name in costly and name in _NAME.findall(rest)]
    needed = set(read)
    for name in reversed(known):
        if name in needed:
            needed |= set(_NAME.findall(known[name])) & known.keys()
    statements = [text for name, text in known.items() if name in needed and text]
    return rest, dict.fromkeys(read, statements)


def _end_of_operand(code: str, begin: int) -> int:
    """Return where a number, name, call or bracket ends; -1 for something else."""
    found = _OPERAND.match(code, begin)
    end = found.end() if found else begin
    if code[end : end + 1] != "(":
        return end if end > begin else -1
    depth = 0
    for k in range(end, len(code)):
        depth += (code[k] == "(") - (code[k] == ")")
        if not depth:
            return k + 1
    return -1


def coefficients(real: str) -> dict[str, float]:
    """Numbers that ``common/rates.mako`` takes, by name.

    ``exp_K`` is the coefficient of ``x**K`` in a polynomial for ``(exp(x) - 1) / x`` but for 1 and
    1/2; ``bernoulli_K`` that of ``x**2(K + 1)`` in ``x / (exp(x) - 1)``, enough of them for
    ``|x| < NEAR``; ``log_high`` and ``log_low`` add up to log(2), ``log_inverse`` is 1 over that.
    ``nearly_zero`` is so small that it changes no rate. ``weight_K`` is the coefficient of ``x**K``
    in a polynomial for ``(exp(x) - 1) / x`` between `WEIGHTS`.
    """
    eps = float(np.finfo(np.float64 if real == "double" else np.float32).eps)
    found = {}
    for k, value in enumerate((1.0, 0.5, *series(real, -LOG2 / 2, LOG2 / 2, 32)[2:])):
        found[f"exp_{k}"] = _short(value, LOG2 / 2, k, eps)
    for k, exact in enumerate(bernoulli_coefficients(real)):
        found[f"bernoulli_{k}"] = _short(float(exact), NEAR, 2 * k + 2, eps)
        if abs(exact) * NEAR ** (2 * k + 2) < eps / 64:
            break
    high = float(np.float32(float(LOG2))) if real == "float" else float(LOG2)
    found |= {"log_high": high, "log_low": float(LOG2 - Fraction(high))}
    found["log_inverse"] = float(1 / LOG2)
    for k, value in enumerate(series(real, *WEIGHTS)):
        found[f"weight_{k}"] = _short(value, -WEIGHTS[0], k, eps)
    return {**found, "nearly_zero": 1e-290 if real == "double" else 1e-30}


def arguments(real: str) -> dict[str, float]:
    """Those of the `coefficients` that are no part of an instruction of a GPU.

    Such a part is a number of 32 bits, or a double whose last 32 bits are 0. Weights' polynomials
    stay literals: three are computed side by side, which share them.
    """
    every = {k: v for k, v in coefficients(real).items() if k[:7] != "weight_"}
    if real == "float":
        return {"nearly_zero": every["nearly_zero"]}
    return {k: v for k, v in every.items() if np.float64(v).view(np.int64) & 0xFFFFFFFF}


@dataclass(frozen=True)
class SeriesNumbers:
    """Numbers of ``common/rates.mako`` in one precision, as its template prints them."""

    near: ClassVar[float] = NEAR
    weights_from: ClassVar[float] = float(WEIGHTS[0])
    real: str

    @property
    def arguments(self) -> dict[str, float]:
        """Numbers that are arguments of the kernel; as literals they take two instructions."""
        return arguments(self.real)

    @property
    def coefficients(self) -> dict[str, str]:
        """Source of all numbers by name: of ``series__``, or literals."""
        own, real = self.arguments, np.float64 if self.real == "double" else np.float32
        return {
            name: f"series__.{name}" if name in own else f"({real(value).item()!r}{self.suffix})"
            for name, value in coefficients(self.real).items()
        }

    @property
    def suffix(self) -> str:
        """End of a literal."""
        return "" if self.real == "double" else "f"


def _short(value: float, reach: Fraction | float, power: int, eps: float) -> float:
    """Leave out the last 32 bits of a coefficient where its term is too small to need them."""
    if abs(value) * float(reach) ** power * 2.0**-21 > eps / 16:
        return value
    bits = (np.float64(value).view(np.int64) + (1 << 31)) & ~np.int64(0xFFFFFFFF)
    return float(bits.view(np.float64))
